//! Tests of Ori text.

use super::Arguments;
use crate::case::Case;
use orias_codegen::knobs::Knobs;
use orias_codegen::pipeline::{Context, Event, PHASES, Pipeline, find_phase};
use orias_machine::Machine;
use orias_ori::{Module, parse_module, print_function, verify_module};

pub(super) fn print(case: &Case<'_>) -> Result<String, String> {
    Arguments::parse(case, &[], &[])?.no_more_words(case.kind)?;
    let module = match parse_module(case.input) {
        Ok(module) => module,
        Err(error) => return Ok(format!("error: {error}")),
    };
    let text = print_module(&module);
    match parse_module(&text) {
        Ok(again) if again == module => Ok(text),
        Ok(_) => Err(format!("reading it back gives something else:\n{text}")),
        Err(error) => Err(format!("it cannot be read back: {error}\n{text}")),
    }
}

pub(super) fn verify(case: &Case<'_>) -> Result<String, String> {
    Arguments::parse(case, &[], &[])?.no_more_words(case.kind)?;
    let module = parse_module(case.input).map_err(|error| error.to_string())?;
    match verify_module(&module) {
        Ok(()) => Ok("ok".into()),
        Err(errors) => {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Ok(lines.join("\n"))
        }
    }
}

pub(super) fn phase(case: &Case<'_>) -> Result<String, String> {
    let arguments = Arguments::parse(case, &["--knob", "-O"], &[])?;
    let [name] = arguments.plain[..] else {
        return Err("'phase' takes the name of one phase".into());
    };
    let row = find_phase(PHASES, name)?;
    let mut knobs = Knobs::default();
    let mut opt_level = *PHASES[row].gate.opt_levels.start();
    for (name, value) in &arguments.values {
        match *name {
            "-O" => opt_level = value.parse().map_err(|_| format!("no level '{value}'"))?,
            _ => knobs.set(value).map_err(|error| error.to_string())?,
        }
    }
    let mut module = parse_module(case.input).map_err(|error| error.to_string())?;
    let pipeline = Pipeline {
        first: row,
        end: row + 1,
        verify_each: true,
        ..Pipeline::default()
    };
    for function in &mut module.functions {
        let context = Context {
            opt_level,
            knobs: &knobs,
            machine: Machine::of(function.target),
        };
        let mut skipped = None;
        pipeline
            .run(function, &context, &mut |event| {
                if let Event::Skipped(_, why) = event {
                    skipped = Some(why);
                }
            })
            .map_err(|failure| failure.to_string())?;
        if let Some(why) = skipped {
            return Err(format!("{name} does not run on {}: {why}", function.name));
        }
    }
    Ok(print_module(&module))
}

fn print_module(module: &Module) -> String {
    let functions: Vec<String> = module.functions.iter().map(print_function).collect();
    functions.join("\n")
}
