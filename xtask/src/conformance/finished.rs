//! Cubins that ptxas made of the corpus, kept below `target/cubins` so that suites share them.

use super::corpus;
use crate::oracle;
use std::path::{Path, PathBuf};

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
    let mut found = Vec::new();
    for &level in levels {
        for module in modules.iter().step_by(every) {
            let Some(path) = cubin_of(module, level)? else {
                continue;
            };
            let stem = module.file_stem().unwrap_or_default().to_string_lossy();
            found.push(Finished {
                name: format!("{stem} -O{level}"),
                path,
            });
        }
    }
    Ok(found)
}

/// What ptxas makes of `module`, made if it is missing; none if ptxas refuses it.
pub fn cubin_of(module: &Path, level: u8) -> Result<Option<PathBuf>, String> {
    let Some(stem) = module.file_stem().map(|stem| stem.to_string_lossy()) else {
        return Ok(None);
    };
    let folder = oracle::repository().join(format!("target/cubins/O{level}"));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join(format!("{stem}.cubin"));
    if !path.exists() {
        let ptxas = oracle::find("ptxas")?;
        let half = folder.join(format!("{stem}.cubin.half"));
        let output = oracle::bounded(&ptxas)
            .args(["-arch=sm_90a", &format!("-O{level}"), "-o"])
            .arg(&half)
            .arg(module)
            .output()
            .map_err(|error| format!("{}: {error}", ptxas.display()))?;
        if !output.status.success() {
            return Ok(None);
        }
        std::fs::rename(&half, &path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(Some(path))
}
