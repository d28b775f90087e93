//! The `orias` command as a user meets it: streams, exit codes and files.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(program: &Path, arguments: &[&str], folder: &Path, input: &[u8]) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // A command that does not read its input closes the pipe early.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("the command ends")
}

fn orias(arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    orias_in(folder.path(), arguments, b"")
}

fn orias_in(folder: &Path, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
    let output = command(
        Path::new(env!("CARGO_BIN_EXE_orias")),
        arguments,
        folder,
        input,
    );
    (
        output.status.code().expect("an exit code"),
        String::from_utf8(output.stdout).expect("text"),
        String::from_utf8(output.stderr).expect("text"),
    )
}

#[test]
fn the_version_is_in_the_form_clients_search() {
    for spelling in ["--version", "-V"] {
        let (code, output, messages) = orias(&[spelling]);
        assert_eq!((code, messages.as_str()), (0, ""));
        assert!(output.contains("release 13.0, V13.0.88"), "{output}");
        assert!(output.contains("Orias"), "{output}");
    }
}

#[test]
fn the_versions_of_ptx_are_listed_one_a_line() {
    let (code, output, _) = orias(&["--list-version"]);
    assert_eq!(code, 0);
    assert_eq!(output.lines().next(), Some("1.0"));
    assert_eq!(output.lines().last(), Some("9.0"));
    assert_eq!(output.lines().count(), 44);
}

#[test]
fn help_names_the_subcommands_and_the_options() {
    for arguments in [&["--help"][..], &["-h"], &["help"], &[]] {
        let (code, output, _) = orias(arguments);
        assert_eq!(code, 0);
        for part in ["knobs", "--gpu-name <gpu>", "(-arch)", "--maxrregcount"] {
            assert!(output.contains(part), "{arguments:?}: {output}");
        }
    }
    let (code, output, _) = orias(&["help", "knobs"]);
    assert_eq!(code, 0);
    assert!(output.contains("Usage: orias knobs"), "{output}");
    let (code, _, messages) = orias(&["help", "knobz"]);
    assert_eq!(code, 2);
    assert!(messages.contains("did you mean 'knobs'?"), "{messages}");
}

#[test]
fn subcommands_called_wrongly_exit_with_2() {
    let (code, _, messages) = orias(&["knobs", "--nonsense"]);
    assert_eq!(code, 2);
    assert!(messages.contains("--nonsense"), "{messages}");
}

#[test]
fn a_misspelt_knob_is_found_out() {
    let (code, _, messages) = orias(&["knobs", "GeneralOptimizeKep"]);
    assert_eq!(code, 1);
    assert!(
        messages.contains("did you mean 'GeneralOptimizeKeep'?"),
        "{messages}"
    );
}

#[test]
fn bad_options_and_missing_files_are_fatal_in_the_words_of_ptxas() {
    for (arguments, expected) in [
        (&["--foo"][..], "ptxas fatal   : Unknown option '-foo'\n"),
        (
            &["nofile.ptx", "nofile2.ptx"],
            "ptxas fatal   : Input file 'nofile.ptx' could not be opened\n\
             ptxas fatal   : Input file 'nofile2.ptx' could not be opened\n\
             ptxas fatal   : Ptx assembly aborted due to errors\n",
        ),
        (
            &["-dlcm=zz", "a.ptx"],
            "ptxas error   : Invalid default cache modifier on load specified: zz\n\
             ptxas fatal   : Ptx assembly aborted due to errors\n",
        ),
        (
            &["-optf", "nofile", "a.ptx"],
            "ptxas fatal   : Could not open options file 'nofile'\n",
        ),
    ] {
        let (code, output, messages) = orias(arguments);
        assert_eq!((code, output.as_str()), (255, ""), "{arguments:?}");
        assert_eq!(messages, expected, "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn under_the_name_of_ptxas_there_are_no_subcommands() {
    let folder = tempfile::tempdir().expect("a folder");
    let ptxas = folder.path().join("ptxas");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_orias"), &ptxas).expect("a link");
    let output = command(&ptxas, &["knobs"], folder.path(), b"");
    assert_eq!(output.status.code(), Some(255));
    assert_eq!(
        String::from_utf8(output.stderr).expect("text"),
        "ptxas fatal   : Input file 'knobs' could not be opened\n\
         ptxas fatal   : Ptx assembly aborted due to errors\n"
    );
}

#[cfg(unix)]
#[test]
fn an_argument_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let output = Command::new(env!("CARGO_BIN_EXE_orias"))
        .arg(std::ffi::OsStr::from_bytes(b"a\xff.ptx"))
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not UTF-8 text"));
}

#[test]
fn what_cannot_be_compiled_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let module = ".version 8.0\n.target sm_90a\n.address_size 64\n";
    std::fs::write(folder.path().join("a.ptx"), module).expect("written");
    std::fs::write(folder.path().join("old"), "old").expect("written");
    for arguments in [
        &["-arch=sm_90a", "a.ptx"][..],
        &["-arch=sm_90a", "a.ptx", "-o", "old"],
        &["-arch=sm_90a", "-ias", module],
    ] {
        let (code, _, messages) = orias_in(folder.path(), arguments, b"");
        assert_eq!(code, 255);
        assert!(
            messages.contains("ptxas fatal   : Not supported yet: "),
            "{messages}"
        );
    }
    let (code, _, _) = orias_in(folder.path(), &["-arch=sm_90a", "-"], module.as_bytes());
    assert_eq!(code, 255);
    assert!(!folder.path().join("elf.o").exists());
    let old = std::fs::read_to_string(folder.path().join("old")).expect("read");
    assert_eq!(old, "old");
}
