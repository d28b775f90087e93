//! Words of the PTX memory model: how strong an operation is, who makes it, and what memory it is about.

/// Which other threads an operation has in mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Cta,
    Cluster,
    /// The GPU or the system: all threads of a launch.
    Gpu,
}

/// What an operation orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
    SequentiallyConsistent,
}

impl Order {
    pub const fn releases(self) -> bool {
        !matches!(self, Self::Relaxed | Self::Acquire)
    }

    pub const fn acquires(self) -> bool {
        !matches!(self, Self::Relaxed | Self::Release)
    }
}

/// Order and scope of a *strong* operation; a weak access has neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strength {
    pub order: Order,
    pub scope: Scope,
}

/// A thread, and what it is part of; each with a number of its own in the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actor {
    pub thread: u32,
    pub cta: u32,
    pub cluster: u32,
}

impl Actor {
    /// Whether a scope, said by this thread, includes another.
    pub const fn includes(self, scope: Scope, other: Self) -> bool {
        match scope {
            Scope::Cta => self.cta == other.cta,
            Scope::Cluster => self.cluster == other.cluster,
            Scope::Gpu => true,
        }
    }
}

/// Bytes that several threads can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// 0 is global memory, `n + 1` shared memory of CTA `n`.
    pub region: u32,
    pub start: u64,
    pub bytes: u32,
}

impl Place {
    pub const fn end(self) -> u64 {
        self.start + self.bytes as u64
    }

    pub const fn overlaps(self, other: Self) -> bool {
        self.region == other.region && self.start < other.end() && other.start < self.end()
    }

    /// Whether a byte, by its number in this place, lies in another.
    pub const fn lies_in(self, byte: u32, other: Self) -> bool {
        let at = self.start + byte as u64;
        self.region == other.region && other.start <= at && at < other.end()
    }
}

/// Whether two strong operations have each other in mind.
pub(crate) fn mutual(a: (Actor, Option<Strength>), b: (Actor, Option<Strength>)) -> bool {
    match (a.1, b.1) {
        (Some(first), Some(second)) => {
            a.0.includes(first.scope, b.0) && b.0.includes(second.scope, a.0)
        }
        _ => false,
    }
}

/// Where threads meet, or where some arrive and others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meeting {
    /// One of the sixteen barriers of a CTA, for the time of that number.
    Barrier {
        cta: u32,
        number: u32,
        generation: u32,
    },
    /// `bar.warp.sync`, by a number of its own.
    Warp(u32),
    /// The barrier of a cluster.
    Cluster { cluster: u32, generation: u64 },
    /// A phase of an mbarrier.
    Mbarrier { place: Place, phase: u64 },
}
