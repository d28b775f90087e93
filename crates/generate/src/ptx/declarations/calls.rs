//! Functions: parameters and results in registers and in memory, of every type, count and shape.

use super::{TYPES, Type, VariableShape, Writer};
use std::fmt::Write as _;

/// A parameter or result in a register.
#[derive(Clone, Debug)]
struct Passed {
    ty: Type,
    vector: usize,
}

impl Passed {
    fn declare(&self, name: &str) -> String {
        match self.vector {
            1 => format!(".reg .{} {name}", self.ty.name),
            n => format!(".reg .v{n} .{} {name}", self.ty.name),
        }
    }

    /// The names of its elements.
    fn elements(&self, name: &str) -> Vec<String> {
        match self.vector {
            1 => vec![name.to_owned()],
            n => ["x", "y", "z", "w"][..n]
                .iter()
                .map(|at| format!("{name}.{at}"))
                .collect(),
        }
    }

    /// The type `mov` moves its elements by.
    fn moved(&self) -> String {
        match self.ty.bytes {
            1 => "b16".to_owned(),
            n => format!("b{}", 8 * n),
        }
    }
}

impl Writer {
    /// A type of parameters and results in registers. ptxas refuses predicates and signed and unsigned 16 bits (not untyped ones),
    /// and passes 128 bits wrongly without ABI.
    fn register_type(&mut self) -> Type {
        let refused = |ty: &Type| matches!(ty.name, "u16" | "s16") || ty.bytes == 16;
        let types = TYPES.iter().copied();
        let fitting: Vec<Type> = types.filter(|ty| ty.bytes > 1 && !refused(ty)).collect();
        if self.wild() {
            return *self.rng.pick(&TYPES[..TYPES.len() - 1]);
        }
        *self.rng.pick(&fitting)
    }

    fn passed(&mut self) -> Passed {
        let ty = self.register_type();
        let vector = match self.rng.below(4) {
            0 => 2,
            1 if ty.bytes <= 4 => 4,
            _ => 1,
        };
        Passed { ty, vector }
    }

    /// A register that holds a constant; of a vector all elements are written.
    fn argument(&mut self, passed: &Passed) -> String {
        let name = self.name("%g");
        self.line(format!("{};", passed.declare(&name)));
        for element in passed.elements(&name) {
            let value = self.integer(8 * passed.ty.bytes.clamp(2, 8) as u32);
            if passed.ty.bytes == 16 {
                self.line(format!("mov.b128 {element}, {{{value}, {value}}};"));
            } else if passed.ty.float {
                let bits = self.register(&passed.moved());
                self.line(format!("mov.{} {bits}, {value};", passed.moved()));
                self.line(format!("mov.{} {element}, {bits};", passed.moved()));
            } else {
                self.line(format!("mov.{} {element}, {value};", passed.moved()));
            }
        }
        name
    }

    /// Functions whose parameters and results are registers: each result is one of the parameters, or a constant.
    pub(super) fn call_by_registers(&mut self) {
        let function = self.name("f");
        let parameters: Vec<Passed> = (0..self.rng.below(4)).map(|_| self.passed()).collect();
        let most = if self.several_results { 2 } else { 1 };
        let results: Vec<Passed> = (0..1 + self.rng.below(most))
            .map(|_| {
                if !parameters.is_empty() && self.rng.one_in(2) {
                    self.rng.pick(&parameters).clone()
                } else {
                    self.passed()
                }
            })
            .collect();
        let list = |passed: &[Passed], prefix: &str| -> String {
            let all: Vec<String> = passed
                .iter()
                .enumerate()
                .map(|(at, it)| it.declare(&format!("{prefix}{at}")))
                .collect();
            all.join(", ")
        };
        let head = format!(
            "({}) {function}({})",
            list(&results, "%o"),
            list(&parameters, "%i")
        );
        let mut body = String::new();
        for (at, result) in results.iter().enumerate() {
            let same: Vec<usize> = (0..parameters.len())
                .filter(|&n| parameters[n].ty == result.ty && parameters[n].vector == result.vector)
                .collect();
            let to = result.elements(&format!("%o{at}"));
            let from = if same.is_empty() {
                None
            } else {
                let number = *self.rng.pick(&same);
                Some(parameters[number].elements(&format!("%i{number}")))
            };
            for (n, element) in to.iter().enumerate() {
                let source = match &from {
                    // In reverse, so that the elements are told apart.
                    Some(from) => from[from.len() - 1 - n].clone(),
                    None if result.ty.name == "f32" => {
                        format!("0f{:08X}", self.rng.next_u64() as u32)
                    }
                    None if result.ty.name == "f64" => format!("0d{:016X}", self.rng.next_u64()),
                    None if result.ty.bytes == 16 => {
                        let _ = writeln!(body, "    mov.b128 {element}, {{{n}, 5}};");
                        continue;
                    }
                    None => self.integer(8 * result.ty.bytes.clamp(2, 8) as u32),
                };
                let moved = if result.ty.float {
                    result.ty.name.to_owned()
                } else {
                    result.moved()
                };
                let _ = writeln!(body, "    mov.{moved} {element}, {source};");
            }
        }
        let linkage = *self.rng.pick(&["", "", ".visible ", ".weak "]);
        if self.rng.one_in(4) {
            // A prototype first, without the names of the parameters or with others.
            self.declare(format!("{linkage}.func {head};"));
        }
        self.declare(format!("{linkage}.func {head}\n{{\n{body}    ret;\n}}"));
        let actuals: Vec<String> = parameters
            .iter()
            .map(|it| {
                if it.vector == 1 && !it.ty.float && it.ty.bytes <= 8 && self.rng.one_in(4) {
                    self.integer(8 * it.ty.bytes as u32)
                } else {
                    self.argument(it)
                }
            })
            .collect();
        let received: Vec<String> = results
            .iter()
            .map(|it| {
                let name = self.name("%g");
                self.line(format!("{};", it.declare(&name)));
                name
            })
            .collect();
        let uni = *self.rng.pick(&["", ".uni"]);
        if actuals.is_empty() {
            let empty = *self.rng.pick(&["", ", ()"]);
            self.line(format!(
                "call{uni} ({}), {function}{empty};",
                received.join(", ")
            ));
        } else {
            self.line(format!(
                "call{uni} ({}), {function}, ({});",
                received.join(", "),
                actuals.join(", ")
            ));
        }
        for (name, result) in received.iter().zip(&results) {
            for element in result.elements(name) {
                self.show(&element, result.ty.bytes);
            }
        }
    }

