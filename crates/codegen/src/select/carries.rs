//! Sums with carries, word by word: chains of IADD3.X, and the predicates that hold the carries.

use super::arithmetic::{flexible_last, is_wide};
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use orias_ori::{Operand, Type, Value};
use orias_sass::Op;

type Done = Result<(), PhaseError>;

pub(super) fn add_carry(s: &mut Selector<'_>) -> Done {
    carry_chain(s, false)
}

pub(super) fn sub_borrow(s: &mut Selector<'_>) -> Done {
    carry_chain(s, true)
}

/// `a + b + carry`, or `a + ~b + carry`, with the carry out.
fn carry_chain(s: &mut Selector<'_>, subtract: bool) -> Done {
    let carry_in = s.predicate(2);
    let wide = is_wide(s.modifier()?);
    let carry_out = s.predicate_result(1);
    if wide {
        let (a, b) = (s.words(0), s.words(1));
        let middle = s.temporary(Type::P);
        let low = s.add_with_carry(a[0], b[0], subtract, carry_in, middle.into())?;
        let high = s.add_with_carry(a[1], b[1], subtract, middle.into(), carry_out)?;
        s.set_pair(0, low.into(), high.into())?;
    } else {
        let (a, b) = (s.word(0), s.word(1));
        let result = s.result(0);
        s.add_with_carry_to(result, a, b, subtract, carry_in, carry_out)?;
    }
    Ok(())
}

impl Selector<'_> {
    /// The opposite of a predicate.
    pub(super) fn complement(&mut self, source: Source) -> Source {
        let mods = source.operand.mods();
        let flipped = match mods.contains(orias_ori::SourceMods::NOT) {
            true => mods.without(orias_ori::SourceMods::NOT),
            false => mods.with(orias_ori::SourceMods::NOT),
        };
        source
            .operand
            .with_mods(flipped)
            .unwrap_or(source.operand)
            .into()
    }

    /// Defines `result` as `source`.
    pub(super) fn copy_predicate(&mut self, result: Operand, source: Source) -> Done {
        let (table, other) = (Operand::imm(0x80), Operand::imm(0x8));
        self.emit(
            Op::PLOP3,
            &[],
            sources![result, pt(), source, pt(), pt(), table, other],
        )?;
        Ok(())
    }

    /// The word `a ± b` with carry in and out.
    pub(super) fn add_with_carry(
        &mut self,
        a: Source,
        b: Source,
        subtract: bool,
        carry_in: Source,
        carry_out: Operand,
    ) -> Result<Value, PhaseError> {
        let value = self.temporary(WORD);
        self.add_with_carry_to(value.into(), a, b, subtract, carry_in, carry_out)?;
        Ok(value)
    }

    pub(super) fn add_with_carry_to(
        &mut self,
        result: Operand,
        a: Source,
        b: Source,
        subtract: bool,
        carry_in: Source,
        carry_out: Operand,
    ) -> Done {
        let b = match subtract {
            true => complemented(b),
            false => b,
        };
        let [a, b] = flexible_last([a, b]);
        let operands = sources![result, carry_out, pt(), a, b, rz(), carry_in, not_pt()];
        self.emit(Op::IADD3_X, &[], operands)?;
        Ok(())
    }
}

/// All bits turned round, where the instruction reads it.
pub(super) fn complemented(source: Source) -> Source {
    match source.constant() {
        Some(bits) => Operand::imm(u64::from(!(bits as u32))).into(),
        None => {
            let not = orias_ori::SourceMods::NOT;
            let turn = |operand: Operand| operand.with_mods(not);
            Source {
                operand: turn(source.operand).unwrap_or(source.operand),
                register: source.register.and_then(turn),
            }
        }
    }
}
