//! The GPUs an option can name.
//!
//! Which names exist is ptxas 13.0's list. Which of them Orias can compile for is another question, answered by the rooms
//! that hold the tables.

use orias_ptx::target::{Target as Gpu, Variant};
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

/// A GPU by name, such as `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// What is made.
    pub kind: TargetKind,
    /// The GPU, as PTX names it.
    pub gpu: Gpu,
}

const PREFIXES: &[(&str, TargetKind)] = &[
    ("sm_", TargetKind::Real),
    ("compute_", TargetKind::Virtual),
    ("lto_", TargetKind::LinkTime),
];

impl Target {
    /// What ptxas compiles for when no option names a GPU.
    pub const DEFAULT: Self = Self {
        kind: TargetKind::Real,
        gpu: Gpu {
            sm: 75,
            variant: Variant::Base,
        },
    };

    /// The target called `name`, if ptxas 13.0 has it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::all().find(|target| target.to_string() == name)
    }

    /// Every target ptxas 13.0 has, by kind and then by number.
    pub fn all() -> impl Iterator<Item = Self> {
        let gpus = |kind| Gpu::of_ptxas().map(move |gpu| Self { kind, gpu });
        (PREFIXES.iter()).flat_map(move |&(_, kind)| gpus(kind))
    }
}

/// Whether PTX written for one target may be compiled for another, and if not, why, in ptxas's words.
///
/// `module` is the name in a `.target` directive. Plain PTX runs on its own and on later GPUs, that of a family within the
/// family from its own GPU on, and that of one GPU there alone. A name that is no GPU's is left to the PTX checker.
pub fn check_module_target(module: &str, target: Target) -> Result<(), String> {
    let Some(module_gpu) = Gpu::from_name(module) else {
        return Ok(());
    };
    // CUDA 13 renamed sm_101.
    let number = match module_gpu.sm {
        101 => 110,
        number => number,
    };
    let Gpu { sm, variant } = target.gpu;
    if number > sm {
        return Err(
            "SM version specified by .target is higher than default SM version assumed".into(),
        );
    }
    match module_gpu.variant {
        Variant::Architecture if number != sm => Err(format!(
            "Program with .target '{module}' cannot be compiled to future architecture"
        )),
        Variant::Architecture if variant != Variant::Architecture => Err(format!(
            "PTX with .target '{module}' cannot be compiled for architecture '{target}'"
        )),
        Variant::Family if number / 10 != sm / 10 => Err(format!(
            "Program with .target '{module}' cannot be compiled to different SM-family architecture"
        )),
        _ => Ok(()),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.kind {
            TargetKind::Real => "sm_",
            TargetKind::Virtual => "compute_",
            TargetKind::LinkTime => "lto_",
        };
        write!(f, "{prefix}{}{}", self.gpu.sm, self.gpu.variant.suffix())
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
                gpu: Gpu {
                    sm: 90,
                    variant: Variant::Architecture
                }
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
