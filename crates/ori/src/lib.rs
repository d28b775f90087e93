//! Ori, the intermediate representation: entities, instructions, control-flow graph, text form, verifier and analyses.
//!
//! **For:** holding a function from lowering to the last byte, in one form that prints, parses back equal, and is checked
//! between any two phases.
//!
//! **May know:** `sass`, whose operations are Ori's machine operations.
//!
//! **Must never know:** PTX, latencies, or which phases exist.
//!
//! Start with [`Function`]; `docs/ir.md` explains the IR with examples.

pub mod analysis;
pub mod builder;
mod control;
mod entity;
mod equality;
mod function;
mod instruction;
mod layout;
pub mod machine;
mod module;
mod operand;
pub mod operation;
pub mod parallel_copy;
mod register;
mod shape;
mod text;
pub mod verify;

pub use control::ControlWord;
pub use entity::{AddressId, Block, Edge, Inst, Span, Symbol, Value};
pub use function::{
    Attributes, Function, FunctionKind, KernelParam, Level, Location, SharedSpills, ValueDef,
};
pub use instruction::{InstData, Opcode, Operation};
pub use layout::{Insts, Layout};
pub use module::Module;
pub use operand::{Address, BaseForm, Imm, Operand, SourceMods, SymbolPart};
pub use operation::{AbstractMods, AbstractOp, Effects};
pub use register::{Class, Guard, OptReg, PhysReg, Reg, RegKind, Type};
pub use shape::InstructionShape;
pub use text::{ParseError, parse_function, parse_module, print_function, print_inst};
pub use verify::{VerifyError, verify_function, verify_module};

#[cfg(test)]
mod sizes {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn hot_types_keep_their_sizes() {
        assert_eq!(size_of::<Operand>(), 12);
        assert_eq!(size_of::<InstData>(), 48);
        assert_eq!(size_of::<Reg>(), 4);
        assert_eq!(size_of::<OptReg>(), 4);
        assert_eq!(size_of::<Guard>(), 4);
        assert_eq!(size_of::<ControlWord>(), 4);
        assert_eq!(size_of::<Type>(), 2);
        assert_eq!(size_of::<Opcode>(), 4);
        assert_eq!(size_of::<Address>(), 24);
    }
}
