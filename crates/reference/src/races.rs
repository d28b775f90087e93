//! Data races of a run in which every access happens at once.
//!
//! Two accesses of different threads *race* if they overlap, one of them writes, they are not morally strong, and neither comes before the other in
//! causality order. What comes before what is known by vector clocks: a thread counts its releases and arrivals, and knows of each other thread
//! up to which of its counts it has heard (Lamport 1978; Flanagan and Freund, "FastTrack", 2009). A write keeps what its release patterns tell,
//! a strong read that sees it hears of it at once or at the next acquiring fence. Memory keeps, for each word, the accesses that later ones may race with.
//!
//! The copies of a thread (`cp.async`) are accesses of another thread, its *copier*: it hears what the thread knew when it began them, and who waits for their
//! group, or for the mbarrier that they arrive at, hears of them. Its bulk copies have a copier of their own. A copier's copies are not compared with each other, and who hears of one
//! counts as having heard of those that were begun before. The places of tensor copies, and matrix loads and stores, are not looked at.

use crate::order::{Actor, Meeting, Place, Strength, mutual};
use orias_ptx::Span;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// Accesses kept of a word; the oldest goes where there are more.
const KEPT: usize = 64;

/// Bytes of a word.
const WORD: u64 = 4;

/// What a thread has heard of others: up to which of their counts.
type Heard = Rc<HashMap<u32, u32>>;

/// What somebody tells: what it has heard, and its own count.
#[derive(Clone, Debug)]
struct News {
    actor: Actor,
    heard: Heard,
    count: u32,
}

#[derive(Clone, Debug, Default)]
struct Listener {
    heard: Heard,
    /// Its own count, from 1.
    count: u32,
    /// What its releasing fences told, of which later writes are to tell: scope and news.
    fences: Vec<(Strength, News)>,
    /// What it read of and may hear at a fence.
    pending: Vec<(Place, Strength, News)>,
}

impl Listener {
    fn knows(&self, actor: Actor, count: u32) -> bool {
        self.heard
            .get(&actor.thread)
            .is_some_and(|&heard| heard >= count)
    }

    fn hear(&mut self, news: &News) {
        if !Rc::ptr_eq(&self.heard, &news.heard) {
            let fresh = |(thread, count): (&u32, &u32)| {
                (self.heard.get(thread) < Some(count)).then_some((*thread, *count))
            };
            let more: Vec<(u32, u32)> = news.heard.iter().filter_map(fresh).collect();
            if !more.is_empty() {
                Rc::make_mut(&mut self.heard).extend(more);
            }
        }
        if !self.knows(news.actor, news.count) {
            Rc::make_mut(&mut self.heard).insert(news.actor.thread, news.count);
        }
    }

    /// What the thread tells now; what it does from here on is not part of it.
    fn tell(&mut self, actor: Actor) -> News {
        self.count += 1;
        News {
            actor,
            heard: self.heard.clone(),
            count: self.count,
        }
    }
}

/// An access that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub actor: Actor,
    pub place: Place,
    pub strength: Option<Strength>,
    pub reads: bool,
    pub writes: bool,
    /// Whether what is read can be acquired by: not what `red` reads.
    pub seen: bool,
    pub span: Span,
}

/// What the last write of a place tells.
#[derive(Clone, Debug)]
struct Told {
    actor: Actor,
    strength: Option<Strength>,
    news: Vec<(Strength, News)>,
}

/// Looks for races.
#[derive(Debug, Default)]
pub(crate) struct Races {
    listeners: HashMap<u32, Listener>,
    /// Accesses of each word, with the count that who hears of it comes after.
    words: HashMap<(u32, u64), Vec<(Access, u32)>>,
    told: HashMap<Place, Told>,
    meetings: HashMap<Meeting, Vec<News>>,
    sc: BTreeMap<(u32, u32), (Strength, Vec<News>)>,
    phases: HashMap<Place, u64>,
    next_warp: u32,
    /// Pairs of places in the program, each once.
    reported: HashSet<(Span, Span)>,
    pub found: Vec<(Access, Access)>,
}

