//! Variables, the guard, and operations that give variables values.

use super::{Body, Lowered, unsupported};
use crate::emit::{Emit, Mods};
use crate::ssa::Variable;
use orias_ori::operation::{AbstractOp, Scalar};
use orias_ori::{Guard, Operand, SourceMods, Type, Value};
use orias_ptx::ast::RegisterId;

/// Where a result goes.
#[derive(Clone, Copy, Debug)]
pub(in crate::lower) enum Destination {
    /// To a variable.
    Variable(Variable),
    /// Nowhere, but the operation must have it: a value of that type.
    Unused(Type),
    /// Nowhere.
    None,
}

impl Destination {
    /// Itself, or an unused value of that type if there is none.
    pub fn or_unused(self, ty: Type) -> Destination {
        match self {
            Destination::None => Destination::Unused(ty),
            other => other,
        }
    }
}

impl Body<'_, '_> {
    /// The variable of a register's component, in the function being lowered.
    pub fn variable(&self, register: RegisterId, component: u8) -> Variable {
        match self.frames.last() {
            Some(frame) => {
                let first = frame.scan.variables[register.index()];
                Variable(frame.first.0 + first + u32::from(component))
            }
            None => Variable(0),
        }
    }

    /// What a variable has now.
    pub fn read(&mut self, variable: Variable) -> Value {
        match self.block {
            Some(block) => self.ssa.read(&mut self.func, block, variable),
            None => self.func.create_value(self.ssa.ty(variable)),
        }
    }

    /// Gives a variable a value, whatever the guard.
    pub fn set(&mut self, variable: Variable, value: Value) {
        if let Some(block) = self.block {
            self.ssa.write(block, variable, value);
            self.note_written(variable);
        }
    }

    /// The guard, as instructions have it.
    pub fn ori_guard(&self) -> Guard {
        match self.guard {
            Some(operand) => match operand.as_value() {
                Some(value) if operand.mods().contains(SourceMods::NOT) => Guard::unless(value),
                Some(value) => Guard::when(value),
                None => Guard::ALWAYS,
            },
            None => Guard::ALWAYS,
        }
    }

    /// Writes instructions that nothing guards.
    pub fn with<T>(&mut self, write: impl FnOnce(&mut Emit<'_>) -> T) -> Lowered<T> {
        let Some(block) = self.block else {
            return unsupported("code after the end of a block");
        };
        let mut emit = Emit::at_end(&mut self.func, block, self.at.span);
        let made = write(&mut emit);
        emit.finish()?;
        Ok(made)
    }

    /// An operation without effect, not guarded.
    pub fn compute<M: Mods>(
        &mut self,
        op: AbstractOp,
        mods: M,
        operands: &[Operand],
    ) -> Lowered<Operand> {
        self.with(|emit| emit.op(op, mods, operands))
    }

    /// A value nobody relies on.
    pub fn undefined(&mut self, ty: Type) -> Lowered<Value> {
        self.with(|emit| {
            let value = emit.func().create_value(ty);
            let result = [value.into()];
            emit.put(AbstractOp::Undef, (), &result, &[], Guard::ALWAYS, &[]);
            value
        })
    }

    /// An operation under the guard, with results that nothing else is done to.
    pub fn assign<M: Mods>(
        &mut self,
        op: AbstractOp,
        mods: M,
        destinations: &[Destination],
        operands: &[Operand],
    ) -> Lowered {
        let guard = self.ori_guard();
        let mut results: Vec<Operand> = Vec::with_capacity(destinations.len());
        let mut kept = Vec::new();
        for &destination in destinations {
            let (ty, old) = match destination {
                Destination::None => {
                    results.push(Operand::None);
                    continue;
                }
                Destination::Variable(variable) => (self.ssa.ty(variable), Some(variable)),
                Destination::Unused(ty) => (ty, None),
            };
            results.push(self.func.create_value(ty).into());
            if !guard.is_always() {
                let old = match old {
                    Some(variable) => self.read(variable),
                    None => self.undefined(ty)?,
                };
                kept.push(old);
            }
        }
        self.with(|emit| emit.put(op, mods, &results, operands, guard, &kept))?;
        for (&destination, result) in destinations.iter().zip(results) {
            if let (Destination::Variable(variable), Some(value)) = (destination, result.as_value())
            {
                self.set(variable, value);
            }
        }
        Ok(())
    }

    /// Gives a variable a value under the guard.
    pub fn write(&mut self, variable: Variable, operand: Operand) -> Lowered {
        let plain = operand.as_value().filter(|&value| {
            operand.mods().is_empty() && self.func.value_type(value) == self.ssa.ty(variable)
        });
        if let (None, Some(value)) = (self.guard, plain) {
            self.set(variable, value);
            return Ok(());
        }
        let ty = self.ssa.ty(variable);
        if let (Some(guard), Some(value), 4) = (self.guard, plain, ty.len()) {
            return self.choose_words(variable, value, guard);
        }
        let scalar = match (ty, ty.len()) {
            (Type::P, _) => Scalar::Pred,
            (_, 1) => Scalar::B32,
            (_, 2) => Scalar::B64,
            _ => Scalar::B128,
        };
        self.assign(
            AbstractOp::Mov,
            (scalar,),
            &[Destination::Variable(variable)],
            &[operand],
        )
    }

    /// Gives a variable of four words a value where the guard holds: no machine instruction moves that many.
    fn choose_words(&mut self, variable: Variable, value: Value, guard: Operand) -> Lowered {
        let old = self.read(variable);
        let chosen = self.with(|emit| {
            let (new, old) = (emit.words(value), emit.words(old));
            let words: Vec<Value> = new
                .into_iter()
                .zip(old)
                .map(|(new, old)| {
                    let word = emit.selp(Scalar::B32, new.into(), old.into(), guard);
                    emit.as_value(Scalar::B32, word)
                })
                .collect();
            emit.collect(&words)
        })?;
        self.set(variable, chosen);
        Ok(())
    }

    /// Variables of so many words that nobody relies on, from that one on.
    pub fn undefined_words(&mut self, count: u32) -> Lowered<Variable> {
        let first = Variable(self.ssa.declared());
        for _ in 0..count {
            let variable = self.ssa.declare(Type::R);
            let value = self.undefined(Type::R)?;
            self.set(variable, value);
        }
        Ok(first)
    }
}
