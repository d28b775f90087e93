//! SimplifyWords (10031): algebraic simplification with known bits, and scalarisation of 64-bit logic where half of it is nothing.
//!
//! **Known bits** ([`crate::known_bits`]) are learnt on the way.
//!
//! **Rewrites.** Each needs one look at an instruction and what is known of its operands:
//!
//! | instruction | becomes |
//! | --- | --- |
//! | logic, sums, shifts and extensions that change nothing (`x & 255` of a byte, `x + 0`, a byte with its sign extended from 16 bits) | the operand |
//! | a mask or an extension of a mask or an extension that keeps all bits it asks for (`(x & 0xffff) & 255`) | the same of what that was made of |
//! | what has only known bits | the number |
//! | logic, choices and shifts of 64 bits of which a word is an operand's or known | `collect` of two words, the other word computed in 32 bits |
//! | a sum of 64 bits whose low words never carry and whose high words are known | `collect` of a sum of 32 bits and a number |
//! | a comparison of 64 bits whose high words are the same number | one of the low words, without sign |
//! | whether two words are the same of which one has a mask, and the other no bits besides (`(x & 3) == (y & 3)`) | whether `(x ^ y) & 3` is zero, which the logic tells by itself |
//! | whether the extension of half a word under a mask is zero | whether the half word is |
//! | a comparison of `p ? 1 : 0` and its like, or of a carry as a word, with a number | `p`, `!p`, or known |
//! | a mask of bits that matrix products of tf32 do not look at (`products`) | what it masks |
//! | a sum or product of singles that is only read saturated (`saturations`) | the same with `.sat` |
//! | an asynchronous copy that reads all of its bytes or none (`p ? 16 : 0`) | one whose source is ignored, by `!p` |
//!
//! Selection takes 64-bit operations apart word by word anyway, but after common subexpressions, and it sees only how a source is made, not which bits it
//! has: a word that is always zero would be made in a register, masked, shifted and compared. Shifts to the left that a 64-bit sum reads stay whole: they are
//! part of LEA.
//!
//! Doublewords of which only low words are asked for, around loops too, become words first (`low_words`).
//!
//! One visit of each instruction in preorder of the dominator tree: linear. GeneralOptimize's rewrites follow where something was found.

mod low_words;
mod products;
mod saturations;

use super::general_optimize::optimize_general;
use crate::emit::{Emit, imm};
use crate::fold;
use crate::known_bits::{Bits, KnownBits, WORD, is_sign_extended, is_signed, same_bits};
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DepthFirst, DominatorTree, FlowGraph};
use orias_ori::operation::{Clamp, Compare, Direction, Half, Sat, Scalar, SourceType};
use orias_ori::{AbstractOp, Function, Guard, Inst, Operand, Operation, Type, Value};

/// Runs the phase.
pub fn simplify_words(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    if func.entry().is_none() {
        return Ok(());
    }
    if low_words::narrow_to_low_words(func)? {
        optimize_general(func, context)?;
    }
    let unmasked = products::unmask_products(func);
    let saturated = saturations::saturate_at_once(func);
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let tree = DominatorTree::new(&graph, &walk);
    let mut known = KnownBits::with_capacity(func.value_count());
    let summed = summed_values(func);
    let mut changed = unmasked | saturated;
    for block in tree.preorder() {
        let mut next = func.layout.first_inst(block);
        while let Some(inst) = next {
            next = func.layout.next_inst(inst);
            known.learn(func, inst);
            if func.opcode(inst).as_abstract() == Some(AbstractOp::CpAsync) {
                changed |=
                    ignore_source(func, &known, inst).map_err(|error| PhaseError::Broken {
                        at: inst.to_string(),
                        what: error.to_string(),
                    })?;
                continue;
            }
            let Some(found) = find(func, &known, &summed, inst) else {
                continue;
            };
            changed = true;
            if let Found::Source(place, operand) = found {
                let place = func.result_count(inst) + place;
                func.set_operand(inst, place, operand);
                next = Some(inst);
                continue;
            }
            let before = func.layout.prev_inst(inst);
            rewrite(func, &known, inst, found).map_err(|error| PhaseError::Broken {
                at: inst.to_string(),
                what: error.to_string(),
            })?;
            // What came in its place may become less still.
            next = match before {
                Some(before) => func.layout.next_inst(before),
                None => func.layout.first_inst(block),
            };
        }
    }
    match changed {
        true => optimize_general(func, context),
        false => Ok(()),
    }
}

