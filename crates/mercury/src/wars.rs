//! The resolver of write-after-read hazards: MercGenerateWARs1 (119) and MercGenerateWARs2 (121).
//!
//! An instruction of variable latency reads its sources some time after it issued. Whatever overwrites one of them later must not
//! come before that. What tells that they have been read is a barrier: the reader's read barrier, or its write barrier, since
//! results come after sources.
//!
//! **Detection**, in three stages. Operations of fixed latency are filtered out: they read at issue. Of the others, the tables of the
//! target say which operands are read late (`machine::timing`, `machine::issue`). What is left is followed through the control-flow
//! graph: a late read is open until an instruction waits for a barrier that covers it. A write to an open register is a hazard, of
//! severity 4 where both always run, and of severity 3 where one of them is guarded and may not.
//!
//! **Resolution.** Before opex (119) the instructions that expansion made have no control fields. The reader is marked as needing a
//! barrier, and the cycles that the severity asks for and that do not pass anyway are noted as its penalty: opex reads both. After
//! opex (121) fields are known, and they are changed: a reader without barrier gets the read barrier that fewest others use; the
//! writer waits for it, or, where the writer cannot wait itself (matrix operations of a warpgroup do not), a DEPBAR in front of it
//! does; and the reader stalls for (severity - cycles in between), so that the barrier can be seen. There is no WAITDP on this
//! hardware: the wait mask of the writer does what it would do.
//!
//! **Clean-up.** Waits that repeat a wait of the same block, with no new operation on that barrier in between, are taken out again,
//! and DEPBARs in front of an instruction that waits by itself.
//!
//! The walk is repeated until no hazard is left; each repetition resolves every hazard the last one saw, so two are enough unless a
//! barrier given to a reader comes to cover another one. Each is linear in the size of the stream, times the nesting of loops.

use crate::error::EmitError;
use crate::stream::{Body, Node, NodeData, Origin, Segment, Stream};
use orias_machine::Machine;
use orias_machine::timing::{Completion, Place};
use orias_sass::slot_names as slot;
use orias_sass::{Barrier, Effects, Instruction, Op, Operand, Register, RegisterClass, WaitMask};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Whether control fields are known when the resolver runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fields {
    /// Not those of new instructions: the resolver marks.
    Missing,
    /// All: the resolver changes them.
    Known,
}

/// A write to a register that may still have to be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Hazard {
    /// The instruction that reads it late.
    pub reader: Node,
    /// The one that overwrites it.
    pub writer: Node,
    /// The register.
    pub register: Register,
    /// 3 where one of the two may not run, 4 where both do.
    pub severity: u8,
    /// Cycles between the two, at least.
    pub cycles: u8,
}

/// Severity where one of the two instructions may not run.
const CONDITIONAL: u8 = 3;
/// Severity where both always run.
const ALWAYS: u8 = 4;

/// How often the walk is repeated at most: far more than the two or three that are needed.
const ROUNDS: usize = 64;

/// Resolves hazards, and says how many there were.
pub fn resolve(stream: &mut Stream, fields: Fields) -> Result<usize, EmitError> {
    let mut found = 0;
    for _ in 0..ROUNDS {
        let hazards = detect(stream);
        if hazards.is_empty() {
            break;
        }
        found += hazards.len();
        match fields {
            Fields::Missing => {
                mark(stream, &hazards);
                return Ok(found);
            }
            Fields::Known => {
                for hazard in hazards {
                    settle(stream, hazard)?;
                }
            }
        }
    }
    if fields == Fields::Known && found > 0 {
        clean_up(stream);
    }
    Ok(found)
}

