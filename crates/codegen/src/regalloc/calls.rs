//! Calls, from both sides: by the ABI, and of slow paths, which have a convention of their own. Where each has its operands and what it leaves alone is
//! data of the machine ([`Convention`]).
//!
//! A call reaches the allocator as `call callee, arguments`: the callee is a name, if it lies in the same text as its caller, or a pair of
//! registers with its address. A function that is called has its parameters in its entry block, and ends with `ret results`. All of
//! these are the same to the allocator: operands with fixed places ([`places`]), by the ABI arguments and results one after another from R4 on, a
//! callee's address in R2, the address to return to in R20. So a function that is called starts with a `call` that has results and
//! nothing else ([`enter`]): the parameters, and the address to return to, which every `ret` reads.
//!
//! Whatever else must survive a call is brought to registers that a called function leaves alone
//! (spilling sees to it that there are enough), and the scan writes the call with its registers. [`expand`] then makes
//! instructions of it:
//!
//! ```text
//! MOV R20, behind            LDC.64 R2, c[0x2][pointer]      LEPC R20, `(behind)
//! MOV R21, 0                 MOV R20, behind …               CALL.ABS.NOINC R2
//! CALL.REL.NOINC `(callee)   CALL.REL.NOINC R2 `(text)       behind:
//! behind:                    behind:
//! ```
//!
//! by name, through a pointer, and a function of the driver; and `RET.REL.NODEC R20 (text)`. Addresses of code are counted from the
//! start of the text they lie in, which is a kernel's: the container puts the kernel and all it calls there, one behind the other, and
//! knows what `$` (the start) and `$behind` (the place behind the next call) are.
//!
//! In code for a linker (`relocatable`) nothing is known of where anything lies, so addresses of code are whole:
//!
//! ```text
//! MOV R20, low(behind)       MOV R20, low(behind)
//! MOV R21, high(behind)      MOV R21, high(behind)
//! CALL.ABS.NOINC `(callee)   CALL.ABS.NOINC R2
//! behind:                    behind:
//! ```
//!
//! by name, wherever the function lies, and through a pointer, which is the function's address; and `RET.ABS.NODEC R20`.

use super::file::{Units, insert};
use super::refused;
use crate::module::{BEHIND_CALL, TEXT_START, is_near};
use crate::phases::slow_path_convention;
use crate::pipeline::PhaseError;
use crate::tail::returns;
use orias_machine::Machine;
use orias_machine::abi::Convention;
use orias_ori::builder::Cursor;
use orias_ori::{
    AbstractMods, AbstractOp, Class, Function, FunctionKind, Inst, Opcode, Operand, PhysReg,
    SymbolPart, Type, print_inst,
};
use orias_sass::{Op, modifier_names as name, modifier_values as value};

/// All four groups of lanes.
const ALL_LANES: u64 = 0xf;

/// Whether the operands of `inst` have places by the ABI: a call, the start of a function that is called, a return.
pub(super) fn is_call(func: &Function, inst: Inst) -> bool {
    matches!(
        func.opcode(inst),
        Opcode::Abstract(AbstractOp::Call | AbstractOp::Ret)
    )
}

/// Whether `inst` calls a function.
pub(super) fn calls_out(func: &Function, inst: Inst) -> bool {
    func.opcode(inst) == Opcode::Abstract(AbstractOp::Call)
        && func.operands(inst).len() > func.result_count(inst)
}

/// Whether `func` has operands with places by the ABI.
pub(super) fn has_calls(func: &Function) -> bool {
    func.blocks()
        .flat_map(|block| func.block_insts(block))
        .any(|inst| is_call(func, inst))
}

/// Whether `func` has calls behind which it goes on, or is called itself.
pub(super) fn has_returning_calls(func: &Function) -> bool {
    func.blocks()
        .flat_map(|block| func.block_insts(block))
        .any(|inst| is_call(func, inst) && returns(func, inst))
}

