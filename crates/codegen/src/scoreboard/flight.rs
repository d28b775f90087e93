//! The dataflow state: what is in flight where one block ends and another begins.
//!
//! Two kinds of records. A *result* of fixed latency knows how many cycles ago its instruction issued at least. An *event* is the
//! end of something of variable latency (results written, sources read); it knows which barriers cover it: waiting for any one of
//! them means that it has happened. A *flight* ties an event to a place.
//!
//! Where paths meet, the records of all of them count: of two results of one group the younger, of two instances of one event
//! the barriers that cover both.

use orias_machine::timing::ResultGroup;
use orias_sass::Barrier;

/// An event's name: the index of its instruction, twice, plus its kind.
pub(super) type EventId = u32;

/// A fixed-latency result that may not be there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResultRecord {
    pub(super) place: u16,
    pub(super) group: ResultGroup,
    pub(super) age: u16,
}

/// An event that has not surely happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventRecord {
    pub(super) id: EventId,
    /// The barriers that cover it.
    pub(super) covers: u8,
    /// Cycles until it is waited for, and until it has likely happened: for choosing barriers only.
    pub(super) demand: i32,
    pub(super) done: i32,
}

/// An event and a place it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flight {
    pub(super) place: u16,
    /// Whether the place is being read, not written.
    pub(super) reads: bool,
    pub(super) event: EventId,
}

/// What is in flight at a boundary; each list sorted by its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Boundary {
    pub(super) results: Vec<ResultRecord>,
    pub(super) events: Vec<EventRecord>,
    pub(super) flights: Vec<Flight>,
    /// Cycles since each barrier was last set, up to [`SETTLED`].
    pub(super) set_ages: [u16; Barrier::COUNT as usize],
}

/// An age at which a barrier is visible in any case.
pub(super) const SETTLED: u16 = 8;

impl Boundary {
    /// Nothing is in flight.
    pub(super) fn empty() -> Boundary {
        Boundary {
            set_ages: [SETTLED; Barrier::COUNT as usize],
            ..Boundary::default()
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.results.clear();
        self.events.clear();
        self.flights.clear();
        self.set_ages = [SETTLED; Barrier::COUNT as usize];
    }

    /// Adds what is in flight on another path; says whether anything that matters for correctness changed.
    pub(super) fn join(&mut self, other: &Boundary) -> bool {
        let mut changed = false;
        changed |= merge(
            &mut self.results,
            &other.results,
            |record| (record.place, record.group),
            |mine, theirs| {
                let age = mine.age.min(theirs.age);
                std::mem::replace(&mut mine.age, age) != age
            },
        );
        changed |= merge(
            &mut self.events,
            &other.events,
            |record| record.id,
            |mine, theirs| {
                mine.demand = mine.demand.min(theirs.demand);
                mine.done = mine.done.max(theirs.done);
                let covers = mine.covers & theirs.covers;
                std::mem::replace(&mut mine.covers, covers) != covers
            },
        );
        changed |= merge(
            &mut self.flights,
            &other.flights,
            |flight| *flight,
            |_, _| false,
        );
        for (mine, theirs) in self.set_ages.iter_mut().zip(other.set_ages) {
            if theirs < *mine {
                *mine = theirs;
                changed = true;
            }
        }
        changed
    }
}

/// Merges two sorted lists: `both` decides where a key is in both.
fn merge<T: Copy, K: Ord>(
    mine: &mut Vec<T>,
    theirs: &[T],
    key: impl Fn(&T) -> K,
    both: impl Fn(&mut T, &T) -> bool,
) -> bool {
    // What is in both first: often that is all.
    let mut changed = false;
    let mut new = 0;
    let mut left = 0;
    for record in theirs {
        let wanted = key(record);
        while mine.get(left).is_some_and(|known| key(known) < wanted) {
            left += 1;
        }
        match mine.get_mut(left) {
            Some(known) if key(known) == wanted => changed |= both(known, record),
            _ => new += 1,
        }
    }
    if new == 0 {
        return changed;
    }
    // From the end, where there is room.
    let Some(&filler) = theirs.first() else {
        return changed;
    };
    let (mut left, mut right) = (mine.len(), theirs.len());
    mine.resize(left + new, filler);
    let mut place = mine.len();
    while right > 0 {
        let order = match left {
            0 => std::cmp::Ordering::Less,
            _ => key(&mine[left - 1]).cmp(&key(&theirs[right - 1])),
        };
        match order {
            std::cmp::Ordering::Greater => {
                left -= 1;
                place -= 1;
                mine[place] = mine[left];
            }
            std::cmp::Ordering::Equal => right -= 1,
            std::cmp::Ordering::Less => {
                right -= 1;
                place -= 1;
                mine[place] = theirs[right];
            }
        }
    }
    true
}
