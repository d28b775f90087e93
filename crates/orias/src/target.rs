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

/// Whether PTX written for one target may be compiled for another, and if not, why, in ptxas's words.
///
/// `module` is the name in a `.target` directive. Plain PTX runs on its own and on later GPUs, that of a family within the
/// family from its own GPU on, and that of one GPU there alone. A name that is no GPU's is left to the PTX checker.
pub fn check_module_target(module: &str, target: Target) -> Result<(), String> {
    let Some((number, variant)) = parse_module_target(module) else {
        return Ok(());
    };
    if number > target.number {
        return Err(
            "SM version specified by .target is higher than default SM version assumed".into(),
        );
    }
    match variant {
        Variant::Arch if number != target.number => Err(format!(
            "Program with .target '{module}' cannot be compiled to future architecture"
        )),
        Variant::Arch if target.variant != Variant::Arch => Err(format!(
            "PTX with .target '{module}' cannot be compiled for architecture '{target}'"
        )),
        Variant::Family if number / 10 != target.number / 10 => Err(format!(
            "Program with .target '{module}' cannot be compiled to different SM-family architecture"
        )),
        _ => Ok(()),
    }
}

/// The SM number and letter of `sm_NNx`.
fn parse_module_target(name: &str) -> Option<(u32, Variant)> {
    let rest = name.strip_prefix("sm_")?;
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let variant = match &rest[digits.len()..] {
        "" => Variant::Plain,
        "a" => Variant::Arch,
        "f" => Variant::Family,
        _ => return None,
    };
    let number = digits.parse().ok()?;
    // CUDA 13 renamed sm_101.
    Some((if number == 101 { 110 } else { number }, variant))
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

    #[test]
    fn a_module_compiles_for_the_targets_ptxas_takes_it_for() {
        let higher = "SM version specified by .target is higher than default SM version assumed";
        let future = "Program with .target 'sm_90a' cannot be compiled to future architecture";
        for (module, target, outcome) in [
            ("sm_90", "sm_90a", Ok(())),
            ("sm_90a", "sm_90a", Ok(())),
            ("sm_90a", "compute_90a", Ok(())),
            ("sm_50", "sm_90", Ok(())),
            ("sm_100f", "sm_103a", Ok(())),
            ("sm_101a", "sm_110a", Ok(())),
            ("sm_90a", "sm_80", Err(higher)),
            ("sm_103f", "sm_100", Err(higher)),
            ("sm_90a", "sm_100a", Err(future)),
            (
                "sm_90a",
                "sm_90",
                Err("PTX with .target 'sm_90a' cannot be compiled for architecture 'sm_90'"),
            ),
            (
                "sm_100f",
                "sm_110",
                Err(
                    "Program with .target 'sm_100f' cannot be compiled to different SM-family architecture",
                ),
            ),
        ] {
            assert_eq!(
                check_module_target(module, Target::parse(target).expect(target)),
                outcome.map_err(String::from),
                "{module} for {target}"
            );
        }
    }
}
