//! MercEncodeAndDecode (117), and the words it leaves for emission.
//!
//! Every instruction is encoded, decoded again and compared with what was meant, control field included: a difference is an error of
//! the tables, found here rather than on the chip. The word stays with its node until the node is changed: emission encodes only what it
//! or a later phase wrote anew.

use crate::error::EmitError;
use crate::stream::{Node, Stream};
use orias_sass::{self as sass, Instruction, Target};

/// The word of an instruction, compared with it.
pub(crate) fn word(instruction: &Instruction, target: Target) -> Result<u128, WordError> {
    let word = sass::encode(instruction).map_err(WordError::Encode)?;
    match sass::reads_as(word, instruction, target) {
        true => Ok(word),
        false => Err(WordError::Mismatch(word)),
    }
}

/// Why an instruction has no word.
pub(crate) enum WordError {
    Encode(sass::EncodeError),
    Mismatch(u128),
}

impl WordError {
    pub(crate) fn at(self, stream: &Stream, node: Node, offset: usize) -> EmitError {
        let function = stream.name.clone();
        let inst = stream.print_node(node);
        match self {
            WordError::Encode(error) => EmitError::Encode {
                function,
                offset,
                inst,
                error,
            },
            WordError::Mismatch(word) => EmitError::Mismatch {
                function,
                inst,
                word,
            },
        }
    }
}

/// Runs phase 117: every instruction of the stream is encoded, decoded and compared. With `keep` emission does not do it again.
pub fn encode_and_decode(stream: &mut Stream, keep: bool) -> Result<(), EmitError> {
    if keep {
        stream.make_room_for_words();
    }
    for segment in stream.segments() {
        let mut at = stream.first(segment);
        let end = stream.end(segment);
        while at != end {
            stream.note("ENCODING", at);
            if let Some(instruction) = stream.node(at).instruction() {
                let word =
                    word(instruction, stream.target).map_err(|error| error.at(stream, at, 0))?;
                stream.keep_word(at, word);
            }
            at = stream.next(at).unwrap_or(end);
        }
    }
    Ok(())
}
