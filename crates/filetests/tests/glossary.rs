//! The glossary knows the words: what the heads of modules abbreviate has a row, rows are in order, and each names a word that the code or the book uses.

use orias_codegen::pipeline::PHASES;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The rooms whose heads are read.
const ROOMS: &[&str] = &[
    "codegen",
    "ori",
    "machine",
    "mercury",
    "verify",
    "sim",
    "reference",
    "eval",
];

/// Abbreviations that everybody knows, or that are the titles of conferences and papers.
const COMMON: &[&str] = &[
    "ARITH", "CPU", "CUDA", "DEFAULT", "DWARF", "FP32", "FP64", "IEEE", "IR", "KB", "NCA",
    "NVIDIA", "POPL", "PTX", "RESULTS", "RMS", "SPMD", "ZERO",
];

/// Names that belong to a notation that is explained where it stands.
const NOTATIONS: &[&str] = &["ILP", "PHDR", "QNAN", "WAITDP", "WHEN"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sections of the glossary, each with its rows as words and meaning.
fn sections() -> Vec<(String, Vec<(String, String)>)> {
    let text = std::fs::read_to_string(repository().join("docs/glossary.md")).expect("the page");
    let parts = text.split("\n## ").skip(1);
    let row = |line: &str| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let (word, meaning) = cells.split_once(" | ")?;
        let head = word == "word" || word.starts_with("---");
        (!head).then(|| (word.to_owned(), meaning.to_owned()))
    };
    parts
        .map(|part| {
            let title = part.lines().next().unwrap_or_default();
            (title.to_owned(), part.lines().filter_map(row).collect())
        })
        .collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder of the repository");
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path
            .extension()
            .is_some_and(|ext| ext == "rs" || ext == "md")
        {
            found.push(path);
        }
    }
}

/// What a text abbreviates: words of capitals and digits, two letters at the least, that are no code.
fn abbreviations(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split('`').step_by(2);
    let inside = |c: char| c.is_ascii_alphanumeric() || "_.%[]".contains(c);
    prose
        .flat_map(move |prose| prose.split(move |c: char| !inside(c)))
        .map(|word| word.trim_matches('.'))
        .filter(|word| {
            let letters = word.chars().filter(char::is_ascii_uppercase).count();
            let digits = word.chars().filter(char::is_ascii_digit).count();
            letters > 1 && letters + digits == word.len()
        })
}

#[test]
fn abbreviations_of_heads_are_explained() {
    let mut paths = Vec::new();
    for room in ROOMS {
        sources(
            &repository().join("crates").join(room).join("src"),
            &mut paths,
        );
    }
    let words: BTreeSet<String> = sections()
        .into_iter()
        .flat_map(|(_, rows)| rows)
        .flat_map(|(word, meaning)| {
            let both = format!("{word} {meaning}").replace('`', "");
            let found: Vec<String> = abbreviations(&both).map(str::to_owned).collect();
            found
        })
        .collect();
    let machine: BTreeSet<&str> = orias_sass::OPERATIONS
        .iter()
        .flat_map(|row| row.name.split(['.', '_']))
        .collect();
    let mut unknown = BTreeSet::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a source");
        let lines = text.lines().filter_map(|line| line.strip_prefix("//!"));
        // Indented lines are examples.
        let lines = lines.filter(|line| !line.starts_with("   "));
        let head: Vec<&str> = lines.collect();
        for word in abbreviations(&head.join("\n")) {
            let register = orias_sass::Register::from_name(word).is_some();
            let known = COMMON.contains(&word) || NOTATIONS.contains(&word);
            if !known && !register && !machine.contains(word) && !words.contains(word) {
                unknown.insert(format!("{word} ({})", path.display()));
            }
        }
    }
    assert_eq!(unknown, BTreeSet::new());
}

#[test]
fn words_are_in_order_and_in_use() {
    let mut paths = Vec::new();
    for folder in ["crates", "docs", "xtask/src"] {
        sources(&repository().join(folder), &mut paths);
    }
    paths.retain(|path| !path.ends_with("glossary.md"));
    let text: String = paths
        .iter()
        .map(|path| {
            std::fs::read_to_string(path)
                .expect("a text")
                .to_lowercase()
        })
        .collect();
    let mut wrong = Vec::new();
    for (title, rows) in sections() {
        assert!(rows.len() > 10, "{title} has rows");
        let keys: Vec<String> = rows
            .iter()
            .map(|(word, _)| word.replace('`', "").to_lowercase())
            .collect();
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] >= pair[1]) {
            wrong.push(format!("{} stands before {}", pair[0], pair[1]));
        }
        for key in &keys {
            let spellings = key.split([',', '(', ')']).map(str::trim);
            let mut spellings = spellings.filter(|word| !word.is_empty());
            if !spellings.any(|word| text.contains(word)) {
                wrong.push(format!("nobody says {key}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// `Name (number)` in a meaning is a row of the pipeline.
#[test]
fn phases_are_called_what_they_are_called() {
    let mut found = 0;
    for (word, meaning) in sections().into_iter().flat_map(|(_, rows)| rows) {
        for (before, behind) in meaning
            .match_indices(" (")
            .map(|(at, _)| meaning.split_at(at))
        {
            let number = behind[2..].split(')').next().unwrap_or_default();
            let Ok(number) = number.parse::<u16>() else {
                continue;
            };
            let name = before.rsplit([' ', ',']).next().unwrap_or_default();
            let known = PHASES
                .iter()
                .any(|it| it.number == number && it.name == name);
            assert!(known, "{word}: {name} ({number}) is no phase");
            found += 1;
        }
    }
    assert!(found > 10);
}
