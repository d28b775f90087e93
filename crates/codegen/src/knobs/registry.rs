//! The knobs that exist.
//!
//! A knob enters this file together with the phase that reads it. Numbers below 10000 and their names are those of
//! ptxas; knobs that ptxas does not have carry numbers from 10000 on.

use super::scheduling;
use super::when::WhenList;
use std::marker::PhantomData;

/// The value a knob has when nobody sets it. It also says which type the knob has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DefaultValue {
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Double(f64),
    /// A text.
    Text(&'static str),
    /// A list of conditions, none of which holds.
    Never,
}

impl DefaultValue {
    /// The type's name as users see it.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Never => "when-list",
        }
    }
}

impl std::fmt::Display for DefaultValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Double(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "\"{value}\""),
            Self::Never => f.write_str("never"),
        }
    }
}

/// One row of the registry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Its type and its value when nobody sets it.
    pub default: DefaultValue,
    /// The phase that reads it.
    pub phase: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// A knob whose value is a `T`: what a phase reads it with.
#[derive(Debug)]
pub struct Key<T: ?Sized> {
    /// The row.
    pub knob: Knob,
    value: PhantomData<fn() -> *const T>,
}

/// Declares [`Key::new`] for a type of value.
macro_rules! key_of {
    ($value:ty, $default:ty, $make:expr) => {
        impl Key<$value> {
            /// Declares a knob of this type.
            pub const fn new(
                number: u32,
                name: &'static str,
                default: $default,
                phase: &'static str,
                about: &'static str,
            ) -> Self {
                Self {
                    knob: Knob {
                        number,
                        name,
                        default: $make(default),
                        phase,
                        about,
                    },
                    value: PhantomData,
                }
            }
        }
    };
}

key_of!(bool, bool, DefaultValue::Bool);
key_of!(i64, i64, DefaultValue::Int);
key_of!(f64, f64, DefaultValue::Double);
key_of!(str, &'static str, DefaultValue::Text);

impl Key<WhenList> {
    /// Declares a knob that is a list of conditions, by default none.
    pub const fn new(
        number: u32,
        name: &'static str,
        phase: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            knob: Knob {
                number,
                name,
                default: DefaultValue::Never,
                phase,
                about,
            },
            value: PhantomData,
        }
    }
}

/// Whether hazards are looked for around what expansion and opex made.
pub static MERC_GENERATE_WARS: Key<bool> = Key::<bool>::new(
    16,
    "MercGenerateWars",
    true,
    "MercGenerateWARs1",
    "hazards are resolved around what expansion and opex made",
);

/// Whether opex drops the stalls that the resolver asked for before it: its own distances are enough.
pub static MERC_OPEX_CLEAR_PENALTIES: Key<bool> = Key::<bool>::new(
    17,
    "MercOpexClearPenalties",
    true,
    "MercGenerateOpex",
    "stalls that MercGenerateWARs1 asked for are dropped",
);

/// Whether words that were compared once are kept.
pub static MERC_ENCODING_CACHE: Key<bool> = Key::<bool>::new(
    10122,
    "MercEncodingCache",
    true,
    "MercGenerateSassUCode",
    "words that were encoded and compared once are used again",
);

/// Whether Mercury's phases say what they do to each instruction.
pub static MERC_TRACE: Key<bool> = Key::<bool>::new(
    10141,
    "MercTrace",
    false,
    "MercConverter",
    "Mercury's phases note each instruction they touch; `orias opt` prints it",
);

/// Instructions that GeneralOptimize must leave as they are. Halving the list finds the one rewrite that breaks a program.
pub static GENERAL_OPTIMIZE_KEEP: Key<WhenList> = Key::<WhenList>::new(
    10029,
    "GeneralOptimizeKeep",
    "GeneralOptimize",
    "instructions and blocks that the phase leaves alone",
);

/// Every allocation is proved against the code before it.
pub static VERIFY_REGISTER_ALLOCATION: Key<bool> = Key::<bool>::new(
    10101,
    "VerifyRegisterAllocation",
    false,
    "AllocateRegisters",
    "proves each allocation against the code before it",
);

