//! How tightly values are packed: registers decide how many thread blocks a multiprocessor holds.
//!
//! A scan tries to stay within what is live at once; up to the next *edge*, the number of registers at which one block less fits, it takes a register
//! more if that saves a move. What it comes to depends on the order in which values get their places ([`Manner`]): tuples first leaves fewer holes
//! between aligned runs, but a loop's values may find theirs taken. So both are tried where the first one needs moves, and the one that issues
//! less is kept. If it still needs more registers than are live at once, scans that may use no more than so many are compared with it, at the edge and below: moves are the
//! price on the one side, a block, or registers alone, on the other.
//!
//! Cost: one scan where tuples found their places without moves, and up to [`ROUNDS`] more in three manners where they did not. What scans have in common is found once, and one
//! that has come to more moves and delays than it may cost is given up.

use super::assign::{
    BlockBoundaries, Budget, Ceiling, Edits, Facts, Manner, Products, Scans, Spent, Stop,
};
use super::{calls, counts, edges};
use crate::knobs::{Knobs, registry};
use crate::phases::{is_product, product_registers};
use crate::register_usage::RegisterUsage;
use crate::schedule::budget::Occupancy;
use cranelift_entity::EntityRef;
use orias_machine::Machine;
use orias_ori::analysis::LoopNest;
use orias_ori::{AbstractOp, Block, Class, Function, FunctionKind, Inst, Opcode, Reg};
use orias_sass::Space;
use rustc_hash::FxHashMap;

/// How much more may be issued so that more blocks fit, as a share of how many more.
const WARPS_HIDE: f64 = 0.125;

/// How much more may be issued so that fewer registers are used, as a share of how many fewer, where as many blocks fit.
const REGISTERS_SPARE: f64 = 0.125;

/// What an instruction costs that has to wait until an operation has read the register that it writes, in instructions.
const DELAY: f64 = 4.0;

/// How often fewer registers are asked for.
const ROUNDS: usize = 3;

/// What a move costs on the way back of a loop if it touches what products of a warp group work on: all of them are waited for.
const WAIT: usize = 64;

/// What a move costs that waits for a load from shared memory or a constant bank, or from further away, in instructions: what stands behind it waits, too, loads among it.
const NEAR_LOAD: usize = 4;
const FAR_LOAD: usize = 64;

/// Iterations of a loop, as a guess.
const ITERATIONS: f64 = 8.0;

/// What a function on registers costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// How many general registers it uses, from the first to the highest.
    named: u8,
    /// How many instructions and moves are issued, by how often they run.
    issued: f64,
    /// What instructions cost that wait until somebody has read the registers that they write.
    delays: f64,
}

impl Cost {
    fn sum(&self) -> f64 {
        self.issued + self.delays
    }
}

/// A function on registers.
struct Allocated {
    func: Function,
    cost: Cost,
    /// Whether values are moved at all.
    moves: bool,
}

/// The registers of a function.
pub(super) struct Packing {
    occupancy: Occupancy,
    limits: [u8; 5],
    /// How many general registers should do: those that are live at once, and the stack pointer.
    enough: u8,
    /// How many leave room for as many blocks.
    edge: u8,
    /// How many a thread is given in any case, or as many as leave room for all warps.
    free: u8,
    /// How many blocks the function had when it came.
    blocks: usize,
    threads_are_known: bool,
    /// What a register is worth, times what it is as a rule.
    price: f64,
    /// For so many instructions operations that read late are taken to read their registers.
    late: u32,
}

impl Packing {
    /// For a function that needs `pressure` general registers and may use as many as `limits` say.
    pub(super) fn new(func: &Function, pressure: u32, limits: [u8; 5], knobs: &Knobs) -> Packing {
        let usage = RegisterUsage::of(knobs);
        let occupancy = Occupancy::new(func, Machine::of(func.target).registers);
        let most = u32::from(limits[Class::R as usize]);
        Packing {
            occupancy,
            limits,
            enough: (pressure + 1).min(most) as u8,
            edge: occupancy.edge(pressure).min(most) as u8,
            free: occupancy.costless(pressure).min(most) as u8,
            blocks: func.block_count(),
            threads_are_known: func.attributes.max_threads != [0; 3],
            price: usage.price(),
            late: usage.late_reads() * knobs.int(&registry::LATE_READS).clamp(0, 1 << 10) as u32,
        }
    }