/// The registers an instruction reads some time after it issued.
pub fn late_reads(machine: &Machine, instruction: &Instruction) -> BTreeSet<Register> {
    let op = instruction.op();
    let fixed = machine
        .timing(op)
        .is_none_or(|timing| matches!(timing.completion, Completion::Fixed | Completion::Group));
    let mut late = BTreeSet::new();
    for access in instruction.reads() {
        let class = access.register.class;
        let at = Place::of(instruction, &access);
        let uniform = class == RegisterClass::UR && at != Place::Guard;
        if !fixed && machine.reads_late(op, at, class) || uniform && machine.reads_uniform_late(op)
        {
            late.extend(access.registers());
        }
    }
    late
}

/// Late reads that are not known to be over: the barriers that cover each, and the cycles since.
#[derive(Clone, Default, PartialEq, Eq)]
struct Open {
    readers: BTreeMap<Node, (u8, u8)>,
    registers: BTreeMap<Register, BTreeSet<Node>>,
}

impl Open {
    /// Adds what is open on another path: covered by what covers it on both. Whether anything is new.
    fn join(&mut self, other: &Open) -> bool {
        let mut changed = false;
        for (&reader, &(covers, cycles)) in &other.readers {
            let known = self.readers.contains_key(&reader);
            let entry = self.readers.entry(reader).or_insert((covers, cycles));
            let joined = (entry.0 & covers, entry.1.min(cycles));
            changed |= !known || joined != *entry;
            *entry = joined;
        }
        for (&register, readers) in &other.registers {
            let mine = self.registers.entry(register).or_default();
            let before = mine.len();
            mine.extend(readers);
            changed |= mine.len() != before;
        }
        changed
    }

    fn wait(&mut self, mask: u8) {
        if mask != 0 {
            self.readers.retain(|_, (covers, _)| *covers & mask == 0);
            let readers = &self.readers;
            for open in self.registers.values_mut() {
                open.retain(|reader| readers.contains_key(reader));
            }
            self.registers.retain(|_, open| !open.is_empty());
        }
    }

    /// Takes one instruction; `hazards` gets what it overwrites too early.
    fn step(&mut self, stream: &Stream, node: Node, hazards: &mut BTreeSet<Hazard>) {
        let data = stream.node(node);
        let Some(instruction) = data.instruction() else {
            return;
        };
        self.wait(waits(data, instruction));
        if Machine::of(stream.target).needs_nothing_in_flight(instruction.op()) {
            self.wait(u8::MAX);
        }
        for register in instruction.writes().flat_map(|access| access.registers()) {
            for &reader in self.registers.get(&register).into_iter().flatten() {
                if reader == node {
                    continue;
                }
                let Some(&(_, cycles)) = self.readers.get(&reader) else {
                    continue;
                };
                let guarded = |node: Node| {
                    let body = stream.node(node).instruction();
                    body.is_some_and(|instruction| !instruction.guard().is_always())
                };
                let severity = if guarded(reader) || guarded(node) {
                    CONDITIONAL
                } else {
                    ALWAYS
                };
                hazards.insert(Hazard {
                    reader,
                    writer: node,
                    register,
                    severity,
                    cycles,
                });
            }
        }
        let stall = if data.schedule.known {
            instruction.control.stall().max(1)
        } else {
            1
        };
        for (_, cycles) in self.readers.values_mut() {
            *cycles = cycles.saturating_add(stall);
        }
        let late = late_reads(Machine::of(stream.target), instruction);
        if !late.is_empty() {
            self.readers.insert(node, (sets(data, instruction), stall));
            for register in late {
                self.registers.entry(register).or_default().insert(node);
            }
        }
    }
}

/// The barriers an instruction waits for.
fn waits(data: &NodeData, instruction: &Instruction) -> u8 {
    let mut mask = if data.schedule.known {
        instruction.control.wait.bits()
    } else {
        0
    };
    if instruction.op() == Op::DEPBAR_LE
        && let (Some(Operand::Immediate(barrier)), Some(Operand::Immediate(0))) =
            (instruction.operand(slot::S), instruction.operand(slot::N))
    {
        mask |= 1_u8.checked_shl(*barrier as u32).unwrap_or(0);
    }
    mask
}

