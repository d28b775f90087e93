//! Machine operations as Ori sees them: the rows of the instruction set, with values in the place of registers.
//!
//! A machine instruction has one operand for each slot of its row, in the row's order. Which encoding form it takes follows
//! from the kinds of its operands when it is encoded; `fit` asks the instruction set whether there is one.

use crate::entity::{Edge, Inst};
use crate::function::Function;
use crate::instruction::Operation;
use crate::operand::{Address, BaseForm, Operand, SourceMods};
use crate::operation::Effects;
use crate::register::{Class, PhysReg, Reg, RegKind};
use orias_sass as sass;

impl From<sass::RegisterClass> for Class {
    fn from(class: sass::RegisterClass) -> Class {
        Class::ALL[class as usize]
    }
}

impl From<Class> for sass::RegisterClass {
    fn from(class: Class) -> sass::RegisterClass {
        sass::RegisterClass::ALL[class as usize]
    }
}

/// The effects of an operation in the words of both families.
pub(crate) fn effects(op: sass::Op) -> Effects {
    /// What each effect of the instruction set means to a phase that moves or removes instructions.
    const MEANING: [(sass::Effects, Effects); 9] = [
        (sass::Effects::CALL, Effects::CALL.with(UPDATES)),
        (sass::Effects::BARRIER, Effects::BARRIER.with(UPDATES)),
        (sass::Effects::CONVERGENT, Effects::CONVERGENT),
        (sass::Effects::FENCE, Effects::BARRIER.with(UPDATES)),
        (sass::Effects::ASYNC, Effects::SIDE),
        (sass::Effects::WAIT, Effects::BARRIER.with(Effects::SIDE)),
        (sass::Effects::VOLATILE, Effects::VARIES),
        (sass::Effects::TRAP, Effects::SIDE),
        (sass::Effects::OTHER, Effects::SIDE),
    ];
    const UPDATES: Effects = Effects::READS.with(Effects::WRITES).with(Effects::SIDE);
    let row = op.row();
    let mut effects = Effects::NONE;
    for (has, means) in MEANING {
        if row.effects.contains(has) {
            effects = effects.with(means);
        }
    }
    for memory in row.memory {
        if memory.reads {
            effects = effects.with(Effects::READS);
        }
        if memory.writes {
            effects = effects.with(Effects::WRITES).with(Effects::SIDE);
        }
    }
    if ends_block(op) {
        effects = effects.with(Effects::TERMINATOR).with(Effects::SIDE);
    }
    effects
}

/// Whether a block ends with the operation: where control goes on is then said by the instruction's edges.
pub fn ends_block(op: sass::Op) -> bool {
    op.row().effects.contains(sass::Effects::TERMINATOR)
}

/// Whether the operation goes on elsewhere in the function.
pub fn jumps(op: sass::Op) -> bool {
    ends_block(op) && op.row().effects.contains(sass::Effects::BRANCH)
}

/// Whether the operand in `slot` is where the operation jumps. (The address an indirect branch is relative to has a
/// default and is no target.)
pub fn is_jump_slot(op: sass::Op, slot: usize) -> bool {
    jumps(op) && takes_target(op, slot) && op.row().slots[slot].default.is_none()
}

/// How many registers the operand in `slot` names under `mods`.
pub fn slot_width(op: sass::Op, mods: sass::Mods, slot: usize) -> u8 {
    let row = op.row();
    match row.slots[slot].width {
        sass::Width::Fixed(width) => width,
        sass::Width::Rules(rules) => rules
            .iter()
            .find(|rule| {
                rule.when.iter().all(|&(modifier, values)| {
                    let value = mods.get(&row.modifiers[usize::from(modifier)]);
                    value < 64 && values >> value & 1 == 1
                })
            })
            .map_or(1, |rule| rule.registers),
    }
}

/// The edges a machine terminator has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdgeRule {
    /// Jump targets written among the operands.
    pub targets: usize,
    /// Whether the other targets are listed: an indirect branch.
    pub indirect: bool,
    /// Whether the last edge is where it goes on if it does not jump.
    pub falls: Falls,
}

/// Whether an instruction may go on with the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Falls {
    /// It leaves for good.
    Never,
    /// It jumps, unless its modifiers make it a branch that looks at the lanes.
    Maybe,
    /// It has a guard or another condition.
    Yes,
}