    /// The function of `scans` with registers for every value. Parallel copies are left.
    ///
    /// Products of warp groups lie where tools leave registers alone, unless all the registers there are leave too little room for that. Where general registers were
    /// found `short` with products in such places, nobody looks again.
    pub(super) fn allocate(
        &self,
        scans: &Scans<'_>,
        loops: &LoopNest,
        keeps_together: bool,
        short: &mut Vec<Products>,
    ) -> Result<Function, Stop> {
        if scans.has_products() {
            for products in [Products::Above, Products::WidestAbove] {
                if short.contains(&products) {
                    continue;
                }
                match self.pack(loops, scans, keeps_together, products) {
                    Err(Stop::Full(Class::R)) => short.push(products),
                    // Where products lie makes no room in other files.
                    result => return result,
                }
            }
        }
        self.pack(loops, scans, keeps_together, Products::Anywhere)
    }

    /// The function with registers, packed as tightly as pays.
    fn pack(
        &self,
        loops: &LoopNest,
        scans: &Scans<'_>,
        keeps_together: bool,
        products: Products,
    ) -> Result<Function, Stop> {
        let (func, facts) = (scans.func, scans.facts);
        let usable = self.limits[Class::R as usize];
        if !is_counted(func) {
            let budgets = self.up_to(usable);
            let found = scans.assign(budgets, Manner::AsMet, products, keeps_together, None)?;
            let mut packed = func.clone();
            rewrite(&mut packed, facts, found)?;
            return Ok(packed);
        }
        let weights: Vec<f64> = (0..func.block_count())
            .map(|number| weight(loops.block_depth(Block::new(number))))
            .collect();
        let stays = stays(func, &weights);
        // Tried only as far as the result may be cheaper than what `may_be` says.
        let attempt = |within, manner, may_be: Option<&dyn Fn(Cost) -> bool>| {
            let is_too_much = |named, spent: Spent| {
                let least = Cost {
                    named,
                    issued: stays + spent.moves,
                    delays: DELAY * spent.delayed,
                };
                may_be.is_some_and(|may_be| !may_be(least))
            };
            let ceiling = Ceiling {
                weights: &weights,
                is_too_much: &is_too_much,
            };
            let ceiling = may_be.map(|_| ceiling);
            let budgets = self.up_to(within);
            let found = scans.assign(budgets, manner, products, keeps_together, ceiling)?;
            let named = found.0.named;
            let delays = self.delays(&found.0.delayed, loops);
            let mut packed = func.clone();
            rewrite(&mut packed, facts, found)?;
            let (issued, moves) = self.issued(&packed, loops);
            debug_assert!(issued >= stays);
            Ok::<_, Stop>(Allocated {
                func: packed,
                cost: Cost {
                    named,
                    issued,
                    delays,
                },
                moves,
            })
        };
        let mut best = match attempt(usable, Manner::WidestFirst, None) {
            Ok(first) if !first.moves => first,
            Ok(first) => {
                let is_cheaper = |cost: Cost| cost.sum() < first.cost.sum();
                match attempt(usable, Manner::AsMet, Some(&is_cheaper)) {
                    Ok(second) if is_cheaper(second.cost) => second,
                    Ok(_) | Err(Stop::Full(_) | Stop::Dear) => first,
                    Err(error) => return Err(error),
                }
            }
            Err(Stop::Full(_)) => attempt(usable, Manner::AsMet, None)?,
            Err(error) => return Err(error),
        };
        // The fewest registers that are not known to be too few.
        let mut least = self.enough;
        // What was tried in vain against the best.
        let mut in_vain: Vec<u8> = Vec::new();
        for round in 0..=ROUNDS {
            let within = match round {
                0 => self.edge,
                1 => least,
                _ => u8::midpoint(least, best.cost.named),
            };
            if within >= best.cost.named {
                continue;
            }
            let manners = [Manner::WidestFirst, Manner::Lowest, Manner::AsMet];
            let known = best.cost;
            let pays = |cost: Cost| self.pays(known, cost);
            let better = match in_vain.contains(&within) {
                true => None,
                false => manners
                    .into_iter()
                    .filter_map(|manner| attempt(within, manner, Some(&pays)).ok())
                    .find(|packed| pays(packed.cost)),
            };
            match better {
                Some(packed) => {
                    best = packed;
                    in_vain.clear();
                }
                None => {
                    in_vain.push(within);
                    if round > 0 {
                        least = within + 1;
                    }
                }
            }
        }
        Ok(best.func)
    }

