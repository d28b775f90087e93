//! Writes the rows as Rust.

use crate::forms::{Form, Place};
use crate::place::{Field, Kind};
use crate::rows::{Operation, constant_name};
use crate::slots::Width;
use crate::text::{Part, Shown};
use std::collections::BTreeSet;
use std::fmt::Write;

pub fn rust(operations: &[Operation]) -> String {
    let mut out = String::new();
    out.push_str("/// Every row, by [`Op`] index.\n");
    let _ = writeln!(
        out,
        "pub static OPERATIONS: [Operation; {}] = [",
        operations.len()
    );
    for operation in operations {
        emit_operation(&mut out, operation);
    }
    out.push_str("];\n\n");
    out.push_str("impl Op {\n");
    for (index, operation) in operations.iter().enumerate() {
        let _ = writeln!(
            out,
            "    /// `{}`, the row at {}.\n    pub const {}: Op = Op({index});",
            operation.name,
            operation.at,
            constant_name(&operation.name)
        );
    }
    out.push_str("}\n\n");
    emit_index(&mut out, operations);
    emit_mnemonics(&mut out, operations);
    emit_words(&mut out, operations);
    out
}

fn emit_operation(out: &mut String, operation: &Operation) {
    let Some(Part::Literal(first)) = operation.parts.first() else {
        unreachable!("rows::text refuses a text without a mnemonic");
    };
    let mnemonic = first.split('.').next().unwrap_or_default();
    let _ = writeln!(
        out,
        "Operation {{ name: {:?}, mnemonic: Mnemonic::{mnemonic},",
        operation.name
    );
    out.push_str("  slots: &[\n");
    for slot in &operation.slots {
        let width = match &slot.width {
            Width::Fixed(width) => format!("Width::Fixed({width})"),
            Width::Rules(rules) => {
                let rules: Vec<String> = rules
                    .iter()
                    .map(|(registers, when)| {
                        format!("WidthRule {{ registers: {registers}, when: &{when:?} }}")
                    })
                    .collect();
                format!("Width::Rules(&[{}])", rules.join(", "))
            }
        };
        let default = slot
            .default
            .as_ref()
            .map_or("None".to_owned(), |default| format!("Some({default})"));
        let _ = writeln!(
            out,
            "    Slot {{ name: {:?}, access: Access::{}, width: {width}, default: {default}, selects: &{:?} }},",
            slot.name, slot.access, slot.selects
        );
    }
    let slots_that = |access: &[&str]| {
        let bits = operation.slots.iter().enumerate();
        bits.filter(|(_, slot)| access.contains(&slot.access))
            .fold(0_u16, |set, (index, _)| set | 1 << index)
    };
    let _ = writeln!(
        out,
        "  ],\n  read: {:#x}, written: {:#x},\n  modifiers: &[",
        slots_that(&["Read", "ReadWrite"]),
        slots_that(&["Write", "ReadWrite"])
    );
    for modifier in &operation.modifiers {
        let values: Vec<String> = modifier
            .values
            .iter()
            .map(|(value, name, printed)| {
                format!("ModifierValue {{ value: {value}, name: {name:?}, printed: {printed} }}")
            })
            .collect();
        let _ = writeln!(
            out,
            "    Modifier {{ name: {:?}, field: {}, shift: {}, values: &[{}] }},",
            modifier.name,
            modifier.field.rust(),
            modifier.shift,
            values.join(", ")
        );
    }
    let effects = if operation.effects.is_empty() {
        "Effects::empty()".to_owned()
    } else {
        let names: Vec<String> = operation
            .effects
            .iter()
            .map(|name| format!("Effects::{name}.bits()"))
            .collect();
        format!("Effects::from_bits_retain({})", names.join(" | "))
    };
    let memory: Vec<String> = operation
        .memory
        .iter()
        .map(|(space, reads, writes, atomic)| {
            format!("MemoryEffect {{ space: Space::{space}, reads: {reads}, writes: {writes}, atomic: {atomic} }}")
        })
        .collect();
    let implicit: Vec<String> = operation
        .implicit
        .iter()
        .map(|(access, register, count)| {
            format!("Implicit {{ access: Access::{access}, register: {register}, count: {count} }}")
        })
        .collect();
    let _ = writeln!(
        out,
        "  ],\n  effects: {effects},\n  memory: &[{}],\n  implicit: &[{}],\n  guard: GuardRule::{},\n  forms: &[",
        memory.join(", "),
        implicit.join(", "),
        operation.guard
    );
    for form in &operation.forms {
        emit_form(out, form, operation);
    }
    let parts: Vec<String> = operation
        .parts
        .iter()
        .map(|part| match part {
            Part::Literal(text) => format!("MnemonicPart::Literal({text:?})"),
            Part::Modifier(index) => format!("MnemonicPart::Modifier({index})"),
            Part::Alias => "MnemonicPart::Alias".to_owned(),
        })
        .collect();
    let items: Vec<String> = operation
        .items
        .iter()
        .map(|item| {
            let shown = match &item.shown {
                Shown::Slot(slot) => format!("Shown::Slot({slot})"),
                Shown::Literal(text) => format!("Shown::Literal({text:?})"),
                Shown::Modifier(index) => format!("Shown::Modifier({index})"),
            };
            format!(
                "TextItem {{ shown: {shown}, omission: Omission::{}, after_space: {}, suffixes: &{:?} }}",
                item.omission, item.after_space, item.suffixes
            )
        })
        .collect();
    let aliases: Vec<String> = operation
        .aliases
        .iter()
        .map(|(text, conditions)| {
            let conditions: Vec<String> = conditions
                .iter()
                .map(|condition| alias_condition(condition, operation))
                .collect();
            format!(
                "Alias {{ text: {text:?}, when: &[{}] }}",
                conditions.join(", ")
            )
        })
        .collect();
    let _ = writeln!(
        out,
        "  ],\n  mnemonic_parts: &[{}],\n  items: &[{}],\n  aliases: &[{}],\n}},",
        parts.join(", "),
        items.join(", "),
        aliases.join(", ")
    );
}

