//! Variables of every space, type, shape, alignment and linkage.

use super::{RARE_TYPES, TYPES, Target, Type, VariableShape, Writer};

/// A size of a dimension and some ways to write it: ptxas takes numbers only.
const SIZES: &[(usize, &[&str])] = &[
    (1, &["1", "0x1", "1U", "01", "0b1"]),
    (2, &["2", "0x2", "2U", "0b10"]),
    (3, &["3", "03", "0X3", "3U"]),
    (4, &["4", "0x4", "04", "0b100"]),
];

/// Ways to write a size that may not be legal.
const WILD_SIZES: &[(usize, &str)] = &[
    (1, "3/2"),
    (2, "1+1"),
    (2, "WARP_SZ/16"),
    (3, "(3)"),
    (4, "1<<2"),
    (1, "0"),
    (2, "+2"),
    (3, "-3"),
];

/// How variables of the module may be linked.
const LINKAGES: &[&str] = &["", "", ".visible ", ".weak ", ".common "];

impl Writer {
    pub(super) fn any_type(&mut self) -> Type {
        if self.wild() {
            return *self.rng.pick(RARE_TYPES);
        }
        *self.rng.pick(TYPES)
    }

    /// A shape of at most 64 bytes or so.
    pub(super) fn shape(&mut self) -> VariableShape {
        let ty = self.any_type();
        let vector = match self.rng.below(6) {
            0 if ty.bytes <= 8 => 2,
            1 if ty.bytes <= 4 => 4,
            _ if self.wild() => *self.rng.pick(&[3, 4, 8]),
            _ => 1,
        };
        let most = match ty.bytes * vector {
            16.. => 1,
            8..16 => 2,
            _ => 3,
        };
        let count = self.rng.below(most + 1);
        let mut shape = VariableShape {
            ty,
            vector,
            dimensions: Vec::new(),
            brackets: String::new(),
            align: None,
        };
        for _ in 0..count {
            let &(size, spellings) = self.rng.pick(SIZES);
            let spelling = *self.rng.pick(spellings);
            let (size, spelling) = if self.wild() {
                *self.rng.pick(WILD_SIZES)
            } else {
                (size, spelling)
            };
            shape.dimensions.push(size);
            shape.brackets += &format!("[{spelling}]");
        }
        if self.rng.one_in(3) {
            let natural = ty.bytes * vector;
            let align = natural.next_power_of_two() << self.rng.below(4);
            shape.align = Some(align.min(128));
            if self.wild() {
                // The driver aligns variables to 256 bytes at most.
                shape.align = Some(*self.rng.pick(&[0, 3, 1, 2, 256]));
            }
        }
        shape
    }

