//! StageAndFence (25): fences between the iterations of unrolled loops, where a knob asks for them.
//!
//! Copies of an iteration run in the order in which the iterations would, and nothing moves across what orders memory, so unrolling never makes a fence necessary; ptxas's code has none that
//! PTX does not ask for. So knob 437 is off (-1) and every loop is skipped. With 0 or 2, for whoever looks for a race, each unrolled loop is decided on as the published description says:
//!
//! 1. Its iterations are counted ([`Iterations`], which says why not); unless it starts from a copied remainder whose count is a value.
//! 2. Nothing is wanted where iterations are coherent anyway: no write to memory, or something in every iteration that orders memory (11).
//! 3. Above [`MANY`] iterations there must be more than three for each way in.
//! 4. `budget = instructions + those of the header - what goes round - floor(knob 900 * iterations)`; ten times the cost of a fence below it: the fence is skipped (7).
//! 5. The strength is 0, 1, 2 or 4: knob 429 by loop, knob 903 for all; in loops of several blocks 1 if the budget reaches `min(5 * depth + 22, 100)`, else what knob 437 starts from; that, too, where the
//!    count is known and the budget at most 49; else 4. 1 is a fence for the block, 2 for the GPU, 4 for the system, 0 none.
//! 6. With knob 892 a loop that does not go round again gets none.
//!
//! The fence stands at the end of each block that goes back to the header. A fence more changes no outcome that was allowed before but takes some away. Loops come in reverse order.
//!
//! Cost: that of the loop nest, and one look at each loop's instructions.

use crate::emit::Emit;
use crate::knobs::registry::{FENCE_BUDGET, FENCE_LOOPS, FENCE_MODE, FENCE_PROFIT, FENCE_STRENGTH};
use crate::loops::{LoopAnalyses, start};
use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::{Iterations, Loop, Refusal};
use orias_ori::operation::{Order, Scope};
use orias_ori::{AbstractOp, Block, Effects, Function, Guard};

/// Iterations above which the ways in count.
const MANY: u64 = 999;
/// Instructions an iteration spends on going round.
const OVERHEAD: i64 = 3;
/// Instructions a fence takes beyond the block: MEMBAR, ERRBAR, CGAERRBAR, CCTL.
const FENCE_COST: i64 = 4;

/// Why a loop gets no fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    /// Knob 437 is off, or knob 429 says so.
    Off,
    /// There is enough to do besides (7).
    Budget,
    /// Its iterations are coherent (11).
    Coherent,
    /// Its iterations are not counted (12 to 23).
    Uncounted(Refusal),
    /// Too few iterations for each way in.
    Ways,
    /// It does not go round again.
    Once,
    /// Strength 0.
    Weak,
}

impl Skip {
    fn in_words(self) -> String {
        match self {
            Self::Off => "no fence: not asked for".into(),
            Self::Budget => "no fence (7): enough to do besides".into(),
            Self::Coherent => "no fence (11): its iterations are coherent".into(),
            Self::Uncounted(why) => format!("no fence ({}): {why}", why.number()),
            Self::Ways => "no fence: too few iterations for each way in".into(),
            Self::Once => "no fence: it does not go round again".into(),
            Self::Weak => "no fence: strength 0".into(),
        }
    }
}

/// What is known of a loop.
#[derive(Clone, Copy, Debug)]
struct Facts {
    number: usize,
    instructions: i64,
    header: i64,
    iterations: u64,
    /// Whether the count is known, not estimated by the number of copies.
    counted: bool,
    ways: u64,
    several_blocks: bool,
    depth: i64,
}

/// Runs the phase.
pub fn stage_and_fence(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    if context.knobs.int(&FENCE_MODE) < 0 || func.entry().is_none() {
        return Ok(());
    }
    let shape = LoopAnalyses::of(func);
    for (of, decision) in decide(func, &shape, context) {
        let Ok(scope) = decision else { continue };
        for &latch in shape.nest.latches(of) {
            fence_at_end(func, latch, scope)?;
        }
    }
    Ok(())
}

/// What the phase would do, in words: each loop, then how many got a fence.
pub fn explain(func: &Function, context: &Context<'_>) -> Vec<String> {
    if context.knobs.int(&FENCE_MODE) < 0 || func.entry().is_none() {
        return Vec::new();
    }
    let shape = LoopAnalyses::of(func);
    let decisions = decide(func, &shape, context);
    let fenced = decisions.iter().filter(|(_, it)| it.is_ok()).count();
    let mut lines: Vec<String> = decisions
        .iter()
        .map(|(of, decision)| {
            let what = match decision {
                Ok(scope) => format!("a fence for {scope:?}"),
                Err(skip) => skip.in_words(),
            };
            format!("loop at {}: {what}", shape.nest.header(*of))
        })
        .collect();
    lines.push(format!(
        "{fenced} loops with a fence, {} without",
        decisions.len() - fenced
    ));
    lines
}

