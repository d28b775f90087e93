//! FoldAddresses (10024): addressing-mode folding. Known terms of address sums become the offsets of accesses.
//!
//! An access adds a base register, in shared memory also the block's base and a name, and a known number, all for free. Selection finds the number where it
//! was added last: `[(a + b) + 16]`. This phase finds it anywhere in the sum: `[a + (b + 16)]`, `[a + ((i + 4) << 2)]`, `[(&table + 1024) + i]` become
//! `[(a + b) + 16]`, `[(a + (i << 2)) + 16]`, `[i + &table + 1024]`. Accesses that differ in the known number then share their base, and so do
//! those of copies of a loop's body.
//!
//! Sums, differences, shifts and products by known numbers are taken apart; all of this is exact in arithmetic modulo 2 to the width. Extensions from 32 to
//! 64 bits are not looked through: they do not commute with sums that wrap. `or` counts as a sum where the operands have no bit in common. A value
//! gets a sum of its own without the number (placed where the value is) only if nothing but sums and addresses read the
//! value, so that it is likely to go. Parameters whose address was taken are read at known places, like others. Names are folded in weak accesses to shared memory and in accesses to
//! mbarriers, whose instructions have a place for the block's base.
//!
//! Copies from global to shared memory (`cp.async`) have two addresses. The one in global memory has room for short offsets only ([`COPY_REACH`]): what lies above is added before the
//! copy, in portions that neighbours share, so that `p + 98304`, `p + 98308` and `p + 98312` take one sum. A name stays in the register of a copy's address, which has no place for
//! the block's base.
//!
//! Sums are looked into to a depth of [`DEPTH`], each value once: linear. The rewrites of EliminateCommonSubexpressions follow where something was found.

use super::common_subexpressions::eliminate_common_subexpressions;
use super::general_optimize::optimize_general;
use crate::emit::Emit;
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DefUse, Place};
use orias_ori::operation::{Half, Sat, Scalar, Space};
use orias_ori::{
    AbstractOp, Function, Inst, Operand, OptReg, Reg, SourceMods, Symbol, Type, Value,
};

/// How deep sums are looked into: deeper than addresses of arrays of arrays go.
const DEPTH: u32 = 12;

/// How often the phase looks again: sums that are read by fewer instructions than before may be taken apart.
const ROUNDS: usize = 4;

/// Offsets that every address field of a memory access holds.
const OFFSET_LIMIT: i64 = 1 << 23;

/// Offsets that a constant operand holds wherever the parameters begin.
const BANK_OFFSET_LIMIT: i64 = 1 << 14;

/// Offsets that the address of a copy in global memory holds are smaller: a power of two.
const COPY_REACH: i64 = 1 << 11;

/// Offsets that the address of a copy in shared memory holds.
const COPY_TARGET_LIMIT: i64 = 1 << 19;

/// An address of an instruction, and what fits into it.
#[derive(Clone, Copy, Debug)]
struct Site {
    /// Which operand it is.
    operand: usize,
    space: Option<Space>,
    /// Whether the address may be a word to which the offset is added as it is.
    words: bool,
    /// Offsets it holds.
    limit: i64,
    /// Whether only those below [`COPY_REACH`] are added by the access.
    is_short: bool,
}

/// A value as a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    /// What is not known; nothing is zero.
    rest: Option<Value>,
    number: i64,
    name: Option<Symbol>,
}

impl Sum {
    fn of(value: Value) -> Self {
        Self {
            rest: Some(value),
            ..Self::default()
        }
    }

    fn is_plain(&self) -> bool {
        self.number == 0 && self.name.is_none()
    }
}

/// Runs the phase.
pub fn fold_addresses(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    for _ in 0..ROUNDS {
        if !fold(func) {
            break;
        }
        optimize_general(func, context)?;
        eliminate_common_subexpressions(func, context)?;
    }
    Ok(())
}

/// Folds what can be folded. Returns whether there was something.
fn fold(func: &mut Function) -> bool {
    let uses = DefUse::new(func);
    let accesses: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| is_access(func, inst))
        .collect();
    let (copies, accesses): (Vec<Inst>, Vec<Inst>) =
        accesses.into_iter().partition(|&inst| is_copy(func, inst));
    let mut folded = shorten_chains(func);
    let mut made = Vec::new();
    for (insts, names) in [(accesses, true), (copies, false)] {
        let mut sums = Sums {
            uses: &uses,
            names,
            known: SecondaryMap::new(),
            made,
        };
        for inst in insts {
            for site in sites(func, inst).into_iter().flatten() {
                folded |= sums.fold(func, inst, site);
            }
        }
        made = sums.made;
    }
    if !folded {
        // Sums that were made for an access that could not take them.
        for inst in made.into_iter().rev() {
            func.remove_inst(inst);
        }
    }
    folded
}

