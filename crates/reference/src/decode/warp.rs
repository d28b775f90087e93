//! What threads of a warp do together, and barriers of a CTA.

use super::{Decoder, Statics};
use crate::collective::Collective;
use crate::compute;
use crate::error::LoadError;
use crate::matrix::{FragmentProduct, MatrixInMemory, MatrixShape, WarpgroupShape};
use crate::step::{Action, BarrierAction, CollectiveStep, Element, Source};
use orias_eval::warp::Shuffle;
use orias_ptx::ast::Operand;
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::grammar::slot_names as slot;
use orias_ptx::grammar::{Access, Modifier, Op};
use orias_ptx::opcode::{Pattern, PatternKind};

impl<'m> Decoder<'m, '_> {
    pub(super) fn warp(&self, it: &Statics<'m>) -> Result<Option<Action>, LoadError> {
        if let Some(action) = barrier_action(it) {
            return self.barrier(it, action).map(Some);
        }
        let Some(kind) = self.collective_kind(it)? else {
            return Ok(None);
        };
        let mut step = CollectiveStep {
            kind,
            opcode: it.instruction.opcode.0,
            members: self.optional_value(it, operand::MEMBERMASK)?,
            sources: Vec::new(),
            results: Vec::new(),
            address: None,
        };
        for (pattern, operand) in it.patterns.iter().zip(it.operands) {
            match &pattern.kind {
                PatternKind::Pair(both, _) => match self.pair(operand) {
                    Some([first, second]) => {
                        self.collective_operand(it, &both[0], first, &mut step)?;
                        self.collective_operand(it, &both[1], second, &mut step)?;
                    }
                    None => {
                        self.collective_operand(it, &both[0], operand, &mut step)?;
                        step.results.push(None);
                    }
                },
                PatternKind::Address(_) | PatternKind::Bracket(_) => {
                    step.address = Some(self.address_in(it, pattern, operand)?)
                }
                _ if pattern.is(operand::MEMBERMASK) => {}
                _ => self.collective_operand(it, pattern, operand, &mut step)?,
            }
        }
        Ok(Some(Action::Collective(Box::new(step))))
    }

    fn collective_operand(
        &self,
        it: &Statics<'m>,
        pattern: &Pattern,
        operand: &'m Operand,
        step: &mut CollectiveStep,
    ) -> Result<(), LoadError> {
        let (PatternKind::Value(value) | PatternKind::Vector(_, _, value)) = &pattern.kind else {
            return Err(self.unsupported(it.instruction));
        };
        if pattern.access != Access::Write {
            let sources: Vec<Source> = self.sources(it, operand, value.ty)?;
            step.sources.extend(sources);
        }
        if pattern.access != Access::Read {
            let results: Vec<Element> = self.destinations(it, operand, value.ty)?;
            step.results.extend(results);
        }
        Ok(())
    }

    fn collective_kind(&self, it: &Statics<'m>) -> Result<Option<Collective>, LoadError> {
        let unsupported = || self.unsupported(it.instruction);
        // Without `.sync` these are gone from the targets this executes.
        let synchronous = it.has(Modifier::Sync);
        Ok(Some(match it.op {
            Op::Shfl if synchronous => Collective::Shuffle(match it.form.get(slot::MODE) {
                Some(Modifier::Up) => Shuffle::Up,
                Some(Modifier::Down) => Shuffle::Down,
                Some(Modifier::Bfly) => Shuffle::Butterfly,
                Some(Modifier::Idx) => Shuffle::Index,
                _ => return Err(unsupported()),
            }),
            Op::Vote if synchronous => {
                if it.has(Modifier::All) {
                    Collective::All
                } else if it.has(Modifier::Any) {
                    Collective::Any
                } else if it.has(Modifier::Uni) {
                    Collective::Uniform
                } else if it.has(Modifier::Ballot) {
                    Collective::Ballot
                } else {
                    return Err(unsupported());
                }
            }
            Op::Match if it.has(Modifier::Any) => Collective::MatchAny,
            Op::Match => Collective::MatchAll,
            Op::Activemask => Collective::ActiveMask,
            Op::Elect => Collective::Elect,
            Op::BarWarpSync => Collective::Synchronise,
            Op::Redux => {
                let ty = it.form.types().next().ok_or_else(unsupported)?;
                let operation = it.form.get(slot::OP).ok_or_else(unsupported)?;
                Collective::Reduce(compute::reduce(operation, ty).ok_or_else(unsupported)?)
            }
            Op::Ldmatrix if it.has(Modifier::M8n8) => Collective::LoadMatrix {
                transposed: it.has(Modifier::Trans),
            },
            Op::Stmatrix if it.has(Modifier::M8n8) => Collective::StoreMatrix {
                transposed: it.has(Modifier::Trans),
            },
            Op::Movmatrix => Collective::TransposeMatrix,
            Op::WmmaLoadA | Op::WmmaLoadB | Op::WmmaLoadC => {
                let matrix = MatrixInMemory::of(it.op, it.form);
                Collective::LoadFragment(matrix.ok_or_else(unsupported)?)
            }
            Op::WmmaStoreD => {
                let matrix = MatrixInMemory::of(it.op, it.form);
                Collective::StoreFragment(matrix.ok_or_else(unsupported)?)
            }
            Op::WmmaMma => {
                let product = FragmentProduct::of(it.form);
                Collective::MultiplyFragments(product.ok_or_else(unsupported)?)
            }
            Op::Mma => Collective::Multiply(MatrixShape::of(it.form).ok_or_else(unsupported)?),
            Op::WgmmaMmaAsync => {
                let in_registers = it.patterns.iter().any(|pattern| pattern.is(operand::A));
                let shape = WarpgroupShape::of(it.form, in_registers);
                Collective::WarpgroupMultiply(shape.ok_or_else(unsupported)?)
            }
            Op::WgmmaFence | Op::WgmmaCommitGroup | Op::WgmmaWaitGroup => Collective::Synchronise,
            _ => return Ok(None),
        }))
    }

    fn barrier(&self, it: &Statics<'m>, action: BarrierAction) -> Result<Action, LoadError> {
        let result = match action {
            BarrierAction::Count => self.result(it, operand::D)?,
            BarrierAction::And | BarrierAction::Or => self.result(it, operand::P)?,
            BarrierAction::Sync | BarrierAction::Arrive => None,
        };
        Ok(Action::Barrier {
            action,
            number: self.value(it, operand::A)?,
            count: self.optional_value(it, operand::B)?,
            predicate: self.optional_value(it, operand::C)?,
            result,
        })
    }
}

fn barrier_action(it: &Statics<'_>) -> Option<BarrierAction> {
    Some(match it.op {
        Op::BarSync
        | Op::BarCtaSync
        | Op::Barrier
        | Op::BarrierCta
        | Op::BarrierSync
        | Op::BarrierCtaSync => BarrierAction::Sync,
        Op::BarArrive | Op::BarCtaArrive | Op::BarrierArrive | Op::BarrierCtaArrive => {
            BarrierAction::Arrive
        }
        Op::BarRed | Op::BarCtaRed | Op::BarrierRed | Op::BarrierCtaRed => {
            if it.has(Modifier::Popc) {
                BarrierAction::Count
            } else if it.has(Modifier::And) {
                BarrierAction::And
            } else {
                BarrierAction::Or
            }
        }
        _ => return None,
    })
}