fn decide(
    func: &Function,
    shape: &LoopAnalyses,
    context: &Context<'_>,
) -> Vec<(Loop, Result<Scope, Skip>)> {
    let loops: Vec<Loop> = shape.nest.loops().collect();
    let rolled = |of: &Loop| func.attributes.rolled.contains(&shape.nest.header(*of));
    let numbered = loops.into_iter().enumerate().rev();
    numbered
        .filter(|(_, of)| rolled(of))
        .map(|(number, of)| (of, decide_one(func, shape, context, number, of)))
        .collect()
}

fn decide_one(
    func: &Function,
    shape: &LoopAnalyses,
    context: &Context<'_>,
    number: usize,
    of: Loop,
) -> Result<Scope, Skip> {
    let back = shape.back_edges(of);
    let exit =
        Iterations::of(func, &shape.nest, &shape.tree, of, &back).map_err(Skip::Uncounted)?;
    let count = match exit.count(start(func, shape, of, &exit)) {
        Ok(count) if count > i32::MAX as u64 => return Err(Skip::Uncounted(Refusal::TooMany)),
        Ok(count) => Some(count),
        // A remainder, or a loop of rows, whose count is a value.
        Err(Refusal::StartUnknown | Refusal::BoundUnknown) => None,
        Err(why) => return Err(Skip::Uncounted(why)),
    };
    if is_coherent(func, shape, of) {
        return Err(Skip::Coherent);
    }
    let size = |block: Block| func.block_insts(block).count() as i64;
    let facts = Facts {
        number,
        instructions: shape.nest.blocks(of).iter().map(|&block| size(block)).sum(),
        header: size(shape.nest.header(of)),
        iterations: count.unwrap_or(0),
        counted: count.is_some(),
        ways: shape.entering_edges(of).len() as u64,
        several_blocks: shape.nest.blocks(of).len() > 1,
        depth: i64::from(shape.nest.depth(of)),
    };
    strength(facts, context)
}

/// Whether no iteration can see another one's accesses in the wrong order: it writes nothing, or something in every iteration orders memory.
fn is_coherent(func: &Function, shape: &LoopAnalyses, of: Loop) -> bool {
    let blocks = shape.nest.blocks(of);
    let writes = |effects: Effects| effects.intersects(Effects::WRITES);
    let effects = |block: Block| {
        func.block_insts(block)
            .map(|inst| func.opcode(inst).effects())
    };
    let any_writes = blocks.iter().any(|&block| effects(block).any(writes));
    let ordered = blocks.iter().any(|&block| {
        let every = shape
            .nest
            .latches(of)
            .iter()
            .all(|&latch| shape.tree.dominates(block, latch));
        every && effects(block).any(|it| it.intersects(Effects::BARRIER))
    });
    !any_writes || ordered
}

/// The scope of a loop's fence, by steps 3 to 6.
fn strength(facts: Facts, context: &Context<'_>) -> Result<Scope, Skip> {
    let first = context.knobs.int(&FENCE_MODE);
    let by_hand = by_hand(context.knobs.text(&FENCE_LOOPS), facts.number);
    if by_hand == Some(false) {
        return Err(Skip::Off);
    }
    if facts.counted && facts.iterations == 0 && context.knobs.bool(&FENCE_PROFIT) {
        return Err(Skip::Once);
    }
    if facts.iterations > MANY && facts.ways > 0 && facts.iterations / facts.ways <= 3 {
        return Err(Skip::Ways);
    }
    let taken = (context.knobs.double(&FENCE_BUDGET) * facts.iterations as f64).floor();
    let budget = facts.instructions + facts.header - OVERHEAD - taken as i64;
    if by_hand.is_none() && 10 * FENCE_COST < budget {
        return Err(Skip::Budget);
    }
    let strength = match context.knobs.int(&FENCE_STRENGTH) {
        forced @ 0..=2 => 1 << forced,
        _ if facts.several_blocks && budget >= (5 * facts.depth + 22).min(100) => 1,
        _ if facts.several_blocks => first,
        _ if facts.counted && budget <= 49 => first,
        _ => 4,
    };
    match strength {
        1 => Ok(Scope::Cta),
        2 => Ok(Scope::Gpu),
        4 => Ok(Scope::Sys),
        _ => Err(Skip::Weak),
    }
}

/// What knob 429 says of a loop: `+N-` or `-N-` somewhere in it.
fn by_hand(filter: &str, number: usize) -> Option<bool> {
    if filter.contains(&format!("+{number}-")) {
        Some(true)
    } else if filter.contains(&format!("-{number}-")) {
        Some(false)
    } else {
        None
    }
}

