//! Which places all lanes of a branch come through.
//!
//! Post-dominators of the blocks from which something is reached that needs whole warps. Lanes that go where nothing of the kind
//! comes any more are nobody's concern, so ways there do not count; where all ways lead there is the end. What lanes do between WARPSYNC.COLLECTIVE
//! and ENDCOLLECTIVE they do on the way to the place it names.
//!
//! **Cost.** The immediate ones are found by going round the blocks in reverse order until nothing changes (Cooper, Harvey and Kennedy, 2001),
//! two rounds for graphs without odd loops; a question is answered from the intervals of a walk over the tree.

/// Post-dominators, by block.
pub(super) struct PostDominators {
    /// When a walk over the tree comes to a block and when it has gone through all below; none if the block leads to no end.
    intervals: Vec<Option<(u32, u32)>>,
}

/// Not known yet.
const UNKNOWN: usize = usize::MAX;

impl PostDominators {
    /// Of the blocks that `counts` names, with the blocks that follow each.
    pub(super) fn new(following: &[Vec<usize>], counts: &[bool]) -> Self {
        let blocks = following.len();
        // The end of all has the number behind the blocks.
        let end = blocks;
        let next = |block: usize| {
            following[block]
                .iter()
                .copied()
                .filter(|&next| counts[next])
        };
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); blocks + 1];
        for block in (0..blocks).filter(|&block| counts[block]) {
            next(block).for_each(|next| before[next].push(block));
            if next(block).next().is_none() {
                before[end].push(block);
            }
        }
        let order = postorder(&before, end);
        let mut rank = vec![UNKNOWN; blocks + 1];
        for (number, &block) in order.iter().enumerate() {
            rank[block] = number;
        }
        let mut immediate = vec![UNKNOWN; blocks + 1];
        immediate[end] = end;
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &block in order.iter().rev().filter(|&&block| block != end) {
                let known = next(block).filter(|&next| immediate[next] != UNKNOWN);
                let common = |mut a: usize, mut b: usize| {
                    while a != b {
                        let lower = if rank[a] < rank[b] { &mut a } else { &mut b };
                        *lower = immediate[*lower];
                    }
                    a
                };
                let new = known.reduce(common).unwrap_or(end);
                if immediate[block] != new {
                    immediate[block] = new;
                    changed = true;
                }
            }
        }
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); blocks + 1];
        for &block in order.iter().filter(|&&block| block != end) {
            below[immediate[block]].push(block);
        }
        Self {
            intervals: intervals(&below, end),
        }
    }

    /// Whether all lanes that leave `block` and matter come through `place`, which is another.
    pub(super) fn passes(&self, block: usize, place: usize) -> bool {
        let (Some((from, to)), Some((inner, _))) = (self.intervals[place], self.intervals[block])
        else {
            return false;
        };
        from < inner && inner < to
    }
}

/// The blocks that lead to `end`, those further from it first.
fn postorder(before: &[Vec<usize>], end: usize) -> Vec<usize> {
    let mut seen = vec![false; before.len()];
    seen[end] = true;
    let mut order = Vec::new();
    let mut open = vec![(end, 0)];
    while let Some((block, at)) = open.pop() {
        match before[block].get(at) {
            Some(&next) => {
                open.push((block, at + 1));
                if !std::mem::replace(&mut seen[next], true) {
                    open.push((next, 0));
                }
            }
            None => order.push(block),
        }
    }
    order
}

/// When a walk over the tree from `root` comes to each block and leaves it.
fn intervals(below: &[Vec<usize>], root: usize) -> Vec<Option<(u32, u32)>> {
    let mut all = vec![None; below.len()];
    let mut clock = 0;
    let mut open = vec![(root, 0, 0)];
    while let Some((block, at, since)) = open.pop() {
        let since = if at == 0 {
            clock += 1;
            clock
        } else {
            since
        };
        match below[block].get(at) {
            Some(&next) => {
                open.push((block, at + 1, since));
                open.push((next, 0, 0));
            }
            None => {
                clock += 1;
                all[block] = Some((since, clock));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::PostDominators;

    #[test]
    fn joins_and_exits_of_loops() {
        // 0 → 1 or 2, both → 3, 3 → 3 or 4; 0 may go to 5, which does not count.
        let following = [vec![1, 2, 5], vec![3], vec![3], vec![3, 4], vec![], vec![]];
        let all = PostDominators::new(&following, &[true, true, true, true, true, false]);
        let passes: Vec<(usize, usize)> = (0..6)
            .flat_map(|block| (0..6).map(move |place| (block, place)))
            .filter(|&(block, place)| all.passes(block, place))
            .collect();
        let expected = [(0, 3), (0, 4), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)];
        assert_eq!(passes, expected);
    }

    #[test]
    fn nothing_is_known_where_no_way_ends() {
        let following = [vec![1], vec![0]];
        let all = PostDominators::new(&following, &[true, true]);
        assert!(!all.passes(0, 1) && !all.passes(1, 0));
    }
}
