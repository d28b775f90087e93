//! nvcc with our ptxas: a shadow of NVIDIA's public packages, and what nvcc does there with each of the options that reach ptxas.
//!
//! `conformance toolkit [FILTER]`. Each row is a command line of nvcc. It runs with the toolkit itself and with the shadow, in a folder of its
//! own each, and must end alike, leave files of the same names, and say the same but for numbers, paths and times. Where it ends with what
//! Orias names as not supported yet, that is counted and printed. Every compilation of the shadow must have been Orias's.

use crate::oracle;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

/// A module with what the options ask about: shared memory and a barrier. It has no function that is called: which of those are left is for
/// each compiler to say.
const SOURCE: &str = "\
extern \"C\" __global__ void reverse(float *data, int n)
{
    __shared__ float part[128];
    int at = threadIdx.x;
    if (at < n)
        part[at] = 2 * data[at];
    __syncthreads();
    if (at < n)
        data[at] = part[n - 1 - at];
}
";

/// The second half of a program in two.
const CALLER: &str = "\
extern __device__ float twice(float);
extern \"C\" __global__ void caller(float *data) { data[threadIdx.x] = twice(data[threadIdx.x]); }
";
const CALLEE: &str = "__device__ float twice(float x) { return x + x; }\n";

/// What nvcc is told; several commands are given one after the other.
const ROWS: &[(&str, &[&str])] = &[
    ("version", &["--version"]),
    ("cubin", &["-cubin module.cu -o module.cubin"]),
    ("fatbin", &["-fatbin module.cu -o module.fatbin"]),
    ("object", &["-c module.cu -o module.o"]),
    ("dryrun", &["-dryrun -cubin module.cu -o module.cubin"]),
    ("keep", &["-keep -cubin module.cu -o module.cubin"]),
    ("keep-dir", &["-keep -keep-dir . -c module.cu -o module.o"]),
    ("verbose", &["-v -cubin module.cu -o module.cubin"]),
    (
        "resource-usage",
        &["--resource-usage -cubin module.cu -o module.cubin"],
    ),
    (
        "Xptxas",
        &["-Xptxas -v,-O1 -Xptxas --warn-on-spills -cubin module.cu -o module.cubin"],
    ),
    (
        "maxrregcount",
        &["-maxrregcount=32 -Xptxas -v -cubin module.cu -o module.cubin"],
    ),
    ("lineinfo", &["-lineinfo -cubin module.cu -o module.cubin"]),
    (
        "threads",
        &[
            "-t 2 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90a,code=sm_90a -c module.cu -o module.o",
        ],
    ),
    (
        "wrong",
        &["-Xptxas --nonsense -cubin module.cu -o module.cubin"],
    ),
    ("G", &["-G -cubin module.cu -o module.cubin"]),
    (
        "rdc",
        &[
            "-rdc=true -c caller.cu -o caller.o",
            "-rdc=true -c callee.cu -o callee.o",
            "-dlink caller.o callee.o -o linked.o",
        ],
    ),
];

/// What Orias says of what it does not do.
const NOT_YET: &str = "Not supported yet";

/// How a row ended in one of the toolkits.
struct Run {
    success: bool,
    said: String,
    files: BTreeSet<String>,
}

