//! Whole kernels: loops, branches, memory and calls.

use super::*;

/// Runs a kernel `k(.param .u64 data)` both ways on random data, 256 bytes a thread, and compares all of it.
fn agree(name: &str, rest: &str) {
    let text = format!(".version 8.0\n.target sm_90a\n.address_size 64\n{rest}");
    let (module, mut found) = orias_ptx::parse(text.as_bytes());
    let options = orias_ptx::Options::for_architecture("sm_90a").expect("a target");
    found.append(orias_ptx::check(&module, &options));
    assert!(
        !found.has_errors(),
        "{}",
        found.to_excerpts(name, text.as_bytes())
    );
    let mut lowered = match lower(&module, &LowerOptions::default()) {
        Ok(lowered) => lowered,
        Err(problems) => panic!("{name}: {problems:?}"),
    };
    let symbols = lowered.symbols.clone();
    let function = &mut lowered.kernels[0].code;
    assert_eq!(
        verify_function(function),
        Ok(()),
        "{}",
        print_function(function)
    );
    expand(function);
    let mut random = synth::Random::new(text.len() as u64);
    let bytes: Vec<u8> = (0..256 * THREADS)
        .map(|_| random.below(256) as u8)
        .collect();
    let mut program = Program::load(&module).unwrap_or_else(|error| panic!("{name}: {error}"));
    let data = program.memory_mut().allocate(bytes.clone());
    let launch = Launch::new("k", [1, 1, 1], [THREADS as u32, 1, 1]).argument(data.to_le_bytes());
    if let Err(fault) = program.launch(&launch) {
        panic!("{name}: {fault}");
    }
    let want = program.memory().read(data, bytes.len()).expect("the data");
    let (constants, _) = orias_codegen::constant_places(&symbols);
    let place = |name: &str| {
        let constant = constants.iter().find(|(symbol, _)| *symbol == name);
        if let Some(&(_, start)) = constant {
            return start;
        }
        let index = symbols.iter().position(|symbol| symbol.name == name);
        0x100_0000 + 0x1_0000 * index.unwrap_or(0) as u64
    };
    for thread in 0..THREADS {
        let mut memory = Memory::default();
        memory.store(Space::Param, 0, data.into(), 8);
        for (offset, &byte) in bytes.iter().enumerate() {
            memory.store(Space::Global, data + offset as u64, byte.into(), 1);
        }
        for symbol in &symbols {
            let space = match symbol.space {
                orias_codegen::SymbolSpace::Global => Space::Global,
                orias_codegen::SymbolSpace::Const => Space::Const,
                _ => Space::Shared,
            };
            for (offset, &byte) in symbol.initial.iter().flatten().enumerate() {
                memory.store(space, place(&symbol.name) + offset as u64, byte.into(), 1);
            }
            for relocation in &symbol.relocations {
                let address = place(&relocation.symbol).wrapping_add_signed(relocation.addend)
                    >> relocation.shift;
                let at = place(&symbol.name) + relocation.offset;
                memory.store(space, at, address.into(), relocation.bytes.into());
            }
        }
        let end = run(
            function,
            &[],
            Run {
                memory: &mut memory,
                special: &|special| u64::from(special == Special::TidX) * thread as u64,
                symbol: &place,
                approximate: &|which, bits| {
                    machine(
                        which.op,
                        which.scalar == orias_ori::operation::Scalar::F64,
                        bits,
                    )
                },
                limit: 1_000_000,
            },
        );
        assert_eq!(end, Ok(End::Exit), "{name}\n{}", print_function(function));
        for offset in 0..256 {
            let at = 256 * thread + offset;
            let have = memory.load(Space::Global, data + at as u64, 1) as u8;
            assert_eq!(
                have,
                want[at],
                "{name}, thread {thread}, byte {offset}\n{}",
                print_function(function)
            );
        }
    }
}

/// The start of a kernel that leaves the address of the thread's data in `%d`.
const START: &str = ".visible .entry k(.param .u64 data)\n{\n.reg .b64 %d, %base; .reg .b32 %t;\nld.param.u64 %base, [data];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %d, %t, 256, %base;\n";

