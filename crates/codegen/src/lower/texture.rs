//! Textures: `tex` in all its forms, `tld4`, `txq`; surfaces are in `surface`.
//!
//! The machine takes coordinates in a shape of its own, made here, so that they are computed like everything else:
//!
//! | in PTX | for the machine |
//! | --- | --- |
//! | a level of detail that is not said | -32, which every texture clamps to its first level; texels by integer coordinates have a form without |
//! | one dimension by floats | two, the second coordinate zero |
//! | the index into an array | at most 65,535, unsigned; first, or last where there are gradients |
//! | a direction into a cube | divided by its largest component, by a reciprocal |
//! | offsets in texels | four bits each in one word (eight for `tld4`); with gradients in the upper half of the array's index |
//! | halves | singles, converted afterwards |
//!
//! A handle has 64 bits, of which the machine reads the low word: a texture's and a sampler's number. In the unified mode the texture's number
//! names both.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use super::bulk::numbered;
use super::gradient::Gradient;
use super::movement::write_elements;
use crate::emit::{Emit, imm, not, single};
use orias_ori::operation::{
    AbstractOp, Compare, Ftz, Geometry, Lod, Precision, Scalar, SourceType,
};
use orias_ori::{Guard, Operand, Type, Value};
use orias_ptx::ast::{self, OperandKind, RegisterId};
use orias_ptx::grammar::OperandName;
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::types::Type as PtxType;

/// The level of detail where PTX names none.
const NO_LEVEL: Operand = single(-32.0);

/// The largest index into an array.
const LAST_LAYER: u64 = 0xffff;

/// The operands in the brackets of an access: the texture or surface, perhaps a sampler, perhaps coordinates.
pub(super) fn bracket<'s>(
    statement: &'s Statement<'_>,
    index: usize,
) -> Lowered<&'s [ast::Operand]> {
    match statement.operands.get(index) {
        Some(operand) => match operand.kind {
            OperandKind::Bracket(parts) => Ok(statement.body.parts(parts)),
            _ => Ok(std::slice::from_ref(operand)),
        },
        None => unsupported(""),
    }
}

/// The number in a handle: its low word.
pub(super) fn handle(body: &mut Body<'_, '_>, kind: OperandKind) -> Lowered<Value> {
    let register = |body: &mut Body<'_, '_>, register: RegisterId, component| {
        let value = body.read(body.variable(register, component));
        body.with(|emit| emit.words(value)[0])
    };
    match kind {
        OperandKind::Register(id) | OperandKind::AtRegister(id, 0) => register(body, id, 0),
        OperandKind::Component(id, component) => register(body, id, component),
        OperandKind::Variable(id) | OperandKind::AtVariable(id, 0) => {
            match body.reference(id).map(|it| it.name.clone()) {
                Some(name) => body.reference_number(&name),
                None => unsupported("this handle of a texture or surface"),
            }
        }
        _ => unsupported("this handle of a texture or surface"),
    }
}

/// A handle, all of it.
fn whole_handle(body: &mut Body<'_, '_>, kind: OperandKind) -> Lowered<Value> {
    match kind {
        OperandKind::Register(id) | OperandKind::AtRegister(id, 0) => {
            Ok(body.read(body.variable(id, 0)))
        }
        OperandKind::Component(id, component) => Ok(body.read(body.variable(id, component))),
        OperandKind::Variable(id) | OperandKind::AtVariable(id, 0) => match body.handle_of(id) {
            Some(handle) => handle,
            None => unsupported("this handle of a texture or surface"),
        },
        _ => unsupported("this handle of a texture or surface"),
    }
}

/// A tuple of words.
pub(super) fn tuple(emit: &mut Emit<'_>, words: &[Operand]) -> Value {
    let words: Vec<Value> = words
        .iter()
        .map(|&word| emit.as_value(Scalar::B32, word))
        .collect();
    emit.collect(&words)
}

/// How many coordinates a geometry has, without an index into an array; and whether there is one.
pub(super) const fn dimensions(geometry: Geometry) -> (usize, bool) {
    match geometry {
        Geometry::D1 => (1, false),
        Geometry::A1 => (1, true),
        Geometry::D2 | Geometry::D2Ms => (2, false),
        Geometry::A2 | Geometry::A2Ms => (2, true),
        Geometry::D3 | Geometry::Cube => (3, false),
        Geometry::ACube => (3, true),
    }
}

