//! Why no row takes an opcode, in words.

use super::{Problem, rows_of};
use crate::grammar::{Condition, Modifier, Op, Row, Rule};

pub(super) fn unknown_instruction(words: &[&str]) -> Problem {
    let word = words.first().copied().unwrap_or_default();
    let known = Op::ALL.iter().map(|op| {
        let name = op.name();
        name.split('.').next().unwrap_or(name)
    });
    Problem {
        message: format!("Not a name of any known instruction: '{}'", shown(word)),
        suggestion: crate::diagnostic::nearest(word, known)
            .filter(|near| *near != word)
            .map(|near| format!("did you mean '{near}'?")),
    }
}

fn known_modifiers(op: Op) -> impl Iterator<Item = Modifier> {
    rows_of(op)
        .iter()
        .flat_map(|row| row.slots)
        .flat_map(|slot| slot.alternatives)
        .map(|it| it.modifier)
}

/// A word of the source, short enough for a message.
fn shown(word: &str) -> &str {
    word.get(..60).unwrap_or(word)
}

pub(super) fn unknown_modifier(op: Op, word: &str) -> Problem {
    let near = crate::diagnostic::nearest(word, known_modifiers(op).map(Modifier::name));
    Problem {
        message: format!("Unknown modifier '.{}'", shown(word)),
        suggestion: near.map(|near| format!("did you mean '.{near}'?")),
    }
}

fn list(names: impl Iterator<Item = Modifier>) -> String {
    let names: Vec<String> = names.map(|it| it.to_string()).collect();
    names.join(" or ")
}

fn describe(condition: Condition, row: &Row) -> String {
    let any: Vec<String> = condition
        .iter()
        .map(|all| {
            let all: Vec<String> = all
                .iter()
                .map(|atom| {
                    let what = if atom.values.is_empty() {
                        list(
                            row.slots[atom.slot as usize]
                                .alternatives
                                .iter()
                                .map(|it| it.modifier),
                        )
                    } else {
                        list(atom.values.iter().copied())
                    };
                    if atom.not { format!("no {what}") } else { what }
                })
                .collect();
            all.join(" with ")
        })
        .collect();
    any.join(", or ")
}

pub(super) fn explain_rule(op: Op, row: &Row, rule: &Rule) -> Problem {
    let message = match rule {
        Rule::Needs(a, b) => format!(
            "Illegal modifiers for instruction '{op}': {} needs {}",
            describe(a, row),
            describe(b, row)
        ),
        Rule::Forbids(a, b) => format!(
            "Illegal modifiers for instruction '{op}': {} does not go with {}",
            describe(a, row),
            describe(b, row)
        ),
        Rule::Since(..) | Rule::Removed(..) => format!("Illegal modifiers for instruction '{op}'"),
    };
    Problem {
        message,
        suggestion: None,
    }
}

/// No row takes the modifiers: says which one is foreign, or what is missing in the row that is nearest.
pub(super) fn no_row(op: Op, modifiers: &[Modifier]) -> Problem {
    for &modifier in modifiers {
        if !known_modifiers(op).any(|known| known == modifier) {
            if modifier.as_type().is_some() {
                break;
            }
            let near = crate::diagnostic::nearest(
                modifier.name(),
                known_modifiers(op).map(Modifier::name),
            );
            return Problem {
                message: format!("Illegal modifier '{modifier}' for instruction '{op}'"),
                suggestion: near.map(|near| format!("did you mean '.{near}'?")),
            };
        }
    }
    let types = |list: &[Modifier]| list.iter().filter(|it| it.as_type().is_some()).count();
    let without_types: Vec<Modifier> = modifiers
        .iter()
        .copied()
        .filter(|it| it.as_type().is_none())
        .collect();
    // The row that would do if the types were others, or that lacks the fewest modifiers.
    let mut best: Option<(usize, &Row)> = None;
    for row in rows_of(op) {
        let foreign = without_types
            .iter()
            .filter(|it| {
                !row.slots
                    .iter()
                    .flat_map(|slot| slot.alternatives)
                    .any(|known| known.modifier == **it)
            })
            .count();
        let missing = row
            .slots
            .iter()
            .filter(|slot| !slot.optional)
            .filter(|slot| {
                !slot
                    .alternatives
                    .iter()
                    .any(|it| modifiers.contains(&it.modifier))
            })
            .count();
        let score = foreign * 2 + missing;
        if best.is_none_or(|(least, _)| score < least) {
            best = Some((score, row));
        }
    }
    // A kind of modifier that all rows have, and none is written.
    let lacking = best.and_then(|(score, row)| {
        let slot = row.slots.iter().find(|slot| {
            !slot.optional
                && !slot
                    .alternatives
                    .iter()
                    .any(|it| modifiers.contains(&it.modifier))
        })?;
        let plain = slot
            .alternatives
            .iter()
            .all(|it| it.modifier.as_type().is_none());
        (score == 1 && plain).then_some(slot)
    });
    if let Some(slot) = lacking {
        let wanted = list(slot.alternatives.iter().map(|it| it.modifier));
        return Problem {
            message: format!("Instruction '{op}' lacks a modifier: {wanted}"),
            suggestion: best.map(|(_, row)| format!("the nearest form is `{}`", form_text(row))),
        };
    }
    let message = if types(modifiers) > 0 || without_types.is_empty() {
        format!("Unexpected instruction types specified for '{op}'")
    } else {
        format!("Illegal combination of modifiers for instruction '{op}'")
    };
    Problem {
        message,
        suggestion: best.map(|(_, row)| format!("the nearest form is `{}`", form_text(row))),
    }
}

/// The opcode part of a row as the table writes it.
fn form_text(row: &Row) -> &'static str {
    row.syntax.split(' ').next().unwrap_or(row.syntax)
}
