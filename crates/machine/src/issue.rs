//! What issue itself asks for: units that stay busy, least stalls, and order that no register expresses.
//!
//! The numbers are rows: `classes.tbl` says what unit a class of operations needs and keeps, `issue.tbl` what single operations ask for, with where that
//! comes from.
//!
//! - **Units.** An instruction keeps its unit for some cycles; the next one of the same unit is issued when they have passed.
//!   Nothing breaks if it comes earlier, it only queues in the pipe; ptxas never lets it. Exceptions, where the distance may be
//!   needed, are the warpgroup's (ARRIVE to the first matrix operation) and the branch after BSSY.
//! - **Least stalls.** Branches and fences ask for a number of cycles of their own, whatever follows.
//! - **Tokens.** A fence must not be passed by what it orders, mbarriers must be set up before threads meet, an acquiring
//!   load must be there before the cache is invalidated. ptxas says so with barriers; a [`OrderToken`] is the register that would
//!   express it.

use crate::machine::Machine;
use crate::timing::{Completion, names};
use orias_sass::{Effects, Instruction, Op, ValueName, modifier_names as name};

/// Something an instruction occupies when it issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Unit {
    /// Logic, comparison, moves, votes.
    Alu,
    /// Multiply and add.
    Fma,
    /// Packed half precision.
    Half,
    /// Double precision.
    Fp64,
    /// Functions and conversions.
    Special,
    /// Matrix operations.
    Tensor,
    /// Waits for matrix operations.
    Group,
    /// The uniform datapath.
    Uniform,
    /// Uniform moves and constant loads.
    UniformMove,
    /// Indexed constants and special registers for the uniform datapath.
    Constant,
    /// Special registers.
    System,
    /// Everything that goes to memory or to other lanes.
    Memory,
    /// Barriers of the thread block.
    Barrier,
    /// Branches and convergence.
    Control,
}

impl Unit {
    /// How many there are.
    pub const COUNT: usize = Unit::Control as usize + 1;
}

/// Order between instructions that no register expresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OrderToken {
    /// A fence between the generic and the asynchronous proxy has taken effect.
    Proxy,
    /// A fence within the thread block has taken effect.
    Fence,
    /// mbarriers have been set up or torn down.
    Mbarrier,
    /// Loads and atomics that may acquire have been performed.
    Acquire,
    /// The warp has the registers it asked for.
    Registers,
}

impl OrderToken {
    /// How many there are.
    pub const COUNT: usize = OrderToken::Registers as usize + 1;

    /// Every token.
    pub const ALL: [OrderToken; OrderToken::COUNT] = [
        OrderToken::Proxy,
        OrderToken::Fence,
        OrderToken::Mbarrier,
        OrderToken::Acquire,
        OrderToken::Registers,
    ];
}

/// What an instruction does with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The token is there when the write barrier is released.
    Writes,
    /// The token is there when the read barrier is released.
    Releases,
    /// Needs the token.
    Needs,
    /// Has made sure of the token itself.
    Ensures,
}

/// What issue asks for an operation.
#[derive(Clone, Copy, Debug)]
pub struct Issue {
    /// The unit it needs to be free.
    pub unit: Unit,
    /// What it keeps, and for how many cycles.
    pub keeps: &'static [(Unit, u8)],
    /// Cycles until the next instruction, whatever that is.
    pub least_stall: u8,
    /// Cycles that pass on top of the stall: the stall counts from when the instruction has been handed over.
    pub extra_cycles: u8,
    /// Whether the control field says 0 (drain) and nothing else.
    pub drains: bool,
    /// Whether the control field has a wait mask.
    pub waits: bool,
}

