use super::functions::{FUNCTIONS, any_function, function};
use super::generate::Random;
use super::lanes::{IterationCounter, Moment};
use super::split::Slow;
use cranelift_entity::EntityRef;
use orias_ori::analysis::loads_what_may_change;
use orias_ori::analysis::{
    DefUse, DepthFirst, Divergence, DominatorTree, FlowGraph, LaneNeeds, Loop, LoopNest, Spread,
    sees_other_threads, spread,
};
use orias_ori::operation::{Match, Order, Space, Special};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Function, FunctionKind, Inst, Level, Operand, Reg, Type,
    Value, ValueDef,
};
use std::collections::{BTreeMap, BTreeSet};

/// Divergence by going over the whole function until nothing changes.
#[derive(Default)]
struct SlowDivergence {
    values: BTreeSet<Value>,
    branches: BTreeSet<Block>,
    joins: BTreeSet<Block>,
    partial: BTreeSet<Block>,
    loops: BTreeSet<Loop>,
    temporal: BTreeSet<Value>,
}

/// Calls `read` for each register `inst` reads, with its place among the sources if it is one, but not for arguments.
fn sources(function: &Function, inst: Inst, mut read: impl FnMut(Reg, Option<usize>)) {
    if let Some(reg) = function.inst(inst).guard().reg() {
        read(reg, None);
    }
    let results = function.result_count(inst);
    for (index, &operand) in function.operands(inst).iter().enumerate() {
        let only_written = !function.is_use(inst, index);
        let replaced = function.is_def(inst, index) && operand.as_value().is_some();
        for reg in function
            .operand_regs(operand)
            .filter(|_| !only_written && !replaced)
        {
            read(reg, Some(index - results));
        }
    }
    for &operand in function
        .kept(inst)
        .iter()
        .chain(function.implicit_uses(inst))
    {
        for reg in function.operand_regs(operand) {
            read(reg, None);
        }
    }
}

fn waits_for_phase(function: &Function, inst: Inst) -> bool {
    function.opcode(inst).as_abstract() == Some(AbstractOp::MbarrierWait)
}

/// Whether lanes may come to `at` in parts: whether a way back leads to something that waits for other threads, or to the end of a region that
/// was opened so, without an operation that gathers the warp. `asked` are the regions that are being asked about; of the waits for a phase those that are
/// `parting` send lanes on in parts.
fn comes_in_parts(
    function: &Function,
    graph: &FlowGraph,
    nest: &LoopNest,
    at: Inst,
    parting: &BTreeSet<Inst>,
    asked: &mut Vec<Inst>,
) -> bool {
    let home = function.layout.inst_block(at).unwrap();
    let before: Vec<Inst> = function
        .block_insts(home)
        .take_while(|&inst| inst != at)
        .collect();
    let mut pending = vec![(home, before)];
    let mut seen = BTreeSet::new();
    while let Some((block, insts)) = pending.pop() {
        let gathers = |&inst: &Inst| {
            LaneNeeds::of(function, inst) == LaneNeeds::AllLanes
                && function.inst(inst).guard().is_always()
        };
        let mut gathered = false;
        for (index, &inst) in insts.iter().enumerate().rev() {
            let op = function.opcode(inst).as_abstract();
            // Once all lanes were here, those that come to a barrier of threads are all.
            let threads = LaneNeeds::of(function, inst) == LaneNeeds::Threads
                && function.inst(inst).guard().is_always()
                && insts[..index].iter().any(gathers);
            if gathers(&inst) || threads {
                gathered = true;
                break;
            }
            let unread = |value| {
                let mut insts = function.blocks().flat_map(|it| function.block_insts(it));
                !insts.any(|it| function.value_uses(it).any(|read| read == value))
            };
            let sends_on = match op {
                Some(AbstractOp::MbarrierWait) => parting.contains(&inst),
                Some(AbstractOp::MbarrierArrive) if function.value_defs(inst).all(unread) => false,
                Some(AbstractOp::Call | AbstractOp::Nanosleep) => true,
                _ => nest.innermost(block).is_some() && sees_other_threads(function, inst),
            };
            let waits =
                sends_on || LaneNeeds::of(function, inst) == LaneNeeds::SomeLanes { parts: true };
            if waits && LaneNeeds::of(function, inst) != LaneNeeds::Threads {
                return true;
            }
            let tokens = function.value_uses(inst);
            let opened = (op == Some(AbstractOp::RegionMeet))
                .then(|| tokens.filter_map(|token| function.defining_inst(token)))
                .into_iter()
                .flatten();
            for open in opened.collect::<Vec<_>>() {
                if !asked.contains(&open) {
                    asked.push(open);
                    let parts = comes_in_parts(function, graph, nest, open, parting, asked);
                    asked.pop();
                    if parts {
                        return true;
                    }
                }
            }
        }
        if !gathered {
            for &pred in graph.preds(block) {
                if seen.insert(pred) {
                    pending.push((pred, function.block_insts(pred).collect()));
                }
            }
        }
    }
    false
}