/// How freely registers are traded for speed.
pub static REGISTER_USAGE_LEVEL: Key<i64> = Key::<i64>::new(
    10106,
    "RegisterUsageLevel",
    5,
    "ScheduleInstructions, AllocateRegisters",
    "how freely registers are traded for speed, 0 to 10: up to 3 fewer, from 6 on more",
);

/// For how long registers that an operation reads late are left alone.
pub static LATE_READS: Key<i64> = Key::<i64>::new(
    10107,
    "AllocateRegistersLateReads",
    4,
    "AllocateRegisters",
    "instructions for which registers that an operation reads late are not written, as long as others are free of cost",
);

/// Whether an allocation with which more thread blocks fit is tried where one is near.
pub static REACH_EDGES: Key<bool> = Key::<bool>::new(
    10109,
    "AllocateRegistersReachEdges",
    true,
    "AllocateRegisters",
    "kernels that miss an occupancy edge by a few registers are allocated once more with as many as it has",
);

/// What PostSchedule's score counts for a cycle of the longest chain of dependences that starts with an instruction.
pub static POST_SCHEDULE_CHAIN: Key<f64> = Key::<f64>::new(
    10110,
    "PostScheduleChainWeight",
    1.0,
    "PostSchedule",
    "weight in the score: a cycle of the longest chain of dependences that starts with an instruction",
);

/// What PostSchedule's score counts for a cycle in which nothing would issue.
pub static POST_SCHEDULE_STALL: Key<f64> = Key::<f64>::new(
    10111,
    "PostScheduleStallWeight",
    4096.0,
    "PostSchedule",
    "weight in the score: a cycle in which nothing would issue",
);

/// What PostSchedule's score counts for a cycle that a conflict between register banks costs.
pub static POST_SCHEDULE_BANK: Key<f64> = Key::<f64>::new(
    10112,
    "PostScheduleBankWeight",
    4.0,
    "PostSchedule",
    "weight in the score: a cycle that a conflict between register banks costs",
);

/// What PostSchedule's score counts for a source that is found in the operand cache.
pub static POST_SCHEDULE_REUSE: Key<f64> = Key::<f64>::new(
    10113,
    "PostScheduleReuseWeight",
    1.0,
    "PostSchedule",
    "weight in the score: a source that is found in the operand cache",
);

/// What PostSchedule's score counts for writing a register that the instruction before wrote.
pub static POST_SCHEDULE_REWRITE: Key<f64> = Key::<f64>::new(
    10114,
    "PostScheduleRewriteWeight",
    2.0,
    "PostSchedule",
    "weight in the score: writing a register that the instruction before wrote",
);

/// Blocks whose order PostSchedule must leave as it is.
pub static POST_SCHEDULE_KEEP: Key<WhenList> = Key::<WhenList>::new(
    10115,
    "PostScheduleKeep",
    "PostSchedule",
    "functions and blocks that the phase leaves alone",
);

/// Whether loops that test before each iteration test after it instead.
pub static ROTATE_LOOPS: Key<bool> = Key::<bool>::new(
    10021,
    "RotateLoops",
    true,
    "RotateLoops",
    "loops that test before each iteration test after it instead",
);

/// Whether what does not change in a loop is computed before it.
pub static HOIST_INVARIANTS: Key<bool> = Key::<bool>::new(
    10022,
    "HoistInvariants",
    true,
    "HoistInvariants",
    "what does not change in a loop is computed before it",
);

/// Whether what is read behind a loop only is computed behind it.
pub static SINK_BEHIND_LOOPS: Key<bool> = Key::<bool>::new(
    10094,
    "SinkBehindLoops",
    true,
    "SinkBehindLoops",
    "what is read behind a loop only is computed behind it, where registers are short",
);

