//! Writes the rows as Rust: the enums `Op`, `Modifier` and `NamedCheck`, the names of slots and operands, and the static `ROWS`.

use crate::checks::CHECKS;
use crate::notation::{Alternative, Condition, Gate, Row, Rule, Tables};
use crate::operands::{Form, Operand, Value};
use crate::types::Type;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The Rust text for all tables.
pub fn rust(tables: &Tables) -> Result<String, Vec<String>> {
    let mut modifiers: BTreeMap<String, String> = BTreeMap::new();
    let mut ops: BTreeMap<String, String> = BTreeMap::new();
    for ty in Type::ALL {
        modifiers.insert(ty.name().to_owned(), identifier(ty.name()));
    }
    for row in &tables.rows {
        ops.insert(row.op.clone(), identifier(&row.op));
        for slot in &row.slots {
            for alternative in &slot.alternatives {
                modifiers.insert(
                    alternative.modifier.clone(),
                    identifier(&alternative.modifier),
                );
            }
        }
        for shape in &row.shapes {
            for operand in &shape.operands {
                collect_suffixes(operand, &mut modifiers);
            }
        }
    }
    let mut errors = Vec::new();
    for names in [&modifiers, &ops] {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, ident) in names {
            if let Some(other) = seen.insert(ident, name) {
                errors.push(format!(
                    "'{other}' and '{name}' would both be called {ident}"
                ));
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut out = String::new();
    write_enum(
        &mut out,
        "Op",
        "An instruction: the fixed first components of an opcode.",
        &ops,
    );
    write_enum(
        &mut out,
        "Modifier",
        "A modifier of an instruction, types included.",
        &modifiers,
    );
    write_type_of(&mut out);
    let checks: BTreeMap<String, String> = CHECKS
        .iter()
        .map(|(name, _)| ((*name).to_owned(), identifier(name)))
        .collect();
    write_enum(
        &mut out,
        "NamedCheck",
        "A check that rows ask for by name.",
        &checks,
    );
    let slots = tables.rows.iter().flat_map(|row| &row.slots);
    let slots = slots.filter(|slot| !slot.literal).map(|slot| &*slot.name);
    write_names(&mut out, "slot_names", "SlotName", slots.collect());
    let mut operands = BTreeSet::new();
    for shape in tables.rows.iter().flat_map(|row| &row.shapes) {
        for operand in &shape.operands {
            collect_names(operand, &mut operands);
        }
    }
    write_names(&mut out, "operand_names", "OperandName", operands);
    out.push_str("/// The families: table file and title, in the order of the files.\n");
    let _ = writeln!(
        out,
        "pub static FAMILIES: &[(&str, &str)] = &{:?};",
        tables.families
    );
    let mut rows: Vec<&Row> = tables.rows.iter().collect();
    rows.sort_by(|a, b| a.op.cmp(&b.op));
    out.push_str("/// Every row, sorted by instruction and then in the order of the tables.\n");
    out.push_str("pub static ROWS: &[Row] = &[\n");
    for row in rows {
        write_row(&mut out, row);
    }
    out.push_str("];\n");
    Ok(out)
}

fn collect_suffixes(operand: &Operand, modifiers: &mut BTreeMap<String, String>) {
    for (_, suffix) in &operand.suffixes {
        for modifier in suffix {
            modifiers.insert(modifier.clone(), identifier(modifier));
        }
    }
    match &operand.form {
        Form::Bracket(inner) => inner
            .iter()
            .for_each(|operand| collect_suffixes(operand, modifiers)),
        Form::Pair(both, _) => both
            .iter()
            .for_each(|operand| collect_suffixes(operand, modifiers)),
        _ => {}
    }
}

fn collect_names<'a>(operand: &'a Operand, names: &mut BTreeSet<&'a str>) {
    names.insert(&operand.name);
    match &operand.form {
        Form::Bracket(inner) => inner.iter().for_each(|inner| collect_names(inner, names)),
        Form::Pair(both, _) => both.iter().for_each(|inner| collect_names(inner, names)),
        _ => {}
    }
}

/// Constants for names, so that code cannot ask for one that no row has.
fn write_names(out: &mut String, module: &str, ty: &str, names: BTreeSet<&str>) {
    let _ = writeln!(
        out,
        "/// The names that rows have for what a [`{ty}`] names.\npub mod {module} {{\n    use super::{ty};"
    );
    for name in names {
        let letters = name.chars().map(|c| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_uppercase(),
            false => '_',
        });
        let constant: String = letters.collect();
        let _ = writeln!(
            out,
            "    /// `{name}`.\n    pub const {constant}: {ty} = {ty}({name:?});"
        );
    }
    out.push_str("}\n");
}

