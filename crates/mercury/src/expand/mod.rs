//! MercExpandInstructions (118): pseudo-instructions become instructions.
//!
//! A walk over the nodes; each pseudo-instruction goes to the handler of its class, which puts new nodes in front of it and has it
//! removed. New nodes have its source location, say that expansion made them, and have no control field yet: opex (120) gives them
//! one.
//!
//! | class | what it meets | what becomes of it |
//! | --- | --- | --- |
//! | general | copies of registers at once, of any number and class | moves, in an order that reads before it overwrites |
//! | complex | exchanges, and copies that go round in a circle | three exclusive ors, without a spare register |
//! | memory | loads and stores whose data is a list of registers | one access for each piece the converter found |
//! | atomic | atomics whose result nobody wants | the reduction |
//! | texture | operations of no size whose operands are a list: texture accesses | not supported yet: those that are compiled have registers |
//! | control flow | calls of subroutines in the function | the return address as an offset, and the call |
//!
//! The clean-up at the end takes out moves of a register to itself and fails where a pseudo-instruction is left. Linear in the number
//! of nodes made.

mod control;
mod copies;
mod memory;

use crate::error::EmitError;
use crate::stream::{Body, Fixup, Node, NodeData, Origin, Pseudo, Stream};
use orias_sass::{EncodeError, Instruction, Op, Operand};
use smallvec::SmallVec;

/// The classes of the table above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpansionClass {
    /// Copies.
    General,
    /// Exchanges.
    Complex,
    /// Loads and stores.
    Memory,
    /// Atomics.
    Atomic,
    /// Texture accesses.
    Texture,
    /// Calls.
    ControlFlow,
}

/// An instruction a handler makes, and what it waits for.
pub(crate) struct Made {
    instruction: Instruction,
    fixups: SmallVec<[Fixup; 1]>,
}

impl Made {
    fn plain(instruction: Instruction) -> Made {
        Made {
            instruction,
            fixups: SmallVec::new(),
        }
    }
}

/// Why a handler gives up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0}")]
    Because(String),
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

type Expansion = Result<Vec<Made>, Refusal>;

/// The handler of a class.
type Handler = fn(&Stream, &NodeData, &Pseudo) -> Expansion;

const HANDLERS: [(ExpansionClass, Handler); 6] = [
    (ExpansionClass::General, copies::expand_copy),
    (ExpansionClass::Complex, copies::expand_swap),
    (ExpansionClass::Memory, memory::expand_access),
    (ExpansionClass::Atomic, memory::expand_atomic),
    (ExpansionClass::Texture, memory::expand_texture),
    (ExpansionClass::ControlFlow, control::expand_call),
];

/// The class of a pseudo-instruction.
pub fn class_of(pseudo: &Pseudo) -> ExpansionClass {
    match pseudo {
        Pseudo::Copy { .. } => ExpansionClass::General,
        Pseudo::Swap { .. } => ExpansionClass::Complex,
        Pseudo::Call { .. } => ExpansionClass::ControlFlow,
        Pseudo::Group { instruction, .. } => memory::class_of(instruction),
    }
}

/// Runs the phase.
pub fn expand(stream: &mut Stream) -> Result<(), EmitError> {
    for segment in stream.segments() {
        let mut at = stream.first(segment);
        let end = stream.end(segment);
        while at != end {
            let node = at;
            at = stream.next(node).unwrap_or(end);
            if matches!(stream.node(node).body, Body::Pseudo(_)) {
                expand_node(stream, node)?;
            }
        }
    }
    finish(stream)
}

fn expand_node(stream: &mut Stream, node: Node) -> Result<(), EmitError> {
    stream.note("EXPANDING", node);
    let data = stream.node(node);
    let Body::Pseudo(pseudo) = &data.body else {
        return Ok(());
    };
    let class = class_of(pseudo);
    let handler = HANDLERS.iter().find(|(of, _)| *of == class);
    let made = match handler {
        Some((_, handler)) => handler(stream, data, pseudo),
        None => Err(Refusal::Because(format!("{class:?} has no handler"))),
    };
    let made = made.map_err(|refusal| EmitError::Pseudo {
        function: stream.name.clone(),
        inst: stream.print_node(node),
        why: refusal.to_string(),
    })?;
    let (span, inst) = (data.span, data.inst);
    for Made {
        instruction,
        fixups,
    } in made
    {
        let mut new = NodeData::new(Body::Machine(instruction), Origin::Expansion);
        new.span = span;
        new.inst = inst;
        new.fixups = fixups;
        stream.insert_before(node, new);
    }
    stream.remove(node);
    Ok(())
}

/// The clean-up.
fn finish(stream: &mut Stream) -> Result<(), EmitError> {
    for segment in stream.segments() {
        let nodes: Vec<Node> = stream.nodes(segment).collect();
        for node in nodes {
            let data = stream.node(node);
            match &data.body {
                Body::Pseudo(_) => {
                    return Err(EmitError::Pseudo {
                        function: stream.name.clone(),
                        inst: stream.print_node(node),
                        why: "it is still there after expansion".to_owned(),
                    });
                }
                Body::Machine(instruction)
                    if data.origin == Origin::Expansion && moves_to_itself(instruction) =>
                {
                    stream.remove(node);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn moves_to_itself(instruction: &Instruction) -> bool {
    let operands = instruction.operands();
    matches!(instruction.op(), Op::MOV | Op::UMOV)
        && operands.len() >= 2
        && matches!((operands[0], operands[1]), (Operand::Register(to), Operand::Register(from)) if to == from)
}
