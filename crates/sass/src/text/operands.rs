//! Operands read from text: numbers, registers, constants and addresses, each with what may stand before and after it.

use crate::operand::{Address, BaseKind, Constant, ConstantBank, RegisterOperand, SourceModifiers};
use crate::register::{Register, RegisterClass};
use crate::table::{AddressPlace, ConstantPlace, Place, Slot};
use crate::text::parse::after_component;

pub(super) fn decimal(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// `0x10`, `-0x10`, `16`.
pub(super) fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let magnitude = match digits.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()?
        }
        Some(_) => return None,
        None => decimal(digits)?,
    };
    if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// `{5,0}` as a set of bits.
pub(super) fn scoreboard_set(text: &str) -> Option<u64> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    inner.split(',').try_fold(0, |set, number| {
        let number = decimal(number.trim())?;
        (number < 64).then(|| set | 1 << number)
    })
}

/// Takes `-`, `~`, `!` and `|` off the front.
fn source_prefix(text: &str) -> (SourceModifiers, &str) {
    let mut modifiers = SourceModifiers::NONE;
    let mut rest = text;
    if let Some(after) = rest.strip_prefix(['~', '!']) {
        modifiers.invert = true;
        rest = after;
    }
    if let Some(after) = rest.strip_prefix('-') {
        modifiers.negate = true;
        rest = after;
    }
    if let Some(after) = rest.strip_prefix('|') {
        modifiers.absolute = true;
        rest = after;
    }
    (modifiers, rest)
}

/// Takes `|`, `.reuse` and a select off the front; what is left may be the item's modifiers.
fn source_suffix<'t>(
    text: &'t str,
    modifiers: &mut SourceModifiers,
    slot: &Slot,
    place: &Place,
    reuse: &mut u8,
) -> Option<&'t str> {
    let mut rest = text;
    // The bar closes before the select or after it: see `push_after`.
    let mut open = modifiers.absolute;
    if open && let Some(after) = rest.strip_prefix('|') {
        rest = after;
        open = false;
    }
    if let Some(after) = after_component(rest, ".reuse") {
        if !place.reuse.exists() {
            return None;
        }
        *reuse |= 1 << (place.reuse.0 - 122);
        rest = after;
    }
    if !place.select.is_empty() {
        let found = slot
            .selects
            .iter()
            .enumerate()
            .filter_map(|(index, name)| Some((index, (*name)?)))
            .filter(|(_, name)| !name.is_empty())
            .filter_map(|(index, name)| {
                let after = rest.strip_prefix('.')?.strip_prefix(name)?;
                (after.is_empty() || after.starts_with(['.', '|'])).then_some((index, after))
            })
            .min_by_key(|(_, after)| after.len());
        match found {
            Some((index, after)) => {
                modifiers.select = index as u8;
                rest = after;
            }
            None => {
                let unnamed = slot.selects.iter().position(|name| *name == Some(""))?;
                modifiers.select = unnamed as u8;
            }
        }
    }
    if open {
        rest = rest.strip_prefix('|')?;
    }
    Some(rest)
}

pub(super) fn register_operand<'t>(
    text: &'t str,
    class: RegisterClass,
    slot: &Slot,
    place: &Place,
    reuse: &mut u8,
) -> Option<(RegisterOperand, &'t str)> {
    let (mut modifiers, rest) = source_prefix(text);
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(rest.len());
    let register = Register::from_name(&rest[..end]).filter(|register| register.class == class)?;
    let tail = source_suffix(&rest[end..], &mut modifiers, slot, place, reuse)?;
    Some((
        RegisterOperand {
            register,
            modifiers,
        },
        tail,
    ))
}

