//! A lowered module: code in Ori, and everything about it that is not code.
//!
//! Lowering makes it from PTX; later phases change the functions' code and leave the rest alone; the container is built
//! from what it says about symbols, parameters and launch limits.

use orias_eval::texture::{Record, What};
use orias_ori::Function;
use orias_sass::Target;

/// What one PTX module becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct LoweredModule {
    /// The target all functions are compiled for.
    pub target: Target,
    /// `.version` of the PTX, ten times the major number plus the minor one.
    pub ptx_version: u16,
    /// The kernels, in the order of the source.
    pub kernels: Vec<Kernel>,
    /// The names of the kernels.
    pub entries: Vec<String>,
    /// The functions that kernels call. Others are inlined where they are called and leave no code.
    pub functions: Vec<DeviceFunction>,
    /// The functions of this module that pointers may name, by what code calls them.
    pub pointers: Vec<String>,
    /// Variables in shared, global and constant memory, in the order of the source.
    pub symbols: Vec<Symbol>,
    /// Textures, samplers and surfaces that have names.
    pub references: Vec<Reference>,
    /// Whether textures and samplers are named apart (`texmode_independent`).
    pub independent_textures: bool,
    /// Functions that are called and not defined here, such as `vprintf`.
    pub externs: Vec<Extern>,
    /// What a linker is told, if the module is for one.
    pub links: Option<Links>,
    /// Source files that line information names.
    pub files: Vec<SourceFile>,
    /// The names of inlined functions, each ended by a zero; locations name them by offset.
    pub debug_strings: Vec<u8>,
}

impl LoweredModule {
    /// A module with nothing in it.
    #[must_use]
    pub fn new(target: Target) -> LoweredModule {
        LoweredModule {
            target,
            ptx_version: 0,
            kernels: Vec::new(),
            entries: Vec::new(),
            functions: Vec::new(),
            pointers: Vec::new(),
            symbols: Vec::new(),
            references: Vec::new(),
            independent_textures: false,
            externs: Vec::new(),
            links: None,
            files: Vec::new(),
            debug_strings: Vec::new(),
        }
    }

    /// What programs take for the address of the function that code calls `name`: where the kernel's table of functions says where it lies.
    #[must_use]
    pub fn pointer(&self, name: &str) -> Option<u64> {
        let number = self.pointers.iter().position(|it| it == name)?;
        Some((number as u64 + 1) * POINTER_BYTES)
    }

    /// The symbol of that name.
    pub fn symbol(&self, name: &str) -> Option<&Symbol> {
        self.symbols.iter().find(|symbol| symbol.name == name)
    }
}

/// What a linker is told of a module's calls. Prototypes are spelled as ptxas spells them: `#`, the result, the parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Nobody outside sees its functions: it is a whole program that a linker adds system functions to.
    pub extensible: bool,
    /// No linker comes: a tool patches its functions into programs.
    pub tools_patch: bool,
    /// The prototype of each function that the module defines or names.
    pub prototypes: Vec<(String, String)>,
    /// Calls through pointers: the caller and the prototype of what it calls.
    pub indirect: Vec<(String, String)>,
    /// Further names of functions: the name and whose it is.
    pub aliases: Vec<(String, String)>,
}

/// A kernel and what its launch needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The code; launch limits, shared and local sizes are among its attributes.
    pub code: Function,
    /// Who sees the name.
    pub linkage: Linkage,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// Bytes of all parameters together.
    pub parameter_bytes: u32,
    /// Shared variables the kernel and the functions inlined into it use, with their places.
    pub shared: Vec<SharedPlace>,
    /// Where dynamic shared memory begins: the end of static shared memory, aligned for the extern arrays used.
    pub dynamic_shared: Option<u32>,
    /// The functions that it and these call, by their names in code.
    pub callees: Vec<String>,
    /// The functions that became part of it and of these, by their names in the source.
    pub inlined: Vec<String>,
    /// What debuggers are told of it, if anything.
    pub debug: Option<DebugRecord>,
    /// Strings of `.pragma` on the kernel and in its body.
    pub pragmas: Vec<String>,
    /// `.local_maxnreg`: how many registers its own code may use.
    pub local_registers: Option<u32>,
    /// Most thread blocks a cluster may have, where said.
    pub max_cluster_rank: Option<u32>,
    /// Whether the kernel is launched with cluster dimensions (`.explicitcluster`).
    pub explicit_cluster: bool,
    /// Whether the grid is given in clusters (`.blocksareclusters`).
    pub blocks_are_clusters: bool,
}

