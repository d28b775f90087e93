//! The C library that is handed out: `target/dist/lib` and `target/dist/include`, with what pkg-config and CMake look for.
//!
//! It is built for the host, as the program that links it is, and by a profile of its own (`dist-library`): a panic is caught at the
//! library's boundary, so it must unwind.

use super::{failed, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROFILE: &str = "dist-library";

/// What a static library needs besides itself.
const SYSTEM_LIBRARIES: &[&str] = &["pthread", "dl", "m"];

const HEADERS: &[&str] = &["orias.h", "nvPTXCompiler.h"];

/// Templates of files that say how to link, and where they go.
const TEMPLATES: &[(&str, &str)] = &[
    ("orias.pc.in", "lib/pkgconfig/orias.pc"),
    (
        "orias-config.cmake.in",
        "lib/cmake/orias/orias-config.cmake",
    ),
    (
        "orias-config-version.cmake.in",
        "lib/cmake/orias/orias-config-version.cmake",
    ),
];

/// The shared library: as cargo names it, as programs look for it at run time, and as the linker does.
struct Shared {
    built: String,
    at_run_time: &'static str,
    when_linked: &'static str,
}

fn shared() -> Result<Shared, String> {
    let (at_run_time, when_linked) = match std::env::consts::OS {
        "linux" => ("liborias.so.0", "liborias.so"),
        "macos" => ("liborias.0.dylib", "liborias.dylib"),
        other => return Err(format!("not supported yet: a C library for {other}")),
    };
    Ok(Shared {
        built: format!("liborias_capi{}", std::env::consts::DLL_SUFFIX),
        at_run_time,
        when_linked,
    })
}

/// Builds the library and puts it, its headers and the rest below `result`.
pub fn run(root: &Path, folder: &Path, host: &str, result: &Path) -> Result<(), String> {
    println!("building the C library");
    succeed(
        Command::new(env!("CARGO"))
            .current_dir(root)
            .args(["build", "--profile", PROFILE, "-p", "orias-capi"])
            .args(["--target", host])
            .env("CARGO_TARGET_DIR", folder),
    )?;
    let built = folder.join(host).join(PROFILE);
    for file in install(&root.join("crates/capi"), &built, result)? {
        println!("{}", file.display());
    }
    Ok(())
}

/// Copies what was built, and fills in the templates; says what is there now.
fn install(source: &Path, built: &Path, result: &Path) -> Result<Vec<PathBuf>, String> {
    let shared = shared()?;
    let mut files = vec![
        (built.join("liborias_capi.a"), "lib/liborias.a".to_owned()),
        (
            built.join(&shared.built),
            format!("lib/{}", shared.at_run_time),
        ),
    ];
    let headers = HEADERS.iter();
    files
        .extend(headers.map(|name| (source.join("include").join(name), format!("include/{name}"))));
    let mut installed = Vec::new();
    for (from, to) in files {
        let to = place(result, &to)?;
        std::fs::copy(&from, &to).map_err(failed(&from))?;
        installed.push(to);
    }
    let link = place(result, &format!("lib/{}", shared.when_linked))?;
    if link.is_symlink() {
        std::fs::remove_file(&link).map_err(failed(&link))?;
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(shared.at_run_time, &link).map_err(failed(&link))?;
    installed.push(link);
    let flags = SYSTEM_LIBRARIES.iter().map(|name| format!("-l{name}"));
    let flags: Vec<String> = flags.collect();
    for (name, to) in TEMPLATES {
        let template = source.join("packaging").join(name);
        let text = std::fs::read_to_string(&template).map_err(failed(&template))?;
        let text = text
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
            .replace("@SYSTEM_LIBRARIES@", &SYSTEM_LIBRARIES.join(";"))
            .replace("@SYSTEM_FLAGS@", &flags.join(" "))
            .replace("@SHARED@", shared.at_run_time);
        let to = place(result, to)?;
        std::fs::write(&to, text).map_err(failed(&to))?;
        installed.push(to);
    }
    Ok(installed)
}

/// A path below `result`, in a folder that exists.
fn place(result: &Path, name: &str) -> Result<PathBuf, String> {
    let path = result.join(name);
    let folder = path.parent().unwrap_or(result);
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    Ok(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::oracle;

    #[test]
    fn everything_a_program_needs_is_put_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let (built, result) = (folder.path().join("built"), folder.path().join("result"));
        std::fs::create_dir_all(&built).unwrap();
        let shared = shared().unwrap();
        std::fs::write(built.join("liborias_capi.a"), "static").unwrap();
        std::fs::write(built.join(&shared.built), "shared").unwrap();
        // Twice: what is there from before is replaced.
        for _ in 0..2 {
            let source = oracle::repository().join("crates/capi");
            let installed = install(&source, &built, &result).unwrap();
            assert_eq!(installed.len(), 8);
            for file in &installed {
                let text = std::fs::read_to_string(file).unwrap();
                assert!(
                    !text.is_empty() && !text.contains('@'),
                    "{}",
                    file.display()
                );
            }
        }
        let linked = result.join("lib").join(shared.when_linked);
        assert_eq!(std::fs::read_to_string(linked).unwrap(), "shared");
        let pkg_config = std::fs::read_to_string(result.join("lib/pkgconfig/orias.pc")).unwrap();
        assert!(pkg_config.contains("-lorias"));
    }
}
