//! The scan that gives every value a register.
//!
//! Blocks are visited in reverse postorder, instructions in order. At each point the scan knows which value lies in which
//! register ([`File`]). A block starts with its live values where one of its predecessors left them; what the other
//! predecessors left elsewhere is moved on the edge ([`super::edges`]). In SSA form a value has one definition, which comes
//! first, so nothing is ever revisited.
//!
//! At an instruction, values read for the last time give up their registers, and then results are placed: where their group
//! wishes ([`super::affinity`]), else where they break up least. A result may take a register that the same instruction
//! reads: the chip reads first. Where there is no run of free registers for a tuple, values are moved out of the way by a
//! parallel copy before the instruction. Moves happen for general registers only: a uniform register belongs to the whole
//! warp, and other lanes may be where the value still is in the old place.
//!
//! Collecting, splitting and copying make no new contents, so their results lie in the same registers as their sources
//! wherever alignment allows, while both live. Only a definition that keeps a value (a guarded instruction, or a place
//! read and written) changes a register in place; it is given a copy first if anyone still needs the old contents.
//!
//! Cost: one pass; for each result at most one look at each register of its file.

mod call;
mod room;
mod tuples;

use super::affinity::Affinity;
use super::file::{File, Units, insert};
use crate::pipeline::PhaseError;
use cranelift_entity::EntityRef;
use orias_ori::analysis::{DepthFirst, FlowGraph, Liveness, LoopNest};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Class, Function, Inst, Opcode, Operand, PhysReg, Reg, RegKind,
    Type, Value, print_inst,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Why an allocation did not succeed.
#[derive(Debug)]
pub(super) enum Stop {
    /// No room for a value of this class, though the number of registers should have been enough.
    Full(Class),
    /// An error to be reported.
    Error(PhaseError),
}

impl From<PhaseError> for Stop {
    fn from(error: PhaseError) -> Stop {
        Stop::Error(error)
    }
}

/// Where values lie at the borders of blocks, sorted by value.
pub(super) type Places = Vec<(Value, u8)>;

/// The register of `value` in `places`.
pub(super) fn look_up(places: &Places, value: Value) -> Option<u8> {
    let index = places
        .binary_search_by_key(&value, |&(value, _)| value)
        .ok()?;
    Some(places[index].1)
}

/// Looks values up in ascending order: all together in one pass.
pub(super) struct Walk<'a> {
    rest: &'a [(Value, u8)],
}

impl<'a> Walk<'a> {
    pub(super) fn new(places: &'a Places) -> Walk<'a> {
        Walk { rest: places }
    }

    /// The register of `value`, which is not below those asked for before.
    pub(super) fn look_up(&mut self, value: Value) -> Option<u8> {
        while let [(first, at), rest @ ..] = self.rest {
            if *first >= value {
                return (*first == value).then_some(*at);
            }
            self.rest = rest;
        }
        None
    }
}

/// Adds `more`, in any order and perhaps there already, to `places`.
fn add_places(places: &mut Places, more: Places) {
    if more.is_empty() {
        return;
    }
    let known = places.len();
    places.extend(more);
    places[known..].sort_unstable();
    if known == 0 || places[known - 1] > places[known] {
        // Two sorted runs: a stable sort merges them.
        places.sort();
    }
    places.dedup();
}

/// What the scan found out.
#[derive(Debug)]
pub(super) struct Borders {
    /// By block: live values and parameters at the start.
    pub(super) entry: Vec<Places>,
    /// By block: live values and arguments of edges at the end.
    pub(super) exit: Vec<Places>,
    /// How many registers of each class are used.
    pub(super) used: [u8; 5],
}

/// Registers for one class: how many there are, how many should do, and how many cost nothing more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) usable: u8,
    pub(super) enough: u8,
    pub(super) cheap: u8,
}

