//! Integer arithmetic in 64 bits, word by word: sums by carries, products from products of words.

use super::arithmetic::{flexible_last, is_signed, sign};
use super::selector::{Selector, pt, rz};
use super::source::Source;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use cranelift_entity::EntitySet;
use orias_ori::analysis::DefUse;
use orias_ori::operation::{self, Half, Sat, Scalar};
use orias_ori::{AbstractOp, Function, Inst, Operand, Type, Value};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// `a ± b`.
pub(super) fn add(s: &mut Selector<'_>, subtract: bool) -> Done {
    let taken_in = !subtract
        && (add_wide_product(s)?
            || add_low_product(s)?
            || add_shifted(s)?
            || add_three(s)?
            || add_extended(s)?);
    if taken_in {
        return Ok(());
    }
    let (a, b) = (s.words(0), s.words(1));
    let [low, high] = sum_words(s, a, b, subtract)?;
    s.set_pair(0, low.into(), high.into())
}

/// The words of `a ± b`.
fn sum_words(
    s: &mut Selector<'_>,
    a: [Source; 2],
    b: [Source; 2],
    subtract: bool,
) -> Result<[Value; 2], PhaseError> {
    // A known number is subtracted by adding its opposite.
    let known =
        |words: [Source; 2]| Some(words[0].constant()? & 0xffff_ffff | words[1].constant()? << 32);
    let (b, subtract) = match known(b).filter(|_| subtract) {
        Some(bits) => {
            let bits = bits.wrapping_neg();
            (
                [Source::imm(bits as u32), Source::imm((bits >> 32) as u32)],
                false,
            )
        }
        None => (b, subtract),
    };
    if b[0].is_zero() && !subtract {
        // No carry comes out of the low word.
        let low = s.in_register(a[0])?;
        let high = s.sum(a[1], b[1])?;
        return Ok([low, high]);
    }
    let carry = s.temporary(Type::P);
    let low = s.temporary(WORD);
    let second = match subtract {
        true => {
            let register = s.in_register(b[0])?;
            let source = Source::from(register);
            source.negated().unwrap_or(source)
        }
        false => b[0],
    };
    let [first, second] = flexible_last([a[0], second]);
    s.emit(
        Op::IADD3,
        &[],
        sources![low, carry, pt(), first, second, rz()],
    )?;
    let high = s.add_with_carry(a[1], b[1], subtract, carry.into(), pt())?;
    Ok([low, high])
}

/// A product of words that is 64 bits wide, made in this block, or, where registers are limited, one that sums alone read. Where others read it, too, it is made again: one instruction instead of
/// the two of a sum, and one register that waits for it instead of two.
fn add_wide_product(s: &mut Selector<'_>) -> Result<bool, PhaseError> {
    let operands = [s.operand(0), s.operand(1)];
    for place in [1, 0] {
        let Some(inst) = wide_product(s, operands[place]) else {
            continue;
        };
        let Some(scalar) = s.func.modifier::<Scalar>(inst) else {
            continue;
        };
        let factors = [s.func.operands(inst)[1], s.func.operands(inst)[2]];
        let [a, b] = flexible_last(factors.map(|operand| s.word_of(operand)));
        let c = s.pair_of(operands[1 - place]);
        let mods = [(name::SIGN, sign(scalar))];
        s.emit(Op::IMAD_WIDE, &mods, sources![s.result(0), pt(), a, b, c])?;
        return Ok(true);
    }
    Ok(false)
}

/// The low half of a product of doublewords that is read only here: the product of the low words takes the other term in.
fn add_low_product(s: &mut Selector<'_>) -> Result<bool, PhaseError> {
    let operands = [s.operand(0), s.operand(1)];
    for place in [1, 0] {
        let other = operands[1 - place];
        let Some(inst) = low_product_of(s, operands[place]) else {
            continue;
        };
        // Words that lie apart would have to be brought together.
        let words = other.as_value().and_then(|value| s.known_words(value));
        if words.is_some_and(|words| words.iter().any(|word| word.as_value().is_some())) {
            continue;
        }
        let [a, b] = [1, 2]
            .map(|place| s.func.operands(inst)[place])
            .map(|side| s.words_of(side));
        let c = s.pair_of(other);
        let [low, high] = low_product(s, a, b, c)?;
        s.set_pair(0, low, high)?;
        return Ok(true);
    }
    Ok(false)
}