    fn linkage(&mut self, space: &str) -> &'static str {
        let linkage = *self.rng.pick(LINKAGES);
        // Only variables of global memory can be common.
        if linkage == ".common " && space != ".global" {
            return "";
        }
        linkage
    }

    pub(super) fn global_variable(&mut self) {
        self.module_variable(".global");
    }

    pub(super) fn constant_variable(&mut self) {
        self.module_variable(".const");
    }

    /// A variable of the module, with or without initialiser, seen byte by byte.
    fn module_variable(&mut self, space: &'static str) {
        let mut shape = self.shape();
        let mut linkage = self.linkage(space);
        let name = self.name("v");
        let initialiser = if self.rng.one_in(5) || shape.ty.name == "f16" && !self.wild() {
            String::new()
        } else {
            if linkage == ".common " {
                linkage = ".visible ";
            }
            if !shape.dimensions.is_empty() && self.rng.one_in(6) {
                // An open dimension, as long as its initialiser.
                let rest = shape.brackets.find(']').unwrap_or_default();
                shape.brackets = format!("[{}", &shape.brackets[rest..]);
                self.full_initialiser(&shape)
            } else {
                self.initialiser(&shape)
            }
        };
        let attribute = match self.rng.below(24) {
            0 if space == ".global" => ".attribute(.managed) ",
            1 if space == ".global" => ".attribute(.unified(19,95)) ",
            _ => "",
        };
        let mut declared = shape.declare(&name);
        if !attribute.is_empty() {
            declared = match shape.align {
                // The attribute stands before or behind the alignment.
                Some(align) if self.rng.one_in(2) => declared.replacen(
                    &format!(".align {align} "),
                    &format!(".align {align} {attribute}"),
                    1,
                ),
                _ => format!("{attribute}{declared}"),
            };
        }
        if linkage != ".common " && self.rng.one_in(12) {
            // A declaration before the definition.
            let visible = linkage == ".visible ";
            if visible || self.wild() {
                let plain = VariableShape {
                    align: None,
                    ..shape.clone()
                };
                let plain = plain.declare(&name);
                self.declare(format!(".extern {space} {plain};"));
            }
        }
        self.declare(format!("{linkage}{space} {declared}{initialiser};"));
        self.see_variable(space, &name, &shape);
        self.targets.push(Target {
            name,
            space,
            bytes: shape.bytes(),
        });
    }

    /// Reads a variable of the module by its name, by an address in a register, or by a generic address.
    fn see_variable(&mut self, space: &'static str, name: &str, shape: &VariableShape) {
        let (bytes, alignment) = (shape.bytes(), shape.alignment());
        match self.rng.below(4) {
            0 => {
                let address = self.register("b64");
                self.line(format!("mov.u64 {address}, {name};"));
                self.dump(space, &address, bytes, alignment);
            }
            1 => {
                let address = self.register("b64");
                if self.rng.one_in(2) {
                    self.line(format!("mov.u64 {address}, {name};"));
                    self.line(format!("cvta{space}.u64 {address}, {address};"));
                } else {
                    self.line(format!("cvta{space}.u64 {address}, {name};"));
                }
                self.dump("", &address, bytes, alignment);
            }
            _ => self.dump(space, name, bytes, alignment),
        }
        if let Some(align) = shape.align.filter(|align| align.is_power_of_two()) {
            let address = self.register("b64");
            self.line(format!("mov.u64 {address}, {name};"));
            self.line(format!("and.b64 {address}, {address}, {};", align - 1));
            self.show(&address, 8);
        }
    }

    pub(super) fn shared_variable(&mut self) {
        let scope = self.rng.one_in(2);
        self.working_variable(".shared", scope);
    }

    pub(super) fn local_variable(&mut self) {
        let module = self.wild();
        self.working_variable(".local", module);
    }

    /// A variable without initialiser: elements are stored, bytes are read.
    fn working_variable(&mut self, space: &'static str, of_module: bool) {
        let shape = self.shape();
        let name = self.name("w");
        let mut declaration = format!("{space} {}", shape.declare(&name));
        if self.wild() {
            declaration += &self.initialiser(&shape);
        }
        if of_module {
            self.declare(format!("{declaration};"));
        } else {
            self.line(format!("{declaration};"));
        }
        let bytes = shape.bytes();
        // Another one behind it, so that both do not share their bytes.
        let guard = self.name("w");
        self.line(format!("{space} .b8 {guard}[4];"));
        self.line(format!("st{space}.u8 [{guard}], 0x5a;"));
        let wide = shape.vector > 1 && shape.alignment() >= shape.ty.bytes * shape.vector;
        let step = if wide {
            shape.ty.bytes * shape.vector
        } else {
            shape.ty.bytes
        };
        for at in (0..bytes).step_by(step) {
            let value = self.rng.next_u64();
            if step == 16 && shape.vector == 1 {
                let register = self.register("b64");
                self.line(format!("mov.b64 {register}, {value:#x};"));
                self.line(format!(
                    "st{space}.v2.b64 [{name}+{at}], {{{register}, {register}}};"
                ));
                continue;
            }
            let elements: Vec<String> = (0..step / shape.ty.bytes)
                .map(|n| self.stored(shape.ty, value.rotate_left(13 * n as u32)))
                .collect();
            let ty = if shape.ty.float || shape.ty.name == "pred" {
                format!("b{}", 8 * shape.ty.bytes)
            } else {
                shape.ty.name.to_owned()
            };
            match elements.len() {
                1 => self.line(format!("st{space}.{ty} [{name}+{at}], {};", elements[0])),
                n => self.line(format!(
                    "st{space}.v{n}.{ty} [{name}+{at}], {{{}}};",
                    elements.join(", ")
                )),
            }
        }
        if space == ".shared" && self.rng.one_in(3) {
            // The same with an address of 32 bits.
            let address = self.register("b32");
            self.line(format!("mov.u32 {address}, {name};"));
            self.dump(space, &address, bytes, shape.alignment());
        } else {
            self.see_variable(space, &name, &shape);
        }
        self.dump(space, &guard, 1, 1);
    }

    /// A register that holds a value of a type.
    fn stored(&mut self, ty: Type, value: u64) -> String {
        let bits = match ty.bytes {
            8 => 64,
            4 => 32,
            _ => 16,
        };
        let register = self.register(&format!("b{bits}"));
        let value = value & (u64::MAX >> (64 - 8 * ty.bytes.min(8)));
        self.line(format!("mov.b{bits} {register}, {value:#x};"));
        register
    }

    /// A variable of global or constant memory that is declared inside the kernel.
    pub(super) fn static_variable(&mut self) {
        let space = *self.rng.pick(&[".global", ".const"]);
        let shape = self.shape();
        let name = self.name("s");
        let initialiser = self.initialiser(&shape);
        self.line(format!("{space} {}{initialiser};", shape.declare(&name)));
        self.see_variable(space, &name, &shape);
    }
}
