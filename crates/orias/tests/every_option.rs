//! Every option of the table does what it says: with it, something is seen that is not seen without it, and an option that has nothing to do changes
//! nothing. A row of the table that no case here names fails.

use orias::command_line::{Action, Invocation, OPTIONS, Status, parse};
use orias::{MessageFormat, Source, compile};
use orias_cubin::{Cubin, PrintOptions, print};
use orias_sass::text::ListingStyle;

/// Kernels and functions with something for every option to do.
const PROGRAM: &str = r#".version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 counter;
.visible .func (.param .b32 result) scale(.param .b32 number)
{
    .reg .b32 %r<4>;
    ld.param.b32 %r1, [number];
    mul.lo.u32 %r2, %r1, 7;
    st.param.b32 [result], %r2;
    ret;
}
.visible .entry first(.param .u64 data) .maxntid 128, 1, 1
{
    .reg .b32 %r<8>;
    .reg .f32 %f<8>;
    .reg .f64 %d<4>;
    .reg .b64 %rd<4>;
    .local .align 8 .b8 place[64];
    ld.param.u64 %rd1, [data];
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f2, [%rd1+4];
    mul.f32 %f3, %f1, %f2;
    add.f32 %f4, %f3, %f2;
    st.global.f32 [%rd1+8], %f4;
    cvt.f64.f32 %d1, %f4;
    add.f64 %d2, %d1, %d1;
    st.global.f64 [%rd1+16], %d2;
    ld.global.u32 %r1, [%rd1+24];
    and.b32 %r2, %r1, 60;
    cvt.u64.u32 %rd2, %r2;
    mov.u64 %rd3, place;
    add.u64 %rd3, %rd3, %rd2;
    st.local.u32 [%rd3], %r1;
    ld.local.u32 %r3, [place+8];
    { .param .b32 x; .param .b32 y; st.param.b32 [x], %r3; call (y), scale, (x); ld.param.b32 %r4, [y]; }
    red.global.add.u32 [counter], %r4;
    membar.gl;
    st.global.cs.u32 [%rd1+28], %r4;
    ret;
}
.visible .entry second(.param .u64 data)
{
    .reg .b32 %r<40>;
    .reg .b64 %rd<4>;
    .reg .pred %p;
    ld.param.u64 %rd1, [data];
    ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd1];
    ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+16];
    ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd1+32];
    ld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%rd1+48];
    ld.global.v4.u32 {%r16, %r17, %r18, %r19}, [%rd1+64];
    ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd1+80];
    ld.global.v4.u32 {%r24, %r25, %r26, %r27}, [%rd1+96];
    bar.sync 0;
    st.global.v4.u32 [%rd1+112], {%r0, %r7, %r8, %r15};
    st.global.v4.u32 [%rd1+128], {%r1, %r6, %r9, %r14};
    st.global.v4.u32 [%rd1+144], {%r2, %r5, %r10, %r13};
    st.global.v4.u32 [%rd1+160], {%r3, %r4, %r11, %r12};
    st.global.v4.u32 [%rd1+176], {%r16, %r23, %r24, %r27};
    st.global.v4.u32 [%rd1+192], {%r17, %r22, %r25, %r26};
    st.global.v4.u32 [%rd1+208], {%r18, %r21, %r19, %r20};
    ret;
}
"#;

const NEVER: &str = "";

/// An option, what stands before it on both command lines, how it is given, and what is seen with it only, or without it only.
struct Case {
    option: &'static str,
    base: &'static str,
    given: &'static str,
    with: &'static str,
    without: &'static str,
}

