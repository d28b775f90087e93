//! What a look at an image yields.

use super::place::{Along, WEIGHT_BITS, WHOLE, along, settle, weight};
use super::{Addressing, Filter, Image, Sampler};
use crate::approximate::Approximate;
use crate::float::Format as Float;

/// Which level of detail is wanted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Detail {
    /// This one.
    Level(f32),
    /// The one that fits how coordinates change from one place to the next, in two directions.
    Gradients([f32; 3], [f32; 3]),
}

/// A look at an image.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lookup {
    /// Coordinates; for a cube a direction whose largest component is 1 or -1.
    pub coordinates: [f32; 3],
    /// Which member of an array.
    pub layer: u32,
    /// Which level.
    pub detail: Detail,
    /// Added to coordinates, in texels.
    pub offsets: [i32; 3],
    /// What texels are compared with.
    pub reference: Option<f32>,
}

/// The NaN that arithmetic makes.
const NAN: u32 = 0x7fff_ffff;

/// The bits of a sum.
fn rounded(sum: f64) -> u32 {
    match sum.is_nan() {
        true => NAN,
        false => (sum as f32).to_bits(),
    }
}

/// A direction on the surface of the cube of size 1, as code for the chip computes it: by the approximate reciprocal of the largest component.
#[must_use]
pub fn on_unit_cube(direction: [f32; 3]) -> [f32; 3] {
    let [x, y, z] = direction.map(f32::abs);
    let largest = z.max(x.max(y)).to_bits();
    let scale = Approximate::Reciprocal.apply(Float::F32, largest.into(), true);
    let scale = f32::from_bits(scale.unwrap_or_default() as u32);
    direction.map(|each| each * scale)
}

/// A face of a cube, and how a direction becomes coordinates on it: the signed component that is largest, and those of the two coordinates.
struct Face {
    number: u32,
    major: (usize, f64),
    coordinates: [(usize, f64); 2],
}

impl Face {
    fn of([x, y, z]: [f32; 3]) -> Self {
        let [wide, high, deep] = [x, y, z].map(f32::abs);
        let sign = |component: f32| if component >= 0.0 { 1.0 } else { -1.0 };
        let second = |negative: f64| u32::from(negative < 0.0);
        if wide >= high && wide >= deep {
            let sign = sign(x);
            return Self {
                number: second(sign),
                major: (0, sign),
                coordinates: [(2, -sign), (1, -1.0)],
            };
        }
        if high >= deep {
            let sign = sign(y);
            return Self {
                number: 2 + second(sign),
                major: (1, sign),
                coordinates: [(0, 1.0), (2, sign)],
            };
        }
        let sign = sign(z);
        Self {
            number: 4 + second(sign),
            major: (2, sign),
            coordinates: [(0, sign), (1, -1.0)],
        }
    }

    /// The coordinates of a direction, 0 to 1.
    fn place(&self, direction: [f32; 3]) -> [f64; 2] {
        let all = direction.map(f64::from);
        (self.coordinates).map(|(component, sign)| (sign * all[component] + 1.0) / 2.0)
    }

    /// How the coordinates change when the direction does.
    fn slope(&self, direction: [f32; 3], change: [f32; 3]) -> [f64; 2] {
        let (at, by) = (direction.map(f64::from), change.map(f64::from));
        let (component, sign) = self.major;
        let (major, major_by) = (sign * at[component], sign * by[component]);
        (self.coordinates).map(|(component, sign)| {
            let (minor, minor_by) = (sign * at[component], sign * by[component]);
            (minor_by * major - minor * major_by) / (2.0 * major * major)
        })
    }
}

/// Where a look falls: on which plane or line, at which coordinates from 0 to 1 or in texels.
struct Spot {
    layer: u32,
    coordinates: [f64; 3],
    scaled: bool,
}