/// Whether loads go up to blocks that dominate theirs.
pub static HOIST_LOADS: Key<bool> = Key::<bool>::new(
    10086,
    "HoistLoads",
    true,
    "HoistLoads",
    "loads go up to blocks that dominate theirs, where others are in flight",
);

/// How many blocks may lie between a load and the dominator it goes to.
pub static HOIST_LOADS_BLOCKS: Key<i64> = Key::<i64>::new(
    10087,
    "HoistLoadsBlocks",
    12,
    "HoistLoads",
    "blocks that may lie between a block and the dominator its loads go to",
);

/// How many words of loads may come to a block.
pub static HOIST_LOADS_WORDS: Key<i64> = Key::<i64>::new(
    10088,
    "HoistLoadsWords",
    16,
    "HoistLoads",
    "words of loads from other blocks that may come to a block",
);

/// Whether numbers that are needed in registers are moved there once for a loop or a block.
pub static SHARE_CONSTANTS: Key<bool> = Key::<bool>::new(
    10089,
    "ShareConstants",
    true,
    "ShareConstants",
    "numbers that are needed in registers are moved there once for a loop or a block",
);

/// How many registers ShareConstants leaves to the scheduler.
pub static SHARE_CONSTANTS_SLACK: Key<i64> = Key::<i64>::new(
    10090,
    "ShareConstantsSlack",
    6,
    "ShareConstants",
    "registers that are left free where numbers are shared",
);

/// Whether what loops advance is copied where its old number is read behind the new one.
pub static SPLIT_CARRIED: Key<bool> = Key::<bool>::new(
    10091,
    "SplitCarried",
    true,
    "SplitCarried",
    "what loops advance is copied where its old number is read behind the new one, and not on an edge of its own",
);

/// Whether doubles that are known lie in uniform registers.
pub static UNIFORM_NUMBERS: Key<bool> = Key::<bool>::new(
    10092,
    "UniformNumbers",
    true,
    "UniformNumbers",
    "doubles that are known and read more than once lie in uniform registers",
);

/// Whether neighbouring guarded accesses to global memory become one where all guards hold.
pub static WIDEN_ACCESSES: Key<bool> = Key::<bool>::new(
    10095,
    "WidenAccesses",
    true,
    "WidenAccesses",
    "neighbouring guarded accesses to global memory become one where all guards hold and the address is aligned",
);

/// Whether addresses that a loop advances take in what is added to them, and share their steps where registers are short.
pub static MERGE_INDUCTIONS: Key<bool> = Key::<bool>::new(
    10034,
    "MergeInductions",
    true,
    "MergeInductions",
    "addresses that a loop advances take in what is added to them, and share their steps where registers are short",
);

/// Whether loops are unrolled.
pub static UNROLL: Key<bool> = Key::<bool>::new(
    10025,
    "LoopUnrolling",
    true,
    "LoopUnrolling",
    "several iterations of a loop in a row, with fewer tests between them",
);

/// Whether branches that go the same way in every iteration are taken before the loop.
pub static UNSWITCH_LOOPS: Key<bool> = Key::<bool>::new(
    10102,
    "UnswitchLoops",
    true,
    "UnswitchLoops",
    "branches that go the same way in every iteration are taken before the loop",
);

/// How many instructions a loop may take of which there are two then.
pub static UNSWITCH_SIZE: Key<i64> = Key::<i64>::new(
    10103,
    "UnswitchSize",
    160,
    "UnswitchLoops",
    "instructions of a loop that is made twice, at most",
);

/// Whether slow paths stand once and are called.
pub static CALL_SLOW_PATHS: Key<bool> = Key::<bool>::new(
    10076,
    "CallSlowPaths",
    true,
    "ConvertUnsupportedOps",
    "slow paths of divisions and roots of which a function has many copies are called",
);

/// How many instructions the sides of a branch may take that if-conversion takes away where lanes may part.
pub static IF_CONVERSION_SIZE: Key<i64> = Key::<i64>::new(
    10077,
    "IfConversionSize",
    18,
    "IfConversion",
    "instructions of both sides of a branch that goes, at most, where lanes may part; 0: none goes that has any",
);

