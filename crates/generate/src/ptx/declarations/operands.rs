//! Operands: addresses, vectors and their elements, predicates, and names in nested scopes.

use super::Writer;

/// How the elements of a vector are called.
const ELEMENTS: [[&str; 4]; 2] = [["x", "y", "z", "w"], ["r", "g", "b", "a"]];

impl Writer {
    /// Loads and stores by a name or register with an offset in every spelling.
    pub(super) fn address_operand(&mut self) {
        let space = *self.rng.pick(&[".global", ".const"]);
        let target = self.target(space);
        if target.bytes < 16 {
            return;
        }
        let name = target.name;
        let base = self.register("b64");
        for _ in 0..2 + self.rng.below(4) {
            let at = 4 * self.rng.below(target.bytes / 4);
            let to = self.register("b32");
            let address = match self.rng.below(11) {
                0 => format!("[{name}]"),
                1 => format!("[{name}+{at}]"),
                2 => format!("[{name} + {at:#x}]"),
                3 => format!("[{name}+(2*4-4)]"),
                4 => format!("[{name}+WARP_SZ/8]"),
                5 => {
                    self.line(format!("mov.u64 {base}, {name};"));
                    format!("[{base}+{at}]")
                }
                6 => {
                    self.line(format!("mov.u64 {base}, {name}+{at};"));
                    format!("[{base}]")
                }
                7 => {
                    self.line(format!("mov.u64 {base}, {name};"));
                    self.line(format!("add.u64 {base}, {base}, 16;"));
                    let back = 4 * (1 + self.rng.below(4));
                    let minus = *self.rng.pick(&["+-", "-"]);
                    let minus = if minus == "-" && !self.wild() {
                        "+-"
                    } else {
                        minus
                    };
                    format!("[{base}{minus}{back}]")
                }
                8 => {
                    // A negative offset of a name, from behind it.
                    format!("[{name}+{}-4]", at + 4)
                }
                9 => {
                    self.line(format!("mov.u64 {base}, {name};"));
                    format!("[{base}+{}]", self.small_expression())
                }
                _ if self.wild() => format!("{name}[{}]", at / 4),
                _ => format!("[{name}+{at}U]"),
            };
            // Offsets that are no multiple of four need single bytes.
            self.line(format!("ld{space}.u8 {to}, {address};"));
            self.show(&to, 1);
        }
        let (low, high) = (self.register("b32"), self.register("b32"));
        if target.bytes == 32 {
            self.line(format!("ld{space}.v2.b32 {{{low}, {high}}}, [{name}+8];"));
            self.show(&low, 4);
            self.show(&high, 4);
        }
    }

    /// Addresses as operands of `mov`, and how far they are apart.
    pub(super) fn address_arithmetic(&mut self) {
        let space = *self.rng.pick(&[".global", ".const"]);
        let target = self.target(space);
        let (a, b) = (self.register("b64"), self.register("b64"));
        let name = target.name;
        self.line(format!("mov.u64 {a}, {name};"));
        let offset = self.rng.below(64);
        match self.rng.below(6) {
            0 => self.line(format!("mov.u64 {b}, {name}+{offset};")),
            1 => {
                let text = self.small_expression();
                self.line(format!("mov.b64 {b}, {name} + {text};"));
            }
            2 => self.line(format!("add.u64 {b}, {a}, {offset};")),
            3 if self.wild() => self.line(format!("mov.u64 {b}, {name}[1];")),
            4 if self.wild() => self.line(format!("mov.u64 {b}, {name}-4;")),
            _ => self.line(format!("mov.s64 {b}, {name}+{offset:#x};")),
        }
        self.line(format!("sub.s64 {b}, {b}, {a};"));
        self.show(&b, 8);
        // What kind of address it is.
        let (predicate, seen) = (self.register("pred"), self.register("b32"));
        self.line(format!("cvta{space}.u64 {a}, {a};"));
        let asked = *self.rng.pick(&["global", "const", "shared", "local"]);
        self.line(format!("isspacep.{asked} {predicate}, {a};"));
        self.line(format!("selp.b32 {seen}, 1, 2, {predicate};"));
        self.show(&seen, 4);
    }

