use super::super::{Options, complaints, program};

/// What must occur among the first programs: a name, and words of which the text of one has all.
const CONSTRUCTS: &[(&str, &[&str])] = &[
    (
        "several kernels",
        &[".visible .entry program(", ".visible .entry program1("],
    ),
    ("three kernels", &[".visible .entry program2("]),
    (
        "constants by an address in constant memory",
        &[".const .u64 near", ", near;", "ld.const.u64"],
    ),
    (
        "constants by a generic address",
        &["generic(numbers)", ", generics;"],
    ),
    (
        "constants by an address in global memory",
        &["generic(far_numbers)", ", far;"],
    ),
    ("vectors of constants", &["ld.const.v4.b32"]),
    (
        "retry loops in shared memory",
        &[".shared.cas.b32", "setp.ne.b32"],
    ),
    (
        "retry loops in global memory",
        &[".global.cas.b64", "setp.ne.b64"],
    ),
    ("locks of a CTA", &["atom.acquire.cta.shared.cas.b32"]),
    (
        "locks of the device",
        &["atom.acquire.gpu.global.cas.b32", "guarded"],
    ),
    (
        "locks with fences",
        &["atom.relaxed.gpu.global.cas.b32", "fence.acq_rel.gpu"],
    ),
    ("locks that are tried", &["mov.pred"]),
    ("releases by a store", &["st.release.gpu.global.u32"]),
    (
        "releases by an exchange",
        &["atom.release.cta.shared.exch.b32"],
    ),
    ("turns of lanes", &["ld.acquire.cta.shared.u32", ", turns;"]),
    ("turns of a CTA", &["// turns of a CTA"]),
    ("barriers in both arms", &["barrier.sync 0;"]),
    ("barriers with a count", &["bar.sync 0, 64;"]),
    ("threads that end early", &["red.shared.and.b32", "ret;"]),
    ("threads that exit early", &["red.shared.and.b32", "exit;"]),
    ("masks of those who are left", &["alive;", "ld.shared.b32"]),
    ("vectors as parameters", &[".reg .v2 .f32 %in"]),
    ("vectors as results", &["(.reg .v4 .b32 %result)"]),
    ("double vectors", &[".reg .v2 .f64 %"]),
    ("structures as parameters", &[".param .align 16 .b8 in"]),
    (
        "structures as results",
        &["(.param .align 8 .b8 result[8])"],
    ),
    ("arrays as parameters", &[".param .align 16 .b64 in"]),
    ("tables of targets", &["brx.idx"]),
];

fn texts() -> Vec<String> {
    (0..300)
        .map(|seed| program(seed, &Options::rich()))
        .collect()
}

#[test]
fn rich_programs_are_legal_and_the_same_for_the_same_seed() {
    for (seed, text) in texts().into_iter().enumerate() {
        assert_eq!(text, program(seed as u64, &Options::rich()));
        let found = complaints(&text);
        assert!(
            !found.has_errors(),
            "seed {seed}:\n{}",
            found.to_excerpts("program", text.as_bytes())
        );
    }
}

#[test]
fn every_construct_occurs() {
    let texts = texts();
    for (name, words) in CONSTRUCTS {
        let count = texts
            .iter()
            .filter(|text| words.iter().all(|word| text.contains(word)))
            .count();
        assert!(count >= 3, "{name}: {count}");
    }
    let without = texts.iter().filter(|text| !text.contains(".entry")).count();
    assert!(
        (10..60).contains(&without),
        "modules without kernels: {without}"
    );
}
