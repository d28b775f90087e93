//! What issue itself asks for: units that stay busy, least stalls, and order that no register expresses.
//!
//! Everything here was mined in ptxas 13.0.88 -O3 output for sm_90a (391 functions, 210,000 instructions, 2026-11-15): the
//! smallest distance that ever stands between two operations of a kind, whatever lies between them, and the barriers that
//! instructions set and wait for though no register connects them.
//!
//! - **Units.** An instruction keeps its unit for some cycles; the next one of the same unit is issued when they have passed.
//!   Nothing breaks if it comes earlier, it only queues in the pipe; ptxas never lets it. Exceptions, where the distance may be
//!   needed, are the warpgroup's (ARRIVE to the first matrix operation) and the branch after BSSY.
//! - **Least stalls.** Branches and fences ask for a number of cycles of their own, whatever follows.
//! - **Tokens.** A fence must not be passed by what it orders, mbarriers must be set up before threads meet, an acquiring
//!   load must be there before the cache is invalidated. ptxas says so with barriers; a [`Token`] is the register that would
//!   express it.

use crate::met::Met;
use crate::timing::{self, names};
use orias_sass::{Effects, Instruction, Op};

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
pub enum Token {
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

impl Token {
    /// How many there are.
    pub const COUNT: usize = Token::Registers as usize + 1;

    /// Every token.
    pub const ALL: [Token; Token::COUNT] = [
        Token::Proxy,
        Token::Fence,
        Token::Mbarrier,
        Token::Acquire,
        Token::Registers,
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
    pub handing_over: u8,
    /// Whether the control field says 0 (drain) and nothing else.
    pub drains: bool,
}

struct UnitRow {
    unit: Unit,
    keeps: &'static [(Unit, u8)],
    /// Patterns of operations; `=NAME` is a class of the timing table.
    operations: &'static [&'static str],
}

const fn unit(
    unit: Unit,
    keeps: &'static [(Unit, u8)],
    operations: &'static [&'static str],
) -> UnitRow {
    UnitRow {
        unit,
        keeps,
        operations,
    }
}

use Unit::*;

/// The first row that names an operation counts.
#[rustfmt::skip]
const UNITS: &[UnitRow] = &[
    unit(Fma, &[(Fma, 1)], &["FADD*", "FMUL*", "FFMA*"]),
    unit(Fma, &[(Fma, 4)], &["=wide"]),
    unit(Fma, &[(Fma, 2)], &["=fma"]),
    unit(Half, &[(Half, 2)], &["=half"]),
    unit(Fp64, &[(Fp64, 2)], &["=half-mma", "=fp64"]),
    unit(Alu, &[(Alu, 2)], &["=alu", "=vote", "=vote-uniform", "=to-uniform", "=counter"]),
    unit(Tensor, &[(Tensor, 6)], &["=tensor", "=tensor-64"]),
    unit(Tensor, &[(Tensor, 4), (Group, 3)], &["=warpgroup"]),
    unit(Tensor, &[(Tensor, 6)], &["WARPGROUP.ARRIVE"]),
    unit(Group, &[], &["WARPGROUP*"]),
    unit(Uniform, &[(Uniform, 2)], &["=uniform"]),
    unit(UniformMove, &[(UniformMove, 1)], &["=uniform-move"]),
    unit(Constant, &[(Constant, 8)], &["=constant", "S2UR"]),
    unit(System, &[(System, 1)], &["=system"]),
    unit(Special, &[(Special, 8)], &["=special"]),
    unit(Alu, &[(Alu, 8)], &["=lanes", "=lanes-sum"]),
    unit(Barrier, BARRIER_KEEPS, &["BAR*"]),
    unit(Barrier, &[], &["=barrier", "=barrier-result"]),
    unit(Control, &[(Control, 4)], &["BSSY"]),
    unit(Memory, &[(Memory, 4)], &["=shared", "=local", "=memory", "=texture", "=bulk"]),
    unit(Control, &[(Barrier, 8)], &["CGAERRBAR"]),
    unit(Barrier, &[(Barrier, 6)], &["=cluster-arrive"]),
    unit(Barrier, &[], &["=cluster-wait"]),
    unit(Control, &[], &["=control"]),
];

/// A barrier between threads holds back everything but arithmetic, which ptxas lets follow in the next cycle.
const BARRIER_KEEPS: &[(Unit, u8)] = &[
    (Barrier, 8),
    (Constant, 8),
    (Memory, 6),
    (Tensor, 6),
    (Group, 6),
    (System, 6),
    (Special, 6),
    (Control, 6),
];

/// A matrix operation of a warpgroup with more columns than this keeps the tensor cores longer.
const WIDE_MATRIX: u32 = 64;

/// For how long.
const WIDE_MATRIX_KEEPS: &[(Unit, u8)] = &[(Tensor, 12), (Group, 3)];

