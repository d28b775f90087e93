//! Integer arithmetic in 16 and 32 bits. What is 64 bits wide goes on to [`super::wide`].
//!
//! Values of 16 bits are computed in whole registers: sums and low products need nothing, everything that looks at high
//! bits extends its sources first.

use super::products::absorbed_factor;
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::{WORD, sources, wide};
use crate::pipeline::PhaseError;
use orias_ori::operation::{Direction, Half, Sat, Scalar};
use orias_ori::{AbstractOp, Inst, Operand, Type, Value};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// The word `sign` of an operation for a type.
pub(super) fn sign(scalar: Scalar) -> ValueName {
    match is_signed(scalar) {
        true => value::S32,
        false => value::U32,
    }
}

pub(super) fn is_signed(scalar: Scalar) -> bool {
    matches!(
        scalar,
        Scalar::S8 | Scalar::S16 | Scalar::S32 | Scalar::S64 | Scalar::S16x2
    )
}

pub(super) fn is_wide(scalar: Scalar) -> bool {
    scalar.bits() == 64
}

pub(super) fn is_half_word(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::U16 | Scalar::S16 | Scalar::B16)
}

impl Selector<'_> {
    /// Source `index`, extended to a word by its type.
    pub(super) fn extended(&mut self, index: usize, scalar: Scalar) -> Result<Source, PhaseError> {
        let operand = self.operand(index);
        self.extended_of(operand, scalar)
    }

    /// `operand`, of a type of at most 32 bits, extended to a word.
    pub(super) fn extended_of(
        &mut self,
        operand: Operand,
        scalar: Scalar,
    ) -> Result<Source, PhaseError> {
        let bits = u32::from(scalar.bits());
        let source = self.word_of(operand);
        if bits >= 32 || self.is_extended(operand, scalar) {
            return Ok(source);
        }
        if let Some(pattern) = source.constant() {
            let shift = 32 - bits;
            let word = (pattern as u32) << shift;
            return Ok(Source::imm(match is_signed(scalar) {
                true => (word as i32 >> shift) as u32,
                false => word >> shift,
            }));
        }
        if let Some((word, byte)) = self.shifted_by_bytes(source, bits) {
            return self.extend_bytes(word.into(), byte, scalar);
        }
        self.extend_word(source, scalar)
    }

    /// The word that `source` is shifted right from, and by how many bytes, if its lower `bits` all come from there.
    fn shifted_by_bytes(&mut self, source: Source, bits: u32) -> Option<(Operand, u32)> {
        let (inst, op) = self.definition(source.operand.as_value()?)?;
        let width = match self.func.modifier::<Scalar>(inst)? {
            Scalar::B32 | Scalar::U32 | Scalar::S32 => 32,
            Scalar::B16 | Scalar::U16 | Scalar::S16 => 16,
            _ => return None,
        };
        let &[_, word, Operand::Imm(by)] = self.func.operands(inst) else {
            return None;
        };
        let by = u32::try_from(by.bits()).ok()?;
        if op != AbstractOp::Shr || by % 8 != 0 || by.checked_add(bits)? > width {
            return None;
        }
        let word = self.word_of(word).operand;
        (word.as_value().is_some() && word.mods().is_empty()).then_some((word, by / 8))
    }

    /// `source` with the bits above those of `scalar` made its extension.
    pub(super) fn extend_word(
        &mut self,
        source: Source,
        scalar: Scalar,
    ) -> Result<Source, PhaseError> {
        self.extend_bytes(source, 0, scalar)
    }

    /// What `source` holds from its byte `first` on, extended by its type, of 8 or 16 bits.
    fn extend_bytes(
        &mut self,
        source: Source,
        first: u32,
        scalar: Scalar,
    ) -> Result<Source, PhaseError> {
        // Bytes of the source by number; 8 more repeats the byte's sign, 7 is a byte of RZ.
        let (select, moved): (u32, u32) = match (scalar.bits(), is_signed(scalar)) {
            (8, false) => (0x7770, 0x0001),
            (8, true) => (0x8880, 0x1111),
            (_, false) => (0x7710, 0x0011),
            (_, true) => (0x9910, 0x1111),
        };
        let select = select + moved * first;
        let value = self.temporary(WORD);
        self.emit(
            Op::PRMT,
            &[],
            sources![value, source, Source::imm(select), rz()],
        )?;
        Ok(value.into())
    }

    /// The sum of two words as a new value.
    pub(super) fn sum(&mut self, a: Source, b: Source) -> Result<Value, PhaseError> {
        let value = self.temporary(WORD);
        self.emit(Op::IADD3, &[], sources![value, pt(), pt(), a, b, rz()])?;
        Ok(value)
    }

    /// One of two words as a new value: `a` where the predicate is true.
    pub(super) fn choose(&mut self, a: Source, b: Source, p: Source) -> Result<Value, PhaseError> {
        let value = self.temporary(WORD);
        self.choose_to(value.into(), a, b, p)?;
        Ok(value)
    }

    /// Defines `result` as `a` where the predicate is true, else `b`.
    pub(super) fn choose_to(&mut self, result: Operand, a: Source, b: Source, p: Source) -> Done {
        // Only the second place takes what is no register.
        let (a, b, p) = match !a.is_register() && b.is_register() {
            true => (b, a, self.complement(p)),
            false => (a, b, p),
        };
        self.emit(Op::SEL, &[], sources![result, a, b, p])?;
        Ok(())
    }

    /// A comparison of words as a new predicate.
    pub(super) fn compare(
        &mut self,
        cmp: ValueName,
        sign: ValueName,
        a: Source,
        b: Source,
    ) -> Result<Value, PhaseError> {
        let predicate = self.temporary(Type::P);
        let mods = [(name::CMP, cmp), (name::SIGN, sign)];
        self.emit(Op::ISETP, &mods, sources![predicate, pt(), a, b, pt()])?;
        Ok(predicate)
    }
}

