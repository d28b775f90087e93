//! Logic.
//!
//! It becomes one table of three inputs: what is read only by it is taken into the table, as long as there are no more
//! than three different inputs.

use super::arithmetic::is_wide;
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::wide::compare_words;
use super::{WORD, logic_trees, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::{self, Combine, Sat, Scalar};
use orias_ori::{AbstractOp, Inst, Operand, SourceMods, Value};
use orias_sass::Op;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// How deep definitions are taken into a table.
pub(super) const DEPTH: u32 = 4;

/// The tables of the three inputs themselves.
pub(super) const INPUTS: [u8; 3] = [0xf0, 0xcc, 0xaa];

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
    let absorbed = operand.as_value().filter(|_| depth > 0);
    let absorbed = absorbed.and_then(|value| absorbed_logic(s, value, scalar));
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

/// The logic of that type that makes `value`, if nobody else reads it or all who read it take it in.
fn absorbed_logic(s: &Selector<'_>, value: Value, scalar: Scalar) -> Option<(Inst, AbstractOp)> {
    use AbstractOp::{And, Not, Or, Xor};
    [And, Or, Xor, Not]
        .into_iter()
        .find_map(|op| Some((s.absorbable(value, op)?, op)))
        .or_else(|| shared_logic(s, value))
        .filter(|(inst, _)| s.func.modifier::<Scalar>(*inst) == Some(scalar))
}

/// The table of `operand` with the definitions of `taken` taken in, and those that all their readers take in.
fn covered(
    s: &Selector<'_>,
    operand: Operand,
    scalar: Scalar,
    taken: &[Value],
    depth: u32,
    table: &mut Table,
) -> Option<u8> {
    let absorbed = operand
        .as_value()
        .filter(|value| depth > 0 && (taken.contains(value) || s.shared_logic.contains(*value)));
    let absorbed = absorbed.and_then(|value| absorbed_logic(s, value, scalar));
    let negated = operand.mods().contains(SourceMods::NOT);
    let bits = match absorbed {
        Some((inst, op)) => {
            let a = s.func.operands(inst)[1];
            let a = covered(s, a, scalar, taken, depth - 1, table)?;
            match op {
                AbstractOp::Not => !a,
                op => {
                    let b = s.func.operands(inst)[2];
                    let b = covered(s, b, scalar, taken, depth - 1, table)?;
                    combine(op, a, b)
                }
            }
        }
        None => table.input(operand.with_mods(SourceMods::NONE).unwrap_or(operand))?,
    };
    Some(if negated { !bits } else { bits })
}

/// The logic that `operand` is and that is taken in, at most `depth` deep.
fn taken_at(
    s: &Selector<'_>,
    operand: Operand,
    scalar: Scalar,
    depth: u32,
    taken: &mut Vec<Value>,
) {
    let value = operand.as_value().filter(|_| depth > 0);
    let absorbed = value.and_then(|value| Some((value, absorbed_logic(s, value, scalar)?.0)));
    if let Some((value, inst)) = absorbed {
        taken.push(value);
        for &operand in &s.func.operands(inst)[1..] {
            taken_at(s, operand, scalar, depth - 1, taken);
        }
    }
}

/// The largest table for the instruction being selected: all definitions to some depth, then one after the other as long as there is room, those first that
/// bring the fewest inputs.
fn whole_table(s: &Selector<'_>, op: AbstractOp, scalar: Scalar) -> Option<Table> {
    let operands = match op {
        AbstractOp::Not => vec![s.operand(0)],
        _ => vec![s.operand(0), s.operand(1)],
    };
    let cover = |taken: &[Value], part: &Part<'_>| {
        let mut table = Table {
            inputs: Vec::new(),
            bits: 0,
        };
        let a = part(operands[0], taken, &mut table)?;
        let b = match operands.get(1) {
            Some(&b) => part(b, taken, &mut table)?,
            None => 0,
        };
        table.bits = combine(op, a, b);
        Some(table)
    };
    let chosen = |operand: Operand, taken: &[Value], table: &mut Table| {
        covered(s, operand, scalar, taken, DEPTH, table)
    };
    let uniform = (0..=DEPTH).rev().find_map(|depth| {
        let all = |operand: Operand, _: &[Value], table: &mut Table| {
            table_of(s, operand, scalar, depth, table)
        };
        Some((depth, cover(&[], &all)?))
    });
    let (depth, uniform) = uniform?;
    let mut taken: Vec<Value> = Vec::new();
    for &operand in &operands {
        taken_at(s, operand, scalar, depth, &mut taken);
    }
    let Some(mut best) = cover(&taken, &chosen) else {
        return Some(uniform);
    };
    loop {
        let mut grown: Option<(Table, Value)> = None;
        for input in &best.inputs {
            let value = input.as_value().filter(|value| !taken.contains(value));
            let Some(value) = value.filter(|&it| absorbed_logic(s, it, scalar).is_some()) else {
                continue;
            };
            taken.push(value);
            let table = cover(&taken, &chosen);
            taken.pop();
            let fewest = grown.as_ref().map_or(usize::MAX, |(it, _)| it.inputs.len());
            if let Some(table) = table.filter(|table| table.inputs.len() < fewest) {
                grown = Some((table, value));
            }
        }
        match grown {
            Some((table, value)) => {
                best = table;
                taken.push(value);
            }
            None => return Some(chained(s, op, &operands, scalar, &best).unwrap_or(best)),
        }
    }
}

