//! What the pass must know of each instruction, looked up once.
//!
//! Registers are numbered through all five files (*places*), with the tokens of [`orias_machine::issue`] behind them: order that no
//! register expresses is handled like a register that is written and read.

use super::ScoreboardError;
use super::operations::{OperationFacts, Operations, Part, count};
use super::reuse::Sources;
use crate::places;
use cranelift_entity::SecondaryMap;
use orias_machine::Machine;
use orias_machine::issue::{Issue, OrderToken, Role};
use orias_machine::limits::Limits;
use orias_machine::timing::{Completion, Place, ResultGroup, UseGroup};
use orias_ori::{Block, Function, Inst, Operand, Operation, machine};
use orias_sass::{
    Access, EncodeError, Instruction, Mods, Op, Register, RegisterAccess, RegisterClass,
};
use orias_sass::{SlotName, slot_names as slot};
use std::ops::Range;

/// How many places there are: registers of all files, then tokens.
pub(super) const PLACES: usize = FIRST_TOKEN + OrderToken::COUNT;

const FIRST_TOKEN: usize = places::PLACES;

/// The place of a register.
fn place(register: Register) -> u16 {
    places::place(register.class, register.index)
}

fn token_place(token: OrderToken) -> u16 {
    FIRST_TOKEN as u16 + token as u16
}

/// Whether a place is a token: several may be in flight at once, and writing one asks for nothing.
pub(super) fn is_token(place: u16) -> bool {
    usize::from(place) >= FIRST_TOKEN
}

/// A place that an instruction reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) place: u16,
    /// How; none for a token, which only barriers tell about.
    pub(super) used: Option<UseGroup>,
    /// Whether what is still being read there must have been read, too: registers that are handed over.
    pub(super) takes_over: bool,
}

/// When what is written to a place is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrives {
    /// After a number of cycles.
    Fixed(ResultGroup),
    /// When a barrier of the control word says so.
    Barrier(EventKind),
    /// When something else says so: a wait for a warpgroup's matrix operations.
    Elsewhere,
    /// It is there: the instruction has waited by itself.
    Already,
}

/// A place that an instruction writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) place: u16,
    pub(super) arrives: Arrives,
}

/// The two things a barrier of the control word can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// The results have been written.
    Written,
    /// The sources have been read.
    Released,
}

/// What is known of one instruction.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    pub(super) inst: Inst,
    pub(super) op: Op,
    pub(super) reads: Range<u32>,
    pub(super) late: Range<u32>,
    pub(super) writes: Range<u32>,
    pub(super) completion: Completion,
    /// Whether its general registers are read in the order of the memory queue.
    pub(super) memory_queue: bool,
    /// Whether it may not take effect, so that what was written before shines through.
    pub(super) guarded: bool,
    /// Whether nothing may be in flight when it issues.
    pub(super) alone: bool,
    /// Whether it ends a group of asynchronous copies, which DEPBAR counts on barrier 0.
    pub(super) counts_copies: bool,
    /// Whether it is a barrier between threads, which takes some cycles to hold back what follows.
    pub(super) settles: bool,
    /// Whether it is a texture operation.
    pub(super) texture: bool,
    pub(super) issue: Issue,
    /// Cycles until a result of variable latency is there, as a rule.
    pub(super) typical: i32,
    /// Cycles until the sources have been read, as a rule.
    pub(super) release: i32,
}

impl Fact {
    /// Whether it has results, or sources, of which only a barrier tells.
    pub(super) fn is_variable(&self) -> bool {
        !matches!(self.completion, Completion::Fixed | Completion::Group)
    }
}

/// A run of instructions and the blocks that may follow.
#[derive(Clone, Debug)]
pub(super) struct BlockCode {
    /// Indices of its instructions.
    pub(super) range: Range<usize>,
    /// Indices of the blocks that may follow.
    pub(super) successors: Vec<usize>,
    /// The blocks that may come before.
    pub(super) predecessors: Vec<usize>,
    /// Indices of the instructions that may come next after the last one.
    pub(super) heads: Vec<usize>,
}

/// A function as the pass sees it.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) facts: Vec<Fact>,
    /// By instruction: what it reads in the positions of sources; none if it does not go through them.
    pub(super) sources: Vec<Option<Sources>>,
    pub(super) blocks: Vec<BlockCode>,
    /// Blocks in reverse postorder; the ones that no edge reaches (subroutines among them) start walks of their own.
    pub(super) order: Vec<usize>,
    /// What it is to run on.
    pub(super) machine: &'static Machine,
    /// The blocks that walks start with: entered with nothing in flight.
    pub(super) roots: Vec<usize>,
    /// Whether barrier 0 counts groups of asynchronous copies, or somebody asks how many it counts.
    pub(super) copies_own_zero: bool,
    reads: Vec<Read>,
    late: Vec<u16>,
    writes: Vec<Write>,
}