/// The values that 64-bit sums read.
fn summed_values(func: &Function) -> SecondaryMap<Value, bool> {
    let mut summed = SecondaryMap::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        let op = func.opcode(inst).as_abstract();
        if op == Some(AbstractOp::Add)
            && func.modifier::<Scalar>(inst).map(Scalar::bits) == Some(64)
        {
            for operand in &func.operands(inst)[func.result_count(inst)..] {
                if let Some(value) = operand.as_value() {
                    summed[value] = true;
                }
            }
        }
    }
    summed
}

/// What an instruction can become.
enum Found {
    /// This operand.
    Same(Scalar, Operand),
    /// A predicate, or its opposite.
    Predicate(Operand, bool),
    /// The same comparison of the low words.
    LowWords(Operand, Operand),
    /// A comparison with zero, of low words where these are pairs.
    WithZero(Compare, Operand),
    /// Whether two words have the same bits of a mask.
    Masked([Operand; 2], u64),
    /// Whether half a word is zero.
    Half(Operand),
    /// Two words.
    Words([Word; 2]),
    /// The same of another source in that place.
    Source(usize, Operand),
}

/// A word of a result.
#[derive(Clone, Copy)]
enum Word {
    Number(u64),
    /// The low or the high word of a pair.
    Of(Operand, bool),
    /// The same operation on the same words of both operands.
    Alike,
    /// The sum of the low words.
    Sum,
    /// A word of the operand shifted.
    Shifted(AbstractOp, Scalar, Operand, bool, u32),
    /// The high word of the operand shifted to the left, or the low one to the right, with bits of the other word.
    Funnel(Operand, Direction, u32),
}

