//! SASS listings to cubins: the assembler of `sass` and the container of `cubin` joined.

use crate::container::chip_of;
use orias_cubin::Cubin;
use orias_cubin::attribute::{Attribute, IndirectBranch, Value, id};
use orias_cubin::build::{
    Address, CubinContents, Entry, Function, Linkage, Param, Shared, Variable,
};
use orias_machine::Machine;
use orias_sass::text::{AssembleError, AssembledFunction, Directive, assemble, parse_instruction};
use orias_sass::{Effects, Instruction, Register, RegisterClass, Target, decode, encode};
use std::collections::BTreeMap;

/// Code sections are padded to this.
const CODE_ALIGNMENT: usize = 128;

/// Assembles a listing into a cubin. Reports every line that is wrong.
pub fn assemble_cubin(listing: &str, default_target: Target) -> Result<Cubin, Vec<AssembleError>> {
    let assembly = assemble(listing, default_target)?;
    let mut module = CubinContents::new(chip_of(assembly.target));
    let mut errors = Vec::new();
    for directive in &assembly.directives {
        if let Err(error) = module_directive(&mut module, directive) {
            errors.push(error);
        }
    }
    for function in &assembly.functions {
        match build_function(function, assembly.target) {
            Ok(built) => module.functions.push(built),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Variable::place_in_order(&mut module.globals);
    module.build().map_err(|error| {
        vec![AssembleError {
            line: 1,
            column: 1,
            message: error.to_string(),
        }]
    })
}

fn wrong(directive: &Directive, message: impl Into<String>) -> AssembleError {
    AssembleError {
        line: directive.line,
        column: 1,
        message: format!("{}: {}", directive.row.name, message.into()),
    }
}

/// A directive's argument, as a number that fits where it goes.
fn number<T: TryFrom<u64>>(directive: &Directive, index: usize) -> Result<T, AssembleError> {
    let value = directive.number(index)?;
    T::try_from(value).map_err(|_| wrong(directive, format!("{value} is too large")))
}

/// The arguments from `first` on as bytes, each a run of hexadecimal digits.
fn bytes(directive: &Directive, first: usize) -> Result<Vec<u8>, AssembleError> {
    let mut out = Vec::new();
    for text in &directive.arguments[first..] {
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect();
        match digits {
            Some(digits) if digits.len() % 2 == 0 => {
                out.extend(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]))
            }
            _ => {
                return Err(wrong(
                    directive,
                    format!("'{text}' is not a run of bytes in hexadecimal"),
                ));
            }
        }
    }
    Ok(out)
}

/// Up to three dimensions; those not given are 1.
fn dimensions(directive: &Directive) -> Result<[u32; 3], AssembleError> {
    let mut out = [1; 3];
    for (index, slot) in out.iter_mut().enumerate().take(directive.arguments.len()) {
        *slot = number(directive, index)?;
    }
    Ok(out)
}

/// What a directive before the first function adds to the module.
fn module_directive(
    module: &mut CubinContents,
    directive: &Directive,
) -> Result<(), AssembleError> {
    match directive.row.name {
        ".target" | ".elftype" | ".headerflags" => Ok(()),
        ".const" => {
            let bank: u64 = number(directive, 0)?;
            if bank != 3 {
                return Err(wrong(
                    directive,
                    "outside a function only bank 3 can be given",
                ));
            }
            let offset = number(directive, 1)?;
            let initial = bytes(directive, 2)?;
            module.constants.push(Variable {
                name: format!("constant_{offset:x}"),
                offset,
                size: initial.len() as u64,
                align: 4,
                initial: Some(initial),
                addresses: Vec::new(),
                linkage: Linkage::Global,
                managed: false,
            });
            Ok(())
        }
        ".data" => {
            let size = number(directive, 1)?;
            let initial = bytes(directive, 2)?;
            if initial.len() as u64 > size {
                return Err(wrong(
                    directive,
                    format!("{} bytes are more than its size", initial.len()),
                ));
            }
            module.globals.push(Variable {
                name: directive.arguments[0].clone(),
                offset: 0,
                size,
                align: 16,
                initial: (!initial.is_empty()).then_some(initial),
                addresses: Vec::new(),
                linkage: Linkage::Global,
                managed: false,
            });
            Ok(())
        }
        ".address" => {
            module.addresses.push(Address {
                symbol: directive.arguments[0].clone(),
                addend: 0,
            });
            Ok(())
        }
        _ => Err(wrong(directive, "belongs into a function")),
    }
}

