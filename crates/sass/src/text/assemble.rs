//! Listings to words.
//!
//! A listing is lines: labels (`name:`), directives (`.name arguments`) and instructions
//! (`[B------:R-:W-:-:S01] @P0 BRA `(.L_x_1) ;`). `//` and `/* … */` are comments. A function starts with `.kernel NAME`, `.func NAME` or,
//! in nvdisasm's listings, `.section .text.NAME`; labels belong to the function they stand in. Each function is read
//! twice in effect: once to place its labels, then to give every target its distance.
//!
//! Directives describe what is not code. They are checked for their name and number of arguments here ([`DIRECTIVES`]) and kept
//! for whoever makes the container.

use crate::encode::encode;
use crate::instruction::Instruction;
use crate::operand::Operand;
use crate::table::PlaceKind;
use crate::target::Target;
use crate::text::parse::parse_instruction;
use std::collections::BTreeMap;

/// What a directive says, and how many arguments it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectiveRow {
    /// Its name, with the dot.
    pub name: &'static str,
    /// The fewest arguments.
    pub least: usize,
    /// The most arguments.
    pub most: usize,
    /// What it says.
    pub about: &'static str,
}

macro_rules! directives {
    ($($name:literal $least:literal ..= $most:literal $about:literal),* $(,)?) => {
        &[$(DirectiveRow { name: $name, least: $least, most: $most, about: $about }),*]
    };
}

/// Every directive a listing may have.
#[rustfmt::skip]
pub const DIRECTIVES: &[DirectiveRow] = directives![
    ".target"     1..=1  "the target: sm_90a",
    ".kernel"     1..=1  "a kernel starts here; its name",
    ".func"       1..=1  "a device function starts here; its name",
    ".param"      1..=3  "a kernel parameter: size in bytes, alignment (the size), name",
    ".registers"  1..=1  "registers per thread",
    ".barriers"   1..=1  "named barriers used",
    ".shared"     1..=2  "static shared memory in bytes, alignment",
    ".dynshared"  0..=1  "uses dynamic shared memory; its alignment",
    ".local"      1..=1  "bytes of stack per thread",
    ".maxntid"    1..=3  "most threads per block: x, y, z",
    ".reqntid"    1..=3  "threads per block: x, y, z",
    ".minnctapersm" 1..=1 "fewest blocks per multiprocessor",
    ".cluster"    1..=3  "blocks per cluster: x, y, z",
    ".const"      2..=4096 "bytes of a constant bank: bank, offset, then bytes in hexadecimal",
    ".data"       2..=4096 "a device global: name, size, then bytes in hexadecimal (zero where none are given)",
    ".address"    1..=1  "the next 64-bit entry of bank 4: the address of a device global",
    ".table"      2..=4096 "a jump table in bank 2: offset, then labels, each a 32-bit code address",
    ".word"       2..=2  "a raw word: upper and lower half",
    ".section"    1..=4  "nvdisasm: a section starts; `.text.NAME` starts function NAME",
    ".elftype"    1..=1  "nvdisasm: the kind of ELF file",
    ".align"      1..=1  "nvdisasm: the section's alignment",
    ".global"     1..=1  "nvdisasm: a global symbol",
    ".weak"       1..=1  "nvdisasm: a weak symbol",
    ".type"       2..=2  "nvdisasm: a symbol's type",
    ".size"       2..=2  "nvdisasm: a symbol's size",
    ".other"      2..=2  "nvdisasm: a symbol's visibility",
    ".sectioninfo"  1..=4 "nvdisasm: facts about a section",
    ".sectionflags" 1..=4 "nvdisasm: flags of a section",
    ".sectionentsize" 1..=1 "nvdisasm: size of a section's entries",
    ".headerflags"  1..=1 "nvdisasm: flags of the ELF header",
];

/// A directive as it stands in the listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directive {
    /// Its row.
    pub row: &'static DirectiveRow,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its line, from 1.
    pub line: usize,
}

impl Directive {
    /// Argument `index` as a number, in decimal or `0x` hexadecimal.
    pub fn number(&self, index: usize) -> Result<u64, AssembleError> {
        let text = self.arguments.get(index).map_or("", String::as_str);
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        }
        .map_err(|_| AssembleError {
            line: self.line,
            column: 1,
            message: format!("{}: '{text}' is not a number", self.row.name),
        })
    }
}

/// A function of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssembledFunction {
    /// Its name.
    pub name: String,
    /// Whether it started with `.kernel`.
    pub kernel: bool,
    /// The line it starts on.
    pub line: usize,
    /// Its directives, in order.
    pub directives: Vec<Directive>,
    /// Its words.
    pub words: Vec<u128>,
    /// The line of each word.
    pub lines: Vec<usize>,
    /// Its labels by name.
    pub labels: BTreeMap<String, u64>,
    /// Indirect branches and their targets.
    pub branch_targets: BTreeMap<u64, Vec<u64>>,
}

