//! Modules made from the rows of the PTX tables: every instruction and modifier the language has on a target.

use crate::oracle;
use orias_generate::synth;
use orias_ptx::NEWEST_VERSION;
use orias_ptx::grammar::ROWS;
use orias_ptx::target::Target;
use std::path::Path;

/// Modules for each row.
const EACH: usize = 3;

/// Writes and assembles the modules; counts those `ptxas` refuses.
pub fn assemble(ptxas: &Path, out: &Path, target: &str) -> Result<(), String> {
    let known = Target::from_name(target).ok_or_else(|| format!("no target is named {target}"))?;
    let mut assembled = 0;
    let mut refused = 0;
    for (index, row) in ROWS.iter().enumerate() {
        for (number, choice) in synth::choices(row, NEWEST_VERSION, known, EACH)
            .iter()
            .enumerate()
        {
            let name = format!("rows-{index}-{number}");
            let path = out.join(format!("{name}.ptx"));
            let text = synth::sample(choice, NEWEST_VERSION, known).text();
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            let result = oracle::bounded(ptxas)
                .args(["-O0", "-arch", target, "-o"])
                .arg(out.join(format!("{name}.O0.cubin")))
                .arg(&path)
                .output()
                .map_err(|error| format!("{}: {error}", ptxas.display()))?;
            if result.status.success() {
                assembled += 1;
            } else {
                refused += 1;
            }
        }
    }
    println!("rows: {assembled} modules assembled, {refused} refused by ptxas");
    Ok(())
}