/// The unit that operations need, what they keep and for how many cycles, and which operations they are.
type UnitRule = (Unit, &'static [(Unit, u8)], Patterns);

/// What `issue.tbl` says. Patterns name operations; `=NAME` is a class of the timing table.
pub(crate) struct Rules {
    /// Operations that do not do as their class does. The first row that names an operation counts, here and below.
    pub(crate) units: &'static [UnitRule],
    /// A matrix operation of a warpgroup with more columns than this keeps the tensor cores longer, and for how long.
    pub(crate) wide_matrix: Option<(u32, &'static [(Unit, u8)])>,
    /// Cycles until the next instruction, whatever that is; 1 for all others.
    pub(crate) stalls: &'static [(u8, Patterns)],
    /// Cycles of the issue stage on top of the stall.
    pub(crate) extra: &'static [(u8, Patterns)],
    /// Cycles from an instruction of a unit to the first one of another that may overwrite its sources; 1 for all others.
    pub(crate) read_to_write: &'static [(Unit, u8)],
    pub(crate) tokens: &'static [OrderTokenRow],
    /// Operations whose control field drains.
    pub(crate) drains: Patterns,
    /// Operations whose control field has no wait mask.
    pub(crate) no_waits: Patterns,
    /// Operations that read uniform registers some time after they issued: they set read barriers for them.
    pub(crate) late_uniform: Patterns,
    /// Operations whose names begin as a pattern of a token does and that are something else.
    pub(crate) no_tokens: Patterns,
    /// Both ends of collective operations.
    pub(crate) collective: Patterns,
}

type Patterns = &'static [&'static str];

pub(crate) struct OrderTokenRow {
    pub(crate) token: OrderToken,
    pub(crate) role: Role,
    /// What the scope modifier must be, if it matters.
    pub(crate) scopes: &'static [&'static str],
    pub(crate) operations: Patterns,
}

/// A token, what is done with it, and for which scopes.
pub(crate) type OrderTokenUse = (OrderToken, Role, &'static [&'static str]);

impl Machine {
    /// Whether a pattern of the table names `op`.
    fn fits(&self, pattern: &str, op: Op) -> bool {
        match pattern.strip_prefix('=') {
            Some(name) => {
                (self.timing(op)).is_some_and(|timing| self.class_name(timing.class) == name)
            }
            None => names(pattern, op),
        }
    }

    fn any_fits(&self, patterns: Patterns, op: Op) -> bool {
        patterns.iter().any(|pattern| self.fits(pattern, op))
    }

    fn work_out_issue(&self, op: Op) -> Issue {
        let rules = &self.chip.issue;
        let own = rules.units.iter();
        let own = own
            .filter(|(.., patterns)| self.any_fits(patterns, op))
            .map(|(unit, keeps, _)| (*unit, *keeps));
        let class = self.timing(op).map(|timing| (timing.unit, timing.keeps));
        // A test asks that every operation has a class.
        let (unit, keeps) = { own }.next().or(class).unwrap_or((Unit::Control, &[]));
        let number = |rows: &[(u8, Patterns)]| {
            let mut rows = rows.iter();
            rows.find(|(_, patterns)| self.any_fits(patterns, op))
                .map(|(cycles, _)| *cycles)
        };
        Issue {
            unit,
            keeps,
            least_stall: number(rules.stalls).unwrap_or(1),
            extra_cycles: number(rules.extra).unwrap_or(0),
            drains: self.any_fits(rules.drains, op),
            waits: !self.any_fits(rules.no_waits, op),
        }
    }

    /// What issue asks for an operation, whatever its operands: all that can be known before there are registers.
    #[must_use]
    pub fn issue_of_operation(&self, op: Op) -> Issue {
        let issues = &self.chip.caches.issues;
        *issues.get_or_init(op, || self.work_out_issue(op))
    }

    /// The operations that the target has whose control words cannot wait.
    pub fn operations_that_never_wait(&self) -> impl Iterator<Item = Op> {
        let patterns = self.chip.issue.no_waits;
        Op::all().filter(|&op| self.any_fits(patterns, op) && self.has(op))
    }

    /// What issue asks for an instruction.
    #[must_use]
    pub fn issue(&self, instruction: &Instruction) -> Issue {
        let mut issue = self.issue_of_operation(instruction.op());
        if let Some((narrow, keeps)) = self.chip.issue.wide_matrix
            && self.is_warpgroup_matrix(instruction.op())
            && columns(instruction) > narrow
        {
            issue.keeps = keeps;
        }
        if instruction.guard().predicate.is_constant() && instruction.guard().negated {
            // It never runs: `@!PT LDS RZ, [RZ]`, three of which ptxas issues in three cycles.
            issue.keeps = &[];
        }
        issue
    }

