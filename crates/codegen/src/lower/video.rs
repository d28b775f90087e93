//! Video instructions: the machine does hardly any of them, so they become ordinary integer code right here.
//!
//! The scalar ones pick a byte or half word of each operand, compute with more bits than 32, clamp, and combine the result
//! with a third operand: by another operation, or by putting it into one of its bytes or half words. They are computed in 64
//! bits. Those of two or four elements work on each element of a register (or of both, by selector) in 32 bits, and put the
//! elements under the mask into the third operand, or add them to it.
//!
//! Two kinds of these need not go element by element. Absolute differences of four bytes are an instruction (VABSDIFF4), if the bytes of both
//! operands have a sign or neither have; selectors put bytes in place before. Sums and differences that wrap are computed in whole registers: the
//! highest bits of the elements are kept apart, so that no carry goes from one element to the next.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use super::modifiers::modifier;
use crate::emit::{Emit, imm};
use orias_ori::Operand;
use orias_ori::operation::{AbstractOp, Clamp, Compare, Scalar};
use orias_ptx::ast::OperandKind;
use orias_ptx::grammar::slot_names as slot;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::PatternKind;
use orias_ptx::types::Type as PtxType;

/// A part of a register: its first bit and its width.
#[derive(Clone, Copy)]
struct Part {
    shift: u64,
    width: u64,
}

const WHOLE: Part = Part {
    shift: 0,
    width: 32,
};

/// The part that `.b2` or `.h1` names.
fn part(selector: Option<Modifier>) -> Part {
    let Some(selector) = selector else {
        return WHOLE;
    };
    let name = selector.name();
    let width = if name.starts_with('b') { 8 } else { 16 };
    let number: u64 = name[1..].parse().unwrap_or(0);
    Part {
        shift: number * width,
        width,
    }
}

/// The modifier behind an operand.
fn suffix(statement: &Statement<'_>, index: usize) -> Option<Modifier> {
    match statement.operands.get(index)?.kind {
        OperandKind::Suffixed(_, modifier) => Some(modifier),
        _ => None,
    }
}

/// Whether an operand is written with a minus sign.
fn is_negated(statement: &Statement<'_>, index: usize) -> bool {
    let kind = match statement.operands.get(index).map(|it| it.kind) {
        Some(OperandKind::Suffixed(inner, _)) => statement.body.operands[inner as usize].kind,
        Some(kind) => kind,
        None => return false,
    };
    matches!(kind, OperandKind::Negated(_))
}

/// An operand without its minus sign.
fn plain_source(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    index: usize,
) -> Lowered<Operand> {
    let kind = match statement.operands[index].kind {
        OperandKind::Suffixed(inner, _) => statement.body.operands[inner as usize].kind,
        kind => kind,
    };
    let kind = match kind {
        OperandKind::Negated(register) => OperandKind::Register(register),
        other => other,
    };
    body.value_of(statement, kind, PtxType::B32)
}

/// The type of an operand has a sign.
fn is_signed(statement: &Statement<'_>, index: usize) -> bool {
    match statement.patterns.get(index).map(|it| &it.kind) {
        Some(PatternKind::Value(value)) => value.ty.is_signed(),
        _ => false,
    }
}

/// A part of a word as a number of 32 bits.
fn extract(emit: &mut Emit<'_>, word: Operand, part: Part, signed: bool) -> Operand {
    let ty = if signed { Scalar::S32 } else { Scalar::U32 };
    if part.width == 32 {
        return word;
    }
    let up = 32 - part.shift - part.width;
    let raised = match up {
        0 => word,
        up => emit.shl(word, imm(up)),
    };
    emit.shr(ty, raised, imm(32 - part.width))
}

/// A part of a word as a number of 64 bits.
fn extract_wide(emit: &mut Emit<'_>, word: Operand, part: Part, signed: bool) -> Operand {
    let value = extract(emit, word, part, signed);
    if signed {
        emit.cvt(Scalar::S64, Scalar::S32, value)
    } else {
        emit.cvt(Scalar::U64, Scalar::U32, value)
    }
}