pub(super) fn constant_operand<'t>(
    text: &'t str,
    shape: &ConstantPlace,
    slot: &Slot,
    place: &Place,
) -> Option<(Constant, &'t str)> {
    let (mut modifiers, rest) = source_prefix(text);
    let (bank, rest) = if let Some(rest) = rest.strip_prefix("cx[") {
        let (name, rest) = rest.split_once(']')?;
        (ConstantBank::Bindless(Register::from_name(name)?), rest)
    } else {
        let (number, rest) = rest.strip_prefix("c[")?.split_once(']')?;
        let bank = u8::try_from(integer(number)?).ok()?;
        (ConstantBank::Index(bank), rest)
    };
    let rest = if shape.spaced {
        rest.strip_prefix(' ')?
    } else {
        rest
    };
    let (inner, tail) = rest.strip_prefix('[')?.split_once(']')?;
    let (index, offset) = match inner.split_once('+') {
        Some((register, offset)) => (Some(Register::from_name(register)?), integer(offset)?),
        None => match Register::from_name(inner) {
            Some(register) => (Some(register), 0),
            None => (None, integer(inner)?),
        },
    };
    let index = match (index, shape.index) {
        (None, Some((RegisterClass::UR, _))) => return None,
        (None, Some((class, _))) => Some(Register::new(class, class.constant_index()?)),
        (index, _) => index,
    };
    let tail = source_suffix(tail, &mut modifiers, slot, place, &mut 0)?;
    Some((
        Constant {
            bank,
            index,
            offset: i32::try_from(offset).ok()?,
            modifiers,
        },
        tail,
    ))
}

/// The address, the text after its base register that is not `.64` or `.U32`, and what follows the bracket.
pub(super) fn address_operand<'t>(
    text: &'t str,
    shape: &AddressPlace,
) -> Option<(Address, &'t str, &'t str)> {
    let (descriptor, rest) = match text.strip_prefix("desc[") {
        Some(rest) => {
            let (name, rest) = rest.split_once(']')?;
            (Some(Register::from_name(name)?), rest)
        }
        None => (None, text),
    };
    if shape.is_policy() {
        let address = Address {
            base: None,
            kind: BaseKind::Plain,
            uniform: None,
            descriptor: Some(descriptor?),
            offset: 0,
        };
        return Some((address, "", rest));
    }
    let (inner, tail) = rest.strip_prefix('[')?.split_once(']')?;
    let mut base = None;
    let mut kind = BaseKind::Plain;
    let mut scale = "";
    let mut uniform = None;
    let mut offset = None;
    for part in inner.split('+') {
        if let Some(number) = integer(part) {
            if offset.replace(number).is_some() {
                return None;
            }
            continue;
        }
        let (name, suffix) = match part.find('.') {
            Some(dot) => part.split_at(dot),
            None => (part, ""),
        };
        let register = Register::from_name(name)?;
        if offset.is_some() {
            return None;
        }
        if register.class == RegisterClass::UR {
            if !suffix.is_empty() || uniform.replace(register).is_some() {
                return None;
            }
        } else {
            if uniform.is_some() || base.replace(register).is_some() {
                return None;
            }
            (kind, scale) = if let Some(rest) = after_component(suffix, ".64") {
                (BaseKind::Wide, rest)
            } else if let Some(rest) = after_component(suffix, ".U32") {
                (BaseKind::Zero, rest)
            } else {
                (BaseKind::Plain, suffix)
            };
        }
    }
    let bare = base.is_none() && uniform.is_none();
    let mut offset = offset.unwrap_or(0);
    if bare && !shape.signed_alone {
        // A bare offset is an absolute address: the field's top bit is not a sign in text.
        if offset < 0 || offset as u64 > shape.offset.max() {
            return None;
        }
        let shift = 64 - u32::from(shape.offset.len());
        offset = offset << shift >> shift;
    }
    if uniform.is_none() && base.is_some() && shape.uniform.is_some() && shape.hide_urz {
        uniform = Some(Register::URZ);
    }
    if base.is_none()
        && let Some(place) = shape.base
    {
        base = Some(Register::new(place.class, place.class.constant_index()?));
        kind = place.kind;
    }
    Some((
        Address {
            base,
            kind,
            uniform,
            descriptor,
            offset: i32::try_from(offset).ok()?,
        },
        scale,
        tail,
    ))
}
