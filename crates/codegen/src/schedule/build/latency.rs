//! How many cycles lie between two instructions that touch the same register, by `machine::timing`.

use super::{Builder, Reader, Writer, operations};
use crate::schedule::graph::RELEASE;
use orias_machine::timing::{self, Arrival, Place, Table, Timing};
use orias_ori::Class;

impl Builder<'_> {
    /// Cycles from a write to a read of it.
    pub(super) fn raw(&self, writer: Writer, reader: Reader, class: Class) -> u16 {
        let Some(arrival) = writer.arrival else {
            return 0;
        };
        match arrival {
            Arrival::Fixed(group) => match self.used(reader, class) {
                Some(used) if used.class() == group.class() => {
                    u16::from(timing::latency(Table::Safe, group, used).cycles)
                }
                // A pseudo-operation passes it on to somebody who is not known here.
                _ => self.nodes[writer.node as usize].latency,
            },
            Arrival::ReadBarrier => RELEASE,
            Arrival::WarpGroup => 1,
            Arrival::WriteBarrier => self.nodes[writer.node as usize].latency,
        }
    }

    /// Cycles from a read to an overwriting write.
    pub(super) fn war(&self, reader: Reader, writer: Writer, class: Class) -> u16 {
        let Some((op, _)) = self.operations[reader.node as usize] else {
            return 0;
        };
        if timing::reads_late(op, reader.slot, class.into()) {
            // The queue of the memory pipes reads in order.
            let in_order = |node: u32| {
                self.operations[node as usize]
                    .is_some_and(|(op, _)| operations::of(op).reads_in_order)
            };
            return if in_order(reader.node) && in_order(writer.node) {
                1
            } else {
                RELEASE
            };
        }
        let Some(Arrival::Fixed(later)) = writer.arrival else {
            return 0;
        };
        match self.used(reader, class) {
            Some(used) if used.class() == later.class() => {
                u16::from(timing::release(Table::Safe, used, later))
            }
            _ => 0,
        }
    }

    /// Cycles from a write to a later one of the same register.
    pub(super) fn waw(&self, earlier: Writer, later: Writer) -> u16 {
        match (earlier.arrival, later.arrival) {
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

    /// How a source is read; none where no row says, and for pseudo-operations.
    fn used(&self, reader: Reader, class: Class) -> Option<timing::UseGroup> {
        let (op, mods) = self.operations[reader.node as usize]?;
        timing::use_group(&timing::Use {
            op,
            mods,
            place: reader.slot,
            class: class.into(),
            offset: reader.offset,
        })
    }

    /// When what `node` writes there can be read; none where no row says, and for pseudo-operations.
    pub(super) fn arrival(
        &self,
        node: u32,
        place: Place,
        class: Class,
        offset: u8,
    ) -> Option<Arrival> {
        let (op, mods) = self.operations[node as usize]?;
        timing::arrival(&timing::Result {
            op,
            mods,
            place,
            class: class.into(),
            offset,
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
