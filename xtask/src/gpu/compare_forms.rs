//! `gpu forms` and `gpu record`: every form on the chip, compared with its definition or written down.
//!
//! The record is `xtask/data/forms-sm90.txt.gz`: a line a form, its name and the results of [`RECORDED_LANES`] lanes in
//! hexadecimal. The operands are not stored: they follow from the name.

use super::driver::{DriverError, Gpu};
use super::forms;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::process::Command;

/// Lanes of each form that are written down for the replay without a GPU.
pub const RECORDED_LANES: usize = 192;

/// Assembles a module with the ptxas at hand.
pub fn assemble(text: &str) -> Result<Vec<u8>, String> {
    let folder = std::env::temp_dir().join(format!("orias-forms-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let (source, cubin) = (folder.join("forms.ptx"), folder.join("forms.cubin"));
    std::fs::write(&source, text).map_err(|error| error.to_string())?;
    let ptxas = crate::oracle::find("ptxas").unwrap_or_else(|_| "ptxas".into());
    let output = Command::new(ptxas)
        .args(["-arch=sm_90a", "-O1", "-o"])
        .args([&cubin, &source])
        .output()
        .map_err(|error| format!("ptxas: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("ptxas refused {}: {text}", source.display()));
    }
    let image = std::fs::read(&cubin).map_err(|error| error.to_string())?;
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    Ok(image)
}

/// Runs one form on the chip.
fn on_the_chip(
    gpu: &Gpu,
    module: &super::driver::Module,
    index: usize,
    lanes: &[[u64; 3]],
) -> Result<Vec<u64>, DriverError> {
    let column = |slot: usize| {
        lanes
            .iter()
            .flat_map(|lane| lane[slot].to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let buffers = [
        gpu.buffer(&column(0))?,
        gpu.buffer(&column(1))?,
        gpu.buffer(&column(2))?,
    ];
    let results = gpu.buffer(&vec![0; lanes.len() * 8])?;
    let mut arguments: Vec<Vec<u8>> = buffers
        .iter()
        .map(|b| b.address().to_le_bytes().to_vec())
        .collect();
    arguments.push(results.address().to_le_bytes().to_vec());
    arguments.push((lanes.len() as u32).to_le_bytes().to_vec());
    let blocks = (lanes.len() as u32).div_ceil(128);
    module
        .kernel(&format!("form{index}"), 0)?
        .launch([blocks, 1, 1], [128, 1, 1], &arguments)?;
    let bytes = results.read()?;
    Ok(bytes
        .chunks_exact(8)
        .map(|word| {
            word.iter()
                .rev()
                .fold(0, |n, byte| n << 8 | u64::from(*byte))
        })
        .collect())
}

/// `gpu forms LANES`: every form, bit for bit.
pub fn compare(count: usize) -> Result<(), String> {
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let forms = forms::all();
    let module = gpu
        .load(&assemble(&forms::module(&forms))?)
        .map_err(|error| error.to_string())?;
    let mut wrong = 0;
    for (index, form) in forms.iter().enumerate() {
        let lanes = forms::lanes(form, count);
        let chip = on_the_chip(&gpu, &module, index, &lanes)
            .map_err(|error| format!("{}: {error}", form.name))?;
        let differing: Vec<usize> = (0..count)
            .filter(|lane| (form.definition)(lanes[*lane]) != chip[*lane])
            .collect();
        if let Some(first) = differing.first() {
            wrong += 1;
            print!(
                "{}: {} of {count} lanes differ:",
                form.name,
                differing.len()
            );
            for lane in differing.iter().take(3) {
                let operands = &lanes[*lane][..form.operands.len()];
                print!(
                    " {operands:x?} is {:x}, defined as {:x};",
                    chip[*lane],
                    (form.definition)(lanes[*lane])
                );
            }
            println!(" first at lane {first}");
        }
    }
    println!(
        "{} forms, {count} lanes each, {wrong} with differences",
        forms.len()
    );
    if wrong == 0 {
        Ok(())
    } else {
        Err(format!("{wrong} forms differ from their definition"))
    }
}

/// `gpu record FILE`: the results of [`RECORDED_LANES`] lanes of every form, one line each.
pub fn record(path: &str) -> Result<(), String> {
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let forms = forms::all();
    let module = gpu
        .load(&assemble(&forms::module(&forms))?)
        .map_err(|error| error.to_string())?;
    let mut text = String::new();
    for (index, form) in forms.iter().enumerate() {
        let lanes = forms::lanes(form, RECORDED_LANES);
        let chip = on_the_chip(&gpu, &module, index, &lanes)
            .map_err(|error| format!("{}: {error}", form.name))?;
        let results: Vec<String> = chip.iter().map(|word| format!("{word:x}")).collect();
        text += &format!("{}\t{}\n", form.name, results.join(" "));
    }
    write_compressed(path, &text)
}

/// Writes a record.
pub fn write_compressed(path: &str, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut out = GzEncoder::new(
        std::fs::File::create(path).map_err(failed)?,
        Compression::best(),
    );
    out.write_all(text.as_bytes()).map_err(failed)?;
    out.finish().map_err(failed)?;
    Ok(())
}

/// Reads a record back.
#[cfg(test)]
pub fn read_compressed(bytes: &[u8]) -> String {
    use std::io::Read as _;
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_string(&mut text)
        .expect("a record is compressed text");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the chip answered, by form.
    fn recorded() -> Vec<(String, Vec<u64>)> {
        let text = read_compressed(include_bytes!("../../data/forms-sm90.txt.gz"));
        let line = |line: &str| {
            let (name, words) = line.split_once('\t').unwrap();
            let words = words
                .split(' ')
                .map(|word| u64::from_str_radix(word, 16).unwrap())
                .collect();
            (name.to_owned(), words)
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn definitions_give_what_the_chip_gave() {
        let recorded = recorded();
        let forms = forms::all();
        let names: Vec<&String> = forms.iter().map(|form| &form.name).collect();
        let recorded_names: Vec<&String> = recorded.iter().map(|(name, _)| name).collect();
        assert_eq!(
            names, recorded_names,
            "every form is recorded: run `cargo xtask gpu record` after adding one"
        );
        for (form, (_, chip)) in forms.iter().zip(&recorded) {
            assert_eq!(chip.len(), RECORDED_LANES);
            for (operands, expected) in forms::lanes(form, RECORDED_LANES).iter().zip(chip) {
                assert_eq!(
                    (form.definition)(*operands),
                    *expected,
                    "{} of {operands:x?}",
                    form.name
                );
            }
        }
    }

    /// Every form as a kernel in the interpreter: parsing, operands, parameters, memory and computation together.
    #[test]
    fn the_interpreter_gives_what_the_chip_gave() {
        let forms = forms::all();
        let text = forms::module(&forms);
        let (module, found) = orias_ptx::parse(text.as_bytes());
        assert!(
            !found.has_errors(),
            "{}",
            found.to_lines("forms", text.as_bytes())
        );
        let mut program = orias_reference::Program::load(&module).unwrap();
        let mut wrong = Vec::new();
        for (index, (form, (_, chip))) in forms.iter().zip(&recorded()).enumerate() {
            let lanes = forms::lanes(form, RECORDED_LANES);
            let column = |at: usize| -> Vec<u8> {
                lanes
                    .iter()
                    .flat_map(|lane| lane[at].to_le_bytes())
                    .collect()
            };
            let memory = program.memory_mut();
            let operands = [0, 1, 2].map(|at| memory.allocate(column(at)));
            let result = memory.allocate(vec![0; 8 * RECORDED_LANES]);
            let blocks = RECORDED_LANES.div_ceil(128) as u32;
            let mut launch =
                orias_reference::Launch::new(&format!("form{index}"), [blocks, 1, 1], [128, 1, 1]);
            launch.check_uninitialised = true;
            for address in operands.into_iter().chain([result]) {
                launch = launch.argument(address.to_le_bytes());
            }
            launch = launch.argument((RECORDED_LANES as u32).to_le_bytes());
            program
                .launch(&launch)
                .unwrap_or_else(|fault| panic!("{}: {fault}", form.name));
            let words = program.memory().read(result, 8 * RECORDED_LANES).unwrap();
            for (lane, (word, expected)) in words.chunks(8).zip(chip).enumerate() {
                let word = u64::from_le_bytes(word.try_into().unwrap());
                if word != *expected {
                    wrong.push(format!(
                        "{} of {:x?}: {word:x}, not {expected:x}",
                        form.name, lanes[lane]
                    ));
                    break;
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} forms differ:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }
}
