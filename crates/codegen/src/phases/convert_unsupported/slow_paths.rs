//! Slow paths that stand once and are called: the long way of divisions and roots, for operands that the short one gets wrong.
//!
//! A correctly rounded division is a dozen instructions for most operands and fifty or more for the rest. Where a function divides in many places, the rest is called: it is a function of its own
//! ([`slow_path`]), behind the kernel in its text, with a convention of its own that changes few registers ([`Abi::slow_paths`](orias_machine::abi::Abi::slow_paths)).
//!
//! Until shortly before selection the call is the operation itself, in a block that hardly ever runs: no analysis has to know of it, and the interpreter runs it. [`call_slow_paths`]
//! (CallSlowPaths, 10076) makes calls of such operations. Where ConvertUnsupportedOps writes the slow path in place ([`Plan`]):
//!
//! - where the copies are short together: what lives across a call has to be elsewhere than in the registers that it changes, which takes more of them than a copy in place does, so that calling
//!   is for functions whose copies would fill the instruction cache ([`WORTH_CALLING`]);
//! - where few registers may be used;
//! - in code for a linker.
//!
//! Slow paths have no branches, so lanes that call them together come back together.

use super::{Asked, double, single};
use crate::emit::{Emit, imm};
use crate::knobs::registry;
use crate::module::near_name;
use crate::pipeline::{Context, PhaseError};
use crate::regalloc;
use orias_machine::Machine;
use orias_machine::abi::{Abi, Convention};
use orias_ori::builder::BuildError;
use orias_ori::operation::{Ftz, Precision, Round, Scalar};
use orias_ori::{
    AbstractMods, AbstractOp, Class, Function, FunctionKind, Guard, Inst, Level, Operand,
    Operation, PhysReg, SymbolPart, Type, Value,
};
use orias_sass::Target;

