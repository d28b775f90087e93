//! Reading a file into the model.
//!
//! Everything the file says about itself is checked before it is used: ranges lie inside the file and do not overlap, tables
//! consist of whole entries, indices that are followed exist. So the memory a model takes is in proportion to the file, whatever
//! the file claims. A body that is well-formed but not spelled the way [`Cubin::write`] spells it is kept as bytes.

use std::collections::BTreeMap;

use crate::attribute::{self, Vocabulary};
use crate::bytes::Cursor;
use crate::elf::{self, sht, size};
use crate::error::{Error, ErrorKind, Result};
use crate::layout::{self, Part};
use crate::model::{
    Body, Call, Cubin, Extent, Flags, Header, Layout, Name, Placement, Prototype, Relocation,
    Section, Segment, Symbol, SymbolPlace,
};
use crate::note;
use crate::strings::{Interner, StringTable};
use crate::write::body_bytes;

/// The file header as it stands in the file.
struct FileHeader {
    header: Header,
    program_headers: u64,
    section_headers: u64,
    segment_count: u16,
    section_count: u16,
}

/// A section header as it stands in the file.
#[derive(Clone, Copy)]
struct SectionHeader {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    align: u64,
    entry_size: u64,
}

impl SectionHeader {
    fn file_size(&self) -> u64 {
        layout::file_size(self.kind, self.size)
    }
}

/// A program header as it stands in the file.
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    virtual_address: u64,
    physical_address: u64,
    file_size: u64,
    memory_size: u64,
    align: u64,
}

impl Cubin {
    /// Reads a cubin.
    ///
    /// # Errors
    ///
    /// Says what is wrong and where if `file` is no cubin, is cut off or contradicts itself.
    pub fn read(file: &[u8]) -> Result<Self> {
        let top = file_header(file)?;
        let headers = section_headers(file, &top)?;
        let program_headers = program_headers(file, &top)?;
        let coverage = coverage(file, &top, &headers)?;

        let mut names = Names::new(file, &headers);
        let mut sections = Vec::with_capacity(headers.len());
        let name_table = names.table(usize::from(top.header.section_names));
        for (index, header) in headers.iter().enumerate() {
            let header_at = top.section_headers + index as u64 * size::SECTION_HEADER;
            let name = match &name_table {
                Some(table) => names
                    .get(table, header.name)
                    .map_err(|error| error.within(index, ""))?,
                // Without names every section has the empty one, at whatever offset the header states.
                None => Name {
                    text: String::new(),
                    offset: (header.name != 0).then_some(header.name),
                },
            };
            if header.align > 1 && !header.align.is_power_of_two() {
                return Err(Error::at(header_at, ErrorKind::BadAlignment(header.align))
                    .within(index, &name.text));
            }
            let body = body(file, &headers, header, &mut names)
                .map_err(|error| error.within(index, &name.text))?;
            sections.push(Section {
                name,
                kind: header.kind,
                flags: header.flags,
                address: header.address,
                link: header.link,
                info: header.info,
                align: header.align,
                entry_size: header.entry_size,
                placement: Placement::NEXT,
                body,
            });
        }

        let mut end = layout::FIRST_PART;
        for (index, (section, header)) in sections.iter_mut().zip(&headers).enumerate() {
            if let Some(&first) = coverage.sharing.get(&index) {
                section.placement = Placement::With(first);
                continue;
            }
            if header.kind == sht::NULL && header.offset == 0 {
                continue;
            }
            section.placement = if header.kind == sht::NULL {
                Placement::At(header.offset)
            } else {
                layout::placement(end, header.align, header.offset)
            };
            // Saturates only for a section that is not in the file.
            end = header.offset.saturating_add(header.file_size());
        }
        let section_headers = layout::placement(end, layout::TABLE_ALIGN, top.section_headers);
        let tables_end = top.section_headers + u64::from(top.section_count) * size::SECTION_HEADER;
        // A place that is stated for no program headers at all is kept as it is.
        let program_headers_place = match (top.segment_count, top.program_headers) {
            (0, 0) => Placement::NEXT,
            (0, offset) => Placement::At(offset),
            (_, offset) => layout::placement(tables_end, 1, offset),
        };
        let segments = segments(&sections, &headers, &top, &program_headers);
        Ok(Cubin {
            header: top.header,
            sections,
            segments,
            layout: Layout {
                section_headers,
                program_headers: program_headers_place,
                stray: stray(file, &coverage.ranges),
                minimum_size: if coverage
                    .ranges
                    .last()
                    .is_some_and(|last| last.1 == file.len() as u64)
                {
                    0
                } else {
                    file.len() as u64
                },
            },
        })
    }
}