/// The product of doublewords of which `operand`, read only here, is the low half.
fn low_product_of(s: &Selector<'_>, operand: Operand) -> Option<Inst> {
    let value = operand.as_value().filter(|_| operand.mods().is_empty())?;
    let inst = s.absorbable(value, AbstractOp::Mul)?;
    let low = s.func.modifier::<Half>(inst) == Some(Half::Lo);
    let wide = s.func.modifier::<Scalar>(inst).map(Scalar::bits) == Some(64);
    let plain = |operand: &Operand| operand.mods().is_empty();
    (low && wide && s.func.operands(inst)[1..].iter().all(plain)).then_some(inst)
}

fn wide_product(s: &Selector<'_>, operand: Operand) -> Option<Inst> {
    let value = operand.as_value()?;
    let (inst, op) = s.definition(value)?;
    let here = s.func.layout.inst_block(inst) == Some(s.block);
    (op == AbstractOp::Mul && (here || s.addends.contains(value))).then_some(())?;
    is_wide_product(s.func, inst).then_some(inst)
}

/// Whether `inst` makes a product of words that is 64 bits wide.
fn is_wide_product(func: &Function, inst: Inst) -> bool {
    let wide = func.modifier::<Half>(inst) == Some(Half::Wide);
    let scalar = func.modifier::<Scalar>(inst);
    wide && scalar.is_some_and(|scalar| scalar.bits() == 32)
}

/// The wide products of words that nothing but sums of 64 bits reads, of two terms each: one of three takes no more instructions than one of two.
pub(super) fn addends(func: &Function, chains: &DefUse) -> EntitySet<Value> {
    let is_sum = |inst: Inst| {
        func.opcode(inst).as_abstract() == Some(AbstractOp::Add)
            && func.inst(inst).guard().is_always()
            && (func.modifier::<Scalar>(inst)).is_some_and(|scalar| scalar.bits() == 64)
    };
    let goes_into_a_sum = |sum: Inst| {
        let value = func.result(sum, 0);
        let reads = value.map_or(&[][..], |value| chains.uses(value));
        matches!(reads, [read] if is_sum(read.inst)
            && func.layout.inst_block(read.inst) == func.layout.inst_block(sum))
    };
    let adds = |reader: Inst| {
        let mut terms = func.value_uses(reader);
        is_sum(reader)
            && !goes_into_a_sum(reader)
            && !terms.any(|term| {
                let inner = func.defining_inst(term);
                inner.is_some_and(|inner| is_sum(inner) && goes_into_a_sum(inner))
            })
    };
    let mut found = EntitySet::new();
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            if func.opcode(inst).as_abstract() == Some(AbstractOp::Mul)
                && func.inst(inst).guard().is_always()
                && is_wide_product(func, inst)
                && let Some(value) = func.result(inst, 0)
                && chains.uses(value).iter().all(|read| adds(read.inst))
            {
                found.insert(value);
            }
        }
    }
    found
}

/// A shift to the left by a known amount below 32, read only by this sum.
fn add_shifted(s: &mut Selector<'_>) -> Result<bool, PhaseError> {
    let operands = [s.operand(0), s.operand(1)];
    for place in [1, 0] {
        let Some((inst, amount)) = absorbed_shift(s, operands[place]) else {
            continue;
        };
        let shifted = s.func.operands(inst)[1];
        let shifted = s.words_of(shifted);
        let other = s.words_of(operands[1 - place]);
        let carry = s.temporary(Type::P);
        let low = s.temporary(WORD);
        let high = s.temporary(WORD);
        let amount = Operand::imm(u64::from(amount));
        s.emit(
            Op::LEA,
            &[],
            sources![low, carry, shifted[0], other[0], amount],
        )?;
        let operands = sources![high, pt(), shifted[0], other[1], shifted[1], amount, carry];
        s.emit(Op::LEA_HI_X, &[], operands)?;
        s.set_pair(0, low.into(), high.into())?;
        return Ok(true);
    }
    Ok(false)
}

