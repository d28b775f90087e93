//! Every reader keeps its promise on a fixed number of broken inputs. cargo-fuzz runs the same checks for longer.

use orias_filetests::fuzzing::{Mutator, targets};
use std::path::Path;

/// Enough to meet the usual mistakes, few enough to cost seconds in all.
const INPUTS: usize = 20_000;

/// How many inputs each reader gets: more when `ORIAS_FUZZ_INPUTS` says so.
fn inputs() -> usize {
    let wanted = std::env::var("ORIAS_FUZZ_INPUTS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(INPUTS)
}

#[test]
fn no_reader_breaks_its_promise_on_broken_input() {
    for (stream, target) in targets().enumerate() {
        let seeds = (target.seeds)();
        for seed in &seeds {
            (target.check)(seed);
        }
        let mut mutator = Mutator::new(&seeds, target.words, stream as u64);
        for number in 0..inputs() {
            let input = mutator.next_input();
            let outcome = std::panic::catch_unwind(|| (target.check)(&input));
            assert!(
                outcome.is_ok(),
                "{}: input {number} is {:?}",
                target.name,
                String::from_utf8_lossy(&input)
            );
        }
    }
}

#[test]
fn every_reader_has_a_program_for_cargo_fuzz() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).expect("fuzz/ exists");
    for target in targets() {
        let path = format!("fuzz_targets/{}.rs", target.name);
        assert!(fuzz.join(&path).exists(), "fuzz/{path} is missing");
        assert!(
            manifest.contains(&path),
            "fuzz/Cargo.toml does not name {path}"
        );
    }
}