/// The same where lanes go one way together.
pub static IF_CONVERSION_UNIFORM_SIZE: Key<i64> = Key::<i64>::new(
    10078,
    "IfConversionUniformSize",
    10,
    "IfConversion",
    "the same where lanes go one way together",
);

/// Whether words of local memory become values.
pub static PROMOTE_LOCALS: Key<bool> = Key::<bool>::new(
    10035,
    "PromoteLocals",
    true,
    "PromoteLocals",
    "words of local memory of which every access is known become values",
);

/// How many instructions a loop may take of which every iteration becomes a copy.
pub static UNROLL_FULL: Key<i64> = Key::<i64>::new(
    10026,
    "UnrollFullSize",
    1024,
    "LoopUnrolling",
    "instructions of a loop of which every iteration becomes a copy, at most",
);

/// How many instructions a loop of copies may take.
pub static UNROLL_SIZE: Key<i64> = Key::<i64>::new(
    10027,
    "UnrollSize",
    320,
    "LoopUnrolling",
    "instructions of a loop of copies, at most",
);

/// How many copies a loop may consist of.
pub static UNROLL_FACTOR: Key<i64> = Key::<i64>::new(
    10028,
    "UnrollFactor",
    4,
    "LoopUnrolling",
    "copies in a row, at most, where the number of iterations depends on a value",
);

/// How many copies a loop may consist of whose number of iterations is known.
pub static UNROLL_KNOWN: Key<i64> = Key::<i64>::new(
    10030,
    "UnrollKnownFactor",
    16,
    "LoopUnrolling",
    "copies in a row, at most, where the number of iterations is known",
);

/// Whether known terms of address sums become the offsets of accesses.
pub static FOLD_ADDRESSES: Key<bool> = Key::<bool>::new(
    10024,
    "FoldAddresses",
    true,
    "FoldAddresses",
    "known terms of address sums become the offsets of accesses",
);

/// Whether instructions that two units do alike are shared out between them.
pub static BALANCE_PIPES: Key<bool> = Key::<bool>::new(
    10060,
    "BalancePipes",
    true,
    "BalancePipes",
    "instructions that the logic and the multiplier do alike go to the one that has less to do",
);

/// Whether operands in uniform registers are computed there.
pub static UNIFORM_DATAPATH: Key<bool> = Key::<bool>::new(
    10070,
    "UniformDatapath",
    true,
    "UniformDatapath",
    "what all lanes compute alike, for operands in uniform registers, is computed there",
);

/// Whether what known bits tell is made use of.
pub static SIMPLIFY_WORDS: Key<bool> = Key::<bool>::new(
    10031,
    "SimplifyWords",
    true,
    "SimplifyWords",
    "operations are simplified by the bits that are known of their operands",
);

/// Whether comparisons of one word become switches.
pub static RECOGNIZE_SWITCHES: Key<bool> = Key::<bool>::new(
    10040,
    "RecognizeSwitches",
    true,
    "RecognizeSwitches",
    "trees and chains of comparisons of one word with numbers become switches",
);

/// Whether both halves of a product become one.
pub static PAIR_PRODUCTS: Key<bool> = Key::<bool>::new(
    10096,
    "PairProducts",
    true,
    "PairProducts",
    "the low and the high half of the same product become the words of one wide product",
);

/// Whether spilled registers move to shared memory.
pub static SHARED_SPILLS: Key<bool> = Key::<bool>::new(
    10099,
    "SharedSpills",
    true,
    "SharedSpills",
    "spilled registers lie in shared memory where the source asks for it (.pragma \"enable_smem_spilling\")",
);

/// Whether loads of what is known go.
pub static FORWARD_LOADS: Key<bool> = Key::<bool>::new(
    10098,
    "ForwardLoads",
    true,
    "ForwardLoads",
    "loads of what a load or a store of the same block has read or written become its value",
);

