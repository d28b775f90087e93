//! Making a cubin of our own from code and what is to be known about it.
//!
//! [`CubinContents`] is what an assembler knows when it is done: for each function its code, registers, barriers, parameters, memory and
//! the places of special instructions; for the module its variables. [`CubinContents::build`] lays this out as ptxas 13 does for a file
//! that the driver loads:
//!
//! 1. decide which sections there are, in ptxas's order (`Key`);
//! 2. decide which symbols there are, in ptxas's order (`SymbolKey`);
//! 3. make each section's body, now that every index is known.
//!
//! ```
//! use orias_cubin::build::{Chip, Entry, Function, CubinContents, Param};
//!
//! let chip = Chip { sm: 90, accelerated: true, virtual_sm: 90, param_base: 0x210, reserved_shared: 0x400,
//!     mercury_version: 0x0101, work_arounds: 8 };
//! let mut module = CubinContents::new(chip);
//! module.functions.push(Function {
//!     name: "k".to_owned(),
//!     entry: Some(Entry {
//!         params: vec![Param { offset: 0, size: 8, pointee_log_align: 0, space: 0 }],
//!         ..Entry::default()
//!     }),
//!     code: vec![0; 128], // from an encoder
//!     registers: 8,
//!     exits: vec![0x10],
//!     ..Function::default()
//! });
//! let file = module.build()?.write()?;
//! assert!(file.starts_with(b"\x7fELF"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing is inferred from the code: offsets of exits and of other special instructions come from whoever wrote the code.

mod check;
mod extract;
mod info;
mod object;
mod plan;
mod sections;
mod symbols;

use thiserror::Error;

use crate::attribute::Attribute;
use crate::elf;
pub use crate::frame::{FrameRules, FrameStep};
use crate::layout::derive_segments;
use crate::line::{LineRow, SourceFile};
use crate::model::{Cubin, Flags, Header, Layout, Section};
use crate::note::ToolNote;
use plan::{Key, Plan};

pub use extract::ExtractError;
pub use object::{Object, SharedVariable};

/// The CUDA version the attributes state: ptxas 13.0 writes 130 in `.nv.info` and `.note.nv.cuinfo`.
const CUDA_VERSION: u16 = 130;

/// Bytes of the number of a texture, sampler or surface.
pub const HEADER_BYTES: u32 = 4;

/// A module to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubinContents {
    /// The chip.
    pub chip: Chip,
    /// Its functions, in the order of their sections.
    pub functions: Vec<Function>,
    /// Variables of the `.const` space, in bank 3.
    pub constants: Vec<Variable>,
    /// Variables of the `.global` space.
    pub globals: Vec<Variable>,
    /// Whether the first variable is in `.global` space: then bank 4 stands before bank 3.
    pub globals_first: bool,
    /// 64-bit addresses in bank 4, from which code loads the addresses of variables.
    pub addresses: Vec<Address>,
    /// Textures, samplers and surfaces that have names.
    pub references: Vec<Reference>,
    /// Whether textures and samplers are named apart.
    pub independent_textures: bool,
    /// Words that the driver knows and code names, such as the size of its record of a texture.
    pub driver_words: Vec<String>,
    /// Functions that are called and lie elsewhere: those the driver provides (`malloc`, `free`, `vprintf`, …).
    pub externs: Vec<String>,
    /// Calls between functions that have sections of their own or lie elsewhere: caller and callee.
    pub calls: Vec<(String, String)>,
    /// The tool that made the file. Drivers refuse a file that does not say.
    pub tool: ToolNote,
    /// Whether a debugger gets `.debug_frame`.
    pub frame_info: bool,
    /// Line tables, if there are any.
    pub lines: Option<LineInfo>,
    /// What debuggers are told besides, if anything.
    pub debug: Option<DebugInfo>,
    /// `ISA_CLASS` of `.nv.compat`: ptxas writes 1, with matrix and similar instructions 2 or 4.
    pub isa_class: u8,
    /// What a linker is told, if the file is for one and not for the driver.
    pub object: Option<Object>,
}

