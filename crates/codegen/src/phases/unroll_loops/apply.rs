//! Copies of loops.
//!
//! All loops of a plan are closed first, then copied one after the other: they have no blocks in common, and what is known of one stays true when another is copied. A loop whose
//! bound another one of them computes waits for the next round: closing gives the bound another name.

use super::plan::Unrolling;
use crate::emit::Emit;
use crate::loops::{
    Closing, Copied, LoopAnalyses, Region, close, copy, go, new_block_before, part,
};
use orias_ori::analysis::{DefUse, Iterations, Loop, Stay};
use orias_ori::operation::{Compare, Scalar};
use orias_ori::{AbstractOp, Block, Edge, Function, Inst, Operand, Value, ValueDef};

/// Unrolls these loops. Returns whether there was one.
pub fn unroll(func: &mut Function, shape: &LoopAnalyses, plans: &[(Loop, Unrolling)]) -> bool {
    if plans.is_empty() {
        return false;
    }
    let uses = DefUse::new(func);
    let mut ready: Vec<(Loop, Unrolling, Region, Closing)> = Vec::new();
    for &(of, way) in plans {
        if is_bound_by_another(func, shape, plans, way) {
            continue;
        }
        let region = Region::new(shape.nest.blocks(of).to_vec());
        match close(func, shape, &uses, &region) {
            Some(closing) => ready.push((of, way, region, closing)),
            // It will not be different the next time.
            None => func.attributes.rolled.push(shape.nest.header(of)),
        }
    }
    for (_, _, _, closing) in &ready {
        closing.apply(func, shape);
    }
    // A loop that another one leads to goes first: copies of that one lead where it leads by then.
    ready.sort_by_key(|(of, ..)| shape.walk.postorder_number(shape.nest.header(*of)));
    for (of, way, region, _) in &ready {
        let unroller = Unroller {
            header: shape.nest.header(*of),
            region,
            back: shape.back_edges(*of),
            entering: shape.entering_edges(*of),
        };
        match *way {
            Unrolling::Known {
                exit,
                stays,
                copies,
            } => unroller.known(func, &exit, stays, copies),
            Unrolling::ByValue { exit, copies } => unroller.by_value(func, &exit, copies),
        }
    }
    !ready.is_empty()
}

/// Whether one of the loops that are unrolled computes what this one counts to.
fn is_bound_by_another(
    func: &Function,
    shape: &LoopAnalyses,
    plans: &[(Loop, Unrolling)],
    way: Unrolling,
) -> bool {
    let Unrolling::ByValue { exit, .. } = way else {
        return false;
    };
    let bound = exit.bound.as_value();
    let Some(at) = bound.and_then(|value| func.defining_block(value)) else {
        return false;
    };
    plans.iter().any(|&(of, _)| shape.nest.contains(of, at))
}

struct Unroller<'a> {
    header: Block,
    region: &'a Region,
    /// The edges to the header from inside, and from outside.
    back: Vec<Edge>,
    entering: Vec<Edge>,
}