pub fn run(args: &[String]) -> Result<(), String> {
    let filter = args.first().map_or("", String::as_str);
    let nvcc = oracle::find("nvcc")?;
    let toolkit = nvcc.ancestors().nth(2).ok_or("nvcc lies nowhere")?;
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let shadow = scratch.path().join("shadow");
    let orias = super::refused::command()?;
    let made = Command::new(&orias)
        .arg("toolkit")
        .arg(&shadow)
        .arg("--cuda")
        .arg(toolkit)
        .output()
        .map_err(|error| format!("{}: {error}", orias.display()))?;
    if !made.status.success() {
        return Err(said(&made));
    }
    let (mut same, mut missing, mut wrong) = (0, Vec::new(), Vec::new());
    for (name, commands) in ROWS.iter().filter(|(name, _)| name.contains(filter)) {
        let folder = scratch.path().join(name);
        let theirs = row(
            &toolkit.join("bin/nvcc"),
            &folder.join("theirs"),
            commands,
            None,
        )?;
        let log = folder.join("log");
        let ours = row(
            &shadow.join("bin/nvcc"),
            &folder.join("ours"),
            commands,
            Some(&log),
        )?;
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        if ours.said.contains(NOT_YET) {
            missing.push(*name);
        } else if let Some(difference) = differ(&theirs, &ours) {
            wrong.push(format!("{name}: {difference}"));
        } else if log.lines().any(|line| !line.contains("\"by\":\"orias\"")) {
            wrong.push(format!("{name}: somebody else compiled"));
        } else {
            same += 1;
        }
    }
    println!(
        "{same} command lines of nvcc end as with ptxas; not supported yet: {}",
        if missing.is_empty() {
            "none".into()
        } else {
            missing.join(", ")
        }
    );
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// Runs a row's commands in a new folder.
fn row(nvcc: &Path, folder: &Path, commands: &[&str], log: Option<&Path>) -> Result<Run, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    for (name, text) in [
        ("module.cu", SOURCE),
        ("caller.cu", CALLER),
        ("callee.cu", CALLEE),
    ] {
        std::fs::write(folder.join(name), text).map_err(failed)?;
    }
    let mut run = Run {
        success: true,
        said: String::new(),
        files: BTreeSet::new(),
    };
    for words in commands {
        let mut command = Command::new(nvcc);
        command.current_dir(folder).args(words.split(' '));
        if !words.contains("-gencode") && !words.contains("--version") {
            command.arg("-arch=sm_90a");
        }
        if let Some(log) = log {
            command.env("ORIAS_LOG", log);
        }
        let output = command
            .output()
            .map_err(|error| format!("{}: {error}", nvcc.display()))?;
        run.said += &said(&output);
        run.success &= output.status.success();
    }
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        run.files.insert(plain(&name.to_string_lossy()));
    }
    Ok(run)
}

fn said(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// A text without what may differ: numbers are one letter, and so is a word with a path.
fn plain(text: &str) -> String {
    let word = |word: &str| match word.contains('/') {
        true => "PATH".to_owned(),
        false => {
            let mut out = String::new();
            for letter in word.chars() {
                match letter.is_ascii_digit() {
                    true if out.ends_with('0') => {}
                    true => out.push('0'),
                    false => out.push(letter),
                }
            }
            out
        }
    };
    let words: Vec<String> = text.split_whitespace().map(word).collect();
    words.join(" ")
}

/// The lines that are said, as a set: threads of nvcc talk in any order. Names of temporary files and codes of chips are numbers.
fn lines(text: &str) -> BTreeSet<String> {
    let relevant = |line: &&str| {
        line.starts_with("ptxas") || line.contains("release") || line.starts_with("#$ ptxas")
    };
    text.lines().filter(relevant).map(plain).collect()
}

/// How two runs differ, if they do.
fn differ(theirs: &Run, ours: &Run) -> Option<String> {
    if theirs.success != ours.success {
        return Some(format!("ended otherwise: {}", ours.said));
    }
    if theirs.files != ours.files {
        return Some(format!(
            "files {:?} instead of {:?}",
            ours.files, theirs.files
        ));
    }
    let (theirs, ours) = (lines(&theirs.said), lines(&ours.said));
    let only: Vec<&String> = ours.symmetric_difference(&theirs).collect();
    (!only.is_empty()).then(|| format!("said by one of them only: {only:#?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_paths_do_not_count() {
        assert_eq!(
            plain("ptxas info : Used 12 registers in /tmp/x.ptx"),
            plain("ptxas info : Used 8 registers in /var/y.ptx")
        );
        assert_ne!(plain("used 1 barriers"), plain("used 1 registers"));
    }
}
