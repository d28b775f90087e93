//! Tensor maps: the 128 bytes that describe a tensor in global memory to the copy engine, and which places a copy moves.
//!
//! **The layout** was learned from what ptxas makes of `tensormap.replace` and from maps that the driver encoded:
//!
//! | bytes | bits | field |
//! | --- | --- | --- |
//! | 0 to 7 | | address |
//! | 8 to 11 | 0 | whether it is for im2col accesses |
//! | | 4 to 6 | dimensions less one |
//! | | 7 to 10 | element type, as `tensormap.replace` numbers it |
//! | | 11, 12 | interleaving: none, 16 bytes, 32 bytes |
//! | | 13, 14 | swizzle: none, 32, 64, 128 bytes |
//! | | 15 | what is outside is a special NaN, not zero |
//! | | 16 | single precision is rounded as tensor cores take it (tf32) |
//! | | 17, 18 | how much of the second-level cache is filled at a time: 1, 2, 3 for 64, 128, 256 bytes |
//! | 12 to 27 | | strides of dimensions 1 to 4 in units of 16 bytes, lower words |
//! | 28 to 29 | 4 each | upper bits of the same |
//! | 32 to 51 | | sizes of the dimensions less one |
//! | 52 to 53 | 3 each | steps of the dimensions less one |
//! | 55 to 59 | 8 each | sizes of the box less one; for im2col byte 55 has the channels less one |
//! | 56 to 57, 58 to 59 | 16, 8 or 5 each | lower and upper corners of im2col accesses of 3, 4 and 5 dimensions |
//! | 60 to 61 | 10 | pixels of an im2col access less one |
//! | 64 to 67 | | bytes of a box (the engine works without) |
//! | 72 to 75 | | what a box in shared memory is aligned to: 16, or eight times the swizzle (likewise) |
//!
//! Not known is what is put where nothing is read in maps of single and double precision that ask for a NaN: the chip's answer is none of the NaNs.
//!
//! **A tile** is visited in the order of the box, the first dimension fastest; shared memory is filled in that order, and 16-byte pieces of an address are
//! exchanged by the swizzle, whose span a row fills at least. Elements outside of the tensor are not read or written; a load fills their places.
//!
//! **An im2col access** visits pixels: all dimensions but the first (channels) and the last (images). It starts at the coordinates given and walks, a step at a time, to
//! the upper corner of a dimension, then goes on at its lower corner and a step further in the next; behind the last pixel comes the next image. What is read is each pixel moved by the
//! offsets of the access.

/// How 16-byte pieces of shared memory are exchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swizzle {
    /// Not at all.
    None,
    /// Within 32 bytes.
    B32,
    /// Within 64 bytes.
    B64,
    /// Within 128 bytes.
    B128,
}

impl Swizzle {
    /// Where a byte that would lie at `address` in shared memory does lie: bits from 7 on change as many bits from 4 on.
    #[must_use]
    pub const fn place(self, address: u64) -> u64 {
        let mask = match self {
            Swizzle::None => 0,
            Swizzle::B32 => 1,
            Swizzle::B64 => 3,
            Swizzle::B128 => 7,
        };
        address ^ (address >> 7 & mask) << 4
    }
}

/// What a tensor consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// Integers without sign, of so many bytes.
    Unsigned(u8),
    /// Integers with sign, of so many bytes.
    Signed(u8),
    /// IEEE half precision.
    F16,
    /// Brain float.
    Bf16,
    /// Single precision; whether subnormals are flushed.
    F32 {
        /// Subnormals become zero.
        flushed: bool,
    },
    /// Double precision.
    F64,
    /// Single precision, rounded to the precision of tensor cores; whether subnormals are flushed.
    Tf32 {
        /// Subnormals become zero.
        flushed: bool,
    },
}

