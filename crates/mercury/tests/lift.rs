//! Code that is lifted and not changed comes back byte for byte; code whose control flow is not known is refused.

use orias_mercury::{LiftErrorKind, Patch, TextSection, WORD, emit, lift};
use orias_ori::{FunctionKind, parse_function, print_function, verify_function};
use orias_sass::{Target, text};
use std::collections::BTreeMap;
use std::path::Path;

fn assemble(listing: &str) -> Vec<(String, Vec<u8>)> {
    let assembly = text::assemble(listing, Target::Sm90a).expect("the listing assembles");
    let functions = assembly.functions.into_iter();
    let bytes = |words: Vec<u128>| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    functions
        .map(|function| (function.name, bytes(function.words)))
        .collect()
}

/// No branch has a name.
static NO_NAMES: BTreeMap<usize, String> = BTreeMap::new();

fn source<'a>(
    name: &'a str,
    code: &'a [u8],
    indirect: &'a BTreeMap<usize, Vec<usize>>,
) -> TextSection<'a> {
    TextSection {
        name,
        kind: FunctionKind::Entry,
        code,
        target: Target::Sm90a,
        indirect,
        subroutines: &[],
        named: &NO_NAMES,
    }
}

/// Lifts, prints, parses and emits `code`, and compares.
fn round_trip(name: &str, code: &[u8], indirect: &BTreeMap<usize, Vec<usize>>) {
    let func = lift(&source(name, code, indirect)).unwrap_or_else(|error| panic!("{error}"));
    if let Err(errors) = verify_function(&func) {
        panic!("{}", errors[0]);
    }
    let parsed = parse_function(&print_function(&func)).expect("what was printed parses");
    assert_eq!(parsed, func);
    let emitted = emit(&parsed).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(&emitted.bytes[..code.len()], code, "{name}");
    assert_eq!(emitted.placed.len() * WORD, code.len());
    for branch in &emitted.indirect {
        let targets: Vec<usize> = branch.targets.iter().map(|&to| to as usize).collect();
        assert_eq!(indirect.get(&(branch.offset as usize)), Some(&targets));
    }
}

#[test]
fn the_bench_kernels_come_back_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kernels");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path
            .extension()
            .is_some_and(|extension| extension == "sass")
        {
            let listing = std::fs::read_to_string(&path).expect("it is text");
            for (name, code) in assemble(&listing) {
                round_trip(&name, &code, &BTreeMap::new());
                count += 1;
            }
        }
    }
    assert!(count >= 8, "{count} kernels");
}

const SWITCH: &str = "
.kernel switch
    [B------:R-:W-:-:S05] @!P0 BRA `(.tail) ;
.back:
    [B------:R-:W0:-:S05] LDC.64 R2, c[0x2][R4] ;
    [B0-----:R-:W-:-:S05] BRX R2 -0x30 ;
.first:
    [B------:R-:W-:-:S05] EXIT ;
.second:
    [B------:R-:W-:-:S05] BSSY B0, `(.meet) ;
    [B------:R-:W-:-:S05] BRA.DIV ~URZ, `(.meet) ;
    [B------:R-:W-:Y:S01] IADD3 R0, R1.reuse, R2, RZ ;
.meet:
    [B------:R-:W-:-:S05] BSYNC B0 ;
.tail:
    [B------:R-:W-:-:S05] @P1 EXIT ;
    [B------:R-:W-:-:S05] BRA `(.back) ;
";

#[test]
fn a_switch_comes_back_with_the_targets_the_container_lists() {
    let (name, code) = assemble(SWITCH).remove(0);
    round_trip(&name, &code, &BTreeMap::from([(0x20, vec![0x40, 0x30])]));
}

#[test]
fn an_indirect_branch_that_is_not_listed_is_refused() {
    let (name, code) = assemble(SWITCH).remove(0);
    let error = lift(&source(&name, &code, &BTreeMap::new())).expect_err("the targets are unknown");
    assert_eq!((error.offset, error.kind), (0x20, LiftErrorKind::Indirect));
}

#[test]
fn a_loop_to_the_first_instruction_gets_an_entry_block_in_front() {
    let listing = "
.kernel spin
.top:
    [B------:R-:W-:-:S05] IADD3 R0, R0, 1, RZ ;
    [B------:R-:W-:-:S05] BRA `(.top) ;
";
    let (name, code) = assemble(listing).remove(0);
    round_trip(&name, &code, &BTreeMap::new());
    let func = lift(&source(&name, &code, &BTreeMap::new())).expect("it lifts");
    assert!(print_function(&func).contains("block0:\n    next -> block1\n"));
}

#[test]
fn broken_code_is_refused_with_its_place() {
    let refused = |listing: &str| {
        let (name, code) = assemble(listing).remove(0);
        let error = lift(&source(&name, &code, &BTreeMap::new())).expect_err("it is broken");
        (error.offset, error.kind)
    };
    let runs_over = ".kernel k\n  [B------:R-:W-:-:S05] IADD3 R0, R0, 1, RZ ;\n";
    assert_eq!(refused(runs_over), (0, LiftErrorKind::RunsOver));
    let word = ".kernel k\n  .word 0x0, 0x0\n  [B------:R-:W-:-:S05] EXIT ;\n";
    assert!(matches!(refused(word), (0, LiftErrorKind::Decode(_))));
    let code = [0u8; 17];
    let error = lift(&source("k", &code, &BTreeMap::new())).expect_err("it is broken");
    assert_eq!(error.kind, LiftErrorKind::Length);
}

#[test]
fn a_branch_out_of_the_code_is_refused() {
    let (_, mut code) = assemble(SWITCH).remove(0);
    code.truncate(16);
    let error = lift(&source("k", &code, &BTreeMap::new())).expect_err("the target is gone");
    assert_eq!(error.kind, LiftErrorKind::Outside(0x80));
}

#[test]
fn names_become_relocations() {
    let func = parse_function(
        "entry k final sm_90a {
block0:
    [B------:R-:W-:-:S04] MOV R4, lo(&table+0x8), 0xf
    [B------:R-:W-:-:S05] CALL.REL.NOINC PT, &callee
    [B------:R-:W-:-:S05] EXIT PT
}
",
    )
    .expect("it parses");
    let code = emit(&func).unwrap_or_else(|error| panic!("{error}"));
    let [table, callee] = code.relocations.as_slice() else {
        panic!("{:?}", code.relocations);
    };
    assert_eq!(
        (table.symbol.as_str(), table.addend, table.offset),
        ("table", 8, 0)
    );
    assert!(matches!(
        table.patch,
        Patch::Address {
            first_bit: 32,
            bits: 32,
            ..
        }
    ));
    assert_eq!((callee.symbol.as_str(), callee.offset), ("callee", 16));
    assert_eq!(callee.patch, Patch::Distance);
}

#[test]
fn unfinished_code_is_not_emitted() {
    let func =
        parse_function("entry k physical sm_90a {\nblock0:\n    EXIT PT\n}\n").expect("it parses");
    let error = emit(&func).expect_err("it has no control words");
    assert_eq!(error.to_string(), "k is physical, not final");
}
