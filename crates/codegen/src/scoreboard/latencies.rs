//! Latencies of fixed results as the walk asks for them.

use orias_machine::timing::{ResultGroup, UseGroup};
use orias_machine::{Machine, PerMachine};
use std::sync::OnceLock;

/// No fixed latency is longer.
pub(super) const FORGET_AFTER: i32 = 64;

/// Cycles from a result to a use.
pub(super) fn cycles(machine: &Machine, result: ResultGroup, used: UseGroup) -> i32 {
    i32::from(machine.latency(result, used).cycles)
}

/// Cycles after which a write of variable latency may issue to the same register. It comes later than any fixed one in any case;
/// ptxas nevertheless waits until the first result could be read, for long latencies only a little less, and where little is known as long as
/// the table says.
pub(super) fn overwritten_late(machine: &Machine, result: ResultGroup) -> i32 {
    settling(machine, result).overwritten_late
}

fn late(machine: &Machine, result: ResultGroup, settles: i32) -> i32 {
    const LONG: i32 = 16;
    const LESS: i32 = 8;
    match (machine.overwritten_late(result), settles) {
        (Some(cycles), _) => i32::from(cycles),
        (None, cycles) if cycles > LONG => cycles - LESS,
        (None, cycles) => cycles,
    }
}

/// What is asked of a result group again and again.
#[derive(Clone, Copy, Debug)]
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
pub(super) fn settles(machine: &Machine, result: ResultGroup) -> i32 {
    settling(machine, result).settles
}

/// Cycles after which nobody needs to know any more when it was written.
pub(super) fn longest(machine: &Machine, result: ResultGroup) -> i32 {
    settling(machine, result).longest
}

type Settlings = [OnceLock<Settling>; 256];

/// Worked out when a group is first met: few are.
#[inline]
fn settling(machine: &Machine, result: ResultGroup) -> &'static Settling {
    static SETTLING: PerMachine<Settlings> = PerMachine::new(
        [const { [const { OnceLock::new() }; 256] }; PerMachine::<Settlings>::COUNT],
    );
    SETTLING.of(machine)[result.index() & 0xff].get_or_init(|| work_out(machine, result))
}

fn work_out(machine: &Machine, result: ResultGroup) -> Settling {
    let uses = || (machine.use_groups()).filter(|used| used.class() == result.class());
    let ordinary = uses().filter(|used| machine.is_ordinary(result, *used));
    let settles = ordinary.map(|used| cycles(machine, result, used));
    let settles = settles.max().unwrap_or(1);
    let read = uses().map(|used| cycles(machine, result, used)).max();
    let later = (machine.result_groups()).filter(|later| later.class() == result.class());
    let overwritten = later.map(|later| i32::from(machine.overwrite(result, later)));
    let overwritten_late = late(machine, result, settles);
    let longest = read.into_iter().chain(overwritten.max());
    let longest = longest.chain([settles, overwritten_late]);
    Settling {
        settles,
        overwritten_late,
        longest: longest.max().unwrap_or(FORGET_AFTER),
    }
}
