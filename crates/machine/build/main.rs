//! Compiles the text tables of `tables/sm_90` into static data, so that a command that compiles one small kernel reads none.
//!
//! [`read`] takes the lines apart and checks that what they name exists, [`latencies`] lays what the three files of cycles say over
//! each other, and [`emit`] writes Rust. What the patterns of classes and groups say of an operation is worked out at run time, when the
//! operation is first asked for: the instruction set is not known here.

mod emit;
mod latencies;
mod read;

use std::path::Path;

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let tables = Path::new(&manifest).join("tables").join("sm_90");
    println!("cargo::rerun-if-changed={}", tables.display());
    println!("cargo::rerun-if-changed=build");
    match compile(&tables) {
        Ok(text) => {
            std::fs::write(Path::new(&out).join("timing.rs"), text).expect("OUT_DIR is writable")
        }
        Err(error) => {
            println!("cargo::error={error}");
            std::process::exit(1);
        }
    }
}

fn compile(tables: &Path) -> Result<String, String> {
    let text = |name: &str| {
        let path = tables.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let classes = text("classes.tbl")?;
    let classes = read::classes(&classes)?;
    let groups = text("groups.tbl")?;
    let groups = read::groups(&groups, &classes)?;
    let (measured, mined, assumed) = (
        text("measured.tbl")?,
        text("mined.tbl")?,
        text("assumed.tbl")?,
    );
    let files = latencies::Files {
        measured: read::edges("measured.tbl", &measured)?,
        mined: read::edges("mined.tbl", &mined)?,
        assumed: read::edges("assumed.tbl", &assumed)?,
    };
    let latencies = latencies::combine(&groups, &files)?;
    Ok(emit::rust(&classes, &groups, &latencies))
}