/// Whether neighbouring loads become one.
pub static MERGE_ACCESSES: Key<bool> = Key::<bool>::new(
    10097,
    "MergeAccesses",
    true,
    "MergeAccesses",
    "neighbouring loads of shared memory whose alignment is known become one of 64 or 128 bits",
);

/// Whether switches may jump through tables.
pub static JUMP_TABLES: Key<bool> = Key::<bool>::new(
    10041,
    "JumpTables",
    true,
    "ExpandForSelection",
    "switches of many ways read where to go from a table in a constant bank",
);

/// Whether switches of two ways may test bits.
pub static SWITCH_BIT_TESTS: Key<bool> = Key::<bool>::new(
    10042,
    "SwitchBitTests",
    true,
    "ExpandForSelection",
    "switches of two ways test a bit of a constant",
);

/// How far fences and barriers that repeat one before them are looked for.
pub static SYNC_MODE: Key<i64> = Key::<i64>::new(
    358,
    "SyncMode",
    3,
    "OriRemoveRedundantBarriers",
    "fences and barriers that repeat one before them: 0 stay, 1 go within blocks, 2 fences across blocks, 3 barriers of the thread block, too",
);

/// Loops whose fences are decided by hand.
pub static FENCE_LOOPS: Key<str> = Key::<str>::new(
    429,
    "FenceLoops",
    "",
    "StageAndFence",
    "loops that get a fence (+N-) or none (-N-), by number; others as the rest decides",
);

/// Whether loops that were unrolled get fences between their iterations.
pub static FENCE_MODE: Key<i64> = Key::<i64>::new(
    437,
    "FenceMode",
    -1,
    "StageAndFence",
    "-1: no fences between the iterations of unrolled loops; 0 or 2: the strength to start from",
);

/// Whether facts about synchronisation are followed from block to block.
pub static BARRIER_LIVENESS: Key<bool> = Key::<bool>::new(
    472,
    "BarrierLiveness",
    true,
    "OriRemoveRedundantBarriers",
    "what is known of fences and barriers is followed from block to block",
);

/// Whether fences between iterations are only put where they can matter.
pub static FENCE_PROFIT: Key<bool> = Key::<bool>::new(
    892,
    "FenceProfitability",
    true,
    "StageAndFence",
    "no fence in a loop that does not go round again",
);

/// How much of the budget of a fence an iteration takes.
pub static FENCE_BUDGET: Key<f64> = Key::<f64>::new(
    900,
    "FenceBudgetScale",
    0.5,
    "StageAndFence",
    "what each iteration takes off the budget that makes a fence needless",
);

/// The strength of fences between iterations.
pub static FENCE_STRENGTH: Key<i64> = Key::<i64>::new(
    903,
    "FenceStrength",
    -1,
    "StageAndFence",
    "0, 1 or 2: the fence is for the block, the GPU or the system; -1: decided",
);

/// Whether functions that lie elsewhere are taken not to synchronise.
pub static ASSUME_EXTERN_DO_NOT_SYNC: Key<bool> = Key::<bool>::new(
    10054,
    "AssumeExternFunctionsDoNotSync",
    false,
    "OriRemoveRedundantBarriers",
    "functions that lie elsewhere do not synchronise (--assume-extern-functions-do-not-sync)",
);

/// Whether fences beyond the block go without what reports errors.
pub static DISABLE_ERRBAR: Key<bool> = Key::<bool>::new(
    10072,
    "DisableErrbarAfterMembar",
    false,
    "LateExpandSyncInstructions",
    "no ERRBAR and no CGAERRBAR behind MEMBAR",
);

/// Whether errors of accesses are reported before a thread ends.
pub static GEN_ERRBAR_AT_EXIT: Key<bool> = Key::<bool>::new(
    10074,
    "GenErrbarAtExit",
    false,
    "LateExpandSyncInstructions",
    "ERRBAR and CGAERRBAR before each EXIT (--make-errors-visible-at-exit)",
);

/// Whether threads sleep before they change memory.
pub static STEER_THREADS: Key<bool> = Key::<bool>::new(
    10080,
    "SteerThreads",
    false,
    "SteerThreads",
    "a sleep of random length before each store and atomic operation (--sanitize=threadsteer)",
);

