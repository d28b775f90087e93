//! The book as a site: `target/dist/book`, by mdBook, from the pages of `docs/` and their order in `docs/SUMMARY.md`.

use super::{failed, succeed};
use std::path::Path;
use std::process::{Command, Stdio};

/// Builds the site below `result`.
pub fn run(root: &Path, result: &Path) -> Result<(), String> {
    let there = Command::new("mdbook")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        return Err("the book needs mdBook: `cargo install mdbook`".into());
    }
    let site = result.join("book");
    succeed(
        Command::new("mdbook")
            .arg("build")
            .arg(root.join("docs"))
            .arg("--dest-dir")
            .arg(&site),
    )?;
    // mdBook copies whatever lies beside the pages, its own settings too.
    let settings = site.join("book.toml");
    std::fs::remove_file(&settings).map_err(failed(&settings))?;
    let first = site.join("index.html");
    std::fs::metadata(&first).map_err(failed(&first))?;
    println!("{}", first.display());
    Ok(())
}