/// The word and the number of a mask that nobody else reads.
fn mask(s: &Selector<'_>, operand: Operand, scalar: Scalar) -> Option<[Operand; 2]> {
    let value = operand.as_value().filter(|_| operand.mods().is_empty())?;
    let (inst, op) = absorbed_logic(s, value, scalar)?;
    match s.func.operands(inst) {
        &[_, word, number @ Operand::Imm(_)]
            if op == AbstractOp::And && word.as_value().is_some() && word.mods().is_empty() =>
        {
            Some([word, number])
        }
        _ => None,
    }
}

/// `(a & m | b & n) | c & o` takes a table for each mask and one for all of them, unless each mask is in the table of what it is joined to: the table of the last one, where it has
/// another behind it that gains the same. As a chain `n` masked words take `n` instructions.
fn chained(
    s: &Selector<'_>,
    op: AbstractOp,
    operands: &[Operand],
    scalar: Scalar,
    best: &Table,
) -> Option<Table> {
    let &[a, b] = operands else { return None };
    if scalar.bits() != 32 || !matches!(op, AbstractOp::Or | AbstractOp::Xor) {
        return None;
    }
    [(a, b), (b, a)].into_iter().find_map(|(rest, masked)| {
        let [word, number] = mask(s, masked, scalar)?;
        let value = rest.as_value().filter(|_| rest.mods().is_empty())?;
        let (inner, _) = absorbed_logic(s, value, scalar)?;
        // Only what would be made by itself can be spared.
        let is_made = |operand: &Operand| best.inputs.contains(operand);
        let gains = s.func.operands(inner)[1..]
            .iter()
            .any(|operand| is_made(operand) && mask(s, *operand, scalar).is_some());
        if !is_made(&masked) || is_made(&rest) || !gains {
            return None;
        }
        let [rest_bits, word_bits, number_bits] = INPUTS;
        Some(Table {
            inputs: vec![rest, word, number],
            bits: combine(op, rest_bits, word_bits & number_bits),
        })
    })
}

/// How an operand goes into a table.
type Part<'a> = dyn Fn(Operand, &[Value], &mut Table) -> Option<u8> + 'a;

/// What makes `value`, if all who read it take it in.
fn shared_logic(s: &Selector<'_>, value: Value) -> Option<(Inst, AbstractOp)> {
    let inst = (s.func.defining_inst(value)).filter(|_| s.shared_logic.contains(value))?;
    Some((inst, logic_trees::logic(s.func, inst)?))
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
    let mut words = [Source::imm(0); 2];
    for (place, word) in words.iter_mut().enumerate() {
        let inputs: Vec<Source> = inputs.iter().map(|words| words[place]).collect();
        *word = match known_word(&inputs, table.bits) {
            Some(known) => known,
            None => {
                let value = s.temporary(WORD);
                emit_table(s, value.into(), &inputs, table.bits)?;
                value.into()
            }
        };
    }
    s.set_pair(0, words[0], words[1])
}

/// What a table gives for inputs of which some are all zeros or all ones, where that is one of them, or all zeros or ones, too: masks of doublewords often
/// leave a word as it is, or nothing of it.
fn known_word(inputs: &[Source], table: u8) -> Option<Source> {
    const PLACES: [u8; 3] = [0xf0, 0xcc, 0xaa];
    let places = || inputs.iter().zip(PLACES);
    let mut possible = 0xff;
    for (input, place) in places() {
        match input.constant().map(|bits| bits as u32) {
            Some(0) => possible &= !place,
            Some(u32::MAX) => possible &= place,
            _ => {}
        }
    }
    let is = |other: u8| (table ^ other) & possible == 0;
    match table & possible {
        0 => Some(Source::imm(0)),
        all if all == possible => Some(Source::imm(u32::MAX)),
        _ => (places().find(|&(_, place)| is(place))).map(|(input, _)| *input),
    }
}

/// The lower half of a word that `operand`, which nobody else reads, is made of by extending it.
fn extended_half(s: &Selector<'_>, operand: Operand) -> Option<Operand> {
    let half = |scalar: Scalar| matches!(scalar, Scalar::U16 | Scalar::S16);
    let word = |scalar: Scalar| matches!(scalar, Scalar::U32 | Scalar::S32);
    let inst = (operand.as_value()).and_then(|value| s.absorbable(value, AbstractOp::Cvt))?;
    let from: Scalar = s.func.modifier::<operation::SourceType>(inst)?.into();
    let to = s.func.modifier::<Scalar>(inst)?;
    let source = s.func.operands(inst)[s.func.result_count(inst)];
    (half(from) && word(to) && source.mods().is_empty()).then_some(source)
}

