//! What an instruction must be by itself. The builder asks the same questions.

use super::{Invariant, Report};
use crate::control::BARRIERS;
use crate::entity::{AddressId, Inst};
use crate::function::{Function, FunctionKind, Level};
use crate::instruction::Operation;
use crate::machine;
use crate::operand::{Address, BaseForm, Operand, SourceMods};
use crate::operation::{
    AbstractMods, AbstractOp, Arity, Kind, Modifier, Row, Scalar, Slot, Source,
};
use crate::register::{Class, Reg, RegKind, Type};
use cranelift_entity::SecondaryMap;
use orias_sass as sass;

/// Takes what is wrong.
type Sink<'a> = &'a mut dyn FnMut(Invariant, String);

/// Checks everything that can be said of `inst` without looking at other instructions.
pub(crate) fn check_instruction(func: &Function, inst: Inst, wrong: Sink<'_>) {
    let data = func.inst(inst);
    check_registers(func, inst, wrong);
    check_guard(func, inst, wrong);
    check_kept(func, inst, wrong);
    check_control(func, inst, wrong);
    if let Some(span) = data.span()
        && !func.locations.is_valid(span)
    {
        let message = format!("the function lists no location #{}", span.as_u32());
        wrong(Invariant::Span, message);
    }
    match data.operation() {
        Operation::Abstract(op, mods) => check_abstract(func, inst, op, mods, wrong),
        Operation::Machine(op, mods) => check_machine(func, inst, op, mods, wrong),
    }
}

/// Virtual and physical registers where the level has them, classes it knows, tuples aligned.
fn check_registers(func: &Function, inst: Inst, wrong: Sink<'_>) {
    let level = func.level;
    let own = func.operands(inst).iter().chain(func.kept(inst));
    let guard = func.inst(inst).guard().reg();
    let named = guard
        .into_iter()
        .chain(own.flat_map(|&operand| func.operand_regs(operand)));
    for reg in named {
        check_register(func, reg, false, wrong);
    }
    let implicit = func
        .implicit_uses(inst)
        .iter()
        .chain(func.implicit_defs(inst));
    for operand in implicit {
        match operand.reg() {
            Some(reg) => check_register(func, reg, true, wrong),
            None => wrong(
                Invariant::Signature,
                "only registers are touched without being encoded".to_owned(),
            ),
        }
    }
    if !level.is_ssa() {
        for &edge in func.edges(inst) {
            if !func.edge_args(edge).is_empty() {
                let message = "edges have no arguments after allocation";
                wrong(Invariant::Level, message.to_owned());
            }
        }
    }
}

fn check_register(func: &Function, reg: Reg, implicit: bool, wrong: Sink<'_>) {
    let level = func.level;
    match reg.kind() {
        RegKind::Value(value) => {
            let class = func.value_type(value).class();
            if !level.is_ssa() {
                let message = format!("{value} is a virtual register after allocation");
                wrong(Invariant::Level, message);
            } else if level == Level::Abstract && matches!(class, Class::UR | Class::UP) {
                let message = format!("{value} is uniform; abstract code has no uniform registers");
                wrong(Invariant::Level, message);
            }
        }
        RegKind::Phys(phys) => {
            let allowed = match level {
                Level::Abstract => false,
                Level::Machine => {
                    phys.is_constant() || implicit || func.attributes.fixed.contains(&phys)
                }
                Level::Physical | Level::Final => true,
            };
            if !allowed {
                let message = format!("{phys} is a physical register before allocation");
                wrong(Invariant::Level, message);
            }
            if !implicit && !phys.is_aligned() {
                let message = format!(
                    "{phys} does not start at a multiple of {}",
                    phys.ty().alignment()
                );
                wrong(Invariant::Tuple, message);
            }
        }
    }
}

