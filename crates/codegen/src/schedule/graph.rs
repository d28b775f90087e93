//! The dependence graph of a block.
//!
//! One node an instruction, in program order; an edge from `a` to `b` means that `b` stays behind `a`, and not before so many cycles
//! have passed. Nothing else keeps an order: any order in which every edge points forward computes the same.
//!
//! | edge | why | cycles |
//! | --- | --- | --- |
//! | RAW | `b` reads what `a` writes | what `machine::timing` says of the two; what is typical where the latency is variable; more where a kernel reads a line of constants first |
//! | WAR | `b` writes what `a` reads | 0, or until a reader of variable latency has read |
//! | WAW | both write it | until the later write is sure to be the one that stays |
//! | memory | both may touch the same bytes and one writes | 1 |
//! | barrier | one is a fence for what the other is ([`super::order`]) | what issue asks for after the fence |
//!
//! One edge may have several reasons; it says which operands caused it. The same code serves values (SSA: only RAW edges, and those
//! WAR edges that save copies) and physical registers.
//!
//! **Besides edges.** The *tail* (the terminator, and the BSYNC before it) stays last, whatever the edges say. A *run* is issued without
//! anything in between: instructions that never execute and the one behind them (`@!PT LDS RZ, [RZ]`), what lies between
//! WARPGROUP.ARRIVE and the last matrix operation behind it, LEPC and its call. Run members carry the constraints of all: the first can
//! only be chosen when nothing holds back any of them. Pseudo-operations (`split`, `collect`, `undef`) take no slot.
//!
//! **Copies.** Where `b` keeps a value it may overwrite (a guarded definition, a place read and written) or passes its result to
//! a parameter that the block reads, the other readers that stand before `b` stay before it. Otherwise the allocator would have to
//! copy what it now gets for nothing.
//!
//! [`super::build`] makes it.

use super::order::Order;
use super::units::Pipe;
use crate::clock::Clock;
use orias_machine::issue::Issue;
use orias_machine::timing;
use orias_ori::{Block, Class, Inst};
use orias_sass::Op;
use std::ops::Range;

/// A block with more instructions is scheduled in pieces.
pub const PIECE: usize = 4095;

/// An operation is long if its result takes more cycles.
pub const LONG: u16 = 19;

/// Why one instruction stays behind another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(u8);

impl Kinds {
    /// Reads what the other writes.
    pub const RAW: Kinds = Kinds(1);
    /// Writes what the other reads.
    pub const WAR: Kinds = Kinds(1 << 1);
    /// Writes what the other writes.
    pub const WAW: Kinds = Kinds(1 << 2);
    /// May touch the same bytes.
    pub const MEMORY: Kinds = Kinds(1 << 3);
    /// One is a fence.
    pub const BARRIER: Kinds = Kinds(1 << 4);

    /// Both.
    #[must_use]
    pub const fn with(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Kinds) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is among these.
    pub const fn intersects(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    /// Their names, joined by `+`.
    pub fn name(self) -> String {
        let names = ["RAW", "WAR", "WAW", "memory", "barrier"];
        let named = names
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.0 >> bit & 1 == 1);
        named.map(|(_, name)| *name).collect::<Vec<_>>().join("+")
    }
}

/// What an edge is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeClass {
    /// Registers of a class.
    Register(Class),
    /// Memory.
    Memory,
    /// Order.
    Order,
}

/// The operands of the later instruction (of the earlier one in WAR edges) that caused an edge: a bit for each slot, and these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reasons(pub(super) u32);

impl Reasons {
    /// The guard.
    pub const GUARD: Reasons = Reasons(1 << 29);
    /// A register that is touched without being named.
    pub const IMPLICIT: Reasons = Reasons(1 << 30);
    /// An argument of an edge.
    pub const ARGUMENT: Reasons = Reasons(1 << 31);

    /// The operand in `slot`.
    pub const fn slot(slot: usize) -> Reasons {
        Reasons(1 << if slot < 28 { slot } else { 28 })
    }

    /// The slots, those from 28 on as 28.
    pub fn slots(self) -> impl Iterator<Item = usize> {
        (0..29).filter(move |slot| self.0 >> slot & 1 == 1)
    }

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Reasons) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Reasons) -> Reasons {
        Reasons(self.0 | other.0)
    }
}

