//! Programs about declarations ([`orias_generate::ptx::declarations`]): what ptxas, the interpreter and this compiler make of them.
//!
//! The witness is ptxas -O0's code: on a GPU (`gpu declarations`), or, while nobody has asked one, in the emulator. What it saw is
//! recorded in `xtask/data/declarations-sm90.txt.gz` with the programs themselves, so `cargo test -p xtask` can ask the interpreter and
//! this compiler again without either.

pub mod record;

use crate::programs::interpret;
use crate::{gpu::job::Argument, programs};
use orias::{Kind, Options, Source, Target, compile};
use orias_generate::ptx::declarations::{KERNEL, OUTPUT_BYTES};
use orias_reference::Launch;
use std::fmt;

/// Steps after which a program counts as endless; they take some hundred.
const STEPS: u64 = 1_000_000;

/// A module and the bytes of its kernel's arguments behind the first, the address of the output.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub text: &'a str,
    pub arguments: &'a [Vec<u8>],
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The module is wrong, says the assembler.
    Refused(String),
    /// The module is right, but something in it is not compiled yet.
    Unsupported(String),
    /// The program, or who runs it, stopped.
    Stopped(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Unsupported(why) => write!(f, "unsupported: {why}"),
            Self::Stopped(why) => write!(f, "stopped: {why}"),
        }
    }
}

