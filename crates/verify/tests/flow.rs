//! What the flow sees of small programs written by hand.

use orias_sass::text::assemble;
use orias_sass::{RegisterClass, Target};
use orias_verify::flow::{Dependence, Hazard, observe};
use orias_verify::program::{Program, ProgramError};

fn program(listing: &str) -> Program {
    let text = format!(".kernel k\n{listing}");
    let assembly = assemble(&text, Target::Sm90a).unwrap_or_else(|errors| panic!("{errors:?}"));
    let words = &assembly.functions[0].words;
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Program::new("k", &code, Target::Sm90a, |_| None).expect("the code decodes")
}

/// The dependences through general registers, in the order they are met.
fn dependences(listing: &str) -> Vec<Dependence> {
    let mut seen = Vec::new();
    observe(&program(listing), |dependence| {
        if dependence.register.class == RegisterClass::R {
            seen.push(dependence);
        }
    })
    .expect("every operation has a timing");
    seen
}

#[test]
fn distance_is_the_sum_of_stalls_between() {
    let seen = dependences(
        "[B------:R-:W-:-:S04] IADD3 R4, R2, R3, RZ ;
         [B------:R-:W-:-:S02] NOP ;
         [B------:R-:W-:-:S05] IADD3 R5, R4, R4, RZ ;
         [B------:R-:W-:-:S05] EXIT ;",
    );
    let raw: Vec<_> = seen
        .iter()
        .filter(|d| d.hazard == Hazard::ReadAfterWrite)
        .collect();
    assert_eq!(raw.len(), 2, "both operands read R4: {seen:?}");
    assert!(
        raw.iter()
            .all(|d| d.cycles == 6 && d.met && (d.earlier, d.later) == (0, 2))
    );
}

#[test]
fn a_factor_of_a_wide_product_takes_five_cycles_from_the_logic() {
    // A mutant with four went wrong on the chip.
    let chain = |stall: u8| {
        format!(
            "[B------:R-:W-:-:S{stall:02}] LEA R4, R2, R3, 0x2 ;
             [B------:R-:W-:-:S05] IMAD.WIDE R6, R4, 0x4, R8 ;
             [B------:R-:W-:-:S05] EXIT ;"
        )
    };
    assert!(dependences(&chain(5)).iter().all(|seen| seen.met));
    assert!(dependences(&chain(4)).iter().any(|seen| !seen.met));
}

#[test]
fn a_wait_on_the_right_barrier_finishes_a_load_and_another_does_not() {
    let load = |wait: &str| {
        format!(
            "[B------:R-:W2:-:S02] LDG.E R4, desc[UR4][R2.64] ;
             [{wait}:R-:W-:-:S05] IADD3 R5, R4, RZ, RZ ;
             [B------:R-:W-:-:S05] EXIT ;"
        )
    };
    assert!(dependences(&load("B--2---"))[0].met);
    assert!(!dependences(&load("B-1----"))[0].met);
}

#[test]
fn a_barrier_set_one_cycle_ago_is_not_seen_yet() {
    let seen = dependences(
        "[B------:R-:W2:-:S01] LDG.E R4, desc[UR4][R2.64] ;
         [B--2---:R-:W-:-:S05] IADD3 R5, R4, RZ, RZ ;
         [B------:R-:W-:-:S05] EXIT ;",
    );
    assert!(!seen[0].met);
}

#[test]
fn a_later_load_from_shared_memory_covers_an_earlier_one() {
    let pair = |second: &str| {
        format!(
            "[B------:R-:W-:-:S02] LDS R4, [R2] ;
             [B------:R-:W0:-:S02] {second} ;
             [B0-----:R-:W-:-:S05] IADD3 R6, R4, RZ, RZ ;
             [B------:R-:W-:-:S05] EXIT ;"
        )
    };
    assert!(dependences(&pair("LDS R5, [R2+0x10]"))[0].met);
    // A load from global memory may overtake it.
    assert!(!dependences(&pair("LDG.E R5, desc[UR4][R2.64]"))[0].met);
}

#[test]
fn where_paths_join_the_shorter_one_counts() {
    let seen = dependences(
        "[B------:R-:W-:-:S04] IADD3 R4, R2, R3, RZ ;
         [B------:R-:W-:-:S01] @P0 BRA `(.L_join) ;
         [B------:R-:W-:-:S15] NOP ;
         .L_join:
         [B------:R-:W-:-:S05] IADD3 R5, R4, RZ, RZ ;
         [B------:R-:W-:-:S05] EXIT ;",
    );
    assert_eq!(seen.iter().map(|d| d.cycles).collect::<Vec<_>>(), [5]);
}

#[test]
fn a_load_in_flight_around_a_loop_is_seen_by_the_next_iteration() {
    let seen = dependences(
        ".L_top:
         [B------:R-:W-:-:S05] IADD3 R5, R4, RZ, RZ ;
         [B------:R-:W0:-:S02] LDG.E R4, desc[UR4][R2.64] ;
         [B------:R-:W-:-:S05] @P0 BRA `(.L_top) ;
         [B------:R-:W-:-:S05] EXIT ;",
    );
    let around = seen.iter().find(|d| d.hazard == Hazard::ReadAfterWrite);
    let around = around.expect("R4 is read in the next iteration");
    assert_eq!((around.earlier, around.later, around.met), (1, 0, false));
}

#[test]
fn sources_of_loads_are_read_late_unless_a_barrier_tells() {
    let overwrite = |read: &str, wait: &str| {
        format!(
            "[B------:{read}:W0:-:S02] LDG.E R4, desc[UR4][R2.64] ;
             [{wait}:R-:W-:-:S05] MOV R2, R6 ;
             [B------:R-:W-:-:S05] EXIT ;"
        )
    };
    let war = |listing: &str| {
        let seen = dependences(listing);
        let war = seen
            .iter()
            .find(|d| d.hazard == Hazard::WriteAfterRead)
            .copied();
        war.expect("R2 is overwritten").met
    };
    assert!(!war(&overwrite("R-", "B------")));
    assert!(war(&overwrite("R1", "B-1----")));
    assert!(
        war(&overwrite("R-", "B0-----")),
        "a written result means that the sources were read"
    );
}

#[test]
fn a_jump_through_a_table_needs_the_list_of_its_targets() {
    let text = ".kernel k\n BRX R2 -0x10 ;\n EXIT ;\n EXIT ;";
    let assembly = assemble(text, Target::Sm90a).unwrap_or_else(|errors| panic!("{errors:?}"));
    let words = &assembly.functions[0].words;
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let unknown = Program::new("k", &code, Target::Sm90a, |_| None);
    assert!(
        matches!(unknown, Err(ProgramError::Indirect { offset: 0, .. })),
        "{unknown:?}"
    );
    let known = Program::new("k", &code, Target::Sm90a, |_| Some(vec![0x10, 0x20]))
        .expect("the list is known");
    assert_eq!(known.blocks[0].successors, [1, 2]);
}

#[test]
fn code_that_cannot_be_followed_is_refused() {
    let half = Program::new("k", &[0; 24], Target::Sm90a, |_| None);
    assert!(matches!(half, Err(ProgramError::Length { size: 24, .. })));
    let garbage = Program::new("k", &[0xff; 16], Target::Sm90a, |_| None);
    assert!(matches!(
        garbage,
        Err(ProgramError::Decode { offset: 0, .. })
    ));
}