/// Cycles until the next instruction, whatever that is; 1 for all others.
#[rustfmt::skip]
const LEAST_STALLS: &[(u8, &[&str])] = &[
    (5, &["BRA*", "BRX*", "JMP*", "JMX*", "CALL*", "RET*", "EXIT", "KILL", "BSYNC", "BREAK", "BMOV*", "WARPSYNC*", "YIELD", "NANOSLEEP*", "BPT*"]),
    (4, &["DEPBAR*", "RPCMOV*"]),
    (6, &["MEMBAR*", "CGAERRBAR", "UCGABAR_ARV"]),
    (7, &["LEPC*"]),
    (12, &["UBLKCP*", "UBLKRED*"]),
    (2, &["WARPGROUP.DEPBAR*", "FENCE*", "USETMAXREG*"]),
];

/// IMAD.WIDE and IMAD.HI take the issue stage for two more cycles, and their stall counts from then on (measured: `cargo xtask gpu clock`).
const WIDE_HANDING_OVER: u8 = 2;

/// Cycles from an instruction of a unit to the first one of another unit that may overwrite its sources with a fixed latency.
///
/// The uniform datapath reads its registers some cycles after issue, and moves and constant loads write theirs at once: ptxas never
/// leaves fewer than three cycles between them, and the judge's mutants say the same. Matrix operations take their operands over several cycles. All
/// other units have read what they need before anything can be written.
#[must_use]
pub const fn read_to_write(unit: Unit) -> u8 {
    match unit {
        Unit::Uniform => 3,
        Unit::Tensor => 7,
        _ => 1,
    }
}

/// Operations whose control field drains.
const DRAINING: &[&str] = &["ERRBAR", "USETMAXREG.DEALLOC*"];

/// Operations that read uniform registers some time after they issued: they set read barriers for them.
const LATE_UNIFORM_READERS: &[&str] = &["SYNCS.EXCH*", "UBLK*", "UTMA*"];

fn work_out(op: Op) -> Issue {
    let class = timing::of(op).map(|timing| timing.class.name());
    let fits = |pattern: &&str| match pattern.strip_prefix('=') {
        Some(name) => class == Some(name),
        None => names(pattern, op),
    };
    let row = UNITS.iter().find(|row| row.operations.iter().any(&fits));
    let stall = LEAST_STALLS
        .iter()
        .find(|(_, patterns)| patterns.iter().any(&fits));
    Issue {
        // A test asks that every operation has a row.
        unit: row.map_or(Control, |row| row.unit),
        keeps: row.map_or(&[], |row| row.keeps),
        least_stall: stall.map_or(1, |(cycles, _)| *cycles),
        handing_over: if class == Some("wide") {
            WIDE_HANDING_OVER
        } else {
            0
        },
        drains: DRAINING.iter().any(fits),
    }
}

/// What issue asks for an operation, whatever its operands: all that can be known before there are registers.
#[must_use]
pub fn of_operation(op: Op) -> Issue {
    static ISSUES: Met<Issue> = Met::new();
    *ISSUES.get_or_init(op, || work_out(op))
}

/// What issue asks for an instruction.
#[must_use]
pub fn of(instruction: &Instruction) -> Issue {
    let mut issue = of_operation(instruction.op());
    if is_warpgroup_matrix(instruction.op()) && columns(instruction) > WIDE_MATRIX {
        issue.keeps = WIDE_MATRIX_KEEPS;
    }
    if instruction.guard().predicate.is_constant() && instruction.guard().negated {
        // It never runs: `@!PT LDS RZ, [RZ]`, three of which ptxas issues in three cycles.
        issue.keeps = &[];
    }
    issue
}

/// Whether an operation is a matrix operation of a warpgroup, whose registers WARPGROUP.ARRIVE hands over.
#[must_use]
pub fn is_warpgroup_matrix(op: Op) -> bool {
    timing::of(op).is_some_and(|timing| timing.completion == timing::Completion::Group)
}

/// N of a shape such as `64x128x16`.
fn columns(instruction: &Instruction) -> u32 {
    let shape = instruction.modifier("shape").unwrap_or_default();
    let mut sides = shape.split('x').map(|side| side.parse().unwrap_or(0));
    sides.nth(1).unwrap_or(0)
}

/// Whether an operation reads uniform registers after it issued.
#[must_use]
pub fn reads_uniform_late(op: Op) -> bool {
    LATE_UNIFORM_READERS
        .iter()
        .any(|pattern| names(pattern, op))
}

struct TokenRow {
    token: Token,
    role: Role,
    /// What the scope modifier must be, if it matters.
    scopes: &'static [&'static str],
    operations: &'static [&'static str],
}

const fn token(token: Token, role: Role, operations: &'static [&'static str]) -> TokenRow {
    TokenRow {
        token,
        role,
        scopes: &[],
        operations,
    }
}

