//! Gives a row's lines their meaning and checks them: modifiers, effects and what the row says as a whole. Slots, text and forms
//! have modules of their own.

use crate::forms::{Form, forms};
use crate::place::{Field, Kind};
use crate::slots::{Slot, Width, register_rust, slot, width_rules};
use crate::syntax::{Block, Line};
use crate::targets::{self, Target};
use crate::text::{Item, Part, Shown, text};
use std::collections::BTreeSet;

#[derive(Debug)]
pub struct Modifier {
    pub name: String,
    pub field: Field,
    pub shift: u32,
    pub values: Vec<(u16, String, bool)>,
}

#[derive(Debug)]
pub struct Operation {
    pub name: String,
    pub at: String,
    pub slots: Vec<Slot>,
    pub modifiers: Vec<Modifier>,
    pub effects: Vec<String>,
    pub memory: Vec<(&'static str, bool, bool, bool)>,
    pub implicit: Vec<(&'static str, String, u8)>,
    pub guard: &'static str,
    pub forms: Vec<Form>,
    pub parts: Vec<Part>,
    pub items: Vec<Item>,
    pub aliases: Vec<(String, Vec<String>)>,
}

/// Names are unique, also as Rust constants.
pub fn check_names(operations: &[Operation], errors: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for operation in operations {
        if !seen.insert(constant_name(&operation.name)) {
            errors.push(format!(
                "{}: another row is called {}",
                operation.at, operation.name
            ));
        }
    }
}

/// The Rust constant for an operation: `IADD3.X` is `IADD3_X`.
pub fn constant_name(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}

/// The meaning of one block.
pub fn operation(block: &Block, known: &[Target]) -> Result<Operation, String> {
    let mut operation = Operation {
        name: block.name.clone(),
        at: format!("{}:{}", block.head.file, block.head.number),
        slots: Vec::new(),
        modifiers: Vec::new(),
        effects: Vec::new(),
        memory: Vec::new(),
        implicit: Vec::new(),
        guard: "Predicate",
        forms: Vec::new(),
        parts: Vec::new(),
        items: Vec::new(),
        aliases: Vec::new(),
    };
    let mut targets = u32::MAX >> (32 - known.len());
    let mut fixed: Vec<(Field, u128)> = Vec::new();
    for line in &block.lines {
        match line.words[0].as_str() {
            "mod" => {
                let shift = operation
                    .modifiers
                    .last()
                    .map_or(0, |last| last.shift + last.field.len());
                let modifier = modifier(line, shift).map_err(|e| line.error(e))?;
                operation.modifiers.push(modifier);
            }
            "only" => targets = targets::set(known, &line.words[1..]).map_err(|e| line.error(e))?,
            "fix" => {
                for word in &line.words[1..] {
                    fixed.push(fix(word).map_err(|e| line.error(e))?);
                }
            }
            "guard" => {
                operation.guard = match line.words.get(1).map(String::as_str) {
                    Some("P") => "Predicate",
                    Some("UP") => "Uniform",
                    Some("none") => "None",
                    _ => return Err(line.error("expected `guard P`, `guard UP` or `guard none`")),
                }
            }
            "effect" => {
                for word in &line.words[1..] {
                    if !EFFECTS.contains(&word.as_str()) {
                        return Err(line.error(format!("'{word}' is not an effect")));
                    }
                    operation.effects.push(word.to_ascii_uppercase());
                }
            }
            "mem" => operation
                .memory
                .push(memory(&line.words[1..]).map_err(|e| line.error(e))?),
            "implicit" => operation
                .implicit
                .push(implicit(&line.words[1..]).map_err(|e| line.error(e))?),
            "alias" => operation
                .aliases
                .push((line.words[1].clone(), line.words[2..].to_vec())),
            "text" | "form" => {}
            _ => {
                let slot = slot(line).map_err(|e| line.error(e))?;
                if operation.slots.iter().any(|other| other.name == slot.name) {
                    return Err(line.error(format!("two slots are called '{}'", slot.name)));
                }
                operation.slots.push(slot);
            }
        }
    }
    if operation
        .modifiers
        .last()
        .is_some_and(|last| last.shift + last.field.len() > 64)
    {
        return Err(block.head.error("the modifiers need more than 64 bits"));
    }
    if operation.slots.len() > 16 {
        return Err(block.head.error("there are more than 16 slots"));
    }
    let names: BTreeSet<_> = operation
        .modifiers
        .iter()
        .map(|modifier| &modifier.name)
        .collect();
    if names.len() != operation.modifiers.len() {
        return Err(block.head.error("two modifiers have the same name"));
    }
    let mut has_text = false;
    for line in &block.lines {
        match line.words[0].as_str() {
            "text" => {
                has_text = true;
                text(line, &mut operation).map_err(|e| line.error(e))?;
            }
            "form" => {
                let forms =
                    forms(line, &operation, &fixed, (targets, known)).map_err(|e| line.error(e))?;
                operation.forms.extend(forms);
            }
            _ => {
                let widths = line.words.iter().position(|word| word.starts_with("*("));
                if let Some(at) = widths {
                    let rules = width_rules(&line.words[at], &operation.modifiers)
                        .map_err(|e| line.error(e))?;
                    if let Some(slot) = operation
                        .slots
                        .iter_mut()
                        .find(|slot| slot.name == line.words[0])
                    {
                        slot.width = Width::Rules(rules);
                    }
                }
            }
        }
    }
    if !has_text {
        return Err(block.head.error("a row needs a `text` line"));
    }
    if operation.forms.is_empty() {
        return Err(block.head.error("a row needs a `form` line"));
    }
    for (index, slot) in operation.slots.iter().enumerate() {
        let shown = operation
            .items
            .iter()
            .any(|item| matches!(item.shown, Shown::Slot(slot) if usize::from(slot) == index));
        if !shown {
            return Err(block
                .head
                .error(format!("slot '{}' is not in the text", slot.name)));
        }
    }
    for index in 0..operation.modifiers.len() {
        let modifier = &operation.modifiers[index];
        let at = index as u8;
        let shown = operation
            .parts
            .iter()
            .any(|part| matches!(part, Part::Modifier(m) if *m == at))
            || operation.items.iter().any(|item| {
                item.suffixes.contains(&at) || matches!(item.shown, Shown::Modifier(m) if m == at)
            })
            || operation.forms.iter().any(|form| {
                form.places.iter().any(|place| {
                    matches!(&place.kind, Kind::Address { base: Some(base), .. }
                        if base.scale.as_deref() == Some(&modifier.name))
                })
            });
        if !shown {
            return Err(block
                .head
                .error(format!("modifier '{}' is not in the text", modifier.name)));
        }
    }
    Ok(operation)
}

const EFFECTS: &[&str] = &[
    "branch",
    "call",
    "return",
    "exit",
    "terminator",
    "barrier",
    "convergent",
    "fence",
    "async",
    "wait",
    "volatile",
    "trap",
    "other",
];

const SPACES: &[(&str, &str)] = &[
    ("global", "Global"),
    ("shared", "Shared"),
    ("local", "Local"),
    ("constant", "Constant"),
    ("generic", "Generic"),
    ("texture", "Texture"),
    ("surface", "Surface"),
];

/// `load global`, `store shared`, `atomic global`.
fn memory(words: &[String]) -> Result<(&'static str, bool, bool, bool), String> {
    let [what, space] = words else {
        return Err("expected `mem load|store|atomic SPACE`".to_owned());
    };
    let (_, space) = SPACES
        .iter()
        .find(|(name, _)| name == space)
        .ok_or_else(|| format!("'{space}' is not a memory space"))?;
    match what.as_str() {
        "load" => Ok((space, true, false, false)),
        "store" => Ok((space, false, true, false)),
        "atomic" => Ok((space, true, true, true)),
        other => Err(format!("'{other}' is not load, store or atomic")),
    }
}

/// `W P0*7`.
fn implicit(words: &[String]) -> Result<(&'static str, String, u8), String> {
    let [access, register] = words else {
        return Err("expected `implicit R|W|RW REGISTER*COUNT`".to_owned());
    };
    let (register, count) = match register.split_once('*') {
        Some((register, count)) => (
            register,
            count
                .parse()
                .map_err(|_| format!("'{count}' is not a count"))?,
        ),
        None => (register.as_str(), 1),
    };
    Ok((access_name(access)?, register_rust(register)?, count))
}

pub fn access_name(word: &str) -> Result<&'static str, String> {
    match word {
        "R" => Ok("Read"),
        "W" => Ok("Write"),
        "RW" => Ok("ReadWrite"),
        other => Err(format!("'{other}' is not R, W or RW")),
    }
}

/// `POS=VALUE` or `POS:LEN=VALUE`; the value in decimal or `0x` hexadecimal.
pub fn fix(word: &str) -> Result<(Field, u128), String> {
    let (field, value) = word
        .split_once('=')
        .ok_or_else(|| format!("'{word}' is not POS:LEN=VALUE"))?;
    let field = Field::parse(field, 1)?;
    let value = integer(value)?;
    if field.len() < 64 && value >> field.len() != 0 {
        return Err(format!("{value:#x} does not fit in '{word}'"));
    }
    let mut word = 0;
    let mut rest = u128::from(value);
    for (at, len) in &field.0 {
        word |= (rest & ((1 << len) - 1)) << at;
        rest >>= len;
    }
    Ok((field, word))
}

pub fn integer(text: &str) -> Result<u64, String> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .map_err(|_| format!("'{text}' is not a number"))
}

