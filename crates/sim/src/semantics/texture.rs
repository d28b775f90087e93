//! Textures: what the operands of a look say; what it yields is `eval`'s.

use super::Table;
use crate::access::Space;
use crate::core::Core;
use crate::fault::{Cause, FaultKind};
use crate::operand::{Lack, Lanes, Reader, Source, Target};
use crate::program::Action;
use orias_eval::texture::{Detail, Geometry, Image, Lookup, Sampler};
use orias_sass::slot_names as slot;
use orias_sass::{Op, modifier_names as name, modifier_values as value};

pub(super) const TABLE: Table = &[
    (Op::TEX, sample),
    (Op::TXD, sample_by_gradients),
    (Op::TLD, fetch),
    (Op::TLD4, gather),
    (Op::TXQ, query),
];

/// A look that cannot be, of a lane.
pub(super) fn refuse(lane: usize, why: String) -> Cause {
    Cause::of(lane, FaultKind::Image(why))
}

/// Where the channels of a texel go: the wanted ones one behind the other, two to each place.
struct Channels {
    places: [Target; 2],
    /// Those that are wanted.
    wanted: Vec<usize>,
}

impl Channels {
    fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        let mask = reader.modifier(name::MASK)?;
        let bits = mask.to_string();
        let bits = bits
            .strip_prefix("0x")
            .and_then(|digit| u8::from_str_radix(digit, 16).ok());
        let bits = bits.ok_or_else(|| format!("mask {mask}"))?;
        Ok(Self {
            places: [reader.target(slot::D)?, reader.target(slot::E)?],
            wanted: (0..4).filter(|at| bits >> at & 1 == 1).collect(),
        })
    }

    fn put(&self, core: &mut Core<'_>, texels: &[[u32; 4]; 32]) {
        for (at, &channel) in self.wanted.iter().enumerate() {
            let words: Lanes = std::array::from_fn(|lane| texels[lane][channel]);
            core.put(&self.places[at / 2], (at % 2) as u8, &words);
        }
    }
}

/// The uniform registers with the numbers of a texture and a sampler.
#[derive(Clone, Copy)]
struct Header(Source);

impl Header {
    fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        if reader.immediate(slot::I)? != 0 {
            return Err("a number that is added to a handle".to_owned());
        }
        reader.source(slot::H).map(Self)
    }

    fn numbers(self, core: &mut Core<'_>) -> [u32; 2] {
        [core.word(&self.0, 0)[0], core.word(&self.0, 1)[0]]
    }
}

fn geometry(reader: &Reader<'_>) -> Result<Geometry, Lack> {
    let samples = reader.is(name::MS, value::MS);
    Ok(match reader.modifier(name::DIM)? {
        value::_1D => Geometry::D1,
        value::_2D if samples => Geometry::D2Ms,
        value::_2D => Geometry::D2,
        value::_3D => Geometry::D3,
        value::CUBE => Geometry::Cube,
        value::ARRAY_1D => Geometry::A1,
        value::ARRAY_2D if samples => Geometry::A2Ms,
        value::ARRAY_2D => Geometry::A2,
        value::ARRAY_CUBE => Geometry::ACube,
        other => return Err(format!("{other} textures")),
    })
}

/// How many coordinates there are, an index into an array aside.
fn coordinate_count(geometry: Geometry) -> u8 {
    match geometry.is_cube() {
        true => 3,
        false => geometry.dimensions() as u8,
    }
}

/// Results in another precision, and what else nothing is known about.
fn refuse_unknown(reader: &Reader<'_>) -> Result<(), Lack> {
    match reader.modifier(name::F16)? {
        value::F32 => Ok(()),
        other => Err(format!("results as {other}")),
    }
}

/// Words of a source, in each lane.
fn words(core: &mut Core<'_>, source: &Source, first: u8, count: u8) -> [Lanes; 3] {
    std::array::from_fn(|at| match (at as u8) < count {
        true => core.word(source, first + at as u8),
        false => [0; 32],
    })
}

/// Offsets in one word: one for each dimension, `width` bits apart, of which so many are a number with a sign.
fn offsets(word: u32, width: u32, bits: u32) -> [i32; 3] {
    std::array::from_fn(|at| {
        let up = 32 - bits;
        (word >> (at as u32 * width) << up).cast_signed() >> up
    })
}

