//! What a cubin is, once it is in memory.
//!
//! The model is the file's structure with meaning in place of offsets: sections in order, each with a decoded body; names as text;
//! symbols, relocations and attributes as values. Offsets in the file are not part of it: [`Cubin::write`] computes them by the
//! rules ptxas follows, and [`Placement`] records the few places where a file follows other rules. So a model can be edited, and a
//! model that was read and not edited is written back byte for byte.

use crate::attribute::Attribute;
use crate::elf::{self, shf, sht, stb, sto, stt};
use crate::note::Note;
use crate::strings::StringTable;

/// A cubin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin {
    /// The fields of the file header that are not derived from the rest.
    pub header: Header,
    /// The sections by index; the first is the null section.
    pub sections: Vec<Section>,
    /// The program headers.
    pub segments: Vec<Segment>,
    /// Where the tables lie in the file.
    pub layout: Layout,
}

/// The fields of the file header that are not derived from the rest of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// `EI_OSABI`.
    pub os_abi: u8,
    /// `EI_ABIVERSION`: 8 for everything ptxas 13 writes.
    pub abi_version: u8,
    /// The unused end of `e_ident`.
    pub ident_padding: [u8; 7],
    /// `e_type`: see [`elf::ET_EXEC`], [`elf::ET_REL`].
    pub kind: u16,
    /// `e_version`.
    pub version: u32,
    /// `e_entry`.
    pub entry: u64,
    /// `e_flags`.
    pub flags: Flags,
    /// `e_shstrndx`: which section holds the sections' names.
    pub section_names: u16,
    /// `e_phentsize` of a file without program headers: 0 in what ptxas writes.
    pub empty_program_header_size: u16,
}

/// `e_flags`: the chip, and how the code was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// The flags ptxas 13 writes for code for `sm`. The highest byte is the number of the section `.note.nv.cuinfo`, the lowest is 4 up
    /// to sm_90 and 2 from sm_100 on.
    pub fn new(sm: u8, cuda_note: u8) -> Self {
        let low = if sm < 100 { 0x04 } else { 0x02 };
        Self(u32::from(cuda_note) << 24 | u32::from(sm) << 8 | low)
    }

    /// The chip: 90 for sm_90 and sm_90a.
    pub fn sm(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The number of the section `.note.nv.cuinfo`.
    pub fn cuda_note(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

/// A name, which lives in a string table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// The text.
    pub text: String,
    /// Where it is in the string table, if that is not the first place where the table has it as a whole.
    pub offset: Option<u32>,
}

impl<T: Into<String>> From<T> for Name {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            offset: None,
        }
    }
}

/// Where a part of the file starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// After the part before it, after so many unused bytes and what alignment adds. ptxas leaves unused bytes in one place:
    /// 14 + Σ (18 + length of the function's name) after `.shstrtab`.
    After {
        /// Unused bytes.
        slack: u64,
    },
    /// At this offset.
    At(u64),
    /// Where this section starts, sharing its bytes: from sm_100 on ptxas gives Mercury's constants to two sections.
    With(usize),
}

impl Placement {
    /// Directly after the part before it.
    pub const NEXT: Placement = Placement::After { slack: 0 };
}

/// Where the tables lie in the file, and what lies between the parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The section headers: after the last section, aligned to 8, in what ptxas writes.
    pub section_headers: Placement,
    /// The program headers: after the section headers in what ptxas writes.
    pub program_headers: Placement,
    /// Bytes that are not zero and belong to nothing.
    pub stray: Vec<(u64, Vec<u8>)>,
    /// The file is at least this long.
    pub minimum_size: u64,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            section_headers: Placement::NEXT,
            program_headers: Placement::NEXT,
            stray: Vec::new(),
            minimum_size: 0,
        }
    }
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: Name,
    /// `sh_type`: see [`elf::sht`].
    pub kind: u32,
    /// `sh_flags`: see [`elf::shf`].
    pub flags: u64,
    /// `sh_addr`: 0 in a cubin.
    pub address: u64,
    /// `sh_link`: a section's index.
    pub link: u32,
    /// `sh_info`; [`Section::info_meaning`] says what it is.
    pub info: u32,
    /// `sh_addralign`.
    pub align: u64,
    /// `sh_entsize`.
    pub entry_size: u64,
    /// Where it starts in the file.
    pub placement: Placement,
    /// What it holds.
    pub body: Body,
}