/// `mod NAME FIELD VALUE…`: `NAME`, `(NAME)` for one that is not printed, `_` for one the machine does not have; `N=`
/// before one sets its encoding, and counting goes on from there.
fn modifier(line: &Line, shift: u32) -> Result<Modifier, String> {
    let [_, name, field, words @ ..] = line.words.as_slice() else {
        return Err("expected `mod NAME FIELD VALUES…`".to_owned());
    };
    let field = Field::parse(field, 1)?;
    let mut values: Vec<(u16, String, bool)> = Vec::new();
    let mut next = 0u16;
    for word in words {
        let word = match word.split_once('=') {
            Some((number, rest)) => {
                next = integer(number)?
                    .try_into()
                    .map_err(|_| format!("{number} is too large"))?;
                rest
            }
            None => word.as_str(),
        };
        if u32::from(next) >> field.len().min(31) != 0 {
            return Err(format!("value {next} of '{word}' does not fit the field"));
        }
        if word != "_" {
            let hidden = word
                .strip_prefix('(')
                .and_then(|rest| rest.strip_suffix(')'));
            let name = hidden.unwrap_or(word).to_owned();
            if values
                .iter()
                .any(|(value, other, _)| *value == next || *other == name)
            {
                return Err(format!("value '{name}' is given twice"));
            }
            values.push((next, name, hidden.is_none()));
        }
        next += 1;
    }
    if values.is_empty() {
        return Err(format!("modifier '{name}' has no values"));
    }
    values.sort();
    Ok(Modifier {
        name: name.clone(),
        field,
        shift,
        values,
    })
}
