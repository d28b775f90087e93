//! Linear scan over SSA form: the walk that gives every value a register.
//!
//! Blocks are visited in reverse postorder, instructions in order. At each point the scan knows which value lies in which
//! register ([`File`]). A block starts with its live values where one of its predecessors left them; what the other
//! predecessors left elsewhere is moved on the edge ([`super::edges`]). In SSA form a value has one definition, which comes
//! first, so nothing is ever revisited.
//!
//! At an instruction, values read for the last time give up their registers, and then results are placed: where their class lies
//! ([`super::coalesce`]), else where a call or a return will look for them, else where nobody has booked while they live ([`reservations`]) and they break up least. A result may take a register that the same instruction
//! reads: the chip reads first. Where there is no run of free registers for a tuple, values are moved out of the way by a
//! parallel copy before the instruction. Moves happen for general registers only: a uniform register belongs to the whole
//! warp, and other lanes may be where the value still is in the old place. For the same reason, values of uniform classes that live across
//! blocks share no register with those that live in one block only: lanes in one arm of a branch would write what those in the other arm
//! have yet to read, though it is dead on their own way.
//!
//! Collecting, splitting and copying make no new contents, so their results lie in the same registers as their sources
//! wherever alignment allows, while both live. Only a definition that keeps a value (a guarded instruction, or a place
//! read and written) changes a register in place; it is given a copy first if anyone still needs the old contents.
//!
//! The scan changes nothing: what is to be done is noted ([`edits`]) and done when everything has a place.
//!
//! Cost: one pass; for each result at most one look at each register of its file, and for each of its runs a logarithm of the number of points.

mod boundaries;
mod call;
mod ceiling;
mod edits;
mod placement;
mod reservations;
mod scans;
mod tuples;

use super::calls::{is_call, places};
use super::coalesce::{Classes, Place};
use super::counts::Room;
use super::file::{File, Units, insert};
use super::last_uses::{Kills, LastUses};
use crate::pipeline::PhaseError;
pub(super) use boundaries::BlockBoundaries;
pub(super) use ceiling::{Ceiling, Spent};
use cranelift_entity::{EntityRef, EntitySet};
pub(super) use edits::Edits;
use orias_machine::Machine;
use orias_machine::timing::Completion;
use orias_ori::analysis::{DepthFirst, FlowGraph, Frequencies, Liveness};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Class, Function, Inst, Opcode, Operand, Operation, PhysReg,
    Reg, Type, Value, print_inst,
};
use reservations::Reservations;
use rustc_hash::FxHashMap;
pub(super) use scans::{Manner, Products, Scans};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// Why an allocation did not succeed.
#[derive(Debug)]
pub(super) enum Stop {
    /// No room for a value of this class, though the number of registers should have been enough.
    Full(Class),
    /// It costs more than anybody would pay: a [`Ceiling`] was reached.
    Dear,
    /// An error to be reported.
    Error(PhaseError),
}

impl From<PhaseError> for Stop {
    fn from(error: PhaseError) -> Stop {
        Stop::Error(error)
    }
}

/// Stands for the register of a value whose contents do not matter. No file has so many.
pub(super) const NOWHERE: u8 = u8::MAX;

/// Registers for one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// How many there are.
    pub(super) usable: u8,
    /// How many should do.
    pub(super) enough: u8,
    /// How many leave as many warps.
    pub(super) cheap: u8,
    /// How many cost nothing at all.
    pub(super) free: u8,
    /// For so many instructions operations that read late are taken to read.
    pub(super) late: u32,
}

/// What a function is known by, once it fits.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) graph: &'a FlowGraph,
    pub(super) frequencies: &'a Frequencies,
    pub(super) live: &'a Liveness,
    pub(super) last_uses: &'a LastUses,
    pub(super) walk: &'a DepthFirst,
    pub(super) tokens: &'a FxHashMap<Value, u8>,
}

/// The tuples of general registers that matrix products of warp groups read and write, the widest first.
fn product_values(func: &Function) -> Vec<Value> {
    let machine = Machine::of(func.target);
    let mut values = Vec::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        let op = func.opcode(inst).as_machine();
        if op.is_some_and(|op| machine.is_warpgroup_matrix(op)) {
            func.for_each_register(inst, |reg| values.extend(reg.value()));
        }
    }
    values.retain(|&value| func.value_type(value).class() == Class::R);
    values.sort_by_key(|&value| (Reverse(func.value_type(value).len()), value));
    values.dedup();
    values
}