/// What a section holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Bytes that this crate gives no meaning: code, data, debug information.
    Bytes(Vec<u8>),
    /// So much memory, and nothing in the file.
    Memory(u64),
    /// Names.
    Strings(StringTable),
    /// Symbols.
    Symbols(Vec<Symbol>),
    /// Attributes of `.nv.info` and `.nv.info.<function>`.
    Info(Vec<Attribute>),
    /// Attributes of `.nv.compat`.
    Compat(Vec<Attribute>),
    /// Relocations.
    Relocations(Vec<Relocation>),
    /// Who calls whom.
    CallGraph(Vec<Call>),
    /// Prototypes of functions that are called through pointers.
    Prototypes(Vec<Prototype>),
    /// Notes.
    Notes(Vec<Note>),
}

/// What `sh_info` of a section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoMeaning {
    /// Nothing that points anywhere.
    Number,
    /// The index of a section.
    Section,
    /// The index of a function's symbol in the lower 24 bits; up to sm_89 the function's registers are above them.
    Function,
    /// How many symbols there are: ptxas counts all of them, whatever their binding.
    SymbolCount,
}

impl Section {
    /// A section with nothing special about it.
    pub fn new(name: impl Into<Name>, kind: u32, flags: u64, align: u64, body: Body) -> Self {
        Self {
            name: name.into(),
            kind,
            flags,
            address: 0,
            link: 0,
            info: 0,
            align,
            entry_size: 0,
            placement: Placement::NEXT,
            body,
        }
    }

    /// What `sh_info` is.
    pub fn info_meaning(&self) -> InfoMeaning {
        if self.kind == sht::SYMTAB {
            InfoMeaning::SymbolCount
        } else if self.flags & shf::INFO_LINK != 0 {
            InfoMeaning::Section
        } else if self.flags & shf::EXECINSTR != 0 {
            InfoMeaning::Function
        } else {
            InfoMeaning::Number
        }
    }

    /// Whether it holds code.
    pub fn is_text(&self) -> bool {
        self.flags & shf::EXECINSTR != 0
    }

    /// The function it belongs to, where its name says so: `k` of `.text.k`, `.nv.info.k`, `.nv.constant0.k`, `.nv.shared.k`.
    pub fn function_name(&self) -> Option<&str> {
        let name = self.name.text.as_str();
        [".text.", ".nv.info.", ".nv.shared.", ".nv.local."]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            .or_else(|| {
                let rest = name.strip_prefix(".nv.constant")?;
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                (digits > 0).then(|| rest[digits..].strip_prefix('.'))?
            })
    }

    /// Which constant bank it is, where its name says so.
    pub fn constant_bank(&self) -> Option<u32> {
        let rest = self.name.text.strip_prefix(".nv.constant")?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        matches!(rest.as_bytes().get(digits), None | Some(b'.'))
            .then(|| rest[..digits].parse().ok())?
    }

    /// The bytes of a section that is kept as bytes.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The attributes of a section that holds some.
    pub fn attributes(&self) -> Option<&[Attribute]> {
        match &self.body {
            Body::Info(attributes) | Body::Compat(attributes) => Some(attributes),
            _ => None,
        }
    }
}

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: Name,
    /// The lower four bits of `st_info`: see [`elf::stt`].
    pub kind: u8,
    /// The upper four bits of `st_info`: see [`elf::stb`].
    pub binding: u8,
    /// `st_other`: see [`elf::sto`].
    pub other: u8,
    /// Where it lies.
    pub place: SymbolPlace,
    /// `st_value`: offset in its section.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
}

