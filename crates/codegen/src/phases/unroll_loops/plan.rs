//! Which loops are unrolled, and how often.
//!
//! **What it costs** is code: an iteration takes about as many instructions as it has operations that are not free. All iterations of a loop become copies if they take at most
//! [`knobs::UNROLL_FULL`](crate::knobs::registry::UNROLL_FULL) instructions, where need be counted without what copies share ([`size_of_copies`]); a row of copies that is a loop takes at most [`UNROLL_SIZE`].
//!
//! **What it gains** is what an iteration spends on going round ([`OVERHEAD`]), and the latency of loads: those of several iterations are on their way at
//! the same time. A factor is worth it while a copy more saves at least one part in [`LEAST_GAIN`] of an iteration; a load counts for what is issued while one
//! waits for shared memory. Where an iteration waits for other threads, loads of the next one are not on their way with its own, and going round is little beside the wait ([`MEETING`]). A loop in which warp groups multiply matrices takes as long as they do: at most all of its iterations become copies, as those of any loop. Where what lives around the loop and what an iteration loads fill the registers already, nothing is on its way together, and loads count for nothing.

use super::apply::can_test;
use super::copies::size_of_copies;
use crate::knobs::registry::{UNROLL_FACTOR, UNROLL_FULL, UNROLL_KNOWN, UNROLL_SIZE};
use crate::loops::{LoopAnalyses, instructions, is_singular, start};
use crate::pipeline::Context;
use crate::regalloc::most_registers;
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DefUse, Divergence, Iterations, Liveness, Loop, Refusal};
use orias_ori::{AbstractOp, Block, Class, Effects, Function, Value};
use std::cell::OnceCell;
use std::fmt;

/// Instructions an iteration spends on going round: counting, comparing, jumping.
const OVERHEAD: u64 = 3;

/// How many times as large a function may become.
const GROWTH: u64 = 4;

/// One part in so many of an iteration must be saved.
const LEAST_GAIN: u64 = 32;

/// Instructions that fit into the time a load takes that hits (about 30 cycles from shared memory), with the four warps that a scheduler has as a rule.
const LOAD: u64 = 8;

/// The same for a wait for other threads, which takes as long at least: the other warps of the block wait, too.
const MEETING: u64 = 30;

/// Why a loop stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotUnrolled {
    /// Its iterations are not counted.
    Uncounted(Refusal),
    /// PTX said so, or it was unrolled before.
    Settled,
    /// There are operations in it that are made for one place in the code.
    Singular,
    /// Lanes may leave it in different iterations, or come in parts.
    Divergent,
    /// Two copies would take too many instructions.
    Large,
    /// A copy more would save too little.
    Worthless,
    /// Warp groups multiply matrices in it: it takes as long as they do, and copies take registers beside the sums.
    Multiplies,
    /// The function has grown enough.
    Crowded,
    /// Its variable goes in steps too large to tell whether a row of copies fits.
    Far,
}

impl fmt::Display for NotUnrolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uncounted(why) => write!(f, "not counted: {why}"),
            Self::Settled => f.write_str("it is to stay"),
            Self::Singular => f.write_str("something in it must not be copied"),
            Self::Divergent => f.write_str("lanes may leave it in different iterations"),
            Self::Large => f.write_str("it is too large"),
            Self::Worthless => f.write_str("nothing would be won"),
            Self::Multiplies => f.write_str("it takes as long as its products"),
            Self::Crowded => f.write_str("the function has grown enough"),
            Self::Far => f.write_str("its steps are too large"),
        }
    }
}

/// How a loop is unrolled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unrolling {
    /// The counted exit is passed by so many times, then taken; there are so many copies in a row, the last of which leads to the first.
    Known {
        /// The exit.
        exit: Iterations,
        /// How often it is passed by.
        stays: u64,
        /// How many copies there are: one more than `stays` if all are.
        copies: u64,
    },
    /// So many copies in a row run as long as the exit is not taken in them; the rest is left to the loop.
    ByValue {
        /// The exit.
        exit: Iterations,
        /// How many copies there are.
        copies: u64,
    },
}

