//! ExpandForSelection: operations that the chip has no instruction for and that need control flow become branches and
//! loops of operations it has.
//!
//! - `brx` becomes a tree of comparisons, as deep as the logarithm of the number of ways. (A table of addresses is faster for many
//!   ways, and needs one more load.)
//! - Atomic updates that memory cannot do by itself become loops around a comparing exchange: floats and most 64-bit numbers in
//!   shared memory, single halves everywhere. Floats at generic addresses are told apart by where the address points.
//! - A branch to the block where a kernel ends gets an exit of its own: lanes that go there are nobody's to wait for (`convergence`).
//!
//! Runs before convergence regions are placed, which see the branches made here. Linear in what it makes.

use crate::convergence::separate_exits;
use crate::pipeline::{Context, PhaseError};
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::operation::{
    Combine, Compare, Order, Reduce, Round, Scalar, Scope, Source, Space, Vector,
};
use orias_ori::{
    AbstractOp, Address, Block, Function, Guard, Inst, Operand, Reg, SourceMods, Type, Value,
};

/// Makes branches and loops of operations that need them.
pub fn expand_for_selection(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let blocks: Vec<Block> = func.blocks().collect();
    for block in blocks {
        let insts: Vec<Inst> = func.block_insts(block).collect();
        for inst in insts {
            let Some(op) = func.opcode(inst).as_abstract() else {
                continue;
            };
            match op {
                AbstractOp::Switch => expand_switch(func, inst)?,
                AbstractOp::Atom | AbstractOp::Red => expand_update(func, inst)?,
                _ => {}
            }
        }
    }
    separate_exits(func).map_err(refused)
}

fn refused(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}

/// A tree of comparisons with the middle of what is left.
fn expand_switch(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let index = func.operands(inst)[0];
    let ways: Vec<(Block, Vec<Value>)> = func
        .edges(inst)
        .iter()
        .map(|&edge| (func.edge_target(edge), func.edge_args(edge).to_vec()))
        .collect();
    let span = func.inst(inst).span();
    let Some(block) = func.layout.inst_block(inst) else {
        return Ok(());
    };
    func.remove_inst(inst);
    // (block to fill, first way, one past the last)
    let mut pending = vec![(block, 0, ways.len())];
    while let Some((at, first, end)) = pending.pop() {
        let (block, args) = &ways[first];
        if end - first == 1 {
            let mut cursor = Cursor::at_end(func, at);
            cursor.set_span(span);
            cursor
                .build(AbstractOp::Br)
                .edge(*block, args)
                .finish()
                .map_err(refused)?;
            continue;
        }
        let middle = first + (end - first) / 2;
        let below = func.create_block();
        let above = func.create_block();
        func.layout.insert_block_after(above, at);
        func.layout.insert_block_after(below, at);
        let mut cursor = Cursor::at_end(func, at);
        cursor.set_span(span);
        let less = cursor
            .build(AbstractOp::Setp)
            .with(Compare::Lt)
            .with(Combine::None)
            .with(Scalar::U32)
            .operand(index)
            .imm(middle as u64)
            .value()
            .map_err(refused)?;
        cursor
            .build(AbstractOp::CondBr)
            .operand(less)
            .edge(below, &[])
            .edge(above, &[])
            .finish()
            .map_err(refused)?;
        pending.push((below, first, middle));
        pending.push((above, middle, end));
    }
    Ok(())
}

/// An atomic update, taken apart.
struct Update {
    reduce: Reduce,
    scalar: Scalar,
    space: Space,
    order: Order,
    scope: Scope,
    address: Address,
    value: Operand,
    compared: Option<Operand>,
    result: Option<Value>,
    guard: Guard,
    kept: Option<Value>,
}

/// How an update is done that memory cannot do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The chip has it.
    Memory,
    /// A loop around a comparing exchange.
    Loop,
    /// Depending on where the address points.
    ByWindow,
}

fn way(update: &Update) -> Way {
    use Scalar::{B16, B64, Bf16, Bf16x2, F16, F16x2, F32, F64, S64, U64};
    let float = matches!(update.scalar, F16 | Bf16 | F16x2 | Bf16x2 | F32 | F64);
    match (update.space, update.scalar) {
        (Space::Shared, _) if float => Way::Loop,
        (Space::Shared, U64 | S64 | B64)
            if !matches!(update.reduce, Reduce::Exch | Reduce::Cas) =>
        {
            Way::Loop
        }
        (Space::Shared | Space::Global | Space::Generic, F16 | Bf16 | B16) => Way::Loop,
        (Space::Generic, _) if float => Way::ByWindow,
        _ => Way::Memory,
    }
}

