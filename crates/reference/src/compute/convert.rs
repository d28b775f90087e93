//! `cvt` and `cvt.pack`.

use super::{format_of, integer_of, one, rounding_of};
use crate::step::Function;
use orias_eval::float::arithmetic::{clamp_to_unit, rectify};
use orias_eval::float::convert::{Integer, from_integer, to_format, to_integer, to_integral};
use orias_eval::float::{Format, Overflow, Rounding, Value};
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::Form;
use orias_ptx::types::Type;

pub(super) fn definition(op: Op, form: &Form) -> Option<Function> {
    match op {
        Op::Cvt => cvt(form),
        Op::CvtPack => pack(form),
        _ => None,
    }
}

fn cvt(form: &Form) -> Option<Function> {
    let mut types = form.types();
    let (to, from) = (types.next()?, types.next()?);
    match (integer_of(to), integer_of(from)) {
        (Some(to), Some(from)) => integers(form, to, from),
        (Some(to), None) => float_to_integer(form, to, from),
        (None, Some(from)) => integer_to_float(form, to, from),
        (None, None) => floats(form, to, from),
    }
}

/// The low bits, or with `.sat` the nearest number of the new type.
fn integers(form: &Form, to: Integer, from: Integer) -> Option<Function> {
    if form.has(Modifier::Sat) {
        one(move |[a, ..]| to.clamp(from.value(a)))
    } else {
        one(move |[a, ..]| to.wrap(from.value(a)))
    }
}

/// Rounded to an integer and clamped to the type. A NaN becomes zero, or where either side has 64 bits the highest bit alone.
fn float_to_integer(form: &Form, to: Integer, from: Type) -> Option<Function> {
    let (format, 1) = format_of(from)? else {
        return None;
    };
    let rounding = rounding_of(form)?;
    let flush = form.has(Modifier::Ftz);
    let nan = if to.bits == 64 || from == Type::F64 {
        1 << (to.bits - 1)
    } else {
        0
    };
    one(move |[a, ..]| {
        let a = if flush { format.flush(a) } else { a };
        to_integer(format, a, to, rounding, nan)
    })
}

/// The nearest number of the format, in the direction of the rounding.
fn integer_to_float(form: &Form, to: Type, from: Integer) -> Option<Function> {
    let (format, 1) = format_of(to)? else {
        return None;
    };
    let rounding = rounding_of(form)?;
    let saturate = form.has(Modifier::Sat);
    one(move |[a, ..]| {
        let result = from_integer(from, a, format, rounding);
        if saturate {
            clamp_to_unit(format, result)
        } else {
            result
        }
    })
}

/// One number from one format to another, with everything the modifiers ask for.
#[derive(Clone, Copy)]
struct Conversion {
    from: Format,
    to: Format,
    rounding: Option<Rounding>,
    /// `.rni` and its like: to an integral value.
    integral: bool,
    flush: bool,
    saturate: bool,
    relu: bool,
    finite: bool,
}

impl Conversion {
    fn of(form: &Form, to: Format, from: Format) -> Self {
        let integral = [Modifier::Rni, Modifier::Rzi, Modifier::Rmi, Modifier::Rpi];
        Self {
            from,
            to,
            rounding: rounding_of(form),
            integral: integral.into_iter().any(|modifier| form.has(modifier)),
            flush: form.has(Modifier::Ftz),
            saturate: form.has(Modifier::Sat),
            relu: form.has(Modifier::Relu),
            finite: form.has(Modifier::Satfinite),
        }
    }

    fn apply(self, bits: u64) -> u64 {
        let flush_input = self.flush && self.from == Format::F32;
        let bits = if flush_input {
            self.from.flush(bits)
        } else {
            bits
        };
        let result = self.round(bits);
        if self.saturate {
            clamp_to_unit(self.to, result)
        } else if self.relu {
            rectify(self.to, result)
        } else {
            result
        }
    }

    fn round(self, bits: u64) -> u64 {
        let rounding = self.rounding.unwrap_or(Rounding::NearestEven);
        match (self.from, self.to) {
            (from, to) if from == to && self.integral => to_integral(to, bits, rounding),
            (from, to) if from == to => bits,
            // The sixteen bits are moved up, whatever they mean.
            (Format::BF16, Format::F32) => {
                let wide = bits << 16;
                if self.flush {
                    self.to.flush(wide)
                } else {
                    wide
                }
            }
            // Flushing is a product, which makes every NaN the same one.
            (Format::F32, Format::F64) if self.flush && Format::F32.is_nan(bits) => {
                let nan = Format::F32.nan().unwrap_or(bits);
                to_format(self.from, nan, self.to, rounding, Overflow::Ieee)
            }
            // Thirteen bits are cut off a NaN, nothing else.
            (Format::F32, Format::TF32)
                if Format::F32.is_nan(bits) && rounding == Rounding::NearestAway =>
            {
                bits >> 13
            }
            _ => {
                if self.flush
                    && self.to == Format::F32
                    && let Value::Finite(exact) = self.from.unpack(bits)
                    && self.to.is_tiny(exact, rounding)
                {
                    return if exact.negative {
                        self.to.sign_mask()
                    } else {
                        0
                    };
                }
                let overflow = if self.finite {
                    Overflow::Largest
                } else {
                    Overflow::Ieee
                };
                to_format(self.from, bits, self.to, rounding, overflow)
            }
        }
    }
}

/// Between floating-point types: one to one, two into a pair (the first goes up), pairs to pairs.
fn floats(form: &Form, to: Type, from: Type) -> Option<Function> {
    // Bits from somewhere else decide the rounding of `.rs`.
    if form.has(Modifier::Rs) {
        return None;
    }
    let ((to_format, to_count), (from_format, from_count)) = (format_of(to)?, format_of(from)?);
    let how = Conversion::of(form, to_format, from_format);
    let width = to.bits() / to_count;
    match (to_count, from_count) {
        // A tf32 number stands in the upper bits of its register.
        (1, 1) if to == Type::Tf32 => one(move |[a, ..]| how.apply(a) << 13),
        (1, 1) => one(move |[a, ..]| how.apply(a)),
        (2, 1) => one(move |[a, b, ..]| how.apply(a) << width | how.apply(b)),
        (2, 2) => {
            let from_width = from.bits() / 2;
            let mask = (1 << from_width) - 1;
            one(move |[a, ..]| how.apply(a >> from_width & mask) << width | how.apply(a & mask))
        }
        _ => None,
    }
}

/// Two integers, clamped to fewer bits, put below what `c` holds: the second lowest.
fn pack(form: &Form) -> Option<Function> {
    let to = integer_of(form.types().next()?)?;
    let from = Integer::signed(32);
    let narrow = move |bits| to.clamp(from.value(bits));
    one(move |[a, b, c, ..]| {
        let pair = narrow(a) << to.bits | narrow(b);
        let kept = if to.bits == 16 { 0 } else { c << (2 * to.bits) };
        (kept | pair) & 0xffff_ffff
    })
}
