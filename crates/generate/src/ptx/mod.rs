//! Random PTX programs that mean something definite for every input.
//!
//! Whatever executes such a program (an interpreter, compiled code at any optimisation level, a GPU) must leave the same bytes
//! behind, so any two of them can be compared. A program is a module with one kernel, [`KERNEL`], and perhaps some device
//! functions. Each thread reads its own [`INPUT_WORDS`] words, computes, and writes a checksum of everything it has
//! computed.
//!
//! Rich programs ([`Options::rich`]) have any number of kernels, none included, with the same parameters; they are launched one after
//! the other. What they leave in the module's visible variables of global memory counts as well.
//!
//! # What makes a program definite
//! - Every register is written before anything reads it; loops have a bound.
//! - Divisors are not zero; a sum and a product are never left to be contracted (every rounding is written); functions with
//!   an error bound in place of a value do not occur.
//! - The bits of a NaN are never looked at: a floating-point value becomes an integer only through a conversion, or after
//!   its NaNs were replaced.
//! - Each thread has its own slots in memory. Threads exchange values through shared memory only between barriers that all
//!   of them reach, and through reductions whose order does not matter.
//! - Threads also meet in retry loops and under locks, where only what does not depend on the order is kept, and wait for their
//!   turns, where the order is given. Nobody who holds a lock or has a turn waits for anybody else.
//! - A warp operation names as members exactly the threads that reach it. The generator keeps the mask in a register
//!   while it enters branches and loops, and lets it go where control flow has no structure.
//!
//! The same seed gives the same program on every machine.

mod control;
pub mod declarations;
mod memory;
mod neighbours;
pub mod pairs;
mod rich;

mod scalar;
mod vocabulary;
mod warp;

use orias_random::Rng;
use std::fmt::Write as _;
use vocabulary::Class;

/// The name of the kernel.
pub const KERNEL: &str = "program";
/// 64-bit words of input a thread reads.
pub const INPUT_WORDS: usize = 16;
/// Threads of a CTA.
pub const BLOCK: u32 = 64;
/// CTAs.
pub const GRID: u32 = 2;
/// All threads of a launch.
pub const THREADS: usize = (BLOCK * GRID) as usize;
/// Bytes of the input buffer: the first argument.
pub const INPUT_BYTES: usize = THREADS * INPUT_WORDS * 8;
/// Words of 32 bits, after the checksums, that all threads add to.
pub const ACCUMULATORS: usize = 16;
/// Bytes of the output buffer, which starts as zeros: the second argument.
pub const OUTPUT_BYTES: usize = THREADS * 8 + ACCUMULATORS * 4;
/// Bytes of global memory each thread uses for itself.
const SCRATCH: usize = 64;
/// Bytes of the scratch buffer: the third argument.
pub const SCRATCH_BYTES: usize = THREADS * SCRATCH;

/// What programs are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// About how many statements the body has.
    pub statements: usize,
    /// How deep branches and loops nest.
    pub depth: usize,
    /// Whether threads of a warp exchange values.
    pub warp: bool,
    /// Whether there are device functions.
    pub functions: bool,
    /// Whether control flow, calls, constant data and sharing of every kind occur, and modules of several kernels or of none.
    pub rich: bool,
}

impl Options {
    /// Programs of the richest kind.
    #[must_use]
    pub fn rich() -> Self {
        Self {
            statements: 36,
            rich: true,
            ..Self::default()
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            statements: 60,
            depth: 3,
            warp: true,
            functions: true,
            rich: false,
        }
    }
}

/// The program of a seed.
pub fn program(seed: u64, options: &Options) -> String {
    if options.rich {
        return rich::module(seed, options);
    }
    let mut rng = Rng::new(seed);
    // Small programs are as interesting as large ones, and easier to look at.
    let statements = options.statements / 4 + rng.below(options.statements);
    let mut writer = Writer::new(rng, *options);
    writer.functions();
    writer.prologue();
    writer.block(statements, 0);
    writer.epilogue();
    writer.module()
}

