//! The sections of a file, one by one: name, header and body, now that every index is known.

use super::object::{self, Object};
use super::plan::{Key, Plan};
use super::{Address, CUDA_VERSION, Function, HEADER_BYTES, Shared, Variable};
use crate::elf::{r_cuda, shf, sht, size};
use crate::frame::{self, Covered};
use crate::line::{self, LineRow, Sequence, SourceFile};
use crate::model::{Body, Relocation, Section};
use crate::note::{CudaNote, NOTE_CUINFO, NOTE_TKINFO, NVIDIA_OWNER, Note, NoteContent};
use crate::strings::StringTable;

/// Text sections start at multiples of this.
const TEXT_ALIGN: u64 = 128;

impl Plan<'_> {
    pub(super) fn section_name(&self, key: Key) -> String {
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
            Key::DebugPtx => match &self.module.lines {
                // The linker keeps the text of each file apart from the others'.
                Some(lines) if self.module.object.is_some() => {
                    format!(".nv_debug_ptx_txt.{}", object::number_of(&lines.ptx))
                }
                _ => ".nv_debug_ptx_txt".to_owned(),
            },
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
            Key::Prototypes => ".nv.prototype".to_owned(),
            Key::TextRelocations(number) => function(".rela.text.", number),
            Key::AddressRelocations => ".rela.nv.constant4".to_owned(),
            Key::ConstantRelocations => ".rela.nv.constant3".to_owned(),
            Key::GlobalInitRelocations => ".rela.nv.global.init".to_owned(),
            Key::DebugLineRelocations => ".rela.debug_line".to_owned(),
            Key::DebugLineSassRelocations => ".rela.nv_debug_line_sass".to_owned(),
            Key::HeaderRelocations(number) => function(".rela.nv.constant0.", number),
            Key::DebugFrameRelocations => ".rela.debug_frame".to_owned(),
            Key::Bank3 => ".nv.constant3".to_owned(),
            Key::Bank4 => ".nv.constant4".to_owned(),
            Key::Bank2(number) => function(".nv.constant2.", number),
            Key::Text(number) => function(".text.", number),
            Key::GlobalInit => ".nv.global.init".to_owned(),
            Key::Shared(number) => function(".nv.shared.", number),
            Key::SharedReserved => ".nv.shared.reserved.0".to_owned(),
            Key::SharedOfMany => ".nv_debug.shared".to_owned(),
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
        // Sections in memory have types of their own in files for a linker.
        let memory_kind = |linked: u32, loaded: u32| match module.object {
            Some(_) => linked,
            None => loaded,
        };
        let relocations = |target: Key, relocations| Section {
            link: symbols,
            info: u32::from(self.index(target)),
            entry_size: size::RELA,
            ..new(sht::RELA, shf::INFO_LINK, 8, Body::Relocations(relocations))
        };
        match key {
            Key::Null => new(sht::NULL, 0, 0, Body::Memory(0)),
            Key::SectionNames => new(sht::STRTAB, 0, 1, Body::Strings(StringTable::default())),
            Key::SymbolNames => {
                let object = module.object.as_ref();
                let names = object.map(Object::spelled_prototypes).unwrap_or_default();
                new(sht::STRTAB, 0, 1, Body::Strings(names))
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
            Key::Prototypes => Section {
                link: symbols,
                entry_size: 8,
                ..new(
                    sht::CUDA_PROTOTYPE,
                    0,
                    4,
                    Body::Prototypes(self.prototypes()),
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
            Key::HeaderRelocations(number) => {
                relocations(Key::Bank0(number), self.header_relocations(number))
            }
            Key::DebugFrameRelocations => relocations(Key::DebugFrame, self.frame.1.clone()),
            Key::Bank3 => {
                let constants: Vec<Variable> = chosen(&module.constants, Variable::is_here);
                new(
                    memory_kind(sht::CUDA_CONSTANT_B0 + 3, sht::PROGBITS),
                    DATA,
                    align_of(&constants),
                    Body::Bytes(image(&constants)),
                )
            }
            Key::Bank4 => new(
                sht::PROGBITS,
                DATA,
                8,
                Body::Bytes(vec![0; module.addresses.len() * 8]),
            ),
            Key::Bank2(number) => Section {
                info: text(number),
                ..new(
                    memory_kind(sht::CUDA_CONSTANT_B0 + 2, sht::PROGBITS),
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
                let variables = chosen(&module.globals, Variable::is_initialised);
                new(
                    memory_kind(sht::CUDA_GLOBAL_INIT, sht::PROGBITS),
                    MEMORY,
                    align_of(&variables),
                    Body::Bytes(image(&variables)),
                )
            }
            Key::Shared(number) if module.object.is_some() => Section {
                info: text(number),
                ..self.shared_variables(key, Some(number))
            },
            Key::SharedOfMany => self.shared_variables(key, None),
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
                let variables = chosen(&module.globals, Variable::is_zero);
                let end = variables.iter().map(|one| one.offset + one.size).max();
                new(
                    memory_kind(sht::CUDA_GLOBAL, sht::NOBITS),
                    MEMORY,
                    align_of(&variables),
                    Body::Memory(end.unwrap_or(0)),
                )
            }
            Key::Bank0(number) => {
                let own = module.functions[number].bank_bytes();
                let size = usize::from(self.chip.param_base) + own as usize;
                let kind = memory_kind(sht::CUDA_CONSTANT_B0, sht::PROGBITS);
                Section {
                    info: text(number),
                    ..new(kind, OF_FUNCTION, 4, Body::Bytes(vec![0; size]))
                }
            }
        }
    }

    /// The numbers of textures, samplers and surfaces behind the parameters of a function, the highest offset first.
    fn header_relocations(&self, number: usize) -> Vec<Relocation> {
        let function = &self.module.functions[number];
        let start = u32::from(self.chip.param_base) + function.headers_start();
        let references = &self.module.references;
        let slots = function.headers.iter().enumerate().rev();
        slots
            .filter_map(|(slot, name)| {
                let reference = references.iter().find(|it| it.name == *name)?;
                Some(Relocation {
                    offset: u64::from(start) + u64::from(HEADER_BYTES) * slot as u64,
                    symbol: self.named(name),
                    kind: reference.kind.header_relocation(),
                    addend: 0,
                })
            })
            .collect()
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
    pub(super) fn line_table(
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

    pub(super) fn frame_info(&self) -> (Vec<u8>, Vec<Relocation>) {
        let covered: Vec<Covered<'_>> = self
            .module
            .functions
            .iter()
            .flat_map(|function| {
                let symbol = self.named(&function.name);
                let inner = function.subroutines.iter().map(|inner| inner.offset);
                let own = inner.min().unwrap_or(function.code.len() as u64);
                std::iter::once(Covered {
                    rules: function.frame_rules.as_ref(),
                    symbol,
                    offset: 0,
                    size: own,
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
        if self.module.object.is_some() {
            return (bytes, self.linked_frames(&addresses, &covered));
        }
        let relocations = addresses.iter().zip(&covered).rev();
        let relocations = relocations.map(|(entry, function)| Relocation {
            offset: entry.address,
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

fn chosen(variables: &[Variable], which: impl Fn(&Variable) -> bool) -> Vec<Variable> {
    variables.iter().filter(|it| which(it)).cloned().collect()
}

pub(super) fn align_of(variables: &[Variable]) -> u64 {
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
