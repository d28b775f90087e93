//! Text to instruction.
//!
//! The mnemonic's first component names the candidate rows. Each is tried form by form: the rest of the mnemonic against the
//! row's modifiers, then the comma-separated pieces against the row's text items, where an item that may be left out is tried
//! as present first. The first form that takes everything wins; otherwise the error is the one that got furthest. Recursion is
//! over the parts of a row, never over the input.

use crate::control::Control;
use crate::fit::{check_control, check_guard, modifiers_agree, operands_fit};
use crate::instruction::{Guard, Instruction, OperandMismatch};
use crate::modifier::Modifier;
use crate::op::{Mods, Op};
use crate::operand::{Operand, Operands};
use crate::register::{Register, RegisterClass};
use crate::special;
use crate::table::{Form, ImmediateFormat, MnemonicPart, Omission, Operation, PlaceKind, Shown};
use crate::target::Target;
use crate::text::float;
use crate::text::operands::{
    address_operand, constant_operand, decimal, integer, register_operand, scoreboard_set,
};
use crate::text::print::alias;

/// Text that is not an instruction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct ParseError {
    /// Where, in bytes from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// An instruction read from text, with the label its target names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParsedInstruction {
    /// The instruction; the distance of a target given as a label is 0.
    pub instruction: Instruction,
    /// The label and its column.
    pub label: Option<(String, usize)>,
}

/// Reads `[control] @guard MNEMONIC operands ;`: control field, guard and semicolon may be missing. A numeric target is an
/// address; `pc` is this instruction's.
pub fn parse_instruction(
    text: &str,
    pc: u64,
    target: Target,
) -> Result<ParsedInstruction, ParseError> {
    let error = |at: usize, message: String| ParseError {
        column: at + 1,
        message,
    };
    let mut at = skip_spaces(text, 0);
    let mut control = Control::default();
    if text[at..].starts_with("[B") {
        let end = text[at..]
            .find(']')
            .ok_or_else(|| error(at, "the control field has no `]`".to_owned()))?;
        control = Control::from_text(&text[at..=at + end])
            .map_err(|offset| error(at + offset, "malformed control field".to_owned()))?;
        at = skip_spaces(text, at + end + 1);
    }
    let mut guard = None;
    if text[at..].starts_with('@') {
        let negated = text[at + 1..].starts_with('!');
        let start = at + 1 + usize::from(negated);
        let end = word_end(text, start);
        let predicate = Register::from_name(&text[start..end])
            .filter(|register| matches!(register.class, RegisterClass::P | RegisterClass::UP))
            .ok_or_else(|| error(start, format!("'{}' is not a predicate", &text[start..end])))?;
        guard = Some(Guard { predicate, negated });
        at = skip_spaces(text, end);
    }
    let end = word_end(text, at);
    let mnemonic = &text[at..end];
    if mnemonic.is_empty() {
        return Err(error(at, "expected a mnemonic".to_owned()));
    }
    let stop = match text[end..].find(';') {
        Some(semicolon) => {
            let after = skip_spaces(text, end + semicolon + 1);
            if after < text.len() {
                return Err(error(after, "text after the semicolon".to_owned()));
            }
            end + semicolon
        }
        None => text.len(),
    };
    let pieces = split_operands(text, end, stop);
    let base = mnemonic.split('.').next().unwrap_or_default();
    let mut attempt = Attempt {
        text,
        pieces: &pieces,
        end: stop,
        pc,
        furthest: (at, format!("no operation is spelled '{mnemonic}'")),
    };
    let mut known = false;
    // What is wrong although the operands fit a form: it tells more than where other forms stop fitting.
    let mut decisive: Option<String> = None;
    for op in Op::with_mnemonic(base) {
        known = true;
        let row = op.row();
        let Some((mods, spelled)) = match_mnemonic(row.mnemonic_parts, row, mnemonic) else {
            continue;
        };
        for (index, form) in row.forms.iter().enumerate() {
            if !form.targets.contains(target) {
                attempt.fail(at, || format!("{target} does not have {op}"));
                continue;
            }
            let Some(read) = attempt.operands(row, form, mods) else {
                continue;
            };
            let guard = guard.unwrap_or(Guard::always(row.guard));
            if let Err(wrong) = check_guard(op, guard) {
                decisive.get_or_insert(wrong.to_string());
                continue;
            }
            if alias(row, &read.operands).map(|alias| alias.text) != spelled {
                decisive.get_or_insert(format!("'{mnemonic}' does not fit these operands"));
                continue;
            }
            let mut instruction = Instruction {
                op,
                form: index as u8,
                guard,
                mods: read.mods,
                operands: read.operands,
                control,
            };
            if let Some(control) = control.with_reuse(read.reuse) {
                instruction.control = control;
            }
            if let Err(wrong) = check_control(&instruction) {
                decisive.get_or_insert(wrong.to_string());
                continue;
            }
            return Ok(ParsedInstruction {
                instruction,
                label: read.label,
            });
        }
    }
    if !known {
        attempt.furthest.1 = format!("unknown mnemonic '{base}'");
    }
    let (furthest, message) = attempt.furthest;
    match decisive {
        Some(message) => Err(error(at, message)),
        None => Err(error(furthest, message)),
    }
}