/// The words of a source one after the other, as far as an instruction has them.
struct Further {
    source: Option<Source>,
    next: u8,
}

impl Further {
    fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        Ok(Self {
            source: reader.source_if_any(slot::B)?,
            next: 0,
        })
    }

    /// The place of the next word, if there is one.
    fn word(&mut self, there: bool) -> Option<(Source, u8)> {
        let place = self
            .source
            .filter(|_| there)
            .map(|source| (source, self.next));
        self.next += u8::from(there);
        place
    }
}

/// A word in each lane that an instruction may lack.
fn word(core: &mut Core<'_>, place: Option<(Source, u8)>) -> Lanes {
    place.map_or([0; 32], |(source, at)| core.word(&source, at))
}

/// What every look at texels names: a texture and its sampler, and where the texel goes.
struct Look {
    header: Header,
    channels: Channels,
    /// Whether a texel was not there, which is never so here.
    absent: Target,
    geometry: Geometry,
}

impl Look {
    fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        refuse_unknown(reader)?;
        Ok(Self {
            header: Header::of(reader)?,
            channels: Channels::of(reader)?,
            absent: reader.target(slot::P)?,
            geometry: geometry(reader)?,
        })
    }

    /// Makes the results of all lanes from the texture, its sampler and what reads its texels.
    fn run<F>(&self, core: &mut Core<'_>, compares: bool, of_lane: F) -> Result<(), Cause>
    where
        F: Fn(
            usize,
            &Image,
            &Sampler,
            &mut dyn FnMut(u64, u32) -> Result<u128, Cause>,
        ) -> Result<[u32; 4], Cause>,
    {
        let [texture, sampler] = self.header.numbers(core);
        let objects = core.context.objects;
        let mut texels = [[0; 4]; 32];
        for lane in core.lanes() {
            let found = objects.texture(texture, sampler, compares);
            let (image, sampler, address) = found.map_err(|why| refuse(lane, why))?;
            image
                .check(self.geometry)
                .map_err(|why| refuse(lane, why))?;
            let mut read =
                |offset: u64, bytes: u32| core.load(Space::Global, lane, address + offset, bytes);
            texels[lane] = of_lane(lane, image, sampler, &mut read)?;
        }
        self.channels.put(core, &texels);
        core.put_condition(&self.absent, 0);
        Ok(())
    }
}

fn sample(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (look, a) = (Look::of(reader)?, reader.source(slot::A)?);
    let geometry = look.geometry;
    let mut further = Further::of(reader)?;
    let level = match reader.modifier(name::LOD)? {
        value::LL => further.word(true),
        value::LZ => None,
        other => return Err(format!("level of detail {other}")),
    };
    let shift = further.word(reader.is(name::AOFFI, value::AOFFI));
    let compares = reader.is(name::DC, value::DC);
    let reference = further.word(compares);
    let (array, count) = (u8::from(geometry.is_array()), coordinate_count(geometry));
    Ok(Box::new(move |core| {
        let layer = words(core, &a, 0, array)[0];
        let coordinates = words(core, &a, array, count);
        let [level, shift, reference] = [level, shift, reference].map(|place| word(core, place));
        look.run(core, compares, |lane, image, sampler, read| {
            let lookup = Lookup {
                coordinates: coordinates.map(|words| f32::from_bits(words[lane])),
                layer: layer[lane],
                detail: Detail::Level(f32::from_bits(level[lane])),
                offsets: offsets(shift[lane], 4, 4),
                reference: compares.then(|| f32::from_bits(reference[lane])),
            };
            image.sample(sampler, &lookup, read)
        })
    }))
}

