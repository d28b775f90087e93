//! Stores to neighbouring bytes go one behind the other, and so do loads.
//!
//! What a thread stores to one line of memory leaves the load-store unit as one write if the stores follow each other closely, and as
//! several writes of parts of a line if they do not. On an H200, the same instructions took up to a quarter longer where a
//! scheduler had let one store of four go as soon as its value was there (`bench/RESULTS.md`). The cycle model, which counts one
//! warp's issue slots, sees nothing of it. So orders are mended before they are judged: of the stores of one line, the earlier ones sink
//! to the last one, as far as the graph allows. What the graph does not allow to mend is judged: an order in which more neighbours
//! are apart than in the one there was is not taken ([`torn`]), whatever the model says. (A guard that is computed anew between two
//! stores holds the first one back; taken early by a scheduler, it cost a rounding kernel 1.23 times its time. So it is with
//! loads, whose later halves find their line on its way if they follow at once.)

use super::Ports;
use crate::schedule::alias::{self, Base};
use crate::schedule::graph::{Graph, Node};
use orias_machine::issue;
use orias_ori::{Class, Function, RegKind};
use orias_sass::Space;
use std::collections::BTreeMap;

/// Bytes of a line.
const LINE: i64 = 128;

/// A store sinks past at most this many instructions.
const FARTHEST: usize = 256;

/// Neighbours with more instructions between them are apart.
const NEAR: usize = 4;

/// Accesses of a block that touch one line, in program order: two or more.
type Line = Vec<u32>;

/// The accesses of a block by lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    stores: Vec<Line>,
    loads: Vec<Line>,
}

/// Whether neighbours of a function are looked for at all. Not where there are warpgroup matrix operations: the stores behind them are
/// spread over what computes their values on purpose, and brought together they took 1.11 times as long.
pub(super) fn are_gathered(func: &Function) -> bool {
    let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
    !insts.any(|inst| {
        let op = func.opcode(inst).as_machine();
        op.is_some_and(issue::is_warpgroup_matrix)
    })
}

/// Finds them.
pub(super) fn lines(func: &Function, graph: &Graph, ports: &[Ports]) -> Lines {
    Lines {
        stores: accesses(func, graph, ports, |node| node.stores && !node.loads),
        loads: accesses(func, graph, ports, |node| node.loads && !node.stores),
    }
}

fn accesses(
    func: &Function,
    graph: &Graph,
    ports: &[Ports],
    wanted: fn(&Node) -> bool,
) -> Vec<Line> {
    let mut versions: BTreeMap<u16, u32> = BTreeMap::new();
    let mut known: Vec<(Base, i64)> = Vec::new();
    let mut lines: Vec<Line> = Vec::new();
    for node in graph.body() {
        let data = &graph.nodes[node];
        if wanted(data) && !data.is_fence() {
            let refs = alias::accesses(func, data.inst, &mut |reg| match reg.kind() {
                RegKind::Phys(reg) if reg.class() == Class::R => {
                    let version = versions.get(&u16::from(reg.index()));
                    version.copied().unwrap_or(0)
                }
                _ => 0,
            });
            if let [only] = refs.as_slice()
                && matches!(only.space, Space::Global | Space::Generic)
                && let Some(base) = only.base
            {
                let line = (base, only.offset.div_euclid(LINE));
                match known.iter().rposition(|other| *other == line) {
                    Some(at) => lines[at].push(node as u32),
                    None => {
                        known.push(line);
                        lines.push(vec![node as u32]);
                    }
                }
            }
        }
        for place in &ports[node].writes {
            *versions.entry(*place).or_default() += 1;
        }
    }
    lines.retain(|line| line.len() > 1);
    lines
}

/// How many neighbours are apart in `order`.
pub(super) fn torn(lines: &Lines, order: &[u32]) -> usize {
    if lines.stores.is_empty() && lines.loads.is_empty() {
        return 0;
    }
    let mut places = vec![0usize; order.len()];
    for (place, node) in order.iter().enumerate() {
        places[*node as usize] = place;
    }
    let apart = |line: &Line| {
        let mut members: Vec<usize> = line.iter().map(|node| places[*node as usize]).collect();
        members.sort_unstable();
        members
            .windows(2)
            .filter(|pair| pair[1] - pair[0] > NEAR)
            .count()
    };
    lines.stores.iter().chain(&lines.loads).map(apart).sum()
}

/// Lets stores of one line sink to the last of them in `order`.
pub(super) fn gather(graph: &Graph, lines: &Lines, order: &mut [u32]) {
    if lines.stores.is_empty() {
        return;
    }
    let mut places = vec![0usize; graph.len()];
    for (place, node) in order.iter().enumerate() {
        places[*node as usize] = place;
    }
    let single = |node: u32| {
        let next = graph.nodes.get(node as usize + 1);
        !graph.nodes[node as usize].with_previous && !next.is_some_and(|next| next.with_previous)
    };
    for line in &lines.stores {
        let mut members: Vec<u32> = line.iter().copied().filter(|node| single(*node)).collect();
        members.sort_by_key(|node| std::cmp::Reverse(places[*node as usize]));
        let Some((last, earlier)) = members.split_first() else {
            continue;
        };
        let mut front = places[*last as usize];
        for &store in earlier {
            let from = places[store as usize];
            let held = |edge: &crate::schedule::graph::Edge| {
                (from..front).contains(&places[edge.to as usize])
            };
            if front - from > FARTHEST || graph.succs(store as usize).any(held) {
                break;
            }
            order[from..front].rotate_left(1);
            for (place, node) in order.iter().enumerate().take(front).skip(from) {
                places[*node as usize] = place;
            }
            front -= 1;
        }
    }
}