/// A sum of which one term is a sum that is read only here: two carries at once.
fn add_three(s: &mut Selector<'_>) -> Result<bool, PhaseError> {
    let operands = [s.operand(0), s.operand(1)];
    for place in [0, 1] {
        let inner = operands[place].as_value();
        let Some(inner) = inner.and_then(|value| s.absorbable(value, AbstractOp::Add)) else {
            continue;
        };
        let wide = s.func.modifier::<Scalar>(inner).map(Scalar::bits) == Some(64);
        let &[_, first, second] = s.func.operands(inner) else {
            continue;
        };
        // Those become one instruction with the sum they are in.
        let is_plain = |operand: Operand| {
            wide_product(s, operand).is_none()
                && low_product_of(s, operand).is_none()
                && absorbed_shift(s, operand).is_none()
        };
        if !wide || !is_plain(first) || !is_plain(second) {
            continue;
        }
        let mut terms = [first, second, operands[1 - place]].map(|operand| s.words_of(operand));
        let known = |word: &Source| word.constant().is_some();
        let above = |words: &[Source; 2]| known(&words[1]) && !words[1].is_zero();
        if terms.iter().any(|words| known(&words[0]) || above(words)) {
            continue;
        }
        // Words without a sign have nothing above them.
        for words in terms.iter_mut().filter(|words| words[1].is_zero()) {
            words[1] = rz().into();
        }
        // The second may be something else than a register.
        let is_register = |words: &[Source; 2]| matches!(words[0].operand, Operand::Reg { .. });
        if let Some(flexible) = terms.iter().position(|words| !is_register(words)) {
            terms.swap(1, flexible);
        }
        let carries = [s.temporary(Type::P), s.temporary(Type::P)];
        let (low, high) = (s.temporary(WORD), s.temporary(WORD));
        let [a, b, c] = terms.map(|words| words[0]);
        let sum = sources![low, carries[0], carries[1], a, b, c];
        s.emit(Op::IADD3, &[], sum)?;
        let [a, b, c] = terms.map(|words| words[1]);
        let sum = sources![high, pt(), pt(), a, b, c, carries[0], carries[1]];
        s.emit(Op::IADD3_X, &[], sum)?;
        s.set_pair(0, low.into(), high.into())?;
        return Ok(true);
    }
    Ok(false)
}

/// A sum of which one term is a word with a sign that is read only here: what is above it need not be made.
fn add_extended(s: &mut Selector<'_>) -> Result<bool, PhaseError> {
    let operands = [s.operand(0), s.operand(1)];
    for place in [1, 0] {
        let Some(word) = absorbed_extension(s, operands[place]) else {
            continue;
        };
        let other = s.words_of(operands[1 - place]);
        let word = s.word_of(word);
        if word.constant().is_some() || other[0].constant().is_some() {
            continue;
        }
        let word = s.in_register(word)?;
        let carry = s.temporary(Type::P);
        let (low, high) = (s.temporary(WORD), s.temporary(WORD));
        let [first, second] = flexible_last([word.into(), other[0]]);
        let sum = sources![low, carry, pt(), first, second, rz()];
        s.emit(Op::IADD3, &[], sum)?;
        // The sign and the word without it, moved up by one: what is then above is the sign.
        let sum = sources![high, pt(), word, other[1], Operand::imm(1), carry];
        s.emit(Op::LEA_HI_X_SX32, &[], sum)?;
        s.set_pair(0, low.into(), high.into())?;
        return Ok(true);
    }
    Ok(false)
}

/// The word that `operand`, read only here, extends by its sign.
fn absorbed_extension(s: &Selector<'_>, operand: Operand) -> Option<Operand> {
    let inst = s.absorbable(operand.as_value()?, AbstractOp::Cvt)?;
    let from: Scalar = s.func.modifier::<operation::SourceType>(inst)?.into();
    let to = s.func.modifier::<Scalar>(inst)?;
    let source = s.func.operands(inst)[s.func.result_count(inst)];
    let plain = operand.mods().is_empty() && source.mods().is_empty();
    (from == Scalar::S32 && to.bits() == 64 && is_whole(to) && plain).then_some(source)
}