impl Unroller<'_> {
    /// Copies in a row, of which the last leads to the first, behind as many more as make the last of the row the only one to keep its test. The counted exit is taken when it
    /// has been passed by `stays` times.
    fn known(&self, func: &mut Function, exit: &Iterations, stays: u64, copies: u64) {
        let all = copies > stays;
        let first = (stays + 1) % copies;
        let peeled = self.copies(func, first, None);
        for (number, copied) in peeled.iter().enumerate() {
            match number {
                0 => self.link(func, &self.entering, Some(copied)),
                _ => {
                    let back = self.copied_back(func, &peeled[number - 1]);
                    self.link(func, &back, Some(copied));
                }
            }
            go(func, copied.block(exit.block), exit.staying);
        }
        // The back edges of the last copy lead to the original; those of each other one to the next.
        let row = self.copies(func, copies - 1, None);
        self.link(func, &self.back, row.first());
        for pair in row.windows(2) {
            let back = self.copied_back(func, &pair[0]);
            self.link(func, &back, pair.get(1));
        }
        let row = std::iter::once(None).chain(row.iter().map(Some));
        for (number, copied) in row.enumerate() {
            let block = copied.map_or(exit.block, |copied| copied.block(exit.block));
            match number as u64 == copies - 1 {
                false => go(func, block, exit.staying),
                true if all => go(func, block, 1 - exit.staying),
                true => {}
            }
        }
        if !all {
            func.attributes.rolled.push(self.header);
        }
    }

    /// A loop of copies without the counted exit before the loop, run while the exit would not be taken in them: tested before the first row and after each.
    ///
    /// Where an iteration ends with the exit, the last copy of a row may take it: a number of iterations that is a multiple of the factor leaves nothing to the loop as it was.
    /// Behind a row that no other follows comes the test that the last copy lacks.
    fn by_value(&self, func: &mut Function, exit: &Iterations, copies: u64) {
        let ValueDef::Param(_, index) = func.value_def(exit.variable) else {
            return;
        };
        let before = new_block_before(func, self.header, &self.entering);
        let again = new_block_before(func, self.header, &[]);
        let rest = self
            .ends_with(func, exit)
            .then(|| new_block_before(func, self.header, &[]));
        let row = self.copies(func, copies, Some(before));
        for pair in row.windows(2) {
            let back = self.copied_back(func, &pair[0]);
            self.link(func, &back, pair.get(1));
        }
        let Some((first, last)) = row.first().zip(row.last()) else {
            return;
        };
        for edge in self.copied_back(func, last) {
            let args = func.edge_args(edge).to_vec();
            func.set_edge(edge, again, &args);
        }
        let leaving = func
            .terminator(last.block(exit.block))
            .map(|end| func.edges(end)[1 - exit.staying])
            .map(|edge| (func.edge_target(edge), func.edge_args(edge).to_vec()));
        for copied in &row {
            go(func, copied.block(exit.block), exit.staying);
        }
        let first = first.block(self.header);
        let test = Test {
            exit,
            copies: copies as i64,
            ends: rest.is_some(),
        };
        let Some(limit) = func
            .terminator(before)
            .and_then(|end| test.limit(func, end))
        else {
            return;
        };
        for (guard, other) in [(before, self.header), (again, rest.unwrap_or(self.header))] {
            let params = func.block_params(guard).to_vec();
            let Some(end) = func.terminator(guard) else {
                return;
            };
            let Some(condition) = test.holds(func, end, limit, params[usize::from(index)]) else {
                return;
            };
            part(func, end, condition, (first, &params), (other, &params));
        }
        if let (Some(rest), Some((out, args))) = (rest, leaving) {
            let params = func.block_params(rest).to_vec();
            let Some(end) = func.terminator(rest) else {
                return;
            };
            let Some(stays) = test.stays(func, end, params[usize::from(index)]) else {
                return;
            };
            part(func, end, stays, (self.header, &params), (out, &args));
        }
        func.attributes.rolled.extend([self.header, first]);
    }

    /// Whether the last thing that an iteration does is to ask whether the next value of the variable is beyond the bound.
    fn ends_with(&self, func: &Function, exit: &Iterations) -> bool {
        let end = func.terminator(exit.block);
        let back = end.and_then(|end| func.edges(end).get(exit.staying).copied());
        exit.ahead == exit.step && back.is_some_and(|back| self.back == [back])
    }

    /// Copies, placed behind one another, behind `after` or behind the loop.
    fn copies(&self, func: &mut Function, count: u64, after: Option<Block>) -> Vec<Copied> {
        let mut after = after.or(self.region.blocks.last().copied());
        let mut row = Vec::new();
        for _ in 0..count {
            let Some(place) = after else { break };
            let copied = copy(func, self.region, self.header, place);
            after = self.region.blocks.last().map(|&last| copied.block(last));
            row.push(copied);
        }
        row
    }

    /// The edges of a copy that lead to the header of the original.
    fn copied_back(&self, func: &Function, copied: &Copied) -> Vec<Edge> {
        let blocks = self.region.blocks.iter();
        blocks
            .flat_map(|&block| func.successor_edges(copied.block(block)))
            .copied()
            .filter(|&edge| func.edge_target(edge) == self.header)
            .collect()
    }

    /// Lets `edges` lead to the header of a copy.
    fn link(&self, func: &mut Function, edges: &[Edge], copied: Option<&Copied>) {
        let Some(copied) = copied else { return };
        let header = copied.block(self.header);
        for &edge in edges {
            let args = func.edge_args(edge).to_vec();
            func.set_edge(edge, header, &args);
        }
    }
}

/// The test whether an exit would be passed by in all of a row of copies.
///
/// Comparisons go in one direction and the variable does, too, so the last copy decides: its value is `K` beyond the variable. For `variable + K < bound` in whole numbers, `bound - K` is
/// computed once, before the loop; where that would wrap, it becomes the least number, which nothing is less than. For a bound that must not be met, the
/// distance to it is compared, which is exact modulo 2 to the width.
///
/// Where the last copy may leave, because what it asks is asked behind the row, the copy before it decides. What is asked there is whether the variable, as the next
/// iteration finds it, stays; a row that follows makes sure of that, too.
struct Test<'a> {
    exit: &'a Iterations,
    copies: i64,
    /// Whether the exit may be taken in the last copy.
    ends: bool,
}

