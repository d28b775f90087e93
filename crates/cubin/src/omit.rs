//! Leaving one thing out of a cubin, to find out what a driver needs.
//!
//! [`Omission::all`] lists everything that can be left out of a given cubin: each section, each attribute, each symbol, each program
//! header, the entries of each table of relocations, and each field of the file header, of the section headers and of the functions'
//! symbols. A field cannot be absent: leaving it out means zero (PROGBITS for a section's type). [`Omission::apply`] gives the file without that one
//! thing, with every index in it moved as needed, so that nothing else is wrong with it.

use std::fmt;

use crate::elf::{sht, stt};
use crate::model::{Body, Cubin, Name, Section};
use crate::print::attribute_label;
use crate::write::WriteError;
use crate::{attribute::Vocabulary, layout::derive_segments};

/// One thing that can be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Omission {
    /// A field of the file header.
    HeaderField(HeaderField),
    /// A section, with its symbol and its relocations.
    Section(String),
    /// A field of a section header.
    SectionField {
        /// The section.
        section: String,
        /// The field.
        field: SectionField,
    },
    /// All attributes of one kind in a section.
    Attribute {
        /// The section.
        section: String,
        /// The attribute.
        id: u8,
        /// Which names it has.
        vocabulary: Vocabulary,
    },
    /// All relocations of a section of relocations, the section itself being kept.
    Relocations(String),
    /// All entries of the call graph, the section itself being kept.
    Calls(String),
    /// A symbol, by index, with its name.
    Symbol(usize, String),
    /// A field of a symbol, by index, with the symbol's name.
    SymbolField {
        /// The symbol's index.
        symbol: usize,
        /// Its name.
        name: String,
        /// The field.
        field: SymbolField,
    },
    /// A program header, by index.
    Segment(usize),
    /// All program headers.
    AllSegments,
}

/// A field of the file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderField {
    /// Its name in the ELF specification.
    pub name: &'static str,
    offset: usize,
    size: usize,
}

const fn header_field(name: &'static str, offset: usize, size: usize) -> HeaderField {
    HeaderField { name, offset, size }
}

/// The fields of the file header; `e_flags` also byte by byte.
pub const HEADER_FIELDS: &[HeaderField] = &[
    header_field("EI_VERSION", 6, 1),
    header_field("EI_OSABI", 7, 1),
    header_field("EI_ABIVERSION", 8, 1),
    header_field("e_type", 16, 2),
    header_field("e_machine", 18, 2),
    header_field("e_version", 20, 4),
    header_field("e_phoff", 32, 8),
    header_field("e_shoff", 40, 8),
    header_field("e_flags", 48, 4),
    header_field("e_flags byte 0", 48, 1),
    header_field("e_flags byte 1 (sm)", 49, 1),
    header_field("e_flags byte 3", 51, 1),
    header_field("e_ehsize", 52, 2),
    header_field("e_phentsize", 54, 2),
    header_field("e_phnum", 56, 2),
    header_field("e_shentsize", 58, 2),
    header_field("e_shnum", 60, 2),
    header_field("e_shstrndx", 62, 2),
];

/// A field of a section header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionField {
    /// The name.
    Name,
    /// The type: becomes PROGBITS.
    Type,
    /// The flags.
    Flags,
    /// `sh_link`.
    Link,
    /// `sh_info`.
    Info,
    /// The alignment.
    Align,
    /// The size of an entry.
    EntrySize,
}

const SECTION_FIELDS: &[(SectionField, &str)] = &[
    (SectionField::Name, "sh_name"),
    (SectionField::Type, "sh_type"),
    (SectionField::Flags, "sh_flags"),
    (SectionField::Link, "sh_link"),
    (SectionField::Info, "sh_info"),
    (SectionField::Align, "sh_addralign"),
    (SectionField::EntrySize, "sh_entsize"),
];

/// A field of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolField {
    /// Its type: becomes NOTYPE.
    Type,
    /// Its binding: becomes LOCAL.
    Binding,
    /// `st_other`, which says that a function is a kernel.
    Other,
    /// Its size.
    Size,
}

