//! Spill weights: values that stay in registers as long as there is anybody else to spill.
//!
//! Belady's rule spills what is read last, and in a long loop that is just what should stay:
//!
//! - **Accumulators of warp groups.** Between two products an accumulator is a set of single registers: split from one tuple, passed around the loop,
//!   collected into the next. While a product is under way nothing may touch them, so each store waits for the whole product, each
//!   load stands before the next one, and a group of products falls apart into several that wait for each other.
//! - **What decides whether a loop goes on**, in functions in which lanes have to meet. It is read by the last instruction, and where it comes from memory, nothing in the code says any more that all
//!   lanes agree on it, which those who prove that lanes meet have to know.
//!
//! Marked are registers that are collected into a tuple that only a product can have, or that a product reads, what a comparison at the exit of a loop reads and what that is
//! computed from at once; and, against the flow, the arguments of parameters that are marked.
//!
//! Cost: O(operands of collections and exits), and a look at the results of all instructions in loops.

use super::only_computes;
use cranelift_entity::EntitySet;
use orias_machine::Machine;
use orias_ori::analysis::{FlowGraph, LoopNest};
use orias_ori::{AbstractOp, Class, Effects, Function, Inst, Opcode, Value, ValueDef};

/// Memory has no tuples that wide.
const WIDE: u8 = 8;

/// The values of `func` that stay in the loops that they live in.
pub(super) fn staying(func: &Function, graph: &FlowGraph, loops: &LoopNest) -> EntitySet<Value> {
    let mut found = Found {
        func,
        all: EntitySet::new(),
        pending: Vec::new(),
    };
    let meets = lanes_meet(func);
    for of in loops.loops() {
        if meets {
            for &(block, _) in loops.own_exits(of) {
                if let Some(branch) = func.terminator(block) {
                    found.control(branch);
                }
            }
        }
        for &block in loops.own_blocks(of) {
            for inst in func.block_insts(block) {
                if reads_late(func, inst) {
                    found.mark_read(inst);
                }
                func.for_each_def(inst, |reg| {
                    if let Some(value) = reg.value()
                        && func.value_type(value).len() >= WIDE
                    {
                        found.mark(value);
                    }
                });
            }
        }
    }
    while let Some(value) = found.pending.pop() {
        match func.value_def(value) {
            ValueDef::Inst(inst, _)
                if func.opcode(inst) == Opcode::Abstract(AbstractOp::Collect) =>
            {
                found.mark_read(inst);
            }
            ValueDef::Param(block, index) => {
                for &pred in graph.preds(block) {
                    for &edge in func.successor_edges(pred) {
                        if func.edge_target(edge) == block {
                            found.mark(func.edge_args(edge)[usize::from(index)]);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    found.all
}

/// Whether `inst` is a product of a warp group, which reads its registers after it was issued.
fn reads_late(func: &Function, inst: Inst) -> bool {
    let machine = Machine::of(func.target);
    let op = func.opcode(inst).as_machine();
    op.is_some_and(|op| machine.is_warpgroup_matrix(op))
}

/// Whether lanes have to meet anywhere.
fn lanes_meet(func: &Function) -> bool {
    let meets = Effects::CONVERGENT.with(Effects::BARRIER);
    let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts.any(|inst| func.opcode(inst).effects().intersects(meets))
}

struct Found<'a> {
    func: &'a Function,
    all: EntitySet<Value>,
    /// Marked, but not what they come from.
    pending: Vec<Value>,
}

impl Found<'_> {
    fn mark(&mut self, value: Value) {
        if self.func.value_type(value).class() == Class::R && self.all.insert(value) {
            self.pending.push(value);
        }
    }

    fn mark_read(&mut self, inst: Inst) {
        let func = self.func;
        func.for_each_use(inst, |reg| {
            if let Some(value) = reg.value() {
                self.mark(value);
            }
        });
    }

    /// Marks what decides where `branch` goes.
    fn control(&mut self, branch: Inst) {
        let func = self.func;
        let condition = func.inst(branch).guard().reg();
        let Some(comparison) = condition
            .and_then(|reg| reg.value())
            .and_then(|value| func.defining_inst(value))
        else {
            return;
        };
        self.mark_read(comparison);
        func.for_each_use(comparison, |reg| {
            if let Some(inst) = reg.value().and_then(|value| func.defining_inst(value))
                && only_computes(func, inst)
            {
                self.mark_read(inst);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_ori::analysis::DepthFirst;
    use orias_ori::parse_function;

    #[test]
    fn accumulators_and_counters_stay_and_others_do_not() {
        let func = parse_function(
            "func f machine sm_90a {
block0:
    MOV v0:r, RZ, 15
    MOV v1:r, RZ, 15
    MOV v2:r, RZ, 15
    next -> block1(v0, v1, v2)
block1(v3:r, v4:r, v5:r):
    v6:rx8 = collect v3, v3, v3, v3, v3, v3, v3, v3
    v7:r, v8:r, v9:r, v10:r, v11:r, v12:r, v13:r, v14:r = split v6
    IADD3 v15:r, PT, PT, v4, 1, RZ
    IADD3 v16:r, PT, PT, v5, v14, RZ
    WARPSYNC.ALL PT
    ISETP.NE.AND v17:p, PT, v15, 24, PT
    @v17 BRA PT, block1(v7, v15, v16) -> block2
block2:
    EXIT PT
}
",
        )
        .unwrap();
        let graph = FlowGraph::of(&func);
        let loops = LoopNest::new(&graph, &DepthFirst::new(&graph));
        let found = staying(&func, &graph, &loops);
        let marked: Vec<u32> = (0..18)
            .filter(|&number| found.contains(Value::from_u32(number)))
            .collect();
        // The accumulator's registers around the loop, the counter; not v5, which is summed, nor parts that go nowhere.
        assert_eq!(marked, [0, 1, 3, 4, 6, 7, 15]);
    }
}