/// A term of a sum: a source, and whether it is subtracted.
type Term = (Source, bool);

pub(super) fn add(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    match (scalar, s.modifier::<Sat>()?) {
        (Scalar::U16x2 | Scalar::S16x2, Sat::Wrap) => {
            let (a, b) = (s.word(0), s.word(1));
            s.emit(
                Op::VIADD,
                &[(name::TYPE, value::_16X2)],
                sources![s.result(0), a, b],
            )?;
            Ok(())
        }
        (Scalar::S32, Sat::Sat) => {
            let (a, b) = (s.word(0), s.word(1));
            let result = s.result(0);
            saturated_sum(s, a, b, false, result)
        }
        (_, Sat::Wrap) if is_wide(scalar) => wide::add(s, false),
        (_, Sat::Wrap) => add_words(s, false),
        _ => Err(s.unsupported()),
    }
}

pub(super) fn sub(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    match (scalar, s.modifier::<Sat>()?) {
        (Scalar::S32, Sat::Sat) => {
            let (a, b) = (s.word(0), s.word(1));
            let result = s.result(0);
            saturated_sum(s, a, b, true, result)
        }
        (_, Sat::Wrap) if is_wide(scalar) => wide::add(s, true),
        (_, Sat::Wrap) => add_words(s, true),
        _ => Err(s.unsupported()),
    }
}

