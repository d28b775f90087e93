//! Parameters that are kept in variables: loads and stores at offsets that are known.

use super::super::body::{Body, Lowered};
use crate::emit::imm;
use crate::ssa::Variable;
use orias_ori::operation::{AbstractOp, Scalar};
use orias_ori::{Operand, Value};
use orias_ptx::types::Type as PtxType;

/// Reads bytes of a parameter in variables: a load with an offset known now.
pub(in crate::lower) fn load_words(
    body: &mut Body<'_, '_>,
    first: Variable,
    offset: u32,
    ty: PtxType,
) -> Lowered<Operand> {
    let word = body.read(Variable(first.0 + offset / 4));
    match ty.bits() {
        64 | 128 => {
            let words: Vec<Value> = (0..ty.bits() / 32)
                .map(|index| body.read(Variable(first.0 + offset / 4 + index)))
                .collect();
            body.with(|emit| emit.collect(&words).into())
        }
        32 => Ok(word.into()),
        _ => match 8 * u64::from(offset % 4) {
            0 => Ok(word.into()),
            shift => body.with(|emit| emit.shr(Scalar::U32, word.into(), imm(shift))),
        },
    }
}

/// Writes bytes of a parameter in variables, under the guard.
pub(in crate::lower) fn store_words(
    body: &mut Body<'_, '_>,
    first: Variable,
    offset: u32,
    value: Operand,
    ty: PtxType,
) -> Lowered {
    let place = |word: u32| Variable(first.0 + offset / 4 + word);
    match ty.bits() {
        64 | 128 => {
            let value = body.in_registers(value, ty.bits())?;
            let words = body.with(|emit| emit.words(value))?;
            for (index, word) in (0..).zip(words) {
                body.write(place(index), word.into())?;
            }
            Ok(())
        }
        32 => body.write(place(0), value),
        narrow => {
            let old = body.read(place(0));
            let shift = imm(8 * u64::from(offset % 4));
            let inserted = body.compute(
                AbstractOp::Bfi,
                (Scalar::B32,),
                &[value, old.into(), shift, imm(u64::from(narrow))],
            )?;
            body.write(place(0), inserted)
        }
    }
}
