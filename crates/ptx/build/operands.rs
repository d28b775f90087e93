//! Reads the operand half of a row: brackets, optional groups, kinds and types.
//!
//! Optional groups are spelt out here: a row with two of them yields up to four lists of operands. An operand that is
//! there exactly when a modifier is (`if`) turns into a condition on the list.

use crate::notation::{Condition, Scope, read_condition};
use crate::types::Type;

#[derive(Clone, Debug, Default)]
pub struct OperandList {
    /// Negated or not, and the condition.
    pub conditions: Vec<(bool, Condition)>,
    pub operands: Vec<Operand>,
}

#[derive(Clone, Debug)]
pub struct Operand {
    pub name: String,
    pub access: &'static str,
    pub form: Form,
    /// Optional or not, and the modifiers.
    pub suffixes: Vec<(bool, Vec<String>)>,
}

#[derive(Clone, Debug)]
pub enum Form {
    Value(Value),
    Vector(String, Value),
    Bracket(Vec<Operand>),
    Pair(Box<[Operand; 2]>, bool),
    Address(String),
    /// A form without details, by the name of its variant.
    Plain(&'static str),
}

#[derive(Clone, Debug, Default)]
pub struct Value {
    pub ty: String,
    pub register: bool,
    pub constant: bool,
    pub name: bool,
    pub special: bool,
    pub sink: bool,
    pub relaxed: bool,
    pub strict: bool,
    pub lenient: bool,
    pub not: bool,
    pub negate: bool,
    pub range: Option<(i64, i64)>,
    pub step: i64,
    pub one_of: Vec<i64>,
}

/// Every operand list that `text` allows; the longest come first.
pub fn read(text: &str, scope: &Scope) -> Result<Vec<OperandList>, String> {
    let mut shapes = read_list(text, scope)?;
    shapes.sort_by_key(|shape| std::cmp::Reverse(shape.operands.len()));
    Ok(shapes)
}

/// The parts of an operand list: text, and whether it stood in an optional group.
fn split_list(text: &str) -> Result<Vec<(String, bool)>, String> {
    let mut parts = Vec::new();
    let mut current = String::new();
    let mut depth = 0_i32;
    let bytes: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < bytes.len() {
        let c = bytes[at];
        let next = bytes[at + 1..].iter().find(|c| !c.is_whitespace());
        // An optional group of operands starts `{,`, or opens the list; `{.` and `{|` belong to an operand.
        let group = c == '{' && depth == 0 && !matches!(next, Some('.' | '|'));
        if group {
            let close = matching(&bytes, at)?;
            let inner: String = bytes[at + 1..close].iter().collect();
            if !current.trim().is_empty() {
                parts.push((std::mem::take(&mut current), false));
            }
            current.clear();
            let inner = inner.trim().trim_matches(',').trim().to_owned();
            parts.push((inner, true));
            at = close + 1;
            continue;
        }
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            if !current.trim().is_empty() {
                parts.push((std::mem::take(&mut current), false));
            }
            current.clear();
        } else {
            current.push(c);
        }
        at += 1;
    }
    if depth != 0 {
        return Err("brackets do not match".to_owned());
    }
    if !current.trim().is_empty() {
        parts.push((current, false));
    }
    Ok(parts)
}

fn matching(chars: &[char], open: usize) -> Result<usize, String> {
    let mut depth = 0_i32;
    for (at, c) in chars.iter().enumerate().skip(open) {
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(at);
        }
    }
    Err("brackets do not match".to_owned())
}

