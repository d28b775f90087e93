//! Instructions that the logic and the multiplier do alike.
//!
//! | logic | multiplier | where |
//! | --- | --- | --- |
//! | `MOV d, b` | `IMAD.MOV.U32 d, RZ, RZ, b` | all lanes |
//! | `IADD3 d, a, b, RZ` | `IMAD.IADD d, a, 1, b` | two registers, at most one of them negated, no carry out |
//! | `IADD3 d, a, b, RZ` | `VIADD d, a, b` | a register and something else, no carry out |
//! | `IADD3.X d, a, b, RZ, p` | `IMAD.X d, a, 1, b, p` | two registers, one carry in, none out, at most one of them complemented |
//! | `SHF.L.U32 d, a, n, RZ` | `IMAD.SHL.U32 d, a, 1 << n, RZ` | a known distance below 32 |
//! | `LEA d, a, b, n` | `IMAD d, a, 1 << n, b` | registers, no carry out |
//!
//! Both forms of a row leave the same bits in the same registers for all operands.

use orias_ori::{Class, Function, Inst, Operand, OptReg, PhysReg, SourceMods};
use orias_sass::{ModifierName, Op, ValueName, modifier_names as name, modifier_values as value};
use smallvec::{SmallVec, smallvec};

/// An instruction to be made.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) op: Op,
    pub(super) mods: SmallVec<[(ModifierName, ValueName); 3]>,
    pub(super) operands: SmallVec<[Operand; 8]>,
}

/// The form that the other of the two units does, if there is one.
pub(super) fn other(func: &Function, inst: Inst) -> Option<Form> {
    let op = func.opcode(inst).as_machine()?;
    let operands = func.operands(inst);
    match op {
        Op::MOV => product_of_move(operands),
        Op::IADD3 => product_of_sum(operands),
        Op::IADD3_X => product_of_carried_sum(operands),
        Op::SHF => product_of_shift(func, inst, operands),
        Op::LEA => product_of_scaled_sum(operands),
        Op::IMAD => logic_of_product(operands),
        Op::VIADD => logic_of_sum(func, inst, operands),
        _ => None,
    }
}

fn form(
    op: Op,
    mods: &[(ModifierName, ValueName)],
    operands: SmallVec<[Operand; 8]>,
) -> Option<Form> {
    Some(Form {
        op,
        mods: SmallVec::from_slice(mods),
        operands,
    })
}

/// The sign of what is no product in the end, as ptxas names it.
const SIGNED: &[(ModifierName, ValueName)] = &[(name::SIGN, value::S32)];
const UNSIGNED: &[(ModifierName, ValueName)] = &[(name::SIGN, value::U32)];
/// All four groups of lanes, as MOV names them.
const ALL_LANES: u64 = 0xf;

fn rz() -> Operand {
    PhysReg::RZ.into()
}

fn pt() -> Operand {
    PhysReg::PT.into()
}

/// `!PT`, as the second carry of a sum that has none.
fn no_carry() -> Operand {
    let pt = pt();
    pt.with_mods(SourceMods::NOT).unwrap_or(pt)
}

/// Whether an operand is a general register, changed by nothing but `allowed`.
fn is_register(operand: Operand, allowed: SourceMods) -> bool {
    let rest = operand.mods().without(allowed);
    rest.is_empty()
        && operand
            .reg()
            .and_then(|reg| reg.phys())
            .is_some_and(|reg| reg.class() == Class::R)
}

/// Whether an operand is something that VIADD adds to a register: a number, a constant, a uniform register.
fn is_flexible(operand: Operand) -> bool {
    operand.mods().is_empty()
        && match operand {
            Operand::Imm(_) => true,
            Operand::Const { index, .. } => index == OptReg::NONE,
            Operand::Reg { reg, .. } => (reg.phys()).is_some_and(|reg| reg.class() == Class::UR),
            _ => false,
        }
}

fn product_of_move(operands: &[Operand]) -> Option<Form> {
    let &[to, from, lanes] = operands else {
        return None;
    };
    let all = lanes == Operand::imm(ALL_LANES);
    let plain = is_register(from, SourceMods::NONE) || is_flexible(from);
    if !all || !plain {
        return None;
    }
    form(Op::IMAD, UNSIGNED, smallvec![to, rz(), rz(), from])
}

/// Two registers of a sum so that the first is read as it is.
fn plain_first([a, b]: [Operand; 2], change: SourceMods) -> Option<[Operand; 2]> {
    if is_register(a, SourceMods::NONE) && is_register(b, change) {
        Some([a, b])
    } else if is_register(b, SourceMods::NONE) && is_register(a, change) {
        Some([b, a])
    } else {
        None
    }
}