/// What line tables say besides the rows of each function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineInfo {
    /// Whether the PTX names source lines; if not, the tables lead to the PTX only.
    pub from_source: bool,
    /// The source files; rows count them from 1.
    pub files: Vec<SourceFile>,
    /// The names of inlined functions, each ended by a zero: `.debug_str`.
    pub strings: Vec<u8>,
    /// The PTX, each line ended by a zero: `.nv_debug_ptx_txt`.
    pub ptx: Vec<u8>,
}

/// What debuggers are told besides lines and frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugInfo {
    /// Where registers of the PTX lie: `.nv_debug_info_reg_sass`.
    pub registers: Vec<u8>,
    /// Their types: `.nv_debug_info_reg_type`.
    pub register_types: Vec<u8>,
    /// Sections of DWARF that come with the PTX.
    pub sections: Vec<DebugSection>,
}

/// A section of DWARF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugSection {
    /// Its name, with its dot.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The addresses in it.
    pub relocations: Vec<DataRelocation>,
}

/// What a cubin says of the chip it is for, and what the layout must know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// The chip: 90.
    pub sm: u8,
    /// Whether the code uses what only that chip has (`sm_90a`).
    pub accelerated: bool,
    /// The chip the PTX was written for: 90.
    pub virtual_sm: u16,
    /// Where parameters start in constant bank 0.
    pub param_base: u16,
    /// Shared memory at the start of a block's that the system keeps for itself.
    pub reserved_shared: u64,
    /// The version of Mercury, major and minor.
    pub mercury_version: u16,
    /// The work-arounds that every function carries (`SW_WAR`).
    pub work_arounds: u32,
}

/// A function with a text section of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What makes it a kernel; `None` for a function that kernels call.
    pub entry: Option<Entry>,
    /// Who sees its name, in a file for a linker.
    pub linkage: Linkage,
    /// Its code, padded as the chip wants it.
    pub code: Vec<u8>,
    /// Which source lines it comes from.
    pub lines: Vec<LineRow>,
    /// Which lines of the PTX it comes from.
    pub ptx_lines: Vec<LineRow>,
    /// How a debugger finds the caller, where it is told.
    pub frame_rules: Option<FrameRules>,
    /// Registers of a thread: the highest number used, plus one, plus the two the hardware keeps.
    pub registers: u32,
    /// Named barriers used.
    pub barriers: u8,
    /// Bytes of stack that the function itself uses.
    pub frame_size: u32,
    /// Bytes of stack that it and what it calls use; 0 if that cannot be known.
    pub min_stack_size: u32,
    /// Whether errors of its accesses are reported before its threads end.
    pub reports_at_exit: bool,
    /// The register limit it was compiled with.
    pub max_registers: Option<u16>,
    /// Static shared memory.
    pub shared: Option<Shared>,
    /// Bank 2: jump tables and literals.
    pub bank2: Vec<u8>,
    /// Names from the module's references whose numbers the driver puts behind the parameters, a word each.
    pub headers: Vec<String>,
    /// Offsets of `EXIT` instructions.
    pub exits: Vec<u32>,
    /// Functions inside the text section, such as a division the kernel calls.
    pub subroutines: Vec<Subroutine>,
    /// Functions from [`CubinContents::externs`] that it calls.
    pub externs: Vec<String>,
    /// Relocations of the code.
    pub relocations: Vec<CodeRelocation>,
    /// Further attributes (places of warp-wide operations, of mbarrier operations, …); they are put in ptxas's order.
    pub attributes: Vec<Attribute>,
}

/// A texture, sampler or surface with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ReferenceKind,
    /// The kernel whose parameter it is, by its place among the functions.
    pub parameter_of: Option<usize>,
    /// What a sampler is declared with: a byte each for the address modes and the filter, 0xff where nothing is said.
    pub modes: u32,
}

/// What a name of something to sample or access stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// `.texref`
    Texture,
    /// `.samplerref`
    Sampler,
    /// `.surfref`
    Surface,
}

impl ReferenceKind {
    const fn symbol_type(self) -> u8 {
        match self {
            ReferenceKind::Texture => elf::stt::CUDA_TEXTURE,
            ReferenceKind::Sampler => elf::stt::CUDA_SAMPLER,
            ReferenceKind::Surface => elf::stt::CUDA_SURFACE,
        }
    }

    /// The relocation of a word that becomes its number.
    const fn header_relocation(self) -> u32 {
        match self {
            ReferenceKind::Texture => elf::r_cuda::TEXTURE_HEADER,
            ReferenceKind::Sampler => elf::r_cuda::SAMPLER_HEADER,
            ReferenceKind::Surface => elf::r_cuda::SURFACE_HEADER,
        }
    }
}

