//! Live-range splitting: values are in memory where registers are short, and in registers elsewhere.
//!
//! [`residence`] decides who is where. Here the code is changed accordingly:
//!
//! 1. **Edges** get loads for what is in a register behind them and was not before, and stores for parameters that are passed in memory. The code goes to
//!    the end of the block before, or to a block of its own.
//! 2. **Places in the frame.** A parameter in memory and its arguments share one if they never live at once: then nothing is moved on the way.
//!    Places are shared further by whoever does not live at the same time.
//! 3. **Stores.** A value that is loaded anywhere is stored once: behind its definition, or in a block that runs less often and dominates all
//!    places where it leaves its register.
//! 4. **Loads** make new values. Where several of them meet, blocks get parameters, at iterated dominance frontiers, where the value is in a register.
//!
//! Cost: O(operands + live pairs of value and block), the frontiers, and for sharing places a look at those that are there.

use super::super::assign::Stop;
use super::super::counts::{Goals, Room};
use super::super::edges::before_end;
use super::super::ranges::{Ranges, Run};
use super::params::{entering_edges, room_on, unterminated};
use super::recompute::{Recipe, follow, is_computed};
use super::residence::{Facts, Residence, decide, is_undefined, made_of_nothing};
use super::{Fitting, SpillLocation, can_repeat, load, store_before};
use crate::tail::group_start;
use cranelift_entity::EntityRef;
use orias_ori::analysis::{DepthFirst, DominatorTree, FlowGraph, Frequencies, Liveness, LoopNest};
use orias_ori::{Block, Class, Edge, Function, Inst, Reg, Type, Value, ValueDef};
use rustc_hash::{FxHashMap, FxHashSet};

/// Splits live ranges of general registers until no more are in use at a time than there should be, as far as that can be counted before.
/// `known` was found out about `func`, for whatever goals.
pub(super) fn split(func: &mut Function, known: &Fitting, goals: Goals) -> Result<(), Stop> {
    let Fitting {
        graph,
        live,
        last_uses,
        ..
    } = known;
    let walk = DepthFirst::new(graph);
    if func.blocks().any(|block| !walk.is_reachable(block)) {
        // Nothing reaches it, so nothing is known to be in registers there: values are spilled whole.
        return Err(Stop::Full(Class::R));
    }
    let loops = LoopNest::new(graph, &walk);
    let facts = Facts {
        func,
        graph,
        walk: &walk,
        loops: &loops,
        live,
    };
    let room = Room::new(func, goals);
    let cheap = made_of_nothing(func, &walk);
    let residence = decide(&facts, &room, &cheap);
    let order = walk.postorder().iter().rev().copied();
    let ranges = Ranges::new(func, live, last_uses, order);
    let tree = DominatorTree::new(graph, &walk);
    let frequencies = Frequencies::new(func, graph, &walk, &loops);
    let often: Vec<f32> = (graph.blocks())
        .map(|block| frequencies.times(block) as f32)
        .collect();
    let mut changes = Changes::new(func, residence, room, cheap);
    let crossings = changes.crossings(func);
    changes.find_places(func, &ranges, &crossings);
    let mut leaves = std::mem::take(&mut changes.residence.left);
    leaves.extend(changes.left_on_edges(func, graph, live, &crossings));
    let homes = store_blocks(func, &tree, &often, &leaves);
    drop(ranges);
    changes.bring_back(func)?;
    changes.cross(func, &crossings)?;
    changes.store(func, &homes)?;
    changes.rename(func)?;
    Ok(())
}

/// What has to happen on an edge.
struct Crossing {
    from: Block,
    edge: Edge,
    /// What is brought into registers.
    loads: Vec<Value>,
    /// Parameters that are passed in memory, with their arguments.
    passed: Vec<(Value, Value)>,
    /// Whether arguments get too many for the branch.
    apart: bool,
}

struct Changes {
    residence: Residence,
    room: Room,
    /// Parameters that are not in registers where they begin, by block.
    in_memory: FxHashMap<Block, Vec<usize>>,
    /// By value that has to be in memory: its place in the frame.
    places: FxHashMap<Value, u32>,
    /// What is made again instead of being loaded.
    cheap: FxHashMap<Value, Recipe>,
    /// What was brought back, by the instruction that made it: which value that is, and what it is there.
    loaded: FxHashMap<Inst, (Value, Value)>,
}

