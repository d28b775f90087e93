//! Objects for a linker: what they say, read back; and what cannot be one.

use orias::{Options, Severity, Source, Target, compile};
use orias_cubin::{Body, Cubin, SymbolPlace};
use std::fmt::Write as _;

const HEAD: &str = ".version 9.0\n.target sm_90\n.address_size 64\n";

fn options(relocatable: bool) -> Options {
    Options {
        target: Target::parse("sm_90").expect("a target"),
        relocatable,
        ..Options::default()
    }
}

fn object(text: &str) -> Cubin {
    let text = format!("{HEAD}{text}");
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    let made = match compile(&source, &options(true)) {
        Ok(compiled) => compiled.cubin.expect("an object"),
        Err(found) => panic!("{:?}", found.0),
    };
    let cubin = Cubin::read(&made).expect("an object that reads");
    assert_eq!(cubin.write().expect("an object that writes"), made);
    cubin
}

/// The symbols of an object that the program names, where they lie, and the relocations of its code and data.
fn told(cubin: &Cubin) -> String {
    let mut out = String::new();
    for symbol in cubin.symbols() {
        let name = &symbol.name.text;
        if symbol.kind == 3 || name.starts_with("__U") || name.starts_with(".nv") || name.is_empty()
        {
            continue;
        }
        let place = match symbol.place {
            SymbolPlace::Undefined => "undefined",
            SymbolPlace::Section(section) => {
                cubin.sections[usize::from(section)].name.text.as_str()
            }
            SymbolPlace::Reserved(_) => "common",
        };
        let binding = ["local", "global", "weak"][usize::from(symbol.binding)];
        let _ = writeln!(
            out,
            "{binding} {name}: {place}, other {:#x}, value {}, {} bytes",
            symbol.other,
            symbol.value,
            if symbol.kind == 2 { 0 } else { symbol.size }
        );
    }
    for section in &cubin.sections {
        let Body::Relocations(relocations) = &section.body else {
            continue;
        };
        if section.name.text.contains("debug") {
            continue;
        }
        let _ = writeln!(out, "{}", section.name.text);
        let mut kinds: Vec<String> = (relocations.iter())
            .map(|it| {
                let name = cubin.symbol_name(it.symbol).unwrap_or_default();
                format!("  {} {name}", it.kind_name().unwrap_or_default())
            })
            .collect();
        kinds.sort();
        kinds.dedup();
        out += &(kinds.join("\n") + "\n");
    }
    out
}

#[test]
fn variables_say_where_they_lie_and_how_large_they_are() {
    let cubin = object(
        ".visible .global .align 4 .u32 given[2] = {1, 2};
         .global .align 8 .u64 own;
         .extern .global .align 4 .u32 there;
         .common .global .align 16 .u32 common_one[4];
         .weak .global .align 4 .u32 weak_one = 3;
         .visible .const .align 4 .u32 constant = 5;
         .extern .const .align 4 .u32 other_constant;
         .shared .align 8 .b8 of_all[24];
         .extern .shared .align 16 .b8 dynamic[];
         .visible .entry k() { .reg .b32 %r<4>; .shared .align 4 .u32 of_k[2];
           ld.shared.u32 %r1, [of_k]; ld.shared.u32 %r2, [dynamic]; ld.shared.u32 %r3, [of_all];
           add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [there], %r1;
           ld.const.u32 %r1, [other_constant]; st.global.u32 [own], %r1; ret; }",
    );
    assert_eq!(
        told(&cubin),
        "\
global constant: .nv.constant3, other 0x80, value 0, 4 bytes
global other_constant: undefined, other 0x80, value 0, 4 bytes
global given: .nv.global.init, other 0x20, value 0, 8 bytes
local own: .nv.global, other 0x20, value 0, 8 bytes
global there: undefined, other 0x20, value 0, 4 bytes
global common_one: common, other 0x20, value 16, 16 bytes
weak weak_one: .nv.global.init, other 0x20, value 8, 4 bytes
local of_all: .nv_debug.shared, other 0x40, value 8, 24 bytes
global dynamic: undefined, other 0x40, value 0, 0 bytes
local of_k: .nv.shared.k, other 0x40, value 4, 8 bytes
global k: .text.k, other 0x10, value 0, 0 bytes
.rela.text.k
  R_CUDA_ABS16_32 other_constant
  R_CUDA_ABS24_40 dynamic
  R_CUDA_ABS24_40 of_all
  R_CUDA_ABS24_40 of_k
  R_CUDA_ABS32_HI_32 own
  R_CUDA_ABS32_HI_32 there
  R_CUDA_ABS32_LO_32 own
  R_CUDA_ABS32_LO_32 there
"
    );
}

