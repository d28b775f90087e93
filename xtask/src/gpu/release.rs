//! `gpu release`: how many cycles after a reader of fixed latency its sources may be overwritten.
//!
//! Every trial gives the sources of an instruction old values, lets it read them, overwrites one register `distance` cycles later,
//! and stores the result. The smallest distance from which on all trials give the result of the old value is the distance of the
//! pair. As in [`super::latency`], each trial runs alone and with two instructions of its kind right before it, which keep the unit
//! busy, with one warp and with sixteen; every warp has answers of its own.
//!
//! And how many cycles after an instruction that sets a barrier a wait for it sees that: with less, the wait is over before it began,
//! and the reader sees the old value.

use super::bare::Code;
use super::driver::Gpu;
use std::collections::BTreeMap;

/// The longest distance that is tried; at this one every reader has surely read.
const LONGEST: usize = 24;

/// Warps of the larger launch.
const WARPS: usize = 16;

/// An instruction that reads R12 to R23 and writes registers from R24 on. `$` stands for the number of its result.
struct Reader {
    class: &'static str,
    text: &'static str,
    /// The registers to overwrite.
    sources: &'static [u8],
}

const fn reader(class: &'static str, text: &'static str, sources: &'static [u8]) -> Reader {
    Reader {
        class,
        text,
        sources,
    }
}

/// A in R12 to R15, B in R16 and R17, C in R20 to R23, as far as the shape needs them.
const READERS: &[Reader] = &[
    reader(
        "HMMA.16816.F32",
        "HMMA.16816.F32 R$, R12, R16, R20",
        &[12, 15, 16, 17, 20, 23],
    ),
    reader(
        "HMMA.16816.F32.BF16",
        "HMMA.16816.F32.BF16 R$, R12, R16, R20",
        &[12, 15, 16, 17, 20, 23],
    ),
    reader(
        "HMMA.16816.F16",
        "HMMA.16816.F16 R$, R12, R16, R20",
        &[12, 15, 16, 17, 20, 21],
    ),
    reader(
        "HMMA.1688.F32.TF32",
        "HMMA.1688.F32.TF32 R$, R12, R16, R20",
        &[12, 15, 16, 17, 20, 23],
    ),
    reader(
        "HMMA.1684.F32.TF32",
        "HMMA.1684.F32.TF32 R$, R12, R16, R20",
        &[12, 13, 16, 20, 23],
    ),
    reader(
        "HMMA.1688.F16",
        "HMMA.1688.F16 R$, R12, R16, R20",
        &[12, 13, 16, 20, 21],
    ),
    reader(
        "IMMA.16816",
        "IMMA.16816.S8.S8 R$, R12.ROW, R16.COL, R20",
        &[12, 13, 16, 20, 23],
    ),
    reader(
        "IMMA.16832",
        "IMMA.16832.S8.S8 R$, R12.ROW, R16.COL, R20",
        &[12, 15, 16, 17, 20, 23],
    ),
    reader(
        "IMMA.8816",
        "IMMA.8816.S8.S8 R$, R12.ROW, R16.COL, R20",
        &[12, 16, 20, 21],
    ),
    reader(
        "BMMA.168256",
        "BMMA.168256.AND.POPC R$, R12.ROW, R16.COL, R20",
        &[12, 15, 16, 17, 20, 23],
    ),
    reader("DFMA", "DFMA R$, R12, R16, R20", &[12, 13, 16, 17, 20, 21]),
    reader("FFMA", "FFMA R$, R12, R16, R20", &[12, 16, 20]),
    reader("HFMA2", "HFMA2 R$, R12, R16, R20", &[12, 16, 20]),
    reader("HFMA2.MMA", "HFMA2.MMA R$, R12, R16, R20", &[12, 16, 20]),
    reader(
        "IMAD.WIDE",
        "IMAD.WIDE R$, R12, R16, R20",
        &[12, 16, 20, 21],
    ),
    reader("IADD3", "IADD3 R$, R12, R16, R20", &[12, 16, 20]),
];

/// What overwrites register `$`.
const WRITERS: &[(&str, &str)] = &[
    ("MOV", "MOV R$, R7"),
    ("IMAD.MOV", "IMAD.MOV.U32 R$, RZ, RZ, R7"),
];