/// The geometry that a form names.
pub(super) fn geometry(statement: &Statement<'_>) -> Lowered<Geometry> {
    let form = statement.form;
    Ok(match () {
        () if form.has(Modifier::M1d) => Geometry::D1,
        () if form.has(Modifier::M2d) => Geometry::D2,
        () if form.has(Modifier::M3d) => Geometry::D3,
        () if form.has(Modifier::A1d) => Geometry::A1,
        () if form.has(Modifier::A2d) => Geometry::A2,
        () if form.has(Modifier::Cube) => Geometry::Cube,
        () if form.has(Modifier::Acube) => Geometry::ACube,
        () if form.has(Modifier::M2dms) => Geometry::D2Ms,
        () if form.has(Modifier::A2dms) => Geometry::A2Ms,
        () => return unsupported(""),
    })
}

/// The index into an array, no larger than there can be.
fn layer(emit: &mut Emit<'_>, index: Operand) -> Operand {
    let over = emit.setp(Compare::Gt, Scalar::U32, index, imm(LAST_LAYER));
    emit.selp(Scalar::B32, imm(LAST_LAYER), index, over)
}

/// A direction on the surface of the cube of size one.
fn direction(emit: &mut Emit<'_>, coordinates: &mut [Operand]) {
    let [x, y, z] = coordinates else { return };
    let larger = |emit: &mut Emit<'_>, a, b| emit.op(AbstractOp::Fmax, (Scalar::F32,), &[a, b]);
    let absolute = |emit: &mut Emit<'_>, a| emit.op(AbstractOp::Fabs, (Scalar::F32,), &[a]);
    let sizes = [*x, *y, *z].map(|each| absolute(emit, each));
    let most = larger(emit, sizes[0], sizes[1]);
    let most = larger(emit, sizes[2], most);
    let mods = (Precision::Approx, Ftz::Ftz, Scalar::F32);
    let scale = emit.op(AbstractOp::Rcp, mods, &[most]);
    for each in [x, y, z] {
        *each = emit.op(AbstractOp::Fmul, (Scalar::F32,), &[*each, scale]);
    }
}

/// Offsets in texels in one word, `width` bits each; what is above the first stays as it is.
fn offsets(emit: &mut Emit<'_>, each: &[Operand], width: u32, mask: u64) -> Operand {
    let mut word = each.first().copied().unwrap_or(imm(0));
    for (place, &offset) in (1..).zip(each.iter().skip(1)) {
        let shift = place * width;
        let moved = emit.shl(offset, imm(u64::from(shift)));
        let mask = mask << shift;
        let own = emit.and(moved, imm(mask));
        let rest = emit.and(word, imm(!mask & 0xffff_ffff));
        word = emit.or(rest, own);
    }
    word
}

/// Where the upper half of the array's index holds offsets.
const OFFSETS_ABOVE: u64 = 0x0fff_0000;

/// Offsets in the upper half of the word of an array's index.
fn above(emit: &mut Emit<'_>, offsets: Operand, index: Operand) -> Operand {
    let moved = emit.shl(offsets, imm(16));
    let moved = emit.and(moved, imm(OFFSETS_ABOVE));
    emit.or(moved, index)
}

/// Where the results of an access go: four texels, and whether they are resident.
struct Results<'s> {
    texels: &'s ast::Operand,
    resident: Destination,
}

fn results<'s>(body: &mut Body<'_, '_>, statement: &'s Statement<'_>) -> Lowered<Results<'s>> {
    let Some(operand) = statement.operands.first() else {
        return unsupported("");
    };
    let OperandKind::Pair(first) = operand.kind else {
        return Ok(Results {
            texels: operand,
            resident: Destination::None,
        });
    };
    let (Some(texels), Some(resident)) = (
        statement.body.operands.get(first as usize),
        statement.body.operands.get(first as usize + 1),
    ) else {
        return unsupported("");
    };
    Ok(Results {
        texels,
        resident: body.destination_of(statement, resident.kind)?,
    })
}

