//! Surfaces: loads, stores and updates by whole coordinates.

use super::Table;
use super::atomic::Function;
use super::memory::{load_words, size_of, stored};
use super::texture::refuse;
use crate::access::Space;
use crate::core::Core;
use crate::fault::Cause;
use crate::operand::{Lack, Lanes, Reader, Source};
use crate::program::Action;
use orias_eval::texture::{Access, Channel, Geometry, Image, Outside, Unit};
use orias_sass::slot_names as slot;
use orias_sass::{Op, modifier_names as name, modifier_values as value};

pub(super) const TABLE: Table = &[
    (Op::SULD, load),
    (Op::SUST, store),
    (Op::SUST_P, store_texel),
    (Op::SURED, update),
];

/// Where an instruction accesses a surface.
#[derive(Clone, Copy)]
struct Place {
    header: Source,
    base: u8,
    geometry: Geometry,
    outside: Outside,
    unit: Unit,
}

impl Place {
    fn of(reader: &Reader<'_>, unit: Unit) -> Result<Self, Lack> {
        if reader.immediate(slot::I)? != 0 {
            return Err("a number that is added to a handle".to_owned());
        }
        let address = reader.address(slot::ADDR)?;
        let base = address.base.ok_or("coordinates that are in no register")?;
        Ok(Self {
            header: reader.source(slot::H)?,
            base: base.index,
            geometry: match reader.modifier(name::DIM)? {
                value::_1D => Geometry::D1,
                value::_2D => Geometry::D2,
                value::_3D => Geometry::D3,
                value::_1D_ARRAY => Geometry::A1,
                value::_2D_ARRAY => Geometry::A2,
                other => return Err(format!("{other} surfaces")),
            },
            outside: match reader.modifier(name::BORDER)? {
                value::TRAP => Outside::Trap,
                value::CLAMP => Outside::Clamp,
                value::IGN => Outside::Zero,
                other => return Err(format!("accesses outside as {other}")),
            },
            unit,
        })
    }

    /// The unit of the first coordinate, where a modifier says it.
    fn unit(reader: &Reader<'_>) -> Unit {
        match reader.is(name::BA, value::BA) {
            true => Unit::Bytes,
            false => Unit::Texels,
        }
    }

    /// The coordinates of all lanes, an index into an array last.
    fn coordinates(self, core: &mut Core<'_>) -> [Lanes; 4] {
        let dimensions = self.geometry.dimensions();
        let mut all = [[0; 32]; 4];
        for (at, words) in all.iter_mut().enumerate().take(dimensions) {
            *words = core.r(self.base + at as u8);
        }
        if self.geometry.is_array() {
            all[3] = core.r(self.base + dimensions as u8);
        }
        all
    }

    /// The surface, and the address of `bytes` there that a lane accesses; none where it accesses nothing.
    fn find<'c>(
        self,
        core: &mut Core<'c>,
        lane: usize,
        [x, y, z, layer]: &[Lanes; 4],
        bytes: u32,
    ) -> Result<(&'c Image, Option<u64>), Cause> {
        let number = core.word(&self.header, 0)[0];
        let found = core.context.objects.surface(number);
        let (image, address) = found.map_err(|why| refuse(lane, why))?;
        let access = Access {
            geometry: self.geometry,
            unit: self.unit,
            coordinates: [x, y, z].map(|words| words[lane].cast_signed()),
            layer: layer[lane],
            bytes,
            outside: self.outside,
        };
        let place = image.place(&access).map_err(|why| refuse(lane, why))?;
        Ok((image, place.map(|offset| address + offset)))
    }
}

fn load(reader: &Reader<'_>) -> Result<Action, Lack> {
    let place = Place::of(reader, Place::unit(reader))?;
    let (d, absent) = (reader.target(slot::D)?, reader.target(slot::P)?);
    let (size, signed) = size_of(reader)?;
    if signed {
        return Err("loads that fill up with a sign".to_owned());
    }
    Ok(Box::new(move |core| {
        let coordinates = place.coordinates(core);
        load_words(core, &d, size.div_ceil(4), |core, lane| {
            match place.find(core, lane, &coordinates, size)? {
                (_, Some(address)) => core.load(Space::Global, lane, address, size),
                (_, None) => Ok(0),
            }
        })?;
        core.put_condition(&absent, 0);
        Ok(())
    }))
}

fn store(reader: &Reader<'_>) -> Result<Action, Lack> {
    let place = Place::of(reader, Place::unit(reader))?;
    let b = reader.source(slot::B)?;
    let (size, _) = size_of(reader)?;
    Ok(Box::new(move |core| {
        let (coordinates, values) = (place.coordinates(core), stored(core, &b, size));
        for lane in core.lanes() {
            if let (_, Some(address)) = place.find(core, lane, &coordinates, size)? {
                core.store(Space::Global, lane, address, size, values[lane])?;
            }
        }
        Ok(())
    }))
}

/// Stores channels as the format of the surface has them.
fn store_texel(reader: &Reader<'_>) -> Result<Action, Lack> {
    let place = Place::of(reader, Unit::Texels)?;
    let b = reader.source(slot::B)?;
    let count = match reader.modifier(name::COMPS)? {
        value::R => 1,
        value::RG => 2,
        value::RGBA => 4,
        other => return Err(format!("components {other}")),
    };
    Ok(Box::new(move |core| {
        let (coordinates, values) = (place.coordinates(core), stored(core, &b, 4 * count));
        for lane in core.lanes() {
            if let (image, Some(address)) = place.find(core, lane, &coordinates, 4 * count)? {
                let words: Vec<u32> = (0..count)
                    .map(|at| (values[lane] >> (32 * at)) as u32)
                    .collect();
                let (format, texel) = (image.format(), image.format().encode(&words));
                core.store(Space::Global, lane, address, format.bytes(), texel)?;
            }
        }
        Ok(())
    }))
}

fn update(reader: &Reader<'_>) -> Result<Action, Lack> {
    let place = Place::of(reader, Place::unit(reader))?;
    let (b, function) = (reader.source(slot::B)?, Function::of(reader)?);
    // Whether there is a sign; the format may have to say.
    let (size, signed) = match reader.modifier(name::TYPE)? {
        value::U32 => (4, Some(false)),
        value::S32 => (4, Some(true)),
        value::SD32 => (4, None),
        value::U64 => (8, Some(false)),
        value::S64 => (8, Some(true)),
        value::SD64 => (8, None),
        other => return Err(format!("updates of {other}")),
    };
    Ok(Box::new(move |core| {
        let (coordinates, values) = (place.coordinates(core), stored(core, &b, size));
        for lane in core.lanes_in_turn() {
            if let (image, Some(address)) = place.find(core, lane, &coordinates, size)? {
                let of_format = matches!(image.format().channel(), Channel::Signed(_));
                let signed = signed.unwrap_or(of_format);
                let operand = values[lane] as u64;
                core.update(Space::Global, lane, address, size, |old| {
                    function.apply(old, operand, size, signed)
                })?;
            }
        }
        Ok(())
    }))
}
