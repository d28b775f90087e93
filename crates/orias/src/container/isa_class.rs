//! `ISA_CLASS` of `.nv.compat`: which kinds of instructions a module has.
//!
//! ptxas writes 4 for a module with matrix operations, 2 for one with copies that an mbarrier counts, 8-bit floating point or a change of the
//! register count, and 1 for all others. The driver does not mind; compute-sanitizer patches code by it.

use super::text::Text;
use orias_sass::{Mnemonic, Op, Target, decode, modifier_names as name, modifier_values as value};

/// What most modules have.
pub(super) const PLAIN: u8 = 1;
const ASYNCHRONOUS: u8 = 2;
const MATRIX: u8 = 4;

const MATRIX_OPERATIONS: [Mnemonic; 8] = [
    Mnemonic::HMMA,
    Mnemonic::IMMA,
    Mnemonic::DMMA,
    Mnemonic::BMMA,
    Mnemonic::HGMMA,
    Mnemonic::IGMMA,
    Mnemonic::QGMMA,
    Mnemonic::BGMMA,
];

/// The class of a kernel whose code is `bytes`.
pub(super) fn of(text: &Text<'_>, bytes: &[u8], target: Target) -> u8 {
    if !text
        .offsets(|op| MATRIX_OPERATIONS.contains(&op.mnemonic()))
        .is_empty()
    {
        return MATRIX;
    }
    let asynchronous = text.offsets(|op| {
        op.mnemonic() == Mnemonic::UTMALDG
            || matches!(
                op,
                Op::USETMAXREG_DEALLOC
                    | Op::USETMAXREG_TRY_ALLOC
                    | Op::F2FP_UNPACK_B
                    | Op::F2FP_UNPACK_B_MERGE_C
                    | Op::F2FP_PACK_AB_MERGE_C
            )
    });
    // Of plain bulk copies only those from global to shared memory count.
    let copies = text.offsets(|op| op.mnemonic() == Mnemonic::UBLKCP);
    let to_shared = |&at: &u32| {
        let word = bytes.get(at as usize..at as usize + 16);
        let word = word.and_then(|word| word.try_into().ok());
        let instruction = word.and_then(|word| decode(u128::from_le_bytes(word), target).ok());
        instruction.is_some_and(|it| {
            (it.modifier(name::FROM), it.modifier(name::TO)) == (Some(value::G), Some(value::S))
        })
    };
    match asynchronous.is_empty() && !copies.iter().any(to_shared) {
        true => PLAIN,
        false => ASYNCHRONOUS,
    }
}
