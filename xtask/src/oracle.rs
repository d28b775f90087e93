//! NVIDIA's public tools, as black boxes to compare with.
//!
//! They come from PyPI into a Python virtual environment below `target/`, and are used by conformance tests only. Set
//! `ORIAS_ORACLE` to a folder to keep one installation for several checkouts.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages and the versions every recorded result refers to.
const PACKAGES: &[&str] = &[
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-nvdisasm==13.2.51",
    "nvidia-cuda-cuobjdump==13.2.51",
];

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Where the virtual environment is, or will be.
pub fn home() -> PathBuf {
    std::env::var_os("ORIAS_ORACLE")
        .map_or_else(|| repository().join("target").join("oracle"), PathBuf::from)
}

/// `cargo xtask oracle`: makes the virtual environment if it is missing and brings it to the versions above.
pub fn install(args: &[String]) -> Result<(), String> {
    if let Some(extra) = args.first() {
        return Err(format!("takes no argument, got '{extra}'"));
    }
    let home = home();
    if !home.join("bin").join("pip").exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    }
    run(Command::new(home.join("bin").join("pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(PACKAGES))?;
    for tool in ["ptxas", "nvcc", "nvdisasm", "cuobjdump"] {
        println!("{tool}: {}", find(tool)?.display());
    }
    Ok(())
}

/// The path of one of the installed tools.
pub fn find(tool: &str) -> Result<PathBuf, String> {
    let lib = home().join("lib");
    let pythons = std::fs::read_dir(&lib)
        .map_err(|error| format!("{}: {error}; run `cargo xtask oracle`", lib.display()))?;
    for python in pythons.flatten() {
        let path = python
            .path()
            .join("site-packages/nvidia/cu13/bin")
            .join(tool);
        if path.exists() {
            return Ok(path);
        }
    }
    Err(format!(
        "{tool} is not below {}; run `cargo xtask oracle`",
        home().display()
    ))
}

/// The tool that is installed here, or the one on the path: machines with a GPU have their own.
pub fn installed(tool: &str) -> PathBuf {
    find(tool).unwrap_or_else(|_| tool.into())
}

/// Memory that a tool may take, in KiB: ptxas -O0 takes all there is for some generated programs, and the machine with it.
const MEMORY: u64 = 8 << 20;

/// A command that runs one of the tools within [`MEMORY`]; arguments and streams are the caller's.
pub fn bounded(tool: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("ulimit -v {MEMORY} && exec \"$0\" \"$@\""))
        .arg(tool);
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(
            "{} ended with {status}",
            command.get_program().to_string_lossy()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_run_within_their_memory_and_get_their_arguments() {
        let output = bounded(Path::new("sh"))
            .args(["-c", "ulimit -v; echo \"$1\"", "sh", "two words"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said, format!("{MEMORY}\ntwo words\n"));
    }
}
