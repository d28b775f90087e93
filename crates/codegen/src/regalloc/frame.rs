//! PostExpansion (104): the stack frame.
//!
//! Local variables and spilled values lie in the thread's stack frame, addressed from `R1`. How large the frame is is known
//! only after allocation, so this is where it is made: the stack pointer is read from the constant bank at the start of the
//! kernel, and lowered by the size of the frame; where a variable asks for more alignment than a stack pointer has, it is rounded down to that. A kernel without a frame reads the stack pointer, too: tools that patch
//! finished code (compute-sanitizer) call their own functions from there, and these need a stack.

use super::refused;
use crate::pipeline::{Context, PhaseError};
use orias_ori::builder::Cursor;
use orias_ori::{Class, Function, FunctionKind, Operand, OptReg, PhysReg, SourceMods};
use orias_sass::Op;

/// The truth table of a conjunction of the first two sources.
const AND: u64 = 0xc0;

/// Makes the frame of a kernel.
pub fn expand_after_allocation(
    func: &mut Function,
    context: &Context<'_>,
) -> Result<(), PhaseError> {
    let abi = context.machine.abi;
    let first = func.entry().and_then(|entry| func.layout.first_inst(entry));
    let pointer = PhysReg::new(Class::R, abi.stack_pointer);
    let (FunctionKind::Entry, Some(pointer), Some(first)) = (func.kind, pointer, first) else {
        return Ok(());
    };
    let align = func.attributes.local_align.max(abi.stack_alignment);
    let frame = func.attributes.local.next_multiple_of(align);
    // What aligning the pointer may skip belongs to the frame.
    func.attributes.local = frame + (align - abi.stack_alignment);
    let mut at = Cursor::before(func, first);
    at.set_span(None);
    at.build(Op::LDC)
        .modifier("size", "32")
        .operand(pointer)
        .operand(Operand::Const {
            mods: SourceMods::NONE,
            bank: context.machine.constants.bank,
            offset: abi.initial_stack_pointer,
            index: OptReg::from(PhysReg::RZ),
        })
        .finish()
        .map_err(refused)?;
    if frame > 0 {
        at.build(Op::VIADD)
            .operand(pointer)
            .operand(pointer)
            .imm(u64::from(frame.wrapping_neg()))
            .finish()
            .map_err(refused)?;
    }
    if align > abi.stack_alignment {
        let never = Operand::from(PhysReg::PT).with_mods(SourceMods::NOT);
        at.build(Op::LOP3)
            .operand(PhysReg::PT)
            .operand(pointer)
            .operand(pointer)
            .imm(u64::from(align.wrapping_neg()))
            .operand(PhysReg::RZ)
            .imm(AND)
            .operand(never.unwrap_or(Operand::from(PhysReg::PT)))
            .finish()
            .map_err(refused)?;
    }
    Ok(())
}
