//! Logic, shifts and bit fields.
//!
//! Logic becomes one table of three inputs: what is read only by it is taken into the table, as long as there are no more
//! than three different inputs.

use super::arithmetic::{is_signed, is_wide, sign};
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::wide::compare_words;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::{Clamp, Combine, Direction, Permute, Scalar};
use orias_ori::{AbstractOp, Operand, SourceMods, Value};
use orias_sass::Op;

type Done = Result<(), PhaseError>;

/// How deep definitions are taken into a table.
const DEPTH: u32 = 4;

/// The tables of the three inputs themselves.
const INPUTS: [u8; 3] = [0xf0, 0xcc, 0xaa];

/// `op` on two tables.
fn combine(op: AbstractOp, a: u8, b: u8) -> u8 {
    match op {
        AbstractOp::And => a & b,
        AbstractOp::Or => a | b,
        AbstractOp::Xor => a ^ b,
        _ => !a,
    }
}

/// A function of up to three inputs.
struct Table {
    inputs: Vec<Operand>,
    bits: u8,
}

impl Table {
    /// The table of `operand` itself; `None` if there is no room for another input.
    fn input(&mut self, operand: Operand) -> Option<u8> {
        let place = match self.inputs.iter().position(|&have| have == operand) {
            Some(place) => place,
            None => {
                self.inputs.push(operand);
                self.inputs.len() - 1
            }
        };
        INPUTS.get(place).copied()
    }
}

/// The table of what `operand` is, with definitions read only here taken in, at most `depth` deep.
fn table_of(
    s: &Selector<'_>,
    operand: Operand,
    scalar: Scalar,
    depth: u32,
    table: &mut Table,
) -> Option<u8> {
    let absorbed = operand.as_value().filter(|_| depth > 0).and_then(|value| {
        [
            AbstractOp::And,
            AbstractOp::Or,
            AbstractOp::Xor,
            AbstractOp::Not,
        ]
        .into_iter()
        .find_map(|op| Some((s.absorbable(value, op)?, op)))
        .filter(|(inst, _)| s.func.modifier::<Scalar>(*inst) == Some(scalar))
    });
    let negated = operand.mods().contains(SourceMods::NOT);
    let bits = match absorbed {
        Some((inst, op)) => {
            let a = table_of(s, s.func.operands(inst)[1], scalar, depth - 1, table)?;
            match op {
                AbstractOp::Not => !a,
                op => {
                    let b = table_of(s, s.func.operands(inst)[2], scalar, depth - 1, table)?;
                    combine(op, a, b)
                }
            }
        }
        None => table.input(operand.with_mods(SourceMods::NONE).unwrap_or(operand))?,
    };
    Some(if negated { !bits } else { bits })
}

/// The largest table for the instruction being selected.
fn whole_table(s: &Selector<'_>, op: AbstractOp, scalar: Scalar) -> Option<Table> {
    let operands = match op {
        AbstractOp::Not => vec![s.operand(0)],
        _ => vec![s.operand(0), s.operand(1)],
    };
    for depth in (0..=DEPTH).rev() {
        let mut table = Table {
            inputs: Vec::new(),
            bits: 0,
        };
        let parts: Option<Vec<u8>> = operands
            .iter()
            .map(|&operand| table_of(s, operand, scalar, depth, &mut table))
            .collect();
        if let Some(parts) = parts {
            let second = parts.get(1).copied().unwrap_or(0);
            table.bits = combine(op, parts[0], second);
            return Some(table);
        }
    }
    None
}

pub(super) fn logic(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let Some(op) = s.op() else {
        return Err(s.unsupported());
    };
    let Some(table) = whole_table(s, op, scalar) else {
        return Err(s.broken("no table of three inputs"));
    };
    if scalar == Scalar::Pred {
        return predicate_logic(s, &table);
    }
    if !is_wide(scalar) {
        let inputs: Vec<Source> = table
            .inputs
            .iter()
            .map(|&operand| s.word_of(operand))
            .collect();
        let result = s.result(0);
        return emit_table(s, result, &inputs, table.bits);
    }
    let inputs: Vec<[Source; 2]> = table
        .inputs
        .iter()
        .map(|&operand| s.words_of(operand))
        .collect();
    let mut words = [rz(); 2];
    for (place, word) in words.iter_mut().enumerate() {
        let inputs: Vec<Source> = inputs.iter().map(|words| words[place]).collect();
        let value = s.temporary(WORD);
        emit_table(s, value.into(), &inputs, table.bits)?;
        *word = value.into();
    }
    s.set_pair(0, words[0].into(), words[1].into())
}

