//! From finished code to a cubin: what the container has to know about each kernel, and where variables lie.
//!
//! Addresses in shared and constant memory are known now and are written into the code; addresses in global memory are
//! known to the driver only, and become relocations.

mod data;
mod isa_class;
mod mbarriers;
mod object;
mod stack;
mod text;

use crate::debug::{self, RegisterTables, Sections, Surroundings};
use crate::diagnostics::Diagnostic;
use crate::lines::{self, LineTables};
use data::KnownNames;
use orias_codegen::schedule::budget::named_registers;
use orias_codegen::{
    Kernel, LoweredModule, Reference, ReferenceKind, SymbolSpace, TEXT_START, constant_places,
};
use orias_cubin::attribute::{Attribute, Value, id};
use orias_cubin::build::{self, Address, Chip, CodeRelocation, Entry, Param, Shared, Variable};
use orias_cubin::elf::relocation as kind;
use orias_cubin::line::LineRow;
use orias_eval::texture::Record;
use orias_machine::Machine;
use orias_mercury::{Code, Patch, Relocation};
use orias_ori::{Attributes, Class, Function, Operand, SymbolPart};
use orias_ptx::ast::{Pointee, Pointer, Space};
use orias_sass::{Effects, Mnemonic, Op, Target};
use rustc_hash::FxHashMap;
pub(crate) use stack::deepest;
use std::time::Duration;
pub(crate) use text::{Called, Text, called_by};

/// A kernel with its finished code.
#[derive(Debug)]
pub(crate) struct Finished {
    /// A wait for products of warp groups that the allocator made necessary.
    pub(crate) added_wait: Option<crate::warpgroup::AddedWait>,
    /// What lowering said about it, with the final function in the place of the one it made.
    pub(crate) kernel: Kernel,
    /// What the source says about its launch and memory.
    pub(crate) declared: Attributes,
    /// Its bytes.
    pub(crate) code: Code,
    /// Whether errors of its accesses are reported before its threads end.
    pub(crate) reports_at_exit: bool,
    /// Whether threads are held up at random.
    pub(crate) steered: bool,
    /// Whether the output says how much code there is.
    pub(crate) annotated: bool,
    /// How long it took.
    pub(crate) time: Duration,
}

impl Finished {
    /// The kernel in a text of its own.
    fn text(&self) -> Text<'_> {
        Text::alone(&self.kernel.code, &self.code, self.kernel.debug.as_ref())
    }
}

/// A barrier number in a register may be any of these.
const ALL_BARRIERS: u8 = 16;

/// What a container says of the chip of `target`, and must know of it.
#[must_use]
pub fn chip_of(target: Target) -> Chip {
    let machine = Machine::of(target);
    let constants = machine.constants;
    Chip {
        sm: target.sm() as u8,
        accelerated: target.is_accelerated(),
        virtual_sm: target.sm(),
        param_base: constants.params as u16,
        reserved_shared: u64::from(constants.reserved_shared),
        mercury_version: machine.abi.mercury_version,
        work_arounds: machine.abi.work_arounds,
    }
}

/// The same, of the target of that name; none without tables.
#[must_use]
pub fn chip_named(name: &str) -> Option<Chip> {
    Target::from_name(name).map(chip_of)
}

