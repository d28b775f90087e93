//! The loops of atomic updates.
//!
//! | update | loop |
//! | --- | --- |
//! | words and doublewords in shared memory | load, compute, store if nothing has changed (`atom.cast`: ATOMS.CAST.SPIN), until it was stored |
//! | a half | the word it is in: load once, compute, compare and exchange; what is found instead is the next one to compare with |
//!
//! A relaxed minimum or maximum that would change nothing, and a comparison that fails, are over with the load, which then was the update.
//! Both loops make progress: a lane goes around only if another thread has changed the word (`select/retries.rs`).

use super::refused;
use super::updates::Update;
use crate::pipeline::PhaseError;
use orias_ori::builder::Cursor;
use orias_ori::operation::{
    Combine, Compare, Order, Permute, Reduce, Round, Scalar, Scope, SourceType, Space,
};
use orias_ori::{AbstractOp, Address, Block, Function, Operand, Reg, Type, Value};

/// The type a number of an update is compared and added as.
fn number_of(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::B64 => Scalar::U64,
        Scalar::B32 => Scalar::U32,
        other => other,
    }
}

/// The comparison of what memory holds with the operand that tells that an integer update changes nothing.
fn unchanged_if(reduce: Reduce) -> Option<Compare> {
    match reduce {
        Reduce::Min => Some(Compare::Le),
        Reduce::Max => Some(Compare::Ge),
        _ => None,
    }
}

/// Appends to a block, and goes on in others.
pub(super) struct BlockWriter<'f> {
    pub(super) func: &'f mut Function,
    pub(super) at: Block,
    pub(super) span: Option<orias_ori::Span>,
}

