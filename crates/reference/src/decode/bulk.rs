//! Bulk and tensor copies, and fields of tensor maps.

use super::{Decoder, Statics};
use crate::error::LoadError;
use crate::step::{Action, Address, BulkStep, Source};
use orias_eval::combine::Combination;
use orias_eval::tensor::{Element, Field};
use orias_ptx::ast::OperandKind;
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
            Op::CpAsyncBulkWaitGroup => match self.value(it, "n")? {
                Source::Constant(open) => BulkStep::WaitForGroups { open },
                _ => return Err(self.unsupported(it.instruction)),
            },
            Op::TensormapReplace => self.replace_field(it)?,
            Op::TensormapCpFenceproxy => BulkStep::CopyMap {
                to: self.address(it, "dst")?,
                from: self.address(it, "src")?,
            },
            _ => return Ok(None),
        };
        Ok(Some(Action::Bulk(Box::new(step))))
    }

    fn optional_address(&self, it: &Statics<'m>, name: &str) -> Result<Option<Address>, LoadError> {
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
            to: self.address(it, "dst")?,
            from: self.address(it, "src")?,
            bytes: self.value(it, "size")?,
            barrier: self.optional_address(it, "mbar")?,
            blocks: self.optional_value(it, "ctamask")?,
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
        let im2col = (it.form.modifiers()).any(|modifier| modifier.name().starts_with("im2col"));
        let offsets = match it.named("offsets") {
            Some((_, operand)) => Some(self.sources(it, operand, Type::U16)?),
            None => im2col.then(Vec::new),
        };
        let barrier = self.optional_address(it, "mbar")?;
        Ok(BulkStep::Tile {
            map: self.address_of(it, map, *space)?,
            coordinates: self.sources(it, coordinates, Type::S32)?,
            shared: self.address(it, if barrier.is_some() { "dst" } else { "src" })?,
            barrier,
            blocks: self.optional_value(it, "ctamask")?,
            offsets,
            combined: match it.op {
                Op::CpReduceAsyncBulkTensor => Some(self.combination(it)?),
                _ => None,
            },
        })
    }

    fn replace_field(&self, it: &Statics<'m>) -> Result<BulkStep, LoadError> {
        const ALL: [(&str, Field); 10] = [
            ("global_address", Field::Address),
            ("rank", Field::Rank),
            ("box_dim", Field::BoxSize),
            ("global_dim", Field::Size),
            ("global_stride", Field::Stride),
            ("element_stride", Field::Step),
            ("elemtype", Field::Element),
            ("interleave_layout", Field::Interleave),
            ("swizzle_mode", Field::Swizzle),
            ("fill_mode", Field::Fill),
        ];
        let has = |name: &str| it.form.modifiers().any(|it| it.name() == name);
        let field = ALL.into_iter().find(|(name, _)| has(name));
        let (_, field) = field.ok_or_else(|| self.unsupported(it.instruction))?;
        let dimension = match self.optional_value(it, "ord")? {
            None => 0,
            Some(Source::Constant(at)) => at as usize,
            Some(_) => return Err(self.unsupported(it.instruction)),
        };
        Ok(BulkStep::ReplaceField {
            map: self.address(it, "a")?,
            field,
            dimension,
            value: self.value(it, "value")?,
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