fn skip_spaces(text: &str, at: usize) -> usize {
    at + (text[at..].len() - text[at..].trim_start().len())
}

fn word_end(text: &str, at: usize) -> usize {
    text[at..]
        .find(|c: char| c.is_whitespace() || c == ';')
        .map_or(text.len(), |end| at + end)
}

/// One operand's text: where it stands, and whether a space, not a comma, comes before it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: usize,
    end: usize,
    after_space: bool,
}

/// Splits at commas and spaces outside brackets and parentheses.
fn split_operands(text: &str, start: usize, end: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut depth = 0i32;
    let mut piece_start = None;
    let mut after_space = false;
    let mut comma = true;
    for (offset, c) in text[start..end].char_indices() {
        let at = start + offset;
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth -= 1,
            _ => {}
        }
        // `c[0x0] [0x10]` is one operand.
        let inside = c == ' ' && text[start..at].ends_with(']') && text[at..].starts_with(" [");
        if depth <= 0 && !inside && (c == ',' || c.is_whitespace()) {
            if let Some(piece) = piece_start.take() {
                pieces.push(Piece {
                    start: piece,
                    end: at,
                    after_space,
                });
                comma = false;
            } else if c == ',' && comma && !pieces.is_empty() {
                // Two commas: an empty operand, which no slot accepts.
                pieces.push(Piece {
                    start: at,
                    end: at,
                    after_space: false,
                });
            }
            comma |= c == ',';
        } else if piece_start.is_none() {
            piece_start = Some(at);
            after_space = !comma;
        }
    }
    if let Some(piece) = piece_start {
        pieces.push(Piece {
            start: piece,
            end,
            after_space,
        });
    }
    pieces
}

/// Matches a mnemonic against a row: the modifiers it spells out and the alias it uses.
fn match_mnemonic(
    parts: &[MnemonicPart],
    row: &'static Operation,
    text: &str,
) -> Option<(Mods, Option<&'static str>)> {
    let Some((part, rest)) = parts.split_first() else {
        return text.is_empty().then_some((Mods::ZERO, None));
    };
    match part {
        MnemonicPart::Literal(literal) => match_mnemonic(rest, row, text.strip_prefix(literal)?),
        MnemonicPart::Alias => row
            .aliases
            .iter()
            .filter_map(|alias| Some((alias, after_component(text, alias.text)?)))
            .find_map(|(alias, after)| {
                let (mods, _) = match_mnemonic(rest, row, after)?;
                Some((mods, Some(alias.text)))
            })
            .or_else(|| match_mnemonic(rest, row, text)),
        MnemonicPart::Modifier(index) => {
            let modifier = &row.modifiers[usize::from(*index)];
            choices(modifier, text).find_map(|(value, after)| {
                let (mods, alias) = match_mnemonic(rest, row, after)?;
                Some((mods.with(modifier, value), alias))
            })
        }
    }
}

