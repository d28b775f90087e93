//! The text that C's `printf` makes, as device code prints it.
//!
//! Arguments lie in memory one after the other, each at a multiple of its size, as the caller of `vprintf` stores them: 4 bytes
//! for integers up to `int`, 8 for `long`, pointers and floating point.

use core::fmt;

/// What was printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How many arguments were converted.
    pub conversions: u32,
}

/// Why a format cannot be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// An argument lies outside memory.
    Argument(u32),
    /// A string argument is no string in memory.
    String(u32),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(number) => write!(f, "argument {number} of printf cannot be read"),
            Self::String(number) => write!(f, "argument {number} of printf is no string"),
        }
    }
}

/// Where the arguments lie.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    next: u64,
}

impl Arguments {
    /// From that address on.
    pub const fn new(address: u64) -> Self {
        Self { next: address }
    }

    /// The address of the next argument of that size.
    pub const fn next(&mut self, size: usize) -> u64 {
        let address = self.next.next_multiple_of(size as u64);
        self.next = address + size as u64;
        address
    }
}

/// One conversion: `%-08.3lld` and the like.
#[derive(Clone, Copy, Debug, Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    /// How many bytes an integer has: 1, 2, 4 or 8.
    size: usize,
}

/// Prints `format`. `argument` reads the next argument of 4 or 8 bytes, `string` the text at an address.
pub fn format(
    format: &[u8],
    argument: &mut dyn FnMut(usize) -> Option<u64>,
    string: &mut dyn FnMut(u64) -> Option<Vec<u8>>,
) -> Result<Text, Problem> {
    let mut text = Text::default();
    let mut at = 0;
    while let Some(&byte) = format.get(at) {
        at += 1;
        if byte != b'%' {
            text.bytes.push(byte);
            continue;
        }
        let start = at - 1;
        let number = text.conversions + 1;
        let mut next = |size| argument(size).ok_or(Problem::Argument(number));
        let Some((conversion, letter, after)) = conversion(format, at, &mut next)? else {
            // Not a conversion: it is printed as it stands.
            text.bytes.extend_from_slice(&format[start..]);
            break;
        };
        at = after;
        let body = match letter {
            b'%' => {
                text.bytes.push(b'%');
                continue;
            }
            b'd' | b'i' | b'u' | b'o' | b'x' | b'X' => {
                let bits = next(if conversion.size == 8 { 8 } else { 4 })?;
                integer(&conversion, letter, bits)
            }
            b'c' => (String::new(), (next(4)? as u8 as char).to_string()),
            b'p' => (String::new(), format!("{:#x}", next(8)?)),
            b's' => {
                let bytes = string(next(8)?).ok_or(Problem::String(number))?;
                let length = conversion.precision.unwrap_or(bytes.len());
                let shown = String::from_utf8_lossy(&bytes[..length.min(bytes.len())]).into_owned();
                (String::new(), shown)
            }
            b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                floating(&conversion, letter, f64::from_bits(next(8)?))
            }
            _ => {
                text.bytes.extend_from_slice(&format[start..at]);
                continue;
            }
        };
        let numeric = !matches!(letter, b'c' | b's' | b'p');
        pad(&conversion, numeric, body, &mut text.bytes);
        text.conversions += 1;
    }
    Ok(text)
}

