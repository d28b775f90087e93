//! DWARF that comes with the PTX: `.section .debug_*`.
//!
//! Everything in it is bytes already but for names. Labels of code become addresses in their function, of which the driver knows the rest;
//! variables in global and constant memory become relocations; kernel parameters, shared variables and offsets in other sections
//! are numbers now. A variable in the frame has no address: `DW_OP_addr` of one becomes its distance from the frame's upper end
//! (`DW_OP_fbreg`), and as the size of the expression stays, operations that do nothing. A name that nothing has is zero, as with ptxas.

use orias_codegen::{DebugRecord, LoweredModule, SymbolSpace};
use orias_cubin::build::{Address, DataRelocation, DebugSection};
use orias_cubin::elf::r_cuda;
use orias_mercury::{Code, WORD};
use orias_ori::Function;
use orias_ptx::ast::SectionTerm;
use rustc_hash::FxHashMap;

/// What the names of sections with DWARF start with.
const DEBUG: &str = ".debug_";
/// This one is written with the line tables.
const STRINGS: &str = ".debug_str";
/// This one stands first.
const ABBREVIATIONS: &str = ".debug_abbrev";
const INFO: &str = ".debug_info";

/// These are made with the line tables.
const LINES: [&str; 2] = [".debug_line", STRINGS];

const DW_OP_ADDR: u8 = 0x03;
const DW_OP_FBREG: u8 = 0x91;
const DW_OP_NOP: u8 = 0x96;
/// Bytes of `DW_OP_addr` and its address.
const ADDRESS_EXPRESSION: usize = 9;

/// A section as it comes with the PTX.
#[derive(Debug)]
struct Section {
    name: String,
    bytes: Vec<u8>,
    references: Vec<Reference>,
}

/// A number to be filled in.
#[derive(Debug)]
struct Reference {
    offset: usize,
    size: usize,
    name: String,
    plus: u64,
    minus: Option<String>,
    /// How many bytes of each section precede the module that says so.
    module: usize,
}

/// The sections of all modules, those of one name behind each other.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    list: Vec<Section>,
    /// Labels within sections: the section, and where in it.
    labels: FxHashMap<String, (String, u64)>,
    /// By module: where its part of each section begins.
    starts: Vec<FxHashMap<String, u64>>,
}

impl Sections {
    /// Takes those of a module.
    pub(crate) fn take(&mut self, module: &orias_ptx::Module<'_>) {
        let mut starts = FxHashMap::default();
        for section in &module.sections {
            let name = module.text(section.name).into_owned();
            let number = match self.list.iter().position(|it| it.name == name) {
                Some(number) => number,
                None => {
                    self.list.push(Section {
                        name: name.clone(),
                        bytes: Vec::new(),
                        references: Vec::new(),
                    });
                    self.list.len() - 1
                }
            };
            let list = &mut self.list[number];
            let start = list.bytes.len();
            starts.entry(name.clone()).or_insert(start as u64);
            list.bytes.extend_from_slice(&section.bytes);
            for reference in &section.references {
                let (plus, minus) = match reference.and {
                    SectionTerm::Plus(number) => (number, None),
                    SectionTerm::Minus(name) => (0, Some(module.name(name).to_owned())),
                };
                list.references.push(Reference {
                    offset: start + reference.offset as usize,
                    size: reference.size.into(),
                    name: module.name(reference.name).to_owned(),
                    plus,
                    minus,
                    module: self.starts.len(),
                });
            }
            for &(label, at) in &section.labels {
                let at = start as u64 + u64::from(at);
                self.labels
                    .insert(module.name(label).to_owned(), (name.clone(), at));
            }
        }
        self.starts.push(starts);
    }

    /// What ptxas says of sections that are missing.
    pub(crate) fn remarks(&self) -> Vec<crate::Diagnostic> {
        let has = |name: &str| self.list.iter().any(|section| section.name == name);
        let warning = |name: &str| {
            crate::Diagnostic::new(
                crate::Severity::Warning,
                format!(" {name} section not found"),
            )
        };
        let mut said = Vec::new();
        if !has(ABBREVIATIONS) {
            said.push(warning(ABBREVIATIONS));
            if has(INFO) {
                let what = "skipping .debug_info section due to missing .debug_abbrev section";
                said.push(crate::Diagnostic::new(crate::Severity::Info, what));
            }
        }
        if !has(INFO) {
            said.push(warning(INFO));
        }
        said
    }

