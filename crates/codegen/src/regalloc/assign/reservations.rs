//! Reserving registers for whole live ranges.

use super::super::calls::volatile;
use super::super::counts::Room;
use super::super::file::{File, Units, below, either, insert};
use super::super::ranges::{Ranges, Run};
use super::super::timeline::Timeline;
use super::Scan;
use orias_ori::{Class, Value};

/// The timelines of all files.
pub(super) struct Reservations<'a> {
    ranges: &'a Ranges,
    general: Timeline<4>,
    /// The other files are small and share two words.
    others: Timeline<2>,
}

/// The word of a small file, and where its registers begin there. Tokens are never booked.
fn place(class: Class) -> (usize, u32) {
    match class {
        Class::UR => (1, 0),
        Class::UP => (0, 8),
        Class::R | Class::P | Class::B => (0, 0),
    }
}

impl<'a> Reservations<'a> {
    /// Booked are registers of `files` that are never handed out, and at calls those of the called function.
    pub(super) fn new(files: &[File; 5], ranges: &'a Ranges) -> Reservations<'a> {
        let mut reservations = Reservations {
            general: Timeline::new(ranges.points),
            others: Timeline::new(ranges.points),
            ranges,
        };
        let always = Run {
            start: 0,
            end: reservations.ranges.points.saturating_sub(1),
        };
        for class in [Class::R, Class::P, Class::UR, Class::UP] {
            reservations.book_run(class, always, files[class as usize].barred());
        }
        for &(point, convention) in &ranges.calls {
            let run = Run {
                start: point,
                end: point,
            };
            reservations.book_run(Class::R, run, &volatile(&convention));
        }
        reservations
    }

    /// Books what a warp does not have where it has fewer registers than elsewhere.
    pub(super) fn book_missing(&mut self, room: &Room) {
        if self.ranges.counts.is_empty() {
            return;
        }
        let mut changes = self.ranges.counts.iter().copied().peekable();
        for &(block, whole) in &self.ranges.blocks {
            let (mut start, mut usable) = (whole.start, room.at_start(block));
            while let Some((point, inst)) = changes.next_if(|(point, _)| *point <= whole.end) {
                self.book_above(usable, start, point);
                (start, usable) = (point + 1, room.changed_by(inst).map_or(usable, |it| it.1));
            }
            self.book_above(usable, start, whole.end);
        }
    }

    fn book_above(&mut self, usable: u32, start: u32, end: u32) {
        if let Ok(usable) = u8::try_from(usable) {
            let missing = below(usable.into()).map(|word| !word);
            self.book_run(Class::R, Run { start, end }, &missing);
        }
    }

    fn book_run(&mut self, class: Class, run: Run, units: &Units) {
        match class {
            Class::R => self.general.book(run, units),
            _ => {
                let (word, first) = place(class);
                let mut words = [0; 2];
                words[word] = units[0] << first;
                self.others.book(run, &words);
            }
        }
    }

    fn booked(&self, class: Class, run: Run) -> Units {
        match class {
            Class::R => self.general.booked(run),
            _ => {
                let (word, first) = place(class);
                let count = u32::from(class.count());
                let booked = self.others.booked(run)[word] >> first;
                [booked & (1_u64 << count).wrapping_sub(1), 0, 0, 0]
            }
        }
    }
}

impl Scan<'_> {
    /// The first point at which `value` is live, if it has contents.
    pub(super) fn start(&self, value: Value) -> Option<u32> {
        let runs = self.reservations.ranges.of(value);
        runs.first().map(|run| run.start)
    }

    /// The last point at which `value` is live.
    pub(super) fn end(&self, value: Value) -> u32 {
        self.reservations
            .ranges
            .of(value)
            .last()
            .map_or(0, |run| run.end)
    }

    /// What is booked at any of so many `points` after `end`.
    pub(super) fn booked_after(&self, class: Class, end: u32, points: u32) -> Units {
        let last = self.reservations.ranges.points - 1;
        let run = Run {
            start: (end + 1).min(last),
            end: (end + points).min(last),
        };
        self.reservations.booked(class, run)
    }

    /// What is booked while `value` lives.
    pub(super) fn booked(&self, value: Value) -> Units {
        let class = self.ty(value).class();
        let runs = self.reservations.ranges.of(value).iter();
        runs.fold(Units::default(), |all, &run| {
            either(&all, &self.reservations.booked(class, run))
        })
    }

    /// Whether nobody has booked the registers of `value` from `at` on while it lives.
    pub(super) fn is_clear(&self, value: Value, at: u8) -> bool {
        let mut own = Units::default();
        insert(&mut own, at, self.ty(value).len());
        let booked = self.booked(value);
        own.iter()
            .zip(booked)
            .all(|(own, booked)| own & booked == 0)
    }

    /// Books the registers of `value` from `at` on for as long as it lives.
    pub(super) fn book(&mut self, value: Value, at: u8) {
        let ty = self.ty(value);
        let mut units = Units::default();
        insert(&mut units, at, ty.len());
        for &run in self.reservations.ranges.of(value) {
            self.reservations.book_run(ty.class(), run, &units);
        }
    }
}
