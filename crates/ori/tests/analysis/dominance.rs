use super::generate::{GRAPHS, graph};
use super::slow::{reach, reaches};
use cranelift_entity::EntityRef;
use orias_ori::Block;
use orias_ori::analysis::{DepthFirst, DominatorTree, FlowGraph, PostDominatorTree};

#[test]
fn a_dominates_b_when_without_a_no_path_leads_to_b() {
    for seed in 0..GRAPHS {
        let graph = graph(seed);
        let tree = DominatorTree::new(&graph, &DepthFirst::new(&graph));
        let reachable = reach(&graph, &[graph.entry()], |_| false);
        for a in graph.blocks() {
            let without = reach(&graph, &[graph.entry()], |block| block == a);
            for b in graph.blocks() {
                assert_eq!(
                    tree.dominates(a, b),
                    !without[b.index()],
                    "graph {seed}: {a} over {b}"
                );
            }
        }
        check_immediate(
            &graph,
            seed,
            |b| tree.immediate_dominator(b),
            |a, b| reachable[a.index()] && reachable[b.index()] && tree.dominates(a, b),
        );
        for block in graph.blocks().filter(|&block| reachable[block.index()]) {
            let above = graph
                .blocks()
                .filter(|&a| reachable[a.index()] && tree.strictly_dominates(a, block));
            assert_eq!(tree.depth(block) as usize, above.count());
            assert!(
                tree.children(block)
                    .all(|child| tree.immediate_dominator(child) == Some(block))
            );
        }
    }
}

#[test]
fn a_post_dominates_b_when_without_a_no_path_leads_to_an_end() {
    for seed in 0..GRAPHS {
        let graph = graph(seed);
        let tree = PostDominatorTree::new(&graph);
        let reaches = reaches(&graph);
        // A block ends the function, or lies where control can never get away from: all it reaches reaches it.
        let ends: Vec<bool> = graph
            .blocks()
            .map(|block| {
                graph.blocks().all(|other| {
                    !reaches[block.index()][other.index()] || reaches[other.index()][block.index()]
                })
            })
            .collect();
        for a in graph.blocks() {
            for b in graph.blocks() {
                let without = reach(&graph, &[b], |block| block == a);
                let escapes = graph
                    .blocks()
                    .any(|block| without[block.index()] && ends[block.index()]);
                assert_eq!(
                    tree.post_dominates(a, b),
                    !escapes,
                    "graph {seed}: {a} after {b}"
                );
            }
        }
        check_immediate(
            &graph,
            seed,
            |b| tree.immediate_post_dominator(b),
            |a, b| tree.post_dominates(a, b),
        );
        for block in graph.blocks() {
            let below = graph
                .blocks()
                .filter(|&a| a != block && tree.post_dominates(a, block));
            assert_eq!(tree.depth(block) as usize, below.count());
        }
    }
}

/// The immediate one of several is the one all others are over.
fn check_immediate(
    graph: &FlowGraph,
    seed: u64,
    immediate: impl Fn(Block) -> Option<Block>,
    over: impl Fn(Block, Block) -> bool,
) {
    for b in graph.blocks() {
        let strict: Vec<Block> = graph.blocks().filter(|&a| a != b && over(a, b)).collect();
        let expected = strict
            .iter()
            .copied()
            .find(|&a| strict.iter().all(|&other| over(other, a)));
        assert_eq!(immediate(b), expected, "graph {seed}: {b}");
    }
}
