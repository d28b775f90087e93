//! Writing the model to bytes.
//!
//! Three steps: names get their offsets in the string tables, missing ones being added at the end; every part gets its place by
//! the rules of [`crate::layout`]; the parts are copied there.

use std::borrow::Cow;

use thiserror::Error;

use crate::attribute;
use crate::bytes::Put;
use crate::elf::{self, sht, size};
use crate::layout::{self, Part};
use crate::model::{Body, Cubin, Extent, Name, Placement, Section, Symbol, SymbolPlace};
use crate::note;
use crate::strings::{Interner, StringTable};

/// Why a model cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// There is no string table for names that need one.
    #[error("section {section} has names, but section {table} is no string table")]
    NoStringTable {
        /// The section with names; `None`, the names of sections.
        section: String,
        /// The index where a string table should be.
        table: usize,
    },
    /// The file header has 16 bits for the number of sections and of program headers.
    #[error("{count} {what}, a file can have {limit}")]
    TooMany {
        /// Sections or program headers.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there can be.
        limit: usize,
    },
    /// An attribute's payload has at most 65,535 bytes.
    #[error("attribute {id:#04x} of {section} is longer than 65,535 bytes")]
    AttributeTooLong {
        /// The section.
        section: String,
        /// The attribute.
        id: u8,
    },
    /// A program header covers sections that do not exist.
    #[error("program header {0} covers sections that do not exist")]
    NoSuchSections(usize),
    /// The file would be too large for this machine.
    #[error("the file would have {0:#x} bytes")]
    TooLarge(u64),
}

/// No cubin comes near this size; a model that asks for more has a placement or size that is wrong.
const MAX_FILE: u64 = 1 << 32;

/// The first section index that ELF reserves.
const FIRST_RESERVED_SECTION: usize = 0xff00;

/// The bytes of a body that refers to no names. The error is the identifier of an attribute that is too long.
pub(crate) fn body_bytes(body: &Body, kind: u32) -> Result<Cow<'_, [u8]>, u8> {
    let mut bytes = Vec::new();
    match body {
        Body::Memory(_) | Body::Symbols(_) => {}
        Body::Bytes(raw) => return Ok(Cow::Borrowed(raw)),
        Body::Strings(table) => return Ok(Cow::Borrowed(table.bytes())),
        Body::Info(attributes) | Body::Compat(attributes) => {
            bytes = attribute::write(attributes)?;
        }
        Body::Relocations(relocations) => {
            for relocation in relocations {
                bytes.put_u64(relocation.offset);
                bytes.put_u64(u64::from(relocation.symbol) << 32 | u64::from(relocation.kind));
                if kind != sht::REL {
                    bytes.put_u64(relocation.addend as u64);
                }
            }
        }
        Body::CallGraph(calls) => {
            for call in calls {
                bytes.put_u32(call.caller);
                bytes.put_u32(call.callee);
            }
        }
        Body::Prototypes(prototypes) => {
            for prototype in prototypes {
                bytes.put_u32(prototype.function);
                bytes.put_u32(prototype.prototype);
            }
        }
        Body::Notes(notes) => bytes = note::write(notes),
    }
    Ok(Cow::Owned(bytes))
}

/// What a model becomes in the file: the bytes of each section, and the offset of its name.
struct Contents<'a> {
    bytes: Vec<Cow<'a, [u8]>>,
    names: Vec<u32>,
}

/// Where everything goes.
struct Places {
    starts: Vec<u64>,
    parts: Vec<Part>,
    section_headers: u64,
    program_headers: u64,
}

fn name_offset(name: &Name, table: &mut Interner) -> u32 {
    name.offset.unwrap_or_else(|| table.intern(&name.text))
}

fn symbol_bytes(symbols: &[Symbol], table: &mut Interner) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(symbols.len() * size::SYMBOL as usize);
    for symbol in symbols {
        bytes.put_u32(name_offset(&symbol.name, table));
        bytes.put_u8(symbol.kind & 0xf | symbol.binding << 4);
        bytes.put_u8(symbol.other);
        bytes.put_u16(match symbol.place {
            SymbolPlace::Undefined => 0,
            SymbolPlace::Section(index) | SymbolPlace::Reserved(index) => index,
        });
        bytes.put_u64(symbol.value);
        bytes.put_u64(symbol.size);
    }
    bytes
}

