//! From a coordinate to texels.

use super::{Addressing, Filter};

/// Bits of a weight behind the point.
pub(super) const WEIGHT_BITS: u32 = 8;

/// The weight 1.
pub(super) const WHOLE: u32 = 1 << WEIGHT_BITS;

/// The part of a number behind the point, counted in units of a weight, rounded to the nearest.
pub(super) fn weight(fraction: f64) -> u32 {
    (fraction * f64::from(WHOLE) + 0.5).floor() as u32
}

/// Where a coordinate falls along a dimension: the first texel, and the weight of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Along {
    pub first: i64,
    pub weight: u32,
}

/// Where a coordinate, in texels, falls along a dimension.
pub(super) fn along(coordinate: f64, filter: Filter, offset: i32) -> Along {
    let coordinate = match coordinate.is_nan() {
        true => 0.0,
        false => coordinate,
    };
    let start = match filter {
        Filter::Point => coordinate,
        Filter::Linear => coordinate - 0.5,
    };
    let first = start.floor();
    Along {
        // Coordinates beyond all numbers are far outside.
        first: (first as i64).saturating_add(offset.into()),
        weight: match filter {
            Filter::Linear if first.is_finite() => weight(start - first),
            _ => 0,
        },
    }
}

/// The texel of that index among `size`; none where there is a colour instead.
pub(super) fn settle(index: i64, size: u32, addressing: Addressing) -> Option<u32> {
    let size = i64::from(size);
    let inside = match addressing {
        Addressing::Clamp => index.clamp(0, size - 1),
        Addressing::Wrap => index.rem_euclid(size),
        Addressing::Mirror => {
            let place = index.rem_euclid(2 * size);
            place.min(2 * size - 1 - place)
        }
        Addressing::Border if (0..size).contains(&index) => index,
        Addressing::Border => return None,
    };
    Some(inside as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_fall_on_texels() {
        let point = |x| along(x, Filter::Point, 0).first;
        assert_eq!([point(0.0), point(0.99), point(-0.01)], [0, 0, -1]);
        let linear = |x| {
            let Along { first, weight } = along(x, Filter::Linear, 0);
            (first, weight)
        };
        assert_eq!(linear(0.5), (0, 0));
        assert_eq!(linear(0.25), (-1, 192));
        // The fraction is rounded, and may become 1.
        assert_eq!(linear(0.5 + 255.4 / 256.0), (0, 255));
        assert_eq!(linear(0.5 + 255.6 / 256.0), (0, 256));
        assert_eq!(linear(f64::INFINITY), (i64::MAX, 0));
    }

    #[test]
    fn indices_outside_settle() {
        let all = |mode| [-5, -1, 0, 3, 4, 9].map(|index| settle(index, 4, mode));
        let some = |list: [u32; 6]| list.map(Some);
        assert_eq!(all(Addressing::Clamp), some([0, 0, 0, 3, 3, 3]));
        assert_eq!(all(Addressing::Wrap), some([3, 3, 0, 3, 0, 1]));
        assert_eq!(all(Addressing::Mirror), some([3, 0, 0, 3, 3, 1]));
        let border = [None, None, Some(0), Some(3), None, None];
        assert_eq!(all(Addressing::Border), border);
    }
}