impl EdgeRule {
    /// Whether an instruction may have so many edges.
    pub fn allows(self, count: usize) -> bool {
        let (least, most) = match self.falls {
            Falls::Never => (0, 0),
            Falls::Maybe => (0, 1),
            Falls::Yes => (1, 1),
        };
        if self.indirect {
            count > least
        } else {
            (self.targets + least..=self.targets + most).contains(&count)
        }
    }
}

impl Function {
    /// The edges machine instruction `inst` needs.
    pub fn machine_edges(&self, inst: Inst, op: sass::Op) -> EdgeRule {
        let operands = self.operands(inst);
        let targets = operands
            .iter()
            .filter(|operand| matches!(operand, Operand::Edge(_)))
            .count();
        // A predicate among the sources is a second condition.
        let condition = operands.iter().enumerate().any(|(index, operand)| {
            self.is_use(inst, index)
                && operand.reg().is_some_and(|reg| {
                    self.reg_type(reg).class().is_predicate()
                        && (!reg.is_constant() || operand.mods().contains(SourceMods::NOT))
                })
        });
        EdgeRule {
            targets,
            indirect: jumps(op) && targets == 0,
            falls: if condition || !self.inst(inst).guard().is_always() {
                Falls::Yes
            } else if jumps(op) {
                Falls::Maybe
            } else {
                Falls::Never
            },
        }
    }

    /// Where control goes on after a machine terminator that does not jump: its last edge, where that is no jump target.
    pub(crate) fn machine_fall_through(&self, inst: Inst, op: sass::Op) -> Option<Edge> {
        let rule = self.machine_edges(inst, op);
        let edges = self.edges(inst);
        let falls = match rule.falls {
            Falls::Never => false,
            Falls::Maybe => !rule.indirect && edges.len() > rule.targets,
            Falls::Yes => true,
        };
        edges.last().copied().filter(|_| falls)
    }
}

/// The edge along which machine instruction `inst` goes on with the next instruction, if it may.
pub fn falls_through(func: &Function, inst: Inst) -> Option<Edge> {
    let op = func.opcode(inst).as_machine()?;
    func.machine_fall_through(inst, op)
}

/// Finds the form of machine instruction `inst` on `target`, with registers of the right class in the place of values, zero in
/// the place of names and of distances.
///
/// This is how builder and verifier learn whether operand kinds, modifiers and ranges are ones the machine has.
pub(crate) fn fit(
    func: &Function,
    inst: Inst,
    op: sass::Op,
    mods: sass::Mods,
    target: sass::Target,
) -> Result<sass::Variant, sass::EncodeError> {
    let guard = guard_of(func, inst, op);
    let operands = without_place(func, op, func.operands(inst));
    sass::Variant::find(op, guard, mods, &operands, target)
}

/// The instruction of the instruction set that machine instruction `inst` stands for, with register 0 of its class in the
/// place of each value. What only its place in the code tells (the distance to a block, the address of a name) is asked of
/// `resolve`, with the slot: operands of the kinds `Edge`, `Block` and `Symbol`, and memory operands with a name, whose offset
/// it gives as an immediate.
///
/// `None` if `inst` is abstract. The control field is the instruction's, reuse flags included; the default without one.
pub fn instruction(
    func: &Function,
    inst: Inst,
    target: sass::Target,
    resolve: &mut dyn FnMut(usize, Operand) -> sass::Operand,
) -> Option<Result<sass::Instruction, sass::EncodeError>> {
    let Operation::Machine(op, mods) = func.inst(inst).operation() else {
        return None;
    };
    Some(
        encoded(func, inst, op, mods, target, resolve).and_then(|mut instruction| {
            instruction.control = control_field(func, inst, &instruction)?;
            Ok(instruction)
        }),
    )
}

/// The instruction that `inst` stands for, as [`instruction`] gives it, with zero for every name and distance: enough to ask
/// what it reads and writes.
pub fn placeless(
    func: &Function,
    inst: Inst,
    target: sass::Target,
) -> Option<Result<sass::Instruction, sass::EncodeError>> {
    let op = func.opcode(inst).as_machine()?;
    instruction(func, inst, target, &mut |slot, operand| {
        zero(op, slot, operand)
    })
}

