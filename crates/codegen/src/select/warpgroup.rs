//! Matrix products of a warp group: HGMMA, QGMMA, IGMMA and BGMMA.
//!
//! The accumulator is changed in place. Descriptors are uniform registers: both in four, A's first; where A is in registers, B's is in the upper
//! two. The last product before `wgmma.commit_group` ends the group (`gsb0`).
//!
//! A group that has no product of its own block before it, and a product that no commit of its own block follows, make counting groups
//! hopeless; a function with one of these ends a group with every product and waits for all of them.

use super::emission::Mod;
use super::selector::{Selector, rz};
use super::source::Source;
use super::{matrix, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::{self, AbstractOp, Sat, Scalar, Second};
use orias_ori::{AbstractMods, Class, Function, Operand, SourceMods, Type, Value};
use orias_sass::Op;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;
use orias_sass::{ModifierName, ValueName};

type Done = Result<(), PhaseError>;

/// Whether every group has products in the block where it is committed, and every product is committed in its block.
pub(super) fn groups_are_plain(func: &Function) -> bool {
    func.blocks().all(|block| {
        let mut open = false;
        let plain = func.block_insts(block).all(|inst| {
            match func.opcode(inst).as_abstract() {
                Some(AbstractOp::Wgmma | AbstractOp::WgmmaSparse) => open = true,
                Some(AbstractOp::WgmmaCommit) => return std::mem::take(&mut open),
                Some(AbstractOp::WgmmaWait) => return !open,
                _ => {}
            }
            true
        });
        plain && !open
    })
}

pub(super) fn fence(s: &mut Selector<'_>) -> Done {
    s.gather_lanes()?;
    s.emit_guarded(Op::WARPGROUP_ARRIVE, &[], sources![])?;
    Ok(())
}

/// The next product upwards ends the group.
pub(super) fn commit(s: &mut Selector<'_>) -> Done {
    s.group_ends = Some(s.block);
    Ok(())
}

pub(super) fn wait(s: &mut Selector<'_>) -> Done {
    s.gather_lanes()?;
    let groups = match s.operand(0) {
        Operand::Imm(groups) if s.plain_groups => groups.bits(),
        _ => 0,
    };
    let mods = [(name::LE, value::LE), (name::GSB, value::GSB0)];
    s.emit_guarded(Op::WARPGROUP_DEPBAR, &mods, sources![Operand::imm(groups)])?;
    Ok(())
}

/// The operation of a product and the depth of one step.
fn operation_of(
    s: &Selector<'_>,
    sparse: bool,
    in_registers: bool,
) -> Result<Option<(Op, u32)>, PhaseError> {
    let result: Scalar = s.modifier()?;
    let left: Scalar = s.modifier::<operation::SourceType>()?.into();
    let half = result == Scalar::F16;
    // Dense and sparse; of each, with the left matrix in memory and in registers.
    let (ops, depth) = match left {
        Scalar::F16 | Scalar::Bf16 if half => (
            [
                [Op::HGMMA_F16, Op::HGMMA_F16_RA],
                [Op::HGMMA_SP_F16, Op::HGMMA_SP_F16_RA],
            ],
            16,
        ),
        Scalar::F16 | Scalar::Bf16 => (
            [
                [Op::HGMMA_F32, Op::HGMMA_F32_RA],
                [Op::HGMMA_SP_F32, Op::HGMMA_SP_F32_RA],
            ],
            16,
        ),
        Scalar::Tf32 => (
            [
                [Op::HGMMA_TF32, Op::HGMMA_TF32_RA],
                [Op::HGMMA_SP_TF32, Op::HGMMA_SP_TF32_RA],
            ],
            8,
        ),
        Scalar::E4m3 | Scalar::E5m2 if half => (
            [
                [Op::QGMMA_F16, Op::QGMMA_F16_RA],
                [Op::QGMMA_SP_F16, Op::QGMMA_SP_F16_RA],
            ],
            32,
        ),
        Scalar::E4m3 | Scalar::E5m2 => (
            [
                [Op::QGMMA_F32, Op::QGMMA_F32_RA],
                [Op::QGMMA_SP_F32, Op::QGMMA_SP_F32_RA],
            ],
            32,
        ),
        Scalar::U8 | Scalar::S8 => (
            [[Op::IGMMA, Op::IGMMA_RA], [Op::IGMMA_SP, Op::IGMMA_SP_RA]],
            32,
        ),
        Scalar::B1 if !sparse => ([[Op::BGMMA, Op::BGMMA_RA]; 2], 256),
        _ => return Ok(None),
    };
    let op = ops[usize::from(sparse)][usize::from(in_registers)];
    Ok(Some((op, if sparse { 2 * depth } else { depth })))
}

/// The modifiers that name types.
fn types(s: &Selector<'_>) -> Result<Vec<Mod>, PhaseError> {
    let left: Scalar = s.modifier::<operation::SourceType>()?.into();
    let second = s.modifier::<Second>()?;
    let name = |scalar| match scalar {
        Scalar::E4m3 => value::E4M3,
        Scalar::E5m2 => value::E5M2,
        Scalar::U8 => value::U8,
        _ => value::S8,
    };
    let right = match second {
        Second::E4m3 => value::E4M3,
        Second::E5m2 => value::E5M2,
        Second::U8 => value::U8,
        Second::S8 => value::S8,
        _ => name(left),
    };
    Ok(match left {
        Scalar::F16 => vec![(name::TYPE, value::F16)],
        Scalar::Bf16 => vec![(name::TYPE, value::BF16)],
        Scalar::E4m3 | Scalar::E5m2 => vec![(name::TA, name(left)), (name::TB, right)],
        Scalar::U8 | Scalar::S8 => {
            let sat = match s.modifier::<Sat>()? {
                Sat::Satfinite => value::SAT,
                _ => value::NO,
            };
            vec![(name::TA, name(left)), (name::TB, right), (name::SAT, sat)]
        }
        Scalar::B1 => vec![(name::FN, value::AND), (name::SUM, value::POPC)],
        _ => Vec::new(),
    })
}

pub(super) fn multiply(s: &mut Selector<'_>) -> Done {
    let sparse = s.op() == Some(AbstractOp::WgmmaSparse);
    let left = s.operand(1);
    let in_registers = left
        .as_value()
        .is_some_and(|value| s.func.value_type(value).len() == 4);
    let Some((op, depth)) = operation_of(s, sparse, in_registers)? else {
        return Err(s.unsupported());
    };
    s.gather_lanes()?;
    let flags =
        [5, 6, 7, 8].map(|index| matches!(s.operand(index), Operand::Imm(imm) if imm.bits() != 0));
    let [negate_left, negate_right, turn_left, turn_right] = flags;
    let words = match s.operand(3) {
        Operand::Imm(words) => words.bits(),
        _ => return Err(s.broken("the size is not a number")),
    };
    let packed = s.modifier::<Scalar>()? == Scalar::F16;
    let columns = if packed { 4 * words } else { 2 * words };
    let shape = format!("64x{columns}x{depth}");
    let ends = s.group_ends.take() == Some(s.block) || !s.plain_groups;
    let mut mods = types(s)?;
    let shapes = op.row().modifier(name::SHAPE);
    let shape = shapes.and_then(|shapes| shapes.value_name(&shape));
    mods.push((name::SHAPE, shape.ok_or_else(|| s.unsupported())?));
    mods.push((name::GSB, if ends { value::GSB0 } else { value::NONE }));
    let mut flag = |set: bool, name: ModifierName, value: ValueName| {
        if set {
            mods.push((name, value));
        }
    };
    flag(negate_left && !in_registers, name::NEGA, value::NEGA);
    flag(negate_right, name::NEGB, value::NEGB);
    flag(turn_left, name::TNSPA, value::TNSPA);
    flag(turn_right, name::TNSPB, value::TNSPB);
    // Whether the accumulator takes part.
    let scale = s.predicate(4);
    let (adds, never) = match scale.operand {
        Operand::Imm(imm) => (matrix::upt(), imm.bits() == 0),
        _ => uniform_predicate(s, scale)?,
    };
    let adds = match never {
        true => adds.with_mods(SourceMods::NOT).unwrap_or(adds),
        false => adds,
    };
    let Some(sum) = s.operand(0).as_value() else {
        return Err(s.unsupported());
    };
    // Where nobody reads the sum, the product still belongs to its group, and writes registers.
    let value = match s.result(0).as_value() {
        Some(value) => value,
        None => s.temporary(s.func.value_type(sum)),
    };
    let result = Operand::from(value);
    s.kept.clear();
    if !never {
        s.keep(value, sum);
    }
    let right = s.operand(2);
    let descriptor = descriptor(s, if in_registers { right } else { left }, right)?;
    let mut operands: Vec<Source> = vec![result.into()];
    if in_registers {
        let left = match negate_left {
            true => left.with_mods(SourceMods::NEGATE).unwrap_or(left),
            false => left,
        };
        operands.push(left.into());
    }
    // C is D; which register that is turns out later.
    operands.extend([
        Source::from(Operand::Descriptor(descriptor.into())),
        rz().into(),
        adds.into(),
    ]);
    if sparse {
        let metadata = s.word(9);
        let metadata = s.in_register(metadata)?;
        operands.extend([Source::from(metadata), s.operand(10).into()]);
    }
    s.emit(op, &mods, &operands)?;
    Ok(())
}

/// A predicate that all lanes agree on, in a uniform register; whether it is known to be false.
fn uniform_predicate(
    s: &mut Selector<'_>,
    predicate: Source,
) -> Result<(Operand, bool), PhaseError> {
    let constant = predicate.operand.reg().is_some_and(|reg| reg.is_constant());
    if constant {
        let inverted = predicate.operand.mods().contains(SourceMods::NOT);
        return Ok((matrix::upt(), inverted));
    }
    let uniform = s.temporary(Type::UP);
    let urz = super::selector::urz();
    s.emit(
        Op::VOTEU,
        &[(name::MODE, value::ANY)],
        sources![urz, uniform, predicate],
    )?;
    Ok((uniform.into(), false))
}

/// Two descriptors in four uniform registers.
fn descriptor(s: &mut Selector<'_>, left: Operand, right: Operand) -> Result<Value, PhaseError> {
    let mut operands = Vec::new();
    for pair in [left, right] {
        for word in s.words_of(pair) {
            let uniform = s.temporary(Type::single(Class::UR));
            match word.constant() {
                Some(bits) => s.emit(
                    Op::UMOV,
                    &[],
                    sources![uniform, Operand::imm(bits & 0xffff_ffff)],
                )?,
                None => {
                    let word = s.in_register(word)?;
                    s.emit(
                        Op::R2UR,
                        &[],
                        sources![super::selector::pt(), uniform, word],
                    )?
                }
            };
            operands.push(Operand::from(uniform));
        }
    }
    let ty = Type::tuple(Class::UR, 4).ok_or_else(|| s.broken("no four uniform registers"))?;
    let whole = s.temporary(ty);
    operands.insert(0, whole.into());
    let mods = AbstractMods::NONE;
    let collect = s
        .func
        .create_abstract(AbstractOp::Collect, mods, 1, &operands);
    s.insert(collect);
    Ok(whole)
}
