//! The report of `-v`: what each kernel uses, in ptxas's words.

use crate::container::{Called, Finished, Text, called_by, deepest, text_barriers, text_registers};
use crate::diagnostics::{Diagnostic, Severity};
use crate::options::Options;
use orias_codegen::{Linkage, LoweredModule, SymbolSpace, most_registers};
use orias_machine::Machine;
use orias_ori::{Function, Inst, Opcode, Operand, Reg, machine};
use orias_sass::{Op, Target};
use std::time::Duration;

/// What a kernel uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Its name.
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Named barriers.
    pub barriers: u32,
    /// Bytes of its stack frame.
    pub stack: u32,
    /// Bytes of stack of the kernel and of what it calls.
    pub whole_stack: u32,
    /// Bytes of code's stores of spilled values.
    pub spill_stores: u32,
    /// Bytes of code's loads of spilled values.
    pub spill_loads: u32,
    /// Bytes of static shared memory.
    pub shared: u32,
    /// How long its pipeline took.
    pub time: Duration,
}

/// What each kernel uses, in the order of the source. Shared memory that an object's kernels have in common is the linker's to count.
pub(crate) fn usage(
    module: &LoweredModule,
    kernels: &[Finished],
    functions: &[Called],
    options: &Options,
    target: Target,
) -> Vec<Usage> {
    let one = |finished: &Finished| {
        let function = &finished.kernel.code;
        let text = Text::new(finished, functions);
        let (spill_stores, spill_loads) = spills(finished.declared.local, function);
        Usage {
            name: function.name.clone(),
            registers: text_registers(&text, target),
            barriers: text_barriers(&text).into(),
            stack: function.attributes.local,
            whole_stack: deepest(finished, functions, &module.pointers),
            spill_stores,
            spill_loads,
            shared: match options.relocatable {
                true => own_shared(module, &function.name),
                false => function.attributes.shared,
            },
            time: finished.time,
        }
    };
    kernels.iter().map(one).collect()
}

/// Bytes of the shared variables that a kernel declares itself.
fn own_shared(module: &LoweredModule, kernel: &str) -> u32 {
    let own = module.symbols.iter().filter(|symbol| {
        symbol.space == SymbolSpace::Shared && symbol.owner.as_deref() == Some(kernel)
    });
    let end = own.fold(0, |end: u64, symbol| {
        end.next_multiple_of(symbol.align.max(1).into()) + symbol.size
    });
    u32::try_from(end).unwrap_or(u32::MAX)
}

/// What there is to say about a module: limits that changed, its global memory, then each kernel, the last one first as ptxas has it.
pub(crate) fn report(
    module: &LoweredModule,
    kernels: &[Finished],
    usage: &[Usage],
    functions: &[Called],
    options: &Options,
    target: Target,
) -> Vec<Diagnostic> {
    let global: u64 = module
        .symbols
        .iter()
        .filter(|it| it.space == SymbolSpace::Global && it.linkage != Linkage::Extern)
        .map(|symbol| symbol.size)
        .sum();
    let mut lines = Vec::new();
    for finished in kernels.iter().rev() {
        lines.extend(overridden(finished, options, target));
    }
    lines.push(info(format!("{global} bytes gmem")));
    if options.relocatable {
        for called in functions {
            lines.push(properties(
                called.name(),
                called.declared.local,
                &called.function,
            ));
            lines.push(compile_time(called.time));
        }
    }
    for (finished, used) in kernels.iter().zip(usage).rev() {
        lines.extend(kernel(used, options, target));
        let called = called_by(finished, functions);
        let mut of_functions: Vec<(&str, Diagnostic, Option<Duration>)> = (called.into_iter())
            .map(|it| {
                (
                    it.name(),
                    properties(it.name(), it.declared.local, &it.function),
                    Some(it.time),
                )
            })
            .collect();
        // What became part of a kernel has no frame of its own.
        if !options.relocatable {
            let inlined = finished.kernel.inlined.iter();
            of_functions.extend(inlined.map(|name| (name.as_str(), frame(name, 0, 0, 0), None)));
            of_functions.sort_by_key(|(name, ..)| *name);
            of_functions.dedup_by_key(|(name, ..)| *name);
        }
        // ptxas compiles each function by itself then.
        let alone = options.debug || options.fast_compile.is_some();
        for (_, line, time) in of_functions {
            lines.push(line);
            lines.extend(time.filter(|_| alone).map(compile_time));
        }
    }
    lines
}

