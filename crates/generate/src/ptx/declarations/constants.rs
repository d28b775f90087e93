//! Numbers and constant expressions in every spelling.

use super::Writer;

/// Operators of constant expressions that take two operands, with the sign of theirs.
const BINARY: &[&str] = &[
    "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "&&", "||", "==", "!=", "<", "<=", ">",
    ">=",
];

/// Operators and casts before one operand.
const UNARY: &[&str] = &["-", "+", "~", "!", "(.s64)", "(.u64)", "- ", "~ "];

impl Writer {
    /// An integer that fits so many bits.
    pub(super) fn integer(&mut self, bits: u32) -> String {
        let length = self.rng.below(bits as usize) as u32;
        let value = self.rng.next_u64() >> (64 - bits) >> length;
        match self.rng.below(10) {
            0..=2 => value.to_string(),
            3..=4 => format!("{value:#x}"),
            5 => format!("0x{value:X}"),
            6 => format!("0{value:o}"),
            7 => format!("0b{value:b}"),
            8 => format!("{value}U"),
            _ => format!("-{}", value >> 1),
        }
    }

    /// A number small enough for an offset or a shift, as an expression.
    pub(super) fn small_expression(&mut self) -> String {
        let (a, b) = (self.rng.below(8), 1 + self.rng.below(4));
        match self.rng.below(9) {
            0 => format!("({a}+{b})"),
            1 => format!("{a}*{b}"),
            2 => format!("(WARP_SZ>>{b})"),
            3 => format!("({b}-{a} < 0 ? {a} : {b})"),
            4 => format!("({a}|{b})"),
            5 => format!("(({a}<<{b}) % 8)"),
            6 => format!("(0x{a:x} ^ 0{b:o})"),
            7 => format!("(!{a} + {b})"),
            _ => a.to_string(),
        }
    }

    /// A constant expression of integers.
    pub(super) fn expression(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(6) {
            return match self.rng.below(8) {
                0 => "WARP_SZ".to_owned(),
                1..=2 => self.integer(64),
                3..=4 => self.integer(32),
                _ => self.integer(5),
            };
        }
        let text = match self.rng.below(10) {
            0..=1 => {
                let operator = *self.rng.pick(UNARY);
                format!("{operator}{}", self.atom(depth - 1))
            }
            2 => {
                let (a, b, c) = (
                    self.atom(depth - 1),
                    self.atom(depth - 1),
                    self.atom(depth - 1),
                );
                format!("{a} ? {b} : {c}")
            }
            _ => {
                let operator = *self.rng.pick(BINARY);
                let left = self.atom(depth - 1);
                let right = match operator {
                    "<<" | ">>" if !self.rng.one_in(6) => self.integer(6),
                    "/" | "%" if !self.rng.one_in(10) => (1 + self.rng.below(99)).to_string(),
                    _ => self.atom(depth - 1),
                };
                // A percent sign right before a digit begins a name.
                let space = if operator == "%" {
                    " "
                } else {
                    *self.rng.pick(&["", " "])
                };
                format!("{left}{space}{operator}{space}{right}")
            }
        };
        // A minus sign right behind another would read as one token.
        text.replace("--", "- -")
            .replace("++", "+ +")
            .replace("&&&", "&& &")
    }

    /// An operand of an expression: mostly in parentheses, else as it stands.
    fn atom(&mut self, depth: usize) -> String {
        let text = self.expression(depth);
        if self.rng.one_in(3) {
            text
        } else {
            format!("({text})")
        }
    }