/// The bytes of the cubin.
pub(crate) fn build(
    module: &LoweredModule,
    kernels: &[Finished],
    functions: &[Called],
    (lines, sections): (LineTables, Option<Sections>),
    target: Target,
) -> Result<Vec<u8>, Diagnostic> {
    if let Some(links) = &module.links {
        return object::build(module, links, kernels, functions, (lines, sections), target);
    }
    let mut cubin = build::CubinContents::new(chip_of(target));
    let constants: FxHashMap<&str, u64> = constant_places(&module.symbols).0.into_iter().collect();
    let known = KnownNames {
        module,
        constants: &constants,
        kernels: kernels
            .iter()
            .map(|it| it.kernel.code.name.as_str())
            .collect(),
    };
    for symbol in &module.symbols {
        if symbol.space == SymbolSpace::Global && cubin.constants.is_empty() {
            cubin.globals_first = true;
        }
        let variables = match symbol.space {
            SymbolSpace::Global => &mut cubin.globals,
            SymbolSpace::Const => &mut cubin.constants,
            SymbolSpace::Shared | SymbolSpace::Local => continue,
        };
        variables.push(known.variable(symbol)?);
    }
    Variable::place_in_order(&mut cubin.globals);
    for variable in &mut cubin.constants {
        variable.offset = constants.get(variable.name.as_str()).copied().unwrap_or(0);
    }
    cubin.independent_textures = module.independent_textures;
    for reference in &module.references {
        let kernel = reference.parameter_of.as_deref();
        let number = kernel.and_then(|name| {
            let mut names = kernels.iter().map(|it| &it.kernel.code.name);
            names.position(|it| it == name)
        });
        if kernel.is_some() && number.is_none() {
            continue;
        }
        cubin.references.push(self::reference(reference, number));
    }
    cubin.externs = module.externs.iter().map(|it| it.name.clone()).collect();
    // Code reads the addresses of functions from a bank, one after another.
    cubin.addresses = cubin
        .externs
        .iter()
        .map(|name| Address {
            symbol: name.clone(),
            addend: 0,
        })
        .collect();
    let files = lines.files(module);
    for finished in kernels {
        let text = Text::new(finished, functions);
        let linked = text.link(module, finished, &constants)?;
        let mut function = kernel_function(module, finished, &text, linked, target)?;
        function.externs = externs(module, &text);
        // Functions in the kernel's text have no stack of their own.
        function.frame_size = deepest(finished, functions, &module.pointers);
        function.min_stack_size = function.frame_size;
        function.subroutines = text.subroutines(&function.name, function.frame_size);
        function.bank2 = text.address_bank(module);
        function.headers = text.headers(module);
        function.attributes.extend(switches(module, &text));
        let calls = system_calls(text.offsets(|op| op == Op::CALL_ABS));
        function.attributes.extend(calls);
        for name in Record::ALL.map(Record::size_name) {
            let known = cubin.driver_words.iter().any(|it| it == name);
            if !known && text.names(name) {
                cubin.driver_words.push(name.to_owned());
            }
        }
        let class = isa_class::of(&text, &function.code, target);
        cubin.isa_class = cubin.isa_class.max(class);
        for callee in &function.externs {
            cubin.calls.push((function.name.clone(), callee.clone()));
        }
        if lines.wanted() {
            for part in &text.parts {
                let rows = lines::source_rows(part.function, part.code, &files);
                let known = function.lines.len() as u32;
                function.lines.extend(rows.into_iter().map(|row| LineRow {
                    address: row.address + u64::from(part.start),
                    inlined_at: match row.inlined_at {
                        0 => 0,
                        row => row + known,
                    },
                    ..row
                }));
                let rows = lines::ptx_rows(part.function, part.code);
                function
                    .ptx_lines
                    .extend(rows.into_iter().map(|row| LineRow {
                        address: row.address + u64::from(part.start),
                        ..row
                    }));
            }
        }
        cubin.functions.push(function);
    }
    cubin.lines = lines.info(module, &files);
    cubin.debug =
        sections.map(|sections| debug_info(&sections, module, kernels, functions, target));
    let cubin = cubin.build().map_err(internal)?;
    cubin.write().map_err(internal)
}

