//! Code that a tool patches into programs (`--compile-as-tools-patch`): functions that are called by the ABI, each with a text of its own.
//!
//! What the patched program has in use is not the patch's: it has no more registers than every function may use, no uniform registers,
//! and accesses to global memory without a descriptor, which would be in one. Nothing is added to what the program's launch has been
//! given: no shared memory and no constants. Nobody joins calls through pointers with what they reach, so functions have no addresses.

use crate::container::Called;
use crate::diagnostics::{Diagnostic, Severity};
use crate::options::Options;
use orias_codegen::schedule::budget::named_registers;
use orias_ori::Class;
use orias_ptx::Module;
use orias_ptx::ast::{OperandKind, Space};
use orias_ptx::grammar::Op;

/// The registers that a patch may use.
pub(crate) const REGISTERS: u32 = 24;

const OPTION: &str = "command line option '--compile-as-tools-patch' is specified";

/// The families of instructions that ptxas expands by functions of its own, which a patch does not have, and those among them that it
/// does not expand.
const REFUSED: [(&str, &[&str]); 3] = [
    ("redux", &[]),
    ("cp", &["cp.async.bulk", "cp.reduce"]),
    ("mbarrier", &["mbarrier.try_wait", "mbarrier.inval"]),
];

/// What a module has that no patch has, in ptxas's words and order.
pub(crate) fn problems(ptx: &Module<'_>, options: &Options) -> Vec<Diagnostic> {
    let error = |what: String| Diagnostic::new(Severity::Error, what);
    let mut found = Vec::new();
    if let Some(most) = options.max_registers.filter(|&most| most > REGISTERS) {
        found.push(error(format!(
            "Invalid value '{most}' of 'maxrregcount' with option '--compile-as-tools-patch'"
        )));
    }
    let has = |space: Space| ptx.variables.iter().any(|it| it.space == space);
    for (space, what) in [
        (Space::Shared, "Allocating additional shared memory"),
        (Space::Const, "Allocating additional constants"),
    ] {
        if has(space) {
            found.push(error(format!("{what} is not allowed when {OPTION}")));
        }
    }
    if ptx.functions.iter().any(|it| it.entry) {
        found.push(error(format!(
            "Entry function is not allowed when {OPTION}"
        )));
    }
    let bodies = ptx.functions.iter().filter_map(|it| it.body.as_ref());
    for body in bodies {
        for instruction in &body.instructions {
            let opcode = ptx.opcode(instruction);
            let name = opcode.op.map_or("", Op::name);
            let family = name.split('.').next().unwrap_or(name);
            let refused = REFUSED.iter().any(|(refused, but)| {
                *refused == family && !but.iter().any(|but| name.starts_with(but))
            });
            let functions = body.operands(instruction).iter();
            let mut functions = functions.filter(|it| matches!(it.kind, OperandKind::Function(_)));
            let what = match (opcode.op == Some(Op::Call), functions.next().is_some()) {
                _ if refused => format!("Instruction '{family}' is not allowed when {OPTION}"),
                (true, false) => {
                    format!("Using indirect function calls is not allowed when {OPTION}")
                }
                (false, true) => {
                    format!("Taking address of device functions is not allowed when {OPTION}")
                }
                _ => continue,
            };
            found.push(error(what));
        }
    }
    found
}

/// A warning for each function that could not do without uniform registers.
pub(crate) fn uniform_registers(functions: &[Called]) -> Vec<Diagnostic> {
    let counts = functions
        .iter()
        .map(|it| named_registers(&it.function, Class::UR));
    let needed = counts.filter(|&count| count > 0);
    let warning = |count| {
        let what = format!(
            "(C7601) Uniform registers were disallowed, but the compiler required ({count}) uniform registers for correct code generation."
        );
        Diagnostic::new(Severity::Warning, what)
    };
    needed.map(warning).collect()
}
