//! Which results are the same in all lanes that run together.
//!
//! A result is if its sources are; so is what a load finds at one address. These are the exceptions.

use orias_sass::{Instruction, Op, Operand, special};
use std::sync::LazyLock;

/// How the lanes' results of an operation compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sameness {
    /// As its sources do.
    Sources,
    /// The same, whatever the sources.
    Always,
    /// Different.
    Never,
    /// As the special register it reads.
    Special,
}

/// By operation.
static SAMENESS: LazyLock<Vec<Sameness>> = LazyLock::new(|| {
    let mut all = vec![Sameness::Sources; Op::all().count()];
    for op in Op::all() {
        all[op.index()] = of_mnemonic(op.name());
    }
    all
});

fn of_mnemonic(name: &str) -> Sameness {
    match name.split('.').next().unwrap_or(name) {
        "S2R" | "CS2R" => Sameness::Special,
        // What lanes find together.
        "VOTE" | "B2R" => Sameness::Always,
        // Lanes come one after the other, exchange values, hold pieces of a matrix, or have memory of their own.
        "ATOM" | "ATOMG" | "ATOMS" | "SUATOM" | "LDL" | "SHFL" | "MATCH" | "ELECT" | "R2UR"
        | "LDSM" | "MOVM" | "FSWZADD" => Sameness::Never,
        mnemonic if mnemonic.ends_with("MMA") => Sameness::Never,
        _ => Sameness::Sources,
    }
}

/// What lanes get from an instruction.
pub(super) fn of(instruction: &Instruction) -> Sameness {
    match SAMENESS[instruction.op().index()] {
        Sameness::Special => match instruction.operand("s") {
            Some(Operand::Special(number)) if is_of_lane(*number) => Sameness::Never,
            _ => Sameness::Always,
        },
        known => known,
    }
}

/// Whether each lane finds a value of its own in a special register.
fn is_of_lane(number: u8) -> bool {
    let names = [
        "SR_LANEID", "SR_TID", "SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK", "SR_GEMASK",
    ];
    let name = special::name(number).unwrap_or_default();
    names.iter().any(|of_lane| name.starts_with(of_lane))
}
