//! Random programs about declarations: variables, initialisers, addresses, constant expressions, vectors, parameters and results.
//!
//! A program has one thread. It looks at what it declares and writes what it sees into a buffer, so whatever runs it can be
//! compared with whatever else runs it. Nothing here knows what should be seen: the witness is the code that another assembler makes,
//! run on a chip.
//!
//! A program is a handful of *exhibits*, each with declarations and statements of its own; only the addresses of variables pass from
//! one to the next. Addresses themselves differ from run to run, so what is written is what lies there, how far two of them are apart, and
//! how they are aligned.
//!
//! Once in a while an exhibit does what may not be legal: then the question is whether both sides refuse it. What is known to be
//! compiled wrongly by others is left out, with a note at the place.
//!
//! The same seed gives the same program on every machine.

mod calls;
mod constants;
mod initialisers;
mod operands;
mod parameters;
mod variables;

use orias_random::Rng;
use std::fmt::Write as _;

/// The name of the kernel.
pub const KERNEL: &str = "declarations";
/// Bytes of the output buffer, the kernel's first argument, which starts as zeros.
pub const OUTPUT_BYTES: usize = 1024;

/// A program, and what it is launched with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The module.
    pub text: String,
    /// The bytes of the kernel's arguments behind the first, which is the address of the output.
    pub arguments: Vec<Vec<u8>>,
    /// What it is about, for counting.
    pub exhibits: Vec<&'static str>,
}

/// A kind of exhibit, and what writes it.
type Exhibit = (&'static str, fn(&mut Writer));

/// The kinds of exhibits, and what writes each.
const EXHIBITS: &[Exhibit] = &[
    ("global variable", Writer::global_variable),
    ("constant variable", Writer::constant_variable),
    ("shared variable", Writer::shared_variable),
    ("local variable", Writer::local_variable),
    ("static variable", Writer::static_variable),
    ("table of addresses", Writer::table_of_addresses),
    ("masked addresses", Writer::masked_addresses),
    ("constant expression", Writer::constant_expression),
    ("floating-point constant", Writer::floating_point_constant),
    ("address operand", Writer::address_operand),
    ("address arithmetic", Writer::address_arithmetic),
    ("vector register", Writer::vector_register),
    ("packing", Writer::packing),
    ("predicates", Writer::predicates),
    ("scopes", Writer::scopes),
    ("kernel parameter", Writer::kernel_parameter),
    ("call by registers", Writer::call_by_registers),
    ("call by parameters", Writer::call_by_parameters),
    ("call with a structure", Writer::call_with_a_structure),
    ("call of a call", Writer::call_of_a_call),
];

/// The names of all kinds of exhibits.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    EXHIBITS.iter().map(|(name, _)| *name)
}

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let mut writer = Writer::new(seed);
    for _ in 0..1 + writer.rng.below(5) {
        let &(name, write) = writer.rng.pick(EXHIBITS);
        if writer.at + LARGEST_EXHIBIT > OUTPUT_BYTES {
            break;
        }
        writer.exhibits.push(name);
        writer.line("{");
        write(&mut writer);
        writer.line("}");
    }
    writer.finish()
}

/// Bytes that one exhibit writes at most.
const LARGEST_EXHIBIT: usize = 256;

/// A fundamental type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Type {
    name: &'static str,
    bytes: usize,
    float: bool,
}

const fn ty(name: &'static str, bytes: usize, float: bool) -> Type {
    Type { name, bytes, float }
}

/// Every fundamental type that a variable in memory may have.
const TYPES: &[Type] = &[
    ty("b8", 1, false),
    ty("u8", 1, false),
    ty("s8", 1, false),
    ty("b16", 2, false),
    ty("u16", 2, false),
    ty("s16", 2, false),
    ty("b32", 4, false),
    ty("u32", 4, false),
    ty("s32", 4, false),
    ty("b64", 8, false),
    ty("u64", 8, false),
    ty("s64", 8, false),
    ty("f32", 4, true),
    ty("f64", 8, true),
    ty("b128", 16, false),
];

/// Types that are rarely declared or not allowed everywhere.
const RARE_TYPES: &[Type] = &[
    ty("f16", 2, true),
    ty("f16x2", 4, true),
    ty("bf16", 2, true),
    ty("bf16x2", 4, true),
    ty("tf32", 4, true),
    ty("e4m3", 1, true),
    ty("pred", 1, false),
];

/// What a variable in memory looks like.
#[derive(Clone, Debug)]
struct VariableShape {
    ty: Type,
    /// Elements of a vector; 1 for none.
    vector: usize,
    /// Sizes of an array's dimensions.
    dimensions: Vec<usize>,
    /// How the dimensions are written.
    brackets: String,
    /// The alignment it asks for.
    align: Option<usize>,
}