/// Whether `inst` copies from global to shared memory.
fn is_copy(func: &Function, inst: Inst) -> bool {
    func.opcode(inst).as_abstract() == Some(AbstractOp::CpAsync)
}

/// The addresses of an access.
fn sites(func: &Function, inst: Inst) -> [Option<Site>; 2] {
    use AbstractOp as A;
    let usual = |operand, space| Site {
        operand,
        space,
        words: matches!(space, Some(Space::Param | Space::Shared)),
        limit: OFFSET_LIMIT,
        is_short: false,
    };
    if is_copy(func, inst) {
        let to = Site {
            limit: COPY_TARGET_LIMIT,
            ..usual(0, Some(Space::Shared))
        };
        let from = Site {
            is_short: true,
            ..usual(1, Some(Space::Global))
        };
        return [Some(to), Some(from)];
    }
    let operands = func.operands(inst);
    let Some(operand) = operands
        .iter()
        .position(|operand| matches!(operand, Operand::Address(_)))
    else {
        return [None; 2];
    };
    let space = match func.opcode(inst).as_abstract() {
        Some(A::Ldmatrix | A::Stmatrix) => Some(Space::Shared),
        _ => func.modifier::<Space>(inst),
    };
    [Some(usual(operand, space)), None]
}

/// Makes a number added to a sum with a number one sum: `(a + 4) + 4` becomes `a + 8`. Returns whether there was one.
fn shorten_chains(func: &mut Function) -> bool {
    let mut shortened = false;
    let insts: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| func.opcode(inst).as_abstract() == Some(AbstractOp::Add))
        .collect();
    // An operand comes before what reads it, but for edges back: its chain is short already.
    for inst in insts {
        let Some((middle, more)) = number_added(func, inst) else {
            continue;
        };
        let inner = func
            .defining_inst(middle)
            .filter(|&inner| func.opcode(inner).as_abstract() == Some(AbstractOp::Add));
        let Some((base, number)) = inner.and_then(|inner| number_added(func, inner)) else {
            continue;
        };
        if func.value_type(base) != func.value_type(middle) {
            continue;
        }
        let sum = number.wrapping_add(more);
        let bits = match func.value_type(base) {
            Type::R => u64::from(sum as u32),
            _ => sum as u64,
        };
        func.set_operand(inst, 1, base.into());
        func.set_operand(inst, 2, Operand::imm(bits));
        shortened = true;
    }
    shortened
}

/// What `inst`, a sum, adds a number to, and the number.
fn number_added(func: &Function, inst: Inst) -> Option<(Value, i64)> {
    let &[result, a, b] = func.operands(inst) else {
        return None;
    };
    let ty = func.value_type(result.as_value()?);
    let plain = func.inst(inst).guard().is_always()
        && func.modifier::<Sat>(inst).is_none_or(|it| it == Sat::Wrap)
        && func.modifier::<Scalar>(inst)?.bits() == 32 * u16::from(ty.len());
    let (base, number) = match (a, b) {
        (Operand::Imm(_), base) => (base, a),
        (base, Operand::Imm(_)) => (base, b),
        _ => return None,
    };
    let base = base
        .as_value()
        .filter(|_| plain && base.mods() == SourceMods::NONE)?;
    Some((base, known_number(func, number, ty)?))
}

/// Whether `inst` works on an mbarrier of this block, whose address is a word with a place for everything.
fn is_barrier_access(func: &Function, inst: Inst) -> bool {
    use AbstractOp as A;
    match func.opcode(inst).as_abstract() {
        Some(A::Mbarrier | A::MbarrierWait) => true,
        Some(A::MbarrierArrive) => func.modifier::<Space>(inst) == Some(Space::Shared),
        _ => false,
    }
}

/// Whether `inst` is an access whose address has an offset field of the usual width.
fn is_access(func: &Function, inst: Inst) -> bool {
    use AbstractOp as A;
    let of_shared = matches!(
        func.opcode(inst).as_abstract(),
        Some(A::CpAsync | A::Ldmatrix | A::Stmatrix)
    );
    if of_shared || is_barrier_access(func, inst) {
        return true;
    }
    let access = matches!(
        func.opcode(inst).as_abstract(),
        Some(A::Ld | A::St | A::Atom | A::Red)
    );
    let space = func.modifier::<Space>(inst);
    access
        && matches!(
            space,
            Some(Space::Global | Space::Generic | Space::Shared | Space::Param)
        )
}

