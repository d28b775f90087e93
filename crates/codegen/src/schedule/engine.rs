//! The list scheduler: one engine, three modes.
//!
//! Cycle by cycle, forward: of the instructions whose predecessors have all been placed, the one with the best priority is next.
//!
//! 1. *Waiting*: ready, but an operand is still on its way; sorted by the cycle it will be there.
//! 2. *Available*: could issue now; sorted by deadline.
//! 3. *Relief*: all ready ones again, sorted by what they do to the number of live registers.
//!
//! Of each list only the first few are looked at (knob 770 says how many), so a step costs the same however many are ready.
//! Candidates come from the available ones; one that would break the register budget, now or later, is passed over
//! ([`super::forecast`]). If all would, those that wait or free registers are asked, and if none can go, the next one of the
//! reference order does. In ReduceReg mode there is no budget, and the relief list is the only one.
//!
//! Pseudo-operations take no slot and go as soon as they can, if that costs no registers. Members of a run follow its first at once. The tail comes last.
//!
//! Each call starts from nothing but the graph: no state is left from one mode or block to the next.

use super::batch::{self, Batch, Slot};
use super::forecast::{CLASSES, Forecast};
use super::graph::{Graph, Timeline};
use super::live::{BlockValues, Counts, Pressure};
use super::priority::{Candidate, Factors, Mode};
use super::units::{Pipe, Usage};
use orias_machine::issue::Unit;
use orias_ori::Class;
use orias_sass::{Op, Space};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What steers one run of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What the order is to achieve.
    pub mode: Mode,
    /// Registers of each class that may be live.
    pub limits: Counts,
    /// Below the limit of general registers, by how many an instruction should stay that is not critical.
    pub slack: i32,
    /// How many candidates of a list are looked at.
    pub look_ahead: usize,
    /// How many cold instructions are told from hot ones.
    pub cold_budget: u32,
    /// So many long operations in the block turn the critical-path bit on.
    pub depth_threshold: u32,
    /// Instructions whose latency is below this never get it.
    pub latency_cutoff: u16,
    /// For so many instructions the bit is on anyway.
    pub spill_mode: u32,
    /// How many operations of a batch may wait at once.
    pub batch: u32,
    /// How many loads count as one texture operation when a batch is sized.
    pub loads_per_texture: u32,
    /// Whether instructions with the furthest dependence go first among equals.
    pub furthest: bool,
    /// Warps that take turns: each instruction takes so many slots.
    pub warps: u32,
    /// Whether the kernel's name says that it is CUTLASS's.
    pub cutlass: bool,
}

/// An order and what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The nodes in their order.
    pub order: Vec<u32>,
    /// The most registers live at a time, by class.
    pub peak: Counts,
    /// Whether some limit was exceeded.
    pub over: bool,
}

/// Puts a block into an order; `reference` is one that keeps the limits.
pub fn schedule(
    graph: &Graph,
    timeline: &Timeline,
    values: &BlockValues,
    reference: &[u32],
    settings: &Settings,
) -> Outcome {
    let mut engine = Engine::new(graph, timeline, values, reference, settings);
    engine.run();
    let peak = engine.pressure.peak;
    Outcome {
        over: (0..5).any(|class| peak[class] > settings.limits[class]),
        peak,
        order: engine.order,
    }
}

type ReliefKey = (i32, Reverse<u32>, u32);

struct Engine<'a> {
    graph: &'a Graph,
    timeline: &'a Timeline,
    settings: &'a Settings,
    pressure: Pressure<'a>,
    forecast: Option<Forecast<'a>>,
    reference: &'a [u32],
    /// The first of the reference that has not gone.
    front: usize,
    gone: Vec<bool>,
    /// By node: edges that still hold it back.
    waits: Vec<u32>,
    /// By node: when its operands are there.
    ready_at: Vec<u32>,
    /// By node: the step in which its last predecessor was placed.
    recency: Vec<u32>,
    /// By node: its key in `relief`, while it is ready.
    key: Vec<Option<ReliefKey>>,
    available: BTreeSet<(u32, u32)>,
    waiting: BTreeSet<(u32, u32)>,
    relief: BTreeSet<ReliefKey>,
    free: [u32; Unit::COUNT],
    usage: Usage,
    now: u32,
    order: Vec<u32>,
    /// What the instructions just placed made ready.
    freed: Vec<usize>,
    cold_budget: u32,
    spill_mode: u32,
    /// Whether the block has enough long operations for the critical-path bit.
    critical: bool,
    batch: Batch,
    in_batch: Vec<bool>,
    countdown: u32,
    /// Batchable operations still to come.
    batchable: u32,
}

