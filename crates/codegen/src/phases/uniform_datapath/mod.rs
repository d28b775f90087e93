//! UniformDatapath (10070): scalarisation. What all lanes of a warp compute alike, for instructions that want it in uniform registers, is computed there.
//!
//! Selection puts operands of warp-group products, bulk copies and mbarriers into uniform registers by R2UR, one for each word, though what they are made of is the same in all
//! lanes: the number of a pipeline's stage, the address of a buffer, a loop's counter. Here the computation goes over instead: UIADD3, ULEA, UIMAD, ULOP3, USHF, USEL, UISETP and their like
//! ([`forms`]), with loop counters as block parameters of the class UR. An R2UR remains where something enters that only general registers can hold.
//!
//! **What may go over.** The rule for uniform registers ([`orias_ori::analysis`]): they are written where the whole warp runs, so an instruction goes over only in a block that
//! is not [partial](orias_ori::analysis::Divergence::is_partial), and what it computes is the same in all lanes, where it is made and where it is read (a value that lanes take out of a loop in
//! different iterations is not).
//!
//! **Algorithm** ([`plan`]). From each R2UR and VOTEU upwards along definitions: an instruction that has a uniform form is *converted* with what it reads; a value that comes from a
//! less frequent place, or whose definition has no such form, is a *leaf*, which goes over by one R2UR behind its definition. What hangs together is a *web*; it goes over if it then
//! takes no more instructions than before, each counted by how deep in loops it is. An instruction whose result general registers still need stays besides, unless everything that reads it there can
//! take a uniform register ([`forms::with_uniform`]).
//!
//! **Sums of pairs** ([`pairs`]). Descriptors of neighbouring products differ in a small number, their upper words not at all: UIADD3.64 makes such a pair of another one.
//!
//! **Room** ([`pressure`]). Uniform registers are few, and what is spilled from them comes back by R2UR: a function in which they would be too full stays as it was.
//!
//! Functions that call others are left alone: no uniform register lives across a call. Cost: the divergence analysis, and a visit of each instruction that is met.

mod build;
mod forms;
mod numbers;
mod pairs;
mod plan;
mod pressure;

pub use numbers::use_uniform_numbers;

use crate::loops::LoopAnalyses;
use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::{DefUse, Divergence};
use orias_ori::{Class, Function, FunctionKind, Inst, Value};
use orias_sass::Op;

/// Runs the phase.
pub fn use_uniform_datapath(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let roots = roots(func);
    if roots.is_empty() || func.kind == FunctionKind::Device {
        return Ok(());
    }
    let shape = LoopAnalyses::of(func);
    let chains = DefUse::new(func);
    let divergence = Divergence::new(func, &shape.graph, &shape.walk, &shape.nest, &chains);
    let target = context.machine.target;
    let plan = plan::Plan::of(func, &shape, &chains, &divergence, &roots, target);
    let before = func.clone();
    if !plan.is_empty() {
        build::build(func, &shape, &plan, target)?;
    }
    pairs::join_sums(func, target)?;
    if !pressure::fits(func, context.machine) {
        *func = before;
    }
    Ok(())
}

/// An instruction that puts something of general registers or predicates where the warp has one.
#[derive(Clone, Copy, Debug)]
struct Root {
    inst: Inst,
    source: Value,
    result: Value,
}

/// The instructions that the phase is about; none if the function has calls.
fn roots(func: &Function) -> Vec<Root> {
    let mut found = Vec::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        let root = match func.opcode(inst).as_machine() {
            Some(Op::R2UR) => forms::uniform_word(func, inst),
            Some(Op::VOTEU) => forms::uniform_predicate(func, inst),
            Some(op) if op.row().effects.intersects(orias_sass::Effects::CALL) => {
                return Vec::new();
            }
            _ => None,
        };
        found.extend(root);
    }
    found
}

/// The uniform class that holds what a value of `class` does.
fn uniform_class(class: Class) -> Option<Class> {
    match class {
        Class::R => Some(Class::UR),
        Class::P => Some(Class::UP),
        _ => None,
    }
}

fn broken(func: &Function, inst: Inst, what: impl Into<String>) -> PhaseError {
    PhaseError::Broken {
        at: orias_ori::print_inst(func, inst),
        what: what.into(),
    }
}
