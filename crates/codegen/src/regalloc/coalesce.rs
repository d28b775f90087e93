//! Coalescing: which values share their registers.
//!
//! A copy costs nothing when both sides lie in the same registers ([`super::relations`]). Values joined along these relations form a congruence class, each at an offset within it. Two classes are joined only if no member of the one
//! interferes with one of the other: wherever two of them would lie in the same register at the same time, they must hold the same contents
//! ([`super::contents`]). So a class can be given a run of registers as a whole, and none of its relations costs anything then.
//! Relations that save most are tried first; what contradicts an earlier one (the same value at two
//! offsets, a tuple off its alignment, an interference) stays apart and costs its moves.
//!
//! Where a class lies is decided when the scan meets the first of its members: in registers that nobody else has booked while any member
//! lives ([`super::timeline`]). If there are none, members are placed one by one, near the first one if they can: a class that was
//! not kept together costs moves, never correctness.
//!
//! **Algorithm.** Aggressive coalescing in SSA form with congruence classes and value-based interference, after Boissinot, Darte, Rastello, de Dinechin
//! and Guillon (2009). Classes are a union-find with offsets. A class keeps for each of its registers the runs of points
//! ([`super::ranges`]) at which it is taken, with their contents; to join two classes, the runs of the smaller are looked up among those of the
//! larger, and inserted. Cost: O(runs · log runs) for each time a value comes from the smaller side, which is at most O(log values) times, and the
//! memory that insertions move.

use super::contents::Contents;
use super::ranges::{Ranges, Run};
use super::relations::Relations;
use cranelift_entity::EntityRef;
use orias_ori::{Function, Value};
use smallvec::SmallVec;

/// Classes of single registers do not grow beyond this many registers: a longer run is rarely free.
const LONGEST: i16 = 64;

/// The congruence classes of a function's values.
#[derive(Clone)]
pub(super) struct Classes {
    parent: Vec<u32>,
    /// Position relative to the parent's.
    shift: Vec<i16>,
    /// The next member of the class, around in a ring.
    next: Vec<u32>,
    data: Vec<Data>,
}

/// What is known of a class; kept at its root, positions relative to the root's.
#[derive(Clone, Copy, Debug)]
struct Data {
    low: i16,
    high: i16,
    /// The root's register is `residue` modulo `align`.
    align: u8,
    residue: u8,
    /// The register of the root's position, once a member was placed.
    base: Option<i16>,
    /// Whether all members that had no place then have booked theirs.
    booked: bool,
}

/// What the scan asks about a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassExtent {
    /// How many registers of the class lie below the value asked about.
    pub(super) below: u8,
    /// How many registers the class has in all.
    pub(super) span: u8,
    /// The first register of the class is `residue` modulo `align`.
    pub(super) align: u8,
    /// See `align`.
    pub(super) residue: u8,
}

/// Where a class lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Where the value asked about would lie; none if that is outside the file.
    pub(super) at: Option<u8>,
    /// Whether that is booked for the value.
    pub(super) booked: bool,
}

/// A register of a class is taken by some contents.
#[derive(Clone, Copy, Debug)]
struct Taken {
    run: Run,
    contents: u32,
}

/// By register of a class, from the lowest on: when it is taken, in ascending order and without overlaps.
type Lanes = Vec<SmallVec<[Taken; 2]>>;

struct Joining<'a> {
    func: &'a Function,
    ranges: &'a Ranges,
    contents: &'a Contents,
    /// Whether two values may share a register at all.
    may_share: &'a dyn Fn(Value, Value) -> bool,
    classes: Classes,
    /// By root: the registers of its class; none for a class of one.
    lanes: Vec<Option<Lanes>>,
}

