//! `cargo xtask hosts`: that the command and the library build elsewhere.
//!
//! What is checked is types and conditions, not linking: that needs no linker of the other system. Rust's library for a target must be
//! installed; targets without are named with the command that installs them, and left out.

use crate::oracle;
use std::path::Path;
use std::process::Command;

/// A target and what is checked for it.
struct Host {
    target: &'static str,
    packages: &'static [&'static str],
}

const EVERYTHING: &[&str] = &["orias", "orias-capi"];

const HOSTS: &[Host] = &[
    Host {
        target: "x86_64-unknown-linux-gnu",
        packages: EVERYTHING,
    },
    Host {
        target: "x86_64-unknown-linux-musl",
        packages: EVERYTHING,
    },
    Host {
        target: "aarch64-unknown-linux-gnu",
        packages: EVERYTHING,
    },
    Host {
        target: "aarch64-apple-darwin",
        packages: EVERYTHING,
    },
    Host {
        target: "x86_64-pc-windows-msvc",
        packages: EVERYTHING,
    },
    Host {
        target: "wasm32-unknown-unknown",
        packages: &["orias-web"],
    },
];

pub fn run(args: &[String]) -> Result<(), String> {
    if let [extra, ..] = args {
        return Err(format!("not understood: {extra}"));
    }
    let root = oracle::repository();
    let library = crate::dist::rust_library()?;
    let mut wrong = Vec::new();
    for host in HOSTS {
        if !is_installed(&library, host.target) {
            println!(
                "{}: left out; `rustup target add {}` installs Rust's library for it",
                host.target, host.target
            );
            continue;
        }
        let mut check = Command::new(env!("CARGO"));
        check
            .current_dir(&root)
            .args(["check", "--quiet", "--target", host.target]);
        for package in host.packages {
            check.args(["-p", package]);
        }
        let status = check.status().map_err(|error| error.to_string())?;
        let verdict = if status.success() { "builds" } else { "fails" };
        println!("{}: {verdict}", host.target);
        if !status.success() {
            wrong.push(host.target);
        }
    }
    match wrong[..] {
        [] => Ok(()),
        _ => Err(format!("does not build for {}", wrong.join(", "))),
    }
}

fn is_installed(library: &Path, target: &str) -> bool {
    library.join(target).join("lib").is_dir()
}
