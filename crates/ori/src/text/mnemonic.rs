//! Operations with their modifiers as one dotted word: `add.sat.s32`, `LDS.64`.
//!
//! An abstract operation's modifiers follow in the order of its row; one at its unnamed value is left out. A machine
//! operation is written with its row's unique name; a modifier follows unless it has its unprinted value, as `.VALUE` where no
//! other modifier of the row knows that name and as `.modifier=VALUE` where one does. A number that has no name is written
//! `#5`, so that broken code prints, too.

use crate::instruction::Operation;
use crate::operation::{AbstractMods, AbstractOp, Row};
use orias_sass as sass;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

static ABSTRACT: LazyLock<FxHashMap<&'static str, AbstractOp>> = LazyLock::new(|| {
    AbstractOp::ALL
        .iter()
        .map(|&op| (op.row().name, op))
        .collect()
});

static MACHINE: LazyLock<FxHashMap<&'static str, sass::Op>> =
    LazyLock::new(|| sass::Op::all().map(|op| (op.name(), op)).collect());

/// Reads an operation with its modifiers; the error says what is wrong with the word.
pub(super) fn parse(word: &str) -> Result<Operation, String> {
    let mut end = word.len();
    loop {
        let (name, rest) = word.split_at(end);
        if let Some(&op) = ABSTRACT.get(name) {
            return parse_abstract(op, rest);
        }
        if let Some(&op) = MACHINE.get(name) {
            return parse_machine(op, rest);
        }
        match name.rfind('.') {
            Some(dot) => end = dot,
            None => return Err(format!("there is no operation `{name}`")),
        }
    }
}

fn parse_abstract(op: AbstractOp, rest: &str) -> Result<Operation, String> {
    let row = op.row();
    let mut parts = rest.split('.').skip(1).peekable();
    let mut mods = AbstractMods::NONE;
    for (index, kind) in row.modifiers.iter().enumerate() {
        let names = kind.names();
        let written = parts
            .peek()
            .filter(|part| !part.is_empty())
            .and_then(|part| names.iter().position(|name| name == part));
        match written {
            Some(number) => {
                parts.next();
                mods = mods.with(index, number as u8);
            }
            None => match names.iter().position(|name| name.is_empty()) {
                Some(number) => mods = mods.with(index, number as u8),
                None => {
                    return Err(match parts.peek() {
                        Some(part) => {
                            format!("`{part}` is no {kind:?} of `{}`", row.name)
                        }
                        None => format!("`{}` lacks its {kind:?}", row.name),
                    });
                }
            },
        }
    }
    match parts.next() {
        Some(part) => Err(format!("`{}` has no modifier `{part}`", row.name)),
        None => Ok(Operation::Abstract(op, mods)),
    }
}

/// The value a modifier has when it is not written.
fn unwritten(modifier: &sass::Modifier) -> Option<u16> {
    modifier
        .values
        .iter()
        .find(|value| !value.printed)
        .map(|value| value.value)
}

/// Whether `name` alone tells which modifier of the row is meant, and can be read as one word.
fn stands_alone(row: &sass::Operation, name: &str) -> bool {
    is_word(name)
        && row
            .modifiers
            .iter()
            .flat_map(|modifier| modifier.values)
            .filter(|value| value.name == name)
            .count()
            == 1
}

