//! SharedSpills (10099): spilled registers in shared memory.
//!
//! `.pragma "enable_smem_spilling"` lets a kernel's spilled registers lie in shared memory, which answers sooner than local memory and leaves the
//! first cache alone. Word n of thread t, counted in the block, lies at 4 × (n × threads + t) behind the kernel's own shared variables, so the lanes of a warp touch
//! different banks. `threads` is what the source allows a block at most, or what the chip does.
//!
//! Allocation spills to the frame as ever. If something was spilled, it is done again with one register held back ([`allocate`]): that has
//! the address of the thread's first word from the start of the kernel on. Afterwards this phase moves words of the frame, those first that are accessed most often, as long as there is
//! room ([`room`]); the rest of the frame closes up. An access of several words becomes one for each: two neighbouring words of a thread are not neighbours in shared memory.
//!
//! Kernels only, and without a linker, who would place their shared variables. Cost: linear in the number of instructions, and sorting.

use super::{calls, limit, refused};
use crate::knobs::registry;
use crate::module::INCOMING;
use crate::pipeline::{Context, PhaseError};
use orias_machine::Machine;
use orias_ori::analysis::Frequencies;
use orias_ori::builder::Cursor;
use orias_ori::machine::slot_width;
use orias_ori::{
    Address, Class, Function, FunctionKind, Inst, Opcode, Operand, Operation, PhysReg, Reg,
    SharedSpills,
};
use orias_sass::{Op, modifier_names as name, modifier_values as value, special};

/// Bytes of a register.
const WORD: u32 = 4;

/// The registers of the largest access.
const WIDEST: u32 = 4;

/// Bytes of shared memory that a block has without asking for more, those included that the driver keeps.
const STATIC_BYTES: u32 = 48 * 1024;

/// The registers the prologue computes with. Nothing is in a register at the start of a kernel.
const SCRATCH: [u8; 2] = [2, 3];

/// Takes a function through `run`, which says whether it came to the end, once more with a register held back if that spilled and spilled registers may lie in shared memory.
pub(super) fn allocate(
    func: &mut Function,
    context: &Context<'_>,
    run: impl Fn(&mut Function) -> Result<bool, PhaseError>,
) -> Result<bool, PhaseError> {
    let wanted = func.attributes.shared_spills == SharedSpills::Wanted
        && func.kind == FunctionKind::Entry
        && !func.attributes.relocatable
        && context.opt_level > 0
        && context.knobs.bool(&registry::SHARED_SPILLS);
    let register = wanted.then(|| register(func, context.machine)).flatten();
    let Some(register) = register else {
        return run(func);
    };
    let before = func.clone();
    if !run(func)? {
        return Ok(false);
    }
    let start = before.attributes.local;
    if func.attributes.local == start || room(func, context.machine) == 0 {
        return Ok(true);
    }
    let mut held = before;
    held.attributes.fixed.push(register);
    if !run(&mut held)? {
        return Ok(false);
    }
    held.attributes.shared_spills = SharedSpills::From(register, start);
    *func = held;
    Ok(true)
}

/// A register that calls leave alone, as far from those that slow paths use as possible.
fn register(func: &Function, machine: &'static Machine) -> Option<PhysReg> {
    let limit = limit(func, machine.registers, Class::R);
    let blocks = func.blocks();
    let insts = blocks.flat_map(|block| func.block_insts(block));
    let taken = insts.filter_map(|inst| super::changed_by_slow_path(func, inst));
    let taken = taken.max().unwrap_or(0);
    let kept = |unit: &u8| machine.abi.is_saved(Class::R.into(), *unit);
    let free = |unit: &u8| u32::from(*unit) >= taken && !SCRATCH.contains(unit);
    let unit = (0..limit).rev().filter(kept).find(free)?;
    // A function that is changed by nobody's calls still counts on the same ones.
    PhysReg::new(Class::R, unit).filter(|_| calls::slow(func).is_none())
}

/// Threads of a block, at most.
fn threads(func: &Function, machine: &Machine) -> u32 {
    let most = func.attributes.max_threads;
    match most {
        [0, 0, 0] => machine.registers.block_threads,
        _ => most.iter().map(|&n| n.max(1)).product(),
    }
}