/// `shared::cta` → `SharedCta`, `1d` → `M1d`, `cp.async` → `CpAsync`.
fn identifier(name: &str) -> String {
    let mut ident = String::new();
    for part in name.split(['.', ':', '_']).filter(|part| !part.is_empty()) {
        if ident.ends_with(|c: char| c.is_ascii_digit())
            && part.starts_with(|c: char| c.is_ascii_digit())
        {
            ident.push('_');
        }
        let mut chars = part.chars();
        if let Some(first) = chars.next() {
            ident.push(first.to_ascii_uppercase());
            ident.push_str(chars.as_str());
        }
    }
    if ident.starts_with(|c: char| c.is_ascii_digit()) {
        ident.insert(0, 'M');
    }
    ident
}

fn write_enum(out: &mut String, name: &str, doc: &str, items: &BTreeMap<String, String>) {
    let _ = writeln!(
        out,
        "/// {doc}\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]\n#[repr(u16)]\n\
         #[allow(missing_docs, reason = \"each variant is what it is spelt like\")]\npub enum {name} {{"
    );
    for ident in items.values() {
        let _ = writeln!(out, "    {ident},");
    }
    let _ = writeln!(
        out,
        "}}\nimpl {name} {{\n    /// Every one, sorted by spelling.\n    pub const ALL: &'static [{name}] = &["
    );
    for ident in items.values() {
        let _ = writeln!(out, "        {name}::{ident},");
    }
    let _ = writeln!(
        out,
        "    ];\n    /// The spelling.\n    pub const fn name(self) -> &'static str {{\n        \
         const NAMES: &[&str] = &["
    );
    for text in items.keys() {
        let _ = writeln!(out, "            {text:?},");
    }
    let _ = writeln!(
        out,
        "        ];\n        NAMES[self as usize]\n    }}\n    /// The one of that spelling.\n    \
         pub fn from_name(name: &str) -> Option<{name}> {{\n        \
         {name}::ALL.binary_search_by(|it| it.name().cmp(name)).ok().map(|at| {name}::ALL[at])\n    }}\n}}"
    );
}

fn write_type_of(out: &mut String) {
    out.push_str(
        "impl Modifier {\n    /// The type the modifier names, if it names one.\n    \
         pub const fn as_type(self) -> Option<Type> {\n        match self {\n",
    );
    for ty in Type::ALL {
        let _ = writeln!(
            out,
            "            Modifier::{} => Some(Type::{}),",
            identifier(ty.name()),
            ty.ident()
        );
    }
    out.push_str("            _ => None,\n        }\n    }\n}\n");
}

