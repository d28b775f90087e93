//! What an instruction must be by itself. The builder asks the same questions.

use super::abstract_rows::check_abstract;
use super::machine_rows::check_machine;
use super::{Invariant, Report};
use crate::entity::{AddressId, Inst};
use crate::function::{Function, Level};
use crate::instruction::Operation;
use crate::machine;
use crate::operand::{Operand, SourceMods};
use crate::register::{Class, Reg, RegKind, Type};
use cranelift_entity::SecondaryMap;
use orias_sass as sass;

/// Takes what is wrong.
pub(super) type Sink<'a> = &'a mut dyn FnMut(Invariant, String);

/// Checks everything that can be said of `inst` without looking at other instructions. `known` is the form of a machine
/// instruction, where it was found already.
pub fn check_instruction(
    func: &Function,
    inst: Inst,
    known: Option<sass::Variant>,
    wrong: Sink<'_>,
) {
    let data = func.inst(inst);
    check_registers(func, inst, wrong);
    check_guard(func, inst, wrong);
    check_kept(func, inst, wrong);
    check_control(func, inst, wrong);
    if let Some(span) = data.span()
        && !func.locations.is_valid(span)
    {
        let message = format!("the function lists no location #{}", span.as_u32());
        wrong(Invariant::Span, message);
    }
    match data.operation() {
        Operation::Abstract(op, mods) => check_abstract(func, inst, op, mods, wrong),
        Operation::Machine(op, mods) => check_machine(func, inst, op, mods, known, wrong),
    }
}

/// Virtual and physical registers where the level has them, classes it knows, tuples aligned.
fn check_registers(func: &Function, inst: Inst, wrong: Sink<'_>) {
    let level = func.level;
    if let Some(reg) = func.inst(inst).guard().reg() {
        check_register(func, reg, false, wrong);
    }
    for operands in [func.operands(inst), func.kept(inst)] {
        for &operand in operands {
            match operand {
                // Values are at home in machine code.
                Operand::Reg { reg, .. } if level == Level::Machine && reg.value().is_some() => {}
                Operand::Imm(_) | Operand::None => {}
                operand => {
                    for reg in func.operand_regs(operand) {
                        check_register(func, reg, false, wrong);
                    }
                }
            }
        }
    }
    let implicit = func
        .implicit_uses(inst)
        .iter()
        .chain(func.implicit_defs(inst));
    for operand in implicit {
        match operand.reg() {
            Some(reg) => check_register(func, reg, true, wrong),
            None => wrong(
                Invariant::Signature,
                "only registers are touched without being encoded".to_owned(),
            ),
        }
    }
    if !level.is_ssa() {
        for &edge in func.edges(inst) {
            if !func.edge_args(edge).is_empty() {
                let message = "edges have no arguments after allocation";
                wrong(Invariant::Level, message.to_owned());
            }
        }
    }
}

fn check_register(func: &Function, reg: Reg, implicit: bool, wrong: Sink<'_>) {
    let level = func.level;
    match reg.kind() {
        RegKind::Value(value) => {
            let class = func.value_type(value).class();
            if !level.is_ssa() {
                let message = format!("{value} is a virtual register after allocation");
                wrong(Invariant::Level, message);
            } else if level == Level::Abstract && matches!(class, Class::UR | Class::UP) {
                let message = format!("{value} is uniform; abstract code has no uniform registers");
                wrong(Invariant::Level, message);
            }
        }
        RegKind::Phys(phys) => {
            let allowed = match level {
                Level::Abstract => false,
                Level::Machine => {
                    phys.is_constant() || implicit || func.attributes.fixed.contains(&phys)
                }
                Level::Physical | Level::Final => true,
            };
            if !allowed {
                let message = format!("{phys} is a physical register before allocation");
                wrong(Invariant::Level, message);
            }
            if !implicit && !phys.is_aligned() {
                let message = format!(
                    "{phys} does not start at a multiple of {}",
                    phys.ty().alignment()
                );
                wrong(Invariant::Tuple, message);
            }
        }
    }
}

fn check_guard(func: &Function, inst: Inst, wrong: Sink<'_>) {
    let Some(reg) = func.inst(inst).guard().reg() else {
        return;
    };
    let ty = func.reg_type(reg);
    let wanted = match func.inst(inst).operation() {
        Operation::Abstract(op, _) if op.row().takes_guard => Some(Class::P),
        Operation::Abstract(..) => None,
        Operation::Machine(op, _) => machine::guard_class(op),
    };
    match wanted {
        None => wrong(Invariant::Guard, "the operation takes no guard".to_owned()),
        Some(class) if ty != Type::single(class) => {
            let message = format!("the guard {reg} is {ty}, not {}", Type::single(class));
            wrong(Invariant::Guard, message);
        }
        Some(_) => {}
    }
}

fn check_kept(func: &Function, inst: Inst, wrong: Sink<'_>) {
    let kept = func.kept(inst);
    let wanted = func.kept_places(inst).count();
    if wanted == 0 && kept.is_empty() {
        return;
    }
    if wanted != kept.len() {
        let message = format!("kept values needed: {wanted}, given: {}", kept.len());
        wrong(Invariant::Kept, message);
        return;
    }
    for (index, &operand) in func.kept_places(inst).zip(kept) {
        let defined = func.operands(inst)[index].reg();
        let (Some(defined), Some(value)) = (defined, operand.as_value()) else {
            wrong(Invariant::Kept, "what is kept is a value".to_owned());
            continue;
        };
        let (have, want) = (func.value_type(value), func.reg_type(defined));
        if have != want || !operand.mods().is_empty() {
            let message = format!("{value} is {have} and cannot become {defined}, which is {want}");
            wrong(Invariant::Kept, message);
        }
    }
}

fn check_control(func: &Function, inst: Inst, wrong: Sink<'_>) {
    let data = func.inst(inst);
    let control = data.control();
    let is_machine = data.opcode().as_machine().is_some();
    let wanted = func.level == Level::Final && is_machine;
    if control.is_some() != wanted {
        let message = if wanted {
            "the instruction has no control word"
        } else {
            "only machine instructions of final code have control words"
        };
        wrong(Invariant::Control, message.to_owned());
    }
    if control.is_some() {
        let reuse = |operand: &Operand| operand.mods().contains(SourceMods::REUSE);
        let reuse = u8::from(func.operands(inst).iter().any(reuse));
        let field = control
            .field()
            .map(|field| field.with_reuse(reuse).unwrap_or(field));
        if let Err(error) = field.and_then(|field| field.check()) {
            wrong(Invariant::Control, error.to_string());
        }
    }
}

/// An address that two operands share would change under one when the other is changed.
pub(super) fn check_shared_addresses(report: &mut Report<'_>) {
    let func = report.func;
    let mut owners: SecondaryMap<AddressId, bool> = SecondaryMap::new();
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            for &operand in func.operands(inst) {
                if let Operand::Address(id) = operand
                    && std::mem::replace(&mut owners[id], true)
                {
                    report.at(Some(block), Some(inst));
                    let message = "the address is another operand's, too";
                    report.add(Invariant::Address, message.to_owned());
                }
            }
        }
    }
    report.at(None, None);
}
