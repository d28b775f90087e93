//! The forms of a row: where each slot is under an opcode, and which bits are fixed.

use crate::place::{Field, Kind, immediate_bits};
use crate::rows::{Operation, fix};
use crate::slots::{Attributes, BitSpec, attribute};
use crate::syntax::Line;
use crate::targets::{self, Target};

/// The guard predicate and its complement.
const GUARD_MASK: u128 = 0xf << 12;
/// Bits 102–103 and 105–121: what every instruction has. Reuse bits (122–125) belong to operands.
const CONTROL_MASK: u128 = 0b11 << 102 | ((1 << 17) - 1) << 105;

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

/// `form OPCODE… [fix:POS=VALUE] [only=TARGET+TARGET] [SLOT=PLACE,ATTRIBUTE…]`.
pub fn forms(
    line: &Line,
    operation: &Operation,
    fixed: &[(Field, u128)],
    (targets, known): (u32, &[Target]),
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
            targets &= targets::set(known, &names)?;
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
    for place in &places {
        if let Kind::Address {
            descriptor: Some(field),
            tied: true,
            ..
        } = &place.kind
            && !places.iter().any(
                |other| matches!(&other.kind, Kind::Address { uniform: Some(uniform), .. } if uniform == field),
            )
        {
            return Err(format!(
                "form {opcode:03x}: no other slot has the uniform register a descriptor is tied to"
            ));
        }
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
                    field: Field::one(32, immediate_bits(attributes.immediate)),
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
    let immediate = matches!(kind, Kind::Immediate { .. });
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
