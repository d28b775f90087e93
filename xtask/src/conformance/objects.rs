//! Objects for the linker: what nvlink makes of ours and of ptxas's, in any mixture, means the same.
//!
//! `conformance objects [COUNT [FIRST]] [--write=FOLDER]`. Pairs of modules that call each other (`orias_generate::ptx::pairs`) are compiled with `-c` at -O0
//! and -O3 by both assemblers and linked by nvlink in the four combinations. Each linked program runs in the emulator; what it leaves must
//! be what the interpreter leaves of the two modules in one. The judge must find nothing in what is ours.
//!
//! With `--write` the linked programs go to a folder for each combination (`orias-ptxas` and so on) beside a manifest, for
//! `cargo xtask gpu launches FOLDER/manifest.json FOLDER/orias-ptxas FOLDER/ptxas-ptxas`.

use crate::gpu::job::Argument;
use crate::programs::interpret;
use crate::{oracle, parallel};
use orias::{Options, Source, Target, compile};
use orias_generate::ptx::pairs::{self, KERNEL, Pair};
use orias_reference::Launch;
use serde_json::{Value, json};
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
/// Levels of optimisation.
const LEVELS: [u8; 2] = [0, 3];
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

impl Maker {
    fn name(self) -> &'static str {
        match self {
            Self::Orias => "orias",
            Self::Ptxas => "ptxas",
        }
    }
}

struct Tools {
    ptxas: PathBuf,
    nvlink: PathBuf,
}

/// A pair linked in one combination at one level.
struct Linked {
    makers: [Maker; 2],
    level: u8,
    cubin: Vec<u8>,
}

impl Linked {
    /// What an error says of this program.
    fn wrong(&self, why: impl std::fmt::Display) -> String {
        format!("{:?} -O{}: {why}", self.makers, self.level)
    }
}

pub fn run(args: &[String]) -> Result<(), String> {
    let mut numbers = Vec::new();
    let mut folder = None;
    for argument in args {
        match argument.strip_prefix("--write=") {
            Some(path) => folder = Some(PathBuf::from(path)),
            None => numbers.push(
                argument
                    .parse::<u64>()
                    .map_err(|_| format!("'{argument}' is no number"))?,
            ),
        }
    }
    let (count, first) = match numbers[..] {
        [] => (PAIRS, 0),
        [count] => (count, 0),
        [count, first] => (count, first),
        _ => return Err("at most two numbers: how many pairs, and the first".to_owned()),
    };
    let tools = Tools {
        ptxas: oracle::installed("ptxas"),
        nvlink: oracle::installed("nvlink"),
    };
    let seeds: Vec<u64> = (first..first + count).collect();
    let results = parallel::map(&seeds, |&seed| match &folder {
        Some(folder) => written(&tools, seed, folder),
        None => tried(&tools, seed),
    });
    if let Some(folder) = &folder {
        manifest(folder, &seeds)?;
    }
    let mut programs = 0;
    let mut wrong = Vec::new();
    for (seed, result) in seeds.iter().zip(results) {
        match result {
            Ok(linked) => programs += linked,
            Err(why) => wrong.push(format!("pair {seed}: {why}")),
        }
    }
    println!(
        "{} of {count} pairs are right, {programs} linked programs {}",
        count as usize - wrong.len(),
        if folder.is_some() { "written" } else { "run" }
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
    let wanted = interpreted(&pair)?;
    let programs = linked(tools, &pair)?;
    for program in &programs {
        let fail = |why: String| program.wrong(why);
        if program.makers == [Maker::Orias; 2] {
            judged(&program.cubin).map_err(fail)?;
        }
        let seen = emulated(&program.cubin).map_err(fail)?;
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
    }
    Ok(programs.len())
}

/// The name of a pair's program at a level, in the manifest and as a file.
fn program_name(seed: u64, level: u8) -> String {
    format!("pair{seed}-O{level}")
}

/// How many linked programs of a pair were written.
fn written(tools: &Tools, seed: u64, folder: &Path) -> Result<usize, String> {
    let programs = linked(tools, &pairs::pair(seed))?;
    for program in &programs {
        let fail = |error: std::io::Error| program.wrong(error);
        let [first, second] = program.makers.map(Maker::name);
        let place = folder.join(format!("{first}-{second}"));
        std::fs::create_dir_all(&place).map_err(fail)?;
        let name = format!("{}.cubin", program_name(seed, program.level));
        std::fs::write(place.join(name), &program.cubin).map_err(fail)?;
    }
    Ok(programs.len())
}

/// Writes the launches of all pairs, as `gpu launches` reads them.
fn manifest(folder: &Path, seeds: &[u64]) -> Result<(), String> {
    let names = seeds
        .iter()
        .flat_map(|&seed| LEVELS.map(|level| program_name(seed, level)));
    let tests: Vec<Value> = names
        .map(|name| {
            json!({
                "ptx": format!("{name}.ptx"), "name": name, "kernel": KERNEL, "grid": SHAPE.0, "block": SHAPE.1,
                "smem": 0, "args": [{ "poison": OUTPUT_BYTES }], "esize": 4, "tags": [],
            })
        })
        .collect();
    let path = folder.join("manifest.json");
    std::fs::write(&path, json!({ "tests": tests }).to_string())
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// A pair's programs: each combination at each level.
fn linked(tools: &Tools, pair: &Pair) -> Result<Vec<Linked>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path();
    let mut programs = Vec::new();
    for level in LEVELS {
        let mut objects = Vec::new();
        for maker in [Maker::Orias, Maker::Ptxas] {
            for (number, text) in pair.modules.iter().enumerate() {
                let path = folder.join(format!("{}{number}.o", maker.name()));
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
            let mut program = Linked {
                makers,
                level,
                cubin: Vec::new(),
            };
            let cubin = folder.join("linked.cubin");
            let said = Command::new(&tools.nvlink)
                .arg("-arch=sm_90")
                .arg(object(makers[0], 0))
                .arg(object(makers[1], 1))
                .arg("-o")
                .arg(&cubin)
                .output()
                .map_err(|error| program.wrong(format!("nvlink: {error}")))?;
            if !said.status.success() {
                return Err(program.wrong(String::from_utf8_lossy(&said.stderr)));
            }
            program.cubin = std::fs::read(&cubin).map_err(|error| program.wrong(error))?;
            programs.push(program);
        }
    }
    Ok(programs)
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
