//! Branches, calls and the end.

use super::operands::mask;
use super::{Decoder, Statics};
use crate::error::LoadError;
use crate::library::Routine;
use crate::program::Place;
use crate::step::{Action, Call, Callee, Passed, Returned};
use orias_ptx::ast::{FunctionId, Operand, OperandKind, TargetListKind, VariableId};
use orias_ptx::grammar::Op;
use orias_ptx::types::Type;

impl<'m> Decoder<'m, '_> {
    pub(super) fn control(&self, it: &Statics<'m>) -> Result<Option<Action>, LoadError> {
        Ok(Some(match it.op {
            Op::Bra => match it.operands {
                [
                    Operand {
                        kind: OperandKind::Label(label),
                        ..
                    },
                ] => Action::Branch {
                    target: self.target(it, *label)?,
                },
                _ => return Err(self.unsupported(it.instruction)),
            },
            Op::BrxIdx => self.branch_indexed(it)?,
            Op::Call => self.call(it)?,
            Op::Ret => Action::Return,
            Op::Exit => Action::Exit,
            Op::Trap => Action::Trap,
            Op::Brkpt => Action::Breakpoint,
            Op::Nanosleep | Op::Pmevent | Op::PmeventMask | Op::Griddepcontrol | Op::Setmaxnreg => {
                Action::Nothing
            }
            _ => return Ok(None),
        }))
    }

    fn branch_indexed(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let targets = it.operands.iter().find_map(|operand| match operand.kind {
            OperandKind::List(id) => match &self.body.lists[id.index()].kind {
                TargetListKind::Branch(labels) => Some(labels),
                _ => None,
            },
            _ => None,
        });
        let targets = targets.ok_or_else(|| self.unsupported(it.instruction))?;
        let targets: Result<Vec<usize>, LoadError> = targets
            .iter()
            .map(|&label| self.target(it, label))
            .collect();
        Ok(Action::BranchIndexed {
            index: self.value(it, "index")?,
            targets: targets?,
        })
    }

    /// `(results), callee, (arguments), prototype`: the lists in parentheses may each be missing.
    fn call(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let is_list = |operand: &Operand| matches!(operand.kind, OperandKind::Arguments(_));
        let at = it.operands.iter().position(|operand| !is_list(operand));
        let at = at.ok_or_else(|| self.invalid(it.instruction, "a call of nothing"))?;
        let list = |operand: Option<&Operand>| match operand.map(|operand| operand.kind) {
            Some(OperandKind::Arguments(parts)) => self.body.parts(parts),
            _ => &[],
        };
        let results = if at > 0 {
            list(it.operands.first())
        } else {
            &[]
        };
        let arguments = list(it.operands.get(at + 1));
        let callee = match it.operands[at].kind {
            OperandKind::Function(id) => self.callee(it, id)?,
            _ => Callee::Indirect(self.source(it, &it.operands[at], Type::U64)?),
        };
        // What a value in a register or a constant is as an argument, the parameter's type says.
        let types = self.parameter_types(it, at);
        let arguments: Result<Vec<Passed>, LoadError> = arguments
            .iter()
            .enumerate()
            .map(|(place, operand)| self.passed(it, operand, types.get(place).copied()))
            .collect();
        let results: Result<Vec<Returned>, LoadError> = results
            .iter()
            .map(|operand| self.returned(it, operand))
            .collect();
        Ok(Action::Call(Box::new(Call {
            callee,
            arguments: arguments?,
            results: results?,
        })))
    }

    fn callee(&self, it: &Statics<'m>, id: FunctionId) -> Result<Callee, LoadError> {
        if let Some(number) = self.layout.function(id) {
            return Ok(Callee::Function(number));
        }
        let name = self.module.name(self.module.function(id).name);
        match Routine::named(name) {
            Some(routine) => Ok(Callee::Library(routine)),
            None => Err(self.unsupported_because(
                it.instruction,
                &format!("of '{name}', which is defined elsewhere,"),
            )),
        }
    }

    /// The parameters of what a call reaches, or of the prototype it names.
    fn parameter_types(&self, it: &Statics<'m>, callee: usize) -> Vec<Type> {
        let of = |variables: &[VariableId]| -> Vec<Type> {
            let variables = variables.iter();
            variables.map(|&id| self.module.variable(id).ty).collect()
        };
        if let OperandKind::Function(id) = it.operands[callee].kind {
            return of(&self.module.function(id).parameters);
        }
        let lists = it.operands[callee + 1..].iter();
        let lists = lists.filter_map(|operand| match operand.kind {
            OperandKind::List(id) => Some(&self.body.lists[id.index()].kind),
            _ => None,
        });
        lists
            .filter_map(|list| match list {
                TargetListKind::Prototype(prototype) => Some(of(&prototype.parameters)),
                TargetListKind::Call(functions) => {
                    let first = functions.first()?;
                    Some(of(&self.module.function(*first).parameters))
                }
                TargetListKind::Branch(_) => None,
            })
            .next()
            .unwrap_or_default()
    }

    fn passed(
        &self,
        it: &Statics<'m>,
        operand: &'m Operand,
        ty: Option<Type>,
    ) -> Result<Passed, LoadError> {
        Ok(match operand.kind {
            OperandKind::Sink => Passed::Nothing,
            OperandKind::Variable(id, 0) => match self.place(id) {
                Place::Frame(offset) => Passed::Frame {
                    offset,
                    bytes: self.module.variable(id).bytes() as u32,
                },
                _ => Passed::Value {
                    source: self.source(it, operand, Type::U64)?,
                    bytes: 8,
                },
            },
            OperandKind::Register(id) => {
                let register = self.registers.ty(id);
                Passed::Value {
                    source: self.source(it, operand, register)?,
                    bytes: register.bits().div_ceil(8),
                }
            }
            _ => {
                let ty = ty.ok_or_else(|| self.unsupported(it.instruction))?;
                Passed::Value {
                    source: self.source(it, operand, ty)?,
                    bytes: ty.bits().div_ceil(8),
                }
            }
        })
    }

    fn returned(&self, it: &Statics<'m>, operand: &'m Operand) -> Result<Returned, LoadError> {
        Ok(match operand.kind {
            OperandKind::Sink => Returned::Nothing,
            OperandKind::Register(id) => Returned::Register {
                slot: self.registers.slot(id),
                mask: mask(self.registers.ty(id)),
            },
            OperandKind::Variable(id, 0) => match self.place(id) {
                Place::Frame(offset) => Returned::Frame {
                    offset,
                    bytes: self.module.variable(id).bytes() as u32,
                },
                Place::Register(id) => Returned::Register {
                    slot: self.registers.slot(id),
                    mask: mask(self.registers.ty(id)),
                },
                _ => return Err(self.unsupported(it.instruction)),
            },
            _ => return Err(self.unsupported(it.instruction)),
        })
    }
}