/// Emits LOP3. What is no register goes to the second place, and the table follows the inputs to their new places.
fn emit_table(s: &mut Selector<'_>, result: Operand, inputs: &[Source], bits: u8) -> Done {
    let mut places: Vec<Source> = inputs.to_vec();
    places.resize(3, rz().into());
    let mut order = [0, 1, 2];
    if let Some(place) = places.iter().position(|source| !source.is_register()) {
        order.swap(1, place);
    }
    let bits = reorder(bits, order);
    let [a, b, c] = order.map(|place| places[place]);
    let table = Operand::imm(u64::from(bits));
    s.emit(
        Op::LOP3,
        &[],
        sources![pt(), result, a, b, c, table, not_pt()],
    )?;
    Ok(())
}

/// The table when input `order[i]` is read in place `i`.
fn reorder(bits: u8, order: [usize; 3]) -> u8 {
    (0..8u8)
        .filter(|row| {
            let mut old = 0;
            for (place, &input) in order.iter().enumerate() {
                old |= (row >> (2 - place) & 1) << (2 - input);
            }
            bits >> old & 1 == 1
        })
        .fold(0, |table, row| table | 1 << row)
}

fn predicate_logic(s: &mut Selector<'_>, table: &Table) -> Done {
    let mut inputs: Vec<Source> = table
        .inputs
        .iter()
        .map(|&operand| s.predicate_of(operand))
        .collect();
    inputs.resize(3, pt().into());
    let lut = Operand::imm(u64::from(table.bits));
    let second = Operand::imm(0);
    let operands = sources![
        s.result(0),
        pt(),
        inputs[0],
        inputs[1],
        inputs[2],
        lut,
        second
    ];
    s.emit(Op::PLOP3, &[], operands)?;
    Ok(())
}

/// One if the operand is zero.
pub(super) fn is_zero(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let one = Source::imm(1);
    if is_wide(scalar) {
        let words = s.words(0);
        let zero = compare_words(s, "EQ", Scalar::U64, words, [rz().into(), rz().into()])?;
        let low = s.choose(one, rz().into(), zero.into())?;
        return s.set_pair(0, low.into(), rz().into());
    }
    let source = match scalar {
        Scalar::B16 => s.extended(0, Scalar::U16)?,
        _ => s.word(0),
    };
    let zero = s.compare("EQ", "U32", source, rz().into())?;
    let result = s.result(0);
    s.choose_to(result, one, rz().into(), zero.into())
}

/// A table the program gives.
pub(super) fn table(s: &mut Selector<'_>) -> Done {
    let Operand::Imm(lut) = s.operand(3) else {
        return Err(s.broken("the table is not a number"));
    };
    let inputs = [s.word(0), s.word(1), s.word(2)];
    let mut order = [0, 1, 2];
    if let Some(place) = inputs.iter().position(|source| !source.is_register()) {
        order.swap(1, place);
    }
    let [a, b, c] = order.map(|place| inputs[place]);
    let lut = Operand::imm(u64::from(reorder(lut.bits() as u8, order)));
    let with = s.operand(4);
    let (pand, q) = match (s.modifier::<Combine>()?, with) {
        (Combine::And, _) => ("PAND", s.predicate_of(with)),
        (Combine::Or, _) => ("POR", s.predicate_of(with)),
        (Combine::None, _) => ("POR", not_pt().into()),
        (Combine::Xor, _) => return Err(s.unsupported()),
    };
    let operands = sources![s.predicate_result(1), s.word_result(0), a, b, c, lut, q];
    s.emit(Op::LOP3, &[("pand", pand)], operands)?;
    Ok(())
}

/// SHF with the given direction, type and part.
fn shf(
    s: &mut Selector<'_>,
    result: Operand,
    (dir, ty, part, wrap): (&str, &str, &str, &str),
    low: Source,
    amount: Source,
    high: Source,
) -> Done {
    let mods = [("dir", dir), ("type", ty), ("part", part), ("wrap", wrap)];
    s.emit(Op::SHF, &mods, sources![result, low, amount, high])?;
    Ok(())
}

const CLAMP: &str = "CLAMP";

