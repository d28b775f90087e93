//! Objects for the linker: what nvlink makes of ours and of ptxas's, in any mixture, means the same.
//!
//! `conformance objects [COUNT [FIRST]]`. Pairs of modules that call each other (`orias_generate::ptx::pairs`) are compiled with `-c` at -O0
//! and -O3 by both assemblers and linked by nvlink in the four combinations. Each linked program runs in the emulator; what it leaves must
//! be what the interpreter leaves of the two modules in one. The judge must find nothing in what is ours.

use crate::gpu::job::Argument;
use crate::programs::interpret;
use crate::{oracle, parallel};
use orias::{Options, Source, Target, compile};
use orias_generate::ptx::pairs::{self, KERNEL, Pair};
use orias_reference::Launch;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pairs of a whole run.
const PAIRS: u64 = 200;
/// Blocks, and threads of each.
const SHAPE: ([u32; 3], [u32; 3]) = ([2, 1, 1], [48, 1, 1]);
/// Bytes of the output: a word for each thread.
const OUTPUT_BYTES: usize = 2 * 48 * 4;
/// Steps after which a program counts as endless.
const STEPS: u64 = 50_000_000;
/// Who made the two objects.
const COMBINATIONS: [[Maker; 2]; 4] = [
    [Maker::Orias, Maker::Orias],
    [Maker::Orias, Maker::Ptxas],
    [Maker::Ptxas, Maker::Orias],
    [Maker::Ptxas, Maker::Ptxas],
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Orias,
    Ptxas,
}

struct Tools {
    ptxas: PathBuf,
    nvlink: PathBuf,
}

pub fn run(args: &[String]) -> Result<(), String> {
    let number = |at: usize, default: u64| match args.get(at) {
        Some(text) => text.parse().map_err(|_| format!("'{text}' is no number")),
        None => Ok(default),
    };
    let (count, first) = (number(0, PAIRS)?, number(1, 0)?);
    let tools = Tools {
        ptxas: oracle::find("ptxas")?,
        nvlink: oracle::find("nvlink")?,
    };
    let seeds: Vec<u64> = (first..first + count).collect();
    let results = parallel::map(&seeds, |&seed| tried(&tools, seed));
    let mut programs = 0;
    let mut wrong = Vec::new();
    for (seed, result) in seeds.iter().zip(results) {
        match result {
            Ok(linked) => programs += linked,
            Err(why) => wrong.push(format!("pair {seed}: {why}")),
        }
    }
    println!(
        "{} of {count} pairs are right, {programs} linked programs run",
        count as usize - wrong.len()
    );
    for line in &wrong {
        println!("  {line}");
    }
    match wrong.len() {
        0 => Ok(()),
        many => Err(format!("{many} pairs are wrong")),
    }
}

/// How many linked programs of a pair were right.
fn tried(tools: &Tools, seed: u64) -> Result<usize, String> {
    let pair = pairs::pair(seed);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path();
    let wanted = interpreted(&pair)?;
    let mut right = 0;
    for level in [0, 3] {
        let mut objects = Vec::new();
        for maker in [Maker::Orias, Maker::Ptxas] {
            for (number, text) in pair.modules.iter().enumerate() {
                let path = folder.join(format!("{maker:?}{number}.o"));
                made(tools, maker, level, text, &path)
                    .map_err(|why| format!("{maker:?} -O{level}: {why}"))?;
                objects.push(path);
            }
        }
        let object = |maker: Maker, number: usize| match maker {
            Maker::Orias => &objects[number],
            Maker::Ptxas => &objects[2 + number],
        };
        for makers in COMBINATIONS {
            let fail = |why: String| format!("{makers:?} -O{level}: {why}");
            let cubin = folder.join("linked.cubin");
            let said = Command::new(&tools.nvlink)
                .arg("-arch=sm_90")
                .arg(object(makers[0], 0))
                .arg(object(makers[1], 1))
                .arg("-o")
                .arg(&cubin)
                .output()
                .map_err(|error| fail(format!("nvlink: {error}")))?;
            if !said.status.success() {
                return Err(fail(String::from_utf8_lossy(&said.stderr).into_owned()));
            }
            let cubin = std::fs::read(&cubin).map_err(|error| fail(error.to_string()))?;
            if makers == [Maker::Orias; 2] {
                judged(&cubin).map_err(fail)?;
            }
            let seen = emulated(&cubin).map_err(fail)?;
            if seen != wanted {
                let at = seen
                    .iter()
                    .zip(&wanted)
                    .position(|(one, other)| one != other);
                return Err(fail(format!(
                    "another result, first in thread {}",
                    at.unwrap_or(0) / 4
                )));
            }
            right += 1;
        }
    }
    Ok(right)
}