/// Whether it is a number without a fraction.
fn is_whole(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::S64 | Scalar::U64 | Scalar::B64)
}

fn absorbed_shift(s: &Selector<'_>, operand: Operand) -> Option<(Inst, u32)> {
    let inst = s.absorbable(operand.as_value()?, AbstractOp::Shl)?;
    let wide = s.func.modifier::<Scalar>(inst) == Some(Scalar::B64);
    match s.func.operands(inst)[2] {
        Operand::Imm(imm) if wide && (1..32).contains(&imm.bits()) => {
            Some((inst, imm.bits() as u32))
        }
        _ => None,
    }
}

pub(super) fn mul(s: &mut Selector<'_>) -> Done {
    let half: Half = s.modifier()?;
    if half == Half::Wide {
        return Err(s.unsupported());
    }
    let [low, high] = product_words(s, half)?;
    s.set_pair(0, low, high)
}

/// The low or the high half of the product of sources 0 and 1.
pub(super) fn product_words(s: &mut Selector<'_>, half: Half) -> Result<[Source; 2], PhaseError> {
    let scalar: Scalar = s.modifier()?;
    let (a, b) = (s.words(0), s.words(1));
    match half {
        Half::Lo => low_product(s, a, b, rz().into()),
        _ => high_product(s, a, b, is_signed(scalar)),
    }
}

/// The low 64 bits of `a · b + c`, `c` being a pair.
fn low_product(
    s: &mut Selector<'_>,
    a: [Source; 2],
    b: [Source; 2],
    c: Source,
) -> Result<[Source; 2], PhaseError> {
    let unsigned = [(name::SIGN, value::U32)];
    let [x, y] = flexible_last([a[0], b[0]]);
    let product = s.temporary(Type::R2);
    s.emit(Op::IMAD_WIDE, &unsigned, sources![product, pt(), x, y, c])?;
    s.count(product);
    let [low, high] = s.split_pair(product);
    // Below the low word only the low words count; the mixed products go on top.
    let mut high = Source::from(high);
    for (x, y) in [(a[1], b[0]), (a[0], b[1])] {
        if x.is_zero() || y.is_zero() {
            continue;
        }
        let [x, y] = flexible_last([x, y]);
        let value = s.temporary(WORD);
        s.emit(Op::IMAD, &unsigned, sources![value, x, y, high])?;
        high = value.into();
    }
    Ok([low.into(), high])
}

/// The high 64 bits of `a · b`.
fn high_product(
    s: &mut Selector<'_>,
    a: [Source; 2],
    b: [Source; 2],
    signed: bool,
) -> Result<[Source; 2], PhaseError> {
    let mut registers = [a[0], a[1], b[0], b[1]];
    for word in &mut registers {
        *word = match word.is_zero() {
            true => rz().into(),
            false => s.in_register(*word)?.into(),
        };
    }
    let [a0, a1, b0, b1] = registers;
    let unsigned = [(name::SIGN, value::U32)];
    let first = s.temporary(Type::R2);
    s.emit(
        Op::IMAD_WIDE,
        &unsigned,
        sources![first, pt(), a1, b0, rz()],
    )?;
    let mixed = s.temporary(Type::R2);
    let mixed_carry = s.temporary(Type::P);
    s.emit(
        Op::IMAD_WIDE,
        &unsigned,
        sources![mixed, mixed_carry, a0, b1, first],
    )?;
    let lowest = s.temporary(Type::R2);
    s.emit(
        Op::IMAD_WIDE,
        &unsigned,
        sources![lowest, pt(), a0, b0, rz()],
    )?;
    s.count(lowest);
    s.count(mixed);
    let [_, lowest_high] = s.split_pair(lowest);
    let [mixed_low, mixed_high] = s.split_pair(mixed);
    let top = s.add_with_carry(rz().into(), rz().into(), false, mixed_carry.into(), pt())?;
    let carry = s.temporary(Type::P);
    let operands = sources![rz(), carry, pt(), lowest_high, mixed_low, rz()];
    s.emit(Op::IADD3, &[], operands)?;
    let above = s.temporary(Type::R2);
    s.count(above);
    s.define_pair(above, mixed_high.into(), top.into())?;
    let product = s.temporary(Type::R2);
    s.emit(
        Op::IMAD_WIDE_X,
        &unsigned,
        sources![product, pt(), a1, b1, above, carry],
    )?;
    s.count(product);
    let mut words = s.split_pair(product).map(Source::from);
    if signed {
        // A negative factor counts 2^64 too much: the other factor is taken off the high half.
        for (factor, other) in [(b1, [a0, a1]), (a1, [b0, b1])] {
            let negative = s.compare(value::LT, value::S32, factor, rz().into())?;
            let less = sum_words(s, words, other, true)?;
            for place in [0, 1] {
                let chosen = s.choose(less[place].into(), words[place], negative.into())?;
                words[place] = chosen.into();
            }
        }
    }
    Ok(words)
}