/// One instruction stays behind another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The earlier one.
    pub from: u32,
    /// The later one.
    pub to: u32,
    /// Why.
    pub kinds: Kinds,
    /// What it is about; of several things, the one with the longest latency.
    pub class: EdgeClass,
    /// The operands that caused it.
    pub reasons: Reasons,
    /// Cycles from issue to issue.
    pub latency: u16,
}

/// What memory an instruction touches, as far as that decides who goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heat {
    /// Constant memory.
    Cold,
    /// None, or another.
    #[default]
    Neither,
    /// Global memory.
    Hot,
}

/// What is known of an instruction besides its edges.
#[derive(Clone, Debug)]
pub struct Node {
    /// The instruction.
    pub inst: Inst,
    /// The operation; none for pseudo-operations.
    pub op: Option<Op>,
    /// The scheduling class; none for pseudo-operations.
    pub class: Option<timing::Class>,
    /// The unit it needs, what it keeps, and its least stall; nothing for pseudo-operations.
    pub issue: Issue,
    /// The pipe it is counted under.
    pub pipe: Pipe,
    /// Cycles until its slowest result can be used, as far as that is known without a consumer.
    pub latency: u16,
    /// Whether that is a fixed number.
    pub fixed: bool,
    /// Cycles for which nothing of the warp issues behind it, as it waits for a line of constants that nobody has read.
    pub fetches: u16,
    /// Whether it reads memory.
    pub loads: bool,
    /// Whether it writes memory.
    pub stores: bool,
    /// What memory that is.
    pub heat: Heat,
    /// What order it keeps.
    pub order: Order,
    /// Whether it goes directly behind the node before it.
    pub with_previous: bool,
    /// Whether somebody reads a result after the block.
    pub leaves: bool,
    /// Cycles until others see what it tells them, if somebody waits for it: an arrival at an mbarrier, a copy that is begun.
    pub signals: u16,
    /// Whether the node is in the tail.
    pub tail: bool,
}

impl Node {
    /// Whether it takes no issue slot.
    pub fn is_pseudo(&self) -> bool {
        self.op.is_none()
    }

    /// It issues at `at`.
    #[inline]
    pub fn issue_on(&self, clock: &mut Clock, at: u32) {
        clock.issue(&self.issue, at);
        clock.pause(self.fetches);
    }

    /// Whether its result takes long.
    pub fn is_long(&self) -> bool {
        self.latency > LONG
    }

    /// Whether it is a fence of some kind.
    pub fn is_fence(&self) -> bool {
        !self.order.takes.is_empty()
    }
}

/// The physical registers that the nodes of a block name or touch by their operation, numbered through all files.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    pub(super) read: Vec<u16>,
    pub(super) written: Vec<u16>,
    /// By node: where its part of each list ends.
    pub(super) ends: Vec<(u32, u32)>,
}

/// The dependence graph of a block.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The block.
    pub block: Block,
    /// The instructions, in program order.
    pub nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    /// By node: its incoming edges in `edges`.
    pub(super) into: Vec<u32>,
    /// By node: its outgoing edges in `out`.
    pub(super) out_starts: Vec<u32>,
    pub(super) out: Vec<u32>,
    /// The first node of the tail.
    pub(super) tail: usize,
    pub(super) places: Places,
    /// Whether the same instructions in another order the graph allows would have other edges: there are accesses to memory that were not
    /// compared, the block was cut, or there are runs.
    pub depends_on_order: bool,
}

impl Graph {
    /// The edges that hold `node` back.
    pub fn preds(&self, node: usize) -> &[Edge] {
        &self.edges[self.into[node] as usize..self.into[node + 1] as usize]
    }