impl BlockWriter<'_> {
    pub(super) fn cursor(&mut self) -> Cursor<'_> {
        let mut cursor = Cursor::at_end(self.func, self.at);
        cursor.set_span(self.span);
        cursor
    }

    /// An operation of a type on two operands.
    pub(super) fn binary(
        &mut self,
        op: AbstractOp,
        scalar: Scalar,
        a: Operand,
        b: Operand,
    ) -> Result<Value, PhaseError> {
        self.cursor()
            .build(op)
            .with(scalar)
            .operand(a)
            .operand(b)
            .value()
            .map_err(refused)
    }

    pub(super) fn compare(
        &mut self,
        compare: Compare,
        scalar: Scalar,
        a: Operand,
        b: Operand,
    ) -> Result<Value, PhaseError> {
        self.cursor()
            .build(AbstractOp::Setp)
            .with(compare)
            .with(Combine::None)
            .with(scalar)
            .operand(a)
            .operand(b)
            .value()
            .map_err(refused)
    }

    fn choose(
        &mut self,
        scalar: Scalar,
        a: Operand,
        b: Operand,
        p: Value,
    ) -> Result<Value, PhaseError> {
        self.cursor()
            .build(AbstractOp::Selp)
            .with(scalar)
            .operand(a)
            .operand(b)
            .operand(p)
            .value()
            .map_err(refused)
    }

    /// Ends the block with a jump.
    pub(super) fn jump(&mut self, to: Block, args: &[Value]) -> Result<(), PhaseError> {
        self.cursor()
            .build(AbstractOp::Br)
            .edge(to, args)
            .finish()
            .map_err(refused)?;
        Ok(())
    }

    /// A new block behind the one being filled.
    pub(super) fn block(&mut self) -> Block {
        let block = self.func.create_block();
        self.func.layout.insert_block_after(block, self.at);
        block
    }

    /// Goes on with what follows the update.
    pub(super) fn leave(
        &mut self,
        update: &Update,
        tail: Block,
        old: Value,
    ) -> Result<(), PhaseError> {
        let args: Vec<Value> = update.result.map(|_| old).into_iter().collect();
        self.jump(tail, &args)
    }

    /// The loop of an update. Returns the old contents.
    pub(super) fn update(
        &mut self,
        update: &Update,
        address: &Address,
        space: Space,
    ) -> Result<Value, PhaseError> {
        match (update.scalar.bits(), space) {
            (16, _) => self.half_loop(update, address, space),
            (_, Space::Shared | Space::Generic) => self.spin_loop(update, address, space),
            _ => Err(PhaseError::Unsupported(format!(
                "a loop of atom.{}.{}",
                update.reduce, update.scalar
            ))),
        }
    }

    /// Ends the block with a way to `done` if `condition` holds, or else to a new block, which is filled next.
    fn leave_if(&mut self, condition: Value, done: Block) -> Result<(), PhaseError> {
        let other = self.block();
        self.branch(condition, (done, &[]), (other, &[]))?;
        self.at = other;
        Ok(())
    }

    pub(super) fn branch(
        &mut self,
        condition: Value,
        taken: (Block, &[Value]),
        other: (Block, &[Value]),
    ) -> Result<(), PhaseError> {
        self.cursor()
            .build(AbstractOp::CondBr)
            .operand(condition)
            .edge(taken.0, taken.1)
            .edge(other.0, other.1)
            .finish()
            .map_err(refused)?;
        Ok(())
    }

    fn load(
        &mut self,
        scope: Scope,
        space: Space,
        word: Scalar,
        address: Address,
    ) -> Result<Value, PhaseError> {
        let place = self.func.create_address(address);
        self.cursor()
            .build(AbstractOp::Ld)
            .with(Order::Relaxed)
            .with(scope)
            .with(space)
            .with(word)
            .operand(place)
            .value()
            .map_err(refused)
    }

    /// Stores `new` if memory holds `old`, in a way that `reduce` tells.
    fn exchange(
        &mut self,
        (update, space, address): (&Update, Space, Address),
        reduce: Reduce,
        word: Scalar,
        old: Value,
        new: Operand,
    ) -> Result<Value, PhaseError> {
        let place = self.func.create_address(address);
        self.cursor()
            .build(AbstractOp::Atom)
            .with(update.order)
            .with(update.scope)
            .with(space)
            .with(reduce)
            .with(word)
            .operand(place)
            .operand(old)
            .operand(new)
            .value()
            .map_err(refused)
    }

    /// A word or doubleword in shared memory, of this block or at a generic address: reads, computes, and stores if nothing has changed
    /// in between, until it works.
    fn spin_loop(
        &mut self,
        update: &Update,
        address: &Address,
        space: Space,
    ) -> Result<Value, PhaseError> {
        let wide = update.scalar.bits() == 64;
        let word = if wide { Scalar::B64 } else { Scalar::B32 };
        // The comparing form has no uniform base: a name is looked up once, before the loop.
        let address = match address.symbol.expand() {
            None => *address,
            Some(_) => {
                let (start, _) = self.start_of(address, Space::Shared)?;
                Address::base(start, address.offset)
            }
        };
        let around = self.block();
        self.jump(around, &[])?;
        self.at = around;
        let done = self.block();
        let old = self.load(update.scope, space, word, address)?;
        let new = match (update.order, unchanged_if(update.reduce)) {
            (Order::Weak | Order::Relaxed, Some(compare)) => {
                let number = number_of(update.scalar);
                let stays = self.compare(compare, number, old.into(), update.value)?;
                self.leave_if(stays, done)?;
                update.value
            }
            _ => self.combined(update, old.into())?,
        };
        let place = (update, space, address);
        let told = self.exchange(place, Reduce::Cast, word, old, new)?;
        let told = match wide {
            true => self
                .cursor()
                .build(AbstractOp::Cvt)
                .with(Scalar::U32)
                .with(SourceType::U64)
                .operand(told)
                .value()
                .map_err(refused)?,
            false => told,
        };
        let stored = self.compare(Compare::Ne, Scalar::B32, told.into(), Operand::imm(0))?;
        self.branch(stored, (done, &[]), (around, &[]))?;
        self.at = done;
        Ok(old)
    }

    /// A half, in the word it is in.
    fn half_loop(
        &mut self,
        update: &Update,
        address: &Address,
        space: Space,
    ) -> Result<Value, PhaseError> {
        let (address, odd) = self.word_around(address, space)?;
        let low = self.compare(Compare::Eq, Scalar::B32, odd.into(), Operand::imm(0))?;
        let shift = self.binary(AbstractOp::Shl, Scalar::B32, odd.into(), Operand::imm(3))?;
        let packed = match (update.reduce, update.scalar) {
            (Reduce::Add | Reduce::Min | Reduce::Max, Scalar::F16) => Some(Scalar::F16x2),
            (Reduce::Add | Reduce::Min | Reduce::Max, Scalar::Bf16) => Some(Scalar::Bf16x2),
            _ => None,
        };
        // Which bytes of the word and of what is put in make the new word: the half put in is in its place, or at the bottom.
        let high = if packed.is_some() { 0x7610 } else { 0x5410 };
        let (at_low, at_high) = (Operand::imm(0x3254), Operand::imm(high));
        let selector = self.choose(Scalar::B32, at_low, at_high, low)?;
        let value = match packed {
            // Both halves are computed, one of them is used.
            Some(_) => self.permute(update.value, Operand::imm(0), Operand::imm(0x1010))?,
            None => self.low_half(update.value)?,
        };
        let first = self.load(update.scope, space, Scalar::B32, address)?;
        let around = self.block();
        let old = self.func.append_block_param(around, Type::R);
        self.jump(around, &[first])?;
        self.at = around;
        let done = self.block();
        let new = match packed {
            Some(scalar) => {
                let both = Update {
                    scalar,
                    value: value.into(),
                    ..*update
                };
                let computed = self.combined(&both, old.into())?;
                self.permute(old.into(), computed, selector.into())?
            }
            None => {
                let (Reduce::Cas, Some(stored)) = (update.reduce, update.compared) else {
                    let name = format!("atom.{}.{}", update.reduce, update.scalar);
                    return Err(PhaseError::Unsupported(name));
                };
                let shifted =
                    self.binary(AbstractOp::Shr, Scalar::U32, old.into(), shift.into())?;
                let current = self.low_half(shifted.into())?;
                let word = Scalar::B32;
                match update.order {
                    Order::Weak | Order::Relaxed => {
                        let differs =
                            self.compare(Compare::Ne, word, current.into(), value.into())?;
                        self.leave_if(differs, done)?;
                        self.permute(old.into(), stored, selector.into())?
                    }
                    _ => {
                        let same = self.compare(Compare::Eq, word, current.into(), value.into())?;
                        let stored = self.permute(old.into(), stored, selector.into())?;
                        self.choose(word, stored.into(), old.into(), same)?
                    }
                }
            }
        };
        let place = (update, space, address);
        let got = self.exchange(place, Reduce::Cas, Scalar::B32, old, new.into())?;
        let same = self.compare(Compare::Eq, Scalar::B32, got.into(), old.into())?;
        self.branch(same, (done, &[]), (around, &[got]))?;
        self.at = done;
        self.binary(AbstractOp::Shr, Scalar::U32, old.into(), shift.into())
    }

    fn permute(&mut self, a: Operand, b: Operand, which: Operand) -> Result<Value, PhaseError> {
        self.cursor()
            .build(AbstractOp::Prmt)
            .with(Permute::Index)
            .operand(a)
            .operand(b)
            .operand(which)
            .value()
            .map_err(refused)
    }

    /// Base and name of an address as one value, and its type.
    pub(super) fn start_of(
        &mut self,
        address: &Address,
        space: Space,
    ) -> Result<(Value, Type), PhaseError> {
        let base = address.base.get().and_then(Reg::value);
        let named = if space == Space::Shared {
            Type::R
        } else {
            Type::R2
        };
        let ty = base.map_or(named, |base| self.func.value_type(base));
        let (scalar, bits) = match ty {
            Type::R => (Scalar::U32, Scalar::B32),
            _ => (Scalar::U64, Scalar::B64),
        };
        let start = match (address.symbol.expand(), base) {
            (None, Some(base)) => return Ok((base, ty)),
            (None, None) => self
                .cursor()
                .build(AbstractOp::Mov)
                .with(bits)
                .imm(0)
                .value()
                .map_err(refused)?,
            (Some(symbol), _) => self
                .cursor()
                .build(AbstractOp::AddressOf)
                .with(bits)
                .operand(Operand::Symbol {
                    symbol,
                    part: orias_ori::SymbolPart::Whole,
                    addend: 0,
                })
                .value()
                .map_err(refused)?,
        };
        match base {
            Some(base) => {
                let sum = self.binary(AbstractOp::Add, scalar, base.into(), start.into())?;
                Ok((sum, ty))
            }
            None => Ok((start, ty)),
        }
    }

    /// The word a half is in, and how many bytes up in it.
    fn word_around(
        &mut self,
        address: &Address,
        space: Space,
    ) -> Result<(Address, Value), PhaseError> {
        // Base and offset together, as the low bits decide.
        let (start, ty) = self.start_of(address, space)?;
        let (scalar, bits) = match ty {
            Type::R => (Scalar::U32, Scalar::B32),
            _ => (Scalar::U64, Scalar::B64),
        };
        let offset = match ty {
            Type::R => u64::from(address.offset as u32),
            _ => i64::from(address.offset) as u64,
        };
        let whole = self.binary(AbstractOp::Add, scalar, start.into(), Operand::imm(offset))?;
        let mask = match ty {
            Type::R => Operand::imm(0xffff_fffc),
            _ => Operand::imm(!3),
        };
        let aligned = self.binary(AbstractOp::And, bits, whole.into(), mask)?;
        let low: Value = match ty {
            Type::R => whole,
            _ => self
                .cursor()
                .build(AbstractOp::Cvt)
                .with(Scalar::U32)
                .with(SourceType::U64)
                .operand(whole)
                .value()
                .map_err(refused)?,
        };
        let odd = self.binary(AbstractOp::And, Scalar::B32, low.into(), Operand::imm(2))?;
        Ok((Address::base(aligned, 0), odd))
    }

    fn low_half(&mut self, word: Operand) -> Result<Value, PhaseError> {
        self.binary(AbstractOp::And, Scalar::B32, word, Operand::imm(0xffff))
    }

    /// What memory holds after the update of `old`.
    fn combined(&mut self, update: &Update, old: Operand) -> Result<Operand, PhaseError> {
        use Scalar::{Bf16, Bf16x2, F16, F16x2, F32, F64};
        let scalar = update.scalar;
        let float = matches!(scalar, F16 | Bf16 | F16x2 | Bf16x2 | F32 | F64);
        let bits = match scalar.bits() {
            64 => Scalar::B64,
            _ => Scalar::B32,
        };
        let number = number_of(scalar);
        let new = match (update.reduce, float) {
            (Reduce::Add, true) => self
                .cursor()
                .build(AbstractOp::Fadd)
                .with(Round::Rn)
                .with(scalar)
                .operand(old)
                .operand(update.value)
                .value()
                .map_err(refused)?,
            (Reduce::Min, true) => self.binary(AbstractOp::Fmin, scalar, old, update.value)?,
            (Reduce::Max, true) => self.binary(AbstractOp::Fmax, scalar, old, update.value)?,
            (Reduce::Add, false) => self.binary(AbstractOp::Add, number, old, update.value)?,
            (Reduce::Min, false) => self.binary(AbstractOp::Min, number, old, update.value)?,
            (Reduce::Max, false) => self.binary(AbstractOp::Max, number, old, update.value)?,
            (Reduce::And, _) => self.binary(AbstractOp::And, bits, old, update.value)?,
            (Reduce::Or, _) => self.binary(AbstractOp::Or, bits, old, update.value)?,
            (Reduce::Xor, _) => self.binary(AbstractOp::Xor, bits, old, update.value)?,
            (Reduce::Exch, _) => return Ok(update.value),
            (Reduce::Inc | Reduce::Dec | Reduce::Cas | Reduce::Cast, _) => {
                let name = format!("atom.{}.{scalar}", update.reduce);
                return Err(PhaseError::Unsupported(name));
            }
        };
        Ok(new.into())
    }
}