    /// The sections with everything filled in, in ptxas's order.
    pub(crate) fn finish(&self, around: &Surroundings<'_>) -> Vec<DebugSection> {
        let has_abbreviations = self.list.iter().any(|it| it.name == ABBREVIATIONS);
        let wanted = |section: &&Section| {
            section.name.starts_with(DEBUG)
                && section.name != STRINGS
                && (has_abbreviations || section.name != INFO)
        };
        let mut order: Vec<&Section> = self.list.iter().filter(wanted).collect();
        order.sort_by_key(|section| section.name != ABBREVIATIONS);
        order
            .into_iter()
            .map(|section| self.filled(section, around))
            .collect()
    }

    fn filled(&self, section: &Section, around: &Surroundings<'_>) -> DebugSection {
        let mut made = DebugSection {
            name: section.name.clone(),
            bytes: section.bytes.clone(),
            relocations: Vec::new(),
        };
        for reference in &section.references {
            let name = reference.name.as_str();
            let place = self.place(reference, name, around);
            if let Some(minus) = &reference.minus {
                let other = self.place(reference, minus, around);
                let number = place.number().wrapping_sub(other.number());
                put(&mut made.bytes, reference, number);
                continue;
            }
            match place {
                Place::Number(number) => {
                    put(
                        &mut made.bytes,
                        reference,
                        number.wrapping_add(reference.plus),
                    );
                }
                Place::Frame(below) => put_frame(&mut made.bytes, reference, below),
                Place::Symbol(symbol, offset, kind) => {
                    let addend = offset.wrapping_add(reference.plus);
                    put(&mut made.bytes, reference, addend);
                    made.relocations.push(DataRelocation {
                        offset: reference.offset as u64,
                        kind: match reference.size {
                            4 => r_cuda::ADDRESS_32,
                            _ => kind,
                        },
                        address: Address {
                            symbol,
                            addend: addend as i64,
                        },
                    });
                }
            }
        }
        made
    }

    fn place(&self, reference: &Reference, name: &str, around: &Surroundings<'_>) -> Place {
        if name.starts_with('.') {
            let starts = self.starts.get(reference.module);
            let start = starts.and_then(|starts| starts.get(name));
            let start = start.copied().unwrap_or(0);
            // A linker puts sections of several files behind each other.
            let section = (self.list.iter()).find(|it| it.name == name && name.starts_with(DEBUG));
            let linked = section.is_some() || LINES.contains(&name);
            return match linked && around.module.links.is_some() {
                true => Place::Symbol(name.to_owned(), start, r_cuda::ADDRESS_64),
                false => Place::Number(start),
            };
        }
        if let Some((_, at)) = self.labels.get(name) {
            return Place::Number(*at);
        }
        around.place(name)
    }
}

/// Where a name is.
enum Place {
    Number(u64),
    /// So many bytes below the upper end of the frame.
    Frame(u64),
    /// At a symbol, so many bytes further on; the relocation of 64 bits.
    Symbol(String, u64, u32),
}

impl Place {
    fn number(&self) -> u64 {
        match self {
            Place::Number(number) | Place::Symbol(_, number, _) => *number,
            Place::Frame(_) => 0,
        }
    }
}

fn put(bytes: &mut [u8], reference: &Reference, number: u64) {
    let number = number.to_le_bytes();
    if let Some(place) = bytes.get_mut(reference.offset..reference.offset + reference.size) {
        place.copy_from_slice(&number[..reference.size]);
    }
}

/// Writes the place of a variable in the frame over its address.
fn put_frame(bytes: &mut [u8], reference: &Reference, below: u64) {
    let end = reference.offset + reference.size;
    let Some(start) = end.checked_sub(ADDRESS_EXPRESSION) else {
        return;
    };
    if bytes.get(start) != Some(&DW_OP_ADDR) || end > bytes.len() {
        return;
    }
    let mut expression = vec![DW_OP_FBREG];
    let mut left = (reference.plus as i64).wrapping_sub(below as i64);
    loop {
        let byte = left as u8 & 0x7f;
        left >>= 7;
        let last = left == 0 && byte & 0x40 == 0 || left == -1 && byte & 0x40 != 0;
        expression.push(if last { byte } else { byte | 0x80 });
        if last {
            break;
        }
    }
    expression.resize(ADDRESS_EXPRESSION, DW_OP_NOP);
    bytes[start..end].copy_from_slice(&expression);
}

