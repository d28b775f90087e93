//! When the instructions of a block issue in a given order: the one cycle model by which orders are chosen and compared.
//!
//! One warp, alone on its scheduler, or several that take turns, as in [`crate::schedule::estimate`]. An instruction issues when the one before it lets it, its unit is free, what its edges ask for has
//! passed, and what was in flight when the block started is there. Reading three registers of a bank takes a cycle more. What is
//! not in the model: misses of caches, and that waits for barriers are shared.
//!
//! A block is run through the model many times, so what the model asks of an instruction lies together in a [`Slot`]; why an
//! instruction did not issue earlier is worked out only for those who want to know ([`causes`]).

use super::ports::{CACHE_LASTS, OperandCache, PLACES, POSITIONS, Ports, Source, Sources};
use crate::schedule::graph::Graph;
use orias_machine::issue::Unit;

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
    unit: Unit,
    least_stall: u8,
    /// Cycles until its slowest result is there.
    latency: u16,
    /// Its results in [`Slots::writes`].
    writes: (u32, u32),
    keeps: &'static [(Unit, u8)],
    pseudo: bool,
    long: bool,
    leaves: bool,
}

/// What the model asks of the nodes of a block, and which places they write.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    writes: Vec<u16>,
    /// Edges that can make a node wait: from whom, and how long. Others are over when the next instruction can issue.
    waits: Vec<(u32, u32)>,
    /// By node: where its part of them ends.
    wait_ends: Vec<u32>,
    /// Whether the register file is the same to every order: nothing is read twice in one position, written twice, or read too often at
    /// once.
    pub(super) plain: bool,
}

impl Slots {
    pub(super) fn new(graph: &Graph, ports: &[Ports]) -> Slots {
        let mut writes = Vec::new();
        let slots = graph.nodes.iter().zip(ports).map(|(node, ports)| {
            let start = writes.len() as u32;
            writes.extend_from_slice(&ports.writes);
            Slot {
                sources: ports.sources,
                unit: node.unit,
                least_stall: node.least_stall,
                latency: node.latency,
                writes: (start, writes.len() as u32),
                keeps: node.keeps,
                pseudo: node.is_pseudo(),
                long: node.is_long(),
                leaves: node.leaves,
            }
        });
        let slots: Vec<Slot> = slots.collect();
        let mut waits = Vec::new();
        let mut wait_ends = Vec::with_capacity(slots.len());
        for node in 0..graph.len() {
            for edge in graph.preds(node) {
                let from = &slots[edge.from as usize];
                if from.pseudo || u32::from(edge.latency) > from.cycles(1) {
                    waits.push((edge.from, u32::from(edge.latency)));
                }
            }
            wait_ends.push(waits.len() as u32);
        }
        Slots {
            plain: is_plain(&slots, &writes),
            slots,
            writes,
            waits,
            wait_ends,
        }
    }

