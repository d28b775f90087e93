//! The list scheduler: one engine, three modes.
//!
//! Cycle by cycle, forward: of the instructions whose predecessors have all been placed, the one with the best priority is next.
//!
//! 1. *Waiting*: ready, but an operand is still on its way; sorted by the cycle it will be there.
//! 2. *Available*: could issue now; sorted by deadline.
//! 3. *Relief*: all ready ones again, sorted by what they do to the number of live registers.
//!
//! Of each list only the first few are looked at (knob 770 says how many). A list is a sorted row of integers (`Sorted`), of which
//! the end is looked at: what changes is near it, as a rule.
//! Candidates come from the available ones; one that would break the register budget, now or later, is passed over
//! ([`super::forecast`]), which is asked of the best first. If all would, those that wait or free registers are asked, and if none can go, the next one of the
//! reference order does. In ReduceReg mode there is no budget, and the relief list is the only one.
//!
//! With a *window* only what stands within so many instructions of the first of the reference that has not gone is looked at. Without one, a block of many alike pieces
//! is taken breadth first: what begins each piece takes all registers and predicates before a single piece gets to its load.
//!
//! Pseudo-operations take no slot and go as soon as they can, if that costs no registers. Members of a run follow its first at once. The tail comes last.
//!
//! Each call starts from nothing but the graph: no state is left from one mode or block to the next.

mod candidates;
mod lists;

use super::batch::Batch;
use super::forecast::Forecast;
use super::frontier::Frontier;
use super::graph::{Graph, Heat, Timeline};
use super::live::{BlockValues, Counts, Pressure};
use super::priority::{Candidate, Factors, Mode};
use super::units::{Pipe, Usage};
use crate::clock::Clock;
use candidates::is_batchable;
use lists::{Sorted, key_by, relief_key};
use orias_machine::issue::Unit;
use orias_ori::Class;
use std::cell::Cell;
use std::ops::RangeInclusive;

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
    /// How far ahead of the first instruction of the reference that has not gone an instruction may be.
    pub window: Option<usize>,
    /// Whether matrix operations go before what keeps the pressure low, once their batch is complete.
    pub matrix_first: bool,
}

/// An order and what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The nodes in their order.
    pub order: Vec<u32>,
    /// The most registers live at a time, by class.
    pub peak: Counts,
    /// With how many general registers the order is the same.
    pub same: RangeInclusive<i32>,
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
    let limit = settings.limits[Class::R as usize];
    let (enough, most) = (engine.enough.get(), engine.most.get());
    let same = match (settings.mode, &engine.forecast) {
        (Mode::DynBatch, _) => limit..=limit,
        (_, None) => enough.max(values.bound(Class::R))..=most,
        (_, Some(_)) => enough..=most,
    };
    Outcome {
        peak,
        same,
        order: engine.order,
    }
}

/// What of a candidate does not change while an order grows.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    /// Its priority, without the factors that change.
    priority: u64,
    latest: u32,
    unit: Unit,
    pipe: Pipe,
    is_pseudo: bool,
    /// Whether it gets the critical-path bit once it is late.
    may_be_critical: bool,
}