impl<'a> Contents<'a> {
    fn new(cubin: &'a Cubin) -> Result<Self, WriteError> {
        let mut tables: Vec<Option<Interner>> = cubin
            .sections
            .iter()
            .map(|section| match &section.body {
                Body::Strings(table) => Some(Interner::new(table)),
                _ => None,
            })
            .collect();
        let mut bytes = Vec::with_capacity(cubin.sections.len());
        for section in &cubin.sections {
            bytes.push(match &section.body {
                Body::Symbols(symbols) => {
                    let index = section.link as usize;
                    match tables.get_mut(index) {
                        Some(Some(table)) => Cow::Owned(symbol_bytes(symbols, table)),
                        // Symbols that state where their names are need no table.
                        _ if symbols.iter().all(|symbol| symbol.name.offset.is_some()) => {
                            let mut none = Interner::new(&StringTable::default());
                            Cow::Owned(symbol_bytes(symbols, &mut none))
                        }
                        _ => {
                            return Err(WriteError::NoStringTable {
                                section: section.name.text.clone(),
                                table: index,
                            });
                        }
                    }
                }
                body => {
                    body_bytes(body, section.kind).map_err(|id| WriteError::AttributeTooLong {
                        section: section.name.text.clone(),
                        id,
                    })?
                }
            });
        }
        let names = section_name_offsets(cubin, &mut tables)?;
        for (bytes, table) in bytes.iter_mut().zip(tables) {
            if let Some(table) = table {
                *bytes = Cow::Owned(table.into_bytes());
            }
        }
        Ok(Self { bytes, names })
    }
}

fn section_name_offsets(
    cubin: &Cubin,
    tables: &mut [Option<Interner>],
) -> Result<Vec<u32>, WriteError> {
    let index = usize::from(cubin.header.section_names);
    let mut table = tables.get_mut(index).and_then(Option::as_mut);
    cubin
        .sections
        .iter()
        .map(|section| match &mut table {
            Some(table) => Ok(name_offset(&section.name, table)),
            None if section.name.text.is_empty() => Ok(section.name.offset.unwrap_or(0)),
            None => Err(WriteError::NoStringTable {
                section: section.name.text.clone(),
                table: index,
            }),
        })
        .collect()
}

/// The size a section header states.
fn stated_size(section: &Section, bytes: &[u8]) -> u64 {
    match section.body {
        Body::Memory(size) => size,
        _ => bytes.len() as u64,
    }
}

impl Cubin {
    /// Where each section lies in the file that [`Cubin::write`] gives: its offset and the size its header states.
    ///
    /// # Errors
    ///
    /// As [`Cubin::write`].
    pub fn section_ranges(&self) -> Result<Vec<(u64, u64)>, WriteError> {
        let contents = Contents::new(self)?;
        let places = self.places(&contents);
        let sizes = places.parts.iter().map(|part| part.memory_size);
        Ok(places.starts.iter().copied().zip(sizes).collect())
    }

    /// Where each symbol's name is in its string table.
    pub(crate) fn symbol_name_offsets(&self) -> Result<Vec<u32>, WriteError> {
        let contents = Contents::new(self)?;
        let table = self.symbol_table_index();
        let bytes = table.map_or(&[][..], |index| &contents.bytes[index][..]);
        let records = bytes.as_chunks::<{ size::SYMBOL as usize }>().0;
        Ok(records
            .iter()
            .map(|record| u32::from_le_bytes([record[0], record[1], record[2], record[3]]))
            .collect())
    }

    fn places(&self, contents: &Contents<'_>) -> Places {
        let mut starts = Vec::with_capacity(self.sections.len());
        let mut parts = Vec::with_capacity(self.sections.len());
        let mut end = layout::FIRST_PART;
        for (section, bytes) in self.sections.iter().zip(&contents.bytes) {
            let part = Part {
                file_size: bytes.len() as u64,
                memory_size: stated_size(section, bytes),
                align: section.align,
            };
            parts.push(part);
            if section.kind == sht::NULL && section.placement == Placement::NEXT {
                starts.push(0);
                continue;
            }
            let start = layout::place(end, section.align, section.placement, &starts);
            starts.push(start);
            if !matches!(section.placement, Placement::With(_)) {
                end = start.saturating_add(part.file_size);
            }
        }
        let align = layout::TABLE_ALIGN;
        let section_headers = layout::place(end, align, self.layout.section_headers, &starts);
        let section_headers_end =
            section_headers.saturating_add(self.sections.len() as u64 * size::SECTION_HEADER);
        let none = self.segments.is_empty() && self.layout.program_headers == Placement::NEXT;
        let program_headers = if none {
            0
        } else {
            layout::place(section_headers_end, 1, self.layout.program_headers, &starts)
        };
        Places {
            starts,
            parts,
            section_headers,
            program_headers,
        }
    }

