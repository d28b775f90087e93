//! Products of integers of 16 and 32 bits, with sums or without. What is 64 bits wide goes on to [`super::wide`].

use super::arithmetic::{
    absorbed_product, absorbed_shift, flexible_last, is_half_word, is_signed, is_wide,
    saturated_sum, sign,
};
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::{WORD, sources, wide};
use crate::pipeline::PhaseError;
use orias_ori::operation::{self, Half, Sat, Scalar};
use orias_ori::{Operand, Type};
use orias_sass::Op;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

pub(super) fn mul(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let half: Half = s.modifier()?;
    if is_wide(scalar) {
        return wide::mul(s);
    }
    if is_half_word(scalar) {
        return mul_half_words(s, scalar, half, None);
    }
    let [a, b] = flexible_last([s.word(0), s.word(1)]);
    match half {
        Half::Lo => {
            s.emit(
                Op::IMAD,
                &[(name::SIGN, value::U32)],
                sources![s.result(0), a, b, rz()],
            )?;
        }
        Half::Hi => {
            let mods = [(name::SIGN, sign(scalar))];
            s.emit(Op::IMAD_HI, &mods, sources![s.result(0), pt(), a, b, rz()])?;
        }
        Half::Wide => {
            let mods = [(name::SIGN, sign(scalar))];
            s.emit(
                Op::IMAD_WIDE,
                &mods,
                sources![s.result(0), pt(), a, b, rz()],
            )?;
        }
    }
    Ok(())
}

/// Products of 16 bits are exact in a word.
fn mul_half_words(
    s: &mut Selector<'_>,
    scalar: Scalar,
    half: Half,
    addend: Option<Source>,
) -> Done {
    let (a, b) = match half {
        Half::Lo => (s.word(0), s.word(1)),
        Half::Hi | Half::Wide => (s.extended(0, scalar)?, s.extended(1, scalar)?),
    };
    let [a, b] = flexible_last([a, b]);
    let mods = [(name::SIGN, value::U32)];
    if half != Half::Hi {
        let addend = addend.unwrap_or(rz().into());
        s.emit(Op::IMAD, &mods, sources![s.result(0), a, b, addend])?;
        return Ok(());
    }
    let product = s.temporary(WORD);
    s.emit(Op::IMAD, &mods, sources![product, a, b, rz()])?;
    let upper = match addend {
        Some(_) => Operand::from(s.temporary(WORD)),
        None => s.result(0),
    };
    let mods = [
        (name::DIR, value::R),
        (name::TYPE, sign(scalar)),
        (name::PART, value::HI),
    ];
    s.emit(
        Op::SHF,
        &mods,
        sources![upper, rz(), Source::imm(16), product],
    )?;
    if let Some(addend) = addend {
        s.emit(
            Op::IADD3,
            &[],
            sources![s.result(0), pt(), pt(), upper, addend, rz()],
        )?;
    }
    Ok(())
}

pub(super) fn mad(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let half: Half = s.modifier()?;
    let saturates = s.modifier::<Sat>()? != Sat::Wrap;
    if saturates {
        if scalar != Scalar::S32 || half != Half::Hi {
            return Err(s.unsupported());
        }
        let [a, b] = flexible_last([s.word(0), s.word(1)]);
        let product = s.temporary(WORD);
        s.emit(
            Op::IMAD_HI,
            &[(name::SIGN, value::S32)],
            sources![product, pt(), a, b, rz()],
        )?;
        let c = s.word(2);
        let result = s.result(0);
        return saturated_sum(s, product.into(), c, false, result);
    }
    if is_wide(scalar) {
        return wide::mad(s);
    }
    if is_half_word(scalar) {
        let addend = s.word(2);
        return mul_half_words(s, scalar, half, Some(addend));
    }
    let [a, b] = flexible_last([s.word(0), s.word(1)]);
    let mods = [(name::SIGN, sign(scalar))];
    match half {
        Half::Lo => {
            let c = s.word(2);
            s.emit(
                Op::IMAD,
                &[(name::SIGN, value::U32)],
                sources![s.result(0), a, b, c],
            )?;
        }
        Half::Hi => {
            // The addend takes part above the low word, as the upper half of a pair.
            let c = s.word(2);
            let pair = s.temporary(Type::R2);
            s.count(pair);
            s.define_pair(pair, rz().into(), c)?;
            s.emit(Op::IMAD_HI, &mods, sources![s.result(0), pt(), a, b, pair])?;
        }
        Half::Wide => {
            let c = s.pair(2);
            s.emit(Op::IMAD_WIDE, &mods, sources![s.result(0), pt(), a, b, c])?;
        }
    }
    Ok(())
}

