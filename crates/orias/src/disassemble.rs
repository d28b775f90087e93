//! Cubins to SASS listings: the container of `cubin` and the printer of `sass` joined.

use orias_cubin::attribute::Value;
use orias_cubin::elf::{relocation as kind, stb, stt};
use orias_cubin::{Body, Cubin, FunctionView, InfoMeaning, SymbolPlace};
use orias_sass::text::{
    Binding, BranchTable, CodeRelocation, CodeSection, CodeSymbol, ListedSection, ListingStyle,
    Printer, RelocatedPart, list,
};
use orias_sass::{RegisterAccess, Target};
use serde_json::json;
use std::fmt::Write as _;

/// Bytes of an instruction.
const WORD: usize = 16;

/// The code of one function, with the names around it.
struct Code<'a> {
    view: FunctionView<'a>,
    words: Vec<u128>,
    symbols: Vec<CodeSymbol<'a>>,
    tables: Vec<(u64, Vec<u64>)>,
    relocations: Vec<CodeRelocation<'a>>,
}

/// The target a cubin is for, if it is one of the tables'.
pub fn target_of(cubin: &Cubin) -> Option<Target> {
    Target::from_name(&cubin.target())
}

/// The words of a run of bytes; what is left over at the end is no instruction.
pub fn words(bytes: &[u8]) -> Vec<u128> {
    bytes
        .chunks_exact(WORD)
        .map(|chunk| {
            chunk
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u128::from(*byte))
        })
        .collect()
}

fn codes(cubin: &Cubin) -> Vec<Code<'_>> {
    cubin
        .functions()
        .into_iter()
        .map(|view| code(cubin, view))
        .collect()
}

fn code<'a>(cubin: &'a Cubin, view: FunctionView<'a>) -> Code<'a> {
    let all = cubin.symbols();
    let inside = view
        .subroutines
        .iter()
        .map(|(index, _)| *index)
        .chain([view.symbol]);
    let symbols = inside.filter_map(|index| {
        let symbol = all.get(index as usize)?;
        Some(CodeSymbol {
            name: &symbol.name.text,
            address: symbol.value,
            size: symbol.size,
            order: index as usize,
            binding: match symbol.binding {
                stb::LOCAL => Binding::Local,
                stb::WEAK => Binding::Weak,
                _ => Binding::Global,
            },
        })
    });
    let tables = view
        .attributes
        .iter()
        .filter_map(|attribute| match &attribute.value {
            Value::IndirectBranches(branches) => Some(branches),
            _ => None,
        });
    let tables = tables.flatten().map(|branch| {
        let targets = branch
            .targets
            .iter()
            .map(|target| u64::from(*target))
            .collect();
        (u64::from(branch.offset), targets)
    });
    Code {
        words: words(view.code),
        symbols: symbols.collect(),
        tables: tables.collect(),
        relocations: relocations(cubin, view.section),
        view,
    }
}

/// What a loader writes into the code of a section.
fn relocations(cubin: &Cubin, section: usize) -> Vec<CodeRelocation<'_>> {
    let about = cubin.sections.iter().filter(|other| {
        other.info_meaning() == InfoMeaning::Section && other.info as usize == section
    });
    about
        .filter_map(|other| match &other.body {
            Body::Relocations(relocations) => Some(relocations),
            _ => None,
        })
        .flatten()
        .filter_map(|relocation| {
            let symbol = cubin.symbols().get(relocation.symbol as usize)?;
            let target = symbol.value.wrapping_add_signed(relocation.addend);
            Some(CodeRelocation {
                address: relocation.offset,
                symbol: &symbol.name.text,
                part: match relocation.kind {
                    kind::R_CUDA_ABS32_LO_32 => RelocatedPart::Low(target),
                    kind::R_CUDA_ABS32_HI_32 => RelocatedPart::High(target),
                    _ => RelocatedPart::Whole,
                },
            })
        })
        .collect()
}

