//! The first lines of constants that a kernel reads, which are in no cache yet.
//!
//! Parameters lie in a constant bank, and its caches are empty when a kernel starts: a load of a line that nobody has read (LDC) takes four
//! times as long as another one, and behind an operand `c[]` or a uniform load (ULDC) of such a line nothing of the warp issues at all. The
//! caches of the two are apart. So loads belong before the first operands, as then both are fetched at once: a kernel of 0.8
//! microseconds on an H200 takes 4 % longer the other way round. Whatever else takes long without this (S2R) belongs before them, too, so the
//! wait counts as time in which nothing issues and not as latency: it makes no chain longer, and an operand goes where nothing else can.
//!
//! Only the entry block of a kernel is looked at, and there what reads a line first in the order the block has. The stack pointer that every
//! kernel reads at its start for the sake of tools goes behind the loads that somebody waits for, and before the operands.

use super::Builder;
use super::registers::is_constant;
use orias_ori::{Block, Function, FunctionKind, Inst, Operand};
use orias_sass::Space;
use rustc_hash::FxHashSet;

/// The lines of constants that a block has read so far.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Whether it is the first block of a kernel.
    opens: bool,
    /// By way (loads, operands), bank and number.
    read: FxHashSet<(bool, u8, i32)>,
}

impl Lines {
    pub(super) fn begin_block(&mut self, func: &Function, block: Block) {
        self.opens = func.kind == FunctionKind::Entry && func.entry() == Some(block);
        self.read.clear();
    }
}

impl Builder<'_> {
    /// Adds to a node what it takes longer, or makes others wait, for lines that nobody has read.
    pub(super) fn fetch_lines(&mut self, node: u32, inst: Inst) {
        let own = &mut self.nodes[node as usize];
        if !self.lines.opens || own.is_pseudo() {
            return;
        }
        let limits = &self.machine.limits;
        for operand in self.func.operands(inst) {
            let &Operand::Const {
                bank,
                offset,
                index,
                ..
            } = operand
            else {
                continue;
            };
            let line = offset.div_euclid(limits.constant_line.max(1) as i32);
            let known = index.get().is_none_or(is_constant);
            if !known || !self.lines.read.insert((own.fixed, bank, line)) {
                continue;
            }
            if own.fixed {
                own.fetches += limits.constant_read_miss;
            } else {
                own.latency += limits.constant_load_miss;
            }
        }
    }

    /// Whether a node stays behind the read of the stack pointer: tools patch accesses to memory and whatever waits for other threads, and
    /// what waits for constants would keep it back.
    pub(super) fn waits_for_stack(&self, node: u32) -> bool {
        let own = &self.nodes[node as usize];
        let accesses = |op: orias_sass::Op| {
            let mut memory = op.row().memory.iter();
            memory.any(|memory| memory.space != Space::Constant)
        };
        own.fetches > 0 || own.is_fence() || own.tail || own.op.is_some_and(accesses)
    }
}
