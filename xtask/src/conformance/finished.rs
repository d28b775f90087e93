//! Cubins that ptxas made of the corpus, kept below `target/cubins` so that suites share them.

use super::corpus;
use crate::oracle;
use std::path::PathBuf;
use std::process::Command;

/// The optimisation levels that differ in their control words.
pub const LEVELS: [u8; 3] = [3, 1, 0];

/// One finished cubin.
pub struct Finished {
    /// Name of the module and level, for messages.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// The cubins of the corpus at the given levels, made where they are missing. Of `every` modules one is taken. What ptxas refuses is
/// left out.
pub fn cubins(levels: &[u8], every: usize) -> Result<Vec<Finished>, String> {
    let modules = corpus::modules()?;
    let ptxas = oracle::find("ptxas")?;
    let mut found = Vec::new();
    for level in levels {
        let folder = oracle::repository().join(format!("target/cubins/O{level}"));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        for module in modules.iter().step_by(every) {
            let Some(stem) = module.file_stem().map(|stem| stem.to_string_lossy()) else {
                continue;
            };
            let path = folder.join(format!("{stem}.cubin"));
            if !path.exists() {
                let half = folder.join(format!("{stem}.cubin.half"));
                let output = Command::new(&ptxas)
                    .args(["-arch=sm_90a", &format!("-O{level}"), "-o"])
                    .arg(&half)
                    .arg(module)
                    .output()
                    .map_err(|error| format!("{}: {error}", ptxas.display()))?;
                if !output.status.success() {
                    continue;
                }
                std::fs::rename(&half, &path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
            }
            found.push(Finished {
                name: format!("{stem} -O{level}"),
                path,
            });
        }
    }
    Ok(found)
}
