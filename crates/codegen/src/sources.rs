//! Which general registers an instruction reads in the positions of the operand cache.
//!
//! The form of an encoding tells which operand stands in which position. For most operations it is enough to know which operands are general
//! registers; for nearly all others the shapes of the operands (a register, a constant, an immediate) tell that much of the form. So
//! nothing is encoded to find out.

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
    let told = match known(op) {
        Known::Registers(known) => match known.of(operands) {
            Some(sources) => return Ok(sources),
            None => None,
        },
        Known::Shapes(known) => shapes(op, operands)
            .and_then(|shapes| known.iter().find(|(known, _)| *known == shapes))
            .map(|(_, positioned)| positioned),
        Known::Form => None,
    };
    match told {
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
    /// Which of its operands are general registers.
    Registers(ByRegisters),
    /// The shapes of the operands.
    Shapes(Vec<(u64, Positioned)>),
    /// Nothing but the form.
    Form,
}

/// Kept by operation alone: the forms of all targets are looked at, and where they do not agree only the form itself tells.
fn known(op: Op) -> &'static Known {
    static KNOWN: [OnceLock<Known>; Op::COUNT] = [const { OnceLock::new() }; Op::COUNT];
    KNOWN[op.index()].get_or_init(|| match ByRegisters::new(op) {
        Some(known) => Known::Registers(known),
        None => by_shapes(op).map_or(Known::Form, Known::Shapes),
    })
}

/// The positions of general registers, by the slots in which there are some.
struct ByRegisters {
    /// The slots that have a position in some form.
    slots: SmallVec<[u8; POSITIONS]>,
    /// Those of them that stand for a general register when they are left out, as bits.
    left_out: u8,
    /// Slots with general registers, as bits, and the positions those have, by place among `slots`.
    known: SmallVec<[(u8, Positioned); 4]>,
}

impl ByRegisters {
    /// None where more than that decides.
    fn new(op: Op) -> Option<ByRegisters> {
        const GENERAL: u64 = RegisterClass::R as u64;
        let row = op.row();
        let mut by = ByRegisters {
            slots: SmallVec::new(),
            left_out: 0,
            known: SmallVec::new(),
        };
        for (slot, _) in row.forms.iter().flat_map(positioned) {
            if !by.slots.contains(&slot) {
                by.slots.push(slot);
            }
        }
        if by.slots.len() > 8 {
            return None;
        }
        for (bit, slot) in by.slots.iter().enumerate() {
            let operand = row.slots[usize::from(*slot)].default_operand();
            if operand.is_some_and(|operand| u64::from(operand.shape()) == GENERAL) {
                by.left_out |= 1 << bit;
            }
        }
        for form in row.forms {
            let is_general = |slot: u8| form.shapes >> (4 * slot) & 0xf == GENERAL;
            let slots = by.slots.iter().enumerate();
            let general = slots.filter(|(_, slot)| is_general(**slot));
            let bits = general.fold(0, |bits, (bit, _)| bits | 1 << bit);
            let positioned = positioned(form).into_iter().filter_map(|(slot, position)| {
                let place = by.slots.iter().position(|known| *known == slot)?;
                let counts = is_general(slot) && usize::from(position) < POSITIONS;
                counts.then_some((place as u8, position))
            });
            let positioned: Positioned = positioned.collect();
            match by.known.iter().find(|(known, _)| *known == bits) {
                Some((_, same)) if *same != positioned => return None,
                Some(_) => {}
                None => by.known.push((bits, positioned)),
            }
        }
        Some(by)
    }

    /// The sources among these operands; none where no form has registers like that.
    fn of(&self, operands: &[Operand]) -> Option<Sources> {
        let mut regs: [Option<PhysReg>; 8] = [None; 8];
        let mut bits = 0;
        for (place, slot) in self.slots.iter().enumerate() {
            let general = match operands.get(usize::from(*slot)) {
                Some(Operand::Reg { reg, .. }) => {
                    regs[place & 7] = reg.phys().filter(|reg| reg.class() == Class::R);
                    regs[place & 7].is_some()
                }
                Some(Operand::None) | None => self.left_out >> place & 1 == 1,
                _ => false,
            };
            bits |= u8::from(general) << place;
        }
        let (_, positioned) = self.known.iter().find(|(known, _)| *known == bits)?;
        let mut sources: Sources = [None; POSITIONS];
        for &(place, position) in positioned {
            let reg = regs[usize::from(place & 7)].filter(|reg| !reg.is_constant());
            let slot = self.slots[usize::from(place)];
            sources[usize::from(position)] = reg.map(|reg| (slot, reg));
        }
        Some(sources)
    }
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
