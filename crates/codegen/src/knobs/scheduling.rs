//! The knobs of the scheduler.
//!
//! Names and numbers are ptxas's as its published description gives them; 487 has no name there. Where that says two things of one number, the row
//! says which one holds here: 741 is the number of loads that weigh as much as a texture operation (not a stall threshold), 743 limits
//! what moves across blocks (not a property of an instruction), 763 is a register target whose 0 turns the budget off, 805
//! the size of a batch (not a stall), 595 the instructions that keep their order, 487 the whole phase, and phases 25 and 71.

use super::registry::Key;
use super::when::WhenList;

const PHASE: &str = "ScheduleInstructions";

/// Declares knobs, one a line.
macro_rules! knobs {
    ($($ident:ident: $ty:ty = $number:literal $name:literal $($default:expr)?, $about:literal;)*) => {
        $(
            #[doc = $about]
            pub static $ident: Key<$ty> = Key::<$ty>::new($number, $name, $($default,)? PHASE, $about);
        )*
    };
}

#[rustfmt::skip]
knobs! {
    FENCE_CODE: WhenList = 313 "FenceCode", "instructions that nothing moves across";
    FENCE_INTERFERENCE: WhenList = 314 "FenceInterference", "instructions that memory accesses and lane operations do not move across";
    DEPTH_LIMIT: i64 = 449 "SchedMaxDepth" 5, "loops nested deeper than this weigh no more";
    SCHEDULING: bool = 487 "SchedulingEnable" true, "whether instructions are reordered at all";
    PRESERVE_ORDER: WhenList = 595 "PreserveSchedOrderSame", "instructions that keep their order among themselves";
    BUMP_SCALE: f64 = 740 "SchedBumpScaleAugmentFactor" 0.002, "what each register above those live in the order before costs, as a share of all cycles";
    LOADS_PER_TEXTURE: i64 = 741 "SchedCountLoadsPerTex" 3, "how many loads weigh as much as a texture operation in a batch";
    CROSS_BLOCK: i64 = 742 "SchedCrossBlock" 0, "0: instructions may move into the block before; 1: in loops only; 2 and above: never";
    CROSS_BLOCK_INSTS: i64 = 743 "SchedCrossBlockInstsToSpeculate" 8, "how many instructions may move from one block into another";
    CROSS_BLOCK_LIMIT: i64 = 744 "SchedCrossBlockLimit" 2, "how many blocks a moved instruction may pass";
    LOOP_ITERATIONS: str = 750 "SchedEstimatedLoopIterations" "", "estimated iterations: a number for all loops, or BLOCK:NUMBER for the loop with that header, separated by commas";
    CAREFUL_SLACK: i64 = 760 "SchedMaxRLiveCarefulSlack" 0, "registers kept free below what the chip has";
    OK_SLACK: i64 = 761 "SchedMaxRLiveOKslack" 3, "registers below the budget that only critical instructions take";
    OK_SLACK_COLD: i64 = 762 "SchedMaxRLiveOKslackColdBlocks" -1, "the same in blocks outside loops; -1: no difference";
    REGISTER_TARGET: i64 = 763 "SchedMaxRTarget" -1, "registers the order should need; 0: no budget; -1: chosen by occupancy";
    FURTHEST: WhenList = 769 "SchedPrefFurthestDep", "blocks in which the instruction with the longest chain behind it goes first among equals";
    LOOK_AHEAD: i64 = 770 "SchedReadAvailTarget" 4, "how far down the ready list is looked";
    REDUCE_LIMIT: i64 = 776 "SchedReduceIncLimit" 250, "live registers above which ReduceReg runs for sure";
    REDUCE_LIMIT_HIGH: i64 = 778 "SchedReduceIncLimitHigh" 300, "live registers above which nothing but ReduceReg runs";
    BATCH_REGISTERS: i64 = 805 "SchedTexBatchTargetSelectRegisterTarget" 8, "operations in a batch when registers are scarce, 0 to 16";
    BATCH_SCHEDULER: i64 = 806 "SchedTexBatchTargetSelectSchedulerTarget" 8, "operations in a batch when they are not, 0 to 16";
    INSTRUCTIONS: bool = 10970 "ScheduleInstructions" true, "whether the new order is used";
    REDUCE_REG: bool = 10971 "ScheduleInstructionsReduceReg" true, "whether ReduceReg runs (at -O3)";
    REDUCE_REG_NOT: WhenList = 10972 "ScheduleInstructionsReduceRegNot", "blocks in which ReduceReg does not run";
    DYN_BATCH: bool = 10973 "ScheduleInstructionsDynBatch" true, "whether DynBatch runs";
    DYN_BATCH_NOT: WhenList = 10974 "ScheduleInstructionsDynBatchNot", "blocks in which DynBatch does not run";
    STRATEGY: str = 10975 "SchedStrategy" "", "the only strategy to use, by name; empty: the cascade chooses";
    KEEP_BLOCKS: WhenList = 10976 "SchedKeepOrder", "blocks that keep the order they have";
    COLD_BUDGET: i64 = 10977 "SchedColdBudget" 64, "constant loads of a block that are told from other instructions";
    DEPTH_THRESHOLD: i64 = 10978 "SchedDepthThreshold" 1, "long operations a block must have for the critical-path bit";
    SPILL_MODE: i64 = 10979 "SchedSpillMode" 0, "instructions of a block for which the critical-path bit is on whatever they are";
    PIPELINE: bool = 10980 "SchedSoftwarePipelining" true, "whether loads of loops are issued an iteration ahead";
    MATRIX_FIRST: bool = 10981 "SchedMatrixFirst" false, "whether DynBatch puts matrix operations before what keeps the register pressure low";
    UNITS: bool = 10982 "SchedCountUnits" true, "whether orders are tried in blocks with matrix operations for which units count like dependences";
    PASS_WAITS: bool = 10983 "SchedPassWaits" true, "whether arithmetic goes before waits for matrix products of a warp group that it has nothing to do with";
    CONSTANT_LINES: bool = 10984 "SchedConstantLines" true, "whether orders reckon with the time that the first lines of constants take which a kernel reads";
    LOOKUPS: bool = 10985 "SchedCountLookups" true, "whether loads of constants by indices that differ from lane to lane are known to take their unit longer";
}
