//! Turns one PTX instruction into a kernel that cannot be optimised away.
//!
//! Registers are recognised by name: `%r3` is a 32-bit input, `%ro3` a 32-bit output, and likewise `%rd`, `%f`, `%fd`,
//! `%h`, `%p`, `%q` (see [`CLASSES`]). Inputs are loaded before the instruction and outputs stored after it. The same
//! instruction is tried with inputs that differ between threads and with inputs that are the same in the whole grid,
//! because the assembler chooses other machine operations (the uniform datapath) for the latter.

use std::collections::BTreeSet;
use std::fmt::Write;

/// Where the inputs of an instruction come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Loaded from memory at an address that depends on the thread.
    PerThread,
    /// Loaded from kernel parameters.
    Uniform,
}

/// A class of registers: its name after `%`, its PTX type, the size in bytes of one register in memory, and a constant that may
/// stand in its place.
struct Class {
    name: &'static str,
    ty: &'static str,
    size: u32,
    constant: Option<&'static str>,
}

const CLASSES: &[Class] = &[
    class("r", "b32", 4, Some("0x12345")),
    class("rd", "b64", 8, Some("0x12345")),
    class("f", "f32", 4, Some("0f3fc00000")),
    class("fd", "f64", 8, Some("0d3ff8000000000000")),
    class("h", "b16", 2, Some("0x3e00")),
    class("p", "pred", 4, None),
    class("q", "b128", 16, None),
];

const fn class(
    name: &'static str,
    ty: &'static str,
    size: u32,
    constant: Option<&'static str>,
) -> Class {
    Class {
        name,
        ty,
        size,
        constant,
    }
}

/// What stands before the kernels of a module: its target and the variables instructions may name.
pub fn header(target: &str) -> String {
    format!(
        ".version 9.0\n.target {target}\n.address_size 64\n\
         .shared .align 128 .b8 smem[8192];\n\
         .global .align 128 .b8 gmem[8192];\n\
         .const .align 16 .b8 cmem[4096];\n\
         .global .texref tex0;\n\
         .global .surfref surf0;\n"
    )
}

/// A kernel named `name` around `instruction` (one or more PTX statements).
///
/// Fails when the instruction names a register of no known class.
pub fn wrap(name: &str, instruction: &str, inputs: Inputs) -> Result<String, String> {
    let registers = registers_of(instruction)?;
    let mut declared = String::new();
    let mut before = String::new();
    let mut after = String::new();
    for (at, register) in registers.iter().enumerate() {
        let Class { ty, size, .. } = CLASSES[register.class];
        let text = &register.text;
        let offset = 16 * at;
        let _ = writeln!(declared, "  .reg .{ty} {text};");
        let memory_type = memory_type(ty);
        let source = match inputs {
            Inputs::PerThread => format!("ld.global.{memory_type} {{}}, [%base+{offset}]"),
            Inputs::Uniform => format!("ld.param.{memory_type} {{}}, [values+{offset}]"),
        };
        let load = |into: &str| source.replace("{}", into);
        match (register.output, ty) {
            (false, "pred") => {
                let _ = writeln!(
                    before,
                    "  {};\n  setp.gt.s32 {text}, %bit, 5;",
                    load("%bit")
                );
            }
            (false, "b128") => {
                let _ = writeln!(before, "  ld.global.b128 {text}, [%base+{offset}];");
            }
            (false, _) => {
                let _ = writeln!(before, "  {};", load(text));
            }
            (true, "pred") => {
                let _ = writeln!(before, "  setp.eq.s32 {text}, %bit, 77;");
                let _ = writeln!(
                    after,
                    "  selp.u32 %bit, 1, 0, {text};\n  st.global.u32 [%sink+{offset}], %bit;"
                );
            }
            (true, _) => {
                if size < 16 {
                    let _ = writeln!(before, "  {};", load(text));
                }
                let _ = writeln!(after, "  st.global.{memory_type} [%sink+{offset}], {text};");
            }
        }
    }
    Ok(format!(
        ".visible .entry {name}(.param .u64 source, .param .u64 sink, .param .align 16 .b8 values[1024]) {{\n  \
         .local .align 16 .b8 lmem[256];\n  .reg .b64 %base, %sink;\n  .reg .b32 %thread, %bit;\n{declared}  \
         mov.u32 %thread, %tid.x;\n  mov.u32 %bit, %thread;\n  \
         ld.param.u64 %base, [source];\n  ld.param.u64 %sink, [sink];\n  \
         mad.wide.u32 %base, %thread, 1024, %base;\n  mad.wide.u32 %sink, %thread, 1024, %sink;\n\
         {before}  {instruction}\n{after}  ret;\n}}\n"
    ))
}

