//! Moves between registers, addresses of variables and spaces, the stack.

use super::operands::words;
use super::{Decoder, Statics};
use crate::error::LoadError;
use crate::step::{Action, Source, SpaceTest};
use crate::thread::Special;
use orias_ptx::ast::{Operand, OperandKind};
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::grammar::slot_names as slot;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::{PatternKind, ValuePattern};
use orias_ptx::types::Type;

impl<'m> Decoder<'m, '_> {
    pub(super) fn movement(&self, it: &Statics<'m>) -> Result<Option<Action>, LoadError> {
        match it.op {
            Op::Mov => self.mov(it).map(Some),
            Op::Cvta => self.cvta(it, |address, window| address.wrapping_add(window)),
            Op::CvtaTo => self.cvta(it, |address, window| address.wrapping_sub(window)),
            Op::Isspacep => self.isspacep(it).map(Some),
            Op::Alloca => self.alloca(it).map(Some),
            Op::Stacksave => {
                let result = self.result(it, operand::D)?;
                Ok(result.map(|result| Action::SaveStack { result }))
            }
            Op::Stackrestore => {
                let source = self.value(it, operand::A)?;
                Ok(Some(Action::RestoreStack { source }))
            }
            Op::CreatepolicyCvt | Op::CreatepolicyFractional | Op::CreatepolicyRange => {
                self.policy(it).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn mov(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let [to, from] = it.operands else {
            return Err(self.unsupported(it.instruction));
        };
        let value = |at: usize| match &it.patterns[at].kind {
            PatternKind::Value(value) | PatternKind::Vector(_, _, value) => Ok(value),
            _ => Err(self.unsupported(it.instruction)),
        };
        let (to_value, from_value) = (value(0)?, value(1)?);
        if to_value.ty.bits() != from_value.ty.bits() {
            return self.repack(it, to, to_value, from, from_value);
        }
        let sources = match from.kind {
            OperandKind::Special(special, 255) if special.register().vector => {
                let components = (0..4).map(|at| Special::of(special, at));
                let components: Option<Vec<_>> = components.collect();
                let components = components.ok_or_else(|| self.unsupported(it.instruction))?;
                components.into_iter().map(Source::Special).collect()
            }
            _ => self.sources(it, from, from_value.ty)?,
        };
        let destinations = self.destinations(it, to, to_value.ty)?;
        if sources.len() < destinations.len() {
            return Err(self.unsupported(it.instruction));
        }
        let moves = sources.into_iter().zip(destinations);
        Ok(Action::Move {
            moves: moves
                .filter_map(|(source, destination)| Some((source, destination?)))
                .collect(),
        })
    }

    /// Elements of one size into elements of another, the first lowest.
    fn repack(
        &self,
        it: &Statics<'m>,
        to: &'m Operand,
        to_value: &ValuePattern,
        from: &'m Operand,
        from_value: &ValuePattern,
    ) -> Result<Action, LoadError> {
        // 128 bits are read and written as two words.
        let word = |ty: Type| ty.bits() / words(ty);
        Ok(Action::Repack {
            sources: self.sources(it, from, from_value.ty)?,
            source_bits: word(from_value.ty),
            destinations: self.destinations(it, to, to_value.ty)?,
            destination_bits: word(to_value.ty),
        })
    }

    /// From a space's addresses to generic ones, or back.
    fn cvta(
        &self,
        it: &Statics<'m>,
        change: fn(u64, u64) -> u64,
    ) -> Result<Option<Action>, LoadError> {
        if it.has(Modifier::U32) {
            return Err(self.unsupported_because(it.instruction, "of 32-bit addresses"));
        }
        let window = self.window(it)?;
        Ok(Some(Action::Compute {
            function: Box::new(move |[address, ..]| [change(*address, window), 0]),
            sources: vec![self.value(it, operand::A)?],
            results: [self.result(it, operand::P)?, None],
            carry: false,
        }))
    }

    fn isspacep(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let space = match it.form.get(slot::SPACE) {
            Some(Modifier::Global) => SpaceTest::Global,
            Some(Modifier::Shared | Modifier::SharedCta) => SpaceTest::Shared,
            Some(Modifier::SharedCluster) => SpaceTest::Cluster,
            Some(Modifier::Local) => SpaceTest::Local,
            Some(Modifier::Const) => SpaceTest::Const,
            Some(Modifier::Param | Modifier::ParamEntry) => SpaceTest::Param,
            _ => return Err(self.unsupported(it.instruction)),
        };
        let result = self.result(it, operand::P)?;
        Ok(Action::IsSpace {
            address: self.value(it, operand::A)?,
            space,
            result: result.ok_or_else(|| self.unsupported(it.instruction))?,
        })
    }

    fn alloca(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let alignment = match self.optional_value(it, operand::ALIGN)? {
            Some(Source::Constant(alignment)) => alignment.max(1),
            _ => 8,
        };
        let result = self.result(it, operand::PTR)?;
        Ok(Action::Allocate {
            size: self.value(it, operand::SIZE)?,
            alignment,
            result: result.ok_or_else(|| self.unsupported(it.instruction))?,
        })
    }
}