pub(super) fn shift_left(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let amount = s.word(1);
    if !is_wide(scalar) {
        let value = s.word(0);
        let result = s.result(0);
        return match amount.constant() {
            Some(bits) if bits < 32 => {
                let factor = Source::imm(1 << bits);
                s.emit(
                    Op::IMAD,
                    &[("sign", "U32")],
                    sources![result, value, factor, rz()],
                )?;
                Ok(())
            }
            _ => shf(
                s,
                result,
                ("L", "U32", "LO", CLAMP),
                value,
                amount,
                rz().into(),
            ),
        };
    }
    let [low, high] = s.words(0);
    match amount.constant() {
        Some(0) => s.set_pair(0, low, high),
        Some(bits) if bits >= 64 => s.set_pair(0, rz().into(), rz().into()),
        Some(bits) if bits >= 32 => {
            let value = s.temporary(WORD);
            let amount = Source::imm(bits as u32 - 32);
            shf(
                s,
                value.into(),
                ("L", "U32", "LO", CLAMP),
                low,
                amount,
                rz().into(),
            )?;
            s.set_pair(0, rz().into(), value.into())
        }
        _ => {
            let new_low = s.temporary(WORD);
            let new_high = s.temporary(WORD);
            let amount: Source = match amount.constant() {
                Some(_) => amount,
                None => s.in_register(amount)?.into(),
            };
            shf(
                s,
                new_high.into(),
                ("L", "U64", "HI", CLAMP),
                low,
                amount,
                high,
            )?;
            shf(
                s,
                new_low.into(),
                ("L", "U32", "LO", CLAMP),
                low,
                amount,
                rz().into(),
            )?;
            s.set_pair(0, new_low.into(), new_high.into())
        }
    }
}

pub(super) fn shift_right(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let amount = s.word(1);
    let word_type = sign(scalar);
    if !is_wide(scalar) {
        let of = match scalar {
            Scalar::B16 => Scalar::U16,
            other => other,
        };
        let value = s.extended(0, of)?;
        let result = s.result(0);
        return shf(
            s,
            result,
            ("R", word_type, "HI", CLAMP),
            rz().into(),
            amount,
            value,
        );
    }
    let signed = is_signed(scalar);
    let [low, high] = s.words(0);
    let fill = |s: &mut Selector<'_>| match signed {
        true => {
            let value = s.temporary(WORD);
            let all = Source::imm(31);
            shf(
                s,
                value.into(),
                ("R", "S32", "HI", CLAMP),
                rz().into(),
                all,
                high,
            )?;
            Ok(Source::from(value))
        }
        false => Ok(rz().into()),
    };
    match amount.constant() {
        Some(0) => s.set_pair(0, low, high),
        Some(bits) if bits >= 64 => {
            let fill = fill(s)?;
            s.set_pair(0, fill, fill)
        }
        Some(bits) if bits >= 32 => {
            let value = s.temporary(WORD);
            let amount = Source::imm(bits as u32 - 32);
            shf(
                s,
                value.into(),
                ("R", word_type, "HI", CLAMP),
                rz().into(),
                amount,
                high,
            )?;
            let fill = fill(s)?;
            s.set_pair(0, value.into(), fill)
        }
        _ => {
            let new_low = s.temporary(WORD);
            let new_high = s.temporary(WORD);
            let amount: Source = match amount.constant() {
                Some(_) => amount,
                None => s.in_register(amount)?.into(),
            };
            let pair_type = if signed { "S64" } else { "U64" };
            shf(
                s,
                new_low.into(),
                ("R", pair_type, "LO", CLAMP),
                low,
                amount,
                high,
            )?;
            shf(
                s,
                new_high.into(),
                ("R", word_type, "HI", CLAMP),
                rz().into(),
                amount,
                high,
            )?;
            s.set_pair(0, new_low.into(), new_high.into())
        }
    }
}

pub(super) fn funnel(s: &mut Selector<'_>) -> Done {
    let wrap = match s.modifier::<Clamp>()? {
        Clamp::Clamp => CLAMP,
        Clamp::Wrap => "W",
    };
    let how = match s.modifier::<Direction>()? {
        Direction::Left => ("L", "U32", "HI", wrap),
        Direction::Right => ("R", "U32", "LO", wrap),
    };
    let (low, high, amount) = (s.word(0), s.word(1), s.word(2));
    let result = s.result(0);
    shf(s, result, how, low, amount, high)
}

