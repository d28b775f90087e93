//! Matching an opcode with the rows of the tables.
//!
//! Each distinct spelling of an opcode is matched once. Its first components are the instruction's name (the longest
//! known one); the rest are modifiers, which ptxas takes in any order as long as types keep theirs among themselves, and
//! so do state spaces. For each row of the instruction, the written modifiers are assigned to the row's slots by a
//! depth-first search in the order written; rows that take all of them, have no required slot left and break none of
//! their rules become [`Form`]s. A form's operand types, vector lengths and state spaces are worked out here too, so that
//! looking at an instruction costs no more than comparing its operands with plain data.

mod address;
mod assign;
mod elements;
mod explain;
mod shape;

pub use address::AddressRule;
pub use elements::{ElementRule, Elements};

use crate::grammar::{
    Access, Atom, Condition, Gate, Modifier, Op, OperandName, ROWS, Row, Rule, SlotName, Suffix,
    ValueForm,
};
use crate::lex::{Lexer, TokenKind};
use crate::name::Name;
use crate::types::Type;
use assign::{assign, broken, complete};
use elements::elements_of;
use explain::{explain_rule, no_row, unknown_instruction, unknown_modifier};
use shape::form;

/// An opcode as written, and the forms it may have.
#[derive(Debug)]
pub struct Opcode {
    /// The spelling, blanks included where there are any.
    pub name: Name,
    /// The instruction, if its name is known.
    pub op: Option<Op>,
    /// The rows that fit, in the order of the tables; empty when none does.
    pub forms: Vec<Form>,
    /// Which registers may be elements of vectors.
    pub elements: Elements,
    /// What may be an address.
    pub address: &'static AddressRule,
    /// Why no row fits.
    pub problem: Option<Problem>,
}

/// What is wrong with an opcode.
#[derive(Debug)]
pub struct Problem {
    /// In one line.
    pub message: String,
    /// What to write instead.
    pub suggestion: Option<String>,
}

/// A row with the modifiers chosen.
#[derive(Debug)]
pub struct Form {
    /// The row.
    pub row: &'static Row,
    /// For each slot of the row, the modifier that fills it.
    pub chosen: Vec<Option<Modifier>>,
    /// The operand lists that go with these modifiers.
    pub shapes: Vec<OperandPatterns>,
}

/// A list of operands, with types and lengths worked out.
#[derive(Debug)]
pub struct OperandPatterns {
    /// The operands.
    pub operands: Vec<Pattern>,
}

/// What an operand must be like.
#[derive(Debug)]
pub struct Pattern {
    /// The name it has in the row.
    pub name: &'static str,
    /// Read or written.
    pub access: Access,
    /// What may stand there.
    pub kind: PatternKind,
    /// Modifiers behind it.
    pub suffixes: &'static [Suffix],
}

impl Pattern {
    /// Whether the row calls it so.
    pub fn is(&self, name: OperandName) -> bool {
        self.name == name.text()
    }
}

/// The kinds of [`Pattern`].
#[derive(Debug)]
pub enum PatternKind {
    /// One value.
    Value(ValuePattern),
    /// Between so many and so many values in braces, or a vector register; 0 allows one value without braces.
    Vector(u16, u16, ValuePattern),
    /// Operands in brackets.
    Bracket(Vec<Pattern>),
    /// Two operands with a bar between; whether the second may be missing.
    Pair(Box<[Pattern; 2]>, bool),
    /// An address in that space (a modifier's name without dot); `None` is generic.
    Address(Option<&'static str>),
    /// As in [`crate::grammar::Form`].
    Label,
    /// As in [`crate::grammar::Form`].
    Function,
    /// As in [`crate::grammar::Form`].
    TargetList,
    /// As in [`crate::grammar::Form`].
    Texture,
    /// As in [`crate::grammar::Form`].
    Sampler,
    /// As in [`crate::grammar::Form`].
    Surface,
    /// As in [`crate::grammar::Form`].
    CallReturn,
    /// As in [`crate::grammar::Form`].
    CallArguments,
}

/// What a value must be like.
#[derive(Clone, Copy, Debug)]
pub struct ValuePattern {
    /// The type.
    pub ty: Type,
    /// Whether the type is one the opcode names; ptxas is stricter with the others.
    pub named: bool,
    /// What else is allowed.
    pub form: ValueForm,
}

impl Form {
    /// The modifier in the slot of that name.
    pub fn get(&self, slot: SlotName) -> Option<Modifier> {
        let slots = &self.row.slots;
        let at = slots.iter().position(|it| it.name == slot.text())?;
        self.chosen[at]
    }

    /// Whether a modifier was written, in whichever slot.
    pub fn has(&self, modifier: Modifier) -> bool {
        self.chosen.contains(&Some(modifier))
    }

    /// The modifiers in the manual's order.
    pub fn modifiers(&self) -> impl Iterator<Item = Modifier> + '_ {
        self.chosen.iter().copied().flatten()
    }

