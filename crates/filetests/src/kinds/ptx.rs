//! Tests of PTX.

use super::Arguments;
use crate::case::Case;
use orias_codegen::lower::LowerOptions;
use orias_ptx::{Diagnostics, Module, Options};
use orias_sass::Target;

pub(super) fn check(case: &Case<'_>) -> Result<String, String> {
    let arguments = Arguments::parse(case, &["--arch"], &["--lines"])?;
    arguments.no_more_words(case.kind)?;
    let options = options(arguments.value("--arch"))?;
    let source = case.input.as_bytes();
    let (_, found) = read(source, &options);
    if found.is_empty() {
        return Ok("ok".into());
    }
    Ok(if arguments.flags.contains(&"--lines") {
        found.to_lines(case.file_name, source)
    } else {
        found.to_excerpts(case.file_name, source)
    })
}

pub(super) fn reprint(case: &Case<'_>) -> Result<String, String> {
    Arguments::parse(case, &[], &[])?.no_more_words(case.kind)?;
    let source = case.input.as_bytes();
    let (module, found) = read(source, &Options::default());
    if found.has_errors() {
        return Ok(found.to_excerpts(case.file_name, source));
    }
    let text = orias_ptx::print(&module);
    let (again, found) = read(text.as_bytes(), &Options::default());
    if found.has_errors() {
        return Err(format!(
            "what is printed is wrong:\n{}",
            found.to_excerpts(case.file_name, text.as_bytes())
        ));
    }
    if orias_ptx::print(&again) != text {
        return Err(format!("printing it again gives something else:\n{text}"));
    }
    Ok(text)
}

pub(super) fn lower(case: &Case<'_>) -> Result<String, String> {
    let arguments = Arguments::parse(case, &["--arch"], &["--no-fmad", "--data"])?;
    arguments.no_more_words(case.kind)?;
    let arch = arguments.value("--arch").unwrap_or("sm_90a");
    let source = case.input.as_bytes();
    let (module, mut found) = read(source, &options(Some(arch))?);
    if found.has_errors() {
        return Ok(found.to_excerpts(case.file_name, source));
    }
    let options = LowerOptions {
        target: Target::from_name(arch).ok_or_else(|| format!("'{arch}' is no target"))?,
        contract: !arguments.flags.contains(&"--no-fmad"),
        ..LowerOptions::default()
    };
    let lowered = match orias_codegen::lower::lower(&module, &options) {
        Ok(lowered) => lowered,
        Err(problems) => {
            for problem in problems {
                found.push(problem);
            }
            return Ok(found.to_excerpts(case.file_name, source));
        }
    };
    let mut text = String::new();
    for function in &lowered.functions {
        if let Err(errors) = orias_ori::verify_function(&function.code) {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(format!("lowering made unsound code: {}", errors.join("; ")));
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text += &orias_ori::print_function(&function.code);
    }
    for kernel in &lowered.kernels {
        if let Err(errors) = orias_ori::verify_function(&kernel.code) {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(format!("lowering made unsound code: {}", errors.join("; ")));
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text += &orias_ori::print_function(&kernel.code);
        if arguments.flags.contains(&"--data") {
            text += &format!("parameters: {:?}\n", kernel.parameters);
            text += &format!("shared: {:?}\n", kernel.shared);
            text += &format!("dynamic shared: {:?}\n", kernel.dynamic_shared);
        }
    }
    if arguments.flags.contains(&"--data") {
        for symbol in &lowered.symbols {
            text += &format!("{symbol:?}\n");
        }
        for external in &lowered.externs {
            text += &format!("{external:?}\n");
        }
    }
    Ok(text)
}

fn options(arch: Option<&str>) -> Result<Options, String> {
    match arch {
        None => Ok(Options::default()),
        Some(name) => {
            Options::for_architecture(name).ok_or_else(|| format!("'{name}' is no architecture"))
        }
    }
}

fn read<'a>(source: &'a [u8], options: &Options) -> (Module<'a>, Diagnostics) {
    let (module, mut found) = orias_ptx::parse(source);
    found.append(orias_ptx::check(&module, options));
    found.sort();
    (module, found)
}