pub(super) fn permute(s: &mut Selector<'_>) -> Done {
    let mode = match s.modifier::<Permute>()? {
        Permute::Index => "IDX",
        Permute::F4e => "F4E",
        Permute::B4e => "B4E",
        Permute::Rc8 => "RC8",
        Permute::Ecl => "ECL",
        Permute::Ecr => "ECR",
        Permute::Rc16 => "RC16",
    };
    let (a, b, select) = (s.word(0), s.word(1), s.word(2));
    s.emit(
        Op::PRMT,
        &[("mode", mode)],
        sources![s.result(0), a, select, b],
    )?;
    Ok(())
}

/// An operation on one word as a new value.
fn unary(s: &mut Selector<'_>, op: Op, source: Source) -> Result<Value, PhaseError> {
    let value = s.temporary(WORD);
    s.emit(op, &[], sources![value, source])?;
    Ok(value)
}

pub(super) fn count(s: &mut Selector<'_>) -> Done {
    if !is_wide(s.modifier()?) {
        let source = s.word(0);
        s.emit(Op::POPC, &[], sources![s.result(0), source])?;
        return Ok(());
    }
    let [low, high] = s.words(0);
    let low = unary(s, Op::POPC, low)?;
    let high = unary(s, Op::POPC, high)?;
    s.emit(
        Op::IADD3,
        &[],
        sources![s.result(0), pt(), pt(), low, high, rz()],
    )?;
    Ok(())
}

pub(super) fn reverse(s: &mut Selector<'_>) -> Done {
    if !is_wide(s.modifier()?) {
        let source = s.word(0);
        s.emit(Op::BREV, &[], sources![s.result(0), source])?;
        return Ok(());
    }
    let [low, high] = s.words(0);
    let low = unary(s, Op::BREV, low)?;
    let high = unary(s, Op::BREV, high)?;
    s.set_pair(0, high.into(), low.into())
}

/// FLO: the position of the highest set bit (of the highest bit unlike the sign), or its distance from the top; all ones if
/// there is none.
fn flo(s: &mut Selector<'_>, result: Operand, signed: bool, shift: bool, source: Source) -> Done {
    let mods = [
        ("sign", if signed { "S32" } else { "U32" }),
        ("shift", if shift { "SH" } else { "no" }),
    ];
    s.emit(Op::FLO, &mods, sources![result, pt(), source])?;
    Ok(())
}

pub(super) fn leading_zeros(s: &mut Selector<'_>) -> Done {
    let position = s.temporary(WORD);
    if !is_wide(s.modifier()?) {
        let source = s.word(0);
        flo(s, position.into(), false, false, source)?;
        let minus = Source::from(position).negated().unwrap_or(position.into());
        s.emit(
            Op::IADD3,
            &[],
            sources![s.result(0), pt(), pt(), minus, Source::imm(31), rz()],
        )?;
        return Ok(());
    }
    // The high word if it has a bit, else the low one, which is 32 further down.
    let [low, high] = s.words(0);
    let in_high = s.compare("NE", "U32", high, rz().into())?;
    let word = s.choose(high, low, in_high.into())?;
    flo(s, position.into(), false, false, word.into())?;
    let top = s.choose(Source::imm(31), Source::imm(63), in_high.into())?;
    let minus = Source::from(position).negated().unwrap_or(position.into());
    s.emit(
        Op::IADD3,
        &[],
        sources![s.result(0), pt(), pt(), minus, top, rz()],
    )?;
    Ok(())
}

pub(super) fn find(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let shift = s.op() == Some(AbstractOp::BfindShift);
    let signed = is_signed(scalar);
    if !is_wide(scalar) {
        let source = s.word(0);
        let result = s.result(0);
        return flo(s, result, signed, shift, source);
    }
    let [mut low, high] = s.words(0);
    let upper = s.temporary(WORD);
    flo(s, upper.into(), signed, shift, high)?;
    if signed {
        // Below a sign, bits unlike the sign are looked for.
        let fill = s.temporary(WORD);
        shf(
            s,
            fill.into(),
            ("R", "S32", "HI", CLAMP),
            rz().into(),
            Source::imm(31),
            high,
        )?;
        let value = s.temporary(WORD);
        emit_table(s, value.into(), &[low, fill.into()], INPUTS[0] ^ INPUTS[1])?;
        low = value.into();
    }
    let lower = s.temporary(WORD);
    flo(s, lower.into(), false, shift, low)?;
    let none = Source::imm(u32::MAX);
    let in_high = s.compare("NE", "U32", upper.into(), none)?;
    let result = s.result(0);
    if shift {
        // From the top: the low word is 32 further away, unless it has no such bit either.
        let further = s.sum(lower.into(), Source::imm(32))?;
        let found = s.compare("NE", "U32", lower.into(), none)?;
        let lower = s.choose(further.into(), lower.into(), found.into())?;
        s.choose_to(result, upper.into(), lower.into(), in_high.into())
    } else {
        let raised = s.sum(upper.into(), Source::imm(32))?;
        s.choose_to(result, raised.into(), lower.into(), in_high.into())
    }
}

