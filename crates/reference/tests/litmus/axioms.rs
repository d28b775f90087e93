//! The executions that the axioms of the PTX memory model allow, by trying all candidates.
//!
//! A candidate says from which write each read comes, and puts the writes of each place and the `fence.sc` into an order; the axioms are relations, as in the
//! formal description of the model (Lustig, Sahasrabuddhe, Giroux, "A Formal Analysis of the NVIDIA PTX Memory Consistency Model", ASPLOS 2019). Reads and writes
//! of atomics are two events, and what memory holds before is written by events, too. Nothing here is shared with the interpreter.

use crate::shapes::{Act, Litmus, PLACES, REGISTERS, Stored, Words};
use std::collections::BTreeSet;

/// What registers and places hold in the end.
pub type Result = ([u32; REGISTERS], [u32; PLACES]);

/// What must hold; each can be left out, to see which tests depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axiom {
    Coherence,
    FenceSc,
    Atomicity,
    NoThinAir,
    PerLocation,
    Causality,
}

pub const AXIOMS: [Axiom; 6] = [
    Axiom::Coherence,
    Axiom::FenceSc,
    Axiom::Atomicity,
    Axiom::NoThinAir,
    Axiom::PerLocation,
    Axiom::Causality,
];

/// A relation on at most 64 events.
#[derive(Clone, PartialEq, Eq)]
struct Relation(Vec<u64>);

impl Relation {
    fn from(count: usize, holds: impl Fn(usize, usize) -> bool) -> Self {
        let row = |a| (0..count).fold(0, |row, b| row | u64::from(holds(a, b)) << b);
        Self((0..count).map(row).collect())
    }

    fn has(&self, a: usize, b: usize) -> bool {
        self.0[a] >> b & 1 == 1
    }

    fn union(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a | b).collect())
    }

    fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    fn then(&self, next: &Self) -> Self {
        let row = |&row: &u64| {
            (0..self.0.len())
                .filter(|middle| row >> middle & 1 == 1)
                .fold(0, |sum, middle| sum | next.0[middle])
        };
        Self(self.0.iter().map(row).collect())
    }

    fn closure(&self) -> Self {
        let mut closed = self.clone();
        loop {
            let more = closed.union(&closed.then(&closed));
            if more == closed {
                return closed;
            }
            closed = more;
        }
    }

    fn inverse(&self) -> Self {
        Self::from(self.0.len(), |a, b| self.has(b, a))
    }

    fn is_irreflexive(&self) -> bool {
        (0..self.0.len()).all(|at| !self.has(at, at))
    }

    fn is_acyclic(&self) -> bool {
        self.closure().is_irreflexive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Read,
    Write,
    Fence,
    /// Comes to a barrier, or leaves it, for that time.
    Arrive(usize),
    Leave(usize),
}

#[derive(Clone, Debug)]
struct Event {
    /// None: what was there before.
    thread: Option<usize>,
    what: What,
    place: usize,
    words: Words,
    /// What is written: a constant, plus the value of that read.
    value: u32,
    from: Option<usize>,
    register: Option<usize>,
    /// Whether a fence behind this read can acquire by it.
    seen: bool,
}

struct Candidate {
    events: Vec<Event>,
    program: Relation,
    depends: Relation,
    updates: Relation,
}