/// `a=RZ`, `b=0x1`, `b=pow2`, `c=:R`, `c=:imm`, `c=:const`, `c=!uniform`. A condition that is none of these does not compile.
fn alias_condition(condition: &str, operation: &Operation) -> String {
    let (name, value) = condition.split_once('=').unwrap_or((condition, ""));
    let slot = operation
        .slots
        .iter()
        .position(|slot| slot.name == name)
        .map_or("no_such_slot_in_an_alias".to_owned(), |slot| {
            slot.to_string()
        });
    match value {
        "pow2" => format!("AliasCondition::PowerOfTwo({slot})"),
        ":imm" => format!("AliasCondition::AnyImmediate({slot})"),
        ":const" => format!("AliasCondition::AnyConstant({slot})"),
        "!uniform" => format!("AliasCondition::NotUniform({slot})"),
        "RZ" | "URZ" | "PT" | "UPT" => {
            format!("AliasCondition::Register({slot}, Register::{value})")
        }
        value => match value.strip_prefix(':') {
            Some(class) => format!("AliasCondition::Class({slot}, RegisterClass::{class})"),
            None => format!("AliasCondition::Immediate({slot}, {value})"),
        },
    }
}

fn emit_form(out: &mut String, form: &Form, operation: &Operation) {
    let (mods_mask, mods_value) = fixed_modifiers(form, operation);
    let _ = writeln!(
        out,
        "    Form {{ opcode: {:#05x}, targets: TargetSet({:#x}), fixed_mask: {:#034x}, fixed_value: {:#034x}, mods_mask: {mods_mask:#x}, mods_value: {mods_value:#x}, shapes: {:#x}, places: &[",
        form.opcode,
        form.targets,
        form.fixed_mask,
        form.fixed_value,
        shapes(form)
    );
    for place in &form.places {
        emit_place(out, place, operation);
    }
    out.push_str("    ] },\n");
}

/// The bits of packed modifiers that a form fixes, and their values.
fn fixed_modifiers(form: &Form, operation: &Operation) -> (u64, u64) {
    let (mut mask, mut value) = (0, 0);
    for modifier in &operation.modifiers {
        for (index, bit) in modifier.field.positions().enumerate() {
            let at = modifier.shift + index as u32;
            mask |= ((form.fixed_mask >> bit & 1) as u64) << at;
            value |= (((form.fixed_mask & form.fixed_value) >> bit & 1) as u64) << at;
        }
    }
    (mask, value)
}