/// The low byte of source `index`, as PTX reads positions and lengths.
fn byte(s: &mut Selector<'_>, index: usize) -> Result<Source, PhaseError> {
    let source = s.word(index);
    match source.constant() {
        Some(bits) => Ok(Source::imm(bits as u32 & 0xff)),
        None => s.extend_word(source, Scalar::U8),
    }
}

pub(super) fn extract(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let position = byte(s, 1)?;
    let length = byte(s, 2)?;
    let signed = is_signed(scalar);
    if !is_wide(scalar) {
        let source = s.word(0);
        let shifted = s.temporary(WORD);
        shf(
            s,
            shifted.into(),
            ("R", sign(scalar), "HI", CLAMP),
            rz().into(),
            position,
            source,
        )?;
        let mods = [("sign", sign(scalar))];
        s.emit(Op::SGXT, &mods, sources![s.result(0), shifted, length])?;
        return Ok(());
    }
    let [low, high] = s.words(0);
    let position: Source = s.in_register(position)?.into();
    let length: Source = s.in_register(length)?.into();
    let pair_type = if signed { "S64" } else { "U64" };
    let (a, b) = (s.temporary(WORD), s.temporary(WORD));
    shf(
        s,
        a.into(),
        ("R", pair_type, "LO", CLAMP),
        low,
        position,
        high,
    )?;
    shf(
        s,
        b.into(),
        ("R", sign(scalar), "HI", CLAMP),
        rz().into(),
        position,
        high,
    )?;
    // The field now starts at bit 0: to the top and back again by what is not part of it.
    let minus = length.negated().unwrap_or(length);
    let rest = s.temporary(WORD);
    s.emit(
        Op::IADD3,
        &[],
        sources![rest, pt(), pt(), minus, Source::imm(64), rz()],
    )?;
    let limit = s.temporary(WORD);
    s.emit(
        Op::VIMNMX,
        &[("type", "S32")],
        sources![limit, rest, rz(), not_pt()],
    )?;
    let rest = Source::from(limit);
    let (c, d) = (s.temporary(WORD), s.temporary(WORD));
    shf(
        s,
        d.into(),
        ("L", "U64", "HI", CLAMP),
        a.into(),
        rest,
        b.into(),
    )?;
    shf(
        s,
        c.into(),
        ("L", "U32", "LO", CLAMP),
        a.into(),
        rest,
        rz().into(),
    )?;
    let (e, f) = (s.temporary(WORD), s.temporary(WORD));
    shf(
        s,
        e.into(),
        ("R", pair_type, "LO", CLAMP),
        c.into(),
        rest,
        d.into(),
    )?;
    shf(
        s,
        f.into(),
        ("R", sign(scalar), "HI", CLAMP),
        rz().into(),
        rest,
        d.into(),
    )?;
    if !signed {
        return s.set_pair(0, e.into(), f.into());
    }
    // A field of no bits is zero, whatever the sign.
    let some = s.compare("NE", "U32", length, rz().into())?;
    let low = s.choose(e.into(), rz().into(), some.into())?;
    let high = s.choose(f.into(), rz().into(), some.into())?;
    s.set_pair(0, low.into(), high.into())
}