/// The instruction with constants in place of its inputs: of each one alone, then of all together. Without optimisation ptxas
/// does not fold them, and picks the forms that hold an immediate. Addresses stay registers. Instructions with many inputs
/// multiply matrices, which takes no constants: one try is enough.
pub fn with_constants(instruction: &str) -> Result<Vec<String>, String> {
    let inputs: Vec<Register> = registers_of(instruction)?
        .into_iter()
        .filter(|register| !register.output && CLASSES[register.class].constant.is_some())
        .collect();
    let mut found = BTreeSet::new();
    if inputs.len() <= MOST_ALONE {
        for register in &inputs {
            found.insert(replaced(instruction, std::slice::from_ref(register)));
        }
    }
    found.insert(replaced(instruction, &inputs));
    found.remove(instruction);
    Ok(found.into_iter().collect())
}

/// The most inputs that are replaced one by one.
const MOST_ALONE: usize = 8;

/// The instruction with the constants of their classes in place of the registers, outside brackets.
fn replaced(instruction: &str, registers: &[Register]) -> String {
    let mut out = String::new();
    let mut rest = instruction;
    let mut depth = 0;
    while let Some(first) = rest.chars().next() {
        let named = registers.iter().find(|register| {
            rest.strip_prefix(register.text.as_str())
                .is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphanumeric()))
        });
        let constant = named.and_then(|register| CLASSES[register.class].constant);
        let length = match (named, constant) {
            (Some(register), Some(constant)) if depth == 0 => {
                out.push_str(constant);
                register.text.len()
            }
            _ => {
                depth += i32::from(first == '[') - i32::from(first == ']');
                out.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    out
}

/// The type a register is loaded and stored as; predicates travel as 32-bit numbers.
fn memory_type(ty: &str) -> &str {
    if ty == "pred" { "u32" } else { ty }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Register {
    text: String,
    class: usize,
    output: bool,
}

/// The registers an instruction names, each once, sorted by name. Special registers (`%tid.x`) are left alone.
fn registers_of(instruction: &str) -> Result<BTreeSet<Register>, String> {
    let mut found = BTreeSet::new();
    for (at, _) in instruction.match_indices('%') {
        let rest = &instruction[at + 1..];
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
        if letters.len() == word.len() || SPECIAL_WITH_DIGITS.contains(&letters) {
            continue;
        }
        let (name, output) = match letters.strip_suffix('o') {
            Some(name) => (name, true),
            None => (letters, false),
        };
        let class = CLASSES
            .iter()
            .position(|class| class.name == name)
            .ok_or_else(|| format!("register %{word} is of no known class in '{instruction}'"))?;
        found.insert(Register {
            text: format!("%{word}"),
            class,
            output,
        });
    }
    Ok(found)
}

/// Special registers whose names end in digits.
const SPECIAL_WITH_DIGITS: &[&str] = &[
    "pm",
    "pm0_",
    "pm7_",
    "envreg",
    "clock",
    "reserved_smem_offset_",
];

#[cfg(test)]
mod tests {
    use super::{Inputs, with_constants, wrap};

    #[test]
    fn constants_replace_inputs_one_by_one_and_together() {
        let all = with_constants("add.u32 %ro0, %r1, %r10;").unwrap();
        assert_eq!(
            all,
            [
                "add.u32 %ro0, %r1, 0x12345;",
                "add.u32 %ro0, 0x12345, %r10;",
                "add.u32 %ro0, 0x12345, 0x12345;",
            ]
        );
        let none = with_constants("@%p0 ld.global.u32 %ro0, [%rd0+4];").unwrap();
        assert!(none.is_empty());
    }

    #[test]
    fn outputs_are_stored_and_inputs_loaded() {
        let kernel = wrap("k", "add.u32 %ro0, %r0, %r1;", Inputs::PerThread).unwrap();
        assert!(kernel.contains("ld.global.b32 %r0, [%base+0];"));
        assert!(kernel.contains("ld.global.b32 %r1, [%base+16];"));
        assert!(kernel.contains("st.global.b32 [%sink+32], %ro0;"));
    }

    #[test]
    fn uniform_inputs_come_from_parameters() {
        let kernel = wrap("k", "add.u32 %ro0, %r0, %r1;", Inputs::Uniform).unwrap();
        assert!(kernel.contains("ld.param.b32 %r1, [values+16];"));
    }

    #[test]
    fn an_unknown_register_is_an_error() {
        assert!(wrap("k", "mov.u32 %zz1, 0;", Inputs::PerThread).is_err());
    }
}
