//! Loads and stores of all spaces, and what steers the caches.
//!
//! A sum with a known number in an address goes into the instruction's offset. Global and generic accesses name a
//! descriptor; a cache policy takes its place.

use super::address::Place;
use super::selector::{Selector, pt, rz};
use super::source::Source;
use super::sources;
use crate::memory_order::{self, Fences, Membar};
use crate::pipeline::PhaseError;
use orias_ori::operation::{Cache, Evict, Order, Prefetch, Scalar, Scope, Space, Vector};
use orias_ori::{AbstractMods, AbstractOp, Guard, Inst, Operand, Type};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// How an access is ordered and cached.
pub(super) struct Access {
    pub(super) order: ValueName,
    pub(super) cache: ValueName,
    pub(super) ahead: ValueName,
}

impl Selector<'_> {
    /// The size field of an access.
    pub(super) fn access_size(&self) -> Result<ValueName, PhaseError> {
        let scalar: Scalar = self.modifier()?;
        let count: u16 = match self.modifier::<Vector>()? {
            Vector::V1 => 1,
            Vector::V2 => 2,
            Vector::V4 => 4,
            Vector::V8 => 8,
        };
        Ok(match (scalar, count * scalar.bits()) {
            (Scalar::S8, 8) => value::S8,
            (_, 8) => value::U8,
            (Scalar::S16, 16) => value::S16,
            (_, 16) => value::U16,
            (_, 32) => value::_32,
            (_, 64) => value::_64,
            (_, 128) => value::_128,
            _ => return Err(self.unsupported()),
        })
    }

    /// How the machine names the order of an access, for loads or for stores and atomics.
    pub(super) fn access(&self, load: bool) -> Result<Access, PhaseError> {
        let order = self.func.modifier::<Order>(self.at).unwrap_or(Order::Weak);
        let cache = self
            .func
            .modifier::<Cache>(self.at)
            .unwrap_or(Cache::Default);
        let strong = self.strong_scope();
        let order = match (order, cache) {
            (Order::Weak, Cache::Nc) if load => value::CONSTANT,
            (Order::Weak, Cache::Ca) if load => value::STRONG_SM,
            (Order::Weak, Cache::Wb) => value::STRONG_SM,
            (Order::Weak, Cache::Cg) => value::STRONG_GPU,
            (Order::Weak, Cache::Cv | Cache::Wt) => value::STRONG_SYS,
            (Order::Weak, _) => value::UNSAID_WEAK,
            (Order::Volatile, _) => value::STRONG_SYS,
            (Order::Mmio, _) => value::MMIO_SYS,
            _ => strong,
        };
        let evict = self
            .func
            .modifier::<Evict>(self.at)
            .unwrap_or(Evict::Default);
        let cache = match (evict, cache) {
            (Evict::First, _) | (Evict::Default, Cache::Cs) => value::EF,
            (Evict::Last, _) => value::EL,
            (Evict::Unchanged, _) => value::EU,
            (Evict::NoAllocate, _) => value::NA,
            (Evict::Default, Cache::Lu) => value::LU,
            _ => value::NORMAL,
        };
        let ahead = match self.func.modifier::<Prefetch>(self.at) {
            Some(Prefetch::B64) => value::LTC64B,
            Some(Prefetch::B128) => value::LTC128B,
            Some(Prefetch::B256) => value::LTC256B,
            _ => value::NONE,
        };
        Ok(Access {
            order,
            cache,
            ahead,
        })
    }

    /// The order of an access that threads of the instruction's scope agree on.
    pub(super) fn strong_scope(&self) -> ValueName {
        match self.func.modifier::<Scope>(self.at) {
            Some(Scope::Cta) => value::STRONG_SM,
            Some(Scope::Cluster | Scope::Gpu) => value::STRONG_GPU,
            _ => value::STRONG_SYS,
        }
    }

    /// The fences of the instruction's order.
    pub(super) fn fences(&self) -> Fences {
        let order = self.func.modifier::<Order>(self.at).unwrap_or(Order::Weak);
        let scope = self.func.modifier::<Scope>(self.at).unwrap_or(Scope::Sys);
        memory_order::fences(order, scope)
    }

    /// What must have happened before an access that releases.
    pub(super) fn fence_before(&mut self) -> Done {
        match self.fences().before {
            Some(membar) => self.memory_barrier(membar),
            None => Ok(()),
        }
    }

    /// What must happen after an access that acquires: lines of the first cache are stale.
    pub(super) fn fence_after(&mut self) -> Done {
        match self.fences().drops_cache {
            true => self.drop_cache(),
            false => Ok(()),
        }
    }

    /// Drops what the first-level cache holds.
    pub(super) fn drop_cache(&mut self) -> Done {
        self.emit_guarded(Op::CCTL_IVALL, &[(name::WHAT, value::IVALL)], sources![])?;
        Ok(())
    }

    /// A fence. The mark says that what reports errors of accesses before it will follow it (LateExpandSyncInstructions).
    pub(super) fn memory_barrier(&mut self, membar: Membar) -> Done {
        let mods = [(name::SEM, membar.sem), (name::SCOPE, membar.scope)];
        let inst = self.emit_guarded(Op::MEMBAR, &mods, sources![])?;
        self.func.set_strong(inst, membar.reports);
        Ok(())
    }

    /// Marks an access to shared memory that others must not pass; nothing in the instruction says so.
    fn mark_strong(&mut self, inst: Inst) {
        let order = self.func.modifier::<Order>(self.at).unwrap_or(Order::Weak);
        self.func.set_strong(inst, memory_order::is_strong(order));
    }
}

