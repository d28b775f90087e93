//! The way back: what was to be known about a cubin that the driver can load.
//!
//! [`CubinContents::extract`] takes a cubin apart into what [`CubinContents::build`] makes one from. What a module cannot say (debug information,
//! relocatable objects, other chips) is refused by name. Building the result again gives a cubin that means the same; it is laid out
//! by our rules and carries none of the original's notes, leftover names or frame information.

use thiserror::Error;

use super::{
    Address, Chip, CodeRelocation, CubinContents, DataRelocation, Entry, Function, Linkage, Param,
    Shared, Subroutine, Variable,
};
use crate::attribute::{Attribute, Value, compat, id};
use crate::elf::{self, sht, stb, stt};
use crate::model::{Body, Cubin, Section, Symbol, SymbolPlace};
use crate::note::NoteContent;

/// Why a cubin cannot be taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExtractError {
    /// It is right but says something that a [`CubinContents`] cannot say.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// Its parts contradict each other.
    #[error("{0}")]
    Contradiction(String),
}

type Result<T> = std::result::Result<T, ExtractError>;

fn unsupported<T>(what: impl Into<String>) -> Result<T> {
    Err(ExtractError::Unsupported(what.into()))
}

fn contradiction(what: impl Into<String>) -> ExtractError {
    ExtractError::Contradiction(what.into())
}

impl CubinContents {
    /// Takes a cubin apart. `known` is what is known of a chip, by the name of a target.
    ///
    /// # Errors
    ///
    /// Names what a module cannot say, or what in the cubin contradicts itself.
    pub fn extract(cubin: &Cubin, known: impl Fn(&str) -> Option<Chip>) -> Result<Self> {
        if cubin.header.kind != elf::ET_EXEC {
            return unsupported("a file that is not for the driver to load");
        }
        if cubin.section(".nv_debug_line_sass").is_some() {
            return unsupported("line or debug information");
        }
        let name = cubin.target();
        let Some(chip) = known(&name) else {
            return unsupported(name);
        };
        let mut module = CubinContents::new(Chip {
            virtual_sm: virtual_sm(cubin).unwrap_or_else(|| u16::from(cubin.header.flags.sm())),
            ..chip
        });
        if let Some(Value::Byte(class, _)) = compat(cubin, compat::ISA_CLASS) {
            module.isa_class = *class;
        }
        for (index, section) in cubin.sections.iter().enumerate() {
            if section.is_text() {
                let function = function(cubin, index, section, chip.reserved_shared)?;
                module.functions.push(function);
            }
        }
        module.constants = variables(cubin, ".nv.constant3")?;
        module.globals = variables(cubin, ".nv.global")?;
        module.globals.extend(variables(cubin, ".nv.global.init")?);
        module.addresses = address_table(cubin)?;
        let section = |name| cubin.section_index(name);
        module.globals_first = matches!(
            (section(".nv.constant4"), section(".nv.constant3")),
            (Some(addresses), Some(constants)) if addresses < constants
        );
        module.externs = cubin
            .symbols()
            .iter()
            .filter(|symbol| symbol.kind == stt::FUNC && symbol.place == SymbolPlace::Undefined)
            .map(|symbol| symbol.name.text.clone())
            .collect();
        module.calls = calls(cubin)?;
        module.frame_info = cubin.section(".debug_frame").is_some();
        Ok(module)
    }
}

fn virtual_sm(cubin: &Cubin) -> Option<u16> {
    cubin.sections.iter().find_map(|section| {
        let Body::Notes(notes) = &section.body else {
            return None;
        };
        notes.iter().find_map(|note| match note.content {
            NoteContent::Cuda(cuda) => Some(cuda.virtual_sm),
            _ => None,
        })
    })
}

fn compat(cubin: &Cubin, id: u8) -> Option<&Value> {
    let attributes = cubin.section(".nv.compat")?.attributes()?;
    let found = attributes.iter().find(|attribute| attribute.id == id)?;
    Some(&found.value)
}

fn in_section(symbol: &Symbol, index: usize) -> bool {
    matches!(symbol.place, SymbolPlace::Section(at) if usize::from(at) == index)
}

/// What `.nv.info` says about a function.
fn function_value(cubin: &Cubin, id: u8, function: u32) -> Option<u32> {
    let attributes = cubin.section(".nv.info")?.attributes()?;
    attributes
        .iter()
        .find_map(|attribute| match attribute.value {
            Value::FunctionValue { symbol, value } if attribute.id == id && symbol == function => {
                Some(value)
            }
            _ => None,
        })
}

/// Whether `.nv.info` says that errors are reported at exits: of one function it says it of all.
fn reports_at_exit(cubin: &Cubin) -> bool {
    let attributes = cubin.section(".nv.info").and_then(Section::attributes);
    let mut attributes = attributes.into_iter().flatten();
    attributes.any(|attribute| attribute.id == id::GEN_ERRBAR_AT_EXIT)
}