/// The barriers that say when an instruction's sources have been read.
fn sets(data: &NodeData, instruction: &Instruction) -> u8 {
    if !data.schedule.known {
        return 0;
    }
    let bit = |barrier: Option<Barrier>| barrier.map_or(0, |barrier| 1 << barrier.index());
    let control = instruction.control;
    bit(control.read_barrier) | bit(control.write_barrier)
}

/// Every hazard, by reader and writer.
pub fn detect(stream: &Stream) -> Vec<Hazard> {
    let mut starts: BTreeMap<Segment, Open> = BTreeMap::new();
    let mut hazards = BTreeSet::new();
    let mut queue: VecDeque<Segment> = stream.segments().collect();
    for segment in stream.segments() {
        starts.insert(segment, Open::default());
    }
    let mut queued: BTreeSet<Segment> = queue.iter().copied().collect();
    while let Some(segment) = queue.pop_front() {
        queued.remove(&segment);
        let Some(mut open) = starts.get(&segment).cloned() else {
            continue;
        };
        for node in stream.nodes(segment) {
            open.step(stream, node, &mut hazards);
        }
        for &to in stream.successors(segment) {
            let start = starts.entry(to).or_default();
            if start.join(&open) && queued.insert(to) {
                queue.push_back(to);
            }
        }
    }
    // A walk that came early may have seen a longer way than the shortest.
    let mut least: BTreeMap<(Node, Node), Hazard> = BTreeMap::new();
    for hazard in hazards {
        let entry = least
            .entry((hazard.reader, hazard.writer))
            .or_insert(hazard);
        entry.cycles = entry.cycles.min(hazard.cycles);
        entry.severity = entry.severity.max(hazard.severity);
    }
    least.into_values().collect()
}

fn mark(stream: &mut Stream, hazards: &[Hazard]) {
    for hazard in hazards {
        let schedule = &mut stream.node_mut(hazard.reader).schedule;
        schedule.barrier_needed = true;
        let penalty = hazard.severity.saturating_sub(hazard.cycles);
        schedule.penalty = schedule.penalty.max(penalty);
    }
}

/// Makes the writer wait for the reader.
fn settle(stream: &mut Stream, hazard: Hazard) -> Result<(), EmitError> {
    let known = covering(stream, hazard.reader);
    let Some(barrier) = known.or_else(|| least_used(stream)) else {
        return Ok(());
    };
    if known.is_none() {
        change(stream, hazard.reader, |instruction| {
            instruction.control.read_barrier = Some(barrier);
        })?;
    }
    let machine = Machine::of(stream.target);
    let needed = hazard.severity.saturating_sub(hazard.cycles);
    if needed > 0 {
        change(stream, hazard.reader, |instruction| {
            let stall = instruction.control.stall().saturating_add(needed);
            // Zero drains, which is longer than anything.
            if instruction.control.stall() == 0 && known.is_some() {
                return;
            }
            let stalled = instruction
                .control
                .with_stall(stall.min(machine.limits.stall_max));
            if let Some(stalled) = stalled {
                instruction.control = stalled;
            }
        })?;
    }
    let Some(writer) = stream.node(hazard.writer).instruction() else {
        return Ok(());
    };
    if !machine.is_warpgroup_matrix(writer.op()) {
        let (had, bit) = (writer.control.wait.bits(), 1 << barrier.index());
        change(stream, hazard.writer, |instruction| {
            instruction.control.wait = WaitMask::from_bits(had | bit).unwrap_or_default();
        })?;
        stream.node_mut(hazard.writer).schedule.resolved |= bit & !had;
        return Ok(());
    }
    let waits = Instruction::build(Op::DEPBAR_LE)
        .operand(Operand::Immediate(u64::from(barrier.index())))
        .operand(Operand::Immediate(0))
        .finish(stream.target)
        .map_err(|error| EmitError::Pseudo {
            function: stream.name.clone(),
            inst: stream.print_node(hazard.writer),
            why: error.to_string(),
        })?;
    let mut node = NodeData::new(Body::Machine(waits), Origin::Wars);
    node.schedule.known = true;
    node.span = stream.node(hazard.writer).span;
    stream.insert_before(hazard.writer, node);
    Ok(())
}

