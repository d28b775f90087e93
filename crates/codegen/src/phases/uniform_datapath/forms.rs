//! Which instructions of general registers the uniform datapath does, too.
//!
//! Rows of both name their slots and modifiers alike, so a pair of names is all there is to say. Operands that a uniform form does not take (constants of a bank, second numbers) go through a
//! uniform register.

use super::{Root, uniform_class};
use orias_ori::machine::check_operands;
use orias_ori::{AbstractOp, Class, Function, Inst, Opcode, Operand, Operation, Type};
use orias_sass::{Mods, Op, Target, modifier_names as name, modifier_values as value};
use orias_sass::{SlotName, slot_names as slot};

/// Operations of general registers and those of uniform ones that compute the same.
const FORMS: &[(Op, Op)] = &[
    (Op::IADD3, Op::UIADD3),
    (Op::IADD3_X, Op::UIADD3_X),
    (Op::IMAD, Op::UIMAD),
    (Op::IMAD_X, Op::UIMAD_X),
    (Op::IMAD_WIDE, Op::UIMAD_WIDE),
    (Op::LOP3, Op::ULOP3),
    (Op::LEA, Op::ULEA),
    (Op::LEA_X, Op::ULEA_X),
    (Op::LEA_HI, Op::ULEA_HI),
    (Op::LEA_HI_X, Op::ULEA_HI_X),
    (Op::LEA_HI_SX32, Op::ULEA_HI_SX32),
    (Op::LEA_HI_X_SX32, Op::ULEA_HI_X_SX32),
    (Op::ISETP, Op::UISETP),
    (Op::ISETP_EX, Op::UISETP_EX),
    (Op::SEL, Op::USEL),
    (Op::SHF, Op::USHF),
    (Op::SGXT, Op::USGXT),
    (Op::BMSK, Op::UBMSK),
    (Op::PRMT, Op::UPRMT),
    (Op::POPC, Op::UPOPC),
    (Op::BREV, Op::UBREV),
    (Op::FLO, Op::UFLO),
    (Op::MOV, Op::UMOV),
    (Op::S2R, Op::S2UR),
];

/// The uniform form of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// A machine instruction.
    Machine(Op, Mods),
    /// `collect` or `split`.
    Tuple,
}

/// The uniform form of `inst`, if it has one and no guard.
pub(super) fn uniform(func: &Function, inst: Inst) -> Option<Form> {
    let plain = func.inst(inst).guard().is_always()
        && func.kept(inst).is_empty()
        && !func.has_implicit_registers(inst);
    if !plain {
        return None;
    }
    let (op, mods) = match func.inst(inst).operation() {
        Operation::Machine(op, mods) => (op, mods),
        Operation::Abstract(AbstractOp::Collect | AbstractOp::Split, _) => {
            let short = |operand: &Operand| {
                operand.as_value().is_some_and(|value| {
                    let ty = func.value_type(value);
                    ty.class() == Class::R && ty.len() <= 4
                })
            };
            return func.operands(inst).iter().all(short).then_some(Form::Tuple);
        }
        Operation::Abstract(..) => return None,
    };
    let &(_, uniform) = FORMS.iter().find(|(general, _)| *general == op)?;
    let row = uniform.row();
    let mut converted = Mods::ZERO;
    for modifier in row.modifiers {
        let value = op.row().value_of(modifier.id(), mods)?;
        converted = row.with_value(modifier.id(), value, converted)?;
    }
    let simple = func.operands(inst).iter().all(|&operand| match operand {
        Operand::Reg { .. } | Operand::Imm(_) | Operand::Special(_) => true,
        Operand::Const { index, mods, .. } => index.get().is_none() && mods.is_empty(),
        _ => false,
    });
    simple.then_some(Form::Machine(uniform, converted))
}