/// Gives registers to all values of `func`. Edges still carry arguments afterwards.
pub(super) fn assign(
    func: &mut Function,
    graph: &FlowGraph,
    live: &Liveness,
    loops: &LoopNest,
    tokens: &FxHashMap<Value, u8>,
    budgets: [Budget; 5],
) -> Result<Borders, Stop> {
    let fixed = func.attributes.fixed.clone();
    let files = Class::ALL.map(|class| {
        let budget = budgets[class as usize];
        let fixed = fixed
            .iter()
            .filter(|reg| reg.class() == class)
            .flat_map(|reg| reg.units())
            .map(|unit| unit.index());
        File::new(class, budget.usable, budget.enough, budget.cheap, fixed)
    });
    let mut scan = Scan {
        affinity: Affinity::new(func, loops),
        types: (0..func.value_count())
            .map(|number| func.value_type(Value::new(number)))
            .collect(),
        insts: Vec::new(),
        home: vec![None; func.value_count()],
        last_use: vec![0; func.value_count()],
        files,
        clock: 1,
        visited: vec![false; graph.block_count()],
        borders: Borders {
            entry: vec![Places::new(); graph.block_count()],
            exit: vec![Places::new(); graph.block_count()],
            used: [0; 5],
        },
        func,
        graph,
        live,
        loops,
    };
    for (&token, &register) in tokens {
        scan.home[token.index()] = Some(register);
    }
    let walk = DepthFirst::new(graph);
    let reachable: Vec<Block> = walk.reverse_postorder().collect();
    let unreachable: Vec<Block> = scan
        .func
        .blocks()
        .filter(|&block| !walk.is_reachable(block))
        .collect();
    for block in reachable.into_iter().chain(unreachable) {
        scan.block(block)?;
    }
    let mut borders = scan.borders;
    for class in Class::ALL {
        borders.used[class as usize] = scan.files[class as usize].used;
    }
    for &register in tokens.values() {
        let used = &mut borders.used[Class::B as usize];
        *used = (*used).max(register + 1);
    }
    Ok(borders)
}

/// A move of a value's registers before an instruction.
#[derive(Clone, Copy, Debug)]
struct Move {
    value: Value,
    from: u8,
    to: u8,
    ty: Type,
}

/// What happens at one instruction.
#[derive(Default, Debug)]
struct Turn {
    /// Values read here for the last time.
    dying: SmallVec<[Value; 6]>,
    /// Registers, by class, that are read here for the last time: nothing is moved there before the instruction.
    pinned: [Units; 5],
    /// Registers, by class, that the instruction's results have been given: they are not moved away.
    taken: [Units; 5],
    /// What is moved before the instruction.
    moves: Vec<Move>,
}

struct Scan<'a> {
    func: &'a mut Function,
    graph: &'a FlowGraph,
    live: &'a Liveness,
    loops: &'a LoopNest,
    affinity: Affinity,
    /// The type of each value: the scan makes none.
    types: Vec<Type>,
    /// The instructions of the block, kept for its memory.
    insts: Vec<Inst>,
    files: [File; 5],
    /// The register of each value; none for values whose contents do not matter.
    home: Vec<Option<u8>>,
    /// The clock of each value's last use in the current block; `u32::MAX` if it lives on.
    last_use: Vec<u32>,
    clock: u32,
    visited: Vec<bool>,
    borders: Borders,
}

