//! Translation validation: a proof that an allocation means what the code before it meant.
//!
//! The checker runs the allocated code on symbols. A register holds a set of names, each standing for one register of one
//! value of the code before; an instruction that was there before must find the names it reads in the registers it reads,
//! and puts the names it defines into the registers it writes. Copies, stores to the frame and loads from it carry names
//! along; where ways meet, a register keeps the names it has on all of them. The checker knows nothing of how the allocator
//! decides: only the code before, the code after, and what the instructions that were added do.
//!
//! Values with equal contents have one name: a part has the name of its place in the tuple, a copy that of its source, and
//! two instructions without inputs that compute the same thing define the same name. An instruction that is
//! run again defines the names that the original makes of what it reads now.
//!
//! Where the kernel gives registers back, their names are lost, and nobody names one that its warp may not have ([`counts`], asked where the counts stay).
//!
//! **Algorithm.** Forward dataflow over sets that only shrink, blocks in reverse postorder until nothing changes.

mod counts;
mod naming;
mod uniform;

pub(super) use counts::are_kept as counts_are_kept;

use super::calls::{self, is_call};
use crate::pipeline::PhaseError;
use cranelift_entity::EntityRef;
use naming::{Naming, inputs, is_computed, results};
use orias_machine::Machine;
use orias_ori::analysis::{DepthFirst, FlowGraph};
use orias_ori::{
    AbstractOp, Address, Block, Class, Function, Guard, Inst, Opcode, Operand, PhysReg, Reg,
    RegKind, SourceMods, Value, print_inst,
};
use orias_sass::{Op, modifier_names as name, modifier_values as value};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// One register of a value of the code before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Name {
    /// A register of a value.
    Part(Value, u8),
    /// A predicate or uniform register as a general register holds it.
    Kept(Value, u8),
    /// The constant register of a class: zero or true.
    Constant(Class),
}

/// Where names are: registers and words of the frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Place {
    Register(Class, u8),
    Frame(u32),
}

type Names = BTreeSet<Name>;

/// What is known at a point.
#[derive(Clone, Default, Debug)]
struct State {
    held: FxHashMap<Place, Names>,
    /// Names of parameters whose argument nobody defined: any contents will do.
    anywhere: Names,
}

impl State {
    /// All names that may be read at `place`.
    fn names(&self, place: Place) -> Names {
        let mut names = self.held.get(&place).cloned().unwrap_or_default();
        names.extend(&self.anywhere);
        names
    }

    fn holds(&self, place: Place, name: Name) -> bool {
        self.anywhere.contains(&name)
            || self
                .held
                .get(&place)
                .is_some_and(|names| names.contains(&name))
    }

    /// Takes away every name of `value`.
    fn forget(&mut self, value: Value) {
        let is_other =
            |name: &Name| !matches!(name, Name::Part(of, _) | Name::Kept(of, _) if *of == value);
        for names in self.held.values_mut() {
            names.retain(is_other);
        }
        self.anywhere.retain(is_other);
    }

    /// Keeps what both have; whether anything was lost.
    fn meet(&mut self, other: &State) -> bool {
        let mut changed = false;
        self.held.retain(|&place, names| {
            let count = names.len();
            names.retain(|&name| other.holds(place, name));
            changed |= names.len() != count;
            !names.is_empty()
        });
        let lost: Vec<Name> = self.anywhere.difference(&other.anywhere).copied().collect();
        for name in lost {
            self.anywhere.remove(&name);
            changed = true;
            for (&place, names) in &other.held {
                if names.contains(&name) {
                    self.held.entry(place).or_default().insert(name);
                }
            }
        }
        changed
    }
}

