//! Whole programs as text: labels numbered and lines laid out as `nvdisasm -c` does.
//!
//! Numbers for `.L_x_N` are given in three rounds over all sections. First, in code order, every target of a branch or of a
//! relocated code address that is not a symbol's address, at its first mention. Then each indirect branch (BRX) takes a number for itself and one for each entry of
//! its table, used only where the address has no name yet. Last, every function symbol, in the order of the symbol table, takes
//! one for its end, used again only where there is no name yet.

use crate::decode::{DecodeError, decode};
use crate::instruction::Instruction;
use crate::operand::Operand;
use crate::table::PlaceKind;
use crate::target::Target;
use crate::text::print::{Printer, push_decimal, push_hex};
use std::collections::BTreeMap;

/// Who sees a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Binding {
    /// This file.
    #[default]
    Local,
    /// Everyone.
    Global,
    /// Everyone, unless there is a global one.
    Weak,
}

/// A function symbol of a code section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodeSymbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its address in the section.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its place in the symbol table.
    pub order: usize,
    /// Who sees it.
    pub binding: Binding,
}

/// What a loader writes into an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeRelocation<'a> {
    /// The address of the instruction.
    pub address: u64,
    /// The symbol.
    pub symbol: &'a str,
    /// What of it is written.
    pub part: RelocatedPart,
}

/// The part of a symbol's address that a relocation writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelocatedPart {
    /// All of it.
    Whole,
    /// The lower half of the address so many bytes after the symbol's section starts.
    Low(u64),
    /// The upper half of that.
    High(u64),
}

/// The targets an indirect branch may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BranchTable<'a> {
    /// The address of the branch.
    pub address: u64,
    /// Its targets, in the order of its table, repeated ones included.
    pub targets: &'a [u64],
}

/// A section of code to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct CodeSection<'a> {
    /// Its words.
    pub words: &'a [u128],
    /// Its function symbols.
    pub symbols: &'a [CodeSymbol<'a>],
    /// Its indirect branches.
    pub branch_tables: &'a [BranchTable<'a>],
    /// Its relocations.
    pub relocations: &'a [CodeRelocation<'a>],
}

/// Code decoded, with a name for every address that something refers to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedSection {
    /// The instructions, or why a word is not one.
    pub instructions: Vec<Result<Instruction, DecodeError>>,
    /// Names by address: symbols and `.L_x_N` labels.
    pub labels: BTreeMap<u64, String>,
    /// The targets of each indirect branch, each named once.
    pub branch_targets: BTreeMap<u64, Vec<u64>>,
    /// How many columns after its address the targets of an indirect branch stand: where the longest line of the listing ends.
    pub branch_targets_column: usize,
    /// What stands for the last operand of a relocated instruction.
    pub relocated: BTreeMap<u64, String>,
    /// The directives before the label of each function inside another.
    pub subroutines: BTreeMap<u64, String>,
}