/// What makes a function a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its parameters.
    pub params: Vec<Param>,
    /// Size of all parameters, where that is more than the end of the last.
    pub params_size: u16,
    /// `.maxntid`.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`.
    pub max_cluster_rank: Option<u32>,
    /// `.explicitcluster`.
    pub explicit_cluster: bool,
    /// `.blocksareclusters`.
    pub blocks_are_clusters: bool,
}

/// A kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Offset among the parameters.
    pub offset: u16,
    /// Size in bytes.
    pub size: u16,
    /// Logarithm of the alignment of what it points to (`.ptr .align`); 0 if it is not said.
    pub pointee_log_align: u8,
    /// The state space it points into, likewise.
    pub space: u8,
}

impl Param {
    /// A texture, sampler or surface: no bytes are passed for it.
    pub const REFERENCE: Param = Param {
        offset: u16::MAX,
        size: 0,
        pointee_log_align: 0,
        space: 0,
    };
}

/// Static shared memory of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Size in bytes, without what the system keeps for itself; 0 for a kernel that uses dynamic shared memory only.
    pub size: u64,
    /// Alignment.
    pub align: u64,
}

/// A function inside another one's text section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subroutine {
    /// Its name.
    pub name: String,
    /// Where it starts.
    pub offset: u64,
    /// How long it is.
    pub size: u64,
    /// Bytes of stack that it uses.
    pub frame_size: u32,
    /// Whether its symbol is weak (ptxas's own helpers) and not local (functions of the program).
    pub weak: bool,
    /// How a debugger finds the caller, where it is told.
    pub frame_rules: Option<FrameRules>,
}

/// A variable of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Offset in its bank, or in its kind of global memory (with or without initialiser).
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Alignment.
    pub align: u64,
    /// Its initial bytes; `None` for zeroes. Missing bytes at the end are zero.
    pub initial: Option<Vec<u8>>,
    /// Addresses of other symbols in it.
    pub addresses: Vec<DataRelocation>,
    /// Who sees its name; the host finds those that are not local.
    pub linkage: Linkage,
    /// Whether host and device share it (`.attribute(.managed)`).
    pub managed: bool,
}

/// Who sees a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// This file only.
    #[default]
    Local,
    /// Everybody.
    Global,
    /// Everybody, unless another file defines it too.
    Weak,
    /// Everybody; the linker makes one of all that have the name.
    Common,
    /// Everybody; another file defines it.
    Elsewhere,
}

/// The address of a variable or function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The name.
    pub symbol: String,
    /// What is added.
    pub addend: i64,
}

/// An address, or a byte of one, in the initial value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataRelocation {
    /// Offset in the variable.
    pub offset: u64,
    /// See [`elf::RELOCATION_TYPES`] and [`elf::r_cuda`].
    pub kind: u32,
    /// The name of the symbol, and what is added.
    pub address: Address,
}

/// A relocation of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeRelocation {
    /// Offset of the instruction.
    pub offset: u64,
    /// See [`elf::RELOCATION_TYPES`].
    pub kind: u32,
    /// The name of the symbol, and what is added.
    pub address: Address,
}

/// Why a module cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// Two things have the same name.
    #[error("the name '{0}' is used twice")]
    DuplicateName(String),
    /// A name is empty or contains a zero byte.
    #[error("'{0}' is not a name")]
    BadName(String),
    /// A name is used that nothing has.
    #[error("{user} refers to '{name}', which is not in the module")]
    UnknownName {
        /// Who refers to it.
        user: String,
        /// The name.
        name: String,
    },
    /// A number is outside what the container can say.
    #[error("{function}: {what} is {value}, the limit is {limit}")]
    TooLarge {
        /// The function or variable.
        function: String,
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The largest value.
        limit: u64,
    },
    /// A relocation of a type that data does not have.
    #[error("{variable}: relocations of type {kind:#x} do not occur in data")]
    RelocationType {
        /// The variable.
        variable: String,
        /// The type.
        kind: u32,
    },
    /// An offset or size is no multiple of what it must be one of.
    #[error("{function}: {what} {value:#x} is not a multiple of {align}")]
    Misaligned {
        /// The function or variable.
        function: String,
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What it should be a multiple of.
        align: u64,
    },
    /// Two parameters or variables overlap.
    #[error("{0} and {1} overlap")]
    Overlap(String, String),
}

