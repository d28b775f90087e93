//! How fast: encode, decode and disassemble, the last against nvdisasm on the same files in the same run.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orias_sass::text::{CodeSection, ListingStyle, list};
use orias_sass::{Target, decode, encode};

use super::corpus_words;
use super::nvdisasm;

/// What issue and design ask for.
const WANTED_PER_SECOND: f64 = 5e6;
const WANTED_TIMES_FASTER: f64 = 200.0;

/// Rounds over each chunk of words. The best of each counts, as the machine may be busy with other things.
const ROUNDS: usize = 9;
/// Few enough to fit between two turns of other processes.
const CHUNK: usize = 1000;

/// Measures over the modules, assembled at -O3.
pub fn run(modules: &[PathBuf]) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut words = Vec::new();
    let mut theirs = Duration::ZERO;
    let mut files = 0;
    for module in modules {
        let Some(cubin) = corpus_words::assemble_to(module, folder.path())? else {
            continue;
        };
        let (text, time) = timed_listing(&cubin)?;
        theirs += time;
        files += 1;
        let listing = nvdisasm::read(&text);
        words.extend(listing.lines.iter().map(|line| line.word));
    }
    let instructions: Vec<_> = words
        .iter()
        .filter_map(|word| decode(*word, Target::Sm90a).ok())
        .collect();
    println!(
        "{} instructions of {files} files, {} decoded",
        words.len(),
        instructions.len()
    );
    let decoding = best(&words, |words| {
        for word in words {
            let _ = black_box(decode(black_box(*word), Target::Sm90a));
        }
    });
    let encoding = best(&instructions, |instructions| {
        for instruction in instructions {
            let _ = black_box(encode(black_box(instruction)));
        }
    });
    let listing = best(&words, |words| {
        let section = CodeSection {
            words,
            ..CodeSection::default()
        };
        let mut text = String::new();
        for listed in list(&[section], Target::Sm90a) {
            listed.write(&mut text, words, ListingStyle::default());
        }
        black_box(text);
    });
    let rate = |count: usize, time: Duration| count as f64 / time.as_secs_f64();
    let decode_rate = rate(words.len(), decoding);
    let encode_rate = rate(instructions.len(), encoding);
    let times = theirs.as_secs_f64() / listing.as_secs_f64();
    println!(
        "decode: {:.1} million instructions a second",
        decode_rate / 1e6
    );
    println!(
        "encode: {:.1} million instructions a second",
        encode_rate / 1e6
    );
    println!(
        "disassemble: {:.1} million instructions a second; {listing:.1?} against {theirs:.1?} of nvdisasm, {times:.0} times \
         as fast",
        rate(words.len(), listing) / 1e6
    );
    if cfg!(debug_assertions) {
        println!(
            "(an unoptimised build: run `cargo run --release -p xtask -- conformance sass --speed`)"
        );
        return Ok(());
    }
    if decode_rate < WANTED_PER_SECOND
        || encode_rate < WANTED_PER_SECOND
        || times < WANTED_TIMES_FASTER
    {
        return Err("slower than wanted".to_owned());
    }
    Ok(())
}

/// The listing with words, and how long the listing without words takes nvdisasm.
fn timed_listing(cubin: &Path) -> Result<(String, Duration), String> {
    let start = Instant::now();
    nvdisasm::plain(cubin)?;
    let time = start.elapsed();
    Ok((nvdisasm::cubin(cubin)?, time))
}

fn best<T>(items: &[T], work: impl Fn(&[T])) -> Duration {
    items
        .chunks(CHUNK)
        .map(|chunk| {
            (0..ROUNDS)
                .map(|_| {
                    let start = Instant::now();
                    work(chunk);
                    start.elapsed()
                })
                .min()
                .unwrap_or_default()
        })
        .sum()
}
