//! Random abstract instructions, drawn from the rows.

use super::Generator;
use super::shape::End;
use orias_ori::operation::{
    AbstractMods, AbstractOp, Arity, Kind, Modifier, Row, Scalar, Scalars, Slot, SourceType,
};
use orias_ori::{Address, Operand, SourceMods};
use orias_ori::{Class, Guard, OptReg, Type};
use orias_ori::{FunctionKind, Level};

impl Generator {
    /// An instruction of a random row that belongs in the level and ends no block.
    pub(super) fn abstract_inst(&mut self) {
        let op = *self.rng.pick(AbstractOp::ALL);
        let row = op.row();
        if row.levels.contains(self.func.level) && !orias_ori::Opcode::Abstract(op).is_terminator()
        {
            self.place(op);
        }
    }

    /// One of the few abstract operations machine code may have.
    pub(super) fn generic_inst(&mut self) {
        let ops = [
            AbstractOp::Collect,
            AbstractOp::Split,
            AbstractOp::ParCopy,
            AbstractOp::Undef,
            AbstractOp::Call,
        ];
        let op = *self.rng.pick(&ops);
        if op.row().levels.contains(self.func.level) {
            self.place(op);
        }
    }

    fn place(&mut self, op: AbstractOp) {
        let row = op.row();
        let mods = self.modifiers(row);
        let mut results = Vec::new();
        let mut sources = Vec::new();
        match op {
            AbstractOp::Collect => {
                let (whole, parts) = self.parts();
                results.push(whole);
                for ty in parts {
                    sources.push(self.pick_value(ty).into());
                }
            }
            AbstractOp::Split => {
                let (whole, parts) = self.parts();
                sources.push(self.pick_value(whole).into());
                results = parts;
            }
            AbstractOp::ParCopy => {
                for _ in 0..1 + self.rng.below(3) {
                    let ty = self.any_type();
                    results.push(ty);
                    sources.push(self.pick_value(ty).into());
                }
            }
            AbstractOp::Call => {
                for _ in 0..self.rng.below(3) {
                    results.push(self.any_type());
                }
                sources = self.call_operands();
            }
            _ => {
                for slot in row.operands {
                    let operand = self.source(row, *slot, mods);
                    sources.push(operand);
                }
            }
        }
        let mut operands: Vec<Operand> = Vec::new();
        if results.is_empty() && !matches!(op, AbstractOp::Call) {
            for slot in row.results {
                let operand = self.result(row, *slot, mods);
                operands.push(operand);
            }
        } else {
            for ty in results {
                operands.push(self.func.create_value(ty).into());
            }
        }
        let count = operands.len();
        operands.extend(sources);
        let guard = self.guard(row);
        let kept: Vec<Operand> = operands[..count]
            .iter()
            .copied()
            .filter(|_| !guard.is_always())
            .filter_map(Operand::as_value)
            .map(|value| {
                let ty = self.func.value_type(value);
                self.pick_value(ty).into()
            })
            .collect();
        let inst = self.func.create_abstract(op, mods, count, &operands);
        self.func.set_guard(inst, guard);
        self.func.set_kept(inst, &kept);
        let span = self.span();
        self.func.set_span(inst, span);
        let block = self.current();
        self.func.layout.append_inst(inst, block);
        self.note(inst);
    }

    fn guard(&mut self, row: &Row) -> Guard {
        if !row.takes_guard || !self.rng.one_in(5) {
            return Guard::ALWAYS;
        }
        let predicate = self.pick_value(Type::P);
        if self.rng.one_in(2) {
            Guard::when(predicate)
        } else {
            Guard::unless(predicate)
        }
    }

    fn modifiers(&mut self, row: &Row) -> AbstractMods {
        let mut mods = AbstractMods::NONE;
        for (index, &kind) in row.modifiers.iter().enumerate() {
            let number = if kind == Scalar::KIND {
                self.scalar(row.types)
            } else if kind == SourceType::KIND {
                self.scalar(row.sources)
            } else if self.rng.one_in(2) {
                0
            } else {
                self.rng.below(kind.names().len()) as u8
            };
            mods = mods.with(index, number);
        }
        mods
    }

    fn scalar(&mut self, allowed: Scalars) -> u8 {
        let list: Vec<Scalar> = allowed.iter().collect();
        self.rng.pick(&list).number()
    }

    fn class(&mut self) -> Class {
        let classes: &[Class] = match self.func.level {
            Level::Abstract => &[Class::R, Class::R, Class::R, Class::P, Class::B],
            _ => &Class::ALL,
        };
        *self.rng.pick(classes)
    }

    fn any_type(&mut self) -> Type {
        let class = self.class();
        self.tuple_type(class)
    }