fn fence_at_end(func: &mut Function, block: Block, scope: Scope) -> Result<(), PhaseError> {
    let Some(end) = func.terminator(block) else {
        return Ok(());
    };
    let mut emit = Emit::before(func, end);
    emit.put(
        AbstractOp::Fence,
        (Order::AcqRel, scope),
        &[],
        &[],
        Guard::ALWAYS,
        &[],
    );
    emit.finish().map_err(|error| PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knobs::Knobs;
    use orias_machine::Machine;
    use orias_sass::Target;

    const FACTS: Facts = Facts {
        number: 1,
        instructions: 20,
        header: 10,
        iterations: 4,
        counted: true,
        ways: 1,
        several_blocks: false,
        depth: 1,
    };

    fn decided(facts: Facts, settings: &[&str]) -> Result<Scope, Skip> {
        let mut knobs = Knobs::default();
        for setting in ["437=2"].iter().chain(settings) {
            knobs.set(setting).expect("a good knob");
        }
        let machine = Machine::of(Target::Sm90a);
        strength(
            facts,
            &Context {
                opt_level: 3,
                knobs: &knobs,
                machine,
            },
        )
    }

    #[test]
    fn the_budget_decides_whether_and_how_strongly() {
        // 20 + 10 - 3 - 2 = 25.
        assert_eq!(decided(FACTS, &[]), Ok(Scope::Gpu));
        assert_eq!(decided(FACTS, &["437=0"]), Err(Skip::Weak));
        let large = Facts {
            instructions: 36,
            ..FACTS
        };
        assert_eq!(decided(large, &[]), Err(Skip::Budget));
        assert_eq!(decided(large, &["900=0.75"]), Ok(Scope::Gpu));
        let uncounted = Facts {
            counted: false,
            iterations: 0,
            ..FACTS
        };
        assert_eq!(decided(uncounted, &[]), Ok(Scope::Sys));
        // Several blocks: 27 = 5 + 22 is reached, or not.
        let blocks = Facts {
            several_blocks: true,
            ..FACTS
        };
        assert_eq!(decided(blocks, &[]), Ok(Scope::Gpu));
        let more = Facts {
            instructions: 22,
            ..blocks
        };
        assert_eq!(decided(more, &[]), Ok(Scope::Cta));
        // Whether the count is known makes no difference to them.
        let counted = false;
        assert_eq!(decided(Facts { counted, ..blocks }, &[]), Ok(Scope::Gpu));
        // 32 = 2 * 5 + 22.
        let inner = Facts { depth: 2, ..more };
        assert_eq!(decided(inner, &[]), Ok(Scope::Gpu));
        // Deeper than 15 loops the bound is 100.
        let deepest = Facts {
            instructions: 95,
            depth: 20,
            ..blocks
        };
        assert_eq!(decided(deepest, &["429=+1-"]), Ok(Scope::Cta));
        // One block, and a budget above 49.
        let long = Facts {
            instructions: 45,
            ..FACTS
        };
        assert_eq!(decided(long, &["429=+1-"]), Ok(Scope::Sys));
        let instructions = 44;
        let at_most = Facts {
            instructions,
            ..long
        };
        assert_eq!(decided(at_most, &["429=+1-"]), Ok(Scope::Gpu));
    }

    #[test]
    fn knobs_and_counts_have_their_say() {
        assert_eq!(decided(FACTS, &["903=0"]), Ok(Scope::Cta));
        assert_eq!(decided(FACTS, &["903=2"]), Ok(Scope::Sys));
        assert_eq!(decided(FACTS, &["429=-1-"]), Err(Skip::Off));
        assert_eq!(decided(FACTS, &["429=-2-"]), Ok(Scope::Gpu));
        let large = Facts {
            instructions: 90,
            ..FACTS
        };
        assert_eq!(decided(large, &["429=+1-", "903=1"]), Ok(Scope::Gpu));
        let once = Facts {
            iterations: 0,
            ..FACTS
        };
        assert_eq!(decided(once, &[]), Err(Skip::Once));
        assert_eq!(decided(once, &["892=off"]), Ok(Scope::Gpu));
        let many = Facts {
            iterations: 1200,
            ways: 400,
            ..FACTS
        };
        assert_eq!(decided(many, &[]), Err(Skip::Ways));
        let fewer = Facts {
            iterations: 999,
            ..many
        };
        assert_eq!(decided(fewer, &[]), Ok(Scope::Gpu));
        assert_eq!(decided(Facts { ways: 1, ..many }, &[]), Ok(Scope::Gpu));
    }
}
