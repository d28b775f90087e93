//! Calls of subroutines in the same function.
//!
//! `RET.REL` goes to an offset in a register pair, counted from an address it names. So a call writes the offset of the instruction
//! behind it, which only emission knows, to the pair's first register, zero to its second, and goes. A guard holds for the call
//! alone: the pair is the call's, whether it happens or not.

use super::{Expansion, Made, Refusal};
use crate::stream::{Fixup, NodeData, Pseudo, Reference, Stream};
use orias_sass::{
    Instruction, Op, Operand, Register, RegisterClass, modifier_names as name,
    modifier_values as value,
};
use smallvec::smallvec;

/// All four groups of lanes.
const ALL_LANES: u64 = 0xf;

pub(super) fn expand_call(stream: &Stream, data: &NodeData, pseudo: &Pseudo) -> Expansion {
    let Pseudo::Call { guard, link } = pseudo else {
        return Ok(Vec::new());
    };
    let Some(Fixup { to, .. }) = data.fixups.first() else {
        return Err(Refusal::Because("it goes nowhere".to_owned()));
    };
    if link.class != RegisterClass::R || link.is_constant() || link.index % 2 == 1 {
        return Err(Refusal::Because(format!(
            "{link} is not the first of a pair"
        )));
    }
    let set = |register: Register| {
        Instruction::build(Op::MOV)
            .operand(Operand::register(register))
            .operand(Operand::Immediate(0))
            .operand(Operand::Immediate(ALL_LANES))
            .finish(stream.target)
    };
    let call = Instruction::build(Op::CALL_REL)
        .modifier(name::INC, value::NOINC)
        .operand(Operand::register(Register::PT))
        .operand(Operand::Target(0))
        .guard(guard.predicate, guard.negated)
        .finish(stream.target)?;
    Ok(vec![
        Made {
            instruction: set(*link)?,
            fixups: smallvec![Fixup {
                slot: 1,
                to: Reference::Return,
            }],
        },
        Made::plain(set(link.after())?),
        Made {
            instruction: call,
            fixups: smallvec![Fixup { slot: 1, to: *to }],
        },
    ])
}
