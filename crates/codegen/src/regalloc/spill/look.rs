//! Finding the points that are too full, and choosing what to spill there.

use super::super::calls::{is_call, preserved};
use super::{can_repeat, is_memory_parameter};
use cranelift_entity::EntityRef;
use orias_ori::analysis::{DefUse, DepthFirst, FlowGraph, LoopNest};
use orias_ori::{Block, Class, Function, Inst, Type, Value};
use smallvec::SmallVec;

/// What one instruction reads or writes.
type Values = SmallVec<[Value; 8]>;

/// How many registers a value needs, alignment included.
fn weight(ty: Type) -> u32 {
    u32::from(ty.len().next_multiple_of(ty.alignment()))
}

/// Looks for points that are too full.
pub(super) struct Look<'a> {
    func: &'a Function,
    /// Values that must not be spilled.
    short: &'a [bool],
    goals: [u8; 5],
    graph: &'a FlowGraph,
    chains: &'a DefUse,
    /// By value: what spilling it costs for each register it frees. Empty until the first point that is too full: most functions have none.
    cost: Vec<f32>,
    is_live: Vec<bool>,
    gone: Vec<bool>,
    /// What is live, in no order; the place of each in `place`.
    live: Vec<Value>,
    place: Vec<u32>,
    count: [u32; 5],
    pub(super) peak: [u32; 5],
    pub(super) chosen: Vec<Value>,
    pub(super) stuck: Option<Class>,
}

