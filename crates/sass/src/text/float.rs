//! Floating-point immediates as nvdisasm writes them.
//!
//! Magnitudes from 10⁹ on are written with an exponent and 20 decimals, everything else with 20 significant digits and no
//! trailing zeros. Infinities, NaNs and negative zero are words with a space after them. A NaN's payload is lost in that
//! text; the exact form adds it, `+QNAN(0x7fc00001)`, where it is not all ones.

use std::fmt::Write;

/// A floating-point format of an immediate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FloatFormat {
    /// Bits of the whole number in the immediate field.
    pub bits: u32,
    /// Bits of the significand that the field holds.
    pub mantissa: u32,
}

pub(crate) const F32: FloatFormat = FloatFormat {
    bits: 32,
    mantissa: 23,
};
pub(crate) const F64_HIGH: FloatFormat = FloatFormat {
    bits: 32,
    mantissa: 20,
};
pub(crate) const F16: FloatFormat = FloatFormat {
    bits: 16,
    mantissa: 10,
};
pub(crate) const BF16: FloatFormat = FloatFormat {
    bits: 16,
    mantissa: 7,
};

impl FloatFormat {
    fn exponent_mask(self) -> u64 {
        (1 << (self.bits - 1 - self.mantissa)) - 1
    }

    fn sign(self, bits: u64) -> bool {
        bits >> (self.bits - 1) & 1 == 1
    }

    /// The value as a double, exactly. Not for infinities and NaNs.
    fn to_f64(self, bits: u64) -> f64 {
        let exponent = (bits >> self.mantissa & self.exponent_mask()) as i32;
        let fraction = bits & ((1 << self.mantissa) - 1);
        if self == F64_HIGH {
            return f64::from_bits(bits << 32);
        }
        let bias = (self.exponent_mask() / 2) as i32;
        let (significand, exponent) = if exponent == 0 {
            (fraction, 1 - bias)
        } else {
            (fraction | 1 << self.mantissa, exponent - bias)
        };
        // The significand has at most 24 bits and the power of two is a normal double: the product is exact.
        let magnitude = significand as f64 * 2f64.powi(exponent - self.mantissa as i32);
        if self.sign(bits) {
            -magnitude
        } else {
            magnitude
        }
    }

    /// The bits of a decimal number that is exactly representable, or would print the same.
    fn bits_of(self, value: f64) -> Option<u64> {
        if self == F64_HIGH {
            let bits = value.to_bits();
            return (bits as u32 == 0).then_some(bits >> 32);
        }
        // Search the bits by value: positive numbers of a format are ordered like their bits.
        let magnitude = value.abs();
        let sign = u64::from(value.is_sign_negative()) << (self.bits - 1);
        let infinity = self.exponent_mask() << self.mantissa;
        let (mut low, mut high) = (0u64, infinity);
        while low < high {
            let middle = (low + high) / 2;
            if self.to_f64(middle) < magnitude {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low < infinity && self.to_f64(low) == magnitude).then_some(low | sign)
    }
}

/// Writes the number whose bits are `bits`. `exact` keeps a NaN's payload.
pub(crate) fn write(out: &mut String, bits: u64, format: FloatFormat, exact: bool) {
    let sign = if format.sign(bits) { '-' } else { '+' };
    let fraction = bits & ((1 << format.mantissa) - 1);
    if bits >> format.mantissa & format.exponent_mask() == format.exponent_mask() {
        out.push(sign);
        if fraction == 0 {
            out.push_str("INF ");
            return;
        }
        let quiet = fraction >> (format.mantissa - 1) == 1;
        out.push_str(if quiet { "QNAN" } else { "SNAN" });
        if exact && (!quiet || fraction != (1 << format.mantissa) - 1) {
            let _ = write!(out, "({bits:#x})");
        }
        out.push(' ');
        return;
    }
    if sign == '-' && bits & !(1 << (format.bits - 1)) == 0 {
        out.push_str("-0.0 ");
        return;
    }
    write_decimal(out, format.to_f64(bits));
}

fn write_decimal(out: &mut String, value: f64) {
    if value == 0.0 {
        out.push('0');
    } else if value.abs() >= 1e9 {
        let text = format!("{value:.20e}");
        push_exponent_form(out, &text, false);
    } else {
        let text = format!("{value:.19e}");
        let exponent: i32 = text
            .split_once('e')
            .and_then(|(_, exponent)| exponent.parse().ok())
            .unwrap_or(0);
        if exponent < -4 {
            push_exponent_form(out, &text, true);
        } else {
            let decimals = (19 - exponent).max(0) as usize;
            let text = format!("{value:.decimals$}");
            out.push_str(if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.')
            } else {
                &text
            });
        }
    }
}