/// The input of a launch: numbers of every length, special values of every type, and random bits.
pub fn input(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed ^ 0x5bd1_e995_7f4a_7c15);
    let words = (0..THREADS * INPUT_WORDS).map(|_| match rng.below(6) {
        0 => *rng.pick(vocabulary::INTEGERS),
        1 => {
            let low: u32 = *rng.pick(vocabulary::SINGLES);
            let high: u32 = *rng.pick(vocabulary::SINGLES);
            u64::from(high) << 32 | u64::from(low)
        }
        2 => *rng.pick(vocabulary::DOUBLES),
        3 => {
            // Singles and doubles of moderate size.
            let bits = rng.next_u64();
            bits & 0x800f_ffff_807f_ffff | (0x3f8 + bits % 16) << 52 | (0x78 + bits % 16) << 23
        }
        _ => {
            let length = rng.below(64);
            rng.next_u64() >> length
        }
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// A device function that programs call.
#[derive(Clone, Debug)]
struct Callee {
    name: String,
    result: Class,
    parameters: Vec<Class>,
}

/// Writes a program.
struct Writer {
    rng: Rng,
    options: Options,
    /// Device functions, in front of the kernel.
    functions_text: String,
    callees: Vec<Callee>,
    /// The lines of the body being written.
    lines: Vec<String>,
    /// Registers of each class that hold something; the same for all statements of a body.
    counts: [usize; Class::COUNT],
    /// Temporaries made so far, by class.
    temporaries: [usize; Class::COUNT],
    labels: usize,
    tables: usize,
    /// The operand that names the threads that are here together; none where that is not known.
    members: Option<String>,
    /// Whether all threads of the CTA are here.
    uniform: bool,
    /// Whether all threads of the CTA that have not ended are here.
    together: bool,
    /// What only rich programs have.
    rich: rich::State,
    indent: usize,
}

impl Writer {
    fn new(rng: Rng, options: Options) -> Self {
        Self {
            rng,
            options,
            functions_text: String::new(),
            callees: Vec::new(),
            lines: Vec::new(),
            counts: Class::ALL.map(Class::registers),
            temporaries: [0; Class::COUNT],
            labels: 0,
            tables: 0,
            members: Some("0xffffffff".to_owned()),
            uniform: true,
            together: true,
            rich: rich::State::default(),
            indent: 1,
        }
    }

    /// One line of the body.
    fn line(&mut self, text: impl AsRef<str>) {
        let text = format!("{:width$}{}", "", text.as_ref(), width = 4 * self.indent);
        self.lines.push(text);
    }

    /// A label nobody else has.
    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn place(&mut self, label: &str) {
        self.lines.push(format!("{label}:"));
    }

    /// A register of a class that holds something.
    fn register(&mut self, class: Class) -> String {
        let count = self.counts[class as usize];
        format!("{}{}", class.prefix(), self.rng.below(count))
    }

    /// A new register of a class.
    fn temporary(&mut self, class: Class) -> String {
        let number = self.temporaries[class as usize];
        self.temporaries[class as usize] += 1;
        format!("%t{}{number}", &class.prefix()[1..])
    }

    /// An operand of a class: mostly a register, now and then a constant.
    fn operand(&mut self, class: Class) -> String {
        if self.rng.one_in(5)
            && let Some(constant) = self.constant(class)
        {
            return constant;
        }
        self.register(class)
    }

    /// `opcode destination, operands;` with a register of the class as destination, now and then under a guard.
    fn statement(&mut self, opcode: &str, class: Class, operands: &[String]) {
        let destination = self.register(class);
        let guard = self.guard();
        self.line(format!(
            "{guard}{opcode} {destination}, {};",
            operands.join(", ")
        ));
    }

    /// Nothing, or a predicate in front of a statement.
    fn guard(&mut self) -> String {
        if !self.rng.one_in(8) {
            return String::new();
        }
        let negated = if self.rng.one_in(2) { "!" } else { "" };
        format!("@{negated}{} ", self.register(Class::Pred))
    }

    /// Statements, and among them branches and loops.
    fn block(&mut self, statements: usize, depth: usize) {
        let mut left = statements;
        while left > 0 {
            let size = if depth < self.options.depth && left > 3 && self.rng.one_in(6) {
                let size = 2 + self.rng.below(left.min(16));
                self.structure(size, depth);
                size
            } else {
                self.simple();
                1
            };
            left = left.saturating_sub(size);
        }
    }

    /// One statement that does not change where control goes.
    fn simple(&mut self) {
        if self.options.rich && self.rich_statement() {
            return;
        }
        match self.rng.below(20) {
            0..=1 => self.memory_statement(),
            2..=3 if self.options.warp && self.members.is_some() => self.warp_statement(),
            4 if !self.callees.is_empty() => self.call(),
            5 => self.mix(),
            _ => self.scalar_statement(),
        }
    }

    /// Puts a value into the checksum.
    fn mix(&mut self) {
        let class = *self.rng.pick(&Class::VALUES);
        let register = self.register(class);
        self.mix_register(class, &register);
    }

    fn mix_register(&mut self, class: Class, register: &str) {
        let word = self.as_bits(class, register);
        let bits = if class.bits() == 64 {
            let (low, high) = (self.temporary(Class::B32), self.temporary(Class::B32));
            self.line(format!("mov.b64 {{{low}, {high}}}, {word};"));
            self.line(format!("xor.b32 {low}, {low}, {high};"));
            low
        } else {
            word
        };
        self.line("mul.lo.u32 %check0, %check0, 0x01000193;");
        self.line(format!("xor.b32 %check0, %check0, {bits};"));
        self.line("mul.lo.u32 %check1, %check1, 0x85ebca6b;");
        self.line("shf.l.wrap.b32 %check1, %check1, %check1, 13;");
        self.line(format!("add.u32 %check1, %check1, {bits};"));
    }

    /// A value as a register of 32 or 64 untyped bits, in which every NaN is the same.
    fn as_bits(&mut self, class: Class, register: &str) -> String {
        let bits = match class.bits() {
            64 => self.temporary(Class::B64),
            _ => self.temporary(Class::B32),
        };
        match class {
            Class::B16 => self.line(format!("cvt.u32.u16 {bits}, {register};")),
            Class::B32 => self.line(format!("mov.b32 {bits}, {register};")),
            Class::B64 => self.line(format!("mov.b64 {bits}, {register};")),
            Class::Pred => self.line(format!("selp.b32 {bits}, 1, 2, {register};")),
            Class::F32 | Class::F64 => {
                let (ty, nan) = match class {
                    Class::F32 => ("32", "0x7fc00000"),
                    _ => ("64", "0x7ff8000000000000"),
                };
                let predicate = self.temporary(Class::Pred);
                self.line(format!(
                    "setp.nan.f{ty} {predicate}, {register}, {register};"
                ));
                self.line(format!("mov.b{ty} {bits}, {register};"));
                self.line(format!("@{predicate} mov.b{ty} {bits}, {nan};"));
            }
            Class::F16 | Class::BF16 => {
                let ty = if class == Class::F16 { "f16" } else { "bf16" };
                let predicate = self.temporary(Class::Pred);
                self.line(format!(
                    "setp.nan.{ty} {predicate}, {register}, {register};"
                ));
                self.line(format!("cvt.u32.u16 {bits}, {register};"));
                self.line(format!("@{predicate} mov.b32 {bits}, 0x7e00;"));
            }
            Class::F16x2 | Class::BF16x2 => {
                let ty = if class == Class::F16x2 {
                    "f16x2"
                } else {
                    "bf16x2"
                };
                let (low, high) = (self.temporary(Class::Pred), self.temporary(Class::Pred));
                self.line(format!(
                    "setp.nan.{ty} {low}|{high}, {register}, {register};"
                ));
                self.line(format!("mov.b32 {bits}, {register};"));
                self.line(format!("@{low} bfi.b32 {bits}, 0x7e00, {bits}, 0, 16;"));
                self.line(format!("@{high} bfi.b32 {bits}, 0x7e00, {bits}, 16, 16;"));
            }
        }
        bits
    }

    /// Addresses, and a first value for every register.
    fn prologue(&mut self) {
        for line in [
            "mov.u32 %tid32, %tid.x;",
            "mov.u32 %t0, %ctaid.x;",
            "mad.lo.u32 %t0, %t0, 64, %tid32;",
            "mov.u32 %lane, %laneid;",
            "ld.param.u64 %in, [input];",
            "ld.param.u64 %out, [output];",
            "ld.param.u64 %scratch, [memory];",
            "cvta.to.global.u64 %in, %in;",
            "cvta.to.global.u64 %out, %out;",
            "cvta.to.global.u64 %scratch, %scratch;",
            "add.u64 %sums, %out, 1024;",
            "mad.wide.u32 %in, %t0, 128, %in;",
            "mad.wide.u32 %out, %t0, 8, %out;",
            "mad.wide.u32 %scratch, %t0, 64, %scratch;",
            "mov.u32 %own, exchange;",
            "mad.lo.u32 %own, %tid32, 16, %own;",
            "mov.u32 %check0, 0x811c9dc5;",
            "mov.u32 %check1, 0x9747b28c;",
        ] {
            self.line(line);
        }
        let mut word = 0;
        for class in Class::ALL {
            for number in 0..self.counts[class as usize] {
                let register = format!("{}{number}", class.prefix());
                let at = 8 * (word % INPUT_WORDS);
                word += 1;
                match class {
                    Class::Pred => {
                        let value = self.temporary(Class::B32);
                        self.line(format!("ld.global.u32 {value}, [%in+{at}];"));
                        self.line(format!("and.b32 {value}, {value}, {};", 1 << (number % 8)));
                        self.line(format!("setp.ne.u32 {register}, {value}, 0;"));
                    }
                    _ => self.line(format!(
                        "ld.global.b{} {register}, [%in+{at}];",
                        class.bits()
                    )),
                }
            }
        }
        self.line("ld.global.b64 %seed, [%in+120];");
        for at in (0..SCRATCH).step_by(8) {
            self.line(format!("st.global.u64 [%scratch+{at}], %seed;"));
            self.line(format!("st.local.u64 [depot+{at}], %seed;"));
        }
        self.line("st.shared.v2.u64 [%own], {%seed, %seed};");
    }

    /// Everything into the checksum, and the checksum to memory.
    fn epilogue(&mut self) {
        for class in Class::ALL {
            for number in 0..self.counts[class as usize] {
                let register = format!("{}{number}", class.prefix());
                self.mix_register(class, &register);
            }
        }
        self.line("st.global.v2.u32 [%out], {%check0, %check1};");
        self.line("ret;");
    }

    /// The register declarations of a body.
    fn declarations(&self) -> String {
        let mut text = String::new();
        for class in Class::ALL {
            let (prefix, ty) = (class.prefix(), class.declared());
            let count = self.counts[class as usize];
            // Writing to a string cannot fail.
            let _ = writeln!(text, "    .reg {ty} {prefix}<{count}>;");
            let count = self.temporaries[class as usize].max(1);
            let _ = writeln!(text, "    .reg {ty} %t{}<{count}>;", &prefix[1..]);
        }
        text
    }

    /// The whole module.
    fn module(&self) -> String {
        let mut text = String::from(".version 8.0\n.target sm_90\n.address_size 64\n\n");
        text += ".shared .align 16 .b8 exchange[1024];\n";
        text += &self.functions_text;
        text += &self.kernel(KERNEL, "");
        text
    }

    /// The kernel of what was written, with registers of its own besides those that all have.
    fn kernel(&self, name: &str, own: &str) -> String {
        let mut text = format!(
            "\n.visible .entry {name}(.param .u64 input, .param .u64 output, .param .u64 memory)\n{{\n"
        );
        text += &self.declarations();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "    .reg .b32 %tid32, %t0, %lane, %own, {own}%check<2>;"
        );
        text += "    .reg .b64 %in, %out, %scratch, %sums, %seed;\n";
        let _ = writeln!(text, "    .local .align 16 .b8 depot[{SCRATCH}];");
        for line in &self.lines {
            text += line;
            text.push('\n');
        }
        text += "}\n";
        text
    }

    /// Device functions: straight code from parameters to a result.
    fn functions(&mut self) {
        if !self.options.functions {
            return;
        }
        for number in 0..self.rng.below(3) {
            let result = *self.rng.pick(&Class::PASSED);
            let count = 1 + self.rng.below(3);
            let parameters: Vec<Class> =
                (0..count).map(|_| *self.rng.pick(&Class::PASSED)).collect();
            let statements = 3 + self.rng.below(8);
            let callee = Callee {
                name: format!("function{number}"),
                result,
                parameters,
            };
            let text = self.function(&callee, statements);
            self.functions_text += &text;
            self.callees.push(callee);
        }
    }

    /// One device function, written by a writer of its own that has nothing but registers.
    fn function(&mut self, callee: &Callee, statements: usize) -> String {
        let rng = Rng::new(self.rng.next_u64());
        let mut inner = Writer::new(rng, self.options);
        inner.members = None;
        inner.uniform = false;
        let formals: Vec<String> = callee
            .parameters
            .iter()
            .enumerate()
            .map(|(at, class)| format!(".param .b{} p{at}", class.bits()))
            .collect();
        for class in Class::ALL {
            for number in 0..inner.counts[class as usize] {
                let register = format!("{}{number}", class.prefix());
                inner.first_value(callee, class, &register, number);
            }
        }
        for _ in 0..statements {
            inner.scalar_statement();
        }
        let result = inner.register(callee.result);
        inner.line(format!(
            "st.param.b{} [result], {result};",
            callee.result.bits()
        ));
        inner.line("ret;");
        let mut text = format!(
            "\n.func (.param .b{} result) {}({})\n{{\n{}",
            callee.result.bits(),
            callee.name,
            formals.join(", "),
            inner.declarations()
        );
        for line in &inner.lines {
            text += line;
            text.push('\n');
        }
        text += "}\n";
        text
    }

    /// The first value of a register in a device function: a parameter of its class, or a constant.
    fn first_value(&mut self, callee: &Callee, class: Class, register: &str, number: usize) {
        let parameters = callee.parameters.iter().enumerate();
        let fitting: Vec<usize> = parameters
            .filter(|(_, other)| **other == class)
            .map(|(at, _)| at)
            .collect();
        if fitting.is_empty() {
            let constant = vocabulary::first_constant(class, number);
            self.line(format!("mov.{} {register}, {constant};", class.moved()));
        } else {
            let at = fitting[number % fitting.len()];
            self.line(format!("ld.param.b{} {register}, [p{at}];", class.bits()));
        }
    }

    /// A call of a device function.
    fn call(&mut self) {
        let at = self.rng.below(self.callees.len());
        let callee = self.callees[at].clone();
        self.line("{");
        self.indent += 1;
        self.line(format!(".param .b{} result;", callee.result.bits()));
        let mut names = Vec::new();
        for (number, class) in callee.parameters.iter().enumerate() {
            let value = self.register(*class);
            self.line(format!(".param .b{} a{number};", class.bits()));
            self.line(format!("st.param.b{} [a{number}], {value};", class.bits()));
            names.push(format!("a{number}"));
        }
        self.line(format!(
            "call (result), {}, ({});",
            callee.name,
            names.join(", ")
        ));
        let destination = self.register(callee.result);
        self.line(format!(
            "ld.param.b{} {destination}, [result];",
            callee.result.bits()
        ));
        self.indent -= 1;
        self.line("}");
    }
}

/// What is wrong with a program.
#[cfg(test)]
fn complaints(text: &str) -> orias_ptx::Diagnostics {
    let (module, mut found) = orias_ptx::parse(text.as_bytes());
    let options = orias_ptx::Options::for_architecture("sm_90a").expect("a target");
    found.append(orias_ptx::check(&module, &options));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_legal_and_the_same_for_the_same_seed() {
        for seed in 0..200 {
            let text = program(seed, &Options::default());
            assert_eq!(text, program(seed, &Options::default()));
            let found = complaints(&text);
            assert!(
                !found.has_errors(),
                "seed {seed}:\n{}",
                found.to_excerpts("program", text.as_bytes())
            );
        }
    }
}