/// The least and greatest number of so many bits.
fn limits(width: u64, signed: bool) -> (i64, i64) {
    if signed {
        (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    } else {
        (0, (1 << width) - 1)
    }
}

fn clamp_wide(emit: &mut Emit<'_>, value: Operand, width: u64, signed: bool) -> Operand {
    let (least, greatest) = limits(width, signed);
    let value = emit.binary(AbstractOp::Max, Scalar::S64, value, imm(least as u64));
    emit.binary(AbstractOp::Min, Scalar::S64, value, imm(greatest as u64))
}

/// Puts the low bits of `value` into a part of `word`.
fn merge(emit: &mut Emit<'_>, value: Operand, word: Operand, part: Part) -> Operand {
    let mask = ((1_u64 << part.width) - 1) << part.shift & 0xffff_ffff;
    let placed = match part.shift {
        0 => value,
        shift => emit.shl(value, imm(shift)),
    };
    let placed = emit.and(placed, imm(mask));
    let kept = emit.and(word, imm(!mask & 0xffff_ffff));
    emit.or(kept, placed)
}

/// `vadd`, `vsub`, `vabsdiff`, `vmin`, `vmax`, `vshl`, `vshr`, `vset` of one value.
pub(super) fn scalar(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    let a = body.source(statement, 1)?;
    let b = body.source(statement, 2)?;
    let c = match statement.operands.len() {
        4 => Some(body.source(statement, 3)?),
        _ => None,
    };
    let (a_part, b_part) = (part(suffix(statement, 1)), part(suffix(statement, 2)));
    let (a_signed, b_signed) = (is_signed(statement, 1), is_signed(statement, 2));
    let into = suffix(statement, 0).map(|it| part(Some(it)));
    let signed = is_signed(statement, 0);
    let saturates = form.has(Modifier::Sat);
    let compare: Option<Compare> = modifier(form);
    let wraps = modifier::<Clamp>(form) == Some(Clamp::Wrap);
    let op = statement.op;
    let second = second_operation(statement);
    let result = body.with(|emit| {
        let x = extract_wide(emit, a, a_part, a_signed);
        let binary = |emit: &mut Emit<'_>, op: AbstractOp, x: Operand, y: Operand| {
            emit.binary(op, Scalar::S64, x, y)
        };
        let value = match op {
            Op::Vshl | Op::Vshr => {
                let by = extract(emit, b, b_part, false);
                let by = if wraps {
                    emit.and(by, imm(31))
                } else {
                    emit.binary(AbstractOp::Min, Scalar::U32, by, imm(32))
                };
                if op == Op::Vshl {
                    // The intermediate result has 34 bits.
                    let shifted = emit.binary(AbstractOp::Shl, Scalar::B64, x, by);
                    let raised = emit.binary(AbstractOp::Shl, Scalar::B64, shifted, imm(30));
                    emit.binary(AbstractOp::Shr, Scalar::S64, raised, imm(30))
                } else {
                    emit.binary(AbstractOp::Shr, Scalar::S64, x, by)
                }
            }
            _ => {
                let y = extract_wide(emit, b, b_part, b_signed);
                match op {
                    Op::Vadd => binary(emit, AbstractOp::Add, x, y),
                    Op::Vsub => binary(emit, AbstractOp::Sub, x, y),
                    Op::Vmin => binary(emit, AbstractOp::Min, x, y),
                    Op::Vmax => binary(emit, AbstractOp::Max, x, y),
                    Op::Vabsdiff => {
                        let difference = binary(emit, AbstractOp::Sub, x, y);
                        emit.op(AbstractOp::Abs, (Scalar::S64,), &[difference])
                    }
                    _ => {
                        let compare = compare.unwrap_or(Compare::Eq);
                        let holds = emit.setp(compare, Scalar::S64, x, y);
                        emit.selp(Scalar::B64, imm(1), imm(0), holds)
                    }
                }
            }
        };
        let width = into.map_or(32, |part| part.width);
        let value = if saturates {
            clamp_wide(emit, value, width, signed)
        } else {
            value
        };
        let (value, _) = emit.halves(value);
        match (c, into, second) {
            (Some(c), Some(part), _) => merge(emit, value, c, part),
            (Some(c), None, Some(op)) => {
                let ty = if signed { Scalar::S32 } else { Scalar::U32 };
                emit.binary(op, ty, value, c)
            }
            _ => value,
        }
    })?;
    write(body, statement, result)
}

