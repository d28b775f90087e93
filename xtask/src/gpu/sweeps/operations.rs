//! The operations that are swept, and their kernels.

use std::fmt::Write as _;

/// The type of operands and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// Any 32 bits.
    B32,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Any 64 bits.
    B64,
}

impl Type {
    /// Its size.
    pub const fn bytes(self) -> usize {
        match self {
            Self::B32 | Self::F32 => 4,
            Self::B64 | Self::F64 => 8,
        }
    }

    /// The class of registers that hold it.
    pub const fn register(self) -> &'static str {
        match self {
            Self::B32 | Self::F32 => ".b32",
            Self::B64 | Self::F64 => ".b64",
        }
    }
}

/// One operation: its statement with the result `%d` and operands `%a`, `%b`, `%c`.
pub struct Operation {
    /// The statement.
    pub statement: String,
    /// The type of all operands.
    pub operands: Type,
    /// How many there are.
    pub count: usize,
    /// The type of the result.
    pub result: Type,
}

const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];

/// Every operation, in a fixed order: first those of one 32-bit operand, then the others by the type of their operands.
pub fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    let mut add = |statement: String, operands: Type, count: usize, result: Type| {
        all.push(Operation {
            statement,
            operands,
            count,
            result,
        });
    };
    for ftz in ["", ".ftz"] {
        for mode in ROUNDINGS {
            add(
                format!("rcp.{mode}{ftz}.f32 %d, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
            add(
                format!("sqrt.{mode}{ftz}.f32 %d, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
            add(
                format!("div.{mode}{ftz}.f32 %d, 0f3F800000, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
            add(
                format!("div.{mode}{ftz}.f32 %d, %a, 0f40400000;"),
                Type::F32,
                1,
                Type::F32,
            );
        }
        for name in ["rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"] {
            add(
                format!("{name}.approx{ftz}.f32 %d, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
        }
        for name in ["abs", "neg"] {
            add(format!("{name}{ftz}.f32 %d, %a;"), Type::F32, 1, Type::F32);
        }
        for mode in ["rni", "rzi", "rmi", "rpi"] {
            add(
                format!("cvt.{mode}{ftz}.f32.f32 %d, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
            add(
                format!("cvt.{mode}{ftz}.sat.f32.f32 %d, %a;"),
                Type::F32,
                1,
                Type::F32,
            );
            for target in ["s32", "u32"] {
                add(
                    format!("cvt.{mode}{ftz}.{target}.f32 %d, %a;"),
                    Type::F32,
                    1,
                    Type::B32,
                );
            }
            for target in ["s64", "u64"] {
                add(
                    format!("cvt.{mode}{ftz}.{target}.f32 %d, %a;"),
                    Type::F32,
                    1,
                    Type::B64,
                );
            }
            for target in ["s16", "u16"] {
                add(
                    format!(
                        "{{ .reg .b16 t; cvt.{mode}{ftz}.{target}.f32 t, %a; cvt.u32.u16 %d, t; }}"
                    ),
                    Type::F32,
                    1,
                    Type::B32,
                );
            }
        }
        add(
            format!("cvt.sat{ftz}.f32.f32 %d, %a;"),
            Type::F32,
            1,
            Type::F32,
        );
        add(format!("cvt{ftz}.f64.f32 %d, %a;"), Type::F32, 1, Type::B64);
        add(
            format!("{{ .reg .b16 t; cvt.rn{ftz}.f16.f32 t, %a; cvt.u32.u16 %d, t; }}"),
            Type::F32,
            1,
            Type::B32,
        );
    }
    add("tanh.approx.f32 %d, %a;".into(), Type::F32, 1, Type::F32);
    add("cvt.rna.tf32.f32 %d, %a;".into(), Type::F32, 1, Type::B32);
    for (mode, kind) in [("rz", "f16"), ("rn", "bf16"), ("rz", "bf16")] {
        add(
            format!("{{ .reg .b16 t; cvt.{mode}.{kind}.f32 t, %a; cvt.u32.u16 %d, t; }}"),
            Type::F32,
            1,
            Type::B32,
        );
    }
    for mode in ROUNDINGS {
        for source in ["s32", "u32"] {
            add(
                format!("cvt.{mode}.f32.{source} %d, %a;"),
                Type::B32,
                1,
                Type::F32,
            );
        }
    }
    for name in [
        "popc.b32",
        "clz.b32",
        "brev.b32",
        "bfind.u32",
        "bfind.s32",
        "abs.s32",
        "neg.s32",
        "not.b32",
    ] {
        add(format!("{name} %d, %a;"), Type::B32, 1, Type::B32);
    }
    for divisor in ["3", "7", "10", "641", "65536", "1000003"] {
        for kind in ["u32", "s32"] {
            add(
                format!("div.{kind} %d, %a, {divisor};"),
                Type::B32,
                1,
                Type::B32,
            );
            add(
                format!("rem.{kind} %d, %a, {divisor};"),
                Type::B32,
                1,
                Type::B32,
            );
        }
    }
    for mode in ROUNDINGS {
        for ftz in ["", ".ftz"] {
            for name in ["add", "sub", "mul", "div"] {
                add(
                    format!("{name}.{mode}{ftz}.f32 %d, %a, %b;"),
                    Type::F32,
                    2,
                    Type::F32,
                );
            }
            add(
                format!("fma.{mode}{ftz}.f32 %d, %a, %b, %c;"),
                Type::F32,
                3,
                Type::F32,
            );
        }
        for name in ["add", "sub", "mul", "div"] {
            add(
                format!("{name}.{mode}.f64 %d, %a, %b;"),
                Type::F64,
                2,
                Type::F64,
            );
        }
        add(
            format!("fma.{mode}.f64 %d, %a, %b, %c;"),
            Type::F64,
            3,
            Type::F64,
        );
        for name in ["rcp", "sqrt"] {
            add(
                format!("{name}.{mode}.f64 %d, %a;"),
                Type::F64,
                1,
                Type::F64,
            );
        }
        add(
            format!("cvt.{mode}.f32.f64 %d, %a;"),
            Type::F64,
            1,
            Type::F32,
        );
        for kind in ["s64", "u64"] {
            add(
                format!("cvt.{mode}.f32.{kind} %d, %a;"),
                Type::B64,
                1,
                Type::F32,
            );
            add(
                format!("cvt.{mode}.f64.{kind} %d, %a;"),
                Type::B64,
                1,
                Type::F64,
            );
        }
    }
    for mode in ["rni", "rzi", "rmi", "rpi"] {
        add(
            format!("cvt.{mode}.f64.f64 %d, %a;"),
            Type::F64,
            1,
            Type::F64,
        );
        for (target, result) in [
            ("s32", Type::B32),
            ("u32", Type::B32),
            ("s64", Type::B64),
            ("u64", Type::B64),
        ] {
            add(
                format!("cvt.{mode}.{target}.f64 %d, %a;"),
                Type::F64,
                1,
                result,
            );
        }
    }
    for ftz in ["", ".ftz"] {
        for name in [
            "div.full",
            "div.approx",
            "min",
            "max",
            "min.NaN",
            "max.NaN",
            "copysign",
        ] {
            if name == "copysign" {
                if ftz.is_empty() {
                    add("copysign.f32 %d, %a, %b;".into(), Type::F32, 2, Type::F32);
                }
                continue;
            }
            let statement = match name.split_once('.') {
                Some((name, "NaN")) => format!("{name}{ftz}.NaN.f32 %d, %a, %b;"),
                _ => format!("{name}{ftz}.f32 %d, %a, %b;"),
            };
            add(statement, Type::F32, 2, Type::F32);
        }
    }
    for name in ["min", "max"] {
        add(format!("{name}.f64 %d, %a, %b;"), Type::F64, 2, Type::F64);
    }
    for name in [
        "rcp.approx.ftz.f64",
        "rsqrt.approx.f64",
        "rsqrt.approx.ftz.f64",
    ] {
        add(format!("{name} %d, %a;"), Type::F64, 1, Type::F64);
    }
    for (kind, operands) in [
        ("s32", Type::B32),
        ("u32", Type::B32),
        ("s64", Type::B64),
        ("u64", Type::B64),
    ] {
        for name in ["div", "rem", "mul.hi", "mul.lo"] {
            add(format!("{name}.{kind} %d, %a, %b;"), operands, 2, operands);
        }
    }
    // Operations of the same operands stand together: their operands are made once.
    all.sort_by_key(|operation| (!operation.is_exhaustive(), operation.operands));
    all
}

impl Operation {
    /// Whether its only operand is tried in full.
    pub fn is_exhaustive(&self) -> bool {
        self.count == 1 && self.operands.bytes() == 4
    }

    /// A module with the operation as kernel `operation`: operand i of an exhaustive one is its number, counted from `first`.
    pub fn module(&self) -> String {
        let mut text = String::from(".version 9.0\n.target sm_90a\n.address_size 64\n");
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            ".visible .entry operation(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd, .param .u32 first, .param .u32 n)\n{{"
        )?;
        writeln!(text, ".reg .b32 %i<6>; .reg .b64 %w<6>; .reg .pred %q;")?;
        writeln!(
            text,
            ".reg {0} %a, %b, %c; .reg {1} %d;",
            self.operands.register(),
            self.result.register()
        )?;
        writeln!(
            text,
            "mov.u32 %i0, %ctaid.x; mov.u32 %i1, %ntid.x; mov.u32 %i2, %tid.x;"
        )?;
        writeln!(
            text,
            "mad.lo.u32 %i3, %i0, %i1, %i2; ld.param.u32 %i4, [n]; setp.ge.u32 %q, %i3, %i4; @%q exit;"
        )?;
        if self.is_exhaustive() {
            writeln!(text, "ld.param.u32 %i5, [first]; add.u32 %a, %i3, %i5;")?;
        } else {
            writeln!(text, "mul.wide.u32 %w0, %i3, {};", self.operands.bytes())?;
            for name in &["a", "b", "c"][..self.count] {
                writeln!(
                    text,
                    "ld.param.u64 %w1, [p{name}]; add.u64 %w1, %w1, %w0; ld.global{} %{name}, [%w1];",
                    self.operands.register()
                )?;
            }
        }
        writeln!(text, "{}", self.statement)?;
        writeln!(
            text,
            "mul.wide.u32 %w2, %i3, {}; ld.param.u64 %w3, [pd]; add.u64 %w3, %w3, %w2; st.global{} [%w3], %d; exit;\n}}",
            self.result.bytes(),
            self.result.register()
        )
    }
}

/// The kernel that compares two arrays: how many elements differ, and the first of them.
pub fn comparison(result: Type) -> String {
    let nan = if result == Type::F64 {
        // Two NaNs are equal.
        "setp.nan.f64 %n1, %x, %x; setp.nan.f64 %n2, %y, %y; and.pred %n1, %n1, %n2; @%n1 exit;"
    } else {
        ""
    };
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry compare(.param .u64 px, .param .u64 py, .param .u64 pc, .param .u32 n)\n{{\n\
         .reg .b32 %i<6>; .reg .b64 %w<6>; .reg .pred %q, %n1, %n2; .reg {kind} %x, %y;\n\
         mov.u32 %i0, %ctaid.x; mov.u32 %i1, %ntid.x; mov.u32 %i2, %tid.x;\n\
         mad.lo.u32 %i3, %i0, %i1, %i2; ld.param.u32 %i4, [n]; setp.ge.u32 %q, %i3, %i4; @%q exit;\n\
         mul.wide.u32 %w0, %i3, {size}; ld.param.u64 %w1, [px]; add.u64 %w1, %w1, %w0; ld.global{kind} %x, [%w1];\n\
         ld.param.u64 %w2, [py]; add.u64 %w2, %w2, %w0; ld.global{kind} %y, [%w2];\n\
         setp.eq{kind} %q, %x, %y; @%q exit; {nan}\n\
         ld.param.u64 %w3, [pc]; red.global.add.u32 [%w3], 1; red.global.min.u32 [%w3+4], %i3; exit;\n}}\n",
        kind = result.register(),
        size = result.bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_ptx() {
        for operation in operations() {
            let text = operation.module();
            let (_, found) = orias_ptx::parse(text.as_bytes());
            assert!(
                !found.has_errors(),
                "{}",
                found.to_lines("module", text.as_bytes())
            );
        }
        for kind in [Type::B32, Type::F64] {
            let text = comparison(kind);
            let (_, found) = orias_ptx::parse(text.as_bytes());
            assert!(
                !found.has_errors(),
                "{}",
                found.to_lines("module", text.as_bytes())
            );
        }
    }
}
