//! Tests of Mercury's phases.

use super::Arguments;
use crate::case::Case;
use orias_codegen::knobs::Knobs;
use orias_codegen::mercury::Mercury;
use orias_codegen::pipeline::{Context, PHASES, Pipeline, Stage, find_phase};
use orias_mercury::Stream;
use orias_ori::parse_module;

pub(super) fn mercury(case: &Case<'_>) -> Result<String, String> {
    let arguments = Arguments::parse(case, &["--knob", "--from", "-O"], &["--judge"])?;
    let [name] = arguments.plain[..] else {
        return Err("'mercury' takes the name of one phase".into());
    };
    let mut knobs = Knobs::default();
    for (option, assignment) in &arguments.values {
        if *option == "--knob" {
            knobs.set(assignment).map_err(|error| error.to_string())?;
        }
    }
    let level = arguments.value("-O").unwrap_or("3");
    let opt_level = level.parse().map_err(|_| format!("no level '{level}'"))?;
    let context = |target| Context {
        opt_level,
        knobs: &knobs,
        machine: orias_machine::Machine::of(target),
    };
    let first = match arguments.value("--from") {
        Some(name) => find_phase(PHASES, name)?,
        None => PHASES
            .iter()
            .position(|row| row.stage == Stage::Mercury)
            .unwrap_or(0),
    };
    let pipeline = Pipeline {
        first,
        end: find_phase(PHASES, name)? + 1,
        verify_each: true,
        ..Pipeline::default()
    };
    let mut text = String::new();
    let is_stream = case
        .input
        .lines()
        .any(|line| line.trim_start().starts_with("stream "));
    if is_stream {
        let stream = Stream::parse(case.input).map_err(|error| error.to_string());
        let mut mercury = match stream {
            Ok(stream) => Mercury::new(stream),
            Err(error) => return Ok(format!("error: {error}")),
        };
        let context = context(mercury.stream.target);
        match pipeline.run_mercury(&mut mercury, &context, &mut |_| ()) {
            Ok(()) => print(&mercury, &arguments, &mut text)?,
            Err(failure) => return Ok(format!("error: {failure}")),
        }
        return Ok(text);
    }
    let mut module = parse_module(case.input).map_err(|error| error.to_string())?;
    for function in &mut module.functions {
        let context = context(function.target);
        match pipeline.run_to_mercury(function, &context, &mut |_| ()) {
            Ok(Some(mercury)) => print(&mercury, &arguments, &mut text)?,
            Ok(None) => return Ok(format!("error: {} is not final", function.name)),
            Err(failure) => return Ok(format!("error: {failure}")),
        }
    }
    Ok(text)
}

/// The stream, which must read back equal, what its phases noted, its words and what the judge says of them.
fn print(mercury: &Mercury, arguments: &Arguments<'_>, text: &mut String) -> Result<(), String> {
    for line in mercury.stream.trace.iter().flatten() {
        *text += &format!("// {line}\n");
    }
    let printed = mercury.stream.print();
    match Stream::parse(&printed) {
        Ok(again) if again == mercury.stream => {}
        Ok(_) => return Err(format!("reading it back gives something else:\n{printed}")),
        Err(error) => return Err(format!("it cannot be read back: {error}\n{printed}")),
    }
    *text += &printed;
    let Some(code) = &mercury.code else {
        return Ok(());
    };
    for (number, word) in orias::words(&code.bytes).into_iter().enumerate() {
        if number < code.placed.len() {
            *text += &format!("{:04x}: {word:032x}\n", number * 16);
        }
    }
    for relocation in &code.relocations {
        *text += &format!(
            "{:04x}: {} {:+} {:?}\n",
            relocation.offset, relocation.symbol, relocation.addend, relocation.patch
        );
    }
    for branch in &code.indirect {
        *text += &format!("{:04x}: may go to {:x?}\n", branch.offset, branch.targets);
    }
    if arguments.flags.contains(&"--judge") {
        *text += &super::judge::code(&code.bytes[..code.placed.len() * 16], mercury.stream.target)?;
    }
    Ok(())
}