    /// The edges that can make a node wait.
    fn waits(&self, node: u32) -> &[(u32, u32)] {
        let start = match node {
            0 => 0,
            _ => self.wait_ends[node as usize - 1],
        };
        &self.waits[start as usize..self.wait_ends[node as usize] as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The places a node writes.
    pub(super) fn writes(&self, node: u32) -> &[u16] {
        let (start, end) = self.slots[node as usize].writes;
        &self.writes[start as usize..end as usize]
    }

    /// Cycles in which nothing but the nodes themselves issues, in whatever order.
    pub(super) fn issue_cycles(&self, warps: u32) -> u32 {
        let real = self.slots.iter().filter(|slot| !slot.pseudo);
        real.map(|slot| slot.cycles(warps)).sum()
    }

    /// Whether the node before writes what `node` writes.
    pub(super) fn rewrites(&self, before: u32, node: u32) -> bool {
        let written = self.writes(before);
        self.writes(node)
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
    let unread = |(position, source): (usize, Source)| {
        let word = &mut read[position][usize::from(source.index) / 64];
        new(word, u32::from(source.index) % 64)
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

impl Slot {
    /// Cycles until the next instruction, whatever that is.
    fn cycles(&self, warps: u32) -> u32 {
        u32::from(self.least_stall).max(warps)
    }
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

/// The state of the machine between two instructions.
#[derive(Clone, Debug)]
pub(super) struct Clock<'a> {
    slots: &'a Slots,
    /// Warps that take turns.
    warps: u32,
    /// The first cycle in which something can issue.
    pub(super) next: u32,
    /// The last node that took a slot, and when.
    pub(super) last: Option<(u32, u32)>,
    /// When each unit is free.
    free: [u32; Unit::COUNT],
    cache: OperandCache,
}

impl<'a> Clock<'a> {
    pub(super) fn new(slots: &'a Slots, warps: u32) -> Clock<'a> {
        Clock {
            slots,
            warps,
            next: 0,
            last: None,
            free: [0; Unit::COUNT],
            cache: OperandCache::default(),
        }
    }

    /// When `node` can issue if its operands are there at `ready`.
    pub(super) fn at(&self, node: u32, ready: u32) -> u32 {
        let slot = &self.slots.slots[node as usize];
        if slot.pseudo {
            return self.next;
        }
        self.next.max(ready).max(self.free[slot.unit as usize])
    }

    /// What issuing `node` at `at` finds.
    pub(super) fn step(&self, node: u32, at: u32) -> Step {
        let slot = &self.slots.slots[node as usize];
        let (mut conflicts, mut hits) = (0, 0);
        if slot.sources.caches {
            let cache = self.cache_at(at);
            conflicts = cache.conflicts(&slot.sources);
            hits = cache.hits(&slot.sources);
        }
        Step {
            at,
            conflicts,
            hits,
        }
    }

    /// How many sources of `node` can be found in the operand cache if it issues at `at`, at the most.
    pub(super) fn most_hits(&self, node: u32, at: u32) -> u8 {
        let sources = &self.slots.slots[node as usize].sources;
        match self.last {
            Some((_, issued)) if sources.caches && at - issued <= CACHE_LASTS => {
                sources.count() as u8
            }
            _ => 0,
        }
    }

    fn cache_at(&self, at: u32) -> OperandCache {
        match self.last {
            Some((_, issued)) if at - issued <= CACHE_LASTS => self.cache,
            _ => OperandCache::default(),
        }
    }

    /// `node` issues as `step` says.
    pub(super) fn issue(&mut self, node: u32, step: Step) {
        let slot = &self.slots.slots[node as usize];
        if slot.pseudo {
            return;
        }
        self.cache = self.cache_at(step.at);
        self.cache.issue(&slot.sources, self.slots.writes(node));
        for &(unit, cycles) in slot.keeps {
            let free = &mut self.free[unit as usize];
            *free = (*free).max(step.at + u32::from(cycles) * self.warps);
        }
        self.next = step.at + slot.cycles(self.warps) + u32::from(step.conflicts) * self.warps;
        self.last = Some((node, step.at));
    }
}

/// What an order of a block costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Four times the cycles until the next block can start, and the cycle in which the last result is there that leaves the block:
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
        self.simulate_within(order, warps, u64::MAX, into);
    }

    /// The same, for as long as the weighted cost can still be at most `most`; says whether it is. If not, `into` is of no use.
    pub(super) fn simulate_within(
        &self,
        order: &[u32],
        warps: u32,
        most: u64,
        into: &mut Simulation,
    ) -> bool {
        let mut clock = Clock::new(self.slots, warps);
        let mut sum = Sum::default();
        // The cost is at least five times the length.
        let longest = u32::try_from(most / 5).unwrap_or(u32::MAX);
        let mut left = match longest {
            u32::MAX => 0,
            _ => self.slots.issue_cycles(warps),
        };
        into.issue.clear();
        into.issue.resize(self.slots.len(), 0);
        for &node in order {
            let step = clock.step(node, clock.at(node, self.ready(node, &into.issue)));
            clock.issue(node, step);
            into.issue[node as usize] = step.at;
            let slot = &self.slots.slots[node as usize];
            sum.add(slot, step);
            if longest != u32::MAX && !slot.pseudo {
                left -= slot.cycles(warps);
                if clock.next + left > longest {
                    return false;
                }
            }
        }
        into.length = clock.next;
        into.conflicts = sum.conflicts;
        into.hits = sum.hits;
        into.cost = sum.cost(clock.next);
        into.cost.weighted <= most
    }

    /// When what a node needs is there, if those before it issued at `issue`.
    fn ready(&self, node: u32, issue: &[u32]) -> u32 {
        let waits = self.slots.waits(node).iter();
        let ready = waits.map(|(from, latency)| issue[*from as usize] + latency);
        ready.fold(self.floors[node as usize], u32::max)
    }

    /// By node: why it did not issue earlier in an order that was simulated for one warp.
    pub(super) fn causes(&self, order: &[u32], simulation: &Simulation) -> Vec<Cause> {
        let mut clock = Clock::new(self.slots, 1);
        let mut keepers = [u32::MAX; Unit::COUNT];
        let mut causes = vec![Cause::Start; self.slots.len()];
        for &node in order {
            let slot = &self.slots.slots[node as usize];
            let ready = self.ready(node, &simulation.issue);
            let at = clock.at(node, ready);
            causes[node as usize] = if slot.pseudo || at == clock.next {
                match clock.last {
                    Some(_) => Cause::Previous,
                    None => Cause::Start,
                }
            } else if at > ready {
                Cause::Unit(keepers[slot.unit as usize])
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
            let free = clock.free;
            clock.issue(node, clock.step(node, at));
            for (unit, keeper) in keepers.iter_mut().enumerate() {
                if clock.free[unit] > free[unit] {
                    *keeper = node;
                }
            }
        }
        causes
    }
}