/// `text` after `component` (which starts with a dot), if a component ends there.
pub(super) fn after_component<'t>(text: &'t str, component: &str) -> Option<&'t str> {
    let after = text.strip_prefix(component)?;
    (after.is_empty() || after.starts_with('.')).then_some(after)
}

/// The values a modifier may have where `text` goes on: printed ones that fit, longest first, then the one not printed.
fn choices<'t>(modifier: &'static Modifier, text: &'t str) -> impl Iterator<Item = (u16, &'t str)> {
    let mut fitting: Vec<(usize, u16, &'t str)> = modifier
        .values
        .iter()
        .filter(|value| value.printed)
        .filter_map(|value| {
            let after = text.strip_prefix('.')?.strip_prefix(value.name)?;
            (after.is_empty() || after.starts_with('.')).then_some((
                value.name.len(),
                value.value,
                after,
            ))
        })
        .collect();
    fitting.sort_by_key(|(len, ..)| std::cmp::Reverse(*len));
    let hidden = modifier
        .values
        .iter()
        .filter(|value| !value.printed)
        .map(move |value| (value.value, text));
    fitting
        .into_iter()
        .map(|(_, value, after)| (value, after))
        .chain(hidden)
}

/// What the operand text of one form says.
struct Read {
    mods: Mods,
    operands: Operands,
    reuse: u8,
    label: Option<(String, usize)>,
}

/// A text being tried against rows; remembers the failure that got furthest.
struct Attempt<'t> {
    text: &'t str,
    pieces: &'t [Piece],
    end: usize,
    pc: u64,
    furthest: (usize, String),
}

