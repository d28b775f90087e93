//! The register budget: how many registers an order may need, by occupancy.
//!
//! More registers let more latency be hidden within a warp; fewer let more warps run, which hide each other's. [`Occupancy`] says how
//! many warps a number of registers leaves to each of the schedulers of a multiprocessor. The orders found under several budgets are
//! compared by what they are estimated to take with one warp and with that many (`throughput`), and the budget whose orders
//! are cheapest wins; every register beyond what the order before needed makes it dearer by knob 740.
//!
//! A budget that leaves fewer warps than another has to gain a twentieth, and to lose next to nothing where all warps are there: on the chip, kernels that wait for memory lost more
//! by that than a better order seemed to gain (2026-11-15: softmax and RMS norm, 1.1 to 1.3 of ptxas's time).
//!
//! A kernel whose warps change their number of registers by `setmaxnreg` is launched with a number that its bounds say. It has the warps that these leave, whatever its
//! code needs: no register below the limit costs any, or anything.
//!
//! The budget never exceeds what the function may use ([`hard_limit`]), less one in 64 for what alignment wastes, unless the order before
//! already did.

use crate::regalloc;
use cranelift_entity::SecondaryMap;
use orias_machine::registers::RegisterFiles;
use orias_ori::{Block, Class, Function, Reg};

/// Threads of a block when the source does not say: a warp for each scheduler, the block with which every portion of registers that costs a warp shows.
const THREADS: u32 = 128;

/// Registers that the allocator needs beyond those that are live, as a rule.
const ALIGNMENT: u32 = 2;

/// Registers that nobody's values lie in, though code names them: the stack pointer.
const KEPT: u32 = 1;

/// How many budgets below what the order before needed are tried at most.
const BELOW: usize = 2;

/// What a number of registers means for the number of warps.
#[derive(Clone, Copy, Debug)]
pub struct Occupancy {
    files: &'static RegisterFiles,
    threads: u32,
    /// Whether the source says how large blocks are.
    is_said: bool,
    /// The registers that code can name at the start, if that does not depend on what it needs.
    launched: Option<u32>,
}

impl Occupancy {
    /// The occupancy of `func`.
    pub fn new(func: &Function, files: &'static RegisterFiles) -> Occupancy {
        let said = func.attributes.max_threads;
        let threads = if said == [0; 3] {
            THREADS
        } else {
            said.iter().map(|&side| side.max(1)).product()
        };
        let whole = threads.next_multiple_of(files.warp);
        Occupancy {
            files,
            is_said: said != [0; 3],
            threads: whole.clamp(files.warp, files.most_threads),
            launched: regalloc::starting_registers(func, func.target)
                .map(|count| count.saturating_sub(files.reserved)),
        }
    }

    /// Whether a thread is given as many registers at the start whatever code needs.
    pub fn is_given(&self) -> bool {
        self.launched.is_some()
    }

    /// The most live registers for which a thread is given no more registers than for `live`.
    pub fn portion(&self, live: u32) -> u32 {
        self.files.portion(live + KEPT) - self.files.reserved - KEPT
    }

    /// Warps of each scheduler when `live` registers are live.
    pub fn warps(&self, live: u32) -> u32 {
        self.warps_with(live + KEPT)
    }

    /// Warps of each scheduler when code names `registers` registers.
    pub fn warps_with(&self, registers: u32) -> u32 {
        let warps = self.blocks(registers) * self.threads / self.files.warp;
        (warps / self.files.schedulers).max(1)
    }

    /// Thread blocks of a multiprocessor when code names `registers` registers.
    pub fn blocks(&self, registers: u32) -> u32 {
        self.files
            .blocks(self.launched.unwrap_or(registers), self.threads)
    }

    /// Live registers that leave room for as many warps as there can be.
    pub fn free(&self) -> i32 {
        (self.files.free() - KEPT) as i32
    }

    /// The most registers that code can name with as many blocks on a multiprocessor as if `live` were live.
    pub fn edge(&self, live: u32) -> u32 {
        let mut most = self.portion(live) + KEPT;
        let blocks = self.blocks(most);
        while self.blocks(most + self.files.granularity) == blocks && most < 256 {
            most += self.files.granularity;
        }
        most
    }

