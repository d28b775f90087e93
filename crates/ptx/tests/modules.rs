//! Directives, declarations, calls and limits: what ptxas 13.0.88 says about small modules, and what we say.

use orias_ptx::Options;

const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// All messages for a module, empty when it is accepted.
fn messages(text: &str, architecture: &str) -> String {
    let source = if text.starts_with(".version") {
        text.to_owned()
    } else {
        format!("{HEADER}{text}")
    };
    let options = Options::for_architecture(architecture).expect("a known architecture");
    let (module, mut diagnostics) = orias_ptx::parse(source.as_bytes());
    diagnostics.append(orias_ptx::check(&module, &options));
    if diagnostics.has_errors() {
        diagnostics.to_lines("module", source.as_bytes())
    } else {
        String::new()
    }
}

fn all_accepted(modules: &[&str]) {
    for module in modules {
        assert_eq!(messages(module, "compute_90a"), "", "{module}");
    }
}

/// Each module with a piece of the message it must get.
fn all_refused(modules: &[(&str, &str)]) {
    for (module, message) in modules {
        let found = messages(module, "compute_90a");
        assert!(
            found.contains(message),
            "{module}\nwanted: {message}\nfound: {found}"
        );
    }
}

#[test]
fn variables_of_every_space_type_and_shape_are_declared() {
    all_accepted(&[
        ".global .u32 a = -1;",
        ".global .u8 a = 256;",
        ".global .u32 a[2] = {1};",
        ".global .u32 a[] = {1,2,3};",
        ".extern .global .u32 a[];",
        ".extern .shared .u32 a[];",
        ".global .u32 a[2][2] = {{1,2},{3,4}};",
        ".global .v2 .u32 a = {1,2};",
        ".global .align 256 .u32 a;",
        ".global .align 2 .u32 a;",
        ".global .u32 a; .visible .global .u64 p = a;",
        ".global .u32 a; .visible .global .u64 p = generic(a)+4;",
        ".global .u32 a; .visible .global .u64 p = a+4;",
        ".func f; .global .u64 p = f; .func f {ret;}",
        ".global .f16 p;",
        ".global .b128 p;",
        ".global .texref t;",
        ".global .surfref t;",
        ".visible .global .u32 a; .extern .global .u32 a;",
        ".weak .global .u32 a;",
        ".common .global .u32 a;",
        ".global .attribute(.managed) .u32 a;",
        ".global .u32 a[99999999999];",
        ".visible .entry k(){.const .b32 kk=2; ret;}",
    ]);
}

#[test]
fn wrong_declarations_are_refused_in_ptxas_words() {
    all_refused(&[
        (".global .u32 a = 1.0;", "Initial value type mismatch"),
        (".global .f32 a = 1;", "Initial value type mismatch"),
        (".global .u32 a = {1};", "Initial value type mismatch"),
        (".global .u32 a[1] = 1;", "Initial value type mismatch"),
        (
            ".global .u32 a[2] = {1,2,3};",
            "Greater number of elements in array initializer",
        ),
        (
            ".global .u32 a[2][2] = {1,2,3,4};",
            "Greater number of elements in array initializer",
        ),
        (
            ".global .u32 a[2][2] = {{1,2,3},{4}};",
            "Greater number of elements in array initializer",
        ),
        (
            ".global .u32 a[];",
            "Non-external variable 'a' has incomplete type",
        ),
        (
            ".global .u32 a[0];",
            "Non-external variable 'a' has incomplete type",
        ),
        (
            ".shared .u32 a = 1;",
            "No initial value is allowed for 'a' in this state space",
        ),
        (
            ".extern .global .u32 a=2;",
            "No initial value is allowed for external symbol 'a'",
        ),
        (
            ".global .align 3 .u32 a;",
            "Alignment must be a power of two",
        ),
        (
            ".global .align 0 .u32 a;",
            "Alignment must be a power of two",
        ),
        (
            ".global .u32 a; .global .u32 a;",
            "Duplicate definition of variable 'a'",
        ),
        (".global .pred p;", "must be in register state space"),
        (".global .bf16 p;", "Parsing error near '.bf16'"),
        (".local .u32 a;", "not allowed with ABI"),
        (".param .u32 a;", "may not be declared at module scope"),
        (".global .samplerref t;", "texmode_unified"),
        (".const[2] .u32 t;", "explicit constant banks"),
        (
            ".common .const .u32 a;",
            ".common variables must be declared in .global space",
        ),
        (
            ".visible .visible .global .u32 a;",
            "Parsing error near '.visible'",
        ),
        (".global .u32 a[4] = {1,2,3,4,};", "Parsing error near '}'"),
        (".global .u32 a[-1];", "Parsing error near '-'"),
        (".global .u32 a[1<<3];", "Parsing error near '<<'"),
    ]);
}

