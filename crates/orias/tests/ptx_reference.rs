//! The reference page in the book is the one the rows give. `BLESS=1` writes it.

use orias_generate::synth;
use orias_ptx::grammar::{
    Atom, Condition, FAMILIES, Form, Gate, GateScope, OperandSpec, ROWS, Row, Rule, Slot,
};
use orias_ptx::{NEWEST_VERSION, Options};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "# PTX instruction reference

This page is written from the rows of `crates/ptx/tables`; `BLESS=1 cargo test -p orias --test ptx_reference` renews it.
[The PTX instruction tables](ptx-grammar.md) explains the notation of the forms.

The columns say what Orias does with a form:

- **exists**: the PTX version and target from which it is legal; nothing means everywhere. Alternatives and combinations
  with limits of their own follow the form.
- **read**: it is parsed and printed back. A test makes an instruction from each row and reads it.
- **checked**: what is looked at beyond the modifiers, their combinations, versions and targets: operand *types*, values of
  *constants*, state *spaces* of addresses, *vector* lengths, and rules by name.
- **compiled**: it becomes machine code for sm_90a. Where only some of the tried alternatives do, how many; the others are refused
  with a message that names them. Alternatives that ptxas refuses for sm_90a are not tried. A dash stands for forms that sm_90a does not
  have.

";

#[test]
fn the_reference_page_is_what_the_rows_give() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ptx-reference.md");
    let page = page();
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).expect("the book can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page,
        "docs/ptx-reference.md is stale; run BLESS=1 cargo test -p orias --test ptx_reference"
    );
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let _ = writeln!(
        page,
        "| family | instructions | forms |\n| --- | --: | --: |"
    );
    let mut every = BTreeSet::new();
    for &(file, title) in FAMILIES {
        let rows: Vec<&Row> = ROWS.iter().filter(|row| row.file == file).collect();
        let ops: BTreeSet<&str> = rows.iter().map(|row| row.op.name()).collect();
        let _ = writeln!(
            page,
            "| [{title}](#{}) | {} | {} |",
            anchor(title),
            ops.len(),
            rows.len()
        );
        every.extend(ops);
    }
    let _ = writeln!(page, "| all | {} | {} |", every.len(), ROWS.len());
    for &(file, title) in FAMILIES {
        let _ = writeln!(page, "\n## {title}\n");
        page.push_str(
            "| form | exists | read | checked | compiled |\n| --- | --- | --- | --- | --- |\n",
        );
        let mut rows: Vec<&'static Row> = ROWS.iter().filter(|row| row.file == file).collect();
        rows.sort_by_key(|row| row.line);
        for row in rows {
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {} |",
                form(row),
                gates(row.since),
                if is_read(row) { "yes" } else { "no" },
                checked(row),
                compiled(row)
            );
        }
    }
    page
}

/// The heading's anchor, as GitHub makes it.
fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Code in a table's cell, where a bar needs a backslash.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn form(row: &Row) -> String {
    let mut cell = code(row.syntax);
    for slot in row.slots.iter().filter(|slot| !slot.literal) {
        let _ = write!(cell, "<br>{}", alternatives(slot));
    }
    for rule in row.rules {
        let _ = write!(cell, "<br>{}", rule_text(row, rule));
    }
    cell
}

fn alternatives(slot: &Slot) -> String {
    const SHOWN: usize = 24;
    let texts: Vec<String> = slot
        .alternatives
        .iter()
        .map(|alternative| match alternative.since {
            [] => alternative.modifier.to_string(),
            since => format!("{} ({})", alternative.modifier, gates(since)),
        })
        .collect();
    let list = if texts.len() > SHOWN {
        format!(
            "{} … {}: {} of them",
            texts[..3].join(" "),
            texts[texts.len() - 1],
            texts.len()
        )
    } else {
        texts.join(" ")
    };
    format!(".{} = {list}", slot.name)
}

fn rule_text(row: &Row, rule: &Rule) -> String {
    match rule {
        Rule::Needs(a, b) => format!("{} needs {}", condition(row, a), condition(row, b)),
        Rule::Forbids(a, b) => format!("{} not with {}", condition(row, a), condition(row, b)),
        Rule::Since(a, since) => format!("{} from {}", condition(row, a), gates(since)),
        Rule::Removed(a, gate) => match condition(row, a) {
            text if text.is_empty() => format!("gone from {}", gates(&[*gate])),
            text => format!("{text} gone from {}", gates(&[*gate])),
        },
    }
}