/// The shapes of a form's places; the numbers are those of `Operand::shape`.
fn shapes(form: &Form) -> u64 {
    const CLASSES: [&str; 5] = ["R", "P", "UR", "UP", "B"];
    form.places.iter().rev().fold(0, |shapes, place| {
        let shape = match &place.kind {
            Kind::Register { class, .. } => CLASSES
                .iter()
                .position(|name| name == class)
                .expect("a register class"),
            Kind::Immediate { .. } => 5,
            Kind::Constant { handle: None, .. } => 6,
            Kind::Constant { .. } => 7,
            Kind::Address { .. } => 8,
            Kind::Descriptor(..) => 9,
            Kind::Target { .. } => 10,
            Kind::Special(_) => 11,
        };
        shapes << 4 | shape as u64
    })
}

fn optional(field: Option<&Field>) -> String {
    field.map_or("None".to_owned(), |field| format!("Some({})", field.rust()))
}

fn emit_place(out: &mut String, place: &Place, operation: &Operation) {
    let kind = match &place.kind {
        Kind::Register {
            class,
            field,
            complemented,
        } => format!(
            "PlaceKind::Register {{ class: RegisterClass::{class}, field: {}, complemented: {complemented} }}",
            field.rust()
        ),
        Kind::Immediate { field, format } => format!(
            "PlaceKind::Immediate {{ field: {}, format: ImmediateFormat::{format} }}",
            field.rust()
        ),
        Kind::Constant {
            bank,
            handle,
            index,
            offset,
            signed,
            scale,
            spaced,
        } => {
            let index = index.as_ref().map_or("None".to_owned(), |(class, field)| {
                format!("Some((RegisterClass::{class}, {}))", field.rust())
            });
            format!(
                "PlaceKind::Constant(ConstantPlace {{ bank: {}, handle: {}, index: {index}, offset: {}, signed: {signed}, scale: {scale}, spaced: {spaced} }})",
                bank.rust(),
                optional(handle.as_ref()),
                offset.rust()
            )
        }
        Kind::Address {
            base,
            uniform,
            uniform_width,
            hide_urz,
            descriptor,
            tied,
            offset,
            signed_alone,
        } => {
            let base = base.as_ref().map_or("None".to_owned(), |base| {
                let scale = base.scale.as_ref().map_or("None".to_owned(), |name| {
                    let index = operation
                        .modifiers
                        .iter()
                        .position(|modifier| &modifier.name == name)
                        .map_or("no_such_modifier_in_an_address".to_owned(), |index| {
                            index.to_string()
                        });
                    format!("Some({index})")
                });
                format!(
                    "Some(BasePlace {{ class: RegisterClass::{}, field: {}, kind: BaseKind::{}, width: {}, scale: {scale} }})",
                    base.class,
                    base.field.rust(),
                    base.kind,
                    base.width
                )
            });
            format!(
                "PlaceKind::Address(AddressPlace {{ base: {base}, uniform: {}, descriptor: {}, tied: {tied}, offset: {}, uniform_width: {uniform_width}, hide_urz: {hide_urz}, signed_alone: {signed_alone} }})",
                optional(uniform.as_ref()),
                optional(descriptor.as_ref()),
                offset.rust()
            )
        }
        Kind::Descriptor(field, skip) => format!(
            "PlaceKind::Descriptor {{ field: {}, skip: {skip} }}",
            field.rust()
        ),
        Kind::Target {
            field,
            scale,
            relative,
            absolute,
        } => format!(
            "PlaceKind::Target {{ field: {}, scale: {scale}, relative: {relative}, absolute: {absolute} }}",
            field.rust()
        ),
        Kind::Special(field) => format!("PlaceKind::Special {{ field: {} }}", field.rust()),
    };
    let bit = |bit: Option<u8>| bit.map_or("Bit::NONE".to_owned(), |bit| format!("Bit({bit})"));
    let _ = writeln!(
        out,
        "      Place {{ kind: {kind}, negate: {}, absolute: {}, invert: {}, reuse: {}, select: {}, named: {} }},",
        bit(place.negate),
        bit(place.absolute),
        bit(place.invert),
        bit(place.reuse),
        place.select.rust(),
        place.named
    );
}

