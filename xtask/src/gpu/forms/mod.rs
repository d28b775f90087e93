//! Single operations on the chip against their definition in `eval`.
//!
//! A *form* is one PTX statement and the function that says what it computes. On a machine with a GPU, `gpu forms` runs
//! every form on many lanes and compares bit for bit; `gpu record` writes the results of some lanes to a file, which a
//! test replays where there is no GPU.

mod floating;
mod inputs;
mod integers;

use std::fmt::Write as _;

pub use inputs::lanes;

/// The register an operand lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// A 16-bit register.
    B16,
    /// A 32-bit register.
    B32,
    /// A 64-bit register.
    B64,
    /// A predicate, from or to the lowest bit.
    Pred,
}

/// What an operand's bits mean, which decides the special values it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any bits; small numbers and edges of the range.
    Int,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Half precision, one or two in a register.
    F16,
    /// The upper half of single precision, one or two in a register.
    BF16,
    /// Small counts: shift amounts, positions, lengths.
    Count,
}

/// An operand: its register and its meaning.
pub type Operand = (Width, Kind);

/// What a form computes: the operands' bits in, the result's bits out.
pub type Definition = Box<dyn Fn([u64; 3]) -> u64 + Send + Sync>;

/// One operation.
pub struct Form {
    /// Its name in tables and in the record: usually the opcode.
    pub name: String,
    /// The PTX statements; operands are `%d`, `%a`, `%b`, `%c`, further registers `%t0` to `%t3` (32-bit), `%u0` to
    /// `%u3` (64-bit) and `%q` (a predicate).
    pub ptx: String,
    /// The result's register.
    pub result: Width,
    /// The operands.
    pub operands: Vec<Operand>,
    /// What it computes.
    pub definition: Definition,
}

/// A form that is an opcode and its operands, the result first.
fn form(
    opcode: &str,
    result: Width,
    operands: &[Operand],
    definition: impl Fn([u64; 3]) -> u64 + Send + Sync + 'static,
) -> Form {
    let names = ["%a", "%b", "%c"][..operands.len()].join(", ");
    Form {
        name: opcode.to_owned(),
        ptx: format!("{opcode} %d, {names};"),
        result,
        operands: operands.to_vec(),
        definition: Box::new(definition),
    }
}

/// Every form, in a fixed order.
pub fn all() -> Vec<Form> {
    let mut forms = integers::forms();
    forms.extend(floating::forms());
    forms
}

fn class(width: Width) -> &'static str {
    match width {
        Width::B16 => ".b16",
        Width::B32 => ".b32",
        Width::B64 => ".b64",
        Width::Pred => ".pred",
    }
}

/// A module with one kernel per form, `form0`, `form1`, …: each takes the addresses of the operands' 64-bit words and of
/// the results, and the number of lanes.
pub fn module(forms: &[Form]) -> String {
    let mut out = String::from(".version 9.0\n.target sm_90a\n.address_size 64\n");
    for (index, form) in forms.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = kernel(&mut out, index, form);
    }
    out
}

fn kernel(out: &mut String, index: usize, form: &Form) -> std::fmt::Result {
    writeln!(
        out,
        ".visible .entry form{index}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd, .param .u32 n)\n{{"
    )?;
    writeln!(out, ".reg .b32 %i<5>; .reg .b64 %w<8>; .reg .pred %exit;")?;
    writeln!(
        out,
        ".reg .b32 %t<4>; .reg .b64 %u<4>; .reg .pred %q; .reg .b16 %h<2>;"
    )?;
    writeln!(out, ".reg {} %d;", class(form.result))?;
    writeln!(
        out,
        "mov.u32 %i0, %ctaid.x; mov.u32 %i1, %ntid.x; mov.u32 %i2, %tid.x;"
    )?;
    writeln!(out, "mad.lo.u32 %i3, %i0, %i1, %i2; ld.param.u32 %i4, [n];")?;
    writeln!(
        out,
        "setp.ge.u32 %exit, %i3, %i4; @%exit exit; mul.wide.u32 %w0, %i3, 8;"
    )?;
    for (name, (width, _)) in ["a", "b", "c"].iter().zip(&form.operands) {
        writeln!(out, ".reg {} %{name};", class(*width))?;
        writeln!(
            out,
            "ld.param.u64 %w1, [p{name}]; add.u64 %w1, %w1, %w0; ld.global.b64 %w2, [%w1];"
        )?;
        match width {
            Width::B16 => writeln!(out, "cvt.u16.u64 %{name}, %w2;")?,
            Width::B32 => writeln!(out, "cvt.u32.u64 %{name}, %w2;")?,
            Width::B64 => writeln!(out, "mov.b64 %{name}, %w2;")?,
            Width::Pred => writeln!(out, "and.b64 %w2, %w2, 1; setp.ne.u64 %{name}, %w2, 0;")?,
        }
    }
    writeln!(out, "{}", form.ptx)?;
    match form.result {
        Width::B16 => writeln!(out, "cvt.u64.u16 %w3, %d;")?,
        Width::B32 => writeln!(out, "cvt.u64.u32 %w3, %d;")?,
        Width::B64 => writeln!(out, "mov.b64 %w3, %d;")?,
        Width::Pred => writeln!(out, "selp.u64 %w3, 1, 0, %d;")?,
    }
    writeln!(
        out,
        "ld.param.u64 %w4, [pd]; add.u64 %w4, %w4, %w0; st.global.b64 [%w4], %w3; exit;\n}}"
    )
}
