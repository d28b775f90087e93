//! What threads did to memory, as a graph, and whether the PTX memory model allows it.
//!
//! Events are accesses, fences and arrivals. Three choices make an execution of them: from which write each byte of a read comes, the order
//! in which morally strong writes reach memory (*coherence*), and the order of morally strong `fence.sc`. Everything else follows: what
//! synchronises, base causality, causality. [`Graph::is_allowed`] derives that and asks the axioms, in O(n³ / 64) for n events. All axioms
//! forbid something, so what a part of an execution breaks the whole breaks, too: a graph may be asked before it is complete, and reads that
//! come from nowhere yet have no part in anything but program order.
//!
//! The axioms are those of the chapter "Memory Consistency Model" of the PTX manual; accesses of one proxy only.

use super::bits::Square;
use crate::order::{Actor, Meeting, Place, Strength, mutual};
use orias_ptx::Span;

/// The number of an event.
pub(crate) type Id = usize;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// Reads and writes in one step. What `red` reads nobody sees, so it acquires nothing.
    Update {
        seen: bool,
    },
    Fence,
    /// Arrives somewhere, or goes on from there.
    Arrival(Meeting),
    Departure(Meeting),
}

/// Something a thread did.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub actor: Actor,
    /// Its place in the thread's program; elements of a vector share one.
    pub at: u32,
    pub kind: Kind,
    pub strength: Option<Strength>,
    /// The memory it is about, if any.
    pub place: Place,
    /// For each byte read, the write it comes from: `None` is what was there before. Not known yet where the list is empty.
    pub sources: Vec<Option<Id>>,
    /// What is written, as soon as it is known.
    pub value: Option<u64>,
    /// Where it stands in the program.
    pub span: Span,
}

impl Event {
    pub fn reads(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Update { .. })
    }

    pub fn writes(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::Update { .. })
    }

    pub fn is_access(&self) -> bool {
        self.reads() || self.writes()
    }

    /// Whether it reads, and from where is not known.
    pub fn is_open(&self) -> bool {
        self.reads() && self.sources.is_empty()
    }

    fn releases(&self) -> bool {
        self.strength.is_some_and(|it| it.order.releases())
    }

    fn acquires(&self) -> bool {
        self.strength.is_some_and(|it| it.order.acquires())
    }

    /// A `fence.sc`.
    pub fn is_sc(&self) -> bool {
        let sc = crate::order::Order::SequentiallyConsistent;
        self.kind == Kind::Fence && self.strength.is_some_and(|it| it.order == sc)
    }

    /// Whether it comes before another in program order.
    fn precedes(&self, other: &Self) -> bool {
        self.actor.thread == other.actor.thread && self.at < other.at
    }
}

/// An execution, or the beginning of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub events: Vec<Event>,
    /// Writes in an order that agrees with coherence where they are morally strong.
    pub writes: Vec<Id>,
    /// The `fence.sc` in an order that agrees with Fence-SC where they are morally strong.
    pub fences: Vec<Id>,
}

/// What follows from a graph's choices.
pub(crate) struct Relations {
    pub causality: Square,
    coherence: Square,
}

impl Graph {
    pub fn add(&mut self, event: Event) -> Id {
        self.events.push(event);
        self.events.len() - 1
    }

    pub fn morally_strong(&self, a: Id, b: Id) -> bool {
        let (a, b) = (&self.events[a], &self.events[b]);
        let related = a.actor.thread == b.actor.thread && a.at != b.at
            || mutual((a.actor, a.strength), (b.actor, b.strength));
        related && (!a.is_access() || !b.is_access() || a.place == b.place)
    }

    /// Whether the model allows it.
    pub fn is_allowed(&self) -> bool {
        self.relations()
            .is_some_and(|it| self.keeps_causality(&it) && self.is_coherent_by_place(&it))
    }

