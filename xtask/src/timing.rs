//! `cargo xtask timing [assumed | smaller]`: the latencies, with where they come from.
//!
//! Without an argument every edge; `assumed` those that rest on an assumption in either table, `smaller` those where the
//! chip was measured to be faster than ptxas dares.

use orias_machine::timing::{self, Provenance, Row, Table};

/// `cargo xtask timing`.
pub fn run(args: &[String]) -> Result<(), String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let chosen: Vec<&Row> = match words.as_slice() {
        [] => timing::rows().collect(),
        ["assumed"] => timing::rows()
            .filter(|row| {
                [Table::Mined, Table::Safe]
                    .iter()
                    .any(|table| row.latency(*table).provenance == Provenance::Assumed)
            })
            .collect(),
        ["smaller"] => timing::smaller_than_mined().collect(),
        _ => return Err("usage: timing [assumed | smaller]".to_owned()),
    };
    println!("| file | result | use | measured | mined | seen | for verify | safe |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for row in &chosen {
        let source = |source: Option<timing::Source>| {
            source.map_or("–".to_owned(), |source| source.cycles.to_string())
        };
        let shown = |table| {
            let latency = row.latency(table);
            format!("{} ({})", latency.cycles, latency.provenance)
        };
        println!(
            "| {:?} | {} | {} | {} | {} | {} | {} | {} |",
            row.result.class(),
            row.result.name(),
            row.used.name(),
            source(row.measured),
            source(row.mined),
            row.mined.map_or(0, |source| source.seen),
            shown(Table::Mined),
            shown(Table::Safe),
        );
    }
    if words.contains(&"assumed") {
        for (class, _) in timing::classes() {
            let members = orias_sass::Op::all().filter_map(timing::of);
            if let Some(timing) = members.into_iter().find(|timing| timing.class == class) {
                let numbers = [
                    ("issue interval", Some(timing.issue)),
                    ("typical latency", timing.typical),
                ];
                for (what, number) in numbers {
                    if let Some(number) = number.filter(|n| n.provenance == Provenance::Assumed) {
                        println!("{}: {what} {} (assumed)", class.name(), number.cycles);
                    }
                }
            }
        }
    }
    println!("{} edges", chosen.len());
    Ok(())
}
