//! WarpgroupWaits (10008): nobody touches registers that a warp group's matrix products still work on.
//!
//! A product (HGMMA and its like) reads and writes its accumulator, and reads A and the metadata of a sparse one, after the instruction has
//! been issued, until WARPGROUP.DEPBAR says that its group is over. Before it, WARPGROUP.ARRIVE hands the registers over. PTX says where;
//! where it does not, and where the allocator has put moves in between, this phase adds what is missing.
//!
//! **Waits.** Forward over the flow graph: for each general register, how many groups were committed since a product last took it, itself
//! included (its *age*), and whether as an accumulator. WARPGROUP.DEPBAR with `n` gives back what is older than `n`. Where ways meet, the
//! younger counts. An instruction that reads or writes an accumulator of age `a`, or writes what is read, gets a wait for all but the `a - 1`
//! youngest groups in front of it; a product may go on with the accumulator that another of the same registers has. A call and a return touch everything: the
//! other side may store and load any register. What is touched before its group ends makes the last product before it end the group: more groups than PTX has make its
//! waits wait for more, never for less.
//!
//! **Arrivals.** In each block: a product whose registers another instruction has touched since the last WARPGROUP.ARRIVE gets one of
//! its own. At the start of a block everything counts as touched.
//!
//! **In place.** C of a product is D, unless it starts from zero: selection could not say so before registers were known.
//!
//! Cost: instructions times registers of an instruction, times the number of rounds until ages stay (few: they are at most 8).

use super::warpgroup_operands::release_warpgroup_operands;
use crate::pipeline::{Context, PhaseError};
use crate::tail::returns;
use orias_machine::Machine;
use orias_ori::analysis::{DepthFirst, FlowGraph};
use orias_ori::builder::Cursor;
use orias_ori::{
    Block, Class, Function, Inst, Operand, Operation, PhysReg, Reg, SourceMods, Value,
};
use orias_sass::{Effects, Op, modifier_names as name, modifier_values as value};
use orias_sass::{SlotName, slot_names as slot};

/// Registers of the general file, RZ included.
const COUNT: usize = 256;

/// The age of a register that nobody works on.
const FREE: u8 = u8::MAX;

/// Groups that are older are all alike: no wait can name more.
const OLDEST: u8 = 8;

/// What is known of the registers at one point.
#[derive(Clone, PartialEq)]
struct State {
    /// The age of each accumulator register.
    sums: [u8; COUNT],
    /// The first register and the length of the accumulator it belongs to; zero where ways disagree.
    owners: [(u8, u8); COUNT],
    /// The age of each register that is only read.
    sources: [u8; COUNT],
}

impl State {
    const fn new() -> Self {
        Self {
            sums: [FREE; COUNT],
            owners: [(0, 0); COUNT],
            sources: [FREE; COUNT],
        }
    }

    fn join(&mut self, other: &State) {
        for at in 0..COUNT {
            match (self.sums[at], other.sums[at]) {
                (_, FREE) => {}
                (FREE, age) => {
                    self.sums[at] = age;
                    self.owners[at] = other.owners[at];
                }
                (mine, its) => {
                    self.sums[at] = mine.min(its);
                    if self.owners[at] != other.owners[at] {
                        self.owners[at] = (0, 0);
                    }
                }
            }
            self.sources[at] = self.sources[at].min(other.sources[at]);
        }
    }

    /// At most `groups` are under way.
    fn wait(&mut self, groups: u8) {
        for age in self.sums.iter_mut().chain(&mut self.sources) {
            if *age > groups {
                *age = FREE;
            }
        }
        for (age, owner) in self.sums.iter().zip(&mut self.owners) {
            if *age == FREE {
                *owner = (0, 0);
            }
        }
    }

    /// A group ends.
    fn commit(&mut self) {
        for age in self.sums.iter_mut().chain(&mut self.sources) {
            if *age != FREE {
                *age = (*age + 1).min(OLDEST);
            }
        }
    }
}