/// What the interpreter leaves of both modules in one.
fn interpreted(pair: &Pair) -> Result<Vec<u8>, String> {
    let launch = Launch {
        check_uninitialised: true,
        step_limit: Some(STEPS),
        ..Launch::new(KERNEL, SHAPE.0, SHAPE.1)
    };
    let arguments = [Argument::Buffer(vec![0; OUTPUT_BYTES])];
    let mut buffers = interpret(pair.joined.as_bytes(), launch, &arguments)
        .map_err(|why| format!("the interpreter: {why}"))?;
    Ok(buffers.swap_remove(0))
}

/// Makes an object.
fn made(tools: &Tools, maker: Maker, level: u8, text: &str, path: &Path) -> Result<(), String> {
    match maker {
        Maker::Orias => {
            let options = Options {
                target: Target::parse("sm_90").ok_or("sm_90 is no target")?,
                opt_level: level,
                relocatable: true,
                ..Options::default()
            };
            let source = Source {
                name: "module",
                text: text.as_bytes(),
            };
            let compiled = compile(&source, &options).map_err(|found| {
                let all: Vec<String> = found.iter().map(ToString::to_string).collect();
                all.join("; ")
            })?;
            let bytes = compiled.cubin.ok_or("nothing was made")?;
            std::fs::write(path, bytes).map_err(|error| error.to_string())
        }
        Maker::Ptxas => {
            let input = path.with_extension("ptx");
            std::fs::write(&input, text).map_err(|error| error.to_string())?;
            let said = oracle::bounded(&tools.ptxas)
                .args(["-c", "-arch=sm_90", &format!("-O{level}")])
                .arg(&input)
                .arg("-o")
                .arg(path)
                .output()
                .map_err(|error| error.to_string())?;
            match said.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&said.stderr).into_owned()),
            }
        }
    }
}

fn judged(cubin: &[u8]) -> Result<(), String> {
    let cubin = orias_cubin::Cubin::read(cubin).map_err(|error| error.to_string())?;
    let verdict = orias_verify::judge(&cubin).map_err(|error| error.to_string())?;
    match verdict.findings.first() {
        None => Ok(()),
        Some(finding) => Err(format!("the judge: {finding:?}")),
    }
}

/// What the emulator leaves of a linked program.
fn emulated(cubin: &[u8]) -> Result<Vec<u8>, String> {
    let mut device = orias_sim::Device::new();
    let module = device.load(cubin).map_err(|error| error.to_string())?;
    let output = device.allocate(&[0; OUTPUT_BYTES]);
    let launch = orias_sim::Launch {
        kernel: KERNEL.to_owned(),
        grid: SHAPE.0,
        block: SHAPE.1,
        cluster: None,
        dynamic_shared: 0,
        arguments: vec![output.to_le_bytes().to_vec()],
    };
    let options = orias_sim::Options {
        timing: orias_sim::Timing::Strict,
        max_steps: Some(STEPS),
        ..orias_sim::Options::default()
    };
    let outcome = device.launch(&module, &launch, &options);
    let outcome = outcome.map_err(|error| error.to_string())?;
    if let Some(fault) = outcome.fault {
        return Err(fault.to_string());
    }
    let bytes = device.read(output, OUTPUT_BYTES);
    bytes.ok_or_else(|| "the output is gone".to_owned())
}