fn product_of_sum(operands: &[Operand]) -> Option<Form> {
    let &[to, carry, second_carry, a, b, c] = operands else {
        return None;
    };
    if carry != pt() || second_carry != pt() {
        return None;
    }
    let [a, b] = match [a, b, c] {
        [a, b, c] if c == rz() => [a, b],
        [a, b, c] if b == rz() => [a, c],
        [a, b, c] if a == rz() => [c, b],
        _ => return None,
    };
    if let Some([a, b]) = plain_first([a, b], SourceMods::NEGATE) {
        return form(Op::IMAD, SIGNED, smallvec![to, a, Operand::imm(1), b]);
    }
    let [register, other] = if is_flexible(b) { [a, b] } else { [b, a] };
    if !is_register(register, SourceMods::NONE) || !is_flexible(other) {
        return None;
    }
    form(Op::VIADD, &[], smallvec![to, register, other])
}

fn product_of_carried_sum(operands: &[Operand]) -> Option<Form> {
    let &[to, carry, second_carry, a, b, c, carry_in, second_in] = operands else {
        return None;
    };
    if carry != pt() || second_carry != pt() || second_in != no_carry() || c != rz() {
        return None;
    }
    let [a, b] = plain_first([a, b], SourceMods::NOT)?;
    form(
        Op::IMAD_X,
        SIGNED,
        smallvec![to, a, Operand::imm(1), b, carry_in],
    )
}

fn product_of_shift(func: &Function, inst: Inst, operands: &[Operand]) -> Option<Form> {
    let &[to, a, Operand::Imm(distance), c] = operands else {
        return None;
    };
    let is = |name, value| func.machine_modifier(inst, name) == Some(value);
    let left = is(name::DIR, value::L)
        && (is(name::TYPE, value::U32) || is(name::TYPE, value::S32))
        && is(name::PART, value::LO);
    let distance = u32::try_from(distance.bits()).ok()?;
    if !left || distance >= u32::BITS || c != rz() || !is_register(a, SourceMods::NONE) {
        return None;
    }
    let factor = Operand::imm(1 << distance);
    form(Op::IMAD, UNSIGNED, smallvec![to, a, factor, rz()])
}

fn product_of_scaled_sum(operands: &[Operand]) -> Option<Form> {
    let &[to, carry, a, b, Operand::Imm(distance)] = operands else {
        return None;
    };
    let distance = u32::try_from(distance.bits()).ok()?;
    let plain = is_register(a, SourceMods::NONE) && is_register(b, SourceMods::NEGATE);
    if carry != pt() || distance >= u32::BITS || !plain {
        return None;
    }
    let factor = Operand::imm(1 << distance);
    form(Op::IMAD, SIGNED, smallvec![to, a, factor, b])
}

/// A product that is none: a move, a sum, a shift.
fn logic_of_product(operands: &[Operand]) -> Option<Form> {
    let &[to, a, b, c] = operands else {
        return None;
    };
    if a == rz() || b == rz() {
        let plain = is_register(c, SourceMods::NONE) || is_flexible(c);
        let lanes = Operand::imm(ALL_LANES);
        return plain.then(|| form(Op::MOV, &[], smallvec![to, c, lanes]))?;
    }
    let Operand::Imm(factor) = b else {
        return None;
    };
    let factor = factor.bits() as u32;
    if !factor.is_power_of_two() || !is_register(a, SourceMods::NONE) {
        return None;
    }
    let distance = Operand::imm(u64::from(factor.trailing_zeros()));
    match (factor, c) {
        (1, c) if is_register(c, SourceMods::NEGATE) => {
            form(Op::IADD3, &[], smallvec![to, pt(), pt(), a, c, rz()])
        }
        (_, c) if c == rz() => {
            let left = [
                (name::DIR, value::L),
                (name::TYPE, value::U32),
                (name::PART, value::LO),
            ];
            form(Op::SHF, &left, smallvec![to, a, distance, rz()])
        }
        (_, c) if is_register(c, SourceMods::NEGATE) => {
            form(Op::LEA, &[], smallvec![to, pt(), a, c, distance])
        }
        _ => None,
    }
}

fn logic_of_sum(func: &Function, inst: Inst, operands: &[Operand]) -> Option<Form> {
    let &[to, a, b] = operands else {
        return None;
    };
    if func.machine_modifier(inst, name::TYPE) != Some(value::_32) {
        return None;
    }
    form(Op::IADD3, &[], smallvec![to, pt(), pt(), a, b, rz()])
}
