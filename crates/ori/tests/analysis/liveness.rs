use super::functions::{FUNCTIONS, any_function, any_physical_function};
use cranelift_entity::EntityRef;
use orias_ori::analysis::{
    Counts, DefUse, DepthFirst, FlowGraph, Liveness, Place, Pressure, RegisterLiveness,
    RegisterSet, of_class, step_back,
};
use orias_ori::{Block, Class, Function, Inst, PhysReg, Reg, Type, Value};
use std::collections::BTreeSet;

/// What each instruction reads and certainly overwrites, and what each block defines on entry, looked up once.
struct Facts<T> {
    insts: Vec<Vec<(Vec<T>, Vec<T>)>>,
    params: Vec<Vec<T>>,
    succs: Vec<Vec<usize>>,
}

impl<T: PartialEq> Facts<T> {
    fn new(
        function: &Function,
        at_inst: impl Fn(Inst) -> (Vec<T>, Vec<T>),
        at_entry: impl Fn(Block) -> Vec<T>,
    ) -> Self {
        let blocks = || (0..function.block_count()).map(Block::new);
        Facts {
            insts: blocks()
                .map(|block| function.block_insts(block).map(&at_inst).collect())
                .collect(),
            params: blocks().map(&at_entry).collect(),
            succs: blocks()
                .map(|block| {
                    function
                        .successors(block)
                        .map(|succ| succ.index())
                        .collect()
                })
                .collect(),
        }
    }

    /// Whether a path leads from just before instruction `index` of `block` to a read, with no definition on the way.
    fn is_live(&self, what: &T, block: Block, index: usize) -> bool {
        let mut seen = vec![false; self.insts.len()];
        let mut pending = vec![(block.index(), index)];
        while let Some((block, index)) = pending.pop() {
            let met = self.insts[block][index..]
                .iter()
                .find(|(reads, writes)| reads.contains(what) || writes.contains(what));
            match met {
                Some((reads, _)) if reads.contains(what) => return true,
                Some(_) => continue,
                None => {}
            }
            for &succ in &self.succs[block] {
                if !self.params[succ].contains(what) && !std::mem::replace(&mut seen[succ], true) {
                    pending.push((succ, 0));
                }
            }
        }
        false
    }
}

fn value_facts(function: &Function) -> Facts<Value> {
    Facts::new(
        function,
        |inst| {
            (
                function.value_uses(inst).collect(),
                function.value_defs(inst).collect(),
            )
        },
        |block| function.block_params(block).to_vec(),
    )
}

fn values(function: &Function) -> impl Iterator<Item = Value> + use<> {
    (0..function.value_count()).map(Value::new)
}

#[test]
fn values_are_live_where_a_path_leads_to_a_use() {
    let mut pairs = 0;
    for seed in 0..FUNCTIONS {
        let function = any_function(seed);
        let graph = FlowGraph::of(&function);
        let live = Liveness::new(&function, &graph);
        let facts = value_facts(&function);
        for block in graph.blocks() {
            let params = function.block_params(block);
            let live_in: Vec<Value> = values(&function)
                .filter(|value| !params.contains(value) && facts.is_live(value, block, 0))
                .collect();
            assert_eq!(live.live_in(block), live_in, "function {seed}: {block}");
            let live_out: Vec<Value> = values(&function)
                .filter(|&value| {
                    graph.succs(block).iter().any(|&succ| {
                        !function.block_params(succ).contains(&value)
                            && facts.is_live(&value, succ, 0)
                    })
                })
                .collect();
            assert_eq!(live.live_out(block), live_out, "function {seed}: {block}");
            assert!(live_in.iter().all(|&value| live.is_live_in(value, block)));
            assert!(live_out.iter().all(|&value| live.is_live_out(value, block)));
            let by_class: usize = Class::ALL
                .into_iter()
                .map(|class| of_class(&function, live.live_in(block), class).count())
                .sum();
            assert_eq!(by_class, live_in.len());
            pairs += live_in.len();
        }
    }
    assert!(pairs > 10_000, "only {pairs} live values");
}

fn count(types: impl Iterator<Item = Type>) -> [u32; 5] {
    let mut counts = [0; 5];
    for ty in types {
        counts[ty.class() as usize] += u32::from(ty.len());
    }
    counts
}

fn larger(a: [u32; 5], b: [u32; 5]) -> [u32; 5] {
    std::array::from_fn(|class| a[class].max(b[class]))
}

fn plain(counts: Counts) -> [u32; 5] {
    Class::ALL.map(|class| counts[class])
}

#[test]
fn pressure_counts_what_is_live_or_written_at_each_point() {
    for seed in 0..FUNCTIONS {
        let function = any_function(seed);
        let graph = FlowGraph::of(&function);
        let live = Liveness::new(&function, &graph);
        let facts = value_facts(&function);
        let pressure = Pressure::new(&function, &live);
        let mut overall = [0; 5];
        for block in graph.blocks() {
            let live_at = |index: usize| -> BTreeSet<Value> {
                values(&function)
                    .filter(|&value| facts.is_live(&value, block, index))
                    .collect()
            };
            let types =
                |set: &BTreeSet<Value>| count(set.iter().map(|&value| function.value_type(value)));
            let mut at_entry = live_at(0);
            at_entry.extend(function.block_params(block));
            let mut peak = types(&at_entry);
            assert_eq!(
                plain(pressure.at_entry(block)),
                peak,
                "function {seed}: {block}"
            );
            for (index, inst) in function.block_insts(block).enumerate() {
                let mut after = live_at(index + 1);
                after.extend(function.value_defs(inst));
                let expected = larger(types(&live_at(index)), types(&after));
                assert_eq!(
                    plain(pressure.at(inst)),
                    expected,
                    "function {seed}: {block}, {index}"
                );
                peak = larger(peak, expected);
            }
            assert_eq!(
                plain(pressure.in_block(block)),
                peak,
                "function {seed}: {block}"
            );
            overall = larger(overall, peak);
        }
        assert_eq!(plain(pressure.overall()), overall, "function {seed}");
    }
}

