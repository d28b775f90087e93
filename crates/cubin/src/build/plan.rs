//! Which sections and symbols a module gets, in ptxas's order, and their bodies.

use std::collections::BTreeMap;

use super::{
    Address, BuildError, CUDA_VERSION, Chip, DebugSection, Entry, Function, Module, Shared, Variable,
};
use crate::elf::{r_cuda, shf, sht, size, stb, sto, stt};
use crate::frame::{self, Covered};
use crate::line::{self, LineRow, Sequence, SourceFile};
use crate::model::{Body, Relocation, Section, Symbol, SymbolPlace};
use crate::note::{CudaNote, NOTE_CUINFO, NOTE_TKINFO, NVIDIA_OWNER, Note, NoteContent};
use crate::strings::StringTable;

/// Text sections start at multiples of this.
const TEXT_ALIGN: u64 = 128;

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
    TextRelocations(usize),
    AddressRelocations,
    ConstantRelocations,
    GlobalInitRelocations,
    DebugLineRelocations,
    DebugLineSassRelocations,
    DebugDataRelocations(usize),
    DebugFrameRelocations,
    Bank3,
    Bank4,
    Bank2(usize),
    Text(usize),
    GlobalInit,
    Shared(usize),
    SharedReserved,
    Global,
    Bank0(usize),
}

/// Sections for debuggers that have symbols, in their order.
const DEBUG_SECTIONS: [Key; 7] = [
    Key::DebugFrame,
    Key::DebugLine,
    Key::DebugStrings,
    Key::DebugLineSass,
    Key::DebugPtx,
    Key::DebugRegisters,
    Key::DebugRegisterTypes,
];

/// A symbol of the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SymbolKey {
    Null,
    Section(Key),
    ReservedOffset,
    ReservedAlias,
    Named(String),
}

/// The name of the weak symbol for the reserved shared memory.
const RESERVED_OFFSET: &str = ".nv.reservedSmem.offset0";
/// The name of the symbol at its start.
const RESERVED_ALIAS: &str = "__nv_reservedSMEM_offset_0_alias";

/// Which sections and symbols there are, and where.
pub(super) struct Plan<'a> {
    pub(super) module: &'a Module,
    pub(super) chip: &'a Chip,
    pub(super) keys: Vec<Key>,
    indices: BTreeMap<Key, u16>,
    symbols: Vec<Symbol>,
    symbol_indices: BTreeMap<SymbolKey, u32>,
    frame: (Vec<u8>, Vec<Relocation>),
    lines: (Vec<u8>, Vec<Relocation>),
    ptx_lines: (Vec<u8>, Vec<Relocation>),
}

