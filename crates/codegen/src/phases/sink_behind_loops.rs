//! SinkBehindLoops (10094): code sinking and rematerialisation. What is read behind a loop only, and what a few additions make of what is there anyway, is computed behind it.
//!
//! A kernel that multiplies matrices computes at its start where its results will go, and adds up products for a long time before it gets there. All these rows, columns and addresses lie
//! in registers meanwhile, beside the sums, where an operation or two would make them again. The reverse of loop-invariant code motion.
//!
//! A value *passes* a loop if it lives in all of it and nothing there reads it. It is computed again behind the loop, in the block that dominates all its readers there, if everything it is made of
//!
//! - lives in the loop anyway, because the loop reads it or because it cannot be made again, or
//! - can be made again in the same way: arithmetic on words, numbers, parameters, special registers that stay the same, addresses of names.
//!
//! So no value lives longer than before. What was computed for the readers behind the loop only is gone before it; up to [`COPIES`] instructions are executed twice for one value that passes.
//!
//! Registers that nobody is short of are not worth an instruction: only loops that need more of them than leave room for as many warps as there can be ([`Occupancy::free`]) are looked at.
//! Loops are looked at from the outside in, each for what is computed at its own level of the nest.
//!
//! Cost: uses and liveness once for each level of the nest that changes, each value that passes a loop once, with at most [`DEEP`] instructions behind it.

use super::common_subexpressions::is_fixed;
use super::general_optimize::optimize_general;
use crate::loops::LoopAnalyses;
use crate::pipeline::{Context, PhaseError};
use crate::schedule::budget::Occupancy;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_ori::analysis::{DefUse, Liveness, Loop, Pressure};
use orias_ori::operation::{Order, Scalar, SourceType, Space, Special};
use orias_ori::{AbstractOp, Block, Class, Function, Inst, Operand, Reg, Value};
use rustc_hash::FxHashMap;

/// How many instructions may be executed twice for a value that passes a loop.
const COPIES: usize = 4;

/// How many instructions may be copied for a value that passes a loop, those included that only it is made of.
const DEEP: usize = 16;

/// Runs the phase.
pub fn sink_behind_loops(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    if func.entry().is_none() {
        return Ok(());
    }
    let shape = LoopAnalyses::of(func);
    let free = Occupancy::new(func, context.machine.registers).free();
    let mut level: Vec<Loop> = shape.nest.top_level().to_vec();
    let mut changed = false;
    while !level.is_empty() {
        let live = Liveness::new(func, &shape.graph);
        let pressure = Pressure::new(func, &live);
        let uses = DefUse::new(func);
        let mut moves: Vec<Move> = Vec::new();
        for &each in &level {
            let blocks = shape.nest.blocks(each).iter();
            let needed = blocks.map(|&block| pressure.in_block(block)[Class::R]);
            let crowded = needed.max().is_some_and(|most| most as i32 > free);
            if crowded && !shape.nest.is_irreducible(each) {
                let finder = Finder::new(func, &shape, &uses, &live, each);
                moves.extend(finder.find());
            }
        }
        changed |= !moves.is_empty();
        apply(func, moves);
        let inner = level.iter().flat_map(|&each| shape.nest.children(each));
        level = inner.copied().collect();
    }
    match changed {
        true => optimize_general(func, context),
        false => Ok(()),
    }
}

/// A value that is computed again.
struct Move {
    value: Value,
    /// Where.
    to: Block,
    /// Of these: what it is made of comes first, and what others need in the same block is among them again.
    made_by: Vec<Inst>,
    /// Who reads it there.
    readers: Vec<Inst>,
}

/// What is known of a loop and what surrounds it.
struct Finder<'a> {
    func: &'a Function,
    shape: &'a LoopAnalyses,
    uses: &'a DefUse,
    /// The loop around it.
    parent: Option<Loop>,
    /// What lives through the loop and is there behind it.
    there: EntitySet<Value>,
    /// What passes the loop, in an order in which a value comes after what it is made of.
    passing: Vec<Value>,
    /// The blocks behind the loop, of the same iteration of the loop around it.
    behind: EntitySet<Block>,
}