const SYMBOL_FIELDS: &[(SymbolField, &str)] = &[
    (SymbolField::Type, "type"),
    (SymbolField::Binding, "binding"),
    (SymbolField::Other, "st_other"),
    (SymbolField::Size, "st_size"),
];

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Omission::HeaderField(field) => write!(f, "header {}", field.name),
            Omission::Section(name) => write!(f, "section {name}"),
            Omission::SectionField { section, field } => {
                let field = SECTION_FIELDS.iter().find(|(known, _)| known == field);
                write!(f, "{} of section {section}", field.map_or("?", |row| row.1))
            }
            Omission::Attribute {
                section,
                id,
                vocabulary,
            } => write!(
                f,
                "attribute {} of {section}",
                attribute_label(*vocabulary, *id)
            ),
            Omission::Relocations(section) => write!(f, "relocations in {section}"),
            Omission::Calls(section) => write!(f, "entries of {section}"),
            Omission::Symbol(index, name) => write!(f, "symbol {index} {name}"),
            Omission::SymbolField {
                symbol,
                name,
                field,
            } => {
                let field = SYMBOL_FIELDS.iter().find(|(known, _)| known == field);
                let field = field.map_or("?", |row| row.1);
                write!(f, "{field} of symbol {symbol} {name}")
            }
            Omission::Segment(index) => write!(f, "program header {index}"),
            Omission::AllSegments => write!(f, "all program headers"),
        }
    }
}

impl Omission {
    /// Everything that can be left out of `cubin`. Fields that are zero already are not listed.
    pub fn all(cubin: &Cubin) -> Vec<Omission> {
        let mut omissions = Vec::new();
        if let Ok(file) = cubin.write() {
            let there = HEADER_FIELDS.iter().filter(|field| {
                file[field.offset..field.offset + field.size] != [0; 8][..field.size]
            });
            omissions.extend(there.map(|field| Omission::HeaderField(*field)));
        }
        for index in 0..cubin.segments.len() {
            omissions.push(Omission::Segment(index));
        }
        if !cubin.segments.is_empty() {
            omissions.push(Omission::AllSegments);
        }
        for section in cubin.sections.iter().skip(1) {
            of_section(section, &mut omissions);
        }
        for (index, symbol) in cubin.symbols().iter().enumerate().skip(1) {
            let name = cubin.symbol_name(index as u32).unwrap_or_default();
            omissions.push(Omission::Symbol(index, name.to_owned()));
            if symbol.kind != stt::FUNC {
                continue;
            }
            for (field, _) in SYMBOL_FIELDS {
                let there = match field {
                    SymbolField::Type => true,
                    SymbolField::Binding => symbol.binding != 0,
                    SymbolField::Other => symbol.other != 0,
                    SymbolField::Size => symbol.size != 0,
                };
                if there {
                    omissions.push(Omission::SymbolField {
                        symbol: index,
                        name: name.to_owned(),
                        field: *field,
                    });
                }
            }
        }
        omissions
    }

    /// The file of `cubin` without this one thing. What is not there cannot be left out: the file is then that of `cubin`.
    ///
    /// # Errors
    ///
    /// As [`Cubin::write`].
    pub fn apply(&self, cubin: &Cubin) -> Result<Vec<u8>, WriteError> {
        let mut changed = cubin.clone();
        match self {
            Omission::HeaderField(field) => {
                let mut file = cubin.write()?;
                file[field.offset..field.offset + field.size].fill(0);
                return Ok(file);
            }
            Omission::Section(name) => without_section(&mut changed, name)?,
            Omission::SectionField { section, field } => {
                for one in sections_named(&mut changed, section) {
                    match field {
                        SectionField::Name => {
                            one.name = Name {
                                text: String::new(),
                                offset: Some(0),
                            };
                        }
                        SectionField::Type => make_plain(one),
                        SectionField::Flags => one.flags = 0,
                        SectionField::Link => one.link = 0,
                        SectionField::Info => one.info = 0,
                        SectionField::Align => one.align = 0,
                        SectionField::EntrySize => one.entry_size = 0,
                    }
                    if *field == SectionField::Link {
                        // The names stay where they are, though nothing says where that is.
                        pin_symbol_names(cubin, one)?;
                    }
                }
            }
            Omission::Attribute { section, id, .. } => {
                for one in sections_named(&mut changed, section) {
                    if let Body::Info(attributes) | Body::Compat(attributes) = &mut one.body {
                        attributes.retain(|attribute| attribute.id != *id);
                    }
                }
            }
            Omission::Relocations(section) | Omission::Calls(section) => {
                for one in sections_named(&mut changed, section) {
                    match &mut one.body {
                        Body::Relocations(relocations) => relocations.clear(),
                        Body::CallGraph(calls) => calls.clear(),
                        _ => {}
                    }
                }
            }
            Omission::Symbol(index, _) => changed.remove_symbol(*index),
            Omission::SymbolField { symbol, field, .. } => {
                let symbols = changed.symbols_mut().map(Vec::as_mut_slice);
                if let Some(one) = symbols.unwrap_or_default().get_mut(*symbol) {
                    match field {
                        SymbolField::Type => one.kind = stt::NOTYPE,
                        SymbolField::Binding => one.binding = 0,
                        SymbolField::Other => one.other = 0,
                        SymbolField::Size => one.size = 0,
                    }
                }
            }
            Omission::Segment(index) => {
                if *index < changed.segments.len() {
                    changed.segments.remove(*index);
                }
            }
            Omission::AllSegments => changed.segments.clear(),
        }
        changed.write()
    }
}

