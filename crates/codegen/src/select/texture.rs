//! Textures and surfaces.
//!
//! The machine reads the numbers of a texture and of its sampler from a pair of uniform registers, that of a surface from one. Where lanes have
//! different ones they take turns (`expand_for_selection/turns.rs`), so what is brought to uniform registers here is the same in all lanes
//! that run.
//!
//! A mask names the components that somebody reads. The first two of them go to one place, the others to another, so that an access needs no
//! more than a pair of consecutive registers for what it yields.

use super::emission::Mod;
use super::selector::{Selector, rz};
use super::source::Source;
use super::sources;
use crate::pipeline::PhaseError;
use orias_ori::operation::{self, Cache, Geometry, Lod, Outside, Reduce, Scalar, Unit, Vector};
use orias_ori::{AbstractMods, AbstractOp, Class, Operand, Type, Value};
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;
use orias_sass::{Op, ValueName};

type Done = Result<(), PhaseError>;

/// How many components a texel has.
const COMPONENTS: usize = 4;

/// The names of the masks of components.
const MASKS: [ValueName; 1 << COMPONENTS] = [
    value::_0X0,
    value::_0X1,
    value::_0X2,
    value::_0X3,
    value::_0X4,
    value::_0X5,
    value::_0X6,
    value::_0X7,
    value::_0X8,
    value::_0X9,
    value::_0XA,
    value::_0XB,
    value::_0XC,
    value::_0XD,
    value::_0XE,
    value::_0XF,
];

impl Selector<'_> {
    /// The numbers of a texture and of a sampler, in uniform registers. No sampler is number zero.
    fn header(&mut self, texture: usize, sampler: Operand) -> Result<Value, PhaseError> {
        let texture = self.word(texture);
        let sampler = match sampler {
            Operand::None => Source::imm(0),
            sampler => self.word_of(sampler),
        };
        self.uniform_tuple(&[texture, sampler])
    }

    /// Words in consecutive registers; RZ where there are none.
    fn together(&mut self, words: &[Operand]) -> Result<Operand, PhaseError> {
        let words: Vec<Operand> = words
            .iter()
            .copied()
            .filter(|&word| word != Operand::None)
            .collect();
        match words[..] {
            [] => Ok(rz()),
            [one] => {
                let word = self.word_of(one);
                Ok(self.in_register(word)?.into())
            }
            _ => self.collected(&words),
        }
    }

    /// A tuple of words.
    fn collected(&mut self, words: &[Operand]) -> Result<Operand, PhaseError> {
        let mut operands = vec![Operand::None];
        for &word in words {
            let word = self.word_of(word);
            operands.push(self.in_register(word)?.into());
        }
        let length = u8::try_from(words.len()).ok();
        let Some(ty) = length.and_then(|length| Type::tuple(Class::R, length)) else {
            return Err(self.broken("too many registers"));
        };
        let whole = self.temporary(ty);
        operands[0] = whole.into();
        let inst = self
            .func
            .create_abstract(AbstractOp::Collect, AbstractMods::NONE, 1, &operands);
        self.insert(inst);
        Ok(whole.into())
    }

    /// Coordinates: source `index`, in registers whatever they are.
    fn coordinates(&mut self, index: usize) -> Result<Operand, PhaseError> {
        let operand = self.operand(index);
        match operand.as_value() {
            Some(value) if self.func.value_type(value).len() > 1 => Ok(operand),
            _ => {
                let word = self.word_of(operand);
                Ok(self.in_register(word)?.into())
            }
        }
    }

    /// Where the wanted ones of the results from `first` on go: the first two, the others, and the mask that names them. What an access
    /// under a guard keeps is put together as its results are.
    fn components(&mut self) -> Result<Components, PhaseError> {
        let mut mask = 0;
        let mut wanted = Vec::new();
        for index in 0..COMPONENTS {
            if let Some(value) = self.result(index).as_value() {
                mask |= 1 << index;
                wanted.push(value);
            }
        }
        let (low, high) = wanted.split_at(wanted.len().min(2));
        let mut splits = Vec::new();
        let low = self.component_pair(low, &mut splits)?;
        let high = self.component_pair(high, &mut splits)?;
        Ok(Components {
            low,
            high,
            mask: (name::MASK, MASKS[mask]),
            splits,
        })
    }

    /// One or two results as one place.
    fn component_pair(
        &mut self,
        values: &[Value],
        splits: &mut Vec<(Value, Vec<Value>)>,
    ) -> Result<Operand, PhaseError> {
        match *values {
            [] => Ok(rz()),
            [one] => Ok(one.into()),
            _ => {
                let pair = self.temporary(Type::R2);
                self.count(pair);
                splits.push((pair, values.to_vec()));
                if !self.guard.is_always() {
                    let kept: Vec<Operand> = values
                        .iter()
                        .filter_map(|value| {
                            let known = self.kept.iter().find(|(result, _)| result == value);
                            known.map(|&(_, kept)| kept.into())
                        })
                        .collect();
                    if kept.len() == values.len() {
                        let kept = self.collected(&kept)?;
                        if let Some(kept) = kept.as_value() {
                            self.keep(pair, kept);
                        }
                    }
                }
                Ok(pair.into())
            }
        }
    }

    /// Takes the pairs apart that an access has made.
    fn take_components(&mut self, splits: Vec<(Value, Vec<Value>)>) {
        for (pair, parts) in splits {
            let mut operands: Vec<Operand> = parts.iter().map(|&part| part.into()).collect();
            operands.push(pair.into());
            let mods = AbstractMods::NONE;
            let inst = self
                .func
                .create_abstract(AbstractOp::Split, mods, parts.len(), &operands);
            self.insert(inst);
        }
    }
}

