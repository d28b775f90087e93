//! ptxas's verdicts, remembered.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::oracle;

/// What ptxas says about a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    /// With its first complaint.
    Refused(String),
}

/// ptxas and what it said before.
pub struct Oracle {
    ptxas: PathBuf,
    architecture: String,
    known: HashMap<u64, Verdict>,
    memory: std::fs::File,
}

/// Two processes at a time: the machine has others to serve.
const PROCESSES: usize = 2;

impl Oracle {
    pub fn open(ptxas: &Path, architecture: &str) -> Result<Oracle, String> {
        let folder = oracle::repository().join("target/ptx-oracle");
        let say = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(&folder).map_err(say)?;
        let path = folder.join(architecture);
        let mut known = HashMap::new();
        for line in std::fs::read_to_string(&path).unwrap_or_default().lines() {
            if let Some((hash, message)) = line.split_once(' ')
                && let Ok(hash) = u64::from_str_radix(hash, 16)
            {
                let verdict = match message {
                    "ok" => Verdict::Accepted,
                    other => Verdict::Refused(other.to_owned()),
                };
                known.insert(hash, verdict);
            }
        }
        let memory = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(say)?;
        Ok(Oracle {
            ptxas: ptxas.to_owned(),
            architecture: architecture.to_owned(),
            known,
            memory,
        })
    }

    /// The verdict on each program.
    pub fn judge(&mut self, programs: &[String]) -> Result<Vec<Verdict>, String> {
        let fresh: Vec<&String> = programs
            .iter()
            .filter(|program| !self.known.contains_key(&hash(program)))
            .collect();
        let next = AtomicUsize::new(0);
        let found = Mutex::new((Vec::<(u64, Verdict)>::new(), &mut self.memory));
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..PROCESSES)
                .map(|worker| {
                    let (next, found, fresh, ptxas) = (&next, &found, &fresh, &self.ptxas);
                    let architecture = &self.architecture;
                    let path = folder.path().join(format!("{worker}.ptx"));
                    scope.spawn(move || -> Result<(), String> {
                        while let Some(program) = fresh.get(next.fetch_add(1, Ordering::Relaxed)) {
                            let verdict = ask(ptxas, architecture, &path, program)?;
                            let key = hash(program);
                            let text = match &verdict {
                                Verdict::Accepted => "ok",
                                Verdict::Refused(message) => message,
                            };
                            if let Ok(mut found) = found.lock() {
                                // Written at once, so that a run that is stopped was not in vain.
                                writeln!(found.1, "{key:016x} {text}")
                                    .map_err(|error| error.to_string())?;
                                found.0.push((key, verdict));
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            for worker in workers {
                worker.join().map_err(|_| "a worker stopped".to_owned())??;
            }
            Ok::<(), String>(())
        })?;
        let found = found
            .into_inner()
            .map_err(|_| "a worker stopped".to_owned())?;
        self.known.extend(found.0);
        programs
            .iter()
            .map(|program| {
                self.known
                    .get(&hash(program))
                    .cloned()
                    .ok_or_else(|| "a program has no verdict".to_owned())
            })
            .collect()
    }
}

/// FNV-1a: the same number for the same text on every machine.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn ask(ptxas: &Path, architecture: &str, path: &Path, program: &str) -> Result<Verdict, String> {
    std::fs::write(path, program).map_err(|error| format!("{}: {error}", path.display()))?;
    let output = oracle::bounded(ptxas)
        .arg(format!("-arch={architecture}"))
        .args(["-O0", "-o"])
        .arg(path.with_extension("out"))
        .arg(path)
        .output()
        .map_err(|error| format!("{}: {error}", ptxas.display()))?;
    if output.status.success() {
        return Ok(Verdict::Accepted);
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let complaint = text
        .lines()
        .find_map(|line| {
            let at = line
                .find("error   : ")
                .or_else(|| line.find("fatal   : "))?;
            Some(line[at + 10..].to_owned())
        })
        .unwrap_or_else(|| format!("ptxas ended with {}", output.status));
    Ok(Verdict::Refused(complaint))
}