/// What sets write barrier 2 and writes R24 some time later.
const SETTERS: &[(&str, &str)] = &[
    ("MUFU", "MUFU.RCP R24, R12"),
    ("F2I", "F2I.TRUNC.NTZ R24, R12"),
    ("SHFL", "SHFL.IDX PT, R24, R12, RZ, 0x1f"),
    ("S2R", "S2R R24, SR_TID.X"),
    ("LDC", "LDC R24, c[0x0][0x210]"),
    ("LDG", "LDG.E R24, desc[UR4][R2.64]"),
];

/// One trial at every distance.
struct Pair {
    reader: usize,
    source: u8,
    writer: usize,
    busy: bool,
}

fn pairs() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (reader, row) in READERS.iter().enumerate() {
        for &source in row.sources {
            for writer in 0..WRITERS.len() {
                pairs.extend([false, true].map(|busy| Pair {
                    reader,
                    source,
                    writer,
                    busy,
                }));
            }
        }
    }
    pairs
}

/// An instruction that waits for both barriers of the trials.
fn push(code: &mut Code, text: &str, stall: usize, barriers: &str) -> Result<(), String> {
    let control = format!("B01----:{barriers}:-:S{stall:02}");
    code.push(&control, text).map(|_| ())
}

fn settled(code: &mut Code, text: &str) -> Result<(), String> {
    push(code, text, 15, "R-:W-")
}

fn drain(code: &mut Code) -> Result<(), String> {
    (0..3).try_for_each(|_| settled(code, "NOP"))
}

/// The trial of a pair; at distance 0 the register is overwritten before it is read.
fn trial(code: &mut Code, pair: &Pair, distance: usize, slot: usize) -> Result<(), String> {
    let reader = &READERS[pair.reader];
    let read = |result: &str| reader.text.replace('$', result);
    let write = WRITERS[pair.writer]
        .1
        .replace('$', &pair.source.to_string());
    for register in 12..24u32 {
        let value = 0x3c00_3801 + register * 0x0107_0103;
        push(code, &format!("MOV R{register}, {value:#x}"), 1, "R-:W-")?;
    }
    drain(code)?;
    if distance == 0 {
        settled(code, &write)?;
        drain(code)?;
    }
    if pair.busy {
        push(code, &read("28"), 1, "R-:W-")?;
        push(code, &read("32"), 1, "R-:W-")?;
    }
    let first = distance.clamp(1, 15);
    push(code, &read("24"), first, "R-:W-")?;
    let mut left = distance.saturating_sub(first);
    while left > 0 {
        let stall = left.min(15);
        push(code, "NOP", stall, "R-:W-")?;
        left -= stall;
    }
    if distance > 0 {
        settled(code, &write)?;
    }
    drain(code)?;
    // A register may reach one part of the result only, or several by the same amount.
    for other in 25..28 {
        settled(code, &format!("IMAD R24, R24, 0x5, R{other}"))?;
    }
    push(
        code,
        &format!("STG.E desc[UR4][R2.64+{:#x}], R24", slot * 4),
        15,
        "R1:W-",
    )
}

/// The trial of a wait `distance` cycles after its barrier is set; at distance 0 nothing is set.
fn wait_trial(code: &mut Code, setter: &str, distance: usize, slot: usize) -> Result<(), String> {
    settled(code, "MOV R12, 0x40a00000")?;
    settled(code, "MOV R24, 0x7654321")?;
    drain(code)?;
    if distance > 0 {
        push(code, setter, distance.min(15), "R-:W2")?;
        let left = distance.saturating_sub(15);
        if left > 0 {
            push(code, "NOP", left, "R-:W-")?;
        }
    }
    code.push("B--2---:R-:W-:-:S15", "MOV R28, R24")?;
    code.push("B--2---:R-:W-:-:S15", "NOP")?;
    drain(code)?;
    let text = format!("STG.E desc[UR4][R2.64+{:#x}], R28", slot * 4);
    push(code, &text, 15, "R1:W-")
}