fn find(
    func: &Function,
    known: &KnownBits,
    summed: &SecondaryMap<Value, bool>,
    inst: Inst,
) -> Option<Found> {
    use AbstractOp as A;
    let op = func.opcode(inst).as_abstract()?;
    let interesting = matches!(
        op,
        A::And
            | A::Or
            | A::Xor
            | A::Add
            | A::Sub
            | A::Shl
            | A::Shr
            | A::Selp
            | A::Cvt
            | A::Setp
            | A::Mul
    );
    if !interesting || !func.inst(inst).guard().is_always() {
        return None;
    }
    let (results, sources) = func.operands(inst).split_at(func.result_count(inst));
    let result = results.first()?.as_value()?;
    if op == A::Setp {
        return find_comparison(func, known, inst, results, sources);
    }
    let width: u16 = match func.value_type(result) {
        Type::R => 32,
        Type::R2 => 64,
        _ => return None,
    };
    let scalar = func.modifier::<Scalar>(inst)?;
    let bits = known.value(result);
    let bits = if width == 32 { bits.word() } else { bits };
    let move_type = if width == 64 {
        Scalar::B64
    } else {
        Scalar::B32
    };
    if let Some(number) = bits.number() {
        return Some(Found::Same(move_type, imm(number)));
    }
    if let (A::And, 16 | 32, &[a, Operand::Imm(mask)]) = (op, scalar.bits(), sources)
        && width == 32
        && let Some(whole) = same_bits(func, a, mask.bits() & WORD)
    {
        return Some(Found::Source(0, whole));
    }
    if scalar.bits() != width {
        return None;
    }
    let wraps = func
        .modifier::<Sat>(inst)
        .is_none_or(|sat| sat == Sat::Wrap);
    let is_zero = |operand| known.of(operand, width).number() == Some(0);
    match (op, sources) {
        (A::And | A::Or | A::Xor, &[a, b]) => {
            let (x, y) = (known.of(a, width), known.of(b, width));
            if let Some(first) = unchanged(op, x, y) {
                let same = if first { a } else { b };
                return plain(same).then_some(Found::Same(move_type, same));
            }
            if width != 64 {
                return None;
            }
            let words = [false, true].map(|high| {
                let (x, y) = (x.half(high), y.half(high));
                if let Some(number) = Bits::logic(op, x, y).word().number() {
                    return Word::Number(number);
                }
                match unchanged(op, x, y) {
                    Some(true) => Word::Of(a, high),
                    Some(false) => Word::Of(b, high),
                    None => Word::Alike,
                }
            });
            let gains = words.iter().any(|word| !matches!(word, Word::Alike));
            (gains && plain(a) && plain(b)).then_some(Found::Words(words))
        }
        (A::Selp, &[a, b, _]) if width == 64 => {
            let words = [false, true].map(|high| match bits.half(high).number() {
                Some(number) => Word::Number(number),
                None => Word::Alike,
            });
            let gains = words.iter().any(|word| !matches!(word, Word::Alike));
            (gains && plain(a) && plain(b)).then_some(Found::Words(words))
        }
        (A::Add, &[a, b]) if wraps && is_zero(b) && plain(a) => Some(Found::Same(move_type, a)),
        (A::Add, &[a, b]) if wraps && is_zero(a) && plain(b) => Some(Found::Same(move_type, b)),
        (A::Add, &[a, b]) if wraps && width == 64 && plain(a) && plain(b) => {
            let [x, y] = [a, b].map(|operand| known.of(operand, 64));
            let most = [x, y].map(|bits| bits.half(false).possible() & WORD);
            let high = [x, y].map(|bits| bits.half(true).number());
            let ([Some(x), Some(y)], true) = (high, most[0] + most[1] <= WORD) else {
                return None;
            };
            let high = Word::Number(x.wrapping_add(y) & WORD);
            Some(Found::Words([Word::Sum, high]))
        }
        (A::Sub, &[a, b]) if wraps && is_zero(b) && plain(a) => Some(Found::Same(move_type, a)),
        (A::Mul, &[a, b]) if func.modifier::<Half>(inst) == Some(Half::Lo) => {
            let one = known.of(b, width).number() == Some(1);
            (one && plain(a)).then_some(Found::Same(move_type, a))
        }
        (A::Cvt, &[a]) if wraps && width == 32 && plain(a) => {
            // An extension of what has nothing above the narrow type's bits.
            let from = Scalar::from(func.modifier::<SourceType>(inst)?);
            let value = a.as_value()?;
            let narrow = match from {
                Scalar::U8 | Scalar::U16 => from.bits(),
                Scalar::S8 | Scalar::S16 => from.bits() - 1,
                _ => return None,
            };
            if !matches!(scalar, Scalar::U32 | Scalar::S32) || func.value_type(value) != Type::R {
                return None;
            }
            let signed = matches!(from, Scalar::S8 | Scalar::S16);
            let same = known.value(value).possible() < 1 << narrow
                || signed && is_sign_extended(func, value, from.bits());
            if same {
                return Some(Found::Same(move_type, a));
            }
            let read = (1 << from.bits()) - 1;
            same_bits(func, a, read).map(|whole| Found::Source(0, whole))
        }
        (A::Shl | A::Shr, &[a, Operand::Imm(by)]) if plain(a) => {
            let by = (by.bits() & WORD) as u32;
            if by == 0 {
                return Some(Found::Same(move_type, a));
            }
            if width != 64 || by >= 64 {
                return None;
            }
            shifted(op, scalar, a, by, bits, known.of(a, 64), summed[result])
        }
        _ => None,
    }
}

