//! Moments: which iteration of every loop a lane is in.

use orias_ori::Block;
use orias_ori::analysis::{Loop, LoopNest};

/// A block, and the iteration of each loop around it, outermost first. Inside an irreducible loop steps take the place of iterations.
///
/// Two lanes are together when they are at the same moment.
pub(crate) type Moment = (Block, Vec<(Loop, usize)>);

/// Counts the iterations of one lane.
#[derive(Default)]
pub(crate) struct IterationCounter {
    iterations: Vec<(Loop, usize)>,
}

impl IterationCounter {
    /// The lane goes to `block`.
    pub(crate) fn enter(&mut self, nest: &LoopNest, block: Block) -> Moment {
        while self
            .iterations
            .last()
            .is_some_and(|&(l, _)| !nest.contains(l, block))
        {
            self.iterations.pop();
        }
        match self.iterations.last_mut() {
            Some((l, step)) if nest.is_irreducible(*l) => *step += 1,
            Some((l, iteration)) if nest.header(*l) == block => *iteration += 1,
            innermost => {
                let innermost = innermost.map(|&mut (l, _)| l);
                let entered = nest.loops().filter(|&l| {
                    nest.contains(l, block) && innermost.is_none_or(|around| around < l)
                });
                for l in entered {
                    self.iterations.push((l, 0));
                    // Loops inside an irreducible one are not told apart.
                    if nest.is_irreducible(l) {
                        break;
                    }
                }
            }
        }
        (block, self.iterations.clone())
    }
}