    /// A constant expression wherever a number may stand.
    pub(super) fn constant_expression(&mut self) {
        for _ in 0..1 + self.rng.below(4) {
            let depth = 1 + self.rng.below(3);
            let text = self.expression(depth);
            match self.rng.below(7) {
                0..=1 => {
                    let to = self.register("b64");
                    self.line(format!("mov.b64 {to}, {text};"));
                    self.show(&to, 8);
                }
                2 => {
                    let to = self.register("b32");
                    let ty = *self.rng.pick(&["b32", "u32", "s32"]);
                    self.line(format!("mov.{ty} {to}, {text};"));
                    self.show(&to, 4);
                }
                3 => {
                    let to = self.register("b64");
                    self.line(format!("mov.b64 {to}, 1;"));
                    self.line(format!("add.s64 {to}, {to}, {text};"));
                    self.show(&to, 8);
                }
                4 => {
                    let (name, ty) = (self.name("e"), *self.rng.pick(&["u64", "s64", "b64"]));
                    self.declare(format!(".global .{ty} {name} = {text};"));
                    self.dump(".global", &name, 8, 8);
                }
                5 => {
                    let (name, ty) = (self.name("e"), *self.rng.pick(&["u32", "s8", "b16", "u8"]));
                    self.declare(format!(".const .{ty} {name} = {text};"));
                    self.dump(".const", &name, 1, 1);
                }
                _ => {
                    let to = self.register("b16");
                    self.line(format!("mov.b16 {to}, {text};"));
                    self.show(&to, 2);
                }
            }
        }
    }

    /// A floating-point number in some spelling.
    pub(super) fn float(&mut self) -> String {
        let (whole, part) = (self.rng.below(1000), self.rng.below(1000));
        let sign = if self.rng.one_in(4) { "-" } else { "" };
        let bits = self.rng.next_u64();
        let text = match self.rng.below(13) {
            0..=1 => format!("{whole}.{part:03}"),
            2 => format!("{whole}."),
            3 => format!("{whole}.0"),
            4 => format!("{whole}.{part}e{}", self.rng.below(20)),
            5 => format!("{whole}.{part}E-{}", self.rng.below(20)),
            6 => format!("{whole}.5e+{}", self.rng.below(9)),
            // No infinities and NaNs: what becomes of their bits on the way to another precision is not the question here.
            7..=8 => format!("0f{:08X}", bits as u32 & 0xbfff_ffff),
            9 => format!("0F{:08x}", bits as u32 & 0xbfff_ffff),
            10 => format!(
                "0d{:016X}",
                bits & 0x47ff_ffff_ffff_ffff | 0x3800_0000_0000_0000
            ),
            11 => format!(
                "0D{:016x}",
                bits & 0x47ff_ffff_ffff_ffff | 0x3800_0000_0000_0000
            ),
            _ if self.rng.one_in(3) => format!(".{part}"),
            _ => format!("{whole}e{}", self.rng.below(9)),
        };
        // Exact bits of a single have no sign before them.
        if text[1..].starts_with(['f', 'F']) && !self.wild() {
            return text;
        }
        format!("{sign}{text}")
    }

    /// A constant expression of floating-point numbers.
    pub(super) fn float_expression(&mut self) -> String {
        let (a, b) = (self.float(), self.float());
        match self.rng.below(8) {
            0 => format!("{a}+{b}").replace("+-", "+ -"),
            1 => format!("{a} - {b}"),
            2 => format!("{a} * {b}"),
            3 => format!("({a})/({b})"),
            4 => format!("-({a})"),
            5 => format!("({a} + 1.5) * 2.0"),
            6 => format!("{a} < {b} ? {a} : {b}"),
            _ => format!("({a})"),
        }
    }

    /// A floating-point number as an operand.
    pub(super) fn floating_point_constant(&mut self) {
        for _ in 0..1 + self.rng.below(4) {
            let text = if self.rng.one_in(4) {
                self.float_expression()
            } else {
                self.float()
            };
            let (ty, bytes) = *self.rng.pick(&[("f32", 4), ("f64", 8)]);
            let to = self.register(ty);
            match self.rng.below(4) {
                0..=1 => self.line(format!("mov.{ty} {to}, {text};")),
                2 => {
                    self.line(format!("mov.{ty} {to}, 0.0;"));
                    self.line(format!("add.rn.{ty} {to}, {to}, {text};"));
                }
                _ if self.wild() => self.line(format!("mov.b{} {to}, {text};", 8 * bytes)),
                _ => self.line(format!("mov.{ty} {to}, {text};")),
            }
            self.show(&to, bytes);
        }
    }
}
