//! `wmma`: loads from shared memory, a product, and stores, in all shapes, types and layouts.

use super::inputs::Kind;
use super::{Form, Registers};
use std::fmt::Write as _;

/// A shape with its types and how many registers its fragments have: A, B, C and D.
struct Case {
    shape: &'static str,
    /// D, A, B and C; A and B are not named in the opcode of halves.
    types: [&'static str; 4],
    counts: [usize; 4],
    /// Rows, columns, depth.
    sides: [usize; 3],
    /// Before `.sync`, behind the shape, and behind the types.
    around: [&'static str; 3],
    /// Whether other layouts than `row.col` exist.
    layouts: bool,
}

/// The type of a register, and what is in memory.
fn register(ty: &str) -> (&'static str, Kind) {
    match ty {
        "f16" => ("b32", Kind::F16),
        "bf16" => ("b32", Kind::Bf16),
        "tf32" => ("b32", Kind::F32),
        "f32" => ("f32", Kind::F32),
        "f64" => ("f64", Kind::F64),
        "s32" => ("s32", Kind::S32),
        _ => ("b32", Kind::Bits),
    }
}

fn bits(ty: &str) -> usize {
    match ty {
        "f64" => 64,
        "f32" | "s32" | "tf32" => 32,
        "f16" | "bf16" => 16,
        "s8" | "u8" => 8,
        "s4" | "u4" => 4,
        _ => 1,
    }
}

fn list(name: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|at| format!("%{name}{at}")).collect();
    format!("{{{}}}", names.join(", "))
}

impl Case {
    /// A product of matrices in shared memory: A at 0, B at 8192, C at 16384 bytes.
    fn product(&self, [a, b, c]: [&str; 3], strided: bool) -> Form {
        let [d_type, a_type, b_type, c_type] = self.types;
        let [m, n, k] = self.sides;
        let shape = self.shape;
        let mut body = String::new();
        let parts = [
            ("a", a, a_type, self.counts[0], [m, k]),
            ("b", b, b_type, self.counts[1], [k, n]),
            ("c", c, c_type, self.counts[2], [m, n]),
        ];
        for (at, (name, layout, ty, count, [rows, columns])) in parts.into_iter().enumerate() {
            let line = if layout == "row" { columns } else { rows };
            // Lines a few elements apart, and a multiple of sixteen bytes.
            let stride = match strided {
                true => format!(", {}", line + (256 / bits(ty)).max(1)),
                false => String::new(),
            };
            let (register, _) = register(ty);
            let _ = writeln!(
                body,
                " .reg .{register} %{name}<{count}>; add.u32 %n, %sh, {};",
                8192 * at
            );
            let _ = writeln!(
                body,
                " wmma.load.{name}.sync.aligned.{layout}.{shape}.shared.{ty} {}, [%n]{stride};",
                list(name, count)
            );
        }
        let [before, middle, end] = self.around;
        let named = match a_type {
            "f16" => format!(".{d_type}.{c_type}"),
            _ => format!(".{d_type}.{a_type}.{b_type}.{c_type}"),
        };
        let opcode = format!("wmma.mma{before}.sync.aligned.{a}.{b}.{shape}{middle}{named}{end}");
        let _ = write!(
            body,
            " {opcode} {}, {}, {}, {};",
            list("d", self.counts[3]),
            list("a", self.counts[0]),
            list("b", self.counts[1]),
            list("c", self.counts[2])
        );
        Form {
            name: format!("{opcode} c.{c}{}", if strided { " strided" } else { "" }),
            operands: Vec::new(),
            result: (register(d_type).0, self.counts[3]),
            body,
            // A and B share their kind; sums get the same bits.
            shared: (
                24576 / 4,
                if a_type == "f64" {
                    Kind::F32
                } else {
                    register(a_type).1
                },
            ),
            threads: 32,
        }
    }