impl Subject<'_> {
    /// What the interpreter leaves in the output.
    pub fn interpreted(self) -> Result<Vec<u8>, Failure> {
        let mut arguments = vec![Argument::Buffer(vec![0; OUTPUT_BYTES])];
        arguments.extend(self.arguments.iter().cloned().map(Argument::Scalar));
        let launch = Launch {
            check_uninitialised: true,
            step_limit: Some(STEPS),
            ..Launch::new(KERNEL, [1, 1, 1], [1, 1, 1])
        };
        let mut buffers =
            interpret(self.text.as_bytes(), launch, &arguments).map_err(Failure::Stopped)?;
        Ok(buffers.swap_remove(0))
    }

    /// What the emulator leaves in the output.
    pub fn emulated(self, cubin: &[u8]) -> Result<Vec<u8>, Failure> {
        let stopped = |why: String| Failure::Stopped(why);
        let mut device = orias_sim::Device::new();
        let module = device
            .load(cubin)
            .map_err(|error| stopped(error.to_string()))?;
        let output = device.allocate(&[0; OUTPUT_BYTES]);
        let mut arguments = vec![output.to_le_bytes().to_vec()];
        arguments.extend(self.arguments.iter().cloned());
        let launch = orias_sim::Launch {
            kernel: KERNEL.to_owned(),
            grid: [1, 1, 1],
            block: [1, 1, 1],
            cluster: None,
            dynamic_shared: 0,
            arguments,
        };
        let options = orias_sim::Options {
            timing: orias_sim::Timing::Strict,
            max_steps: Some(STEPS),
            ..orias_sim::Options::default()
        };
        let outcome = device.launch(&module, &launch, &options);
        let outcome = outcome.map_err(|error| stopped(error.to_string()))?;
        if let Some(fault) = outcome.fault {
            return Err(stopped(fault.to_string()));
        }
        device
            .read(output, OUTPUT_BYTES)
            .ok_or_else(|| stopped("the output is gone".to_owned()))
    }

    /// What this compiler makes of the module at a level.
    pub fn compiled(self, level: u8) -> Result<Vec<u8>, Failure> {
        let options = Options {
            target: Target::parse("sm_90a")
                .ok_or_else(|| Failure::Stopped("sm_90a is no target".into()))?,
            opt_level: level,
            ..Options::default()
        };
        let source = Source {
            name: "program",
            text: self.text.as_bytes(),
        };
        match compile(&source, &options) {
            Ok(compiled) => compiled
                .cubin
                .ok_or_else(|| Failure::Stopped("no cubin was made".into())),
            Err(found) => {
                // What is wrong comes before what is missing.
                let wrong = found.iter().find(|it| matches!(it.kind, Kind::Input));
                let first = wrong.or_else(|| found.iter().next());
                Err(match first {
                    Some(it) => match it.kind {
                        Kind::Input => Failure::Refused(it.to_string()),
                        Kind::Unsupported { .. } => Failure::Unsupported(it.to_string()),
                        Kind::Internal { .. } | Kind::Stopped => Failure::Stopped(it.to_string()),
                    },
                    None => Failure::Stopped("no reason given".into()),
                })
            }
        }
    }

    /// What ptxas -O0 makes of the module.
    pub fn assembled(self) -> Result<Vec<u8>, Failure> {
        programs::assemble(self.text.as_bytes(), "O0").map_err(|why| {
            let first = why
                .lines()
                .find(|line| line.contains("error") || line.contains("fatal"));
            let first = first
                .or_else(|| why.lines().next())
                .unwrap_or("no reason given");
            // Without the path of the file.
            let (_, what) = first.split_once("; ").unwrap_or(("", first));
            Failure::Refused(what.trim_start_matches("ptxas ").to_owned())
        })
    }

    /// What disagrees with the witness: what it saw, or why ptxas refused. The first words tell kinds of findings apart.
    pub fn findings(self, witness: Result<&[u8], &str>) -> Vec<String> {
        let mut findings = Vec::new();
        let expected = match witness {
            Ok(seen) => seen,
            Err(why) if EXPLAINED.iter().any(|explained| why.contains(explained)) => {
                return findings;
            }
            Err(why) => {
                for level in LEVELS {
                    let accepted = match self.compiled(level) {
                        Err(Failure::Refused(_)) => continue,
                        Err(other) => other.to_string(),
                        Ok(_) => "accepted".to_owned(),
                    };
                    findings.push(format!("orias-O{level} should refuse ({why}): {accepted}"));
                }
                return findings;
            }
        };
        let mut compare = |who: String, seen: Result<Vec<u8>, Failure>| match seen {
            Ok(seen) => {
                if let Some(at) = seen.iter().zip(expected).position(|(a, b)| a != b) {
                    let word = |bytes: &[u8]| hex(&bytes[at & !7..(at & !7) + 8]);
                    findings.push(format!(
                        "{who} differs: at byte {at}, {} not {}",
                        word(&seen),
                        word(expected)
                    ));
                }
            }
            Err(Failure::Unsupported(what)) if LATER.iter().any(|later| what.contains(later)) => {}
            Err(failure) => findings.push(format!("{who} {failure}")),
        };
        compare("interpreter".to_owned(), self.interpreted());
        for level in LEVELS {
            let seen = self.compiled(level).and_then(|cubin| self.emulated(&cubin));
            compare(format!("orias-O{level}"), seen);
        }
        findings
    }
}

/// What ptxas refuses and we take, as the errata say.
const EXPLAINED: [&str; 1] = ["In ABI compilation"];

/// What this compiler says it cannot do yet, and may.
const LATER: [&str; 1] = ["the managed variable"];

/// Levels of this compiler that are compared.
pub const LEVELS: [u8; 2] = [0, 3];

/// Bytes as digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_programs_are_seen_alike() {
        let record =
            record::Record::unpack(include_bytes!("../../data/declarations-sm90.txt.gz")).unwrap();
        let found = crate::parallel::map(&record.programs, |program| {
            let subject = Subject {
                text: &program.text,
                arguments: &program.arguments,
            };
            let findings = subject.findings(program.seen.as_deref().map_err(String::as_str));
            (!findings.is_empty())
                .then(|| format!("program {}: {}", program.seed, findings.join("; ")))
        });
        let found: Vec<String> = found.into_iter().flatten().collect();
        assert!(
            found.is_empty(),
            "{} of {}:\n{}",
            found.len(),
            record.programs.len(),
            found.join("\n")
        );
        assert!(record.programs.len() >= 1000);
    }
}
