//! The book says what is so: its table of test kinds is the code's, its index links every page, and links lead somewhere.

use orias_codegen::knobs::registry::KNOBS;
use orias_filetests::{KINDS, MISSING_KINDS};
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The table between two markers of `testing.md`. `BLESS=1` writes it.
#[test]
fn the_table_of_kinds_is_the_codes() {
    let mut table = String::from("| kind | files | arguments and output |\n| --- | --- | --- |\n");
    for kind in KINDS {
        let files = kind.extensions.join("`, `.");
        table += &format!("| `{}` | `.{files}` | {} |\n", kind.name, kind.about);
    }
    for (name, missing) in MISSING_KINDS {
        table += &format!("| `{name}` | | not yet: waits for {missing} |\n");
    }
    let path = docs().join("testing.md");
    let text = std::fs::read_to_string(&path).expect("the page exists");
    let begin = text.find("<!-- kinds:").expect("the first marker");
    let start = begin + text[begin..].find('\n').expect("a line") + 1;
    let stop = text.find("<!-- end of kinds -->").expect("the last marker");
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        let new = format!("{}{table}{}", &text[..start], &text[stop..]);
        std::fs::write(&path, new).expect("the page can be written");
        return;
    }
    assert!(
        text[start..stop] == table,
        "the table of kinds in docs/testing.md is not the code's; run BLESS=1 cargo test --test book"
    );
}

#[test]
fn the_index_links_every_page() {
    let index = std::fs::read_to_string(docs().join("README.md")).expect("the index exists");
    for entry in std::fs::read_dir(docs()).expect("docs/ exists") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".md") && name != "README.md" {
            assert!(
                index.contains(&format!("]({name})")),
                "docs/README.md does not link {name}"
            );
        }
    }
}

/// Every knob of the two schedulers is set by a test below `tests/phases`, or `scheduling.md` says why none would show its effect.
#[test]
fn every_knob_of_the_schedulers_has_a_test_or_a_reason() {
    let page = std::fs::read_to_string(docs().join("scheduling.md")).expect("the page exists");
    let begin = page
        .find("## Knobs without a test")
        .expect("the section exists");
    let reasons = &page[begin..];
    let mut tests = String::new();
    for folder in ["schedule_instructions", "post_schedule"] {
        let folder = docs().join("../tests/phases").join(folder);
        for entry in std::fs::read_dir(folder).expect("the folder exists") {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("a test");
            tests += text.lines().next().unwrap_or_default();
            tests += "\n";
        }
    }
    let phases = ["ScheduleInstructions", "PostSchedule"];
    let knobs = KNOBS.iter().filter(|knob| phases.contains(&knob.phase));
    for knob in knobs {
        let tested = tests.contains(&format!("--knob {}=", knob.name));
        let excused = reasons.contains(&format!("| `{}` |", knob.name));
        assert!(tested || excused, "{} has neither", knob.name);
        assert!(!(tested && excused), "{} has both", knob.name);
    }
}

/// Links within the repository, from pages of the book and from the pages that lead there.
#[test]
fn every_link_leads_somewhere() {
    let root = docs().join("..");
    let mut pages: Vec<PathBuf> = std::fs::read_dir(docs())
        .expect("docs/ exists")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    let mut links = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a readable page");
        let folder = page.parent().expect("a folder");
        for link in text.split("](").skip(1) {
            let link = link.split([')', '#']).next().unwrap_or_default();
            if !link.is_empty() && !link.contains("://") {
                links += 1;
                let there = folder.join(link);
                assert!(there.exists(), "{}: no {link}", page.display());
            }
        }
    }
    assert!(links > 20, "only {links} links found");
}
