//! Integer operations of any width up to 64 bits.

use super::compute::Operands;
use orias_eval::bits;
use orias_eval::integer::{self, Beyond};
use orias_ori::operation::{AbstractOp, Clamp, Direction, Half, Sat, Scalar, SourceType};

/// Whether a type has a sign.
pub(super) fn is_signed(scalar: Scalar) -> bool {
    matches!(
        scalar,
        Scalar::S2
            | Scalar::S4
            | Scalar::S8
            | Scalar::S16
            | Scalar::S32
            | Scalar::S64
            | Scalar::S16x2
    )
}

/// The number that the low bits of a pattern stand for.
pub(super) fn number(scalar: Scalar, bits: u128) -> i128 {
    let up = 128 - u32::from(scalar.bits());
    if is_signed(scalar) {
        ((bits << up) as i128) >> up
    } else {
        ((bits << up) >> up) as i128
    }
}

/// The least and the greatest number of a type.
pub(super) fn range(scalar: Scalar) -> (i128, i128) {
    let width = u32::from(scalar.bits());
    if is_signed(scalar) {
        (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    } else {
        (0, (1 << width) - 1)
    }
}

fn clamp(scalar: Scalar, number: i128) -> i128 {
    let (least, greatest) = range(scalar);
    number.clamp(least, greatest)
}

fn beyond(clamp: Clamp) -> Beyond {
    match clamp {
        Clamp::Clamp => Beyond::Clamp,
        Clamp::Wrap => Beyond::Wrap,
    }
}

impl Operands<'_> {
    /// Integer operations; `None` for what is none.
    pub(super) fn integer(&self) -> Option<Vec<u128>> {
        use AbstractOp as A;
        let scalar = self.scalar().unwrap_or(Scalar::B32);
        let width = u32::from(scalar.bits());
        let n = |index: usize| number(scalar, self.values[index]);
        let word = |index: usize| self.values[index] as u32;
        let sat: Sat = self.modifier().unwrap_or(Sat::Wrap);
        let limited = |value: i128| {
            if sat == Sat::Sat {
                clamp(scalar, value)
            } else {
                value
            }
        };
        let half = |product: i128, half: Half| match half {
            Half::Hi => product >> width,
            Half::Lo | Half::Wide => product,
        };
        // A product of two 64-bit numbers without sign needs all 128 bits.
        let product = |half_of: Half| match (half_of, width, is_signed(scalar)) {
            (Half::Hi, 64, false) => ((n(0) as u128 * n(1) as u128) >> 64) as i128,
            (_, 64, _) => half(n(0).wrapping_mul(n(1)), half_of),
            _ => half(n(0) * n(1), half_of),
        };
        if let Some(result) = self.packed_pair(scalar) {
            return Some(vec![result]);
        }
        let value = match self.op {
            A::Add => limited(n(0) + n(1)),
            A::Sub => limited(n(0) - n(1)),
            A::AddC => {
                let unsigned = |index: usize| self.values[index] & ((1 << width) - 1);
                let sum = unsigned(0) + unsigned(1) + (self.values[2] & 1);
                return Some(vec![sum, sum >> width]);
            }
            A::SubC => {
                let unsigned = |index: usize| (self.values[index] & ((1 << width) - 1)) as i128;
                let borrow = 1 - (self.values[2] & 1) as i128;
                let difference = unsigned(0) - unsigned(1) - borrow;
                return Some(vec![difference as u128, u128::from(difference >= 0)]);
            }
            A::Mul => product(self.modifier()?),
            A::Mad => {
                let half: Half = self.modifier()?;
                let third = match half {
                    Half::Wide => self.values[2] as i128,
                    _ => n(2),
                };
                limited(product(half).wrapping_add(third))
            }
            A::MadC => {
                let half: Half = self.modifier()?;
                let width = match half {
                    Half::Wide if width > 32 => return None,
                    Half::Wide => 2 * width,
                    Half::Lo | Half::Hi => width,
                };
                let mask = (1_u128 << width) - 1;
                let part = product(half) as u128 & mask;
                let sum = part + (self.values[2] & mask) + (self.values[3] & 1);
                return Some(vec![sum, sum >> width]);
            }
            A::Mul24 | A::Mad24 => {
                let field = |index: usize| {
                    let bits = u64::from(word(index));
                    if is_signed(scalar) {
                        i128::from((bits << 40) as i64 >> 40)
                    } else {
                        i128::from(bits & 0xff_ffff)
                    }
                };
                let product = field(0) * field(1);
                let part = match self.modifier()? {
                    Half::Hi => product >> 16,
                    _ => product,
                };
                // The high half is 32 bits of 48.
                let part = number(scalar, part as u128);
                match self.op {
                    A::Mad24 => limited(part + n(2)),
                    _ => part,
                }
            }
            A::Sad => n(2).wrapping_add((n(0) - n(1)).abs()),
            A::Div | A::Rem => {
                let (a, b) = (n(0), n(1));
                if b == 0 {
                    // The manual leaves it open.
                    return Some(vec![super::UNSPECIFIED]);
                }
                if self.op == A::Div { a / b } else { a % b }
            }
            A::Abs => n(0).abs(),
            A::Neg => -n(0),
            A::Min | A::Max => {
                let chosen = if self.op == A::Min {
                    n(0).min(n(1))
                } else {
                    n(0).max(n(1))
                };
                if sat == Sat::Relu {
                    chosen.max(0)
                } else {
                    chosen
                }
            }
            A::Popc => i128::from(self.values[0].count_ones()),
            A::Clz => i128::from(self.values[0].leading_zeros()) - i128::from(128 - width),
            A::Bfind | A::BfindShift => {
                let value = n(0);
                let magnitude = if value < 0 { !value } else { value } as u128;
                if magnitude == 0 {
                    0xffff_ffff
                } else {
                    let position = 127 - magnitude.leading_zeros();
                    i128::from(if self.op == A::Bfind {
                        position
                    } else {
                        width - 1 - position
                    })
                }
            }
            A::Fns => i128::from(find_nth_set(word(0), word(1), word(2) as i32)),
            A::Brev => (self.values[0].reverse_bits() >> (128 - width)) as i128,
            A::Bfe => i128::from(extract(scalar, self.values[0] as u64, word(1), word(2))),
            A::Bfi => i128::from(insert(
                width,
                self.values[0] as u64,
                self.values[1] as u64,
                word(2),
                word(3),
            )),
            A::Szext => {
                let length = match self.modifier()? {
                    Clamp::Clamp => word(1).min(32),
                    Clamp::Wrap => word(1) & 31,
                };
                i128::from(integer::extract_bits(word(0), 0, length, is_signed(scalar)))
            }
            A::Bmsk => {
                let wrap = self.modifier::<Clamp>()? == Clamp::Wrap;
                i128::from(bits::mask(word(0), word(1), wrap))
            }
            A::AbsDiff4 | A::Sad4 => {
                let differences = integer::differences4(word(0), word(1), is_signed(scalar));
                match self.op {
                    A::AbsDiff4 => i128::from(u32::from_le_bytes(differences)),
                    _ => i128::from(differences.iter().fold(word(2), |sum, &difference| {
                        sum.wrapping_add(u32::from(difference))
                    })),
                }
            }
            A::Dp4a => {
                let source = Scalar::from(self.modifier::<SourceType>()?);
                let sum = integer::dot4(
                    word(0),
                    is_signed(scalar),
                    word(1),
                    is_signed(source),
                    word(2),
                );
                i128::from(sum)
            }
            A::Dp2a => {
                let source = Scalar::from(self.modifier::<SourceType>()?);
                let upper = self.modifier::<Half>()? == Half::Hi;
                let sum = integer::dot2(
                    word(0),
                    is_signed(scalar),
                    word(1),
                    is_signed(source),
                    upper,
                    word(2),
                );
                i128::from(sum)
            }
            A::And => (self.values[0] & self.values[1]) as i128,
            A::Or => (self.values[0] | self.values[1]) as i128,
            A::Xor => (self.values[0] ^ self.values[1]) as i128,
            A::Not => !self.values[0] as i128,
            A::Cnot => i128::from(number(unsigned(scalar), self.values[0]) == 0),
            A::Shl => {
                let by = word(1).min(127);
                (self.values[0] << by) as i128
            }
            A::Shr => n(0) >> word(1).min(127),
            A::Shf => {
                let beyond = beyond(self.modifier()?);
                i128::from(match self.modifier()? {
                    Direction::Left => integer::funnel_left(word(0), word(1), word(2), beyond),
                    Direction::Right => integer::funnel_right(word(0), word(1), word(2), beyond),
                })
            }
            _ => return None,
        };
        let width = match self.op {
            A::Mul | A::Mad if self.modifier::<Half>() == Some(Half::Wide) => 2 * width,
            A::Popc | A::Clz | A::Bfind | A::BfindShift | A::Shf | A::Fns => 32,
            _ => width,
        };
        Some(vec![if width < 32 && scalar != Scalar::Pred {
            super::narrow(value as u128, width)
        } else {
            value as u128
        }])
    }

    /// Operations on two halves at once.
    fn packed_pair(&self, scalar: Scalar) -> Option<u128> {
        use AbstractOp as A;
        let element = match scalar {
            Scalar::U16x2 => Scalar::U16,
            Scalar::S16x2 => Scalar::S16,
            _ => return None,
        };
        let relu = self.modifier::<Sat>() == Some(Sat::Relu);
        let mut result = 0;
        for shift in [0, 16] {
            let a = number(element, self.values[0] >> shift);
            let b = number(element, self.values[1] >> shift);
            let value = match self.op {
                A::Add => a + b,
                A::Min if relu => a.min(b).max(0),
                A::Max if relu => a.max(b).max(0),
                A::Min => a.min(b),
                A::Max => a.max(b),
                _ => return None,
            };
            result |= (value as u128 & 0xffff) << shift;
        }
        Some(result)
    }
}