/// Checks `after`, the allocated form of `before` with its parallel copies still in place.
pub(super) fn check_allocation(before: &Function, after: &Function) -> Result<(), PhaseError> {
    let mut checker = Checker {
        before,
        after,
        names: Naming::new(before),
    };
    checker.same_code()?;
    let graph = FlowGraph::of(after);
    let walk = DepthFirst::new(&graph);
    uniform::keeps_what_others_read(before, after)?;
    let order: Vec<Block> = walk.reverse_postorder().collect();
    let mut starts: FxHashMap<Block, State> = FxHashMap::default();
    if let Some(entry) = after.entry() {
        starts.insert(entry, State::default());
    }
    // The edge each new block is on, as the block it leaves and its number there.
    let mut on_edge: FxHashMap<Block, (Block, usize)> = FxHashMap::default();
    let mut changed = true;
    while changed {
        changed = false;
        for &block in &order {
            let Some(mut state) = starts.get(&block).cloned() else {
                continue;
            };
            for inst in after.block_insts(block) {
                checker.step(&mut state, inst, None)?;
            }
            for (index, &edge) in after.successor_edges(block).iter().enumerate() {
                let target = after.edge_target(edge);
                // Behind a block made for an edge, arguments become parameters where that block ends.
                let old = (block.index() < before.block_count()).then_some((block, index));
                let along = if target.index() >= before.block_count() {
                    on_edge.extend(old.map(|edge| (target, edge)));
                    state.clone()
                } else {
                    match old.or_else(|| on_edge.get(&block).copied()) {
                        Some((from, index)) => checker.along_edge(&state, from, index),
                        None => state.clone(),
                    }
                };
                match starts.get_mut(&target) {
                    None => {
                        starts.insert(target, along);
                        changed = true;
                    }
                    Some(known) => changed |= known.meet(&along),
                }
            }
        }
    }
    for &block in &order {
        let Some(mut state) = starts.get(&block).cloned() else {
            continue;
        };
        for inst in after.block_insts(block) {
            checker.step(&mut state, inst, Some(block))?;
        }
    }
    Ok(())
}

struct Checker<'a> {
    before: &'a Function,
    after: &'a Function,
    names: Naming,
}

