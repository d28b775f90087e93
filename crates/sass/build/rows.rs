//! Gives a row's lines their meaning and checks them.

use crate::place::{Field, Kind, immediate_format};
use crate::syntax::{Block, Line};
use std::collections::BTreeSet;

/// Targets by name; the position is the bit in a set. `src/target.rs` lists the same, and a test compares them.
pub const TARGETS: &[&str] = &["sm_90", "sm_90a"];

/// The guard predicate and its complement.
const GUARD_MASK: u128 = 0xf << 12;
/// Bits 102–103 and 105–121: what every instruction has. Reuse bits (122–125) belong to operands.
const CONTROL_MASK: u128 = 0b11 << 102 | ((1 << 17) - 1) << 105;

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

#[derive(Debug)]
pub struct Modifier {
    pub name: String,
    pub field: Field,
    pub shift: u32,
    pub values: Vec<(u16, String, bool)>,
}

/// A slot's place in one form, resolved.
#[derive(Debug)]
pub struct Place {
    pub kind: Kind,
    pub negate: Option<u8>,
    pub absolute: Option<u8>,
    pub invert: Option<u8>,
    pub reuse: Option<u8>,
    pub select: Field,
    pub named: bool,
}

#[derive(Debug)]
pub struct Form {
    pub opcode: u16,
    pub targets: u32,
    pub fixed_mask: u128,
    pub fixed_value: u128,
    pub places: Vec<Place>,
}

#[derive(Debug)]
pub enum Shown {
    Slot(u8),
    Literal(String),
    Modifier(u8),
}

#[derive(Debug)]
pub struct Item {
    pub shown: Shown,
    pub omission: &'static str,
    pub after_space: bool,
    pub suffixes: Vec<u8>,
}

