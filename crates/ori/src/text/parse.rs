//! From text to function: headers, blocks and instructions.

use super::cursor::{Cursor, read_digits};
use super::mnemonic;
use crate::control::ControlWord;
use crate::entity::{Block, Edge, Span, Value};
use crate::function::{Function, FunctionKind, Level, ValueDef};
use crate::instruction::Operation;
use crate::machine;
use crate::module::Module;
use crate::operand::Operand;
use crate::operation::{Arity, Slot};
use crate::register::{Class, Guard, Type};
use cranelift_entity::EntityRef;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;

/// What is wrong with a text, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Reads a text that holds one function.
pub fn parse_function(text: &str) -> Result<Function, ParseError> {
    let mut parser = Parser::new(text);
    let func = parser.function()?;
    parser.cursor.skip_lines();
    if parser.cursor.peek().is_some() {
        return Err(parser.cursor.error("expected the end of the text"));
    }
    Ok(func)
}

/// Reads a text that holds any number of functions.
pub fn parse_module(text: &str) -> Result<Module, ParseError> {
    let mut parser = Parser::new(text);
    let mut module = Module::default();
    let mut names = FxHashSet::default();
    loop {
        parser.cursor.skip_lines();
        if parser.cursor.peek().is_none() {
            return Ok(module);
        }
        let start = parser.cursor.at;
        let function = parser.function()?;
        if !names.insert(function.name.clone()) {
            let message = format!("the function `{}` is there twice", function.name);
            return Err(parser.cursor.error_at(start, message));
        }
        module.functions.push(function);
    }
}

/// How many values and blocks a text may have in all of its functions. Numbers may leave gaps, but not so large that the
/// pools outgrow the text.
fn most_numbers(text: &str) -> usize {
    (1 << 16) + 8 * text.len()
}

pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) func: Function,
    /// How many more values and blocks the text may have.
    spare_numbers: usize,
    /// Operations with modifiers seen before: most lines repeat one.
    operations: FxHashMap<&'a str, Operation>,
    /// Groups of the instruction being read; kept to spare allocations.
    operands: Vec<Operand>,
    kept: Vec<Operand>,
    uses: Vec<Operand>,
    defs: Vec<Operand>,
    edges: Vec<Edge>,
    values: Vec<Value>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parser<'a> {
        Parser {
            cursor: Cursor::new(text),
            func: Function::new(
                "",
                FunctionKind::Device,
                Level::Abstract,
                orias_sass::Target::DEFAULT,
            ),
            spare_numbers: most_numbers(text),
            operations: FxHashMap::default(),
            operands: Vec::new(),
            kept: Vec::new(),
            uses: Vec::new(),
            defs: Vec::new(),
            edges: Vec::new(),
            values: Vec::new(),
        }
    }

    pub(super) fn name(&mut self) -> Result<String, ParseError> {
        self.cursor.skip_blanks();
        if self.cursor.peek() == Some(b'"') {
            return self.cursor.quoted();
        }
        let name = self.cursor.word();
        if super::is_plain_name(name) {
            Ok(name.to_owned())
        } else {
            Err(self.cursor.error("expected a name"))
        }
    }

    fn function(&mut self) -> Result<Function, ParseError> {
        self.cursor.skip_lines();
        let start = self.cursor.at;
        let kind = match self.cursor.word() {
            "entry" => FunctionKind::Entry,
            "func" => FunctionKind::Device,
            _ => {
                return Err(self.cursor.error_at(start, "expected `entry` or `func`"));
            }
        };
        let name = self.name()?;
        self.cursor.skip_blanks();
        let start = self.cursor.at;
        let level = self.cursor.word();
        let Some(level) = Level::ALL.into_iter().find(|have| have.name() == level) else {
            return Err(self.cursor.error_at(
                start,
                "expected a level: `abstract`, `machine`, `physical` or `final`",
            ));
        };
        self.cursor.skip_blanks();
        let start = self.cursor.at;
        let target = self.name()?;
        let Some(target) = orias_sass::Target::from_name(&target) else {
            let message = format!("there is no instruction table for {target}");
            return Err(self.cursor.error_at(start, message));
        };
        self.func = Function::new(name, kind, level, target);
        if self.cursor.eat_text("->") {
            loop {
                let ty = self.ty()?;
                self.func.results.push(ty);
                if !self.cursor.eat(b',') {
                    break;
                }
            }
        }
        self.cursor.expect(b'{')?;
        self.header()?;
        self.blocks()?;
        self.settle_addresses();
        let empty = Function::new(
            "",
            FunctionKind::Device,
            Level::Abstract,
            orias_sass::Target::DEFAULT,
        );
        Ok(std::mem::replace(&mut self.func, empty))
    }

    pub(super) fn end_of_line(&mut self) -> Result<(), ParseError> {
        if self.cursor.at_line_end() {
            Ok(())
        } else {
            Err(self.cursor.error("expected the end of the line"))
        }
    }

    /// A number of a value or block, of which there are `have` so far; small enough for the pools to grow to it.
    fn entity_number(
        &mut self,
        start: usize,
        digits: &str,
        have: usize,
    ) -> Result<usize, ParseError> {
        let number = read_digits(digits.as_bytes(), 10)
            .and_then(|number| usize::try_from(number).ok())
            .ok_or_else(|| self.cursor.error_at(start, "expected a number"))?;
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(self
                .cursor
                .error_at(start, "a number has no leading zeroes"));
        }
        let new = (number + 1).saturating_sub(have);
        match self.spare_numbers.checked_sub(new) {
            Some(spare) => self.spare_numbers = spare,
            None => {
                let message = format!(
                    "{number} is too large: a text of this size has room for {} more numbers",
                    self.spare_numbers
                );
                return Err(self.cursor.error_at(start, message));
            }
        }
        Ok(number)
    }

    pub(super) fn value_numbered(
        &mut self,
        start: usize,
        digits: &str,
    ) -> Result<Value, ParseError> {
        let number = self.entity_number(start, digits, self.func.value_count())?;
        while self.func.value_count() <= number {
            self.func.create_value(Type::R);
        }
        Ok(Value::new(number))
    }

    pub(super) fn block_named(&mut self) -> Result<Block, ParseError> {
        self.cursor.skip_blanks();
        let start = self.cursor.at;
        let word = self.cursor.word();
        if !is_block_name(word) {
            return Err(self.cursor.error_at(start, "expected a block"));
        }
        let number = self.entity_number(start, &word["block".len()..], self.func.block_count())?;
        while self.func.block_count() <= number {
            self.func.create_block();
        }
        Ok(Block::new(number))
    }

    pub(super) fn ty(&mut self) -> Result<Type, ParseError> {
        self.cursor.skip_blanks();
        let start = self.cursor.at;
        let word = self.cursor.word();
        parse_type(word).ok_or_else(|| {
            self.cursor
                .error_at(start, format!("`{word}` is not a register type"))
        })
    }

    fn blocks(&mut self) -> Result<(), ParseError> {
        loop {
            self.cursor.skip_lines();
            if self.cursor.eat(b'}') {
                return Ok(());
            }
            let start = self.cursor.at;
            let block = self.block_named()?;
            if self.func.layout.contains_block(block) {
                return Err(self
                    .cursor
                    .error_at(start, format!("{block} is there twice")));
            }
            self.func.layout.append_block(block);
            self.block_params(block)?;
            self.cursor.expect(b':')?;
            loop {
                self.cursor.skip_lines();
                if self.cursor.peek() == Some(b'}') || self.at_block() {
                    break;
                }
                if self.cursor.peek().is_none() {
                    return Err(self
                        .cursor
                        .error(format!("`{}` has no closing `}}`", self.func.name)));
                }
                self.inst(block)?;
                self.end_of_line()?;
            }
        }
    }

    fn at_block(&self) -> bool {
        self.cursor.peek() == Some(b'b') && is_block_name(self.cursor.clone().word())
    }

    fn block_params(&mut self, block: Block) -> Result<(), ParseError> {
        if !self.cursor.eat(b'(') {
            return Ok(());
        }
        loop {
            self.cursor.skip_blanks();
            let start = self.cursor.at;
            let operand = self.definition()?;
            let Some(value) = operand.as_value() else {
                return Err(self
                    .cursor
                    .error_at(start, "a block's parameters are values"));
            };
            if self.func.block_params(block).len() >= usize::from(u16::MAX) {
                return Err(self.cursor.error_at(start, "too many parameters"));
            }
            self.func.push_block_param(block, value);
            if self.cursor.eat(b')') {
                return Ok(());
            }
            self.cursor.expect(b',')?;
        }
    }

    /// Gives `value` the type written at its definition.
    pub(super) fn set_defined_type(
        &mut self,
        start: usize,
        value: Value,
        ty: Type,
    ) -> Result<(), ParseError> {
        if self.func.value_def(value) != ValueDef::None && self.func.value_type(value) != ty {
            let message = format!(
                "{value} is defined twice, as {} and as {ty}",
                self.func.value_type(value)
            );
            return Err(self.cursor.error_at(start, message));
        }
        self.func.set_value_type(value, ty);
        Ok(())
    }

    fn inst(&mut self, block: Block) -> Result<(), ParseError> {
        let control = if self.cursor.peek() == Some(b'[') {
            self.control()?
        } else {
            ControlWord::NONE
        };
        let guard = self.guard()?;
        self.operands.clear();
        self.kept.clear();
        self.uses.clear();
        self.defs.clear();
        self.edges.clear();
        let mut results = self.results()?;
        let strong = self.cursor.eat(b'!');
        let start = self.cursor.at;
        let operation = self.operation()?;
        match operation {
            Operation::Abstract(..) if strong => {
                let message = "only a machine's accesses are marked by `!`";
                return Err(self.cursor.error_at(start, message));
            }
            Operation::Abstract(op, _) => {
                let row = op.row();
                fill_omitted(&mut self.operands, 0, row.results);
                results = self.operands.len();
                self.abstract_operands()?;
                fill_omitted(&mut self.operands, results, row.operands);
            }
            Operation::Machine(op, _) if results == 0 => self.machine_operands(start, op)?,
            Operation::Machine(..) => {
                return Err(self.cursor.error_at(
                    start,
                    "a machine operation names what it defines among its operands",
                ));
            }
        }
        if self.cursor.eat_text("->") {
            loop {
                let edge = self.edge()?;
                self.edges.push(edge);
                if !self.cursor.eat(b',') {
                    break;
                }
            }
        }
        if self.cursor.eat_text("uses(") {
            let mut uses = std::mem::take(&mut self.uses);
            self.operand_list(&mut uses, false)?;
            self.uses = uses;
        }
        if self.cursor.eat_text("defs(") {
            let mut defs = std::mem::take(&mut self.defs);
            self.operand_list(&mut defs, true)?;
            self.defs = defs;
        }
        let groups = [&self.operands, &self.kept, &self.uses, &self.defs];
        if groups.iter().map(|group| group.len()).sum::<usize>() > usize::from(u16::MAX) {
            return Err(self.cursor.error("too many operands"));
        }
        let inst = match operation {
            Operation::Abstract(op, mods) => {
                self.func.create_abstract(op, mods, results, &self.operands)
            }
            Operation::Machine(op, mods) => self.func.create_machine(op, mods, &self.operands),
        };
        if !self.kept.is_empty() {
            self.func.set_kept(inst, &self.kept);
        }
        if !self.uses.is_empty() || !self.defs.is_empty() {
            self.func.set_implicit(inst, &self.uses, &self.defs);
        }
        if !self.edges.is_empty() {
            self.func.set_edges(inst, &self.edges);
        }
        self.func.set_guard(inst, guard);
        self.func.set_strong(inst, strong);
        self.func.set_control(inst, control);
        if self.cursor.eat(b'#') {
            let number = self.cursor.number32()?;
            if number == u32::MAX {
                return Err(self.cursor.error("there is no such location"));
            }
            self.func.set_span(inst, Some(Span::from_u32(number)));
        }
        self.func.layout.append_inst(inst, block);
        Ok(())
    }

    fn guard(&mut self) -> Result<Guard, ParseError> {
        if !self.cursor.eat(b'@') {
            return Ok(Guard::ALWAYS);
        }
        let negated = self.cursor.eat(b'!');
        let reg = self.reg()?;
        Ok(if negated {
            Guard::unless(reg)
        } else {
            Guard::when(reg)
        })
    }

    /// The definitions before `=`, if the line starts with some; how many.
    fn results(&mut self) -> Result<usize, ParseError> {
        if !self.at_register() {
            return Ok(0);
        }
        loop {
            self.defined_operand()?;
            if !self.cursor.eat(b',') {
                break;
            }
        }
        self.cursor.expect(b'=')?;
        self.cursor.skip_blanks();
        Ok(self.operands.len())
    }

    /// Reads a definition, with the value it keeps, into the instruction's groups.
    fn defined_operand(&mut self) -> Result<(), ParseError> {
        let operand = self.definition()?;
        self.operands.push(operand);
        if self.cursor.eat(b'~') {
            let start = self.cursor.at;
            let kept = self.operand(&[])?;
            if !matches!(kept, Operand::Reg { mods, .. } if mods.is_empty()) {
                let message = "expected what the result keeps, a register";
                return Err(self.cursor.error_at(start, message));
            }
            self.kept.push(kept);
        }
        Ok(())
    }

    fn operation(&mut self) -> Result<Operation, ParseError> {
        self.cursor.skip_blanks();
        let start = self.cursor.at;
        let word = self.cursor.dotted();
        if let Some(&operation) = self.operations.get(word) {
            return Ok(operation);
        }
        if word.is_empty() {
            return Err(self.cursor.error("expected an operation"));
        }
        let operation =
            mnemonic::parse(word).map_err(|message| self.cursor.error_at(start, message))?;
        self.operations.insert(word, operation);
        Ok(operation)
    }

    /// Whether an operand may follow: something other than an edge list, a list of implicit registers, or a location.
    fn at_operand(&mut self) -> bool {
        if self.cursor.at_line_end() {
            return false;
        }
        match self.cursor.peek() {
            Some(b'#') => false,
            Some(b'-') => self.cursor.peek_second() != Some(b'>'),
            Some(b'u' | b'd') => {
                let mut ahead = self.cursor.clone();
                !(ahead.eat_text("uses(") || ahead.eat_text("defs("))
            }
            _ => true,
        }
    }

    fn abstract_operands(&mut self) -> Result<(), ParseError> {
        if !self.at_operand() {
            return Ok(());
        }
        loop {
            let operand = self.operand(&[])?;
            self.operands.push(operand);
            if !self.cursor.eat(b',') {
                return Ok(());
            }
        }
    }

    fn machine_operands(&mut self, start: usize, op: orias_sass::Op) -> Result<(), ParseError> {
        let slots = op.row().slots;
        for (index, slot) in slots.iter().enumerate() {
            let more = if index == 0 {
                self.at_operand()
            } else {
                self.cursor.eat(b',')
            };
            if !more {
                let message = format!(
                    "`{op}` has {} operands: `{}` is missing",
                    slots.len(),
                    slot.name
                );
                return Err(self.cursor.error_at(start, message));
            }
            if slot.access.writes() {
                self.defined_operand()?;
                continue;
            }
            self.cursor.skip_blanks();
            let operand = if machine::is_jump_slot(op, index) && self.at_block() {
                let edge = self.edge()?;
                self.edges.push(edge);
                Operand::Edge(self.edges.len() as u32 - 1)
            } else {
                self.operand(slot.selects)?
            };
            self.operands.push(operand);
        }
        Ok(())
    }

    fn operand_list(&mut self, list: &mut Vec<Operand>, defined: bool) -> Result<(), ParseError> {
        loop {
            let operand = if defined {
                self.definition()?
            } else {
                self.operand(&[])?
            };
            list.push(operand);
            if self.cursor.eat(b')') {
                return Ok(());
            }
            self.cursor.expect(b',')?;
        }
    }

    fn edge(&mut self) -> Result<Edge, ParseError> {
        let block = self.block_named()?;
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        if self.cursor.eat(b'(') {
            loop {
                self.cursor.skip_blanks();
                let start = self.cursor.at;
                let Some(value) = self.reg()?.value() else {
                    return Err(self
                        .cursor
                        .error_at(start, "the arguments of an edge are values"));
                };
                values.push(value);
                if self.cursor.eat(b')') {
                    break;
                }
                self.cursor.expect(b',')?;
            }
        }
        let edge = self.func.create_edge(block, &values);
        self.values = values;
        Ok(edge)
    }
}

/// Puts back what the text form leaves out: places at the end that may be empty. The group starts at `start`.
fn fill_omitted(operands: &mut Vec<Operand>, start: usize, slots: &[Slot]) {
    while let Some(slot) = slots.get(operands.len() - start) {
        if slot.arity != Arity::Optional {
            break;
        }
        operands.push(Operand::None);
    }
}

pub(super) fn is_block_name(word: &str) -> bool {
    word.strip_prefix("block")
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// `r`, `rx2`, `ur`, …
fn parse_type(word: &str) -> Option<Type> {
    let (class, len) = match word.split_once('x') {
        Some((class, len)) => (class, len.parse().ok().filter(|&len| len > 1)?),
        None => (word, 1),
    };
    let class = Class::ALL
        .into_iter()
        .find(|have| have.type_name() == class)?;
    Type::tuple(class, len)
}