/// The control field of `inst`: its control word, and the reuse flags that stand on its operands.
fn control_field(
    func: &Function,
    inst: Inst,
    instruction: &sass::Instruction,
) -> Result<sass::Control, sass::ControlError> {
    let word = func.inst(inst).control();
    if !word.is_some() {
        return Ok(sass::Control::default());
    }
    let mut reuse = 0;
    for (operand, place) in func
        .operands(inst)
        .iter()
        .zip(instruction.form().places)
        .filter(|(operand, place)| {
            operand.mods().contains(SourceMods::REUSE) && place.reuse.exists()
        })
    {
        debug_assert!(operand.reg().is_some());
        reuse |= 1 << (place.reuse.0 - REUSE_BIT);
    }
    let field = word.field()?;
    Ok(field.with_reuse(reuse).unwrap_or(field))
}

/// The first of the bits that hold the reuse flags.
const REUSE_BIT: u8 = 122;

/// Zero in the place of a name or distance.
fn zero(op: sass::Op, slot: usize, operand: Operand) -> sass::Operand {
    match operand {
        // A name stands for an immediate in most places and for a code address in a call.
        Operand::Symbol { .. } if !takes_target(op, slot) => sass::Operand::Immediate(0),
        Operand::Address(_) => sass::Operand::Immediate(0),
        _ => sass::Operand::Target(0),
    }
}

fn encoded(
    func: &Function,
    inst: Inst,
    op: sass::Op,
    mods: sass::Mods,
    target: sass::Target,
    resolve: &mut dyn FnMut(usize, Operand) -> sass::Operand,
) -> Result<sass::Instruction, sass::EncodeError> {
    let guard = guard_of(func, inst, op);
    let mut operands = sass::Operands::new();
    for (slot, &operand) in func.operands(inst).iter().enumerate() {
        operands.push(stand_in_operand(func, op, slot, operand, resolve));
    }
    sass::Instruction::with_operands(op, guard, mods, operands, target)
}

fn guard_of(func: &Function, inst: Inst, op: sass::Op) -> sass::Guard {
    let guard = func.inst(inst).guard();
    match guard.reg() {
        Some(reg) => sass::Guard {
            predicate: stand_in(func, reg),
            negated: guard.is_negated(),
        },
        None => sass::Guard::always(op.row().guard),
    }
}

/// Operands as the instruction set has them, with zero for every name and distance.
fn without_place(func: &Function, op: sass::Op, operands: &[Operand]) -> sass::Operands {
    let resolve = &mut |slot, operand| zero(op, slot, operand);
    let mut converted = sass::Operands::new();
    for (slot, &operand) in operands.iter().enumerate() {
        converted.push(stand_in_operand(func, op, slot, operand, resolve));
    }
    converted
}

/// Whether machine operation `op` has an encoding on `target` with these modifiers and operands and without a guard, values
/// standing for some register of their class: which form it is. The error names the slot that is in the way.
pub fn check_operands(
    func: &Function,
    op: sass::Op,
    mods: sass::Mods,
    operands: &[Operand],
    target: sass::Target,
) -> Result<sass::Variant, sass::EncodeError> {
    let guard = sass::Guard::always(op.row().guard);
    let operands = without_place(func, op, operands);
    sass::Variant::find(op, guard, mods, &operands, target)
}

#[inline]
fn stand_in(func: &Function, reg: Reg) -> sass::Register {
    match reg.kind() {
        RegKind::Value(value) => sass::Register::new(func.value_type(value).class().into(), 0),
        RegKind::Phys(reg) => sass::Register::new(reg.class().into(), reg.index()),
    }
}

