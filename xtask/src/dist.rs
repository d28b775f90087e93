//! `cargo xtask dist`: what is handed out, below `target/dist`: the command, optimised by a profile of itself at work, the C library, the
//! Python package, manual pages and completions for shells. `cargo xtask dist library` makes the library alone, `wheel` the package, `manual`
//! the pages and completions, `page` the page in the browser, `book` the book as a site; `all` makes everything.
//!
//! Profile-guided optimisation: the command is built twice by the profile `dist`. The first build counts what it executes while it compiles
//! the PTX that lies in this repository; the second is optimised by those counts. No file of the corpus is used, so that what is measured
//! over the corpus was not learnt from it. Merging the counts needs LLVM's own tool, of the version the compiler was built with.
//!
//! On Linux it is linked statically: finding and relocating shared libraries takes a quarter of a millisecond of every start, and a
//! small kernel takes one to compile. (An explicit target keeps the option from build scripts and procedural macros.) Where Rust's
//! target with the C library musl is installed, that is used, as musl starts a third of a millisecond faster than glibc does.
//!
//! Neither LLVM's tools nor musl are needed: a Rust toolchain and nothing else builds the command once, for the host, linked as the host's
//! C library can be. What would make it faster is said with the command that installs it. The Python package is left out, and that is said, where there is no Python.

mod book;
mod library;
mod manual;
mod page;
mod wheel;

use crate::oracle;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where PTX to learn from lies, below the repository.
const TRAINING: &[&str] = &["bench/kernels", "examples", "tests"];

/// The ways each file is compiled: most of what users do, and a little of the rest.
const TRAINING_OPTIONS: &[&[&str]] = &[
    &["-arch=sm_90a"],
    &["-arch=sm_90"],
    &["-arch=sm_90a", "-O0"],
];

pub fn run(args: &[String]) -> Result<(), String> {
    let root = oracle::repository();
    let folder = root.join("target/profile-guided");
    let result = root.join("target/dist");
    match args {
        [] => {
            let host = host()?;
            let orias = command(&root, &folder, &host, &result)?;
            manual::run(&orias, &result)?;
            library::run(&root, &folder, &host, &result)?;
            match wheel::find_python() {
                Ok(()) => wheel::run(&root, &result, Some(&orias), &wheel::Request::default()),
                Err(missing) => {
                    println!("the Python package is left out: {missing}");
                    Ok(())
                }
            }
        }
        [word] if word == "all" => {
            run(&[])?;
            page::run(&root, &root.join("target/page"), &result)?;
            book::run(&root, &result)
        }
        [word] if word == "page" => page::run(&root, &root.join("target/page"), &result),
        [word] if word == "book" => book::run(&root, &result),
        [word] if word == "library" => library::run(&root, &folder, &host()?, &result),
        [word] if word == "manual" => manual::run(&manual::built(&root)?, &result),
        [word, rest @ ..] if word == "wheel" => {
            let request = wheel::Request::parse(rest)?;
            let orias = match request.quick {
                true => None,
                false => Some(command(&root, &folder, &host()?, &result)?),
            };
            wheel::run(&root, &result, orias.as_deref(), &request)
        }
        [extra, ..] => Err(format!("not understood: {extra}")),
    }
}

/// Builds the command and puts it into the folder `result`.
fn command(root: &Path, folder: &Path, host: &str, result: &Path) -> Result<PathBuf, String> {
    let library = rust_library()?;
    let plan = Plan::of(host, &library, has_static_libc());
    println!("for {}", plan.target);
    for missing in &plan.missing {
        println!("it would be faster with {missing}");
    }
    let built = match &plan.merger {
        Some(merger) => {
            let profile = profile(root, folder, &plan, merger)?;
            println!("building the command by what was counted");
            let by_profile = option("-Cprofile-use=", &profile);
            build(root, folder, &plan, Some(&by_profile))?
        }
        None => {
            println!("building the command, without a profile");
            build(root, folder, &plan, None)?
        }
    };
    std::fs::create_dir_all(result).map_err(failed(result))?;
    let result = result.join(name_of(&built));
    std::fs::copy(&built, &result).map_err(failed(&result))?;
    println!("{}", result.display());
    Ok(result)
}

