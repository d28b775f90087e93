//! Belady's MIN algorithm over a whole function: which values are in registers where.
//!
//! After Braun and Hack (2009). Blocks are visited in reverse postorder. A set of values, never more than there is room for, is carried through each
//! block: what an instruction reads is brought in, and where that is too much, whatever is read again furthest on leaves ([`distances`]). At the
//! start of a block those are in registers that are so on all ways there, and then the nearest of those that are on some way, but for parameters that nobody reads and that
//! are only passed on to where they are in memory; at the head of a loop the nearest of what the loop reads, and of what lives through it as much as its own needs leave room for. Edges make the
//! two sides agree: values are loaded, or just forgotten.
//!
//! Who leaves before the loop reads it need not have been there: every iteration would store or forget it at the top and load it again at the bottom. Once
//! the walk has shown who that is in which loop, it is repeated without them, and nobody takes their room.
//!
//! A value that can be rematerialised counts as further away, since it is cheap to bring back; accumulators of warp groups and loop counters ([`staying`])
//! count as read at once all through their loops, so they stay as long as there is anybody else.
//!
//! Cost: O(operands + live pairs of value and block), and for each value that leaves, a look at all that are there.

use super::super::counts::Room;
use super::super::edges::before_end;
use super::distances::{Distances, EXIT, NEVER, for_each_read};
use super::recompute::{Recipe, Recipes};
use super::staying::staying;
use crate::tail::group_start;
use cranelift_entity::{EntityRef, EntitySet};
use orias_ori::analysis::{DepthFirst, FlowGraph, Liveness, Loop, LoopNest};
use orias_ori::{AbstractOp, Block, Class, Function, Inst, Opcode, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Tuples of more registers leave last.
const WIDE: u32 = 4;

/// What can be rematerialised counts as so many times as far away.
const CHEAP: u32 = 4;

/// On so many edges a parameter is followed that nobody reads.
const STEPS: usize = 4;

/// How many walks there are at most.
const WALKS: usize = 3;

/// Who is where.
#[derive(Default)]
pub(super) struct Residence {
    /// By block: what is in registers at its start, parameters included, in ascending order.
    pub(super) entry: Vec<Vec<Value>>,
    /// By block: what is in registers at its end, in ascending order.
    pub(super) exit: Vec<Vec<Value>>,
    /// What is brought back, and before which instruction.
    pub(super) reloads: Vec<(Inst, Value)>,
    /// What of that is made again, of what is in registers there.
    pub(super) remade: FxHashMap<(Inst, Value), Recipe>,
    /// Where values leave that are read again.
    pub(super) left: Vec<(Value, Block)>,
}

/// What holds for a function.
pub(super) struct Facts<'a> {
    pub(super) func: &'a Function,
    pub(super) graph: &'a FlowGraph,
    pub(super) walk: &'a DepthFirst,
    pub(super) loops: &'a LoopNest,
    pub(super) live: &'a Liveness,
}

struct Walk<'a> {
    facts: &'a Facts<'a>,
    distances: &'a Distances,
    rooms: &'a Room,
    /// How many registers there are at the point at hand.
    room: u32,
    /// By value.
    weights: Vec<u32>,
    recipes: Recipes<'a>,
    /// What can be made again anywhere.
    cheap: &'a FxHashMap<Value, Recipe>,
    staying: EntitySet<Value>,
    /// Parameters that nobody reads, and those that they are passed to.
    passed: FxHashMap<Value, Vec<Value>>,
    /// By value: the place in the block at hand at which it is read next.
    next: Vec<u32>,
    /// Where in `here` a value is, one more than that; or zero.
    place: Vec<u32>,
    here: Vec<Value>,
    weight: u32,
    found: Residence,
    /// Who is in registers at the head of a loop, and has not been read in it so far.
    unread: FxHashSet<(Loop, Value)>,
    /// Who left a loop's registers before the loop read it.
    idle: FxHashSet<(Loop, Value)>,
}

/// What can be made again anywhere, of nothing.
pub(super) fn made_of_nothing(func: &Function, walk: &DepthFirst) -> FxHashMap<Value, Recipe> {
    let recipes = Recipes::new(func);
    let possible = recipes.of_nothing(walk.reverse_postorder());
    let general = |&value: &Value| func.value_type(value).class() == Class::R;
    let values = (0..func.value_count()).map(Value::new).filter(general);
    let values = values.filter(|&value| possible.contains(value));
    values
        .filter_map(|value| Some((value, recipes.find(value, &|_| false)?)))
        .collect()
}

