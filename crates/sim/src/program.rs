//! A kernel's code made ready to run: every instruction decoded once and turned into a closure over its operands.

use crate::core::Core;
use crate::fault::{Cause, FaultKind};
use crate::flow::Flow;
use crate::operand::Reader;
use crate::schedule::Schedule;
use crate::semantics;
use orias_machine::Machine;
use orias_sass::{Instruction, RegisterClass, decode};

/// What an instruction does to a warp.
pub(crate) type Action = Box<dyn Fn(&mut Core<'_>) -> Result<(), Cause> + Send + Sync>;

/// How an instruction runs.
pub(crate) enum Run {
    /// It computes and goes on with the next.
    Action(Action),
    /// It decides where its lanes go on.
    Flow(Flow),
    /// It cannot run.
    Fault(FaultKind),
}

/// Which lanes of a group run an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardKind {
    Always,
    Predicate { index: u8, negated: bool },
    Uniform { index: u8, negated: bool },
}

/// One instruction.
pub(crate) struct Step {
    pub guard: GuardKind,
    pub run: Run,
    /// Its timing, unless it is no instruction.
    pub schedule: Option<Schedule>,
    pub instruction: Option<Instruction>,
    /// Whether nothing depends on what it reads but what it leaves in general registers or saves on the stack.
    pub computes: bool,
}

/// The code of a kernel.
pub(crate) struct Program {
    pub steps: Vec<Step>,
    /// General registers that it names: one more than the highest.
    pub registers: usize,
}

impl Program {
    pub fn new(code: &[u8], machine: &Machine, banks: &[usize; 32]) -> Self {
        let mut registers = 0;
        let steps = code
            .chunks(16)
            .enumerate()
            .map(|(index, bytes)| {
                let step = step(index, bytes, machine, banks);
                for access in step.instruction.iter().flat_map(Instruction::accesses) {
                    if access.class() == RegisterClass::R {
                        let end = usize::from(access.register.index) + usize::from(access.count);
                        registers = registers.max(end.min(255));
                    }
                }
                step
            })
            .collect();
        Self { steps, registers }
    }
}

fn step(index: usize, bytes: &[u8], machine: &Machine, banks: &[usize; 32]) -> Step {
    let unable = |kind| Step {
        guard: GuardKind::Always,
        run: Run::Fault(kind),
        schedule: None,
        instruction: None,
        computes: false,
    };
    let Ok(bytes) = <[u8; 16]>::try_from(bytes) else {
        return unable(FaultKind::Decode("half an instruction".to_owned()));
    };
    let instruction = match decode(u128::from_le_bytes(bytes), machine.target) {
        Ok(instruction) => instruction,
        Err(error) => return unable(FaultKind::Decode(error.to_string())),
    };
    let reader = Reader {
        instruction: &instruction,
        banks,
        index,
    };
    let name = instruction.op().name();
    let run = match semantics::of(&reader) {
        Ok(run) => run,
        Err(None) => Run::Fault(FaultKind::Missing(name.to_owned())),
        Err(Some(lack)) => Run::Fault(FaultKind::Missing(format!("{name} ({lack})"))),
    };
    let guard = instruction.guard();
    let guard = if guard.is_always() {
        GuardKind::Always
    } else if guard.predicate.class == RegisterClass::UP {
        GuardKind::Uniform {
            index: guard.predicate.index,
            negated: guard.negated,
        }
    } else {
        GuardKind::Predicate {
            index: guard.predicate.index,
            negated: guard.negated,
        }
    };
    Step {
        guard,
        run,
        schedule: Some(Schedule::new(machine, &instruction)),
        computes: only_computes(&instruction),
        instruction: Some(instruction),
    }
}

/// Whether an instruction only computes words of general registers.
fn only_computes(instruction: &Instruction) -> bool {
    let row = instruction.op().row();
    row.memory.is_empty()
        && row.effects.is_empty()
        && (instruction.writes()).all(|write| write.class() == RegisterClass::R)
}
