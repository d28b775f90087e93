//! The judge: walks finished code and reports every hazard that its control fields leave open.

use crate::facts::Facts;
use crate::finding::{Check, Finding};
use crate::flow::{self, Dependence, Hazard, Need, UnknownTiming};
use crate::program::{Program, ProgramError, WORD};
use crate::{awaited, convergence, given_back, reuse, together};
use orias_cubin::Cubin;
use orias_sass::slot_names as slot;
use orias_sass::text::print_instruction;
use orias_sass::{Control, DecodeError, Op, Operand, Target};
use thiserror::Error;

/// Why code cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JudgeError {
    /// The container is for a machine the tables do not describe.
    #[error("not supported yet: code for {0}")]
    Target(String),
    /// The code cannot be decoded.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// An operation without a timing.
    #[error(transparent)]
    Timing(#[from] UnknownTiming),
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How many functions.
    pub functions: usize,
    /// How many instructions.
    pub instructions: usize,
    /// What is wrong, in the order of the code.
    pub findings: Vec<Finding>,
}

/// Judges every function of a cubin.
pub fn judge(cubin: &Cubin) -> Result<Verdict, JudgeError> {
    let target = Target::from_name(&cubin.target())
        .ok_or_else(|| JudgeError::Target(cubin.target().to_string()))?;
    let mut verdict = Verdict::default();
    for function in cubin.functions() {
        let program = Program::of(&function, target)?;
        verdict.functions += 1;
        verdict.instructions += program.instructions.len();
        verdict.findings.extend(judge_program(&program)?);
    }
    Ok(verdict)
}

/// Judges one function.
pub fn judge_program(program: &Program) -> Result<Vec<Finding>, UnknownTiming> {
    let mut findings = malformed(program);
    let mut unmet: Vec<Dependence> = Vec::new();
    let facts = Facts::new(program)?;
    flow::observe_facts(program, &facts, |dependence| {
        if !dependence.met {
            unmet.push(dependence);
        }
    });
    // Registers of one operand fail together: the first stands for all.
    unmet.dedup_by_key(|d| (d.earlier, d.later, d.hazard, d.earlier_place, d.later_place));
    findings.extend(unmet.iter().map(|dependence| explain(program, dependence)));
    findings.extend(unwaitable(program));
    findings.extend(uncounted(program));
    findings.extend(hasty(program));
    findings.extend(reuse::stale(program));
    findings.extend(together::separated(program));
    findings.extend(together::kept_back(program));
    findings.extend(convergence::check(program, &facts));
    findings.extend(awaited::check(program));
    findings.extend(given_back::check(program));
    findings.sort_by_key(|finding| (finding.offset, finding.check));
    Ok(findings)
}

/// An instruction as text.
pub(crate) fn text(program: &Program, index: usize) -> String {
    print_instruction(&program.instructions[index], (index * WORD) as u64)
}

/// A finding about one instruction.
pub(crate) fn alone(
    program: &Program,
    check: Check,
    index: usize,
    needed: &str,
    found: String,
) -> Finding {
    Finding {
        check,
        function: program.name.clone(),
        offset: index * WORD,
        instruction: text(program, index),
        earlier: None,
        register: None,
        needed: needed.to_owned(),
        found,
    }
}

/// Control fields the machine does not have.
fn malformed(program: &Program) -> Vec<Finding> {
    let finding = |(index, error): &(usize, DecodeError)| {
        let check = match error {
            DecodeError::Control(error) => match error.first_bit {
                105 => Check::StallRange,
                122 => Check::Yield,
                110 | 113 => Check::BarrierIndex,
                _ => Check::ControlFormat,
            },
            _ => Check::ControlFormat,
        };
        let needed = match check {
            Check::StallRange => "a stall of 1 to 11 with bit 109",
            Check::Yield => "bit 109 with reuse flags",
            Check::BarrierIndex => "a barrier from 0 to 5, or 7 for none",
            _ => "a control field the machine has",
        };
        alone(program, check, *index, needed, error.to_string())
    };
    program.malformed.iter().map(finding).collect()
}

/// Wait masks where the machine has none.
fn unwaitable(program: &Program) -> Vec<Finding> {
    let waits = |index: &usize| {
        let instruction = &program.instructions[*index];
        let issue = program.machine.issue_of_operation(instruction.op());
        !issue.waits && instruction.control.wait.bits() != 0
    };
    let finding = |index| {
        let needed = "no wait mask: another instruction before it waits";
        let found = "one".to_owned();
        alone(program, Check::ControlFormat, index, needed, found)
    };
    let indices = 0..program.instructions.len();
    indices.filter(waits).map(finding).collect()
}

