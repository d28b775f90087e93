//! Finished cubins through Ori: lifting their functions, and computing their control words anew.

use crate::disassemble::target_of;
use orias_cubin::attribute::Value;
use orias_cubin::{Cubin, FunctionView};
use orias_mercury::{LiftError, Source, lift};
use orias_ori::{Function, FunctionKind};
use orias_sass::Target;
use std::collections::BTreeMap;

/// Where the indirect branches of a function may go, by their offset, as the container lists them.
pub fn indirect_targets(view: &FunctionView<'_>) -> BTreeMap<usize, Vec<usize>> {
    let lists = view
        .attributes
        .iter()
        .filter_map(|attribute| match &attribute.value {
            Value::IndirectBranches(branches) => Some(branches),
            _ => None,
        });
    lists
        .flatten()
        .map(|branch| {
            let targets = branch.targets.iter().map(|&target| target as usize);
            (branch.offset as usize, targets.collect())
        })
        .collect()
}

/// One function of a cubin as Ori with physical registers and control words.
pub fn lifted(cubin: &Cubin, view: &FunctionView<'_>) -> Result<Function, LiftError> {
    let subroutines: Vec<usize> = view
        .subroutines
        .iter()
        .map(|(_, symbol)| symbol.value as usize)
        .collect();
    lift(&Source {
        name: view.name,
        kind: if view.is_entry {
            FunctionKind::Entry
        } else {
            FunctionKind::Device
        },
        code: view.code,
        target: target_of(cubin).unwrap_or(Target::Sm90a),
        indirect: &indirect_targets(view),
        subroutines: &subroutines,
    })
}
