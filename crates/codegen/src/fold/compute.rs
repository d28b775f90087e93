//! The results of operations on values.

use super::integer::number;
use super::{Approximation, narrow};
use orias_eval::bits::{self, Permutation};
use orias_ori::operation::{
    AbstractMods, AbstractOp, Combine, Compare, Modifier, Permute, Reduce, Scalar, SourceType,
};
use std::cmp::Ordering;

/// One operation with its operands.
#[derive(Clone, Copy)]
pub struct Operands<'a> {
    /// The operation.
    pub op: AbstractOp,
    /// Its modifiers.
    pub mods: AbstractMods,
    /// The bits of each operand.
    pub values: &'a [u128],
    /// Which operands are left out.
    pub missing: &'a [bool],
    /// The functions whose exact result the chip's tables decide.
    pub approximate: &'a dyn Fn(Approximation, u64) -> u64,
}

impl Operands<'_> {
    /// A modifier of the operation.
    pub fn modifier<M: Modifier>(&self) -> Option<M> {
        self.op.row().modifier(self.mods)
    }

    /// The type it works in.
    pub fn scalar(&self) -> Option<Scalar> {
        self.modifier()
    }

    /// The results; `None` for an operation that is not known here.
    pub fn compute(&self) -> Option<Vec<u128>> {
        use AbstractOp as A;
        let word = |index: usize| self.values[index] as u32;
        match self.op {
            A::Mov => Some(vec![self.values[0]]),
            A::Selp => Some(vec![if self.values[2] & 1 == 1 {
                self.values[0]
            } else {
                self.values[1]
            }]),
            A::Slct => Some(vec![self.slct()?]),
            A::Setp => self.setp(),
            A::Set => self.set(),
            A::Lop3 => {
                let result = bits::logic3(word(0), word(1), word(2), self.values[3] as u8);
                let set = result != 0;
                let other = self.values[4] & 1 == 1;
                let set = match self.modifier::<Combine>()? {
                    Combine::And => set && other,
                    Combine::Or => set || other,
                    Combine::Xor => set != other,
                    Combine::None => set,
                };
                Some(vec![u128::from(result), u128::from(set)])
            }
            A::Prmt => {
                let mode = match self.modifier::<Permute>()? {
                    Permute::Index => Permutation::Index,
                    Permute::F4e => Permutation::Forward4,
                    Permute::B4e => Permutation::Backward4,
                    Permute::Rc8 => Permutation::Replicate8,
                    Permute::Ecl => Permutation::EdgeClampLeft,
                    Permute::Ecr => Permutation::EdgeClampRight,
                    Permute::Rc16 => Permutation::Replicate16,
                };
                let result = bits::permute(word(0), word(1), word(2), mode);
                Some(vec![u128::from(result)])
            }
            A::Cvta | A::CvtaTo => Some(vec![self.values[0]]),
            A::CvtPack => self.cvt_pack(),
            A::Cvt | A::CvtPair | A::CvtUnpack => self.convert(),
            _ => self.integer().or_else(|| self.float()),
        }
    }

    fn slct(&self) -> Option<u128> {
        let negative = match Scalar::from(self.modifier::<SourceType>()?) {
            Scalar::S32 => (self.values[2] as i32) < 0,
            _ => {
                let flush = self.flushes();
                let third = super::number::flushed(Scalar::F32, self.values[2] as u64, flush);
                // A NaN chooses the second operand, a zero of either sign the first.
                let third = f32::from_bits(third as u32);
                third.is_nan() || third < 0.0
            }
        };
        Some(if negative {
            self.values[1]
        } else {
            self.values[0]
        })
    }

    fn setp(&self) -> Option<Vec<u128>> {
        let scalar = self.scalar()?;
        let results = self.relations(scalar)?;
        let (first, second) = match results[..] {
            [low, high] => (low, high),
            [one, ..] => (one, !one),
            [] => return None,
        };
        Some(vec![
            u128::from(self.combined(first)?),
            u128::from(self.combined(second)?),
        ])
    }

    fn set(&self) -> Option<Vec<u128>> {
        let source = Scalar::from(self.modifier::<SourceType>()?);
        let target = self.scalar()?;
        let results = self.relations(source)?;
        let one = |target: Scalar, set: bool| match (target, set) {
            (_, false) => 0,
            (Scalar::F32, _) => u128::from(1f32.to_bits()),
            (Scalar::F16 | Scalar::F16x2, _) => 0x3c00,
            (Scalar::Bf16 | Scalar::Bf16x2, _) => 0x3f80,
            _ => u128::MAX,
        };
        let mut combined = Vec::with_capacity(2);
        for result in results {
            combined.push(self.combined(result)?);
        }
        Some(vec![match combined[..] {
            [low, high] => one(target, low) & 0xffff | (one(target, high) & 0xffff) << 16,
            [set] if target.bits() < 32 => narrow(one(target, set), 16),
            [set] => one(target, set) & 0xffff_ffff,
            _ => return None,
        }])
    }

    fn combined(&self, result: bool) -> Option<bool> {
        if self.missing.get(2).copied().unwrap_or(true) {
            return Some(result);
        }
        let other = self.values[2] & 1 == 1;
        Some(match self.modifier::<Combine>()? {
            Combine::None => result,
            Combine::And => result && other,
            Combine::Or => result || other,
            Combine::Xor => result != other,
        })
    }

    /// The comparison, for each half of a pair.
    fn relations(&self, scalar: Scalar) -> Option<Vec<bool>> {
        let compare = self.modifier::<Compare>()?;
        if let Some(orders) = self.float_orders(scalar) {
            return Some(
                orders
                    .into_iter()
                    .map(|order| super::number::relation(compare).holds(order))
                    .collect(),
            );
        }
        let scalar = match compare {
            Compare::Lo | Compare::Ls | Compare::Hi | Compare::Hs => match scalar.bits() {
                16 => Scalar::U16,
                64 => Scalar::U64,
                _ => Scalar::U32,
            },
            _ => scalar,
        };
        let order = number(scalar, self.values[0]).cmp(&number(scalar, self.values[1]));
        Some(vec![match compare {
            Compare::Eq => order == Ordering::Equal,
            Compare::Ne => order != Ordering::Equal,
            Compare::Lt | Compare::Lo => order == Ordering::Less,
            Compare::Le | Compare::Ls => order != Ordering::Greater,
            Compare::Gt | Compare::Hi => order == Ordering::Greater,
            Compare::Ge | Compare::Hs => order != Ordering::Less,
            _ => return None,
        }])
    }

    fn cvt_pack(&self) -> Option<Vec<u128>> {
        let target = self.scalar()?;
        let (least, greatest) = super::integer::range(target);
        let width = u32::from(target.bits());
        let mask = (1_u128 << width) - 1;
        let part = |index: usize| {
            let value = number(Scalar::S32, self.values[index]);
            value.clamp(least, greatest) as u128 & mask
        };
        let packed = part(0) << width | part(1);
        let rest = if self.missing.get(2).copied().unwrap_or(true) {
            0
        } else {
            self.values[2] << (2 * width)
        };
        Some(vec![packed | rest])
    }
}

/// What an atomic operation leaves in memory.
pub fn reduce(reduce: Reduce, scalar: Scalar, old: u128, given: u128, third: u128) -> Option<u128> {
    let (a, b) = (number(scalar, old), number(scalar, given));
    let mask = u128::MAX >> (128 - u32::from(scalar.bits()));
    Some(match reduce {
        Reduce::Add => match super::number::add(scalar, old as u64, given as u64) {
            Some(sum) => u128::from(sum),
            None => (a + b) as u128,
        },
        Reduce::Min => a.min(b) as u128,
        Reduce::Max => a.max(b) as u128,
        Reduce::And => old & given,
        Reduce::Or => old | given,
        Reduce::Xor => old ^ given,
        Reduce::Inc => {
            if a >= b {
                0
            } else {
                (a + 1) as u128
            }
        }
        Reduce::Dec => {
            if a == 0 || a > b {
                b as u128
            } else {
                (a - 1) as u128
            }
        }
        Reduce::Exch => given,
        Reduce::Cas | Reduce::Cast => {
            if old & mask == given & mask {
                third
            } else {
                old
            }
        }
    })
}
