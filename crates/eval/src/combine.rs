//! What the copy engine does when it combines what it brings with what memory holds.

use crate::float::compare::{Extreme, extreme};
use crate::float::{Arithmetic, Format};
use crate::tensor::Element;

/// How two elements become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combination {
    /// The sum.
    Add,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// One more, or zero from the operand on.
    Inc,
    /// One less, or the operand below one and above itself.
    Dec,
    /// Bits set in both.
    And,
    /// Bits set in either.
    Or,
    /// Bits set in one.
    Xor,
}

/// The floating-point format of an element, and whether subnormal numbers are flushed.
const fn format(element: Element) -> Option<(Format, bool)> {
    Some(match element {
        Element::Unsigned(_) | Element::Signed(_) => return None,
        Element::F16 => (Format::F16, false),
        Element::Bf16 => (Format::BF16, false),
        Element::F32 { flushed } | Element::Tf32 { flushed } => (Format::F32, flushed),
        Element::F64 => (Format::F64, false),
    })
}

/// What is stored for what was there and what is brought; none where there is no such operation on such elements.
#[must_use]
pub fn combine(how: Combination, element: Element, old: u64, brought: u64) -> Option<u64> {
    let bits = 8 * element.bytes();
    let mask = u64::MAX >> (64 - bits);
    if let Some((format, flush)) = format(element) {
        let arithmetic = Arithmetic {
            flush,
            ..Arithmetic::plain(format)
        };
        return Some(match how {
            Combination::Add => arithmetic.add(old, brought),
            Combination::Min => extreme(format, old, brought, Extreme::Minimum, false),
            Combination::Max => extreme(format, old, brought, Extreme::Maximum, false),
            _ => return None,
        });
    }
    let up = 64 - bits;
    let less = match element {
        Element::Signed(_) => (old << up).cast_signed() < (brought << up).cast_signed(),
        _ => old < brought,
    };
    let (smaller, larger) = if less { (old, brought) } else { (brought, old) };
    let new = match how {
        Combination::Add => old.wrapping_add(brought),
        Combination::Min => smaller,
        Combination::Max => larger,
        Combination::Inc if old >= brought => 0,
        Combination::Inc => old + 1,
        Combination::Dec if old == 0 || old > brought => brought,
        Combination::Dec => old - 1,
        Combination::And => old & brought,
        Combination::Or => old | brought,
        Combination::Xor => old ^ brought,
    };
    Some(new & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_combining() {
        let word = |how, old, brought| combine(how, Element::Unsigned(4), old, brought);
        assert_eq!(word(Combination::Add, 0xffff_ffff, 2), Some(1));
        assert_eq!(word(Combination::Inc, 3, 3), Some(0));
        assert_eq!(word(Combination::Inc, 2, 3), Some(3));
        assert_eq!(word(Combination::Dec, 0, 9), Some(9));
        assert_eq!(word(Combination::Min, 0xffff_ffff, 2), Some(2));
        let signed = combine(Combination::Min, Element::Signed(4), 0xffff_ffff, 2);
        assert_eq!(signed, Some(0xffff_ffff));
        let halves = combine(Combination::Add, Element::F16, 0x3c00, 0x4000);
        assert_eq!(halves, Some(0x4200));
        assert_eq!(combine(Combination::And, Element::F16, 0, 0), None);
    }
}
