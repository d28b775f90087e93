//! How tightly values are packed: registers decide how many thread blocks a multiprocessor holds.
//!
//! The scan first tries to stay within what is live at once. Up to the next *edge*, the number of registers at which one block less fits, a register
//! more costs nothing if it saves a move. Beyond it every value that alignment pushes up costs a block, so if the scan got there, a second
//! one that must stay below is compared with it: moves are the price on the one side, a block on the other.
//!
//! Cost: a second scan of functions that got past an edge.

use super::assign::Budget;
use super::{calls, counts};
use crate::schedule::budget::Occupancy;
use cranelift_entity::EntityRef;
use orias_machine::Machine;
use orias_ori::analysis::LoopNest;
use orias_ori::{AbstractOp, Class, Function, FunctionKind, Opcode};

/// How much more may be issued so that more blocks fit, as a share of how many more.
const WARPS_HIDE: f64 = 0.125;

/// Iterations of a loop, as a guess.
const ITERATIONS: f64 = 8.0;

/// The registers of a function.
pub(super) struct Packing {
    occupancy: Occupancy,
    limits: [u8; 5],
    /// How many general registers should do: those that are live at once, and the stack pointer.
    enough: u8,
    /// How many leave room for as many blocks.
    edge: u8,
    /// How many blocks the function had when it came.
    blocks: usize,
}

impl Packing {
    /// For a function that needs `pressure` general registers and may use as many as `limits` say.
    pub(super) fn new(func: &Function, pressure: u32, limits: [u8; 5]) -> Packing {
        let occupancy = Occupancy::new(func, Machine::of(func.target).registers);
        let most = u32::from(limits[Class::R as usize]);
        Packing {
            occupancy,
            limits,
            enough: (pressure + 1).min(most) as u8,
            edge: occupancy.edge(pressure).min(most) as u8,
            blocks: func.block_count(),
        }
    }

    /// What the scan may use.
    pub(super) fn budgets(&self) -> [Budget; 5] {
        self.up_to(self.limits[Class::R as usize])
    }

    /// What it may use without costing a block.
    pub(super) fn tight_budgets(&self) -> [Budget; 5] {
        self.up_to(self.edge)
    }

    fn up_to(&self, usable: u8) -> [Budget; 5] {
        let mut budgets = self.limits.map(|limit| Budget {
            usable: limit,
            enough: limit,
            cheap: limit,
        });
        budgets[Class::R as usize] = Budget {
            usable,
            enough: self.enough,
            cheap: self.edge.max(self.enough),
        };
        budgets
    }

    /// Whether a scan that used so many registers cost a block.
    pub(super) fn overshoots(&self, func: &Function, named: u8) -> bool {
        named > self.edge && is_counted(func)
    }

    /// Whether `packed`, which stays below the edge, is better than `func`, which names so many registers. Without a known number of threads nobody knows
    /// where the edges are; then it must not cost anything.
    pub(super) fn pays(
        &self,
        func: &Function,
        named: u8,
        packed: &Function,
        loops: &LoopNest,
    ) -> bool {
        let blocks = |registers: u8| f64::from(self.occupancy.blocks(registers.into()).max(1));
        let more = blocks(self.edge) / blocks(named) - 1.0;
        let worth = match func.attributes.max_threads {
            [0, 0, 0] => 0.0,
            _ => more * WARPS_HIDE,
        };
        self.issued(packed, loops) <= self.issued(func, loops) * (1.0 + worth)
    }

    /// How many instructions and moves are issued, by how often they run.
    fn issued(&self, func: &Function, loops: &LoopNest) -> f64 {
        let each = func.blocks().map(|block| {
            // A block that was made for an edge of the graph runs less often than what it comes from.
            let depth = match block.index() < self.blocks {
                true => loops.block_depth(block).min(6),
                false => 0,
            };
            let counts = func.block_insts(block).map(|inst| match func.opcode(inst) {
                Opcode::Abstract(AbstractOp::ParCopy) => func.result_count(inst),
                _ => 1,
            });
            counts.sum::<usize>() as f64 * ITERATIONS.powi(depth as i32)
        });
        each.sum()
    }
}

/// Whether the registers of a function by itself decide how many blocks fit.
fn is_counted(func: &Function) -> bool {
    func.kind == FunctionKind::Entry && !calls::has_calls(func) && counts::largest(func).is_none()
}
