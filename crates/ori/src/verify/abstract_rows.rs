//! Abstract instructions against their rows.

use super::Invariant;
use super::instruction::Sink;
use crate::entity::Inst;
use crate::function::{Function, FunctionKind};
use crate::operand::{Address, BaseForm, Operand, SourceMods};
use crate::operation::{
    AbstractMods, AbstractOp, Arity, Kind, Modifier, Row, Scalar, Slot, SourceType,
};
use crate::register::{Class, Reg, Type};

pub(super) fn check_abstract(
    func: &Function,
    inst: Inst,
    op: AbstractOp,
    mods: AbstractMods,
    wrong: Sink<'_>,
) {
    let row = op.row();
    if !row.levels.contains(func.level) {
        let message = format!("`{op}` does not belong in {} code", func.level.name());
        wrong(Invariant::Level, message);
    }
    check_modifiers(row, mods, wrong);
    let (results, sources) = func.operands(inst).split_at(func.result_count(inst));
    for (slots, operands, what) in [
        (row.results, results, "results"),
        (row.operands, sources, "operands"),
    ] {
        if !arity_fits(slots, operands.len()) {
            let message = format!("`{op}` has {}, not {}", count(slots, what), operands.len());
            wrong(Invariant::Signature, message);
            return;
        }
    }
    for (index, &operand) in results.iter().enumerate() {
        check_result(func, row, slot_of(row.results, index), mods, operand, wrong);
    }
    for (index, &operand) in sources.iter().enumerate() {
        let slot = slot_of(row.operands, index);
        check_source(func, row, slot, mods, operand, wrong);
    }
    match op {
        AbstractOp::Collect | AbstractOp::Split => {
            check_parts(func, op, results, sources, wrong);
        }
        AbstractOp::ParCopy => check_copies(func, results, sources, wrong),
        AbstractOp::Ret => check_return(func, sources, wrong),
        AbstractOp::Call => check_call(sources, wrong),
        _ => {}
    }
}

fn check_modifiers(row: &Row, mods: AbstractMods, wrong: Sink<'_>) {
    for (index, kind) in row.modifiers.iter().enumerate() {
        if usize::from(mods.get(index)) >= kind.names().len() {
            let message = format!("{kind:?} has no value {}", mods.get(index));
            wrong(Invariant::Modifier, message);
            return;
        }
    }
    let scalar = row.modifier::<Scalar>(mods);
    let source = row.modifier::<SourceType>(mods).map(Scalar::from);
    for (have, allowed, kind) in [
        (scalar, row.types, Scalar::KIND),
        (source, row.sources, SourceType::KIND),
    ] {
        if let Some(have) = have
            && !allowed.contains(have)
        {
            let message = format!("`{}` does not take {have} as its {kind:?}", row.name);
            wrong(Invariant::Modifier, message);
        }
    }
}

fn arity_fits(slots: &[Slot], count: usize) -> bool {
    match slots.last() {
        Some(last) if last.arity == Arity::Many => count + 1 >= slots.len(),
        _ => count == slots.len(),
    }
}

fn count(slots: &[Slot], what: &str) -> String {
    match slots.last() {
        Some(last) if last.arity == Arity::Many => format!("{} or more {what}", slots.len() - 1),
        _ => format!("{} {what}", slots.len()),
    }
}

fn slot_of(slots: &[Slot], index: usize) -> Slot {
    slots[index.min(slots.len() - 1)]
}

fn check_result(
    func: &Function,
    row: &Row,
    slot: Slot,
    mods: AbstractMods,
    operand: Operand,
    wrong: Sink<'_>,
) {
    match operand {
        Operand::None if slot.arity == Arity::Optional => {}
        Operand::Reg { reg, mods: source } if source.is_empty() => {
            check_kind(func, row, slot.kind, mods, reg, wrong);
        }
        _ => wrong(
            Invariant::Signature,
            format!("`{}` defines registers", row.name),
        ),
    }
}

/// A register where a kind of operand is asked for.
fn check_kind(
    func: &Function,
    row: &Row,
    kind: Kind,
    mods: AbstractMods,
    reg: Reg,
    wrong: Sink<'_>,
) {
    let have = func.reg_type(reg);
    let fits = match (kind, row.register_type(kind, mods)) {
        (_, Some(want)) => have == want,
        (Kind::Tuple | Kind::Callee, None) => have.class() == Class::R,
        _ => true,
    };
    if !fits {
        let want = match row.register_type(kind, mods) {
            Some(want) => want.to_string(),
            None => "of class R".to_owned(),
        };
        wrong(Invariant::Type, format!("{reg} is {have}, not {want}"));
    }
}

