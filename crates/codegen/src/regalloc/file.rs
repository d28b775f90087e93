//! One register file at the point the scan has reached: what each register holds, and where there is room.
//!
//! A register may hold several values at once if their contents are equal there: the parts of a tuple that was split lie in
//! the tuple's own registers, and a copy lies where its source does. It is free when all of them are dead.

use orias_ori::{Class, Value};
use smallvec::SmallVec;

/// The owners of a register's contents.
pub(super) type Owners = SmallVec<[Value; 2]>;

/// A set of registers of one file.
pub(super) type Units = [u64; 4];

/// Adds `len` registers from `at` on.
pub(super) fn insert(units: &mut Units, at: u8, len: u8) {
    for unit in at..at + len {
        units[usize::from(unit >> 6)] |= 1 << (unit & 63);
    }
}

/// Whether `unit` is in the set.
pub(super) fn contains(units: &Units, unit: u8) -> bool {
    units[usize::from(unit >> 6)] >> (unit & 63) & 1 == 1
}

/// A register file.
#[derive(Clone, Debug)]
pub(super) struct File {
    owners: Vec<Owners>,
    /// Registers never handed out.
    barred: Units,
    /// Those, and registers that hold something.
    taken: Units,
    /// When each register became free, by the scan's clock.
    freed: Vec<u32>,
    /// By register: the group that would like it.
    wished: Vec<u32>,
    /// How many registers may be used if need be.
    pub(super) usable: u8,
    /// How many registers should do.
    pub(super) enough: u8,
    /// How many registers cost nothing more, if that saves moves.
    pub(super) cheap: u8,
    /// One past the highest register used so far.
    pub(super) used: u8,
}

const NOBODY: u32 = u32::MAX;

impl File {
    /// An empty file of which `usable` registers may be used, `enough` should do, and `cheap` cost nothing more.
    pub(super) fn new(
        class: Class,
        usable: u8,
        enough: u8,
        cheap: u8,
        fixed: impl Iterator<Item = u8>,
    ) -> File {
        let count = usize::from(class.count());
        let mut barred = Units::default();
        for index in fixed {
            insert(&mut barred, index, 1);
        }
        File {
            owners: vec![Owners::new(); count],
            barred,
            taken: barred,
            freed: vec![0; count],
            wished: vec![NOBODY; count],
            usable: usable.min(class.count()),
            enough: enough.min(usable),
            cheap: cheap.max(enough).min(usable),
            used: 0,
        }
    }

    /// Forgets all owners, at the start of a block.
    pub(super) fn clear(&mut self) {
        for owners in &mut self.owners {
            owners.clear();
        }
        self.taken = self.barred;
    }

    /// The values in register `unit`.
    pub(super) fn owners(&self, unit: u8) -> &Owners {
        &self.owners[usize::from(unit)]
    }

    /// Puts `value` into `len` registers from `at` on.
    pub(super) fn occupy(&mut self, value: Value, at: u8, len: u8) {
        for unit in at..at + len {
            self.owners[usize::from(unit)].push(value);
        }
        insert(&mut self.taken, at, len);
        self.used = self.used.max(at + len);
    }

    /// Takes `value` out of `len` registers from `at` on.
    pub(super) fn vacate(&mut self, value: Value, at: u8, len: u8, clock: u32) {
        for unit in at..at + len {
            let owners = &mut self.owners[usize::from(unit)];
            owners.retain(|owner| *owner != value);
            if owners.is_empty() {
                self.freed[usize::from(unit)] = clock;
                if !contains(&self.barred, unit) {
                    self.taken[usize::from(unit >> 6)] &= !(1 << (unit & 63));
                }
            }
        }
    }

    /// Whether `unit` may be handed out at all.
    pub(super) fn is_allocatable(&self, unit: u8) -> bool {
        unit < self.usable && !contains(&self.barred, unit)
    }

    /// Whether the `len` registers from `at` on are free and none is in `avoid`.
    pub(super) fn is_free(&self, at: u8, len: u8, avoid: &Units) -> bool {
        u16::from(at) + u16::from(len) <= u16::from(self.usable)
            && (at..at + len).all(|unit| !contains(&self.taken, unit) && !contains(avoid, unit))
    }

    /// Lets `group` wish for the registers from `low` up to `high`.
    pub(super) fn wish(&mut self, group: u32, low: i16, high: i16) {
        for unit in low.max(0)..high.min(self.owners.len() as i16) {
            self.wished[unit as usize] = group;
        }
    }

    /// The best place for `len` registers, the first of which is `residue` modulo `align`.
    ///
    /// Registers below [`File::enough`] come first, and among these such that no group in `waits` other than `own` wishes
    /// for. Single registers and pairs fill the holes of larger aligned runs, and of equally good ones the register that
    /// has been free longest is taken, so that an instruction in flight seldom delays the next writer.
    pub(super) fn find(
        &self,
        len: u8,
        align: u8,
        residue: u8,
        avoid: &Units,
        own: u32,
        waits: impl Fn(u32) -> bool,
    ) -> Option<u8> {
        let mut best: Option<((bool, u8, u32, u8), u8)> = None;
        let mut at = u16::from(residue);
        while at + u16::from(len) <= u16::from(self.usable) {
            let base = at as u8;
            at += u16::from(align);
            if !self.is_free(base, len, avoid) {
                continue;
            }
            let beyond = base + len > self.enough;
            // Beyond what should do, the lowest register is best, and only if there is none below.
            if beyond {
                return best.map(|(_, base)| base).or(Some(base));
            }
            let wished = (base..base + len).any(|unit| {
                let group = self.wished[usize::from(unit)];
                group != NOBODY && group != own && waits(group)
            });
            let age = (base..base + len)
                .map(|unit| self.freed[usize::from(unit)])
                .max()
                .unwrap_or(0);
            let key = (wished, self.hole(base, len), age, base);
            if best.is_none_or(|(least, _)| key < least) {
                best = Some((key, base));
            }
        }
        best.map(|(_, base)| base)
    }

    /// How much a value of `len` registers at `base` breaks up: 0 if the run it lies in is broken already.
    fn hole(&self, base: u8, len: u8) -> u8 {
        let taken = |from: u8, count: u8| {
            (from..from.saturating_add(count)).any(|unit| contains(&self.taken, unit))
        };
        match len {
            1 if taken(base ^ 1, 1) => 0,
            1 | 2 if taken((base & !3) | (!base & 2), 2) => 1,
            1 | 2 => 2,
            _ => 0,
        }
    }
}
