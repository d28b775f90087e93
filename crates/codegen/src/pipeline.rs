//! The compiler on one screen: which phases there are, in which order, and when each runs.
//!
//! What holds when a stage ends:
//!
//! | stage | what holds |
//! | --- | --- |
//! | lower | SSA with block parameters, typed abstract operations, spans kept |
//! | optimize | nothing observable changed |
//! | early sync | the PTX memory model is explicit |
//! | select | only operations the target's table has |
//! | late sync | every synchronisation is an instruction; no pseudo-operations |
//! | pre-RA schedule | still SSA; an order within the register budget |
//! | sync check | what the chosen order makes necessary is there |
//! | allocate | physical registers only; every expansion that makes instructions has happened |
//! | post-RA | the final order |
//! | control words | every instruction has stall, yield, barriers, waits, reuse |
//! | mercury | bytes, equal to what was meant |
//!
//! [`PHASES`] is the table. A phase that is not written yet is not in it. [`Pipeline::run`] takes a function through it;
//! printing, timing and stopping are done by whoever watches the [`Event`]s it reports.

mod run;

use crate::knobs::{Key, Knobs, registry as knobs, scheduling};
use crate::mercury::{self, Mercury};
use crate::names;
use crate::phases;
use crate::regalloc;
use crate::schedule;
use crate::schedule::post::post_schedule;
use crate::scoreboard;
use crate::select::select_instructions;
use orias_machine::Machine;
use orias_ori::{Function, Level};
use orias_sass::Target;
use std::fmt;
use std::ops::RangeInclusive;

pub use run::{Event, Pipeline, Stop};