impl Code {
    pub(super) fn reads(&self, index: usize) -> &[Read] {
        let range = &self.facts[index].reads;
        &self.reads[range.start as usize..range.end as usize]
    }

    /// The places that are read some time after issue.
    pub(super) fn late(&self, index: usize) -> &[u16] {
        let range = &self.facts[index].late;
        &self.late[range.start as usize..range.end as usize]
    }

    pub(super) fn writes(&self, index: usize) -> &[Write] {
        let range = &self.facts[index].writes;
        &self.writes[range.start as usize..range.end as usize]
    }

    /// Looks up everything about `func`.
    pub(super) fn new(func: &Function) -> Result<Code, ScoreboardError> {
        let machine = Machine::of(func.target);
        let (count, given) = count(func, machine);
        let mut operations = Operations::new(machine, given);
        let mut code = Code {
            machine,
            facts: Vec::with_capacity(count),
            sources: Vec::with_capacity(count),
            blocks: Vec::new(),
            order: Vec::new(),
            roots: Vec::new(),
            copies_own_zero: false,
            reads: Vec::with_capacity(2 * count),
            late: Vec::new(),
            writes: Vec::with_capacity(count),
        };
        let mut numbers: SecondaryMap<Block, usize> = SecondaryMap::new();
        for (number, block) in func.blocks().enumerate() {
            numbers[block] = number;
        }
        for block in func.blocks() {
            let start = code.facts.len();
            for inst in func.block_insts(block) {
                let Operation::Machine(op, mods) = func.inst(inst).operation() else {
                    continue;
                };
                code.add(func, inst, mods, operations.of(op)?)?;
                if op == Op::WARPGROUP_ARRIVE {
                    code.hand_over(func, inst)?;
                }
                if op == Op::USETMAXREG_DEALLOC {
                    code.give_back(func, inst);
                }
            }
            code.blocks.push(BlockCode {
                range: start..code.facts.len(),
                successors: func.successors(block).map(|to| numbers[to]).collect(),
                predecessors: Vec::new(),
                heads: Vec::new(),
            });
        }
        code.find_predecessors();
        let counts =
            |fact: &Fact| fact.counts_copies || matches!(fact.op, Op::DEPBAR_LE | Op::DEPBAR);
        code.copies_own_zero = code.facts.iter().any(counts);
        code.find_heads();
        code.find_order();
        code.find_end();
        Ok(code)
    }

    fn add(
        &mut self,
        func: &Function,
        inst: Inst,
        mods: Mods,
        known: &mut OperationFacts,
    ) -> Result<(), ScoreboardError> {
        let op = known.op;
        let starts = [self.reads.len(), self.late.len(), self.writes.len()];
        let mut instruction = None;
        // Most operations tell all there is to know without being encoded.
        if !known.plain || self.add_plain(func, inst, mods, known)?.is_none() {
            self.reads.truncate(starts[0]);
            self.late.truncate(starts[1]);
            self.writes.truncate(starts[2]);
            instruction = encoded(func, inst)?;
        }
        if let Some(instruction) = &instruction {
            check_named_barriers(instruction, self.machine.limits)?;
            for access in instruction.accesses() {
                self.add_access(access, Place::of(instruction, &access), mods, known)?;
            }
        }
        // Whoever has no result has acquired nothing: nobody waits for an atomic operation's end to drop what was read before.
        let acquires = self.writes.len() > starts[2];
        let counts =
            |&token: &(OrderToken, Role)| acquires || token != (OrderToken::Acquire, Role::Writes);
        match (&known.tokens, &instruction) {
            (Some(tokens), _) => self.add_tokens(tokens.iter().copied().filter(counts)),
            (None, Some(instruction)) => {
                let tokens = self.machine.tokens(instruction).filter(counts);
                self.add_tokens(tokens.filter(|token| known.minds(*token)));
            }
            (None, None) => {}
        }
        self.sources.push(match known.fact.completion {
            Completion::Fixed => {
                let sources = Sources::of(func, inst, op, func.target);
                Some(sources.map_err(|error| broken(func, inst, &error))?)
            }
            _ => None,
        });
        self.facts.push(Fact {
            inst,
            reads: starts[0] as u32..self.reads.len() as u32,
            late: starts[1] as u32..self.late.len() as u32,
            writes: starts[2] as u32..self.writes.len() as u32,
            guarded: !func.inst(inst).guard().is_always(),
            issue: match &instruction {
                Some(instruction) => self.machine.issue(instruction),
                None => known.fact.issue,
            },
            ..known.fact.clone()
        });
        Ok(())
    }

