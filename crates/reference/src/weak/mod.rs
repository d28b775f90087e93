//! Weak memory: executions of a launch that the PTX memory model allows, one at random or all of them.
//!
//! # How an execution is found
//! Threads run ahead as far as they can. A load yields nothing yet: it becomes an *open* read of the [`graph::Graph`], and what computes with its result waits
//! with it (`thread/ahead.rs`), while independent instructions behind it go on; only a branch, a guard, a call and the like hold a thread up. So when nobody can go on, every
//! write stands in the graph that depends on nothing open. Then one open read gets its value: that of any write in the graph, or what was there
//! before, as far as the axioms allow. This goes on until all threads have ended. The order of writes in memory and of `fence.sc` is chosen when they enter the graph.
//!
//! A value comes out only if it was chosen after the write it comes from, and that write after what it depends on. That is the axiom *No Thin
//! Air*, with dependencies by registers, guards and branches; the other axioms are asked after each choice. Each allowed execution has an order of its reads and writes in which none comes before what it
//! depends on or reads from, so each is found, by whichever of its choices is possible first.
//!
//! # All of them
//! [`Choices`] records which of how many alternatives was taken at each choice; the next run takes the last one that is not
//! exhausted differently (depth-first search, stateless). Different orders of choices lead to equal graphs: each graph is gone on
//! from once. A read to which no later write can go is chosen alone; only where none is like that, the search tries every open read.

mod bits;
mod choices;
mod explore;
mod graph;

pub(crate) use choices::Choices;
pub use explore::{Exploration, Exploring};
pub(crate) use graph::{Event, Graph, Id, Kind};

use crate::error::FaultKind;
use crate::memory::Memory;
use crate::order::{Actor, Meeting, Place, Strength};
use crate::races::{Access, unordered};
use orias_ptx::Span;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Events of an execution at most: the axioms are asked anew after each choice, which takes the cube of it.
const MOST_EVENTS: usize = 1024;

/// Alternatives of one read at most, where it takes its bytes from several writes.
const MOST_MIXTURES: usize = 256;

/// Why a run ends without an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeadEnd {
    /// No alternative is allowed.
    Forbidden,
    /// The search has been here.
    Known,
}

/// Writes that a thread may still make before it gets the value of an open read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prospect {
    /// At that place.
    Place(Place),
    /// Anywhere: its address is open, or what comes at all.
    Anywhere,
}

/// Memory of a launch that is explored.
pub(crate) struct Weak {
    pub graph: Graph,
    pub choices: Choices,
    pub dead_end: Option<DeadEnd>,
    /// What each thread may still write; threads that have not stopped for an open read are not here.
    pub prospects: HashMap<u32, Vec<Prospect>>,
    /// Goes up whenever something happened.
    pub progress: u64,
    /// Phases that each mbarrier has completed.
    phases: HashMap<Place, u64>,
    meetings: u32,
}

impl Weak {
    pub fn new(choices: Choices) -> Self {
        Self {
            graph: Graph::default(),
            choices,
            dead_end: None,
            prospects: HashMap::new(),
            progress: 0,
            phases: HashMap::new(),
            meetings: 0,
        }
    }

    /// Adds an event and, where it writes or is a `fence.sc`, chooses its place among others.
    pub fn add(&mut self, event: Event) -> Result<Id, FaultKind> {
        if self.graph.events.len() >= MOST_EVENTS {
            return Err(FaultKind::Unsupported(format!(
                "an execution of more than {MOST_EVENTS} accesses, fences and barriers, with weak memory"
            )));
        }
        self.progress += 1;
        let (writes, sc) = (event.kind == Kind::Write, event.is_sc());
        let id = self.graph.add(event);
        if writes {
            let places = self.slots(id, &self.graph.writes);
            let allowed = self.allowed(places, |graph, &at| graph.writes.insert(at, id));
            let at = self.take(&allowed)?;
            self.graph.writes.insert(at, id);
        } else if sc {
            let places = self.slots(id, &self.graph.fences);
            let allowed = self.allowed(places, |graph, &at| graph.fences.insert(at, id));
            let at = self.take(&allowed)?;
            self.graph.fences.insert(at, id);
        } else if !self.graph.is_allowed() {
            return Err(self.stop(DeadEnd::Forbidden));
        }
        Ok(id)
    }

    /// Places in a list that differ for `id`: before each one that is morally strong relative to it, and at the end.
    fn slots(&self, id: Id, list: &[Id]) -> Vec<usize> {
        let strong = |&at: &usize| self.graph.morally_strong(list[at], id);
        let before = (0..list.len()).filter(strong);
        before.chain([list.len()]).collect()
    }

