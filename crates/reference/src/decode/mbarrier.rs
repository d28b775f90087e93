//! Mbarriers, the barrier of a cluster, addresses in other CTAs, and stores that tell an mbarrier.

use super::{Decoder, Statics};
use crate::error::LoadError;
use crate::memory::RANK_SHIFT;
use crate::step::{Action, Address, MbarrierAction, MbarrierStep, Space};
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::{Pattern, PatternKind};

impl<'m> Decoder<'m, '_> {
    pub(super) fn mbarriers(&self, it: &Statics<'m>) -> Result<Option<Action>, LoadError> {
        use MbarrierAction as Do;
        let no_complete = it.has(Modifier::NoComplete);
        let (action, operand) = match it.op {
            Op::MbarrierInit => (Do::Init, Some(operand::COUNT)),
            Op::MbarrierInval => (Do::Invalidate, None),
            Op::MbarrierExpectTx => (Do::Expect, Some(operand::TXCOUNT)),
            Op::MbarrierCompleteTx => (Do::Complete, Some(operand::TXCOUNT)),
            Op::MbarrierArrive | Op::MbarrierArriveDrop => {
                let arrive = Do::Arrive {
                    drops: it.op == Op::MbarrierArriveDrop,
                    completes: !no_complete,
                };
                (arrive, Some(operand::COUNT))
            }
            Op::MbarrierArriveExpectTx => {
                (Do::ArriveExpecting { drops: false }, Some(operand::TXCOUNT))
            }
            Op::MbarrierArriveDropExpectTx => {
                (Do::ArriveExpecting { drops: true }, Some(operand::TXCOUNT))
            }
            Op::MbarrierTestWait | Op::MbarrierTryWait => (Do::TestState, Some(operand::STATE)),
            Op::MbarrierTestWaitParity | Op::MbarrierTryWaitParity => {
                (Do::TestParity, Some(operand::PARITY))
            }
            Op::CpAsyncMbarrierArrive => {
                let counted = it.has(Modifier::Noinc);
                (Do::ArriveAfterCopies { counted }, None)
            }
            _ => return self.clusters(it),
        };
        let waits = matches!(action, Do::TestState | Do::TestParity);
        let result = match it.named(if waits { operand::P } else { operand::STATE }) {
            Some((
                Pattern {
                    kind: PatternKind::Value(value),
                    ..
                },
                operand,
            )) => self.destination(it, operand, value.ty)?,
            _ => None,
        };
        let operand = match operand {
            Some(name) => self.optional_value(it, name)?,
            None => None,
        };
        Ok(Some(Action::Mbarrier(MbarrierStep {
            action,
            address: self.address(it, operand::A)?,
            operand,
            result,
            orders: !it.has(Modifier::Relaxed),
        })))
    }

    fn clusters(&self, it: &Statics<'m>) -> Result<Option<Action>, LoadError> {
        Ok(Some(match it.op {
            Op::BarrierClusterArrive => Action::ClusterArrive {
                releases: !it.has(Modifier::Relaxed),
            },
            Op::BarrierClusterWait => Action::ClusterWait {
                acquires: !it.has(Modifier::Relaxed),
            },
            Op::MbarrierPendingCount => Action::Compute {
                function: Box::new(|[state, ..]| {
                    [orias_eval::mbarrier::pending_count(*state).into(), 0]
                }),
                sources: vec![self.value(it, operand::STATE)?],
                results: [self.result(it, operand::COUNT)?, None],
                carry: false,
            },
            // The number of the CTA stands in the same bits of generic addresses.
            Op::Mapa => Action::Compute {
                function: Box::new(|[address, rank, ..]| {
                    let place = 0xff << RANK_SHIFT;
                    [address & !place | (rank << RANK_SHIFT) & place, 0]
                }),
                sources: vec![self.value(it, operand::A)?, self.value(it, operand::B)?],
                results: [self.result(it, operand::D)?, None],
                carry: false,
            },
            Op::Getctarank => Action::Compute {
                function: Box::new(|[address, ..]| [address >> RANK_SHIFT & 0xff, 0]),
                sources: vec![self.value(it, operand::A)?],
                results: [self.result(it, operand::D)?, None],
                carry: false,
            },
            Op::StAsync if it.has(Modifier::MbarrierCompleteTxBytes) => {
                let Action::Store {
                    address,
                    bytes,
                    elements,
                    strength,
                } = self.store(it)?
                else {
                    return Err(self.unsupported(it.instruction));
                };
                let total = u64::from(bytes) * elements.len() as u64;
                Action::Telling {
                    action: Box::new(Action::Store {
                        address: in_cluster(address),
                        bytes,
                        elements,
                        strength,
                    }),
                    barrier: in_cluster(self.address(it, operand::MBAR)?),
                    bytes: total,
                }
            }
            Op::RedAsync if !it.has(Modifier::Release) => {
                let Action::Atomic {
                    address,
                    bytes,
                    update,
                    operands,
                    results,
                    strength,
                    seen,
                } = self.atomic(it)?
                else {
                    return Err(self.unsupported(it.instruction));
                };
                Action::Telling {
                    action: Box::new(Action::Atomic {
                        address: in_cluster(address),
                        bytes,
                        update,
                        operands,
                        results,
                        strength,
                        seen,
                    }),
                    barrier: in_cluster(self.address(it, operand::MBAR)?),
                    bytes: bytes.into(),
                }
            }
            _ => return Ok(None),
        }))
    }
}

/// The address as one of the cluster.
fn in_cluster(address: Address) -> Address {
    Address {
        space: match address.space {
            Space::Shared => Space::Cluster,
            space => space,
        },
        ..address
    }
}