pub(super) fn load(s: &mut Selector<'_>) -> Done {
    let space: Space = s.modifier()?;
    let size = s.access_size()?;
    let place = s.place(0)?;
    let access = s.access(true)?;
    let policy = s.operand(1);
    let result = s.result(0);
    match space {
        Space::Param | Space::Const => return load_bank(s, place, space, size),
        Space::Shared => {
            let address = s.shared_address(place)?;
            let inst = s.emit_guarded(Op::LDS, &[(name::SIZE, size)], sources![result, address])?;
            s.mark_strong(inst);
            s.fence_after()?;
        }
        Space::Local => {
            let address = s.local_address(place)?;
            let mods = [(name::SIZE, size), (name::CACHE, access.cache)];
            s.emit_guarded(Op::LDL, &mods, sources![result, address])?;
        }
        Space::Global | Space::Generic => {
            let described = access.order != value::MMIO_SYS;
            let address = s.far_address(place, policy, described)?;
            let mods = [
                (name::E, value::E),
                (name::SIZE, size),
                (name::ORDER, access.order),
                (name::CACHE, access.cache),
                (name::LTC, access.ahead),
            ];
            match space {
                Space::Global => {
                    s.emit_guarded(Op::LDG, &mods, sources![pt(), result, address, pt()])?
                }
                _ => s.emit_guarded(Op::LD, &mods, sources![result, address, pt()])?,
            };
            s.fence_after()?;
        }
        Space::SharedCluster => return Err(s.unsupported()),
    }
    Ok(())
}

/// A load from a constant bank, in pieces of at most 64 bits.
fn load_bank(s: &mut Selector<'_>, place: Place, space: Space, size: ValueName) -> Done {
    if size != value::_128 {
        let from = s.bank_place(place, space)?;
        let result = s.result(0);
        s.emit_guarded(Op::LDC, &[(name::SIZE, size)], sources![result, from])?;
        return Ok(());
    }
    let Some(result) = s.result(0).as_value().filter(|_| s.guard == Guard::ALWAYS) else {
        return Err(s.unsupported());
    };
    let mut operands = vec![Operand::from(result)];
    for more in [0, 8] {
        let half = Place {
            offset: place.offset + more,
            ..place
        };
        let from = s.bank_place(half, space)?;
        let value = s.temporary(Type::R2);
        s.emit(Op::LDC, &[(name::SIZE, value::_64)], sources![value, from])?;
        operands.push(value.into());
    }
    let inst = s
        .func
        .create_abstract(AbstractOp::Collect, AbstractMods::NONE, 1, &operands);
    s.insert(inst);
    Ok(())
}

