//! Cycles from a result group to a use group, with provenance.

use super::groups::{ResultGroup, UseGroup};
use crate::machine::Machine;
use std::fmt;

/// Which latencies to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// What finished code relies on: the smallest distance ptxas dares. For judging, never for making code.
    Mined,
    /// The larger of what was measured on the chip and what was mined. For making code.
    Safe,
}

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provenance {
    /// Measured on the chip.
    Measured,
    /// Seen in finished code.
    Mined,
    /// Published by others.
    Published,
    /// Nobody has looked yet.
    Assumed,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Mined => "mined",
            Self::Published => "published",
            Self::Assumed => "assumed",
        })
    }
}

/// A latency with where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Cycles from the issue of the producer to the first issue of a consumer that reads the new value.
    pub cycles: u8,
    /// Where the number comes from.
    pub provenance: Provenance,
    /// When it was found out, as year-month-day.
    pub date: &'static str,
}

/// What one table file says of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeRecord {
    /// Cycles.
    pub cycles: u8,
    /// How often the edge was seen, in mined rows.
    pub seen: u32,
    /// When.
    pub date: &'static str,
}

/// Everything known of one edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What is written.
    pub result: ResultGroup,
    /// What is read.
    pub used: UseGroup,
    /// From the chip.
    pub measured: Option<EdgeRecord>,
    /// From finished code.
    pub mined: Option<EdgeRecord>,
    /// A latency that is believed to be needed at least, and one that is believed to be enough.
    pub assumed: (u8, u8),
    /// When that was written down.
    pub assumed_date: &'static str,
}

impl Row {
    /// The row's latency in a table.
    #[must_use]
    pub fn latency(&self, table: Table) -> Latency {
        let from = |source: EdgeRecord, provenance| Latency {
            cycles: source.cycles,
            provenance,
            date: source.date,
        };
        let assumed = |cycles| Latency {
            cycles,
            provenance: Provenance::Assumed,
            date: self.assumed_date,
        };
        match (table, self.measured, self.mined) {
            (_, None, Some(mined)) | (Table::Mined, Some(_), Some(mined)) => {
                from(mined, Provenance::Mined)
            }
            (Table::Mined, _, None) => assumed(self.assumed.0),
            (Table::Safe, Some(measured), Some(mined)) => {
                if measured.cycles >= mined.cycles {
                    from(measured, Provenance::Measured)
                } else {
                    from(mined, Provenance::Mined)
                }
            }
            // Nobody has dared it yet: what was measured counts only where it asks for more.
            (Table::Safe, Some(measured), None) if measured.cycles >= self.assumed.0 => {
                from(measured, Provenance::Measured)
            }
            (Table::Safe, _, None) => assumed(self.assumed.1),
        }
    }
}

pub(crate) struct Latencies {
    /// By result group, then use group; none where the register files differ.
    pub edges: &'static [Option<Row>],
    pub uses: usize,
    /// By earlier, then later result group: cycles after which a later write of the same register lands later.
    pub overwrites: &'static [Option<Overwrite>],
    pub results: usize,
    /// By use, then later result group: cycles after which the use has been read, at least and at most.
    pub releases: &'static [Option<(u8, u8)>],
}

/// What is known of two writes of one register.
#[derive(Clone, Copy)]
pub(crate) struct Overwrite {
    pub mined: Option<EdgeRecord>,
    /// By the difference of the two latencies, plus one.
    pub derived: u8,
    /// Cycles after which the earlier one has landed in any case.
    pub longest: u8,
}

impl Machine {
    /// Cycles from the issue of a producer to the first issue of a consumer that may read the result.
    ///
    /// # Panics
    ///
    /// If the groups belong to different register files: no register connects them.
    #[must_use]
    pub fn latency(&self, result: ResultGroup, used: UseGroup) -> Latency {
        self.row(result, used).map_or_else(
            || {
                panic!(
                    "{:?} {} is never read as {:?} {}",
                    result.class(),
                    self.result_name(result),
                    used.class(),
                    self.use_name(used)
                )
            },
            |row| row.latency(self.table),
        )
    }

