//! What is known of memory beside its bytes.

use crate::memory::Memory;
use crate::order::{Actor, Meeting, Place};
use crate::races::{Access, Races};
use crate::weak::{Kind, Weak};
use crate::{FaultKind, order};
use orias_ptx::Span;

/// How accesses of different threads are looked at.
pub(crate) enum Model {
    /// Each happens at once; nothing is known of the others.
    Plain,
    /// The same, and races are looked for.
    Watched(Box<Races>),
    /// They happen in any way that the memory model allows.
    Weak(Box<Weak>),
}

impl Model {
    pub fn is_weak(&self) -> bool {
        matches!(self, Self::Weak(_))
    }

    /// A thread arrives at a meeting, at that place of its program.
    pub fn arrive(
        &mut self,
        actor: Actor,
        at: u32,
        meeting: Meeting,
        span: Span,
    ) -> Result<(), FaultKind> {
        match self {
            Self::Plain => {}
            Self::Watched(races) => races.arrive(actor, meeting),
            Self::Weak(weak) => weak.meet(actor, at, Kind::Arrival(meeting), None, span)?,
        }
        Ok(())
    }

    /// A thread goes on from a meeting.
    pub fn depart(
        &mut self,
        actor: Actor,
        at: u32,
        meeting: Meeting,
        span: Span,
    ) -> Result<(), FaultKind> {
        match self {
            Self::Plain => {}
            Self::Watched(races) => races.depart(actor, meeting),
            Self::Weak(weak) => weak.meet(actor, at, Kind::Departure(meeting), None, span)?,
        }
        Ok(())
    }

    pub fn fence(
        &mut self,
        actor: Actor,
        at: u32,
        strength: order::Strength,
        span: Span,
    ) -> Result<(), FaultKind> {
        match self {
            Self::Plain => {}
            Self::Watched(races) => races.fence(actor, strength),
            Self::Weak(weak) => weak.meet(actor, at, Kind::Fence, Some(strength), span)?,
        }
        Ok(())
    }

    /// The meeting of a warp that begins now.
    pub fn next_meeting(&mut self) -> Option<Meeting> {
        match self {
            Self::Plain => None,
            Self::Watched(races) => Some(races.next_meeting()),
            Self::Weak(weak) => Some(weak.next_meeting()),
        }
    }

    /// The meeting at an mbarrier in its current phase, or in the one before.
    pub fn mbarrier(&self, place: Place, over: bool) -> Option<Meeting> {
        let phase = match self {
            Self::Plain => return None,
            Self::Watched(races) => races.phase(place),
            Self::Weak(weak) => weak.phase(place),
        };
        let phase = phase.wrapping_sub(over.into());
        Some(Meeting::Mbarrier { place, phase })
    }

    /// Goes up when something happened to weak memory.
    pub fn progress(&self) -> u64 {
        match self {
            Self::Weak(weak) => weak.progress,
            _ => 0,
        }
    }

    /// Gives a load its value, where threads wait for that.
    pub fn settle(&mut self) -> Result<(), FaultKind> {
        match self {
            Self::Weak(weak) if weak.has_open_reads() => weak.settle(),
            _ => Ok(()),
        }
    }

    /// Ends a run: what weak memory holds is written to memory, and races are told.
    pub fn leave(&mut self, memory: &mut Memory) -> Result<Vec<(Access, Access)>, FaultKind> {
        match self {
            Self::Plain => Ok(Vec::new()),
            Self::Watched(races) => Ok(std::mem::take(&mut races.found)),
            Self::Weak(weak) => {
                weak.leave(memory)?;
                Ok(weak.races())
            }
        }
    }

    pub fn complete_phase(&mut self, place: Place) {
        match self {
            Self::Plain => {}
            Self::Watched(races) => races.complete_phase(place),
            Self::Weak(weak) => weak.complete_phase(place),
        }
    }
}
