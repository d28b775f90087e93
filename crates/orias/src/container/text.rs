//! The text of a kernel: its own code, and behind it that of the functions it and these call.
//!
//! Every kernel has its own copy of each, as ptxas does it: where a function lies is known now, relative to the start of the text, and nothing
//! is left to the driver. Code calls functions by the distance to them and returns to an offset from the start of the text. Calls through
//! pointers read that offset from a table in a constant bank; what programs take for the address of a function is its place there, the same for all kernels.
//! Behind it lie the tables of switches, which have the offsets of the blocks they may go to.

use super::{Finished, internal, patch, place_of, relocate};
use crate::debug;
use crate::diagnostics::Diagnostic;
use orias_codegen::{
    BEHIND_CALL, DebugRecord, Linkage, LoweredModule, POINTER_BYTES, Reference, TEXT_START,
    is_jump_table, is_near,
};
use orias_cubin::attribute::IndirectBranch;
use orias_cubin::build::{CodeRelocation, HEADER_BYTES, Subroutine};
use orias_machine::Machine;
use orias_mercury::{Code, Patch, Relocation};
use orias_ori::{Attributes, Function};
use orias_sass::{self as sass, Effects};
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::Duration;

/// Bytes of an instruction.
const WORD: usize = 16;

/// What the table says of a pointer that names no function: an address that no instruction has.
const NOWHERE: u64 = 1;

/// A function that kernels call, with its finished code.
#[derive(Debug)]
pub(crate) struct Called {
    /// Its final form.
    pub(crate) function: Function,
    /// What debuggers are told of it, if anything.
    pub(crate) debug: Option<DebugRecord>,
    /// What the source says about its memory.
    pub(crate) declared: Attributes,
    /// Its bytes.
    pub(crate) code: Code,
    /// Who sees its name.
    pub(crate) linkage: Linkage,
    /// How long it took.
    pub(crate) time: Duration,
}

impl Called {
    /// The function in a text of its own.
    pub(super) fn text(&self) -> Text<'_> {
        Text::alone(&self.function, &self.code, self.debug.as_ref())
    }

    /// Its name in the source.
    pub(crate) fn name(&self) -> &str {
        self.function.name.trim_start_matches(TEXT_START)
    }
}

/// A part of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// Where it starts.
    pub(crate) start: u32,
    pub(crate) function: &'a Function,
    pub(crate) code: &'a Code,
    pub(crate) debug: Option<&'a DebugRecord>,
}

/// A jump table and the branch that reads it.
struct JumpTable<'a> {
    /// Where the part starts that the branch is in.
    part: u32,
    /// What the part's code calls it.
    name: &'a str,
    /// Where it lies in the constant bank.
    place: u64,
    /// Offset of the branch.
    branch: u32,
    /// Where each number leads.
    targets: Vec<u32>,
}

/// The text of a kernel.
pub(crate) struct Text<'a> {
    pub(crate) parts: Vec<Part<'a>>,
}

/// The functions that a kernel calls.
pub(crate) fn called_by<'a>(finished: &Finished, functions: &'a [Called]) -> Vec<&'a Called> {
    let names = &finished.kernel.callees;
    let wanted = |it: &&Called| names.contains(&it.function.name);
    let mut called: Vec<&Called> = functions.iter().filter(wanted).collect();
    called.sort_by_key(|it| it.name());
    called
}