/// The rows and forms of each 12-bit opcode, the ones with more fixed bits first.
fn emit_index(out: &mut String, operations: &[Operation]) {
    let mut by_opcode: Vec<Vec<(u32, usize, usize)>> = vec![Vec::new(); 4096];
    for (op, operation) in operations.iter().enumerate() {
        for (form, description) in operation.forms.iter().enumerate() {
            by_opcode[usize::from(description.opcode)].push((
                128 - description.fixed_mask.count_ones(),
                op,
                form,
            ));
        }
    }
    let mut candidates = Vec::new();
    let mut index = Vec::new();
    for forms in &mut by_opcode {
        forms.sort_unstable();
        index.push((candidates.len(), forms.len()));
        candidates.extend(forms.iter().map(|(_, op, form)| (*op, *form)));
    }
    let _ = writeln!(
        out,
        "/// Row and form indices, grouped by opcode.\npub(crate) static CANDIDATES: [(u16, u8); {}] = {candidates:?};",
        candidates.len()
    );
    let _ = writeln!(
        out,
        "/// Where each opcode's group starts in [`CANDIDATES`], and its length.\npub(crate) static OPCODES: [(u16, u8); 4096] = {index:?};"
    );
}

/// The mnemonics as an enum, and rows by mnemonic, sorted, for the parser.
fn emit_mnemonics(out: &mut String, operations: &[Operation]) {
    let mut names: Vec<(String, usize)> = operations
        .iter()
        .enumerate()
        .filter_map(|(op, operation)| match operation.parts.first() {
            Some(Part::Literal(text)) => {
                Some((text.split('.').next().unwrap_or_default().to_owned(), op))
            }
            _ => None,
        })
        .collect();
    names.sort();
    let _ = writeln!(
        out,
        "/// Row indices by mnemonic, sorted.\npub(crate) static MNEMONICS: [(&str, u16); {}] = {names:?};",
        names.len()
    );
    let mnemonics: BTreeSet<&str> = names.iter().map(|(name, _)| &**name).collect();
    out.push_str("/// The first component of what an operation is printed as: what a family of rows shares.\n");
    out.push_str("#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]\n");
    out.push_str("#[allow(non_camel_case_types)] // As the machine's language spells them.\n");
    out.push_str("pub enum Mnemonic {\n");
    for name in &mnemonics {
        let _ = writeln!(out, "    /// `{name}`.\n    {name},");
    }
    out.push_str("}\n\nimpl Mnemonic {\n    /// As it is printed.\n    #[must_use]\n");
    out.push_str("    pub const fn name(self) -> &'static str {\n        match self {\n");
    for name in &mnemonics {
        let _ = writeln!(out, "            Mnemonic::{name} => {name:?},");
    }
    out.push_str("        }\n    }\n}\n\n");
}

/// Constants for the names of modifiers, of their values and of operand slots, so that code cannot name one that no row has.
fn emit_words(out: &mut String, operations: &[Operation]) {
    let modifiers = || operations.iter().flat_map(|row| &row.modifiers);
    let names: BTreeSet<&str> = modifiers().map(|modifier| &*modifier.name).collect();
    let values: BTreeSet<&str> = modifiers()
        .flat_map(|modifier| modifier.values.iter().map(|(_, name, _)| &**name))
        .collect();
    let slots: BTreeSet<&str> = operations
        .iter()
        .flat_map(|row| row.slots.iter().map(|slot| &*slot.name))
        .collect();
    out.push_str(
        "/// The names of operand slots.\npub mod slot_names {\n    use crate::table::SlotName;\n",
    );
    for name in slots {
        let constant = constant_name(name);
        let _ = writeln!(
            out,
            "    /// `{name}`.\n    pub const {constant}: SlotName = SlotName({name:?});"
        );
    }
    out.push_str("}\n\n");
    out.push_str("/// The names of modifiers.\npub mod modifier_names {\n    use crate::modifier::ModifierName;\n");
    for name in names {
        let constant = constant_name(name);
        let _ = writeln!(
            out,
            "    /// `{name}`.\n    pub const {constant}: ModifierName = ModifierName({name:?});"
        );
    }
    out.push_str("}\n\n/// The names of values of modifiers.\npub mod modifier_values {\n    use crate::modifier::ValueName;\n");
    for value in &values {
        let mut constant = constant_name(value);
        // Values in lower case are never printed.
        if *value != constant && values.contains(&*constant) {
            constant = format!("UNSAID_{constant}");
        }
        if constant.starts_with(|c: char| c.is_ascii_digit()) {
            constant.insert(0, '_');
        }
        let _ = writeln!(
            out,
            "    /// `{value}`.\n    pub const {constant}: ValueName = ValueName({value:?});"
        );
    }
    out.push_str("}\n");
}
