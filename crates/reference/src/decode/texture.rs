//! Textures and surfaces.

use super::{Decoder, Statics};
use crate::error::LoadError;
use crate::step::{Action, ImageStep, Look, Source, SurfaceAction, SurfaceStep};
use orias_eval::combine::Combination;
use orias_eval::texture::{Geometry, Outside, Property, Unit, What};
use orias_ptx::ast::{Operand, OperandKind, TargetOption};
use orias_ptx::grammar::OperandName;
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::types::Type;

impl<'m> Decoder<'m, '_> {
    pub(super) fn images(&self, it: &Statics<'m>) -> Result<Option<Action>, LoadError> {
        let step = match it.op {
            Op::Tex | Op::TexBase | Op::TexLevel | Op::TexGrad | Op::Tld4 => {
                ImageStep::Look(Box::new(self.look(it)?))
            }
            Op::Txq | Op::TxqLevel | Op::Suq => self.image_query(it)?,
            Op::Istypep => self.kind_query(it)?,
            Op::SuldB | Op::SustB | Op::SustP | Op::SuredB | Op::SuredP => {
                ImageStep::Surface(Box::new(self.surface(it)?))
            }
            _ => return Ok(None),
        };
        Ok(Some(Action::Image(step)))
    }

    fn geometry(&self, it: &Statics<'m>) -> Result<Geometry, LoadError> {
        const ALL: [(Modifier, Geometry); 9] = [
            (Modifier::M1d, Geometry::D1),
            (Modifier::M2d, Geometry::D2),
            (Modifier::M3d, Geometry::D3),
            (Modifier::A1d, Geometry::A1),
            (Modifier::A2d, Geometry::A2),
            (Modifier::Cube, Geometry::Cube),
            (Modifier::Acube, Geometry::ACube),
            (Modifier::M2dms, Geometry::D2Ms),
            (Modifier::A2dms, Geometry::A2Ms),
        ];
        let found = ALL.into_iter().find(|&(modifier, _)| it.has(modifier));
        found
            .map(|(_, geometry)| geometry)
            .ok_or_else(|| self.unsupported(it.instruction))
    }

    /// The operands in the brackets of operand `index`.
    fn bracket(&self, it: &Statics<'m>, index: usize) -> Result<&'m [Operand], LoadError> {
        match it.operands.get(index) {
            Some(operand) => Ok(match operand.kind {
                OperandKind::Bracket(parts) => self.body.parts(parts),
                _ => std::slice::from_ref(operand),
            }),
            None => Err(self.unsupported(it.instruction)),
        }
    }

    /// A handle: in a register, or that of a name.
    fn handle(&self, it: &Statics<'m>, operand: &'m Operand) -> Result<Source, LoadError> {
        match operand.kind {
            OperandKind::AtRegister(id, 0) => Ok(Source::Register {
                slot: self.registers.slot(id),
                mask: u64::MAX,
            }),
            OperandKind::AtVariable(id, 0) => self.variable_address(it, id, 0),
            _ => self.source(it, operand, Type::U64),
        }
    }

    fn words(&self, it: &Statics<'m>, name: OperandName) -> Result<Vec<Source>, LoadError> {
        match it.named(name) {
            Some((_, operand)) => self.sources(it, operand, Type::B32),
            None => Ok(Vec::new()),
        }
    }

    fn look(&self, it: &Statics<'m>) -> Result<Look, LoadError> {
        let geometry = self.geometry(it)?;
        let types: Vec<Type> = it.form.types().collect();
        let [texel, coordinate] = types[..] else {
            return Err(self.unsupported(it.instruction));
        };
        let independent = (self.module.target_options).contains(&TargetOption::TexmodeIndependent);
        let (texture, sampler, coordinates) = match (self.bracket(it, 1)?, independent) {
            ([texture, coordinates], false) => (texture, None, coordinates),
            ([texture, sampler, coordinates], true) => (texture, Some(sampler), coordinates),
            _ => return Err(self.unsupported(it.instruction)),
        };
        let mut given = self.sources(it, coordinates, Type::B32)?.into_iter();
        let sample = match geometry.has_samples() {
            true => given.next(),
            false => None,
        };
        let layer = match geometry.is_array() {
            true => given.next(),
            false => None,
        };
        let whole = coordinate == Type::S32;
        // With a sampler of its own, an access by integers is one by numbers.
        let converts = whole
            && sampler.is_some()
            && matches!(it.op, Op::Tex | Op::TexBase)
            && matches!(
                geometry,
                Geometry::D2 | Geometry::D3 | Geometry::A1 | Geometry::A2
            );
        let (texels, resident) = match self.pair(&it.operands[0]) {
            Some([texels, resident]) => {
                let resident = self.destination(it, resident, Type::Pred)?;
                (texels, resident)
            }
            None => (&it.operands[0], None),
        };
        let names = [Modifier::R, Modifier::G, Modifier::B, Modifier::A];
        Ok(Look {
            geometry,
            whole,
            converts,
            component: match it.op {
                Op::Tld4 => names.iter().position(|&name| it.has(name)),
                _ => None,
            },
            texture: self.handle(it, texture)?,
            sampler: match sampler {
                Some(sampler) => Some(self.handle(it, sampler)?),
                None => None,
            },
            sample,
            layer,
            coordinates: given.collect(),
            level: self.words(it, operand::LOD)?.first().copied(),
            gradients: match it.op {
                Op::TexGrad => Some([
                    self.words(it, operand::DPDX)?,
                    self.words(it, operand::DPDY)?,
                ]),
                _ => None,
            },
            offsets: self.words(it, operand::E)?,
            reference: self.words(it, operand::F)?.first().copied(),
            texel,
            results: self.destinations(it, texels, texel)?,
            resident,
        })
    }

    fn image_query(&self, it: &Statics<'m>) -> Result<ImageStep, LoadError> {
        const PROPERTIES: [(Modifier, Property); 12] = [
            (Modifier::ChannelDataType, Property::ChannelDataType),
            (Modifier::ChannelOrder, Property::ChannelOrder),
            (Modifier::MemoryLayout, Property::MemoryLayout),
            (Modifier::ArraySize, Property::ArraySize),
            (Modifier::NormalizedCoords, Property::NormalisedCoordinates),
            (Modifier::NumMipmapLevels, Property::Levels),
            (Modifier::NumSamples, Property::Samples),
            (Modifier::AddrMode0, Property::Addressing(0)),
            (Modifier::AddrMode1, Property::Addressing(1)),
            (Modifier::AddrMode2, Property::Addressing(2)),
            (Modifier::FilterMode, Property::Filter),
            (
                Modifier::ForceUnnormalizedCoords,
                Property::ForceUnnormalised,
            ),
        ];
        let [image] = self.bracket(it, 1)? else {
            return Err(self.unsupported(it.instruction));
        };
        let image = self.handle(it, image)?;
        let result = self.result(it, operand::D)?;
        let sizes = [Modifier::Width, Modifier::Height, Modifier::Depth];
        if let Some(dimension) = sizes.iter().position(|&size| it.has(size)) {
            return Ok(ImageStep::Size {
                image,
                dimension,
                level: self.words(it, operand::LOD)?.first().copied(),
                result,
            });
        }
        let found = PROPERTIES.into_iter().find(|&(name, _)| it.has(name));
        let (_, property) = found.ok_or_else(|| self.unsupported(it.instruction))?;
        Ok(ImageStep::Property {
            image,
            property,
            result,
        })
    }

    fn kind_query(&self, it: &Statics<'m>) -> Result<ImageStep, LoadError> {
        Ok(ImageStep::IsKind {
            handle: self.value(it, operand::A)?,
            tag: match it.form.types().next() {
                Some(Type::Texref) => What::TEXTURE_TAG,
                Some(Type::Samplerref) => What::SAMPLER_TAG,
                Some(Type::Surfref) => What::SURFACE_TAG,
                _ => return Err(self.unsupported(it.instruction)),
            },
            result: self.result(it, operand::P)?,
        })
    }

    fn surface(&self, it: &Statics<'m>) -> Result<SurfaceStep, LoadError> {
        let geometry = self.geometry(it)?;
        let ty = it.form.types().last();
        let ty = ty.ok_or_else(|| self.unsupported(it.instruction))?;
        let loads = it.op == Op::SuldB;
        let [surface, coordinates] = self.bracket(it, usize::from(loads))? else {
            return Err(self.unsupported(it.instruction));
        };
        let mut given = self.sources(it, coordinates, Type::B32)?.into_iter();
        let layer = match geometry.is_array() {
            true => given.next(),
            false => None,
        };
        let texels = matches!(it.op, Op::SustP | Op::SuredP);
        let action = match it.op {
            Op::SuldB => SurfaceAction::Load(self.destinations(it, &it.operands[0], ty)?),
            Op::SustB | Op::SustP => SurfaceAction::Store(self.sources(it, &it.operands[1], ty)?),
            _ => SurfaceAction::Update {
                how: self.update_of(it)?,
                signed: match ty {
                    Type::S32 | Type::S64 => Some(true),
                    // The format says it.
                    Type::B32 | Type::B64 if texels => None,
                    _ => Some(false),
                },
                operand: self.source(it, &it.operands[1], ty)?,
            },
        };
        Ok(SurfaceStep {
            geometry,
            unit: if texels { Unit::Texels } else { Unit::Bytes },
            outside: match () {
                () if it.has(Modifier::Clamp) => Outside::Clamp,
                () if it.has(Modifier::Zero) => Outside::Zero,
                () => Outside::Trap,
            },
            surface: self.handle(it, surface)?,
            coordinates: given.collect(),
            layer,
            bits: ty.bits(),
            action,
        })
    }

    fn update_of(&self, it: &Statics<'m>) -> Result<Combination, LoadError> {
        const ALL: [(Modifier, Combination); 5] = [
            (Modifier::Add, Combination::Add),
            (Modifier::Min, Combination::Min),
            (Modifier::Max, Combination::Max),
            (Modifier::And, Combination::And),
            (Modifier::Or, Combination::Or),
        ];
        let found = ALL.into_iter().find(|&(modifier, _)| it.has(modifier));
        let (_, how) = found.ok_or_else(|| self.unsupported(it.instruction))?;
        Ok(how)
    }
}