/// What a product works on.
struct Product {
    sum: Option<PhysReg>,
    /// What it reads beside the accumulator.
    sources: Vec<PhysReg>,
    ends_group: bool,
}

/// What has to change in front of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    /// At most so many groups may be under way.
    Wait(u8),
    /// The product ends its group.
    EndGroup,
}

/// Runs the phase.
pub fn add_warpgroup_waits(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let products: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| is_product(func, inst))
        .collect();
    if products.is_empty() {
        return Ok(());
    }
    release_warpgroup_operands(func);
    for inst in products {
        put_in_place(func, inst);
    }
    // A group that ends earlier changes ages behind it.
    loop {
        let changes = changes(func);
        let ends: Vec<Inst> = changes
            .iter()
            .filter(|(_, change)| *change == Change::EndGroup)
            .map(|&(inst, _)| inst)
            .collect();
        if ends.is_empty() {
            for (inst, change) in changes {
                if let Change::Wait(groups) = change {
                    wait_before(func, inst, groups)?;
                }
            }
            break;
        }
        for inst in ends {
            end_group(func, inst)?;
        }
    }
    let blocks: Vec<Block> = func.blocks().collect();
    for block in blocks {
        add_arrivals(func, block)?;
    }
    Ok(())
}

pub(crate) fn is_product(func: &Function, inst: Inst) -> bool {
    func.opcode(inst)
        .as_machine()
        .is_some_and(|op| Machine::of(func.target).is_warpgroup_matrix(op))
}

/// The operand of a slot.
pub(super) fn slot_operand(
    func: &Function,
    inst: Inst,
    name: SlotName,
) -> Option<(usize, Operand)> {
    let op = func.opcode(inst).as_machine()?;
    let index = op.row().slot_index(name)?;
    Some((index, *func.operands(inst).get(index)?))
}

/// A general register of an operand.
fn general(reg: Reg) -> Option<PhysReg> {
    reg.phys()
        .filter(|reg| reg.class() == Class::R && !reg.is_constant())
}

/// C becomes D, unless the product starts from zero.
fn put_in_place(func: &mut Function, inst: Inst) {
    let (Some((_, adds)), Some((c, _)), Some((_, d))) = (
        slot_operand(func, inst, slot::P),
        slot_operand(func, inst, slot::C),
        slot_operand(func, inst, slot::D),
    ) else {
        return;
    };
    let from_zero =
        adds.reg().is_some_and(|reg| reg.is_constant()) && adds.mods().contains(SourceMods::NOT);
    if !from_zero {
        func.set_operand(inst, c, d);
    }
}

fn product(func: &Function, inst: Inst) -> Product {
    let register = |name: SlotName| {
        let (_, operand) = slot_operand(func, inst, name)?;
        general(operand.reg()?)
    };
    Product {
        sum: register(slot::D),
        sources: [slot::A, slot::E]
            .into_iter()
            .filter_map(register)
            .collect(),
        ends_group: ends_group(func, inst),
    }
}

/// Whether a group ends with a product.
pub(crate) fn ends_group(func: &Function, inst: Inst) -> bool {
    func.machine_modifier(inst, name::GSB) == Some(value::GSB0)
}

/// What a product writes and reads after it has been issued, on physical registers.
pub(crate) fn product_registers(func: &Function, inst: Inst) -> impl Iterator<Item = PhysReg> {
    let own = product(func, inst);
    own.sum.into_iter().chain(own.sources)
}

/// What a product makes, before allocation.
pub(crate) fn product_sum(func: &Function, inst: Inst) -> Option<Value> {
    slot_operand(func, inst, slot::D)?.1.as_value()
}

/// How many groups a wait leaves under way.
pub(crate) fn waits_for(func: &Function, inst: Inst) -> Option<u8> {
    if func.opcode(inst).as_machine() != Some(Op::WARPGROUP_DEPBAR) {
        return None;
    }
    match slot_operand(func, inst, slot::N) {
        Some((_, Operand::Imm(groups))) => Some(groups.bits() as u8),
        _ => None,
    }
}

