//! Which registers instructions read and write.

use orias_sass::text::parse_instruction;
use orias_sass::{Effects, Register, RegisterAccess, Target};

/// `reads -> writes`, each run as its first register and length.
fn accesses(text: &str) -> String {
    let parsed =
        parse_instruction(text, 0, Target::Sm90a).unwrap_or_else(|error| panic!("{text}: {error}"));
    let show = |accesses: Vec<RegisterAccess>| {
        accesses
            .iter()
            .map(|access| match access.count {
                1 => access.register.to_string(),
                count => format!("{}*{count}", access.register),
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    format!(
        "{} -> {}",
        show(parsed.instruction.reads().collect()),
        show(parsed.instruction.writes().collect())
    )
}

#[test]
fn tuples_addresses_guards_and_implicit_registers_are_counted() {
    for (text, expected) in [
        ("IADD3 R4, P1, R2, -R3, RZ", "R2 R3 -> R4 P1"),
        (
            "@!P2 IADD3.X R5, R6, UR4, RZ, P1, !PT",
            "P2 R6 UR4 P1 -> R5",
        ),
        ("LDG.E.128 R8, desc[UR6][R2.64+0x10]", "R2*2 UR6*2 -> R8*4"),
        ("LDG.E.U8 R8, [R2.64+UR4]", "R2*2 UR4*2 -> R8"),
        ("STG.E.64 desc[UR6][R2.64], R4", "R2*2 UR6*2 R4*2 -> "),
        ("LDS.64 R4, [R6+UR4+0x8]", "R6 UR4 -> R4*2"),
        ("LDSM.16.M88.4 R4, [R6]", "R6 -> R4*4"),
        (
            "LDGSTS.E.128 [R8+UR4], desc[UR5][R2.64]",
            "R8 UR4 R2*2 UR5 -> ",
        ),
        ("LDC.64 R2, c[0x0][0x210]", " -> R2*2"),
        ("LDC R2, c[0x3][R7+0x8]", "R7 -> R2"),
        ("IMAD.WIDE R4, R2, 0x4, R6", "R2 R6*2 -> R4*2"),
        ("DFMA R4, R6, R8, R10", "R6*2 R8*2 R10*2 -> R4*2"),
        ("R2P PR, R2, 0x7f", "R2 P0*7 -> P0*7"),
        ("BSSY B3, 0x40", " -> B3"),
        ("BSYNC B3", "B3 -> "),
        ("RET.REL.NODEC R20 0x0", "R20*2 -> "),
        ("ULDC.64 UR4, c[0x0][0x208]", " -> UR4*2"),
        ("EXIT", " -> "),
    ] {
        assert_eq!(accesses(text), expected, "{text}");
    }
}

#[test]
fn a_run_contains_its_registers_only() {
    let parsed = parse_instruction("LDG.E.128 R252, desc[UR6][R2.64]", 0, Target::Sm90a)
        .expect("a load at the end of the file");
    let instruction = parsed.instruction;
    assert!(instruction.writes_register(Register::r(252)));
    assert!(!instruction.writes_register(Register::r(251)));
    assert!(!instruction.writes_register(Register::p(3)));
    let written: Vec<Register> = instruction
        .writes()
        .flat_map(RegisterAccess::registers)
        .collect();
    assert_eq!(
        written,
        [Register::r(252), Register::r(253), Register::r(254)],
        "RZ is not written"
    );
}

#[test]
fn control_flow_and_memory_are_marked() {
    let effects = |text: &str| {
        parse_instruction(text, 0, Target::Sm90a)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .instruction
            .op()
            .row()
            .effects
    };
    assert!(effects("BRA 0x0").contains(Effects::BRANCH | Effects::TERMINATOR));
    assert!(effects("EXIT").contains(Effects::EXIT | Effects::TERMINATOR));
    assert!(effects("CALL.REL.NOINC 0x0").contains(Effects::CALL));
    assert!(!effects("CALL.REL.NOINC 0x0").contains(Effects::TERMINATOR));
    assert_eq!(effects("IADD3 R0, R1, R2, R3"), Effects::empty());
}

#[test]
fn a_descriptor_tied_to_a_uniform_register_must_follow_it() {
    let text = "LDGSTS.E.128 [UR4], desc[UR6][R2.64]";
    let error = parse_instruction(text, 0, Target::Sm90a).expect_err("UR6 does not follow UR4");
    assert!(error.to_string().contains("the register after"), "{error}");
}