    /// The most registers that code can name as cheaply as if `live` were live, however large thread blocks are: those of the portions that it is given, or
    /// those that leave room for as many warps as there can be.
    pub fn costless(&self, live: u32) -> u32 {
        (self.portion(live) + KEPT).max(self.files.free())
    }

    /// The most live registers that leave more warps than `live` does, if any do.
    pub fn below(&self, live: u32) -> Option<u32> {
        let warps = self.warps(live);
        let mut fewer = self.portion(live);
        while fewer > self.files.granularity {
            fewer -= self.files.granularity;
            if self.warps(fewer) > warps {
                return Some(fewer);
            }
        }
        None
    }

    /// The most live registers that leave as many warps as `live` does, less what alignment may waste.
    pub fn ceiling(&self, live: u32) -> u32 {
        let mut most = self.portion(live);
        while self.warps(most + self.files.granularity) == self.warps(live) && most < 256 {
            most += self.files.granularity;
        }
        most.saturating_sub(ALIGNMENT).max(live)
    }

    /// The most live registers of the next smaller number of warps than `live` leaves, if there is one.
    pub fn above(&self, live: u32) -> Option<u32> {
        let warps = self.warps(live);
        let mut more = self.portion(live);
        while more < 256 {
            more += self.files.granularity;
            if self.blocks(more + KEPT) == 0 {
                return None;
            }
            if self.warps(more) < warps {
                return Some(self.ceiling(more + 1 - self.files.granularity));
            }
        }
        None
    }

    /// The most live registers with which blocks can be launched that can be with `live`. Where the source does not say how large blocks are, they may be as large
    /// as any, or half as large, and so on, as far as `live` leaves room for one.
    pub fn launchable(&self, live: u32) -> u32 {
        if self.is_said {
            return u32::from(self.files.general);
        }
        let mut threads = self.files.block_threads;
        while threads > self.files.warp && self.files.blocks(live + KEPT + ALIGNMENT, threads) == 0
        {
            threads /= 2;
        }
        self.files
            .usable_with(threads / self.files.warp)
            .saturating_sub(KEPT + ALIGNMENT)
    }

    /// Whether `more` registers instead of `live` leave as many warps and are there at all, alignment included.
    pub fn affords(&self, func: &Function, live: u32, more: u32) -> bool {
        more <= live || more <= self.ceiling(live).min(hard_limit(func, self.files, 0))
    }

    /// Budgets to try, from the smallest that `least` fits into to `most`: the largest of each number of warps below `had`, what the
    /// order before needed, and then up to `most` in three steps.
    pub fn candidates(&self, least: u32, had: u32, most: u32) -> Vec<u32> {
        let mut budgets: Vec<u32> = Vec::new();
        let mut live = self.portion(least);
        while live < had.min(most) && budgets.len() < BELOW {
            let next = live + self.files.granularity;
            if self.warps(next) != self.warps(live) {
                budgets.push(live.max(least));
            }
            live = next;
        }
        let had = had.clamp(least, most.max(least));
        let above = most.max(least) - had;
        budgets.extend([
            had,
            had + above.div_ceil(4),
            had + above.div_ceil(2),
            had + above,
        ]);
        budgets.dedup();
        budgets
    }
}

/// General registers the function may use, less what alignment wastes and what knob 760 keeps.
pub fn hard_limit(func: &Function, files: &RegisterFiles, slack: u32) -> u32 {
    let usable = u32::from(regalloc::limit(func, files, Class::R));
    less_waste(usable, slack)
}

fn less_waste(usable: u32, slack: u32) -> u32 {
    usable.saturating_sub(usable / 64 + TUPLES + slack)
}

/// The same for each block of a kernel that changes its number of registers.
pub fn block_limits(func: &Function, slack: u32) -> Option<SecondaryMap<Block, i32>> {
    let mut limits = SecondaryMap::with_default(i32::MAX);
    for (block, usable) in regalloc::block_limits(func)? {
        limits[block] = less_waste(usable, slack) as i32;
    }
    Some(limits)
}

/// Registers that aligned tuples may leave unused.
const TUPLES: u32 = 6;

/// By how much ReduceReg tightens a budget: an eighth and three.
pub fn tightened(budget: i32) -> i32 {
    (budget - budget / 8 - 3).max(1)
}

