//! The instructions that matter to where lanes are, found once.

use super::state::{Condition, Literal};
use crate::facts::number;
use crate::program::Program;
use orias_sass::{
    Effects, Guard, Instruction, Mnemonic, Op, Operand, Register, RegisterClass,
    modifier_names as name, modifier_values as value,
};
use orias_sass::{SlotName, slot_names as slot};
use smallvec::SmallVec;

/// What an instruction does to where lanes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// BSSY, by its number among them.
    Open { barrier: u8, site: u32 },
    /// BSYNC.
    Meet { barrier: u8 },
    /// BREAK.
    Leave { barrier: u8, when: When },
    /// A barrier is copied to a general register.
    Save { barrier: u8, to: u16, clears: bool },
    /// A barrier comes from a general register, or from somewhere else.
    Restore { barrier: u8, from: Option<u16> },
    /// WARPSYNC: the lanes of the warp, or of a mask, wait for each other.
    Gather { whole: bool },
    /// WARPSYNC.EXCLUSIVE: the lanes of each mask go on by themselves, for one exchange.
    Exclude,
    /// WARPSYNC.COLLECTIVE: lanes gather for what comes next, up to ENDCOLLECTIVE.
    Collect,
    /// ENDCOLLECTIVE.
    EndCollect,
    /// Lanes let others go on that wait for them.
    Yield,
    /// It has a meaning only for whole warps, or for the lanes of a mask that the program has promised to bring.
    Collective,
}

/// When an instruction that may be guarded has its effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    Always,
    If(Condition),
    Sometimes,
}

/// The acts of a program.
pub(super) struct Acts {
    acts: Vec<(u32, Act)>,
    /// By block, where its acts start.
    starts: Vec<u32>,
    /// The instruction of each BSSY.
    pub sites: Vec<u32>,
}

impl Acts {
    pub(super) fn new(program: &Program) -> Self {
        let mut all = Self {
            acts: Vec::new(),
            starts: Vec::with_capacity(program.blocks.len() + 1),
            sites: Vec::new(),
        };
        for block in &program.blocks {
            all.starts.push(all.acts.len() as u32);
            let own = all.acts.len();
            let (mut asks, mut takes_turns) = (false, false);
            // The guard under which lanes have gathered for what stands under it, too.
            let mut gathered = None;
            // What tells the elected lane of those that run.
            let mut elected: Option<Register> = None;
            for index in block.start..block.end {
                let instruction = &program.instructions[index];
                let guard = instruction.guard();
                asks |= asks_who_runs(instruction);
                takes_turns |= elects_of_some(instruction);
                let asks_for_others = elected.is_some_and(|elected| asks_of(instruction, elected));
                match all.act(program, block.start, index) {
                    Some(Act::Collective) if gathered == Some(guard) || asks_for_others => {}
                    Some(act) => all.acts.push((index as u32, act)),
                    None if instruction.op() == Op::WARPSYNC_ALL => gathered = Some(guard),
                    None => {}
                }
                elected = elected.filter(|&elected| !writes(instruction, elected));
                if instruction.op() == Op::ELECT {
                    let tells = instruction.operand(slot::P).and_then(Operand::as_register);
                    elected = tells.filter(|tells| !tells.is_constant());
                }
                let ends = |guard: &Guard| writes(instruction, guard.predicate);
                let yields = matches!(instruction.op(), Op::YIELD | Op::NANOSLEEP);
                gathered = gathered.filter(|guard| !yields && !ends(guard));
            }
            if asks || takes_turns {
                let exchange = |index: u32| {
                    let op = program.instructions[index as usize].op();
                    if asks { is_exchange(op) } else { is_vote(op) }
                };
                let acts = all.acts.split_off(own);
                let whole =
                    |(index, act): &(u32, Act)| *act != Act::Collective || !exchange(*index);
                all.acts.extend(acts.into_iter().filter(whole));
            }
        }
        all.starts.push(all.acts.len() as u32);
        all
    }

