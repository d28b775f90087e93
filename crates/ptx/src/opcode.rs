//! Matching an opcode with the rows of the tables.
//!
//! Each distinct spelling of an opcode is matched once. Its first components are the instruction's name (the longest
//! known one); the rest are modifiers, which ptxas takes in any order as long as types keep theirs among themselves, and
//! so do state spaces. For each row of the instruction, the written modifiers are assigned to the row's slots by a
//! depth-first search in the order written; rows that take all of them, have no required slot left and break none of
//! their rules become [`Form`]s. A form's operand types, vector lengths and state spaces are worked out here too, so that
//! looking at an instruction costs no more than comparing its operands with plain data.

use crate::grammar::{
    Access, Atom, Condition, Count, Form as FormSpec, Gate, MapValue, Modifier, Op, OperandSpec,
    ROWS, Row, Rule, Slot, SpaceRule, Suffix, TypeRule, ValueForm,
};
use crate::lex::{Lexer, TokenKind};
use crate::name::Name;
use crate::types::{Type, TypeClass};

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
    /// Why no row fits.
    pub problem: Option<Problem>,
}

impl Opcode {
    /// How many bits a register needs to hold an address of this instruction: ptxas minds in two families only.
    pub fn address_bits(&self) -> u32 {
        let name = self.op.map_or("", Op::name);
        match name {
            "multimem.red" => 64,
            _ if name.starts_with("wmma.") => 32,
            _ => 8,
        }
    }
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
    pub shapes: Vec<Shape>,
}

/// A list of operands, with types and lengths worked out.
#[derive(Debug)]
pub struct Shape {
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
    /// The modifier in the slot of that name (without dot).
    pub fn get(&self, slot: &str) -> Option<Modifier> {
        let at = self.row.slots.iter().position(|it| it.name == slot)?;
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

/// Which registers may be elements of an instruction's vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// Whether this is a matrix instruction, whose vectors of untyped elements need a register among them.
    pub matrix: bool,
    /// The rule for untyped elements: the factors.
    pub factors: ElementRule,
    /// The rule for elements of floating point: the sums.
    pub sums: ElementRule,
}

/// Which registers may be elements of a vector, unless one is untyped: then all go that are equally wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ElementRule {
    /// Those of the type, and integers for floating point.
    #[default]
    Lenient,
    /// Those of the type only.
    Strict,
    /// Pairs of f16 only.
    Half,
    /// Integers only.
    Integer,
    /// All that are equally wide.
    Any,
}

/// The rules of matrix instructions, as ptxas has them: they differ by format, and for sparse matrices.
fn elements_of(op: Op, modifiers: &[Modifier]) -> Elements {
    let family = op.name().split('.').next().unwrap_or_default();
    let has = |test: fn(Type) -> bool| modifiers.iter().any(|it| it.as_type().is_some_and(test));
    let half = has(|ty| matches!(ty, Type::F16 | Type::F16x2));
    let wide = has(|ty| matches!(ty, Type::Bf16 | Type::Tf32));
    let packed = has(|ty| ty.class() == TypeClass::Packed);
    let float = has(|ty| ty.class() == TypeClass::Float);
    let sparse = modifiers
        .iter()
        .any(|it| matches!(it.name(), "sp" | "sp::ordered_metadata"));
    use ElementRule::{Any, Half, Integer, Lenient, Strict};
    let (factors, sums) = match family {
        "mma" if sparse => match (half, wide, packed) {
            (true, ..) => (Half, Any),
            (_, true, _) => (Lenient, Any),
            (.., true) => (Lenient, Strict),
            _ => (Lenient, Lenient),
        },
        "mma" => match (half, wide, packed) {
            (true, ..) => (Half, Strict),
            (_, true, _) => (Strict, Strict),
            (.., true) => (Lenient, Strict),
            _ => (Lenient, Lenient),
        },
        "wmma" | "wgmma" if half || packed || (family == "wmma" && float) => (Half, Strict),
        "wmma" if op.name() == "wmma.mma" => (Integer, Lenient),
        "tcgen05" if half => (Half, Strict),
        _ => (Lenient, Lenient),
    };
    Elements {
        matrix: matches!(family, "mma" | "wmma" | "wgmma" | "stmatrix"),
        factors,
        sums,
    }
}

