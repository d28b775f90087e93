//! Last uses (kills) and pressure: one walk over all points of a function says whether everything fits, and which values end where.
//!
//! Blocks are walked through backwards, starting with what is live at their ends. A value that is met for the first time on this way is
//! read there for the last time. Arguments of edges count as read where the block ends, and do not end there: they stay where they
//! are until the edge has moved them.
//!
//! Cost: O(operands + live pairs of value and block).

use super::calls::{is_call, preserved, widest_preserved};
use super::counts::{Goals, Room};
use cranelift_entity::EntityRef;
use orias_ori::analysis::Liveness;
use orias_ori::{Block, Class, Function, Inst, Type, Value};

/// Where values end, and how full the registers are.
pub(super) struct LastUses {
    /// By block: its first entry in `ends`.
    first: Vec<u32>,
    /// One entry for each instruction of a block, the last one first, and one for the block's start. Of `values`, what begins where
    /// the entry before it ended and ends here: first results that nobody reads (at the start: parameters), then what is
    /// read for the last time.
    ends: Vec<(u32, u32)>,
    values: Vec<Value>,
    /// The most registers of each class that are needed anywhere.
    pub(super) pressure: Counts,
    /// Blocks with a point that needs more than the goals, or a branch that passes more.
    pub(super) full: Vec<Block>,
    /// Instructions that read or write tokens, in the order of the layout, each with its block.
    pub(super) tokens: Vec<(Block, Inst)>,
}

/// What ends at one place.
pub(super) struct Kills<'a> {
    /// Results, or parameters, that nobody reads.
    pub(super) unread: &'a [Value],
    /// What is read for the last time.
    pub(super) read: &'a [Value],
}

/// How many registers of each class are needed at a point.
pub(super) type Counts = [u32; 5];

/// Tuples of so many registers are not wide: runs of as many survive every call.
pub(super) const NARROW: u16 = 4;

fn is_wide(class: Class, weight: u16) -> bool {
    class == Class::R && weight > NARROW
}

/// Makes each of `most` as large as its number in `counts` at least.
pub(super) fn raise(most: &mut [u32], counts: &[u32]) {
    for (most, &count) in most.iter_mut().zip(counts) {
        *most = count.max(*most);
    }
}

/// What is known of a value.
#[derive(Clone, Copy)]
struct Known {
    class: Class,
    /// How many registers it needs, alignment included.
    weight: u16,
    /// The block in which it was met last, by its place in the layout.
    met: u32,
}

impl Known {
    fn new(ty: Type) -> Known {
        Known {
            class: ty.class(),
            weight: u16::from(ty.len()).next_multiple_of(u16::from(ty.alignment())),
            met: 0,
        }
    }
}

struct Walk<'a> {
    room: &'a Room,
    /// How much is there at the point at hand.
    goals: Counts,
    known: Vec<Known>,
    /// The place of the block at hand.
    block: u32,
    counts: Counts,
    /// How wide each of the wide tuples is that is live.
    wide: Vec<u16>,
    /// Whether all points of the block fit so far.
    fits: bool,
    last_uses: LastUses,
}

impl LastUses {
    /// Walks through `func`, of which every class should fit into its goal.
    pub(super) fn new(func: &Function, live: &Liveness, goals: impl Into<Goals>) -> LastUses {
        let goals = goals.into();
        let room = Room::new(func, goals);
        let mut goals = goals.most.map(u32::from);
        // Tokens find registers in their own way.
        goals[Class::B as usize] = u32::MAX;
        let types = (0..func.value_count()).map(|number| func.value_type(Value::new(number)));
        let mut walk = Walk {
            room: &room,
            goals,
            known: types.map(Known::new).collect(),
            block: 0,
            counts: Counts::default(),
            wide: Vec::new(),
            fits: true,
            last_uses: LastUses {
                first: vec![0; func.block_count()],
                ends: Vec::with_capacity(func.inst_count() + func.block_count()),
                values: Vec::with_capacity(func.value_count()),
                pressure: Counts::default(),
                full: Vec::new(),
                tokens: Vec::new(),
            },
        };
        for block in func.blocks() {
            walk.block(func, live, block);
        }
        walk.last_uses
    }

    /// What ends at the instruction that has `behind` others behind it in `block`; with all of them behind, at the block's start.
    pub(super) fn at(&self, block: Block, behind: usize) -> Kills<'_> {
        let index = self.first[block.index()] as usize + behind;
        let start = match index.checked_sub(1) {
            Some(last) => self.ends[last].1,
            None => 0,
        };
        let (middle, end) = self.ends[index];
        Kills {
            unread: &self.values[start as usize..middle as usize],
            read: &self.values[middle as usize..end as usize],
        }
    }
}

