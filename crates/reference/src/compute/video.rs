//! Video instructions: scalars picked from bytes and half words, and vectors of two or four of them.

use super::{integer_of, one};
use crate::step::Function;
use orias_eval::float::convert::Integer;
use orias_ptx::grammar::slot_names as slot;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::Form;

/// The modifier behind an operand, if one is written.
pub(crate) type Selector = Option<Modifier>;

const WIDE: Integer = Integer::signed(34);

pub(super) fn definition(op: Op, form: &Form, selectors: &[Selector]) -> Option<Function> {
    let element = element(op, form)?;
    match op {
        Op::Vadd
        | Op::Vsub
        | Op::Vabsdiff
        | Op::Vmin
        | Op::Vmax
        | Op::Vshl
        | Op::Vshr
        | Op::Vset => scalar(op, form, selectors, element),
        Op::Vadd2 | Op::Vsub2 | Op::Vavrg2 | Op::Vabsdiff2 | Op::Vmin2 | Op::Vmax2 | Op::Vset2 => {
            vector(op, form, selectors, element, 2)
        }
        Op::Vadd4 | Op::Vsub4 | Op::Vavrg4 | Op::Vabsdiff4 | Op::Vmin4 | Op::Vmax4 | Op::Vset4 => {
            vector(op, form, selectors, element, 4)
        }
        Op::Vmad => vmad(form, selectors),
        _ => None,
    }
}

/// What is computed of two picked numbers.
type Pair = fn(Shift, i128, i128) -> i128;

/// How far shifts go.
#[derive(Clone, Copy)]
struct Shift {
    wrap: bool,
}

impl Shift {
    fn amount(self, by: i128) -> u32 {
        let by = by as u32;
        if self.wrap { by & 31 } else { by.min(32) }
    }
}

fn element(op: Op, form: &Form) -> Option<Pair> {
    Some(match op {
        Op::Vadd | Op::Vadd2 | Op::Vadd4 => |_, a, b| a + b,
        Op::Vsub | Op::Vsub2 | Op::Vsub4 => |_, a, b| a - b,
        Op::Vavrg2 | Op::Vavrg4 => |_, a, b| {
            // Halves are rounded away from zero.
            let sum = a + b;
            if sum >= 0 { (sum + 1) >> 1 } else { sum >> 1 }
        },
        Op::Vabsdiff | Op::Vabsdiff2 | Op::Vabsdiff4 => |_, a, b| (a - b).abs(),
        Op::Vmin | Op::Vmin2 | Op::Vmin4 => |_, a, b| a.min(b),
        Op::Vmax | Op::Vmax2 | Op::Vmax4 => |_, a, b| a.max(b),
        Op::Vshl => |shift, a, b| a << shift.amount(b),
        Op::Vshr => |shift, a, b| a >> shift.amount(b),
        Op::Vset | Op::Vset2 | Op::Vset4 => match form.get(slot::CMP)? {
            Modifier::Eq => |_, a, b| (a == b).into(),
            Modifier::Ne => |_, a, b| (a != b).into(),
            Modifier::Lt => |_, a, b| (a < b).into(),
            Modifier::Le => |_, a, b| (a <= b).into(),
            Modifier::Gt => |_, a, b| (a > b).into(),
            Modifier::Ge => |_, a, b| (a >= b).into(),
            _ => return None,
        },
        Op::Vmad => |_, a, b| a * b,
        _ => return None,
    })
}

/// The types of the result and of both operands; comparisons name no result and yield unsigned words.
fn types(op: Op, form: &Form) -> Option<[Integer; 3]> {
    let mut types = form.types();
    let compares = matches!(op, Op::Vset | Op::Vset2 | Op::Vset4);
    let result = if compares {
        Integer::unsigned(32)
    } else {
        integer_of(types.next()?)?
    };
    Some([
        result,
        integer_of(types.next()?)?,
        integer_of(types.next()?)?,
    ])
}

/// Where a selected byte or half word starts, and its width; the whole word without selector.
fn part(selector: Selector) -> (u32, u32) {
    match selector {
        Some(Modifier::B0) => (0, 8),
        Some(Modifier::B1) => (8, 8),
        Some(Modifier::B2) => (16, 8),
        Some(Modifier::B3) => (24, 8),
        Some(Modifier::H0) => (0, 16),
        Some(Modifier::H1) => (16, 16),
        _ => (0, 32),
    }
}

/// The selected part of an operand as a number.
fn pick(selector: Selector, ty: Integer) -> impl Fn(u64) -> i128 + Send + Sync {
    let (start, bits) = part(selector);
    let ty = Integer { bits, ..ty };
    move |operand| ty.value(operand >> start)
}