impl Classes {
    /// The classes of `func`.
    pub(super) fn new(
        func: &Function,
        ranges: &Ranges,
        contents: &Contents,
        may_share: &dyn Fn(Value, Value) -> bool,
    ) -> Classes {
        let count = func.value_count();
        let data = |number| {
            let ty = func.value_type(Value::new(number));
            Data {
                low: 0,
                high: i16::from(ty.len()),
                align: ty.alignment(),
                residue: 0,
                base: None,
                booked: false,
            }
        };
        let mut joining = Joining {
            func,
            ranges,
            contents,
            may_share,
            classes: Classes {
                parent: (0..count as u32).collect(),
                shift: vec![0; count],
                next: (0..count as u32).collect(),
                data: (0..count).map(data).collect(),
            },
            lanes: vec![None; count],
        };
        for relation in Relations::new(func).in_order() {
            joining.join(relation.a, relation.b, relation.offset);
        }
        joining.classes
    }

    /// The root of a value's class, and the value's position relative to the root's. Shortens the path.
    fn find(&mut self, value: u32) -> (u32, i16) {
        let mut root = value;
        let mut total = 0;
        while self.parent[root as usize] != root {
            total += self.shift[root as usize];
            root = self.parent[root as usize];
        }
        let (mut at, mut rest) = (value, total);
        while self.parent[at as usize] != root && at != root {
            let next = self.parent[at as usize];
            let step = self.shift[at as usize];
            self.parent[at as usize] = root;
            self.shift[at as usize] = rest;
            rest -= step;
            at = next;
        }
        (root, total)
    }

    /// Whether `value` has a class of its own.
    pub(super) fn is_alone(&self, value: Value) -> bool {
        self.next[value.index()] == value.as_u32()
    }

    /// Where the class of `value` lies, once a member was placed.
    pub(super) fn place(&mut self, value: Value) -> Option<Place> {
        let (root, at) = self.find(value.as_u32());
        let data = &self.data[root as usize];
        data.base.map(|base| Place {
            at: u8::try_from(base + at).ok(),
            booked: data.booked,
        })
    }

    /// The shape of the class of `value`.
    pub(super) fn shape(&mut self, value: Value) -> ClassExtent {
        let (root, at) = self.find(value.as_u32());
        let data = &self.data[root as usize];
        let align = i16::from(data.align);
        ClassExtent {
            below: (at - data.low) as u8,
            span: (data.high - data.low) as u8,
            align: data.align,
            residue: (i16::from(data.residue) + data.low).rem_euclid(align) as u8,
        }
    }

    /// The members of the class of `value`, each with the number of registers of the class that lie below it.
    pub(super) fn members(&mut self, value: Value) -> Vec<(Value, u8)> {
        let mut members = Vec::new();
        let mut member = value.as_u32();
        loop {
            let (root, at) = self.find(member);
            let low = self.data[root as usize].low;
            members.push((Value::from_u32(member), (at - low) as u8));
            member = self.next[member as usize];
            if member == value.as_u32() {
                return members;
            }
        }
    }

    /// Notes that the class of `value` lies such that `value` lies at `register`, and whether that is booked for all members.
    pub(super) fn settle(&mut self, value: Value, register: u8, booked: bool) {
        let (root, at) = self.find(value.as_u32());
        let data = &mut self.data[root as usize];
        data.base = Some(i16::from(register) - at);
        data.booked = booked;
    }
}

