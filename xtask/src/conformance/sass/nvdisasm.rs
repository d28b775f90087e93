//! nvdisasm as an oracle: listings of cubins, and texts of raw words.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::oracle;

/// One instruction of a listing.
pub struct Line {
    /// Its section's name.
    pub section: String,
    /// Its address in the section.
    pub address: u64,
    /// The word.
    pub word: u128,
    /// What nvdisasm prints, white space collapsed, without the semicolon.
    pub text: String,
}

/// A disassembled cubin.
#[derive(Default)]
pub struct Listing {
    /// The instructions, in order.
    pub lines: Vec<Line>,
    /// The labels and symbols of each section by address.
    pub labels: BTreeMap<(String, u64), Vec<String>>,
}

/// Reads what `nvdisasm -c -hex` printed.
pub fn read(text: &str) -> Listing {
    let mut listing = Listing {
        lines: Vec::new(),
        labels: BTreeMap::new(),
    };
    let mut section = String::new();
    let mut pending: Vec<String> = Vec::new();
    let mut address_after = 0;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if let Some(rest) = trimmed.strip_prefix(".section") {
            flush(&mut listing, &section, address_after, &mut pending);
            section = rest.trim().split(',').next().unwrap_or_default().to_owned();
            address_after = 0;
        } else if let Some(label) = trimmed.strip_suffix(':') {
            pending.push(label.to_owned());
        } else if let Some((address, rest)) = instruction_start(trimmed) {
            flush(&mut listing, &section, address, &mut pending);
            address_after = address + 16;
            let Some((body, low)) = split_word(rest) else {
                continue;
            };
            let Some((_, high)) = lines.peek().and_then(|next| split_word(next)) else {
                continue;
            };
            listing.lines.push(Line {
                section: section.clone(),
                address,
                word: u128::from(high) << 64 | u128::from(low),
                text: normalize(body),
            });
        }
    }
    flush(&mut listing, &section, address_after, &mut pending);
    listing
}

fn flush(listing: &mut Listing, section: &str, address: u64, pending: &mut Vec<String>) {
    if !pending.is_empty() {
        listing
            .labels
            .entry((section.to_owned(), address))
            .or_default()
            .append(pending);
    }
}

fn instruction_start(line: &str) -> Option<(u64, &str)> {
    let (address, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    Some((u64::from_str_radix(address, 16).ok()?, rest))
}

/// Text and word of `text /* 0x0123456789abcdef */`.
fn split_word(line: &str) -> Option<(&str, u64)> {
    let (body, word) = line.rsplit_once("/* 0x")?;
    let word = word.split_once(" */")?.0;
    Some((body, u64::from_str_radix(word, 16).ok()?))
}

/// Collapses white space and drops the semicolon and the list of possible targets after BRX.
pub fn normalize(text: &str) -> String {
    let text = text.split("(*").next().unwrap_or_default();
    let text = text.trim().trim_end_matches(';');
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Disassembles a cubin, with its words.
pub fn cubin(path: &Path) -> Result<String, String> {
    listing(path, &["-c", "-hex"])
}

/// Disassembles a cubin.
pub fn plain(path: &Path) -> Result<String, String> {
    listing(path, &["-c"])
}

fn listing(path: &Path, options: &[&str]) -> Result<String, String> {
    let output = Command::new(oracle::find("nvdisasm")?)
        .args(options)
        .arg(path)
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!(
            "{}: nvdisasm: {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What nvdisasm says about one raw word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It prints this.
    Text(String),
    /// It refuses.
    Refused(String),
}

/// A word nvdisasm always takes, put in place of those it refuses: a single refused word makes it print nothing.
const NOP: u128 = 0x000f_c000_0000_0000_0000_0000_0000_7918;

/// What nvdisasm makes of each word, at address 16 times its index.
pub fn raw(words: &[u128], arch: &str) -> Result<Vec<Answer>, String> {
    let nvdisasm = oracle::find("nvdisasm")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("words.bin");
    let mut refused: BTreeMap<usize, String> = BTreeMap::new();
    for _ in 0..8 {
        let bytes: Vec<u8> = words
            .iter()
            .enumerate()
            .map(|(index, word)| {
                if refused.contains_key(&index) {
                    NOP
                } else {
                    *word
                }
            })
            .flat_map(u128::to_le_bytes)
            .collect();
        std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
        let output = Command::new(&nvdisasm)
            .args(["-b", arch, "-ndf"])
            .arg(&path)
            .output()
            .map_err(|error| error.to_string())?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            let mut texts: BTreeMap<usize, String> = BTreeMap::new();
            for line in stdout.lines() {
                if let Some((address, rest)) = instruction_start(line.trim()) {
                    texts.insert((address / 16) as usize, normalize(rest));
                }
            }
            return Ok((0..words.len())
                .map(
                    |index| match (refused.remove(&index), texts.remove(&index)) {
                        (Some(reason), _) => Answer::Refused(reason),
                        (None, Some(text)) => Answer::Text(text),
                        (None, None) => Answer::Refused("prints nothing".to_owned()),
                    },
                )
                .collect());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let before = refused.len();
        for line in stderr.lines() {
            let Some((message, address)) = line.rsplit_once(" at address 0x") else {
                continue;
            };
            if let Ok(address) = u64::from_str_radix(address.trim(), 16) {
                let message = message
                    .split_once(':')
                    .map_or(message, |(_, message)| message)
                    .trim();
                refused.insert((address / 16) as usize, message.to_owned());
            }
        }
        if refused.len() == before {
            return Err(format!("nvdisasm: {}", stderr.trim()));
        }
    }
    Err("nvdisasm keeps refusing other words".to_owned())
}