/// Where a symbol lies: `st_shndx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolPlace {
    /// Elsewhere.
    Undefined,
    /// In this section.
    Section(u16),
    /// One of the reserved numbers from 0xff00 on.
    Reserved(u16),
}

/// The memory a variable lies in, as `st_other` says it in relocatable objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolSpace {
    /// Not said.
    None,
    /// Global memory.
    Global,
    /// Shared memory.
    Shared,
    /// Local memory.
    Local,
    /// A constant bank.
    Constant,
    /// Shared memory that the system keeps for itself.
    ReservedShared,
    /// A number without a known meaning.
    Other(u8),
}

impl Symbol {
    /// The first symbol of every table, which means none.
    pub fn null() -> Self {
        Self {
            name: "".into(),
            kind: stt::NOTYPE,
            binding: stb::LOCAL,
            other: 0,
            place: SymbolPlace::Undefined,
            value: 0,
            size: 0,
        }
    }

    /// The symbol of a section, as every cubin has for most of its sections.
    pub fn for_section(name: impl Into<Name>, section: u16) -> Self {
        Self {
            name: name.into(),
            kind: stt::SECTION,
            binding: stb::LOCAL,
            other: 0,
            place: SymbolPlace::Section(section),
            value: 0,
            size: 0,
        }
    }

    /// Whether it is a kernel.
    pub fn is_entry(&self) -> bool {
        self.kind == stt::FUNC && self.other & sto::ENTRY != 0
    }

    /// The memory `st_other` says it lies in.
    pub fn space(&self) -> SymbolSpace {
        match self.other >> 5 {
            0 => SymbolSpace::None,
            1 => SymbolSpace::Global,
            2 => SymbolSpace::Shared,
            3 => SymbolSpace::Local,
            4 => SymbolSpace::Constant,
            5 => SymbolSpace::ReservedShared,
            other => SymbolSpace::Other(other),
        }
    }
}

/// A relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Offset of the instruction or datum in the section that `sh_info` names.
    pub offset: u64,
    /// Index of the symbol.
    pub symbol: u32,
    /// What is written there: see [`elf::RELOCATION_TYPES`].
    pub kind: u32,
    /// What is added; always 0 in a section of type REL, which has no addends.
    pub addend: i64,
}

impl Relocation {
    /// The name of its type.
    pub fn kind_name(&self) -> Option<&'static str> {
        elf::relocation_type_name(self.kind)
    }
}

/// One entry of `.nv.callgraph`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index of the caller's symbol; 0 in the entries that are not calls.
    pub caller: u32,
    /// Index of the callee's symbol; -1 to -4 in the four entries every call graph has, which are not calls.
    pub callee: u32,
}

/// One entry of `.nv.prototype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// Index of the function's symbol.
    pub function: u32,
    /// Where `.strtab` spells the prototype.
    pub prototype: u32,
}

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `p_type`: see [`elf::pt`].
    pub kind: u32,
    /// `p_flags`: see [`elf::pt`].
    pub flags: u32,
    /// `p_vaddr`: 0 in a cubin.
    pub virtual_address: u64,
    /// `p_paddr`: 0 in a cubin.
    pub physical_address: u64,
    /// `p_align`: 8 in a cubin.
    pub align: u64,
    /// What it covers.
    pub extent: Extent,
}

/// What a program header covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The program headers.
    ProgramHeaders,
    /// Sections, by index, the last one included.
    Sections {
        /// The first.
        first: usize,
        /// The last.
        last: usize,
    },
    /// Something else.
    Range {
        /// `p_offset`.
        offset: u64,
        /// `p_filesz`.
        file_size: u64,
        /// `p_memsz`.
        memory_size: u64,
    },
}

