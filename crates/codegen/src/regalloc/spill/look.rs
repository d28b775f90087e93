//! Spill choice: finding the points that are too full, and choosing what to spill there.
//!
//! Blocks are walked through backwards. A value that is chosen leaves the point and all points above it; where it is made again of
//! another value, that one takes its place, as it is needed down to the last use of what is made of it. So the count stays true
//! within a block, and what is chosen at one point helps at all points above.

use super::super::calls::{is_call, preserved, widest_preserved};
use super::super::counts::{Goals, Room};
use super::super::last_uses::{NARROW, raise};
use super::staying::staying;
use super::{can_repeat, derive, is_memory_parameter};
use cranelift_entity::{EntityRef, EntitySet};
use orias_ori::analysis::{DefUse, DepthFirst, FlowGraph, Frequencies, LoopNest};
use orias_ori::{Block, Class, Function, Inst, Value, ValueDef};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::OnceCell;

/// The classes that are spilled, by their numbers. Tokens have their own way of finding registers.
const SPILLED: [Class; 4] = [Class::R, Class::P, Class::UR, Class::UP];

/// So many times what it costs to spill others it costs to spill what should stay.
const STAYING: f32 = 64.0;

/// How long the list of what was seen may be when values are chosen: as much as all files together hold.
const LONG: usize = 512;

/// What one instruction reads or writes.
type Values = SmallVec<[Value; 8]>;

/// A number of registers for each class of [`SPILLED`].
pub(super) type Counts = [u32; 4];

fn add(counts: &mut Counts, more: &Counts) {
    for (count, more) in counts.iter_mut().zip(more) {
        *count += more;
    }
}

fn subtract(counts: &mut Counts, less: &Counts) {
    for (count, less) in counts.iter_mut().zip(less) {
        *count -= less;
    }
}

fn fit(counts: &Counts, goals: &Counts) -> bool {
    let pairs = counts.iter().zip(goals);
    pairs.fold(true, |fit, (count, goal)| fit & (count <= goal))
}

/// What is known of one value.
#[derive(Clone, Copy)]
pub(super) struct State {
    class: Class,
    is_live: bool,
    /// Whether it was chosen.
    gone: bool,
    /// Whether it was chosen and its instruction goes, to be run again before each use.
    again: bool,
}

/// A value that was chosen.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub(super) value: Value,
    /// What it is made of again.
    pub(super) source: Option<Value>,
}

/// What reads a value: how often that runs, and the first and last place in the layout.
#[derive(Clone, Copy)]
struct Reads {
    uses: f32,
    first: u32,
    last: u32,
}

impl Reads {
    const NONE: Reads = Reads {
        uses: 0.0,
        first: u32::MAX,
        last: 0,
    };

    fn add(&mut self, more: Reads) {
        self.uses += more.uses;
        self.first = self.first.min(more.first);
        self.last = self.last.max(more.last);
    }
}

/// Looks for points that are too full.
pub(super) struct Look<'a> {
    func: &'a Function,
    /// Values that must not be spilled.
    short: &'a [bool],
    room: Room,
    /// How much is there at the point at hand.
    goals: Counts,
    graph: &'a FlowGraph,
    chains: &'a OnceCell<DefUse>,
    /// By value: what spilling it costs for each register and point it frees, once somebody asked: most functions have no point too full.
    cost: Vec<Option<f32>>,
    /// By block: how often it runs, as a guess.
    often: Vec<f32>,
    staying: EntitySet<Value>,
    /// By block and by instruction: its place in the layout.
    places: (Vec<u32>, Vec<u32>),
    /// By value that others are made of again: where that happens.
    again: FxHashMap<Value, Reads>,
    values: Vec<State>,
    /// By value: how many registers it needs, alignment included.
    weights: Vec<Counts>,
    /// What is live where the look began. With `seen` it has all that is live at the point that is looked at, and some that was.
    border: &'a [Value],
    /// What became live since.
    seen: Vec<Value>,
    count: Counts,
    /// The most that any look counted.
    pub(super) most: Counts,
    pub(super) chosen: Vec<Choice>,
    pub(super) stuck: Option<Class>,
}

