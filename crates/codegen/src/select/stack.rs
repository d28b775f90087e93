//! The stack pointer and memory that a function allocates at run time.

use super::barrier::TRAP;
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::Scalar;
use orias_ori::{Guard, Operand, Value};
use orias_sass::{Op, modifier_values as value};

type Done = Result<(), PhaseError>;

/// The stack pointer as a value.
pub(super) fn stack_save(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let pointer = Operand::from(s.stack_pointer()?);
    let value = s.temporary(WORD);
    s.copy(value, pointer.into())?;
    give_address(s, scalar, value)
}

/// A local address as the result: one word, or two.
fn give_address(s: &mut Selector<'_>, scalar: Scalar, value: Value) -> Done {
    match (scalar, s.result(0).as_value()) {
        (Scalar::B64, _) => s.set_pair(0, value.into(), rz().into()),
        (_, Some(result)) => {
            s.rename(result, value);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Moves the stack pointer to `value`, if the guard holds.
fn set_stack_pointer(s: &mut Selector<'_>, value: Source) -> Done {
    let pointer = Operand::from(s.stack_pointer()?);
    s.emit_guarded(Op::MOV, &[], sources![pointer, value, Operand::imm(0xf)])?;
    Ok(())
}

pub(super) fn stack_restore(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let value = match scalar {
        Scalar::B64 => s.words(0)[0],
        _ => s.word(0),
    };
    set_stack_pointer(s, value)
}

/// Space on the stack, which grows down.
pub(super) fn stack_allocate(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let Operand::Imm(align) = s.operand(1) else {
        return Err(s.broken("the alignment is not a number"));
    };
    // Arguments of calls lie at the pointer, aligned as the frame is.
    let align = (align.bits() as u32)
        .max(s.machine.abi.stack_alignment)
        .max(s.func.attributes.local_align);
    let below = match s.operand(2) {
        Operand::Imm(below) => below.bits() as u32,
        _ => 0,
    };
    if !align.is_power_of_two() {
        return Err(s.broken("the alignment is not a power of two"));
    }
    let pointer = Operand::from(s.stack_pointer()?);
    let size = s.word(0);
    let size = s.in_register(size)?;
    let minus = Source::from(size).negated().unwrap_or(size.into());
    let mut lower = s.sum(pointer.into(), minus)?;
    if below > 0 {
        lower = s.sum(lower.into(), Source::imm(below.wrapping_neg()))?;
    }
    let aligned = s.temporary(WORD);
    let mask = Source::imm(align.wrapping_neg());
    let and = Operand::imm(0xc0);
    s.emit(
        Op::LOP3,
        &[],
        sources![pt(), aligned, lower, mask, rz(), and, not_pt()],
    )?;
    set_stack_pointer(s, aligned.into())?;
    if s.checks_stack {
        let lowest = super::special::read_word(s, orias_sass::special::LMEMHIOFF)?;
        let fits = s.compare(value::GE, value::U32, pointer.into(), lowest.into())?;
        let traps = Guard::unless(fits);
        s.emit_with(Op::BPT, &[TRAP], sources![Operand::imm(1)], traps)?;
    }
    let address = match below {
        0 => aligned,
        below => s.sum(aligned.into(), Source::imm(below))?,
    };
    give_address(s, scalar, address)
}
