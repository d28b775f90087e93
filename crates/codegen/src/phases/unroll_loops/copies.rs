//! How many instructions all iterations of a loop take as copies, once what they have in common is gone.
//!
//! Iterations are played through. What is computed of numbers alone becomes a number and takes nothing; what is computed of such and of values from outside the loop takes
//! its instructions once for each combination, since copies that compute the same share it: the addresses of four buffers that a pipeline goes round among are computed
//! four times, in however many iterations. Everything else is counted in each.

use super::super::common_subexpressions::{is_computable, known_copy, known_result};
use crate::loops::LoopAnalyses;
use orias_ori::analysis::Loop;
use orias_ori::{AbstractOp, Block, Function, Inst, Operand, Operation, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// How many instructions are played at most for each that the copies may take.
const EFFORT: u64 = 16;

/// What a value is in an iteration, as far as other iterations may have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Contents {
    Bits(u64),
    Outside(Value),
    /// The result of this number of an instruction, of the contents that had this number.
    Made(Inst, u32, u16),
}

/// What an instruction reads.
type Reads = SmallVec<[Contents; 4]>;

/// The instructions that `iterations` iterations of a loop with one way back take as copies, each counted as by `size`; none if they are more than `most`.
pub(super) fn size_of_copies(
    func: &Function,
    shape: &LoopAnalyses,
    of: Loop,
    iterations: u64,
    most: u64,
    size: impl Fn(&Function, Inst) -> u64,
) -> Option<u64> {
    let &[back] = &shape.back_edges(of)[..] else {
        return None;
    };
    let header = shape.nest.header(of);
    let inside = |block: Block| shape.nest.contains(of, block);
    let mut play = Play {
        func,
        now: FxHashMap::default(),
        made: FxHashMap::default(),
        in_loop: |value: Value| func.defining_block(value).is_some_and(inside),
    };
    for (index, &param) in func.block_params(header).iter().enumerate() {
        let entering = shape.entering_edges(of);
        let mut starts = entering.iter().map(|&edge| func.edge_args(edge)[index]);
        let first = starts.next().and_then(|value| play.contents(value));
        if let Some(first) = first
            && starts.all(|value| play.contents(value) == Some(first))
        {
            play.now.insert(param, first);
        }
    }
    let blocks: Vec<Block> = (shape.walk.reverse_postorder())
        .filter(|&block| inside(block))
        .collect();
    let mut taken = 0;
    let mut effort = 0;
    for _ in 0..iterations {
        for &block in &blocks {
            for inst in func.block_insts(block) {
                if !play.is_shared(inst) {
                    taken += size(func, inst);
                }
                effort += 1;
            }
        }
        if taken > most || effort > EFFORT * most {
            return None;
        }
        let next: Vec<(Value, Contents)> = func
            .block_params(header)
            .iter()
            .zip(func.edge_args(back))
            .filter_map(|(&param, &arg)| Some((param, play.contents(arg)?)))
            .collect();
        play.now.clear();
        play.now.extend(next);
    }
    Some(taken)
}

/// An iteration as it is played.
struct Play<'a, F> {
    func: &'a Function,
    /// By value of the loop.
    now: FxHashMap<Value, Contents>,
    /// By instruction: the contents it has read, each combination with its number.
    made: FxHashMap<Inst, FxHashMap<Reads, u32>>,
    in_loop: F,
}

impl<F: Fn(Value) -> bool> Play<'_, F> {
    /// What `value` is, unless it is something else in each iteration.
    fn contents(&self, value: Value) -> Option<Contents> {
        if (self.in_loop)(value) {
            return self.now.get(&value).copied();
        }
        let by = self.func.defining_inst(value);
        let bits = by.and_then(|by| known_copy(self.func, by));
        Some(bits.map_or(Contents::Outside(value), |(_, bits)| Contents::Bits(bits)))
    }

    /// Plays `inst`; whether it takes nothing, because its result is a number or an iteration before has made it.
    fn is_shared(&mut self, inst: Inst) -> bool {
        let func = self.func;
        let Operation::Abstract(op, mods) = func.inst(inst).operation() else {
            return false;
        };
        let known = |value: Value| match self.contents(value)? {
            Contents::Bits(bits) => Some(bits),
            _ => None,
        };
        if op == AbstractOp::CondBr {
            let condition = func.operands(inst).first().copied();
            return condition
                .and_then(Operand::as_value)
                .and_then(known)
                .is_some();
        }
        if let Some((value, bits)) = known_copy(func, inst) {
            self.now.insert(value, Contents::Bits(bits));
            return true;
        }
        let copies = matches!(
            op,
            AbstractOp::Mov | AbstractOp::Collect | AbstractOp::Split
        );
        if !func.inst(inst).guard().is_always() || !(copies || is_computable(op, mods)) {
            return false;
        }
        if let Some(bits) = known_result(func, inst, |reg| known(reg.value()?)) {
            let results: SmallVec<[Value; 2]> = func.value_defs(inst).collect();
            for result in results {
                self.now.insert(result, Contents::Bits(bits));
            }
            return true;
        }
        let Some(reads) = func
            .value_uses(inst)
            .map(|value| self.contents(value))
            .collect::<Option<Reads>>()
        else {
            return false;
        };
        let combinations = self.made.entry(inst).or_default();
        let count = combinations.len() as u32;
        let number = *combinations.entry(reads).or_insert(count);
        for (index, result) in func.value_defs(inst).enumerate() {
            let contents = Contents::Made(inst, number, index as u16);
            self.now.insert(result, contents);
        }
        number != count
    }
}