#[test]
fn loops_carry_registers_around() {
    // Two registers change places: neither may be lost.
    agree(
        "swap",
        &format!(
            "{START}.reg .b32 %a, %b, %c, %n; .reg .pred %p;
            ld.global.u32 %a, [%d]; ld.global.u32 %b, [%d+4]; ld.global.u8 %n, [%d+8];
            again: mov.u32 %c, %a; mov.u32 %a, %b; mov.u32 %b, %c; sub.s32 %n, %n, 1;
            setp.gt.s32 %p, %n, 0; @%p bra again;
            st.global.v2.u32 [%d+16], {{%a, %b}}; ret; }}"
        ),
    );
    agree(
        "collatz",
        &format!(
            "{START}.reg .b32 %x, %n, %y; .reg .pred %p, %q;
            ld.global.u8 %x, [%d]; add.u32 %x, %x, 1; mov.u32 %n, 0;
            next: setp.eq.u32 %p, %x, 1; @%p bra done; and.b32 %y, %x, 1; setp.ne.u32 %q, %y, 0;
            @%q mad.lo.u32 %x, %x, 3, 1; @!%q shr.u32 %x, %x, 1; add.u32 %n, %n, 1;
            setp.lt.u32 %p, %n, 500; @%p bra next;
            done: st.global.u32 [%d+8], %n; @%q st.global.u32 [%d+12], %x; ret; }}"
        ),
    );
    // Nested loops, a way out of both, a loop entered in two places, a register defined on one way only.
    agree(
        "nest",
        &format!(
            "{START}.reg .b32 %i, %j, %s, %m, %u; .reg .pred %p, %q;
            ld.global.u8 %m, [%d]; mov.u32 %s, 0; mov.u32 %i, 0; mov.u32 %j, 3; mov.u32 %u, 7;
            setp.gt.u32 %p, %m, 128; @%p bra middle;
            outer: mov.u32 %j, 0; mov.u32 %u, %i;
            inner: mad.lo.u32 %s, %i, %j, %s; add.u32 %j, %j, 1;
            middle: add.u32 %s, %s, %u; setp.gt.u32 %q, %s, 4000; @%q bra out;
            setp.lt.u32 %p, %j, 9; @%p bra inner;
            add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %m; @%p bra outer;
            st.global.u32 [%d+20], %i;
            out: st.global.u32 [%d+16], %s; ret; }}"
        ),
    );
}

#[test]
fn branches_by_index_and_predicates() {
    agree(
        "switch",
        &format!(
            "{START}.reg .b32 %i, %r; .reg .pred %p, %q, %s, %t2;
            ld.global.u8 %i, [%d]; and.b32 %i, %i, 3; mov.u32 %r, 100;
            list: .branchtargets zero, one, two, one;
            brx.idx %i, list;
            zero: add.u32 %r, %r, 1; bra end;
            one: add.u32 %r, %r, %i;
            two: mul.lo.u32 %r, %r, 3;
            end: setp.eq.u32 %p, %i, 1;
            setp.gt.or.u32 %s|%t2, %r, 200, %p; not.pred %q, %s; xor.pred %q, %q, %p; @%q add.u32 %r, %r, 7;
            selp.u32 %i, %r, %i, !%s; @!%t2 setp.ne.u32 %p, %r, 107; @%p xor.b32 %r, %r, 0xff;
            st.global.v2.b32 [%d+8], {{%r, %i}}; ret; }}"
        ),
    );
}

