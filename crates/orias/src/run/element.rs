//! The types of buffer elements and scalars: how they are written and shown.

use orias_eval::float::convert::to_format;
use orias_eval::float::{Format, Overflow, Rounding};

macro_rules! elements {
    ($($variant:ident $text:literal $bytes:literal $kind:ident;)*) => {
        /// The type of an element.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each variant is the type of that spelling")]
        pub enum Element { $($variant,)* }

        impl Element {
            /// Every type.
            pub const ALL: &'static [Element] = &[$(Element::$variant,)*];

            /// The spelling.
            pub const fn name(self) -> &'static str {
                match self { $(Element::$variant => $text,)* }
            }

            /// Bytes of one.
            pub const fn bytes(self) -> usize {
                match self { $(Element::$variant => $bytes,)* }
            }

            const fn kind(self) -> Kind {
                match self { $(Element::$variant => Kind::$kind,)* }
            }
        }
    };
}

/// How the bits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Signed,
    Unsigned,
    Bits,
    Float,
}

elements! {
    I8 "i8" 1 Signed;
    I16 "i16" 2 Signed;
    I32 "i32" 4 Signed;
    I64 "i64" 8 Signed;
    U8 "u8" 1 Unsigned;
    U16 "u16" 2 Unsigned;
    U32 "u32" 4 Unsigned;
    U64 "u64" 8 Unsigned;
    B8 "b8" 1 Bits;
    B16 "b16" 2 Bits;
    B32 "b32" 4 Bits;
    B64 "b64" 8 Bits;
    F16 "f16" 2 Float;
    Bf16 "bf16" 2 Float;
    F32 "f32" 4 Float;
    F64 "f64" 8 Float;
}

impl Element {
    /// The type of that spelling; PTX's `s32` is `i32`.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = |spelling: &str| Self::ALL.iter().copied().find(|it| it.name() == spelling);
        found(name).or_else(|| found(&format!("i{}", name.strip_prefix('s')?)))
    }

    /// Whether these are floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    const fn format(self) -> Format {
        match self {
            Self::F16 => Format::F16,
            Self::Bf16 => Format::BF16,
            Self::F64 => Format::F64,
            _ => Format::F32,
        }
    }

    /// The little-endian bytes of the number nearest to `value`.
    pub fn from_f64(self, value: f64) -> Vec<u8> {
        let bits = if self.is_float() {
            let (nearest, overflow) = (Rounding::NearestEven, Overflow::Ieee);
            to_format(
                Format::F64,
                value.to_bits(),
                self.format(),
                nearest,
                overflow,
            )
        } else {
            (value as i64).cast_unsigned()
        };
        self.from_bits(bits)
    }

    /// The low bytes of a pattern.
    pub fn from_bits(self, bits: u64) -> Vec<u8> {
        bits.to_le_bytes()[..self.bytes()].to_vec()
    }

    /// The pattern of an element in little-endian bytes.
    pub fn bits(self, bytes: &[u8]) -> u64 {
        let bytes = bytes.iter().take(self.bytes()).enumerate();
        bytes.fold(0, |bits, (at, byte)| bits | u64::from(*byte) << (8 * at))
    }

    /// The number of an element.
    pub fn to_f64(self, bytes: &[u8]) -> f64 {
        let bits = self.bits(bytes);
        let up = 64 - 8 * self.bytes();
        match self.kind() {
            Kind::Signed => ((bits << up).cast_signed() >> up) as f64,
            Kind::Unsigned | Kind::Bits => bits as f64,
            Kind::Float => {
                let (nearest, overflow) = (Rounding::NearestEven, Overflow::Ieee);
                f64::from_bits(to_format(
                    self.format(),
                    bits,
                    Format::F64,
                    nearest,
                    overflow,
                ))
            }
        }
    }

    /// Reads a value: decimal, `0x` bits of any type, and for floating point everything Rust reads.
    ///
    /// # Errors
    /// It is no number, or does not fit the type.
    pub fn parse(self, text: &str) -> Result<Vec<u8>, String> {
        let wrong = || format!("'{text}' is no {}", self.name());
        let width = 8 * self.bytes() as u32;
        let fits = |bits: u64| width == 64 || bits >> width == 0;
        if let Some(digits) = text.strip_prefix("0x") {
            let bits = u64::from_str_radix(digits, 16).map_err(|_| wrong())?;
            return if fits(bits) {
                Ok(self.from_bits(bits))
            } else {
                Err(wrong())
            };
        }
        match self.kind() {
            Kind::Float => {
                // `f32` is read as such: reading a double and rounding it would round twice.
                if self == Self::F32 {
                    let value: f32 = text.parse().map_err(|_| wrong())?;
                    return Ok(value.to_le_bytes().to_vec());
                }
                let value: f64 = text.parse().map_err(|_| wrong())?;
                Ok(self.from_f64(value))
            }
            Kind::Unsigned | Kind::Bits => {
                let value: u64 = text.parse().map_err(|_| wrong())?;
                if fits(value) {
                    Ok(self.from_bits(value))
                } else {
                    Err(wrong())
                }
            }
            Kind::Signed => {
                let value: i64 = text.parse().map_err(|_| wrong())?;
                let up = 64 - width;
                if value << up >> up == value {
                    Ok(self.from_bits(value.cast_unsigned()))
                } else {
                    Err(wrong())
                }
            }
        }
    }

    /// An element as text; patterns in hexadecimal digits, others as the shortest number that reads back equal.
    pub fn show(self, bytes: &[u8], hexadecimal: bool) -> String {
        let bits = self.bits(bytes);
        let up = 64 - 8 * self.bytes();
        if hexadecimal || self.kind() == Kind::Bits {
            return format!("0x{bits:0width$x}", width = 2 * self.bytes());
        }
        match (self.kind(), self) {
            (Kind::Signed, _) => ((bits << up).cast_signed() >> up).to_string(),
            (Kind::Float, Self::F64) => f64::from_bits(bits).to_string(),
            (Kind::Float, _) => (self.to_f64(bytes) as f32).to_string(),
            _ => bits.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_shows_what_it_reads() {
        for (element, text) in [
            (Element::I8, "-128"),
            (Element::U64, "18446744073709551615"),
            (Element::F32, "0.1"),
            (Element::F16, "-2.5"),
            (Element::Bf16, "3"),
            (Element::F64, "inf"),
            (Element::B16, "0x00ff"),
        ] {
            assert_eq!(element.show(&element.parse(text).unwrap(), false), text);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Element::I8.parse("128").is_err());
        assert!(Element::U8.parse("-1").is_err());
        assert!(Element::U16.parse("0x10000").is_err());
        assert!(Element::F32.parse("one").is_err());
        assert_eq!(
            Element::F32.parse("0x3f800000").unwrap(),
            1f32.to_le_bytes()
        );
        assert_eq!(Element::from_name("s32"), Some(Element::I32));
    }
}