const fn case(
    option: &'static str,
    base: &'static str,
    given: &'static str,
    with: &'static str,
    without: &'static str,
) -> Case {
    Case {
        option,
        base,
        given,
        with,
        without,
    }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("compile-as-tools-patch", "", "-astoolspatch", "Entry function is not allowed", NEVER),
    case("compile-only", "", "-c", "relocatable object", "executable"),
    case("compiler-annotations", "", "-annotate", "ANNOTATIONS", NEVER),
    case("def-load-cache", "", "-dlcm=cg", "LDG.E.STRONG.GPU", NEVER),
    case("def-store-cache", "", "-dscm=wt", "STG.E.STRONG.SYS", NEVER),
    case("device-debug", "", "-g", "nv_debug_info_reg_sass", NEVER),
    case("disable-warnings", "--warn-on-local-memory-usage", "-w", NEVER, "warning"),
    case("entry", "", "-e second", NEVER, ".text.first"),
    case("extensible-whole-program", "", "-ewp", "extensible whole program", "executable"),
    case("fmad", "", "--fmad=false", "FMUL", "FFMA"),
    case("force-load-cache", "", "-flcm=cg", "LDG.E.STRONG.GPU", NEVER),
    case("force-store-cache", "", "-fscm=wt", "STG.E.STRONG.SYS", "STG.E.EF"),
    case("g-tensor-memory-access-check", "", "-g-tmem-access-check", "not supported for '.target sm_90'", NEVER),
    case("gno-tensor-memory-access-check", "", "-gno-tmem-access-check", "not supported for '.target sm_90'", NEVER),
    case("generate-line-info", "", "-lineinfo", ".nv_debug_line_sass", NEVER),
    case("make-errors-visible-at-exit", "", "--make-errors-visible-at-exit", "GEN_ERRBAR_AT_EXIT", NEVER),
    case("maxntid", "", "--maxntid=256", "MAX_THREADS                        256, 1, 1", NEVER),
    case("maxrregcount", "", "--maxrregcount=24", "MAXREG_COUNT                       0x18", NEVER),
    case("opt-level", "", "-O0", NEVER, "FFMA"),
    case("override-directive-values", "--maxntid=256", "--override-directive-values", NEVER, "MAX_THREADS                        128, 1, 1"),
    case("sanitize", "", "--sanitize=threadsteer", "NANOSLEEP.RAND 0x3e8", NEVER),
    case("sp-bounds-check", "", "--sp-bounds-check", "SR_LMEMHIOFF", NEVER),
    case("suppress-debug-info", "-lineinfo", "--suppress-debug-info", NEVER, ".nv_debug_line_sass"),
    case("verbose", "", "-v", "Compiling entry function 'first' for 'sm_90'", NEVER),
    case("warn-on-double-precision-use", "", "--warn-on-double-precision-use", "double precision", NEVER),
    case("warn-on-local-memory-usage", "", "--warn-on-local-memory-usage", "Local memory used for function 'first'", NEVER),
    case("warn-on-spills", "--maxrregcount=24", "--warn-on-spills", "Registers are spilled to local memory in function 'second'", NEVER),
    case("warning-as-error", "--warn-on-local-memory-usage", "-Werror", "error", NEVER),
    case("knob", "", "--knob SteerThreads=1", "NANOSLEEP.RAND", NEVER),
    case("compiler-stats", "", "--compiler-stats=time", "STATISTICS", NEVER),
];

/// Options that the tests further down look at one by one.
const READ: &[&str] = &[
    "Ofast-compile",
    "device-function-maxrregcount",
    "device-stack-protector",
    "gpu-name",
    "help",
    "input-as-string",
    "list-version",
    "machine",
    "options-file",
    "output-file",
    "register-usage-level",
    "split-compile",
    "suppress-stack-size-warning",
    "minnctapersm",
    "version",
    "compiler-stats-file",
    "knob-file",
    "message-format",
    "assume-extern-functions-do-not-sync",
];