/// Everything that has to change.
fn changes(func: &Function) -> Vec<(Inst, Change)> {
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let order: Vec<Block> = walk.postorder().iter().rev().copied().collect();
    let mut starts: Vec<Option<State>> = vec![None; graph.block_count()];
    if let Some(&entry) = order.first() {
        starts[entry.as_u32() as usize] = Some(State::new());
    }
    let mut found = Vec::new();
    let mut again = true;
    while again {
        again = false;
        found.clear();
        for &block in &order {
            let Some(mut state) = starts[block.as_u32() as usize].clone() else {
                continue;
            };
            pass(func, block, &mut state, &mut found);
            for &next in graph.succs(block) {
                let start = &mut starts[next.as_u32() as usize];
                let joined = match start {
                    Some(old) => {
                        let mut joined = old.clone();
                        joined.join(&state);
                        joined
                    }
                    None => state.clone(),
                };
                if start.as_ref() != Some(&joined) {
                    *start = Some(joined);
                    again = true;
                }
            }
        }
    }
    found
}

/// Takes the state from the start of a block to its end, as if what has to change had been changed.
fn pass(func: &Function, block: Block, state: &mut State, found: &mut Vec<(Inst, Change)>) {
    let mut last_product = None;
    for inst in func.block_insts(block) {
        if let Some(groups) = waits_for(func, inst) {
            state.wait(groups);
            continue;
        }
        let own = is_product(func, inst).then(|| product(func, inst));
        if let Some(age) = youngest_touched(func, inst, own.as_ref(), state) {
            if age == 0 {
                // Its group has not ended: the last product before ends it.
                if let Some(product) = last_product
                    && !found.contains(&(product, Change::EndGroup))
                {
                    found.push((product, Change::EndGroup));
                }
                state.commit();
                state.wait(0);
            } else {
                found.push((inst, Change::Wait(age - 1)));
                state.wait(age - 1);
            }
        }
        let Some(own) = own else {
            continue;
        };
        last_product = Some(inst);
        if let Some(sum) = own.sum {
            for unit in sum.units() {
                let at = usize::from(unit.index());
                state.sums[at] = 0;
                state.owners[at] = (sum.index(), sum.len());
            }
        }
        for unit in own.sources.iter().flat_map(|reg| reg.units()) {
            state.sources[usize::from(unit.index())] = 0;
        }
        if own.ends_group {
            state.commit();
        }
    }
}

/// The age of the youngest register under way that `inst` must not touch.
fn youngest_touched(
    func: &Function,
    inst: Inst,
    own: Option<&Product>,
    state: &State,
) -> Option<u8> {
    let mut youngest = FREE;
    let mut touch = |age: u8| youngest = youngest.min(age);
    if let Some(own) = own {
        if let Some(sum) = own.sum {
            for unit in sum.units() {
                let at = usize::from(unit.index());
                if state.owners[at] != (sum.index(), sum.len()) {
                    touch(state.sums[at]);
                }
                touch(state.sources[at]);
            }
        }
        for unit in own.sources.iter().flat_map(|reg| reg.units()) {
            touch(state.sums[usize::from(unit.index())]);
        }
    } else if leaves_function(func, inst) {
        state
            .sums
            .iter()
            .chain(&state.sources)
            .for_each(|&age| touch(age));
    } else {
        func.for_each_use(inst, |reg| {
            for unit in general(reg).into_iter().flat_map(|reg| reg.units()) {
                touch(state.sums[usize::from(unit.index())]);
            }
        });
        func.for_each_def(inst, |reg| {
            for unit in general(reg).into_iter().flat_map(|reg| reg.units()) {
                let at = usize::from(unit.index());
                touch(state.sums[at]);
                touch(state.sources[at]);
            }
        });
    }
    (youngest != FREE).then_some(youngest)
}