/// `a ± b` in one word: as a product that is added, a shift that is added, or a sum of three.
fn add_words(s: &mut Selector<'_>, subtract: bool) -> Done {
    let operands = [s.operand(0), s.operand(1)];
    // A product read only here.
    for place in [1, 0] {
        let negated = subtract && place == 0;
        if subtract && place == 1 {
            continue;
        }
        if let Some(product) = absorbed_product(s, operands[place]) {
            let [a, b] = product_sources(s, product)?;
            let c = s.word_of(operands[1 - place]);
            let c = match negated {
                true => c.negated(),
                false => Some(c),
            };
            if let Some(c) = c.filter(|c| !negated || c.is_register()) {
                s.emit(
                    Op::IMAD,
                    &[(name::SIGN, value::U32)],
                    sources![s.result(0), a, b, c],
                )?;
                return Ok(());
            }
        }
    }
    if subtract && let Some((a, factor)) = absorbed_factor(s, operands[1]) {
        let c = s.word_of(operands[0]);
        let factor = Source::imm(factor.wrapping_neg());
        let mods = [(name::SIGN, value::U32)];
        s.emit(Op::IMAD, &mods, sources![s.result(0), a, factor, c])?;
        return Ok(());
    }
    // A shift by a constant read only here.
    for place in [1, 0] {
        if subtract && place == 1 {
            continue;
        }
        if let Some((inst, amount)) = absorbed_shift(s, operands[place]) {
            let other = s.word_of(operands[1 - place]);
            let other = match subtract {
                true => other.negated().filter(|other| other.is_register()),
                false => Some(other),
            };
            if let Some(other) = other {
                let shifted = s.func.operands(inst)[1];
                let shifted = s.word_of(shifted);
                let amount = Operand::imm(u64::from(amount));
                s.emit(
                    Op::LEA,
                    &[],
                    sources![s.result(0), pt(), shifted, other, amount],
                )?;
                return Ok(());
            }
        }
    }
    // A shift to the right by a constant read only here.
    for place in [1, 0] {
        if subtract && place == 1 {
            continue;
        }
        let Some((shifted, amount, signed)) = absorbed_right_shift(s, operands[place]) else {
            continue;
        };
        let other = s.word_of(operands[1 - place]);
        let other = match subtract {
            true => other.negated().filter(|other| other.is_register()),
            false => Some(other),
        };
        let shifted = s.word_of(shifted);
        if let Some(other) = other.filter(|_| shifted.is_register()) {
            let (result, amount) = (s.result(0), Operand::imm(u64::from(32 - amount)));
            match signed {
                true => {
                    let operands = sources![result, pt(), shifted, other, amount];
                    s.emit(Op::LEA_HI_SX32, &[], operands)?;
                }
                false => {
                    let operands = sources![result, pt(), shifted, other, rz(), amount];
                    s.emit(Op::LEA_HI, &[], operands)?;
                }
            }
            return Ok(());
        }
    }
    // A funnel shift by a constant read only here.
    for place in [1, 0] {
        if subtract && place == 1 {
            continue;
        }
        let Some((low, high, amount)) = absorbed_funnel_shift(s, operands[place]) else {
            continue;
        };
        let other = s.word_of(operands[1 - place]);
        let other = match subtract {
            true => other.negated().filter(|other| other.is_register()),
            false => Some(other),
        };
        let (low, high) = (s.word_of(low), s.word_of(high));
        if let Some(other) = other.filter(|_| low.is_register() && high.is_register()) {
            let amount = Operand::imm(u64::from(amount));
            let operands = sources![s.result(0), pt(), low, other, high, amount];
            s.emit(Op::LEA_HI, &[], operands)?;
            return Ok(());
        }
    }
    // A predicate counted: it comes in as a carry.
    for place in [1, 0] {
        if subtract && place == 0 {
            continue;
        }
        if let Some((offset, carry)) = absorbed_count(s, operands[place], subtract) {
            let other = s.word_of(operands[1 - place]);
            let offset = Source::imm(offset);
            let other = match other.is_register() || offset.constant() == Some(0) {
                true => other,
                false => s.in_register(other)?.into(),
            };
            let [a, b] = match offset.constant() {
                Some(0) => flexible_last([other, rz().into()]),
                _ => [other, offset],
            };
            let operands = sources![s.result(0), pt(), pt(), a, b, rz(), carry, not_pt()];
            s.emit(Op::IADD3_X, &[], operands)?;
            return Ok(());
        }
    }
    let terms = sum_terms(s, operands, subtract);
    let mut sources: Vec<Option<Source>> = terms
        .into_iter()
        .map(|(source, negated)| signed_term(source, negated))
        .collect();
    if sources.iter().any(Option::is_none) {
        let (a, b) = (s.word(0), s.word(1));
        let (a, b) = (s.in_register(a)?, s.in_register(b)?);
        sources = vec![Some(a.into()), signed_term(b.into(), subtract)];
    }
    let mut sources: Vec<Source> = sources.into_iter().flatten().collect();
    sources.resize(3, rz().into());
    // The flexible place is the second.
    if let Some(place) = sources.iter().position(|source| !source.is_register()) {
        sources.swap(1, place);
    }
    s.emit(
        Op::IADD3,
        &[],
        sources![s.result(0), pt(), pt(), sources[0], sources[1], sources[2]],
    )?;
    Ok(())
}