impl Changes {
    fn new(
        func: &Function,
        residence: Residence,
        room: Room,
        cheap: FxHashMap<Value, Recipe>,
    ) -> Changes {
        let mut in_memory: FxHashMap<Block, Vec<usize>> = FxHashMap::default();
        for block in func.blocks() {
            let entry = &residence.entry[block.index()];
            for (index, &param) in func.block_params(block).iter().enumerate() {
                if func.value_type(param).class() == Class::R
                    && entry.binary_search(&param).is_err()
                {
                    in_memory.entry(block).or_default().push(index);
                }
            }
        }
        Changes {
            residence,
            room,
            in_memory,
            places: FxHashMap::default(),
            cheap,
            loaded: FxHashMap::default(),
        }
    }

    /// What has to happen on edges.
    fn crossings(&self, func: &Function) -> Vec<Crossing> {
        // A parameter that nobody reads is not passed at all.
        let mut read: FxHashSet<Value> = FxHashSet::default();
        for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
            func.for_each_use(inst, |reg| read.extend(reg.value()));
        }
        let mut crossings = Vec::new();
        for from in func.blocks() {
            let exit = &self.residence.exit[from.index()];
            let is_here = |value: Value| exit.binary_search(&value).is_ok();
            let edges = func.successor_edges(from);
            let mut words = 0;
            for &edge in edges {
                let target = func.edge_target(edge);
                let entry = &self.residence.entry[target.index()];
                for (&param, &arg) in func.block_params(target).iter().zip(func.edge_args(edge)) {
                    if entry.binary_search(&param).is_ok() {
                        words += u32::from(func.value_type(arg).len());
                    }
                }
            }
            for &edge in edges {
                let target = func.edge_target(edge);
                let entry = &self.residence.entry[target.index()];
                let params = func.block_params(target);
                let mut loads: Vec<Value> = Vec::new();
                let mut passed = Vec::new();
                for &value in entry {
                    if !params.contains(&value) && !is_here(value) {
                        loads.push(value);
                    }
                }
                let mut has_args = false;
                for (&param, &arg) in params.iter().zip(func.edge_args(edge)) {
                    if func.value_type(param).class() != Class::R || is_undefined(func, arg) {
                        continue;
                    }
                    if entry.binary_search(&param).is_ok() {
                        has_args = true;
                        if !is_here(arg) {
                            loads.push(arg);
                        }
                    } else if read.contains(&param) {
                        passed.push((param, arg));
                    }
                }
                loads.sort_unstable();
                loads.dedup();
                crossings.push(Crossing {
                    from,
                    edge,
                    loads,
                    passed,
                    apart: edges.len() > 1 && has_args && words > self.room.at_end(from),
                });
            }
        }
        crossings
    }

    /// Values that leave their registers on edges, and where that is.
    fn left_on_edges(
        &self,
        func: &Function,
        graph: &FlowGraph,
        live: &Liveness,
        crossings: &[Crossing],
    ) -> Vec<(Value, Block)> {
        let mut left = Vec::new();
        for crossing in crossings {
            let target = func.edge_target(crossing.edge);
            let entry = &self.residence.entry[target.index()];
            let at = match graph.preds(target) {
                [_] => target,
                _ => crossing.from,
            };
            for &value in &self.residence.exit[crossing.from.index()] {
                if entry.binary_search(&value).is_err() && live.is_live_in(value, target) {
                    left.push((value, at));
                }
            }
            left.extend(crossing.passed.iter().map(|&(_, arg)| (arg, crossing.from)));
        }
        left
    }

    /// Finds places in the frame for all that is ever loaded.
    fn find_places(&mut self, func: &mut Function, ranges: &Ranges, crossings: &[Crossing]) {
        let reloads = self.residence.reloads.iter();
        let loaded = reloads.filter(|it| !self.residence.remade.contains_key(it));
        let mut needed: Vec<Value> = loaded.map(|it| it.1).collect();
        for crossing in crossings {
            needed.extend(&crossing.loads);
            needed.extend(crossing.passed.iter().map(|it| it.0));
        }
        let cheap = &self.cheap;
        let repeats = |value: Value| cheap.contains_key(&value);
        // Parameters with their arguments, where that is possible.
        let mut groups: Vec<(Vec<Value>, Vec<Run>, Type)> = Vec::new();
        let mut group_of: FxHashMap<Value, usize> = FxHashMap::default();
        for crossing in crossings {
            for &(param, arg) in &crossing.passed {
                if repeats(arg) {
                    continue;
                }
                // What has left its register by then comes from its place, be that the parameter's or not.
                let exit = &self.residence.exit[crossing.from.index()];
                if exit.binary_search(&arg).is_err() {
                    needed.push(arg);
                }
                let mut find = |value: Value, groups: &mut Vec<(Vec<Value>, Vec<Run>, Type)>| {
                    *group_of.entry(value).or_insert_with(|| {
                        let runs = ranges.of(value).to_vec();
                        groups.push((vec![value], runs, func.value_type(value)));
                        groups.len() - 1
                    })
                };
                let (a, b) = (find(param, &mut groups), find(arg, &mut groups));
                if a != b
                    && groups[a].2 == groups[b].2
                    && let Some(runs) = merged(&groups[a].1, &groups[b].1)
                {
                    let (members, _, ty) =
                        std::mem::replace(&mut groups[b], (Vec::new(), Vec::new(), Type::R));
                    for &member in &members {
                        group_of.insert(member, a);
                    }
                    groups[a].0.extend(members);
                    groups[a].1 = runs;
                    groups[a].2 = ty;
                    needed.push(arg);
                } else if a == b {
                    needed.push(arg);
                }
            }
        }
        needed.sort_unstable();
        needed.dedup();
        needed.retain(|&value| !repeats(value));
        // Places, each with its type and where it is taken.
        let mut taken: Vec<(u32, Type, Vec<Run>)> = Vec::new();
        let mut group_places: FxHashMap<usize, u32> = FxHashMap::default();
        for value in needed {
            let group = group_of.get(&value).copied();
            if let Some(&place) = group.and_then(|group| group_places.get(&group)) {
                self.places.insert(value, place);
                continue;
            }
            let ty = func.value_type(value);
            let runs = match group {
                Some(group) => groups[group].1.clone(),
                None => ranges.of(value).to_vec(),
            };
            let shared = taken.iter_mut().find_map(|(place, of, others)| {
                let both = (*of == ty).then(|| merged(others, &runs))??;
                *others = both;
                Some(*place)
            });
            let place = shared.unwrap_or_else(|| {
                let place = super::slot(func, ty);
                taken.push((place, ty, runs));
                place
            });
            self.places.insert(value, place);
            if let Some(group) = group {
                group_places.insert(group, place);
            }
        }
    }

    /// Another `value`, before `inst`: it is made again, or loaded.
    fn another(&self, func: &mut Function, inst: Inst, value: Value) -> Result<Value, Stop> {
        if let Some(recipe) = self.cheap.get(&value) {
            let before = group_start(func, inst);
            let made = follow(func, before, recipe, value);
            return made.map(|it| it.1).ok_or(Stop::Full(Class::R));
        }
        match self.places.get(&value) {
            Some(&place) => {
                let ty = func.value_type(value);
                load(func, inst, SpillLocation::Frame(place), ty)
            }
            None => Err(Stop::Full(Class::R)),
        }
    }

    /// Brings `value` back before `inst`.
    fn load(&mut self, func: &mut Function, inst: Inst, value: Value) -> Result<(), Stop> {
        let fresh = self.another(func, inst, value)?;
        if let Some(made) = func.defining_inst(fresh) {
            self.loaded.insert(made, (value, fresh));
        }
        Ok(())
    }

    /// Brings back what instructions read.
    fn bring_back(&mut self, func: &mut Function) -> Result<(), Stop> {
        for (inst, value) in std::mem::take(&mut self.residence.reloads) {
            let Some(block) = func.layout.inst_block(inst) else {
                continue;
            };
            if let Some(recipe) = self.residence.remade.get(&(inst, value)) {
                let made = follow(func, inst, recipe, value).ok_or(Stop::Full(Class::R))?;
                self.loaded.insert(made.0, (value, made.1));
                continue;
            }
            let end = func.terminator(block).ok_or_else(|| unterminated(block))?;
            let start = before_end(func, end);
            let in_tail = std::iter::successors(Some(start), |&at| func.layout.next_inst(at))
                .any(|at| at == inst);
            self.load(func, if in_tail { start } else { inst }, value)?;
        }
        Ok(())
    }

    /// Puts code on edges.
    fn cross(&mut self, func: &mut Function, crossings: &[Crossing]) -> Result<(), Stop> {
        // By block and parameter in memory, all that enters has to be known at the end.
        let graph = FlowGraph::of(func);
        let mut entering: FxHashMap<Block, Vec<Edge>> = FxHashMap::default();
        for &block in self.in_memory.keys() {
            let edges = entering_edges(func, &graph, block);
            entering.insert(block, edges.into_iter().map(|it| it.1).collect());
        }
        for crossing in crossings {
            let target = func.edge_target(crossing.edge);
            let moves: Vec<(Value, Value)> = crossing
                .passed
                .iter()
                .copied()
                .filter(|(param, arg)| {
                    self.places.contains_key(param)
                        && self.places.get(param) != self.places.get(arg)
                })
                .collect();
            if crossing.loads.is_empty() && moves.is_empty() && !crossing.apart {
                continue;
            }
            let args = func.edge_args(crossing.edge);
            let alone = graph.preds(target).len() == 1
                && !crossing.apart
                && !crossing.loads.iter().any(|value| args.contains(value));
            let room = if alone && func.successor_edges(crossing.from).len() > 1 {
                func.layout.first_inst(target)
            } else {
                room_on(func, crossing.from, crossing.edge)
            };
            let Some(before) = room else {
                return Err(unterminated(crossing.from));
            };
            if func.edge_target(crossing.edge) != target
                && let Some(edges) = entering.get_mut(&target)
            {
                let middle = func.edge_target(crossing.edge);
                edges.retain(|&edge| edge != crossing.edge);
                edges.extend(func.successor_edges(middle));
            }
            for &value in &crossing.loads {
                self.load(func, before, value)?;
            }
            let exit = &self.residence.exit[crossing.from.index()];
            let mut sources: FxHashMap<Value, Value> = FxHashMap::default();
            let absent: Vec<Value> = moves
                .iter()
                .map(|&(_, arg)| arg)
                .filter(|arg| exit.binary_search(arg).is_err() && !crossing.loads.contains(arg))
                .collect();
            for &arg in &absent {
                if !self.cheap.contains_key(&arg) && !sources.contains_key(&arg) {
                    sources.insert(arg, self.another(func, before, arg)?);
                }
            }
            for (param, arg) in moves {
                let ty = func.value_type(param);
                // What is rematerialised is made once for each run of stores.
                let source = match sources.get(&arg) {
                    Some(&source) => source,
                    None if absent.contains(&arg) => {
                        let fresh = self.another(func, before, arg)?;
                        sources.retain(|known, _| !self.cheap.contains_key(known));
                        sources.insert(arg, fresh);
                        fresh
                    }
                    None => arg,
                };
                let place = self.places[&param];
                store_before(func, before, source, SpillLocation::Frame(place), ty)?;
            }
        }
        let mut blocks: Vec<Block> = self.in_memory.keys().copied().collect();
        blocks.sort_unstable();
        for block in blocks {
            for &index in self.in_memory[&block].iter().rev() {
                func.remove_block_param(block, index, &entering[&block]);
            }
        }
        Ok(())
    }

    /// Stores what is loaded anywhere.
    fn store(&mut self, func: &mut Function, homes: &FxHashMap<Value, Block>) -> Result<(), Stop> {
        let mut stored: Vec<(Value, u32)> = self.places.iter().map(|(&v, &p)| (v, p)).collect();
        stored.sort_unstable();
        for (value, place) in stored {
            let ty = func.value_type(value);
            let before = match func.value_def(value) {
                // A parameter that is passed in memory.
                ValueDef::None => continue,
                def => {
                    let home = func.defining_block(value);
                    let elsewhere = homes.get(&value).copied().filter(|&it| Some(it) != home);
                    match (elsewhere, def) {
                        (Some(block), _) => func.layout.first_inst(block),
                        (None, ValueDef::Inst(inst, _)) => func.layout.next_inst(inst),
                        (None, ValueDef::Param(block, _)) => func.layout.first_inst(block),
                        (None, ValueDef::None) => None,
                    }
                }
            };
            let Some(before) = before else {
                return Err(Stop::Full(Class::R));
            };
            store_before(func, before, value, SpillLocation::Frame(place), ty)?;
        }
        Ok(())
    }

    /// Gives every reader the value that is there, and blocks parameters where several meet.
    fn rename(&mut self, func: &mut Function) -> Result<(), Stop> {
        let graph = FlowGraph::of(func);
        let walk = DepthFirst::new(&graph);
        let tree = DominatorTree::new(&graph, &walk);
        let mut frontier: Vec<Vec<Block>> = vec![Vec::new(); func.block_count()];
        for block in func.blocks() {
            let preds = graph.preds(block);
            if preds.len() < 2 {
                continue;
            }
            let top = tree.immediate_dominator(block);
            for &pred in preds {
                let mut at = Some(pred);
                while let Some(runner) = at
                    && Some(runner) != top
                {
                    if !frontier[runner.index()].contains(&block) {
                        frontier[runner.index()].push(block);
                    }
                    at = tree.immediate_dominator(runner);
                }
            }
        }
        let mut sites: FxHashMap<Value, Vec<Block>> = FxHashMap::default();
        let loaded = self.loaded.iter();
        let mut made: Vec<(Inst, Value)> = loaded.map(|(&inst, it)| (inst, it.0)).collect();
        made.sort_unstable();
        for (inst, value) in made {
            let blocks = sites.entry(value).or_insert_with(|| {
                let home = func.defining_block(value);
                home.into_iter().collect()
            });
            blocks.extend(func.layout.inst_block(inst));
        }
        let mut affected: Vec<Value> = sites.keys().copied().collect();
        affected.sort_unstable();
        let mut meets: FxHashMap<Block, Vec<(Value, Value)>> = FxHashMap::default();
        let known = self.residence.entry.len();
        for &value in &affected {
            let mut pending = sites[&value].clone();
            let mut done: FxHashSet<Block> = FxHashSet::default();
            while let Some(block) = pending.pop() {
                for &meet in &frontier[block.index()] {
                    // Blocks on edges have one way in, and meet nobody.
                    if meet.index() < known
                        && self.residence.entry[meet.index()]
                            .binary_search(&value)
                            .is_ok()
                        && func.defining_block(value) != Some(meet)
                        && done.insert(meet)
                    {
                        let ty = func.value_type(value);
                        let param = func.append_block_param(meet, ty);
                        meets.entry(meet).or_default().push((value, param));
                        pending.push(meet);
                    }
                }
            }
        }
        let affected: FxHashSet<Value> = affected.into_iter().collect();
        let mut current: FxHashMap<Value, Value> = FxHashMap::default();
        let mut undo: Vec<(Value, Option<Value>)> = Vec::new();
        enum Step {
            Enter(Block),
            Leave(usize),
        }
        let mut steps: Vec<Step> = func.entry().map(Step::Enter).into_iter().collect();
        while let Some(step) = steps.pop() {
            let block = match step {
                Step::Leave(mark) => {
                    while undo.len() > mark {
                        if let Some((value, before)) = undo.pop() {
                            match before {
                                Some(before) => current.insert(value, before),
                                None => current.remove(&value),
                            };
                        }
                    }
                    continue;
                }
                Step::Enter(block) => block,
            };
            steps.push(Step::Leave(undo.len()));
            if let Some(params) = meets.get(&block) {
                for &(value, param) in params {
                    undo.push((value, current.insert(value, param)));
                }
            }
            let insts: Vec<Inst> = func.block_insts(block).collect();
            for inst in insts {
                func.map_uses(inst, |reg| {
                    let value = reg.value().filter(|value| affected.contains(value));
                    let now = value.and_then(|value| current.get(&value));
                    now.map_or(reg, |&now| Reg::from(now))
                });
                if let Some(&(value, fresh)) = self.loaded.get(&inst) {
                    undo.push((value, current.insert(value, fresh)));
                }
            }
            let edges = func.successor_edges(block).to_vec();
            for edge in edges {
                let target = func.edge_target(edge);
                if let Some(params) = meets.get(&target) {
                    for (value, _) in params {
                        let now = current.get(value).copied().unwrap_or(*value);
                        func.push_edge_arg(edge, now);
                    }
                }
            }
            steps.extend(tree.children(block).map(Step::Enter));
        }
        remove_unread(func, affected.into_iter().collect());
        Ok(())
    }
}