/// Reads a conversion after its percent sign: the conversion, its letter and where it ends.
fn conversion(
    format: &[u8],
    mut at: usize,
    next: &mut dyn FnMut(usize) -> Result<u64, Problem>,
) -> Result<Option<(Conversion, u8, usize)>, Problem> {
    let mut conversion = Conversion {
        size: 4,
        ..Conversion::default()
    };
    while let Some(flag) = format.get(at) {
        match flag {
            b'-' => conversion.left = true,
            b'+' => conversion.plus = true,
            b' ' => conversion.space = true,
            b'#' => conversion.alternate = true,
            b'0' => conversion.zero = true,
            _ => break,
        }
        at += 1;
    }
    if format.get(at) == Some(&b'*') {
        let width = (next(4)? as u32).cast_signed();
        conversion.left |= width < 0;
        conversion.width = width.unsigned_abs() as usize;
        at += 1;
    } else {
        conversion.width = digits(format, &mut at);
    }
    if format.get(at) == Some(&b'.') {
        at += 1;
        if format.get(at) == Some(&b'*') {
            conversion.precision = usize::try_from((next(4)? as u32).cast_signed()).ok();
            at += 1;
        } else {
            conversion.precision = Some(digits(format, &mut at));
        }
    }
    while let Some(length) = format.get(at) {
        conversion.size = match length {
            b'h' if conversion.size == 2 => 1,
            b'h' => 2,
            b'l' | b'j' | b'z' | b't' | b'L' => 8,
            _ => break,
        };
        at += 1;
    }
    Ok(format.get(at).map(|&letter| (conversion, letter, at + 1)))
}

/// A decimal number; widths beyond what anyone prints are cut.
fn digits(format: &[u8], at: &mut usize) -> usize {
    const WIDEST: usize = 4096;
    let mut number = 0usize;
    while let Some(digit) = format.get(*at).filter(|byte| byte.is_ascii_digit()) {
        number = (number * 10 + usize::from(digit - b'0')).min(WIDEST);
        *at += 1;
    }
    number
}

fn integer(conversion: &Conversion, letter: u8, bits: u64) -> (String, String) {
    let up = 64 - 8 * conversion.size;
    let unsigned = bits << up >> up;
    let (negative, magnitude) = if matches!(letter, b'd' | b'i') {
        let value = (bits << up).cast_signed() >> up;
        (value < 0, value.unsigned_abs())
    } else {
        (false, unsigned)
    };
    let digits = match letter {
        b'o' => format!("{magnitude:o}"),
        b'x' => format!("{magnitude:x}"),
        b'X' => format!("{magnitude:X}"),
        _ => magnitude.to_string(),
    };
    let digits = match conversion.precision {
        Some(0) if magnitude == 0 => String::new(),
        Some(precision) => format!(
            "{}{digits}",
            "0".repeat(precision.saturating_sub(digits.len()))
        ),
        None => digits,
    };
    let prefix = match letter {
        b'd' | b'i' => sign(conversion, negative),
        b'x' if conversion.alternate && magnitude != 0 => "0x".into(),
        b'X' if conversion.alternate && magnitude != 0 => "0X".into(),
        b'o' if conversion.alternate && !digits.starts_with('0') => "0".into(),
        _ => String::new(),
    };
    (prefix, digits)
}