#[test]
fn heads_of_entries_and_functions_are_checked() {
    all_accepted(&[
        ".visible .entry k() .maxntid 1024,2,1 {ret;}",
        ".visible .entry k() .maxntid 32 .minnctapersm 2 {ret;}",
        ".visible .entry k() .reqntid 32 .reqnctapercluster 2 .blocksareclusters {ret;}",
        ".visible .entry k() .pragma \"nounroll\"; {ret;}",
        ".visible .func f() .noreturn {ret;}",
        ".visible .entry k(.param .u64 .ptr .global .align 8 z) {ret;}",
        ".visible .entry k(.param .b8 .align 8 z[8]) {ret;}",
        ".visible .entry k {ret;}",
        ".extern .entry k();",
        ".visible .entry k(){}",
        ".visible .entry k(){.reg .b32 k; ret;}",
    ]);
    all_refused(&[
        (
            ".visible .entry k() .maxntid 0 {ret;}",
            "Positive non-zero value expected for maxntid",
        ),
        (
            ".visible .entry k() .maxntid 32 .reqntid 32 {ret;}",
            ".maxntid and .reqntid cannot both",
        ),
        (
            ".visible .entry k() .blocksareclusters {ret;}",
            "required for directive '.blocksareclusters'",
        ),
        (
            ".visible .entry k() .noreturn {ret;}",
            "Parsing error near '.noreturn'",
        ),
        (
            ".visible .func f() .maxntid 32 {ret;}",
            "Parsing error near '.maxntid'",
        ),
        (
            ".visible .entry k(.reg .b32 z) {ret;}",
            "must have .param state space",
        ),
        (
            ".visible .entry (.param .b32 r) k() {ret;}",
            "Parsing error near '('",
        ),
        (
            ".visible .entry k(.param .b8 z[]) {ret;}",
            "cannot be an incomplete array",
        ),
        (
            ".visible .entry k(.param .b32) {ret;}",
            "Parsing error near ')'",
        ),
        (
            ".visible .entry k(.param .b8 p[32765]) {ret;}",
            "(0x7ffd bytes, 0x7ffc max)",
        ),
        (
            ".visible .entry k(){ret;} .visible .entry k(){ret;}",
            "Duplicate definition of function 'k'",
        ),
        (
            ".func f(){ret;}.func f();",
            "Duplicate definition of function 'f'",
        ),
        (
            ".func f();.func f(.param .b32 a){ret;}",
            "Inconsistent prototypes of 'f', number of parameters differ",
        ),
        (
            ".func f(.param .b32 a, .param .b32 a){ret;}",
            "Duplicate definition of variable 'a'",
        ),
        (
            ".func f(.param .b32 a){.reg .b32 a; ret;}",
            "Duplicate definition of variable 'a'",
        ),
        (
            ".visible .func f(){ret;} .alias a, f;",
            "Unknown symbol 'a'",
        ),
    ]);
}

const CALLER: &str = ".func (.param .b32 r) f (.param .b32 a, .param .b64 b) {ret;}\n.visible .entry k() {.reg .b32 %r<9>; .reg .b64 %rd<9>; .param .b32 q0; .param .b32 q1; .param .b64 q2; .param .b8 q3[8]; ";