    /// Adds what a plain instruction reads and writes, where its operation and its operands tell all that must be known of it: registers,
    /// immediates and constants, a guard that may be true, and nothing else that counts. None if that is not so.
    fn add_plain(
        &mut self,
        func: &Function,
        inst: Inst,
        mods: Mods,
        known: &mut OperationFacts,
    ) -> Result<Option<()>, ScoreboardError> {
        let op = known.op;
        if let Some(reg) = func.inst(inst).guard().reg() {
            let Some(reg) = reg.phys().filter(|reg| !reg.is_constant()) else {
                // A constant one says that the instruction never runs.
                return Ok(None);
            };
            let access = RegisterAccess {
                register: Register::new(reg.class().into(), reg.index()),
                count: 1,
                reads: true,
                writes: false,
                slot: None,
            };
            self.add_access(access, Place::Guard, mods, known)?;
        }
        let slots = op.row().slots;
        for (slot, operand) in func.operands(inst).iter().enumerate() {
            let (reg, count, access) = match operand {
                Operand::Reg { reg, .. } => {
                    let (Some(reg), Some(row)) = (reg.phys(), slots.get(slot)) else {
                        return Ok(None);
                    };
                    if reg.is_constant() {
                        continue;
                    }
                    (reg, machine::slot_width(op, mods, slot), row.access)
                }
                Operand::Const { index, .. } => match index.get().map(|reg| reg.phys()) {
                    Some(Some(reg)) => (reg, 1, Access::Read),
                    Some(None) => return Ok(None),
                    None => continue,
                },
                Operand::Imm(_) | Operand::Special(_) => continue,
                // What is left out stands for a constant register.
                Operand::None => continue,
                _ => return Ok(None),
            };
            if count > 0 && !reg.is_constant() {
                let slot = slot as u8;
                let access = RegisterAccess {
                    register: Register::new(reg.class().into(), reg.index()),
                    count,
                    reads: access.reads(),
                    writes: access.writes(),
                    slot: Some(slot),
                };
                self.add_access(access, Place::Slot(slot), mods, known)?;
            }
        }
        Ok(Some(()))
    }

    fn add_access(
        &mut self,
        access: RegisterAccess,
        at: Place,
        mods: Mods,
        known: &mut OperationFacts,
    ) -> Result<(), ScoreboardError> {
        let class = access.register.class;
        let reads_late = known.reads_late
            && at != Place::Guard
            && (class == RegisterClass::R && known.fact.completion != Completion::Fixed
                || class == RegisterClass::UR && known.reads_uniform_late);
        for (offset, register) in access.registers().enumerate() {
            let place = place(register);
            let part = Part {
                at,
                class,
                offset: offset as u8,
            };
            if access.reads {
                let used = known.used(part, mods)?;
                self.reads.push(Read {
                    place,
                    used: Some(used),
                    takes_over: false,
                });
                if reads_late {
                    self.late.push(place);
                }
            }
            if access.writes {
                let arrives = known.arrives(part, mods)?;
                self.writes.push(Write { place, arrives });
            }
        }
        Ok(())
    }

    fn add_tokens(&mut self, tokens: impl Iterator<Item = (OrderToken, Role)>) {
        for (token, role) in tokens {
            let place = token_place(token);
            let arrives = match role {
                Role::Needs => {
                    self.reads.push(Read {
                        place,
                        used: None,
                        takes_over: false,
                    });
                    continue;
                }
                Role::Writes => Arrives::Barrier(EventKind::Written),
                Role::Releases => Arrives::Barrier(EventKind::Released),
                Role::Ensures => Arrives::Already,
            };
            self.writes.push(Write { place, arrives });
        }
    }

    /// WARPGROUP.ARRIVE, which has been added last, hands the registers of the matrix operations behind it over to the tensor cores:
    /// whatever is in flight for them must be over by then. (ptxas never lets a matrix operation itself wait.)
    fn hand_over(&mut self, func: &Function, arrive: Inst) -> Result<(), ScoreboardError> {
        let mut taken = [false; PLACES];
        let mut next = func.layout.next_inst(arrive);
        while let Some(inst) = next {
            next = func.layout.next_inst(inst);
            let Some(op) = func.opcode(inst).as_machine() else {
                continue;
            };
            if op == Op::WARPGROUP_ARRIVE {
                break;
            }
            if !self.machine.is_warpgroup_matrix(op) {
                continue;
            }
            for access in encoded(func, inst)?.iter().flat_map(|i| i.accesses()) {
                for register in access.registers() {
                    taken[usize::from(place(register))] = true;
                }
            }
        }
        for place in (0..PLACES).filter(|&place| taken[place]) {
            self.reads.push(Read {
                place: place as u16,
                used: None,
                takes_over: true,
            });
        }
        if let Some(fact) = self.facts.last_mut() {
            fact.reads.end = self.reads.len() as u32;
        }
        Ok(())
    }

