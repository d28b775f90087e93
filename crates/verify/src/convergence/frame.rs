//! Which bytes of the stack frame hold the same in all lanes.
//!
//! The stack is each lane's own, but what all lanes have stored there when none went another way, and nothing has overwritten since, is
//! the same in all of them: registers that are the same are spilled, too. Only accesses at a constant distance from the stack pointer
//! are told apart; any other store to the stack, or through a pointer that may lead there, makes nothing known of all of it.

use orias_sass::{
    BaseKind, Instruction, Mnemonic, Op, Operand, modifier_names as name, modifier_values as value,
    slot_names as slot,
};
use smallvec::SmallVec;
use std::ops::Range;

/// Bytes that hold the same in all lanes, by distance from the stack pointer, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Frame(SmallVec<[i32; 16]>);

/// What an instruction does to the frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FrameAccess {
    Load(Range<i32>),
    Store(Range<i32>),
    /// It may store anywhere.
    Anywhere,
}

/// The access of an instruction, if it has one. `stack_pointer` is a general register's number.
pub(super) fn access(instruction: &Instruction, stack_pointer: u8) -> Option<FrameAccess> {
    let place = || {
        let Some(Operand::Address(address)) = instruction.operand(slot::ADDR) else {
            return None;
        };
        let base = address.base.filter(|base| !base.is_constant())?;
        let plain = base.index == stack_pointer && address.kind == BaseKind::Plain;
        let uniform = address
            .uniform
            .is_some_and(|uniform| !uniform.is_constant());
        let bytes = match instruction.modifier(name::SIZE)? {
            value::U8 | value::S8 => 1,
            value::U16 | value::S16 => 2,
            value::_32 => 4,
            value::_64 => 8,
            value::_128 => 16,
            _ => return None,
        };
        (plain && !uniform).then(|| address.offset..address.offset + bytes)
    };
    match instruction.op() {
        Op::LDL => place().map(FrameAccess::Load),
        Op::STL => Some(place().map_or(FrameAccess::Anywhere, FrameAccess::Store)),
        op if matches!(op.mnemonic(), Mnemonic::ST | Mnemonic::ATOM) => Some(FrameAccess::Anywhere),
        _ => None,
    }
}

impl Frame {
    /// Whether all of these bytes are the same in all lanes.
    pub(super) fn holds(&self, bytes: Range<i32>) -> bool {
        let mut bytes = bytes;
        bytes.all(|byte| self.0.binary_search(&byte).is_ok())
    }

    /// Bytes are stored, the same in all lanes or not.
    pub(super) fn store(&mut self, bytes: Range<i32>, same: bool) {
        for byte in bytes {
            match (self.0.binary_search(&byte), same) {
                (Err(at), true) => self.0.insert(at, byte),
                (Ok(at), false) => {
                    self.0.remove(at);
                }
                _ => {}
            }
        }
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// What is known on this path and on another; says whether that is less than before.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let before = self.0.len();
        self.0.retain(|byte| other.0.binary_search(byte).is_ok());
        before != self.0.len()
    }
}
