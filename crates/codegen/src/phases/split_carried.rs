//! SplitCarried (10091): live-range splitting of what loops advance, where the old number is needed behind the new one.
//!
//! `while (a[i++] < x);` leaves its loop with the old `i` and the new one. Both are live at the branch that ends the iteration, so the new one cannot lie where the old one does, and the
//! way back needs a move. In front of the branch that move would overwrite what the other way still reads: the edge gets a block of its own, which the loop jumps to and from in every
//! iteration. So the old number is copied where the new one is computed, and whoever reads it behind that reads the copy: a move, too, but no jumps, and the new number takes the old one's place.
//!
//! An edge back from a block that goes on elsewhere, too, is split off by this if for every number it carries that the other way reads, in the old version, the new one
//!
//! - is the result of an instruction of the loop, and no other parameter of the header gets it;
//! - is defined where it dominates all later uses of the old one: what is read elsewhere is read in the same block before that, or in a block that dominates it.
//!
//! Else the edge keeps its block, and copies would be made for nothing. It runs behind the scheduler, which could put the readers of the old number first, and changes nothing but who reads which register.
//!
//! Cost: linear in the loops' parameters and their uses.

use crate::loops::LoopAnalyses;
use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::{DefUse, Liveness, Loop};
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::{Block, Edge, Function, Inst, Reg, Type, Value};
use orias_sass::Op;
use rustc_hash::{FxHashMap, FxHashSet};

/// The mask of MOV that names all bytes.
const ALL_BYTES: u64 = 0xf;

/// A parameter of a loop's header whose old number is copied.
struct Split {
    old: Value,
    /// What defines the number of the next iteration.
    at: Inst,
    /// Who reads the copy.
    readers: Vec<Inst>,
}

/// Runs the phase.
pub fn split_carried(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    if func.entry().is_none() {
        return Ok(());
    }
    let shape = LoopAnalyses::of(func);
    if shape.nest.is_empty() {
        return Ok(());
    }
    let live = Liveness::new(func, &shape.graph);
    let mut splits: Vec<Split> = Vec::new();
    {
        let finder = Finder {
            func,
            uses: DefUse::new(func),
            live: &live,
            shape: &shape,
        };
        let mut known: FxHashSet<Value> = FxHashSet::default();
        for each in shape.nest.loops() {
            if shape.nest.is_irreducible(each) {
                continue;
            }
            for &(latch, edge) in shape.incoming(shape.nest.header(each)) {
                if !shape.nest.contains(each, latch) {
                    continue;
                }
                let found = finder.splits(each, latch, edge).unwrap_or_default();
                if found.iter().all(|split| !known.contains(&split.old)) {
                    known.extend(found.iter().map(|split| split.old));
                    splits.extend(found);
                }
            }
        }
    }
    for split in splits {
        let copy = func.create_value(Type::R);
        Cursor::before(func, split.at)
            .build(Op::MOV)
            .operand(copy)
            .operand(split.old)
            .imm(ALL_BYTES)
            .finish()
            .map_err(refused)?;
        let old = Reg::from(split.old);
        for reader in split.readers {
            func.map_uses(reader, |reg| if reg == old { copy.into() } else { reg });
        }
    }
    Ok(())
}

struct Finder<'a> {
    func: &'a Function,
    uses: DefUse,
    live: &'a Liveness,
    shape: &'a LoopAnalyses,
}

impl Finder<'_> {
    /// What has to be copied so that `edge`, from `latch` back to the header of `of`, needs no block of its own; nothing if that is not to be had.
    fn splits(&self, of: Loop, latch: Block, edge: Edge) -> Option<Vec<Split>> {
        let func = self.func;
        let others: Vec<Edge> = func
            .successor_edges(latch)
            .iter()
            .copied()
            .filter(|&other| other != edge)
            .collect();
        if others.is_empty() {
            return None;
        }
        let read_elsewhere = |value: Value| {
            others.iter().any(|&other| {
                self.live.is_live_in(value, func.edge_target(other))
                    || func.edge_args(other).contains(&value)
            })
        };
        let args = func.edge_args(edge);
        let mut given: FxHashMap<Value, u32> = FxHashMap::default();
        for &arg in args {
            *given.entry(arg).or_default() += 1;
        }
        let params = func.block_params(self.shape.nest.header(of));
        let mut found = Vec::new();
        for (&old, &new) in params.iter().zip(args) {
            if old == new || !read_elsewhere(old) {
                continue;
            }
            if given[&new] > 1 || func.value_type(old) != Type::R {
                return None;
            }
            found.push(self.split(of, old, new)?);
        }
        Some(found)
    }

    /// The copy of `old` that lets `new` take its place in the next iteration.
    fn split(&self, of: Loop, old: Value, new: Value) -> Option<Split> {
        let func = self.func;
        let at = func.defining_inst(new)?;
        func.opcode(at).as_machine()?;
        let block = func.layout.inst_block(at)?;
        if !self.shape.nest.contains(of, block) {
            return None;
        }
        let behind: FxHashSet<Inst> = std::iter::successors(func.layout.next_inst(at), |&inst| {
            func.layout.next_inst(inst)
        })
        .collect();
        let mut readers = Vec::new();
        for reading in self.uses.uses(old) {
            let place = reading.block(func);
            if place == block {
                if behind.contains(&reading.inst) {
                    readers.push(reading.inst);
                }
            } else if self.shape.tree.dominates(block, place) {
                readers.push(reading.inst);
            } else if !self.shape.tree.dominates(place, block) {
                return None;
            }
        }
        readers.sort_unstable();
        readers.dedup();
        Some(Split { old, at, readers })
    }
}

fn refused(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}