/// Asks whether lanes come to a place at once, by going back on all ways to where they parted from others last.
struct SlowCompany<'a> {
    function: &'a Function,
    analysed: &'a Analysed,
    parting: &'a BTreeSet<Inst>,
}

impl SlowCompany<'_> {
    /// Whether lanes come to `block`, or leave it, in parts.
    fn in_parts(&self, block: Block) -> bool {
        let Analysed { graph, nest, .. } = self.analysed;
        let layout = &self.function.layout;
        let ends = [layout.first_inst(block), layout.last_inst(block)];
        ends.into_iter().flatten().any(|inst| {
            comes_in_parts(
                self.function,
                graph,
                nest,
                inst,
                self.parting,
                &mut Vec::new(),
            )
        })
    }

    /// Whether lanes may go on one by one behind `inst`.
    fn scatters(&self, inst: Inst, asked: &mut Vec<Inst>) -> bool {
        let Analysed {
            nest, divergence, ..
        } = self.analysed;
        let block = self.function.layout.inst_block(inst).unwrap();
        match LaneNeeds::of(self.function, inst) {
            LaneNeeds::SomeLanes { .. } | LaneNeeds::Threads => return true,
            LaneNeeds::Nothing | LaneNeeds::AllLanes => {}
        }
        match self.function.opcode(inst).as_abstract() {
            Some(AbstractOp::Call | AbstractOp::Nanosleep) => true,
            Some(AbstractOp::RegionMeet) => self.in_parts(block),
            Some(AbstractOp::MbarrierWait) if nest.innermost(block).is_some() => {
                let mut results = self.function.value_defs(inst);
                results.any(|value| !divergence.is_uniform(value)) || !self.comes_to(inst, asked)
            }
            _ => false,
        }
    }

    /// Whether lanes come to `at` in company; those of `asked` are being asked about.
    fn comes_to(&self, at: Inst, asked: &mut Vec<Inst>) -> bool {
        if asked.contains(&at) {
            return true;
        }
        asked.push(at);
        let comes = self.goes_back(at, asked);
        asked.pop();
        comes
    }

    fn goes_back(&self, at: Inst, asked: &mut Vec<Inst>) -> bool {
        let Analysed {
            graph,
            walk,
            nest,
            divergence,
        } = self.analysed;
        let function = self.function;
        let home = function.layout.inst_block(at).unwrap();
        let mut before: Vec<Inst> = function.block_insts(home).collect();
        before.truncate(before.iter().position(|&inst| inst == at).unwrap());
        // The branch at which they parted and the way they took; nothing for the whole warp.
        let mut parted: BTreeSet<Option<(Block, Block)>> = BTreeSet::new();
        let mut pending = vec![(home, before)];
        let mut seen = BTreeSet::new();
        while let Some((block, insts)) = pending.pop() {
            let mut whole = false;
            for &inst in insts.iter().rev() {
                let gathers = LaneNeeds::of(function, inst) == LaneNeeds::AllLanes
                    && function.inst(inst).guard().is_always();
                if gathers {
                    whole = true;
                    break;
                }
                if self.scatters(inst, asked) {
                    return false;
                }
            }
            if whole || divergence.is_whole(block) && !self.in_parts(block) {
                parted.insert(None);
                continue;
            }
            if block == graph.entry() {
                return false;
            }
            let around = match nest.headed_by(block) {
                Some(headed) => nest.parent(headed),
                None => nest.innermost(block),
            };
            for &from in graph.preds(block) {
                if !walk.is_reachable(from) {
                    continue;
                }
                if divergence.is_divergent_branch(from) {
                    let end = function.layout.last_inst(from).unwrap();
                    if nest.innermost(from) != around || !self.comes_to(end, asked) {
                        return false;
                    }
                    parted.insert(Some((from, block)));
                } else if seen.insert(from) {
                    pending.push((from, function.block_insts(from).collect()));
                }
            }
        }
        parted.len() <= 1
    }
}