/// A shift of a pair by 1 to 63 of which a word is known or nothing but the other.
fn shifted(
    op: AbstractOp,
    scalar: Scalar,
    a: Operand,
    by: u32,
    result: Bits,
    source: Bits,
    summed: bool,
) -> Option<Found> {
    let number = |high: bool| result.half(high).number().map(Word::Number);
    let upper_empty = source.half(true).number() == Some(0);
    let word = |high: bool, by: u32, scalar: Scalar| match by {
        0 => Word::Of(a, high),
        by => Word::Shifted(op, scalar, a, high, by),
    };
    let words = if op == AbstractOp::Shl {
        if by >= 32 {
            [Word::Number(0), word(false, by - 32, Scalar::B32)]
        } else if summed || number(true).is_none() {
            return None;
        } else {
            [word(false, by, Scalar::B32), number(true)?]
        }
    } else if is_signed(scalar) && source.half(true).zeros >> 31 & 1 == 0 {
        if by != 32 {
            return None;
        }
        [
            Word::Of(a, true),
            Word::Shifted(op, Scalar::S32, a, true, 31),
        ]
    } else if by >= 32 {
        [word(true, by - 32, Scalar::U32), Word::Number(0)]
    } else if upper_empty {
        [word(false, by, Scalar::U32), Word::Number(0)]
    } else if let Some(high) = number(true) {
        [Word::Funnel(a, Direction::Right, by), high]
    } else {
        return None;
    };
    let words = [(words[0], number(false)), (words[1], number(true))]
        .map(|(word, known)| known.unwrap_or(word));
    Some(Found::Words(words))
}

fn plain(operand: Operand) -> bool {
    matches!(operand, Operand::Imm(_)) || operand.as_value().is_some() && operand.mods().is_empty()
}

/// Whether the logic of both is the first (true) or the second operand (false) in every bit.
fn unchanged(op: AbstractOp, a: Bits, b: Bits) -> Option<bool> {
    let kept = |a: Bits, b: Bits| match op {
        AbstractOp::And => a.possible() & !b.ones == 0,
        AbstractOp::Or => b.possible() & !a.ones == 0,
        _ => b.possible() == 0,
    };
    if kept(a, b) {
        Some(true)
    } else {
        kept(b, a).then_some(false)
    }
}

fn find_comparison(
    func: &Function,
    known: &KnownBits,
    inst: Inst,
    results: &[Operand],
    sources: &[Operand],
) -> Option<Found> {
    let alone = results[1..].iter().all(|result| *result == Operand::None)
        && sources.get(2).is_none_or(|with| *with == Operand::None);
    let (&a, &b) = (sources.first()?, sources.get(1)?);
    let scalar = func.modifier::<Scalar>(inst)?;
    if !alone || sources.len() > 3 || !plain(a) || !plain(b) {
        return None;
    }
    // Floats are the same whose bits are not: zeros of either sign.
    let whole = matches!(
        scalar,
        Scalar::U16
            | Scalar::S16
            | Scalar::B16
            | Scalar::U32
            | Scalar::S32
            | Scalar::B32
            | Scalar::U64
            | Scalar::S64
            | Scalar::B64
    );
    if let Some(compare) = tested_bit(func, known, inst, a, b).filter(|_| whole) {
        return Some(Found::WithZero(compare, a));
    }
    if let Some(half) = tested_half(func, inst, a, b).filter(|_| whole) {
        return Some(Found::Half(half));
    }
    if whole && let Some((words, mask)) = masked(func, known, inst, a, b) {
        return Some(Found::Masked(words, mask));
    }
    match scalar {
        Scalar::U64 | Scalar::S64 | Scalar::B64 => {
            let [x, y] = [a, b].map(|operand| known.of(operand, 64).half(true).number());
            (x.is_some() && x == y).then_some(Found::LowWords(a, b))
        }
        Scalar::U32 | Scalar::S32 | Scalar::B32 => {
            let Operand::Imm(limit) = b else { return None };
            let choice = func.defining_inst(a.as_value()?)?;
            let Operation::Abstract(op, mods) = func.inst(inst).operation() else {
                return None;
            };
            let (yes, no, predicate) = choice_of_numbers(func, choice)?;
            let holds = |number: u64| {
                let numbers = [number & WORD, limit.bits() & WORD, 0];
                let operands = &numbers.map(u128::from)[..sources.len()];
                let missing = &[false, false, true][..sources.len()];
                let computed = fold::exact(op, mods, operands, missing)?;
                Some(computed.first()? & 1 == 1)
            };
            match (holds(yes)?, holds(no)?) {
                (true, false) => Some(Found::Predicate(predicate, true)),
                (false, true) => Some(Found::Predicate(predicate, false)),
                (all, _) => Some(Found::Same(Scalar::Pred, imm(u64::from(all)))),
            }
        }
        _ => None,
    }
}

