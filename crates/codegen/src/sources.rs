//! Which general registers an instruction reads in the positions of the operand cache.
//!
//! The form of an encoding tells which operand stands in which position. For nearly all operations the shapes of the operands (a
//! register, a constant, an immediate) already tell that much of the form, so nothing is encoded to find out.

use orias_ori::{Class, Function, Inst, Operand, PhysReg, machine};
use orias_sass::{EncodeError, Form, Op, RegisterClass, Target};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// The positions a source can have.
pub(crate) const POSITIONS: usize = 4;

/// The reuse bit of the first position.
const FIRST_REUSE_BIT: u8 = 122;

/// The slots of a form that have a position, and which.
type Positioned = SmallVec<[(u8, u8); POSITIONS]>;

/// Position, slot and register of each source.
pub(crate) type Sources = SmallVec<[(u8, u8, PhysReg); POSITIONS]>;

/// The sources of `inst`, an `op` on physical registers.
pub(crate) fn of(
    func: &Function,
    inst: Inst,
    op: Op,
    target: Target,
) -> Result<Sources, EncodeError> {
    let operands = func.operands(inst);
    let known = by_shapes(op).and_then(|known| {
        let shapes = shapes(op, operands)?;
        known.iter().find(|(form, _)| *form == shapes)
    });
    let register = |&(slot, position): &(u8, u8)| match operands.get(usize::from(slot)) {
        Some(Operand::Reg { reg, .. }) => {
            let reg = reg.phys()?;
            let counts =
                reg.class() == Class::R && !reg.is_constant() && usize::from(position) < POSITIONS;
            counts.then_some((position, slot, reg))
        }
        _ => None,
    };
    Ok(match known {
        Some((_, positioned)) => positioned.iter().filter_map(register).collect(),
        None => match machine::placeless(func, inst, target) {
            Some(instruction) => {
                let positioned = positioned(instruction?.form());
                positioned.iter().filter_map(register).collect()
            }
            None => SmallVec::new(),
        },
    })
}

fn positioned(form: &Form) -> Positioned {
    let places = form.places.iter().enumerate();
    let places = places.filter(|(_, place)| place.reuse.exists());
    places
        .map(|(slot, place)| (slot as u8, place.reuse.0 - FIRST_REUSE_BIT))
        .collect()
}

/// Which slots have a position, by the shapes of the operands; none where that does not tell.
fn by_shapes(op: Op) -> Option<&'static [(u64, Positioned)]> {
    type Known = Option<Vec<(u64, Positioned)>>;
    static KNOWN: [OnceLock<Known>; Op::COUNT] = [const { OnceLock::new() }; Op::COUNT];
    let known = KNOWN[op.index()].get_or_init(|| {
        let mut known: Vec<(u64, Positioned)> = Vec::new();
        for form in op.row().forms {
            let positioned = positioned(form);
            match known.iter().find(|(shapes, _)| *shapes == form.shapes) {
                Some((_, same)) if *same != positioned => return None,
                Some(_) => {}
                None => known.push((form.shapes, positioned)),
            }
        }
        Some(known)
    });
    known.as_deref()
}

/// The shapes of operands as forms have them; none where only the encoding tells.
fn shapes(op: Op, operands: &[Operand]) -> Option<u64> {
    let mut shapes = 0;
    for (slot, operand) in operands.iter().enumerate().rev() {
        let shape = match operand {
            Operand::Reg { reg, .. } => RegisterClass::from(reg.phys()?.class()) as u8,
            Operand::None => op.row().slots[slot].default_operand()?.shape(),
            Operand::Imm(_) => orias_sass::Operand::Immediate(0).shape(),
            Operand::Special(_) => orias_sass::Operand::Special(0).shape(),
            Operand::Const { .. } => CONSTANT.shape(),
            _ => return None,
        };
        shapes = shapes << 4 | u64::from(shape);
    }
    Some(shapes)
}

/// Any constant of a numbered bank.
const CONSTANT: orias_sass::Operand = orias_sass::Operand::Constant(orias_sass::Constant {
    bank: orias_sass::ConstantBank::Index(0),
    index: None,
    offset: 0,
    modifiers: orias_sass::SourceModifiers::NONE,
});
