//! Tests that run a kernel.

use crate::case::Case;
use orias::assemble_cubin;
use orias::run::Request;
use orias_sass::Target;
use std::fmt::Write as _;

/// Instructions of all threads after which a test counts as endless.
const STEP_LIMIT: u64 = 50_000_000;

pub(super) fn run(case: &Case<'_>) -> Result<String, String> {
    let lines = case.input.lines().filter_map(|line| {
        let line = line.strip_prefix(case.file_type.comment)?;
        line.trim_start().strip_prefix("run:").map(str::trim)
    });
    let lines: Vec<&str> = lines.collect();
    if lines.is_empty() {
        return one(case, &case.arguments);
    }
    let mut text = String::new();
    for line in lines {
        let words = line.split_whitespace();
        let words: Vec<&str> = case.arguments.iter().copied().chain(words).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "run: {line}");
        text += &one(case, &words)?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

/// The PTX, or the cubin of a listing.
fn code(case: &Case<'_>) -> Result<Vec<u8>, String> {
    if case.file_type.extension != "sass" {
        return Ok(case.input.as_bytes().to_vec());
    }
    let cubin = assemble_cubin(case.input, Target::DEFAULT).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })?;
    cubin.write().map_err(|error| error.to_string())
}

/// One run: a bad request is a broken test, everything else is something to print.
fn one(case: &Case<'_>, words: &[&str]) -> Result<String, String> {
    let mut request = Request::parse_words(words).map_err(|error| error.to_string())?;
    request.max_steps.get_or_insert(STEP_LIMIT);
    request.launch()?;
    let code = code(case)?;
    Ok(match request.execute(&code, &mut |_, _| {}) {
        Ok(answer) => match answer.failure {
            Some(failure) => format!("{}stopped: {failure}\n", answer.output),
            None => answer.output,
        },
        Err(error) => format!("error: {error}\n"),
    })
}