pub(super) fn mad(s: &mut Selector<'_>) -> Done {
    let half: Half = s.modifier()?;
    if s.modifier::<Sat>()? != Sat::Wrap || half == Half::Wide {
        return Err(s.unsupported());
    }
    if half == Half::Lo {
        let (a, b) = (s.words(0), s.words(1));
        let c = s.pair(2);
        let [low, high] = low_product(s, a, b, c)?;
        return s.set_pair(0, low, high);
    }
    let product = product_words(s, half)?;
    let c = s.words(2);
    let [low, high] = sum_words(s, product, c, false)?;
    s.set_pair(0, low.into(), high.into())
}

pub(super) fn neg(s: &mut Selector<'_>) -> Done {
    let source = s.words(0);
    let zero = [rz().into(), rz().into()];
    let [low, high] = sum_words(s, zero, source, true)?;
    s.set_pair(0, low.into(), high.into())
}

pub(super) fn abs(s: &mut Selector<'_>) -> Done {
    let source = s.words(0);
    let zero = [rz().into(), rz().into()];
    let opposite = sum_words(s, zero, source, true)?;
    let negative = s.compare(value::LT, value::S32, source[1], rz().into())?;
    let low = s.choose(opposite[0].into(), source[0], negative.into())?;
    let high = s.choose(opposite[1].into(), source[1], negative.into())?;
    s.set_pair(0, low.into(), high.into())
}

/// A comparison of pairs as a new predicate: the low words without sign, the high words with the result of those.
pub(super) fn compare_words(
    s: &mut Selector<'_>,
    cmp: ValueName,
    scalar: Scalar,
    a: [Source; 2],
    b: [Source; 2],
) -> Result<Value, PhaseError> {
    let low = s.compare(cmp, value::U32, a[0], b[0])?;
    let predicate = s.temporary(Type::P);
    let mods = [(name::CMP, cmp), (name::SIGN, sign(scalar))];
    let operands = sources![predicate, pt(), a[1], b[1], pt(), low];
    s.emit(Op::ISETP_EX, &mods, operands)?;
    Ok(predicate)
}

pub(super) fn min_max(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let (a, b) = (s.words(0), s.words(1));
    let cmp = match s.op() {
        Some(AbstractOp::Min) => value::LT,
        _ => value::GT,
    };
    let first = compare_words(s, cmp, scalar, a, b)?;
    let low = s.choose(a[0], b[0], first.into())?;
    let high = s.choose(a[1], b[1], first.into())?;
    s.set_pair(0, low.into(), high.into())
}

/// `|a - b| + c`.
pub(super) fn sad(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let (a, b) = (s.words(0), s.words(1));
    let over = compare_words(s, value::GE, scalar, a, b)?;
    let one = sum_words(s, a, b, true)?;
    let other = sum_words(s, b, a, true)?;
    let low = s.choose(one[0].into(), other[0].into(), over.into())?;
    let high = s.choose(one[1].into(), other[1].into(), over.into())?;
    let c = s.words(2);
    let [low, high] = sum_words(s, c, [low.into(), high.into()], false)?;
    s.set_pair(0, low.into(), high.into())
}