/// A term with its sign: a known number changes, a register is read negated.
fn signed_term(source: Source, negated: bool) -> Option<Source> {
    match (negated, source.constant()) {
        (false, _) => Some(source),
        (true, Some(bits)) => Some(Source::imm((bits as u32).wrapping_neg())),
        (true, None) => {
            let flipped = source.negated()?;
            Some(match source.register {
                // The register that holds the same can be negated as well.
                Some(register) if !source.is_register() => Source {
                    operand: flipped.operand,
                    register: Source::from(register)
                        .negated()
                        .map(|source| source.operand),
                },
                _ => flipped,
            })
        }
    }
}

/// The terms of a sum: those of a sum read only here in the place of one operand, else the operands.
fn sum_terms(s: &mut Selector<'_>, operands: [Operand; 2], subtract: bool) -> Vec<Term> {
    let signs = [false, subtract];
    for place in [0, 1] {
        let Some((inst, op)) = absorbed_sum(s, operands[place]) else {
            continue;
        };
        let inner = [s.func.operands(inst)[1], s.func.operands(inst)[2]];
        let inner_signs = [signs[place], signs[place] != (op == AbstractOp::Sub)];
        return vec![
            term(s, operands[1 - place], signs[1 - place]),
            term(s, inner[0], inner_signs[0]),
            term(s, inner[1], inner_signs[1]),
        ];
    }
    vec![
        term(s, operands[0], signs[0]),
        term(s, operands[1], signs[1]),
    ]
}

/// The sum of words that defines `operand`, if it is read only here.
fn absorbed_sum(s: &Selector<'_>, operand: Operand) -> Option<(Inst, AbstractOp)> {
    let value = operand.as_value()?;
    let (inst, op) = [AbstractOp::Add, AbstractOp::Sub]
        .into_iter()
        .find_map(|op| Some((s.absorbable(value, op)?, op)))?;
    let word = s
        .func
        .modifier::<Scalar>(inst)
        .is_some_and(|scalar| scalar.bits() == 32);
    let wraps = s.func.modifier::<Sat>(inst) == Some(Sat::Wrap);
    let pairs = matches!(
        s.func.modifier::<Scalar>(inst),
        Some(Scalar::U16x2 | Scalar::S16x2)
    );
    (word && wraps && !pairs).then_some((inst, op))
}

/// One term; a negation is read through.
fn term(s: &mut Selector<'_>, operand: Operand, negated: bool) -> Term {
    if let Some(value) = operand.as_value()
        && let Some((inst, AbstractOp::Neg)) = s.definition(value)
        && s.func.modifier::<Scalar>(inst) == Some(Scalar::S32)
    {
        let inner = s.func.operands(inst)[1];
        return (s.word_of(inner), !negated);
    }
    (s.word_of(operand), negated)
}

/// The product of words that defines `operand`, if it is read only here or goes into all who read it.
pub(super) fn absorbed_product(s: &Selector<'_>, operand: Operand) -> Option<Inst> {
    let inst = absorbed_multiple(s, operand.as_value()?, AbstractOp::Mul)?;
    let low = s.func.modifier::<Half>(inst) == Some(Half::Lo);
    let word = s
        .func
        .modifier::<Scalar>(inst)
        .is_some_and(|scalar| scalar.bits() == 32);
    (low && word).then_some(inst)
}