/// How many registers of a class a physical function names: the highest that is read or written, plus one.
pub fn named_registers(func: &Function, class: Class) -> u32 {
    let mut most = 0;
    let mut named = |reg: Reg| {
        if let Some(reg) = reg.phys()
            && reg.class() == class
            && !reg.is_constant()
        {
            most = most.max(u32::from(reg.index()) + u32::from(reg.len()));
        }
    };
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        func.for_each_use(inst, &mut named);
        func.for_each_def(inst, &mut named);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_machine::Machine;
    use orias_ori::{FunctionKind, Level};

    fn occupancy(threads: u32) -> Occupancy {
        let mut func = Function::new(
            "k",
            FunctionKind::Entry,
            Level::Machine,
            orias_sass::Target::DEFAULT,
        );
        func.attributes.max_threads = [threads, 1, 1];
        Occupancy::new(&func, Machine::of(func.target).registers)
    }

    #[test]
    fn more_registers_leave_fewer_warps() {
        let of = occupancy(128);
        let warps: Vec<u32> = [29, 37, 61, 125, 252]
            .iter()
            .map(|&r| of.warps(r))
            .collect();
        assert_eq!(warps, [16, 12, 8, 4, 2]);
    }

    #[test]
    fn the_ceiling_keeps_the_number_of_warps() {
        let of = occupancy(128);
        assert_eq!(of.ceiling(12), 27);
        assert_eq!(of.ceiling(33), 35);
        assert_eq!(of.ceiling(37), 37);
    }

    #[test]
    fn an_edge_is_the_last_register_that_costs_no_block() {
        let of = occupancy(128);
        // 32, 40 and 128 registers, of which two are nobody's, for 16, 12 and 4 blocks; the stack pointer is one of those that code names.
        assert_eq!([of.edge(20), of.edge(30), of.edge(120)], [30, 38, 126]);
        assert_eq!(of.below(30), Some(29));
        assert_eq!(of.below(29), None);
        // 40 registers less what alignment may waste; with more than 64, not even one block of 1,024 threads fits.
        assert_eq!(of.above(27), Some(35));
        assert_eq!(occupancy(1024).above(61), None);
        assert_eq!(occupancy(64).edge(165), 166);
    }

    #[test]
    fn blocks_of_a_size_that_nobody_said_can_still_be_launched() {
        let mut func = Function::new(
            "k",
            FunctionKind::Entry,
            Level::Machine,
            orias_sass::Target::DEFAULT,
        );
        let files = Machine::of(func.target).registers;
        let of = Occupancy::new(&func, files);
        // 64 registers for blocks of 1,024 threads, 128 for those of 512.
        assert_eq!(
            [30, 59, 60, 120].map(|live| of.launchable(live)),
            [59, 59, 123, 123]
        );
        func.attributes.max_threads = [128, 1, 1];
        assert_eq!(
            Occupancy::new(&func, files).launchable(30),
            u32::from(files.general)
        );
    }

    #[test]
    fn registers_cost_no_warps_where_their_number_changes_in_the_kernel() {
        let mut func = Function::new(
            "k",
            FunctionKind::Entry,
            Level::Machine,
            orias_sass::Target::DEFAULT,
        );
        func.attributes.max_threads = [384, 1, 1];
        func.attributes.min_blocks = 1;
        let files = Machine::of(func.target).registers;
        let plain = Occupancy::new(&func, files);
        assert_eq!([plain.warps(20), plain.warps(100)], [15, 3]);
        let block = func.create_block();
        func.layout.append_block(block);
        let mods = orias_sass::Mods::ZERO;
        let gives_back = func.create_machine(
            orias_sass::Op::USETMAXREG_DEALLOC,
            mods,
            &[orias_ori::Operand::imm(168)],
        );
        func.layout.append_inst(gives_back, block);
        let changing = Occupancy::new(&func, files);
        assert_eq!([changing.warps(20), changing.warps(100)], [3, 3]);
        assert_eq!(changing.below(100), None);
        assert!(changing.is_given() && !plain.is_given());
    }

    #[test]
    fn candidates_begin_with_the_most_registers_of_more_warps() {
        assert_eq!(
            occupancy(128).candidates(20, 44, 60),
            [29, 37, 44, 48, 52, 60]
        );
        assert_eq!(occupancy(1024).candidates(20, 61, 61), [29, 61]);
        assert_eq!(occupancy(128).candidates(70, 70, 60), [70]);
        assert_eq!(occupancy(128).candidates(7, 7, 9), [7, 8, 9]);
    }
}
