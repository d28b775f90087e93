//! MercGenerateSassUCode (122): a stream becomes bytes.
//!
//! Two walks over the blocks. The first gives every block its address: an instruction takes 16 bytes. The second encodes: a named
//! block becomes a distance from the end of its instruction, a name outside the function a [`Relocation`]. Words are those
//! that 117 left, or are encoded, decoded and compared here: what a position changed was not seen before.
//!
//! Nothing is decided here. The order of blocks is the layout's, and nothing is inserted but the NOPs that fill the code up to
//! [`crate::ALIGNMENT`]. The self-branch that stands behind the last exit, so that the instruction fetch never runs into nothing,
//! is an ordinary block of the function.

use crate::convert::convert;
use crate::error::EmitError;
use crate::expand::expand;
use crate::stream::{Body, Fixup, Node, NodeData, Reference, Segment, Stream};
use crate::words::{encode_and_decode, word};
use crate::{ALIGNMENT, WORD};
use orias_ori::{Function, Inst, Span, SymbolPart};
use orias_sass::{self as sass, EncodeError, Instruction, Op, Operand, PlaceKind, Target};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The code of a function and what its container must know about it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Code {
    /// The words, low byte first, and the NOPs behind them.
    pub bytes: Vec<u8>,
    /// The instructions in order: the one at offset `16 * n` is number `n`.
    pub placed: Vec<Placed>,
    /// Where the address of a name is to be written.
    pub relocations: Vec<Relocation>,
    /// Where indirect branches may go.
    pub indirect: Vec<IndirectTargets>,
}

/// An instruction of finished code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// What it does.
    pub op: Op,
    /// The instruction of the function it comes from; nothing for what Mercury added.
    pub inst: Option<Inst>,
    /// Where in the source it comes from.
    pub span: Option<Span>,
}

/// A field of an instruction that gets the address of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// Offset of the instruction.
    pub offset: u32,
    /// The name.
    pub symbol: String,
    /// What is added to its address.
    pub addend: i64,
    /// What is written, and where.
    pub patch: Patch,
}

/// What a relocation writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patch {
    /// Part of the address itself, from this bit of the word on.
    Address {
        /// Which part.
        part: SymbolPart,
        /// The first bit.
        first_bit: u8,
        /// How many bits.
        bits: u8,
    },
    /// The offset in a constant bank, in bytes from this bit of the word on.
    Bank {
        /// The first bit.
        first_bit: u8,
    },
    /// The distance from the end of the instruction, as a branch has it.
    Distance,
    /// The address as an absolute branch has it.
    Branch,
}

/// An indirect branch and the offsets it may go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndirectTargets {
    /// Offset of the branch.
    pub offset: u32,
    /// Offsets of its targets, in the order of its edges.
    pub targets: Vec<u32>,
}

/// The word that fills code up.
pub(crate) fn padding(target: Target) -> Result<u128, EncodeError> {
    sass::encode(&Instruction::build(sass::Op::NOP).finish(target)?)
}

/// Converts and encodes a function of the final level in one go. Its text form and this code say the same: [`crate::lift`] gives the
/// function back.
pub fn emit(func: &Function) -> Result<Code, EmitError> {
    let mut stream = convert(func)?;
    encode_and_decode(&mut stream, true)?;
    expand(&mut stream)?;
    generate(&stream)
}

/// Runs phase 122.
pub fn generate(stream: &Stream) -> Result<Code, EmitError> {
    let mut code = Code::default();
    let mut starts: Vec<u32> = Vec::new();
    let mut count = 0;
    for segment in stream.segments() {
        starts.push((count * WORD) as u32);
        count += stream.nodes(segment).count();
    }
    code.bytes.reserve(count * WORD + 2 * ALIGNMENT);
    code.placed.reserve(count);
    let indirect: BTreeMap<Node, &[Segment]> = (stream.indirect.iter())
        .map(|(branch, targets)| (*branch, targets.as_slice()))
        .collect();
    for segment in stream.segments() {
        for node in stream.nodes(segment) {
            encode(stream, node, &starts, &mut code)?;
            if let Some(targets) = indirect.get(&node) {
                let targets = targets.iter().map(|to| starts[to.as_u32() as usize]);
                code.indirect.push(IndirectTargets {
                    offset: ((code.placed.len() - 1) * WORD) as u32,
                    targets: targets.collect(),
                });
            }
        }
    }
    if !code.bytes.is_empty() {
        let fill = padding(stream.target).map_err(|error| EmitError::Encode {
            function: stream.name.clone(),
            offset: code.bytes.len(),
            inst: "NOP".to_owned(),
            error,
        })?;
        let end = code.bytes.len().next_multiple_of(ALIGNMENT) + ALIGNMENT;
        while code.bytes.len() < end {
            code.bytes.extend_from_slice(&fill.to_le_bytes());
        }
    }
    Ok(code)
}

