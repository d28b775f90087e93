//! Every invariant of the verifier has a text below `tests/ori/verify/` that breaks it, named after it.
//!
//! What exactly the verifier says about each is checked by the file tests; here, that it blames the right invariant and
//! that none lacks a file.

use orias_ori::verify::{Invariant, verify_module};
use orias_ori::{parse_module, print_function};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// `EdgeArgs` as `edge_args`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// The invariant a file is about: the one with the longest name its own starts with.
fn subject(stem: &str) -> Option<Invariant> {
    Invariant::ALL
        .into_iter()
        .filter(|invariant| {
            let name = snake_case(&format!("{invariant:?}"));
            stem.strip_prefix(&name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        })
        .max_by_key(|invariant| format!("{invariant:?}").len())
}

fn files() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/ori/verify");
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder)
        .expect("the folder of verifier tests")
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ori"))
        .map(|path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("a readable file");
            (stem.into_owned(), text)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn each_invariant_is_broken_by_a_file_of_its_name() {
    let mut broken = BTreeSet::new();
    for (stem, text) in files() {
        let module = parse_module(&text).unwrap_or_else(|error| panic!("{stem}: {error}"));
        let result = verify_module(&module);
        let Some(invariant) = subject(&stem) else {
            assert!(stem.starts_with("ok"), "{stem} is named after no invariant");
            assert_eq!(result, Ok(()), "{stem}");
            continue;
        };
        let errors = result.expect_err(&stem);
        assert!(
            errors.iter().any(|error| error.invariant == invariant),
            "{stem} breaks {errors:?}"
        );
        broken.insert(invariant);
    }
    assert_eq!(broken, BTreeSet::from(Invariant::ALL));
}

#[test]
fn broken_functions_print_and_read_back_equal_too() {
    for (stem, text) in files() {
        let module = parse_module(&text).expect("checked above");
        let printed: String = module.functions.iter().map(print_function).collect();
        let again = parse_module(&printed).unwrap_or_else(|error| panic!("{stem}: {error}"));
        assert_eq!(again, module, "{stem}");
    }
}
