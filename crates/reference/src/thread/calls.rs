//! Calls: the stack, arguments and results.
//!
//! Arguments and results travel as bytes. A byte that nothing wrote, where that is checked, travels as one that nothing wrote.

use super::access::access;
use super::{State, Thread, World};
use crate::error::FaultKind;
use crate::library::little_endian;
use crate::memory::{
    FUNCTION_BASE, LOCAL_WINDOW, Memory, RANK_SHIFT, SHARED_WINDOW, SHARED_WINDOW_BYTES,
    WINDOW_BYTES,
};
use crate::program::Formal;
use crate::step::{Action, Call, Callee, Destination, Passed, Piece, Returned, Space};

/// Bytes of local memory a thread has at most, as on the device.
const STACK_LIMIT: u64 = 512 << 10;

/// A place to return to.
pub(super) struct Frame {
    function: usize,
    pc: usize,
    registers: usize,
    frame: u64,
    stack: u64,
}

impl Thread {
    /// Makes local memory reach up to `end`.
    pub(super) fn reserve(&mut self, end: u64) -> Result<(), FaultKind> {
        if end > STACK_LIMIT {
            return Err(FaultKind::StackOverflow(STACK_LIMIT));
        }
        self.local.forget(self.stack as usize);
        self.local.grow(end as usize);
        self.stack = end;
        Ok(())
    }

