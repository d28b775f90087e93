//! Latencies of fixed results as the walk asks for them.

use orias_machine::timing::{self, ResultGroup, Table, UseGroup};
use std::sync::OnceLock;

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
    settling(result).overwritten_late
}

fn late(result: ResultGroup, settles: i32) -> i32 {
    const LONG: i32 = 16;
    const LESS: i32 = 8;
    const COUNTER: i32 = 6;
    match settles {
        _ if result.name() == "counter" => COUNTER,
        cycles if cycles > LONG => cycles - LESS,
        cycles => cycles,
    }
}

/// What is asked of a result group again and again.
#[derive(Clone, Copy)]
struct Settling {
    /// Cycles after which a result can be read by whatever code comes.
    settles: i32,
    /// Cycles after which a write of variable latency may issue to the same register.
    overwritten_late: i32,
    /// Cycles after which no instruction needs to wait for it, whatever it does with the register.
    longest: i32,
}

/// Cycles after which a result can be read by whatever code comes: the longest latency to ordinary uses. Guards are not among them:
/// no predicate is passed to a function or back.
pub(super) fn settles(result: ResultGroup) -> i32 {
    settling(result).settles
}

/// Cycles after which nobody needs to know any more when it was written.
pub(super) fn longest(result: ResultGroup) -> i32 {
    settling(result).longest
}

/// Worked out when a group is first met: few are.
#[inline]
fn settling(result: ResultGroup) -> &'static Settling {
    static SETTLING: [OnceLock<Settling>; 256] = [const { OnceLock::new() }; 256];
    SETTLING[result.index() & 0xff].get_or_init(|| work_out(result))
}

fn work_out(result: ResultGroup) -> Settling {
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
    let uses = || UseGroup::all().filter(|used| used.class() == result.class());
    let ordinary = uses().filter(|used| {
        ORDINARY.contains(&used.name()) && !(used.name() == "late" && result.name() == "predicate")
    });
    let settles = ordinary.map(|used| cycles(result, used)).max().unwrap_or(1);
    let read = uses().map(|used| cycles(result, used)).max();
    let later = ResultGroup::all().filter(|later| later.class() == result.class());
    let overwritten = later.map(|later| i32::from(timing::overwrite(Table::Safe, result, later)));
    let overwritten_late = late(result, settles);
    let longest = read.into_iter().chain(overwritten.max());
    let longest = longest.chain([settles, overwritten_late]);
    Settling {
        settles,
        overwritten_late,
        longest: longest.max().unwrap_or(FORGET_AFTER),
    }
}
