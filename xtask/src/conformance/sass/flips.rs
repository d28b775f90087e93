//! Every single bit of every distinct word flipped: what comes out decodes to something that encodes back to those bits, or is
//! refused.

use std::collections::BTreeSet;
use std::sync::Mutex;

use orias_sass::{Target, decode, encode};

use super::report::Classes;

/// What became of the flipped words.
#[derive(Default)]
pub struct Flips {
    /// Words whose bits were flipped.
    pub words: usize,
    /// Decoded, and encoded back to the same bits.
    pub back: usize,
    /// Refused.
    pub refused: usize,
    /// Decoded, and encoded to something else.
    pub wrong: Classes,
}

/// Words a thread takes at once.
const CHUNK: usize = 4096;

/// Flips each bit of each word.
pub fn run(words: &BTreeSet<u128>, target: Target) -> Flips {
    let words: Vec<u128> = words.iter().copied().collect();
    let chunks = Mutex::new(words.chunks(CHUNK));
    let total = Mutex::new(Flips::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get().min(2)) {
            scope.spawn(|| {
                loop {
                    let next = chunks.lock().expect("no panics").next();
                    let Some(chunk) = next else { break };
                    let mut flips = Flips::default();
                    for word in chunk {
                        flip(*word, target, &mut flips);
                    }
                    let mut total = total.lock().expect("no panics");
                    total.words += flips.words;
                    total.back += flips.back;
                    total.refused += flips.refused;
                    total.wrong.merge(flips.wrong);
                }
            });
        }
    });
    total.into_inner().expect("no panics")
}

fn flip(word: u128, target: Target, flips: &mut Flips) {
    flips.words += 1;
    for bit in 0..128 {
        let flipped = word ^ 1 << bit;
        match decode(flipped, target) {
            Err(_) => flips.refused += 1,
            Ok(instruction) if encode(&instruction) == Ok(flipped) => flips.back += 1,
            Ok(instruction) => flips.wrong.add(instruction.op().name().to_owned(), || {
                format!("bit {bit} of {word:032x}")
            }),
        }
    }
}
