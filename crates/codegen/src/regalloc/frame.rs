//! PostExpansion (104): the stack frame.
//!
//! Local variables and spilled values lie in the thread's stack frame, addressed from `R1`. How large the frame is is known
//! only after allocation, so this is where it is made: the stack pointer is read from the constant bank at the start of the
//! kernel, and lowered by the size of the frame; where a variable asks for more alignment than a stack pointer has, it is rounded down to that. A kernel without a frame reads the stack pointer, too: tools that patch
//! finished code (compute-sanitizer) call their own functions from there, and these need a stack.
//!
//! A function that is called lowers the pointer it is given and raises it again before it returns. Registers that its caller counts on and that it changes
//! are stored to its frame first and loaded last; a barrier register is kept in a general register meanwhile, as ptxas does, which is
//! one more of these. Where its frame needs more alignment than callers promise, the pointer is rounded down, and the one that was given is kept in the frame,
//! from where the function takes it back at the end and finds its arguments. Arguments that found no register lie above the frame: loads of them have offsets from [`INCOMING`] on until the
//! frame has its size.
//!
//! Without optimisation, and where the knob asks for it, code that has lowered the pointer compares it with the lowest address of the stack and traps if it is
//! below. Nothing has been written to the first register and predicate then, and no argument lies there.

use super::refused;
use crate::module::INCOMING;
use crate::pipeline::{Context, PhaseError};
use orias_machine::abi::{Abi, Convention};
use orias_ori::builder::Cursor;
use orias_ori::operation::{AbstractMods, AbstractOp};
use orias_ori::{
    Address, Class, Function, FunctionKind, Guard, Inst, Opcode, Operand, OptReg, PhysReg, Reg,
    SourceMods,
};
use orias_sass::{Op, modifier_names as name, modifier_values as value};
use std::collections::BTreeSet;

/// The truth table of a conjunction of the first two sources.
const AND: u64 = 0xc0;

/// Bytes of a register in the frame.
const WORD: u32 = 4;

/// Bytes of the largest access.
const QUAD: u32 = 16;

/// All four groups of lanes.
const ALL_LANES: u64 = 0xf;

/// All seven predicates.
const ALL_PREDICATES: u64 = 0x7f;

/// Makes the frame of a function.
pub fn expand_after_allocation(
    func: &mut Function,
    context: &Context<'_>,
) -> Result<(), PhaseError> {
    let abi = context.machine.abi;
    let first = func.entry().and_then(|entry| func.layout.first_inst(entry));
    let pointer = PhysReg::new(Class::R, abi.stack_pointer);
    let (Some(pointer), Some(first)) = (pointer, first) else {
        return Ok(());
    };
    if func.kind == FunctionKind::Device {
        return expand_called(func, context, pointer);
    }
    let align = func.attributes.local_align.max(abi.stack_alignment);
    let frame = func.attributes.local.next_multiple_of(align);
    // What aligning the pointer may skip belongs to the frame.
    func.attributes.local = frame + (align - abi.stack_alignment);
    let mut at = Cursor::before(func, first);
    at.set_span(None);
    at.build(Op::LDC)
        .modifier(name::SIZE, value::_32)
        .operand(pointer)
        .operand(Operand::Const {
            mods: SourceMods::NONE,
            bank: context.machine.constants.bank,
            offset: abi.initial_stack_pointer,
            index: OptReg::from(PhysReg::RZ),
        })
        .finish()
        .map_err(refused)?;
    if frame > 0 {
        at.build(Op::VIADD)
            .operand(pointer)
            .operand(pointer)
            .imm(u64::from(frame.wrapping_neg()))
            .finish()
            .map_err(refused)?;
    }
    if align > abi.stack_alignment {
        round_pointer(&mut at, pointer, align)?;
    }
    if frame > 0 {
        check_bounds(func, context, pointer, first)?;
    }
    Ok(())
}