/// Matches an opcode with the tables.
pub fn resolve(name: Name, text: &[u8]) -> Opcode {
    let words = components(text);
    let mut opcode = Opcode {
        name,
        op: None,
        forms: Vec::new(),
        elements: Elements::default(),
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

/// The kinds of modifiers that keep their order among themselves.
fn ordered_kind(modifier: Modifier) -> u8 {
    if modifier.as_type().is_some() {
        return 1;
    }
    match modifier.name() {
        "global" | "shared" | "shared::cta" | "shared::cluster" | "const" | "local" | "param" => 2,
        "row" | "col" => 3,
        _ => 0,
    }
}

/// Gives each written modifier a slot of the row, if there is a way.
fn assign(row: &Row, modifiers: &[Modifier]) -> Option<Vec<Option<Modifier>>> {
    let required = row.slots.iter().filter(|slot| !slot.optional).count();
    if modifiers.len() > row.slots.len() || modifiers.len() < required {
        return None;
    }
    let mut places: Vec<usize> = Vec::with_capacity(modifiers.len());
    let mut next = 0;
    // Depth-first search: `places[i]` is the slot of modifier `i`, `next` the slot to try for the one after.
    loop {
        let at = places.len();
        if at == modifiers.len() {
            let mut chosen = vec![None; row.slots.len()];
            for (&slot, &modifier) in places.iter().zip(modifiers) {
                chosen[slot] = Some(modifier);
            }
            if complete(row.slots, &chosen) {
                return Some(chosen);
            }
        } else if let Some(slot) = free_slot(row, modifiers, &places, next) {
            places.push(slot);
            next = 0;
            continue;
        }
        next = places.pop()? + 1;
    }
}

fn free_slot(row: &Row, modifiers: &[Modifier], places: &[usize], from: usize) -> Option<usize> {
    let modifier = modifiers[places.len()];
    let kind = ordered_kind(modifier);
    let after = places
        .iter()
        .zip(modifiers)
        .filter(|(_, other)| kind != 0 && ordered_kind(**other) == kind)
        .map(|(&slot, _)| slot + 1)
        .max()
        .unwrap_or(0);
    (from.max(after)..row.slots.len()).find(|&slot| {
        !places.contains(&slot)
            && row.slots[slot]
                .alternatives
                .iter()
                .any(|it| it.modifier == modifier)
    })
}

fn complete(slots: &[Slot], chosen: &[Option<Modifier>]) -> bool {
    slots.iter().zip(chosen).all(|(slot, it)| {
        let partner_differs = slot.group != 0
            && slots.iter().zip(chosen).any(|(other, theirs)| {
                other.group == slot.group && theirs.is_some() != it.is_some()
            });
        (it.is_some() || slot.optional) && !partner_differs
    })
}

fn broken(row: &'static Row, chosen: &[Option<Modifier>]) -> Option<&'static Rule> {
    row.rules.iter().find(|rule| match rule {
        Rule::Needs(a, b) => holds(a, chosen) && !holds(b, chosen),
        Rule::Forbids(a, b) => holds(a, chosen) && holds(b, chosen),
        Rule::Since(..) | Rule::Removed(..) => false,
    })
}

/// The form of a row with these modifiers, unless a slot or rule of the row forbids them.
pub fn legal_form(row: &'static Row, chosen: Vec<Option<Modifier>>) -> Option<Form> {
    let legal = complete(row.slots, &chosen) && broken(row, &chosen).is_none();
    legal.then(|| form(row, chosen))
}

fn form(row: &'static Row, chosen: Vec<Option<Modifier>>) -> Form {
    let resolver = Resolver {
        row,
        chosen: &chosen,
    };
    let shapes = row
        .shapes
        .iter()
        .filter(|shape| {
            shape
                .conditions
                .iter()
                .all(|(wanted, condition)| holds(condition, &chosen) == *wanted)
        })
        .map(|shape| Shape {
            operands: shape
                .operands
                .iter()
                .map(|operand| resolver.pattern(operand))
                .collect(),
        })
        .collect();
    Form {
        row,
        chosen,
        shapes,
    }
}

/// Works out types and lengths of one form.
struct Resolver<'c> {
    row: &'static Row,
    chosen: &'c [Option<Modifier>],
}

impl Resolver<'_> {
    fn pattern(&self, operand: &'static OperandSpec) -> Pattern {
        Pattern {
            name: operand.name,
            access: operand.access,
            kind: self.kind(&operand.form),
            suffixes: operand.suffixes,
        }
    }

    fn kind(&self, form: &'static FormSpec) -> PatternKind {
        match form {
            FormSpec::Value(value) => PatternKind::Value(self.value(value)),
            FormSpec::Vector { count, element } => match self.count(*count) {
                // Without its vector modifier an access takes one register, which may stand in braces.
                None => PatternKind::Vector(0, 1, self.value(element)),
                Some((low, high)) => PatternKind::Vector(low, high, self.value(element)),
            },
            FormSpec::Bracket(inner) => {
                PatternKind::Bracket(inner.iter().map(|it| self.pattern(it)).collect())
            }
            FormSpec::Pair { both, optional } => PatternKind::Pair(
                Box::new([self.pattern(&both[0]), self.pattern(&both[1])]),
                *optional,
            ),
            FormSpec::Address(space) => PatternKind::Address(match space {
                SpaceRule::Generic => None,
                SpaceRule::Slot(slot) => self.chosen[*slot as usize].map(Modifier::name),
                SpaceRule::Fixed(space) => Some(space),
            }),
            FormSpec::Label => PatternKind::Label,
            FormSpec::Function => PatternKind::Function,
            FormSpec::TargetList => PatternKind::TargetList,
            FormSpec::Texture => PatternKind::Texture,
            FormSpec::Sampler => PatternKind::Sampler,
            FormSpec::Surface => PatternKind::Surface,
            FormSpec::CallReturn => PatternKind::CallReturn,
            FormSpec::CallArguments => PatternKind::CallArguments,
        }
    }

    fn value(&self, value: &ValueForm) -> ValuePattern {
        // The build script lets types come from required slots only, and from maps that cover their slot.
        let of_slot = |slot: u8| {
            self.chosen[slot as usize]
                .and_then(Modifier::as_type)
                .unwrap_or(Type::B32)
        };
        let ty = match value.ty {
            TypeRule::Fixed(ty) => ty,
            TypeRule::Slot(slot) => of_slot(slot),
            TypeRule::Wide(slot) => of_slot(slot).widened().unwrap_or(of_slot(slot)),
            TypeRule::Bits(slot) => of_slot(slot).as_bits().unwrap_or(of_slot(slot)),
            TypeRule::Map(map) => match self.mapped(map) {
                Some(MapValue::Type(ty)) => ty,
                _ => Type::B32,
            },
        };
        ValuePattern {
            ty,
            named: !matches!(value.ty, TypeRule::Fixed(_)),
            form: *value,
        }
    }

    fn mapped(&self, map: u8) -> Option<MapValue> {
        let map = &self.row.maps[map as usize];
        let chosen = self.chosen[map.slot as usize]?;
        map.entries
            .iter()
            .find(|(modifier, _)| *modifier == chosen)
            .map(|(_, value)| *value)
    }

    /// The least and the greatest length; `None` makes the operand a scalar, in braces or not.
    fn count(&self, count: Count) -> Option<(u16, u16)> {
        match count {
            Count::Range(low, high) => Some((low, high)),
            Count::Map(map) => match self.mapped(map)? {
                MapValue::Count(count) => Some((count, count)),
                MapValue::Type(_) => None,
            },
            Count::Slot {
                slot,
                letter,
                times,
                over,
                plus,
            } => {
                let text = self.chosen[slot as usize]?.name();
                let number = number_after(text, letter)?;
                let value =
                    i32::from(number) * i32::from(times) / i32::from(over.max(1)) + i32::from(plus);
                let value = u16::try_from(value).ok()?;
                Some((value, value))
            }
        }
    }
}

/// The number behind a letter in a modifier: 256 for `n` in `m64n256k16`. Letter 0 finds the first number.
fn number_after(text: &str, letter: u8) -> Option<u16> {
    let bytes = text.as_bytes();
    let start = (0..bytes.len()).find(|&at| {
        bytes[at].is_ascii_digit()
            && (at == 0 || !bytes[at - 1].is_ascii_digit())
            && (letter == 0 || (at > 0 && bytes[at - 1] == letter))
    })?;
    let digits = text[start..]
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len() - start);
    text[start..start + digits].parse().ok()
}