/// Emits an access and writes what it yields, as elements of type `texel`.
fn access<M: crate::emit::Mods>(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    op: AbstractOp,
    mods: M,
    operands: &[Operand],
    texel: PtxType,
) -> Lowered {
    let Results { texels, resident } = results(body, statement)?;
    let destinations = body.element_destinations_of(statement, texels)?;
    let words: Vec<Value> = (0..4).map(|_| body.func.create_value(Type::R)).collect();
    let mut defined: Vec<Operand> = words.iter().map(|&word| word.into()).collect();
    let flag = match resident {
        Destination::Variable(_) => Some(body.func.create_value(Type::P)),
        _ => None,
    };
    defined.push(flag.map_or(Operand::None, Operand::from));
    body.with(|emit| emit.put(op, mods, &defined, operands, Guard::ALWAYS, &[]))?;
    let words: Vec<Operand> = words.into_iter().map(Operand::from).collect();
    let elements = match texel {
        PtxType::F16 | PtxType::F16x2 => body.with(|emit| {
            let pairs: Vec<Operand> = words
                .chunks(2)
                .map(|pair| {
                    let mods = (Scalar::F16x2, SourceType::F32);
                    emit.op(AbstractOp::CvtPair, mods, &[pair[1], pair[0]])
                })
                .collect();
            if texel == PtxType::F16x2 {
                return pairs;
            }
            pairs
                .into_iter()
                .flat_map(|pair| [pair, emit.shr(Scalar::U32, pair, imm(16))])
                .collect()
        })?,
        _ => words,
    };
    write_elements(body, &destinations, &elements, texel)?;
    if let (Destination::Variable(variable), Some(flag)) = (resident, flag) {
        // The machine says which lanes lack some.
        body.write(variable, not(flag.into()))?;
    }
    Ok(())
}

/// The operands of an access that name texture, sampler and coordinates.
fn named<'s>(
    body: &Body<'_, '_>,
    statement: &'s Statement<'_>,
) -> Lowered<(&'s ast::Operand, Option<&'s ast::Operand>, &'s ast::Operand)> {
    match (bracket(statement, 1)?, body.independent_textures()) {
        ([texture, coordinates], false) => Ok((texture, None, coordinates)),
        ([texture, sampler, coordinates], true) => Ok((texture, Some(sampler), coordinates)),
        _ => unsupported("a sampler in this texture mode"),
    }
}

/// Texture, sampler and coordinates of an access.
fn place(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
) -> Lowered<(Operand, Operand, Vec<Operand>)> {
    let (texture, sampler, coordinates) = named(body, statement)?;
    let sampler = match sampler {
        Some(sampler) => handle(body, sampler.kind)?.into(),
        None => Operand::None,
    };
    let texture = handle(body, texture.kind)?;
    let coordinates = body.elements(statement, coordinates, PtxType::B32)?;
    Ok((texture.into(), sampler, coordinates))
}

/// The elements of an operand that may be missing.
fn elements(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    name: OperandName,
) -> Lowered<Vec<Operand>> {
    match numbered(statement, name) {
        Some(index) => body.elements(statement, &statement.operands[index], PtxType::B32),
        None => Ok(Vec::new()),
    }
}

/// The word of an operand that may be missing.
fn word(body: &mut Body<'_, '_>, statement: &Statement<'_>, name: OperandName) -> Lowered<Operand> {
    let words = elements(body, statement, name)?;
    Ok(words.first().copied().unwrap_or(Operand::None))
}

/// The texel type and that of the coordinates.
fn types(statement: &Statement<'_>) -> Lowered<(PtxType, PtxType)> {
    let types: Vec<PtxType> = statement.form.types().collect();
    match types[..] {
        [texel, coordinate] => Ok((texel, coordinate)),
        _ => unsupported(""),
    }
}

/// Whether gradients are asked for in a way that the machine has no instruction for.
pub(super) fn calls_the_driver(op: Op, has: impl Fn(Modifier) -> bool, depth: bool) -> bool {
    let deep = [Modifier::M3d, Modifier::Cube, Modifier::Acube];
    op == Op::TexGrad && (depth || deep.into_iter().any(has))
}

