//! The page that is handed out: `target/dist/page`, an HTML file and, beside it, the library in WebAssembly as a script.
//!
//! A page that is opened from a folder may not load a module by its address, but it may run a script: so the module, compressed, is a
//! text in one. Rust's target for WebAssembly is needed, and nothing else.

use super::{failed, rust_library, succeed};
use orias::view::{base64, live_page};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
const PROFILE: &str = "dist-page";

/// Bytes that the compressed module may have.
const MOST: usize = 5 << 20;

/// Phases of the compiler have larger frames than WebAssembly's usual megabyte of stack is good for.
const STACK: &str = "-Clink-arg=-zstack-size=8388608";

/// Makes the page below `result`.
pub fn run(root: &Path, folder: &Path, result: &Path) -> Result<(), String> {
    if !rust_library()?.join(TARGET).join("lib").is_dir() {
        return Err(format!(
            "the page needs Rust's target for WebAssembly: `rustup target add {TARGET}`"
        ));
    }
    println!("building the page's engine");
    succeed(
        Command::new(env!("CARGO"))
            .current_dir(root)
            .args(["build", "--profile", PROFILE, "-p", "orias-web"])
            .args(["--target", TARGET])
            .env("CARGO_TARGET_DIR", folder)
            .env("CARGO_ENCODED_RUSTFLAGS", STACK),
    )?;
    let built = folder.join(TARGET).join(PROFILE).join("orias_web.wasm");
    let module = std::fs::read(&built).map_err(failed(&built))?;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&module).map_err(failed(&built))?;
    let compressed = encoder.finish().map_err(failed(&built))?;
    println!(
        "{} bytes of WebAssembly, {} compressed",
        module.len(),
        compressed.len()
    );
    if compressed.len() > MOST {
        return Err(format!("the engine is larger than {MOST} bytes"));
    }
    let page = result.join("page");
    std::fs::create_dir_all(&page).map_err(failed(&page))?;
    let engine = format!(
        "const ORIAS_ENGINE = \"{}\";\n",
        base64::encode(&compressed)
    );
    for (name, text) in [
        ("engine.js", engine),
        ("index.html", live_page("engine.js")),
    ] {
        let file = page.join(name);
        std::fs::write(&file, text).map_err(failed(&file))?;
        println!("{}", file.display());
    }
    Ok(())
}