    /// The types among the modifiers, in order.
    pub fn types(&self) -> impl Iterator<Item = Type> + '_ {
        self.modifiers().filter_map(Modifier::as_type)
    }

    /// Whether a condition of the row holds.
    pub fn holds(&self, condition: Condition) -> bool {
        holds(condition, &self.chosen)
    }

    /// Calls `report` for every list of gates of which one must be open, and what needs it.
    pub fn gates(&self, mut report: impl FnMut(Option<Modifier>, &'static [Gate])) {
        if !self.row.since.is_empty() {
            report(None, self.row.since);
        }
        for (slot, chosen) in self.row.slots.iter().zip(&self.chosen) {
            let Some(chosen) = chosen else { continue };
            let since = slot
                .alternatives
                .iter()
                .find(|it| it.modifier == *chosen)
                .map_or(&[][..], |it| it.since);
            if !since.is_empty() {
                report(Some(*chosen), since);
            }
        }
        for rule in self.row.rules {
            if let Rule::Since(condition, gates) = rule
                && self.holds(condition)
            {
                let about = condition.first().and_then(|all| all.first());
                let about = about.and_then(|atom| self.chosen[atom.slot as usize]);
                report(about, gates);
            }
        }
    }

    /// Calls `report` for every gate from which on the form no longer exists.
    pub fn removals(&self, mut report: impl FnMut(&'static Gate)) {
        for rule in self.row.rules {
            if let Rule::Removed(condition, gate) = rule
                && self.holds(condition)
            {
                report(gate);
            }
        }
    }
}

fn holds(condition: Condition, chosen: &[Option<Modifier>]) -> bool {
    let atom = |atom: &Atom| {
        let found = match chosen[atom.slot as usize] {
            None => false,
            Some(modifier) => atom.values.is_empty() || atom.values.contains(&modifier),
        };
        found != atom.not
    };
    condition.iter().any(|all| all.iter().all(atom))
}

/// The rows of an instruction.
pub fn rows_of(op: Op) -> &'static [Row] {
    let first = ROWS.partition_point(|row| row.op < op);
    let last = ROWS.partition_point(|row| row.op <= op);
    &ROWS[first..last]
}

/// The longest instruction name that starts the list of components, and how many components it has.
fn split_name(components: &[&str]) -> Option<(Op, usize)> {
    let mut name = String::new();
    let mut found = None;
    for (at, component) in components.iter().enumerate().take(6) {
        if at > 0 {
            name.push('.');
        }
        name.push_str(component);
        if let Some(op) = Op::from_name(&name) {
            found = Some((op, at + 1));
        }
    }
    found
}

/// The words of an opcode, which may have blanks and comments between them.
fn components(text: &[u8]) -> Vec<&str> {
    let mut lexer = Lexer::new(text);
    let mut words = Vec::new();
    loop {
        let token = lexer.next_token();
        let skip = match token.kind {
            TokenKind::Word => 0,
            TokenKind::Dotted => 1,
            _ => return words,
        };
        let bytes = &text[token.start as usize + skip..token.end as usize];
        words.push(std::str::from_utf8(bytes).unwrap_or_default());
    }
}

/// More written modifiers than any row has slots for; longer opcodes are refused without search.
const MAX_MODIFIERS: usize = 24;

/// Modifiers that say the same when written twice.
const REPEATABLE: &[&str] = &[
    "sat",
    "satfinite",
    "relu",
    "approx",
    "sync",
    "uni",
    "cc",
    "shiftamt",
];

/// Matches an opcode with the tables.
pub fn resolve(name: Name, text: &[u8]) -> Opcode {
    let words = components(text);
    let mut opcode = Opcode {
        name,
        op: None,
        forms: Vec::new(),
        elements: Elements::default(),
        address: &address::PLAIN,
        problem: None,
    };
    let Some((op, length)) = split_name(&words) else {
        opcode.problem = Some(unknown_instruction(&words));
        return opcode;
    };
    opcode.op = Some(op);
    let (name_words, words) = words.split_at(length);
    let mut modifiers = Vec::with_capacity(words.len());
    for word in words {
        match Modifier::from_name(word) {
            // ptxas takes these twice.
            Some(modifier)
                if REPEATABLE.contains(word)
                    && (modifiers.contains(&modifier) || name_words.contains(word)) => {}
            Some(modifier) if modifiers.len() < MAX_MODIFIERS => modifiers.push(modifier),
            _ => {
                opcode.problem = Some(unknown_modifier(op, word));
                return opcode;
            }
        }
    }
    opcode.elements = elements_of(op, &modifiers);
    opcode.address = address::address_rule(op);
    let mut broken_rule = None;
    for row in rows_of(op) {
        let Some(chosen) = assign(row, &modifiers) else {
            continue;
        };
        match broken(row, &chosen) {
            Some(rule) => broken_rule = broken_rule.or(Some((row, rule))),
            None => opcode.forms.push(form(row, chosen)),
        }
    }
    if opcode.forms.is_empty() {
        opcode.problem = Some(match broken_rule {
            Some((row, rule)) => explain_rule(op, row, rule),
            None => no_row(op, &modifiers),
        });
    }
    opcode
}

/// The form of a row with these modifiers, unless a slot or rule of the row forbids them.
pub fn legal_form(row: &'static Row, chosen: Vec<Option<Modifier>>) -> Option<Form> {
    let legal = complete(row.slots, &chosen) && broken(row, &chosen).is_none();
    legal.then(|| form(row, chosen))
}