/// The registers in which calls and returns look for values.
fn wanted_places(func: &Function) -> Result<Vec<Option<u8>>, PhaseError> {
    let mut wanted = Vec::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        if !is_call(func, inst) {
            continue;
        }
        wanted.resize(func.value_count(), None);
        let results = func.result_count(inst);
        for (index, place) in places(func, inst)? {
            let operand = func.operands(inst)[index];
            if index >= results
                && let Some(value) = operand.reg().and_then(Reg::value)
            {
                wanted[value.index()].get_or_insert(place.index());
            }
        }
    }
    Ok(wanted)
}

/// The values of uniform classes that live across blocks.
fn crossing_values(func: &Function, live: &Liveness) -> EntitySet<Value> {
    let mut crossing = EntitySet::new();
    for &value in func.blocks().flat_map(|block| live.live_in(block)) {
        if func.value_type(value).class().is_uniform() {
            crossing.insert(value);
        }
    }
    crossing
}

/// A move of a value's registers before an instruction.
#[derive(Clone, Copy, Debug)]
struct Move {
    value: Value,
    from: u8,
    to: u8,
    ty: Type,
}

/// When an operation reads its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// When it issues.
    AtOnce,
    /// Some time after that, but before what comes behind it in the same queue writes.
    InOrder,
    /// Some time after that.
    Late,
}

/// What happens at one instruction.
#[derive(Default, Debug)]
struct Turn<'a> {
    /// Values read here for the last time.
    dying: &'a [Value],
    /// Registers, by class, that are read here for the last time: nothing is moved there before the instruction.
    pinned: [Units; 5],
    /// Registers, by class, that the instruction's results have been given: they are not moved away.
    taken: [Units; 5],
    /// What is moved before the instruction.
    moves: Vec<Move>,
}

struct Scan<'a> {
    func: &'a Function,
    graph: &'a FlowGraph,
    live: &'a Liveness,
    frequencies: &'a Frequencies,
    last_uses: &'a LastUses,
    edits: Edits,
    classes: Classes,
    /// How many general registers there are where.
    room: Room,
    reservations: Reservations<'a>,
    /// General registers that classes of wide tuples are promised.
    wide: Units,
    /// Where calls and returns want their operands, by value; empty if there are none of them.
    wanted: Vec<Option<u8>>,
    /// Whether each value was given a register.
    placed: Vec<bool>,
    /// The type of each value: the scan makes none.
    types: Vec<Type>,
    /// The instructions of the block, kept for its memory.
    insts: Vec<Inst>,
    files: [File; 5],
    /// The register of each value; none for values whose contents do not matter.
    home: Vec<Option<u8>>,
    clock: u32,
    /// The block that is being scanned.
    block: Block,
    visited: Vec<bool>,
    borders: BlockBoundaries,
    /// Values of uniform classes that live across blocks.
    crossing: &'a EntitySet<Value>,
    /// By class: the registers that such values were given, and those that others were given.
    given: [Given; 5],
    /// Whether uniform values look first for registers that their kind was given before: there was no room for all without that.
    keeps_together: bool,
    ceiling: Option<Ceiling<'a>>,
    /// With a ceiling: what the scan has come to, what that was when it was last looked at, and how many registers had been copied.
    spent: Spent,
    judged: Spent,
    copied: usize,
}

/// Registers of one class that have been given to values that live across blocks, and to those that do not.
#[derive(Clone, Copy, Default)]
struct Given {
    crossing: Units,
    local: Units,
}

impl<'a> Scan<'a> {
    fn ty(&self, value: Value) -> Type {
        self.types[value.index()]
    }

    fn file(&mut self, class: Class) -> &mut File {
        &mut self.files[class as usize]
    }

    fn broken(&self, inst: Inst, what: &str) -> Stop {
        Stop::Error(PhaseError::Broken {
            at: print_inst(self.func, inst),
            what: what.to_owned(),
        })
    }

