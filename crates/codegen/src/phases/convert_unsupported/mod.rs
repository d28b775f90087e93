//! ConvertUnsupportedOps (5): legalisation. Operations no instruction of the machine does become operations that one does.
//!
//! What goes: integer division and remainder, correctly rounded division, reciprocal and square root, approximate
//! functions of subnormal numbers, 64-bit operations on bits, 16-bit operations that would need the unspecified high bits of
//! their operands, saturating and odd integer operations, cache policies that are not constant. What stays is what selection has a pattern for: see
//! `docs/lowering.md`.
//!
//! Each expansion is a function that writes code in front of the instruction and returns the operand that stands for its
//! result ([`Expansion`]). Where the common case is short and the rare one long, the instruction's block is cut and the rare
//! case gets a block of its own ([`Expander::rarely`]), or is called ([`slow_paths`]). A guard stays on the last step: what is computed before has no effect.
//!
//! Instructions that an expansion makes are looked at in turn, until nothing is left to expand.

mod bits;
mod constant;
mod double;
mod functions;
mod integer;
mod narrow;
mod policy;
mod quotient;
mod ranges;
mod single;
mod slow_paths;

pub(crate) use functions::quotient_factors;
pub(crate) use slow_paths::slow_path_convention;
pub use slow_paths::{SLOW_PATHS, call_slow_paths, is_slow_path, slow_path};

use crate::emit::{Emit, imm};
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use orias_ori::builder::BuildError;
use orias_ori::operation::{
    AbstractMods, AbstractOp, Compare, Half, Modifier, Precision, Scalar, SourceType,
};
use orias_ori::{Block, Function, Inst, Opcode, Operand, Operation, Reg, Type, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use slow_paths::Plan;
use smallvec::SmallVec;

/// What an expansion yields: an operand for each result.
type Results = Result<Vec<Operand>, BuildError>;

/// Writes the code that stands for one instruction.
type Expansion = fn(&mut Expander<'_>) -> Results;

/// Whether a word without sign is at least `least` and below `end`: one subtraction and one comparison.
fn is_between(emit: &mut Emit<'_>, word: Operand, least: u64, end: u64) -> Operand {
    let above = emit.sub(word, imm(least));
    emit.setp(Compare::Lt, Scalar::U32, above, imm(end - least))
}

/// Whether the magnitude of a single, or of the upper word of a double, is at least that of the number with the bits `least` and below that of `end`: twice the bits leave the sign out, and the
/// difference is part of the shift.
fn is_magnitude_between(emit: &mut Emit<'_>, single: Operand, least: u64, end: u64) -> Operand {
    let twice = match single {
        Operand::Imm(bits) => imm(bits.bits() << 1 & 0xffff_ffff),
        register => emit.shl(register, imm(1)),
    };
    let above = emit.add(twice, imm((2 * least).wrapping_neg() & 0xffff_ffff));
    emit.setp(Compare::Lt, Scalar::U32, above, imm(2 * (end - least)))
}

/// What tells whether an instruction is expanded, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Asked {
    op: AbstractOp,
    mods: AbstractMods,
}

impl Asked {
    fn modifier<M: Modifier>(self) -> Option<M> {
        self.op.row().modifier(self.mods)
    }

    /// The type it works in; 32 bits where it says none.
    fn scalar(self) -> Scalar {
        self.modifier().unwrap_or(Scalar::B32)
    }

    /// Which expansion a correctly rounded division, reciprocal or square root in that type gets.
    fn exactly(
        self,
        scalar: Scalar,
        divide: Expansion,
        reciprocal: Expansion,
        square_root: Expansion,
    ) -> Option<Expansion> {
        let exact = self.modifier::<Precision>() == Some(Precision::Ieee);
        match self.op {
            _ if !exact || self.scalar() != scalar => None,
            AbstractOp::Fdiv => Some(divide),
            AbstractOp::Rcp => Some(reciprocal),
            AbstractOp::Sqrt => Some(square_root),
            _ => None,
        }
    }

    /// The type of its source.
    fn source(self) -> Scalar {
        self.modifier::<SourceType>()
            .map_or(Scalar::B32, Scalar::from)
    }
}

/// The instruction being expanded.
pub(super) struct Expander<'f> {
    func: &'f mut Function,
    inst: Inst,
    op: AbstractOp,
    mods: AbstractMods,
    /// Its operands.
    operands: SmallVec<[Operand; 6]>,
    /// Whether its slow path is called.
    calls: bool,
    /// Whether it is a division of numbers of which one is known to have more than 32 bits, most likely.
    long: bool,
}

