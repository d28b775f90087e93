//! What is known where lanes stand: the lattice, and how paths join in it.

use super::differing::Differing;
use super::frame::Frame;
use super::registers::RegisterSet;
use smallvec::SmallVec;

/// Which of a branch's successors lanes took: its number, or [`Arm::SEVERAL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arm(u16);

impl Arm {
    /// Lanes that took different ones: where this is so they may be apart.
    pub(super) const SEVERAL: Self = Self(u16::MAX);
    /// Lanes of a mask have gathered, whichever they took. Others may be elsewhere.
    const GATHERED: Self = Self(u16::MAX - 1);
    /// BREAK.
    pub(super) const LEFT: Self = Self(0);
    /// BSYNC, where others have left.
    pub(super) const MET: Self = Self(1);
    /// All of them: whoever took one has come through a place behind the branch, and none has come to the branch since.
    pub(super) const PASSED: Self = Self(u16::MAX - 2);

    pub(super) fn new(successor: usize) -> Self {
        Self(
            u16::try_from(successor)
                .unwrap_or(u16::MAX - 3)
                .min(u16::MAX - 3),
        )
    }

    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::PASSED, arm) | (arm, Self::PASSED) => arm,
            _ if self == other => self,
            _ => Self::SEVERAL,
        }
    }
}

/// What lanes parted by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Cause {
    /// The branch at the end of a block.
    Branch(u32),
    /// Some left the region that a BSSY opened, by BREAK, and others met at its BSYNC.
    Break(u32),
    /// The BRA.DIV at the end of a block found them apart.
    Found(u32),
    /// A WARPSYNC.EXCLUSIVE let those of each mask go on by themselves.
    Masks(u32),
}

/// Where lanes parted that have not met since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Divergence {
    pub cause: Cause,
    /// Where the lanes went that are here now.
    pub arm: Arm,
    /// Whether those that went different ways before they all came through one place may be here at different times.
    pub apart: bool,
    /// An instruction since then with which lanes let others go on that wait for them; [`NONE`] if there is none.
    pub yielded: u32,
    /// What was written since then, until all came through one place: different in lanes that took different arms.
    pub written: RegisterSet,
}

impl Divergence {
    /// Whether its lanes may be here at different times.
    pub(super) fn is_apart(&self) -> bool {
        self.apart || self.arm == Arm::SEVERAL
    }

    /// All its lanes come through this place, maybe at different times. From here on they go the same ways until they come to the branch again, and what they
    /// make of equal values is equal.
    pub(super) fn pass(&mut self) {
        if self.arm != Arm::GATHERED {
            self.apart = self.is_apart();
            self.arm = Arm::PASSED;
            self.written = RegisterSet::default();
        }
    }
}

/// Stands for no instruction.
pub(super) const NONE: u32 = u32::MAX;

/// A condition on one predicate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Literal {
    /// Its number as a register.
    pub predicate: u16,
    pub negated: bool,
}

/// One literal, or two that must both hold: a guard and a second predicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Condition {
    pub first: Literal,
    pub second: Option<Literal>,
}

impl Condition {
    fn names(self, predicate: u16) -> bool {
        let second = self
            .second
            .is_some_and(|second| second.predicate == predicate);
        self.first.predicate == predicate || second
    }

    /// Whether one holds if and only if the other does not.
    fn is_opposite(self, other: Self) -> bool {
        self.second.is_none()
            && other.second.is_none()
            && self.first.predicate == other.first.predicate
            && self.first.negated != other.first.negated
    }
}

/// A convergence barrier that is open on some path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Region {
    pub barrier: u8,
    /// The BSSYs that may have opened it, by number.
    pub sites: SmallVec<[u32; 2]>,
    /// Whether it is closed on some path.
    pub closed: bool,
    /// Whether nobody knows: it came back from a register that was not followed, or lanes left under a condition that is lost.
    pub unknown: bool,
    /// Lanes for which this holds have left.
    pub left_if: Option<Condition>,
    /// What its lanes parted by since it was opened and have not met since: without, all that opened it together are together.
    pub parted: SmallVec<[Cause; 2]>,
    /// What was written since it was opened.
    pub written: RegisterSet,
}

impl Region {
    pub(super) fn opened(barrier: u8, site: u32) -> Self {
        Self {
            barrier,
            sites: SmallVec::from_slice(&[site]),
            closed: false,
            unknown: false,
            left_if: None,
            parted: SmallVec::new(),
            written: RegisterSet::default(),
        }
    }

