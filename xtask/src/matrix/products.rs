//! `mma` and `mma.sp` in every form that ptxas takes for sm_90.

use super::inputs::Kind;
use super::{Form, Registers};

/// The type of the registers that hold elements of a type, what they get, and how many elements a register has.
fn registers_of(ty: &str) -> (&'static str, Kind, usize) {
    match ty {
        "f16" => ("b32", Kind::F16, 2),
        "bf16" => ("b32", Kind::Bf16, 2),
        "tf32" => ("b32", Kind::F32, 1),
        "f32" => ("f32", Kind::F32, 1),
        "f64" => ("f64", Kind::F64, 1),
        "s32" => ("s32", Kind::S32, 1),
        "e4m3" | "e5m2" | "s8" | "u8" => ("b32", Kind::Bits, 4),
        "s4" | "u4" => ("b32", Kind::Bits, 8),
        _ => ("b32", Kind::Bits, 32),
    }
}

fn list(name: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|at| format!("%{name}{at}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// A product, dense or sparse.
struct Product<'a> {
    /// What stands behind `mma`: `sync`, `sp.sync`, ….
    kind: &'a str,
    shape: [usize; 3],
    layouts: &'a str,
    /// D, A, B and C.
    types: [&'a str; 4],
    /// Between layouts and types: rounding, saturation.
    extra: &'a str,
    /// Behind the types.
    end: &'a str,
    selector: Option<usize>,
}

impl Product<'_> {
    fn form(&self) -> Form {
        let [m, n, k] = self.shape;
        let [d, a, b, c] = self.types;
        let halved = if self.selector.is_some() { 2 } else { 1 };
        let group = |name: &'static str, ty: &str, elements: usize| {
            let (register, kind, packed) = registers_of(ty);
            let ty = match (ty, self.types[1]) {
                // Sums of narrow floats want registers of pairs.
                ("f16", "e4m3" | "e5m2") if name == "c" || name == "d" => "f16x2",
                _ => register,
            };
            Registers {
                name,
                ty,
                count: elements / 32 / packed,
                kind,
            }
        };
        // The oldest shape is four products at once.
        let copies = if self.shape == [8, 8, 4] && a == "f16" {
            4
        } else {
            1
        };
        let mut operands = vec![
            group("a", a, copies * m * k / halved),
            group("b", b, copies * k * n),
            group("c", c, copies * m * n),
        ];
        let result = group("d", d, copies * m * n);
        let result = (result.ty, result.count);
        let opcode = format!(
            "mma.{}.aligned.m{m}n{n}k{k}.{}{}.{d}.{a}.{b}.{c}{}",
            self.kind, self.layouts, self.extra, self.end
        );
        let mut name = opcode.clone();
        let mut body = format!(" {opcode} {}", list("d", result.1));
        for operand in &operands {
            body += &format!(", {}", list(operand.name, operand.count));
        }
        if let Some(selector) = self.selector {
            body += &format!(", %e0, {selector}");
            name += &format!(" {selector}");
            operands.push(Registers {
                name: "e",
                ty: "b32",
                count: 1,
                kind: if a == "tf32" {
                    Kind::PlacesOfTwo
                } else {
                    Kind::Places
                },
            });
        }
        body += ";";
        Form {
            name,
            operands,
            result,
            body,
            shared: (0, Kind::Bits),
            threads: 32,
        }
    }
}

/// All of them.
pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    dense(&mut forms);
    sparse(&mut forms);
    forms
}

fn dense(forms: &mut Vec<Form>) {
    let mut add = |shape, layouts: &str, types, extra: &str, end: &str| {
        let product = Product {
            kind: "sync",
            shape,
            layouts,
            types,
            extra,
            end,
            selector: None,
        };
        forms.push(product.form());
    };
    for layouts in ["row.row", "row.col", "col.row", "col.col"] {
        for [d, c] in [["f16", "f16"], ["f32", "f16"], ["f32", "f32"]] {
            add([8, 8, 4], layouts, [d, "f16", "f16", c], "", "");
        }
    }
    for k in [8, 16] {
        add([16, 8, k], "row.col", ["f16"; 4], "", "");
        for ty in ["f16", "bf16"] {
            add([16, 8, k], "row.col", ["f32", ty, ty, "f32"], "", "");
        }
        add(
            [16, 8, k / 2],
            "row.col",
            ["f32", "tf32", "tf32", "f32"],
            "",
            "",
        );
    }
    for k in [16, 32] {
        for a in ["e4m3", "e5m2"] {
            for b in ["e4m3", "e5m2"] {
                for c in ["f32", "f16"] {
                    add([16, 8, k], "row.col", [c, a, b, c], "", "");
                }
            }
        }
    }
    for shape in [[8, 8, 4], [16, 8, 4], [16, 8, 8], [16, 8, 16]] {
        for round in ["", ".rn", ".rz", ".rm", ".rp"] {
            add(shape, "row.col", ["f64"; 4], round, "");
        }
    }
    for (signs, ks) in [(["u8", "s8"], [16, 16, 32]), (["u4", "s4"], [32, 32, 64])] {
        for (m, k) in [8, 16, 16].into_iter().zip(ks) {
            for a in signs {
                for b in signs {
                    for sat in ["", ".satfinite"] {
                        add([m, 8, k], "row.col", ["s32", a, b, "s32"], sat, "");
                    }
                }
            }
        }
    }
    for shape in [[8, 8, 128], [16, 8, 128], [16, 8, 256]] {
        for end in [".xor.popc", ".and.popc"] {
            add(shape, "row.col", ["s32", "b1", "b1", "s32"], "", end);
        }
    }
}

fn sparse(forms: &mut Vec<Form>) {
    for kind in ["sp.sync", "sp::ordered_metadata.sync"] {
        let mut add = |k: usize, types, extra: &str, selectors: usize| {
            for selector in 0..selectors {
                let product = Product {
                    kind,
                    shape: [16, 8, k],
                    layouts: "row.col",
                    types,
                    extra,
                    end: "",
                    selector: Some(selector),
                };
                forms.push(product.form());
            }
        };
        for (k, selectors) in [(16, 4), (32, 2)] {
            add(k, ["f16"; 4], "", selectors);
            for ty in ["f16", "bf16"] {
                add(k, ["f32", ty, ty, "f32"], "", selectors);
            }
            add(k / 2, ["f32", "tf32", "tf32", "f32"], "", selectors);
        }
        for a in ["e4m3", "e5m2"] {
            for b in ["e4m3", "e5m2"] {
                add(64, ["f32", a, b, "f32"], "", 1);
            }
        }
        for (signs, ks) in [(["u8", "s8"], [32, 64]), (["u4", "s4"], [64, 128])] {
            for (k, selectors) in ks.into_iter().zip([2, 1]) {
                for a in signs {
                    for b in signs {
                        for sat in ["", ".satfinite"] {
                            add(k, ["s32", a, b, "s32"], sat, selectors);
                        }
                    }
                }
            }
        }
    }
}
