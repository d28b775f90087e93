//! How freely registers are traded for speed: what `-regUsageLevel` asks for.
//!
//! ptxas 13.0 knows three sorts of levels: 0 to 3, 4 and 5, and 6 to 10 give the same code each (21 kernels of the CUDA corpus; two of them differ between the
//! last two). The middle is the default, and what everything is tuned for.

use crate::knobs::{Knobs, registry};

/// What a register is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegisterUsage {
    /// As few as possible: moves are paid for them, and warps that they let run count in full.
    Few,
    Usual,
    /// As many as do not cost warps, if anything is gained by them.
    Many,
}

impl RegisterUsage {
    /// What the knob asks for.
    pub(crate) fn of(knobs: &Knobs) -> RegisterUsage {
        match knobs.int(&registry::REGISTER_USAGE_LEVEL) {
            ..=3 => RegisterUsage::Few,
            4..=5 => RegisterUsage::Usual,
            6.. => RegisterUsage::Many,
        }
    }

    /// By how much a register costs more than as a rule.
    pub(crate) fn price(self) -> f64 {
        match self {
            RegisterUsage::Few => 4.0,
            RegisterUsage::Usual => 1.0,
            RegisterUsage::Many => 0.0,
        }
    }
    /// How many times as long registers that are still being read are left alone as a rule.
    pub(crate) fn late_reads(self) -> u32 {
        match self {
            RegisterUsage::Few => 0,
            RegisterUsage::Usual => 1,
            RegisterUsage::Many => 4,
        }
    }
}