impl Expander<'_> {
    fn asked(&self) -> Asked {
        Asked {
            op: self.op,
            mods: self.mods,
        }
    }

    fn modifier<M: Modifier>(&self) -> Option<M> {
        self.asked().modifier()
    }

    /// The type it works in; 32 bits where it says none.
    fn scalar(&self) -> Scalar {
        self.asked().scalar()
    }

    /// The type of its source.
    fn source(&self) -> Scalar {
        self.asked().source()
    }

    fn operand(&self, index: usize) -> Operand {
        self.operands.get(index).copied().unwrap_or(Operand::None)
    }

    /// Writes code in front of the instruction.
    fn write<T>(&mut self, write: impl FnOnce(&mut Emit<'_>) -> T) -> Result<T, BuildError> {
        let mut emit = Emit::before(self.func, self.inst);
        let made = write(&mut emit);
        emit.finish()?;
        Ok(made)
    }

    /// The one result that `write` computes.
    fn one(&mut self, write: impl FnOnce(&mut Emit<'_>) -> Operand) -> Results {
        Ok(vec![self.write(write)?])
    }

    /// A result that takes a block of its own where `common` says so: `common` writes the usual computation and yields
    /// its result and whether it is right; where it is not, `rare` is computed.
    fn rarely(
        &mut self,
        ty: Type,
        common: impl FnOnce(&mut Emit<'_>) -> (Operand, Operand),
        rare: impl FnOnce(&mut Emit<'_>) -> Operand,
    ) -> Results {
        self.rarely_in_steps(ty, common, None::<Attempt>, rare)
    }

    /// A result that is computed in one of two blocks: `usual` where `condition` holds, and the code falls from there to what follows, or `rare`.
    fn one_of_two(
        &mut self,
        ty: Type,
        condition: impl FnOnce(&mut Emit<'_>) -> Operand,
        usual: impl FnOnce(&mut Emit<'_>) -> Operand,
        rare: impl FnOnce(&mut Emit<'_>) -> Operand,
    ) -> Results {
        let scalar = if ty.len() == 2 {
            Scalar::B64
        } else {
            Scalar::B32
        };
        let condition = self.write(condition)?;
        let span = self.func.inst(self.inst).span();
        let Some(head) = self.func.layout.inst_block(self.inst) else {
            return self.one(usual);
        };
        let tail = self.func.split_block(self.inst);
        let result = self.func.append_block_param(tail, ty);
        let [first, second] = [rare_block(self.func, head), self.func.create_block()];
        self.func.layout.insert_block_after(second, first);
        let mut emit = Emit::at_end(self.func, head, span);
        let targets: [(_, &[Value]); 2] = [(second, &[]), (first, &[])];
        emit.end(AbstractOp::CondBr, &[condition], &targets);
        emit.goto_end(first);
        let computed = rare(&mut emit);
        let computed = emit.as_value(scalar, computed);
        emit.end(AbstractOp::Br, &[], &[(tail, &[computed])]);
        emit.goto_end(second);
        let computed = usual(&mut emit);
        let computed = emit.as_value(scalar, computed);
        emit.end(AbstractOp::Br, &[], &[(tail, &[computed])]);
        emit.finish()?;
        Ok(vec![result.into()])
    }

    /// The same as [`Expander::rarely`]; where the usual computation is not right, `short` is asked first, in a block of its own.
    fn rarely_in_steps(
        &mut self,
        ty: Type,
        common: impl FnOnce(&mut Emit<'_>) -> (Operand, Operand),
        short: Option<impl FnOnce(&mut Emit<'_>) -> (Operand, Operand)>,
        rare: impl FnOnce(&mut Emit<'_>) -> Operand,
    ) -> Results {
        let scalar = if ty.len() == 2 {
            Scalar::B64
        } else {
            Scalar::B32
        };
        let (usual, right) = self.write(|emit| {
            let (result, right) = common(emit);
            (emit.as_value(scalar, result), right)
        })?;
        let span = self.func.inst(self.inst).span();
        let Some(head) = self.func.layout.inst_block(self.inst) else {
            return Ok(vec![usual.into()]);
        };
        let tail = self.func.split_block(self.inst);
        let result = self.func.append_block_param(tail, ty);
        let mut before = head;
        let mut block = |func: &mut Function| {
            let block = func.create_block();
            func.layout.insert_block_after(block, before);
            func.attributes.rare.insert(block);
            before = block;
            block
        };
        let slow = block(self.func);
        let steps = short.map(|short| (short, block(self.func)));
        let mut emit = Emit::at_end(self.func, head, span);
        let targets: [(_, &[Value]); 2] = [(tail, &[usual]), (slow, &[])];
        emit.end(AbstractOp::CondBr, &[right], &targets);
        emit.goto_end(slow);
        if let Some((short, slower)) = steps {
            let (made, right) = short(&mut emit);
            let made = emit.as_value(scalar, made);
            let targets: [(_, &[Value]); 2] = [(tail, &[made]), (slower, &[])];
            emit.end(AbstractOp::CondBr, &[right], &targets);
            emit.goto_end(slower);
        }
        let computed = match self.calls {
            // The operation itself, in a block that hardly ever runs.
            true => emit.again(self.op, self.mods, &self.operands),
            false => rare(&mut emit),
        };
        let computed = emit.as_value(scalar, computed);
        emit.end(AbstractOp::Br, &[], &[(tail, &[computed])]);
        emit.finish()?;
        Ok(vec![result.into()])
    }
}

/// A new block right behind `head`.
fn rare_block(func: &mut Function, head: Block) -> Block {
    let block = func.create_block();
    func.layout.insert_block_after(block, head);
    block
}

/// Writes a computation and yields its result and whether it is right.
type Attempt = fn(&mut Emit<'_>) -> (Operand, Operand);

/// The expansion an instruction needs, if its operation and modifiers tell that it needs one.
fn expansion_of(asked: Asked) -> Option<Expansion> {
    narrow::rule(asked)
        .or_else(|| integer::rule(asked))
        .or_else(|| bits::rule(asked))
        .or_else(|| single::rule(asked))
        .or_else(|| double::rule(asked))
        .or_else(|| functions::rule(asked))
}

/// What was found out so far.
#[derive(Default)]
struct Known {
    /// What stands for the results of instructions that are gone.
    replaced: SecondaryMap<Value, PackedOption<Value>>,
    /// The expansions of operations that were met.
    expansions: FxHashMap<Asked, Option<Expansion>>,
    /// The factors of products of 64 bits whose high half is asked for, in order.
    high_products: FxHashSet<[Value; 2]>,
    /// Which slow paths are called.
    plan: Plan,
    /// Divisions that stand where numbers are long.
    long_divisions: FxHashSet<Inst>,
}

/// The factors of a product of 64 bits, in order, if `half` of it is what `inst` computes.
fn wide_factors(func: &Function, inst: Inst, half: Half) -> Option<[Value; 2]> {
    let is_product = func.opcode(inst) == Opcode::Abstract(AbstractOp::Mul)
        && func.modifier::<Half>(inst) == Some(half)
        && func.modifier::<Scalar>(inst)?.bits() == 64;
    let &[_, a, b] = func.operands(inst) else {
        return None;
    };
    let plain = |operand: Operand| operand.as_value().filter(|_| operand.mods().is_empty());
    let (a, b) = (plain(a)?, plain(b)?);
    is_product.then_some([a.min(b), a.max(b)])
}

/// The factors of which the high half of the product is computed somewhere.
fn high_products(func: &Function) -> FxHashSet<[Value; 2]> {
    func.blocks()
        .flat_map(|block| func.block_insts(block))
        .filter_map(|inst| wide_factors(func, inst, Half::Hi))
        .collect()
}

/// Runs the phase.
pub fn convert_unsupported(
    function: &mut Function,
    context: &Context<'_>,
) -> Result<(), PhaseError> {
    quotient::share_quotients(function).map_err(|error| PhaseError::Broken {
        at: "a remainder".to_owned(),
        what: error.to_string(),
    })?;
    let mut known = Known {
        high_products: high_products(function),
        plan: Plan::new(function, context),
        long_divisions: quotient::long_divisions(function),
        ..Known::default()
    };
    let mut seen = 0;
    loop {
        let made = function.inst_count();
        let fresh: Vec<Inst> = function
            .blocks()
            .flat_map(|block| function.block_insts(block))
            .filter(|inst| inst.as_u32() as usize >= seen)
            .collect();
        if fresh.is_empty() {
            break;
        }
        seen = made;
        for inst in fresh {
            expand(function, inst, &mut known).map_err(|error| PhaseError::Broken {
                at: orias_ori::print_inst(function, inst),
                what: error.to_string(),
            })?;
        }
    }
    let replaced = known.replaced;
    if replaced.is_empty() {
        return Ok(());
    }
    let resolve = |mut value: Value| {
        while let Some(next) = replaced[value].expand() {
            value = next;
        }
        value
    };
    function.map_all_uses(|reg| match reg.value() {
        Some(value) => Reg::from(resolve(value)),
        None => reg,
    });
    Ok(())
}

/// The number that `operand` is an unconditional copy of: divisors that are known have shorter expansions.
pub(crate) fn copied_number(func: &Function, operand: Operand) -> Option<Operand> {
    let inst = func.defining_inst(operand.as_value().filter(|_| operand.mods().is_empty())?)?;
    let is_copy = func.opcode(inst) == Opcode::Abstract(AbstractOp::Mov)
        && func.inst(inst).guard().is_always();
    match func.operands(inst) {
        &[_, number @ Operand::Imm(_)] if is_copy => Some(number),
        _ => None,
    }
}

fn expand(func: &mut Function, inst: Inst, known: &mut Known) -> Result<(), BuildError> {
    let (Opcode::Abstract(op), Operation::Abstract(_, mods)) =
        (func.opcode(inst), func.inst(inst).operation())
    else {
        return Ok(());
    };
    let asked = Asked { op, mods };
    let expansion = known.expansions.entry(asked);
    let mut expansion = *expansion.or_insert_with(|| expansion_of(asked));
    if !known.high_products.is_empty()
        && wide_factors(func, inst, Half::Lo).is_some_and(|it| known.high_products.contains(&it))
    {
        expansion = Some(integer::product_low_64);
    }
    if expansion.is_none() && !policy::makes_policy(op) {
        return Ok(());
    }
    let calls = known.plan.calls(asked);
    let block = func.layout.inst_block(inst);
    if calls && block.is_some_and(|block| func.attributes.rare.contains(&block)) {
        // The long way is all there is in a block that hardly ever runs.
        return Ok(());
    }
    let replaced = &mut known.replaced;
    let count = func.result_count(inst);
    let operands = func.operands(inst)[count..]
        .iter()
        .map(|&operand| copied_number(func, operand).unwrap_or(operand))
        .collect();
    let mut expander = Expander {
        func,
        inst,
        op,
        mods,
        operands,
        calls,
        long: known.long_divisions.contains(&inst),
    };
    let Some(expansion) = expansion.or_else(|| policy::rule(&expander)) else {
        return Ok(());
    };
    let results = expander.func.operands(inst)[..count].to_vec();
    let made = expansion(&mut expander)?;
    let guard = func.inst(inst).guard();
    if guard.is_always() {
        for (&result, operand) in results.iter().zip(made) {
            let Some(result) = result.as_value() else {
                continue;
            };
            let plain = operand.as_value().filter(|_| operand.mods().is_empty());
            let value = match plain {
                Some(value) => value,
                None => {
                    let scalar = move_type(func.value_type(result));
                    let mut emit = Emit::before(func, inst);
                    let value = emit.as_value(scalar, operand);
                    emit.finish()?;
                    value
                }
            };
            replaced[result] = value.into();
        }
        func.remove_inst(inst);
        return Ok(());
    }
    // Under a guard each result is moved where the guard holds, and keeps what it kept.
    let kept = func.kept(inst).to_vec();
    let defined: Vec<Value> = results.iter().filter_map(|it| it.as_value()).collect();
    let made: Vec<Operand> = results
        .iter()
        .zip(made)
        .filter(|(result, _)| result.as_value().is_some())
        .map(|(_, operand)| operand)
        .collect();
    let mut moves = Vec::new();
    for ((&result, operand), keep) in defined.iter().zip(made).zip(kept) {
        let Some(keep) = keep.as_value() else {
            continue;
        };
        let scalar = move_type(func.value_type(result));
        let fresh = func.create_value(func.value_type(result));
        let mut emit = Emit::before(func, inst);
        emit.put(
            AbstractOp::Mov,
            (scalar,),
            &[fresh.into()],
            &[operand],
            guard,
            &[keep],
        );
        emit.finish()?;
        moves.push((result, fresh));
    }
    for (result, fresh) in moves {
        replaced[result] = fresh.into();
    }
    func.remove_inst(inst);
    Ok(())
}

/// The type of a `mov` of registers of type `ty`.
fn move_type(ty: Type) -> Scalar {
    match (ty, ty.len()) {
        (Type::P, _) => Scalar::Pred,
        (_, 2) => Scalar::B64,
        (_, 4) => Scalar::B128,
        _ => Scalar::B32,
    }
}

/// Whether a type has a sign.
const fn is_signed(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::S16 | Scalar::S32 | Scalar::S64)
}

/// Whether a type is an integer, or bits, of that width.
const fn is_integer(scalar: Scalar, width: u16) -> bool {
    scalar.bits() == width
        && matches!(
            scalar,
            Scalar::B16
                | Scalar::U16
                | Scalar::S16
                | Scalar::B32
                | Scalar::U32
                | Scalar::S32
                | Scalar::B64
                | Scalar::U64
                | Scalar::S64
        )
}