pub(super) fn insert(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let position = byte(s, 2)?;
    let length = byte(s, 3)?;
    // Where the mask is set the field counts, elsewhere the value: mask is the second input.
    let take = INPUTS[0] & INPUTS[1] | INPUTS[2] & !INPUTS[1];
    if !is_wide(scalar) {
        let (field, value) = (s.word(0), s.word(1));
        let shifted = s.temporary(WORD);
        shf(
            s,
            shifted.into(),
            ("L", "U32", "LO", CLAMP),
            field,
            position,
            rz().into(),
        )?;
        let mask = match (position.constant(), length.constant()) {
            (Some(position), Some(length)) => Source::imm(field_mask(position, length) as u32),
            _ => {
                let mask = s.temporary(WORD);
                s.emit(Op::BMSK, &[], sources![mask, position, length])?;
                mask.into()
            }
        };
        let result = s.result(0);
        return emit_table(s, result, &[shifted.into(), mask, value], take);
    }
    let position: Source = s.in_register(position)?.into();
    let length: Source = s.in_register(length)?.into();
    let (field, value) = (s.words(0), s.words(1));
    // The mask: as many ones as the field has bits, then shifted to their place.
    let ones = Source::imm(u32::MAX);
    let (low, high) = (s.temporary(WORD), s.temporary(WORD));
    let minus = length.negated().unwrap_or(length);
    let rest = s.temporary(WORD);
    s.emit(
        Op::IADD3,
        &[],
        sources![rest, pt(), pt(), minus, Source::imm(64), rz()],
    )?;
    let limit = s.temporary(WORD);
    s.emit(
        Op::VIMNMX,
        &[("type", "S32")],
        sources![limit, rest, rz(), not_pt()],
    )?;
    let all: Source = s.in_register(ones)?.into();
    shf(
        s,
        low.into(),
        ("R", "U64", "LO", CLAMP),
        all,
        limit.into(),
        all,
    )?;
    shf(
        s,
        high.into(),
        ("R", "U32", "HI", CLAMP),
        rz().into(),
        limit.into(),
        all,
    )?;
    let mut words = [rz(); 2];
    let shift_pair = |s: &mut Selector<'_>, low: Source, high: Source| {
        let (a, b) = (s.temporary(WORD), s.temporary(WORD));
        shf(s, b.into(), ("L", "U64", "HI", CLAMP), low, position, high)?;
        shf(
            s,
            a.into(),
            ("L", "U32", "LO", CLAMP),
            low,
            position,
            rz().into(),
        )?;
        Ok::<[Source; 2], PhaseError>([a.into(), b.into()])
    };
    let mask = shift_pair(s, low.into(), high.into())?;
    let field = shift_pair(s, field[0], field[1])?;
    for place in [0, 1] {
        let word = s.temporary(WORD);
        let inputs = [field[place], mask[place], value[place]];
        emit_table(s, word.into(), &inputs, take)?;
        words[place] = word.into();
    }
    s.set_pair(0, words[0].into(), words[1].into())
}

/// `length` ones from bit `position` on, in 64 bits.
fn field_mask(position: u64, length: u64) -> u64 {
    let ones = match length {
        0..64 => (1 << length) - 1,
        _ => u64::MAX,
    };
    if position < 64 { ones << position } else { 0 }
}

fn wraps(s: &Selector<'_>) -> Result<&'static str, PhaseError> {
    Ok(match s.modifier::<Clamp>()? {
        Clamp::Clamp => CLAMP,
        Clamp::Wrap => "W",
    })
}

pub(super) fn extend(s: &mut Selector<'_>) -> Done {
    let mods = [("wrap", wraps(s)?), ("sign", sign(s.modifier()?))];
    let (value, length) = (s.word(0), s.word(1));
    s.emit(Op::SGXT, &mods, sources![s.result(0), value, length])?;
    Ok(())
}

pub(super) fn mask(s: &mut Selector<'_>) -> Done {
    let mods = [("wrap", wraps(s)?)];
    let (position, length) = (s.word(0), s.word(1));
    s.emit(Op::BMSK, &mods, sources![s.result(0), position, length])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_follows_its_inputs_to_other_places() {
        let and_not = INPUTS[0] & !INPUTS[1] | INPUTS[2];
        for order in [[0, 1, 2], [1, 0, 2], [0, 2, 1]] {
            let moved = reorder(and_not, order);
            for row in 0..8usize {
                let new: Vec<bool> = (0..3).map(|place| row >> (2 - place) & 1 == 1).collect();
                let mut old = [false; 3];
                for (place, &input) in order.iter().enumerate() {
                    old[input] = new[place];
                }
                let expected = old[0] && !old[1] || old[2];
                assert_eq!(moved >> row & 1 == 1, expected, "{order:?} {row}");
            }
        }
    }

    #[test]
    fn masks_clamp_at_the_top() {
        assert_eq!(field_mask(5, 3), 0xe0);
        assert_eq!(field_mask(60, 40), 0xf << 60);
        assert_eq!(field_mask(0, 64), u64::MAX);
        assert_eq!(field_mask(64, 3), 0);
    }
}