    pub(super) fn call(&mut self, call: &Call, world: &mut World<'_>) -> Result<(), FaultKind> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(match *argument {
                Passed::Values(ref values) => {
                    let mut passed = Vec::new();
                    for &(source, bytes) in values {
                        passed.extend(written(self.read(source, world)?, bytes as usize));
                    }
                    passed
                }
                Passed::Frame { offset, bytes } => {
                    self.local.take(self.frame + offset, bytes as usize)
                }
                Passed::Nothing => Vec::new(),
            });
        }
        let callee = match &call.callee {
            Callee::Function(number) => *number,
            Callee::Library(routine) => {
                let number = |bytes: &Vec<Option<u8>>| {
                    // What was never written counts as zeros, which is what is there.
                    let bytes: Vec<u8> = bytes.iter().map(|byte| byte.unwrap_or(0)).collect();
                    little_endian(&bytes)
                };
                let arguments: Vec<u64> = arguments.iter().map(number).collect();
                let local = &self.local;
                let shared = &world.common.shared;
                let read = |memory: &Memory, address: u64, length: usize| {
                    let offset = address.wrapping_sub(LOCAL_WINDOW);
                    let in_shared = address.wrapping_sub(SHARED_WINDOW);
                    let bytes = if offset < WINDOW_BYTES {
                        local.read(offset, length).ok()
                    } else if in_shared < SHARED_WINDOW_BYTES {
                        let of = shared.get((in_shared >> RANK_SHIFT) as usize);
                        of.and_then(|it| it.read(in_shared & (WINDOW_BYTES - 1), length).ok())
                    } else {
                        memory.read(address, length).ok()
                    };
                    bytes.map(<[u8]>::to_vec)
                };
                let value = routine.call(&arguments, world.memory, world.printed, &read)?;
                self.pc += 1;
                return self.take_results(&call.results, &[written(value, 8)]);
            }
            Callee::Indirect(source) => {
                let address = self.read(*source, world)?;
                let number = address.wrapping_sub(FUNCTION_BASE) / 16;
                let known = number < world.code.len() as u64 && address.is_multiple_of(16);
                if !known {
                    return Err(FaultKind::Undefined(format!(
                        "a call of {address:#x}, which is no function"
                    )));
                }
                number as usize
            }
        };
        let code = &world.code[callee];
        // An array of open length may be left out.
        if let Some(Formal::Open { .. }) = code.parameters.get(arguments.len()) {
            arguments.push(Vec::new());
        }
        if arguments.len() != code.parameters.len() || call.results.len() != code.returns.len() {
            return Err(FaultKind::Undefined(format!(
                "a call of '{}' with {} arguments and {} results instead of {} and {}",
                code.name,
                arguments.len(),
                call.results.len(),
                code.parameters.len(),
                code.returns.len()
            )));
        }
        self.frames.push(Frame {
            function: self.function,
            pc: self.pc,
            registers: self.base,
            frame: self.frame,
            stack: self.stack,
        });
        let frame = self.stack.next_multiple_of(16);
        let open = match (code.parameters.last(), arguments.last()) {
            (Some(Formal::Open { .. }), Some(bytes)) => bytes.len() as u64,
            _ => 0,
        };
        self.reserve(frame + code.frame_bytes + open)?;
        // A function without frame can still call itself for ever.
        if self.frames.len() as u64 > STACK_LIMIT / 16 {
            return Err(FaultKind::StackOverflow(STACK_LIMIT));
        }
        self.base = self.registers.len();
        self.registers.resize(self.base + code.slots as usize, 0);
        if let Some(written) = &mut self.written {
            written.resize(self.registers.len(), false);
        }
        self.frame = frame;
        self.function = callee;
        self.pc = 0;
        for (formal, bytes) in code.parameters.iter().zip(&arguments) {
            match *formal {
                Formal::Registers(ref pieces) => self.receive(pieces, bytes),
                Formal::Open { offset } => self.lay(self.frame + offset, bytes)?,
                Formal::Frame {
                    offset,
                    bytes: size,
                } => {
                    let size = (size as usize).min(bytes.len());
                    self.lay(self.frame + offset, &bytes[..size])?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn return_to_caller(&mut self, world: &mut World<'_>) -> Result<(), FaultKind> {
        let code = &world.code[self.function];
        let Some(frame) = self.frames.pop() else {
            self.finish_copies(None, world)?;
            self.state = State::Ended;
            return Ok(());
        };
        let values: Vec<Vec<Option<u8>>> = code
            .returns
            .iter()
            .map(|formal| match *formal {
                Formal::Registers(ref pieces) => {
                    pieces.iter().flat_map(|piece| self.held(piece)).collect()
                }
                Formal::Frame { offset, bytes } => {
                    self.local.take(self.frame + offset, bytes as usize)
                }
                Formal::Open { .. } => Vec::new(),
            })
            .collect();
        self.registers.truncate(self.base);
        if let Some(written) = &mut self.written {
            written.truncate(self.base);
        }
        self.base = frame.registers;
        self.frame = frame.frame;
        self.stack = frame.stack;
        self.function = frame.function;
        self.pc = frame.pc;
        let Action::Call(call) = &world.code[self.function].steps[self.pc].action else {
            return Err(FaultKind::Undefined("a return to no call".into()));
        };
        self.pc += 1;
        self.take_results(&call.results, &values)
    }

    fn take_results(
        &mut self,
        results: &[Returned],
        values: &[Vec<Option<u8>>],
    ) -> Result<(), FaultKind> {
        for (result, bytes) in results.iter().zip(values) {
            match *result {
                Returned::Registers(ref pieces) => self.receive(pieces, bytes),
                Returned::Frame {
                    offset,
                    bytes: size,
                } => {
                    let size = (size as usize).min(bytes.len());
                    self.lay(self.frame + offset, &bytes[..size])?;
                }
                Returned::Nothing => {}
            }
        }
        Ok(())
    }

    /// The bytes of a slot.
    fn held(&self, piece: &Piece) -> Vec<Option<u8>> {
        let at = self.base + piece.slot as usize;
        match &self.written {
            Some(written) if !written[at] => vec![None; piece.bytes as usize],
            _ => written(self.registers[at], piece.bytes as usize),
        }
    }

    /// Slots get a value that was passed, in order. What it has no bytes for counts as never written.
    fn receive(&mut self, pieces: &[Piece], mut bytes: &[Option<u8>]) {
        for piece in pieces {
            let own;
            (own, bytes) = bytes.split_at(bytes.len().min(piece.bytes as usize));
            let known: Option<Vec<u8>> = own.iter().copied().collect();
            let known = known.filter(|known| !known.is_empty());
            match (known, &mut self.written) {
                (Some(known), _) => self.write(
                    Destination {
                        slot: piece.slot,
                        mask: piece.mask,
                        signed_bits: None,
                    },
                    little_endian(&known),
                ),
                (None, Some(written)) => written[self.base + piece.slot as usize] = false,
                (None, None) => {}
            }
        }
    }

    /// Local memory gets a value that was passed.
    fn lay(&mut self, place: u64, bytes: &[Option<u8>]) -> Result<(), FaultKind> {
        let failed = |problem| access("write", Space::Local, place, bytes.len(), problem);
        self.local.lay(place, bytes).map_err(failed)?;
        Ok(())
    }
}

/// The first bytes of a value.
fn written(value: u64, bytes: usize) -> Vec<Option<u8>> {
    value.to_le_bytes()[..bytes.min(8)]
        .iter()
        .copied()
        .map(Some)
        .collect()
}
