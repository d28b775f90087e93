//! Textures, samplers and surfaces by name, and what is known of those that a handle stands for.
//!
//! The driver numbers them and puts the number of each that a kernel names into a word behind the kernel's parameters; code reads it there. A
//! handle is that number, with a bit in its high word that says what it is of (`istypep`).
//!
//! Besides width, height and depth, which an instruction tells, properties stand in records of the driver: one after another, by number, in
//! tables whose addresses are in the bank of parameters. How large a record is the driver knows, under a name.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use crate::emit::imm;
use crate::module::{Reference, ReferenceKind};
use orias_eval::texture::Property;
use orias_ori::operation::{AbstractOp, Compare, Scalar, Space};
use orias_ori::{Address, Operand, SymbolPart, Value};
use orias_ptx::ast::{TargetOption, VariableId};
use orias_ptx::grammar::Modifier;
use orias_ptx::types::Type as PtxType;

/// The environment words behind those that PTX names: the addresses of the tables of textures, samplers and surfaces, 64 bits each.
const TABLES: u64 = 32;

impl Body<'_, '_> {
    /// What a variable names, if that is a texture, sampler or surface.
    pub(super) fn reference(&self, id: VariableId) -> Option<&Reference> {
        self.symbols.reference(id)
    }

    /// The number of a named texture, sampler or surface.
    pub(super) fn reference_number(&mut self, name: &str) -> Lowered<Value> {
        let symbol = self.func.symbol(name);
        let place = self.func.create_address(Address {
            symbol: Some(symbol).into(),
            ..Address::default()
        });
        let operands = [place, Operand::None];
        let number = self.compute(AbstractOp::Ld, (Space::Param, Scalar::B32), &operands)?;
        self.in_registers(number, 32)
    }

    /// The handle of a variable, if that is a texture, sampler or surface.
    pub(super) fn handle_of(&mut self, id: VariableId) -> Option<Lowered<Value>> {
        let reference = self.reference(id)?;
        let (name, tag) = (reference.name.clone(), reference.kind.tag());
        Some(self.reference_number(&name).and_then(|number| {
            self.with(|emit| {
                let tag = emit.as_value(Scalar::B32, imm(tag));
                emit.collect(&[number, tag])
            })
        }))
    }

    /// Whether textures and samplers are named apart.
    pub(super) fn independent_textures(&self) -> bool {
        let options = &self.module.target_options;
        options.contains(&TargetOption::TexmodeIndependent)
    }
}

/// `istypep`
pub(super) fn is_kind(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let mut types = statement.form.types();
    let tag = match types.next() {
        Some(PtxType::Texref) => ReferenceKind::Texture.tag(),
        Some(PtxType::Samplerref) => ReferenceKind::Sampler.tag(),
        Some(PtxType::Surfref) => ReferenceKind::Surface.tag(),
        _ => return unsupported(""),
    };
    body.branch_if_guarded(|body| {
        let handle = body.value_of(statement, statement.operands[1].kind, PtxType::B64)?;
        let handle = body.in_registers(handle, 64)?;
        let answer = body.with(|emit| {
            let high = emit.words(handle)[1];
            let bit = emit.and(high.into(), imm(tag));
            emit.setp(Compare::Ne, Scalar::U32, bit, imm(0))
        })?;
        match body.destination(statement, 0)? {
            Destination::Variable(variable) => body.write(variable, answer),
            _ => Ok(()),
        }
    })
}

/// The property that `txq` or `suq` asks for, beside sizes.
fn property(statement: &Statement<'_>) -> Option<Property> {
    use Modifier as M;
    const ROWS: [(Modifier, Property); 12] = [
        (M::ChannelDataType, Property::ChannelDataType),
        (M::ChannelOrder, Property::ChannelOrder),
        (M::MemoryLayout, Property::MemoryLayout),
        (M::ArraySize, Property::ArraySize),
        (M::NormalizedCoords, Property::NormalisedCoordinates),
        (M::NumMipmapLevels, Property::Levels),
        (M::NumSamples, Property::Samples),
        (M::AddrMode0, Property::Addressing(0)),
        (M::AddrMode1, Property::Addressing(1)),
        (M::AddrMode2, Property::Addressing(2)),
        (M::FilterMode, Property::Filter),
        (M::ForceUnnormalizedCoords, Property::ForceUnnormalised),
    ];
    let found = ROWS.iter().find(|(name, _)| statement.form.has(*name));
    found.map(|&(_, property)| property)
}

/// Whose record has a property, and where.
fn place(property: Property, surface: bool, independent: bool) -> Option<(ReferenceKind, u64)> {
    use ReferenceKind::{Sampler, Surface, Texture};
    let kinds: &[ReferenceKind] = match (surface, independent) {
        (true, _) => &[Surface],
        (false, false) => &[Texture],
        (false, true) => &[Texture, Sampler],
    };
    kinds.iter().find_map(|&kind| {
        let offset = property.offset(kind.record(independent))?;
        Some((kind, offset as u64))
    })
}

/// `txq` and `suq` of what stands in the driver's records.
pub(super) fn query(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    number: Value,
    surface: bool,
) -> Lowered {
    let independent = body.independent_textures();
    let found = property(statement).and_then(|it| place(it, surface, independent));
    let Some((kind, offset)) = found else {
        return unsupported("this property of a texture or surface in this texture mode");
    };
    let size = Operand::Symbol {
        symbol: body.func.symbol(kind.record(independent).size_name()),
        part: SymbolPart::Whole,
        addend: 0,
    };
    let size = body.compute(AbstractOp::AddressOf, (Scalar::B64,), &[size])?;
    let size = body.in_registers(size, 64)?;
    let table = TABLES + 2 * kind as u64;
    let low = body.compute(AbstractOp::EnvReg, (), &[imm(table)])?;
    let high = body.compute(AbstractOp::EnvReg, (), &[imm(table + 1)])?;
    let place = body.with(|emit| {
        let size = emit.words(size)[0];
        let at = emit.mad(number.into(), size.into(), imm(offset));
        let at = emit.cvt(Scalar::U64, Scalar::U32, at);
        let table = emit.join(low, high);
        emit.binary(AbstractOp::Add, Scalar::U64, table, at)
    })?;
    let place = body.in_registers(place, 64)?;
    let place = body.func.create_address(Address::base(place, 0));
    let operands = [place, Operand::None];
    let word = body.compute(AbstractOp::Ld, (Space::Global, Scalar::B32), &operands)?;
    match body.destination(statement, 0)? {
        Destination::Variable(variable) => body.write(variable, word),
        _ => Ok(()),
    }
}
