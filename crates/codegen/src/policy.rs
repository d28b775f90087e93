//! The fields of cache policies.
//!
//! A policy is a word of fields above a word of zeros. Its top twelve bits say what kind it is and which priorities it gives
//! ([`head`]), the other bits where: for fractions the lowest four of the twelve are sixteenths of the accesses; for ranges they are
//! the size of a piece, and below them are the number of the piece where the range starts and the count of pieces that have the
//! first priority.

use orias_ori::Operand;
use orias_ori::operation::{Evict, Modifier};

/// The kind of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A fraction of the accesses has the first priority.
    Fraction = 0x100,
    /// Addresses in a range have the first priority.
    Range = 0x180,
}

/// The lowest bit of a policy's twelve top bits in its upper word.
pub const HEAD: u32 = 20;

/// Kind and priorities, with room for four bits below; operands as `createpolicy` has them. None where one is no priority
/// that a policy can give.
pub fn head(kind: Kind, primary: Operand, secondary: Operand) -> Option<u32> {
    let (primary, secondary) = (priority(primary)?, priority(secondary)?);
    (secondary <= 1).then_some(kind as u32 | primary << 5 | secondary << 4)
}

/// The number of a priority in a policy.
fn priority(evict: Operand) -> Option<u32> {
    let Operand::Imm(number) = evict else {
        return None;
    };
    let evict = Evict::from_number(u8::try_from(number.bits()).ok()?)?;
    Some(match evict {
        Evict::Unchanged => 0,
        Evict::First => 1,
        Evict::Last => 2,
        Evict::Normal => 3,
        _ => return None,
    })
}
