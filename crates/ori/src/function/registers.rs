//! What instructions read and write: looking at registers and replacing them.
//!
//! Every phase asks this of every instruction, so the answer is made of the row's two sets of slots ([`sass::Operation::read`],
//! [`sass::Operation::written`]) without looking at the slots one by one.

use super::{Function, ValueDef};
use crate::entity::{Inst, Value};
use crate::instruction::{InstData, Operation};
use crate::machine;
use crate::operand::Operand;
use crate::register::{OptReg, Reg, RegKind, Type};
use cranelift_entity::EntityRef;
use orias_sass as sass;
use smallvec::SmallVec;
use std::ops::Range;

/// Some of the operands an instruction writes, by their place in its run of the pool.
struct Places {
    /// Places of a machine operation, as bits.
    slots: u16,
    /// Places of an abstract operation.
    results: Range<u16>,
    /// Implicit definitions.
    implicit: Range<u16>,
}

impl Places {
    /// All the places that `data` writes.
    #[inline]
    fn written(data: &InstData) -> Places {
        let first = data.slots + data.kept + data.uses;
        let implicit = first..first + data.defs;
        match data.operation {
            Operation::Abstract(..) => Places {
                slots: 0,
                results: 0..data.results,
                implicit,
            },
            Operation::Machine(op, _) => Places {
                slots: op.row().written & below(data.slots),
                results: 0..0,
                implicit,
            },
        }
    }

    /// The places among the operands of `data` that need a kept value if they hold one.
    #[inline]
    fn kept(data: &InstData) -> Places {
        let always = data.guard.is_always();
        let mut places = Places::written(data);
        places.implicit = 0..0;
        if always {
            places.results = 0..0;
            if let Operation::Machine(op, _) = data.operation {
                places.slots &= op.row().read;
            }
        }
        places
    }
}

impl Iterator for Places {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        if self.slots != 0 {
            let place = self.slots.trailing_zeros() as u16;
            self.slots &= self.slots - 1;
            return Some(place);
        }
        self.results.next().or_else(|| self.implicit.next())
    }
}

/// What stands in places that no register was written to yet.
const NO_REGISTER: Reg = Reg::from_bits(0);

/// The set of the slots below `count`.
#[inline]
fn below(count: u16) -> u16 {
    if count >= 16 {
        u16::MAX
    } else {
        (1 << count) - 1
    }
}

/// Whether an operation of this row reads operand `index`. An operand too many counts as read.
#[inline]
fn reads(row: &sass::Operation, index: usize) -> bool {
    index >= row.slots.len() || row.read >> index & 1 == 1
}

/// Whether an operation of this row writes operand `index`.
#[inline]
fn writes(row: &sass::Operation, index: usize) -> bool {
    index < row.slots.len() && row.written >> index & 1 == 1
}

impl Function {
    /// The value defined in the `number`-th place that defines a value.
    pub fn result(&self, inst: Inst, number: usize) -> Option<Value> {
        self.value_defs(inst).nth(number)
    }

    /// Whether operand `index` is a place the instruction writes.
    #[inline]
    pub fn is_def(&self, inst: Inst, index: usize) -> bool {
        let data = &self.insts[inst];
        match data.operation {
            Operation::Abstract(..) => index < usize::from(data.results),
            Operation::Machine(op, _) => writes(op.row(), index),
        }
    }

    /// Whether operand `index` is a place the instruction reads. A place may be both; a value in it is then the one
    /// written, and the one read is among the kept.
    #[inline]
    pub fn is_use(&self, inst: Inst, index: usize) -> bool {
        let data = &self.insts[inst];
        match data.operation {
            Operation::Abstract(..) => index >= usize::from(data.results),
            Operation::Machine(op, _) => reads(op.row(), index),
        }
    }

