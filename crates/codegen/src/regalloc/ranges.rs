//! Live ranges, as runs of points.
//!
//! Blocks are numbered in the order in which the scan visits them, and every instruction gets two points: at the first it reads, at the
//! second it writes, so that a result may take the register of what is read there for the last time. A call has a third point between
//! the two, which only what lives across it passes. A block has a point before its first instruction, where parameters begin,
//! and one behind its last, where arguments of edges and all that lives on end. Runs that meet where one block follows another are
//! one run, so a value that is live through many blocks in a row has one.
//!
//! Cost: O(operands + live pairs of value and block).

use super::calls::{convention, is_call};
use super::counts::count_set;
use super::last_uses::LastUses;
use cranelift_entity::EntityRef;
use orias_machine::abi::Convention;
use orias_ori::analysis::{Csr, Liveness};
use orias_ori::{AbstractOp, Block, Function, Inst, Opcode, Value};

/// Points from `start` to `end`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// By value: the points at which it is live, in ascending order. Values without contents (`undef`) have none.
#[derive(Clone)]
pub(super) struct Ranges {
    runs: Csr<Run>,
    /// How many points there are.
    pub(super) points: u32,
    /// The points inside calls, and their conventions.
    pub(super) calls: Vec<(u32, Convention)>,
    /// The points of each block.
    pub(super) blocks: Vec<(Block, Run)>,
    /// Where the number of registers changes: the point at which the instruction reads.
    pub(super) counts: Vec<(u32, Inst)>,
}

const CLOSED: u32 = u32::MAX;

struct Walk {
    /// By value: where the run at hand began.
    open: Vec<u32>,
    /// By value: its last run in `runs`.
    last: Vec<u32>,
    runs: Vec<(u32, Run)>,
}

impl Walk {
    fn close(&mut self, value: Value, end: u32) {
        let start = std::mem::replace(&mut self.open[value.index()], CLOSED);
        if start == CLOSED {
            return;
        }
        let last = &mut self.last[value.index()];
        match self.runs.get_mut(*last as usize) {
            Some((_, run)) if run.end + 1 == start => run.end = end,
            _ => {
                *last = self.runs.len() as u32;
                self.runs.push((value.as_u32(), Run { start, end }));
            }
        }
    }
}

impl Ranges {
    /// The runs of all values of `func`, whose blocks are visited in `order`.
    pub(super) fn new(
        func: &Function,
        live: &Liveness,
        last_uses: &LastUses,
        order: impl Iterator<Item = Block>,
    ) -> Ranges {
        let values = func.value_count();
        let mut walk = Walk {
            open: vec![CLOSED; values],
            last: vec![u32::MAX; values],
            runs: Vec::with_capacity(values),
        };
        let mut empty = vec![false; values];
        let mut calls = Vec::new();
        let mut blocks = Vec::new();
        let mut counts = Vec::new();
        let mut point = 0;
        for block in order {
            let first = point;
            let starts = live.live_in(block).iter().chain(func.block_params(block));
            for &value in starts.filter(|value| !empty[value.index()]) {
                walk.open[value.index()] = point;
            }
            let count = func.block_insts(block).count();
            for &param in last_uses.at(block, count).unread {
                walk.close(param, point);
            }
            for (index, inst) in func.block_insts(block).enumerate() {
                let ending = last_uses.at(block, count - 1 - index);
                point += 1;
                counts.extend(count_set(func, inst).map(|_| (point, inst)));
                for &value in ending.read {
                    walk.close(value, point);
                }
                if is_call(func, inst) {
                    point += 1;
                    calls.push((point, convention(func, inst)));
                }
                point += 1;
                let undefined = func.opcode(inst) == Opcode::Abstract(AbstractOp::Undef);
                func.for_each_def(inst, |reg| {
                    if let Some(value) = reg.value() {
                        if undefined {
                            empty[value.index()] = true;
                        } else {
                            walk.open[value.index()] = point;
                        }
                    }
                });
                for &value in ending.unread {
                    walk.close(value, point);
                }
            }
            point += 1;
            for &value in live.live_out(block) {
                walk.close(value, point);
            }
            for &edge in func.successor_edges(block) {
                for &value in func.edge_args(edge) {
                    walk.close(value, point);
                }
            }
            let run = Run {
                start: first,
                end: point,
            };
            blocks.push((block, run));
            point += 1;
        }
        Ranges {
            runs: Csr::from_pairs(values, walk.runs.iter().copied()),
            points: point,
            calls,
            blocks,
            counts,
        }
    }

    /// Where `value` is live.
    pub(super) fn of(&self, value: Value) -> &[Run] {
        self.runs.row(value.as_u32())
    }
}
