//! `wgmma.mma_async`: types, sizes, A from registers or shared memory, signs, layouts and swizzles.

use super::inputs::Kind;
use super::{Form, Registers};
use std::fmt::Write as _;

/// Bytes of shared memory for A; B comes behind it, up to 128 bytes a column.
const LEFT_BYTES: usize = 8192;

/// A product.
struct Product<'a> {
    n: usize,
    k: usize,
    types: [&'a str; 3],
    /// Behind the types.
    end: &'a str,
    saturates: bool,
    in_registers: bool,
    /// Signs of A and B, where the form has them.
    signs: Option<[i32; 2]>,
    /// Layouts of A and B, where the form has them.
    turns: Option<[bool; 2]>,
    /// The swizzle of the descriptors, 0 to 3.
    swizzle: usize,
    /// The selector of a sparse product.
    selector: Option<usize>,
}

/// What registers and memory hold.
const fn kind(ty: &str) -> Kind {
    match ty.as_bytes() {
        b"f16" => Kind::F16,
        b"bf16" => Kind::Bf16,
        b"tf32" | b"f32" => Kind::F32,
        b"s32" => Kind::S32,
        _ => Kind::Bits,
    }
}

impl Product<'_> {
    /// The upper parts of a descriptor whose matrix lies so: chunks 256 bytes apart and eights 128, or rows of the swizzle.
    fn layout(&self, turned: bool) -> u64 {
        let row = match self.swizzle {
            1 => 128,
            2 => 64,
            3 => 32,
            _ => 0u64,
        };
        let (leading, stride) = match (row, turned) {
            (0, false) => (128, 256),
            (0, true) => (128, 256),
            // Two eights of K, then the next row.
            (_, true) => (16 * row, 8 * row),
            (_, false) => (16, 8 * row),
        };
        (leading >> 4) << 16 | (stride >> 4) << 32 | (self.swizzle as u64) << 62
    }

    fn form(&self) -> Form {
        let [d, a, b] = self.types;
        let (n, k) = (self.n, self.k);
        let count = if d == "f16" { n / 4 } else { n / 2 };
        let ty = match d {
            "f32" => "f32",
            "s32" => "s32",
            _ => "b32",
        };
        let mut operands = vec![Registers {
            name: "c",
            ty,
            count,
            kind: kind(d),
        }];
        if self.in_registers {
            operands.push(Registers {
                name: "a",
                ty: "b32",
                count: 4,
                kind: kind(a),
            });
        }
        if self.selector.is_some() {
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
        let (sp, sat) = (
            if self.selector.is_some() { ".sp" } else { "" },
            if self.saturates { ".satfinite" } else { "" },
        );
        let opcode = format!(
            "wgmma.mma_async{sp}.sync.aligned.m64n{n}k{k}{sat}.{d}.{a}.{b}{}",
            self.end
        );
        let list = |name: &str, count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("%{name}{at}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        let turned = |at: usize| self.turns.is_some_and(|turns| turns[at]);
        let mut body = String::from(" fence.proxy.async.shared::cta; bar.sync 0;\n");
        let _ = self.descriptor(&mut body, "da", 0, turned(0));
        let _ = self.descriptor(&mut body, "db", LEFT_BYTES, turned(1));
        for at in 0..count {
            let _ = writeln!(body, " mov.b32 %d{at}, %c{at};");
        }
        // The sum starts from zero in one block of two.
        let _ = writeln!(body, " and.b32 %n, %cta, 4; setp.eq.u32 %more, %n, 0;");
        let _ = writeln!(body, " wgmma.fence.sync.aligned;");
        let left = match self.in_registers {
            true => list("a", 4),
            false => "%da".to_owned(),
        };
        let _ = write!(body, " {opcode} {}, {left}, %db", list("d", count));
        let mut name = format!(
            "{opcode} {}",
            if self.in_registers {
                "registers"
            } else {
                "shared"
            }
        );
        if let Some(selector) = self.selector {
            let _ = write!(body, ", %e0, {selector}");
            let _ = write!(name, " selector {selector}");
        }
        let _ = write!(body, ", %more");
        if let Some([left, right]) = self.signs {
            let _ = write!(body, ", {left}, {right}");
            let _ = write!(name, " signs {left} {right}");
        }
        if let Some([left, right]) = self.turns {
            if !self.in_registers {
                let _ = write!(body, ", {}", u8::from(left));
            }
            let _ = write!(body, ", {}", u8::from(right));
            let _ = write!(name, " turned {left} {right}");
        }
        let _ = write!(name, " swizzle {}", self.swizzle);
        body += ";\n wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;";
        Form {
            name,
            operands,
            result: (ty, count),
            body,
            shared: ((LEFT_BYTES + 128 * n) / 4, kind(b)),
            threads: 128,
        }
    }

    fn descriptor(
        &self,
        body: &mut String,
        name: &str,
        offset: usize,
        turned: bool,
    ) -> std::fmt::Result {
        let layout = self.layout(turned);
        writeln!(
            body,
            " .reg .u64 %{name}; .reg .u32 %{name}at; add.u32 %{name}at, %sh, {offset}; shr.u32 %{name}at, %{name}at, 4;"
        )?;
        writeln!(
            body,
            " and.b32 %{name}at, %{name}at, 0x3fff; cvt.u64.u32 %{name}, %{name}at; or.b64 %{name}, %{name}, 0x{layout:x};"
        )
    }
}

/// All of them.
pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for in_registers in [false, true] {
        for sparse in [false, true] {
            let selectors: &[Option<usize>] = if sparse { &[Some(0), Some(1)] } else { &[None] };
            let deep = if sparse { 2 } else { 1 };
            for &selector in selectors {
                halves(&mut forms, in_registers, deep, selector);
            }
            let zero = sparse.then_some(0);
            others(&mut forms, in_registers, deep, zero);
        }
    }
    forms
}

