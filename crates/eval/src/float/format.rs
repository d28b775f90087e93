//! Floating-point formats as data, and the exact values their bit patterns stand for.

/// What a format does with the patterns IEEE 754 reserves for infinities and NaNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// The highest exponent holds infinities and NaNs.
    Ieee,
    /// No infinities; only the pattern of all ones below the sign is a NaN (`e4m3`).
    NanOnly,
    /// Every pattern is a finite number (`e2m3`, `e3m2`, `e2m1`).
    None,
}

/// A binary floating-point format: one sign bit, an exponent, a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the fraction field, the hidden bit not counted.
    pub fraction_bits: u32,
    /// Infinities and NaNs.
    pub specials: Specials,
}

impl Format {
    const fn ieee(exponent_bits: u32, fraction_bits: u32) -> Self {
        Self {
            exponent_bits,
            fraction_bits,
            specials: Specials::Ieee,
        }
    }

    /// IEEE half precision.
    pub const F16: Self = Self::ieee(5, 10);
    /// The upper half of a single-precision number.
    pub const BF16: Self = Self::ieee(8, 7);
    /// The nineteen bits of a single-precision number that tensor cores read, without the thirteen below them.
    pub const TF32: Self = Self::ieee(8, 10);
    /// IEEE single precision.
    pub const F32: Self = Self::ieee(8, 23);
    /// IEEE double precision.
    pub const F64: Self = Self::ieee(11, 52);
    /// Eight bits with infinities.
    pub const E5M2: Self = Self::ieee(5, 2);
    /// Eight bits with one NaN and no infinity.
    pub const E4M3: Self = Self {
        exponent_bits: 4,
        fraction_bits: 3,
        specials: Specials::NanOnly,
    };
    /// Six bits, range before precision.
    pub const E3M2: Self = Self {
        exponent_bits: 3,
        fraction_bits: 2,
        specials: Specials::None,
    };
    /// Six bits, precision before range.
    pub const E2M3: Self = Self {
        exponent_bits: 2,
        fraction_bits: 3,
        specials: Specials::None,
    };
    /// Four bits.
    pub const E2M1: Self = Self {
        exponent_bits: 2,
        fraction_bits: 1,
        specials: Specials::None,
    };

    /// Bits of a pattern.
    pub const fn width(self) -> u32 {
        1 + self.exponent_bits + self.fraction_bits
    }

    /// The exponent of the smallest normal number.
    pub const fn min_exponent(self) -> i32 {
        2 - (1 << (self.exponent_bits - 1))
    }

    /// The exponent of the largest finite number.
    pub const fn max_exponent(self) -> i32 {
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        match self.specials {
            Specials::Ieee => bias,
            Specials::NanOnly | Specials::None => bias + 1,
        }
    }

    /// The sign bit.
    pub const fn sign_mask(self) -> u64 {
        1 << (self.width() - 1)
    }

    const fn fraction_mask(self) -> u64 {
        (1 << self.fraction_bits) - 1
    }