/// Decodes sections and numbers their labels together, as one listing.
#[must_use]
pub fn list(sections: &[CodeSection<'_>], target: Target) -> Vec<ListedSection> {
    let mut listed: Vec<ListedSection> = sections
        .iter()
        .map(|section| ListedSection {
            instructions: section
                .words
                .iter()
                .map(|word| decode(*word, target))
                .collect(),
            labels: named_symbols(section),
            branch_targets: BTreeMap::new(),
            branch_targets_column: 0,
            relocated: BTreeMap::new(),
            subroutines: BTreeMap::new(),
        })
        .collect();
    let mut next = 0u64;
    // Labels of relocations take the first numbers, those of branches the following ones.
    for (section, listed) in sections.iter().zip(&mut listed) {
        let size = section.words.len() as u64 * 16;
        for relocation in section.relocations {
            if let RelocatedPart::Low(address) | RelocatedPart::High(address) = relocation.part
                && address <= size
            {
                name(&mut listed.labels, address, &mut next, false);
            }
            let text = relocation_text(relocation, &listed.labels);
            listed.relocated.insert(relocation.address, text);
        }
    }
    for (section, listed) in sections.iter().zip(&mut listed) {
        let size = section.words.len() as u64 * 16;
        for (index, instruction) in listed.instructions.iter().enumerate() {
            let Ok(instruction) = instruction else {
                continue;
            };
            let pc = index as u64 * 16;
            if !listed.relocated.contains_key(&pc)
                && let Some(address) = named_target(instruction, pc)
                && address <= size
            {
                name(&mut listed.labels, address, &mut next, false);
            }
        }
    }
    for (section, listed) in sections.iter().zip(&mut listed) {
        for table in section.branch_tables {
            name(&mut listed.labels, table.address, &mut next, true);
            let mut targets: Vec<u64> = Vec::new();
            for address in table.targets {
                name(&mut listed.labels, *address, &mut next, true);
                if !targets.contains(address) {
                    targets.push(*address);
                }
            }
            listed.branch_targets.insert(table.address, targets);
        }
    }
    let mut symbols: Vec<(usize, usize, u64)> = sections
        .iter()
        .enumerate()
        .flat_map(|(index, section)| {
            section
                .symbols
                .iter()
                .map(move |symbol| (symbol.order, index, end_of(symbol)))
        })
        .collect();
    symbols.sort_unstable();
    for (_, index, end) in symbols {
        name(&mut listed[index].labels, end, &mut next, true);
    }
    for (section, listed) in sections.iter().zip(&mut listed) {
        for symbol in section.symbols.iter().filter(|symbol| symbol.address > 0) {
            if listed.labels.get(&symbol.address).map(String::as_str) == Some(symbol.name) {
                let lines = symbol_lines(symbol, &listed.labels);
                listed.subroutines.insert(symbol.address, lines);
            }
        }
    }
    if listed.iter().any(|it| !it.branch_targets.is_empty()) {
        let widths = listed.iter().map(ListedSection::widest);
        let widest = widths.max().unwrap_or_default();
        for section in &mut listed {
            section.branch_targets_column = widest;
        }
    }
    listed
}

/// A symbol may claim any size.
fn end_of(symbol: &CodeSymbol<'_>) -> u64 {
    symbol.address.saturating_add(symbol.size)
}

/// What nvdisasm says about a function before its label.
fn symbol_lines(symbol: &CodeSymbol<'_>, labels: &BTreeMap<u64, String>) -> String {
    let name = symbol.name;
    let mut lines = match symbol.binding {
        Binding::Local => String::new(),
        Binding::Global => format!("        .global         {name}\n"),
        Binding::Weak => format!("        .weak           {name}\n"),
    };
    lines.push_str(&format!("        .type           {name},@function\n"));
    if let Some(end) = labels.get(&end_of(symbol)) {
        lines.push_str(&format!(
            "        .size           {name},({end} - {name})\n"
        ));
    }
    lines
}

/// What nvdisasm prints in place of the operand.
fn relocation_text(relocation: &CodeRelocation<'_>, labels: &BTreeMap<u64, String>) -> String {
    let symbol = relocation.symbol;
    let (half, address) = match relocation.part {
        RelocatedPart::Whole => return format!("`({symbol})"),
        RelocatedPart::Low(address) => ("lo", address),
        RelocatedPart::High(address) => ("hi", address),
    };
    match labels.get(&address) {
        Some(label) => format!("32@{half}(({symbol} + {label}@srel))"),
        None => format!("32@{half}(({symbol} + {address:#x}))"),
    }
}

/// The first symbol of the table at each address names it.
fn named_symbols(section: &CodeSection<'_>) -> BTreeMap<u64, String> {
    let mut symbols: Vec<&CodeSymbol<'_>> = section.symbols.iter().collect();
    symbols.sort_by_key(|symbol| symbol.order);
    let mut names = BTreeMap::new();
    for symbol in symbols {
        names
            .entry(symbol.address)
            .or_insert_with(|| symbol.name.to_owned());
    }
    names
}

/// Names `address` if nothing does. `always` takes a number even if it is not needed.
fn name(labels: &mut BTreeMap<u64, String>, address: u64, next: &mut u64, always: bool) {
    if let std::collections::btree_map::Entry::Vacant(entry) = labels.entry(address) {
        let mut label = ".L_x_".to_owned();
        push_decimal(&mut label, *next);
        entry.insert(label);
        *next += 1;
    } else if always {
        *next += 1;
    }
}

/// The address an instruction's text names, if it names one.
fn named_target(instruction: &Instruction, pc: u64) -> Option<u64> {
    instruction
        .operands()
        .iter()
        .zip(instruction.form().places)
        .find_map(|(operand, place)| match (operand, &place.kind) {
            (
                Operand::Target(distance),
                PlaceKind::Target {
                    relative: false, ..
                },
            ) => pc.checked_add(16)?.checked_add_signed(*distance),
            _ => None,
        })
}

/// How a listing's lines look.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListingStyle {
    /// Put the control field before each instruction and keep what text would lose, so that the assembler gives the same words.
    pub control: bool,
}

