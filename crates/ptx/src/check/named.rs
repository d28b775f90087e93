//! The rules that rows ask for by name, because a row cannot express them.

use super::Checker;
use crate::ast::Instruction;
use crate::opcode::{Form, Opcode, PatternKind};
use crate::types::Type;

impl Checker<'_, '_> {
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
        let global = form.get("ss").is_none_or(|space| space.name() == "global");
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