impl<'a> Engine<'a> {
    fn new(
        graph: &'a Graph,
        timeline: &'a Timeline,
        values: &'a BlockValues,
        reference: &'a [u32],
        settings: &'a Settings,
    ) -> Self {
        let count = graph.len();
        let long = graph.nodes.iter().filter(|node| node.is_long()).count() as u32;
        Engine {
            graph,
            timeline,
            settings,
            pressure: Pressure::new(values),
            forecast: (settings.mode != Mode::ReduceReg).then(|| Forecast::new(values, reference)),
            reference,
            front: 0,
            gone: vec![false; count],
            waits: (0..count)
                .map(|node| graph.preds(node).len() as u32)
                .collect(),
            ready_at: vec![0; count],
            recency: vec![0; count],
            key: vec![None; count],
            available: BTreeSet::new(),
            waiting: BTreeSet::new(),
            relief: BTreeSet::new(),
            free: [0; Unit::COUNT],
            usage: Usage::default(),
            now: 0,
            order: Vec::with_capacity(count),
            freed: Vec::new(),
            cold_budget: settings.cold_budget,
            spill_mode: settings.spill_mode,
            critical: long >= settings.depth_threshold,
            batch: Batch::default(),
            in_batch: vec![false; count],
            countdown: 0,
            batchable: (0..count).filter(|&node| is_batchable(graph, node)).count() as u32,
        }
    }

    fn run(&mut self) {
        let first: Vec<usize> = self
            .graph
            .body()
            .filter(|&node| self.waits[node] == 0 && !self.graph.nodes[node].with_previous)
            .collect();
        for node in first {
            self.make_ready(node);
        }
        while self.order.len() < self.graph.body().end {
            let Some(node) = self.pick() else {
                // Every graph is acyclic and every run can start, so there is always one.
                debug_assert!(false, "nothing is ready");
                break;
            };
            let goes_on =
                |next: usize| next < self.graph.body().end && self.graph.nodes[next].with_previous;
            let members = 1 + (node + 1..).take_while(|&next| goes_on(next)).count();
            // Nothing goes in between, not even what takes no slot.
            for member in node..node + members {
                self.place(member);
            }
            for ready in std::mem::take(&mut self.freed) {
                self.make_ready(ready);
            }
        }
        for node in self.graph.tail() {
            self.place(node);
        }
    }

    fn make_ready(&mut self, node: usize) {
        let mut pending = vec![node];
        while let Some(node) = pending.pop() {
            let grows = self.pressure.delta(node)[Class::R as usize];
            if self.graph.nodes[node].is_pseudo() && grows <= 0 {
                self.settle(node, self.ready_at[node], &mut pending);
                continue;
            }
            let key = (grows, Reverse(self.recency[node]), node as u32);
            self.key[node] = Some(key);
            self.relief.insert(key);
            if self.ready_at[node] <= self.now {
                self.available
                    .insert((self.timeline.latest[node], node as u32));
            } else {
                self.waiting.insert((self.ready_at[node], node as u32));
            }
        }
    }

    /// Issues `node`.
    fn place(&mut self, node: usize) {
        let graph = self.graph;
        let own = &graph.nodes[node];
        if let Some(key) = self.key[node].take() {
            self.relief.remove(&key);
            self.available
                .remove(&(self.timeline.latest[node], node as u32));
            self.waiting.remove(&(self.ready_at[node], node as u32));
        }
        let mut ready = Vec::new();
        if own.is_pseudo() {
            self.settle(node, self.ready_at[node], &mut ready);
        } else {
            let issue = self.issue_at(node);
            for &(unit, cycles) in own.keeps {
                self.free[unit as usize] = issue + u32::from(cycles) * self.settings.warps;
            }
            self.usage.add(own.pipe, 1);
            self.now = issue + u32::from(own.least_stall).max(self.settings.warps);
            self.spill_mode = self.spill_mode.saturating_sub(1);
            if is_cold(graph, node) {
                self.cold_budget = self.cold_budget.saturating_sub(1);
            }
            if is_batchable(graph, node) {
                self.batchable = self.batchable.saturating_sub(1);
            }
            if std::mem::take(&mut self.in_batch[node]) {
                self.countdown -= 1;
            }
            self.settle(node, issue, &mut ready);
        }
        self.freed.append(&mut ready);
        while let Some(&(at, node)) = self.waiting.first()
            && at <= self.now
        {
            self.waiting.pop_first();
            self.available
                .insert((self.timeline.latest[node as usize], node));
        }
    }

    fn issue_at(&self, node: usize) -> u32 {
        if self.graph.nodes[node].is_pseudo() {
            return self.now;
        }
        self.now
            .max(self.ready_at[node])
            .max(self.free[self.graph.nodes[node].unit as usize])
    }