fn listed(codes: &[Code<'_>], target: Target) -> Vec<ListedSection> {
    let tables: Vec<Vec<BranchTable<'_>>> = codes
        .iter()
        .map(|code| {
            code.tables
                .iter()
                .map(|(address, targets)| BranchTable {
                    address: *address,
                    targets,
                })
                .collect()
        })
        .collect();
    let sections: Vec<CodeSection<'_>> = codes
        .iter()
        .zip(&tables)
        .map(|(code, tables)| CodeSection {
            words: &code.words,
            symbols: &code.symbols,
            branch_tables: tables,
            relocations: &code.relocations,
        })
        .collect();
    list(&sections, target)
}

/// Every function of a cubin as a listing.
///
/// Plain, it reads as `nvdisasm -c` prints it. With control fields, it is what `orias asm` reads, and assembles to the same words.
pub fn disassemble(cubin: &Cubin, target: Target, style: ListingStyle) -> String {
    let codes = codes(cubin);
    let mut out = format!(
        "\t.target\t{target}\n\n\t.elftype\t@\"{}\"\n",
        elf_type(cubin)
    );
    for (code, section) in codes.iter().zip(listed(&codes, target)) {
        let name = code.view.name;
        let title = format!(".text.{name}");
        let end = section.labels.get(&(code.words.len() as u64 * WORD as u64));
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "\n\n//--------------------- {title:<25} --------------------------"
        );
        let _ = writeln!(out, "\t.section\t{title},\"ax\",@progbits\n\t.align\t128");
        if code.view.is_entry {
            let _ = writeln!(out, "        .global         {name}");
        }
        let _ = writeln!(out, "        .type           {name},@function");
        if let Some(end) = end {
            let _ = writeln!(out, "        .size           {name},({end} - {name})");
        }
        if code.view.is_entry {
            let _ = writeln!(
                out,
                "        .other          {name},@\"STO_CUDA_ENTRY STV_DEFAULT\""
            );
        }
        let mut body = String::new();
        section.write(&mut body, &code.words, style);
        match body.strip_prefix(&format!("{name}:\n")) {
            Some(rest) => {
                let _ = write!(out, "{name}:\n{title}:\n{rest}");
            }
            None => {
                let _ = write!(out, "{title}:\n{body}");
            }
        }
    }
    if !style.control {
        push_undefined_symbols(&mut out, cubin);
    }
    out
}

/// The symbols that are defined elsewhere, as nvdisasm lists them after the code.
fn push_undefined_symbols(out: &mut String, cubin: &Cubin) {
    let undefined = cubin
        .symbols()
        .iter()
        .filter(|symbol| symbol.place == SymbolPlace::Undefined && symbol.kind != stt::NOTYPE);
    let mut title = "\n\n//--------------------- SYMBOLS --------------------------\n\n";
    for symbol in undefined {
        let name = &symbol.name.text;
        let kind = match symbol.kind {
            stt::OBJECT => "object",
            stt::FUNC => "function",
            stt::CUDA_TEXTURE => "\"STT_CUDA_TEXTURE\"",
            stt::CUDA_SURFACE => "\"STT_CUDA_SURFACE\"",
            stt::CUDA_SAMPLER => "\"STT_CUDA_SAMPLER\"",
            stt::CUDA_OBJECT => "\"STT_CUDA_OBJECT\"",
            _ => continue,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{title}\t.type\t\t{name},@{kind}");
        title = "";
        if symbol.size > 0 {
            let _ = writeln!(out, "\t.size\t\t{name},{:#x}", symbol.size);
        }
    }
}

fn elf_type(cubin: &Cubin) -> &'static str {
    match cubin.header.kind {
        1 => "ET_REL",
        2 => "ET_EXEC",
        orias_cubin::elf::ET_EXTENSIBLE => "ET_EWP",
        _ => "ET_NONE",
    }
}

/// Raw words as a listing without any container's names.
pub fn disassemble_words(words: &[u128], target: Target, style: ListingStyle) -> String {
    let section = CodeSection {
        words,
        ..CodeSection::default()
    };
    let mut out = String::new();
    for listed in list(&[section], target) {
        listed.write(&mut out, words, style);
    }
    out
}

/// Every function of a cubin as JSON: each instruction with its address, word, text, control field and registers.
pub fn disassemble_json(cubin: &Cubin, target: Target) -> serde_json::Value {
    let codes = codes(cubin);
    let functions: Vec<serde_json::Value> = codes
        .iter()
        .zip(listed(&codes, target))
        .map(|(code, section)| {
            let instructions: Vec<serde_json::Value> = section
                .instructions
                .iter()
                .zip(&code.words)
                .enumerate()
                .map(|(index, (instruction, word))| {
                    let address = (index * WORD) as u64;
                    let word = format!("{word:#034x}");
                    match instruction {
                        Ok(instruction) => {
                            let mut text = String::new();
                            Printer { exact: false }.write(&mut text, instruction, address, |target| {
                                let target = u64::try_from(target).ok()?;
                                section.labels.get(&target).map(String::as_str)
                            });
                            let registers = |pick: fn(&RegisterAccess) -> bool| -> Vec<String> {
                                let accesses = instruction.accesses();
                                let picked = accesses.iter().filter(|access| pick(access));
                                picked.flat_map(|access| access.registers()).map(|register| register.to_string()).collect()
                            };
                            json!({
                                "address": address, "word": word, "text": text,
                                "operation": instruction.op().name(),
                                "control": instruction.control.to_string(),
                                "reads": registers(|access| access.reads),
                                "writes": registers(|access| access.writes),
                            })
                        }
                        Err(error) => json!({"address": address, "word": word, "error": error.to_string()}),
                    }
                })
                .collect();
            let labels: serde_json::Map<String, serde_json::Value> =
                section.labels.iter().map(|(address, label)| (label.clone(), json!(address))).collect();
            json!({"name": code.view.name, "kernel": code.view.is_entry, "labels": labels, "instructions": instructions})
        })
        .collect();
    json!({"target": target.to_string(), "functions": functions})
}
