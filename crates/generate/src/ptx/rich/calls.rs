//! Functions whose parameters and results are scalars, vectors and structures, in registers and in memory; with branches, loops, several
//! returns, and calls of their own.

use super::super::Writer;
use super::super::vocabulary::{Class, first_constant};
use std::fmt::Write as _;

/// How a value comes into a function or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A register, or one with several elements.
    Register,
    /// A variable of the parameter space, of the value's type.
    Variable,
    /// Bytes in the parameter space.
    Bytes,
}

/// A parameter or a result.
#[derive(Clone, Debug)]
struct Formal {
    name: String,
    class: Class,
    elements: usize,
    way: Way,
}

/// A function that may be called.
#[derive(Clone, Debug)]
pub(super) struct Callee {
    name: String,
    result: Formal,
    parameters: Vec<Formal>,
}

impl Formal {
    fn declare(&self, name: &str) -> String {
        let bytes = self.class.bits() as usize / 8;
        let total = bytes * self.elements;
        match self.way {
            Way::Register if self.elements == 1 => format!(".reg {} {name}", self.class.declared()),
            Way::Register => format!(".reg .v{} {} {name}", self.elements, self.class.declared()),
            Way::Variable if self.elements == 1 => format!(".param .b{} {name}", 8 * bytes),
            Way::Variable => format!(
                ".param .align {total} .b{} {name}[{}]",
                8 * bytes,
                self.elements
            ),
            Way::Bytes => format!(".param .align {total} .b8 {name}[{total}]"),
        }
    }

    /// The instruction that takes an element out.
    fn read(&self, name: &str, element: usize, to: &str) -> String {
        match self.way {
            Way::Register => format!(
                "mov.{} {to}, {};",
                self.class.moved(),
                self.part(name, element)
            ),
            _ => format!(
                "ld.param.b{} {to}, [{name}+{}];",
                self.class.bits(),
                self.offset(element)
            ),
        }
    }

    /// The instruction that puts an element in.
    fn write(&self, name: &str, element: usize, from: &str) -> String {
        match self.way {
            Way::Register => format!(
                "mov.{} {}, {from};",
                self.class.moved(),
                self.part(name, element)
            ),
            _ => format!(
                "st.param.b{} [{name}+{}], {from};",
                self.class.bits(),
                self.offset(element)
            ),
        }
    }

    fn part(&self, name: &str, element: usize) -> String {
        match self.elements {
            1 => name.to_owned(),
            _ => format!("{name}.{}", ["x", "y", "z", "w"][element]),
        }
    }

    fn offset(&self, element: usize) -> usize {
        element * self.class.bits() as usize / 8
    }
}

impl Writer {
    fn formal(&mut self, name: &str) -> Formal {
        let class = *self.rng.pick(&Class::PASSED);
        let elements = match self.rng.below(4) {
            0 => 2,
            1 if class.bits() == 32 => 4,
            _ => 1,
        };
        let way = *self.rng.pick(&[Way::Register, Way::Variable, Way::Bytes]);
        let name = match way {
            Way::Register => format!("%{name}"),
            _ => name.to_owned(),
        };
        Formal {
            name,
            class,
            elements,
            way,
        }
    }

    /// A function, written by a writer of its own; it may call those before it.
    pub(super) fn rich_function(mut self, number: usize, before: &[Callee]) -> (Callee, String) {
        let parameters = (0..self.rng.below(4))
            .map(|at| self.formal(&format!("in{at}")))
            .collect();
        let callee = Callee {
            name: format!("rich{number}"),
            result: self.formal("result"),
            parameters,
        };
        self.members = None;
        (self.uniform, self.together) = (false, false);
        self.rich.function = Some(callee.clone());
        self.rich.callees = before.to_vec();
        self.line("mov.u32 %lane, %laneid;");
        for class in Class::ALL {
            for number in 0..self.counts[class as usize] {
                let register = format!("{}{number}", class.prefix());
                self.first_value_of(&callee, class, &register, number);
            }
        }
        let statements = 3 + self.rng.below(10);
        let depth = self.options.depth.saturating_sub(2);
        self.block(statements, depth);
        self.write_result(&callee);
        self.line("ret;");
        let formals: Vec<String> = callee
            .parameters
            .iter()
            .map(|it| it.declare(&it.name))
            .collect();
        let mut text = format!(
            "\n.func ({}) {}({})\n{{\n",
            callee.result.declare(&callee.result.name),
            callee.name,
            formals.join(", ")
        );
        text += &self.declarations();
        text += "    .reg .b32 %lane;\n";
        for line in &self.lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        }
        text += "}\n";
        (callee, text)
    }

    /// The first value of a register: an element of a parameter of its class, or a constant.
    fn first_value_of(&mut self, callee: &Callee, class: Class, register: &str, number: usize) {
        let elements: Vec<(&Formal, usize)> = callee
            .parameters
            .iter()
            .filter(|it| it.class == class)
            .flat_map(|it| (0..it.elements).map(move |element| (it, element)))
            .collect();
        let line = if elements.is_empty() {
            let constant = first_constant(class, number);
            format!("mov.{} {register}, {constant};", class.moved())
        } else {
            let (formal, element) = elements[number % elements.len()];
            formal.read(&formal.name, element, register)
        };
        self.line(line);
    }

    fn write_result(&mut self, callee: &Callee) {
        let result = &callee.result;
        for element in 0..result.elements {
            let from = self.register(result.class);
            self.line(result.write(&result.name, element, &from));
        }
    }

    /// Some threads return.
    pub(super) fn early_result(&mut self, callee: &Callee) {
        self.note("an early return");
        let condition = self.condition();
        let stay = self.label();
        self.line(format!("@!{condition} bra {stay};"));
        self.indent += 1;
        self.write_result(callee);
        self.line("ret;");
        self.indent -= 1;
        self.place(&stay);
    }

    /// A call with values of all kinds.
    pub(super) fn rich_call(&mut self) {
        self.note("a call");
        let at = self.rng.below(self.rich.callees.len());
        let callee = self.rich.callees[at].clone();
        self.line("{");
        self.indent += 1;
        let mut names = Vec::new();
        for (number, formal) in callee.parameters.iter().enumerate() {
            let name = match formal.way {
                Way::Register => format!("%given{number}"),
                _ => format!("given{number}"),
            };
            self.line(format!("{};", formal.declare(&name)));
            for element in 0..formal.elements {
                let from = self.register(formal.class);
                self.line(formal.write(&name, element, &from));
            }
            names.push(name);
        }
        let result = &callee.result;
        let got = match result.way {
            Way::Register => "%got",
            _ => "got",
        };
        self.line(format!("{};", result.declare(got)));
        match names.is_empty() {
            true => self.line(format!("call ({got}), {};", callee.name)),
            false => self.line(format!(
                "call ({got}), {}, ({});",
                callee.name,
                names.join(", ")
            )),
        }
        for element in 0..result.elements {
            let to = self.register(result.class);
            self.line(result.read(got, element, &to));
        }
        self.indent -= 1;
        self.line("}");
    }
}