    /// A register that is a vector, and its elements.
    pub(super) fn vector_register(&mut self) {
        let (ty, bytes) = *self.rng.pick(&[
            ("u32", 4),
            ("b32", 4),
            ("s32", 4),
            ("f32", 4),
            ("u64", 8),
            ("b64", 8),
            ("f64", 8),
            ("u16", 2),
            ("b16", 2),
            ("b8", 1),
        ]);
        let ty_name = if self.wild() { "pred" } else { ty };
        let count = if bytes == 8 && !self.wild() {
            2
        } else {
            *self.rng.pick(&[2, 4])
        };
        let vector = self.name("%v");
        self.line(format!(".reg .v{count} .{ty_name} {vector};"));
        let names = *self.rng.pick(&ELEMENTS);
        let bits = 8 * bytes as u32;
        match self.rng.below(4) {
            0 => {
                // All of it from memory.
                let target = self.target(".global");
                if target.bytes < 16 || target.bytes < bytes * count {
                    return;
                }
                if target.bytes == 32 {
                    self.line(format!(
                        "ld.global.v{count}.{ty} {vector}, [{}];",
                        target.name
                    ));
                } else {
                    return;
                }
            }
            1 if bytes >= 2 => {
                let values: Vec<String> =
                    (0..count).map(|_| self.element_value(ty, bits)).collect();
                self.line(format!(
                    "mov.v{count}.{ty} {vector}, {{{}}};",
                    values.join(", ")
                ));
            }
            _ => {
                for name in names.iter().take(count) {
                    let value = self.element_value(ty, bits);
                    if bytes == 1 {
                        let wide = self.register("b16");
                        self.line(format!("mov.b16 {wide}, {};", value));
                        self.line(format!("cvt.u8.u16 {vector}.{name}, {wide};"));
                    } else {
                        self.line(format!("mov.{ty} {vector}.{name}, {value};"));
                    }
                }
            }
        }
        match self.rng.below(3) {
            0 if bytes >= 2 && count * bytes <= 16 => {
                let room = self.room(count * bytes);
                self.line(format!("st.global.v{count}.b{bits} {room}, {vector};"));
            }
            1 if bytes >= 2 && count * bytes <= 16 => {
                let room = self.room(count * bytes);
                let mut elements: Vec<String> = names
                    .iter()
                    .take(count)
                    .map(|name| format!("{vector}.{name}"))
                    .collect();
                elements.reverse();
                self.line(format!(
                    "st.global.v{count}.b{bits} {room}, {{{}}};",
                    elements.join(", ")
                ));
            }
            _ => {
                for name in names.iter().take(count) {
                    self.show(&format!("{vector}.{name}"), bytes);
                }
            }
        }
        if self.rng.one_in(2) {
            // A copy, of which one element changes.
            let copy = self.name("%v");
            self.line(format!(".reg .v{count} .{ty_name} {copy};"));
            if bytes >= 2 {
                self.line(format!("mov.v{count}.{ty} {copy}, {vector};"));
                self.line(format!(
                    "mov.{ty} {copy}.{}, {vector}.{};",
                    names[0], names[1]
                ));
                for name in names.iter().take(count) {
                    self.show(&format!("{copy}.{name}"), bytes);
                }
            }
        }
    }

    /// A constant for an element of a vector.
    fn element_value(&mut self, ty: &str, bits: u32) -> String {
        if ty.starts_with('f') {
            return match bits {
                32 => format!("0f{:08X}", self.rng.next_u64() as u32),
                _ => format!("0d{:016X}", self.rng.next_u64()),
            };
        }
        self.integer(bits)
    }

    /// `mov` between a register and the parts of it.
    pub(super) fn packing(&mut self) {
        let (whole, part, count) = *self.rng.pick(&[
            (32, 16, 2),
            (64, 32, 2),
            (64, 16, 4),
            (128, 64, 2),
            (128, 32, 4),
            (32, 8, 4),
            (16, 8, 2),
        ]);
        if part == 8 && !self.wild() {
            return self.packing_of_bytes();
        }
        let parts: Vec<String> = (0..count)
            .map(|_| {
                let register = self.register(&format!("b{part}"));
                let value = self.integer(part);
                self.line(format!("mov.b{part} {register}, {value};"));
                register
            })
            .collect();
        let packed = self.register(&format!("b{whole}"));
        let mut given = parts.clone();
        if self.rng.one_in(4) {
            given[0] = self.integer(part);
        }
        self.line(format!("mov.b{whole} {packed}, {{{}}};", given.join(", ")));
        self.show(&packed, whole as usize / 8);
        let taken: Vec<String> = (0..count)
            .map(|at| {
                if at > 0 && self.rng.one_in(4) {
                    "_".to_owned()
                } else {
                    self.register(&format!("b{part}"))
                }
            })
            .collect();
        self.line(format!("mov.b{whole} {{{}}}, {packed};", taken.join(", ")));
        for register in taken.iter().filter(|it| *it != "_") {
            self.show(register, part as usize / 8);
        }
        // Parts that are packed again in another order, from a vector's elements.
        if whole <= 64 && count == 2 && part >= 16 {
            let vector = self.name("%v");
            self.line(format!(".reg .v2 .b{part} {vector};"));
            self.line(format!(
                "mov.b{whole} {{{vector}.y, {vector}.x}}, {packed};"
            ));
            self.line(format!(
                "mov.b{whole} {packed}, {{{vector}.x, {vector}.y}};"
            ));
            self.show(&packed, whole as usize / 8);
        }
    }

