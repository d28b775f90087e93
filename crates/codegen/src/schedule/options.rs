//! What the knobs ask of the scheduler, read once for a function.

use super::build::Fences;
use super::cross_block::Limits;
use super::engine::Settings;
use super::graph::PIECE;
use super::live::Counts;
use super::priority::Mode;
use super::strategies::Asked;
use crate::knobs::scheduling as knob;
use crate::knobs::{Knobs, Point, WhenList};
use crate::pipeline::{Context, PhaseError};
use crate::register_usage::RegisterUsage;
use orias_ori::analysis::Frequencies;
use orias_ori::{Block, Function};
use std::collections::BTreeMap;

/// Estimated iterations of loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iterations {
    all: u32,
    /// By the number of the header.
    headed: BTreeMap<u32, u32>,
}

impl Iterations {
    /// Reads knob 750: a number for all loops, `BLOCK:NUMBER` for one, separated by commas.
    pub fn parse(text: &str) -> Result<Iterations, String> {
        let mut iterations = Iterations {
            all: Frequencies::ITERATIONS,
            headed: BTreeMap::new(),
        };
        let number = |text: &str| {
            let parsed = text.trim().parse::<u32>();
            parsed.map_err(|_| format!("'{text}' is no number of iterations"))
        };
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            match part.split_once(':') {
                Some((header, count)) => {
                    iterations.headed.insert(number(header)?, number(count)?);
                }
                None => iterations.all = number(part)?,
            }
        }
        Ok(iterations)
    }

    /// The iterations of the loop with this header.
    pub fn of(&self, header: Block) -> u32 {
        let known = self.headed.get(&header.as_u32());
        known.copied().unwrap_or(self.all)
    }
}

/// The options of one function.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    knobs: &'a Knobs,
    function: &'a str,
    /// How much to optimise.
    pub opt_level: u8,
    /// Estimated iterations.
    pub iterations: Iterations,
    /// Which strategies are asked.
    pub asked: Asked,
}

impl<'a> Options<'a> {
    /// Reads the knobs.
    pub fn new(func: &'a Function, context: &Context<'a>) -> Result<Self, PhaseError> {
        let iterations =
            Iterations::parse(context.knobs.text(&knob::LOOP_ITERATIONS)).map_err(|what| {
                PhaseError::Broken {
                    at: "knob SchedEstimatedLoopIterations".to_owned(),
                    what,
                }
            })?;
        let asked = Asked::parse(context.knobs.text(&knob::STRATEGY)).map_err(|what| {
            PhaseError::Broken {
                at: "knob SchedStrategy".to_owned(),
                what,
            }
        })?;
        Ok(Options {
            knobs: context.knobs,
            function: &func.name,
            opt_level: context.opt_level,
            iterations,
            asked,
        })
    }

    /// Whether instructions are reordered at all.
    pub fn is_enabled(&self) -> bool {
        self.knobs.bool(&knob::SCHEDULING) && self.knobs.bool(&knob::INSTRUCTIONS)
    }

    fn holds(&self, list: &WhenList, block: Block) -> bool {
        !list.is_never()
            && list.holds(Point {
                function: self.function,
                block: block.as_u32(),
                instruction: None,
            })
    }

    /// Whether `block` keeps the order it has.
    pub fn keeps_order(&self, block: Block) -> bool {
        self.holds(self.knobs.when(&knob::KEEP_BLOCKS), block)
    }

    /// Whether a mode runs on `block`.
    pub fn runs(&self, mode: Mode, block: Block) -> bool {
        match mode {
            Mode::Ilp => true,
            Mode::ReduceReg => {
                self.opt_level >= 3
                    && self.knobs.bool(&knob::REDUCE_REG)
                    && !self.holds(self.knobs.when(&knob::REDUCE_REG_NOT), block)
            }
            Mode::DynBatch => {
                self.knobs.bool(&knob::DYN_BATCH)
                    && !self.holds(self.knobs.when(&knob::DYN_BATCH_NOT), block)
            }
        }
    }

    /// Whether orders are tried that count units.
    pub fn counts_units(&self) -> bool {
        self.knobs.bool(&knob::UNITS)
    }