/// `tex.grad` by the driver.
fn sample_by_driver(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (texel, _) = types(statement)?;
    let geometry = geometry(statement)?;
    let (texture, sampler, coordinates) = named(body, statement)?;
    let texture = whole_handle(body, texture.kind)?;
    let sampler = match sampler {
        Some(sampler) => Some(whole_handle(body, sampler.kind)?),
        None => None,
    };
    let Results { texels, resident } = results(body, statement)?;
    let destinations = body.element_destinations_of(statement, texels)?;
    let gradient = Gradient {
        geometry: match geometry {
            Geometry::D1 => "1d",
            Geometry::D2 => "2d",
            Geometry::D3 => "3d",
            Geometry::A1 => "a1d",
            Geometry::A2 => "a2d",
            Geometry::Cube => "cube",
            Geometry::ACube => "acube",
            Geometry::D2Ms | Geometry::A2Ms => return unsupported(""),
        },
        texel,
        resident: matches!(resident, Destination::Variable(_)),
        texture,
        sampler,
        coordinates: body.elements(statement, coordinates, PtxType::B32)?,
        dx: elements(body, statement, operand::DPDX)?,
        dy: elements(body, statement, operand::DPDY)?,
        offsets: elements(body, statement, operand::E)?,
        depth: match word(body, statement, operand::F)? {
            Operand::None => None,
            depth => Some(depth),
        },
    };
    let (flag, words) = super::gradient::call(body, &gradient)?;
    let words: Vec<Operand> = words.into_iter().map(Operand::from).collect();
    let elements = match texel {
        PtxType::F16 => body.with(|emit| {
            let pairs = words.into_iter();
            pairs
                .flat_map(|pair| [pair, emit.shr(Scalar::U32, pair, imm(16))])
                .collect()
        })?,
        _ => words,
    };
    write_elements(body, &destinations, &elements, texel)?;
    if let Destination::Variable(variable) = resident {
        let flag = body.with(|emit| emit.setp(Compare::Ne, Scalar::U32, flag.into(), imm(0)))?;
        body.write(variable, flag)?;
    }
    Ok(())
}

/// `tex`, with a level of detail, gradients or neither.
pub(super) fn sample(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let depth = numbered(statement, operand::F).is_some();
    if calls_the_driver(statement.op, |name| statement.form.has(name), depth) {
        return body.branch_if_guarded(|body| sample_by_driver(body, statement));
    }
    body.branch_if_guarded(|body| {
        let (texel, coordinate) = types(statement)?;
        let mut geometry = geometry(statement)?;
        let (count, array) = dimensions(geometry);
        let (texture, sampler, given) = place(body, statement)?;
        let level = word(body, statement, operand::LOD)?;
        let dx = elements(body, statement, operand::DPDX)?;
        let dy = elements(body, statement, operand::DPDY)?;
        let shifts = elements(body, statement, operand::E)?;
        let mut last = word(body, statement, operand::F)?;
        let mut given = given.into_iter();
        if matches!(geometry, Geometry::D2Ms | Geometry::A2Ms) {
            last = given.next().unwrap_or(imm(0));
        }
        let index = match array {
            true => given.next(),
            false => None,
        };
        let mut coordinates: Vec<Operand> = given.take(count).collect();
        let grad = statement.op == Op::TexGrad;
        let mut from = match coordinate {
            PtxType::F32 => SourceType::F32,
            _ => SourceType::S32,
        };
        // A sampler of its own has a say about texels by integers, too.
        let filtered = sampler != Operand::None
            && matches!(statement.op, Op::Tex | Op::TexBase)
            && matches!(
                geometry,
                Geometry::D2 | Geometry::D3 | Geometry::A1 | Geometry::A2
            );
        let integral = from == SourceType::S32;
        let mut level = level;
        let mods = body.with(|emit| {
            if integral && filtered {
                from = SourceType::F32;
                for each in &mut coordinates {
                    *each = emit.cvt(Scalar::F32, Scalar::S32, *each);
                }
            }
            if from == SourceType::F32 && geometry == Geometry::D1 {
                geometry = Geometry::D2;
                coordinates.push(imm(0));
            }
            if matches!(geometry, Geometry::Cube | Geometry::ACube) {
                direction(emit, &mut coordinates);
            }
            let lod = match (grad, level, from) {
                (true, ..) => Lod::Grad,
                (_, Operand::None, SourceType::F32) => {
                    level = NO_LEVEL;
                    Lod::Level
                }
                (_, Operand::None, _) => Lod::Base,
                _ => Lod::Level,
            };
            (geometry, lod, from)
        })?;
        let operands = body.with(|emit| {
            let index = index.map(|index| layer(emit, index));
            let shift = match shifts[..] {
                [] => Operand::None,
                _ => offsets(emit, &shifts[..count.min(shifts.len())], 4, 0xf),
            };
            let gradients = if grad {
                let mut words = Vec::new();
                for place in 0..dimensions(mods.0).0 {
                    words.push(dx.get(place).copied().unwrap_or(imm(0)));
                    words.push(dy.get(place).copied().unwrap_or(imm(0)));
                }
                match (index, shift) {
                    (Some(index), Operand::None) => coordinates.push(index),
                    (index, shift) if shift != Operand::None => {
                        let index = index.unwrap_or(imm(0));
                        coordinates.push(above(emit, shift, index));
                    }
                    _ => {}
                }
                tuple(emit, &words).into()
            } else {
                if let Some(index) = index {
                    coordinates.insert(0, index);
                }
                Operand::None
            };
            let coordinates = tuple(emit, &coordinates).into();
            let mut word = |operand| match operand {
                Operand::None => Operand::None,
                operand => emit.as_value(Scalar::B32, operand).into(),
            };
            let (level, shift, last) = (word(level), word(shift), word(last));
            [texture, sampler, coordinates, level, gradients, shift, last]
        })?;
        access(body, statement, AbstractOp::Tex, mods, &operands, texel)
    })
}