fn product_sources(s: &mut Selector<'_>, product: Inst) -> Result<[Source; 2], PhaseError> {
    let operands = [s.func.operands(product)[1], s.func.operands(product)[2]];
    Ok(flexible_last(operands.map(|operand| s.word_of(operand))))
}

/// The definition of `value` by `op`, if it is read only here or goes into all who read it.
fn absorbed_multiple(s: &Selector<'_>, value: Value, op: AbstractOp) -> Option<Inst> {
    let everywhere = || {
        let shared = s.multiples.contains(value);
        let (inst, defined) = s.definition(value).filter(|_| shared)?;
        (defined == op).then_some(inst)
    };
    s.absorbable(value, op).or_else(everywhere)
}

/// The shift to the left by a known amount that defines `operand`, if it is read only here or goes into all who read it.
pub(super) fn absorbed_shift(s: &Selector<'_>, operand: Operand) -> Option<(Inst, u32)> {
    let inst = absorbed_multiple(s, operand.as_value()?, AbstractOp::Shl)?;
    let word = s.func.modifier::<Scalar>(inst) == Some(Scalar::B32);
    match s.func.operands(inst)[2] {
        Operand::Imm(imm) if word && imm.bits() < 32 => Some((inst, imm.bits() as u32)),
        _ => None,
    }
}

/// What a shift to the right by a known amount, at least one, that defines `operand` shifts, if it is read only here; by how much, and whether by sign.
fn absorbed_right_shift(s: &Selector<'_>, operand: Operand) -> Option<(Operand, u32, bool)> {
    let value = operand.as_value().filter(|_| operand.mods().is_empty())?;
    let inst = s.absorbable(value, AbstractOp::Shr)?;
    let signed = match s.func.modifier::<Scalar>(inst)? {
        Scalar::S32 => true,
        Scalar::U32 | Scalar::B32 => false,
        _ => return None,
    };
    match s.func.operands(inst) {
        &[_, shifted, Operand::Imm(by)] if (1..32).contains(&by.bits()) => {
            Some((shifted, by.bits() as u32, signed))
        }
        _ => None,
    }
}

/// The words that a funnel shift by a known amount, which defines `operand`, shifts, lower and upper, if it is read only here; and how far to the left, so that
/// the upper word is the result. A rotation is one of a word with itself.
fn absorbed_funnel_shift(s: &Selector<'_>, operand: Operand) -> Option<(Operand, Operand, u32)> {
    let value = operand.as_value().filter(|_| operand.mods().is_empty())?;
    let inst = s.absorbable(value, AbstractOp::Shf)?;
    let &[_, low, high, Operand::Imm(by)] = s.func.operands(inst) else {
        return None;
    };
    let by = by.bits() as u32;
    let left = match s.func.modifier::<Direction>(inst)? {
        Direction::Left => by,
        Direction::Right => 32u32.checked_sub(by)?,
    };
    (1..32).contains(&left).then_some((low, high, left))
}

/// What a choice between two neighbouring numbers, one of them zero, adds or takes off, if it is read only here: a number, and a predicate that counts one.
fn absorbed_count(s: &mut Selector<'_>, operand: Operand, subtract: bool) -> Option<(u32, Source)> {
    let value = operand.as_value().filter(|_| operand.mods().is_empty())?;
    let inst = s.absorbable(value, AbstractOp::Selp)?;
    let word = s.func.modifier::<Scalar>(inst)?.bits() == 32;
    let &[_, Operand::Imm(yes), Operand::Imm(no), condition] = s.func.operands(inst) else {
        return None;
    };
    if !word || !s.func.inst(inst).guard().is_always() {
        return None;
    }
    let sign = |number: u64| match subtract {
        true => (number as u32).wrapping_neg(),
        false => number as u32,
    };
    let (yes, no) = (sign(yes.bits()), sign(no.bits()));
    // The lower of the two is added always, and one where the other is chosen.
    let (offset, counts) = match (yes.wrapping_sub(no), no.wrapping_sub(yes)) {
        (1, _) => (no, true),
        (_, 1) => (yes, false),
        _ => return None,
    };
    if offset != 0 && offset != u32::MAX {
        return None;
    }
    let predicate = s.predicate_of(condition);
    let carry = match counts {
        true => predicate,
        false => s.complement(predicate),
    };
    Some((offset, carry))
}

