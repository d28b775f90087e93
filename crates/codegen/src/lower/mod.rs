//! Lowering: PTX becomes Ori.
//!
//! [`lower`] takes a module that `ptx::check` has nothing against and makes a [`LoweredModule`]: for each kernel a function of
//! abstract operations in SSA form, and beside it what is not code (parameters, symbols, launch limits, files).
//!
//! - `data`: variables become symbols with their initial bytes.
//! - `body`: the statements of a kernel in order; labels become blocks, guards kept values or branches, calls the
//!   callee's statements.
//! - `ssa`: registers that change become values that do not.
//! - `operands`: what PTX operands are in Ori: values, immediates, addresses.
//! - `rules`: for each PTX instruction the rule that lowers it. Most say "the same operation"; how modifiers carry over
//!   is in `modifiers`. The others are functions, in a module for each family.
//! - `contract`: products and sums that may be rounded once.
//!
//! Everything that cannot be lowered is reported, not only the first; a module with errors yields no code.

mod addresses;
mod arithmetic;
mod atomics;
mod body;
mod bulk;
mod calls;
mod contract;
mod control;
mod convert;
mod data;
mod debug;
mod destinations;
mod gradient;
mod graph;
mod lines;
mod links;
mod matrix;
mod mbarrier;
mod memory;
mod modifiers;
mod movement;
mod operands;
mod reference;
mod rules;
mod special;
mod surface;
mod sync;
mod tensormap;
mod texture;
mod unlikely;
mod video;
mod warpgroup;

use crate::module::{LoweredModule, SourceFile, near_name};
use orias_ori::operation::Cache;
use orias_ptx::Diagnostic;
use orias_ptx::ast;
use orias_sass::Target;
use rustc_hash::FxHashMap;

/// What lowering is told.
#[derive(Clone, Debug)]
pub struct LowerOptions {
    /// The target to compile for.
    pub target: Target,
    /// Whether a product and a sum may become one operation with one rounding (`--fmad`).
    pub contract: bool,
    /// The kernels to lower; all when empty.
    pub entries: Vec<String>,
    /// Whether locations say the line of the PTX, and how many lines precede its first one.
    pub ptx_lines: Option<u32>,
    /// How global memory is cached where the PTX does not say, or whatever it says.
    pub caches: Caches,
    /// Whether a debugger is to follow the code: functions are called, and registers of the source are kept. Needs `ptx_lines`.
    pub debug: bool,
    /// Whether a linker joins the module with others: every function is compiled, and what lies elsewhere may be named.
    pub relocatable: bool,
    /// In a program of several modules: how many bytes the constants of those before this one take. Others may define its `.extern` variables.
    pub constants_before: Option<u64>,
}

/// Cache operators of weak loads from and stores to global memory, by a global or a generic address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// Of loads.
    pub load: Option<CacheChoice>,
    /// Of stores.
    pub store: Option<CacheChoice>,
}

/// A cache operator, and whether it goes before what an instruction says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheChoice {
    /// The operator.
    pub cache: Cache,
    /// Whether it replaces that of the instruction.
    pub forced: bool,
}

impl Default for LowerOptions {
    fn default() -> Self {
        LowerOptions {
            target: Target::DEFAULT,
            contract: true,
            entries: Vec::new(),
            ptx_lines: None,
            caches: Caches::default(),
            debug: false,
            relocatable: false,
            constants_before: None,
        }
    }
}

