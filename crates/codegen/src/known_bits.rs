//! Known bits: which bits of an integer are zero and which are one whatever happens.
//!
//! A forward analysis of one visit an instruction, in an order in which definitions come before their uses (preorder of the dominator tree): zero
//! extension, masks, shifts, narrow loads, lanes and threads, sums of small numbers. Parameters of blocks are not looked into, so nothing is iterated.

use cranelift_entity::SecondaryMap;
use orias_ori::operation::{Half, Sat, Scalar, SourceType, Special, Vector};
use orias_ori::{AbstractOp, Function, Inst, Operand, Type, Value};

/// Bits that are known. Of a word, those above are zero.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct Bits {
    /// Bits that are zero.
    pub zeros: u64,
    /// Bits that are one.
    pub ones: u64,
}

/// The bits of a word.
pub(crate) const WORD: u64 = 0xffff_ffff;

impl Bits {
    /// Nothing is known of a number of 64 bits.
    const NONE: Self = Self { zeros: 0, ones: 0 };

    fn exactly(number: u64) -> Self {
        Self {
            zeros: !number,
            ones: number,
        }
    }

    /// A number below two to the power of `bits`.
    fn below(bits: u32) -> Self {
        Self {
            zeros: u64::MAX.checked_shl(bits).unwrap_or(0),
            ones: 0,
        }
    }

    /// A number of 32 bits.
    pub fn word(self) -> Self {
        Self {
            zeros: self.zeros | !WORD,
            ones: self.ones & WORD,
        }
    }

    /// The low or the high word.
    pub fn half(self, high: bool) -> Self {
        let by = if high { 32 } else { 0 };
        Self {
            zeros: self.zeros >> by,
            ones: self.ones >> by,
        }
        .word()
    }

    pub fn number(self) -> Option<u64> {
        (self.zeros | self.ones == u64::MAX).then_some(self.ones)
    }

    /// The bits that may be set.
    pub fn possible(self) -> u64 {
        !self.zeros
    }

    fn not(self) -> Self {
        Self {
            zeros: self.ones,
            ones: self.zeros,
        }
    }

    pub fn logic(op: AbstractOp, a: Self, b: Self) -> Self {
        match op {
            AbstractOp::And => Self {
                zeros: a.zeros | b.zeros,
                ones: a.ones & b.ones,
            },
            AbstractOp::Or => Self {
                zeros: a.zeros & b.zeros,
                ones: a.ones | b.ones,
            },
            _ => Self {
                zeros: a.zeros & b.zeros | a.ones & b.ones,
                ones: a.zeros & b.ones | a.ones & b.zeros,
            },
        }
    }

    /// What is known of a number that is one of both.
    fn either(a: Self, b: Self) -> Self {
        Self {
            zeros: a.zeros & b.zeros,
            ones: a.ones & b.ones,
        }
    }

    /// The sum of two numbers, and perhaps one more.
    fn sum(a: Self, b: Self, carry: bool) -> Self {
        let low = match carry {
            true => 0,
            false => a.zeros.trailing_ones().min(b.zeros.trailing_ones()),
        };
        let high = a.zeros.leading_ones().min(b.zeros.leading_ones());
        let high = Self::below(64 - high.saturating_sub(1));
        Self {
            zeros: high.zeros | ones_below(low),
            ones: 0,
        }
    }

    fn product(a: Self, b: Self) -> Self {
        let low = a.zeros.trailing_ones() + b.zeros.trailing_ones();
        let high = a.zeros.leading_ones() + b.zeros.leading_ones();
        Self {
            zeros: Self::below(64 - high.saturating_sub(64).min(64)).zeros | ones_below(low),
            ones: 0,
        }
    }
}

fn ones_below(bits: u32) -> u64 {
    !u64::MAX.checked_shl(bits).unwrap_or(0)
}

/// What is known of each value so far.
#[derive(Default)]
pub(crate) struct KnownBits {
    bits: SecondaryMap<Value, Bits>,
}

impl KnownBits {
    /// Nothing is known yet of a function with so many values.
    pub fn with_capacity(values: usize) -> Self {
        let mut bits = SecondaryMap::new();
        bits.resize(values);
        Self { bits }
    }

    /// What is known of a value.
    pub fn value(&self, value: Value) -> Bits {
        self.bits[value]
    }

    /// What is known of an operand of so many bits.
    pub fn of(&self, operand: Operand, width: u16) -> Bits {
        let bits = match operand {
            Operand::Imm(number) => Bits::exactly(number.bits()),
            _ => match operand.as_value().filter(|_| operand.mods().is_empty()) {
                Some(value) => self.bits[value],
                None => Bits::NONE,
            },
        };
        match width {
            64 => bits,
            _ => bits.word(),
        }
    }

    /// Notes what follows for the results of `inst`.
    pub fn learn(&mut self, func: &Function, inst: Inst) {
        let Some(op) = func.opcode(inst).as_abstract() else {
            return;
        };
        if !func.inst(inst).guard().is_always() {
            return;
        }
        let (results, sources) = func.operands(inst).split_at(func.result_count(inst));
        match (op, results, sources) {
            (AbstractOp::Split, &[low, high], &[pair]) => {
                let bits = self.of(pair, 64);
                let words = [low, high].map(|it| it.as_value());
                let is_word = |value: Value| func.value_type(value) == Type::R;
                if words.iter().flatten().all(|&value| is_word(value)) {
                    for (value, high) in words.into_iter().zip([false, true]) {
                        if let Some(value) = value {
                            self.bits[value] = bits.half(high);
                        }
                    }
                }
            }
            (_, [result, ..], _) => {
                if let Some(value) = result.as_value()
                    && let Some(bits) = self.result(func, inst, op, value, sources)
                {
                    self.bits[value] = bits;
                }
            }
            _ => {}
        }
    }

