//! What runs on by itself must be awaited.
//!
//! Three kinds of copies end later than the instruction that begins them, each with a wait of its own:
//!
//! | begins | closes a group | awaits |
//! | --- | --- | --- |
//! | LDGSTS | LDGDEPBAR | DEPBAR.LE on its barrier, DEPBAR; or ARRIVES.LDGSTSBAR, which hands it to an mbarrier |
//! | UBLKCP, UBLKRED, UTMASTG, UTMAREDG to global memory | UTMACMDFLUSH | DEPBAR.LE, DEPBAR |
//! | UBLKCP, UBLKRED, UTMALDG to shared memory | | SYNCS.PHASECHK |
//!
//! Which bytes of shared memory a copy writes and a load reads is in registers; finished code shows two things all the same:
//!
//! - *Never.* Some way from each copy of a group comes to the end of the group and then to a wait. How many groups that one leaves is not asked: a loop waits for all but the last group, and its last trip,
//!   which nothing waits for, copies nothing. (A copy that hands itself to an mbarrier may be awaited by other warps, so that a wait must only be somewhere.)
//! - *Without bound.* Where shared memory is read, only so many groups of copies to it are under way. A loop that closes a group and reads shared memory in each
//!   trip and waits nowhere is ahead of its copies by any number. Of copies that tell an mbarrier less is asked: the warp that begins them may read other things, as
//!   the producers of CUTLASS do, and leave theirs to others, who say at an mbarrier or a barrier when there is room again; but a loop that begins such copies and reads shared
//!   memory looks at one somewhere.
//!
//! Both are facts that grow over the flow graph; O(instructions) for each round, with as many rounds as loops are nested.

use crate::finding::{Check, Finding};
use crate::judge::alone;
use crate::program::{Block, Program};
use crate::together::never_runs;
use orias_sass::slot_names as slot;
use orias_sass::{
    Instruction, Mnemonic, Op, Operand, modifier_names as name, modifier_values as value,
};

/// A kind of copies that are awaited by groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Copies of single threads, from global to shared memory.
    Threads,
    /// Bulk and tensor copies to global memory.
    Bulk,
}

/// What an instruction is to a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Nothing,
    Begins,
    Closes,
    /// Waits until at most so many groups are under way.
    Waits(u32),
    /// Hands what has begun to an mbarrier.
    HandsOver,
}

/// What waits for copies wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    /// Groups of copies of single threads.
    Groups,
    /// Groups of bulk copies to global memory.
    BulkGroups,
    /// Mbarriers that copies tell.
    Mbarriers,
}

/// The waits of each kind of copies that a program begins.
pub(crate) fn waits(program: &Program) -> Vec<(WaitKind, Vec<usize>)> {
    let of = |kind: WaitKind, it: &Instruction| match kind {
        WaitKind::Groups => matches!(act(it, Family::Threads), Act::Waits(_) | Act::HandsOver),
        WaitKind::BulkGroups => matches!(act(it, Family::Bulk), Act::Waits(_)),
        WaitKind::Mbarriers => it.op() == Op::SYNCS_PHASECHK,
    };
    let begins = |kind: WaitKind, it: &Instruction| match kind {
        WaitKind::Groups => act(it, Family::Threads) == Act::Begins,
        WaitKind::BulkGroups => act(it, Family::Bulk) == Act::Begins,
        WaitKind::Mbarriers => tells_mbarrier(it),
    };
    let kinds = [WaitKind::Groups, WaitKind::BulkGroups, WaitKind::Mbarriers];
    kinds
        .into_iter()
        .filter(|&kind| program.instructions.iter().any(|it| begins(kind, it)))
        .map(|kind| {
            let all = program.instructions.iter().enumerate();
            let waits = all.filter(|(_, it)| of(kind, it)).map(|(at, _)| at);
            (kind, waits.collect::<Vec<usize>>())
        })
        .filter(|(_, waits)| !waits.is_empty())
        .collect()
}

