//! What StageAndFence says of loops: the reason by its number, the last loop first, and how many got a fence.

use orias_codegen::knobs::Knobs;
use orias_codegen::phases::explain_fences;
use orias_codegen::pipeline::Context;
use orias_machine::Machine;
use orias_ori::{parse_function, verify_function};

/// What is said of the unrolled loop at block 1 that `blocks` are, with a count of iterations from 0 in `v1` and the launch's number in `v8`.
fn said(blocks: &str) -> Vec<String> {
    let text = format!(
        "entry k abstract sm_90a {{\n  rolled block1\nblock0:\n    v0:r = mov.b32 0\n    v8:r = ld.param.b32 [0x8]\n    v9:p = setp.ne.u32 v8, 0\n{blocks}block9:\n    exit\n}}\n"
    );
    let func = parse_function(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    if let Err(errors) = verify_function(&func) {
        panic!("{errors:?}\n{text}");
    }
    let mut knobs = Knobs::default();
    knobs.set("437=2").expect("a good knob");
    explain_fences(
        &func,
        &Context {
            opt_level: 3,
            knobs: &knobs,
            machine: Machine::of(func.target),
        },
    )
}

/// A loop of one block that stores, counts by `step` and goes on while `condition` holds.
fn said_of_loop(step: &str, condition: &str) -> String {
    let mut lines = said(&format!(
        "    br -> block1(v0)\nblock1(v1:r):\n    v2:r = ld.global.b32 [0x10]\n    st.global.b32 [0x14], v1\n    v3:r = add.s32 v1, {step}\n    v4:p = setp.{condition}\n    cbr v4 -> block1(v3), block9\n"
    ));
    assert_eq!(lines.len(), 2, "{lines:?}");
    let line = lines.remove(0);
    line.replace("loop at block1: ", "")
}

#[test]
fn each_refusal_is_told_by_its_number_and_in_words() {
    let minus = "0xffffffff";
    for (step, condition, wanted) in [
        ("1", "lt.s32 v3, 8", "a fence for Gpu"),
        ("1", "lt.s32 v3, v8", "a fence for Sys"),
        (
            "1",
            "lt.s32 v2, 8",
            "no fence (13): no exit compares an induction variable",
        ),
        (
            "1",
            "lt.f32 v3, v8",
            "no fence (15): its exits do not compare integers",
        ),
        (
            "1",
            "lt.s32 v3, v2",
            "no fence (16): the bound changes in the loop",
        ),
        (
            "1",
            "eq.s32 v3, 8",
            "no fence (17): it goes on while two things are equal",
        ),
        (
            minus,
            "lt.s32 v3, 8",
            "no fence (18): its variable moves away from the bound",
        ),
        (
            "1",
            "gt.s32 v3, 0xfffffff8",
            "no fence (18): its variable moves away from the bound",
        ),
        (
            "2",
            "lt.u32 v3, 0xffffffff",
            "no fence (21): its variable wraps before it meets the bound",
        ),
        (
            "3",
            "ne.u32 v3, 8",
            "no fence (22): its variable passes by the bound",
        ),
        (
            "1",
            "ne.u32 v3, 0xffffffff",
            "no fence (23): it has too many iterations",
        ),
    ] {
        assert_eq!(said_of_loop(step, condition), wanted, "{step}, {condition}");
    }
}

/// The bound on either side, lanes that stay on either edge, the condition turned round, and a comparison whose name settles the sign.
#[test]
fn a_comparison_counts_whichever_way_it_is_written() {
    let said_of = |condition: &str, branch: &str| {
        said(&format!(
            "    br -> block1(v0)\nblock1(v1:r):\n    st.global.b32 [0x14], v1\n    v3:r = add.s32 v1, 1\n    v4:p = setp.{condition}\n    cbr {branch}\n"
        ))
        .remove(0)
    };
    let forth = "v4 -> block1(v3), block9";
    for (condition, branch) in [
        ("ge.s32 v3, 8", "v4 -> block9, block1(v3)"),
        ("ge.s32 v3, 8", "!v4 -> block1(v3), block9"),
        ("gt.s32 8, v3", forth),
        ("ge.s32 7, v3", forth),
        ("lo.u32 v3, 8", forth),
    ] {
        assert_eq!(
            said_of(condition, branch),
            "loop at block1: a fence for Gpu",
            "{condition}, {branch}"
        );
    }
    // From 0 up to -8 by its bits; with a sign it would not go round.
    assert_eq!(
        said_of("lo.s32 v3, 0xfffffff8", forth),
        "loop at block1: no fence (23): it has too many iterations"
    );
    assert_eq!(
        said_of("le.s32 8, v3", forth),
        "loop at block1: no fence (18): its variable moves away from the bound"
    );
}

#[test]
fn ways_in_and_out_are_told_by_their_numbers() {
    // Two ways into the loop of blocks 1 and 2.
    let irreducible = said(
        "    cbr v9 -> block1(v0), block2(v0)\nblock1(v1:r):\n    st.global.b32 [0x14], v1\n    v3:r = add.s32 v1, 1\n    br -> block2(v3)\nblock2(v5:r):\n    v4:p = setp.lt.s32 v5, 8\n    cbr v4 -> block1(v5), block9\n",
    );
    assert_eq!(
        irreducible[0],
        "loop at block1: no fence (12): it can be entered past its header"
    );
    // The exit is passed by where the branch around it is taken.
    let unsteady = said(
        "    br -> block1(v0)\nblock1(v1:r):\n    st.global.b32 [0x14], v1\n    v3:r = add.s32 v1, 1\n    cbr v9 -> block2, block3\nblock2:\n    v4:p = setp.lt.s32 v3, 8\n    cbr v4 -> block3, block9\nblock3:\n    br -> block1(v3)\n",
    );
    assert_eq!(
        unsteady[0],
        "loop at block1: no fence (14): no exit leaves from a block that runs in every iteration"
    );
    let coherent = said(
        "    br -> block1(v0)\nblock1(v1:r):\n    v2:r = ld.global.b32 [0x10]\n    v3:r = add.s32 v1, 1\n    v4:p = setp.lt.s32 v3, 8\n    cbr v4 -> block1(v3), block9\n",
    );
    assert_eq!(
        coherent,
        [
            "loop at block1: no fence (11): its iterations are coherent",
            "0 loops with a fence, 1 without"
        ]
    );
}

#[test]
fn the_last_loop_comes_first_and_both_kinds_are_counted() {
    let text = "entry k abstract sm_90a {\n  rolled block1\n  rolled block2\nblock0:\n    v0:r = mov.b32 0\n    br -> block1(v0)\n\
        block1(v1:r):\n    st.global.b32 [0x14], v1\n    v2:r = add.s32 v1, 1\n    v3:p = setp.lt.s32 v2, 8\n    cbr v3 -> block1(v2), block2(v0)\n\
        block2(v4:r):\n    v5:r = ld.global.b32 [0x10]\n    v6:r = add.s32 v4, 1\n    v7:p = setp.lt.s32 v6, 8\n    cbr v7 -> block2(v6), block3\n\
        block3:\n    exit\n}\n";
    let func = parse_function(text).expect("a good function");
    let mut knobs = Knobs::default();
    knobs.set("437=2").expect("a good knob");
    let context = Context {
        opt_level: 3,
        knobs: &knobs,
        machine: Machine::of(func.target),
    };
    assert_eq!(
        explain_fences(&func, &context),
        [
            "loop at block2: no fence (11): its iterations are coherent",
            "loop at block1: a fence for Gpu",
            "1 loops with a fence, 1 without",
        ]
    );
}