/// The operation that combines the result with the third operand.
fn second_operation(statement: &Statement<'_>) -> Option<AbstractOp> {
    match statement.form.get(slot::SECOND)? {
        Modifier::Add => Some(AbstractOp::Add),
        Modifier::Min => Some(AbstractOp::Min),
        Modifier::Max => Some(AbstractOp::Max),
        _ => None,
    }
}

fn write(body: &mut Body<'_, '_>, statement: &Statement<'_>, result: Operand) -> Lowered {
    let kind = match statement.operands[0].kind {
        OperandKind::Suffixed(inner, _) => statement.body.operands[inner as usize].kind,
        kind => kind,
    };
    match body.destination_of(statement, kind)? {
        Destination::Variable(variable) => body.write(variable, result),
        _ => Ok(()),
    }
}

/// `vmad`: product and sum of more than 64 bits, scaled and clamped.
///
/// Whether the result is clamped as a number with sign follows from the factors' types and the minus signs, not from the
/// result's type; the summand has a sign where the result's type or that result has. Sum and product fit 64 bits with sign,
/// except for the product of two whole unsigned words: where it is clamped in the end, anything above 2⁶² is as good, and
/// else the low 64 bits do.
pub(super) fn multiply_add(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    let a = plain_source(body, statement, 1)?;
    let b = plain_source(body, statement, 2)?;
    let c = plain_source(body, statement, 3)?;
    let (a_part, b_part) = (part(suffix(statement, 1)), part(suffix(statement, 2)));
    let (a_signed, b_signed) = (is_signed(statement, 1), is_signed(statement, 2));
    let c_signed = is_signed(statement, 3);
    let plus_one = form.has(Modifier::Po);
    let negates = is_negated(statement, 1) != is_negated(statement, 2);
    let negates_c = is_negated(statement, 3);
    let scale = match form.get(slot::SCALE) {
        Some(Modifier::Shr7) => 7,
        Some(Modifier::Shr15) => 15,
        _ => 0,
    };
    let saturates = form.has(Modifier::Sat);
    let signed = a_signed || b_signed || negates || negates_c;
    let c_signed = c_signed || signed;
    let result = body.with(|emit| {
        let x = extract_wide(emit, a, a_part, a_signed);
        let y = extract_wide(emit, b, b_part, b_signed);
        let lo = (orias_ori::operation::Half::Lo, Scalar::U64);
        let mut product = emit.op(AbstractOp::Mul, lo, &[x, y]);
        let unsigned = !a_signed && !b_signed;
        if unsigned && saturates {
            product = emit.binary(AbstractOp::Min, Scalar::U64, product, imm(1 << 62));
        }
        if negates && !plus_one {
            product = emit.op(AbstractOp::Neg, (Scalar::S64,), &[product]);
        }
        let whole = if c_signed {
            emit.cvt(Scalar::S64, Scalar::S32, c)
        } else {
            emit.cvt(Scalar::U64, Scalar::U32, c)
        };
        let whole = if negates_c && !plus_one {
            emit.op(AbstractOp::Neg, (Scalar::S64,), &[whole])
        } else {
            whole
        };
        let mut sum = emit.binary(AbstractOp::Add, Scalar::U64, product, whole);
        if plus_one {
            sum = emit.binary(AbstractOp::Add, Scalar::U64, sum, imm(1));
        }
        let value = match scale {
            0 => sum,
            scale => emit.binary(AbstractOp::Shr, Scalar::S64, sum, imm(scale)),
        };
        let value = if saturates {
            clamp_wide(emit, value, 32, signed)
        } else {
            value
        };
        emit.halves(value).0
    })?;
    write(body, statement, result)
}

/// What is done to each of two or four elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Element {
    Add,
    Subtract,
    Min,
    Max,
    Difference,
    Average,
    Compare,
}

