//! Textures and surfaces as a thread uses them; what an access yields is `eval`'s.

use super::{Thread, World};
use crate::error::FaultKind;
use crate::library::little_endian;
use crate::step::{ImageStep, Look, Source, SurfaceAction, SurfaceStep};
use orias_eval::combine::combine;
use orias_eval::float::{Format, Overflow, Rounding, convert};
use orias_eval::tensor::Element;
use orias_eval::texture::{Access, Channel, Detail, Lookup, Unit, on_unit_cube};
use orias_ptx::types::Type;

/// The level that an access without one names: below the first of every image.
const NO_LEVEL: f32 = -32.0;

fn refuse(why: String) -> FaultKind {
    FaultKind::Undefined(why)
}

/// A number of so few bits, with its sign.
fn narrow(word: u32, bits: u32) -> i32 {
    let up = 32 - bits;
    (word << up).cast_signed() >> up
}

/// The bits of a single in half precision.
fn half(bits: u32) -> u64 {
    let (from, to) = (Format::F32, Format::F16);
    convert::to_format(from, bits.into(), to, Rounding::NearestEven, Overflow::Ieee)
}

impl Thread {
    pub(super) fn image(
        &mut self,
        step: &ImageStep,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        match step {
            ImageStep::Look(look) => self.look(look, world),
            ImageStep::Surface(step) => self.surface(step, world),
            ImageStep::Size {
                image,
                dimension,
                level,
                result,
            } => {
                let number = self.read(*image, world)? as u32;
                let level = self.word_or(*level, 0, world)?;
                let image = world.memory.objects.image(number).map_err(refuse)?;
                let size = image.queried(level)[*dimension];
                self.write_element(*result, size.into());
                Ok(())
            }
            ImageStep::Property {
                image,
                property,
                result,
            } => {
                let number = self.read(*image, world)? as u32;
                let objects = &world.memory.objects;
                let word = objects.property(number, *property).map_err(refuse)?;
                self.write_element(*result, word.into());
                Ok(())
            }
            ImageStep::IsKind {
                handle,
                tag,
                result,
            } => {
                let handle = self.read(*handle, world)?;
                let is = (handle >> 32) as u32 & tag != 0;
                self.write_element(*result, is.into());
                Ok(())
            }
        }
    }

    fn word_or(
        &self,
        source: Option<Source>,
        otherwise: u32,
        world: &World<'_>,
    ) -> Result<u32, FaultKind> {
        match source {
            Some(source) => Ok(self.read(source, world)? as u32),
            None => Ok(otherwise),
        }
    }

    /// The first three words of a list.
    fn three(&self, list: &[Source], world: &World<'_>) -> Result<[u32; 3], FaultKind> {
        let mut words = [0; 3];
        for (word, &source) in words.iter_mut().zip(list) {
            *word = self.read(source, world)? as u32;
        }
        Ok(words)
    }

