//! The rules that rows ask for by name, because a row cannot express them.

use super::Checker;
use crate::ast::{Body, Instruction, Operand, OperandKind, Space, TargetOption};
use crate::fit::in_space;
use crate::grammar::{Modifier, Op, slot_names as slot};
use crate::opcode::{Form, Opcode, PatternKind};
use crate::types::{Type, TypeClass};

impl Checker<'_, '_> {
    /// A texture instruction names a sampler in independent mode and only there.
    pub(super) fn texture_mode(&mut self, body: &Body, opcode: &Opcode, instruction: &Instruction) {
        let operands = body.operands(instruction).iter();
        let sampler = operands.into_iter().any(|operand| match operand.kind {
            OperandKind::Bracket(parts) => parts.count > 2,
            _ => false,
        });
        let independent = self
            .module
            .target_options
            .contains(&TargetOption::TexmodeIndependent);
        if sampler != independent {
            let mode = if independent {
                "independent"
            } else {
                "unified"
            };
            let span = instruction.opcode_span(self.module.names.bytes(opcode.name).len() as u32);
            self.error(
                span,
                format!(
                    "Instruction or declaration violates .target texmode_{mode} setting: a sampler {}",
                    if independent { "is missing" } else { "may not be named" }
                ),
            );
        }
    }

    /// From sm_90 on, 32 bits hold no generic or global address (ptxas widens 8 and 16). ptxas minds where the instruction becomes a
    /// plain memory access, not where the address goes to a copy engine or a matrix load.
    pub(super) fn narrow_addresses(
        &mut self,
        body: &Body,
        opcode: &Opcode,
        form: &Form,
        instruction: &Instruction,
    ) {
        const PLAIN: &[&str] = &[
            "ld",
            "ldu",
            "st",
            "atom",
            "red",
            "prefetch",
            "prefetchu",
            "discard",
            "applypriority",
            "mbarrier",
            "multimem",
        ];
        const MESSAGE: &str =
            "A generic or global address has 64 bits on sm_90 or higher architectures";
        let name = opcode.op.map_or("", Op::name);
        let asynchronous = name == "st.async" || name == "red.async";
        let family = name.split('.').next().unwrap_or_default();
        let Some(shape) = form.shapes.get(instruction.shape as usize) else {
            return;
        };
        let narrow = form.types().any(|ty| ty.bits() == 32);
        if family == "cvta" && narrow {
            self.error(instruction.span(), MESSAGE);
        }
        if family == "mov" && narrow {
            for operand in body.operands(instruction) {
                if let OperandKind::Variable(id)
                | OperandKind::Offset(id, _)
                | OperandKind::Element(id, _) = operand.kind
                    && self.module.variable(id).space == Space::Global
                {
                    self.error(operand.span, MESSAGE);
                }
            }
        }
        if asynchronous || !PLAIN.contains(&family) {
            return;
        }
        for (operand, pattern) in body.operands(instruction).iter().zip(&shape.operands) {
            let (OperandKind::AtRegister(register, _), PatternKind::Bracket(inner)) =
                (operand.kind, &pattern.kind)
            else {
                continue;
            };
            let far = inner
                .iter()
                .any(|it| matches!(it.kind, PatternKind::Address(None | Some("global"))));
            if far && body.registers[register.index()].ty.bits() == 32 {
                self.error(operand.span, MESSAGE);
            }
        }
    }

    /// `cp.async` with a number of bytes to read: not more than it writes.
    pub(super) fn copy_source(&mut self, body: &Body, instruction: &Instruction) {
        let bytes = |operand: &Operand| match operand.kind {
            OperandKind::Signed(value) => Some(value),
            OperandKind::Unsigned(value) => Some(i64::try_from(value).unwrap_or(i64::MAX)),
            _ => None,
        };
        let operands = body.operands(instruction);
        if let [_, _, size, source, ..] = operands
            && let (Some(limit), Some(value)) = (bytes(size), bytes(source))
            && value > limit
        {
            self.error(
                source.span,
                format!(
                    "Argument 3 of instruction 'cp.async': value '{value}' out of range, expected to be in range [0..{limit}]"
                ),
            );
        }
    }

