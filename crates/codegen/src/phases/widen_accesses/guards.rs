//! Guards of accesses that become one: whether all of them hold, and each of them once more where accesses stay as they were.

use crate::emit::{Emit, imm};
use orias_ori::builder::BuildError;
use orias_ori::operation::{Compare, Scalar};
use orias_ori::{AbstractOp, Block, Function, Guard, Inst, Operand, Operation, Value};
use rustc_hash::FxHashMap;

/// Guards that were computed again in a block.
#[derive(Default)]
pub(super) struct Guards(FxHashMap<Value, Value>);

impl Guards {
    /// Computes the guard of `inst` again at the end of `narrow`: most ways need no single one of them, and there are few predicates to keep them in from loads to stores.
    pub(super) fn compute_again(
        &mut self,
        func: &mut Function,
        narrow: Block,
        inst: Inst,
    ) -> Result<(), BuildError> {
        let guard = func.inst(inst).guard();
        let Some(own) = guard.reg().and_then(|reg| reg.value()) else {
            return Ok(());
        };
        let value = match self.0.get(&own) {
            Some(&known) => known,
            None => {
                let span = func.inst(inst).span();
                let mut emit = Emit::at_end(func, narrow, span);
                let value = computed_again(&mut emit, own, 2);
                emit.finish()?;
                self.0.insert(own, value);
                value
            }
        };
        let again = match guard.is_negated() {
            true => Guard::unless(value),
            false => Guard::when(value),
        };
        func.set_guard(inst, again);
        Ok(())
    }
}

/// `value`, computed once more if it is a comparison, or a number off a place that is known.
fn computed_again(emit: &mut Emit<'_>, value: Value, depth: u32) -> Value {
    let func = &*emit.func();
    let Some(inst) = func.defining_inst(value).filter(|_| depth > 0) else {
        return value;
    };
    let Operation::Abstract(op, mods) = func.inst(inst).operation() else {
        return value;
    };
    let cheap = matches!(op, AbstractOp::Setp | AbstractOp::Or | AbstractOp::Add)
        && func.inst(inst).guard().is_always()
        && func.value_defs(inst).count() == 1;
    let mut operands = func.operands(inst)[func.result_count(inst)..].to_vec();
    let known = operands.iter().any(|it| matches!(it, Operand::Imm(_)));
    if !cheap || (op != AbstractOp::Setp && !known) {
        return value;
    }
    for operand in &mut operands {
        if let Some(own) = operand.as_value().filter(|_| operand.mods().is_empty()) {
            *operand = computed_again(emit, own, depth - 1).into();
        }
    }
    let again = emit.again(op, mods, &operands);
    again.as_value().unwrap_or(value)
}

/// Whether all guards hold.
pub(super) fn all_hold(emit: &mut Emit<'_>, guards: &[Guard]) -> Operand {
    let bounds: Vec<Option<Bound>> = (guards.iter())
        .map(|&guard| Bound::of(emit.func(), guard))
        .collect();
    let implied = |at: usize| {
        bounds[at].is_some_and(|own| {
            let others = bounds.iter().enumerate().filter(|&(other, _)| other != at);
            others
                .flat_map(|(other, it)| it.map(|it| (other, it)))
                .any(|(other, it)| it.implies(own) && (!own.implies(it) || other < at))
        })
    };
    let asked: Vec<Guard> = (guards.iter().enumerate())
        .filter(|&(at, _)| !implied(at))
        .map(|(_, &guard)| guard)
        .collect();
    let mut all: Option<Operand> = None;
    for guard in asked {
        let Some(value) = guard.reg().and_then(|reg| reg.value()) else {
            continue;
        };
        let value = Operand::from(value);
        let term = match guard.is_negated() {
            true => emit.op(AbstractOp::Not, (Scalar::Pred,), &[value]),
            false => value,
        };
        all = Some(match all {
            Some(all) => emit.op(AbstractOp::And, (Scalar::Pred,), &[all, term]),
            None => term,
        });
    }
    all.unwrap_or(imm(1))
}

/// A guard that says that a number, with some of its bits set, is below a bound.
#[derive(Clone, Copy)]
struct Bound {
    compare: Compare,
    scalar: Scalar,
    bound: Operand,
    number: Value,
    bits: u64,
}

impl Bound {
    fn of(func: &Function, guard: Guard) -> Option<Self> {
        let inst = func.defining_inst(guard.reg()?.value()?)?;
        let plain = func.opcode(inst).as_abstract() == Some(AbstractOp::Setp)
            && func.inst(inst).guard().is_always()
            && !guard.is_negated();
        let compare = func.modifier::<Compare>(inst)?;
        let scalar = func.modifier::<Scalar>(inst)?;
        let below = matches!(compare, Compare::Lt | Compare::Le)
            && matches!(scalar, Scalar::S32 | Scalar::U32);
        let operands = &func.operands(inst)[func.result_count(inst)..];
        let (&first, &bound) = (operands.first()?, operands.get(1)?);
        let alone = operands[2..].iter().all(|it| *it == Operand::None);
        let number = first.as_value().filter(|_| first.mods().is_empty())?;
        let (number, bits) = with_bits(func, number).unwrap_or((number, 0));
        (plain && below && alone && bits < 1 << 31).then_some(Self {
            compare,
            scalar,
            bound,
            number,
            bits,
        })
    }

    /// Whether `other` holds where this does: its number has fewer bits set, the sign not among them, and so is no larger.
    fn implies(self, other: Self) -> bool {
        (self.compare, self.scalar, self.bound, self.number)
            == (other.compare, other.scalar, other.bound, other.number)
            && self.bits & other.bits == other.bits
    }
}

/// The number that `value` is, with known bits set.
fn with_bits(func: &Function, value: Value) -> Option<(Value, u64)> {
    let inst = func.defining_inst(value)?;
    let plain = func.opcode(inst).as_abstract() == Some(AbstractOp::Or)
        && func.modifier::<Scalar>(inst)?.bits() == 32
        && func.inst(inst).guard().is_always();
    match func.operands(inst) {
        &[_, number, Operand::Imm(bits)] if plain && number.mods().is_empty() => {
            Some((number.as_value()?, bits.bits() & 0xffff_ffff))
        }
        _ => None,
    }
}