/// Copies that nothing awaits, and reads that are ahead of copies by any number.
pub(crate) fn check(program: &Program) -> Vec<Finding> {
    let mut findings = Vec::new();
    for family in [Family::Threads, Family::Bulk] {
        let begins = |it: &Instruction| act(it, family) == Act::Begins;
        if program.instructions.iter().any(begins) {
            findings.extend(never(program, family));
            // Copies to global memory take nothing from whoever reads shared memory.
            if family == Family::Threads {
                findings.extend(without_bound(program, |it| match act(it, family) {
                    Act::Closes => Some(Change::Another),
                    Act::Waits(left) => Some(Change::Left(left)),
                    _ => None,
                }));
            }
        }
    }
    if program.instructions.iter().any(tells_mbarrier) {
        let untold = untold(program);
        findings.extend(untold.or_else(|| trips_without_a_look(program)));
    }
    findings
}

fn act(instruction: &Instruction, family: Family) -> Act {
    let op = instruction.op();
    let bulk = family == Family::Bulk;
    match op.mnemonic() {
        Mnemonic::LDGSTS if !bulk => Act::Begins,
        Mnemonic::LDGDEPBAR if !bulk => Act::Closes,
        Mnemonic::ARRIVES if !bulk => Act::HandsOver,
        Mnemonic::UTMASTG | Mnemonic::UTMAREDG if bulk => Act::Begins,
        Mnemonic::UBLKCP | Mnemonic::UBLKRED if bulk && to_global(instruction) => Act::Begins,
        Mnemonic::UTMACMDFLUSH if bulk => Act::Closes,
        Mnemonic::DEPBAR if op == Op::DEPBAR_LE => match instruction.operand(slot::N) {
            Some(Operand::Immediate(left)) => Act::Waits(u32::try_from(*left).unwrap_or(0)),
            _ => Act::Waits(0),
        },
        Mnemonic::DEPBAR => Act::Waits(0),
        _ => Act::Nothing,
    }
}

fn to_global(instruction: &Instruction) -> bool {
    instruction.modifier(name::TO) == Some(value::G)
}

/// Whether an instruction begins a copy whose end an mbarrier is told.
fn tells_mbarrier(instruction: &Instruction) -> bool {
    match instruction.op().mnemonic() {
        Mnemonic::UTMALDG => true,
        Mnemonic::UBLKCP | Mnemonic::UBLKRED => !to_global(instruction),
        _ => false,
    }
}

/// Whether an instruction reads shared memory where copies go: loads, loads of matrices, and matrix operations of warpgroups.
fn reads_shared(program: &Program, instruction: &Instruction) -> bool {
    let op = instruction.op();
    matches!(op.mnemonic(), Mnemonic::LDS | Mnemonic::LDSM) && !never_runs(instruction)
        || program.machine.is_warpgroup_matrix(op)
}

/// States of a copy from which a wait can be reached: while its group is open, and once it is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reaches {
    open: bool,
    closed: bool,
}

impl Reaches {
    const ALL: Self = Self {
        open: true,
        closed: true,
    };

    fn or(self, other: Self) -> Self {
        Self {
            open: self.open || other.open,
            closed: self.closed || other.closed,
        }
    }

    /// Before an instruction, given what holds behind it.
    fn before(self, act: Act) -> Self {
        match act {
            Act::Nothing | Act::Begins => self,
            Act::Closes => Self {
                open: self.closed,
                ..self
            },
            Act::Waits(_) => Self {
                closed: true,
                ..self
            },
            Act::HandsOver => Self::ALL,
        }
    }
}

/// Whether code elsewhere goes on behind a block: it may wait.
fn leaves(program: &Program, at: usize) -> bool {
    let block = &program.blocks[at];
    block.drains || block.resumes.is_some() || program.calls.iter().any(|call| call.0 == at)
}

