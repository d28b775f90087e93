//! Arrows between the rooms point one way: a crate that depends on one it must not know fails here.

use std::collections::BTreeSet;
use std::path::Path;

/// Each room and the rooms it may know. A room that is not listed fails the test, so a new one states its arrows.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("ptx", &[]),
    ("sass", &[]),
    ("eval", &[]),
    ("cubin", &[]),
    ("heap", &[]),
    ("random", &[]),
    ("machine", &["sass"]),
    ("ori", &["sass"]),
    ("generate", &["ptx", "ori", "sass", "random"]),
    ("reference", &["ptx", "eval", "random"]),
    ("mercury", &["ori", "sass", "machine"]),
    (
        "codegen",
        &["ptx", "ori", "sass", "machine", "eval", "mercury", "random"],
    ),
    ("interpret", &["ori", "codegen"]),
    ("verify", &["sass", "machine", "cubin"]),
    ("sim", &["sass", "machine", "cubin", "eval", "random"]),
    ("orias", EVERY_ROOM),
    ("session", &["orias"]),
    ("capi", &["orias", "session"]),
    ("python", &["orias", "session", "cubin", "sass", "verify"]),
    ("web", &["orias"]),
    ("filetests", EVERY_ROOM_AND_DOOR),
];

const EVERY_ROOM: &[&str] = &[
    "ptx",
    "sass",
    "eval",
    "cubin",
    "heap",
    "random",
    "machine",
    "ori",
    "reference",
    "mercury",
    "codegen",
    "verify",
    "sim",
];

const EVERY_ROOM_AND_DOOR: &[&str] = &[
    "ptx",
    "sass",
    "eval",
    "cubin",
    "random",
    "machine",
    "ori",
    "reference",
    "mercury",
    "codegen",
    "verify",
    "sim",
    "orias",
];

/// What writes programs, runs them and draws numbers for tests.
const TEST_TOOLING: &[&str] = &["generate", "interpret", "random"];

/// The rooms whose tests, and nothing else of them, may know the tooling. The judges are not among them: it knows the languages of the
/// accused.
const TESTS_WITH_TOOLING: &[&str] = &[
    "heap",
    "ptx",
    "sass",
    "ori",
    "reference",
    "codegen",
    "orias",
    "capi",
    "filetests",
];

/// The rooms that `manifest` depends on in some of its sections.
fn rooms_known(manifest: &str, sections: &[&str]) -> BTreeSet<String> {
    let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
    // What holds on some platforms only stands in tables of its own.
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms = platforms.into_iter().flat_map(toml::Table::values);
    [&manifest]
        .into_iter()
        .chain(platforms.filter_map(toml::Value::as_table))
        .flat_map(|table| {
            sections
                .iter()
                .filter_map(|section| table.get(*section)?.as_table())
        })
        .flatten()
        .filter_map(|(name, dependency)| {
            // A renamed dependency says what it is.
            let renamed = dependency.get("package").and_then(toml::Value::as_str);
            match renamed.unwrap_or(name) {
                "orias" => Some("orias".to_owned()),
                other => other.strip_prefix("orias-").map(str::to_owned),
            }
        })
        .collect()
}

/// What is wrong with what the manifest of `room` names, if anything. Tests and build scripts count, too: a judge must not meet the
/// accused there either.
fn forbidden(room: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = MAY_KNOW.iter().find(|(name, _)| *name == room) else {
        return vec![format!("{room} is not in the table of arrows")];
    };
    let handed_out = rooms_known(manifest, &["dependencies", "build-dependencies"]);
    let in_tests = rooms_known(manifest, &["dev-dependencies"]);
    let tooling = |other: &str| TESTS_WITH_TOOLING.contains(&room) && TEST_TOOLING.contains(&other);
    let in_tests = in_tests.iter().filter(|other| !tooling(other));
    let known: BTreeSet<&String> = handed_out.iter().chain(in_tests).collect();
    known
        .iter()
        .filter(|other| !allowed.contains(&other.as_str()))
        .map(|other| format!("{room} must not know {other}"))
        .collect()
}

#[test]
fn rooms_depend_only_on_rooms_they_may_know() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(crates).expect("crates/ exists") {
        let folder = entry.expect("a readable entry").path();
        let room = folder
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        wrong.extend(forbidden(&room, &manifest));
        seen.insert(room);
    }
    assert_eq!(wrong, Vec::<String>::new());
    let listed: BTreeSet<String> = MAY_KNOW
        .iter()
        .map(|(room, _)| (*room).to_owned())
        .collect();
    assert_eq!(
        seen, listed,
        "the table of arrows lists exactly the rooms there are"
    );
}

#[test]
fn a_wrong_arrow_is_noticed() {
    let manifest = "[dependencies]\norias-sass.workspace = true\n[dev-dependencies]\norias-codegen.workspace = true\n";
    assert_eq!(
        forbidden("verify", manifest),
        ["verify must not know codegen"]
    );
    let hidden = "[target.'cfg(unix)'.dependencies]\nhouse = { package = \"orias-ori\", path = \"../ori\" }\n";
    assert_eq!(forbidden("verify", hidden), ["verify must not know ori"]);
    assert_eq!(
        forbidden("attic", manifest),
        ["attic is not in the table of arrows"]
    );
}

#[test]
fn only_tests_know_what_writes_programs() {
    let in_tests = "[dev-dependencies]\norias-generate.workspace = true\n";
    assert_eq!(forbidden("codegen", in_tests), Vec::<String>::new());
    assert_eq!(
        forbidden("verify", in_tests),
        ["verify must not know generate"]
    );
    let handed_out = "[dependencies]\norias-generate.workspace = true\n";
    assert_eq!(
        forbidden("codegen", handed_out),
        ["codegen must not know generate"]
    );
}