struct Sums<'a> {
    uses: &'a DefUse,
    /// Whether names are terms.
    names: bool,
    known: SecondaryMap<Value, Option<Sum>>,
    /// What was made.
    made: Vec<Inst>,
}

impl Sums<'_> {
    /// Brings what is known of an address of `inst` into its offset. Returns whether there was something.
    fn fold(&mut self, func: &mut Function, inst: Inst, site: Site) -> bool {
        let Operand::Address(id) = func.operands(inst)[site.operand] else {
            return false;
        };
        let mut address = *func.address(id);
        let Some(base) = address.base.get().and_then(Reg::value) else {
            return false;
        };
        // A word is extended before the offset is added, except in shared memory and among parameters, whose addresses are words.
        let parameter = site.space == Some(Space::Param);
        let wide = func.value_type(base) == Type::R2;
        let fits = match is_barrier_access(func, inst) {
            true => !wide,
            false => wide || site.words,
        };
        if !fits {
            return false;
        }
        let sum = self.sum(func, base, 0);
        let name = match (sum.name, address.symbol.expand()) {
            (None, name) => name,
            (Some(name), None) if takes_names(func, inst) => Some(name),
            _ => return false,
        };
        let offset = i64::from(address.offset).wrapping_add(sum.number);
        // Parameters lie in a bank whose offsets are short; a place that is known as a whole needs no register.
        let limit = match parameter && sum.rest.is_some() {
            true => BANK_OFFSET_LIMIT,
            false => site.limit,
        };
        let far = match site.is_short && offset.abs() >= COPY_REACH {
            true => offset & !(COPY_REACH - 1),
            false => 0,
        };
        // What is too long for an offset stays where it is added last.
        let stays = match far {
            0 => sum.number == 0,
            _ => {
                let last = func.defining_inst(base);
                let added = last.and_then(|last| number_added(func, last));
                added.is_some_and(|(_, number)| number == far && sum.number == far)
            }
        };
        if stays && sum.name.is_none() && sum.rest.is_some() || offset.abs() >= limit {
            return false;
        }
        let mut rest = sum.rest;
        if let Some(near) = rest
            && far != 0
        {
            let mut emit = Emit::before(func, inst);
            let sum = emit.value(
                AbstractOp::Add,
                (Scalar::S64,),
                &[near.into(), Operand::imm(far as u64)],
            );
            if emit.finish().is_err() {
                return false;
            }
            rest = Some(sum);
        }
        address.base = rest.map_or(OptReg::NONE, |rest| Reg::from(rest).into());
        address.offset = (offset - far) as i32;
        address.symbol = name.into();
        if address.base.get().is_none() && name.is_none() && !parameter {
            return false;
        }
        *func.address_mut(id) = address;
        true
    }

    /// `value` as a sum. What has to be computed for it is placed before the definition of `value`.
    fn sum(&mut self, func: &mut Function, value: Value, depth: u32) -> Sum {
        if let Some(known) = self.known[value] {
            return known;
        }
        let sum = match depth < DEPTH {
            true => self.find(func, value, depth + 1).unwrap_or(Sum::of(value)),
            false => return Sum::of(value),
        };
        self.known[value] = Some(sum);
        sum
    }

    fn find(&mut self, func: &mut Function, value: Value, depth: u32) -> Option<Sum> {
        use AbstractOp as A;
        let ty = func.value_type(value);
        let inst = func.defining_inst(value)?;
        if !matches!(ty, Type::R | Type::R2) || !func.inst(inst).guard().is_always() {
            return None;
        }
        let op = func.opcode(inst).as_abstract()?;
        let operands = func.operands(inst);
        if op == A::AddressOf {
            if !self.names {
                return None;
            }
            let &[_, Operand::Symbol { symbol, addend, .. }] = operands else {
                return None;
            };
            return Some(Sum {
                rest: None,
                number: i64::from(addend),
                name: Some(symbol),
            });
        }
        if op == A::Split {
            let (place, whole) = (
                operands
                    .iter()
                    .position(|it| it.as_value() == Some(value))?,
                *operands.last()?,
            );
            let whole = whole
                .as_value()
                .filter(|&it| func.value_type(it) == Type::R2)?;
            let whole = self.sum(func, whole, depth);
            let known = whole.rest.is_none() && whole.name.is_none() && ty == Type::R;
            return known.then(|| Sum {
                number: i64::from((whole.number >> (32 * place)) as i32),
                ..Sum::default()
            });
        }
        let bits = func.modifier::<Scalar>(inst)?.bits();
        let saturates = func.modifier::<Sat>(inst).is_some_and(|it| it != Sat::Wrap);
        let narrow = bits != 32 * u16::from(ty.len());
        if saturates || narrow && op != A::Mad {
            return None;
        }
        let sources: Vec<Operand> = operands[1..].to_vec();
        if sources.iter().any(|source| !source.mods().is_empty()) {
            return None;
        }
        match op {
            A::Mov => self.operand(func, sources[0], ty, depth),
            A::Add | A::Or if op == A::Add || are_disjoint(func, &sources) => {
                let a = self.operand(func, sources[0], ty, depth)?;
                let b = self.operand(func, sources[1], ty, depth)?;
                self.join(func, value, inst, [a, b], 1)
            }
            A::Sub => {
                let a = self.operand(func, sources[0], ty, depth)?;
                let b = self.operand(func, sources[1], ty, depth)?;
                self.join(func, value, inst, [a, b], -1)
            }
            A::Shl => {
                let amount = known_number(func, sources[1], Type::R)?;
                let factor = 1_i64.checked_shl(u32::try_from(amount).ok()?)?;
                let a = self.operand(func, sources[0], ty, depth)?;
                self.scale(func, value, inst, a, factor)
            }
            A::Mul if func.modifier::<Half>(inst) == Some(Half::Lo) => {
                let factor = known_number(func, sources[1], ty)?;
                let a = self.operand(func, sources[0], ty, depth)?;
                self.scale(func, value, inst, a, factor)
            }
            A::Mad => self.product(func, value, inst, &sources, depth),
            _ => None,
        }
    }

    /// The sum of a product and something else.
    fn product(
        &mut self,
        func: &mut Function,
        value: Value,
        inst: Inst,
        sources: &[Operand],
        depth: u32,
    ) -> Option<Sum> {
        let ty = func.value_type(value);
        let factors = match func.modifier::<Half>(inst)? {
            Half::Lo => ty.len(),
            Half::Wide => ty.len() / 2,
            Half::Hi => return None,
        };
        if func.modifier::<Scalar>(inst)?.bits() != 32 * u16::from(factors) {
            return None;
        }
        let addend = self.operand(func, sources[2], ty, depth)?;
        if addend.is_plain() || !self.is_for_sums(func, value) {
            return None;
        }
        let rest = addend.rest.map_or(Operand::imm(0), Operand::from);
        let rest = self.copy(func, inst, value, &[sources[0], sources[1], rest]);
        Some(Sum {
            rest: Some(rest),
            ..addend
        })
    }

    fn operand(
        &mut self,
        func: &mut Function,
        operand: Operand,
        ty: Type,
        depth: u32,
    ) -> Option<Sum> {
        match (operand, operand.as_value()) {
            (Operand::Imm(_), _) => Some(Sum {
                number: known_number(func, operand, ty)?,
                ..Sum::default()
            }),
            (_, Some(value)) => Some(self.sum(func, value, depth)),
            _ => None,
        }
    }

    /// `a` and `sign` times `b`, which are what `inst` computes `value` of.
    fn join(
        &mut self,
        func: &mut Function,
        value: Value,
        inst: Inst,
        [a, b]: [Sum; 2],
        sign: i64,
    ) -> Option<Sum> {
        if a.is_plain() && b.is_plain() || a.name.is_some() && b.name.is_some() {
            return None;
        }
        if sign < 0 && b.name.is_some() {
            return None;
        }
        let number = a.number.wrapping_add(sign.wrapping_mul(b.number));
        let name = a.name.or(b.name);
        let rest = match (a.rest, b.rest) {
            (rest, None) => rest,
            (None, rest) if sign > 0 => rest,
            (Some(a), Some(b)) if self.is_for_sums(func, value) => {
                Some(self.copy(func, inst, value, &[a.into(), b.into()]))
            }
            _ => return None,
        };
        Some(Sum { rest, number, name })
    }

    /// `a` times `factor`, which is what `inst` computes `value` of.
    fn scale(
        &mut self,
        func: &mut Function,
        value: Value,
        inst: Inst,
        a: Sum,
        factor: i64,
    ) -> Option<Sum> {
        if a.is_plain() || a.name.is_some() {
            return None;
        }
        let number = a.number.wrapping_mul(factor);
        let rest = match a.rest {
            None => None,
            Some(_) if !self.is_for_sums(func, value) => return None,
            Some(rest) => {
                let second = func.operands(inst)[2];
                Some(self.copy(func, inst, value, &[rest.into(), second]))
            }
        };
        Some(Sum {
            rest,
            number,
            name: None,
        })
    }

    /// What `inst` would compute instead of `value` from other operands: an instruction before it.
    fn copy(
        &mut self,
        func: &mut Function,
        inst: Inst,
        value: Value,
        sources: &[Operand],
    ) -> Value {
        let result = func.create_value(func.value_type(value));
        let new = func.copy_inst(inst);
        func.set_operand(new, 0, result.into());
        for (index, &source) in sources.iter().enumerate() {
            func.set_operand(new, index + 1, source);
        }
        func.layout.insert_inst_before(new, inst);
        self.made.push(new);
        self.known[result] = Some(Sum::of(result));
        result
    }

    /// Whether nothing but sums and addresses read `value`.
    fn is_for_sums(&self, func: &Function, value: Value) -> bool {
        use AbstractOp as A;
        self.uses.uses(value).iter().all(|it| match it.place {
            Place::Operand(index) => {
                let op = func.opcode(it.inst).as_abstract();
                let address = func.operands(it.inst).get(usize::from(index));
                matches!(address, Some(Operand::Address(_)))
                    || matches!(op, Some(A::Add | A::Sub | A::Shl | A::Mul | A::Mad | A::Or))
            }
            _ => false,
        })
    }
}