/// Lowers a checked module.
///
/// ```
/// use orias_codegen::lower::{LowerOptions, lower};
///
/// let source = b".version 8.0\n.target sm_90a\n.address_size 64\n
///     .visible .entry one(.param .u64 p) {
///         .reg .b64 %rd<2>;
///         ld.param.u64 %rd1, [p];
///         st.global.u32 [%rd1], 1;
///         ret;
///     }";
/// let (ptx, _) = orias_ptx::parse(source);
/// let module = lower(&ptx, &LowerOptions::default()).unwrap();
/// let text = orias_ori::print_function(&module.kernels[0].code);
/// assert!(text.contains("v0:rx2 = ld.param.b64 [0x0]"), "{text}");
/// ```
pub fn lower(
    ptx: &orias_ptx::Module<'_>,
    options: &LowerOptions,
) -> Result<LoweredModule, Vec<Diagnostic>> {
    let mut problems = Vec::new();
    let symbols = data::Symbols::of(ptx, options, &mut problems);
    let lines = lines::Lines::of(ptx, options.ptx_lines);
    let mut module = LoweredModule {
        target: options.target,
        ptx_version: ptx.version,
        files: ptx
            .files
            .iter()
            .map(|file| SourceFile {
                index: file.index,
                name: ptx.text(file.name).trim_matches('"').to_owned(),
                stamp: file.stamp,
            })
            .collect(),
        ..LoweredModule::new(options.target)
    };
    let mut kernels = Vec::new();
    for item in &ptx.items {
        let ast::Item::Function(id) = *item else {
            continue;
        };
        let function = ptx.function(id);
        let name = ptx.name(function.name);
        let wanted = options.entries.is_empty() || options.entries.iter().any(|it| it == name);
        if function.entry && function.body.is_some() && wanted {
            kernels.push(id);
        }
    }
    let graph = graph::CallGraph::of(ptx, &symbols, options);
    let watches = options.debug.then(|| debug::Watches::of(ptx));
    let around = body::Surroundings {
        module: ptx,
        symbols: &symbols,
        lines: &lines,
        graph: &graph,
        watches: watches.as_ref(),
        options,
    };
    let mut externs = Vec::new();
    let mut functions = FxHashMap::default();
    for id in graph.compiled(&kernels) {
        let function = ptx.function(id);
        if function.returns.len() > 1 && graph.is_recursive(id) {
            // The ABI hands back one result; ptxas goes without it then, and cannot call what calls itself.
            let what = format!("Function '{}' is recursive", ptx.name(function.name));
            problems.push(Diagnostic::error(function.span, what));
            return Err(problems);
        }
        match body::lower_function(&around, id) {
            Ok((function, called)) => {
                functions.insert(id, function);
                externs.extend(called);
            }
            Err(found) => problems.extend(found),
        }
    }
    for id in kernels {
        // What an object's kernels call lies elsewhere, as far as they know.
        let called = match options.relocatable {
            true => Vec::new(),
            false => graph.reached(&[id]),
        };
        let called: Vec<_> = called.iter().filter_map(|id| functions.get(id)).collect();
        match body::lower_kernel(&around, id, &called) {
            Ok((mut kernel, called)) => {
                let inlined = graph.inlined(id).into_iter();
                let name = |id| ptx.name(ptx.function(id).name).to_owned();
                kernel.inlined = inlined.map(name).collect();
                module.kernels.push(kernel);
                externs.extend(called);
            }
            Err(found) => problems.extend(found),
        }
    }
    for it in externs {
        if !module.externs.contains(&it) {
            module.externs.push(it);
        }
    }
    if options.relocatable {
        module.links = Some(links::of(ptx));
    } else {
        let name = |id: &ast::FunctionId| near_name(ptx.name(ptx.function(*id).name));
        module.pointers = graph.pointers().iter().map(name).collect();
    }
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_by_key(|(id, _)| id.index());
    module.functions = functions.into_iter().map(|(_, it)| it).collect();
    module.symbols = symbols.list;
    module.entries = (ptx.functions.iter())
        .filter(|it| it.entry)
        .map(|it| ptx.name(it.name).to_owned())
        .collect();
    module.references = symbols.references;
    module.independent_textures = ptx
        .target_options
        .contains(&ast::TargetOption::TexmodeIndependent);
    module.debug_strings = lines.strings;
    if problems.is_empty() {
        Ok(module)
    } else {
        problems.sort_by_key(|problem| problem.span.start);
        problems.dedup();
        Err(problems)
    }
}