    /// Those of a block, with the index of the instruction.
    pub(super) fn of(&self, block: usize) -> &[(u32, Act)] {
        &self.acts[self.starts[block] as usize..self.starts[block + 1] as usize]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Act> + '_ {
        self.acts.iter().map(|(_, act)| *act)
    }

    fn act(&mut self, program: &Program, start: usize, index: usize) -> Option<Act> {
        let instruction = &program.instructions[index];
        let op = instruction.op();
        let effects = op.row().effects;
        if !effects.intersects(Effects::CONVERGENT | Effects::OTHER) {
            return None;
        }
        let register = |name: SlotName| instruction.operand(name).and_then(Operand::as_register);
        let barrier = register(slot::B).filter(|b| b.class == RegisterClass::B);
        let barrier = barrier.map_or(0, |b| b.index);
        Some(match op {
            Op::BSSY => {
                let site = self.sites.len() as u32;
                self.sites.push(index as u32);
                Act::Open { barrier, site }
            }
            Op::BSYNC => Act::Meet { barrier },
            Op::BREAK => Act::Leave {
                barrier,
                when: when(instruction),
            },
            Op::BMOV_R => Act::Save {
                barrier,
                to: number(register(slot::D)?),
                clears: instruction.modifier(name::CLEAR) == Some(value::CLEAR),
            },
            Op::BMOV_B => Act::Restore {
                barrier,
                from: (register(slot::A))
                    .filter(|from| from.class == RegisterClass::R)
                    .map(number),
            },
            Op::WARPSYNC_ALL if when(instruction) == When::Always => Act::Gather { whole: true },
            Op::WARPSYNC if when(instruction) != When::Always => return None,
            Op::WARPSYNC if instruction.modifier(name::EXCLUSIVE) == Some(value::EXCLUSIVE) => {
                Act::Exclude
            }
            Op::WARPSYNC => Act::Gather {
                whole: is_all_lanes(program, start, index, instruction.operand(slot::A)?),
            },
            Op::WARPSYNC_COLLECTIVE | Op::WARPSYNC_COLLECTIVE_ALL => Act::Collect,
            Op::ENDCOLLECTIVE => Act::EndCollect,
            Op::YIELD | Op::NANOSLEEP => Act::Yield,
            _ if is_collective(instruction) => Act::Collective,
            _ => return None,
        })
    }
}

/// Whether an instruction writes a register.
fn writes(instruction: &Instruction, register: Register) -> bool {
    let accesses = instruction.accesses();
    let mut written = accesses.iter().filter(|access| access.writes);
    written.any(|access| access.registers().any(|written| written == register))
}

/// Whether a mask of lanes that the instruction at `index` reads is known, from the block that starts at `start`, to name all.
pub(super) fn is_all_lanes(program: &Program, start: usize, index: usize, mask: &Operand) -> bool {
    let Operand::Register(mask) = mask else {
        return false;
    };
    if mask.register.is_constant() || mask.modifiers.invert {
        return mask.register.is_constant() && mask.modifiers.invert;
    }
    let mut before = program.instructions[start..index].iter().rev();
    let writer = before.find(|instruction| writes(instruction, mask.register));
    writer.is_some_and(|writer| {
        // `IMAD.MOV` adds it to nothing.
        let moved = match writer.op() {
            Op::MOV | Op::UMOV => slot::B,
            Op::IMAD => slot::C,
            _ => return false,
        };
        let ones = |operand: &Operand| {
            matches!(operand, Operand::Immediate(value) if *value as u32 == u32::MAX)
        };
        let nothing = |name: SlotName| {
            let factor = writer.operand(name).and_then(Operand::as_register);
            factor.is_some_and(Register::is_constant)
        };
        writer.guard().is_always()
            && writer.operand(moved).is_some_and(ones)
            && (writer.op() != Op::IMAD || nothing(slot::A) || nothing(slot::B))
    })
}