/// Writes the computation and yields its result.
type Body = fn(&mut Emit<'_>, &[Operand]) -> Operand;

/// A slow path.
pub struct SlowPath {
    /// What it is called. No function of a source has a dot in its name.
    pub name: &'static str,
    /// The operation, which says what it computes.
    pub op: AbstractOp,
    /// The type of operands and result.
    pub scalar: Scalar,
    /// How many instructions it takes, about.
    size: usize,
    round: Option<Round>,
    ftz: Ftz,
    body: Body,
}

const fn row(
    name: &'static str,
    op: AbstractOp,
    (scalar, size): (Scalar, usize),
    round: Option<Round>,
    ftz: Ftz,
    body: Body,
) -> SlowPath {
    SlowPath {
        name,
        op,
        scalar,
        size,
        round,
        ftz,
        body,
    }
}

/// All of them.
#[rustfmt::skip]
pub const SLOW_PATHS: [SlowPath; 12] = {
    use AbstractOp::{Fdiv, Sqrt};
    use Ftz::{Ftz as F, Keep};
    use Scalar::{F32, F64};
    const RN: Option<Round> = Some(Round::Rn);
    const RZ: Option<Round> = Some(Round::Rz);
    const RM: Option<Round> = Some(Round::Rm);
    const RP: Option<Round> = Some(Round::Rp);
    [
        row("div.rn.f32", Fdiv, (F32, 40), RN, Keep, |emit, a| single::quotient_by_double(emit, Round::Rn, Keep, a[0], a[1])),
        row("div.rn.ftz.f32", Fdiv, (F32, 48), RN, F, |emit, a| single::quotient_by_double(emit, Round::Rn, F, a[0], a[1])),
        row("sqrt.rn.f32", Sqrt, (F32, 36), RN, Keep, |emit, a| single::root_by_double(emit, Round::Rn, Keep, a[0])),
        row("sqrt.rn.ftz.f32", Sqrt, (F32, 40), RN, F, |emit, a| single::root_by_double(emit, Round::Rn, F, a[0])),
        row("div.rn.f64", Fdiv, (F64, 136), RN, Keep, |emit, a| double::long_quotient(emit, Round::Rn, a[0], a[1])),
        row("div.rz.f64", Fdiv, (F64, 136), RZ, Keep, |emit, a| double::long_quotient(emit, Round::Rz, a[0], a[1])),
        row("div.rm.f64", Fdiv, (F64, 136), RM, Keep, |emit, a| double::long_quotient(emit, Round::Rm, a[0], a[1])),
        row("div.rp.f64", Fdiv, (F64, 136), RP, Keep, |emit, a| double::long_quotient(emit, Round::Rp, a[0], a[1])),
        row("sqrt.rn.f64", Sqrt, (F64, 60), RN, Keep, |emit, a| double::long_root(emit, Round::Rn, a[0])),
        row("sqrt.rz.f64", Sqrt, (F64, 60), RZ, Keep, |emit, a| double::long_root(emit, Round::Rz, a[0])),
        row("sqrt.rm.f64", Sqrt, (F64, 60), RM, Keep, |emit, a| double::long_root(emit, Round::Rm, a[0])),
        row("sqrt.rp.f64", Sqrt, (F64, 60), RP, Keep, |emit, a| double::long_root(emit, Round::Rp, a[0])),
    ]
};

impl SlowPath {
    /// What code calls it.
    fn symbol(&self) -> String {
        near_name(self.name)
    }

    fn ty(&self) -> Type {
        match self.scalar {
            Scalar::F64 => Type::R2,
            _ => Type::R,
        }
    }

    /// How its operands are moved.
    fn bits(&self) -> Scalar {
        match self.scalar {
            Scalar::F64 => Scalar::B64,
            _ => Scalar::B32,
        }
    }

    fn arguments(&self) -> usize {
        match self.op {
            AbstractOp::Fdiv => 2,
            _ => 1,
        }
    }

    /// The one that code calls `symbol`.
    fn named(symbol: &str) -> Option<&'static SlowPath> {
        let name = symbol.strip_prefix(&near_name(""))?;
        SLOW_PATHS.iter().find(|path| path.name == name)
    }

    /// The slow path of an operation. A reciprocal has that of a division of one.
    fn of(asked: Asked) -> Option<&'static SlowPath> {
        let scalar = asked.scalar();
        let op = match asked.op {
            AbstractOp::Rcp => AbstractOp::Fdiv,
            op => op,
        };
        let round = match asked.modifier::<Precision>()? {
            Precision::Ieee => match asked.modifier::<Round>() {
                Some(Round::Default) | None => Some(Round::Rn),
                round => round,
            },
            _ => return None,
        };
        let ftz = asked.modifier::<Ftz>().unwrap_or(Ftz::Keep);
        SLOW_PATHS.iter().find(|path| {
            path.op == op && path.scalar == scalar && path.round == round && path.ftz == ftz
        })
    }
}

/// Whether code calls a slow path `symbol`.
#[must_use]
pub fn is_slow_path(symbol: &str) -> bool {
    SlowPath::named(symbol).is_some()
}

/// The convention by which code calls the slow path `symbol`, if that is one.
pub(crate) fn slow_path_convention(symbol: &str, abi: &Abi) -> Option<Convention> {
    let path = SlowPath::named(symbol)?;
    Some(abi.slow_paths(path.scalar == Scalar::F64))
}

/// The slow path that code calls `symbol`, as a function.
pub fn slow_path(symbol: &str, target: Target) -> Option<Result<Function, BuildError>> {
    let path = SlowPath::named(symbol)?;
    let mut func = Function::new(path.symbol(), FunctionKind::Device, Level::Abstract, target);
    let entry = func.append_block();
    let arguments: Vec<Operand> = (0..path.arguments())
        .map(|_| func.append_block_param(entry, path.ty()).into())
        .collect();
    func.results = vec![path.ty()];
    let convention = slow_path_convention(symbol, Machine::of(target).abi);
    let predicates = convention.and_then(|convention| convention.predicates);
    let kept = predicates.and_then(|index| PhysReg::new(Class::R, index));
    func.attributes.fixed.extend(kept);
    let mut emit = Emit::at_end(&mut func, entry, None);
    let result = (path.body)(&mut emit, &arguments);
    let result = emit.as_value(path.bits(), result);
    emit.end(AbstractOp::Ret, &[result.into()], &[]);
    Some(emit.finish().map(|()| func))
}

/// Which slow paths of a function are called.
#[derive(Default)]
pub(super) struct Plan {
    called: Vec<&'static str>,
}