impl Element {
    /// The type of that number in a map, which is PTX's number of it.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Element> {
        Some(match number {
            0 => Element::Unsigned(1),
            1 => Element::Unsigned(2),
            2 => Element::Unsigned(4),
            3 => Element::Signed(4),
            4 => Element::Unsigned(8),
            5 => Element::Signed(8),
            6 => Element::F16,
            7 => Element::F32 { flushed: false },
            8 => Element::F32 { flushed: true },
            9 => Element::F64,
            10 => Element::Bf16,
            _ => return None,
        })
    }

    /// The number of the type in a map, and whether it is rounded.
    #[must_use]
    pub fn number(self) -> (u32, bool) {
        let (plain, rounded) = match self {
            Element::Tf32 { flushed } => (Element::F32 { flushed }, true),
            other => (other, false),
        };
        let number = (0..11).find(|&number| Element::from_number(number) == Some(plain));
        (number.unwrap_or(0), rounded)
    }

    /// The same numbers rounded as tensor cores take them.
    const fn rounded(self) -> Option<Element> {
        match self {
            Element::F32 { flushed } => Some(Element::Tf32 { flushed }),
            _ => None,
        }
    }

    /// The type that the driver gives that number.
    #[must_use]
    pub const fn from_driver(number: u32) -> Option<Element> {
        match number {
            8 => Some(Element::F64),
            9 => Some(Element::Bf16),
            10 => Some(Element::F32 { flushed: true }),
            11 => Some(Element::Tf32 { flushed: false }),
            12 => Some(Element::Tf32 { flushed: true }),
            other => Element::from_number(other),
        }
    }

    /// How many bytes it has.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Element::Unsigned(bytes) | Element::Signed(bytes) => bytes as u64,
            Element::F16 | Element::Bf16 => 2,
            Element::F32 { .. } | Element::Tf32 { .. } => 4,
            Element::F64 => 8,
        }
    }
}

/// The most dimensions of a tensor.
pub const DIMENSIONS: usize = 5;

/// A tensor map, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorMap {
    /// Where the tensor starts.
    pub address: u64,
    /// How many dimensions it has.
    pub rank: usize,
    /// What it consists of.
    pub element: Element,
    /// The number of its interleaved layout: 0 for none.
    pub interleave: u32,
    /// How shared memory is swizzled.
    pub swizzle: Swizzle,
    /// Whether what lies outside is read as a special NaN.
    pub fills_with_nan: bool,
    /// The size of each dimension.
    pub sizes: [u64; DIMENSIONS],
    /// Bytes from one element to the next in each dimension.
    pub strides: [u64; DIMENSIONS],
    /// Elements from one that is visited to the next.
    pub steps: [u64; DIMENSIONS],
    /// The size of the box that a tile covers.
    pub box_sizes: [u64; DIMENSIONS],
    /// What im2col accesses visit, if the map is for them.
    pub pixels: Option<Pixels>,
}

/// What an im2col access visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pixels {
    /// How many pixels.
    pub count: u64,
    /// How many channels of each.
    pub channels: u64,
    /// Where the walk starts in each dimension between the first and the last, counted from the start of the dimension.
    pub lower: [i64; 3],
    /// Where it ends, counted from the end of the dimension.
    pub upper: [i64; 3],
}

/// One element of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visit {
    /// Bytes from the start of the tile in shared memory, before swizzling.
    pub offset: u64,
    /// Where it is in global memory; nowhere if it is outside of the tensor.
    pub address: Option<u64>,
}

fn word(bytes: &[u8; 128], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

/// A field of a tensor map that can be replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// Where the tensor starts.
    Address,
    /// Dimensions less one.
    Rank,
    /// The size of the box in a dimension.
    BoxSize,
    /// The size of a dimension.
    Size,
    /// Bytes from one element to the next in a dimension from the second on, which is number 0.
    Stride,
    /// The step in a dimension.
    Step,
    /// The type of elements.
    Element,
    /// The interleaved layout.
    Interleave,
    /// The swizzle.
    Swizzle,
    /// What is read outside of the tensor.
    Fill,
}

/// Puts another value into a field of a map, of the dimension of that number where there is one for each.
pub fn replace(bytes: &mut [u8; 128], field: Field, dimension: usize, value: u64) {
    let mut put = |offset: usize, low: u32, width: u32, value: u64| {
        let mask = (u64::MAX >> (64 - width)) << low;
        let mut word = [0; 8];
        let length = if low + width > 32 { 8 } else { 4 };
        word[..length].copy_from_slice(&bytes[offset..offset + length]);
        let old = u64::from_le_bytes(word);
        let new = old & !mask | value << low & mask;
        bytes[offset..offset + length].copy_from_slice(&new.to_le_bytes()[..length]);
    };
    let less = value.wrapping_sub(1);
    match field {
        Field::Address => put(0, 0, 64, value),
        Field::Rank => put(8, 4, 3, value),
        Field::Element if value > 10 => {
            put(8, 7, 4, value - 4);
            put(8, 16, 1, 1);
        }
        Field::Element => put(8, 7, 4, value),
        Field::Interleave => put(8, 11, 2, value),
        Field::Swizzle => {
            put(8, 13, 2, value);
            put(8, 22, 1, 0);
        }
        Field::Fill => put(8, 15, 1, value),
        Field::Stride => {
            put(12 + 4 * dimension, 0, 32, value >> 4);
            put(28, 4 * dimension as u32, 4, value >> 36);
        }
        Field::Size => put(32 + 4 * dimension, 0, 32, less),
        Field::Step => put(52, 3 * dimension as u32, 3, less),
        Field::BoxSize if dimension == 0 => put(52, 24, 8, less),
        Field::BoxSize => put(56, 8 * (dimension as u32 - 1), 8, less),
    }
}

