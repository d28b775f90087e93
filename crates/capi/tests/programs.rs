//! C programs, linked with the static and with the shared library, do what `docs/c-library.md` says.
//!
//! Without a C compiler there is nothing to test, and the tests say so. With a CUDA toolkit in `ORIAS_TEST_CUDA`, the program for NVIDIA's
//! API is linked with NVIDIA's library, too, and must print the same.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PTX: &str = "../../examples/vector_add.ptx";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Static,
    Shared,
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A file of the library: cargo puts it where the tests themselves lie, or one folder above.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test");
    let folders = test.ancestors().skip(1).take(2);
    let mut files = folders.map(|folder| folder.join(name));
    let found = files.find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} was not built"))
}

fn compiler() -> Option<String> {
    let name = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let works = Command::new(&name).arg("--version").output().is_ok();
    if !works {
        eprintln!("skipped: there is no C compiler '{name}'");
    }
    works.then_some(name)
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("started");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Compiles a program below `tests/c` into a folder.
fn build(cc: &str, name: &str, link: Link, folder: &Path) -> PathBuf {
    let source = here("tests/c").join(format!("{name}.c"));
    build_source(cc, &source, link, folder)
}

fn build_source(cc: &str, source: &Path, link: Link, folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let mut command = Command::new(cc);
    command
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(here("include"))
        .arg(source)
        .arg("-o")
        .arg(&program);
    match link {
        Link::Static => {
            command.arg(built("liborias_capi.a"));
        }
        Link::Shared => {
            let suffix = if cfg!(target_os = "macos") {
                ["liborias.dylib", "liborias.0.dylib"]
            } else {
                ["liborias.so", "liborias.so.0"]
            };
            let library = format!("liborias_capi{}", std::env::consts::DLL_SUFFIX);
            for name in suffix {
                std::fs::copy(built(&library), folder.join(name)).expect("copied");
            }
            command.arg("-L").arg(folder).arg("-lorias");
            command.arg(format!("-Wl,-rpath,{}", folder.display()));
        }
    }
    command.args(["-ldl", "-lm"]);
    succeed(&mut command);
    program
}

/// What the program prints, and the file it writes.
fn run(name: &str, link: Link) -> Option<(String, Vec<u8>)> {
    let cc = compiler()?;
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(&cc, name, link, folder.path());
    let cubin = folder.path().join("out.cubin");
    let output = succeed(Command::new(program).arg(here(PTX)).arg(&cubin));
    let printed = String::from_utf8(output.stdout).expect("text");
    Some((printed, std::fs::read(cubin).expect("a cubin")))
}

/// What the library makes of the module when Rust calls it.
fn expected() -> Vec<u8> {
    let text = std::fs::read(here(PTX)).expect("an example");
    let source = orias::Source {
        name: "vector_add.ptx",
        text: &text,
    };
    let options = orias::Options {
        target: orias::Target::parse("sm_90a").expect("a target"),
        ..orias::Options::default()
    };
    let compiled = orias::compile(&source, &options).expect("compiled");
    compiled.cubin.expect("a cubin")
}

fn library(link: Link) {
    if let Some((printed, cubin)) = run("library", link) {
        assert_eq!(printed, format!("orias {}\n", env!("CARGO_PKG_VERSION")));
        assert!(cubin == expected(), "another cubin");
    }
}

#[test]
fn the_static_library_keeps_the_promises_of_its_header() {
    library(Link::Static);
}

#[test]
fn the_shared_library_keeps_the_promises_of_its_header() {
    library(Link::Shared);
}

/// What the program for NVIDIA's API prints.
const NVPTX: &str = include_str!("c/nvptx.txt");

#[test]
fn a_program_for_nvidias_api_links_with_either_library() {
    for link in [Link::Static, Link::Shared] {
        if let Some((printed, cubin)) = run("nvptx", link) {
            assert_eq!(printed, NVPTX, "{link:?}");
            assert!(cubin == expected(), "another cubin");
        }
    }
}

#[test]
fn the_example_of_the_book_works() {
    let Some(cc) = compiler() else { return };
    let page = std::fs::read_to_string(here("../../docs/c-library.md")).expect("a page");
    let example = page.split("```c\n").nth(1).expect("an example");
    let example = example.split("```").next().expect("its end");
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("example.c");
    std::fs::write(&source, example).expect("written");
    let program = build_source(&cc, &source, Link::Static, folder.path());
    let output = succeed(&mut Command::new(program));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.ends_with(" bytes for cuModuleLoadData\n"),
        "{printed}"
    );
}

/// Where NVIDIA's library is there.
#[test]
fn a_program_for_nvidias_api_prints_the_same_with_nvidias_library() {
    let (Some(toolkit), Some(cc)) = (std::env::var_os("ORIAS_TEST_CUDA"), compiler()) else {
        eprintln!("skipped: ORIAS_TEST_CUDA names no CUDA toolkit");
        return;
    };
    let toolkit = Path::new(&toolkit);
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("nvptx");
    let mut command = Command::new(cc);
    command.arg("-I").arg(toolkit.join("include"));
    command.arg(here("tests/c/nvptx.c")).arg("-o").arg(&program);
    // An installed toolkit has one folder, NVIDIA's package of Python the other.
    let folders = ["lib64", "lib"].map(|name| toolkit.join(name));
    let library = folders.map(|folder| folder.join("libnvptxcompiler_static.a"));
    let library = library.iter().find(|file| file.is_file());
    command.arg(library.expect("NVIDIA's library in ORIAS_TEST_CUDA"));
    succeed(command.args(["-pthread", "-ldl", "-lm"]));
    let cubin = folder.path().join("out.cubin");
    let output = succeed(Command::new(program).arg(here(PTX)).arg(cubin));
    assert_eq!(String::from_utf8_lossy(&output.stdout), NVPTX);
}

#[test]
fn threads_do_not_disturb_each_other() {
    let Some(cc) = compiler() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(&cc, "threads", Link::Static, folder.path());
    let cubin = folder.path().join("expected.cubin");
    std::fs::write(&cubin, expected()).expect("written");
    let output = succeed(Command::new(program).arg(here(PTX)).arg(cubin));
    assert_eq!(output.stdout, b"1000 compilations\n");
}
