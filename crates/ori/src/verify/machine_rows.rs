//! Machine instructions against the rows of the instruction set.

use super::Invariant;
use super::instruction::Sink;
use crate::entity::Inst;
use crate::function::{Function, Level};
use crate::machine;
use crate::operand::{Operand, SourceMods};
use crate::register::{Class, Reg, Type};
use orias_sass as sass;

/// Checks a machine instruction; `known` is its form, where that was found already.
pub(super) fn check_machine(
    func: &Function,
    inst: Inst,
    op: sass::Op,
    mods: sass::Mods,
    known: Option<sass::Variant>,
    wrong: Sink<'_>,
) {
    if func.level == Level::Abstract {
        let message = format!("`{op}` does not belong in abstract code");
        wrong(Invariant::Level, message);
    }
    let slots = op.row().slots;
    let operands = func.operands(inst);
    if operands.len() != slots.len() {
        let message = format!(
            "`{op}` has {} operands, not {}",
            slots.len(),
            operands.len()
        );
        wrong(Invariant::Signature, message);
        return;
    }
    let (mut jumps, mut addresses) = (false, false);
    for (index, &operand) in operands.iter().enumerate() {
        let written = op.row().written >> index & 1 == 1;
        let fits = match operand {
            Operand::None => slots[index].default.is_some(),
            Operand::Reg { mods, .. } => !written || mods.is_empty(),
            other => {
                jumps |= matches!(other, Operand::Edge(_) | Operand::Block(_));
                addresses |= matches!(other, Operand::Address(_));
                !written
            }
        };
        if !fits {
            let name = slots[index].name;
            let message = format!("`{op}` takes no such operand as its {name}");
            wrong(Invariant::Signature, message);
        }
    }
    if jumps {
        check_edge_operands(func, inst, op, wrong);
    }
    if addresses && !addresses_have_their_classes(func, operands, wrong) {
        return;
    }
    let fitted = match known {
        Some(known) => known,
        None => match machine::fit(func, inst, op, mods, func.target) {
            Ok(fitted) => fitted,
            Err(error) => {
                wrong(Invariant::Encoding, error.to_string());
                return;
            }
        },
    };
    for (index, place) in fitted.form().places.iter().enumerate() {
        check_place(func, fitted, index, operands[index], wrong);
        if operands[index].mods().contains(SourceMods::REUSE)
            && !(func.level == Level::Final && place.reuse.exists())
        {
            let message = format!("the operand {} has no reuse flag", slots[index].name);
            wrong(Invariant::Control, message);
        }
    }
}

/// Jump targets are numbered in the order of the operands, and only a terminator has them.
fn check_edge_operands(func: &Function, inst: Inst, op: sass::Op, wrong: Sink<'_>) {
    let mut next = 0;
    for (slot, &operand) in func.operands(inst).iter().enumerate() {
        match operand {
            Operand::Edge(number) => {
                if number != next || number as usize >= func.edges(inst).len() {
                    let message = format!("edge {number} is out of order");
                    wrong(Invariant::Edge, message);
                }
                next += 1;
            }
            Operand::Block(block)
                if machine::is_jump_slot(op, slot) || !func.layout.contains_block(block) =>
            {
                let message = format!("{block} is not a block that can be named here");
                wrong(Invariant::Edge, message);
            }
            _ => {}
        }
    }
}

/// The uniform registers of two matrix descriptors.
const WHOLE_DESCRIPTOR: u8 = 4;

/// The lengths of the registers at one place of the form.
fn check_place(
    func: &Function,
    fitted: sass::Variant,
    index: usize,
    operand: Operand,
    wrong: Sink<'_>,
) {
    let mut check = |reg: Reg, width: u8| {
        let ty = func.reg_type(reg);
        // A width of zero means that the modifiers leave the register unread.
        if width != 0 && ty.len() != width && !reg.is_constant() {
            let want =
                Type::tuple(ty.class(), width).map_or("nothing".to_owned(), |ty| ty.to_string());
            wrong(Invariant::Type, format!("{reg} is {ty}, not {want}"));
        }
    };
    match operand {
        Operand::Reg { reg, .. } => check(reg, fitted.width(index)),
        // A descriptor of which only the upper pair is read may be named whole.
        Operand::Descriptor(reg) => match func.reg_type(reg).len() {
            WHOLE_DESCRIPTOR => {}
            _ => check(reg, fitted.width(index)),
        },
        Operand::Bindless { descriptor, .. } => check(descriptor, 2),
        Operand::Const { index, .. } => {
            if let Some(reg) = index.get() {
                check(reg, 1);
            }
        }
        Operand::Address(id) => {
            let address = func.address(id);
            let widths = fitted.address_widths(index);
            for (reg, width) in [
                (address.base, widths.base),
                (address.uniform, widths.uniform),
                (address.descriptor, widths.descriptor),
            ] {
                if let Some(reg) = reg.get() {
                    check(reg, width);
                }
            }
        }
        _ => {}
    }
}

fn addresses_have_their_classes(func: &Function, operands: &[Operand], wrong: Sink<'_>) -> bool {
    let mut right = true;
    for &operand in operands {
        let Operand::Address(id) = operand else {
            continue;
        };
        let address = func.address(id);
        for (name, reg, class) in [
            ("base", address.base, Class::R),
            ("uniform base", address.uniform, Class::UR),
            ("descriptor", address.descriptor, Class::UR),
        ] {
            if let Some(reg) = reg.get()
                && func.reg_type(reg).class() != class
            {
                let message = format!("the {name} {reg} is not of class {}", class.name());
                wrong(Invariant::Address, message);
                right = false;
            }
        }
    }
    right
}