/// Where the labels of a function stand in its code.
#[derive(Debug)]
pub(crate) struct Labels {
    /// Lines of the PTX and, from each on, the lowest address of an instruction that comes from there or from further down.
    lines: Vec<(u32, u64)>,
    end: u64,
}

impl Labels {
    pub(crate) fn of(function: &Function, code: &Code) -> Labels {
        let mut lines: Vec<(u32, u64)> = (code.placed.iter().enumerate())
            .filter_map(|(number, placed)| {
                let line = function.locations[placed.span?].ptx;
                (line > 0).then_some((line, (number * WORD) as u64))
            })
            .collect();
        lines.sort_unstable();
        lines.dedup_by_key(|(line, _)| *line);
        let end = code.bytes.len() as u64;
        let mut lowest = end;
        for (_, address) in lines.iter_mut().rev() {
            lowest = lowest.min(*address);
            *address = lowest;
        }
        // What stands before everything stands at the start, whatever was put before the first instruction.
        if let Some((_, address)) = lines.first_mut() {
            *address = 0;
        }
        Labels { lines, end }
    }

    /// The address of a label in that line.
    fn address(&self, line: u32) -> u64 {
        let after = self.lines.partition_point(|&(other, _)| other < line);
        self.lines
            .get(after)
            .map_or(self.end, |(_, address)| *address)
    }
}

/// What names of a module mean.
pub(crate) struct Surroundings<'a> {
    places: FxHashMap<&'a str, PlaceOf>,
    module: &'a LoweredModule,
    /// Bytes of shared memory before a program's own.
    reserved_shared: u64,
}

#[derive(Clone, Debug)]
enum PlaceOf {
    Number(u64),
    Frame(u64),
    Symbol(String, u64),
}

impl<'a> Surroundings<'a> {
    pub(crate) fn new(module: &'a LoweredModule, reserved_shared: u64) -> Self {
        Surroundings {
            places: FxHashMap::default(),
            module,
            reserved_shared,
        }
    }

    /// A function whose code starts `start` bytes behind the symbol.
    pub(crate) fn add_function(
        &mut self,
        symbol: &str,
        start: u64,
        function: &Function,
        code: &Code,
        record: &'a DebugRecord,
    ) {
        let labels = Labels::of(function, code);
        for (name, line) in &record.labels {
            let place = PlaceOf::Symbol(symbol.to_owned(), start + labels.address(*line));
            self.places.entry(name).or_insert(place);
        }
        let frame = u64::from(function.attributes.local);
        for (name, offset) in &record.locals {
            let place = PlaceOf::Frame(frame.wrapping_sub(u64::from(*offset)));
            self.places.entry(name).or_insert(place);
        }
    }

    /// Something whose address is a number.
    pub(crate) fn add_number(&mut self, name: &'a str, number: u64) {
        self.places.entry(name).or_insert(PlaceOf::Number(number));
    }

    /// A function or a kernel.
    pub(crate) fn add_symbol(&mut self, name: &'a str, symbol: &str, offset: u64) {
        let place = PlaceOf::Symbol(symbol.to_owned(), offset);
        self.places.entry(name).or_insert(place);
    }

    fn place(&self, name: &str) -> Place {
        match self.places.get(name) {
            Some(PlaceOf::Number(number)) => return Place::Number(*number),
            Some(PlaceOf::Frame(below)) => return Place::Frame(*below),
            Some(PlaceOf::Symbol(symbol, offset)) => {
                return Place::Symbol(symbol.clone(), *offset, r_cuda::ADDRESS_64);
            }
            None => {}
        }
        match self.module.symbol(name).map(|symbol| symbol.space) {
            Some(SymbolSpace::Global) => Place::Symbol(name.to_owned(), 0, r_cuda::ADDRESS_64),
            Some(SymbolSpace::Const) => Place::Symbol(name.to_owned(), 0, r_cuda::GENERIC_64),
            // Where the linker places them.
            Some(SymbolSpace::Shared) if self.module.links.is_some() => {
                let start = self.reserved_shared;
                Place::Symbol(name.to_owned(), start, r_cuda::ADDRESS_64)
            }
            _ => Place::Number(0),
        }
    }
}
