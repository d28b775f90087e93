//! Loads and stores of all spaces, and what steers the caches.
//!
//! A sum with a known number in an address goes into the instruction's offset. Global and generic accesses name a
//! descriptor; a cache policy takes its place.

use super::selector::{Selector, Shared, not_pt, pt, rz, urz, with_index};
use super::source::Source;
use super::{WORD, sources};
use crate::memory_order::{self, Fences, Membar};
use crate::pipeline::PhaseError;
use crate::policy;
use orias_ori::operation::{Cache, Evict, Order, Prefetch, Scalar, Scope, Space, Vector};
use orias_ori::{
    AbstractMods, AbstractOp, Address, BaseForm, Class, Guard, Inst, Operand, OptReg, PhysReg, Reg,
    SymbolPart, Type, Value,
};
use orias_sass::Op;

type Done = Result<(), PhaseError>;

/// Offsets that every address field of a memory access holds.
const OFFSET_LIMIT: i64 = 1 << 23;

/// An abstract address, sums with known numbers taken out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) base: Option<Value>,
    pub(super) symbol: Option<orias_ori::Symbol>,
    pub(super) offset: i64,
}

/// How an access is ordered and cached.
pub(super) struct Access {
    pub(super) order: &'static str,
    pub(super) cache: &'static str,
    pub(super) ahead: &'static str,
}