impl<'a> Text<'a> {
    /// A function in a text of its own.
    pub(crate) fn alone(
        function: &'a Function,
        code: &'a Code,
        debug: Option<&'a DebugRecord>,
    ) -> Text<'a> {
        let parts = vec![Part {
            start: 0,
            function,
            code,
            debug,
        }];
        Text { parts }
    }

    /// The kernel, then what it calls.
    pub(crate) fn new(finished: &'a Finished, functions: &'a [Called]) -> Text<'a> {
        let mut parts = vec![Part {
            start: 0,
            function: &finished.kernel.code,
            code: &finished.code,
            debug: finished.kernel.debug.as_ref(),
        }];
        let mut end = finished.code.bytes.len() as u32;
        for called in called_by(finished, functions) {
            parts.push(Part {
                start: end,
                function: &called.function,
                code: &called.code,
                debug: called.debug.as_ref(),
            });
            end += called.code.bytes.len() as u32;
        }
        Text { parts }
    }

    /// Where the function that code calls `name` starts.
    fn start_of(&self, name: &str) -> Option<u32> {
        let mut parts = self.parts[1..].iter();
        parts.find(|it| it.function.name == name).map(|it| it.start)
    }

    /// The bytes, with all addresses that are known now, and relocations for the others.
    pub(super) fn link(
        &self,
        module: &LoweredModule,
        finished: &Finished,
        constants: &FxHashMap<&str, u64>,
    ) -> Result<(Vec<u8>, Vec<CodeRelocation>), Diagnostic> {
        let mut bytes = Vec::new();
        for part in &self.parts {
            bytes.extend_from_slice(&part.code.bytes);
        }
        let mut relocations = Vec::new();
        let headers = self.headers(module);
        let start = finished
            .kernel
            .parameter_bytes
            .next_multiple_of(HEADER_BYTES);
        let tables = self.jump_tables(module);
        let tables: FxHashMap<(u32, &str), u64> = (tables.iter())
            .map(|table| ((table.part, table.name), table.place))
            .collect();
        for part in &self.parts {
            for own in &part.code.relocations {
                let relocation = Relocation {
                    offset: part.start + own.offset,
                    ..own.clone()
                };
                if is_near(&own.symbol) && self.resolve(module, &tables, part, own, &mut bytes)? {
                    continue;
                }
                if let Some(slot) = headers.iter().position(|it| *it == own.symbol) {
                    let mut place = start + HEADER_BYTES * slot as u32;
                    if matches!(own.patch, Patch::Bank { .. }) {
                        place += Machine::of(module.target).constants.params as u32;
                    }
                    patch(&mut bytes, &relocation, place.into())?;
                    continue;
                }
                match place_of(module, &finished.kernel, constants, &own.symbol) {
                    Some(address) => patch(&mut bytes, &relocation, address)?,
                    None => relocations.push(relocate(module, &relocation)?),
                }
            }
        }
        Ok((bytes, relocations))
    }

    /// Writes an address in this text, or the pointer to a function; false if `relocation` is of something else.
    fn resolve(
        &self,
        module: &LoweredModule,
        tables: &FxHashMap<(u32, &str), u64>,
        part: &Part<'_>,
        relocation: &Relocation,
        bytes: &mut [u8],
    ) -> Result<bool, Diagnostic> {
        let offset = part.start + relocation.offset;
        let to = match (relocation.patch, relocation.symbol.as_str()) {
            (Patch::Distance, TEXT_START) => Some(0),
            (Patch::Distance, name) if is_jump_table(name) => Some(0),
            (Patch::Distance, name) => self.start_of(name),
            _ => None,
        };
        if let Some(to) = to {
            let distance = i64::from(to) - i64::from(offset) - WORD as i64;
            set_distance(bytes, offset as usize, distance, module.target)?;
            return Ok(true);
        }
        let address = match relocation.symbol.as_str() {
            BEHIND_CALL => behind_call(part.code, relocation.offset)
                .map(|behind| u64::from(part.start + behind)),
            name if is_jump_table(name) => tables.get(&(part.start, name)).copied(),
            name => module.pointer(name),
        };
        let Some(address) = address else {
            return Ok(false);
        };
        let here = Relocation {
            offset,
            ..relocation.clone()
        };
        patch(bytes, &here, address)?;
        Ok(true)
    }

    /// Offsets of the instructions that `wanted` is true of.
    pub(super) fn offsets(&self, wanted: impl Fn(sass::Op) -> bool) -> Vec<u32> {
        let mut found = Vec::new();
        for part in &self.parts {
            let placed = part.code.placed.iter().enumerate();
            let these = placed.filter(|(_, placed)| wanted(placed.op));
            found.extend(these.map(|(number, _)| part.start + (number * WORD) as u32));
        }
        found
    }

    /// The textures, samplers and surfaces that code of the text names, in the order of their numbers behind the parameters.
    pub(super) fn headers(&self, module: &LoweredModule) -> Vec<String> {
        let mut named: Vec<&Reference> = module
            .references
            .iter()
            .filter(|it| self.names(&it.name))
            .collect();
        named.sort_by_key(|it| it.kind);
        named.into_iter().map(|it| it.name.clone()).collect()
    }

    /// Whether code of the text names `symbol`.
    pub(super) fn names(&self, symbol: &str) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| part.code.relocations.iter().any(|it| it.symbol == symbol))
    }

    /// The functions behind the kernel. ptxas says of each that its frame is the kernel's.
    pub(super) fn subroutines(&self, kernel: &str, frame_size: u32) -> Vec<Subroutine> {
        let parts = self.parts[1..].iter();
        parts
            .map(|part| {
                let name = part.function.name.trim_start_matches(TEXT_START);
                Subroutine {
                    name: format!("${kernel}${name}"),
                    offset: part.start.into(),
                    size: part.code.bytes.len() as u64,
                    frame_size,
                    weak: false,
                    frame_rules: part.debug.map(|_| debug::rules(part.function, part.code)),
                }
            })
            .collect()
    }

    /// The tables of switches, in the order of the text. A branch names its table as what it counts from.
    fn jump_tables(&self, module: &LoweredModule) -> Vec<JumpTable<'a>> {
        let mut tables = Vec::new();
        let mut place = self.function_table(module).len() as u64;
        for part in &self.parts {
            for branch in &part.code.indirect {
                // Relocations come in the order of the code.
                let all = &part.code.relocations;
                let first = all.partition_point(|it| it.offset < branch.offset);
                let named = all[first..].iter();
                let mut named = named.take_while(|it| it.offset == branch.offset);
                let Some(named) = named.find(|it| is_jump_table(&it.symbol)) else {
                    continue;
                };
                let targets = branch.targets.iter();
                let targets: Vec<u32> = targets.map(|target| part.start + target).collect();
                let bytes = targets.len() as u64 * POINTER_BYTES;
                tables.push(JumpTable {
                    part: part.start,
                    name: &named.symbol,
                    place,
                    branch: part.start + branch.offset,
                    targets,
                });
                place += bytes;
            }
        }
        tables
    }

    /// Where switches that read tables may go: each place once.
    pub(super) fn indirect_branches(&self, module: &LoweredModule) -> Vec<IndirectBranch> {
        let tables = self.jump_tables(module).into_iter();
        tables
            .map(|table| {
                let mut seen = FxHashSet::default();
                let mut targets = table.targets;
                targets.retain(|&target| seen.insert(target));
                IndirectBranch {
                    offset: table.branch,
                    kind: 0,
                    reserved: 0,
                    targets,
                }
            })
            .collect()
    }

    /// The constant bank of addresses: the table of functions, and those of switches.
    pub(super) fn address_bank(&self, module: &LoweredModule) -> Vec<u8> {
        let mut bank = self.function_table(module);
        for table in self.jump_tables(module) {
            for target in table.targets {
                bank.extend_from_slice(&u64::from(target).to_le_bytes());
            }
        }
        bank
    }

    /// The table of functions that calls through pointers read; empty where nobody can.
    fn function_table(&self, module: &LoweredModule) -> Vec<u8> {
        let starts: Vec<Option<u32>> = (module.pointers.iter())
            .map(|name| self.start_of(name))
            .collect();
        if starts.iter().all(Option::is_none) {
            return Vec::new();
        }
        let mut table = Vec::with_capacity((starts.len() + 1) * POINTER_BYTES as usize);
        table.extend_from_slice(&NOWHERE.to_le_bytes());
        for start in starts {
            table.extend_from_slice(&start.map_or(NOWHERE, u64::from).to_le_bytes());
        }
        table
    }
}

/// Where the next call from `offset` on comes back to.
pub(super) fn behind_call(code: &Code, offset: u32) -> Option<u32> {
    let first = offset as usize / WORD;
    let calls = |op: sass::Op| op.row().effects.contains(Effects::CALL);
    let call = (code.placed[first..].iter()).position(|placed| calls(placed.op))?;
    Some(((first + call + 1) * WORD) as u32)
}

/// Writes the distance to where a jump goes.
fn set_distance(
    bytes: &mut [u8],
    offset: usize,
    distance: i64,
    target: sass::Target,
) -> Result<(), Diagnostic> {
    let Some(word) = bytes.get_mut(offset..offset + WORD) else {
        return Err(internal("a call behind the end of the code"));
    };
    let old = u128::from_le_bytes((&*word).try_into().unwrap_or([0; WORD]));
    let mut instruction = sass::decode(old, target).map_err(internal)?;
    instruction
        .set_target(distance)
        .map_err(|error| internal(format!("{error:?}")))?;
    let new = sass::encode(&instruction).map_err(internal)?;
    word.copy_from_slice(&new.to_le_bytes());
    Ok(())
}
