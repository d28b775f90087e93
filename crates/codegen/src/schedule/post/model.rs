//! When the instructions of a block issue in a given order: the one cycle model by which orders are chosen and compared.
//!
//! One warp, alone on its scheduler, or several that take turns. [`crate::clock`] says when the one before and its unit let an instruction
//! issue; besides, what its edges ask for must have passed, and what was in flight when the block started be there. Reading three
//! registers of a bank takes a cycle more. What is not in the model: misses of caches but for the
//! first lines of constants a kernel reads, and that waits for barriers are shared.
//!
//! A block is run through the model many times, so what the model asks of an instruction lies together in a [`Slot`]; why an
//! instruction did not issue earlier is worked out only for those who want to know ([`causes`]).

use super::ports::{OperandCache, POSITIONS, PortRead, Sources, Span};
use crate::clock::{self, Clock};
use crate::places::PLACES;
use crate::schedule::graph::Graph;
use orias_machine::issue::{Issue, Unit};
use orias_machine::limits::Limits;

/// Why an instruction did not issue earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// It could have at the start of the block.
    #[default]
    Start,
    /// The instruction before it came first, and asked for so many cycles.
    Previous,
    /// The unit was kept by this node.
    Unit(u32),
    /// An edge from this node.
    Edge(u32),
    /// A register that was in flight when the block started.
    Entry,
}

/// What the model asks of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) sources: Sources,
    pub(super) issue: Issue,
    /// Its results in [`Slots::writes`].
    writes: (u32, u32),
    span: Span,
    /// Cycles until its slowest result is there.
    latency: u16,
    pub(super) pseudo: bool,
    long: bool,
    leaves: bool,
    /// Cycles until others see what it tells them.
    signals: u16,
    /// Cycles for which nothing issues behind it.
    fetches: u16,
}

/// How long a node waits for another one, or lets another one wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// The other one.
    pub(super) node: u32,
    pub(super) cycles: u32,
}

/// What the model asks of the nodes of a block, and which places they write.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    writes: Vec<u16>,
    /// Edges that can make a node wait. Others are over when the next instruction can issue.
    waits: Vec<Wait>,
    /// By node: where its part of them ends.
    wait_ends: Vec<u32>,
    /// Whether the register file is the same to every order: nothing is read twice in one position, written twice, or read too often at
    /// once.
    pub(super) plain: bool,
    /// How many registers of a bank are read at once, and how long the operand cache lasts.
    bank_reads: u8,
    cache_lasts: u8,
}

impl Slots {
    /// Those of a graph whose nodes have these sources.
    pub(super) fn new(graph: &Graph, sources: &[Sources], limits: &Limits) -> Slots {
        let mut writes = Vec::with_capacity(graph.len());
        let slots =
            (graph.nodes.iter().zip(sources).enumerate()).map(|(index, (node, sources))| {
                let start = writes.len() as u32;
                let (_, written) = graph.places(index);
                writes.extend_from_slice(written);
                Slot {
                    sources: *sources,
                    issue: node.issue,
                    latency: node.latency,
                    writes: (start, writes.len() as u32),
                    span: Span::of(written),
                    pseudo: node.is_pseudo(),
                    long: node.is_long(),
                    leaves: node.leaves,
                    signals: node.signals,
                    fetches: node.fetches,
                }
            });
        let slots: Vec<Slot> = slots.collect();
        let mut waits = Vec::with_capacity(graph.edges().len());
        let mut wait_ends = Vec::with_capacity(slots.len());
        for node in 0..graph.len() {
            for edge in graph.preds(node) {
                let from = &slots[edge.from as usize];
                if from.pseudo || u32::from(edge.latency) > clock::slots(&from.issue, 1) {
                    waits.push(Wait {
                        node: edge.from,
                        cycles: u32::from(edge.latency),
                    });
                }
            }
            wait_ends.push(waits.len() as u32);
        }
        Slots {
            plain: is_plain(&slots, &writes),
            bank_reads: limits.bank_reads,
            cache_lasts: limits.operand_cache_lasts,
            slots,
            writes,
            waits,
            wait_ends,
        }
    }