impl Image {
    /// Reads texels that coordinates weight: what a look at an image yields, as integers or the bits of singles. `read` reads so many bytes at an offset.
    ///
    /// # Errors
    /// What `read` says.
    pub fn sample<E>(
        &self,
        sampler: &Sampler,
        lookup: &Lookup,
        read: &mut dyn FnMut(u64, u32) -> Result<u128, E>,
    ) -> Result<[u32; 4], E> {
        let level = self.level(sampler, lookup);
        let last = f64::from(self.levels - 1);
        if sampler.levels == Filter::Point {
            let level = (level + 0.5).floor().min(last) as u32;
            return self.filtered(sampler, lookup, level, read);
        }
        let (first, part) = (level.floor() as u32, weight(level - level.floor()));
        let low = match part {
            WHOLE => [0; 4],
            _ => self.filtered(sampler, lookup, first, read)?,
        };
        if part == 0 {
            return Ok(low);
        }
        let high = self.filtered(sampler, lookup, first + 1, read)?;
        if part == WHOLE {
            return Ok(high);
        }
        let single = |bits: u32| f64::from(f32::from_bits(bits));
        let [below, above] = [WHOLE - part, part].map(|part| f64::from(part) / f64::from(WHOLE));
        Ok(std::array::from_fn(|at| {
            rounded(below * single(low[at]) + above * single(high[at]))
        }))
    }

    /// One channel of the four texels that linear filtering would weight, counter-clockwise from the lower left.
    ///
    /// # Errors
    /// What `read` says.
    pub fn gather<E>(
        &self,
        sampler: &Sampler,
        lookup: &Lookup,
        channel: usize,
        read: &mut dyn FnMut(u64, u32) -> Result<u128, E>,
    ) -> Result<[u32; 4], E> {
        let last = f64::from(self.levels - 1);
        let level = (self.level(sampler, lookup) + 0.5).floor().min(last) as u32;
        let spot = self.spot(sampler, lookup);
        let size = self.level_size(level);
        let around = |axis: usize| self.along(&spot, axis, size, Filter::Linear, lookup);
        let [x, y] = [around(0), around(1)].map(|it| it.first);
        let mut texels = [0; 4];
        for (texel, [right, down]) in texels.iter_mut().zip([[0, 1], [1, 1], [1, 0], [0, 0]]) {
            let place = [x.saturating_add(right), y.saturating_add(down), 0];
            let words = self.texel(sampler, level, spot.layer, place, read)?;
            *texel = match lookup.reference {
                Some(reference) => compared(sampler, reference, words)[0],
                None => words[channel & 3],
            };
        }
        Ok(texels)
    }

    /// The texel at whole coordinates; zeros where there is none.
    ///
    /// # Errors
    /// What `read` says.
    pub fn fetch<E>(
        &self,
        coordinates: [i32; 3],
        layer: u32,
        level: i32,
        sample: u32,
        read: &mut dyn FnMut(u64, u32) -> Result<u128, E>,
    ) -> Result<[u32; 4], E> {
        let level = level
            .clamp(0, self.levels.cast_signed() - 1)
            .cast_unsigned();
        let size = self.level_size(level);
        let mut at = [0; 3];
        for axis in 0..self.geometry.dimensions() {
            let Some(place) = settle(coordinates[axis].into(), size[axis], Addressing::Border)
            else {
                return Ok([0; 4]);
            };
            at[axis] = place;
        }
        if sample >= self.samples {
            return Ok([0; 4]);
        }
        let layer = layer.min(self.layers() - 1);
        let texel = read(self.offset(level, layer, at, sample), self.format.bytes())?;
        Ok(self.format.decode(texel))
    }

    /// The level of detail of a look, within those there are.
    fn level(&self, sampler: &Sampler, lookup: &Lookup) -> f64 {
        let wanted = match lookup.detail {
            Detail::Level(level) => f64::from(level),
            Detail::Gradients(dx, dy) => {
                let texels = |change| {
                    let along = self.steps(sampler, lookup, change);
                    along.iter().map(|step| step * step).sum::<f64>().sqrt()
                };
                texels(dx).max(texels(dy)).log2()
            }
        };
        let level = wanted + f64::from(sampler.bias);
        let level = if level.is_nan() { 0.0 } else { level };
        let [least, most] = sampler.range.map(f64::from);
        level
            .min(most)
            .max(least)
            .clamp(0.0, f64::from(self.levels - 1))
    }

    /// How many texels of the first level coordinates move by when they change.
    fn steps(&self, sampler: &Sampler, lookup: &Lookup, change: [f32; 3]) -> [f64; 3] {
        let mut steps = change.map(f64::from);
        if self.geometry.is_cube() {
            let [x, y] = Face::of(lookup.coordinates).slope(lookup.coordinates, change);
            steps = [x, y, 0.0];
        }
        for (axis, step) in steps.iter_mut().enumerate() {
            *step *= match axis < self.geometry.dimensions() {
                true if sampler.normalised || self.geometry.is_cube() => f64::from(self.size[axis]),
                true => 1.0,
                false => 0.0,
            };
        }
        steps
    }