    /// `createpolicy.fractional` with a known fraction.
    pub(super) fn policy_fraction(&mut self, body: &Body, instruction: &Instruction) {
        let Some(fraction) = body.operands(instruction).get(1) else {
            return;
        };
        let value = match fraction.kind {
            OperandKind::Single(bits) => f64::from(f32::from_bits(bits)),
            OperandKind::Double(bits) => f64::from_bits(bits),
            _ => return,
        };
        if !(value > 0.0 && value <= 1.0) {
            self.error(
                fraction.span,
                format!(
                    "Argument 2 of instruction 'createpolicy.fractional': value '{value:.6}' out of range, expected to be in range (0.000000 .. 1.000000]"
                ),
            );
        }
    }

    /// `createpolicy.range` with known sizes.
    pub(super) fn policy_sizes(&mut self, body: &Body, instruction: &Instruction) {
        let bytes = |operand: &Operand| match operand.kind {
            OperandKind::Signed(value) => Some(value as u32),
            OperandKind::Unsigned(value) => Some(value as u32),
            _ => None,
        };
        if let [_, _, primary, total, ..] = body.operands(instruction)
            && let (Some(first), Some(all)) = (bytes(primary), bytes(total))
            && first > all
        {
            let (first, all) = (first as i32, all as i32);
            self.error(
                primary.span,
                format!(
                    "Argument 3 of instruction 'createpolicy.range': value '{first}' must be less than or equal to the value '{all}' of argument 4"
                ),
            );
        }
    }

    /// `cvta`, `mapa` and `getctarank` of a variable: it is in the space they are about.
    pub(super) fn named_space(
        &mut self,
        body: &Body,
        opcode: &Opcode,
        form: &Form,
        instruction: &Instruction,
    ) {
        let space = form.get(slot::SPACE).map_or("shared", |it| it.name());
        for operand in body.operands(instruction) {
            let (OperandKind::Variable(id)
            | OperandKind::Offset(id, _)
            | OperandKind::Element(id, _)) = operand.kind
            else {
                continue;
            };
            if !in_space(self.module.variable(id).space, Some(space), &[]) {
                let op = opcode.op.map_or("", Op::name);
                self.error(
                    operand.span,
                    format!(
                        "State space mismatch between instruction and address in instruction '{op}'"
                    ),
                );
            }
        }
    }

    /// The coordinates of a texture array start with an index, which is no floating point number.
    pub(super) fn array_index(
        &mut self,
        body: &Body,
        opcode: &Opcode,
        form: &Form,
        instruction: &Instruction,
    ) {
        let array = form
            .modifiers()
            .any(|it| matches!(it.name(), "a1d" | "a2d" | "acube" | "a2dms"));
        let bracket = body
            .operands(instruction)
            .iter()
            .find_map(|it| match it.kind {
                OperandKind::Bracket(parts) => body.parts(parts).last(),
                _ => None,
            });
        let index = match bracket.map(|it| it.kind) {
            Some(OperandKind::Vector(parts)) if array => body.parts(parts).first(),
            _ => None,
        };
        let Some(index) = index else { return };
        let float = match index.kind {
            OperandKind::Register(register) | OperandKind::Component(register, _) => {
                body.registers[register.index()].ty.class() == TypeClass::Float
            }
            OperandKind::Single(_) | OperandKind::Double(_) => true,
            _ => false,
        };
        if float {
            let op = opcode.op.map_or("", Op::name);
            self.error(
                index.span,
                format!("Array index in the '{op}' instruction has unexpected type. Expecting type .u32 or .b32"),
            );
        }
    }

    /// A vector access moves at most 16 bytes; 32 in global memory from sm_100 on.
    pub(super) fn vector_bytes(&mut self, opcode: &Opcode, form: &Form, instruction: &Instruction) {
        let Some(shape) = form.shapes.get(instruction.shape as usize) else {
            return;
        };
        let bits = shape
            .operands
            .iter()
            .find_map(|pattern| match &pattern.kind {
                PatternKind::Vector(low, _, element) if *low > 1 => {
                    Some(u32::from(*low) * element.ty.bits())
                }
                _ => None,
            });
        let Some(bits) = bits else { return };
        let global = form
            .get(slot::SS)
            .is_none_or(|space| space == Modifier::Global);
        let newest = self.module.target.is_some_and(|target| target.sm >= 100);
        let span = instruction.opcode_span(self.module.names.bytes(opcode.name).len() as u32);
        let full_elements = form.types().all(|ty| ty.bits() >= 32 && ty != Type::B128);
        if bits > 256 || (bits > 128 && !(global && full_elements)) {
            self.error(span, "Vector type is too wide for a memory access");
        } else if bits > 128 && !newest {
            self.error(
                span,
                "Feature '256 bit wide load/store' requires .target sm_100 or higher",
            );
        }
    }
}
