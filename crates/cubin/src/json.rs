//! A cubin for programs: what `orias elf --json` prints.
//!
//! The same facts as [`crate::print`], with the same names; numbers are numbers, indices stay indices and are joined by names. Code
//! and data are left out, as lengths.

use serde_json::{Map, Value as Json, json};

use crate::attribute::{Attribute, ParamInfo, Value, Vocabulary};
use crate::elf;
use crate::functions::FunctionView;
use crate::model::{Body, Cubin, Extent, Section, Segment, Symbol, SymbolPlace};
use crate::note::{Note, NoteContent};
use crate::print::{
    attribute_label, binding_name, flag_letters, kind_name, make_name, other_names, shortened_name,
    symbol_kind_name,
};

/// The cubin as JSON.
pub fn to_json(cubin: &Cubin) -> Json {
    let header = &cubin.header;
    let ranges = cubin.section_ranges().unwrap_or_default();
    let functions = cubin.functions();
    json!({
        "target": cubin.target(),
        "header": {
            "kind": kind_name(header.kind),
            "type": header.kind,
            "os_abi": header.os_abi,
            "abi_version": header.abi_version,
            "version": header.version,
            "entry": header.entry,
            "flags": header.flags.0,
            "sm": header.flags.sm(),
            "make": make_name(cubin),
            "section_names": header.section_names,
        },
        "functions": functions.iter().map(function).collect::<Vec<_>>(),
        "sections": cubin.sections.iter().enumerate().map(|(index, one)| {
            section(cubin, index, one, ranges.get(index).copied())
        }).collect::<Vec<_>>(),
        "program_headers": cubin.segments.iter().map(segment).collect::<Vec<_>>(),
        "symbols": cubin.symbols().iter().enumerate().map(|(index, one)| symbol(index, one)).collect::<Vec<_>>(),
    })
}

fn param(param: &ParamInfo) -> Json {
    json!({
        "ordinal": param.ordinal,
        "offset": param.offset,
        "size": param.size,
        "pointee_log_align": param.pointee_log_align,
        "space": param.space,
    })
}

fn function(function: &FunctionView<'_>) -> Json {
    json!({
        "name": function.name,
        "kernel": function.is_entry,
        "symbol": function.symbol,
        "section": function.section,
        "code_size": function.code.len(),
        "registers": function.registers,
        "barriers": function.barriers,
        "frame_size": function.frame_size,
        "min_stack_size": function.min_stack_size,
        "shared_size": function.shared_size,
        "param_bank": function.param_bank.map(|(offset, size)| json!({"offset": offset, "size": size})),
        "params": function.params.iter().map(param).collect::<Vec<_>>(),
        "banks": function.banks.iter().map(|(bank, bytes)| json!({"bank": bank, "size": bytes.len()})).collect::<Vec<_>>(),
        "subroutines": function.subroutines.iter().map(|(index, inner)| json!({
            "name": inner.name.text, "symbol": index, "offset": inner.value, "size": inner.size,
        })).collect::<Vec<_>>(),
    })
}

fn section(cubin: &Cubin, index: usize, section: &Section, range: Option<(u64, u64)>) -> Json {
    let mut object = Map::new();
    let mut set = |key: &str, value: Json| object.insert(key.to_owned(), value);
    set("index", index.into());
    set("name", section.name.text.as_str().into());
    set("type", section.kind.into());
    set("type_name", elf::section_type_name(section.kind).into());
    set("flags", section.flags.into());
    set("flag_letters", flag_letters(section.flags).into());
    set("address", section.address.into());
    set("offset", range.map(|range| range.0).into());
    set("size", range.map(|range| range.1).into());
    set("link", section.link.into());
    set("info", section.info.into());
    set("align", section.align.into());
    set("entry_size", section.entry_size.into());
    let name = |symbol: u32| shortened_name(cubin, symbol).unwrap_or_default();
    match &section.body {
        Body::Bytes(_) | Body::Memory(_) | Body::Strings(_) | Body::Symbols(_) => {}
        Body::Info(attributes) => {
            set("attributes", list(cubin, attributes, Vocabulary::Info));
        }
        Body::Compat(attributes) => {
            set("attributes", list(cubin, attributes, Vocabulary::Compat));
        }
        Body::Relocations(relocations) => {
            let all = relocations.iter().map(|relocation| {
                json!({
                    "offset": relocation.offset,
                    "type": relocation.kind,
                    "type_name": relocation.kind_name(),
                    "symbol": relocation.symbol,
                    "symbol_name": name(relocation.symbol),
                    "addend": relocation.addend,
                })
            });
            set("relocations", all.collect());
        }
        Body::CallGraph(calls) => {
            let mut list = 0;
            let all = calls.iter().map(|call| {
                let marker = call.caller == 0 && (call.callee as i32) < 0;
                if marker {
                    list = call.callee as i32;
                }
                json!({
                    "caller": call.caller,
                    "caller_name": name(call.caller),
                    "callee": call.callee as i32,
                    "callee_name": match list {
                        _ if marker => "",
                        // These lists have prototypes in the place of callees.
                        -2 | -3 => cubin.prototype(call.callee).unwrap_or_default(),
                        _ => name(call.callee),
                    },
                })
            });
            set("calls", all.collect());
        }
        Body::Prototypes(prototypes) => {
            let all = prototypes.iter().map(|one| {
                json!({
                    "function": one.function,
                    "function_name": name(one.function),
                    "prototype": one.prototype,
                    "prototype_name": cubin.prototype(one.prototype).unwrap_or_default(),
                })
            });
            set("prototypes", all.collect());
        }
        Body::Notes(notes) => {
            set("notes", notes.iter().map(note).collect());
        }
    }
    Json::Object(object)
}