/// Whether the access `inst` has a place for a name and the block's base.
fn takes_names(func: &Function, inst: Inst) -> bool {
    let of_matrices = matches!(
        func.opcode(inst).as_abstract(),
        Some(AbstractOp::Ldmatrix | AbstractOp::Stmatrix)
    );
    if of_matrices || is_barrier_access(func, inst) {
        return true;
    }
    func.modifier::<Space>(inst) == Some(Space::Shared)
        && matches!(
            func.opcode(inst).as_abstract(),
            Some(AbstractOp::Ld | AbstractOp::St)
        )
}

/// The number an operand of type `ty` stands for, with its sign.
fn known_number(func: &Function, operand: Operand, ty: Type) -> Option<i64> {
    let imm = match operand {
        Operand::Imm(imm) => imm,
        other => {
            let inst = func.defining_inst(other.as_value()?)?;
            let copy = func.opcode(inst).as_abstract() == Some(AbstractOp::Mov)
                && func.inst(inst).guard().is_always();
            match func.operands(inst) {
                &[_, Operand::Imm(imm)] if copy => imm,
                _ => return None,
            }
        }
    };
    Some(match ty {
        Type::R => i64::from(imm.bits() as u32 as i32),
        _ => imm.bits() as i64,
    })
}

/// Whether one of the two operands of an `or` has no bits where the other, which is known, has some.
fn are_disjoint(func: &Function, sources: &[Operand]) -> bool {
    let &[a, b] = sources else {
        return false;
    };
    let fits = |value: Operand, number: Operand| {
        let number = known_number(func, number, Type::R2).filter(|&number| number >= 0);
        let zeros = value
            .as_value()
            .and_then(|value| trailing_zeros(func, value));
        matches!((number, zeros), (Some(number), Some(zeros)) if number < 1 << zeros.min(62))
    };
    fits(a, b) || fits(b, a)
}

/// How many low bits of `value` are zero, as far as its definition says.
fn trailing_zeros(func: &Function, value: Value) -> Option<u32> {
    let inst = func.defining_inst(value)?;
    let ty = func.value_type(value);
    let second = *func.operands(inst).get(2)?;
    let plain = func.inst(inst).guard().is_always() && second.mods() == SourceMods::NONE;
    match func.opcode(inst).as_abstract()? {
        AbstractOp::Shl if plain => u32::try_from(known_number(func, second, Type::R)?).ok(),
        AbstractOp::And if plain => match known_number(func, second, ty)? {
            0 => None,
            mask => Some(mask.trailing_zeros()),
        },
        AbstractOp::Mul if plain && func.modifier::<Half>(inst) != Some(Half::Hi) => {
            match known_number(func, second, ty)? {
                0 => None,
                factor => Some(factor.trailing_zeros()),
            }
        }
        _ => None,
    }
}
