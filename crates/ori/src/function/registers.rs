//! What instructions read and write: looking at registers and replacing them.

use super::Function;
use crate::entity::{Inst, Value};
use crate::instruction::Operation;
use crate::machine;
use crate::operand::Operand;
use crate::register::{OptReg, Reg, RegKind};
use orias_sass::{self as sass, Access};

impl Function {
    /// The value defined in the `number`-th place that defines a value.
    pub fn result(&self, inst: Inst, number: usize) -> Option<Value> {
        self.value_defs(inst).nth(number)
    }

    /// Whether operand `index` is a place the instruction writes.
    pub fn is_def(&self, inst: Inst, index: usize) -> bool {
        let data = &self.insts[inst];
        match data.operation {
            Operation::Abstract(..) => index < usize::from(data.results),
            Operation::Machine(op, _) => slot_access(op, index).is_some_and(Access::writes),
        }
    }

    /// Whether operand `index` is a place the instruction reads. A place may be both; a value in it is then the one
    /// written, and the one read is among the kept.
    pub fn is_use(&self, inst: Inst, index: usize) -> bool {
        let data = &self.insts[inst];
        match data.operation {
            Operation::Abstract(..) => index >= usize::from(data.results),
            Operation::Machine(op, _) => slot_access(op, index).is_none_or(Access::reads),
        }
    }

