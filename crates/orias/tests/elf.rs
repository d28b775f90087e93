//! `orias elf` as a user meets it.

use std::path::Path;
use std::process::Command;

use orias_cubin::build::{CubinContents, Entry, Function};

fn orias(arguments: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_orias"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the command starts");
    (
        output.status.code(),
        String::from_utf8(output.stdout).expect("text"),
        String::from_utf8(output.stderr).expect("text"),
    )
}

/// A folder with a cubin of one kernel.
fn folder() -> tempfile::TempDir {
    let mut module = CubinContents::new(orias::chip_of(orias_sass::Target::DEFAULT));
    module.functions.push(Function {
        name: "k".to_owned(),
        entry: Some(Entry::default()),
        code: vec![0; 128],
        registers: 8,
        exits: vec![0x10],
        ..Function::default()
    });
    let cubin = module.build().expect("a good module");
    let folder = tempfile::tempdir().expect("a folder");
    let file = cubin.write().expect("a good model");
    std::fs::write(folder.path().join("k.cubin"), file).expect("a file");
    folder
}

#[test]
fn a_cubin_is_printed_for_people() {
    let folder = folder();
    let (code, output, messages) = orias(&["elf", "k.cubin"], folder.path());
    assert_eq!((code, messages.as_str()), (Some(0), ""));
    assert!(
        output.starts_with("cubin for sm_90a: executable"),
        "{output}"
    );
    assert!(
        output.contains("kernel k: 128 bytes of code, 8 registers"),
        "{output}"
    );
}

#[test]
fn a_cubin_is_printed_for_programs() {
    let folder = folder();
    let (code, output, _) = orias(&["elf", "--json", "k.cubin"], folder.path());
    assert_eq!(code, Some(0));
    let json: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(json["functions"][0]["registers"], 8);
}

#[test]
fn what_is_no_cubin_is_refused_with_a_place() {
    let folder = folder();
    std::fs::write(folder.path().join("text"), "hello").expect("a file");
    let (code, output, messages) = orias(&["elf", "text"], folder.path());
    assert_eq!((code, output.as_str()), (Some(1), ""));
    assert_eq!(
        messages,
        "orias elf: text: file offset 0x0: not an ELF file\n"
    );
    let (code, _, messages) = orias(&["elf", "missing"], folder.path());
    assert_eq!(code, Some(1));
    assert!(messages.starts_with("orias elf: missing: "), "{messages}");
}
