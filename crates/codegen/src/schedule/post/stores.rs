//! Stores to neighbouring bytes go one behind the other, and so do loads.
//!
//! What a thread stores to one line of memory leaves the load-store unit as one write if the stores follow each other closely, and as
//! several writes of parts of a line if they do not. On an H200, the same instructions took up to a quarter longer where a
//! scheduler had let one store of four go as soon as its value was there (`bench/RESULTS.md`). The cycle model, which counts one
//! warp's issue slots, sees nothing of it. What tears stores apart is not the instructions between them but a wait: a load that
//! others of the line need and that has not come yet may take any time. (A fused multiply-add of two loads took 1.09 times as long
//! with one of four stores before the wait for the last loads, and no longer with seventeen instructions and no wait in between.)
//!
//! So the stores of one line go in one go, as far as the graph allows: none of them is a candidate of the list scheduler before all that any
//! of them needs has issued and is there, and then they, and what has to come between them, go first ([`Holds`]). Orders are mended
//! before they are judged: of the stores of one line, the earlier ones sink to the last one ([`gather`]). What cannot be mended is
//! judged: an order in which more neighbours are apart than in the one there was is not taken ([`torn`]), whatever the model says.
//! Loads are judged alone: their later halves find their line on its way if they follow at once.

use super::Ports;
use crate::schedule::alias::{self, Base};
use crate::schedule::graph::{Edge, Graph, Kinds, Node, Timeline};
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

/// In so many lines of a block stores wait for each other at most, and in fewer of a long one: each costs a walk over the graph.
const MOST_LINES: usize = 64;

/// So many nodes are walked over for all lines of a block together.
const MOST_STEPS: usize = 1 << 18;

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

/// What the stores of each line wait for: the same in every order the graph allows.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds {
    /// By node: the line it stores to, plus one, if the line waits for something; empty if none does.
    lines: Vec<u32>,
    /// By node: whether it is such a store, or comes between two of a line.
    urgent: Vec<bool>,
    /// By line: how many instructions it waits for.
    pub(super) missing: Vec<u32>,
    /// Instructions and the lines that wait for them, by instruction.
    needed: Vec<(u32, u32)>,
    /// Loads that somebody may wait long for.
    awaited: Vec<u32>,
}

impl Holds {
    /// Finds them.
    fn new(graph: &Graph, accesses: &Accesses) -> Holds {
        let mut holds = Holds::default();
        let most = accesses.stores.iter().map(|(_, line)| line + 1).max();
        let Some(most) = most else {
            return holds;
        };
        let nodes = graph.body().filter(|&node| is_awaited(&graph.nodes[node]));
        holds.awaited = nodes.map(|node| node as u32).collect();
        for line in (0..most).take(MOST_LINES.min(MOST_STEPS / graph.len().max(1))) {
            let members = accesses.stores.iter().filter(|(_, number)| *number == line);
            let stores: Vec<u32> = members.map(|(node, _)| *node).collect();
            if stores.len() > 1 {
                holds.add(graph, &stores);
            }
        }
        holds.needed.sort_unstable();
        holds
    }

    fn add(&mut self, graph: &Graph, stores: &[u32]) {
        let behind = reached(graph, stores, |node, next| {
            next.extend(graph.succs(node).map(|edge| edge.to));
        });
        let preds = stores.iter().flat_map(|&store| graph.preds(store as usize));
        let free = |node: u32| !behind[node as usize] && !stores.contains(&node);
        let mut needed: Vec<u32> = preds
            .map(|edge| edge.from)
            .filter(|&node| free(node))
            .collect();
        needed.sort_unstable();
        needed.dedup();
        if needed.is_empty() {
            return;
        }
        let before = reached(graph, stores, |node, next| {
            next.extend(graph.preds(node).iter().map(|edge| edge.from));
        });
        let number = self.missing.len() as u32;
        self.lines.resize(graph.len(), 0);
        self.urgent.resize(graph.len(), false);
        for &store in stores {
            self.lines[store as usize] = number + 1;
            self.urgent[store as usize] = true;
        }
        for (urgent, both) in self.urgent.iter_mut().zip(before.iter().zip(&behind)) {
            *urgent |= *both.0 && *both.1;
        }
        self.missing.push(needed.len() as u32);
        self.needed
            .extend(needed.into_iter().map(|node| (node, number)));
    }

