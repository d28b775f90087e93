//! The Python package that is handed out: a wheel below `target/dist`, made by maturin from `crates/python`, with the command in it.
//!
//! maturin comes from PyPI into a virtual environment below `target/`. It builds the extension module for Python's stable ABI, so that one
//! wheel serves every Python from 3.9 on, and finds out on how old a Linux the module runs. The command goes into the package under the
//! name `ptxas`: clients run that, and the script `orias` starts it under the other name.
//!
//! `--quick` builds without optimising for the hand-out, for tests. `--test` installs the wheel into a fresh virtual environment and runs
//! the tests of the package there; `--with PACKAGE` adds a package to it, `triton` for the tests of that client.

use super::{failed, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that is known to make this wheel.
const MATURIN: &str = "maturin>=1.9,<2";

/// What the tests of the package need.
const TESTING: &[&str] = &["numpy", "pytest"];

/// The profile that the module is built with: a panic becomes an exception, so it must unwind.
const PROFILE: &str = "dist-library";

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Builds for tests: as `cargo build` does.
    pub quick: bool,
    /// Tests what was built.
    pub test: bool,
    /// Packages of PyPI that are installed for the tests.
    pub with: Vec<String>,
}

impl Request {
    /// Reads what follows `wheel`.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut request = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => request.quick = true,
                "--test" => request.test = true,
                "--with" => {
                    let package = words.next().ok_or("--with names a package")?;
                    request.with.push(package.clone());
                }
                other => return Err(format!("not understood: {other}")),
            }
        }
        Ok(request)
    }
}

/// Whether there is a Python that can make virtual environments; if not, what is missing.
pub fn find_python() -> Result<(), String> {
    let found = Command::new("python3")
        .args(["-c", "import venv, ensurepip"])
        .stderr(std::process::Stdio::null())
        .status();
    match found {
        Ok(status) if status.success() => Ok(()),
        _ => Err("it needs Python 3 with its modules venv and ensurepip".to_owned()),
    }
}

/// Builds the wheel around the command `orias`, and says where it is. Without a command, one is built.
pub fn run(
    root: &Path,
    result: &Path,
    command: Option<&Path>,
    request: &Request,
) -> Result<(), String> {
    let source = root.join("crates/python");
    let home = root.join("target/wheel");
    find_python()?;
    let maturin = tool(&home.join("maturin"), &[MATURIN], "maturin")?;
    let built = root.join("target/debug/orias");
    if command.is_none() {
        println!("building the command");
        // With the features that the module will ask for, so that what they share is built once.
        let packages = [
            "build",
            "-p",
            "orias",
            "-p",
            "orias-python",
            "--bin",
            "orias",
        ];
        succeed(Command::new(env!("CARGO")).current_dir(root).args(packages))?;
    }
    place(&source, command.unwrap_or(&built))?;
    println!("building the module");
    let out = home.join("made");
    if out.exists() {
        std::fs::remove_dir_all(&out).map_err(failed(&out))?;
    }
    let profile = match request.quick {
        true => "dev",
        false => PROFILE,
    };
    succeed(
        Command::new(&maturin)
            .current_dir(&source)
            .args(["build", "--quiet", "--profile", profile, "--out"])
            .arg(&out),
    )?;
    let wheel = only_file(&out)?;
    let finished = result.join(wheel.file_name().unwrap_or_default());
    std::fs::create_dir_all(result).map_err(failed(result))?;
    std::fs::copy(&wheel, &finished).map_err(failed(&wheel))?;
    println!("{}", finished.display());
    if request.test {
        test(&source, &home.join("test"), &finished, &request.with)?;
    }
    Ok(())
}

/// Puts the command where the package has it.
fn place(source: &Path, command: &Path) -> Result<(), String> {
    let folder = source.join("python/orias/cuda/bin");
    std::fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let name = format!("ptxas{}", std::env::consts::EXE_SUFFIX);
    let place = folder.join(name);
    if place.exists() {
        std::fs::remove_file(&place).map_err(failed(&place))?;
    }
    std::fs::copy(command, &place).map_err(failed(command))?;
    Ok(())
}

/// The only file of a folder.
fn only_file(folder: &Path) -> Result<PathBuf, String> {
    let mut entries = std::fs::read_dir(folder).map_err(failed(folder))?;
    let first = entries.next().transpose().map_err(failed(folder))?;
    let first = first.ok_or_else(|| format!("{}: there is no wheel", folder.display()))?;
    match entries.next() {
        None => Ok(first.path()),
        Some(_) => Err(format!("{}: there are several files", folder.display())),
    }
}

/// A tool of a virtual environment, which is made where it is missing.
fn tool(home: &Path, packages: &[&str], name: &str) -> Result<PathBuf, String> {
    let tool = home.join("bin").join(name);
    if !tool.exists() {
        environment(home)?;
        install(home, packages)?;
    }
    Ok(tool)
}

fn environment(home: &Path) -> Result<(), String> {
    succeed(Command::new("python3").args(["-m", "venv"]).arg(home))
}

fn install<S: AsRef<std::ffi::OsStr>>(home: &Path, packages: &[S]) -> Result<(), String> {
    succeed(
        Command::new(home.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet"])
            .arg("--disable-pip-version-check")
            .args(packages),
    )
}

/// Installs the wheel into a fresh environment and runs its tests.
fn test(source: &Path, home: &Path, wheel: &Path, with: &[String]) -> Result<(), String> {
    println!("testing the wheel in a fresh environment");
    if home.exists() {
        std::fs::remove_dir_all(home).map_err(failed(home))?;
    }
    environment(home)?;
    install(home, &[wheel])?;
    let packages: Vec<&str> = TESTING
        .iter()
        .copied()
        .chain(with.iter().map(String::as_str))
        .collect();
    install(home, &packages)?;
    // From a folder without the package's sources, so that what was installed is tested.
    let tests = source.join("tests");
    succeed(
        Command::new(home.join("bin/python"))
            .current_dir(home)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .arg(tests),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn requests_are_read() {
        let all = Request {
            quick: true,
            test: true,
            with: vec!["triton".into()],
        };
        assert_eq!(
            Request::parse(&words("--quick --test --with triton")),
            Ok(all)
        );
        assert_eq!(Request::parse(&[]), Ok(Request::default()));
        assert!(Request::parse(&words("--with")).is_err());
        assert!(Request::parse(&words("--fast")).is_err());
    }

    #[test]
    fn the_command_is_put_into_the_package() {
        let scratch = tempfile::tempdir().unwrap();
        let command = scratch.path().join("orias");
        for text in ["old", "new"] {
            std::fs::write(&command, text).unwrap();
            place(scratch.path(), &command).unwrap();
        }
        let name = format!(
            "python/orias/cuda/bin/ptxas{}",
            std::env::consts::EXE_SUFFIX
        );
        assert_eq!(
            std::fs::read_to_string(scratch.path().join(name)).unwrap(),
            "new"
        );
    }
}
