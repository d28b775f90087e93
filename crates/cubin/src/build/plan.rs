//! Which sections and symbols a module gets, in ptxas's order, and where each is.

use std::collections::BTreeMap;

use super::{BuildError, Chip, CubinContents, DebugSection, Function, Object, Variable};
use crate::model::{Relocation, Symbol};

/// A section of the file. Functions are given by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Null,
    SectionNames,
    SymbolNames,
    Symbols,
    DebugFrame,
    DebugLine,
    DebugStrings,
    DebugLineSass,
    DebugPtx,
    DebugRegisters,
    DebugRegisterTypes,
    DebugData(usize),
    ToolNote,
    CudaNote,
    Info,
    Compat,
    FunctionInfo(usize),
    CallGraph,
    Prototypes,
    TextRelocations(usize),
    AddressRelocations,
    ConstantRelocations,
    GlobalInitRelocations,
    DebugLineRelocations,
    DebugLineSassRelocations,
    DebugDataRelocations(usize),
    HeaderRelocations(usize),
    DebugFrameRelocations,
    Bank3,
    Bank4,
    Bank2(usize),
    Text(usize),
    GlobalInit,
    Shared(usize),
    SharedReserved,
    SharedOfMany,
    Global,
    Bank0(usize),
}

/// A symbol of the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SymbolKey {
    Null,
    Section(Key),
    ReservedOffset,
    ReservedAlias,
    Named(String),
}

/// Which sections and symbols there are, and where.
pub(super) struct Plan<'a> {
    pub(super) module: &'a CubinContents,
    pub(super) chip: &'a Chip,
    pub(super) keys: Vec<Key>,
    indices: BTreeMap<Key, u16>,
    pub(super) symbols: Vec<Symbol>,
    pub(super) symbol_indices: BTreeMap<SymbolKey, u32>,
    pub(super) frame: (Vec<u8>, Vec<Relocation>),
    pub(super) lines: (Vec<u8>, Vec<Relocation>),
    pub(super) ptx_lines: (Vec<u8>, Vec<Relocation>),
}

impl<'a> Plan<'a> {
    pub(super) fn new(module: &'a CubinContents, chip: &'a Chip) -> Self {
        let keys = section_keys(module);
        let indices = keys
            .iter()
            .enumerate()
            .map(|(index, key)| (*key, index as u16))
            .collect();
        let mut plan = Self {
            module,
            chip,
            keys,
            indices,
            symbols: Vec::new(),
            symbol_indices: BTreeMap::new(),
            frame: (Vec::new(), Vec::new()),
            lines: (Vec::new(), Vec::new()),
            ptx_lines: (Vec::new(), Vec::new()),
        };
        plan.add_symbols();
        plan.frame = plan.frame_info();
        if let Some(lines) = &module.lines {
            plan.lines = plan.line_table(&lines.files, |function| &function.lines);
            plan.ptx_lines = plan.line_table(&[], |function| &function.ptx_lines);
        }
        plan
    }

    /// The index of a section; 0 if the file does not have it.
    pub(super) fn index(&self, key: Key) -> u16 {
        self.indices.get(&key).copied().unwrap_or(0)
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.indices.contains_key(&key)
    }

    /// The index of a symbol; 0, the null symbol, if the file does not have it.
    pub(super) fn symbol(&self, key: &SymbolKey) -> u32 {
        self.symbol_indices.get(key).copied().unwrap_or(0)
    }

    /// The symbol of a name; a section's name is that of its symbol.
    pub(super) fn named(&self, name: &str) -> u32 {
        let named = self.symbol(&SymbolKey::Named(name.to_owned()));
        if named > 0 || !name.starts_with(".debug_") {
            return named;
        }
        let mut keys = self.keys.iter();
        let section = keys.find(|&&key| self.section_name(key) == name);
        section.map_or(0, |&key| self.symbol(&SymbolKey::Section(key)))
    }

    /// The sections of DWARF.
    pub(super) fn debug_data(&self) -> &'a [DebugSection] {
        let debug = self.module.debug.as_ref();
        debug.map_or(&[], |debug| &debug.sections)
    }

    pub(super) fn resolve_names(&self) -> Result<(), BuildError> {
        let module = self.module;
        let from_banks = module.addresses.iter().map(|address| ("bank 4", address));
        let from_variables = module
            .globals
            .iter()
            .chain(&module.constants)
            .flat_map(|variable| {
                let addresses = variable.addresses.iter();
                addresses.map(|one| (variable.name.as_str(), &one.address))
            });
        let from_code = module.functions.iter().flat_map(|function| {
            let relocations = function.relocations.iter();
            relocations.map(|one| (function.name.as_str(), &one.address))
        });
        let from_debug = self.debug_data().iter().flat_map(|section| {
            let relocations = section.relocations.iter();
            relocations.map(|one| (section.name.as_str(), &one.address))
        });
        let addresses = from_banks
            .chain(from_variables)
            .chain(from_code)
            .chain(from_debug);
        let addresses = addresses.map(|(user, address)| (user, &address.symbol));
        let objects = module.object.iter();
        let linked = objects.flat_map(Object::uses).map(|it| ("the linker", it));
        let addresses = addresses.chain(linked);
        let callers = module.calls.iter().map(|(caller, _)| ("a call", caller));
        let callees = module.calls.iter();
        let callees = callees.map(|(caller, callee)| (caller.as_str(), callee));
        let externs = module.functions.iter().flat_map(|function| {
            let externs = function.externs.iter();
            externs.map(|name| (function.name.as_str(), name))
        });
        let headers = module.functions.iter().flat_map(|function| {
            let headers = function.headers.iter();
            headers.map(|name| (function.name.as_str(), name))
        });
        let externs = externs.chain(headers);
        for (user, name) in addresses.chain(callers).chain(callees).chain(externs) {
            if self.named(name) == 0 {
                return Err(BuildError::UnknownName {
                    user: user.to_owned(),
                    name: name.clone(),
                });
            }
        }
        Ok(())
    }
}

