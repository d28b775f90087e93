//! `docs/sass-coverage.md`: which operations and forms ptxas was seen to emit, how often, and what is left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use orias_sass::Op;

use super::random::{LEFT_OUT, OPCODES_LEFT_OUT};
use super::report::Classes;
use crate::oracle;

/// What a run saw.
pub struct Seen<'a> {
    /// Listings compared.
    pub listings: usize,
    /// Instructions compared.
    pub instructions: usize,
    /// How often each form of each operation was seen.
    pub forms: &'a BTreeMap<(Op, u8), usize>,
    /// What could not be decoded.
    pub undecoded: &'a Classes,
}

/// Writes the page.
pub fn write(seen: &Seen<'_>) -> Result<(), String> {
    let path = oracle::repository().join("docs/sass-coverage.md");
    std::fs::write(&path, page(seen)).map_err(|error| format!("{}: {error}", path.display()))
}

fn page(seen: &Seen<'_>) -> String {
    let mut operations: BTreeMap<Op, usize> = BTreeMap::new();
    for ((op, _), count) in seen.forms {
        *operations.entry(*op).or_default() += count;
    }
    let forms: usize = Op::all().map(|op| op.row().forms.len()).sum();
    let mut out = String::from("# What the instruction tables cover\n\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "Written by `cargo xtask conformance sass --book`, over the corpus and the generated set (`cargo xtask exercise --rows --programs 100`), assembled by\n\
         ptxas 13.0.88 for sm_90 and sm_90a: {} listings, {} instructions. Of {} operations in the tables {} were seen, of {forms} forms {}.\n",
        seen.listings,
        seen.instructions,
        Op::COUNT,
        operations.len(),
        seen.forms.len(),
    );
    out.push_str("## What ptxas emitted and the tables do not have\n\n");
    if seen.undecoded.0.is_empty() {
        out.push_str("Nothing.\n\n");
    }
    for (name, class) in &seen.undecoded.0 {
        let _ = writeln!(out, "- {name}: {} times", class.count);
    }
    out.push_str(
        "## Left out by name\n\n\
         nvdisasm prints more than ptxas makes. `cargo xtask conformance sass --random` tries 5,000 words around every opcode of the tables\n\
         and 48 around every other; it fails on any disagreement that is not one of these:\n\n\
         - bits that no operand uses, which nvdisasm ignores, and modifier values that it prints like others: we refuse both and name the bits;\n\
         - values that nvdisasm prints as `???` or `INVALID`: we refuse them;\n",
    );
    for row in LEFT_OUT {
        let _ = writeln!(out, "- {}: {};", row.what, row.why);
    }
    for row in OPCODES_LEFT_OUT {
        let _ = writeln!(
            out,
            "- opcodes of {} that are not in the tables: {};",
            row.mnemonics.join(", "),
            row.why
        );
    }
    out.push_str(
        "\n## Operations and forms\n\n\
         Each form by its opcode, with the number of instructions seen. Several forms may share an opcode and differ in other bits.\n\n\
         | operation | seen | forms |\n| --- | --- | --- |\n",
    );
    for op in Op::all() {
        let shown: Vec<String> = op
            .row()
            .forms
            .iter()
            .enumerate()
            .map(|(index, form)| {
                let count = seen.forms.get(&(op, index as u8)).copied();
                format!("{:03x}: {}", form.opcode, count.unwrap_or_default())
            })
            .collect();
        let count = operations.get(&op).copied().unwrap_or_default();
        let _ = writeln!(out, "| `{op}` | {count} | {} |", shown.join(", "));
    }
    out
}
