//! Entries whose stack has no known size: ptxas says so where a linker or a debugger comes, unless told not to.
//!
//! A stack has no bound where a function may come to be called again before it returns, by name or through a pointer to a function whose
//! address is taken, and, in a program that a linker finishes, where `alloca` asks for memory. One walk over the calls from each entry, which
//! ends at the first call back.

use crate::diagnostics::{Diagnostic, Severity};
use crate::options::Options;
use orias_ptx::Module;
use orias_ptx::ast::{FunctionId, InitialiserPart, OperandKind};
use orias_ptx::grammar::Op;
use orias_ptx::name::Name;
use rustc_hash::{FxHashMap, FxHashSet};

/// What one function calls.
#[derive(Default)]
struct Calls {
    named: Vec<Name>,
    through_pointers: bool,
    allocates: bool,
}

/// The warnings about a module.
pub(crate) fn warnings(ptx: &Module<'_>, options: &Options) -> Vec<Diagnostic> {
    let linked_later = options.extensible;
    let whole = !options.relocatable && options.debug;
    if options.no_stack_size_warning || !(linked_later || whole) {
        return Vec::new();
    }
    let mut pointers: FxHashSet<Name> = FxHashSet::default();
    let mut calls: FxHashMap<Name, Calls> = FxHashMap::default();
    let name_of = |id: FunctionId| {
        let name = ptx.function(id).name;
        let alias = ptx.aliases.iter().find(|it| it.name == name);
        alias.map_or(name, |it| it.of)
    };
    for function in &ptx.functions {
        let Some(body) = &function.body else { continue };
        let own = calls.entry(function.name).or_default();
        for instruction in &body.instructions {
            let op = ptx.opcode(instruction).op;
            let operands = body.operands(instruction).iter();
            let named = operands.filter_map(|operand| match operand.kind {
                OperandKind::Function(id) => Some(name_of(id)),
                _ => None,
            });
            let named: Vec<Name> = named.collect();
            match op {
                Some(Op::Call) if named.is_empty() => own.through_pointers = true,
                Some(Op::Call) => own.named.extend(named),
                Some(Op::Alloca) => own.allocates = true,
                _ => pointers.extend(named),
            }
        }
    }
    let initial = ptx
        .variables
        .iter()
        .filter_map(|it| it.initialiser.as_ref());
    for part in initial.flat_map(|it| &it.parts) {
        if let InitialiserPart::Function(id) = part {
            pointers.insert(name_of(*id));
        }
    }
    let mut pointers: Vec<Name> = pointers.into_iter().collect();
    pointers.sort_unstable();
    let entries = ptx
        .functions
        .iter()
        .filter(|it| it.entry && it.body.is_some());
    let unbounded = entries.filter(|it| is_unbounded(it.name, &calls, &pointers, linked_later));
    let warning = |name: Name| {
        let what = format!(
            "Stack size for entry function '{}' cannot be statically determined",
            ptx.name(name)
        );
        Diagnostic::new(Severity::Warning, what)
    };
    unbounded.map(|it| warning(it.name)).collect()
}

/// Whether the calls from `entry` come back to a function that has not returned, or ask for memory on the stack where that counts.
fn is_unbounded(
    entry: Name,
    calls: &FxHashMap<Name, Calls>,
    pointers: &[Name],
    counts_allocations: bool,
) -> bool {
    let next = |name: Name| -> Vec<Name> {
        let Some(own) = calls.get(&name) else {
            return Vec::new();
        };
        let through: &[Name] = if own.through_pointers { pointers } else { &[] };
        own.named.iter().chain(through).copied().collect()
    };
    let allocates =
        |name: Name| counts_allocations && calls.get(&name).is_some_and(|it| it.allocates);
    let mut open = FxHashSet::default();
    let mut seen = FxHashSet::default();
    let mut path = vec![(entry, next(entry))];
    open.insert(entry);
    seen.insert(entry);
    if allocates(entry) {
        return true;
    }
    while let Some((name, rest)) = path.last_mut() {
        let Some(callee) = rest.pop() else {
            open.remove(name);
            path.pop();
            continue;
        };
        if open.contains(&callee) || allocates(callee) {
            return true;
        }
        if seen.insert(callee) {
            open.insert(callee);
            path.push((callee, next(callee)));
        }
    }
    false
}
