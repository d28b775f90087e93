//! `gpu mufu [PART]`: PTX's approximate functions of one single-precision operand, on all 2^32 operands or on every PART-th block
//! of 2^20 of them, against `eval`.
//!
//! The chip fills a buffer with results, all cores of the host compare it. Every bit must be equal, NaNs included.

use super::compare_forms::assemble;
use super::driver::{DriverError, Gpu};
use orias_eval::approximate::Approximate;
use orias_eval::float::Format;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operands of one launch.
const BLOCK: u32 = 1 << 20;

/// Launches whose results are compared at a time.
const BATCH: u32 = 64;

const FUNCTIONS: &[(&str, Approximate, bool)] = &[
    ("rcp.approx.ftz.f32", Approximate::Reciprocal, true),
    ("rcp.approx.f32", Approximate::Reciprocal, false),
    ("sqrt.approx.ftz.f32", Approximate::SquareRoot, true),
    ("sqrt.approx.f32", Approximate::SquareRoot, false),
    (
        "rsqrt.approx.ftz.f32",
        Approximate::ReciprocalSquareRoot,
        true,
    ),
    ("rsqrt.approx.f32", Approximate::ReciprocalSquareRoot, false),
    ("lg2.approx.ftz.f32", Approximate::Log2, true),
    ("lg2.approx.f32", Approximate::Log2, false),
    ("ex2.approx.ftz.f32", Approximate::Exp2, true),
    ("ex2.approx.f32", Approximate::Exp2, false),
    ("sin.approx.f32", Approximate::Sine, false),
    ("cos.approx.f32", Approximate::Cosine, false),
    ("tanh.approx.f32", Approximate::Tanh, false),
];

/// One kernel a function: the results of consecutive operands from `first` on.
fn module() -> String {
    let mut out = String::from(".version 8.0\n.target sm_90\n.address_size 64\n");
    for (index, (opcode, ..)) in FUNCTIONS.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            ".visible .entry function{index}(.param .u64 out, .param .u32 first)
{{
.reg .b32 %i<5>; .reg .b64 %w<3>; .reg .f32 %f<2>;
ld.param.u64 %w0, [out]; ld.param.u32 %i0, [first];
mov.u32 %i1, %ctaid.x; mov.u32 %i2, %ntid.x; mov.u32 %i3, %tid.x;
mad.lo.u32 %i4, %i1, %i2, %i3; mul.wide.u32 %w1, %i4, 4; add.u64 %w2, %w0, %w1;
add.u32 %i4, %i4, %i0; mov.b32 %f0, %i4;
{opcode} %f1, %f0;
st.global.f32 [%w2], %f1; ret;
}}"
        );
    }
    out
}

/// Compares every `part`-th block of operands.
pub fn compare(part: u32) -> Result<(), String> {
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let module = gpu
        .load(&assemble(&module())?)
        .map_err(|error| error.to_string())?;
    let blocks: Vec<u32> = (0..1 << 12).step_by(part.max(1) as usize).collect();
    let mut wrong = 0;
    for (index, (opcode, function, flush)) in FUNCTIONS.iter().enumerate() {
        let failed = |error: DriverError| format!("{opcode}: {error}");
        let kernel = module
            .kernel(&format!("function{index}"), 0)
            .map_err(failed)?;
        let held = gpu
            .buffer(&vec![0; (BATCH * BLOCK * 4) as usize])
            .map_err(failed)?;
        let (differ, first) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        for batch in blocks.chunks(BATCH as usize) {
            for (at, block) in batch.iter().enumerate() {
                let address = held.address() + at as u64 * u64::from(BLOCK) * 4;
                let arguments = [
                    address.to_le_bytes().to_vec(),
                    (block * BLOCK).to_le_bytes().to_vec(),
                ];
                kernel
                    .launch([BLOCK / 256, 1, 1], [256, 1, 1], &arguments)
                    .map_err(failed)?;
            }
            let bytes = held.read().map_err(failed)?;
            std::thread::scope(|scope| {
                for (block, results) in batch.iter().zip(bytes.chunks_exact((BLOCK * 4) as usize)) {
                    let (differ, first) = (&differ, &first);
                    scope.spawn(move || {
                        for (operand, word) in (block * BLOCK..).zip(results.chunks_exact(4)) {
                            let defined = function.apply(Format::F32, operand.into(), *flush);
                            let defined = defined.map(|bits| (bits as u32).to_le_bytes());
                            if defined.as_ref().map(|bytes| &bytes[..]) != Some(word) {
                                differ.fetch_add(1, Ordering::Relaxed);
                                first.fetch_min(operand.into(), Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
        }
        let (differ, first) = (differ.into_inner(), first.into_inner());
        let tried = blocks.len() as u64 * u64::from(BLOCK);
        match differ {
            0 => println!("{opcode}: {tried} operands, all equal"),
            _ => {
                wrong += 1;
                println!("{opcode}: {differ} of {tried} operands differ, first {first:#x}");
            }
        }
    }
    match wrong {
        0 => Ok(()),
        _ => Err(format!("{wrong} functions differ from their definition")),
    }
}
