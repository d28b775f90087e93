//! Static branch prediction from comparisons of floats: arms that ordinary numbers do not take.
//!
//! Code that works for every float asks first whether its argument is an ordinary one, and has an arm for the rest: NaN, infinities, and magnitudes at which
//! a short computation is no longer exact (sines ask for 105,615 in single precision and for 2^31 in double precision). Blocks to which only such an arm leads are marked `rare`, which block frequencies, block placement, cross-block scheduling and spilling heed.
//!
//! | comparison | unlikely |
//! | --- | --- |
//! | `nan`, `num` | the NaN |
//! | of a magnitude with a number of at least [`LARGE`], or [`LARGE_DOUBLE`], or an infinity | that it is equal or greater |
//! | of a number with an infinity | that they are equal |

use cranelift_entity::SecondaryMap;
use orias_ori::operation::{AbstractOp, Compare, Scalar};
use orias_ori::{Block, Function, Inst, Opcode, Operand, SourceMods, Value};

/// Magnitudes from here on are unlikely in single precision: the bits of 2^16.
const LARGE: u64 = 0x4780_0000;

/// The same in double precision: of 2^31.
const LARGE_DOUBLE: u64 = 0x41e0_0000_0000_0000;

/// Marks the blocks of `func` to which only an unlikely arm of a branch leads.
pub(super) fn mark_rare(func: &mut Function) {
    let mut entries: SecondaryMap<Block, u32> = SecondaryMap::new();
    for block in func.blocks() {
        for next in func.successors(block) {
            entries[next] += 1;
        }
    }
    let mut found: Vec<Block> = Vec::new();
    for block in func.blocks() {
        let Some(branch) = func.terminator(block) else {
            continue;
        };
        if func.opcode(branch) != Opcode::Abstract(AbstractOp::CondBr) {
            continue;
        }
        let &[taken, other] = func.edges(branch) else {
            continue;
        };
        let &[condition] = func.operands(branch) else {
            continue;
        };
        let Some(expected) = expected(func, condition) else {
            continue;
        };
        let unlikely = func.edge_target(if expected { other } else { taken });
        if entries[unlikely] == 1 {
            found.push(unlikely);
        }
    }
    func.attributes.rare.extend(found);
}

/// What `condition` is for ordinary numbers, if it asks whether a number is one.
fn expected(func: &Function, condition: Operand) -> Option<bool> {
    let Operand::Reg { reg, mods } = condition else {
        return None;
    };
    let asked = asks_for_ordinary(func, func.defining_inst(reg.value()?)?, reg.value()?)?;
    Some(asked != mods.contains(SourceMods::NOT))
}

/// What the comparison `inst` says of ordinary numbers by its first result `of`.
fn asks_for_ordinary(func: &Function, inst: Inst, of: Value) -> Option<bool> {
    if func.opcode(inst) != Opcode::Abstract(AbstractOp::Setp)
        || func.value_defs(inst).next() != Some(of)
        || !func.inst(inst).guard().is_always()
    {
        return None;
    }
    let compare = func.modifier::<Compare>(inst)?;
    let (large, infinity, sign): (u64, u64, u64) = match func.modifier::<Scalar>(inst)? {
        Scalar::F32 => (LARGE, 0x7f80_0000, 1 << 31),
        Scalar::F64 => (LARGE_DOUBLE, 0x7ff0 << 48, 1 << 63),
        _ => return None,
    };
    match compare {
        Compare::Nan => return Some(false),
        Compare::Num => return Some(true),
        _ => {}
    }
    let results = func.result_count(inst);
    let &[a, b, ..] = func.operands(inst).get(results..)? else {
        return None;
    };
    let (magnitude, number, compare) = match (a, b) {
        (Operand::Imm(number), other) => (other, number.bits(), swapped(compare)),
        (other, Operand::Imm(number)) => (other, number.bits(), compare),
        _ => return None,
    };
    if number & !sign == infinity && matches!(compare, Compare::Eq | Compare::Equ) {
        return Some(false);
    }
    if number & !sign == infinity && matches!(compare, Compare::Ne | Compare::Neu) {
        return Some(true);
    }
    if number < large || number & sign != 0 || !is_magnitude(func, magnitude) {
        return None;
    }
    match compare {
        Compare::Lt | Compare::Ltu | Compare::Le | Compare::Leu => Some(true),
        Compare::Gt | Compare::Gtu | Compare::Ge | Compare::Geu => Some(false),
        _ => None,
    }
}

/// The comparison with its operands changed over.
fn swapped(compare: Compare) -> Compare {
    match compare {
        Compare::Lt => Compare::Gt,
        Compare::Le => Compare::Ge,
        Compare::Gt => Compare::Lt,
        Compare::Ge => Compare::Le,
        Compare::Ltu => Compare::Gtu,
        Compare::Leu => Compare::Geu,
        Compare::Gtu => Compare::Ltu,
        Compare::Geu => Compare::Leu,
        other => other,
    }
}

/// Whether `operand` is an absolute value.
fn is_magnitude(func: &Function, operand: Operand) -> bool {
    let Operand::Reg { reg, mods } = operand else {
        return false;
    };
    let made = reg.value().and_then(|value| func.defining_inst(value));
    let by_abs = made.is_some_and(|it| func.opcode(it) == Opcode::Abstract(AbstractOp::Fabs));
    mods.contains(SourceMods::ABSOLUTE) || by_abs
}