fn events_of(test: &Litmus) -> Candidate {
    let mut events: Vec<Event> = (0..PLACES)
        .map(|place| Event {
            thread: None,
            what: What::Write,
            place,
            words: Words::WEAK,
            value: 0,
            from: None,
            register: None,
            seen: false,
        })
        .collect();
    let (mut depends, mut updates) = (Vec::new(), Vec::new());
    for (thread, acts) in test.threads.iter().enumerate() {
        let mut holds = [None; REGISTERS];
        let mut branches: Vec<usize> = Vec::new();
        let mut barriers = 0;
        for &act in acts {
            let blank = Event {
                thread: Some(thread),
                what: What::Fence,
                place: 0,
                words: Words::WEAK,
                value: 0,
                from: None,
                register: None,
                seen: true,
            };
            let read = |place, register, words| Event {
                what: What::Read,
                place,
                words,
                register,
                ..blank.clone()
            };
            let write = |place, value, from, words| Event {
                what: What::Write,
                place,
                words,
                value,
                from,
                ..blank.clone()
            };
            let first = events.len();
            match act {
                Act::Load(place, register, words) => {
                    events.push(read(place, Some(register), words));
                    holds[register] = Some(first);
                }
                Act::LoadAfter(place, register, after, words) => {
                    events.push(read(place, Some(register), words));
                    depends.extend(holds[after].map(|it| (it, first)));
                    holds[register] = Some(first);
                }
                Act::Store(place, stored, words) => {
                    let (value, register, sums) = match stored {
                        Stored::Constant(value) => (value, None, false),
                        Stored::Sum(register, value) => (value, Some(register), true),
                        Stored::After(register, value) => (value, Some(register), false),
                    };
                    let from = register.and_then(|it| holds[it]);
                    events.push(write(place, value, from.filter(|_| sums), words));
                    depends.extend(from.map(|it| (it, first)));
                }
                Act::StoreAfter(place, after, value, words) => {
                    events.push(write(place, value, None, words));
                    depends.extend(holds[after].map(|it| (it, first)));
                }
                Act::Add(place, value, register, words) => {
                    events.push(read(place, Some(register), words));
                    events.push(write(place, value, Some(first), words));
                    updates.push((first, first + 1));
                    holds[register] = Some(first);
                }
                Act::Exchange(place, value, register, words) => {
                    events.push(read(place, Some(register), words));
                    events.push(write(place, value, None, words));
                    updates.push((first, first + 1));
                    holds[register] = Some(first);
                }
                Act::Reduce(place, value, words) => {
                    events.push(Event {
                        seen: false,
                        ..read(place, None, words)
                    });
                    events.push(write(place, value, Some(first), words));
                    updates.push((first, first + 1));
                }
                Act::Fence(order, scope) => events.push(Event {
                    words: Words { order, scope },
                    ..blank
                }),
                Act::Barrier => {
                    for what in [What::Arrive(barriers), What::Leave(barriers)] {
                        events.push(Event {
                            what,
                            ..blank.clone()
                        });
                    }
                    barriers += 1;
                }
                Act::Branch(register) => branches.extend(holds[register]),
            }
            for (at, event) in events.iter().enumerate().skip(first) {
                if event.what == What::Write {
                    depends.extend(branches.iter().map(|&it| (it, at)));
                }
            }
        }
    }
    let count = events.len();
    let program = Relation::from(count, |a, b| {
        a < b && events[a].thread.is_some() && events[a].thread == events[b].thread
    });
    depends.extend(updates.iter().copied());
    Candidate {
        program,
        depends: Relation::from(count, |a, b| depends.contains(&(a, b))),
        updates: Relation::from(count, |a, b| updates.contains(&(a, b))),
        events,
    }
}

/// All orders of a list.
fn permutations(list: &[usize]) -> Vec<Vec<usize>> {
    match list {
        [] => vec![Vec::new()],
        _ => (0..list.len())
            .flat_map(|at| {
                let mut rest = list.to_vec();
                let first = rest.remove(at);
                let with = permutations(&rest).into_iter();
                with.map(move |mut order| {
                    order.insert(0, first);
                    order
                })
            })
            .collect(),
    }
}

/// Every choice of one of each list.
fn products<T: Clone>(lists: &[Vec<T>]) -> Vec<Vec<T>> {
    lists.iter().fold(vec![Vec::new()], |all, list| {
        let longer = |chosen: Vec<T>| {
            list.iter()
                .map(move |it| [chosen.clone(), vec![it.clone()]].concat())
        };
        all.into_iter().flat_map(longer).collect()
    })
}

