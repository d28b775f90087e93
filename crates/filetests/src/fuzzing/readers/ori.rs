//! Ori text.

use super::{Target, texts};
use orias_codegen::knobs::Knobs;
use orias_codegen::pipeline::{Context, Failure, PhaseError, Pipeline};
use orias_machine::Machine;
use orias_ori::{parse_module, print_function, verify_module};

pub(super) const TARGETS: &[Target] = &[Target {
    name: "ori_text",
    seeds: || texts(ORI_SEEDS),
    words: &[
        "func",
        "entry",
        "abstract",
        "machine",
        "physical",
        "final",
        "block0",
        "v0",
        ":r",
        ":rx2",
        ":p",
        "->",
        "R4..R7",
        "desc[",
        "c[0x0]",
        "uses(",
        "@!P0",
        "[B0-----:R-:W1:-:S02]",
        "mov.b32",
        "add.s32",
        "cbr",
        "br",
        "exit",
        "~",
        "_",
    ],
    check: ori_text,
}];

const ORI_SEEDS: &[&str] = &[
    "func scale abstract sm_90a -> r {\n  local 16\n  loc #0 = 1:12:5\nblock0(v0:r, v1:rx2):\n    v2:r = add.s32 v0, 4  #0\n    \
     v3:p, _ = setp.lt.s32 v2, 0, _\n    @v3 v4:r~v2 = mov.b32 0\n    cbr v3 -> block1(v4), block2\nblock1(v5:r):\n    ret v5\n\
     block2:\n    trap\n}\n",
    "entry k final sm_90a {\nblock0:\n    [B0-----:R-:W1:-:S02] @!P0 LDS.64 R4..R5, [R2+UR4+0x10]\n    \
     [B------:R-:W-:-:S05] EXIT PT\n}\n",
    "func f abstract sm_90a -> r {\nblock0(v0:r, v1:p):\n    v2:rx2 = collect v0, v0\n    v3:r, v4:r = split v2\n    \
     br -> block1(v3)\nblock1(v5:r):\n    v6:r = add.s32 v5, v4\n    cbr v1 -> block1(v6), block2(v0)\nblock2(v7:r):\n    \
     v8:r = selp.b32 v7, v6, v1\n    ret v7\n}\n",
    "entry k physical sm_90a {\nblock1:\n    NOP\n    IADD3 RZ, PT, PT, R1, 1, RZ\n    BRA PT, block0\nblock0:\n    \
     EXIT PT\n}\n",
];

/// What can be read prints, reads back equal, and can be verified; what is sound goes through the phases and stays so.
fn ori_text(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(module) = parse_module(&text) else {
        return;
    };
    let printed: String = module.functions.iter().map(print_function).collect();
    match parse_module(&printed) {
        Ok(again) => assert!(again == module, "{printed}"),
        Err(error) => panic!("{error}\n{printed}"),
    }
    // Broken functions are errors, not panics.
    if verify_module(&module).is_err() {
        return;
    }
    let pipeline = Pipeline {
        verify_each: true,
        ..Pipeline::default()
    };
    for opt_level in [1, 3] {
        for mut function in module.functions.iter().cloned() {
            let context = Context {
                opt_level,
                knobs: &Knobs::default(),
                machine: Machine::of(function.target),
            };
            // What is not supported yet is refused; anything else a phase stumbles over is a mistake in it.
            match pipeline.run(&mut function, &context, &mut |_| {}) {
                Ok(())
                | Err(Failure::Phase {
                    error: PhaseError::Unsupported(_),
                    ..
                }) => {}
                Err(failure) => panic!("{failure}\n{printed}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_good_functions() {
        for seed in ORI_SEEDS {
            let module = parse_module(seed).unwrap_or_else(|error| panic!("{error}\n{seed}"));
            assert_eq!(verify_module(&module), Ok(()), "{seed}");
        }
    }
}
