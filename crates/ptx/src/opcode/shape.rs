//! The operands of a row whose modifiers are chosen: types, lengths and state spaces worked out.

use super::{Form, OperandPatterns, Pattern, PatternKind, ValuePattern, holds};
use crate::grammar::{
    Count, Form as FormSpec, MapValue, Modifier, OperandSpec, Row, SpaceRule, TypeRule, ValueForm,
};
use crate::types::Type;

/// The form of a row with these modifiers.
pub(super) fn form(row: &'static Row, chosen: Vec<Option<Modifier>>) -> Form {
    let resolver = Resolver {
        row,
        chosen: &chosen,
    };
    let shapes = row
        .shapes
        .iter()
        .filter(|shape| {
            shape
                .conditions
                .iter()
                .all(|(wanted, condition)| holds(condition, &chosen) == *wanted)
        })
        .map(|shape| OperandPatterns {
            operands: shape
                .operands
                .iter()
                .map(|operand| resolver.pattern(operand))
                .collect(),
        })
        .collect();
    Form {
        row,
        chosen,
        shapes,
    }
}

/// Works out types and lengths of one form.
struct Resolver<'c> {
    row: &'static Row,
    chosen: &'c [Option<Modifier>],
}

impl Resolver<'_> {
    fn pattern(&self, operand: &'static OperandSpec) -> Pattern {
        Pattern {
            name: operand.name,
            access: operand.access,
            kind: self.kind(&operand.form),
            suffixes: operand.suffixes,
        }
    }

    fn kind(&self, form: &'static FormSpec) -> PatternKind {
        match form {
            FormSpec::Value(value) => PatternKind::Value(self.value(value)),
            FormSpec::Vector { count, element } => match self.count(*count) {
                // Without its vector modifier an access takes one register, which may stand in braces.
                None => PatternKind::Vector(0, 1, self.value(element)),
                Some((low, high)) => PatternKind::Vector(low, high, self.value(element)),
            },
            FormSpec::Bracket(inner) => {
                PatternKind::Bracket(inner.iter().map(|it| self.pattern(it)).collect())
            }
            FormSpec::Pair { both, optional } => PatternKind::Pair(
                Box::new([self.pattern(&both[0]), self.pattern(&both[1])]),
                *optional,
            ),
            FormSpec::Address(space) => PatternKind::Address(match space {
                SpaceRule::Generic => None,
                SpaceRule::Slot(slot) => self.chosen[*slot as usize].map(Modifier::name),
                SpaceRule::Fixed(space) => Some(space),
            }),
            FormSpec::Label => PatternKind::Label,
            FormSpec::Function => PatternKind::Function,
            FormSpec::TargetList => PatternKind::TargetList,
            FormSpec::Texture => PatternKind::Texture,
            FormSpec::Sampler => PatternKind::Sampler,
            FormSpec::Surface => PatternKind::Surface,
            FormSpec::CallReturn => PatternKind::CallReturn,
            FormSpec::CallArguments => PatternKind::CallArguments,
        }
    }

    fn value(&self, value: &ValueForm) -> ValuePattern {
        // The build script lets types come from required slots only, and from maps that cover their slot.
        let of_slot = |slot: u8| {
            self.chosen[slot as usize]
                .and_then(Modifier::as_type)
                .unwrap_or(Type::B32)
        };
        let ty = match value.ty {
            TypeRule::Fixed(ty) => ty,
            TypeRule::Slot(slot) => of_slot(slot),
            TypeRule::Wide(slot) => of_slot(slot).widened().unwrap_or(of_slot(slot)),
            TypeRule::Bits(slot) => of_slot(slot).as_bits().unwrap_or(of_slot(slot)),
            TypeRule::Map(map) => match self.mapped(map) {
                Some(MapValue::Type(ty)) => ty,
                _ => Type::B32,
            },
        };
        ValuePattern {
            ty,
            named: !value.strict && !matches!(value.ty, TypeRule::Fixed(_)),
            form: *value,
        }
    }

    fn mapped(&self, map: u8) -> Option<MapValue> {
        let map = &self.row.maps[map as usize];
        let chosen = self.chosen[map.slot as usize]?;
        map.entries
            .iter()
            .find(|(modifier, _)| *modifier == chosen)
            .map(|(_, value)| *value)
    }

    /// The least and the greatest length; `None` makes the operand a scalar, in braces or not.
    fn count(&self, count: Count) -> Option<(u16, u16)> {
        match count {
            Count::Range(low, high) => Some((low, high)),
            Count::Map(map) => match self.mapped(map)? {
                MapValue::Count(count) => Some((count, count)),
                MapValue::Type(_) => None,
            },
            Count::Slot {
                slot,
                letter,
                times,
                over,
                plus,
            } => {
                let text = self.chosen[slot as usize]?.name();
                let number = number_after(text, letter)?;
                let value =
                    i32::from(number) * i32::from(times) / i32::from(over.max(1)) + i32::from(plus);
                let value = u16::try_from(value).ok()?;
                Some((value, value))
            }
        }
    }
}

/// The number behind a letter in a modifier: 256 for `n` in `m64n256k16`. Letter 0 finds the first number.
fn number_after(text: &str, letter: u8) -> Option<u16> {
    let bytes = text.as_bytes();
    let start = (0..bytes.len()).find(|&at| {
        bytes[at].is_ascii_digit()
            && (at == 0 || !bytes[at - 1].is_ascii_digit())
            && (letter == 0 || (at > 0 && bytes[at - 1] == letter))
    })?;
    let digits = text[start..]
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len() - start);
    text[start..start + digits].parse().ok()
}