    /// Cycles from an instruction of a unit to the first one of another unit that may overwrite its sources with a fixed latency.
    #[inline]
    #[must_use]
    pub fn read_to_write(&self, unit: Unit) -> u8 {
        let mut rows = self.chip.issue.read_to_write.iter();
        rows.find(|(known, _)| *known == unit)
            .map_or(1, |(_, cycles)| *cycles)
    }

    /// Whether an operation is a matrix operation of a warpgroup, whose registers WARPGROUP.ARRIVE hands over.
    #[must_use]
    pub fn is_warpgroup_matrix(&self, op: Op) -> bool {
        (self.timing(op)).is_some_and(|timing| timing.completion == Completion::Group)
    }

    /// Whether an operation reads uniform registers after it issued.
    #[must_use]
    pub fn reads_uniform_late(&self, op: Op) -> bool {
        self.any_fits(self.chip.issue.late_uniform, op)
    }

    fn token_uses(&self, op: Op) -> &'static [OrderTokenUse] {
        self.chip.caches.tokens.get_or_init(op, || {
            let rules = &self.chip.issue;
            let none = self.any_fits(rules.no_tokens, op);
            let fits = |pattern: &&str| {
                self.fits(pattern, op) && (!none || *pattern == "*" || pattern.starts_with('='))
            };
            let rows = rules.tokens.iter();
            rows.filter(|row| row.operations.iter().any(&fits))
                .map(|row| (row.token, row.role, row.scopes))
                .collect()
        })
    }

    /// The tokens an instruction needs, gives or makes sure of.
    pub fn tokens(
        &self,
        instruction: &Instruction,
    ) -> impl Iterator<Item = (OrderToken, Role)> + use<> {
        let scope = instruction.modifier(name::SCOPE);
        self.token_uses(instruction.op())
            .iter()
            .filter(move |(_, _, scopes)| {
                scopes.is_empty() || scope.is_some_and(|scope| scopes.contains(&scope.text()))
            })
            .map(|&(token, role, _)| (token, role))
    }

    /// The same for an operation, where no modifier decides.
    pub fn tokens_of_operation(
        &self,
        op: Op,
    ) -> Option<impl Iterator<Item = (OrderToken, Role)> + use<>> {
        let uses = self.token_uses(op);
        let decided = uses.iter().all(|(_, _, scopes)| scopes.is_empty());
        decided.then(|| uses.iter().map(|&(token, role, _)| (token, role)))
    }

    /// The tokens that instructions of this operation may give, a bit for each.
    #[must_use]
    pub fn gives(&self, op: Op) -> u8 {
        let uses = self.token_uses(op).iter();
        let given = uses.filter(|(_, role, _)| matches!(role, Role::Writes | Role::Releases));
        given.fold(0, |given, (token, _, _)| given | 1 << *token as u8)
    }

    /// Whether nothing may be in flight when the instruction issues: calls, returns, and both ends of a collective operation, where
    /// lanes go on in code that does not know what was started.
    #[must_use]
    pub fn needs_nothing_in_flight(&self, op: Op) -> bool {
        let effects = op.row().effects;
        effects.intersects(Effects::CALL | Effects::RETURN)
            || self.any_fits(self.chip.issue.collective, op)
    }
}

/// N of a shape such as `64x128x16`.
fn columns(instruction: &Instruction) -> u32 {
    let shape = instruction.modifier(name::SHAPE);
    let shape = shape.map_or("", ValueName::text);
    let mut sides = shape.split('x').map(|side| side.parse().unwrap_or(0));
    sides.nth(1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_sass::Target;

    #[test]
    fn every_pattern_names_an_operation() {
        for target in Target::ALL {
            let machine = Machine::of(target);
            let rules = &machine.chip.issue;
            let patterns = (rules.units.iter().flat_map(|(.., patterns)| *patterns))
                .chain(rules.stalls.iter().flat_map(|(_, patterns)| *patterns))
                .chain(rules.extra.iter().flat_map(|(_, patterns)| *patterns))
                .chain(rules.tokens.iter().flat_map(|row| row.operations))
                .chain(rules.drains)
                .chain(rules.no_waits)
                .chain(rules.late_uniform)
                .chain(rules.collective)
                .chain(rules.no_tokens);
            for pattern in patterns {
                let named = Op::all().any(|op| machine.fits(pattern, op));
                assert!(named, "{target}: nothing is called {pattern}");
            }
        }
    }
}