    /// The fences the knobs put into graphs.
    pub fn fences(&self) -> Fences<'a> {
        Fences {
            code: self.knobs.when(&knob::FENCE_CODE),
            interference: self.knobs.when(&knob::FENCE_INTERFERENCE),
            preserve: self.knobs.when(&knob::PRESERVE_ORDER),
            piece: PIECE,
            passes_waits: self.knobs.bool(&knob::PASS_WAITS),
            fetches_lines: self.knobs.bool(&knob::CONSTANT_LINES),
            counts_lookups: self.knobs.bool(&knob::LOOKUPS),
        }
    }

    /// What steers the engine on a block, in a loop or not, with these limits.
    pub fn settings(&self, mode: Mode, block: Block, in_loop: bool, limits: Counts) -> Settings {
        let int = |key| self.knobs.int(key);
        let small = |key, most| int(key).clamp(0, most) as u32;
        let cold = int(&knob::OK_SLACK_COLD);
        let slack = if in_loop || cold < 0 {
            int(&knob::OK_SLACK)
        } else {
            cold
        };
        Settings {
            mode,
            limits,
            slack: slack.clamp(0, 255) as i32,
            look_ahead: small(&knob::LOOK_AHEAD, 1 << 12) as usize,
            cold_budget: small(&knob::COLD_BUDGET, 1 << 20),
            depth_threshold: small(&knob::DEPTH_THRESHOLD, 1 << 20),
            warps: 1,
            window: None,
            spill_mode: small(&knob::SPILL_MODE, 1 << 20),
            batch: small(&knob::BATCH_SCHEDULER, 16),
            loads_per_texture: small(&knob::LOADS_PER_TEXTURE, 255),
            furthest: self.holds(self.knobs.when(&knob::FURTHEST), block),
            matrix_first: self.knobs.bool(&knob::MATRIX_FIRST),
        }
    }

    /// How many operations a batch has when registers are scarce.
    pub fn scarce_batch(&self) -> u32 {
        self.knobs.int(&knob::BATCH_REGISTERS).clamp(0, 16) as u32
    }

    /// The register target, if one is set; 0 is no budget.
    pub fn register_target(&self) -> Option<u32> {
        u32::try_from(self.knobs.int(&knob::REGISTER_TARGET)).ok()
    }

    /// Registers kept free below what the chip has.
    pub fn careful_slack(&self) -> u32 {
        self.knobs.int(&knob::CAREFUL_SLACK).clamp(0, 255) as u32
    }

    /// What each register above those live in the order before costs, as a share of all cycles.
    pub fn bump_scale(&self) -> f64 {
        self.knobs.double(&knob::BUMP_SCALE) * self.register_usage().price()
    }

    /// How freely registers are traded for speed.
    pub(crate) fn register_usage(&self) -> RegisterUsage {
        RegisterUsage::of(self.knobs)
    }

    /// Live registers above which ReduceReg runs for sure, and above which nothing else does.
    pub fn reduce_limits(&self) -> (i32, i32) {
        let clamp = |value: i64| value.clamp(0, 1 << 16) as i32;
        (
            clamp(self.knobs.int(&knob::REDUCE_LIMIT)),
            clamp(self.knobs.int(&knob::REDUCE_LIMIT_HIGH)),
        )
    }

    /// What may move into the block before: knobs 742, 743 and 744.
    pub fn cross_block(&self) -> Limits {
        let mode = self.knobs.int(&knob::CROSS_BLOCK);
        let blocks = if mode >= 2 || !self.is_enabled() {
            0
        } else {
            self.knobs.int(&knob::CROSS_BLOCK_LIMIT).clamp(0, 8) as u8
        };
        Limits {
            blocks,
            instructions: self.knobs.int(&knob::CROSS_BLOCK_INSTS).clamp(0, 1 << 10) as usize,
            loops_only: mode == 1,
        }
    }

    /// Whether loops are pipelined: where other loop optimisations run, too.
    pub fn pipelines(&self) -> bool {
        self.opt_level >= 2 && self.is_enabled() && self.knobs.bool(&knob::PIPELINE)
    }

    /// Loops nested deeper weigh no more.
    pub fn depth_limit(&self) -> u32 {
        self.knobs.int(&knob::DEPTH_LIMIT).clamp(0, 9) as u32
    }
}
