//! ProcessO0WaitsAndSBs (116): control words for -O0.
//!
//! As ptxas does it: what takes a variable time to write its results sets write barrier 0, what takes a variable time to read its
//! sources sets read barrier 1, every instruction waits for both, stalls for 15 cycles and leaves the yield bit clear. No dependence
//! is looked at. The seed's version sets no barrier and would be wrong on the chip; a write barrier on an instruction that writes
//! nothing is wrong, too: nobody releases it.
//!
//! Two things need more than that. Results of fixed latency above 15 cycles (matrix operations) get fillers behind them, as many as
//! the longest latency in the tables asks for. And groups of asynchronous copies count on barrier 0: they keep doing so, and
//! waiting for it everywhere only makes copies synchronous.
//!
//! What has no wait mask (WARPGROUP.DEPBAR) reads no register; what follows it waits for both.

use super::facts::{Arrives, Code, EventKind};
use super::{ScoreboardError, broken, filler};
use crate::pipeline::{Context, PhaseError};
use orias_machine::Machine;
use orias_ori::{ControlWord, Function, Level};
use orias_sass::{Barrier, Mnemonic, Op};

/// What every instruction waits for.
const BOTH: u8 = 0b11;

/// Phase 116.
pub fn assign_plain_control_words(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    assign(func).map_err(|error| broken(func, &error))
}

fn assign(func: &mut Function) -> Result<(), ScoreboardError> {
    let code = Code::new(func)?;
    let machine = code.machine;
    let stall_max = machine.limits.stall_max;
    for (index, fact) in code.facts.iter().enumerate() {
        let barrier = |number, set: bool| set.then_some(number).and_then(Barrier::new);
        let stall = if fact.issue.drains { 0 } else { stall_max };
        let word = ControlWord::PLAIN
            .with_stall(stall)
            .with_write_barrier(barrier(0, writes_late(&code, index)))
            .with_read_barrier(barrier(read_barrier(fact.op), reads_late(&code, index)))
            .with_wait_mask(if fact.issue.waits { BOTH } else { 0 });
        func.set_control(fact.inst, word);
        let writes = code.writes(index).iter();
        let longest = writes
            .filter_map(|write| longest_latency(machine, write))
            .max();
        let mut missing = longest.unwrap_or(0).saturating_sub(u16::from(stall));
        while missing > 0 {
            let nop = filler(func, machine, missing);
            func.layout.insert_inst_after(nop, fact.inst);
            missing = missing.saturating_sub(u16::from(stall_max));
        }
    }
    func.level = Level::Final;
    Ok(())
}

/// Whether the write barrier is released: there is a result of variable latency, or a copy whose completion it stands for.
fn writes_late(code: &Code, index: usize) -> bool {
    let fact = &code.facts[index];
    let mut writes = code.writes(index).iter();
    let written = writes.any(|write| write.arrives == Arrives::Barrier(EventKind::Written));
    let group = fact.counts_copies && fact.op != Op::UTMACMDFLUSH;
    let copies = group || matches!(fact.op.mnemonic(), Mnemonic::SYNCS | Mnemonic::LDGSTS);
    fact.is_variable() && (written || copies)
}

/// Whether the read barrier is released: everything of variable latency but fences, moves from a convergence barrier and cache
/// operations without an address, which read no register late.
fn reads_late(code: &Code, index: usize) -> bool {
    let fact = &code.facts[index];
    let quick = matches!(
        fact.op.mnemonic(),
        Mnemonic::FENCE | Mnemonic::CCTL | Mnemonic::CCTLL | Mnemonic::BMOV
    );
    let copies = fact.counts_copies && fact.op != Op::UTMACMDFLUSH;
    fact.is_variable() && !copies && (!quick || !code.late(index).is_empty())
}

/// The read barrier an operation sets: 1, or 0 for the end of a group of bulk copies, which DEPBAR counts there.
fn read_barrier(op: Op) -> u8 {
    match op {
        Op::UTMACMDFLUSH => 0,
        _ => 1,
    }
}

/// Cycles until a result of fixed latency can be read by anything.
fn longest_latency(machine: &Machine, write: &super::facts::Write) -> Option<u16> {
    let Arrives::Fixed(group) = write.arrives else {
        return None;
    };
    let uses = machine
        .use_groups()
        .filter(|used| used.class() == group.class());
    uses.map(|used| u16::from(machine.latency(group, used).cycles))
        .max()
}
