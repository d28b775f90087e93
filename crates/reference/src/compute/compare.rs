//! Comparison and selection.

use super::{first_type, format_of, integer_of, one, two};
use crate::step::Function;
use orias_eval::float::Format;
use orias_eval::float::compare::{Relation, compare};
use orias_eval::float::convert::Integer;
use orias_ptx::grammar::slot_names as slot;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::Form;
use orias_ptx::types::Type;

pub(super) fn definition(op: Op, form: &Form) -> Option<Function> {
    match op {
        Op::Setp => setp(form),
        Op::Set => set(form),
        Op::Selp => one(|[a, b, c, ..]| if c != 0 { a } else { b }),
        Op::Slct => slct(form),
        _ => None,
    }
}

/// Whether each of the elements of two operands stand in a relation: bit 0 for the first.
type Test = Box<dyn Fn(u64, u64) -> u64 + Send + Sync>;

/// The comparison of a form for operands of type `ty`, and how many elements it compares.
fn test(form: &Form, ty: Type) -> Option<(Test, u32)> {
    let relation = form.modifiers().find_map(relation)?;
    if let Some(int) = integer_of(ty) {
        let test = move |a, b| relation.holds(Some(Integer::compare(int, a, b))).into();
        return Some((Box::new(test), 1));
    }
    let (format, count) = format_of(ty)?;
    let flush = form.has(Modifier::Ftz);
    let one = move |a, b| {
        let of = |bits| if flush { format.flush(bits) } else { bits };
        u64::from(relation.holds(compare(format, of(a), of(b))))
    };
    let test: Test = match count {
        1 => Box::new(one),
        _ => Box::new(move |a, b| one(a & 0xffff, b & 0xffff) | one(a >> 16, b >> 16) << 1),
    };
    Some((test, count))
}

fn relation(modifier: Modifier) -> Option<Relation> {
    Some(match modifier {
        Modifier::Eq => Relation::Eq,
        Modifier::Ne => Relation::Ne,
        Modifier::Lt | Modifier::Lo => Relation::Lt,
        Modifier::Le | Modifier::Ls => Relation::Le,
        Modifier::Gt | Modifier::Hi => Relation::Gt,
        Modifier::Ge | Modifier::Hs => Relation::Ge,
        Modifier::Equ => Relation::Equ,
        Modifier::Neu => Relation::Neu,
        Modifier::Ltu => Relation::Ltu,
        Modifier::Leu => Relation::Leu,
        Modifier::Gtu => Relation::Gtu,
        Modifier::Geu => Relation::Geu,
        Modifier::Num => Relation::Num,
        Modifier::Nan => Relation::Nan,
        _ => return None,
    })
}

/// How the result of a comparison is combined with the predicate `c`.
fn combine(form: &Form) -> impl Fn(u64, u64) -> u64 + Send + Sync + 'static {
    let operation = form.get(slot::BOOL);
    move |result, c| match operation {
        Some(Modifier::And) => result & c,
        Some(Modifier::Or) => result | c,
        Some(Modifier::Xor) => result ^ c,
        _ => result,
    }
}

/// `p` is the comparison and `q` its opposite; with packed operands the two are the results of both halves.
fn setp(form: &Form) -> Option<Function> {
    let (test, count) = test(form, first_type(form)?)?;
    let combine = combine(form);
    two(move |[a, b, c, ..]| {
        let result = test(a, b);
        let second = match count {
            1 => result ^ 1,
            _ => result >> 1,
        };
        [combine(result & 1, c), combine(second, c)]
    })
}

/// All ones, or 1.0, where the comparison holds.
fn set(form: &Form) -> Option<Function> {
    let mut types = form.types();
    let (to, from) = (types.next()?, types.next()?);
    let (test, count) = test(form, from)?;
    let combine = combine(form);
    let width = match count {
        1 => to.bits(),
        _ => 16,
    };
    let truth = match format_of(to) {
        Some((Format::F16, _)) => 0x3c00,
        Some((Format::BF16, _)) => 0x3f80,
        Some((Format::F32, _)) => 0x3f80_0000,
        Some(_) => return None,
        None => u64::MAX >> (64 - width),
    };
    one(move |[a, b, c, ..]| {
        let result = test(a, b);
        (0..count).fold(0, |bits, element| match combine(result >> element & 1, c) {
            0 => bits,
            _ => bits | truth << (width * element),
        })
    })
}

/// `a` where `c` is not negative, `b` elsewhere; a NaN is not "not negative".
fn slct(form: &Form) -> Option<Function> {
    let by = form.types().nth(1)?;
    if by == Type::S32 {
        return one(|[a, b, c, ..]| if c >> 31 & 1 == 0 { a } else { b });
    }
    let flush = form.has(Modifier::Ftz);
    one(move |[a, b, c, ..]| {
        let c = if flush { Format::F32.flush(c) } else { c };
        if Relation::Ge.holds(compare(Format::F32, c, 0)) {
            a
        } else {
            b
        }
    })
}
