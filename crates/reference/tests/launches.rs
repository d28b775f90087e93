//! Threads that depend on one another, and values that nobody wrote.

use orias_reference::{FaultKind, Launch, Outcome, Program};

/// Runs a kernel of one parameter, a buffer of zeros: what it leaves there and how many steps that took, or why it stopped.
fn run(
    text: &str,
    grid: u32,
    block: u32,
    check_uninitialised: bool,
) -> Result<(Vec<u8>, u64), FaultKind> {
    let (module, found) = orias_ptx::parse(text.as_bytes());
    assert!(
        !found.has_errors(),
        "{}",
        found.to_lines("test", text.as_bytes())
    );
    let mut program = Program::load(&module).expect("a program");
    let buffer = program.memory_mut().allocate(vec![0; 4096]);
    let launch = Launch {
        check_uninitialised,
        step_limit: Some(50_000_000),
        ..Launch::new("k", [grid, 1, 1], [block, 1, 1]).argument(buffer.to_le_bytes())
    };
    let outcome: Outcome = program.launch(&launch).map_err(|fault| fault.kind)?;
    let bytes = program.memory().read(buffer, 4096).expect("the buffer");
    Ok((bytes.to_vec(), outcome.steps))
}

#[test]
fn a_thread_may_arrive_at_two_barriers_in_one_turn() {
    let (bytes, _) = run(
        ".version 8.0 .target sm_90 .address_size 64
         .visible .entry k(.param .u64 out) {
             .reg .b32 %t, %v; .reg .b64 %o; .reg .pred %p;
             ld.param.u64 %o, [out];
             mov.u32 %t, %tid.x;
             setp.lt.u32 %p, %t, 32;
             @%p bra PRODUCER;
             bar.sync 1, 64;
             bar.sync 2, 64;
             mov.u32 %v, 7;
             st.global.u32 [%o], %v;
             ret;
         PRODUCER:
             bar.arrive 1, 64;
             bar.arrive 2, 64;
             ret;
         }",
        1,
        64,
        true,
    )
    .expect("no deadlock");
    assert_eq!(bytes[0], 7);
}

#[test]
fn ctas_that_spin_for_a_later_one_do_not_take_long() {
    // Each of 64 CTAs counts itself, and waits until all have.
    let (bytes, steps) = run(
        ".version 8.0 .target sm_90 .address_size 64
         .visible .entry k(.param .u64 out) {
             .reg .b32 %c, %n; .reg .b64 %o; .reg .pred %p;
             ld.param.u64 %o, [out];
             atom.global.add.u32 %c, [%o], 1;
         SPIN:
             ld.volatile.global.u32 %n, [%o];
             setp.lt.u32 %p, %n, 64;
             @%p bra SPIN;
             red.global.add.u32 [%o+4], 1;
             ret;
         }",
        64,
        1,
        true,
    )
    .expect("an end");
    assert_eq!((bytes[0], bytes[4]), (64, 64));
    assert!(steps < 5_000_000, "{steps}");
}

#[test]
fn what_a_function_never_wrote_is_unwritten_for_its_caller() {
    let program = |body: &str| {
        format!(
            ".version 8.0 .target sm_90 .address_size 64
             .func (.param .b32 r) f(.param .b32 a) {{
                 .reg .b32 %x;
                 {body}
                 ret;
             }}
             .visible .entry k(.param .u64 out) {{
                 .reg .b32 %v; .reg .b64 %o;
                 ld.param.u64 %o, [out];
                 {{
                     .param .b32 a; .param .b32 r;
                     st.param.b32 [a], 5;
                     call (r), f, (a);
                     ld.param.b32 %v, [r];
                 }}
                 st.global.u32 [%o], %v;
                 ret;
             }}"
        )
    };
    let (bytes, _) = run(
        &program("ld.param.b32 %x, [a]; st.param.b32 [r], %x;"),
        1,
        1,
        true,
    )
    .expect("everything was written");
    assert_eq!(bytes[0], 5);
    let fault = run(&program(""), 1, 1, true).expect_err("the result was never written");
    assert!(fault.to_string().contains("written"), "{fault}");
    assert!(run(&program(""), 1, 1, false).is_ok(), "unless nobody asks");
}
