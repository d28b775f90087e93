//! `cargo xtask timing [assumed | smaller]`: the latencies, with where they come from.
//!
//! Without an argument every edge; `assumed` those that rest on an assumption in either table, `smaller` those where the
//! chip was measured to be faster than ptxas dares.

use orias_machine::Machine;
use orias_machine::timing::{self, Provenance, Row, Table};
use orias_sass::Target;

/// `cargo xtask timing`.
pub fn run(args: &[String]) -> Result<(), String> {
    let machine = Machine::of(Target::DEFAULT);
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let chosen: Vec<&Row> = match words.as_slice() {
        [] => machine.latencies().collect(),
        ["assumed"] => machine
            .latencies()
            .filter(|row| {
                [Table::Mined, Table::Safe]
                    .iter()
                    .any(|table| row.latency(*table).provenance == Provenance::Assumed)
            })
            .collect(),
        ["smaller"] => (machine.latencies())
            .filter(|row| row.is_smaller_than_mined())
            .collect(),
        _ => return Err("usage: timing [assumed | smaller]".to_owned()),
    };
    println!("| file | result | use | measured | mined | seen | for verify | safe |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for row in &chosen {
        let source = |source: Option<timing::EdgeRecord>| {
            source.map_or("–".to_owned(), |source| source.cycles.to_string())
        };
        let shown = |table| {
            let latency = row.latency(table);
            format!("{} ({})", latency.cycles, latency.provenance)
        };
        println!(
            "| {:?} | {} | {} | {} | {} | {} | {} | {} |",
            row.result.class(),
            machine.result_name(row.result),
            machine.use_name(row.used),
            source(row.measured),
            source(row.mined),
            row.mined.map_or(0, |source| source.seen),
            shown(Table::Mined),
            shown(Table::Safe),
        );
    }
    if words.contains(&"assumed") {
        for (class, _) in machine.classes() {
            let members = orias_sass::Op::all().filter_map(|op| machine.timing(op));
            if let Some(timing) = members.into_iter().find(|timing| timing.class == class) {
                let numbers = [
                    ("typical latency", timing.typical),
                    ("expected latency", timing.expected),
                ];
                for (what, number) in numbers {
                    if let Some(number) = number.filter(|n| n.provenance == Provenance::Assumed) {
                        println!(
                            "{}: {what} {} (assumed)",
                            machine.class_name(class),
                            number.cycles
                        );
                    }
                }
            }
        }
    }
    println!("{} edges", chosen.len());
    Ok(())
}