/// `tld4`
pub(super) fn gather(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let (texel, _) = types(statement)?;
        let geometry = geometry(statement)?;
        let (count, array) = dimensions(geometry);
        let (texture, sampler, given) = place(body, statement)?;
        let shifts = elements(body, statement, operand::E)?;
        let depth = word(body, statement, operand::F)?;
        let names = [Modifier::R, Modifier::G, Modifier::B, Modifier::A];
        let component = names.iter().position(|&name| statement.form.has(name));
        let component = imm(component.unwrap_or(0) as u64);
        let operands = body.with(|emit| {
            let mut given = given.into_iter();
            let index = match array {
                true => given.next().map(|index| layer(emit, index)),
                false => None,
            };
            let mut coordinates: Vec<Operand> = given.take(count).collect();
            if matches!(geometry, Geometry::Cube | Geometry::ACube) {
                direction(emit, &mut coordinates);
            }
            coordinates.splice(0..0, index);
            let shift = match shifts[..] {
                [] => Operand::None,
                _ => offsets(emit, &shifts, 8, 0x3f),
            };
            let coordinates = tuple(emit, &coordinates).into();
            let mut word = |operand| match operand {
                Operand::None => Operand::None,
                operand => emit.as_value(Scalar::B32, operand).into(),
            };
            let (shift, depth) = (word(shift), word(depth));
            [texture, sampler, coordinates, component, shift, depth]
        })?;
        access(
            body,
            statement,
            AbstractOp::Tld4,
            (geometry,),
            &operands,
            texel,
        )
    })
}

/// `txq` and `suq`: what the machine tells are width, height and depth; the rest stands in records.
pub(super) fn query(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    let [texture] = bracket(statement, 1)? else {
        return unsupported("");
    };
    let dimension = match () {
        () if form.has(Modifier::Width) => 0,
        () if form.has(Modifier::Height) => 1,
        () if form.has(Modifier::Depth) => 2,
        () => {
            let surface = statement.op == Op::Suq;
            return body.branch_if_guarded(|body| {
                let number = handle(body, texture.kind)?;
                super::reference::query(body, statement, number, surface)
            });
        }
    };
    let texture = handle(body, texture.kind)?;
    let level = match word(body, statement, operand::LOD)? {
        Operand::None => imm(0),
        level => level,
    };
    let level = body.in_registers(level, 32)?;
    let destination = body.destination(statement, 0)?.or_unused(Type::R);
    let operands = [texture.into(), imm(dimension), level.into()];
    body.assign(AbstractOp::Txq, (), &[destination], &operands)
}