    fn result(
        &self,
        func: &Function,
        inst: Inst,
        op: AbstractOp,
        value: Value,
        sources: &[Operand],
    ) -> Option<Bits> {
        use AbstractOp as A;
        let width: u16 = match func.value_type(value) {
            Type::R => 32,
            Type::R2 => 64,
            _ => return None,
        };
        let scalar = func.modifier::<Scalar>(inst);
        let whole = scalar.is_some_and(|scalar| scalar.bits() == width);
        let wraps = func
            .modifier::<Sat>(inst)
            .is_none_or(|sat| sat == Sat::Wrap);
        let bits = match (op, sources) {
            (A::Mov, &[a]) if whole => self.of(a, width),
            (A::And | A::Or | A::Xor, &[a, b]) if whole => {
                Bits::logic(op, self.of(a, width), self.of(b, width))
            }
            (A::Not, &[a]) if whole => self.of(a, width).not(),
            (A::Shl, &[a, Operand::Imm(by)]) if whole => {
                let (bits, by) = (self.of(a, width), (by.bits() & WORD).min(64) as u32);
                let left = |bits: u64| bits.checked_shl(by).unwrap_or(0);
                Bits {
                    zeros: left(bits.zeros) | ones_below(by),
                    ones: left(bits.ones),
                }
            }
            (A::Shr, &[a, Operand::Imm(by)]) if whole => {
                let (bits, by) = (self.of(a, width), (by.bits() & WORD).min(64) as u32);
                let top = bits.zeros >> (width - 1) & 1 == 1;
                if is_signed(scalar?) && !top {
                    return None;
                }
                let right = |bits: u64| bits.checked_shr(by).unwrap_or(0);
                Bits {
                    zeros: right(bits.zeros) | Bits::below(64 - by).zeros,
                    ones: right(bits.ones),
                }
            }
            (A::Cvt, &[a]) if whole && wraps => {
                let from = Scalar::from(func.modifier::<SourceType>(inst)?);
                let bits = self.of(a, 64);
                let sign = u32::from(from.bits()).checked_sub(1)?;
                let positive = bits.zeros >> sign & 1 == 1;
                let is_number = matches!(
                    scalar?,
                    Scalar::U32 | Scalar::S32 | Scalar::U64 | Scalar::S64
                );
                match from {
                    Scalar::U8 | Scalar::U16 | Scalar::U32 if is_number => {}
                    Scalar::S8 | Scalar::S16 | Scalar::S32 if is_number && positive => {}
                    _ => return None,
                }
                let mask = ones_below(u32::from(from.bits()));
                Bits {
                    zeros: bits.zeros | !mask,
                    ones: bits.ones & mask,
                }
            }
            (A::Selp, &[a, b, _]) if whole => Bits::either(self.of(a, width), self.of(b, width)),
            (A::Add, &[a, b]) if whole && wraps => {
                Bits::sum(self.of(a, width), self.of(b, width), false)
            }
            (A::AddC, &[a, b, _]) if whole => Bits::sum(self.of(a, width), self.of(b, width), true),
            (A::Mul, &[a, b]) => match (func.modifier::<Half>(inst)?, scalar?) {
                (Half::Lo, _) if whole => Bits::product(self.of(a, width), self.of(b, width)),
                (Half::Wide, Scalar::U32) => Bits::product(self.of(a, 32), self.of(b, 32)),
                _ => return None,
            },
            (A::Min, &[a, b]) if whole && wraps && !is_signed(scalar?) => {
                let high = |bits: Bits| bits.zeros.leading_ones();
                Bits::below(64 - high(self.of(a, width)).max(high(self.of(b, width))))
            }
            (A::Popc | A::Clz, _) => Bits::below(7),
            (A::Collect, &[low, high]) if width == 64 => {
                let is_word = |operand: Operand| {
                    operand
                        .as_value()
                        .is_some_and(|value| func.value_type(value) == Type::R)
                };
                if !is_word(low) || !is_word(high) {
                    return None;
                }
                let (low, high) = (self.of(low, 32), self.of(high, 32));
                Bits {
                    zeros: low.zeros & WORD | high.zeros << 32,
                    ones: low.ones | high.ones << 32,
                }
            }
            (A::Ld, _) if func.modifier::<Vector>(inst) == Some(Vector::V1) => match scalar? {
                Scalar::U8 => Bits::below(8),
                Scalar::U16 => Bits::below(16),
                _ => return None,
            },
            (A::Sreg, _) => match func.modifier::<Special>(inst)? {
                Special::TidX | Special::TidY | Special::TidZ => Bits::below(10),
                Special::LaneId => Bits::below(5),
                _ => return None,
            },
            _ => return None,
        };
        Some(match width {
            64 => bits,
            _ => bits.word(),
        })
    }
}

/// Whether numbers of that type have a sign.
pub(crate) fn is_signed(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::S16 | Scalar::S32 | Scalar::S64)
}
