//! The instruction grammar: one row for each form of an instruction, compiled from `tables/*.ptxg` by the build script.
//!
//! `docs/ptx-grammar.md` explains the notation the rows are written in. Everything here is static data: the parser
//! matches opcodes and operands against it, the checker reads types and gates from it, the printer its order of
//! modifiers, and the synthesiser writes legal instructions from it.

use crate::types::Type;

/// One form of an instruction.
#[derive(Debug)]
pub struct Row {
    /// The instruction: the fixed first components of the opcode.
    pub op: Op,
    /// The row as written in the table, on one line.
    pub syntax: &'static str,
    /// The table file's name, without folder.
    pub file: &'static str,
    /// The line of the row's head in that file.
    pub line: u32,
    /// The modifiers after the name, in the order the manual writes them.
    pub slots: &'static [Slot],
    /// The operand lists the row allows: optional operands are spelt out, one list for each choice.
    pub shapes: &'static [OperandList],
    /// Types and counts that depend on a modifier: `X by .T = .f16:b32 .f32:f32`.
    pub maps: &'static [Map],
    /// What must hold between modifiers, versions and targets.
    pub rules: &'static [Rule],
    /// Where the form exists: any of these. Empty means everywhere.
    pub since: &'static [Gate],
    /// Checks that rows cannot express, by name.
    pub checks: &'static [NamedCheck],
}

/// One modifier position of a row.
#[derive(Debug)]
pub struct Slot {
    /// The class name, or the modifier itself when it is literal. No leading dot.
    pub name: &'static str,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether the slot is a single literal modifier.
    pub literal: bool,
    /// Optional slots with the same non-zero group are written together or not at all.
    pub group: u8,
    /// What may stand here.
    pub alternatives: &'static [Alternative],
}

/// One modifier that may fill a slot.
#[derive(Debug)]
pub struct Alternative {
    /// The modifier.
    pub modifier: Modifier,
    /// Where it exists: any of these. Empty means wherever the row does.
    pub since: &'static [Gate],
}

/// A PTX version as `10 * major + minor`: 90 is 9.0.
pub type PtxVersion = u16;

/// A version and target from which something exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The PTX version, 0 when any will do.
    pub ptx: PtxVersion,
    /// The SM number, 0 when any will do.
    pub sm: u16,
    /// Which targets of that number and above.
    pub scope: GateScope,
}

/// How a gate's target reaches later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateScope {
    /// `sm_90`: this target and every later one.
    Onwards,
    /// `sm_90a`: exactly this architecture's `a` variant.
    Architecture,
    /// `sm_100f`: the `a` and `f` variants of the same family, from this number on.
    Family,
}

/// A list of operands a row allows.
#[derive(Debug)]
pub struct OperandList {
    /// What the modifiers must satisfy for the list to apply: all of these, each being "holds" or, negated, "does not".
    pub conditions: &'static [(bool, Condition)],
    /// The operands, in order.
    pub operands: &'static [OperandSpec],
}

/// The name of a class of modifiers that some row has a slot for; [`slot_names`] holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotName(&'static str);

/// The name of an operand of some row; [`operand_names`] holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandName(&'static str);

impl SlotName {
    /// As the tables write it, without the dot.
    pub const fn text(self) -> &'static str {
        self.0
    }
}

impl OperandName {
    /// As the tables write it.
    pub const fn text(self) -> &'static str {
        self.0
    }
}

/// One operand of a shape.
#[derive(Debug)]
pub struct OperandSpec {
    /// The name it has in the row.
    pub name: &'static str,
    /// Whether the instruction reads or writes it.
    pub access: Access,
    /// What may be written there.
    pub form: Form,
    /// Modifiers that may follow the operand, such as `.unified` or the selectors of video instructions, by position.
    pub suffixes: &'static [Suffix],
}

/// A modifier position behind an operand.
#[derive(Debug)]
pub struct Suffix {
    /// Whether it may be left out.
    pub optional: bool,
    /// What may stand there.
    pub modifiers: &'static [Modifier],
}

/// How an instruction uses an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Written only.
    Write,
    /// Read and written.
    ReadWrite,
}

