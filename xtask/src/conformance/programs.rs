//! `conformance programs [COUNT] [--seed=K] [--write=FOLDER]`: generated programs in the interpreter and, assembled by ptxas
//! at -O0 and -O3, in the emulator.
//!
//! With `--write` the cubins and what the interpreter says go to a folder, for `cargo xtask gpu programs FOLDER`.

use crate::gpu::job::hash;
use crate::programs::{LEVELS, assemble, interpreted, text};
use std::fmt::Write as _;
use std::path::Path;

/// Programs of a run that does not say how many.
const COUNT: u64 = 200;

pub fn run(args: &[String]) -> Result<(), String> {
    let (mut count, mut first, mut folder) = (COUNT, 0, None);
    for argument in args {
        let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number"));
        match argument.split_once('=') {
            Some(("--seed", seed)) => first = number(seed)?,
            Some(("--write", path)) => folder = Some(path.to_owned()),
            None if !argument.starts_with('-') => count = number(argument)?,
            _ => return Err(format!("not understood: {argument}")),
        }
    }
    match folder {
        Some(folder) => write(Path::new(&folder), first, count),
        None => assembled(first, count),
    }
}

/// Every program comes to its end in the interpreter, and ptxas takes it at every level.
fn assembled(first: u64, count: u64) -> Result<(), String> {
    for seed in first..first + count {
        let text = text(seed);
        let wrong = |error: String| format!("seed {seed}: {error}");
        interpreted(&text, seed).map_err(wrong)?;
        for level in LEVELS {
            assemble(text.as_bytes(), level).map_err(wrong)?;
        }
    }
    println!("{count} programs from seed {first}: the interpreter ends each, ptxas takes each");
    Ok(())
}

/// Cubins of every program at every level, and `expected.txt` with the hash of each output.
fn write(folder: &Path, first: u64, count: u64) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut expected = String::new();
    for seed in first..first + count {
        let text = text(seed);
        let output = interpreted(&text, seed).map_err(|error| format!("seed {seed}: {error}"))?;
        // Writing to a string cannot fail.
        let _ = writeln!(expected, "{seed} {:016x}", hash(&output));
        for level in LEVELS {
            let cubin = assemble(text.as_bytes(), level)
                .map_err(|error| format!("seed {seed}: {error}"))?;
            let path = folder.join(format!("{seed}.{level}.cubin"));
            std::fs::write(path, cubin).map_err(failed)?;
        }
    }
    std::fs::write(folder.join("expected.txt"), expected).map_err(failed)?;
    println!("{count} programs from seed {first} in {}", folder.display());
    Ok(())
}
