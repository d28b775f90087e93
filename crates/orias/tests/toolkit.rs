//! `orias toolkit` with a toolkit of scripts: what is linked, what is refused, and what the check finds. With NVIDIA's own nvcc it is tried by
//! `cargo xtask conformance toolkit`.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// An nvcc that does with its ptxas what the real one does.
const NVCC: &str = r#"#!/bin/sh
here=$(dirname "$0")
case "$1" in
--version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0;;
esac
[ -f "$here/nvcc.profile" ] || { echo "no profile" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case "$1" in
  -o) out=$2; shift;;
  esac
  shift
done
printf '.version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry first() { ret; }\n' > "$out.ptx"
exec "$here/ptxas" -arch=sm_90a "$out.ptx" -o "$out"
"#;

fn script(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("permissions");
}

fn toolkit(folder: &Path) {
    for name in ["bin/crt", "include", "nvvm/libdevice"] {
        std::fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    script(&folder.join("bin/nvcc"), NVCC);
    script(&folder.join("bin/ptxas"), "#!/bin/sh\nexit 7\n");
    std::fs::write(folder.join("bin/nvcc.profile"), "TOP = $(_HERE_)/..\n").expect("written");
    std::fs::write(folder.join("include/cuda.h"), "// cuda\n").expect("written");
}

fn orias(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orias"))
        .arg("toolkit")
        .args(arguments)
        .env_remove("CUDA_HOME")
        .env_remove("CUDA_PATH")
        .output()
        .expect("started")
}

fn said(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn a_shadow_has_everything_and_its_ptxas_is_orias() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (real, shadow) = (scratch.path().join("cuda"), scratch.path().join("shadow"));
    toolkit(&real);
    let before = std::fs::read(real.join("bin/ptxas")).expect("a script");
    // Twice: a shadow is made anew.
    for _ in 0..2 {
        let output = orias(&[&shadow, Path::new("--cuda"), &real]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(
            said(&output).contains("a first kernel is compiled by Orias"),
            "{}",
            said(&output)
        );
    }
    for name in ["include/cuda.h", "nvvm/libdevice", "bin/nvcc", "bin/crt"] {
        assert!(shadow.join(name).exists(), "{name}");
    }
    let version = Command::new(shadow.join("bin/ptxas"))
        .arg("--version")
        .output()
        .expect("started");
    assert!(String::from_utf8_lossy(&version.stdout).contains("Orias"));
    assert_eq!(
        std::fs::read(real.join("bin/ptxas")).expect("a script"),
        before
    );
}

#[test]
fn what_is_no_shadow_is_left_alone() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (real, other) = (scratch.path().join("cuda"), scratch.path().join("other"));
    toolkit(&real);
    std::fs::create_dir(&other).expect("a folder");
    std::fs::write(other.join("letter"), "dear").expect("written");
    let output = orias(&[&other, Path::new("--cuda"), &real]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("something in it already"));
    assert_eq!(
        std::fs::read(other.join("letter")).expect("a file"),
        b"dear"
    );
    let inside = orias(&[&real.join("shadow"), Path::new("--cuda"), &real]);
    assert!(said(&inside).contains("must not lie in the toolkit"));
}

#[test]
fn what_is_no_toolkit_is_refused_and_so_is_a_shadow() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (real, shadow) = (scratch.path().join("cuda"), scratch.path().join("shadow"));
    let cuda = Path::new("--cuda");
    let empty = orias(&[&shadow, cuda, scratch.path()]);
    assert!(
        said(&empty).contains("has a folder 'bin'"),
        "{}",
        said(&empty)
    );
    let missing = orias(&[&shadow, cuda, &scratch.path().join("nothing")]);
    assert_eq!(missing.status.code(), Some(1));
    toolkit(&real);
    assert!(orias(&[&shadow, cuda, &real]).status.success());
    let second = orias(&[&scratch.path().join("second"), cuda, &shadow]);
    assert!(
        said(&second).contains("a shadow itself"),
        "{}",
        said(&second)
    );
}

#[test]
fn an_nvcc_that_goes_past_its_ptxas_is_found_out() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (real, shadow) = (scratch.path().join("cuda"), scratch.path().join("shadow"));
    toolkit(&real);
    script(
        &real.join("bin/nvcc"),
        "#!/bin/sh\necho 'release 13.0'\nexit 0\n",
    );
    let output = orias(&[&shadow, Path::new("--cuda"), &real]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("does not ask the ptxas beside it"),
        "{}",
        said(&output)
    );
    let unchecked = orias(&[&shadow, Path::new("--cuda"), &real, Path::new("--no-check")]);
    assert!(unchecked.status.success(), "{}", said(&unchecked));
}