    /// What a program header states: offset, size in the file, size in memory.
    fn segment_range(&self, index: usize, places: &Places) -> Result<(u64, u64, u64), WriteError> {
        let table = self.segments.len() as u64 * size::PROGRAM_HEADER;
        match self.segments[index].extent {
            Extent::ProgramHeaders => Ok((places.program_headers, table, table)),
            Extent::Range {
                offset,
                file_size,
                memory_size,
            } => Ok((offset, file_size, memory_size)),
            Extent::Sections { first, last } => places
                .starts
                .get(first..=last)
                .zip(places.parts.get(first..=last))
                .map(|(starts, parts)| layout::extent_of(starts, parts))
                .ok_or(WriteError::NoSuchSections(index)),
        }
    }

    /// The file.
    ///
    /// # Errors
    ///
    /// Refuses a model that has more sections, longer attributes or other names than a file can hold.
    pub fn write(&self) -> Result<Vec<u8>, WriteError> {
        let limit = |what, count, limit| {
            if count < limit {
                Ok(())
            } else {
                Err(WriteError::TooMany { what, count, limit })
            }
        };
        limit("sections", self.sections.len(), FIRST_RESERVED_SECTION)?;
        limit("program headers", self.segments.len(), 0xffff)?;
        let contents = Contents::new(self)?;
        let places = self.places(&contents);

        let mut file = Image::default();
        let last = places.section_headers.max(places.program_headers);
        let tables = self.sections.len() as u64 * size::SECTION_HEADER
            + self.segments.len() as u64 * size::PROGRAM_HEADER;
        file.expect(last.saturating_add(tables));
        file.put(
            0,
            &self.header_bytes(places.section_headers, places.program_headers),
        )?;
        let sections = places.starts.iter().zip(&contents.bytes);
        for ((start, bytes), section) in sections.zip(&self.sections) {
            if !(bytes.is_empty() || elf::occupies_no_file(section.kind)) {
                file.put(*start, bytes)?;
            }
        }
        let mut table = Vec::new();
        for (index, section) in self.sections.iter().enumerate() {
            table.put_u32(contents.names[index]);
            table.put_u32(section.kind);
            table.put_u64(section.flags);
            table.put_u64(section.address);
            table.put_u64(places.starts[index]);
            table.put_u64(places.parts[index].memory_size);
            table.put_u32(section.link);
            table.put_u32(section.info);
            table.put_u64(section.align);
            table.put_u64(section.entry_size);
        }
        file.put(places.section_headers, &table)?;
        let mut table = Vec::new();
        for (index, segment) in self.segments.iter().enumerate() {
            let (offset, file_size, memory_size) = self.segment_range(index, &places)?;
            table.put_u32(segment.kind);
            table.put_u32(segment.flags);
            table.put_u64(offset);
            table.put_u64(segment.virtual_address);
            table.put_u64(segment.physical_address);
            table.put_u64(file_size);
            table.put_u64(memory_size);
            table.put_u64(segment.align);
        }
        file.put(places.program_headers, &table)?;
        for (offset, bytes) in &self.layout.stray {
            file.put(*offset, bytes)?;
        }
        file.reach(self.layout.minimum_size)?;
        Ok(file.bytes)
    }

    fn header_bytes(&self, section_headers: u64, program_headers: u64) -> Vec<u8> {
        let header = &self.header;
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.put_u8(header.os_abi);
        bytes.put_u8(header.abi_version);
        bytes.extend_from_slice(&header.ident_padding);
        bytes.put_u16(header.kind);
        bytes.put_u16(elf::EM_CUDA);
        bytes.put_u32(header.version);
        bytes.put_u64(header.entry);
        bytes.put_u64(program_headers);
        bytes.put_u64(section_headers);
        bytes.put_u32(header.flags.0);
        bytes.put_u16(size::HEADER as u16);
        bytes.put_u16(if self.segments.is_empty() {
            header.empty_program_header_size
        } else {
            size::PROGRAM_HEADER as u16
        });
        bytes.put_u16(self.segments.len() as u16);
        bytes.put_u16(size::SECTION_HEADER as u16);
        bytes.put_u16(self.sections.len() as u16);
        bytes.put_u16(header.section_names);
        bytes
    }
}

/// The file while it is put together.
#[derive(Default)]
struct Image {
    bytes: Vec<u8>,
}

impl Image {
    /// Makes room for a file that is so long, if it can be.
    fn expect(&mut self, end: u64) {
        if end <= MAX_FILE {
            self.bytes.reserve(end as usize);
        }
    }

    fn reach(&mut self, end: u64) -> Result<(), WriteError> {
        if end > MAX_FILE {
            return Err(WriteError::TooLarge(end));
        }
        let end = usize::try_from(end).map_err(|_| WriteError::TooLarge(end))?;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        Ok(())
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let end = offset.saturating_add(bytes.len() as u64);
        if end <= MAX_FILE && self.bytes.len() as u64 <= offset {
            self.reach(offset)?;
            self.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        self.reach(end)?;
        let start = offset as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
