//! The GPUs an option can name.
//!
//! Which names exist is ptxas 13.0's list. Which of them Orias can compile for is another question, answered by the rooms
//! that hold the tables.

use std::fmt;

/// What is made for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// `sm_N`: machine code.
    Real,
    /// `compute_N`: nothing; the input is only checked.
    Virtual,
    /// `lto_N`: an intermediate form that ptxas lists among its values and does not accept.
    LinkTime,
}

/// The letter after the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// None: runs on this and later GPUs.
    Plain,
    /// `f`: uses features of a family.
    Family,
    /// `a`: uses features of exactly one GPU.
    Arch,
}

/// A GPU by name, such as `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// What is made.
    pub kind: TargetKind,
    /// The SM number: 90 for Hopper.
    pub number: u32,
    /// The letter after it.
    pub variant: Variant,
}

/// The numbers ptxas 13.0 knows, and the letters each may carry.
const NUMBERS: &[(u32, &[Variant])] = &[
    (75, &[Variant::Plain]),
    (80, &[Variant::Plain]),
    (86, &[Variant::Plain]),
    (87, &[Variant::Plain]),
    (88, &[Variant::Plain]),
    (89, &[Variant::Plain]),
    (90, &[Variant::Plain, Variant::Arch]),
    (100, EVERY_VARIANT),
    (103, EVERY_VARIANT),
    (110, EVERY_VARIANT),
    (120, EVERY_VARIANT),
    (121, EVERY_VARIANT),
];

const EVERY_VARIANT: &[Variant] = &[Variant::Plain, Variant::Family, Variant::Arch];

const PREFIXES: &[(&str, TargetKind)] = &[
    ("sm_", TargetKind::Real),
    ("compute_", TargetKind::Virtual),
    ("lto_", TargetKind::LinkTime),
];

impl Target {
    /// What ptxas compiles for when no option names a GPU.
    pub const DEFAULT: Self = Self {
        kind: TargetKind::Real,
        number: 75,
        variant: Variant::Plain,
    };

    /// The target called `name`, if ptxas 13.0 has it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::all().find(|target| target.to_string() == name)
    }

    /// Every target ptxas 13.0 has, by kind and then by number.
    pub fn all() -> impl Iterator<Item = Self> {
        PREFIXES.iter().flat_map(|&(_, kind)| {
            NUMBERS.iter().flat_map(move |&(number, variants)| {
                variants.iter().map(move |&variant| Self {
                    kind,
                    number,
                    variant,
                })
            })
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.kind {
            TargetKind::Real => "sm_",
            TargetKind::Virtual => "compute_",
            TargetKind::LinkTime => "lto_",
        };
        let suffix = match self.variant {
            Variant::Plain => "",
            Variant::Family => "f",
            Variant::Arch => "a",
        };
        write!(f, "{prefix}{}{suffix}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_ptxas_13_0() {
        assert_eq!(Target::all().count(), 69);
        assert_eq!(
            Target::parse("sm_90a"),
            Some(Target {
                kind: TargetKind::Real,
                number: 90,
                variant: Variant::Arch
            })
        );
        assert!(Target::parse("compute_121f").is_some());
        for wrong in ["sm_91", "SM_90a", "", "sm_90f", "sm_90a,sm_90", "sm_090"] {
            assert_eq!(Target::parse(wrong), None, "{wrong}");
        }
    }
}