/// What a test may leave, if all axioms hold but one.
pub fn results(test: &Litmus, without: Option<Axiom>) -> BTreeSet<Result> {
    let candidate = events_of(test);
    let events = &candidate.events;
    let count = events.len();
    let is = |at: usize, what: What| events[at].what == what;
    let reads: Vec<usize> = (0..count).filter(|&at| is(at, What::Read)).collect();
    let writes_of = |place: usize| -> Vec<usize> {
        let here = |&at: &usize| is(at, What::Write) && events[at].place == place;
        (0..count).filter(here).collect()
    };
    let access = |at: usize| is(at, What::Read) || is(at, What::Write);
    let strong = Relation::from(count, |a, b| {
        let mutual = match (events[a].thread, events[b].thread) {
            (Some(s), Some(t)) => {
                let (x, y) = (events[a].words, events[b].words);
                s == t
                    || !x.order.is_empty()
                        && !y.order.is_empty()
                        && test.includes(x.scope, s, t)
                        && test.includes(y.scope, t, s)
            }
            _ => false,
        };
        let same = !access(a) || !access(b) || events[a].place == events[b].place;
        a != b && mutual && same
    });
    let fences: Vec<usize> = (0..count)
        .filter(|&at| is(at, What::Fence) && events[at].words.order == "sc")
        .collect();
    let sources: Vec<Vec<usize>> = reads
        .iter()
        .map(|&at| writes_of(events[at].place))
        .collect();
    let mut all = BTreeSet::new();
    for chosen in products(&sources) {
        let reads_from = Relation::from(count, |w, r| {
            let at = reads.iter().position(|&it| it == r);
            at.is_some_and(|at| chosen[at] == w)
        });
        let holds = reads_from.union(&candidate.depends).is_acyclic();
        if !holds && without != Some(Axiom::NoThinAir) {
            continue;
        }
        let Some(value) = values(&candidate, &reads, &chosen) else {
            continue;
        };
        for order in permutations(&fences) {
            let rank = |at: usize| order.iter().position(|&it| it == at);
            let fence_sc = Relation::from(count, |a, b| {
                rank(a).is_some() && rank(b).is_some() && rank(a) < rank(b) && strong.has(a, b)
            });
            let given = (&strong, &reads_from, &fence_sc);
            let Some(causality) = causality(test, &candidate, given, without) else {
                continue;
            };
            let by_place: Vec<Vec<Vec<usize>>> = (0..PLACES)
                .map(|place| permutations(&writes_of(place)[1..]))
                .collect();
            for orders in products(&by_place) {
                let given = (&strong, &causality, &reads_from);
                let allowed = coherence(&candidate, given, &orders, without)
                    .filter(|it| is_allowed(&candidate, given, it, without));
                let Some(coherence) = allowed else { continue };
                let mut registers = [0; REGISTERS];
                for &at in &reads {
                    if let Some(register) = events[at].register {
                        registers[register] = value[at];
                    }
                }
                let last: Vec<Vec<u32>> = (0..PLACES)
                    .map(|place| {
                        let here = writes_of(place);
                        let none_behind = |&&w: &&usize| !here.iter().any(|&o| coherence.has(w, o));
                        here.iter().filter(none_behind).map(|&w| value[w]).collect()
                    })
                    .collect();
                for places in products(&last) {
                    all.insert((registers, [places[0], places[1], places[2]]));
                }
            }
        }
    }
    all
}

/// The value of every access; those that depend on themselves are 42, if that agrees with what they depend on.
fn values(candidate: &Candidate, reads: &[usize], chosen: &[usize]) -> Option<Vec<u32>> {
    let events = &candidate.events;
    let mut value: Vec<Option<u32>> = vec![None; events.len()];
    let of = |at: usize, value: &[Option<u32>]| match events[at].what {
        What::Write => match events[at].from {
            None => Some(events[at].value),
            Some(read) => value[read].map(|it| it.wrapping_add(events[at].value)),
        },
        What::Read => {
            let place = reads.iter().position(|&it| it == at);
            place.and_then(|place| value[chosen[place]])
        }
        _ => Some(0),
    };
    loop {
        let mut changed = false;
        for at in 0..events.len() {
            if value[at].is_none() {
                value[at] = of(at, &value);
                changed |= value[at].is_some();
            }
        }
        match value.iter().position(Option::is_none) {
            None => break,
            Some(at) if !changed => value[at] = Some(42),
            Some(_) => {}
        }
    }
    let agrees = (0..events.len()).all(|at| of(at, &value) == value[at]);
    agrees.then(|| value.into_iter().map(Option::unwrap_or_default).collect())
}