    /// A store of registers, read back.
    fn store(&self, layout: &str) -> Form {
        let (shape, ty, count) = (self.shape, self.types[0], self.counts[3]);
        let (register, kind) = register(ty);
        let [m, n, _] = self.sides;
        let line = if layout == "row" { n } else { m } + 256 / bits(ty);
        let opcode = format!("wmma.store.d.sync.aligned.{layout}.{shape}.shared.{ty}");
        let mut body = format!(
            " {opcode} [%sh], {}, {line};\n bar.sync 0;\n",
            list("x", count)
        );
        let words = 32usize;
        let _ = writeln!(body, " shl.b32 %n, %lane, 7; add.u32 %n, %n, %sh;");
        for at in 0..words {
            let _ = writeln!(body, " ld.shared.b32 %d{at}, [%n+{}];", 4 * at);
        }
        Form {
            name: opcode,
            operands: vec![Registers {
                name: "x",
                ty: register,
                count,
                kind,
            }],
            result: ("b32", words),
            body,
            shared: (8192 / 4, Kind::Bits),
            threads: 32,
        }
    }
}

/// All of them.
pub fn forms() -> Vec<Form> {
    let mut cases = Vec::new();
    for (shape, sides, few) in [
        ("m16n16k16", [16, 16, 16], [2, 2]),
        ("m8n32k16", [8, 32, 16], [1, 4]),
        ("m32n8k16", [32, 8, 16], [4, 1]),
    ] {
        let case = |types, counts, middle, end| Case {
            shape,
            types,
            counts,
            sides,
            around: ["", middle, end],
            layouts: true,
        };
        for (d, nd) in [("f16", 4), ("f32", 8)] {
            for (c, nc) in [("f16", 4), ("f32", 8)] {
                cases.push(case([d, "f16", "f16", c], [8, 8, nc, nd], "", ""));
            }
        }
        let [a, b] = few;
        cases.push(case(
            ["f32", "bf16", "bf16", "f32"],
            [2 * a, 2 * b, 8, 8],
            "",
            "",
        ));
        for ty in ["s8", "u8"] {
            for end in ["", ".satfinite"] {
                cases.push(case(["s32", ty, ty, "s32"], [a, b, 8, 8], "", end));
            }
        }
    }
    let case = |shape, types, counts, sides, around, layouts| Case {
        shape,
        types,
        counts,
        sides,
        around,
        layouts,
    };
    let tf32 = ["f32", "tf32", "tf32", "f32"];
    cases.push(case(
        "m16n16k8",
        tf32,
        [4, 4, 8, 8],
        [16, 16, 8],
        [""; 3],
        true,
    ));
    for round in ["", ".rn", ".rz", ".rm", ".rp"] {
        cases.push(case(
            "m8n8k4",
            ["f64"; 4],
            [1, 1, 2, 2],
            [8, 8, 4],
            ["", round, ""],
            true,
        ));
    }
    for ty in ["s4", "u4"] {
        for end in ["", ".satfinite"] {
            let types = ["s32", ty, ty, "s32"];
            cases.push(case(
                "m8n8k32",
                types,
                [1, 1, 2, 2],
                [8, 8, 32],
                ["", "", end],
                false,
            ));
        }
    }
    for before in [".xor.popc", ".and.popc"] {
        let types = ["s32", "b1", "b1", "s32"];
        cases.push(case(
            "m8n8k128",
            types,
            [1, 1, 2, 2],
            [8, 8, 128],
            [before, "", ""],
            false,
        ));
    }
    let mut forms: Vec<Form> = Vec::new();
    for case in &cases {
        for a in ["row", "col"] {
            for b in ["col", "row"] {
                if !case.layouts && (a, b) != ("row", "col") {
                    continue;
                }
                forms.push(case.product([a, b, "row"], false));
                forms.push(case.product([a, b, "col"], true));
            }
        }
        for layout in ["row", "col"] {
            let form = case.store(layout);
            if !forms.iter().any(|have| have.name == form.name) {
                forms.push(form);
            }
        }
    }
    forms
}