#[test]
fn calls_agree_with_what_they_call() {
    for call in [
        "call (q0), f, (q1,q2);",
        "call.uni (q0), f, (q1,q2);",
        "call (q0), f, (%r1,%rd1);",
        "call (q0), f, (1,2);",
        "pr: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _); call (q0), %rd1, (q1,q2), pr;",
        "ts: .calltargets f; call (q0), %rd1, (q1,q2), ts;",
    ] {
        assert_eq!(
            messages(&format!("{CALLER}{call} ret;}}"), "compute_90a"),
            "",
            "{call}"
        );
    }
    for (call, message) in [
        ("call f, (q1,q2);", "Call has wrong number of parameters"),
        ("call (q0), f, (q1);", "Call has wrong number of parameters"),
        (
            "call (q0), f, (q2,q2);",
            "Type of argument does not match formal parameter 'a'",
        ),
        (
            "call (q0), f, (q1,q3);",
            "Type of argument does not match formal parameter 'b'",
        ),
        (
            "call (q0), k, (q1,q2);",
            "Illegal call target, device function expected",
        ),
        ("call (q0), %rd1, (q1,q2);", "Call target not recognized"),
        (
            "pr: .callprototype (.param .b32 _) _ (.param .b32 _); call (q0), %rd1, (q1,q2), pr;",
            "wrong number",
        ),
    ] {
        let found = messages(&format!("{CALLER}{call} ret;}}"), "compute_90a");
        assert!(found.contains(message), "{call}: {found}");
    }
}

#[test]
fn labels_belong_to_their_scope() {
    let body = |text: &str| {
        format!(".visible .entry k() {{.reg .b32 %r<9>; .reg .pred %p<3>; {text} ret;}}")
    };
    for good in [
        "L: bra L;",
        "L : bra L;",
        "bra L; { bra L; L: } L:",
        "L: ts: .branchtargets L, M; brx.idx %r1, ts; M:",
    ] {
        assert_eq!(messages(&body(good), "compute_90a"), "", "{good}");
    }
    for (bad, message) in [
        ("{ L: } bra L;", "Unknown symbol 'L'"),
        ("bra L; { L: }", "Unknown symbol 'L'"),
        ("L: L:", "Duplicate definition of label 'L'"),
        (
            "L: ts: .branchtargets L, M; brx.idx %r1, ts;",
            "Unknown symbol 'M'",
        ),
        ("bra %r1;", "Arguments mismatch for instruction 'bra'"),
        ("@%r1 bra L; L:", "not a predicate"),
    ] {
        let found = messages(&body(bad), "compute_90a");
        assert!(found.contains(message), "{bad}: {found}");
    }
}

#[test]
fn versions_and_targets_gate_what_a_module_may_use() {
    let module = |version: &str, target: &str, body: &str| {
        format!(
            ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{.reg .b32 %r<9>; .reg .b64 %rd<9>; {body} ret;}}"
        )
    };
    for (version, target, body) in [
        ("8.0", "sm_90a", ""),
        ("7.8", "sm_90", ""),
        ("9.0", "sm_80", ""),
        ("9.0", "compute_90", ""),
        ("9.0", "sm_90a, texmode_independent", ""),
    ] {
        let text = module(version, target, body);
        assert_eq!(messages(&text, "compute_90a"), "", "{text}");
    }
    for (version, target, body, message) in [
        (
            "7.8",
            "sm_90a",
            "",
            "PTX .version 7.8 does not support .target sm_90a",
        ),
        (
            "9.1",
            "sm_90",
            "",
            "Unsupported .version 9.1; current version is '9.0'",
        ),
        ("8.9", "sm_90", "", "Unsupported .version 8.9"),
        ("9.0", "sm_91", "", "Unsupported .target 'sm_91'"),
        (
            "9.0",
            "sm_100a",
            "",
            "SM version specified by .target is higher",
        ),
        (
            "9.0",
            "sm_90",
            "wgmma.fence.sync.aligned;",
            "'wgmma.fence' not supported on .target 'sm_90'",
        ),
        (
            "9.0",
            "sm_80",
            "mov.u32 %r1,%cluster_ctarank;",
            "'%cluster_ctarank' requires .target sm_90 or higher",
        ),
        (
            "7.0",
            "sm_80",
            "ld.global.L2::cache_hint.b32 %r1,[%rd1],%rd2;",
            "requires PTX ISA .version 7.4",
        ),
        ("9.0", "sm_90a, debug", "", "Debug information not found"),
        ("9.0", "sm_90a, map_f64_to_f32", "", "map_f64_to_f32"),
    ] {
        let text = module(version, target, body);
        let found = messages(&text, "compute_90a");
        assert!(found.contains(message), "{text}: {found}");
    }
}