#[test]
fn textures_and_kernels_of_other_modules_are_named() {
    let text = ".version 9.0\n.target sm_90, texmode_independent\n.address_size 64\n
         .extern .entry elsewhere();
         .global .u64 pointer = elsewhere;
         .global .texref image;
         .extern .global .samplerref sampling;
         .visible .entry k(.param .u64 p, .param .surfref surface) { .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<6>;
           tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [image, sampling, {%f5, %f5}]; txq.filter_mode.b32 %r1, [sampling];
           ld.param.u64 %d1, [p]; st.global.v4.f32 [%d1], {%f1, %f2, %f3, %f4}; sust.b.1d.b32.trap [surface, {%r1}], %r1;
           mov.u64 %d2, elsewhere; st.global.u64 [pointer], %d2; ret; }";
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    let made = compile(&source, &options(true)).expect("an object");
    let cubin = Cubin::read(&made.cubin.expect("an object")).expect("an object that reads");
    assert_eq!(
        told(&cubin),
        "\
local surface: .text.k, other 0x0, value 0, 0 bytes
local pointer: .nv.global.init, other 0x20, value 0, 8 bytes
global k: .text.k, other 0x10, value 0, 0 bytes
global image: undefined, other 0x0, value 0, 0 bytes
global sampling: undefined, other 0x0, value 0, 0 bytes
global elsewhere: undefined, other 0x10, value 0, 0 bytes
.rela.text.k
  R_CUDA_ABS32_32 .nv.independent.samplerrefDescSize
  R_CUDA_ABS32_HI_32 pointer
  R_CUDA_ABS32_LO_32 pointer
  R_CUDA_CONST_FIELD21_38 image
  R_CUDA_CONST_FIELD21_38 sampling
  R_CUDA_CONST_FIELD21_38 surface
  R_CUDA_FUNC_DESC32_HI_32 elsewhere
  R_CUDA_FUNC_DESC32_LO_32 elsewhere
.rela.nv.global.init
  R_CUDA_FUNC_DESC_64 elsewhere
"
    );
}

#[test]
fn managed_variables_say_so() {
    let text = ".visible .global .attribute(.managed) .align 4 .u32 shared_by_all = 7;\n.visible .global .align 4 .u32 plain;\n";
    for relocatable in [true, false] {
        let text = format!("{HEAD}{text}.visible .entry k() {{ ret; }}");
        let source = Source {
            name: "m.ptx",
            text: text.as_bytes(),
        };
        let made = compile(&source, &options(relocatable)).expect("a module");
        let cubin = Cubin::read(&made.cubin.expect("a cubin")).expect("a cubin that reads");
        let managed: Vec<&str> = (cubin.symbols().iter())
            .filter(|it| it.other & orias_cubin::elf::sto::MANAGED != 0)
            .map(|it| it.name.text.as_str())
            .collect();
        assert_eq!(managed, ["shared_by_all"]);
    }
}

/// Debug information of an object: sections refer to one another, and to what the linker places, by relocations.
#[test]
fn debug_information_is_relocated() {
    let text = r#"
.visible .entry k(.param .u64 data)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    .shared .align 4 .b8 words[16];
$begin:
    ld.param.u64 %rd1, [data];
    ld.shared.u32 %r1, [words];
    st.global.u32 [%rd1], %r1;
    ret;
$end:
}
.section .debug_abbrev { .b8 0 }
.section .debug_info { .b32 .debug_abbrev .b64 $end .b64 words }
"#;
    let text = format!("{HEAD}{text}");
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    let asked = Options {
        debug: true,
        ..options(true)
    };
    let made = match compile(&source, &asked) {
        Ok(compiled) => compiled.cubin.expect("an object"),
        Err(found) => panic!("{:?}", found.0),
    };
    let cubin = Cubin::read(&made).expect("an object that reads");
    let section = cubin.section(".rela.debug_info").expect("relocations");
    let Body::Relocations(relocations) = &section.body else {
        panic!("no relocations");
    };
    let named: Vec<_> = (relocations.iter())
        .map(|it| (cubin.symbol_name(it.symbol).unwrap_or_default(), it.offset))
        .collect();
    assert_eq!(named, [("words", 12), ("k", 4), (".debug_abbrev", 0)]);
    assert!(cubin.section(".nv_debug_info_reg_sass").is_some());
}

