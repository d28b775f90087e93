//! Declarations, operands and constants written in every way, right and wrong: ptxas's verdict, and messages that hold.
//!
//! `conformance constructs [EVERY]` multiplies the tables below: vectors of constant data, special registers in every place, conversions
//! with saturation, sums as operands, parameters of functions, 128 bits, constant expressions, and initial values, each with every type
//! and form. `ptxas -arch=sm_90a` assembles each program (its verdicts are kept in `target/ptx-oracle`), and so does the command, whose
//! messages are held to what `conformance refused` asks. With EVERY only each EVERY-th program runs.
//!
//! A program that the two disagree about must be of a kind in [`EXPLAINED`].

use super::ptx::verdict::{Oracle, Verdict};
use super::refused::{self, Program};
use crate::{oracle, parallel};

/// Kinds of programs that ptxas takes or refuses and we do not, with the reason. The first word is the kind, the second a part of the
/// construct.
const EXPLAINED: &[(&str, &str, &str)] = &[
    (
        "mov.v4",
        "",
        "ptxas takes one component for four and gives the bytes of the first: not a meaning worth having",
    ),
    (
        "sum",
        "f1 + 1",
        "ptxas takes a constant added to a float and drops the instruction",
    ),
    (
        "function",
        ".pred",
        "ptxas refuses predicates by its ABI; ours are inlined and right",
    ),
    (
        "function",
        ".v",
        "ptxas crashes where a wide register is passed for a vector",
    ),
    (
        "constant",
        "18446744073709551616",
        "ptxas lets the last digit overflow: 2^64 is 0 to it",
    ),
    (
        "constant",
        "18446744073709551615]",
        "an array of 2^66 bytes: ptxas takes what no chip can load",
    ),
];

const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

const REGISTERS: &str = ".reg .b16 h<8>; .reg .b32 r<8>; .reg .b64 d<8>; .reg .f32 f<8>; .reg .f64 e<8>; .reg .pred p<8>; .reg .b128 q<4>;";

/// A program, what table it is of, and the construct it is about.
struct Case {
    kind: &'static str,
    construct: String,
    program: String,
}

#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    /// A statement of a kernel, behind declarations.
    fn statement(&mut self, kind: &'static str, declarations: &str, statement: &str) {
        self.0.push(Case {
            kind,
            construct: format!("{declarations} {statement}"),
            program: format!(
                "{HEADER}{declarations}\n.visible .entry k(.param .u64 a) {{\n{REGISTERS}\n{statement}\nret;\n}}\n"
            ),
        });
    }

    /// A declaration of a module, behind others.
    fn declaration(&mut self, kind: &'static str, before: &str, declaration: &str) {
        self.0.push(Case {
            kind,
            construct: declaration.to_owned(),
            program: format!("{HEADER}{before}{declaration}\n.visible .entry k() {{ ret; }}\n"),
        });
    }
}

