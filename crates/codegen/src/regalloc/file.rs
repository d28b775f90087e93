//! One register file at the point the scan has reached: what each register holds, and where there is room.
//!
//! A register may hold several values at once if their contents are equal there: the parts of a tuple that was split lie in
//! the tuple's own registers, and a copy lies where its source does. It is free when all of them are dead.

use super::assign::Budget;
use orias_ori::{Class, Value};
use smallvec::SmallVec;

/// The owners of a register's contents.
pub(super) type Owners = SmallVec<[Value; 2]>;

/// A set of registers of one file.
pub(super) type Units = [u64; 4];

/// Adds `len` registers from `at` on.
#[inline]
pub(super) fn insert(units: &mut Units, at: u8, len: u8) {
    if len == 1 {
        units[usize::from(at >> 6)] |= 1 << (at & 63);
        return;
    }
    let (before, all) = (below(at.into()), below(u16::from(at) + u16::from(len)));
    for (word, (before, all)) in units.iter_mut().zip(before.iter().zip(all)) {
        *word |= all & !before;
    }
}

/// Whether `unit` is in the set.
pub(super) fn contains(units: &Units, unit: u8) -> bool {
    units[usize::from(unit >> 6)] >> (unit & 63) & 1 == 1
}

/// The registers below `count`.
pub(super) fn below(count: u16) -> Units {
    std::array::from_fn(|word| {
        let bits = count.saturating_sub(64 * word as u16);
        if bits >= 64 {
            u64::MAX
        } else {
            (1 << bits) - 1
        }
    })
}

/// The registers of both sets.
pub(super) fn both(one: &Units, other: &Units) -> Units {
    std::array::from_fn(|word| one[word] & other[word])
}

/// The registers of one set or the other.
pub(super) fn either(one: &Units, other: &Units) -> Units {
    std::array::from_fn(|word| one[word] | other[word])
}

pub(super) fn is_empty(units: &Units) -> bool {
    *units == [0; 4]
}

/// Where `len` registers can begin that end below `limit`.
fn starts(limit: u8, len: u8) -> Units {
    below((u16::from(limit) + 1).saturating_sub(u16::from(len)))
}

/// The registers that are `residue` modulo `align`, a power of two up to 64.
pub(super) fn aligned(align: u8, residue: u8) -> Units {
    [MULTIPLES[align.trailing_zeros() as usize] << residue; 4]
}

/// The registers from which on `len` registers, `above` further up, have none in common with `units`.
pub(super) fn clear_of(units: &Units, len: u8, above: u8) -> Units {
    let meets = windows(units, len, |one, other| one | other);
    shifted_down(&meets, above).map(|word| !word)
}

/// The registers whose `by`-th successor is in the set.
fn shifted_down(units: &Units, by: u8) -> Units {
    let (words, bits) = (usize::from(by >> 6), u32::from(by & 63));
    std::array::from_fn(|word| {
        let at = |index: usize| units.get(index).copied().unwrap_or(0);
        let low = at(word + words) >> bits;
        match bits {
            0 => low,
            _ => low | at(word + words + 1) << (64 - bits),
        }
    })
}

/// `step` applied to the set and itself moved down by 1, 2, 4 … until each register stands for the `len` registers from it on.
fn windows(units: &Units, len: u8, step: fn(u64, u64) -> u64) -> Units {
    let mut result = *units;
    let mut have = 1;
    while have < len {
        let by = have.min(len - have);
        let moved = shifted_down(&result, by);
        result = std::array::from_fn(|word| step(result[word], moved[word]));
        have += by;
    }
    result
}

/// The registers of the set, in ascending order.
fn members(units: &Units) -> impl Iterator<Item = u8> + use<> {
    let units = *units;
    (0_u8..4).flat_map(move |word| {
        let mut bits = units[usize::from(word)];
        std::iter::from_fn(move || {
            if bits == 0 {
                return None;
            }
            let bit = bits.trailing_zeros() as u8;
            bits &= bits - 1;
            Some(64 * word + bit)
        })
    })
}

/// Where there are more places than this, nobody has to look for the tightest.
const FEW: u32 = 32;

/// How many points after a value's end are soon, the soonest first.
const SOON: [u32; 7] = [8, 16, 32, 64, 128, 256, 1024];

/// Of `places` for `len` registers, if they are few: those that someone has booked again for the time soonest after, as `soon` tells. What is booked within fewer points is booked
/// within more.
fn tight(places: Units, len: u8, soon: impl Fn(u32) -> Units) -> Units {
    let mut tightest = places;
    if places.iter().map(|word| word.count_ones()).sum::<u32>() > FEW {
        return tightest;
    }
    let (mut low, mut high) = (0, SOON.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        let booked = soon(SOON[middle]);
        let tight = both(&places, &windows(&booked, len, |one, other| one | other));
        if is_empty(&tight) {
            low = middle + 1;
        } else {
            (tightest, high) = (tight, middle);
        }
    }
    tightest
}