fn file_header(file: &[u8]) -> Result<FileHeader> {
    const WHAT: &str = "the file header";
    if !file.starts_with(b"\x7fELF") {
        return Err(Error::at(0, ErrorKind::NotElf));
    }
    let mut cursor = Cursor::new(file, 0);
    let expect = |at: u64, field, found: u64, expected: u64| {
        if found == expected {
            Ok(())
        } else {
            let kind = ErrorKind::Unexpected {
                field,
                found,
                expected,
            };
            Err(Error::at(at, kind))
        }
    };
    let ident: [u8; 16] = cursor.array(WHAT)?;
    expect(4, "EI_CLASS", ident[4].into(), 2)?;
    expect(5, "EI_DATA", ident[5].into(), 1)?;
    expect(6, "EI_VERSION", ident[6].into(), 1)?;
    let mut ident_padding = [0; 7];
    ident_padding.copy_from_slice(&ident[9..]);
    let kind = cursor.u16(WHAT)?;
    let machine = cursor.u16(WHAT)?;
    expect(18, "e_machine", machine.into(), elf::EM_CUDA.into())?;
    let version = cursor.u32(WHAT)?;
    let entry = cursor.u64(WHAT)?;
    let program_headers = cursor.u64(WHAT)?;
    let section_headers = cursor.u64(WHAT)?;
    let flags = cursor.u32(WHAT)?;
    expect(52, "e_ehsize", cursor.u16(WHAT)?.into(), size::HEADER)?;
    let program_header_size = cursor.u16(WHAT)?;
    let segment_count = cursor.u16(WHAT)?;
    if segment_count > 0 {
        expect(
            54,
            "e_phentsize",
            program_header_size.into(),
            size::PROGRAM_HEADER,
        )?;
    }
    expect(
        58,
        "e_shentsize",
        cursor.u16(WHAT)?.into(),
        size::SECTION_HEADER,
    )?;
    let section_count = cursor.u16(WHAT)?;
    let section_names = cursor.u16(WHAT)?;
    if section_count == 0 && section_headers != 0 {
        return Err(Error::at(
            60,
            ErrorKind::Unsupported("more than 65,279 sections (e_shnum is 0)"),
        ));
    }
    Ok(FileHeader {
        header: Header {
            os_abi: ident[7],
            abi_version: ident[8],
            ident_padding,
            kind,
            version,
            entry,
            flags: Flags(flags),
            section_names,
            empty_program_header_size: if segment_count == 0 {
                program_header_size
            } else {
                0
            },
        },
        program_headers,
        section_headers,
        segment_count,
        section_count,
    })
}

/// The bytes of a part of the file.
fn range<'a>(file: &'a [u8], what: &'static str, start: u64, size: u64) -> Result<&'a [u8]> {
    usize::try_from(start)
        .ok()
        .zip(usize::try_from(size).ok())
        .and_then(|(start, size)| file.get(start..start.checked_add(size)?))
        .ok_or_else(|| {
            let kind = ErrorKind::OutOfFile {
                what,
                start,
                size,
                file_size: file.len() as u64,
            };
            Error::at(start, kind)
        })
}

