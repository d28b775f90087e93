//! How the results of an operation depend on the lane.
//!
//! Most operations compute the same in every lane that gives them the same operands. The rows of [`EXCEPTIONS`] say which do not,
//! and which give all lanes one answer whatever some operands are. An operation that touches memory, varies by itself or
//! works across lanes must have a row; a test sees to it.

use crate::operation::{Match, Order, Shuffle, Space, Special};
use crate::{AbstractOp, Function, Inst, Opcode, Operand};
use orias_sass as sass;
use orias_sass::special as register;

/// How one result depends on the lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// The same in all lanes in which the sources of this set are the same; bit *i* is source *i*.
    Sources(u32),
    /// Another in each lane, whatever the sources are.
    Lanes,
}

impl Spread {
    /// The same in all lanes in which all sources are the same.
    pub const ALL_SOURCES: Spread = Spread::Sources(u32::MAX);
}

/// What a row says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    /// Each result spreads like this.
    Always(Spread),
    /// A special register: some are the same for the whole warp.
    SpecialRegister,
    /// A load: what lanes share depends on the space and on the order.
    Load,
    /// Lanes with the same value: the same for all lanes only if all lanes must agree.
    Match,
    /// The elected lane, and whether it is this one.
    Elect,
    /// Another lane's value: the same for all lanes if all of them name the same lane of all.
    Shuffle,
}

const LANES: Rule = Rule::Always(Spread::Lanes);
const ALL: Rule = Rule::Always(Spread::ALL_SOURCES);

/// The operations that do not simply follow their sources, or that need it said that they do.
const EXCEPTIONS: &[(AbstractOp, Rule)] = &[
    (AbstractOp::Sreg, Rule::SpecialRegister),
    (AbstractOp::Sreg64, Rule::SpecialRegister),
    (AbstractOp::Name, ALL),
    // The stack is each lane's own.
    (AbstractOp::Alloca, LANES),
    (AbstractOp::StackSave, LANES),
    (AbstractOp::Ld, Rule::Load),
    // By its definition the same in all lanes, for one address.
    (AbstractOp::Ldu, ALL),
    // Lanes take turns.
    (AbstractOp::Atom, LANES),
    (AbstractOp::MultimemLd, LANES),
    (AbstractOp::MultimemLdWide, LANES),
    (AbstractOp::MbarrierArrive, LANES),
    // One look for all lanes that come, if they look at the same phase of the same barrier.
    (AbstractOp::MbarrierWait, ALL),
    // One answer for all threads of the barrier; sources are number, count, predicate.
    (AbstractOp::BarRed, Rule::Always(Spread::Sources(0b011))),
    (AbstractOp::BarRedPopc, Rule::Always(Spread::Sources(0b011))),
    (AbstractOp::Shfl, Rule::Shuffle),
    // One answer for all lanes of the mask, which is the second source.
    (AbstractOp::VotePred, Rule::Always(Spread::Sources(0b10))),
    (AbstractOp::Ballot, Rule::Always(Spread::Sources(0b10))),
    (AbstractOp::Redux, Rule::Always(Spread::Sources(0b10))),
    (AbstractOp::MatchLanes, Rule::Match),
    // Which lanes run together is nobody's promise.
    (AbstractOp::ActiveMask, LANES),
    (AbstractOp::Elect, Rule::Elect),
    (AbstractOp::ElectTurn, LANES),
    // A warp gets registers or does not.
    (AbstractOp::RegistersTake, Rule::Always(Spread::Sources(0))),
    // The same for all that run together, who stay together.
    (AbstractOp::AnyRunning, Rule::Always(Spread::Sources(0))),
    (AbstractOp::TurnWord, Rule::Always(Spread::Sources(0))),
    // Each lane holds its own piece of a matrix.
    (AbstractOp::Ldmatrix, LANES),
    (AbstractOp::Movmatrix, LANES),
    (AbstractOp::Mma, LANES),
    (AbstractOp::MmaSparse, LANES),
    (AbstractOp::Wgmma, LANES),
    (AbstractOp::WgmmaSparse, LANES),
    (AbstractOp::Tex, LANES),
    (AbstractOp::Tld4, LANES),
    (AbstractOp::Txq, LANES),
    (AbstractOp::Suld, LANES),
    (AbstractOp::Call, LANES),
];