/// So many instructions calls must spare: a fifth of what the instruction cache next to the multiprocessor's holds (32 KiB).
const WORTH_CALLING: usize = 384;

/// So many registers a function must be allowed to use that calls slow paths.
const ENOUGH: u8 = 64;

impl Plan {
    pub(super) fn new(func: &Function, context: &Context<'_>) -> Plan {
        let mut plan = Plan::default();
        if !context.knobs.bool(&registry::CALL_SLOW_PATHS)
            || func.attributes.relocatable
            || regalloc::limit(func, context.machine.registers, Class::R) < ENOUGH
        {
            return plan;
        }
        let insts = func.blocks().flat_map(|block| func.block_insts(block));
        let uses: Vec<&SlowPath> = insts
            .filter_map(|inst| SlowPath::of(asked(func, inst)?))
            .collect();
        for path in &SLOW_PATHS {
            let count = uses.iter().filter(|it| it.name == path.name).count();
            // One copy is needed either way.
            if count.saturating_sub(1) * path.size >= WORTH_CALLING {
                plan.called.push(path.name);
            }
        }
        plan
    }

    /// Whether the slow path of `asked` is called.
    pub(super) fn calls(&self, asked: Asked) -> bool {
        !self.called.is_empty()
            && SlowPath::of(asked).is_some_and(|path| self.called.contains(&path.name))
    }
}

fn asked(func: &Function, inst: Inst) -> Option<Asked> {
    match func.inst(inst).operation() {
        Operation::Abstract(op, mods) => Some(Asked { op, mods }),
        Operation::Machine(..) => None,
    }
}

/// Runs phase 10076: operations with a slow path that are still there become calls. Most are in rare blocks; where it turned out that nothing but the long way is
/// ever taken, it stands in the block before.
pub fn call_slow_paths(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let left: Vec<(Inst, &SlowPath)> = insts
        .filter_map(|inst| Some((inst, SlowPath::of(asked(func, inst)?)?)))
        .collect();
    for (inst, path) in left {
        call(func, inst, path).map_err(|error| PhaseError::Broken {
            at: orias_ori::print_inst(func, inst),
            what: error.to_string(),
        })?;
    }
    Ok(())
}

/// Makes `inst` a call of its slow path.
fn call(func: &mut Function, inst: Inst, path: &SlowPath) -> Result<(), BuildError> {
    let results = func.result_count(inst);
    let mut sources = func.operands(inst)[results..].to_vec();
    if sources.len() < path.arguments() {
        sources.insert(0, path.one());
    }
    let given: Vec<Operand> = func.operands(inst)[..results].to_vec();
    let (guard, kept) = (func.inst(inst).guard(), func.kept(inst).to_vec());
    let mut emit = Emit::before(func, inst);
    let values: Vec<Value> = sources
        .into_iter()
        .map(|source| emit.as_value(path.bits(), source))
        .collect();
    emit.finish()?;
    let symbol = func.symbol(&path.symbol());
    let callee = Operand::Symbol {
        symbol,
        part: SymbolPart::Whole,
        addend: 0,
    };
    // A call under a guard is made by all: it has no effect but its result, which is moved where the guard holds.
    let guarded = !guard.is_always();
    let mut operands = match guarded {
        true => vec![func.create_value(path.ty()).into()],
        false => given.clone(),
    };
    let made = operands.clone();
    operands.push(callee);
    operands.extend(values.into_iter().map(Operand::from));
    let mods = AbstractMods::NONE;
    func.set_guard(inst, Guard::ALWAYS);
    func.replace_with_abstract(inst, AbstractOp::Call, mods, results, &operands);
    let kept = kept.first().and_then(|kept| kept.as_value());
    if let (true, Some(kept), Some(next)) = (guarded, kept, func.layout.next_inst(inst)) {
        let mut emit = Emit::before(func, next);
        let moves = (path.bits(),);
        emit.put(AbstractOp::Mov, moves, &given, &made, guard, &[kept]);
        emit.finish()?;
    }
    Ok(())
}

impl SlowPath {
    /// The number one.
    fn one(&self) -> Operand {
        match self.scalar {
            Scalar::F64 => imm(1f64.to_bits()),
            _ => imm(1f32.to_bits().into()),
        }
    }
}
