//! The reuse flags: a source stays in the operand cache for the instruction that reads it again in the same place.
//!
//! The cache has one entry for each source position. A flag on an operand keeps its register there until another register is read
//! in that position; the next instruction that reads the same register there takes it from the cache and spares the register file
//! a read. So an operand gets the flag if, going on from its instruction, the first one that reads a general register in that
//! position reads this one, and the register has not been written in between. The search ends at the end of the block, where the
//! warp may be switched (an instruction without the yield bit), and after a few instructions. A flag needs the yield bit on its
//! own instruction.

use super::facts::Code;
use super::walk::Plan;
use orias_machine::issue::Unit;
use orias_machine::timing::Completion;
use orias_ori::{Function, Inst, Operand, PhysReg, machine};
use orias_sass::{Instruction, Target};

/// How many instructions ahead are looked at.
const REACH: usize = 4;

/// The longest stall with which ptxas keeps an operand; matrix operations keep theirs as long as they keep the unit.
const LONGEST_STALL: u8 = 2;

/// The general register an instruction reads in each source position, by reuse bit.
type Positions = [Option<PhysReg>; 4];

const FIRST_BIT: u8 = 122;

/// The operands that get the flag.
///
/// `keeps` says of each instruction whether it has the yield bit: whether the warp goes on issuing after it.
pub(super) fn find(
    func: &Function,
    code: &Code,
    plan: &Plan,
    keeps: &[bool],
) -> Vec<(Inst, usize)> {
    let Some(target) = Target::from_name(&func.target) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for block in &code.blocks {
        let reads: Vec<Option<(Positions, [usize; 4])>> = block
            .range
            .clone()
            .map(|index| {
                let fact = &code.facts[index];
                let fixed = fact.completion == Completion::Fixed;
                let instruction = machine::placeless(func, fact.inst, target)?.ok()?;
                fixed.then(|| positions(func, fact.inst, &instruction))
            })
            .collect();
        for (offset, index) in block.range.clone().enumerate() {
            let Some((own, slots)) = reads[offset] else {
                continue;
            };
            let matrix = code.facts[index].issue.unit == Unit::Tensor;
            if !keeps[index] || plan.stall[index] > LONGEST_STALL && !matrix {
                continue;
            }
            for position in 0..own.len() {
                let Some(reg) = own[position] else {
                    continue;
                };
                let window = Window {
                    code,
                    plan,
                    keeps,
                    start: block.range.start,
                    reads: &reads,
                };
                if window.is_read_again(index, position, reg) {
                    found.push((code.facts[index].inst, slots[position]));
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
    /// The index of the block's first instruction.
    start: usize,
    /// What each instruction of the block reads in the positions; none if it does not go through them.
    reads: &'a [Option<(Positions, [usize; 4])>],
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
        let end = (index + 1 + REACH).min(self.start + self.reads.len());
        for later in index + 1..end {
            if self.plan.wait[later] != 0 {
                return false;
            }
            let reads = &self.reads[later - self.start];
            if let Some((positions, _)) = reads
                && let Some(read) = positions[position]
            {
                return read == reg;
            }
            // What takes its operands later may use the cache in between.
            let long = self.plan.stall[later] > LONGEST_STALL;
            if reads.is_none() || writes(later) || long || !self.keeps[later] {
                return false;
            }
        }
        false
    }
}

fn positions(func: &Function, inst: Inst, instruction: &Instruction) -> (Positions, [usize; 4]) {
    let mut registers = [None; 4];
    let mut slots = [0; 4];
    for (slot, place) in instruction.form().places.iter().enumerate() {
        if !place.reuse.exists() {
            continue;
        }
        let position = usize::from(place.reuse.0 - FIRST_BIT);
        if let Operand::Reg { reg, .. } = func.operands(inst)[slot]
            && let Some(phys) = reg.phys()
            && phys.class() == orias_ori::Class::R
            && !phys.is_constant()
            && let Some(register) = registers.get_mut(position)
        {
            *register = Some(phys);
            slots[position] = slot;
        }
    }
    (registers, slots)
}
