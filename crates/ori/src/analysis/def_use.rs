//! Def-use chains: for each value, the places that read it.
//!
//! The definition is known to the function ([`Function::value_def`]); this is the other direction. Cost: O(operands).

use super::csr::Csr;
use crate::{Block, Function, Inst, Operand, Reg, Value};

/// Where in an instruction a value is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// As the guard.
    Guard,
    /// In the operand of this number (index into [`Function::operands`]), itself or as part of an address.
    Operand(u16),
    /// As the kept value of this number (index into [`Function::kept`]).
    Kept(u16),
    /// As the implicit use of this number (index into [`Function::implicit_uses`]).
    Implicit(u16),
    /// As an argument of an edge.
    Argument {
        /// The edge, as an index into [`Function::edges`].
        edge: u16,
        /// Which parameter of the target it is for.
        index: u16,
    },
}

/// One reading of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Use {
    /// The instruction that reads.
    pub inst: Inst,
    /// Where in it.
    pub place: Place,
}

/// Calls `found` for each value `inst` reads and the place it is read.
#[inline]
fn for_each_read(function: &Function, inst: Inst, mut found: impl FnMut(Value, Place)) {
    let mut found = |reg: Reg, place: Place| {
        if let Some(value) = reg.value() {
            found(value, place);
        }
    };
    if let Some(reg) = function.inst(inst).guard().reg() {
        found(reg, Place::Guard);
    }
    let mut operand = |index: usize, operand: Operand, place: fn(u16) -> Place| match operand {
        Operand::Reg { reg, .. } => found(reg, place(index as u16)),
        Operand::Imm(_) | Operand::None => {}
        other => {
            for reg in function.operand_regs(other) {
                found(reg, place(index as u16));
            }
        }
    };
    for (index, &it) in function.operands(inst).iter().enumerate() {
        // A place that is read and written names the value written; the one read is among the kept.
        let reads = function.is_use(inst, index)
            && !(function.is_def(inst, index) && it.as_value().is_some());
        if reads {
            operand(index, it, Place::Operand);
        }
    }
    for (index, &it) in function.kept(inst).iter().enumerate() {
        operand(index, it, Place::Kept);
    }
    for (index, &it) in function.implicit_uses(inst).iter().enumerate() {
        operand(index, it, Place::Implicit);
    }
    for (edge, &id) in function.edges(inst).iter().enumerate() {
        for (index, &value) in function.edge_args(id).iter().enumerate() {
            let place = Place::Argument {
                edge: edge as u16,
                index: index as u16,
            };
            found(Reg::from(value), place);
        }
    }
}

/// The uses of every value, in layout order.
#[derive(Clone, Debug)]
pub struct DefUse {
    uses: Csr<Use>,
}

impl DefUse {
    /// Collects the uses in every instruction of the layout.
    pub fn new(function: &Function) -> Self {
        let mut found: Vec<(u32, Use)> = Vec::with_capacity(2 * function.inst_count());
        for block in function.blocks() {
            for inst in function.block_insts(block) {
                for_each_read(function, inst, |value, place| {
                    found.push((value.as_u32(), Use { inst, place }));
                });
            }
        }
        DefUse {
            uses: Csr::from_pairs(function.value_count(), found.iter().copied()),
        }
    }

    /// Every reading of `value`, in layout order; an instruction that reads it twice is there twice.
    pub fn uses(&self, value: Value) -> &[Use] {
        self.uses.row(value.as_u32())
    }

    /// Whether nothing reads `value`.
    pub fn is_unused(&self, value: Value) -> bool {
        self.uses(value).is_empty()
    }
}

impl Use {
    /// The block in which the value is read. An argument is read at the end of the block the edge leaves.
    ///
    /// # Panics
    /// If the instruction is in no block.
    pub fn block(&self, function: &Function) -> Block {
        function
            .layout
            .inst_block(self.inst)
            .expect("a use is in the layout")
    }
}
