//! How the unit evaluates a function: a parabola for each of a power of two of equal intervals.
//!
//! The operand's leading bits choose an interval, the bits below them (*the place*) are where in it the operand lies. The
//! result is c₀ + c₁·x + c₂·x², exactly, except for the square: its partial products are folded (each pair of different bits
//! once, with twice the weight, and each bit with itself once) and those in the lower columns are left out. This is the design
//! of Oberman and Siu, "A High-Performance Area-Efficient Multifunction Interpolator" (ARITH-17, 2005). The coefficients and the
//! columns were found by fitting integers to what an H200 gave for whole octaves of operands; nothing is left over.

/// A table of parabolas.
pub(super) struct Interpolation {
    /// Bits of the place in an interval.
    pub place: u32,
    /// The lowest column of the folded square that counts.
    pub column: u32,
    /// c₀, c₁, c₂ of each interval. c₀ counts units of 2^-place of the result's last place, c₁ is for the place as an integer,
    /// c₂ for the square without the columns that do not count.
    pub parabolas: &'static [[i64; 3]],
}

impl Interpolation {
    /// The function at an operand of as many bits as choose an interval and a place; `place` bits of the result are fraction.
    pub fn at(&self, operand: u32) -> i64 {
        let place = operand & ((1 << self.place) - 1);
        let [constant, slope, bend] = self.parabolas[(operand >> self.place) as usize];
        constant + slope * i64::from(place) + bend * (square(place, self.column) >> self.column)
    }
}

/// The folded square without the columns below `lowest`.
fn square(x: u32, lowest: u32) -> i64 {
    let wide = u64::from(x);
    let counted = !0 << lowest;
    let (mut sum, mut bits) = (0, x);
    while bits != 0 {
        let bit = bits.trailing_zeros();
        bits &= bits - 1;
        let row = wide >> (bit + 1) << (2 * bit + 2) | 1 << (2 * bit);
        sum += row & counted;
    }
    sum as i64
}

#[cfg(test)]
mod tests {
    use super::square;

    #[test]
    fn with_all_columns_it_is_the_square() {
        for x in [0, 1, 2, 3, 0x1_2345, 0x1_ffff] {
            assert_eq!(square(x, 0), i64::from(x) * i64::from(x));
        }
    }

    #[test]
    fn columns_are_dropped_before_they_are_added() {
        // 3² is 1 + 4 and twice 2: the columns 0, 2 and 2.
        assert_eq!(square(3, 1), 8);
        assert_eq!(square(3, 3), 0, "two products of column 2 would carry");
    }
}