#[test]
fn limits_of_the_machine_count_for_real_targets_only() {
    let shared =
        ".shared .b8 s[249153]; .visible .entry k() {.reg .u32 %r1; ld.shared.u32 %r1,[s]; ret;}";
    assert_eq!(messages(shared, "compute_90a"), "");
    assert!(messages(shared, "sm_90a").contains("(0x3cd41 bytes, 0x38c00 max)"));
    let constant = ".const .b8 c[65537]; .visible .entry k() {ret;}";
    assert_eq!(messages(constant, "compute_90a"), "");
    assert!(messages(constant, "sm_90a").contains("(0x10001 bytes, 0x10000 max)"));
    let external = ".extern .func f; .visible .entry k() {call f; ret;}";
    assert_eq!(messages(external, "compute_90a"), "");
    assert!(messages(external, "sm_90a").contains("Unresolved extern function 'f'"));
}

#[test]
fn several_errors_are_reported_with_their_lines() {
    let source = format!(
        "{HEADER}.visible .entry k()\n{{\n.reg .b32 %r<4>;\nadd.s32 %r1, %r2;\nad.s32 %r1, %r2, %r3;\nadd.s32 %r1 %r2;\nadd.s32 %r1, %r2, %r9;\nret;\n}}\n"
    );
    let (_, diagnostics) = orias_ptx::parse(source.as_bytes());
    let lines = diagnostics.to_lines("a.ptx", source.as_bytes());
    for expected in [
        "ptxas a.ptx, line 7; error   : Arguments mismatch for instruction 'add'",
        "ptxas a.ptx, line 8; error   : Not a name of any known instruction: 'ad'",
        "ptxas a.ptx, line 9; error   : Parsing error near '%r2': syntax error",
        "ptxas a.ptx, line 10; error   : Unknown symbol '%r9'",
    ] {
        assert!(lines.contains(expected), "{expected}\n{lines}");
    }
}

#[test]
fn an_excerpt_underlines_the_text_and_suggests_what_is_near() {
    let source = format!(
        "{HEADER}.visible .entry k()\n{{\n.reg .f32 %f<4>;\n\tadd.rnn.f32 %f1, %f2, %f3;\n\tret;\n}}\n"
    );
    let (_, diagnostics) = orias_ptx::parse(source.as_bytes());
    let excerpt = diagnostics.to_excerpts("a.ptx", source.as_bytes());
    assert!(
        excerpt.contains("error: Unknown modifier '.rnn'"),
        "{excerpt}"
    );
    assert!(excerpt.contains("--> a.ptx:7:2"), "{excerpt}");
    assert!(excerpt.contains("^^^^^^^^^^^"), "{excerpt}");
    assert!(excerpt.contains("did you mean '.rn'?"), "{excerpt}");
    let json = diagnostics.to_json("a.ptx", source.as_bytes());
    assert!(
        json.starts_with("{\"file\":\"a.ptx\",\"line\":7,\"column\":2,"),
        "{json}"
    );
}