/// A register file.
#[derive(Clone, Debug)]
pub(super) struct File {
    owners: Vec<Owners>,
    /// Registers never handed out.
    barred: Units,
    /// Those, and registers that hold something.
    taken: Units,
    /// When each register became free, by the scan's clock. Those that operations read late are free later than that.
    freed: Vec<u32>,
    /// The scan's clock.
    pub(super) now: u32,
    /// How many registers have been used, from the first to the highest.
    pub(super) named: u8,
    /// How many registers may be used if need be.
    pub(super) usable: u8,
    /// How many registers should do.
    pub(super) enough: u8,
    /// How many registers cost nothing more, if that saves moves.
    pub(super) cheap: u8,
    /// How many registers cost nothing at all, if that saves a wait.
    pub(super) free: u8,
    /// For so many instructions an operation that reads late is taken to read its registers.
    late: u32,
    /// Whether the lowest of equally good registers is taken, instead of the one that has been free longest.
    lowest: bool,
}

/// By power of two up to 64: its multiples.
const MULTIPLES: [u64; 7] = [
    u64::MAX,
    u64::MAX / 0x3,
    u64::MAX / 0xf,
    u64::MAX / 0xff,
    u64::MAX / 0xffff,
    u64::MAX / 0xffff_ffff,
    1,
];