impl Cubin {
    /// The index of the section with this name.
    pub fn section_index(&self, name: &str) -> Option<usize> {
        self.sections
            .iter()
            .position(|section| section.name.text == name)
    }

    /// The section with this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections
            .iter()
            .find(|section| section.name.text == name)
    }

    /// The index of the symbol table's section. (From sm_100 on a cubin has a second one, of another type, for Mercury.)
    pub fn symbol_table_index(&self) -> Option<usize> {
        self.sections
            .iter()
            .position(|section| matches!(section.body, Body::Symbols(_)))
    }

    /// The symbols.
    pub fn symbols(&self) -> &[Symbol] {
        self.sections
            .iter()
            .find_map(|section| match &section.body {
                Body::Symbols(symbols) => Some(symbols.as_slice()),
                _ => None,
            })
            .unwrap_or(&[])
    }

    /// What stands at a place among the names of symbols: `.nv.prototype` and `.nv.callgraph` name prototypes so.
    pub fn prototype(&self, place: u32) -> Option<&str> {
        let table = |section: &Section| match &section.body {
            Body::Symbols(_) => Some(section.link as usize),
            _ => None,
        };
        let table = self.sections.iter().find_map(table)?;
        match &self.sections.get(table)?.body {
            Body::Strings(names) => names.get(place, 0).ok(),
            _ => None,
        }
    }

    /// The symbols, to be changed.
    pub fn symbols_mut(&mut self) -> Option<&mut Vec<Symbol>> {
        self.sections
            .iter_mut()
            .find_map(|section| match &mut section.body {
                Body::Symbols(symbols) => Some(symbols),
                _ => None,
            })
    }

    /// The name of a symbol; of its section, if it is a section's symbol without a name of its own.
    pub fn symbol_name(&self, index: u32) -> Option<&str> {
        let symbol = self.symbols().get(index as usize)?;
        match symbol.place {
            SymbolPlace::Section(section) if symbol.name.text.is_empty() => self
                .sections
                .get(usize::from(section))
                .map(|section| section.name.text.as_str()),
            _ => Some(&symbol.name.text),
        }
    }

    /// Whether the code is for an architecture-specific target such as sm_90a, as `.nv.compat` says.
    pub fn is_accelerated(&self) -> bool {
        self.sections.iter().any(|section| {
            matches!(&section.body, Body::Compat(attributes) if attributes.iter().any(|attribute| {
                attribute.id == crate::attribute::compat::CUDA_ACCELERATOR_TARGET
                    && matches!(attribute.value, crate::attribute::Value::Byte(1, _))
            }))
        })
    }

    /// The target, in ptxas's words: `sm_90a`.
    pub fn target(&self) -> String {
        let suffix = if self.is_accelerated() { "a" } else { "" };
        format!("sm_{}{suffix}", self.header.flags.sm())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_ptxas() {
        assert_eq!(Flags::new(90, 6).0, 0x0600_5a04);
        assert_eq!(Flags::new(75, 6).0, 0x0600_4b04);
        assert_eq!(Flags::new(120, 6).0, 0x0600_7802);
        assert_eq!(Flags(0x0b00_5a04).sm(), 90);
        assert_eq!(Flags(0x0b00_5a04).cuda_note(), 11);
    }

    #[test]
    fn section_names_say_their_function_and_bank() {
        let section = |name: &str| Section::new(name, sht::PROGBITS, 0, 1, Body::Bytes(Vec::new()));
        assert_eq!(section(".text.k").function_name(), Some("k"));
        assert_eq!(section(".nv.constant0.a.b").function_name(), Some("a.b"));
        assert_eq!(section(".nv.constant0.k").constant_bank(), Some(0));
        assert_eq!(section(".nv.constant3").constant_bank(), Some(3));
        assert_eq!(section(".nv.constant3").function_name(), None);
        assert_eq!(section(".nv.constant.pic").constant_bank(), None);
        assert_eq!(section(".nv.info").function_name(), None);
    }
}