impl CubinContents {
    /// A module with nothing in it.
    pub fn new(chip: Chip) -> Self {
        Self {
            chip,
            functions: Vec::new(),
            constants: Vec::new(),
            globals: Vec::new(),
            globals_first: false,
            addresses: Vec::new(),
            references: Vec::new(),
            independent_textures: false,
            driver_words: Vec::new(),
            externs: Vec::new(),
            calls: Vec::new(),
            tool: ToolNote {
                version: 2,
                object: String::new(),
                name: "orias".to_owned(),
                tool_version: concat!("Orias ", env!("CARGO_PKG_VERSION")).to_owned(),
                branch: String::new(),
                arguments: String::new(),
            },
            frame_info: true,
            lines: None,
            debug: None,
            isa_class: 1,
            object: None,
        }
    }

    /// The cubin, as a model.
    ///
    /// # Errors
    ///
    /// Names what contradicts itself or does not fit.
    pub fn build(&self) -> Result<Cubin, BuildError> {
        self.check(&self.chip)?;
        let plan = Plan::new(self, &self.chip);
        plan.resolve_names()?;
        let sections: Vec<Section> = plan.keys.iter().map(|key| plan.section(*key)).collect();
        let segments = match self.object {
            Some(_) => Vec::new(),
            None => derive_segments(&sections),
        };
        Ok(Cubin {
            header: Header {
                os_abi: elf::ELFOSABI_CUDA,
                abi_version: 8,
                ident_padding: [0; 7],
                kind: match self.object {
                    Some(Object { extensible, .. }) if extensible => elf::ET_EXTENSIBLE,
                    Some(_) => elf::ET_REL,
                    None => elf::ET_EXEC,
                },
                version: 1,
                entry: 0,
                flags: Flags::new(self.chip.sm, plan.index(Key::CudaNote) as u8),
                section_names: plan.index(Key::SectionNames),
                empty_program_header_size: 0,
            },
            sections,
            segments,
            layout: Layout::default(),
        })
    }
}

impl Variable {
    /// The bits of `st_other` that do not say which memory it lies in.
    fn other(&self) -> u8 {
        match self.managed {
            true => elf::sto::MANAGED,
            false => 0,
        }
    }

    fn is_initialised(&self) -> bool {
        self.initial.is_some() || !self.addresses.is_empty()
    }

    /// Whether it has a place in a section of this file.
    fn is_here(&self) -> bool {
        !matches!(self.linkage, Linkage::Common | Linkage::Elsewhere)
    }

    /// Whether it has a place in `.nv.global`.
    fn is_zero(&self) -> bool {
        self.is_here() && !self.is_initialised()
    }

    /// Gives each variable the next free offset, those with and those without initialiser counted apart.
    pub fn place_in_order(variables: &mut [Variable]) {
        let mut ends = [0_u64; 2];
        for variable in variables.iter_mut().filter(|it| it.is_here()) {
            let end = &mut ends[usize::from(variable.is_initialised())];
            variable.offset = crate::bytes::align_up(*end, variable.align);
            *end = variable.offset.saturating_add(variable.size);
        }
    }
}

impl Function {
    /// Where the numbers of textures, samplers and surfaces stand, counted from the first parameter.
    #[must_use]
    pub fn headers_start(&self) -> u32 {
        let parameters = self.entry.as_ref().map_or(0, Entry::size);
        parameters.next_multiple_of(HEADER_BYTES)
    }

    /// Bytes of bank 0 from the first parameter on.
    fn bank_bytes(&self) -> u32 {
        match self.headers.len() as u32 {
            0 => self.entry.as_ref().map_or(0, Entry::size),
            count => self.headers_start() + HEADER_BYTES * count,
        }
    }
}

impl Entry {
    /// The size of all parameters together.
    fn size(&self) -> u32 {
        self.params
            .iter()
            .filter(|param| **param != Param::REFERENCE)
            .map(|param| u32::from(param.offset) + u32::from(param.size))
            .max()
            .unwrap_or(0)
            .max(self.params_size.into())
    }
}