/// The most zeroes that stand for memory without bytes in the file.
const LARGEST_ZEROES: u64 = 1 << 20;

/// Makes a section one of plain bytes, which are zeroes if it had none.
fn make_plain(section: &mut Section) {
    section.kind = sht::PROGBITS;
    if let Body::Memory(size) = section.body {
        section.body = Body::Bytes(vec![0; size.min(LARGEST_ZEROES) as usize]);
    }
}

fn sections_named<'a>(
    cubin: &'a mut Cubin,
    name: &'a str,
) -> impl Iterator<Item = &'a mut Section> {
    let sections = cubin.sections.iter_mut();
    sections.filter(move |section| section.name.text == name)
}

fn of_section(section: &Section, omissions: &mut Vec<Omission>) {
    let name = &section.name.text;
    omissions.push(Omission::Section(name.clone()));
    for (field, _) in SECTION_FIELDS {
        let there = match field {
            SectionField::Name => !name.is_empty(),
            SectionField::Type => section.kind != sht::PROGBITS,
            SectionField::Flags => section.flags != 0,
            SectionField::Link => section.link != 0,
            SectionField::Info => section.info != 0,
            SectionField::Align => section.align > 1,
            SectionField::EntrySize => section.entry_size != 0,
        };
        if there {
            omissions.push(Omission::SectionField {
                section: name.clone(),
                field: *field,
            });
        }
    }
    let vocabulary = match &section.body {
        Body::Info(_) => Vocabulary::Info,
        Body::Compat(_) => Vocabulary::Compat,
        Body::Relocations(relocations) if !relocations.is_empty() => {
            return omissions.push(Omission::Relocations(name.clone()));
        }
        Body::CallGraph(_) => return omissions.push(Omission::Calls(name.clone())),
        _ => return,
    };
    let mut seen = Vec::new();
    for attribute in section.attributes().unwrap_or_default() {
        if !seen.contains(&attribute.id) {
            seen.push(attribute.id);
            omissions.push(Omission::Attribute {
                section: name.clone(),
                id: attribute.id,
                vocabulary,
            });
        }
    }
}

/// Takes a section out. The program headers, where they were those ptxas would write, become those it would write now.
fn without_section(cubin: &mut Cubin, name: &str) -> Result<(), WriteError> {
    let Some(index) = cubin.section_index(name) else {
        return Ok(());
    };
    let original = cubin.clone();
    if original.section_index(name) == Some(usize::from(cubin.header.section_names)) {
        for section in &mut cubin.sections {
            section.name = Name {
                text: String::new(),
                offset: Some(0),
            };
        }
    }
    for section in &mut cubin.sections {
        if section.link as usize == index {
            pin_symbol_names(&original, section)?;
        }
    }
    let derived = cubin.segments == derive_segments(&cubin.sections);
    cubin.remove_section(index);
    if derived {
        cubin.segments = derive_segments(&cubin.sections);
    }
    Ok(())
}

/// Fixes the offsets of the names of a symbol table that is about to lose its string table.
fn pin_symbol_names(original: &Cubin, section: &mut Section) -> Result<(), WriteError> {
    let Body::Symbols(symbols) = &mut section.body else {
        return Ok(());
    };
    let offsets = original.symbol_name_offsets()?;
    for (symbol, offset) in symbols.iter_mut().zip(offsets) {
        symbol.name.offset = Some(offset);
    }
    Ok(())
}