/// The `count` entries of `size` bytes of the table at `start`.
fn table<T>(
    file: &[u8],
    what: &'static str,
    (start, count, size): (u64, u16, u64),
    entry: impl Fn(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let bytes = range(file, what, start, u64::from(count) * size)?;
    let mut cursor = Cursor::new(bytes, start);
    (0..count).map(|_| entry(&mut cursor)).collect()
}

fn section_headers(file: &[u8], top: &FileHeader) -> Result<Vec<SectionHeader>> {
    const WHAT: &str = "the table of section headers";
    let place = (top.section_headers, top.section_count, size::SECTION_HEADER);
    table(file, WHAT, place, |cursor| {
        Ok(SectionHeader {
            name: cursor.u32(WHAT)?,
            kind: cursor.u32(WHAT)?,
            flags: cursor.u64(WHAT)?,
            address: cursor.u64(WHAT)?,
            offset: cursor.u64(WHAT)?,
            size: cursor.u64(WHAT)?,
            link: cursor.u32(WHAT)?,
            info: cursor.u32(WHAT)?,
            align: cursor.u64(WHAT)?,
            entry_size: cursor.u64(WHAT)?,
        })
    })
}

fn program_headers(file: &[u8], top: &FileHeader) -> Result<Vec<ProgramHeader>> {
    const WHAT: &str = "the table of program headers";
    let place = (top.program_headers, top.segment_count, size::PROGRAM_HEADER);
    table(file, WHAT, place, |cursor| {
        Ok(ProgramHeader {
            kind: cursor.u32(WHAT)?,
            flags: cursor.u32(WHAT)?,
            offset: cursor.u64(WHAT)?,
            virtual_address: cursor.u64(WHAT)?,
            physical_address: cursor.u64(WHAT)?,
            file_size: cursor.u64(WHAT)?,
            memory_size: cursor.u64(WHAT)?,
            align: cursor.u64(WHAT)?,
        })
    })
}

/// Which bytes of the file belong to something.
struct Coverage {
    /// The ranges that do, in order and without overlap.
    ranges: Vec<(u64, u64)>,
    /// Sections that share their bytes with another one.
    sharing: BTreeMap<usize, usize>,
}

/// Finds which bytes of the file belong to something.
///
/// Ranges lie in the file. They do not overlap, except that two sections may have exactly the same bytes; no three do, so that the
/// sections together are at most twice as long as the file.
fn coverage(file: &[u8], top: &FileHeader, headers: &[SectionHeader]) -> Result<Coverage> {
    let mut ranges = vec![(0, size::HEADER, None)];
    ranges.push((
        top.section_headers,
        top.section_headers + u64::from(top.section_count) * size::SECTION_HEADER,
        None,
    ));
    ranges.push((
        top.program_headers,
        top.program_headers + u64::from(top.segment_count) * size::PROGRAM_HEADER,
        None,
    ));
    for (index, header) in headers.iter().enumerate() {
        let size = header.file_size();
        range(file, "the section", header.offset, size).map_err(|error| error.within(index, ""))?;
        ranges.push((header.offset, header.offset + size, Some(index)));
    }
    ranges.retain(|(start, end, _)| start < end);
    ranges.sort_unstable();
    let mut covered: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    let mut sharing = BTreeMap::new();
    let mut last = None;
    for (start, end, index) in ranges {
        if covered.last().is_none_or(|before| before.1 <= start) {
            covered.push((start, end));
            last = index;
            continue;
        }
        match (last.take(), index) {
            (Some(first), Some(index)) if covered.last() == Some(&(start, end)) => {
                sharing.insert(index, first);
            }
            (first, index) => {
                let kind = ErrorKind::Unsupported("parts of the file that overlap");
                let error = Error::at(start, kind);
                return Err(match index.or(first) {
                    Some(index) => error.within(index, ""),
                    None => error,
                });
            }
        }
    }
    Ok(Coverage {
        ranges: covered,
        sharing,
    })
}

/// What lies between the ranges and is not zero.
fn stray(file: &[u8], covered: &[(u64, u64)]) -> Vec<(u64, Vec<u8>)> {
    let mut stray = Vec::new();
    let mut at = 0;
    for &(start, end) in covered
        .iter()
        .chain([&(file.len() as u64, file.len() as u64)])
    {
        let gap = &file[at as usize..(start as usize).max(at as usize)];
        if gap.iter().any(|byte| *byte != 0) {
            stray.push((at, gap.to_vec()));
        }
        at = at.max(end);
    }
    stray
}

/// Looks names up in string tables.
///
/// Names may overlap in a table, so a small file could spell many long names; their total length is limited.
struct Names<'a> {
    file: &'a [u8],
    headers: &'a [SectionHeader],
    budget: usize,
}