/// The sections a module has, in ptxas's order.
fn section_keys(module: &CubinContents) -> Vec<Key> {
    let functions = 0..module.functions.len();
    let which = |pick: &dyn Fn(&Function) -> bool, key: &dyn Fn(usize) -> Key| -> Vec<Key> {
        let chosen = functions
            .clone()
            .filter(|number| pick(&module.functions[*number]));
        chosen.map(key).collect()
    };
    let optional = |there: bool, key: Key| there.then_some(key);
    let has_initialised = module.globals.iter().any(Variable::is_initialised);
    let has_addresses = |variables: &[Variable]| {
        let mut addresses = variables.iter().map(|one| &one.addresses);
        addresses.any(|addresses| !addresses.is_empty())
    };
    let has_uninitialised = module.globals.iter().any(Variable::is_zero);
    let has_constants = module.constants.iter().any(Variable::is_here);
    let object = module.object.as_ref();
    // A module without functions has the section all the same, as with ptxas; it is empty.
    let framed = module.frame_info;
    let has_frames = framed && !module.functions.is_empty();
    let lined = module.lines.as_ref();
    let has_strings = lined.is_some_and(|lines| !lines.strings.is_empty());
    let has_rows =
        |rows: &dyn Fn(&Function) -> bool| lined.is_some() && module.functions.iter().any(rows);

    let mut keys = vec![Key::Null, Key::SectionNames, Key::SymbolNames, Key::Symbols];
    keys.extend(optional(framed, Key::DebugFrame));
    keys.extend(optional(lined.is_some(), Key::DebugLine));
    keys.extend(optional(has_strings, Key::DebugStrings));
    keys.extend(optional(lined.is_some(), Key::DebugLineSass));
    keys.extend(optional(lined.is_some(), Key::DebugPtx));
    if let Some(debug) = &module.debug {
        keys.extend([Key::DebugRegisters, Key::DebugRegisterTypes]);
        keys.extend((0..debug.sections.len()).map(Key::DebugData));
    }
    keys.extend([Key::ToolNote, Key::CudaNote, Key::Info, Key::Compat]);
    keys.extend(which(&|_| true, &Key::FunctionInfo));
    keys.push(Key::CallGraph);
    let has_prototypes = object.is_some_and(Object::has_prototypes);
    keys.extend(optional(has_prototypes, Key::Prototypes));
    keys.extend(which(
        &|function| !function.relocations.is_empty(),
        &Key::TextRelocations,
    ));
    keys.extend(optional(
        !module.addresses.is_empty(),
        Key::AddressRelocations,
    ));
    keys.extend(optional(
        has_addresses(&module.constants),
        Key::ConstantRelocations,
    ));
    keys.extend(optional(
        has_addresses(&module.globals),
        Key::GlobalInitRelocations,
    ));
    keys.extend(optional(
        has_rows(&|function| !function.lines.is_empty()),
        Key::DebugLineRelocations,
    ));
    keys.extend(optional(
        has_rows(&|function| !function.ptx_lines.is_empty()),
        Key::DebugLineSassRelocations,
    ));
    let data = module.debug.iter().flat_map(|debug| &debug.sections);
    keys.extend(
        data.enumerate()
            .filter(|(_, section)| !section.relocations.is_empty())
            .map(|(number, _)| Key::DebugDataRelocations(number)),
    );
    keys.extend(which(
        &|function| !function.headers.is_empty(),
        &Key::HeaderRelocations,
    ));
    keys.extend(optional(has_frames, Key::DebugFrameRelocations));
    let mut banks = [
        (has_constants, Key::Bank3),
        (!module.addresses.is_empty(), Key::Bank4),
    ];
    if module.globals_first {
        banks.reverse();
    }
    for (present, bank) in banks {
        keys.extend(optional(present, bank));
    }
    keys.extend(which(&|function| !function.bank2.is_empty(), &Key::Bank2));
    keys.extend(which(&|_| true, &Key::Text));
    keys.extend(optional(has_initialised, Key::GlobalInit));
    if let Some(object) = object {
        keys.extend(optional(has_uninitialised, Key::Global));
        let owned = |owner: Option<usize>| object.shared.iter().any(|it| it.owner == owner);
        keys.extend(optional(owned(None), Key::SharedOfMany));
        let owners = functions.clone().filter(|&it| owned(Some(it)));
        keys.extend(owners.map(Key::Shared));
        keys.extend(which(&|function| function.entry.is_some(), &Key::Bank0));
        return keys;
    }
    let mut shared = which(&|function| function.shared.is_some(), &Key::Shared);
    let others = match shared.first() {
        Some(Key::Shared(0)) => shared.split_off(1),
        _ => std::mem::take(&mut shared),
    };
    keys.extend(shared);
    keys.push(Key::SharedReserved);
    keys.extend(optional(has_uninitialised, Key::Global));
    keys.extend(others);
    keys.extend(which(&|function| function.entry.is_some(), &Key::Bank0));
    keys
}
