//! Initialisers: numbers in every spelling, braces, addresses and parts of addresses.

use super::{Target, Type, VariableShape, Writer};

impl Writer {
    /// ` = …` for a variable: everything, a part, nested or flat.
    pub(super) fn initialiser(&mut self, shape: &VariableShape) -> String {
        let mut dimensions = shape.dimensions.clone();
        if shape.vector > 1 {
            dimensions.push(shape.vector);
        }
        if dimensions.is_empty() {
            let value = self.value(shape.ty);
            return match self.rng.below(12) {
                0 => format!(" = {{{value}}}"),
                _ => format!(" = {value}"),
            };
        }
        // A vector has all its elements, in braces of its own.
        let vectors = shape.vector > 1 && !self.wild();
        if vectors && dimensions.len() == 1 {
            return self.full_initialiser(shape);
        }
        let nested = dimensions.len() > 1 && (vectors || !self.rng.one_in(5));
        let body = if nested {
            self.nested(shape.ty, &dimensions, vectors)
        } else {
            let most: usize = dimensions.iter().product();
            let mut count = 1 + self.rng.below(most);
            if self.wild() {
                count = most + 1;
            }
            let values: Vec<String> = (0..count).map(|_| self.value(shape.ty)).collect();
            format!("{{{}}}", values.join(", "))
        };
        format!(" = {body}")
    }

    /// ` = …` with a value for every element, in the braces of the dimensions.
    pub(super) fn full_initialiser(&mut self, shape: &VariableShape) -> String {
        let mut dimensions = shape.dimensions.clone();
        if shape.vector > 1 {
            dimensions.push(shape.vector);
        }
        format!(" = {}", self.braces(shape.ty, &dimensions))
    }

    fn braces(&mut self, ty: Type, dimensions: &[usize]) -> String {
        let Some((&first, rest)) = dimensions.split_first() else {
            return self.value(ty);
        };
        let parts: Vec<String> = (0..first).map(|_| self.braces(ty, rest)).collect();
        format!("{{{}}}", parts.join(", "))
    }

    /// Braces in braces. Only the last of several may be incomplete: ptxas goes on filling where an incomplete one ended.
    fn nested(&mut self, ty: Type, dimensions: &[usize], vectors: bool) -> String {
        let Some((&first, rest)) = dimensions.split_first() else {
            return self.value(ty);
        };
        let whole = vectors && rest.is_empty();
        let count = if !whole && self.rng.one_in(3) {
            1 + self.rng.below(first)
        } else {
            first
        };
        let parts: Vec<String> = (0..count)
            .map(|at| {
                if at + 1 == count {
                    self.nested(ty, rest, vectors)
                } else {
                    self.braces(ty, rest)
                }
            })
            .collect();
        format!("{{{}}}", parts.join(", "))
    }

    /// A number for an element of a type.
    pub(super) fn value(&mut self, ty: Type) -> String {
        if ty.float {
            return match self.rng.below(12) {
                0 if self.wild() => self.integer(8 * ty.bytes as u32),
                1..=2 => self.float_expression(),
                _ => self.float(),
            };
        }
        match self.rng.below(10) {
            0..=1 => self.expression(2),
            // The upper half of 128 bits is whatever ptxas had there.
            2 if ty.bytes < 16 && self.wild() => self.float(),
            _ => self.integer(8 * ty.bytes.min(8) as u32),
        }
    }

    /// A variable that can be pointed at: one of those that are there, or a new one.
    pub(super) fn target(&mut self, space: &'static str) -> Target {
        let known: Vec<Target> = self
            .targets
            .iter()
            .filter(|it| it.space == space)
            .cloned()
            .collect();
        if !known.is_empty() && self.rng.one_in(2) {
            return self.rng.pick(&known).clone();
        }
        let name = self.name("t");
        let values: Vec<String> = (0..8).map(|_| self.integer(32)).collect();
        self.declare(format!(
            ".visible {space} .align 16 .b32 {name}[8] = {{{}}};",
            values.join(", ")
        ));
        let target = Target {
            name,
            space,
            bytes: 32,
        };
        self.targets.push(target.clone());
        target
    }

    /// A pointer's initialiser and the instructions that put the same address into a register.
    fn pointer(&mut self, target: &Target) -> (String, Vec<String>, String) {
        let address = self.name("%a");
        let mut code = vec![
            format!(".reg .b64 {address};"),
            format!("mov.u64 {address}, {};", target.name),
        ];
        let offset = self.rng.below(target.bytes + 1);
        let name = &target.name;
        let text = match self.rng.below(6) {
            0 => name.clone(),
            1 => format!("{name}+{offset}"),
            2 => format!("{name} + {}", self.small_expression()),
            3 => {
                code.push(format!("cvta{}.u64 {address}, {address};", target.space));
                format!("generic({name})")
            }
            4 => {
                code.push(format!("cvta{}.u64 {address}, {address};", target.space));
                format!("generic({name})+{offset}")
            }
            _ if self.wild() => format!("{name}-{offset}"),
            _ => format!("{name}+{offset}"),
        };
        (text, code, address)
    }