impl<'a> Look<'a> {
    pub(super) fn new(
        func: &'a Function,
        graph: &'a FlowGraph,
        chains: &'a DefUse,
        short: &'a [bool],
        goals: [u8; 5],
    ) -> Look<'a> {
        Look {
            func,
            short,
            goals,
            graph,
            chains,
            cost: Vec::new(),
            is_live: vec![false; func.value_count()],
            gone: vec![false; func.value_count()],
            live: Vec::new(),
            place: vec![0; func.value_count()],
            count: [0; 5],
            peak: [0; 5],
            chosen: Vec::new(),
            stuck: None,
        }
    }

    fn weigh(&mut self) {
        let loops = LoopNest::new(self.graph, &DepthFirst::new(self.graph));
        let func = self.func;
        let often = |block: Block| 8_f32.powi(loops.block_depth(block).min(6) as i32);
        self.cost = (0..func.value_count())
            .map(|number| {
                let value = Value::new(number);
                let uses: f32 = self
                    .chains
                    .uses(value)
                    .iter()
                    .map(|read| often(read.block(func)))
                    .sum();
                let again = func
                    .defining_inst(value)
                    .is_some_and(|inst| can_repeat(func, inst));
                let made = func.defining_block(value).map_or(0.0, often);
                let total = if again { uses / 4.0 } else { uses + made };
                total / weight(func.value_type(value)) as f32
            })
            .collect();
    }

    fn begin(&mut self, value: Value) {
        if !std::mem::replace(&mut self.is_live[value.index()], true) {
            let ty = self.func.value_type(value);
            self.count[ty.class() as usize] += weight(ty);
            self.place[value.index()] = self.live.len() as u32;
            self.live.push(value);
        }
    }

    fn end(&mut self, value: Value) {
        if std::mem::replace(&mut self.is_live[value.index()], false) {
            let ty = self.func.value_type(value);
            self.count[ty.class() as usize] -= weight(ty);
            let place = self.place[value.index()] as usize;
            self.live.swap_remove(place);
            if let Some(&moved) = self.live.get(place) {
                self.place[moved.index()] = place as u32;
            }
        }
    }

    fn end_all(&mut self) {
        for value in self.live.drain(..) {
            self.is_live[value.index()] = false;
        }
        self.count = [0; 5];
    }

    /// Looks at the start of `block`, before any body: which parameters are passed in memory decides what edges need.
    pub(super) fn entry(&mut self, block: Block, live_in: &[Value]) {
        let func = self.func;
        let params = func.block_params(block);
        // Most blocks have room for all: counting them is enough to know.
        let mut count = [0; 5];
        for &value in live_in.iter().chain(params) {
            let ty = func.value_type(value);
            count[ty.class() as usize] += weight(ty);
        }
        // Tokens have their own way of finding registers.
        count[Class::B as usize] = 0;
        let fits = |class: Class| count[class as usize] <= u32::from(self.goals[class as usize]);
        if self.chosen.is_empty() && Class::ALL.into_iter().all(fits) {
            for (peak, count) in self.peak.iter_mut().zip(count) {
                *peak = (*peak).max(count);
            }
            return;
        }
        for &value in live_in.iter().chain(params) {
            if !self.gone[value.index()] {
                self.begin(value);
            }
        }
        let kept: Values = params
            .iter()
            .copied()
            .filter(|&param| !is_memory_parameter(func, param))
            .collect();
        self.make_fit(&kept);
        self.end_all();
    }

    /// What `inst` reads from registers. An argument for a parameter in memory is stored on its way, by itself.
    fn reads(&self, inst: Inst) -> Values {
        let func = self.func;
        let mut reads: Values = func.value_uses(inst).collect();
        let args: usize = func
            .edges(inst)
            .iter()
            .map(|&edge| func.edge_args(edge).len())
            .sum();
        // Arguments come last.
        reads.truncate(reads.len() - args);
        for &edge in func.edges(inst) {
            let params = func.block_params(func.edge_target(edge));
            let passed = params.iter().zip(func.edge_args(edge));
            reads.extend(
                passed
                    .filter(|(param, _)| !self.gone[param.index()])
                    .map(|(_, &arg)| arg),
            );
        }
        reads
    }

    /// Looks at every point inside `block`.
    pub(super) fn block(&mut self, block: Block, live_out: &[Value]) {
        for &value in live_out {
            if !self.gone[value.index()] {
                self.begin(value);
            }
        }
        let mut inst = self.func.layout.last_inst(block);
        while let Some(at) = inst {
            inst = self.func.layout.prev_inst(at);
            let results: Values = self.func.value_defs(at).collect();
            let reads = self.reads(at);
            // After the instruction: what lives on, and all results.
            for &value in &results {
                self.begin(value);
            }
            self.make_fit(&results);
            for &value in &results {
                self.end(value);
            }
            if is_call(self.func, at) {
                self.make_fit_across();
            }
            // Before it: what lives on, and all it reads. A spilled value is loaded for it.
            for &value in &reads {
                self.begin(value);
            }
            self.make_fit(&reads);
            for &value in &reads {
                if self.gone[value.index()] {
                    self.end(value);
                }
            }
        }
        self.end_all();
    }

    /// Chooses values to spill until what lives across a call fits into registers that a called function leaves alone. Uniform
    /// registers do not live across calls.
    fn make_fit_across(&mut self) {
        let goals = self.goals;
        let general = &mut self.goals[Class::R as usize];
        *general = preserved(Class::R, *general);
        for class in [Class::P, Class::UR, Class::UP] {
            self.goals[class as usize] = 0;
        }
        let peak = self.peak;
        self.make_fit(&[]);
        (self.goals, self.peak) = (goals, peak);
    }

    /// Chooses values to spill, none of `needed`, until no class is too full.
    fn make_fit(&mut self, needed: &[Value]) {
        for class in Class::ALL {
            // Tokens have their own way of finding registers.
            if class == Class::B {
                continue;
            }
            while self.count[class as usize] > u32::from(self.goals[class as usize]) {
                if self.cost.is_empty() {
                    self.weigh();
                }
                let cheapest = self
                    .live
                    .iter()
                    .copied()
                    .filter(|&value| {
                        self.func.value_type(value).class() == class
                            && !self.short[value.index()]
                            && !needed.contains(&value)
                    })
                    .min_by(|&a, &b| {
                        let (one, other) = (self.cost[a.index()], self.cost[b.index()]);
                        one.total_cmp(&other).then(a.cmp(&b))
                    });
                let Some(value) = cheapest else {
                    self.stuck = Some(class);
                    break;
                };
                self.gone[value.index()] = true;
                self.chosen.push(value);
                self.end(value);
            }
            self.peak[class as usize] = self.peak[class as usize].max(self.count[class as usize]);
        }
    }
}
