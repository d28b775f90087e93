//! Batches of memory and matrix operations.
//!
//! Operations that take long cost least when they are issued one right behind the other: their latencies overlap, and whoever waits,
//! waits once. DynBatch gathers ready ones into a batch as long as their results fit into the register budget, gives members
//! precedence until all are issued, and starts the next batch.
//!
//! The size aimed at follows from how many there are and how many may wait at once ([`target`]). A batch that does not fit is trimmed
//! from its end.

/// A candidate for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The node.
    pub node: u32,
    /// Registers its results take, less those it frees.
    pub grows: i32,
    /// How far down the longest chain to the end it stands.
    pub depth: u32,
    /// Whether it ends a warpgroup's group.
    pub commits: bool,
}

/// How many operations a batch should have, of `count` that are there, when `most` may wait at once: evenly sized batches rather than
/// full ones and a rest.
pub fn target(count: u32, most: u32) -> u32 {
    let most = most.max(1);
    if count <= most {
        return count;
    }
    if count >= 2 * most {
        count / count.div_ceil(most)
    } else {
        count / 2
    }
}

/// A batch and what became of it while it was gathered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Its members.
    pub members: Vec<u32>,
    /// The greatest depth of a member; none without members.
    pub depth_limit: Option<u32>,
    /// Whether the budget cut it short.
    pub overflow: bool,
    /// Whether the end of a warpgroup's group cut it short.
    pub aborted: bool,
}

/// Gathers a batch of at most `target` from `slots`, best first: `live` registers are taken, `budget` may be.
pub fn gather(slots: &[Slot], target: u32, live: i32, budget: i32) -> Batch {
    let mut batch = Batch::default();
    let mut taken = live;
    let mut grown = Vec::new();
    for slot in slots {
        if batch.members.len() as u32 >= target {
            break;
        }
        if slot.commits && !batch.members.is_empty() {
            batch.aborted = true;
            break;
        }
        taken += slot.grows;
        grown.push(taken);
        batch.members.push(slot.node);
        if taken > budget {
            batch.overflow = true;
            break;
        }
        batch.depth_limit = Some(
            batch
                .depth_limit
                .map_or(slot.depth, |depth| depth.max(slot.depth)),
        );
    }
    if batch.overflow {
        while grown.last().is_some_and(|&taken| taken > budget) && batch.members.len() > 1 {
            grown.pop();
            batch.members.pop();
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(node: u32, grows: i32) -> Slot {
        Slot {
            node,
            grows,
            depth: node,
            commits: false,
        }
    }

    #[test]
    fn batches_are_even() {
        assert_eq!(target(5, 8), 5);
        assert_eq!(target(9, 8), 4);
        assert_eq!(target(16, 8), 8);
        assert_eq!(target(20, 8), 6);
    }

    #[test]
    fn a_batch_that_does_not_fit_is_trimmed_from_its_end() {
        let slots = [slot(1, 4), slot(2, 4), slot(3, 4)];
        let batch = gather(&slots, 3, 10, 19);
        assert_eq!((batch.members, batch.overflow), (vec![1, 2], true));
        // One operation is always possible.
        assert_eq!(gather(&slots, 3, 30, 19).members, [1]);
    }

    #[test]
    fn the_end_of_a_group_ends_a_batch() {
        let mut slots = [slot(1, 4), slot(2, 4), slot(3, 4)];
        slots[1].commits = true;
        let batch = gather(&slots, 3, 0, 100);
        assert_eq!((batch.members, batch.aborted), (vec![1], true));
    }
}