    /// A tuple and the parts it consists of.
    fn parts(&mut self) -> (Type, Vec<Type>) {
        let class = self.class();
        let mut total = 0;
        let mut parts = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let part = self.tuple_type(class);
            if total + part.len() <= class.count() {
                total += part.len();
                parts.push(part);
            }
        }
        match Type::tuple(class, total) {
            Some(whole) => (whole, parts),
            None => (Type::single(class), vec![Type::single(class)]),
        }
    }

    fn call_operands(&mut self) -> Vec<Operand> {
        let direct = self.rng.one_in(2);
        let mut operands = vec![if direct {
            self.name(0)
        } else {
            self.pick_value(Type::R2).into()
        }];
        for _ in 0..self.rng.below(4) {
            let ty = self.any_type();
            operands.push(self.pick_value(ty).into());
        }
        if !direct {
            for _ in 0..self.rng.below(3) {
                operands.push(self.name(0));
            }
        }
        operands
    }

    pub(super) fn name(&mut self, addend: i32) -> Operand {
        Operand::Symbol {
            symbol: self.symbol(),
            part: orias_ori::SymbolPart::Whole,
            addend,
        }
    }

    fn result(&mut self, row: &Row, slot: Slot, mods: AbstractMods) -> Operand {
        if slot.arity == Arity::Optional && self.rng.one_in(3) {
            return Operand::None;
        }
        let ty = match row.register_type(slot.kind, mods) {
            Some(ty) => ty,
            None if slot.kind == Kind::Tuple => self.tuple_type(Class::R),
            None => self.any_type(),
        };
        self.func.create_value(ty).into()
    }

    fn source(&mut self, row: &Row, slot: Slot, mods: AbstractMods) -> Operand {
        if slot.arity == Arity::Optional && self.rng.one_in(3) {
            return Operand::None;
        }
        if let Some(ty) = row.register_type(slot.kind, mods) {
            return self.typed_source(ty);
        }
        match slot.kind {
            Kind::Address => self.abstract_address(),
            Kind::Imm => Operand::imm(self.rng.next_u64() >> self.rng.below(64)),
            Kind::Symbol => {
                let addend = self.rng.below(256) as i32 - 128;
                self.name(addend)
            }
            Kind::Block => Operand::Block(self.any_block()),
            Kind::Tuple => {
                let ty = self.tuple_type(Class::R);
                self.pick_value(ty).into()
            }
            _ => {
                let ty = self.any_type();
                self.pick_value(ty).into()
            }
        }
    }

    fn typed_source(&mut self, ty: Type) -> Operand {
        match (ty.class(), self.rng.below(6)) {
            (Class::P, 0) => Operand::imm(self.rng.below(2) as u64),
            (Class::P, 1) => Operand::Reg {
                reg: self.pick_value(ty).into(),
                mods: SourceMods::NOT,
            },
            (Class::R, 0) if ty.len() == 1 => {
                let bits = self.rng.next_u64() as u32 >> self.rng.below(32);
                Operand::imm(if self.rng.one_in(4) {
                    u64::from(bits >> 1).wrapping_neg()
                } else {
                    u64::from(bits)
                })
            }
            (Class::R, 0) if ty.len() == 2 => Operand::imm(self.rng.next_u64()),
            (Class::R, 1) => {
                let index = self.rng.one_in(2).then(|| self.pick_value(Type::R).into());
                Operand::Const {
                    mods: SourceMods::NONE,
                    bank: self.rng.below(4) as u8,
                    offset: self.rng.below(1 << 16) as i32 - (1 << 15),
                    index: OptReg::from(index),
                }
            }
            _ => self.pick_value(ty).into(),
        }
    }

    fn abstract_address(&mut self) -> Operand {
        let base = if self.rng.one_in(5) {
            OptReg::NONE
        } else {
            let ty = *self.rng.pick(&[Type::R, Type::R2]);
            self.pick_value(ty).into()
        };
        let symbol = self.rng.one_in(4).then(|| self.symbol());
        let offset = if self.rng.one_in(2) {
            0
        } else {
            self.rng.next_u64() as i32
        };
        self.func.create_address(Address {
            base,
            symbol: symbol.into(),
            offset,
            ..Address::default()
        })
    }

    pub(super) fn abstract_end(&mut self, end: &End) {
        match end {
            End::Stop => match (self.func.kind, self.rng.below(4)) {
                (_, 0) => self.place_abstract_end(AbstractOp::Trap, &[], &[]),
                (_, 1) => self.place_abstract_end(AbstractOp::Unreachable, &[], &[]),
                (FunctionKind::Device, 2 | 3) => self.place_return(),
                _ => self.place_abstract_end(AbstractOp::Exit, &[], &[]),
            },
            End::Go(to) => self.place_abstract_end(AbstractOp::Br, &[], &[*to]),
            End::Choose(a, b) => {
                let predicate = self.pick_value(Type::P).into();
                self.place_abstract_end(AbstractOp::CondBr, &[predicate], &[*a, *b]);
            }
            End::Switch(targets) => {
                let index = self.pick_value(Type::R).into();
                self.place_abstract_end(AbstractOp::Switch, &[index], targets);
            }
        }
    }
}
