//! First looks: who waits at an mbarrier looks once before the loop that waits.
//!
//! ```text
//! around:  over = mbarrier_wait …        look:    over = mbarrier_wait …
//!          cbr over, done, around                 cbr over, done, around
//!                                         around:  again = mbarrier_wait …
//!                                                  cbr again, done, around
//! ```
//!
//! In a pipeline that runs well the phase is over when somebody comes to wait for it. So the loop is rare, and goes behind everything else, together with what lanes that wait do for
//! others (YIELD); the look stands in a row with what comes before and behind, where it can be hidden behind arithmetic. ptxas does the same.
//!
//! Done for loops of one block, besides one that only jumps back, which does nothing but look and compute, in at most [`MOST`] instructions. Linear in what is
//! copied, besides the analyses, which are made only for functions with such operations.

use crate::loops::{LoopAnalyses, Region, close, copy};
use orias_ori::analysis::{DefUse, Loop};
use orias_ori::operation::Wait;
use orias_ori::{AbstractOp, Block, Effects, Function, Inst, Operand};

/// Instructions of a loop that waits.
const MOST: usize = 8;

/// The time limit among the sources of a look.
const TIME: usize = 2;

/// A loop that waits.
struct WaitingLoop {
    of: Loop,
    header: Block,
    /// A block of the loop that only jumps back.
    jump: Option<Block>,
}

/// Puts a first look before each loop that waits at an mbarrier.
pub(super) fn expand(func: &mut Function) {
    let looks = |block: Block| func.block_insts(block).any(|inst| is_look(func, inst));
    if !func.blocks().any(looks) {
        return;
    }
    let shape = LoopAnalyses::of(func);
    let waits: Vec<WaitingLoop> = shape
        .nest
        .loops()
        .filter_map(|of| wait(func, &shape, of))
        .collect();
    if waits.is_empty() {
        return;
    }
    let uses = DefUse::new(func);
    let mut closed = Vec::new();
    for wait in waits {
        let region = Region::new(shape.nest.blocks(wait.of).to_vec());
        if let Some(closing) = close(func, &shape, &uses, &region) {
            closed.push((wait, closing));
        }
    }
    for (_, closing) in &closed {
        closing.apply(func, &shape);
    }
    for (WaitingLoop { header, jump, .. }, _) in closed {
        if let Some(jump) = jump {
            jump_at_once(func, header, jump);
        }
        // What stands there is the first look, and the copy the loop.
        let around = copy(func, &Region::new(vec![header]), header, header).block(header);
        for from in [header, around] {
            for place in 0..func.successor_edges(from).len() {
                let edge = func.successor_edges(from)[place];
                if func.edge_target(edge) == header {
                    let args = func.edge_args(edge).to_vec();
                    func.set_edge(edge, around, &args);
                }
            }
        }
        func.attributes.rare.insert(around);
        let looks: Vec<Inst> = (func.block_insts(header))
            .filter(|&inst| is_look(func, inst))
            .collect();
        for look in looks {
            // How long somebody sleeps is said where the loop looks again.
            func.set_operand(look, func.result_count(look) + TIME, Operand::None);
        }
    }
}

/// Lets `header` go back to itself where it goes by way of `jump`, which does nothing else and goes.
fn jump_at_once(func: &mut Function, header: Block, jump: Block) {
    let Some(last) = func.layout.last_inst(jump) else {
        return;
    };
    let args = func.edge_args(func.edges(last)[0]).to_vec();
    for place in 0..func.successor_edges(header).len() {
        let edge = func.successor_edges(header)[place];
        if func.edge_target(edge) == jump {
            func.set_edge(edge, header, &args);
        }
    }
    func.remove_inst(last);
    func.layout.remove_block(jump);
}

/// Whether `inst` asks an mbarrier whether a phase is over, and may wait for that. Who does not mean to wait (`test_wait`) has other things to do.
fn is_look(func: &Function, inst: Inst) -> bool {
    func.opcode(inst).as_abstract() == Some(AbstractOp::MbarrierWait)
        && matches!(func.modifier(inst), Some(Wait::Try | Wait::TryParity))
}

/// How `of` waits, if it does nothing else.
fn wait(func: &Function, shape: &LoopAnalyses, of: Loop) -> Option<WaitingLoop> {
    let nest = &shape.nest;
    let header = nest.header(of);
    let jump = match *nest.blocks(of) {
        [_] => None,
        [a, b] => {
            let other = if a == header { b } else { a };
            only_jumps(func, other).then_some(Some(other))?
        }
        _ => return None,
    };
    let last = func.terminator(header)?;
    let leaves = func.successors(header).any(|to| !nest.contains(of, to));
    let tests = func.opcode(last).as_abstract() == Some(AbstractOp::CondBr);
    if nest.is_irreducible(of) || !tests || !leaves {
        return None;
    }
    let mut looks = false;
    for (number, inst) in func.block_insts(header).enumerate() {
        let look = is_look(func, inst);
        looks |= look;
        let operands = func.operands(inst).iter();
        let named = operands.filter(|operand| matches!(operand, Operand::Block(_)));
        let plain = look || inst == last || func.opcode(inst).effects() == Effects::NONE;
        if number >= MOST || named.count() > 0 || !plain {
            return None;
        }
    }
    looks.then_some(WaitingLoop { of, header, jump })
}

/// Whether `block` does nothing but jump.
fn only_jumps(func: &Function, block: Block) -> bool {
    let first = func.layout.first_inst(block);
    func.block_params(block).is_empty()
        && first.is_some_and(|inst| {
            func.opcode(inst).as_abstract() == Some(AbstractOp::Br)
                && func.inst(inst).guard().is_always()
        })
}
