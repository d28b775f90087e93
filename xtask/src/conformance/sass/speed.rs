//! How fast: encode, decode and disassemble, the last against nvdisasm on the same files in the same run.
//!
//! Processor time counts, not the clock on the wall: the machine may be busy with other things. For nvdisasm it is what the
//! system charged its processes with; for us, the shortest of several rounds from the bytes of a file to its listing.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use orias_cubin::Cubin;
use orias_sass::text::ListingStyle;
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
    let mut cubins = Vec::new();
    let mut theirs = Duration::ZERO;
    for module in modules {
        let Some(path) = corpus_words::assemble_to(module, folder.path())? else {
            continue;
        };
        let before = children_time()?;
        nvdisasm::plain(&path)?;
        theirs += children_time()?.saturating_sub(before);
        let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
        let cubin = Cubin::read(&bytes).map_err(|error| error.to_string())?;
        for function in cubin.functions() {
            words.extend(orias::words(function.code));
        }
        cubins.push(bytes);
    }
    let instructions: Vec<_> = words
        .iter()
        .filter_map(|word| decode(*word, Target::Sm90a).ok())
        .collect();
    println!(
        "{} instructions of {} files, {} decoded",
        words.len(),
        cubins.len(),
        instructions.len()
    );
    let decoding = best(&words, CHUNK, |words| {
        for word in words {
            let _ = black_box(decode(black_box(*word), Target::Sm90a));
        }
    });
    let encoding = best(&instructions, CHUNK, |instructions| {
        for instruction in instructions {
            let _ = black_box(encode(black_box(instruction)));
        }
    });
    let listing = best(&cubins, 1, |cubins| {
        for bytes in cubins {
            let cubin = Cubin::read(bytes);
            black_box(
                cubin.map(|it| orias::disassemble(&it, Target::Sm90a, ListingStyle::default())),
            )
            .ok();
        }
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

/// The processor time of all processes this one started and waited for.
fn children_time() -> Result<Duration, String> {
    const FILE: &str = "/proc/self/stat";
    /// Of the fields after the name, which may hold spaces: user and system time of children, in ticks of 10 ms.
    const FIELDS: std::ops::Range<usize> = 13..15;
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = fields.get(FIELDS).unwrap_or_default().iter();
    let ticks: Option<u64> = ticks.map(|field| field.parse::<u64>().ok()).sum();
    match ticks {
        Some(ticks) if fields.len() >= FIELDS.end => Ok(Duration::from_millis(ticks * 10)),
        _ => Err(format!("{FILE} does not say how long children ran")),
    }
}

/// The time for all items: the shortest of several rounds over each chunk, together.
fn best<T>(items: &[T], chunk: usize, work: impl Fn(&[T])) -> Duration {
    items
        .chunks(chunk)
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
