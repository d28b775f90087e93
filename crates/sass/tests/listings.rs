//! Listings: labels as nvdisasm numbers them, and back to words.

use orias_sass::Target;
use orias_sass::text::{
    BranchTable, CodeSection, CodeSymbol, ListingStyle, assemble, list, parse_instruction,
};

/// A loop with a divergent exit, as the command `asm` takes it.
const LOOP: &str = "\
        .target sm_90a
        .kernel count
        .param 8, 8, out
        .registers 8
count:
        /*0000*/ [B------:R-:W-:Y:S01]          LDC R1, c[0x0][0x28] ; // the stack
        [B------:R-:W-:-:S04]                   IADD3 R2, R2, 0x1, RZ ;
.L_top:
        [B0-----:R-:W-:-:S05]                   IADD3 R2, R2.reuse, -0x1, RZ ;
        [B------:R-:W-:-:S05]          @!P0     BRA `(.L_out) ;
        [B------:R-:W-:-:S05]                   BRA `(.L_top) ;
.L_out:
        [B------:R-:W-:-:S05]                   EXIT ;
.L_end:
        [B------:R-:W-:-:S00]                   BRA `(.L_end);
";

fn fixed() -> String {
    // Reuse flags are legal with the yield bit only.
    LOOP.replace("[B0-----:R-:W-:-:S05]", "[B0-----:R-:W-:Y:S05]")
}

#[test]
fn a_listing_assembles_and_lists_back_to_the_same_words() {
    let assembly = assemble(&fixed(), Target::Sm90).expect("the listing is right");
    assert_eq!(assembly.target, Target::Sm90a);
    let function = &assembly.functions[0];
    assert!(function.kernel);
    assert_eq!(function.words.len(), 7);
    assert_eq!(function.labels[".L_out"], 0x50);
    assert_eq!(
        function
            .directives
            .iter()
            .map(|directive| directive.row.name)
            .collect::<Vec<_>>(),
        [".param", ".registers"]
    );
    let symbols = [CodeSymbol {
        name: "count",
        address: 0,
        size: 0x70,
        order: 0,
        ..CodeSymbol::default()
    }];
    let section = CodeSection {
        words: &function.words,
        symbols: &symbols,
        branch_tables: &[],
        ..CodeSection::default()
    };
    let listed = list(&[section], assembly.target);
    let mut text = ".target sm_90a\n.kernel count\n".to_owned();
    listed[0].write(&mut text, &function.words, ListingStyle { control: true });
    let again = assemble(&text, Target::Sm90).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    assert_eq!(again.functions[0].words, function.words, "{text}");
}

#[test]
fn a_plain_listing_looks_as_nvdisasm_prints_it() {
    let assembly = assemble(&fixed(), Target::Sm90a).expect("the listing is right");
    let words = &assembly.functions[0].words;
    let section = CodeSection {
        words,
        symbols: &[],
        branch_tables: &[],
        ..CodeSection::default()
    };
    let mut text = String::new();
    list(&[section], Target::Sm90a)[0].write(&mut text, words, ListingStyle::default());
    assert_eq!(
        text,
        "        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   IADD3 R2, R2, 0x1, RZ ;
.L_x_1:
        /*0020*/                   IADD3 R2, R2.reuse, -0x1, RZ ;
        /*0030*/              @!P0 BRA `(.L_x_0) ;
        /*0040*/                   BRA `(.L_x_1) ;
.L_x_0:
        /*0050*/                   EXIT ;
.L_x_2:
        /*0060*/                   BRA `(.L_x_2);
"
    );
}