/// What became of `--maxrregcount` in a kernel, where its directives and the option do not say the same.
fn overridden(finished: &Finished, options: &Options, target: Target) -> Vec<Diagnostic> {
    let Some(limit) = options.max_registers else {
        return Vec::new();
    };
    let own = &finished.declared;
    let mut lines = Vec::new();
    if own.max_registers > 0 && own.max_registers != limit {
        lines.push(info(format!(
            "Overriding global maxrregcount {limit} with entry-specific value {} of .maxnreg",
            own.max_registers
        )));
    } else if own.max_threads != [0; 3] && own.min_blocks > 0 {
        let counted = most_registers(own, target);
        if counted != limit {
            lines.push(info(format!(
                "Overriding global maxrregcount {limit} with entry-specific value {counted} computed using thread count"
            )));
        }
    }
    let limits = &finished.kernel.code.attributes;
    if limits.max_registers == limit && own.max_registers == 0 {
        lines.push(info(format!(
            "Overriding maximum register limit 256 for '{}' with  {limit} of maxrregcount option",
            finished.kernel.code.name
        )));
    }
    lines
}

/// The warnings about memory that options ask for.
pub(crate) fn warnings(
    kernels: &[Finished],
    functions: &[Called],
    options: &Options,
) -> Vec<Diagnostic> {
    let warning = |message| Diagnostic::new(Severity::Warning, message);
    let mut lines = Vec::new();
    if !(options.warn_on_spills || options.warn_on_local_memory) {
        return lines;
    }
    let all = kernels.iter().rev().map(|it| {
        let function = &it.kernel.code;
        (function.name.as_str(), it.declared.local, function)
    });
    let called = functions.iter();
    let called = called.map(|it| (it.name(), it.declared.local, &it.function));
    for (name, locals, function) in all.chain(called) {
        let frame = function.attributes.local;
        let (stores, loads) = spills(locals, function);
        if options.warn_on_spills && stores + loads > 0 {
            lines.push(warning(format!(
                "Registers are spilled to local memory in function '{name}', {stores} bytes spill stores, {loads} bytes spill loads"
            )));
        }
        if options.warn_on_local_memory && frame > 0 {
            lines.push(warning(format!(
                "Local memory used for function '{name}', size of stack frame: {frame} bytes"
            )));
        }
    }
    lines
}

fn info(message: String) -> Diagnostic {
    Diagnostic::new(Severity::Info, message)
}

/// The frame and the spills of a function.
fn properties(name: &str, locals: u32, function: &Function) -> Diagnostic {
    let (stores, loads) = spills(locals, function);
    frame(name, function.attributes.local, stores, loads)
}

fn frame(name: &str, bytes: u32, stores: u32, loads: u32) -> Diagnostic {
    info(format!(
        "Function properties for {name}\n    {bytes} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads"
    ))
}

fn kernel(kernel: &Usage, options: &Options, target: Target) -> [Diagnostic; 4] {
    let name = &kernel.name;
    let mut used = format!(
        "Used {} registers, used {} barriers",
        kernel.registers, kernel.barriers
    );
    // Of an object's kernels the linker knows.
    if kernel.whole_stack > 0 && !options.relocatable {
        used += &format!(", {} bytes cumulative stack size", kernel.whole_stack);
    }
    if kernel.shared > 0 {
        used += &format!(", {} bytes smem", kernel.shared);
    }
    [
        info(format!("Compiling entry function '{name}' for '{target}'")),
        frame(name, kernel.stack, kernel.spill_stores, kernel.spill_loads),
        info(used),
        compile_time(kernel.time),
    ]
}

fn compile_time(time: Duration) -> Diagnostic {
    info(format!(
        "Compile time = {:.3} ms",
        time.as_secs_f64() * 1000.0
    ))
}

/// Bytes that the code stores to and loads from the part of the frame above `locals`, where spilled values lie.
fn spills(locals: u32, function: &Function) -> (u32, u32) {
    let (mut stores, mut loads) = (0, 0);
    for inst in function
        .blocks()
        .flat_map(|block| function.block_insts(block))
    {
        match function.opcode(inst) {
            Opcode::Machine(Op::STL) => stores += spilled_bytes(locals, function, inst, 0, 1),
            Opcode::Machine(Op::LDL) => loads += spilled_bytes(locals, function, inst, 1, 0),
            _ => {}
        }
    }
    (stores, loads)
}

/// The bytes an access moves, if its address (operand `address`) is that of a spilled value.
fn spilled_bytes(locals: u32, function: &Function, inst: Inst, address: usize, data: usize) -> u32 {
    let Operand::Address(id) = function.operands(inst)[address] else {
        return 0;
    };
    let at = function.address(id);
    let from_frame = at
        .base
        .get()
        .and_then(Reg::phys)
        .is_some_and(|base| base.index() == Machine::of(function.target).abi.stack_pointer);
    // What lies above the frame are arguments.
    let own = locals..function.attributes.local;
    let above = u32::try_from(at.offset).is_ok_and(|offset| own.contains(&offset));
    match function.inst(inst).operation() {
        orias_ori::Operation::Machine(op, mods) if from_frame && above => {
            u32::from(machine::slot_width(op, mods, data)) * 4
        }
        _ => 0,
    }
}