/// The convention of `inst`, a call, or the start or a return of a function that is called.
pub(crate) fn convention(func: &Function, inst: Inst) -> Convention {
    let abi = Machine::of(func.target).abi;
    let slow = match func.operands(inst).get(func.result_count(inst)) {
        Some(&Operand::Symbol { symbol, .. }) => {
            slow_path_convention(func.symbol_name(symbol), abi)
        }
        _ if calls_out(func, inst) => None,
        _ => slow(func),
    };
    slow.unwrap_or_else(|| abi.functions())
}

/// The convention of `func`, if that is a slow path that others call.
pub(crate) fn slow(func: &Function) -> Option<Convention> {
    let device = func.kind == FunctionKind::Device;
    device
        .then(|| slow_path_convention(&func.name, Machine::of(func.target).abi))
        .flatten()
}

/// The general registers that a call may change.
pub(super) fn volatile(convention: &Convention) -> Units {
    let mut volatile = Units::default();
    let changes = |&unit: &u8| !convention.is_preserved(Class::R.into(), unit);
    for unit in (0..Class::R.count()).filter(changes) {
        insert(&mut volatile, unit, 1);
    }
    volatile
}

/// Makes the parameters of a function that is called results of an instruction, and lets its returns read where they go to.
pub(super) fn enter(func: &mut Function) {
    let Some(entry) = func.entry().filter(|_| {
        func.kind == FunctionKind::Device && !func.blocks().any(|it| started(func, it))
    }) else {
        return;
    };
    let params = func.block_params(entry).to_vec();
    for index in (0..params.len()).rev() {
        func.remove_block_param(entry, index, &[]);
    }
    let back = func.create_value(Type::R2);
    let mut results: Vec<Operand> = params.into_iter().map(Operand::from).collect();
    results.push(back.into());
    let mods = AbstractMods::NONE;
    let start = func.create_abstract(AbstractOp::Call, mods, results.len(), &results);
    match func.layout.first_inst(entry) {
        Some(first) => func.layout.insert_inst_before(start, first),
        None => func.layout.append_inst(start, entry),
    }
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let ret = Opcode::Abstract(AbstractOp::Ret);
    let returns: Vec<Inst> = insts.filter(|&inst| func.opcode(inst) == ret).collect();
    for inst in returns {
        let mut operands = func.operands(inst).to_vec();
        operands.push(back.into());
        func.replace_with_abstract(inst, AbstractOp::Ret, mods, 0, &operands);
    }
}

/// Whether `block` has the instruction that [`enter`] makes.
fn started(func: &Function, block: orias_ori::Block) -> bool {
    let first = func.layout.first_inst(block);
    first.is_some_and(|inst| is_call(func, inst) && starts(func, inst))
}

/// Whether `inst` is the start of a function that is called.
fn starts(func: &Function, inst: Inst) -> bool {
    func.opcode(inst) == Opcode::Abstract(AbstractOp::Call)
        && func.operands(inst).len() == func.result_count(inst)
}

/// Where a call expects something: the number of the operand and its register.
pub(super) type Fixed = (usize, PhysReg);

/// Where its convention has the operands of `inst`: results and arguments one after another from the first register on, addresses apart.
pub(super) fn places(func: &Function, inst: Inst) -> Result<Vec<Fixed>, PhaseError> {
    let results = func.result_count(inst);
    let refuse = |why: &str| {
        let call = print_inst(func, inst);
        Err(PhaseError::Unsupported(format!("`{call}`, {why},")))
    };
    if !func.inst(inst).guard().is_always() {
        return refuse("a call under a guard");
    }
    let mut places = Vec::new();
    let abi = Machine::of(func.target).abi;
    let convention = convention(func, inst);
    let calls = calls_out(func, inst);
    let mut next = convention.first_argument;
    let operands = func.operands(inst);
    for (index, operand) in operands.iter().enumerate() {
        if index == results {
            next = convention.first_argument;
        }
        let reg = match operand {
            Operand::Reg { reg, mods } if mods.is_empty() => *reg,
            // A callee in the same text, and at the end names of all that the call may reach.
            Operand::Symbol { .. } if calls && index >= results => continue,
            _ => return refuse("a call of or with something that is not in a register"),
        };
        let ty = func.reg_type(reg);
        let callee = calls && index == results;
        let back = !calls && index + 1 == operands.len();
        if ty.class() != Class::R || (callee || back) && ty != Type::R2 {
            return refuse("a call with registers of another kind");
        }
        let first = match (callee, back) {
            (true, _) => Some(abi.callee),
            (_, true) => Some(convention.return_address),
            _ => {
                let first = next.next_multiple_of(ty.alignment());
                next = first + ty.len();
                (next <= convention.arguments_end).then_some(first)
            }
        };
        match first.and_then(|first| PhysReg::tuple(Class::R, first, ty.len())) {
            Some(place) => places.push((index, place)),
            None => return refuse("whose arguments do not fit into registers"),
        }
    }
    Ok(places)
}

