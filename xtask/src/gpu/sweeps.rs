//! `gpu sweeps ASSEMBLERS [--full]`: single operations on very many operands, as an assembler makes them and as ptxas does.
//!
//! Two tiers. A function of one 32-bit operand runs on all 2^32 operands (by default on every 16th block of 2^24 of them). An
//! operation of wider or of several operands runs on [`TUPLES`] tuples (by default a tenth) that are made to be hard: besides
//! random bits, quotients, roots and sums that lie close to where roundings change, results at the edges of the range, and special
//! values (see [`tuple`]). Results are compared on the chip, by a kernel that ptxas made; the reference is ptxas's code for the
//! same statement.
//!
//! Which of two NaNs an operation on doubles hands on depends on the order of its operands, which PTX leaves open: two NaNs count
//! as equal there.

use super::assembler::Assembler;
use super::driver::{Buffer, DriverError, Gpu, Module};
use super::job::Words;
use super::shards;
use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

/// Tuples of operands in the full tier.
const TUPLES: usize = 100_000_000;
/// Operands that run at a time when all are tried.
const CHUNK: u64 = 1 << 24;
/// Of how many chunks the short tier tries one.
const EVERY: usize = 16;
/// How long an operation may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The type of operands and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    B32,
    F32,
    F64,
    B64,
}

impl Type {
    const fn bytes(self) -> usize {
        match self {
            Self::B32 | Self::F32 => 4,
            Self::B64 | Self::F64 => 8,
        }
    }

    const fn register(self) -> &'static str {
        match self {
            Self::B32 | Self::F32 => ".b32",
            Self::B64 | Self::F64 => ".b64",
        }
    }
}

/// One operation: its statement with the result `%d` and operands `%a`, `%b`, `%c`.
struct Operation {
    statement: String,
    operands: Type,
    count: usize,
    result: Type,
}

const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];

