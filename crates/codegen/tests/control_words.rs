//! Control words: what is waited for, what shares a barrier, what stays in flight.

use orias_codegen::knobs::Knobs;
use orias_codegen::pipeline::Context;
use orias_codegen::scoreboard::{
    Insertions, assign_control_words, assign_plain_control_words, drop_control_words,
    schedule_waits,
};
use orias_ori::{Function, parse_function, print_function, verify_function};
use std::fmt::Write as _;

fn parsed(body: &str) -> Function {
    let text = format!("entry k physical sm_90a {{\n{body}}}\n");
    parse_function(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The words of the instructions, in order.
fn words(body: &str) -> Vec<String> {
    let mut func = parsed(body);
    schedule_waits(&mut func, Insertions::Allowed).unwrap_or_else(|error| panic!("{error}"));
    if let Err(errors) = verify_function(&func) {
        panic!("{}\n{}", errors[0], print_function(&func));
    }
    let text = print_function(&func);
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| line.starts_with('['));
    lines
        .map(|line| line[..line.find(']').expect("a word ends") + 1].to_owned())
        .collect()
}

#[test]
fn arithmetic_is_waited_for_by_the_stall_before_its_reader() {
    let words = words(
        "block0:
    FADD R2, R0, R1
    FADD R3, R2, R1
    IADD3 R4, PT, PT, R3, R1, RZ
    EXIT PT
",
    );
    assert_eq!(words[0], "[B------:R-:W-:-:S04]");
    assert_eq!(words[1], "[B------:R-:W-:-:S05]");
}

#[test]
fn a_guard_needs_its_predicate_longer_than_an_operand_does() {
    let words = words(
        "block0:
    ISETP.GE.U32.AND P0, PT, R0, R1, PT
    @P0 EXIT PT -> block1
block1:
    EXIT PT
",
    );
    assert_eq!(words[0], "[B------:R-:W-:-:S13]");
}

#[test]
fn sources_of_a_store_are_kept_until_they_have_been_read() {
    let words = words(
        "block0:
    STS [R0], R4
    MOV R4, 1, 0xf
    STS [R0+0x4], R4
    EXIT PT
",
    );
    let read = char::from(words[0].as_bytes()[10]);
    assert!(read.is_ascii_digit());
    assert!(words[1][2..8].contains(read));
    // Nobody overwrites what the second one reads.
    assert_eq!(&words[2][9..11], "R-");
}

/// Cycles from the first instruction to the one at `index`, if nothing is waited for.
fn cycles(words: &[String], index: usize) -> u32 {
    let stall = |word: &String| word[18..20].parse::<u32>().expect("a stall has two digits");
    words[..index].iter().map(stall).sum()
}

#[test]
fn the_low_half_of_an_addend_is_needed_before_the_high_half() {
    let low = words(
        "block0:
    IMAD R4, R0, R1, R2
    IMAD.WIDE.U32 R6..R7, PT, R0, R1, R4..R5
    EXIT PT
",
    );
    let high = words(
        "block0:
    IMAD R5, R0, R1, R2
    IMAD.WIDE.U32 R6..R7, PT, R0, R1, R4..R5
    EXIT PT
",
    );
    assert_eq!((cycles(&low, 1), cycles(&high, 1)), (4, 2));
}

#[test]
fn loads_that_one_instruction_reads_share_a_barrier() {
    let words = words(
        "block0:
    S2R R4, SR_TID.X
    S2R R5, SR_TID.Y
    FADD R6, R4, R5
    EXIT PT
",
    );
    assert_eq!(words[0][12..14], words[1][12..14], "{words:?}");
    assert_eq!(words[2][2..8].matches(char::is_numeric).count(), 1);
}

#[test]
fn a_later_one_of_its_queue_that_is_waited_for_first_spares_a_barrier() {
    let loads = |first: &str, second: &str| {
        words(&format!(
            "block0:
    LDS R4, [R0]
    LDS R5, [R0+0x4]
    FADD R6, {first}, R2
    FADD R7, {second}, R6
    EXIT PT
"
        ))
    };
    let sets = |word: &String| word[12..14] != *"W-";
    // The wait for the second load is one for the first as well.
    let second_first = loads("R5", "R4");
    assert_eq!(
        [sets(&second_first[0]), sets(&second_first[1])],
        [false, true]
    );
    assert_eq!(&second_first[3][2..8], "------");
    // The other way round, the first would wait for the second.
    let in_order = loads("R4", "R5");
    assert_eq!([sets(&in_order[0]), sets(&in_order[1])], [true, true]);
}

#[test]
fn a_load_that_is_predicated_off_takes_its_turn_and_spares_as_well() {
    let words = words(
        "block0:
    LDS R4, [R0]
    @P0 LDS R5, [R0+0x4]
    FADD R6, R5, R2
    FADD R7, R4, R6
    EXIT PT
",
    );
    assert_eq!(&words[0][12..14], "W-");
    assert_eq!(&words[3][2..8], "------");
}

#[test]
fn a_store_in_front_of_a_load_that_is_waited_for_sets_no_barrier() {
    let words = words(
        "block0:
    STS [R0], R4
    LDS R5, [R0+0x4]
    FADD R6, R5, R2
    MOV R4, 1, 0xf
    STS [R0+0x8], R4
    EXIT PT
",
    );
    assert_eq!(&words[0][9..11], "R-");
    assert_eq!(&words[3][2..8], "------");
}

#[test]
fn a_warp_gives_way_after_twelve_cycles() {
    let mut body = "block0:\n".to_owned();
    for register in 10..30 {
        writeln!(body, "    IADD3 R{register}, PT, PT, R0, R1, RZ").expect("text grows");
    }
    body.push_str("    EXIT PT\n");
    let words = words(&body);
    let lacking: Vec<usize> = (0..19).filter(|&at| &words[at][15..17] == "-:").collect();
    assert_eq!(lacking, [5, 11, 17], "{words:?}");
}

#[test]
fn arithmetic_follows_a_barrier_at_once_and_memory_after_six_cycles() {
    let behind = |lines: &str| {
        words(&format!(
            "block0:\n    BAR.SYNC.DEFER_BLOCKING 0, 0\n{lines}"
        ))
    };
    let arithmetic = behind("    FADD R4, R2, R3\n    LDS R5, [R0]\n    EXIT PT\n");
    assert_eq!((cycles(&arithmetic, 1), cycles(&arithmetic, 2)), (1, 6));
    let memory = behind("    LDS R5, [R0]\n    EXIT PT\n");
    assert_eq!(cycles(&memory, 1), 6);
    // The fall into the next block counts as well.
    let next_block = behind(
        "    FADD R4, R2, R3\n    @P0 EXIT PT -> block1\nblock1:\n    LDS R5, [R0]\n    EXIT PT\n",
    );
    assert!(cycles(&next_block, 3) >= 6, "{next_block:?}");
}

#[test]
fn a_load_stays_in_flight_round_a_loop() {
    let words = words(
        "block0:
    LDS R4, [R0]
    BRA PT, block1
block1:
    FADD R5, R5, R4
    LDS R4, [R0+0x4]
    IADD3 R0, PT, PT, R0, 4, RZ
    @P0 BRA PT, block1 -> block2
block2:
    EXIT PT
",
    );
    let waits = |index: usize| words[index][2..8].contains(char::is_numeric);
    // The reader waits, for the load before the loop and for the one of the iteration before; no branch does.
    assert!(waits(2), "{words:?}");
    assert!(!waits(1) && !waits(5), "{words:?}");
}

#[test]
fn far_loads_that_outlive_their_block_share_the_last_barrier() {
    let words = words(
        "block0:
    LDG.E PT, R4, [R0..R1], PT
    LDG.E PT, R5, [R0..R1+0x4], PT
    LDG.E PT, R6, [R0..R1+0x8], PT
    BRA PT, block1
block1:
    LDG.E PT, R7, [R2..R3], PT
    FADD R8, R7, R1
    FADD R9, R4, R8
    FADD R9, R5, R9
    FADD R9, R6, R9
    EXIT PT
",
    );
    let sets: Vec<&str> = words.iter().map(|word| &word[12..14]).collect();
    assert_eq!(sets[..3], ["W5", "W5", "W5"]);
    assert!(!["W5", "W-"].contains(&sets[4]), "{words:?}");
}

#[test]
fn what_is_waited_for_behind_a_load_that_outlives_its_block_keeps_off_its_barrier() {
    // Six results of six waiters: one of them would get the last barrier. The load in front of the waiters gets it.
    let words = words(
        "block0:
    S2R R4, SR_TID.X
    S2R R5, SR_TID.Y
    S2R R6, SR_TID.Z
    S2R R7, SR_CTAID.X
    S2R R8, SR_CTAID.Y
    S2R R9, SR_CTAID.Z
    LDG.E PT, R10, [R0..R1], PT
    FADD R4, R4, R4
    FADD R5, R5, R5
    FADD R6, R6, R6
    FADD R7, R7, R7
    FADD R8, R8, R8
    FADD R9, R9, R9
    BRA PT, block1
block1:
    FADD R10, R10, R4
    EXIT PT
",
    );
    assert_eq!(&words[6][12..14], "W5");
    assert!(
        words[7..13].iter().all(|word| !word[2..8].contains('5')),
        "{words:?}"
    );
}

#[test]
fn what_a_loop_leaves_in_flight_keeps_off_what_the_next_iteration_sets_before_it_is_waited_for() {
    // The barrier of the far load is the one that was set the longest time ago when the store issues.
    let words = words(
        "block0:
    BRA PT, block1
block1:
    LDG.E PT, R4, [R2..R3], PT
    MOV R13, 1, 0xf
    S2R R20, SR_TID.X
    S2R R21, SR_TID.Y
    S2R R22, SR_TID.Z
    S2R R23, SR_CTAID.X
    S2R R24, SR_CTAID.Y
    FADD R20, R20, R20
    FADD R21, R21, R21
    FADD R22, R22, R22
    FADD R23, R23, R23
    FADD R24, R24, R24
    FADD R5, R4, R4
    STS [R0], R13
    @P0 BRA PT, block1 -> block2
block2:
    EXIT PT
",
    );
    let (load, store) = (words[1].as_bytes()[13], words[14].as_bytes()[10]);
    assert!(load.is_ascii_digit() && store.is_ascii_digit(), "{words:?}");
    assert_ne!(load, store, "{words:?}");
}

#[test]
fn of_barriers_that_cover_a_source_the_one_that_ends_first_is_waited_for() {
    // The first load sets no barrier for its source, and its data comes late; the store behind it tells that both were read.
    let words = words(
        "block0:
    @P0 LDG.E PT, R4, [R0..R1], PT
    @P1 STG.E [R0..R1], R6
    MOV R0, 1, 0xf
    FADD R5, R4, R4
    EXIT PT
",
    );
    let released = char::from(words[1].as_bytes()[10]);
    assert!(released.is_ascii_digit(), "{words:?}");
    let waits: Vec<char> = words[2][2..8].chars().filter(|&c| c != '-').collect();
    assert_eq!(waits, [released], "{words:?}");
}

#[test]
fn what_follows_a_fence_of_the_thread_block_waits_for_it() {
    let words = words(
        "block0:
    MEMBAR.SC.CTA
    IADD3 R0, PT, PT, R0, 4, RZ
    EXIT PT
",
    );
    let read = char::from(words[0].as_bytes()[10]);
    assert!(words[1][2..8].contains(read), "{words:?}");
}

#[test]
fn nothing_is_in_flight_across_a_call() {
    let words = words(
        "block0:
    LDS R4, [R0]
    STS [R1], R5
    CALL.REL.NOINC PT, &callee
    EXIT PT
",
    );
    let written = char::from(words[0].as_bytes()[13]);
    let read = char::from(words[1].as_bytes()[10]);
    assert!(written.is_ascii_digit() && read.is_ascii_digit());
    let waited = &words[2][2..8];
    assert!(waited.contains(written) && waited.contains(read));
}

#[test]
fn barrier_zero_is_left_alone_where_somebody_asks_how_many_copies_are_on_their_way() {
    let words = words(
        "block0:
    LDS R4, [R0]
    DEPBAR.LE 0, 0, 0
    FADD R6, R4, R4
    EXIT PT
",
    );
    let written = words[0].as_bytes()[13];
    assert!(written.is_ascii_digit() && written != b'0', "{words:?}");
}

#[test]
fn barrier_zero_is_left_to_asynchronous_copies() {
    let words = words(
        "block0:
    LDGDEPBAR
    LDS R4, [R0]
    LDS R5, [R1]
    FADD R6, R4, R4
    FADD R7, R5, R5
    DEPBAR.LE 0, 0, 0
    EXIT PT
",
    );
    assert_eq!(&words[0][12..14], "W0");
    for word in &words[1..3] {
        assert!(word.as_bytes()[13].is_ascii_digit() && &word[12..14] != "W0");
    }
}

#[test]
fn a_uniform_register_is_not_overwritten_before_the_uniform_datapath_has_read_it() {
    let words = words(
        "block0:
    UIADD3 UR4, UPT, UPT, UR5, 1, URZ
    UMOV UR5, 7
    EXIT PT
",
    );
    assert_eq!(words[0], "[B------:R-:W-:-:S03]");
}

#[test]
fn at_o0_everything_waits_for_both_barriers() {
    let text = plain_words("    LDS R4, [R0]\n    FADD R5, R4, R4\n");
    assert!(text.contains("[B01----:R1:W0:-:S15] LDS"), "{text}");
    assert!(text.contains("[B01----:R-:W-:-:S15] FADD"), "{text}");
}

/// Nothing would release it, and the warp would hang.
#[test]
fn at_o0_an_instruction_without_results_sets_no_write_barrier() {
    let text =
        plain_words("    STS [R0], R4\n    BAR.SYNC.DEFER_BLOCKING 0, 0\n    MEMBAR.ALL.GPU\n");
    assert!(text.contains("[B01----:R1:W-:-:S15] STS"), "{text}");
    assert!(text.contains("[B01----:R1:W-:-:S15] BAR"), "{text}");
    assert!(text.contains("[B01----:R1:W-:-:S15] MEMBAR"), "{text}");
}

/// A block with control words of phase 116, as text.
fn plain_words(body: &str) -> String {
    let mut func = parsed(&format!("block0:\n{body}    EXIT PT\n"));
    let context = Context {
        opt_level: 0,
        knobs: &Knobs::default(),
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    assign_plain_control_words(&mut func, &context).expect("every operation has a row");
    print_function(&func)
}

#[test]
fn dropped_words_come_back_the_same() {
    let context = Context {
        opt_level: 3,
        knobs: &Knobs::default(),
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    let mut func =
        parsed("block0:\n    LDS R4, [R0]\n    FADD R5, R4, R4\n    STS [R0], R5\n    EXIT PT\n");
    assign_control_words(&mut func, &context).expect("every operation has a row");
    let first = func.clone();
    drop_control_words(&mut func);
    assign_control_words(&mut func, &context).expect("every operation has a row");
    assert_eq!(first, func);
}

#[test]
fn a_block_of_64_000_instructions_is_no_problem() {
    let mut body = "block0:\n".to_owned();
    for index in 0..16_000 {
        let reg = 4 + index % 200;
        // Writing to a string cannot fail.
        let _ = writeln!(body, "    LDS R{reg}, [R0+{:#x}]", index % 256 * 4);
        let _ = writeln!(body, "    FADD R{reg}, R{reg}, R1");
        let _ = writeln!(body, "    IADD3 R2, PT, PT, R2, R{reg}, RZ");
        let _ = writeln!(body, "    STS [R0+{:#x}], R{reg}", index % 256 * 4);
    }
    body.push_str("    EXIT PT\n");
    let mut func = parsed(&body);
    let start = std::time::Instant::now();
    schedule_waits(&mut func, Insertions::Allowed).unwrap_or_else(|error| panic!("{error}"));
    let time = start.elapsed();
    assert!(time.as_secs() < 60, "{time:?}");
}
