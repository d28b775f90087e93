//! Contraction: products and sums fused into one operation that is rounded once (FMA).
//!
//! PTX leaves it open whether `mul` and `add` without a rounding modifier are one operation. Contraction makes `a * b + c`
//! an `ffma` where ptxas does (seen in what it makes of small kernels), so that results have the same bits:
//!
//! - neither has a rounding modifier, both are of one type and flush alike, the product is not saturated and not guarded;
//! - both stand in one straight line of the PTX: labels that nothing branches to and jumps to where nothing else leads do
//!   not end it;
//! - every use of the product is a sum or difference in that line. A negation between the two is taken along: what uses it
//!   uses the product. The sum of a product with itself is no such use, nor is the addend of an `fma`; code that nothing
//!   needs does not count;
//! - first the products go that have one use, into their sums in program order. Where both operands of a sum are such
//!   products, the first goes. Pairs of halves have no such first round;
//! - then those with several, each sum in program order getting its own copy. Where both operands of a sum could go, the one
//!   with fewer uses does, the first if they have equally many;
//! - what a sum adds to the product it took in is the addend of an `fma` from then on: if that is a product, too, it goes
//!   into no sum that follows;
//! - an approximate quotient of singles (`div.approx`, `div.full`) is the product of a reciprocal and the numerator.

use crate::emit::Emit;
use crate::phases::{copied_number, quotient_factors};
use cranelift_entity::SecondaryMap;
use orias_ori::builder::BuildError;
use orias_ori::operation::{AbstractOp, Effects, Ftz, Order, Precision, Round, Sat, Scalar};
use orias_ori::{Block, Function, Inst, Opcode, Operand, Value};

/// A product as an operand of a sum that could take it in.
#[derive(Clone, Copy)]
struct Product {
    /// The product itself.
    value: Value,
    factors: [Operand; 2],
    /// Whether the operand is the product's negation.
    negative: bool,
}

/// A sum or difference, with what could become part of it.
struct Sum {
    inst: Inst,
    operands: [Operand; 2],
    products: [Option<Product>; 2],
    /// Whether the numbers are pairs of halves.
    pairs: bool,
}

/// What is known of the values of a function.
#[derive(Default)]
struct Uses {
    /// How many operands a value is.
    all: SecondaryMap<Value, u32>,
    /// Of products: how many operands the product or its negation is, negations of it not counted.
    of_product: SecondaryMap<Value, u32>,
    /// As an operand of a sum that could take it in.
    in_sums: SecondaryMap<Value, u32>,
    /// Products that are the addend of an `fma`.
    added: SecondaryMap<Value, bool>,
    /// Instructions that nothing needs; what they use is not counted.
    needless: Vec<Inst>,
}

impl Uses {
    /// Whether every use of `product` is a sum that could take it in.
    fn only_in_sums(&self, product: &Product) -> bool {
        let value = product.value;
        self.of_product[value] == self.in_sums[value] && !self.added[value]
    }
}

/// Contracts what may be contracted.
pub(super) fn contract(func: &mut Function) -> Result<(), BuildError> {
    multiply_quotients(func)?;
    let insts: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .collect();
    if !insts.iter().any(|&inst| sum_operands(func, inst).is_some()) {
        return Ok(());
    }
    let lines = StraightLines::of(func);
    let mut uses = count_uses(func, &insts);
    let sums = find_sums(func, &lines, &insts, &mut uses);
    // What nothing needs must not read products that go.
    for &inst in &uses.needless {
        func.remove_inst(inst);
    }
    let mut taken = vec![false; sums.len()];
    for single in [true, false] {
        for (sum, taken) in sums.iter().zip(&mut taken) {
            if *taken || single && sum.pairs {
                continue;
            }
            let count = |product: &Product| uses.of_product[product.value];
            let able = sum.products.map(|product| {
                product.filter(|it| uses.only_in_sums(it) && (count(it) == 1 || !single))
            });
            let place = match &able {
                [Some(a), Some(b)] => usize::from(count(b) < count(a)),
                [Some(_), None] => 0,
                [None, Some(_)] => 1,
                [None, None] => continue,
            };
            let Some(product) = able[place] else {
                continue;
            };
            if !take_in(func, sum, place, &product) {
                continue;
            }
            *taken = true;
            if let Some(other) = sum.products[1 - place] {
                uses.added[other.value] = true;
            }
            if let Some(value) = sum.operands[place].as_value() {
                drop_use(func, &mut uses, value);
            }
        }
    }
    Ok(())
}

/// One operand less is `value`: if it was the last, what makes it goes.
fn drop_use(func: &mut Function, uses: &mut Uses, mut value: Value) {
    loop {
        uses.all[value] = uses.all[value].saturating_sub(1);
        let (0, Some(inst)) = (uses.all[value], func.defining_inst(value)) else {
            return;
        };
        let negated = match (func.opcode(inst), func.operands(inst)) {
            (Opcode::Abstract(AbstractOp::Fneg), &[_, of]) => of.as_value(),
            _ => None,
        };
        func.remove_inst(inst);
        match negated {
            Some(of) => value = of,
            None => return,
        }
    }
}