/// Traps before `first` if the stack pointer is below the stack.
fn check_bounds(
    func: &mut Function,
    context: &Context<'_>,
    pointer: PhysReg,
    first: Inst,
) -> Result<(), PhaseError> {
    let wanted = context.checks_stack();
    let scratch = PhysReg::new(Class::R, 0).zip(PhysReg::new(Class::P, 0));
    let (true, Some((word, fits)), Some(entry)) = (wanted, scratch, func.layout.inst_block(first))
    else {
        return Ok(());
    };
    let rest = func.split_block(first);
    let trap = func.create_block();
    func.layout.insert_block_before(trap, rest);
    let mut at = Cursor::at_end(func, entry);
    at.set_span(None);
    at.build(Op::S2R)
        .operand(word)
        .operand(Operand::Special(orias_sass::special::LMEMHIOFF))
        .finish()
        .map_err(refused)?;
    at.build(Op::ISETP)
        .modifier(name::CMP, value::GE)
        .modifier(name::SIGN, value::U32)
        .operand(fits)
        .operand(PhysReg::PT)
        .operand(pointer)
        .operand(word)
        .operand(PhysReg::PT)
        .finish()
        .map_err(refused)?;
    at.build(Op::BRA)
        .guard(Guard::when(fits))
        .operand(PhysReg::PT)
        .target(rest, &[])
        .edge(trap, &[])
        .finish()
        .map_err(refused)?;
    let mut at = Cursor::at_end(func, trap);
    at.set_span(None);
    at.build(Op::BPT)
        .modifier(name::KIND, value::TRAP)
        .imm(1)
        .finish()
        .map_err(refused)?;
    let next = func.create_abstract(AbstractOp::FallThrough, AbstractMods::NONE, 0, &[]);
    let edge = func.create_edge(rest, &[]);
    func.set_edges(next, &[edge]);
    func.layout.append_inst(next, trap);
    Ok(())
}

/// Rounds the pointer down to a multiple of `align`.
fn round_pointer(at: &mut Cursor<'_>, pointer: PhysReg, align: u32) -> Result<(), PhaseError> {
    let never = Operand::from(PhysReg::PT).with_mods(SourceMods::NOT);
    at.build(Op::LOP3)
        .operand(PhysReg::PT)
        .operand(pointer)
        .operand(pointer)
        .imm(u64::from(align.wrapping_neg()))
        .operand(PhysReg::RZ)
        .imm(AND)
        .operand(never.unwrap_or(Operand::from(PhysReg::PT)))
        .finish()
        .map_err(refused)?;
    Ok(())
}

/// Whether the function moves four words at once from or to its frame.
fn uses_quads(func: &Function) -> bool {
    let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts.any(|inst| {
        let value = match func.opcode(inst) {
            Opcode::Machine(Op::STL) => 1,
            Opcode::Machine(Op::LDL) => 0,
            _ => return false,
        };
        let moved = func.operands(inst)[value].reg();
        moved.is_some_and(|reg| u32::from(func.reg_type(reg).len()) * WORD >= QUAD)
    })
}

/// Gives a slow path what it needs instead of a frame: the predicates of its caller, kept in a register while it runs.
fn keep_predicates(func: &mut Function, convention: Convention) -> Result<(), PhaseError> {
    if func.attributes.local > 0 {
        return Err(PhaseError::Unsupported(format!(
            "`{}`, a slow path with a frame,",
            func.name
        )));
    }
    let changed = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .any(|inst| {
            let mut changes = false;
            func.for_each_def(inst, |reg| {
                changes |= reg
                    .phys()
                    .is_some_and(|reg| reg.class() == Class::P && !reg.is_constant());
            });
            changes
        });
    let register = convention
        .predicates
        .and_then(|index| PhysReg::new(Class::R, index));
    let first = func.entry().and_then(|entry| func.layout.first_inst(entry));
    let (true, Some(register), Some(first)) = (changed, register, first) else {
        return Ok(());
    };
    let mut at = Cursor::before(func, first);
    at.set_span(None);
    let keep = at.build(Op::P2R).operand(register).operand(PhysReg::RZ);
    keep.imm(ALL_PREDICATES).finish().map_err(refused)?;
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let ret = Opcode::Machine(Op::RET_REL);
    let returns: Vec<Inst> = insts.filter(|&inst| func.opcode(inst) == ret).collect();
    for inst in returns {
        let mut at = Cursor::before(func, inst);
        let give = at.build(Op::R2P).operand(register);
        give.imm(ALL_PREDICATES).finish().map_err(refused)?;
    }
    Ok(())
}

