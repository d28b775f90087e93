//! Every point of the seed documents has exactly one answer in `docs/seed-coverage.md`.

/// The groups of points and how many each has.
const GROUPS: &[(&str, usize)] = &[
    ("SCH", 69),
    ("SCB", 34),
    ("MER", 33),
    ("SYN", 56),
    ("PST", 22),
];

#[test]
fn every_point_is_answered_once() {
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/seed-coverage.md"
    ))
    .expect("the page exists");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| {
            line.starts_with("| ")
                && line.contains('-')
                && !line.starts_with("| id")
                && !line.starts_with("| ---")
        })
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let expected: Vec<String> = GROUPS
        .iter()
        .flat_map(|(group, count)| (1..=*count).map(move |n| format!("{group}-{n:02}")))
        .collect();
    let answered: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(answered, expected, "ids in order, each once");
    for row in &rows {
        assert_eq!(row.len(), 3, "{}: id, kind, answer", row[0]);
        assert!(!row[2].is_empty(), "{} has no answer", row[0]);
    }
}

/// What an answer without a test says it waits for.
const WAITS: [&str; 2] = ["for textures", "target yet"];

/// What stands between backticks in an answer.
fn quoted(answer: &str) -> impl Iterator<Item = &str> {
    answer.split('`').skip(1).step_by(2)
}

/// The text of every Rust file of the workspace below `dir`.
fn sources(dir: &std::path::Path, text: &mut String) {
    let entries = std::fs::read_dir(dir).expect("a folder");
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|it| it == "rs") {
            text.push_str(&std::fs::read_to_string(&path).expect("a readable file"));
        }
    }
}

#[test]
fn answers_name_tests_that_exist() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let page =
        std::fs::read_to_string(root.join("docs/seed-coverage.md")).expect("the page exists");
    let mut rust = String::new();
    sources(&root.join("crates"), &mut rust);
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let files: Vec<&str> = quoted(line).filter(|it| it.starts_with("tests/")).collect();
        for file in &files {
            assert!(root.join(file).exists(), "there is no {file}: {line}");
        }
        if !line.starts_with("| SYN-") {
            continue;
        }
        assert!(!line.contains("not built"), "{line}");
        let is_test = |it: &str| {
            rust.contains(&format!("#[test]\n    fn {it}()"))
                || rust.contains(&format!("#[test]\nfn {it}()"))
        };
        // Sentences are names of tests; other names are shorter.
        let is_sentence = |it: &&str| {
            let letters = it.chars().all(|it| it.is_ascii_lowercase() || it == '_');
            letters && it.matches('_').count() > 3
        };
        for name in quoted(line).filter(is_sentence) {
            assert!(is_test(name), "there is no test {name}: {line}");
        }
        let by_name = quoted(line).any(is_test);
        let waits = WAITS.iter().any(|what| line.contains(what));
        assert!(!files.is_empty() || by_name || waits, "no test: {line}");
    }
}