    /// The operands whose values need a kept value: all definitions of a guarded instruction, and places both read and
    /// written. Physical registers keep themselves.
    pub fn kept_places(&self, inst: Inst) -> impl Iterator<Item = usize> + '_ {
        (0..self.operands(inst).len()).filter(move |&index| self.keeps(inst, index))
    }

    /// Whether operand `index` is one of [`Function::kept_places`].
    pub fn keeps(&self, inst: Inst, index: usize) -> bool {
        self.is_def(inst, index)
            && (!self.insts[inst].guard.is_always() || self.is_use(inst, index))
            && self.operands(inst)[index].as_value().is_some()
    }

    /// Every register the instruction writes, implicit ones included, constant registers left out.
    ///
    /// A guarded instruction may write nothing: a physical register it names then keeps its contents.
    pub fn defs(&self, inst: Inst) -> impl Iterator<Item = Reg> + '_ {
        let own = self
            .operands(inst)
            .iter()
            .enumerate()
            .filter(move |&(index, _)| self.is_def(inst, index))
            .map(|(_, operand)| operand);
        own.chain(self.implicit_defs(inst))
            .filter_map(|operand| operand.reg())
            .chain(self.row_implicit(inst, Access::writes))
            .filter(|reg| !is_constant(*reg))
    }

    /// Every register the instruction reads, constant registers left out: the guard, sources, parts of addresses, kept
    /// values, implicit uses, and the arguments of edges.
    pub fn uses(&self, inst: Inst) -> impl Iterator<Item = Reg> + '_ {
        let own = self
            .operands(inst)
            .iter()
            .enumerate()
            .filter(move |&(index, operand)| {
                self.is_use(inst, index)
                    && !(self.is_def(inst, index) && operand.as_value().is_some())
            })
            .map(|(_, operand)| operand);
        let operands = own
            .chain(self.kept(inst))
            .chain(self.implicit_uses(inst))
            .flat_map(move |&operand| self.operand_regs(operand));
        let guard = self.insts[inst].guard.reg();
        let args = self
            .edges(inst)
            .iter()
            .flat_map(move |&edge| self.edge_args(edge).iter().map(|&value| Reg::from(value)));
        guard
            .into_iter()
            .chain(operands)
            .chain(self.row_implicit(inst, Access::reads))
            .chain(args)
            .filter(|reg| !is_constant(*reg))
    }

    fn row_implicit(
        &self,
        inst: Inst,
        wanted: fn(Access) -> bool,
    ) -> impl Iterator<Item = Reg> + use<> {
        let op = self.insts[inst].opcode().as_machine();
        op.into_iter()
            .flat_map(move |op| machine::implicit(op, wanted))
    }

    /// The values the instruction defines.
    pub fn value_defs(&self, inst: Inst) -> impl Iterator<Item = Value> + '_ {
        self.defs(inst).filter_map(Reg::value)
    }

    /// The values the instruction uses, arguments of its edges included.
    pub fn value_uses(&self, inst: Inst) -> impl Iterator<Item = Value> + '_ {
        self.uses(inst).filter_map(Reg::value)
    }

    /// The registers that reading `operand` reads.
    pub fn operand_regs(&self, operand: Operand) -> impl Iterator<Item = Reg> + use<> {
        let regs: [OptReg; 3] = match operand {
            Operand::Reg { reg, .. } => [OptReg::from(reg), OptReg::NONE, OptReg::NONE],
            Operand::Const { index, .. } => [index, OptReg::NONE, OptReg::NONE],
            Operand::Bindless { descriptor, .. } | Operand::Descriptor(descriptor) => {
                [OptReg::from(descriptor), OptReg::NONE, OptReg::NONE]
            }
            Operand::Address(id) => {
                let address = &self.addresses[id];
                [address.base, address.uniform, address.descriptor]
            }
            Operand::None
            | Operand::Imm(_)
            | Operand::Special(_)
            | Operand::Symbol { .. }
            | Operand::Block(_)
            | Operand::Edge(_) => [OptReg::NONE; 3],
        };
        regs.into_iter().filter_map(OptReg::get)
    }

    /// Replaces every register the instruction reads (the same ones as [`Function::uses`], constant registers included).
    pub fn map_uses(&mut self, inst: Inst, mut map: impl FnMut(Reg) -> Reg) {
        if let Some(reg) = self.insts[inst].guard.reg() {
            self.insts[inst].guard = self.insts[inst].guard.with_reg(map(reg));
        }
        let data = self.insts[inst];
        let start = data.start as usize;
        let reads = usize::from(data.slots + data.kept + data.uses);
        for index in 0..reads {
            let own = index < usize::from(data.slots);
            let operand = self.operands[start + index];
            let only_written = own
                && (!self.is_use(inst, index)
                    || (self.is_def(inst, index) && operand.as_value().is_some()));
            if !only_written {
                self.operands[start + index] = self.map_operand(operand, &mut map);
            }
        }
        for place in 0..self.edges(inst).len() {
            let edge = self.edges(inst)[place];
            for arg in self.edges[edge].args.as_mut_slice(&mut self.value_lists) {
                if let RegKind::Value(value) = map(Reg::from(*arg)).kind() {
                    *arg = value;
                }
            }
        }
    }

    fn map_operand(&mut self, operand: Operand, map: &mut impl FnMut(Reg) -> Reg) -> Operand {
        match operand {
            Operand::Reg { reg, mods } => Operand::Reg {
                reg: map(reg),
                mods,
            },
            Operand::Const {
                mods,
                bank,
                offset,
                index,
            } => Operand::Const {
                mods,
                bank,
                offset,
                index: index.get().map(map).into(),
            },
            Operand::Bindless {
                mods,
                descriptor,
                offset,
            } => Operand::Bindless {
                mods,
                descriptor: map(descriptor),
                offset,
            },
            Operand::Descriptor(reg) => Operand::Descriptor(map(reg)),
            Operand::Address(id) => {
                let address = &mut self.addresses[id];
                for reg in [
                    &mut address.base,
                    &mut address.uniform,
                    &mut address.descriptor,
                ] {
                    *reg = reg.get().map(&mut *map).into();
                }
                operand
            }
            other => other,
        }
    }

    /// Replaces every register the instruction writes, constant registers included. A value put there gets this definition.
    pub fn map_defs(&mut self, inst: Inst, mut map: impl FnMut(Reg) -> Reg) {
        self.disown_definitions(inst);
        let data = self.insts[inst];
        let start = data.start as usize;
        let implicit = usize::from(data.slots + data.kept + data.uses);
        let places = (0..usize::from(data.slots))
            .filter(|&index| self.is_def(inst, index))
            .chain(implicit..implicit + usize::from(data.defs))
            .collect::<Vec<_>>();
        for index in places {
            if let Operand::Reg { reg, .. } = &mut self.operands[start + index] {
                *reg = map(*reg);
            }
        }
        self.own_definitions(inst);
    }

    /// Replaces registers in every instruction of the layout, in one pass: for a renaming that covers many values.
    pub fn map_all_uses(&mut self, mut map: impl FnMut(Reg) -> Reg) {
        let mut block = self.layout.entry();
        while let Some(current) = block {
            let mut inst = self.layout.first_inst(current);
            while let Some(at) = inst {
                self.map_uses(at, &mut map);
                inst = self.layout.next_inst(at);
            }
            block = self.layout.next_block(current);
        }
    }
}

fn slot_access(op: sass::Op, slot: usize) -> Option<Access> {
    op.row().slots.get(slot).map(|slot| slot.access)
}

fn is_constant(reg: Reg) -> bool {
    matches!(reg.kind(), RegKind::Phys(reg) if reg.is_constant())
}