fn covering(stream: &Stream, reader: Node) -> Option<Barrier> {
    let data = stream.node(reader);
    let control = data.instruction()?.control;
    let known = data.schedule.known;
    control
        .read_barrier
        .or(control.write_barrier)
        .filter(|_| known)
}

fn change(
    stream: &mut Stream,
    node: Node,
    edit: impl FnOnce(&mut Instruction),
) -> Result<(), EmitError> {
    let data = stream.node_mut(node);
    data.schedule.known = true;
    if let Body::Machine(instruction) = &mut data.body {
        edit(instruction);
        // The bit that is usually called yield goes with short stalls only.
        if instruction.control.check().is_err() {
            instruction.control.yields = false;
        }
        if let Err(error) = instruction.control.check() {
            return Err(EmitError::Encode {
                function: stream.name.clone(),
                offset: 0,
                inst: stream.print_node(node),
                error: error.into(),
            });
        }
    }
    Ok(())
}

/// The barrier that fewest instructions set; barrier 0 only where no asynchronous copies are counted on it.
fn least_used(stream: &Stream) -> Option<Barrier> {
    let mut uses = [0_u32; Barrier::COUNT as usize];
    for node in stream.segments().flat_map(|segment| stream.nodes(segment)) {
        let Some(instruction) = stream.node(node).instruction() else {
            continue;
        };
        if instruction.op() == Op::LDGDEPBAR {
            uses[0] = u32::MAX;
        }
        let control = instruction.control;
        for barrier in [control.read_barrier, control.write_barrier]
            .into_iter()
            .flatten()
        {
            let count = &mut uses[usize::from(barrier.index())];
            *count = count.saturating_add(1);
        }
    }
    let least = (0..Barrier::COUNT)
        .rev()
        .min_by_key(|&index| uses[usize::from(index)]);
    least.and_then(Barrier::new)
}

/// Takes out waits of the resolver that another wait makes needless.
fn clean_up(stream: &mut Stream) {
    for segment in stream.segments() {
        let nodes: Vec<Node> = stream.nodes(segment).collect();
        // Backwards: a DEPBAR in front of an instruction that waits for the same barrier.
        let mut following = 0;
        for &node in nodes.iter().rev() {
            let data = stream.node(node);
            let Some(instruction) = data.instruction() else {
                continue;
            };
            let mask = waits(data, instruction);
            let needless = data.origin == Origin::Wars && mask != 0 && mask & !following == 0;
            if needless {
                stream.remove(node);
            } else {
                following = mask;
            }
        }
        // Forwards: waits for a barrier that was waited for and has not been set since.
        let mut settled = 0_u8;
        let nodes: Vec<Node> = stream.nodes(segment).collect();
        for node in nodes {
            let data = stream.node(node);
            let Some(instruction) = data.instruction() else {
                continue;
            };
            let (mask, set) = (waits(data, instruction), sets(data, instruction));
            if data.origin == Origin::Wars && mask != 0 && mask & !settled == 0 {
                stream.remove(node);
                continue;
            }
            let needless = data.schedule.resolved & settled;
            if needless != 0 {
                let wait = instruction.control.wait.bits() & !needless;
                let data = stream.node_mut(node);
                data.schedule.resolved &= !needless;
                if let Body::Machine(instruction) = &mut data.body {
                    instruction.control.wait = WaitMask::from_bits(wait).unwrap_or_default();
                }
            }
            settled = (settled | mask) & !set;
            let Some(instruction) = stream.node(node).instruction() else {
                continue;
            };
            if instruction.op().row().effects.contains(Effects::CALL) {
                settled = 0;
            }
        }
    }
}