/// What debuggers are told. A function that several kernels call is where the first of them has it.
fn debug_info(
    sections: &Sections,
    module: &LoweredModule,
    kernels: &[Finished],
    functions: &[Called],
    target: Target,
) -> build::DebugInfo {
    let chip = chip_of(target);
    let linked = module.links.is_some();
    let mut around = Surroundings::new(module, chip.reserved_shared);
    let mut tables = RegisterTables::default();
    let mut seen: Vec<&str> = Vec::new();
    let mut texts = Vec::new();
    if linked {
        texts.extend(functions.iter().map(|it| (&it.function.name, it.text())));
    }
    for finished in kernels {
        let text = match linked {
            true => finished.text(),
            false => Text::new(finished, functions),
        };
        texts.push((&finished.kernel.code.name, text));
    }
    for (symbol, text) in texts {
        for part in text.parts {
            let name = part.function.name.trim_start_matches(TEXT_START);
            if let Some(record) = part.debug
                && !seen.contains(&name)
            {
                seen.push(name);
                let start = u64::from(part.start);
                around.add_function(symbol, start, part.function, part.code, record);
                around.add_symbol(name, symbol, start);
                tables.add(name, part.function, part.code, record);
            }
        }
    }
    for Finished { kernel, .. } in kernels {
        for parameter in &kernel.parameters {
            let offset = u64::from(chip.param_base) + u64::from(parameter.offset);
            around.add_number(&parameter.name, offset);
        }
        // The linker places them otherwise.
        for place in kernel.shared.iter().filter(|_| !linked) {
            let offset = chip.reserved_shared + u64::from(place.offset);
            around.add_number(&place.symbol, offset);
        }
    }
    build::DebugInfo {
        registers: tables.places,
        register_types: tables.types,
        sections: sections.finish(&around),
    }
}

/// A texture, sampler or surface as the file has it; `kernel` is the number of the one whose parameter it is.
fn reference(reference: &Reference, kernel: Option<usize>) -> build::Reference {
    build::Reference {
        name: reference.name.clone(),
        kind: match reference.kind {
            ReferenceKind::Texture => build::ReferenceKind::Texture,
            ReferenceKind::Sampler => build::ReferenceKind::Sampler,
            ReferenceKind::Surface => build::ReferenceKind::Surface,
        },
        parameter_of: kernel,
        modes: reference.modes,
    }
}

fn internal(error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::internal("the container", None, error)
}

/// What the container says of any function: its code with its relocations, and what the text of it needs.
fn function_of(
    function: &Function,
    text: &Text<'_>,
    (code, relocations): (Vec<u8>, Vec<CodeRelocation>),
    target: Target,
) -> build::Function {
    let attributes = &function.attributes;
    let uses = |op: Op| matches!(op.mnemonic(), Mnemonic::SYNCS | Mnemonic::ARRIVES);
    let mbarriers = match text.offsets(uses).is_empty() {
        true => Vec::new(),
        false => mbarriers::attributes(&code, target),
    };
    build::Function {
        name: function.name.clone(),
        registers: text_registers(text, target),
        barriers: text_barriers(text),
        frame_size: attributes.local,
        max_registers: u16::try_from(attributes.max_registers)
            .ok()
            .filter(|&limit| limit > 0),
        exits: text.offsets(|op| op.row().effects.contains(Effects::EXIT)),
        attributes: meetings(text).into_iter().chain(mbarriers).collect(),
        code,
        relocations,
        ..build::Function::default()
    }
}

/// What it says of a kernel.
fn kernel_function(
    module: &LoweredModule,
    finished: &Finished,
    text: &Text<'_>,
    linked: (Vec<u8>, Vec<CodeRelocation>),
    target: Target,
) -> Result<build::Function, Diagnostic> {
    let Finished { kernel, code, .. } = finished;
    let attributes = &kernel.code.attributes;
    let dimensions = |wanted: bool| wanted.then(|| attributes.max_threads.map(|n| n.max(1)));
    let limited = attributes.max_threads != [0; 3];
    let shared_align = kernel
        .shared
        .iter()
        .filter_map(|place| module.symbol(&place.symbol))
        .map(|symbol| u64::from(symbol.align))
        .max()
        .unwrap_or(1);
    let uses_shared = attributes.shared > 0 || kernel.dynamic_shared.is_some();
    let mut function = function_of(&kernel.code, text, linked, target);
    function.frame_rules = (kernel.debug.as_ref()).map(|_| debug::rules(&kernel.code, code));
    function
        .attributes
        .extend(annotation(finished, text, target));
    if finished.steered {
        function.attributes.push(Attribute {
            id: id::SANITIZE,
            value: Value::Half(0),
        });
    }
    function.entry = Some(Entry {
        params: parameters(kernel)?,
        params_size: narrow(kernel.parameter_bytes, "parameters")?,
        max_threads: dimensions(limited && !attributes.required_threads),
        required_threads: dimensions(limited && attributes.required_threads),
        cluster: (attributes.cluster != [0; 3]).then(|| attributes.cluster.map(|n| n.max(1))),
        max_cluster_rank: kernel.max_cluster_rank,
        explicit_cluster: kernel.explicit_cluster,
        blocks_are_clusters: kernel.blocks_are_clusters,
    });
    function.min_stack_size = attributes.local;
    function.shared = uses_shared.then_some(Shared {
        // Dynamic shared memory starts where static shared memory ends, aligned as its arrays ask for.
        size: u64::from(attributes.shared.max(kernel.dynamic_shared.unwrap_or(0))),
        align: shared_align,
    });
    function.reports_at_exit = finished.reports_at_exit;
    function.attributes.extend(reconfigures(code));
    Ok(function)
}