    /// Bytes of a word, one by one.
    fn packing_of_bytes(&mut self) {
        let (word, to) = (self.register("b32"), self.register("b32"));
        let value = self.integer(32);
        self.line(format!("mov.b32 {word}, {value};"));
        let selector = self.rng.below(1 << 16);
        self.line(format!("prmt.b32 {to}, {word}, {selector}, {selector};"));
        self.show(&to, 4);
    }

    /// Predicates as registers, negated, and as constants.
    pub(super) fn predicates(&mut self) {
        let (a, b) = (self.register("pred"), self.register("pred"));
        let seen = self.register("b32");
        let constant = self.rng.below(2);
        self.line(format!("mov.pred {a}, {constant};"));
        let (left, right) = (self.integer(8), self.integer(8));
        self.line(format!("setp.lt.u32 {b}, {left}, {right};"));
        let operation = *self.rng.pick(&["and", "or", "xor"]);
        self.line(format!("{operation}.pred {a}, {a}, {b};"));
        self.line(format!("mov.b32 {seen}, 7;"));
        match self.rng.below(5) {
            0 => self.line(format!("@{a} mov.b32 {seen}, 1;")),
            1 => self.line(format!("@!{a} mov.b32 {seen}, 2;")),
            2 => self.line(format!("selp.b32 {seen}, 3, 4, {a};")),
            3 => self.line(format!("selp.b32 {seen}, 3, 4, {constant};")),
            _ => {
                let pair = self.register("pred");
                let (x, y) = (self.integer(4), self.integer(4));
                let compare = *self.rng.pick(&["eq", "lt", "ge"]);
                self.line(format!(
                    "setp.{compare}.{operation}.s32 {pair}|{b}, {x}, {y}, !{a};"
                ));
                self.line(format!("selp.b32 {seen}, 5, 6, {pair};"));
            }
        }
        self.show(&seen, 4);
        self.line(format!("selp.b32 {seen}, 1, 2, {b};"));
        self.show(&seen, 4);
    }

    /// Names declared again in inner scopes, and families of registers.
    pub(super) fn scopes(&mut self) {
        let name = self.name("n");
        let (outer, inner, small) = (self.integer(32), self.integer(16), self.rng.below(100));
        let size = *self.rng.pick(&["3", "4", "0x3"]);
        self.line(format!(".reg .b32 {name};"));
        self.line(format!(".reg .b32 {name}_<{size}>;"));
        self.line(format!("mov.b32 {name}, {outer};"));
        self.line(format!("mov.b32 {name}_2, {outer};"));
        self.line("{");
        match self.rng.below(4) {
            0 => {
                self.line(format!(".reg .b16 {name};"));
                self.line(format!("mov.b16 {name}, {inner};"));
                self.show(&name, 2);
            }
            1 => {
                self.line(format!(".shared .align 8 .b32 {name}[2];"));
                self.line(format!("st.shared.b32 [{name}+4], {small};"));
                self.dump(".shared", &format!("{name}+4"), 2, 1);
            }
            2 => {
                self.line(format!(".local .b32 {name};"));
                self.line(format!("st.local.b32 [{name}], {small};"));
                self.dump(".local", &name, 4, 4);
            }
            _ => {
                self.line(format!(".global .b16 {name} = {inner};"));
                self.dump(".global", &name, 2, 2);
            }
        }
        self.line("}");
        if self.wild() {
            self.line(format!(".reg .b64 {name};"));
        }
        self.show(&name, 4);
        self.show(&format!("{name}_2"), 4);
    }
}