impl Test<'_> {
    /// How far the last copy is from the first, in numbers.
    fn reach(&self) -> i64 {
        self.exit.step.wrapping_mul(self.copies - 1)
    }

    /// Computes before `at` whether the exit is passed by with which the iteration before ended that left `variable`.
    fn stays(&self, func: &mut Function, at: Inst, variable: Value) -> Option<Operand> {
        let compare = match self.exit.stay {
            Stay::Less => Compare::Lt,
            Stay::AtMost => Compare::Le,
            Stay::Greater => Compare::Gt,
            Stay::AtLeast => Compare::Ge,
            Stay::NotEqual => Compare::Ne,
        };
        let mut emit = Emit::before(func, at);
        let scalar = self.scalar(self.exit.signed);
        let stays = emit.setp(compare, scalar, variable.into(), self.exit.bound);
        emit.finish().ok().map(|()| stays)
    }

    /// Computes before `at` what the variable is compared with.
    fn limit(&self, func: &mut Function, at: Inst) -> Option<Operand> {
        let exit = self.exit;
        let unsigned = self.scalar(false);
        let mut emit = Emit::before(func, at);
        if exit.stay == Stay::NotEqual {
            // A variable that is there already is no distance away from it.
            let ahead = self.number(if self.ends { 0 } else { exit.ahead });
            let goal = emit.binary(AbstractOp::Sub, unsigned, exit.bound, ahead);
            return emit.finish().ok().map(|()| goal);
        }
        let beyond = beyond(exit, self.copies - i64::from(self.ends))?;
        let (least, most) = match (exit.bits, exit.signed) {
            (32, true) => (i64::from(i32::MIN), i64::from(i32::MAX)),
            (32, false) => (0, i64::from(u32::MAX)),
            (_, true) => (i64::MIN, i64::MAX),
            // The largest number, as bits.
            (_, false) => (0, -1),
        };
        let (nearest, wraps, op) = match goes_up(exit) {
            true => (least.wrapping_add(beyond), Compare::Lt, AbstractOp::Sub),
            false => (most.wrapping_sub(beyond), Compare::Gt, AbstractOp::Add),
        };
        let nearest = self.number(nearest);
        let bits = match exit.bits {
            32 => Scalar::B32,
            _ => Scalar::B64,
        };
        let wraps = emit.setp(wraps, self.scalar(exit.signed), exit.bound, nearest);
        let bound = emit.selp(bits, nearest, exit.bound, wraps);
        let limit = emit.binary(op, unsigned, bound, self.number(beyond));
        emit.finish().ok().map(|()| limit)
    }

    /// Computes before `at` whether the exit is passed by in all copies.
    fn holds(
        &self,
        func: &mut Function,
        at: Inst,
        limit: Operand,
        variable: Value,
    ) -> Option<Operand> {
        let exit = self.exit;
        let variable = Operand::from(variable);
        let mut emit = Emit::before(func, at);
        let holds = match exit.stay {
            Stay::NotEqual => {
                // The distance from the first value that is tested to the bound, in the direction of the step.
                let (from, to) = match exit.step > 0 {
                    true => (variable, limit),
                    false => (limit, variable),
                };
                let unsigned = self.scalar(false);
                let distance = emit.binary(AbstractOp::Sub, unsigned, to, from);
                let far = self.number(self.reach().wrapping_abs());
                emit.setp(Compare::Gt, unsigned, distance, far)
            }
            _ => {
                let compare = match goes_up(exit) {
                    true => Compare::Lt,
                    false => Compare::Gt,
                };
                emit.setp(compare, self.scalar(exit.signed), variable, limit)
            }
        };
        emit.finish().ok().map(|()| holds)
    }

    fn scalar(&self, signed: bool) -> Scalar {
        match (self.exit.bits, signed) {
            (32, true) => Scalar::S32,
            (32, false) => Scalar::U32,
            (_, true) => Scalar::S64,
            (_, false) => Scalar::U64,
        }
    }

    fn number(&self, number: i64) -> Operand {
        match self.exit.bits {
            32 => Operand::imm(u64::from(number as u32)),
            _ => Operand::imm(number as u64),
        }
    }
}

fn goes_up(exit: &Iterations) -> bool {
    matches!(exit.stay, Stay::Less | Stay::AtMost)
}

/// How far the value that the last of `copies` copies tests is beyond the variable, so that being less, or greater, is the test; nothing if it is not
/// beyond it, or does not fit.
pub fn beyond(exit: &Iterations, copies: i64) -> Option<i64> {
    let reach = exit.step.checked_mul(copies - 1)?;
    let beyond = exit.ahead.checked_add(reach)?;
    let beyond = match goes_up(exit) {
        true => beyond,
        false => beyond.checked_neg()?,
    };
    let inclusive = matches!(exit.stay, Stay::AtMost | Stay::AtLeast);
    let most = i64::from(i32::MAX) / 2;
    Some(beyond - i64::from(inclusive)).filter(|beyond| (0..most).contains(beyond))
}

/// Whether the test for a row of `copies` copies can be made.
pub fn can_test(exit: &Iterations, copies: i64) -> bool {
    let reach = exit.step.checked_mul(copies);
    let near = reach.is_some_and(|reach| reach.unsigned_abs() < 1 << 30);
    near && (exit.stay == Stay::NotEqual || beyond(exit, copies).is_some())
}
