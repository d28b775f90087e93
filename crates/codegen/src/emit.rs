//! Writing abstract code: a terse layer over [`orias_ori::builder`].
//!
//! An [`Emit`] stands at a place in a function. Its methods append one instruction each and return its result as an
//! [`Operand`], so that code that computes reads like what it computes. A refused instruction is remembered and stands for
//! an undefined value: whoever emits asks once, with [`Emit::finish`], whether all went well.

use orias_ori::builder::{BuildError, Cursor};
use orias_ori::operation::{
    AbstractMods, AbstractOp, Compare, Ftz, Half, Modifier, Round, Row, Scalar, SourceType,
};
use orias_ori::{Block, Function, Guard, Inst, Operand, SourceMods, Span, Type, Value};

/// Modifiers of one instruction, as a tuple.
pub(crate) trait Mods {
    /// The modifiers packed as `row` has them; `None` where it lacks one.
    fn pack(self, row: &Row) -> Option<AbstractMods>;
}

impl Mods for AbstractMods {
    fn pack(self, _: &Row) -> Option<AbstractMods> {
        Some(self)
    }
}

impl Mods for () {
    fn pack(self, _: &Row) -> Option<AbstractMods> {
        Some(AbstractMods::NONE)
    }
}

macro_rules! tuple_mods {
    ($($name:ident)*) => {
        impl<$($name: Modifier),*> Mods for ($($name,)*) {
            #[allow(non_snake_case)] // The type's name is the value's.
            fn pack(self, row: &Row) -> Option<AbstractMods> {
                let mods = AbstractMods::NONE;
                let ($($name,)*) = self;
                $(let mods = row.with_modifier(mods, $name)?;)*
                Some(mods)
            }
        }
    };
}
tuple_mods!(A);
tuple_mods!(A B);
tuple_mods!(A B C);
tuple_mods!(A B C D);
tuple_mods!(A B C D E);
tuple_mods!(A B C D E F);
tuple_mods!(A B C D E F G);
tuple_mods!(A B C D E F G H);

/// An immediate.
pub(crate) const fn imm(bits: u64) -> Operand {
    Operand::imm(bits)
}

/// An f32 as an immediate.
pub(crate) const fn single(value: f32) -> Operand {
    Operand::imm(value.to_bits() as u64)
}

/// A predicate operand turned round.
pub(crate) fn not(predicate: Operand) -> Operand {
    match predicate {
        Operand::Imm(bits) => Operand::imm(bits.bits() ^ 1),
        other => {
            let mods = other.mods();
            let flipped = if mods.contains(SourceMods::NOT) {
                mods.without(SourceMods::NOT)
            } else {
                mods.with(SourceMods::NOT)
            };
            other.with_mods(flipped).unwrap_or(other)
        }
    }
}

/// Writes abstract instructions at one place after another.
pub(crate) struct Emit<'f> {
    cursor: Cursor<'f>,
    error: Option<BuildError>,
}