impl File {
    /// An empty file of which as many registers may be used as `budget` says.
    pub(super) fn new(
        class: Class,
        budget: Budget,
        lowest: bool,
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
            now: 0,
            named: 0,
            usable: budget.usable.min(class.count()),
            enough: budget.enough.min(budget.usable),
            cheap: budget.cheap.max(budget.enough).min(budget.usable),
            free: budget.free.min(budget.usable),
            late: budget.late,
            lowest,
        }
    }

    /// Forgets all owners, at the start of a block.
    pub(super) fn clear(&mut self) {
        for unit in members(&self.taken) {
            if let Some(owners) = self.owners.get_mut(usize::from(unit)) {
                owners.clear();
            }
        }
        self.taken = self.barred;
    }

    /// The values in register `unit`.
    pub(super) fn owners(&self, unit: u8) -> &Owners {
        &self.owners[usize::from(unit)]
    }

    /// Puts `value` into `len` registers from `at` on.
    #[inline]
    pub(super) fn occupy(&mut self, value: Value, at: u8, len: u8) {
        for unit in at..at + len {
            self.owners[usize::from(unit)].push(value);
        }
        insert(&mut self.taken, at, len);
        self.named = self.named.max(at + len);
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

    /// Says that the registers are still being read for some time, if they are free.
    pub(super) fn read_late(&mut self, at: u8, len: u8) {
        for unit in at..at + len {
            if self.owners[usize::from(unit)].is_empty() {
                self.freed[usize::from(unit)] = self.now + self.late;
            }
        }
    }

    /// Registers that are never handed out.
    pub(super) fn barred(&self) -> &Units {
        &self.barred
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

    /// The best place for `len` registers, the first of which is `residue` modulo `align`, a power of two up to 64.
    ///
    /// Registers below [`File::enough`] come first, then those below [`File::cheap`], in both cases such that are not in `booked`. Single
    /// registers and pairs fill the holes of larger aligned runs, and of equally good ones the register that has been free
    /// longest is taken, so that an instruction in flight seldom delays the next writer. Where places are [`FEW`], those are best that are
    /// booked again soon: `soon` says what is booked within so many points after the value's end.
    pub(super) fn find(
        &self,
        len: u8,
        align: u8,
        residue: u8,
        avoid: &Units,
        booked: &Units,
        soon: impl Fn(u32) -> Units,
    ) -> Option<u8> {
        let usable = below(u16::from(self.usable));
        let free = std::array::from_fn(|word| usable[word] & !self.taken[word] & !avoid[word]);
        let places = both(
            &windows(&free, len, |one, other| one & other),
            &aligned(align, residue),
        );
        let within = both(&places, &starts(self.enough, len));
        let clear = windows(booked, len, |one, other| one | other).map(|word| !word);
        let best = both(&within, &clear);
        if !is_empty(&best) {
            let at = self.choose(tight(best, len, soon), len)?;
            return Some(self.instead_of(at, len, &both(&places, &clear)));
        }
        // Beyond what should do, the lowest register is best. It costs less than to lie where somebody else is going to, as long as it costs no warps.
        let saving = both(&both(&places, &starts(self.cheap, len)), &clear);
        if let Some(at) = members(&saving).next() {
            return Some(at);
        }
        match is_empty(&within) {
            true => members(&places).next(),
            false => self.choose(within, len),
        }
    }

    /// The best of `places` for the `span` registers of a class: below [`File::enough`] if there is one, else below [`File::cheap`], or none.
    pub(super) fn find_for_class(
        &self,
        places: &Units,
        span: u8,
        soon: impl Fn(u32) -> Units,
    ) -> Option<u8> {
        let within = both(places, &starts(self.enough, span));
        if is_empty(&within) {
            return members(&both(places, &starts(self.cheap, span))).next();
        }
        let at = self.choose(tight(within, span, soon), span)?;
        Some(self.instead_of(at, span, places))
    }

    /// The place `at`, or, if somebody still reads a register there, one of `places` where nobody does, as far as registers cost nothing.
    fn instead_of(&self, at: u8, len: u8, places: &Units) -> u8 {
        if !self.is_read_late(at, len) {
            return at;
        }
        let free = both(places, &starts(self.free, len));
        let mut idle = Units::default();
        for place in members(&free).filter(|&place| !self.is_read_late(place, len)) {
            insert(&mut idle, place, 1);
        }
        members(&self.unbroken(idle, len)).next().unwrap_or(at)
    }

    /// Whether one of the registers, which are free, is still being read.
    pub(super) fn is_read_late(&self, at: u8, len: u8) -> bool {
        let units = usize::from(at)..usize::from(at) + usize::from(len);
        self.late > 0 && self.freed[units].iter().any(|&freed| freed > self.now)
    }

    /// The lowest of `places` for the `span` registers of a class, whatever it costs.
    pub(super) fn lowest(&self, places: &Units, span: u8) -> Option<u8> {
        members(&both(places, &starts(self.usable, span))).next()
    }

    /// Those of `places` for `len` registers that break up least.
    fn unbroken(&self, places: Units, len: u8) -> Units {
        let mut best = places;
        let mut prefer = |wanted: Units| {
            let some = both(&best, &wanted);
            let exist = !is_empty(&some);
            if exist {
                best = some;
            }
            exist
        };
        // A value breaks up nothing if the pair it lies in is broken already, and little if the run of four is.
        const EVEN: u64 = 0x5555_5555_5555_5555;
        const LOW_PAIRS: u64 = 0x3333_3333_3333_3333;
        let fits_pair = len == 1
            && prefer(
                self.taken
                    .map(|taken| (taken & EVEN) << 1 | taken >> 1 & EVEN),
            );
        if len <= 2 && !fits_pair {
            prefer(self.taken.map(|taken| {
                let pairs = (taken | taken >> 1) & EVEN;
                let pairs = pairs | pairs << 1;
                (pairs & LOW_PAIRS) << 2 | pairs >> 2 & LOW_PAIRS
            }));
        }
        best
    }

    /// The best of `places`, of which there is one at least, for `len` registers.
    fn choose(&self, places: Units, len: u8) -> Option<u8> {
        let best = self.unbroken(places, len);
        if self.lowest {
            return members(&best).next();
        }
        let mut oldest: Option<(u32, u8)> = None;
        for base in members(&best) {
            let units = usize::from(base)..usize::from(base) + usize::from(len);
            let age = self.freed[units].iter().copied().max().unwrap_or(0);
            if oldest.is_none_or(|(least, _)| age < least) {
                oldest = Some((age, base));
            }
            if age == 0 {
                break;
            }
        }
        oldest.map(|(_, base)| base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_places_are_those_that_are_booked_again_soonest() {
        // Register n is booked again after 2 ^ n points.
        let soon = |points: u32| below(points.ilog2() as u16 + 1);
        for first in 0_u8..14 {
            let mut places = Units::default();
            insert(&mut places, first, 6);
            let steps = SOON.into_iter().map(|points| both(&places, &soon(points)));
            let expected = steps.into_iter().find(|found| !is_empty(found));
            assert_eq!(
                tight(places, 1, soon),
                expected.unwrap_or(places),
                "{first}"
            );
        }
    }

    #[test]
    fn a_register_more_is_better_than_one_that_somebody_has_booked_unless_it_costs_warps() {
        let budget = Budget {
            usable: 40,
            enough: 4,
            cheap: 8,
            free: 4,
            late: 0,
        };
        let mut booked = Units::default();
        insert(&mut booked, 0, 4);
        let find = |budget: Budget, booked: &Units| {
            let file = File::new(Class::R, budget, false, std::iter::empty());
            file.find(1, 1, 0, &Units::default(), booked, |_| Units::default())
        };
        assert_eq!(find(budget, &Units::default()), Some(0));
        assert_eq!(find(budget, &booked), Some(4));
        // Up to eight registers are free of cost, not more.
        insert(&mut booked, 4, 4);
        assert_eq!(find(budget, &booked), Some(0));
    }
}
