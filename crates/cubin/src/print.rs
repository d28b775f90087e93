//! A cubin for people: what `orias elf` prints.
//!
//! First the file and its functions, each with everything that is said about it in one place; then the file's own order: sections,
//! program headers, symbols, and the sections' contents with names in place of numbers. Code is not printed (`orias disasm` does
//! that), data as hexadecimal, the first [`DATA_LINES`] lines unless all is asked for.

use std::fmt::Write;

use crate::attribute::{self, Attribute, Value, Vocabulary};
use crate::elf::{self, pt, stb, stt};
use crate::functions::FunctionView;
use crate::model::{Body, Cubin, Extent, InfoMeaning, Section, Symbol, SymbolPlace, SymbolSpace};
use crate::note::{Note, NoteContent};

/// How many lines of data are printed when not all is asked for.
const DATA_LINES: usize = 8;

/// What to print.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintOptions {
    /// All data of sections that hold data, not just the beginning.
    pub all_data: bool,
}

/// The cubin as text.
pub fn print(cubin: &Cubin, options: PrintOptions) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = Printer {
        out: &mut out,
        cubin,
        options,
    }
    .all();
    out
}

/// The kind of file, in words.
pub(crate) fn kind_name(kind: u16) -> &'static str {
    match kind {
        elf::ET_EXEC => "executable",
        elf::ET_REL => "relocatable object",
        elf::ET_EXTENSIBLE => "extensible whole program",
        _ => "unknown kind",
    }
}

/// What the code was made with, in words.
pub(crate) fn make_name(cubin: &Cubin) -> &'static str {
    let has = |name| cubin.section(name).is_some();
    if has(".nv_debug_info_reg_sass") {
        "debug code"
    } else if has(".rela.debug_line") {
        "with line information of the source"
    } else if has(".nv_debug_line_sass") {
        "with line information"
    } else {
        "ordinary code"
    }
}

pub(crate) fn symbol_kind_name(kind: u8) -> &'static str {
    match kind {
        stt::NOTYPE => "NOTYPE",
        stt::OBJECT => "OBJECT",
        stt::FUNC => "FUNC",
        stt::SECTION => "SECTION",
        stt::CUDA_TEXTURE => "CUDA_TEXTURE",
        stt::CUDA_SURFACE => "CUDA_SURFACE",
        stt::CUDA_SAMPLER => "CUDA_SAMPLER",
        stt::CUDA_OBJECT => "CUDA_OBJECT",
        _ => "?",
    }
}

pub(crate) fn binding_name(binding: u8) -> &'static str {
    match binding {
        stb::LOCAL => "LOCAL",
        stb::GLOBAL => "GLOBAL",
        stb::WEAK => "WEAK",
        _ => "?",
    }
}

/// What `st_other` says, in words.
pub(crate) fn other_names(symbol: &Symbol) -> Vec<String> {
    let mut words = Vec::new();
    let visibility = ["", "internal", "hidden", "protected"];
    match visibility[usize::from(symbol.other & elf::sto::VISIBILITY)] {
        "" => {}
        word => words.push(word.to_owned()),
    }
    if symbol.other & elf::sto::MANAGED != 0 {
        words.push("managed".to_owned());
    }
    if symbol.other & elf::sto::ENTRY != 0 {
        words.push("entry".to_owned());
    }
    match symbol.space() {
        SymbolSpace::None => {}
        SymbolSpace::Global => words.push("global".to_owned()),
        SymbolSpace::Shared => words.push("shared".to_owned()),
        SymbolSpace::Local => words.push("local".to_owned()),
        SymbolSpace::Constant => words.push("constant".to_owned()),
        SymbolSpace::ReservedShared => words.push("reserved shared".to_owned()),
        SymbolSpace::Other(number) => words.push(format!("space {number}")),
    }
    words
}

/// The letters readelf prints for section flags, and the rest as a number.
pub(crate) fn flag_letters(flags: u64) -> String {
    let mut letters = String::new();
    let mut rest = flags;
    for (bit, letter) in [
        (elf::shf::WRITE, 'W'),
        (elf::shf::ALLOC, 'A'),
        (elf::shf::EXECINSTR, 'X'),
        (elf::shf::INFO_LINK, 'I'),
    ] {
        if flags & bit != 0 {
            letters.push(letter);
            rest &= !bit;
        }
    }
    if rest != 0 {
        let _ = write!(letters, "+{rest:#x}");
    }
    letters
}