    fn up_to(&self, usable: u8) -> [Budget; 5] {
        let mut budgets = self.limits.map(|limit| Budget {
            usable: limit,
            enough: limit,
            cheap: limit,
            free: limit,
            late: 0,
        });
        budgets[Class::R as usize] = Budget {
            usable,
            enough: self.enough,
            cheap: self.edge.max(self.enough),
            free: self.free.max(self.enough),
            late: self.late,
        };
        budgets
    }

    /// Whether `packed` is better than `best`, which uses more registers. Without a known number of threads nobody knows where the edges are.
    ///
    /// With fewer registers, instructions and delays it pays the more: a scan that does not even with what it has come to so far never will.
    fn pays(&self, best: Cost, packed: Cost) -> bool {
        let blocks = |registers: u8| f64::from(self.occupancy.blocks(registers.into()).max(1));
        let spared = 1.0 - f64::from(packed.named) / f64::from(best.named);
        let more = match self.threads_are_known {
            true => blocks(packed.named) / blocks(best.named) - 1.0,
            false => 0.0,
        };
        let worth = (more * WARPS_HIDE).max(spared * REGISTERS_SPARE * self.price);
        // Where more blocks fit, others run while one waits.
        let dearer = match more > 0.0 {
            true => packed.issued / best.issued,
            false => packed.sum() / best.sum(),
        };
        packed.named < best.named && dearer <= 1.0 + worth
    }

    /// What instructions cost that wait until somebody has read the registers that they write, in instructions, by how often they run.
    fn delays(&self, delayed: &[(Block, u32)], loops: &LoopNest) -> f64 {
        let cost =
            |&(block, count): &(Block, u32)| f64::from(count) * weight(loops.block_depth(block));
        DELAY * delayed.iter().map(cost).sum::<f64>()
    }

    /// How many instructions and moves are issued, by how often they run, and whether there are moves.
    fn issued(&self, func: &Function, loops: &LoopNest) -> (f64, bool) {
        let (mut issued, mut moves) = (0.0, false);
        let was_there = |block: Block| block.index() < self.blocks;
        let depth_of = |block: Block| match was_there(block) {
            true => loops.block_depth(block),
            false => 0,
        };
        // A block that was made for an edge runs as often as the rarer of its ends: that of an edge back in every iteration.
        let mut edges: FxHashMap<Block, u32> = FxHashMap::default();
        for block in func.blocks().filter(|&block| was_there(block)) {
            for edge in func.successors(block).filter(|&it| !was_there(it)) {
                let target = func.successors(edge).map(depth_of).min().unwrap_or(0);
                edges.insert(edge, depth_of(block).min(target));
            }
        }
        let products = match edges.is_empty() {
            true => Vec::new(),
            false => product_registers_of(func),
        };
        for block in func.blocks() {
            let depth = edges
                .get(&block)
                .copied()
                .unwrap_or_else(|| depth_of(block));
            let mut count = 0;
            let mut flying = Flying::default();
            for inst in func.block_insts(block) {
                count += flying.pass(func, inst);
                count += match func.opcode(inst) {
                    Opcode::Abstract(AbstractOp::ParCopy) => {
                        moves = true;
                        let waits = !was_there(block) && touches(func, inst, &products);
                        func.result_count(inst) + if waits { WAIT } else { 0 }
                    }
                    _ => 1,
                };
            }
            issued += count as f64 * weight(depth);
        }
        (issued, moves)
    }
}