    const fn exponent_mask(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    /// The largest finite magnitude.
    pub const fn largest(self) -> u64 {
        match self.specials {
            Specials::Ieee => {
                ((self.exponent_mask() << self.fraction_bits) - 1) & (self.sign_mask() - 1)
            }
            Specials::NanOnly => self.sign_mask() - 2,
            Specials::None => self.sign_mask() - 1,
        }
    }

    /// Positive infinity, where the format has one.
    pub const fn infinity(self) -> Option<u64> {
        match self.specials {
            Specials::Ieee => Some(self.exponent_mask() << self.fraction_bits),
            Specials::NanOnly | Specials::None => None,
        }
    }

    /// The NaN with every bit below the sign set, where the format has NaNs: what the chip's single-precision and
    /// narrower arithmetic returns.
    pub const fn nan(self) -> Option<u64> {
        match self.specials {
            Specials::Ieee | Specials::NanOnly => Some(self.sign_mask() - 1),
            Specials::None => None,
        }
    }

    /// The exact value of a pattern. Bits above the format's width are not looked at.
    pub const fn unpack(self, bits: u64) -> Value {
        let negative = bits & self.sign_mask() != 0;
        let exponent = (bits >> self.fraction_bits) & self.exponent_mask();
        let fraction = bits & self.fraction_mask();
        let highest = exponent == self.exponent_mask();
        let nan = Value::Nan(Nan {
            negative,
            fraction: fraction << (64 - self.fraction_bits),
        });
        match self.specials {
            Specials::Ieee if highest && fraction != 0 => return nan,
            Specials::Ieee if highest => return Value::Infinity { negative },
            Specials::NanOnly if highest && fraction == self.fraction_mask() => return nan,
            _ => {}
        }
        let (significand, exponent) = if exponent == 0 {
            (fraction, self.min_exponent())
        } else {
            let hidden = 1 << self.fraction_bits;
            (fraction | hidden, self.min_exponent() - 1 + exponent as i32)
        };
        Value::Finite(Finite {
            negative,
            significand: significand as u128,
            exponent: exponent - self.fraction_bits as i32,
        })
    }

    /// Whether a pattern is a NaN.
    pub const fn is_nan(self, bits: u64) -> bool {
        matches!(self.unpack(bits), Value::Nan(_))
    }

    /// Whether a pattern is a subnormal number (zero is not).
    pub const fn is_subnormal(self, bits: u64) -> bool {
        (bits >> self.fraction_bits) & self.exponent_mask() == 0 && bits & self.fraction_mask() != 0
    }

    /// The quiet NaN with the sign and as much of the payload of `nan` as fits: what double-precision arithmetic and its
    /// conversions return. Formats without IEEE's NaNs have only [`Format::nan`].
    pub const fn quiet(self, nan: Nan) -> Option<u64> {
        match self.specials {
            Specials::Ieee => {
                let sign = if nan.negative { self.sign_mask() } else { 0 };
                let fraction = (nan.fraction | 1 << 63) >> (64 - self.fraction_bits);
                Some(sign | self.exponent_mask() << self.fraction_bits | fraction)
            }
            Specials::NanOnly | Specials::None => self.nan(),
        }
    }

    /// A subnormal pattern becomes the zero of its sign; others stay.
    pub const fn flush(self, bits: u64) -> u64 {
        if self.is_subnormal(bits) {
            bits & self.sign_mask()
        } else {
            bits
        }
    }
}

/// What a NaN carries besides being one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nan {
    /// The sign bit.
    pub negative: bool,
    /// The fraction field, its highest bit (set in quiet NaNs) at bit 63.
    pub fraction: u64,
}

impl Nan {
    /// What an invalid operation on numbers makes, where NaNs carry anything.
    pub const INVALID: Self = Self {
        negative: true,
        fraction: 1 << 63,
    };
}

/// What a pattern stands for, without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Not a number.
    Nan(Nan),
    /// An infinity.
    Infinity {
        /// Its sign.
        negative: bool,
    },
    /// A finite number, zeros included.
    Finite(Finite),
}

/// `significand * 2^exponent`, with a sign that zero has too.
///
/// After an inexact step the lowest bit of the significand is *sticky*: set when anything below it was not zero. Steps
/// that use it keep far more bits than any format has, so rounding never takes it for more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finite {
    /// The sign.
    pub negative: bool,
    /// The magnitude's digits.
    pub significand: u128,
    /// The weight of the lowest digit.
    pub exponent: i32,
}

impl Finite {
    /// A zero.
    pub const fn zero(negative: bool) -> Self {
        Self {
            negative,
            significand: 0,
            exponent: 0,
        }
    }

    /// The exponent of the highest digit; none for zero.
    pub const fn magnitude(self) -> Option<i32> {
        match self.significand {
            0 => None,
            digits => Some(self.exponent + 127 - digits.leading_zeros() as i32),
        }
    }
}
