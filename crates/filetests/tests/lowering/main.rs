//! Lowered PTX means what the PTX means.
//!
//! For each row of the instruction tables, modules with some choices of its modifiers are lowered. All must come out sound or
//! be refused by name, and those that only compute are executed: by `reference`, which knows PTX, and after phase 5 by the
//! interpreter of abstract code, which knows Ori. Both must leave the same bits in memory.

mod programs;

use orias_codegen::knobs::Knobs;
use orias_codegen::lower::{LowerOptions, lower};
use orias_codegen::pipeline::{Context, PHASES, Pipeline, find_phase};
use orias_generate::synth::{self, Choice};
use orias_interpret::{End, Memory, Run, run};
use orias_ori::operation::{AbstractOp, Space, Special};
use orias_ori::{Function, print_function, verify_function};
use orias_ptx::grammar::{Access, Modifier, Op, ROWS};
use orias_ptx::opcode::{Pattern, PatternKind};
use orias_ptx::target::Target;
use orias_ptx::types::{Type, TypeClass};
use orias_reference::{Launch, Program};
use std::collections::BTreeSet;
use std::fmt::Write;

const VERSION: u16 = 90;

fn target() -> Target {
    Target::from_name("sm_90a").expect("a target")
}

/// Families that later issues bring: instructions of these names may be refused.
const LATER: &[&str] = &[
    "barrier.cluster",
    "clusterlaunchcontrol",
    "cp.async.bulk",
    "cp.async.mbarrier",
    "cp.reduce",
    "fence",
    "istypep",
    "mbarrier",
    "mma",
    "multimem",
    "prefetch",
    "red.async",
    "st.async",
    "suld",
    "suq",
    "sured",
    "sust",
    "tensormap",
    "tex",
    "tld4",
    "txq",
    "wgmma",
    "wmma",
];

fn is_later(op: Op) -> bool {
    LATER
        .iter()
        .any(|name| op.name() == *name || op.name().starts_with(&format!("{name}.")))
}

#[test]
fn every_row_is_lowered_or_belongs_to_a_later_issue() {
    let mut lowered = 0;
    let mut refused: BTreeSet<String> = BTreeSet::new();
    for row in ROWS {
        for choice in synth::choices(row, VERSION, target(), 6) {
            let text = synth::sample(&choice, VERSION, target()).text();
            let (module, found) = orias_ptx::parse(text.as_bytes());
            if found.has_errors() {
                continue;
            }
            match lower(&module, &LowerOptions::default()) {
                Ok(module) => {
                    lowered += 1;
                    for kernel in &module.kernels {
                        assert_eq!(verify_function(&kernel.code), Ok(()), "{text}");
                    }
                }
                Err(problems) => {
                    for problem in problems {
                        let message = problem.message;
                        assert!(!message.contains("internal"), "{message}\n{text}");
                        if !is_later(row.op) {
                            refused.insert(format!("{}: {message}", row.syntax));
                        }
                    }
                }
            }
        }
    }
    assert!(lowered > 1400, "{lowered}");
    let known = [
        "indirect calls",
        "the address of function",
        "madc.hi",
        "madc.lo",
    ];
    let surprising: Vec<&String> = refused
        .iter()
        .filter(|it| !known.iter().any(|known| it.contains(known)))
        .collect();
    assert!(surprising.is_empty(), "{surprising:#?}");
}

/// Tables whose instructions compute and do nothing else.
const PURE_FILES: &[&str] = &[
    "integer.ptxg",
    "extended.ptxg",
    "float.ptxg",
    "half.ptxg",
    "compare.ptxg",
    "logic.ptxg",
    "convert.ptxg",
    "video.ptxg",
];

/// Functions that have a bound in the manual, not a value.
fn is_approximate(choice: &Choice) -> bool {
    let op = choice.form.row.op;
    matches!(
        op,
        Op::Sin | Op::Cos | Op::Lg2 | Op::Ex2 | Op::Tanh | Op::Rsqrt | Op::DivFull
    ) || choice.form.has(Modifier::Approx)
}