    /// Those alternatives that the model allows once they are made.
    fn allowed<T>(&self, alternatives: Vec<T>, make: impl Fn(&mut Graph, &T)) -> Vec<T> {
        let is_allowed = |alternative: &T| {
            let mut graph = self.graph.clone();
            make(&mut graph, alternative);
            graph.is_allowed()
        };
        alternatives.into_iter().filter(is_allowed).collect()
    }

    /// Chooses.
    fn take<T: Clone>(&mut self, alternatives: &[T]) -> Result<T, FaultKind> {
        match alternatives {
            [] => Err(self.stop(DeadEnd::Forbidden)),
            [only] => Ok(only.clone()),
            _ => {
                let known = self.choices.wants_state() && {
                    let state = self.state();
                    !self.choices.is_new(state)
                };
                if known {
                    return Err(self.stop(DeadEnd::Known));
                }
                Ok(alternatives[self.choices.among(alternatives.len())].clone())
            }
        }
    }

    /// Ends the run.
    fn stop(&mut self, why: DeadEnd) -> FaultKind {
        self.dead_end = Some(why);
        FaultKind::Undefined("no execution goes on from here".to_owned())
    }

    pub fn has_open_reads(&self) -> bool {
        self.graph.events.iter().any(Event::is_open)
    }

    /// Gives one open read its value.
    pub fn settle(&mut self) -> Result<(), FaultKind> {
        self.progress += 1;
        let events = self.graph.events.iter().enumerate();
        let open: Vec<Id> = events
            .filter(|(_, it)| it.is_open())
            .map(|it| it.0)
            .collect();
        let alone = open.iter().copied().find(|&id| !self.may_change(id));
        let among = match alone {
            Some(id) => vec![id],
            None => self.choices.narrow(open, &self.graph),
        };
        let mut alternatives = Vec::new();
        for id in among {
            for sources in self.sources(id) {
                match self.graph.events[id].kind {
                    Kind::Update { .. } => {
                        let slots = self.slots(id, &self.graph.writes);
                        let with = |at| (id, sources.clone(), Some(at));
                        alternatives.extend(slots.into_iter().map(with));
                    }
                    _ => alternatives.push((id, sources, None)),
                }
            }
        }
        let make = |graph: &mut Graph, (id, sources, at): &(Id, Vec<Option<Id>>, Option<usize>)| {
            graph.events[*id].sources.clone_from(sources);
            if let Some(at) = at {
                graph.writes.insert(*at, *id);
            }
        };
        let allowed = self.allowed(alternatives, make);
        let chosen = self.take(&allowed)?;
        make(&mut self.graph, &chosen);
        Ok(())
    }

    /// Whether a write that is still to come may be what a read gets.
    fn may_change(&self, id: Id) -> bool {
        let place = self.graph.events[id].place;
        let prospects = self.prospects.values().flatten();
        let mut updates = self.graph.events.iter().enumerate();
        updates.any(|(other, it)| {
            other != id && it.writes() && it.value.is_none() && it.place.overlaps(place)
        }) || prospects.into_iter().any(|prospect| match prospect {
            Prospect::Place(other) => other.overlaps(place),
            Prospect::Anywhere => true,
        })
    }

    /// From where the bytes of a read may come: one write for all, or, where writes of other sizes overlap it, mixtures.
    fn sources(&self, id: Id) -> Vec<Vec<Option<Id>>> {
        let place = self.graph.events[id].place;
        let events = self.graph.events.iter().enumerate();
        let writes: Vec<Id> = events
            .filter(|(at, it)| *at != id && it.writes() && it.value.is_some())
            .filter(|(_, it)| it.place.overlaps(place))
            .map(|(at, _)| at)
            .collect();
        let of = |byte: u32| {
            let here = writes.iter().copied();
            let here = here.filter(|&at| place.lies_in(byte, self.graph.events[at].place));
            here.map(Some).chain([None]).collect::<Vec<_>>()
        };
        let whole = writes
            .iter()
            .all(|&at| self.graph.events[at].place == place);
        if whole {
            let alike = |source| vec![source; place.bytes as usize];
            return of(0).into_iter().map(alike).collect();
        }
        let mut mixtures = vec![Vec::new()];
        for byte in 0..place.bytes {
            let mut longer = Vec::new();
            for mixture in &mixtures {
                for source in of(byte) {
                    let mut mixture: Vec<Option<Id>> = mixture.clone();
                    mixture.push(source);
                    longer.push(mixture);
                }
            }
            longer.truncate(MOST_MIXTURES);
            mixtures = longer;
        }
        mixtures
    }