/// Every phase, in the order they run: number, name, stage, levels of functions it works on, gate (levels of optimisation, knob, feature), function, and what it
/// does in a few words. Numbers below 10000 and their names are ptxas's.
#[rustfmt::skip]
pub const PHASES: &[Phase] = &[
    phase(10080, "SteerThreads", Stage::Lower, ABSTRACT, gate_knob(&knobs::STEER_THREADS), phases::steer_threads,
        "random sleeps before threads change memory (--sanitize=threadsteer)"),
    phase(10007, "CombineWords", Stage::Lower, ABSTRACT, gate(1..=3), phases::combine_words,
        "wide products and pairs that were written word by word"),
    phase(5, "ConvertUnsupportedOps", Stage::Lower, ABSTRACT, gate(0..=3), phases::convert_unsupported,
        "operations the machine has no instruction for, as several it has"),
    phase(29, "GeneralOptimize", Stage::Optimize, ABSTRACT, gate(1..=3), phases::optimize_general,
        "dead code, unreachable blocks, copies, block parameters, constant branches"),
    phase(10031, "SimplifyWords", Stage::Optimize, ABSTRACT, gate_level_knob(1..=3, &knobs::SIMPLIFY_WORDS), phases::simplify_words,
        "algebra with known bits; 64-bit logic of which a word is known becomes 32-bit logic"),
    phase(10006, "IfConversion", Stage::Optimize, ABSTRACT, gate(1..=3), phases::convert_ifs,
        "if-conversion: branches around a few operations become selects"),
    phase(10005, "EliminateCommonSubexpressions", Stage::Optimize, ABSTRACT, gate(1..=3), phases::eliminate_common_subexpressions,
        "common subexpressions and constants: what is computed twice, and what can be computed now"),
    phase(10021, "RotateLoops", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::ROTATE_LOOPS), phases::rotate_loops,
        "loops that test before each iteration test after it instead"),
    phase(10024, "FoldAddresses", Stage::Optimize, ABSTRACT, gate_level_knob(1..=3, &knobs::FOLD_ADDRESSES), phases::fold_addresses,
        "known terms of address sums become the offsets of accesses"),
    phase(10022, "HoistInvariants", Stage::Optimize, ABSTRACT, gate_level_knob(1..=3, &knobs::HOIST_INVARIANTS), phases::hoist_invariants,
        "what does not change in a loop is computed before it"),
    phase(10102, "UnswitchLoops", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::UNSWITCH_LOOPS), phases::unswitch_loops,
        "branches that go the same way in every iteration are taken before the loop"),
    phase(10034, "MergeInductions", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::MERGE_INDUCTIONS), phases::merge_inductions,
        "addresses that a loop advances take in what is added to them, and share their steps where registers are short"),
    phase(24, "LoopUnrolling", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::UNROLL), phases::unroll_loops,
        "several iterations of a loop in a row, with fewer tests between them"),
    phase(10035, "PromoteLocals", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::PROMOTE_LOCALS), phases::promote_locals,
        "words of local memory become values"),
    phase(25, "StageAndFence", Stage::Optimize, ABSTRACT, gate_level_knobs(3..=3, &knobs::UNROLL, &scheduling::SCHEDULING), phases::stage_and_fence,
        "fences between the iterations of unrolled loops, where knob 437 asks for them"),
    phase(26, "OriRemoveRedundantBarriers", Stage::Optimize, ABSTRACT, gate(2..=3), phases::remove_redundant_barriers,
        "fences and barriers that repeat one before them"),
    phase(10040, "RecognizeSwitches", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::RECOGNIZE_SWITCHES), phases::recognize_switches,
        "comparisons of one word with numbers become a switch"),
    phase(10098, "ForwardLoads", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::FORWARD_LOADS), phases::forward_loads,
        "loads of what a block has loaded or stored before go"),
    phase(10097, "MergeAccesses", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::MERGE_ACCESSES), phases::merge_accesses,
        "neighbouring loads of shared memory, and of global memory that is known to be aligned, become one"),
    phase(10095, "WidenAccesses", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::WIDEN_ACCESSES), phases::widen_accesses,
        "neighbouring guarded accesses to global memory become one where all guards hold and the address is aligned"),
    phase(10096, "PairProducts", Stage::Optimize, ABSTRACT, gate_level_knob(1..=3, &knobs::PAIR_PRODUCTS), phases::pair_products,
        "both halves of a product become the words of one"),
    phase(10004, "PredicateChoices", Stage::Optimize, ABSTRACT, gate(1..=3), phases::predicate_choices,
        "choices become guards, and logic of comparisons part of them"),
    phase(10086, "HoistLoads", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::HOIST_LOADS), phases::hoist_loads,
        "loads go up to blocks that dominate theirs, where others are in flight"),
    phase(10094, "SinkBehindLoops", Stage::Optimize, ABSTRACT, gate_level_knob(2..=3, &knobs::SINK_BEHIND_LOOPS), phases::sink_behind_loops,
        "what is read behind a loop only is computed behind it, where registers are short"),
    phase(42, "ExpandMbarrier", Stage::EarlySync, ABSTRACT, gate_feature(MBARRIER), phases::expand_mbarrier,
        "lanes that set up different mbarriers do it one after the other"),
    phase(10001, "ExpandForSelection", Stage::Select, ABSTRACT, gate(0..=3), phases::expand_for_selection,
        "switches and atomic updates the chip lacks become branches and loops"),
    phase(10002, "ConvergenceRegions", Stage::Select, ABSTRACT, gate(0..=3), phases::open_convergence_regions,
        "where lanes part and where they meet again"),
    phase(10076, "CallSlowPaths", Stage::Select, ABSTRACT, gate(0..=3), phases::call_slow_paths,
        "slow paths of divisions and roots, which stand once and are called"),
    phase(10003, "SelectInstructions", Stage::Select, ABSTRACT, gate(0..=3), select_instructions,
        "abstract operations become the machine's"),
    phase(71, "OptimizeSyncInstructions", Stage::LateSync, MACHINE, gate_level_knob(3..=3, &scheduling::SCHEDULING), phases::optimize_sync,
        "fences and waits of the machine that repeat one before them"),
    phase(72, "LateExpandSyncInstructions", Stage::LateSync, MACHINE, gate(0..=3), phases::late_expand_sync,
        "what reports errors behind fences"),
    phase(10070, "UniformDatapath", Stage::LateSync, MACHINE, gate_level_knob(1..=3, &knobs::UNIFORM_DATAPATH), phases::use_uniform_datapath,
        "what all lanes compute alike, for operands in uniform registers, is computed there"),
    phase(10092, "UniformNumbers", Stage::LateSync, MACHINE, gate_level_knob(2..=3, &knobs::UNIFORM_NUMBERS), phases::use_uniform_numbers,
        "doubles that are known and read more than once lie in uniform registers"),
    phase(10089, "ShareConstants", Stage::LateSync, MACHINE, gate_level_knob(2..=3, &knobs::SHARE_CONSTANTS), phases::share_constants,
        "numbers that are needed in registers are moved there once for a loop or a block"),
    phase(10010, "WarpgroupOperands", Stage::LateSync, MACHINE, gate(0..=3), phases::hold_warpgroup_operands,
        "what warp-group matrix products read stays in its registers until they are over"),
    phase(10011, "SinkPredicates", Stage::LateSync, MACHINE, gate(1..=3), phases::sink_predicates,
        "comparisons right before what reads them, where predicates are too many"),
    phase(91, "OriCalcDependantTex", Stage::LateSync, MACHINE, gate_level_feature(2..=3, UNTOLD_TEXTURES), phases::mark_texture_results,
        "what depends on textures whose end no barrier tells"),
    phase(10100, "ProtectStack", Stage::LateSync, MACHINE, gate_knob(&knobs::PROTECT_STACK), phases::protect_stack,
        "canaries above the local variables of functions (--device-stack-protector)"),
    phase(97, "ScheduleInstructions", Stage::PreRaSchedule, MACHINE, gate(1..=3), schedule::schedule_instructions,
        "an order that hides latencies within the register budget"),
    phase(10091, "SplitCarried", Stage::PreRaSchedule, MACHINE, gate_level_knob(2..=3, &knobs::SPLIT_CARRIED), phases::split_carried,
        "what loops advance is copied where its old number is read behind the new one"),
    phase(99, "OriDoSyncronization", Stage::SyncCheck, MACHINE, gate(2..=3), phases::check_sync,
        "nothing came between a fence and what belongs to it"),
    phase(100, "ApplyPostSyncronizationWars", Stage::SyncCheck, MACHINE, gate_level_feature(2..=3, SYNC_READS_REGISTERS), phases::apply_sync_wars,
        "registers that inserted synchronisation reads"),
    phase(101, "AllocateRegisters", Stage::Allocate, MACHINE, gate(0..=3), regalloc::allocate_registers,
        "values become physical registers"),
    phase(10099, "SharedSpills", Stage::Allocate, PHYSICAL, gate_level_knob(1..=3, &knobs::SHARED_SPILLS), regalloc::spill_to_shared,
        "spilled registers move to shared memory where the source asks for it"),
    phase(104, "PostExpansion", Stage::Allocate, PHYSICAL, gate(0..=3), regalloc::expand_after_allocation,
        "the stack frame"),
    phase(105, "ApplyPostRegAllocWars", Stage::Allocate, PHYSICAL, gate_level_feature(2..=3, UNGUARDED_READS), phases::apply_allocation_wars,
        "registers that are read late and that no control word protects"),
    phase(107, "OriRemoveNopCode", Stage::PostRa, PHYSICAL, gate(0..=3), phases::remove_nop_code,
        "instructions that do nothing"),
    phase(10008, "WarpgroupWaits", Stage::PostRa, PHYSICAL, gate(0..=3), phases::add_warpgroup_waits,
        "waits and arrivals of warp-group matrix products that are missing"),
    phase(108, "OptimizeHotColdInLoop", Stage::PostRa, PHYSICAL, gate(2..=3), phases::optimize_hot_cold_in_loops,
        "blocks that do not belong to a loop out of its midst"),
    phase(109, "OptimizeHotColdFlow", Stage::PostRa, PHYSICAL, gate(2..=3), phases::optimize_hot_cold_flow,
        "blocks that hardly ever run behind all others"),
    phase(10060, "BalancePipes", Stage::PostRa, PHYSICAL, gate_level_knob(1..=3, &knobs::BALANCE_PIPES), phases::balance_pipes,
        "forms that the logic and the multiplier do alike, by what each has to do"),
    phase(110, "PostSchedule", Stage::PostRa, PHYSICAL, gate(1..=3), post_schedule,
        "the order of instructions on physical registers"),
    phase(112, "PlaceBlocksInSourceOrder", Stage::PostRa, PHYSICAL, gate(1..=1), phases::place_blocks_in_source_order,
        "blocks in the order of the source"),
    phase(113, "PostFixForMercTargets", Stage::PostRa, PHYSICAL, gate(0..=3), phases::fix_positions,
        "jumps that the final order of blocks makes necessary or needless"),
    phase(114, "FixUpTexDepBarAndSync", Stage::PostRa, PHYSICAL, gate(2..=3), phases::fix_group_waits,
        "waits for groups of copies that the final order made needless"),
    phase(10009, "IdleLoads", Stage::PostRa, PHYSICAL, gate(0..=3), phases::add_idle_loads,
        "loads that never run, in front of asynchronous copies"),
    phase(115, "AdvancedScoreboardsAndOpexes", Stage::ControlWords, PHYSICAL, gate(1..=3), scoreboard::assign_control_words,
        "stalls, barriers, waits, yield bits and reuse flags"),
    phase(116, "ProcessO0WaitsAndSBs", Stage::ControlWords, PHYSICAL, gate(0..=0), scoreboard::assign_plain_control_words,
        "the same without thought: everything waits for everything"),
    converter(141, "MercConverter", gate(0..=3), mercury::convert_function,
        "Mercury's own nodes, with operands as the tables take them"),
    mercury_phase(117, "MercEncodeAndDecode", gate(0..=3), mercury::encode_and_decode,
        "every instruction encoded, decoded and compared"),
    mercury_phase(118, "MercExpandInstructions", gate(0..=3), mercury::expand_instructions,
        "pseudo-instructions become instructions"),
    mercury_phase(119, "MercGenerateWARs1", gate_knob(&knobs::MERC_GENERATE_WARS), mercury::resolve_before_opex,
        "what expansion may overwrite too early"),
    mercury_phase(120, "MercGenerateOpex", gate(0..=3), mercury::generate_opex,
        "control words of what expansion made"),
    mercury_phase(121, "MercGenerateWARs2", gate_knob(&knobs::MERC_GENERATE_WARS), mercury::resolve_after_opex,
        "what opex may overwrite too early"),
    mercury_phase(122, "MercGenerateSassUCode", gate(0..=3), mercury::generate_code,
        "bytes, branch distances and relocations"),
];