fn check_source(
    func: &Function,
    row: &Row,
    slot: Slot,
    mods: AbstractMods,
    operand: Operand,
    wrong: Sink<'_>,
) {
    let kind = slot.kind;
    let register = row.register_type(kind, mods);
    // Only a predicate may be complemented on the way in; everything else is an operation of its own.
    let allowed = if register == Some(Type::P) {
        SourceMods::NOT
    } else {
        SourceMods::NONE
    };
    if !allowed.contains(operand.mods()) {
        let message = format!("`{}` takes no such source modifier", row.name);
        wrong(Invariant::Signature, message);
    }
    let fits = match operand {
        Operand::None => slot.arity == Arity::Optional,
        Operand::Reg { reg, .. } => {
            let takes =
                register.is_some() || matches!(kind, Kind::Tuple | Kind::Any | Kind::Callee);
            if takes {
                check_kind(func, row, kind, mods, reg, wrong);
            }
            takes
        }
        Operand::Imm(imm) => match register {
            Some(ty) => immediate_fits(imm.bits(), ty),
            None => kind == Kind::Imm || row.name == AbstractOp::ParCopy.row().name,
        },
        Operand::Const { .. } => register.is_some_and(|ty| ty.class() == Class::R),
        Operand::Address(id) => {
            if kind == Kind::Address {
                check_abstract_address(func, func.address(id), wrong);
            }
            kind == Kind::Address
        }
        Operand::Symbol { .. } => {
            matches!(kind, Kind::Symbol | Kind::Callee)
                || row.name == AbstractOp::Call.row().name && slot.arity == Arity::Many
        }
        Operand::Block(block) => kind == Kind::Block && func.layout.contains_block(block),
        Operand::Bindless { .. }
        | Operand::Descriptor(_)
        | Operand::Special(_)
        | Operand::Edge(_) => false,
    };
    if !fits {
        let message = format!("`{}` takes {kind:?} here", row.name);
        wrong(Invariant::Signature, message);
    }
}

/// Whether a pattern has only bits that registers of `ty` have, as a number without or with sign.
fn immediate_fits(bits: u64, ty: Type) -> bool {
    match (ty.class(), ty.len()) {
        (Class::P, _) => bits <= 1,
        (Class::R, 1) => bits <= u64::from(u32::MAX) || bits as i64 >= i64::from(i32::MIN),
        (Class::R, 2) => true,
        _ => false,
    }
}

fn check_abstract_address(func: &Function, address: &Address, wrong: Sink<'_>) {
    let base = address.base.get();
    let base_fits = base.is_none_or(|reg| {
        let ty = func.reg_type(reg);
        ty.class() == Class::R && ty.len() <= 2
    });
    let plain = address.uniform.get().is_none()
        && address.descriptor.get().is_none()
        && address.form == BaseForm::Plain;
    if !base_fits || !plain {
        let message = "an address in abstract code is a base of one or two general registers, a name and an offset";
        wrong(Invariant::Address, message.to_owned());
    }
}

fn check_parts(
    func: &Function,
    op: AbstractOp,
    results: &[Operand],
    sources: &[Operand],
    wrong: Sink<'_>,
) {
    let (whole, parts) = match op {
        AbstractOp::Collect => (results, sources),
        _ => (sources, results),
    };
    let Some(whole) = whole.first().and_then(|operand| operand.reg()) else {
        return;
    };
    let whole = func.reg_type(whole);
    let mut total = 0;
    for reg in parts.iter().filter_map(|operand| operand.reg()) {
        let ty = func.reg_type(reg);
        total += usize::from(ty.len());
        if ty.class() != whole.class() {
            let message = format!("{reg} is {ty}, the tuple {whole}: one class only");
            wrong(Invariant::Tuple, message);
        }
    }
    if total != usize::from(whole.len()) {
        let message = format!(
            "the parts have {total} registers, the tuple {}",
            whole.len()
        );
        wrong(Invariant::Tuple, message);
    }
}

fn check_copies(func: &Function, results: &[Operand], sources: &[Operand], wrong: Sink<'_>) {
    if results.len() != sources.len() {
        let message = format!(
            "{} registers are copied to {}",
            sources.len(),
            results.len()
        );
        wrong(Invariant::Tuple, message);
        return;
    }
    for (result, source) in results.iter().zip(sources) {
        if let (Some(result), Some(source)) = (result.reg(), source.reg()) {
            let (to, from) = (func.reg_type(result), func.reg_type(source));
            let zero = source.phys().is_some_and(|reg| reg.is_constant());
            let fits = to == from || zero && to.class() == from.class();
            if !fits {
                let message = format!("{source} is {from}, {result} is {to}");
                wrong(Invariant::Tuple, message);
            }
        }
    }
}

fn check_return(func: &Function, sources: &[Operand], wrong: Sink<'_>) {
    if func.kind == FunctionKind::Entry {
        let message = "a kernel has no caller to return to";
        wrong(Invariant::Call, message.to_owned());
        return;
    }
    let returned: Vec<Option<Type>> = sources
        .iter()
        .map(|operand| operand.reg().map(|reg| func.reg_type(reg)))
        .collect();
    let wanted: Vec<Option<Type>> = func.results.iter().map(|&ty| Some(ty)).collect();
    if returned != wanted {
        let list = |types: &[Option<Type>]| {
            let names: Vec<String> = types
                .iter()
                .map(|ty| ty.map_or_else(|| "?".to_owned(), |ty| ty.to_string()))
                .collect();
            names.join(", ")
        };
        let message = format!(
            "returns ({}), but the function's results are ({})",
            list(&returned),
            list(&wanted)
        );
        wrong(Invariant::Call, message);
    }
}

/// Names come last, and only after a call through a register: they are all it may reach.
fn check_call(sources: &[Operand], wrong: Sink<'_>) {
    let is_name = |operand: &Operand| matches!(operand, Operand::Symbol { .. });
    let Some((callee, rest)) = sources.split_first() else {
        return;
    };
    let arguments = rest.iter().take_while(|operand| !is_name(operand)).count();
    let targets = &rest[arguments..];
    if !targets.iter().all(is_name) {
        let message = "possible targets come after the arguments";
        wrong(Invariant::Call, message.to_owned());
    }
    if is_name(callee) && !targets.is_empty() {
        let message = "a call by name has one target";
        wrong(Invariant::Call, message.to_owned());
    }
}