fn unknown_instruction(words: &[&str]) -> Problem {
    let word = words.first().copied().unwrap_or_default();
    let known = Op::ALL.iter().map(|op| {
        let name = op.name();
        name.split('.').next().unwrap_or(name)
    });
    Problem {
        message: format!("Not a name of any known instruction: '{}'", shown(word)),
        suggestion: crate::diagnostic::nearest(word, known)
            .filter(|near| *near != word)
            .map(|near| format!("did you mean '{near}'?")),
    }
}

fn known_modifiers(op: Op) -> impl Iterator<Item = Modifier> {
    rows_of(op)
        .iter()
        .flat_map(|row| row.slots)
        .flat_map(|slot| slot.alternatives)
        .map(|it| it.modifier)
}

/// A word of the source, short enough for a message.
fn shown(word: &str) -> &str {
    word.get(..60).unwrap_or(word)
}

fn unknown_modifier(op: Op, word: &str) -> Problem {
    let near = crate::diagnostic::nearest(word, known_modifiers(op).map(Modifier::name));
    Problem {
        message: format!("Unknown modifier '.{}'", shown(word)),
        suggestion: near.map(|near| format!("did you mean '.{near}'?")),
    }
}

fn list(names: impl Iterator<Item = Modifier>) -> String {
    let names: Vec<String> = names.map(|it| it.to_string()).collect();
    names.join(" or ")
}

