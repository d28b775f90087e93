//! Compiles samples of the instruction tables and the special registers for sm_90a, and lists what is refused.
//!
//! `cargo run --release --example refused_forms -- [MOST] [PREFIX...]`: at most so many choices of modifiers for each row
//! (64), only instructions whose name starts with one of the prefixes. The page docs/ptx-reference.md says the same of six
//! choices for each row.

use orias_generate::synth;
use orias_ptx::NEWEST_VERSION;
use orias_ptx::grammar::ROWS;
use orias_ptx::special::SPECIAL_REGISTERS;
use orias_ptx::target::Target;

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let most = arguments.peek().and_then(|text| text.parse().ok());
    if most.is_some() {
        arguments.next();
    }
    let most: usize = most.unwrap_or(64);
    let prefixes: Vec<String> = arguments.collect();
    let target = Target::from_name("sm_90a").expect("a target");
    let (mut tried, mut refused) = (0, 0);
    let mut try_out = |name: &str, text: &str| {
        tried += 1;
        if let Some(reason) = refusal(text) {
            refused += 1;
            let line = text
                .lines()
                .find(|line| line.contains(name))
                .unwrap_or(name);
            println!("{}: {reason}", line.trim());
        }
    };
    for row in ROWS {
        let name = row.op.name();
        if !prefixes.is_empty()
            && !prefixes
                .iter()
                .any(|prefix| name.starts_with(prefix.as_str()))
        {
            continue;
        }
        for choice in synth::choices(row, NEWEST_VERSION, target, most) {
            try_out(name, &synth::sample(&choice, NEWEST_VERSION, target).text());
        }
    }
    if prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.starts_with('%')) {
        for text in special_registers() {
            try_out("%", &text);
        }
    }
    println!("{refused} of {tried} refused");
}

/// A module for each special register, each of its numbers and components.
fn special_registers() -> Vec<String> {
    let mut modules = Vec::new();
    for row in SPECIAL_REGISTERS {
        let names: Vec<String> = match (row.count, row.vector) {
            (0, true) => ["x", "y", "z", "w"]
                .map(|component| format!("{}.{component}", row.name))
                .into(),
            (0, false) => vec![row.name.to_owned()],
            (count, _) => (0..count)
                .map(|number| format!("{}{number}{}", row.name, row.tail))
                .collect(),
        };
        for name in names {
            let ty = row.ty.name();
            modules.push(format!(
                ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k()\n{{\n.reg .{ty} x;\nmov.{ty} x, {name};\nret;\n}}\n"
            ));
        }
    }
    modules
}

/// What the compiler says to a module it does not compile.
fn refusal(text: &str) -> Option<String> {
    let options = orias::Options {
        target: orias::Target::parse("sm_90a")?,
        ..orias::Options::default()
    };
    let source = orias::Source {
        name: "form.ptx",
        text: text.as_bytes(),
    };
    let errors = orias::compile(&source, &options).err()?;
    let first = errors.iter().next();
    Some(first.map_or_else(String::new, ToString::to_string))
}