    /// The operands whose values need a kept value: all definitions of a guarded instruction, and places both read and
    /// written. Physical registers keep themselves.
    pub fn kept_places(&self, inst: Inst) -> impl Iterator<Item = usize> + '_ {
        let data = &self.insts[inst];
        let start = data.start as usize;
        Places::kept(data)
            .map(usize::from)
            .filter(move |place| self.operands[start + place].as_value().is_some())
    }

    /// Whether operand `index` is one of [`Function::kept_places`].
    pub fn keeps(&self, inst: Inst, index: usize) -> bool {
        self.is_def(inst, index)
            && (!self.insts[inst].guard.is_always() || self.is_use(inst, index))
            && self.operands(inst)[index].as_value().is_some()
    }

    /// Calls `found` with every register the instruction writes, in the order of [`Function::defs`].
    #[inline]
    pub fn for_each_def(&self, inst: Inst, mut found: impl FnMut(Reg)) {
        let data = &self.insts[inst];
        for place in Places::written(data) {
            let operand = self.operands[data.start as usize + usize::from(place)];
            if let Some(reg) = operand.reg()
                && !reg.is_constant()
            {
                found(reg);
            }
        }
        if let Operation::Machine(op, _) = data.operation
            && !op.row().implicit.is_empty()
        {
            machine::implicit(op, sass::Access::writes)
                .filter(|reg| !reg.is_constant())
                .for_each(found);
        }
    }

    /// Every register the instruction writes, implicit ones included, constant registers left out.
    ///
    /// A guarded instruction may write nothing: a physical register it names then keeps its contents.
    pub fn defs(&self, inst: Inst) -> impl Iterator<Item = Reg> + use<> {
        let mut few = [NO_REGISTER; 6];
        let mut count = 0;
        self.for_each_def(inst, |reg| {
            if let Some(place) = few.get_mut(count) {
                *place = reg;
            }
            count += 1;
        });
        match count <= few.len() {
            true => SmallVec::from_buf_and_len(few, count),
            false => self.many_defs(inst, count),
        }
        .into_iter()
    }

    #[cold]
    fn many_defs(&self, inst: Inst, count: usize) -> SmallVec<[Reg; 6]> {
        let mut regs = SmallVec::with_capacity(count);
        self.for_each_def(inst, |reg| regs.push(reg));
        regs
    }

    /// Calls `found` with every register the instruction reads, in the order of [`Function::uses`].
    #[inline]
    pub fn for_each_use(&self, inst: Inst, mut found: impl FnMut(Reg)) {
        self.for_each_own_use(inst, &mut found);
        for &edge in self.edges(inst) {
            for &value in self.edge_args(edge) {
                found(Reg::from(value));
            }
        }
    }

    /// The same without what the instruction's edges pass on.
    #[inline]
    pub fn for_each_own_use(&self, inst: Inst, mut found: impl FnMut(Reg)) {
        let data = &self.insts[inst];
        let mut found = |reg: Reg| {
            if !reg.is_constant() {
                found(reg);
            }
        };
        if let Some(reg) = data.guard.reg() {
            found(reg);
        }
        let start = data.start as usize;
        let slots = start + usize::from(data.slots);
        let end = slots + usize::from(data.kept + data.uses);
        match data.operation {
            Operation::Abstract(..) => {
                for &operand in &self.operands[start + usize::from(data.results)..end] {
                    self.for_each_operand_reg(operand, &mut found);
                }
            }
            Operation::Machine(op, _) => {
                let row = op.row();
                for (index, &operand) in self.operands[start..slots].iter().enumerate() {
                    let read =
                        reads(row, index) && !(writes(row, index) && operand.as_value().is_some());
                    if read {
                        self.for_each_operand_reg(operand, &mut found);
                    }
                }
                for &operand in &self.operands[slots..end] {
                    self.for_each_operand_reg(operand, &mut found);
                }
                if !row.implicit.is_empty() {
                    machine::implicit(op, sass::Access::reads).for_each(&mut found);
                }
            }
        }
    }

    /// Every register the instruction reads, constant registers left out: the guard, sources, parts of addresses, kept
    /// values, implicit uses, and the arguments of edges.
    pub fn uses(&self, inst: Inst) -> impl Iterator<Item = Reg> + use<> {
        let mut few = [NO_REGISTER; 12];
        let mut count = 0;
        self.for_each_use(inst, |reg| {
            if let Some(place) = few.get_mut(count) {
                *place = reg;
            }
            count += 1;
        });
        match count <= few.len() {
            true => SmallVec::from_buf_and_len(few, count),
            false => self.many_uses(inst, count),
        }
        .into_iter()
    }

    #[cold]
    fn many_uses(&self, inst: Inst, count: usize) -> SmallVec<[Reg; 12]> {
        let mut regs = SmallVec::with_capacity(count);
        self.for_each_use(inst, |reg| regs.push(reg));
        regs
    }

    /// The values the instruction defines.
    pub fn value_defs(&self, inst: Inst) -> impl Iterator<Item = Value> + use<> {
        self.defs(inst).filter_map(Reg::value)
    }

    /// The values the instruction uses, arguments of its edges included.
    pub fn value_uses(&self, inst: Inst) -> impl Iterator<Item = Value> + use<> {
        self.uses(inst).filter_map(Reg::value)
    }

    /// Calls `found` with every value the instruction uses, in the order of [`Function::value_uses`].
    #[inline]
    pub fn for_each_value_use(&self, inst: Inst, mut found: impl FnMut(Value)) {
        self.for_each_use(inst, |reg| {
            if let Some(value) = reg.value() {
                found(value);
            }
        });
    }

    /// Calls `found` with every value the instruction defines, in the order of [`Function::value_defs`].
    #[inline]
    pub fn for_each_value_def(&self, inst: Inst, mut found: impl FnMut(Value)) {
        self.for_each_def(inst, |reg| {
            if let Some(value) = reg.value() {
                found(value);
            }
        });
    }

    #[inline(always)]
    fn for_each_operand_reg(&self, operand: Operand, found: &mut impl FnMut(Reg)) {
        match operand {
            Operand::Reg { reg, .. } => found(reg),
            Operand::Imm(_) | Operand::None => {}
            other => self.operand_regs(other).for_each(found),
        }
    }

    /// The registers that reading `operand` reads.
    #[inline]
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

    /// Makes `inst` the definition of every value in a place that defines.
    pub(super) fn own_definitions(&mut self, inst: Inst) {
        let data = &self.insts[inst];
        let start = data.start as usize;
        for place in Places::written(data) {
            if let Some(value) = self.operands[start + usize::from(place)].as_value() {
                self.values[value].def = ValueDef::Inst(inst, place);
            }
        }
    }

    /// Takes the definitions that `inst` is away from their values.
    pub(super) fn disown_definitions(&mut self, inst: Inst) {
        let data = &self.insts[inst];
        let start = data.start as usize;
        for place in Places::written(data) {
            if let Some(value) = self.operands[start + usize::from(place)].as_value()
                && matches!(self.values[value].def, ValueDef::Inst(by, _) if by == inst)
            {
                self.values[value].def = ValueDef::None;
            }
        }
    }

    /// Replaces every register the instruction reads (the same ones as [`Function::uses`], constant registers included).
    pub fn map_uses(&mut self, inst: Inst, mut map: impl FnMut(Reg) -> Reg) {
        if let Some(reg) = self.insts[inst].guard.reg() {
            self.insts[inst].guard = self.insts[inst].guard.with_reg(map(reg));
        }
        let data = self.insts[inst];
        let start = data.start as usize;
        let slots = usize::from(data.slots);
        let first = match data.operation {
            Operation::Abstract(..) => usize::from(data.results),
            Operation::Machine(op, _) => {
                let row = op.row();
                for index in 0..slots {
                    let operand = self.operands[start + index];
                    let read =
                        reads(row, index) && !(writes(row, index) && operand.as_value().is_some());
                    if read {
                        self.operands[start + index] = self.map_operand(operand, &mut map);
                    }
                }
                slots
            }
        };
        for index in first..slots + usize::from(data.kept + data.uses) {
            let operand = self.operands[start + index];
            self.operands[start + index] = self.map_operand(operand, &mut map);
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

    #[inline(always)]
    fn map_operand(&mut self, operand: Operand, map: &mut impl FnMut(Reg) -> Reg) -> Operand {
        match operand {
            Operand::Reg { reg, mods } => Operand::Reg {
                reg: map(reg),
                mods,
            },
            Operand::Imm(_) | Operand::None => operand,
            other => self.map_other_operand(other, map),
        }
    }

    /// The same for operands that are rarer than registers and immediates.
    fn map_other_operand(&mut self, operand: Operand, map: &mut impl FnMut(Reg) -> Reg) -> Operand {
        match operand {
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
        let data = &self.insts[inst];
        let start = data.start as usize;
        for place in Places::written(data) {
            if let Operand::Reg { reg, .. } = &mut self.operands[start + usize::from(place)] {
                *reg = map(*reg);
            }
        }
        self.own_definitions(inst);
    }

    /// Replaces every value the instruction reads or writes, arguments of edges left out, by what `map` says for its type; where that is
    /// nothing, the value stays. The instruction defines no values afterwards.
    pub fn map_values(&mut self, inst: Inst, mut map: impl FnMut(Type) -> Option<Reg>) {
        self.disown_definitions(inst);
        let values = std::mem::take(&mut self.values);
        let mut map = |reg: Reg| match reg.kind() {
            RegKind::Value(value) => map(values[value].ty).unwrap_or(reg),
            RegKind::Phys(_) => reg,
        };
        let data = &mut self.insts[inst];
        if let Some(reg) = data.guard.reg() {
            data.guard = data.guard.with_reg(map(reg));
        }
        let start = data.start as usize;
        let count = usize::from(data.slots + data.kept + data.uses + data.defs);
        for index in start..start + count {
            let operand = self.operands[index];
            self.operands[index] = self.map_operand(operand, &mut map);
        }
        self.values = values;
    }

    /// Whether the operation reads or writes registers that no operand names.
    #[inline]
    pub fn has_implicit_registers(&self, inst: Inst) -> bool {
        match self.insts[inst].operation {
            Operation::Abstract(..) => false,
            Operation::Machine(op, _) => !op.row().implicit.is_empty(),
        }
    }

    /// Calls `found` with every register that an operand or the guard names, in the order in which [`Function::map_values`] replaces values.
    #[inline]
    pub fn for_each_register(&self, inst: Inst, mut found: impl FnMut(Reg)) {
        let data = &self.insts[inst];
        if let Some(reg) = data.guard.reg() {
            found(reg);
        }
        let start = data.start as usize;
        let count = usize::from(data.slots + data.kept + data.uses + data.defs);
        for &operand in &self.operands[start..start + count] {
            self.for_each_operand_reg(operand, &mut found);
        }
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

    /// Numbers the values anew, in the same order, without those that nothing in the layout names. Instructions in no block
    /// lose their operands.
    ///
    /// Tables by value are as long as the highest number; lowering leaves most numbers unused.
    pub fn renumber_values(&mut self) {
        let mut named = vec![false; self.values.len()];
        let mut placed = vec![false; self.insts.len()];
        for block in self.layout.blocks() {
            for &param in self.block_params(block) {
                named[param.index()] = true;
            }
            for inst in self.layout.insts(block) {
                placed[inst.index()] = true;
                let mut name = |reg: Reg| {
                    if let Some(value) = reg.value() {
                        named[value.index()] = true;
                    }
                };
                self.for_each_use(inst, &mut name);
                self.for_each_def(inst, &mut name);
            }
        }
        if named.iter().all(|&named| named) {
            return;
        }
        let old = std::mem::take(&mut self.values);
        let mut numbers = vec![Value::from_u32(0); old.len()];
        for (value, data) in old.iter() {
            if named[value.index()] {
                numbers[value.index()] = self.values.push(*data);
            }
        }
        let renamed = |reg: Reg| match reg.value() {
            Some(value) => Reg::from(numbers[value.index()]),
            None => reg,
        };
        for (number, placed) in placed.into_iter().enumerate() {
            let inst = Inst::new(number);
            if !placed {
                self.insts[inst].forget_operands();
                continue;
            }
            self.map_uses(inst, renamed);
            let data = &self.insts[inst];
            for place in Places::written(data) {
                if let Operand::Reg { reg, .. } =
                    &mut self.operands[data.start as usize + usize::from(place)]
                {
                    *reg = renamed(*reg);
                }
            }
        }
        for (block, data) in self.blocks.iter_mut() {
            if self.layout.contains_block(block) {
                for param in data.params.as_mut_slice(&mut self.value_lists) {
                    *param = numbers[param.index()];
                }
            } else {
                data.params.clear(&mut self.value_lists);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Value, parse_function, print_function};

    #[test]
    fn renumbering_keeps_the_order_and_leaves_out_what_nothing_names() {
        let text = "func f abstract sm_90a -> r {
block0(v0:r, v7:p):
    v3:r = add.s32 v0, 1
    v9:r = add.s32 v3, v0
    @!v7 v5:r~v9 = mov.b32 7
    cbr v7 -> block2(v5, v0), block1
block1:
    ret v9
block2(v12:r, v11:r):
    v20:r = add.s32 v12, v11
    ret v20
}
";
        let mut func = parse_function(text).unwrap();
        let entry = func.entry().unwrap();
        let add = func.block_insts(entry).next().unwrap();
        func.renumber_values();
        let expected = "func f abstract sm_90a -> r {
block0(v0:r, v3:p):
    v1:r = add.s32 v0, 1
    v4:r = add.s32 v1, v0
    @!v3 v2:r~v4 = mov.b32 7
    cbr v3 -> block2(v2, v0), block1
block1:
    ret v4
block2(v6:r, v5:r):
    v7:r = add.s32 v6, v5
    ret v7
}
";
        assert_eq!(print_function(&func), expected);
        assert_eq!(func.value_count(), 8);
        assert_eq!(func.defining_inst(Value::from_u32(1)), Some(add));
    }
}