/// One number from each operand, then optionally a second operation with `c`, or a merge into `c`.
fn scalar(op: Op, form: &Form, selectors: &[Selector], element: Pair) -> Option<Function> {
    let [result, a_type, b_type] = types(op, form)?;
    let shift = Shift {
        wrap: form.has(Modifier::Wrap),
    };
    let saturate = form.has(Modifier::Sat);
    let second = form.get(slot::SECOND);
    let into = selectors.first().copied().flatten();
    let (a_of, b_of) = (
        pick(selectors.get(1).copied().flatten(), a_type),
        pick(selectors.get(2).copied().flatten(), b_type),
    );
    let merged = into.is_some();
    let (start, bits) = part(into);
    one(move |[a, b, c, ..]| {
        // The intermediate value has 34 bits; saturation clamps it to the type, or to the part it goes to.
        let value = WIDE.value(WIDE.wrap(element(shift, a_of(a), b_of(b))));
        let target = Integer { bits, ..result };
        let value = if saturate {
            target.clamp(value)
        } else {
            target.wrap(value)
        };
        if merged {
            let mask = target.mask() << start;
            return c & !mask | value << start & mask;
        }
        match second {
            Some(Modifier::Add) => result.add(value, c),
            Some(Modifier::Min) => result.minimum(value, c),
            Some(Modifier::Max) => result.maximum(value, c),
            _ => value,
        }
    })
}

/// The product of two picked numbers, plus or minus `c`, scaled. `.po` adds one to `a·b + c`.
fn vmad(form: &Form, selectors: &[Selector]) -> Option<Function> {
    let [result, a_type, b_type] = types(Op::Vmad, form)?;
    let (a_of, b_of) = (
        pick(selectors.get(1).copied().flatten(), a_type),
        pick(selectors.get(2).copied().flatten(), b_type),
    );
    let plus_one = i128::from(form.has(Modifier::Po));
    let shift = match form.get(slot::SCALE) {
        Some(Modifier::Shr7) => 7,
        Some(Modifier::Shr15) => 15,
        _ => 0,
    };
    let saturate = form.has(Modifier::Sat);
    one(move |[a, b, c, ..]| {
        let value = (a_of(a) * b_of(b) + result.value(c) + plus_one) >> shift;
        if saturate {
            result.clamp(value)
        } else {
            result.wrap(value)
        }
    })
}

/// The digits of a selector such as `.b3210` or `.h10`, the lowest element first.
fn digits(selector: Selector) -> Option<Vec<u32>> {
    let digits = selector?.name().chars().rev().map_while(|c| c.to_digit(10));
    Some(digits.collect())
}

/// Elements picked from both operands by number (0 to `count` - 1 from `a`, the rest from `b`); the mask says which
/// elements of the result are written, the others come from `c`; or the selected ones are added up with `c`.
fn vector(
    op: Op,
    form: &Form,
    selectors: &[Selector],
    element: Pair,
    count: u32,
) -> Option<Function> {
    let [result, a_type, b_type] = types(op, form)?;
    let width = 32 / count;
    let all: Vec<u32> = (0..count).collect();
    let mask = digits(selectors.first().copied().flatten()).unwrap_or_else(|| all.clone());
    let a_from = digits(selectors.get(1).copied().flatten()).unwrap_or_else(|| all.clone());
    let b_from = digits(selectors.get(2).copied().flatten())
        .unwrap_or_else(|| all.iter().map(|place| place + count).collect());
    let accumulate = form.has(Modifier::Add);
    let saturate = form.has(Modifier::Sat);
    let target = Integer {
        bits: width,
        ..result
    };
    one(move |[a, b, c, ..]| {
        let both = b << 32 | a;
        let pick = |from: u32, a_or_b: Integer| {
            Integer {
                bits: width,
                ..a_or_b
            }
            .value(both >> (from * width))
        };
        let value = |place: usize| {
            let (from_a, from_b) = (a_from[place], b_from[place]);
            element(
                Shift { wrap: false },
                pick(from_a, a_type),
                pick(from_b, b_type),
            )
        };
        if accumulate {
            let sum: i128 = mask.iter().map(|&place| value(place as usize)).sum();
            return result.wrap(result.value(c) + sum);
        }
        mask.iter().fold(c, |bits, &place| {
            let number = value(place as usize);
            let number = if saturate {
                target.clamp(number)
            } else {
                target.wrap(number)
            };
            let at = place * width;
            bits & !(target.mask() << at) | number << at
        })
    })
}