    fn block(&mut self, block: Block) -> Result<(), Stop> {
        for file in &mut self.files {
            file.clear();
        }
        self.files[Class::R as usize].usable = self.room.at_start(block) as u8;
        self.enter(block)?;
        self.visited[block.index()] = true;
        self.block = block;
        let mut insts = std::mem::take(&mut self.insts);
        insts.clear();
        insts.extend(self.func.block_insts(block));
        let start = self.clock;
        self.clock += insts.len() as u32 + 1;
        for &param in self.last_uses.at(block, insts.len()).unread {
            self.release(param, start);
        }
        for (offset, &inst) in insts.iter().enumerate() {
            let ending = self.last_uses.at(block, insts.len() - 1 - offset);
            self.inst(inst, ending, start + offset as u32)?;
            self.keep_below_ceiling()?;
        }
        self.insts = insts;
        let place = |value: &Value| self.home[value.index()].unwrap_or(NOWHERE);
        let exit = &mut self.borders.exit[self.live.live_out_range(block)];
        for (slot, value) in exit.iter_mut().zip(self.live.live_out(block)) {
            *slot = place(value);
        }
        self.borders.args.begin(block);
        for &edge in self.func.successor_edges(block) {
            let args = self.func.edge_args(edge);
            self.borders.args.places.extend(args.iter().map(place));
        }
        self.count_edges();
        self.keep_below_ceiling()
    }

    /// Puts live values where the predecessor left them that runs most often, and places the parameters.
    fn enter(&mut self, block: Block) -> Result<(), Stop> {
        let from = self
            .graph
            .preds(block)
            .iter()
            .copied()
            .filter(|pred| self.visited[pred.index()])
            .max_by(|&one, &other| {
                let times = |pred| self.frequencies.times(pred);
                times(one).total_cmp(&times(other))
            });
        let live_in = self.live.live_in(block);
        let range = self.live.live_in_range(block);
        if let Some(from) = from {
            let left = self.live.live_out(from);
            let exit = &self.borders.exit[self.live.live_out_range(from)];
            let entry = &mut self.borders.entry[range.clone()];
            let mut next = 0;
            for (&value, slot) in live_in.iter().zip(entry) {
                // What is live here was live there.
                while left[next] < value {
                    next += 1;
                }
                let at = exit[next];
                let ty = self.types[value.index()];
                if ty.class() == Class::B {
                    continue;
                }
                self.home[value.index()] = Some(at).filter(|&at| at != NOWHERE);
                if at != NOWHERE {
                    self.files[ty.class() as usize].occupy(value, at, ty.len());
                    *slot = at;
                }
            }
            self.borders.follows[block.index()] = from.into();
        }
        let func = self.func;
        let params = func.block_params(block);
        let mut turn = Turn::default();
        self.keep_within(&mut turn)?;
        let mut later: SmallVec<[(Value, Option<u8>); 4]> = SmallVec::new();
        for (index, &param) in params.iter().enumerate() {
            if self.ty(param).class() == Class::B {
                continue;
            }
            self.home[param.index()] = None;
            let left = from.and_then(|from| self.left_for(from, block, index));
            if !self.enter_param(param, left) {
                later.push((param, left));
            }
        }
        later.sort_by_key(|&(param, _)| std::cmp::Reverse(self.ty(param).len()));
        for (param, left) in later {
            let left = left.filter(|&at| self.is_free(param, at));
            match left {
                Some(at) if self.classes.is_alone(param) => self.take(param, at),
                _ => self.place(param, &mut turn)?,
            }
        }
        // A live value that had to make room starts out in its new place: the edges bring it there.
        for moved in &turn.moves {
            self.borders.follows[block.index()] = None.into();
            if let Ok(index) = live_in.binary_search(&moved.value) {
                self.borders.entry[range.start + index] = moved.to;
            }
        }
        self.borders.params.begin(block);
        for &param in params {
            let at = self.home[param.index()].filter(|_| self.ty(param).class() != Class::B);
            self.borders.params.places.push(at.unwrap_or(NOWHERE));
        }
        Ok(())
    }

    /// Puts `param` where its class is promised to lie, or else where its argument was `left` if all of its class can lie there.
    fn enter_param(&mut self, param: Value, left: Option<u8>) -> bool {
        let promised = match self.classes.place(param) {
            Some(Place {
                at: Some(at),
                booked: true,
            }) => Some(at),
            _ => None,
        };
        if let Some(at) = promised.filter(|&at| self.is_free(param, at)) {
            self.take(param, at);
            return true;
        }
        let Some(at) = left.filter(|&at| self.is_free(param, at) && self.is_clear(param, at))
        else {
            return false;
        };
        let settled = self.classes.is_alone(param)
            || self.classes.place(param).is_some()
            || self.settle_at(param, at);
        if settled {
            self.take(param, at);
        }
        settled
    }

