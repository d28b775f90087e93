//! `orias -j`: many modules at once, taken up again, with what is wrong among them.

use std::path::Path;
use std::process::{Command, Output};

fn module(value: u32) -> String {
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {{ .reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], {value}; ret; }}\n"
    )
}

fn orias(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orias"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("started")
}

fn summary(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().unwrap_or_default();
    // The time is the last thing that is said.
    first
        .rsplit_once(',')
        .map_or(String::new(), |it| it.0.to_owned())
}

/// A folder with modules in two folders below it.
fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["in/a", "in/b/c"] {
        std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
    }
    for (value, name) in ["in/a/one.ptx", "in/a/two.ptx", "in/b/c/one.ptx"]
        .iter()
        .enumerate()
    {
        std::fs::write(folder.path().join(name), module(value as u32)).expect("written");
    }
    std::fs::write(folder.path().join("in/readme.txt"), "no module").expect("written");
    folder
}

#[test]
fn every_module_becomes_the_cubin_it_becomes_alone() {
    let folder = tree();
    let output = orias(
        folder.path(),
        &["-j", "2", "-arch=sm_90a", "in", "-o", "out"],
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(summary(&output), "3 compiled, 0 up to date, 0 failed");
    for name in ["a/one", "a/two", "b/c/one"] {
        let source = format!("in/{name}.ptx");
        let alone = orias(
            folder.path(),
            &["-arch=sm_90a", &source, "-o", "alone.cubin"],
        );
        assert!(alone.status.success());
        let read = |name: &str| std::fs::read(folder.path().join(name)).expect("a cubin");
        assert!(
            read(&format!("out/{name}.cubin")) == read("alone.cubin"),
            "{name}"
        );
    }
}

#[test]
fn what_is_made_is_not_made_again() {
    let folder = tree();
    let go = |options: &[&str]| {
        let words = [&["-j2", "-arch=sm_90a", "in", "-o", "out"][..], options].concat();
        summary(&orias(folder.path(), &words))
    };
    assert_eq!(go(&[]), "3 compiled, 0 up to date, 0 failed");
    assert_eq!(go(&[]), "0 compiled, 3 up to date, 0 failed");
    // Another source, a missing cubin, a record that was cut off.
    std::fs::write(folder.path().join("in/a/one.ptx"), module(9)).expect("written");
    std::fs::remove_file(folder.path().join("out/b/c/one.cubin")).expect("removed");
    let record = folder.path().join("out/orias-batch.jsonl");
    let mut text = std::fs::read_to_string(&record).expect("a record");
    text.push_str("{\"output\": \"out/a/tw");
    std::fs::write(&record, text).expect("written");
    assert_eq!(go(&[]), "2 compiled, 1 up to date, 0 failed");
    // Other options.
    assert_eq!(go(&["-O0"]), "3 compiled, 0 up to date, 0 failed");
}

#[test]
fn what_is_wrong_is_told_and_the_rest_is_made() {
    let folder = tree();
    let bad = module(1).replace("ret", "rat");
    std::fs::write(folder.path().join("in/a/bad.ptx"), bad).expect("written");
    let arguments = ["--jobs=3", "-arch=sm_90a", "in", "missing.ptx", "-o", "out"];
    for made in ["3 compiled, 0 up to date", "0 compiled, 3 up to date"] {
        let output = orias(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(255));
        assert_eq!(summary(&output), format!("{made}, 2 failed"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("bad.ptx, line 4; error") && said.contains("missing.ptx"),
            "{said}"
        );
    }
    assert!(!folder.path().join("out/in/a/bad.cubin").exists());
}

#[test]
fn cubins_lie_beside_their_sources_if_nothing_is_said() {
    let folder = tree();
    let output = orias(
        folder.path(),
        &["-j", "0", "-arch=sm_90a", "in/a/one.ptx", "in/b"],
    );
    assert!(output.status.success(), "{output:?}");
    assert!(folder.path().join("in/a/one.cubin").is_file());
    assert!(folder.path().join("in/b/c/one.cubin").is_file());
}

#[test]
fn command_lines_that_make_no_sense_are_refused() {
    let folder = tree();
    for arguments in [
        &["-j"][..],
        &["-j", "many", "in"],
        &["-j2"],
        &["-j2", "-"],
        &["-j2", "--nonsense", "in"],
        &[
            "-j2",
            "-arch=sm_90a",
            "in/a/one.ptx",
            "in/a/one.ptx",
            "-o",
            "out",
        ],
    ] {
        let output = orias(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(255), "{arguments:?} {output:?}");
        assert!(output.stderr.starts_with(b"ptxas fatal"), "{output:?}");
    }
}

#[test]
fn what_a_good_module_is_warned_of_is_said_once_by_name() {
    let folder = tree();
    let ask = [
        "-j2",
        "-arch=sm_90a",
        "-v",
        "-maxrregcount=8",
        "in",
        "-o",
        "out",
    ];
    let output = orias(folder.path(), &ask);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("to lower bound of 24").count(), 1, "{said}");
    let names: Vec<&str> = said
        .lines()
        .filter(|line| line.ends_with(".ptx:"))
        .collect();
    let expected = ["in/a/one.ptx:", "in/a/two.ptx:", "in/b/c/one.ptx:"];
    assert_eq!(names, expected, "{said}");
    let strict = [
        "-j2",
        "-arch=sm_90a",
        "-Werror",
        "-maxrregcount=8",
        "in",
        "-o",
        "out",
    ];
    assert_eq!(orias(folder.path(), &strict).status.code(), Some(255));
    let counted = [
        "-j2",
        "-arch=sm_90a",
        "--compiler-stats=time",
        "in",
        "-o",
        "out",
    ];
    let output = orias(folder.path(), &counted);
    assert_eq!(output.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&output.stderr).contains("for one compilation"));
}