/// Two sources that may change places, with what is no register in the second.
pub(super) fn flexible_last([a, b]: [Source; 2]) -> [Source; 2] {
    match a.is_register() {
        true => [a, b],
        false => [b, a],
    }
}

/// `a ± b`, or the number nearest to it.
pub(super) fn saturated_sum(
    s: &mut Selector<'_>,
    a: Source,
    b: Source,
    subtract: bool,
    result: Operand,
) -> Done {
    let [a, b] = [s.in_register(a)?, s.in_register(b)?].map(Source::from);
    let sum = s.temporary(WORD);
    let second = match subtract {
        true => b.negated().unwrap_or(b),
        false => b,
    };
    s.emit(Op::IADD3, &[], sources![sum, pt(), pt(), a, second, rz()])?;
    // Signs of the sources and of the sum, as three bits of a table: which sums went over the top, which under the bottom.
    let (over, under) = match subtract {
        false => (0x02, 0x40),
        true => (0x08, 0x10),
    };
    let mut value = Source::from(sum);
    for (table, limit) in [(over, 0x7fff_ffff), (under, 0x8000_0000)] {
        let predicate = s.temporary(Type::P);
        let table = Operand::imm(table);
        let none = Operand::imm(0);
        s.emit(
            Op::PLOP3_SIGN3,
            &[],
            sources![predicate, pt(), a, b, sum, table, none],
        )?;
        let passed = Operand::from(predicate).with_mods(orias_ori::SourceMods::NOT);
        let passed = passed.unwrap_or(predicate.into());
        if limit == 0x8000_0000 {
            s.choose_to(result, value, Source::imm(limit), passed.into())?;
        } else {
            value = s.choose(value, Source::imm(limit), passed.into())?.into();
        }
    }
    Ok(())
}

pub(super) fn sad(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    if is_wide(scalar) {
        return wide::sad(s);
    }
    let (a, b) = (s.extended(0, scalar)?, s.extended(1, scalar)?);
    let c = s.word(2);
    let mods = [(name::SIGN, sign(scalar))];
    s.emit(Op::VABSDIFF, &mods, sources![s.result(0), pt(), a, b, c])?;
    Ok(())
}

/// Absolute differences of four bytes, each in its byte or all added to the third source.
pub(super) fn differences4(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let (a, b) = (s.word(0), s.word(1));
    let (c, sum) = match s.op() {
        Some(AbstractOp::Sad4) => (s.word(2), value::ACC),
        _ => (rz().into(), value::NO),
    };
    let [a, b] = flexible_last([a, b]);
    let mods = [
        (
            name::TYPE,
            if is_signed(scalar) {
                value::S8
            } else {
                value::U8
            },
        ),
        (name::ACC, sum),
    ];
    s.emit(Op::VABSDIFF4, &mods, sources![s.result(0), pt(), a, b, c])?;
    Ok(())
}

pub(super) fn abs(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    if is_wide(scalar) {
        return wide::abs(s);
    }
    let source = s.extended(0, scalar)?;
    s.emit(Op::IABS, &[], sources![s.result(0), source])?;
    Ok(())
}

pub(super) fn neg(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    if is_wide(scalar) {
        return wide::neg(s);
    }
    let source = s.word(0);
    let source = signed_term(source, true).unwrap_or(source);
    s.emit(
        Op::IADD3,
        &[],
        sources![s.result(0), pt(), pt(), rz(), source, rz()],
    )?;
    Ok(())
}
