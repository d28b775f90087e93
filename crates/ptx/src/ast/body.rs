//! The body of a function: statements, instructions and operands.

use super::{
    FunctionDirective, FunctionId, InstructionId, LabelId, ListId, OpcodeId, RegisterId, VariableId,
};
use crate::diagnostic::Span;
use crate::grammar::Modifier;
use crate::name::Name;
use crate::special::Special;
use crate::types::Type;

/// A function's body.
#[derive(Debug, Default)]
pub struct Body {
    /// The statements in order.
    pub statements: Vec<Statement>,
    /// The instructions.
    pub instructions: Vec<Instruction>,
    /// Operands of the instructions.
    pub operands: Vec<Operand>,
    /// Registers that are declared one by one or used out of a range.
    pub registers: Vec<Register>,
    /// Register declarations.
    pub declarations: Vec<RegisterDeclaration>,
    /// Labels.
    pub labels: Vec<Label>,
    /// Lists of targets and prototypes.
    pub lists: Vec<TargetList>,
    /// `.loc` statements.
    pub locations: Vec<Location>,
    /// The strings of `.pragma` statements.
    pub pragmas: Vec<Span>,
}

/// A statement of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// An instruction.
    Instruction(InstructionId),
    /// A label stands here.
    Label(LabelId),
    /// A scope opens.
    Open,
    /// A scope closes.
    Close,
    /// Registers are declared; the position in [`Body::declarations`].
    Registers(u32),
    /// A variable is declared.
    Variable(VariableId),
    /// A source position; the position in [`Body::locations`].
    Location(u32),
    /// A pragma; the position in [`Body::pragmas`].
    Pragma(u32),
    /// A list of targets or a prototype.
    List(ListId),
}

/// `.reg TYPE NAME;` or `.reg TYPE NAME<COUNT>;`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterDeclaration {
    /// The name, or what the numbers are appended to.
    pub name: Name,
    /// Where it stands.
    pub span: Span,
    /// How many, for a range.
    pub count: Option<u32>,
    /// The type.
    pub ty: Type,
    /// Elements of a vector register; 1 for scalars.
    pub vector: u8,
}

/// A register that is declared by itself or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: Type,
    /// Elements of a vector register; 1 for scalars.
    pub vector: u8,
}

/// A label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: Name,
    /// Where it is defined.
    pub span: Span,
}

/// `.loc FILE LINE COLUMN[, function_name LABEL[+OFFSET], inlined_at FILE LINE COLUMN]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file's number.
    pub file: u32,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
    /// The place that inlined it, and the name of the function, as label and offset.
    pub inlined: Option<Inlined>,
    /// Where it stands.
    pub span: Span,
}

/// Where an inlined piece of code was inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// A label in a `.debug_str` section that holds the function's name.
    pub function: Name,
    /// An offset from it.
    pub offset: u64,
    /// File, line and column.
    pub at: (u32, u32, u32),
}

/// A `.branchtargets`, `.calltargets` or `.callprototype` statement.
#[derive(Clone, Debug)]
pub struct TargetList {
    /// The label it is known by.
    pub name: Name,
    /// Where the label stands.
    pub span: Span,
    /// What it lists.
    pub kind: TargetListKind,
}

/// What a target list holds.
#[derive(Clone, Debug)]
pub enum TargetListKind {
    /// Labels, resolved at the end of the function.
    Branch(Vec<LabelId>),
    /// Functions.
    Call(Vec<FunctionId>),
    /// The signature of an indirect call.
    Prototype(Prototype),
}

/// A signature.
#[derive(Clone, Debug, Default)]
pub struct Prototype {
    /// Return parameters.
    pub returns: Vec<VariableId>,
    /// Parameters.
    pub parameters: Vec<VariableId>,
    /// `.noreturn` and the like.
    pub directives: Vec<FunctionDirective>,
}