/// What can be built with what is installed.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// The target to build for.
    target: String,
    /// Whether it can be linked statically.
    linked_statically: bool,
    /// LLVM's tool that merges counts, of the version the compiler was built with: no other reads its files.
    merger: Option<PathBuf>,
    /// What is not installed and would make the command faster, with how to install it.
    missing: Vec<&'static str>,
}

/// Rust's target whose C library starts fastest, for the machines that can run it.
const FAST_START: &str = "x86_64-unknown-linux-musl";

impl Plan {
    /// The plan for a host, with what Rust has below `library` for each target and, perhaps, the host's C library to link statically.
    fn of(host: &str, library: &Path, static_libc: bool) -> Plan {
        let mut missing = Vec::new();
        let merger = library
            .join(host)
            .join("bin")
            .join(format!("llvm-profdata{}", std::env::consts::EXE_SUFFIX));
        let merger = merger.is_file().then_some(merger);
        if merger.is_none() {
            missing.push("a profile, by LLVM's tools: `rustup component add llvm-tools`");
        }
        let mut target = host;
        if host == "x86_64-unknown-linux-gnu" {
            if library.join(FAST_START).join("lib").is_dir() {
                target = FAST_START;
            } else {
                missing.push(
                    "a quicker start, by musl: `rustup target add x86_64-unknown-linux-musl`",
                );
            }
        }
        // Rust brings musl along; glibc for static linking is the system's.
        let linked_statically = target == FAST_START || target.contains("-linux-") && static_libc;
        if target.contains("-linux-") && !linked_statically {
            missing.push("a C library to link statically, by the system's package for that");
        }
        Plan {
            target: target.to_owned(),
            linked_statically,
            merger,
            missing,
        }
    }
}

/// Builds the command that counts, lets it compile, and merges what it counted; says where that lies.
fn profile(root: &Path, folder: &Path, plan: &Plan, merger: &Path) -> Result<PathBuf, String> {
    let counts = folder.join("counts");
    if counts.exists() {
        std::fs::remove_dir_all(&counts).map_err(failed(&counts))?;
    }
    std::fs::create_dir_all(&counts).map_err(failed(&counts))?;
    println!("building the command that counts");
    let counts_it = option("-Cprofile-generate=", &counts);
    let counting = build(root, folder, plan, Some(&counts_it))?;
    let compiled = train(root, &counting, &folder.join("training.cubin"))?;
    println!("{compiled} compilations counted");
    let merged = folder.join("merged.profdata");
    succeed(
        Command::new(merger)
            .args(["merge", "-o"])
            .args([&merged, &counts]),
    )?;
    Ok(merged)
}

/// Builds the command, perhaps with one more option of the compiler, apart from every other build, and says where it is.
fn build(
    root: &Path,
    folder: &Path,
    plan: &Plan,
    option: Option<&OsStr>,
) -> Result<PathBuf, String> {
    let mut options: Vec<&OsStr> = option.into_iter().collect();
    if plan.linked_statically {
        options.push("-Ctarget-feature=+crt-static".as_ref());
        options.push("-Crelocation-model=static".as_ref());
    }
    // The separator that `CARGO_ENCODED_RUSTFLAGS` knows is no blank, so paths may hold blanks.
    let options = options.join(OsStr::new("\x1f"));
    succeed(
        Command::new(env!("CARGO"))
            .current_dir(root)
            .args([
                "build",
                "--profile",
                "dist",
                "-p",
                "orias",
                "--target",
                &plan.target,
            ])
            .env("CARGO_TARGET_DIR", folder)
            .env("CARGO_ENCODED_RUSTFLAGS", options),
    )?;
    Ok(folder
        .join(&plan.target)
        .join("dist")
        .join(format!("orias{}", std::env::consts::EXE_SUFFIX)))
}

