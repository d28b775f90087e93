//! A function of a cubin as decoded instructions and a control-flow graph.

use orias_cubin::FunctionView;
use orias_cubin::attribute::Value;
use orias_machine::Machine;
use orias_sass::slot_names as slot;
use orias_sass::{
    Control, DecodeError, Effects, Instruction, Operand, PlaceKind, RegisterClass, Target, decode,
};
use std::collections::BTreeSet;
use thiserror::Error;

/// Bytes of an instruction.
pub const WORD: usize = 16;

/// The bits of a word that are its control field.
pub(crate) const CONTROL_FIELD: u128 = ((1 << 24) - 1) << 102 & !(1 << 104);

/// A decoded function.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it runs on.
    pub machine: &'static Machine,
    /// Its name.
    pub name: String,
    /// Its instructions, one each 16 bytes.
    pub instructions: Vec<Instruction>,
    /// Its basic blocks, in order of address.
    pub blocks: Vec<Block>,
    /// The blocks that end with a call of a function in this section, each with the block that function starts at.
    pub calls: Vec<(usize, usize)>,
    /// Whether calls of functions elsewhere come back.
    pub outside: Outside,
    /// Instructions whose control field the machine does not have; they were decoded as if it were the slowest there is.
    pub malformed: Vec<(usize, DecodeError)>,
}

