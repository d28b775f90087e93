//! Compiles `tables/*.isa` into static rows. `docs/add-an-instruction.md` describes the notation.
//!
//! Three steps: [`syntax`] splits a file into rows of tokens that remember their line, [`rows`] gives them meaning and
//! checks them (no two fields of a form overlap, every name is known, modifiers fit 64 bits) with the help of [`slots`],
//! [`text`], [`forms`] and [`place`], and [`emit`] writes Rust. [`targets`] reads which targets there are and writes their type.

mod emit;
mod forms;
mod place;
mod rows;
mod slots;
mod syntax;
mod targets;
mod text;

use std::path::Path;

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let tables = Path::new(&manifest).join("tables");
    println!("cargo::rerun-if-changed={}", tables.display());
    println!("cargo::rerun-if-changed=build");
    match compile(&tables) {
        Ok((rows, targets)) => {
            for (name, text) in [("tables.rs", rows), ("targets.rs", targets)] {
                std::fs::write(Path::new(&out).join(name), text).expect("OUT_DIR is writable");
            }
        }
        Err(errors) => {
            for error in errors {
                println!("cargo::error={error}");
            }
            std::process::exit(1);
        }
    }
}

fn compile(tables: &Path) -> Result<(String, String), Vec<String>> {
    let targets = targets::read(&tables.join("targets.tbl")).map_err(|error| vec![error])?;
    let mut paths: Vec<_> = std::fs::read_dir(tables)
        .map_err(|error| vec![format!("{}: {error}", tables.display())])?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "isa"))
        .collect();
    paths.sort();
    let mut operations = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        match std::fs::read_to_string(&path) {
            Ok(text) => match syntax::read(&name, &text) {
                Ok(blocks) => {
                    for block in blocks {
                        match rows::operation(&block, &targets) {
                            Ok(operation) => operations.push(operation),
                            Err(error) => errors.push(error),
                        }
                    }
                }
                Err(error) => errors.push(error),
            },
            Err(error) => errors.push(format!("{name}: {error}")),
        }
    }
    rows::check_names(&operations, &mut errors);
    if errors.is_empty() {
        Ok((emit::rust(&operations), targets::rust(&targets)))
    } else {
        Err(errors)
    }
}