fn slow_divergence(
    function: &Function,
    graph: &FlowGraph,
    walk: &DepthFirst,
    nest: &LoopNest,
    parting: &BTreeSet<Inst>,
    in_company: &BTreeSet<Inst>,
) -> SlowDivergence {
    let mut found = SlowDivergence::default();
    let mut control = Slow::new(graph, walk, nest);
    if function.kind == FunctionKind::Device {
        found.values.extend(function.block_params(graph.entry()));
    }
    loop {
        let before = (
            found.values.len(),
            found.branches.len(),
            found.temporal.len(),
        );
        let branches: Vec<Block> = found.branches.iter().copied().collect();
        control.part(&branches);
        let consequences = &control.found;
        let in_scattered = |block: Block| {
            consequences
                .scattered
                .iter()
                .any(|&l| nest.contains(l, block))
        };
        // Seen from another iteration: some divergent loop holds the definition and not the reader.
        let from_other_iteration = |value: Value, block: Block| {
            let home = function.defining_block(value).expect("a definition");
            consequences
                .loops
                .iter()
                .any(|&l| nest.contains(l, home) && !nest.contains(l, block))
        };
        for &block in walk.preorder() {
            for (index, &param) in function.block_params(block).iter().enumerate() {
                let args: Vec<Value> = walk
                    .preorder()
                    .iter()
                    .flat_map(|&from| function.successor_edges(from))
                    .filter(|&&edge| function.edge_target(edge) == block)
                    .map(|&edge| function.edge_args(edge)[index])
                    .collect();
                for &arg in args.iter().filter(|&&arg| from_other_iteration(arg, block)) {
                    found.temporal.insert(arg);
                    found.values.insert(param);
                }
                let others: BTreeSet<Value> =
                    args.iter().copied().filter(|&arg| arg != param).collect();
                let chosen = consequences.joins.contains(&block) && others.len() > 1;
                if chosen
                    || in_scattered(block)
                    || args.iter().any(|arg| found.values.contains(arg))
                {
                    found.values.insert(param);
                }
            }
            for inst in function.block_insts(block) {
                // Where it reads what differs, and whether in a register that exists once for the warp.
                let mut read: Vec<(Option<usize>, bool)> = Vec::new();
                sources(function, inst, |reg, place| {
                    let Some(value) = reg.value() else { return };
                    let per_warp = function.value_type(value).class().is_uniform();
                    if from_other_iteration(value, block) {
                        found.temporal.insert(value);
                        read.push((place, per_warp));
                    } else if found.values.contains(&value) {
                        read.push((place, per_warp));
                    }
                });
                let physical = function.uses(inst).filter_map(Reg::phys);
                read.extend(
                    physical
                        .filter(|reg| !reg.class().is_uniform())
                        .map(|_| (None, false)),
                );
                for value in function.value_defs(inst) {
                    let ValueDef::Inst(_, index) = function.value_def(value) else {
                        panic!("{value} has a definition")
                    };
                    let once = function.value_type(value).class().is_uniform();
                    let spread = spread(function, inst, usize::from(index));
                    let depends = |place: Option<usize>| match spread {
                        Spread::Lanes => true,
                        Spread::Sources(set) => {
                            place.is_none_or(|at| at >= 32 || set >> at & 1 != 0)
                        }
                    };
                    let changes = function.level == Level::Abstract
                        && (loads_what_may_change(function, inst)
                            || waits_for_phase(function, inst) && !in_company.contains(&inst))
                        && comes_in_parts(function, graph, nest, inst, parting, &mut Vec::new());
                    let differs = changes && !once
                        || read
                            .iter()
                            .any(|&(place, per_warp)| depends(place) && (per_warp || !once))
                        || spread == Spread::Lanes && !once;
                    if differs || in_scattered(block) {
                        found.values.insert(value);
                    }
                }
                let last = function.layout.last_inst(block) == Some(inst);
                if last && graph.succs(block).len() > 1 && (!read.is_empty() || in_scattered(block))
                {
                    found.branches.insert(block);
                }
            }
        }
        if before
            == (
                found.values.len(),
                found.branches.len(),
                found.temporal.len(),
            )
        {
            break;
        }
    }
    let consequences = control.found;
    found.joins = consequences.joins;
    found.loops = consequences.loops;
    found.partial = match function.kind {
        FunctionKind::Entry => consequences.partial,
        FunctionKind::Device => walk.preorder().iter().copied().collect(),
    };
    found
}