fn narrow(value: u32, what: &str) -> Result<u16, Diagnostic> {
    u16::try_from(value).map_err(|_| internal(format!("{what} of {value} bytes")))
}

fn parameters(kernel: &Kernel) -> Result<Vec<Param>, Diagnostic> {
    kernel
        .parameters
        .iter()
        .map(|parameter| {
            Ok(Param {
                offset: narrow(parameter.offset, "parameters")?,
                size: narrow(parameter.size, "a parameter")?,
                pointee_log_align: parameter.pointer.map_or(0, |pointer| {
                    pointer.align.and_then(u32::checked_ilog2).unwrap_or(0) as u8
                }),
                space: parameter.pointer.map_or(0, pointee_space),
            })
        })
        .collect()
}

/// What ptxas 13.0.88 calls the space that a parameter points into. Constant memory is not told from global memory.
const fn pointee_space(pointer: Pointer) -> u8 {
    match pointer.to {
        Some(Pointee::Memory(Space::Local)) => 1,
        Some(Pointee::Memory(Space::Shared)) => 2,
        Some(Pointee::Memory(Space::Global | Space::Const)) => 4,
        Some(Pointee::Texture) => 6,
        Some(Pointee::Surface) => 7,
        Some(Pointee::Sampler) => 8,
        Some(Pointee::Memory(Space::Param | Space::Reg | Space::Tex)) | None => 5,
    }
}

/// Registers of a thread in all of a kernel's text.
pub(crate) fn text_registers(text: &Text<'_>, target: Target) -> u32 {
    let parts = text.parts.iter();
    let counts = parts.map(|part| register_count(part.function, target));
    counts.max().unwrap_or(0)
}

/// Named barriers in all of a kernel's text.
pub(crate) fn text_barriers(text: &Text<'_>) -> u8 {
    let parts = text.parts.iter();
    let counts = parts.map(|part| barrier_count(part.function));
    counts.max().unwrap_or(0)
}

/// Registers of a thread: the highest that is named, plus one, plus those the hardware keeps.
pub(crate) fn register_count(function: &Function, target: Target) -> u32 {
    let files = Machine::of(target).registers;
    match orias_codegen::starting_registers(function, target) {
        // What a warp has later is what it asks for.
        Some(start) => start,
        None => (named_registers(function, Class::R) + files.reserved).max(files.launched),
    }
}

/// Whether the kernel changes its register count.
pub(crate) fn changes_register_count(code: &Code) -> bool {
    let changes = |op: Op| matches!(op, Op::USETMAXREG_DEALLOC | Op::USETMAXREG_TRY_ALLOC);
    code.placed.iter().any(|placed| changes(placed.op))
}

/// What a note of the compiler about a whole function is.
const FUNCTION_NOTE: u32 = 3;