/// The whole kernel: the address of each warp's answers, every trial, exit.
fn kernel(pairs: &[Pair]) -> Result<Code, String> {
    let mut code = Code::default();
    let bytes = slots(pairs) * 4;
    push(&mut code, "LDC.64 R2, c[0x0][0x210]", 15, "R1:W0")?;
    push(&mut code, "S2R R0, SR_TID.X", 15, "R-:W0")?;
    push(&mut code, "ULDC.64 UR4, c[0x0][0x208]", 15, "R-:W-")?;
    settled(&mut code, "SHF.R.U32.HI R0, RZ, 0x5, R0")?;
    settled(&mut code, &format!("IMAD.WIDE R2, R0, {bytes:#x}, R2"))?;
    settled(&mut code, "MOV R7, 0x41424344")?;
    for register in 24..36 {
        settled(&mut code, &format!("MOV R{register}, RZ"))?;
    }
    drain(&mut code)?;
    let mut slot = 0;
    for pair in pairs {
        for distance in 0..=LONGEST {
            trial(&mut code, pair, distance, slot)?;
            slot += 1;
        }
    }
    for (_, setter) in SETTERS {
        for distance in 0..=LONGEST {
            wait_trial(&mut code, setter, distance, slot)?;
            slot += 1;
        }
    }
    settled(&mut code, "EXIT")?;
    Ok(code)
}

/// How many answers a warp gives.
fn slots(pairs: &[Pair]) -> usize {
    (pairs.len() + SETTERS.len()) * (LONGEST + 1)
}

/// `gpu release`: measures every pair and prints the largest distance over the contexts.
pub fn measure() -> Result<(), String> {
    let pairs = pairs();
    let code = kernel(&pairs)?;
    let image = code.cubin("trials", None)?;
    let image = image.write().map_err(|error| error.to_string())?;
    let driver = |error: super::driver::DriverError| error.to_string();
    let gpu = Gpu::open().map_err(driver)?;
    let module = gpu.load(&image).map_err(driver)?;
    let kernel = module.kernel("trials", 0).map_err(driver)?;
    // By reader and source: the distance, and in which context it was needed.
    let mut distances: BTreeMap<(usize, u8), [usize; 4]> = BTreeMap::new();
    let mut blind = Vec::new();
    let mut seen = [1; SETTERS.len()];
    for (launch, warps) in [1, WARPS].into_iter().enumerate() {
        let answers = gpu
            .buffer(&vec![0xa5; WARPS * slots(&pairs) * 4])
            .map_err(driver)?;
        let parameters = [answers.address().to_le_bytes().to_vec()];
        kernel
            .launch([1, 1, 1], [warps as u32 * 32, 1, 1], &parameters)
            .map_err(driver)?;
        let bytes = answers.read().map_err(driver)?;
        let words: Vec<u32> = (bytes.chunks_exact(4))
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        for warp in words.chunks_exact(slots(&pairs)).take(warps) {
            for (pair, trials) in pairs.iter().zip(warp.chunks_exact(LONGEST + 1)) {
                let key = (pair.reader, pair.source);
                let old = trials[LONGEST];
                if trials[0] == old {
                    blind.push(key);
                    continue;
                }
                let needed = (1..=LONGEST)
                    .rev()
                    .find(|distance| trials[*distance] != old)
                    .map_or(1, |last| last + 1);
                let context = 2 * launch + usize::from(pair.busy);
                let entry = &mut distances.entry(key).or_default()[context];
                *entry = (*entry).max(needed);
            }
            let waits = &warp[pairs.len() * (LONGEST + 1)..];
            for (seen, trials) in seen.iter_mut().zip(waits.chunks_exact(LONGEST + 1)) {
                let too_early = (1..=LONGEST).rev().find(|&d| trials[d] == trials[0]);
                *seen = (*seen).max(too_early.map_or(1, |last| last + 1));
            }
        }
    }
    println!(
        "{} instructions, {} pairs",
        code.words.len(),
        distances.len()
    );
    println!("| reader | source | alone | busy | 16 warps | 16 warps, busy |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for ((reader, source), [alone, busy, many, all]) in &distances {
        let class = READERS[*reader].class;
        println!("| {class} | R{source} | {alone} | {busy} | {many} | {all} |");
    }
    println!("| sets a barrier | a wait sees it after |\n| --- | --- |");
    for ((class, _), cycles) in SETTERS.iter().zip(seen) {
        println!("| {class} | {cycles} |");
    }
    blind.sort_unstable();
    blind.dedup();
    for (reader, source) in blind {
        println!(
            "{} R{source}: both values give the same answer",
            READERS[reader].class
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trial_assembles() {
        kernel(&pairs()).unwrap();
    }
}
