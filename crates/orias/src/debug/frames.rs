//! Rules by which a debugger finds the frame of a caller, read off finished code.
//!
//! The stack pointer changes by additions of constants. A function that is called stores registers of its caller before its first instruction that
//! comes from the source, and loads them from the same places before it returns. One walk over the code in its order; behind a return
//! what held before it holds again, as code that follows is reached from elsewhere.

use super::decoded;
use orias_cubin::build::{FrameRules, FrameStep};
use orias_machine::Machine;
use orias_mercury::{Code, WORD};
use orias_ori::{Function, FunctionKind};
use orias_sass::{Instruction, Op, Operand, RegisterClass};

/// How many general registers there are.
const REGISTERS: u8 = 255;

/// The rules of a function.
pub(crate) fn rules(function: &Function, code: &Code) -> FrameRules {
    let abi = Machine::of(function.target).abi;
    let called = function.kind == FunctionKind::Device;
    let saved = |register: u8| abi.is_saved(RegisterClass::R, register);
    let mut rules = FrameRules {
        return_register: called.then_some(abi.return_address),
        kept: match called {
            true => (0..REGISTERS)
                .filter(|&register| saved(register))
                .collect(),
            false => Vec::new(),
        },
        steps: Vec::new(),
    };
    let mut size = 0_u32;
    let mut stored: Vec<(u8, u32)> = Vec::new();
    let mut begun = false;
    // What held before the first step of an epilogue.
    let mut before: Option<u32> = None;
    let instructions = decoded(&code.bytes, code.placed.len(), function.target);
    for (number, (instruction, placed)) in instructions.iter().zip(&code.placed).enumerate() {
        let behind = ((number + 1) * WORD) as u64;
        let Some(instruction) = instruction else {
            continue;
        };
        if let Some(change) = pointer_change(instruction, abi.stack_pointer) {
            let new = size.wrapping_sub(change as u32);
            if change > 0 {
                before.get_or_insert(size);
            }
            size = new;
            rules.steps.push((behind, FrameStep::Size(size)));
        }
        begun |= placed.span.is_some();
        if let Some((register, offset)) = slot_access(instruction, Op::STL, abi.stack_pointer)
            && called
            && !begun
            && saved(register)
        {
            stored.push((register, offset));
            let step = FrameStep::Stored(register, size.saturating_sub(offset));
            rules.steps.push((behind, step));
        }
        if let Some(slot) = slot_access(instruction, Op::LDL, abi.stack_pointer)
            && stored.contains(&slot)
        {
            before.get_or_insert(size);
            rules.steps.push((behind, FrameStep::Restored(slot.0)));
        }
        if matches!(instruction.op(), Op::RET_REL | Op::RET_ABS)
            && let Some(held) = before.take()
        {
            size = held;
            rules.steps.push((behind, FrameStep::Size(size)));
            let again = stored.iter().map(|&(register, offset)| {
                let below = size.saturating_sub(offset);
                (behind, FrameStep::Stored(register, below))
            });
            rules.steps.extend(again);
        }
    }
    rules
}

/// By how much an instruction raises the stack pointer.
fn pointer_change(instruction: &Instruction, pointer: u8) -> Option<i32> {
    if !matches!(instruction.op(), Op::VIADD | Op::IADD3) {
        return None;
    }
    let is_pointer = |operand: &&Operand| {
        matches!(operand, Operand::Register(it)
            if it.register.class == RegisterClass::R && it.register.index == pointer)
    };
    if instruction.operands().iter().filter(is_pointer).count() != 2 {
        return None;
    }
    instruction
        .operands()
        .iter()
        .find_map(|operand| match operand {
            Operand::Immediate(bits) => Some(*bits as u32 as i32),
            _ => None,
        })
}

/// The register that an access of 32 bits to the frame moves, and where in the frame.
pub(super) fn slot_access(instruction: &Instruction, op: Op, pointer: u8) -> Option<(u8, u32)> {
    if instruction.op() != op || instruction.modifier("size") != Some("32") {
        return None;
    }
    let mut register = None;
    let mut offset = None;
    for operand in instruction.operands() {
        match operand {
            Operand::Register(it) => register = Some(it.register.index),
            Operand::Address(address) => {
                let base = address.base?;
                if base.index != pointer {
                    return None;
                }
                offset = u32::try_from(address.offset).ok();
            }
            _ => {}
        }
    }
    Some((register?, offset?))
}
