//! ProtectStack (10100): canaries above the local variables of functions (`--device-stack-protector`).
//!
//! Code that writes beyond the end of an array changes what lies above it in the frame: spilled registers, and the return address among them. With the option a
//! function that is called, and whose local variables take sixteen bytes of its frame or more, or which takes memory from the stack at run time, stores a number there that the
//! driver draws and keeps in the constant bank, and traps before it returns if it is another one then. It lies where ptxas 13.0.88 puts it: at the first multiple of eight
//! above the variables, below what allocation spills.
//!
//! Kernels do not return to anybody; what they end with is not looked at, nor is `exit` in a function.
//!
//! Cost: one walk.

use crate::pipeline::{Context, PhaseError};
use crate::regalloc::slow_path_of;
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::operation::{AbstractMods, AbstractOp};
use orias_ori::{
    Address, Class, Function, FunctionKind, Guard, Inst, Opcode, Operand, OptReg, PhysReg, Reg,
    SourceMods, Type,
};
use orias_sass::{Op, modifier_names as name, modifier_values as value};

/// Fewer bytes of variables are no array.
const ARRAY: u32 = 16;

/// Bytes of a canary, and of a register.
const CANARY: u32 = 8;
const WORD: u32 = 4;

/// All four groups of lanes.
const ALL_LANES: u64 = 0xf;

/// Runs the phase.
pub fn protect_stack(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let pointer = PhysReg::new(Class::R, context.machine.abi.stack_pointer);
    let entry = func.entry();
    let first = entry.and_then(|entry| func.layout.first_inst(entry));
    let (Some(pointer), Some(first)) = (pointer, first) else {
        return Ok(());
    };
    let called = func.kind == FunctionKind::Device && slow_path_of(func).is_none();
    let grows = moves(func, pointer);
    if !called || func.attributes.local < ARRAY && !grows {
        return Ok(());
    }
    if !func.attributes.fixed.contains(&pointer) {
        func.attributes.fixed.push(pointer);
    }
    let place = func.attributes.local.next_multiple_of(CANARY);
    func.attributes.local = place + CANARY;
    store(func, context, first, (pointer, place)).map_err(broken)?;
    let start = match grows {
        // The pointer is somewhere else when the function returns.
        true => Reg::from(keep(func, first, pointer).map_err(broken)?),
        false => Reg::from(pointer),
    };
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let ret = Opcode::Abstract(AbstractOp::Ret);
    let returns: Vec<Inst> = insts.filter(|&it| func.opcode(it) == ret).collect();
    for inst in returns {
        check(func, context, inst, (start, place)).map_err(broken)?;
    }
    Ok(())
}

/// Whether the function moves the stack pointer at run time.
fn moves(func: &Function, pointer: PhysReg) -> bool {
    let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts.any(|inst| {
        let mut found = false;
        func.for_each_def(inst, |reg| found |= reg == Reg::from(pointer));
        found
    })
}

/// Word `number` of the driver's canary.
fn canary(context: &Context<'_>, number: u32) -> Operand {
    let constants = context.machine.constants;
    Operand::Const {
        mods: SourceMods::NONE,
        bank: constants.bank,
        offset: constants.canary + (number * WORD) as i32,
        index: OptReg::from(PhysReg::RZ),
    }
}

fn store(
    func: &mut Function,
    context: &Context<'_>,
    first: Inst,
    (pointer, place): (PhysReg, u32),
) -> Result<(), BuildError> {
    for number in 0..CANARY / WORD {
        let mut at = Cursor::before(func, first);
        at.set_span(None);
        let word = (at.build(Op::LDC))
            .modifier(name::SIZE, value::_32)
            .define(Type::R)
            .operand(canary(context, number))
            .value()?;
        at.build(Op::STL)
            .modifier(name::CACHE, value::NORMAL)
            .modifier(name::SIZE, value::_32)
            .address(Address::base(pointer, (place + number * WORD) as i32))
            .operand(word)
            .finish()?;
    }
    Ok(())
}

/// The stack pointer as it is before `first`.
fn keep(
    func: &mut Function,
    first: Inst,
    pointer: PhysReg,
) -> Result<orias_ori::Value, BuildError> {
    let mut at = Cursor::before(func, first);
    at.set_span(None);
    at.build(Op::MOV)
        .define(Type::R)
        .operand(pointer)
        .imm(ALL_LANES)
        .value()
}

/// Traps before `inst`, a return, if the canary is not what it was.
fn check(
    func: &mut Function,
    context: &Context<'_>,
    inst: Inst,
    (start, place): (Reg, u32),
) -> Result<(), BuildError> {
    let Some(block) = func.layout.inst_block(inst) else {
        return Ok(());
    };
    let rest = func.split_block(inst);
    let trap = func.create_block();
    func.layout.insert_block_before(trap, rest);
    func.attributes.rare.insert(trap);
    let mut same = Reg::from(PhysReg::PT);
    let mut at = Cursor::at_end(func, block);
    at.set_span(None);
    for number in 0..CANARY / WORD {
        let wanted = (at.build(Op::LDC))
            .modifier(name::SIZE, value::_32)
            .define(Type::R)
            .operand(canary(context, number))
            .value()?;
        let found = (at.build(Op::LDL))
            .modifier(name::CACHE, value::NORMAL)
            .modifier(name::SIZE, value::_32)
            .define(Type::R)
            .address(Address::base(start, (place + number * WORD) as i32))
            .value()?;
        same = Reg::from(
            at.build(Op::ISETP)
                .modifier(name::CMP, value::EQ)
                .modifier(name::SIGN, value::U32)
                .define(Type::P)
                .operand(PhysReg::PT)
                .operand(found)
                .operand(wanted)
                .operand(same)
                .value()?,
        );
    }
    at.build(Op::BRA)
        .guard(Guard::when(same))
        .operand(PhysReg::PT)
        .target(rest, &[])
        .edge(trap, &[])
        .finish()?;
    let mut at = Cursor::at_end(func, trap);
    at.set_span(None);
    at.build(Op::BPT)
        .modifier(name::KIND, value::TRAP)
        .imm(1)
        .finish()?;
    let next = func.create_abstract(AbstractOp::FallThrough, AbstractMods::NONE, 0, &[]);
    let edge = func.create_edge(rest, &[]);
    func.set_edges(next, &[edge]);
    func.layout.append_inst(next, trap);
    Ok(())
}

fn broken(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}