impl Races {
    /// An access happens.
    pub fn access(&mut self, access: Access) {
        self.compare(&access);
        let Access {
            actor,
            place,
            strength,
            ..
        } = access;
        let listener = self.listeners.entry(actor.thread).or_default();
        let mut carried = Vec::new();
        if access.reads
            && let Some(told) = self.told.get(&place)
        {
            let observed = told.actor.thread == actor.thread
                || mutual((told.actor, told.strength), (actor, strength));
            if observed && let Some(own) = strength {
                carried.clone_from(&told.news);
                if access.seen {
                    let pending = told.news.iter().cloned();
                    let pending = pending.map(|(strength, news)| (place, strength, news));
                    listener.pending.extend(pending);
                    if own.order.acquires() {
                        listener.acquire(actor, own, Some(place));
                    }
                }
            }
        }
        if access.writes {
            let mut news = if access.reads { carried } else { Vec::new() };
            if let Some(own) = strength {
                // A release on this place makes every strong write behind it one.
                if let Some(told) = self.told.get(&place)
                    && told.actor.thread == actor.thread
                {
                    let own_news = told.news.iter();
                    let own_news = own_news.filter(|(_, it)| it.actor.thread == actor.thread);
                    news.extend(own_news.cloned());
                }
                news.extend(listener.fences.iter().cloned());
                if own.order.releases() {
                    news.push((own, listener.tell(actor)));
                }
            }
            let told = Told {
                actor,
                strength,
                news,
            };
            forget_overlapping(&mut self.told, place);
            self.told.insert(place, told);
        }
    }

    /// Compares an access with those before, and keeps it for those behind.
    fn compare(&mut self, access: &Access) {
        let listener = self.listeners.entry(access.actor.thread).or_default();
        let count = listener.count + 1;
        let place = access.place;
        for word in place.start / WORD..place.end().div_ceil(WORD) {
            let kept = self.words.entry((place.region, word)).or_default();
            for (other, count) in kept.iter() {
                let conflict = other.actor.thread != access.actor.thread
                    && (other.writes || access.writes)
                    && other.place.overlaps(place);
                let strong = other.place == place
                    && mutual(
                        (other.actor, other.strength),
                        (access.actor, access.strength),
                    );
                if conflict
                    && !strong
                    && !listener.knows(other.actor, *count)
                    && self.reported.insert(unordered(other.span, access.span))
                {
                    self.found.push((*other, *access));
                }
            }
            // What this one comes after is not needed where this one is as easy to race with.
            kept.retain(|(other, count)| {
                let after = other.actor.thread == access.actor.thread
                    || listener.knows(other.actor, *count);
                let covered = (access.writes || !other.writes)
                    && other.place == place
                    && (access.strength.is_none() || access.strength == other.strength);
                !(after && covered)
            });
            if kept.len() >= KEPT {
                kept.remove(0);
            }
            kept.push((*access, count));
        }
    }

    /// A thread begins a copy of those places, to be read or written; the count that who has waited for it has heard of its copier.
    pub fn copy(
        &mut self,
        actor: Actor,
        engine: CopyEngine,
        accesses: &[(Place, bool)],
        span: Span,
    ) -> u32 {
        let news = self.listeners.entry(actor.thread).or_default().tell(actor);
        let copier = copier(actor, engine);
        self.listeners.entry(copier.thread).or_default().hear(&news);
        for &(place, writes) in accesses {
            self.access(Access {
                actor: copier,
                place,
                strength: None,
                reads: !writes,
                writes,
                seen: false,
                span,
            });
        }
        let listener = self.listeners.entry(copier.thread).or_default();
        listener.tell(copier).count
    }

    /// A thread has waited for its copies up to that count.
    pub fn finish_copies(&mut self, actor: Actor, engine: CopyEngine, count: u32) {
        let news = self.news_of_copies(actor, engine, count);
        let listener = self.listeners.entry(actor.thread).or_default();
        listener.hear(&news);
    }

    /// The copies of a thread up to that count arrive at a meeting.
    pub fn arrive_with_copies(
        &mut self,
        actor: Actor,
        engine: CopyEngine,
        count: u32,
        meeting: Meeting,
    ) {
        let news = self.news_of_copies(actor, engine, count);
        self.meetings.entry(meeting).or_default().push(news);
    }

    fn news_of_copies(&self, actor: Actor, engine: CopyEngine, count: u32) -> News {
        let copier = copier(actor, engine);
        let heard = self.listeners.get(&copier.thread).map(|it| &it.heard);
        News {
            actor: copier,
            heard: heard.cloned().unwrap_or_default(),
            count,
        }
    }