/// Part of a product plus the third operand and a carry.
pub(super) fn mad_carry(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let half: Half = s.modifier()?;
    let carry_in = s.predicate(3);
    let carry_out = s.predicate_result(1);
    if half == Half::Wide {
        if is_wide(scalar) {
            return Err(s.unsupported());
        }
        // A carry that is known to be none has a form without it.
        let none = carry_in.operand == not_pt();
        let [a, b] = flexible_last([s.word(0), s.word(1)]);
        let c = s.pair(2);
        let mods = [(name::SIGN, sign(scalar))];
        match none {
            true => s.emit(
                Op::IMAD_WIDE,
                &mods,
                sources![s.result(0), carry_out, a, b, c],
            )?,
            false => s.emit(
                Op::IMAD_WIDE_X,
                &mods,
                sources![s.result(0), carry_out, a, b, c, carry_in],
            )?,
        };
        return Ok(());
    }
    if is_wide(scalar) {
        let product = wide::product_words(s, half)?;
        let c = s.words(2);
        let middle = s.temporary(Type::P);
        let low = s.add_with_carry(product[0], c[0], false, carry_in, middle.into())?;
        let high = s.add_with_carry(product[1], c[1], false, middle.into(), carry_out)?;
        return s.set_pair(0, low.into(), high.into());
    }
    let [a, b] = flexible_last([s.word(0), s.word(1)]);
    let product = s.temporary(WORD);
    match half {
        Half::Lo => s.emit(
            Op::IMAD,
            &[(name::SIGN, value::U32)],
            sources![product, a, b, rz()],
        )?,
        _ => {
            let mods = [(name::SIGN, sign(scalar))];
            s.emit(Op::IMAD_HI, &mods, sources![product, pt(), a, b, rz()])?
        }
    };
    let c = s.word(2);
    let result = s.word_result(0);
    s.add_with_carry_to(result, product.into(), c, false, carry_in, carry_out)
}

/// The low 24 bits of source `index`, extended.
fn low24(s: &mut Selector<'_>, index: usize, scalar: Scalar) -> Result<Source, PhaseError> {
    let source = s.word(index);
    let value = s.temporary(WORD);
    let mods = [(name::SIGN, sign(scalar))];
    s.emit(Op::SGXT, &mods, sources![value, source, Source::imm(24)])?;
    Ok(value.into())
}

pub(super) fn mul24(s: &mut Selector<'_>) -> Done {
    product24(s, None)
}

pub(super) fn mad24(s: &mut Selector<'_>) -> Done {
    let addend = s.word(2);
    product24(s, Some(addend))
}

/// The low word of the product of 24 bits, or its bits 16 to 47.
fn product24(s: &mut Selector<'_>, addend: Option<Source>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let half: Half = s.modifier()?;
    let saturates = s
        .func
        .modifier::<Sat>(s.at)
        .is_some_and(|sat| sat != Sat::Wrap);
    let a = low24(s, 0, scalar)?;
    let b = low24(s, 1, scalar)?;
    match half {
        Half::Lo if !saturates => {
            let addend = addend.unwrap_or(rz().into());
            s.emit(
                Op::IMAD,
                &[(name::SIGN, value::U32)],
                sources![s.result(0), a, b, addend],
            )?;
        }
        Half::Hi => {
            let product = s.temporary(Type::R2);
            let mods = [(name::SIGN, sign(scalar))];
            s.emit(Op::IMAD_WIDE, &mods, sources![product, pt(), a, b, rz()])?;
            s.count(product);
            let [low, high] = s.split_pair(product);
            let middle = match addend {
                Some(_) => Operand::from(s.temporary(WORD)),
                None => s.result(0),
            };
            let mods = [(name::DIR, value::R), (name::TYPE, value::U64)];
            s.emit(Op::SHF, &mods, sources![middle, low, Source::imm(16), high])?;
            match addend {
                Some(addend) if saturates => {
                    let result = s.result(0);
                    saturated_sum(s, middle.into(), addend, false, result)?;
                }
                Some(addend) => {
                    let operands = sources![s.result(0), pt(), pt(), middle, addend, rz()];
                    s.emit(Op::IADD3, &[], operands)?;
                }
                None => {}
            }
        }
        _ => return Err(s.unsupported()),
    }
    Ok(())
}

/// The types of the factors of a dot product: those of the first are the operation's, of the second the source's.
fn dot_types(s: &Selector<'_>) -> Result<[bool; 2], PhaseError> {
    let first: Scalar = s.modifier()?;
    let second: operation::SourceType = s.modifier()?;
    Ok([is_signed(first), is_signed(second.into())])
}

pub(super) fn dot4(s: &mut Selector<'_>) -> Done {
    let [ta, tb] = dot_types(s)?.map(|signed| if signed { value::S8 } else { value::U8 });
    let (a, b, c) = (s.word(0), s.word(1), s.word(2));
    let mods = [(name::TA, ta), (name::TB, tb)];
    s.emit(Op::IDP_4A, &mods, sources![s.result(0), a, b, c])?;
    Ok(())
}

pub(super) fn dot2(s: &mut Selector<'_>) -> Done {
    let [ta, tb] = dot_types(s)?;
    let part = match s.modifier::<Half>()? {
        Half::Lo => value::LO,
        Half::Hi => value::HI,
        Half::Wide => return Err(s.unsupported()),
    };
    let mods = [
        (name::PART, part),
        (name::TA, if ta { value::S16 } else { value::U16 }),
        (name::TB, if tb { value::S8 } else { value::U8 }),
    ];
    let (a, b, c) = (s.word(0), s.word(1), s.word(2));
    s.emit(Op::IDP_2A, &mods, sources![s.result(0), a, b, c])?;
    Ok(())
}

/// A register and the number it is multiplied by, or shifted to the left by as much, in what defines `operand`, if that is read only here or goes into all who read it.
pub(super) fn absorbed_factor(s: &mut Selector<'_>, operand: Operand) -> Option<(Source, u32)> {
    let (a, factor) = match (absorbed_product(s, operand), absorbed_shift(s, operand)) {
        (Some(product), _) => {
            let [a, b] = [s.func.operands(product)[1], s.func.operands(product)[2]];
            let [a, b] = flexible_last([a, b].map(|operand| s.word_of(operand)));
            (a, b.constant()? as u32)
        }
        (None, Some((shift, amount))) => (s.word_of(s.func.operands(shift)[1]), 1 << amount),
        (None, None) => return None,
    };
    a.is_register().then_some((a, factor))
}