/// The places of the components of a texel.
struct Components {
    low: Operand,
    high: Operand,
    mask: Mod,
    /// Pairs, and the results they hold.
    splits: Vec<(Value, Vec<Value>)>,
}

/// How the machine names the geometry of a texture.
fn dimension(geometry: Geometry) -> Mod {
    let name = match geometry {
        Geometry::D1 => value::_1D,
        Geometry::D2 | Geometry::D2Ms => value::_2D,
        Geometry::D3 => value::_3D,
        Geometry::A1 => value::ARRAY_1D,
        Geometry::A2 | Geometry::A2Ms => value::ARRAY_2D,
        Geometry::Cube => value::CUBE,
        Geometry::ACube => value::ARRAY_CUBE,
    };
    (name::DIM, name)
}

/// A modifier that is there if something is.
fn flag(name: orias_sass::ModifierName, set: ValueName, there: bool) -> Mod {
    (name, if there { set } else { value::NO })
}

pub(super) fn sample(s: &mut Selector<'_>) -> Done {
    let geometry: Geometry = s.modifier()?;
    let lod: Lod = s.modifier()?;
    let from: Scalar = s.modifier::<operation::SourceType>()?.into();
    let [level, gradients, offsets, last] = [3, 4, 5, 6].map(|index| s.operand(index));
    let aoffi = flag(name::AOFFI, value::AOFFI, offsets != Operand::None);
    let header = s.header(0, s.operand(1))?;
    let coordinates = s.coordinates(2)?;
    let samples = matches!(geometry, Geometry::D2Ms | Geometry::A2Ms);
    let integral = from == Scalar::S32;
    let (op, mut mods, others) = match lod {
        Lod::Grad => (Op::TXD, Vec::new(), gradients),
        Lod::Base | Lod::Level if integral => {
            let at_level = lod == Lod::Level;
            let level_name = if at_level { value::LL } else { value::LZ };
            let mods = vec![
                (name::LOD, level_name),
                flag(name::CL, value::CL, at_level),
                flag(name::MS, value::MS, samples),
            ];
            (Op::TLD, mods, s.together(&[level, offsets, last])?)
        }
        Lod::Level => {
            let mods = vec![
                (name::LOD, value::LL),
                flag(name::DC, value::DC, last != Operand::None),
            ];
            (Op::TEX, mods, s.together(&[level, offsets, last])?)
        }
        Lod::Auto | Lod::Base => return Err(s.unsupported()),
    };
    let Components {
        low,
        high,
        mask,
        splits,
    } = s.components()?;
    mods.extend([aoffi, dimension(geometry), mask]);
    let resident = s.predicate_result(COMPONENTS);
    let base = Operand::imm(0);
    let operands = sources![resident, high, low, coordinates, others, header, base];
    s.emit_guarded(op, &mods, operands)?;
    s.take_components(splits);
    Ok(())
}

