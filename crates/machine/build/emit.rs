//! Writes the tables as Rust.

use crate::issue::Rules;
use crate::latencies::{EdgeRecord, Latencies};
use crate::read::{ClassRow, Cycles, Group, Groups, Keeps, Line, Pattern};
use std::fmt::Write;

/// The plain numbers of a file: a field of the chip, its type, and that type's fields.
type Plain<'t> = (&'t str, &'t str, Vec<(String, String)>);

/// The tables of one chip.
pub fn chip(
    number: usize,
    classes: &[ClassRow<'_>],
    groups: &Groups<'_>,
    latencies: &Latencies<'_>,
    issue: &Rules<'_>,
    plain: &[Plain<'_>],
) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "static CHIP_{number}: Chip = Chip {{ number: {number}, caches: Caches::new(),"
    );
    for (name, kind, fields) in plain {
        let fields = fields.iter();
        let fields: Vec<String> = fields
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        let _ = writeln!(out, "{name}: {kind} {{ {} }},", fields.join(", "));
    }
    emit_issue(&mut out, issue);
    out.push_str("timing: timing::Tables { classes: &[\n");
    for row in classes {
        let _ = writeln!(
            out,
            "ClassRow {{ name: {:?}, completion: Completion::{}, reads_in_order: {}, settles: {}, settled: {}, texture: {}, unit: Unit::{}, keeps: {}, typical: {}, expected: {}, operations: &{:?} }},",
            row.name,
            row.completion,
            row.reads_in_order,
            row.settles,
            row.settled,
            row.texture,
            row.unit,
            keeps(&row.keeps),
            optional(row.typical.as_ref().map(cycles)),
            optional(row.expected.as_ref().map(cycles)),
            row.operations
        );
    }
    out.push_str("], groups: timing::groups::Groups {\n");
    for (name, list) in [("results", &groups.results), ("uses", &groups.uses)] {
        let _ = writeln!(out, "{name}: &[");
        list.iter().for_each(|group| emit_group(&mut out, group));
        out.push_str("],\n");
    }
    let lists = [
        ("result_lines", &groups.result_lines),
        ("use_lines", &groups.use_lines),
    ];
    for (name, list) in lists {
        let _ = writeln!(out, "{name}: &[");
        list.iter().for_each(|line| emit_line(&mut out, line));
        out.push_str("],\n");
    }
    out.push_str("}, latencies: timing::latencies::Latencies {\n");
    emit_latencies(&mut out, groups, latencies);
    out.push_str("} } };\n");
    out
}

fn keeps(keeps: &[Keeps]) -> String {
    let keeps = keeps.iter();
    let pairs: Vec<String> = keeps
        .map(|(unit, cycles)| format!("(Unit::{unit}, {cycles})"))
        .collect();
    format!("&[{}]", pairs.join(", "))
}

fn emit_issue(out: &mut String, rules: &Rules<'_>) {
    out.push_str("issue: issue::Rules { units: &[\n");
    for (unit, kept, operations) in &rules.units {
        let _ = writeln!(out, "(Unit::{unit}, {}, &{operations:?}),", keeps(kept));
    }
    let wide = rules.wide_matrix.as_ref();
    let wide = wide.map(|(columns, kept)| format!("({columns}, {})", keeps(kept)));
    let _ = writeln!(out, "], wide_matrix: {},", optional(wide));
    for (name, list) in [("stalls", &rules.stalls), ("extra", &rules.extra)] {
        let rows = list.iter();
        let rows: Vec<String> = rows
            .map(|(cycles, operations)| format!("({cycles}, &{operations:?} as &[_])"))
            .collect();
        let _ = writeln!(out, "{name}: &[{}],", rows.join(", "));
    }
    let rows = rules.read_to_write.iter();
    let rows: Vec<String> = rows
        .map(|(unit, cycles)| format!("(Unit::{unit}, {cycles})"))
        .collect();
    let _ = writeln!(out, "read_to_write: &[{}], tokens: &[", rows.join(", "));
    for row in &rules.tokens {
        let _ = writeln!(
            out,
            "issue::OrderTokenRow {{ token: OrderToken::{}, role: Role::{}, scopes: &{:?}, operations: &{:?} }},",
            row.token, row.role, row.scopes, row.operations
        );
    }
    let _ = writeln!(
        out,
        "], drains: &{:?}, no_waits: &{:?}, late_uniform: &{:?}, no_tokens: &{:?}, collective: &{:?} }},",
        rules.drains, rules.no_waits, rules.late_uniform, rules.no_tokens, rules.collective
    );
}

