//! Why an instruction waits as it does.

use crate::flow::{self, Dependence, Hazard, Need, UnknownTiming};
use crate::judge::{needs, text};
use crate::program::{Program, WORD};
use orias_sass::Register;
use std::fmt::Write as _;

/// How an instruction depends on an earlier one, and what its control fields do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Index of the earlier instruction.
    pub earlier: usize,
    /// Index of the later instruction.
    pub later: usize,
    /// The register they meet in.
    pub register: Register,
    /// What the later one does with it.
    pub hazard: &'static str,
    /// What is needed.
    pub needed: String,
    /// What is there.
    pub found: String,
    /// Whether that is enough.
    pub met: bool,
    /// Whether a cycle less would not be.
    pub tight: bool,
    /// The barriers that cover it, a bit each.
    pub covers: u8,
}

/// Every dependence of a program on something that is in flight, by later instruction; registers of one operand count once.
pub fn dependences(program: &Program) -> Result<Vec<Explained>, UnknownTiming> {
    selected(program, |_| true)
}

fn selected(
    program: &Program,
    wanted: impl Fn(usize) -> bool,
) -> Result<Vec<Explained>, UnknownTiming> {
    let mut dependences: Vec<Dependence> = Vec::new();
    flow::observe(program, |dependence| {
        if wanted(dependence.later) {
            dependences.push(dependence);
        }
    })?;
    dependences.dedup_by_key(|d| (d.later, d.earlier, d.hazard, d.earlier_place, d.later_place));
    let explained = dependences.iter().map(|dependence| {
        let (needed, found) = needs(program, dependence);
        Explained {
            earlier: dependence.earlier,
            later: dependence.later,
            register: dependence.register,
            hazard: match dependence.hazard {
                Hazard::ReadAfterWrite => "reads",
                Hazard::WriteAfterRead => "overwrites a source",
                Hazard::WriteAfterWrite => "overwrites a result",
                Hazard::Leaves => "leaves in flight",
                Hazard::Counted => "counts",
                Hazard::Barrier => "comes after, not",
            },
            needed,
            found,
            met: dependence.met,
            tight: matches!(dependence.need, Need::Cycles(cycles) if cycles == dependence.cycles),
            covers: match dependence.need {
                Need::Wait(covers) => covers,
                Need::Cycles(_) | Need::Group => 0,
            },
        }
    });
    Ok(explained.collect())
}

/// Says of the instruction at an offset what it waits for: every dependence, what it needs and what is there, and which of its
/// waits nothing needs. `None` if no instruction is there.
pub fn explain(program: &Program, offset: usize) -> Result<Option<String>, UnknownTiming> {
    let index = offset / WORD;
    if !offset.is_multiple_of(WORD) || index >= program.instructions.len() {
        return Ok(None);
    }
    let dependences = selected(program, |later| later == index)?;
    let control = program.instructions[index].control;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{}+{offset:#06x}: {control} {}",
        program.name,
        text(program, index)
    );
    for dependence in &dependences {
        let _ = writeln!(
            out,
            "  {} {} {} of {:#06x} `{}`: needs {}, found {}{}",
            if dependence.met { "ok " } else { "BAD" },
            dependence.hazard,
            dependence.register,
            dependence.earlier * WORD,
            text(program, dependence.earlier),
            dependence.needed,
            dependence.found,
            if dependence.tight {
                ": just enough"
            } else {
                ""
            }
        );
    }
    if dependences.is_empty() {
        out.push_str("  depends on nothing in flight\n");
    }
    for barrier in control.wait.iter() {
        let bit = 1 << barrier.index();
        if dependences.iter().all(|d| d.covers & bit == 0) {
            let _ = writeln!(
                out,
                "  waits on barrier {} for the sake of later instructions, or of memory",
                barrier.index()
            );
        }
    }
    Ok(Some(out))
}