/// How often a block in so many loops runs, as a guess.
fn weight(depth: u32) -> f64 {
    ITERATIONS.powi(depth.min(6) as i32)
}

/// How many instructions are left whatever a scan finds, by how often they run.
fn stays(func: &Function, weights: &[f64]) -> f64 {
    let stays = |inst: &Inst| {
        !matches!(
            func.opcode(*inst).as_abstract(),
            Some(AbstractOp::Undef | AbstractOp::Collect | AbstractOp::Split | AbstractOp::ParCopy)
        )
    };
    let counts = func.blocks().map(|block| {
        let count = func.block_insts(block).filter(stays).count();
        count as f64 * weights[block.index()]
    });
    counts.sum()
}

/// What was loaded in a block and nobody has waited for: by general register, what a move of it costs.
#[derive(Default)]
struct Flying {
    registers: FxHashMap<u8, usize>,
}

impl Flying {
    /// What it costs that `inst` comes next, if it is a move of what is still on its way.
    fn pass(&mut self, func: &Function, inst: Inst) -> usize {
        let opcode = func.opcode(inst);
        let mut waits = 0;
        if !self.registers.is_empty() {
            let mut read = |reg: Reg| {
                for unit in general_units(reg) {
                    waits = waits.max(self.registers.remove(&unit).unwrap_or(0));
                }
            };
            func.for_each_use(inst, &mut read);
        }
        let far = |space: Space| !matches!(space, Space::Shared | Space::Constant);
        let loaded = opcode.as_machine().and_then(|op| {
            let mut reads = op.row().memory.iter().filter(|it| it.reads);
            reads
                .next()
                .map(|it| if far(it.space) { FAR_LOAD } else { NEAR_LOAD })
        });
        func.for_each_def(inst, &mut |reg: Reg| {
            for unit in general_units(reg) {
                match loaded {
                    Some(cost) => _ = self.registers.insert(unit, cost),
                    None => _ = self.registers.remove(&unit),
                }
            }
        });
        match opcode {
            Opcode::Abstract(AbstractOp::ParCopy) => waits,
            _ => 0,
        }
    }
}

/// The general registers of a register.
fn general_units(reg: Reg) -> impl Iterator<Item = u8> {
    let general = reg.phys().filter(|reg| reg.class() == Class::R);
    general
        .into_iter()
        .flat_map(|reg| reg.units().map(|unit| unit.index()))
}

/// What products of a warp group work on: by general register, whether one does. Empty where there is none.
fn product_registers_of(func: &Function) -> Vec<bool> {
    let mut taken = Vec::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        if !is_product(func, inst) {
            continue;
        }
        taken.resize(usize::from(Class::R.count()), false);
        for unit in product_registers(func, inst).flat_map(|reg| reg.units()) {
            taken[usize::from(unit.index())] = true;
        }
    }
    taken
}

/// Whether an instruction reads or writes a general register of `taken`.
fn touches(func: &Function, inst: Inst, taken: &[bool]) -> bool {
    let mut found = false;
    let mut look = |reg: Reg| {
        let general = reg.phys().filter(|reg| reg.class() == Class::R);
        for unit in general.into_iter().flat_map(|reg| reg.units()) {
            found |= taken.get(usize::from(unit.index())) == Some(&true);
        }
    };
    func.for_each_use(inst, &mut look);
    func.for_each_def(inst, &mut look);
    found
}

/// Writes down what a scan found.
fn rewrite(
    func: &mut Function,
    facts: Facts<'_>,
    (borders, edits): (BlockBoundaries, Edits),
) -> Result<(), Stop> {
    edits.apply(func)?;
    edges::resolve(func, facts.graph, facts.live, &borders);
    Ok(())
}

/// Whether the registers of a function by itself decide how many blocks fit.
pub(super) fn is_counted(func: &Function) -> bool {
    func.kind == FunctionKind::Entry && !calls::has_calls(func) && counts::largest(func).is_none()
}