/// The two numbers that `inst` chooses between, and the predicate that it chooses the first by. A sum of zeros with a carry chooses one or zero.
fn choice_of_numbers(func: &Function, inst: Inst) -> Option<(u64, u64, Operand)> {
    let is_word =
        func.modifier::<Scalar>(inst)?.bits() == 32 && func.inst(inst).guard().is_always();
    let number = |operand: Operand| match operand {
        Operand::Imm(number) => Some(number.bits()),
        _ => None,
    };
    let (yes, no, predicate) = match (func.opcode(inst).as_abstract()?, func.operands(inst)) {
        (AbstractOp::Selp, &[_, yes, no, predicate]) => (number(yes)?, number(no)?, predicate),
        (AbstractOp::AddC, &[_, _, a, b, carry]) if [number(a)?, number(b)?] == [0, 0] => {
            (1, 0, carry)
        }
        _ => return None,
    };
    let plain = predicate.as_value().is_some() && predicate.mods().is_empty();
    (is_word && plain).then_some((yes, no, predicate))
}

/// How `a`, of which all bits but one of its low word are zero, compares with zero if it was asked whether it is that bit: `(x & 4) == 4` is `(x & 4) != 0`, which the logic tells by itself.
fn tested_bit(
    func: &Function,
    known: &KnownBits,
    inst: Inst,
    a: Operand,
    b: Operand,
) -> Option<Compare> {
    let bits = func.modifier::<Scalar>(inst)?.bits();
    let (Operand::Imm(number), 32 | 64) = (b, bits) else {
        return None;
    };
    let opposite = match func.modifier::<Compare>(inst)? {
        Compare::Eq => Compare::Ne,
        Compare::Ne => Compare::Eq,
        _ => return None,
    };
    let found = known.of(a, bits);
    let possible = found.possible() & (u64::MAX >> (64 - bits));
    let is_bit = possible.is_power_of_two() && possible <= WORD && found.ones & possible == 0;
    (is_bit && a.as_value().is_some() && number.bits() == possible).then_some(opposite)
}

/// The words of which `a` and `b` are the bits of a mask, if the comparison asks whether these are the same: one is a word with a mask, the other has no bits besides.
fn masked(
    func: &Function,
    known: &KnownBits,
    inst: Inst,
    a: Operand,
    b: Operand,
) -> Option<([Operand; 2], u64)> {
    let bits = func.modifier::<Scalar>(inst)?.bits();
    let compare = func.modifier::<Compare>(inst)?;
    if !matches!(compare, Compare::Eq | Compare::Ne) || !matches!(bits, 16 | 32) {
        return None;
    }
    let all = u64::MAX >> (64 - bits);
    let word = |operand: Operand| {
        let inst = func.defining_inst(operand.as_value()?)?;
        let is_mask = func.opcode(inst).as_abstract() == Some(AbstractOp::And)
            && func.inst(inst).guard().is_always()
            && func.modifier::<Scalar>(inst)?.bits() == bits;
        match func.operands(inst) {
            &[_, word, Operand::Imm(mask)]
                if is_mask && plain(word) && word.as_value().is_some() =>
            {
                Some((word, mask.bits() & all))
            }
            _ => None,
        }
    };
    for (a, b) in [(a, b), (b, a)] {
        let Some((x, mask)) = word(a) else { continue };
        let y = match word(b) {
            Some((y, same)) if same == mask => Some(y),
            _ => (b.as_value().is_some() && known.of(b, bits).possible() & all & !mask == 0)
                .then_some(b),
        };
        if let Some(y) = y {
            return Some(([x, y], mask));
        }
    }
    None
}

