//! `bench compile [RUNS]`: the modules of the corpus that are in scope, Orias at its default level against ptxas -O3.
//!
//! Prints a line for each module, the slowest against ptxas last, and the totals.

use super::{fastest, orias};
use crate::conformance::corpus;
use crate::oracle;
use std::time::Duration;

pub(super) fn run(args: &[String]) -> Result<(), String> {
    let runs = match args {
        [] => 3,
        [runs] => runs
            .parse()
            .map_err(|_| format!("'{runs}' is no number of runs"))?,
        [_, extra, ..] => return Err(format!("not understood: {extra}")),
    };
    let (ours, theirs) = (orias()?, oracle::find("ptxas")?);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    let mut out_of_scope = 0;
    for module in corpus::modules()? {
        let Some(own) = fastest(&ours, &module, folder.path(), runs)? else {
            out_of_scope += 1;
            continue;
        };
        let Some(other) = fastest(&theirs, &module, folder.path(), runs)? else {
            continue;
        };
        let name = module.file_stem().unwrap_or_default();
        rows.push((name.to_string_lossy().into_owned(), own.time, other.time));
    }
    let ratio = |own: Duration, other: Duration| other.as_secs_f64() / own.as_secs_f64();
    rows.sort_by(|a, b| ratio(b.1, b.2).total_cmp(&ratio(a.1, a.2)));
    println!(
        "{:>10} {:>10} {:>7}  module",
        "orias ms", "ptxas ms", "ratio"
    );
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    for (name, own, other) in &rows {
        println!(
            "{:>10.2} {:>10.2} {:>7.1}  {name}",
            ms(*own),
            ms(*other),
            ratio(*own, *other)
        );
    }
    let own: Duration = rows.iter().map(|row| row.1).sum();
    let other: Duration = rows.iter().map(|row| row.2).sum();
    let logs = rows.iter().map(|row| ratio(row.1, row.2).ln()).sum::<f64>();
    println!(
        "{} modules ({out_of_scope} out of scope): {:.3} s against {:.3} s, {:.1} times faster; geometric mean {:.1}",
        rows.len(),
        own.as_secs_f64(),
        other.as_secs_f64(),
        ratio(own, other),
        (logs / rows.len().max(1) as f64).exp()
    );
    Ok(())
}
