//! Which operations take a fixed time, which do not, and which of those finish in the order they were issued.
//!
//! A row names a class, how its operations complete, and the operations in it: a name with `*` stands for all names that
//! begin so. The first row that fits counts.

use orias_sass::{OPERATIONS, Op};
use std::sync::LazyLock;

/// How an operation's result arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Completion {
    /// After a number of cycles that depends on producer and consumer only. Sources are read at issue.
    Fixed,
    /// When it is there: a barrier tells. Sources are read some time after issue.
    Variable,
    /// When its group of warpgroup operations is waited for; no barrier of the control field covers it.
    Group,
    /// When it is there, but never before an earlier operation of the same queue.
    InOrder(Queue),
}

/// Operations that finish in the order of issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// Shared memory and exchange between lanes.
    Shared,
    /// Functions and conversions.
    Special,
}

/// A class of operations with one timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

impl Class {
    /// What the class is called.
    pub fn name(self) -> &'static str {
        CLASSES[usize::from(self.0)].name
    }
}

/// The timing of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Its class.
    pub class: Class,
    /// How it completes.
    pub completion: Completion,
    /// Whether it goes through the queue of the memory pipes, which reads operands in the order of issue: once a later one
    /// has read its sources, so have all before it.
    pub reads_in_order: bool,
}

struct Row {
    name: &'static str,
    completion: Completion,
    reads_in_order: bool,
    operations: &'static [&'static str],
}

const fn row(
    name: &'static str,
    completion: Completion,
    operations: &'static [&'static str],
) -> Row {
    Row {
        name,
        completion,
        reads_in_order: false,
        operations,
    }
}

/// A row of operations that go through the memory queue.
const fn queued(
    name: &'static str,
    completion: Completion,
    operations: &'static [&'static str],
) -> Row {
    Row {
        reads_in_order: true,
        ..row(name, completion, operations)
    }
}

use Completion::{Fixed, Group, InOrder, Variable};

/// The classes of sm_90. Which operations carry a barrier, and which never do, was read off ptxas 13.0.88 output.
#[rustfmt::skip]
const CLASSES: &[Row] = &[
    row("fma", Fixed, &["FADD*", "FMUL*", "FFMA*", "IMAD", "IMAD.X", "IDP*", "VIADD"]),
    row("fma-wide", Fixed, &["IMAD.WIDE*", "IMAD.HI*"]),
    row("alu", Fixed, &["IADD3*", "LOP3*", "LEA*", "SHF", "SEL", "PRMT", "VIADDMNMX*", "VIMNMX*", "ISETP*", "IMNMX", "IABS", "SGXT*", "BMSK",
        "MOV", "P2R", "R2P", "PLOP3*", "I2FP", "F2FP*", "F2IP", "VABSDIFF*", "I2IP*", "FMNMX*", "FSEL", "FSET", "FSETP*", "LEPC*"]),
    row("half", Fixed, &["HADD2*", "HFMA2.MMA*", "HFMA2*", "HMUL2*", "HMNMX2*", "HSET2*", "HSETP2*"]),
    row("fp64", Fixed, &["DADD", "DMUL", "DFMA", "DSETP"]),
    row("tensor", Fixed, &["HMMA*", "IMMA*", "BMMA*"]),
    row("tensor-64", Variable, &["DMMA*"]),
    row("warpgroup", Group, &["HGMMA*", "IGMMA*", "QGMMA*", "BGMMA*"]),
    row("uniform", Fixed, &["UIADD3*", "ULOP3*", "ULEA*", "USHF*", "USEL", "UPRMT", "UMOV", "UISETP*", "USGXT*", "UBMSK", "UPLOP3*", "UIMAD*",
        "UP2UR", "UR2UP", "UCLEA", "UFLO", "UPOPC", "UBREV"]),
    row("uniform-load", Fixed, &["ULDC*"]),
    row("to-uniform", Fixed, &["R2UR*", "VOTEU"]),
    row("counter", Fixed, &["CS2R*"]),
    row("vote", Fixed, &["VOTE", "ELECT*"]),
    row("control", Fixed, &["NOP", "YIELD", "EXIT", "BRA*", "BSSY", "BSYNC", "BREAK", "WARPSYNC*", "BRX*", "JMP*", "JMX*", "CALL*", "RET*", "KILL",
        "BPT*", "NANOSLEEP*", "DEPBAR*", "ENDCOLLECTIVE", "PREEXIT", "ACQBULK", "WARPGROUP*", "RPCMOV*", "PMTRIG", "UCGABAR*",
        "ERRBAR", "CGAERRBAR"]),
    row("special", InOrder(Queue::Special), &["MUFU*", "F2F*", "F2I*", "I2F*", "FRND*", "I2I*", "POPC", "FLO", "BREV", "FCHK"]),
    queued("shared", InOrder(Queue::Shared), &["LDSM*", "LDS*", "STSM*", "STS*", "SHFL", "ATOMS*", "MOVM*"]),
    row("constant", Variable, &["LDC*"]),
    queued("memory", Variable, &["LDG", "LD", "LDL", "LDGMC*", "STG", "ST", "STL", "STAS*", "ATOM*", "RED*", "LDGSTS*", "LDGDEPBAR", "CCTL*", "MEMBAR*", "FENCE*",
        "QSPC*", "SYNCS*", "ARRIVES*"]),
    queued("texture", Variable, &["TEX*", "TLD*", "TXD*", "TXQ*", "TMML*", "SULD*", "SUST*", "SUATOM*", "SURED*"]),
    row("bulk", Variable, &["UBLK*", "UTMA*", "USETMAXREG*"]),
    row("system", Variable, &["S2R", "S2UR", "B2R*", "BAR*", "BMOV*"]),
    row("lanes", Variable, &["MATCH*", "REDUX*"]),
];

/// The table by operation.
static TIMINGS: LazyLock<Vec<Option<Timing>>> = LazyLock::new(|| {
    OPERATIONS
        .iter()
        .map(|operation| {
            let fits = |pattern: &&str| match pattern.strip_suffix('*') {
                Some(start) => operation.name.starts_with(start),
                None => operation.name == *pattern,
            };
            let index = CLASSES
                .iter()
                .position(|row| row.operations.iter().any(&fits))?;
            Some(Timing {
                class: Class(index as u8),
                completion: CLASSES[index].completion,
                reads_in_order: CLASSES[index].reads_in_order,
            })
        })
        .collect()
});

/// The timing of an operation; none when no row names it.
pub fn of(op: Op) -> Option<Timing> {
    TIMINGS[op.index()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_timing() {
        let missing: Vec<&str> = Op::all()
            .filter(|op| of(*op).is_none())
            .map(|op| op.name())
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    #[test]
    fn every_pattern_names_an_operation() {
        for row in CLASSES {
            for pattern in row.operations {
                let fits = |op: Op| match pattern.strip_suffix('*') {
                    Some(start) => op.name().starts_with(start),
                    None => op.name() == *pattern,
                };
                assert!(
                    Op::all().any(fits),
                    "{}: nothing is called {pattern}",
                    row.name
                );
            }
        }
    }
}