impl<'a> Plan<'a> {
    pub(super) fn new(module: &'a Module, chip: &'a Chip) -> Self {
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

    fn has(&self, key: Key) -> bool {
        self.indices.contains_key(&key)
    }

    /// The index of a symbol; 0, the null symbol, if the file does not have it.
    pub(super) fn symbol(&self, key: &SymbolKey) -> u32 {
        self.symbol_indices.get(key).copied().unwrap_or(0)
    }

    pub(super) fn named(&self, name: &str) -> u32 {
        self.symbol(&SymbolKey::Named(name.to_owned()))
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
        let callers = module.calls.iter().map(|(caller, _)| ("a call", caller));
        let callees = module.calls.iter();
        let callees = callees.map(|(caller, callee)| (caller.as_str(), callee));
        let externs = module.functions.iter().flat_map(|function| {
            let externs = function.externs.iter();
            externs.map(|name| (function.name.as_str(), name))
        });
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

    fn add_symbol(&mut self, key: SymbolKey, symbol: Symbol) {
        self.symbol_indices.insert(key, self.symbols.len() as u32);
        self.symbols.push(symbol);
    }

    fn add_section_symbol(&mut self, key: Key) {
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
                binding: if variable.visible {
                    stb::GLOBAL
                } else {
                    stb::LOCAL
                },
                other: 0,
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
    fn add_symbols(&mut self) {
        let module = self.module;
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
        for key in DEBUG_SECTIONS {
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
                binding: if is_entry { stb::GLOBAL } else { stb::LOCAL },
                other: if is_entry { sto::ENTRY } else { 0 },
                place: SymbolPlace::Section(self.index(Key::Text(number))),
                value: 0,
                size: function.code.len() as u64,
            };
            self.add_symbol(SymbolKey::Named(function.name.clone()), symbol);
        }
        for name in &module.externs {
            let symbol = Symbol {
                name: name.as_str().into(),
                kind: stt::FUNC,
                binding: stb::GLOBAL,
                ..Symbol::null()
            };
            self.add_symbol(SymbolKey::Named(name.clone()), symbol);
        }
        for number in 0..module.functions.len() {
            self.add_section_symbol(Key::Bank0(number));
        }
    }

    fn debug_data(&self) -> &'a [DebugSection] {
        let debug = self.module.debug.as_ref();
        debug.map_or(&[], |debug| &debug.sections)
    }

    fn section_name(&self, key: Key) -> String {
        let function = |prefix: &str, number: usize| {
            let name = self.module.functions.get(number);
            format!("{prefix}{}", name.map_or("", |function| &function.name))
        };
        match key {
            Key::Null => String::new(),
            Key::SectionNames => ".shstrtab".to_owned(),
            Key::SymbolNames => ".strtab".to_owned(),
            Key::Symbols => ".symtab".to_owned(),
            Key::DebugFrame => ".debug_frame".to_owned(),
            Key::DebugLine => ".debug_line".to_owned(),
            Key::DebugStrings => ".debug_str".to_owned(),
            Key::DebugLineSass => ".nv_debug_line_sass".to_owned(),
            Key::DebugPtx => ".nv_debug_ptx_txt".to_owned(),
            Key::DebugRegisters => ".nv_debug_info_reg_sass".to_owned(),
            Key::DebugRegisterTypes => ".nv_debug_info_reg_type".to_owned(),
            Key::DebugData(number) => self.debug_data()[number].name.clone(),
            Key::DebugDataRelocations(number) => {
                format!(".rela{}", self.debug_data()[number].name)
            }
            Key::ToolNote => ".note.nv.tkinfo".to_owned(),
            Key::CudaNote => ".note.nv.cuinfo".to_owned(),
            Key::Info => ".nv.info".to_owned(),
            Key::Compat => ".nv.compat".to_owned(),
            Key::FunctionInfo(number) => function(".nv.info.", number),
            Key::CallGraph => ".nv.callgraph".to_owned(),
            Key::TextRelocations(number) => function(".rela.text.", number),
            Key::AddressRelocations => ".rela.nv.constant4".to_owned(),
            Key::ConstantRelocations => ".rela.nv.constant3".to_owned(),
            Key::GlobalInitRelocations => ".rela.nv.global.init".to_owned(),
            Key::DebugLineRelocations => ".rela.debug_line".to_owned(),
            Key::DebugLineSassRelocations => ".rela.nv_debug_line_sass".to_owned(),
            Key::DebugFrameRelocations => ".rela.debug_frame".to_owned(),
            Key::Bank3 => ".nv.constant3".to_owned(),
            Key::Bank4 => ".nv.constant4".to_owned(),
            Key::Bank2(number) => function(".nv.constant2.", number),
            Key::Text(number) => function(".text.", number),
            Key::GlobalInit => ".nv.global.init".to_owned(),
            Key::Shared(number) => function(".nv.shared.", number),
            Key::SharedReserved => ".nv.shared.reserved.0".to_owned(),
            Key::Global => ".nv.global".to_owned(),
            Key::Bank0(number) => function(".nv.constant0.", number),
        }
    }

    /// One section, complete.
    pub(super) fn section(&self, key: Key) -> Section {
        const DATA: u64 = shf::ALLOC;
        const OF_FUNCTION: u64 = shf::ALLOC | shf::INFO_LINK;
        const MEMORY: u64 = shf::ALLOC | shf::WRITE;
        let module = self.module;
        let symbols = u32::from(self.index(Key::Symbols));
        let text = |number| u32::from(self.index(Key::Text(number)));
        let new = |kind, flags, align, body| {
            Section::new(self.section_name(key), kind, flags, align, body)
        };
        let relocations = |target: Key, relocations| Section {
            link: symbols,
            info: u32::from(self.index(target)),
            entry_size: size::RELA,
            ..new(sht::RELA, shf::INFO_LINK, 8, Body::Relocations(relocations))
        };
        match key {
            Key::Null => new(sht::NULL, 0, 0, Body::Memory(0)),
            Key::SectionNames | Key::SymbolNames => {
                new(sht::STRTAB, 0, 1, Body::Strings(StringTable::default()))
            }
            Key::Symbols => Section {
                link: u32::from(self.index(Key::SymbolNames)),
                info: self.symbols.len() as u32,
                entry_size: size::SYMBOL,
                ..new(sht::SYMTAB, 0, 8, Body::Symbols(self.symbols.clone()))
            },
            Key::DebugFrame => new(sht::PROGBITS, 0, 1, Body::Bytes(self.frame.0.clone())),
            Key::DebugLine => new(sht::PROGBITS, 0, 1, Body::Bytes(self.lines.0.clone())),
            Key::DebugLineSass => new(sht::PROGBITS, 0, 1, Body::Bytes(self.ptx_lines.0.clone())),
            Key::DebugStrings | Key::DebugPtx => {
                let text = module.lines.as_ref().map(|lines| match key {
                    Key::DebugPtx => lines.ptx.clone(),
                    _ => lines.strings.clone(),
                });
                new(sht::PROGBITS, 0, 1, Body::Bytes(text.unwrap_or_default()))
            }
            Key::DebugRegisters | Key::DebugRegisterTypes => {
                let table = module.debug.as_ref().map(|debug| match key {
                    Key::DebugRegisters => debug.registers.clone(),
                    _ => debug.register_types.clone(),
                });
                new(sht::PROGBITS, 0, 1, Body::Bytes(table.unwrap_or_default()))
            }
            Key::DebugData(number) => {
                let bytes = self.debug_data()[number].bytes.clone();
                new(sht::PROGBITS, 0, 1, Body::Bytes(bytes))
            }
            Key::DebugDataRelocations(number) => {
                let section = &self.debug_data()[number];
                let list = section.relocations.iter().rev().map(|one| Relocation {
                    kind: one.kind,
                    ..self.address(one.offset, &one.address)
                });
                relocations(Key::DebugData(number), list.collect())
            }
            Key::ToolNote => new(
                sht::NOTE,
                shf::NOTE_TKINFO,
                4,
                note(NOTE_TKINFO, NoteContent::Tool(module.tool.clone())),
            ),
            Key::CudaNote => Section {
                link: u32::from(self.index(Key::ToolNote)),
                info: u32::from(self.index(Key::Compat)),
                ..new(
                    sht::NOTE,
                    shf::NOTE_CUINFO | shf::INFO_LINK,
                    4,
                    note(
                        NOTE_CUINFO,
                        NoteContent::Cuda(CudaNote {
                            version: 2,
                            virtual_sm: module.chip.virtual_sm,
                            toolkit: CUDA_VERSION,
                            reserved: 0,
                        }),
                    ),
                )
            },
            Key::Info => Section {
                link: symbols,
                ..new(sht::CUDA_INFO, 0, 4, Body::Info(self.module_info()))
            },
            Key::Compat => new(sht::CUDA_COMPAT_INFO, 0, 4, Body::Compat(self.compat())),
            Key::FunctionInfo(number) => Section {
                link: symbols,
                info: text(number),
                ..new(
                    sht::CUDA_INFO,
                    shf::INFO_LINK,
                    4,
                    Body::Info(self.function_info(number)),
                )
            },
            Key::CallGraph => Section {
                link: symbols,
                entry_size: 8,
                ..new(
                    sht::CUDA_CALLGRAPH,
                    0,
                    4,
                    Body::CallGraph(self.call_graph()),
                )
            },
            Key::TextRelocations(number) => {
                let function = &module.functions[number];
                let list = function.relocations.iter().rev().map(|one| Relocation {
                    offset: one.offset,
                    symbol: self.named(&one.address.symbol),
                    kind: one.kind,
                    addend: one.address.addend,
                });
                relocations(Key::Text(number), list.collect())
            }
            Key::AddressRelocations => {
                let list = module.addresses.iter().enumerate().rev();
                let list = list.map(|(slot, address)| self.address(slot as u64 * 8, address));
                relocations(Key::Bank4, list.collect())
            }
            Key::ConstantRelocations => {
                relocations(Key::Bank3, self.data_relocations(&module.constants))
            }
            Key::GlobalInitRelocations => {
                relocations(Key::GlobalInit, self.data_relocations(&module.globals))
            }
            Key::DebugLineRelocations => relocations(Key::DebugLine, self.lines.1.clone()),
            Key::DebugLineSassRelocations => {
                relocations(Key::DebugLineSass, self.ptx_lines.1.clone())
            }
            Key::DebugFrameRelocations => relocations(Key::DebugFrame, self.frame.1.clone()),
            Key::Bank3 => new(
                sht::PROGBITS,
                DATA,
                align_of(&module.constants),
                Body::Bytes(image(&module.constants)),
            ),
            Key::Bank4 => new(
                sht::PROGBITS,
                DATA,
                8,
                Body::Bytes(vec![0; module.addresses.len() * 8]),
            ),
            Key::Bank2(number) => Section {
                info: text(number),
                ..new(
                    sht::PROGBITS,
                    OF_FUNCTION,
                    4,
                    Body::Bytes(module.functions[number].bank2.clone()),
                )
            },
            Key::Text(number) => {
                let function = &module.functions[number];
                Section {
                    link: symbols,
                    info: self.named(&function.name),
                    ..new(
                        sht::PROGBITS,
                        shf::ALLOC | shf::EXECINSTR,
                        TEXT_ALIGN,
                        Body::Bytes(function.code.clone()),
                    )
                }
            }
            Key::GlobalInit => {
                let variables = initialised(&module.globals);
                new(
                    sht::PROGBITS,
                    MEMORY,
                    align_of(&variables),
                    Body::Bytes(image(&variables)),
                )
            }
            Key::Shared(number) => {
                let shared = module.functions[number].shared;
                let shared = shared.unwrap_or(Shared { size: 0, align: 1 });
                Section {
                    info: text(number),
                    ..new(
                        sht::NOBITS,
                        MEMORY | shf::INFO_LINK,
                        shared.align,
                        Body::Memory(self.chip.reserved_shared + shared.size),
                    )
                }
            }
            Key::SharedReserved => new(sht::NOBITS, MEMORY, 1, Body::Memory(0)),
            Key::Global => {
                let variables: Vec<Variable> = uninitialised(&module.globals);
                let end = variables.iter().map(|one| one.offset + one.size).max();
                new(
                    sht::NOBITS,
                    MEMORY,
                    align_of(&variables),
                    Body::Memory(end.unwrap_or(0)),
                )
            }
            Key::Bank0(number) => {
                let entry = module.functions[number].entry.as_ref();
                let size =
                    usize::from(self.chip.param_base) + entry.map_or(0, Entry::size) as usize;
                Section {
                    info: text(number),
                    ..new(sht::PROGBITS, OF_FUNCTION, 4, Body::Bytes(vec![0; size]))
                }
            }
        }
    }

    /// The addresses in variables of one section, the highest offset first.
    fn data_relocations(&self, variables: &[Variable]) -> Vec<Relocation> {
        let mut list: Vec<Relocation> = variables
            .iter()
            .flat_map(|variable| {
                variable.addresses.iter().map(|one| Relocation {
                    kind: one.kind,
                    ..self.address(variable.offset + one.offset, &one.address)
                })
            })
            .collect();
        list.sort_by_key(|relocation| std::cmp::Reverse(relocation.offset));
        list
    }

    fn address(&self, offset: u64, address: &Address) -> Relocation {
        Relocation {
            offset,
            symbol: self.named(&address.symbol),
            kind: r_cuda::ADDRESS_64,
            addend: address.addend,
        }
    }

    /// A line table with a sequence for each function that has rows.
    fn line_table(
        &self,
        files: &[SourceFile],
        rows: impl Fn(&Function) -> &Vec<LineRow>,
    ) -> (Vec<u8>, Vec<Relocation>) {
        let functions: Vec<&Function> = self
            .module
            .functions
            .iter()
            .filter(|function| !rows(function).is_empty())
            .collect();
        let sequences: Vec<Sequence> = functions
            .iter()
            .map(|function| Sequence {
                rows: rows(function).clone(),
                end: function.code.len() as u64,
            })
            .collect();
        let (bytes, addresses) = line::write(files, &sequences);
        let relocations = addresses.iter().zip(&functions);
        let relocations = relocations.map(|(&offset, function)| Relocation {
            offset,
            symbol: self.named(&function.name),
            kind: r_cuda::ADDRESS_64,
            addend: 0,
        });
        (bytes, relocations.collect())
    }

    fn frame_info(&self) -> (Vec<u8>, Vec<Relocation>) {
        let covered: Vec<Covered<'_>> = self
            .module
            .functions
            .iter()
            .flat_map(|function| {
                let symbol = self.named(&function.name);
                std::iter::once(Covered {
                    rules: function.frame_rules.as_ref(),
                    symbol,
                    offset: 0,
                    size: function.code.len() as u64,
                })
                .chain(function.subroutines.iter().map(move |inner| Covered {
                    rules: inner.frame_rules.as_ref(),
                    symbol,
                    offset: inner.offset,
                    size: inner.size,
                }))
            })
            .collect();
        let (bytes, addresses) = frame::write(&covered);
        let relocations = addresses.iter().zip(&covered).rev();
        let relocations = relocations.map(|(offset, function)| Relocation {
            offset: *offset,
            symbol: function.symbol,
            kind: r_cuda::ADDRESS_64,
            addend: function.offset as i64,
        });
        (bytes, relocations.collect())
    }
}

fn note(kind: u32, content: NoteContent) -> Body {
    Body::Notes(vec![Note {
        owner: NVIDIA_OWNER.to_owned(),
        kind,
        content,
    }])
}

fn initialised(variables: &[Variable]) -> Vec<Variable> {
    let chosen = variables
        .iter()
        .filter(|variable| variable.is_initialised());
    chosen.cloned().collect()
}

fn uninitialised(variables: &[Variable]) -> Vec<Variable> {
    let chosen = variables
        .iter()
        .filter(|variable| !variable.is_initialised());
    chosen.cloned().collect()
}

fn align_of(variables: &[Variable]) -> u64 {
    let aligns = variables.iter().map(|variable| variable.align);
    aligns.max().unwrap_or(1)
}

/// The initial bytes of variables that lie in one section.
fn image(variables: &[Variable]) -> Vec<u8> {
    let end = variables.iter().map(|one| one.offset + one.size).max();
    let mut bytes = vec![0; end.unwrap_or(0) as usize];
    for variable in variables {
        if let Some(initial) = &variable.initial {
            let start = variable.offset as usize;
            bytes[start..start + initial.len()].copy_from_slice(initial);
        }
    }
    bytes
}

/// The sections a module has, in ptxas's order.
fn section_keys(module: &Module) -> Vec<Key> {
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
    let has_uninitialised = module.globals.iter().any(|one| !one.is_initialised());
    let framed = module.frame_info && !module.functions.is_empty();
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
    keys.extend(optional(framed, Key::DebugFrameRelocations));
    let mut banks = [
        (!module.constants.is_empty(), Key::Bank3),
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