fn condition(row: &Row, condition: &Condition) -> String {
    condition
        .iter()
        .map(|all| {
            all.iter()
                .map(|atom| atom_text(row, atom))
                .collect::<Vec<_>>()
                .join(" and ")
        })
        .collect::<Vec<_>>()
        .join(", or ")
}

fn atom_text(row: &Row, atom: &Atom) -> String {
    let slot = &row.slots[usize::from(atom.slot)];
    let values: Vec<String> = atom.values.iter().map(ToString::to_string).collect();
    match (atom.not, values.as_slice()) {
        (false, []) => format!(".{}", slot.name),
        (true, []) => format!("no .{}", slot.name),
        (false, _) => values.join("/"),
        (true, _) => format!("not {}", values.join("/")),
    }
}

fn gates(gates: &[Gate]) -> String {
    gates
        .iter()
        .map(|gate| {
            let mut parts = Vec::new();
            if gate.ptx > 0 {
                parts.push(format!("PTX {}.{}", gate.ptx / 10, gate.ptx % 10));
            }
            if gate.sm > 0 {
                let scope = match gate.scope {
                    GateScope::Onwards => "",
                    GateScope::Architecture => "a",
                    GateScope::Family => "f",
                };
                parts.push(format!("sm_{}{scope}", gate.sm));
            }
            parts.join(" ")
        })
        .collect::<Vec<_>>()
        .join(" or ")
}

/// Whether an instruction made from the row is read without a message, on the first target that has it.
fn is_read(row: &'static Row) -> bool {
    for version in [NEWEST_VERSION, 60] {
        for target in synth::targets(row) {
            if target.since().is_none_or(|since| since > version) {
                continue;
            }
            if let Some(choice) = synth::choices(row, version, target, 1).first() {
                let text = synth::sample(choice, version, target).text();
                let (module, mut diagnostics) = orias_ptx::parse(text.as_bytes());
                diagnostics.append(orias_ptx::check(&module, &Options::default()));
                return !diagnostics.has_errors();
            }
        }
    }
    false
}

/// How many instructions made from the row are compiled for sm_90a.
fn compiled(row: &'static Row) -> String {
    const TRIED: usize = 6;
    let target = orias_ptx::target::Target::from_name("sm_90a").expect("a target");
    let options = orias::Options {
        target: orias::Target::parse("sm_90a").expect("a target"),
        ..orias::Options::default()
    };
    let mut tried = 0;
    let mut done = 0;
    for choice in synth::choices(row, NEWEST_VERSION, target, TRIED) {
        let text = synth::sample(&choice, NEWEST_VERSION, target).text();
        let source = orias::Source {
            name: "row.ptx",
            text: text.as_bytes(),
        };
        let (module, _) = orias_ptx::parse(text.as_bytes());
        let real = Options::for_architecture("sm_90a").expect("a target");
        if orias_ptx::check(&module, &real).has_errors() {
            continue;
        }
        tried += 1;
        done += usize::from(orias::compile(&source, &options).is_ok());
    }
    match (done, tried) {
        (_, 0) => "–".to_owned(),
        (0, _) => "no".to_owned(),
        _ if done == tried => "yes".to_owned(),
        _ => format!("{done} of {tried}"),
    }
}

fn checked(row: &Row) -> String {
    let mut found = BTreeSet::new();
    for shape in row.shapes {
        for operand in shape.operands {
            collect(operand, &mut found);
        }
    }
    let mut words: Vec<String> = found.into_iter().map(str::to_owned).collect();
    words.extend(row.checks.iter().map(|check| code(check.name())));
    words.join(", ")
}

fn collect(operand: &OperandSpec, found: &mut BTreeSet<&'static str>) {
    let mut value = |value: &orias_ptx::grammar::ValueForm| {
        found.insert("types");
        if value.range.is_some() || !value.one_of.is_empty() {
            found.insert("constants");
        }
    };
    match &operand.form {
        Form::Value(it) => value(it),
        Form::Vector { element, .. } => {
            value(element);
            found.insert("vectors");
        }
        Form::Bracket(inner) => inner.iter().for_each(|operand| collect(operand, found)),
        Form::Pair { both, .. } => both.iter().for_each(|operand| collect(operand, found)),
        Form::Address(_) => {
            found.insert("spaces");
        }
        Form::Texture | Form::Sampler | Form::Surface => {
            found.insert("handles");
        }
        Form::Label | Form::Function | Form::TargetList => {
            found.insert("names");
        }
        Form::CallReturn | Form::CallArguments => {
            found.insert("signatures");
        }
    }
}
