//! Register counts that change while a kernel runs (`setmaxnreg`).
//!
//! Each instruction that changes the count starts a region: all blocks that can be reached from it without passing another one. At a point a kernel may use as many registers
//! as the smallest count it can get there with ([`Room`]). The spiller keeps to that, point by point; the scan hands out no others there, moves what lies
//! above before registers are given back, and places values low that live in a region with few. Afterwards [`fits`] asks
//! whether all of that came true. Where it did not, or where something cannot be done with so few, the counts stay as they were at the start: [`drop_changes`] takes
//! the instructions out, and allocation starts again.
//!
//! A request may be refused, and is repeated then: what stands behind it in its own block runs with what there was before.
//!
//! Linear in blocks and instructions for each change.

use crate::pipeline::PhaseError;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_machine::registers::RegisterFiles;
use orias_ori::analysis::{DepthFirst, FlowGraph, Liveness, RegisterLiveness, step_back};
use orias_ori::builder::Cursor;
use orias_ori::{Block, Class, Function, Inst, Operand, PhysReg, Reg, Type, Value};
use orias_sass::Op;

/// The table of three predicates that is true where all are.
const ALWAYS: u64 = 0x80;

/// How many registers may be in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goals {
    /// By class, wherever there are most.
    pub(super) most: [u8; 5],
    /// In a kernel that changes its number of general registers.
    pub(super) changing: Option<Changing>,
}

/// What is known of a kernel that changes its number of general registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changing {
    /// How many it starts with.
    pub(super) entry: u32,
    /// How many of them, there and everywhere, are not for values.
    pub(super) withheld: u32,
}

impl Goals {
    /// The same with `less` general registers less.
    pub(super) fn with_less_general(mut self, less: u8) -> Goals {
        let most = &mut self.most[Class::R as usize];
        *most = most.saturating_sub(less);
        self
    }

    /// The same, but as many general registers as anybody wants.
    pub(super) fn without_general(mut self) -> Goals {
        self.most[Class::R as usize] = u8::MAX;
        self.changing = None;
        self
    }
}

impl From<[u8; 5]> for Goals {
    fn from(most: [u8; 5]) -> Goals {
        Goals {
            most,
            changing: None,
        }
    }
}

/// How many general registers may be in use at each point.
pub(super) struct Room {
    most: u32,
    changes: Option<Changes>,
}

struct Changes {
    withheld: u32,
    /// By block: the count at its start.
    starts: SecondaryMap<Block, u32>,
    /// Instructions that change the count, in the order of the layout, each with the counts before it and behind it in its block.
    places: Vec<(Inst, u32, u32)>,
    /// The count at the end of blocks that change it, before they are left.
    ends: Vec<(Block, u32)>,
}

impl Room {
    pub(super) fn new(func: &Function, goals: Goals) -> Room {
        let changes = goals.changing.map(|Changing { entry, withheld }| {
            let starts = at_entries(func, entry);
            let mut places = Vec::new();
            let mut ends: Vec<(Block, u32)> = Vec::new();
            for (block, inst, count) in changes(func) {
                let before = match ends.last() {
                    Some(&(of, end)) if of == block => end,
                    _ => starts[block],
                };
                let behind = match is_request(func, inst) {
                    true => count.min(before),
                    false => count,
                };
                places.push((inst, before, behind));
                ends.retain(|&(of, _)| of != block);
                ends.push((block, behind));
            }
            Changes {
                withheld,
                starts,
                places,
                ends,
            }
        });
        Room {
            most: u32::from(goals.most[Class::R as usize]),
            changes,
        }
    }

    fn of(&self, changes: &Changes, count: u32) -> u32 {
        self.most.min(count.saturating_sub(changes.withheld))
    }

    /// At the start of `block`.
    pub(super) fn at_start(&self, block: Block) -> u32 {
        match &self.changes {
            None => self.most,
            Some(changes) => self.of(changes, changes.starts[block]),
        }
    }