const ABSTRACT: RangeInclusive<Level> = Level::Abstract..=Level::Abstract;
const MACHINE: RangeInclusive<Level> = Level::Machine..=Level::Machine;
const PHYSICAL: RangeInclusive<Level> = Level::Physical..=Level::Physical;
const FINAL: RangeInclusive<Level> = Level::Final..=Level::Final;

/// The stages of the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// PTX becomes Ori.
    Lower,
    /// Less work, same results.
    Optimize,
    /// Memory order becomes explicit.
    EarlySync,
    /// Abstract operations become the machine's.
    Select,
    /// Synchronisation as the machine has it.
    LateSync,
    /// An order within the register budget.
    PreRaSchedule,
    /// What the order makes necessary.
    SyncCheck,
    /// Values become physical registers.
    Allocate,
    /// The final order.
    PostRa,
    /// Stalls, barriers and waits.
    ControlWords,
    /// Bytes.
    Mercury,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lower => "lower",
            Self::Optimize => "optimize",
            Self::EarlySync => "early sync",
            Self::Select => "select",
            Self::LateSync => "late sync",
            Self::PreRaSchedule => "pre-RA schedule",
            Self::SyncCheck => "sync check",
            Self::Allocate => "allocate",
            Self::PostRa => "post-RA",
            Self::ControlWords => "control words",
            Self::Mercury => "mercury",
        })
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Phase {
    /// ptxas's number.
    pub number: u16,
    /// ptxas's name.
    pub name: &'static str,
    /// The stage it belongs to.
    pub stage: Stage,
    /// The levels of functions it works on; on others it has nothing to do.
    pub levels: RangeInclusive<Level>,
    /// When it runs.
    pub gate: Gate,
    /// The phase itself.
    pub run: Run,
    /// What it takes care of.
    pub about: &'static str,
}