/// An assembled listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assembly {
    /// What `.target` says, or the default the caller gave.
    pub target: Target,
    /// Directives before the first function.
    pub directives: Vec<Directive>,
    /// The functions, in order.
    pub functions: Vec<AssembledFunction>,
}

/// What is wrong with a listing, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct AssembleError {
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// A word of a function, and the label its target still needs.
struct Pending {
    content: Content,
    line: usize,
    label: Option<(String, usize)>,
}

enum Content {
    Instruction(Box<Instruction>),
    Word(u128),
}

struct OpenFunction {
    function: AssembledFunction,
    pending: Vec<Pending>,
    indirect: Vec<(u64, Vec<String>, usize)>,
}

/// Assembles a listing. `default_target` holds until a `.target` says otherwise. Reports every line that is wrong.
pub fn assemble(text: &str, default_target: Target) -> Result<Assembly, Vec<AssembleError>> {
    let mut assembly = Assembly {
        target: default_target,
        directives: Vec::new(),
        functions: Vec::new(),
    };
    let mut errors = Vec::new();
    let mut open: Option<OpenFunction> = None;
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let result = blank_comments(raw)
            .map_err(|column| AssembleError {
                line,
                column,
                message: "the comment does not end on this line".to_owned(),
            })
            .and_then(|clean| read_line(&clean, line, &mut assembly, &mut open, &mut errors));
        if let Err(error) = result {
            errors.push(error);
        }
    }
    if let Some(function) = open {
        close(function, &mut assembly, &mut errors);
    }
    if errors.is_empty() {
        Ok(assembly)
    } else {
        errors.sort_by_key(|error| (error.line, error.column));
        Err(errors)
    }
}

/// Replaces comments by spaces, so that columns stay true. The error is the column of a comment that does not end.
fn blank_comments(line: &str) -> Result<String, usize> {
    let mut clean = String::with_capacity(line.len());
    let mut rest = line;
    loop {
        let block = rest.find("/*");
        let end_of_line = rest.find("//");
        match (block, end_of_line) {
            (Some(start), other) if other.is_none_or(|other| start < other) => {
                let Some(length) = rest[start + 2..].find("*/") else {
                    return Err(clean.len() + start + 1);
                };
                let end = start + 2 + length + 2;
                clean.push_str(&rest[..start]);
                clean.extend(std::iter::repeat_n(' ', end - start));
                rest = &rest[end..];
            }
            (_, Some(start)) => {
                clean.push_str(&rest[..start]);
                return Ok(clean);
            }
            (_, None) => {
                clean.push_str(rest);
                return Ok(clean);
            }
        }
    }
}

fn read_line(
    line_text: &str,
    line: usize,
    assembly: &mut Assembly,
    open: &mut Option<OpenFunction>,
    errors: &mut Vec<AssembleError>,
) -> Result<(), AssembleError> {
    let text = line_text.trim();
    let start = line_text.len() - line_text.trim_start().len();
    let error = |column: usize, message: String| AssembleError {
        line,
        column: start + column,
        message,
    };
    if text.is_empty() {
        return Ok(());
    }
    if let Some(label) = text.strip_suffix(':') {
        let Some(open) = open else {
            return Err(error(1, format!("label '{label}' stands in no function")));
        };
        if label.is_empty() || label.contains(char::is_whitespace) {
            return Err(error(1, format!("'{label}' is not a label")));
        }
        let address = open.pending.len() as u64 * 16;
        let before = open.function.labels.insert(label.to_owned(), address);
        if before.is_some_and(|before| before != address) {
            return Err(error(1, format!("label '{label}' is given twice")));
        }
        return Ok(());
    }
    if text.starts_with('.') {
        return directive(text, line, start, assembly, open, errors);
    }
    let Some(open) = open else {
        return Err(error(
            1,
            "an instruction stands in no function: `.kernel NAME` starts one".to_owned(),
        ));
    };
    let pc = open.pending.len() as u64 * 16;
    let text = indirect_targets(text, pc, line, open).map_err(|message| error(1, message))?;
    let parsed = parse_instruction(text, pc, assembly.target)
        .map_err(|wrong| error(wrong.column, wrong.message))?;
    open.pending.push(Pending {
        content: Content::Instruction(Box::new(parsed.instruction)),
        line,
        label: parsed.label.map(|(label, column)| (label, start + column)),
    });
    Ok(())
}

/// Takes `(*"BRANCH_TARGETS a,b"*)` off the end of an instruction and remembers the labels.
fn indirect_targets<'t>(
    text: &'t str,
    pc: u64,
    line: usize,
    open: &mut OpenFunction,
) -> Result<&'t str, String> {
    let Some((before, after)) = text.split_once("(*") else {
        return Ok(text);
    };
    let labels = after
        .strip_prefix("\"BRANCH_TARGETS ")
        .and_then(|rest| rest.split_once("\"*)"))
        .filter(|(_, rest)| matches!(rest.trim(), "" | ";"))
        .map(|(labels, _)| {
            labels
                .split(',')
                .map(|label| label.trim().to_owned())
                .collect()
        })
        .ok_or("`(*` starts a list of branch targets: (*\"BRANCH_TARGETS label,label\"*)")?;
    open.indirect.push((pc, labels, line));
    Ok(before)
}