fn read_list(text: &str, scope: &Scope) -> Result<Vec<OperandList>, String> {
    let mut shapes = vec![OperandList::default()];
    for (part, optional) in split_list(text)? {
        let (body, condition) = split_condition(&part);
        let condition = match condition {
            Some(text) => Some(read_condition(text, scope.slots)?),
            None => None,
        };
        let choices = if optional {
            read_list(body, scope)?
        } else {
            read_operand(body, scope)?
        };
        let mut grown = Vec::new();
        for shape in &shapes {
            for choice in &choices {
                let mut shape = shape.clone();
                shape.conditions.extend(choice.conditions.iter().cloned());
                shape.operands.extend(choice.operands.iter().cloned());
                if let Some(condition) = &condition {
                    shape.conditions.push((true, condition.clone()));
                }
                grown.push(shape);
            }
            if optional {
                let mut shape = shape.clone();
                if let Some(condition) = &condition {
                    shape.conditions.push((false, condition.clone()));
                }
                grown.push(shape);
            } else if condition.is_some() {
                return Err("`if` belongs in an optional group: `{, c:T if .x}`".to_owned());
            }
        }
        shapes = grown;
    }
    Ok(shapes)
}

/// Splits ` if CONDITION` off the end, where it is not inside brackets.
fn split_condition(text: &str) -> (&str, Option<&str>) {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth -= 1,
            ' ' if depth == 0 && text[at..].starts_with(" if ") => {
                return (text[..at].trim(), Some(&text[at + 4..]));
            }
            _ => {}
        }
    }
    (text.trim(), None)
}

fn read_operand(text: &str, scope: &Scope) -> Result<Vec<OperandList>, String> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('[') {
        let close = rest.rfind(']').ok_or("`[` without `]`")?;
        let (suffixes, left) = read_suffixes(rest[close + 1..].trim(), scope)?;
        if !left.is_empty() {
            return Err(format!("'{left}' after a bracket"));
        }
        return Ok(read_list(&rest[..close], scope)?
            .into_iter()
            .map(|inner| OperandList {
                conditions: inner.conditions,
                operands: vec![Operand {
                    name: inner
                        .operands
                        .first()
                        .map(|operand| operand.name.clone())
                        .unwrap_or_default(),
                    access: "Read",
                    form: Form::Bracket(inner.operands),
                    suffixes: suffixes.clone(),
                }],
            })
            .collect());
    }
    let operand = match text.split_once("{|") {
        Some((first, second)) => {
            let second = second.strip_suffix('}').ok_or("`{|` without `}`")?;
            pair(first, second, true, scope)?
        }
        None => match text.split_once('|') {
            Some((first, second)) => pair(first, second, false, scope)?,
            None => read_single(text, scope)?,
        },
    };
    Ok(vec![OperandList {
        conditions: Vec::new(),
        operands: vec![operand],
    }])
}

fn pair(first: &str, second: &str, optional: bool, scope: &Scope) -> Result<Operand, String> {
    let both = [
        read_single(first.trim(), scope)?,
        read_single(second.trim(), scope)?,
    ];
    Ok(Operand {
        name: both[0].name.clone(),
        access: both[0].access,
        form: Form::Pair(Box::new(both), optional),
        suffixes: Vec::new(),
    })
}

/// Optional or not, and the modifiers allowed, for each position.
type Suffixes = Vec<(bool, Vec<String>)>;

/// `{.a}.b` behind an operand; returns what is left.
fn read_suffixes<'t>(mut text: &'t str, scope: &Scope) -> Result<(Suffixes, &'t str), String> {
    let mut suffixes = Vec::new();
    loop {
        if let Some(rest) = text.strip_prefix("{.") {
            let (name, after) = rest.split_once('}').ok_or("`{.` without `}`")?;
            suffixes.push((true, scope.modifiers(name)));
            text = after;
        } else if let Some(rest) = text.strip_prefix('.') {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            suffixes.push((false, scope.modifiers(&rest[..end])));
            text = &rest[end..];
        } else {
            return Ok((suffixes, text));
        }
    }
}

/// `name{.suffix}:=kind type`
fn read_single(text: &str, scope: &Scope) -> Result<Operand, String> {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
        .unwrap_or(text.len());
    let name = &text[..end];
    let (suffixes, rest) = read_suffixes(&text[end..], scope)?;
    let kind = rest
        .trim()
        .strip_prefix(':')
        .ok_or_else(|| format!("'{text}': an operand is written name:kind"))?;
    if name.is_empty() {
        return Err(format!("'{text}': an operand needs a name"));
    }
    let (access, kind) = match kind.as_bytes().first() {
        Some(b'=') => ("Write", &kind[1..]),
        Some(b'+') => ("ReadWrite", &kind[1..]),
        _ => ("Read", kind),
    };
    Ok(Operand {
        name: name.to_owned(),
        access,
        form: read_form(kind.trim(), access, scope)?,
        suffixes,
    })
}