impl<'f> Emit<'f> {
    /// Writes at the end of `block`, with that source location.
    pub fn at_end(func: &'f mut Function, block: Block, span: Option<Span>) -> Emit<'f> {
        let mut cursor = Cursor::at_end(func, block);
        cursor.set_span(span);
        Emit {
            cursor,
            error: None,
        }
    }

    /// Writes before `inst`, with its source location.
    pub fn before(func: &'f mut Function, inst: Inst) -> Emit<'f> {
        Emit {
            cursor: Cursor::before(func, inst),
            error: None,
        }
    }

    /// The function.
    pub fn func(&mut self) -> &mut Function {
        self.cursor.func
    }

    /// Goes to the end of `block`.
    pub fn goto_end(&mut self, block: Block) {
        self.cursor.goto_end(block);
    }

    /// What was refused, if anything.
    pub fn finish(self) -> Result<(), BuildError> {
        self.error.map_or(Ok(()), Err)
    }

    /// An instruction with everything given.
    pub fn put<M: Mods>(
        &mut self,
        op: AbstractOp,
        mods: M,
        results: &[Operand],
        operands: &[Operand],
        guard: Guard,
        kept: &[Value],
    ) -> Option<Inst> {
        let mods = mods.pack(op.row())?;
        match self
            .cursor
            .put_abstract(op, mods, results, operands, guard, kept)
        {
            Ok(inst) => Some(inst),
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }

    /// A terminator.
    pub fn end(&mut self, op: AbstractOp, operands: &[Operand], targets: &[(Block, &[Value])]) {
        let mut builder = self.cursor.build(op).operands(operands.iter().copied());
        for (block, args) in targets {
            builder = builder.edge(*block, args);
        }
        if let Err(error) = builder.finish() {
            self.error.get_or_insert(error);
        }
    }

    /// An instruction with one result.
    pub fn op<M: Mods>(&mut self, op: AbstractOp, mods: M, operands: &[Operand]) -> Operand {
        self.value(op, mods, operands).into()
    }

    /// An instruction with one result, as a value.
    pub fn value<M: Mods>(&mut self, op: AbstractOp, mods: M, operands: &[Operand]) -> Value {
        let inst = self.put(op, mods, &[], operands, Guard::ALWAYS, &[]);
        match inst.and_then(|inst| self.func().result(inst, 0)) {
            Some(value) => value,
            // The error is remembered; the function is given up.
            None => self.func().create_value(Type::R),
        }
    }

    /// An instruction with one result and modifiers that are packed already.
    pub fn again(&mut self, op: AbstractOp, mods: AbstractMods, operands: &[Operand]) -> Operand {
        let always = Guard::ALWAYS;
        let made = self
            .cursor
            .put_abstract(op, mods, &[], operands, always, &[]);
        match made {
            Ok(inst) => match self.func().result(inst, 0) {
                Some(value) => value.into(),
                None => Operand::None,
            },
            Err(error) => {
                self.error.get_or_insert(error);
                Operand::None
            }
        }
    }

    /// An instruction with two results, the second of which is optional in its row.
    pub fn pair<M: Mods>(
        &mut self,
        op: AbstractOp,
        mods: M,
        types: (Type, Type),
        operands: &[Operand],
    ) -> (Operand, Operand) {
        let first = self.func().create_value(types.0);
        let second = self.func().create_value(types.1);
        self.put(
            op,
            mods,
            &[first.into(), second.into()],
            operands,
            Guard::ALWAYS,
            &[],
        );
        (first.into(), second.into())
    }

    /// A value of one operand, which may be an immediate.
    pub fn as_value(&mut self, scalar: Scalar, operand: Operand) -> Value {
        match operand.as_value() {
            Some(value) if operand.mods().is_empty() => value,
            _ => self.value(AbstractOp::Mov, (scalar,), &[operand]),
        }
    }

    /// The parts of a tuple, each a register.
    pub fn words(&mut self, tuple: Value) -> Vec<Value> {
        let count = self.func().value_type(tuple).len();
        if count == 1 {
            return vec![tuple];
        }
        let parts: Vec<Value> = (0..count)
            .map(|_| self.func().create_value(Type::R))
            .collect();
        let results: Vec<Operand> = parts.iter().map(|&part| part.into()).collect();
        self.put(
            AbstractOp::Split,
            (),
            &results,
            &[tuple.into()],
            Guard::ALWAYS,
            &[],
        );
        parts
    }

    /// A tuple of parts, which are values of any length.
    pub fn collect(&mut self, parts: &[Value]) -> Value {
        if let [one] = parts {
            return *one;
        }
        let length: u32 = parts
            .iter()
            .map(|&part| u32::from(self.func().value_type(part).len()))
            .sum();
        let ty = u8::try_from(length)
            .ok()
            .and_then(|length| Type::tuple(orias_ori::Class::R, length))
            .unwrap_or(Type::R);
        let whole = self.func().create_value(ty);
        let operands: Vec<Operand> = parts.iter().map(|&part| part.into()).collect();
        self.put(
            AbstractOp::Collect,
            (),
            &[whole.into()],
            &operands,
            Guard::ALWAYS,
            &[],
        );
        whole
    }

    /// The low and the high word of a 64-bit operand.
    pub fn halves(&mut self, pair: Operand) -> (Operand, Operand) {
        match pair {
            Operand::Imm(bits) => (imm(bits.bits() & 0xffff_ffff), imm(bits.bits() >> 32)),
            other => {
                let value = self.as_value(Scalar::B64, other);
                match self.words(value)[..] {
                    [low, high] => (low.into(), high.into()),
                    _ => (other, other),
                }
            }
        }
    }

    /// 64 bits of two words.
    pub fn join(&mut self, low: Operand, high: Operand) -> Operand {
        if let (Operand::Imm(low), Operand::Imm(high)) = (low, high) {
            return imm(low.bits() & 0xffff_ffff | high.bits() << 32);
        }
        let low = self.as_value(Scalar::B32, low);
        let high = self.as_value(Scalar::B32, high);
        self.collect(&[low, high]).into()
    }

    /// Binary operation of one type. What both operands tell is computed right away.
    pub fn binary(&mut self, op: AbstractOp, scalar: Scalar, a: Operand, b: Operand) -> Operand {
        if let (Operand::Imm(x), Operand::Imm(y), 32 | 64) = (a, b, scalar.bits()) {
            let (x, y) = (x.bits(), y.bits());
            let result = match op {
                AbstractOp::Add => Some(x.wrapping_add(y)),
                AbstractOp::Sub => Some(x.wrapping_sub(y)),
                AbstractOp::And => Some(x & y),
                AbstractOp::Or => Some(x | y),
                AbstractOp::Xor => Some(x ^ y),
                _ => None,
            };
            if let Some(result) = result {
                return imm(result & (u64::MAX >> (64 - scalar.bits())));
            }
        }
        self.op(op, (scalar,), &[a, b])
    }

    /// `a + b` in 32 bits.
    pub fn add(&mut self, a: Operand, b: Operand) -> Operand {
        self.binary(AbstractOp::Add, Scalar::U32, a, b)
    }

    /// `a - b` in 32 bits.
    pub fn sub(&mut self, a: Operand, b: Operand) -> Operand {
        self.binary(AbstractOp::Sub, Scalar::U32, a, b)
    }

    /// The low 32 bits of `a * b`.
    pub fn mul(&mut self, a: Operand, b: Operand) -> Operand {
        self.op(AbstractOp::Mul, (Half::Lo, Scalar::U32), &[a, b])
    }

    /// The low 32 bits of `a * b + c`.
    pub fn mad(&mut self, a: Operand, b: Operand, c: Operand) -> Operand {
        self.op(AbstractOp::Mad, (Half::Lo, Scalar::U32), &[a, b, c])
    }

    /// The high 32 bits of `a * b`.
    pub fn mul_hi(&mut self, scalar: Scalar, a: Operand, b: Operand) -> Operand {
        self.op(AbstractOp::Mul, (Half::Hi, scalar), &[a, b])
    }

    /// `a & b` in 32 bits.
    pub fn and(&mut self, a: Operand, b: Operand) -> Operand {
        self.binary(AbstractOp::And, Scalar::B32, a, b)
    }

    /// `a | b` in 32 bits.
    pub fn or(&mut self, a: Operand, b: Operand) -> Operand {
        self.binary(AbstractOp::Or, Scalar::B32, a, b)
    }

    /// `a ^ b` in 32 bits.
    pub fn xor(&mut self, a: Operand, b: Operand) -> Operand {
        self.binary(AbstractOp::Xor, Scalar::B32, a, b)
    }

    /// `a << by` in 32 bits.
    pub fn shl(&mut self, a: Operand, by: Operand) -> Operand {
        self.binary(AbstractOp::Shl, Scalar::B32, a, by)
    }

    /// `a >> by`, of a 32-bit type.
    pub fn shr(&mut self, scalar: Scalar, a: Operand, by: Operand) -> Operand {
        self.binary(AbstractOp::Shr, scalar, a, by)
    }

    /// Whether `a` compares with `b`.
    pub fn setp(&mut self, compare: Compare, scalar: Scalar, a: Operand, b: Operand) -> Operand {
        self.op(AbstractOp::Setp, (compare, scalar), &[a, b])
    }

    /// `a` where the predicate holds, else `b`; of an untyped type.
    pub fn selp(&mut self, scalar: Scalar, a: Operand, b: Operand, predicate: Operand) -> Operand {
        self.op(AbstractOp::Selp, (scalar,), &[a, b, predicate])
    }

    /// The operand in another integer or floating-point type, without rounding.
    pub fn cvt(&mut self, to: Scalar, from: Scalar, a: Operand) -> Operand {
        self.op(AbstractOp::Cvt, (to, SourceType::from(from)), &[a])
    }

    /// `a * b + c`, rounded once.
    pub fn ffma(
        &mut self,
        (round, ftz, scalar): (Round, Ftz, Scalar),
        a: Operand,
        b: Operand,
        c: Operand,
    ) -> Operand {
        self.op(AbstractOp::Ffma, (round, ftz, scalar), &[a, b, c])
    }
}