    fn row(&self, result: ResultGroup, used: UseGroup) -> Option<&'static Row> {
        let latencies = &self.chip.timing.latencies;
        latencies.edges[result.index() * latencies.uses + used.index()].as_ref()
    }

    /// Cycles after which a later fixed-latency write of the same register is sure to be the one that stays.
    ///
    /// A later write with a variable latency takes longer than any fixed one: one cycle is enough.
    #[must_use]
    pub fn overwrite(&self, earlier: ResultGroup, later: ResultGroup) -> u8 {
        let latencies = &self.chip.timing.latencies;
        let Some(known) = latencies.overwrites[earlier.index() * latencies.results + later.index()]
        else {
            return 1;
        };
        match (self.table, known.mined) {
            (Table::Mined, Some(mined)) => mined.cycles.min(known.derived),
            (Table::Mined, None) => known.derived,
            // What ptxas keeps may be there for another reason; waiting until the earlier one has landed is always enough.
            (Table::Safe, Some(mined)) => known.derived.max(mined.cycles.min(known.longest)),
            (Table::Safe, None) => known.derived,
        }
    }

    /// Cycles from the issue of a fixed-latency reader to the first issue of a fixed-latency writer of the same register.
    ///
    /// It is 1 but for uniform registers: their readers read late, and UMOV and ULDC write early.
    #[must_use]
    pub fn release(&self, used: UseGroup, later: ResultGroup) -> u8 {
        let latencies = &self.chip.timing.latencies;
        match latencies.releases[used.index() * latencies.results + later.index()] {
            None => 1,
            Some((least, _)) if self.table == Table::Mined => least,
            Some((_, most)) => most,
        }
    }

    /// Every edge, in the order of the groups.
    pub fn latencies(&self) -> impl Iterator<Item = &'static Row> + use<> {
        self.chip.timing.latencies.edges.iter().flatten()
    }
}

impl Row {
    /// Whether the chip was measured to be faster than ptxas dares.
    #[must_use]
    pub fn is_smaller_than_mined(&self) -> bool {
        match (self.measured, self.mined) {
            (Some(measured), Some(mined)) => measured.cycles < mined.cycles,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_sass::Target;

    fn machines() -> impl Iterator<Item = &'static Machine> {
        Target::ALL.into_iter().map(Machine::of)
    }

    #[test]
    fn safe_is_never_below_measured_or_mined() {
        for row in machines().flat_map(Machine::latencies) {
            let safe = row.latency(Table::Safe).cycles;
            for source in [row.measured, row.mined].into_iter().flatten() {
                assert!(safe >= source.cycles, "{row:?}");
            }
            assert!(safe >= row.latency(Table::Mined).cycles, "{row:?}");
        }
    }

    /// What ptxas dares, the chip must do: a mined row below a measured one is a wrong measurement or a wrong reading.
    #[test]
    fn nothing_mined_is_below_what_was_measured() {
        for machine in machines() {
            let below: Vec<String> = machine
                .latencies()
                .filter(|row| match (row.measured, row.mined) {
                    (Some(measured), Some(mined)) => mined.cycles < measured.cycles,
                    _ => false,
                })
                .map(|row| {
                    format!(
                        "{:?} {} -> {}",
                        row.result.class(),
                        machine.result_name(row.result),
                        machine.use_name(row.used)
                    )
                })
                .collect();
            assert_eq!(below, Vec::<String>::new());
        }
    }

    #[test]
    fn every_pair_of_groups_of_a_register_file_has_a_row() {
        for machine in machines() {
            for result in machine.result_groups() {
                let uses = machine.use_groups();
                for used in uses.filter(|used| used.class() == result.class()) {
                    assert!(machine.row(result, used).is_some());
                }
            }
        }
    }

    /// Judges and emulators never see a number that was only measured.
    #[test]
    fn judges_use_what_was_mined() {
        for target in Target::ALL {
            let (making, judging) = (Machine::of(target), Machine::judging(target));
            for row in making.latencies() {
                let (result, used) = (row.result, row.used);
                assert_eq!(judging.latency(result, used), row.latency(Table::Mined));
                assert_eq!(making.latency(result, used), row.latency(Table::Safe));
            }
        }
    }
}