impl Scan<'_> {
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
        self.enter(block)?;
        self.visited[block.index()] = true;
        let mut insts = std::mem::take(&mut self.insts);
        insts.clear();
        insts.extend(self.func.block_insts(block));
        let start = self.clock;
        self.clock += insts.len() as u32 + 1;
        for (offset, &inst) in insts.iter().enumerate() {
            self.func.for_each_use(inst, |reg| {
                if let Some(value) = reg.value() {
                    self.last_use[value.index()] = start + offset as u32;
                }
            });
        }
        for &value in self.live.live_out(block) {
            self.last_use[value.index()] = u32::MAX;
        }
        // Arguments stay where they are until the edge has moved them.
        for &edge in self.func.successor_edges(block) {
            for &value in self.func.edge_args(edge) {
                self.last_use[value.index()] = u32::MAX;
            }
        }
        // Parameters and values of the entry that nobody reads.
        for &param in self.func.block_params(block).to_vec().iter() {
            if self.last_use[param.index()] < start {
                self.release(param, start);
            }
        }
        for (offset, &inst) in insts.iter().enumerate() {
            self.inst(inst, start + offset as u32)?;
        }
        self.insts = insts;
        let place = |&value: &Value| self.home[value.index()].map(|at| (value, at));
        let live_out = self.live.live_out(block);
        let mut exit = Places::with_capacity(live_out.len());
        exit.extend(live_out.iter().filter_map(place));
        let edges = self.func.successor_edges(block);
        let args = edges.iter().flat_map(|&edge| self.func.edge_args(edge));
        add_places(&mut exit, args.filter_map(place).collect());
        self.borders.exit[block.index()] = exit;
        Ok(())
    }

    /// Puts live values where a predecessor left them, and places the parameters.
    fn enter(&mut self, block: Block) -> Result<(), Stop> {
        let from = self
            .graph
            .preds(block)
            .iter()
            .copied()
            .filter(|pred| self.visited[pred.index()])
            .max_by_key(|&pred| self.loops.block_depth(pred));
        let live_in = self.live.live_in(block);
        let mut entry = Places::with_capacity(live_in.len() + self.func.block_params(block).len());
        if let Some(from) = from {
            let mut left = Walk::new(&self.borders.exit[from.index()]);
            for &value in live_in {
                let ty = self.types[value.index()];
                if ty.class() == Class::B {
                    continue;
                }
                let home = left.look_up(value);
                self.home[value.index()] = home;
                if let Some(at) = home {
                    self.files[ty.class() as usize].occupy(value, at, ty.len());
                    entry.push((value, at));
                }
            }
        }
        let params = self.func.block_params(block).to_vec();
        let mut turn = Turn::default();
        let mut later = Vec::new();
        for (index, &param) in params.iter().enumerate() {
            if self.ty(param).class() == Class::B {
                continue;
            }
            self.home[param.index()] = None;
            match from.and_then(|from| self.left_for(from, block, index)) {
                Some(at) if self.is_free(param, at) => {
                    self.take(param, at);
                }
                _ => later.push(param),
            }
        }
        for param in later {
            self.place(param, &mut turn)?;
        }
        // A live value that had to make room starts out in its new place: the edges bring it there.
        for moved in &turn.moves {
            if let Some(place) = entry.iter_mut().find(|(value, _)| *value == moved.value) {
                place.1 = moved.to;
            }
        }
        let mut placed = Places::new();
        for &param in &params {
            if let Some(at) = self.home[param.index()]
                && self.ty(param).class() != Class::B
            {
                placed.push((param, at));
            }
        }
        add_places(&mut entry, placed);
        self.borders.entry[block.index()] = entry;
        Ok(())
    }

    /// Where the argument for parameter `index` of `block` lies at the end of `from`.
    fn left_for(&self, from: Block, block: Block, index: usize) -> Option<u8> {
        let edge = self
            .func
            .successor_edges(from)
            .iter()
            .copied()
            .find(|&edge| self.func.edge_target(edge) == block)?;
        let arg = *self.func.edge_args(edge).get(index)?;
        look_up(&self.borders.exit[from.index()], arg)
    }

    fn is_free(&self, value: Value, at: u8) -> bool {
        let ty = self.ty(value);
        self.files[ty.class() as usize].is_free(at, ty.len(), &Units::default())
    }

    fn take(&mut self, value: Value, at: u8) {
        let ty = self.ty(value);
        self.home[value.index()] = Some(at);
        self.file(ty.class()).occupy(value, at, ty.len());
        let settled = self.affinity.settle(value, at);
        if settled.group.high - settled.group.low > 1 {
            if settled.first {
                self.file(ty.class()).wish(settled.group, settled.waits);
            } else if settled.last {
                self.file(ty.class()).stop_waiting(settled.group);
            }
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

    fn inst(&mut self, inst: Inst, now: u32) -> Result<(), Stop> {
        match self.func.opcode(inst) {
            Opcode::Abstract(AbstractOp::Undef) => {
                self.func.remove_inst(inst);
                Ok(())
            }
            Opcode::Abstract(AbstractOp::Collect) => self.collect(inst, now),
            Opcode::Abstract(AbstractOp::Split) => self.split(inst, now),
            Opcode::Abstract(AbstractOp::ParCopy) => self.copy(inst, now),
            Opcode::Abstract(AbstractOp::Call) => self.call(inst, now),
            Opcode::Abstract(AbstractOp::FallThrough) | Opcode::Machine(_) => {
                self.machine(inst, now)
            }
            Opcode::Abstract(AbstractOp::Unreachable) => Ok(()),
            Opcode::Abstract(op) => Err(Stop::Error(PhaseError::Unsupported(format!(
                "register allocation of `{op}`"
            )))),
        }
    }

    fn turn(&self, inst: Inst, now: u32) -> Turn {
        let mut turn = Turn::default();
        self.func.for_each_use(inst, |reg| {
            if let Some(value) = reg.value()
                && self.last_use[value.index()] == now
                && !turn.dying.contains(&value)
            {
                turn.dying.push(value);
                if let Some(at) = self.home[value.index()] {
                    let ty = self.ty(value);
                    insert(&mut turn.pinned[ty.class() as usize], at, ty.len());
                }
            }
        });
        turn
    }

    /// Frees results that nobody reads.
    fn drop_unread(&mut self, results: &[Value], now: u32) {
        for &value in results {
            if self.last_use[value.index()] <= now {
                self.release(value, now);
            }
        }
    }

    fn machine(&mut self, inst: Inst, now: u32) -> Result<(), Stop> {
        let mut turn = self.turn(inst, now);
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
            let needed = (at..at + ty.len())
                .flat_map(|unit| file.owners(unit))
                .any(|owner| !turn.dying.contains(owner));
            if !needed && !shared {
                in_place.push((result, reg));
                continue;
            }
            // Somebody needs the old contents: the instruction works on a copy.
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
        for &value in &turn.dying {
            self.release(value, now);
        }
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
        self.rewrite(inst)?;
        self.insert_moves(inst, &turn);
        self.drop_unread(&results, now);
        Ok(())
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

    /// Puts registers in the place of values.
    fn rewrite(&mut self, inst: Inst) -> Result<(), Stop> {
        let mut lost = false;
        let home = &self.home;
        let types = &self.types;
        let mut map = |reg: Reg| match reg.kind() {
            RegKind::Phys(_) => reg,
            RegKind::Value(value) => {
                let ty = types[value.index()];
                let phys = match home[value.index()] {
                    Some(at) => PhysReg::tuple(ty.class(), at, ty.len()),
                    // Contents that do not matter: any register will do. Not every place takes the constant one.
                    None => match ty.class() {
                        Class::R | Class::UR => PhysReg::tuple(ty.class(), 0, ty.len()),
                        Class::P | Class::UP | Class::B => ty.class().constant(),
                    },
                };
                match phys {
                    Some(phys) => Reg::from(phys),
                    None => {
                        lost = true;
                        reg
                    }
                }
            }
        };
        self.func.map_registers(inst, &mut map);
        if !self.func.kept(inst).is_empty() {
            self.func.set_kept(inst, &[]);
        }
        if lost {
            return Err(self.broken(inst, "a value has no register"));
        }
        Ok(())
    }

    /// The moves of a turn, as one parallel copy before `inst`.
    fn insert_moves(&mut self, inst: Inst, turn: &Turn) {
        if turn.moves.is_empty() {
            return;
        }
        let copies: Vec<(PhysReg, PhysReg)> = turn
            .moves
            .iter()
            .filter(|moved| moved.from != moved.to)
            .flat_map(|moved| {
                let (class, len) = (moved.ty.class(), moved.ty.len());
                PhysReg::tuple(class, moved.to, len).zip(PhysReg::tuple(class, moved.from, len))
            })
            .collect();
        self.insert_copies(inst, &copies);
    }

    fn insert_copies(&mut self, inst: Inst, copies: &[(PhysReg, PhysReg)]) {
        if let Some(copy) = parallel_copy(self.func, copies) {
            let span = self.func.inst(inst).span();
            self.func.set_span(copy, span);
            self.func.layout.insert_inst_before(copy, inst);
        }
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