    pub(super) fn unknown(barrier: u8) -> Self {
        Self {
            barrier,
            sites: SmallVec::new(),
            closed: false,
            unknown: true,
            left_if: None,
            parted: SmallVec::new(),
            written: RegisterSet::default(),
        }
    }

    fn join(&mut self, other: &Self) -> bool {
        let size = |region: &Self| (region.sites.len(), region.parted.len());
        let before = (size(self), self.closed, self.unknown, self.left_if);
        other.parted.iter().for_each(|cause| self.part(*cause));
        let written = self.written.extend(&other.written);
        for site in &other.sites {
            if let Err(at) = self.sites.binary_search(site) {
                self.sites.insert(at, *site);
            }
        }
        self.closed |= other.closed;
        self.unknown |= other.unknown;
        if self.left_if != other.left_if {
            self.left_if = None;
            self.unknown = true;
        }
        written || before != (size(self), self.closed, self.unknown, self.left_if)
    }

    fn part(&mut self, cause: Cause) {
        if let Err(at) = self.parted.binary_search(&cause) {
            self.parted.insert(at, cause);
        }
    }
}

/// What is known before an instruction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct State {
    /// Registers in which lanes that run together may have different values.
    pub divergent: Differing,
    /// What the stack holds that lanes have in common.
    pub frame: Frame,
    /// By cause.
    pub divergences: SmallVec<[Divergence; 2]>,
    /// By barrier; one that is not here is closed on every path.
    pub regions: SmallVec<[Region; 2]>,
    /// Barriers kept in general registers, by register.
    pub saved: SmallVec<[(u16, Region); 1]>,
}

