//! Cache policies.
//!
//! The manual does not say what a policy looks like, as it is a hint. Programs can store one all the same; it is the word that
//! ptxas's code computes.

use super::{Decoder, Statics};
use crate::error::LoadError;
use crate::step::{Action, Source};
use orias_eval::approximate::Approximate;
use orias_eval::float::Format;
use orias_ptx::grammar::Modifier;
use orias_ptx::grammar::Op;
use orias_ptx::grammar::SlotName;
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::grammar::slot_names as slot;

/// The kinds, above the priorities and four bits more at the top of a policy.
const FRACTION: u64 = 0x100;
const RANGE: u64 = 0x180;
const TOP: u32 = 52;

impl<'m> Decoder<'m, '_> {
    pub(super) fn policy(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let results = [self.result(it, operand::POLICY)?, None];
        if it.op == Op::CreatepolicyCvt {
            let moves = results[0].map(|to| Ok((self.value(it, operand::PROPERTY)?, to)));
            let moves = moves.into_iter().collect::<Result<_, LoadError>>()?;
            return Ok(Action::Move { moves });
        }
        let priorities =
            self.priority(it, slot::PRIMARY)? << 5 | self.priority(it, slot::SECONDARY)? << 4;
        if it.op == Op::CreatepolicyFractional {
            let whole = Source::Constant(1f32.to_bits().into());
            let part = self.optional_value(it, operand::FRACTION)?.unwrap_or(whole);
            return Ok(Action::Compute {
                function: Box::new(move |[part, ..]| [fraction(priorities, *part), 0]),
                sources: vec![part],
                results,
                carry: false,
            });
        }
        let start = self.address(it, operand::A)?;
        Ok(Action::Compute {
            function: Box::new(move |[base, primary, total, ..]| {
                let start = base.wrapping_add_signed(start.offset);
                [range(priorities, start, *primary, *total), 0]
            }),
            sources: vec![
                start.base,
                self.value(it, operand::PRIMARYSIZE)?,
                self.value(it, operand::TOTALSIZE)?,
            ],
            results,
            carry: false,
        })
    }

    /// The number of the priority in a place of the form; nothing changes where none is named.
    fn priority(&self, it: &Statics<'m>, slot: SlotName) -> Result<u64, LoadError> {
        match it.form.get(slot) {
            None | Some(Modifier::L2EvictUnchanged) => Ok(0),
            Some(Modifier::L2EvictFirst) => Ok(1),
            Some(Modifier::L2EvictLast) => Ok(2),
            Some(Modifier::L2EvictNormal) => Ok(3),
            Some(_) => Err(self.unsupported(it.instruction)),
        }
    }
}

/// Sixteenths of the accesses, less one.
fn fraction(priorities: u64, part: u64) -> u64 {
    let sixteenths = (f32::from_bits(part as u32) * 15.99) as u64;
    (FRACTION | priorities | sixteenths & 0xf) << TOP
}

/// Size of a piece, number of the first one, count of those with the first priority. Without a total size nothing has one.
fn range(priorities: u64, start: u64, primary: u64, total: u64) -> u64 {
    if total == 0 {
        return RANGE << TOP;
    }
    let size = u64::from((total as u32 as f32).to_bits());
    let log = Approximate::Log2.apply(Format::F32, size, true);
    let log = f32::from_bits(log.unwrap_or_default() as u32).ceil() as i64;
    let piece = (log - 7).max(12);
    let end = start.wrapping_add((primary + (1 << piece) - 1) & 0xffff_ffff);
    let count = ((end >> piece).wrapping_sub(start >> piece)).min(0x7f);
    let first = start >> piece & 0x7f;
    (RANGE | priorities | (piece as u64 - 12) & 0xf) << TOP | first << 44 | count << 37
}