impl Checker<'_> {
    fn wrong(&self, inst: Inst, what: String) -> PhaseError {
        PhaseError::Broken {
            at: print_inst(self.after, inst),
            what,
        }
    }

    /// Whether `inst` was there before.
    fn is_old(&self, inst: Inst) -> bool {
        inst.index() < self.before.inst_count()
    }

    /// Every instruction is still where it was, and nothing of it but registers has changed.
    fn same_code(&mut self) -> Result<(), PhaseError> {
        for block in self.before.blocks() {
            let old = self.before.block_insts(block).filter(|&inst| {
                !matches!(
                    self.before.opcode(inst),
                    Opcode::Abstract(
                        AbstractOp::Undef
                            | AbstractOp::Collect
                            | AbstractOp::Split
                            | AbstractOp::ParCopy
                    )
                ) && !self.may_go(inst)
            });
            let new = self
                .after
                .block_insts(block)
                .filter(|&inst| self.is_old(inst) && !self.may_go(inst));
            if !old.clone().eq(new.clone()) {
                return Err(PhaseError::Broken {
                    at: block.to_string(),
                    what: "allocation lost, moved or doubled an instruction".to_owned(),
                });
            }
            for inst in old {
                self.same_inst(inst)?;
            }
            for inst in self.after.block_insts(block) {
                if self.is_old(inst) && is_computed(self.before, inst) {
                    self.same_inst(inst)?;
                }
            }
        }
        Ok(())
    }

    /// Whether `inst`, of the code before, may be gone, because it is run again where its result is needed.
    fn may_go(&self, inst: Inst) -> bool {
        self.names.is_repeatable(self.before, inst) || is_computed(self.before, inst)
    }

    fn same_inst(&self, inst: Inst) -> Result<(), PhaseError> {
        let (before, after) = (self.before, self.after);
        let same_guard =
            before.inst(inst).guard().is_negated() == after.inst(inst).guard().is_negated();
        let operands = before.operands(inst).len() == after.operands(inst).len()
            && before
                .operands(inst)
                .iter()
                .zip(after.operands(inst))
                .all(|(&one, &other)| self.shape(before, one) == self.shape(after, other));
        let edges = before.edges(inst).len() == after.edges(inst).len();
        if before.inst(inst).operation() == after.inst(inst).operation()
            && same_guard
            && operands
            && edges
        {
            Ok(())
        } else {
            Err(self.wrong(inst, format!("was {}", print_inst(before, inst))))
        }
    }

    /// An operand without its registers.
    fn shape(&self, func: &Function, operand: Operand) -> (Operand, Option<Address>) {
        let nowhere = |_: Reg| Reg::from(PhysReg::RZ);
        let operand_class =
            |reg: Reg| Reg::from(func.reg_type(reg).class().constant().unwrap_or(PhysReg::RZ));
        match operand {
            Operand::Reg { reg, mods } => (
                Operand::Reg {
                    reg: operand_class(reg),
                    mods,
                },
                None,
            ),
            Operand::Const {
                mods,
                bank,
                offset,
                index,
            } => (
                Operand::Const {
                    mods,
                    bank,
                    offset,
                    index: index.get().map(nowhere).into(),
                },
                None,
            ),
            Operand::Bindless { mods, offset, .. } => (
                Operand::Bindless {
                    mods,
                    descriptor: Reg::from(PhysReg::URZ),
                    offset,
                },
                None,
            ),
            Operand::Descriptor(_) => (Operand::Descriptor(Reg::from(PhysReg::URZ)), None),
            Operand::Address(id) => {
                let mut address = *func.address(id);
                for reg in [
                    &mut address.base,
                    &mut address.uniform,
                    &mut address.descriptor,
                ] {
                    *reg = reg.get().map(nowhere).into();
                }
                (Operand::None, Some(address))
            }
            other => (other, None),
        }
    }

    /// Runs `inst` on `state`; reports what is wrong if `report` says where.
    fn step(
        &mut self,
        state: &mut State,
        inst: Inst,
        report: Option<Block>,
    ) -> Result<(), PhaseError> {
        if self.is_old(inst) && !self.names.is_repeatable(self.before, inst) {
            return self.old(state, inst, report);
        }
        match self.after.opcode(inst) {
            Opcode::Abstract(AbstractOp::ParCopy) => {
                let (to, from) = self
                    .after
                    .operands(inst)
                    .split_at(self.after.result_count(inst));
                let pairs: Vec<(PhysReg, PhysReg)> = to
                    .iter()
                    .zip(from)
                    .filter_map(|(to, from)| Some((to.reg()?.phys()?, from.reg()?.phys()?)))
                    .collect();
                if pairs.len() != to.len() {
                    return Err(self.wrong(inst, "copies something that is no register".into()));
                }
                self.copy(state, &pairs);
                Ok(())
            }
            Opcode::Abstract(AbstractOp::FallThrough) => Ok(()),
            _ => self.added(state, inst),
        }
    }

    fn copy(&self, state: &mut State, pairs: &[(PhysReg, PhysReg)]) {
        let mut found: Vec<(Place, Names)> = Vec::new();
        for &(to, from) in pairs {
            for (offset, unit) in to.units().enumerate() {
                let names = if from.is_constant() {
                    Names::from([Name::Constant(from.class())])
                } else {
                    let at = Place::Register(from.class(), from.index() + offset as u8);
                    state.names(at)
                };
                found.push((Place::Register(unit.class(), unit.index()), names));
            }
        }
        state.held.extend(found);
    }

    /// An instruction the allocator added: one of those that spill and load, or one run again.
    fn added(&mut self, state: &mut State, inst: Inst) -> Result<(), PhaseError> {
        let after = self.after;
        let operands = after.operands(inst).to_vec();
        let op = after.opcode(inst).as_machine();
        let reg = |index: usize| operands.get(index).and_then(|o| o.reg()?.phys());
        let frame = |index: usize| match operands.get(index) {
            Some(Operand::Address(id)) => {
                let address = after.address(*id);
                let base = address.base.get().and_then(Reg::phys);
                (base.is_some_and(|base| {
                    base.index() == Machine::of(after.target).abi.stack_pointer
                }) && address.uniform.get().is_none())
                .then_some(address.offset as u32)
            }
            _ => None,
        };
        let held =
            |state: &State, class: Class, unit: u8| state.names(Place::Register(class, unit));
        let wrap = |names: Names| -> Names {
            names
                .into_iter()
                .filter_map(|name| match name {
                    Name::Part(value, unit) => Some(Name::Kept(value, unit)),
                    Name::Kept(..) | Name::Constant(_) => None,
                })
                .collect()
        };
        let unwrap = |names: Names| -> Names {
            names
                .into_iter()
                .filter_map(|name| match name {
                    Name::Kept(value, unit) => Some(Name::Part(value, unit)),
                    Name::Part(..) | Name::Constant(_) => None,
                })
                .collect()
        };
        let always = after.inst(inst).guard() == Guard::ALWAYS;
        match op {
            Some(Op::STL) if always && let (Some(at), Some(from)) = (frame(0), reg(1)) => {
                for (offset, unit) in from.units().enumerate() {
                    let names = held(state, Class::R, unit.index());
                    state
                        .held
                        .insert(Place::Frame(at + offset as u32 * 4), names);
                }
            }
            Some(Op::LDL) if always && let (Some(to), Some(at)) = (reg(0), frame(1)) => {
                for (offset, unit) in to.units().enumerate() {
                    let names = state.names(Place::Frame(at + offset as u32 * 4));
                    state
                        .held
                        .insert(Place::Register(Class::R, unit.index()), names);
                }
            }
            Some(Op::SEL)
                if always
                    && let (Some(to), Some(PhysReg::RZ), Some(Operand::Imm(one)), Some(from)) =
                        (reg(0), reg(1), operands.get(2), reg(3))
                    && one.bits() == 1
                    && operands[3].mods() == SourceMods::NOT =>
            {
                let names = wrap(held(state, Class::P, from.index()));
                state
                    .held
                    .insert(Place::Register(Class::R, to.index()), names);
            }
            Some(Op::ISETP)
                if always
                    && let (Some(to), Some(PhysReg::PT), Some(from), Some(PhysReg::RZ)) =
                        (reg(0), reg(1), reg(2), reg(3))
                    && !from.is_constant()
                    && after.machine_modifier(inst, name::CMP) == Some(value::NE) =>
            {
                // A comparison with zero that is made again looks the same.
                let compared = held(state, Class::R, from.index());
                let derived = self
                    .names
                    .derived(after, inst, std::slice::from_ref(&compared));
                let mut names = derived.into_iter().next().unwrap_or_default();
                names.extend(unwrap(compared));
                state
                    .held
                    .insert(Place::Register(Class::P, to.index()), names);
            }
            Some(Op::MOV)
                if always
                    && let (Some(to), Some(from)) = (reg(0), reg(1))
                    && from.class() == Class::UR =>
            {
                let names = wrap(held(state, Class::UR, from.index()));
                state
                    .held
                    .insert(Place::Register(Class::R, to.index()), names);
            }
            Some(Op::R2UR) if always && let (Some(to), Some(from)) = (reg(1), reg(2)) => {
                let names = unwrap(held(state, Class::R, from.index()));
                state
                    .held
                    .insert(Place::Register(Class::UR, to.index()), names);
            }
            _ if is_computed(after, inst) => {
                let units = |regs: Vec<Reg>| -> Vec<PhysReg> {
                    let regs = regs.into_iter().filter_map(Reg::phys);
                    regs.flat_map(PhysReg::units).collect()
                };
                let read = units(inputs(after, inst)).into_iter();
                let read: Vec<Names> = read
                    .map(|unit| held(state, unit.class(), unit.index()))
                    .collect();
                let derived = self.names.derived(after, inst, &read);
                if derived.is_empty() {
                    return Err(self.wrong(inst, "rematerialised from something else".into()));
                }
                for (unit, names) in units(results(after, inst)).into_iter().zip(derived) {
                    let place = Place::Register(unit.class(), unit.index());
                    state.held.insert(place, names);
                }
            }
            _ => {
                let Some(value) = self.names.repeated(after, inst) else {
                    return Err(self.wrong(inst, "added for no known reason".into()));
                };
                let results: Vec<PhysReg> = after.defs(inst).filter_map(Reg::phys).collect();
                for (offset, unit) in results.into_iter().flat_map(PhysReg::units).enumerate() {
                    let place = Place::Register(unit.class(), unit.index());
                    state
                        .held
                        .insert(place, Names::from([Name::Part(value, offset as u8)]));
                }
            }
        }
        Ok(())
    }

    /// An instruction that was there before.
    fn old(
        &mut self,
        state: &mut State,
        inst: Inst,
        report: Option<Block>,
    ) -> Result<(), PhaseError> {
        let (before, after) = (self.before, self.after);
        if report.is_some() {
            let mut reads: Vec<(Reg, Reg)> = Vec::new();
            if let (Some(one), Some(other)) = (
                before.inst(inst).guard().reg(),
                after.inst(inst).guard().reg(),
            ) {
                reads.push((one, other));
            }
            for (index, (&one, &other)) in before
                .operands(inst)
                .iter()
                .zip(after.operands(inst))
                .enumerate()
            {
                let defines = before.is_def(inst, index) && one.as_value().is_some();
                if before.is_use(inst, index) && !defines {
                    reads.extend(before.operand_regs(one).zip(after.operand_regs(other)));
                }
            }
            let places = before.kept_places(inst).zip(before.kept(inst));
            for (place, kept) in places {
                if let (Some(kept), Some(reg)) = (kept.reg(), after.operands(inst)[place].reg()) {
                    reads.push((kept, reg));
                }
            }
            for (reg, place) in reads {
                self.reads(state, inst, reg, place)?;
            }
        }
        if is_call(after, inst) {
            self.called(state, inst)?;
        }
        if let Some(first) = counts::lost(after, inst) {
            state.held.retain(|place, _| match *place {
                Place::Register(Class::R, unit) => u32::from(unit) < first,
                Place::Register(..) | Place::Frame(_) => true,
            });
        }
        let mut defined: Vec<(Value, PhysReg)> = Vec::new();
        for (one, other) in before
            .operands(inst)
            .iter()
            .zip(after.operands(inst))
            .enumerate()
            .filter_map(|(index, pair)| before.is_def(inst, index).then_some(pair))
        {
            if let (Some(value), Some(reg)) = (one.as_value(), other.reg().and_then(Reg::phys)) {
                defined.push((value, reg));
            }
        }
        // A new value: what had its name is an older one, from the last time round.
        for &(value, _) in &defined {
            state.forget(value);
        }
        for reg in after.defs(inst).filter_map(Reg::phys) {
            for unit in reg.units() {
                state
                    .held
                    .remove(&Place::Register(unit.class(), unit.index()));
            }
        }
        for (value, reg) in defined {
            for (offset, unit) in reg.units().enumerate() {
                if let Some(name) = self.names.name(value, offset as u8) {
                    let place = Place::Register(unit.class(), unit.index());
                    state.held.insert(place, Names::from([name]));
                }
            }
        }
        Ok(())
    }

    /// A call finds everything where the ABI says, and leaves nothing in the registers it may change.
    fn called(&self, state: &mut State, inst: Inst) -> Result<(), PhaseError> {
        for (index, place) in calls::places(self.before, inst)? {
            let found = self.after.operands(inst)[index];
            if found.reg() != Some(Reg::from(place)) {
                return Err(self.wrong(inst, format!("operand {index} belongs into {place}")));
            }
        }
        let convention = calls::convention(self.before, inst);
        state.held.retain(|place, _| match *place {
            Place::Register(class, unit) => convention.is_preserved(class.into(), unit),
            Place::Frame(_) => true,
        });
        Ok(())
    }

    fn reads(&self, state: &State, inst: Inst, reg: Reg, place: Reg) -> Result<(), PhaseError> {
        let RegKind::Value(value) = reg.kind() else {
            return if reg == place {
                Ok(())
            } else {
                Err(self.wrong(inst, format!("reads {place}, not {reg}")))
            };
        };
        let Some(place) = place.phys() else {
            return Err(self.wrong(inst, format!("{value} was given no register")));
        };
        let ty = self.before.value_type(value);
        for offset in 0..ty.len() {
            let Some(name) = self.names.name(value, offset) else {
                continue;
            };
            let found = if place.is_constant() {
                name == Name::Constant(ty.class())
            } else {
                let at = Place::Register(place.class(), place.index() + offset);
                state.holds(at, name)
            };
            if !found {
                let what = format!("{place} does not hold {value} ({name:?})");
                return Err(self.wrong(inst, what));
            }
        }
        if !place.is_constant() && (place.class() != ty.class() || place.len() != ty.len()) {
            return Err(self.wrong(inst, format!("{place} is no place for a {ty}")));
        }
        Ok(())
    }

    /// The state behind edge `index` of `block`: arguments are parameters from here on.
    fn along_edge(&self, state: &State, block: Block, index: usize) -> State {
        let mut along = state.clone();
        let Some(&edge) = self.before.successor_edges(block).get(index) else {
            return along;
        };
        let target = self.before.edge_target(edge);
        let params = self.before.block_params(target);
        let args = self.before.edge_args(edge);
        let mut gained: Vec<(Place, Name)> = Vec::new();
        for (place, names) in &state.held {
            for (&param, &arg) in params.iter().zip(args) {
                for unit in 0..self.before.value_type(param).len() {
                    let name = self.names.name(arg, unit);
                    if name.is_some_and(|name| names.contains(&name)) {
                        gained.push((*place, Name::Part(param, unit)));
                    }
                    if let Some(Name::Part(of, part)) = name
                        && names.contains(&Name::Kept(of, part))
                    {
                        gained.push((*place, Name::Kept(param, unit)));
                    }
                }
            }
        }
        for &param in params {
            along.forget(param);
        }
        for (place, name) in gained {
            along.held.entry(place).or_default().insert(name);
        }
        for (&param, &arg) in params.iter().zip(args) {
            for unit in 0..self.before.value_type(param).len() {
                let undefined = match self.names.name(arg, unit) {
                    None => true,
                    Some(name) => state.anywhere.contains(&name),
                };
                if undefined {
                    along.anywhere.insert(Name::Part(param, unit));
                }
            }
        }
        along
    }
}