/// An instruction: 28 bytes, and 24 for each operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The opcode as written, with the rows it matches.
    pub opcode: OpcodeId,
    /// The first operand in the pool.
    pub operands: u32,
    /// How many operands, not counting their parts.
    pub operand_count: u8,
    /// Which of the opcode's forms the operands fit.
    pub form: u8,
    /// Which of the form's shapes the operands fit.
    pub shape: u8,
    /// The guard, if there is one.
    pub guard: Guard,
    /// Where the statement starts, guard included.
    pub start: u32,
    /// Where the opcode starts.
    pub opcode_start: u32,
    /// Where the statement ends, semicolon included.
    pub end: u32,
}

impl Instruction {
    /// The whole statement.
    pub const fn span(&self) -> Span {
        Span::new(self.start, self.end)
    }

    /// The opcode and operands.
    pub const fn opcode_span(&self, length: u32) -> Span {
        Span::new(self.opcode_start, self.opcode_start + length)
    }
}

/// The predicate in front of an instruction, packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard(u32);

impl Guard {
    /// No guard: the instruction always executes.
    pub const ALWAYS: Guard = Guard(u32::MAX);

    /// The instruction executes where the register is true, or false when `negated`.
    pub const fn new(register: RegisterId, negated: bool) -> Guard {
        Guard(register.0 << 1 | negated as u32)
    }

    /// The register, and whether it is negated.
    pub const fn get(self) -> Option<(RegisterId, bool)> {
        if self.0 == u32::MAX {
            None
        } else {
            Some((RegisterId(self.0 >> 1), self.0 & 1 == 1))
        }
    }
}

/// An operand and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    /// What it is.
    pub kind: OperandKind,
    /// Where it stands.
    pub span: Span,
}

/// A range of the operand pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The first.
    pub first: u32,
    /// How many.
    pub count: u16,
}

/// What an operand is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OperandKind {
    /// A register.
    Register(RegisterId),
    /// One component of a vector register, 0 to 3.
    Component(RegisterId, u8),
    /// `!%p`
    Not(RegisterId),
    /// `-%r`
    Negated(RegisterId),
    /// `%r+4` as a value: a register or a special register, there in the pool, plus a constant.
    Sum(u32, i64),
    /// A special register; the component is 0 to 3, or 255 where none is written.
    Special(Special, u8),
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// The bits of a single.
    Single(u32),
    /// The bits of a double.
    Double(u64),
    /// The name of a variable: its address.
    Variable(VariableId),
    /// `name+4`: the address of a variable plus an offset. ptxas takes it wherever it reads an integer register, the bare name in few places.
    Offset(VariableId, i64),
    /// An element of an array variable, `name[3]`: its address, as a byte offset. Stands for an address or a bracket.
    Element(VariableId, i64),
    /// A function.
    Function(FunctionId),
    /// A label.
    Label(LabelId),
    /// A target list or prototype.
    List(ListId),
    /// `_`
    Sink,
    /// `{a, b}`
    Vector(Parts),
    /// `[a, b]`, where it is not one of the three below.
    Bracket(Parts),
    /// `[%r+4]`
    AtRegister(RegisterId, i64),
    /// `[name+4]`
    AtVariable(VariableId, i64),
    /// `[16]`
    AtConstant(i64),
    /// `a|b`: two operands from there on in the pool.
    Pair(u32),
    /// An operand followed by a modifier, as in `%r1.b0`; the operand is there in the pool.
    Suffixed(u32, Modifier),
    /// `(a, b)` of a call.
    Arguments(Parts),
    /// Something that was already reported.
    Error,
}

impl Body {
    /// The operands of an instruction.
    pub fn operands(&self, instruction: &Instruction) -> &[Operand] {
        let first = instruction.operands as usize;
        &self.operands[first..first + instruction.operand_count as usize]
    }

    /// The parts of a vector, bracket or list.
    pub fn parts(&self, parts: Parts) -> &[Operand] {
        let first = parts.first as usize;
        &self.operands[first..first + parts.count as usize]
    }
}