/// Counts the uses of values by code that something needs.
fn count_uses(func: &Function, insts: &[Inst]) -> Uses {
    let mut uses = Uses::default();
    uses.all.resize(func.value_count());
    for &inst in insts {
        func.for_each_use(inst, |reg| {
            if let Some(value) = reg.value() {
                uses.all[value] += 1;
            }
        });
    }
    let needless = |uses: &Uses, inst: Inst| {
        let mut unused = true;
        func.for_each_def(inst, |reg| {
            unused &= reg.value().is_none_or(|value| uses.all[value] == 0);
        });
        let effects = func.opcode(inst).effects();
        unused
            && !effects.intersects(Effects::BEYOND_RESULTS)
            && func
                .modifier::<Order>(inst)
                .is_none_or(|order| order == Order::Weak)
    };
    let mut work: Vec<Inst> = insts
        .iter()
        .copied()
        .filter(|&inst| needless(&uses, inst))
        .collect();
    while let Some(inst) = work.pop() {
        uses.needless.push(inst);
        for value in func.value_uses(inst) {
            uses.all[value] -= 1;
            if let (0, Some(of)) = (uses.all[value], func.defining_inst(value))
                && needless(&uses, of)
            {
                work.push(of);
            }
        }
    }
    uses
}

/// The sums that something may become part of, and how products are used.
fn find_sums(func: &Function, lines: &StraightLines, insts: &[Inst], uses: &mut Uses) -> Vec<Sum> {
    let mut sums = Vec::new();
    let mut negations: Vec<(Value, Value)> = Vec::new();
    let mut needless = uses.needless.clone();
    needless.sort_unstable();
    for &inst in insts {
        if needless.binary_search(&inst).is_ok() {
            continue;
        }
        if let (Opcode::Abstract(AbstractOp::Fneg), &[result, _]) =
            (func.opcode(inst), func.operands(inst))
            && let Some(result) = result.as_value()
            && let Some(product) = product(func, lines, result, inst)
        {
            negations.push((product.value, result));
        }
        let Some(operands) = sum_operands(func, inst) else {
            continue;
        };
        let products = operands.map(|operand| {
            let value = operand.as_value().filter(|_| operand.mods().is_empty())?;
            product(func, lines, value, inst)
        });
        match products {
            [None, None] => continue,
            [Some(a), Some(b)] if a.value == b.value => continue,
            _ => {}
        }
        for product in products.iter().flatten() {
            uses.in_sums[product.value] += 1;
            uses.of_product[product.value] = uses.all[product.value];
        }
        let scalar = func.modifier::<Scalar>(inst);
        sums.push(Sum {
            inst,
            operands,
            products,
            pairs: matches!(scalar, Some(Scalar::F16x2 | Scalar::Bf16x2)),
        });
    }
    for (product, negation) in negations {
        uses.of_product[product] += uses.all[negation];
        uses.of_product[product] -= 1;
    }
    sums
}

/// Which blocks follow one another whatever happens.
struct StraightLines {
    /// The first block of each block's line.
    first: SecondaryMap<Block, Option<Block>>,
}

impl StraightLines {
    fn of(func: &Function) -> StraightLines {
        let mut entries: SecondaryMap<Block, u32> = SecondaryMap::new();
        if let Some(entry) = func.entry() {
            entries[entry] += 1;
        }
        for block in func.blocks() {
            for to in func.successors(block) {
                entries[to] += 1;
            }
        }
        let mut before: SecondaryMap<Block, Option<Block>> = SecondaryMap::new();
        for block in func.blocks() {
            let mut targets = func.successors(block);
            if let (Some(to), None) = (targets.next(), targets.next())
                && entries[to] == 1
            {
                before[to] = Some(block);
            }
        }
        let mut first: SecondaryMap<Block, Option<Block>> = SecondaryMap::new();
        let mut line = Vec::new();
        for block in func.blocks() {
            let mut at = block;
            while let (None, Some(of)) = (first[at], before[at]) {
                line.push(at);
                at = of;
            }
            let start = first[at].unwrap_or(at);
            first[at] = Some(start);
            for block in line.drain(..) {
                first[block] = Some(start);
            }
        }
        StraightLines { first }
    }

    fn together(&self, a: Option<Block>, b: Option<Block>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => a == b || self.first[a] == self.first[b],
            _ => false,
        }
    }
}

/// Makes approximate quotients products, so that sums can take them in.
fn multiply_quotients(func: &mut Function) -> Result<(), BuildError> {
    let quotients: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| {
            let approximate = matches!(
                func.modifier::<Precision>(inst),
                Some(Precision::Approx | Precision::Full)
            );
            func.opcode(inst) == Opcode::Abstract(AbstractOp::Fdiv)
                && func.modifier::<Scalar>(inst) == Some(Scalar::F32)
                && approximate
                && func.inst(inst).guard().is_always()
        })
        .collect();
    for inst in quotients {
        let &[result, a, b] = func.operands(inst) else {
            continue;
        };
        let precision = func
            .modifier::<Precision>(inst)
            .unwrap_or(Precision::Approx);
        let ftz = func.modifier::<Ftz>(inst).unwrap_or(Ftz::Keep);
        let [a, b] = [a, b].map(|side| copied_number(func, side).unwrap_or(side));
        let mut emit = Emit::before(func, inst);
        let [inverse, a] = quotient_factors(&mut emit, precision, ftz, a, b);
        emit.finish()?;
        let row = AbstractOp::Fmul.row();
        let mods = orias_ori::AbstractMods::NONE;
        let mods = row.with_modifier(mods, ftz).unwrap_or(mods);
        let mods = row.with_modifier(mods, Scalar::F32).unwrap_or(mods);
        func.replace_with_abstract(inst, AbstractOp::Fmul, mods, 1, &[result, inverse, a]);
    }
    Ok(())
}

