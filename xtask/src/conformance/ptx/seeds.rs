//! The programs that mutants come from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use orias_generate::synth;
use orias_ptx::NEWEST_VERSION;
use orias_ptx::ast::{Body, Function, Instruction, Module, Operand, OperandKind, Variable};
use orias_ptx::grammar::ROWS;
use orias_ptx::target::Target;

/// Samples of every row that exists for a target, up to `each` for a row.
pub fn rows(target: &str, each: usize) -> Vec<String> {
    let Some(target) = Target::from_name(target) else {
        return Vec::new();
    };
    let mut programs = Vec::new();
    for row in ROWS {
        for choice in synth::choices(row, NEWEST_VERSION, target, each) {
            programs.push(synth::sample(&choice, NEWEST_VERSION, target).text());
        }
    }
    programs
}

/// Writes samples of rows and statements of the corpus to a folder, and the smaller modules of the corpus whole.
pub fn write(folder: &str) -> Result<(), String> {
    const WHOLE: u64 = 16 * 1024;
    let folder = std::path::Path::new(folder);
    let say = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(say)?;
    let mut programs = corpus()?;
    programs.extend(rows("sm_90a", 1));
    programs.extend(rows("sm_100a", 1));
    for path in crate::conformance::corpus::modules()? {
        let size = std::fs::metadata(&path).map_err(say)?.len();
        if size <= WHOLE {
            programs.push(std::fs::read_to_string(&path).map_err(say)?);
        }
    }
    for program in &programs {
        let name = format!("{:016x}.ptx", super::verdict::hash(program));
        std::fs::write(folder.join(name), program).map_err(say)?;
    }
    println!("{} programs in {}", programs.len(), folder.display());
    Ok(())
}

/// Each kind of statement in the corpus as a program of its own: one for each opcode and sequence of operand kinds.
pub fn corpus() -> Result<Vec<String>, String> {
    let mut seen = BTreeSet::new();
    let mut programs = Vec::new();
    for path in crate::conformance::corpus::modules()? {
        let source =
            std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (module, _) = orias_ptx::parse(&source);
        for function in &module.functions {
            let Some(body) = &function.body else { continue };
            for instruction in &body.instructions {
                let opcode = module.opcode(instruction);
                if opcode.problem.is_some() {
                    continue;
                }
                let mut key = module.name(opcode.name).to_owned();
                for operand in body.operands(instruction) {
                    let kind = format!("{:?}", operand.kind);
                    key.push(' ');
                    key.push_str(kind.split('(').next().unwrap_or_default());
                }
                if seen.insert(key)
                    && let Some(program) = statement_program(&module, function, body, instruction)
                {
                    programs.push(program);
                }
            }
        }
    }
    Ok(programs)
}

/// What an instruction needs to stand alone.
#[derive(Default)]
struct Needs {
    registers: BTreeMap<u32, ()>,
    globals: BTreeSet<u32>,
    labels: BTreeSet<u32>,
    foreign: bool,
}

impl Needs {
    fn operand(&mut self, body: &Body, operand: &Operand) {
        match operand.kind {
            OperandKind::Register(id)
            | OperandKind::Component(id, _)
            | OperandKind::Not(id)
            | OperandKind::Negated(id)
            | OperandKind::AtRegister(id, _) => {
                self.registers.insert(id.0, ());
            }
            OperandKind::Variable(id)
            | OperandKind::Offset(id, _)
            | OperandKind::AtVariable(id, _)
            | OperandKind::Element(id, _) => {
                self.globals.insert(id.0);
            }
            OperandKind::Label(id) => {
                self.labels.insert(id.0);
            }
            OperandKind::Vector(parts) | OperandKind::Bracket(parts) => {
                for part in body.parts(parts) {
                    self.operand(body, part);
                }
            }
            OperandKind::Pair(first) => {
                let first = first as usize;
                self.operand(body, &body.operands[first]);
                self.operand(body, &body.operands[first + 1]);
            }
            OperandKind::Suffixed(inner, _) | OperandKind::Sum(inner, _) => {
                self.operand(body, &body.operands[inner as usize])
            }
            OperandKind::Function(_) | OperandKind::List(_) | OperandKind::Arguments(_) => {
                self.foreign = true;
            }
            _ => {}
        }
    }
}

fn declaration(module: &Module<'_>, variable: &Variable) -> String {
    let mut text = String::new();
    let _ = write!(text, "{} ", variable.space.name());
    if let Some(align) = variable.align {
        let _ = write!(text, ".align {align} ");
    }
    if variable.vector > 1 {
        let _ = write!(text, ".v{} ", variable.vector);
    }
    let _ = write!(text, "{} {}", variable.ty, module.name(variable.name));
    for dimension in &variable.dimensions {
        let _ = write!(text, "[{}]", dimension.max(&1));
    }
    text
}

fn statement_program(
    module: &Module<'_>,
    function: &Function,
    body: &Body,
    instruction: &Instruction,
) -> Option<String> {
    let mut needs = Needs::default();
    for operand in body.operands(instruction) {
        needs.operand(body, operand);
    }
    if let Some((guard, _)) = instruction.guard.get() {
        needs.registers.insert(guard.0, ());
    }
    if needs.foreign {
        return None;
    }
    let mut text = ".version 9.0\n.target sm_90a\n.address_size 64\n".to_owned();
    let mut parameters = Vec::new();
    let mut local = String::new();
    for &id in &needs.globals {
        let variable = &module.variables[id as usize];
        let declared = declaration(module, variable);
        let is_parameter = function
            .parameters
            .iter()
            .chain(&function.returns)
            .any(|it| it.0 == id);
        let at_module = module
            .items
            .iter()
            .any(|item| matches!(item, orias_ptx::ast::Item::Variable(it) if it.0 == id));
        if is_parameter {
            parameters.push(declared);
        } else if at_module {
            let _ = writeln!(text, "{declared};");
        } else {
            let _ = writeln!(local, "\t{declared};");
        }
    }
    let _ = writeln!(text, ".visible .entry k({})\n{{", parameters.join(", "));
    for &id in needs.registers.keys() {
        let register = &body.registers[id as usize];
        let vector = match register.vector {
            1 => String::new(),
            n => format!(".v{n} "),
        };
        let name = module.name(register.name);
        let _ = writeln!(text, "\t.reg {vector}{} {name};", register.ty);
    }
    text.push_str(&local);
    let _ = writeln!(
        text,
        "\t{};",
        orias_ptx::print::print_instruction(module, body, instruction)
    );
    for &label in &needs.labels {
        let name = module.name(body.labels[label as usize].name);
        let _ = writeln!(text, "{name}:");
    }
    text.push_str("\tret;\n}\n");
    Some(text)
}