    /// The edges by which `node` holds others back.
    pub fn succs(&self, node: usize) -> impl DoubleEndedIterator<Item = &Edge> + '_ {
        let range = self.out_starts[node] as usize..self.out_starts[node + 1] as usize;
        self.out[range]
            .iter()
            .map(|&edge| &self.edges[edge as usize])
    }

    /// The physical registers a node reads, and those it writes; what it touches for the sake of a call is not among them.
    pub(super) fn places(&self, node: usize) -> (&[u16], &[u16]) {
        let start = match node {
            0 => (0, 0),
            _ => self.places.ends[node - 1],
        };
        let end = self.places.ends[node];
        (
            &self.places.read[start.0 as usize..end.0 as usize],
            &self.places.written[start.1 as usize..end.1 as usize],
        )
    }

    /// Every edge, by the later node.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes that may move: all but the tail.
    pub fn body(&self) -> Range<usize> {
        0..self.tail
    }

    /// The nodes that stay last, in this order.
    pub fn tail(&self) -> Range<usize> {
        self.tail..self.nodes.len()
    }

    /// Why `order` is not one the block can have, if it is not.
    pub fn illegal(&self, order: &[u32]) -> Option<String> {
        let mut place = vec![u32::MAX; self.len()];
        for (at, &node) in order.iter().enumerate() {
            match place.get_mut(node as usize) {
                Some(slot) if *slot == u32::MAX => *slot = at as u32,
                _ => return Some(format!("node {node} is there twice, or does not exist")),
            }
        }
        if order.len() != self.len() {
            return Some(format!("{} of {} nodes", order.len(), self.len()));
        }
        if let Some(edge) = self
            .edges
            .iter()
            .find(|edge| place[edge.from as usize] >= place[edge.to as usize])
        {
            return Some(format!(
                "{} is not behind {} ({})",
                edge.to,
                edge.from,
                edge.kinds.name()
            ));
        }
        let loose = (1..self.len())
            .find(|&node| self.nodes[node].with_previous && place[node] != place[node - 1] + 1);
        if let Some(node) = loose {
            return Some(format!("{node} is not right behind {}", node - 1));
        }
        let moved = self.tail().find(|&node| place[node] as usize != node);
        moved.map(|node| format!("{node} is of the tail and moved"))
    }
}

/// When instructions can issue if nothing but dependences counts.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// By node: the first cycle in which it can issue.
    pub earliest: Vec<u32>,
    /// By node: cycles from its issue to the end of the longest chain that starts with it.
    pub height: Vec<u32>,
    /// By node: the last cycle in which it can issue without making the block longer.
    pub latest: Vec<u32>,
    /// By node: its height, in 255 parts of the longest chain.
    pub share: Vec<u8>,
    /// The length of the longest chain.
    pub length: u32,
}

impl Timeline {
    /// Computes it.
    pub fn new(graph: &Graph) -> Timeline {
        Timeline::with_heights(graph, &vec![0; graph.len()])
    }

    /// The same, for chains that go on behind each node for at least `base` cycles.
    pub fn with_heights(graph: &Graph, base: &[u32]) -> Timeline {
        let count = graph.len();
        let mut earliest = vec![0u32; count];
        for node in 0..count {
            for edge in graph.preds(node) {
                let ready = earliest[edge.from as usize] + u32::from(edge.latency);
                earliest[node] = earliest[node].max(ready);
            }
        }
        let mut height = vec![0u32; count];
        for node in (0..count).rev() {
            let own = &graph.nodes[node];
            let mut most = base[node].max(u32::from(own.signals));
            if own.leaves {
                most = most.max(u32::from(own.latency));
            }
            for edge in graph.succs(node) {
                most = most.max(u32::from(edge.latency) + height[edge.to as usize]);
            }
            height[node] = most;
        }
        let length = (0..count)
            .map(|node| earliest[node] + height[node])
            .max()
            .unwrap_or(0);
        let latest = height.iter().map(|height| length - height).collect();
        let whole = u64::from(length.max(1));
        let part = |&height: &u32| (u64::from(height) * 255 / whole).min(255) as u8;
        Timeline {
            earliest,
            latest,
            share: height.iter().map(part).collect(),
            height,
            length,
        }
    }

    /// A longest chain, first node first, with the edge that leads to each node but the first.
    pub fn critical_path<'a>(&self, graph: &'a Graph) -> Vec<(u32, Option<&'a Edge>)> {
        let last = (0..graph.len())
            .filter(|&node| self.earliest[node] + self.height[node] == self.length)
            .max_by_key(|&node| (self.earliest[node], std::cmp::Reverse(node)));
        let mut path = Vec::new();
        let mut node = last;
        while let Some(at) = node {
            let cause = graph.preds(at).iter().find(|edge| {
                self.earliest[edge.from as usize] + u32::from(edge.latency) == self.earliest[at]
            });
            path.push((at as u32, cause));
            node = cause.map(|edge| edge.from as usize);
        }
        path.reverse();
        path
    }
}
