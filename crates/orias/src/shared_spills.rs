//! What keeps spilled registers from shared memory, in ptxas's words.

use crate::diagnostics::{Diagnostic, Severity};
use crate::options::Options;
use orias_codegen::Kernel;
use orias_ori::SharedSpills;

/// Why a kernel that asks for it cannot have its spilled registers in shared memory.
pub(crate) fn problem(kernel: &Kernel, options: &Options) -> Option<Diagnostic> {
    if kernel.code.attributes.shared_spills == SharedSpills::No {
        return None;
    }
    let alone = options.relocatable && !options.extensible
        || options.debug
        || options.fast_compile.is_some();
    let what = match (kernel.dynamic_shared, alone) {
        (Some(_), _) => "dynamic SMEM",
        (None, true) => "per-function compilation modes",
        (None, false) => return None,
    };
    Some(Diagnostic::new(
        Severity::Fatal,
        format!("Pragma 'enable_smem_spilling' is not allowed for {what}"),
    ))
}