#[test]
fn memory_of_all_sizes() {
    agree(
        "sizes",
        &format!(
            "{START}.reg .b16 %h<6>; .reg .b32 %r<6>; .reg .b64 %l<6>; .reg .f32 %f<4>; .reg .pred %p;
            ld.global.s8 %r1, [%d+1]; ld.global.u8 %l1, [%d+2]; ld.global.s16 %l2, [%d+4]; ld.global.b8 %h1, [%d+7];
            ld.global.v2.u16 {{%h2, %h3}}, [%d+8]; ld.global.v4.s8 {{%r2, %r3, %r0, %r5}}, [%d+12];
            ld.global.v4.b32 {{%r4, _, %f1, %r5}}, [%d+16]; ld.global.v2.b64 {{%l3, %l4}}, [%d+32];
            setp.lt.s32 %p, %r1, 0; @%p ld.global.v2.b32 {{%r4, %r5}}, [%d+48]; @!%p ld.global.s8 %l1, [%d+3];
            st.global.b32 [%d+128], %r1; st.global.b64 [%d+136], %l1; st.global.b64 [%d+144], %l2;
            st.global.v2.b16 [%d+152], {{%h3, %h2}}; st.global.v4.b8 [%d+156], {{%r3, %r2, %r0, %r5}};
            st.global.v4.b32 [%d+160], {{%r5, %r4, %f1, 7}}; st.global.v2.b64 [%d+176], {{%l4, %l3}};
            st.global.b8 [%d+192], %l4; st.global.b16 [%d+194], %r2; st.global.v4.b8 [%d+196], {{%h1, 1, 2, %h2}};
            mov.b64 %l5, {{%h1, %h2, %h3, %h2}}; mov.b64 {{%r1, %r2}}, %l5; mov.b32 {{%h1, _}}, %r2; mov.b32 %r3, {{%h3, %h1}};
            st.global.b64 [%d+200], %l5; st.global.v2.b32 [%d+208], {{%r2, %r3}}; ret; }}"
        ),
    );
    agree(
        "spaces",
        &format!(
            ".global .align 4 .u32 table[8] = {{3, 1, 4, 1, 5, 9, 2, 6}};
            .global .align 8 .u64 pointers[2] = {{table, table+8}};
            .const .align 4 .f32 numbers[3] = {{0f3F800000, 2.5, -0.125}};
            .global .align 2 .u16 matrix[2][3] = {{{{1, 2}}, {{3, 4, 5}}}};
            {START}.local .align 8 .b8 depot[64]; .reg .b32 %r<8>; .reg .b64 %l<8>; .reg .f32 %f<4>;
            ld.global.u8 %r1, [%d]; and.b32 %r1, %r1, 7; mul.wide.u32 %l1, %r1, 4; mov.u64 %l2, table; add.u64 %l2, %l2, %l1;
            ld.global.u32 %r2, [%l2]; ld.global.u32 %r3, [table+20]; ld.const.f32 %f1, [numbers+4];
            mov.u64 %l3, depot; add.u64 %l4, %l3, %l1; st.local.u32 [%l4], %r2; st.local.u32 [%l4+32], %r3;
            ld.local.u32 %r4, [%l4]; ld.local.v2.u32 {{%r5, %r6}}, [depot+32]; st.local.v2.u32 [depot+32], {{%r5, %r6}};
            ld.global.u64 %l5, [pointers+8]; ld.global.u32 %r7, [%l5+4]; ld.global.u16 %r5, [matrix+6]; ld.local.u32 %r6, [%l4+32];
            st.global.v4.u32 [%d+128], {{%r4, %r6, %r7, %r5}}; st.global.f32 [%d+144], %f1; ret; }}"
        ),
    );
}

