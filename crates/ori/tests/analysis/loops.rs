use super::generate::{GRAPHS, graph};
use super::slow::reach;
use cranelift_entity::EntityRef;
use orias_ori::Block;
use orias_ori::analysis::{DepthFirst, FlowGraph, LoopNest};
use std::collections::BTreeSet;

/// A loop as the definition finds it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct SlowLoop {
    header: Block,
    blocks: BTreeSet<Block>,
    depth: u32,
}

/// The loops among `blocks`, then, without the edges back to their headers, the loops inside them.
fn slow_loops(graph: &FlowGraph, walk: &DepthFirst) -> BTreeSet<SlowLoop> {
    let mut found = BTreeSet::new();
    let reachable: BTreeSet<Block> = walk.preorder().iter().copied().collect();
    let mut pending = vec![(reachable, BTreeSet::new(), 1)];
    while let Some((blocks, headers, depth)) = pending.pop() {
        // Edges to the headers of loops around do not count inside them.
        let inside = |from: Block| -> BTreeSet<Block> {
            let mut seen = BTreeSet::new();
            let mut todo = vec![from];
            while let Some(block) = todo.pop() {
                for &succ in graph.succs(block) {
                    if blocks.contains(&succ) && !headers.contains(&succ) && seen.insert(succ) {
                        todo.push(succ);
                    }
                }
            }
            seen
        };
        let reached: Vec<(Block, BTreeSet<Block>)> =
            blocks.iter().map(|&block| (block, inside(block))).collect();
        let reaches = |a: Block, b: Block| {
            reached
                .iter()
                .any(|(from, to)| *from == a && to.contains(&b))
        };
        let mut seen = BTreeSet::new();
        for &block in &blocks {
            if !reaches(block, block) || seen.contains(&block) {
                continue;
            }
            let body: BTreeSet<Block> = blocks
                .iter()
                .copied()
                .filter(|&other| reaches(block, other) && reaches(other, block))
                .collect();
            seen.extend(body.iter().copied());
            let header = *body
                .iter()
                .min_by_key(|&&b| walk.preorder_number(b))
                .expect("a loop has blocks");
            let mut headers: BTreeSet<Block> = headers.clone();
            headers.insert(header);
            pending.push((body.clone(), headers, depth + 1));
            found.insert(SlowLoop {
                header,
                blocks: body,
                depth,
            });
        }
    }
    found
}

#[test]
fn loops_are_the_components_left_when_outer_back_edges_are_gone() {
    let mut irreducible = 0;
    let mut nested = 0;
    for seed in 0..GRAPHS {
        let graph = graph(seed);
        let walk = DepthFirst::new(&graph);
        let nest = LoopNest::new(&graph, &walk);
        let fast: BTreeSet<SlowLoop> = nest
            .loops()
            .map(|l| SlowLoop {
                header: nest.header(l),
                blocks: nest.blocks(l).iter().copied().collect(),
                depth: nest.depth(l),
            })
            .collect();
        assert_eq!(fast.len(), nest.len(), "graph {seed}");
        let slow = slow_loops(&graph, &walk);
        assert_eq!(
            fast,
            slow,
            "graph {seed}: {:?}",
            graph.edges().collect::<Vec<_>>()
        );
        for l in nest.loops() {
            let header = nest.header(l);
            let blocks: BTreeSet<Block> = nest.blocks(l).iter().copied().collect();
            assert_eq!(nest.blocks(l)[0], header);
            assert_eq!(nest.headed_by(header), Some(l));
            let without = reach(&graph, &[graph.entry()], |block| block == header);
            let dominated = blocks.iter().all(|block| !without[block.index()]);
            assert_eq!(nest.is_irreducible(l), !dominated, "graph {seed}: {l}");
            irreducible += usize::from(!dominated);
            nested += usize::from(nest.depth(l) > 1);
            let latches: Vec<Block> = blocks
                .iter()
                .copied()
                .filter(|&block| graph.succs(block).contains(&header))
                .collect();
            assert_eq!(nest.latches(l), latches, "graph {seed}: {l}");
            let mut exits: Vec<(Block, Block)> = nest.exits(l).collect();
            exits.sort();
            let mut expected: Vec<(Block, Block)> = graph
                .edges()
                .filter(|(from, to)| blocks.contains(from) && !blocks.contains(to))
                .collect();
            expected.sort();
            assert_eq!(exits, expected, "graph {seed}: {l}");
            if let Some(parent) = nest.parent(l) {
                assert!(
                    nest.encloses(parent, l)
                        && parent < l
                        && nest.depth(parent) + 1 == nest.depth(l)
                );
            }
        }
        for block in graph.blocks() {
            let around: Vec<&SlowLoop> =
                slow.iter().filter(|l| l.blocks.contains(&block)).collect();
            assert_eq!(
                nest.block_depth(block) as usize,
                around.len(),
                "graph {seed}: {block}"
            );
            let smallest = around.iter().max_by_key(|l| l.depth).map(|l| l.header);
            assert_eq!(nest.innermost(block).map(|l| nest.header(l)), smallest);
        }
    }
    assert!(
        irreducible > 300 && nested > 300,
        "the generator makes {irreducible} irreducible, {nested} nested loops"
    );
}
