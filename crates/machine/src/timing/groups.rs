//! What operations write and read, as groups with one timing.

use super::{Class, Completion, names};
use crate::machine::Machine;
use orias_sass::{Instruction, Mods, Op, RegisterAccess, RegisterClass};

/// Which operand a register belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The guard.
    Guard,
    /// A register the operation touches without naming it.
    Implicit,
    /// The operand in this slot.
    Slot(u8),
}

impl Place {
    /// The place of one of an instruction's accesses.
    #[must_use]
    pub fn of(instruction: &Instruction, access: &RegisterAccess) -> Self {
        match access.slot {
            Some(slot) => Self::Slot(slot),
            None if access.count == 1
                && !access.writes
                && access.register == instruction.guard().predicate =>
            {
                Self::Guard
            }
            None => Self::Implicit,
        }
    }
}

/// One register of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Result {
    /// The operation.
    pub op: Op,
    /// Its modifiers.
    pub mods: Mods,
    /// The operand.
    pub place: Place,
    /// The register file.
    pub class: RegisterClass,
    /// Which register of the operand: 1 is the upper half of a pair.
    pub offset: u8,
}

/// A source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Use {
    /// The operation.
    pub op: Op,
    /// Its modifiers.
    pub mods: Mods,
    /// The operand.
    pub place: Place,
    /// The register file.
    pub class: RegisterClass,
    /// Which register of the operand: 1 is the upper half of a pair.
    pub offset: u8,
}

/// Results that become readable alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResultGroup {
    pub(crate) index: u8,
    pub(crate) class: RegisterClass,
}

/// Sources that are read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UseGroup {
    pub(crate) index: u8,
    pub(crate) class: RegisterClass,
}

impl ResultGroup {
    /// Its register file.
    #[inline]
    #[must_use]
    pub const fn class(self) -> RegisterClass {
        self.class
    }

    /// Its number, counted from zero in the order of the table.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl UseGroup {
    /// Its register file.
    #[inline]
    #[must_use]
    pub const fn class(self) -> RegisterClass {
        self.class
    }

    /// Its number, counted from zero in the order of the table.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// When a result can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// After as many cycles as [`Machine::latency`] says.
    Fixed(ResultGroup),
    /// When the write barrier is released.
    WriteBarrier,
    /// When the read barrier is released: it comes with the release of the sources. The write barrier is later.
    ReadBarrier,
    /// When WARPGROUP.DEPBAR says so.
    WarpGroup,
}

impl Machine {
    /// When a result can be read; none when no row says.
    #[must_use]
    pub fn arrival(&self, result: &Result) -> Option<Arrival> {
        let rule = self.rules(result.op).results.iter().find(|rule| {
            rule.class == result.class
                && rule.fits(result.place, result.offset, result.op, result.mods)
        });
        match rule.map(|rule| rule.group) {
            Some(READ_BARRIER) => Some(Arrival::ReadBarrier),
            Some(index) => Some(Arrival::Fixed(ResultGroup {
                index,
                class: result.class,
            })),
            None => match self.timing(result.op)?.completion {
                Completion::Fixed => None,
                Completion::Group => Some(Arrival::WarpGroup),
                Completion::Variable | Completion::InOrder(_) => Some(Arrival::WriteBarrier),
            },
        }
    }

    /// The group of a source; none when no row names it.
    #[must_use]
    pub fn use_group(&self, used: &Use) -> Option<UseGroup> {
        let mut rules = self.rules(used.op).uses.iter();
        let rule = rules.find(|rule| {
            rule.class == used.class && rule.fits(used.place, used.offset, used.op, used.mods)
        })?;
        Some(UseGroup {
            index: rule.group,
            class: used.class,
        })
    }

    /// Every group of results.
    pub fn result_groups(&self) -> impl Iterator<Item = ResultGroup> + use<> {
        let groups = self.chip.timing.groups.results.iter().enumerate();
        groups.map(|(index, group)| ResultGroup {
            index: index as u8,
            class: group.class,
        })
    }