/// A function that is called, by kernels and others like it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFunction {
    /// The code; its parameters are those of the entry block.
    pub code: Function,
    /// What debuggers are told of it, if anything.
    pub debug: Option<DebugRecord>,
    /// Who sees the name.
    pub linkage: Linkage,
    /// `.local_maxnreg`: how many registers it may use, whoever calls it.
    pub local_registers: Option<u32>,
    /// The shared variables it uses, by their numbers among the symbols of its source.
    pub(crate) shared: Vec<usize>,
}

impl DeviceFunction {
    /// A function of ours, which no source names.
    #[must_use]
    pub fn of(code: Function) -> DeviceFunction {
        DeviceFunction {
            code,
            debug: None,
            linkage: Linkage::Internal,
            local_registers: None,
            shared: Vec::new(),
        }
    }
}

/// What debuggers are told of a function, as far as it is known before it has code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugRecord {
    /// Words of registers of the PTX; [`orias_ori::Location::register`] names one by its place here.
    pub registers: Vec<SourceRegister>,
    /// Labels, and the lines of the PTX they stand in.
    pub labels: Vec<(String, u32)>,
    /// Variables in the frame, and where they lie in it.
    pub locals: Vec<(String, u32)>,
}

/// A word of a register of the PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRegister {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: orias_ptx::types::Type,
    /// How many elements it has.
    pub vector: u8,
    /// Which of its words it is.
    pub word: u8,
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the PTX.
    pub name: String,
    /// Where it starts in the parameter area, in bytes.
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
    /// Its alignment in bytes.
    pub align: u32,
    /// What it points to, where the PTX says (`.ptr`).
    pub pointer: Option<orias_ptx::ast::Pointer>,
}

impl Parameter {
    /// The offset of a texture, sampler or surface: no bytes are passed for it.
    pub const NOWHERE: u32 = 0xffff;
}

/// A shared variable's place in a kernel's shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPlace {
    /// The symbol.
    pub symbol: String,
    /// Bytes from the start of the kernel's static shared memory.
    pub offset: u32,
}

/// Who sees a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// This module only.
    Internal,
    /// Everybody.
    Visible,
    /// Everybody, unless another module defines it strongly.
    Weak,
    /// Everybody; modules that define it share one.
    Common,
    /// Defined elsewhere.
    Extern,
}

/// The memory a symbol lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolSpace {
    /// Global memory.
    Global,
    /// Constant memory.
    Const,
    /// Shared memory of a thread block.
    Shared,
    /// Local memory of a thread: only pointers name it.
    Local,
}

/// A variable in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, made unique where the PTX has several in different scopes.
    pub name: String,
    /// Where it lives.
    pub space: SymbolSpace,
    /// The constant bank of `.const[N]`.
    pub bank: Option<u8>,
    /// Who sees it.
    pub linkage: Linkage,
    /// Its size in bytes; 0 for an array of open size.
    pub size: u64,
    /// Its alignment in bytes.
    pub align: u32,
    /// The bytes it starts with, where it is initialised; missing bytes at the end are zero.
    pub initial: Option<Vec<u8>>,
    /// Addresses to be put among the initial bytes.
    pub relocations: Vec<Relocation>,
    /// `.attribute(.managed)`
    pub managed: bool,
    /// The kernel or function that declares it, if it is not the module's.
    pub owner: Option<String>,
}

/// A texture, sampler or surface with a name. Code reads its number from a word behind the kernel's parameters, which the driver fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What code calls it.
    pub name: String,
    /// What it is.
    pub kind: ReferenceKind,
    /// The kernel whose parameter it is.
    pub parameter_of: Option<String>,
    /// What a sampler is declared with: a byte each for the address modes and the filter, 0xff where nothing is said.
    pub modes: u32,
}

/// What a name of something to sample or access stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// `.texref`
    Texture,
    /// `.samplerref`
    Sampler,
    /// `.surfref`
    Surface,
}

