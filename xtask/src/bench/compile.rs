//! `bench compile [RUNS]`: the modules of the corpus that are in scope, Orias at its default level against ptxas -O3.
//!
//! Prints a line for each module, the slowest against ptxas last, and the totals. The two compilers take turns, run by run, so that both
//! have the same share of whatever else the machine does.

use super::{Cost, measure, orias};
use crate::conformance::corpus;
use crate::oracle;

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
        let mut best: [Option<Cost>; 2] = [None; 2];
        for _ in 0..runs {
            for (best, compiler) in best.iter_mut().zip([&ours, &theirs]) {
                let Some(cost) = measure(compiler, &module, folder.path())? else {
                    break;
                };
                if best.is_none_or(|best| cost.seconds < best.seconds) {
                    *best = Some(cost);
                }
            }
        }
        let [Some(own), Some(other)] = best else {
            out_of_scope += 1;
            continue;
        };
        let name = module.file_stem().unwrap_or_default();
        rows.push((name.to_string_lossy().into_owned(), own, other));
    }
    let ratio = |own: f64, other: f64| other / own;
    let of = |row: &(String, Cost, Cost)| ratio(row.1.seconds, row.2.seconds);
    rows.sort_by(|a, b| of(b).total_cmp(&of(a)));
    println!(
        "{:>10} {:>10} {:>7}  module",
        "orias ms", "ptxas ms", "ratio"
    );
    for row in &rows {
        println!(
            "{:>10.2} {:>10.2} {:>7.1}  {}",
            row.1.seconds * 1e3,
            row.2.seconds * 1e3,
            of(row),
            row.0
        );
    }
    let sum = |cost: fn(&(String, Cost, Cost)) -> f64| rows.iter().map(cost).sum::<f64>();
    let (own, other) = (sum(|row| row.1.seconds), sum(|row| row.2.seconds));
    let (own_wall, other_wall) = (sum(|row| row.1.wall), sum(|row| row.2.wall));
    let logs = rows.iter().map(|row| of(row).ln()).sum::<f64>();
    println!(
        "{} modules ({out_of_scope} out of scope), processor time: {own:.3} s against {other:.3} s, {:.1} times faster; geometric mean {:.1}",
        rows.len(),
        ratio(own, other),
        (logs / rows.len().max(1) as f64).exp()
    );
    println!(
        "wall time of the same runs: {own_wall:.3} s against {other_wall:.3} s, {:.1} times faster",
        ratio(own_wall, other_wall)
    );
    Ok(())
}