    /// What follows from the choices, if that are orders and Coherence, Fence-SC and Atomicity hold.
    pub fn relations(&self) -> Option<Relations> {
        let observed = self.observation();
        let base = self.base_causality(&observed);
        let count = self.events.len();
        if (0..count).any(|at| base.has(at, at)) {
            return None;
        }
        let causality = observed.then(&base).or(&base);
        let in_order = |list: &[Id], a: Id, b: Id| {
            let place = |id: Id| list.iter().position(|&it| it == id);
            place(a) < place(b)
        };
        for (at, &first) in self.fences.iter().enumerate() {
            let later = self.fences[at + 1..].iter();
            for &second in later.filter(|&&second| self.morally_strong(first, second)) {
                if causality.has(second, first) {
                    return None;
                }
            }
        }
        let mut coherence = Square::new(count);
        for &a in &self.writes {
            for &b in &self.writes {
                let overlap = a != b && self.events[a].place.overlaps(self.events[b].place);
                let chosen = || self.morally_strong(a, b) && in_order(&self.writes, a, b);
                if overlap && (causality.has(a, b) || chosen()) {
                    coherence.set(a, b);
                }
            }
        }
        coherence.close();
        if (0..count).any(|at| coherence.has(at, at)) {
            return None;
        }
        let relations = Relations {
            causality,
            coherence,
        };
        self.is_atomic(&relations).then_some(relations)
    }

    /// Whether a read's byte comes from something older in coherence than `write`; what was there before everything is older than all.
    fn is_older(&self, source: Option<Id>, write: Id, relations: &Relations) -> bool {
        source.is_none_or(|source| relations.coherence.has(source, write))
    }

    /// From each write to what reads it, morally strong, directly or through updates.
    fn observation(&self) -> Square {
        let mut observed = Square::new(self.events.len());
        for (reader, event) in self.events.iter().enumerate() {
            for source in event.sources.iter().copied().flatten() {
                if self.morally_strong(source, reader) {
                    observed.set(source, reader);
                }
            }
        }
        // Only updates both read and write, so only they are in the middle of a path.
        observed.close();
        observed
    }

    /// Program order, and what synchronises, closed.
    fn base_causality(&self, observed: &Square) -> Square {
        let mut base = Square::new(self.events.len());
        for (a, first) in self.events.iter().enumerate() {
            for (b, second) in self.events.iter().enumerate() {
                let meets = match (first.kind, second.kind) {
                    (Kind::Arrival(there), Kind::Departure(here)) => there == here,
                    _ => false,
                };
                if first.precedes(second) || meets {
                    base.set(a, b);
                }
            }
        }
        for (at, &first) in self.fences.iter().enumerate() {
            for &second in &self.fences[at + 1..] {
                if self.morally_strong(first, second) {
                    base.set(first, second);
                }
            }
        }
        for (write, event) in self.events.iter().enumerate() {
            if !event.writes() || event.strength.is_none() {
                continue;
            }
            for read in observed.row(write) {
                for first in self.released_by(write) {
                    for last in self.acquired_by(read) {
                        let apart =
                            self.events[first].actor.thread != self.events[last].actor.thread;
                        if apart && self.morally_strong(first, last) {
                            base.set(first, last);
                        }
                    }
                }
            }
        }
        base.close();
        base
    }

    /// The first operations of the release patterns that end with a strong write.
    fn released_by(&self, write: Id) -> impl Iterator<Item = Id> {
        let end = &self.events[write];
        let starts = move |(id, event): &(Id, &Event)| {
            let same = event.writes() && event.place == end.place;
            event.releases()
                && (*id == write || event.precedes(end) && (event.kind == Kind::Fence || same))
        };
        self.events
            .iter()
            .enumerate()
            .filter(starts)
            .map(|(id, _)| id)
    }