/// Whether `operand` is what a mask leaves of half a word: nothing above it.
fn is_masked(s: &Selector<'_>, operand: Operand) -> bool {
    let mask = |operand: &Operand| matches!(operand, Operand::Imm(mask) if mask.bits() <= 0xffff);
    let and = operand
        .as_value()
        .and_then(|value| s.absorbable(value, AbstractOp::And));
    and.is_some_and(|inst| s.func.operands(inst)[1..].iter().any(mask))
}

/// Defines predicate `result` by whether `operand`, logic of a word or of the lower half of one that nobody else reads, has a bit set; whether it is such.
pub(super) fn test(
    s: &mut Selector<'_>,
    result: Operand,
    operand: Operand,
    scalar: Scalar,
) -> Result<bool, PhaseError> {
    let half = match scalar.bits() {
        32 => extended_half(s, operand),
        _ => Some(operand),
    };
    let (operand, scalar) = match half {
        Some(half) if is_masked(s, half) => (half, Scalar::B16),
        _ if scalar.bits() == 32 => (operand, Scalar::B32),
        _ => return Ok(false),
    };
    let logic = operand.as_value().is_some_and(|value| {
        [AbstractOp::And, AbstractOp::Or, AbstractOp::Xor]
            .into_iter()
            .any(|op| s.absorbable(value, op).is_some())
    });
    if !logic || !operand.mods().is_empty() {
        return Ok(false);
    }
    for depth in (1..=DEPTH).rev() {
        let mut table = Table {
            inputs: Vec::new(),
            bits: 0,
        };
        let Some(bits) = table_of(s, operand, scalar, depth, &mut table) else {
            continue;
        };
        if table.inputs == [operand] {
            break;
        }
        let inputs: Vec<Source> = table
            .inputs
            .iter()
            .map(|&operand| s.word_of(operand))
            .collect();
        emit_table_to(s, result, rz(), &inputs, bits)?;
        return Ok(true);
    }
    Ok(false)
}

/// Defines predicate `result` by whether `operand`, a byte or a half with its sign extended, is negative (or not): one bit of what it was made of tells. Whether it is such.
pub(super) fn test_sign(
    s: &mut Selector<'_>,
    result: Operand,
    operand: Operand,
    negative: bool,
) -> Result<bool, PhaseError> {
    let value = operand.as_value().filter(|_| operand.mods().is_empty());
    let Some((inst, AbstractOp::Cvt)) = value.and_then(|value| s.definition(value)) else {
        return Ok(false);
    };
    let wraps = s.func.modifier::<Sat>(inst) == Some(Sat::Wrap);
    let to = s.func.modifier::<Scalar>(inst);
    let from = s.func.modifier::<operation::SourceType>(inst);
    let from = from.map(Scalar::from).filter(|_| wraps);
    let (Some(from @ (Scalar::S8 | Scalar::S16)), Some(Scalar::S32 | Scalar::U32)) = (from, to)
    else {
        return Ok(false);
    };
    let source = s.func.operands(inst)[1];
    let inputs = [s.word_of(source), Source::imm(1 << (from.bits() - 1))];
    let table = match negative {
        true => INPUTS[0] & INPUTS[1],
        false => !INPUTS[0] & INPUTS[1],
    };
    emit_table_to(s, result, rz(), &inputs, table)?;
    Ok(true)
}

/// Emits LOP3 for a word.
pub(super) fn emit_table(
    s: &mut Selector<'_>,
    result: Operand,
    inputs: &[Source],
    bits: u8,
) -> Done {
    emit_table_to(s, pt(), result, inputs, bits)
}

/// Emits LOP3; the predicate says whether the word has a bit set. What is no register goes to the second place, and the table follows
/// the inputs to their new places.
fn emit_table_to(
    s: &mut Selector<'_>,
    set: Operand,
    result: Operand,
    inputs: &[Source],
    bits: u8,
) -> Done {
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
        sources![set, result, a, b, c, table, not_pt()],
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
        let zero = compare_words(s, value::EQ, Scalar::U64, words, [rz().into(), rz().into()])?;
        let low = s.choose(one, rz().into(), zero.into())?;
        return s.set_pair(0, low.into(), rz().into());
    }
    let source = match scalar {
        Scalar::B16 => s.extended(0, Scalar::U16)?,
        _ => s.word(0),
    };
    let zero = s.compare(value::EQ, value::U32, source, rz().into())?;
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
        (Combine::And, _) => (value::PAND, s.predicate_of(with)),
        (Combine::Or, _) => (value::POR, s.predicate_of(with)),
        (Combine::None, _) => (value::POR, not_pt().into()),
        (Combine::Xor, _) => return Err(s.unsupported()),
    };
    let operands = sources![s.predicate_result(1), s.word_result(0), a, b, c, lut, q];
    s.emit(Op::LOP3, &[(name::PAND, pand)], operands)?;
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
}