fn function(
    cubin: &Cubin,
    index: usize,
    section: &Section,
    reserved_shared: u64,
) -> Result<Function> {
    let symbol_index = section.info & 0x00ff_ffff;
    let symbol = cubin
        .symbols()
        .get(symbol_index as usize)
        .filter(|symbol| symbol.kind == stt::FUNC && in_section(symbol, index))
        .ok_or_else(|| {
            contradiction(format!("{} does not name its function", section.name.text))
        })?;
    let name = &symbol.name.text;
    let code = section
        .bytes()
        .ok_or_else(|| contradiction(format!("{} holds no code", section.name.text)))?;
    let mut function = Function {
        name: name.clone(),
        entry: symbol.is_entry().then(Entry::default),
        code: code.to_vec(),
        registers: function_value(cubin, id::REGCOUNT, symbol_index)
            .ok_or_else(|| contradiction(format!("{name} has no register count")))?,
        frame_size: function_value(cubin, id::FRAME_SIZE, symbol_index).unwrap_or(0),
        min_stack_size: function_value(cubin, id::MIN_STACK_SIZE, symbol_index).unwrap_or(0),
        reports_at_exit: reports_at_exit(cubin),
        ..Function::default()
    };
    for (other_index, other) in cubin.symbols().iter().enumerate() {
        let inside = other.kind == stt::FUNC && in_section(other, index);
        if inside && other_index != symbol_index as usize {
            function.subroutines.push(Subroutine {
                name: other.name.text.clone(),
                offset: other.value,
                size: other.size,
                frame_size: function_value(cubin, id::FRAME_SIZE, other_index as u32).unwrap_or(0),
                weak: other.binding == stb::WEAK,
                frame_rules: None,
            });
        }
    }
    if let Some(shared) = cubin.section(&format!(".nv.shared.{name}"))
        && let Body::Memory(size) = shared.body
    {
        function.shared = Some(Shared {
            size: size.checked_sub(reserved_shared).ok_or_else(|| {
                contradiction(format!("shared memory of {name} lacks the reserved part"))
            })?,
            align: shared.align,
        });
    }
    if let Some(bank) = cubin.section(&format!(".nv.constant2.{name}")) {
        function.bank2 = bank.bytes().unwrap_or_default().to_vec();
    }
    for relocation in relocations_of(cubin, index) {
        function.relocations.push(CodeRelocation {
            offset: relocation.offset,
            kind: relocation.kind,
            address: address(cubin, relocation.symbol, relocation.addend)?,
        });
    }
    if let Some(info) = cubin.section(&format!(".nv.info.{name}")) {
        for attribute in info.attributes().unwrap_or_default() {
            take_attribute(cubin, &mut function, attribute)?;
        }
    }
    Ok(function)
}

fn take_attribute(cubin: &Cubin, function: &mut Function, attribute: &Attribute) -> Result<()> {
    let entry = function.entry.as_mut();
    match (attribute.id, &attribute.value, entry) {
        (id::NUM_BARRIERS, Value::Byte(count, _), _) => function.barriers = *count,
        (id::EXIT_INSTR_OFFSETS, Value::Offsets(exits), _) => function.exits.clone_from(exits),
        (id::KPARAM_INFO, Value::Param(info), Some(entry))
        | (id::KPARAM_INFO_V2, Value::WideParam(info), Some(entry)) => {
            if usize::from(info.ordinal) >= entry.params.len() {
                let none = Param {
                    offset: 0,
                    size: 0,
                    pointee_log_align: 0,
                    space: 0,
                };
                entry.params.resize(usize::from(info.ordinal) + 1, none);
            }
            entry.params[usize::from(info.ordinal)] = Param {
                offset: info.offset,
                size: info.size,
                pointee_log_align: info.pointee_log_align,
                space: info.space,
            };
        }
        (id::CBANK_PARAM_SIZE, Value::Half(size), Some(entry)) => entry.params_size = *size,
        (id::MAX_THREADS, Value::Dimensions(threads), Some(entry)) => {
            entry.max_threads = Some(*threads);
        }
        (id::REQNTID, Value::Dimensions(threads), Some(entry)) => {
            entry.required_threads = Some(*threads);
        }
        (id::CTA_PER_CLUSTER, Value::Dimensions(cluster), Some(entry)) => {
            entry.cluster = Some(*cluster);
        }
        (id::MAX_CLUSTER_RANK, Value::Words(rank), Some(entry)) if rank.len() == 1 => {
            entry.max_cluster_rank = Some(rank[0]);
        }
        (id::MAXREG_COUNT, Value::Half(limit), _) => {
            function.max_registers = (*limit != 0xff).then_some(*limit);
        }
        (id::EXTERNS, Value::Symbols(symbols), _) => {
            let names = symbols.iter().map(|symbol| cubin.symbol_name(*symbol));
            let names: Option<Vec<String>> = names.map(|name| name.map(str::to_owned)).collect();
            function.externs = names.ok_or_else(|| contradiction("EXTERNS names no function"))?;
        }
        // These the builder makes from the rest.
        (id::EXPLICIT_CLUSTER, _, Some(entry)) => entry.explicit_cluster = true,
        (id::BLOCKS_ARE_CLUSTERS, _, Some(entry)) => entry.blocks_are_clusters = true,
        (id::PARAM_CBANK, _, _) => {}
        // A symbol's index means nothing in another file.
        (other, Value::Symbols(_) | Value::SymbolPairs(_) | Value::FunctionValue { .. }, _) => {
            return unsupported(format!("attribute {other:#04x}, which names symbols"));
        }
        _ => function.attributes.push(attribute.clone()),
    }
    Ok(())
}