/// A string table with its place in the file.
struct NameTable {
    base: u64,
    table: StringTable,
    places: Interner,
}

impl<'a> Names<'a> {
    fn new(file: &'a [u8], headers: &'a [SectionHeader]) -> Self {
        Self {
            file,
            headers,
            budget: file.len().saturating_mul(4).saturating_add(1 << 16),
        }
    }

    /// The string table at this index; `None` if there is none.
    fn table(&self, index: usize) -> Option<NameTable> {
        let header = self.headers.get(index)?;
        if header.kind != sht::STRTAB {
            return None;
        }
        let bytes = range(self.file, "the section", header.offset, header.size).ok()?;
        let table = StringTable::from_bytes(bytes.to_vec());
        Some(NameTable {
            base: header.offset,
            places: Interner::new(&table),
            table,
        })
    }

    fn get(&mut self, table: &NameTable, offset: u32) -> Result<Name> {
        let text = table.table.get(offset, table.base)?;
        self.budget = self.budget.checked_sub(text.len()).ok_or_else(|| {
            Error::at(
                table.base + u64::from(offset),
                ErrorKind::Unsupported("names that share most of their bytes"),
            )
        })?;
        Ok(Name {
            text: text.to_owned(),
            offset: (table.places.find(text) != Some(offset)).then_some(offset),
        })
    }
}

/// The number of entries in a table.
fn whole_entries(header: &SectionHeader, what: &'static str, entry: u64) -> Result<()> {
    if header.size.is_multiple_of(entry) {
        Ok(())
    } else {
        let kind = ErrorKind::PartialEntry {
            what,
            size: header.size,
            entry,
        };
        Err(Error::at(header.offset, kind))
    }
}

fn body(
    file: &[u8],
    headers: &[SectionHeader],
    header: &SectionHeader,
    names: &mut Names<'_>,
) -> Result<Body> {
    if header.kind == sht::NULL || elf::occupies_no_file(header.kind) {
        return Ok(Body::Memory(header.size));
    }
    let bytes = range(file, "the section", header.offset, header.size)?;
    let cursor = Cursor::new(bytes, header.offset);
    let body = match header.kind {
        sht::STRTAB => Body::Strings(StringTable::from_bytes(bytes.to_vec())),
        sht::SYMTAB => Body::Symbols(symbols(headers, header, cursor, names)?),
        sht::RELA | sht::REL => relocations(header, cursor)?,
        sht::NOTE => Body::Notes(note::read(cursor)?),
        sht::CUDA_INFO => Body::Info(attribute::read(cursor, Vocabulary::Info)?),
        sht::CUDA_COMPAT_INFO => Body::Compat(attribute::read(cursor, Vocabulary::Compat)?),
        sht::CUDA_CALLGRAPH => Body::CallGraph(
            pairs(header, "the call graph", cursor)?
                .into_iter()
                .map(|(caller, callee)| Call { caller, callee })
                .collect(),
        ),
        sht::CUDA_PROTOTYPE => Body::Prototypes(
            pairs(header, "the table of prototypes", cursor)?
                .into_iter()
                .map(|(function, prototype)| Prototype {
                    function,
                    prototype,
                })
                .collect(),
        ),
        _ => Body::Bytes(bytes.to_vec()),
    };
    // Names are checked apart, as the writer places them.
    let same = matches!(body, Body::Symbols(_))
        || body_bytes(&body, header.kind).is_ok_and(|spelled| spelled == bytes);
    Ok(if same {
        body
    } else {
        Body::Bytes(bytes.to_vec())
    })
}