fn sample_by_gradients(reader: &Reader<'_>) -> Result<Action, Lack> {
    let look = Look::of(reader)?;
    if reader.is(name::LC, value::LC) {
        return Err("a least level of detail".to_owned());
    }
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let geometry = look.geometry;
    let shifted = reader.is(name::AOFFI, value::AOFFI);
    let count = geometry.dimensions() as u8;
    Ok(Box::new(move |core| {
        let coordinates = words(core, &a, 0, count);
        // The array's index, with offsets in its upper half.
        let last = match geometry.is_array() || shifted {
            true => core.word(&a, count),
            false => [0; 32],
        };
        let mut changes = [[[0; 32]; 3]; 2];
        for axis in 0..count {
            for (direction, change) in changes.iter_mut().enumerate() {
                change[usize::from(axis)] = core.word(&b, 2 * axis + direction as u8);
            }
        }
        look.run(core, false, |lane, image, sampler, read| {
            let [dx, dy] = changes.map(|change| change.map(|words| f32::from_bits(words[lane])));
            let lookup = Lookup {
                coordinates: coordinates.map(|words| f32::from_bits(words[lane])),
                layer: last[lane] & 0xffff,
                detail: Detail::Gradients(dx, dy),
                offsets: match shifted {
                    true => offsets(last[lane] >> 16, 4, 4),
                    false => [0; 3],
                },
                reference: None,
            };
            image.sample(sampler, &lookup, read)
        })
    }))
}

fn fetch(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (look, a) = (Look::of(reader)?, reader.source(slot::A)?);
    let geometry = look.geometry;
    let mut further = Further::of(reader)?;
    let level = further.word(reader.is(name::LOD, value::LL));
    let shift = further.word(reader.is(name::AOFFI, value::AOFFI));
    let sample = further.word(reader.is(name::MS, value::MS));
    let (array, count) = (u8::from(geometry.is_array()), coordinate_count(geometry));
    Ok(Box::new(move |core| {
        let layer = words(core, &a, 0, array)[0];
        let coordinates = words(core, &a, array, count);
        let [level, shift, sample] = [level, shift, sample].map(|place| word(core, place));
        look.run(core, false, |lane, image, _, read| {
            let shift = offsets(shift[lane], 4, 4);
            let place = std::array::from_fn(|axis| {
                let coordinate = coordinates[axis][lane].cast_signed();
                coordinate.saturating_add(shift[axis])
            });
            let level = level[lane].cast_signed();
            image.fetch(place, layer[lane], level, sample[lane], read)
        })
    }))
}

fn gather(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (look, a) = (Look::of(reader)?, reader.source(slot::A)?);
    let geometry = look.geometry;
    let component = match reader.modifier(name::COMP)? {
        value::R => 0,
        value::G => 1,
        value::B => 2,
        _ => 3,
    };
    let mut further = Further::of(reader)?;
    let shift = match reader.modifier(name::OFFSET)? {
        value::AOFFI => further.word(true),
        value::NO => None,
        other => return Err(format!("offsets as {other}")),
    };
    let compares = reader.is(name::DC, value::DC);
    let reference = further.word(compares);
    let (array, count) = (u8::from(geometry.is_array()), coordinate_count(geometry));
    Ok(Box::new(move |core| {
        let layer = words(core, &a, 0, array)[0];
        let coordinates = words(core, &a, array, count);
        let [shift, reference] = [shift, reference].map(|place| word(core, place));
        look.run(core, compares, |lane, image, sampler, read| {
            let lookup = Lookup {
                coordinates: coordinates.map(|words| f32::from_bits(words[lane])),
                layer: layer[lane],
                detail: Detail::Level(0.0),
                offsets: offsets(shift[lane], 8, 6),
                reference: compares.then(|| f32::from_bits(reference[lane])),
            };
            image.gather(sampler, &lookup, component, read)
        })
    }))
}

fn query(reader: &Reader<'_>) -> Result<Action, Lack> {
    match reader.modifier(name::WHAT)? {
        value::TEX_HEADER_DIMENSION => {}
        other => return Err(format!("the query {other}")),
    }
    let (header, channels) = (Header::of(reader)?, Channels::of(reader)?);
    let level = reader.source(slot::A)?;
    Ok(Box::new(move |core| {
        let [number, _] = header.numbers(core);
        let level = core.word(&level, 0);
        let objects = core.context.objects;
        let mut sizes = [[0; 4]; 32];
        for lane in core.lanes() {
            let image = objects.image(number).map_err(|why| refuse(lane, why))?;
            sizes[lane][..3].copy_from_slice(&image.queried(level[lane]));
        }
        channels.put(core, &sizes);
        Ok(())
    }))
}
