//! Access clustering: stores to neighbouring bytes go one behind the other, and so do loads.
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
//! before they are judged: of the stores of one line, the earlier ones sink to the last one ([`Look::gather`]). What cannot be mended is
//! judged: an order in which more neighbours are apart than in the one there was is not taken ([`Look::separated`]), whatever the model says.
//! Loads are judged alone: their later halves find their line on its way if they follow at once.

use crate::places::GENERAL;
use crate::schedule::alias::{self, Base};
use crate::schedule::graph::{Edge, Graph, Kinds, Node};
use orias_machine::Machine;
use orias_ori::{Class, Function, RegKind};
use orias_sass::Space;

/// A store sinks past at most this many instructions.
const FARTHEST: u32 = 256;

/// Neighbours with more instructions between them are apart.
const NEAR: u32 = 4;

/// In so many lines of a block stores wait for each other at most, and in fewer of a long one: each costs a walk over the graph.
const MOST_LINES: usize = 64;

/// So many nodes are walked over for all lines of a block together.
const MOST_STEPS: usize = 1 << 18;

/// Which accesses of a block touch one line: the same in every order the graph allows.
#[derive(Clone, Debug, Default)]
pub(super) struct Accesses {
    stores: Lines,
    loads: Lines,
}

/// Accesses by lines, two or more in each.
#[derive(Clone, Debug, Default)]
struct Lines {
    /// The nodes, line by line.
    nodes: Vec<u32>,
    /// By line: where its part of them ends.
    ends: Vec<u32>,
}

impl Lines {
    /// Those of nodes whose lines have these numbers.
    fn new(accesses: &[(u32, u32)]) -> Lines {
        let most = accesses.iter().map(|(_, line)| line + 1).max();
        // By number: how many there are, and then where they go.
        let mut places = vec![0u32; most.unwrap_or(0) as usize];
        for (_, line) in accesses {
            places[*line as usize] += 1;
        }
        let mut lines = Lines::default();
        let mut end = 0;
        for place in &mut places {
            let count = *place;
            *place = NOWHERE;
            if count > 1 {
                *place = end;
                end += count;
                lines.ends.push(end);
            }
        }
        lines.nodes.resize(end as usize, 0);
        for (node, line) in accesses {
            let place = &mut places[*line as usize];
            if *place != NOWHERE {
                lines.nodes[*place as usize] = *node;
                *place += 1;
            }
        }
        lines
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn line(&self, line: usize) -> &[u32] {
        let start = match line {
            0 => 0,
            _ => self.ends[line - 1],
        };
        &self.nodes[start as usize..self.ends[line] as usize]
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|line| self.line(line))
    }
}

/// No place.
const NOWHERE: u32 = u32::MAX;