/// The rule of each operation, by its number.
static RULES: [Rule; AbstractOp::ALL.len()] = {
    let mut rules = [ALL; AbstractOp::ALL.len()];
    let mut row = 0;
    while row < EXCEPTIONS.len() {
        rules[EXCEPTIONS[row].0 as usize] = EXCEPTIONS[row].1;
        row += 1;
    }
    rules
};

/// Special registers that hold the same for every lane of a warp.
///
/// Clocks and performance counters are not among them: lanes that do not run together read them at different times.
const WARP_WIDE: &[Special] = &[
    Special::NtidX,
    Special::NtidY,
    Special::NtidZ,
    Special::CtaidX,
    Special::CtaidY,
    Special::CtaidZ,
    Special::NctaidX,
    Special::NctaidY,
    Special::NctaidZ,
    Special::WarpId,
    Special::NwarpId,
    Special::SmId,
    Special::NsmId,
    Special::GridId,
    Special::ClusterScaleX,
    Special::ClusterScaleY,
    Special::ClusterScaleZ,
    Special::NclusterIdX,
    Special::NclusterIdY,
    Special::NclusterIdZ,
    Special::ClusterNctaidX,
    Special::ClusterNctaidY,
    Special::ClusterNctaidZ,
    Special::ClusterCtarank,
    Special::ClusterNctarank,
    Special::IsExplicitCluster,
    Special::DynamicSmemSize,
    Special::TotalSmemSize,
    Special::AggrSmemSize,
    Special::ReservedSmemBegin,
    Special::ReservedSmemEnd,
    Special::ReservedSmemCap,
    Special::ReservedSmemOffset1,
    Special::CurrentGraphExec,
];

/// Special registers of the machine that hold the same for every lane of a warp.
const MACHINE_WARP_WIDE: &[u8] = &[
    register::VIRTCFG,
    register::VIRTID,
    register::CTAID_X,
    register::CTAID_Y,
    register::CTAID_Z,
    register::NTID,
    register::SMEMSZ,
    register::SWINHI,
    register::SWINLO,
    register::SWINSZ,
    register::LWINHI,
    register::LWINLO,
    register::LWINSZ,
    register::WARPGROUPID,
    register::CGA_CTA_ID,
    register::GPC_LOCAL_CGA_ID,
    register::ZERO,
];

/// How result `index` of `inst` depends on the lane, `index` being that of the operand. Sources are numbered after the
/// results, as the row lists them; of machine operations, whose operands are numbered as they stand, only shuffles tell sources apart.
pub fn spread(function: &Function, inst: Inst, index: usize) -> Spread {
    let op = match function.opcode(inst) {
        Opcode::Abstract(op) => op,
        Opcode::Machine(op) => return machine(function, inst, op),
    };
    match RULES[op as usize] {
        Rule::Always(spread) => spread,
        Rule::SpecialRegister => match function.modifier(inst) {
            Some(Special::TidY) => same_in_warp(rows_fill_warps(function)),
            Some(Special::TidZ) => same_in_warp(planes_fill_warps(function)),
            Some(other) => same_in_warp(WARP_WIDE.contains(&other)),
            None => Spread::Lanes,
        },
        Rule::Load => load(function.modifier(inst), function.modifier(inst)),
        Rule::Match => match function.modifier(inst) {
            Some(Match::All) => Spread::Sources(0b10),
            Some(Match::Any) | None => Spread::Lanes,
        },
        Rule::Elect => match index {
            0 => Spread::Sources(0b1),
            _ => Spread::Lanes,
        },
        Rule::Shuffle => {
            let clamp = function.operands(inst)[function.result_count(inst)..].get(2);
            let named = function.modifier(inst) == Some(Shuffle::Idx);
            match named && clamp.is_some_and(|&clamp| is_whole_warp(clamp)) {
                true => Spread::Sources(0b1010),
                false => Spread::Lanes,
            }
        }
    }
}

/// Whether the clamp of a shuffle lets every lane reach every other: no segments, no lane out of range.
fn is_whole_warp(clamp: Operand) -> bool {
    clamp == Operand::imm(WARP - 1)
}