fn read_form(kind: &str, access: &str, scope: &Scope) -> Result<Form, String> {
    const PLAIN: &[(&str, &str)] = &[
        ("label", "Label"),
        ("func", "Function"),
        ("targets", "TargetList"),
        ("tex", "Texture"),
        ("sampler", "Sampler"),
        ("surf", "Surface"),
        ("callret", "CallReturn"),
        ("callargs", "CallArguments"),
    ];
    if let Some((_, variant)) = PLAIN.iter().find(|(word, _)| *word == kind) {
        return Ok(Form::Plain(variant));
    }
    if let Some(space) = kind.strip_prefix("addr") {
        return Ok(Form::Address(read_space(space.trim(), scope)?));
    }
    if let Some(rest) = kind.strip_prefix("vec(") {
        let (count, element) = rest.split_once(')').ok_or("`vec(` without `)`")?;
        return Ok(Form::Vector(
            read_count(count.trim(), scope)?,
            read_value(element, access, scope)?,
        ));
    }
    Ok(Form::Value(read_value(kind, access, scope)?))
}

fn read_value(text: &str, access: &str, scope: &Scope) -> Result<Value, String> {
    let read = access == "Read";
    let mut value = Value {
        register: true,
        constant: read,
        step: 1,
        ..Value::default()
    };
    for word in text.split_whitespace() {
        match word {
            "reg" => value.constant = false,
            "imm" => value.register = false,
            "any" => {
                value.name = true;
                value.special = true;
            }
            "special" => value.special = true,
            "sink" => value.sink = true,
            "only" => {
                value.register = false;
                value.constant = false;
            }
            "relaxed" => value.relaxed = true,
            "strict" => value.strict = true,
            "lenient" => value.lenient = true,
            "name" => value.name = true,
            "neg" => value.negate = true,
            "!pred" => {
                value.not = true;
                value.ty = read_type("pred", scope)?;
            }
            _ => {
                let number = |text: &str| {
                    text.parse::<i64>().map_err(|_| {
                        format!("'{word}': constants are written 0..31, 0..256:8 or 4/8/16")
                    })
                };
                if let Some((low, high)) = word.split_once("..") {
                    let (high, step) = high.split_once(':').unwrap_or((high, "1"));
                    value.range = Some((number(low)?, number(high)?));
                    value.step = number(step)?;
                    if value.step < 1 {
                        return Err(format!("'{word}': a step is at least 1"));
                    }
                } else if word.contains('/') {
                    value.one_of = word.split('/').map(number).collect::<Result<_, _>>()?;
                } else if value.ty.is_empty() {
                    value.ty = read_type(word, scope)?;
                } else {
                    return Err(format!("'{word}' after the operand's type"));
                }
            }
        }
    }
    if value.ty.is_empty() {
        return Err(format!("'{text}' names no type"));
    }
    // ptxas takes a predicate negated, or as a constant, wherever it is read.
    if value.ty == "TypeRule::Fixed(Type::Pred)" && read && value.register && value.constant {
        value.not = true;
    }
    Ok(value)
}