/// Takes away what made `values` and whatever only that needed, where nobody reads it any more: what is rematerialised everywhere is not made where it was.
fn remove_unread(func: &mut Function, values: Vec<Value>) {
    let mut reads: FxHashMap<Value, u32> = FxHashMap::default();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        func.for_each_use(inst, |reg| {
            if let Some(value) = reg.value() {
                *reads.entry(value).or_default() += 1;
            }
        });
    }
    let is_read =
        |reads: &FxHashMap<Value, u32>, value: Value| reads.get(&value).is_some_and(|&it| it > 0);
    let mut pending = values;
    while let Some(value) = pending.pop() {
        let Some(inst) = func.defining_inst(value) else {
            continue;
        };
        if func.layout.inst_block(inst).is_none()
            || func.value_defs(inst).any(|it| is_read(&reads, it))
            || !(can_repeat(func, inst) || is_computed(func, inst))
        {
            continue;
        }
        func.for_each_use(inst, |reg| {
            if let Some(source) = reg.value() {
                if let Some(count) = reads.get_mut(&source) {
                    *count = count.saturating_sub(1);
                }
                pending.push(source);
            }
        });
        func.remove_inst(inst);
    }
}

/// By value that leaves its register: the block of those that dominate all places where it does, from its definition on, that runs least often.
fn store_blocks(
    func: &Function,
    tree: &DominatorTree,
    often: &[f32],
    leaves: &[(Value, Block)],
) -> FxHashMap<Value, Block> {
    let mut above: FxHashMap<Value, Block> = FxHashMap::default();
    for &(value, block) in leaves {
        let common = match above.get(&value) {
            Some(&other) => common_dominator(tree, other, block),
            None => block,
        };
        above.insert(value, common);
    }
    for (&value, place) in &mut above {
        let Some(home) = func.defining_block(value) else {
            continue;
        };
        let mut best = *place;
        let mut at = *place;
        while at != home {
            let Some(up) = tree.immediate_dominator(at) else {
                break;
            };
            at = up;
            if often[at.index()] < often[best.index()] {
                best = at;
            }
        }
        // Right behind the definition the value is surely there.
        if at != home || often[home.index()] <= often[best.index()] {
            best = home;
        }
        *place = best;
    }
    above
}

fn common_dominator(tree: &DominatorTree, a: Block, b: Block) -> Block {
    let (mut a, mut b) = (a, b);
    while a != b {
        let (deep, other) = if tree.depth(a) >= tree.depth(b) {
            (&mut a, b)
        } else {
            (&mut b, a)
        };
        match tree.immediate_dominator(*deep) {
            Some(up) => *deep = up,
            None => return other,
        }
    }
    a
}

/// Both lists of runs as one; none if they have a point in common.
fn merged(a: &[Run], b: &[Run]) -> Option<Vec<Run>> {
    let mut both = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let first = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) if x.start <= y.start => {
                if x.end >= y.start {
                    return None;
                }
                i += 1;
                *x
            }
            (Some(x), Some(y)) => {
                if y.end >= x.start {
                    return None;
                }
                j += 1;
                *y
            }
            (Some(x), None) => {
                i += 1;
                *x
            }
            (None, Some(y)) => {
                j += 1;
                *y
            }
            (None, None) => break,
        };
        both.push(first);
    }
    Some(both)
}