/// Decides who is where with as many general registers as `rooms` has. `cheap` is what can be made again anywhere.
pub(super) fn decide(
    facts: &Facts<'_>,
    rooms: &Room,
    cheap: &FxHashMap<Value, Recipe>,
) -> Residence {
    let &Facts {
        func,
        graph,
        walk,
        loops,
        live,
    } = facts;
    let distances = Distances::new(func, graph, walk, loops, live);
    let values = func.value_count();
    let mut weights = vec![0; values];
    for (number, weight) in weights.iter_mut().enumerate() {
        let ty = func.value_type(Value::new(number));
        if ty.class() == Class::R {
            *weight = u32::from(ty.len().next_multiple_of(ty.alignment()));
        }
    }
    let blocks = func.block_count();
    let mut walk = Walk {
        facts,
        distances: &distances,
        rooms,
        room: 0,
        weights,
        recipes: Recipes::new(func),
        cheap,
        staying: staying(func, graph, loops),
        passed: passed_on(func),
        next: vec![NEVER; values],
        place: vec![0; values],
        here: Vec::new(),
        weight: 0,
        found: Residence::default(),
        unread: FxHashSet::default(),
        idle: FxHashSet::default(),
    };
    let peaks = walk.peaks();
    let mut heads: Option<Vec<Vec<Value>>> = None;
    for _ in 0..WALKS {
        walk.found = Residence {
            entry: vec![Vec::new(); blocks],
            exit: vec![Vec::new(); blocks],
            ..Residence::default()
        };
        let mut visited = vec![false; blocks];
        for &block in facts.walk.postorder().iter().rev() {
            walk.enter(block, &visited, &peaks, heads.as_deref());
            walk.run(block);
            visited[block.index()] = true;
        }
        if walk.idle.is_empty() {
            break;
        }
        let mut busy = walk.found.entry.clone();
        for (of, value) in walk.idle.drain() {
            busy[loops.header(of).index()].retain(|&it| it != value);
        }
        heads = Some(busy);
    }
    walk.found
}

/// The parameters in general registers that no instruction reads, with the parameters that they become on edges.
fn passed_on(func: &Function) -> FxHashMap<Value, Vec<Value>> {
    let params = func.blocks().flat_map(|block| func.block_params(block));
    let general = params.filter(|&&it| func.value_type(it).class() == Class::R);
    let mut passed: FxHashMap<Value, Vec<Value>> =
        general.map(|&param| (param, Vec::new())).collect();
    if passed.is_empty() {
        return passed;
    }
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        for_each_read(func, inst, |value| {
            passed.remove(&value);
        });
    }
    for &edge in func.blocks().flat_map(|block| func.successor_edges(block)) {
        let params = func.block_params(func.edge_target(edge));
        for (arg, &param) in func.edge_args(edge).iter().zip(params) {
            if let Some(to) = passed.get_mut(arg) {
                to.push(param);
            }
        }
    }
    passed
}

/// Whether a value may be anything.
pub(super) fn is_undefined(func: &Function, value: Value) -> bool {
    func.defining_inst(value)
        .is_some_and(|inst| func.opcode(inst) == Opcode::Abstract(AbstractOp::Undef))
}

/// The loops around `block`, from the inside.
fn loops_around(loops: &LoopNest, block: Block) -> impl Iterator<Item = Loop> {
    std::iter::successors(loops.innermost(block), |&it| loops.parent(it))
}

