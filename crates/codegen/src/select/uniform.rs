//! Operands in uniform registers, for instructions that run once for the warp: bulk and tensor copies, warp-group products.
//!
//! | source | by |
//! | --- | --- |
//! | a number | UMOV |
//! | a kernel parameter, launch dimension or the number of a named texture | ULDC |
//! | anything else | R2UR |
//!
//! R2UR carries the guard of the operation being selected: where it holds in one lane, that lane's word is taken; where there is no guard, that of the lowest lane that
//! runs, which must be the one that is meant, if the word is not the same in all. A uniform register must not live across a branch that only part of the warp takes, so the
//! words are made in the block of the instruction that reads them.

use super::selector::{Selector, pt, urz};
use super::source::Source;
use super::sources;
use crate::pipeline::PhaseError;
use orias_ori::{AbstractMods, AbstractOp, Address, Class, Operand, Reg, SourceMods, Type, Value};
use orias_sass::Op;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

impl Selector<'_> {
    /// One word in a uniform register.
    pub(super) fn uniform_word(&mut self, source: Source) -> Result<Value, PhaseError> {
        let uniform = self.temporary(Type::UR);
        let named = (source.operand.as_value())
            .filter(|_| source.operand.mods() == SourceMods::NONE)
            .and_then(|value| self.named_parameter(value));
        if let Some(word) = named {
            let mods = [(name::SIZE, value::_32)];
            self.emit(Op::ULDC, &mods, sources![uniform, word])?;
            return Ok(uniform);
        }
        match source.operand {
            _ if source.is_zero() => {
                self.emit(Op::UMOV, &[], sources![uniform, urz()])?;
            }
            Operand::Imm(_) => {
                self.emit(Op::UMOV, &[], &[uniform.into(), source])?;
            }
            Operand::Const {
                mods: SourceMods::NONE,
                index,
                ..
            } if index.get().is_none() => {
                self.emit(
                    Op::ULDC,
                    &[(name::SIZE, value::_32)],
                    &[uniform.into(), source],
                )?;
            }
            _ => {
                let word = self.in_register(source)?;
                self.emit_guarded(Op::R2UR, &[], sources![pt(), uniform, word])?;
            }
        }
        Ok(uniform)
    }

    /// Words in consecutive uniform registers.
    pub(super) fn uniform_tuple(&mut self, words: &[Source]) -> Result<Value, PhaseError> {
        if let [word] = *words {
            return self.uniform_word(word);
        }
        let length = u8::try_from(words.len()).ok();
        let Some(ty) = length.and_then(|length| Type::tuple(Class::UR, length)) else {
            return Err(self.broken("too many uniform registers"));
        };
        let mut operands = vec![Operand::None];
        for &word in words {
            operands.push(self.uniform_word(word)?.into());
        }
        let tuple = self.temporary(ty);
        operands[0] = tuple.into();
        let mods = AbstractMods::NONE;
        let inst = self
            .func
            .create_abstract(AbstractOp::Collect, mods, 1, &operands);
        self.insert(inst);
        Ok(tuple)
    }

    /// The words of a source of any length, in uniform registers.
    pub(super) fn uniform_operand(&mut self, operand: Operand) -> Result<Value, PhaseError> {
        let words = self.tuple_words(operand)?;
        self.uniform_tuple(&words)
    }

    /// The words of a tuple that was loaded or came from another block.
    fn split_words(&mut self, tuple: Operand, length: u8) -> Vec<Source> {
        let words: Vec<Value> = (0..length).map(|_| self.temporary(Type::R)).collect();
        let mut operands: Vec<Operand> = words.iter().map(|&word| word.into()).collect();
        operands.push(tuple);
        let mods = AbstractMods::NONE;
        let inst =
            self.func
                .create_abstract(AbstractOp::Split, mods, usize::from(length), &operands);
        self.insert(inst);
        words.into_iter().map(Source::from).collect()
    }

    /// The words of a source.
    fn tuple_words(&mut self, operand: Operand) -> Result<Vec<Source>, PhaseError> {
        let mut words = Vec::new();
        let mut pending = vec![operand];
        while let Some(part) = pending.pop() {
            let length = part
                .as_value()
                .map_or(1, |value| self.func.value_type(value).len());
            match length {
                1 => words.push(self.word_of(part)),
                2 => words.extend(self.words_of(part)),
                _ => match part.as_value().and_then(|value| self.definition(value)) {
                    Some((inst, AbstractOp::Collect)) => {
                        pending.extend(self.func.operands(inst)[1..].iter().rev());
                    }
                    _ => words.extend(self.split_words(part, length)),
                },
            }
        }
        Ok(words)
    }

    /// The address that uniform registers hold: `[UR4]`.
    pub(super) fn uniform_address(&mut self, registers: Value) -> Operand {
        self.func.create_address(Address {
            uniform: Reg::from(registers).into(),
            ..Address::default()
        })
    }

    /// A cache policy standing alone: `desc[UR4]`.
    pub(super) fn policy_operand(&mut self, policy: Operand) -> Result<Operand, PhaseError> {
        let words = self.words_of(policy);
        let pair = self.uniform_tuple(&words)?;
        Ok(self.func.create_address(Address {
            descriptor: Reg::from(pair).into(),
            ..Address::default()
        }))
    }
}