/// Copies from which no way comes to a wait for them; the first of the function.
fn never(program: &Program, family: Family) -> Option<Finding> {
    let count = program.blocks.len();
    let mut starts = vec![Reaches::default(); count];
    let end = |starts: &[Reaches], at: usize| {
        let elsewhere = match leaves(program, at) {
            true => Reaches::ALL,
            false => Reaches::default(),
        };
        let next = program.blocks[at].successors.iter();
        next.fold(elsewhere, |reaches, &next| reaches.or(starts[next]))
    };
    let backwards = |block: &Block, end: Reaches, see: &mut dyn FnMut(usize, Reaches)| {
        let indices = (block.start..block.end).rev();
        indices.fold(end, |reaches, index| {
            see(index, reaches);
            reaches.before(act(&program.instructions[index], family))
        })
    };
    loop {
        let mut changed = false;
        for at in (0..count).rev() {
            let end = end(&starts, at);
            let start = backwards(&program.blocks[at], end, &mut |_, _| {});
            changed |= start != starts[at];
            starts[at] = start;
        }
        if !changed {
            break;
        }
    }
    let first = program.blocks.iter().enumerate().find_map(|(at, block)| {
        let mut lost = None;
        backwards(block, end(&starts, at), &mut |index, reaches| {
            let begins = act(&program.instructions[index], family) == Act::Begins;
            if begins && !reaches.open {
                lost = Some(index);
            }
        });
        lost
    });
    let needed = match family {
        Family::Threads => "a LDGDEPBAR and a wait for it, or an mbarrier that is told",
        Family::Bulk => "a UTMACMDFLUSH and a wait for it",
    };
    first.map(|index| {
        let found = "none on any way".to_owned();
        alone(program, Check::Awaited, index, needed, found)
    })
}

/// The first copy that tells an mbarrier in code in which nobody looks at one.
fn untold(program: &Program) -> Option<Finding> {
    let looks = |it: &Instruction| it.op() == Op::SYNCS_PHASECHK;
    let elsewhere = (0..program.blocks.len()).any(|at| leaves(program, at));
    if elsewhere || program.instructions.iter().any(looks) {
        return None;
    }
    let index = program.instructions.iter().position(tells_mbarrier)?;
    let needed = "a look at an mbarrier, SYNCS.PHASECHK, before what it brings is used";
    Some(alone(
        program,
        Check::Awaited,
        index,
        needed,
        "none".to_owned(),
    ))
}

/// The first copy that tells an mbarrier in a loop that reads shared memory and in which nobody waits for other threads.
fn trips_without_a_look(program: &Program) -> Option<Finding> {
    let any = |at: usize, what: &dyn Fn(&Instruction) -> bool| {
        let block = &program.blocks[at];
        program.instructions[block.start..block.end]
            .iter()
            .any(what)
    };
    let reads = |it: &Instruction| reads_shared(program, it);
    let copies = (0..program.blocks.len()).filter(|&at| any(at, &tells_mbarrier));
    let mut lost = copies.filter(|&at| {
        let members = || in_loop_with(program, at);
        members().any(|it| any(it, &reads))
            && !members().any(|it| any(it, &waits_for_threads) || leaves(program, it))
    });
    let block = &program.blocks[lost.next()?];
    let index = (block.start..block.end).find(|&at| tells_mbarrier(&program.instructions[at]))?;
    let needed = "a look at an mbarrier, SYNCS.PHASECHK, or a barrier in each trip";
    let found = "a loop that reads shared memory and looks at none".to_owned();
    Some(alone(program, Check::Awaited, index, needed, found))
}

/// Whether an instruction waits for what other threads, or copies, say.
fn waits_for_threads(instruction: &Instruction) -> bool {
    let op = instruction.op();
    op == Op::SYNCS_PHASECHK
        || matches!(
            op.mnemonic(),
            Mnemonic::BAR | Mnemonic::UCGABAR_WAIT | Mnemonic::DEPBAR
        )
}