/// The operands of a sum or difference that may be contracted.
fn sum_operands(func: &Function, inst: Inst) -> Option<[Operand; 2]> {
    let adds = matches!(
        func.opcode(inst),
        Opcode::Abstract(AbstractOp::Fadd | AbstractOp::Fsub)
    );
    let free = adds && func.modifier::<Round>(inst) == Some(Round::Default);
    match (free, func.operands(inst)) {
        (true, &[_, a, b]) => Some([a, b]),
        _ => None,
    }
}

/// The product that `value` is, or is the negation of, if a sum like `sum` could take it in.
fn product(func: &Function, lines: &StraightLines, value: Value, sum: Inst) -> Option<Product> {
    let at = func.layout.inst_block(sum);
    let plain = |inst: Inst| {
        let same = func.modifier::<Scalar>(inst) == func.modifier::<Scalar>(sum)
            && func.modifier::<Ftz>(inst) == func.modifier::<Ftz>(sum);
        same && func.inst(inst).guard().is_always()
            && lines.together(func.layout.inst_block(inst), at)
    };
    let inst = func.defining_inst(value)?;
    let (multiply, negative) = match (func.opcode(inst), func.operands(inst)) {
        (Opcode::Abstract(AbstractOp::Fneg), &[_, of]) if plain(inst) => {
            (func.defining_inst(of.as_value()?)?, true)
        }
        _ => (inst, false),
    };
    let free = func.opcode(multiply) == Opcode::Abstract(AbstractOp::Fmul)
        && plain(multiply)
        && func.modifier::<Round>(multiply) == Some(Round::Default)
        && func.modifier::<Sat>(multiply) == Some(Sat::Wrap);
    match (free, func.operands(multiply)) {
        (true, &[result, x, y]) => Some(Product {
            value: result.as_value()?,
            factors: [x, y],
            negative,
        }),
        _ => None,
    }
}

/// Makes the product at `place` part of `sum`. Whether that was possible.
fn take_in(func: &mut Function, sum: &Sum, place: usize, product: &Product) -> bool {
    let inst = sum.inst;
    let subtracts = func.opcode(inst) == Opcode::Abstract(AbstractOp::Fsub);
    let (Some(&result), Some(scalar)) =
        (func.operands(inst).first(), func.modifier::<Scalar>(inst))
    else {
        return false;
    };
    let ftz = func.modifier::<Ftz>(inst).unwrap_or(Ftz::Keep);
    let sat = func.modifier::<Sat>(inst).unwrap_or(Sat::Wrap);
    let [mut x, y] = product.factors;
    let mut rest = sum.operands[1 - place];
    let turn_product = product.negative != (subtracts && place == 1);
    let turn_rest = subtracts && place == 0;
    for (operand, turn) in [(&mut x, turn_product), (&mut rest, turn_rest)] {
        if turn {
            let Some(negated) = negate(func, inst, *operand, scalar) else {
                return false;
            };
            *operand = negated;
        }
    }
    let row = AbstractOp::Ffma.row();
    let mods = orias_ori::AbstractMods::NONE;
    let mods = row.with_modifier(mods, Round::Rn).unwrap_or(mods);
    let mods = row.with_modifier(mods, ftz).unwrap_or(mods);
    let mods = row.with_modifier(mods, sat).unwrap_or(mods);
    let mods = row.with_modifier(mods, scalar).unwrap_or(mods);
    let kept = func.kept(inst).to_vec();
    func.replace_with_abstract(inst, AbstractOp::Ffma, mods, 1, &[result, x, y, rest]);
    if !kept.is_empty() {
        func.set_kept(inst, &kept);
    }
    true
}

/// `operand` with its sign turned, computed before `before`.
fn negate(func: &mut Function, before: Inst, operand: Operand, scalar: Scalar) -> Option<Operand> {
    let sign = match scalar {
        Scalar::F32 => 1 << 31,
        Scalar::F64 => 1 << 63,
        Scalar::F16 | Scalar::Bf16 => 1 << 15,
        Scalar::F16x2 | Scalar::Bf16x2 => 0x8000_8000,
        _ => return None,
    };
    if let Operand::Imm(bits) = operand {
        return Some(Operand::imm(bits.bits() ^ sign));
    }
    let mut emit = Emit::before(func, before);
    let value = emit.op(AbstractOp::Fneg, (scalar,), &[operand]);
    emit.finish().ok()?;
    Some(value)
}
