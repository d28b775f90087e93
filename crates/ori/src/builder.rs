//! Building instructions that fit their rows.
//!
//! A [`Cursor`] stands at a place in a function and inserts there. An instruction is described piece by piece and checked
//! by [`InstBuilder::finish`] with the verifier's own rules, so that a wrong one is refused where it is made and never
//! reaches the function.
//!
//! ```
//! use orias_ori::builder::Cursor;
//! use orias_ori::operation::{AbstractOp, Scalar};
//! use orias_ori::{Function, FunctionKind, Level, Type, print_function};
//!
//! let mut func = Function::new("inc", FunctionKind::Device, Level::Abstract, orias_sass::Target::DEFAULT);
//! func.results.push(Type::R);
//! let entry = func.append_block();
//! let x = func.append_block_param(entry, Type::R);
//!
//! let mut at = Cursor::at_end(&mut func, entry);
//! let sum = at.build(AbstractOp::Add).with(Scalar::S32).operand(x).imm(1).value()?;
//! at.build(AbstractOp::Ret).operand(sum).finish()?;
//!
//! assert_eq!(
//!     print_function(&func),
//!     "func inc abstract sm_90a -> r {\nblock0(v0:r):\n    v1:r = add.s32 v0, 1\n    ret v1\n}\n"
//! );
//! // 64-bit addition takes pairs: refused, and nothing is inserted.
//! let wrong = Cursor::at_end(&mut func, entry).build(AbstractOp::Add).with(Scalar::S64).operand(x).imm(1).finish();
//! assert_eq!(wrong.unwrap_err().to_string(), "`v2:rx2 = add.s64 v0, 1`: v0 is r, not rx2");
//! # Ok::<(), orias_ori::builder::BuildError>(())
//! ```

use crate::entity::{Block, Edge, Inst, Span, Value};
use crate::function::Function;
use crate::instruction::{Opcode, Operation};
use crate::machine;
use crate::operand::{Address, Operand};
use crate::operation::{AbstractMods, AbstractOp, Arity, Modifier, Row};
use crate::register::{Class, Guard, Type};
use crate::shape::InstructionShape;
use crate::text::print_inst;
use crate::verify::{Invariant, check_instruction};
use orias_sass as sass;
use smallvec::SmallVec;
use std::fmt;

/// Why an instruction was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildError {
    /// The instruction, as the text form writes it.
    pub inst: String,
    /// What is wrong with it; at least one.
    pub problems: Vec<(Invariant, String)>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", self.inst)?;
        for (index, (_, message)) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            f.write_str(message)?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildError {}

#[derive(Clone, Copy, Debug)]
enum Position {
    End(Block),
    Before(Inst),
    After(Inst),
}

/// A place in a function where instructions are inserted, each after the one before.
#[derive(Debug)]
pub struct Cursor<'f> {
    /// The function.
    pub func: &'f mut Function,
    position: Position,
    span: Option<Span>,
}

