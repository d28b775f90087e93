//! Graphs to test on: random ones of several characters, from a seed.

use orias_ori::Block;
use orias_ori::analysis::FlowGraph;
use orias_random::Rng;

/// Draws that shapes are made of.
pub(crate) struct Random(Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(Rng::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// How many graphs each comparison runs over.
pub(crate) const GRAPHS: u64 = 10_000;

/// The graph of `seed`: sparse or dense, mostly forward or anything goes; unreachable blocks, self loops, double edges,
/// loops without exit and irreducible loops all occur.
pub(crate) fn graph(seed: u64) -> FlowGraph {
    let mut random = Random::new(seed);
    let count = 1 + random.below(if seed / 4 % 4 == 3 { 20 } else { 10 });
    let mut edges = Vec::new();
    match seed % 4 {
        // Anything goes.
        0 => {
            let wanted = random.below(2 * count + 2);
            for _ in 0..wanted {
                edges.push((random.below(count), random.below(count)));
            }
        }
        // A chain with extra edges, some back, some double.
        1 => {
            for block in 1..count {
                edges.push((block - 1, block));
            }
            for _ in 0..random.below(count + 1) {
                let edge = (random.below(count), random.below(count));
                edges.push(edge);
                if random.chance(10) {
                    edges.push(edge);
                }
            }
        }
        // Two-way branches forward, with a few edges back.
        2 => {
            for block in 0..count - 1 {
                for _ in 0..1 + random.below(2) {
                    edges.push((block, block + 1 + random.below((count - block - 1).min(4))));
                }
                if random.chance(20) {
                    edges.push((block, random.below(block + 1)));
                }
            }
        }
        // Properly nested code: sequences, branches, loops.
        _ => edges = nested(&mut random, count),
    }
    let edges: Vec<(Block, Block)> = edges
        .into_iter()
        .map(|(from, to)| (Block::from_u32(from as u32), Block::from_u32(to as u32)))
        .collect();
    FlowGraph::from_edges(count, Block::from_u32(0), &edges)
}

/// Edges of code made of sequences, if-then-else and loops, with at most `count` blocks; some exits and continues besides.
fn nested(random: &mut Random, count: usize) -> Vec<(usize, usize)> {
    let mut edges = Vec::new();
    // A stack of (from, to) gaps to fill with more structure.
    let mut gaps = vec![(0, count - 1)];
    let mut fresh = 1;
    while let Some((from, to)) = gaps.pop() {
        let room = (count - 1).saturating_sub(fresh);
        match random.below(5) {
            0 | 1 if room >= 1 => {
                gaps.push((from, fresh));
                gaps.push((fresh, to));
                fresh += 1;
            }
            2 if room >= 2 => {
                gaps.push((from, fresh));
                gaps.push((from, fresh + 1));
                gaps.push((fresh, to));
                gaps.push((fresh + 1, to));
                fresh += 2;
            }
            3 if room >= 2 => {
                gaps.push((from, fresh));
                gaps.push((fresh, fresh + 1));
                edges.push((fresh + 1, fresh));
                edges.push((if random.chance(50) { fresh } else { fresh + 1 }, to));
                fresh += 2;
            }
            _ => edges.push((from, to)),
        }
    }
    if random.chance(30) {
        edges.push((random.below(count), random.below(count)));
    }
    edges
}