impl Walk<'_> {
    /// By block: the most general registers that it would need.
    fn peaks(&mut self) -> Vec<u32> {
        let Facts { func, live, .. } = *self.facts;
        let mut peaks = vec![0; func.block_count()];
        let mut seen = vec![0u32; func.value_count()];
        let mut stamp = 0;
        for block in func.blocks() {
            stamp += 1;
            let mut now = 0;
            for &value in live.live_out(block) {
                seen[value.index()] = stamp;
                now += self.weights[value.index()];
            }
            let mut peak = now;
            for inst in func.block_insts(block).rev() {
                func.for_each_def(inst, |reg| {
                    if let Some(value) = reg.value()
                        && seen[value.index()] == stamp
                    {
                        seen[value.index()] = 0;
                        now -= self.weights[value.index()];
                    }
                });
                func.for_each_use(inst, |reg| {
                    if let Some(value) = reg.value()
                        && seen[value.index()] != stamp
                    {
                        seen[value.index()] = stamp;
                        now += self.weights[value.index()];
                    }
                });
                peak = peak.max(now);
            }
            peaks[block.index()] = peak;
        }
        peaks
    }

    /// Whether `param` is only passed on, to parameters that are in memory as far as that is known, on at most `steps` edges.
    fn goes_to_memory(&self, param: Value, visited: &[bool], steps: usize) -> bool {
        let Some(to) = self.passed.get(&param).filter(|_| steps > 0) else {
            return false;
        };
        to.iter().all(|&next| {
            let block = self.facts.func.defining_block(next);
            block.is_some_and(|block| match visited[block.index()] {
                true => {
                    let entry = &self.found.entry[block.index()];
                    entry.binary_search(&next).is_err()
                }
                false => self.goes_to_memory(next, visited, steps - 1),
            })
        })
    }

    fn is_here(&self, value: Value) -> bool {
        self.place[value.index()] != 0
    }

    fn add(&mut self, value: Value) {
        if !self.is_here(value) {
            self.here.push(value);
            self.place[value.index()] = self.here.len() as u32;
            self.weight += self.weights[value.index()];
        }
    }

    fn remove(&mut self, value: Value) {
        let place = std::mem::take(&mut self.place[value.index()]) as usize;
        if place == 0 {
            return;
        }
        self.here.swap_remove(place - 1);
        if let Some(&moved) = self.here.get(place - 1) {
            self.place[moved.index()] = place as u32;
        }
        self.weight -= self.weights[value.index()];
    }

    /// Chooses what is in registers at the start of `block`; if it heads a loop, among those of `heads` if that is known.
    fn enter(
        &mut self,
        block: Block,
        visited: &[bool],
        peaks: &[u32],
        heads: Option<&[Vec<Value>]>,
    ) {
        let Facts {
            func,
            graph,
            live,
            loops,
            ..
        } = *self.facts;
        while let Some(&value) = self.here.last() {
            self.remove(value);
        }
        let mut candidates: Vec<(Value, u32)> = Vec::new();
        let distances = self.distances;
        distances.at_start(func, live, block, |value, distance| {
            if distance != NEVER {
                candidates.push((value, distance));
            }
        });
        let mut room = self.rooms.at_start(block);
        let preds = graph.preds(block);
        let is_header = loops.headed_by(block);
        let mut ranked: Vec<(u32, u32, Value)> = Vec::new();
        match is_header {
            Some(own) => {
                // What lives through without being read.
                let through: u32 = candidates
                    .iter()
                    .filter(|(_, distance)| *distance >= EXIT)
                    .map(|(value, _)| self.weights[value.index()])
                    .sum();
                let left = loops.blocks(own).iter().map(|&it| {
                    let needed = peaks[it.index()].saturating_sub(through);
                    self.rooms.least(func, it).saturating_sub(needed)
                });
                let mut spare = left.min().unwrap_or(room);
                candidates.sort_unstable_by_key(|&(value, distance)| (distance, value));
                for (value, distance) in candidates {
                    let weight = self.weights[value.index()];
                    if distance >= EXIT {
                        let outside = |pred: &&Block| visited[pred.index()];
                        let mut before = preds.iter().filter(outside);
                        let there = before
                            .all(|it| self.found.exit[it.index()].binary_search(&value).is_ok());
                        let is_param = func.block_params(block).contains(&value);
                        if weight > spare || !(there || is_param) {
                            continue;
                        }
                        spare -= weight;
                    }
                    let distance = match self.staying.contains(value) {
                        true => 0,
                        false => distance,
                    };
                    ranked.push((0, distance, value));
                }
            }
            None => {
                for (value, distance) in candidates {
                    let index = func.block_params(block).iter().position(|&it| it == value);
                    let mut there = 0;
                    let mut all = 0;
                    for &pred in preds {
                        if !visited[pred.index()] {
                            continue;
                        }
                        for &edge in func.successor_edges(pred) {
                            if func.edge_target(edge) != block {
                                continue;
                            }
                            let source = index.map_or(value, |index| func.edge_args(edge)[index]);
                            let exit = &self.found.exit[pred.index()];
                            all += 1;
                            if exit.binary_search(&source).is_ok() || is_undefined(func, source) {
                                there += 1;
                            }
                        }
                    }
                    if there == all {
                        ranked.push((0, distance, value));
                    } else if there > 0 && !self.goes_to_memory(value, visited, STEPS) {
                        ranked.push((1, distance, value));
                    }
                }
            }
        }
        if let (Some(heads), true) = (heads, is_header.is_some()) {
            ranked.retain(|(_, _, value)| heads[block.index()].binary_search(value).is_ok());
        }
        ranked.sort_unstable();
        for (_, _, value) in ranked {
            let weight = self.weights[value.index()];
            if weight <= room {
                room -= weight;
                self.add(value);
            }
        }
        if let Some(own) = is_header {
            self.unread.retain(|&(of, _)| of != own);
            self.unread.extend(self.here.iter().map(|&it| (own, it)));
        }
        let mut entry = self.here.clone();
        entry.sort_unstable();
        self.found.entry[block.index()] = entry;
    }

    /// Follows a block from its start to its end.
    fn run(&mut self, block: Block) {
        let Facts {
            func,
            graph,
            live,
            loops,
            ..
        } = *self.facts;
        self.room = self.rooms.at_start(block);
        // When what each instruction reads is read again, backwards.
        let insts: Vec<Inst> = func.block_insts(block).collect();
        let count = insts.len() as u32;
        for inst in &insts {
            func.for_each_use(*inst, |reg| {
                if let Some(value) = reg.value() {
                    self.next[value.index()] = NEVER;
                }
            });
            func.for_each_def(*inst, |reg| {
                if let Some(value) = reg.value() {
                    self.next[value.index()] = NEVER;
                }
            });
        }
        for &value in &self.here {
            self.next[value.index()] = NEVER;
        }
        self.distances
            .at_end(func, graph, loops, live, block, &mut self.next);
        let mut ends: Vec<Value> = live.live_out(block).to_vec();
        for &edge in func.successor_edges(block) {
            ends.extend(func.edge_args(edge));
        }
        ends.sort_unstable();
        ends.dedup();
        for value in ends {
            let next = &mut self.next[value.index()];
            if *next != NEVER {
                *next = next.saturating_add(count).min(NEVER - 1);
            }
        }
        let mut again: Vec<u32> = Vec::new();
        for (at, &inst) in insts.iter().enumerate().rev() {
            for_each_read(func, inst, |value| {
                again.push(std::mem::replace(&mut self.next[value.index()], at as u32));
            });
        }
        let mut reads: Vec<Value> = Vec::new();
        let mut results: Vec<Value> = Vec::new();
        let tail = insts.last().map(|&last| before_end(func, last));
        let mut in_tail = false;
        for (at, &inst) in insts.iter().enumerate() {
            in_tail |= tail == Some(inst);
            reads.clear();
            for_each_read(func, inst, |value| reads.push(value));
            let mut sorted = reads.clone();
            sorted.sort_unstable();
            sorted.dedup();
            let mut sources: Vec<Value> = Vec::new();
            for &value in &sorted {
                for of in loops_around(loops, block) {
                    self.unread.remove(&(of, value));
                }
                if !self.is_here(value) {
                    // What belongs together stays together: its registers are loaded before the first of them.
                    if !in_tail
                        && group_start(func, inst) == inst
                        && !self.cheap.contains_key(&value)
                        && let Some(recipe) = self.recipes.find(value, &|it| self.is_here(it))
                    {
                        sources.extend(&recipe.sources);
                        self.found.remade.insert((inst, value), recipe);
                    }
                    self.add(value);
                    self.found.reloads.push((inst, value));
                }
            }
            // What something is made of again has to be there, too.
            let needed = match sources.is_empty() {
                true => &sorted,
                false => {
                    sources.extend(&sorted);
                    &sources
                }
            };
            self.limit(block, at as u32, needed, 0);
            // In the order in which they were noted, of which the last comes first.
            let noted = again.split_off(again.len() - reads.len());
            // A value read twice: the first note is of the furthest use.
            for (&value, &next) in reads.iter().zip(&noted) {
                let known = &mut self.next[value.index()];
                *known = if *known == at as u32 {
                    next
                } else {
                    (*known).max(next)
                };
            }
            for &value in &sorted {
                if self.next[value.index()] == at as u32 {
                    self.next[value.index()] = NEVER;
                }
                if self.next[value.index()] == NEVER {
                    self.remove(value);
                }
            }
            results.clear();
            func.for_each_def(inst, |reg| {
                if let Some(value) = reg.value()
                    && func.value_type(value).class() == Class::R
                {
                    results.push(value);
                }
            });
            if let Some((_, behind)) = self.rooms.changed_by(inst) {
                self.room = behind;
            }
            let more = results.iter().map(|it| self.weights[it.index()]).sum();
            self.limit(block, at as u32, &[], more);
            for &value in &results {
                if self.next[value.index()] != NEVER {
                    self.add(value);
                }
            }
        }
        let mut exit: Vec<Value> = self.here.clone();
        exit.sort_unstable();
        self.found.exit[block.index()] = exit;
    }

    /// Lets values go until all that are left, and `more` registers, have room; none of `needed`.
    fn limit(&mut self, block: Block, at: u32, needed: &[Value], more: u32) {
        let in_loop = self.facts.loops.block_depth(block) > 0;
        while self.weight + more > self.room {
            let far = |value: Value| {
                let distance = self.next[value.index()].saturating_sub(at);
                let stays =
                    self.weights[value.index()] > WIDE || in_loop && self.staying.contains(value);
                if stays {
                    0
                } else if self.cheap.contains_key(&value) {
                    distance.saturating_mul(CHEAP)
                } else {
                    distance
                }
            };
            let others = self.here.iter().copied().filter(|it| !needed.contains(it));
            let Some(value) = others.max_by_key(|&value| (far(value), value)) else {
                return;
            };
            self.remove(value);
            if self.next[value.index()] != NEVER {
                self.found.left.push((value, block));
                for of in loops_around(self.facts.loops, block) {
                    if self.unread.contains(&(of, value)) {
                        self.idle.insert((of, value));
                    }
                }
            }
        }
    }
}
