//! The instruction set of NVIDIA GPUs: one table from which encoder, decoder, assembler and disassembler come.
//!
//! **For:** the shape of machine instructions: operations, their forms, operands and modifiers, what each reads and
//! writes, and the 128-bit words that stand for them, control fields included.
//!
//! **May know:** bits, text and the effects an operation has on registers and memory.
//!
//! **Must never know:** time (latencies, pipes and limits are `machine`'s), what an operation computes (`eval`'s), the
//! container, or any IR.
//!
//! The rows are text files in `tables/`, compiled by the build script; `docs/add-an-instruction.md` explains the
//! notation. An [`Op`] is a row; an [`Instruction`] is an operation with operands, modifiers, guard and control field that
//! fit one of the row's encoding forms.
//!
//! ```
//! use orias_sass::{Instruction, Op, Operand, Target, decode, encode};
//!
//! let add = Instruction::build(Op::IADD3)
//!     .operands([Operand::r(4), Operand::p(7), Operand::p(7)])
//!     .operands([Operand::r(2), Operand::imm32(1), Operand::r(255)])
//!     .finish(Target::Sm90a)?;
//! let word = encode(&add)?;
//! assert_eq!(decode(word, Target::Sm90a).as_ref(), Ok(&add));
//! # Ok::<(), orias_sass::EncodeError>(())
//! ```

// No input may panic (CONTRIBUTING.md, Conventions).
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod access;
mod builder;
mod control;
mod decode;
mod encode;
mod fit;
mod instruction;
mod modifier;
mod op;
mod operand;
mod register;
pub mod special;
mod table;
mod target;
pub mod text;

pub use access::{AddressWidths, RegisterAccess};
pub use builder::Builder;
pub use control::{Barrier, Control, ControlError, WaitMask};
pub use decode::{BitSet, DecodeError, decode, reads_as};
pub use encode::encode;
pub use instruction::{EncodeError, Guard, Instruction, OperandMismatch, Variant};
pub use modifier::{Modifier, ModifierName, ModifierValue, ValueName};
pub use op::{Mnemonic, Mods, OPERATIONS, Op, modifier_names, modifier_values, slot_names};
pub use operand::{
    Address, BaseKind, Constant, ConstantBank, Operand, Operands, RegisterOperand, SourceModifiers,
};
pub use register::{Register, RegisterClass};
pub use table::*;
pub use target::{Target, TargetSet};