/// Forms on which the manual is silent or ptxas differs from it; lowering follows ptxas.
fn is_disputed(choice: &Choice) -> bool {
    let form = &choice.form;
    match form.row.op {
        // ptxas reads `.ftz` here and ignores it.
        Op::Rcp => form.has(Modifier::Ftz) && form.has(Modifier::F64),
        // How the result is clamped, and the sign of the summand, follow from the factors, not from the result's type.
        Op::Vmad => {
            form.has(Modifier::Sat) || form.get(orias_ptx::grammar::slot_names::SCALE).is_some()
        }
        _ => false,
    }
}

/// A kernel that loads the operands of an instruction, executes it and stores its results.
struct Probe {
    text: String,
    inputs: Vec<Type>,
    outputs: usize,
}

struct Writer {
    before: String,
    after: String,
    inputs: Vec<Type>,
    outputs: usize,
    registers: usize,
}

impl Writer {
    /// A register that holds an operand of the type.
    fn input(&mut self, ty: Type) -> String {
        let slot = 16 * self.inputs.len();
        let register = format!("%x{}", self.registers);
        self.registers += 1;
        match storage(ty) {
            None => {
                let _ = writeln!(
                    self.before,
                    ".reg .pred {register}; .reg .b32 {register}_word; ld.global.b32 {register}_word, [%base+{slot}]; and.b32 {register}_word, {register}_word, 1; setp.ne.u32 {register}, {register}_word, 0;"
                );
            }
            Some(bits) => {
                let _ = writeln!(
                    self.before,
                    ".reg .b{bits} {register}; ld.global.b{bits} {register}, [%base+{slot}];"
                );
            }
        }
        self.inputs.push(ty);
        register
    }

    fn output(&mut self, ty: Type) -> String {
        let slot = 128 + 16 * self.outputs;
        let register = format!("%y{}", self.outputs);
        self.outputs += 1;
        match storage(ty) {
            None => {
                let _ = writeln!(
                    self.before,
                    ".reg .pred {register}; .reg .b32 {register}_word;"
                );
                let _ = writeln!(
                    self.after,
                    "selp.b32 {register}_word, 1, 0, {register}; st.global.b32 [%base+{slot}], {register}_word;"
                );
            }
            Some(bits) => {
                let _ = writeln!(self.before, ".reg .b{bits} {register};");
                let _ = writeln!(self.after, "st.global.b{bits} [%base+{slot}], {register};");
            }
        }
        register
    }

    fn operand(&mut self, pattern: &Pattern) -> Option<String> {
        let mut text = match &pattern.kind {
            PatternKind::Value(value) => {
                let form = &value.form;
                if pattern.access == Access::Write {
                    self.output(value.ty)
                } else if form.register {
                    self.input(value.ty)
                } else {
                    match form.range {
                        Some((low, _)) => low.max(1).to_string(),
                        None => "150".to_owned(),
                    }
                }
            }
            PatternKind::Pair(both, _) => {
                let first = self.operand(&both[0])?;
                let second = self.operand(&both[1])?;
                format!("{first}|{second}")
            }
            _ => return None,
        };
        // Video instructions: the second selector of each list.
        for suffix in pattern.suffixes {
            if let Some(modifier) = suffix.modifiers.get(1).or(suffix.modifiers.first()) {
                let _ = write!(text, "{modifier}");
            }
        }
        Some(text)
    }
}

/// The size of a register that holds a type; none for predicates.
fn storage(ty: Type) -> Option<u32> {
    match ty.bits() {
        1 if ty.class() == TypeClass::Pred => None,
        0..=8 => Some(32),
        bits => Some(bits),
    }
}