#[inline]
fn stand_in_operand(
    func: &Function,
    op: sass::Op,
    slot: usize,
    operand: Operand,
    resolve: &mut dyn FnMut(usize, Operand) -> sass::Operand,
) -> sass::Operand {
    let modifiers = |mods: SourceMods| sass::SourceModifiers {
        negate: mods.contains(SourceMods::NEGATE),
        absolute: mods.contains(SourceMods::ABSOLUTE),
        invert: mods.contains(SourceMods::NOT),
        select: mods.select(),
    };
    match operand {
        Operand::Reg { reg, mods } => sass::Operand::Register(sass::RegisterOperand {
            register: stand_in(func, reg),
            modifiers: modifiers(mods),
        }),
        Operand::Imm(imm) => sass::Operand::Immediate(imm.bits()),
        Operand::Const {
            mods,
            bank,
            offset,
            index,
        } => sass::Operand::Constant(sass::Constant {
            bank: sass::ConstantBank::Index(bank),
            index: index.get().map(|reg| stand_in(func, reg)),
            offset,
            modifiers: modifiers(mods),
        }),
        Operand::Bindless {
            mods,
            descriptor,
            offset,
        } => sass::Operand::Constant(sass::Constant {
            bank: sass::ConstantBank::Bindless(stand_in(func, descriptor)),
            index: None,
            offset,
            modifiers: modifiers(mods),
        }),
        Operand::Address(id) => {
            let mut address = stand_in_address(func, func.address(id));
            if func.address(id).symbol.is_some()
                && let sass::Operand::Immediate(offset) = resolve(slot, operand)
            {
                address.offset = offset as i32;
            }
            sass::Operand::Address(address)
        }
        Operand::Descriptor(reg) => sass::Operand::Descriptor(stand_in(func, reg)),
        Operand::Special(number) => sass::Operand::Special(number),
        Operand::Symbol { .. } if let Some(place) = only_constant(op, slot) => {
            resolve(slot, operand);
            sass::Operand::Constant(sass::Constant {
                bank: sass::ConstantBank::Index(0),
                index: place.index.map(|_| stand_in(func, PhysReg::RZ.into())),
                offset: 0,
                modifiers: sass::SourceModifiers::default(),
            })
        }
        Operand::Edge(_) | Operand::Block(_) | Operand::Symbol { .. } => resolve(slot, operand),
        // Left out: the constant register of whatever class the slot has.
        Operand::None => op.row().slots[slot]
            .default_operand()
            .unwrap_or(sass::Operand::Immediate(0)),
    }
}

/// What a slot takes of constant banks, if it takes nothing else.
fn only_constant(op: sass::Op, slot: usize) -> Option<sass::ConstantPlace> {
    let mut places = op.row().forms.iter().map(|form| form.places.get(slot));
    let first = match places.next()?.map(|place| place.kind) {
        Some(sass::PlaceKind::Constant(first)) => first,
        _ => return None,
    };
    let constant = |place: Option<&sass::Place>| {
        place.is_some_and(|place| matches!(place.kind, sass::PlaceKind::Constant(_)))
    };
    places.all(constant).then_some(first)
}

/// Whether some form has a code address in `slot`.
pub fn takes_target(op: sass::Op, slot: usize) -> bool {
    op.row().forms.iter().any(|form| {
        form.places
            .get(slot)
            .is_some_and(|place| matches!(place.kind, sass::PlaceKind::Target { .. }))
    })
}

fn stand_in_address(func: &Function, address: &Address) -> sass::Address {
    let part = |reg: crate::register::OptReg| reg.get().map(|reg| stand_in(func, reg));
    sass::Address {
        base: part(address.base),
        kind: match address.form {
            BaseForm::Plain => sass::BaseKind::Plain,
            BaseForm::Wide => sass::BaseKind::Wide,
            BaseForm::Unsigned => sass::BaseKind::Zero,
        },
        uniform: part(address.uniform),
        descriptor: part(address.descriptor),
        offset: address.offset,
    }
}

/// The registers a machine operation touches without naming them.
pub(crate) fn implicit(
    op: sass::Op,
    wanted: fn(sass::Access) -> bool,
) -> impl Iterator<Item = Reg> {
    op.row()
        .implicit
        .iter()
        .filter(move |implicit| wanted(implicit.access))
        .filter_map(|implicit| {
            let class = Class::from(implicit.register.class);
            PhysReg::tuple(class, implicit.register.index, implicit.count).map(Reg::from)
        })
}

/// The guard class an operation takes, or none.
pub fn guard_class(op: sass::Op) -> Option<Class> {
    match op.row().guard {
        sass::GuardRule::Predicate => Some(Class::P),
        sass::GuardRule::Uniform => Some(Class::UP),
        sass::GuardRule::None => None,
    }
}
