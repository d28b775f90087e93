//! Bulk and tensor copies: instructions of the copy engine, with all operands in uniform registers.
//!
//! An instruction runs once for the warp. A guard says which lane's operands it takes, so it is on what brings them to uniform registers, not on
//! the instruction; without one they are those of the lowest running lane (`expand_for_selection/turns.rs`).
//!
//! Groups of copies are counted on the scoreboard that groups of LDGSTS are counted on. A wait for what was written also empties the
//! first-level cache, so that loads see it; a wait for what was read does not.

use super::copy::wait_for;
use super::emission::Mod;
use super::selector::Selector;
use super::source::Source;
use super::sources;
use crate::pipeline::PhaseError;
use orias_ori::operation::{Reduce, Route, Scalar, TensorMode};
use orias_ori::{Guard, Operand};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// An operation without and with a cache policy.
type Hinted = (Op, Op);

/// Emits one of the engine's instructions, with a cache policy if there is one.
fn emit_hinted(
    s: &mut Selector<'_>,
    (plain, hinted): Hinted,
    mods: &[Mod],
    operands: &[Source],
    policy: Operand,
) -> Done {
    match policy {
        Operand::None => s.emit_with(plain, mods, operands, Guard::ALWAYS)?,
        policy => {
            let hint = s.policy_operand(policy)?;
            let mut operands = operands.to_vec();
            operands.push(hint.into());
            s.emit_with(hinted, mods, &operands, Guard::ALWAYS)?
        }
    };
    Ok(())
}

/// How many words source `index` has.
fn length(s: &Selector<'_>, index: usize) -> u8 {
    let value = s.operand(index).as_value();
    value.map_or(1, |value| s.func.value_type(value).len())
}

/// Source `index`, of so many words, in uniform registers, as an address.
fn place(s: &mut Selector<'_>, index: usize, words: u8) -> Result<Source, PhaseError> {
    if length(s, index) != words {
        return Err(s.unsupported());
    }
    let registers = s.uniform_operand(s.operand(index))?;
    Ok(s.uniform_address(registers).into())
}

/// Source `index`, one word, in a uniform register.
fn uniform(s: &mut Selector<'_>, index: usize) -> Result<Source, PhaseError> {
    if length(s, index) != 1 {
        return Err(s.unsupported());
    }
    Ok(s.uniform_operand(s.operand(index))?.into())
}

/// Words of an address of global memory, of a tensor map, and of a place in shared memory with its barrier.
const PAIR: u8 = 2;

/// The sides of a copy: to, and from. One within shared memory names the barrier beside the place it goes to.
fn pieces(s: &mut Selector<'_>, route: Route) -> Result<[Source; 2], PhaseError> {
    let from = match route {
        Route::GlobalToShared | Route::Multicast => PAIR,
        Route::SharedToGlobal | Route::SharedToCluster => 1,
    };
    Ok([place(s, 0, PAIR)?, place(s, 1, from)?])
}

/// The sides of a route as the machine names them: to, from.
fn sides(route: Route) -> [Mod; 2] {
    match route {
        Route::GlobalToShared | Route::Multicast => [(name::TO, value::S), (name::FROM, value::G)],
        Route::SharedToGlobal => [(name::TO, value::G), (name::FROM, value::S)],
        Route::SharedToCluster => [(name::TO, value::S), (name::FROM, value::S)],
    }
}

pub(super) fn copy(s: &mut Selector<'_>) -> Done {
    let route: Route = s.modifier()?;
    let multicast = match route {
        Route::Multicast => value::MULTICAST,
        _ => value::NO,
    };
    let [to, from] = sides(route);
    let mods = [to, from, (name::MULTICAST, multicast)];
    let [to, from] = pieces(s, route)?;
    let operands = [to, from, uniform(s, 2)?];
    let policy = s.operand(3);
    emit_hinted(s, (Op::UBLKCP, Op::UBLKCP_HINT), &mods, &operands, policy)
}

/// How the machine names what a copy is combined with.
fn function(s: &Selector<'_>) -> Result<ValueName, PhaseError> {
    Ok(match s.modifier::<Reduce>()? {
        Reduce::Add => value::ADD,
        Reduce::Min => value::MIN,
        Reduce::Max => value::MAX,
        Reduce::Inc => value::INC,
        Reduce::Dec => value::DEC,
        Reduce::And => value::AND,
        Reduce::Or => value::OR,
        Reduce::Xor => value::XOR,
        Reduce::Exch | Reduce::Cas | Reduce::Cast => return Err(s.unsupported()),
    })
}

pub(super) fn reduce(s: &mut Selector<'_>) -> Done {
    let route: Route = s.modifier()?;
    // Nothing is combined on its way from global to shared memory.
    if matches!(route, Route::GlobalToShared | Route::Multicast) {
        return Err(s.unsupported());
    }
    let [to, from] = sides(route);
    let function = function(s)?;
    let signed = matches!(function, value::MIN | value::MAX);
    let ty = match s.modifier::<Scalar>()? {
        Scalar::S32 if signed => value::S32,
        Scalar::S64 if signed => value::S64,
        Scalar::B32 | Scalar::U32 | Scalar::S32 => value::U32,
        Scalar::B64 | Scalar::U64 | Scalar::S64 => value::U64,
        Scalar::F16 => value::F16_RN,
        Scalar::Bf16 => value::BF16_RN,
        Scalar::F32 => value::F32_RN,
        Scalar::F64 => value::F64_RN,
        _ => return Err(s.unsupported()),
    };
    let mods = [to, from, (name::FN, function), (name::TYPE, ty)];
    let [to, from] = pieces(s, route)?;
    let operands = [to, from, uniform(s, 2)?];
    let policy = s.operand(3);
    emit_hinted(s, (Op::UBLKRED, Op::UBLKRED_HINT), &mods, &operands, policy)
}