    /// The last operations of the acquire patterns that begin with a strong read.
    fn acquired_by(&self, read: Id) -> impl Iterator<Item = Id> {
        let start = &self.events[read];
        let seen = start.strength.is_some() && start.kind != (Kind::Update { seen: false });
        let ends = move |(id, event): &(Id, &Event)| {
            let same = event.reads() && event.place == start.place;
            seen && event.acquires()
                && (*id == read || start.precedes(event) && (event.kind == Kind::Fence || same))
        };
        self.events
            .iter()
            .enumerate()
            .filter(ends)
            .map(|(id, _)| id)
    }

    /// Atomicity: no morally strong write lands within an access.
    fn is_atomic(&self, relations: &Relations) -> bool {
        self.events.iter().enumerate().all(|(reader, event)| {
            self.writes.iter().all(|&write| {
                if write == reader || !self.morally_strong(write, reader) {
                    return true;
                }
                let sources = || event.sources.iter().copied();
                let older = sources().any(|source| self.is_older(source, write, relations));
                let whole = !sources().any(|source| source == Some(write));
                let before = event.writes() && relations.coherence.has(write, reader);
                !older || whole && !before
            })
        })
    }

    /// Causality: no read sees what it causes, or what is older than what it was caused by.
    fn keeps_causality(&self, relations: &Relations) -> bool {
        self.events.iter().enumerate().all(|(reader, event)| {
            let mut sources = (0..).zip(event.sources.iter().copied());
            sources.all(|(byte, source)| {
                let caused = source.is_some_and(|source| relations.causality.has(reader, source));
                let missed = |&write: &Id| {
                    event.place.lies_in(byte, self.events[write].place)
                        && relations.causality.has(write, reader)
                        && self.is_older(source, write, relations)
                };
                !caused && !self.writes.iter().any(missed)
            })
        })
    }

    /// Sequential consistency per location: morally strong communication and program order have no cycle among overlapping accesses.
    fn is_coherent_by_place(&self, relations: &Relations) -> bool {
        let count = self.events.len();
        let mut order = Square::new(count);
        for (a, first) in self.events.iter().enumerate() {
            for (b, second) in self.events.iter().enumerate() {
                if a == b || !first.is_access() || !second.is_access() {
                    continue;
                }
                if !first.place.overlaps(second.place) {
                    continue;
                }
                let communicates = || {
                    let reads = second.sources.contains(&Some(a));
                    let writes = relations.coherence.has(a, b);
                    let misses = second.writes()
                        && (0..).zip(&first.sources).any(|(byte, &source)| {
                            first.place.lies_in(byte, second.place)
                                && source != Some(b)
                                && self.is_older(source, b, relations)
                        });
                    reads || writes || misses
                };
                if first.precedes(second) || self.morally_strong(a, b) && communicates() {
                    order.set(a, b);
                }
            }
        }
        order.close();
        (0..count).all(|at| !order.has(at, at))
    }

    /// The writes of a byte that no other follows in coherence.
    pub fn last_writes(&self, place: Place, relations: &Relations) -> Vec<Id> {
        let here = |&&id: &&Id| self.events[id].place.overlaps(place);
        let last = |&&id: &&Id| {
            let mut others = self.writes.iter().filter(here);
            others.all(|&other| !relations.coherence.has(id, other))
        };
        self.writes
            .iter()
            .filter(here)
            .filter(last)
            .copied()
            .collect()
    }

    /// Data races: conflicting accesses that are neither morally strong nor ordered by causality.
    pub fn races(&self, relations: &Relations) -> Vec<(Id, Id)> {
        let mut races = Vec::new();
        for (a, first) in self.events.iter().enumerate() {
            for (b, second) in self.events.iter().enumerate().skip(a + 1) {
                let conflict = first.is_access()
                    && second.is_access()
                    && (first.writes() || second.writes())
                    && first.actor.thread != second.actor.thread
                    && first.place.overlaps(second.place);
                let ordered = relations.causality.has(a, b) || relations.causality.has(b, a);
                if conflict && !ordered && !self.morally_strong(a, b) {
                    races.push((a, b));
                }
            }
        }
        races
    }
}