/// Bytes of shared memory for spilled registers: what a block may have beside its variables, but no more than keeps as many blocks on a
/// multiprocessor as there are registers for, and half of its shared memory for the first cache.
fn room(func: &Function, machine: &Machine) -> u32 {
    let files = machine.registers;
    let warps = threads(func, machine).div_ceil(files.warp).max(1);
    let each = files.portion(u32::from(limit(func, files, Class::R)));
    let by_registers = files.per_multiprocessor / (each * files.warp * warps).max(1);
    let blocks = by_registers
        .min(files.warps() / warps)
        .min(files.most_blocks);
    let blocks = blocks.max(1);
    let kept = machine.constants.reserved_shared + func.attributes.shared;
    let whole = machine.limits.most_shared / blocks;
    let room = STATIC_BYTES.min(whole).saturating_sub(kept);
    room.min(whole / 2)
}

/// Neighbouring words of the frame that one access has together.
struct Group {
    /// The first byte in the frame, and the first behind.
    bytes: (u32, u32),
    /// What its accesses start at a multiple of.
    align: u32,
    /// How often its words are accessed, for each run of the kernel.
    weight: f64,
    /// Where it goes: words from the first one on in shared memory, or bytes in the frame.
    place: Place,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Frame(u32),
    Shared(u32),
}

impl Group {
    fn words(&self) -> u32 {
        (self.bytes.1 - self.bytes.0) / WORD
    }
}

/// An access to a spilled value.
struct Access {
    inst: Inst,
    is_load: bool,
    start: u32,
    words: u32,
}

/// Moves spilled registers to shared memory.
pub fn spill_to_shared(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let SharedSpills::From(register, start) = func.attributes.shared_spills else {
        return Ok(());
    };
    let machine = context.machine;
    let Some(pointer) = PhysReg::new(Class::R, machine.abi.stack_pointer) else {
        return Ok(());
    };
    let accesses = accesses(func, pointer, start);
    let mut groups = groups(func, &accesses);
    let threads = threads(func, machine);
    let base = func.attributes.shared.next_multiple_of(WORD);
    let most = room(func, machine) / (WORD * threads);
    let used = choose(&mut groups, start, most);
    for access in &accesses {
        let at = groups.partition_point(|it| it.bytes.0 <= access.start);
        let Some(group) = at.checked_sub(1).and_then(|at| groups.get(at)) else {
            continue;
        };
        let inside = access.start - group.bytes.0;
        match group.place {
            Place::Frame(offset) => set_offset(func, access.inst, offset + inside),
            Place::Shared(word) => {
                let first = machine.constants.reserved_shared
                    + base
                    + (word + inside / WORD) * WORD * threads;
                replace(func, access, register, (first, WORD * threads))?;
            }
        }
    }
    let frame = groups.iter().filter_map(|it| match it.place {
        Place::Frame(offset) => Some(offset + it.bytes.1 - it.bytes.0),
        Place::Shared(_) => None,
    });
    func.attributes.local = frame.max().unwrap_or(start);
    if used > 0 {
        func.attributes.shared = base + used * WORD * threads;
        find_words(func, machine, register)?;
    }
    Ok(())
}

/// The accesses to what lies in the frame from `start` on.
fn accesses(func: &Function, pointer: PhysReg, start: u32) -> Vec<Access> {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let found = insts.filter_map(|inst| {
        let is_load = match func.opcode(inst) {
            Opcode::Machine(Op::LDL) => true,
            Opcode::Machine(Op::STL) => false,
            _ => return None,
        };
        let Operand::Address(id) = func.operands(inst)[usize::from(is_load)] else {
            return None;
        };
        let address = func.address(id);
        let from_pointer = address.base.get() == Some(Reg::from(pointer));
        let offset = u32::try_from(address.offset).ok()?;
        let spilled =
            from_pointer && address.uniform.get().is_none() && (start..INCOMING).contains(&offset);
        let Operation::Machine(op, mods) = func.inst(inst).operation() else {
            return None;
        };
        spilled.then(|| Access {
            inst,
            is_load,
            start: offset,
            words: u32::from(slot_width(op, mods, usize::from(!is_load))),
        })
    });
    found.collect()
}

/// What the accesses have together, in the order of the frame.
fn groups(func: &Function, accesses: &[Access]) -> Vec<Group> {
    let frequencies = Frequencies::of(func);
    let mut groups: Vec<Group> = (accesses.iter())
        .map(|access| {
            let block = func.layout.inst_block(access.inst);
            Group {
                bytes: (access.start, access.start + access.words * WORD),
                align: access.words.next_power_of_two().min(WIDEST) * WORD,
                weight: block.map_or(0.0, |block| frequencies.times(block)),
                place: Place::Frame(access.start),
            }
        })
        .collect();
    groups.sort_by_key(|it| it.bytes);
    groups.dedup_by(|next, before| {
        let together = next.bytes.0 < before.bytes.1;
        if together {
            before.bytes.1 = before.bytes.1.max(next.bytes.1);
            before.align = before.align.max(next.align);
            before.weight += next.weight;
        }
        together
    });
    groups
}