    /// Every group of uses.
    pub fn use_groups(&self) -> impl Iterator<Item = UseGroup> + use<> {
        let groups = self.chip.timing.groups.uses.iter().enumerate();
        groups.map(|(index, group)| UseGroup {
            index: index as u8,
            class: group.class,
        })
    }

    fn result(&self, group: ResultGroup) -> &'static Group {
        &self.chip.timing.groups.results[group.index()]
    }

    fn used(&self, group: UseGroup) -> &'static Group {
        &self.chip.timing.groups.uses[group.index()]
    }

    /// What a group of results is called; unique within its register file.
    #[must_use]
    pub fn result_name(&self, group: ResultGroup) -> &'static str {
        self.result(group).name
    }

    /// What a group of uses is called; unique within its register file.
    #[must_use]
    pub fn use_name(&self, group: UseGroup) -> &'static str {
        self.used(group).name
    }

    /// Whether a use is as early as any of arithmetic.
    #[must_use]
    pub fn is_arithmetic(&self, group: UseGroup) -> bool {
        self.used(group).arithmetic
    }

    /// Whether code on the other side of a call may begin with reading `result` so.
    #[must_use]
    pub fn is_ordinary(&self, result: ResultGroup, used: UseGroup) -> bool {
        let known = self.used(used);
        known.ordinary && !(self.result(result).not_late && known.name == "late")
    }

    /// Cycles before a write of variable latency to the same register, for results whose latencies do not tell.
    #[must_use]
    pub fn overwritten_late(&self, group: ResultGroup) -> Option<u8> {
        self.result(group).overwritten_late
    }

    fn rules(&self, op: Op) -> &'static Rules {
        self.chip.caches.rules.get_or_init(op, || {
            let of = |lines: &[Line]| match self.timing(op) {
                Some(timing) => lines
                    .iter()
                    .filter_map(|line| line.rule(op, timing.class))
                    .collect(),
                None => Vec::new(),
            };
            Rules {
                results: of(self.chip.timing.groups.result_lines),
                uses: of(self.chip.timing.groups.use_lines),
            }
        })
    }
}

/// Stands for results that come with the read barrier.
pub(crate) const READ_BARRIER: u8 = u8::MAX;

pub(crate) struct Group {
    pub class: RegisterClass,
    pub name: &'static str,
    /// A result that is never read late on the other side of a call.
    pub not_late: bool,
    pub overwritten_late: Option<u8>,
    pub ordinary: bool,
    pub arithmetic: bool,
}

/// A line of the table as it applies to one operation.
struct Rule {
    class: RegisterClass,
    group: u8,
    place: Option<Place>,
    offset: u8,
    /// Modifiers that must have these values.
    when: Vec<(u8, u16)>,
}

impl Rule {
    fn fits(&self, place: Place, offset: u8, op: Op, mods: Mods) -> bool {
        self.place.is_none_or(|known| known == place)
            && offset >= self.offset
            && self.when.iter().all(|(modifier, value)| {
                mods.get(&op.row().modifiers[usize::from(*modifier)]) == *value
            })
    }
}

pub(crate) struct Groups {
    pub results: &'static [Group],
    pub uses: &'static [Group],
    /// In the order of the table, which is the order in which they count.
    pub result_lines: &'static [Line],
    pub use_lines: &'static [Line],
}

/// A selector of a line of the table, `PATTERN[/SLOT][+N][{MODIFIER=VALUE&MODIFIER=VALUE}]`, with the group the line is about.
pub(crate) struct Line {
    pub class: RegisterClass,
    pub group: u8,
    pub pattern: Pattern,
    pub slot: Option<&'static str>,
    pub offset: u8,
    pub when: &'static [(&'static str, &'static str)],
}

/// The lines that apply to one operation.
pub(crate) struct Rules {
    results: Vec<Rule>,
    uses: Vec<Rule>,
}

