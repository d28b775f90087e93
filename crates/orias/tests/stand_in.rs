//! Orias below another program: what the environment tells it (`docs/toolkit.md`).
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const GOOD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n";
const BAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { rat; }\n";

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("good.ptx"), GOOD).expect("written");
        std::fs::write(folder.path().join("bad.ptx"), BAD).expect("written");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A ptxas that makes a file of its arguments, and says so.
    fn other(&self, code: u8) -> PathBuf {
        let text = format!(
            "#!/bin/sh\n[ -z \"$ORIAS_FALLBACK$ORIAS_LOG\" ] || exit 9\necho \"other was asked\" >&2\necho \"$@\" > {}\nexit {code}\n",
            self.path("asked").display()
        );
        let path = self.path("other");
        std::fs::write(&path, text).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("permissions");
        path
    }

    fn orias(&self, input: &str, environment: &[(&str, &Path)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_orias"))
            .args(["-arch=sm_90a", input, "-o", "out.cubin"])
            .current_dir(self.folder.path())
            .envs(environment.iter().copied())
            .output()
            .expect("started")
    }

    fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn every_compilation_is_written_down_by_who_did_it() {
    let place = Place::new();
    let log = place.path("log");
    assert!(
        place
            .orias("good.ptx", &[("ORIAS_LOG", &log)])
            .status
            .success()
    );
    let failed = place.orias("bad.ptx", &[("ORIAS_LOG", &log)]);
    assert_eq!(failed.status.code(), Some(255));
    let lines = place.log();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("\"by\":\"orias\"") && lines[0].contains("\"code\":0"));
    assert!(lines[0].contains("good.ptx") && lines[0].contains("\"refusal\":null"));
    assert!(lines[1].contains("\"code\":255") && lines[1].contains("line 4"));
}

#[test]
fn another_ptxas_is_asked_only_where_orias_refuses() {
    let place = Place::new();
    let (log, other) = (place.path("log"), place.other(0));
    let environment = [
        ("ORIAS_LOG", log.as_path()),
        ("ORIAS_FALLBACK", other.as_path()),
    ];
    assert!(place.orias("good.ptx", &environment).status.success());
    assert!(!place.path("asked").exists());
    let asked = place.orias("bad.ptx", &environment);
    assert!(asked.status.success());
    assert_eq!(asked.stderr, b"other was asked\n");
    let arguments = std::fs::read_to_string(place.path("asked")).expect("asked");
    assert_eq!(arguments, "-arch=sm_90a bad.ptx -o out.cubin\n");
    assert!(place.log()[1].contains("\"by\":\"ptxas\""));
    place.other(3);
    assert_eq!(place.orias("bad.ptx", &environment).status.code(), Some(3));
}

#[test]
fn a_fallback_that_does_not_run_is_named() {
    let place = Place::new();
    let missing = place.path("missing");
    let output = place.orias("bad.ptx", &[("ORIAS_FALLBACK", &missing)]);
    assert_eq!(output.status.code(), Some(255));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("line 4") && said.contains("missing"),
        "{said}"
    );
}

#[test]
fn the_release_can_be_another() {
    let version = |release: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_orias"))
            .arg("--version")
            .env("ORIAS_RELEASE", release)
            .output()
            .expect("started");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(version("12.8.93").contains("release 12.8, V12.8.93"));
    assert!(version("nonsense").contains("release 13.0, V13.0.88"));
}
