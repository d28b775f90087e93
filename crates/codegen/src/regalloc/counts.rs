//! Register counts that change while a kernel runs (`setmaxnreg`).
//!
//! Each instruction that changes the count starts a region: all blocks that can be reached from it without passing another one. A block may use as many registers as the
//! smallest count it can be reached with ([`at_entries`]): the others count as booked there, so that values which live in it are placed below if there is room. The
//! spiller works with the largest count of all; afterwards [`fits`] asks whether each region keeps to its own. Where one does not, the counts stay as they were at
//! the start: [`drop_changes`] takes the instructions out, and allocation starts again. They do, too, where a region gives registers back before it asks for more: what lives
//! through it without being named there might lie in what it has given back.
//!
//! Linear in blocks and instructions for each change.

use crate::pipeline::PhaseError;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_machine::registers::RegisterFiles;
use orias_ori::analysis::Liveness;
use orias_ori::builder::Cursor;
use orias_ori::{Block, Class, Function, Inst, Operand, PhysReg, Reg, Type, Value};
use orias_sass::Op;

/// The table of three predicates that is true where all are.
const ALWAYS: u64 = 0x80;

/// The count that an instruction sets.
pub(super) fn count_set(func: &Function, inst: Inst) -> Option<u32> {
    let op = func.opcode(inst).as_machine()?;
    let at = match op {
        Op::USETMAXREG_DEALLOC => 0,
        Op::USETMAXREG_TRY_ALLOC => 1,
        _ => return None,
    };
    match func.operands(inst)[at] {
        Operand::Imm(count) => u32::try_from(count.bits()).ok(),
        _ => None,
    }
}

/// Places that change the count, in the order of the layout.
fn changes(func: &Function) -> Vec<(Block, Inst, u32)> {
    let places = func
        .blocks()
        .flat_map(|block| func.block_insts(block).map(move |inst| (block, inst)));
    places
        .filter_map(|(block, inst)| Some((block, inst, count_set(func, inst)?)))
        .collect()
}

/// The largest count that the function asks for, if it asks for any.
pub(super) fn largest(func: &Function) -> Option<u32> {
    changes(func).into_iter().map(|(_, _, count)| count).max()
}

/// By block: the smallest number of registers that its warp may have at its start, if the kernel starts with `entry`.
pub(super) fn at_entries(func: &Function, entry: u32) -> SecondaryMap<Block, u32> {
    let mut counts = SecondaryMap::with_default(u32::MAX);
    let Some(start) = func.entry() else {
        return counts;
    };
    counts[start] = entry;
    let mut pending = vec![start];
    while let Some(block) = pending.pop() {
        let mut set = func
            .block_insts(block)
            .filter_map(|inst| count_set(func, inst));
        let count = set.next_back().unwrap_or(counts[block]);
        for next in func.successors(block) {
            if count < counts[next] {
                counts[next] = count;
                pending.push(next);
            }
        }
    }
    counts
}

/// The values that come into blocks in which a warp may have fewer registers than `largest`, those for the smallest number first.
pub(super) fn values_for_few(
    func: &Function,
    live: &Liveness,
    counts: &SecondaryMap<Block, u32>,
    largest: u32,
) -> Vec<Value> {
    let mut values = Vec::new();
    for block in func.blocks() {
        let set = func
            .block_insts(block)
            .filter_map(|inst| count_set(func, inst));
        let fewest = set
            .min()
            .map_or(counts[block], |set| set.min(counts[block]));
        if fewest < largest {
            let general = |value: &&Value| func.value_type(**value).class() == Class::R;
            let living = live.live_in(block).iter().filter(general);
            values.extend(living.map(|&value| (fewest, value)));
        }
    }
    values.sort_unstable();
    let mut seen = EntitySet::new();
    values.retain(|(_, value)| seen.insert(*value));
    values.into_iter().map(|(_, value)| value).collect()
}

/// Whether every instruction names only registers that its warp has there, if it starts with `entry`.
pub(super) fn fits(func: &Function, entry: u32, files: &RegisterFiles) -> bool {
    let Some(start) = func.entry() else {
        return true;
    };
    let mut starts: Vec<(Block, Option<Inst>, u32)> = vec![(start, None, entry)];
    starts.extend(
        changes(func)
            .into_iter()
            .map(|(block, inst, count)| (block, Some(inst), count)),
    );
    starts.into_iter().all(|(block, behind, count)| {
        let region = Region {
            func,
            gives_back: behind.is_some(),
            asked: count,
            usable: count.saturating_sub(files.reserved),
        };
        region.fits(block, behind)
    })
}

/// What is reached from behind an instruction that changes the count, or from the start of the function, up to the next change.
struct Region<'a> {
    func: &'a Function,
    /// Whether what was there before may have been more.
    gives_back: bool,
    asked: u32,
    usable: u32,
}

impl Region<'_> {
    /// Whether it keeps to its registers, and asks for no more of them than it gave back.
    fn fits(&self, block: Block, behind: Option<Inst>) -> bool {
        let mut seen = EntitySet::new();
        let mut pending = vec![(block, behind)];
        while let Some((block, behind)) = pending.pop() {
            let mut running = behind.is_none();
            let mut ended = false;
            for inst in self.func.block_insts(block) {
                if !running {
                    running = Some(inst) == behind;
                    continue;
                }
                if !self.names_its_own(inst) {
                    return false;
                }
                if let Some(next) = count_set(self.func, inst) {
                    if self.gives_back && next > self.asked {
                        return false;
                    }
                    ended = true;
                    break;
                }
            }
            if !ended {
                for next in self.func.successors(block) {
                    if seen.insert(next) {
                        pending.push((next, None));
                    }
                }
            }
        }
        true
    }

    fn names_its_own(&self, inst: Inst) -> bool {
        let mut within = true;
        let mut look = |reg: Reg| {
            if let Some(reg) = reg.phys()
                && reg.class() == Class::R
                && !reg.is_constant()
            {
                within &= u32::from(reg.index()) + u32::from(reg.len()) <= self.usable;
            }
        };
        self.func.for_each_use(inst, &mut look);
        self.func.for_each_def(inst, &mut look);
        within
    }
}

/// Takes the changes out: what was asked for is granted at once.
pub(super) fn drop_changes(func: &mut Function) -> Result<(), PhaseError> {
    for (_, inst, _) in changes(func) {
        let granted = func.operands(inst)[0].as_value();
        if func.opcode(inst).as_machine() == Some(Op::USETMAXREG_TRY_ALLOC)
            && let Some(granted) = granted
        {
            let fresh = Cursor::before(func, inst)
                .build(Op::UPLOP3)
                .define(Type::UP)
                .none()
                .operands([PhysReg::UPT; 3].map(Operand::from))
                .imm(ALWAYS)
                .imm(0)
                .value()
                .map_err(super::refused)?;
            func.map_all_uses(|reg| match reg.value() {
                Some(value) if value == granted => Reg::from(fresh),
                _ => reg,
            });
        }
        func.remove_inst(inst);
    }
    Ok(())
}