#[test]
fn functions_are_called_by_name_and_through_pointers() {
    let cubin = object(
        ".extern .func (.param .b32 r) far (.param .b32 a, .param .b64 b);
         .func (.param .b32 r) near (.param .b32 a) { .reg .b32 %r; ld.param.b32 %r, [a]; add.u32 %r, %r, 1; st.param.b32 [r], %r; ret; }
         .visible .func (.param .b32 r) other (.param .b32 a);
         .alias other, near;
         .weak .func weak_one () { ret; }
         .visible .global .u64 table[2] = {far, near};
         .visible .func f (.param .b64 p) { .reg .b32 %r<3>; .reg .b64 %rd<3>;
           .param .b32 a; .param .b64 b; .param .b32 o;
           ld.param.b64 %rd1, [p];
           st.param.b32 [a], 7; st.param.b64 [b], %rd1;
           call (o), far, (a, b); ld.param.b32 %r1, [o];
           call weak_one;
           st.param.b32 [a], %r1;
           call (o), other, (a); ld.param.b32 %r1, [o];
           st.param.b32 [a], %r1;
           P: .callprototype (.param .b32 _) _ (.param .b32 _);
           call (o), %rd1, (a), P;
           mov.u64 %rd2, near; st.global.u64 [%rd1], %rd2; ret; }",
    );
    assert_eq!(
        told(&cubin),
        "\
global table: .nv.global.init, other 0x20, value 0, 16 bytes
local near: .text.near, other 0x0, value 0, 0 bytes
weak weak_one: .text.weak_one, other 0x0, value 0, 0 bytes
global f: .text.f, other 0x0, value 0, 0 bytes
local other: .text.near, other 0x0, value 0, 0 bytes
global far: undefined, other 0x0, value 0, 0 bytes
.rela.text.f
  R_CUDA_ABS32_HI_32 f
  R_CUDA_ABS32_LO_32 f
  R_CUDA_ABS55_16_34 far
  R_CUDA_ABS55_16_34 other
  R_CUDA_ABS55_16_34 weak_one
  R_CUDA_ABS56_16_34 __UFT_OFFSET
  R_CUDA_UNIFIED32_HI_32 near
  R_CUDA_UNIFIED32_LO_32 near
.rela.nv.global.init
  R_CUDA_UNIFIED far
  R_CUDA_UNIFIED near
"
    );
    let graph = cubin
        .sections
        .iter()
        .find_map(|section| match &section.body {
            Body::CallGraph(calls) => Some(calls),
            _ => None,
        });
    let name = |symbol: u32| cubin.symbol_name(symbol).unwrap_or_default();
    let mut lines = Vec::new();
    let mut list = 0;
    for call in graph.expect("a call graph") {
        if call.caller == 0 {
            list = call.callee as i32;
            continue;
        }
        let to = match list {
            -2 | -3 => cubin.prototype(call.callee).unwrap_or_default(),
            _ => name(call.callee),
        };
        lines.push(format!("{list} {} {to}", name(call.caller)));
    }
    assert_eq!(
        lines,
        [
            "-1 f far",
            "-1 f weak_one",
            "-1 f other",
            "-2 far #iil",
            "-2 near #ii",
            "-3 f #ii",
            "-4 f near",
        ]
    );
}

/// What is said of a module, severe or not.
fn said(text: &str, relocatable: bool) -> String {
    let text = format!("{HEAD}{text}");
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    let found = match compile(&source, &options(relocatable)) {
        Ok(compiled) => return format!("made, {} messages", compiled.diagnostics.0.len()),
        Err(found) => found,
    };
    let severe = found.0.iter().filter(|it| it.severity != Severity::Warning);
    let first: Vec<&str> = severe.map(|it| it.message.as_str()).collect();
    first.join("; ")
}

#[test]
fn what_cannot_be_linked_is_refused_in_the_words_of_ptxas() {
    let several =
        ".visible .func (.reg .b32 a, .reg .b32 b) f () { mov.b32 a, 1; mov.b32 b, 2; ret; }";
    assert_eq!(said(several, true), "'Compile only(-c)' requires ABI");
    assert_eq!(said(several, false), "made, 1 messages");
    let narrow = ".visible .func f (.param .u16 a) { ret; }";
    assert_eq!(
        said(narrow, true),
        "In ABI compilation, passing predicate, 8-bit and 16-bit parameters to device functions is not supported"
    );
    // A caller in another object would look for the return address elsewhere; within a program nobody does.
    let kept = ".visible .func f () .abi_preserve 32 { ret; }";
    assert_eq!(
        said(kept, true),
        "Not supported yet: '.abi_preserve' of 'f' in an object"
    );
    assert_eq!(said(kept, false), "made, 0 messages");
    let circle = ".func (.reg .b32 a, .reg .b32 b) f (.reg .b32 x) { .reg .pred p; mov.b32 a, 1; mov.b32 b, 2; setp.eq.u32 p, x, 0; @p ret; sub.u32 x, x, 1; call (a, b), f, (x); ret; }
        .visible .entry k() { .reg .b32 %r<3>; call (%r1, %r2), f, (7); ret; }";
    assert_eq!(said(circle, false), "Function 'f' is recursive");
}

#[test]
fn arguments_of_open_length_may_be_left_out() {
    let call = ".extern .func f (.param .b32 a, .param .align 4 .b8 rest[]);
        .visible .entry k() { .param .b32 z; st.param.b32 [z], 1; call f, (z); ret; }";
    assert_eq!(said(call, true), "made, 0 messages");
}

#[test]
fn a_whole_program_has_what_it_calls() {
    let calls = |name: &str| {
        format!(".extern .func {name} (); .visible .entry k() {{ call {name}; ret; }}")
    };
    assert_eq!(
        said(&calls("nobody"), false),
        "Unresolved extern function 'nobody'"
    );
    assert_eq!(said(&calls("nobody"), true), "made, 0 messages");
    for known in ["cudaGraphSetConditional", "__cuda_syscall_any", "vfprintf"] {
        assert_eq!(said(&calls(known), false), "made, 0 messages", "{known}");
    }
    let unused = ".extern .func nobody (); .visible .entry k() { ret; }";
    assert_eq!(said(unused, false), "made, 0 messages");
    let weak = ".weak .func nobody (); .visible .func f () { call nobody; ret; }";
    assert_eq!(said(weak, true), "Unresolved extern function 'nobody'");
}