    pub fn fence(&mut self, actor: Actor, strength: Strength) {
        let sc = strength.order == crate::order::Order::SequentiallyConsistent;
        let listener = self.listeners.entry(actor.thread).or_default();
        if strength.order.acquires() {
            listener.acquire(actor, strength, None);
        }
        if sc {
            for (other, news) in self.sc.values() {
                for news in news {
                    if mutual((actor, Some(strength)), (news.actor, Some(*other))) {
                        listener.hear(news);
                    }
                }
            }
        }
        if strength.order.releases() {
            let news = listener.tell(actor);
            if sc {
                let key = (actor.thread, strength.scope as u32);
                self.sc.insert(key, (strength, vec![news.clone()]));
            }
            listener.fences.retain(|(it, _)| it.scope != strength.scope);
            listener.fences.push((strength, news));
        }
    }

    pub fn arrive(&mut self, actor: Actor, meeting: Meeting) {
        let news = self.listeners.entry(actor.thread).or_default().tell(actor);
        self.meetings.entry(meeting).or_default().push(news);
    }

    /// A thread goes on from a meeting.
    pub fn depart(&mut self, actor: Actor, meeting: Meeting) {
        let Some(all) = self.meetings.get_mut(&meeting) else {
            return;
        };
        // What all told together is told to each.
        if all.len() > 1 {
            let mut sum = Listener::default();
            for news in all.iter() {
                sum.hear(news);
            }
            let last = all[all.len() - 1].clone();
            *all = vec![News {
                heard: sum.heard,
                ..last
            }];
        }
        let listener = self.listeners.entry(actor.thread).or_default();
        if listener.heard.len() < all[0].heard.len() {
            // Usually it says all that the thread has heard, too: then both share it.
            let news = &all[0];
            let more = listener.heard.iter();
            let shared = more
                .filter(|(thread, _)| **thread != actor.thread)
                .all(|(thread, count)| news.heard.get(thread) >= Some(count));
            if shared {
                listener.heard = news.heard.clone();
            }
        }
        for news in all.iter() {
            listener.hear(news);
        }
    }

    /// A number for a meeting of a warp.
    pub fn next_meeting(&mut self) -> Meeting {
        self.next_warp += 1;
        Meeting::Warp(self.next_warp)
    }

    /// Phases that an mbarrier has completed.
    pub fn phase(&self, place: Place) -> u64 {
        self.phases.get(&place).copied().unwrap_or(0)
    }

    pub fn complete_phase(&mut self, place: Place) {
        *self.phases.entry(place).or_default() += 1;
    }
}

impl Listener {
    /// Hears what was read of, at that place or anywhere, from those that this operation has in mind and that have it in mind.
    fn acquire(&mut self, actor: Actor, strength: Strength, place: Option<Place>) {
        let pending = std::mem::take(&mut self.pending);
        for (at, other, news) in pending {
            if place.is_none_or(|place| place == at)
                && mutual((actor, Some(strength)), (news.actor, Some(other)))
            {
                self.hear(&news);
            } else {
                self.pending.push((at, other, news));
            }
        }
    }
}

/// What makes copies that happen later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyEngine {
    /// `cp.async`
    Thread,
    /// Bulk copies.
    Bulk,
}

/// Who makes the copies of a thread.
const fn copier(actor: Actor, engine: CopyEngine) -> Actor {
    let bit = match engine {
        CopyEngine::Thread => 31,
        CopyEngine::Bulk => 30,
    };
    Actor {
        thread: actor.thread | 1 << bit,
        ..actor
    }
}

/// Two places in the program, whichever came first.
pub(crate) fn unordered(a: Span, b: Span) -> (Span, Span) {
    if a.start <= b.start { (a, b) } else { (b, a) }
}

/// What is told at places that a write changes is told no more.
fn forget_overlapping(told: &mut HashMap<Place, Told>, place: Place) {
    // Accesses have 1, 2, 4, 8 or 16 bytes and are aligned.
    for bytes in [1, 2, 4, 8, 16u32] {
        let size = u64::from(bytes);
        for at in place.start / size..place.end().div_ceil(size) {
            let other = Place {
                region: place.region,
                start: at * size,
                bytes,
            };
            if other != place {
                told.remove(&other);
            }
        }
    }
}