impl Selector<'_> {
    /// Whether every word of `operand` is zero: a number, or a tuple of such.
    fn is_zero(&self, operand: Operand) -> bool {
        let Some(value) = operand.as_value() else {
            return matches!(operand, Operand::Imm(bits) if bits.bits() == 0);
        };
        let Some((inst, op)) = self.definition(value) else {
            return false;
        };
        let parts = &self.func.operands(inst)[self.func.result_count(inst)..];
        match op {
            AbstractOp::Mov | AbstractOp::Collect => {
                !parts.is_empty() && parts.iter().all(|&part| self.is_zero(part))
            }
            _ => false,
        }
    }

    /// What is stored or combined: source `index`, as wide as the access is.
    pub(super) fn payload(&mut self, index: usize, size: ValueName) -> Source {
        match size {
            value::_128 | value::_64 | value::S64 if self.is_zero(self.operand(index)) => {
                rz().into()
            }
            value::_128 => self.operand(index).into(),
            value::_64 | value::S64 => self.pair(index),
            _ => self.word(index),
        }
    }
}

pub(super) fn store(s: &mut Selector<'_>) -> Done {
    let space: Space = s.modifier()?;
    let size = match s.access_size()? {
        value::S8 => value::U8,
        value::S16 => value::U16,
        other => other,
    };
    let place = s.place(0)?;
    let access = s.access(false)?;
    let policy = s.operand(2);
    let value = s.payload(1, size);
    match space {
        Space::Shared => {
            s.fence_before()?;
            let address = s.shared_address(place)?;
            let inst = s.emit_guarded(Op::STS, &[(name::SIZE, size)], sources![address, value])?;
            s.mark_strong(inst);
        }
        Space::Local => {
            let address = s.local_address(place)?;
            let mods = [(name::SIZE, size), (name::CACHE, access.cache)];
            s.emit_guarded(Op::STL, &mods, sources![address, value])?;
        }
        Space::Global | Space::Generic => {
            let described = access.order != value::MMIO_SYS;
            s.fence_before()?;
            let address = s.far_address(place, policy, described)?;
            let mods = [
                (name::E, value::E),
                (name::SIZE, size),
                (name::ORDER, access.order),
                (name::CACHE, access.cache),
            ];
            let op = match space {
                Space::Global => Op::STG,
                _ => Op::ST,
            };
            s.emit_guarded(op, &mods, sources![address, value])?;
        }
        Space::SharedCluster | Space::Param | Space::Const => return Err(s.unsupported()),
    }
    Ok(())
}

/// Cache control of a line.
fn line_control(s: &mut Selector<'_>, what: ValueName) -> Done {
    let place = s.place(0)?;
    let address = s.far_address(place, Operand::None, false)?;
    s.emit_guarded(
        Op::CCTL,
        &[(name::E, value::E), (name::WHAT, what)],
        sources![address],
    )?;
    Ok(())
}

pub(super) fn prefetch(s: &mut Selector<'_>) -> Done {
    let level = match s.operand(1) {
        Operand::Imm(imm) => imm.bits(),
        _ => 1,
    };
    let evict = s.func.modifier::<Evict>(s.at).unwrap_or(Evict::Default);
    let what = match (level, evict) {
        (1, Evict::Default | Evict::Normal) => value::PF1,
        (2, Evict::Default | Evict::Normal) => value::PF2,
        (2, Evict::Last) => value::PML2,
        _ => return Err(s.unsupported()),
    };
    line_control(s, what)
}

/// Gives up a line's contents, or its priority.
pub(super) fn line(s: &mut Selector<'_>) -> Done {
    match s.op() {
        Some(AbstractOp::Discard) => line_control(s, value::RML2),
        _ => line_control(s, value::DML2),
    }
}

/// A cache policy as a value.
pub(super) fn create_policy(s: &mut Selector<'_>) -> Done {
    let Some(word) = s.known_policy(s.at) else {
        return Err(s.unsupported());
    };
    s.set_pair(0, rz().into(), Source::imm(word))
}