/// Whether calls of functions that are not in the section come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// They do.
    Returns,
    /// They end the program: the only one is `__assertfail`.
    Ends,
    /// Some may not, and nobody says which.
    Unknown,
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
    /// The block that a call comes back to, when the callee is not in this section: everything has settled by then.
    pub resumes: Option<usize>,
    /// Whether the last instruction is a call or a return: nothing of variable latency may be in flight across it.
    pub drains: bool,
    /// Whether a function inside the section starts here.
    pub entry: bool,
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
    /// Decodes a function of a cubin, with the targets of its indirect branches and the functions inside it.
    pub fn of(function: &FunctionView<'_>, target: Target) -> Result<Self, ProgramError> {
        let lists: Vec<_> = (function.attributes.iter())
            .filter_map(|attribute| match &attribute.value {
                Value::IndirectBranches(branches) => Some(branches),
                _ => None,
            })
            .flatten()
            .collect();
        let targets = |offset: usize| {
            let branch = lists
                .iter()
                .find(|branch| branch.offset as usize == offset)?;
            Some(
                branch
                    .targets
                    .iter()
                    .map(|target| *target as usize)
                    .collect(),
            )
        };
        let entries: Vec<usize> = (function.subroutines.iter())
            .filter_map(|(_, symbol)| usize::try_from(symbol.value).ok())
            .collect();
        let ends = |name: &&&str| **name == "__assertfail";
        let ending = function.externs.iter().filter(ends).count();
        let mut program =
            Self::with_entries(function.name, function.code, target, targets, &entries)?;
        program.outside = match ending {
            0 => Outside::Returns,
            ending if ending == function.externs.len() => Outside::Ends,
            _ => Outside::Unknown,
        };
        Ok(program)
    }

    /// Decodes `code`. `indirect` gives the targets of an indirect branch by its offset, if the container lists them.
    pub fn new(
        name: &str,
        code: &[u8],
        target: Target,
        indirect: impl Fn(usize) -> Option<Vec<usize>>,
    ) -> Result<Self, ProgramError> {
        Self::with_entries(name, code, target, indirect, &[])
    }

    /// Like [`Program::new`], with the offsets at which functions inside the section start.
    fn with_entries(
        name: &str,
        code: &[u8],
        target: Target,
        indirect: impl Fn(usize) -> Option<Vec<usize>>,
        entries: &[usize],
    ) -> Result<Self, ProgramError> {
        if !code.len().is_multiple_of(WORD) {
            return Err(ProgramError::Length {
                name: name.to_owned(),
                size: code.len(),
            });
        }
        let mut instructions = Vec::with_capacity(code.len() / WORD);
        let mut malformed = Vec::new();
        for (index, bytes) in code.chunks_exact(WORD).enumerate() {
            let word = bytes
                .iter()
                .rev()
                .fold(0u128, |word, byte| word << 8 | u128::from(*byte));
            match decode(word, target) {
                Ok(instruction) => instructions.push(instruction),
                Err(error) => match decode(slowest(word), target) {
                    Ok(instruction) => {
                        malformed.push((index, error));
                        instructions.push(instruction);
                    }
                    Err(_) => {
                        return Err(ProgramError::Decode {
                            name: name.to_owned(),
                            offset: index * WORD,
                            error,
                        });
                    }
                },
            }
        }
        let mut targets: Vec<Vec<usize>> = vec![Vec::new(); instructions.len()];
        for (index, instruction) in instructions.iter().enumerate() {
            targets[index] = branch_targets(name, &instructions, index, instruction, &indirect)?;
        }
        let (blocks, calls) = blocks(&instructions, &targets, entries);
        Ok(Self {
            machine: Machine::judging(target),
            name: name.to_owned(),
            blocks,
            calls,
            outside: Outside::Unknown,
            instructions,
            malformed,
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
    // A return goes where its register says, and so does a call that has one; the distance is added to it.
    let register = (instruction
        .operands()
        .iter()
        .filter_map(Operand::as_register))
    .any(|register| !matches!(register.class, RegisterClass::P | RegisterClass::UP));
    let indirect_call = effects.contains(Effects::CALL) && register;
    if effects.contains(Effects::RETURN) || indirect_call {
        return Ok(Vec::new());
    }
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

/// The word with a control field that waits for everything, sets nothing and stalls as long as possible.
fn slowest(word: u128) -> u128 {
    let control = Control::default().with_stall(15).unwrap_or_default();
    (word & !CONTROL_FIELD) | control.to_bits() | 0x3f << 116
}

/// Cuts instructions into blocks at targets and behind branches, and joins calls with the returns of what they call.
fn blocks(
    instructions: &[Instruction],
    targets: &[Vec<usize>],
    entries: &[usize],
) -> (Vec<Block>, Vec<(usize, usize)>) {
    if instructions.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let entries: BTreeSet<usize> = (entries.iter().map(|offset| offset / WORD))
        .filter(|index| *index < instructions.len())
        .collect();
    let mut starts: BTreeSet<usize> = targets.iter().flatten().copied().collect();
    starts.insert(0);
    starts.extend(&entries);
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
    let starts: Vec<usize> = starts.into_iter().collect();
    let block_of = |index: usize| starts.partition_point(|start| *start <= index) - 1;
    let mut calls: Vec<Call> = Vec::new();
    let mut blocks: Vec<Block> = starts
        .iter()
        .enumerate()
        .map(|(number, start)| {
            let end = (starts.get(number + 1).copied()).unwrap_or(instructions.len());
            let last = &instructions[end - 1];
            let effects = last.op().row().effects;
            let mut successors: Vec<usize> = (targets[end - 1].iter())
                .map(|target| block_of(*target))
                .collect();
            let next = (end < instructions.len()).then(|| block_of(end));
            let always = is_unconditional(last);
            let mut resumes = None;
            if effects.contains(Effects::CALL) {
                calls.extend(successors.first().zip(next).map(|(callee, site)| Call {
                    block: number,
                    callee: *callee,
                    site,
                }));
                if successors.is_empty() {
                    resumes = next;
                }
                if !always {
                    successors.extend(next);
                }
            } else if !(effects.contains(Effects::TERMINATOR) && always) {
                successors.extend(next);
            }
            successors.sort_unstable();
            successors.dedup();
            Block {
                start: *start,
                end,
                successors,
                resumes,
                drains: effects.intersects(Effects::CALL | Effects::RETURN),
                entry: entries.contains(start),
            }
        })
        .collect();
    join_calls(&mut blocks, &calls, instructions);
    let calls = calls.iter().map(|call| (call.block, call.callee));
    (blocks, calls.collect())
}

/// Whether a branch, call, return or exit has its effect in every lane: no guard, no second predicate that may be false, and
/// no mask of lanes that decides.
pub(crate) fn is_unconditional(instruction: &Instruction) -> bool {
    let row = instruction.op().row();
    let predicates = instruction.operands().iter().all(|operand| match operand {
        Operand::Register(operand) => {
            let class = operand.register.class;
            !matches!(class, RegisterClass::P | RegisterClass::UP)
                || (operand.register.is_constant() && !operand.modifiers.invert)
        }
        _ => true,
    });
    instruction.guard().is_always() && predicates && row.slot_index(slot::M).is_none()
}

/// A call within the section.
struct Call {
    block: usize,
    callee: usize,
    /// Where it comes back to.
    site: usize,
}

/// Lets the returns of each called function lead to where its calls come back.
fn join_calls(blocks: &mut [Block], calls: &[Call], instructions: &[Instruction]) {
    let callees: BTreeSet<usize> = calls.iter().map(|call| call.callee).collect();
    let site = |block: usize| calls.iter().find(|call| call.block == block);
    let mut edges: Vec<(usize, usize)> = Vec::new();
    for callee in callees {
        let mut inside: BTreeSet<usize> = BTreeSet::from([callee]);
        let mut pending = vec![callee];
        let mut returns = Vec::new();
        while let Some(block) = pending.pop() {
            let last = &instructions[blocks[block].end - 1];
            if last.op().row().effects.contains(Effects::RETURN) {
                returns.push(block);
            }
            // A call inside is stepped over.
            let next = match site(block) {
                Some(call) => vec![call.site],
                None => {
                    let mut next = blocks[block].successors.clone();
                    next.extend(blocks[block].resumes);
                    next
                }
            };
            pending.extend(next.into_iter().filter(|next| inside.insert(*next)));
        }
        for call in calls.iter().filter(|call| call.callee == callee) {
            if returns.is_empty() {
                blocks[call.block].resumes = Some(call.site);
            }
            edges.extend(returns.iter().map(|from| (*from, call.site)));
        }
    }
    for (from, to) in edges {
        blocks[from].successors.push(to);
    }
    for block in blocks {
        block.successors.sort_unstable();
        block.successors.dedup();
    }
}
