use super::generate::{GRAPHS, graph};
use super::slow::{reach, reaches};
use cranelift_entity::EntityRef;
use orias_ori::Block;
use orias_ori::analysis::{Components, DepthFirst, FlowGraph};

#[test]
fn successors_keep_their_order_and_predecessors_mirror_them() {
    let block = Block::from_u32;
    let edges = [(0, 2), (0, 1), (0, 2), (2, 2), (3, 1)].map(|(from, to)| (block(from), block(to)));
    let graph = FlowGraph::from_edges(4, block(0), &edges);
    assert_eq!(graph.succs(block(0)), [block(2), block(1), block(2)]);
    assert_eq!(graph.preds(block(2)), [block(0), block(0), block(2)]);
    assert_eq!(graph.preds(block(1)), [block(0), block(3)]);
    assert_eq!(graph.edge_count(), 5);
}

#[test]
fn orders_list_each_reachable_block_once() {
    for seed in 0..GRAPHS {
        let graph = graph(seed);
        let walk = DepthFirst::new(&graph);
        let reachable = reach(&graph, &[graph.entry()], |_| false);
        for block in graph.blocks() {
            let expected = usize::from(reachable[block.index()]);
            for order in [walk.preorder(), walk.postorder()] {
                assert_eq!(
                    order.iter().filter(|&&b| b == block).count(),
                    expected,
                    "graph {seed}"
                );
            }
            assert_eq!(walk.is_reachable(block), reachable[block.index()]);
        }
    }
}

#[test]
fn reverse_postorder_goes_forward_except_along_retreating_edges() {
    for seed in 0..GRAPHS {
        let graph = graph(seed);
        let walk = DepthFirst::new(&graph);
        for (from, to) in graph.edges().filter(|&(from, _)| walk.is_reachable(from)) {
            let forward = walk.postorder_number(from) > walk.postorder_number(to);
            // The ancestor test from parent links, followed one by one.
            let mut above = Some(from);
            while above.is_some_and(|block| block != to) {
                above = above.and_then(|block| walk.parent(block));
            }
            assert_eq!(above.is_some(), walk.is_ancestor(to, from), "graph {seed}");
            assert_eq!(forward, above.is_none(), "graph {seed}: {from} to {to}");
        }
    }
}

#[test]
fn components_hold_blocks_that_reach_each_other() {
    for seed in 0..GRAPHS {
        let graph = graph(seed);
        let components = Components::new(&graph);
        let reaches = reaches(&graph);
        for a in graph.blocks() {
            for b in graph.blocks() {
                let together =
                    a == b || reaches[a.index()][b.index()] && reaches[b.index()][a.index()];
                assert_eq!(
                    components.component(a) == components.component(b),
                    together,
                    "graph {seed}"
                );
            }
        }
        for (from, to) in graph.edges() {
            assert!(
                components.component(from) >= components.component(to),
                "graph {seed}"
            );
        }
    }
}