/// A machine operation follows its sources unless it reads memory other than constant banks, yields what its operands do not
/// determine, or works across lanes.
fn machine(function: &Function, inst: Inst, op: sass::Op) -> Spread {
    let special = function
        .operands(inst)
        .iter()
        .find_map(|operand| match operand {
            Operand::Special(number) => Some(*number),
            _ => None,
        });
    match special {
        Some(register::TID_Y) => return same_in_warp(rows_fill_warps(function)),
        Some(register::TID_Z) => return same_in_warp(planes_fill_warps(function)),
        Some(number) => return same_in_warp(MACHINE_WARP_WIDE.contains(&number)),
        None => {}
    }
    let row = op.row();
    if op == sass::Op::SHFL {
        let at = |name| row.slot_index(name);
        let clamp = at(sass::slot_names::C).and_then(|at| function.operands(inst).get(at));
        let mode = function.machine_modifier(inst, sass::modifier_names::MODE);
        return match at(sass::slot_names::B) {
            Some(lane)
                if mode == Some(sass::modifier_values::IDX)
                    && clamp.is_some_and(|&clamp| is_whole_warp(clamp)) =>
            {
                Spread::Sources(1 << lane)
            }
            _ => Spread::Lanes,
        };
    }
    let beyond_operands = sass::Effects::CALL
        .union(sass::Effects::VOLATILE)
        .union(sass::Effects::CONVERGENT)
        .union(sass::Effects::BARRIER);
    let reads_shared_state = row
        .memory
        .iter()
        .any(|memory| memory.reads && memory.space != sass::Space::Constant);
    same_in_warp(!reads_shared_state && !row.effects.intersects(beyond_operands))
}

fn same_in_warp(same: bool) -> Spread {
    match same {
        true => Spread::ALL_SOURCES,
        false => Spread::Lanes,
    }
}

/// A warp is 32 threads in a row, numbered along x, then y, then z.
const WARP: u64 = 32;

/// Whether a row of threads fills warps exactly, so that y and z are the same in a warp.
fn rows_fill_warps(function: &Function) -> bool {
    let [x, ..] = function.attributes.max_threads.map(u64::from);
    function.attributes.required_threads && x > 0 && x.is_multiple_of(WARP)
}

/// Whether a plane of threads fills warps exactly, so that z is the same in a warp.
fn planes_fill_warps(function: &Function) -> bool {
    let [x, y, _] = function.attributes.max_threads.map(u64::from);
    function.attributes.required_threads && x * y > 0 && (x * y).is_multiple_of(WARP)
}

/// Lanes that load weakly from one address see one value. Local memory is each lane's own, and a generic address may point there;
/// a load with an order may see another value in each lane.
fn load(space: Option<Space>, order: Option<Order>) -> Spread {
    let shared = matches!(
        space,
        Some(Space::Global | Space::Shared | Space::SharedCluster | Space::Const | Space::Param)
    );
    same_in_warp(shared && order == Some(Order::Weak))
}

/// Whether `inst` is a load, on the abstract level, that may find something else a moment later.
pub fn loads_what_may_change(function: &Function, inst: Inst) -> bool {
    let load =
        matches!(function.opcode(inst), Opcode::Abstract(op) if RULES[op as usize] == Rule::Load);
    let constant = matches!(function.modifier(inst), Some(Space::Const | Space::Param));
    load && !constant
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effects;

    #[test]
    fn operations_beyond_arithmetic_say_how_they_spread() {
        const NEEDS_A_ROW: Effects = Effects::READS
            .with(Effects::CALL)
            .with(Effects::VARIES)
            .with(Effects::CONVERGENT)
            .with(Effects::BARRIER)
            .with(Effects::SIDE);
        // Tokens name a set of lanes; they are the same for all of them.
        let tokens = [AbstractOp::RegionOpen, AbstractOp::RegionLeave];
        for &op in AbstractOp::ALL {
            let row = op.row();
            let needs = row.effects.intersects(NEEDS_A_ROW)
                && !row.results.is_empty()
                && !tokens.contains(&op);
            let has = EXCEPTIONS.iter().filter(|(named, _)| *named == op).count();
            assert!(has <= 1, "{op} has {has} rows");
            assert!(!needs || has == 1, "{op} needs a row");
        }
    }
}