pub(super) fn prefetch(s: &mut Selector<'_>) -> Done {
    let operands = [place(s, 0, PAIR)?, uniform(s, 1)?];
    let policy = s.operand(2);
    emit_hinted(s, (Op::UBLKPF, Op::UBLKPF_HINT), &[], &operands, policy)
}

pub(super) fn commit(s: &mut Selector<'_>) -> Done {
    s.emit(Op::UTMACMDFLUSH, &[], sources![])?;
    Ok(())
}

pub(super) fn wait(s: &mut Selector<'_>) -> Done {
    let (Operand::Imm(groups), Operand::Imm(read)) = (s.operand(0), s.operand(1)) else {
        return Err(s.unsupported());
    };
    if groups.bits() <= u64::from(s.machine.limits.copy_groups) {
        wait_for(s, groups.bits())?;
    }
    if read.bits() == 0 {
        s.emit_guarded(Op::CCTL_IVALL, &[(name::WHAT, value::IVALL)], sources![])?;
    }
    Ok(())
}

/// The number of dimensions of a tensor access that reads so many words besides coordinates.
fn dimensions(s: &Selector<'_>, others: u8) -> Result<Mod, PhaseError> {
    let name = match length(s, 0).checked_sub(others) {
        Some(1) => value::_1D,
        Some(2) => value::_2D,
        Some(3) => value::_3D,
        Some(4) => value::_4D,
        Some(5) => value::_5D,
        _ => return Err(s.unsupported()),
    };
    Ok((name::DIM, name))
}

/// Coordinates with what stands before them, and the tensor map.
fn tile(s: &mut Selector<'_>) -> Result<Vec<Source>, PhaseError> {
    let coordinates = length(s, 0);
    Ok(vec![place(s, 0, coordinates)?, place(s, 1, PAIR)?])
}

fn im2col(s: &Selector<'_>) -> Result<Mod, PhaseError> {
    Ok(match s.modifier::<TensorMode>()? {
        TensorMode::Tile => (name::IM2COL, value::TILE),
        TensorMode::Im2col => (name::IM2COL, value::IM2COL),
    })
}

pub(super) fn tensor_copy(s: &mut Selector<'_>) -> Done {
    let route: Route = s.modifier()?;
    let im2col = im2col(s)?;
    let mut operands = tile(s)?;
    let policy = s.operand(3);
    if route == Route::SharedToGlobal {
        let mods = [dimensions(s, 1)?, im2col];
        let ops = (Op::UTMASTG, Op::UTMASTG_HINT);
        return emit_hinted(s, ops, &mods, &operands, policy);
    }
    let dimensions = dimensions(s, 2)?;
    if s.operand(2) == Operand::None {
        let ops = (Op::UTMALDG, Op::UTMALDG_HINT);
        return emit_hinted(s, ops, &[dimensions], &operands, policy);
    }
    let multicast = match route {
        Route::Multicast => value::MULTICAST,
        _ => value::NO,
    };
    operands.push(uniform(s, 2)?);
    let mods = [dimensions, im2col, (name::MULTICAST, multicast)];
    let ops = (Op::UTMALDG_EXTRA, Op::UTMALDG_EXTRA_HINT);
    emit_hinted(s, ops, &mods, &operands, policy)
}

pub(super) fn tensor_reduce(s: &mut Selector<'_>) -> Done {
    let mods = [dimensions(s, 1)?, im2col(s)?, (name::FN, function(s)?)];
    let operands = tile(s)?;
    let policy = s.operand(2);
    let ops = (Op::UTMAREDG, Op::UTMAREDG_HINT);
    emit_hinted(s, ops, &mods, &operands, policy)
}

pub(super) fn tensor_prefetch(s: &mut Selector<'_>) -> Done {
    let dimensions = dimensions(s, 0)?;
    let mut operands = tile(s)?;
    let policy = s.operand(3);
    if s.operand(2) == Operand::None {
        let ops = (Op::UTMAPF, Op::UTMAPF_HINT);
        return emit_hinted(s, ops, &[dimensions], &operands, policy);
    }
    // Only accesses by columns have offsets.
    if s.modifier::<TensorMode>()? == TensorMode::Tile {
        return Err(s.unsupported());
    }
    operands.push(uniform(s, 2)?);
    let mods = [dimensions, im2col(s)?];
    let ops = (Op::UTMAPF_IM2COL, Op::UTMAPF_IM2COL_HINT);
    emit_hinted(s, ops, &mods, &operands, policy)
}

pub(super) fn prefetch_map(s: &mut Selector<'_>) -> Done {
    let map = place(s, 0, PAIR)?;
    s.emit_with(
        Op::UTMACCTL,
        &[(name::FN, value::PF)],
        &[map],
        Guard::ALWAYS,
    )?;
    Ok(())
}
