//! PTX.

use super::{Target, texts};

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "ptx",
        seeds: || texts(&[include_str!("../../../../../examples/vector_add.ptx")]),
        words: &[
            ".reg",
            ".b32",
            ".entry",
            ".func",
            ".param",
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            ";",
            "%r1",
            "0f3F800000",
            "0x",
            "/*",
            "*/",
            "@!%p1",
            "bra",
            ".target",
            "sm_90a",
            ".version",
            "\"",
            "<",
            ">",
            "mad.lo.s32",
            "::",
            ".align",
        ],
        check: ptx,
    },
    Target {
        name: "lower",
        seeds: || {
            texts(&[
                include_str!("../../../../../examples/vector_add.ptx"),
                include_str!("../../../../../tests/ptx/lower/calls.ptx"),
                include_str!("../../../../../tests/ptx/lower/guards.ptx"),
                include_str!("../../../../../tests/ptx/lower/loop.ptx"),
                include_str!("../../../../../tests/ptx/lower/memory.ptx"),
            ])
        },
        words: &[
            "%r1",
            "%r2",
            "%rd1",
            "%p1",
            "@%p1",
            "@!%p1",
            "_",
            "{%r1, %r2}",
            "[%rd1+4]",
            "bra done;",
            "exit;",
            "ret;",
            ".b8",
            ".b16",
            ".b32",
            ".b64",
            ".u8",
            ".s64",
            ".f32",
            ".v2",
            ".v4",
            ".shared",
            ".local",
            ".param",
            "ld",
            "st",
            "mov",
            "cvt",
            "add",
            "setp",
            "call",
            "0",
            "-1",
            "4294967296",
        ],
        check: lower,
    },
];

/// What has no errors becomes sound code, through phase 5 as well, or is refused with a reason.
fn lower(input: &[u8]) {
    use orias_codegen::pipeline::{Context, PHASES, Pipeline, find_phase};
    let options = orias_ptx::Options::for_architecture("sm_90a").unwrap_or_default();
    let (module, mut found) = orias_ptx::parse(input);
    found.append(orias_ptx::check(&module, &options));
    if found.has_errors() {
        return;
    }
    let lowered =
        orias_codegen::lower::lower(&module, &orias_codegen::lower::LowerOptions::default());
    let text = String::from_utf8_lossy(input);
    match lowered {
        Err(problems) => {
            for problem in problems {
                assert!(
                    !problem.message.contains("internal"),
                    "{}\n{text}",
                    problem.message
                );
            }
        }
        Ok(lowered) => {
            let end = find_phase(PHASES, "ConvertUnsupportedOps").map_or(0, |row| row + 1);
            let pipeline = Pipeline {
                end,
                verify_each: true,
                ..Pipeline::default()
            };
            let knobs = orias_codegen::knobs::Knobs::default();
            let context = Context {
                opt_level: 3,
                knobs: &knobs,
                machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
            };
            for mut kernel in lowered.kernels {
                let outcome = pipeline.run(&mut kernel.code, &context, &mut |_| {});
                assert_eq!(outcome, Ok(()), "{text}");
            }
        }
    }
}

/// What has no errors prints, and what is printed has none and prints the same.
fn ptx(input: &[u8]) {
    let options = orias_ptx::Options::default();
    let (module, mut found) = orias_ptx::parse(input);
    found.append(orias_ptx::check(&module, &options));
    let _ = found.to_excerpts("input", input);
    let _ = found.to_json("input", input);
    if found.has_errors() {
        return;
    }
    let printed = orias_ptx::print(&module);
    let (again, found) = orias_ptx::parse(printed.as_bytes());
    assert!(
        !found.has_errors(),
        "{}\n{printed}",
        found.to_excerpts("printed", printed.as_bytes())
    );
    assert_eq!(orias_ptx::print(&again), printed);
}
