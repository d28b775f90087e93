//! MercEncodeAndDecode (117) and MercGenerateSassUCode (122): final Ori to bytes.
//!
//! Two walks over the layout. The first gives every block its address: an instruction takes 16 bytes, `next` none. The second
//! encodes: a jump or a named block becomes a distance from the end of its instruction, a name outside the function a
//! [`Relocation`]. Each word is decoded again at once and compared with what was meant, control field included; a difference is
//! an error of the tables, found here rather than on the chip.
//!
//! Nothing is decided here. The order of blocks is the layout's, falling through must go to the next block (the verifier
//! checks it), and nothing is inserted but the NOPs that fill the code up to [`crate::ALIGNMENT`]. The self-branch that stands
//! behind the last exit, so that the instruction fetch never runs into nothing, is an ordinary block of the function.

use crate::{ALIGNMENT, WORD};
use cranelift_entity::SecondaryMap;
use orias_ori::{
    AbstractOp, Block, Function, Inst, Level, Opcode, Operand, SymbolPart, machine, print_inst,
};
use orias_sass::{self as sass, EncodeError, Instruction, PlaceKind, Target};

/// The code of a function and what its container must know about it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Code {
    /// The words, low byte first, and the NOPs behind them.
    pub bytes: Vec<u8>,
    /// The instructions in order: the one at offset `16 * n` is number `n`.
    pub placed: Vec<Inst>,
    /// Where the address of a name is to be written.
    pub relocations: Vec<Relocation>,
    /// Where indirect branches may go.
    pub indirect: Vec<IndirectTargets>,
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

/// Why a function has no bytes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmitError {
    /// The function is not finished.
    #[error("{function} is {}, not final", level.name())]
    Level {
        /// The function.
        function: String,
        /// Its level.
        level: Level,
    },
    /// There is no instruction table for its target.
    #[error("there is no instruction table for {0}")]
    Target(String),
    /// An operation that stands for no instruction.
    #[error("{function}, `{inst}`: the operation has no encoding")]
    Abstract {
        /// The function.
        function: String,
        /// The instruction.
        inst: String,
    },
    /// An instruction that cannot be encoded where it stands.
    #[error("{function}+{offset:#x}, `{inst}`: {error}")]
    Encode {
        /// The function.
        function: String,
        /// Where it would be.
        offset: usize,
        /// The instruction.
        inst: String,
        /// Why not.
        error: EncodeError,
    },
    /// A word that reads as something else than it was made from.
    #[error("{function}+{offset:#x}, `{inst}`: the word {word:#034x} reads as something else")]
    Mismatch {
        /// The function.
        function: String,
        /// Where it is.
        offset: usize,
        /// The instruction.
        inst: String,
        /// The word.
        word: u128,
    },
}

/// The word that fills code up.
pub(crate) fn padding(target: Target) -> Result<u128, EncodeError> {
    sass::encode(&Instruction::build(sass::Op::NOP).finish(target)?)
}