    /// The edges that can make a node wait.
    fn waits(&self, node: u32) -> &[Wait] {
        let start = match node {
            0 => 0,
            _ => self.wait_ends[node as usize - 1],
        };
        &self.waits[start as usize..self.wait_ends[node as usize] as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn of(&self, node: u32) -> &Slot {
        &self.slots[node as usize]
    }

    /// The places a node writes.
    fn writes(&self, slot: &Slot) -> &[u16] {
        &self.writes[slot.writes.0 as usize..slot.writes.1 as usize]
    }

    /// Cycles in which nothing but the nodes themselves issues, in whatever order.
    pub(super) fn issue_cycles(&self, warps: u32) -> u32 {
        let real = self.slots.iter().filter(|slot| !slot.pseudo);
        real.map(|slot| clock::slots(&slot.issue, warps)).sum()
    }

    /// Whether one node writes what another one writes.
    pub(super) fn rewrites(&self, before: &Slot, slot: &Slot) -> bool {
        if !before.span.may_meet(slot.span) {
            return false;
        }
        let written = self.writes(before);
        self.writes(slot)
            .iter()
            .any(|place| written.contains(place))
    }
}

fn is_plain(slots: &[Slot], writes: &[u16]) -> bool {
    let mut read = [[0u64; 4]; POSITIONS];
    let mut written = [0u64; PLACES.div_ceil(64)];
    let new = |word: &mut u64, bit: u32| {
        let was = *word;
        *word |= 1 << bit;
        *word != was
    };
    let mut sources = slots.iter().flat_map(|slot| slot.sources.cached());
    let unread = |(position, source): (usize, PortRead)| {
        let word = &mut read[position][usize::from(source.index()) / 64];
        new(word, u32::from(source.index()) % 64)
    };
    let unwritten = |place: &u16| {
        new(
            &mut written[usize::from(*place) / 64],
            u32::from(*place) % 64,
        )
    };
    sources.all(unread)
        && writes.iter().all(unwritten)
        && !slots.iter().any(|slot| slot.sources.may_meet())
}

/// When an instruction can issue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) at: u32,
    /// Cycles that bank conflicts cost.
    pub(super) conflicts: u8,
    /// Sources found in the operand cache.
    pub(super) hits: u8,
}

/// The state of the machine between two instructions: the clock, and what is in the operand cache.
#[derive(Clone, Debug)]
pub(super) struct MachineState<'a> {
    slots: &'a Slots,
    pub(super) clock: Clock,
    /// The last node that took a slot.
    pub(super) last: Option<u32>,
    cache: OperandCache,
    /// The last cycle in which something is in the cache.
    cache_until: u32,
}

impl<'a> MachineState<'a> {
    pub(super) fn new(slots: &'a Slots, warps: u32) -> MachineState<'a> {
        MachineState {
            slots,
            clock: Clock::new(warps),
            last: None,
            cache: OperandCache::default(),
            cache_until: 0,
        }
    }

    /// When a node can issue if its operands are there at `ready`.
    #[inline]
    pub(super) fn at(&self, slot: &Slot, ready: u32) -> u32 {
        if slot.pseudo {
            return self.clock.next;
        }
        self.clock.at(slot.issue.unit, ready)
    }

    /// Cycles until the unit is free, for what takes an issue slot.
    #[inline]
    pub(super) fn busy(&self, unit: Option<Unit>) -> f64 {
        let free = unit.map_or(0, |unit| self.clock.units.free_at(unit));
        f64::from(free.saturating_sub(self.clock.next))
    }

    /// What issuing a node at `at` finds.
    #[inline]
    pub(super) fn step(&self, slot: &Slot, at: u32) -> Step {
        let cache = self.cache_at(at);
        Step {
            at,
            conflicts: cache.conflicts(&slot.sources, self.slots.bank_reads),
            hits: cache.hits(&slot.sources),
        }
    }

    /// The operand cache as an instruction finds it that issues at `at`.
    #[inline]
    pub(super) fn cache_at(&self, at: u32) -> OperandCache {
        if at <= self.cache_until {
            self.cache
        } else {
            OperandCache::default()
        }
    }

    /// `node` issues at `at`, and loses so many cycles to conflicts.
    #[inline]
    pub(super) fn issue(&mut self, node: u32, slot: &Slot, at: u32, conflicts: u8) {
        if slot.pseudo {
            return;
        }
        self.cache = self.cache_at(at);
        self.cache
            .issue(&slot.sources, slot.span, self.slots.writes(slot));
        self.cache_until = at + u32::from(self.slots.cache_lasts);
        self.clock.issue(&slot.issue, at);
        self.clock.pause(slot.fetches);
        self.clock.lose(u32::from(conflicts));
        self.last = Some(node);
    }
}

/// What an order of a block costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Four times the cycles until the next block can start, and the cycle in which the last result is there that leaves the block, or others see what it tells them:
    /// what is in flight at the end delays somebody, but not always and not all of it.
    pub weighted: u64,
    /// The sum of the cycles in which long operations issue: the earlier, the better.
    pub long: u64,
    /// Reads of the register file.
    pub reads: u64,
}

/// A block in an order, cycle by cycle.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// By node: when it issues.
    pub issue: Vec<u32>,
    /// Cycles until the next block can start.
    pub length: u32,
    /// Cycles lost to bank conflicts.
    pub conflicts: u32,
    /// Sources found in the operand cache.
    pub hits: u32,
    /// What it costs.
    pub cost: Cost,
}

