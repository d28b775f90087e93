//! Register choice and eviction: where a value can lie. Where its class lies, where it breaks up least, or where others are moved away for it.
//!
//! The first member of a class that is placed looks for registers that nobody has booked at any point at which a member lives, and they are booked
//! for all members. If there are none, members are placed one by one.
//!
//! Room is made for general registers only: of the aligned windows a tuple could take, the one with the fewest registers in
//! use is emptied, by moves before the instruction. Values that share registers move together and keep their distance. What
//! the instruction reads for the last time stays where it is, as the moves come before the reading.

use super::super::coalesce::{ClassExtent, Place};
use super::super::file::{
    Units, aligned, below, both, clear_of, contains, either, insert, is_empty,
};
use super::{Move, Products, Scan, Stop, Turn};
use cranelift_entity::EntityRef;
use orias_machine::Machine;
use orias_ori::{Class, Type, Value};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::ops::Range;

/// Tuples of so many registers and more keep others away from where they will lie: memory has none that wide.
const WIDE: u8 = 8;

impl Scan<'_> {
    /// Finds a place for `value` and takes it.
    pub(super) fn place(&mut self, value: Value, turn: &mut Turn<'_>) -> Result<(), Stop> {
        let at = self.find_place(value, &Units::default(), turn)?;
        let ty = self.ty(value);
        insert(&mut turn.taken[ty.class() as usize], at, ty.len());
        self.take(value, at);
        Ok(())
    }

    /// A free place for `value` outside `avoid`, after moving others away if need be.
    pub(super) fn find_place(
        &mut self,
        value: Value,
        avoid: &Units,
        turn: &mut Turn<'_>,
    ) -> Result<u8, Stop> {
        let ty = self.ty(value);
        let avoid = &match ty.class().is_uniform() {
            true => either(avoid, &self.given(value).1),
            false => *avoid,
        };
        // Registers that neither this kind of uniform values nor the other one has had yet.
        let unused = match ty.class().is_uniform() && self.keeps_together {
            true => self.given(value).0.map(|word| !word),
            false => Units::default(),
        };
        match self.classes.place(value) {
            Some(Place {
                at: Some(at),
                booked,
            }) => {
                let file = &self.files[ty.class() as usize];
                if at.is_multiple_of(ty.alignment())
                    && file.is_free(at, ty.len(), avoid)
                    && (booked || self.is_clear(value, at))
                {
                    return Ok(at);
                }
            }
            None if !self.classes.is_alone(value) => {
                let at = match is_empty(&unused) {
                    true => None,
                    false => self.find_for_class(value, &either(avoid, &unused)),
                };
                if let Some(at) = at.or_else(|| self.find_for_class(value, avoid)) {
                    return Ok(at);
                }
            }
            _ => {}
        }
        if let Some(&Some(at)) = self.wanted.get(value.index())
            && self.classes.is_alone(value)
            && self.files[ty.class() as usize].is_free(at, ty.len(), avoid)
            && self.is_clear(value, at)
        {
            return Ok(at);
        }
        let booked = self.booked(value);
        let file = &self.files[ty.class() as usize];
        let soon = |points| self.booked_after(ty.class(), self.end(value), points);
        let find = |avoid: &Units| file.find(ty.len(), ty.alignment(), 0, avoid, &booked, soon);
        // One more register costs less than a wide class that is not kept together.
        let promised = match ty.class() {
            Class::R => both(&booked, &self.wide),
            _ => unused,
        };
        if let Some(at) = find(&either(avoid, &promised)).or_else(|| find(avoid)) {
            return Ok(at);
        }
        self.evict(ty, avoid, turn)
    }

    /// Books the registers that products of warp groups work on, the widest tuples first, before anything is placed. Accumulators live around loops; by the time
    /// the scan meets them, no run of registers that long would be free for all of that time.
    ///
    /// The tensor cores read and write them while other code runs, and code that tools put in between uses the registers that a called function may change: ptxas keeps
    /// products off those however few registers a kernel needs.
    pub(super) fn book_products(
        &mut self,
        values: &[Value],
        products: Products,
    ) -> Result<(), Stop> {
        let low = match products {
            Products::Above | Products::WidestAbove => {
                below(Machine::of(self.func.target).abi.first_product.into())
            }
            Products::Anywhere => Units::default(),
        };
        for &value in values {
            if self.classes.place(value).is_some() {
                continue;
            }
            let wide = self.ty(value).len() >= WIDE;
            let at = match self.find_above(value, &low) {
                None if products == Products::Above => return Err(Stop::Full(Class::R)),
                None if wide => self.find_for_class(value, &Units::default()),
                found => found,
            };
            if let Some(at) = at
                && wide
            {
                let shape = self.classes.shape(value);
                insert(&mut self.wide, at - shape.below, shape.span);
            }
        }
        Ok(())
    }

    /// Books registers for all classes with tuples, the widest first and of equals the one that lives first: what the scan meets later finds no aligned run that is free for all of
    /// its life once single values lie here and there.
    pub(super) fn book_widest_first(&mut self) {
        let mut tuples: Vec<(Reverse<u8>, u32, Value)> = Vec::new();
        for number in 0..self.types.len() {
            let value = Value::new(number);
            if self.ty(value).class() != Class::R || self.classes.place(value).is_some() {
                continue;
            }
            let span = self.classes.shape(value).span;
            if let Some(start) = self.start(value)
                && span > 1
            {
                tuples.push((Reverse(span), start, value));
            }
        }
        tuples.sort_unstable();
        for (_, _, value) in tuples {
            if self.classes.place(value).is_none() {
                self.find_lowest(value, &Units::default());
            }
        }
    }

    /// Books the lowest registers for values that live where a warp has few, before anything else is placed: by the time the scan meets them, others would lie there that
    /// could lie anywhere.
    pub(super) fn book_low(&mut self, values: &[Value]) {
        for &value in values {
            if self.classes.place(value).is_none() {
                self.find_lowest(value, &Units::default());
            }
        }
    }

    /// The lowest place outside `low` for the class of `value`, which is booked for all its members. None if `low` is empty.
    fn find_above(&mut self, value: Value, low: &Units) -> Option<u8> {
        if is_empty(low) {
            return None;
        }
        self.find_lowest(value, low)
    }

    /// The lowest place outside `avoid` for the class of `value`, which is booked for all its members.
    fn find_lowest(&mut self, value: Value, avoid: &Units) -> Option<u8> {
        let shape = self.classes.shape(value);
        let members = self.unplaced(value);
        let places = both(
            &self.clear_places(&members, shape),
            &avoid.map(|word| !word),
        );
        let base = self.files[self.ty(value).class() as usize].lowest(&places, shape.span)?;
        let at = base + shape.below;
        self.is_free(value, at).then(|| {
            self.settle(value, at, &members);
            at
        })
    }

    /// Whether `value` would lie at `at` where a wide class is promised to lie while it lives.
    pub(super) fn is_in_the_way(&mut self, value: Value, at: u8) -> bool {
        let ty = self.ty(value);
        let mut own = Units::default();
        insert(&mut own, at, ty.len());
        let touches = own.iter().zip(self.wide).any(|(own, wide)| own & wide != 0);
        if ty.class() != Class::R || !touches {
            return false;
        }
        let place = self.classes.place(value);
        let promised = place.is_some_and(|place| place.booked && place.at == Some(at));
        !promised && !self.is_clear(value, at)
    }

    /// A place for `value` such that all members of its class that have none yet can lie where they should, outside of what others have booked.
    /// It is booked for all of them.
    pub(super) fn find_for_class(&mut self, value: Value, avoid: &Units) -> Option<u8> {
        let ty = self.ty(value);
        let shape = self.classes.shape(value);
        let members = self.unplaced(value);
        let places = both(
            &self.clear_places(&members, shape),
            &clear_of(avoid, ty.len(), shape.below),
        );
        let ends = members.iter().map(|&(member, _)| self.end(member));
        let end = ends.max().unwrap_or_default();
        let soon = |points| self.booked_after(ty.class(), end, points);
        let base = self.files[ty.class() as usize].find_for_class(&places, shape.span, soon)?;
        let at = base + shape.below;
        self.is_free(value, at).then(|| {
            self.settle(value, at, &members);
            at
        })
    }

    /// Where a class of this shape can begin, by its alignment and by what others have booked while `members` live.
    fn clear_places(&self, members: &[(Value, u8)], shape: ClassExtent) -> Units {
        let mut places = aligned(shape.align, shape.residue);
        for &(member, above) in members {
            let booked = self.booked(member);
            places = both(&places, &clear_of(&booked, self.ty(member).len(), above));
        }
        places
    }

    /// Lets the whole class of `value` lie such that `value` lies at `at`, if nobody has booked what its other members need.
    pub(super) fn settle_at(&mut self, value: Value, at: u8) -> bool {
        let shape = self.classes.shape(value);
        let usable = self.files[self.ty(value).class() as usize].usable;
        let fits = at >= shape.below
            && u16::from(at - shape.below) + u16::from(shape.span) <= u16::from(usable)
            && (at - shape.below) % shape.align == shape.residue;
        if !fits {
            return false;
        }
        let members = self.unplaced(value);
        let clear = members.iter().all(|&(member, above)| {
            member == value || self.is_clear(member, at - shape.below + above)
        });
        if clear {
            self.settle(value, at, &members);
        }
        clear
    }

    fn settle(&mut self, value: Value, at: u8, members: &[(Value, u8)]) {
        let base = at - self.classes.shape(value).below;
        for &(member, above) in members {
            self.book(member, base + above);
        }
        self.classes.settle(value, at, true);
    }

    /// The members of the class of `value` that have no place yet, with the registers of the class below each.
    fn unplaced(&mut self, value: Value) -> Vec<(Value, u8)> {
        let mut members = self.classes.members(value);
        members.retain(|(member, _)| !self.placed[member.index()]);
        members
    }

    /// The registers that values like `value`, of a uniform class, were given, and those that it must not share: values that live across blocks have others than those that do not.
    fn given(&self, value: Value) -> (Units, Units) {
        let given = &self.given[self.ty(value).class() as usize];
        match self.crossing.contains(value) {
            true => (given.crossing, given.local),
            false => (given.local, given.crossing),
        }
    }

    /// Moves values away until there is room for a tuple of type `ty`.
    fn evict(&mut self, ty: Type, avoid: &Units, turn: &mut Turn<'_>) -> Result<u8, Stop> {
        if ty.class() != Class::R {
            return Err(Stop::Full(ty.class()));
        }
        let file = &self.files[ty.class() as usize];
        let taken = turn.taken[ty.class() as usize];
        let mut windows: Vec<(usize, u8)> = Vec::new();
        let mut base = 0;
        while base + u16::from(ty.len()) <= u16::from(file.usable) {
            let at = base as u8;
            base += u16::from(ty.alignment());
            let units = at..at + ty.len();
            if units.clone().all(|unit| {
                file.is_allocatable(unit) && !contains(&taken, unit) && !contains(avoid, unit)
            }) {
                let occupied = units.filter(|&unit| !file.owners(unit).is_empty()).count();
                windows.push((occupied, at));
            }
        }
        windows.sort_unstable();
        for (_, at) in windows {
            if self.empty_window(ty.class(), at..at + ty.len(), avoid, turn) {
                return Ok(at);
            }
        }
        Err(Stop::Full(ty.class()))
    }

    /// Moves everything out of general registers that there are no more of.
    pub(super) fn keep_within(&mut self, turn: &mut Turn<'_>) -> Result<(), Stop> {
        let file = &self.files[Class::R as usize];
        let above = file.usable..file.named.max(file.usable);
        match self.empty_window(Class::R, above, &Units::default(), turn) {
            true => Ok(()),
            false => Err(Stop::Full(Class::R)),
        }
    }

    /// Moves everything out of the registers of `units`, or nothing.
    fn empty_window(
        &mut self,
        class: Class,
        units: Range<u8>,
        avoid: &Units,
        turn: &mut Turn<'_>,
    ) -> bool {
        let file = &self.files[class as usize];
        let mut window = Units::default();
        insert(&mut window, units.start, units.end - units.start);
        // Values that share registers move together.
        let mut bundles: Vec<Bundle> = Vec::new();
        for unit in units {
            for &owner in file.owners(unit) {
                if !bundles.iter().any(|bundle| bundle.values.contains(&owner)) {
                    bundles.push(self.bundle(class, owner));
                }
            }
        }
        if bundles.is_empty() {
            return true;
        }
        let taken = turn.taken[class as usize];
        let in_taken =
            |bundle: &Bundle| (bundle.low..bundle.high).any(|unit| contains(&taken, unit));
        if bundles.iter().any(in_taken) {
            return false;
        }
        bundles.sort_by_key(|bundle| Reverse(bundle.high - bundle.low));
        let mut trial = self.files[class as usize].clone();
        for bundle in &bundles {
            for &value in &bundle.values {
                let (from, len) = (self.home[value.index()].unwrap_or(0), self.ty(value).len());
                trial.vacate(value, from, len, 0);
            }
        }
        // What is read here for the last time must survive until the instruction.
        let mut blocked = *avoid;
        for (word, (one, other)) in blocked
            .iter_mut()
            .zip(window.iter().zip(&turn.pinned[class as usize]))
        {
            *word |= one | other;
        }
        let mut places = Vec::new();
        for bundle in &bundles {
            let span = bundle.high - bundle.low;
            let residue = bundle.low % bundle.align;
            let booked = self.booked_by_others(bundle);
            let soon = |_| Units::default();
            let Some(to) = trial.find(span, bundle.align, residue, &blocked, &booked, soon) else {
                return false;
            };
            insert(&mut blocked, to, span);
            places.push(to);
        }
        for (bundle, &to) in bundles.iter().zip(&places) {
            for &value in &bundle.values {
                let (from, ty) = (self.home[value.index()].unwrap_or(0), self.ty(value));
                self.file(class).vacate(value, from, ty.len(), 0);
            }
            for &value in &bundle.values {
                let (from, ty) = (self.home[value.index()].unwrap_or(0), self.ty(value));
                let target = to + (from - bundle.low);
                self.file(class).occupy(value, target, ty.len());
                self.home[value.index()] = Some(target);
                self.book(value, target);
                match turn.moves.iter_mut().find(|moved| moved.value == value) {
                    Some(moved) => moved.to = target,
                    None => turn.moves.push(Move {
                        value,
                        from,
                        to: target,
                        ty,
                    }),
                }
            }
        }
        true
    }

    /// What is booked while any value of `bundle` lives.
    pub(super) fn booked_by_others(&self, bundle: &Bundle) -> Units {
        let sets = bundle.values.iter().map(|&value| self.booked(value));
        sets.fold(Units::default(), |all, one| either(&all, &one))
    }

    /// `value` and all that shares registers with it.
    pub(super) fn bundle(&self, class: Class, value: Value) -> Bundle {
        let mut bundle = Bundle {
            values: SmallVec::from_slice(&[value]),
            low: u8::MAX,
            high: 0,
            align: 1,
        };
        let mut next = 0;
        while next < bundle.values.len() {
            let value = bundle.values[next];
            next += 1;
            let (at, ty) = (self.home[value.index()].unwrap_or(0), self.ty(value));
            bundle.low = bundle.low.min(at);
            bundle.high = bundle.high.max(at + ty.len());
            bundle.align = bundle.align.max(ty.alignment());
            for unit in at..at + ty.len() {
                for &owner in self.files[class as usize].owners(unit) {
                    if !bundle.values.contains(&owner) {
                        bundle.values.push(owner);
                    }
                }
            }
        }
        bundle
    }
}

/// Values that share registers, and the run of registers they lie in.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) values: SmallVec<[Value; 4]>,
    pub(super) low: u8,
    pub(super) high: u8,
    pub(super) align: u8,
}