/// Which operations a selector is about.
pub(crate) enum Pattern {
    /// Those of a class.
    Class(Class),
    /// Those with this name, or with names that begin so.
    Name(&'static str),
}

impl Line {
    /// What the line says of an operation of class `class`; none if it is not about it.
    fn rule(&self, op: Op, class: Class) -> Option<Rule> {
        let named = match self.pattern {
            Pattern::Class(named) => named == class,
            Pattern::Name(pattern) => names(pattern, op),
        };
        if !named {
            return None;
        }
        let place = match self.slot {
            None => None,
            Some("@") => Some(Place::Guard),
            Some("~") => Some(Place::Implicit),
            Some(name) => Some(Place::Slot(op.row().slot_index_of_text(name)? as u8)),
        };
        let mut when = Vec::new();
        for (name, value) in self.when {
            let index = op.row().modifiers.iter().position(|m| m.name == *name)?;
            let value = op.row().modifiers[index].value_named(value)?;
            when.push((index as u8, value.value));
        }
        Some(Rule {
            class: self.class,
            group: self.group,
            place,
            offset: self.offset,
            when,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_sass::{PlaceKind, Slot};

    /// The register files an operand of a slot can be in, with whether it is written, over all forms.
    fn files(op: Op, index: usize, slot: &Slot) -> Vec<(RegisterClass, bool, bool)> {
        let mut files: Vec<RegisterClass> = Vec::new();
        for form in op.row().forms {
            match &form.places[index].kind {
                PlaceKind::Register { class, .. } => files.push(*class),
                PlaceKind::Constant(place) => {
                    files.extend(place.handle.map(|_| RegisterClass::UR));
                    files.extend(place.index.map(|(class, _)| class));
                }
                PlaceKind::Address(place) => {
                    files.extend(place.base.map(|base| base.class));
                    files.extend(place.uniform.map(|_| RegisterClass::UR));
                    files.extend(place.descriptor.map(|_| RegisterClass::UR));
                }
                PlaceKind::Descriptor { .. } => files.push(RegisterClass::UR),
                _ => {}
            }
        }
        files.sort();
        files.dedup();
        files
            .into_iter()
            .map(|class| (class, slot.access.reads(), slot.access.writes()))
            .collect()
    }

    #[test]
    fn every_register_of_every_operation_has_a_group() {
        for target in orias_sass::Target::ALL {
            assert_eq!(missing(Machine::of(target)), Vec::<String>::new());
        }
    }

    fn missing(machine: &Machine) -> Vec<String> {
        let mut missing = Vec::new();
        for op in Op::all() {
            let row = op.row();
            let mut places: Vec<(Place, RegisterClass, bool, bool)> = vec![match row.guard {
                orias_sass::GuardRule::Uniform => (Place::Guard, RegisterClass::UP, true, false),
                _ => (Place::Guard, RegisterClass::P, true, false),
            }];
            for (index, slot) in row.slots.iter().enumerate() {
                for (class, reads, writes) in files(op, index, slot) {
                    places.push((Place::Slot(index as u8), class, reads, writes));
                }
            }
            for implicit in row.implicit {
                places.push((
                    Place::Implicit,
                    implicit.register.class,
                    implicit.access.reads(),
                    implicit.access.writes(),
                ));
            }
            for (place, class, reads, writes) in places {
                let mods = Mods::ZERO;
                let used = Use {
                    op,
                    mods,
                    place,
                    class,
                    offset: 0,
                };
                if reads && machine.use_group(&used).is_none() {
                    missing.push(format!("{op} reads {class:?} {place:?}"));
                }
                let result = Result {
                    op,
                    mods,
                    place,
                    class,
                    offset: 0,
                };
                if writes && machine.arrival(&result).is_none() {
                    missing.push(format!("{op} writes {class:?} {place:?}"));
                }
            }
        }
        missing
    }
}