pub(super) struct Analysed {
    pub graph: FlowGraph,
    pub walk: DepthFirst,
    pub nest: LoopNest,
    pub divergence: Divergence,
}

pub(super) fn analyse(function: &Function) -> Analysed {
    let graph = FlowGraph::of(function);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    let divergence = Divergence::new(function, &graph, &walk, &nest, &DefUse::new(function));
    Analysed {
        graph,
        walk,
        nest,
        divergence,
    }
}

#[test]
fn the_worklist_finds_what_going_over_everything_finds() {
    let mut seen = [0; 6];
    let mut partial_companies = 0;
    for seed in 0..FUNCTIONS {
        let function = any_function(seed);
        let analysed = analyse(&function);
        let Analysed {
            graph,
            walk,
            nest,
            divergence,
        } = &analysed;
        let waits: Vec<(Block, Inst)> = (walk.preorder().iter())
            .filter(|&&block| nest.innermost(block).is_some())
            .flat_map(|&block| function.block_insts(block).map(move |inst| (block, inst)))
            .filter(|&(_, inst)| waits_for_phase(&function, inst))
            .collect();
        let parting: BTreeSet<Inst> = (waits.iter())
            .filter(|&&(block, inst)| {
                let differs = |over: Value| !divergence.is_uniform(over);
                !divergence.is_whole(block) || function.value_defs(inst).any(differs)
            })
            .map(|&(_, inst)| inst)
            .collect();
        let company = SlowCompany {
            function: &function,
            analysed: &analysed,
            parting: &parting,
        };
        let in_company: BTreeSet<Inst> = (waits.iter().map(|&(_, inst)| inst))
            .filter(|&inst| company.comes_to(inst, &mut Vec::new()))
            .collect();
        let partial = |&(block, inst): &(Block, Inst)| {
            !divergence.is_whole(block) && in_company.contains(&inst)
        };
        partial_companies += usize::from(waits.iter().any(partial));
        let slow = slow_divergence(&function, graph, walk, nest, &parting, &in_company);
        for value in (0..function.value_count()).map(Value::new) {
            assert_eq!(
                divergence.is_uniform(value),
                !slow.values.contains(&value),
                "function {seed}: {value}"
            );
            let temporal = slow.temporal.contains(&value) && !slow.values.contains(&value);
            assert_eq!(
                divergence.is_temporal(value),
                temporal,
                "function {seed}: {value}"
            );
            seen[0] += usize::from(temporal);
        }
        for block in graph.blocks() {
            assert_eq!(
                divergence.is_divergent_branch(block),
                slow.branches.contains(&block),
                "function {seed}: {block}"
            );
            assert_eq!(
                divergence.is_join(block),
                slow.joins.contains(&block),
                "function {seed}: {block}"
            );
            assert_eq!(
                divergence.is_partial(block),
                slow.partial.contains(&block),
                "function {seed}: {block}"
            );
        }
        for l in nest.loops() {
            assert_eq!(
                divergence.is_divergent_loop(l),
                slow.loops.contains(&l),
                "function {seed}: {l}"
            );
        }
        let sizes = [
            slow.values.len(),
            slow.branches.len(),
            slow.joins.len(),
            slow.partial.len(),
            slow.loops.len(),
        ];
        for (total, size) in seen[1..].iter_mut().zip(sizes) {
            *total += size;
        }
    }
    assert!(
        seen.iter().all(|&total| total > 100),
        "the generator makes too little: {seen:?}"
    );
    assert!(partial_companies > 0, "only whole warps come in company");
}

/// Mixes numbers into one, the same for the same numbers.
fn mix(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0x1234_5678_9abc_def1, |hash, part| {
        Random::new(hash ^ part).next()
    })
}

/// What a lane did at one moment: the values it could read at its end, and where it went.
struct Visit {
    values: BTreeMap<Value, u64>,
    went: Option<usize>,
}

