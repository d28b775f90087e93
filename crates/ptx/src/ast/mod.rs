//! The syntax tree of a module: flat pools with small indices instead of boxes.
//!
//! Instructions, operands and statements of a function lie in three vectors; an operand that has parts (a vector, a
//! bracket, a pair) names a range of the operand pool. Names are resolved while parsing: a register operand holds the
//! register's number in its function, a variable operand the variable's number in the module. Scopes appear as markers
//! in the statement list, so nothing nests and nothing recurses.

mod body;
mod section;

pub use body::*;
pub use section::*;

use crate::diagnostic::Span;
use crate::grammar::PtxVersion;
use crate::name::{Name, Names};
use crate::opaque::{self, Field};
use crate::opcode::{Form, Opcode};
use crate::target::Target;
use crate::types::Type;

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(pub u32);

            impl $name {
                /// The position in its vector.
                pub const fn index(self) -> usize {
                    self.0 as usize
                }
            }
        )*
    };
}

index! {
    /// A register of a function.
    RegisterId;
    /// A variable or parameter of the module.
    VariableId;
    /// A function or entry of the module.
    FunctionId;
    /// A label of a function.
    LabelId;
    /// A `.branchtargets`, `.calltargets` or `.callprototype` statement of a function.
    ListId;
    /// A distinct opcode of the module.
    OpcodeId;
    /// An instruction of a function.
    InstructionId;
}

/// A parsed module.
#[derive(Debug)]
pub struct Module<'a> {
    /// The text it was parsed from.
    pub source: &'a [u8],
    /// Every name.
    pub names: Names<'a>,
    /// `.version`, if it was understood.
    pub version: PtxVersion,
    /// Where `.version` stands.
    pub version_span: Span,
    /// `.target`: the architecture.
    pub target: Option<Target>,
    /// Where the architecture stands.
    pub target_span: Span,
    /// `.target`: the platform options behind the architecture.
    pub target_options: Vec<TargetOption>,
    /// `.address_size`: 32 or 64.
    pub address_size: u8,
    /// Where `.address_size` stands, if it does.
    pub address_size_span: Option<Span>,
    /// The top-level statements in order.
    pub items: Vec<Item>,
    /// Every variable and parameter, module-wide and local ones.
    pub variables: Vec<Variable>,
    /// Every function and entry; a prototype and its definition are two.
    pub functions: Vec<Function>,
    /// Every distinct opcode with the rows it matches.
    pub opcodes: Vec<Opcode>,
    /// `.file` statements.
    pub files: Vec<File>,
    /// `.section` statements.
    pub sections: Vec<Section>,
    /// `.alias` statements.
    pub aliases: Vec<Alias>,
    /// The strings of `.pragma` statements outside functions.
    pub pragmas: Vec<Span>,
}

/// What `.target` may name beside the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetOption {
    /// `texmode_unified`
    TexmodeUnified,
    /// `texmode_independent`
    TexmodeIndependent,
    /// `debug`
    Debug,
    /// `map_f64_to_f32`
    MapF64ToF32,
}

/// A top-level statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A variable.
    Variable(VariableId),
    /// A function or entry, defined or declared.
    Function(FunctionId),
    /// `.file`, by position in [`Module::files`].
    File(u32),
    /// `.section`, by position in [`Module::sections`].
    Section(u32),
    /// `.alias`, by position in [`Module::aliases`].
    Alias(u32),
    /// `.pragma`, by position in [`Module::pragmas`].
    Pragma(u32),
}

/// `.file INDEX "NAME", TIMESTAMP, SIZE`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// The number that `.loc` uses.
    pub index: u32,
    /// The name, with its quotes.
    pub name: Span,
    /// Time and size, where given.
    pub stamp: Option<(u64, u64)>,
}

/// `.alias NAME, FUNCTION;`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The new name.
    pub name: Name,
    /// The function it stands for.
    pub of: Name,
    /// The whole statement.
    pub span: Span,
}

