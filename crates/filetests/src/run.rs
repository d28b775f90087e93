//! Runs a test file against a table of kinds.

use crate::case::{Case, parse_case};
use crate::kinds::Kind;
use similar::TextDiff;
use std::path::{Path, PathBuf};

/// What to do when the output is not what the file expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bless {
    /// Fail and show the difference.
    No,
    /// Rewrite the file.
    Yes,
}

/// Runs the test in the file at `path` with the row of `kinds` that it names. An error is the whole message to show.
pub fn run_file(kinds: &[Kind], path: &Path, bless: Bless) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let case = parse_case(path, &text)?;
    let output = run_case(kinds, &case)?;
    let expected = case.expected_text();
    if expected.as_deref() == Some(output.as_str()) {
        return Ok(());
    }
    if bless == Bless::Yes {
        return std::fs::write(path, case.with_expected(&output))
            .map_err(|error| error.to_string());
    }
    Err(match expected {
        None => {
            format!("no expected text; run with BLESS=1 to write it down. The output is:\n{output}")
        }
        Some(expected) => format!(
            "the output differs (run with BLESS=1 to accept it):\n{}",
            TextDiff::from_lines(&expected, &output)
                .unified_diff()
                .header("expected", "output")
        ),
    })
}

/// What the test prints.
fn run_case(kinds: &[Kind], case: &Case<'_>) -> Result<String, String> {
    let extension = case.file_type.extension;
    if let Some(kind) = kinds.iter().find(|kind| kind.name == case.kind) {
        if !kind.extensions.contains(&extension) {
            return Err(format!(
                "'{}' is a test for {} files, not for .{extension}",
                kind.name,
                kind.extensions.join(", ")
            ));
        }
        let mut output = (kind.run)(case)?;
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        return Ok(output);
    }
    let known: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
    Err(format!(
        "no kind of test is named '{}'; there are: {}",
        case.kind,
        known.join(", ")
    ))
}

/// The files below `folder`, in the order of their names, without those that explain a folder (`README.md`).
pub fn find_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() != "README.md" {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPPER: &[Kind] = &[Kind {
        name: "upper",
        extensions: &["ori"],
        about: "prints the input's body in capitals",
        run: |case| match case.body() {
            "" => Err("nothing to print".into()),
            body => Ok(body.to_uppercase()),
        },
    }];

    fn run_text(name: &str, text: &str, bless: Bless) -> (Result<(), String>, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        let outcome = run_file(UPPER, &path, bless);
        (outcome, std::fs::read_to_string(&path).expect("the file"))
    }

    #[test]
    fn the_right_output_passes_and_the_file_stays() {
        let text = "; test: upper\na\nb\n; expected:\n; A\n; B\n";
        for bless in [Bless::No, Bless::Yes] {
            assert_eq!(run_text("t.ori", text, bless), (Ok(()), text.into()));
        }
    }

    #[test]
    fn a_wrong_output_fails_with_a_difference() {
        let (outcome, _) = run_text(
            "t.ori",
            "; test: upper\na\nb\n; expected:\n; A\n; C\n",
            Bless::No,
        );
        let message = outcome.expect_err("a failure");
        assert!(message.contains("\n A\n-C\n+B\n"), "{message}");
    }

    #[test]
    fn blessing_rewrites_the_expected_text_only() {
        let (outcome, after) =
            run_text("t.ori", "; test: upper\na\n; expected:\n; X\n", Bless::Yes);
        assert_eq!(outcome, Ok(()));
        assert_eq!(after, "; test: upper\na\n\n; expected:\n; A\n");
        assert_eq!(
            run_text("t.ori", &after, Bless::No),
            (Ok(()), after.clone())
        );
    }

    #[test]
    fn what_cannot_run_fails_and_says_why() {
        let message =
            |name: &str, text: &str| run_text(name, text, Bless::Yes).0.expect_err("a failure");
        assert!(message("t.ori", "; test: uper\n").contains("no kind of test is named 'uper'"));
        assert!(message("t.ori", "; test: upper\n").contains("nothing to print"));
        assert!(message("t.ptx", "// test: upper\n").contains("not for .ptx"));
    }

    #[test]
    fn a_missing_expectation_fails_until_blessed() {
        let (outcome, _) = run_text("t.ori", "; test: upper\na\n", Bless::No);
        assert!(outcome.expect_err("a failure").contains("BLESS=1"));
        let (_, after) = run_text("t.ori", "; test: upper\na\n", Bless::Yes);
        assert_eq!(run_text("t.ori", &after, Bless::No).0, Ok(()));
    }
}