    /// The line that a node stores to, if it waits for something.
    pub(super) fn line(&self, node: u32) -> Option<usize> {
        let line = self.lines.get(node as usize)?.checked_sub(1)?;
        Some(line as usize)
    }

    /// The lines that wait for an instruction.
    pub(super) fn waiting_for(&self, node: u32) -> impl Iterator<Item = usize> + '_ {
        let first = self.needed.partition_point(|(other, _)| *other < node);
        let lines = self.needed[first..].iter();
        let lines = lines.take_while(move |(other, _)| *other == node);
        lines.map(|(_, line)| *line as usize)
    }

    /// Chains of dependences with stores that are complete, and what comes between them, before all others.
    pub(super) fn heights(&self, timeline: &Timeline) -> Vec<u32> {
        let mut heights = timeline.height.clone();
        for (height, _) in heights.iter_mut().zip(&self.urgent).filter(|it| *it.1) {
            *height += timeline.length + 1;
        }
        heights
    }
}

/// Which nodes `step` leads to from `starts`.
fn reached(graph: &Graph, starts: &[u32], step: impl Fn(usize, &mut Vec<u32>)) -> Vec<bool> {
    let mut reached = vec![false; graph.len()];
    let mut next = Vec::new();
    for &start in starts {
        step(start as usize, &mut next);
    }
    while let Some(node) = next.pop() {
        if !std::mem::replace(&mut reached[node as usize], true) {
            step(node as usize, &mut next);
        }
    }
    reached
}

/// Whether somebody waits for the node as one does for a load.
fn is_awaited(node: &Node) -> bool {
    node.loads && !node.stores && node.is_long()
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

    /// What the stores of each line wait for.
    pub(super) fn holds(&self, graph: &Graph) -> Holds {
        Holds::new(graph, self)
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
pub(super) fn torn(graph: &Graph, lines: &Lines, holds: &Holds, order: &[u32]) -> usize {
    if lines.stores.is_empty() && lines.loads.is_empty() {
        return 0;
    }
    let places = places_of(order);
    let mut apart = 0;
    if !lines.stores.is_empty() {
        let waits = waits(graph, holds, &places);
        for line in &lines.stores {
            apart += pairs(line, &places)
                .filter(|(first, second)| waits[*second] > waits[*first] || second - first > NEAR)
                .count();
        }
    }
    for line in &lines.loads {
        apart += pairs(line, &places)
            .filter(|(first, second)| second - first > NEAR)
            .count();
    }
    apart
}

/// By place: how many loads have been waited for when the instruction there issues.
fn waits(graph: &Graph, holds: &Holds, places: &[usize]) -> Vec<u32> {
    let mut waits = vec![0u32; places.len()];
    for &load in &holds.awaited {
        let edges = graph.succs(load as usize);
        let readers = edges.filter(|edge| edge.kinds.contains(Kinds::RAW));
        if let Some(first) = readers.map(|edge| places[edge.to as usize]).min() {
            waits[first] += 1;
        }
    }
    for place in 1..waits.len() {
        waits[place] += waits[place - 1];
    }
    waits
}

/// The places of each two members that follow each other.
fn pairs(members: &[u32], places: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let mut sorted: Vec<usize> = members.iter().map(|node| places[*node as usize]).collect();
    sorted.sort_unstable();
    let seconds = sorted.clone().into_iter().skip(1);
    sorted.into_iter().zip(seconds)
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