impl VariableShape {
    fn bytes(&self) -> usize {
        self.ty.bytes * self.vector * self.dimensions.iter().product::<usize>()
    }

    /// The alignment that loads may count on.
    fn alignment(&self) -> usize {
        let natural = self.ty.bytes * self.vector;
        self.align.unwrap_or(natural).clamp(1, 16)
    }

    /// `.align 8 .v2 .b32 name[3]`
    fn declare(&self, name: &str) -> String {
        let align = self
            .align
            .map_or_else(String::new, |n| format!(".align {n} "));
        let vector = match self.vector {
            1 => String::new(),
            n => format!(".v{n} "),
        };
        format!("{align}{vector}.{} {name}{}", self.ty.name, self.brackets)
    }
}

/// A variable that later exhibits may point at.
#[derive(Clone, Debug)]
struct Target {
    name: String,
    space: &'static str,
    bytes: usize,
}

struct Writer {
    rng: Rng,
    /// Declarations and functions before the kernel.
    module: String,
    parameters: Vec<String>,
    arguments: Vec<Vec<u8>>,
    lines: Vec<String>,
    /// Bytes of the output that are taken.
    at: usize,
    names: usize,
    targets: Vec<Target>,
    exhibits: Vec<&'static str>,
    /// Whether functions may have several results. With one such function ptxas compiles the module without ABI.
    several_results: bool,
}

impl Writer {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xdec1_a2a7_1045);
        Self {
            several_results: rng.one_in(4),
            rng,
            module: String::new(),
            parameters: vec![".param .u64 output".to_owned()],
            arguments: Vec::new(),
            lines: Vec::new(),
            at: 0,
            names: 0,
            targets: Vec::new(),
            exhibits: Vec::new(),
        }
    }

    fn finish(self) -> Program {
        let mut text = String::from(".version 8.3\n.target sm_90a\n.address_size 64\n\n");
        text += &self.module;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n.visible .entry {KERNEL}(\n    {}\n)\n{{\n    .reg .b64 %out;\n",
            self.parameters.join(",\n    ")
        );
        text += "    ld.param.u64 %out, [output];\n";
        for line in &self.lines {
            let _ = writeln!(text, "    {line}");
        }
        text += "    ret;\n}\n";
        Program {
            text,
            arguments: self.arguments,
            exhibits: self.exhibits,
        }
    }

    fn line(&mut self, text: impl Into<String>) {
        self.lines.push(text.into());
    }

    /// A declaration or function before the kernel.
    fn declare(&mut self, text: impl AsRef<str>) {
        self.module += text.as_ref();
        self.module.push('\n');
    }

    /// A name nobody else has.
    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Whether to try something that may not be legal.
    fn wild(&mut self) -> bool {
        self.rng.one_in(60)
    }

    /// Takes room in the output for a value of some bytes and gives its address.
    fn room(&mut self, bytes: usize) -> String {
        self.at = self.at.next_multiple_of(bytes);
        let at = self.at;
        self.at += bytes;
        format!("[%out+{at}]")
    }

    /// Writes a register of so many bytes to the output; `register` may be wider than that for single bytes.
    fn show(&mut self, register: &str, bytes: usize) {
        let room = self.room(bytes);
        if bytes == 16 {
            let (low, high) = (self.name("%lo"), self.name("%hi"));
            self.line(format!(".reg .b64 {low}, {high};"));
            self.line(format!("mov.b128 {{{low}, {high}}}, {register};"));
            self.line(format!("st.global.v2.b64 {room}, {{{low}, {high}}};"));
        } else {
            self.line(format!("st.global.b{} {room}, {register};", 8 * bytes));
        }
    }

    /// A new register of a declared type.
    fn register(&mut self, declared: &str) -> String {
        let name = self.name("%x");
        self.line(format!(".reg .{declared} {name};"));
        name
    }

    /// Reads all bytes of a variable with loads of some width.
    fn dump(&mut self, space: &str, address: &str, bytes: usize, alignment: usize) {
        let widths = [1, 2, 4, 8].map(|width| usize::min(width, alignment));
        let width = *self.rng.pick(&widths);
        let mut at = 0;
        while at < bytes {
            let width = if at + width <= bytes { width } else { 1 };
            let sign = if at == 0 {
                String::new()
            } else {
                format!("+{at}")
            };
            let kind = *self.rng.pick(&["b", "u", "s"]);
            let register = self.register(&format!("{kind}{}", if width == 8 { 64 } else { 32 }));
            self.line(format!(
                "ld{space}.u{} {register}, [{address}{sign}];",
                8 * width
            ));
            self.show(&register, width);
            at += width;
        }
    }
}

#[cfg(test)]
mod tests;
