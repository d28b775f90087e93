//! Finding the points that are too full, and choosing what to spill there.

use super::super::calls::{is_call, preserved};
use super::{can_repeat, is_memory_parameter};
use cranelift_entity::EntityRef;
use orias_ori::analysis::{DefUse, DepthFirst, FlowGraph, LoopNest};
use orias_ori::{Block, Class, Function, Inst, Type, Value};
use smallvec::SmallVec;
use std::cell::OnceCell;

/// What one instruction reads or writes.
type Values = SmallVec<[Value; 8]>;

/// How many registers a value needs, alignment included.
fn weight(ty: Type) -> u32 {
    u32::from(ty.len().next_multiple_of(ty.alignment()))
}

/// What is known of one value.
#[derive(Clone, Copy)]
struct State {
    class: Class,
    weight: u8,
    is_live: bool,
    /// Whether it was chosen.
    gone: bool,
    /// Where among those live it is.
    place: u32,
}

/// Looks for points that are too full.
pub(super) struct Look<'a> {
    func: &'a Function,
    /// Values that must not be spilled.
    short: &'a [bool],
    goals: [u8; 5],
    graph: &'a FlowGraph,
    chains: &'a OnceCell<DefUse>,
    /// By value: what spilling it costs for each register it frees, once somebody asked: most functions have no point too full.
    cost: Vec<Option<f32>>,
    /// By block: how often it runs, by the depth of loops.
    often: Vec<f32>,
    values: Vec<State>,
    /// What is live, in no order.
    live: Vec<Value>,
    count: [u32; 5],
    pub(super) peak: [u32; 5],
    pub(super) chosen: Vec<Value>,
    pub(super) stuck: Option<Class>,
}

impl<'a> Look<'a> {
    pub(super) fn new(
        func: &'a Function,
        graph: &'a FlowGraph,
        chains: &'a OnceCell<DefUse>,
        short: &'a [bool],
        goals: [u8; 5],
    ) -> Look<'a> {
        let values = (0..func.value_count())
            .map(|number| {
                let ty = func.value_type(Value::new(number));
                State {
                    class: ty.class(),
                    weight: weight(ty) as u8,
                    is_live: false,
                    gone: false,
                    place: 0,
                }
            })
            .collect();
        Look {
            func,
            short,
            goals,
            graph,
            chains,
            cost: Vec::new(),
            often: Vec::new(),
            values,
            live: Vec::new(),
            count: [0; 5],
            peak: [0; 5],
            chosen: Vec::new(),
            stuck: None,
        }
    }

    /// What spilling `value` costs for each register it frees.
    fn cost(&mut self, value: Value) -> f32 {
        let func = self.func;
        if self.cost.is_empty() {
            self.cost = vec![None; func.value_count()];
            let loops = LoopNest::new(self.graph, &DepthFirst::new(self.graph));
            let often = |block| 8_f32.powi(loops.block_depth(block).min(6) as i32);
            self.often = self.graph.blocks().map(often).collect();
        }
        if let Some(cost) = self.cost[value.index()] {
            return cost;
        }
        let often = |block: Block| self.often[block.index()];
        let chains = self.chains.get_or_init(|| DefUse::new(func));
        let uses: f32 = chains
            .uses(value)
            .iter()
            .map(|read| often(read.block(func)))
            .sum();
        let again = func
            .defining_inst(value)
            .is_some_and(|inst| can_repeat(func, inst));
        let made = func.defining_block(value).map_or(0.0, often);
        let total = if again { uses / 4.0 } else { uses + made };
        let cost = total / f32::from(self.values[value.index()].weight);
        self.cost[value.index()] = Some(cost);
        cost
    }

    fn begin(&mut self, value: Value) {
        let state = &mut self.values[value.index()];
        if !state.is_live {
            state.is_live = true;
            state.place = self.live.len() as u32;
            self.count[state.class as usize] += u32::from(state.weight);
            self.live.push(value);
        }
    }

    fn end(&mut self, value: Value) {
        let state = &mut self.values[value.index()];
        if state.is_live {
            state.is_live = false;
            self.count[state.class as usize] -= u32::from(state.weight);
            let place = state.place;
            self.live.swap_remove(place as usize);
            if let Some(&moved) = self.live.get(place as usize) {
                self.values[moved.index()].place = place;
            }
        }
    }

    fn end_all(&mut self) {
        for value in self.live.drain(..) {
            self.values[value.index()].is_live = false;
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
            let state = &self.values[value.index()];
            count[state.class as usize] += u32::from(state.weight);
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
            if !self.values[value.index()].gone {
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
    fn reads(&self, inst: Inst, reads: &mut Values) {
        let func = self.func;
        reads.clear();
        func.for_each_use(inst, |reg| reads.extend(reg.value()));
        if func.edges(inst).is_empty() {
            return;
        }
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
                    .filter(|(param, _)| !self.values[param.index()].gone)
                    .map(|(_, &arg)| arg),
            );
        }
    }

    /// Looks at every point inside `block`.
    pub(super) fn block(&mut self, block: Block, live_out: &[Value]) {
        for &value in live_out {
            if !self.values[value.index()].gone {
                self.begin(value);
            }
        }
        let (mut results, mut reads) = (Values::new(), Values::new());
        for at in self.func.block_insts(block).rev() {
            results.clear();
            self.func
                .for_each_def(at, |reg| results.extend(reg.value()));
            self.reads(at, &mut reads);
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
                if self.values[value.index()].gone {
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
                let Some(value) = self.cheapest(class, needed) else {
                    self.stuck = Some(class);
                    break;
                };
                self.values[value.index()].gone = true;
                self.chosen.push(value);
                self.end(value);
            }
            self.peak[class as usize] = self.peak[class as usize].max(self.count[class as usize]);
        }
    }

    /// Of the values of `class` that are live and may go, none of `needed` among them, the one that costs least.
    fn cheapest(&mut self, class: Class, needed: &[Value]) -> Option<Value> {
        let mut best: Option<(f32, Value)> = None;
        for index in 0..self.live.len() {
            let value = self.live[index];
            if self.values[value.index()].class != class
                || self.short[value.index()]
                || needed.contains(&value)
            {
                continue;
            }
            let cost = self.cost(value);
            let less = |(least, other): (f32, Value)| {
                cost.total_cmp(&least).then(value.cmp(&other)).is_lt()
            };
            if best.is_none_or(less) {
                best = Some((cost, value));
            }
        }
        best.map(|(_, value)| value)
    }
}
