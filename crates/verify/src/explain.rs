//! Why an instruction waits as it does.

use crate::flow::{self, Dependence, Hazard, Need, UnknownTiming};
use crate::judge::{needs, text};
use crate::program::{Program, WORD};
use std::fmt::Write as _;

/// Says of the instruction at an offset what it waits for: every dependence, what it needs and what is there, and which of its
/// waits nothing needs. `None` if no instruction is there.
pub fn explain(program: &Program, offset: usize) -> Result<Option<String>, UnknownTiming> {
    let index = offset / WORD;
    if !offset.is_multiple_of(WORD) || index >= program.instructions.len() {
        return Ok(None);
    }
    let mut dependences: Vec<Dependence> = Vec::new();
    flow::observe(program, |dependence| {
        if dependence.later == index {
            dependences.push(dependence);
        }
    })?;
    dependences.dedup_by_key(|d| (d.earlier, d.hazard, d.earlier_place, d.later_place));
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
        let (needed, found) = needs(program, dependence);
        let hazard = match dependence.hazard {
            Hazard::ReadAfterWrite => "reads",
            Hazard::WriteAfterRead => "overwrites a source",
            Hazard::WriteAfterWrite => "overwrites a result",
            Hazard::Leaves => "leaves in flight",
            Hazard::Counted => "counts",
            Hazard::Barrier => "comes after, not",
        };
        let _ = writeln!(
            out,
            "  {} {hazard} {} of {:#06x} `{}`: needs {needed}, found {found}{}",
            if dependence.met { "ok " } else { "BAD" },
            dependence.register,
            dependence.earlier * WORD,
            text(program, dependence.earlier),
            match dependence.need {
                Need::Cycles(cycles) if cycles == dependence.cycles => ": just enough",
                _ => "",
            }
        );
    }
    if dependences.is_empty() {
        out.push_str("  depends on nothing in flight\n");
    }
    for barrier in control.wait.iter() {
        let bit = 1 << barrier.index();
        let needed = dependences
            .iter()
            .any(|d| matches!(d.need, Need::Wait(covers) if covers & bit != 0));
        if !needed {
            let _ = writeln!(
                out,
                "  waits on barrier {} for the sake of later instructions, or of memory",
                barrier.index()
            );
        }
    }
    Ok(Some(out))
}
