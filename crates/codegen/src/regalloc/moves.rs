//! Parallel copies made sequential: they become moves.
//!
//! A parallel copy reads all its sources before it writes any destination; [`sequence`] finds an order of moves that
//! does the same. Two registers are exchanged through one that nobody needs there, of those the function has anyway; where there is none, by three exclusive ors.
//!
//! Liveness is asked for only where registers are exchanged, once for the function, and followed through such blocks: linear.

use super::{counts, refused};
use crate::pipeline::PhaseError;
use orias_machine::Machine;
use orias_ori::analysis::{DepthFirst, FlowGraph, RegisterLiveness, RegisterSet, step_back};
use orias_ori::builder::Cursor;
use orias_ori::parallel_copy::{Step, sequence, through};
use orias_ori::{
    AbstractOp, Block, Class, Function, FunctionKind, Inst, Opcode, Operand, PhysReg, Reg,
    SourceMods,
};
use orias_sass::Op;

/// Replaces every parallel copy of `func`, which is on physical registers, by moves.
pub(super) fn expand(func: &mut Function) -> Result<(), PhaseError> {
    let mut spares: Option<FreeRegisters> = None;
    let blocks: Vec<Block> = func.blocks().collect();
    for block in blocks {
        let copies: Vec<Inst> = func
            .block_insts(block)
            .filter(|&inst| func.opcode(inst) == Opcode::Abstract(AbstractOp::ParCopy))
            .collect();
        let mut expansions = Vec::with_capacity(copies.len());
        let mut exchanging = Vec::new();
        for inst in copies {
            let steps = sequence(&units(func, inst)?, PhysReg::is_constant);
            let exchanges =
                |step: &Step<PhysReg>| matches!(step, Step::Swap(a, _) if a.class() == Class::R);
            if steps.iter().any(exchanges) {
                exchanging.push((inst, expansions.len()));
            }
            expansions.push((inst, steps));
        }
        if !exchanging.is_empty() {
            let spares = spares.get_or_insert_with(|| FreeRegisters::new(func));
            for (spare, at) in spares.behind(func, block, &exchanging) {
                let steps = &mut expansions[at].1;
                *steps = with_spare(steps, spare);
            }
        }
        for (inst, steps) in expansions {
            for step in steps {
                emit(&mut Cursor::before(func, inst), step)?;
            }
            func.remove_inst(inst);
        }
    }
    Ok(())
}

/// The single registers that a parallel copy writes and reads.
fn units(func: &Function, inst: Inst) -> Result<Vec<(PhysReg, PhysReg)>, PhaseError> {
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
    Ok(copies)
}

/// The same steps, with the exchanges of general registers through a spare one.
fn with_spare(steps: &[Step<PhysReg>], spare: PhysReg) -> Vec<Step<PhysReg>> {
    let general = |step: &Step<PhysReg>| match step {
        Step::Move(to, _) | Step::Swap(to, _) => to.class() == Class::R,
    };
    let (general, others): (Vec<_>, Vec<_>) = steps.iter().copied().partition(general);
    let mut steps = through(&general, spare);
    steps.extend(others);
    steps
}

/// Which general registers nobody needs at a place.
struct FreeRegisters {
    live: RegisterLiveness,
    /// Registers that the function may write: those it writes elsewhere, and in a kernel those before them, as far as it has them everywhere.
    own: RegisterSet,
}

impl FreeRegisters {
    fn new(func: &Function) -> FreeRegisters {
        let flow = FlowGraph::of(func);
        let walk = DepthFirst::new(&flow);
        let mut own = RegisterSet::EMPTY;
        let mut highest = 0;
        for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
            if super::calls::is_call(func, inst) {
                continue;
            }
            func.for_each_def(inst, |reg| {
                if let Some(reg) = reg.phys().filter(|reg| reg.class() == Class::R) {
                    own.insert(reg);
                    highest = highest.max(u16::from(reg.index()) + u16::from(reg.len()));
                }
            });
        }
        if func.kind == FunctionKind::Entry {
            let all = (0..highest).filter_map(|index| PhysReg::new(Class::R, index as u8));
            all.for_each(|reg| own.insert(reg));
        }
        for &fixed in &func.attributes.fixed {
            own.remove(fixed);
        }
        if let Some(fewest) = counts::smallest(func) {
            let reserved = Machine::of(func.target).registers.reserved;
            let missing = fewest.saturating_sub(reserved)..u32::from(Class::R.count());
            let missing = missing.filter_map(|unit| PhysReg::new(Class::R, unit as u8));
            missing.for_each(|reg| own.remove(reg));
        }
        FreeRegisters {
            live: RegisterLiveness::new(func, &flow, &walk),
            own,
        }
    }

    /// For each of some copies of `block`, in their order there: a register that is free behind it and that it does not touch, if there is one, with the copy's number.
    fn behind(
        &self,
        func: &Function,
        block: Block,
        copies: &[(Inst, usize)],
    ) -> Vec<(PhysReg, usize)> {
        let mut found = Vec::new();
        let mut left = copies.iter().rev().peekable();
        let mut live = *self.live.live_out(block);
        let mut inst = func.layout.last_inst(block);
        while let (Some(at), Some(&&(copy, number))) = (inst, left.peek()) {
            if at == copy {
                left.next();
                let mut busy = live;
                let mut touched = |reg: Reg| {
                    if let Some(reg) = reg.phys() {
                        busy.insert(reg);
                    }
                };
                func.for_each_use(copy, &mut touched);
                func.for_each_def(copy, &mut touched);
                let spare = self.own.without(busy).iter().next();
                found.extend(spare.map(|spare| (spare, number)));
            }
            step_back(func, at, &mut live);
            inst = func.layout.prev_inst(at);
        }
        found
    }
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
            let steps = sequence(&copies, PhysReg::is_constant);
            assert_eq!(run(&steps), expected, "{copies:?}");
            let moves = through(&steps, reg(7));
            assert!(moves.iter().all(|step| matches!(step, Step::Move(..))));
            let done = run(&moves);
            assert_eq!(done[..7], expected[..7], "{copies:?} through R7");
        }
    }
}