/// Runs one lane. Operations compute some fixed function of what they depend on; a load also of the moment, as memory changes; what
/// differs between lanes is made up.
fn run(function: &Function, nest: &LoopNest, launch: u64, lane: u64) -> BTreeMap<Moment, Visit> {
    let mut visits = BTreeMap::new();
    let mut values: BTreeMap<Value, u64> = BTreeMap::new();
    let mut iterations = IterationCounter::default();
    let mut block = function.entry().expect("an entry");
    for &param in function.block_params(block) {
        values.insert(param, mix([launch, lane, param.as_u32().into()]));
    }
    for _ in 0..50 {
        let moment = iterations.enter(nest, block);
        let when = mix(moment
            .1
            .iter()
            .flat_map(|&(l, iteration)| [l.as_u32().into(), iteration as u64]));
        for inst in function.block_insts(block) {
            let mut results: Vec<(Value, u64)> = Vec::new();
            for index in 0..function.result_count(inst) {
                let Some(value) = function.operands(inst)[index].as_value() else {
                    continue;
                };
                let what = u64::from(inst.as_u32()) << 8 | index as u64;
                let result = match spread(function, inst, index) {
                    Spread::Lanes => mix([launch, lane, when, what]),
                    Spread::Sources(set) => {
                        let mut parts = vec![launch, what];
                        if function.opcode(inst) == AbstractOp::Ld.into() {
                            parts.push(when);
                        }
                        sources(function, inst, |reg, place| {
                            if place.is_some_and(|place| set >> place & 1 != 0) {
                                parts.push(values[&reg.value().expect("a value")]);
                            }
                        });
                        mix(parts)
                    }
                };
                results.push((value, result));
            }
            let guard = function.inst(inst).guard();
            let takes_effect = match guard.reg().and_then(Reg::value) {
                Some(predicate) => (values[&predicate] & 1 != 0) != guard.is_negated(),
                None => true,
            };
            for (place, (value, result)) in results.into_iter().enumerate() {
                let kept = function
                    .kept(inst)
                    .get(place)
                    .and_then(|kept| kept.as_value());
                let result = match kept {
                    Some(kept) if !takes_effect => values[&kept],
                    _ => result,
                };
                values.insert(value, result);
            }
        }
        let terminator = function.terminator(block).expect("a terminator");
        let edges = function.edges(terminator);
        let went = match edges.len() {
            0 => None,
            1 => Some(0),
            count => {
                let condition = function.operands(terminator)[0]
                    .as_value()
                    .expect("a condition");
                Some((values[&condition] % count as u64) as usize)
            }
        };
        let before = visits.insert(
            moment,
            Visit {
                values: values.clone(),
                went,
            },
        );
        assert!(before.is_none(), "a moment comes once");
        let Some(went) = went else { break };
        let args: Vec<u64> = function
            .edge_args(edges[went])
            .iter()
            .map(|arg| values[arg])
            .collect();
        block = function.edge_target(edges[went]);
        for (&param, arg) in function.block_params(block).iter().zip(args) {
            values.insert(param, arg);
        }
    }
    visits
}

#[test]
fn lanes_that_are_together_agree_on_uniform_values_and_branches() {
    let mut compared = 0;
    for seed in 0..FUNCTIONS {
        let function = function(seed);
        let Analysed {
            graph,
            walk,
            nest,
            divergence,
        } = analyse(&function);
        let tree = DominatorTree::new(&graph, &walk);
        for launch in 0..3 {
            let lanes = [0, 1, 2].map(|lane| run(&function, &nest, mix([seed, launch]), lane));
            for (a, b) in [(0, 1), (1, 2)] {
                for (moment, visit) in &lanes[a] {
                    let Some(other) = lanes[b].get(moment) else {
                        continue;
                    };
                    let block = moment.0;
                    let same_way = visit.went == other.went;
                    assert!(
                        same_way || divergence.is_divergent_branch(block),
                        "function {seed}: {block} splits the warp"
                    );
                    for (&value, known) in &visit.values {
                        let home = function.defining_block(value).expect("a definition");
                        if !tree.dominates(home, block)
                            || !divergence.is_uniform_at(value, block, &nest)
                        {
                            continue;
                        }
                        compared += 1;
                        assert_eq!(
                            Some(known),
                            other.values.get(&value),
                            "function {seed}: {value} differs at {moment:?}"
                        );
                    }
                }
            }
        }
    }
    assert!(compared > 100_000, "only {compared} values compared");
}

/// `value = op sources` at the end of `block`.
pub(super) fn emit(
    function: &mut Function,
    block: Block,
    op: AbstractOp,
    mods: AbstractMods,
    ty: Type,
    sources: &[Value],
) -> Value {
    let value = function.create_value(ty);
    let mut operands = vec![Operand::value(value)];
    operands.extend(sources.iter().map(|&source| Operand::value(source)));
    let inst = function.create_abstract(op, mods, 1, &operands);
    function.layout.append_inst(inst, block);
    value
}