    /// `node` is next in the order and starts at `start`; whoever gets ready by that goes to `ready`.
    fn settle(&mut self, node: usize, start: u32, ready: &mut Vec<usize>) {
        self.order.push(node as u32);
        self.gone[node] = true;
        if let Some(forecast) = &mut self.forecast {
            forecast.go(node);
        }
        let step = self.order.len() as u32;
        let mut changed = Vec::new();
        self.pressure
            .schedule(node, &mut |other| changed.push(other));
        for other in changed {
            if let Some(key) = self.key[other] {
                self.relief.remove(&key);
                let grows = self.pressure.delta(other)[Class::R as usize];
                let key = (grows, key.1, key.2);
                self.key[other] = Some(key);
                self.relief.insert(key);
            }
        }
        let graph = self.graph;
        for edge in graph.succs(node) {
            let to = edge.to as usize;
            self.waits[to] -= 1;
            self.ready_at[to] = self.ready_at[to].max(start + u32::from(edge.latency));
            self.recency[to] = step;
            let own = &graph.nodes[to];
            if self.waits[to] == 0 && !own.tail && !own.with_previous {
                ready.push(to);
            }
        }
    }

    fn pick(&mut self) -> Option<usize> {
        if self.settings.mode == Mode::ReduceReg {
            let few = self.settings.look_ahead.max(1);
            let nodes: Vec<u32> = self.relief.iter().take(few).map(|key| key.2).collect();
            return self.best(&nodes);
        }
        if self.settings.mode == Mode::DynBatch && self.countdown == 0 {
            self.gather();
        }
        let few = self.settings.look_ahead.max(1) * 2;
        let room = |engine: &Self, nodes: &mut Vec<u32>| {
            nodes.retain(|&node| engine.fits(node as usize));
        };
        let mut nodes: Vec<u32> = self.available.iter().take(few).map(|key| key.1).collect();
        room(self, &mut nodes);
        if nodes.is_empty() {
            // Nothing can issue now, or nothing that has room: whoever comes first, or makes room.
            nodes.extend(self.waiting.iter().take(few).map(|key| key.1));
            nodes.extend(self.relief.iter().take(few).map(|key| key.2));
            nodes.sort_unstable();
            nodes.dedup();
            room(self, &mut nodes);
        }
        if nodes.is_empty() {
            return self.next_of_reference();
        }
        self.best(&nodes)
    }

    fn best(&self, nodes: &[u32]) -> Option<usize> {
        nodes
            .iter()
            .map(|&node| self.candidate(node as usize))
            .max_by(Candidate::compare)
            .map(|candidate| candidate.node as usize)
    }

    /// The first of the reference that is ready: all before it have gone, so it is the first, or of a run that has begun.
    fn next_of_reference(&mut self) -> Option<usize> {
        while self
            .reference
            .get(self.front)
            .is_some_and(|&node| self.gone[node as usize])
        {
            self.front += 1;
        }
        let mut rest = self.reference[self.front..].iter();
        let first = rest.find(|&&node| self.key[node as usize].is_some());
        first.map(|&node| node as usize)
    }

    /// Whether every limit is kept if it goes now, now and later.
    fn fits(&self, node: usize) -> bool {
        let Some(forecast) = &self.forecast else {
            return true;
        };
        let before = forecast.before(node);
        CLASSES.iter().zip(before).all(|(&class, before)| {
            let limit = self.settings.limits[class as usize];
            let grows = self.pressure.delta(node)[class as usize];
            let now = self.pressure.at(node, class);
            (now <= limit && before + grows <= limit) || (grows < 0 && before + grows <= before)
        })
    }

    fn candidate(&self, node: usize) -> Candidate {
        let stall = self.issue_at(node) - self.now;
        let factors = self.factors(node, stall);
        Candidate {
            node: node as u32,
            priority: factors.pack(self.settings.mode),
            stall_free: stall == 0,
            deadline: if self.settings.furthest {
                u32::MAX - self.timeline.height[node]
            } else {
                self.timeline.latest[node]
            },
        }
    }

