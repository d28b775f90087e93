//! One kernel for each form of a matrix instruction, and what it gets to work on.
//!
//! A kernel's threads read their registers and the block's shared memory from one buffer, execute the instruction once, and write what
//! they hold to another. Every block gets another flavour of numbers ([`inputs`]). `conformance matrix` runs the kernels in emulator and
//! interpreter, `gpu matrix` on the chip; both compare what two compilers made of them.

mod fragments;
pub mod inputs;
mod products;
mod warpgroup;

use inputs::Kind;
use std::fmt::Write as _;

/// Registers of one operand.
pub struct Registers {
    /// The registers are `%NAME0`, `%NAME1`, ….
    pub name: &'static str,
    /// Their type in PTX.
    pub ty: &'static str,
    pub count: usize,
    pub kind: Kind,
}

impl Registers {
    const fn words(&self) -> usize {
        self.count * words(self.ty)
    }
}

/// How many words a register of a type holds.
const fn words(ty: &str) -> usize {
    match ty.as_bytes() {
        b"f64" | b"b64" | b"u64" => 2,
        _ => 1,
    }
}

/// One form of an instruction.
pub struct Form {
    /// The opcode, with what else tells it from others.
    pub name: String,
    /// What the threads read.
    pub operands: Vec<Registers>,
    /// What they write: the type and the number of the registers `%d0`, `%d1`, ….
    pub result: (&'static str, usize),
    /// The statements.
    pub body: String,
    /// Words of shared memory that are filled before, and what with.
    pub shared: (usize, Kind),
    /// Threads of a block.
    pub threads: usize,
}

/// Blocks of a launch: one for each flavour of numbers, several times.
pub const BLOCKS: usize = 3 * inputs::FLAVOURS;

/// Every form, in a fixed order.
pub fn all() -> Vec<Form> {
    let mut forms = products::forms();
    forms.extend(fragments::forms());
    forms.extend(warpgroup::forms());
    forms
}

impl Form {
    /// Words of registers that a thread reads.
    fn operand_words(&self) -> usize {
        self.operands.iter().map(Registers::words).sum()
    }

    /// Words that a thread writes.
    fn result_words(&self) -> usize {
        self.result.1 * words(self.result.0)
    }

    /// Words that a block reads: shared memory first, then each thread's registers.
    fn block_words(&self) -> usize {
        self.shared.0 + self.threads * self.operand_words()
    }

    /// Bytes of the results of a launch.
    pub fn result_bytes(&self) -> usize {
        BLOCKS * self.threads * self.result_words() * 4
    }

