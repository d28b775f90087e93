//! Loads, stores, atomics and asynchronous copies.

use super::operands::words;
use super::{Decoder, Statics};
use crate::compute;
use crate::error::LoadError;
use crate::order::{Order, Scope, Strength};
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
            Op::Membar | Op::Fence => Ok(Some(fence(it))),
            // There is one proxy, so there is nothing to wait for and nothing to prepare.
            Op::MembarProxy
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
            strength: strength(it),
        })
    }

    pub(super) fn store(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let (operand, ty) = self.listed(it, operand::B)?;
        Ok(Action::Store {
            address: self.address(it, operand::A)?,
            bytes: ty.bits() / 8 / words(ty),
            elements: self.sources(it, operand, ty)?,
            strength: strength(it),
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
                strength: atomic_strength(it),
            });
        }
        let update = self.update(it, ty, address.space != Space::Shared)?;
        Ok(Action::Atomic {
            address,
            bytes: ty.bits() / 8,
            update,
            results: (0..first.len()).map(|at| element(&results, at)).collect(),
            operands: first.into_iter().zip(second).map(|(b, c)| [b, c]).collect(),
            strength: atomic_strength(it),
            seen: it.op == Op::Atom,
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

/// The scope that a form names.
fn scope(it: &Statics<'_>) -> Option<Scope> {
    if it.has(Modifier::Cta) {
        Some(Scope::Cta)
    } else if it.has(Modifier::Cluster) {
        Some(Scope::Cluster)
    } else if it.has(Modifier::Gpu) || it.has(Modifier::Gl) || it.has(Modifier::Sys) {
        Some(Scope::Gpu)
    } else {
        None
    }
}

/// The order that a form names.
fn order(it: &Statics<'_>) -> Option<Order> {
    const ORDERS: [(Modifier, Order); 5] = [
        (Modifier::Relaxed, Order::Relaxed),
        (Modifier::Acquire, Order::Acquire),
        (Modifier::Release, Order::Release),
        (Modifier::AcqRel, Order::AcquireRelease),
        (Modifier::Sc, Order::SequentiallyConsistent),
    ];
    let named = ORDERS.into_iter().find(|(modifier, _)| it.has(*modifier));
    named.map(|(_, order)| order)
}

/// How strong a load or store is. A volatile access is a relaxed one of the system.
fn strength(it: &Statics<'_>) -> Option<Strength> {
    let order = match order(it) {
        None if it.has(Modifier::Volatile) || it.has(Modifier::Mmio) => Order::Relaxed,
        order => order?,
    };
    Some(Strength {
        order,
        scope: scope(it).unwrap_or(Scope::Gpu),
    })
}

/// How strong an atomic is: relaxed and of the GPU if nothing is said.
fn atomic_strength(it: &Statics<'_>) -> Strength {
    Strength {
        order: order(it).unwrap_or(Order::Relaxed),
        scope: scope(it).unwrap_or(Scope::Gpu),
    }
}

/// `membar` is `fence.sc`. A fence for mbarriers and their set-up orders nothing that is looked at here.
fn fence(it: &Statics<'_>) -> Action {
    const RESTRICTED: [Modifier; 3] = [
        Modifier::MbarrierInit,
        Modifier::SyncRestrictSharedCta,
        Modifier::SyncRestrictSharedCluster,
    ];
    if RESTRICTED.into_iter().any(|modifier| it.has(modifier)) {
        return Action::Nothing;
    }
    let default = match it.op {
        Op::Membar => Order::SequentiallyConsistent,
        _ => Order::AcquireRelease,
    };
    Action::Fence(Strength {
        order: order(it).unwrap_or(default),
        scope: scope(it).unwrap_or(Scope::Gpu),
    })
}