#[rustfmt::skip]
const TOKENS: &[TokenRow] = &[
    token(Token::Proxy, Role::Writes, &["FENCE*"]),
    token(Token::Proxy, Role::Needs, &["FENCE*", "BAR*", "UCGABAR*", "WARPGROUP.ARRIVE", "MEMBAR*", "=shared", "=local", "=memory", "=texture", "=bulk", "=warpgroup"]),
    TokenRow { token: Token::Fence, role: Role::Releases, scopes: &["CTA", "CTA.PARTIAL"], operations: &["MEMBAR*"] },
    token(Token::Fence, Role::Needs, &["*"]),
    token(Token::Mbarrier, Role::Writes, &["SYNCS.EXCH*", "SYNCS.CCTL*"]),
    token(Token::Mbarrier, Role::Needs, &["SYNCS.CCTL*", "SYNCS.ARRIVE*", "SYNCS.PHASECHK*", "BAR*", "UCGABAR*", "FENCE*", "UBLK*", "UTMA*", "MEMBAR*"]),
    token(Token::Acquire, Role::Writes, &["LD", "LDG", "ATOM*"]),
    token(Token::Acquire, Role::Needs, &["CCTL.IVALL"]),
    TokenRow { token: Token::Acquire, role: Role::Ensures, scopes: &["GPU", "SYS"], operations: &["MEMBAR*"] },
    token(Token::Registers, Role::Writes, &["USETMAXREG*"]),
    token(Token::Registers, Role::Needs, &["*"]),
];

/// Operations whose names begin as a pattern of [`TOKENS`] does and that are something else.
const NO_TOKENS: &[&str] = &["ATOMS*"];

type TokenUse = (Token, Role, &'static [&'static str]);

fn token_uses(op: Op) -> &'static [TokenUse] {
    static USES: Met<Vec<TokenUse>> = Met::new();
    USES.get_or_init(op, || {
        let class = timing::of(op).map(|timing| timing.class.name());
        let none = NO_TOKENS.iter().any(|pattern| names(pattern, op));
        let fits = |pattern: &&str| match pattern.strip_prefix('=') {
            Some(name) => class == Some(name),
            None => names(pattern, op) && (!none || *pattern == "*"),
        };
        let rows = TOKENS.iter();
        rows.filter(|row| row.operations.iter().any(&fits))
            .map(|row| (row.token, row.role, row.scopes))
            .collect()
    })
}

/// The tokens an instruction needs, gives or makes sure of.
pub fn tokens(instruction: &Instruction) -> impl Iterator<Item = (Token, Role)> {
    let scope = instruction.modifier("scope");
    token_uses(instruction.op())
        .iter()
        .filter(move |(_, _, scopes)| {
            scopes.is_empty() || scope.is_some_and(|scope| scopes.contains(&scope))
        })
        .map(|&(token, role, _)| (token, role))
}

/// The same for an operation, where no modifier decides.
pub fn tokens_of_operation(op: Op) -> Option<impl Iterator<Item = (Token, Role)>> {
    let uses = token_uses(op);
    let decided = uses.iter().all(|(_, _, scopes)| scopes.is_empty());
    decided.then(|| uses.iter().map(|&(token, role, _)| (token, role)))
}

/// The tokens that instructions of this operation may give, a bit for each.
#[must_use]
pub fn gives(op: Op) -> u8 {
    let uses = token_uses(op).iter();
    let given = uses.filter(|(_, role, _)| matches!(role, Role::Writes | Role::Releases));
    given.fold(0, |given, (token, _, _)| given | 1 << *token as u8)
}

/// Whether nothing may be in flight when the instruction issues: calls, returns, and both ends of a collective operation, where
/// lanes go on in code that does not know what was started.
#[must_use]
pub fn needs_nothing_in_flight(op: Op) -> bool {
    const COLLECTIVE: [Op; 3] = [
        Op::WARPSYNC_COLLECTIVE,
        Op::WARPSYNC_COLLECTIVE_ALL,
        Op::ENDCOLLECTIVE,
    ];
    let effects = op.row().effects;
    effects.intersects(Effects::CALL | Effects::RETURN) || COLLECTIVE.contains(&op)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_unit() {
        for op in Op::all() {
            let class = timing::of(op).map(|timing| timing.class.name());
            let named = UNITS.iter().flat_map(|row| row.operations).any(|pattern| {
                match pattern.strip_prefix('=') {
                    Some(name) => class == Some(name),
                    None => names(pattern, op),
                }
            });
            assert!(named, "{op}");
        }
    }

    #[test]
    fn every_pattern_names_an_operation() {
        let patterns = UNITS
            .iter()
            .flat_map(|row| row.operations)
            .chain(LEAST_STALLS.iter().flat_map(|(_, patterns)| *patterns))
            .chain(TOKENS.iter().flat_map(|row| row.operations))
            .chain(DRAINING)
            .chain(LATE_UNIFORM_READERS)
            .chain(NO_TOKENS);
        for pattern in patterns {
            let named = Op::all().any(|op| match pattern.strip_prefix('=') {
                Some(name) => timing::of(op).is_some_and(|timing| timing.class.name() == name),
                None => names(pattern, op),
            });
            assert!(named, "nothing is called {pattern}");
        }
    }
}
