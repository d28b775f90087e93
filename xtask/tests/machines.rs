//! Algorithms ask the machine, and never which one it is: a source that names an SM by name or by number fails here.

use std::path::{Path, PathBuf};

/// The rooms whose code must work for every chip there is a table of.
const ROOMS: &[&str] = &[
    "codegen", "eval", "machine", "mercury", "ori", "orias", "sass", "sim", "verify",
];

/// Where targets are found by name.
const EXCEPT: &[&str] = &[
    "crates/sass/src/target.rs",
    // A target is the example of a message.
    "crates/sass/src/text/assemble.rs",
    // Texts that say which chips ptxas means.
    "crates/orias/src/command_line/",
    // The number goes into the file.
    "crates/orias/src/container.rs",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder of the repository");
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// The lines of code before the tests of a file, without comments, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line.split(" // ").next().unwrap_or(line)))
}

/// Why a line asks for an SM, if it does.
fn asks(line: &str) -> Option<&'static str> {
    let digit_behind = |start: &str| {
        let mut places = line.match_indices(start);
        places.any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let inside = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let behind = line[at + start.len()..].chars().next();
            !inside && behind.is_some_and(|c| c.is_ascii_digit())
        })
    };
    if digit_behind("sm_") || digit_behind("SM_") || digit_behind("Sm") || digit_behind("SM") {
        return Some("names an SM");
    }
    if line.contains("target.sm()")
        || line.contains("target.name() ==")
        || line.contains("match target {")
    {
        return Some("asks which target it is");
    }
    None
}

#[test]
fn no_algorithm_asks_for_an_sm() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    for room in ROOMS {
        sources(
            &repository.join("crates").join(room).join("src"),
            &mut paths,
        );
    }
    assert!(paths.len() > 100, "the sources are not where they were");
    for path in EXCEPT {
        assert!(repository.join(path).exists(), "{path} is gone");
    }
    let mut found = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&repository).unwrap_or(&path);
        let name = name.to_string_lossy().replace('\\', "/");
        if EXCEPT.iter().any(|folder| name.starts_with(folder)) || name.ends_with("/tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        for (number, line) in code(&text) {
            if let Some(why) = asks(line) {
                found.push(format!("{name}:{number} {why}: {}", line.trim()));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn the_test_sees_what_it_looks_for() {
    for line in [
        "if target == Target::Sm90a {",
        "\"sm_90\" => 1,",
        "if target.sm() >= 100 {",
        "let wide = match target {",
        "static SM_90: Chip = 1;",
    ] {
        assert!(asks(line).is_some(), "{line}");
    }
    for line in [
        "let sm_count = 3;",
        "small90(x)",
        "Machine::of(func.target)",
    ] {
        assert!(asks(line).is_none(), "{line}");
    }
}

/// The page names every folder and file of tables, and none of code.
#[test]
fn the_page_on_adding_an_sm_names_every_table() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(repository.join("docs/add-an-SM.md")).expect("the page");
    let folder = repository.join("crates/machine/tables/sm_90");
    for entry in std::fs::read_dir(folder).expect("tables").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let named = format!("`crates/machine/tables/<chip>/{name}`");
        assert!(page.contains(&named), "{name} is not on the page");
    }
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        assert!(!row.contains(".rs`"), "no code is changed: {row}");
    }
}