    fn look(&mut self, look: &Look, world: &World<'_>) -> Result<(), FaultKind> {
        let texture = self.read(look.texture, world)? as u32;
        let sampler = self.word_or(look.sampler, 0, world)?;
        let layer = self.word_or(look.layer, 0, world)?;
        let sample = self.word_or(look.sample, 0, world)?;
        let words = self.three(&look.coordinates, world)?;
        let width = if look.component.is_some() { 6 } else { 4 };
        let offsets = self.three(&look.offsets, world)?;
        let offsets = offsets.map(|offset| narrow(offset, width));
        let (compares, objects) = (look.reference.is_some(), &world.memory.objects);
        let found = objects.texture(texture, sampler, compares);
        let (image, sampler, address) = found.map_err(refuse)?;
        image.check(look.geometry).map_err(refuse)?;
        let mut read = |offset: u64, bytes: u32| -> Result<u128, FaultKind> {
            let bytes = world.memory.read(address + offset, bytes as usize)?;
            let (low, high) = bytes.split_at(bytes.len().min(8));
            Ok(u128::from(little_endian(high)) << 64 | u128::from(little_endian(low)))
        };
        let texel = if look.whole && !look.converts {
            let level = self.word_or(look.level, 0, world)?.cast_signed();
            let place = std::array::from_fn(|axis| {
                let coordinate = words[axis].cast_signed();
                coordinate.saturating_add(offsets[axis])
            });
            image.fetch(place, layer, level, sample, &mut read)?
        } else {
            let mut coordinates = match look.converts {
                true => words.map(|word| word.cast_signed() as f32),
                false => words.map(f32::from_bits),
            };
            if look.geometry.is_cube() {
                coordinates = on_unit_cube(coordinates);
            }
            let level = self.word_or(look.level, NO_LEVEL.to_bits(), world)?;
            let lookup = Lookup {
                coordinates,
                layer,
                detail: match &look.gradients {
                    Some([dx, dy]) => Detail::Gradients(
                        self.three(dx, world)?.map(f32::from_bits),
                        self.three(dy, world)?.map(f32::from_bits),
                    ),
                    None => Detail::Level(f32::from_bits(level)),
                },
                offsets,
                reference: match look.reference {
                    Some(reference) => Some(f32::from_bits(self.read(reference, world)? as u32)),
                    None => None,
                },
            };
            match look.component {
                Some(component) => image.gather(sampler, &lookup, component, &mut read)?,
                None => image.sample(sampler, &lookup, &mut read)?,
            }
        };
        let elements: Vec<u64> = match look.texel {
            Type::F16 => texel.into_iter().map(half).collect(),
            Type::F16x2 => texel
                .chunks(2)
                .map(|pair| half(pair[1]) << 16 | half(pair[0]))
                .collect(),
            _ => texel.into_iter().map(u64::from).collect(),
        };
        for (&result, element) in look.results.iter().zip(elements) {
            self.write_element(result, element);
        }
        // Everything is in memory.
        self.write_element(look.resident, 1);
        Ok(())
    }

    fn surface(&mut self, step: &SurfaceStep, world: &mut World<'_>) -> Result<(), FaultKind> {
        let number = self.read(step.surface, world)? as u32;
        let found = world.memory.objects.surface(number).map_err(refuse)?;
        let (image, address) = (*found.0, found.1);
        let count = match &step.action {
            SurfaceAction::Load(results) => results.len(),
            SurfaceAction::Store(values) => values.len(),
            SurfaceAction::Update { .. } => 1,
        };
        let size = step.bits / 8;
        let access = Access {
            geometry: step.geometry,
            unit: step.unit,
            coordinates: self.three(&step.coordinates, world)?.map(u32::cast_signed),
            layer: self.word_or(step.layer, 0, world)?,
            bytes: size * count as u32,
            outside: step.outside,
        };
        let place = image.place(&access).map_err(refuse)?;
        let place = place.map(|offset| address + offset);
        match &step.action {
            SurfaceAction::Load(results) => {
                let length = access.bytes as usize;
                let bytes = match place {
                    Some(place) => world.memory.read(place, length)?.to_vec(),
                    None => vec![0; length],
                };
                for (&result, element) in results.iter().zip(bytes.chunks(size as usize)) {
                    self.write_element(result, little_endian(element));
                }
            }
            SurfaceAction::Store(values) => {
                let mut words = Vec::with_capacity(values.len());
                for &value in values {
                    words.push(self.read(value, world)?);
                }
                let Some(place) = place else { return Ok(()) };
                let bytes: Vec<u8> = match step.unit {
                    Unit::Bytes => words
                        .iter()
                        .flat_map(|word| word.to_le_bytes().into_iter().take(size as usize))
                        .collect(),
                    Unit::Texels => {
                        let words: Vec<u32> = words.iter().map(|&word| word as u32).collect();
                        let texel = image.format().encode(&words).to_le_bytes();
                        texel[..image.format().bytes() as usize].to_vec()
                    }
                };
                world.memory.write(place, &bytes)?;
            }
            SurfaceAction::Update {
                how,
                signed,
                operand,
            } => {
                let operand = self.read(*operand, world)?;
                let Some(place) = place else { return Ok(()) };
                let of_format = matches!(image.format().channel(), Channel::Signed(_));
                let element = match signed.unwrap_or(of_format) {
                    true => Element::Signed(size as u8),
                    false => Element::Unsigned(size as u8),
                };
                let old = little_endian(world.memory.read(place, size as usize)?);
                if let Some(new) = combine(*how, element, old, operand) {
                    let bytes = new.to_le_bytes();
                    world.memory.write(place, &bytes[..size as usize])?;
                }
            }
        }
        Ok(())
    }
}