fn encode(stream: &Stream, node: Node, starts: &[u32], code: &mut Code) -> Result<(), EmitError> {
    let offset = code.placed.len() * WORD;
    let data = stream.node(node);
    let Body::Machine(meant) = &data.body else {
        return Err(EmitError::Pseudo {
            function: stream.name.clone(),
            inst: stream.print_node(node),
            why: "a pseudo-instruction has no encoding".to_owned(),
        });
    };
    if !data.schedule.known {
        return Err(EmitError::Unscheduled {
            function: stream.name.clone(),
            inst: stream.print_node(node),
        });
    }
    let mut placed = Cow::Borrowed(meant);
    for fixup in &data.fixups {
        position(stream, node, fixup, starts, offset, &mut placed)?;
    }
    let kept = match placed {
        Cow::Borrowed(_) => stream.word(node),
        Cow::Owned(_) => None,
    };
    let word = match kept {
        Some(word) => word,
        None => word(&placed, stream.target).map_err(|error| error.at(stream, node, offset))?,
    };
    code.bytes.extend_from_slice(&word.to_le_bytes());
    let relocations = data.fixups.iter();
    code.relocations
        .extend(relocations.filter_map(|fixup| relocation(stream, meant, fixup, offset)));
    code.placed.push(Placed {
        op: meant.op(),
        inst: data.inst.expand(),
        span: data.span.expand(),
    });
    Ok(())
}

/// Writes what a position tells into an instruction.
fn position(
    stream: &Stream,
    node: Node,
    fixup: &Fixup,
    starts: &[u32],
    offset: usize,
    placed: &mut Cow<'_, Instruction>,
) -> Result<(), EmitError> {
    let wrong = |error| EmitError::Encode {
        function: stream.name.clone(),
        offset,
        inst: stream.print_node(node),
        error,
    };
    let slot = usize::from(fixup.slot);
    match fixup.to {
        Reference::Symbol { .. } => Ok(()),
        Reference::Block(to) => {
            let start = i64::from(starts[to.as_u32() as usize]);
            let distance = start - (offset + WORD) as i64;
            let op = placed.op();
            let moved = placed.to_mut().set_target(distance);
            moved.map_err(|reason| {
                wrong(EncodeError::Operand {
                    op,
                    slot: op.row().slots[slot].name,
                    reason,
                })
            })
        }
        Reference::Return => {
            let behind = offset + distance_behind_call(stream, node) * WORD;
            let mut operands = placed.operands().to_vec();
            operands[slot] = Operand::Immediate(behind as u64);
            let (op, guard, mods) = (placed.op(), placed.guard(), placed.mods());
            let mut made =
                Instruction::new(op, guard, mods, operands, stream.target).map_err(wrong)?;
            made.control = placed.control;
            *placed = Cow::Owned(made);
            Ok(())
        }
    }
}

/// How many instructions further on the place behind the next call is.
fn distance_behind_call(stream: &Stream, node: Node) -> usize {
    let mut at = Some(node);
    let mut count = 0;
    while let Some(node) = at {
        count += 1;
        let calls = |data: &NodeData| {
            let effects = data.instruction().map(|found| found.op().row().effects);
            effects.is_some_and(|effects| effects.contains(sass::Effects::CALL))
        };
        if calls(stream.node(node)) {
            break;
        }
        at = stream.next(node);
    }
    count
}

/// The relocation for a name.
fn relocation(
    stream: &Stream,
    meant: &Instruction,
    fixup: &Fixup,
    offset: usize,
) -> Option<Relocation> {
    let Reference::Symbol { name, part, addend } = fixup.to else {
        return None;
    };
    let field = |field: sass::Field| Patch::Address {
        part,
        first_bit: field.runs[0].0,
        bits: field.len(),
    };
    let patch = match &meant.form().places[usize::from(fixup.slot)].kind {
        PlaceKind::Target { absolute: true, .. } => Patch::Branch,
        PlaceKind::Target { .. } => Patch::Distance,
        PlaceKind::Immediate { field: place, .. } => field(*place),
        PlaceKind::Address(shape) => field(shape.offset),
        // The lowest bits of what counts words are zero.
        PlaceKind::Constant(shape) => Patch::Bank {
            first_bit: shape.offset.runs[0].0 - shape.scale.trailing_zeros() as u8,
        },
        _ => return None,
    };
    Some(Relocation {
        offset: offset as u32,
        symbol: stream.names[name].clone(),
        addend,
        patch,
    })
}