fn symbols(
    headers: &[SectionHeader],
    header: &SectionHeader,
    mut cursor: Cursor<'_>,
    names: &mut Names<'_>,
) -> Result<Vec<Symbol>> {
    const WHAT: &str = "a symbol";
    whole_entries(header, "the symbol table", size::SYMBOL)?;
    let table = names.table(header.link as usize).ok_or_else(|| {
        let kind = ErrorKind::NoSuch {
            what: "string table",
            index: header.link.into(),
            count: headers.len() as u64,
        };
        Error::at(header.offset, kind)
    })?;
    let mut symbols = Vec::with_capacity(cursor.left() / size::SYMBOL as usize);
    while !cursor.is_empty() {
        let at = cursor.offset();
        let name = cursor.u32(WHAT)?;
        let info = cursor.u8(WHAT)?;
        let other = cursor.u8(WHAT)?;
        let place = match cursor.u16(WHAT)? {
            0 => SymbolPlace::Undefined,
            reserved @ 0xff00.. => SymbolPlace::Reserved(reserved),
            section if usize::from(section) < headers.len() => SymbolPlace::Section(section),
            section => {
                let kind = ErrorKind::NoSuch {
                    what: "section",
                    index: section.into(),
                    count: headers.len() as u64,
                };
                return Err(Error::at(at, kind));
            }
        };
        symbols.push(Symbol {
            name: names.get(&table, name)?,
            kind: info & 0xf,
            binding: info >> 4,
            other,
            place,
            value: cursor.u64(WHAT)?,
            size: cursor.u64(WHAT)?,
        });
    }
    Ok(symbols)
}

fn relocations(header: &SectionHeader, mut cursor: Cursor<'_>) -> Result<Body> {
    const WHAT: &str = "a relocation";
    let addends = header.kind == sht::RELA;
    let entry = if addends { size::RELA } else { size::REL };
    whole_entries(header, "the relocation table", entry)?;
    let mut relocations = Vec::with_capacity(cursor.left() / entry as usize);
    while !cursor.is_empty() {
        let offset = cursor.u64(WHAT)?;
        let info = cursor.u64(WHAT)?;
        let addend = if addends { cursor.u64(WHAT)? as i64 } else { 0 };
        relocations.push(Relocation {
            offset,
            symbol: (info >> 32) as u32,
            kind: info as u32,
            addend,
        });
    }
    Ok(Body::Relocations(relocations))
}

fn pairs(
    header: &SectionHeader,
    what: &'static str,
    mut cursor: Cursor<'_>,
) -> Result<Vec<(u32, u32)>> {
    whole_entries(header, what, 8)?;
    let mut pairs = Vec::with_capacity(cursor.left() / 8);
    while !cursor.is_empty() {
        pairs.push((cursor.u32(what)?, cursor.u32(what)?));
    }
    Ok(pairs)
}

fn segments(
    sections: &[Section],
    headers: &[SectionHeader],
    top: &FileHeader,
    program_headers: &[ProgramHeader],
) -> Vec<Segment> {
    let starts: Vec<u64> = headers.iter().map(|header| header.offset).collect();
    let parts: Vec<Part> = headers
        .iter()
        .map(|header| Part {
            file_size: header.file_size(),
            memory_size: header.size,
            align: header.align,
        })
        .collect();
    let mut runs: Vec<((u64, u64, u64), usize, usize)> = layout::runs(sections)
        .into_iter()
        .map(|(first, last, _)| {
            let extent = layout::extent_of(&starts[first..=last], &parts[first..=last]);
            (extent, first, last)
        })
        .collect();
    runs.sort_unstable();
    let table_size = u64::from(top.segment_count) * size::PROGRAM_HEADER;
    program_headers
        .iter()
        .map(|header| {
            let range = (header.offset, header.file_size, header.memory_size);
            let extent = if range == (top.program_headers, table_size, table_size) {
                Extent::ProgramHeaders
            } else {
                let found = runs.partition_point(|run| run.0 < range);
                match runs.get(found) {
                    Some(&(extent, first, last)) if extent == range => {
                        Extent::Sections { first, last }
                    }
                    _ => Extent::Range {
                        offset: header.offset,
                        file_size: header.file_size,
                        memory_size: header.memory_size,
                    },
                }
            };
            Segment {
                kind: header.kind,
                flags: header.flags,
                virtual_address: header.virtual_address,
                physical_address: header.physical_address,
                align: header.align,
                extent,
            }
        })
        .collect()
}