    /// At the end of `block`.
    pub(super) fn at_end(&self, block: Block) -> u32 {
        match &self.changes {
            None => self.most,
            Some(changes) => {
                let own = changes.ends.iter().find(|&&(of, _)| of == block);
                self.of(
                    changes,
                    own.map_or(changes.starts[block], |&(_, count)| count),
                )
            }
        }
    }

    /// Before and behind `inst`, if that changes anything.
    pub(super) fn changed_by(&self, inst: Inst) -> Option<(u32, u32)> {
        let changes = self.changes.as_ref()?;
        let &(_, before, behind) = changes.places.iter().find(|&&(at, ..)| at == inst)?;
        Some((self.of(changes, before), self.of(changes, behind)))
    }

    /// The least anywhere in `block`.
    pub(super) fn least(&self, func: &Function, block: Block) -> u32 {
        let start = self.at_start(block);
        if self.changes.is_none() {
            return start;
        }
        let changes = func
            .block_insts(block)
            .filter_map(|inst| self.changed_by(inst));
        changes.map(|(_, behind)| behind).fold(start, u32::min)
    }
}

/// Whether `inst` asks for registers that it may not get at once.
fn is_request(func: &Function, inst: Inst) -> bool {
    func.opcode(inst).as_machine() == Some(Op::USETMAXREG_TRY_ALLOC)
}

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

/// The smallest count that the function asks for, if it asks for any.
pub(super) fn smallest(func: &Function) -> Option<u32> {
    changes(func).into_iter().map(|(_, _, count)| count).min()
}

/// By block: the smallest number of registers that its warp may have at its start, if the kernel starts with `entry`.
fn at_entries(func: &Function, entry: u32) -> SecondaryMap<Block, u32> {
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

/// The values that come into blocks in which there is less room than elsewhere, those for the smallest first.
pub(super) fn values_for_few(func: &Function, live: &Liveness, room: &Room) -> Vec<Value> {
    let mut values = Vec::new();
    for block in func.blocks() {
        let fewest = room.least(func, block);
        if fewest < room.most {
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

/// Whether every instruction names only registers that its warp has there, if it starts with `entry`, and no register holds anything any more that is given back.
pub(super) fn fits(func: &Function, entry: u32, files: &RegisterFiles) -> bool {
    let goals = Goals {
        most: [u8::MAX; 5],
        changing: Some(Changing {
            entry,
            withheld: files.reserved,
        }),
    };
    let room = Room::new(func, goals);
    let graph = FlowGraph::of(func);
    let live = RegisterLiveness::new(func, &graph, &DepthFirst::new(&graph));
    func.blocks().all(|block| {
        let mut usable = room.at_end(block);
        let mut living = *live.live_out(block);
        let insts: Vec<Inst> = func.block_insts(block).collect();
        insts.into_iter().rev().all(|inst| {
            if let Some((before, behind)) = room.changed_by(inst) {
                let lost = |reg: PhysReg| is_general(reg) && end(reg) > behind;
                // A request takes nothing; what seems to live above it is never written on the way there.
                if !is_request(func, inst) && living.iter().any(lost) {
                    return false;
                }
                usable = before;
            }
            step_back(func, inst, &mut living);
            names_within(func, inst, usable)
        })
    })
}

fn is_general(reg: PhysReg) -> bool {
    reg.class() == Class::R && !reg.is_constant()
}

fn end(reg: PhysReg) -> u32 {
    u32::from(reg.index()) + u32::from(reg.len())
}

/// Whether `inst` names no general registers but the first `usable`.
fn names_within(func: &Function, inst: Inst, usable: u32) -> bool {
    let mut within = true;
    let mut look = |reg: Reg| {
        if let Some(reg) = reg.phys().filter(|&reg| is_general(reg)) {
            within &= end(reg) <= usable;
        }
    };
    func.for_each_use(inst, &mut look);
    func.for_each_def(inst, &mut look);
    within
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
