//! `cargo xtask mine CUBIN…`: the smallest distances finished code dares.
//!
//! Walks every function of the given cubins with `verify`'s flow and keeps, for each pair of timing classes, kind of
//! dependence and operand role, the smallest number of cycles between the two, and how often the dependence was covered
//! by a wait instead. What ptxas never goes below is safe; this is where `verify` takes its latencies from.

use orias_cubin::Cubin;
use orias_cubin::attribute::Value;
use orias_sass::{Instruction, RegisterClass, Target};
use orias_verify::flow::{self, Dependence, Hazard};
use orias_verify::program::Program;
use std::collections::BTreeMap;

/// What is known of one edge.
#[derive(Clone, Debug)]
struct Seen {
    /// The smallest distance without a wait.
    cycles: u16,
    /// Where that was.
    place: String,
    /// How often it was covered by the distance alone.
    bare: u64,
    /// How often a wait covered it.
    waited: u64,
}

/// What a register is to an instruction.
fn role(instruction: &Instruction, slot: Option<u8>, class: RegisterClass) -> String {
    let place = match slot {
        None => "guard".to_owned(),
        Some(slot) => instruction.op().row().slots[usize::from(slot)]
            .name
            .to_owned(),
    };
    format!("{class:?}.{place}")
}

/// `cargo xtask mine`.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut edges: BTreeMap<(Hazard, String, String), Seen> = BTreeMap::new();
    let (mut functions, mut instructions) = (0, 0);
    for path in args {
        let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        let cubin = Cubin::read(&bytes).map_err(|error| format!("{path}: {error}"))?;
        for function in cubin.functions() {
            let targets = |offset: usize| {
                function
                    .attributes
                    .iter()
                    .find_map(|attribute| match &attribute.value {
                        Value::IndirectBranches(branches) => {
                            let branch = branches
                                .iter()
                                .find(|branch| branch.offset as usize == offset)?;
                            Some(
                                branch
                                    .targets
                                    .iter()
                                    .map(|target| *target as usize)
                                    .collect(),
                            )
                        }
                        _ => None,
                    })
            };
            let program = match Program::new(function.name, function.code, Target::Sm90a, targets) {
                Ok(program) => program,
                Err(error) => {
                    println!("left out: {path}: {error}");
                    continue;
                }
            };
            functions += 1;
            instructions += program.instructions.len();
            let outcome = flow::observe(&program, |dependence| {
                record(&mut edges, &program, path, dependence)
            });
            if let Err(error) = outcome {
                println!("left out: {path}: {error}");
            }
        }
    }
    for ((hazard, earlier, later), seen) in &edges {
        let hazard = match hazard {
            Hazard::ReadAfterWrite => "RAW",
            Hazard::WriteAfterRead => "WAR",
            Hazard::WriteAfterWrite => "WAW",
        };
        let cycles = if seen.bare == 0 {
            "-".to_owned()
        } else {
            seen.cycles.to_string()
        };
        println!(
            "{hazard} {earlier} -> {later}: {cycles} bare {} waited {} {}",
            seen.bare, seen.waited, seen.place
        );
    }
    println!(
        "{functions} functions, {instructions} instructions, {} edges",
        edges.len()
    );
    Ok(())
}

fn record(
    edges: &mut BTreeMap<(Hazard, String, String), Seen>,
    program: &Program,
    path: &str,
    dependence: Dependence,
) {
    let (earlier, later) = (
        &program.instructions[dependence.earlier],
        &program.instructions[dependence.later],
    );
    let class = dependence.register.class;
    let name = |instruction: &Instruction, slot| {
        format!(
            "{} {}",
            instruction.op().name(),
            role(instruction, slot, class)
        )
    };
    let key = (
        dependence.hazard,
        name(earlier, dependence.earlier_slot),
        name(later, dependence.later_slot),
    );
    let seen = edges.entry(key).or_insert_with(|| Seen {
        cycles: u16::MAX,
        place: String::new(),
        bare: 0,
        waited: 0,
    });
    if dependence.finished {
        seen.waited += 1;
    } else {
        seen.bare += 1;
        if dependence.cycles < seen.cycles {
            seen.cycles = dependence.cycles;
            seen.place = format!(
                "{path}:{}+{:#x}->{:#x}",
                program.name,
                dependence.earlier * 16,
                dependence.later * 16
            );
        }
    }
}