/// What is added up while nodes issue.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    long: u64,
    leaving: u32,
    reads: u64,
    conflicts: u32,
    hits: u32,
}

impl Sum {
    fn add(&mut self, slot: &Slot, step: Step) {
        self.conflicts += u32::from(step.conflicts);
        self.hits += u32::from(step.hits);
        if slot.long {
            self.long += u64::from(step.at);
        }
        if slot.leaves {
            self.leaving = self.leaving.max(step.at + u32::from(slot.latency));
        }
        if slot.signals > 0 {
            self.leaving = self.leaving.max(step.at + u32::from(slot.signals));
        }
        self.reads += u64::from(slot.sources.count()) - u64::from(step.hits);
    }

    fn cost(&self, length: u32) -> Cost {
        Cost {
            weighted: 4 * u64::from(length) + u64::from(self.leaving.max(length)),
            long: self.long,
            reads: self.reads,
        }
    }
}

/// Up to where an order is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// The weighted cost it may have.
    pub(super) most: u64,
    /// The cycles its instructions take in any order ([`Slots::issue_cycles`]).
    pub(super) least: u32,
}

impl Limit {
    const NONE: Limit = Limit {
        most: u64::MAX,
        least: 0,
    };
}

/// A block whose orders are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model<'a> {
    pub(super) graph: &'a Graph,
    pub(super) slots: &'a Slots,
    /// By node: when what was in flight at the start is there.
    pub(super) floors: &'a [u32],
}

impl Model<'_> {
    /// Runs `order` through the model, for so many `warps` that take turns.
    pub(super) fn simulate(&self, order: &[u32], warps: u32, into: &mut Simulation) {
        self.simulate_within(order, warps, Limit::NONE, into);
    }

    /// The same, for as long as the cost can still be within `limit`; says whether it is. If not, `into` is of no use.
    pub(super) fn simulate_within(
        &self,
        order: &[u32],
        warps: u32,
        limit: Limit,
        into: &mut Simulation,
    ) -> bool {
        let mut state = MachineState::new(self.slots, warps);
        let mut sum = Sum::default();
        // The cost is at least five times the length, and what is left takes its cycles.
        let longest = u32::try_from(limit.most / 5).unwrap_or(u32::MAX);
        let mut left = limit.least;
        // Whoever is waited for has issued before.
        into.issue.resize(self.slots.len(), 0);
        for &node in order {
            let slot = self.slots.of(node);
            let step = state.step(slot, state.at(slot, self.ready(node, &into.issue)));
            state.issue(node, slot, step.at, step.conflicts);
            into.issue[node as usize] = step.at;
            sum.add(slot, step);
            if longest != u32::MAX && !slot.pseudo {
                left -= state.clock.slots(&slot.issue);
                if state.clock.next + left > longest {
                    return false;
                }
            }
        }
        into.length = state.clock.next;
        into.conflicts = sum.conflicts;
        into.hits = sum.hits;
        into.cost = sum.cost(state.clock.next);
        into.cost.weighted <= limit.most
    }

    /// When what a node needs is there, if those before it issued at `issue`.
    fn ready(&self, node: u32, issue: &[u32]) -> u32 {
        let waits = self.slots.waits(node).iter();
        let ready = waits.map(|wait| issue[wait.node as usize] + wait.cycles);
        ready.fold(self.floors[node as usize], u32::max)
    }

    /// By node: why it did not issue earlier in an order that was simulated for one warp.
    pub(super) fn causes(&self, order: &[u32], simulation: &Simulation) -> Vec<Cause> {
        let mut state = MachineState::new(self.slots, 1);
        let mut keepers = [u32::MAX; Unit::COUNT];
        let mut causes = vec![Cause::Start; self.slots.len()];
        for &node in order {
            let slot = self.slots.of(node);
            let ready = self.ready(node, &simulation.issue);
            let at = state.at(slot, ready);
            causes[node as usize] = if slot.pseudo || at == state.clock.next {
                match state.last {
                    Some(_) => Cause::Previous,
                    None => Cause::Start,
                }
            } else if at > ready {
                Cause::Unit(keepers[slot.issue.unit as usize])
            } else {
                let holds = |from: u32, latency: u16| {
                    simulation.issue[from as usize] + u32::from(latency) == ready
                };
                let mut edges = self.graph.preds(node as usize).iter();
                match edges.find(|edge| holds(edge.from, edge.latency)) {
                    Some(edge) if ready > self.floors[node as usize] => Cause::Edge(edge.from),
                    _ => Cause::Entry,
                }
            };
            let before = state.clock.units;
            state.issue(node, slot, at, state.step(slot, at).conflicts);
            for &(unit, _) in slot.issue.keeps {
                if state.clock.units.free_at(unit) > before.free_at(unit) {
                    keepers[unit as usize] = node;
                }
            }
        }
        causes
    }
}
