//! Why a function has no bytes.

use orias_ori::Level;
use orias_sass::EncodeError;

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
    #[error("{function}, `{inst}`: the word {word:#034x} reads as something else")]
    Mismatch {
        /// The function.
        function: String,
        /// The instruction.
        inst: String,
        /// The word.
        word: u128,
    },
    /// A pseudo-instruction that cannot be taken apart.
    #[error("{function}, `{inst}`: {why}")]
    Pseudo {
        /// The function.
        function: String,
        /// The pseudo-instruction.
        inst: String,
        /// What is in the way.
        why: String,
    },
    /// A control field that is not there when bytes are made.
    #[error("{function}, `{inst}`: the control field is not known")]
    Unscheduled {
        /// The function.
        function: String,
        /// The instruction.
        inst: String,
    },
}
