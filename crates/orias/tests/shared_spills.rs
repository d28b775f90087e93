//! `.pragma "enable_smem_spilling"`: where spilled registers lie, and when that is refused.

use std::process::{Command, Output};

/// A kernel that adds up products of more numbers than it has registers, after `pragma`.
fn kernel(pragma: &str) -> String {
    let numbers = 0..40;
    let loads = numbers
        .clone()
        .map(|n| format!("ld.global.f32 %f{n}, [%d0+{}];", 4 * n));
    let sums = numbers.clone().map(|n| {
        format!(
            "fma.rn.f32 %f{n}, %f{}, 0f3f000000, %f{n};",
            (7 * n + 3) % 40
        )
    });
    let stores = numbers.map(|n| format!("st.global.f32 [%d0+{}], %f{n};", 4 * n));
    let body: Vec<String> = loads.chain(sums).chain(stores).collect();
    format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 4 .b8 dynamic[];\n.visible .entry k(.param .u64 p) .maxntid 64 .maxnreg 24 {{
            .reg .f32 %f<40>; .reg .b64 %d<2>; .reg .b32 %r<2>; {pragma} ld.param.u64 %d0, [p]; {} ret; }}",
        body.join(" ")
    )
}

fn compile(module: &str, more: &[&str]) -> Output {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let to = format!("{folder}/shared_spills.cubin");
    let mut args = vec!["-arch=sm_90a", "-v", "-ias", module, "-o", &to];
    args.extend_from_slice(more);
    let mut command = Command::new(env!("CARGO_BIN_EXE_orias"));
    command.args(args).output().expect("the command")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const PRAGMA: &str = ".pragma \"enable_smem_spilling\";";

/// The bytes of the report of `-v` that stand before `what`.
fn bytes(report: &str, what: &str) -> u32 {
    let before = report.split(what).next().filter(|it| *it != report);
    let number = before.and_then(|it| it.split_whitespace().last());
    number.map_or(0, |it| it.parse().expect("a number"))
}

#[test]
fn spilled_registers_lie_in_shared_memory_where_the_kernel_asks_for_it() {
    let seen = |pragma, more: &[&str]| {
        let report = said(&compile(&kernel(pragma), more));
        let stores = bytes(&report, " bytes spill stores");
        let frame = bytes(&report, " bytes stack frame");
        (stores, frame, bytes(&report, " bytes smem"))
    };
    let (stores, frame, shared) = seen("", &[]);
    assert!(stores > 0 && shared == 0);
    let (fewer, smaller, area) = seen(PRAGMA, &[]);
    assert!(fewer < stores && smaller < frame && area > 0);
    // Whole words of 64 threads.
    assert_eq!(area % (4 * 64), 0);
    for without in [&["-O0"][..], &["-knob", "SharedSpills=false"]] {
        assert_eq!(seen(PRAGMA, without).2, 0);
    }
}

#[test]
fn it_is_refused_where_ptxas_refuses_it() {
    let alone = "Pragma 'enable_smem_spilling' is not allowed for per-function compilation modes";
    for mode in [&["-c"][..], &["-g"], &["-Ofc", "max"]] {
        let output = compile(&kernel(PRAGMA), mode);
        assert!(
            said(&output).contains(alone) && !output.status.success(),
            "{mode:?}"
        );
    }
    let dynamic = kernel(&format!(
        "{PRAGMA} mov.u32 %r0, dynamic; st.shared.u32 [%r0], %r0;"
    ));
    let output = compile(&dynamic, &[]);
    let what = "Pragma 'enable_smem_spilling' is not allowed for dynamic SMEM";
    assert!(said(&output).contains(what) && !output.status.success());
}
