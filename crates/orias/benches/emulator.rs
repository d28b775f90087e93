//! How fast the emulator is: `cargo bench -p orias --bench emulator`.
//!
//! Three kernels written by hand, run on one host core without timing: arithmetic in a loop, memory in a loop, and a matrix product
//! of 64×64×64 halves on the tensor cores. Each row has the speed that is asked for; the bench fails below it.

use orias_sass::Target;
use orias_sim::{Device, Launch, Options, Timing};
use std::process::ExitCode;
use std::time::Instant;

/// What every kernel begins with: the thread's number in R0, descriptor in UR4, first argument in R4.
const PROLOGUE: &str = "
    [B01----:R1:W0:-:S15] S2R R0, SR_TID.X ;
    [B01----:R-:W-:-:S15] ULDC.64 UR4, c[0x0][0x208] ;
    [B01----:R1:W0:-:S15] LDC.64 R4, c[0x0][0x210] ;
";

const EPILOGUE: &str = "
    [B01----:R-:W-:-:S15] EXIT ;
.L_end:
    [B01----:R-:W-:-:S15] BRA `(.L_end) ;
";

/// Twelve operations of all kinds, a thousand times.
const ARITHMETIC: &str = "
    [B01----:R-:W-:-:S15] MOV R6, 0x3e8 ;
    [B01----:R-:W-:-:S15] MOV R7, 0x3f800000 ;
    [B01----:R-:W-:-:S15] MOV R8, 0x3f000000 ;
    [B01----:R-:W-:-:S15] MOV R9, R0 ;
    [B01----:R-:W-:-:S15] MOV R10, R0 ;
    [B01----:R-:W-:-:S15] MOV R11, R0 ;
.L_loop:
    [B01----:R-:W-:-:S15] FFMA R7, R7, R8, R8 ;
    [B01----:R-:W-:-:S15] FADD R12, R7, R8 ;
    [B01----:R-:W-:-:S15] FMUL R13, R12, R8 ;
    [B01----:R-:W-:-:S15] IADD3 R9, R9, R10, R6 ;
    [B01----:R-:W-:-:S15] IMAD R10, R9, 0x19660d, R11 ;
    [B01----:R-:W-:-:S15] LOP3.LUT R11, R9, R10, R11, 0x96, !PT ;
    [B01----:R-:W-:-:S15] SHF.R.U32.HI R14, RZ, 0x3, R11 ;
    [B01----:R-:W-:-:S15] PRMT R15, R14, 0x2103, R10 ;
    [B01----:R-:W-:-:S15] LEA R14, R15, R14, 0x2 ;
    [B01----:R-:W-:-:S15] VIADD R6, R6, 0xffffffff ;
    [B01----:R-:W-:-:S15] ISETP.NE.U32.AND P0, PT, R6, RZ, PT ;
    [B01----:R-:W-:-:S15] @P0 BRA `(.L_loop) ;
    [B01----:R-:W-:-:S15] IADD3 R9, R9, R14, R7 ;
    [B01----:R-:W-:-:S15] IMAD.WIDE.U32 R4, R0, 0x4, R4 ;
    [B01----:R1:W-:-:S15] STG.E desc[UR4][R4.64], R9 ;
";

/// A load, a store, an addition and the address, a thousand times.
const MEMORY: &str = "
    [B01----:R-:W-:-:S15] IMAD.WIDE.U32 R4, R0, 0x4, R4 ;
    [B01----:R-:W-:-:S15] MOV R6, 0x3e8 ;