/// Causality order, if it is an order and Fence-SC holds.
fn causality(
    test: &Litmus,
    candidate: &Candidate,
    (strong, reads_from, fence_sc): (&Relation, &Relation, &Relation),
    without: Option<Axiom>,
) -> Option<Relation> {
    let events = &candidate.events;
    let count = events.len();
    let direct = strong.and(reads_from);
    // Observation: a strong read, through any number of updates.
    let through = direct.then(&candidate.updates).closure();
    let observation = direct.union(&through.then(&direct));
    let releases = |at: usize| matches!(events[at].words.order, "release" | "acq_rel" | "sc");
    let acquires = |at: usize| matches!(events[at].words.order, "acquire" | "acq_rel" | "sc");
    let is = |at: usize, what: What| events[at].what == what;
    let is_strong = |at: usize| !events[at].words.order.is_empty();
    let same = |a: usize, b: usize| events[a].place == events[b].place;
    let behind = |a: usize, b: usize| candidate.program.has(a, b);
    let release = Relation::from(count, |first, write| {
        is(write, What::Write)
            && is_strong(write)
            && releases(first)
            && (first == write && is(first, What::Write)
                || behind(first, write)
                    && (is(first, What::Fence) || is(first, What::Write) && same(first, write)))
    });
    let acquire = Relation::from(count, |read, last| {
        is(read, What::Read)
            && is_strong(read)
            && events[read].seen
            && acquires(last)
            && (read == last
                || behind(read, last)
                    && (is(last, What::Fence) || is(last, What::Read) && same(read, last)))
    });
    let synchronises = release.then(&observation).then(&acquire).and(strong);
    let meets = Relation::from(count, |a, b| match (events[a].what, events[b].what) {
        (What::Arrive(x), What::Leave(y)) => {
            let ctas = [a, b].map(|it| events[it].thread.map(|it| test.cta(it)));
            x == y && ctas[0] == ctas[1]
        }
        _ => false,
    });
    let before = Relation::from(count, |a, b| {
        events[a].thread.is_none() && events[b].thread.is_some()
    });
    let base = candidate
        .program
        .union(&synchronises)
        .union(fence_sc)
        .union(&meets)
        .union(&before)
        .closure();
    let causality = base.union(&observation.then(&base));
    let sc = base.is_irreflexive() && fence_sc.then(&causality).is_irreflexive();
    (sc || without == Some(Axiom::FenceSc)).then_some(causality)
}

/// Coherence order, given an order of the writes of each place, if Coherence holds.
fn coherence(
    candidate: &Candidate,
    (strong, causality, _): (&Relation, &Relation, &Relation),
    orders: &[Vec<usize>],
    without: Option<Axiom>,
) -> Option<Relation> {
    let events = &candidate.events;
    let writes = |a: usize, b: usize| {
        let both = events[a].what == What::Write && events[b].what == What::Write;
        both && a != b && events[a].place == events[b].place
    };
    let rank = |at: usize| orders[events[at].place].iter().position(|&it| it == at);
    let order = Relation::from(events.len(), |a, b| {
        let chosen = strong.has(a, b) && rank(a) < rank(b);
        let caused = causality.has(a, b) && without != Some(Axiom::Coherence);
        writes(a, b) && (events[a].thread.is_none() || chosen || caused)
    })
    .closure();
    order.is_irreflexive().then_some(order)
}

/// Atomicity, Sequential Consistency per Location, Causality.
fn is_allowed(
    candidate: &Candidate,
    (strong, causality, reads_from): (&Relation, &Relation, &Relation),
    coherence: &Relation,
    without: Option<Axiom>,
) -> bool {
    let events = &candidate.events;
    let from_reads = reads_from.inverse().then(coherence);
    let between = strong.and(&from_reads).then(&strong.and(coherence));
    let atomic = between
        .and(&candidate.updates)
        .0
        .iter()
        .all(|&row| row == 0);
    let access = |at: usize| matches!(events[at].what, What::Read | What::Write);
    let by_place = Relation::from(events.len(), |a, b| {
        candidate.program.has(a, b) && access(a) && access(b) && events[a].place == events[b].place
    });
    let communication = reads_from.union(coherence).union(&from_reads);
    let per_place = strong.and(&communication).union(&by_place).is_acyclic();
    let causal = reads_from
        .union(&from_reads)
        .then(causality)
        .is_irreflexive();
    [
        (atomic, Axiom::Atomicity),
        (per_place, Axiom::PerLocation),
        (causal, Axiom::Causality),
    ]
    .into_iter()
    .all(|(holds, axiom)| holds || without == Some(axiom))
}
