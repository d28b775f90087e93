//! Cubins of our own builder, made from the parts of ptxas's.
//!
//! A cubin of ptxas is taken apart, built again by our rules, and compared: the same sections in the same order with the same
//! headers and contents, symbols and relocations by name. Left out of the comparison is what the builder makes in its own way:
//! string tables, the tool's note, frame information and sections of relocations without entries. The public tools must accept the
//! result and see the same code in it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use orias_cubin::attribute::{Attribute, Value};
use orias_cubin::build::{CubinContents, ExtractError};
use orias_cubin::{Body, Cubin, InfoMeaning, Section, SymbolPlace, elf};

use crate::oracle;

/// What became of a cubin that was to be built again.
pub enum Outcome {
    /// Built, and the same as far as it should be.
    Same(Vec<u8>),
    /// A [`CubinContents`] cannot say what is in it.
    Unsupported(String),
    /// Something differs.
    Different(Vec<String>),
}

/// Takes a cubin apart and builds it again.
pub fn rebuild(original: &Cubin) -> Outcome {
    let module = match CubinContents::extract(original, orias::chip_named) {
        Ok(module) => module,
        Err(ExtractError::Unsupported(what)) => return Outcome::Unsupported(what),
        Err(error) => return Outcome::Different(vec![error.to_string()]),
    };
    let built = match module.build() {
        Ok(built) => built,
        Err(error) => return Outcome::Different(vec![error.to_string()]),
    };
    let file = match built.write() {
        Ok(file) => file,
        Err(error) => return Outcome::Different(vec![error.to_string()]),
    };
    let differences = differences(original, &built);
    if differences.is_empty() {
        Outcome::Same(file)
    } else {
        Outcome::Different(differences)
    }
}

fn differences(a: &Cubin, b: &Cubin) -> Vec<String> {
    let mut found = Vec::new();
    if a.header != b.header {
        found.push(format!("header {:?} and {:?}", a.header, b.header));
    }
    let (sections_a, sections_b) = (compared_sections(a), compared_sections(b));
    let names = |sections: &[&Section]| -> Vec<String> {
        sections
            .iter()
            .map(|section| section.name.text.clone())
            .collect()
    };
    if names(&sections_a) != names(&sections_b) {
        found.push(format!(
            "sections {:?} and {:?}",
            names(&sections_a),
            names(&sections_b)
        ));
        return found;
    }
    for (one, other) in sections_a.iter().zip(&sections_b) {
        let (one, other) = (describe(a, one), describe(b, other));
        if one != other {
            found.push(format!("{one}\n      and {other}"));
        }
    }
    let (symbols_a, symbols_b) = (symbols(a), symbols(b));
    for symbol in symbols_a.symmetric_difference(&symbols_b) {
        found.push(format!("symbol on one side only: {symbol}"));
    }
    found
}

fn compared_sections(cubin: &Cubin) -> Vec<&Section> {
    let made_our_way = [
        ".shstrtab",
        ".strtab",
        ".symtab",
        ".debug_frame",
        ".rela.debug_frame",
        ".note.nv.tkinfo",
    ];
    cubin
        .sections
        .iter()
        .filter(|section| !made_our_way.contains(&section.name.text.as_str()))
        .filter(|section| !matches!(&section.body, Body::Relocations(list) if list.is_empty()))
        .collect()
}

fn section_name(cubin: &Cubin, index: u32) -> &str {
    cubin
        .sections
        .get(index as usize)
        .map_or("?", |section| section.name.text.as_str())
}

fn symbol_name(cubin: &Cubin, index: u32) -> &str {
    cubin.symbol_name(index).unwrap_or("?")
}

