//! Lifting the functions of a cubin, and computing their control words anew.

use super::offsets::OffsetError;
use crate::disassemble::target_of;
use orias_codegen::schedule::post::PostScheduleError;
use orias_codegen::scoreboard::{self, Insertions, ScoreboardError};
use orias_cubin::attribute::Value;
use orias_cubin::{Body, Cubin, FunctionView};
use orias_mercury::{EmitError, LiftError, TextSection, WORD, emit, lift};
use orias_ori::{Function, FunctionKind};
use orias_sass::{Control, Target};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

/// Why a cubin cannot be rescheduled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RescheduleError {
    /// The tables have no such chip.
    #[error("there is no instruction table for {0}")]
    Target(String),
    /// A function that cannot be lifted.
    #[error(transparent)]
    Lift(#[from] LiftError),
    /// A function that gets no control words.
    #[error("{function}: {error}")]
    Scoreboard {
        /// The function.
        function: String,
        /// Why not.
        error: ScoreboardError,
    },
    /// A function that gets no order.
    #[error("{function}: {error}")]
    Order {
        /// The function.
        function: String,
        /// Why not.
        error: PostScheduleError,
    },
    /// A function about which the container says something that cannot follow its instructions.
    #[error("{function}: {error}")]
    Offsets {
        /// The function.
        function: String,
        /// What.
        error: OffsetError,
    },
    /// A function that cannot be written again.
    #[error(transparent)]
    Emit(#[from] EmitError),
}

/// What control words ask for, summed up without running anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sum of stalls.
    pub stalls: u64,
    /// Instructions that wait for a barrier.
    pub waits: u64,
    /// Barriers waited for.
    pub waited: u64,
    /// Barriers set.
    pub set: u64,
    /// Instructions with the yield bit.
    pub yields: u64,
    /// Reuse flags.
    pub reuses: u64,
}

/// Control words before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Instructions, padding not counted.
    pub instructions: u64,
    /// How many control words differ.
    pub differ: u64,
    /// The words as they were.
    pub before: Totals,
    /// The words as they are now.
    pub after: Totals,
}

impl Totals {
    fn add(&mut self, control: Control) {
        self.stalls += u64::from(control.stall());
        self.waits += u64::from(control.wait.bits() != 0);
        self.waited += u64::from(control.wait.bits().count_ones());
        self.set += u64::from(control.write_barrier.is_some());
        self.set += u64::from(control.read_barrier.is_some());
        self.yields += u64::from(control.yields);
        self.reuses += u64::from(control.reuse().count_ones());
    }

    fn lines(&self) -> [(&'static str, u64); 6] {
        [
            ("stall cycles", self.stalls),
            ("instructions that wait", self.waits),
            ("barriers waited for", self.waited),
            ("barriers set", self.set),
            ("yield bits", self.yields),
            ("reuse flags", self.reuses),
        ]
    }
}

impl AddAssign for Statistics {
    fn add_assign(&mut self, other: Statistics) {
        self.instructions += other.instructions;
        self.differ += other.differ;
        for (mine, theirs) in [
            (&mut self.before, other.before),
            (&mut self.after, other.after),
        ] {
            mine.stalls += theirs.stalls;
            mine.waits += theirs.waits;
            mine.waited += theirs.waited;
            mine.set += theirs.set;
            mine.yields += theirs.yields;
            mine.reuses += theirs.reuses;
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        writeln!(
            f,
            "{} instructions, {} control words differ ({:.1} %)",
            self.instructions,
            self.differ,
            100.0 * share(self.differ, self.instructions)
        )?;
        for ((name, before), (_, after)) in self.before.lines().into_iter().zip(self.after.lines())
        {
            writeln!(
                f,
                "  {name:<24} {before:>9} {after:>9}  {:.3}",
                share(after, before)
            )?;
        }
        Ok(())
    }
}

/// Computes every control word of a cubin anew: nothing of the old ones is kept. Order and number of instructions stay as they
/// are, because offsets into the code are all over the container.
pub fn reschedule_control(cubin: &Cubin) -> Result<(Cubin, Statistics), RescheduleError> {
    if target_of(cubin).is_none() {
        return Err(RescheduleError::Target(cubin.target()));
    }
    let mut changed = cubin.clone();
    let mut statistics = Statistics::default();
    for view in cubin.functions() {
        let mut func = lifted(cubin, &view)?;
        scoreboard::drop_control_words(&mut func);
        scoreboard::schedule_waits(&mut func, Insertions::Forbidden).map_err(|error| {
            RescheduleError::Scoreboard {
                function: view.name.to_owned(),
                error,
            }
        })?;
        let code = emit(&func)?;
        let end = code.placed.len() * WORD;
        statistics += compare(&view.code[..end], &code.bytes[..end]);
        if let Body::Bytes(bytes) = &mut changed.sections[view.section].body {
            bytes[..end].copy_from_slice(&code.bytes[..end]);
        }
    }
    Ok((changed, statistics))
}

pub(super) fn compare(before: &[u8], after: &[u8]) -> Statistics {
    let mut statistics = Statistics::default();
    for (before, after) in crate::words(before).into_iter().zip(crate::words(after)) {
        let (Ok(old), Ok(new)) = (Control::from_bits(before), Control::from_bits(after)) else {
            continue;
        };
        statistics.instructions += 1;
        statistics.differ += u64::from(old != new);
        statistics.before.add(old);
        statistics.after.add(new);
    }
    statistics
}

/// Where the indirect branches of a function may go, by their offset, as the container lists them.
pub fn indirect_targets(view: &FunctionView<'_>) -> BTreeMap<usize, Vec<usize>> {
    let lists = view
        .attributes
        .iter()
        .filter_map(|attribute| match &attribute.value {
            Value::IndirectBranches(branches) => Some(branches),
            _ => None,
        });
    lists
        .flatten()
        .map(|branch| {
            let targets = branch.targets.iter().map(|&target| target as usize);
            (branch.offset as usize, targets.collect())
        })
        .collect()
}

/// The names that a linker puts in the place of code addresses, by the offset of the instruction.
fn named_targets(cubin: &Cubin, view: &FunctionView<'_>) -> BTreeMap<usize, String> {
    let mut named = BTreeMap::new();
    for section in &cubin.sections {
        let Body::Relocations(relocations) = &section.body else {
            continue;
        };
        if section.info as usize != view.section {
            continue;
        }
        for relocation in relocations {
            let symbol = cubin.symbols().get(relocation.symbol as usize);
            if let Some(symbol) = symbol {
                named.insert(relocation.offset as usize, symbol.name.text.clone());
            }
        }
    }
    named
}

/// One function of a cubin as Ori with physical registers and control words.
pub fn lifted(cubin: &Cubin, view: &FunctionView<'_>) -> Result<Function, LiftError> {
    let subroutines: Vec<usize> = view
        .subroutines
        .iter()
        .map(|(_, symbol)| symbol.value as usize)
        .collect();
    lift(&TextSection {
        name: view.name,
        kind: if view.is_entry {
            FunctionKind::Entry
        } else {
            FunctionKind::Device
        },
        code: view.code,
        target: target_of(cubin).unwrap_or(Target::DEFAULT),
        indirect: &indirect_targets(view),
        subroutines: &subroutines,
        named: &named_targets(cubin, view),
    })
}
