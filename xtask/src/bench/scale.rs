//! `bench scale [--ptxas] [MOST]`: time and memory of generated functions that double in size, up to `MOST` straight-line instructions
//! (64,000) and a tenth as many blocks. What is linear doubles too: the time for a piece stays the same.

use super::{generated, measure, orias, peak_memory};
use crate::oracle;
use std::path::Path;

pub(super) fn run(args: &[String]) -> Result<(), String> {
    let mut most = 64_000;
    let mut with_ptxas = false;
    for word in args {
        match word.as_str() {
            "--ptxas" => with_ptxas = true,
            number => {
                most = number
                    .parse()
                    .map_err(|_| format!("'{number}' is no size"))?;
            }
        }
    }
    let ours = orias()?;
    let theirs = if with_ptxas {
        Some(oracle::find("ptxas")?)
    } else {
        None
    };
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    println!(
        "{:>22} {:>10} {:>9} {:>12} {:>10} {:>9} {:>12}",
        "", "orias s", "MiB", "us per piece", "ptxas s", "MiB", "us per piece"
    );
    type Shape = (&'static str, usize, fn(usize) -> String);
    let shapes: [Shape; 2] = [
        ("instructions", 1, generated::straight_line),
        ("blocks", 10, generated::blocks),
    ];
    for (name, smaller, make) in shapes {
        let mut size = most / smaller / 64;
        while size <= most / smaller {
            let input = folder.path().join("input.ptx");
            std::fs::write(&input, make(size)).map_err(|error| error.to_string())?;
            let own = cell(&ours, &input, folder.path(), size)?;
            let other = match &theirs {
                Some(theirs) => cell(theirs, &input, folder.path(), size)?,
                None => String::new(),
            };
            println!("{:>22} {own} {other}", format!("{size} {name}"));
            size *= 2;
        }
    }
    Ok(())
}

fn cell(compiler: &Path, input: &Path, folder: &Path, size: usize) -> Result<String, String> {
    let cost = measure(compiler, input, folder)?;
    let memory = peak_memory(compiler, input, folder)?;
    Ok(match cost.zip(memory) {
        Some((cost, memory)) => format!(
            "{:>10.3} {:>9.1} {:>12.2}",
            cost.seconds,
            memory as f64 / 1024.0,
            cost.seconds * 1e6 / size.max(1) as f64
        ),
        None => format!("{:>10} {:>9} {:>12}", "refused", "", ""),
    })
}
