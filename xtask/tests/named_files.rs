//! README, CONTRIBUTING and the book name files and folders in backticks: each exists.

use std::collections::BTreeSet;
use std::path::Path;

/// What names of files end in.
const ENDINGS: [&str; 9] = [
    ".rs", ".tbl", ".isa", ".ptx", ".ori", ".sass", ".md", ".sh", ".py",
];

/// What names from the root of the repository begin with.
const ROOTS: [&str; 5] = ["crates/", "xtask/", "tests/", "bench/", "docs/"];

/// All files and folders below `folder`, as they are named from `root`, but for what builds leave.
fn walk(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    let entries = std::fs::read_dir(folder).expect("a folder of the repository");
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.strip_prefix(root).unwrap_or(&path);
        let name = name.to_string_lossy().replace('\\', "/");
        if name == "target" || name == ".git" {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, found);
        }
        found.insert(name);
    }
}

/// The names of files and folders in a text: in backticks, with a slash, and nothing that stands for something else.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let plain = |name: &&str| {
        let mut letters = name.chars();
        letters.all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
    };
    let file = |name: &&str| {
        ENDINGS.iter().any(|ending| name.ends_with(ending))
            || ROOTS.iter().any(|root| name.starts_with(root))
    };
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter(|name| name.contains('/') && !name.starts_with('.') && !name.starts_with('/'))
        .filter(plain)
        .filter(file)
        .map(|name| name.trim_end_matches('/'))
}

#[test]
fn files_that_the_book_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = BTreeSet::new();
    walk(&root, &root, &mut files);
    let exists = |name: &str| {
        let behind = format!("/{name}");
        files.contains(name) || files.iter().any(|file| file.ends_with(&behind))
    };
    let mut missing = Vec::new();
    let pages = files.iter().filter(|file| {
        let book = file.starts_with("docs/") && file.ends_with(".md");
        book || ["README.md", "CONTRIBUTING.md", "tests/README.md"].contains(&file.as_str())
    });
    for page in pages {
        let text = std::fs::read_to_string(root.join(page)).expect("a page");
        let names = named(&text).filter(|name| !exists(name));
        missing.extend(names.map(|name| format!("{page} names {name}")));
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn names_are_found() {
    let text = "See `crates/x/src/`, `select/y.rs`, `cargo test`, `z.rs` and `tables/<sm>/a.tbl`.";
    let names: Vec<&str> = named(text).collect();
    assert_eq!(names, ["crates/x/src", "select/y.rs"]);
}

/// Each "I want to add …" names files that exist, and something to copy.
#[test]
fn each_way_of_adding_names_something_to_copy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("CONTRIBUTING.md")).expect("the map");
    let map = text.split("## I want to add").nth(1).expect("the map");
    let map = map.split("\n## ").next().expect("its end");
    let sections: Vec<&str> = map.split("\n### ").skip(1).collect();
    assert!(sections.len() > 8, "the map has {} ways", sections.len());
    for section in sections {
        let title = section.lines().next().unwrap_or_default();
        assert!(section.contains("copy"), "{title}: nothing to copy");
        let tests = named(section)
            .filter(|name| name.contains("tests") || name.contains("bench"))
            .count();
        assert!(tests > 0, "{title}: no test is named");
    }
}

/// Words that somebody reads in a minute, slowly.
const A_MINUTE: usize = 200;

/// From README's first word to CONTRIBUTING's link, from its first word to the end of its list of links, and from the head of each section to the first file it names.
#[test]
fn a_minute_of_reading_leads_from_readme_to_each_first_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = |name: &str| std::fs::read_to_string(root.join(name)).expect("a page");
    let words = |text: &str| text.split_whitespace().count();
    let (readme, contributing) = (page("README.md"), page("CONTRIBUTING.md"));
    let link = readme.find("](CONTRIBUTING.md)").expect("the link");
    let list = contributing.find("(#-something-else)").expect("the list");
    let before = words(&readme[..link]) + words(&contributing[..list]);
    let map = contributing.split("## I want to add").nth(1);
    let map = map.and_then(|map| map.split("\n## ").next());
    for section in map.expect("the map").split("\n### ").skip(1) {
        let title = section.lines().next().unwrap_or_default();
        let first = named(section).next().expect("a file");
        let place = section.find(first).unwrap_or(section.len());
        let all = before + words(&section[..place]);
        assert!(all <= A_MINUTE, "{title}: {all} words until {first}");
        println!("{title}: {all} words until {first}");
    }
}

/// What CONTRIBUTING's list of links leads to is there.
#[test]
fn the_list_of_links_leads_to_every_section() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("CONTRIBUTING.md")).expect("the map");
    let anchor = |title: &str| {
        let kept = |c: char| c.is_ascii_alphanumeric() || c == ' ' || c == '-';
        let kept: String = title.to_lowercase().chars().filter(|&c| kept(c)).collect();
        format!("(#{})", kept.replace(' ', "-"))
    };
    let titles = text.lines().filter_map(|line| line.strip_prefix("### "));
    let missing: Vec<String> = titles
        .map(anchor)
        .filter(|link| !text.contains(link))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}