/// A function of the listing with what its directives and its code say about it.
fn build_function(source: &AssembledFunction, target: Target) -> Result<Function, AssembleError> {
    let mut function = Function {
        name: source.name.clone(),
        entry: source.kernel.then(Entry::default),
        ..Function::default()
    };
    for directive in &source.directives {
        function_directive(&mut function, directive, &source.labels)?;
    }
    if !source.branch_targets.is_empty() {
        function.attributes.push(Attribute {
            id: id::INDIRECT_BRANCH_TARGETS,
            value: Value::IndirectBranches(indirect_branches(source)?),
        });
    }
    let mut highest = 0;
    for (index, word) in source.words.iter().enumerate() {
        // A raw `.word` need not be an instruction; then nothing is known of it.
        let Ok(instruction) = decode(*word, target) else {
            continue;
        };
        highest = highest.max(registers_used(&instruction));
        if instruction.op().row().effects.contains(Effects::EXIT) {
            function.exits.push(index as u32 * 16);
        }
    }
    let files = Machine::of(target).registers;
    let least = (highest + files.reserved).max(files.launched);
    if function.registers == 0 {
        function.registers = least;
    } else if function.registers < least {
        return Err(AssembleError {
            line: source.line,
            column: 1,
            message: format!(
                "{}: .registers {} is less than the {least} the code needs",
                source.name, function.registers
            ),
        });
    }
    function.code = source
        .words
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    pad(&mut function.code, target)?;
    Ok(function)
}

/// The indirect branches of a function, as its attribute lists them.
fn indirect_branches(source: &AssembledFunction) -> Result<Vec<IndirectBranch>, AssembleError> {
    let offset = |address: u64| {
        u32::try_from(address).map_err(|_| AssembleError {
            line: source.line,
            column: 1,
            message: format!("{}: its code is too long", source.name),
        })
    };
    source
        .branch_targets
        .iter()
        .map(|(address, targets)| {
            Ok(IndirectBranch {
                offset: offset(*address)?,
                kind: 0,
                reserved: 0,
                targets: targets
                    .iter()
                    .map(|target| offset(*target))
                    .collect::<Result<_, _>>()?,
            })
        })
        .collect()
}

/// One more than the highest general register an instruction names.
fn registers_used(instruction: &Instruction) -> u32 {
    let general = |register: &Register| register.class == RegisterClass::R;
    let accesses = instruction.accesses();
    let registers = accesses.iter().flat_map(|access| access.registers());
    registers
        .filter(general)
        .map(|register| u32::from(register.index) + 1)
        .max()
        .unwrap_or(0)
}

/// Fills the last 128 bytes with NOPs.
fn pad(code: &mut Vec<u8>, target: Target) -> Result<(), AssembleError> {
    let internal = |message: String| AssembleError {
        line: 1,
        column: 1,
        message: format!("padding: {message}"),
    };
    let nop = parse_instruction("NOP ;", 0, target).map_err(|error| internal(error.to_string()))?;
    let word = encode(&nop.instruction).map_err(|error| internal(error.to_string()))?;
    while !code.len().is_multiple_of(CODE_ALIGNMENT) {
        code.extend_from_slice(&word.to_le_bytes());
    }
    Ok(())
}

/// A constant bank is no larger than this.
const BANK_SIZE: usize = 0x10000;

