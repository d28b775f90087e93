//! What pages of the book say the command prints, the command prints. `BLESS=1` writes what is printed now.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(root().join("docs")).expect("the book") {
        let path = entry.expect("a page").path();
        if path.extension().is_some_and(|ending| ending == "md") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("a page");
            pages.push((name.into_owned(), text));
        }
    }
    pages.sort();
    pages
}

/// What a command line prints, run where the examples are.
fn printed(command: &str, folder: &Path) -> String {
    let words = command.strip_prefix("orias ").expect("an orias command");
    let output = Command::new(env!("CARGO_BIN_EXE_orias"))
        .args(words.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("the command runs");
    assert!(output.status.success(), "{command}: {output:?}");
    let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
    text += &String::from_utf8_lossy(&output.stdout);
    text
}

/// A page with what its commands print now. A command without a fenced block behind it prints nothing that is shown.
fn with_outputs(page: &str, folder: &Path) -> String {
    const MARK: &str = "<!-- output of: ";
    let mut out = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        let Some(command) = line.strip_prefix(MARK) else {
            continue;
        };
        let command = command.strip_suffix(" -->").expect("a marker ends");
        let now = printed(command, folder);
        if lines.peek() != Some(&"```") {
            assert_eq!(now, "", "{command} prints something");
            continue;
        }
        lines.next();
        for old in lines.by_ref() {
            if old == "```" {
                break;
            }
        }
        out += "```\n";
        out += now.trim_end();
        out += "\n```\n";
    }
    out
}

#[test]
fn tutorials_show_what_the_command_prints() {
    let folder = tempfile::tempdir().expect("a folder");
    let examples = folder.path().join("examples");
    std::fs::create_dir(&examples).expect("a folder");
    for entry in std::fs::read_dir(root().join("examples")).expect("examples") {
        let entry = entry.expect("an example");
        std::fs::copy(entry.path(), examples.join(entry.file_name())).expect("a copy");
    }
    let bless = std::env::var_os("BLESS").is_some_and(|value| value == "1");
    let mut outputs = 0;
    for (name, text) in pages() {
        outputs += text.matches("<!-- output of: ").count();
        let now = with_outputs(&text, folder.path());
        if bless && now != text {
            std::fs::write(root().join("docs").join(&name), now).expect("the page is written");
            continue;
        }
        assert!(
            now == text,
            "docs/{name} shows what the command no longer prints; run BLESS=1 cargo test -p orias --test tutorials"
        );
    }
    assert!(outputs >= 8, "the tutorials lost their outputs");
}