/// The relocations that apply to a section, in the order of their offsets.
fn relocations_of(cubin: &Cubin, index: usize) -> Vec<crate::model::Relocation> {
    let mut found: Vec<_> = cubin
        .sections
        .iter()
        .filter(|section| section.info as usize == index)
        .filter_map(|section| match &section.body {
            Body::Relocations(relocations) => Some(relocations),
            _ => None,
        })
        .flatten()
        .copied()
        .collect();
    found.sort_by_key(|relocation| relocation.offset);
    found
}

fn address(cubin: &Cubin, symbol: u32, addend: i64) -> Result<Address> {
    let name = cubin
        .symbol_name(symbol)
        .ok_or_else(|| contradiction(format!("a relocation names symbol {symbol}")))?;
    Ok(Address {
        symbol: name.to_owned(),
        addend,
    })
}

/// The variables of a section.
fn variables(cubin: &Cubin, name: &str) -> Result<Vec<Variable>> {
    let Some(index) = cubin.section_index(name) else {
        return Ok(Vec::new());
    };
    let section = &cubin.sections[index];
    let relocations = relocations_of(cubin, index);
    let mut variables = Vec::new();
    for symbol in cubin.symbols() {
        if symbol.kind != stt::OBJECT || !in_section(symbol, index) {
            continue;
        }
        let name = &symbol.name.text;
        let end = symbol.value.saturating_add(symbol.size);
        let initial = match &section.body {
            Body::Bytes(bytes) => {
                let range = usize::try_from(symbol.value)
                    .ok()
                    .zip(usize::try_from(end).ok());
                let bytes = range.and_then(|(start, end)| bytes.get(start..end));
                let bytes = bytes
                    .ok_or_else(|| contradiction(format!("{name} lies outside its section")))?;
                Some(bytes.to_vec())
            }
            _ => None,
        };
        let mut addresses = Vec::new();
        for relocation in &relocations {
            if (symbol.value..end).contains(&relocation.offset) {
                addresses.push(DataRelocation {
                    offset: relocation.offset - symbol.value,
                    kind: relocation.kind,
                    address: address(cubin, relocation.symbol, relocation.addend)?,
                });
            }
        }
        // A variable's alignment is not in the file: the largest its place allows, up to the section's, keeps it in place.
        let natural = if symbol.value == 0 {
            section.align
        } else {
            1 << symbol.value.trailing_zeros()
        };
        variables.push(Variable {
            name: name.clone(),
            offset: symbol.value,
            size: symbol.size,
            align: natural.min(section.align).max(1),
            initial,
            addresses,
            linkage: match symbol.binding {
                stb::LOCAL => Linkage::Local,
                _ => Linkage::Global,
            },
            managed: symbol.other & crate::elf::sto::MANAGED != 0,
        });
    }
    let has_bytes = !matches!(section.body, Body::Memory(_)) && section.kind != sht::NOBITS;
    if has_bytes && variables.is_empty() {
        return unsupported(format!("{name} without variables"));
    }
    Ok(variables)
}

fn address_table(cubin: &Cubin) -> Result<Vec<Address>> {
    let Some(index) = cubin.section_index(".nv.constant4") else {
        return Ok(Vec::new());
    };
    let slots = cubin.sections[index].bytes().map_or(0, <[u8]>::len) / 8;
    let mut addresses = vec![None; slots];
    for relocation in relocations_of(cubin, index) {
        let slot = usize::try_from(relocation.offset / 8).unwrap_or(usize::MAX);
        match addresses.get_mut(slot) {
            Some(place) if relocation.kind == 2 && relocation.offset % 8 == 0 => {
                *place = Some(address(cubin, relocation.symbol, relocation.addend)?);
            }
            _ => return unsupported("bank 4 with something other than addresses"),
        }
    }
    let addresses: Option<Vec<Address>> = addresses.into_iter().collect();
    addresses.map_or_else(
        || unsupported("bank 4 with something other than addresses"),
        Ok,
    )
}

fn calls(cubin: &Cubin) -> Result<Vec<(String, String)>> {
    let graph = cubin
        .sections
        .iter()
        .find_map(|section| match &section.body {
            Body::CallGraph(calls) => Some(calls),
            _ => None,
        });
    let mut calls = Vec::new();
    for call in graph.into_iter().flatten().filter(|call| call.caller != 0) {
        let names = cubin
            .symbol_name(call.caller)
            .zip(cubin.symbol_name(call.callee));
        let (caller, callee) =
            names.ok_or_else(|| contradiction("the call graph names no function"))?;
        calls.push((caller.to_owned(), callee.to_owned()));
    }
    Ok(calls)
}