/// What may be written at an operand's place.
#[derive(Debug)]
pub enum Form {
    /// A register, constant or name.
    Value(ValueForm),
    /// A vector: braces around elements, or a vector register.
    Vector {
        /// How many elements.
        count: Count,
        /// What each element may be.
        element: ValueForm,
    },
    /// Several operands in square brackets.
    Bracket(&'static [OperandSpec]),
    /// Two operands with a bar between them; the second may be left out when `optional`.
    Pair {
        /// The first and the second.
        both: &'static [OperandSpec; 2],
        /// Whether `|second` may be missing.
        optional: bool,
    },
    /// An address in a state space: register, variable or constant, with an optional offset.
    Address(SpaceRule),
    /// A label of this function.
    Label,
    /// A function's name or a register that holds one.
    Function,
    /// The name of a `.branchtargets`, `.calltargets` or `.callprototype` statement.
    TargetList,
    /// A texture reference or a register with its handle.
    Texture,
    /// A sampler reference or a register with its handle.
    Sampler,
    /// A surface reference or a register with its handle.
    Surface,
    /// The return parameter of a call, in parentheses.
    CallReturn,
    /// The arguments of a call, in parentheses.
    CallArguments,
}

/// What a scalar operand may be.
#[derive(Clone, Copy, Debug)]
pub struct ValueForm {
    /// The type the instruction sees.
    pub ty: TypeRule,
    /// Registers are allowed.
    pub register: bool,
    /// Constants are allowed.
    pub constant: bool,
    /// Names of variables are allowed; those of functions too where special registers are, as in `mov`.
    pub name: bool,
    /// Special registers are allowed, as in `mov` and `cvt`.
    pub special: bool,
    /// `_` is allowed.
    pub sink: bool,
    /// A register may be wider than the type: loads, stores and conversions.
    pub relaxed: bool,
    /// Only registers that agree by themselves: no pair of f16 for an integer, and in a vector no constants either.
    pub strict: bool,
    /// Integers pass for floating point of the same size.
    pub lenient: bool,
    /// `!p` is allowed.
    pub not: bool,
    /// `-a` is allowed.
    pub negate: bool,
    /// Constants must lie in this range, both ends included.
    pub range: Option<(i64, i64)>,
    /// Constants must be a multiple of this above the range's low end; 1 when any will do.
    pub step: i64,
    /// Constants must be one of these; empty when the range alone decides.
    pub one_of: &'static [i64],
}

/// How an operand's type follows from the row and the modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeRule {
    /// Always this type.
    Fixed(Type),
    /// The type in that slot.
    Slot(u8),
    /// The integer type of twice the width of the one in that slot.
    Wide(u8),
    /// The untyped type of the same size as the one in that slot.
    Bits(u8),
    /// By that map of the row.
    Map(u8),
}

/// How many elements a vector has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Between two numbers, both included.
    Range(u16, u16),
    /// The number written in a slot's modifier, after a letter (or the first number where no letter is given), times,
    /// divided and plus a constant. A slot that is left out makes the operand a scalar.
    Slot {
        /// The slot.
        slot: u8,
        /// The letter before the number, `0` for the first number.
        letter: u8,
        /// Multiplied by this.
        times: u16,
        /// Then divided by this.
        over: u16,
        /// Then this is added.
        plus: i16,
    },
    /// By that map of the row; a slot that is left out makes the operand a scalar.
    Map(u8),
}

/// Which state space an address may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceRule {
    /// Generic addresses.
    Generic,
    /// The space in that slot; generic where the slot is left out.
    Slot(u8),
    /// Always that space (a modifier's name, such as `shared::cta`).
    Fixed(&'static str),
}

/// A type or count for each modifier of a slot.
#[derive(Debug)]
pub struct Map {
    /// The name used in operands.
    pub name: &'static str,
    /// The slot looked at.
    pub slot: u8,
    /// What each modifier maps to.
    pub entries: &'static [(Modifier, MapValue)],
}

/// What a map yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapValue {
    /// A type.
    Type(Type),
    /// A count.
    Count(u16),
}

/// A condition on modifiers: any of the lists, all atoms of the list.
pub type Condition = &'static [&'static [Atom]];

/// One test on a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atom {
    /// The slot.
    pub slot: u8,
    /// The test is turned around.
    pub not: bool,
    /// The modifiers that pass; empty when any modifier there passes.
    pub values: &'static [Modifier],
}

/// What must hold between modifiers, or between modifiers and the target.
#[derive(Debug)]
pub enum Rule {
    /// Where the first holds, the second must.
    Needs(Condition, Condition),
    /// The two do not hold together.
    Forbids(Condition, Condition),
    /// Where the condition holds, one of the gates must.
    Since(Condition, &'static [Gate]),
    /// Where the condition holds, the form does not exist from this version and target on.
    Removed(Condition, Gate),
}

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

impl std::fmt::Display for Modifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, ".{}", self.name())
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