/// Encodes a function of the final level. Its text form and this code say the same: [`crate::lift`] gives the function back.
pub fn emit(func: &Function) -> Result<Code, EmitError> {
    if func.level != Level::Final {
        return Err(EmitError::Level {
            function: func.name.clone(),
            level: func.level,
        });
    }
    let target =
        Target::from_name(&func.target).ok_or_else(|| EmitError::Target(func.target.clone()))?;
    let mut code = Code::default();
    let offsets = place(func, &mut code)?;
    code.bytes.reserve(code.placed.len() * WORD + 2 * ALIGNMENT);
    for number in 0..code.placed.len() {
        encode(func, target, number, &offsets, &mut code)?;
    }
    if !code.bytes.is_empty() {
        let fill = padding(target).map_err(|error| EmitError::Encode {
            function: func.name.clone(),
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

/// Gives every block its offset and lists the instructions in order.
fn place(func: &Function, code: &mut Code) -> Result<SecondaryMap<Block, u32>, EmitError> {
    let mut offsets = SecondaryMap::new();
    for block in func.blocks() {
        offsets[block] = (code.placed.len() * WORD) as u32;
        for inst in func.block_insts(block) {
            match func.opcode(inst) {
                Opcode::Machine(_) => code.placed.push(inst),
                Opcode::Abstract(AbstractOp::FallThrough) => {}
                Opcode::Abstract(_) => {
                    return Err(EmitError::Abstract {
                        function: func.name.clone(),
                        inst: print_inst(func, inst),
                    });
                }
            }
        }
    }
    Ok(offsets)
}

fn encode(
    func: &Function,
    target: Target,
    number: usize,
    offsets: &SecondaryMap<Block, u32>,
    code: &mut Code,
) -> Result<(), EmitError> {
    let inst = code.placed[number];
    let offset = number * WORD;
    let end = (offset + WORD) as i64;
    let mut names = Vec::new();
    let mut resolve = |slot: usize, operand: Operand| {
        let to = match operand {
            Operand::Edge(edge) => func
                .edges(inst)
                .get(edge as usize)
                .map(|&edge| func.edge_target(edge)),
            Operand::Block(block) => Some(block),
            _ => None,
        };
        if let Some(block) = to {
            return sass::Operand::Target(i64::from(offsets[block]) - end);
        }
        names.push((slot, operand));
        unlinked(func, inst, slot, operand)
    };
    let wrong = |error| EmitError::Encode {
        function: func.name.clone(),
        offset,
        inst: print_inst(func, inst),
        error,
    };
    let Some(meant) = machine::instruction(func, inst, target, &mut resolve) else {
        return Ok(());
    };
    let meant = meant.map_err(wrong)?;
    let word = sass::encode(&meant).map_err(wrong)?;
    if sass::decode(word, target).as_ref() != Ok(&meant) {
        return Err(EmitError::Mismatch {
            function: func.name.clone(),
            offset,
            inst: print_inst(func, inst),
            word,
        });
    }
    code.bytes.extend_from_slice(&word.to_le_bytes());
    for (slot, operand) in names {
        code.relocations
            .extend(relocation(func, &meant, slot, operand, offset));
    }
    let edges = func.edges(inst);
    let in_place = func.operands(inst).iter();
    let direct = in_place.filter(|operand| matches!(operand, Operand::Edge(_)));
    let row = meant.op().row();
    if direct.count() == 0
        && row
            .effects
            .contains(sass::Effects::TERMINATOR | sass::Effects::BRANCH)
    {
        let fall = machine::falls_through(func, inst);
        let targets = edges.iter().filter(|&&edge| Some(edge) != fall);
        code.indirect.push(IndirectTargets {
            offset: offset as u32,
            targets: targets
                .map(|&edge| offsets[func.edge_target(edge)])
                .collect(),
        });
    }
    Ok(())
}

/// What stands in the place of a name until it is linked: zero, of the kind the slot takes.
fn unlinked(func: &Function, inst: Inst, slot: usize, operand: Operand) -> sass::Operand {
    let op = func.opcode(inst).as_machine();
    let is_code = op.is_some_and(|op| machine::takes_target(op, slot));
    match operand {
        Operand::Symbol { .. } if is_code => sass::Operand::Target(0),
        _ => sass::Operand::Immediate(0),
    }
}

/// The relocation for a name in `slot`.
fn relocation(
    func: &Function,
    meant: &Instruction,
    slot: usize,
    operand: Operand,
    offset: usize,
) -> Option<Relocation> {
    let (symbol, part, addend) = match operand {
        Operand::Symbol {
            symbol,
            part,
            addend,
        } => (symbol, part, i64::from(addend)),
        Operand::Address(id) => {
            let address = func.address(id);
            (
                address.symbol.expand()?,
                SymbolPart::Whole,
                i64::from(address.offset),
            )
        }
        _ => return None,
    };
    let field = |field: sass::Field| Patch::Address {
        part,
        first_bit: field.runs[0].0,
        bits: field.len(),
    };
    let patch = match &meant.form().places[slot].kind {
        PlaceKind::Target { absolute: true, .. } => Patch::Branch,
        PlaceKind::Target { .. } => Patch::Distance,
        PlaceKind::Immediate { field: place, .. } => field(*place),
        PlaceKind::Address(shape) => field(shape.offset),
        _ => return None,
    };
    Some(Relocation {
        offset: offset as u32,
        symbol: func.symbol_name(symbol).to_owned(),
        addend,
        patch,
    })
}
