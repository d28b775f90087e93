//! Parallel copies made sequential: copies that happen at once become moves one after another.
//!
//! A move comes before the moves that overwrite its source. Where that goes round in a circle, two registers are exchanged, which needs no
//! spare register; where there is one, [`through`] makes moves of that. Constant sources come last: nothing overwrites them. The allocator asks for the moves of SSA's block parameters, Mercury for
//! the copies that are left in final code.
//!
//! **Algorithm.** The copies form a graph in which every register has at most one source (Boissinot et al. 2009, "Revisiting out-of-SSA
//! translation"). Destinations nobody reads are written first, and free their sources in turn; what is left are circles. Linear in the number
//! of registers copied.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// One step of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<R> {
    /// Writes the first register with the second.
    Move(R, R),
    /// Exchanges the two.
    Swap(R, R),
}

/// The steps that do what the copies `(to, from)` of single registers do at once.
pub fn sequence<R: Copy + Eq + Hash>(
    copies: &[(R, R)],
    is_constant: impl Fn(R) -> bool,
) -> Vec<Step<R>> {
    let mut source: FxHashMap<R, R> = FxHashMap::default();
    let mut readers: FxHashMap<R, u32> = FxHashMap::default();
    let mut constants = Vec::new();
    let mut order = Vec::new();
    for &(to, from) in copies {
        if is_constant(from) {
            constants.push(Step::Move(to, from));
        } else if to != from && source.insert(to, from).is_none() {
            *readers.entry(from).or_insert(0) += 1;
            order.push(to);
        }
    }
    let mut steps = Vec::with_capacity(copies.len());
    let mut ready: Vec<R> = order
        .iter()
        .copied()
        .filter(|to| !readers.contains_key(to))
        .collect();
    while let Some(to) = ready.pop() {
        let Some(from) = source.remove(&to) else {
            continue;
        };
        steps.push(Step::Move(to, from));
        if let Some(count) = readers.get_mut(&from) {
            *count -= 1;
            if *count == 0 && source.contains_key(&from) {
                ready.push(from);
            }
        }
    }
    // Circles: swapping a register with its source settles it, and the source's old contents wait where it was.
    for &start in &order {
        let mut at = start;
        while let Some(from) = source.remove(&at) {
            if from == start {
                break;
            }
            steps.push(Step::Swap(at, from));
            at = from;
        }
    }
    steps.extend(constants);
    steps
}

/// Exchanges as moves through a register that nobody reads: a circle of `n` registers takes `n + 1` moves.
pub fn through<R: Copy + Eq>(steps: &[Step<R>], spare: R) -> Vec<Step<R>> {
    let mut moves = Vec::with_capacity(steps.len() + 2);
    // The register whose contents are in the spare one on their way round.
    let mut waits: Option<R> = None;
    for (at, &step) in steps.iter().enumerate() {
        let Step::Swap(a, b) = step else {
            moves.push(step);
            continue;
        };
        if waits != Some(a) {
            moves.push(Step::Move(spare, a));
        }
        moves.push(Step::Move(a, b));
        let goes_on = matches!(steps.get(at + 1), Some(&Step::Swap(next, _)) if next == b);
        waits = goes_on.then_some(b);
        if !goes_on {
            moves.push(Step::Move(b, spare));
        }
    }
    moves
}