/// Puts bytes into bank 2 of a function.
fn put_in_bank2(
    function: &mut Function,
    directive: &Directive,
    offset: usize,
    bytes: &[u8],
) -> Result<(), AssembleError> {
    let end = offset
        .checked_add(bytes.len())
        .filter(|end| *end <= BANK_SIZE)
        .ok_or_else(|| wrong(directive, format!("a bank ends at {BANK_SIZE:#x}")))?;
    if function.bank2.len() < end {
        function.bank2.resize(end, 0);
    }
    function.bank2[offset..end].copy_from_slice(bytes);
    Ok(())
}

fn function_directive(
    function: &mut Function,
    directive: &Directive,
    labels: &BTreeMap<String, u64>,
) -> Result<(), AssembleError> {
    let name = directive.row.name;
    match name {
        ".registers" => function.registers = number(directive, 0)?,
        ".barriers" => function.barriers = number(directive, 0)?,
        ".local" => {
            function.frame_size = number(directive, 0)?;
            function.min_stack_size = function.frame_size;
        }
        ".shared" | ".dynshared" => {
            let shared = function.shared.get_or_insert(Shared { size: 0, align: 4 });
            let align = usize::from(name == ".shared");
            if name == ".shared" {
                shared.size = number(directive, 0)?;
            }
            if directive.arguments.len() > align {
                shared.align = shared.align.max(number(directive, align)?);
            }
        }
        ".const" => {
            let (bank, offset): (u64, usize) = (number(directive, 0)?, number(directive, 1)?);
            if bank != 2 {
                return Err(wrong(
                    directive,
                    "inside a function only bank 2 can be given",
                ));
            }
            put_in_bank2(function, directive, offset, &bytes(directive, 2)?)?;
        }
        ".table" => {
            let mut entries = Vec::new();
            for label in &directive.arguments[1..] {
                let address = labels.get(label).ok_or_else(|| {
                    wrong(directive, format!("no label '{label}' in the function"))
                })?;
                let address = u32::try_from(*address)
                    .map_err(|_| wrong(directive, format!("label '{label}' is too far")))?;
                entries.extend_from_slice(&address.to_le_bytes());
            }
            put_in_bank2(function, directive, number(directive, 0)?, &entries)?;
        }
        ".param" | ".maxntid" | ".reqntid" | ".cluster" => {
            let Some(entry) = &mut function.entry else {
                return Err(wrong(directive, "only a kernel has it"));
            };
            match name {
                ".param" => add_param(entry, directive)?,
                ".maxntid" => entry.max_threads = Some(dimensions(directive)?),
                ".reqntid" => entry.required_threads = Some(dimensions(directive)?),
                _ => entry.cluster = Some(dimensions(directive)?),
            }
        }
        ".minnctapersm" => {
            return Err(wrong(
                directive,
                "steers register allocation; a listing has its registers already",
            ));
        }
        ".section" | ".align" | ".global" | ".weak" | ".type" | ".size" | ".other"
        | ".sectioninfo" | ".sectionflags" | ".sectionentsize" => {}
        _ => return Err(wrong(directive, "belongs before the first function")),
    }
    Ok(())
}

/// The next parameter, at the next offset of its alignment.
fn add_param(entry: &mut Entry, directive: &Directive) -> Result<(), AssembleError> {
    let size: u16 = number(directive, 0)?;
    let align = match directive.arguments.get(1) {
        Some(_) => number(directive, 1)?,
        None => size,
    };
    if !align.is_power_of_two() {
        return Err(wrong(directive, format!("{align} is not an alignment")));
    }
    let end = entry
        .params
        .last()
        .map_or(0, |last| last.offset + last.size);
    let offset = end
        .checked_next_multiple_of(align)
        .filter(|offset| offset.checked_add(size).is_some());
    let Some(offset) = offset else {
        return Err(wrong(directive, "the parameters are too large"));
    };
    entry.params.push(Param {
        offset,
        size,
        pointee_log_align: 0,
        space: 0,
    });
    entry.params_size = offset + size;
    Ok(())
}