    fn factors(&self, node: usize, stall: u32) -> Factors {
        let own = &self.graph.nodes[node];
        let length = self.timeline.length.max(1);
        let height = self.timeline.height[node];
        let byte = |value: u32| value.min(255) as u8;
        let grows = self.pressure.delta(node)[Class::R as usize];
        let limit = self.settings.limits[Class::R as usize];
        let over = self.pressure.at(node, Class::R) - (limit - self.settings.slack);
        let pressure = if over <= 0 || grows <= 0 {
            255
        } else {
            255 - byte(1 + over as u32 * 4)
        };
        let late = self.timeline.latest[node] <= self.now;
        let critical = self.spill_mode > 0
            || self.critical && late && own.latency >= self.settings.latency_cutoff;
        let busiest = self.usage.most().max(1);
        let heat = if self.cold_budget == 0 {
            1
        } else if is_cold(self.graph, node) {
            0
        } else if is_hot(self.graph, node) {
            2
        } else {
            1
        };
        let recent = self.recency[node] * 255 / (self.order.len() as u32).max(1);
        Factors {
            frees: (128 - grows).clamp(0, 255) as u8,
            pressure,
            critical: if critical { 255 } else { 0 },
            stall: 255 - byte(stall),
            latency: byte((u64::from(height) * 255 / u64::from(length)) as u32),
            contention: 255 - byte(self.usage.of(own.pipe) * 255 / busiest),
            heat,
            barrier: if own.is_fence() { 0 } else { 255 },
            recency: byte(recent),
            batch: self.batch_byte(node, pressure == 255),
        }
    }

    fn batch_byte(&self, node: usize, pressure_ok: bool) -> u8 {
        if self.settings.mode != Mode::DynBatch {
            return 0;
        }
        let own = &self.graph.nodes[node];
        let tensor = own.pipe == Pipe::Tensor;
        let free = tensor && self.free[own.unit as usize] <= self.now;
        let commits = commits(self.graph, node);
        let depth = self.timeline.earliest[node];
        // Before the batch is over, neither a commit nor a hint goes ahead of it.
        let held = self.countdown > 0;
        let hint = self.settings.cutlass && tensor && !held;
        let depth_ok = self.batch.depth_limit.is_none_or(|limit| depth <= limit);
        u8::from(free) << 7
            | u8::from(commits && !held) << 6
            | u8::from(commits && !held) << 5
            | u8::from(hint) << 4
            | u8::from(pressure_ok) << 3
            | u8::from(self.in_batch[node]) << 2
            | u8::from(depth_ok) << 1
            | u8::from(own.is_long())
    }

    /// Starts the next batch.
    fn gather(&mut self) {
        let few = (self.settings.batch as usize).max(1) * 4;
        let ready = self.available.iter().map(|key| key.1);
        let soon = self.waiting.iter().map(|key| key.1);
        let mut nodes: Vec<u32> = ready
            .take(few * 4)
            .chain(soon.take(few))
            .filter(|&node| is_batchable(self.graph, node as usize))
            .collect();
        nodes.sort_by_key(|&node| (self.timeline.latest[node as usize], node));
        let slots: Vec<Slot> = nodes
            .iter()
            .map(|&node| Slot {
                node,
                grows: self.pressure.delta(node as usize)[Class::R as usize],
                depth: self.timeline.earliest[node as usize],
                commits: commits(self.graph, node as usize),
            })
            .collect();
        let textures = nodes
            .iter()
            .filter(|&&node| self.graph.nodes[node as usize].pipe == Pipe::Texture)
            .count() as u32;
        let weight = self.settings.loads_per_texture.max(1);
        let most = self.settings.batch + textures * (weight - 1) / weight;
        let target = batch::target(self.batchable.min(slots.len() as u32), most);
        let live = self.pressure.live[Class::R as usize];
        let budget = self.settings.limits[Class::R as usize];
        self.batch = batch::gather(&slots, target, live, budget);
        for &node in &self.batch.members {
            self.in_batch[node as usize] = true;
        }
        self.countdown = self.batch.members.len() as u32;
    }
}

/// Whether it belongs into batches: loads that take long, and matrix operations.
fn is_batchable(graph: &Graph, node: usize) -> bool {
    let own = &graph.nodes[node];
    own.loads && own.is_long() && !own.is_fence() || own.pipe == Pipe::Tensor && !own.is_fence()
}

/// Whether it ends a warpgroup's group.
fn commits(graph: &Graph, node: usize) -> bool {
    let op = graph.nodes[node].op;
    op == Some(Op::WARPGROUP_DEPBAR) || op == Some(Op::WARPGROUP_WAIT)
}

fn touches(graph: &Graph, node: usize, space: Space) -> bool {
    let op = graph.nodes[node].op;
    op.is_some_and(|op| op.row().memory.iter().any(|memory| memory.space == space))
}

/// Global memory is hot.
fn is_hot(graph: &Graph, node: usize) -> bool {
    touches(graph, node, Space::Global) || touches(graph, node, Space::Generic)
}

/// Constant memory is cold.
fn is_cold(graph: &Graph, node: usize) -> bool {
    touches(graph, node, Space::Constant)
}