/// How many instructions and registers a kernel has, in ptxas's words.
fn annotation(finished: &Finished, text: &Text<'_>, target: Target) -> Option<Attribute> {
    if !finished.annotated {
        return None;
    }
    let instructions: usize = text.parts.iter().map(|part| part.code.placed.len()).sum();
    let registers = text_registers(text, target);
    let mut note =
        format!("instr/R-regs: {instructions} instructions, {registers} R-regs\0").into_bytes();
    let length = note.len() as u32;
    note.resize(note.len().next_multiple_of(4), 0);
    let words = note.chunks_exact(4);
    let words = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    Some(Attribute {
        id: id::ANNOTATIONS,
        value: Value::Words([FUNCTION_NOTE, length].into_iter().chain(words).collect()),
    })
}

fn reconfigures(code: &Code) -> Option<Attribute> {
    changes_register_count(code).then_some(Attribute {
        id: id::REG_RECONFIG,
        value: Value::Flag(0),
    })
}

/// Where the driver and tools find the branches that read tables.
fn switches(module: &LoweredModule, text: &Text<'_>) -> Option<Attribute> {
    let branches = text.indirect_branches(module);
    (!branches.is_empty()).then_some(Attribute {
        id: id::INDIRECT_BRANCH_TARGETS,
        value: Value::IndirectBranches(branches),
    })
}

/// What the rows of `BAR` call the operand that names the barrier.
const BARRIER_SLOT: orias_sass::SlotName = orias_sass::slot_names::B;

/// One more than the highest named barrier; all of them where a register says which.
pub(crate) fn barrier_count(function: &Function) -> u8 {
    let mut count = u8::try_from(function.attributes.barriers).unwrap_or(ALL_BARRIERS);
    for inst in function
        .blocks()
        .flat_map(|block| function.block_insts(block))
    {
        let Some(op) = function.opcode(inst).as_machine() else {
            continue;
        };
        if op.mnemonic() != Mnemonic::BAR {
            continue;
        }
        let named = function
            .operands(inst)
            .iter()
            .enumerate()
            .find(|&(index, _)| op.row().slots[index].name == BARRIER_SLOT.text());
        count = count.max(match named {
            Some((_, Operand::Imm(number))) => number.bits() as u8 + 1,
            _ => ALL_BARRIERS,
        });
    }
    count.min(ALL_BARRIERS)
}

/// Bytes of an address in the bank that code reads addresses from.
const ADDRESS_BYTES: u64 = 8;

/// The functions that lie elsewhere and that a kernel calls, in the order of the module.
fn externs(module: &LoweredModule, text: &Text<'_>) -> Vec<String> {
    let called = |name: &str| text.names(name);
    let names = module.externs.iter().map(|it| it.name.clone());
    names.filter(|name| called(name)).collect()
}

/// Where the driver finds the calls of its functions.
fn system_calls(calls: Vec<u32>) -> Vec<Attribute> {
    if calls.is_empty() {
        return Vec::new();
    }
    vec![Attribute {
        id: id::SYSCALL_OFFSETS,
        value: Value::Offsets(calls),
    }]
}

/// Operations that the lanes of a mask do together.
const TOGETHER: [Mnemonic; 3] = [Mnemonic::SHFL, Mnemonic::MATCH, Mnemonic::REDUX];

/// What tools that look for races have to know: where the lanes of a warp meet, and that all of them do. In kernels that sort lanes
/// by masks, which lanes a shuffle's are is not told.
fn meetings(text: &Text<'_>) -> Vec<Attribute> {
    let masked = text.offsets(|op| op.mnemonic() == Mnemonic::WARPSYNC && op != Op::WARPSYNC_ALL);
    let meets = text.offsets(|op| {
        matches!(op, Op::NOP | Op::WARPSYNC_ALL)
            || masked.is_empty() && TOGETHER.contains(&op.mnemonic())
    });
    if meets.is_empty() {
        return Vec::new();
    }
    vec![
        Attribute {
            id: id::COOP_GROUP_MASK_REGIDS,
            value: Value::Words(vec![u32::MAX; meets.len()]),
        },
        Attribute {
            id: id::COOP_GROUP_INSTR_OFFSETS,
            value: Value::Offsets(meets),
        },
    ]
}