    /// Where the argument for parameter `index` of `block` lies at the end of `from`.
    fn left_for(&self, from: Block, block: Block, index: usize) -> Option<u8> {
        let mut edges = self.borders.args(self.func, from);
        let (_, places) = edges.find(|&(edge, _)| self.func.edge_target(edge) == block)?;
        let at = *places.get(index)?;
        (at != NOWHERE).then_some(at)
    }

    fn is_free(&self, value: Value, at: u8) -> bool {
        let ty = self.ty(value);
        self.files[ty.class() as usize].is_free(at, ty.len(), &Units::default())
    }

    fn take(&mut self, value: Value, at: u8) {
        let ty = self.ty(value);
        if ty.class() == Class::R && self.files[Class::R as usize].is_read_late(at, ty.len()) {
            self.count_delay();
        }
        self.home[value.index()] = Some(at);
        self.file(ty.class()).occupy(value, at, ty.len());
        if ty.class().is_uniform() {
            let given = &mut self.given[ty.class() as usize];
            let units = match self.crossing.contains(value) {
                true => &mut given.crossing,
                false => &mut given.local,
            };
            insert(units, at, ty.len());
        }
        self.placed[value.index()] = true;
        match self.classes.place(value) {
            None if !self.classes.is_alone(value) => {
                if !self.settle_at(value, at) {
                    self.classes.settle(value, at, false);
                    self.book(value, at);
                }
            }
            Some(place) if place.booked && place.at == Some(at) => {}
            _ => self.book(value, at),
        }
    }

    fn release(&mut self, value: Value, clock: u32) {
        let ty = self.ty(value);
        if ty.class() != Class::B
            && let Some(at) = self.home[value.index()]
        {
            self.file(ty.class()).vacate(value, at, ty.len(), clock);
        }
    }

    fn inst(&mut self, inst: Inst, ending: Kills<'a>, now: u32) -> Result<(), Stop> {
        match self.func.opcode(inst) {
            Opcode::Abstract(AbstractOp::Undef) => {
                self.edits.remove(inst);
                Ok(())
            }
            Opcode::Abstract(AbstractOp::Collect) => self.collect(inst, ending, now),
            Opcode::Abstract(AbstractOp::Split) => self.split(inst, ending, now),
            Opcode::Abstract(AbstractOp::ParCopy) => self.copy(inst, ending, now),
            Opcode::Abstract(AbstractOp::Call | AbstractOp::Ret) => self.call(inst, ending, now),
            Opcode::Abstract(AbstractOp::FallThrough) | Opcode::Machine(_) => {
                self.machine(inst, ending, now)
            }
            Opcode::Abstract(AbstractOp::Unreachable) => Ok(()),
            Opcode::Abstract(op) => Err(Stop::Error(PhaseError::Unsupported(format!(
                "register allocation of `{op}`"
            )))),
        }
    }