impl ListedSection {
    /// Appends the section's lines: labels, instructions with their addresses, and the label at its end. A word that is not an
    /// instruction becomes a `.word` directive with a comment that says why.
    pub fn write(&self, out: &mut String, words: &[u128], style: ListingStyle) {
        let mut text = String::new();
        for (index, (instruction, word)) in self.instructions.iter().zip(words).enumerate() {
            let address = index as u64 * 16;
            if let Some(lines) = self.subroutines.get(&address) {
                out.push_str(lines);
            }
            if let Some(label) = self.labels.get(&address) {
                out.push_str(label);
                out.push_str(":\n");
            }
            out.push_str("        /*");
            push_address(out, address);
            out.push_str("*/");
            let instruction = match instruction {
                Ok(instruction) => instruction,
                Err(error) => {
                    out.push_str("                   .word ");
                    push_hex(out, (word >> 64) as u64);
                    out.push_str(", ");
                    push_hex(out, *word as u64);
                    out.push_str(" // ");
                    out.push_str(&error.to_string());
                    out.push('\n');
                    continue;
                }
            };
            if style.control {
                out.push(' ');
                out.push_str(&instruction.control.to_string());
            }
            text.clear();
            self.push_text(&mut text, instruction, address, style);
            let guard = guard_width(&text);
            for _ in guard..GUARD_COLUMNS {
                out.push(' ');
            }
            out.push_str(&text);
            if let Some(targets) = self.branch_targets.get(&address) {
                let width = GUARD_COLUMNS + text.len() - guard;
                self.push_branch_targets(out, width, targets);
                out.push_str(";\n");
            } else {
                out.push_str(end_of_line(instruction));
                out.push('\n');
            }
        }
        let end = self.instructions.len() as u64 * 16;
        if let Some(label) = self.labels.get(&end) {
            out.push_str(label);
            out.push_str(":\n");
        }
    }

    /// Columns from the end of an address to the end of the longest instruction in a plain listing.
    fn widest(&self) -> usize {
        let mut text = String::new();
        let mut widest = 0;
        for (index, instruction) in self.instructions.iter().enumerate() {
            let address = index as u64 * 16;
            let Ok(instruction) = instruction else {
                continue;
            };
            if !self.branch_targets.contains_key(&address) {
                text.clear();
                self.push_text(&mut text, instruction, address, ListingStyle::default());
                // A guard counts here, though it stands in the columns before.
                let width = GUARD_COLUMNS + text.len();
                widest = widest.max(width + end_of_line(instruction).len());
            }
        }
        widest
    }

    /// Appends an instruction as the listing has it, without its control field.
    fn push_text(
        &self,
        text: &mut String,
        instruction: &Instruction,
        address: u64,
        style: ListingStyle,
    ) {
        let printer = Printer {
            exact: style.control,
        };
        printer.write(text, instruction, address, |target| {
            let target = u64::try_from(target).ok()?;
            self.labels.get(&target).map(String::as_str)
        });
        // A relocated operand is the last one. The assembler has no relocations, so text for it keeps the word's value.
        if let Some(shown) = self.relocated.get(&address)
            && !style.control
            && let Some(space) = text.rfind(' ')
        {
            text.truncate(space + 1);
            text.push_str(shown);
        }
    }

    /// Appends the targets of an indirect branch, whose text so far is `width` columns wide.
    fn push_branch_targets(&self, out: &mut String, width: usize, targets: &[u64]) {
        for _ in width..self.branch_targets_column.max(width + 1) {
            out.push(' ');
        }
        out.push_str("(*\"BRANCH_TARGETS ");
        for (index, target) in targets.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            match self.labels.get(target) {
                Some(label) => out.push_str(label),
                None => push_hex(out, *target),
            }
        }
        out.push_str("\"*)");
    }
}

/// The guard is right-aligned in so many columns.
const GUARD_COLUMNS: usize = 19;

/// How much of an instruction's text is its guard. Guards stand in columns of their own, except uniform ones.
fn guard_width(text: &str) -> usize {
    if text.starts_with("@P") || text.starts_with("@!P") {
        text.find(' ').map_or(0, |space| space + 1)
    } else {
        0
    }
}

/// The semicolon: nvdisasm, having no scheduling hint to hide, leaves out the space before it.
fn end_of_line(instruction: &Instruction) -> &'static str {
    let control = instruction.control;
    let quiet = control.stall() == 0
        && !control.yields
        && control.wait.bits() == 0
        && control.read_barrier.is_none()
        && control.write_barrier.is_none()
        && control.monitor() == 0;
    if quiet { ";" } else { " ;" }
}

/// At least four hexadecimal digits.
fn push_address(out: &mut String, address: u64) {
    let mut digits = String::new();
    push_hex(&mut digits, address);
    for _ in digits.len()..6 {
        out.push('0');
    }
    out.push_str(&digits[2..]);
}