    /// A shape for a `.param` of a function.
    fn parameter_shape(&mut self) -> VariableShape {
        loop {
            let mut shape = self.shape();
            if shape.dimensions.len() > 1 || shape.bytes() > 48 {
                continue;
            }
            if shape.vector > 1 && !self.wild() {
                shape.vector = 1;
            }
            if shape.align.is_some_and(|align| align > 16) {
                shape.align = Some(16);
            }
            return shape;
        }
    }

    /// Writes random values into a `.param` variable or a function's result, and gives the lines that do.
    fn filled(&mut self, name: &str, shape: &VariableShape, lines: &mut Vec<String>) {
        let width = shape.ty.bytes.min(8);
        for at in (0..shape.bytes()).step_by(width) {
            let bits = 8 * width as u32;
            let holder = if width == 1 { 16 } else { bits };
            let register = self.name("%k");
            let value = self.integer(bits);
            lines.push(format!(".reg .b{holder} {register};"));
            lines.push(format!("mov.b{holder} {register}, {value};"));
            lines.push(format!("st.param.b{bits} [{name}+{at}], {register};"));
        }
    }

    /// Functions whose parameters and results are variables in `.param`: the result holds the bytes of one of the parameters, turned
    /// round, or constants.
    pub(super) fn call_by_parameters(&mut self) {
        let function = self.name("f");
        let parameters: Vec<VariableShape> = (0..self.rng.below(4))
            .map(|_| self.parameter_shape())
            .collect();
        let result = if !parameters.is_empty() && self.rng.one_in(2) {
            self.rng.pick(&parameters).clone()
        } else {
            self.parameter_shape()
        };
        let declared: Vec<String> = parameters
            .iter()
            .enumerate()
            .map(|(at, it)| format!(".param {}", it.declare(&format!("i{at}"))))
            .collect();
        let mut lines = Vec::new();
        let same = parameters
            .iter()
            .position(|it| it.bytes() == result.bytes());
        match same {
            Some(number) => {
                let bytes = result.bytes();
                for at in 0..bytes {
                    let register = self.name("%k");
                    lines.push(format!(".reg .b16 {register};"));
                    lines.push(format!(
                        "ld.param.u8 {register}, [i{number}+{}];",
                        bytes - 1 - at
                    ));
                    lines.push(format!("st.param.b8 [o+{at}], {register};"));
                }
            }
            None => self.filled("o", &result, &mut lines),
        }
        let head = format!(
            "(.param {}) {function}({})",
            result.declare("o"),
            declared.join(", ")
        );
        if self.rng.one_in(4) {
            self.declare(format!(".func {head};"));
        }
        self.declare(format!(
            ".func {head}\n{{\n    {}\n    ret;\n}}",
            lines.join("\n    ")
        ));
        let mut actuals = Vec::new();
        for shape in &parameters {
            let name = self.name("q");
            self.line(format!(".param {};", shape.declare(&name)));
            let mut lines = Vec::new();
            self.filled(&name, shape, &mut lines);
            self.lines.append(&mut lines);
            actuals.push(name);
        }
        let received = self.name("q");
        self.line(format!(".param {};", result.declare(&received)));
        if actuals.is_empty() {
            self.line(format!("call ({received}), {function};"));
        } else {
            self.line(format!(
                "call ({received}), {function}, ({});",
                actuals.join(", ")
            ));
        }
        self.dump(".param", &received, result.bytes(), result.alignment());
    }

