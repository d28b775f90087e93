//! The book says what is so: its tables of test kinds, phases, crates and folders are those there are, its index links every page, and
//! links and places lead somewhere.

use orias_codegen::knobs::registry::KNOBS;
use orias_codegen::pipeline::PHASES;
use orias_filetests::KINDS;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Compares the text between two markers of a page with `now`, or writes it there with `BLESS=1`.
fn blessed(page: &str, marker: &str, now: &str) {
    let path = docs().join(page);
    let text = std::fs::read_to_string(&path).expect("the page exists");
    let begin = text
        .find(&format!("<!-- {marker}:"))
        .expect("the first marker");
    let start = begin + text[begin..].find('\n').expect("a line") + 1;
    let stop = text
        .find(&format!("<!-- end of {marker} -->"))
        .expect("the last marker");
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        let new = format!("{}{now}{}", &text[..start], &text[stop..]);
        std::fs::write(&path, new).expect("the page can be written");
        return;
    }
    assert!(
        text[start..stop] == *now,
        "the {marker} of docs/{page} are not the code's; run BLESS=1 cargo test --test book"
    );
}

#[test]
fn the_table_of_kinds_is_the_codes() {
    let mut table = String::from("| kind | files | arguments and output |\n| --- | --- | --- |\n");
    for kind in KINDS {
        let files = kind.extensions.join("`, `.");
        table += &format!("| `{}` | `.{files}` | {} |\n", kind.name, kind.about);
    }
    blessed("testing.md", "kinds", &table);
}

#[test]
fn the_table_of_phases_is_the_codes() {
    let mut table =
        String::from("| number | phase | stage | -O | what |\n| --- | --- | --- | --- | --- |\n");
    for phase in PHASES {
        let levels = &phase.gate.opt_levels;
        let levels = if levels.start() == levels.end() {
            levels.start().to_string()
        } else {
            format!("{} to {}", levels.start(), levels.end())
        };
        table += &format!(
            "| {} | {} | {} | {levels} | {} |\n",
            phase.number, phase.name, phase.stage, phase.about
        );
    }
    blessed("pipeline.md", "phases", &table);
}

/// Every phase has a section in the page on the pipeline, or on Mercury.
#[test]
fn every_phase_is_explained() {
    let read = |page: &str| std::fs::read_to_string(docs().join(page)).expect("the page exists");
    let pages = read("pipeline.md") + &read("mercury.md");
    let headings: Vec<&str> = pages
        .lines()
        .filter(|line| line.starts_with("### ") || line.starts_with("**Merc"))
        .collect();
    for phase in PHASES {
        let number = phase.number.to_string();
        let explained = headings.iter().any(|heading| {
            let mut words = heading.split(|letter: char| !letter.is_alphanumeric());
            words.any(|word| word == number)
        });
        assert!(explained, "no heading names {} ({number})", phase.name);
    }
}

/// The folders below `tests/` and the rows of its page.
#[test]
fn the_page_of_the_tests_lists_their_folders() {
    let tests = docs().join("../tests");
    let page = std::fs::read_to_string(tests.join("README.md")).expect("the page exists");
    let listed = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut listed: Vec<String> = listed
        .filter_map(|line| Some(line.split_once("/`")?.0.to_owned()))
        .collect();
    listed.sort();
    let entries = std::fs::read_dir(&tests).expect("tests/ exists");
    let mut there: Vec<String> = entries
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    there.sort();
    assert_eq!(listed, there);
}

/// README has a row for each crate, and no other.
#[test]
fn the_table_of_rooms_lists_the_crates() {
    let root = docs().join("..");
    let page = std::fs::read_to_string(root.join("README.md")).expect("the page exists");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `crates/"));
    let mut listed: Vec<String> = rows
        .filter_map(|row| Some(row.split_once('`')?.0.to_owned()))
        .collect();
    listed.sort();
    let entries = std::fs::read_dir(root.join("crates")).expect("crates/ exists");
    let mut there: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    there.sort();
    assert_eq!(listed, there);
}

/// What the map of CONTRIBUTING names is there.
#[test]
fn every_place_of_the_map_is_there() {
    let root = docs().join("..");
    let page = std::fs::read_to_string(root.join("CONTRIBUTING.md")).expect("the page exists");
    let mut places = 0;
    for place in page.split('`').skip(1).step_by(2) {
        let folder = place.split('/').next().unwrap_or_default();
        let ours = ["crates", "tests", "docs", "xtask", "bench", "fuzz"].contains(&folder);
        if ours && place.contains('/') && !place.contains(' ') {
            places += 1;
            assert!(root.join(place).exists(), "CONTRIBUTING names {place}");
        }
    }
    assert!(places > 30, "only {places} places found");
}

#[test]
fn the_index_links_every_page() {
    let index = std::fs::read_to_string(docs().join("README.md")).expect("the index exists");
    for entry in std::fs::read_dir(docs()).expect("docs/ exists") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".md") && name != "README.md" && name != "SUMMARY.md" {
            assert!(
                index.contains(&format!("]({name})")),
                "docs/README.md does not link {name}"
            );
        }
    }
}

/// Every knob of the two schedulers is set by a test below `tests/phases`, by one of `schedule_orders.rs` where it shows in large blocks only, or `scheduling.md` says why none would show its effect.
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
    let orders = docs().join("../crates/codegen/tests/schedule_orders.rs");
    let orders = std::fs::read_to_string(orders).expect("the tests exist");
    let phases = ["ScheduleInstructions", "PostSchedule"];
    let knobs = KNOBS.iter().filter(|knob| phases.contains(&knob.phase));
    for knob in knobs {
        let tested = tests.contains(&format!("--knob {}=", knob.name))
            || orders.contains(&format!("\"{}=", knob.name));
        let excused = reasons.contains(&format!("| `{}` |", knob.name));
        assert!(tested || excused, "{} has neither", knob.name);
        assert!(!(tested && excused), "{} has both", knob.name);
    }
}

/// The summary, by which the book becomes a site, has every page once.
#[test]
fn the_summary_has_every_page_once() {
    let summary = std::fs::read_to_string(docs().join("SUMMARY.md")).expect("the summary exists");
    let links = summary.split("](").skip(1);
    let mut listed: Vec<String> = links
        .filter_map(|link| Some(link.split_once(')')?.0.to_owned()))
        .collect();
    listed.sort();
    let entries = std::fs::read_dir(docs()).expect("docs/ exists");
    let mut there: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect();
    there.sort();
    assert_eq!(listed, there);
}

/// The names by which links find the headings of a page, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        let name: String = heading.trim().to_lowercase().chars().filter(kept).collect();
        found.insert(name.replace(' ', "-"));
    }
    found
}

/// Links within the repository, from pages of the book and from the pages that lead there, headings included.
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
            let link = link.split(')').next().unwrap_or_default();
            if link.is_empty() || link.contains("://") {
                continue;
            }
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let there = match file {
                "" => page.clone(),
                file => folder.join(file),
            };
            assert!(there.exists(), "{}: no {link}", page.display());
            if !heading.is_empty() && there.is_file() {
                let target = std::fs::read_to_string(&there).expect("a readable page");
                let found = anchors(&target).contains(heading);
                assert!(found, "{}: no heading {link}", page.display());
            }
        }
    }
    assert!(links > 20, "only {links} links found");
}
