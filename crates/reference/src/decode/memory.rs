//! Loads, stores, atomics and asynchronous copies.

use super::operands::words;
use super::{Decoder, Statics};
use crate::compute;
use crate::error::LoadError;
use crate::step::{Action, Source, Space, Update};
use orias_ptx::ast::Operand;
use orias_ptx::grammar::OperandName;
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::{Pattern, PatternKind};
use orias_ptx::types::Type;

impl<'m> Decoder<'m, '_> {
    pub(super) fn memory(&self, it: &Statics<'m>) -> Result<Option<Action>, LoadError> {
        match it.op {
            // There is one copy of everything.
            Op::Ld | Op::Ldu | Op::MultimemLdReduce => self.load(it).map(Some),
            Op::St | Op::MultimemSt => self.store(it).map(Some),
            Op::Atom => self.atomic(it).map(Some),
            Op::Red | Op::MultimemRed => self.atomic(it).map(Some),
            Op::CpAsync => self.copy_later(it).map(Some),
            Op::CpAsyncCommitGroup => Ok(Some(Action::CommitCopies)),
            Op::CpAsyncWaitAll => Ok(Some(Action::WaitCopies { open: None })),
            Op::CpAsyncWaitGroup => match self.value(it, operand::N)? {
                Source::Constant(open) => Ok(Some(Action::WaitCopies {
                    open: Some(open as usize),
                })),
                _ => Err(self.unsupported(it.instruction)),
            },
            // Every access happens at once and in order, so there is nothing to wait for and nothing to prepare.
            Op::Membar
            | Op::MembarProxy
            | Op::Fence
            | Op::FenceProxy
            | Op::Prefetch
            | Op::Prefetchu
            | Op::Applypriority
            | Op::Discard => Ok(Some(Action::Nothing)),
            _ => Ok(None),
        }
    }

    /// An operand that is a value or a vector of them, and the type of each.
    fn listed(
        &self,
        it: &Statics<'m>,
        name: OperandName,
    ) -> Result<(&'m Operand, Type), LoadError> {
        match it.named(name) {
            Some((
                Pattern {
                    kind: PatternKind::Value(value) | PatternKind::Vector(_, _, value),
                    ..
                },
                operand,
            )) => Ok((operand, value.ty)),
            _ => Err(self.unsupported(it.instruction)),
        }
    }

    fn load(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let (operand, ty) = self.listed(it, operand::D)?;
        Ok(Action::Load {
            address: self.address(it, operand::A)?,
            bytes: ty.bits() / 8 / words(ty),
            elements: self.destinations(it, operand, ty)?,
        })
    }

    pub(super) fn store(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let (operand, ty) = self.listed(it, operand::B)?;
        Ok(Action::Store {
            address: self.address(it, operand::A)?,
            bytes: ty.bits() / 8 / words(ty),
            elements: self.sources(it, operand, ty)?,
        })
    }

    /// `atom`, and `red`, which is the same without a result.
    pub(super) fn atomic(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let address = self.address(it, operand::A)?;
        let ty = it.form.types().next();
        let ty = ty.ok_or_else(|| self.unsupported(it.instruction))?;
        let (b, _) = self.listed(it, operand::B)?;
        let first = self.sources(it, b, ty)?;
        let second = match it.named(operand::C) {
            Some((_, c)) => self.sources(it, c, ty)?,
            None => vec![Source::Constant(0); first.len()],
        };
        let results = match it.named(operand::D) {
            Some((_, d)) => self.destinations(it, d, ty)?,
            None => Vec::new(),
        };
        let element = |results: &[_], at: usize| results.get(at).copied().flatten();
        if ty == Type::B128 {
            let (&[b0, b1], [c0, c1, ..]) = (&first[..], &second[..]) else {
                return Err(self.unsupported(it.instruction));
            };
            let (compare, value) = if it.has(Modifier::Cas) {
                (Some([b0, b1]), [*c0, *c1])
            } else {
                (None, [b0, b1])
            };
            return Ok(Action::Atomic128 {
                address,
                compare,
                value,
                results: [element(&results, 0), element(&results, 1)],
            });
        }
        let update = self.update(it, ty, address.space != Space::Shared)?;
        Ok(Action::Atomic {
            address,
            bytes: ty.bits() / 8,
            update,
            results: (0..first.len()).map(|at| element(&results, at)).collect(),
            operands: first.into_iter().zip(second).map(|(b, c)| [b, c]).collect(),
        })
    }

    fn update(&self, it: &Statics<'m>, ty: Type, flush: bool) -> Result<Update, LoadError> {
        const OPERATIONS: [Modifier; 10] = [
            Modifier::And,
            Modifier::Or,
            Modifier::Xor,
            Modifier::Exch,
            Modifier::Cas,
            Modifier::Add,
            Modifier::Inc,
            Modifier::Dec,
            Modifier::Min,
            Modifier::Max,
        ];
        let operation = OPERATIONS.into_iter().find(|&operation| it.has(operation));
        operation
            .and_then(|operation| {
                compute::integer_atomic(operation, ty)
                    .or_else(|| compute::float_atomic(operation, ty, flush))
            })
            .ok_or_else(|| self.unsupported(it.instruction))
    }

    fn copy_later(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let Source::Constant(bytes) = self.value(it, operand::SIZE)? else {
            return Err(self.unsupported(it.instruction));
        };
        let whole = Source::Constant(bytes);
        let kept = match self.optional_value(it, operand::SRCSIZE)? {
            Some(kept) => kept,
            None => match self.optional_value(it, operand::IGNORESRC)? {
                Some(_) => {
                    return Err(self.unsupported_because(it.instruction, "with a predicate"));
                }
                None => whole,
            },
        };
        Ok(Action::CopyLater {
            to: self.address(it, operand::DST)?,
            from: self.address(it, operand::SRC)?,
            bytes: bytes as u32,
            kept,
        })
    }
}