impl<'f> Cursor<'f> {
    /// Inserts at the end of `block`.
    #[inline]
    pub fn at_end(func: &'f mut Function, block: Block) -> Cursor<'f> {
        Cursor {
            func,
            position: Position::End(block),
            span: None,
        }
    }

    /// Inserts before `inst`, with its source location.
    #[inline]
    pub fn before(func: &'f mut Function, inst: Inst) -> Cursor<'f> {
        let span = func.inst(inst).span();
        Cursor {
            func,
            position: Position::Before(inst),
            span,
        }
    }

    /// Inserts after `inst`, with its source location.
    pub fn after(func: &'f mut Function, inst: Inst) -> Cursor<'f> {
        let span = func.inst(inst).span();
        Cursor {
            func,
            position: Position::After(inst),
            span,
        }
    }

    /// Goes to the end of `block`.
    pub fn goto_end(&mut self, block: Block) {
        self.position = Position::End(block);
    }

    /// The source location given to what is inserted.
    pub fn set_span(&mut self, span: Option<Span>) {
        self.span = span;
    }

    /// Places an instruction made by other means.
    pub fn insert(&mut self, inst: Inst) {
        match self.position {
            Position::End(block) => self.func.layout.append_inst(inst, block),
            Position::Before(next) => self.func.layout.insert_inst_before(inst, next),
            Position::After(prev) => {
                self.func.layout.insert_inst_after(inst, prev);
                self.position = Position::After(inst);
            }
        }
    }

    /// Checks and inserts an abstract instruction of which all is known. As with [`InstBuilder::finish`], results are made where there are
    /// fewer than the row has and it tells their type, and optional operands that are not given are left out.
    pub fn put_abstract(
        &mut self,
        op: AbstractOp,
        mods: AbstractMods,
        results: &[Operand],
        operands: &[Operand],
        guard: Guard,
        kept: &[Value],
    ) -> Result<Inst, BuildError> {
        let row = op.row();
        let mut all: SmallVec<[Operand; 8]> = SmallVec::from_slice(results);
        if results.len() < row.results.len() {
            add_results(self.func, row, mods, &mut all);
        }
        let results = all.len();
        all.extend_from_slice(operands);
        for slot in row.operands.iter().skip(operands.len()) {
            match slot.arity {
                Arity::Optional => all.push(Operand::None),
                _ => break,
            }
        }
        let inst = self.func.create_abstract(op, mods, results, &all);
        let plain = guard.is_always() && kept.is_empty();
        let shape = match plain {
            true => InstructionShape::of(self.func, Operation::Abstract(op, mods), results, &all),
            false => None,
        };
        let right = shape.is_some_and(|shape| !self.func.right.insert(shape));
        let put = self.put(inst, guard, kept, None, right);
        if let (Err(_), Some(shape)) = (&put, shape) {
            self.func.right.remove(&shape);
        }
        put
    }

    /// Checks and inserts a machine instruction that [`machine::check_operands`] found to have the form `fitted`. With `right` one of the
    /// same shape was inserted before: only a guard and what is kept are checked then.
    pub fn put_fitted(
        &mut self,
        fitted: sass::Variant,
        operands: &[Operand],
        guard: Guard,
        kept: &[Value],
        right: bool,
    ) -> Result<Inst, BuildError> {
        let func = &mut *self.func;
        let inst = func.create_machine(fitted.op(), fitted.mods(), operands);
        let right = right && guard.is_always() && kept.is_empty();
        self.put(inst, guard, kept, Some(fitted), right)
    }

    fn put(
        &mut self,
        inst: Inst,
        guard: Guard,
        kept: &[Value],
        fitted: Option<sass::Variant>,
        right: bool,
    ) -> Result<Inst, BuildError> {
        if !kept.is_empty() {
            let kept: SmallVec<[Operand; 2]> = kept.iter().map(|&value| value.into()).collect();
            self.func.set_kept(inst, &kept);
        }
        self.func.set_guard(inst, guard);
        self.func.set_span(inst, self.span);
        self.check_and_insert(inst, fitted, right, Vec::new())
    }

    /// Inserts an instruction with which nothing is wrong; `right` says that of all but its source location.
    fn check_and_insert(
        &mut self,
        inst: Inst,
        fitted: Option<sass::Variant>,
        right: bool,
        mut problems: Vec<(Invariant, String)>,
    ) -> Result<Inst, BuildError> {
        let func = &mut *self.func;
        let right = right && self.span.is_none_or(|span| func.locations.is_valid(span));
        if !right || cfg!(debug_assertions) {
            check_instruction(func, inst, fitted, &mut |invariant, message| {
                problems.push((invariant, message));
            });
            debug_assert!(!right || problems.is_empty(), "{problems:?}");
        }
        if problems.is_empty() {
            self.insert(inst);
            return Ok(inst);
        }
        let text = print_inst(func, inst);
        func.abandon_inst(inst);
        Err(BuildError {
            inst: text,
            problems,
        })
    }

    /// Starts an instruction.
    #[inline]
    pub fn build<'c>(&'c mut self, op: impl Into<Opcode>) -> InstBuilder<'c, 'f> {
        let operation = match op.into() {
            Opcode::Abstract(op) => Operation::Abstract(op, AbstractMods::NONE),
            Opcode::Machine(op) => Operation::Machine(op, sass::Mods::ZERO),
        };
        InstBuilder {
            cursor: self,
            operation,
            guard: Guard::ALWAYS,
            results: SmallVec::new(),
            operands: SmallVec::new(),
            kept: SmallVec::new(),
            uses: Vec::new(),
            defs: Vec::new(),
            edges: SmallVec::new(),
            problems: Vec::new(),
        }
    }
}

/// The pieces of an instruction.
#[must_use = "an instruction is inserted by `finish` or `value`"]
pub struct InstBuilder<'c, 'f> {
    cursor: &'c mut Cursor<'f>,
    operation: Operation,
    guard: Guard,
    results: SmallVec<[Operand; 2]>,
    operands: SmallVec<[Operand; 8]>,
    kept: SmallVec<[Operand; 2]>,
    uses: Vec<Operand>,
    defs: Vec<Operand>,
    edges: SmallVec<[Edge; 2]>,
    problems: Vec<(Invariant, String)>,
}

impl InstBuilder<'_, '_> {
    /// Sets a modifier of an abstract operation.
    pub fn with<M: Modifier + fmt::Debug>(mut self, value: M) -> Self {
        let set = match self.operation {
            Operation::Abstract(op, mods) => op
                .row()
                .with_modifier(mods, value)
                .map(|mods| Operation::Abstract(op, mods)),
            Operation::Machine(..) => None,
        };
        match set {
            Some(operation) => self.operation = operation,
            None => {
                let message = format!("the operation has no {:?} ({value:?})", M::KIND);
                self.problems.push((Invariant::Modifier, message));
            }
        }
        self
    }

    /// Sets a modifier of a machine operation by the names of its row.
    pub fn modifier(mut self, name: sass::ModifierName, value: sass::ValueName) -> Self {
        let set = match self.operation {
            Operation::Abstract(..) => None,
            Operation::Machine(op, mods) => {
                let mods = op.row().with_value(name, value, mods);
                mods.map(|mods| Operation::Machine(op, mods))
            }
        };
        match set {
            Some(operation) => self.operation = operation,
            None => {
                let message = format!("the operation has no modifier {name}={value}");
                self.problems.push((Invariant::Modifier, message));
            }
        }
        self
    }

    /// Sets all modifiers of a machine operation.
    #[inline]
    pub fn mods(mut self, mods: sass::Mods) -> Self {
        match self.operation {
            Operation::Machine(op, _) => self.operation = Operation::Machine(op, mods),
            Operation::Abstract(..) => {
                let message = "the operation is not a machine operation".to_owned();
                self.problems.push((Invariant::Modifier, message));
            }
        }
        self
    }

    /// Guards the instruction. Each value it defines then needs a [`InstBuilder::kept`].
    #[inline]
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guard = guard;
        self
    }

    /// The next result of an abstract operation: a register that exists, or `_`. Results not given are made by
    /// [`InstBuilder::finish`] where the row tells their type.
    #[inline]
    pub fn result(mut self, operand: impl Into<Operand>) -> Self {
        self.results.push(operand.into());
        self
    }

    /// A new value of type `ty`: the next result of an abstract operation, or the next operand of a machine operation.
    #[inline]
    pub fn define(mut self, ty: Type) -> Self {
        let value = self.cursor.func.create_value(ty);
        match self.operation {
            Operation::Abstract(..) => self.results.push(value.into()),
            Operation::Machine(..) => self.operands.push(value.into()),
        }
        self
    }

    /// The next operand.
    #[inline]
    pub fn operand(mut self, operand: impl Into<Operand>) -> Self {
        self.operands.push(operand.into());
        self
    }

    /// The next operands.
    pub fn operands<O: Into<Operand>>(mut self, operands: impl IntoIterator<Item = O>) -> Self {
        self.operands.extend(operands.into_iter().map(Into::into));
        self
    }

    /// An immediate as the next operand.
    #[inline]
    pub fn imm(self, bits: u64) -> Self {
        self.operand(Operand::imm(bits))
    }

    /// A memory operand as the next operand.
    pub fn address(mut self, address: Address) -> Self {
        let operand = self.cursor.func.create_address(address);
        self.operands.push(operand);
        self
    }

    /// The next operand left out, or for a machine operation its default.
    #[inline]
    pub fn none(self) -> Self {
        self.operand(Operand::None)
    }

    /// The next value kept when the guard is false.
    #[inline]
    pub fn kept(mut self, value: Value) -> Self {
        self.kept.push(value.into());
        self
    }

    /// A register read without being encoded.
    pub fn uses(mut self, operand: impl Into<Operand>) -> Self {
        self.uses.push(operand.into());
        self
    }

    /// A register written without being encoded.
    pub fn defs(mut self, operand: impl Into<Operand>) -> Self {
        self.defs.push(operand.into());
        self
    }

    /// The next edge of a terminator. In a machine operation with a code address among its slots, [`InstBuilder::target`]
    /// puts the edge there.
    #[inline]
    pub fn edge(mut self, block: Block, args: &[Value]) -> Self {
        let edge = self.cursor.func.create_edge(block, args);
        self.edges.push(edge);
        self
    }

    /// The next edge of a machine terminator, as its next operand.
    #[inline]
    pub fn target(mut self, block: Block, args: &[Value]) -> Self {
        self.operands.push(Operand::Edge(self.edges.len() as u32));
        self.edge(block, args)
    }

    /// Checks and inserts the instruction.
    #[inline]
    pub fn finish(mut self) -> Result<Inst, BuildError> {
        self.insert()
    }

    /// Checks and inserts an instruction that defines at least one value, and returns the first.
    pub fn value(mut self) -> Result<Value, BuildError> {
        let inst = self.insert()?;
        let func = &*self.cursor.func;
        func.result(inst, 0).ok_or_else(|| BuildError {
            inst: print_inst(func, inst),
            problems: vec![(
                Invariant::Signature,
                "the instruction defines no value".to_owned(),
            )],
        })
    }

    fn insert(&mut self) -> Result<Inst, BuildError> {
        self.fill_in();
        let func = &mut *self.cursor.func;
        let inst = match self.operation {
            Operation::Abstract(op, mods) => {
                let results = self.results.len();
                self.results.append(&mut self.operands);
                func.create_abstract(op, mods, results, &self.results)
            }
            Operation::Machine(op, mods) => func.create_machine(op, mods, &self.operands),
        };
        if !self.kept.is_empty() {
            func.set_kept(inst, &self.kept);
        }
        if !self.uses.is_empty() || !self.defs.is_empty() {
            func.set_implicit(inst, &self.uses, &self.defs);
        }
        if !self.edges.is_empty() {
            func.set_edges(inst, &self.edges);
        }
        func.set_guard(inst, self.guard);
        func.set_span(inst, self.cursor.span);
        let problems = std::mem::take(&mut self.problems);
        self.cursor.check_and_insert(inst, None, false, problems)
    }

    /// Makes results whose type the row tells, and leaves out optional results and operands that were not given.
    fn fill_in(&mut self) {
        match self.operation {
            Operation::Abstract(op, mods) => {
                let row = op.row();
                add_results(self.cursor.func, row, mods, &mut self.results);
                for slot in row.operands.iter().skip(self.operands.len()) {
                    match slot.arity {
                        Arity::Optional => self.operands.push(Operand::None),
                        _ => break,
                    }
                }
            }
            Operation::Machine(op, mods) => {
                // A place left open where the operation writes a register it must name.
                for (index, slot) in op.row().slots.iter().enumerate() {
                    let open = self.operands.get(index) == Some(&Operand::None);
                    if open && slot.access.writes() && slot.default.is_none() {
                        let ty = slot_class(op, index).and_then(|class| {
                            Type::tuple(class, machine::slot_width(op, mods, index))
                        });
                        if let Some(ty) = ty {
                            self.operands[index] = self.cursor.func.create_value(ty).into();
                        }
                    }
                }
            }
        }
    }
}

/// Makes the results that are missing, as far as the row tells their types.
fn add_results<A: smallvec::Array<Item = Operand>>(
    func: &mut Function,
    row: &Row,
    mods: AbstractMods,
    results: &mut SmallVec<A>,
) {
    for slot in row.results.iter().skip(results.len()) {
        match (slot.arity, row.register_type(slot.kind, mods)) {
            (Arity::One, Some(ty)) => results.push(func.create_value(ty).into()),
            (Arity::Optional, _) => results.push(Operand::None),
            _ => break,
        }
    }
}

/// The class of registers in a slot, if every form has the same.
fn slot_class(op: sass::Op, slot: usize) -> Option<Class> {
    let mut classes = op
        .row()
        .forms
        .iter()
        .filter_map(|form| match form.places.get(slot)?.kind {
            sass::PlaceKind::Register { class, .. } => Some(Class::from(class)),
            _ => None,
        });
    let first = classes.next()?;
    classes.all(|class| class == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{FunctionKind, Level};
    use crate::operation::Scalar;
    use crate::{parse_function, print_function, verify_function};

    fn function(level: Level) -> (Function, Block) {
        let target = orias_sass::Target::DEFAULT;
        let mut func = Function::new("f", FunctionKind::Device, level, target);
        let entry = func.append_block();
        (func, entry)
    }

    #[test]
    fn a_guarded_definition_needs_the_value_it_keeps() {
        let (mut func, entry) = function(Level::Abstract);
        let p = func.append_block_param(entry, Type::P);
        let x = func.append_block_param(entry, Type::R);
        let mut at = Cursor::at_end(&mut func, entry);
        let bare = at
            .build(AbstractOp::Mov)
            .with(Scalar::B32)
            .guard(Guard::unless(p))
            .imm(7)
            .finish();
        assert_eq!(bare.unwrap_err().problems[0].0, Invariant::Kept);
        at.build(AbstractOp::Mov)
            .with(Scalar::B32)
            .guard(Guard::unless(p))
            .imm(7)
            .kept(x)
            .finish()
            .unwrap();
        at.build(AbstractOp::Ret).finish().unwrap();
        assert_eq!(verify_function(&func), Ok(()));
        let text = print_function(&func);
        assert!(text.contains("@!v0 v3:r~v1 = mov.b32 7"), "{text}");
        assert_eq!(parse_function(&text).unwrap(), func);
    }

    #[test]
    fn machine_instructions_are_checked_against_the_tables() {
        let (mut func, entry) = function(Level::Machine);
        let x = func.append_block_param(entry, Type::R);
        let mut at = Cursor::at_end(&mut func, entry);
        let sum = at
            .build(sass::Op::IADD3)
            .define(Type::R)
            .none()
            .none()
            .operand(x)
            .imm(1)
            .operand(crate::PhysReg::RZ)
            .value()
            .unwrap();
        let wide = at
            .build(sass::Op::IADD3)
            .define(Type::R2)
            .none()
            .none()
            .operand(sum)
            .imm(1)
            .operand(crate::PhysReg::RZ)
            .finish();
        assert_eq!(wide.unwrap_err().problems[0].0, Invariant::Type);
    }

    #[test]
    fn what_is_right_once_does_not_excuse_what_only_looks_alike() {
        let (mut func, entry) = function(Level::Abstract);
        let x = func.append_block_param(entry, Type::R);
        let pair = func.append_block_param(entry, Type::R2);
        let mut at = Cursor::at_end(&mut func, entry);
        let put = |at: &mut Cursor<'_>, scalar, operands: &[Operand]| {
            let mods = AbstractOp::Add
                .row()
                .with_modifier(AbstractMods::NONE, scalar);
            let mods = mods.unwrap();
            at.put_abstract(AbstractOp::Add, mods, &[], operands, Guard::ALWAYS, &[])
        };
        for operands in [[x.into(), Operand::imm(1)], [x.into(), x.into()]] {
            put(&mut at, Scalar::S32, &operands).unwrap();
            put(&mut at, Scalar::S32, &operands).unwrap();
        }
        let wrong: [(Scalar, [Operand; 2]); 4] = [
            (Scalar::S64, [x.into(), Operand::imm(1)]),
            (Scalar::S32, [pair.into(), Operand::imm(1)]),
            (Scalar::S32, [x.into(), Operand::imm(i64::MIN as u64)]),
            (
                Scalar::S32,
                [
                    Operand::from(x)
                        .with_mods(crate::SourceMods::NEGATE)
                        .unwrap(),
                    x.into(),
                ],
            ),
        ];
        for (scalar, operands) in wrong {
            assert!(put(&mut at, scalar, &operands).is_err(), "{operands:?}");
        }
        at.set_span(Some(Span::from_u32(7)));
        assert!(put(&mut at, Scalar::S32, &[x.into(), x.into()]).is_err());
    }
}