/// Rust writes `1.5e-7`; C, and nvdisasm, write `1.5e-07`.
fn push_exponent_form(out: &mut String, text: &str, trim: bool) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    out.push_str(if trim && mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    });
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let _ = write!(
        out,
        "e{}{:02}",
        if exponent < 0 { '-' } else { '+' },
        exponent.abs()
    );
}

/// Reads what [`write`] writes. A quiet NaN without a payload has all ones; a signalling one needs its payload.
pub(crate) fn read(text: &str, format: FloatFormat) -> Option<u64> {
    let text = text.trim();
    let infinity = format.exponent_mask() << format.mantissa;
    let sign_bit = 1u64 << (format.bits - 1);
    let (sign, word) = match text.as_bytes().first()? {
        b'+' => (0, &text[1..]),
        b'-' => (sign_bit, &text[1..]),
        _ => (0, text),
    };
    if word == "INF" {
        return Some(sign | infinity);
    }
    if word == "QNAN" {
        return Some(sign | infinity | ((1 << format.mantissa) - 1));
    }
    if let Some(rest) = word
        .strip_prefix("QNAN")
        .or_else(|| word.strip_prefix("SNAN"))
    {
        let digits = rest.strip_prefix("(0x")?.strip_suffix(')')?;
        let bits = u64::from_str_radix(digits, 16).ok()?;
        let mut expected = String::new();
        if bits >> format.bits == 0 {
            write(&mut expected, bits, format, true);
        }
        return (expected.trim() == text).then_some(bits);
    }
    if !text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e'))
    {
        return None;
    }
    format.bits_of(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bits: u64, format: FloatFormat) -> String {
        let mut out = String::new();
        write(&mut out, bits, format, false);
        out
    }

    #[test]
    fn numbers_look_as_nvdisasm_prints_them() {
        for (bits, expected) in [
            (0x0000_0000, "0"),
            (0x8000_0000, "-0.0 "),
            (0x3f80_0000, "1"),
            (0x4b00_0000, "8388608"),
            (0x4e6e_6b28, "1.00000000000000000000e+09"),
            (0x4c00_0000, "33554432"),
            (0xcb40_007f, "-12583039"),
            (0x3e10_39f6, "0.14084610342979431152"),
            (0x38d1_b717, "9.9999997473787516356e-05"),
            (0x3400_0000, "1.1920928955078125e-07"),
            (0x0000_0001, "1.4012984643248170709e-45"),
            (0xf149_f2ca, "-1.00000001504746621988e+30"),
            (0x7f80_0000, "+INF "),
            (0xffc0_0000, "-QNAN "),
            (0x7f80_0001, "+SNAN "),
        ] {
            assert_eq!(text(bits, F32), expected, "{bits:#x}");
        }
        assert_eq!(text(0x41cd_cd64, F64_HIGH), "999999488");
        assert_eq!(text(0x7fe0_0000, F64_HIGH), "8.98846567431157953865e+307");
        assert_eq!(text(0x0001, F16), "5.9604644775390625e-08");
        assert_eq!(text(0x0001, BF16), "9.183549615799121156e-41");
        assert_eq!(text(0x4e6f, BF16), "1.00243865600000000000e+09");
    }

    #[test]
    fn every_16_bit_number_reads_back() {
        for format in [F16, BF16] {
            for bits in 0..1u64 << 16 {
                let mut out = String::new();
                write(&mut out, bits, format, true);
                assert_eq!(read(&out, format), Some(bits), "{out}");
            }
        }
    }

    #[test]
    fn single_and_double_numbers_read_back() {
        let mut bits = 0x1234_5678u64;
        for _ in 0..20_000 {
            bits = (bits * 1_664_525 + 1_013_904_223) & 0xffff_ffff;
            for format in [F32, F64_HIGH] {
                let mut out = String::new();
                write(&mut out, bits, format, true);
                assert_eq!(read(&out, format), Some(bits), "{out}");
            }
        }
    }

    #[test]
    fn what_a_format_cannot_hold_is_refused() {
        assert_eq!(read("0.1", F32), None);
        assert_eq!(read("1e300", F32), None);
        assert_eq!(read("1.1", F64_HIGH), None);
        assert_eq!(read("+SNAN", F32), None);
        assert_eq!(read("+QNAN(0x1)", F32), None);
        assert_eq!(read("nan", F32), None);
        assert_eq!(read("", F32), None);
    }
}
