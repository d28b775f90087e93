//! Branches, calls and the end.

use super::{Decoder, Statics};
use crate::error::LoadError;
use crate::library::Routine;
use crate::program::Place;
use crate::step::{Action, Call, Callee, Passed, Piece, Returned, Source};
use orias_ptx::ast::{FunctionId, Operand, OperandKind, RegisterId, TargetListKind, VariableId};
use orias_ptx::grammar::Op;
use orias_ptx::grammar::operand_names as operand;
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
            index: self.value(it, operand::INDEX)?,
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
        // What a constant is as an argument, the parameter says.
        let formals = self.formals(it, at);
        let arguments: Result<Vec<Passed>, LoadError> = arguments
            .iter()
            .enumerate()
            .map(|(place, operand)| self.passed(it, operand, formals.get(place).copied()))
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
    fn formals(&self, it: &Statics<'m>, callee: usize) -> &'m [VariableId] {
        if let OperandKind::Function(id) = it.operands[callee].kind {
            return &self.module.function(id).parameters;
        }
        let lists = it.operands[callee + 1..].iter();
        let lists = lists.filter_map(|operand| match operand.kind {
            OperandKind::List(id) => Some(&self.body.lists[id.index()].kind),
            _ => None,
        });
        lists
            .filter_map(|list| match list {
                TargetListKind::Prototype(prototype) => Some(&prototype.parameters[..]),
                TargetListKind::Call(functions) => {
                    let first = functions.first()?;
                    Some(&self.module.function(*first).parameters[..])
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
        formal: Option<VariableId>,
    ) -> Result<Passed, LoadError> {
        Ok(match operand.kind {
            OperandKind::Sink => Passed::Nothing,
            OperandKind::Variable(id) => match self.place(id) {
                Place::Frame(offset) => Passed::Frame {
                    offset,
                    bytes: self.module.variable(id).bytes() as u32,
                },
                Place::Register(id) => Passed::Values(self.held(id)),
                _ => Passed::Values(vec![(self.source(it, operand, Type::U64)?, 8)]),
            },
            OperandKind::Register(id) => Passed::Values(self.held(id)),
            _ => {
                let formal = formal.ok_or_else(|| self.unsupported(it.instruction))?;
                let formal = self.module.variable(formal);
                // For a vector a constant counts as long as it is: integers and doubles have 64 bits.
                let whole = formal.vector > 1 || formal.ty == Type::F16x2;
                let ty = match operand.kind {
                    _ if !whole => formal.ty,
                    OperandKind::Single(_) => Type::B32,
                    _ => Type::B64,
                };
                let sources = self.sources(it, operand, ty)?;
                let bytes = ty.bits().min(64).div_ceil(8);
                Passed::Values(sources.into_iter().map(|source| (source, bytes)).collect())
            }
        })
    }

    /// What a register holds, all its elements.
    fn held(&self, id: RegisterId) -> Vec<(Source, u32)> {
        let pieces = self.registers.pieces(id).into_iter();
        pieces
            .map(|Piece { slot, mask, bytes }| (Source::Register { slot, mask }, bytes))
            .collect()
    }

    fn returned(&self, it: &Statics<'m>, operand: &'m Operand) -> Result<Returned, LoadError> {
        Ok(match operand.kind {
            OperandKind::Sink => Returned::Nothing,
            OperandKind::Register(id) => Returned::Registers(self.registers.pieces(id)),
            OperandKind::Variable(id) => match self.place(id) {
                Place::Frame(offset) => Returned::Frame {
                    offset,
                    bytes: self.module.variable(id).bytes() as u32,
                },
                Place::Register(id) => Returned::Registers(self.registers.pieces(id)),
                _ => return Err(self.unsupported(it.instruction)),
            },
            _ => return Err(self.unsupported(it.instruction)),
        })
    }
}