    /// An array of addresses, each compared with the address itself, and what lies there.
    pub(super) fn table_of_addresses(&mut self) {
        let space = *self.rng.pick(&[".global", ".const"]);
        // Addresses go into unsigned words only; ptxas relocates one of 32 bits and the word behind it as if they were one.
        let ty = if self.wild() {
            *self.rng.pick(&["b64", "s64", "b32", "u16", "f64"])
        } else {
            "u64"
        };
        let count = 1 + self.rng.below(4);
        let mut values = Vec::new();
        let mut compared = Vec::new();
        for at in 0..count {
            if self.rng.one_in(6) {
                values.push(self.integer(32));
                continue;
            }
            let pointed = *self.rng.pick(&[".global", ".global", ".const"]);
            let pointed = if self.wild() { ".shared" } else { pointed };
            let target = if pointed == ".shared" {
                let name = self.name("w");
                self.declare(format!(".shared .b32 {name}[8];"));
                Target {
                    name,
                    space: pointed,
                    bytes: 32,
                }
            } else {
                self.target(pointed)
            };
            let (text, code, address) = self.pointer(&target);
            values.push(text);
            compared.push((at, code, address));
        }
        let name = self.name("p");
        let list = values.join(", ");
        match (count, self.rng.below(3)) {
            (1, 0) => self.declare(format!("{space} .{ty} {name} = {list};")),
            (2, 0) if ty == "u64" => self.declare(format!("{space} .v2 .u64 {name} = {{{list}}};")),
            (_, 1) => self.declare(format!("{space} .{ty} {name}[] = {{{list}}};")),
            _ => self.declare(format!("{space} .{ty} {name}[{count}] = {{{list}}};")),
        }
        for (at, code, address) in compared {
            for line in code {
                self.line(line);
            }
            let held = self.register("b64");
            self.line(format!("ld{space}.b64 {held}, [{name}+{}];", 8 * at));
            self.line(format!("sub.u64 {held}, {held}, {address};"));
            self.show(&held, 8);
        }
    }

    /// Bytes of addresses, each compared with that byte of the address.
    pub(super) fn masked_addresses(&mut self) {
        let space = *self.rng.pick(&[".global", ".const"]);
        let target = self.target(".global");
        let name = self.name("m");
        let generic = self.rng.one_in(3);
        let offset = self.rng.below(9);
        let (of, code) = match (generic, self.rng.one_in(2)) {
            (false, false) => (target.name.clone(), 0),
            (false, true) => (format!("{}+{offset}", target.name), offset),
            (true, false) => (format!("generic({})", target.name), 0),
            (true, true) => (format!("generic({})+{offset}", target.name), offset),
        };
        let count = 1 + self.rng.below(8);
        let places: Vec<usize> = (0..count)
            .map(|at| {
                if self.rng.one_in(3) {
                    self.rng.below(8)
                } else {
                    at
                }
            })
            .collect();
        let masks: Vec<String> = places
            .iter()
            .map(|place| {
                let mask = 0xff_u64 << (8 * place);
                if self.wild() {
                    return format!("0xfff({of})");
                }
                match self.rng.below(4) {
                    0 => format!("{mask}({of})"),
                    1 => format!("{mask:#X}({of})").replacen("0X", "0x", 1),
                    _ => format!("{mask:#x}({of})"),
                }
            })
            .collect();
        let ty = if self.wild() {
            *self.rng.pick(&["u16", "b8", "s8"])
        } else {
            "u8"
        };
        self.declare(format!(
            "{space} .{ty} {name}[{count}] = {{{}}};",
            masks.join(", ")
        ));
        let address = self.register("b64");
        self.line(format!("mov.u64 {address}, {};", target.name));
        if generic {
            self.line(format!("cvta.global.u64 {address}, {address};"));
        }
        if code > 0 {
            self.line(format!("add.u64 {address}, {address}, {code};"));
        }
        for (at, place) in places.into_iter().enumerate() {
            let (byte, part) = (self.register("b64"), self.register("b64"));
            self.line(format!("ld{space}.u8 {byte}, [{name}+{at}];"));
            self.line(format!("bfe.u64 {part}, {address}, {}, 8;", 8 * place));
            self.line(format!("sub.u64 {byte}, {byte}, {part};"));
            self.show(&byte, 8);
        }
    }
}
