//! UnswitchLoops (10102): loop unswitching. Branches that go the same way in every iteration are taken before the loop.
//!
//! `for (…) { if (c) a; else b; }` becomes `if (c) for (…) a; else for (…) b;` where `c` is computed before the loop: no iteration asks any more, and each of the two loops has
//! fewer blocks, which order, hoisting and unrolling deal with better. A branch whose one way leaves the loop is such a branch, too: one of the loops ends in its first iteration.
//!
//! It costs a second loop. So the loops of a function may grow by [`knobs::UNSWITCH_SIZE`](crate::knobs::registry::UNSWITCH_SIZE) instructions each, and the function by [`GROWTH`] parts of itself; of nested
//! loops in which nothing changes the condition the outermost one that is small enough is taken. Branches to short sides are choices and guards by now (IfConversion): what is left is long or has effects.
//!
//! **Lanes.** The condition is the same in all lanes that are together before the loop, so lanes that are together in an iteration are together in its copy. Lanes that are not may come to
//! different loops: loops with operations that lanes do together are left alone unless the whole warp comes to them, and those with barriers of the block in any case, since no code
//! has more barriers than it needs.
//!
//! Cost: linear in the function for each of at most [`ROUNDS`] rounds.

use super::common_subexpressions::eliminate_common_subexpressions;
use super::general_optimize::optimize_general;
use crate::knobs::registry::UNSWITCH_SIZE;
use crate::loops::{
    LoopAnalyses, Region, close, copy, go, instructions, is_singular, new_block_before, part,
};
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DefUse, Divergence, Loop};
use orias_ori::{AbstractOp, Block, Effects, Function, Value};

/// How often loops are looked for: a loop may have several such branches.
const ROUNDS: usize = 4;

/// A function may grow by one part in so many, and by what a few small loops take.
const GROWTH: u64 = 2;

/// What every function may grow by, in instructions.
const LEAST: u64 = 256;

/// A loop, and the block whose branch is taken before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unswitching {
    of: Loop,
    branch: Block,
    size: u64,
}

/// Runs the phase.
pub fn unswitch_loops(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let mut room = room(func);
    for _ in 0..ROUNDS {
        let Some(shape) = func.entry().map(|_| LoopAnalyses::of(func)) else {
            break;
        };
        let found = decide(func, &shape, context, &mut room);
        if !unswitch(func, &shape, &found) {
            break;
        }
        optimize_general(func, context)?;
        eliminate_common_subexpressions(func, context)?;
    }
    Ok(())
}

/// What the phase would do with the loops of `func` in its first round, in words.
pub fn explain(func: &Function, context: &Context<'_>) -> Vec<String> {
    let Some(shape) = func.entry().map(|_| LoopAnalyses::of(func)) else {
        return Vec::new();
    };
    let found = decide(func, &shape, context, &mut room(func));
    let words = found.iter().map(|one| {
        let (header, branch, size) = (shape.nest.header(one.of), one.branch, one.size);
        format!("loop at {header}, {size} instructions: the branch of {branch} goes one way, which is chosen before it")
    });
    words.collect()
}

/// How many instructions the function may grow by.
fn room(func: &Function) -> u64 {
    let all = func.blocks().flat_map(|block| func.block_insts(block));
    all.count() as u64 / GROWTH + LEAST
}

/// Which loops are unswitched; no two have a block in common.
fn decide(
    func: &Function,
    shape: &LoopAnalyses,
    context: &Context<'_>,
    room: &mut u64,
) -> Vec<Unswitching> {
    let nest = &shape.nest;
    let most = u64::try_from(context.knobs.int(&UNSWITCH_SIZE)).unwrap_or(0);
    let mut divergence = None;
    let mut taken: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut found = Vec::new();
    for &branch in shape.walk.postorder().iter().rev() {
        let (Some(inner), Some(condition)) = (nest.innermost(branch), condition(func, branch))
        else {
            continue;
        };
        let around = std::iter::successors(Some(inner), |&of| nest.parent(of));
        let outside = |&of: &Loop| {
            let home = func.defining_block(condition);
            home.is_some_and(|home| !nest.contains(of, home))
        };
        let fits = around
            .take_while(outside)
            .filter_map(|of| Some((of, size(func, shape, of, most)?)))
            .last();
        let Some((of, body)) = fits else {
            continue;
        };
        let blocks = nest.blocks(of);
        if blocks.iter().any(|&block| taken[block]) || body.size > *room {
            continue;
        }
        let divergence = divergence.get_or_insert_with(|| {
            let uses = DefUse::new(func);
            Divergence::new(func, &shape.graph, &shape.walk, &shape.nest, &uses)
        });
        let header = nest.header(of);
        if !divergence.is_uniform_at(condition, header, nest)
            || body.together && divergence.is_partial(header)
        {
            continue;
        }
        *room -= body.size;
        for &block in blocks {
            taken[block] = true;
        }
        found.push(Unswitching {
            of,
            branch,
            size: body.size,
        });
    }
    found
}

