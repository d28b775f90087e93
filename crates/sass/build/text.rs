//! The text of a row: its mnemonic and its operands in printed order.

use crate::rows::{Modifier, Operation};
use crate::syntax::Line;

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

/// `MNEMONIC{mod}… item, ?item, ?item+, item{mod}, "literal"`.
pub fn text(line: &Line, operation: &mut Operation) -> Result<(), String> {
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
                None => match name.strip_suffix('*') {
                    Some(name) => (name, "DefaultOrZero"),
                    None => (name, "Default"),
                },
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
