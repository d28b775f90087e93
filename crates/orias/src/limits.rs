//! The threads, blocks and registers that kernels and functions may have: by their directives, by the command line, and by the chip.

use crate::diagnostics::{Diagnostic, Severity};
use crate::options::Options;
use orias_codegen::{Kernel, LoweredModule};
use orias_machine::Machine;
use orias_ori::Attributes;

/// Brings what the source asks for within what a multiprocessor has, with ptxas's words for what changes.
pub(crate) fn bounded(
    kernel: &mut Kernel,
    options: &Options,
    target: orias_sass::Target,
) -> Vec<Diagnostic> {
    let machine = Machine::of(target);
    let name = kernel.code.name.clone();
    let own = &mut kernel.code.attributes;
    let warning = |message| Diagnostic::new(Severity::Warning, message);
    let mut said = Vec::new();
    let fewest = machine.registers.fewest;
    let most = u32::from(machine.registers.general) + machine.registers.reserved;
    if own.max_registers > most {
        own.max_registers = 0;
        let what = format!("Too many maxnreg specified for entry {name}, will be ignored");
        said.push(warning(what));
    } else if own.max_registers > 0 && own.max_registers < fewest {
        let what = format!(
            "For entry {name} adjusting per thread register count of {} to lower bound of {fewest}",
            own.max_registers
        );
        own.max_registers = fewest;
        said.push(warning(what));
    }
    let mut asked = own.clone();
    ask(&mut asked, options);
    let problem = out_of_range(&asked, machine);
    said.extend(problem.map(|problem| warning(problem.words(&name))));
    said
}

/// What a kernel cannot have of the threads and blocks it asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutOfRange {
    /// So many blocks.
    Blocks,
    /// So many blocks of so many threads.
    ThreadsOfBlocks,
    /// So many threads of a block.
    Threads { blocks_too: bool },
}

impl OutOfRange {
    /// ptxas's words.
    fn words(self, kernel: &str) -> String {
        match self {
            OutOfRange::Blocks => format!(
                "Value of minnctapersm for entry {kernel} is out of range. minnctapersm will be ignored"
            ),
            OutOfRange::ThreadsOfBlocks => format!(
                "Value of threads per SM for entry {kernel} is out of range. .minnctapersm will be ignored"
            ),
            OutOfRange::Threads { blocks_too: false } => format!(
                "Value of threads per SM for entry {kernel} is out of range. .minnctapersm and .maxntid will be ignored"
            ),
            OutOfRange::Threads { blocks_too: true } => format!(
                "Value of maxntid, for entry {kernel} is out of range. .minnctapersm and .maxntid will be ignored"
            ),
        }
    }
}

fn out_of_range(own: &Attributes, machine: &Machine) -> Option<OutOfRange> {
    let most = u64::from(machine.registers.most_threads);
    let threads = own.max_threads.iter().map(|&n| u64::from(n.max(1)));
    let threads = threads.fold(1, u64::saturating_mul);
    let blocks = u64::from(own.min_blocks);
    if own.max_threads == [0; 3] {
        return None;
    }
    if own.min_blocks > machine.registers.most_blocks {
        return Some(OutOfRange::Blocks);
    }
    if threads > most {
        let blocks_too = blocks > 0;
        return Some(OutOfRange::Threads { blocks_too });
    }
    (threads.saturating_mul(blocks) > most).then_some(OutOfRange::ThreadsOfBlocks)
}

/// What ptxas says of functions with register counts of their own in whole programs.
pub(crate) fn ignored_counts(ptx: &orias_ptx::Module<'_>) -> Option<Diagnostic> {
    use orias_ptx::ast::FunctionDirectiveKind::LocalMaxNReg;
    let mut functions = ptx
        .functions
        .iter()
        .filter(|it| !it.entry && it.body.is_some());
    let some = functions.any(|it| it.directives.iter().any(|it| it.kind == LocalMaxNReg));
    let what = "Construct '.local_maxnreg' on device functions is supported only with --compile-only option, ignoring construct";
    some.then(|| Diagnostic::new(Severity::Warning, what))
}

/// Brings the `.local_maxnreg` of a module's kernels and functions within what the chip has, with ptxas's words for what changes. Functions that
/// are compiled with their callers have none.
pub(crate) fn local_counts(
    module: &mut LoweredModule,
    options: &Options,
    target: orias_sass::Target,
) -> Vec<Diagnostic> {
    let registers = Machine::of(target).registers;
    let most = u32::from(registers.general) + registers.reserved;
    let mut said = Vec::new();
    let mut bring = |name: &str, count: &mut Option<u32>| {
        let Some(asked) = *count else { return };
        let what = if asked > most {
            *count = None;
            format!("Too many local_maxnreg specified for entry {name}, will be ignored")
        } else if asked < registers.fewest {
            *count = Some(registers.fewest);
            format!(
                "For entry {name} adjusting per thread register count of {asked} to lower bound of {}",
                registers.fewest
            )
        } else {
            return;
        };
        said.push(Diagnostic::new(Severity::Warning, what));
    };
    for function in &mut module.functions {
        match options.compiles_all() {
            true => bring(&function.code.name, &mut function.local_registers),
            false => function.local_registers = None,
        }
    }
    for kernel in &mut module.kernels {
        bring(&kernel.code.name, &mut kernel.local_registers);
    }
    said
}

/// The smaller of two limits, of which 0 is none.
pub(crate) fn smaller(a: u32, b: Option<u32>) -> u32 {
    match (a, b) {
        (0, Some(b)) => b,
        (a, Some(b)) => a.min(b),
        (a, None) => a,
    }
}

/// Applies the limits of the command line, and leaves out of all limits what no multiprocessor has.
pub(crate) fn limit(own: &mut Attributes, options: &Options, machine: &Machine) {
    ask(own, options);
    if out_of_range(own, machine).is_some() {
        own.min_blocks = 0;
    }
}

/// Applies the limits of the command line. What the source says about an entry goes before it, unless it is to be overridden.
fn ask(own: &mut Attributes, options: &Options) {
    let wins = options.override_directives;
    if let Some(threads) = options.max_threads
        && (wins || own.max_threads == [0; 3])
    {
        own.max_threads = threads;
        own.required_threads = false;
    }
    if let Some(blocks) = options.min_blocks
        && (wins || own.min_blocks == 0)
    {
        own.min_blocks = blocks;
    }
    if let Some(registers) = options.max_registers
        && (wins || own.max_registers == 0 && own.max_threads == [0; 3])
    {
        own.max_registers = registers;
        own.override_registers = wins;
    }
}
