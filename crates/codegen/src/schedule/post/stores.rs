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
use crate::schedule::graph::{Edge, Graph, Node};
use orias_machine::issue;
use orias_ori::{Class, Function, RegKind};
use orias_sass::Space;
use std::cmp::Reverse;

/// Bytes of a line.
const LINE: i64 = 128;

/// A store sinks past at most this many instructions.
const FARTHEST: usize = 256;

/// Neighbours with more instructions between them are apart.
const NEAR: usize = 4;

/// General registers, the only ones whose contents are told apart.
const GENERAL: usize = 256;

/// Accesses of a block that touch one line, in program order: two or more.
type Line = Vec<u32>;

/// The accesses of a block by lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    stores: Vec<Line>,
    loads: Vec<Line>,
}

/// Which line each access of a block touches: the same in every order the graph allows.
#[derive(Clone, Debug, Default)]
pub(super) struct Accesses {
    /// Nodes and the numbers of their lines.
    stores: Vec<(u32, u32)>,
    loads: Vec<(u32, u32)>,
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

impl Accesses {
    /// Finds them.
    pub(super) fn new(func: &Function, graph: &Graph, ports: &[Ports]) -> Accesses {
        let stores = |node: &Node| node.stores && !node.loads && !node.is_fence();
        let loads = |node: &Node| node.loads && !node.stores && !node.is_fence();
        let body = &graph.nodes[graph.body()];
        let several = |wanted: &dyn Fn(&Node) -> bool| {
            let mut found = body.iter().filter(|node| wanted(node));
            found.next().is_some() && found.next().is_some()
        };
        let mut accesses = Accesses::default();
        let (wants_stores, wants_loads) = (several(&stores), several(&loads));
        if !wants_stores && !wants_loads {
            return accesses;
        }
        let mut versions = [0u32; GENERAL];
        let mut known: [Vec<(Base, i64)>; 2] = Default::default();
        for (node, data) in body.iter().enumerate() {
            if wants_stores && stores(data) || wants_loads && loads(data) {
                let line = line(func, data, &versions);
                let (list, known) = if data.stores {
                    (&mut accesses.stores, &mut known[0])
                } else {
                    (&mut accesses.loads, &mut known[1])
                };
                if let Some(line) = line {
                    let number = known.iter().rposition(|other| *other == line);
                    let number = number.unwrap_or_else(|| {
                        known.push(line);
                        known.len() - 1
                    });
                    list.push((node as u32, number as u32));
                }
            }
            for place in &ports[node].writes {
                if let Some(version) = versions.get_mut(usize::from(*place)) {
                    *version += 1;
                }
            }
        }
        drop_single(&mut accesses.stores);
        drop_single(&mut accesses.loads);
        accesses
    }

    /// The lines with their members in the order that `ranks` says.
    pub(super) fn lines(&self, ranks: &[u32]) -> Lines {
        Lines {
            stores: in_order(&self.stores, ranks),
            loads: in_order(&self.loads, ranks),
        }
    }
}

/// The line that the one access of a node touches.
fn line(func: &Function, node: &Node, versions: &[u32; GENERAL]) -> Option<(Base, i64)> {
    let refs = alias::accesses(func, node.inst, &mut |reg| match reg.kind() {
        RegKind::Phys(reg) if reg.class() == Class::R => versions[usize::from(reg.index())],
        _ => 0,
    });
    let [only] = refs.as_slice() else { return None };
    if !matches!(only.space, Space::Global | Space::Generic) {
        return None;
    }
    Some((only.base?, only.offset.div_euclid(LINE)))
}

/// Leaves out accesses that are alone in their line.
fn drop_single(accesses: &mut Vec<(u32, u32)>) {
    let most = accesses.iter().map(|(_, line)| line + 1).max();
    let mut counts = vec![0u32; most.unwrap_or(0) as usize];
    for (_, line) in accesses.iter() {
        counts[*line as usize] += 1;
    }
    accesses.retain(|(_, line)| counts[*line as usize] > 1);
}

fn in_order(accesses: &[(u32, u32)], ranks: &[u32]) -> Vec<Line> {
    let mut sorted = accesses.to_vec();
    sorted.sort_unstable_by_key(|(node, _)| ranks[*node as usize]);
    let mut lines: Vec<(u32, Line)> = Vec::new();
    for (node, number) in sorted {
        match lines.iter_mut().find(|(known, _)| *known == number) {
            Some((_, line)) => line.push(node),
            None => lines.push((number, vec![node])),
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// How many neighbours are apart in `order`.
pub(super) fn torn(lines: &Lines, order: &[u32]) -> usize {
    if lines.stores.is_empty() && lines.loads.is_empty() {
        return 0;
    }
    let places = places_of(order);
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

/// By node: where it stands.
fn places_of(order: &[u32]) -> Vec<usize> {
    let mut places = vec![0usize; order.len()];
    for (place, node) in order.iter().enumerate() {
        places[*node as usize] = place;
    }
    places
}

/// Lets stores of one line sink to the last of them in `order`; says whether any did.
pub(super) fn gather(graph: &Graph, lines: &Lines, order: &mut [u32]) -> bool {
    if lines.stores.is_empty() {
        return false;
    }
    let mut sank = false;
    let mut places = places_of(order);
    let single = |node: u32| {
        let next = graph.nodes.get(node as usize + 1);
        !graph.nodes[node as usize].with_previous && !next.is_some_and(|next| next.with_previous)
    };
    for line in &lines.stores {
        let mut members: Vec<u32> = line.iter().copied().filter(|node| single(*node)).collect();
        members.sort_by_key(|node| Reverse(places[*node as usize]));
        let Some((last, earlier)) = members.split_first() else {
            continue;
        };
        let mut front = places[*last as usize];
        for &store in earlier {
            let from = places[store as usize];
            let held = |edge: &Edge| (from..front).contains(&places[edge.to as usize]);
            if front - from > FARTHEST || graph.succs(store as usize).any(held) {
                break;
            }
            sank |= front - from > 1;
            order[from..front].rotate_left(1);
            for (place, node) in order.iter().enumerate().take(front).skip(from) {
                places[*node as usize] = place;
            }
            front -= 1;
        }
    }
    sank
}