/// Makes the frame of a function that is called.
fn expand_called(
    func: &mut Function,
    context: &Context<'_>,
    pointer: PhysReg,
) -> Result<(), PhaseError> {
    let abi = context.machine.abi;
    if let Some(convention) = super::calls::slow(func) {
        return keep_predicates(func, convention);
    }
    // Code of other compilers may call what a linker gets.
    let promised = match func.attributes.relocatable {
        true => abi.called_stack_alignment,
        false => abi.stack_alignment,
    };
    let wide = if uses_quads(func) { QUAD } else { 0 };
    let align = func.attributes.local_align.max(wide);
    let rounded = align > promised;
    let mut saved = changed(func, abi, Class::R);
    let barriers: Vec<PhysReg> = changed(func, abi, Class::B).into_iter().collect();
    let limit = super::limit(func, context.machine.registers, Class::R);
    let free = |reg: &PhysReg| !saved.contains(reg);
    let general = (0..limit).filter(|&unit| abi.is_saved(Class::R.into(), unit));
    let general = general.filter_map(|unit| PhysReg::new(Class::R, unit));
    let registers: Vec<PhysReg> = general.filter(free).take(barriers.len()).collect();
    saved.extend(&registers);
    let start = func.attributes.local.next_multiple_of(WORD);
    let places: Vec<(PhysReg, u32)> = (saved.iter().copied().zip(0_u32..))
        .map(|(reg, number)| (reg, start + WORD * number))
        .collect();
    let end = start + WORD * places.len() as u32;
    // Barriers for which no register is left go to the frame, too, through one that holds nothing at both ends of the function.
    let scratch = (0..abi.first_argument)
        .filter(|&unit| unit != abi.stack_pointer && !abi.is_saved(Class::R.into(), unit))
        .find_map(|unit| PhysReg::new(Class::R, unit));
    let stored: Vec<(PhysReg, PhysReg, u32)> = (barriers.iter().skip(registers.len()).zip(0_u32..))
        .filter_map(|(&barrier, number)| Some((barrier, scratch?, end + WORD * number)))
        .collect();
    let top = end + WORD * stored.len() as u32;
    let kept_pointer = rounded.then_some((scratch, top));
    let top = top + if rounded { WORD } else { 0 };
    let frame = top.next_multiple_of(abi.stack_alignment.max(align));
    func.attributes.local = frame + if rounded { align - promised } else { 0 };
    match kept_pointer {
        Some((_, place)) => find_incoming(func, pointer, place)?,
        None => place_incoming(func, frame),
    }
    let first = func.entry().and_then(|entry| func.layout.first_inst(entry));
    let Some(first) = first else {
        return Ok(());
    };
    let kept: Vec<(PhysReg, PhysReg)> = barriers.into_iter().zip(registers).collect();
    let mut at = Cursor::before(func, first);
    at.set_span(None);
    if let Some((Some(scratch), place)) = kept_pointer {
        let set = at.build(Op::MOV).operand(scratch).operand(pointer);
        set.imm(ALL_LANES).finish().map_err(refused)?;
        move_pointer(&mut at, pointer, frame.wrapping_neg())?;
        round_pointer(&mut at, pointer, align)?;
        store(&mut at, pointer, scratch, place)?;
    } else {
        move_pointer(&mut at, pointer, frame.wrapping_neg())?;
    }
    for &(reg, offset) in &places {
        store(&mut at, pointer, reg, offset)?;
    }
    for &(barrier, register) in &kept {
        keep_barrier(&mut at, barrier, register)?;
    }
    for &(barrier, scratch, offset) in &stored {
        keep_barrier(&mut at, barrier, scratch)?;
        store(&mut at, pointer, scratch, offset)?;
    }
    if frame > 0 {
        // The pointer is lowered, and nothing is stored yet but what it was before: the check takes the register that held that.
        let is_store = |func: &Function, inst| func.opcode(inst).as_machine() == Some(Op::STL);
        let after = func.entry().and_then(|entry| {
            let mut insts = func.block_insts(entry);
            if let Some((Some(_), _)) = kept_pointer {
                insts.find(|&inst| is_store(func, inst))?;
                return insts.next();
            }
            insts.nth(1)
        });
        if let Some(after) = after {
            check_bounds(func, context, pointer, after)?;
        }
    }
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let ret = [Op::RET_REL, Op::RET_ABS].map(Opcode::Machine);
    let returns: Vec<Inst> = insts
        .filter(|&inst| ret.contains(&func.opcode(inst)))
        .collect();
    for inst in returns {
        let mut at = Cursor::before(func, inst);
        for &(barrier, scratch, offset) in &stored {
            load(&mut at, pointer, scratch, offset)?;
            give_back(&mut at, barrier, scratch)?;
        }
        for &(barrier, register) in &kept {
            give_back(&mut at, barrier, register)?;
        }
        for &(reg, offset) in &places {
            load(&mut at, pointer, reg, offset)?;
        }
        match kept_pointer {
            Some((_, place)) => load(&mut at, pointer, pointer, place)?,
            None => move_pointer(&mut at, pointer, frame)?,
        }
    }
    Ok(())
}