pub(super) fn special(register: Special) -> AbstractMods {
    AbstractOp::Sreg
        .row()
        .with_modifier(AbstractMods::NONE, register)
        .expect("a special register")
}

#[test]
fn a_register_for_the_whole_warp_does_not_take_divergence_from_lanes() {
    let mut function = Function::new(
        "f",
        FunctionKind::Entry,
        Level::Machine,
        orias_sass::Target::DEFAULT,
    );
    let block = function.append_block();
    let lane = emit(
        &mut function,
        block,
        AbstractOp::Sreg,
        special(Special::LaneId),
        Type::R,
        &[],
    );
    let first = emit(
        &mut function,
        block,
        AbstractOp::Collect,
        AbstractMods::NONE,
        Type::UR,
        &[lane],
    );
    let back = emit(
        &mut function,
        block,
        AbstractOp::Collect,
        AbstractMods::NONE,
        Type::R,
        &[first],
    );
    let divergence = analyse(&function).divergence;
    assert!(!divergence.is_uniform(lane));
    assert!(divergence.is_uniform(first));
    assert!(divergence.is_uniform(back));
}

#[test]
fn thread_numbers_are_uniform_where_rows_fill_warps() {
    let cases = [
        ([64, 2, 2], true, [false, true, true]),
        ([16, 2, 2], true, [false, false, true]),
        ([8, 2, 2], true, [false, false, false]),
        ([64, 2, 2], false, [false, false, false]),
        ([0, 0, 0], true, [false, false, false]),
    ];
    for (threads, required, expected) in cases {
        let mut function = Function::new(
            "f",
            FunctionKind::Entry,
            Level::Abstract,
            orias_sass::Target::DEFAULT,
        );
        function.attributes.max_threads = threads;
        function.attributes.required_threads = required;
        let block = function.append_block();
        let numbers = [Special::TidX, Special::TidY, Special::TidZ].map(|register| {
            emit(
                &mut function,
                block,
                AbstractOp::Sreg,
                special(register),
                Type::R,
                &[],
            )
        });
        let divergence = analyse(&function).divergence;
        assert_eq!(
            numbers.map(|value| divergence.is_uniform(value)),
            expected,
            "{threads:?} {required}"
        );
    }
}

#[test]
fn loads_and_lane_operations_spread_as_their_modifiers_say() {
    fn spread_of(op: AbstractOp, mods: AbstractMods, index: usize) -> Spread {
        let mut function = Function::new(
            "f",
            FunctionKind::Entry,
            Level::Abstract,
            orias_sass::Target::DEFAULT,
        );
        let inst = function.create_abstract(op, mods, 0, &[]);
        spread(&function, inst, index)
    }
    let load = |space: Space, order: Order| {
        let row = AbstractOp::Ld.row();
        let mods = row
            .with_modifier(AbstractMods::NONE, space)
            .expect("a space");
        spread_of(
            AbstractOp::Ld,
            row.with_modifier(mods, order).expect("an order"),
            0,
        )
    };
    assert_eq!(load(Space::Global, Order::Weak), Spread::ALL_SOURCES);
    assert_eq!(load(Space::Shared, Order::Weak), Spread::ALL_SOURCES);
    assert_eq!(load(Space::Global, Order::Relaxed), Spread::Lanes);
    assert_eq!(load(Space::Global, Order::Volatile), Spread::Lanes);
    assert_eq!(load(Space::Local, Order::Weak), Spread::Lanes);
    assert_eq!(load(Space::Generic, Order::Weak), Spread::Lanes);
    let row = AbstractOp::MatchLanes.row();
    let matching = |which: Match| {
        row.with_modifier(AbstractMods::NONE, which)
            .expect("a match")
    };
    assert_eq!(
        spread_of(AbstractOp::MatchLanes, matching(Match::Any), 0),
        Spread::Lanes
    );
    assert_eq!(
        spread_of(AbstractOp::MatchLanes, matching(Match::All), 0),
        Spread::Sources(0b10)
    );
    assert_eq!(
        spread_of(AbstractOp::Elect, AbstractMods::NONE, 0),
        Spread::Sources(0b1)
    );
    assert_eq!(
        spread_of(AbstractOp::Elect, AbstractMods::NONE, 1),
        Spread::Lanes
    );
    assert_eq!(
        spread_of(AbstractOp::Ballot, AbstractMods::NONE, 0),
        Spread::Sources(0b10)
    );
    assert_eq!(
        spread_of(AbstractOp::Atom, AbstractMods::NONE, 0),
        Spread::Lanes
    );
}
