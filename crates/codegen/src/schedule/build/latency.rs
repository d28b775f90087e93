//! How many cycles lie between two instructions that touch the same register, by `machine::timing`.

use super::{Builder, Reader, Writer, operations};
use orias_machine::timing::{self, Arrival, Place, Timing};
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
                    u16::from(self.machine.latency(group, used).cycles)
                }
                // A pseudo-operation passes it on to somebody who is not known here.
                _ => self.nodes[writer.node as usize].latency,
            },
            Arrival::ReadBarrier => self.machine.limits.source_read,
            Arrival::WarpGroup => 1,
            Arrival::WriteBarrier => self.nodes[writer.node as usize].latency,
        }
    }

    /// Cycles from a read to an overwriting write.
    pub(super) fn war(&self, reader: Reader, writer: Writer, class: Class) -> u16 {
        let Some((op, _)) = self.operations[reader.node as usize] else {
            return 0;
        };
        if self.machine.reads_late(op, reader.slot, class.into()) {
            // The queue of the memory pipes reads in order.
            let in_order = |node: u32| {
                self.operations[node as usize]
                    .is_some_and(|(op, _)| operations::of(self.machine, op).reads_in_order)
            };
            return if in_order(reader.node) && in_order(writer.node) {
                1
            } else {
                self.machine.limits.source_read
            };
        }
        let Some(Arrival::Fixed(later)) = writer.arrival else {
            return 0;
        };
        match self.used(reader, class) {
            Some(used) if used.class() == later.class() => {
                u16::from(self.machine.release(used, later))
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
                u16::from(self.machine.overwrite(earlier, later))
            }
            (Some(Arrival::WriteBarrier), _) => self.nodes[earlier.node as usize].latency,
            (Some(Arrival::ReadBarrier), _) => self.machine.limits.source_read,
            _ => 1,
        }
    }

    /// How a source is read; none where no row says, and for pseudo-operations.
    fn used(&self, reader: Reader, class: Class) -> Option<timing::UseGroup> {
        let (op, mods) = self.operations[reader.node as usize]?;
        self.machine.use_group(&timing::Use {
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
        self.machine.arrival(&timing::Result {
            op,
            mods,
            place,
            class: class.into(),
            offset,
        })
    }
}

/// The latency of an operation's slowest result, whoever reads it: what is typical, or what to expect of a fixed one.
pub(super) fn expected(timing: &Timing) -> u16 {
    let known = timing.typical.or(timing.expected);
    known.map_or(1, |cycles| cycles.cycles)
}