impl Joining<'_> {
    /// Puts `a` into one class with `b`, `offset` registers after it, if nothing speaks against it.
    fn join(&mut self, a: Value, b: Value, offset: i16) {
        if !(self.may_share)(a, b) || self.ranges.of(a).is_empty() || self.ranges.of(b).is_empty() {
            return;
        }
        let (root_a, at_a) = self.classes.find(a.as_u32());
        let (root_b, at_b) = self.classes.find(b.as_u32());
        if root_a == root_b {
            return;
        }
        // Where the root of `a` lies in terms of the root of `b`.
        let shift = at_b + offset - at_a;
        let data = &self.classes.data;
        let (one, other) = (data[root_b as usize], data[root_a as usize]);
        let low = one.low.min(other.low + shift);
        let high = one.high.max(other.high + shift);
        // The root of `b` is `residue - shift` modulo the alignment of `a`'s class.
        let from_a = (i16::from(other.residue) - shift).rem_euclid(i16::from(other.align)) as u8;
        let (align, residue, agrees) = if one.align >= other.align {
            (one.align, one.residue, one.residue % other.align == from_a)
        } else {
            (other.align, from_a, from_a % one.align == one.residue)
        };
        if high - low > LONGEST.max(one.high - one.low).max(other.high - other.low)
            || !agrees
            || !self.join_lanes(
                root_b,
                root_a,
                (one.low - low, other.low + shift - low),
                high - low,
            )
        {
            return;
        }
        let Classes {
            parent,
            shift: shifts,
            next,
            data,
        } = &mut self.classes;
        parent[root_a as usize] = root_b;
        shifts[root_a as usize] = shift;
        next.swap(root_a as usize, root_b as usize);
        data[root_b as usize] = Data {
            low,
            high,
            align,
            residue,
            ..one
        };
    }

    /// Puts the registers of the class of `other` among those of the class of `one`, if no contents stand against others. The lowest
    /// registers of the two lie at `starts` of the `span` registers that they have together.
    fn join_lanes(&mut self, one: u32, other: u32, starts: (i16, i16), span: i16) -> bool {
        let weight = |lanes: &Lanes| lanes.iter().map(SmallVec::len).sum::<usize>();
        let (mut large, mut small) = (self.take_lanes(one), self.take_lanes(other));
        let (mut large_start, mut small_start) = (starts.0 as usize, starts.1 as usize);
        let swapped = weight(&large) < weight(&small);
        if swapped {
            std::mem::swap(&mut large, &mut small);
            std::mem::swap(&mut large_start, &mut small_start);
        }
        let meets = small.iter().enumerate().any(|(index, lane)| {
            let at = (index + small_start).checked_sub(large_start);
            let there = at.and_then(|at| large.get(at));
            there.is_some_and(|there| lane.iter().any(|taken| interferes(there, taken)))
        });
        if meets {
            if swapped {
                std::mem::swap(&mut large, &mut small);
            }
            self.lanes[one as usize] = Some(large);
            self.lanes[other as usize] = Some(small);
            return false;
        }
        if large_start > 0 {
            large.splice(0..0, std::iter::repeat_n(SmallVec::new(), large_start));
        }
        large.resize(span as usize, SmallVec::new());
        for (lane, to) in small.into_iter().zip(&mut large[small_start..]) {
            if to.is_empty() {
                *to = lane;
            } else {
                for taken in lane {
                    insert(to, taken);
                }
            }
        }
        self.lanes[one as usize] = Some(large);
        true
    }

    fn take_lanes(&mut self, root: u32) -> Lanes {
        if let Some(lanes) = self.lanes[root as usize].take() {
            return lanes;
        }
        let value = Value::from_u32(root);
        let lane = |unit| {
            let contents = self.contents.of(value, unit);
            let runs = self.ranges.of(value).iter();
            runs.map(|&run| Taken { run, contents }).collect()
        };
        let len = usize::from(self.func.value_type(value).len());
        (0..len).map(lane).collect()
    }
}

/// The first in `lane` that does not end before `run` starts.
fn first_at(lane: &[Taken], run: Run) -> usize {
    lane.partition_point(|taken| taken.run.end < run.start)
}

/// Whether a register that is taken as `lane` says holds something else at a point where it would be `taken`.
fn interferes(lane: &[Taken], taken: &Taken) -> bool {
    lane[first_at(lane, taken.run)..]
        .iter()
        .take_while(|there| there.run.start <= taken.run.end)
        .any(|there| there.contents != taken.contents)
}

