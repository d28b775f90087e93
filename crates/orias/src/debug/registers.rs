//! Where registers of the PTX lie: `.nv_debug_info_reg_sass` and `.nv_debug_info_reg_type`.
//!
//! Lowering leaves a copy of everything that an instruction gives a register, with a location that names the register. Where that lies
//! before each instruction is found by following it ([`super::flow`]). Each run of instructions before which a place holds a word is an entry.

use super::flow::{Flow, Place};
use orias_codegen::{DebugRecord, SourceRegister};
use orias_mercury::{Code, WORD};
use orias_ori::Function;
use orias_ptx::types::Type;
use std::collections::BTreeMap;

/// A place that holds a word from one address to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    place: Place,
    start: u32,
    end: u32,
    word: u32,
}

/// Both tables.
#[derive(Debug, Default)]
pub(crate) struct RegisterTables {
    pub(crate) places: Vec<u8>,
    pub(crate) types: Vec<u8>,
}

impl RegisterTables {
    /// Adds a function under that name.
    pub(crate) fn add(
        &mut self,
        name: &str,
        function: &Function,
        code: &Code,
        record: &DebugRecord,
    ) {
        let runs = runs(function, code, record);
        for table in [&mut self.places, &mut self.types] {
            table.extend_from_slice(name.as_bytes());
            table.push(0);
            table.extend_from_slice(&(runs.len() as u32).to_le_bytes());
        }
        for run in runs {
            let Some(register) = record.registers.get(run.word as usize) else {
                continue;
            };
            let word = u32::from(register.word);
            self.places.extend_from_slice(&word.to_le_bytes());
            self.places.extend_from_slice(register.name.as_bytes());
            self.places.push(0);
            for number in [run.place.0, run.start, run.end] {
                self.places.extend_from_slice(&number.to_le_bytes());
            }
            self.types.push(type_code(register));
        }
    }
}

/// The number of a register's type.
fn type_code(register: &SourceRegister) -> u8 {
    let scalar = match register.ty {
        Type::B8 => 0,
        Type::B16 => 1,
        Type::B32 => 2,
        Type::B64 => 3,
        Type::U8 => 4,
        Type::U16 => 5,
        Type::U32 => 6,
        Type::U64 => 7,
        Type::S8 => 8,
        Type::S16 => 9,
        Type::S32 => 10,
        Type::S64 => 11,
        Type::F16 => 12,
        Type::F16x2 => 13,
        Type::F32 => 14,
        Type::F64 => 15,
        Type::Pred => 16,
        Type::B128 => 17,
        // Registers have no other types.
        other => match other.bits() {
            0..=8 => 0,
            9..=16 => 1,
            17..=32 => 2,
            _ => 3,
        },
    };
    match register.vector {
        ..=1 => scalar,
        2 => scalar | 0x40,
        _ => scalar | 0x80,
    }
}

/// The runs of a function, sorted.
fn runs(function: &Function, code: &Code, record: &DebugRecord) -> Vec<Run> {
    let flow = Flow::new(function, code, record.registers.len() as u32, Vec::new());
    let mut open: BTreeMap<(Place, u32), u32> = BTreeMap::new();
    let mut runs = Vec::new();
    flow.walk(|number, held| {
        let address = (number * WORD) as u32;
        let ended: Vec<(Place, u32)> = (open.keys().copied())
            .filter(|key| held.binary_search(key).is_err())
            .collect();
        for (place, word) in ended {
            if let Some(start) = open.remove(&(place, word)) {
                let end = address.saturating_sub(WORD as u32).max(start);
                runs.push(Run {
                    place,
                    start,
                    end,
                    word,
                });
            }
        }
        for &key in held {
            open.entry(key).or_insert(address);
        }
    });
    runs.sort_unstable();
    runs
}