fn unsigned(scalar: Scalar) -> Scalar {
    match scalar.bits() {
        8 => Scalar::U8,
        16 => Scalar::U16,
        64 => Scalar::U64,
        _ => Scalar::U32,
    }
}

/// A position or length as it counts: of 32-bit fields its low eight bits, of 64-bit fields all of it.
fn place(width: u32, number: u32) -> u32 {
    if width == 64 {
        number.min(0xff)
    } else {
        number & 0xff
    }
}

/// `bfe`, as the chip does it.
fn extract(scalar: Scalar, value: u64, position: u32, length: u32) -> u64 {
    let width = u32::from(scalar.bits());
    let top = width - 1;
    let (position, length) = (place(width, position), place(width, length));
    let bit = |index: u32| value >> index & 1;
    let sign = if !is_signed(scalar) || length == 0 {
        0
    } else {
        bit((position + length - 1).min(top))
    };
    let mut result = 0;
    for index in 0..width {
        let from = position + index;
        let set = if index < length && from <= top {
            bit(from)
        } else {
            sign
        };
        result |= set << index;
    }
    result
}

/// `bfi`, as the manual defines it.
fn insert(width: u32, field: u64, into: u64, position: u32, length: u32) -> u64 {
    let (position, length) = (place(width, position), place(width, length));
    let mut result = into;
    for index in 0..length {
        let to = position + index;
        if to < width && index < 64 {
            result = result & !(1 << to) | (field >> index & 1) << to;
        }
    }
    result
}

/// `fns`, as the manual defines it.
fn find_nth_set(mask: u32, base: u32, offset: i32) -> u32 {
    if offset == 0 {
        return if base < 32 && mask >> base & 1 == 1 {
            base
        } else {
            u32::MAX
        };
    }
    let (mut position, step) = (base as i32, if offset > 0 { 1 } else { -1 });
    let mut left = offset.unsigned_abs();
    while (0..32).contains(&position) {
        if mask >> position & 1 == 1 {
            left -= 1;
            if left == 0 {
                return position as u32;
            }
        }
        position += step;
    }
    u32::MAX
}
