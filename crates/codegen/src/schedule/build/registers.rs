//! Edges through registers: who wrote what is read, and who reads what is overwritten.

use super::{Builder, NOBODY, Touch};
use crate::schedule::graph::{EdgeClass, Kinds, Reasons};
use cranelift_entity::EntityRef as _;
use orias_machine::timing::Place;
use orias_ori::{Class, Function, Inst, PhysReg, Reg, RegKind, Value};
use smallvec::SmallVec;

/// Physical registers of all files in a row, then tokens.
pub(super) const PLACES: usize = 256 + 8 + 64 + 8 + 16;

/// A guarded definition leaves earlier ones readable; of so many the graph knows the latency.
const WRITERS: usize = 8;

impl Builder<'_> {
    pub(super) fn registers(&mut self, node: u32, inst: Inst) {
        let func = self.func;
        let data = func.inst(inst);
        if let Some(reg) = data.guard().reg() {
            self.read(node, reg, Place::Guard, Reasons::GUARD);
        }
        let mut kept = func.kept(inst).iter();
        for (slot, &operand) in func.operands(inst).iter().enumerate() {
            let place = Place::Slot(slot.min(255) as u8);
            let reasons = Reasons::slot(slot);
            let writes_value = func.is_def(inst, slot) && operand.as_value().is_some();
            if func.is_use(inst, slot) && !writes_value {
                for reg in func.operand_regs(operand) {
                    self.read(node, reg, place, reasons);
                }
            }
            if func.keeps(inst, slot)
                && let Some(reg) = kept.next().and_then(|operand| operand.reg())
            {
                self.read(node, reg, place, reasons);
                self.take_over(node, reg, reasons);
            }
        }
        let implicit = func.implicit_uses(inst).iter().filter_map(|o| o.reg());
        for reg in implicit.chain(row_registers(func, inst, orias_sass::Access::reads)) {
            self.read(node, reg, Place::Implicit, Reasons::IMPLICIT);
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
        for (slot, &operand) in func.operands(inst).iter().enumerate() {
            if func.is_def(inst, slot)
                && let Some(reg) = operand.reg()
            {
                self.write(
                    node,
                    inst,
                    reg,
                    Place::Slot(slot.min(255) as u8),
                    Reasons::slot(slot),
                );
            }
        }
        let implicit = func.implicit_defs(inst).iter().filter_map(|o| o.reg());
        for reg in implicit.chain(row_registers(func, inst, orias_sass::Access::writes)) {
            self.write(node, inst, reg, Place::Implicit, Reasons::IMPLICIT);
        }
    }

    fn read(&mut self, node: u32, reg: Reg, slot: Place, reasons: Reasons) {
        match reg.kind() {
            RegKind::Value(value) => {
                let (stamp, writer) = self.defined[value.index()];
                if stamp == self.stamp && writer.node != node {
                    let class = self.func.value_type(value).class();
                    let reader = Touch {
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
            }
            RegKind::Phys(reg) => {
                for (offset, unit) in reg.units().enumerate() {
                    let place = place_of(unit);
                    let reader = Touch {
                        node,
                        slot,
                        offset: offset as u8,
                        reasons,
                    };
                    let writers = self.registers[place].writers.clone();
                    for writer in writers {
                        let latency = self.raw(writer, reader, reg.class());
                        let class = EdgeClass::Register(reg.class());
                        self.edge(writer.node, node, Kinds::RAW, class, reasons, latency);
                    }
                    self.registers[place].readers.push(reader);
                    self.touched.push(place);
                }
            }
        }
    }

    fn write(&mut self, node: u32, inst: Inst, reg: Reg, slot: Place, reasons: Reasons) {
        match reg.kind() {
            RegKind::Value(value) => {
                let touch = Touch {
                    node,
                    slot,
                    offset: 0,
                    reasons,
                };
                self.defined[value.index()] = (self.stamp, touch);
            }
            RegKind::Phys(reg) => {
                let guarded = !self.func.inst(inst).guard().is_always();
                for (offset, unit) in reg.units().enumerate() {
                    let place = place_of(unit);
                    let class = EdgeClass::Register(reg.class());
                    let writer = Touch {
                        node,
                        slot,
                        offset: offset as u8,
                        reasons,
                    };
                    let mut history = std::mem::take(&mut self.registers[place]);
                    for reader in &history.readers {
                        let latency = self.war(*reader, writer, reg.class());
                        self.edge(
                            reader.node,
                            node,
                            Kinds::WAR,
                            class,
                            reader.reasons,
                            latency,
                        );
                    }
                    for earlier in &history.writers {
                        let latency = self.waw(*earlier, writer, reg.class());
                        self.edge(earlier.node, node, Kinds::WAW, class, reasons, latency);
                    }
                    history.readers.clear();
                    if !guarded || history.writers.len() >= WRITERS {
                        history.writers.clear();
                    }
                    history.writers.push(writer);
                    self.registers[place] = history;
                    self.versions[place] += 1;
                    self.touched.push(place);
                }
            }
        }
    }

    /// `node` overwrites `reg`, a value it keeps: whoever reads that value before `node` stays before it.
    fn take_over(&mut self, node: u32, reg: Reg, reasons: Reasons) {
        if let Some(value) = reg.value() {
            self.behind_readers(node, value, reasons);
        }
    }

    /// The result of `argument`'s definition replaces `param`, which this block may read.
    fn replace_param(&mut self, argument: Value, param: Value) {
        let (stamp, writer) = self.defined[argument.index()];
        if stamp == self.stamp && argument != param {
            self.behind_readers(writer.node, param, Reasons::ARGUMENT);
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

pub(super) fn place_of(reg: PhysReg) -> usize {
    let base = match reg.class() {
        Class::R => 0,
        Class::P => 256,
        Class::UR => 264,
        Class::UP => 328,
        Class::B => 336,
    };
    base + usize::from(reg.index())
}

/// Registers the row of a machine operation touches without naming them.
fn row_registers(
    func: &Function,
    inst: Inst,
    wanted: fn(orias_sass::Access) -> bool,
) -> SmallVec<[Reg; 2]> {
    let Some(op) = func.opcode(inst).as_machine() else {
        return SmallVec::new();
    };
    op.row()
        .implicit
        .iter()
        .filter(|implicit| wanted(implicit.access))
        .filter_map(|implicit| {
            let class = Class::from(implicit.register.class);
            PhysReg::tuple(class, implicit.register.index, implicit.count).map(Reg::from)
        })
        .collect()
}
