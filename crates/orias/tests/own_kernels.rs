//! The kernels written by hand in `bench/kernels` assemble into cubins that say what their listings say.

use orias_cubin::Cubin;
use orias_sass::Target;
use orias_sass::text::{ListingStyle, assemble};
use std::path::Path;

#[test]
fn every_listing_becomes_a_cubin_with_its_kernel() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kernels");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("the folder exists") {
        let path = entry.expect("a readable entry").path();
        if path.extension().is_none_or(|extension| extension != "sass") {
            continue;
        }
        let listing = std::fs::read_to_string(&path).expect("readable text");
        let cubin = orias::assemble_cubin(&listing, Target::Sm90a)
            .unwrap_or_else(|errors| panic!("{path:?}: {errors:?}"));
        let bytes = cubin.write().expect("a cubin that can be written");
        let back = Cubin::read(&bytes).expect("a cubin that can be read");
        let functions = back.functions();
        let name = path.file_stem().expect("a name").to_string_lossy();
        assert_eq!(functions.len(), 1, "{name}");
        assert_eq!(functions[0].name, name);
        assert!(functions[0].is_entry);
        let params = listing
            .lines()
            .filter(|line| line.starts_with(".param"))
            .count();
        assert_eq!(functions[0].params.len(), params, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 9);
}

#[test]
fn a_disassembled_kernel_assembles_to_the_same_words() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kernels");
    for name in ["axpy", "collatz", "local_array"] {
        let listing = std::fs::read_to_string(folder.join(name).with_extension("sass"))
            .expect("readable text");
        let cubin = orias::assemble_cubin(&listing, Target::Sm90a).expect("the kernel assembles");
        assert_eq!(orias::target_of(&cubin), Some(Target::Sm90a));
        let text = orias::disassemble(&cubin, Target::Sm90a, ListingStyle { control: true });
        let again =
            assemble(&text, Target::Sm90).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        assert_eq!(again.target, Target::Sm90a, "{text}");
        assert_eq!(
            again.functions[0].words,
            orias::words(cubin.functions()[0].code),
            "{name}"
        );
        let json = orias::disassemble_json(&cubin, Target::Sm90a);
        assert_eq!(json["functions"][0]["name"], name);
        let count = json["functions"][0]["instructions"]
            .as_array()
            .map(Vec::len);
        assert_eq!(count, Some(again.functions[0].words.len()));
    }
}

#[test]
fn a_wrong_directive_is_an_error_with_its_line() {
    let errors = |text: &str| match orias::assemble_cubin(text, Target::Sm90a) {
        Ok(_) => panic!("assembled: {text}"),
        Err(errors) => errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n"),
    };
    assert!(errors(".kernel k\n.param 3, 3\nEXIT ;\n").starts_with("2:1: .param"));
    assert!(
        errors(".kernel k\n.registers 8\nMOV R20, R1 ;\nEXIT ;\n").contains("less than the 23")
    );
    assert!(errors(".data v, 2, 112233\n.kernel k\nEXIT ;\n").starts_with("1:1: .data"));
    assert!(errors(".const 4, 0, 00\n.kernel k\nEXIT ;\n").contains("bank 3"));
    assert!(errors(".func f\n.param 8\nEXIT ;\n").contains("only a kernel"));
}

#[test]
fn an_indirect_branch_brings_its_table_and_its_targets() {
    let listing = "\
.kernel choose
.param 8
.table 0x10, first, second, first
        LDC R2, c[0x2][R4+0x10] ;
        SHF.R.S32.HI R3, RZ, 0x1f, R2 ;
        BRX R2 -0x30 (*\"BRANCH_TARGETS first,second\"*);
first:
        EXIT ;
second:
        EXIT ;
";
    let cubin = orias::assemble_cubin(listing, Target::Sm90a).expect("the listing is right");
    let bytes = cubin.write().expect("a cubin that can be written");
    let back = Cubin::read(&bytes).expect("a cubin that can be read");
    let functions = back.functions();
    let (_, bank) = functions[0]
        .banks
        .iter()
        .find(|(number, _)| *number == 2)
        .expect("bank 2 holds the table");
    let mut table = vec![0; 0x10];
    for address in [0x30u32, 0x40, 0x30] {
        table.extend_from_slice(&address.to_le_bytes());
    }
    assert_eq!(*bank, table);
    let text = orias::disassemble(&back, Target::Sm90a, ListingStyle::default());
    assert!(
        text.contains("(*\"BRANCH_TARGETS .L_x_1,.L_x_2\"*);"),
        "{text}"
    );
}

#[test]
fn a_constant_far_outside_its_bank_is_refused() {
    for directive in [
        ".const 2, 0xffffffffffffff, 00",
        ".const 2, 0xffff, 0000",
        ".table 0xfffe, there",
        ".table 0x0, nowhere",
    ] {
        let listing = format!(".kernel f\n{directive}\nthere:\n        EXIT ;\n");
        let errors = orias::assemble_cubin(&listing, Target::Sm90a).expect_err(directive);
        assert_eq!(errors[0].line, 2, "{directive}");
    }
}