/// The name of an attribute, or its number.
pub(crate) fn attribute_label(vocabulary: Vocabulary, id: u8) -> String {
    let name = match vocabulary {
        Vocabulary::Info => attribute::attribute_name(id),
        Vocabulary::Compat => attribute::compat_name(id),
    };
    name.map_or_else(|| format!("attribute {id:#04x}"), str::to_owned)
}

/// The longest name that is printed where something refers to it. The table of symbols has every name in full.
const LONGEST_REFERENCE: usize = 1024;

/// The name of a symbol that something refers to: a file can refer to one name many times, so very long ones are cut.
pub(crate) fn shortened_name(cubin: &Cubin, index: u32) -> Option<&str> {
    let name = cubin.symbol_name(index)?;
    let mut end = name.len().min(LONGEST_REFERENCE);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    Some(&name[..end])
}

struct Printer<'a> {
    out: &'a mut String,
    cubin: &'a Cubin,
    options: PrintOptions,
}

impl Printer<'_> {
    fn all(&mut self) -> std::fmt::Result {
        self.header()?;
        let cubin = self.cubin;
        for function in &cubin.functions() {
            self.function(function)?;
        }
        self.sections()?;
        self.segments()?;
        self.symbols()?;
        for (index, section) in cubin.sections.iter().enumerate() {
            self.content(index, section)?;
        }
        self.stray()
    }

    fn header(&mut self) -> std::fmt::Result {
        let header = &self.cubin.header;
        writeln!(
            self.out,
            "cubin for {}: {} (type {}), OS ABI {:#x}, ABI version {}, flags {:#010x} ({})",
            self.cubin.target(),
            kind_name(header.kind),
            header.kind,
            header.os_abi,
            header.abi_version,
            header.flags.0,
            make_name(self.cubin),
        )
    }

    fn symbol_name(&self, index: u32) -> String {
        match shortened_name(self.cubin, index) {
            Some("") => format!("symbol {index}"),
            Some(name) => name.to_owned(),
            None => format!("symbol {index}, which does not exist"),
        }
    }

    /// A prototype, by its place among the names of symbols.
    fn prototype(&self, place: u32) -> String {
        let text = match place {
            0 => "no prototype",
            place => (self.cubin.prototype(place)).unwrap_or("a prototype that is not there"),
        };
        text.to_owned()
    }

    fn function(&mut self, function: &FunctionView<'_>) -> std::fmt::Result {
        let kind = if function.is_entry {
            "kernel"
        } else {
            "function"
        };
        write!(
            self.out,
            "\n{kind} {}: {} bytes of code",
            function.name,
            function.code.len()
        )?;
        if let Some(registers) = function.registers {
            write!(self.out, ", {registers} registers")?;
        }
        if let Some(barriers) = function.barriers {
            let plural = if barriers == 1 { "" } else { "s" };
            write!(self.out, ", {barriers} barrier{plural}")?;
        }
        if let Some(shared) = function.shared_size {
            write!(self.out, ", {shared:#x} bytes of shared memory")?;
        }
        if let Some(frame) = function.frame_size.filter(|size| *size != 0) {
            write!(self.out, ", {frame} bytes of stack")?;
        }
        writeln!(self.out)?;
        if let Some((offset, size)) = function.param_bank {
            writeln!(
                self.out,
                "  parameters: {size} bytes at c[0x0][{offset:#x}]"
            )?;
        }
        for param in &function.params {
            write!(
                self.out,
                "    {}: {} bytes at {:#x}",
                param.ordinal, param.size, param.offset
            )?;
            if param.space != 0 || param.pointee_log_align != 0 {
                write!(
                    self.out,
                    ", points to space {} aligned to {}",
                    param.space,
                    1_u128 << param.pointee_log_align.min(127)
                )?;
            }
            writeln!(self.out)?;
        }
        for (bank, bytes) in &function.banks {
            writeln!(self.out, "  constant bank {bank}: {:#x} bytes", bytes.len())?;
        }
        for (_, inner) in &function.subroutines {
            writeln!(
                self.out,
                "  contains {} at {:#x}, {} bytes",
                inner.name.text, inner.value, inner.size
            )?;
        }
        Ok(())
    }

    fn sections(&mut self) -> std::fmt::Result {
        writeln!(self.out, "\nsections")?;
        writeln!(
            self.out,
            "  {:>4} {:<18} {:>8} {:>8} {:>5} {:>4} {:<12} {:>4} {:>6} name",
            "nr", "type", "offset", "size", "entry", "algn", "flags", "link", "info"
        )?;
        let ranges = self.cubin.section_ranges().unwrap_or_default();
        for (index, section) in self.cubin.sections.iter().enumerate() {
            let kind = elf::section_type_name(section.kind)
                .map_or_else(|| format!("{:#x}", section.kind), str::to_owned);
            let (offset, size) = ranges.get(index).copied().unwrap_or_default();
            writeln!(
                self.out,
                "  {index:>4} {kind:<18} {offset:>8x} {size:>8x} {:>5x} {:>4x} {:<12} {:>4} {:>6x} {}",
                section.entry_size,
                section.align,
                flag_letters(section.flags),
                section.link,
                section.info,
                section.name.text,
            )?;
        }
        Ok(())
    }

    fn segments(&mut self) -> std::fmt::Result {
        if self.cubin.segments.is_empty() {
            return writeln!(self.out, "\nno program headers");
        }
        writeln!(self.out, "\nprogram headers")?;
        for segment in &self.cubin.segments {
            let kind = match segment.kind {
                pt::LOAD => "LOAD".to_owned(),
                pt::PHDR => "PHDR".to_owned(),
                other => format!("{other:#x}"),
            };
            let flags: String = [(pt::FLAG_R, 'R'), (pt::FLAG_W, 'W'), (pt::FLAG_X, 'X')]
                .iter()
                .filter(|(bit, _)| segment.flags & bit != 0)
                .map(|(_, letter)| *letter)
                .collect();
            let extent = match segment.extent {
                Extent::ProgramHeaders => "the program headers".to_owned(),
                Extent::Sections { first, last } if first == last => format!("section {first}"),
                Extent::Sections { first, last } => format!("sections {first} to {last}"),
                Extent::Range {
                    offset,
                    file_size,
                    memory_size,
                } => format!(
                    "offset {offset:#x}, {file_size:#x} bytes in the file, {memory_size:#x} in memory"
                ),
            };
            writeln!(
                self.out,
                "  {kind:<5} {flags:<3} align {:<3} {extent}",
                segment.align
            )?;
        }
        Ok(())
    }

    fn symbols(&mut self) -> std::fmt::Result {
        writeln!(self.out, "\nsymbols")?;
        writeln!(
            self.out,
            "  {:>4} {:>8} {:>8} {:<12} {:<6} {:<8} {:<16} name",
            "nr", "value", "size", "type", "bind", "section", "other"
        )?;
        for (index, symbol) in self.cubin.symbols().iter().enumerate() {
            let place = match symbol.place {
                SymbolPlace::Undefined => "UND".to_owned(),
                SymbolPlace::Section(section) => section.to_string(),
                SymbolPlace::Reserved(number) => format!("{number:#x}"),
            };
            writeln!(
                self.out,
                "  {index:>4} {:>8x} {:>8x} {:<12} {:<6} {place:<8} {:<16} {}",
                symbol.value,
                symbol.size,
                symbol_kind_name(symbol.kind),
                binding_name(symbol.binding),
                other_names(symbol).join(", "),
                symbol.name.text,
            )?;
        }
        Ok(())
    }

    fn content(&mut self, index: usize, section: &Section) -> std::fmt::Result {
        let name = &section.name.text;
        match &section.body {
            // The tables of names and symbols are printed already, memory has no content.
            Body::Memory(_) | Body::Strings(_) | Body::Symbols(_) => Ok(()),
            Body::Bytes(_) if section.is_text() => Ok(()),
            Body::Bytes(bytes) => {
                writeln!(self.out, "\n{name}: {} bytes", bytes.len())?;
                self.data(bytes)
            }
            Body::Info(attributes) => {
                writeln!(self.out, "\n{name}")?;
                self.attributes(attributes, Vocabulary::Info)
            }
            Body::Compat(attributes) => {
                writeln!(self.out, "\n{name}")?;
                self.attributes(attributes, Vocabulary::Compat)
            }
            Body::Relocations(relocations) => {
                let target = match section.info_meaning() {
                    InfoMeaning::Section => self.cubin.sections.get(section.info as usize),
                    _ => None,
                };
                let target = target.map_or("?", |target| target.name.text.as_str());
                writeln!(
                    self.out,
                    "\n{name}: {} relocations of {target}",
                    relocations.len()
                )?;
                for relocation in relocations {
                    let kind = relocation
                        .kind_name()
                        .map_or_else(|| format!("type {:#x}", relocation.kind), str::to_owned);
                    let symbol = self.symbol_name(relocation.symbol);
                    writeln!(
                        self.out,
                        "  {:>8x} {kind:<24} {symbol} {:+#x}",
                        relocation.offset, relocation.addend
                    )?;
                }
                Ok(())
            }
            Body::CallGraph(calls) => {
                writeln!(self.out, "\n{name}")?;
                let mut marker = 0;
                for call in calls {
                    let caller = self.symbol_name(call.caller);
                    match marker {
                        _ if call.caller == 0 && call.callee as i32 <= -1 => {
                            marker = call.callee as i32;
                            writeln!(self.out, "  marker {marker}")?;
                        }
                        -2 => {
                            let prototype = self.prototype(call.callee);
                            writeln!(self.out, "  {caller} has an address: {prototype}")?;
                        }
                        -3 => {
                            let prototype = self.prototype(call.callee);
                            writeln!(self.out, "  {caller} calls pointers: {prototype}")?;
                        }
                        -4 => {
                            let callee = self.symbol_name(call.callee);
                            writeln!(self.out, "  {caller} takes the address of {callee}")?;
                        }
                        _ => {
                            let callee = self.symbol_name(call.callee);
                            writeln!(self.out, "  {caller} calls {callee}")?;
                        }
                    }
                }
                Ok(())
            }
            Body::Prototypes(prototypes) => {
                writeln!(self.out, "\n{name}")?;
                for prototype in prototypes {
                    let function = self.symbol_name(prototype.function);
                    let spelling = self.prototype(prototype.prototype);
                    writeln!(self.out, "  {function}: {spelling}")?;
                }
                Ok(())
            }
            Body::Notes(notes) => {
                writeln!(self.out, "\n{name}")?;
                notes.iter().try_for_each(|note| self.note(note))
            }
        }
        .and_then(|()| match section.placement {
            crate::model::Placement::With(other) => {
                writeln!(
                    self.out,
                    "  section {index} has the bytes of section {other}"
                )
            }
            _ => Ok(()),
        })
    }

    fn note(&mut self, note: &Note) -> std::fmt::Result {
        writeln!(self.out, "  owner {}, type {}", note.owner, note.kind)?;
        match &note.content {
            NoteContent::Tool(tool) => {
                writeln!(self.out, "    tool       {}", tool.name)?;
                writeln!(self.out, "    version    {}", tool.tool_version)?;
                writeln!(self.out, "    branch     {}", tool.branch)?;
                writeln!(self.out, "    arguments  {}", tool.arguments)?;
                writeln!(self.out, "    object     {}", tool.object)
            }
            NoteContent::Cuda(cuda) => {
                writeln!(self.out, "    virtual architecture  sm_{}", cuda.virtual_sm)?;
                writeln!(
                    self.out,
                    "    toolkit               {}.{}",
                    cuda.toolkit / 10,
                    cuda.toolkit % 10
                )
            }
            NoteContent::Raw(bytes) => self.data(bytes),
        }
    }

    fn attributes(&mut self, attributes: &[Attribute], vocabulary: Vocabulary) -> std::fmt::Result {
        for attribute in attributes {
            let label = attribute_label(vocabulary, attribute.id);
            let value = self.value(attribute);
            writeln!(self.out, "  {label:<34} {value}")?;
        }
        Ok(())
    }

    /// What an attribute says, on one line or several indented ones.
    fn value(&self, attribute: &Attribute) -> String {
        let list = |numbers: &[u32]| {
            let numbers: Vec<String> = numbers.iter().map(|one| format!("{one:#x}")).collect();
            numbers.join(" ")
        };
        match &attribute.value {
            Value::Flag(0) => String::new(),
            Value::Flag(value) | Value::Half(value)
                if attribute.id == attribute::id::MERCURY_ISA_VERSION =>
            {
                format!("{}.{}", value >> 8, value & 0xff)
            }
            Value::Flag(value) | Value::Half(value) => format!("{value:#x}"),
            Value::Byte(value, _) => format!("{value:#x}"),
            Value::Words(words) | Value::Offsets(words) => list(words),
            Value::OffsetPairs(pairs) => pairs
                .iter()
                .map(|[offset, value]| format!("{offset:#x}: {value:#x}"))
                .collect::<Vec<_>>()
                .join(", "),
            Value::OffsetTriples(triples) => triples
                .iter()
                .map(|[offset, a, b]| format!("{offset:#x}: {a:#x} {b:#x}"))
                .collect::<Vec<_>>()
                .join(", "),
            Value::FunctionValue { symbol, value } => {
                format!("{}: {value}", self.symbol_name(*symbol))
            }
            Value::Symbols(symbols) => symbols
                .iter()
                .map(|symbol| self.symbol_name(*symbol))
                .collect::<Vec<_>>()
                .join(" "),
            Value::SymbolPairs(pairs) => pairs
                .iter()
                .map(|[a, b]| format!("{} -> {}", self.symbol_name(*a), self.symbol_name(*b)))
                .collect::<Vec<_>>()
                .join(", "),
            Value::Dimensions([x, y, z]) => format!("{x}, {y}, {z}"),
            Value::ParamBank {
                symbol,
                offset,
                size,
            } => format!("{} + {offset:#x}, {size} bytes", self.symbol_name(*symbol)),
            Value::Param(param) | Value::WideParam(param) => format!(
                "parameter {}: offset {:#x}, {} bytes",
                param.ordinal, param.offset, param.size
            ),
            Value::IndirectBranches(branches) => branches
                .iter()
                .map(|branch| {
                    let what = if branch.kind == 0 { "branch" } else { "call" };
                    format!(
                        "{what} at {:#x} to {}",
                        branch.offset,
                        list(&branch.targets)
                    )
                })
                .collect::<Vec<_>>()
                .join("; "),
            Value::Mbarriers(uses) => uses
                .iter()
                .map(|one| {
                    let kind = one.kind_name().unwrap_or("?");
                    format!(
                        "\n      {:#x}: {kind} [R{} + UR{} {:+#x}]",
                        one.offset, one.register, one.uniform_register, one.displacement
                    )
                })
                .collect(),
            Value::Raw(bytes) => {
                let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                bytes.join(" ")
            }
        }
    }

    fn data(&mut self, bytes: &[u8]) -> std::fmt::Result {
        let lines = bytes.chunks(16).enumerate();
        let shown = if self.options.all_data {
            usize::MAX
        } else {
            DATA_LINES
        };
        for (line, chunk) in lines.take(shown) {
            let words: Vec<String> = chunk
                .chunks(4)
                .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect())
                .collect();
            let text: String = chunk
                .iter()
                .map(|byte| match byte {
                    0x20..=0x7e => char::from(*byte),
                    _ => '.',
                })
                .collect();
            writeln!(
                self.out,
                "  {:>8x}  {:<35}  {text}",
                line * 16,
                words.join(" ")
            )?;
        }
        if bytes.len().div_ceil(16) > shown {
            writeln!(self.out, "  …")?;
        }
        Ok(())
    }

    fn stray(&mut self) -> std::fmt::Result {
        let cubin = self.cubin;
        for (offset, bytes) in &cubin.layout.stray {
            writeln!(
                self.out,
                "\n{} bytes at {offset:#x} belong to nothing",
                bytes.len()
            )?;
            self.data(bytes)?;
        }
        Ok(())
    }
}
