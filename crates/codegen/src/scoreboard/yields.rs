//! The yield bit (bit 109): whether the warp goes on issuing.
//!
//! As ptxas has it: on arithmetic the bit stands with stalls of one and two cycles and never with longer ones, whatever the stall is
//! for. On memory operations, conversions, matrix operations and branches it stands with every stall up to eleven cycles, the longest
//! that exists with it.
//!
//! A warp that has gone on for long gives way: an arithmetic instruction with a stall of two lacks the bit if, with its own stall,
//! [`LONGEST_TURN`] cycles have passed since the last instruction without it. The count starts anew with every block. (This predicts
//! every one of the 20,476 such instructions in ptxas's code for the CUDA corpus and 120 Triton kernels.)

use super::facts::{Code, Fact};
use super::stall;
use super::walk::Plan;
use orias_machine::issue::Unit;
use orias_sass::Op;

/// The longest stall of arithmetic that has the bit.
const LONGEST_ARITHMETIC: u8 = 2;

/// Cycles after which a warp gives way.
const LONGEST_TURN: u32 = 12;

/// The stall of an instruction that gives way.
const GIVING_WAY: u8 = 2;

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

/// Which instructions have the bit.
pub(super) fn find(code: &Code, plan: &Plan) -> Vec<bool> {
    let mut keeps = vec![false; code.facts.len()];
    for block in &code.blocks {
        let mut turn = 0;
        for index in block.range.clone() {
            let fact = &code.facts[index];
            let stall = stall(code, plan, index);
            turn += u32::from(stall);
            let gives_way = turn >= LONGEST_TURN && stall == GIVING_WAY && is_arithmetic(fact);
            keeps[index] = may_keep(code, fact, stall) && !gives_way;
            if !keeps[index] {
                turn = 0;
            }
        }
    }
    keeps
}

fn is_arithmetic(fact: &Fact) -> bool {
    match fact.issue.unit {
        Unit::Alu | Unit::Fma | Unit::Half | Unit::Fp64 | Unit::Uniform | Unit::UniformMove => {
            !fact.is_variable()
        }
        _ => LIKE_ARITHMETIC.contains(&fact.op),
    }
}

/// Whether an instruction with this stall has the bit as long as nobody else has waited for long.
fn may_keep(code: &Code, fact: &Fact, stall: u8) -> bool {
    let longest = if NEVER.contains(&fact.op) {
        0
    } else if is_arithmetic(fact) {
        LONGEST_ARITHMETIC
    } else {
        code.machine.limits.stall_max_yielding
    };
    (1..=longest).contains(&stall)
}
