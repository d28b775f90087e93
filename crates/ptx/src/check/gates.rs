//! Versions and targets: whether an instruction exists where the module says it runs.

use super::Checker;
use crate::ast::{Body, Instruction, OperandKind};
use crate::diagnostic::{Diagnostic, Span};
use crate::fit::Context;
use crate::grammar::{Gate, GateScope, Modifier, NamedCheck, Op};
use crate::opcode::{Form, Opcode};
use crate::special::Special;
use crate::target::{Target, Variant, Version};

/// What is known about one form of one opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Unknown,
    Open,
    Closed,
}

/// The verdicts of all forms of all opcodes of a module.
pub(super) struct Verdicts {
    first: Vec<u32>,
    verdicts: Vec<Verdict>,
}

impl Verdicts {
    pub(super) fn new(opcodes: &[Opcode]) -> Verdicts {
        let mut first = Vec::with_capacity(opcodes.len());
        let mut total = 0;
        for opcode in opcodes {
            first.push(total);
            total += opcode.forms.len() as u32;
        }
        Verdicts {
            first,
            verdicts: vec![Verdict::Unknown; total as usize],
        }
    }
}

impl Checker<'_, '_> {
    /// The target that gates are asked about.
    fn gate_target(&self) -> Target {
        self.module.target.unwrap_or(Target {
            sm: 90,
            variant: Variant::Architecture,
        })
    }

    /// Checks version and target of every instruction of a body.
    pub(super) fn gates(&mut self, body: &Body, verdicts: &mut Verdicts) {
        let module = self.module;
        let narrow_addresses =
            self.options.mode.is_real() && self.options.architecture.is_some_and(|it| it.sm >= 90);
        for instruction in &body.instructions {
            let opcode = &module.opcodes[instruction.opcode.index()];
            if opcode.forms.is_empty() {
                continue;
            }
            let at =
                verdicts.first[instruction.opcode.index()] as usize + instruction.form as usize;
            if verdicts.verdicts[at] == Verdict::Unknown {
                let form = &opcode.forms[instruction.form as usize];
                verdicts.verdicts[at] = if self.open(form) {
                    Verdict::Open
                } else {
                    Verdict::Closed
                };
            }
            if verdicts.verdicts[at] == Verdict::Closed
                && !self.another_form(body, opcode, instruction)
            {
                self.report_gates(opcode, instruction);
            }
            let form = &opcode.forms[instruction.form as usize];
            for &check in form.row.checks {
                match check {
                    NamedCheck::TextureMode => self.texture_mode(body, opcode, instruction),
                    NamedCheck::VectorBytes => self.vector_bytes(opcode, form, instruction),
                    NamedCheck::CopySource => self.copy_source(body, instruction),
                    NamedCheck::PolicyFraction => self.policy_fraction(body, instruction),
                    NamedCheck::PolicySizes => self.policy_sizes(body, instruction),
                    NamedCheck::NamedSpace => self.named_space(body, opcode, form, instruction),
                    NamedCheck::ArrayIndex => self.array_index(body, opcode, form, instruction),
                }
            }
            if narrow_addresses {
                self.narrow_addresses(body, opcode, form, instruction);
            }
            if opcode.op == Some(Op::Mov) {
                for operand in body.operands(instruction) {
                    if let OperandKind::Special(special, _) = operand.kind {
                        self.special(special, operand.span);
                    }
                }
            }
        }
    }

    fn passes(&self, gates: &[Gate]) -> bool {
        let target = self.gate_target();
        gates
            .iter()
            .any(|gate| target.passes(self.module.version, gate))
    }

    fn open(&self, form: &Form) -> bool {
        let mut open = true;
        form.gates(|_, gates| open &= self.passes(gates));
        let target = self.gate_target();
        form.removals(|gate| open &= !target.passes(self.module.version, gate));
        open
    }

    /// Whether another form of the opcode takes the same operands and exists here.
    fn another_form(&self, body: &Body, opcode: &Opcode, instruction: &Instruction) -> bool {
        let context = Context {
            body,
            variables: &self.module.variables,
            elements: opcode.elements,
            address: opcode.address,
        };
        opcode.forms.iter().any(|form| {
            self.open(form)
                && form.shapes.iter().any(|shape| {
                    context
                        .fits(body.operands(instruction), shape, Span::default())
                        .is_ok()
                })
        })
    }

    fn report_gates(&mut self, opcode: &Opcode, instruction: &Instruction) {
        let module = self.module;
        let form = &opcode.forms[instruction.form as usize];
        let op = opcode.op.map_or("", Op::name);
        let length = module.names.bytes(opcode.name).len() as u32;
        let span = instruction.opcode_span(length);
        let mut closed: Vec<(Option<Modifier>, &'static [Gate])> = Vec::new();
        form.gates(|what, gates| {
            if !self.passes(gates) {
                closed.push((what, gates));
            }
        });
        for (what, gates) in closed {
            let what = what.map_or_else(
                || format!("Instruction '{op}'"),
                |modifier| format!("Modifier '{modifier}'"),
            );
            self.diagnostics.push(closed_gate(
                span,
                &what,
                gates,
                module.version,
                self.gate_target(),
            ));
        }
        let target = self.gate_target();
        let mut removed = None;
        form.removals(|gate| {
            if target.passes(module.version, gate) {
                removed = Some(gate);
            }
        });
        if let Some(gate) = removed {
            self.error(
                span,
                format!("Instruction '{op}' without '.sync' or in this form is not supported from {gate} on"),
            );
        }
    }

    fn special(&mut self, special: Special, span: Span) {
        let gate = special.register().since;
        let target = self.gate_target();
        if target.passes(self.module.version, &gate) {
            return;
        }
        let what = format!("Feature '{special}'");
        let diagnostic = closed_gate(span, &what, &[gate], self.module.version, target);
        self.diagnostics.push(diagnostic);
    }
}

/// The message for gates none of which is open.
fn closed_gate(span: Span, what: &str, gates: &[Gate], version: u16, target: Target) -> Diagnostic {
    // Name the gate that lacks least: the one whose target is right, else the first.
    let any_version = u16::MAX;
    let gate = gates
        .iter()
        .find(|gate| target.passes(any_version, gate))
        .or(gates.first());
    let Some(gate) = gate else {
        return Diagnostic::error(span, format!("{what} does not exist"));
    };
    if target.passes(any_version, gate) && version < gate.ptx {
        let needed = Version(gate.ptx);
        return Diagnostic::error(
            span,
            format!("{what} requires PTX ISA .version {needed} or later"),
        )
        .suggest(format!(
            "write `.version {needed}` at the start of the file"
        ));
    }
    let others: Vec<String> = gates.iter().map(ToString::to_string).collect();
    let diagnostic = match gate.scope {
        GateScope::Onwards => Diagnostic::error(
            span,
            format!("{what} requires .target sm_{} or higher", gate.sm),
        ),
        _ => Diagnostic::error(span, format!("{what} not supported on .target '{target}'")),
    };
    diagnostic.expected(others.join(", or "))
}