fn write_row(out: &mut String, row: &Row) {
    let _ = writeln!(
        out,
        "Row {{ op: Op::{}, syntax: {:?}, file: {:?}, line: {}, slots: &[",
        identifier(&row.op),
        row.syntax,
        row.file,
        row.line
    );
    for slot in &row.slots {
        let _ = writeln!(
            out,
            "  Slot {{ name: {:?}, optional: {}, literal: {}, group: {}, alternatives: &[{}] }},",
            slot.name,
            slot.optional,
            slot.literal,
            slot.group,
            slot.alternatives
                .iter()
                .map(alternative)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    out.push_str("], shapes: &[\n");
    for shape in &row.shapes {
        let conditions: Vec<String> = shape
            .conditions
            .iter()
            .map(|(holds, text)| format!("({holds}, {})", condition(text)))
            .collect();
        let _ = writeln!(
            out,
            "  OperandList {{ conditions: &[{}], operands: {} }},",
            conditions.join(", "),
            operands(&shape.operands)
        );
    }
    out.push_str("], maps: &[\n");
    for map in &row.maps {
        let entries: Vec<String> = map
            .entries
            .iter()
            .map(|(modifier, value)| {
                let value = match (Type::from_name(value), value.parse::<u16>()) {
                    (Some(ty), _) => format!("MapValue::Type(Type::{})", ty.ident()),
                    (None, Ok(count)) => format!("MapValue::Count({count})"),
                    (None, Err(_)) => "MapValue::Count(0)".to_owned(),
                };
                format!("(Modifier::{}, {value})", identifier(modifier))
            })
            .collect();
        let _ = writeln!(
            out,
            "  Map {{ name: {:?}, slot: {}, entries: &[{}] }},",
            map.name,
            map.slot,
            entries.join(", ")
        );
    }
    out.push_str("], rules: &[\n");
    for rule in &row.rules {
        let text = match rule {
            Rule::Needs(a, b) => format!("Rule::Needs({}, {})", condition(a), condition(b)),
            Rule::Forbids(a, b) => format!("Rule::Forbids({}, {})", condition(a), condition(b)),
            Rule::Since(a, gates) => {
                format!("Rule::Since({}, {})", condition(a), gate_list(gates))
            }
            Rule::Removed(a, it) => format!("Rule::Removed({}, {})", condition(a), gate(it)),
        };
        let _ = writeln!(out, "  {text},");
    }
    let checks: Vec<String> = row
        .checks
        .iter()
        .map(|name| format!("NamedCheck::{}", identifier(name)))
        .collect();
    let _ = writeln!(
        out,
        "], since: {}, checks: &[{}] }},",
        gate_list(&row.since),
        checks.join(", ")
    );
}

fn alternative(it: &Alternative) -> String {
    format!(
        "Alternative {{ modifier: Modifier::{}, since: {} }}",
        identifier(&it.modifier),
        gate_list(&it.since)
    )
}

fn gate_list(gates: &[Gate]) -> String {
    let gates: Vec<String> = gates.iter().map(gate).collect();
    format!("&[{}]", gates.join(", "))
}

fn gate(gate: &Gate) -> String {
    let scope = match gate.scope {
        'a' => "Architecture",
        'f' => "Family",
        _ => "Onwards",
    };
    format!(
        "Gate {{ ptx: {}, sm: {}, scope: GateScope::{scope} }}",
        gate.ptx, gate.sm
    )
}

fn condition(condition: &Condition) -> String {
    let any: Vec<String> = condition
        .iter()
        .map(|all| {
            let atoms: Vec<String> = all
                .iter()
                .map(|atom| {
                    let values: Vec<String> = atom
                        .values
                        .iter()
                        .map(|value| format!("Modifier::{}", identifier(value)))
                        .collect();
                    format!(
                        "Atom {{ slot: {}, not: {}, values: &[{}] }}",
                        atom.slot,
                        atom.not,
                        values.join(", ")
                    )
                })
                .collect();
            format!("&[{}]", atoms.join(", "))
        })
        .collect();
    format!("&[{}]", any.join(", "))
}

fn operands(list: &[Operand]) -> String {
    let list: Vec<String> = list.iter().map(operand).collect();
    format!("&[{}]", list.join(", "))
}

fn operand(operand: &Operand) -> String {
    let form = match &operand.form {
        Form::Value(it) => format!("Form::Value({})", value(it)),
        Form::Vector(count, element) => format!(
            "Form::Vector {{ count: {count}, element: {} }}",
            value(element)
        ),
        Form::Bracket(inner) => format!("Form::Bracket({})", operands(inner)),
        Form::Pair(both, optional) => format!(
            "Form::Pair {{ both: {}, optional: {optional} }}",
            operands(both.as_slice())
        ),
        Form::Address(space) => format!("Form::Address({space})"),
        Form::Plain(variant) => format!("Form::{variant}"),
    };
    let suffixes: Vec<String> = operand
        .suffixes
        .iter()
        .map(|(optional, modifiers)| {
            let modifiers: Vec<String> = modifiers
                .iter()
                .map(|modifier| format!("Modifier::{}", identifier(modifier)))
                .collect();
            format!(
                "Suffix {{ optional: {optional}, modifiers: &[{}] }}",
                modifiers.join(", ")
            )
        })
        .collect();
    format!(
        "OperandSpec {{ name: {:?}, access: Access::{}, form: {form}, suffixes: &[{}] }}",
        operand.name,
        operand.access,
        suffixes.join(", ")
    )
}

fn value(value: &Value) -> String {
    format!(
        "ValueForm {{ ty: {}, register: {}, constant: {}, name: {}, special: {}, sink: {}, relaxed: {}, strict: {}, lenient: {}, not: {}, negate: {}, range: {:?}, step: {}, one_of: &{:?} }}",
        value.ty,
        value.register,
        value.constant,
        value.name,
        value.special,
        value.sink,
        value.relaxed,
        value.strict,
        value.lenient,
        value.not,
        value.negate,
        value.range,
        value.step,
        value.one_of
    )
}