#[derive(Debug)]
pub enum Part {
    Literal(String),
    Modifier(u8),
    Alias,
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
pub fn operation(block: &Block) -> Result<Operation, String> {
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
    let mut targets = (1u32 << TARGETS.len()) - 1;
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
            "only" => targets = target_set(&line.words[1..]).map_err(|e| line.error(e))?,
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
                let forms = forms(line, &operation, &fixed, targets).map_err(|e| line.error(e))?;
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

fn access_name(word: &str) -> Result<&'static str, String> {
    match word {
        "R" => Ok("Read"),
        "W" => Ok("Write"),
        "RW" => Ok("ReadWrite"),
        other => Err(format!("'{other}' is not R, W or RW")),
    }
}

fn target_set(words: &[String]) -> Result<u32, String> {
    let mut set = 0;
    for word in words {
        let bit = TARGETS
            .iter()
            .position(|name| name == word)
            .ok_or_else(|| format!("'{word}' is not a target"))?;
        set |= 1 << bit;
    }
    Ok(set)
}

/// `POS=VALUE` or `POS:LEN=VALUE`; the value in decimal or `0x` hexadecimal.
fn fix(word: &str) -> Result<(Field, u128), String> {
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

fn integer(text: &str) -> Result<u64, String> {
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

/// `NAME ACCESS PLACE ATTRIBUTES…`.
fn slot(line: &Line) -> Result<Slot, String> {
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
fn attribute(
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

fn register_rust(name: &str) -> Result<String, String> {
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
fn width_rules(word: &str, modifiers: &[Modifier]) -> Result<Vec<WidthRule>, String> {
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

/// `MNEMONIC{mod}… item, ?item, ?item+, item{mod}, "literal"`.
fn text(line: &Line, operation: &mut Operation) -> Result<(), String> {
    let rest = line.rest.as_str();
    let (mnemonic, items) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let find = |name: &str, modifiers: &[Modifier]| {
        modifiers
            .iter()
            .position(|modifier| modifier.name == name)
            .map(|index| index as u8)
            .ok_or_else(|| format!("no modifier '{name}'"))
    };
    let mut pieces = mnemonic;
    while !pieces.is_empty() {
        if let Some(inner) = pieces.strip_prefix('{') {
            let (name, after) = inner.split_once('}').ok_or("a `{` without `}`")?;
            operation.parts.push(if name == "alias" {
                Part::Alias
            } else {
                Part::Modifier(find(name, &operation.modifiers)?)
            });
            pieces = after;
        } else {
            let end = pieces.find('{').unwrap_or(pieces.len());
            operation
                .parts
                .push(Part::Literal(pieces[..end].to_owned()));
            pieces = &pieces[end..];
        }
    }
    if !matches!(operation.parts.first(), Some(Part::Literal(_))) {
        return Err("the text starts with a mnemonic".to_owned());
    }
    let separated = items.split(',').flat_map(|group| {
        group
            .split_whitespace()
            .enumerate()
            .map(|(index, item)| (item, index > 0))
    });
    for (item, after_space) in separated {
        let (head, mut tail) = match item.find('{') {
            Some(at) => item.split_at(at),
            None => (item, ""),
        };
        let mut suffixes = Vec::new();
        while let Some(inner) = tail.strip_prefix('{') {
            let (name, after) = inner.split_once('}').ok_or("a `{` without `}`")?;
            suffixes.push(find(name, &operation.modifiers)?);
            tail = after;
        }
        if !tail.is_empty() {
            return Err(format!("'{tail}' after a suffix"));
        }
        if head.is_empty() {
            let [modifier] = suffixes[..] else {
                return Err(format!("'{item}' is not one modifier"));
            };
            operation.items.push(Item {
                shown: Shown::Modifier(modifier),
                omission: "Never",
                after_space,
                suffixes: Vec::new(),
            });
            continue;
        }
        if let Some(literal) = head.strip_prefix('"').and_then(|i| i.strip_suffix('"')) {
            operation.items.push(Item {
                shown: Shown::Literal(literal.to_owned()),
                omission: "Never",
                after_space,
                suffixes,
            });
            continue;
        }
        let (name, omission) = match head.strip_prefix('?') {
            Some(name) => match name.strip_suffix('+') {
                Some(name) => (name, "DefaultChain"),
                None => (name, "Default"),
            },
            None => (head, "Never"),
        };
        let slot = operation
            .slots
            .iter()
            .position(|slot| slot.name == name)
            .ok_or_else(|| format!("no slot '{name}'"))?;
        if omission != "Never" && operation.slots[slot].default.is_none() {
            return Err(format!("slot '{name}' may be left out but has no default"));
        }
        operation.items.push(Item {
            shown: Shown::Slot(slot as u8),
            omission,
            after_space,
            suffixes,
        });
    }
    Ok(())
}

/// `form OPCODE… [fix:POS=VALUE] [only=TARGET+TARGET] [SLOT=PLACE,ATTRIBUTE…]`.
fn forms(
    line: &Line,
    operation: &Operation,
    fixed: &[(Field, u128)],
    targets: u32,
) -> Result<Vec<Form>, String> {
    let mut opcodes = Vec::new();
    let mut own_fixed = fixed.to_vec();
    let mut overrides: Vec<(usize, String, Attributes)> = Vec::new();
    let mut targets = targets;
    for word in &line.words[1..] {
        if let Some(value) = word.strip_prefix("fix:") {
            own_fixed.push(fix(value)?);
        } else if let Some(names) = word.strip_prefix("only=") {
            let names: Vec<String> = names.split('+').map(str::to_owned).collect();
            targets &= target_set(&names)?;
        } else if let Some((name, place)) = word.split_once('=') {
            let slot = operation
                .slots
                .iter()
                .position(|slot| slot.name == name)
                .ok_or_else(|| format!("no slot '{name}'"))?;
            let mut parts = place.split(',');
            let place = parts.next().unwrap_or_default().to_owned();
            let mut attributes = operation.slots[slot].attributes.clone();
            for part in parts {
                attribute(part, &mut attributes, &mut Vec::new())?;
            }
            overrides.push((slot, place, attributes));
        } else {
            let opcode = u16::from_str_radix(word, 16)
                .ok()
                .filter(|opcode| *opcode < 4096 && word.len() == 3)
                .ok_or_else(|| format!("'{word}' is not a three-digit opcode"))?;
            opcodes.push(opcode);
        }
    }
    if opcodes.is_empty() {
        return Err("a form needs an opcode".to_owned());
    }
    let mut result = Vec::new();
    for opcode in opcodes {
        let digit = opcode >> 9;
        // Forms 3 and 5 name a constant bank; the same opcode with bit 91 set takes the bank from a uniform register.
        let flexible = operation.slots.iter().enumerate().any(|(index, slot)| {
            let place = overrides
                .iter()
                .find(|(slot, _, _)| *slot == index)
                .map_or(&slot.place, |(_, place, _)| place);
            matches!(place.as_str(), "B" | "C" | "C32")
        });
        let variants: &[bool] = if flexible && (digit == 3 || digit == 5) {
            &[false, true]
        } else {
            &[false]
        };
        for bindless in variants {
            result.push(form(
                opcode, operation, &overrides, &own_fixed, targets, *bindless,
            )?);
        }
    }
    Ok(result)
}

fn form(
    opcode: u16,
    operation: &Operation,
    overrides: &[(usize, String, Attributes)],
    fixed: &[(Field, u128)],
    targets: u32,
    bindless: bool,
) -> Result<Form, String> {
    let mut used: u128 = CONTROL_MASK;
    let mut fixed_mask = 0xfff;
    let mut fixed_value = u128::from(opcode);
    let mut claim = |mask: u128, bits: u32, who: &str| {
        if mask.count_ones() != bits || used & mask != 0 {
            return Err(format!(
                "form {opcode:03x}: '{who}' overlaps another field at bits {:?}",
                bit_list(used & mask)
            ));
        }
        used |= mask;
        Ok(())
    };
    claim(0xfff, 12, "opcode")?;
    claim(GUARD_MASK, 4, "guard")?;
    if operation.guard == "None" {
        fixed_mask |= GUARD_MASK;
        fixed_value |= 7 << 12;
    }
    let mut modifiers = 0;
    for modifier in &operation.modifiers {
        claim(modifier.field.mask(), modifier.field.len(), &modifier.name)?;
        modifiers |= modifier.field.mask();
    }
    let mut places = Vec::new();
    for (index, slot) in operation.slots.iter().enumerate() {
        let (text, attributes) = overrides
            .iter()
            .find(|(slot, _, _)| *slot == index)
            .map_or((&slot.place, &slot.attributes), |(_, place, attributes)| {
                (place, attributes)
            });
        let (place, uniform_bit) = resolve(text, attributes, opcode >> 9, bindless)?;
        if let Some(bit) = uniform_bit {
            fixed_mask |= 1 << 91;
            fixed_value |= u128::from(bit) << 91;
        }
        claim(place.kind.mask(), place.kind.bits(), &slot.name)?;
        claim(place.select.mask(), place.select.len(), &slot.name)?;
        for bit in [place.negate, place.absolute, place.invert, place.reuse]
            .into_iter()
            .flatten()
        {
            claim(1 << bit, 1, &slot.name)?;
        }
        if place.select.len() > 0 && slot.selects.is_empty() {
            return Err(format!("slot '{}' selects without names", slot.name));
        }
        places.push(place);
    }
    for (field, value) in fixed {
        if fixed_mask & field.mask() != 0 && (fixed_value ^ value) & field.mask() & fixed_mask != 0
        {
            return Err(format!(
                "form {opcode:03x}: bits {:?} are fixed to two values",
                bit_list(field.mask())
            ));
        }
        // A fixed bit may lie in a modifier: the form then exists for those of its values only.
        if used & field.mask() & !modifiers & !fixed_mask != 0 {
            return Err(format!(
                "form {opcode:03x}: fixed bits {:?} belong to a field",
                bit_list(used & field.mask())
            ));
        }
        fixed_mask |= field.mask();
        fixed_value |= value;
    }
    // What no field claims is zero in every instruction.
    fixed_mask |= !used;
    Ok(Form {
        opcode,
        targets,
        fixed_mask,
        fixed_value,
        places,
    })
}

fn bit_list(mask: u128) -> Vec<u32> {
    (0..128).filter(|bit| mask >> bit & 1 == 1).collect()
}

/// Where a flexible source is: its kind at word bit 32, or at 64.
enum At {
    A,
    Low,
    High,
}

/// Resolves a place, flexible or not, in a form with this digit. The second result is what bit 91 must be, where the
/// place decides it.
fn resolve(
    text: &str,
    attributes: &Attributes,
    digit: u16,
    bindless: bool,
) -> Result<(Place, Option<bool>), String> {
    let low_kinds = |uniform: bool| -> Result<(Kind, Option<bool>), String> {
        let constant = || Kind::parse("c[54:5][S40:14*4]");
        Ok(match digit {
            1 if uniform => (Kind::parse("UR32")?, None),
            1 => (Kind::parse("R32")?, Some(false)),
            2 | 4 => (
                Kind::Immediate {
                    field: Field::one(32, 32),
                    format: attributes.immediate,
                },
                (!uniform).then_some(false),
            ),
            3 | 5 if bindless => (Kind::parse("cx[UR32][40:14*4]")?, Some(true)),
            3 | 5 => (constant()?, Some(false)),
            6 | 7 => (Kind::parse("UR32")?, Some(true)),
            _ => return Err(format!("form digit {digit} has no flexible source")),
        })
    };
    let (kind, uniform_bit, at, reuse) = match text {
        "A" => (Kind::parse("R24")?, None, Some(At::A), Some(122)),
        "UA" => (Kind::parse("UR24")?, None, Some(At::A), None),
        "B" => match digit {
            1 | 4 | 5 | 6 => {
                let (kind, bit) = low_kinds(false)?;
                (kind, bit, Some(At::Low), Some(123))
            }
            2 | 3 | 7 => (Kind::parse("R64")?, None, Some(At::High), Some(123)),
            _ => return Err(format!("form digit {digit} has no source B")),
        },
        "C" => match digit {
            1 | 4 | 5 | 6 => (Kind::parse("R64")?, None, Some(At::High), Some(124)),
            2 | 3 | 7 => {
                let (kind, bit) = low_kinds(false)?;
                (kind, bit, Some(At::Low), Some(124))
            }
            _ => return Err(format!("form digit {digit} has no source C")),
        },
        "C32" => {
            let (kind, bit) = low_kinds(false)?;
            (kind, bit, Some(At::Low), Some(124))
        }
        "UB" => {
            let (kind, bit) = low_kinds(true)?;
            (kind, bit, Some(At::Low), None)
        }
        "UC" => (Kind::parse("UR64")?, None, Some(At::High), None),
        "*" => return Err("the form must say where this slot is (SLOT=PLACE)".to_owned()),
        concrete => (Kind::parse(concrete)?, None, None, None),
    };
    let kind = match kind {
        Kind::Constant {
            bank,
            handle,
            index,
            offset,
            signed,
            scale,
            ..
        } => Kind::Constant {
            bank,
            handle,
            index,
            offset,
            signed,
            scale,
            // Where a part is selected (`c[0x0] [0x10].H0_H0`), nvdisasm writes bank and offset apart.
            spaced: attributes.spaced || attributes.select.is_some(),
        },
        other => other,
    };
    let immediate = matches!(kind, Kind::Immediate { .. }) && at.is_some();
    let predicate_complement = match &kind {
        Kind::Register {
            class: "P" | "UP",
            field,
            ..
        } => field.0.last().map(|(at, len)| at + len),
        _ => None,
    };
    let bit = |spec: BitSpec, usual: [u8; 3]| -> Result<Option<u8>, String> {
        if immediate {
            return Ok(None);
        }
        Ok(match spec {
            BitSpec::None => None,
            BitSpec::At(bit) => Some(bit),
            BitSpec::Usual => Some(match at {
                Some(At::A) => usual[0],
                Some(At::Low) => usual[1],
                Some(At::High) => usual[2],
                None => predicate_complement
                    .ok_or_else(|| format!("'{text}' has no usual bit: write its number"))?,
            }),
        })
    };
    let reuse = match attributes.reuse {
        BitSpec::None => None,
        BitSpec::At(bit) => Some(bit),
        BitSpec::Usual => reuse,
    };
    let place = Place {
        negate: bit(attributes.negate, [72, 63, 75])?,
        absolute: bit(attributes.absolute, [73, 62, 74])?,
        invert: bit(attributes.invert, [72, 63, 75])?,
        reuse: reuse.filter(|_| kind.reusable()),
        select: match (&attributes.select, immediate) {
            (Some(field), false) => field.clone(),
            _ => Field::default(),
        },
        named: attributes.named,
        kind,
    };
    Ok((place, uniform_bit))
}
