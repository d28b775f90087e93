//! The headers in `include/` are what cbindgen makes of the functions; `BLESS=1` writes them.

use std::path::{Path, PathBuf};

const LICENSE: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";

/// A header: its name, what it is made from, its guard, and what it says first.
struct Header {
    name: &'static str,
    source: &'static str,
    guard: &'static str,
    about: &'static str,
}

const HEADERS: &[Header] = &[
    Header {
        name: "orias.h",
        source: "src/ffi/orias.rs",
        guard: "ORIAS_H",
        about: "\
Orias, an open PTX assembler: PTX in, cubin out.

Make a handle, add modules and options, compile, copy the cubin or the logs. Everything that is handed over is copied, and
everything that is handed out is copied to memory of the caller; only the handle itself must be destroyed. Any number of
threads may use any number of handles, and the same one. A pointer that is not null must point to what its type says, a
handle must not be used after it was destroyed, and a buffer must be as large as said. docs/c-library.md has an example.",
    },
    Header {
        name: "nvPTXCompiler.h",
        source: "src/ffi/nvptx.rs",
        guard: "ORIAS_NVPTXCOMPILER_H",
        about: "\
The functions of NVIDIA's PTX Compiler API for CUDA 13.0, made by Orias: a program written for NVIDIA's library is compiled
and linked with this one instead. Written from NVIDIA's public documentation; docs/c-library.md says what differs. All
functions may be called by several threads at once.",
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

fn generate(header: &Header) -> String {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        include_guard: Some(header.guard.into()),
        no_includes: true,
        sys_includes: vec!["stddef.h".into()],
        cpp_compat: true,
        usize_is_size_t: true,
        line_length: 100,
        documentation_style: cbindgen::DocumentationStyle::Doxy,
        style: cbindgen::Style::Type,
        ..cbindgen::Config::default()
    };
    config.header = Some(comment(header.about));
    let made = cbindgen::Builder::new()
        .with_src(root().join(header.source))
        .with_config(config)
        .generate();
    let mut text = Vec::new();
    made.expect("functions that C can call").write(&mut text);
    without_safety(&String::from_utf8(text).expect("text"))
}

fn comment(about: &str) -> String {
    let lines = about.lines().map(|line| format!(" * {line}\n"));
    let lines: String = lines.map(|line| line.replace(" * \n", " *\n")).collect();
    format!("/*\n{lines} *\n * {LICENSE}\n */")
}

/// Leaves out what Rust's documentation asks of callers: the header says it once, for all functions.
fn without_safety(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.trim() == "* # Safety" {
            inside = true;
            while kept.last().is_some_and(|last| last.trim() == "*") {
                kept.pop();
            }
        }
        inside &= !line.trim_end().ends_with("*/");
        if !inside {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

#[test]
fn the_headers_are_those_of_the_functions() {
    for header in HEADERS {
        let path = root().join("include").join(header.name);
        let made = generate(header);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, made).expect("written");
            continue;
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == made,
            "{} is not what is made from {}; BLESS=1 writes it:\n{made}",
            header.name,
            header.source
        );
    }
}

/// Every function that is exported is declared, and nothing else.
#[test]
fn every_exported_function_is_declared() {
    for header in HEADERS {
        let source = std::fs::read_to_string(root().join(header.source)).expect("a source");
        let text = generate(header);
        let exported = source.matches("#[unsafe(no_mangle)]").count();
        let names: Vec<&str> = source
            .split("extern \"C\" fn ")
            .skip(1)
            .filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
            .collect();
        assert_eq!(names.len(), exported, "{}", header.source);
        assert!(exported > 10);
        for name in names {
            assert_eq!(text.matches(&format!("{name}(")).count(), 1, "{name}");
        }
    }
}