fn halves(forms: &mut Vec<Form>, in_registers: bool, deep: usize, selector: Option<usize>) {
    let plain = Product {
        n: 8,
        k: 16 * deep,
        types: ["f32", "f16", "f16"],
        end: "",
        saturates: false,
        in_registers,
        signs: Some([1, 1]),
        turns: Some([false, false]),
        swizzle: 0,
        selector,
    };
    for types in [
        ["f32", "f16", "f16"],
        ["f16", "f16", "f16"],
        ["f32", "bf16", "bf16"],
    ] {
        for (n, swizzle) in [(8, 0), (24, 3), (64, 2), (256, 1)] {
            forms.push(
                Product {
                    n,
                    types,
                    swizzle,
                    ..plain
                }
                .form(),
            );
        }
        for signs in [[-1, 1], [1, -1]] {
            forms.push(
                Product {
                    n: 16,
                    types,
                    signs: Some(signs),
                    ..plain
                }
                .form(),
            );
        }
        for turns in [[true, false], [false, true], [true, true]] {
            if in_registers && turns[0] {
                continue;
            }
            for (n, swizzle) in [(32, 0), (64, 1), (64, 2), (64, 3), (128, 1)] {
                forms.push(
                    Product {
                        n,
                        types,
                        turns: Some(turns),
                        swizzle,
                        ..plain
                    }
                    .form(),
                );
            }
        }
    }
    for (n, swizzle) in [(8, 0), (40, 1), (128, 2)] {
        let types = ["f32", "tf32", "tf32"];
        forms.push(
            Product {
                n,
                k: 8 * deep,
                types,
                swizzle,
                turns: None,
                ..plain
            }
            .form(),
        );
    }
}

fn others(forms: &mut Vec<Form>, in_registers: bool, deep: usize, selector: Option<usize>) {
    let plain = Product {
        n: 8,
        k: 32 * deep,
        types: ["s32", "s8", "s8"],
        end: "",
        saturates: false,
        in_registers,
        signs: None,
        turns: None,
        swizzle: 0,
        selector,
    };
    for a in ["s8", "u8"] {
        for b in ["s8", "u8"] {
            for (n, swizzle, saturates) in [(8, 0, false), (96, 1, true)] {
                let types = ["s32", a, b];
                forms.push(
                    Product {
                        n,
                        types,
                        swizzle,
                        saturates,
                        ..plain
                    }
                    .form(),
                );
            }
        }
    }
    for a in ["e4m3", "e5m2"] {
        for b in ["e4m3", "e5m2"] {
            for d in ["f32", "f16"] {
                let (types, signs) = ([d, a, b], Some([1, -1]));
                forms.push(
                    Product {
                        n: 32,
                        types,
                        signs,
                        swizzle: 2,
                        ..plain
                    }
                    .form(),
                );
            }
        }
    }
    if selector.is_none() {
        for (n, swizzle) in [(8, 0), (64, 1)] {
            let (types, end) = (["s32", "b1", "b1"], ".and.popc");
            forms.push(
                Product {
                    n,
                    k: 256,
                    types,
                    end,
                    swizzle,
                    ..plain
                }
                .form(),
            );
        }
    }
}