/// The operands of `inst` as its uniform form lists them; `op` is that form's operation.
pub(super) fn slots(func: &Function, inst: Inst, op: Op) -> Option<Vec<Operand>> {
    let general = func.opcode(inst).as_machine()?.row();
    let operands = func.operands(inst);
    let of = |name: &str| {
        let at = general.slot_index_of_text(name)?;
        operands.get(at).copied()
    };
    op.row().slots.iter().map(|slot| of(slot.name)).collect()
}

/// Whether `inst` takes all lanes of a move, as the uniform one does.
pub(super) fn is_whole_move(func: &Function, inst: Inst) -> bool {
    func.opcode(inst) != Opcode::Machine(Op::MOV)
        || func.operands(inst).get(2) == Some(&Operand::imm(0xf))
}

fn operand(func: &Function, inst: Inst, name: SlotName) -> Option<Operand> {
    let op = func.opcode(inst).as_machine()?;
    let at = op.row().slot_index(name)?;
    func.operands(inst).get(at).copied()
}

/// An R2UR that takes one word and asks nothing else.
pub(super) fn uniform_word(func: &Function, inst: Inst) -> Option<Root> {
    let asks = operand(func, inst, slot::P)?.as_value().is_some();
    let source = operand(func, inst, slot::A)?.as_value()?;
    let result = operand(func, inst, slot::D)?.as_value()?;
    let word = func.value_type(source) == Type::R && func.value_type(result) == Type::UR;
    (word && !asks).then_some(Root {
        inst,
        source,
        result,
    })
}

/// A VOTEU.ANY that takes a predicate over.
pub(super) fn uniform_predicate(func: &Function, inst: Inst) -> Option<Root> {
    let predicate = operand(func, inst, slot::Q)?;
    let plain = func.machine_modifier(inst, name::MODE) == Some(value::ANY)
        && func.inst(inst).guard().is_always()
        && operand(func, inst, slot::D)?.as_value().is_none()
        && predicate.mods().is_empty();
    let source = predicate.as_value()?;
    let result = operand(func, inst, slot::P)?.as_value()?;
    plain.then_some(Root {
        inst,
        source,
        result,
    })
}

/// The operands of `inst` with `uniform` in place of operand `index`, in an order in which it has such a form.
pub(super) fn with_uniform(
    func: &Function,
    inst: Inst,
    index: usize,
    uniform: Operand,
    target: Target,
) -> Option<Vec<Operand>> {
    let Operation::Machine(op, mods) = func.inst(inst).operation() else {
        return None;
    };
    let operand = func.operands(inst)[index];
    if !matches!(operand, Operand::Reg { .. }) || !func.is_use(inst, index) {
        return None;
    }
    let mut operands = func.operands(inst).to_vec();
    operands[index] = uniform.with_mods(operand.mods())?;
    let fits = |operands: &[Operand]| check_operands(func, op, mods, operands, target).is_ok();
    if fits(&operands) {
        return Some(operands);
    }
    // Terms and factors may change places.
    let names: &[SlotName] = match op {
        Op::IADD3 => &[slot::A, slot::B, slot::C],
        Op::IMAD | Op::DFMA | Op::DMUL => &[slot::A, slot::B],
        _ => return None,
    };
    for name in names {
        let other = op.row().slot_index(*name)?;
        if other != index
            && names
                .iter()
                .any(|it| op.row().slot_index(*it) == Some(index))
        {
            operands.swap(index, other);
            if fits(&operands) {
                return Some(operands);
            }
            operands.swap(index, other);
        }
    }
    None
}

/// The uniform register that reads like a constant one.
pub(super) fn constant(operand: Operand) -> Option<Operand> {
    let reg = operand.reg()?;
    let phys = reg.phys().filter(|phys| phys.is_constant())?;
    let class = match phys.class() {
        class if class.is_uniform() => class,
        class => uniform_class(class)?,
    };
    Operand::from(class.constant()?).with_mods(operand.mods())
}

/// Whether slot `index` of `op` is one that may hold a register.
pub(super) fn takes_register(op: Op, index: usize) -> bool {
    [slot::A, slot::B, slot::C]
        .iter()
        .any(|&name| op.row().slot_index(name) == Some(index))
}