impl Element {
    /// What an instruction does, and to how many elements.
    fn of(op: Op) -> Option<(Element, u64)> {
        Some(match op {
            Op::Vadd2 => (Element::Add, 2),
            Op::Vadd4 => (Element::Add, 4),
            Op::Vsub2 => (Element::Subtract, 2),
            Op::Vsub4 => (Element::Subtract, 4),
            Op::Vmin2 => (Element::Min, 2),
            Op::Vmin4 => (Element::Min, 4),
            Op::Vmax2 => (Element::Max, 2),
            Op::Vmax4 => (Element::Max, 4),
            Op::Vabsdiff2 => (Element::Difference, 2),
            Op::Vabsdiff4 => (Element::Difference, 4),
            Op::Vavrg2 => (Element::Average, 2),
            Op::Vavrg4 => (Element::Average, 4),
            Op::Vset2 => (Element::Compare, 2),
            Op::Vset4 => (Element::Compare, 4),
            _ => return None,
        })
    }
}

/// An instruction on two or four elements that may be computed in whole registers.
struct Whole<'a> {
    operation: Element,
    count: u64,
    a_select: &'a [u64],
    b_select: &'a [u64],
    mask: &'a [u64],
    /// Whether the result and the operands have a sign.
    signed: [bool; 3],
    saturates: bool,
    adds: bool,
}

impl Whole<'_> {
    /// Whether there is a way.
    fn exists(&self) -> bool {
        let [signed, a_signed, b_signed] = self.signed;
        match self.operation {
            // A difference of bytes fits a byte without sign, whether it is clamped or not.
            Element::Difference => {
                self.count == 4
                    && a_signed == b_signed
                    && !(signed && (self.saturates || self.adds))
            }
            Element::Add | Element::Subtract => !self.saturates && !self.adds,
            _ => false,
        }
    }

    fn write(&self, emit: &mut Emit<'_>, a: Operand, b: Operand, c: Operand) -> Operand {
        let x = self.picked(emit, self.a_select, a, b);
        let y = self.picked(emit, self.b_select, a, b);
        let width = 32 / self.count;
        let ones = (1_u64 << width) - 1;
        let written = (0..self.count)
            .filter(|element| self.mask.contains(element))
            .fold(0, |bits, element| bits | ones << (element * width));
        let all = written == 0xffff_ffff;
        if self.operation == Element::Difference {
            let ty = if self.signed[1] {
                Scalar::S32
            } else {
                Scalar::U32
            };
            if self.adds && all {
                return emit.op(AbstractOp::Sad4, (ty,), &[x, y, c]);
            }
            let differences = emit.op(AbstractOp::AbsDiff4, (ty,), &[x, y]);
            if self.adds {
                let differences = emit.and(differences, imm(written));
                let operands = [differences, imm(0), c];
                return emit.op(AbstractOp::Sad4, (Scalar::U32,), &operands);
            }
            return chosen_bits(emit, differences, c, written);
        }
        // The highest bit of each element is the sum of those of the operands and of the carry from below, which is what the sum of the
        // others leaves there. A difference borrows from a bit that is set for it, and finds it turned round.
        let tops =
            (0..self.count).fold(0, |bits, element| bits | 1 << (element * width + width - 1));
        let below = !tops & 0xffff_ffff;
        let y_below = emit.and(y, imm(below));
        let different = emit.xor(x, y);
        let (sum, tops_of_sum) = if self.operation == Element::Add {
            let x_below = emit.and(x, imm(below));
            (emit.add(x_below, y_below), emit.and(different, imm(tops)))
        } else {
            let x_set = emit.or(x, imm(tops));
            let same = emit.op(AbstractOp::Not, (Scalar::B32,), &[different]);
            (emit.sub(x_set, y_below), emit.and(same, imm(tops)))
        };
        let value = emit.xor(sum, tops_of_sum);
        chosen_bits(emit, value, c, written)
    }

    /// The elements that a selector names, in one register.
    fn picked(&self, emit: &mut Emit<'_>, select: &[u64], a: Operand, b: Operand) -> Operand {
        let count = self.count;
        if select.iter().copied().eq(0..count) {
            return a;
        }
        if select.iter().copied().eq(count..2 * count) {
            return b;
        }
        let bytes = 4 / count;
        let places = (0..4_u64).rev().fold(0, |places, byte| {
            let element = select[(byte / bytes) as usize];
            places << 4 | (element * bytes + byte % bytes)
        });
        emit.op(AbstractOp::Prmt, (), &[a, b, imm(places)])
    }
}