/// Gives groups their places: those accessed most often for their size go to shared memory, `most` words at most; how many do is the result.
fn choose(groups: &mut [Group], start: u32, most: u32) -> u32 {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    let worth = |it: &Group| it.weight / f64::from(it.words().max(1));
    order.sort_by(|&a, &b| worth(&groups[b]).total_cmp(&worth(&groups[a])));
    let mut used = 0;
    for at in order {
        let words = groups[at].words();
        if used + words <= most {
            groups[at].place = Place::Shared(used);
            used += words;
        }
    }
    let mut end = start;
    for group in groups.iter_mut() {
        if let Place::Frame(offset) = &mut group.place {
            // Within a group, accesses are aligned as they were.
            *offset = end.next_multiple_of(group.align) + group.bytes.0 % group.align;
            end = *offset + (group.bytes.1 - group.bytes.0);
        }
    }
    used
}

fn set_offset(func: &mut Function, inst: Inst, offset: u32) {
    for index in 0..func.operands(inst).len() {
        if let Operand::Address(id) = func.operands(inst)[index] {
            func.address_mut(id).offset = offset as i32;
        }
    }
}

/// Lets an access go to shared memory, a word at a time; the first word lies at `first` from what `register` holds, the next ones `stride` bytes further.
fn replace(
    func: &mut Function,
    access: &Access,
    register: PhysReg,
    (first, stride): (u32, u32),
) -> Result<(), PhaseError> {
    let inst = access.inst;
    let guard = func.inst(inst).guard();
    let span = func.inst(inst).span();
    let moved = func.operands(inst)[usize::from(!access.is_load)].reg();
    let units: Vec<PhysReg> = moved
        .and_then(Reg::phys)
        .map_or_else(Vec::new, |reg| reg.units().collect());
    // RZ has no words of its own.
    let word = |number: u32| units.get(number as usize).copied().unwrap_or(PhysReg::RZ);
    for number in 0..access.words {
        let address = Address::base(register, (first + number * stride) as i32);
        let mut at = Cursor::before(func, inst);
        at.set_span(span);
        let op = if access.is_load { Op::LDS } else { Op::STS };
        let build = at.build(op).modifier(name::SIZE, value::_32).guard(guard);
        match access.is_load {
            true => build.operand(word(number)).address(address),
            false => build.address(address).operand(word(number)),
        }
        .finish()
        .map_err(refused)?;
    }
    func.remove_inst(inst);
    Ok(())
}

/// Puts the address of the thread's first word into `register` at the start of the kernel: the number of the thread in its block times the size of a word, and the
/// block's part of the cluster's shared memory.
fn find_words(func: &mut Function, machine: &Machine, register: PhysReg) -> Result<(), PhaseError> {
    let first = func.entry().and_then(|entry| func.layout.first_inst(entry));
    let [one, other] = SCRATCH.map(|unit| PhysReg::new(Class::R, unit));
    let (Some(first), Some(one), Some(other)) = (first, one, other) else {
        return Ok(());
    };
    let constants = machine.constants;
    let mut at = Cursor::before(func, first);
    at.set_span(None);
    let read = |at: &mut Cursor<'_>, to: PhysReg, number| {
        at.build(Op::S2R)
            .operand(to)
            .operand(Operand::Special(number))
            .finish()
            .map(|_| ())
            .map_err(refused)
    };
    let product = |at: &mut Cursor<'_>, a: PhysReg, b: Operand, c: PhysReg| {
        at.build(Op::IMAD)
            .modifier(name::SIGN, value::U32)
            .operand(register)
            .operand(a)
            .operand(b)
            .operand(c)
            .finish()
            .map(|_| ())
            .map_err(refused)
    };
    let threads = |axis: usize| Operand::constant(constants.bank, constants.block_threads[axis]);
    read(&mut at, one, special::TID_Z)?;
    read(&mut at, other, special::TID_Y)?;
    product(&mut at, one, threads(1), other)?;
    read(&mut at, one, special::TID_X)?;
    product(&mut at, register, threads(0), one)?;
    read(&mut at, other, special::CGA_CTA_ID)?;
    let word = Operand::imm(u64::from(WORD));
    product(&mut at, register, word, PhysReg::RZ)?;
    let rank = Operand::imm(1 << constants.shared_rank_shift);
    product(&mut at, other, rank, register)
}