fn read(line: &str) -> Invocation {
    let files = |name: &str| (name == "knobs").then(|| b"SteerThreads=1\n".to_vec());
    let mut files = files;
    let words = line.split_whitespace().map(String::from);
    parse(words, &mut files).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// All that a compilation with `line` shows: what is said, the container, the code.
fn seen(line: &str) -> String {
    seen_of(line, PROGRAM)
}

fn seen_of(line: &str, program: &str) -> String {
    let line = format!("-arch=sm_90 {line} p.ptx");
    let invocation = read(&line);
    let source = Source {
        name: "p.ptx",
        text: program.as_bytes(),
    };
    let mut out = String::new();
    match compile(&source, &invocation.options) {
        Ok(compiled) => {
            out += &compiled.diagnostics.to_string();
            if compiled.statistics.is_some() {
                out += "\nSTATISTICS";
            }
            let cubin = Cubin::read(&compiled.cubin.expect("a cubin")).expect("a cubin that reads");
            out += &print(&cubin, PrintOptions::default());
            let target = orias::target_of(&cubin).expect("a target");
            out += &orias::disassemble(&cubin, target, ListingStyle::default());
        }
        Err(errors) => out += &errors.to_string(),
    }
    // How long it took differs from run to run.
    let lines = out.lines().filter(|line| !line.contains("Compile time"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn stacks_without_bound_are_told_of() {
    const HEAD: &str = ".version 9.0\n.target sm_90\n.address_size 64\n";
    const CIRCLE: &str = ".func f(); .func g() { call f; ret; } .func f() { call g; ret; }";
    const POINTER: &str =
        ".func f() { .reg .b64 d; mov.u64 d, f; pr: .callprototype _ (); call d, (), pr; ret; }";
    const WITHIN: &str = ".func f() { ret; }";
    let told = |line: &str, functions: &str| {
        let program =
            format!("{HEAD}{functions}\n.entry k() {{ call f; ret; }}\n.entry other() {{ ret; }}");
        seen_of(line, &program)
            .matches("cannot be statically determined")
            .count()
    };
    for line in ["-g", "-ewp"] {
        assert_eq!(told(line, CIRCLE), 1, "{line}");
        assert_eq!(told(line, POINTER), 1, "{line}");
        assert_eq!(told(line, WITHIN), 0, "{line}");
        assert_eq!(
            told(&format!("{line} --suppress-stack-size-warning"), CIRCLE),
            0,
            "{line}"
        );
    }
    // A whole program has as much as the driver is asked for, and a linker counts for itself.
    assert_eq!(told("", CIRCLE) + told("-c", CIRCLE), 0);
    let allocates = ".func f() { .reg .b64 d; alloca.u64 d, d; st.local.u32 [d], 1; ret; }";
    assert_eq!((told("-ewp", allocates), told("-g", allocates)), (1, 0));
}

#[test]
fn canaries_stand_above_the_arrays_of_functions_that_are_called() {
    let program = |array: &str| {
        format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.visible .func f(.param .b32 n) {{ .local .align 8 .b8 array[{array}]; .reg .b64 d<3>; .reg .b32 r;
             cvta.local.u64 d1, array; ld.param.u32 r, [n]; mul.wide.u32 d2, r, 4; add.u64 d1, d1, d2; st.u32 [d1], r; ret; }}
             .visible .entry k() {{ .param .b32 n; call f, (n); ret; }}"
        )
    };
    let canaries = |line: &str, array| {
        let shown = seen_of(line, &program(array));
        let lines = shown.lines();
        lines
            .filter(|line| line.contains("LDC") && line.contains("0xc0]"))
            .count()
    };
    for line in ["-c", "-c -O0", "-g"] {
        let line = format!("{line} --device-stack-protector=true");
        // Stored once, compared once.
        assert_eq!(canaries(&line, "64"), 2, "{line}");
        assert_eq!(canaries(&line, "8"), 0, "{line}");
    }
    assert_eq!(canaries("-c --device-stack-protector=false", "64"), 0);
    assert_eq!(canaries("-c", "64"), 0);
}

#[test]
fn effective_options_show() {
    let mut failures = Vec::new();
    for case in CASES {
        let row = OPTIONS.iter().find(|row| row.long == case.option);
        let row = row.unwrap_or_else(|| panic!("no option {}", case.option));
        assert_eq!(row.status, Status::Effective, "{}", case.option);
        assert_ne!(case.with, case.without, "{}", case.option);
        let plain = seen(case.base);
        let asked = seen(&format!("{} {}", case.base, case.given));
        let mut only = |text: &str, there: &str, elsewhere: &str| {
            if text != NEVER && !there.contains(text) {
                failures.push(format!("{}: '{text}' is missing:\n{there}", case.given));
            }
            if text != NEVER && elsewhere.contains(text) {
                failures.push(format!("{}: '{text}' is there in any case", case.given));
            }
        };
        only(case.with, &asked, &plain);
        only(case.without, &plain, &asked);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn options_without_effect_have_none() {
    let plain = seen("");
    for row in OPTIONS {
        if let Status::NoEffect(why) = row.status {
            assert!(!why.is_empty(), "{}", row.long);
            let value = match row.argument {
                "" => "",
                "<true|false>" => "=true",
                _ => "=5",
            };
            let asked = seen(&format!("--{}{value}", row.long));
            assert_eq!(asked, plain, "--{}", row.long);
        }
    }
}

#[test]
fn fast_compilation_gives_up_levels() {
    let sum = r".version 8.0
.target sm_90
.address_size 64
.visible .entry sum(.param .u64 data)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    .reg .pred %p;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
AGAIN:
    ld.global.u32 %r3, [%rd1];
    add.u32 %r2, %r2, %r3;
    add.u64 %rd1, %rd1, 4;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, 64;
    @%p bra AGAIN;
    st.global.u32 [%rd1], %r2;
    ret;
}
";
    let code = |line: &str| {
        let text = seen_of(line, sum);
        text.split(".elftype").nth(1).map(str::to_owned)
    };
    assert_eq!(code("--Ofast-compile=0"), code("-O3"));
    assert_eq!(code("--Ofast-compile=max"), code("-O1"));
    assert_ne!(code("-O1"), code("-O3"));
}

#[test]
fn functions_of_objects_have_a_limit_of_their_own() {
    let function = PROGRAM.replace(".entry second", ".func second");
    let code = |line: &str| {
        let text = seen_of(line, &function);
        let text = text.split("//--------------------- .text.second").nth(1);
        let text = text.expect("the function's code").to_owned();
        text.split("//---")
            .next()
            .map(str::to_owned)
            .unwrap_or_default()
    };
    let many = |line: &str| code(line).contains("R40");
    assert!(many("-c"));
    assert!(!many("-c --device-function-maxrregcount=24"));
    assert!(!many("-c --maxrregcount=24"));
    assert!(many(
        "-c --maxrregcount=24 --device-function-maxrregcount=64"
    ));
}

#[test]
fn levels_of_register_usage_steer_registers() {
    let programs = [
        include_str!("../../../tests/run/brain_directions.ptx"),
        include_str!("../../../tests/run/wide_division.ptx"),
    ];
    let used = |level: &str, program: &str| {
        let text = seen_of(&format!("-v {level}"), program);
        let (_, rest) = text.split_once(": Used ").expect("a report");
        let (count, _) = rest.split_once(' ').expect("a number");
        count.parse::<u32>().expect("a number")
    };
    let usual = used("", programs[0]);
    assert!(used("-regUsageLevel=0", programs[0]) < usual);
    assert!(usual < used("-regUsageLevel=10", programs[0]));
    for [one, other] in [["0", "3"], ["4", "5"], ["6", "10"]] {
        for program in programs {
            let level = |level| used(&format!("--register-usage-level={level}"), program);
            assert_eq!(level(one), level(other), "{one} and {other}");
        }
    }
}

#[test]
fn every_option_has_a_case() {
    for row in OPTIONS {
        let cases = CASES.iter().filter(|case| case.option == row.long).count();
        let read = usize::from(READ.contains(&row.long));
        let expected = usize::from(row.status == Status::Effective);
        assert_eq!(cases + read, expected, "--{}", row.long);
    }
}

#[test]
fn commands_are_read() {
    assert_eq!(
        read("-arch=sm_90a p.ptx").options.target.to_string(),
        "sm_90a"
    );
    assert_eq!(read("-h p.ptx").action, Action::Help);
    assert_eq!(read("-V p.ptx").action, Action::Version);
    assert_eq!(read("--list-version p.ptx").action, Action::ListVersions);
    assert_eq!(read("-ias text").inputs.len(), 1);
    assert_eq!(read("-m 64 p.ptx"), read("p.ptx"));
    assert!(parse(["-m", "32", "p.ptx"].map(String::from), &mut |_| None).is_err());
    let files = |name: &str| (name == "options").then(|| b"-O1".to_vec());
    let mut files = files;
    let line = ["--options-file", "options", "p.ptx"].map(String::from);
    let from_file = parse(line, &mut files).expect("a command line");
    assert_eq!(from_file.options.opt_level, 1);
    assert_eq!(read("-o there p.ptx").output, "there");
    assert_eq!(read("--split-compile=2 p.ptx").options.threads, Some(2));
    assert_eq!(read("--minnctapersm=3 p.ptx").options.min_blocks, Some(3));
    let stats = read("--compiler-stats=time --compiler-stats-file=s p.ptx");
    assert_eq!(stats.statistics_file.as_deref(), Some("s"));
    assert_ne!(
        read("--knob-file knobs p.ptx").options.knobs,
        read("p.ptx").options.knobs
    );
    let format = read("--message-format=json p.ptx").message_format;
    assert_eq!(format, MessageFormat::Json);
    let asked = read("--assume-extern-functions-do-not-sync=true p.ptx");
    assert_ne!(asked.options.knobs, read("p.ptx").options.knobs);
    // However many threads compile, the output is the same.
    assert_eq!(seen("--split-compile=1"), seen("--split-compile=4"));
}
