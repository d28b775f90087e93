//! A dependency that nothing uses fails here: one of the workspace that no crate names, or one of a crate that none of its files names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn manifest_in(folder: &Path) -> toml::Table {
    let path = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).expect("a manifest");
    text.parse().expect("a manifest is TOML")
}

/// The folders of all crates of the workspace, and of the fuzzers, which stand outside it.
fn crates() -> Vec<PathBuf> {
    let below = std::fs::read_dir(root().join("crates")).expect("crates/ exists");
    let mut folders: Vec<PathBuf> = below
        .map(|entry| entry.expect("a readable entry").path())
        .collect();
    folders.sort();
    folders.extend([root().join("xtask"), root().join("fuzz")]);
    folders
}

/// The names of all dependencies of a manifest, of tests, build scripts and some platforms too.
fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms = platforms.into_iter().flat_map(toml::Table::values);
    [manifest]
        .into_iter()
        .chain(platforms.filter_map(toml::Value::as_table))
        .flat_map(|table| {
            ["dependencies", "dev-dependencies", "build-dependencies"]
                .iter()
                .filter_map(|section| table.get(*section)?.as_table())
        })
        .flat_map(toml::Table::keys)
        .cloned()
        .collect()
}

/// The text of all Rust files below a folder, without comments, which may speak of what is not used.
fn code_below(folder: &Path) -> String {
    let mut folders = vec![folder.to_path_buf()];
    let mut code = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).expect("Rust code is text");
                for line in text.lines() {
                    code.push_str(line.split("//").next().unwrap_or_default());
                    code.push('\n');
                }
            }
        }
    }
    code
}

/// Whether `code` names the crate as the start of a path or in a `use`.
fn names(code: &str, dependency: &str) -> bool {
    let name = dependency.replace('-', "_");
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(&name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let used = before.ends_with("use ") || after.starts_with("::");
        used && !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

/// The dependencies that are named by none of the code.
fn unused(manifest: &toml::Table, code: &str) -> Vec<String> {
    let all = dependencies(manifest).into_iter();
    all.filter(|dependency| !names(code, dependency)).collect()
}

#[test]
fn every_dependency_of_the_workspace_belongs_to_a_crate() {
    let workspace = manifest_in(&root());
    let listed = workspace["workspace"]["dependencies"]
        .as_table()
        .expect("a table");
    let used: BTreeSet<String> = crates()
        .iter()
        .flat_map(|folder| dependencies(&manifest_in(folder)))
        .collect();
    let idle: Vec<&String> = listed.keys().filter(|name| !used.contains(*name)).collect();
    assert_eq!(idle, Vec::<&String>::new());
}

#[test]
fn every_dependency_of_a_crate_is_named_in_its_code() {
    let mut idle = Vec::new();
    for folder in crates() {
        for name in unused(&manifest_in(&folder), &code_below(&folder)) {
            idle.push(format!("{}: {name}", folder.display()));
        }
    }
    assert_eq!(idle, Vec::<String>::new());
}

#[test]
fn an_unused_dependency_is_noticed() {
    let manifest =
        "[dependencies]\nlogos = \"1\"\n[target.'cfg(unix)'.dependencies]\nserde-json = \"1\"\n";
    let manifest: toml::Table = manifest.parse().unwrap();
    assert_eq!(
        unused(&manifest, "use logos;\nlet serde_jsonx = 1;"),
        ["serde-json"]
    );
    assert_eq!(
        unused(&manifest, "my_logos::lex(); serde_json::to_string()"),
        ["logos"]
    );
}