impl Selector<'_> {
    /// The address in source `index`.
    pub(super) fn place(&self, index: usize) -> Result<Place, PhaseError> {
        let Operand::Address(id) = self.operand(index) else {
            return Err(self.broken("not an address"));
        };
        let address = *self.func.address(id);
        let mut place = Place {
            base: address.base.get().and_then(Reg::value),
            symbol: address.symbol.expand(),
            offset: i64::from(address.offset),
        };
        for _ in 0..8 {
            let Some((base, more)) = place.base.and_then(|base| self.known_term(base)) else {
                break;
            };
            let offset = place.offset.wrapping_add(more);
            if offset.abs() >= OFFSET_LIMIT {
                break;
            }
            place.base = base;
            place.offset = offset;
        }
        Ok(place)
    }

    /// What `value` is besides a known number, and that number.
    fn known_term(&self, value: Value) -> Option<(Option<Value>, i64)> {
        let (inst, op) = self.definition(value)?;
        let operands = self.func.operands(inst);
        let number = |operand: Operand| match operand {
            Operand::Imm(imm) => match self.func.value_type(value) {
                Type::R => Some(i64::from(imm.bits() as u32 as i32)),
                _ => Some(imm.bits() as i64),
            },
            _ => None,
        };
        match op {
            AbstractOp::Mov => match operands[1] {
                Operand::Imm(_) => Some((None, number(operands[1])?)),
                operand => Some((Some(operand.as_value()?), 0)),
            },
            AbstractOp::Add if self.func.modifier::<Scalar>(inst)?.bits() >= 32 => {
                let (a, b) = (operands[1], operands[2]);
                match (a.as_value(), b.as_value()) {
                    (Some(base), None) => Some((Some(base), number(b)?)),
                    (None, Some(base)) => Some((Some(base), number(a)?)),
                    _ => None,
                }
            }
            AbstractOp::Sub if self.func.modifier::<Scalar>(inst)?.bits() >= 32 => Some((
                Some(operands[1].as_value()?),
                number(operands[2])?.checked_neg()?,
            )),
            _ => None,
        }
    }

    /// The offset of `place` if it fits the field; else it becomes part of the base.
    fn settled(&mut self, place: Place) -> Result<(Place, i32), PhaseError> {
        if place.offset.abs() < OFFSET_LIMIT {
            return Ok((place, place.offset as i32));
        }
        let base = match place.base {
            None => {
                let bits = place.offset as u64;
                match i32::try_from(place.offset) {
                    Ok(_) => self.in_register(Operand::imm(bits & 0xffff_ffff).into())?,
                    Err(_) => return Err(self.broken("an address of more than 32 bits")),
                }
            }
            Some(base) if self.func.value_type(base) == Type::R => {
                self.sum(base.into(), Source::imm(place.offset as u32))?
            }
            Some(base) => {
                let pair = self.temporary(Type::R2);
                self.count(pair);
                let words = self.words_of(base.into());
                let carry = self.temporary(Type::P);
                let low = self.temporary(WORD);
                let bits = place.offset as u64;
                let operands = sources![low, carry, pt(), words[0], Source::imm(bits as u32), rz()];
                self.emit(Op::IADD3, &[], operands)?;
                let more = Source::imm((bits >> 32) as u32);
                let high = self.add_with_carry(words[1], more, false, carry.into(), pt())?;
                self.define_pair(pair, low.into(), high.into())?;
                pair
            }
        };
        let place = Place {
            base: Some(base),
            offset: 0,
            ..place
        };
        Ok((place, 0))
    }

    /// The word a 32-bit address starts from: the low word of a pair.
    pub(super) fn base_word(&mut self, base: Option<Value>) -> Result<Option<Value>, PhaseError> {
        match base {
            Some(base) if self.func.value_type(base) != Type::R => {
                let [low, _] = self.words_of(base.into());
                Ok(Some(self.in_register(low)?))
            }
            Some(base) => {
                // A parameter or a number may stand behind the name.
                Ok(Some(base))
            }
            None => Ok(None),
        }
    }

    /// The pair a 64-bit address starts from: a name, a pair, or a word without sign.
    fn base_pair(&mut self, place: Place) -> Result<Reg, PhaseError> {
        let base = match place.base {
            Some(base) if self.func.value_type(base) == Type::R => {
                let pair = self.temporary(Type::R2);
                self.count(pair);
                self.define_pair(pair, base.into(), rz().into())?;
                Some(pair)
            }
            other => other,
        };
        let Some(symbol) = place.symbol else {
            return Ok(match base {
                Some(base) => base.into(),
                None => rz().reg().unwrap_or(Reg::from(self.temporary(Type::R2))),
            });
        };
        let parts = [SymbolPart::Low, SymbolPart::High].map(|part| Operand::Symbol {
            symbol,
            part,
            addend: 0,
        });
        let pair = self.temporary(Type::R2);
        self.count(pair);
        match base {
            None => self.define_pair(pair, parts[0].into(), parts[1].into())?,
            Some(base) => {
                let words = self.words_of(base.into());
                let carry = self.temporary(Type::P);
                let low = self.temporary(WORD);
                let operands = sources![low, carry, pt(), words[0], parts[0], rz()];
                self.emit(Op::IADD3, &[], operands)?;
                let high =
                    self.add_with_carry(words[1], parts[1].into(), false, carry.into(), pt())?;
                self.define_pair(pair, low.into(), high.into())?;
            }
        }
        Ok(pair.into())
    }

    /// A machine address in global or generic memory.
    pub(super) fn far_address(
        &mut self,
        place: Place,
        policy: Operand,
        described: bool,
    ) -> Result<Operand, PhaseError> {
        let (place, offset) = self.settled(place)?;
        let base = self.base_pair(place)?;
        let descriptor = match (described, policy) {
            (false, _) => OptReg::NONE,
            (true, Operand::None) => self.shared(Shared::Descriptor).into(),
            (true, policy) => self.policy_register(policy)?.into(),
        };
        Ok(self.func.create_address(Address {
            base: base.into(),
            descriptor,
            offset,
            form: if described {
                BaseForm::Wide
            } else {
                BaseForm::Plain
            },
            ..Address::default()
        }))
    }

    /// A machine address in global memory without a descriptor: `[R2.64+URZ+0x8]`.
    pub(super) fn bare_address(&mut self, place: Place) -> Result<Operand, PhaseError> {
        let (place, offset) = self.settled(place)?;
        let base = self.base_pair(place)?;
        Ok(self.func.create_address(Address {
            base: base.into(),
            uniform: urz().reg().into(),
            offset,
            form: BaseForm::Wide,
            ..Address::default()
        }))
    }

    /// A cache policy in uniform registers.
    fn policy_register(&mut self, policy: Operand) -> Result<Value, PhaseError> {
        let known = policy.as_value().and_then(|value| {
            let (inst, op) = self.definition(value)?;
            (op == AbstractOp::CreatePolicy).then_some(())?;
            self.known_policy(inst)
        });
        if let Some(upper) = known {
            return Ok(self.shared(Shared::Policy(upper)));
        }
        let words = self.words_of(policy);
        let mut parts = Vec::new();
        for word in words {
            let word = self.in_register(word)?;
            let uniform = self.temporary(Type::single(Class::UR));
            self.emit(Op::R2UR, &[], sources![pt(), uniform, word])?;
            parts.push(uniform);
        }
        let Some(ty) = Type::tuple(Class::UR, 2) else {
            return Err(self.broken("no pair of uniform registers"));
        };
        let pair = self.temporary(ty);
        let operands = [pair.into(), parts[0].into(), parts[1].into()];
        let inst = self
            .func
            .create_abstract(AbstractOp::Collect, AbstractMods::NONE, 1, &operands);
        self.insert(inst);
        Ok(pair)
    }

    /// The upper word of a policy that is known when the program is compiled: priorities and sixteenths of the accesses.
    fn known_policy(&mut self, inst: Inst) -> Option<u32> {
        let &[_, primary, secondary, fraction] = self.func.operands(inst) else {
            return None;
        };
        let fraction = match fraction {
            Operand::None => 1.0,
            operand => f32::from_bits(self.word_of(operand).constant()? as u32),
        };
        let head = policy::head(policy::Kind::Fraction, primary, secondary)?;
        let sixteenths = ((fraction * 16.0).ceil() as i32 - 1).clamp(0, 15) as u32;
        Some((head | sixteenths) << policy::HEAD)
    }

    /// A machine address in shared memory.
    pub(super) fn shared_address(&mut self, place: Place) -> Result<Operand, PhaseError> {
        let (place, offset) = self.settled(place)?;
        let base = self.base_word(place.base)?;
        let base = match base {
            Some(base) => base.into(),
            None => rz().reg().into(),
        };
        let uniform = match place.symbol {
            Some(_) => self.shared(Shared::BlockBase).into(),
            None => OptReg::NONE,
        };
        Ok(self.func.create_address(Address {
            base,
            uniform,
            symbol: place.symbol.into(),
            offset,
            ..Address::default()
        }))
    }

    /// The stack pointer, which the allocator leaves alone from now on.
    pub(super) fn stack_pointer(&mut self) -> Result<PhysReg, PhaseError> {
        let Some(register) = PhysReg::new(Class::R, self.machine.abi.stack_pointer) else {
            return Err(self.broken("no stack pointer"));
        };
        if !self.func.attributes.fixed.contains(&register) {
            self.func.attributes.fixed.push(register);
        }
        Ok(register)
    }

    /// A machine address in local memory. Without a base it counts from the frame, which starts at the stack pointer.
    fn local_address(&mut self, place: Place) -> Result<Operand, PhaseError> {
        if place.symbol.is_some() {
            return Err(self.unsupported());
        }
        let (place, offset) = self.settled(place)?;
        let base: OptReg = match self.base_word(place.base)? {
            Some(base) => base.into(),
            None => self.stack_pointer()?.into(),
        };
        Ok(self.func.create_address(Address {
            base,
            offset,
            ..Address::default()
        }))
    }

    /// A place in a constant bank: an index register and an offset.
    fn bank_place(&mut self, place: Place, space: Space) -> Result<Operand, PhaseError> {
        let (bank, start) = match space {
            Space::Param => (self.constants.bank, self.constants.params),
            _ => (self.constants.user_bank, 0),
        };
        let mut index = self.base_word(place.base)?;
        if let Some(symbol) = place.symbol {
            let name = Operand::Symbol {
                symbol,
                part: SymbolPart::Low,
                addend: 0,
            };
            index = Some(match index {
                None => self.in_register(name.into())?,
                Some(index) => self.sum(index.into(), name.into())?,
            });
        }
        let mut offset = i64::from(start) + place.offset;
        if i16::try_from(offset).is_err() {
            let far = Source::imm(offset as u32);
            index = Some(match index {
                None => self.in_register(far)?,
                Some(index) => self.sum(index.into(), far)?,
            });
            offset = 0;
        }
        Ok(with_index(Operand::Const {
            mods: orias_ori::SourceMods::NONE,
            bank,
            offset: offset as i32,
            index: index.map(Reg::from).into(),
        }))
    }

    /// The size field of an access.
    pub(super) fn access_size(&self) -> Result<&'static str, PhaseError> {
        let scalar: Scalar = self.modifier()?;
        let count: u16 = match self.modifier::<Vector>()? {
            Vector::V1 => 1,
            Vector::V2 => 2,
            Vector::V4 => 4,
            Vector::V8 => 8,
        };
        Ok(match (scalar, count * scalar.bits()) {
            (Scalar::S8, 8) => "S8",
            (_, 8) => "U8",
            (Scalar::S16, 16) => "S16",
            (_, 16) => "U16",
            (_, 32) => "32",
            (_, 64) => "64",
            (_, 128) => "128",
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
            (Order::Weak, Cache::Nc) if load => "CONSTANT",
            (Order::Weak, Cache::Ca) if load => "STRONG.SM",
            (Order::Weak, Cache::Wb) => "STRONG.SM",
            (Order::Weak, Cache::Cg) => "STRONG.GPU",
            (Order::Weak, Cache::Cv | Cache::Wt) => "STRONG.SYS",
            (Order::Weak, _) => "weak",
            (Order::Volatile, _) => "STRONG.SYS",
            (Order::Mmio, _) => "MMIO.SYS",
            _ => strong,
        };
        let evict = self
            .func
            .modifier::<Evict>(self.at)
            .unwrap_or(Evict::Default);
        let cache = match (evict, cache) {
            (Evict::First, _) | (Evict::Default, Cache::Cs) => "EF",
            (Evict::Last, _) => "EL",
            (Evict::Unchanged, _) => "EU",
            (Evict::NoAllocate, _) => "NA",
            (Evict::Default, Cache::Lu) => "LU",
            _ => "normal",
        };
        let ahead = match self.func.modifier::<Prefetch>(self.at) {
            Some(Prefetch::B64) => "LTC64B",
            Some(Prefetch::B128) => "LTC128B",
            Some(Prefetch::B256) => "LTC256B",
            _ => "none",
        };
        Ok(Access {
            order,
            cache,
            ahead,
        })
    }

    /// The order of an access that threads of the instruction's scope agree on.
    pub(super) fn strong_scope(&self) -> &'static str {
        match self.func.modifier::<Scope>(self.at) {
            Some(Scope::Cta) => "STRONG.SM",
            Some(Scope::Cluster | Scope::Gpu) => "STRONG.GPU",
            _ => "STRONG.SYS",
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
        self.emit_guarded(Op::CCTL_IVALL, &[("what", "IVALL")], sources![])?;
        Ok(())
    }

    /// A fence. The mark says that what reports errors of accesses before it will follow it (LateExpandSyncInstructions).
    pub(super) fn memory_barrier(&mut self, membar: Membar) -> Done {
        let mods = [("sem", membar.sem), ("scope", membar.scope)];
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
            let inst = s.emit_guarded(Op::LDS, &[("size", size)], sources![result, address])?;
            s.mark_strong(inst);
            s.fence_after()?;
        }
        Space::Local => {
            let address = s.local_address(place)?;
            let mods = [("size", size), ("cache", access.cache)];
            s.emit_guarded(Op::LDL, &mods, sources![result, address])?;
        }
        Space::Global | Space::Generic => {
            let described = access.order != "MMIO.SYS";
            let address = s.far_address(place, policy, described)?;
            let mods = [
                ("e", "E"),
                ("size", size),
                ("order", access.order),
                ("cache", access.cache),
                ("ltc", access.ahead),
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
fn load_bank(s: &mut Selector<'_>, place: Place, space: Space, size: &'static str) -> Done {
    if size != "128" {
        let from = s.bank_place(place, space)?;
        let result = s.result(0);
        s.emit_guarded(Op::LDC, &[("size", size)], sources![result, from])?;
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
        s.emit(Op::LDC, &[("size", "64")], sources![value, from])?;
        operands.push(value.into());
    }
    let inst = s
        .func
        .create_abstract(AbstractOp::Collect, AbstractMods::NONE, 1, &operands);
    s.insert(inst);
    Ok(())
}

impl Selector<'_> {
    /// What is stored or combined: source `index`, as wide as the access is.
    pub(super) fn payload(&mut self, index: usize, size: &str) -> Source {
        match size {
            "128" => self.operand(index).into(),
            "64" | "S64" => self.pair(index),
            _ => self.word(index),
        }
    }
}

pub(super) fn store(s: &mut Selector<'_>) -> Done {
    let space: Space = s.modifier()?;
    let size = match s.access_size()? {
        "S8" => "U8",
        "S16" => "U16",
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
            let inst = s.emit_guarded(Op::STS, &[("size", size)], sources![address, value])?;
            s.mark_strong(inst);
        }
        Space::Local => {
            let address = s.local_address(place)?;
            let mods = [("size", size), ("cache", access.cache)];
            s.emit_guarded(Op::STL, &mods, sources![address, value])?;
        }
        Space::Global | Space::Generic => {
            let described = access.order != "MMIO.SYS";
            s.fence_before()?;
            let address = s.far_address(place, policy, described)?;
            let mods = [
                ("e", "E"),
                ("size", size),
                ("order", access.order),
                ("cache", access.cache),
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
fn line_control(s: &mut Selector<'_>, what: &str) -> Done {
    let place = s.place(0)?;
    let address = s.far_address(place, Operand::None, false)?;
    s.emit_guarded(Op::CCTL, &[("e", "E"), ("what", what)], sources![address])?;
    Ok(())
}

pub(super) fn prefetch(s: &mut Selector<'_>) -> Done {
    let level = match s.operand(1) {
        Operand::Imm(imm) => imm.bits(),
        _ => 1,
    };
    let evict = s.func.modifier::<Evict>(s.at).unwrap_or(Evict::Default);
    let what = match (level, evict) {
        (1, Evict::Default | Evict::Normal) => "PF1",
        (2, Evict::Default | Evict::Normal) => "PF2",
        (2, Evict::Last) => "PML2",
        _ => return Err(s.unsupported()),
    };
    line_control(s, what)
}

/// Gives up a line's contents, or its priority.
pub(super) fn line(s: &mut Selector<'_>) -> Done {
    match s.op() {
        Some(AbstractOp::Discard) => line_control(s, "RML2"),
        _ => line_control(s, "DML2"),
    }
}

/// A cache policy as a value.
pub(super) fn create_policy(s: &mut Selector<'_>) -> Done {
    let Some(word) = s.known_policy(s.at) else {
        return Err(s.unsupported());
    };
    s.set_pair(0, rz().into(), Source::imm(word))
}

/// The stack pointer as a value.
pub(super) fn stack_save(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let pointer = Operand::from(s.stack_pointer()?);
    let value = s.temporary(WORD);
    s.copy(value, pointer.into())?;
    give_address(s, scalar, value)
}

/// A local address as the result: one word, or two.
fn give_address(s: &mut Selector<'_>, scalar: Scalar, value: Value) -> Done {
    match (scalar, s.result(0).as_value()) {
        (Scalar::B64, _) => s.set_pair(0, value.into(), rz().into()),
        (_, Some(result)) => {
            s.rename(result, value);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Moves the stack pointer to `value`, if the guard holds.
fn set_stack_pointer(s: &mut Selector<'_>, value: Source) -> Done {
    let pointer = Operand::from(s.stack_pointer()?);
    s.emit_guarded(Op::MOV, &[], sources![pointer, value, Operand::imm(0xf)])?;
    Ok(())
}

pub(super) fn stack_restore(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let value = match scalar {
        Scalar::B64 => s.words(0)[0],
        _ => s.word(0),
    };
    set_stack_pointer(s, value)
}

/// Space on the stack, which grows down.
pub(super) fn stack_allocate(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let Operand::Imm(align) = s.operand(1) else {
        return Err(s.broken("the alignment is not a number"));
    };
    let align = (align.bits() as u32).max(s.machine.abi.stack_alignment);
    if !align.is_power_of_two() {
        return Err(s.broken("the alignment is not a power of two"));
    }
    let pointer = Operand::from(s.stack_pointer()?);
    let size = s.word(0);
    let size = s.in_register(size)?;
    let minus = Source::from(size).negated().unwrap_or(size.into());
    let lower = s.sum(pointer.into(), minus)?;
    let aligned = s.temporary(WORD);
    let mask = Source::imm(align.wrapping_neg());
    let and = Operand::imm(0xc0);
    s.emit(
        Op::LOP3,
        &[],
        sources![pt(), aligned, lower, mask, rz(), and, not_pt()],
    )?;
    set_stack_pointer(s, aligned.into())?;
    give_address(s, scalar, aligned)
}