    /// What a launch reads.
    pub fn input(&self) -> Vec<u8> {
        let mut random = inputs::Random::new(&self.name);
        let mut words = Vec::with_capacity(BLOCKS * self.block_words());
        for block in 0..BLOCKS {
            let flavour = block % inputs::FLAVOURS;
            for _ in 0..self.shared.0 {
                words.push(inputs::word(&mut random, self.shared.1, flavour));
            }
            for _ in 0..self.threads {
                for operand in &self.operands {
                    for _ in 0..operand.count {
                        inputs::register(
                            &mut random,
                            operand.kind,
                            flavour,
                            words_of(operand),
                            &mut words,
                        );
                    }
                }
            }
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The kernel's text.
    fn kernel(&self, out: &mut String, index: usize) -> std::fmt::Result {
        writeln!(
            out,
            "// {}\n.visible .entry matrix{index}(.param .u64 pin, .param .u64 pout)\n.maxntid {}, 1, 1\n{{",
            self.name, self.threads
        )?;
        for operand in &self.operands {
            writeln!(
                out,
                " .reg .{} %{}<{}>;",
                operand.ty, operand.name, operand.count
            )?;
        }
        let (ty, count) = self.result;
        writeln!(out, " .reg .{ty} %d<{count}>;")?;
        writeln!(
            out,
            " .reg .u64 %in, %out, %at; .reg .u32 %lane, %cta, %n, %sh; .reg .b32 %w; .reg .pred %more;"
        )?;
        if self.shared.0 > 0 {
            writeln!(
                out,
                " .shared .align 1024 .b8 room{index}[{}];",
                4 * self.shared.0
            )?;
        }
        writeln!(
            out,
            " ld.param.u64 %in, [pin]; ld.param.u64 %out, [pout]; mov.u32 %lane, %tid.x; mov.u32 %cta, %ctaid.x;"
        )?;
        writeln!(
            out,
            " mul.wide.u32 %at, %cta, {}; add.u64 %in, %in, %at;",
            4 * self.block_words()
        )?;
        if self.shared.0 > 0 {
            self.fill_shared(out, index)?;
        }
        writeln!(
            out,
            " mul.wide.u32 %at, %lane, {}; add.u64 %in, %in, %at; add.u64 %in, %in, {};",
            4 * self.operand_words(),
            4 * self.shared.0
        )?;
        let mut offset = 0;
        for operand in &self.operands {
            for register in 0..operand.count {
                self.read(out, operand, register, offset)?;
                offset += 4 * words_of(operand);
            }
        }
        writeln!(out, "{}", self.body)?;
        writeln!(out, " mad.lo.u32 %n, %cta, {}, %lane;", self.threads)?;
        writeln!(
            out,
            " mul.wide.u32 %at, %n, {}; add.u64 %out, %out, %at;",
            4 * self.result_words()
        )?;
        for register in 0..count {
            match words(ty) {
                2 => {
                    writeln!(
                        out,
                        " {{ .reg .b32 %lo, %hi; mov.b64 {{%lo, %hi}}, %d{register};"
                    )?;
                    let at = 8 * register;
                    writeln!(
                        out,
                        " st.global.b32 [%out+{at}], %lo; st.global.b32 [%out+{}], %hi; }}",
                        at + 4
                    )?;
                }
                _ => writeln!(out, " st.global.b32 [%out+{}], %d{register};", 4 * register)?,
            }
        }
        writeln!(out, " ret;\n}}")
    }

    fn read(
        &self,
        out: &mut String,
        operand: &Registers,
        register: usize,
        offset: usize,
    ) -> std::fmt::Result {
        let name = operand.name;
        match words_of(operand) {
            2 => writeln!(
                out,
                " {{ .reg .b32 %lo, %hi; ld.global.b32 %lo, [%in+{offset}]; ld.global.b32 %hi, [%in+{}]; mov.b64 %{name}{register}, {{%lo, %hi}}; }}",
                offset + 4
            ),
            _ => writeln!(out, " ld.global.b32 %{name}{register}, [%in+{offset}];"),
        }
    }

    /// Shared memory, a word a thread at a time.
    fn fill_shared(&self, out: &mut String, index: usize) -> std::fmt::Result {
        let (threads, bytes) = (4 * self.threads, 4 * self.shared.0);
        writeln!(out, " mov.u32 %sh, room{index}; shl.b32 %n, %lane, 2;")?;
        writeln!(out, "fill{index}: {{ .reg .u64 %from; .reg .u32 %to;")?;
        writeln!(
            out,
            " cvt.u64.u32 %from, %n; add.u64 %from, %in, %from; add.u32 %to, %sh, %n;"
        )?;
        writeln!(
            out,
            " ld.global.b32 %w, [%from]; st.shared.b32 [%to], %w; }}"
        )?;
        writeln!(
            out,
            " add.u32 %n, %n, {threads}; setp.lt.u32 %more, %n, {bytes}; @%more bra fill{index};"
        )?;
        writeln!(out, " bar.sync 0;")
    }
}

/// How many words a register of an operand holds.
const fn words_of(operand: &Registers) -> usize {
    words(operand.ty)
}

/// A module with a kernel for each form, `matrix0`, `matrix1`, ….
pub fn module(forms: &[&Form]) -> String {
    let mut out = String::from(".version 9.0\n.target sm_90a\n.address_size 64\n");
    for (index, form) in forms.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = form.kernel(&mut out, index);
    }
    out
}
