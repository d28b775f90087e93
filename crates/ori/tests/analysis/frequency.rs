use super::functions::{FUNCTIONS, function};
use cranelift_entity::EntityRef as _;
use orias_ori::analysis::{DepthFirst, FlowGraph, Frequencies, LoopNest};
use orias_ori::{Block, parse_function};

/// How often each block of a function runs, and whether it is cold.
fn frequencies(text: &str) -> Vec<(f64, bool)> {
    let func = parse_function(text).unwrap();
    let found = Frequencies::of(&func);
    let of = |number| {
        (
            found.times(Block::new(number)),
            found.is_cold(Block::new(number)),
        )
    };
    (0..func.block_count()).map(of).collect()
}

fn times(text: &str) -> Vec<f64> {
    frequencies(text).into_iter().map(|it| it.0).collect()
}

#[test]
fn a_warp_goes_both_ways_and_meets_behind() {
    let text = "func f abstract sm_90a {
block0(v0:p):
    cbr v0 -> block1, block2
block1:
    br -> block3
block2:
    br -> block3
block3:
    ret
}
";
    assert_eq!(times(text), [1.0, 1.0, 1.0, 1.0]);
}

#[test]
fn what_enters_a_loop_leaves_it() {
    // Two loops, one in the other, the outer one with two exits.
    let text = "func f abstract sm_90a {
block0(v0:p):
    br -> block1
block1:
    cbr v0 -> block2, block5
block2:
    cbr v0 -> block2, block3
block3:
    cbr v0 -> block1, block4
block4:
    br -> block5
block5:
    cbr v0 -> block6, block7
block6:
    br -> block7
block7:
    ret
}
";
    let found = times(text);
    let each = f64::from(Frequencies::ITERATIONS);
    assert_eq!(found[1], each);
    assert_eq!(found[2], each * each);
    assert_eq!((found[4], found[7]), (1.0, 1.0));
}

#[test]
fn rare_ways_make_cold_blocks_and_joins_stay_hot() {
    let text = "func f abstract sm_90a {
  rare block1
block0(v0:p):
    cbr v0 -> block1, block3
block1:
    cbr v0 -> block2, block3
block2:
    br -> block3
block3:
    cbr v0 -> block4, block5
block4:
    unreachable
block5:
    ret
}
";
    let found = frequencies(text);
    let cold: Vec<bool> = found.iter().map(|it| it.1).collect();
    assert_eq!(cold, [false, true, true, false, true, false]);
    assert!(found[1].0 < 1e-2 && found[4].0 < 1e-5 && found[3].0 > 0.999);
}

#[test]
fn what_the_source_states_holds_for_the_block_and_what_it_dominates_in_its_loop() {
    let text = "func f abstract sm_90a {
  frequency block1 1000
  frequency block3 1
block0(v0:p):
    br -> block1
block1:
    cbr v0 -> block2, block5
block2:
    cbr v0 -> block3, block4
block3:
    br -> block4
block4:
    br -> block1
block5:
    ret
}
";
    let found = frequencies(text);
    assert_eq!(found[1].0, 1000.0);
    assert_eq!(found[2].0, 1000.0);
    assert_eq!(found[3], (1.0, true));
    assert_eq!(found[5], (1.0, false));
}

/// In generated functions no block runs more often than the loops around it say, and every block that is reached runs, but for what lies
/// behind irreducible loops.
#[test]
fn nothing_is_lost_and_nothing_is_made() {
    let mut known = 0;
    for seed in 0..FUNCTIONS {
        let func = function(seed);
        let graph = FlowGraph::of(&func);
        let walk = DepthFirst::new(&graph);
        let nest = LoopNest::new(&graph, &walk);
        let found = Frequencies::new(&func, &graph, &walk, &nest);
        let plain = !nest.loops().any(|it| nest.is_irreducible(it));
        for &block in walk.preorder() {
            let times = found.times(block);
            let depth = nest.block_depth(block).min(Frequencies::DEEPEST);
            let most = f64::from(Frequencies::ITERATIONS.pow(depth));
            assert!((0.0..=most).contains(&times), "{seed}: {block} {times}");
            assert!(times > 0.0 || !plain, "{seed}: {block} never runs");
        }
        known += u64::from(plain);
    }
    assert!(known > FUNCTIONS / 4);
}