impl Walk<'_> {
    fn block(&mut self, func: &Function, live: &Liveness, block: Block) {
        self.block += 1;
        self.counts = Counts::default();
        self.wide.clear();
        self.fits = true;
        self.goals[Class::R as usize] = self.room.at_end(block);
        let tokens = self.last_uses.tokens.len();
        self.last_uses.first[block.index()] = self.last_uses.ends.len() as u32;
        for &value in live.live_out(block) {
            self.meet(value);
        }
        for inst in func.block_insts(block).rev() {
            // After the instruction: what lives on, and all results.
            let mut ended = Counts::default();
            let mut token = false;
            func.for_each_def(inst, |reg| {
                if let Some(value) = reg.value() {
                    let Known { class, weight, met } = self.known[value.index()];
                    if met != self.block {
                        self.last_uses.values.push(value);
                        self.counts[class as usize] += u32::from(weight);
                    } else if is_wide(class, weight)
                        && let Some(place) = self.wide.iter().position(|&wide| wide == weight)
                    {
                        self.wide.swap_remove(place);
                    }
                    ended[class as usize] += u32::from(weight);
                    token |= class == Class::B;
                }
            });
            let middle = self.last_uses.values.len();
            if ended != Counts::default() {
                self.look();
                for (count, ended) in self.counts.iter_mut().zip(ended) {
                    *count -= ended;
                }
            }
            if let Some((before, _)) = self.room.changed_by(inst) {
                self.look();
                self.goals[Class::R as usize] = before;
            }
            if is_call(func, inst) {
                // What lives across has to fit into registers that the call leaves alone.
                let kept = preserved(func, inst, &self.goals);
                let counts = self.counts.iter().zip(kept);
                self.fits &= counts.take(4).all(|(&count, kept)| count <= kept);
                if let Some(&widest) = self.wide.iter().max() {
                    let kept = widest_preserved(func, inst, self.goals[Class::R as usize]);
                    self.fits &= widest <= u16::from(kept);
                }
            }
            if !func.edges(inst).is_empty() {
                let mut words = 0;
                func.for_each_use(inst, |reg| {
                    if let Some(value) = reg.value()
                        && self.known[value.index()].class == Class::R
                    {
                        words += u32::from(self.known[value.index()].weight);
                    }
                });
                self.fits &= words <= self.goals[Class::R as usize];
                for &edge in func.edges(inst) {
                    for &value in func.edge_args(edge) {
                        self.meet(value);
                    }
                }
            }
            // Before it: what lives on, and all it reads.
            func.for_each_use(inst, |reg| {
                if let Some(value) = reg.value() {
                    token |= self.known[value.index()].class == Class::B;
                    if self.meet(value) {
                        self.last_uses.values.push(value);
                    }
                }
            });
            if token {
                self.last_uses.tokens.push((block, inst));
            }
            let end = self.last_uses.values.len();
            self.last_uses.ends.push((middle as u32, end as u32));
        }
        for &param in func.block_params(block) {
            if self.meet(param) {
                self.last_uses.values.push(param);
            }
        }
        self.look();
        let end = self.last_uses.values.len() as u32;
        self.last_uses.ends.push((end, end));
        self.last_uses.tokens[tokens..].reverse();
        if !self.fits {
            self.last_uses.full.push(block);
        }
    }

    /// Counts `value` if it is new, and says whether it is.
    #[inline]
    fn meet(&mut self, value: Value) -> bool {
        let known = &mut self.known[value.index()];
        let new = known.met != self.block;
        if new {
            known.met = self.block;
            self.counts[known.class as usize] += u32::from(known.weight);
            if is_wide(known.class, known.weight) {
                self.wide.push(known.weight);
            }
        }
        new
    }

    /// Takes note of how full the registers are, before anything leaves them.
    #[inline]
    fn look(&mut self) {
        raise(&mut self.last_uses.pressure, &self.counts);
        let pairs = self.counts.iter().zip(&self.goals);
        self.fits &= pairs.fold(true, |fit, (count, goal)| fit & (count <= goal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_ori::analysis::FlowGraph;
    use orias_ori::parse_function;

    const TEXT: &str = "func f abstract sm_90a -> r {
block0(v0:r, v1:p, v5:r):
    v2:r = add.s32 v0, 1
    v3:r = add.s32 v2, v0
    v6:r = add.s32 v0, 2
    cbr v1 -> block1(v3), block2
block1(v4:r):
    ret v4
block2:
    ret v2
}
";

    fn last_uses(general: u8) -> (LastUses, [Block; 3]) {
        let func = parse_function(TEXT).unwrap();
        let live = Liveness::new(&func, &FlowGraph::of(&func));
        let blocks: Vec<Block> = func.blocks().collect();
        (
            LastUses::new(&func, &live, [general, 7, 63, 7, 16]),
            blocks.try_into().unwrap(),
        )
    }

    #[test]
    fn values_end_where_they_are_read_last_and_arguments_stay() {
        let (last_uses, [first, second, third]) = last_uses(255);
        let numbers = |values: &[Value]| values.iter().map(|v| v.as_u32()).collect::<Vec<_>>();
        let at = |block: Block, behind: usize| {
            let ending = last_uses.at(block, behind);
            (numbers(ending.unread), numbers(ending.read))
        };
        assert_eq!(at(first, 0), (vec![], vec![1]));
        assert_eq!(at(first, 1), (vec![6], vec![0]));
        assert_eq!(at(first, 2), (vec![], vec![]));
        assert_eq!(at(first, 3), (vec![], vec![]));
        assert_eq!(at(first, 4), (vec![5], vec![]));
        assert_eq!(at(second, 0), (vec![], vec![4]));
        assert_eq!(at(third, 0), (vec![], vec![2]));
    }

    #[test]
    fn a_block_is_full_when_one_of_its_points_needs_more_than_there_is() {
        let (enough, _) = last_uses(3);
        assert_eq!((enough.pressure, enough.full), ([3, 1, 0, 0, 0], vec![]));
        let (few, [first, ..]) = last_uses(2);
        assert_eq!(few.full, [first]);
    }
}
