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

/// A row of `tables/targets.tbl`.
struct Row {
    sm: u16,
    /// The PTX versions that introduced it, its `a` variant and its `f` variant; 0 where there is none.
    since: [PtxVersion; 3],
    /// The first number of its family.
    family: u16,
    /// Whether ptxas 13.0 compiles for it.
    ptxas: bool,
}

include!(concat!(env!("OUT_DIR"), "/targets.rs"));

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

    fn row(self) -> Option<&'static Row> {
        TARGETS.iter().find(|row| row.sm == self.sm)
    }

    /// Every target that ptxas 13.0 compiles for, by number.
    pub fn of_ptxas() -> impl Iterator<Item = Target> {
        let rows = TARGETS.iter().filter(|row| row.ptxas);
        rows.flat_map(|row| {
            let variants = [Variant::Base, Variant::Family, Variant::Architecture];
            let named = variants.map(|variant| Target {
                sm: row.sm,
                variant,
            });
            named.into_iter().filter(|target| target.since().is_some())
        })
    }

    /// The PTX version from which `.target` may name it.
    pub fn since(self) -> Option<PtxVersion> {
        let row = self.row()?;
        let version = match self.variant {
            Variant::Base => row.since[0],
            Variant::Architecture => row.since[1],
            Variant::Family => row.since[2],
        };
        (version != 0).then_some(version)
    }

    /// The first number of its family: 100 for 103.
    pub fn family(self) -> u16 {
        self.row().map_or(self.sm, |row| row.family)
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

impl Variant {
    /// The letter behind the number.
    pub const fn suffix(self) -> &'static str {
        match self {
            Variant::Base => "",
            Variant::Family => "f",
            Variant::Architecture => "a",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.sm, self.variant.suffix())
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