impl Unrolling {
    /// How many copies there are.
    fn copies(&self) -> u64 {
        match *self {
            Unrolling::Known { copies, .. } | Unrolling::ByValue { copies, .. } => copies,
        }
    }
}

/// What becomes of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The loop.
    pub of: Loop,
    /// How many instructions an iteration takes.
    pub size: u64,
    /// How it is unrolled, or why not.
    pub way: Result<Unrolling, NotUnrolled>,
}

impl Decision {
    /// The decision in a line.
    pub fn in_words(&self, shape: &LoopAnalyses) -> String {
        let header = shape.nest.header(self.of);
        let what = match self.way {
            Ok(Unrolling::Known { stays, copies, .. }) if copies > stays => {
                format!("all {copies} iterations")
            }
            Ok(Unrolling::Known { stays, copies, .. }) => {
                format!("{copies} of {} iterations in a row", stays + 1)
            }
            Ok(Unrolling::ByValue { copies, .. }) => {
                format!("{copies} iterations in a row, and a remainder")
            }
            Err(stays) => format!("stays: {stays}"),
        };
        format!("loop at {header}, {} instructions: {what}", self.size)
    }
}

/// How many instructions a function may grow by: [`GROWTH`] times what it has, and room for a few loops in a small one.
pub fn room(func: &Function) -> u64 {
    let insts = func.blocks().map(|block| func.block_insts(block).count());
    GROWTH * (1024 + insts.sum::<usize>() as u64)
}

/// What becomes of each innermost loop, if there is so much room; what is taken of it is subtracted.
pub fn decide(
    func: &Function,
    shape: &LoopAnalyses,
    context: &Context<'_>,
    room: &mut u64,
) -> Vec<Decision> {
    let mut divergence = None;
    let live = OnceCell::new();
    let nest = &shape.nest;
    let mut rolled: SecondaryMap<Block, bool> = SecondaryMap::new();
    for &header in &func.attributes.rolled {
        rolled[header] = true;
    }
    nest.loops()
        .filter(|&each| nest.children(each).is_empty())
        .map(|of| {
            let mut body = Body::of(func, shape, of);
            if body.loads > 0 && !rolled[nest.header(of)] {
                let live = live.get_or_init(|| Liveness::new(func, &shape.graph));
                let held = registers_around(func, live, nest.header(of));
                if held + body.loads > most_registers(&func.attributes, func.target).into() {
                    body.loads = 0;
                }
            }
            let way = match rolled[nest.header(of)] {
                true => Err(NotUnrolled::Settled),
                false => way(func, shape, context, of, &body, &mut divergence),
            };
            let way = way.and_then(|way| {
                let grown = way.copies().saturating_mul(body.size);
                *room = room.checked_sub(grown).ok_or(NotUnrolled::Crowded)?;
                Ok(way)
            });
            Decision {
                of,
                size: body.size,
                way,
            }
        })
        .collect()
}

/// What an iteration consists of.
#[derive(Default)]
struct Body {
    size: u64,
    loads: u64,
    /// Whether there are operations that lanes do together.
    together: bool,
    /// Whether there are waits for other threads, beyond those of the warp.
    meets: bool,
    /// Whether warp groups multiply matrices in it.
    multiplies: bool,
    singular: bool,
}

impl Body {
    fn of(func: &Function, shape: &LoopAnalyses, of: Loop) -> Self {
        let mut body = Self::default();
        for &block in shape.nest.blocks(of) {
            for inst in func.block_insts(block) {
                let effects = func.opcode(inst).effects();
                body.size += instructions(func, inst);
                body.loads += u64::from(
                    effects.intersects(Effects::READS) && !effects.intersects(Effects::WRITES),
                );
                let meets = Effects::CONVERGENT.with(Effects::BARRIER);
                body.together |= effects.intersects(meets);
                body.meets |= effects.intersects(Effects::BARRIER)
                    && !matches!(
                        func.opcode(inst).as_abstract(),
                        Some(AbstractOp::BarWarp | AbstractOp::RegionMeet)
                    );
                body.multiplies |= matches!(
                    func.opcode(inst).as_abstract(),
                    Some(AbstractOp::Wgmma | AbstractOp::WgmmaSparse)
                );
                body.singular |= effects.intersects(Effects::CALL) || is_singular(func, inst);
            }
        }
        body
    }
}