fn note(note: &Note) -> Json {
    let content = match &note.content {
        NoteContent::Tool(tool) => json!({
            "version": tool.version,
            "object": tool.object,
            "tool": tool.name,
            "tool_version": tool.tool_version,
            "branch": tool.branch,
            "arguments": tool.arguments,
        }),
        NoteContent::Cuda(cuda) => json!({
            "version": cuda.version,
            "virtual_sm": cuda.virtual_sm,
            "toolkit": cuda.toolkit,
        }),
        NoteContent::Raw(bytes) => json!({ "bytes": bytes }),
    };
    json!({ "owner": note.owner, "type": note.kind, "content": content })
}

fn list(cubin: &Cubin, attributes: &[Attribute], vocabulary: Vocabulary) -> Json {
    attributes
        .iter()
        .map(|attribute| {
            json!({
                "id": attribute.id,
                "name": attribute_label(vocabulary, attribute.id),
                "format": attribute.value.format().name(),
                "value": value(cubin, &attribute.value),
            })
        })
        .collect()
}

fn value(cubin: &Cubin, value: &Value) -> Json {
    let name = |symbol: u32| shortened_name(cubin, symbol).unwrap_or_default();
    match value {
        Value::Flag(value) | Value::Half(value) => (*value).into(),
        Value::Byte(value, _) => (*value).into(),
        Value::Words(words) | Value::Offsets(words) => json!(words),
        Value::OffsetPairs(pairs) => json!(pairs),
        Value::OffsetTriples(triples) => json!(triples),
        Value::FunctionValue { symbol, value } => {
            json!({ "symbol": symbol, "function": name(*symbol), "value": value })
        }
        Value::Symbols(symbols) => symbols
            .iter()
            .map(|symbol| json!({ "symbol": symbol, "name": name(*symbol) }))
            .collect(),
        Value::SymbolPairs(pairs) => json!(pairs),
        Value::Dimensions(dimensions) => json!(dimensions),
        Value::ParamBank {
            symbol,
            offset,
            size,
        } => {
            json!({ "symbol": symbol, "section": name(*symbol), "offset": offset, "size": size })
        }
        Value::Param(info) | Value::WideParam(info) => param(info),
        Value::IndirectBranches(branches) => branches
            .iter()
            .map(|one| json!({ "offset": one.offset, "kind": one.kind, "targets": one.targets }))
            .collect(),
        Value::Mbarriers(uses) => uses
            .iter()
            .map(|one| {
                json!({
                    "offset": one.offset,
                    "kind": one.kind_name(),
                    "register": one.register,
                    "uniform_register": one.uniform_register,
                    "displacement": one.displacement,
                })
            })
            .collect(),
        Value::Raw(bytes) => json!({ "bytes": bytes }),
    }
}

fn segment(segment: &Segment) -> Json {
    let extent = match segment.extent {
        Extent::ProgramHeaders => json!("program headers"),
        Extent::Sections { first, last } => json!({ "first": first, "last": last }),
        Extent::Range {
            offset,
            file_size,
            memory_size,
        } => json!({ "offset": offset, "file_size": file_size, "memory_size": memory_size }),
    };
    json!({
        "type": segment.kind,
        "flags": segment.flags,
        "align": segment.align,
        "extent": extent,
    })
}

fn symbol(index: usize, symbol: &Symbol) -> Json {
    let place = match symbol.place {
        SymbolPlace::Undefined => Json::Null,
        SymbolPlace::Section(index) | SymbolPlace::Reserved(index) => index.into(),
    };
    json!({
        "index": index,
        "name": symbol.name.text,
        "type": symbol_kind_name(symbol.kind),
        "binding": binding_name(symbol.binding),
        "other": symbol.other,
        "other_names": other_names(symbol),
        "section": place,
        "value": symbol.value,
        "size": symbol.size,
    })
}