fn read_type(word: &str, scope: &Scope) -> Result<String, String> {
    for (function, variant) in [("wide(", "Wide"), ("bits(", "Bits")] {
        if let Some(inner) = word.strip_prefix(function) {
            let name = inner
                .strip_suffix(')')
                .ok_or_else(|| format!("'{word}' without `)`"))?;
            let slot = type_slot(name, scope)?;
            return Ok(format!("TypeRule::{variant}({slot})"));
        }
    }
    if let Some(map) = scope.map(word) {
        for (_, value) in &scope.maps[map].entries {
            if Type::from_name(value).is_none() {
                return Err(format!("the map {word} yields '{value}', which is no type"));
            }
        }
        return Ok(format!("TypeRule::Map({map})"));
    }
    // A type that the opcode spells out is as good as one it chooses; ptxas is stricter with the others.
    let spelt_out = scope
        .slots
        .iter()
        .position(|slot| slot.name == word && slot.literal && !slot.optional);
    match (spelt_out, Type::from_name(word)) {
        (Some(slot), Some(ty)) if ty != Type::Pred => Ok(format!("TypeRule::Slot({slot})")),
        (_, Some(ty)) => Ok(format!("TypeRule::Fixed(Type::{})", ty.ident())),
        (_, None) => Ok(format!("TypeRule::Slot({})", type_slot(word, scope)?)),
    }
}

fn type_slot(name: &str, scope: &Scope) -> Result<usize, String> {
    let slot = scope
        .slot(name)
        .ok_or_else(|| format!("'{name}' is no type, slot or map of this row"))?;
    if scope.slots[slot].optional {
        return Err(format!(
            "a type cannot come from .{name}, which is optional"
        ));
    }
    for alternative in &scope.slots[slot].alternatives {
        if Type::from_name(&alternative.modifier).is_none() {
            return Err(format!(
                "'{name}' is used as a type, but .{} is none",
                alternative.modifier
            ));
        }
    }
    Ok(slot)
}

fn read_space(text: &str, scope: &Scope) -> Result<String, String> {
    if text.is_empty() || text == "generic" {
        return Ok("SpaceRule::Generic".to_owned());
    }
    if let Some(name) = text.strip_prefix('.') {
        let slot = scope
            .slot(name)
            .ok_or_else(|| format!("the row has no slot .{name}"))?;
        return Ok(format!("SpaceRule::Slot({slot})"));
    }
    Ok(format!("SpaceRule::Fixed({text:?})"))
}

/// `4`, `1..5`, `.vec.v`, `.shape.n/2`, `.dim-2`, or a map's name.
fn read_count(text: &str, scope: &Scope) -> Result<String, String> {
    if let Some(map) = scope.map(text) {
        for (_, value) in &scope.maps[map].entries {
            if value.parse::<u16>().is_err() {
                return Err(format!(
                    "the map {text} yields '{value}', which is no count"
                ));
            }
        }
        return Ok(format!("Count::Map({map})"));
    }
    let wrong = || format!("'{text}' is no count: 4, 1..5, .slot.v, .shape.n/2 or a map's name");
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
    let Some(rest) = text.strip_prefix('.') else {
        return match text.split_once("..") {
            Some((low, high)) => Ok(format!("Count::Range({}, {})", number(low)?, number(high)?)),
            None => Ok(format!("Count::Range({0}, {0})", number(text)?)),
        };
    };
    let end = rest.find(['*', '/', '+', '-']).unwrap_or(rest.len());
    let (name, letter) = match rest[..end].trim().split_once('.') {
        Some((name, letter)) => (name, letter.trim()),
        None => (rest[..end].trim(), ""),
    };
    let slot = scope
        .slot(name)
        .ok_or_else(|| format!("the row has no slot .{name}"))?;
    let letter = match letter.as_bytes() {
        [] => 0,
        [letter] => *letter,
        _ => return Err(wrong()),
    };
    let (mut times, mut over, mut plus) = (1, 1, 0_i32);
    let mut tail = rest[end..].trim();
    while let Some(operator) = tail.chars().next() {
        let body = &tail[1..];
        let end = body.find(['*', '/', '+', '-']).unwrap_or(body.len());
        let value = number(&body[..end])?;
        match operator {
            '*' => times = value,
            '/' if value != 0 => over = value,
            '+' => plus = i32::from(value),
            '-' => plus = -i32::from(value),
            _ => return Err(wrong()),
        }
        tail = body[end..].trim();
    }
    Ok(format!(
        "Count::Slot {{ slot: {slot}, letter: {letter}, times: {times}, over: {over}, plus: {plus} }}"
    ))
}