struct Engine<'a> {
    graph: &'a Graph,
    timeline: &'a Timeline,
    settings: &'a Settings,
    pressure: Pressure<'a>,
    /// None where nothing can break the budget, and where there is none.
    forecast: Option<Forecast<'a>>,
    reference: &'a [u32],
    /// The first of the reference that has not gone.
    front: usize,
    /// With a window, by node: its place in the reference.
    places: Vec<u32>,
    /// Nodes that nothing but the window holds back, by their places.
    outside: Sorted,
    gone: Vec<bool>,
    /// What holds nodes back, and until when.
    frontier: Frontier,
    /// By node: the step in which its last predecessor was placed.
    recency: Vec<u32>,
    /// By node: its key in `relief`, while it is ready.
    key: Vec<Option<u64>>,
    available: Sorted,
    waiting: Sorted,
    relief: Sorted,
    clock: Clock,
    usage: Usage,
    /// The use of the busiest pipe.
    busiest: u32,
    /// By pipe: how idle it is.
    idle: [u8; Pipe::COUNT],
    /// By node: what does not change.
    fixed: Vec<Fixed>,
    order: Vec<u32>,
    /// What the instructions just placed made ready.
    freed: Vec<usize>,
    /// Nodes that are looked at in the present step.
    nodes: Vec<u32>,
    /// Candidates among them.
    candidates: Vec<Candidate>,
    /// Nodes whose effect on live registers changed in the present step.
    changed: Vec<usize>,
    cold_budget: u32,
    spill_mode: u32,
    batch: Batch,
    in_batch: Vec<bool>,
    countdown: u32,
    /// Batchable operations still to come.
    batchable: u32,
    /// The fewest and the most general registers with which all is decided as it was so far.
    enough: Cell<i32>,
    most: Cell<i32>,
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
        let critical = long >= settings.depth_threshold;
        let fixed = graph.nodes.iter().enumerate().map(|(node, own)| Fixed {
            priority: 0,
            latest: timeline.latest[node],
            unit: own.issue.unit,
            pipe: own.pipe,
            is_pseudo: own.is_pseudo(),
            may_be_critical: critical,
        });
        let batched = match settings.mode {
            Mode::DynBatch => count,
            _ => 0,
        };
        let mut engine = Engine {
            graph,
            timeline,
            settings,
            pressure: Pressure::new(values),
            forecast: (settings.mode != Mode::ReduceReg && !values.always_fit(&settings.limits))
                .then(|| Forecast::new(values, reference)),
            reference,
            front: 0,
            places: match settings.window {
                Some(_) => places(reference, count),
                None => Vec::new(),
            },
            outside: Sorted::default(),
            gone: vec![false; count],
            frontier: Frontier::new(graph),
            recency: vec![0; count],
            key: vec![None; count],
            available: Sorted::default(),
            waiting: Sorted::default(),
            relief: Sorted::default(),
            clock: Clock::new(settings.warps),
            usage: Usage::default(),
            busiest: 1,
            idle: [255; Pipe::COUNT],
            fixed: fixed.collect(),
            order: Vec::with_capacity(count),
            freed: Vec::new(),
            nodes: Vec::new(),
            candidates: Vec::new(),
            changed: Vec::new(),
            cold_budget: settings.cold_budget,
            spill_mode: settings.spill_mode,
            batch: Batch::default(),
            in_batch: vec![false; batched],
            countdown: 0,
            batchable: (0..batched)
                .filter(|&node| is_batchable(graph, node))
                .count() as u32,
            enough: Cell::new(0),
            most: Cell::new(i32::MAX),
        };
        engine.fix_priorities();
        engine
    }

    /// Works out what does not change about priorities, until the budget of cold instructions is used up.
    fn fix_priorities(&mut self) {
        for (node, fixed) in self.fixed.iter_mut().enumerate() {
            let own = &self.graph.nodes[node];
            let factors = Factors {
                latency: self.timeline.share[node],
                heat: match self.cold_budget {
                    0 => 1,
                    _ => own.heat as u8,
                },
                barrier: if own.is_fence() { 0 } else { 255 },
                ..Factors::default()
            };
            fixed.priority = factors.pack(self.settings.mode);
        }
    }

    fn run(&mut self) {
        let first: Vec<u32> = self.frontier.free().collect();
        for node in first {
            self.make_ready(node as usize);
        }
        self.move_window();
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
            let mut freed = std::mem::take(&mut self.freed);
            for &ready in &freed {
                self.make_ready(ready);
            }
            freed.clear();
            self.freed = freed;
            self.move_window();
        }
        for node in self.graph.tail() {
            self.place(node);
        }
    }

    /// Lets in what the window has come to.
    fn move_window(&mut self) {
        let Some(window) = self.settings.window else {
            return;
        };
        self.skip_gone();
        while let Some(node) = self.outside.take_until((self.front + window) as u64) {
            self.make_ready(node as usize);
            self.skip_gone();
        }
    }

    /// Whether the window has not come to `node` yet.
    fn is_outside(&self, node: usize) -> bool {
        let within = |window| self.places[node] as usize <= self.front + window;
        self.settings.window.is_some_and(|window| !within(window))
    }

    fn make_ready(&mut self, node: usize) {
        let mut next = Some(node);
        let mut pending = Vec::new();
        while let Some(node) = next {
            if self.is_outside(node) {
                self.outside.insert(key_by(self.places[node], node));
                next = pending.pop();
                continue;
            }
            let grows = self.pressure.grows(node, Class::R);
            if self.graph.nodes[node].is_pseudo() && grows <= 0 {
                self.settle(node, self.frontier.ready_at(node), &mut pending);
            } else {
                let key = relief_key(grows, self.recency[node], node);
                self.key[node] = Some(key);
                self.relief.insert(key);
                if self.frontier.ready_at(node) <= self.clock.next {
                    self.available
                        .insert(key_by(self.timeline.latest[node], node));
                } else {
                    self.waiting
                        .insert(key_by(self.frontier.ready_at(node), node));
                }
            }
            next = pending.pop();
        }
    }

    /// Issues `node`.
    fn place(&mut self, node: usize) {
        let graph = self.graph;
        let own = &graph.nodes[node];
        if let Some(key) = self.key[node].take() {
            self.relief.remove(key);
            if self.frontier.ready_at(node) <= self.clock.next {
                self.available
                    .remove(key_by(self.timeline.latest[node], node));
            } else {
                self.waiting
                    .remove(key_by(self.frontier.ready_at(node), node));
            }
        }
        let mut ready = std::mem::take(&mut self.freed);
        if own.is_pseudo() {
            self.settle(node, self.frontier.ready_at(node), &mut ready);
        } else {
            let issue = self.issue_at(node);
            own.issue_on(&mut self.clock, issue);
            self.use_pipe(own.pipe);
            self.spill_mode = self.spill_mode.saturating_sub(1);
            if own.heat == Heat::Cold && self.cold_budget > 0 {
                self.cold_budget -= 1;
                if self.cold_budget == 0 {
                    self.fix_priorities();
                }
            }
            if self.settings.mode == Mode::DynBatch {
                if is_batchable(graph, node) {
                    self.batchable = self.batchable.saturating_sub(1);
                }
                if std::mem::take(&mut self.in_batch[node]) {
                    self.countdown -= 1;
                }
            }
            self.settle(node, issue, &mut ready);
        }
        self.freed = ready;
        while let Some(node) = self.waiting.take_until(u64::from(self.clock.next)) {
            let node = node as usize;
            self.available
                .insert(key_by(self.timeline.latest[node], node));
        }
    }

    #[inline]
    fn issue_at(&self, node: usize) -> u32 {
        let fixed = &self.fixed[node];
        if fixed.is_pseudo {
            return self.clock.next;
        }
        self.clock.at(fixed.unit, self.frontier.ready_at(node))
    }

    /// Counts an instruction of `pipe`.
    fn use_pipe(&mut self, pipe: Pipe) {
        self.usage.add(pipe, 1);
        let used = self.usage.of(pipe);
        let idle = |used: u32, busiest: u32| 255 - (used * 255 / busiest).min(255) as u8;
        if used > self.busiest {
            self.busiest = used;
            self.idle = Pipe::ALL.map(|pipe| idle(self.usage.of(pipe), used));
        } else {
            self.idle[pipe as usize] = idle(used, self.busiest);
        }
    }

    /// `node` is next in the order and starts at `start`; whoever gets ready by that goes to `ready`.
    fn settle(&mut self, node: usize, start: u32, ready: &mut Vec<usize>) {
        self.order.push(node as u32);
        self.gone[node] = true;
        if let Some(forecast) = &mut self.forecast {
            forecast.go(node);
        }
        let step = self.order.len() as u32;
        let mut changed = std::mem::take(&mut self.changed);
        self.pressure
            .schedule(node, &mut |other| changed.push(other));
        for other in changed.drain(..) {
            if let Some(key) = self.key[other] {
                let grows = self.pressure.grows(other, Class::R);
                let new = relief_key(grows, self.recency[other], other);
                if new != key {
                    self.relief.remove(key);
                    self.relief.insert(new);
                    self.key[other] = Some(new);
                }
            }
        }
        self.changed = changed;
        let graph = self.graph;
        for edge in graph.succs(node) {
            let to = edge.to as usize;
            if self.frontier.meet(to, start + u32::from(edge.latency)) {
                self.recency[to] = step;
                ready.push(to);
            }
        }
    }
}

/// By node: its place in an order of all.
fn places(order: &[u32], count: usize) -> Vec<u32> {
    let mut places = vec![0; count];
    for (place, &node) in order.iter().enumerate() {
        places[node as usize] = place as u32;
    }
    places
}
