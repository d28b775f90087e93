//! The examples of `docs/ir.md` are valid and are written as the printer writes them.

use orias_ori::{parse_function, print_function, verify_function};
use std::path::PathBuf;

fn examples() -> Vec<String> {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/ir.md");
    let text = std::fs::read_to_string(page).expect("the page about Ori");
    text.split("```ori\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_examples_of_the_book_are_valid_and_print_as_they_stand() {
    let examples = examples();
    assert!(examples.len() >= 9, "{} examples", examples.len());
    for text in examples {
        match parse_function(&text) {
            Ok(func) => {
                assert_eq!(print_function(&func), text);
                assert_eq!(verify_function(&func), Ok(()), "{text}");
            }
            Err(error) => panic!("{error}\n{text}"),
        }
    }
}