fn check_guard(func: &Function, inst: Inst, wrong: Sink<'_>) {
    let Some(reg) = func.inst(inst).guard().reg() else {
        return;
    };
    let ty = func.reg_type(reg);
    let wanted = match func.inst(inst).operation() {
        Operation::Abstract(op, _) if op.row().takes_guard => Some(Class::P),
        Operation::Abstract(..) => None,
        Operation::Machine(op, _) => machine::guard_class(op),
    };
    match wanted {
        None => wrong(Invariant::Guard, "the operation takes no guard".to_owned()),
        Some(class) if ty != Type::single(class) => {
            let message = format!("the guard {reg} is {ty}, not {}", Type::single(class));
            wrong(Invariant::Guard, message);
        }
        Some(_) => {}
    }
}

fn check_kept(func: &Function, inst: Inst, wrong: Sink<'_>) {
    let kept = func.kept(inst);
    let wanted = func.kept_places(inst).count();
    if wanted != kept.len() {
        let message = format!("kept values needed: {wanted}, given: {}", kept.len());
        wrong(Invariant::Kept, message);
        return;
    }
    for (index, &operand) in func.kept_places(inst).zip(kept) {
        let defined = func.operands(inst)[index].reg();
        let (Some(defined), Some(value)) = (defined, operand.as_value()) else {
            wrong(Invariant::Kept, "what is kept is a value".to_owned());
            continue;
        };
        let (have, want) = (func.value_type(value), func.reg_type(defined));
        if have != want || !operand.mods().is_empty() {
            let message = format!("{value} is {have} and cannot become {defined}, which is {want}");
            wrong(Invariant::Kept, message);
        }
    }
}

fn check_control(func: &Function, inst: Inst, wrong: Sink<'_>) {
    let data = func.inst(inst);
    let control = data.control();
    let is_machine = data.opcode().as_machine().is_some();
    let wanted = func.level == Level::Final && is_machine;
    if control.is_some() != wanted {
        let message = if wanted {
            "the instruction has no control word"
        } else {
            "only machine instructions of final code have control words"
        };
        wrong(Invariant::Control, message.to_owned());
    }
    if control.is_some() {
        for (name, barrier) in [
            ("read", control.read_barrier()),
            ("write", control.write_barrier()),
        ] {
            if let Some(number) = barrier.filter(|&number| number >= BARRIERS) {
                let message = format!("there is no barrier {number} for the {name} barrier");
                wrong(Invariant::Control, message);
            }
        }
    }
}

/// An address that two operands share would change under one when the other is changed.
pub(super) fn check_shared_addresses(report: &mut Report<'_>) {
    let func = report.func;
    let mut owners: SecondaryMap<AddressId, bool> = SecondaryMap::new();
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            for &operand in func.operands(inst) {
                if let Operand::Address(id) = operand
                    && std::mem::replace(&mut owners[id], true)
                {
                    report.at(Some(block), Some(inst));
                    let message = "the address is another operand's, too";
                    report.add(Invariant::Address, message.to_owned());
                }
            }
        }
    }
    report.at(None, None);
}