/// Where a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.const`
    Const,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.param`
    Param,
    /// `.shared`
    Shared,
    /// A register used as a function's parameter.
    Reg,
    /// `.tex`
    Tex,
}

impl Space {
    /// The spelling, with its dot.
    pub const fn name(self) -> &'static str {
        match self {
            Space::Const => ".const",
            Space::Global => ".global",
            Space::Local => ".local",
            Space::Param => ".param",
            Space::Shared => ".shared",
            Space::Reg => ".reg",
            Space::Tex => ".tex",
        }
    }
}

/// Who sees a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// This module.
    Internal,
    /// `.extern`
    Extern,
    /// `.visible`
    Visible,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

impl Linkage {
    /// The spelling with its dot; nothing for internal names.
    pub const fn name(self) -> &'static str {
        match self {
            Linkage::Internal => "",
            Linkage::Extern => ".extern",
            Linkage::Visible => ".visible",
            Linkage::Weak => ".weak",
            Linkage::Common => ".common",
        }
    }
}

/// A variable, or a parameter.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name; a prototype may leave it out (`_`).
    pub name: Name,
    /// Where the name stands.
    pub span: Span,
    /// Where it lives.
    pub space: Space,
    /// The constant bank of `.const[N]`.
    pub bank: Option<u8>,
    /// Who sees it.
    pub linkage: Linkage,
    /// The element type.
    pub ty: Type,
    /// Elements of a vector type; 1 for scalars.
    pub vector: u8,
    /// `.align`, in bytes, where given.
    pub align: Option<u32>,
    /// The array dimensions; the first is 0 where it is left open.
    pub dimensions: Vec<u64>,
    /// The initialiser, if there is one.
    pub initialiser: Option<Initialiser>,
    /// `.attribute(…)` list.
    pub attributes: Vec<Attribute>,
    /// `.ptr`, on kernel parameters.
    pub pointer: Option<Pointer>,
    /// For a parameter or variable in registers: the register.
    pub register: Option<RegisterId>,
}

impl Variable {
    /// The bytes of one element.
    pub fn element_bytes(&self) -> u64 {
        match opaque::record_bytes(self.ty) {
            Some(bytes) if !self.dimensions.is_empty() => bytes,
            _ => u64::from(self.ty.bits().div_ceil(8)) * u64::from(self.vector),
        }
    }

    /// The alignment in bytes: what is written, or the size of an element.
    pub fn alignment(&self) -> u32 {
        self.align.unwrap_or(match opaque::record_bytes(self.ty) {
            Some(_) => 4,
            None => self.element_bytes().clamp(1, 128) as u32,
        })
    }

    /// The size in bytes; 0 where the first dimension is open.
    pub fn bytes(&self) -> u64 {
        self.dimensions
            .iter()
            .fold(self.element_bytes(), |size, &n| size.saturating_mul(n))
    }
}

/// What a parameter points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointee {
    /// Memory of a state space.
    Memory(Space),
    /// A texture: the parameter is its handle.
    Texture,
    /// A surface.
    Surface,
    /// A sampler.
    Sampler,
}

impl Pointee {
    /// All there are.
    pub const ALL: [Pointee; 7] = [
        Pointee::Memory(Space::Const),
        Pointee::Memory(Space::Global),
        Pointee::Memory(Space::Local),
        Pointee::Memory(Space::Shared),
        Pointee::Texture,
        Pointee::Surface,
        Pointee::Sampler,
    ];

    /// The spelling, with its dot.
    pub const fn name(self) -> &'static str {
        match self {
            Pointee::Memory(space) => space.name(),
            Pointee::Texture => ".texref",
            Pointee::Surface => ".surfref",
            Pointee::Sampler => ".samplerref",
        }
    }

    /// What a dotted word names.
    pub fn from_name(text: &[u8]) -> Option<Pointee> {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.name().as_bytes() == text)
    }
}

/// `.ptr .SPACE .align N`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// What it points to; any memory where left out.
    pub to: Option<Pointee>,
    /// The alignment of what is pointed to.
    pub align: Option<u32>,
}

/// An attribute of a variable or function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// `.managed`
    Managed,
    /// `.unified(UUID1, UUID2)`
    Unified(u64, u64),
}

/// The value a variable starts with.
#[derive(Clone, Debug)]
pub struct Initialiser {
    /// The whole of it, braces included.
    pub span: Span,
    /// The values and braces in order.
    pub parts: Vec<InitialiserPart>,
    /// The numbers of [`InitialiserPart::Bytes`]: tables have hundreds of thousands.
    pub bytes: Vec<u8>,
}

impl Initialiser {
    /// The numbers of a part that stands for several constants.
    pub fn bytes(&self, first: u32, count: u32) -> &[u8] {
        &self.bytes[first as usize..(first + count) as usize]
    }
}

/// One value or brace of an initialiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InitialiserPart {
    /// `{`
    Open,
    /// `}`
    Close,
    /// A constant.
    Constant(Constant),
    /// Several constants in a row, signed integers from 0 to 255: so many of [`Initialiser::bytes`].
    Bytes {
        /// Where they start there.
        first: u32,
        /// How many they are.
        count: u32,
    },
    /// The address of a variable, plus an offset. `generic` when written `generic(name)`.
    Variable {
        /// The variable.
        variable: VariableId,
        /// Added to its address.
        offset: i64,
        /// Whether the generic address is meant.
        generic: bool,
    },
    /// The address of a function.
    Function(FunctionId),
    /// One or more bytes of an address: `0xFF00(name)`. The mask and, next, what it selects from.
    Mask(u64),
    /// `name =`, in the record of a texture, sampler or surface. The value is next.
    Field(Field),
}

/// A constant value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    /// A signed 64-bit integer.
    Signed(i64),
    /// An unsigned 64-bit integer.
    Unsigned(u64),
    /// The bits of a single.
    Single(u32),
    /// The bits of a double.
    Double(u64),
}

/// A function or entry.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: Name,
    /// Where the name stands.
    pub span: Span,
    /// Whether it is an entry, which the host launches.
    pub entry: bool,
    /// Who sees it.
    pub linkage: Linkage,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// Return parameters.
    pub returns: Vec<VariableId>,
    /// Parameters.
    pub parameters: Vec<VariableId>,
    /// Performance and other directives between the head and the body.
    pub directives: Vec<FunctionDirective>,
    /// The body; `None` for a declaration.
    pub body: Option<Body>,
}

/// What may stand between a function's head and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionDirective {
    /// Which.
    pub kind: FunctionDirectiveKind,
    /// Where it stands.
    pub span: Span,
    /// Its numbers; unused places are 1.
    pub values: [u32; 3],
    /// How many numbers were written.
    pub count: u8,
}

macro_rules! function_directives {
    ($($variant:ident $text:literal $doc:literal;)*) => {
        /// The directives of a function's head.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FunctionDirectiveKind { $(#[doc = $doc] $variant,)* }

        impl FunctionDirectiveKind {
            /// Every one.
            pub const ALL: &'static [FunctionDirectiveKind] = &[$(FunctionDirectiveKind::$variant,)*];

            /// The spelling, with its dot.
            pub const fn name(self) -> &'static str {
                match self { $(FunctionDirectiveKind::$variant => $text,)* }
            }
        }
    };
}

function_directives! {
    MaxNReg ".maxnreg" "Registers a thread may use at most.";
    LocalMaxNReg ".local_maxnreg" "Registers a function may use at most, whoever calls it.";
    MaxNTid ".maxntid" "Threads a block has at most, in each dimension.";
    ReqNTid ".reqntid" "Threads a block has, in each dimension.";
    MinNCtaPerSm ".minnctapersm" "Blocks that should fit a multiprocessor.";
    MaxNCtaPerSm ".maxnctapersm" "Blocks that should fit a multiprocessor, by its old name.";
    NoReturn ".noreturn" "The function does not return.";
    Pragma ".pragma" "A string for the compiler.";
    ReqNCtaPerCluster ".reqnctapercluster" "Blocks a cluster has, in each dimension.";
    ExplicitCluster ".explicitcluster" "The kernel is launched with cluster dimensions.";
    MaxClusterRank ".maxclusterrank" "Blocks a cluster has at most.";
    BlocksAreClusters ".blocksareclusters" "The grid is given in clusters.";
    AbiPreserve ".abi_preserve" "Data registers the callee keeps.";
    AbiPreserveControl ".abi_preserve_control" "Control registers the callee keeps.";
}

impl<'a> Module<'a> {
    /// The opcode of an instruction.
    pub fn opcode(&self, instruction: &Instruction) -> &Opcode {
        &self.opcodes[instruction.opcode.index()]
    }

    /// The form that an instruction's operands fit: its row and the modifiers chosen.
    pub fn form(&self, instruction: &Instruction) -> &Form {
        &self.opcode(instruction).forms[instruction.form as usize]
    }

    /// A variable.
    pub fn variable(&self, id: VariableId) -> &Variable {
        &self.variables[id.index()]
    }

    /// A function.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.index()]
    }

    /// The text of a name.
    pub fn name(&self, name: Name) -> &'a str {
        self.names.text(name)
    }

    /// The text of a span; bytes that are not UTF-8 are replaced.
    pub fn text(&self, span: Span) -> std::borrow::Cow<'a, str> {
        let start = (span.start as usize).min(self.source.len());
        let end = (span.end as usize).clamp(start, self.source.len());
        String::from_utf8_lossy(&self.source[start..end])
    }
}