/// `value` where `bits` are set, `rest` where they are not.
fn chosen_bits(emit: &mut Emit<'_>, value: Operand, rest: Operand, bits: u64) -> Operand {
    if bits == 0xffff_ffff {
        return value;
    }
    let value = emit.and(value, imm(bits));
    let rest = emit.and(rest, imm(!bits & 0xffff_ffff));
    emit.or(value, rest)
}

/// Instructions on two or four elements.
pub(super) fn elements(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    let Some((operation, count)) = Element::of(statement.op) else {
        return unsupported("");
    };
    let width = 32 / count;
    let a = body.source(statement, 1)?;
    let b = body.source(statement, 2)?;
    let c = body.source(statement, 3)?;
    let (a_signed, b_signed) = (is_signed(statement, 1), is_signed(statement, 2));
    let signed = is_signed(statement, 0);
    // The digits of a selector or mask, the lowest element's last.
    let digits = |modifier: Option<Modifier>| -> Option<Vec<u64>> {
        let name = modifier?.name();
        let digits = name[1..].chars().rev();
        Some(
            digits
                .filter_map(|it| it.to_digit(10))
                .map(u64::from)
                .collect(),
        )
    };
    let a_select = digits(suffix(statement, 1)).unwrap_or((0..count).collect());
    let b_select = digits(suffix(statement, 2)).unwrap_or((count..2 * count).collect());
    let mask = digits(suffix(statement, 0)).unwrap_or((0..count).collect());
    let saturates = form.has(Modifier::Sat);
    let adds = form.has(Modifier::Add);
    let compare: Option<Compare> = modifier(form);
    if a_select.len() as u64 != count || b_select.len() as u64 != count {
        return unsupported("");
    }
    let whole = Whole {
        operation,
        count,
        a_select: &a_select,
        b_select: &b_select,
        mask: &mask,
        signed: [signed, a_signed, b_signed],
        saturates,
        adds,
    };
    if whole.exists() {
        let result = body.with(|emit| whole.write(emit, a, b, c))?;
        return write(body, statement, result);
    }
    let result = body.with(|emit| {
        let mut result = c;
        let pick = |emit: &mut Emit<'_>, selector: u64, signed: bool| {
            let word = if selector < count { a } else { b };
            let shift = selector % count * width;
            extract(emit, word, Part { shift, width }, signed)
        };
        for element in 0..count {
            if !mask.contains(&element) {
                continue;
            }
            let x = pick(emit, a_select[element as usize], a_signed);
            let y = pick(emit, b_select[element as usize], b_signed);
            let binary = |emit: &mut Emit<'_>, op: AbstractOp| emit.binary(op, Scalar::S32, x, y);
            let mut value = match operation {
                Element::Add => binary(emit, AbstractOp::Add),
                Element::Subtract => binary(emit, AbstractOp::Sub),
                Element::Min => binary(emit, AbstractOp::Min),
                Element::Max => binary(emit, AbstractOp::Max),
                Element::Difference => {
                    let difference = binary(emit, AbstractOp::Sub);
                    emit.op(AbstractOp::Abs, (Scalar::S32,), &[difference])
                }
                Element::Average => {
                    // One more than a sum that is not negative, halved.
                    let sum = binary(emit, AbstractOp::Add);
                    let sign = emit.shr(Scalar::S32, sum, imm(31));
                    let one = emit.add(sign, imm(1));
                    let sum = emit.add(sum, one);
                    emit.shr(Scalar::S32, sum, imm(1))
                }
                Element::Compare => {
                    let holds = emit.setp(compare.unwrap_or(Compare::Eq), Scalar::S32, x, y);
                    emit.selp(Scalar::B32, imm(1), imm(0), holds)
                }
            };
            if saturates {
                let (least, greatest) = limits(width, signed);
                let least = imm(least as u64 & 0xffff_ffff);
                value = emit.binary(AbstractOp::Max, Scalar::S32, value, least);
                value = emit.binary(AbstractOp::Min, Scalar::S32, value, imm(greatest as u64));
            }
            result = if adds {
                emit.add(result, value)
            } else {
                let shift = element * width;
                merge(emit, value, result, Part { shift, width })
            };
        }
        result
    })?;
    write(body, statement, result)
}
