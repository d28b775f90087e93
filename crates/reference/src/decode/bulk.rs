//! Bulk and tensor copies, and fields of tensor maps.

use super::{Decoder, Statics};
use crate::error::LoadError;
use crate::step::{Action, Address, BulkStep, Source};
use orias_eval::combine::Combination;
use orias_eval::tensor::{Element, Field};
use orias_ptx::ast::OperandKind;
use orias_ptx::grammar::OperandName;
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::{Pattern, PatternKind};
use orias_ptx::types::Type;

impl<'m> Decoder<'m, '_> {
    pub(super) fn bulk(&self, it: &Statics<'m>) -> Result<Option<Action>, LoadError> {
        let step = match it.op {
            Op::CpAsyncBulk | Op::CpReduceAsyncBulk => self.bulk_copy(it)?,
            Op::CpAsyncBulkTensor | Op::CpReduceAsyncBulkTensor => self.tensor_copy(it)?,
            Op::CpAsyncBulkPrefetch | Op::CpAsyncBulkPrefetchTensor => {
                return Ok(Some(Action::Nothing));
            }
            Op::CpAsyncBulkCommitGroup => BulkStep::CloseGroup,
            Op::CpAsyncBulkWaitGroup => match self.value(it, operand::N)? {
                Source::Constant(open) => BulkStep::WaitForGroups { open },
                _ => return Err(self.unsupported(it.instruction)),
            },
            Op::TensormapReplace => self.replace_field(it)?,
            Op::TensormapCpFenceproxy => BulkStep::CopyMap {
                to: self.address(it, operand::DST)?,
                from: self.address(it, operand::SRC)?,
            },
            _ => return Ok(None),
        };
        Ok(Some(Action::Bulk(Box::new(step))))
    }

    fn optional_address(
        &self,
        it: &Statics<'m>,
        name: OperandName,
    ) -> Result<Option<Address>, LoadError> {
        match it.named(name) {
            Some(_) => self.address(it, name).map(Some),
            None => Ok(None),
        }
    }

    fn combination(&self, it: &Statics<'m>) -> Result<Combination, LoadError> {
        const ALL: [(Modifier, Combination); 8] = [
            (Modifier::Add, Combination::Add),
            (Modifier::Min, Combination::Min),
            (Modifier::Max, Combination::Max),
            (Modifier::Inc, Combination::Inc),
            (Modifier::Dec, Combination::Dec),
            (Modifier::And, Combination::And),
            (Modifier::Or, Combination::Or),
            (Modifier::Xor, Combination::Xor),
        ];
        let found = ALL.into_iter().find(|&(modifier, _)| it.has(modifier));
        let found = found.ok_or_else(|| self.unsupported(it.instruction))?;
        Ok(found.1)
    }

    fn bulk_copy(&self, it: &Statics<'m>) -> Result<BulkStep, LoadError> {
        let combined = match it.op {
            Op::CpReduceAsyncBulk => {
                let element = it.form.types().next().and_then(element_of);
                let element = element.ok_or_else(|| self.unsupported(it.instruction))?;
                Some((self.combination(it)?, element))
            }
            _ => None,
        };
        Ok(BulkStep::Copy {
            to: self.address(it, operand::DST)?,
            from: self.address(it, operand::SRC)?,
            bytes: self.value(it, operand::SIZE)?,
            barrier: self.optional_address(it, operand::MBAR)?,
            blocks: self.optional_value(it, operand::CTAMASK)?,
            combined,
        })
    }

    fn tensor_copy(&self, it: &Statics<'m>) -> Result<BulkStep, LoadError> {
        let bracket = it
            .patterns
            .iter()
            .zip(it.operands)
            .find_map(|(pattern, operand)| match (&pattern.kind, operand.kind) {
                (PatternKind::Bracket(inner), OperandKind::Bracket(parts)) if inner.len() == 2 => {
                    Some((inner, self.body.parts(parts)))
                }
                _ => None,
            });
        let Some((
            [
                Pattern {
                    kind: PatternKind::Address(space),
                    ..
                },
                _,
            ],
            [map, coordinates],
        )) = bracket.map(|(inner, parts)| (&inner[..], parts))
        else {
            return Err(self.unsupported(it.instruction));
        };
        let im2col = it.form.modifiers().any(|modifier| {
            use Modifier::{Im2col, Im2colNoOffs, Im2colW, Im2colW128};
            matches!(modifier, Im2col | Im2colNoOffs | Im2colW | Im2colW128)
        });
        let offsets = match it.named(operand::OFFSETS) {
            Some((_, operand)) => Some(self.sources(it, operand, Type::U16)?),
            None => im2col.then(Vec::new),
        };
        let barrier = self.optional_address(it, operand::MBAR)?;
        Ok(BulkStep::Tile {
            map: self.address_of(it, map, *space)?,
            coordinates: self.sources(it, coordinates, Type::S32)?,
            shared: self.address(
                it,
                if barrier.is_some() {
                    operand::DST
                } else {
                    operand::SRC
                },
            )?,
            barrier,
            blocks: self.optional_value(it, operand::CTAMASK)?,
            offsets,
            combined: match it.op {
                Op::CpReduceAsyncBulkTensor => Some(self.combination(it)?),
                _ => None,
            },
        })
    }

    fn replace_field(&self, it: &Statics<'m>) -> Result<BulkStep, LoadError> {
        const ALL: [(Modifier, Field); 10] = [
            (Modifier::GlobalAddress, Field::Address),
            (Modifier::Rank, Field::Rank),
            (Modifier::BoxDim, Field::BoxSize),
            (Modifier::GlobalDim, Field::Size),
            (Modifier::GlobalStride, Field::Stride),
            (Modifier::ElementStride, Field::Step),
            (Modifier::Elemtype, Field::Element),
            (Modifier::InterleaveLayout, Field::Interleave),
            (Modifier::SwizzleMode, Field::Swizzle),
            (Modifier::FillMode, Field::Fill),
        ];
        let field = ALL.into_iter().find(|&(modifier, _)| it.has(modifier));
        let (_, field) = field.ok_or_else(|| self.unsupported(it.instruction))?;
        let dimension = match self.optional_value(it, operand::ORD)? {
            None => 0,
            Some(Source::Constant(at)) => at as usize,
            Some(_) => return Err(self.unsupported(it.instruction)),
        };
        Ok(BulkStep::ReplaceField {
            map: self.address(it, operand::A)?,
            field,
            dimension,
            value: self.value(it, operand::VALUE)?,
        })
    }
}

/// What elements of a PTX type are to the copy engine.
fn element_of(ty: Type) -> Option<Element> {
    Some(match ty {
        Type::F16 => Element::F16,
        Type::Bf16 => Element::Bf16,
        Type::F32 => Element::F32 { flushed: false },
        Type::F64 => Element::F64,
        Type::S32 => Element::Signed(4),
        Type::S64 => Element::Signed(8),
        Type::U32 | Type::B32 => Element::Unsigned(4),
        Type::U64 | Type::B64 => Element::Unsigned(8),
        _ => return None,
    })
}