.L_loop:
    [B01----:R1:W0:-:S15] LDG.E R8, desc[UR4][R4.64] ;
    [B01----:R1:W0:-:S15] LDG.E R9, desc[UR4][R4.64+0x1000] ;
    [B01----:R-:W-:-:S15] IADD3 R8, R8, R9, RZ ;
    [B01----:R1:W-:-:S15] STG.E desc[UR4][R4.64], R8 ;
    [B01----:R-:W-:-:S15] VIADD R6, R6, 0xffffffff ;
    [B01----:R-:W-:-:S15] ISETP.NE.U32.AND P0, PT, R6, RZ, PT ;
    [B01----:R-:W-:-:S15] @P0 BRA `(.L_loop) ;
";

/// Each of 32 warps makes a tile of 16×8: A by rows, B by columns, C by rows.
fn matrix() -> String {
    let mut text = "
    [B01----:R1:W0:-:S15] LDC.64 R6, c[0x0][0x218] ;
    [B01----:R1:W0:-:S15] LDC.64 R8, c[0x0][0x220] ;
    [B01----:R-:W-:-:S15] LOP3.LUT R2, R0, 0x3, RZ, 0xc0, !PT ;
    [B01----:R-:W-:-:S15] SHF.R.U32.HI R3, RZ, 0x2, R0 ;
    [B01----:R-:W-:-:S15] LOP3.LUT R3, R3, 0x7, RZ, 0xc0, !PT ;
    [B01----:R-:W-:-:S15] SHF.R.U32.HI R10, RZ, 0x8, R0 ;
    [B01----:R-:W-:-:S15] LEA R10, R10, R3, 0x4 ;
    [B01----:R-:W-:-:S15] SHF.R.U32.HI R11, RZ, 0x5, R0 ;
    [B01----:R-:W-:-:S15] LOP3.LUT R11, R11, 0x7, RZ, 0xc0, !PT ;
    [B01----:R-:W-:-:S15] SHF.L.U32 R11, R11, 0x3, RZ ;
    [B01----:R-:W-:-:S15] IADD3 R12, R11, R3, RZ ;
    [B01----:R-:W-:-:S15] SHF.L.U32 R13, R10, 0x5, RZ ;
    [B01----:R-:W-:-:S15] IADD3 R13, R13, R2, RZ ;
    [B01----:R-:W-:-:S15] IMAD.WIDE.U32 R4, R13, 0x4, R4 ;
    [B01----:R-:W-:-:S15] SHF.L.U32 R13, R12, 0x5, RZ ;
    [B01----:R-:W-:-:S15] IADD3 R13, R13, R2, RZ ;
    [B01----:R-:W-:-:S15] IMAD.WIDE.U32 R6, R13, 0x4, R6 ;
    [B01----:R-:W-:-:S15] SHF.L.U32 R13, R10, 0x6, RZ ;
    [B01----:R-:W-:-:S15] IADD3 R13, R13, R11, RZ ;
    [B01----:R-:W-:-:S15] LEA R13, R2, R13, 0x1 ;
    [B01----:R-:W-:-:S15] IMAD.WIDE.U32 R8, R13, 0x4, R8 ;
    [B01----:R-:W-:-:S15] CS2R R24, SRZ ;
    [B01----:R-:W-:-:S15] CS2R R26, SRZ ;
"
    .to_owned();
    for step in 0..4 {
        let at = step * 0x20;
        for (register, offset) in [(16, 0), (17, 0x400), (18, 0x10), (19, 0x410)] {
            text += &format!(
                "    [B01----:R1:W0:-:S15] LDG.E R{register}, desc[UR4][R4.64+{:#x}] ;\n",
                at + offset
            );
        }
        for (register, offset) in [(20, 0), (21, 0x10)] {
            text += &format!(
                "    [B01----:R1:W0:-:S15] LDG.E R{register}, desc[UR4][R6.64+{:#x}] ;\n",
                at + offset
            );
        }
        text += "    [B01----:R-:W-:-:S15] HMMA.16816.F32 R24, R16, R20, R24 ;\n";
        text += "    [B01----:R-:W-:-:S15] NOP ;\n    [B01----:R-:W-:-:S15] NOP ;\n";
    }
    text += "    [B01----:R1:W-:-:S15] STG.E.64 desc[UR4][R8.64], R24 ;\n";
    text += "    [B01----:R1:W-:-:S15] STG.E.64 desc[UR4][R8.64+0x800], R26 ;\n";
    text
}

struct Row {
    name: &'static str,
    body: String,
    parameters: usize,
    block: u32,
    timing: Timing,
    /// Million lane-instructions a second, or none for a limit of seconds.
    speed: Option<f64>,
    seconds: f64,
}

fn main() -> ExitCode {
    let row = |name, body: &str, speed, timing| Row {
        name,
        body: body.to_owned(),
        parameters: 1,
        block: 256,
        timing,
        speed,
        seconds: f64::INFINITY,
    };
    let product = Row {
        name: "matrix product of 64x64x64",
        body: matrix(),
        parameters: 3,
        block: 1024,
        timing: Timing::Off,
        speed: None,
        seconds: 1.0,
    };
    let rows = [
        row("arithmetic", ARITHMETIC, Some(30.0), Timing::Off),
        row("memory", MEMORY, Some(10.0), Timing::Off),
        product,
        row(
            "arithmetic, strict timing",
            ARITHMETIC,
            None,
            Timing::Strict,
        ),
        row("memory, strict timing", MEMORY, None, Timing::Strict),
    ];
    let mut failed = false;
    for row in rows {
        match measure(&row) {
            Ok((steps, seconds)) => {
                let speed = steps as f64 / seconds / 1e6;
                let enough = row.speed.is_none_or(|least| speed >= least) && seconds <= row.seconds;
                failed |= !enough;
                println!(
                    "{:<28} {steps:>10} lane-instructions in {seconds:.3} s: {speed:.0} million a second{}",
                    row.name,
                    if enough { "" } else { "  TOO SLOW" }
                );
            }
            Err(error) => {
                failed = true;
                println!("{:<28} {error}", row.name);
            }
        }
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Lane-instructions and seconds of a row's fastest run of three.
fn measure(row: &Row) -> Result<(u64, f64), String> {
    let parameters = ".param 8\n".repeat(row.parameters);
    let listing = format!(
        ".target sm_90a\n.kernel k\n{parameters}.registers 32\n{PROLOGUE}{}{EPILOGUE}",
        row.body
    );
    let image = orias::assemble_cubin(&listing, Target::Sm90a)
        .map_err(|errors| format!("{errors:?}"))?
        .write()
        .map_err(|error| error.to_string())?;
    let mut best = f64::INFINITY;
    let mut steps = 0;
    for _ in 0..3 {
        let mut device = Device::new();
        let module = device.load(&image).map_err(|error| error.to_string())?;
        // Ones in half precision, and room for the sums.
        let ones = 0x3c00u16.to_le_bytes().repeat(4096);
        let buffers: Vec<u64> = (0..row.parameters)
            .map(|index| device.allocate(if index == 2 { &[0; 16384] } else { &ones }))
            .collect();
        let launch = Launch {
            kernel: "k".to_owned(),
            grid: [1, 1, 1],
            block: [row.block, 1, 1],
            arguments: buffers
                .iter()
                .map(|address| address.to_le_bytes().to_vec())
                .collect(),
            ..Launch::default()
        };
        let options = Options {
            timing: row.timing,
            ..Options::default()
        };
        let start = Instant::now();
        let outcome = device
            .launch(&module, &launch, &options)
            .map_err(|error| error.to_string())?;
        best = best.min(start.elapsed().as_secs_f64());
        if let Some(fault) = outcome.fault {
            return Err(fault.to_string());
        }
        steps = outcome.thread_instructions;
        if let Some(sums) = buffers.get(2) {
            let bytes = device.read(*sums, 16384).unwrap_or_default();
            let right = 64f32.to_le_bytes().repeat(4096);
            if bytes != right {
                return Err("the product is wrong".to_owned());
            }
        }
    }
    Ok((steps, best))
}