/// Makes instructions of the calls and returns of an allocated function.
pub(super) fn expand(func: &mut Function) -> Result<(), PhaseError> {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let calls: Vec<Inst> = insts.filter(|&inst| is_call(func, inst)).collect();
    for call in calls {
        if starts(func, call) {
            func.remove_inst(call);
        } else if calls_out(func, call) {
            expand_call(func, call)?;
        } else {
            expand_return(func, call)?;
        }
    }
    Ok(())
}

/// The registers of a pair that the ABI names.
fn pair(func: &Function, inst: Inst, first: u8) -> Result<PhysReg, PhaseError> {
    PhysReg::tuple(Class::R, first, 2).ok_or_else(|| PhaseError::Broken {
        at: print_inst(func, inst),
        what: format!("R{first} is not the first of a pair"),
    })
}

/// A place in code.
fn place(func: &mut Function, name: &str) -> Operand {
    Operand::Symbol {
        symbol: func.symbol(name),
        part: SymbolPart::Whole,
        addend: 0,
    }
}

fn expand_return(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let back = pair(func, inst, convention(func, inst).return_address)?;
    let (op, from) = match func.attributes.relocatable {
        true => (Op::RET_ABS, Operand::None),
        false => (Op::RET_REL, place(func, TEXT_START)),
    };
    Cursor::before(func, inst)
        .build(op)
        .modifier(name::DEC, value::NODEC)
        .operand(PhysReg::PT)
        .operand(back)
        .operand(from)
        .finish()
        .map_err(refused)?;
    func.remove_inst(inst);
    Ok(())
}

fn expand_call(func: &mut Function, call: Inst) -> Result<(), PhaseError> {
    let abi = Machine::of(func.target).abi;
    let callee = pair(func, call, abi.callee)?;
    let back = pair(func, call, convention(func, call).return_address)?;
    let Some(behind) = func.layout.next_inst(call) else {
        return Err(PhaseError::Broken {
            at: print_inst(func, call),
            what: "a call ends its block".to_owned(),
        });
    };
    let tail = func.split_block(behind);
    let sources = &func.operands(call)[func.result_count(call)..];
    let named = sources.first().and_then(|operand| match *operand {
        Operand::Symbol { symbol, .. } => Some(func.symbol_name(symbol).to_owned()),
        _ => None,
    });
    let near = sources.iter().all(|operand| match *operand {
        Operand::Symbol { symbol, .. } => is_near(func.symbol_name(symbol)),
        _ => true,
    });
    if func.attributes.relocatable {
        call_by_address(func, call, named.as_deref(), callee, back)?;
    } else if near {
        let to = place(func, named.as_deref().unwrap_or(TEXT_START));
        let after = place(func, BEHIND_CALL);
        let mut units = back.units();
        let (Some(low), Some(high)) = (units.next(), units.next()) else {
            return Ok(());
        };
        let mut cursor = Cursor::before(func, call);
        let set = cursor.build(Op::MOV).operand(low).operand(after);
        set.imm(ALL_LANES).finish().map_err(refused)?;
        let set = cursor.build(Op::MOV).operand(high).operand(PhysReg::RZ);
        set.imm(ALL_LANES).finish().map_err(refused)?;
        let op = match named {
            Some(_) => Op::CALL_REL,
            None => Op::CALL_REL_R,
        };
        let mut made = cursor.build(op).modifier(name::INC, value::NOINC);
        made = made.operand(PhysReg::PT);
        if op == Op::CALL_REL_R {
            made = made.operand(callee);
        }
        made.operand(to).finish().map_err(refused)?;
    } else {
        let mut cursor = Cursor::before(func, call);
        cursor
            .build(Op::LEPC_T)
            .operand(back)
            .operand(Operand::Block(tail))
            .finish()
            .map_err(refused)?;
        cursor
            .build(Op::CALL_ABS)
            .modifier(name::INC, value::NOINC)
            .operand(PhysReg::PT)
            .operand(callee)
            .none()
            .finish()
            .map_err(refused)?;
    }
    let Some(block) = func.layout.inst_block(call) else {
        return Ok(());
    };
    func.remove_inst(call);
    let next = func.create_abstract(AbstractOp::FallThrough, AbstractMods::NONE, 0, &[]);
    let edge = func.create_edge(tail, &[]);
    func.set_edges(next, &[edge]);
    func.layout.append_inst(next, block);
    Ok(())
}

