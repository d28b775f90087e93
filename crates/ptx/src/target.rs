//! Targets: their names, their families, and what a gate of the tables says about them.

use crate::grammar::{Gate, GateScope, PtxVersion};
use std::fmt;

/// Which instructions beyond the common ones a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// `sm_90`: what every later target has too.
    Base,
    /// `sm_100f`: what its family has.
    Family,
    /// `sm_90a`: what this architecture alone has.
    Architecture,
}

/// A GPU architecture as PTX names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The number: 90 in `sm_90a`.
    pub sm: u16,
    /// The suffix.
    pub variant: Variant,
}

/// Each number, the PTX version that introduced it, its `a` variant and its `f` variant (0 where there is none), and the
/// first number of its family.
const TARGETS: &[(u16, PtxVersion, PtxVersion, PtxVersion, u16)] = &[
    (10, 10, 0, 0, 10),
    (11, 10, 0, 0, 11),
    (12, 12, 0, 0, 12),
    (13, 12, 0, 0, 13),
    (20, 20, 0, 0, 20),
    (21, 20, 0, 0, 21),
    (30, 31, 0, 0, 30),
    (32, 40, 0, 0, 32),
    (35, 31, 0, 0, 35),
    (37, 41, 0, 0, 37),
    (50, 40, 0, 0, 50),
    (52, 41, 0, 0, 52),
    (53, 42, 0, 0, 53),
    (60, 50, 0, 0, 60),
    (61, 50, 0, 0, 61),
    (62, 50, 0, 0, 62),
    (70, 60, 0, 0, 70),
    (72, 61, 0, 0, 72),
    (75, 63, 0, 0, 75),
    (80, 70, 0, 0, 80),
    (86, 71, 0, 0, 86),
    (87, 74, 0, 0, 87),
    (88, 90, 0, 0, 88),
    (89, 78, 0, 0, 89),
    (90, 78, 80, 0, 90),
    (100, 86, 86, 88, 100),
    (101, 86, 86, 88, 101),
    (103, 88, 88, 88, 100),
    (110, 90, 90, 90, 101),
    (120, 87, 87, 88, 120),
    (121, 88, 88, 88, 120),
];

impl Target {
    /// The target of that name: `sm_90a`, or `compute_90a`.
    pub fn from_name(name: &str) -> Option<Target> {
        let rest = name
            .strip_prefix("sm_")
            .or_else(|| name.strip_prefix("compute_"))?;
        let (digits, variant) = match rest.as_bytes().last() {
            Some(b'a') => (&rest[..rest.len() - 1], Variant::Architecture),
            Some(b'f') => (&rest[..rest.len() - 1], Variant::Family),
            _ => (rest, Variant::Base),
        };
        if digits.len() > 3 || digits.starts_with('0') {
            return None;
        }
        let sm = digits.parse().ok()?;
        let target = Target { sm, variant };
        target.since().map(|_| target)
    }

    fn row(self) -> Option<&'static (u16, PtxVersion, PtxVersion, PtxVersion, u16)> {
        TARGETS.iter().find(|row| row.0 == self.sm)
    }

    /// The PTX version from which `.target` may name it.
    pub fn since(self) -> Option<PtxVersion> {
        let row = self.row()?;
        let version = match self.variant {
            Variant::Base => row.1,
            Variant::Architecture => row.2,
            Variant::Family => row.3,
        };
        (version != 0).then_some(version)
    }

    /// The first number of its family: 100 for 103.
    pub fn family(self) -> u16 {
        self.row().map_or(self.sm, |row| row.4)
    }

    /// Whether code for `self` runs on `on`.
    pub fn runs_on(self, on: Target) -> bool {
        match self.variant {
            Variant::Base => self.sm <= on.sm,
            Variant::Architecture => self == on,
            Variant::Family => {
                self.family() == on.family() && self.sm <= on.sm && on.variant != Variant::Base
            }
        }
    }

    /// Whether the gate is open for this target and version.
    pub fn passes(self, ptx: PtxVersion, gate: &Gate) -> bool {
        if ptx < gate.ptx {
            return false;
        }
        match gate.scope {
            GateScope::Onwards => self.sm >= gate.sm,
            GateScope::Architecture => self.sm == gate.sm && self.variant == Variant::Architecture,
            GateScope::Family => {
                let first = Target {
                    sm: gate.sm,
                    variant: Variant::Base,
                };
                self.variant != Variant::Base
                    && self.family() == first.family()
                    && self.sm >= gate.sm
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.variant {
            Variant::Base => "",
            Variant::Family => "f",
            Variant::Architecture => "a",
        };
        write!(f, "sm_{}{suffix}", self.sm)
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ptx != 0 {
            write!(f, "PTX ISA version {}", Version(self.ptx))?;
        }
        if self.sm != 0 {
            let suffix = match self.scope {
                GateScope::Onwards => " or higher",
                GateScope::Architecture => "a",
                GateScope::Family => "f",
            };
            let join = if self.ptx != 0 { " and " } else { "" };
            write!(f, "{join}.target sm_{}{suffix}", self.sm)?;
        }
        Ok(())
    }
}

/// A PTX version, for printing.
#[derive(Clone, Copy, Debug)]
pub struct Version(pub PtxVersion);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}