fn expand_update(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let Some(update) = update_of(func, inst) else {
        return Ok(());
    };
    match way(&update) {
        Way::Memory => return Ok(()),
        Way::Loop | Way::ByWindow => {}
    }
    let Some(block) = func.layout.inst_block(inst) else {
        return Ok(());
    };
    let span = func.inst(inst).span();
    // What follows the update, with its result as a parameter.
    let tail = func.split_block(inst);
    func.remove_inst(inst);
    let result = update.result.map(|result| {
        let ty = func.value_type(result);
        (result, func.append_block_param(tail, ty))
    });
    let start = match update.guard.reg() {
        None => block,
        Some(predicate) => {
            let start = func.create_block();
            func.layout.insert_block_after(start, block);
            let mods = match update.guard.is_negated() {
                true => SourceMods::NOT,
                false => SourceMods::NONE,
            };
            let kept: Vec<Value> = result.and(update.kept).into_iter().collect();
            let mut cursor = Cursor::at_end(func, block);
            cursor.set_span(span);
            cursor
                .build(AbstractOp::CondBr)
                .operand(Operand::Reg {
                    reg: predicate,
                    mods,
                })
                .edge(start, &[])
                .edge(tail, &kept)
                .finish()
                .map_err(refused)?;
            start
        }
    };
    let mut maker = Maker {
        func,
        at: start,
        span,
    };
    if way(&update) == Way::ByWindow {
        maker.by_window(&update, tail)?;
    } else {
        let old = maker.exchange_loop(&update, &update.address, update.space)?;
        maker.leave(&update, tail, old)?;
    }
    if let Some((result, param)) = result {
        func.map_all_uses(|reg| match reg.value() {
            Some(value) if value == result => Reg::from(param),
            _ => reg,
        });
    }
    Ok(())
}

fn update_of(func: &Function, inst: Inst) -> Option<Update> {
    let atom = func.opcode(inst).as_abstract() == Some(AbstractOp::Atom);
    if func.modifier::<Vector>(inst) != Some(Vector::V1) {
        return None;
    }
    let results = func.result_count(inst);
    let sources = &func.operands(inst)[results..];
    let Operand::Address(address) = sources[0] else {
        return None;
    };
    Some(Update {
        reduce: func.modifier(inst)?,
        scalar: func.modifier(inst)?,
        space: func.modifier(inst)?,
        order: func.modifier(inst)?,
        scope: func.modifier(inst)?,
        address: *func.address(address),
        value: sources[1],
        compared: (atom && sources[2] != Operand::None).then_some(sources[2]),
        result: func.operands(inst)[..results]
            .first()
            .and_then(|result| result.as_value()),
        guard: func.inst(inst).guard(),
        kept: func.kept(inst).first().and_then(|kept| kept.as_value()),
    })
}

/// Appends to a block, and goes on in others.
struct Maker<'f> {
    func: &'f mut Function,
    at: Block,
    span: Option<orias_ori::Span>,
}

