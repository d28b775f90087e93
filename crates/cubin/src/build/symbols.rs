//! Which symbols a file has, in ptxas's order.

use super::plan::{Key, Plan, SymbolKey};
use super::{Linkage, Variable};
use crate::elf::{stb, sto, stt};
use crate::model::{Symbol, SymbolPlace};

/// Sections for debuggers that have symbols, in their order.
pub(super) const DEBUG_SECTIONS: [Key; 7] = [
    Key::DebugFrame,
    Key::DebugLine,
    Key::DebugStrings,
    Key::DebugLineSass,
    Key::DebugPtx,
    Key::DebugRegisters,
    Key::DebugRegisterTypes,
];

/// The name of the weak symbol for the reserved shared memory.
pub(super) const RESERVED_OFFSET: &str = ".nv.reservedSmem.offset0";
/// The name of the symbol at its start.
const RESERVED_ALIAS: &str = "__nv_reservedSMEM_offset_0_alias";

impl<'a> Plan<'a> {
    pub(super) fn add_symbol(&mut self, key: SymbolKey, symbol: Symbol) {
        self.symbol_indices.insert(key, self.symbols.len() as u32);
        self.symbols.push(symbol);
    }

    pub(super) fn add_section_symbol(&mut self, key: Key) {
        if self.has(key) {
            let symbol = Symbol::for_section(self.section_name(key), self.index(key));
            self.add_symbol(SymbolKey::Section(key), symbol);
        }
    }

    fn add_variables(&mut self, key: Key, variables: impl Iterator<Item = &'a Variable>) {
        self.add_section_symbol(key);
        for variable in variables {
            let symbol = Symbol {
                name: variable.name.as_str().into(),
                kind: stt::OBJECT,
                binding: match variable.linkage {
                    Linkage::Local => stb::LOCAL,
                    _ => stb::GLOBAL,
                },
                other: variable.other(),
                place: SymbolPlace::Section(self.index(key)),
                value: variable.offset,
                size: variable.size,
            };
            self.add_symbol(SymbolKey::Named(variable.name.clone()), symbol);
        }
    }

    /// Symbols of the module: of the reserved shared memory, and of variables. They stand behind those of the first function.
    fn add_module_symbols(&mut self) {
        let module = self.module;
        let reserved = Symbol {
            name: RESERVED_OFFSET.into(),
            kind: stt::OBJECT,
            binding: stb::WEAK,
            size: 4,
            ..Symbol::null()
        };
        self.add_symbol(SymbolKey::ReservedOffset, reserved);
        let alias = Symbol {
            name: RESERVED_ALIAS.into(),
            binding: stb::WEAK,
            other: 0xa0,
            place: SymbolPlace::Section(self.index(Key::SharedReserved)),
            ..Symbol::null()
        };
        self.add_symbol(SymbolKey::ReservedAlias, alias);
        for name in &module.driver_words {
            let symbol = Symbol {
                name: name.as_str().into(),
                kind: stt::OBJECT,
                binding: stb::WEAK,
                size: 4,
                ..Symbol::null()
            };
            self.add_symbol(SymbolKey::Named(name.clone()), symbol);
        }
        self.add_reference_parameters();
        self.add_variables(Key::Bank3, module.constants.iter());
        let (with, without): (Vec<_>, Vec<_>) = module
            .globals
            .iter()
            .partition(|variable| variable.is_initialised());
        self.add_variables(Key::Global, without.into_iter());
        self.add_variables(Key::GlobalInit, with.into_iter());
        self.add_section_symbol(Key::Bank4);
    }

