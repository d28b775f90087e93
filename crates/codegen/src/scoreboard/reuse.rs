//! The reuse flags: a source stays in the operand cache for the instruction that reads it again in the same place.
//!
//! The cache has one entry for each source position. A flag on an operand keeps its register there until another register is read
//! in that position; the next instruction that reads the same register there takes it from the cache and spares the register file
//! a read. So an operand gets the flag if, going on from its instruction, the first one that reads a general register in that
//! position reads this one, and the register has not been written in between. The search ends at the end of the block, where the
//! warp may be switched (an instruction without the yield bit), and after a few instructions. A flag needs the yield bit on its
//! own instruction. A matrix product keeps A or B, never both and never the accumulator, as in all 433 HMMA of ptxas's code that keep one: nvdisasm does not know
//! a word of HMMA that keeps the accumulator.

use super::facts::Code;
use super::walk::Plan;
use crate::sources::{self, POSITIONS};
use orias_machine::issue::Unit;
use orias_ori::{Function, Inst, PhysReg};
use orias_sass::{EncodeError, Op, Target};

/// How many instructions ahead are looked at.
const REACH: usize = 4;

/// The positions of a matrix product's factors; the accumulator follows.
const FACTORS: usize = 2;

/// What an instruction reads in each source position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sources {
    /// The general register, by reuse bit.
    registers: [Option<PhysReg>; POSITIONS],
    /// The slot it stands in.
    slots: [u8; POSITIONS],
}

impl Sources {
    /// Those of `inst`, an `op`.
    pub(super) fn of(
        func: &Function,
        inst: Inst,
        op: Op,
        target: Target,
    ) -> Result<Sources, EncodeError> {
        let mut sources = Sources {
            registers: [None; POSITIONS],
            slots: [0; POSITIONS],
        };
        for (position, source) in sources::of(func, inst, op, target)?.iter().enumerate() {
            if let Some((slot, reg)) = *source {
                sources.registers[position] = Some(reg);
                sources.slots[position] = slot;
            }
        }
        Ok(sources)
    }
}

/// The operands that get the flag.
///
/// `keeps` says of each instruction whether it has the yield bit: whether the warp goes on issuing after it.
pub(super) fn find(code: &Code, plan: &Plan, keeps: &[bool]) -> Vec<(Inst, usize)> {
    let mut found = Vec::new();
    for block in &code.blocks {
        let window = Window {
            code,
            plan,
            keeps,
            end: block.range.end,
        };
        for index in block.range.clone() {
            let Some(own) = &code.sources[index] else {
                continue;
            };
            let matrix = code.facts[index].issue.unit == Unit::Tensor;
            // Matrix operations keep theirs as long as they keep the unit.
            let lasts = code.machine.limits.operand_cache_lasts;
            if !keeps[index] || plan.stall[index] > lasts && !matrix {
                continue;
            }
            let positions = if matrix { FACTORS } else { POSITIONS };
            for position in 0..positions {
                if let Some(reg) = own.registers[position]
                    && window.is_read_again(index, position, reg)
                {
                    let slot = usize::from(own.slots[position]);
                    found.push((code.facts[index].inst, slot));
                    if matrix {
                        break;
                    }
                }
            }
        }
    }
    found
}

/// A block as the search sees it.
struct Window<'a> {
    code: &'a Code,
    plan: &'a Plan,
    keeps: &'a [bool],
    /// The end of the block.
    end: usize,
}

impl Window<'_> {
    /// Whether the first read in the position after the instruction at `index` is one of the same register with the same value.
    fn is_read_again(&self, index: usize, position: usize, reg: PhysReg) -> bool {
        let writes = |index: usize| {
            let first = u16::from(reg.index());
            let units = first..first + u16::from(reg.len());
            let mut written = self.code.writes(index).iter();
            written.any(|write| units.contains(&write.place))
        };
        if writes(index) {
            return false;
        }
        let end = (index + 1 + REACH).min(self.end);
        for later in index + 1..end {
            if self.plan.wait[later] != 0 {
                return false;
            }
            let reads = &self.code.sources[later];
            if let Some(reads) = reads
                && let Some(read) = reads.registers[position]
            {
                return read == reg;
            }
            // What takes its operands later may use the cache in between.
            let long = self.plan.stall[later] > self.code.machine.limits.operand_cache_lasts;
            if reads.is_none() || writes(later) || long || !self.keeps[later] {
                return false;
            }
        }
        false
    }
}