/// The half word under a mask that `a` extends, if it was asked whether that is zero: the logic of the mask tells by itself.
fn tested_half(func: &Function, inst: Inst, a: Operand, b: Operand) -> Option<Operand> {
    let asks = matches!(func.modifier::<Compare>(inst)?, Compare::Eq | Compare::Ne)
        && func.modifier::<Scalar>(inst)?.bits() == 32
        && matches!(b, Operand::Imm(number) if number.bits() == 0);
    let extension = func.defining_inst(a.as_value().filter(|_| asks)?)?;
    let extends = func.opcode(extension).as_abstract() == Some(AbstractOp::Cvt)
        && func.inst(extension).guard().is_always()
        && func.modifier::<Sat>(extension) == Some(Sat::Wrap)
        && matches!(
            func.modifier::<SourceType>(extension).map(Scalar::from),
            Some(Scalar::S16 | Scalar::U16)
        )
        && matches!(
            func.modifier::<Scalar>(extension),
            Some(Scalar::S32 | Scalar::U32 | Scalar::B32)
        );
    let &[_, half] = func.operands(extension) else {
        return None;
    };
    let mask = func.defining_inst(half.as_value().filter(|_| extends && plain(half))?)?;
    let is_mask = func.opcode(mask).as_abstract() == Some(AbstractOp::And)
        && func.inst(mask).guard().is_always()
        && func.modifier::<Scalar>(mask)?.bits() == 16
        && matches!(func.operands(mask), [_, _, Operand::Imm(_)]);
    is_mask.then_some(half)
}

/// How many choices between sizes are looked through.
const NESTED_CHOICES: u32 = 4;

/// A copy that reads all of its bytes or none ignores its source by a predicate instead: the machine's copy has one, while a size it has to
/// be told by the alignment of the address.
fn ignore_source(
    func: &mut Function,
    known: &KnownBits,
    inst: Inst,
) -> Result<bool, orias_ori::builder::BuildError> {
    let &[to, from, size, read, Operand::None, policy] = func.operands(inst) else {
        return Ok(false);
    };
    let (Operand::Imm(bytes), Operation::Abstract(op, mods)) = (size, func.inst(inst).operation())
    else {
        return Ok(false);
    };
    let all_or_nothing = read.as_value().is_some()
        && read.mods().is_empty()
        && known.of(read, 32).possible() & WORD == bytes.bits();
    if !all_or_nothing || !bytes.bits().is_power_of_two() {
        return Ok(false);
    }
    let mut emit = Emit::before(func, inst);
    let ignored = is_zero(&mut emit, known, read, bytes.bits(), 0);
    emit.finish()?;
    let operands = [to, from, size, Operand::None, ignored, policy];
    func.replace_with_abstract(inst, op, mods, 0, &operands);
    Ok(true)
}

