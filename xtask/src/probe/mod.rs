//! `cargo xtask probe`: what every bit of an instruction word does, learned from what nvdisasm prints.
//!
//! nvdisasm is a black box that turns 128-bit words into text or refuses them. The probe asks it about many words:
//!
//! 1. [`survey`]: which of the 2^13 opcode values (bits 0–11 and 91) are instructions, and which encoding classes each has.
//!    A word whose control field is impossible is refused with a message that names its class, which tells apart forms that
//!    share an opcode.
//! 2. [`bits`]: for each class, from words that print cleanly, every bit is flipped and the change of the text classified:
//!    a bit of an operand's number, part of a modifier, no effect, refused, or another class.
//! 3. [`modifiers`]: bits that change the text otherwise are gathered into fields: two bits belong together when the effect of
//!    one depends on the other. Every value of a field is tried and its text recorded.
//!
//! The findings go to `target/probe/findings.txt`. They are raw material for rows in `crates/sass/tables`, not rows: what an
//! operation reads and writes cannot be seen in text.

mod bits;
mod modifiers;
mod survey;
mod text;

use crate::conformance::sass::nvdisasm::{self, Answer};
use crate::oracle;
use std::fmt::Write;

/// Words per call of nvdisasm: enough to spread its start-up time.
const WORDS_PER_CALL: usize = 16_000;

/// An impossible value of the stall field, and no barriers: nvdisasm refuses every word that has it, naming the class.
const NO_SUCH_STALL: u128 = 16 << 105 | 0b111_111 << 110;
/// A control field every instruction takes.
const CONTROL: u128 = 0x000f_c200_0000_0000 << 64;
/// Bits 12–104: what the probe varies, bit 91 apart.
const BODY: u128 = ((1 << 105) - 1) & !0xfff;

/// `cargo xtask probe [--arch SM90a] [FILTER]`: FILTER is a part of the class names to look at.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut arch = "SM90a".to_owned();
    let mut filter = String::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--arch" => arch = args.next().ok_or("--arch needs a value")?.clone(),
            other if other.starts_with('-') => return Err(format!("unknown option '{other}'")),
            other => other.clone_into(&mut filter),
        }
    }
    let nvdisasm = Nvdisasm { arch };
    let classes = survey::classes(&nvdisasm)?;
    let opcodes: std::collections::BTreeSet<u16> =
        classes.keys().map(|(opcode, _)| *opcode).collect();
    println!("{} opcodes, {} classes", opcodes.len(), classes.len());
    let mut report = String::new();
    for ((opcode, class), samples) in &classes {
        if !class.contains(&filter) {
            continue;
        }
        let _ = writeln!(report, "{opcode:04x} {class}");
        let Some(findings) = bits::flip(&nvdisasm, class, samples)? else {
            let _ = writeln!(report, "  no word prints cleanly");
            continue;
        };
        findings.write(&mut report);
        for field in modifiers::fields(&nvdisasm, class, &findings)? {
            field.write(&mut report);
        }
    }
    let folder = oracle::repository().join("target").join("probe");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let path = folder.join("findings.txt");
    std::fs::write(&path, report).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("findings in {}", path.display());
    Ok(())
}

/// nvdisasm for one architecture.
struct Nvdisasm {
    arch: String,
}

impl Nvdisasm {
    /// What it prints for each word under an ordinary control field; `None` where it refuses.
    fn texts(&self, words: &[u128]) -> Result<Vec<Option<String>>, String> {
        let answers = self.ask(words, CONTROL)?;
        Ok(answers
            .into_iter()
            .map(|answer| match answer {
                Answer::Text(text) => Some(text),
                Answer::Refused(_) => None,
            })
            .collect())
    }

    /// The class of each word; `None` where it is no instruction.
    fn classes(&self, words: &[u128]) -> Result<Vec<Option<String>>, String> {
        let answers = self.ask(words, NO_SUCH_STALL)?;
        Ok(answers
            .into_iter()
            .map(|answer| match answer {
                Answer::Refused(message) => class_named(&message).map(str::to_owned),
                Answer::Text(_) => None,
            })
            .collect())
    }

    fn ask(&self, words: &[u128], control: u128) -> Result<Vec<Answer>, String> {
        let mut answers = Vec::with_capacity(words.len());
        for chunk in words.chunks(WORDS_PER_CALL) {
            let chunk: Vec<u128> = chunk
                .iter()
                .map(|word| word & (BODY | 0xfff) | control)
                .collect();
            answers.extend(nvdisasm::raw(&chunk, &self.arch)?);
        }
        Ok(answers)
    }
}

/// The class in a message such as `Opclass 'nop_', undefined value 0x10 for table …`.
fn class_named(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("Opclass '")?;
    Some(rest.split_once('\'')?.0)
}

/// `12-15, 91`.
fn ranges(bits: &[u8]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < bits.len() {
        let mut end = at;
        while end + 1 < bits.len() && bits[end + 1] == bits[end] + 1 {
            end += 1;
        }
        let separator = if out.is_empty() { "" } else { ", " };
        let _ = if end > at {
            write!(out, "{separator}{}-{}", bits[at], bits[end])
        } else {
            write!(out, "{separator}{}", bits[at])
        };
        at = end + 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{class_named, ranges};

    #[test]
    fn a_refusal_names_the_class() {
        let message = "Opclass 'nop_', undefined value 0x10 for table 'TABLES_opex_1'";
        assert_eq!(class_named(message), Some("nop_"));
        assert_eq!(class_named("Unrecognized operation"), None);
    }

    #[test]
    fn neighbouring_bits_are_one_range() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3, 7, 9-10");
    }
}
