//! The examples of `docs/ir.md` are valid and are written as the printer writes them, and its table of operations is the code's: `BLESS=1` writes it.

use orias_ori::{AbstractOp, parse_function, print_function, verify_function};
use std::fmt::Write;
use std::path::PathBuf;

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/ir.md")
}

fn examples() -> Vec<String> {
    let text = std::fs::read_to_string(page()).expect("the page about Ori");
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

#[test]
fn the_table_of_operations_is_the_codes() {
    let mut table = "| operation | gives |\n| --- | --- |\n".to_owned();
    for op in AbstractOp::ALL {
        let row = op.row();
        let text = row.doc.replace('|', "\\|");
        writeln!(table, "| `{}` | {text} |", row.name).expect("writing to a string");
    }
    let text = std::fs::read_to_string(page()).expect("the page about Ori");
    let begin = text.find("<!-- operations:").expect("the first marker");
    let start = begin + text[begin..].find('\n').expect("a line") + 1;
    let stop = text
        .find("<!-- end of operations -->")
        .expect("the last marker");
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        let new = format!("{}{table}{}", &text[..start], &text[stop..]);
        // In one step: the other test may be reading.
        let beside = page().with_extension("new");
        std::fs::write(&beside, new).expect("the page can be written");
        std::fs::rename(beside, page()).expect("the page can be replaced");
        return;
    }
    assert!(
        text[start..stop] == *table,
        "the table in docs/ir.md is not the code's; run BLESS=1 cargo test -p orias-ori --test book"
    );
}