/// A section with names in place of indices.
fn describe(cubin: &Cubin, section: &Section) -> String {
    let info = match section.info_meaning() {
        InfoMeaning::Section => section_name(cubin, section.info).to_owned(),
        InfoMeaning::Function => symbol_name(cubin, section.info).to_owned(),
        InfoMeaning::Number | InfoMeaning::SymbolCount => section.info.to_string(),
    };
    let body = match &section.body {
        Body::Info(attributes) => attributes
            .iter()
            .map(|attribute| describe_attribute(cubin, attribute))
            .collect::<Vec<_>>()
            .join(" "),
        Body::Relocations(relocations) => {
            let mut list: Vec<String> = relocations
                .iter()
                .map(|one| {
                    let symbol = symbol_name(cubin, one.symbol);
                    format!("{:#x}:{:#x}:{symbol}{:+}", one.offset, one.kind, one.addend)
                })
                .collect();
            list.sort();
            list.join(" ")
        }
        Body::CallGraph(calls) => calls
            .iter()
            .map(|call| {
                let callee = match call.callee as i32 {
                    marker @ ..=-1 => marker.to_string(),
                    _ => symbol_name(cubin, call.callee).to_owned(),
                };
                format!("{}->{callee}", symbol_name(cubin, call.caller))
            })
            .collect::<Vec<_>>()
            .join(" "),
        other => format!("{other:?}"),
    };
    format!(
        "{} type {:#x} flags {:#x} align {} entry {} link {} info {info}: {body}",
        section.name.text,
        section.kind,
        section.flags,
        section.align,
        section.entry_size,
        section_name(cubin, section.link),
    )
}

fn describe_attribute(cubin: &Cubin, attribute: &Attribute) -> String {
    let value = match &attribute.value {
        Value::FunctionValue { symbol, value } => {
            format!("{}={value}", symbol_name(cubin, *symbol))
        }
        Value::ParamBank {
            symbol,
            offset,
            size,
        } => format!("{}+{offset:#x}/{size}", symbol_name(cubin, *symbol)),
        Value::Symbols(symbols) => symbols
            .iter()
            .map(|symbol| symbol_name(cubin, *symbol))
            .collect::<Vec<_>>()
            .join(","),
        other => format!("{other:?}"),
    };
    format!("{:#04x}({value})", attribute.id)
}

/// The symbols that name something, without their indices.
fn symbols(cubin: &Cubin) -> BTreeSet<String> {
    let named = cubin
        .symbols()
        .iter()
        .filter(|symbol| !symbol.name.text.is_empty() && symbol.kind != elf::stt::SECTION);
    named
        .map(|symbol| {
            let place = match symbol.place {
                SymbolPlace::Section(section) => section_name(cubin, section.into()).to_owned(),
                other => format!("{other:?}"),
            };
            format!(
                "{} type {} binding {} other {:#x} in {place} at {:#x} size {:#x}",
                symbol.name.text,
                symbol.kind,
                symbol.binding,
                symbol.other,
                symbol.value,
                symbol.size
            )
        })
        .collect()
}

/// Shows `ours` to readelf, cuobjdump and nvdisasm; the code they see must be that of `theirs`. The files are written to `folder`.
pub fn accepted(theirs: &[u8], ours: &[u8], folder: &Path) -> Result<(), String> {
    let original = folder.join("original.cubin");
    let rebuilt = folder.join("rebuilt.cubin");
    std::fs::write(&original, theirs).map_err(|error| error.to_string())?;
    std::fs::write(&rebuilt, ours).map_err(|error| error.to_string())?;
    output(Command::new("readelf").arg("-hlsW").arg(&rebuilt))?;
    output(
        Command::new(oracle::find("cuobjdump")?)
            .arg("-elf")
            .arg(&rebuilt),
    )?;
    let nvdisasm = oracle::find("nvdisasm")?;
    let listing = |file: &Path| output(Command::new(&nvdisasm).arg("-c").arg(file));
    let (theirs, ours) = (
        code_lines(&listing(&original)?),
        code_lines(&listing(&rebuilt)?),
    );
    if theirs == ours {
        Ok(())
    } else {
        Err("nvdisasm sees other code".to_owned())
    }
}

/// The lines of a listing that are instructions, labels or the kernel's directives.
fn code_lines(listing: &str) -> Vec<String> {
    listing
        .lines()
        .filter(|line| line.contains("/*") || line.trim_end().ends_with(':'))
        .map(str::to_owned)
        .collect()
}

/// What a command prints, if it succeeds and complains about nothing.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // readelf warns about the text sections of every cubin: it does not know what their sh_info is.
    let complaint = errors
        .lines()
        .chain(text.lines())
        .find(|line| line.contains("fatal") || line.contains("rror:"));
    match complaint {
        Some(line) => Err(format!("{name}: {line}")),
        None if !output.status.success() => Err(format!("{name} ended with {}", output.status)),
        None => Ok(text),
    }
}