/// The predicate that `size`, which is `bytes` or zero, is zero.
fn is_zero(
    emit: &mut Emit<'_>,
    known: &KnownBits,
    size: Operand,
    bytes: u64,
    depth: u32,
) -> Operand {
    let func = emit.func();
    let choice = size
        .as_value()
        .and_then(|value| func.defining_inst(value))
        .filter(|&choice| {
            func.opcode(choice).as_abstract() == Some(AbstractOp::Selp)
                && func.inst(choice).guard().is_always()
        });
    let sides = choice.and_then(|choice| match *func.operands(choice) {
        [_, yes, no, predicate]
            if predicate.as_value().is_some() && predicate.mods().is_empty() =>
        {
            Some((yes, no, predicate))
        }
        _ => None,
    });
    let number = |operand: Operand| match operand {
        Operand::Imm(imm) => Some(imm.bits() & WORD),
        _ => None,
    };
    let is_size = |operand: Operand| {
        number(operand).is_none()
            && plain(operand)
            && depth < NESTED_CHOICES
            && known.of(operand, 32).possible() & WORD == bytes
    };
    match sides {
        Some((yes, no, predicate)) if number(no) == Some(0) && number(yes) == Some(bytes) => {
            emit.op(AbstractOp::Not, (Scalar::Pred,), &[predicate])
        }
        Some((yes, no, predicate)) if number(yes) == Some(0) && number(no) == Some(bytes) => {
            predicate
        }
        Some((yes, no, predicate)) if number(no) == Some(0) && is_size(yes) => {
            let inner = is_zero(emit, known, yes, bytes, depth + 1);
            let not = emit.op(AbstractOp::Not, (Scalar::Pred,), &[predicate]);
            emit.op(AbstractOp::Or, (Scalar::Pred,), &[not, inner])
        }
        Some((yes, no, predicate)) if number(yes) == Some(0) && is_size(no) => {
            let inner = is_zero(emit, known, no, bytes, depth + 1);
            emit.op(AbstractOp::Or, (Scalar::Pred,), &[predicate, inner])
        }
        _ => emit.setp(Compare::Eq, Scalar::U32, size, imm(0)),
    }
}