impl ReferenceKind {
    /// The bit of a handle's high word that says what it is of.
    pub(crate) const fn tag(self) -> u64 {
        match self {
            ReferenceKind::Texture => What::TEXTURE_TAG as u64,
            ReferenceKind::Sampler => What::SAMPLER_TAG as u64,
            ReferenceKind::Surface => What::SURFACE_TAG as u64,
        }
    }

    /// The driver's record of one.
    pub(crate) const fn record(self, independent: bool) -> Record {
        match (self, independent) {
            (ReferenceKind::Texture, false) => Record::Unified,
            (ReferenceKind::Texture, true) => Record::Independent,
            (ReferenceKind::Sampler, _) => Record::Sampler,
            (ReferenceKind::Surface, _) => Record::Surface,
        }
    }
}

/// Where each constant lies in its bank, in the order of `symbols`, and where the last one ends. They share one bank, whether they
/// have initial values or not.
pub fn constant_places(symbols: &[Symbol]) -> (Vec<(&str, u64)>, u64) {
    constant_places_behind(0, symbols)
}

/// The same where other modules' constants take the first `start` bytes.
pub fn constant_places_behind(start: u64, symbols: &[Symbol]) -> (Vec<(&str, u64)>, u64) {
    let mut end = start;
    let mut places = Vec::new();
    for symbol in symbols {
        if symbol.space == SymbolSpace::Const {
            let offset = end.next_multiple_of(u64::from(symbol.align.max(1)));
            places.push((symbol.name.as_str(), offset));
            end = offset + symbol.size;
        }
    }
    (places, end)
}

/// Lets a whole program's `.extern` variables that nobody defines be its own. Shared memory of open size is the launch's.
pub fn adopt_externs(symbols: &mut [Symbol]) {
    for symbol in symbols {
        if symbol.linkage == Linkage::Extern && symbol.space != SymbolSpace::Shared {
            symbol.linkage = Linkage::Visible;
        }
    }
}

/// An address within a symbol's initial bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Where it goes, in bytes.
    pub offset: u64,
    /// How many bytes are stored, from the lowest of the shifted address.
    pub bytes: u8,
    /// How far the address is shifted down first, in bits (`0xFF00(name)` stores one byte, shifted by eight).
    pub shift: u8,
    /// Whose address.
    pub symbol: String,
    /// Added to it.
    pub addend: i64,
    /// Which of its addresses.
    pub kind: AddressKind,
}

/// Which address of a name is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// The address of a variable in its space.
    Space,
    /// The generic address of a variable.
    Generic,
    /// The address of a kernel.
    Kernel,
    /// What programs take for the address of a function.
    Function,
}

/// What the name of a function starts with that lies in the same text as those that call it.
const NEAR: char = '$';
/// The start of the text that code lies in.
pub const TEXT_START: &str = "$";
/// The place behind the next call.
pub const BEHIND_CALL: &str = "$behind";

/// What names of jump tables start with; the rest is a number of the function's.
const JUMP_TABLE: &str = "$table";

/// What code calls its jump table with that number. As an address it is the table's place in the constant bank of the kernel, as what a branch counts from the
/// start of the text.
#[must_use]
pub fn jump_table_name(number: u32) -> String {
    format!("{JUMP_TABLE}{number}")
}

/// Whether code calls one of its jump tables `name`.
#[must_use]
pub fn is_jump_table(name: &str) -> bool {
    name.starts_with(JUMP_TABLE)
}

/// Where arguments in memory start for the function that is called, until its frame has a size: past anything that a frame can hold.
pub(crate) const INCOMING: u32 = 1 << 22;

/// Bytes of an entry of the table from which calls through pointers read where a function lies. The first one is nobody's: that of the
/// null pointer.
pub const POINTER_BYTES: u64 = 8;

/// What code calls the function `name` of its own text.
#[must_use]
pub fn near_name(name: &str) -> String {
    format!("{NEAR}{NEAR}{name}")
}

/// Whether code finds `name` in its own text.
#[must_use]
pub fn is_near(name: &str) -> bool {
    name.starts_with(NEAR)
}

/// A function that is called and defined elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extern {
    /// Its name.
    pub name: String,
    /// Sizes of its parameters in bytes.
    pub parameters: Vec<u32>,
    /// Sizes of its results in bytes.
    pub results: Vec<u32>,
    /// Whether it never returns.
    pub no_return: bool,
}

/// A source file of line information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The number that locations use.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Time and size, where known.
    pub stamp: Option<(u64, u64)>,
}