/// Room for looking at an order; made once and used for all blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// By node: where it stands.
    places: Vec<u32>,
    /// By place: how many loads have been waited for when the instruction there issues.
    waits: Vec<u32>,
    /// The places of one line.
    line: Vec<u32>,
    /// Lines in the order of their first stores.
    lines: Vec<(u32, u32)>,
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
        if accesses.stores.is_empty() {
            return holds;
        }
        let nodes = graph.body().filter(|&node| is_awaited(&graph.nodes[node]));
        holds.awaited = nodes.map(|node| node as u32).collect();
        let most = MOST_LINES.min(MOST_STEPS / graph.len().max(1));
        for stores in accesses.stores.iter().take(most) {
            holds.add(graph, stores);
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

    /// Puts stores that are complete, and what comes between them, before all others, by the lengths of the chains that start with each
    /// node.
    pub(super) fn raise(&self, heights: &mut [u32]) {
        let Some(&longest) = heights.iter().max() else {
            return;
        };
        for (height, _) in heights.iter_mut().zip(&self.urgent).filter(|it| *it.1) {
            *height += longest + 1;
        }
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
    let machine = Machine::of(func.target);
    let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
    !insts.any(|inst| {
        let op = func.opcode(inst).as_machine();
        op.is_some_and(|op| machine.is_warpgroup_matrix(op))
    })
}

impl Accesses {
    /// Finds them.
    pub(super) fn new(func: &Function, graph: &Graph) -> Accesses {
        let stores = |node: &Node| node.stores && !node.loads && !node.is_fence();
        let loads = |node: &Node| node.loads && !node.stores && !node.is_fence();
        let body = &graph.nodes[graph.body()];
        let several = |wanted: &dyn Fn(&Node) -> bool| {
            let mut found = body.iter().filter(|node| wanted(node));
            found.next().is_some() && found.next().is_some()
        };
        let (wants_stores, wants_loads) = (several(&stores), several(&loads));
        if !wants_stores && !wants_loads {
            return Accesses::default();
        }
        let (mut stored, mut loaded) = (Vec::new(), Vec::new());
        let mut versions = [0u32; GENERAL];
        let mut known: [Vec<(Base, i64)>; 2] = Default::default();
        for (node, data) in body.iter().enumerate() {
            if wants_stores && stores(data) || wants_loads && loads(data) {
                let line = line(func, data, &versions);
                let (list, known) = if data.stores {
                    (&mut stored, &mut known[0])
                } else {
                    (&mut loaded, &mut known[1])
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
            for place in graph.places(node).1 {
                if let Some(version) = versions.get_mut(usize::from(*place)) {
                    *version += 1;
                }
            }
        }
        Accesses {
            stores: Lines::new(&stored),
            loads: Lines::new(&loaded),
        }
    }

    /// What the stores of each line wait for.
    pub(super) fn holds(&self, graph: &Graph) -> Holds {
        Holds::new(graph, self)
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
    let line = i64::from(Machine::of(func.target).limits.cache_line);
    Some((only.base?, only.offset.div_euclid(line)))
}

impl Look {
    /// How many neighbours are apart in `order`.
    pub(super) fn separated(
        &mut self,
        graph: &Graph,
        accesses: &Accesses,
        holds: &Holds,
        order: &[u32],
    ) -> usize {
        if accesses.stores.is_empty() && accesses.loads.is_empty() {
            return 0;
        }
        self.find_places(order);
        let mut apart = 0;
        if !accesses.stores.is_empty() {
            self.find_waits(graph, holds);
            for line in accesses.stores.iter() {
                self.sort(line);
                let waits = |place: u32| self.waits[place as usize];
                apart += pairs(&self.line)
                    .filter(|(first, second)| {
                        waits(*second) > waits(*first) || far(*first, *second)
                    })
                    .count();
            }
        }
        for line in accesses.loads.iter() {
            self.sort(line);
            apart += pairs(&self.line)
                .filter(|(first, second)| far(*first, *second))
                .count();
        }
        apart
    }

    /// Lets stores of one line sink to the last of them in `order`; says whether any did. Lines whose stores come first by `ranks` sink
    /// first.
    pub(super) fn gather(
        &mut self,
        graph: &Graph,
        accesses: &Accesses,
        ranks: &[u32],
        order: &mut [u32],
    ) -> bool {
        let stores = &accesses.stores;
        if stores.is_empty() {
            return false;
        }
        self.find_places(order);
        let first = |line: &[u32]| line.iter().map(|node| ranks[*node as usize]).min();
        self.lines.clear();
        let lines = stores.iter().enumerate();
        self.lines
            .extend(lines.map(|(number, line)| (first(line).unwrap_or(0), number as u32)));
        self.lines.sort_unstable();
        let single = |node: u32| {
            let next = graph.nodes.get(node as usize + 1);
            !graph.nodes[node as usize].with_previous
                && !next.is_some_and(|next| next.with_previous)
        };
        let mut sank = false;
        for index in 0..self.lines.len() {
            let members = stores.line(self.lines[index].1 as usize).iter();
            let members = members.filter(|node| single(**node));
            self.line.clear();
            self.line
                .extend(members.map(|node| self.places[*node as usize]));
            self.line.sort_unstable();
            let Some(mut front) = self.line.pop() else {
                continue;
            };
            while let Some(from) = self.line.pop() {
                let store = order[from as usize];
                let held = |edge: &Edge| (from..front).contains(&self.places[edge.to as usize]);
                if front - from > FARTHEST || graph.succs(store as usize).any(held) {
                    break;
                }
                sank |= front - from > 1;
                let between = &mut order[from as usize..front as usize];
                between.rotate_left(1);
                for (place, node) in (from..).zip(between.iter()) {
                    self.places[*node as usize] = place;
                }
                front -= 1;
            }
        }
        sank
    }

    fn find_places(&mut self, order: &[u32]) {
        self.places.resize(order.len(), 0);
        for (place, node) in order.iter().enumerate() {
            self.places[*node as usize] = place as u32;
        }
    }

    fn find_waits(&mut self, graph: &Graph, holds: &Holds) {
        self.waits.clear();
        self.waits.resize(graph.len(), 0);
        for &load in &holds.awaited {
            let edges = graph.succs(load as usize);
            let readers = edges.filter(|edge| edge.kinds.contains(Kinds::RAW));
            if let Some(first) = readers.map(|edge| self.places[edge.to as usize]).min() {
                self.waits[first as usize] += 1;
            }
        }
        let mut sum = 0;
        for waits in &mut self.waits {
            sum += *waits;
            *waits = sum;
        }
    }

    /// The places of these nodes, in order.
    fn sort(&mut self, nodes: &[u32]) {
        self.line.clear();
        self.line
            .extend(nodes.iter().map(|node| self.places[*node as usize]));
        self.line.sort_unstable();
    }
}

/// Whether neighbours at these places are apart.
fn far(first: u32, second: u32) -> bool {
    second - first > NEAR
}

/// Each two that follow each other.
fn pairs(places: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    places.windows(2).map(|pair| (pair[0], pair[1]))
}