#[test]
fn def_use_chains_lead_to_every_place_a_value_is_read() {
    for seed in 0..FUNCTIONS {
        let function = any_function(seed);
        let chains = DefUse::new(&function);
        let mut from_chains: Vec<(Inst, Value)> = Vec::new();
        for value in values(&function) {
            assert_eq!(chains.is_unused(value), chains.uses(value).is_empty());
            for read in chains.uses(value) {
                let inst = read.inst;
                let reads = match read.place {
                    Place::Guard => function.inst(inst).guard().reg() == Some(Reg::from(value)),
                    Place::Operand(index) => function
                        .operand_regs(function.operands(inst)[usize::from(index)])
                        .any(|reg| reg == Reg::from(value)),
                    Place::Kept(index) => {
                        function.kept(inst)[usize::from(index)].as_value() == Some(value)
                    }
                    Place::Implicit(index) => {
                        function.implicit_uses(inst)[usize::from(index)].as_value() == Some(value)
                    }
                    Place::Argument { edge, index } => {
                        function.edge_args(function.edges(inst)[usize::from(edge)])
                            [usize::from(index)]
                            == value
                    }
                };
                assert!(
                    reads,
                    "function {seed}: {value} in {inst} at {:?}",
                    read.place
                );
                from_chains.push((inst, value));
            }
        }
        let mut by_inst: Vec<(Inst, Value)> = function
            .blocks()
            .flat_map(|block| function.block_insts(block))
            .flat_map(|inst| function.value_uses(inst).map(move |value| (inst, value)))
            .collect();
        by_inst.sort();
        from_chains.sort();
        assert_eq!(from_chains, by_inst, "function {seed}");
    }
}

fn register_facts(function: &Function) -> Facts<PhysReg> {
    let units = |reg: Reg| reg.phys().into_iter().flat_map(PhysReg::units);
    let at_inst = |inst: Inst| {
        let writes = match function.inst(inst).guard().is_always() {
            true => function.defs(inst).flat_map(units).collect(),
            false => Vec::new(),
        };
        (function.uses(inst).flat_map(units).collect(), writes)
    };
    Facts::new(function, at_inst, |_| Vec::new())
}

/// The registers the function touches, and some it may not.
fn units(function: &Function) -> BTreeSet<PhysReg> {
    let few = Class::ALL
        .into_iter()
        .filter_map(|class| PhysReg::new(class, 3));
    let insts = function
        .blocks()
        .flat_map(|block| function.block_insts(block));
    insts
        .flat_map(|inst| function.uses(inst).chain(function.defs(inst)))
        .filter_map(Reg::phys)
        .flat_map(PhysReg::units)
        .chain(few)
        .collect()
}

#[test]
fn registers_are_live_until_overwritten_for_certain() {
    let mut pairs = 0;
    for seed in 0..FUNCTIONS {
        let function = any_physical_function(seed);
        let graph = FlowGraph::of(&function);
        let live = RegisterLiveness::new(&function, &graph, &DepthFirst::new(&graph));
        let pressure = Pressure::of_registers(&function, &live);
        let facts = register_facts(&function);
        let units = units(&function);
        for block in graph.blocks() {
            let live_at = |index: usize| -> BTreeSet<PhysReg> {
                units
                    .iter()
                    .copied()
                    .filter(|&unit| facts.is_live(&unit, block, index))
                    .collect()
            };
            let insts: Vec<Inst> = function.block_insts(block).collect();
            assert_eq!(
                live.live_in(block).iter().collect::<BTreeSet<_>>(),
                live_at(0),
                "function {seed}: {block}"
            );
            let end = live_at(insts.len());
            assert_eq!(
                live.live_out(block).iter().collect::<BTreeSet<_>>(),
                end,
                "function {seed}: {block}"
            );
            pairs += end.len();
            let mut set = *live.live_out(block);
            for (index, &inst) in insts.iter().enumerate().rev() {
                step_back(&function, inst, &mut set);
                let before = live_at(index);
                assert_eq!(
                    set.iter().collect::<BTreeSet<_>>(),
                    before,
                    "function {seed}: {block}, {index}"
                );
                let mut after = live_at(index + 1);
                after.extend(
                    function
                        .defs(inst)
                        .filter_map(Reg::phys)
                        .flat_map(PhysReg::units),
                );
                let types = |set: &BTreeSet<PhysReg>| count(set.iter().map(|unit| unit.ty()));
                let expected = larger(types(&before), types(&after));
                assert_eq!(
                    plain(pressure.at(inst)),
                    expected,
                    "function {seed}: {block}, {index}"
                );
            }
        }
    }
    assert!(pairs > 10_000, "only {pairs} live registers");
}

#[test]
fn register_sets_hold_every_register_once() {
    let mut set = RegisterSet::EMPTY;
    for class in Class::ALL {
        for index in 0..class.count() {
            let reg = PhysReg::new(class, index).expect("a register");
            assert!(!set.intersects(reg), "{reg} has a bit of its own");
            set.insert(reg);
            assert!(set.intersects(reg));
            assert_eq!(set.count(class), u32::from(index) + 1);
        }
        class
            .constant()
            .into_iter()
            .for_each(|constant| set.insert(constant));
        assert_eq!(set.count(class), u32::from(class.count()));
    }
    set.remove(PhysReg::tuple(Class::R, 4, 4).expect("a tuple"));
    assert_eq!(set.count(Class::R), 251);
    assert_eq!(set.iter().count(), 344);
}
