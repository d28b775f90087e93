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

/// Where a property stands in the record of what has it.
struct Property {
    kind: ReferenceKind,
    offset: u64,
}

/// The place of a property that `txq` or `suq` asks for.
fn property(statement: &Statement<'_>, surface: bool, independent: bool) -> Option<Property> {
    use Modifier as M;
    use ReferenceKind::{Sampler, Surface, Texture};
    // Offsets for a surface, a texture of the unified mode, a texture of the independent mode, a sampler.
    const NONE: Option<u64> = None;
    type Row = (Modifier, [Option<u64>; 4]);
    #[rustfmt::skip]
    const ROWS: &[Row] = &[
        (M::ChannelDataType,         [Some(0x0c), Some(0x20), Some(0x10), NONE]),
        (M::ChannelOrder,            [Some(0x10), Some(0x24), Some(0x14), NONE]),
        (M::MemoryLayout,            [Some(0x14), NONE,       NONE,       NONE]),
        (M::ArraySize,               [Some(0x1c), Some(0x28), Some(0x18), NONE]),
        (M::NormalizedCoords,        [NONE,       Some(0x1c), Some(0x0c), NONE]),
        (M::NumMipmapLevels,         [NONE,       Some(0x2c), Some(0x1c), NONE]),
        (M::NumSamples,              [NONE,       Some(0x30), Some(0x20), NONE]),
        (M::AddrMode0,               [NONE,       Some(0x0c), NONE,       Some(0x00)]),
        (M::AddrMode1,               [NONE,       Some(0x10), NONE,       Some(0x04)]),
        (M::AddrMode2,               [NONE,       Some(0x14), NONE,       Some(0x08)]),
        (M::FilterMode,              [NONE,       Some(0x18), NONE,       Some(0x0c)]),
        (M::ForceUnnormalizedCoords, [NONE,       NONE,       NONE,       Some(0x10)]),
    ];
    let (_, offsets) = ROWS.iter().find(|(name, _)| statement.form.has(*name))?;
    let places = match (surface, independent) {
        (true, _) => [(Surface, offsets[0]); 2],
        (false, false) => [(Texture, offsets[1]); 2],
        (false, true) => [(Texture, offsets[2]), (Sampler, offsets[3])],
    };
    let mut found = places.iter();
    found.find_map(|&(kind, offset)| offset.map(|offset| Property { kind, offset }))
}

/// `txq` and `suq` of what stands in the driver's records.
pub(super) fn query(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    number: Value,
    surface: bool,
) -> Lowered {
    let independent = body.independent_textures();
    let Some(Property { kind, offset }) = property(statement, surface, independent) else {
        return unsupported("this property of a texture or surface in this texture mode");
    };
    let size = Operand::Symbol {
        symbol: body.func.symbol(kind.record_size(independent)),
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