    /// A structure as an array of bytes, the way compilers pass them: fields are written and read at their offsets.
    pub(super) fn call_with_a_structure(&mut self) {
        let function = self.name("f");
        let align = *self.rng.pick(&[1, 2, 4, 8, 16]);
        let bytes = align * (1 + self.rng.below(4)) + if self.rng.one_in(4) { 1 } else { 0 };
        let bytes = bytes.min(40);
        // Without ABI ptxas reads an open array anywhere.
        let open = !self.several_results && self.rng.one_in(8);
        let mut body = String::new();
        let width = usize::min(align, 8);
        let holder = if width == 1 { 16 } else { 8 * width };
        let mut at = 0;
        while at < bytes {
            let step = if at + width <= bytes { width } else { 1 };
            let sized = if step == 1 { 16 } else { holder };
            let register = self.name("%k");
            let _ = writeln!(body, "    .reg .b{sized} {register};");
            let _ = writeln!(body, "    ld.param.b{} {register}, [s+{at}];", 8 * step);
            let _ = writeln!(body, "    not.b{sized} {register}, {register};");
            let _ = writeln!(body, "    st.param.b{} [o+{at}], {register};", 8 * step);
            at += step;
        }
        let size = if open {
            String::new()
        } else {
            bytes.to_string()
        };
        self.declare(format!(
            ".func (.param .align {align} .b8 o[{bytes}]) {function}(.param .b32 n, .param .align {align} .b8 s[{size}])\n{{\n{body}    ret;\n}}"
        ));
        let (number, structure, received) = (self.name("q"), self.name("q"), self.name("q"));
        self.line(format!(".param .b32 {number};"));
        self.line(format!(".param .align {align} .b8 {structure}[{bytes}];"));
        self.line(format!(".param .align {align} .b8 {received}[{bytes}];"));
        self.line(format!("st.param.b32 [{number}], 3;"));
        for at in 0..bytes {
            let register = self.register("b16");
            let value = self.rng.below(256);
            self.line(format!("mov.b16 {register}, {value};"));
            self.line(format!("st.param.b8 [{structure}+{at}], {register};"));
        }
        self.line(format!(
            "call ({received}), {function}, ({number}, {structure});"
        ));
        self.dump(".param", &received, bytes, align);
    }

    /// A function that calls another, with parameters of both kinds, and branches.
    pub(super) fn call_of_a_call(&mut self) {
        let (inner, outer) = (self.name("f"), self.name("f"));
        let ty = *self.rng.pick(&["u32", "s32", "b32"]);
        let operation = *self.rng.pick(&["add.s32", "sub.s32", "xor.b32"]);
        let constant = self.integer(31);
        self.declare(format!(
            ".func (.reg .{ty} %o) {inner}(.reg .{ty} %i, .param .b64 j)\n{{\n    .reg .b32 %k;\n    .reg .pred %p;\n    \
             ld.param.u32 %k, [j+4];\n    setp.eq.s32 %p, %k, 0;\n    {operation} %o, %i, %k;\n    @%p ret;\n    \
             {operation} %o, %o, {constant};\n    ret;\n}}"
        ));
        self.declare(format!(
            ".func (.param .b32 o) {outer}(.param .b32 i, .reg .b64 %j)\n{{\n    .reg .b32 %a, %b;\n    .param .b64 q;\n    \
             ld.param.b32 %a, [i];\n    st.param.b64 [q], %j;\n    call (%b), {inner}, (%a, q);\n    \
             st.param.b32 [o], %b;\n    ret;\n}}"
        ));
        let (argument, result) = (self.name("q"), self.name("q"));
        let (wide, seen) = (self.register("b64"), self.register("b32"));
        let value = self.integer(32);
        let upper = self.rng.below(3);
        self.line(format!("mov.b64 {wide}, {:#x};", (upper as u64) << 32 | 5));
        self.line(format!(".param .b32 {argument}, {result};"));
        self.line(format!("st.param.b32 [{argument}], {value};"));
        self.line(format!("call ({result}), {outer}, ({argument}, {wide});"));
        self.line(format!("ld.param.b32 {seen}, [{result}];"));
        self.show(&seen, 4);
    }
}
