//! Tests of the judge: SASS listings in, what it finds out.

use super::Arguments;
use crate::case::Case;
use orias_sass::Target;
use orias_sass::text::{assemble, print_instruction};
use orias_verify::judge_program;
use orias_verify::mutate::{mutations, why_safe};
use orias_verify::program::Program;

/// The target of listings.
const TARGET: Target = Target::DEFAULT;

pub(super) fn judge(case: &Case<'_>) -> Result<String, String> {
    let arguments = Arguments::parse(case, &[], &["--words"])?;
    arguments.no_more_words(case.kind)?;
    let programs = match arguments.flags.contains(&"--words") {
        true => vec![words(case)?],
        false => listing(case)?,
    };
    let mut output = String::new();
    for program in &programs {
        let findings = judge_program(program).map_err(|error| error.to_string())?;
        if findings.is_empty() {
            output += &format!("{}: ok\n", program.name);
        }
        for finding in findings {
            output += &format!("{finding}\n");
        }
    }
    Ok(output)
}

pub(super) fn mutants(case: &Case<'_>) -> Result<String, String> {
    Arguments::parse(case, &[], &[])?.no_more_words(case.kind)?;
    let mut output = String::new();
    for program in listing(case)? {
        for (index, instruction) in program.instructions.iter().enumerate() {
            let pc = (index * orias_verify::program::WORD) as u64;
            output += &format!("{pc:#06x} {}\n", print_instruction(instruction, pc));
            for mutation in mutations(program.machine, instruction) {
                let mut mutant = program.clone();
                mutant.instructions[index].control = mutation
                    .control(instruction.control)
                    .ok_or("a mutation that changes nothing")?;
                let findings = judge_program(&mutant).map_err(|error| error.to_string())?;
                let verdict = match findings.first() {
                    Some(finding) => format!("reported: {}", finding.check),
                    None => {
                        let why = why_safe(&program, index, mutation);
                        format!("safe: {}", why.map_err(|error| error.to_string())?)
                    }
                };
                output += &format!("  {mutation}: {verdict}\n");
            }
        }
    }
    Ok(output)
}

/// The kernels of a listing.
fn listing(case: &Case<'_>) -> Result<Vec<Program>, String> {
    let assembly = assemble(case.input, TARGET).map_err(|errors| format!("{errors:?}"))?;
    (assembly.functions.iter())
        .map(|function| {
            let words = function.words.iter();
            let code: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
            Program::new(&function.name, &code, TARGET, |_| None).map_err(|error| error.to_string())
        })
        .collect()
}

/// What the judge finds in finished code.
pub(super) fn code(code: &[u8], target: Target) -> Result<String, String> {
    let program =
        Program::new("code", code, target, |_| None).map_err(|error| error.to_string())?;
    let findings = judge_program(&program).map_err(|error| error.to_string())?;
    if findings.is_empty() {
        return Ok("judge: ok\n".to_owned());
    }
    let lines = findings.iter().map(|finding| format!("judge: {finding}\n"));
    Ok(lines.collect())
}

/// Words of 32 hexadecimal digits, one a line.
fn words(case: &Case<'_>) -> Result<Program, String> {
    let comment = case.file_type.comment;
    let lines = case.input.lines().map(str::trim);
    let mut code = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with(comment)) {
        let word = u128::from_str_radix(line, 16)
            .map_err(|_| format!("'{line}' is not a word of 32 hexadecimal digits"))?;
        code.extend(word.to_le_bytes());
    }
    Program::new("words", &code, TARGET, |_| None).map_err(|error| error.to_string())
}
