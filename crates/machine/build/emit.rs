//! Writes the tables as Rust.

use crate::latencies::{Latencies, Source};
use crate::read::{ClassRow, Cycles, Group, Groups, Line, Pattern};
use std::fmt::Write;

pub fn rust(classes: &[ClassRow<'_>], groups: &Groups<'_>, latencies: &Latencies<'_>) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "static TABLES: Tables = Tables {{ classes: &[");
    for row in classes {
        let _ = writeln!(
            out,
            "ClassRow {{ name: {:?}, completion: Completion::{}, reads_in_order: {}, settles: {}, settled: {}, pipe: Pipe::{}, issue: {}, typical: {}, operations: &{:?} }},",
            row.name,
            row.completion,
            row.reads_in_order,
            row.settles,
            row.settled,
            row.pipe,
            cycles(&row.issue),
            optional(row.typical.as_ref().map(cycles)),
            row.operations
        );
    }
    out.push_str("], groups: groups::Groups {\n");
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
    out.push_str("}, latencies: latencies::Latencies {\n");
    emit_latencies(&mut out, groups, latencies);
    out.push_str("} };\n");
    out
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

fn source(source: &Source<'_>) -> String {
    format!(
        "Source {{ cycles: {}, seen: {}, date: {:?} }}",
        source.cycles, source.seen, source.date
    )
}

fn emit_group(out: &mut String, group: &Group<'_>) {
    let _ = writeln!(
        out,
        "groups::Group {{ class: RegisterClass::{}, name: {:?} }},",
        group.class, group.name
    );
}

fn emit_line(out: &mut String, line: &Line<'_>) {
    let group = match line.group {
        Some(number) => number.to_string(),
        None => "groups::READ_BARRIER".to_owned(),
    };
    let pattern = match line.pattern {
        Pattern::Class(number) => format!("Class(Class({number}))"),
        Pattern::Name(name) => format!("Name({name:?})"),
    };
    let _ = writeln!(
        out,
        "groups::Line {{ class: RegisterClass::{}, group: {group}, pattern: groups::Pattern::{pattern}, slot: {:?}, offset: {}, when: &{:?} }},",
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
        let row = row.as_ref().map(|row| {
            format!(
                "Row {{ result: ResultGroup({}), used: UseGroup({}), measured: {}, mined: {}, assumed: {:?}, assumed_date: {:?} }}",
                index / uses,
                index % uses,
                optional(row.measured.as_ref().map(source)),
                optional(row.mined.as_ref().map(source)),
                row.assumed,
                latencies.assumed_date
            )
        });
        let _ = writeln!(out, "{},", optional(row));
    }
    out.push_str("], overwrites: &[\n");
    for known in &latencies.overwrites {
        let known = known.as_ref().map(|known| {
            format!(
                "latencies::Overwrite {{ mined: {}, derived: {}, longest: {} }}",
                optional(known.mined.as_ref().map(source)),
                known.derived,
                known.longest
            )
        });
        let _ = writeln!(out, "{},", optional(known));
    }
    let _ = writeln!(out, "], releases: &{:?}", latencies.releases);
}
