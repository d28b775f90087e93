//! `cargo xtask dist`: the command that is handed out, `target/dist/orias`, built with a profile of itself at work.
//!
//! The command is built twice by the profile `dist`. The first build counts what it executes while it compiles the PTX that lies in this
//! repository; the second is optimised by those counts. No file of the corpus is used, so that what is measured over the corpus was not
//! learnt from it. Merging the counts needs LLVM's own tool, which `rustup component add llvm-tools` installs.
//!
//! On Linux it is linked statically: finding and relocating shared libraries takes a quarter of a millisecond of every start, and a
//! small kernel takes one to compile. (An explicit target keeps the option from build scripts and procedural macros.) Where Rust's
//! target with the C library musl is installed (`rustup target add x86_64-unknown-linux-musl`), that is used, as musl starts a third of a
//! millisecond faster than glibc does.

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
    if let Some(extra) = args.first() {
        return Err(format!("not understood: {extra}"));
    }
    let root = oracle::repository();
    let folder = root.join("target/profile-guided");
    let counts = folder.join("counts");
    if counts.exists() {
        std::fs::remove_dir_all(&counts).map_err(failed(&counts))?;
    }
    std::fs::create_dir_all(&counts).map_err(failed(&counts))?;
    let host = host()?;
    let merger = llvm_profdata(&host)?;
    let target = target(&host)?;
    println!("for {target}");

    println!("building the command that counts");
    let counting = build(
        &root,
        &folder,
        &target,
        &option("-Cprofile-generate=", &counts),
    )?;
    let compiled = train(&root, &counting, &folder.join("training.cubin"))?;
    println!("{compiled} compilations counted");
    let merged = folder.join("merged.profdata");
    succeed(
        Command::new(merger)
            .args(["merge", "-o"])
            .args([&merged, &counts]),
    )?;

    println!("building the command by what was counted");
    let built = build(&root, &folder, &target, &option("-Cprofile-use=", &merged))?;
    let result = root.join("target/dist").join(name_of(&built));
    std::fs::create_dir_all(root.join("target/dist")).map_err(failed(&result))?;
    std::fs::copy(&built, &result).map_err(failed(&result))?;
    println!("{}", result.display());
    Ok(())
}

/// Builds the command with one more option of the compiler, apart from every other build, and says where it is.
fn build(root: &Path, folder: &Path, target: &str, option: &OsStr) -> Result<PathBuf, String> {
    // The separator that `CARGO_ENCODED_RUSTFLAGS` knows is no blank, so paths may hold blanks.
    let mut options = option.to_os_string();
    if target.contains("-linux-") {
        for fixed in ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"] {
            options.push("\x1f");
            options.push(fixed);
        }
    }
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
                target,
            ])
            .env("CARGO_TARGET_DIR", folder)
            .env("CARGO_ENCODED_RUSTFLAGS", options),
    )?;
    Ok(folder
        .join(target)
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

/// The target to build for on this machine. Only for x86-64 does the command have functions for bytes that make up for those of glibc.
fn target(host: &str) -> Result<String, String> {
    const FAST_START: &str = "x86_64-unknown-linux-musl";
    let installed = || Ok::<_, String>(rust_library()?.join(FAST_START).join("lib").is_dir());
    if host == "x86_64-unknown-linux-gnu" && installed()? {
        return Ok(FAST_START.into());
    }
    Ok(host.into())
}

/// Where Rust has what belongs to a target, a folder each.
fn rust_library() -> Result<PathBuf, String> {
    let sysroot = output("rustc", &["--print", "sysroot"])?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib"))
}

/// LLVM's tool that merges counts, of the version the compiler was built with: no other reads its files.
fn llvm_profdata(host: &str) -> Result<PathBuf, String> {
    let tool = rust_library()?
        .join(host)
        .join("bin")
        .join(format!("llvm-profdata{}", std::env::consts::EXE_SUFFIX));
    if !tool.is_file() {
        return Err("llvm-profdata is missing: `rustup component add llvm-tools`".into());
    }
    Ok(tool)
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
