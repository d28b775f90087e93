//! Several modules in one cubin.
//!
//! What a module keeps to itself has a name of its own: a variable or function of a later module whose name is taken gets another one, in the
//! code and in initial values that speak of it, too. What is visible is there once; `.extern` variables are those that another
//! module defines. Constants of a later module lie behind those of the modules before it, which lowering is told
//! (`LowerOptions::constants_before`). Cost: linear in the number of names.

use crate::check::translate;
use crate::compile::Source;
use crate::diagnostics::{Diagnostic, Severity};
use crate::options::Options;
use orias_codegen::{Linkage, LoweredModule, SymbolSpace, near_name};
use orias_ptx::ast;
use orias_ptx::diagnostic::LineIndex;
use std::collections::{BTreeMap, BTreeSet};

/// Modules with the names and texts they came from.
pub(crate) type Modules<'a> = [(&'a Source<'a>, orias_ptx::Module<'a>)];

/// What is wrong with the entry functions that were asked for by name. Where every function is compiled anyway, they need only be functions.
pub(crate) fn missing_entry(modules: &Modules<'_>, options: &Options) -> Option<Diagnostic> {
    let find = |wanted: &str| {
        (modules.iter())
            .flat_map(|(_, module)| module.functions.iter().map(move |it| (module, it)))
            .find(|(module, it)| module.name(it.name) == wanted)
    };
    for wanted in &options.entries {
        if find(wanted).is_none() {
            let what = format!("Unknown function {wanted}");
            return Some(Diagnostic::new(Severity::Fatal, what));
        }
    }
    let mut wanted = options.entries.iter().filter(|_| !options.compiles_all());
    let wanted = wanted.find(|it| find(it).is_some_and(|(_, function)| !function.entry))?;
    let what = format!("Entry function '{wanted}' not found");
    Some(Diagnostic::new(Severity::Error, what))
}

/// What two modules define for all to see.
pub(crate) fn defined_twice(modules: &Modules<'_>) -> Vec<Diagnostic> {
    let mut known = BTreeSet::new();
    let mut problems = Vec::new();
    for (source, module) in modules {
        let seen = |linkage| !matches!(linkage, ast::Linkage::Internal | ast::Linkage::Extern);
        let mut own = Vec::new();
        for item in &module.items {
            match *item {
                ast::Item::Variable(id) => {
                    let it = module.variable(id);
                    own.extend(seen(it.linkage).then_some((it.name, it.span, "variable")));
                }
                ast::Item::Function(id) => {
                    let it = module.function(id);
                    let defined = it.body.is_some() && (it.entry || seen(it.linkage));
                    own.extend(defined.then_some((it.name, it.span, "function")));
                }
                _ => {}
            }
        }
        let lines = LineIndex::new(source.text);
        for &(name, span, what) in &own {
            let name = module.name(name);
            if known.contains(name) {
                let message = format!("Duplicate definition of {what} '{name}'");
                let said = orias_ptx::Diagnostic::error(span, message);
                problems.push(translate(&said, source.name, &lines));
            }
        }
        known.extend(own.iter().map(|&(name, ..)| module.name(name)));
    }
    problems
}

/// Adds a module to those before it.
pub(crate) fn merge(module: &mut LoweredModule, lowered: LoweredModule) -> Result<(), Diagnostic> {
    let mut lowered = renumbered(lowered, module);
    rename(&mut lowered, module);
    let names: BTreeSet<&str> = module
        .references
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    if let Some(twice) = (lowered.references.iter()).find(|it| names.contains(it.name.as_str())) {
        let what = format!("the texture or surface '{}' in several modules", twice.name);
        return Err(Diagnostic::unsupported(what));
    }
    for symbol in std::mem::take(&mut lowered.symbols) {
        let known = (module.symbols.iter_mut()).find(|known| known.name == symbol.name);
        match known {
            None => module.symbols.push(symbol),
            // Where it lies is part of the code already.
            Some(_) if symbol.space == SymbolSpace::Const => {
                let what = format!("the constant '{}' of another module", symbol.name);
                return Err(Diagnostic::unsupported(what));
            }
            Some(known) if known.linkage == Linkage::Extern => *known = symbol,
            Some(_) => {}
        }
    }
    module.target = lowered.target;
    module.ptx_version = module.ptx_version.max(lowered.ptx_version);
    module.kernels.extend(lowered.kernels);
    module.functions.extend(lowered.functions);
    module.pointers.extend(lowered.pointers);
    module.references.extend(lowered.references);
    module.entries.extend(lowered.entries);
    module.independent_textures |= lowered.independent_textures;
    module.externs.extend(lowered.externs);
    if let Some(links) = lowered.links {
        let known = module.links.get_or_insert_default();
        known.prototypes.extend(links.prototypes);
        known.indirect.extend(links.indirect);
        known.aliases.extend(links.aliases);
    }
    module.files.extend(lowered.files);
    module.debug_strings.extend(lowered.debug_strings);
    Ok(())
}

