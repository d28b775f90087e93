//! Copies and exchanges of registers as instructions: [`parallel_copy`](orias_ori::parallel_copy) finds the order, and an exchange is
//! three exclusive ors.

use super::{Expansion, Made, Refusal};
use crate::stream::{NodeData, Pseudo, Run, Stream};
use orias_ori::parallel_copy::{Step, sequence};
use orias_sass::{
    Guard, Instruction, Op, Operand, Register, RegisterClass, SourceModifiers, Target,
};

pub(super) fn expand_copy(stream: &Stream, _: &NodeData, pseudo: &Pseudo) -> Expansion {
    let Pseudo::Copy { guard, runs } = pseudo else {
        return Ok(Vec::new());
    };
    let copies: Vec<(Register, Register)> = runs.iter().flat_map(|run| run.units()).collect();
    let mut steps = sequence(&copies, Register::is_constant);
    keep_guard(&mut steps, *guard)?;
    let mut made = Vec::new();
    for step in steps {
        match step {
            Step::Move(to, from) => made.push(move_one(to, from, *guard, stream.target)?),
            Step::Swap(a, b) => swap_one(a, b, *guard, stream.target, &mut made)?,
        }
    }
    Ok(made)
}

pub(super) fn expand_swap(stream: &Stream, _: &NodeData, pseudo: &Pseudo) -> Expansion {
    let Pseudo::Swap { guard, run } = pseudo else {
        return Ok(Vec::new());
    };
    if run.to.class != run.from.class || overlaps(*run) {
        return Err(Refusal::Because(
            "registers of two classes, or that overlap, cannot be exchanged".to_owned(),
        ));
    }
    let mut made = Vec::new();
    for (a, b) in run.units() {
        if [a, b].contains(&guard.predicate) {
            return Err(own_guard());
        }
        swap_one(a, b, *guard, stream.target, &mut made)?;
    }
    Ok(made)
}

fn overlaps(run: Run) -> bool {
    run.to.index.abs_diff(run.from.index) < run.count
}

fn own_guard() -> Refusal {
    Refusal::Because("its guard is exchanged under itself".to_owned())
}

/// The guard is written last: until then all steps see it. A circle through it cannot be taken apart.
fn keep_guard(steps: &mut Vec<Step<Register>>, guard: Guard) -> Result<(), Refusal> {
    if guard.is_always() {
        return Ok(());
    }
    let predicate = guard.predicate;
    let swapped = |step: &Step<Register>| matches!(*step, Step::Swap(a, b) if a == predicate || b == predicate);
    if steps.iter().any(swapped) {
        return Err(own_guard());
    }
    let writes = |step: &Step<Register>| matches!(*step, Step::Move(to, _) if to == predicate);
    if let Some(at) = steps.iter().position(writes) {
        let last = steps.remove(at);
        // What it reads must not have been overwritten by what now comes before it.
        if let Step::Move(_, from) = last
            && steps[at..]
                .iter()
                .any(|step| matches!(*step, Step::Move(to, _) | Step::Swap(to, _) if to == from))
        {
            return Err(own_guard());
        }
        steps.push(last);
    }
    Ok(())
}

/// All four groups of lanes.
const ALL_LANES: u64 = 0xf;
/// The table of an exclusive or of the first two inputs.
const XOR: u64 = 0x3c;
/// The table of the first input, where the other two are true.
const FIRST: u64 = 0x80;

fn finish(
    op: Op,
    guard: Guard,
    operands: impl IntoIterator<Item = Operand>,
    target: Target,
) -> Result<Made, Refusal> {
    let mut builder = Instruction::build(op).operands(operands);
    if !guard.is_always() {
        builder = builder.guard(guard.predicate, guard.negated);
    }
    Ok(Made::plain(builder.finish(target)?))
}

fn move_one(to: Register, from: Register, guard: Guard, target: Target) -> Result<Made, Refusal> {
    use RegisterClass::{P, R, UP, UR};
    let reg = Operand::register;
    match (to.class, from.class) {
        (R, R | UR) => {
            let operands = [reg(to), reg(from), Operand::Immediate(ALL_LANES)];
            finish(Op::MOV, guard, operands, target)
        }
        (UR, UR) => finish(Op::UMOV, guard, [reg(to), reg(from)], target),
        (P, P) => {
            let ins = [reg(from), reg(Register::PT), reg(Register::PT)];
            logic(
                Op::PLOP3,
                [reg(to), reg(Register::PT)],
                ins,
                FIRST,
                guard,
                target,
            )
        }
        (UP, UP) => {
            let ins = [reg(from), reg(Register::UPT), reg(Register::UPT)];
            logic(
                Op::UPLOP3,
                [reg(to), reg(Register::UPT)],
                ins,
                FIRST,
                guard,
                target,
            )
        }
        _ => Err(Refusal::Because(format!(
            "no instruction moves {from} to {to}"
        ))),
    }
}

/// A logic operation on predicates.
fn logic(
    op: Op,
    results: [Operand; 2],
    sources: [Operand; 3],
    table: u64,
    guard: Guard,
    target: Target,
) -> Result<Made, Refusal> {
    let tables = [Operand::Immediate(table), Operand::Immediate(0)];
    let operands = results.into_iter().chain(sources).chain(tables);
    finish(op, guard, operands, target)
}

fn swap_one(
    a: Register,
    b: Register,
    guard: Guard,
    target: Target,
    made: &mut Vec<Made>,
) -> Result<(), Refusal> {
    for (to, with) in [(a, b), (b, a), (a, b)] {
        made.push(exclusive_or(to, with, guard, target)?);
    }
    Ok(())
}

/// `to = to ^ with`
fn exclusive_or(
    to: Register,
    with: Register,
    guard: Guard,
    target: Target,
) -> Result<Made, Refusal> {
    use RegisterClass::{P, R, UP, UR};
    let reg = Operand::register;
    let never = |register: Register| {
        reg(register).with_modifiers(SourceModifiers {
            invert: true,
            ..SourceModifiers::default()
        })
    };
    match to.class {
        R | UR => {
            let (op, truth, zero) = match to.class {
                R => (Op::LOP3, Register::PT, Register::RZ),
                _ => (Op::ULOP3, Register::UPT, Register::URZ),
            };
            let operands = [
                reg(truth),
                reg(to),
                reg(to),
                reg(with),
                reg(zero),
                Operand::Immediate(XOR),
                never(truth),
            ];
            finish(op, guard, operands, target)
        }
        P => {
            let ins = [reg(to), reg(with), reg(Register::PT)];
            logic(
                Op::PLOP3,
                [reg(to), reg(Register::PT)],
                ins,
                XOR,
                guard,
                target,
            )
        }
        UP => {
            let ins = [reg(to), reg(with), reg(Register::UPT)];
            logic(
                Op::UPLOP3,
                [reg(to), reg(Register::UPT)],
                ins,
                XOR,
                guard,
                target,
            )
        }
        RegisterClass::B => Err(Refusal::Because(format!(
            "no instruction exchanges {to} and {with}"
        ))),
    }
}