    /// All symbols: those of sections and variables first, then the functions, then the parameter banks.
    pub(super) fn add_symbols(&mut self) {
        let module = self.module;
        if module.object.is_some() {
            return self.add_linked_symbols();
        }
        self.add_symbol(SymbolKey::Null, Symbol::null());
        self.add_section_symbol(Key::ToolNote);
        self.add_section_symbol(Key::CudaNote);
        for (number, function) in module.functions.iter().enumerate() {
            self.add_section_symbol(Key::Text(number));
            for inner in &function.subroutines {
                let symbol = Symbol {
                    name: inner.name.as_str().into(),
                    kind: stt::FUNC,
                    binding: if inner.weak { stb::WEAK } else { stb::LOCAL },
                    other: 0,
                    place: SymbolPlace::Section(self.index(Key::Text(number))),
                    value: inner.offset,
                    size: inner.size,
                };
                self.add_symbol(SymbolKey::Named(inner.name.clone()), symbol);
            }
            self.add_section_symbol(Key::Shared(number));
            self.add_section_symbol(Key::Bank2(number));
            if number == 0 {
                self.add_module_symbols();
            }
        }
        if module.functions.is_empty() {
            self.add_module_symbols();
        }
        // Nothing refers to frames of no functions.
        let unnamed = |key: &Key| *key == Key::DebugFrame && module.functions.is_empty();
        for key in DEBUG_SECTIONS.into_iter().filter(|key| !unnamed(key)) {
            self.add_section_symbol(key);
        }
        for number in 0..self.debug_data().len() {
            self.add_section_symbol(Key::DebugData(number));
        }
        self.add_section_symbol(Key::CallGraph);
        for (number, function) in module.functions.iter().enumerate() {
            let is_entry = function.entry.is_some();
            let symbol = Symbol {
                name: function.name.as_str().into(),
                kind: stt::FUNC,
                binding: match is_entry {
                    true => stb::GLOBAL,
                    false => super::object::binding(function.linkage),
                },
                other: if is_entry { sto::ENTRY } else { 0 },
                place: SymbolPlace::Section(self.index(Key::Text(number))),
                value: 0,
                size: function.code.len() as u64,
            };
            self.add_symbol(SymbolKey::Named(function.name.clone()), symbol);
        }
        self.add_references();
        self.add_externs_and_banks();
    }

    /// Textures, samplers and surfaces that are parameters of a kernel: local symbols in its text.
    pub(super) fn add_reference_parameters(&mut self) {
        let module = self.module;
        for reference in &module.references {
            if let Some(number) = reference.parameter_of {
                let symbol = Symbol {
                    name: reference.name.as_str().into(),
                    kind: reference.kind.symbol_type(),
                    binding: stb::LOCAL,
                    place: SymbolPlace::Section(self.index(Key::Text(number))),
                    ..Symbol::null()
                };
                self.add_symbol(SymbolKey::Named(reference.name.clone()), symbol);
            }
        }
    }

    /// Textures, samplers and surfaces of the module.
    pub(super) fn add_references(&mut self) {
        let module = self.module;
        for reference in &module.references {
            if reference.parameter_of.is_none() {
                let symbol = Symbol {
                    name: reference.name.as_str().into(),
                    kind: reference.kind.symbol_type(),
                    binding: stb::GLOBAL,
                    ..Symbol::null()
                };
                self.add_symbol(SymbolKey::Named(reference.name.clone()), symbol);
            }
        }
    }

    /// What comes last in every file: functions from elsewhere, and the bank of parameters of each kernel.
    pub(super) fn add_externs_and_banks(&mut self) {
        let module = self.module;
        let kernels = module.object.as_ref().map(|it| &it.kernels_elsewhere);
        for name in &module.externs {
            let kernel = kernels.is_some_and(|kernels| kernels.contains(name));
            let symbol = Symbol {
                name: name.as_str().into(),
                kind: stt::FUNC,
                binding: stb::GLOBAL,
                other: if kernel { sto::ENTRY } else { 0 },
                ..Symbol::null()
            };
            self.add_symbol(SymbolKey::Named(name.clone()), symbol);
        }
        for number in 0..module.functions.len() {
            self.add_section_symbol(Key::Bank0(number));
        }
    }
}