    /// A thread arrives at a meeting, or goes on from it.
    pub fn meet(
        &mut self,
        actor: Actor,
        at: u32,
        kind: Kind,
        strength: Option<Strength>,
        span: Span,
    ) -> Result<(), FaultKind> {
        let place = Place {
            region: 0,
            start: 0,
            bytes: 0,
        };
        let event = Event {
            actor,
            at,
            kind,
            strength,
            place,
            sources: Vec::new(),
            value: None,
            span,
        };
        self.add(event).map(|_| ())
    }

    /// A number for a meeting of a warp.
    pub fn next_meeting(&mut self) -> Meeting {
        self.meetings += 1;
        Meeting::Warp(self.meetings)
    }

    /// Phases that an mbarrier has completed.
    pub fn phase(&self, place: Place) -> u64 {
        self.phases.get(&place).copied().unwrap_or(0)
    }

    pub fn complete_phase(&mut self, place: Place) {
        *self.phases.entry(place).or_default() += 1;
    }

    /// The graph and its choices, whatever order they were made in.
    fn state(&self) -> u128 {
        let name = |id: Id| {
            let event = &self.graph.events[id];
            let place = event.place;
            let kind = matches!(event.kind, Kind::Departure(_));
            (
                event.actor.thread,
                event.at,
                kind,
                place.region,
                place.start,
                place.bytes,
            )
        };
        let mut named: Vec<_> = (0..self.graph.events.len())
            .map(|id| {
                let event = &self.graph.events[id];
                let sources = event.sources.iter().map(|it| it.map(name));
                (name(id), event.value, sources.collect::<Vec<_>>())
            })
            .collect();
        named.sort_unstable();
        let mut pairs = Vec::new();
        for list in [&self.graph.writes, &self.graph.fences] {
            for (at, &first) in list.iter().enumerate() {
                let later = list[at + 1..].iter();
                let strong = later.filter(|&&second| self.graph.morally_strong(first, second));
                pairs.extend(strong.map(|&second| (name(first), name(second))));
            }
        }
        pairs.sort_unstable();
        let half = |seed: u64| {
            let mut hasher = DefaultHasher::new();
            (seed, &named, &pairs).hash(&mut hasher);
            hasher.finish()
        };
        u128::from(half(1)) << 64 | u128::from(half(2))
    }

    /// Writes to memory what is left in the end. Where racing writes left it open, that is chosen.
    pub fn leave(&mut self, memory: &mut Memory) -> Result<(), FaultKind> {
        let Some(relations) = self.graph.relations() else {
            return Err(self.stop(DeadEnd::Forbidden));
        };
        let mut bytes: Vec<Place> = Vec::new();
        for &id in &self.graph.writes {
            let place = self.graph.events[id].place;
            if place.region == 0 {
                let each = (place.start..place.end()).map(|start| Place {
                    region: 0,
                    start,
                    bytes: 1,
                });
                bytes.extend(each);
            }
        }
        bytes.sort_unstable_by_key(|it| it.start);
        bytes.dedup();
        // Bytes of one access come from one write.
        let mut last: Option<(Vec<Id>, Id)> = None;
        for byte in bytes {
            let candidates = self.graph.last_writes(byte, &relations);
            let id = match &last {
                Some((before, id)) if *before == candidates => *id,
                _ => {
                    let id = match candidates[..] {
                        [only] => only,
                        _ => candidates[self.choices.among(candidates.len())],
                    };
                    last = Some((candidates, id));
                    id
                }
            };
            let event = &self.graph.events[id];
            let value = event.value.unwrap_or(0).to_le_bytes();
            let at = (byte.start - event.place.start) as usize;
            memory.write(byte.start, &value[at..=at])?;
        }
        Ok(())
    }

    /// Data races, each pair of places in the program once.
    pub fn races(&self) -> Vec<(Access, Access)> {
        let Some(relations) = self.graph.relations() else {
            return Vec::new();
        };
        let access = |id: Id| {
            let event = &self.graph.events[id];
            Access {
                actor: event.actor,
                place: event.place,
                strength: event.strength,
                reads: event.reads(),
                writes: event.writes(),
                seen: true,
                span: event.span,
            }
        };
        let mut reported = HashSet::new();
        let pairs = self.graph.races(&relations).into_iter();
        pairs
            .map(|(first, second)| (access(first), access(second)))
            .filter(|(first, second)| reported.insert(unordered(first.span, second.span)))
            .collect()
    }
}