fn is_word(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn parse_machine(op: sass::Op, rest: &str) -> Result<Operation, String> {
    let row = op.row();
    let mut mods = sass::Mods::ZERO;
    let mut missing = 0u64;
    for (index, modifier) in row.modifiers.iter().enumerate() {
        match unwritten(modifier) {
            Some(value) => mods = mods.with(modifier, value),
            None => missing |= 1 << index,
        }
    }
    for part in rest.split('.').skip(1) {
        let unknown = || format!("`{}` has no modifier `{part}`", row.name);
        let (index, value) = match part.split_once('=') {
            Some((name, value)) => {
                let index = row
                    .modifiers
                    .iter()
                    .position(|modifier| modifier.name == name)
                    .ok_or_else(unknown)?;
                let modifier = &row.modifiers[index];
                let value = match value.strip_prefix('#') {
                    Some(number) => number
                        .parse()
                        .ok()
                        .filter(|&number: &u16| u64::from(number) <= modifier.field.max()),
                    None => modifier.value_named(value).map(|value| value.value),
                };
                (index, value.ok_or_else(unknown)?)
            }
            None => row
                .modifiers
                .iter()
                .enumerate()
                .find_map(|(index, modifier)| Some((index, modifier.value_named(part)?.value)))
                .ok_or_else(unknown)?,
        };
        mods = mods.with(&row.modifiers[index], value);
        missing &= !(1 << index);
    }
    match row.modifiers.get(missing.trailing_zeros() as usize) {
        Some(modifier) => Err(format!("`{}` lacks its {}", row.name, modifier.name)),
        None => Ok(Operation::Machine(op, mods)),
    }
}

/// Writes an operation with its modifiers.
pub(super) fn print(out: &mut String, operation: Operation) {
    match operation {
        Operation::Abstract(op, mods) => print_abstract(out, op.row(), mods),
        Operation::Machine(op, mods) => print_machine(out, op, mods),
    }
}

fn print_abstract(out: &mut String, row: &Row, mods: AbstractMods) {
    out.push_str(row.name);
    for (index, kind) in row.modifiers.iter().enumerate() {
        match kind.names().get(usize::from(mods.get(index))) {
            Some(&"") => {}
            Some(name) => {
                out.push('.');
                out.push_str(name);
            }
            None => out.push_str(&format!(".#{}", mods.get(index))),
        }
    }
}

fn print_machine(out: &mut String, op: sass::Op, mods: sass::Mods) {
    let row = op.row();
    out.push_str(row.name);
    for modifier in row.modifiers {
        let number = mods.get(modifier);
        if unwritten(modifier) == Some(number) {
            continue;
        }
        out.push('.');
        match modifier.value(number) {
            Some(value) if stands_alone(row, value.name) => out.push_str(value.name),
            Some(value)
                if is_word(value.name)
                    && modifier
                        .value_named(value.name)
                        .is_some_and(|named| named.value == number) =>
            {
                out.push_str(modifier.name);
                out.push('=');
                out.push_str(value.name);
            }
            _ => out.push_str(&format!("{}=#{number}", modifier.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{MAX_MODIFIERS, ROWS};

    fn text(operation: Operation) -> String {
        let mut out = String::new();
        print(&mut out, operation);
        out
    }

    #[test]
    fn every_modifier_value_of_every_abstract_operation_reads_back() {
        for &op in AbstractOp::ALL {
            for (index, kind) in op.row().modifiers.iter().enumerate() {
                for number in 0..kind.names().len() {
                    let operation =
                        Operation::Abstract(op, AbstractMods::NONE.with(index, number as u8));
                    assert_eq!(
                        parse(&text(operation)),
                        Ok(operation),
                        "{}",
                        text(operation)
                    );
                }
            }
        }
    }

    #[test]
    fn no_two_modifiers_of_a_row_share_a_name_unless_both_are_always_written() {
        for row in &ROWS {
            assert!(row.modifiers.len() <= MAX_MODIFIERS, "{}", row.name);
            let optional = |index: usize| row.modifiers[index].names().contains(&"");
            for a in 0..row.modifiers.len() {
                for b in a + 1..row.modifiers.len() {
                    // A name read for `a` must not be meant for `b`: only possible when `a` was left out.
                    let shared = row.modifiers[a]
                        .names()
                        .iter()
                        .find(|name| !name.is_empty() && row.modifiers[b].names().contains(name));
                    assert!(
                        !optional(a) || shared.is_none(),
                        "{}: {shared:?} is two modifiers' name",
                        row.name
                    );
                }
            }
        }
    }

    #[test]
    fn every_modifier_value_of_every_machine_operation_reads_back() {
        for op in sass::Op::all() {
            for modifier in op.row().modifiers {
                for value in modifier.values {
                    let operation =
                        Operation::Machine(op, sass::Mods::ZERO.with(modifier, value.value));
                    assert_eq!(
                        parse(&text(operation)),
                        Ok(operation),
                        "{}",
                        text(operation)
                    );
                }
            }
        }
    }

    #[test]
    fn wrong_words_are_named() {
        let error = |word: &str| parse(word).expect_err(word);
        assert_eq!(
            error("frobnicate.s32"),
            "there is no operation `frobnicate`"
        );
        assert_eq!(error("add.f32x9"), "`f32x9` is no Scalar of `add`");
        assert_eq!(error("add"), "`add` lacks its Scalar");
        assert_eq!(error("add.s32.rn"), "`add` has no modifier `rn`");
        assert_eq!(error("MOV.FAST"), "`MOV` has no modifier `FAST`");
    }
}
