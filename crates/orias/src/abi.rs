//! What functions have that the ABI has no way for, in ptxas's words.
//!
//! A function with several results makes ptxas do without the ABI, and a linker wants the ABI. With it, predicates and numbers of 8 and 16
//! bits that are no bit patterns are not handed over: that is said of functions that have code in the end, and of what they call. In an object and
//! for debuggers every function has code, else those that some kernel comes to.

use crate::diagnostics::{Diagnostic, Severity};
use crate::options::Options;
use orias_ptx::Module;
use orias_ptx::ast::{
    Body, Function, FunctionDirectiveKind, FunctionId, OperandKind, TargetListKind, VariableId,
};
use orias_ptx::name::Name;
use orias_ptx::types::Type;
use rustc_hash::FxHashSet;

/// What ptxas says before it compiles; nothing can be made where the last message is fatal.
pub(crate) fn remarks(ptx: &Module<'_>, options: &Options) -> Vec<Diagnostic> {
    let fatal = |what: &str| Diagnostic::new(Severity::Fatal, what.to_owned());
    let functions = ptx.functions.iter().filter(|it| !it.entry);
    let mut defined = functions.filter(|it| it.body.is_some());
    if let Some(function) = defined.find(|it| it.returns.len() > 1) {
        if options.debug {
            let what = "Function with multiple return values is not allowed with ABI";
            return vec![Diagnostic::new(Severity::Error, what.to_owned())];
        }
        let name = ptx.name(function.name);
        let what = format!("Function '{name}' with multiple return values found, disabling ABI");
        let warning = |what: String| Diagnostic::new(Severity::Warning, what);
        let mut said = Vec::new();
        if options.extensible {
            said.push(warning(
                "Command line option '--extensible-whole-program' not supported for 'compilation without ABI', will be ignored".to_owned(),
            ));
        }
        said.push(warning(what));
        if options.relocatable && !options.extensible {
            said.push(fatal("'Compile only(-c)' requires ABI"));
        }
        return said;
    }
    if options.relocatable && !options.extensible {
        let mut functions = ptx.functions.iter();
        if let Some(function) = functions.find(|it| asks_for_registers_kept(it)) {
            let name = ptx.name(function.name);
            let what = format!("'.abi_preserve' of '{name}' in an object");
            return vec![Diagnostic::unsupported(what)];
        }
    }
    let compiled = compiled(ptx, options);
    let mut signatures: Vec<Signature<'_>> = Vec::new();
    for function in &compiled {
        if !function.entry {
            signatures.push((&function.returns, &function.parameters));
        }
        let Some(body) = &function.body else { continue };
        for list in &body.lists {
            if let TargetListKind::Prototype(prototype) = &list.kind {
                signatures.push((&prototype.returns, &prototype.parameters));
            }
        }
    }
    let narrow = |ids: &[VariableId]| ids.iter().any(|&id| is_narrow(ptx, id));
    for (returns, parameters) in signatures {
        if narrow(parameters) {
            return vec![fatal(
                "In ABI compilation, passing predicate, 8-bit and 16-bit parameters to device functions is not supported",
            )];
        }
        if narrow(returns) {
            return vec![fatal(
                "In ABI compilation, returning predicate, 8-bit and 16-bit values from device functions is not supported",
            )];
        }
    }
    Vec::new()
}

/// Whether some function makes ptxas do without the ABI.
pub(crate) fn is_impossible(ptx: &Module<'_>) -> bool {
    let mut functions = ptx.functions.iter();
    functions.any(|it| !it.entry && it.body.is_some() && it.returns.len() > 1)
}

/// Whether a function, or a call through a pointer in it, is by another convention than the usual one. Where both sides are compiled together that is
/// nobody's business; ptxas's callers in another object look for the return address elsewhere.
fn asks_for_registers_kept(function: &Function) -> bool {
    let lists = function.body.iter().flat_map(|body| &body.lists);
    let prototypes = lists.filter_map(|list| match &list.kind {
        TargetListKind::Prototype(prototype) => Some(&prototype.directives),
        _ => None,
    });
    let mut all = prototypes.chain([&function.directives]).flatten();
    all.any(|it| {
        use FunctionDirectiveKind::{AbiPreserve, AbiPreserveControl};
        matches!(it.kind, AbiPreserve | AbiPreserveControl)
    })
}

/// Results and parameters.
type Signature<'a> = (&'a [VariableId], &'a [VariableId]);

fn is_narrow(ptx: &Module<'_>, id: VariableId) -> bool {
    let variable = ptx.variable(id);
    let narrow = [Type::Pred, Type::U8, Type::S8, Type::U16, Type::S16];
    variable.dimensions.is_empty() && variable.vector <= 1 && narrow.contains(&variable.ty)
}

/// The functions that have code in the end, and those that these name.
fn compiled<'a>(ptx: &'a Module<'_>, options: &Options) -> Vec<&'a Function> {
    let wanted = |function: &&Function| {
        let asked = || {
            let name = ptx.name(function.name);
            options.entries.is_empty() || options.entries.iter().any(|it| it == name)
        };
        let all = options.compiles_all();
        function.body.is_some() && (all || function.entry && asked())
    };
    let mut pending: Vec<&Function> = ptx.functions.iter().filter(wanted).collect();
    let mut seen: FxHashSet<Name> = pending.iter().map(|it| it.name).collect();
    let mut found = Vec::new();
    while let Some(function) = pending.pop() {
        found.push(function);
        let Some(body) = &function.body else { continue };
        for id in named(body) {
            let alias = ptx
                .aliases
                .iter()
                .find(|it| it.name == ptx.function(id).name);
            let name = alias.map_or(ptx.function(id).name, |it| it.of);
            if seen.insert(name) {
                let same = || ptx.functions.iter().filter(|it| it.name == name);
                let defined = same().find(|it| it.body.is_some());
                pending.extend(defined.or_else(|| same().next()));
            }
        }
    }
    found
}

/// The functions that code calls or whose address it takes.
fn named(body: &Body) -> impl Iterator<Item = FunctionId> {
    body.operands
        .iter()
        .filter_map(|operand| match operand.kind {
            OperandKind::Function(id) => Some(id),
            _ => None,
        })
}
