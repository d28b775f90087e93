//! What the witness saw, as a file.
//!
//! The first line names the witness. Each program is a line `program SEED`, a line `arguments` with the bytes of each argument, a line
//! `refused` with ptxas's reason or `saw` with the output's bytes (zeros at its end left out), a line `text` with a count, and that many lines of PTX. All of it
//! is compressed.

use super::hex;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use orias_generate::ptx::declarations::OUTPUT_BYTES;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};

/// A program and what the witness saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub seed: u64,
    pub text: String,
    pub arguments: Vec<Vec<u8>>,
    /// The output, or why the module was refused.
    pub seen: Result<Vec<u8>, String>,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who saw it.
    pub witness: String,
    pub programs: Vec<Recorded>,
}

impl Recorded {
    /// The lines of one program.
    pub fn to_text(&self) -> String {
        let mut text = format!("program {}\narguments", self.seed);
        for argument in &self.arguments {
            text.push(' ');
            text += &hex(argument);
        }
        match &self.seen {
            Err(why) => {
                text += "\nrefused ";
                text += why;
            }
            Ok(seen) => {
                let end = seen
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |at| at + 1);
                text += "\nsaw ";
                text += &hex(&seen[..end]);
            }
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\ntext {}", self.text.lines().count());
        for line in self.text.lines() {
            text += line;
            text.push('\n');
        }
        text
    }
}

/// The bytes that digits stand for.
fn bytes(digits: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("'{digits}' is not bytes");
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong()))
        .collect()
}

/// The programs of some lines.
pub fn parse_programs(text: &str) -> Result<Vec<Recorded>, String> {
    let mut lines = text.lines();
    let mut programs = Vec::new();
    let mut next = |what: &str| -> Result<Option<String>, String> {
        let Some(line) = lines.next() else {
            return Ok(None);
        };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (what, word) {
            ("", _) => Ok(Some(line.to_owned())),
            (what, word) if what == word => Ok(Some(rest.to_owned())),
            ("saw", "refused") => Ok(Some(line.to_owned())),
            _ => Err(format!("a line with '{what}' was expected, not '{line}'")),
        }
    };
    let short = || "the record ends in the middle of a program".to_owned();
    while let Some(seed) = next("program")? {
        let seed = seed.parse().map_err(|_| format!("'{seed}' is no seed"))?;
        let arguments = next("arguments")?.ok_or_else(short)?;
        let arguments = arguments
            .split_whitespace()
            .map(bytes)
            .collect::<Result<_, _>>()?;
        let seen = next("saw")?.ok_or_else(short)?;
        let seen = match seen.strip_prefix("refused ") {
            Some(why) => Err(why.to_owned()),
            None => {
                let mut seen = bytes(&seen)?;
                seen.resize(OUTPUT_BYTES.max(seen.len()), 0);
                Ok(seen)
            }
        };
        let count = next("text")?.ok_or_else(short)?;
        let count: usize = count
            .parse()
            .map_err(|_| format!("'{count}' is no count"))?;
        let mut text = String::new();
        for _ in 0..count {
            text += &next("")?.ok_or_else(short)?;
            text.push('\n');
        }
        programs.push(Recorded {
            seed,
            text,
            arguments,
            seen,
        });
    }
    Ok(programs)
}

impl Record {
    /// Reads a file's bytes.
    pub fn unpack(packed: &[u8]) -> Result<Self, String> {
        let mut text = String::new();
        let read = GzDecoder::new(packed).read_to_string(&mut text);
        read.map_err(|error| format!("the record is not compressed text: {error}"))?;
        let (witness, rest) = text
            .split_once('\n')
            .ok_or("the record has no first line")?;
        Ok(Self {
            witness: witness.to_owned(),
            programs: parse_programs(rest)?,
        })
    }

    /// Writes a file.
    pub fn write(&self, path: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{path}: {error}");
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        let mut text = format!("{}\n", self.witness);
        for program in &self.programs {
            text += &program.to_text();
        }
        packer.write_all(text.as_bytes()).map_err(failed)?;
        let packed = packer.finish().map_err(failed)?;
        std::fs::write(path, &packed).map_err(failed)?;
        println!(
            "{} programs seen by {}, {} bytes in {path}",
            self.programs.len(),
            self.witness,
            packed.len()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let programs = vec![
            Recorded {
                seed: 3,
                text: ".version 8.3\n\n.target sm_90a\n".to_owned(),
                arguments: vec![vec![1, 2], vec![255]],
                seen: Ok([vec![0, 7], vec![0; OUTPUT_BYTES - 2]].concat()),
            },
            Recorded {
                seed: 4,
                text: "program 9\n".to_owned(),
                arguments: Vec::new(),
                seen: Err("error : no".to_owned()),
            },
        ];
        let text: String = programs.iter().map(Recorded::to_text).collect();
        assert_eq!(parse_programs(&text).unwrap(), programs);
        for broken in [
            "program x",
            "program 1\narguments 1",
            "program 1",
            "text 3",
            "program 1\narguments\nsaw 00\ntext 2\nx",
        ] {
            assert!(parse_programs(broken).is_err(), "{broken}");
        }
    }
}