/// How many general registers hold what lives at the head of a loop.
fn registers_around(func: &Function, live: &Liveness, header: Block) -> u64 {
    let values = live
        .live_in(header)
        .iter()
        .chain(func.block_params(header).iter());
    let mut values: Vec<Value> = values.copied().collect();
    values.sort_unstable();
    values.dedup();
    let types = values.into_iter().map(|value| func.value_type(value));
    types
        .filter(|ty| ty.class() == Class::R)
        .map(|ty| u64::from(ty.len()))
        .sum()
}

fn way(
    func: &Function,
    shape: &LoopAnalyses,
    context: &Context<'_>,
    of: Loop,
    body: &Body,
    divergence: &mut Option<Divergence>,
) -> Result<Unrolling, NotUnrolled> {
    let header = shape.nest.header(of);
    if body.singular {
        return Err(NotUnrolled::Singular);
    }
    let back = shape.back_edges(of);
    let exit = Iterations::of(func, &shape.nest, &shape.tree, of, &back);
    let exit = exit.map_err(NotUnrolled::Uncounted)?;
    let size = body.size.max(1);
    let most = |knob| u64::try_from(context.knobs.int(knob)).unwrap_or(0);
    // 2⁶⁴ iterations are a number of no use.
    let stays = start(func, shape, of, &exit)
        .and_then(|start| exit.stays(start))
        .filter(|&stays| stays != u64::MAX);
    if body.together || stays.is_none() {
        let divergence = divergence.get_or_insert_with(|| {
            let uses = DefUse::new(func);
            Divergence::new(func, &shape.graph, &shape.walk, &shape.nest, &uses)
        });
        let apart = divergence.is_divergent_loop(of);
        if apart || body.together && divergence.is_partial(header) {
            return Err(NotUnrolled::Divergent);
        }
    }
    let full = most(&UNROLL_FULL);
    if let Some(stays) = stays
        && ((stays + 1).saturating_mul(size) <= full
            || size_of_copies(func, shape, of, stays + 1, full, instructions).is_some())
    {
        return Ok(Unrolling::Known {
            exit,
            stays,
            copies: stays + 1,
        });
    }
    if body.multiplies {
        return Err(NotUnrolled::Multiplies);
    }
    if 2 * size > most(&UNROLL_SIZE) {
        return Err(NotUnrolled::Large);
    }
    let (loads, meeting) = match body.meets {
        true => (0, MEETING),
        false => (body.loads, 0),
    };
    let worth = (OVERHEAD + LOAD * loads) * LEAST_GAIN;
    let fits =
        |copies: u64| copies * size <= most(&UNROLL_SIZE) && worth >= copies * (size + meeting);
    let Some(stays) = stays else {
        // Twice as many copies save half of what is left to save.
        let mut copies = 1;
        while 2 * copies <= most(&UNROLL_FACTOR) && fits(2 * copies) {
            copies *= 2;
        }
        return match copies {
            1 => Err(NotUnrolled::Worthless),
            _ if !can_test(&exit, copies as i64) => Err(NotUnrolled::Far),
            _ => Ok(Unrolling::ByValue { exit, copies }),
        };
    };
    let mut copies = 1;
    while copies < most(&UNROLL_KNOWN) && fits(copies + 1) {
        copies += 1;
    }
    // Of the larger numbers, the one that leaves least to do before the loop.
    let copies = (copies - copies / 4..=copies)
        .rev()
        .min_by_key(|&copies| (stays + 1) % copies)
        .unwrap_or(1);
    if copies < 2 || stays < 2 * copies {
        return Err(NotUnrolled::Worthless);
    }
    Ok(Unrolling::Known {
        exit,
        stays,
        copies,
    })
}