pub(super) fn gather(s: &mut Selector<'_>) -> Done {
    let geometry: Geometry = s.modifier()?;
    let [offsets, depth] = [4, 5].map(|index| s.operand(index));
    let component = match s.operand(3) {
        Operand::Imm(number) => match number.bits() {
            0 => value::R,
            1 => value::G,
            2 => value::B,
            _ => value::A,
        },
        _ => return Err(s.unsupported()),
    };
    let header = s.header(0, s.operand(1))?;
    let coordinates = s.coordinates(2)?;
    let others = s.together(&[offsets, depth])?;
    let Components {
        low,
        high,
        mask,
        splits,
    } = s.components()?;
    let mods = [
        (name::COMP, component),
        flag(name::OFFSET, value::AOFFI, offsets != Operand::None),
        flag(name::DC, value::DC, depth != Operand::None),
        dimension(geometry),
        mask,
    ];
    let resident = s.predicate_result(COMPONENTS);
    let base = Operand::imm(0);
    let operands = sources![resident, high, low, coordinates, others, header, base];
    s.emit_guarded(Op::TLD4, &mods, operands)?;
    s.take_components(splits);
    Ok(())
}

pub(super) fn query(s: &mut Selector<'_>) -> Done {
    let mask = match s.operand(1) {
        Operand::Imm(number) if number.bits() < 3 => MASKS[1 << number.bits()],
        _ => return Err(s.unsupported()),
    };
    let header = s.header(0, Operand::None)?;
    let level = s.word(2);
    let level = s.in_register(level)?;
    let mods = [
        (name::WHAT, value::TEX_HEADER_DIMENSION),
        (name::MASK, mask),
    ];
    let base = Operand::imm(0);
    let operands = sources![rz(), s.result(0), level, header, base];
    s.emit_guarded(Op::TXQ, &mods, operands)?;
    Ok(())
}

/// How the machine names the geometry of a surface and what an access outside does.
fn surface_mods(s: &Selector<'_>) -> Result<[Mod; 2], PhaseError> {
    let dimension = match s.modifier::<Geometry>()? {
        Geometry::D1 => value::_1D,
        Geometry::D2 => value::_2D,
        Geometry::D3 => value::_3D,
        Geometry::A1 => value::_1D_ARRAY,
        Geometry::A2 => value::_2D_ARRAY,
        _ => return Err(s.unsupported()),
    };
    let border = match s.modifier::<Outside>()? {
        Outside::Trap => value::TRAP,
        Outside::Clamp => value::CLAMP,
        Outside::Zero => value::IGN,
    };
    Ok([(name::DIM, dimension), (name::BORDER, border)])
}

/// The order and cache policy of an access with a cache operator.
fn caching(s: &Selector<'_>) -> Result<[Mod; 2], PhaseError> {
    let (order, cache) = match s.modifier::<Cache>()? {
        Cache::Cg | Cache::Cv | Cache::Wt => (value::STRONG_SYS, value::NORMAL),
        Cache::Cs => (value::STRONG_SM, value::EF),
        _ => (value::STRONG_SM, value::NORMAL),
    };
    Ok([(name::ORDER, order), (name::CACHE, cache)])
}