/// The address of a name that is known now: in shared or constant memory, or in the bank of addresses.
fn place_of(
    module: &LoweredModule,
    kernel: &Kernel,
    constants: &FxHashMap<&str, u64>,
    name: &str,
) -> Option<u64> {
    if let Some(number) = module.externs.iter().position(|it| it.name == name) {
        return Some(number as u64 * ADDRESS_BYTES);
    }
    let symbol = module.symbol(name)?;
    match symbol.space {
        SymbolSpace::Shared => {
            let place = kernel.shared.iter().find(|place| place.symbol == name);
            let offset = match place {
                Some(place) => place.offset,
                None => kernel.dynamic_shared?,
            };
            let reserved = Machine::of(module.target).constants.reserved_shared;
            Some(u64::from(reserved) + u64::from(offset))
        }
        SymbolSpace::Const => constants.get(name).copied(),
        SymbolSpace::Global | SymbolSpace::Local => None,
    }
}

/// How many bits the offset in a constant bank has.
const BANK_OFFSET_BITS: u8 = 16;

/// Writes a known address into the code.
fn patch(bytes: &mut [u8], relocation: &Relocation, address: u64) -> Result<(), Diagnostic> {
    let at = relocation.offset as usize;
    let word = bytes.get_mut(at..at + 16);
    let (part, first_bit, bits) = match relocation.patch {
        Patch::Address {
            part,
            first_bit,
            bits,
        } => (part, first_bit, bits),
        Patch::Bank { first_bit } => (SymbolPart::Whole, first_bit, BANK_OFFSET_BITS),
        _ => (SymbolPart::Whole, 0, 0),
    };
    let (Some(word), 1..) = (word, bits) else {
        let what = format!("a jump to the variable '{}'", relocation.symbol);
        return Err(internal(what));
    };
    let address = address.wrapping_add_signed(relocation.addend);
    let value = match part {
        SymbolPart::Whole | SymbolPart::Low => address,
        SymbolPart::High => address >> 32,
    };
    let mask = u128::MAX >> (128 - u32::from(bits));
    let mut whole = u128::from_le_bytes(word.try_into().unwrap_or([0; 16]));
    whole &= !(mask << first_bit);
    whole |= (u128::from(value) & mask) << first_bit;
    word.copy_from_slice(&whole.to_le_bytes());
    Ok(())
}

/// A relocation the driver resolves.
fn relocate(module: &LoweredModule, relocation: &Relocation) -> Result<CodeRelocation, Diagnostic> {
    let name = relocation.symbol.as_str();
    let kernel = module.entries.iter().any(|it| it == name);
    let kind = match relocation.patch {
        Patch::Address {
            part: SymbolPart::Low,
            first_bit: 32,
            ..
        } if kernel => kind::R_CUDA_FUNC_DESC32_LO_32,
        Patch::Address {
            part: SymbolPart::High,
            first_bit: 32,
            ..
        } if kernel => kind::R_CUDA_FUNC_DESC32_HI_32,
        Patch::Address {
            part: SymbolPart::Low,
            first_bit: 32,
            ..
        } if Record::is_size_name(name) => kind::R_CUDA_ABS32_32,
        Patch::Address {
            part: SymbolPart::Low,
            first_bit: 32,
            ..
        } => kind::R_CUDA_ABS32_LO_32,
        Patch::Address {
            part: SymbolPart::High,
            first_bit: 32,
            ..
        } => kind::R_CUDA_ABS32_HI_32,
        Patch::Address {
            part: SymbolPart::Whole,
            first_bit: 32,
            ..
        } => kind::R_CUDA_ABS32_32,
        other => {
            let what = format!("the address of '{}' in {other:?}", relocation.symbol);
            return Err(Diagnostic::unsupported(what));
        }
    };
    Ok(CodeRelocation {
        offset: u64::from(relocation.offset),
        kind,
        address: Address {
            symbol: relocation.symbol.clone(),
            addend: relocation.addend,
        },
    })
}
