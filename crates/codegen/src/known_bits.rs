//! Known bits: which bits of an integer are zero and which are one whatever happens.
//!
//! A forward analysis of one visit an instruction, in an order in which definitions come before their uses (preorder of the dominator tree): zero
//! extension, masks, shifts, narrow loads, lanes and threads, sums. Parameters of blocks are not looked into, so nothing is iterated.

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

/// What comes into the lowest bit of a sum.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Carry {
    Zero,
    One,
    Unknown,
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

    /// The sum of two numbers and a carry. Of a bit whose inputs are known, the carry into it is known if the greatest sum the bits below may have, and the
    /// least, carry alike.
    fn sum(a: Self, b: Self, carry: Carry) -> Self {
        let most = (a.possible())
            .wrapping_add(b.possible())
            .wrapping_add(u64::from(carry != Carry::Zero));
        let least = (a.ones)
            .wrapping_add(b.ones)
            .wrapping_add(u64::from(carry == Carry::One));
        let never = !(most ^ a.zeros ^ b.zeros);
        let always = least ^ a.ones ^ b.ones;
        let known = (a.zeros | a.ones) & (b.zeros | b.ones) & (never | always);
        Self {
            zeros: !most & known,
            ones: least & known,
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
        let pairs = matches!(scalar, Some(Scalar::U16x2 | Scalar::S16x2));
        let whole = !pairs && scalar.is_some_and(|scalar| scalar.bits() == width);
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
                Bits::sum(self.of(a, width), self.of(b, width), Carry::Zero)
            }
            (A::Sub, &[a, b]) if whole && wraps => {
                Bits::sum(self.of(a, width), self.of(b, width).not(), Carry::One)
            }
            (A::AddC, &[a, b, _]) if whole => {
                Bits::sum(self.of(a, width), self.of(b, width), Carry::Unknown)
            }
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

/// What has the bits of `mask` that `operand` has, and from which `operand` is made by extending or masking.
pub(crate) fn same_bits(func: &Function, operand: Operand, mask: u64) -> Option<Operand> {
    let value = operand.as_value().filter(|_| operand.mods().is_empty())?;
    let mut inst = func.defining_inst(value)?;
    if func.opcode(inst).as_abstract() == Some(AbstractOp::Split) {
        // The lower word of an extension to 64 bits.
        let &[low, _, pair] = func.operands(inst) else {
            return None;
        };
        inst = func.defining_inst(pair.as_value()?)?;
        if low.as_value() != Some(value)
            || func.opcode(inst).as_abstract() != Some(AbstractOp::Cvt)
            || func.value_type(pair.as_value()?) != Type::R2
        {
            return None;
        }
    }
    if !func.inst(inst).guard().is_always() {
        return None;
    }
    let kept = match (func.opcode(inst).as_abstract()?, func.operands(inst)) {
        (AbstractOp::Cvt, &[_, _]) => {
            let plain = func.modifier::<Sat>(inst) == Some(Sat::Wrap);
            let from = Scalar::from(func.modifier::<SourceType>(inst)?);
            let to = func.modifier::<Scalar>(inst)?;
            let bits = from.bits().min(to.bits());
            (plain && is_integer(from) && is_integer(to) && bits <= 32).then(|| (1 << bits) - 1)?
        }
        (AbstractOp::And, &[_, _, Operand::Imm(kept)]) => match func.modifier::<Scalar>(inst)? {
            Scalar::B16 => kept.bits() & 0xffff,
            Scalar::B32 => kept.bits() & WORD,
            _ => return None,
        },
        _ => return None,
    };
    let source = func.operands(inst)[1];
    let is_word = |value: Value| func.value_type(value) == Type::R;
    (mask & !kept == 0 && source.as_value().is_some_and(is_word) && source.mods().is_empty())
        .then_some(source)
}

fn is_integer(scalar: Scalar) -> bool {
    use Scalar as S;
    matches!(
        scalar,
        S::U8 | S::S8 | S::U16 | S::S16 | S::U32 | S::S32 | S::U64 | S::S64
    )
}

/// Whether the bits of a word from that one on are all its sign.
pub(crate) fn is_sign_extended(func: &Function, value: Value, bits: u16) -> bool {
    let Some(inst) = func.defining_inst(value) else {
        return false;
    };
    if !func.inst(inst).guard().is_always() {
        return false;
    }
    let narrow = |scalar: Scalar| match scalar {
        Scalar::S8 | Scalar::S16 => scalar.bits() <= bits,
        Scalar::U8 => bits == 16,
        _ => false,
    };
    match (func.opcode(inst).as_abstract(), func.operands(inst)) {
        (Some(AbstractOp::Cvt), &[_, _]) => {
            let from = func.modifier::<SourceType>(inst).map(Scalar::from);
            func.modifier::<Sat>(inst) == Some(Sat::Wrap)
                && matches!(
                    func.modifier::<Scalar>(inst),
                    Some(Scalar::S32 | Scalar::U32)
                )
                && from.is_some_and(narrow)
        }
        (Some(AbstractOp::Shr), &[_, _, Operand::Imm(by)]) => {
            func.modifier::<Scalar>(inst) == Some(Scalar::S32)
                && (32 - u64::from(bits)..32).contains(&by.bits())
        }
        _ => false,
    }
}
