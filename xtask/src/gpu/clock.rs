//! `gpu clock`: how many cycles small kernels take, against what their control words say.
//!
//! Each kernel repeats a few instructions in a loop and reads the clock before and behind them; the last iteration counts, when the
//! code is in the instruction cache. The same loop without the instructions is measured too and taken off. The control words are
//! those of `reschedule --control-only`; the estimate is [`orias_verify::estimate`] of the same instructions.

use super::bare::Code;
use super::driver::{Buffer, Gpu};
use orias_cubin::Cubin;
use orias_sass::{Instruction, Op, Target};
use orias_verify::program::Program;

/// How far an estimate may be off.
const TOLERANCE: f64 = 0.10;

/// A kernel: what it is called, the instructions that are repeated, and how often.
struct Micro {
    name: &'static str,
    body: &'static [&'static str],
    times: usize,
}

const fn micro(name: &'static str, times: usize, body: &'static [&'static str]) -> Micro {
    Micro { name, body, times }
}

/// R4 to R9 hold small numbers, R10 to R29 are free; R2 is the address of the answer, R36 that of a word in shared memory.
#[rustfmt::skip]
const MICROS: &[Micro] = &[
    micro("FFMA chain", 64, &["FFMA R10, R10, R5, R6"]),
    micro("FADD chain", 64, &["FADD R10, R10, R5"]),
    micro("IADD3 chain", 64, &["IADD3 R10, R10, R5, RZ"]),
    micro("LOP3 chain", 64, &["LOP3.LUT R10, R10, R5, RZ, 0x3c, !PT"]),
    micro("IMAD chain", 64, &["IMAD R10, R10, R5, R6"]),
    micro("IMAD.WIDE chain by its addend", 64, &["IMAD.WIDE R10, R4, R5, R10"]),
    micro("IMAD.WIDE chain by its factor", 64, &["IMAD.WIDE R10, R10, R5, R8"]),
    micro("HFMA2 chain", 64, &["HFMA2 R10, R10, R5, R6"]),
    micro("DADD chain", 64, &["DADD R10, R10, R8"]),
    micro("DFMA chain", 64, &["DFMA R10, R10, R8, R8"]),
    micro("FFMA and IADD3 in turn", 32, &["FFMA R10, R10, R5, R6", "IADD3 R10, R10, R5, RZ"]),
    micro("IMAD and LOP3 in turn", 32, &["IMAD R10, R10, R5, R6", "LOP3.LUT R10, R10, R5, RZ, 0x3c, !PT"]),
    micro("four independent FFMA", 32, &["FFMA R10, R10, R5, R6", "FFMA R11, R11, R5, R6", "FFMA R12, R12, R5, R6", "FFMA R13, R13, R5, R6"]),
    micro("two FFMA and two IADD3", 32, &["FFMA R10, R10, R5, R6", "IADD3 R11, R11, R5, RZ", "FFMA R12, R12, R5, R6", "IADD3 R13, R13, R5, RZ"]),
    micro("eight independent IADD3", 16, &["IADD3 R10, R10, R5, RZ", "IADD3 R11, R11, R5, RZ", "IADD3 R12, R12, R5, RZ", "IADD3 R13, R13, R5, RZ",
        "IADD3 R14, R14, R5, RZ", "IADD3 R15, R15, R5, RZ", "IADD3 R16, R16, R5, RZ", "IADD3 R17, R17, R5, RZ"]),
    micro("ISETP and SEL in turn", 32, &["ISETP.NE.AND P1, PT, R10, R5, PT", "SEL R10, R10, R6, P1"]),
    micro("ISETP and a guard in turn", 32, &["ISETP.NE.AND P1, PT, R10, R5, PT", "@P1 IADD3 R10, R10, R6, RZ"]),
    micro("SHF and LEA in turn", 32, &["SHF.R.U32.HI R10, RZ, 0x1, R10", "LEA R10, R10, R6, 0x2"]),
    micro("UIADD3 chain", 64, &["UIADD3 UR10, UR10, UR6, URZ"]),
    micro("UIADD3 into IADD3", 32, &["UIADD3 UR10, UR10, UR6, URZ", "IADD3 R10, R10, UR10, RZ"]),
    micro("MUFU.RCP chain", 32, &["MUFU.RCP R10, R10"]),
    micro("MUFU.EX2 and FADD in turn", 32, &["MUFU.EX2 R10, R10", "FADD R10, R10, R5"]),
    micro("four independent MUFU", 16, &["MUFU.RCP R10, R10", "MUFU.RCP R11, R11", "MUFU.RCP R12, R12", "MUFU.RCP R13, R13"]),
    micro("F2I and I2FP in turn", 32, &["F2I.TRUNC.NTZ R10, R10", "I2FP.F32.S32 R10, R10"]),
    micro("POPC chain", 32, &["POPC R10, R10"]),
    micro("SHFL chain", 32, &["SHFL.BFLY PT, R10, R10, 0x1, 0x1f"]),
    micro("SHFL and FADD in turn", 32, &["SHFL.BFLY PT, R11, R10, 0x1, 0x1f", "FADD R10, R10, R11"]),
    micro("LDS chain", 32, &["LDS R36, [R36]"]),
    micro("LDS and IADD3 in turn", 32, &["LDS R36, [R36]", "IADD3 R36, R36, RZ, RZ"]),
    micro("four independent LDS", 16, &["LDS R10, [R36]", "LDS R11, [R36+0x4]", "LDS R12, [R36+0x8]", "LDS R13, [R36+0xc]", "IADD3 R14, R10, R11, R12", "IADD3 R15, R13, R14, RZ"]),
    micro("polynomial", 16, &["FFMA R11, R10, R5, R6", "FFMA R11, R11, R10, R4", "FFMA R11, R11, R10, R5", "FFMA R10, R11, R10, R6"]),
    micro("64-bit sums", 32, &["IADD3 R10, P1, R10, R5, RZ", "IADD3.X R11, R11, R6, RZ, P1, !PT"]),
];

/// What is measured to learn from it, and not estimated: how often a unit takes an instruction, and what operands cost.
#[rustfmt::skip]
const OPEN: &[Micro] = &[
    micro("IMAD.WIDE without addend", 32, &["IMAD.WIDE R10, R4, R5, RZ", "IMAD.WIDE R12, R4, R5, RZ"]),
    micro("IMAD.WIDE by a constant", 32, &["IMAD.WIDE R10, R4, 0x7, R8", "IMAD.WIDE R12, R4, 0x7, R8"]),
    micro("IMAD.WIDE, factors of one bank", 32, &["IMAD.WIDE R10, R4, R6, R8", "IMAD.WIDE R12, R4, R6, R8"]),
    micro("IMAD.WIDE, factors of two banks", 32, &["IMAD.WIDE R10, R4, R5, R8", "IMAD.WIDE R12, R4, R5, R8"]),
    micro("IMAD.WIDE, odd factors", 32, &["IMAD.WIDE R10, R5, R7, R8", "IMAD.WIDE R12, R5, R7, R8"]),
    micro("IMAD.HI", 32, &["IMAD.HI.U32 R10, R4, R5, RZ", "IMAD.HI.U32 R12, R4, R5, RZ"]),
    micro("IMAD.WIDE and FFMA", 32, &["IMAD.WIDE R10, R4, R5, R8", "FFMA R12, R4, R5, R6"]),
    micro("IMAD.WIDE and IADD3", 32, &["IMAD.WIDE R10, R4, R5, R8", "IADD3 R12, R4, R5, RZ"]),
    micro("FFMA, operands of one bank", 32, &["FFMA R10, R4, R6, R8", "FFMA R12, R4, R6, R8"]),
    micro("FFMA, operands of two banks", 32, &["FFMA R10, R4, R5, R6", "FFMA R12, R4, R5, R6"]),
    micro("IADD3, operands of one bank", 32, &["IADD3 R10, R4, R6, R8", "IADD3 R12, R4, R6, R8"]),
    micro("IMAD, operands of one bank", 32, &["IMAD R10, R4, R6, R8", "IMAD R12, R4, R6, R8"]),
    micro("DFMA", 32, &["DFMA R10, R8, R8, R8", "DFMA R12, R8, R8, R8"]),
    micro("HFMA2", 32, &["HFMA2 R10, R4, R5, R6", "HFMA2 R12, R4, R5, R6"]),
    micro("F2I", 32, &["F2I.TRUNC.NTZ R10, R4", "F2I.TRUNC.NTZ R12, R4"]),
    micro("S2R chain", 8, &["S2R R10, SR_TID.X", "IADD3 R10, R10, R5, RZ"]),
    micro("LDC chain", 8, &["LDC R19, c[0x0][R19]", "LOP3.LUT R19, R19, R5, RZ, 0x0, !PT"]),
    micro("VOTE and guard", 16, &["ISETP.NE.AND P1, PT, R10, R5, PT", "VOTE.ANY R10, PT, P1"]),
    micro("MATCH", 16, &["MATCH.ANY R10, R10"]),
    micro("REDUX", 16, &["REDUX.SUM UR10, R10", "MOV R10, UR10"]),
    micro("LDG of a word in L1, and the sum that is the next address", 16, &["LDG.E R22, desc[UR4][R20.64]", "IADD3 R20, R20, R22, RZ"]),
    micro("LDG of a word in L2, and the sum", 16, &["LDG.E.STRONG.GPU R22, desc[UR4][R20.64]", "IADD3 R20, R20, R22, RZ"]),
    micro("LDG of a word in memory, and the sum", 16, &["LDG.E R22, desc[UR4][R20.64]", "IADD3 R20, P1, R20, R22, R23", "IADD3.X R21, R21, RZ, RZ, P1, !PT"]),
    micro("ATOMG, and the sum", 16, &["ATOMG.E.ADD.STRONG.GPU PT, R22, desc[UR4][R20.64], RZ", "IADD3 R20, R20, R22, RZ"]),
    micro("STG and its data overwritten", 16, &["STG.E desc[UR4][R2.64+0x200], R10", "MOV R10, R5"]),
    micro("LDG and its address overwritten", 16, &["LDG.E R22, desc[UR4][R20.64]", "MOV R20, R2"]),
    micro("STS and its data overwritten", 16, &["STS [R36+0x10], R10", "MOV R10, R5"]),
    micro("LDS and its address overwritten", 16, &["LDS R10, [R36]", "MOV R36, 0x400"]),
    micro("SHFL and its data overwritten", 16, &["SHFL.BFLY PT, R11, R10, 0x1, 0x1f", "MOV R10, R5"]),
    micro("MUFU and its operand overwritten", 16, &["MUFU.RCP R11, R10", "MOV R10, R5"]),
    micro("ATOMG and its operand overwritten", 16, &["ATOMG.E.ADD.STRONG.GPU PT, R22, desc[UR4][R2.64+0x300], R10", "MOV R10, RZ"]),
    micro("RED and its operand overwritten", 16, &["REDG.E.ADD.STRONG.GPU desc[UR4][R2.64+0x300], R10", "MOV R10, RZ"]),
    micro("four independent HMMA.16816", 8, &["HMMA.16816.F32 R12, R4, R8, R12", "HMMA.16816.F32 R16, R4, R8, R16", "HMMA.16816.F32 R24, R4, R8, R24", "HMMA.16816.F32 R20, R4, R8, RZ"]),
    micro("HMMA.16816 chain", 16, &["HMMA.16816.F32 R12, R4, R8, R12"]),
    micro("four independent HMMA.1688 of TF32", 8, &["HMMA.1688.F32.TF32 R12, R4, R8, R12", "HMMA.1688.F32.TF32 R16, R4, R8, R16", "HMMA.1688.F32.TF32 R24, R4, R8, R24", "HMMA.1688.F32.TF32 R20, R4, R8, RZ"]),
    micro("four independent IMMA.16816", 8, &["IMMA.16816.S8.S8 R12, R4.ROW, R8.COL, R12", "IMMA.16816.S8.S8 R16, R4.ROW, R8.COL, R16", "IMMA.16816.S8.S8 R24, R4.ROW, R8.COL, R24", "IMMA.16816.S8.S8 R20, R4.ROW, R8.COL, RZ"]),
    micro("four independent IMMA.16832", 8, &["IMMA.16832.S8.S8 R12, R4.ROW, R8.COL, R12", "IMMA.16832.S8.S8 R16, R4.ROW, R8.COL, R16", "IMMA.16832.S8.S8 R24, R4.ROW, R8.COL, R24", "IMMA.16832.S8.S8 R20, R4.ROW, R8.COL, RZ"]),
    micro("IMMA.16816 chain", 16, &["IMMA.16816.S8.S8 R12, R4.ROW, R8.COL, R12"]),
    micro("DMMA chain", 16, &["DMMA.8x8x4 R12, R4, R8, R12"]),
    micro("S2UR and a use", 8, &["S2UR UR10, SR_CTAID.X", "IADD3 R10, R10, UR10, RZ"]),
    micro("CS2R", 16, &["CS2R R10, SRZ", "CS2R R12, SRZ"]),
    micro("BAR.SYNC", 16, &["BAR.SYNC.DEFER_BLOCKING 0x0"]),
    micro("R2UR", 16, &["R2UR UR10, R4", "R2UR UR11, R5"]),
    micro("UIADD3", 16, &["UIADD3 UR10, UR6, UR6, URZ", "UIADD3 UR11, UR6, UR6, URZ"]),
    micro("UMOV", 16, &["UMOV UR10, UR6", "UMOV UR11, UR6"]),
];

/// Independent sums with a control field each that is left as it is: what bit 109 (`Y`) and stalls cost one warp and four of a scheduler.
const FIELDS: &[&str] = &[
    "B------:R-:W-:Y:S01",
    "B------:R-:W-:-:S01",
    "B------:R-:W-:Y:S02",
    "B------:R-:W-:-:S02",
    "B------:R-:W-:Y:S04",
    "B------:R-:W-:-:S04",
    "B------:R-:W-:Y:S08",
    "B------:R-:W-:-:S08",
];

/// How many sums there are.
const SUMS: usize = 64;

/// A kernel without control words worth the name.
fn kernel(body: &[&str], times: usize) -> Result<Code, String> {
    let mut code = Code::default();
    let mut push = |text: &str| code.push("B------:R-:W-:-:S15", text);
    push("LDC.64 R2, c[0x0][0x210]")?;
    push("ULDC.64 UR4, c[0x0][0x208]")?;
    for register in (4..10).chain(10..18).chain([19]) {
        push(&format!(
            "MOV R{register}, {:#x}",
            0x3f80_0000u32 + register * 64
        ))?;
    }
    push("UMOV UR6, 0x3")?;
    push("UMOV UR10, 0x5")?;
    push("MOV R36, 0x400")?;
    push("STS [R36], R36")?;
    push("MOV R20, R2")?;
    push("MOV R21, R3")?;
    push("MOV R23, 0x100000")?;
    push("MOV R34, 0x3")?;
    let start = push("CS2R.32 R30, SR_CLOCKLO")?;
    for _ in 0..times {
        for text in body {
            push(text)?;
        }
    }
    push("CS2R.32 R31, SR_CLOCKLO")?;
    push("IADD3 R34, R34, -0x1, RZ")?;
    push("ISETP.NE.AND P0, PT, R34, RZ, PT")?;
    push(&format!("@P0 BRA {:#x}", start * 16))?;
    push("IADD3 R32, -R30, R31, RZ")?;
    push(&format!("STG.E desc[UR4][R2.64+{ANSWER:#x}], R32"))?;
    push("EXIT")?;
    Ok(code)
}

/// Where the answer is in the buffer; around it there are zeros to load.
const ANSWER: usize = 0x100;

/// More than the second-level cache holds, so that what an iteration loads for the first time comes from memory.
const BUFFER: usize = 128 << 20;

/// The kernel of sums with the control field `field`, with stalls that hold everywhere else.
fn sums(field: &str) -> Result<Code, String> {
    let mut code = Code::default();
    let slow = "B0-----:R-:W-:-:S15";
    code.push("B------:R-:W0:-:S15", "LDC.64 R2, c[0x0][0x210]")?;
    code.push(slow, "ULDC.64 UR4, c[0x0][0x208]")?;
    code.push(slow, "MOV R34, 0x3")?;
    let start = code.push(slow, "CS2R.32 R30, SR_CLOCKLO")?;
    for number in 0..SUMS {
        let text = format!("FADD R{}, R4, R5", 10 + number % 16);
        code.push(field, &text)?;
    }
    code.push(slow, "CS2R.32 R31, SR_CLOCKLO")?;
    code.push(slow, "IADD3 R34, R34, -0x1, RZ")?;
    code.push(slow, "ISETP.NE.AND P0, PT, R34, RZ, PT")?;
    code.push(slow, &format!("@P0 BRA {:#x}", start * 16))?;
    code.push(slow, "IADD3 R32, -R30, R31, RZ")?;
    code.push(slow, &format!("STG.E desc[UR4][R2.64+{ANSWER:#x}], R32"))?;
    code.push(slow, "EXIT")?;
    Ok(code)
}

/// A cubin of a kernel with control words of our own.
fn cubin(body: &[&str], times: usize) -> Result<Cubin, String> {
    let plain = kernel(body, times)?.cubin("clock", Some(4096))?;
    let (ours, _) =
        orias::reschedule::reschedule_control(&plain).map_err(|error| error.to_string())?;
    Ok(ours)
}

/// The instructions from the first reading of the clock to before the second.
fn timed(cubin: &Cubin) -> Result<Vec<Instruction>, String> {
    let functions = cubin.functions();
    let function = functions.first().ok_or("a cubin without functions")?;
    let program = Program::of(function, Target::Sm90a).map_err(|error| error.to_string())?;
    let reads = |instruction: &Instruction| instruction.op() == Op::CS2R_32;
    let first = program.instructions.iter().position(reads);
    let last = program.instructions.iter().rposition(reads);
    match (first, last) {
        (Some(first), Some(last)) => Ok(program.instructions[first..last].to_vec()),
        _ => Err("the clock is not read".to_owned()),
    }
}

fn estimated(cubin: &Cubin) -> Result<u32, String> {
    let machine = orias_machine::Machine::judging(Target::DEFAULT);
    orias_verify::estimate(machine, &timed(cubin)?).map_err(|error| error.to_string())
}

/// What a kernel took.
struct Took {
    /// The first time, when what it loads may be in no cache.
    first: u32,
    /// The least of five times.
    least: u32,
}

fn measured(gpu: &Gpu, answer: &Buffer, cubin: &Cubin, threads: u32) -> Result<Took, String> {
    let driver = |error: super::driver::DriverError| error.to_string();
    let image = cubin.write().map_err(|error| error.to_string())?;
    let module = gpu.load(&image).map_err(driver)?;
    let kernel = module.kernel("clock", 0).map_err(driver)?;
    let mut took = Took {
        first: 0,
        least: u32::MAX,
    };
    for number in 0..5 {
        let address = answer.address().to_le_bytes().to_vec();
        kernel
            .launch([1, 1, 1], [threads, 1, 1], &[address])
            .map_err(driver)?;
        let mut word = [0; 4];
        answer.read_at(ANSWER, &mut word).map_err(driver)?;
        let cycles = u32::from_le_bytes(word);
        took.least = took.least.min(cycles);
        if number == 0 {
            took.first = cycles;
        }
    }
    Ok(took)
}

/// `gpu clock`.
pub fn compare() -> Result<(), String> {
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let answer = gpu
        .buffer(&vec![0; BUFFER])
        .map_err(|error| error.to_string())?;
    let empty = cubin(&[], 0)?;
    let (empty_measured, empty_estimated) = (
        measured(&gpu, &answer, &empty, 32)?.least,
        estimated(&empty)?,
    );
    println!("reading the clock twice: {empty_measured} cycles, estimated {empty_estimated}");
    println!("| kernel | a repetition: measured | estimated | ratio |\n| --- | --- | --- | --- |");
    let mut off = 0;
    for micro in MICROS {
        let cubin =
            cubin(micro.body, micro.times).map_err(|error| format!("{}: {error}", micro.name))?;
        let took = measured(&gpu, &answer, &cubin, 32)?.least;
        let took = took.saturating_sub(empty_measured);
        let says = estimated(&cubin)?.saturating_sub(empty_estimated);
        let ratio = f64::from(says) / f64::from(took.max(1));
        let per = |cycles: u32| f64::from(cycles) / micro.times as f64;
        let far = (ratio - 1.0).abs() > TOLERANCE;
        off += usize::from(far);
        println!(
            "| {} | {:.2} | {:.2} | {ratio:.3}{} |",
            micro.name,
            per(took),
            per(says),
            if far { " **off**" } else { "" }
        );
    }
    println!("| open question | a repetition: measured | the first time | by the tables |");
    println!("| --- | --- | --- | --- |");
    for micro in OPEN {
        let cubin = match cubin(micro.body, micro.times) {
            Ok(cubin) => cubin,
            Err(error) => {
                println!("| {} | {error} | | |", micro.name);
                continue;
            }
        };
        let took = measured(&gpu, &answer, &cubin, 32)?;
        let says = estimated(&cubin)?;
        let per =
            |cycles: u32, empty: u32| f64::from(cycles.saturating_sub(empty)) / micro.times as f64;
        println!(
            "| {} | {:.2} | {:.2} | {:.2} |",
            micro.name,
            per(took.least, empty_measured),
            per(took.first, empty_measured),
            per(says, empty_estimated)
        );
    }
    println!(
        "| control field | an FADD, one warp | four warps of a scheduler |\n| --- | --- | --- |"
    );
    for field in FIELDS {
        let cubin = sums(field)?.cubin("clock", None)?;
        let took = [32, 512].map(|threads| measured(&gpu, &answer, &cubin, threads));
        let [one, four] = took;
        let per = |cycles: u32| f64::from(cycles) / SUMS as f64;
        println!(
            "| {field} | {:.2} | {:.2} |",
            per(one?.least),
            per(four?.least)
        );
    }
    match off {
        0 => Ok(()),
        off => Err(format!("{off} of {} estimates are off", MICROS.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_open_question_gets_control_words() {
        for micro in OPEN {
            cubin(micro.body, micro.times)
                .unwrap_or_else(|error| panic!("{}: {error}", micro.name));
        }
        for field in FIELDS {
            sums(field).unwrap();
        }
    }

    #[test]
    fn every_kernel_gets_control_words_and_an_estimate() {
        for micro in MICROS {
            let cubin = cubin(micro.body, micro.times)
                .unwrap_or_else(|error| panic!("{}: {error}", micro.name));
            assert!(
                estimated(&cubin).unwrap() as usize > micro.times,
                "{}",
                micro.name
            );
        }
    }
}