fn directive(
    text: &str,
    line: usize,
    start: usize,
    assembly: &mut Assembly,
    open: &mut Option<OpenFunction>,
    errors: &mut Vec<AssembleError>,
) -> Result<(), AssembleError> {
    let error = |message: String| AssembleError {
        line,
        column: start + 1,
        message,
    };
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let row = DIRECTIVES
        .iter()
        .find(|row| row.name == name)
        .ok_or_else(|| error(format!("unknown directive '{name}'")))?;
    let arguments: Vec<String> = if rest.trim().is_empty() {
        Vec::new()
    } else {
        rest.split(',')
            .map(|argument| argument.trim().trim_matches('"').to_owned())
            .collect()
    };
    if arguments.len() < row.least || arguments.len() > row.most {
        return Err(error(format!(
            "{name} takes {} to {} arguments ({}), not {}",
            row.least,
            row.most,
            row.about,
            arguments.len()
        )));
    }
    let directive = Directive {
        row,
        arguments,
        line,
    };
    let starts = match name {
        ".kernel" | ".func" => Some((directive.arguments[0].clone(), name == ".kernel")),
        ".section" => directive.arguments[0]
            .strip_prefix(".text.")
            .map(|name| (name.to_owned(), false)),
        _ => None,
    };
    if let Some((name, kernel)) = starts {
        if let Some(function) = open.take() {
            close(function, assembly, errors);
        }
        if assembly
            .functions
            .iter()
            .any(|function| function.name == name)
        {
            return Err(error(format!("function '{name}' is given twice")));
        }
        *open = Some(OpenFunction {
            function: AssembledFunction {
                labels: BTreeMap::from([(name.clone(), 0)]),
                name,
                kernel,
                line,
                directives: Vec::new(),
                words: Vec::new(),
                lines: Vec::new(),
                branch_targets: BTreeMap::new(),
            },
            pending: Vec::new(),
            indirect: Vec::new(),
        });
        return Ok(());
    }
    match (name, open) {
        (".target", _) => {
            assembly.target = Target::from_name(&directive.arguments[0]).ok_or_else(|| {
                error(format!(
                    "'{}' is not a target of the tables",
                    directive.arguments[0]
                ))
            })?;
        }
        (".word", Some(open)) => {
            let word = u128::from(directive.number(0)?) << 64 | u128::from(directive.number(1)?);
            open.pending.push(Pending {
                content: Content::Word(word),
                line,
                label: None,
            });
        }
        (".word", None) => return Err(error("a word stands in no function".to_owned())),
        (_, Some(open)) => open.function.directives.push(directive),
        (_, None) => assembly.directives.push(directive),
    }
    Ok(())
}

/// Gives every target its distance and encodes the function.
fn close(open: OpenFunction, assembly: &mut Assembly, errors: &mut Vec<AssembleError>) {
    let mut function = open.function;
    for (index, pending) in open.pending.into_iter().enumerate() {
        let pc = index as i64 * 16;
        let line = pending.line;
        let column = pending.label.as_ref().map_or(1, |(_, column)| *column);
        let word = match pending.content {
            Content::Word(word) => Ok(word),
            Content::Instruction(mut instruction) => resolve(
                &mut instruction,
                pc,
                pending.label.as_ref(),
                &function.labels,
            )
            .and_then(|()| encode(&instruction).map_err(|wrong| wrong.to_string())),
        };
        match word {
            Ok(word) => {
                function.words.push(word);
                function.lines.push(line);
            }
            Err(message) => errors.push(AssembleError {
                line,
                column,
                message,
            }),
        }
    }
    for (address, labels, line) in open.indirect {
        let mut targets = Vec::new();
        for label in labels {
            match function.labels.get(&label) {
                Some(target) => targets.push(*target),
                None => errors.push(AssembleError {
                    line,
                    column: 1,
                    message: format!("no label '{label}' in function '{}'", function.name),
                }),
            }
        }
        function.branch_targets.insert(address, targets);
    }
    assembly.functions.push(function);
}

fn resolve(
    instruction: &mut Instruction,
    pc: i64,
    label: Option<&(String, usize)>,
    labels: &BTreeMap<String, u64>,
) -> Result<(), String> {
    let Some((label, _)) = label else {
        return Ok(());
    };
    let address = labels
        .get(label)
        .ok_or_else(|| format!("no label '{label}' in this function"))?;
    let relative = instruction
        .operands()
        .iter()
        .zip(instruction.form().places)
        .any(|(operand, place)| {
            matches!(
                (operand, &place.kind),
                (Operand::Target(_), PlaceKind::Target { relative: true, .. })
            )
        });
    if relative {
        return Err(format!(
            "{} takes a distance, not a label",
            instruction.op()
        ));
    }
    instruction
        .set_target(*address as i64 - pc - 16)
        .map_err(|wrong| format!("label '{label}': {wrong}"))
}
