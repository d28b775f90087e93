//! Targets and sets of them.

use std::fmt;

/// A target the tables describe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Target {
    /// Hopper.
    Sm90,
    /// Hopper with the features that only it has (wgmma and friends).
    Sm90a,
}

impl Target {
    /// Every target, in order.
    pub const ALL: [Target; 2] = [Target::Sm90, Target::Sm90a];

    /// `sm_90`, `sm_90a`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Target::Sm90 => "sm_90",
            Target::Sm90a => "sm_90a",
        }
    }

    /// The target called `name` (`sm_90a`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of targets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TargetSet(pub(crate) u32);

impl TargetSet {
    /// Whether `target` is a member.
    #[inline]
    #[must_use]
    pub const fn contains(self, target: Target) -> bool {
        self.0 >> target as u8 & 1 == 1
    }
}
