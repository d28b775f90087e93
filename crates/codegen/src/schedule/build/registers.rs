//! Edges through registers: who wrote what is read, and who reads what is overwritten.
//!
//! The operands of an instruction are looked at once; what its node must know of them ([`Operands`]) comes of the same walk.

use super::{Builder, NOBODY, Reader, Writer, operations};
use crate::places::{PLACES, place};
use crate::schedule::graph::{EdgeClass, Kinds, Reasons};
use cranelift_entity::EntityRef as _;
use orias_machine::timing::Place;
use orias_ori::{Block, Class, Inst, Operand, Operation, PhysReg, Reg, RegKind, Value};
use orias_sass::{Access, Op};
use smallvec::SmallVec;

/// A guarded definition leaves earlier ones readable; of so many the graph knows the latency.
const WRITERS: usize = 8;

/// What happened to a place so far in the block with this stamp.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    stamp: u32,
    /// How often it was written.
    version: u32,
    writers: SmallVec<[Writer; 1]>,
    readers: Vec<Reader>,
}

/// What a node must know of its operands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Operands {
    /// Whether somebody reads a result after the block.
    pub(super) leaves: bool,
    /// Whether a uniform register or predicate is among them.
    pub(super) uniform: bool,
}

/// A register that is written, and in which place.
type Written = (Reg, Place, Reasons);