/// Whether lanes update a word together.
pub static AGGREGATE_UPDATES: Key<bool> = Key::<bool>::new(
    10130,
    "AggregateUpdates",
    true,
    "SelectInstructions",
    "lanes that update one word together combine their numbers, and one of them updates memory",
);

/// Whether wide products go into sums in other blocks.
pub static FOLD_PRODUCTS: Key<bool> = Key::<bool>::new(
    10132,
    "FoldProducts",
    true,
    "SelectInstructions",
    "where the source limits registers, wide products that sums alone read become part of them, in whatever block they are",
);

/// Whether a tool patches the code into a program.
pub static PATCH_CODE: Key<bool> = Key::<bool>::new(
    10131,
    "PatchCode",
    false,
    "SelectInstructions",
    "global memory without descriptors, as uniform registers are the patched program's (--compile-as-tools-patch)",
);

/// Whether functions look whether their frames fit the stack.
pub static SP_BOUNDS_CHECK: Key<bool> = Key::<bool>::new(
    10075,
    "SpBoundsCheck",
    false,
    "PostExpansion",
    "a trap where a frame does not fit the stack (--sp-bounds-check)",
);

/// Whether functions look whether what lies above their variables is as it was.
pub static PROTECT_STACK: Key<bool> = Key::<bool>::new(
    10100,
    "ProtectStack",
    false,
    "ProtectStack",
    "a trap where a function returns and what lies above its local variables has changed (--device-stack-protector)",
);

/// Whether regions are made late.
pub static EXPAND_SYNC_LATE: Key<bool> = Key::<bool>::new(
    10073,
    "ExpandSyncInstLate",
    false,
    "LateExpandSyncInstructions",
    "refused: no target of Orias has a use for it",
);