/// When a branch, a BREAK or their like has its effect.
pub(super) fn when(instruction: &Instruction) -> When {
    let guard = instruction.guard();
    let mut literals: SmallVec<[(Register, bool); 2]> = SmallVec::new();
    if !guard.is_always() {
        literals.push((guard.predicate, guard.negated));
    }
    for operand in instruction.operands() {
        if let Operand::Register(operand) = operand {
            let predicate = matches!(operand.register.class, RegisterClass::P | RegisterClass::UP);
            let always = operand.register.is_constant() && !operand.modifiers.invert;
            if predicate && !always {
                literals.push((operand.register, operand.modifiers.invert));
            }
        }
    }
    let never = literals
        .iter()
        .any(|(predicate, _)| predicate.is_constant());
    let mut literals: SmallVec<[Literal; 2]> = (literals.into_iter())
        .map(|(predicate, negated)| Literal {
            predicate: number(predicate),
            negated,
        })
        .collect();
    literals.sort_unstable();
    match literals[..] {
        _ if never => When::Sometimes,
        [] => When::Always,
        [first] => When::If(Condition {
            first,
            second: None,
        }),
        [first, second] => When::If(Condition {
            first,
            second: Some(second),
        }),
        _ => When::Sometimes,
    }
}

/// The predicates, of lanes, that decide a branch.
pub(super) fn conditions(instruction: &Instruction) -> impl Iterator<Item = Register> + '_ {
    let of_lanes =
        |register: &Register| register.class == RegisterClass::P && !register.is_constant();
    let operands = (instruction.operands().iter()).filter_map(Operand::as_register);
    operands
        .chain([instruction.guard().predicate])
        .filter(of_lanes)
}

/// Whether it is a vote on a constant: it asks which lanes are running. What lanes exchange around it is meant for those.
fn asks_who_runs(instruction: &Instruction) -> bool {
    let vote = is_vote(instruction.op());
    let asked = || instruction.operand(slot::Q).and_then(Operand::as_register);
    vote && asked().is_some_and(|predicate| predicate.is_constant())
}

/// Whether it is a vote on who was not elected, or was: it asks whether others run, too.
fn asks_of(instruction: &Instruction, elected: Register) -> bool {
    let asked = instruction.operand(slot::Q).and_then(Operand::as_register);
    is_vote(instruction.op()) && asked == Some(elected)
}

/// Whether it elects one of those running lanes for which a predicate holds: lanes take turns, and vote whether one is left. Whoever
/// runs together does so by itself.
fn elects_of_some(instruction: &Instruction) -> bool {
    instruction.op() == Op::ELECT && !instruction.guard().is_always()
}

fn is_vote(op: Op) -> bool {
    matches!(op, Op::VOTE | Op::VOTEU)
}

/// Whether running lanes exchange something.
pub(super) fn is_exchange(op: Op) -> bool {
    matches!(
        op,
        Op::SHFL | Op::VOTE | Op::VOTEU | Op::MATCH_ALL | Op::MATCH_ANY | Op::REDUX
    )
}

/// Whether it multiplies matrices.
pub(super) fn is_matrix(op: Op) -> bool {
    matches!(
        op.mnemonic(),
        Mnemonic::HMMA
            | Mnemonic::IMMA
            | Mnemonic::DMMA
            | Mnemonic::BMMA
            | Mnemonic::HGMMA
            | Mnemonic::IGMMA
            | Mnemonic::QGMMA
            | Mnemonic::BGMMA
    )
}

/// Whether an operation needs the whole warp, or the lanes of a mask that the program has promised to bring: a barrier of the
/// thread block, an exchange or a vote between lanes, a matrix operation.
fn is_collective(instruction: &Instruction) -> bool {
    let op = instruction.op();
    if is_exchange(op) {
        return !asks_who_runs(instruction);
    }
    let whole = matches!(
        op.mnemonic(),
        Mnemonic::BAR
            | Mnemonic::LDSM
            | Mnemonic::STSM
            | Mnemonic::MOVM
            | Mnemonic::WARPGROUP
            | Mnemonic::UCGABAR_ARV
            | Mnemonic::UCGABAR_WAIT
    ) || is_matrix(op);
    whole && op.row().effects.contains(Effects::CONVERGENT)
}
