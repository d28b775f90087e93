//! `--compile-as-tools-patch`: functions without what the patched program has in use.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HEAD: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

fn orias(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orias"));
    command.args(args).output().expect("the command")
}

fn compile(text: &str, to: &Path, more: &[&str]) -> Output {
    let module = format!("{HEAD}{text}");
    let to = to.to_str().expect("a name");
    let mut args = vec!["-arch=sm_90a", "-astoolspatch", "-ias", &module, "-o", to];
    args.extend_from_slice(more);
    orias(&args)
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

const COUNTING: &str = "
.global .align 4 .u32 counts[4];
.func (.param .b32 r) square(.param .b32 a)
{
    .reg .b32 x;
    ld.param.b32 x, [a];
    mul.lo.u32 x, x, x;
    st.param.b32 [r], x;
    ret;
}
.visible .func (.param .b32 r) patch(.param .b64 p, .param .b32 n)
{
    .reg .b32 r<9>;
    .reg .b64 d<9>;
    .reg .pred q;
    ld.param.b64 d1, [p];
    ld.param.b32 r1, [n];
    mov.u32 r2, %ntid.x;
    mov.u32 r3, %smid;
    ld.global.u32 r4, [counts+4];
    add.u32 r2, r2, r3;
    add.u32 r2, r2, r4;
    atom.add.u32 r5, [d1], 1;
    red.global.add.u32 [d1+4], r2;
    activemask.b32 r6;
    add.u32 r2, r2, r6;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], r2; call (b), square, (a); ld.param.b32 r2, [b]; }
    isspacep.shared q, d1;
    @q st.shared.u32 [r1], r2;
    st.global.v2.u32 [d1+8], {r2, r5};
    st.param.b32 [r], r2;
    ret;
}
";

#[test]
fn it_has_no_uniform_registers_and_no_descriptors() {
    for level in ["-O0", "-O3"] {
        let cubin = file("patch.cubin");
        let made = compile(COUNTING, &cubin, &[level]);
        assert!(made.status.success(), "{}", said(&made));
        assert_eq!(said(&made), "");
        let cubin = cubin.to_str().expect("a name");
        let code = String::from_utf8(orias(&["disasm", cubin]).stdout).expect("text");
        let lines: Vec<&str> = code.lines().filter(|it| it.contains("/*")).collect();
        let uniform = |line: &&&str| {
            line.split([' ', ',', '[', '.', ']', ';']).any(|word| {
                let number = word.strip_prefix("UR");
                number.is_some_and(|it| it.parse::<u8>().is_ok())
            })
        };
        let found: Vec<_> = lines.iter().filter(uniform).collect();
        assert_eq!(found, Vec::<&&str>::new());
        assert!(!code.contains("desc["), "{code}");
        let elf = String::from_utf8(orias(&["elf", cubin]).stdout).expect("text");
        assert_eq!(elf.matches("TOOLS_PATCH_FUNC").count(), 2, "{elf}");
        assert!(elf.contains("executable"), "{elf}");
    }
}

#[test]
fn what_a_patch_has_no_way_for_is_refused() {
    let refused = |text: &str, more: &[&str]| {
        let to = file("refused.cubin");
        let _ = std::fs::remove_file(&to);
        let output = compile(text, &to, more);
        assert_eq!(output.status.code(), Some(255), "{text}");
        assert!(!to.exists());
        let all = said(&output);
        all.lines().next().unwrap_or_default().to_owned()
    };
    let shared = ".shared .u32 s; .visible .func f() { ret; }";
    assert!(refused(shared, &[]).contains("Allocating additional shared memory is not allowed"));
    let constant = ".const .u32 s; .visible .func f() { ret; }";
    assert!(refused(constant, &[]).contains("Allocating additional constants is not allowed"));
    let entry = ".visible .entry k() { ret; }";
    assert!(refused(entry, &[]).contains("Entry function is not allowed"));
    let pointer = ".visible .func f() { .reg .b64 d; mov.u64 d, f; st.global.u64 [d], d; ret; }";
    assert!(refused(pointer, &[]).contains("Taking address of device functions is not allowed"));
    let redux = ".visible .func f() { .reg .b32 r; redux.sync.add.u32 r, r, -1; ret; }";
    assert!(refused(redux, &[]).contains("Instruction 'redux' is not allowed"));
    let plain = ".visible .func f() { ret; }";
    assert!(refused(plain, &["-c"]).contains("Conflicting options '--compile-only'"));
    assert!(refused(plain, &["-maxrregcount=32"]).contains("Invalid value '32'"));
}

#[test]
fn uniform_registers_that_are_needed_are_warned_about() {
    let texture = ".visible .func f(.param .b64 t) { .reg .b64 d; .reg .f32 f<9>; ld.param.b64 d, [t]; \
        tex.1d.v4.f32.f32 {f1, f2, f3, f4}, [d, {f5}]; st.global.v4.f32 [d], {f1, f2, f3, f4}; ret; }";
    let made = compile(texture, &file("texture.cubin"), &[]);
    assert!(made.status.success(), "{}", said(&made));
    assert!(
        said(&made).contains("(C7601) Uniform registers were disallowed"),
        "{}",
        said(&made)
    );
}