impl Attempt<'_> {
    fn fail(&mut self, at: usize, message: impl FnOnce() -> String) {
        if at > self.furthest.0 {
            self.furthest = (at, message());
        }
    }

    fn operands(&mut self, row: &'static Operation, form: &Form, mods: Mods) -> Option<Read> {
        let mut read = Read {
            mods,
            operands: Operands::new(),
            reuse: 0,
            label: None,
        };
        let mut slots: Vec<Option<Operand>> = vec![None; row.slots.len()];
        if !self.items(row, form, 0, 0, &mut slots, &mut read) {
            return None;
        }
        for (slot, operand) in row.slots.iter().zip(slots) {
            read.operands.push(operand.or(slot.default_operand())?);
        }
        if let Err((slot, reason)) = operands_fit(row, form, &read.operands) {
            // A form that takes the kinds of all operands knows better what is wrong.
            let at = self.end.min(self.text.len());
            let at = match reason {
                OperandMismatch::Kind => at.saturating_sub(1),
                _ => at,
            };
            self.fail(at, || {
                format!("operand '{}': {reason}", row.slots[slot].name)
            });
            return None;
        }
        if !modifiers_agree(read.mods, form) {
            let at = self.pieces.first().map_or(self.end, |piece| piece.start);
            self.fail(at, || {
                format!("{} does not have this form with these modifiers", row.name)
            });
            return None;
        }
        Some(read)
    }

    /// Matches items from `item` on with pieces from `piece` on.
    fn items(
        &mut self,
        row: &'static Operation,
        form: &Form,
        item: usize,
        piece: usize,
        slots: &mut Vec<Option<Operand>>,
        read: &mut Read,
    ) -> bool {
        let Some(shape) = row.items.get(item) else {
            if let Some(extra) = self.pieces.get(piece) {
                let start = extra.start;
                self.fail(start, || format!("{} takes no further operand", row.name));
                return false;
            }
            return true;
        };
        let saved = (read.mods, read.reuse, read.label.clone());
        if let Some(found) = self.pieces.get(piece).copied() {
            if found.after_space == (shape.after_space && piece > 0) {
                let used = match shape.shown {
                    Shown::Literal(literal) => {
                        self.literal(row, literal, shape.suffixes, found, read)
                    }
                    Shown::Slot(slot) => {
                        let slot = usize::from(slot);
                        self.operand(row, form, slot, shape.suffixes, piece, slots, read)
                    }
                    Shown::Modifier(index) => {
                        let modifier = &row.modifiers[usize::from(index)];
                        let text = &self.text[found.start..found.end];
                        match modifier.value_named(text).filter(|value| value.printed) {
                            Some(value) => {
                                read.mods = read.mods.with(modifier, value.value);
                                Some(1)
                            }
                            None => {
                                self.fail(found.start, || {
                                    format!("'{text}' is not a {}", modifier.name)
                                });
                                None
                            }
                        }
                    }
                };
                if let Some(used) = used
                    && self.items(row, form, item + 1, piece + used, slots, read)
                {
                    return true;
                }
            } else {
                self.fail(found.start, || {
                    "operands are separated otherwise".to_owned()
                });
            }
        } else if shape.omission == Omission::Never {
            let end = self.end;
            self.fail(end, || format!("{} needs another operand", row.name));
        }
        (read.mods, read.reuse, read.label) = saved;
        match shape.shown {
            Shown::Slot(slot) if shape.omission != Omission::Never => {
                slots[usize::from(slot)] = None;
                self.items(row, form, item + 1, piece, slots, read)
            }
            Shown::Modifier(index) => {
                let modifier = &row.modifiers[usize::from(index)];
                let Some(hidden) = modifier.values.iter().find(|value| !value.printed) else {
                    return false;
                };
                read.mods = read.mods.with(modifier, hidden.value);
                self.items(row, form, item + 1, piece, slots, read)
            }
            _ => false,
        }
    }

    /// Reads words that stand for themselves, with their modifiers; takes one piece.
    fn literal(
        &mut self,
        row: &'static Operation,
        literal: &str,
        suffixes: &[u8],
        found: Piece,
        read: &mut Read,
    ) -> Option<usize> {
        let Some(mut tail) = self.text[found.start..found.end].strip_prefix(literal) else {
            self.fail(found.start, || format!("expected '{literal}'"));
            return None;
        };
        for suffix in suffixes {
            let modifier = &row.modifiers[usize::from(*suffix)];
            let Some((value, after)) = choices(modifier, tail).next() else {
                self.fail(found.start, || {
                    format!("'{literal}' lacks its {}", modifier.name)
                });
                return None;
            };
            read.mods = read.mods.with(modifier, value);
            tail = after;
        }
        if tail.is_empty() {
            Some(1)
        } else {
            self.fail(found.end - tail.len(), || {
                format!("'{tail}' is not expected here")
            });
            None
        }
    }

    /// Reads the operand of `slot`; the result is how many pieces it took.
    #[expect(
        clippy::too_many_arguments,
        reason = "the state of one match, all of it needed"
    )]
    fn operand(
        &mut self,
        row: &'static Operation,
        form: &Form,
        slot: usize,
        suffixes: &'static [u8],
        piece: usize,
        slots: &mut [Option<Operand>],
        read: &mut Read,
    ) -> Option<usize> {
        let place = &form.places[slot];
        let Piece { start, end, .. } = self.pieces[piece];
        let text = &self.text[start..end];
        let mut used = 1;
        let (operand, tail) = match &place.kind {
            PlaceKind::Register { class, .. } => {
                let (operand, tail) =
                    register_operand(text, *class, &row.slots[slot], place, &mut read.reuse)
                        .or_else(|| {
                            self.fail(start, || {
                                format!("'{text}' is not a {} operand", class.prefix())
                            });
                            None
                        })?;
                (Operand::Register(operand), tail)
            }
            PlaceKind::Immediate { field, format } => {
                let bits = match format {
                    ImmediateFormat::F16x2 | ImmediateFormat::Bf16x2 => {
                        let format = if *format == ImmediateFormat::F16x2 {
                            float::F16
                        } else {
                            float::BF16
                        };
                        let second = self.pieces.get(piece + 1)?;
                        used = 2;
                        float::read(text, format)
                            .zip(float::read(&self.text[second.start..second.end], format))
                            .map(|(high, low)| high << 16 | low)
                    }
                    ImmediateFormat::F32 => float::read(text, float::F32),
                    ImmediateFormat::F64High => float::read(text, float::F64_HIGH),
                    ImmediateFormat::F16 => float::read(text, float::F16),
                    ImmediateFormat::Bf16 => float::read(text, float::BF16),
                    ImmediateFormat::Scoreboard => text.strip_prefix("SB").and_then(decimal),
                    ImmediateFormat::GroupScoreboard => text.strip_prefix("gsb").and_then(decimal),
                    ImmediateFormat::ScoreboardSet => scoreboard_set(text),
                    ImmediateFormat::Decimal => decimal(text),
                    ImmediateFormat::Signed | ImmediateFormat::Unsigned => {
                        integer(text).and_then(|value| {
                            let negative = value < 0 && field.fits_signed(value);
                            let positive = value >= 0 && value as u64 <= field.max();
                            (negative || positive).then_some(value as u64 & field.max())
                        })
                    }
                };
                let Some(bits) = bits else {
                    self.fail(start, || {
                        format!("'{text}' is not an immediate that fits here")
                    });
                    return None;
                };
                (Operand::Immediate(bits), "")
            }
            PlaceKind::Constant(shape) => {
                let Some((constant, tail)) = constant_operand(text, shape, &row.slots[slot], place)
                else {
                    self.fail(start, || format!("'{text}' is not a constant of this form"));
                    return None;
                };
                (Operand::Constant(constant), tail)
            }
            PlaceKind::Address(shape) => {
                let Some((address, scale, tail)) = address_operand(text, shape) else {
                    self.fail(start, || format!("'{text}' is not an address of this form"));
                    return None;
                };
                if let Some(index) = shape.base.and_then(|base| base.scale) {
                    let modifier = &row.modifiers[usize::from(index)];
                    let (value, _) =
                        choices(modifier, scale).find(|(_, after)| after.is_empty())?;
                    read.mods = read.mods.with(modifier, value);
                } else if !scale.is_empty() {
                    self.fail(start, || format!("'{scale}' after the base of '{text}'"));
                    return None;
                }
                (Operand::Address(address), tail)
            }
            PlaceKind::Descriptor { .. } => {
                let read = text
                    .strip_prefix("gdesc[")
                    .and_then(|rest| rest.split_once(']'))
                    .and_then(|(name, tail)| Some((Register::from_name(name)?, tail)));
                let Some((register, tail)) = read else {
                    self.fail(start, || format!("'{text}' is not a matrix descriptor"));
                    return None;
                };
                (Operand::Descriptor(register), tail)
            }
            PlaceKind::Target { relative, .. } => {
                if let Some(name) = text.strip_prefix("`(").and_then(|t| t.strip_suffix(')')) {
                    read.label = Some((name.to_owned(), start + 1));
                    (Operand::Target(0), "")
                } else {
                    let Some(number) = integer(text) else {
                        self.fail(start, || format!("'{text}' is not a code address"));
                        return None;
                    };
                    let distance = if *relative {
                        number
                    } else {
                        number.wrapping_sub(self.pc as i64).wrapping_sub(16)
                    };
                    (Operand::Target(distance), "")
                }
            }
            PlaceKind::Special { .. } => {
                let Some(number) = special::number(text) else {
                    self.fail(start, || format!("'{text}' is not a special register"));
                    return None;
                };
                (Operand::Special(number), "")
            }
        };
        let mut tail = tail;
        for suffix in suffixes {
            let modifier = &row.modifiers[usize::from(*suffix)];
            let Some((value, after)) = choices(modifier, tail).next() else {
                self.fail(start, || format!("'{text}' lacks its {}", modifier.name));
                return None;
            };
            read.mods = read.mods.with(modifier, value);
            tail = after;
        }
        if !tail.is_empty() {
            self.fail(end - tail.len(), || {
                format!("'{tail}' is not expected here")
            });
            return None;
        }
        slots[slot] = Some(operand);
        Some(used)
    }
}
