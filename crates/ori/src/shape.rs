//! The shape of an instruction: all that its own checks look at, where that is little.
//!
//! Programs have many instructions and few shapes: an addition of two words is right or wrong whichever values it adds. So the builder
//! checks one instruction of a shape and takes the next one as it is. What the checks look at closer than a shape tells (addresses, jumps,
//! calls, guards and what they keep, physical registers) has no shape and is checked each time.

use crate::function::{Function, Level};
use crate::instruction::Operation;
use crate::operand::Operand;
use crate::operation::AbstractOp;
use crate::register::{Reg, RegKind};

/// Operation, modifiers, level, and the kind of each operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InstructionShape {
    operation: u64,
    mods: u64,
    /// The kinds of the operands, 16 bits each; no kind is zero.
    kinds: (u64, u64),
}

/// How many operands a shape has room for.
const PLACES: usize = 8;

impl InstructionShape {
    /// The shape of an instruction without a guard, if it has one. The first `results` operands of an abstract one are results.
    #[inline]
    pub fn of(
        func: &Function,
        operation: Operation,
        results: usize,
        operands: &[Operand],
    ) -> Option<InstructionShape> {
        if !func.level.is_ssa() || operands.len() > PLACES {
            return None;
        }
        let (operation, mods) = match operation {
            Operation::Abstract(AbstractOp::Ret | AbstractOp::Call, _) => return None,
            Operation::Abstract(op, mods) => (op as u64, mods.bits()),
            Operation::Machine(op, mods) => (op.index() as u64 | 1 << 16, mods.bits()),
        };
        let mut kinds = [0; 2];
        for (place, &operand) in operands.iter().enumerate() {
            kinds[place / 4] |= u64::from(kind(func, operand)?) << (16 * (place % 4));
        }
        let level = match func.level {
            Level::Abstract => 0,
            _ => 1 << 17,
        };
        Some(InstructionShape {
            operation: operation | level | (results as u64) << 20,
            mods,
            kinds: (kinds[0], kinds[1]),
        })
    }
}

/// What checks see of an operand: never zero.
#[inline]
fn kind(func: &Function, operand: Operand) -> Option<u16> {
    Some(match operand {
        Operand::Reg { reg, mods } => register(func, reg)? | u16::from(mods.bits()) << 8,
        Operand::None => 1,
        // By how many bits there are, the sign included or not.
        Operand::Imm(imm) => match imm.bits() {
            0..=1 => 2,
            2..=0xffff_ffff => 3,
            bits if bits as i64 >= i64::from(i32::MIN) => 4,
            _ => 5,
        },
        Operand::Const { mods, index, .. } if index.get().is_none() => {
            6 | u16::from(mods.bits()) << 8
        }
        _ => return None,
    })
}

/// Class and length of a register that is a value or always reads the same.
#[inline]
fn register(func: &Function, reg: Reg) -> Option<u16> {
    let (ty, constant) = match reg.kind() {
        RegKind::Value(value) => (func.value_type(value), 0),
        RegKind::Phys(phys) if phys.is_constant() => (phys.ty(), 1 << 3),
        RegKind::Phys(_) => return None,
    };
    let len = u16::from(ty.len());
    (len < 8).then_some(1 << 7 | (ty.class() as u16) << 4 | constant | len)
}
