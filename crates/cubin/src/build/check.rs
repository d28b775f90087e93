//! Refusing modules that contradict themselves or say more than the container can.

use std::collections::BTreeSet;

use super::{BuildError, Chip, CubinContents, Function, Object, Param, Variable};
use crate::elf;

/// The most registers a thread can have.
const MAX_REGISTERS: u64 = 255;
/// The most named barriers a block can have.
const MAX_BARRIERS: u64 = 16;
/// Code is made of 16-byte instructions.
const INSTRUCTION: u64 = 16;
/// The size of a constant bank.
const MAX_BANK: u64 = 0x1_0000;
/// The most static shared memory that is worth believing.
const MAX_SHARED: u64 = 0x10_0000;
/// The largest size of anything in memory that is worth believing: it keeps sums of sizes from overflowing.
const MAX_MEMORY: u64 = 1 << 40;

impl CubinContents {
    pub(super) fn check(&self, chip: &Chip) -> Result<(), BuildError> {
        let mut names = BTreeSet::new();
        let all_names = self
            .functions
            .iter()
            .flat_map(|function| {
                std::iter::once(&function.name)
                    .chain(function.subroutines.iter().map(|inner| &inner.name))
            })
            .chain(self.constants.iter().map(|variable| &variable.name))
            .chain(self.globals.iter().map(|variable| &variable.name))
            .chain(self.references.iter().map(|reference| &reference.name))
            .chain(&self.driver_words)
            .chain(&self.externs)
            .chain(self.object.iter().flat_map(Object::names));
        for name in all_names {
            if name.is_empty() || name.contains('\0') {
                return Err(BuildError::BadName(name.clone()));
            }
            if !names.insert(name.as_str()) {
                return Err(BuildError::DuplicateName(name.clone()));
            }
        }
        for function in &self.functions {
            function.check(chip)?;
        }
        let (with, without): (Vec<_>, Vec<_>) = self
            .globals
            .iter()
            .filter(|variable| variable.is_here())
            .partition(|variable| variable.is_initialised());
        check_overlap(&with)?;
        check_overlap(&without)?;
        let constants = self.constants.iter().filter(|it| it.is_here());
        check_overlap(&constants.collect::<Vec<_>>())?;
        for variable in &self.constants {
            let end = variable.offset.saturating_add(variable.size);
            limit(&variable.name, "the end in bank 3", end, MAX_BANK)?;
        }
        Ok(())
    }
}

fn limit(function: &str, what: &'static str, value: u64, limit: u64) -> Result<(), BuildError> {
    if value <= limit {
        Ok(())
    } else {
        Err(BuildError::TooLarge {
            function: function.to_owned(),
            what,
            value,
            limit,
        })
    }
}

fn multiple(function: &str, what: &'static str, value: u64, align: u64) -> Result<(), BuildError> {
    if align > 0 && value.is_multiple_of(align) {
        Ok(())
    } else {
        Err(BuildError::Misaligned {
            function: function.to_owned(),
            what,
            value,
            align,
        })
    }
}

fn check_overlap(variables: &[&Variable]) -> Result<(), BuildError> {
    let mut sorted = variables.to_vec();
    sorted.sort_by_key(|variable| variable.offset);
    for variable in &sorted {
        let initial = variable.initial.as_ref().map_or(0, Vec::len) as u64;
        limit(&variable.name, "the size", variable.size, MAX_MEMORY)?;
        limit(&variable.name, "the offset", variable.offset, MAX_MEMORY)?;
        limit(
            &variable.name,
            "the initialiser's size",
            initial,
            variable.size,
        )?;
        multiple(
            &variable.name,
            "the offset",
            variable.offset,
            variable.align,
        )?;
        if !variable.align.is_power_of_two() {
            return Err(BuildError::Misaligned {
                function: variable.name.clone(),
                what: "the alignment",
                value: variable.align,
                align: variable.align.next_power_of_two(),
            });
        }
        for relocation in &variable.addresses {
            let Some(bytes) = elf::r_cuda::data_bytes(relocation.kind) else {
                return Err(BuildError::RelocationType {
                    variable: variable.name.clone(),
                    kind: relocation.kind,
                });
            };
            let end = relocation.offset.saturating_add(bytes);
            limit(&variable.name, "the end of an address", end, variable.size)?;
        }
    }
    for pair in sorted.windows(2) {
        if pair[0].offset + pair[0].size > pair[1].offset {
            return Err(BuildError::Overlap(
                pair[0].name.clone(),
                pair[1].name.clone(),
            ));
        }
    }
    Ok(())
}

impl Function {
    pub(super) fn check(&self, chip: &Chip) -> Result<(), BuildError> {
        let name = &self.name;
        let code = self.code.len() as u64;
        multiple(name, "the size of the code", code, INSTRUCTION)?;
        limit(name, "the size of the code", code, u32::MAX.into())?;
        limit(
            name,
            "the register count",
            self.registers.into(),
            MAX_REGISTERS,
        )?;
        limit(
            name,
            "the barrier count",
            self.barriers.into(),
            MAX_BARRIERS,
        )?;
        limit(
            name,
            "the size of bank 2",
            self.bank2.len() as u64,
            MAX_BANK,
        )?;
        let offsets = self
            .exits
            .iter()
            .map(|offset| ("an exit's offset", u64::from(*offset)))
            .chain(
                self.relocations
                    .iter()
                    .map(|one| ("a relocation's offset", one.offset)),
            )
            .chain(
                self.subroutines
                    .iter()
                    .map(|inner| ("a subroutine's offset", inner.offset)),
            );
        for (what, offset) in offsets {
            limit(name, what, offset, code.saturating_sub(INSTRUCTION))?;
            multiple(name, what, offset, INSTRUCTION)?;
        }
        for inner in &self.subroutines {
            let end = inner.offset.saturating_add(inner.size);
            limit(name, "a subroutine's end", end, code)?;
        }
        if let Some(shared) = &self.shared {
            limit(name, "the size of shared memory", shared.size, MAX_SHARED)?;
            multiple(
                name,
                "the alignment of shared memory",
                shared.align,
                shared.align,
            )?;
            if !shared.align.is_power_of_two() {
                return Err(BuildError::Misaligned {
                    function: name.clone(),
                    what: "the alignment of shared memory",
                    value: shared.align,
                    align: shared.align.next_power_of_two(),
                });
            }
        }
        let Some(entry) = &self.entry else {
            return Ok(());
        };
        let bank_limit = u64::from(u16::MAX - chip.param_base);
        limit(
            name,
            "the size of the parameters",
            self.bank_bytes().into(),
            bank_limit,
        )?;
        let mut sorted: Vec<(usize, &Param)> = (entry.params.iter().enumerate())
            .filter(|(_, param)| **param != Param::REFERENCE)
            .collect();
        sorted.sort_by_key(|(_, param)| param.offset);
        for pair in sorted.windows(2) {
            let end = u32::from(pair[0].1.offset) + u32::from(pair[0].1.size);
            if end > pair[1].1.offset.into() {
                return Err(BuildError::Overlap(
                    format!("{name}: parameter {}", pair[0].0),
                    format!("parameter {}", pair[1].0),
                ));
            }
        }
        Ok(())
    }
}