fn check_abstract(
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
    let source = row.modifier::<Source>(mods).map(Scalar::from);
    for (have, allowed, kind) in [
        (scalar, row.types, Scalar::KIND),
        (source, row.sources, Source::KIND),
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

fn check_machine(func: &Function, inst: Inst, op: sass::Op, mods: sass::Mods, wrong: Sink<'_>) {
    if func.level == Level::Abstract {
        let message = format!("`{op}` does not belong in abstract code");
        wrong(Invariant::Level, message);
    }
    let slots = op.row().slots;
    let operands = func.operands(inst);
    if operands.len() != slots.len() {
        let message = format!(
            "`{op}` has {} operands, not {}",
            slots.len(),
            operands.len()
        );
        wrong(Invariant::Signature, message);
        return;
    }
    for (slot, &operand) in slots.iter().zip(operands) {
        let written = slot.access.writes();
        let fits = match operand {
            Operand::None => slot.default.is_some(),
            Operand::Reg { mods, .. } => !written || mods.is_empty(),
            _ => !written,
        };
        if !fits {
            let message = format!("`{op}` takes no such operand as its {}", slot.name);
            wrong(Invariant::Signature, message);
        }
    }
    check_edge_operands(func, inst, op, wrong);
    if !addresses_have_their_classes(func, operands, wrong) {
        return;
    }
    let Some(target) = sass::Target::from_name(&func.target) else {
        let message = format!("there is no instruction table for {}", func.target);
        wrong(Invariant::Encoding, message);
        return;
    };
    let fitted = match machine::fit(func, inst, op, mods, target) {
        Ok(fitted) => fitted,
        Err(error) => {
            wrong(Invariant::Encoding, error.to_string());
            return;
        }
    };
    for (index, place) in fitted.form().places.iter().enumerate() {
        check_place(func, op, mods, index, place, operands[index], wrong);
        if operands[index].mods().contains(SourceMods::REUSE)
            && !(func.level == Level::Final && place.reuse.exists())
        {
            let message = format!("the operand {} has no reuse flag", slots[index].name);
            wrong(Invariant::Control, message);
        }
    }
}

/// Jump targets are numbered in the order of the operands, and only a terminator has them.
fn check_edge_operands(func: &Function, inst: Inst, op: sass::Op, wrong: Sink<'_>) {
    let mut next = 0;
    for &operand in func.operands(inst) {
        match operand {
            Operand::Edge(number) => {
                if number != next || number as usize >= func.edges(inst).len() {
                    let message = format!("edge {number} is out of order");
                    wrong(Invariant::Edge, message);
                }
                next += 1;
            }
            Operand::Block(block) if machine::jumps(op) || !func.layout.contains_block(block) => {
                let message = format!("{block} is not a block that can be named here");
                wrong(Invariant::Edge, message);
            }
            _ => {}
        }
    }
}

/// The lengths of the registers at one place of the form.
fn check_place(
    func: &Function,
    op: sass::Op,
    mods: sass::Mods,
    index: usize,
    place: &sass::Place,
    operand: Operand,
    wrong: Sink<'_>,
) {
    let mut check = |reg: Reg, width: u8| {
        let constant = reg.phys().is_some_and(|reg| reg.is_constant());
        let ty = func.reg_type(reg);
        // A width of zero means that the modifiers leave the register unread.
        if !constant && width != 0 && ty.len() != width {
            let want =
                Type::tuple(ty.class(), width).map_or("nothing".to_owned(), |ty| ty.to_string());
            wrong(Invariant::Type, format!("{reg} is {ty}, not {want}"));
        }
    };
    let width = machine::slot_width(op, mods, index);
    match operand {
        Operand::Reg { reg, .. } | Operand::Descriptor(reg) => check(reg, width),
        Operand::Bindless { descriptor, .. } => check(descriptor, 2),
        Operand::Const { index, .. } => {
            if let Some(reg) = index.get() {
                check(reg, 1);
            }
        }
        Operand::Address(id) => {
            let address = func.address(id);
            if let sass::PlaceKind::Address(shape) = &place.kind {
                if let (Some(reg), Some(base)) = (address.base.get(), shape.base) {
                    check(reg, base.width);
                }
                if let Some(reg) = address.uniform.get() {
                    check(reg, shape.uniform_width);
                }
                if let Some(reg) = address.descriptor.get() {
                    check(reg, 2);
                }
            }
        }
        _ => {}
    }
}

fn addresses_have_their_classes(func: &Function, operands: &[Operand], wrong: Sink<'_>) -> bool {
    let mut right = true;
    for &operand in operands {
        let Operand::Address(id) = operand else {
            continue;
        };
        let address = func.address(id);
        for (name, reg, class) in [
            ("base", address.base, Class::R),
            ("uniform base", address.uniform, Class::UR),
            ("descriptor", address.descriptor, Class::UR),
        ] {
            if let Some(reg) = reg.get()
                && func.reg_type(reg).class() != class
            {
                let message = format!("the {name} {reg} is not of class {}", class.name());
                wrong(Invariant::Address, message);
                right = false;
            }
        }
    }
    right
}
