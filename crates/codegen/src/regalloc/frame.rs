//! PostExpansion (104): the stack frame.
//!
//! Local variables and spilled values lie in the thread's stack frame, addressed from `R1`. How large the frame is is known
//! only after allocation, so this is where it is made: the stack pointer is read from the constant bank at the start of the
//! kernel, and lowered by the size of the frame.

use super::refused;
use crate::pipeline::{Context, PhaseError};
use orias_machine::abi;
use orias_ori::builder::Cursor;
use orias_ori::{Class, Function, FunctionKind, Operand, PhysReg, Reg};
use orias_sass::Op;

/// Makes the frame of a kernel that has one, or that names the stack pointer.
pub fn expand_after_allocation(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    if func.kind != FunctionKind::Entry {
        return Ok(());
    }
    let stack = abi::STACK_POINTER;
    let Some(pointer) = PhysReg::new(Class::R, stack) else {
        return Ok(());
    };
    let frame = func.attributes.local.next_multiple_of(abi::STACK_ALIGNMENT);
    func.attributes.local = frame;
    let named = frame > 0
        || func.blocks().any(|block| {
            func.block_insts(block)
                .any(|inst| func.uses(inst).any(|reg| reg == Reg::from(pointer)))
        });
    let first = func.entry().and_then(|entry| func.layout.first_inst(entry));
    let (true, Some(first)) = (named, first) else {
        return Ok(());
    };
    let mut at = Cursor::before(func, first);
    at.set_span(None);
    at.build(Op::LDC)
        .operand(pointer)
        .operand(Operand::constant(0, abi::INITIAL_STACK_POINTER))
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
    Ok(())
}
