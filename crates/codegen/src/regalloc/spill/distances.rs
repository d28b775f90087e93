//! Next uses: how many instructions away a value is read again, over all ways on.
//!
//! The distance at the end of a block is the least over the blocks that may follow; leaving a loop counts as [`EXIT`] instructions, so that what a loop
//! reads is nearer than all that is read behind it. An argument of an edge is as near as the parameter that it becomes: passing it is no
//! use by itself, since a parameter may be passed in memory.
//!
//! Backward dataflow over distances that only shrink, blocks in postorder until nothing changes, [`PASSES`] times at most: distances only steer
//! choices. Cost of a pass: O(operands + live pairs of value and block).

use cranelift_entity::EntityRef;
use orias_ori::analysis::{DepthFirst, FlowGraph, Liveness, LoopNest};
use orias_ori::{Block, Class, Function, Inst, Value};

/// No use follows.
pub(super) const NEVER: u32 = u32::MAX;

/// What leaving a loop counts.
pub(super) const EXIT: u32 = 100_000;

/// How often all blocks are looked at.
const PASSES: usize = 8;

/// Calls `each` with what `inst` reads from general registers, arguments of edges left out; a value may come twice.
pub(super) fn for_each_read(func: &Function, inst: Inst, mut each: impl FnMut(Value)) {
    let edges = func.edges(inst).iter();
    let args: usize = edges.map(|&edge| func.edge_args(edge).len()).sum();
    let mut count = 0;
    if args > 0 {
        func.for_each_use(inst, |_| count += 1);
    }
    let mut index = 0;
    func.for_each_use(inst, |reg| {
        index += 1;
        if let Some(value) = reg.value()
            && (args == 0 || index <= count - args)
            && func.value_type(value).class() == Class::R
        {
            each(value);
        }
    });
}

/// Distances at the borders of blocks.
pub(super) struct Distances {
    /// As the values live at the starts of blocks.
    live_in: Vec<u32>,
    /// By value: the distance of a parameter at the start of its block.
    params: Vec<u32>,
}

impl Distances {
    pub(super) fn new(
        func: &Function,
        graph: &FlowGraph,
        walk: &DepthFirst,
        loops: &LoopNest,
        live: &Liveness,
    ) -> Distances {
        let mut found = Distances {
            live_in: vec![NEVER; live.live_in_count()],
            params: vec![NEVER; func.value_count()],
        };
        let mut at = vec![NEVER; func.value_count()];
        for _ in 0..PASSES {
            let mut changed = false;
            for &block in walk.postorder() {
                found.at_end(func, graph, loops, live, block, &mut at);
                let count = func.block_insts(block).count() as u32;
                let behind = |distance: u32| match distance {
                    NEVER => NEVER,
                    _ => distance.saturating_add(count).min(NEVER - 1),
                };
                for &value in live.live_out(block) {
                    at[value.index()] = behind(at[value.index()]);
                }
                for &edge in func.successor_edges(block) {
                    for &value in func.edge_args(edge) {
                        if !live.is_live_out(value, block) {
                            at[value.index()] = behind(at[value.index()]);
                        }
                    }
                }
                let mut place = count;
                for inst in func.block_insts(block).rev() {
                    place -= 1;
                    for_each_read(func, inst, |value| at[value.index()] = place);
                }
                for (slot, &value) in live.live_in_range(block).zip(live.live_in(block)) {
                    let known = &mut found.live_in[slot];
                    changed |= std::mem::replace(known, at[value.index()]) != at[value.index()];
                }
                for &value in func.block_params(block) {
                    let known = &mut found.params[value.index()];
                    changed |= std::mem::replace(known, at[value.index()]) != at[value.index()];
                }
                // Nothing stays for the next block.
                for inst in func.block_insts(block) {
                    func.for_each_use(inst, |reg| {
                        if let Some(value) = reg.value() {
                            at[value.index()] = NEVER;
                        }
                    });
                }
                for &value in live.live_out(block) {
                    at[value.index()] = NEVER;
                }
            }
            if !changed {
                break;
            }
        }
        found
    }

    /// Writes the distances from the end of `block` into `at`: of what lives on there, and of arguments.
    pub(super) fn at_end(
        &self,
        func: &Function,
        graph: &FlowGraph,
        loops: &LoopNest,
        live: &Liveness,
        block: Block,
        at: &mut [u32],
    ) {
        for &value in live.live_out(block) {
            at[value.index()] = NEVER;
        }
        for &edge in func.successor_edges(block) {
            for &value in func.edge_args(edge) {
                at[value.index()] = NEVER;
            }
        }
        let mut nearer = |value: Value, distance: u32| {
            let known = &mut at[value.index()];
            *known = (*known).min(distance);
        };
        for &next in graph.succs(block) {
            let out = levels_left(loops, block, next);
            let far = |distance: u32| match distance {
                NEVER => NEVER,
                _ => distance.saturating_add(out * EXIT).min(NEVER - 1),
            };
            for (slot, &value) in live.live_in_range(next).zip(live.live_in(next)) {
                nearer(value, far(self.live_in[slot]));
            }
            for &edge in func.successor_edges(block) {
                if func.edge_target(edge) == next {
                    for (param, &arg) in func.block_params(next).iter().zip(func.edge_args(edge)) {
                        nearer(arg, far(self.params[param.index()]));
                    }
                }
            }
        }
    }

    /// Calls `each` with what may be in registers at the start of `block` and its distance.
    pub(super) fn at_start(
        &self,
        func: &Function,
        live: &Liveness,
        block: Block,
        mut each: impl FnMut(Value, u32),
    ) {
        let general = |value: &Value| func.value_type(*value).class() == Class::R;
        for (slot, &value) in live.live_in_range(block).zip(live.live_in(block)) {
            if general(&value) {
                each(value, self.live_in[slot]);
            }
        }
        for &value in func.block_params(block).iter().filter(|it| general(it)) {
            each(value, self.params[value.index()]);
        }
    }
}

/// How many loops are left on the way from one block to the next.
fn levels_left(loops: &LoopNest, from: Block, to: Block) -> u32 {
    let mut count = 0;
    let mut around = loops.innermost(from);
    while let Some(inner) = around
        && !loops.contains(inner, to)
    {
        count += 1;
        around = loops.parent(inner);
    }
    count
}