impl<'a> Finder<'a> {
    fn new(
        func: &'a Function,
        shape: &'a LoopAnalyses,
        uses: &'a DefUse,
        live: &Liveness,
        each: Loop,
    ) -> Self {
        let nest = &shape.nest;
        let parent = nest.parent(each);
        let mut behind: EntitySet<Block> = EntitySet::new();
        let mut open: Vec<Block> = nest.exits(each).map(|(_, to)| to).collect();
        while let Some(block) = open.pop() {
            let is_around = parent
                .is_none_or(|around| nest.contains(around, block) && nest.header(around) != block);
            if is_around && !nest.contains(each, block) && behind.insert(block) {
                open.extend(func.successors(block));
            }
        }
        let mut there = EntitySet::new();
        let mut passing = Vec::new();
        for &value in live.live_in(nest.header(each)) {
            let read = uses
                .uses(value)
                .iter()
                .any(|it| nest.contains(each, it.block(func)));
            match read {
                true => _ = there.insert(value),
                false => passing.push(value),
            }
        }
        let place = |value: &Value| {
            let block = func.defining_block(*value);
            let depth = block.map_or(0, |block| shape.tree.depth(block));
            (depth, value.as_u32())
        };
        passing.sort_unstable_by_key(place);
        Finder {
            func,
            shape,
            uses,
            parent,
            there,
            passing,
            behind,
        }
    }

    /// What can be computed again.
    fn find(mut self) -> Vec<Move> {
        let mut moves = Vec::new();
        for value in std::mem::take(&mut self.passing) {
            // What is made again is not there for others: they make it again, too, or share what is made for it.
            match self.plan(value) {
                Some(found) => moves.push(found),
                None => _ = self.there.insert(value),
            }
        }
        moves
    }

    fn plan(&self, value: Value) -> Option<Move> {
        let func = self.func;
        if func.value_type(value).class() != Class::R {
            return None;
        }
        let home = func.defining_block(value)?;
        if self.shape.nest.innermost(home) != self.parent {
            return None;
        }
        let mut readers: Vec<Inst> = Vec::new();
        let mut to: Option<Block> = None;
        for it in self.uses.uses(value) {
            let block = it.block(func);
            if !self.behind.contains(block) {
                // Before the loop; but what is read behind the loop around it passes both.
                if self
                    .parent
                    .is_some_and(|around| !self.shape.nest.contains(around, block))
                {
                    return None;
                }
                continue;
            }
            if readers.last() != Some(&it.inst) {
                readers.push(it.inst);
            }
            to = Some(match to {
                Some(known) => self.common(known, block)?,
                None => block,
            });
        }
        let mut to = to?;
        while self.shape.nest.innermost(to) != self.parent {
            to = self.shape.tree.immediate_dominator(to)?;
        }
        if !self.behind.contains(to) {
            return None;
        }
        let mut made_by = Vec::new();
        let mut copies = 0;
        let possible = self.make(value, 0, &mut made_by, &mut copies);
        (possible && copies <= COPIES).then_some(Move {
            value,
            to,
            made_by,
            readers,
        })
    }

    /// The nearest block that dominates both.
    fn common(&self, mut a: Block, mut b: Block) -> Option<Block> {
        let tree = &self.shape.tree;
        while a != b {
            if tree.depth(a) >= tree.depth(b) {
                a = tree.immediate_dominator(a)?;
            } else {
                b = tree.immediate_dominator(b)?;
            }
        }
        Some(a)
    }

    /// Adds the instructions that make `value` of what is there, and counts those that are executed twice then. Returns whether that is possible.
    fn make(
        &self,
        value: Value,
        depth: usize,
        made_by: &mut Vec<Inst>,
        copies: &mut usize,
    ) -> bool {
        if self.there.contains(value) {
            return true;
        }
        let Some(inst) = self.func.defining_inst(value) else {
            return false;
        };
        if made_by.contains(&inst) {
            return true;
        }
        if made_by.len().max(depth) >= DEEP || !can_be_made_again(self.func, inst) {
            return false;
        }
        let sources = self.func.value_uses(inst);
        for source in sources {
            if !self.make(source, depth + 1, made_by, copies) {
                return false;
            }
        }
        made_by.push(inst);
        let results = self.func.value_defs(inst);
        let stays = results.into_iter().any(|result| {
            let mut uses = self.uses.uses(result).iter();
            uses.any(|it| !made_by.contains(&it.inst) && !self.behind.contains(it.block(self.func)))
        });
        *copies += usize::from(stays && !is_free(self.func, inst));
        true
    }
}

