//! How long the blocks of a finished cubin take, by its control words.

use super::control::{RescheduleError, lifted};
use orias_codegen::schedule::post;
use orias_cubin::Cubin;
use std::ops::Range;

/// What the control words of a function ask for.
#[derive(Clone, Debug)]
pub struct FunctionCycles {
    /// Its name.
    pub name: String,
    /// By block: its instructions, by their place in the code, and the cycles of a warp alone.
    pub blocks: Vec<(Range<usize>, u32)>,
}

/// The cycles of every block of every function of a cubin.
pub fn cycles(cubin: &Cubin) -> Result<Vec<FunctionCycles>, RescheduleError> {
    let mut functions = Vec::new();
    for view in cubin.functions() {
        let func = lifted(cubin, &view)?;
        let mut first = 0;
        let blocks = post::cycles_by_words(&func).into_iter().map(|found| {
            let insts = func.block_insts(found.block);
            let count = insts.filter(|inst| func.opcode(*inst).as_machine().is_some());
            let range = first..first + count.count();
            first = range.end;
            (range, found.cycles)
        });
        functions.push(FunctionCycles {
            name: view.name.to_owned(),
            blocks: blocks.collect(),
        });
    }
    Ok(functions)
}
