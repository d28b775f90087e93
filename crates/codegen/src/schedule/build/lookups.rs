//! Loads from constant banks by numbers that differ from lane to lane.
//!
//! The cache of constants answers a warp with one word at a time: a load whose index is the same in all lanes is over in a few cycles, one whose lanes look up
//! different places of a table (substitution boxes, tables of remainders) keeps the unit for two cycles a place. An order that starts all lookups first and
//! computes afterwards leaves the scheduler idle while they queue; one that computes with the first while the next are looked up does not.
//! (H200, a cipher with 16 such lookups a round, two blocks of four warps: 0.9 of its time is what they take one after the other.)
//!
//! **Algorithm.** One walk through a block that has such loads: an index varies if it comes from memory, from another lane or from a thread's number. Of what comes into the block a register that
//! the block advances by a number is a counter, and the same in all lanes; all else may vary.

use super::Builder;
use orias_machine::issue::Unit;
use orias_ori::{Class, Function, Inst, Operation, Reg, RegKind};
use orias_sass::Op;
use rustc_hash::{FxHashMap, FxHashSet};

/// What a lookup keeps whose lanes go to 32 places: two cycles for each.
const KEEPS: &[(Unit, u8)] = &[(Unit::Constant, 64)];

impl Builder<'_> {
    /// Lets loads of constants that vary keep their unit for longer.
    pub(super) fn lookups(&mut self, insts: &[Inst]) {
        if !self.fences.counts_lookups {
            return;
        }
        let mut indexed = insts.iter().map(|&inst| is_indexed(self.func, inst));
        if !indexed.any(|it| it) {
            return;
        }
        let func = self.func;
        let counters: FxHashSet<u32> = (insts.iter())
            .filter(|&&inst| advances(func, inst))
            .flat_map(|&inst| words_read(func, inst))
            .collect();
        let mut varies: FxHashMap<u32, bool> = FxHashMap::default();
        for (node, &inst) in insts.iter().enumerate() {
            let reads = words_read(func, inst);
            let differs = reads.iter().any(|word| {
                let known = varies.get(word).copied();
                known.unwrap_or_else(|| !counters.contains(word))
            });
            let differs = match func.inst(inst).operation() {
                Operation::Machine(Op::LDC, _) => differs,
                Operation::Machine(op, _) => {
                    differs
                        || !op.row().memory.is_empty()
                        || matches!(op, Op::S2R | Op::SHFL | Op::MATCH_ANY)
                }
                Operation::Abstract(..) => true,
            };
            if differs && is_indexed(func, inst) {
                self.nodes[node].issue.keeps = KEEPS;
            }
            func.for_each_def(inst, |reg| {
                each_word(func, reg, |word| {
                    varies.insert(word, differs);
                });
            });
        }
    }
}

/// Whether `inst` loads from a constant bank by a register.
fn is_indexed(func: &Function, inst: Inst) -> bool {
    matches!(func.inst(inst).operation(), Operation::Machine(Op::LDC, _))
        && !words_read(func, inst).is_empty()
}

/// Whether `inst` adds a number to a register and does nothing else.
fn advances(func: &Function, inst: Inst) -> bool {
    let adds = matches!(
        func.inst(inst).operation(),
        Operation::Machine(Op::VIADD | Op::IADD3, _)
    );
    adds && words_read(func, inst).len() == 1
}

/// The general registers that `inst` reads, a word at a time.
fn words_read(func: &Function, inst: Inst) -> Vec<u32> {
    let mut words = Vec::new();
    func.for_each_use(inst, |reg| each_word(func, reg, |word| words.push(word)));
    words
}

/// The words of a general register that holds something: physical ones by their number, values behind them.
fn each_word(func: &Function, reg: Reg, mut with: impl FnMut(u32)) {
    const VALUES: u32 = 1 << 16;
    match reg.kind() {
        RegKind::Value(value) => {
            if func.value_type(value).class() == Class::R {
                with(VALUES + value.as_u32());
            }
        }
        RegKind::Phys(reg) => {
            if reg.class() == Class::R && !reg.is_constant() {
                (0..u32::from(reg.len())).for_each(|word| with(u32::from(reg.index()) + word));
            }
        }
    }
}
