//! What ScheduleInstructions does to the kernels of PTX files: estimated cycles and registers, without it and with it.
//!
//! `cargo run --release -p orias-codegen --example schedule_sweep -- [--verbose] [--knob NAME=VALUE]... FILE...`

use orias_codegen::knobs::Knobs;
use orias_codegen::lower::{LowerOptions, lower};
use orias_codegen::pipeline::{Context, PHASES, Pipeline, find_phase};
use orias_codegen::schedule::instructions::{Plan, plan};
use orias_codegen::schedule::join::join_blocks;
use orias_ori::{Class, Function};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Totals {
    kernels: usize,
    instructions: usize,
    cycles: (f64, f64),
    ratios: f64,
    registers: (f64, f64),
    register_ratios: f64,
    grown: usize,
    spilled: Vec<String>,
    moved: (usize, usize),
    by: BTreeMap<&'static str, usize>,
    scheduling: Duration,
    allocating: (Duration, Duration),
    code: (usize, usize),
    worst: Vec<(f64, String)>,
}

fn main() {
    let mut knobs = Knobs::default();
    let mut verbose = false;
    let mut files = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--verbose" => verbose = true,
            "--knob" => {
                let setting = words.next().unwrap_or_default();
                if let Err(error) = knobs.set(&setting) {
                    eprintln!("{error}");
                    std::process::exit(2);
                }
            }
            _ => files.push(word),
        }
    }
    let context = Context {
        opt_level: 3,
        knobs: &knobs,
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    let mut totals = Totals::default();
    for path in files {
        if let Err(reason) = file(&path, &context, verbose, &mut totals) {
            println!("{path}: {reason}");
        }
    }
    print(&mut totals);
}

fn file(
    path: &str,
    context: &Context<'_>,
    verbose: bool,
    totals: &mut Totals,
) -> Result<(), String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let (parsed, _) = orias_ptx::parse(&text);
    let module = lower(&parsed, &LowerOptions::default())
        .map_err(|errors| format!("lower: {}", errors[0].message))?;
    for kernel in module.kernels {
        let mut code = kernel.code;
        let name = format!("{path}: {}", code.name);
        run(&mut code, context, None, "SelectInstructions", false)?;
        let mut joined = code.clone();
        join_blocks(&mut joined);
        let decided = plan(&joined, context).map_err(|error| error.to_string())?;
        let mut plain = joined;
        let start = Instant::now();
        run(
            &mut plain,
            context,
            Some("AllocateRegisters"),
            "AllocateRegisters",
            false,
        )?;
        let before = start.elapsed();
        let mut scheduled = code;
        let start = Instant::now();
        run(
            &mut scheduled,
            context,
            Some("ScheduleInstructions"),
            "ScheduleInstructions",
            true,
        )?;
        totals.scheduling += start.elapsed();
        let start = Instant::now();
        run(
            &mut scheduled,
            context,
            Some("AllocateRegisters"),
            "AllocateRegisters",
            false,
        )?;
        totals.allocating.0 += before;
        totals.allocating.1 += start.elapsed();
        add(&name, &plain, &scheduled, &decided, verbose, totals);
    }
    Ok(())
}

fn run(
    func: &mut Function,
    context: &Context<'_>,
    first: Option<&str>,
    last: &str,
    verify: bool,
) -> Result<(), String> {
    let row = |name: &str| find_phase(PHASES, name).expect("the phase");
    let pipeline = Pipeline {
        first: first.map_or(0, row),
        end: row(last) + 1,
        verify_each: verify,
        ..Pipeline::default()
    };
    pipeline
        .run(func, context, &mut |_| {})
        .map_err(|failure| failure.to_string())
}

fn registers(func: &Function) -> u32 {
    func.blocks()
        .flat_map(|block| func.block_insts(block))
        .flat_map(|inst| func.defs(inst).chain(func.uses(inst)))
        .filter_map(|reg| reg.phys())
        .filter(|reg| reg.class() == Class::R)
        .map(|reg| u32::from(reg.index()) + u32::from(reg.len()))
        .max()
        .unwrap_or(0)
}

fn instructions(func: &Function) -> usize {
    func.blocks()
        .map(|block| func.block_insts(block).count())
        .sum()
}

fn add(
    name: &str,
    plain: &Function,
    scheduled: &Function,
    plan: &Plan,
    verbose: bool,
    totals: &mut Totals,
) {
    let weigh = |pick: fn(&(u32, u32)) -> u32| -> f64 {
        plan.blocks
            .iter()
            .map(|block| f64::from(pick(&block.cycles)) * block.frequency)
            .sum()
    };
    let (before, after) = (weigh(|cycles| cycles.0), weigh(|cycles| cycles.1));
    let (had, has) = (registers(plain), registers(scheduled));
    totals.kernels += 1;
    totals.instructions += instructions(scheduled);
    totals.code.0 += instructions(plain);
    totals.code.1 += instructions(scheduled);
    totals.cycles.0 += before;
    totals.cycles.1 += after;
    totals.ratios += (after.max(1.0) / before.max(1.0)).ln();
    totals.registers.0 += f64::from(had);
    totals.registers.1 += f64::from(has);
    totals.register_ratios += (f64::from(has.max(1)) / f64::from(had.max(1))).ln();
    totals.grown += usize::from(has.next_multiple_of(8) > had.next_multiple_of(8));
    totals.moved.0 += plan.orders.len();
    totals.moved.1 += plan.blocks.len();
    for block in &plan.blocks {
        *totals.by.entry(block.by).or_default() += 1;
    }
    let frame = |func: &Function| func.attributes.local;
    if frame(scheduled) > frame(plain) {
        totals.spilled.push(format!(
            "{name}: {} bytes of stack, not {}",
            frame(scheduled),
            frame(plain)
        ));
    }
    totals.worst.push((
        f64::from(has) / f64::from(had.max(1)),
        format!("{name}: {had} -> {has} registers"),
    ));
    if verbose {
        println!(
            "{name}: {before:.0} -> {after:.0} cycles, {had} -> {has} registers, budget {}",
            plan.budget
        );
        for block in &plan.blocks {
            println!(
                "    {} x{} {}: {} -> {} cycles, {} -> {} live; tried {:?}",
                block.block,
                block.frequency,
                block.by,
                block.cycles.0,
                block.cycles.1,
                block.registers.0,
                block.registers.1,
                block.tried
            );
        }
    }
}

fn print(totals: &mut Totals) {
    let count = totals.kernels.max(1) as f64;
    println!(
        "{} kernels, {} instructions after allocation",
        totals.kernels, totals.instructions
    );
    println!(
        "estimated cycles, weighted by loops: {:.0} -> {:.0}; geometric mean of ratios {:.3}",
        totals.cycles.0,
        totals.cycles.1,
        (totals.ratios / count).exp()
    );
    println!(
        "registers: {:.0} -> {:.0}; geometric mean {:.3}; {} kernels need another portion",
        totals.registers.0,
        totals.registers.1,
        (totals.register_ratios / count).exp(),
        totals.grown
    );
    println!("instructions: {} -> {}", totals.code.0, totals.code.1);
    println!(
        "blocks: {} of {} changed; {:?}",
        totals.moved.0, totals.moved.1, totals.by
    );
    println!(
        "time: scheduling {:?}, allocation {:?} -> {:?}",
        totals.scheduling, totals.allocating.0, totals.allocating.1
    );
    println!("{} kernels spill more", totals.spilled.len());
    for line in &totals.spilled {
        println!("    {line}");
    }
    totals.worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (ratio, line) in totals.worst.iter().take(8) {
        println!("    {ratio:.2} {line}");
    }
}
