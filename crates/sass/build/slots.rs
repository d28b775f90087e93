//! The slots of a row: access, place, attributes, default and width.

use crate::place::{Field, immediate_format};
use crate::rows::{Modifier, access_name, integer};
use crate::syntax::Line;

/// How a bit of a slot is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BitSpec {
    None,
    Usual,
    At(u8),
}

#[derive(Clone, Debug)]
pub struct Attributes {
    pub negate: BitSpec,
    pub absolute: BitSpec,
    pub invert: BitSpec,
    pub reuse: BitSpec,
    pub select: Option<Field>,
    pub immediate: &'static str,
    pub spaced: bool,
    pub named: bool,
}

#[derive(Debug)]
pub struct Slot {
    pub name: String,
    pub access: &'static str,
    pub place: String,
    pub attributes: Attributes,
    pub default: Option<String>,
    pub selects: Vec<Option<String>>,
    pub width: Width,
}

#[derive(Debug)]
pub enum Width {
    Fixed(u8),
    Rules(Vec<WidthRule>),
}

/// A number of registers, and the modifiers (by index) with the sets of values for which it holds.
pub type WidthRule = (u8, Vec<(u8, u64)>);

/// `NAME ACCESS PLACE ATTRIBUTES…`.
pub fn slot(line: &Line) -> Result<Slot, String> {
    let [name, access, place, words @ ..] = line.words.as_slice() else {
        return Err(format!(
            "'{}' starts neither a keyword's line nor a slot (`NAME ACCESS PLACE …`)",
            line.words[0]
        ));
    };
    let mut slot = Slot {
        name: name.clone(),
        access: access_name(access)?,
        place: place.clone(),
        attributes: Attributes {
            negate: BitSpec::None,
            absolute: BitSpec::None,
            invert: BitSpec::None,
            reuse: BitSpec::Usual,
            select: None,
            immediate: "Signed",
            spaced: false,
            named: false,
        },
        default: None,
        selects: Vec::new(),
        width: Width::Fixed(1),
    };
    for word in words {
        if let Some(default) = word.strip_prefix('=') {
            slot.default = Some(default_rust(default)?);
        } else if word.starts_with("*(") {
            // Rules over modifiers: read when all modifiers are known.
        } else if let Some(width) = word.strip_prefix('*') {
            slot.width = Width::Fixed(
                width
                    .parse()
                    .map_err(|_| format!("'{width}' is not a width"))?,
            );
        } else {
            attribute(word, &mut slot.attributes, &mut slot.selects)?;
        }
    }
    Ok(slot)
}

/// `-` `|` `~` `!` `^`, each with a bit or without; `.FIELD(NAMES)`; `imm=LETTER`; `spaced`; `named`.
pub fn attribute(
    word: &str,
    attributes: &mut Attributes,
    selects: &mut Vec<Option<String>>,
) -> Result<(), String> {
    if let Some(letter) = word.strip_prefix("imm=") {
        attributes.immediate = immediate_format(letter)?;
        return Ok(());
    }
    if word == "named" {
        attributes.named = true;
        return Ok(());
    }
    if word == "spaced" {
        attributes.spaced = true;
        return Ok(());
    }
    if let Some(rest) = word.strip_prefix('.') {
        let (field, names) = match rest.split_once('(') {
            Some((field, names)) => (field, names.strip_suffix(')')),
            None => (rest, None),
        };
        attributes.select = Some(Field::parse(field, 1)?);
        if let Some(names) = names {
            *selects = names
                .split(',')
                .map(|name| match name {
                    "_" => None,
                    "-" => Some(String::new()),
                    name => Some(name.to_owned()),
                })
                .collect();
        }
        return Ok(());
    }
    let mut chars = word.chars();
    let Some(sign) = chars.next() else {
        return Err("an empty attribute".to_owned());
    };
    let spec = match chars.as_str() {
        "" => BitSpec::Usual,
        "none" => BitSpec::None,
        digits => BitSpec::At(
            digits
                .parse()
                .ok()
                .filter(|bit| *bit < 128)
                .ok_or_else(|| format!("'{word}' is not an attribute"))?,
        ),
    };
    match sign {
        '-' => attributes.negate = spec,
        '|' => attributes.absolute = spec,
        '~' | '!' => attributes.invert = spec,
        '^' => attributes.reuse = spec,
        _ => return Err(format!("'{word}' is not an attribute")),
    }
    Ok(())
}

/// `PT`, `!PT`, `RZ`, `0x1`, `@0` for a code address.
fn default_rust(text: &str) -> Result<String, String> {
    if let Some(distance) = text.strip_prefix('@') {
        return Ok(format!("SlotDefault::Target({})", integer(distance)?));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(format!("SlotDefault::Immediate({})", integer(text)?));
    }
    let (name, inverted) = match text.strip_prefix('!') {
        Some(name) => (name, true),
        None => (text, false),
    };
    Ok(format!(
        "SlotDefault::Register({}, {inverted})",
        register_rust(name)?
    ))
}

pub fn register_rust(name: &str) -> Result<String, String> {
    if ["RZ", "PT", "URZ", "UPT"].contains(&name) {
        return Ok(format!("Register::{name}"));
    }
    let digits = name
        .find(|c: char| c.is_ascii_digit())
        .ok_or_else(|| format!("'{name}' is not a register"))?;
    let (class, index) = name.split_at(digits);
    if !["R", "P", "UR", "UP", "B"].contains(&class) {
        return Err(format!("'{name}' is not a register"));
    }
    let index: u8 = index
        .parse()
        .map_err(|_| format!("'{name}' is not a register"))?;
    Ok(format!("Register::new(RegisterClass::{class}, {index})"))
}

/// `*(size=64:2,size=128:4)`; several conditions on one width are joined by `&`, several values by `|`.
pub fn width_rules(word: &str, modifiers: &[Modifier]) -> Result<Vec<WidthRule>, String> {
    let inner = word
        .strip_prefix("*(")
        .and_then(|rest| rest.strip_suffix(')'))
        .ok_or_else(|| format!("'{word}' is not *(MODIFIER=VALUE:REGISTERS,…)"))?;
    let mut rules = Vec::new();
    for rule in inner.split(',') {
        let (conditions, width) = rule
            .rsplit_once(':')
            .ok_or_else(|| format!("'{rule}' is not MODIFIER=VALUE:REGISTERS"))?;
        let width = width
            .parse()
            .map_err(|_| format!("'{width}' is not a number of registers"))?;
        let mut when = Vec::new();
        for condition in conditions.split('&').filter(|text| !text.is_empty()) {
            let (name, values) = condition
                .split_once('=')
                .ok_or_else(|| format!("'{condition}' is not MODIFIER=VALUE"))?;
            let index = modifiers
                .iter()
                .position(|modifier| modifier.name == name)
                .ok_or_else(|| format!("no modifier '{name}'"))?;
            let mut set = 0u64;
            for value in values.split('|') {
                let (number, _, _) = modifiers[index]
                    .values
                    .iter()
                    .find(|(_, other, _)| other == value)
                    .ok_or_else(|| format!("modifier '{name}' has no value '{value}'"))?;
                if *number >= 64 {
                    return Err(format!("value '{value}' is too large for a width rule"));
                }
                set |= 1 << number;
            }
            when.push((index as u8, set));
        }
        rules.push((width, when));
    }
    Ok(rules)
}
