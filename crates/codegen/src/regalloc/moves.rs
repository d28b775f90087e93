//! Parallel copies made sequential: they become moves.
//!
//! A parallel copy reads all its sources before it writes any destination; [`sequence`] finds an order of moves that
//! does the same. Two registers are swapped by three exclusive ors, which needs no spare register.

use super::refused;
use crate::pipeline::PhaseError;
use orias_ori::builder::Cursor;
use orias_ori::parallel_copy::{Step, sequence};
use orias_ori::{AbstractOp, Class, Function, Inst, Opcode, Operand, PhysReg, SourceMods};
use orias_sass::Op;

/// Replaces every parallel copy of `func`, which is on physical registers, by moves.
pub(super) fn expand(func: &mut Function) -> Result<(), PhaseError> {
    let mut block = func.layout.entry();
    while let Some(current) = block {
        let mut inst = func.layout.first_inst(current);
        while let Some(at) = inst {
            inst = func.layout.next_inst(at);
            if func.opcode(at) == Opcode::Abstract(AbstractOp::ParCopy) {
                expand_one(func, at)?;
            }
        }
        block = func.layout.next_block(current);
    }
    Ok(())
}

fn expand_one(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let (to, from) = func.operands(inst).split_at(func.result_count(inst));
    let mut copies = Vec::new();
    for (to, from) in to.iter().zip(from) {
        let (Some(to), Some(from)) = (
            to.reg().and_then(|reg| reg.phys()),
            from.reg().and_then(|reg| reg.phys()),
        ) else {
            return Err(PhaseError::Broken {
                at: orias_ori::print_inst(func, inst),
                what: "a parallel copy of something that is no register".to_owned(),
            });
        };
        if from.is_constant() {
            copies.extend(to.units().map(|to| (to, from)));
        } else {
            copies.extend(to.units().zip(from.units()));
        }
    }
    for step in sequence(&copies, PhysReg::is_constant) {
        emit(&mut Cursor::before(func, inst), step)?;
    }
    func.remove_inst(inst);
    Ok(())
}

/// The table of an exclusive or of the first two inputs.
const XOR: u64 = 0x3c;
/// The table of the first input, where the other two are true.
const FIRST: u64 = 0x80;
/// All four groups of lanes.
const ALL_LANES: u64 = 0xf;

fn emit(at: &mut Cursor<'_>, step: Step<PhysReg>) -> Result<(), PhaseError> {
    match step {
        Step::Move(to, from) => emit_move(at, to, from),
        Step::Swap(a, b) => {
            for (to, with) in [(a, b), (b, a), (a, b)] {
                emit_xor(at, to, with)?;
            }
            Ok(())
        }
    }
}

fn emit_move(at: &mut Cursor<'_>, to: PhysReg, from: PhysReg) -> Result<(), PhaseError> {
    match to.class() {
        Class::R => at.build(Op::MOV).operand(to).operand(from).imm(ALL_LANES),
        Class::UR => at.build(Op::UMOV).operand(to).operand(from),
        Class::P => at
            .build(Op::PLOP3)
            .operand(to)
            .operand(PhysReg::PT)
            .operand(from)
            .operand(PhysReg::PT)
            .operand(PhysReg::PT)
            .imm(FIRST)
            .imm(0),
        Class::UP => at
            .build(Op::UPLOP3)
            .operand(to)
            .operand(PhysReg::UPT)
            .operand(from)
            .operand(PhysReg::UPT)
            .operand(PhysReg::UPT)
            .imm(FIRST)
            .imm(0),
        Class::B => return Err(moved_token(to, from)),
    }
    .finish()
    .map(|_| ())
    .map_err(refused)
}

/// `to = to ^ with`
fn emit_xor(at: &mut Cursor<'_>, to: PhysReg, with: PhysReg) -> Result<(), PhaseError> {
    let never = |reg: PhysReg| {
        Operand::from(reg)
            .with_mods(SourceMods::NOT)
            .unwrap_or(Operand::from(reg))
    };
    match to.class() {
        Class::R => at
            .build(Op::LOP3)
            .operand(PhysReg::PT)
            .operand(to)
            .operand(to)
            .operand(with)
            .operand(PhysReg::RZ)
            .imm(XOR)
            .operand(never(PhysReg::PT)),
        Class::UR => at
            .build(Op::ULOP3)
            .operand(PhysReg::UPT)
            .operand(to)
            .operand(to)
            .operand(with)
            .operand(PhysReg::URZ)
            .imm(XOR)
            .operand(never(PhysReg::UPT)),
        Class::P => at
            .build(Op::PLOP3)
            .operand(to)
            .operand(PhysReg::PT)
            .operand(to)
            .operand(with)
            .operand(PhysReg::PT)
            .imm(XOR)
            .imm(0),
        Class::UP => at
            .build(Op::UPLOP3)
            .operand(to)
            .operand(PhysReg::UPT)
            .operand(to)
            .operand(with)
            .operand(PhysReg::UPT)
            .imm(XOR)
            .imm(0),
        Class::B => return Err(moved_token(to, with)),
    }
    .finish()
    .map(|_| ())
    .map_err(refused)
}

fn moved_token(to: PhysReg, from: PhysReg) -> PhaseError {
    PhaseError::Broken {
        at: format!("{to} <- {from}"),
        what: "a convergence token never moves".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the steps on registers that hold their own number.
    fn run(steps: &[Step<PhysReg>]) -> [u16; 8] {
        let mut file: [u16; 8] = std::array::from_fn(|index| index as u16);
        for &step in steps {
            match step {
                Step::Move(to, from) => {
                    file[usize::from(to.index())] = if from.is_constant() {
                        0xff
                    } else {
                        file[usize::from(from.index())]
                    };
                }
                Step::Swap(a, b) => file.swap(usize::from(a.index()), usize::from(b.index())),
            }
        }
        file
    }

    #[test]
    fn every_small_parallel_copy_is_done_as_if_at_once() {
        // Each of five registers is left alone, written with one of the five, or with a constant.
        let reg = |index: u32| PhysReg::new(Class::R, index as u8).unwrap();
        for code in 0..7_u32.pow(5) {
            let mut copies = Vec::new();
            let mut expected: [u16; 8] = std::array::from_fn(|index| index as u16);
            let mut rest = code;
            for to in 0..5 {
                let choice = rest % 7;
                rest /= 7;
                match choice {
                    6 => {}
                    5 => {
                        copies.push((reg(to), PhysReg::RZ));
                        expected[to as usize] = 0xff;
                    }
                    from => {
                        copies.push((reg(to), reg(from)));
                        expected[to as usize] = from as u16;
                    }
                }
            }
            assert_eq!(
                run(&sequence(&copies, PhysReg::is_constant)),
                expected,
                "{copies:?}"
            );
        }
    }
}
