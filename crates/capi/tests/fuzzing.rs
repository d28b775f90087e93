//! Arbitrary input through the C API; `fuzz/fuzz_targets/c_api.rs` does the same for longer.
#![allow(
    unsafe_code,
    reason = "the functions are called as C calls them, with raw pointers"
)]

mod hostile;

use orias_random::Rng;

const SEEDS: &[&str] = &[
    include_str!("../../../examples/vector_add.ptx"),
    include_str!("../../../tests/ptx/lower/calls.ptx"),
    include_str!("../../../tests/ptx/lower/memory.ptx"),
];

const OPTIONS: &[&str] = &[
    "-arch=sm_90a",
    "-v",
    "-O0",
    "-O1",
    "--split-compile=0",
    "-maxrregcount=16",
    "-arch=compute_90",
    "-Werror",
    "-w",
    "-lineinfo",
    "\u{fffd}",
    "--",
    "-o=x",
    "-arch",
];

/// Good input, with some of it changed, left out or doubled.
fn input(random: &mut Rng) -> Vec<u8> {
    let mut below = |bound: usize| random.below(bound);
    let mut input = vec![below(256) as u8];
    input.extend(b"-arch=sm_90a");
    for _ in 0..below(3) {
        input.push(b'\n');
        input.extend(OPTIONS[below(OPTIONS.len())].as_bytes());
    }
    input.extend(b"\n\n");
    let start = input.len();
    input.extend(SEEDS[below(SEEDS.len())].as_bytes());
    for _ in 0..below(4) {
        let at = start + below(input.len() - start - 1);
        let length = below(12).min(input.len() - at);
        match below(3) {
            0 => input[at] = below(256) as u8,
            1 => drop(input.drain(at..at + length)),
            _ => input.extend_from_within(at..at + length),
        }
    }
    input
}

/// How many inputs are tried: more when `ORIAS_FUZZ_INPUTS` says so.
fn count() -> u32 {
    let wanted = std::env::var("ORIAS_FUZZ_INPUTS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(400)
}

#[test]
fn any_input_gives_a_cubin_or_a_reason() {
    let mut random = Rng::new(23);
    let (mut compiled, count) = (0, count());
    for _ in 0..count {
        let input = input(&mut random);
        let told = std::panic::catch_unwind(|| hostile::check(&input));
        match told {
            Ok(it) => compiled += u32::from(it),
            Err(_) => panic!("{}", String::from_utf8_lossy(&input)),
        }
    }
    let some = count / 20..count - count / 20;
    assert!(some.contains(&compiled), "{compiled} of {count} compiled");
    hostile::check(b"");
    hostile::check(b"\x0f\n\n\n");
}