fn sign(conversion: &Conversion, negative: bool) -> String {
    match (negative, conversion.plus, conversion.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
    .into()
}

fn floating(conversion: &Conversion, letter: u8, value: f64) -> (String, String) {
    let prefix = sign(conversion, value.is_sign_negative());
    let magnitude = value.abs();
    let upper = letter.is_ascii_uppercase();
    let text = if magnitude.is_nan() {
        "nan".into()
    } else if magnitude.is_infinite() {
        "inf".into()
    } else {
        let precision = conversion.precision;
        match letter.to_ascii_lowercase() {
            b'f' => format!("{magnitude:.*}", precision.unwrap_or(6)),
            b'e' => scientific(magnitude, precision.unwrap_or(6)),
            b'a' => hexadecimal(magnitude),
            _ => general(
                magnitude,
                precision.unwrap_or(6).max(1),
                conversion.alternate,
            ),
        }
    };
    let text = if upper { text.to_uppercase() } else { text };
    (prefix, text)
}

/// C's exponent has a sign and at least two digits.
fn scientific(magnitude: f64, precision: usize) -> String {
    let text = format!("{magnitude:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// The shorter of the two, with so many significant digits.
fn general(magnitude: f64, digits: usize, keep_zeros: bool) -> String {
    let shown = scientific(magnitude, digits - 1);
    let exponent: i32 = shown
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or(0);
    let trimmed = |text: &str| {
        if keep_zeros || !text.contains('.') {
            text.to_owned()
        } else {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    };
    if exponent < -4 || exponent >= digits as i32 {
        let (digits, exponent) = shown.split_once('e').unwrap_or((&shown, "+00"));
        format!("{}e{exponent}", trimmed(digits))
    } else {
        let places = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
        trimmed(&format!("{magnitude:.places$}"))
    }
}

/// `0x1.8p+1`.
fn hexadecimal(magnitude: f64) -> String {
    let bits = magnitude.to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    if bits == 0 {
        return "0x0p+0".into();
    }
    let (lead, exponent) = if exponent == 0 {
        (0, -1022)
    } else {
        (1, exponent - 1023)
    };
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{digits}p{exponent:+}")
}

/// Fills up to the width: with blanks, or with zeros between the sign and a number's digits.
fn pad(
    conversion: &Conversion,
    numeric: bool,
    (prefix, body): (String, String),
    out: &mut Vec<u8>,
) {
    let length = prefix.chars().count() + body.chars().count();
    let missing = conversion.width.saturating_sub(length);
    let finite = !body.ends_with(['f', 'n', 'F', 'N']);
    let zeros = numeric && conversion.zero && !conversion.left && finite;
    let text = if conversion.left {
        format!("{prefix}{body}{}", " ".repeat(missing))
    } else if zeros {
        format!("{prefix}{}{body}", "0".repeat(missing))
    } else {
        format!("{}{prefix}{body}", " ".repeat(missing))
    };
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str, arguments: &[u64]) -> String {
        let mut left = arguments.iter();
        let text = format(
            text.as_bytes(),
            &mut |_| left.next().copied(),
            &mut |address| (address == 7).then(|| b"seven".to_vec()),
        );
        String::from_utf8(text.unwrap().bytes).unwrap()
    }

    #[test]
    fn integers_of_every_width() {
        assert_eq!(
            printed("%d|%5d|%-5d|%05d", &[0xffff_ffff, 7, 7, 0xffff_fffe]),
            "-1|    7|7    |-0002"
        );
        assert_eq!(
            printed("%u %lld %hhd", &[0xffff_ffff, u64::MAX, 0x1ff]),
            "4294967295 -1 -1"
        );
        assert_eq!(printed("%x %#X %o %+d", &[255, 255, 8, 3]), "ff 0XFF 10 +3");
        assert_eq!(printed("%.3d %*d %%", &[5, 4, 9]), "005    9 %");
    }

    #[test]
    fn floating_point_in_every_style() {
        let bits = |x: f64| x.to_bits();
        assert_eq!(
            printed("%f %.2f %8.3f", &[bits(1.5), bits(2.345), bits(-1.0)]),
            "1.500000 2.35   -1.000"
        );
        assert_eq!(
            printed(
                "%e %g %g %g",
                &[bits(12345.678), bits(0.0001), bits(1e20), bits(100000.0)]
            ),
            "1.234568e+04 0.0001 1e+20 100000"
        );
        assert_eq!(
            printed(
                "%g %f %a",
                &[bits(f64::NAN), bits(f64::NEG_INFINITY), bits(3.0)]
            ),
            "nan -inf 0x1.8p+1"
        );
    }

    #[test]
    fn text_and_what_is_no_conversion() {
        assert_eq!(
            printed("%s %c %8s|%-8s|%.3s", &[7, 65, 7, 7, 7]),
            "seven A    seven|seven   |sev"
        );
        assert_eq!(printed("100%", &[]), "100%");
        assert_eq!(printed("%q", &[]), "%q");
        assert_eq!(
            format(b"%d", &mut |_| None, &mut |_| None),
            Err(Problem::Argument(1))
        );
    }

    #[test]
    fn arguments_lie_at_multiples_of_their_size() {
        let mut arguments = Arguments::new(16);
        assert_eq!(
            [arguments.next(4), arguments.next(8), arguments.next(4)],
            [16, 24, 32]
        );
    }
}