/// Every operation, in a fixed order: first those of one 32-bit operand.
fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    let mut add = |statement: String, operands: Type, count: usize, result: Type| {
        all.push(Operation {
            statement,
            operands,
            count,
            result,
        });
    };
    for ftz in ["", ".ftz"] {
        for mode in ROUNDINGS {
            add(
                format!("rcp.{mode}{ftz}.f32 %d, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
            add(
                format!("sqrt.{mode}{ftz}.f32 %d, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
            add(
                format!("div.{mode}{ftz}.f32 %d, 0f3F800000, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
            add(
                format!("div.{mode}{ftz}.f32 %d, %a, 0f40400000;"),
                Type::F32,
                1,
                Type::F32,
            );
        }
        for name in ["rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"] {
            add(
                format!("{name}.approx{ftz}.f32 %d, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
        }
        for name in ["abs", "neg"] {
            add(format!("{name}{ftz}.f32 %d, %a;"), Type::F32, 1, Type::F32);
        }
        for mode in ["rni", "rzi", "rmi", "rpi"] {
            add(
                format!("cvt.{mode}{ftz}.f32.f32 %d, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
            add(
                format!("cvt.{mode}{ftz}.sat.f32.f32 %d, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
            for target in ["s32", "u32"] {
                add(
                    format!("cvt.{mode}{ftz}.{target}.f32 %d, %a;"),
                    Type::F32,
                    1,
                    Type::B32,
                );
            }
            for target in ["s64", "u64"] {
                add(
                    format!("cvt.{mode}{ftz}.{target}.f32 %d, %a;"),
                    Type::F32,
                    1,
                    Type::B64,
                );
            }
            for target in ["s16", "u16"] {
                add(
                    format!(
                        "{{ .reg .b16 t; cvt.{mode}{ftz}.{target}.f32 t, %a; cvt.u32.u16 %d, t; }}"
                    ),
                    Type::F32,
                    1,
                    Type::B32,
                );
            }
        }
        add(
            format!("cvt.sat{ftz}.f32.f32 %d, %a;"),
            Type::F32,
            1,
            Type::F32,
        );
        add(format!("cvt{ftz}.f64.f32 %d, %a;"), Type::F32, 1, Type::B64);
        add(
            format!("{{ .reg .b16 t; cvt.rn{ftz}.f16.f32 t, %a; cvt.u32.u16 %d, t; }}"),
            Type::F32,
            1,
            Type::B32,
        );
    }
    add("tanh.approx.f32 %d, %a;".into(), Type::F32, 1, Type::F32);
    add("cvt.rna.tf32.f32 %d, %a;".into(), Type::F32, 1, Type::B32);
    for (mode, kind) in [("rz", "f16"), ("rn", "bf16"), ("rz", "bf16")] {
        add(
            format!("{{ .reg .b16 t; cvt.{mode}.{kind}.f32 t, %a; cvt.u32.u16 %d, t; }}"),
            Type::F32,
            1,
            Type::B32,
        );
    }
    for mode in ROUNDINGS {
        for source in ["s32", "u32"] {
            add(
                format!("cvt.{mode}.f32.{source} %d, %a;"),
                Type::B32,
                1,
                Type::F32,
            );
        }
    }
    for name in [
        "popc.b32",
        "clz.b32",
        "brev.b32",
        "bfind.u32",
        "bfind.s32",
        "abs.s32",
        "neg.s32",
        "not.b32",
    ] {
        add(format!("{name} %d, %a;"), Type::B32, 1, Type::B32);
    }
    for divisor in ["3", "7", "10", "641", "65536", "1000003"] {
        for kind in ["u32", "s32"] {
            add(
                format!("div.{kind} %d, %a, {divisor};"),
                Type::B32,
                1,
                Type::B32,
            );
            add(
                format!("rem.{kind} %d, %a, {divisor};"),
                Type::B32,
                1,
                Type::B32,
            );
        }
    }
    for mode in ROUNDINGS {
        for ftz in ["", ".ftz"] {
            for name in ["add", "sub", "mul", "div"] {
                add(
                    format!("{name}.{mode}{ftz}.f32 %d, %a, %b;"),
                    Type::F32,
                    2,
                    Type::F32,
                );
            }
            add(
                format!("fma.{mode}{ftz}.f32 %d, %a, %b, %c;"),
                Type::F32,
                3,
                Type::F32,
            );
        }
        for name in ["add", "sub", "mul", "div"] {
            add(
                format!("{name}.{mode}.f64 %d, %a, %b;"),
                Type::F64,
                2,
                Type::F64,
            );
        }
        add(
            format!("fma.{mode}.f64 %d, %a, %b, %c;"),
            Type::F64,
            3,
            Type::F64,
        );
        for name in ["rcp", "sqrt"] {
            add(
                format!("{name}.{mode}.f64 %d, %a;"),
                Type::F64,
                1,
                Type::F64,
            );
        }
        add(
            format!("cvt.{mode}.f32.f64 %d, %a;"),
            Type::F64,
            1,
            Type::F32,
        );
        for kind in ["s64", "u64"] {
            add(
                format!("cvt.{mode}.f32.{kind} %d, %a;"),
                Type::B64,
                1,
                Type::F32,
            );
            add(
                format!("cvt.{mode}.f64.{kind} %d, %a;"),
                Type::B64,
                1,
                Type::F64,
            );
        }
    }
    for mode in ["rni", "rzi", "rmi", "rpi"] {
        add(
            format!("cvt.{mode}.f64.f64 %d, %a;"),
            Type::F64,
            1,
            Type::F64,
        );
        for (target, result) in [
            ("s32", Type::B32),
            ("u32", Type::B32),
            ("s64", Type::B64),
            ("u64", Type::B64),
        ] {
            add(
                format!("cvt.{mode}.{target}.f64 %d, %a;"),
                Type::F64,
                1,
                result,
            );
        }
    }
    for ftz in ["", ".ftz"] {
        for name in [
            "div.full",
            "div.approx",
            "min",
            "max",
            "min.NaN",
            "max.NaN",
            "copysign",
        ] {
            if name == "copysign" {
                if ftz.is_empty() {
                    add("copysign.f32 %d, %a, %b;".into(), Type::F32, 2, Type::F32);
                }
                continue;
            }
            let statement = match name.split_once('.') {
                Some((name, "NaN")) => format!("{name}{ftz}.NaN.f32 %d, %a, %b;"),
                _ => format!("{name}{ftz}.f32 %d, %a, %b;"),
            };
            add(statement, Type::F32, 2, Type::F32);
        }
    }
    for name in ["min", "max"] {
        add(format!("{name}.f64 %d, %a, %b;"), Type::F64, 2, Type::F64);
    }
    for name in [
        "rcp.approx.ftz.f64",
        "rsqrt.approx.f64",
        "rsqrt.approx.ftz.f64",
    ] {
        add(format!("{name} %d, %a;"), Type::F64, 1, Type::F64);
    }
    for (kind, operands) in [
        ("s32", Type::B32),
        ("u32", Type::B32),
        ("s64", Type::B64),
        ("u64", Type::B64),
    ] {
        for name in ["div", "rem", "mul.hi", "mul.lo"] {
            add(format!("{name}.{kind} %d, %a, %b;"), operands, 2, operands);
        }
    }
    all
}

impl Operation {
    /// Whether its only operand is tried in full.
    fn is_exhaustive(&self) -> bool {
        self.count == 1 && self.operands.bytes() == 4
    }

    /// A module with the operation as kernel `operation`: operand i of an exhaustive one is its number, counted from `first`.
    fn module(&self) -> String {
        let mut text = String::from(".version 9.0\n.target sm_90a\n.address_size 64\n");
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            ".visible .entry operation(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd, .param .u32 first, .param .u32 n)\n{{"
        )?;
        writeln!(text, ".reg .b32 %i<6>; .reg .b64 %w<6>; .reg .pred %q;")?;
        writeln!(
            text,
            ".reg {0} %a, %b, %c; .reg {1} %d;",
            self.operands.register(),
            self.result.register()
        )?;
        writeln!(
            text,
            "mov.u32 %i0, %ctaid.x; mov.u32 %i1, %ntid.x; mov.u32 %i2, %tid.x;"
        )?;
        writeln!(
            text,
            "mad.lo.u32 %i3, %i0, %i1, %i2; ld.param.u32 %i4, [n]; setp.ge.u32 %q, %i3, %i4; @%q exit;"
        )?;
        if self.is_exhaustive() {
            writeln!(text, "ld.param.u32 %i5, [first]; add.u32 %a, %i3, %i5;")?;
        } else {
            writeln!(text, "mul.wide.u32 %w0, %i3, {};", self.operands.bytes())?;
            for name in &["a", "b", "c"][..self.count] {
                writeln!(
                    text,
                    "ld.param.u64 %w1, [p{name}]; add.u64 %w1, %w1, %w0; ld.global{} %{name}, [%w1];",
                    self.operands.register()
                )?;
            }
        }
        writeln!(text, "{}", self.statement)?;
        writeln!(
            text,
            "mul.wide.u32 %w2, %i3, {}; ld.param.u64 %w3, [pd]; add.u64 %w3, %w3, %w2; st.global{} [%w3], %d; exit;\n}}",
            self.result.bytes(),
            self.result.register()
        )
    }
}

/// The kernel that compares two arrays: how many elements differ, and the first of them.
fn comparison(result: Type) -> String {
    let nan = if result == Type::F64 {
        // Two NaNs are equal.
        "setp.nan.f64 %n1, %x, %x; setp.nan.f64 %n2, %y, %y; and.pred %n1, %n1, %n2; @%n1 exit;"
    } else {
        ""
    };
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry compare(.param .u64 px, .param .u64 py, .param .u64 pc, .param .u32 n)\n{{\n\
         .reg .b32 %i<6>; .reg .b64 %w<6>; .reg .pred %q, %n1, %n2; .reg {kind} %x, %y;\n\
         mov.u32 %i0, %ctaid.x; mov.u32 %i1, %ntid.x; mov.u32 %i2, %tid.x;\n\
         mad.lo.u32 %i3, %i0, %i1, %i2; ld.param.u32 %i4, [n]; setp.ge.u32 %q, %i3, %i4; @%q exit;\n\
         mul.wide.u32 %w0, %i3, {size}; ld.param.u64 %w1, [px]; add.u64 %w1, %w1, %w0; ld.global{kind} %x, [%w1];\n\
         ld.param.u64 %w2, [py]; add.u64 %w2, %w2, %w0; ld.global{kind} %y, [%w2];\n\
         setp.eq{kind} %q, %x, %y; @%q exit; {nan}\n\
         ld.param.u64 %w3, [pc]; red.global.add.u32 [%w3], 1; red.global.min.u32 [%w3+4], %i3; exit;\n}}\n",
        kind = result.register(),
        size = result.bytes(),
    )
}

/// `gpu sweeps`.
pub fn run(assemblers: &str, full: bool) -> Result<(), String> {
    let mut findings = 0;
    let count = operations().len();
    for assembler in Assembler::parse_list(assemblers)? {
        let tier = if full { "full" } else { "short" };
        let words = ["sweeps".to_owned(), assembler.to_string(), tier.to_owned()];
        // Few processes at a time: each holds gigabytes of operands.
        let summary = shards::run(&words, count, 4, PATIENCE, super::LIMIT)?;
        let of = |what: &str| summary.counts.get(what).copied().unwrap_or(0);
        println!(
            "{assembler}: {count} operations: {} equal, {} different, {} refused, {} not tried",
            of("equal"),
            of("different"),
            of("refused"),
            of("not tried")
        );
        findings += summary.findings;
    }
    match findings {
        0 => Ok(()),
        n => Err(format!("{n} findings")),
    }
}

/// The operations of a range, in this process.
pub fn shard(range: Range<usize>, assembler: &str, tier: &str) -> Result<(), String> {
    let assembler = Assembler::parse(assembler)?;
    let full = tier == "full";
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let mut tuples: Option<(Type, Vec<Buffer>)> = None;
    let count = if full { TUPLES } else { TUPLES / 10 };
    for (index, operation) in operations().iter().enumerate().skip(range.start) {
        if index >= range.end {
            break;
        }
        let statement = &operation.statement;
        println!("@{index} {statement}");
        let ours = match assembler.assemble(&operation.module()) {
            Ok(cubin) => cubin,
            Err(why) => {
                println!("{statement} refused: {why}");
                println!("+refused");
                continue;
            }
        };
        let theirs = Assembler::ptxas(3).assemble(&operation.module())?;
        let compare = Assembler::ptxas(3).assemble(&comparison(operation.result))?;
        let driver = |error: DriverError| format!("{statement} {error}");
        let [ours, theirs, compare] =
            [ours, theirs, compare].map(|image| gpu.load(&image).map_err(driver));
        let pair = Pair {
            gpu: &gpu,
            operation,
            ours: ours?,
            theirs: theirs?,
            compare: compare?,
        };
        let found = if operation.is_exhaustive() {
            pair.all_operands(if full { 1 } else { EVERY })
                .map_err(driver)?
        } else {
            let there = tuples
                .as_ref()
                .is_some_and(|(kind, _)| *kind == operation.operands);
            if !there {
                drop(tuples.take());
                println!("@{index} operands of {statement}");
                let columns = columns(operation.operands, count);
                let buffers = columns.iter().map(|bytes| gpu.buffer(bytes));
                let buffers: Result<Vec<Buffer>, DriverError> = buffers.collect();
                tuples = Some((operation.operands, buffers.map_err(driver)?));
                println!("@{index} {statement}");
            }
            let columns = tuples.as_ref().map_or(&[][..], |(_, columns)| columns);
            pair.tuples(columns, count).map_err(driver)?
        };
        match found {
            None => println!("+equal"),
            Some(words) => {
                println!("{statement} {words}");
                println!("+different");
            }
        }
    }
    Ok(())
}

/// Both codes of an operation, loaded.
struct Pair<'a> {
    gpu: &'a Gpu,
    operation: &'a Operation,
    ours: Module,
    theirs: Module,
    compare: Module,
}

impl Pair<'_> {
    /// Runs both codes on some operands and compares: how many differ, and the number of the first.
    fn once(
        &self,
        operands: &[u64; 3],
        results: &[Buffer; 2],
        first: u32,
        n: u32,
    ) -> Result<(u32, u32), DriverError> {
        let grid = [n.div_ceil(256), 1, 1];
        let block = [256, 1, 1];
        for (module, result) in [&self.ours, &self.theirs].into_iter().zip(results) {
            let mut arguments: Vec<Vec<u8>> = operands.map(|it| it.to_le_bytes().to_vec()).into();
            arguments.push(result.address().to_le_bytes().to_vec());
            arguments.push(first.to_le_bytes().to_vec());
            arguments.push(n.to_le_bytes().to_vec());
            module
                .kernel("operation", 0)?
                .launch(grid, block, &arguments)?;
        }
        let mut start = 0u32.to_le_bytes().to_vec();
        start.extend(u32::MAX.to_le_bytes());
        let counts = self.gpu.buffer(&start)?;
        let mut arguments: Vec<Vec<u8>> = Vec::new();
        for buffer in [&results[0], &results[1], &counts] {
            arguments.push(buffer.address().to_le_bytes().to_vec());
        }
        arguments.push(n.to_le_bytes().to_vec());
        self.compare
            .kernel("compare", 0)?
            .launch(grid, block, &arguments)?;
        let bytes = counts.read()?;
        let word = |at: usize| {
            bytes[at..at + 4]
                .iter()
                .rev()
                .fold(0, |n, byte| n << 8 | u32::from(*byte))
        };
        Ok((word(0), word(4)))
    }

    fn results(&self, n: usize) -> Result<[Buffer; 2], DriverError> {
        let bytes = n * self.operation.result.bytes();
        Ok([self.gpu.room(bytes)?, self.gpu.room(bytes)?])
    }

    /// The results of one operand number, ours and theirs.
    fn shown(&self, results: &[Buffer; 2], at: u32) -> Result<String, DriverError> {
        let size = self.operation.result.bytes();
        let mut shown = Vec::new();
        for result in results {
            let bytes = result.read()?;
            let from = at as usize * size;
            let word = bytes[from..from + size].iter().rev();
            shown.push(word.fold(0, |n, byte| n << 8 | u64::from(*byte)));
        }
        Ok(format!("{:x}, not {:x}", shown[0], shown[1]))
    }

    /// Every `every`th chunk of all operands.
    fn all_operands(&self, every: usize) -> Result<Option<String>, DriverError> {
        let results = self.results(CHUNK as usize)?;
        let mut different = 0;
        let mut example = None;
        for chunk in (0..(1u64 << 32) / CHUNK).step_by(every) {
            // The chunks of the short tier begin at other places of the exponent each time round.
            let first = (chunk * CHUNK) as u32;
            let (count, at) = self.once(&[0; 3], &results, first, CHUNK as u32)?;
            different += u64::from(count);
            if count > 0 && example.is_none() {
                let operand = first.wrapping_add(at);
                example = Some(format!("of {operand:08x} is {}", self.shown(&results, at)?));
            }
        }
        Ok(example.map(|example| format!("{different} operands differ: {example}")))
    }

    /// All tuples.
    fn tuples(&self, columns: &[Buffer], n: usize) -> Result<Option<String>, DriverError> {
        let results = self.results(n)?;
        let mut addresses = [0; 3];
        for (slot, buffer) in addresses.iter_mut().zip(columns) {
            *slot = buffer.address();
        }
        let (count, at) = self.once(&addresses, &results, 0, n as u32)?;
        if count == 0 {
            return Ok(None);
        }
        let operands = tuple(self.operation.operands, u64::from(at));
        let operands = &operands[..self.operation.count];
        Ok(Some(format!(
            "{count} of {n} tuples differ: of {operands:x?} is {}",
            self.shown(&results, at)?
        )))
    }
}

/// The columns of operands of `count` tuples.
fn columns(kind: Type, count: usize) -> [Vec<u8>; 3] {
    let size = kind.bytes();
    let mut columns = [0; 3].map(|_: u8| vec![0; count * size]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = count.div_ceil(threads).max(1);
    let [a, b, c] = &mut columns;
    std::thread::scope(|scope| {
        let parts = a
            .chunks_mut(part * size)
            .zip(b.chunks_mut(part * size))
            .zip(c.chunks_mut(part * size));
        for (number, ((a, b), c)) in parts.enumerate() {
            scope.spawn(move || {
                let rows = a
                    .chunks_mut(size)
                    .zip(b.chunks_mut(size))
                    .zip(c.chunks_mut(size));
                for (at, ((a, b), c)) in rows.enumerate() {
                    let operands = tuple(kind, (number * part + at) as u64);
                    for (slot, operand) in [a, b, c].into_iter().zip(operands) {
                        slot.copy_from_slice(&operand.to_le_bytes()[..size]);
                    }
                }
            });
        }
    });
    columns
}

/// Values that decide: zeros, subnormals, ones, the largest, infinities, NaNs; the edges of integer ranges are among them.
fn special(kind: Type, word: u64) -> u64 {
    let (exponent, mantissa) = match kind {
        Type::B32 | Type::F32 => (8, 23),
        Type::B64 | Type::F64 => (11, 52),
    };
    let bias = (1u64 << (exponent - 1)) - 1;
    let top = (1u64 << exponent) - 1;
    let full = (1u64 << mantissa) - 1;
    let choices = [
        0,
        1,
        full,
        1 << mantissa,
        (1 << mantissa) + 1,
        bias << mantissa,
        (bias << mantissa) + 1,
        ((bias - 1) << mantissa) + full,
        (bias + 1) << mantissa,
        ((top - 1) << mantissa) + full,
        top << mantissa,
        (top << mantissa) + (1 << (mantissa - 1)),
        (top << mantissa) + 1,
        7,
        full >> 1,
        (bias - 2) << mantissa,
    ];
    let sign = (word >> 8 & 1) << (exponent + mantissa);
    choices[(word % 16) as usize] | sign
}

/// Operands number `at`. By its remainder by eight: random bits (0, 1); numbers near one (2); a quotient of the other two, or a
/// neighbour of it (3); a square or a neighbour, and numbers of its size (4); a product's negative as the addend (5); exponents
/// whose product or quotient lies at an end of the range (6); special values (7).
fn tuple(kind: Type, at: u64) -> [u64; 3] {
    let mut words = Words::new(at.wrapping_mul(0x9e37_79b9) ^ 0x5eed);
    let mut next = || words.next();
    let random = [next(), next(), next()];
    let class = at % 8;
    if class == 7 {
        let mixed = random[0] >> 32 & 3;
        let a = special(kind, random[0]);
        let b = if mixed == 0 {
            random[1]
        } else {
            special(kind, random[1])
        };
        let c = if mixed == 1 {
            random[2]
        } else {
            special(kind, random[2])
        };
        return [a, b, c];
    }
    match kind {
        Type::B32 | Type::B64 => {
            // Integers of every length.
            let shift = |word: u64, by: u64| (word as i64 >> (by % 56)).cast_unsigned();
            match class {
                0 | 1 => random,
                _ => [
                    shift(random[0], next()),
                    shift(random[1], next()),
                    shift(random[2], next()),
                ],
            }
        }
        Type::F32 => {
            let near = |word: u64, spread: u64| {
                let exponent = 127 - spread / 2 + (word >> 40) % spread;
                f32::from_bits(((word >> 32 & 1) << 31 | exponent << 23 | word & 0x7f_ffff) as u32)
            };
            let step = |x: f32, word: u64| {
                u64::from(x.to_bits().wrapping_add((word % 5) as u32).wrapping_sub(2))
            };
            let bits = |x: f32| u64::from(x.to_bits());
            let [p, q, r] = random.map(|word| near(word, 16));
            match class {
                0 | 1 => random,
                2 => [bits(p), bits(q), bits(r)],
                3 => [step(p * q, next()), bits(q), bits(r)],
                4 => [step(p * p, next()), step(-(p * p), next()), bits(r)],
                5 => [bits(p), bits(q), step(-(p * q), next())],
                _ => {
                    let [p, q, r] = random.map(|word| near(word, 252));
                    [bits(p), bits(q), bits(r)]
                }
            }
        }
        Type::F64 => {
            let near = |word: u64, spread: u64| {
                let mixed = word.wrapping_mul(0xd134_2543_de82_ef95);
                let exponent = 1023 - spread / 2 + (mixed >> 40) % spread;
                f64::from_bits((mixed & 1) << 63 | exponent << 52 | word & ((1 << 52) - 1))
            };
            let step = |x: f64, word: u64| x.to_bits().wrapping_add(word % 5).wrapping_sub(2);
            let [p, q, r] = random.map(|word| near(word, 16));
            let bits = f64::to_bits;
            match class {
                0 | 1 => random,
                2 => [bits(p), bits(q), bits(r)],
                3 => [step(p * q, next()), bits(q), bits(r)],
                4 => [step(p * p, next()), step(-(p * p), next()), bits(r)],
                5 => [bits(p), bits(q), step(-(p * q), next())],
                _ => {
                    let [p, q, r] = random.map(|word| near(word, 2044));
                    [bits(p), bits(q), bits(r)]
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_ptx() {
        for operation in operations() {
            let text = operation.module();
            let (_, found) = orias_ptx::parse(text.as_bytes());
            assert!(
                !found.has_errors(),
                "{}",
                found.to_lines("module", text.as_bytes())
            );
        }
        for kind in [Type::B32, Type::F64] {
            let text = comparison(kind);
            let (_, found) = orias_ptx::parse(text.as_bytes());
            assert!(
                !found.has_errors(),
                "{}",
                found.to_lines("module", text.as_bytes())
            );
        }
    }

    #[test]
    fn tuples_have_quotients_and_cancelling_sums() {
        let [a, b, _] = tuple(Type::F32, 3);
        let quotient = f32::from_bits(a as u32) / f32::from_bits(b as u32);
        assert!(quotient.is_finite());
        let [a, b, c] = tuple(Type::F64, 5).map(f64::from_bits);
        assert!((a * b + c).abs() <= (a * b).abs() * 1e-14);
    }
}
