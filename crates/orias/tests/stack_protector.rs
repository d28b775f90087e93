//! `--device-stack-protector`: a function that wrote beyond its array does not return.

use std::process::{Command, Output};

/// A function that writes as many words to an array of 16 as it is told.
const PROGRAM: &str = ".version 9.0
.target sm_90a
.address_size 64
.visible .func (.param .b32 r) fill(.param .b32 n)
{
    .local .align 8 .b8 array[64];
    .reg .b64 d<3>;
    .reg .b32 i, count, v;
    .reg .pred p;
    cvta.local.u64 d1, array;
    ld.param.u32 count, [n];
    mov.u32 i, 0;
LOOP:
    mul.wide.u32 d2, i, 4;
    add.u64 d2, d1, d2;
    st.u32 [d2], i;
    add.u32 i, i, 1;
    setp.lt.u32 p, i, count;
    @p bra LOOP;
    ld.u32 v, [d1+12];
    st.param.b32 [r], v;
    ret;
}
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .reg .b64 d;
    .reg .b32 r0, r1;
    ld.param.u64 d, [out];
    ld.param.u32 r0, [n];
    { .param .b32 a; .param .b32 b; st.param.b32 [a], r0; call (b), fill, (a); ld.param.b32 r1, [b]; }
    st.global.u32 [d], r1;
    ret;
}
";

fn orias(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orias"));
    command.args(args).output().expect("the command")
}

/// What a run that writes `count` words says.
fn run(protector: &str, count: u32) -> String {
    let to = format!("{}/{protector}.cubin", env!("CARGO_TARGET_TMPDIR"));
    let option = format!("--device-stack-protector={protector}");
    let made = orias(&["-arch=sm_90a", "-g", &option, "-ias", PROGRAM, "-o", &to]);
    assert!(made.status.success());
    let count = format!("u32:{count}");
    let ran = orias(&[
        "run",
        &to,
        "--kernel",
        "k",
        "--block",
        "1",
        "--print",
        "0",
        "buf:u32:1:fill:9",
        &count,
    ]);
    String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned()
}

#[test]
fn a_function_that_wrote_beyond_its_array_traps() {
    assert!(run("true", 16).contains("u32[1] 3"));
    assert!(run("false", 17).contains("u32[1] 3"));
    for count in [17, 18] {
        let said = run("true", count);
        assert!(said.contains("trap"), "{said}");
    }
}