fn probe(choice: &Choice) -> Option<Probe> {
    let shape = &choice.form.shapes[choice.shape];
    let mut writer = Writer {
        before: String::new(),
        after: String::new(),
        inputs: Vec::new(),
        outputs: 0,
        registers: 0,
    };
    let mut opcode = choice.form.row.op.name().to_owned();
    for modifier in choice.form.modifiers() {
        let _ = write!(opcode, "{modifier}");
    }
    let name = choice.form.row.op.name();
    let takes_carry =
        name.starts_with("addc") || name.starts_with("subc") || name.starts_with("madc");
    if takes_carry {
        let a = writer.input(Type::B32);
        let op = if name.starts_with("subc") {
            "sub"
        } else {
            "add"
        };
        let _ = writeln!(
            writer.before,
            ".reg .b32 %carry; {op}.cc.u32 %carry, {a}, -2147483648;"
        );
    }
    let mut operands = Vec::new();
    for pattern in &shape.operands {
        operands.push(writer.operand(pattern)?);
    }
    if choice.form.has(Modifier::Cc) {
        let carry = writer.output(Type::B32);
        // The flag is a carry after differences, too, and may be read by either.
        writer.after = format!("addc.u32 {carry}, 0, 0;\n{}", writer.after);
    }
    let text = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry probe(.param .u64 data)\n{{\n.reg .b64 %base, %data; .reg .b32 %thread;\nld.param.u64 %data, [data];\nmov.u32 %thread, %tid.x;\nmad.wide.u32 %base, %thread, 256, %data;\n{}{opcode} {};\n{}ret;\n}}\n",
        writer.before,
        operands.join(", "),
        writer.after
    );
    Some(Probe {
        text,
        inputs: writer.inputs,
        outputs: writer.outputs,
    })
}

const THREADS: usize = 48;

/// An operand of a type: special values first.
fn operand_bits(ty: Type, random: &mut synth::Random, thread: usize) -> u64 {
    let mut wide = || {
        (random.below(1 << 30) as u64) << 34
            ^ (random.below(1 << 30) as u64) << 15
            ^ random.below(1 << 15) as u64
    };
    let noise = wide();
    let special: &[u64] = match ty {
        Type::F32 => &[
            0,
            0x8000_0000,
            1,
            0x807f_ffff,
            0x0080_0000,
            0x3f80_0000,
            0xbf80_0000,
            0x7f7f_ffff,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0x4f00_0000,
            0x3f00_0000,
            0xc020_0000,
            0x5f80_0000,
            0x3fff_ffff,
        ],
        Type::F64 => &[
            0,
            1 << 63,
            1,
            0x3ff0_0000_0000_0000,
            0xbff8_0000_0000_0000,
            0x7fef_ffff_ffff_ffff,
            0x7ff0_0000_0000_0000,
            0xfff0_0000_0000_0000,
            0x7ff8_0000_0000_0000,
            0x41e0_0000_0000_0000,
            0x3fe0_0000_0000_0000,
            0x000f_ffff_ffff_ffff,
            0x3690_0000_0000_0000,
        ],
        _ => &[
            0,
            1,
            u64::MAX,
            1 << 31,
            (1 << 31) - 1,
            1 << 63,
            0x8000,
            0x7fff,
            5,
            32,
            0x3c00_bc00,
            0x7c00_fe00,
        ],
    };
    let bits = match random.below(4) {
        0 => special[random.below(special.len())],
        1 => noise >> random.below(64),
        2 if matches!(ty, Type::F32) => 0x3e00_0000 + (noise & 0x83ff_ffff),
        2 if matches!(ty, Type::F64) => 0x3fc0_0000_0000_0000 + (noise & 0x80ff_ffff_ffff_ffff),
        _ => noise,
    };
    if thread < special.len() {
        return special[(thread + random.below(2)) % special.len()];
    }
    bits
}