impl Builder<'_> {
    pub(super) fn registers(&mut self, node: u32, block: Block, inst: Inst) -> Operands {
        let func = self.func;
        let data = func.inst(inst);
        let mut found = Operands::default();
        let mut written: SmallVec<[Written; 4]> = SmallVec::new();
        let guard = data.guard();
        if let Some(reg) = guard.reg() {
            found.uniform |= self.read(node, reg, Place::Guard, Reasons::GUARD);
        }
        let guarded = !guard.is_always();
        let operands = func.operands(inst);
        let row = match data.operation() {
            Operation::Machine(op, _) => Some(op.row()),
            Operation::Abstract(..) => None,
        };
        let results = match row {
            Some(_) => 0,
            None => func.result_count(inst),
        };
        let mut kept = func.kept(inst).iter();
        for (slot, &operand) in operands.iter().enumerate() {
            let (read, write) = match row {
                Some(row) if slot < row.slots.len() => {
                    (row.read >> slot & 1 == 1, row.written >> slot & 1 == 1)
                }
                _ => (slot >= results, slot < results),
            };
            let place = Place::Slot(slot.min(255) as u8);
            let reasons = Reasons::slot(slot);
            match operand {
                Operand::Reg { reg, .. } => {
                    let is_value = reg.value().is_some();
                    found.uniform |= match read && !(write && is_value) {
                        true => self.read(node, reg, place, reasons),
                        false => self.is_uniform(reg),
                    };
                    if write {
                        written.push((reg, place, reasons));
                        if is_value
                            && (guarded || read)
                            && let Some(reg) = kept.next().and_then(|operand| operand.reg())
                        {
                            self.read(node, reg, place, reasons);
                            self.take_over(node, reg, reasons);
                        }
                    }
                }
                Operand::Imm(_) | Operand::None | Operand::Special(_) | Operand::Edge(_) => {}
                _ => {
                    for reg in func.operand_regs(operand) {
                        found.uniform |= match read {
                            true => self.read(node, reg, place, reasons),
                            false => self.is_uniform(reg),
                        };
                    }
                }
            }
        }
        let named = self.places.read.len();
        for reg in func.implicit_uses(inst).iter().filter_map(|o| o.reg()) {
            self.read(node, reg, Place::Implicit, Reasons::IMPLICIT);
        }
        self.places.read.truncate(named);
        let implicit = self.implicit(node);
        if let Some(op) = implicit {
            self.read_row(node, op);
        }
        for &edge in func.edges(inst) {
            let target = func.edge_target(edge);
            for (&argument, &param) in func.edge_args(edge).iter().zip(func.block_params(target)) {
                self.read(
                    node,
                    Reg::from(argument),
                    Place::Implicit,
                    Reasons::ARGUMENT,
                );
                self.replace_param(argument, param);
            }
        }
        let named = written.len();
        for reg in func.implicit_defs(inst).iter().filter_map(|o| o.reg()) {
            written.push((reg, Place::Implicit, Reasons::IMPLICIT));
        }
        let unnamed = named..written.len();
        if let Some(op) = implicit {
            let writes = row_registers(op, Access::writes);
            written.extend(writes.map(|reg| (reg, Place::Implicit, Reasons::IMPLICIT)));
        }
        for (index, &(reg, place, reasons)) in written.iter().enumerate() {
            found.leaves = found.leaves || !is_constant(reg) && self.is_live_out(block, reg);
            let named = self.places.written.len();
            self.write(node, guarded, reg, place, reasons);
            if unnamed.contains(&index) {
                self.places.written.truncate(named);
            }
        }
        let ends = (self.places.read.len(), self.places.written.len());
        self.places.ends.push((ends.0 as u32, ends.1 as u32));
        found
    }

    /// The operation of a node, if it touches registers without naming them.
    fn implicit(&self, node: u32) -> Option<Op> {
        let op = self.nodes[node as usize].op?;
        operations::of(self.machine, op).implicit.then_some(op)
    }

    fn read_row(&mut self, node: u32, op: Op) {
        for reg in row_registers(op, Access::reads) {
            self.read(node, reg, Place::Implicit, Reasons::IMPLICIT);
        }
    }

    fn is_uniform(&self, reg: Reg) -> bool {
        let class = match reg.kind() {
            RegKind::Phys(reg) if reg.is_constant() => return false,
            RegKind::Phys(reg) => reg.class(),
            RegKind::Value(value) => self.func.value_type(value).class(),
        };
        matches!(class, Class::UR | Class::UP)
    }

    /// `node` reads `reg`; whether that is a uniform register or predicate.
    fn read(&mut self, node: u32, reg: Reg, slot: Place, reasons: Reasons) -> bool {
        match reg.kind() {
            RegKind::Value(value) => {
                let class = self.func.value_type(value).class();
                let (stamp, index) = self.defined[value.index()];
                let writer = match stamp == self.stamp {
                    true => Some(self.writers[index as usize]),
                    false => None,
                };
                if let Some(writer) = writer.filter(|writer| writer.node != node) {
                    let reader = Reader {
                        node,
                        slot,
                        offset: 0,
                        reasons,
                    };
                    let latency = if reasons == Reasons::ARGUMENT {
                        0
                    } else {
                        self.raw(writer, reader, class)
                    };
                    self.edge(
                        writer.node,
                        node,
                        Kinds::RAW,
                        EdgeClass::Register(class),
                        reasons,
                        latency,
                    );
                }
                let (stamp, head) = &mut self.readers[value.index()];
                let next = if *stamp == self.stamp { *head } else { NOBODY };
                *stamp = self.stamp;
                *head = self.links.len() as u32;
                self.links.push((node, next));
                matches!(class, Class::UR | Class::UP)
            }
            RegKind::Phys(reg) => {
                for (offset, unit) in reg.units().enumerate() {
                    let place = place_of(unit);
                    let reader = Reader {
                        node,
                        slot,
                        offset: offset as u8,
                        reasons,
                    };
                    self.places.read.push(place as u16);
                    self.history(place).readers.push(reader);
                    for index in 0..self.registers[place].writers.len() {
                        let writer = self.registers[place].writers[index];
                        let latency = self.raw(writer, reader, reg.class());
                        let class = EdgeClass::Register(reg.class());
                        self.edge(writer.node, node, Kinds::RAW, class, reasons, latency);
                    }
                }
                !reg.is_constant() && matches!(reg.class(), Class::UR | Class::UP)
            }
        }
    }

    fn write(&mut self, node: u32, guarded: bool, reg: Reg, slot: Place, reasons: Reasons) {
        match reg.kind() {
            RegKind::Value(value) => {
                let class = self.func.value_type(value).class();
                let writer = Writer {
                    node,
                    arrival: self.arrival(node, slot, class, 0),
                };
                self.defined[value.index()] = (self.stamp, self.writers.len() as u32);
                self.writers.push(writer);
            }
            RegKind::Phys(reg) => {
                for (offset, unit) in reg.units().enumerate() {
                    let place = place_of(unit);
                    let class = EdgeClass::Register(reg.class());
                    let writer = Writer {
                        node,
                        arrival: self.arrival(node, slot, reg.class(), offset as u8),
                    };
                    self.places.written.push(place as u16);
                    self.history(place).version += 1;
                    for index in 0..self.registers[place].readers.len() {
                        let reader = self.registers[place].readers[index];
                        if reader.node != node {
                            let latency = self.war(reader, writer, reg.class());
                            let reasons = reader.reasons;
                            self.edge(reader.node, node, Kinds::WAR, class, reasons, latency);
                        }
                    }
                    for index in 0..self.registers[place].writers.len() {
                        let earlier = self.registers[place].writers[index];
                        let latency = self.waw(earlier, writer);
                        self.edge(earlier.node, node, Kinds::WAW, class, reasons, latency);
                    }
                    let history = &mut self.registers[place];
                    history.readers.clear();
                    if !guarded || history.writers.len() >= WRITERS {
                        history.writers.clear();
                    }
                    history.writers.push(writer);
                }
            }
        }
    }

    /// What happened to a place in this block.
    fn history(&mut self, place: usize) -> &mut History {
        if self.registers.is_empty() {
            self.registers.resize_with(PLACES, History::default);
        }
        let history = &mut self.registers[place];
        if history.stamp != self.stamp {
            history.stamp = self.stamp;
            history.version = 0;
            history.writers.clear();
            history.readers.clear();
        }
        history
    }

    /// How often a register has been written in this block.
    pub(super) fn version(&self, reg: PhysReg) -> u32 {
        let history = self.registers.get(place_of(reg));
        let history = history.filter(|history| history.stamp == self.stamp);
        history.map_or(0, |history| history.version)
    }

    /// `node` overwrites `reg`, a value it keeps: whoever reads that value before `node` stays before it.
    fn take_over(&mut self, node: u32, reg: Reg, reasons: Reasons) {
        if let Some(value) = reg.value() {
            self.behind_readers(node, value, reasons);
        }
    }

    /// The result of `argument`'s definition replaces `param`, which this block may read.
    fn replace_param(&mut self, argument: Value, param: Value) {
        let (stamp, index) = self.defined[argument.index()];
        if stamp == self.stamp && argument != param {
            let writer = self.writers[index as usize].node;
            self.behind_readers(writer, param, Reasons::ARGUMENT);
        }
    }

    fn behind_readers(&mut self, node: u32, value: Value, reasons: Reasons) {
        let (stamp, mut link) = self.readers[value.index()];
        if stamp != self.stamp {
            return;
        }
        let class = EdgeClass::Register(self.func.value_type(value).class());
        let mut later = NOBODY;
        while link != NOBODY {
            let (reader, next) = self.links[link as usize];
            if reader < node {
                self.edge(reader, node, Kinds::WAR, class, reasons, 0);
            } else {
                later = reader;
            }
            link = next;
        }
        // The next one to take the value over needs not look at the same readers again.
        if later == NOBODY {
            self.readers[value.index()] = (0, NOBODY);
        }
    }
}

fn place_of(reg: PhysReg) -> usize {
    usize::from(place(reg.class().into(), reg.index()))
}

pub(super) fn is_constant(reg: Reg) -> bool {
    matches!(reg.kind(), RegKind::Phys(reg) if reg.is_constant())
}

/// Registers the row of a machine operation touches without naming them.
fn row_registers(op: Op, wanted: fn(Access) -> bool) -> impl Iterator<Item = Reg> {
    let implicit = op.row().implicit.iter();
    let implicit = implicit.filter(move |implicit| wanted(implicit.access));
    implicit.filter_map(|implicit| {
        let class = Class::from(implicit.register.class);
        PhysReg::tuple(class, implicit.register.index, implicit.count).map(Reg::from)
    })
}