/// Lets the command that counts compile every file it can learn from; how often it succeeded.
fn train(root: &Path, orias: &Path, output: &Path) -> Result<usize, String> {
    let mut files = Vec::new();
    for folder in TRAINING {
        gather(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut compiled = 0;
    for file in &files {
        for options in TRAINING_OPTIONS {
            // Files that are refused on purpose teach how messages are made.
            let status = Command::new(orias)
                .args(*options)
                .arg(file)
                .arg("-o")
                .arg(output)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .map_err(failed(orias))?;
            compiled += usize::from(status.success());
        }
    }
    if compiled == 0 {
        return Err("the command that counts compiled nothing".into());
    }
    Ok(compiled)
}

/// All PTX below a folder.
fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(failed(&folder))? {
            let path = entry.map_err(failed(&folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension() == Some(OsStr::new("ptx")) {
                files.push(path);
            }
        }
    }
    Ok(())
}

/// The target that this machine is.
fn host() -> Result<String, String> {
    let about = output("rustc", &["-vV"])?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not name its host")?.to_owned())
}

/// Whether the linker finds the host's C library in the form that is linked statically.
fn has_static_libc() -> bool {
    // Without one it repeats the name it was asked for.
    output("cc", &["-print-file-name=libc.a"]).is_ok_and(|path| {
        let path = Path::new(path.trim());
        path.is_absolute() && path.is_file()
    })
}

/// Where Rust has what belongs to a target, a folder each.
pub(crate) fn rust_library() -> Result<PathBuf, String> {
    let sysroot = output("rustc", &["--print", "sysroot"])?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib"))
}

fn output(command: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(command)
        .args(args)
        .output()
        .map_err(failed(Path::new(command)))?;
    if !output.status.success() {
        return Err(format!("{command}: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{command}: {error}"))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(failed(Path::new(command.get_program())))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{}: {status}", command.get_program().display()))
    }
}

fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(name);
    option.push(path);
    option
}

fn name_of(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

fn failed<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "x86_64-unknown-linux-gnu";

    #[test]
    fn a_toolchain_alone_builds_once_and_says_what_is_missing() {
        let library = tempfile::tempdir().unwrap();
        let plan = Plan::of(HOST, library.path(), false);
        assert_eq!((plan.target.as_str(), &plan.merger), (HOST, &None));
        assert!(!plan.linked_statically);
        let commands = [
            "rustup component add llvm-tools",
            "rustup target add",
            "system's package",
        ];
        assert_eq!(plan.missing.len(), commands.len());
        for (missing, command) in plan.missing.iter().zip(commands) {
            assert!(missing.contains(command), "{missing}");
        }
    }

    #[test]
    fn what_is_installed_is_used() {
        let library = tempfile::tempdir().unwrap();
        let tools = library.path().join(HOST).join("bin");
        std::fs::create_dir_all(&tools).unwrap();
        let merger = tools.join(format!("llvm-profdata{}", std::env::consts::EXE_SUFFIX));
        std::fs::write(&merger, "").unwrap();
        std::fs::create_dir_all(library.path().join(FAST_START).join("lib")).unwrap();
        let all = Plan {
            target: FAST_START.into(),
            linked_statically: true,
            merger: Some(merger),
            missing: Vec::new(),
        };
        assert_eq!(Plan::of(HOST, library.path(), false), all);
    }

    #[test]
    fn other_hosts_miss_no_musl() {
        let library = tempfile::tempdir().unwrap();
        let plan = Plan::of("aarch64-apple-darwin", library.path(), false);
        assert_eq!(plan.target, "aarch64-apple-darwin");
        assert_eq!(plan.missing.len(), 1);
    }
}