impl Maker<'_> {
    fn cursor(&mut self) -> Cursor<'_> {
        let mut cursor = Cursor::at_end(self.func, self.at);
        cursor.set_span(self.span);
        cursor
    }

    /// An operation of a type on two operands.
    fn binary(
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

    fn compare(
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
    fn jump(&mut self, to: Block, args: &[Value]) -> Result<(), PhaseError> {
        self.cursor()
            .build(AbstractOp::Br)
            .edge(to, args)
            .finish()
            .map_err(refused)?;
        Ok(())
    }

    /// A new block behind the one being filled.
    fn block(&mut self) -> Block {
        let block = self.func.create_block();
        self.func.layout.insert_block_after(block, self.at);
        block
    }

    /// Goes on with what follows the update.
    fn leave(&mut self, update: &Update, tail: Block, old: Value) -> Result<(), PhaseError> {
        let args: Vec<Value> = update.result.map(|_| old).into_iter().collect();
        self.jump(tail, &args)
    }

    /// Reads, computes, and stores if nothing has changed in between, until it works. Returns the old contents.
    fn exchange_loop(
        &mut self,
        update: &Update,
        address: &Address,
        space: Space,
    ) -> Result<Value, PhaseError> {
        let bits = update.scalar.bits();
        let half = bits == 16;
        let word = if bits == 64 { Scalar::B64 } else { Scalar::B32 };
        // A half is changed with the word it is in.
        let (address, shift) = match half {
            true => {
                let (address, shift) = self.word_around(address)?;
                (address, Some(shift))
            }
            false => (*address, None),
        };
        let place = self.func.create_address(address);
        let first = self
            .cursor()
            .build(AbstractOp::Ld)
            .with(Order::Relaxed)
            .with(update.scope)
            .with(space)
            .with(word)
            .operand(place)
            .value()
            .map_err(refused)?;
        let around = self.block();
        let ty = self.func.value_type(first);
        let old = self.func.append_block_param(around, ty);
        self.jump(around, &[first])?;
        self.at = around;
        let current: Operand = match shift {
            Some(shift) => {
                let shifted =
                    self.binary(AbstractOp::Shr, Scalar::U32, old.into(), shift.into())?;
                self.low_half(shifted.into())?.into()
            }
            None => old.into(),
        };
        let new = self.combined(update, current)?;
        let stored: Operand = match shift {
            Some(shift) => self.insert_half(old, new, shift)?.into(),
            None => new,
        };
        let place = self.func.create_address(address);
        let got = self
            .cursor()
            .build(AbstractOp::Atom)
            .with(update.order)
            .with(update.scope)
            .with(space)
            .with(Reduce::Cas)
            .with(word)
            .operand(place)
            .operand(old)
            .operand(stored)
            .value()
            .map_err(refused)?;
        let same = self.compare(Compare::Eq, word, got.into(), old.into())?;
        let done = self.block();
        self.cursor()
            .build(AbstractOp::CondBr)
            .operand(same)
            .edge(done, &[])
            .edge(around, &[got])
            .finish()
            .map_err(refused)?;
        self.at = done;
        match shift {
            Some(shift) => self.binary(AbstractOp::Shr, Scalar::U32, old.into(), shift.into()),
            None => Ok(old),
        }
    }

    /// The word a half is in, and how far up in it.
    fn word_around(&mut self, address: &Address) -> Result<(Address, Value), PhaseError> {
        // Base and offset together, as the low bits decide.
        let base = address.base.get().and_then(Reg::value);
        let ty = base.map_or(Type::R, |base| self.func.value_type(base));
        let (scalar, bits) = match ty {
            Type::R => (Scalar::U32, Scalar::B32),
            _ => (Scalar::U64, Scalar::B64),
        };
        let base: Operand = base.map_or(Operand::imm(0), Operand::from);
        let named: Operand = match address.symbol.expand() {
            None => base,
            Some(symbol) => {
                let name = Operand::Symbol {
                    symbol,
                    part: orias_ori::SymbolPart::Whole,
                    addend: 0,
                };
                let start = self
                    .cursor()
                    .build(AbstractOp::AddressOf)
                    .with(bits)
                    .operand(name)
                    .value()
                    .map_err(refused)?;
                self.binary(AbstractOp::Add, scalar, base, start.into())?
                    .into()
            }
        };
        let offset = match ty {
            Type::R => u64::from(address.offset as u32),
            _ => i64::from(address.offset) as u64,
        };
        let whole = self.binary(AbstractOp::Add, scalar, named, Operand::imm(offset))?;
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
                .with(Source::U64)
                .operand(whole)
                .value()
                .map_err(refused)?,
        };
        let odd = self.binary(AbstractOp::And, Scalar::B32, low.into(), Operand::imm(2))?;
        let shift = self.binary(AbstractOp::Shl, Scalar::B32, odd.into(), Operand::imm(3))?;
        Ok((Address::base(aligned, 0), shift))
    }

    fn low_half(&mut self, word: Operand) -> Result<Value, PhaseError> {
        self.binary(AbstractOp::And, Scalar::B32, word, Operand::imm(0xffff))
    }

    /// `word` with the half at `shift` replaced.
    fn insert_half(
        &mut self,
        word: Value,
        half: Operand,
        shift: Value,
    ) -> Result<Value, PhaseError> {
        let half = self.low_half(half)?;
        let placed = self.binary(AbstractOp::Shl, Scalar::B32, half.into(), shift.into())?;
        let ones = Operand::imm(0xffff);
        let mask = self.binary(AbstractOp::Shl, Scalar::B32, ones, shift.into())?;
        let outside = self
            .cursor()
            .build(AbstractOp::Not)
            .with(Scalar::B32)
            .operand(mask)
            .value()
            .map_err(refused)?;
        let kept = self.binary(AbstractOp::And, Scalar::B32, word.into(), outside.into())?;
        self.binary(AbstractOp::Or, Scalar::B32, kept.into(), placed.into())
    }

    /// What memory holds after the update of `old`.
    fn combined(&mut self, update: &Update, old: Operand) -> Result<Operand, PhaseError> {
        use Scalar::{Bf16, Bf16x2, F16, F16x2, F32, F64};
        let scalar = update.scalar;
        let float = matches!(scalar, F16 | Bf16 | F16x2 | Bf16x2 | F32 | F64);
        let bits = match scalar.bits() {
            64 => Scalar::B64,
            16 => Scalar::B16,
            _ => Scalar::B32,
        };
        let number = match scalar {
            Scalar::B64 => Scalar::U64,
            Scalar::B32 => Scalar::U32,
            Scalar::B16 => Scalar::U16,
            other => other,
        };
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
            (Reduce::Cas, _) => {
                let Some(stored) = update.compared else {
                    return Err(PhaseError::Unsupported("atom.cas".to_owned()));
                };
                let compared = match bits {
                    Scalar::B16 => self.low_half(update.value)?.into(),
                    _ => update.value,
                };
                let word = if bits == Scalar::B16 {
                    Scalar::B32
                } else {
                    bits
                };
                let same = self.compare(Compare::Eq, word, old, compared)?;
                self.choose(word, stored, old, same)?
            }
            (Reduce::Inc | Reduce::Dec, _) => {
                let name = format!("atom.{}.{scalar}", update.reduce);
                return Err(PhaseError::Unsupported(name));
            }
        };
        Ok(new.into())
    }

    /// Shared addresses go to the loop, others to memory.
    fn by_window(&mut self, update: &Update, tail: Block) -> Result<(), PhaseError> {
        let base = update.address.base.get().and_then(Reg::value);
        let base = match base {
            Some(base) if self.func.value_type(base) == Type::R2 => base,
            _ => {
                return Err(PhaseError::Unsupported(
                    "a float update of a name".to_owned(),
                ));
            }
        };
        let offset = Operand::imm(i64::from(update.address.offset) as u64);
        let address = self.binary(AbstractOp::Add, Scalar::U64, base.into(), offset)?;
        let inside = self
            .cursor()
            .build(AbstractOp::Isspacep)
            .with(Space::Shared)
            .operand(address)
            .value()
            .map_err(refused)?;
        let far = self.block();
        let near = self.block();
        self.cursor()
            .build(AbstractOp::CondBr)
            .operand(inside)
            .edge(near, &[])
            .edge(far, &[])
            .finish()
            .map_err(refused)?;
        self.at = far;
        let place = self.func.create_address(Address::base(address, 0));
        let mut cursor = self.cursor();
        let mut builder = match update.result {
            Some(_) => cursor.build(AbstractOp::Atom),
            None => cursor.build(AbstractOp::Red),
        };
        builder = builder
            .with(update.order)
            .with(update.scope)
            .with(Space::Global)
            .with(update.reduce)
            .with(update.scalar)
            .operand(place)
            .operand(update.value);
        match update.result {
            Some(_) => {
                let old = builder.value().map_err(refused)?;
                self.jump(tail, &[old])?;
            }
            None => {
                builder.finish().map_err(refused)?;
                self.jump(tail, &[])?;
            }
        }
        self.at = near;
        let word = self
            .cursor()
            .build(AbstractOp::Cvt)
            .with(Scalar::U32)
            .with(Source::U64)
            .operand(address)
            .value()
            .map_err(refused)?;
        let old = self.exchange_loop(update, &Address::base(word, 0), Space::Shared)?;
        self.leave(update, tail, old)
    }
}
