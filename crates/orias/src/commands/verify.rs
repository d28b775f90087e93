//! `orias verify`: judges the control fields of a finished cubin.

use crate::report::Report;
use clap::Parser;
use orias_cubin::Cubin;
use orias_verify::program::Program;
use orias_verify::{Finding, Verdict, explain, judge};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Proves that no instruction of a cubin reads a value before it is there or overwrites one too early, or says which does.
#[derive(Parser)]
#[command(name = "verify", bin_name = "orias verify")]
struct Arguments {
    /// The cubin; `-` is standard input
    file: String,
    /// Say why the instruction at this offset waits as it does, in every function or in that of --function
    #[arg(long, value_parser = offset)]
    explain: Option<usize>,
    /// Only this function
    #[arg(long, requires = "explain")]
    function: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "explain")]
    json: bool,
}

/// An offset in hexadecimal or decimal.
fn offset(text: &str) -> Result<usize, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not an offset"))
}

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let file = &arguments.file;
    let failure =
        |error: &dyn std::fmt::Display| Report::failure("verify", format_args!("{file}: {error}"));
    let bytes = match super::read_input(file) {
        Ok(bytes) => bytes,
        Err(error) => return failure(&error),
    };
    let cubin = match Cubin::read(&bytes) {
        Ok(cubin) => cubin,
        Err(error) => return failure(&error),
    };
    if let Some(offset) = arguments.explain {
        return match explained(&cubin, offset, arguments.function.as_deref()) {
            Ok(text) => Report::success(text),
            Err(error) => failure(&error),
        };
    }
    match judge(&cubin) {
        Ok(verdict) => {
            let output = if arguments.json {
                format!("{:#}\n", to_json(&verdict))
            } else {
                to_text(&verdict)
            };
            Report {
                code: u8::from(!verdict.findings.is_empty()),
                ..Report::success(output)
            }
        }
        Err(error) => failure(&error),
    }
}

fn explained(cubin: &Cubin, offset: usize, only: Option<&str>) -> Result<String, String> {
    let target = orias::target_of(cubin)
        .ok_or_else(|| format!("not supported yet: code for {}", cubin.target()))?;
    let mut text = String::new();
    for function in cubin.functions() {
        if only.is_some_and(|name| name != function.name) {
            continue;
        }
        let program = Program::of(&function, target).map_err(|error| error.to_string())?;
        let said = explain(&program, offset).map_err(|error| error.to_string())?;
        text += &said.unwrap_or_default();
    }
    if text.is_empty() {
        return Err(format!("no instruction is at {offset:#x}"));
    }
    Ok(text)
}

fn to_text(verdict: &Verdict) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for finding in &verdict.findings {
        let _ = writeln!(text, "{finding}");
    }
    let _ = writeln!(
        text,
        "{} functions, {} instructions: {} findings",
        verdict.functions,
        verdict.instructions,
        verdict.findings.len()
    );
    text
}

fn to_json(verdict: &Verdict) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "check": finding.check.name(),
            "function": finding.function,
            "offset": finding.offset,
            "instruction": finding.instruction,
            "earlier": finding.earlier.as_ref().map(|(offset, text)| json!({
                "offset": offset,
                "instruction": text,
            })),
            "register": finding.register.map(|register| register.to_string()),
            "needed": finding.needed,
            "found": finding.found,
        })
    };
    json!({
        "functions": verdict.functions,
        "instructions": verdict.instructions,
        "findings": verdict.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}