impl TensorMap {
    /// Reads a map; what is wrong with it, if anything.
    ///
    /// # Errors
    /// A field has a value that the engine does not know.
    pub fn decode(bytes: &[u8; 128]) -> Result<TensorMap, String> {
        let head = word(bytes, 8);
        let field = |low: u32, width: u32| head >> low & ((1 << width) - 1);
        let rank = field(4, 3) as usize + 1;
        if rank > DIMENSIONS {
            return Err(format!("a tensor map of {rank} dimensions"));
        }
        let number = field(7, 4);
        let element = Element::from_number(number)
            .and_then(|element| match field(16, 1) {
                0 => Some(element),
                _ => element.rounded(),
            })
            .ok_or_else(|| format!("a tensor map with elements of type {number}"))?;
        let swizzle = match field(13, 2) {
            0 => Swizzle::None,
            1 => Swizzle::B32,
            2 => Swizzle::B64,
            _ => Swizzle::B128,
        };
        let mut map = TensorMap {
            address: u64::from(word(bytes, 0)) | u64::from(word(bytes, 4)) << 32,
            rank,
            element,
            interleave: field(11, 2),
            swizzle,
            fills_with_nan: field(15, 1) == 1,
            sizes: [1; DIMENSIONS],
            strides: [element.bytes(); DIMENSIONS],
            steps: [1; DIMENSIONS],
            box_sizes: [1; DIMENSIONS],
            pixels: None,
        };
        let upper = word(bytes, 28);
        let steps = word(bytes, 52);
        for at in 0..rank {
            map.sizes[at] = u64::from(word(bytes, 32 + 4 * at)) + 1;
            map.steps[at] = u64::from(steps >> (3 * at) & 7) + 1;
            map.box_sizes[at] = u64::from(bytes[55 + at]) + 1;
            if at > 0 {
                let low = u64::from(word(bytes, 8 + 4 * at));
                let high = u64::from(upper >> (4 * (at - 1)) & 0xf);
                map.strides[at] = (low | high << 32) << 4;
            }
        }
        if field(0, 1) == 1 {
            let corners = word(bytes, 56);
            let width: u32 = match rank {
                3 => 16,
                4 => 8,
                5 => 5,
                _ => return Err(format!("an im2col map of {rank} dimensions")),
            };
            let corner = |half: u32, at: usize| match at < rank - 2 {
                true => {
                    let bits = corners >> (16 * half + width * at as u32);
                    i64::from((bits << (32 - width)).cast_signed() >> (32 - width))
                }
                false => 0,
            };
            map.pixels = Some(Pixels {
                count: u64::from(word(bytes, 60) & 0x3ff) + 1,
                channels: map.box_sizes[0],
                lower: std::array::from_fn(|at| corner(0, at)),
                upper: std::array::from_fn(|at| corner(1, at)),
            });
        }
        if map.interleave == 0 {
            // There are no steps within a row.
            map.steps[0] = 1;
        }
        Ok(map)
    }

    /// How many elements a tile visits in each dimension.
    fn visited(&self) -> [u64; DIMENSIONS] {
        std::array::from_fn(|at| self.box_sizes[at].div_ceil(self.steps[at]))
    }

    /// How many bytes of shared memory a tile takes.
    #[must_use]
    pub fn tile_bytes(&self) -> u64 {
        let visited = self.visited();
        self.element.bytes() * visited[..self.rank].iter().product::<u64>()
    }

