//! Latencies of fixed results as the walk asks for them.

use orias_machine::timing::{self, ResultGroup, Table, UseGroup};
use std::sync::LazyLock;

/// No fixed latency is longer.
pub(super) const FORGET_AFTER: i32 = 64;

/// Cycles from a result to a use.
pub(super) fn cycles(result: ResultGroup, used: UseGroup) -> i32 {
    i32::from(timing::latency(Table::Safe, result, used).cycles)
}

/// Cycles after which a write of variable latency may issue to the same register. It comes later than any fixed one in any case;
/// ptxas nevertheless waits until the first result could be read, for long latencies only a little less, and for CS2R, of which little
/// is known, six cycles.
pub(super) fn overwritten_late(result: ResultGroup) -> i32 {
    const LONG: i32 = 16;
    const LESS: i32 = 8;
    const COUNTER: i32 = 6;
    match settles(result) {
        _ if result.name() == "counter" => COUNTER,
        cycles if cycles > LONG => cycles - LESS,
        cycles => cycles,
    }
}

/// Cycles after which a result can be read by whatever code comes: the longest latency to ordinary uses. Guards are not among them:
/// no predicate is passed to a function or back.
pub(super) fn settles(result: ResultGroup) -> i32 {
    /// The uses that code on the other side of a call may begin with.
    const ORDINARY: &[&str] = &[
        "fma",
        "alu",
        "half",
        "fp64",
        "special",
        "early",
        "memory",
        "operand",
        "carry",
        "uniform",
        "vector",
        "move",
        "late",
        "convergence",
    ];
    static SETTLES: LazyLock<Vec<(ResultGroup, i32)>> = LazyLock::new(|| {
        ResultGroup::all()
            .map(|result| {
                let uses = UseGroup::all().filter(|used| {
                    used.class() == result.class()
                        && ORDINARY.contains(&used.name())
                        && !(used.name() == "late" && result.name() == "predicate")
                });
                let longest = uses.map(|used| cycles(result, used)).max().unwrap_or(1);
                (result, longest)
            })
            .collect()
    });
    SETTLES
        .iter()
        .find(|(known, _)| *known == result)
        .map_or(FORGET_AFTER, |(_, cycles)| *cycles)
}