fn expand(function: &mut Function) {
    let row = find_phase(PHASES, "ConvertUnsupportedOps").expect("the phase");
    let pipeline = Pipeline {
        first: row,
        end: row + 1,
        verify_each: true,
        ..Pipeline::default()
    };
    let knobs = Knobs::default();
    let context = Context {
        opt_level: 3,
        knobs: &knobs,
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    let outcome = pipeline.run(function, &context, &mut |_| {});
    assert_eq!(outcome, Ok(()), "{}", print_function(function));
}

/// The machine's functions that expansions use, rounded to nearest.
fn machine(op: AbstractOp, f64_type: bool, bits: u64) -> u64 {
    let function = |x: f64| match op {
        AbstractOp::Rcp => 1.0 / x,
        AbstractOp::Sqrt => x.sqrt(),
        _ => 1.0 / x.sqrt(),
    };
    if f64_type {
        let x = f64::from_bits(bits & !0xffff_ffff);
        let x = if x.is_subnormal() {
            0.0_f64.copysign(x)
        } else {
            x
        };
        return function(x).to_bits() & !0xffff_ffff;
    }
    let x = f32::from_bits(bits as u32);
    let x = if x.is_subnormal() {
        0.0_f32.copysign(x)
    } else {
        x
    };
    let result = function(f64::from(x)) as f32;
    let result = if result.is_subnormal() {
        0.0_f32.copysign(result)
    } else {
        result
    };
    u64::from(result.to_bits())
}

/// What differs between PTX and the lowered code, if anything.
fn disagreement(choice: &Choice, probe: &Probe) -> Option<String> {
    let (module, mut found) = orias_ptx::parse(probe.text.as_bytes());
    let options = orias_ptx::Options::for_architecture("sm_90a").expect("a target");
    found.append(orias_ptx::check(&module, &options));
    if found.has_errors() {
        return None;
    }
    let mut lowered = lower(&module, &LowerOptions::default()).ok()?;
    let function = &mut lowered.kernels[0].code;
    expand(function);
    let mut random = synth::Random::new(u64::from(choice.form.row.line));
    let divides = matches!(choice.form.row.op, Op::Div | Op::Rem);
    let mut bytes = vec![0_u8; 256 * THREADS];
    for thread in 0..THREADS {
        for (index, &ty) in probe.inputs.iter().enumerate() {
            let mut bits = operand_bits(ty, &mut random, thread);
            if divides
                && index == 1
                && ty.is_integer()
                && bits & (u64::MAX >> (64 - ty.bits())) == 0
            {
                bits = 7;
            }
            let at = 256 * thread + 16 * index;
            bytes[at..at + 8].copy_from_slice(&bits.to_le_bytes());
        }
    }
    let mut program = Program::load(&module).ok()?;
    let data = program.memory_mut().allocate(bytes.clone());
    let launch =
        Launch::new("probe", [1, 1, 1], [THREADS as u32, 1, 1]).argument(data.to_le_bytes());
    program.launch(&launch).ok()?;
    let want = program
        .memory()
        .read(data, bytes.len())
        .expect("the data")
        .to_vec();
    for thread in 0..THREADS {
        let mut memory = Memory::default();
        memory.store(Space::Param, 0, data.into(), 8);
        let base = data + 256 * thread as u64;
        for offset in 0..128 {
            let byte = bytes[256 * thread + offset as usize];
            memory.store(Space::Global, base + offset, byte.into(), 1);
        }
        let end = run(
            function,
            &[],
            Run {
                memory: &mut memory,
                special: &|special| u64::from(special == Special::TidX) * thread as u64,
                symbol: &|_| 0,
                approximate: &|which, bits| {
                    machine(
                        which.op,
                        which.scalar == orias_ori::operation::Scalar::F64,
                        bits,
                    )
                },
                limit: 100_000,
            },
        );
        match end {
            Ok(End::Exit) => {}
            other => return Some(format!("{other:?}")),
        }
        for output in 0..probe.outputs {
            let at = 128 + 16 * output;
            let have = memory.load(Space::Global, base + at as u64, 8) as u64;
            let place = 256 * thread + at;
            let want = u64::from_le_bytes(want[place..place + 8].try_into().expect("eight bytes"));
            if have != want {
                let inputs: Vec<String> = (0..probe.inputs.len())
                    .map(|index| {
                        let at = 256 * thread + 16 * index;
                        let bits = bytes[at..at + 8].try_into().expect("eight bytes");
                        format!("{:x}", u64::from_le_bytes(bits))
                    })
                    .collect();
                let line = probe
                    .text
                    .lines()
                    .find(|line| line.starts_with(choice.form.row.op.name()));
                return Some(format!(
                    "{}\n  of {}: PTX {want:x}, Ori {have:x}",
                    line.unwrap_or_default(),
                    inputs.join(", ")
                ));
            }
        }
    }
    Some(String::new())
}

#[test]
fn computing_instructions_give_what_the_reference_gives() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for row in ROWS.iter().filter(|row| PURE_FILES.contains(&row.file)) {
        for choice in synth::choices(row, VERSION, target(), 10) {
            if is_approximate(&choice) || is_disputed(&choice) {
                continue;
            }
            let Some(probe) = probe(&choice) else {
                continue;
            };
            match disagreement(&choice, &probe) {
                None => {}
                Some(text) if text.is_empty() => compared += 1,
                Some(text) => wrong.push(text),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong, {compared} right:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 1400, "{compared}");
}