/// What a phase works on.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// Ori, in place.
    Ori(OriPhase),
    /// Ori, which becomes Mercury.
    Convert(fn(&Function, &Context<'_>) -> Result<Mercury, PhaseError>),
    /// Mercury, in place.
    Mercury(fn(&mut Mercury, &Context<'_>) -> Result<(), PhaseError>),
}

/// A phase on Ori.
pub type OriPhase = fn(&mut Function, &Context<'_>) -> Result<(), PhaseError>;

/// When a phase runs: all of the conditions must hold.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The optimisation levels.
    pub opt_levels: RangeInclusive<u8>,
    /// What the target must have.
    pub feature: Option<Feature>,
    /// Knobs that must be true.
    pub knobs: [Option<&'static Key<bool>>; 2],
}

/// Something a target has or lacks.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// What it is called.
    pub name: &'static str,
    /// Whether a target has it, as the tables say.
    pub present: fn(Target) -> bool,
}

const fn phase(
    number: u16,
    name: &'static str,
    stage: Stage,
    levels: RangeInclusive<Level>,
    gate: Gate,
    run: OriPhase,
    about: &'static str,
) -> Phase {
    Phase {
        number,
        name,
        stage,
        levels,
        gate,
        run: Run::Ori(run),
        about,
    }
}

const fn converter(
    number: u16,
    name: &'static str,
    gate: Gate,
    run: fn(&Function, &Context<'_>) -> Result<Mercury, PhaseError>,
    about: &'static str,
) -> Phase {
    last_mile(number, name, gate, Run::Convert(run), about)
}

const fn mercury_phase(
    number: u16,
    name: &'static str,
    gate: Gate,
    run: fn(&mut Mercury, &Context<'_>) -> Result<(), PhaseError>,
    about: &'static str,
) -> Phase {
    last_mile(number, name, gate, Run::Mercury(run), about)
}

/// A phase of Mercury's stage.
const fn last_mile(
    number: u16,
    name: &'static str,
    gate: Gate,
    run: Run,
    about: &'static str,
) -> Phase {
    Phase {
        number,
        name,
        stage: Stage::Mercury,
        levels: FINAL,
        gate,
        run,
        about,
    }
}

/// A gate that asks for nothing but an optimisation level.
const fn gate(opt_levels: RangeInclusive<u8>) -> Gate {
    Gate {
        opt_levels,
        feature: None,
        knobs: [None, None],
    }
}

/// A target that has mbarriers.
const MBARRIER: Feature = Feature {
    name: "mbarriers",
    present: |target| orias_sass::Op::SYNCS_EXCH.exists_on(target),
};

/// A gate that targets with a feature open at all levels.
const fn gate_feature(feature: Feature) -> Gate {
    Gate {
        opt_levels: 0..=3,
        feature: Some(feature),
        knobs: [None, None],
    }
}

/// A target on which something that the phases of synchronisation insert reads a register.
const SYNC_READS_REGISTERS: Feature = Feature {
    name: "synchronisation that reads registers",
    present: phases::sync_reads_registers,
};

/// A target on which textures end without a barrier that tells.
const UNTOLD_TEXTURES: Feature = Feature {
    name: "textures whose end no barrier tells",
    present: phases::has_untold_textures,
};

/// A target on which control words cannot keep a register from being overwritten too early.
const UNGUARDED_READS: Feature = Feature {
    name: "late reads that no control word protects",
    present: phases::has_unguarded_reads,
};

/// A gate that targets with a feature open at some levels.
const fn gate_level_feature(opt_levels: RangeInclusive<u8>, feature: Feature) -> Gate {
    Gate {
        opt_levels,
        feature: Some(feature),
        knobs: [None, None],
    }
}

/// A gate that a knob opens at all levels.
const fn gate_knob(knob: &'static Key<bool>) -> Gate {
    gate_level_knob(0..=3, knob)
}

/// A gate that a knob opens at some levels.
const fn gate_level_knob(opt_levels: RangeInclusive<u8>, knob: &'static Key<bool>) -> Gate {
    Gate {
        opt_levels,
        feature: None,
        knobs: [Some(knob), None],
    }
}

/// A gate that two knobs open at some levels, both.
const fn gate_level_knobs(
    opt_levels: RangeInclusive<u8>,
    knob: &'static Key<bool>,
    other: &'static Key<bool>,
) -> Gate {
    Gate {
        opt_levels,
        feature: None,
        knobs: [Some(knob), Some(other)],
    }
}

impl Gate {
    /// Why the phase does not run, if it does not.
    fn closed(&self, context: &Context<'_>) -> Option<Skip> {
        if !self.opt_levels.contains(&context.opt_level) {
            return Some(Skip::OptLevel(context.opt_level));
        }
        match self.feature {
            Some(feature) if !(feature.present)(context.machine.target) => {
                return Some(Skip::Feature(feature.name));
            }
            _ => {}
        }
        let mut knobs = self.knobs.iter().flatten();
        let off = knobs.find(|knob| !context.knobs.bool(knob));
        off.map(|knob| Skip::Knob(knob.knob.name))
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (self.opt_levels.start(), self.opt_levels.end());
        let mut text = match (low, high) {
            (0, 3) => "always".to_owned(),
            (low, 3) => format!("-O{low} and above"),
            (low, high) if low == high => format!("-O{low}"),
            (low, high) => format!("-O{low} to -O{high}"),
        };
        if let Some(feature) = self.feature {
            text += &format!(", target has {}", feature.name);
        }
        for knob in self.knobs.iter().flatten() {
            text += &format!(", knob {}", knob.knob.name);
        }
        f.pad(&text)
    }
}

/// What phases are told besides the function.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// How much to optimise, from 0 to 3.
    pub opt_level: u8,
    /// The knobs.
    pub knobs: &'a Knobs,
    /// What the code is to run on.
    pub machine: &'static Machine,
}

impl Context<'_> {
    /// Whether code looks whether the stack is deep enough where it lowers the stack pointer, as ptxas's does without optimisation.
    pub fn checks_stack(&self) -> bool {
        self.opt_level == 0 || self.knobs.bool(&knobs::SP_BOUNDS_CHECK)
    }
}

/// Why a phase could not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PhaseError {
    /// It met something it cannot handle yet.
    #[error("{0} is not supported yet")]
    Unsupported(String),
    /// It was asked for something that the target does not have.
    #[error("{0}")]
    Refused(&'static str),
    /// It met something that an earlier phase must not leave behind.
    #[error("{at}: {what}")]
    Broken {
        /// The instruction or block, as the text form names it.
        at: String,
        /// What is wrong with it.
        what: String,
    },
}

/// Why a function did not come through the pipeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A phase gave up.
    #[error("{phase}: {error}")]
    Phase {
        /// Its name.
        phase: &'static str,
        /// Why.
        error: PhaseError,
    },
    /// Whoever asked for the code does not want it any more; see [`Stop`].
    #[error("stopped before {before}")]
    Stopped {
        /// The phase that was next.
        before: &'static str,
    },
    /// The function was broken after a phase, or before the first.
    #[error("after {after}: {errors}")]
    Invalid {
        /// The phase, or `the input`.
        after: &'static str,
        /// What the verifier says.
        errors: String,
    },
}

/// Why a phase was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// It was disabled by name.
    Disabled,
    /// Not at this optimisation level.
    OptLevel(u8),
    /// The target lacks this.
    Feature(&'static str),
    /// This knob is off.
    Knob(&'static str),
    /// The function is not at a level it works on.
    Level(Level),
    /// It works on Mercury, and the function was not converted; or on Ori, and it was.
    Form,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("disabled"),
            Self::OptLevel(level) => write!(f, "not at -O{level}"),
            Self::Feature(name) => write!(f, "the target has no {name}"),
            Self::Knob(name) => write!(f, "knob {name} is off"),
            Self::Level(level) => write!(f, "not on {} functions", level.name()),
            Self::Form => f.write_str("not on this form of a function"),
        }
    }
}

/// Names that phases of our own had before, and have now. The old ones are still understood.
const OLD_NAMES: &[(&str, &str)] = &[
    ("PredicateBranches", "IfConversion"),
    ("ShareEqualValues", "EliminateCommonSubexpressions"),
];

/// The row of `phases` with this name, in any case, or this number.
pub fn find_phase(phases: &[Phase], name: &str) -> Result<usize, String> {
    let found = match name.parse::<u16>() {
        Ok(number) => phases.iter().position(|phase| phase.number == number),
        Err(_) => {
            let old = names::find(name, OLD_NAMES.iter().map(|(old, _)| *old));
            let name = old.map_or(name, |at| OLD_NAMES[at].1);
            names::find(name, phases.iter().map(|phase| phase.name))
        }
    };
    found.ok_or_else(|| {
        format!(
            "no phase is named '{name}'{}",
            names::suggestion(name, phases.iter().map(|phase| phase.name))
        )
    })
}
