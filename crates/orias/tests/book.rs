//! The tables in the book are those in the code. `BLESS=1` writes them.

use std::path::Path;

/// Compares the text between two markers of a page with `table`.
fn check_table(page: &str, begin: &str, end: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    let text = std::fs::read_to_string(&path).expect("the page exists");
    let start = text.find(begin).expect("the first marker is there");
    let start = start + text[start..].find('\n').expect("a line") + 1;
    let stop = text.find(end).expect("the last marker is there");
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        let new = format!("{}{table}{}", &text[..start], &text[stop..]);
        std::fs::write(&path, new).expect("the page can be written");
        return;
    }
    assert!(
        text[start..stop] == *table,
        "the table in docs/{page} is not the code's; run BLESS=1 cargo test -p orias --test book"
    );
}

#[test]
fn the_table_of_options_is_the_codes() {
    check_table(
        "command-line.md",
        "<!-- options:",
        "<!-- end of options -->",
        &orias::command_line::status_table(),
    );
}