    /// USETMAXREG.DEALLOC, which has been added last, gives registers to others: whatever is in flight for them must be over by then. (ptxas waits there, too.)
    fn give_back(&mut self, func: &Function, inst: Inst) {
        let Some(Operand::Imm(left)) = func.operands(inst).first() else {
            return;
        };
        let registers = (0..=u8::MAX).map(|index| Register::new(RegisterClass::R, index));
        for register in registers.filter(|it| it.exists() && !it.is_constant()) {
            if u64::from(register.index) >= left.bits() {
                self.reads.push(Read {
                    place: place(register),
                    used: None,
                    takes_over: true,
                });
            }
        }
        if let Some(fact) = self.facts.last_mut() {
            fact.reads.end = self.reads.len() as u32;
        }
    }

    fn find_predecessors(&mut self) {
        for number in 0..self.blocks.len() {
            for index in 0..self.blocks[number].successors.len() {
                let successor = self.blocks[number].successors[index];
                self.blocks[successor].predecessors.push(number);
            }
        }
    }

    /// The instructions that may come next after each block, looking through empty blocks.
    fn find_heads(&mut self) {
        for number in 0..self.blocks.len() {
            let mut seen = vec![number];
            let mut heads = Vec::new();
            let mut next = self.blocks[number].successors.clone();
            while let Some(block) = next.pop() {
                let code = &self.blocks[block];
                if !code.range.is_empty() {
                    if !heads.contains(&code.range.start) {
                        heads.push(code.range.start);
                    }
                } else if !seen.contains(&block) {
                    seen.push(block);
                    next.extend(&code.successors);
                }
            }
            self.blocks[number].heads = heads;
        }
    }

    /// The branch to itself that stands behind the last exit never runs; its control word says 0, as ptxas has it.
    fn find_end(&mut self) {
        for &root in &self.roots {
            let block = &self.blocks[root];
            if block.successors == [root] && block.range.len() == 1 {
                self.facts[block.range.start].issue.drains = true;
            }
        }
    }

    /// Reverse postorder from the entry, then from every block that is still not reached.
    fn find_order(&mut self) {
        let count = self.blocks.len();
        let mut seen = vec![false; count];
        let mut walks: Vec<Vec<usize>> = Vec::new();
        for root in 0..count {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            self.roots.push(root);
            let mut post = Vec::new();
            let mut stack = vec![(root, 0)];
            while let Some((block, next)) = stack.last_mut() {
                match self.blocks[*block].successors.get(*next) {
                    Some(&to) => {
                        *next += 1;
                        if !std::mem::replace(&mut seen[to], true) {
                            stack.push((to, 0));
                        }
                    }
                    None => {
                        post.push(*block);
                        stack.pop();
                    }
                }
            }
            post.reverse();
            walks.push(post);
        }
        self.order = walks.into_iter().flatten().collect();
    }
}

/// Why an instruction has no encoding.
fn broken(func: &Function, inst: Inst, error: &EncodeError) -> ScoreboardError {
    ScoreboardError::Instruction {
        inst: orias_ori::print_inst(func, inst),
        what: error.to_string(),
    }
}

/// The instruction that `inst` stands for; none for what is no instruction.
fn encoded(func: &Function, inst: Inst) -> Result<Option<Instruction>, ScoreboardError> {
    machine::placeless(func, inst, func.target)
        .transpose()
        .map_err(|error| broken(func, inst, &error))
}

/// A DEPBAR that counts on a barrier other than the one asynchronous copies own names a control word that is about to change.
fn check_named_barriers(instruction: &Instruction, limits: &Limits) -> Result<(), ScoreboardError> {
    let all = (1 << limits.barriers) - 1;
    let copies = u64::from(limits.copy_scoreboard);
    let named = |name: SlotName| match instruction.operand(name) {
        Some(orias_sass::Operand::Immediate(value)) => *value,
        _ => 0,
    };
    let op = instruction.op();
    let names_others = (op == Op::DEPBAR_LE && (named(slot::S) != copies || named(slot::SET) != 0))
        || (op == Op::DEPBAR && ![0, all].contains(&named(slot::SET)));
    if names_others {
        return Err(ScoreboardError::NamesBarrier { op });
    }
    Ok(())
}
