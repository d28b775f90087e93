//! How many cycles lie between two instructions that touch the same register, by `machine::timing`.

use super::{Builder, Touch};
use crate::schedule::graph::RELEASE;
use orias_machine::timing::{self, Arrival, Table, Timing};
use orias_ori::{Class, Operation};
use orias_sass::{Mods, Op};

impl Builder<'_> {
    /// Cycles from a write to a read of it.
    pub(super) fn raw(&self, writer: Touch, reader: Touch, class: Class) -> u16 {
        let Some(result) = self.result(writer, class) else {
            return 0;
        };
        let typical = self.nodes[writer.node as usize].latency;
        match result {
            Arrival::Fixed(group) => match self.machine(reader.node) {
                // A pseudo-operation passes it on to somebody who is not known here.
                None => typical,
                Some((consumer, consumer_mods)) => {
                    let used = timing::use_group(&timing::Use {
                        op: consumer,
                        mods: consumer_mods,
                        place: reader.slot,
                        class: class.into(),
                        offset: reader.offset,
                    });
                    match used {
                        Some(used) if used.class() == group.class() => {
                            u16::from(timing::latency(Table::Safe, group, used).cycles)
                        }
                        _ => typical,
                    }
                }
            },
            Arrival::ReadBarrier => RELEASE,
            Arrival::WarpGroup => 1,
            Arrival::WriteBarrier => typical,
        }
    }

    /// Cycles from a read to an overwriting write.
    pub(super) fn war(&self, reader: Touch, writer: Touch, class: Class) -> u16 {
        let Some((op, mods)) = self.machine(reader.node) else {
            return 0;
        };
        if timing::reads_late(op, reader.slot, class.into()) {
            // The queue of the memory pipes reads in order.
            let in_order = |node| {
                self.machine(node)
                    .and_then(|(op, _)| timing::of(op))
                    .is_some_and(|timing| timing.reads_in_order)
            };
            return if in_order(reader.node) && in_order(writer.node) {
                1
            } else {
                RELEASE
            };
        }
        let used = timing::use_group(&timing::Use {
            op,
            mods,
            place: reader.slot,
            class: class.into(),
            offset: reader.offset,
        });
        match (used, self.result(writer, class)) {
            (Some(used), Some(Arrival::Fixed(later))) if used.class() == later.class() => {
                u16::from(timing::release(Table::Safe, used, later))
            }
            _ => 0,
        }
    }

    /// Cycles from a write to a later one of the same register.
    pub(super) fn waw(&self, earlier: Touch, later: Touch, class: Class) -> u16 {
        match (self.result(earlier, class), self.result(later, class)) {
            (Some(Arrival::Fixed(earlier)), Some(Arrival::Fixed(later)))
                if earlier.class() == later.class() =>
            {
                u16::from(timing::overwrite(Table::Safe, earlier, later))
            }
            (Some(Arrival::WriteBarrier), _) => self.nodes[earlier.node as usize].latency,
            (Some(Arrival::ReadBarrier), _) => RELEASE,
            _ => 1,
        }
    }

    fn machine(&self, node: u32) -> Option<(Op, Mods)> {
        match self.func.inst(self.nodes[node as usize].inst).operation() {
            Operation::Machine(op, mods) => Some((op, mods)),
            Operation::Abstract(..) => None,
        }
    }

    fn result(&self, writer: Touch, class: Class) -> Option<Arrival> {
        let (op, mods) = self.machine(writer.node)?;
        timing::arrival(&timing::Result {
            op,
            mods,
            place: writer.slot,
            class: class.into(),
            offset: writer.offset,
        })
    }
}

/// The latency of an operation's slowest result, whoever reads it: what is typical, or the most a fixed one of its class takes.
pub(super) fn expected(timing: &Timing) -> u16 {
    match timing.typical {
        Some(typical) => typical.cycles,
        None => fixed_latency(timing.class.name()),
    }
}

/// Cycles from a fixed-latency result to a consumer that is not known (measured: 4 or 5 in most pipes; matrix operations 24).
fn fixed_latency(class: &str) -> u16 {
    match class {
        "fp64" | "half-mma" => 8,
        "tensor" => 24,
        "to-uniform" | "vote-uniform" => 10,
        "uniform" => 6,
        "uniform-move" => 2,
        "vote" => 13,
        "control" | "cluster-arrive" | "cluster-wait" => 1,
        _ => 5,
    }
}
