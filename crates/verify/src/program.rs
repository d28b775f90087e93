//! A function of a cubin as decoded instructions and a control-flow graph.

use orias_sass::{DecodeError, Effects, Instruction, PlaceKind, Target, decode};
use std::collections::BTreeSet;
use thiserror::Error;

/// Bytes of an instruction.
pub const WORD: usize = 16;

/// A decoded function.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its instructions, one each 16 bytes.
    pub instructions: Vec<Instruction>,
    /// Its basic blocks, in order of address.
    pub blocks: Vec<Block>,
}

/// Instructions that run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of the first instruction.
    pub start: usize,
    /// Index behind the last instruction.
    pub end: usize,
    /// The blocks that may follow.
    pub successors: Vec<usize>,
    /// Whether the last instruction is a call or a return: nothing may be in flight across it.
    pub drains: bool,
}

/// Why code cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// The text section is not a whole number of instructions.
    #[error("{name}: {size} bytes are not a whole number of instructions")]
    Length {
        /// The function.
        name: String,
        /// Its size.
        size: usize,
    },
    /// A word is no instruction.
    #[error("{name}+{offset:#x}: {error}")]
    Decode {
        /// The function.
        name: String,
        /// Where.
        offset: usize,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// A branch leaves the function.
    #[error("{name}+{offset:#x}: the target {target:#x} is outside the function")]
    Target {
        /// The function.
        name: String,
        /// Where the branch is.
        offset: usize,
        /// Where it goes.
        target: i64,
    },
    /// An indirect branch without a list of targets.
    #[error("{name}+{offset:#x}: the targets of this indirect branch are not known")]
    Indirect {
        /// The function.
        name: String,
        /// Where the branch is.
        offset: usize,
    },
}

impl Program {
    /// Decodes `code`. `indirect` gives the targets of an indirect branch by its offset, if the container lists them.
    pub fn new(
        name: &str,
        code: &[u8],
        target: Target,
        indirect: impl Fn(usize) -> Option<Vec<usize>>,
    ) -> Result<Self, ProgramError> {
        if !code.len().is_multiple_of(WORD) {
            return Err(ProgramError::Length {
                name: name.to_owned(),
                size: code.len(),
            });
        }
        let mut instructions = Vec::with_capacity(code.len() / WORD);
        for (index, bytes) in code.chunks_exact(WORD).enumerate() {
            let word = bytes
                .iter()
                .rev()
                .fold(0u128, |word, byte| word << 8 | u128::from(*byte));
            instructions.push(decode(word, target).map_err(|error| ProgramError::Decode {
                name: name.to_owned(),
                offset: index * WORD,
                error,
            })?);
        }
        let mut targets: Vec<Vec<usize>> = vec![Vec::new(); instructions.len()];
        for (index, instruction) in instructions.iter().enumerate() {
            targets[index] = branch_targets(name, &instructions, index, instruction, &indirect)?;
        }
        Ok(Self {
            name: name.to_owned(),
            blocks: blocks(&instructions, &targets),
            instructions,
        })
    }
}

/// Where a branch may continue besides the next instruction.
fn branch_targets(
    name: &str,
    instructions: &[Instruction],
    index: usize,
    instruction: &Instruction,
    indirect: &impl Fn(usize) -> Option<Vec<usize>>,
) -> Result<Vec<usize>, ProgramError> {
    let effects = instruction.op().row().effects;
    if !effects.intersects(Effects::BRANCH | Effects::CALL) {
        return Ok(Vec::new());
    }
    let offset = index * WORD;
    let outside = |target: i64| ProgramError::Target {
        name: name.to_owned(),
        offset,
        target,
    };
    let to_index = |target: i64| {
        let inside = usize::try_from(target)
            .ok()
            .filter(|target| target.is_multiple_of(WORD));
        inside
            .map(|target| target / WORD)
            .filter(|target| *target < instructions.len())
            .ok_or_else(|| outside(target))
    };
    // Beside a register a distance is only the start of a table: the targets come from the container.
    let table = instruction
        .form()
        .places
        .iter()
        .any(|place| matches!(place.kind, PlaceKind::Target { relative: true, .. }));
    if let Some(distance) = instruction.target().filter(|_| !table) {
        return match to_index(offset as i64 + WORD as i64 + distance) {
            Ok(target) => Ok(vec![target]),
            // A call may leave the function.
            Err(_) if effects.contains(Effects::CALL) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
    }
    // Calls come back to the next instruction, returns leave, and what only waits for lanes to meet (BSYNC) goes on.
    let leaves = effects.contains(Effects::TERMINATOR)
        && !effects.intersects(Effects::CALL | Effects::RETURN);
    if !leaves {
        return Ok(Vec::new());
    }
    match indirect(offset) {
        Some(targets) => targets
            .into_iter()
            .map(|target| to_index(target as i64))
            .collect(),
        None => Err(ProgramError::Indirect {
            name: name.to_owned(),
            offset,
        }),
    }
}

/// Cuts instructions into blocks at targets and behind branches.
fn blocks(instructions: &[Instruction], targets: &[Vec<usize>]) -> Vec<Block> {
    let mut starts: BTreeSet<usize> = targets.iter().flatten().copied().collect();
    starts.insert(0);
    let leaves = |index: usize| {
        let effects = instructions[index].op().row().effects;
        effects.intersects(
            Effects::BRANCH | Effects::CALL | Effects::RETURN | Effects::EXIT | Effects::TERMINATOR,
        )
    };
    for index in 0..instructions.len() {
        if leaves(index) && index + 1 < instructions.len() {
            starts.insert(index + 1);
        }
    }
    if instructions.is_empty() {
        return Vec::new();
    }
    let starts: Vec<usize> = starts.into_iter().collect();
    let block_of = |index: usize| starts.partition_point(|start| *start <= index) - 1;
    starts
        .iter()
        .enumerate()
        .map(|(number, start)| {
            let end = starts
                .get(number + 1)
                .copied()
                .unwrap_or(instructions.len());
            let last = &instructions[end - 1];
            let effects = last.op().row().effects;
            let mut successors: Vec<usize> = targets[end - 1]
                .iter()
                .map(|target| block_of(*target))
                .collect();
            let leaves_for_good = effects.contains(Effects::TERMINATOR) && last.guard().is_always();
            if !leaves_for_good && end < instructions.len() {
                successors.push(block_of(end));
            }
            successors.sort_unstable();
            successors.dedup();
            Block {
                start: *start,
                end,
                successors,
                drains: effects.intersects(Effects::CALL | Effects::RETURN),
            }
        })
        .collect()
}