/// Writes a call before `call` that finds its callee wherever the linker puts it: the one of that name, or whose address `callee` holds.
fn call_by_address(
    func: &mut Function,
    call: Inst,
    named: Option<&str>,
    callee: PhysReg,
    back: PhysReg,
) -> Result<(), PhaseError> {
    let behind = func.symbol(BEHIND_CALL);
    let to = named.map(|name| place(func, name));
    let mut cursor = Cursor::before(func, call);
    for (reg, part) in back.units().zip([SymbolPart::Low, SymbolPart::High]) {
        let after = Operand::Symbol {
            symbol: behind,
            part,
            addend: 0,
        };
        let set = cursor.build(Op::MOV).operand(reg).operand(after);
        set.imm(ALL_LANES).finish().map_err(refused)?;
    }
    let op = match to {
        Some(_) => Op::CALL_ABS_I,
        None => Op::CALL_ABS,
    };
    let made = cursor.build(op).modifier(name::INC, value::NOINC);
    let made = made.operand(PhysReg::PT);
    let made = match to {
        Some(to) => made.operand(to),
        None => made.operand(callee).none(),
    };
    made.finish().map_err(refused)?;
    Ok(())
}

/// How many registers of each class survive `call`, of as many as `limits` has. Nothing but general registers is moved out of the way of a call, so of
/// other classes all survive or none.
pub(super) fn preserved(func: &Function, call: Inst, limits: &[u32; 5]) -> [u32; 5] {
    let convention = convention(func, call);
    let pointer = Machine::of(func.target).abi.stack_pointer;
    let mut kept = [0; 5];
    for class in [Class::R, Class::P, Class::UR, Class::UP, Class::B] {
        let limit = limits[class as usize].min(u32::from(u8::MAX)) as u8;
        kept[class as usize] = match class {
            Class::R => {
                let counts = pointer < limit && convention.is_preserved(class.into(), pointer);
                convention.preserved_below(class.into(), limit) - u32::from(counts)
            }
            _ if convention.is_preserved(class.into(), 0) => u32::from(limit),
            _ => 0,
        };
    }
    kept
}

/// How wide a tuple of general registers can be at most that survives `call`, of as many registers as `limit`.
pub(super) fn widest_preserved(func: &Function, call: Inst, limit: u32) -> u8 {
    let limit = limit.min(u32::from(u8::MAX)) as u8;
    convention(func, call).longest_preserved(Class::R.into(), limit, WIDE_ALIGNMENT)
}

/// The alignment of wide tuples.
const WIDE_ALIGNMENT: u8 = 4;

/// The registers that a function has to name that calls others or is called.
pub(super) fn fewest(func: &Function) -> u8 {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let calls = insts.filter(|&inst| is_call(func, inst));
    let end = |inst: Inst| convention(func, inst).return_address + Type::R2.len();
    calls.map(end).max().unwrap_or(0)
}

/// One past the last register that who is called by `convention` may use without saving it: all up to those that callers count on.
pub(crate) fn own_registers(func: &Function, convention: &Convention) -> u32 {
    let pointer = Machine::of(func.target).abi.stack_pointer;
    let own = |&unit: &u8| unit == pointer || !convention.is_preserved(Class::R.into(), unit);
    (0..Class::R.count()).take_while(own).count() as u32
}