impl<'a> Look<'a> {
    pub(super) fn new(
        func: &'a Function,
        graph: &'a FlowGraph,
        chains: &'a OnceCell<DefUse>,
        short: &'a [bool],
        goals: Goals,
    ) -> Look<'a> {
        let mut values = Vec::with_capacity(func.value_count());
        let mut weights = Vec::with_capacity(func.value_count());
        for number in 0..func.value_count() {
            let ty = func.value_type(Value::new(number));
            values.push(State {
                class: ty.class(),
                is_live: false,
                gone: false,
                again: false,
            });
            let mut weight = Counts::default();
            if let Some(count) = weight.get_mut(ty.class() as usize) {
                *count = u32::from(ty.len().next_multiple_of(ty.alignment()));
            }
            weights.push(weight);
        }
        Look {
            func,
            short,
            room: Room::new(func, goals),
            goals: SPILLED.map(|class| u32::from(goals.most[class as usize])),
            graph,
            chains,
            cost: Vec::new(),
            often: Vec::new(),
            staying: EntitySet::new(),
            places: (Vec::new(), Vec::new()),
            again: FxHashMap::default(),
            values,
            weights,
            border: &[],
            seen: Vec::new(),
            count: Counts::default(),
            most: Counts::default(),
            chosen: Vec::new(),
            stuck: None,
        }
    }

    /// What spilling `value` costs for each register and point it frees.
    fn cost(&mut self, value: Value) -> f32 {
        let func = self.func;
        if self.cost.is_empty() {
            self.prepare_costs();
        }
        if let Some(cost) = self.cost[value.index()] {
            return cost;
        }
        let (blocks, insts) = &self.places;
        let start = match func.value_def(value) {
            ValueDef::Inst(inst, _) => insts[inst.index()],
            ValueDef::Param(block, _) => blocks[block.index()],
            ValueDef::None => 0,
        };
        let reads = self.all_reads(value);
        // How far it reaches in the layout, forwards or backwards.
        let span = if reads.first > reads.last {
            1
        } else {
            let reach = reads.first.abs_diff(start).max(reads.last.abs_diff(start));
            reach.max(1)
        };
        let again = self.source(value).is_some()
            || func
                .defining_inst(value)
                .is_some_and(|inst| can_repeat(func, inst));
        let made = func
            .defining_block(value)
            .map_or(0.0, |block| self.often[block.index()]);
        let total = if again {
            reads.uses / 4.0
        } else {
            reads.uses + made
        };
        let weight: u32 = self.weights[value.index()].iter().sum();
        let mut cost = total / (weight * span) as f32;
        if self.staying.contains(value) {
            cost *= STAYING;
        }
        self.cost[value.index()] = Some(cost);
        cost
    }

    /// What reads `value`, with what is made of it again.
    fn all_reads(&self, value: Value) -> Reads {
        let func = self.func;
        let mut reads = self.again.get(&value).copied().unwrap_or(Reads::NONE);
        let chains = self.chains.get_or_init(|| DefUse::new(func));
        for read in chains.uses(value) {
            let place = self.places.1[read.inst.index()];
            reads.add(Reads {
                uses: self.often[read.block(func).index()],
                first: place,
                last: place,
            });
        }
        reads
    }

    /// What `value` can be made of again.
    fn source(&self, value: Value) -> Option<Value> {
        let chains = self.chains.get_or_init(|| DefUse::new(self.func));
        derive::source(self.func, chains, self.short, value)
    }

    /// Finds out what all costs depend on.
    fn prepare_costs(&mut self) {
        let func = self.func;
        self.cost = vec![None; func.value_count()];
        let walk = DepthFirst::new(self.graph);
        let loops = LoopNest::new(self.graph, &walk);
        let frequencies = Frequencies::new(func, self.graph, &walk, &loops);
        let often = |block| frequencies.times(block) as f32;
        self.often = self.graph.blocks().map(often).collect();
        self.staying = staying(func, self.graph, &loops);
        let (mut blocks, mut insts) = (vec![0; func.block_count()], vec![0; func.inst_count()]);
        let mut number = 0;
        for block in func.blocks() {
            blocks[block.index()] = number;
            for inst in func.block_insts(block) {
                number += 1;
                insts[inst.index()] = number;
            }
        }
        self.places = (blocks, insts);
    }

    #[inline]
    fn begin(&mut self, value: Value) {
        let state = &mut self.values[value.index()];
        if !state.is_live {
            state.is_live = true;
            add(&mut self.count, &self.weights[value.index()]);
            self.seen.push(value);
        }
    }

    /// Makes those of `border` live that were not chosen.
    fn begin_all(&mut self, border: &'a [Value]) {
        self.border = border;
        let mut count = Counts::default();
        for &value in border {
            let state = &mut self.values[value.index()];
            if !state.gone {
                state.is_live = true;
                add(&mut count, &self.weights[value.index()]);
            }
        }
        self.count = count;
    }

    #[inline]
    fn end(&mut self, value: Value) {
        let state = &mut self.values[value.index()];
        if state.is_live {
            state.is_live = false;
            subtract(&mut self.count, &self.weights[value.index()]);
        }
    }

    fn end_all(&mut self) {
        for &value in self.border.iter().chain(&self.seen) {
            self.values[value.index()].is_live = false;
        }
        self.border = &[];
        self.seen.clear();
        self.count = Counts::default();
    }

    /// Looks at the start of `block`, before any body: which parameters are passed in memory decides what edges need.
    pub(super) fn entry(&mut self, block: Block, live_in: &'a [Value]) {
        let func = self.func;
        self.goals[Class::R as usize] = self.room.at_start(block);
        let params = func.block_params(block);
        // Most blocks have room for all: counting them is enough to know.
        let mut count = Counts::default();
        for &value in live_in.iter().chain(params) {
            if !self.values[value.index()].gone {
                add(&mut count, &self.weights[value.index()]);
            }
        }
        raise(&mut self.most, &count);
        if fit(&count, &self.goals) {
            return;
        }
        self.begin_all(live_in);
        for &param in params {
            if !self.values[param.index()].gone {
                self.begin(param);
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
        func.for_each_use(inst, |reg| {
            if let Some(value) = reg.value() {
                reads.push(value);
            }
        });
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

    /// What a branch reads from registers, after choosing parameters that are passed in memory because it passes more than there
    /// are registers.
    fn pass_in_memory(&mut self, branch: Inst, reads: &mut Values) {
        let func = self.func;
        loop {
            let words: u32 = reads
                .iter()
                .map(|&value| self.weights[value.index()][Class::R as usize])
                .sum();
            if words <= self.goals[Class::R as usize] {
                return;
            }
            let params = func
                .edges(branch)
                .iter()
                .flat_map(|&edge| func.block_params(func.edge_target(edge)))
                .copied()
                .filter(|&param| {
                    is_memory_parameter(func, param)
                        && !self.values[param.index()].gone
                        && !self.short[param.index()]
                });
            let Some(largest) =
                params.max_by_key(|&param| self.weights[param.index()][Class::R as usize])
            else {
                return;
            };
            self.values[largest.index()].gone = true;
            self.chosen.push(Choice {
                value: largest,
                source: None,
            });
            self.reads(branch, reads);
        }
    }

    /// Looks at every point inside `block`.
    pub(super) fn block(&mut self, block: Block, live_out: &'a [Value]) {
        self.goals[Class::R as usize] = self.room.at_end(block);
        self.begin_all(live_out);
        let (mut results, mut reads) = (Values::new(), Values::new());
        for at in self.func.block_insts(block).rev() {
            results.clear();
            // After the instruction: what lives on, and all results.
            self.func.for_each_def(at, |reg| {
                if let Some(value) = reg.value() {
                    results.push(value);
                }
            });
            if let &[value] = &results[..]
                && self.values[value.index()].again
            {
                continue;
            }
            for &value in &results {
                self.begin(value);
            }
            self.reads(at, &mut reads);
            if !self.func.edges(at).is_empty() {
                self.pass_in_memory(at, &mut reads);
            }
            self.make_fit(&results);
            for &value in &results {
                self.end(value);
            }
            if let Some((before, _)) = self.room.changed_by(at) {
                self.goals[Class::R as usize] = before;
            }
            if is_call(self.func, at) {
                self.make_fit_across(at);
            }
            // Before it: what lives on, and all it reads. A spilled value is loaded for it.
            for &value in &reads {
                self.begin(value);
            }
            self.make_fit(&reads);
            if !self.chosen.is_empty() {
                for &value in &reads {
                    if self.values[value.index()].gone {
                        self.end(value);
                    }
                }
            }
        }
        self.end_all();
    }

    /// Chooses values to spill until what lives across a call fits into registers that the call leaves alone. There is no way of moving wide tuples for a call only, so
    /// those go that fit into no run of them.
    fn make_fit_across(&mut self, call: Inst) {
        let goals = self.goals;
        let mut limits = [0; 5];
        limits[..goals.len()].copy_from_slice(&goals);
        let kept = preserved(self.func, call, &limits);
        self.goals.copy_from_slice(&kept[..goals.len()]);
        self.leave_wide(call, goals[Class::R as usize]);
        self.make_fit(&[]);
        self.goals = goals;
    }

    /// Lets tuples go that are wider than any run of registers which `call` leaves alone.
    fn leave_wide(&mut self, call: Inst, limit: u32) {
        let is_wide = |weight: &Counts| weight[Class::R as usize] > u32::from(NARROW);
        let live = self.border.iter().chain(&self.seen).copied();
        let mut wide: Values = live
            .filter(|value| {
                self.values[value.index()].is_live
                    && !self.short[value.index()]
                    && is_wide(&self.weights[value.index()])
            })
            .collect();
        if wide.is_empty() {
            return;
        }
        let kept = u32::from(widest_preserved(self.func, call, limit));
        wide.sort_unstable();
        wide.dedup();
        for value in wide {
            if self.weights[value.index()][Class::R as usize] > kept {
                self.leave(value);
            }
        }
    }

    /// Chooses values to spill, none of `needed`, until no class is too full.
    #[inline]
    fn make_fit(&mut self, needed: &[Value]) {
        raise(&mut self.most, &self.count);
        if !fit(&self.count, &self.goals) {
            self.choose(needed);
        }
    }

    fn choose(&mut self, needed: &[Value]) {
        // What was seen may be dead by now.
        let values = &self.values;
        if self.seen.len() > LONG {
            self.seen.retain(|value| values[value.index()].is_live);
        }
        // What others are made of again may be of a class that was looked at before.
        while !fit(&self.count, &self.goals) && self.stuck.is_none() {
            for class in SPILLED {
                while self.count[class as usize] > self.goals[class as usize] {
                    let Some(value) = self.cheapest(class, needed) else {
                        self.stuck = Some(class);
                        break;
                    };
                    self.leave(value);
                }
            }
        }
    }

    /// Lets `value` go from here on upwards.
    fn leave(&mut self, value: Value) {
        let func = self.func;
        self.end(value);
        let source = self.source(value);
        let source = source.filter(|source| !self.values[source.index()].gone);
        let repeated = func
            .defining_inst(value)
            .is_some_and(|inst| can_repeat(func, inst));
        let state = &mut self.values[value.index()];
        state.gone = true;
        state.again = repeated || source.is_some();
        self.chosen.push(Choice { value, source });
        if let Some(source) = source {
            let reads = self.all_reads(value);
            let known = self.again.entry(source).or_insert(Reads::NONE);
            known.add(reads);
            self.cost[source.index()] = None;
            self.begin(source);
            raise(&mut self.most, &self.count);
        }
    }

    /// Of the values of `class` that are live and may go, none of `needed` among them, the one that costs least.
    fn cheapest(&mut self, class: Class, needed: &[Value]) -> Option<Value> {
        let mut best: Option<(f32, Value)> = None;
        for index in 0..self.border.len() + self.seen.len() {
            let value = match self.border.get(index) {
                Some(&value) => value,
                None => self.seen[index - self.border.len()],
            };
            let state = self.values[value.index()];
            if !state.is_live
                || state.class != class
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
