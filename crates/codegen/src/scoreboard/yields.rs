//! The yield bit (bit 109).
//!
//! As ptxas has it: on arithmetic the bit stands with stalls of one and two cycles and never with longer ones, whatever the stall is
//! for. On memory operations, conversions, matrix operations and branches it stands with every stall up to eleven cycles, the longest
//! that exists with it.

use super::facts::Fact;
use orias_machine::issue::Unit;
use orias_machine::timing::STALL_MAX_YIELDING;
use orias_sass::Op;

/// The longest stall of arithmetic that has the bit.
const LONGEST_ARITHMETIC: u8 = 2;

/// Operations of other units that have the bit as arithmetic has it.
const LIKE_ARITHMETIC: [Op; 5] = [
    Op::WARPGROUP_ARRIVE,
    Op::NOP,
    Op::LEPC,
    Op::LEPC_T,
    Op::RPCMOV_W,
];

/// Operations that never have it.
const NEVER: [Op; 2] = [Op::DEPBAR_LE, Op::DEPBAR];

/// Whether an instruction with this stall has the bit.
pub(super) fn decide(fact: &Fact, stall: u8) -> bool {
    let arithmetic = match fact.issue.unit {
        Unit::Alu | Unit::Fma | Unit::Half | Unit::Fp64 | Unit::Uniform | Unit::UniformMove => {
            !fact.is_variable()
        }
        _ => LIKE_ARITHMETIC.contains(&fact.op),
    };
    let longest = if NEVER.contains(&fact.op) {
        0
    } else if arithmetic {
        LONGEST_ARITHMETIC
    } else {
        STALL_MAX_YIELDING
    };
    (1..=longest).contains(&stall)
}