impl State {
    /// Adds what is known on another path; says whether anything changed.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut changed = self.divergent.join(&other.divergent);
        changed |= self.frame.join(&other.frame);
        changed |= self.join_divergences(&other.divergences);
        changed |= self.join_regions(&other.regions);
        for (register, region) in &other.saved {
            match self.saved.binary_search_by_key(register, |(r, _)| *r) {
                Ok(at) => changed |= self.saved[at].1.join(region),
                Err(at) => {
                    self.saved.insert(at, (*register, region.clone()));
                    changed = true;
                }
            }
        }
        changed
    }

    fn join_divergences(&mut self, other: &[Divergence]) -> bool {
        let mut changed = false;
        for theirs in other {
            let found = (self.divergences).binary_search_by_key(&theirs.cause, |p| p.cause);
            let at = match found {
                Ok(at) => {
                    let mine = &mut self.divergences[at];
                    let before = (mine.arm, mine.apart, mine.yielded);
                    mine.arm = mine.arm.join(theirs.arm);
                    mine.apart |= theirs.apart;
                    mine.yielded = mine.yielded.min(theirs.yielded);
                    changed |= mine.written.extend(&theirs.written);
                    changed |= before != (mine.arm, mine.apart, mine.yielded);
                    at
                }
                Err(at) => {
                    self.divergences.insert(at, *theirs);
                    changed = true;
                    at
                }
            };
            let joined = &self.divergences[at];
            if joined.arm == Arm::SEVERAL {
                changed |= self.divergent.extend(&joined.written);
            }
        }
        changed
    }

    fn join_regions(&mut self, other: &[Region]) -> bool {
        let mut changed = false;
        for mine in &mut self.regions {
            if !other.iter().any(|region| region.barrier == mine.barrier) {
                changed |= !mine.closed;
                mine.closed = true;
            }
        }
        for theirs in other {
            match (self.regions).binary_search_by_key(&theirs.barrier, |region| region.barrier) {
                Ok(at) => changed |= self.regions[at].join(theirs),
                Err(at) => {
                    self.regions.insert(at, theirs.clone());
                    self.regions[at].closed = true;
                    changed = true;
                }
            }
        }
        changed
    }

    /// Lanes part, and this is the state of those that take `arm`.
    pub(super) fn part(&mut self, cause: Cause, arm: Arm) {
        self.all_regions().for_each(|region| region.part(cause));
        match self.divergences.binary_search_by_key(&cause, |p| p.cause) {
            Ok(at) => {
                // Lanes have been here before: those that took another arm then are elsewhere.
                let divergence = &mut self.divergences[at];
                divergence.arm = match divergence.arm {
                    Arm::GATHERED => arm,
                    before => before.join(arm),
                };
                if divergence.arm == Arm::SEVERAL {
                    self.divergent.extend(&divergence.written);
                }
            }
            Err(at) => self.divergences.insert(
                at,
                Divergence {
                    cause,
                    arm,
                    apart: false,
                    yielded: NONE,
                    written: RegisterSet::default(),
                },
            ),
        }
    }

    /// Lanes that opened a region part: some left it and others meet.
    pub(super) fn part_region(&mut self, region: &Region, arm: Arm) {
        for &site in &region.sites {
            self.part(Cause::Break(site), arm);
            self.write_since(Cause::Break(site), &region.written);
        }
    }

    /// Registers were written since lanes parted, before they came here.
    fn write_since(&mut self, cause: Cause, written: &RegisterSet) {
        let divergence = self.divergences.iter_mut().find(|p| p.cause == cause);
        if let Some(divergence) = divergence {
            divergence.written.extend(written);
            if divergence.arm == Arm::SEVERAL {
                self.divergent.extend(&divergence.written);
            }
        }
    }

    /// Whether no lane that is elsewhere comes by another way: whoever parted before has come through one place since.
    pub(super) fn is_way_of_all(&self) -> bool {
        self.divergences
            .iter()
            .all(|divergence| divergence.arm == Arm::PASSED)
    }

    /// Registers are written.
    pub(super) fn write(&mut self, written: &RegisterSet) {
        let since = |p: &&mut Divergence| p.arm != Arm::PASSED;
        for divergence in self.divergences.iter_mut().filter(since) {
            divergence.written.extend(written);
        }
        self.all_regions().for_each(|region| {
            region.written.extend(written);
        });
    }

    /// Regions that are open or kept in a register.
    fn all_regions(&mut self) -> impl Iterator<Item = &mut Region> {
        let saved = self.saved.iter_mut().map(|(_, region)| region);
        self.regions.iter_mut().chain(saved)
    }

    /// All lanes that parted by `cause` come through this place.
    pub(super) fn pass(&mut self, passed: impl Fn(Cause) -> bool) {
        if self.divergences.is_empty() {
            return;
        }
        let divergences = self.divergences.iter_mut();
        divergences
            .filter(|p| passed(p.cause))
            .for_each(Divergence::pass);
        self.all_regions()
            .for_each(|region| region.parted.retain(|cause| !passed(*cause)));
    }

    /// Lanes of the divergences that `met` names have met.
    pub(super) fn end_all(&mut self, met: impl Fn(&Divergence) -> bool) {
        let over = |divergence: &Divergence| met(divergence).then_some(divergence.cause);
        let over: SmallVec<[Cause; 2]> = self.divergences.iter().filter_map(over).collect();
        self.divergences
            .retain(|divergence| !over.contains(&divergence.cause));
        self.all_regions()
            .for_each(|region| region.parted.retain(|cause| !over.contains(cause)));
    }

    /// All lanes of the warp that have not ended are here.
    pub(super) fn together(&mut self) {
        self.divergences.clear();
        self.all_regions().for_each(|region| region.parted.clear());
    }

    /// The lanes of a mask are here.
    pub(super) fn gather(&mut self) {
        for divergence in &mut self.divergences {
            divergence.arm = Arm::GATHERED;
            divergence.apart = false;
            divergence.yielded = NONE;
        }
    }

    /// The first divergence whose lanes may be here at different times.
    pub(super) fn apart(&self) -> Option<&Divergence> {
        self.divergences.iter().find(|p| p.is_apart())
    }

    pub(super) fn region(&self, barrier: u8) -> Option<&Region> {
        (self.regions.iter()).find(|region| region.barrier == barrier)
    }

    /// Puts a region in the place of what was known of its barrier.
    pub(super) fn set_region(&mut self, region: Region) {
        match (self.regions).binary_search_by_key(&region.barrier, |known| known.barrier) {
            Ok(at) => self.regions[at] = region,
            Err(at) => self.regions.insert(at, region),
        }
    }

    pub(super) fn close(&mut self, barrier: u8) -> Option<Region> {
        let at = (self.regions.iter()).position(|region| region.barrier == barrier)?;
        Some(self.regions.remove(at))
    }

    /// A condition holds or does not: the regions that these lanes have left because of that.
    pub(super) fn decide(&mut self, condition: Condition, holds: bool) -> SmallVec<[Region; 1]> {
        let mut left = SmallVec::new();
        self.regions.retain(|region| {
            let gone = match region.left_if {
                Some(known) if known == condition => holds,
                Some(known) if known.is_opposite(condition) => !holds,
                _ => return true,
            };
            region.left_if = None;
            if gone {
                left.push(region.clone());
            }
            !gone
        });
        left
    }

    /// A predicate has another value now.
    pub(super) fn forget_predicate(&mut self, predicate: u16) {
        for region in &mut self.regions {
            if region
                .left_if
                .is_some_and(|condition| condition.names(predicate))
            {
                region.left_if = None;
                region.unknown = true;
            }
        }
    }
}