fn store(
    at: &mut Cursor<'_>,
    pointer: PhysReg,
    reg: PhysReg,
    offset: u32,
) -> Result<(), PhaseError> {
    at.build(Op::STL)
        .modifier(name::CACHE, value::NORMAL)
        .modifier(name::SIZE, value::_32)
        .address(Address::base(pointer, offset as i32))
        .operand(reg)
        .finish()
        .map_err(refused)?;
    Ok(())
}

fn load(
    at: &mut Cursor<'_>,
    pointer: PhysReg,
    reg: PhysReg,
    offset: u32,
) -> Result<(), PhaseError> {
    at.build(Op::LDL)
        .modifier(name::CACHE, value::NORMAL)
        .modifier(name::SIZE, value::_32)
        .operand(reg)
        .address(Address::base(pointer, offset as i32))
        .finish()
        .map_err(refused)?;
    Ok(())
}

fn keep_barrier(at: &mut Cursor<'_>, barrier: PhysReg, reg: PhysReg) -> Result<(), PhaseError> {
    at.build(Op::BMOV_R)
        .modifier(name::CLEAR, value::CLEAR)
        .operand(reg)
        .operand(barrier)
        .finish()
        .map_err(refused)?;
    Ok(())
}

fn give_back(at: &mut Cursor<'_>, barrier: PhysReg, reg: PhysReg) -> Result<(), PhaseError> {
    at.build(Op::BMOV_B)
        .operand(barrier)
        .operand(reg)
        .finish()
        .map_err(refused)?;
    Ok(())
}

fn move_pointer(at: &mut Cursor<'_>, pointer: PhysReg, by: u32) -> Result<(), PhaseError> {
    if by == 0 {
        return Ok(());
    }
    at.build(Op::VIADD)
        .operand(pointer)
        .operand(pointer)
        .imm(u64::from(by))
        .finish()
        .map_err(refused)?;
    Ok(())
}

/// The registers of `class` that `func` changes and has to give back.
fn changed(func: &Function, abi: &Abi, class: Class) -> BTreeSet<PhysReg> {
    let mut found = BTreeSet::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        func.for_each_def(inst, |reg: Reg| {
            let units = reg.phys().into_iter().flat_map(|reg| reg.units());
            found.extend(
                units.filter(|unit| {
                    unit.class() == class && abi.is_saved(class.into(), unit.index())
                }),
            );
        });
    }
    found
}

/// The loads of arguments above the frame.
fn incoming(func: &Function) -> Vec<Inst> {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts
        .filter(|&inst| {
            func.opcode(inst) == Opcode::Machine(Op::LDL)
                && (func.operands(inst).iter()).any(|operand| match *operand {
                    Operand::Address(id) => func.address(id).offset >= INCOMING as i32,
                    _ => false,
                })
        })
        .collect()
}

/// Lets loads of arguments above the frame start from the pointer that the function was given, which is kept at `place` of the frame: what is
/// loaded holds it first.
fn find_incoming(func: &mut Function, pointer: PhysReg, place: u32) -> Result<(), PhaseError> {
    for inst in incoming(func) {
        let guard = func.inst(inst).guard();
        let first = func.operands(inst)[0].reg().and_then(Reg::phys);
        let Some(first) = first.and_then(|reg| reg.units().next()) else {
            continue;
        };
        // Where the stack grows at run time, another register has the start of the frame.
        let mut start = pointer;
        for index in 0..func.operands(inst).len() {
            if let Operand::Address(id) = func.operands(inst)[index] {
                let address = func.address_mut(id);
                start = address.base.get().and_then(Reg::phys).unwrap_or(pointer);
                address.offset -= INCOMING as i32;
                address.base = Reg::from(first).into();
            }
        }
        Cursor::before(func, inst)
            .build(Op::LDL)
            .modifier(name::CACHE, value::NORMAL)
            .modifier(name::SIZE, value::_32)
            .guard(guard)
            .operand(first)
            .address(Address::base(start, place as i32))
            .finish()
            .map_err(refused)?;
    }
    Ok(())
}

/// Gives loads of arguments above the frame their places.
fn place_incoming(func: &mut Function, frame: u32) {
    for inst in incoming(func) {
        for index in 0..func.operands(inst).len() {
            if let Operand::Address(id) = func.operands(inst)[index]
                && func.address(id).offset >= INCOMING as i32
            {
                func.address_mut(id).offset += frame as i32 - INCOMING as i32;
            }
        }
    }
}