#[test]
fn functions_are_inlined() {
    agree(
        "calls",
        &format!(
            ".func (.param .align 8 .b8 out[16]) pair(.param .b64 a, .param .align 4 .b8 s[12], .param .b8 c)
            {{ .reg .b64 %l<4>; .reg .b32 %r<6>; .reg .b16 %h<2>; .reg .pred %p;
            ld.param.b64 %l1, [a]; ld.param.b32 %r1, [s+4]; ld.param.u8 %h1, [c]; ld.param.s16 %r2, [s+8]; cvt.u32.u16 %r3, %h1;
            setp.gt.u32 %p, %r3, 100; st.param.b64 [out], %l1; @%p bra big;
            st.param.b32 [out+8], %r1; st.param.b16 [out+12], %r2; st.param.b8 [out+14], %r3; st.param.b8 [out+15], 1; ret;
            big: add.u32 %r1, %r1, %r3; st.param.v2.b32 [out+8], {{%r1, %r2}}; ret; }}
            .func (.reg .b32 %sum) twice(.reg .b32 %x) {{ add.u32 %sum, %x, %x; ret; }}
            .func (.param .b32 r) pick(.param .align 16 .b8 v[16], .param .b32 i)
            {{ .reg .b64 %l<4>; .reg .b32 %r<4>;
            ld.param.b32 %r1, [i]; and.b32 %r1, %r1, 3; mul.wide.u32 %l1, %r1, 4; mov.b64 %l2, v; add.u64 %l2, %l2, %l1;
            ld.param.b32 %r2, [%l2]; call (%r3), twice, (%r2); st.param.b32 [r], %r3; ret; }}
            {START}.reg .b64 %l<4>; .reg .b32 %r<8>; .reg .pred %p;
            ld.global.b64 %l1, [%d]; ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%d+16];
            {{ .param .b64 a; .param .align 4 .b8 s[12]; .param .b8 c; .param .align 8 .b8 out[16];
            st.param.b64 [a], %l1; st.param.v2.b32 [s], {{%r1, %r2}}; st.param.b32 [s+8], %r3; st.param.b8 [c], %r4;
            call (out), pair, (a, s, c);
            ld.param.b64 %l2, [out]; ld.param.v2.b32 {{%r5, %r6}}, [out+8]; }}
            mov.u32 %r7, 5; setp.lt.s32 %p, %r1, 0;
            @%p bra skip;
            {{ .param .align 16 .b8 v[16]; .param .b32 i; .param .b32 r;
            st.param.v4.b32 [v], {{%r1, %r2, %r3, %r4}}; st.param.b32 [i], %r5; call (r), pick, (v, i); ld.param.b32 %r7, [r]; }}
            skip: @%p call (%r7), twice, (%r2);
            st.global.b64 [%d+128], %l2; st.global.v4.b32 [%d+144], {{%r5, %r6, %r7, %r1}}; ret; }}"
        ),
    );
}

#[test]
fn integers_of_many_words_carry() {
    agree(
        "carry",
        &format!(
            "{START}.reg .b32 %a<4>, %b<4>, %c<9>; .reg .b64 %l<6>;
            ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%d]; ld.global.v4.b32 {{%b0, %b1, %b2, %b3}}, [%d+16];
            add.cc.u32 %c0, %a0, %b0; addc.cc.u32 %c1, %a1, %b1; addc.cc.u32 %c2, %a2, %b2; addc.u32 %c3, %a3, %b3;
            sub.cc.u32 %c4, %a0, %b0; subc.cc.u32 %c5, %a1, %b1; subc.cc.u32 %c6, %a2, %b2; subc.u32 %c7, %a3, %b3;
            st.global.v4.b32 [%d+128], {{%c0, %c1, %c2, %c3}}; st.global.v4.b32 [%d+144], {{%c4, %c5, %c6, %c7}};
            mad.lo.cc.u32 %c0, %a0, %b0, %c4; madc.hi.cc.u32 %c1, %a0, %b0, %c5; madc.lo.cc.u32 %c2, %a1, %b1, %c6; madc.hi.u32 %c3, %a1, %b1, %c7;
            st.global.v4.b32 [%d+160], {{%c0, %c1, %c2, %c3}};
            ld.global.v2.b64 {{%l0, %l1}}, [%d]; ld.global.v2.b64 {{%l2, %l3}}, [%d+16];
            mad.lo.cc.u64 %l4, %l0, %l2, %l1; madc.hi.u64 %l5, %l0, %l2, %l3; st.global.v2.b64 [%d+176], {{%l4, %l5}};
            add.cc.u64 %l4, %l0, %l2; addc.u64 %l5, %l1, %l3; st.global.v2.b64 [%d+192], {{%l4, %l5}}; ret; }}"
        ),
    );
}