pub fn run(args: &[String]) -> Result<(), String> {
    let every = match args {
        [] => 1,
        [number] => number
            .parse()
            .map_err(|_| format!("'{number}' is not a number"))?,
        _ => return Err("one number at most: constructs [EVERY]".to_owned()),
    };
    let mut cases = Cases::default();
    constant_vectors(&mut cases);
    special_registers(&mut cases);
    conversions(&mut cases);
    sums(&mut cases);
    functions(&mut cases);
    wide(&mut cases);
    constants(&mut cases);
    initial_values(&mut cases);
    let cases: Vec<Case> = cases.0.into_iter().step_by(every).collect();

    let programs: Vec<String> = cases.iter().map(|case| case.program.clone()).collect();
    let verdicts = Oracle::open(&oracle::find("ptxas")?, "sm_90a")?.judge(&programs)?;
    let command = refused::command()?;
    let ours = parallel::map(&cases, |case| {
        let program = Program {
            name: case.kind.to_owned(),
            text: case.program.clone().into_bytes(),
        };
        refused::judge(&command, &program)
    });

    let (mut accepted, mut explained, mut missing, mut failures) = (0, 0, 0, Vec::new());
    for ((case, theirs), ours) in cases.iter().zip(&verdicts).zip(&ours) {
        let takes = *theirs == Verdict::Accepted;
        accepted += usize::from(takes);
        let known = EXPLAINED
            .iter()
            .any(|(kind, part, _)| *kind == case.kind && case.construct.contains(part));
        match ours {
            Ok(refused::Verdict::Compiled) if takes => {}
            Ok(refused::Verdict::Wrong) if !takes => {}
            Ok(refused::Verdict::Unsupported) if takes => missing += 1,
            Ok(_) if known => explained += 1,
            Ok(_) => failures.push(format!(
                "{}: `{}`: ptxas {}",
                case.kind,
                case.construct,
                match theirs {
                    Verdict::Accepted => "takes it, we do not".to_owned(),
                    Verdict::Refused(why) => format!("refuses it ({why}), we do not"),
                }
            )),
            Err(complaint) => {
                failures.push(format!("{}: `{}`: {complaint}", case.kind, case.construct));
            }
        }
    }
    println!(
        "{} constructs, {accepted} of them taken by ptxas: {} other verdicts, {explained} explained, {missing} not supported yet",
        cases.len(),
        failures.len()
    );
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

fn constant_vectors(cases: &mut Cases) {
    let data = ".const .align 16 .b32 c[8] = {1,2,3,4,5,6,7,8};";
    for statement in [
        "ld.const.v2.b64 {d0,d1}, [c];",
        "ld.const.v4.b32 {r0,r1,r2,r3}, [c];",
        "ld.const.v4.b64 {d0,d1,d2,d3}, [c];",
        "ld.const.v8.b32 {r0,r1,r2,r3,r4,r5,r6,r7}, [c];",
        "ld.const.v3.b32 {r0,r1,r2}, [c];",
        "ld.const.v4.b32 {r0,r1,r2}, [c];",
        "ld.const.v2.b32 {r0,r1,r2}, [c];",
        "ld.const.v2.b64 {r0,r1}, [c];",
        "ld.const.v4.b32 {r0,r1,r2,r3}, [c+4];",
        "ld.const.v2.b64 {d0,d1}, [c+8];",
        "ld.const.v2.b128 {q0,q1}, [c];",
        "ld.const.b128 q0, [c];",
        "ld.const.v2.pred {p0,p1}, [c];",
        "st.const.v2.b32 [c], {r0,r1};",
        "ld.const.v2.b32 {_,r1}, [c];",
        "ld.const.b32 r0, [c+64];",
        "ld.const.b32 r0, [c+-4];",
        "ld.const.v2.b32 {r0,r0}, [c];",
        "ld.volatile.const.b32 r0,[c];",
        "ld.const.v2.b32 r0, [c];",
        "ld.const.b32 {r0,r1}, [c];",
        "ld.const.b32 {r0}, [c];",
    ] {
        cases.statement("vector", data, statement);
    }
}

fn special_registers(cases: &mut Cases) {
    const NAMES: &str = "%clusterid.x %clusterid.w %clusterid %clusterid.q %cluster_ctaid.y %cluster_ctaid.xy %nclusterid.z \
        %cluster_nctaid.x %cluster_ctarank %cluster_nctarank %is_explicit_cluster %reserved_smem_offset_begin \
        %reserved_smem_offset_end %reserved_smem_offset_cap %reserved_smem_offset_0 %reserved_smem_offset_1 \
        %reserved_smem_offset_2 %reserved_smem_offset_00 %pm0_64 %pm7_64 %pm8_64 %pm0 %pm7 %pm8 %envreg0 %envreg31 %envreg32 \
        %total_smem_size %aggr_smem_size %dynamic_smem_size %current_graph_exec %gridid %lanemask_eq %lanemask_xx %clock %clock64 \
        %clock_hi %globaltimer %globaltimer_lo %globaltimer_hi %globaltimer64 %warpid %nwarpid %smid %nsmid %laneid %tid.x %tid.v \
        %tid %ntid.w %ctaid.z %nctaid.w %warpsize WARP_SZ %foo";
    for name in NAMES.split_whitespace() {
        for (kind, before, after) in [
            ("special", "mov.u32 r0, ", ""),
            ("special", "mov.u64 d0, ", ""),
            ("special", "mov.u32 ", ", r0"),
            ("special", "mov.pred p0, ", ""),
            ("special", "add.u32 r0, r1, ", ""),
            ("mov.v4", "mov.v4.u32 {r0,r1,r2,r3}, ", ""),
            ("special", "mov.u16 h0, ", ""),
            ("special", "mov.f32 f0, ", ""),
            ("special", "cvt.u64.u32 d0, ", ""),
            ("special", "st.global.u32 [d0], ", ""),
        ] {
            cases.statement(kind, "", &format!("{before}{name}{after};"));
        }
    }
}

fn conversions(cases: &mut Cases) {
    let register = |ty: &str| match ty {
        "f64" => 'e',
        "f32" => 'f',
        "f16" | "bf16" => 'h',
        _ => 'r',
    };
    for to in ["f64", "f32", "f16", "bf16", "s32", "u8"] {
        for from in ["f64", "f32", "f16", "s32"] {
            for modifier in [
                "sat", "sat.ftz", "rn.sat", "rni.sat", "rz.sat", "ftz", "rzi", "rn", "relu",
            ] {
                let (result, source) = (register(to), register(from));
                cases.statement(
                    "conversion",
                    "",
                    &format!("cvt.{modifier}.{to}.{from} {result}0, {source}1;"),
                );
            }
        }
    }
}

fn sums(cases: &mut Cases) {
    let data =
        ".const .u32 c[4] = {1,2,3,4}; .global .u32 g[4]; .shared .u32 s[4]; .func fn() {ret;}";
    for statement in "st.u64 [d0], d1 + 1|st.u32 [d0], r1 + 1|st.u64 [d0], d1 - 1|st.u64 [d0], 1 + d1|st.u64 [d0], d1 + d2|\
        st.u64 [d0], d1 + 1.5|st.f32 [d0], f1 + 1|st.u64 [d0], d1*2|add.u64 d0, d1 + 1, d2|mov.u64 d0, d1+8|mov.u64 d0, d1 + r0|\
        st.v2.u64 [d0], {d1+1, d2}|st.u64 [d0], p0+1|st.u64 [d0], c + 1|mov.u64 d0, c + 1|mov.u64 d0, c - 1|mov.u64 d0, c + c|\
        ld.u64 d0, [d1 + d2]|ld.u64 d0, [d1 - 8]|ld.u64 d0, [d1 + -8]|ld.u64 d0,[d1+0x100000000]|ld.u64 d0,[d1+8+8]|\
        ld.u64 d0,[c+8]|ld.const.u64 d0,[c-8]|ld.u64 d0,[8]|ld.u64 d0,[8+d1]|st.u8 [d0], r0 + 300|st.u16 [d0], h0 + 1|\
        atom.add.u64 d0,[d1], d2 + 1|red.add.u32 [d1], r2+1|add.u64 d1,d0,g+0|add.u64 d1,g+4,g+8|add.u64 d1,d0,g-4|\
        add.u64 d1,d0,g+-4|add.u64 d1,d0,g[1]|add.u64 d1,d0,g|add.u64 d1,d0,s+4|add.u64 d1,d0,a+4|add.u64 d1,d0,fn+4|\
        add.u32 r1,r0,g+4|and.b32 r1,r0,s+4|add.u16 h1,h0,s+4|add.f32 f1,f0,s+4|mov.f32 f1,s+4|mov.u16 h1,s+4|st.f32 [d0],s+4|\
        st.u8 [d0],s+4|st.v2.u32 [d0],{s+4,r0}|shl.b32 r1,r0,s+4|setp.eq.u64 p0,d0,g+4|selp.b64 d1,d0,g+4,p0|\
        mad.lo.u64 d1,d0,g+4,d2|atom.global.exch.b64 d1,[d0], g+4|shfl.sync.idx.b32 r0,r1,s+4,31,-1|bar.sync r0+1|\
        prmt.b32 r0,r1,r2,s+4|cvt.u64.u32 d1, s+4|cvt.u32.u64 r1, g+4|popc.b32 r0,s+4|ex2.approx.f32 f0,s+4|mov.b128 q0,g+4|\
        mov.b64 d0,{s+4,r0}|mov.u64 g+4,d0"
        .split('|')
    {
        cases.statement("sum", data, &format!("{};", statement.trim()));
    }
}

fn functions(cases: &mut Cases) {
    for (function, call) in [
        ("(.reg .pred r) f(.reg .b32 x)", "call (p0), f, (r0);"),
        ("(.reg .pred r) f(.reg .b32 x)", "call (r1), f, (r0);"),
        ("f(.reg .pred x)", "call f, (p0);"),
        ("f(.reg .pred x)", "call f, (r0);"),
        ("f(.reg .pred x)", "call f, (1);"),
        ("f(.param .pred x)", "call f, (p0);"),
        ("(.param .pred r) f()", "call (p0), f;"),
        ("(.reg .v2 .pred r) f()", "call ({p0,p1}), f;"),
        (
            "(.reg .v2 .u32 r) f(.reg .v2 .u32 x)",
            "call ({r0,r1}), f, ({r2,r3});",
        ),
        (
            "(.reg .v2 .u32 r) f(.reg .v2 .u32 x)",
            "call ({r0,r1}), f, (r2);",
        ),
        ("f(.reg .v2 .u32 x)", "call f, ({r0,r1,r2,r3});"),
        ("f(.reg .v4 .u32 x)", "call f, ({r0,r1});"),
        ("f(.reg .u32 x)", "call f, ({r0,r1});"),
        ("f(.reg .v2 .b32 x)", "call f, (d0);"),
        ("f(.reg .v2 .b32 x)", "call f, (e0);"),
        ("f(.reg .v4 .b32 x)", "call f, (q0);"),
        ("f(.reg .v2 .b16 x)", "call f, (r0);"),
        ("f(.reg .v4 .b8 x)", "call f, (r0);"),
        ("f(.reg .v8 .b32 x)", "call f, ({r0,r1,r2,r3,r4,r5,r6,r7});"),
        ("f(.reg .v3 .b32 x)", "call f, ({r0,r1,r2});"),
        ("f(.reg .v4 .b64 x)", "call f, ({d0,d1,d2,d3});"),
        ("f(.reg .v2 .b128 x)", "call f, ({q0,q1});"),
        ("f(.reg .b32 x, .reg .b32 y)", "call f, (r0);"),
        ("f(.reg .b32 x)", "call f, (r0, r1);"),
        ("(.reg .b32 r) f()", "call f;"),
        ("f()", "call (r0), f;"),
        ("f(.reg .f32 x)", "call f, (r0);"),
        ("f(.reg .b64 x)", "call f, (r0);"),
        ("f(.reg .b64 x)", "call f, (5);"),
        ("f(.reg .f32 x)", "call f, (5);"),
        ("f(.reg .b32 x)", "call f, (5.5);"),
        ("f(.param .b8 y[])", "call f;"),
        (
            "f(.param .b32 x, .param .b8 y[])",
            "{.param .b32 a1; .param .b8 b1[16]; call f, (a1, b1);}",
        ),
        (
            "f(.param .b8 y[], .param .b32 x)",
            "{.param .b32 a1; .param .b8 b1[16]; call f, (b1, a1);}",
        ),
        ("f(.reg .b8 y[])", "call f;"),
        ("(.param .b8 y[]) f()", "call f;"),
        (
            "f(.param .b32 x, .param .b8 y[])",
            "{.param .b32 a1; call f, (a1);}",
        ),
        (
            "f(.param .b32 x, .param .b8 y[])",
            "{.param .b32 a1; .param .b8 b1[16]; call f, (a1, b1, b1);}",
        ),
        ("f(.param .b8 y[16])", "{.param .b8 b1[8]; call f, (b1);}"),
        (
            "f(.param .align 16 .b8 y[16])",
            "{.param .align 4 .b8 b1[16]; call f, (b1);}",
        ),
        (
            "f(.param .align 3 .b8 y[16])",
            "{.param .align 3 .b8 b1[16]; call f, (b1);}",
        ),
        ("g()", "call f;"),
        ("g()", "call k, (d0);"),
    ] {
        cases.statement("function", &format!(".func {function} {{ret;}}"), call);
    }
}

fn wide(cases: &mut Cases) {
    for statement in "@p0 mov.b128 q0, {d0,d1}|mov.b128 q0, {r0,r1,r2,r3}|mov.b128 q0, {d0,r1}|mov.b128 q0, {d0}|mov.b128 q0, {d0,d1,d2}|\
        mov.b128 {d0,d1}, q0|mov.b128 {d0,d0}, q0|mov.b128 {d0,_}, q0|mov.b128 q0, q1|mov.b64 q0, d0|mov.b128 q0, d0|mov.b128 q0, 5|\
        mov.b128 q0, -5|@q0 mov.b128 q0, {d0,d1}|add.b128 q0,q1,q2|and.b128 q0,q1,q2|ld.b128 q0,[d0]|ld.global.b128 q0,[d0]|\
        ld.shared.b128 q0,[d0]|st.global.b128 [d0], q0|ld.global.v2.b128 {q0,q1},[d0]|atom.cas.b128 q0,[d0],q1,q2|\
        atom.exch.b128 q0,[d0],q1|atom.add.b128 q0,[d0],q1|atom.global.relaxed.gpu.cas.b128 q0,[d0],q1,q2|selp.b128 q0,q1,q2,p0|\
        setp.eq.b128 p0,q0,q1|shfl.sync.idx.b128 q0,q1,0,31,-1|mov.u128 q0,q1|not.b128 q0,q1"
        .split('|')
    {
        cases.statement("wide", "", &format!("{};", statement.trim()));
    }
}

fn constants(cases: &mut Cases) {
    const EXPRESSIONS: &str = r#"1+ ~0/2 ~0>>1 -7%4 1/0 1%0 1.5+2.5 .5 5. 1.5*2.0 1.5%2.0 1.5&1 1.5<2.5 1.5?1:2 1?1.5:2.5 !1.5 ~1.5 -1.5
        +1.5 1.5+1 1+1.5 1<<64 1<<-1 1>>64 0x 0b 0b12 08 0xfg 1U 1u 1L 1UL 18446744073709551615 18446744073709551616
        -9223372036854775808 -9223372036854775809 1?2 1?2:3:4 1&&2 1||0 1&& 1==1.0 (s64)1 (.s64)1 (.u64)-1 (.s32)1 (.f32)1 (.s64)1.5
        WARP_SZ WARP_SZ+1 WARP_SZ*1.5 0f3f800000 0f3f80000 0f3f8000000 0d3ff0000000000000 0d3ff 0f3f800000+1.0 0f3f800000+0f3f800000
        1e400 1e-400 1e 1e+ 1.e5 1e5 .e5 inf nan 1.5>>1 1.5^2 1.0/0.0 0.0/0.0 sizeof(1) 1,2 'a' "a" 1--1 1++1 - + ~ ! !!1 ~~1 --1 1*-1
        1=1 1<=2<=3 1!=2 1<>2 (1)(2) ((1)) 1;2"#;
    for expression in EXPRESSIONS.split_whitespace() {
        for ty in ["u32", "s64", "f32", "f64", "u8", "f16", "b16"] {
            cases.declaration("constant", "", &format!(".global .{ty} g = {expression};"));
        }
        cases.declaration("constant", "", &format!(".global .u32 g[{expression}];"));
        cases.declaration(
            "constant",
            "",
            &format!(".global .align {expression} .u32 g;"),
        );
        cases.statement("constant", "", &format!("mov.u32 r0, {expression};"));
        cases.statement("constant", "", &format!("mov.f32 f0, {expression};"));
        cases.statement("constant", "", &format!("ld.u32 r0, [d0+{expression}];"));
    }
}

fn initial_values(cases: &mut Cases) {
    const BEFORE: &str = ".global .u32 x[4] = {1,2,3,4}; .const .u32 cv = 7; .shared .u32 sv; .global .u32 y; .func fn() {ret;}\n";
    const VALUES: &str = r#"x|x+4|x-4|x+y|x*2|x[1]|&x|generic(x)|generic(x)+4|generic(x+4)|generic(sv)|generic(cv)|generic(fn)|generic(5)|
        generic(x|sv|cv|fn|fn+4|nope|0xff(x)|0xff(x+4)|0xff00(x)|0xff0000(generic(x))|0xff00000000000000(x)|0x0f(x)|0x1ff(x)|0xfff(x)|
        255(x)|0xff(5)|0xff(fn)|mask(x)|-x|x+1.5|{x}|{x,y}|{generic(x), 1}|{1,2,3}|{{1},{2}}|{}|1.5|0f3f800000|"abc"|'a'|1,|{1,2"#;
    for value in VALUES.split('|') {
        let value = value.trim();
        for ty in [
            "u64", "b64", "s64", "u32", "b32", "u8", "b8", "u16", "f32", "f64", "f16", "b128",
            "pred",
        ] {
            for array in ["", "[2]"] {
                cases.declaration(
                    "initial value",
                    BEFORE,
                    &format!(".global .{ty} g{array} = {value};"),
                );
            }
        }
        for declared in [
            ".const .u64 g",
            ".shared .u64 g",
            ".local .u64 g",
            ".global .v2 .u64 g",
            ".global .v2 .u32 g[2]",
            ".extern .global .u64 g",
            ".global .u32 g[2][2]",
            ".global .u32 g[]",
        ] {
            cases.declaration("initial value", BEFORE, &format!("{declared} = {value};"));
        }
    }
}
