//! `bench scale [--ptxas] [MOST]`: time and memory of generated functions that double in size, up to `MOST` straight-line instructions
//! (64,000), a tenth as many blocks, a sixty-fourth as many loops nested eight deep, a sixth as many instructions in one loop, and a fifth as many blocks that jump anywhere. `--only NAME` takes the
//! shapes whose names have that in them, `--write SIZE FOLDER` writes their texts instead. What is linear doubles too: the time for a piece stays the same.

use super::{generated, measure, orias, peak_memory};
use crate::oracle;
use std::path::Path;

/// What the shape is called, by how much fewer pieces it has at most, and what makes it.
type Shape = (&'static str, usize, fn(usize) -> String);

const SHAPES: [Shape; 5] = [
    ("instructions", 1, generated::straight_line),
    ("blocks", 10, generated::blocks),
    ("loops, eight deep", 64, generated::nested_loops),
    ("in one loop", 6, generated::long_loop),
    ("random jumps", 5, generated::random_jumps),
];

pub(super) fn run(args: &[String]) -> Result<(), String> {
    let mut most = 64_000;
    let mut with_ptxas = false;
    let mut only = String::new();
    let mut words = args.iter();
    let number = |word: &str| {
        word.parse::<usize>()
            .map_err(|_| format!("'{word}' is no size"))
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} wants more words"));
        match word.as_str() {
            "--ptxas" => with_ptxas = true,
            "--only" => only = value()?.clone(),
            "--write" => {
                let (size, folder) = (number(value()?)?, value()?.clone());
                return write(size, Path::new(&folder));
            }
            word => most = number(word)?,
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
        "{:>24} {:>10} {:>9} {:>12} {:>10} {:>9} {:>12}",
        "", "orias s", "MiB", "us per piece", "ptxas s", "MiB", "us per piece"
    );
    for (name, smaller, make) in SHAPES.iter().filter(|shape| shape.0.contains(&only)) {
        let mut size = (most / smaller / 64).max(1);
        while size <= most / smaller {
            let input = folder.path().join("input.ptx");
            std::fs::write(&input, make(size)).map_err(|error| error.to_string())?;
            let own = cell(&ours, &input, folder.path(), size)?;
            let other = match &theirs {
                Some(theirs) => cell(theirs, &input, folder.path(), size)?,
                None => String::new(),
            };
            println!("{:>24} {own} {other}", format!("{size} {name}"));
            size *= 2;
        }
    }
    Ok(())
}

/// Writes a function of `size` pieces of each shape to `folder`.
fn write(size: usize, folder: &Path) -> Result<(), String> {
    for (name, _, make) in SHAPES {
        let name: String = name.replace(',', "").replace(' ', "-");
        std::fs::write(folder.join(format!("{name}.ptx")), make(size))
            .map_err(|error| error.to_string())?;
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
