//! Operations with their modifiers as one dotted word: `add.sat.s32`, `LDS.64`.
//!
//! An abstract operation's modifiers follow in the order of its row; one at its unnamed value is left out. A machine
//! operation is written with its row's unique name; a modifier follows unless it has its unprinted value, as `.VALUE` where
//! nothing else could be meant and as `.modifier=VALUE` where something could. Dots in a name become underscores. A number
//! that has no name is written `.modifier=#5`, so that broken code prints, too.

use crate::instruction::Operation;
use crate::operation::{AbstractMods, AbstractOp, Row};
use orias_sass as sass;
use rustc_hash::FxHashMap;
use std::sync::{LazyLock, OnceLock};

static ABSTRACT: LazyLock<FxHashMap<&'static str, AbstractOp>> = LazyLock::new(|| {
    AbstractOp::ALL
        .iter()
        .map(|&op| (op.row().name, op))
        .collect()
});

/// Machine operations by the first part of their name, the longest name first.
static MACHINE: LazyLock<FxHashMap<&'static str, Vec<sass::Op>>> = LazyLock::new(|| {
    let mut map: FxHashMap<&str, Vec<sass::Op>> = FxHashMap::default();
    for op in sass::Op::all() {
        map.entry(first_part(op.name())).or_default().push(op);
    }
    for ops in map.values_mut() {
        ops.sort_by_key(|op| std::cmp::Reverse(op.name().len()));
    }
    map
});

fn first_part(word: &str) -> &str {
    word.split('.').next().unwrap_or(word)
}

/// Reads an operation with its modifiers; the error says what is wrong with the word.
pub(super) fn parse(word: &str) -> Result<Operation, String> {
    let first = first_part(word);
    if let Some(&op) = ABSTRACT.get(first) {
        return parse_abstract(op, &word[first.len()..]);
    }
    let machine = MACHINE.get(first).and_then(|ops| {
        ops.iter().find_map(|&op| {
            let rest = word.strip_prefix(op.name())?;
            (rest.is_empty() || rest.starts_with('.')).then_some((op, rest))
        })
    });
    match machine {
        Some((op, rest)) => parse_machine(op, rest),
        None => Err(format!("there is no operation `{first}`")),
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

/// How a machine operation's modifiers are written: for each modifier, by value, the text after the operation's name.
struct Spelling {
    modifiers: Vec<ModifierSpelling>,
}

struct ModifierSpelling {
    /// The value that is not written, if there is one.
    unwritten: Option<u16>,
    /// `.VALUE` or `.modifier=VALUE`, by value; empty where the value has no name.
    texts: Vec<String>,
}

/// By operation, once somebody asks for it: most programs that print an instruction print a few.
static SPELLINGS: LazyLock<Vec<OnceLock<Spelling>>> =
    LazyLock::new(|| sass::Op::all().map(|_| OnceLock::new()).collect());

fn spelling_of(op: sass::Op) -> &'static Spelling {
    SPELLINGS[op.index()].get_or_init(|| spelling(op.row()))
}

/// A value's name as one word: `STRONG.GPU` becomes `STRONG_GPU`.
fn word(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

fn spelling(row: &sass::Operation) -> Spelling {
    // Words that would make this operation look like another one, whose name goes on with them.
    let taken: Vec<&str> = sass::Op::all()
        .filter_map(|op| op.name().strip_prefix(row.name)?.strip_prefix('.'))
        .flat_map(|rest| rest.split('.'))
        .collect();
    let words: Vec<String> = row
        .modifiers
        .iter()
        .flat_map(|modifier| modifier.values)
        .map(|value| word(value.name))
        .collect();
    let modifiers = row
        .modifiers
        .iter()
        .map(|modifier| {
            let count = modifier.values.iter().map(|value| value.value).max();
            let mut texts = vec![String::new(); count.map_or(0, |last| usize::from(last) + 1)];
            for value in modifier.values {
                let spelled = word(value.name);
                let twins = |others: &mut dyn Iterator<Item = &String>| {
                    others.filter(|other| **other == spelled).count()
                };
                let own: Vec<String> = modifier
                    .values
                    .iter()
                    .map(|value| word(value.name))
                    .collect();
                let alone = twins(&mut words.iter()) == 1 && !taken.contains(&spelled.as_str());
                texts[usize::from(value.value)] = if spelled.is_empty() {
                    String::new()
                } else if alone {
                    format!(".{spelled}")
                } else if twins(&mut own.iter()) == 1 {
                    format!(".{}={spelled}", modifier.name)
                } else {
                    String::new()
                };
            }
            ModifierSpelling {
                unwritten: modifier
                    .values
                    .iter()
                    .find(|value| !value.printed)
                    .map(|value| value.value),
                texts,
            }
        })
        .collect();
    Spelling { modifiers }
}

fn parse_machine(op: sass::Op, rest: &str) -> Result<Operation, String> {
    let row = op.row();
    let spelling = spelling_of(op);
    let mut mods = sass::Mods::ZERO;
    let mut missing = 0u64;
    let mut given = 0u64;
    for (index, modifier) in row.modifiers.iter().enumerate() {
        match spelling.modifiers[index].unwritten {
            Some(value) => mods = mods.with(modifier, value),
            None => missing |= 1 << index,
        }
    }
    let parts = rest.split_inclusive('.').skip(1);
    let mut at = 1;
    for part in parts {
        let written = &rest[at - 1..at + part.trim_end_matches('.').len()];
        at += part.len();
        let (index, value) = parse_machine_modifier(row, spelling, written)
            .ok_or_else(|| format!("`{}` has no modifier `{}`", row.name, &written[1..]))?;
        if given >> index & 1 == 1 {
            let name = row.modifiers[index].name;
            return Err(format!("`{}` has its {name} twice", row.name));
        }
        given |= 1 << index;
        mods = mods.with(&row.modifiers[index], value);
        missing &= !(1 << index);
    }
    match row.modifiers.get(missing.trailing_zeros() as usize) {
        Some(modifier) => Err(format!("`{}` lacks its {}", row.name, modifier.name)),
        None => Ok(Operation::Machine(op, mods)),
    }
}

/// The modifier, by place, and the value that `.VALUE`, `.modifier=VALUE` or `.modifier=#5` stands for.
fn parse_machine_modifier(
    row: &sass::Operation,
    spelling: &Spelling,
    written: &str,
) -> Option<(usize, u16)> {
    if let Some((name, number)) = written[1..].split_once("=#") {
        let index = row
            .modifiers
            .iter()
            .position(|modifier| modifier.name == name)?;
        let number: u16 = number.parse().ok()?;
        let fits = u64::from(number) <= row.modifiers[index].field.max();
        return fits.then_some((index, number));
    }
    spelling
        .modifiers
        .iter()
        .enumerate()
        .find_map(|(index, modifier)| {
            let value = modifier.texts.iter().position(|text| text == written)?;
            Some((index, value as u16))
        })
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
    for (modifier, spelling) in row.modifiers.iter().zip(&spelling_of(op).modifiers) {
        let number = mods.get(modifier);
        if spelling.unwritten == Some(number) {
            continue;
        }
        match spelling.texts.get(usize::from(number)) {
            Some(text) if !text.is_empty() => out.push_str(text),
            _ => {
                out.push('.');
                out.push_str(modifier.name);
                out.push_str(&format!("=#{number}"));
            }
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
        assert_eq!(error("IADD3.FAST"), "`IADD3` has no modifier `FAST`");
        assert_eq!(error("LDS.64.128"), "`LDS` has its size twice");
    }
}
