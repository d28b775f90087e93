use super::super::complaints;
use super::*;
use std::collections::BTreeMap;

#[test]
fn every_kind_of_exhibit_is_shown_and_most_programs_are_legal() {
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    let mut legal = 0;
    for seed in 0..300 {
        let program = program(seed);
        assert_eq!(program, super::program(seed));
        for exhibit in &program.exhibits {
            *shown.entry(exhibit).or_default() += 1;
        }
        let found = complaints(&program.text);
        legal += usize::from(!found.has_errors());
    }
    let rare: Vec<&str> = kinds()
        .filter(|kind| shown.get(kind).is_none_or(|&count| count < 20))
        .collect();
    assert!(rare.is_empty(), "rarely shown: {rare:?}");
    assert!((200..300).contains(&legal), "{legal} of 300 are legal");
}

/// Constructs, as they are written, that must occur among the first programs.
const CONSTRUCTS: &[&str] = &[
    ".visible .global",
    ".weak .global",
    ".common .global",
    ".extern .global",
    ".visible .const",
    ".shared",
    ".local",
    ".attribute(.managed)",
    ".attribute(.unified",
    ".b8",
    ".u8",
    ".s8",
    ".b16",
    ".u16",
    ".s16",
    ".b32",
    ".u32",
    ".s32",
    ".b64",
    ".u64",
    ".s64",
    ".f32",
    ".f64",
    ".b128",
    ".v2 .",
    ".v4 .",
    "[] = {",
    "{{",
    "= 0x",
    "= -",
    "= 0b",
    "0f",
    "0d",
    "0F",
    "0D",
    "WARP_SZ",
    "(.s64)",
    "(.u64)",
    " ? ",
    "generic(",
    "0xff(",
    "0xff00(",
    "+-",
    "mov.v2.",
    "mov.v4.",
    ".x,",
    ".w",
    "mov.b128",
    ", _",
    ".align 1 ",
    ".align 2 ",
    ".align 4 ",
    ".align 8 ",
    ".align 16 ",
    ".align 64 ",
    ".ptr .global",
    "cvta.param",
    "cvta.const",
    "isspacep",
    ".reg .v2 .f64",
    ".reg .v4 .u16",
    ".param .b128 ",
    ".b8 s[]",
    "(.reg .u32 %o0, ",
    "][",
    ", %",
    "selp",
    "setp",
    "@!",
    "call.uni",
    ".weak .func",
    ".visible .func",
];

#[test]
fn every_construct_occurs() {
    let texts: String = (0..400).map(|seed| program(seed).text).collect();
    let missing: Vec<&&str> = CONSTRUCTS
        .iter()
        .filter(|it| !texts.contains(**it))
        .collect();
    assert!(missing.is_empty(), "never: {missing:?}");
}