/// Whether another function runs behind `inst`, which may move any register, and something of this one, or of its caller, runs afterwards.
fn leaves_function(func: &Function, inst: Inst) -> bool {
    let op = func.opcode(inst).as_machine();
    op.is_some_and(|op| {
        let effects = op.row().effects;
        effects.contains(Effects::RETURN) || effects.contains(Effects::CALL) && returns(func, inst)
    })
}

fn broken(func: &Function, inst: Inst, what: impl ToString) -> PhaseError {
    PhaseError::Broken {
        at: orias_ori::print_inst(func, inst),
        what: what.to_string(),
    }
}

/// Whether lanes that may have parted before the block meet in it, but only behind `inst`.
fn meets_behind(func: &Function, inst: Inst) -> bool {
    let met = |inst: &Inst| {
        let op = func.opcode(*inst).as_machine();
        op == Some(Op::WARPSYNC_ALL) && func.inst(*inst).guard().is_always()
    };
    let before = std::iter::successors(Some(inst), |&at| func.layout.prev_inst(at));
    let behind = std::iter::successors(Some(inst), |&at| func.layout.next_inst(at));
    !before.skip(1).any(|at| met(&at)) && behind.skip(1).any(|at| met(&at))
}

/// Waits before `inst`. All lanes wait together: where they meet behind it, they have to come, so they can meet here.
fn wait_before(func: &mut Function, inst: Inst, groups: u8) -> Result<(), PhaseError> {
    if meets_behind(func, inst) {
        let met = Cursor::before(func, inst)
            .build(Op::WARPSYNC_ALL)
            .operand(PhysReg::PT)
            .finish();
        met.map_err(|error| broken(func, inst, error))?;
    }
    let made = Cursor::before(func, inst)
        .build(Op::WARPGROUP_DEPBAR)
        .modifier(name::LE, value::LE)
        .modifier(name::GSB, value::GSB0)
        .imm(u64::from(groups))
        .finish();
    match made {
        Ok(_) => Ok(()),
        Err(error) => Err(broken(func, inst, error)),
    }
}

/// Makes a product end its group.
fn end_group(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let Operation::Machine(op, mods) = func.inst(inst).operation() else {
        return Ok(());
    };
    let Some(mods) = op.row().with_value(name::GSB, value::GSB0, mods) else {
        return Err(broken(func, inst, "a product that ends no group"));
    };
    let operands = func.operands(inst).to_vec();
    let made = Cursor::before(func, inst)
        .build(op)
        .mods(mods)
        .operands(operands)
        .finish();
    if let Err(error) = made {
        return Err(broken(func, inst, error));
    }
    func.remove_inst(inst);
    Ok(())
}

/// WARPGROUP.ARRIVE where a product takes registers that were touched since the last one.
fn add_arrivals(func: &mut Function, block: Block) -> Result<(), PhaseError> {
    let mut touched = [true; COUNT];
    let insts: Vec<Inst> = func.block_insts(block).collect();
    for inst in insts {
        if func.opcode(inst).as_machine() == Some(Op::WARPGROUP_ARRIVE) {
            touched = [false; COUNT];
            continue;
        }
        if !is_product(func, inst) {
            let mut touch = |reg: Reg| {
                for unit in general(reg).into_iter().flat_map(|reg| reg.units()) {
                    touched[usize::from(unit.index())] = true;
                }
            };
            func.for_each_use(inst, &mut touch);
            func.for_each_def(inst, &mut touch);
            continue;
        }
        let own = product(func, inst);
        let taken = own
            .sum
            .iter()
            .chain(&own.sources)
            .flat_map(|reg| reg.units());
        if taken
            .into_iter()
            .any(|unit| touched[usize::from(unit.index())])
        {
            let made = Cursor::before(func, inst)
                .build(Op::WARPGROUP_ARRIVE)
                .finish();
            if let Err(error) = made {
                return Err(broken(func, inst, error));
            }
            touched = [false; COUNT];
        }
    }
    Ok(())
}
