//! Compiles the text tables of `tables/<chip>` into static data, so that a command that compiles one small kernel reads none.
//!
//! A folder is a chip. A chip that is `like` another has the other's lines behind its own: the first line that says something counts, a class
//! replaces the one of the same name, a number the one of the same name. [`read`] takes the lines of timing apart and checks that what
//! they name exists, [`latencies`] lays what the three files of cycles say over each other, [`issue`] reads what issue asks for, [`numbers`] the files of
//! plain numbers, and [`emit`] writes Rust. What the patterns of classes and groups say of an operation is worked out at run time, when the operation is
//! first asked for: the instruction set is not known here.

mod emit;
mod issue;
mod latencies;
mod numbers;
mod read;

use std::path::{Path, PathBuf};

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let tables = Path::new(&manifest).join("tables");
    println!("cargo::rerun-if-changed={}", tables.display());
    println!("cargo::rerun-if-changed=build");
    match chips(&tables) {
        Ok(text) => {
            std::fs::write(Path::new(&out).join("chips.rs"), text).expect("OUT_DIR is writable")
        }
        Err(error) => {
            println!("cargo::error={error}");
            std::process::exit(1);
        }
    }
}

/// Every folder, in the order of names.
fn chips(tables: &Path) -> Result<String, String> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(tables)
        .map_err(|error| format!("{}: {error}", tables.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let mut out = String::new();
    let mut targets = Vec::new();
    for (number, folder) in folders.iter().enumerate() {
        let chip = Chip::read(tables, folder)?;
        let files = chip.folders.iter();
        out += &compile(number, &files.map(PathBuf::as_path).collect::<Vec<_>>())
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        targets.extend(chip.targets.into_iter().map(|target| (target, number)));
    }
    out += &emit::machines(folders.len(), &targets);
    Ok(out)
}

/// What `chip.tbl` says.
struct Chip {
    targets: Vec<String>,
    /// Its folder, that of the chip it is like, and so on.
    folders: Vec<PathBuf>,
}

impl Chip {
    fn read(tables: &Path, folder: &Path) -> Result<Chip, String> {
        let mut chip = Chip {
            targets: Vec::new(),
            folders: vec![folder.to_owned()],
        };
        let mut at = folder.to_owned();
        loop {
            let path = at.join("chip.tbl");
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let mut like = None;
            for (number, line) in read::lines(&text) {
                let mut words = line.split_whitespace();
                match words.next() {
                    // A chip has the targets of its own file only.
                    Some("targets") if at == folder => {
                        chip.targets.extend(words.map(str::to_owned));
                    }
                    Some("targets") => {}
                    Some("like") => like = words.next(),
                    _ => {
                        return Err(format!(
                            "{}:{number}: '{line}' is not understood",
                            path.display()
                        ));
                    }
                }
            }
            let Some(like) = like else {
                break;
            };
            at = tables.join(like);
            if chip.folders.contains(&at) {
                return Err(format!("{}: it is like itself", folder.display()));
            }
            chip.folders.push(at.clone());
        }
        if chip.targets.is_empty() {
            return Err(format!("{}: it has no targets", folder.display()));
        }
        Ok(chip)
    }
}

/// The tables of one chip, `folders` being its own and those of the chips it is like.
fn compile(number: usize, folders: &[&Path]) -> Result<String, String> {
    // The lines of all folders, the chip's own first; an error is placed by the line alone.
    let text = |name: &str| {
        let mut text = String::new();
        let mut found = false;
        for folder in folders {
            let path = folder.join(name);
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
                found = true;
                text += &std::fs::read_to_string(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                text.push('\n');
            }
        }
        found.then_some(text).ok_or_else(|| format!("no {name}"))
    };
    let classes = text("classes.tbl")?;
    let classes = read::classes(&classes)?;
    let issue = text("issue.tbl")?;
    let issue = issue::rules(&issue, &classes)?;
    let groups = text("groups.tbl")?;
    let groups = read::groups(&groups, &classes)?;
    let (measured, mined, assumed) = (
        text("measured.tbl")?,
        text("mined.tbl")?,
        text("assumed.tbl")?,
    );
    let files = latencies::Files {
        measured: read::edges("measured.tbl", &measured)?,
        mined: read::edges("mined.tbl", &mined)?,
        assumed: read::edges("assumed.tbl", &assumed)?,
    };
    let latencies = latencies::combine(&groups, &files)?;
    let mut plain = Vec::new();
    for (file, name, kind) in numbers::FILES {
        plain.push((*name, *kind, numbers::read(file, &text(file)?)?));
    }
    Ok(emit::chip(
        number, &classes, &groups, &latencies, &issue, &plain,
    ))
}