    /// Bytes of shared memory from one row of so many elements to the next: a swizzled row fills the span of the swizzle.
    fn pitch(&self, elements: u64) -> u64 {
        let span = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        };
        span.max(elements * self.element.bytes())
    }

    /// The elements of the tile that starts at these coordinates, in the order of shared memory.
    pub fn tile(&self, start: [i64; DIMENSIONS]) -> impl Iterator<Item = Visit> {
        let map = *self;
        let visited = map.visited();
        let count: u64 = visited[..map.rank].iter().product();
        (0..count).map(move |number| {
            let mut rest = number;
            let mut at = [0; DIMENSIONS];
            for dimension in 0..map.rank {
                let index = rest % visited[dimension];
                rest /= visited[dimension];
                at[dimension] =
                    start[dimension].wrapping_add((index * map.steps[dimension]) as i64);
            }
            let (row, place) = (number / visited[0], number % visited[0]);
            Visit {
                offset: row * map.pitch(visited[0]) + place * map.element.bytes(),
                address: map.address_of(at),
            }
        })
    }

    /// The elements of the im2col access that starts at these coordinates, in the order of shared memory.
    ///
    /// # Errors
    /// The map is not for such accesses.
    pub fn columns(
        &self,
        start: [i64; DIMENSIONS],
        offsets: [i64; 3],
    ) -> Result<Vec<Visit>, String> {
        let Some(pixels) = self.pixels else {
            return Err("an im2col access with a map for tiles".to_owned());
        };
        let inner = self.rank - 2;
        let mut at = start;
        let mut visits = Vec::new();
        for pixel in 0..pixels.count {
            for channel in 0..pixels.channels {
                let mut place = at;
                place[0] = start[0] + channel as i64;
                for (dimension, offset) in (1..=inner).zip(offsets) {
                    place[dimension] += offset;
                }
                visits.push(Visit {
                    offset: pixel * self.pitch(pixels.channels) + channel * self.element.bytes(),
                    address: self.address_of(place),
                });
            }
            let mut dimension = 1;
            while dimension <= inner {
                at[dimension] += self.steps[dimension] as i64;
                let end = self.sizes[dimension] as i64 + pixels.upper[dimension - 1];
                if at[dimension] < end {
                    break;
                }
                at[dimension] = pixels.lower[dimension - 1];
                dimension += 1;
            }
            if dimension > inner {
                at[self.rank - 1] += 1;
            }
        }
        Ok(visits)
    }

    /// The address of an element, if it is inside of the tensor.
    #[must_use]
    pub fn address_of(&self, at: [i64; DIMENSIONS]) -> Option<u64> {
        let mut address = self.address;
        for ((&at, &size), &stride) in at
            .iter()
            .zip(&self.sizes)
            .zip(&self.strides)
            .take(self.rank)
        {
            let at = u64::try_from(at).ok().filter(|&at| at < size)?;
            address = address.wrapping_add(at.wrapping_mul(stride));
        }
        Some(address)
    }

    /// The 128 bytes of a map, as the driver makes them. `promotion` is how much of the second-level cache is filled at a time, by number.
    #[must_use]
    pub fn encode(&self, promotion: u64) -> [u8; 128] {
        let mut bytes = [0; 128];
        replace(&mut bytes, Field::Address, 0, self.address);
        replace(&mut bytes, Field::Rank, 0, self.rank as u64 - 1);
        let (number, rounded) = self.element.number();
        replace(&mut bytes, Field::Element, 0, number.into());
        bytes[10] |= u8::from(rounded);
        replace(&mut bytes, Field::Interleave, 0, self.interleave.into());
        replace(&mut bytes, Field::Swizzle, 0, self.swizzle as u64);
        replace(&mut bytes, Field::Fill, 0, self.fills_with_nan.into());
        bytes[8] |= u8::from(self.pixels.is_some());
        bytes[10] |= (promotion as u8 & 3) << 1;
        for at in 0..self.rank {
            if at > 0 {
                replace(&mut bytes, Field::Stride, at - 1, self.strides[at]);
            }
            replace(&mut bytes, Field::Size, at, self.sizes[at]);
            replace(&mut bytes, Field::Step, at, self.steps[at]);
        }
        let mut total = self.element.bytes();
        match self.pixels {
            None => {
                for at in 0..self.rank {
                    replace(&mut bytes, Field::BoxSize, at, self.box_sizes[at]);
                }
                // The driver rounds down what the engine rounds up.
                let visited = (0..self.rank).map(|at| self.box_sizes[at] / self.steps[at]);
                total *= visited.product::<u64>();
            }
            Some(pixels) => {
                replace(&mut bytes, Field::BoxSize, 0, pixels.channels);
                let width = [16, 8, 5][(self.rank - 3).min(2)];
                let mut corners = 0;
                for at in 0..self.rank - 2 {
                    for (half, corner) in
                        [pixels.lower[at], pixels.upper[at]].into_iter().enumerate()
                    {
                        let bits = corner as u32 & ((1 << width) - 1);
                        corners |= bits << (16 * half + width * at);
                    }
                }
                bytes[56..60].copy_from_slice(&corners.to_le_bytes());
                bytes[60..62].copy_from_slice(&(pixels.count as u16 - 1).to_le_bytes());
                total *= pixels.channels * pixels.count;
            }
        }
        bytes[64..68].copy_from_slice(&(total as u32).to_le_bytes());
        let alignment: u32 = match self.swizzle {
            Swizzle::None => 16,
            Swizzle::B32 => 256,
            Swizzle::B64 => 512,
            Swizzle::B128 => 1024,
        };
        bytes[72..76].copy_from_slice(&alignment.to_le_bytes());
        bytes
    }

    /// What a load puts where nothing is read; none where that is not known.
    #[must_use]
    pub const fn filling(&self) -> Option<u64> {
        match (self.fills_with_nan, self.element) {
            (false, _) => Some(0),
            (true, Element::F16 | Element::Bf16) => Some(0x7fff),
            (true, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of singles with 6 × 5 elements, rows of 32 bytes, and a box of 4 × 2.
    fn map() -> [u8; 128] {
        let mut bytes = [0; 128];
        let mut put = |offset: usize, value: u32| {
            bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        };
        put(0, 0x1000);
        put(8, 1 << 4 | 7 << 7);
        put(12, 32 >> 4);
        put(32, 5);
        put(36, 4);
        put(52, 3 << 24);
        put(56, 1);
        bytes
    }

    #[test]
    fn a_tile_at_the_edge_leaves_out_what_is_outside() {
        let map = TensorMap::decode(&map()).unwrap();
        assert_eq!((map.rank, map.sizes[..2].to_vec()), (2, vec![6, 5]));
        assert_eq!(map.tile_bytes(), 32);
        let places: Vec<Option<u64>> = map.tile([4, 4, 0, 0, 0]).map(|it| it.address).collect();
        let inside = 0x1000 + 4 * 32 + 4 * 4;
        let outside = [None; 6];
        assert_eq!(places[..2], [Some(inside), Some(inside + 4)]);
        assert_eq!(places[2..], outside);
        let before = map.tile([-1, 0, 0, 0, 0]).map(|it| it.address).next();
        assert_eq!(before, Some(None));
    }

    #[test]
    fn steps_leave_elements_out() {
        let mut bytes = map();
        // Steps of 2 in the second dimension, and a box of 3 rows: two rows are visited.
        bytes[52] = 1 << 3;
        bytes[56] = 2;
        let map = TensorMap::decode(&bytes).unwrap();
        assert_eq!(map.tile_bytes(), 32);
        let fifth = map.tile([0; 5]).nth(4).unwrap();
        assert_eq!(fifth.address, Some(0x1000 + 2 * 32));
        assert_eq!(fifth.offset, 16);
    }

    #[test]
    fn a_swizzle_is_its_own_opposite_and_stays_within_its_span() {
        for (swizzle, span) in [(Swizzle::B32, 32), (Swizzle::B64, 64), (Swizzle::B128, 128)] {
            for address in (0..4096).step_by(16) {
                let place = swizzle.place(address);
                assert_eq!(swizzle.place(place), address);
                assert_eq!(place / span, address / span);
            }
        }
        assert_eq!(Swizzle::B128.place(7 << 7), 7 << 7 | 7 << 4);
        assert_eq!(Swizzle::B32.place(3 << 7), 3 << 7 | 1 << 4);
    }

    #[test]
    fn replaced_fields_are_found_again() {
        let mut bytes = map();
        let fields = [
            (Field::Address, 0, 0x1234_5678_9ab0),
            (Field::Rank, 0, 4),
            (Field::Element, 0, 10),
            (Field::Swizzle, 0, 3),
            (Field::Fill, 0, 1),
            (Field::Stride, 3, 0xf_1234_5670),
            (Field::Size, 4, 77),
            (Field::Step, 4, 8),
            (Field::BoxSize, 0, 256),
            (Field::BoxSize, 4, 9),
        ];
        for (field, dimension, value) in fields {
            replace(&mut bytes, field, dimension, value);
        }
        let map = TensorMap::decode(&bytes).unwrap();
        assert_eq!((map.address, map.rank), (0x1234_5678_9ab0, 5));
        assert_eq!((map.element, map.swizzle), (Element::Bf16, Swizzle::B128));
        assert_eq!(
            (map.filling(), map.strides[4]),
            (Some(0x7fff), 0xf_1234_5670)
        );
        assert_eq!((map.sizes[4], map.steps[4]), (77, 8));
        assert_eq!((map.box_sizes[0], map.box_sizes[4]), (256, 9));
        assert_eq!((map.sizes[1], map.box_sizes[1]), (5, 2), "others stay");
    }

    #[test]
    fn six_dimensions_are_refused() {
        let mut bytes = map();
        bytes[8] |= 0x70;
        assert!(TensorMap::decode(&bytes).is_err());
    }
}
