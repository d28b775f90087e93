//! What operations write and read, as groups with one timing.

use super::{Class, Completion, TABLES, names};
use crate::met::Met;
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
pub struct ResultGroup(pub(super) u8);

/// Sources that are read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UseGroup(pub(super) u8);

impl ResultGroup {
    /// Its register file.
    #[must_use]
    pub fn class(self) -> RegisterClass {
        TABLES.groups.results[usize::from(self.0)].class
    }

    /// What it is called; unique within its register file.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLES.groups.results[usize::from(self.0)].name
    }

    /// Every group.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLES.groups.results.len() as u8).map(Self)
    }

    /// Its number, counted from zero in the order of the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl UseGroup {
    /// Its register file.
    #[must_use]
    pub fn class(self) -> RegisterClass {
        TABLES.groups.uses[usize::from(self.0)].class
    }

    /// What it is called; unique within its register file.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLES.groups.uses[usize::from(self.0)].name
    }

    /// Every group.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLES.groups.uses.len() as u8).map(Self)
    }

    /// Its number, counted from zero in the order of the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// When a result can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// After as many cycles as [`super::latency`] says.
    Fixed(ResultGroup),
    /// When the write barrier is released.
    WriteBarrier,
    /// When the read barrier is released: it comes with the release of the sources. The write barrier is later.
    ReadBarrier,
    /// When WARPGROUP.DEPBAR says so.
    WarpGroup,
}

/// When a result can be read; none when no row says.
#[must_use]
pub fn arrival(result: &Result) -> Option<Arrival> {
    let rule = rules(result.op).results.iter().find(|rule| {
        rule.class == result.class && rule.fits(result.place, result.offset, result.op, result.mods)
    });
    match rule.map(|rule| rule.group) {
        Some(READ_BARRIER) => Some(Arrival::ReadBarrier),
        Some(group) => Some(Arrival::Fixed(ResultGroup(group))),
        None => match super::of(result.op)?.completion {
            Completion::Fixed => None,
            Completion::Group => Some(Arrival::WarpGroup),
            Completion::Variable | Completion::InOrder(_) => Some(Arrival::WriteBarrier),
        },
    }
}

/// The group of a source; none when no row names it.
#[must_use]
pub fn use_group(used: &Use) -> Option<UseGroup> {
    rules(used.op)
        .uses
        .iter()
        .find(|rule| {
            rule.class == used.class && rule.fits(used.place, used.offset, used.op, used.mods)
        })
        .map(|rule| UseGroup(rule.group))
}

/// Stands for results that come with the read barrier.
pub(super) const READ_BARRIER: u8 = u8::MAX;

pub(super) struct Group {
    pub class: RegisterClass,
    pub name: &'static str,
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

pub(super) struct Groups {
    pub results: &'static [Group],
    pub uses: &'static [Group],
    /// In the order of the table, which is the order in which they count.
    pub result_lines: &'static [Line],
    pub use_lines: &'static [Line],
}

/// A selector of a line of the table, `PATTERN[/SLOT][+N][{MODIFIER=VALUE&MODIFIER=VALUE}]`, with the group the line is about.
pub(super) struct Line {
    pub class: RegisterClass,
    pub group: u8,
    pub pattern: Pattern,
    pub slot: Option<&'static str>,
    pub offset: u8,
    pub when: &'static [(&'static str, &'static str)],
}

/// The lines that apply to one operation.
struct Rules {
    results: Vec<Rule>,
    uses: Vec<Rule>,
}

fn rules(op: Op) -> &'static Rules {
    static RULES: Met<Rules> = Met::new();
    RULES.get_or_init(op, || {
        let of = |lines: &[Line]| match super::of(op) {
            Some(timing) => lines
                .iter()
                .filter_map(|line| line.rule(op, timing.class))
                .collect(),
            None => Vec::new(),
        };
        Rules {
            results: of(TABLES.groups.result_lines),
            uses: of(TABLES.groups.use_lines),
        }
    })
}

/// Which operations a selector is about.
pub(super) enum Pattern {
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
            Some(name) => Some(Place::Slot(op.row().slot_index(name)? as u8)),
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
                if reads && use_group(&used).is_none() {
                    missing.push(format!("{op} reads {class:?} {place:?}"));
                }
                let result = Result {
                    op,
                    mods,
                    place,
                    class,
                    offset: 0,
                };
                if writes && arrival(&result).is_none() {
                    missing.push(format!("{op} writes {class:?} {place:?}"));
                }
            }
        }
        assert_eq!(missing, Vec::<String>::new());
    }
}