/// What an instruction does to how many copies are under way.
#[derive(Clone, Copy)]
enum Change {
    Another,
    /// At most so many are left.
    Left(u32),
}

/// The blocks from which a way leads to `at` and back; none if it is in no loop.
fn in_loop_with(program: &Program, at: usize) -> impl Iterator<Item = usize> + use<> {
    let walk = |next: &dyn Fn(usize) -> Vec<usize>| {
        let mut seen = vec![false; program.blocks.len()];
        let mut work = vec![at];
        while let Some(at) = work.pop() {
            for next in next(at) {
                if !std::mem::replace(&mut seen[next], true) {
                    work.push(next);
                }
            }
        }
        seen
    };
    let after = |at: usize| -> Vec<usize> {
        let block = &program.blocks[at];
        block
            .successors
            .iter()
            .chain(&block.resumes)
            .copied()
            .collect()
    };
    let mut predecessors: Vec<Vec<usize>> = vec![Vec::new(); program.blocks.len()];
    for from in 0..program.blocks.len() {
        for to in after(from) {
            predecessors[to].push(from);
        }
    }
    let behind = walk(&after);
    let before = walk(&|at| predecessors[at].clone());
    (0..program.blocks.len()).filter(move |&at| behind[at] && before[at])
}

/// The first read of shared memory that any number of copies may be ahead of.
fn without_bound(
    program: &Program,
    change: impl Fn(&Instruction) -> Option<Change>,
) -> Option<Finding> {
    let another = |it: &&Instruction| matches!(change(it), Some(Change::Another));
    // More than there are instructions that begin one: some of them ran twice without a wait in between.
    let beyond = program.instructions.iter().filter(another).count() as u32 + 1;
    let pass = |block: &Block, mut open: u32, see: &mut dyn FnMut(usize, u32)| {
        for index in block.start..block.end {
            let instruction = &program.instructions[index];
            see(index, open);
            open = match change(instruction) {
                Some(Change::Another) => (open + 1).min(beyond),
                Some(Change::Left(left)) => open.min(left),
                None => open,
            };
        }
        open
    };
    let mut starts: Vec<Option<u32>> = vec![None; program.blocks.len()];
    let mut work: Vec<usize> = vec![0];
    for (at, start) in starts.iter_mut().enumerate() {
        if at == 0 || program.blocks[at].entry {
            *start = Some(0);
            work.push(at);
        }
    }
    while let Some(at) = work.pop() {
        let block = &program.blocks[at];
        let open = pass(block, starts[at].unwrap_or(0), &mut |_, _| {});
        // A function that is called may wait.
        let open = if leaves(program, at) { 0 } else { open };
        for &next in block.successors.iter().chain(&block.resumes) {
            if starts[next].is_none_or(|known| known < open) {
                starts[next] = Some(open);
                work.push(next);
            }
        }
    }
    let mut first = None;
    for (at, block) in program.blocks.iter().enumerate() {
        let Some(start) = starts[at] else { continue };
        pass(block, start, &mut |index, open| {
            let reads = reads_shared(program, &program.instructions[index]);
            if reads && open >= beyond && first.is_none() {
                first = Some(index);
            }
        });
    }
    // Which of several waits a trip comes to may depend on a count, and then each can be passed by: one somewhere in the loop is enough.
    let block_of = |index: usize| (program.blocks).partition_point(|block| block.end <= index);
    let waits = |at: usize| {
        let block = &program.blocks[at];
        let left = |it: &Instruction| matches!(change(it), Some(Change::Left(_)));
        program.instructions[block.start..block.end]
            .iter()
            .any(left)
    };
    let first = first.filter(|&index| !in_loop_with(program, block_of(index)).any(waits));
    let needed = "a wait that bounds how many copies are under way";
    first.map(|index| {
        let found = "a loop that begins copies and does not wait".to_owned();
        alone(program, Check::Awaited, index, needed, found)
    })
}
