//! The files that conformance runs on.

use std::path::{Path, PathBuf};

use crate::oracle;

/// The modules of the corpus whose path contains `filter`; for a sample every so many of them.
pub fn selected(filter: &str, sample: Option<usize>) -> Result<Vec<PathBuf>, String> {
    Ok(modules()?
        .into_iter()
        .filter(|module| module.to_string_lossy().contains(filter))
        .step_by(sample.unwrap_or(1))
        .collect())
}

/// All PTX modules of the corpus, in a fixed order.
///
/// The corpus is every `.ptx` file below the folders in `ORIAS_CORPUS` (separated as in `PATH`), by default below `../shared/corpus`
/// beside the repository and below `target/corpus`, where `cargo xtask corpus` unpacks its archives.
pub fn modules() -> Result<Vec<PathBuf>, String> {
    let folders = match std::env::var_os("ORIAS_CORPUS") {
        Some(folders) => std::env::split_paths(&folders).collect(),
        None => {
            let unpacked = unpacked();
            let mut folders = vec![packed()];
            if unpacked.exists() {
                folders.push(unpacked);
            }
            folders
        }
    };
    let mut modules = Vec::new();
    for folder in &folders {
        modules.extend(files(folder, "ptx")?);
    }
    modules.sort();
    modules.dedup();
    if modules.is_empty() {
        return Err(format!(
            "no .ptx file below {}; set ORIAS_CORPUS",
            folders
                .iter()
                .map(|folder| folder.display().to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    Ok(modules)
}

/// The folders of the corpus with CUDA programs, their PTX and a manifest of launches.
pub const CUDA: [&str; 2] = ["cuda-sm90a", "cuda-second-sm90a"];

/// Where the corpus is found.
pub fn packed() -> PathBuf {
    oracle::repository().join("../shared/corpus")
}

/// Where its archives are unpacked to.
fn unpacked() -> PathBuf {
    oracle::repository().join("target").join("corpus")
}

/// `cargo xtask corpus`: unpacks the archives of the corpus below `target/corpus`.
pub fn unpack(args: &[String]) -> Result<(), String> {
    if let Some(extra) = args.first() {
        return Err(format!("takes no argument, got '{extra}'"));
    }
    unpack_these(&files(&packed(), "xz")?)?;
    println!("{} modules", modules()?.len());
    Ok(())
}

/// The archives of the corpus that are not unpacked, where no other corpus is asked for.
fn missing() -> Result<Vec<PathBuf>, String> {
    if std::env::var_os("ORIAS_CORPUS").is_some() || !packed().exists() {
        return Ok(Vec::new());
    }
    let is_missing = |archive: &PathBuf| {
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        let folder = name.split('.').next().unwrap_or_default();
        !unpacked().join(folder).exists()
    };
    Ok(files(&packed(), "xz")?
        .into_iter()
        .filter(is_missing)
        .collect())
}

/// Unpacks what is not unpacked yet, for a run on the whole corpus.
pub fn unpack_missing() -> Result<(), String> {
    unpack_these(&missing()?)
}

/// Says which archives a run leaves out because they are not unpacked.
pub fn say_missing() -> Result<(), String> {
    for archive in missing()? {
        println!(
            "left out, as it is not unpacked (`cargo xtask corpus`): {}",
            archive.display()
        );
    }
    Ok(())
}

fn unpack_these(archives: &[PathBuf]) -> Result<(), String> {
    let folder = unpacked();
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for archive in archives {
        let status = std::process::Command::new("tar")
            .arg("-xf")
            .arg(archive)
            .arg("-C")
            .arg(&folder)
            .status()
            .map_err(|error| format!("tar: {error}"))?;
        if !status.success() {
            return Err(format!("tar could not unpack {}", archive.display()));
        }
    }
    Ok(())
}

/// The files below a folder whose names end in `.extension`, in a fixed order.
pub fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry
                .map_err(|error| format!("{}: {error}", folder.display()))?
                .path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|known| known == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
