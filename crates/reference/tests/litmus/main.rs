//! The interpreter with weak memory against the axioms of the PTX memory model: what litmus tests may leave is the same set.
//!
//! `ORIAS_LITMUS=TEXT` compares those tests only whose name contains the text.

mod axioms;
mod shapes;

use axioms::{AXIOMS, Axiom, Result};
use orias_reference::{Exploring, Launch, Program};
use shapes::{Litmus, PLACES, REGISTERS};
use std::collections::BTreeSet;

/// What the interpreter leaves.
fn explored(test: &Litmus) -> BTreeSet<Result> {
    let text = test.ptx();
    let (module, found) = orias_ptx::parse(text.as_bytes());
    assert!(
        !found.has_errors(),
        "{}\n{text}",
        found.to_lines("litmus", text.as_bytes())
    );
    let mut program = Program::load(&module).expect("a program");
    let memory = program.memory_mut();
    let places = memory.allocate(vec![0; 4 * PLACES]);
    let results = memory.allocate(vec![0; 4 * REGISTERS]);
    let launch = Launch::new("k", [test.grid(), 1, 1], [test.block, 1, 1])
        .argument(places.to_le_bytes())
        .argument(results.to_le_bytes());
    let mut all = BTreeSet::new();
    let explored = program.explore(&launch, Exploring::default(), &mut |memory| {
        let words = |address: u64, count: usize| -> Vec<u32> {
            let bytes = memory.read(address, 4 * count).expect("memory");
            let word = |it: &[u8]| u32::from_le_bytes([it[0], it[1], it[2], it[3]]);
            bytes.chunks(4).map(word).collect()
        };
        let registers = words(results, REGISTERS).try_into().expect("registers");
        let places = words(places, PLACES).try_into().expect("places");
        all.insert((registers, places));
    });
    let explored = explored.unwrap_or_else(|fault| panic!("{}: {fault}\n{text}", test.name));
    assert!(explored.complete && explored.cut == 0, "{}", test.name);
    all
}

#[test]
fn outcomes_are_those_that_the_axioms_allow() {
    let wanted = std::env::var("ORIAS_LITMUS").unwrap_or_default();
    let mut compared = 0;
    let mut wrong = Vec::new();
    let tests = shapes::tests().into_iter();
    for test in tests.filter(|test| test.name.contains(&wanted)) {
        compared += 1;
        let (ours, allowed) = (explored(&test), axioms::results(&test, None));
        if ours != allowed {
            let missing: Vec<&Result> = allowed.difference(&ours).collect();
            let forbidden: Vec<&Result> = ours.difference(&allowed).collect();
            wrong.push(format!(
                "{}: not seen {missing:?}, not allowed {forbidden:?}",
                test.name
            ));
        }
    }
    println!("{compared} tests compared");
    assert!(
        wrong.is_empty(),
        "{} of {compared} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 0, "no test is named like that");
}

/// Whether a test may end with these values of its first registers.
fn may_end(name: &str, registers: &[u32]) -> bool {
    let test = shapes::tests().into_iter().find(|test| test.name == name);
    let test = test.unwrap_or_else(|| panic!("no test is named {name}"));
    let (ours, allowed) = (explored(&test), axioms::results(&test, None));
    let seen = |all: &BTreeSet<Result>| all.iter().any(|it| it.0.starts_with(registers));
    assert_eq!(seen(&ours), seen(&allowed), "{name}");
    seen(&ours)
}

#[test]
fn well_known_tests_have_their_verdicts() {
    for (name, registers, allowed) in [
        ("MP.weak.weak.gpu.apart", &[1, 0][..], true),
        ("MP.relaxed.relaxed.gpu.apart", &[1, 0], true),
        ("MP.access.access.gpu.apart", &[1, 0], false),
        ("MP.acq_rel.acq_rel.gpu.apart", &[1, 0], false),
        ("MP.acq_rel.access.gpu.apart", &[1, 0], false),
        ("MP.access.relaxed.gpu.apart", &[1, 0], true),
        // A scope that leaves the other thread out orders nothing.
        ("MP.access.access.cta.apart", &[1, 0], true),
        ("MP.access.access.cta.one", &[1, 0], false),
        ("MP.access.access.cluster.cluster", &[1, 0], false),
        ("MP.access.access.cluster.apart", &[1, 0], true),
        ("SB.acq_rel.acq_rel.gpu.apart", &[0, 0], true),
        ("SB.sc.sc.gpu.apart", &[0, 0], false),
        ("SB.sc.acq_rel.gpu.apart", &[0, 0], true),
        ("LB.relaxed.relaxed.gpu.apart", &[1, 1], true),
        ("LB.access.access.gpu.apart", &[1, 1], false),
        ("LB+data+po.gpu.apart", &[1, 1], true),
        ("LB+false+false.gpu.apart", &[1, 1], false),
        ("LB+ctrl+ctrl.gpu.apart", &[1, 1], false),
        ("CoRR.relaxed.relaxed.gpu.apart", &[1, 0], false),
        ("CoRR.weak.weak.gpu.apart", &[1, 0], true),
        ("IRIW.access.access.gpu.apart", &[1, 0, 1, 0], true),
        ("IRIW.sc.sc.gpu.apart", &[1, 0, 1, 0], false),
        ("WRC.access.access.gpu.apart", &[1, 1, 0], false),
        ("ISA2.access.access.gpu.apart", &[1, 1, 0], false),
        ("inc+inc.gpu.apart", &[0, 0], false),
        ("inc+inc.cta.apart", &[0, 0], true),
        ("MP+through.gpu.apart", &[1, 2, 0], false),
        ("MP+bar.cta.one", &[0], false),
        ("MP+bar.cta.apart", &[0], true),
    ] {
        assert_eq!(may_end(name, registers), allowed, "{name} {registers:?}");
    }
}

#[test]
fn every_axiom_forbids_something_that_no_other_does() {
    let tests = shapes::tests();
    let grows = |test: &Litmus, axiom: Axiom| {
        axioms::results(test, Some(axiom)) != axioms::results(test, None)
    };
    // Two take no outcome away that another would not. Fence-SC: an order of fences that contradicts causality only adds to what is forbidden, and
    // there is another one that does not. Per location: causality has observation followed by program order in it, so that Coherence and Causality
    // forbid such cycles.
    let without: Vec<Axiom> = AXIOMS
        .into_iter()
        .filter(|&axiom| !tests.iter().any(|test| grows(test, axiom)))
        .collect();
    assert_eq!(without, [Axiom::FenceSc, Axiom::PerLocation]);
}
