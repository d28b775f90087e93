//! Rules by which a debugger finds the frame of a caller, read off finished code.
//!
//! The stack pointer changes by additions of constants. Where the caller's registers lie that a call keeps, and where the return address
//! does, is found by following them from the start of the function ([`super::flow`]): in their own registers, in others, or in the frame.

use super::flow::{Flow, Held, Place, PlaceKind};
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
    let returns = abi.return_address..=abi.return_address + 1;
    let followed =
        |&register: &u8| abi.is_saved(RegisterClass::R, register) || returns.contains(&register);
    let kept: Vec<u8> = match called {
        true => (0..REGISTERS).filter(followed).collect(),
        false => Vec::new(),
    };
    // What a register had at the start is the word of its number.
    let initial: Held = (kept.iter())
        .map(|&register| (Place::general(register), u32::from(register)))
        .collect();
    let sizes = sizes(function, code, abi.stack_pointer);
    let flow = Flow::new(function, code, 0, initial);
    let mut steps = Vec::new();
    let mut size = 0;
    let mut rules: Vec<Option<FrameStep>> = kept.iter().map(|_| None).collect();
    flow.walk(|number, held| {
        let address = (number * WORD) as u64;
        let Some(&now) = sizes.get(number) else {
            return;
        };
        if now != size {
            size = now;
            steps.push((address, FrameStep::Size(size)));
        }
        for (&register, rule) in kept.iter().zip(&mut rules) {
            let found = place_of(register, held, size);
            if found != *rule {
                *rule = found;
                let step = found.unwrap_or(FrameStep::Restored(register));
                steps.push((address, step));
            }
        }
    });
    FrameRules {
        return_register: called.then_some(abi.return_address),
        kept,
        steps,
    }
}

/// Where a register of the caller lies, if not in itself.
fn place_of(register: u8, held: &Held, size: u32) -> Option<FrameStep> {
    let places = held
        .iter()
        .filter(|(_, word)| *word == u32::from(register))
        .map(|(place, _)| place.kind());
    let mut found = Some(FrameStep::Lost(register));
    for place in places {
        match place {
            PlaceKind::General(own) if own == register => return None,
            PlaceKind::General(other) => found = Some(FrameStep::Moved(register, other)),
            PlaceKind::Frame(offset) => {
                return Some(FrameStep::Stored(register, size.saturating_sub(offset)));
            }
            PlaceKind::Predicate(_) => {}
        }
    }
    found
}

/// The size of the frame before each instruction. Behind a return holds what held before the frame was given up.
fn sizes(function: &Function, code: &Code, pointer: u8) -> Vec<u32> {
    let mut size = 0_u32;
    let mut before: Option<u32> = None;
    let mut sizes = Vec::with_capacity(code.placed.len());
    for instruction in super::decoded(&code.bytes, code.placed.len(), function.target) {
        sizes.push(size);
        let Some(instruction) = instruction else {
            continue;
        };
        if let Some(change) = pointer_change(&instruction, pointer) {
            if change > 0 {
                before.get_or_insert(size);
            }
            size = size.wrapping_sub(change as u32);
        }
        if matches!(instruction.op(), Op::RET_REL | Op::RET_ABS) {
            size = before.take().unwrap_or(size);
        }
    }
    sizes
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