/// A machine for each target, to make code with and to judge it with. A target without one fails to compile, by name.
pub fn machines(chips: usize, targets: &[(String, usize)]) -> String {
    let mut out =
        format!("/// How many chips there are.\npub(crate) const CHIPS: usize = {chips};\n\n");
    for (name, table) in [("MAKING", "Safe"), ("JUDGING", "Mined")] {
        let _ = writeln!(out, "static {name}: [Machine; {}] = [", targets.len());
        for (target, chip) in targets {
            let _ = writeln!(
                out,
                "Machine::new(Target::{}, &CHIP_{chip}, Table::{table}),",
                variant(target)
            );
        }
        out.push_str("];\n");
    }
    out.push_str("/// The place of a target's machine.\nconst fn place(target: Target) -> usize {\nmatch target {\n");
    for (place, (target, _)) in targets.iter().enumerate() {
        let _ = writeln!(out, "Target::{} => {place},", variant(target));
    }
    out.push_str("}\n}\n");
    out
}

/// `Sm90a` for `sm_90a`.
fn variant(name: &str) -> String {
    let mut variant = name.replace('_', "");
    variant[..1].make_ascii_uppercase();
    variant
}

fn optional(text: Option<String>) -> String {
    text.map_or("None".to_owned(), |text| format!("Some({text})"))
}

fn cycles(cycles: &Cycles) -> String {
    format!(
        "Cycles {{ cycles: {}, provenance: Provenance::{} }}",
        cycles.cycles, cycles.provenance
    )
}

fn source(source: &EdgeRecord<'_>) -> String {
    format!(
        "EdgeRecord {{ cycles: {}, seen: {}, date: {:?} }}",
        source.cycles, source.seen, source.date
    )
}

fn emit_group(out: &mut String, group: &Group<'_>) {
    let _ = writeln!(
        out,
        "timing::groups::Group {{ class: RegisterClass::{}, name: {:?}, not_late: {}, overwritten_late: {:?}, ordinary: {}, arithmetic: {} }},",
        group.class,
        group.name,
        group.not_late,
        group.overwritten_late,
        group.ordinary,
        group.arithmetic
    );
}

fn emit_line(out: &mut String, line: &Line<'_>) {
    let group = match line.group {
        Some(number) => number.to_string(),
        None => "timing::groups::READ_BARRIER".to_owned(),
    };
    let pattern = match line.pattern {
        Pattern::Class(number) => format!("Class(timing::Class({number}))"),
        Pattern::Name(name) => format!("Name({name:?})"),
    };
    let _ = writeln!(
        out,
        "timing::groups::Line {{ class: RegisterClass::{}, group: {group}, pattern: timing::groups::Pattern::{pattern}, slot: {:?}, offset: {}, when: &{:?} }},",
        line.class, line.slot, line.offset, line.when
    );
}

fn emit_latencies(out: &mut String, groups: &Groups<'_>, latencies: &Latencies<'_>) {
    let uses = groups.uses.len();
    let _ = writeln!(
        out,
        "uses: {uses}, results: {}, edges: &[",
        groups.results.len()
    );
    for (index, row) in latencies.edges.iter().enumerate() {
        let class = groups.results[index / uses].class;
        let row = row.as_ref().map(|row| {
            format!(
                "Row {{ result: ResultGroup {{ index: {}, class: RegisterClass::{class} }}, used: UseGroup {{ index: {}, class: RegisterClass::{class} }}, measured: {}, mined: {}, assumed: {:?}, assumed_date: {:?} }}",
                index / uses,
                index % uses,
                optional(row.measured.as_ref().map(source)),
                optional(row.mined.as_ref().map(source)),
                row.assumed,
                row.assumed_date
            )
        });
        let _ = writeln!(out, "{},", optional(row));
    }
    out.push_str("], overwrites: &[\n");
    for known in &latencies.overwrites {
        let known = known.as_ref().map(|known| {
            format!(
                "timing::latencies::Overwrite {{ mined: {}, derived: {}, longest: {} }}",
                optional(known.mined.as_ref().map(source)),
                known.derived,
                known.longest
            )
        });
        let _ = writeln!(out, "{},", optional(known));
    }
    let _ = writeln!(out, "], releases: &{:?}", latencies.releases);
}
