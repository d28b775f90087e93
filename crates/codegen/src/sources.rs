//! Which general registers an instruction reads in the positions of the operand cache.
//!
//! The form of an encoding tells which operand stands in which position. For most operations a register in a slot has the same position in
//! all forms; for nearly all others the shapes of the operands (a register, a constant, an immediate) tell that much of the form. So nothing is
//! encoded to find out.

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

/// By position: the slot it has, and the register that stands there.
pub(crate) type Sources = [Option<(u8, PhysReg)>; POSITIONS];

/// The sources of `inst`, an `op` on physical registers.
pub(crate) fn of(
    func: &Function,
    inst: Inst,
    op: Op,
    target: Target,
) -> Result<Sources, EncodeError> {
    let operands = func.operands(inst);
    let of = |positioned: &[(u8, u8)]| {
        let mut sources: Sources = [None; POSITIONS];
        for &(slot, position) in positioned {
            if let Some(Operand::Reg { reg, .. }) = operands.get(usize::from(slot))
                && let Some(reg) = reg.phys()
                && reg.class() == Class::R
                && !reg.is_constant()
                && let Some(source) = sources.get_mut(usize::from(position))
            {
                *source = Some((slot, reg));
            }
        }
        sources
    };
    let by_shapes = match known(op) {
        Known::Always(positioned) => return Ok(of(positioned)),
        Known::ByShapes(known) => shapes(op, operands)
            .and_then(|shapes| known.iter().find(|(known, _)| *known == shapes))
            .map(|(_, positioned)| positioned),
        Known::ByForm => None,
    };
    match by_shapes {
        Some(positioned) => Ok(of(positioned)),
        None => match machine::placeless(func, inst, target) {
            Some(instruction) => Ok(of(&positioned(instruction?.form()))),
            None => Ok(of(&[])),
        },
    }
}

fn positioned(form: &Form) -> Positioned {
    let places = form.places.iter().enumerate();
    let places = places.filter(|(_, place)| place.reuse.exists());
    places
        .map(|(slot, place)| (slot as u8, place.reuse.0 - FIRST_REUSE_BIT))
        .collect()
}

/// What tells which slots of an operation have a position.
enum Known {
    /// A general register in a slot has this position in every form, or none.
    Always(Positioned),
    /// The shapes of the operands.
    ByShapes(Vec<(u64, Positioned)>),
    /// Nothing but the form.
    ByForm,
}

fn known(op: Op) -> &'static Known {
    static KNOWN: [OnceLock<Known>; Op::COUNT] = [const { OnceLock::new() }; Op::COUNT];
    KNOWN[op.index()].get_or_init(|| match always(op) {
        Some(positioned) => Known::Always(positioned),
        None => by_shapes(op).map_or(Known::ByForm, Known::ByShapes),
    })
}

/// The positions of general registers, if they are the same in all forms that have one in a slot.
fn always(op: Op) -> Option<Positioned> {
    let mut known: SmallVec<[Option<Option<u8>>; 16]> = SmallVec::new();
    for form in op.row().forms {
        known.resize(known.len().max(form.places.len()), None);
        for (slot, place) in form.places.iter().enumerate() {
            if form.shapes >> (4 * slot) & 0xf != u64::from(RegisterClass::R as u8) {
                continue;
            }
            let position = place
                .reuse
                .exists()
                .then(|| place.reuse.0 - FIRST_REUSE_BIT);
            match known[slot].replace(position) {
                Some(other) if other != position => return None,
                _ => {}
            }
        }
    }
    let slots = known.iter().enumerate();
    Some(
        slots
            .filter_map(|(slot, position)| Some((slot as u8, (*position)??)))
            .collect(),
    )
}

/// Which slots have a position, by the shapes of the operands; none where that does not tell.
fn by_shapes(op: Op) -> Option<Vec<(u64, Positioned)>> {
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
