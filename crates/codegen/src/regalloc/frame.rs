//! PostExpansion (104): the stack frame.
//!
//! Local variables and spilled values lie in the thread's stack frame, addressed from `R1`. How large the frame is is known
//! only after allocation, so this is where it is made: the stack pointer is read from the constant bank at the start of the
//! kernel, and lowered by the size of the frame; where a variable asks for more alignment than a stack pointer has, it is rounded down to that. A kernel without a frame reads the stack pointer, too: tools that patch
//! finished code (compute-sanitizer) call their own functions from there, and these need a stack.
//!
//! A function that is called lowers the pointer it is given and raises it again before it returns. Registers that its caller counts on and that it changes
//! are stored to its frame first and loaded last; a barrier register is kept in a general register meanwhile, as ptxas does, which is
//! one more of these. Arguments that found no register lie above the frame: loads of them have offsets from [`INCOMING`] on until the
//! frame has its size.
//!
//! Where the knob asks for it, code that has lowered the pointer compares it with the lowest address of the stack and traps if it is
//! below. Nothing has been written to the first register and predicate then, and no argument lies there.

use super::refused;
use crate::knobs::registry::SP_BOUNDS_CHECK;
use crate::module::INCOMING;
use crate::pipeline::{Context, PhaseError};
use orias_machine::abi::Abi;
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
        return expand_called(func, context, pointer, first);
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
    let wanted = context.knobs.bool(&SP_BOUNDS_CHECK);
    let lowest = orias_sass::special::number("SR_LMEMHIOFF");
    let scratch = PhysReg::new(Class::R, 0).zip(PhysReg::new(Class::P, 0));
    let (true, Some(lowest), Some((word, fits)), Some(entry)) =
        (wanted, lowest, scratch, func.layout.inst_block(first))
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
        .operand(Operand::Special(lowest))
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

/// Makes the frame of a function that is called.
fn expand_called(
    func: &mut Function,
    context: &Context<'_>,
    pointer: PhysReg,
    first: Inst,
) -> Result<(), PhaseError> {
    let abi = context.machine.abi;
    if func.attributes.local_align > abi.stack_alignment {
        return Err(PhaseError::Unsupported(format!(
            "a variable aligned to {} bytes in a function that is called",
            func.attributes.local_align
        )));
    }
    let mut saved = changed(func, abi, Class::R);
    let barriers: Vec<PhysReg> = changed(func, abi, Class::B).into_iter().collect();
    let limit = super::limit(func, context.machine.registers, Class::R);
    let free = |reg: &PhysReg| !saved.contains(reg);
    let general = (0..limit).filter(|&unit| abi.is_saved(Class::R.into(), unit));
    let general = general.filter_map(|unit| PhysReg::new(Class::R, unit));
    let refuges: Vec<PhysReg> = general.filter(free).take(barriers.len()).collect();
    saved.extend(&refuges);
    let start = func.attributes.local.next_multiple_of(WORD);
    let places: Vec<(PhysReg, u32)> = (saved.iter().copied().zip(0_u32..))
        .map(|(reg, number)| (reg, start + WORD * number))
        .collect();
    let end = start + WORD * places.len() as u32;
    // Barriers for which no register is left go to the frame, too, through one that holds nothing at both ends of the function.
    let scratch = (0..abi.first_argument)
        .filter(|&unit| unit != abi.stack_pointer && !abi.is_saved(Class::R.into(), unit))
        .find_map(|unit| PhysReg::new(Class::R, unit));
    let stored: Vec<(PhysReg, PhysReg, u32)> = (barriers.iter().skip(refuges.len()).zip(0_u32..))
        .filter_map(|(&barrier, number)| Some((barrier, scratch?, end + WORD * number)))
        .collect();
    let frame = (end + WORD * stored.len() as u32).next_multiple_of(abi.stack_alignment);
    func.attributes.local = frame;
    place_incoming(func, frame);
    let kept: Vec<(PhysReg, PhysReg)> = barriers.into_iter().zip(refuges).collect();
    let mut at = Cursor::before(func, first);
    at.set_span(None);
    move_pointer(&mut at, pointer, frame.wrapping_neg())?;
    for &(reg, offset) in &places {
        store(&mut at, pointer, reg, offset)?;
    }
    for &(barrier, refuge) in &kept {
        keep_barrier(&mut at, barrier, refuge)?;
    }
    for &(barrier, scratch, offset) in &stored {
        keep_barrier(&mut at, barrier, scratch)?;
        store(&mut at, pointer, scratch, offset)?;
    }
    if frame > 0 {
        // The pointer is lowered; nothing is stored yet.
        let after = func.entry().and_then(|entry| {
            let mut insts = func.block_insts(entry);
            insts.nth(1)
        });
        if let Some(after) = after {
            check_bounds(func, context, pointer, after)?;
        }
    }
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let ret = Opcode::Machine(Op::RET_REL);
    let returns: Vec<Inst> = insts.filter(|&inst| func.opcode(inst) == ret).collect();
    for inst in returns {
        let mut at = Cursor::before(func, inst);
        for &(barrier, scratch, offset) in &stored {
            load(&mut at, pointer, scratch, offset)?;
            give_back(&mut at, barrier, scratch)?;
        }
        for &(barrier, refuge) in &kept {
            give_back(&mut at, barrier, refuge)?;
        }
        for &(reg, offset) in &places {
            load(&mut at, pointer, reg, offset)?;
        }
        move_pointer(&mut at, pointer, frame)?;
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

/// Gives loads of arguments above the frame their places.
fn place_incoming(func: &mut Function, frame: u32) {
    let incoming = INCOMING as i32;
    let insts: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| func.opcode(inst) == Opcode::Machine(Op::LDL))
        .collect();
    for inst in insts {
        for index in 0..func.operands(inst).len() {
            if let Operand::Address(id) = func.operands(inst)[index]
                && func.address(id).offset >= incoming
            {
                func.address_mut(id).offset += frame as i32 - incoming;
            }
        }
    }
}
