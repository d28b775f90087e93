//! Calls by the ABI.
//!
//! A call of a function that lies elsewhere (`vprintf`, `__assertfail`) reaches the allocator as `call callee(arguments), &name`, with
//! the callee's address in a pair of registers. The places are fixed ([`places`]): arguments and results from R4 on, each aligned to
//! its size, the address in R2. Whatever else must survive the call is brought to registers that a called function leaves alone
//! (spilling sees to it that there are enough), and the scan writes the call with its registers. [`expand`] then makes
//! instructions of it:
//!
//! ```text
//! LEPC R20, `(behind)
//! CALL.ABS.NOINC R2
//! behind:
//! ```

use super::file::{Units, insert};
use super::refused;
use crate::pipeline::PhaseError;
use orias_machine::Machine;
use orias_machine::abi::Abi;
use orias_ori::builder::Cursor;
use orias_ori::{
    AbstractMods, AbstractOp, Class, Function, Inst, Opcode, Operand, PhysReg, Type, print_inst,
};
use orias_sass::Op;

/// Whether `inst` is a call by the ABI.
pub(super) fn is_call(func: &Function, inst: Inst) -> bool {
    func.opcode(inst) == Opcode::Abstract(AbstractOp::Call)
}

/// Whether `func` has a call by the ABI.
pub(super) fn has_calls(func: &Function) -> bool {
    func.blocks()
        .flat_map(|block| func.block_insts(block))
        .any(|inst| is_call(func, inst))
}

/// The general registers that a called function may change.
pub(super) fn volatile(abi: &Abi) -> Units {
    let mut volatile = Units::default();
    for unit in (0..Class::R.count()).filter(|&unit| !abi.is_preserved(Class::R.into(), unit)) {
        insert(&mut volatile, unit, 1);
    }
    volatile
}

/// Where a call expects something: the number of the operand and its register.
pub(super) type Fixed = (usize, PhysReg);

/// Where a call expects its operands: results and arguments one after another from the first register on, the callee apart.
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
    let mut next = abi.first_argument;
    for (index, operand) in func.operands(inst).iter().enumerate() {
        if index == results {
            next = abi.first_argument;
        }
        let reg = match operand {
            Operand::Reg { reg, mods } if mods.is_empty() => *reg,
            // Names at the end are all that the call may reach.
            Operand::Symbol { .. } if index > results => continue,
            _ => return refuse("a call of or with something that is not in a register"),
        };
        let ty = func.reg_type(reg);
        if ty.class() != Class::R || index == results && ty != Type::R2 {
            return refuse("a call with registers of another kind");
        }
        let first = if index == results {
            Some(abi.callee)
        } else {
            let first = next.next_multiple_of(ty.alignment());
            next = first + ty.len();
            (next <= abi.arguments_end).then_some(first)
        };
        match first.and_then(|first| PhysReg::tuple(Class::R, first, ty.len())) {
            Some(place) => places.push((index, place)),
            None => return refuse("whose arguments do not fit into registers"),
        }
    }
    Ok(places)
}

/// Makes instructions of the calls of an allocated function.
pub(super) fn expand(func: &mut Function) -> Result<(), PhaseError> {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let calls: Vec<Inst> = insts.filter(|&inst| is_call(func, inst)).collect();
    for call in calls {
        let abi = Machine::of(func.target).abi;
        let callee = PhysReg::tuple(Class::R, abi.callee, 2);
        let back = PhysReg::tuple(Class::R, abi.return_address, 2);
        let behind = func.layout.next_inst(call);
        let (Some(callee), Some(back), Some(behind)) = (callee, back, behind) else {
            return Err(PhaseError::Broken {
                at: print_inst(func, call),
                what: "a call ends its block".to_owned(),
            });
        };
        let tail = func.split_block(behind);
        let mut cursor = Cursor::before(func, call);
        cursor
            .build(Op::LEPC_T)
            .operand(back)
            .operand(Operand::Block(tail))
            .finish()
            .map_err(refused)?;
        cursor
            .build(Op::CALL_ABS)
            .modifier("inc", "NOINC")
            .operand(PhysReg::PT)
            .operand(callee)
            .none()
            .finish()
            .map_err(refused)?;
        let Some(block) = func.layout.inst_block(call) else {
            continue;
        };
        func.remove_inst(call);
        let next = func.create_abstract(AbstractOp::FallThrough, AbstractMods::NONE, 0, &[]);
        let edge = func.create_edge(tail, &[]);
        func.set_edges(next, &[edge]);
        func.layout.append_inst(next, block);
    }
    Ok(())
}

/// The general registers that a called function leaves alone, up to `limit`.
pub(super) fn preserved(func: &Function, class: Class, limit: u8) -> u8 {
    let abi = Machine::of(func.target).abi;
    (0..limit)
        .filter(|&index| {
            abi.is_preserved(class.into(), index)
                && !(class == Class::R && index == abi.stack_pointer)
        })
        .count() as u8
}

/// The registers a function that calls others has to name.
pub(super) fn fewest(func: &Function) -> u8 {
    Machine::of(func.target).abi.return_address + Type::R2.len()
}
