//! Compiles the instruction tables, `tables/*.ptxg`, into static data. Errors name the file and line.

#[path = "build/checks.rs"]
mod checks;
#[path = "build/emit.rs"]
mod emit;
#[path = "build/notation.rs"]
mod notation;
#[path = "build/operands.rs"]
mod operands;
#[path = "build/targets.rs"]
mod targets;
#[allow(dead_code, reason = "the crate uses what the build script does not")]
#[path = "src/types.rs"]
mod types;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=tables");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/types.rs");
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => {
            for error in errors {
                println!("cargo::error={error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn compile() -> Result<(), Vec<String>> {
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("tables");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map_err(|error| vec![format!("{}: {error}", folder.display())])?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "ptxg"))
        .collect();
    paths.sort();
    let mut sources = Vec::new();
    for path in &paths {
        let text = std::fs::read_to_string(path)
            .map_err(|error| vec![format!("{}: {error}", path.display())])?;
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        sources.push((name, text));
    }
    let path = folder.join("targets.tbl");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| vec![format!("{}: {error}", path.display())])?;
    let targets = targets::rust(&text).map_err(|error| vec![error])?;
    let out = PathBuf::from(variable("OUT_DIR")?).join("targets.rs");
    std::fs::write(&out, targets).map_err(|error| vec![format!("{}: {error}", out.display())])?;
    let tables = notation::read(&sources)?;
    let code = emit::rust(&tables)?;
    let out = PathBuf::from(variable("OUT_DIR")?).join("tables.rs");
    std::fs::write(&out, code).map_err(|error| vec![format!("{}: {error}", out.display())])
}

fn variable(name: &str) -> Result<std::ffi::OsString, Vec<String>> {
    std::env::var_os(name).ok_or_else(|| vec![format!("{name} is not set")])
}