    /// What happens where `dying` is read for the last time.
    fn turn(&self, dying: &'a [Value]) -> Turn<'a> {
        let mut turn = Turn {
            dying,
            ..Turn::default()
        };
        for value in dying {
            if let Some(at) = self.home[value.index()] {
                let ty = self.ty(*value);
                insert(&mut turn.pinned[ty.class() as usize], at, ty.len());
            }
        }
        turn
    }

    fn release_all(&mut self, values: &[Value], now: u32) {
        for &value in values {
            self.release(value, now);
        }
    }

    fn machine(&mut self, inst: Inst, ending: Kills<'a>, now: u32) -> Result<(), Stop> {
        let mut turn = self.turn(ending.read);
        let reads = self.reads(inst);
        self.files[Class::R as usize].now = match reads {
            Reads::AtOnce | Reads::Late => now,
            Reads::InOrder => u32::MAX,
        };
        if let Some((_, behind)) = self.room.changed_by(inst) {
            self.files[Class::R as usize].usable = behind as u8;
            self.keep_within(&mut turn)?;
        }
        let mut results: SmallVec<[Value; 4]> = SmallVec::new();
        self.func
            .for_each_def(inst, |reg| results.extend(reg.value()));
        let tied = self.tied(inst);
        let mut in_place: SmallVec<[(Value, PhysReg); 2]> = SmallVec::new();
        for &(result, kept) in &tied {
            let ty = self.ty(kept);
            let Some(at) = self.home[kept.index()] else {
                continue;
            };
            let Some(reg) = PhysReg::tuple(ty.class(), at, ty.len()) else {
                continue;
            };
            let shared = in_place.iter().any(|(_, other)| other.overlaps(reg));
            let file = &self.files[ty.class() as usize];
            let needed = self.crossing.contains(kept)
                || (at..at + ty.len())
                    .flat_map(|unit| file.owners(unit))
                    .any(|owner| !turn.dying.contains(owner));
            if !needed && !shared {
                in_place.push((result, reg));
                continue;
            }
            // Somebody needs the old contents, other lanes perhaps: the instruction works on a copy.
            let pinned = turn.pinned[ty.class() as usize];
            let to = self.find_place(result, &pinned, &mut turn)?;
            self.take(result, to);
            insert(&mut turn.taken[ty.class() as usize], to, ty.len());
            turn.moves.push(Move {
                value: result,
                from: at,
                to,
                ty,
            });
        }
        self.release_all(ending.read, now);
        for (result, reg) in in_place {
            self.take(result, reg.index());
            insert(
                &mut turn.taken[reg.class() as usize],
                reg.index(),
                reg.len(),
            );
        }
        for &result in &results {
            let ty = self.ty(result);
            if ty.class() != Class::B && !tied.iter().any(|&(tied, _)| tied == result) {
                self.home[result.index()] = None;
                self.place(result, &mut turn)?;
            }
        }
        self.edits.rename(self.func, inst, &self.home);
        self.insert_moves(inst, &turn);
        self.release_all(ending.unread, now);
        let file = &mut self.files[Class::R as usize];
        file.now = now;
        if reads != Reads::AtOnce {
            for &value in ending.read {
                if self.types[value.index()].class() == Class::R
                    && let Some(at) = self.home[value.index()]
                {
                    file.read_late(at, self.types[value.index()].len());
                }
            }
        }
        Ok(())
    }

    /// When `inst` reads its registers.
    fn reads(&self, inst: Inst) -> Reads {
        let Operation::Machine(op, _) = self.func.inst(inst).operation() else {
            return Reads::AtOnce;
        };
        match Machine::of(self.func.target).timing(op) {
            Some(timing) if timing.reads_in_order => Reads::InOrder,
            Some(timing) if timing.completion != Completion::Fixed => Reads::Late,
            _ => Reads::AtOnce,
        }
    }

    /// Results of `inst` that start from a value in a register, with that value.
    fn tied(&self, inst: Inst) -> SmallVec<[(Value, Value); 2]> {
        let kept = self.func.kept(inst);
        if kept.is_empty() {
            return SmallVec::new();
        }
        let places = self.func.kept_places(inst).zip(kept);
        places
            .filter_map(|(place, kept)| {
                let result = self.func.operands(inst)[place].as_value()?;
                Some((result, kept.as_value()?))
            })
            .filter(|(result, kept)| {
                self.ty(*result).class() != Class::B && self.home[kept.index()].is_some()
            })
            .collect()
    }

    /// The moves of a turn, as one parallel copy before `inst`.
    fn insert_moves(&mut self, inst: Inst, turn: &Turn<'_>) {
        let moves = turn.moves.iter().filter(|moved| moved.from != moved.to);
        let copies = moves.flat_map(|moved| {
            let (class, len) = (moved.ty.class(), moved.ty.len());
            PhysReg::tuple(class, moved.to, len).zip(PhysReg::tuple(class, moved.from, len))
        });
        self.edits.copy(inst, copies);
    }
}

/// A parallel copy of `(to, from)`, in no block yet; none if there is nothing to copy.
pub(super) fn parallel_copy(func: &mut Function, copies: &[(PhysReg, PhysReg)]) -> Option<Inst> {
    if copies.is_empty() {
        return None;
    }
    let operands: Vec<Operand> = copies
        .iter()
        .map(|&(to, _)| Operand::from(to))
        .chain(copies.iter().map(|&(_, from)| Operand::from(from)))
        .collect();
    let mods = AbstractMods::NONE;
    Some(func.create_abstract(AbstractOp::ParCopy, mods, copies.len(), &operands))
}
