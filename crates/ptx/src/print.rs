//! The syntax tree back to PTX.
//!
//! Modifiers come in the manual's order, constants by value (floating point in hexadecimal, so that no bit is lost), one
//! statement a line. Reading the output again gives an equal tree.

use crate::ast::{
    Attribute, Body, Constant, Function, FunctionDirective, FunctionDirectiveKind, Initialiser,
    InitialiserPart, Instruction, Item, Linkage, Module, Operand, OperandKind, Statement,
    TargetListKind, TargetOption, Variable, VariableId,
};
use crate::target::Version;
use std::fmt::Write;

/// Prints a module. What could not be read is not in it.
pub fn print(module: &Module<'_>) -> String {
    let mut printer = Printer {
        module,
        out: String::with_capacity(module.source.len() + 256),
    };
    printer.module();
    printer.out
}

/// Prints one instruction of a body, without its semicolon.
pub fn print_instruction(module: &Module<'_>, body: &Body, instruction: &Instruction) -> String {
    let mut printer = Printer {
        module,
        out: String::new(),
    };
    printer.instruction(body, instruction);
    printer.out
}

struct Printer<'m, 'a> {
    module: &'m Module<'a>,
    out: String,
}

impl Printer<'_, '_> {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.out.write_fmt(text);
    }

    fn module(&mut self) {
        let module = self.module;
        self.write(format_args!(".version {}\n", Version(module.version)));
        if let Some(target) = module.target {
            self.write(format_args!(".target {target}"));
            for option in &module.target_options {
                self.push(match option {
                    TargetOption::TexmodeUnified => ", texmode_unified",
                    TargetOption::TexmodeIndependent => ", texmode_independent",
                    TargetOption::Debug => ", debug",
                    TargetOption::MapF64ToF32 => ", map_f64_to_f32",
                });
            }
            self.push("\n");
        }
        if module.address_size_span.is_some() {
            self.write(format_args!(".address_size {}\n", module.address_size));
        }
        self.push("\n");
        for item in &module.items {
            match *item {
                Item::Variable(id) => {
                    self.variable(module.variable(id));
                    self.push(";\n");
                }
                Item::Function(id) => self.function(module.function(id)),
                Item::File(at) => {
                    let file = &module.files[at as usize];
                    let name = module.text(file.name);
                    self.write(format_args!(".file {} {name}", file.index));
                    if let Some((time, size)) = file.stamp {
                        self.write(format_args!(", {time}, {size}"));
                    }
                    self.push("\n");
                }
                Item::Section(at) => {
                    let text = module.text(module.sections[at as usize].span);
                    self.write(format_args!("{text}\n"));
                }
                Item::Alias(at) => {
                    let alias = &module.aliases[at as usize];
                    let (name, of) = (module.name(alias.name), module.name(alias.of));
                    self.write(format_args!(".alias {name}, {of};\n"));
                }
                Item::Pragma(at) => {
                    let text = module.text(module.pragmas[at as usize]);
                    self.write(format_args!(".pragma {text};\n"));
                }
            }
        }
    }

    fn linkage(&mut self, linkage: Linkage) {
        if linkage != Linkage::Internal {
            self.write(format_args!("{} ", linkage.name()));
        }
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        if attributes.is_empty() {
            return;
        }
        self.push(".attribute(");
        for (at, attribute) in attributes.iter().enumerate() {
            if at > 0 {
                self.push(", ");
            }
            match attribute {
                Attribute::Managed => self.push(".managed"),
                Attribute::Unified(first, second) => {
                    self.write(format_args!(".unified({first}, {second})"));
                }
            }
        }
        self.push(") ");
    }

    /// A variable or parameter, up to where its semicolon or comma goes.
    fn variable(&mut self, variable: &Variable) {
        self.linkage(variable.linkage);
        self.push(variable.space.name());
        if let Some(bank) = variable.bank {
            self.write(format_args!("[{bank}]"));
        }
        self.push(" ");
        self.attributes(&variable.attributes);
        if let Some(align) = variable.align {
            self.write(format_args!(".align {align} "));
        }
        if variable.vector > 1 {
            self.write(format_args!(".v{} ", variable.vector));
        }
        self.write(format_args!("{} ", variable.ty));
        if let Some(pointer) = variable.pointer {
            self.push(".ptr ");
            if let Some(to) = pointer.to {
                self.write(format_args!("{} ", to.name()));
            }
            if let Some(align) = pointer.align {
                self.write(format_args!(".align {align} "));
            }
        }
        let name = self.module.name(variable.name);
        self.push(name);
        for &dimension in &variable.dimensions {
            if dimension == 0 {
                self.push("[]");
            } else {
                self.write(format_args!("[{dimension}]"));
            }
        }
        if let Some(initialiser) = &variable.initialiser {
            self.push(" = ");
            self.initialiser(initialiser);
        }
    }

    fn initialiser(&mut self, initialiser: &Initialiser) {
        let mut comma = false;
        let mut mask = false;
        for part in &initialiser.parts {
            if comma && *part != InitialiserPart::Close {
                self.push(", ");
            }
            comma = true;
            match *part {
                InitialiserPart::Open => {
                    self.push("{");
                    comma = false;
                }
                InitialiserPart::Close => self.push("}"),
                InitialiserPart::Constant(value) => self.constant(value),
                InitialiserPart::Bytes { first, count } => {
                    for (at, &byte) in initialiser.bytes(first, count).iter().enumerate() {
                        let comma = if at > 0 { ", " } else { "" };
                        self.write(format_args!("{comma}{byte}"));
                    }
                }
                InitialiserPart::Variable {
                    variable,
                    offset,
                    generic,
                } => {
                    let name = self.module.name(self.module.variable(variable).name);
                    if generic {
                        self.write(format_args!("generic({name})"));
                    } else {
                        self.push(name);
                    }
                    if offset != 0 {
                        self.push("+");
                        self.constant(Constant::Signed(offset));
                    }
                }
                InitialiserPart::Function(function) => {
                    let name = self.module.name(self.module.function(function).name);
                    self.push(name);
                }
                InitialiserPart::Field(field) => {
                    self.write(format_args!("{} = ", field.name()));
                    comma = false;
                }
                InitialiserPart::Mask(bits) => {
                    self.write(format_args!("{bits:#x}("));
                    comma = false;
                    mask = true;
                    continue;
                }
            }
            if std::mem::take(&mut mask) {
                self.push(")");
            }
        }
    }

    fn constant(&mut self, value: Constant) {
        match value {
            Constant::Signed(i64::MIN) => self.push("(.s64)0x8000000000000000"),
            Constant::Signed(value) => self.write(format_args!("{value}")),
            Constant::Unsigned(value) => self.write(format_args!("{value}U")),
            Constant::Single(bits) => self.write(format_args!("0f{bits:08X}")),
            Constant::Double(bits) => self.write(format_args!("0d{bits:016X}")),
        }
    }

    fn parameters(&mut self, list: &[VariableId]) {
        self.push("(");
        for (at, id) in list.iter().enumerate() {
            if at > 0 {
                self.push(", ");
            }
            self.variable(self.module.variable(*id));
        }
        self.push(")");
    }

    fn function(&mut self, function: &Function) {
        self.linkage(function.linkage);
        self.push(if function.entry { ".entry " } else { ".func " });
        self.attributes(&function.attributes);
        if !function.returns.is_empty() {
            self.parameters(&function.returns);
            self.push(" ");
        }
        let name = self.module.name(function.name);
        self.push(name);
        self.parameters(&function.parameters);
        self.directives(&function.directives);
        let Some(body) = &function.body else {
            self.push(";\n");
            return;
        };
        self.push("\n{\n");
        let mut depth = 1;
        for statement in &body.statements {
            if *statement == Statement::Close {
                depth -= 1;
            }
            if !matches!(statement, Statement::Label(_) | Statement::List(_)) {
                for _ in 0..depth.min(8) {
                    self.push("\t");
                }
            }
            if *statement == Statement::Open {
                depth += 1;
            }
            self.statement(body, *statement);
            self.push("\n");
        }
        self.push("}\n");
    }

    fn directives(&mut self, directives: &[FunctionDirective]) {
        for directive in directives {
            if directive.kind == FunctionDirectiveKind::Pragma {
                let text = self.module.text(directive.span);
                self.write(format_args!(" {text}"));
                continue;
            }
            self.write(format_args!(" {}", directive.kind.name()));
            for at in 0..directive.count as usize {
                let comma = if at > 0 { "," } else { "" };
                self.write(format_args!("{comma} {}", directive.values[at]));
            }
        }
    }

    fn statement(&mut self, body: &Body, statement: Statement) {
        let module = self.module;
        match statement {
            Statement::Instruction(id) => {
                self.instruction(body, &body.instructions[id.index()]);
                self.push(";");
            }
            Statement::Label(id) => {
                let name = module.name(body.labels[id.index()].name);
                self.write(format_args!("{name}:"));
            }
            Statement::Open => self.push("{"),
            Statement::Close => self.push("}"),
            Statement::Registers(at) => {
                let declaration = &body.declarations[at as usize];
                self.push(".reg ");
                if declaration.vector > 1 {
                    self.write(format_args!(".v{} ", declaration.vector));
                }
                let name = module.name(declaration.name);
                self.write(format_args!("{} {name}", declaration.ty));
                if let Some(count) = declaration.count {
                    self.write(format_args!("<{count}>"));
                }
                self.push(";");
            }
            Statement::Variable(id) => {
                self.variable(module.variable(id));
                self.push(";");
            }
            Statement::Location(at) => {
                let it = &body.locations[at as usize];
                self.write(format_args!(".loc {} {} {}", it.file, it.line, it.column));
                if let Some(inlined) = it.inlined {
                    let name = module.name(inlined.function);
                    self.write(format_args!(", function_name {name}"));
                    if inlined.offset != 0 {
                        self.write(format_args!("+{}", inlined.offset));
                    }
                    let (file, line, column) = inlined.at;
                    self.write(format_args!(", inlined_at {file} {line} {column}"));
                }
            }
            Statement::Pragma(at) => {
                let text = module.text(body.pragmas[at as usize]);
                self.write(format_args!(".pragma {text};"));
            }
            Statement::List(id) => {
                let list = &body.lists[id.index()];
                let name = module.name(list.name);
                self.write(format_args!("{name}: "));
                self.list(body, &list.kind);
                self.push(";");
            }
        }
    }

    fn list(&mut self, body: &Body, list: &TargetListKind) {
        let module = self.module;
        match list {
            TargetListKind::Branch(labels) => {
                self.push(".branchtargets ");
                for (at, label) in labels.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    let name = body
                        .labels
                        .get(label.index())
                        .map_or("", |label| module.name(label.name));
                    self.write(format_args!("{comma}{name}"));
                }
            }
            TargetListKind::Call(functions) => {
                self.push(".calltargets ");
                for (at, function) in functions.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    let name = module.name(module.function(*function).name);
                    self.write(format_args!("{comma}{name}"));
                }
            }
            TargetListKind::Prototype(prototype) => {
                self.push(".callprototype ");
                if !prototype.returns.is_empty() {
                    self.parameters(&prototype.returns);
                    self.push(" ");
                }
                self.push("_ ");
                self.parameters(&prototype.parameters);
                self.directives(&prototype.directives);
            }
        }
    }

    fn instruction(&mut self, body: &Body, instruction: &Instruction) {
        let module = self.module;
        if let Some((register, negated)) = instruction.guard.get() {
            let name = module.name(body.registers[register.index()].name);
            let not = if negated { "!" } else { "" };
            self.write(format_args!("@{not}{name} "));
        }
        let opcode = module.opcode(instruction);
        match (opcode.op, opcode.forms.get(instruction.form as usize)) {
            (Some(op), Some(form)) => {
                self.push(op.name());
                for modifier in form.modifiers() {
                    self.write(format_args!("{modifier}"));
                }
            }
            _ => self.push(module.name(opcode.name)),
        }
        for (at, operand) in body.operands(instruction).iter().enumerate() {
            self.push(if at > 0 { ", " } else { " " });
            self.operand(body, operand);
        }
    }

    /// Operands nest as deep as the grammar does: a pair or suffix around a bracket around a vector.
    fn operand(&mut self, body: &Body, operand: &Operand) {
        let module = self.module;
        let register = |id: crate::ast::RegisterId| module.name(body.registers[id.index()].name);
        match operand.kind {
            OperandKind::Register(id) => self.push(register(id)),
            OperandKind::Component(id, component) => {
                let letter = component_letter(component);
                self.write(format_args!("{}.{letter}", register(id)));
            }
            OperandKind::Not(id) => self.write(format_args!("!{}", register(id))),
            OperandKind::Negated(id) => self.write(format_args!("-{}", register(id))),
            OperandKind::Sum(inner, constant) => {
                self.operand(body, &body.operands[inner as usize]);
                self.write(format_args!("+{constant}"));
            }
            OperandKind::Special(special, component) => {
                self.write(format_args!("{special}"));
                if component != u8::MAX {
                    self.write(format_args!(".{}", component_letter(component)));
                }
            }
            OperandKind::Signed(value) => self.constant(Constant::Signed(value)),
            OperandKind::Unsigned(value) => self.constant(Constant::Unsigned(value)),
            OperandKind::Single(bits) => self.constant(Constant::Single(bits)),
            OperandKind::Double(bits) => self.constant(Constant::Double(bits)),
            OperandKind::Variable(id) => self.push(module.name(module.variable(id).name)),
            OperandKind::Offset(id, offset) => {
                self.push(module.name(module.variable(id).name));
                self.write(format_args!("+{offset}"));
            }
            OperandKind::Element(id, offset) => {
                let variable = module.variable(id);
                let index = offset / (variable.element_bytes().max(1) as i64);
                self.write(format_args!("{}[{index}]", module.name(variable.name)));
            }
            OperandKind::Function(id) => self.push(module.name(module.function(id).name)),
            OperandKind::Label(id) => {
                let name = body
                    .labels
                    .get(id.index())
                    .map_or("", |label| module.name(label.name));
                self.push(name);
            }
            OperandKind::List(id) => self.push(module.name(body.lists[id.index()].name)),
            OperandKind::Sink => self.push("_"),
            OperandKind::Vector(parts) => self.operand_list(body, body.parts(parts), "{", "}"),
            OperandKind::Bracket(parts) => self.operand_list(body, body.parts(parts), "[", "]"),
            OperandKind::Arguments(parts) => self.operand_list(body, body.parts(parts), "(", ")"),
            OperandKind::AtRegister(id, offset) => {
                self.write(format_args!("[{}", register(id)));
                self.offset(offset);
            }
            OperandKind::AtVariable(id, offset) => {
                self.write(format_args!("[{}", module.name(module.variable(id).name)));
                self.offset(offset);
            }
            OperandKind::AtConstant(value) => self.write(format_args!("[{value}]")),
            OperandKind::Pair(first) => {
                let first = first as usize;
                self.operand(body, &body.operands[first]);
                self.push("|");
                self.operand(body, &body.operands[first + 1]);
            }
            OperandKind::Suffixed(inner, modifier) => {
                self.operand(body, &body.operands[inner as usize]);
                self.write(format_args!("{modifier}"));
            }
            OperandKind::Error => {
                let text = module.text(operand.span);
                self.push(&text);
            }
        }
    }

    fn offset(&mut self, offset: i64) {
        if offset != 0 {
            self.write(format_args!("+{offset}"));
        }
        self.push("]");
    }

    /// A list in brackets; the addresses inside brackets lose their own.
    fn operand_list(&mut self, body: &Body, parts: &[Operand], open: &str, close: &str) {
        self.push(open);
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.push(", ");
            }
            let start = self.out.len();
            self.operand(body, part);
            let address = matches!(
                part.kind,
                OperandKind::AtRegister(..)
                    | OperandKind::AtVariable(..)
                    | OperandKind::AtConstant(_)
            );
            if address && open == "[" {
                self.out.pop();
                self.out.remove(start);
            }
        }
        self.push(close);
    }
}

fn component_letter(component: u8) -> char {
    match component {
        0 => 'x',
        1 => 'y',
        2 => 'z',
        _ => 'w',
    }
}