/// A dependence that is not met.
fn explain(program: &Program, dependence: &Dependence) -> Finding {
    let (needed, found) = needs(program, dependence);
    let check = match (dependence.hazard, dependence.need) {
        (Hazard::Leaves, _) => Check::Calls,
        (Hazard::Counted, _) => Check::PendingCount,
        (Hazard::Barrier, _) => Check::Barrier,
        (_, Need::Cycles(_)) => Check::Schedule,
        (_, Need::Group) => Check::Warpgroup,
        (_, Need::Wait(_)) if dependence.waited_too_early => Check::WaitOrder,
        (_, Need::Wait(_)) => Check::Coverage,
    };
    Finding {
        check,
        function: program.name.clone(),
        offset: dependence.later * WORD,
        instruction: text(program, dependence.later),
        earlier: Some((dependence.earlier * WORD, text(program, dependence.earlier))),
        register: (check != Check::Barrier).then_some(dependence.register),
        needed,
        found,
    }
}

/// What a dependence needs, and what is there.
pub(crate) fn needs(program: &Program, dependence: &Dependence) -> (String, String) {
    let what = match dependence.hazard {
        Hazard::ReadAfterWrite => "the result",
        Hazard::WriteAfterRead => "the source to be read",
        Hazard::WriteAfterWrite => "the older write to land first",
        Hazard::Leaves => "the access to be over before a call or return",
        Hazard::Barrier => "the barrier to settle",
        Hazard::Counted => "the access, which may finish out of order, to be over before a count",
    };
    match dependence.need {
        Need::Cycles(cycles) => (
            format!("{cycles} cycles for {what}"),
            format!("{} cycles", dependence.cycles),
        ),
        Need::Group => (
            format!("WARPGROUP.DEPBAR for {what}"),
            if dependence.met {
                "one"
            } else {
                "none on every path"
            }
            .to_owned(),
        ),
        Need::Wait(covers) => {
            let barriers: Vec<String> = (0..program.machine.limits.barriers)
                .filter(|barrier| covers >> barrier & 1 == 1)
                .map(|barrier| barrier.to_string())
                .collect();
            let needed = if barriers.is_empty() {
                format!("a wait for {what}, which no barrier covers")
            } else {
                format!("a wait on barrier {} for {what}", barriers.join(" or "))
            };
            let found = if dependence.met {
                "one".to_owned()
            } else if dependence.waited_too_early {
                format!(
                    "one that comes before the barrier can be seen ({} cycles after it is set)",
                    program.machine.limits.barrier_set_to_wait
                )
            } else {
                "none on every path".to_owned()
            };
            (needed, found)
        }
    }
}

/// Groups of asynchronous copies that no wait can count: LDGDEPBAR must set a barrier on which some DEPBAR.LE counts, if there is
/// any.
fn uncounted(program: &Program) -> Vec<Finding> {
    let counted: Vec<u64> = (program.instructions.iter())
        .filter(|instruction| instruction.op() == Op::DEPBAR_LE)
        .filter_map(|instruction| match instruction.operand(slot::S) {
            Some(Operand::Immediate(barrier)) => Some(*barrier),
            _ => None,
        })
        .collect();
    let groups = (program.instructions.iter().enumerate())
        .filter(|(_, instruction)| instruction.op() == Op::LDGDEPBAR);
    groups
        .filter_map(|(index, instruction)| {
            let barrier = instruction.control.write_barrier.map(|b| b.index());
            let fine = barrier.is_some_and(|b| counted.contains(&u64::from(b)));
            (!fine && !counted.is_empty()).then(|| {
                alone(
                    program,
                    Check::PendingCount,
                    index,
                    "a write barrier that DEPBAR.LE counts",
                    barrier.map_or("none".to_owned(), |b| format!("barrier {b}")),
                )
            })
        })
        .collect()
}

/// DEPBARs that the next instruction does not wait for.
fn hasty(program: &Program) -> Vec<Finding> {
    let settles = program.machine.limits.depbar_settles;
    let short = |control: Control| (1..settles).contains(&control.stall());
    (program.instructions.iter().enumerate())
        .filter(|(_, instruction)| {
            matches!(instruction.op(), Op::DEPBAR | Op::DEPBAR_LE) && short(instruction.control)
        })
        .map(|(index, instruction)| {
            alone(
                program,
                Check::PendingCount,
                index,
                &format!("a stall of {settles} after a DEPBAR"),
                instruction.control.stall().to_string(),
            )
        })
        .collect()
}