/// Every knob, by number.
pub static KNOBS: &[&Knob] = &[
    &MERC_GENERATE_WARS.knob,
    &MERC_OPEX_CLEAR_PENALTIES.knob,
    &scheduling::FENCE_CODE.knob,
    &scheduling::FENCE_INTERFERENCE.knob,
    &SYNC_MODE.knob,
    &FENCE_LOOPS.knob,
    &FENCE_MODE.knob,
    &scheduling::DEPTH_LIMIT.knob,
    &BARRIER_LIVENESS.knob,
    &scheduling::SCHEDULING.knob,
    &scheduling::PRESERVE_ORDER.knob,
    &scheduling::BUMP_SCALE.knob,
    &scheduling::LOADS_PER_TEXTURE.knob,
    &scheduling::CROSS_BLOCK.knob,
    &scheduling::CROSS_BLOCK_INSTS.knob,
    &scheduling::CROSS_BLOCK_LIMIT.knob,
    &scheduling::LOOP_ITERATIONS.knob,
    &scheduling::CAREFUL_SLACK.knob,
    &scheduling::OK_SLACK.knob,
    &scheduling::OK_SLACK_COLD.knob,
    &scheduling::REGISTER_TARGET.knob,
    &scheduling::FURTHEST.knob,
    &scheduling::LOOK_AHEAD.knob,
    &scheduling::REDUCE_LIMIT.knob,
    &scheduling::REDUCE_LIMIT_HIGH.knob,
    &scheduling::BATCH_REGISTERS.knob,
    &scheduling::BATCH_SCHEDULER.knob,
    &FENCE_PROFIT.knob,
    &FENCE_BUDGET.knob,
    &FENCE_STRENGTH.knob,
    &ROTATE_LOOPS.knob,
    &HOIST_INVARIANTS.knob,
    &FOLD_ADDRESSES.knob,
    &UNROLL.knob,
    &UNROLL_FULL.knob,
    &UNROLL_SIZE.knob,
    &UNROLL_FACTOR.knob,
    &GENERAL_OPTIMIZE_KEEP.knob,
    &UNROLL_KNOWN.knob,
    &SIMPLIFY_WORDS.knob,
    &MERGE_INDUCTIONS.knob,
    &PROMOTE_LOCALS.knob,
    &RECOGNIZE_SWITCHES.knob,
    &JUMP_TABLES.knob,
    &SWITCH_BIT_TESTS.knob,
    &ASSUME_EXTERN_DO_NOT_SYNC.knob,
    &BALANCE_PIPES.knob,
    &UNIFORM_DATAPATH.knob,
    &DISABLE_ERRBAR.knob,
    &EXPAND_SYNC_LATE.knob,
    &GEN_ERRBAR_AT_EXIT.knob,
    &SP_BOUNDS_CHECK.knob,
    &CALL_SLOW_PATHS.knob,
    &IF_CONVERSION_SIZE.knob,
    &IF_CONVERSION_UNIFORM_SIZE.knob,
    &STEER_THREADS.knob,
    &HOIST_LOADS.knob,
    &HOIST_LOADS_BLOCKS.knob,
    &HOIST_LOADS_WORDS.knob,
    &SHARE_CONSTANTS.knob,
    &SHARE_CONSTANTS_SLACK.knob,
    &SPLIT_CARRIED.knob,
    &UNIFORM_NUMBERS.knob,
    &SINK_BEHIND_LOOPS.knob,
    &WIDEN_ACCESSES.knob,
    &PAIR_PRODUCTS.knob,
    &MERGE_ACCESSES.knob,
    &FORWARD_LOADS.knob,
    &SHARED_SPILLS.knob,
    &PROTECT_STACK.knob,
    &VERIFY_REGISTER_ALLOCATION.knob,
    &UNSWITCH_LOOPS.knob,
    &UNSWITCH_SIZE.knob,
    &REGISTER_USAGE_LEVEL.knob,
    &LATE_READS.knob,
    &REACH_EDGES.knob,
    &POST_SCHEDULE_CHAIN.knob,
    &POST_SCHEDULE_STALL.knob,
    &POST_SCHEDULE_BANK.knob,
    &POST_SCHEDULE_REUSE.knob,
    &POST_SCHEDULE_REWRITE.knob,
    &POST_SCHEDULE_KEEP.knob,
    &MERC_ENCODING_CACHE.knob,
    &AGGREGATE_UPDATES.knob,
    &PATCH_CODE.knob,
    &FOLD_PRODUCTS.knob,
    &MERC_TRACE.knob,
    &scheduling::INSTRUCTIONS.knob,
    &scheduling::REDUCE_REG.knob,
    &scheduling::REDUCE_REG_NOT.knob,
    &scheduling::DYN_BATCH.knob,
    &scheduling::DYN_BATCH_NOT.knob,
    &scheduling::STRATEGY.knob,
    &scheduling::KEEP_BLOCKS.knob,
    &scheduling::COLD_BUDGET.knob,
    &scheduling::DEPTH_THRESHOLD.knob,
    &scheduling::SPILL_MODE.knob,
    &scheduling::PIPELINE.knob,
    &scheduling::MATRIX_FIRST.knob,
    &scheduling::UNITS.knob,
    &scheduling::PASS_WAITS.knob,
    &scheduling::CONSTANT_LINES.knob,
];

#[cfg(test)]
mod tests {
    use super::KNOBS;

    /// A knob that is read but not listed can never be set.
    #[test]
    fn every_key_is_listed_once() {
        let declared = include_str!("registry.rs")
            .lines()
            .filter(|line| line.starts_with("pub static ") && line.contains(": Key<"));
        let scheduling = include_str!("scheduling.rs").lines().filter(|line| {
            line.ends_with("\";")
                && line
                    .trim_start()
                    .starts_with(|it: char| it.is_ascii_uppercase())
        });
        let mut names: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KNOBS.len(), "two knobs of one name");
        assert_eq!(
            declared.count() + scheduling.count(),
            KNOBS.len(),
            "keys that KNOBS does not list, or lists twice"
        );
    }
}
