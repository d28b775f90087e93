//! The table of attributes in the book is the one in the code. `BLESS=1` writes it.

use std::fmt::Write;
use std::path::Path;

use orias_cubin::attribute::{ATTRIBUTES, Payload};

fn payload_name(payload: Payload) -> &'static str {
    match payload {
        Payload::Opaque => "",
        Payload::Words => "numbers",
        Payload::Offsets => "offsets",
        Payload::OffsetPairs => "offset pairs",
        Payload::OffsetTriples => "offset triples",
        Payload::FunctionValue => "function and number",
        Payload::Symbols => "symbols",
        Payload::SymbolPairs => "symbol pairs",
        Payload::Dimensions => "x, y, z",
        Payload::ParamBank => "bank's symbol, offset, size",
        Payload::Param => "parameter",
        Payload::WideParam => "parameter",
        Payload::IndirectBranches => "branches and targets",
        Payload::Mbarriers => "mbarrier instructions",
    }
}

#[test]
fn the_table_of_attributes_is_the_codes() {
    let mut table = "\n| id | name | format | payload |\n| --- | --- | --- | --- |\n".to_owned();
    for row in ATTRIBUTES {
        let format = row.format.map_or("", |format| format.name());
        writeln!(
            table,
            "| {:#04x} | {} | {format} | {} |",
            row.id,
            row.name,
            payload_name(row.payload)
        )
        .expect("writing to a string");
    }
    table.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cubin.md");
    let text = std::fs::read_to_string(&path).expect("the page exists");
    let begin = text.find("<!-- attributes:").expect("the first marker");
    let start = begin + text[begin..].find('\n').expect("a line") + 1;
    let stop = text
        .find("<!-- end of attributes -->")
        .expect("the last marker");
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        let new = format!("{}{table}{}", &text[..start], &text[stop..]);
        std::fs::write(&path, new).expect("the page can be written");
        return;
    }
    assert!(
        text[start..stop] == *table,
        "the table in docs/cubin.md is not the code's; run BLESS=1 cargo test -p orias-cubin --test book"
    );
}