/// The number of a surface, and the place in it.
fn surface_place(s: &mut Selector<'_>) -> Result<(Value, Operand), PhaseError> {
    let surface = s.word(0);
    let header = s.uniform_word(surface)?;
    let coordinates = s.coordinates(1)?;
    let Some(coordinates) = coordinates.as_value() else {
        return Err(s.broken("coordinates are not in registers"));
    };
    let place = s
        .func
        .create_address(orias_ori::Address::base(coordinates, 0));
    Ok((header, place))
}

/// How many bytes an access moves.
fn size(s: &Selector<'_>) -> Result<ValueName, PhaseError> {
    let count = match s.modifier::<Vector>()? {
        Vector::V1 => 1,
        Vector::V2 => 2,
        Vector::V4 => 4,
        Vector::V8 => return Err(s.unsupported()),
    };
    Ok(match s.modifier::<Scalar>()?.bits() * count {
        8 => value::U8,
        16 => value::U16,
        32 => value::_32,
        64 => value::_64,
        128 => value::_128,
        _ => return Err(s.unsupported()),
    })
}

pub(super) fn load(s: &mut Selector<'_>) -> Done {
    let mut mods = vec![(name::BA, value::BA), (name::SIZE, size(s)?)];
    mods.extend(surface_mods(s)?);
    mods.extend(caching(s)?);
    let (header, place) = surface_place(s)?;
    let base = Operand::imm(0);
    let operands = sources![super::selector::pt(), s.result(0), place, header, base];
    s.emit_guarded(Op::SULD, &mods, operands)?;
    Ok(())
}

pub(super) fn store(s: &mut Selector<'_>) -> Done {
    let size = size(s)?;
    let mut mods = surface_mods(s)?.to_vec();
    mods.extend(caching(s)?);
    let op = match s.modifier::<Unit>()? {
        Unit::Bytes => {
            mods.extend([(name::BA, value::BA), (name::SIZE, size)]);
            Op::SUST
        }
        Unit::Texels => {
            let components = match size {
                value::_32 => value::R,
                value::_64 => value::RG,
                value::_128 => value::RGBA,
                _ => return Err(s.unsupported()),
            };
            mods.push((name::COMPS, components));
            Op::SUST_P
        }
    };
    let (header, place) = surface_place(s)?;
    let stored = s.payload(2, size);
    let base = Operand::imm(0);
    s.emit_guarded(op, &mods, sources![place, stored, header, base])?;
    Ok(())
}

pub(super) fn update(s: &mut Selector<'_>) -> Done {
    let reduce: Reduce = s.modifier()?;
    let unit: Unit = s.modifier()?;
    let scalar: Scalar = s.modifier()?;
    // Of texels the format says whether they have a sign, which matters for the smaller and the larger one.
    let ordered = matches!(reduce, Reduce::Min | Reduce::Max);
    let ty = match (unit, scalar) {
        (Unit::Texels, Scalar::B32) if ordered => value::SD32,
        (Unit::Texels, Scalar::B64) if ordered => value::SD64,
        (_, Scalar::S32) => value::S32,
        (_, Scalar::S64) => value::S64,
        (_, Scalar::U32 | Scalar::B32) => value::U32,
        (_, Scalar::U64 | Scalar::B64) => value::U64,
        _ => return Err(s.unsupported()),
    };
    let bytes = match unit {
        Unit::Bytes => value::BA,
        Unit::Texels => value::NO,
    };
    let mut mods = surface_mods(s)?.to_vec();
    mods.extend([
        (name::BA, bytes),
        (name::FN, super::atomic::function_name(s, reduce)?),
        (name::TYPE, ty),
        (name::ORDER, value::STRONG_SYS),
    ]);
    let (header, place) = surface_place(s)?;
    let combined = match scalar.bits() {
        64 => s.pair(2),
        _ => s.word(2),
    };
    let base = Operand::imm(0);
    s.emit_guarded(Op::SURED, &mods, sources![place, combined, header, base])?;
    Ok(())
}
