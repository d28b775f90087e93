//! Targets and sets of them.

use std::fmt;

include!(concat!(env!("OUT_DIR"), "/targets.rs"));

impl Target {
    /// How many there are.
    pub const COUNT: usize = Target::ALL.len();

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