/// Adds `taken`, which does not interfere, to `lane`.
fn insert(lane: &mut SmallVec<[Taken; 2]>, mut taken: Taken) {
    let first = first_at(lane, taken.run);
    let mut last = first;
    // What it overlaps has the same contents.
    while let Some(there) = lane.get(last)
        && there.run.start <= taken.run.end
    {
        taken.run.start = taken.run.start.min(there.run.start);
        taken.run.end = taken.run.end.max(there.run.end);
        last += 1;
    }
    match first == last {
        true => lane.insert(first, taken),
        false => {
            lane[first] = taken;
            lane.drain(first + 1..last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::last_uses::LastUses;
    use super::*;
    use orias_ori::analysis::{DepthFirst, FlowGraph, Liveness};
    use orias_ori::{Block, parse_function};

    /// The classes of a function, after a proof by all pairs that none of them has members that interfere.
    fn classes(text: &str) -> Classes {
        let func = parse_function(text).unwrap();
        let graph = FlowGraph::of(&func);
        let walk = DepthFirst::new(&graph);
        let live = Liveness::new(&func, &graph);
        let last_uses = LastUses::new(&func, &live, [255; 5]);
        let order: Vec<Block> = walk.reverse_postorder().collect();
        let ranges = Ranges::new(&func, &live, &last_uses, order.iter().copied());
        let contents = Contents::new(&func, order.iter().copied());
        let mut classes = Classes::new(&func, &ranges, &contents, &|_, _| true);
        for value in (0..func.value_count()).map(Value::new) {
            let members = classes.members(value);
            let own = members[0].1;
            for &(other, above) in &members[1..] {
                for unit in 0..func.value_type(value).len() {
                    let there = (own + unit).wrapping_sub(above);
                    if there >= func.value_type(other).len() {
                        continue;
                    }
                    let meet = ranges.of(value).iter().any(|one| {
                        let mut others = ranges.of(other).iter();
                        others.any(|other| one.start <= other.end && other.start <= one.end)
                    });
                    let (unit, there) = (usize::from(unit), usize::from(there));
                    let same = contents.of(value, unit) == contents.of(other, there);
                    assert!(!meet || same, "{value} and {other} share a register");
                }
            }
        }
        classes
    }

    fn are_joined(classes: &mut Classes, one: u32, other: u32) -> bool {
        classes.find(one).0 == classes.find(other).0
    }

    #[test]
    fn an_accumulator_of_four_registers_is_one_class_around_its_loop() {
        let mut classes = classes(
            "func f machine sm_90a {
block0:
    MOV v0:r, RZ, 15
    MOV v1:r, RZ, 15
    MOV v2:r, RZ, 15
    MOV v3:r, RZ, 15
    v4:rx4 = collect v0, v1, v2, v3
    next -> block1(v4)
block1(v5:rx4):
    v6:r, v7:r, v8:r, v9:r = split v5
    IADD3 v10:r, PT, PT, v6, 1, RZ
    IADD3 v11:r, PT, PT, v7, 1, RZ
    IADD3 v12:r, PT, PT, v8, 1, RZ
    IADD3 v13:r, PT, PT, v9, 1, RZ
    v14:rx4 = collect v10, v11, v12, v13
    ISETP.NE.AND v15:p, PT, v13, 24, PT
    @v15 BRA PT, block1(v14) -> block2
block2:
    v16:r, v17:r, v18:r, v19:r = split v14
    IADD3 v20:r, PT, PT, v16, v19, RZ
    EXIT PT
}
",
        );
        let offsets = [(4, 0), (5, 0), (7, 1), (9, 3), (12, 2), (14, 0), (19, 3)];
        for (value, above) in offsets {
            assert!(are_joined(&mut classes, 5, value), "v{value}");
            assert_eq!(classes.shape(Value::from_u32(value)).below, above);
        }
        assert_eq!(classes.shape(Value::from_u32(5)).span, 4);
        assert!(!are_joined(&mut classes, 5, 20));
    }

    #[test]
    fn what_is_needed_beside_its_successor_stays_apart() {
        // v1 is read after v3 is made; v4 and v5 change places in each turn.
        let mut classes = classes(
            "func f machine sm_90a {
block0:
    MOV v0:r, RZ, 15
    MOV v2:r, RZ, 15
    next -> block1(v0, v2, v0)
block1(v1:r, v4:r, v5:r):
    IADD3 v3:r, PT, PT, v1, 1, RZ
    IADD3 v6:r, PT, PT, v1, v4, v5
    ISETP.NE.AND v7:p, PT, v6, 24, PT
    @v7 BRA PT, block1(v3, v5, v4) -> block2
block2:
    EXIT PT
}
",
        );
        assert!(!are_joined(&mut classes, 1, 3));
        assert!(!are_joined(&mut classes, 4, 5));
    }
}
