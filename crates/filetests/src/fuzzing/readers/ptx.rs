//! PTX.

use super::{Target, texts};

pub(super) const TARGETS: &[Target] = &[Target {
    name: "ptx",
    seeds: || texts(&[include_str!("../../../../../examples/vector_add.ptx")]),
    words: &[
        ".reg",
        ".b32",
        ".entry",
        ".func",
        ".param",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ";",
        "%r1",
        "0f3F800000",
        "0x",
        "/*",
        "*/",
        "@!%p1",
        "bra",
        ".target",
        "sm_90a",
        ".version",
        "\"",
        "<",
        ">",
        "mad.lo.s32",
        "::",
        ".align",
    ],
    check: ptx,
}];

/// What has no errors prints, and what is printed has none and prints the same.
fn ptx(input: &[u8]) {
    let options = orias_ptx::Options::default();
    let (module, mut found) = orias_ptx::parse(input);
    found.append(orias_ptx::check(&module, &options));
    let _ = found.to_excerpts("input", input);
    let _ = found.to_json("input", input);
    if found.has_errors() {
        return;
    }
    let printed = orias_ptx::print(&module);
    let (again, found) = orias_ptx::parse(printed.as_bytes());
    assert!(
        !found.has_errors(),
        "{}\n{printed}",
        found.to_excerpts("printed", printed.as_bytes())
    );
    assert_eq!(orias_ptx::print(&again), printed);
}