/// What the branch at the end of `block` asks, if it is one of two ways.
fn condition(func: &Function, block: Block) -> Option<Value> {
    let branch = func.terminator(block)?;
    let is_branch = func.opcode(branch).as_abstract() == Some(AbstractOp::CondBr)
        && func.edges(branch).len() == 2
        && func.inst(branch).guard().is_always();
    let asked = func.operands(branch).first()?;
    is_branch.then(|| asked.as_value()).flatten()
}

/// What a loop consists of.
struct Body {
    size: u64,
    /// Whether there are operations that lanes do together.
    together: bool,
}

/// What `of` consists of, if it can be copied and takes at most so many instructions.
fn size(func: &Function, shape: &LoopAnalyses, of: Loop, most: u64) -> Option<Body> {
    let nest = &shape.nest;
    if nest.is_irreducible(of) || func.entry() == Some(nest.header(of)) {
        return None;
    }
    let mut body = Body {
        size: 0,
        together: false,
    };
    for &block in nest.blocks(of) {
        for inst in func.block_insts(block) {
            let effects = func.opcode(inst).effects();
            let left = Effects::BARRIER.with(Effects::CALL);
            if is_singular(func, inst) || effects.intersects(left) {
                return None;
            }
            body.together |= effects.intersects(Effects::CONVERGENT);
            body.size += instructions(func, inst);
        }
        if body.size > most {
            return None;
        }
    }
    Some(body)
}

/// Does it. Returns whether there was a loop.
fn unswitch(func: &mut Function, shape: &LoopAnalyses, found: &[Unswitching]) -> bool {
    if found.is_empty() {
        return false;
    }
    let uses = DefUse::new(func);
    let mut ready = Vec::new();
    for one in found {
        let region = Region::new(shape.nest.blocks(one.of).to_vec());
        if let Some(closing) = close(func, shape, &uses, &region) {
            ready.push((one, region, closing));
        }
    }
    for (_, _, closing) in &ready {
        closing.apply(func, shape);
    }
    // A loop that another one leads to goes first: copies of that one lead where it leads by then.
    ready.sort_by_key(|(one, ..)| shape.walk.postorder_number(shape.nest.header(one.of)));
    for (one, region, _) in &ready {
        // What another loop computes has the name by now under which it leaves that loop.
        let Some(condition) = condition(func, one.branch) else {
            continue;
        };
        let header = shape.nest.header(one.of);
        let before = new_block_before(func, header, &shape.entering_edges(one.of));
        let Some(&last) = region.blocks.last() else {
            continue;
        };
        let copied = copy(func, region, header, last);
        let other = copied.block(header);
        for &block in &region.blocks {
            let edges = func.successor_edges(copied.block(block)).to_vec();
            for edge in edges {
                if func.edge_target(edge) == header {
                    let args = func.edge_args(edge).to_vec();
                    func.set_edge(edge, other, &args);
                }
            }
        }
        let params = func.block_params(before).to_vec();
        if let Some(end) = func.terminator(before) {
            let ways = [(header, &params[..]), (other, &params[..])];
            part(func, end, condition.into(), ways[0], ways[1]);
        }
        go(func, one.branch, 0);
        go(func, copied.block(one.branch), 1);
        // What the source says of a loop holds of both.
        let rolled = &mut func.attributes.rolled;
        let again: Vec<Block> = rolled.iter().map(|&block| copied.block(block)).collect();
        let again = again.into_iter().filter(|block| !rolled.contains(block));
        let again: Vec<Block> = again.collect();
        rolled.extend(again);
    }
    !ready.is_empty()
}
