//! How much stack a kernel needs: its frame, and those of the functions in its text that may be at work at the same time.
//!
//! The longest way through the graph of calls, found from its leaves up. A function that may come to be called again before it returns counts once:
//! how often it will be is not known, and whoever launches the kernel must ask for more. Cost: linear in the number of calls.

use super::{Called, Finished, called_by};
use orias_mercury::{Code, Patch};
use orias_ori::{Function, Opcode, Operand};
use orias_sass::Mnemonic;
use std::collections::BTreeMap;

/// Bytes of stack of a kernel and what it calls. A call through a pointer may reach each of `pointers`.
pub(crate) fn deepest(finished: &Finished, functions: &[Called], pointers: &[String]) -> u32 {
    let called = called_by(finished, functions);
    let number: BTreeMap<&str, usize> = (called.iter().enumerate())
        .map(|(number, it)| (it.function.name.as_str(), number))
        .collect();
    let callees = |function: &Function, code: &Code| -> Vec<usize> {
        // Calls are relative; what has the whole address of a function only asks where it is.
        let calls = (code.relocations.iter()).filter(|it| it.patch == Patch::Distance);
        let mut found: Vec<usize> = calls
            .filter_map(|it| number.get(it.symbol.as_str()).copied())
            .collect();
        if calls_through_pointers(function) {
            found.extend(pointers.iter().filter_map(|it| number.get(it.as_str())));
        }
        found.sort_unstable();
        found.dedup();
        found
    };
    let calls: Vec<Vec<usize>> = called
        .iter()
        .map(|it| callees(&it.function, &it.code))
        .collect();
    let mut callers = vec![Vec::new(); called.len()];
    for (caller, callees) in calls.iter().enumerate() {
        for &callee in callees {
            callers[callee].push(caller);
        }
    }
    let frame = |at: usize| called[at].function.attributes.local;
    let mut open: Vec<usize> = calls.iter().map(Vec::len).collect();
    let mut below = vec![0_u32; called.len()];
    let mut deep: Vec<Option<u32>> = vec![None; called.len()];
    let mut ready: Vec<usize> = (0..called.len()).filter(|&at| open[at] == 0).collect();
    while let Some(at) = ready.pop() {
        let bytes = frame(at).saturating_add(below[at]);
        deep[at] = Some(bytes);
        for &caller in &callers[at] {
            below[caller] = below[caller].max(bytes);
            open[caller] -= 1;
            if open[caller] == 0 {
                ready.push(caller);
            }
        }
    }
    // What is left calls itself, or what does.
    let left = (0..called.len()).filter(|&at| deep[at].is_none());
    let around = left.clone().map(frame).fold(0, u32::saturating_add);
    let around = around.saturating_add(left.map(|at| below[at]).max().unwrap_or(0));
    let of_callees = callees(&finished.kernel.code, &finished.code).into_iter();
    let most = of_callees.map(|at| deep[at].unwrap_or(around)).max();
    (finished.kernel.code.attributes.local).saturating_add(most.unwrap_or(0))
}

fn calls_through_pointers(function: &Function) -> bool {
    let mut insts = function.blocks().flat_map(|it| function.block_insts(it));
    insts.any(|inst| match function.opcode(inst) {
        Opcode::Machine(op) if op.mnemonic() == Mnemonic::CALL => {
            let mut operands = function.operands(inst).iter();
            operands.any(|it| matches!(it, Operand::Reg { .. }))
        }
        _ => false,
    })
}