#[test]
fn labels_are_numbered_by_mention_then_tables_then_ends() {
    let assembly = assemble(&fixed(), Target::Sm90a).expect("the listing is right");
    let words = &assembly.functions[0].words;
    let symbols = |order| {
        [CodeSymbol {
            name: "f",
            address: 0,
            size: 0x70,
            order,
            ..CodeSymbol::default()
        }]
    };
    let (first, second) = (symbols(1), symbols(0));
    // Entries of a table take numbers even where the address has a name.
    let tables = [BranchTable {
        address: 0x10,
        targets: &[0x20, 0x30, 0x30, 0x40],
    }];
    let listed = list(
        &[
            CodeSection {
                words,
                symbols: &first,
                branch_tables: &tables,
                ..CodeSection::default()
            },
            CodeSection {
                words,
                symbols: &second,
                branch_tables: &[],
                ..CodeSection::default()
            },
        ],
        Target::Sm90a,
    );
    let label = |section: usize, address: u64| listed[section].labels[&address].as_str();
    assert_eq!(label(0, 0), "f");
    assert_eq!(label(0, 0x50), ".L_x_0");
    assert_eq!(label(1, 0x50), ".L_x_3");
    assert_eq!(label(0, 0x10), ".L_x_6");
    assert_eq!(label(0, 0x20), ".L_x_1");
    assert_eq!(label(0, 0x30), ".L_x_8");
    assert_eq!(label(0, 0x40), ".L_x_10");
    // Ends follow the symbol table's order, not the sections'.
    assert_eq!(label(1, 0x70), ".L_x_11");
    assert_eq!(label(0, 0x70), ".L_x_12");
    assert_eq!(listed[0].branch_targets[&0x10], [0x20, 0x30, 0x40]);
}

#[test]
fn every_wrong_line_is_reported_with_its_place() {
    let text = "\
        .kernel k
        IADD3 R2, R2, 0x1, RZ ;
        IADD3 R2, R2, R300, RZ ;
        BRA `(.nowhere) ;
        FROB R1 ;
        .frob 1
        .param
        EXIT ; EXIT ;
        [B------:R6:W-:-:S01] EXIT ;
        [B------:R-:W-:-:S01] IADD3 R2, R2.reuse, 0x1, RZ ;
";
    let errors = assemble(text, Target::Sm90a).expect_err("nearly every line is wrong");
    let places: Vec<(usize, usize)> = errors
        .iter()
        .map(|error| (error.line, error.column))
        .collect();
    assert_eq!(
        places,
        [
            (3, 23),
            (4, 13),
            (5, 9),
            (6, 9),
            (7, 9),
            (8, 16),
            (9, 19),
            (10, 31)
        ],
        "{errors:#?}"
    );
    assert!(errors[0].message.contains("R300"), "{}", errors[0]);
    assert!(errors[1].message.contains(".nowhere"), "{}", errors[1]);
    assert!(errors[2].message.contains("FROB"), "{}", errors[2]);
}

#[test]
fn an_unknown_word_is_listed_as_a_word_and_assembles_back() {
    let words = [0xffffu128 << 64 | 0xfff];
    let section = CodeSection {
        words: &words,
        symbols: &[],
        branch_tables: &[],
        ..CodeSection::default()
    };
    let mut text = ".func f\n".to_owned();
    list(&[section], Target::Sm90a)[0].write(&mut text, &words, ListingStyle::default());
    assert!(text.contains("no operation has opcode 0xfff"), "{text}");
    let assembly = assemble(&text, Target::Sm90a).expect("it reads back");
    assert_eq!(assembly.functions[0].words, words);
}

#[test]
fn an_alias_that_does_not_fit_its_operands_is_refused() {
    let parse = |text: &str| parse_instruction(text, 0, Target::Sm90a).map(|_| ());
    assert_eq!(parse("IMAD.MOV.U32 R1, RZ, RZ, R2 ;"), Ok(()));
    assert_eq!(parse("IMAD R1, R4, R5, R2 ;"), Ok(()));
    assert!(parse("IMAD.MOV.U32 R1, R4, R5, R2 ;").is_err());
    assert!(parse("IMAD.U32 R1, RZ, RZ, R2 ;").is_err());
}