/// Whether an instruction computes the same wherever it stands, and cheaply.
fn can_be_made_again(func: &Function, inst: Inst) -> bool {
    use AbstractOp as A;
    let Some(op) = func.opcode(inst).as_abstract() else {
        return false;
    };
    if !func.inst(inst).guard().is_always() || !func.kept(inst).is_empty() {
        return false;
    }
    match op {
        A::Sreg => func.modifier::<Special>(inst).is_some_and(is_fixed),
        A::Ld => {
            func.modifier::<Space>(inst) == Some(Space::Param)
                && func.modifier::<Order>(inst) == Some(Order::Weak)
                && func.value_uses(inst).next().is_none()
        }
        A::AddressOf => true,
        A::Mov | A::Collect | A::Split => true,
        A::Add | A::Sub | A::Mul | A::Mad | A::Neg | A::Min | A::Max => true,
        A::And | A::Or | A::Xor | A::Not | A::Lop3 | A::Shl | A::Shr => true,
        A::Cvt => is_of_integers(func, inst),
        A::Bfe | A::Bfi | A::Prmt | A::Setp | A::Selp => true,
        _ => false,
    }
}

/// Whether a conversion is one between integers.
fn is_of_integers(func: &Function, inst: Inst) -> bool {
    let to = func.modifier::<Scalar>(inst);
    let from = func.modifier::<SourceType>(inst).map(Scalar::from);
    let is_integer = |it: Scalar| {
        use Scalar as S;
        matches!(
            it,
            S::S8 | S::U8 | S::S16 | S::U16 | S::S32 | S::U32 | S::S64 | S::U64
        )
    };
    to.is_some_and(is_integer) && from.is_some_and(is_integer)
}

/// Whether an instruction becomes an operand of those that read its result, or nothing at all.
fn is_free(func: &Function, inst: Inst) -> bool {
    use AbstractOp as A;
    matches!(
        func.opcode(inst).as_abstract(),
        Some(A::Mov | A::Collect | A::Split | A::Ld)
    )
}

/// Makes values again. What several need in one block is made there once.
fn apply(func: &mut Function, moves: Vec<Move>) {
    let mut made: FxHashMap<(Block, Value), Value> = FxHashMap::default();
    let mut ends: SecondaryMap<Block, Option<Inst>> = SecondaryMap::new();
    for each in moves {
        let to = each.to;
        for inst in each.made_by {
            let results: Vec<Value> = func.value_defs(inst).collect();
            if results.iter().all(|&it| made.contains_key(&(to, it))) {
                continue;
            }
            let copy = func.copy_inst(inst);
            func.map_uses(copy, |reg| again(&made, to, reg));
            for (index, &result) in results.iter().enumerate() {
                let new = func.create_value(func.value_type(result));
                func.set_operand(copy, index, Operand::from(new));
                made.insert((to, result), new);
            }
            // In front of everything else of the block, behind what was made before.
            match ends[to].and_then(|last| func.layout.next_inst(last)) {
                Some(next) => func.layout.insert_inst_before(copy, next),
                None => match func.layout.first_inst(to) {
                    Some(first) => func.layout.insert_inst_before(copy, first),
                    None => func.layout.append_inst(copy, to),
                },
            }
            ends[to] = Some(copy);
        }
        let old = each.value;
        for reader in each.readers {
            func.map_uses(reader, |reg| match reg.value() {
                Some(value) if value == old => again(&made, to, reg),
                _ => reg,
            });
        }
    }
}

/// What is read in `block` instead of `reg`, if it was made again there.
fn again(made: &FxHashMap<(Block, Value), Value>, block: Block, reg: Reg) -> Reg {
    let new = reg.value().and_then(|value| made.get(&(block, value)));
    new.map_or(reg, |&new| Reg::from(new))
}
