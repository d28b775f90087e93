//! The emulator on hand-written code: kernels against the interpreter, hazards as the chip shows them, and clear faults.

mod kernels;

use kernels::{KERNELS, launch};
use orias::run::{Code, Engine, Finished, Launch, run};
use orias_sass::Target;
use orias_sim::Timing;

const TIMINGS: [Timing; 4] = [
    Timing::Off,
    Timing::Strict,
    Timing::Random(1),
    Timing::Random(2),
];

fn assembled(listing: &str) -> Vec<u8> {
    orias::assemble_cubin(listing, Target::Sm90a)
        .unwrap_or_else(|errors| panic!("{errors:?}"))
        .write()
        .expect("a cubin that can be written")
}

fn emulate(listing: &str, launch: &Launch) -> Finished {
    run(
        Code::Cubin(&assembled(listing)),
        launch,
        Engine::Emulator,
        &mut |_, _| {},
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn kernels_by_hand_do_what_their_ptx_means_in_every_timing() {
    for kernel in KERNELS {
        let name = kernel.name;
        let mut request = kernel.launch();
        let ptx = kernel.source("ptx");
        let meant = run(
            Code::Ptx(ptx.as_bytes()),
            &request,
            Engine::Interpreter,
            &mut |_, _| {},
        )
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(meant.fault, None, "{name}");
        for timing in TIMINGS {
            request.emulation.timing = timing;
            let found = emulate(&kernel.source("sass"), &request);
            assert_eq!(found.fault, None, "{name} {timing:?}");
            assert_eq!(found.buffers, meant.buffers, "{name} {timing:?}");
            let hazards: Vec<&String> = found
                .findings
                .iter()
                .filter(|text| text.contains("before"))
                .collect();
            assert!(hazards.is_empty(), "{name} {timing:?}: {hazards:?}");
        }
    }
}

/// A kernel that stores R9 of thread 0 to its buffer; `body` computes it. R4 and R5 hold the buffer's address.
fn probe(body: &str) -> String {
    format!(
        ".target sm_90a
.kernel probe
.param 8
.registers 32
.shared 512
.barriers 2
    [B01----:R-:W-:-:S15] ULDC.64 UR4, c[0x0][0x208] ;
    [B01----:R1:W0:-:S15] LDC.64 R4, c[0x0][0x210] ;
    [B01----:R-:W-:-:S15] MOV R9, 0x7 ;
    [B01----:R-:W-:-:S15] MOV R2, 0x1 ;
    [B01----:R-:W-:-:S15] MOV R12, 0x400 ;
{body}
    [B01----:R-:W-:-:S15] NOP ;
    [B01----:R-:W-:-:S15] NOP ;
    [B01----:R1:W-:-:S15] STG.E desc[UR4][R4.64], R9 ;
    [B01----:R-:W-:-:S15] EXIT ;
.L_end:
    [B01----:R-:W-:-:S15] BRA `(.L_end) ;
"
    )
}

fn value(body: &str, timing: Timing) -> (u32, Vec<String>) {
    let request = launch(1, 32, 0, &["buf:i32:4:fill:100"], timing);
    let found = emulate(&probe(body), &request);
    assert_eq!(found.fault, None, "{body}");
    let bytes = found.buffers[0].as_ref().expect("a buffer");
    let word = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    let hazards = found
        .findings
        .into_iter()
        .filter(|text| text.contains("before"))
        .collect();
    (word, hazards)
}

#[test]
fn a_turned_operand_has_its_low_half_above_its_high_half_negated() {
    // Two and one times (one half, three) turned, plus one and two: 2·-3+1 and 1·0.5+2.
    let body = |operand: &str| {
        format!(
            "[B------:R-:W-:-:S15] MOV R6, 0x3c004000 ;
             [B------:R-:W-:-:S15] MOV R7, 0x42003800 ;
             [B------:R-:W-:-:S15] MOV R8, 0x40003c00 ;
             [B------:R-:W-:-:S15] HFMA2 R9, R6, {operand}, R8 ;"
        )
    };
    assert_eq!(value(&body("R7.H0_NH1"), Timing::Off).0, 0x4100_c500);
    assert_eq!(value(&body("-R7.H0_NH1"), Timing::Off).0, 0x3e00_4700);
}

#[test]
fn a_fixed_result_read_too_early_is_the_old_value() {
    let body = |stall: u32| {
        format!(
            "[B------:R-:W-:-:S{stall:02}] IADD3 R2, R2, 0x10, RZ ;
             [B------:R-:W-:-:S15] MOV R9, R2 ;"
        )
    };
    for stall in 1..4 {
        let (early, hazards) = value(&body(stall), Timing::Strict);
        assert_eq!(early, 1, "stall {stall}");
        assert!(hazards[0].contains("R2 is read before"), "{hazards:?}");
        assert_eq!(value(&body(stall), Timing::Off).0, 17);
    }
    // A stall count of zero waits for everything.
    assert_eq!(value(&body(0), Timing::Strict).0, 17);
    for stall in 5..8 {
        let (late, hazards) = value(&body(stall), Timing::Strict);
        assert_eq!((late, hazards.len()), (17, 0), "stall {stall}");
    }
}

#[test]
fn a_guard_needs_its_predicate_longer_than_an_operand_does() {
    let body = |stall: u32| {
        format!(
            "[B------:R-:W-:-:S15] ISETP.EQ.U32.AND P0, PT, R2, 0x5, PT ;
             [B------:R-:W-:-:S{stall:02}] ISETP.EQ.U32.AND P0, PT, R2, 0x1, PT ;
             [B------:R-:W-:-:S15] @P0 MOV R9, 0x21 ;"
        )
    };
    assert_eq!(value(&body(6), Timing::Strict).0, 7, "the guard saw false");
    assert_eq!(value(&body(13), Timing::Strict).0, 0x21);
}

#[test]
fn a_load_that_nothing_waits_for_has_not_arrived() {
    let load = "[B------:R-:W2:-:S04] LDG.E R9, desc[UR4][R4.64] ;";
    let early = format!("{load}\n[B------:R-:W-:-:S15] MOV R9, R9 ;\n[B--2---:R-:W-:-:S15] NOP ;");
    let (_, hazards) = value(&early, Timing::Strict);
    assert!(
        hazards
            .iter()
            .any(|text| text.contains("R9 is read before")),
        "{hazards:?}"
    );
    let copy = "[B------:R-:W-:-:S15] MOV R10, 0x3 ;
        [B------:R-:W2:-:S04] LDG.E R10, desc[UR4][R4.64] ;
        [BWAIT:R-:W-:-:S15] MOV R9, R10 ;
        [B--2---:R-:W-:-:S15] NOP ;";
    assert_eq!(
        value(&copy.replace("BWAIT", "B------"), Timing::Strict).0,
        3
    );
    for timing in TIMINGS {
        assert_eq!(value(&copy.replace("BWAIT", "B--2---"), timing).0, 100);
    }
}

#[test]
fn a_wait_right_behind_a_load_does_not_see_its_barrier() {
    let body = |stall: u32| {
        format!(
            "[B------:R-:W-:-:S15] MOV R10, 0x3 ;
             [B------:R-:W2:-:S{stall:02}] LDG.E R10, desc[UR4][R4.64] ;
             [B--2---:R-:W-:-:S15] MOV R9, R10 ;
             [B--2---:R-:W-:-:S15] NOP ;"
        )
    };
    assert_eq!(value(&body(1), Timing::Strict).0, 3);
    assert_eq!(value(&body(2), Timing::Strict).0, 100);
}

#[test]
fn a_source_overwritten_before_it_was_read_gives_the_new_value() {
    let body = |wait: &str| {
        format!(
            "[B------:R2:W-:-:S02] STS [R12], R2 ;
             [{wait}:R-:W-:-:S15] MOV R2, 0x55 ;
             [B--2---:R-:W3:-:S04] LDS R9, [R12] ;
             [B---3--:R-:W-:-:S15] NOP ;"
        )
    };
    let (new, hazards) = value(&body("B------"), Timing::Strict);
    assert_eq!(new, 0x55);
    assert!(
        hazards[0].contains("R2 is overwritten before"),
        "{hazards:?}"
    );
    for timing in TIMINGS {
        assert_eq!(value(&body("B--2---"), timing), (1, Vec::new()));
    }
}

#[test]
fn results_of_one_queue_arrive_in_order() {
    // Only the second load sets a barrier; a wait for it covers the first.
    let body = "[B------:R2:W-:-:S04] STS [R12], R2 ;
        [B--2---:R-:W-:-:S04] LDS R9, [R12] ;
        [B------:R-:W3:-:S04] LDS R10, [R12+0x4] ;
        [B---3--:R-:W-:-:S15] IADD3 R9, R9, 0x1, RZ ;";
    for timing in TIMINGS {
        assert_eq!(value(body, timing).0, 2, "{timing:?}");
    }
}

#[test]
fn an_operand_kept_for_reuse_is_not_read_again() {
    // The same position of the same register, after the register has changed.
    let body = |mark: &str, between: &str| {
        format!(
            "[B------:R-:W-:Y:S05] IADD3 R10, R2{mark}, 0x1, RZ ;
             [B------:R-:W-:-:S15] MOV R2, 0x50 ;
             {between}
             [B------:R-:W-:-:S15] IADD3 R9, R2, 0x3, RZ ;"
        )
    };
    assert_eq!(value(&body(".reuse", ""), Timing::Strict).0, 4);
    assert_eq!(value(&body("", ""), Timing::Strict).0, 0x53);
    assert_eq!(value(&body(".reuse", ""), Timing::Off).0, 0x53);
    // Another register of its bank in that position takes the place; control that goes elsewhere leaves nothing behind.
    let read = "[B------:R-:W-:-:S15] IADD3 R11, R12, 0x1, RZ ;";
    assert_eq!(value(&body(".reuse", read), Timing::Strict).0, 0x53);
    let jump = "[B------:R-:W-:-:S15] BRA `(.L_next) ;\n.L_skipped:\n[B------:R-:W-:-:S15] NOP ;\n.L_next:";
    assert_eq!(value(&body(".reuse", jump), Timing::Strict).0, 0x53);
}

#[test]
fn the_upper_half_of_a_double_may_be_an_immediate() {
    let body = "[B------:R-:W2:-:S04] MUFU.RSQ64H R9, 4 ;\n[B--2---:R-:W-:-:S15] NOP ;";
    for timing in TIMINGS {
        assert_eq!(value(body, timing).0, 0x3fe0_0000);
    }
}

/// Half of a warp waits at a convergence barrier for the other half, which spins until the first half has gone on.
fn lanes_that_wait_for_each_other(way: &str) -> String {
    format!(
        "[B01----:R1:W0:-:S15] S2R R10, SR_TID.X ;
         [B01----:R1:W-:-:S15] STS [R12], RZ ;
         [B01----:R-:W-:-:S15] ISETP.GE.U32.AND P0, PT, R10, 0x10, PT ;
         [B01----:R-:W-:-:S15] MOV R11, 0x1 ;
         [B01----:R-:W-:-:S15] BSSY B0, `(.L_join) ;
         [B01----:R-:W-:-:S15] @P0 BRA `(.L_join) ;
    .L_spin:
         [B01----:R-:W-:-:S15] {way} ;
         [B01----:R1:W0:-:S15] LDS R13, [R12] ;
         [B01----:R-:W-:-:S15] ISETP.EQ.U32.AND P1, PT, R13, RZ, PT ;
         [B01----:R-:W-:-:S15] @P1 BRA `(.L_spin) ;
    .L_join:
         [B01----:R-:W-:-:S15] BSYNC B0 ;
         [B01----:R1:W-:-:S15] STS [R12], R11 ;
         [B01----:R-:W-:-:S15] MOV R9, 0x2a ;"
    )
}

#[test]
fn lanes_that_yield_let_those_that_wait_for_them_pass() {
    let steps = |way: &str, timing: Timing| {
        let request = launch(1, 32, 0, &["buf:i32:4:fill:100"], timing);
        let found = emulate(&probe(&lanes_that_wait_for_each_other(way)), &request);
        assert_eq!(found.fault, None, "{way}");
        let bytes = found.buffers[0].as_ref().expect("a buffer");
        assert_eq!(bytes[0], 0x2a, "{way}");
        found.steps
    };
    for timing in TIMINGS {
        let (yielding, sleeping) = (steps("YIELD", timing), steps("NANOSLEEP 0x20", timing));
        assert!(yielding < 2_000, "{timing:?}: {yielding}");
        // Lanes that sleep again and again are waited for a while longer.
        assert!(sleeping > yielding, "{timing:?}: {sleeping}");
    }
}

#[test]
fn lanes_at_a_warpsync_do_not_hold_up_those_at_a_convergence_barrier() {
    // Half of the warp leaves the region without a `BREAK`.
    let body = "[B01----:R1:W0:-:S15] S2R R10, SR_TID.X ;
         [B01----:R-:W-:-:S15] ISETP.GE.U32.AND P0, PT, R10, 0x10, PT ;
         [B01----:R-:W-:-:S15] BSSY B0, `(.L_join) ;
         [B01----:R-:W-:-:S15] @P0 BRA `(.L_meet) ;
    .L_join:
         [B01----:R-:W-:-:S15] BSYNC B0 ;
    .L_meet:
         [B01----:R-:W-:-:S15] WARPSYNC.ALL ;
         [B01----:R-:W-:-:S15] MOV R9, 0x2b ;";
    for timing in TIMINGS {
        assert_eq!(value(body, timing).0, 0x2b);
    }
}

fn fault(body: &str, block: u32) -> String {
    let request = launch(1, block, 0, &["buf:i32:4:fill:100"], Timing::Off);
    emulate(&probe(body), &request)
        .fault
        .expect("the run stops")
}

#[test]
fn faults_name_address_thread_and_instruction() {
    let far = fault(
        "[B01----:R1:W-:-:S15] STG.E desc[UR4][R4.64+0x10], R9 ;",
        32,
    );
    assert!(far.contains("store of 4 bytes at global address"), "{far}");
    assert!(far.contains("beyond the 16 bytes"), "{far}");
    assert!(
        far.contains("probe+0x50 `STG.E desc[UR4][R4.64+0x10], R9"),
        "{far}"
    );
    assert!(far.contains("thread 0,0,0"), "{far}");
    let odd = fault("[B01----:R1:W0:-:S15] LDG.E R9, desc[UR4][R4.64+0x2] ;", 32);
    assert!(odd.contains("not a multiple of 4"), "{odd}");
    let shared = fault("[B01----:R1:W0:-:S15] LDS R9, [R12+0x200] ;", 32);
    assert!(shared.contains("the block has 1536 bytes"), "{shared}");
    let missing = fault("[B01----:R-:W-:-:S15] JMP 0x0 ;", 32);
    assert!(missing.contains("JMP has no semantics here"), "{missing}");
    let trap = fault("[B01----:R-:W-:-:S15] BPT.TRAP 0x1 ;", 32);
    assert!(trap.starts_with("trap"), "{trap}");
}

#[test]
fn what_never_ends_is_stopped_and_deadlocks_are_explained() {
    let endless = fault(".L_loop:\n[B01----:R-:W-:-:S15] BRA `(.L_loop) ;", 32);
    assert!(
        endless.contains("more than 10000000 thread-instructions"),
        "{endless}"
    );
    // The first warp waits for 64 threads at barrier 1, the second ends.
    let stuck = fault(
        "[B01----:R1:W0:-:S15] S2R R10, SR_TID.X ;
         [B01----:R-:W-:-:S15] ISETP.GE.U32.AND P0, PT, R10, 0x20, PT ;
         [B01----:R-:W-:-:S15] @P0 EXIT ;
         [B01----:R-:W-:-:S15] BAR.SYNC 0x1, 0x40 ;",
        64,
    );
    assert!(stuck.contains("deadlock"), "{stuck}");
    assert!(
        stuck.contains("waits at barrier 1, where 32 of 64 threads are"),
        "{stuck}"
    );
    let misuse = fault("[B01----:R-:W-:-:S15] BAR.SYNC 0x1, 0x21 ;", 32);
    assert!(
        misuse.contains("33 threads are not whole warps"),
        "{misuse}"
    );
}

#[test]
fn races_and_unwritten_values_are_found() {
    let body = "[B01----:R1:W0:-:S15] LDS R9, [R12] ;
        [B01----:R1:W-:-:S15] STS [R12], R2 ;
        [B01----:R-:W-:-:S15] IADD3 R9, R20, 0x1, RZ ;";
    let request = launch(1, 64, 0, &["buf:i32:4:fill:100"], Timing::Off);
    let findings = emulate(&probe(body), &request).findings.join("\n");
    assert!(findings.contains("R20 was never written"), "{findings}");
    assert!(
        findings.contains("shared memory at 0x400 was never written"),
        "{findings}"
    );
    assert!(findings.contains("is also accessed by warp"), "{findings}");
    let ordered = "[B01----:R1:W-:-:S15] STS [R12], R2 ;
        [B01----:R-:W-:-:S15] BAR.SYNC 0x0 ;
        [B01----:R1:W0:-:S15] LDS R9, [R12] ;";
    let request = launch(1, 32, 0, &["buf:i32:4:fill:100"], Timing::Off);
    assert_eq!(
        emulate(&probe(ordered), &request).findings,
        Vec::<String>::new()
    );
}

#[test]
fn launches_that_cannot_be_are_refused() {
    let image = assembled(&probe(""));
    let refuse = |code: Code<'_>, launch: &Launch| {
        run(code, launch, Engine::Emulator, &mut |_, _| {}).expect_err("refused")
    };
    let none = launch(1, 32, 0, &[], Timing::Off);
    assert!(refuse(Code::Cubin(&image), &none).contains("has 1 parameters, not 0"));
    let small = launch(1, 32, 0, &["i32:1"], Timing::Off);
    assert!(refuse(Code::Cubin(&image), &small).contains("has 8 bytes, not 4"));
    let many = launch(1, 1025, 0, &["buf:i32:4:fill:1"], Timing::Off);
    assert!(refuse(Code::Cubin(&image), &many).contains("at most 1024"));
    let wide = launch(1, 32, 1 << 20, &["buf:i32:4:fill:1"], Timing::Off);
    assert!(refuse(Code::Cubin(&image), &wide).contains("bytes of shared memory"));
    let good = launch(1, 32, 0, &["buf:i32:4:fill:1"], Timing::Off);
    for end in [8, 64, 200, image.len() / 2, image.len() - 1] {
        // Whatever is left of a file, there is an answer and no crash.
        let _ = run(
            Code::Cubin(&image[..end]),
            &good,
            Engine::Emulator,
            &mut |_, _| {},
        );
    }
}

#[test]
fn damaged_cubins_and_damaged_code_get_an_answer() {
    // Bytes changed anywhere: in headers, in attributes, in the code. Whatever it becomes, it is refused, stops or ends.
    let kernels: Vec<(Vec<u8>, Launch)> = KERNELS
        .iter()
        .filter(|kernel| ["axpy", "local_array", "rotate_dynamic"].contains(&kernel.name))
        .map(|kernel| {
            let mut launch = kernel.launch();
            launch.step_limit = Some(200_000);
            (assembled(&kernel.source("sass")), launch)
        })
        .collect();
    let mut numbers = orias_random::Rng::new(0);
    let mut random = |limit: usize| numbers.below(limit);
    let (mut refused, mut stopped, mut ended) = (0, 0, 0);
    for round in 0..300 {
        let (image, request) = &kernels[round % kernels.len()];
        let mut image = image.clone();
        for _ in 0..=random(4) {
            let at = random(image.len());
            image[at] ^= 1 << random(8);
        }
        let mut request = request.clone();
        request.emulation.timing = TIMINGS[random(TIMINGS.len())];
        match run(
            Code::Cubin(&image),
            &request,
            Engine::Emulator,
            &mut |_, _| {},
        ) {
            Err(_) => refused += 1,
            Ok(Finished { fault: Some(_), .. }) => stopped += 1,
            Ok(_) => ended += 1,
        }
    }
    assert!(
        refused > 10 && stopped > 10 && ended > 10,
        "{refused} refused, {stopped} stopped, {ended} ended"
    );
}

#[test]
fn cycles_count_stalls_and_waits() {
    let body = "[B------:R-:W2:-:S02] LDG.E R9, desc[UR4][R4.64] ;
        [B--2---:R-:W-:-:S05] IADD3 R9, R9, 0x1, RZ ;";
    let request = launch(1, 32, 0, &["buf:i32:4:fill:100"], Timing::Strict);
    let table = emulate(&probe(body), &request).cycles.expect("a table");
    let line = table
        .lines()
        .find(|line| line.contains("IADD3"))
        .expect("the addition");
    let numbers: Vec<u64> = line
        .split_whitespace()
        .take(4)
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(numbers[..2], [1, 32], "{line}");
    assert!(numbers[3] > 100, "the load takes its time: {line}");
}