    fn spot(&self, sampler: &Sampler, lookup: &Lookup) -> Spot {
        let layer = lookup.layer.min(self.count - 1);
        if self.geometry.is_cube() {
            let face = Face::of(lookup.coordinates);
            let [x, y] = face.place(lookup.coordinates);
            return Spot {
                layer: layer * super::FACES + face.number,
                coordinates: [x, y, 0.0],
                scaled: true,
            };
        }
        Spot {
            layer,
            coordinates: lookup.coordinates.map(f64::from),
            scaled: sampler.normalised,
        }
    }

    /// Where a look falls along a dimension of a level.
    fn along(
        &self,
        spot: &Spot,
        axis: usize,
        size: [u32; 3],
        filter: Filter,
        lookup: &Lookup,
    ) -> Along {
        if axis >= self.geometry.dimensions() {
            return Along {
                first: 0,
                weight: 0,
            };
        }
        let scale = match spot.scaled {
            true => f64::from(size[axis]),
            false => 1.0,
        };
        along(spot.coordinates[axis] * scale, filter, lookup.offsets[axis])
    }

    /// The texel at a place that may lie outside.
    fn texel<E>(
        &self,
        sampler: &Sampler,
        level: u32,
        layer: u32,
        place: [i64; 3],
        read: &mut dyn FnMut(u64, u32) -> Result<u128, E>,
    ) -> Result<[u32; 4], E> {
        let size = self.level_size(level);
        let mut at = [0; 3];
        for axis in 0..self.geometry.dimensions() {
            match settle(place[axis], size[axis], sampler.addressing[axis]) {
                Some(index) => at[axis] = index,
                None if self.format.is_integer() => return Ok([0; 4]),
                None => return Ok(sampler.border.map(f32::to_bits)),
            }
        }
        let texel = read(self.offset(level, layer, at, 0), self.format.bytes())?;
        Ok(self.format.decode(texel))
    }

    /// What a look at one level yields.
    fn filtered<E>(
        &self,
        sampler: &Sampler,
        lookup: &Lookup,
        level: u32,
        read: &mut dyn FnMut(u64, u32) -> Result<u128, E>,
    ) -> Result<[u32; 4], E> {
        let spot = self.spot(sampler, lookup);
        let size = self.level_size(level);
        let axes: [Along; 3] =
            std::array::from_fn(|axis| self.along(&spot, axis, size, sampler.filter, lookup));
        let mut texel = |place: [i64; 3]| {
            let words = self.texel(sampler, level, spot.layer, place, read)?;
            Ok(match lookup.reference {
                Some(reference) => compared(sampler, reference, words),
                None => words,
            })
        };
        if sampler.filter == Filter::Point {
            return texel(axes.map(|axis| axis.first));
        }
        let mut sums = [0.0; 4];
        for corner in 0..1usize << self.geometry.dimensions() {
            let mut share = 1u64;
            let mut place = [0; 3];
            for (axis, along) in axes.iter().enumerate() {
                let next = corner >> axis & 1 == 1;
                place[axis] = along.first.saturating_add(next.into());
                if axis < self.geometry.dimensions() {
                    let weight = if next {
                        along.weight
                    } else {
                        WHOLE - along.weight
                    };
                    share *= u64::from(weight);
                }
            }
            if share == 0 {
                continue;
            }
            let words = texel(place)?;
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum += share as f64 * f64::from(f32::from_bits(word));
            }
        }
        let whole = (1u64 << (WEIGHT_BITS as usize * self.geometry.dimensions())) as f64;
        Ok(sums.map(|sum| rounded(sum / whole)))
    }
}

/// Whether a texel compares with a reference as a sampler says: 1 or 0 in all channels.
fn compared(sampler: &Sampler, reference: f32, texel: [u32; 4]) -> [u32; 4] {
    let holds = sampler
        .compare
        .is_some_and(|how| how.holds(reference, f32::from_bits(texel[0])));
    [f32::to_bits(if holds { 1.0 } else { 0.0 }); 4]
}
