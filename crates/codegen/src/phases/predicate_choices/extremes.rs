//! Choices that are the smaller or the larger of two words.
//!
//! | written | becomes |
//! | --- | --- |
//! | `a < b ? a : b` and its like | `min(a, b)`, `max(a, b)` |
//! | `x >= c ? x - c : x` without sign: what is left of a sum of residues | `min(x, x - c)`: the difference wraps beyond `x` where `x` is below `c` |
//!
//! The comparison is not needed then, unless others read it, and selection makes one instruction of the difference and the minimum.
//!
//! One look at each choice: linear.

use crate::emit::{Emit, imm};
use crate::known_bits::WORD;
use crate::pipeline::PhaseError;
use cranelift_entity::EntitySet;
use orias_ori::analysis::DefUse;
use orias_ori::operation::{Combine, Compare, Sat, Scalar};
use orias_ori::{AbstractOp, Function, Guard, Inst, Operand, SourceMods, Type};

/// Makes choices the extremes that they are.
pub(super) fn find_extremes(func: &mut Function) -> Result<(), PhaseError> {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let found: Vec<(Inst, Extreme)> = insts
        .filter_map(|inst| Some((inst, extreme(func, inst)?)))
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let mut tests: EntitySet<Inst> = EntitySet::new();
    for (inst, extreme) in found {
        let &[result, _, _, condition] = func.operands(inst) else {
            continue;
        };
        let mut emit = Emit::before(func, inst);
        let mods = (extreme.scalar, Sat::Wrap);
        emit.put(
            extreme.op,
            mods,
            &[result],
            &extreme.sides,
            Guard::ALWAYS,
            &[],
        );
        emit.finish().map_err(|error| PhaseError::Broken {
            at: inst.to_string(),
            what: error.to_string(),
        })?;
        func.remove_inst(inst);
        tests.extend(
            condition
                .as_value()
                .and_then(|value| func.defining_inst(value)),
        );
    }
    // What nobody asks any more would count as a reader of what it compares.
    let chains = DefUse::new(func);
    for test in tests.iter() {
        if func
            .value_defs(test)
            .all(|value| chains.uses(value).is_empty())
        {
            func.remove_inst(test);
        }
    }
    Ok(())
}

/// What a choice is.
struct Extreme {
    op: AbstractOp,
    scalar: Scalar,
    sides: [Operand; 2],
}

/// `lesser < greater`, or `<=`.
struct Below {
    lesser: Operand,
    greater: Operand,
    strict: bool,
    scalar: Scalar,
}

/// The extreme that `inst`, a choice of words that always runs, is.
fn extreme(func: &Function, inst: Inst) -> Option<Extreme> {
    let is_choice = func.opcode(inst).as_abstract() == Some(AbstractOp::Selp)
        && func.inst(inst).guard().is_always()
        && func.value_type(func.result(inst, 0)?) == Type::R
        && func.modifier::<Scalar>(inst)?.bits() == 32;
    let &[_, yes, no, condition] = func.operands(inst) else {
        return None;
    };
    if !is_choice || !is_word(yes) || !is_word(no) {
        return None;
    }
    let Below {
        lesser,
        greater,
        strict,
        scalar,
    } = below(func, condition)?;
    let [yes, no] = match condition.mods().contains(SourceMods::NOT) {
        true => [no, yes],
        false => [yes, no],
    };
    let extreme = |op, a, b| {
        Some(Extreme {
            op,
            scalar,
            sides: [a, b],
        })
    };
    if is_same(yes, lesser) && is_same(no, greater) {
        return extreme(AbstractOp::Min, yes, no);
    }
    if is_same(yes, greater) && is_same(no, lesser) {
        return extreme(AbstractOp::Max, yes, no);
    }
    if scalar != Scalar::U32 {
        return None;
    }
    // `c <= x ? x - c : x` and `x < c ? x : x - c`.
    let (x, c, less, strict) = match (is_same(no, greater), is_same(yes, lesser)) {
        (true, _) => (no, lesser, yes, !strict),
        (_, true) => (yes, greater, no, strict),
        _ => return None,
    };
    // Beyond a number is not below the next one.
    let c = match (strict, c) {
        (true, c) => c,
        (false, Operand::Imm(number)) => {
            let next = (number.bits() & WORD) + 1;
            (next <= WORD).then(|| imm(next))?
        }
        (false, _) => return None,
    };
    is_difference(func, less, x, c).then_some(())?;
    extreme(AbstractOp::Min, x, less)
}

/// What `condition` tells of two words, or its opposite where it is read so.
fn below(func: &Function, condition: Operand) -> Option<Below> {
    let test = func.defining_inst(condition.as_value()?)?;
    let &[result, Operand::None, a, b, ..] = func.operands(test) else {
        return None;
    };
    let plain = func.opcode(test).as_abstract() == Some(AbstractOp::Setp)
        && func.inst(test).guard().is_always()
        && func.modifier::<Combine>(test) == Some(Combine::None)
        && result.as_value() == condition.as_value();
    if !plain || !is_word(a) || !is_word(b) {
        return None;
    }
    use Compare::{Ge, Gt, Hi, Hs, Le, Lo, Ls, Lt};
    let compare = func.modifier::<Compare>(test)?;
    let scalar = match (func.modifier::<Scalar>(test)?, compare) {
        (Scalar::U32 | Scalar::S32, Lo | Ls | Hi | Hs) => Scalar::U32,
        (scalar @ (Scalar::U32 | Scalar::S32), Lt | Le | Gt | Ge) => scalar,
        _ => return None,
    };
    let (lesser, greater) = match compare {
        Lt | Le | Lo | Ls => (a, b),
        _ => (b, a),
    };
    Some(Below {
        lesser,
        greater,
        strict: matches!(compare, Lt | Gt | Lo | Hi),
        scalar,
    })
}

/// Whether `operand` is a number, or a value as it stands.
fn is_word(operand: Operand) -> bool {
    matches!(operand, Operand::Imm(_)) || operand.as_value().is_some() && operand.mods().is_empty()
}

/// Whether two words are the same.
fn is_same(a: Operand, b: Operand) -> bool {
    match (a, b) {
        (Operand::Imm(a), Operand::Imm(b)) => a.bits() & WORD == b.bits() & WORD,
        _ => a.as_value().is_some() && a.as_value() == b.as_value(),
    }
}

/// Whether `less` is `x - c`.
fn is_difference(func: &Function, less: Operand, x: Operand, c: Operand) -> bool {
    let Some(inst) = less.as_value().and_then(|value| func.defining_inst(value)) else {
        return false;
    };
    let &[_, a, b] = func.operands(inst) else {
        return false;
    };
    let word = matches!(
        func.modifier::<Scalar>(inst),
        Some(Scalar::U32 | Scalar::S32 | Scalar::B32)
    );
    let plain = word
        && func.inst(inst).guard().is_always()
        && func.modifier::<Sat>(inst) == Some(Sat::Wrap)
        && is_word(a)
        && is_word(b);
    let opposite = |number: Operand| match number {
        Operand::Imm(number) => imm(number.bits().wrapping_neg() & WORD),
        other => other,
    };
    let known = matches!(c, Operand::Imm(_));
    plain
        && match func.opcode(inst).as_abstract() {
            Some(AbstractOp::Sub) => is_same(a, x) && is_same(b, c),
            Some(AbstractOp::Add) if known => {
                is_same(a, x) && is_same(b, opposite(c)) || is_same(b, x) && is_same(a, opposite(c))
            }
            _ => false,
        }
}