fn describe(condition: Condition, row: &Row) -> String {
    let any: Vec<String> = condition
        .iter()
        .map(|all| {
            let all: Vec<String> = all
                .iter()
                .map(|atom| {
                    let what = if atom.values.is_empty() {
                        list(
                            row.slots[atom.slot as usize]
                                .alternatives
                                .iter()
                                .map(|it| it.modifier),
                        )
                    } else {
                        list(atom.values.iter().copied())
                    };
                    if atom.not { format!("no {what}") } else { what }
                })
                .collect();
            all.join(" with ")
        })
        .collect();
    any.join(", or ")
}

fn explain_rule(op: Op, row: &Row, rule: &Rule) -> Problem {
    let message = match rule {
        Rule::Needs(a, b) => format!(
            "Illegal modifiers for instruction '{op}': {} needs {}",
            describe(a, row),
            describe(b, row)
        ),
        Rule::Forbids(a, b) => format!(
            "Illegal modifiers for instruction '{op}': {} does not go with {}",
            describe(a, row),
            describe(b, row)
        ),
        Rule::Since(..) | Rule::Removed(..) => format!("Illegal modifiers for instruction '{op}'"),
    };
    Problem {
        message,
        suggestion: None,
    }
}

/// No row takes the modifiers: says which one is foreign, or what is missing in the row that is nearest.
fn no_row(op: Op, modifiers: &[Modifier]) -> Problem {
    for &modifier in modifiers {
        if !known_modifiers(op).any(|known| known == modifier) {
            if modifier.as_type().is_some() {
                break;
            }
            let near = crate::diagnostic::nearest(
                modifier.name(),
                known_modifiers(op).map(Modifier::name),
            );
            return Problem {
                message: format!("Illegal modifier '{modifier}' for instruction '{op}'"),
                suggestion: near.map(|near| format!("did you mean '.{near}'?")),
            };
        }
    }
    let types = |list: &[Modifier]| list.iter().filter(|it| it.as_type().is_some()).count();
    let without_types: Vec<Modifier> = modifiers
        .iter()
        .copied()
        .filter(|it| it.as_type().is_none())
        .collect();
    // The row that would do if the types were others, or that lacks the fewest modifiers.
    let mut best: Option<(usize, &Row)> = None;
    for row in rows_of(op) {
        let foreign = without_types
            .iter()
            .filter(|it| {
                !row.slots
                    .iter()
                    .flat_map(|slot| slot.alternatives)
                    .any(|known| known.modifier == **it)
            })
            .count();
        let missing = row
            .slots
            .iter()
            .filter(|slot| !slot.optional)
            .filter(|slot| {
                !slot
                    .alternatives
                    .iter()
                    .any(|it| modifiers.contains(&it.modifier))
            })
            .count();
        let score = foreign * 2 + missing;
        if best.is_none_or(|(least, _)| score < least) {
            best = Some((score, row));
        }
    }
    // A kind of modifier that all rows have, and none is written.
    let lacking = best.and_then(|(score, row)| {
        let slot = row.slots.iter().find(|slot| {
            !slot.optional
                && !slot
                    .alternatives
                    .iter()
                    .any(|it| modifiers.contains(&it.modifier))
        })?;
        let plain = slot
            .alternatives
            .iter()
            .all(|it| it.modifier.as_type().is_none());
        (score == 1 && plain).then_some(slot)
    });
    if let Some(slot) = lacking {
        let wanted = list(slot.alternatives.iter().map(|it| it.modifier));
        return Problem {
            message: format!("Instruction '{op}' lacks a modifier: {wanted}"),
            suggestion: best.map(|(_, row)| format!("the nearest form is `{}`", form_text(row))),
        };
    }
    let message = if types(modifiers) > 0 || without_types.is_empty() {
        format!("Unexpected instruction types specified for '{op}'")
    } else {
        format!("Illegal combination of modifiers for instruction '{op}'")
    };
    Problem {
        message,
        suggestion: best.map(|(_, row)| format!("the nearest form is `{}`", form_text(row))),
    }
}

/// The opcode part of a row as the table writes it.
fn form_text(row: &Row) -> &'static str {
    row.syntax.split(' ').next().unwrap_or(row.syntax)
}