/// Gives what only `lowered` sees names that `module` has not.
fn rename(lowered: &mut LoweredModule, module: &LoweredModule) {
    let functions = |it: &LoweredModule| -> Vec<String> {
        let of_kernels = it.kernels.iter().map(|it| it.code.name.clone());
        let others = it.functions.iter().map(|it| it.code.name.clone());
        let symbols = it.symbols.iter().map(|it| it.name.clone());
        let references = it.references.iter().map(|it| it.name.clone());
        (of_kernels.chain(others).chain(symbols).chain(references))
            .chain(it.entries.iter().cloned())
            .collect()
    };
    let taken: BTreeSet<String> = functions(module).into_iter().collect();
    let mut all = taken.clone();
    all.extend(functions(lowered));
    let own = |linkage| linkage == Linkage::Internal;
    let symbols = (lowered.symbols.iter()).filter(|it| own(it.linkage));
    let of_code = (lowered.functions.iter()).filter(|it| own(it.linkage));
    let parameters = (lowered.references.iter()).filter(|it| it.parameter_of.is_some());
    let names = (symbols.map(|it| &it.name))
        .chain(of_code.map(|it| &it.code.name))
        .chain(parameters.map(|it| &it.name));
    let mut new: BTreeMap<String, String> = BTreeMap::new();
    for name in names.filter(|it| taken.contains(*it)) {
        let mut number = 1;
        let mut other = format!("{name}${number}");
        while !all.insert(other.clone()) {
            number += 1;
            other = format!("{name}${number}");
        }
        // A function of a whole program has a name in code that is not its own.
        new.insert(near_name(name), near_name(&other));
        new.insert(name.clone(), other);
    }
    if new.is_empty() {
        return;
    }
    let put = |name: &mut String| {
        if let Some(other) = new.get(name) {
            name.clone_from(other);
        }
    };
    for symbol in &mut lowered.symbols {
        put(&mut symbol.name);
        symbol.owner.iter_mut().for_each(put);
        (symbol.relocations.iter_mut()).for_each(|it| put(&mut it.symbol));
    }
    for kernel in &mut lowered.kernels {
        kernel.code.rename_symbols(|name| new.get(name).cloned());
        (kernel.shared.iter_mut()).for_each(|it| put(&mut it.symbol));
        kernel.callees.iter_mut().for_each(put);
        kernel.inlined.iter_mut().for_each(put);
    }
    for function in &mut lowered.functions {
        function.code.rename_symbols(|name| new.get(name).cloned());
        put(&mut function.code.name);
    }
    lowered.pointers.iter_mut().for_each(put);
    (lowered.references.iter_mut()).for_each(|it| put(&mut it.name));
    if let Some(links) = &mut lowered.links {
        let both = (links.prototypes.iter_mut())
            .chain(&mut links.indirect)
            .chain(&mut links.aliases);
        for (of, to) in both {
            put(of);
            put(to);
        }
    }
}

/// Lets a module's locations count files and strings on from those of the modules before it.
fn renumbered(mut lowered: LoweredModule, module: &LoweredModule) -> LoweredModule {
    let files = module
        .files
        .iter()
        .map(|file| file.index)
        .max()
        .unwrap_or(0);
    let strings = module.debug_strings.len() as u32;
    if files == 0 && strings == 0 {
        return lowered;
    }
    for file in &mut lowered.files {
        file.index += files;
    }
    let kernels = lowered.kernels.iter_mut().map(|kernel| &mut kernel.code);
    let functions = lowered.functions.iter_mut().map(|it| &mut it.code);
    for code in kernels.chain(functions) {
        for location in code.locations.values_mut() {
            location.file += if location.line > 0 { files } else { 0 };
            location.function = location.function.map(|at| at + strings);
        }
    }
    lowered
}
