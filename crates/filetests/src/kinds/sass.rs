//! Tests of single instructions and words of SASS, one a line. Addresses count from 0.

use super::Arguments;
use crate::case::Case;
use orias_sass::text::{parse_instruction, print_instruction};
use orias_sass::{Target, decode, encode};

/// Bytes of an instruction.
const WORD: usize = 16;

pub(super) fn asm(case: &Case<'_>) -> Result<String, String> {
    let target = target(case)?;
    let mut output = String::new();
    for (index, line) in lines(case).enumerate() {
        let pc = (index * WORD) as u64;
        let instruction = match parse_instruction(line, pc, target) {
            Ok(parsed) if parsed.label.is_none() => parsed.instruction,
            Ok(_) => return Err(format!("'{line}' names a label")),
            Err(error) => {
                output += &format!("error: {error}\n");
                continue;
            }
        };
        match encode(&instruction) {
            Ok(word) if decode(word, target).as_ref() == Ok(&instruction) => {
                output += &format!("{word:032x}\n");
            }
            Ok(word) => return Err(format!("{word:032x} decodes to another instruction")),
            Err(error) => output += &format!("error: {error}\n"),
        }
    }
    Ok(output)
}

pub(super) fn disasm(case: &Case<'_>) -> Result<String, String> {
    let target = target(case)?;
    let mut output = String::new();
    for (index, line) in lines(case).enumerate() {
        let word = u128::from_str_radix(line, 16)
            .map_err(|_| format!("'{line}' is not a word of 32 hexadecimal digits"))?;
        match decode(word, target) {
            Ok(instruction) => {
                let pc = (index * WORD) as u64;
                let text = print_instruction(&instruction, pc);
                output += &format!("{} {text} ;\n", instruction.control);
            }
            Err(error) => output += &format!("error: {error}\n"),
        }
    }
    Ok(output)
}

fn target(case: &Case<'_>) -> Result<Target, String> {
    let arguments = Arguments::parse(case, &["--arch"], &[])?;
    arguments.no_more_words(case.kind)?;
    let name = arguments.value("--arch").unwrap_or(Target::DEFAULT.name());
    Target::from_name(name).ok_or_else(|| format!("'{name}' is no target"))
}

/// The lines that are neither empty nor comments.
fn lines<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a str> {
    let comment = case.file_type.comment;
    case.input
        .lines()
        .map(str::trim)
        .filter(move |line| !line.is_empty() && !line.starts_with(comment))
}
