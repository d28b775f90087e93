//! The functions inside a section: which blocks call, and what a call does.
//!
//! Lanes of different callers meet nowhere in a callee, so calls are stepped over: the block behind a call follows it, and what the callee does
//! to registers and convergence barriers is summed up. Cost: each function is walked once for its summary, and the summaries go
//! round as often as calls nest.

use super::acts::{Act, Acts};
use super::registers::RegisterSet;
use super::uniform::{self, Sameness};
use crate::facts::Facts;
use crate::program::{Outside, Program, is_unconditional};
use orias_sass::{Effects, Op, modifier_names as name, modifier_values as value};
use std::collections::{BTreeMap, BTreeSet};

/// What a call of a function does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Summary {
    pub reads: RegisterSet,
    pub writes: RegisterSet,
    /// Whether lanes get different results from equal arguments.
    pub diverges: bool,
    /// An instruction in it that lets waiting lanes go on.
    pub yields: Option<u32>,
    /// Barriers it opens without keeping what they were: a bit each.
    pub opens: u16,
}

impl Summary {
    /// Of a function that is elsewhere.
    fn outside() -> Self {
        Self {
            writes: RegisterSet::of_lanes(),
            diverges: true,
            ..Self::default()
        }
    }

    fn add(&mut self, other: &Self) -> bool {
        let mut changed = self.reads.extend(&other.reads) | self.writes.extend(&other.writes);
        changed |= other.diverges && !self.diverges;
        changed |= self.yields.is_none() && other.yields.is_some();
        changed |= other.opens & !self.opens != 0;
        self.diverges |= other.diverges;
        self.yields = self.yields.or(other.yields);
        self.opens |= other.opens;
        changed
    }
}

/// The calls of a program and the functions they lead to.
pub(super) struct Procedures {
    /// By block: the function it calls (a block), if that is in the section.
    callees: BTreeMap<usize, usize>,
    summaries: BTreeMap<usize, Summary>,
    outside: Summary,
}

impl Procedures {
    pub(super) fn new(program: &Program, facts: &Facts, acts: &Acts) -> Self {
        let callees: BTreeMap<usize, usize> = program.calls.iter().copied().collect();
        let roots: BTreeSet<usize> = callees.values().copied().collect();
        let mut summaries: BTreeMap<usize, Summary> = BTreeMap::new();
        let mut calls: Vec<(usize, usize)> = Vec::new();
        for &root in &roots {
            let mut summary = Summary::default();
            let mut kept = 0u16;
            let mut inside = BTreeSet::from([root]);
            let mut pending = vec![root];
            while let Some(block) = pending.pop() {
                let bounds = &program.blocks[block];
                for index in bounds.start..bounds.end {
                    let fact = &facts.facts[index];
                    let reads = facts.reads(fact);
                    let writes = facts.writes(fact);
                    reads
                        .iter()
                        .for_each(|read| summary.reads.insert(read.register));
                    for write in writes {
                        if RegisterSet::is_of_lanes(write.register) {
                            summary.writes.insert(write.register);
                        }
                    }
                    let sameness = uniform::of(&program.instructions[index]);
                    summary.diverges |=
                        !writes.is_empty() && matches!(sameness, Sameness::Never | Sameness::Frame);
                }
                for &(index, act) in acts.of(block) {
                    match act {
                        Act::Open { barrier, .. } => summary.opens |= 1 << barrier,
                        Act::Save { barrier, .. } => kept |= 1 << barrier,
                        Act::Yield => summary.yields = summary.yields.or(Some(index)),
                        _ => {}
                    }
                }
                if let Some(callee) = callees.get(&block) {
                    calls.push((root, *callee));
                } else if is_call(program, block) {
                    summary.add(&Summary::outside());
                }
                for next in successors(program, block) {
                    if inside.insert(next) {
                        pending.push(next);
                    }
                }
            }
            summary.opens &= !kept;
            summaries.insert(root, summary);
        }
        loop {
            let mut changed = false;
            for (caller, callee) in &calls {
                let Some(called) = summaries.get(callee).cloned() else {
                    continue;
                };
                if let Some(summary) = summaries.get_mut(caller) {
                    changed |= summary.add(&called);
                }
            }
            if !changed {
                break;
            }
        }
        Self {
            callees,
            summaries,
            outside: Summary::outside(),
        }
    }

    /// The function that a block calls, if it is in the section.
    pub(super) fn callee(&self, block: usize) -> Option<usize> {
        self.callees.get(&block).copied()
    }

    /// What the call at the end of a block does.
    pub(super) fn summary(&self, block: usize) -> &Summary {
        (self.callee(block))
            .and_then(|callee| self.summaries.get(&callee))
            .unwrap_or(&self.outside)
    }

    /// Whether a function that is called starts here.
    pub(super) fn starts(&self, block: usize) -> bool {
        self.summaries.contains_key(&block)
    }
}

/// Whether a block ends with a call.
pub(super) fn is_call(program: &Program, block: usize) -> bool {
    let last = program.blocks[block].end - 1;
    (program.instructions[last].op().row().effects).contains(Effects::CALL)
}

/// Whether lanes that come to a block end the kernel there: nobody goes on behind a trap.
fn traps(program: &Program, block: usize) -> bool {
    let bounds = &program.blocks[block];
    program.instructions[bounds.start..bounds.end]
        .iter()
        .any(|it| {
            it.op() == Op::BPT
                && it.modifier(name::KIND) == Some(value::TRAP)
                && it.guard().is_always()
        })
}

/// The blocks that lanes go on at, once a call has come back.
pub(super) fn successors(program: &Program, block: usize) -> impl Iterator<Item = usize> {
    let bounds = &program.blocks[block];
    let last = &program.instructions[bounds.end - 1];
    let effects = last.op().row().effects;
    let next = (block + 1 < program.blocks.len()).then_some(block + 1);
    let (listed, next) = if traps(program, block) {
        (&[][..], None)
    } else if effects.contains(Effects::CALL) {
        let ends = program.outside == Outside::Ends
            && is_unconditional(last)
            && program
                .calls
                .binary_search_by_key(&block, |call| call.0)
                .is_err();
        (&[][..], next.filter(|_| !ends))
    } else if effects.contains(Effects::RETURN) {
        (&[][..], next.filter(|_| !is_unconditional(last)))
    } else {
        (&bounds.successors[..], None)
    };
    listed.iter().copied().chain(next)
}