fn rewrite(
    func: &mut Function,
    known: &KnownBits,
    inst: Inst,
    found: Found,
) -> Result<(), orias_ori::builder::BuildError> {
    let Operation::Abstract(op, mods) = func.inst(inst).operation() else {
        return Ok(());
    };
    let (results, sources) = func.operands(inst).split_at(func.result_count(inst));
    let results = results.to_vec();
    let sources = sources.to_vec();
    match found {
        Found::LowWords(a, b) => {
            let mut emit = Emit::before(func, inst);
            let words = [a, b].map(|side| word_of(&mut emit, known, side, false));
            emit.finish()?;
            let Some(mods) = op.row().with_modifier(mods, Scalar::U32) else {
                return Ok(());
            };
            let mut operands = results.clone();
            operands.extend(words);
            operands.extend(sources.iter().skip(2));
            func.replace_with_abstract(inst, op, mods, results.len(), &operands);
            return Ok(());
        }
        Found::Half(half) => {
            let Some(mods) = op.row().with_modifier(mods, Scalar::U16) else {
                return Ok(());
            };
            let mut operands = results.clone();
            operands.extend([half, imm(0)]);
            operands.extend(sources.iter().skip(2));
            func.replace_with_abstract(inst, op, mods, results.len(), &operands);
            return Ok(());
        }
        Found::Masked([x, y], mask) => {
            let mut emit = Emit::before(func, inst);
            let differ = emit.binary(AbstractOp::Xor, Scalar::B32, x, y);
            let word = emit.binary(AbstractOp::And, Scalar::B32, differ, imm(mask));
            emit.finish()?;
            let Some(mods) = op.row().with_modifier(mods, Scalar::U32) else {
                return Ok(());
            };
            let mut operands = results.clone();
            operands.extend([word, imm(0)]);
            operands.extend(sources.iter().skip(2));
            func.replace_with_abstract(inst, op, mods, results.len(), &operands);
            return Ok(());
        }
        Found::WithZero(compare, value) => {
            let wide = func.modifier::<Scalar>(inst).map(|scalar| scalar.bits()) == Some(64);
            let mut emit = Emit::before(func, inst);
            let word = match wide {
                true => word_of(&mut emit, known, value, false),
                false => value,
            };
            emit.finish()?;
            let mods = (op.row().with_modifier(mods, Scalar::U32))
                .and_then(|mods| op.row().with_modifier(mods, compare));
            let Some(mods) = mods else {
                return Ok(());
            };
            let mut operands = results.clone();
            operands.extend([word, imm(0)]);
            operands.extend(sources.iter().skip(2));
            func.replace_with_abstract(inst, op, mods, results.len(), &operands);
            return Ok(());
        }
        // Put in its place where it was found.
        Found::Source(..) => return Ok(()),
        Found::Same(scalar, operand) => {
            let mut emit = Emit::before(func, inst);
            emit.put(
                AbstractOp::Mov,
                (scalar,),
                &results[..1],
                &[operand],
                Guard::ALWAYS,
                &[],
            );
            emit.finish()?;
        }
        Found::Predicate(predicate, same) => {
            let op = if same {
                AbstractOp::Mov
            } else {
                AbstractOp::Not
            };
            let mut emit = Emit::before(func, inst);
            emit.put(
                op,
                (Scalar::Pred,),
                &results[..1],
                &[predicate],
                Guard::ALWAYS,
                &[],
            );
            emit.finish()?;
        }
        Found::Words(words) => {
            let mut emit = Emit::before(func, inst);
            let parts = [(words[0], false), (words[1], true)].map(|(word, high)| {
                let operand = match word {
                    Word::Number(number) => imm(number),
                    Word::Of(pair, high) => word_of(&mut emit, known, pair, high),
                    Word::Alike => {
                        let mut operands: Vec<Operand> = sources[..2]
                            .iter()
                            .map(|&source| word_of(&mut emit, known, source, high))
                            .collect();
                        operands.extend(&sources[2..]);
                        emit.op(op, (Scalar::B32,), &operands)
                    }
                    Word::Sum => {
                        let [a, b] = [sources[0], sources[1]]
                            .map(|source| word_of(&mut emit, known, source, false));
                        emit.add(a, b)
                    }
                    Word::Shifted(op, scalar, pair, high, by) => {
                        let word = word_of(&mut emit, known, pair, high);
                        emit.op(op, (scalar,), &[word, imm(u64::from(by))])
                    }
                    Word::Funnel(pair, direction, by) => {
                        let low = word_of(&mut emit, known, pair, false);
                        let high = word_of(&mut emit, known, pair, true);
                        let how = (direction, Clamp::Clamp);
                        emit.op(AbstractOp::Shf, how, &[low, high, imm(u64::from(by))])
                    }
                };
                Operand::from(emit.as_value(Scalar::B32, operand))
            });
            emit.put(
                AbstractOp::Collect,
                (),
                &results[..1],
                &parts,
                Guard::ALWAYS,
                &[],
            );
            emit.finish()?;
        }
    }
    func.remove_inst(inst);
    Ok(())
}

/// A word of a pair, from where it was put together if that is known.
fn word_of(emit: &mut Emit<'_>, known: &KnownBits, pair: Operand, high: bool) -> Operand {
    if let Some(number) = known.of(pair, 64).half(high).number() {
        return imm(number);
    }
    let func = emit.func();
    if let Some(inst) = pair.as_value().and_then(|value| func.defining_inst(value))
        && func.inst(inst).guard().is_always()
    {
        match (func.opcode(inst).as_abstract(), func.operands(inst)) {
            (Some(AbstractOp::Collect), &[_, a, b]) => {
                let is_word = |operand: Operand| {
                    operand
                        .as_value()
                        .is_some_and(|value| func.value_type(value) == Type::R)
                };
                if is_word(a) && is_word(b) {
                    return if high { b } else { a };
                }
            }
            (Some(AbstractOp::Cvt), &[_, word])
                if func.modifier::<SourceType>(inst) == Some(SourceType::U32)
                    && matches!(
                        func.modifier::<Scalar>(inst),
                        Some(Scalar::U64 | Scalar::S64)
                    )
                    && word.as_value().is_some()
                    && word.mods().is_empty() =>
            {
                return if high { imm(0) } else { word };
            }
            _ => {}
        }
    }
    let (low, upper) = emit.halves(pair);
    if high { upper } else { low }
}
