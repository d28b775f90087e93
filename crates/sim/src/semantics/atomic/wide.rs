//! Atomic operations on 128 bits: the exchange, and compare and swap.

use super::mask_of;
use crate::access::Space;
use crate::core::Core;
use crate::operand::{AddressSource, Lack, Reader, Source, Target};
use crate::program::Action;
use crate::semantics::memory::space_of;
use orias_sass::slot_names as slot;
use orias_sass::{modifier_names as name, modifier_values as value};

/// Whether an operation is on 128 bits.
pub(super) fn is_wide(reader: &Reader<'_>) -> bool {
    reader.is(name::SIZE, value::_128)
}

/// What the operations have in common: where they work and what they tell.
struct Place {
    address: AddressSource,
    space: Space,
    /// What was there before.
    d: Target,
    /// Whether anything was done; operations on shared memory do not tell.
    p: Option<Target>,
}

impl Place {
    fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        let row = reader.instruction.op().row();
        let told = row.slot_index(slot::P).is_some();
        Ok(Self {
            address: reader.address(slot::ADDR)?,
            space: space_of(reader.instruction.op()),
            d: reader.target(slot::D)?,
            p: told.then(|| reader.target(slot::P)).transpose()?,
        })
    }

    /// Puts `change` of the lane and the old value into memory, lane by lane.
    fn update(
        &self,
        core: &mut Core<'_>,
        change: impl Fn(usize, u128) -> u128,
    ) -> Result<(), crate::fault::Cause> {
        let addresses = core.addresses(&self.address);
        let mut out = [[0u32; 32]; 4];
        let mut done = 0u32;
        for lane in core.lanes() {
            let address = addresses[lane] & mask_of(self.space);
            done |= 1 << lane;
            let old = core.update_wide(self.space, lane, address, |old| change(lane, old))?;
            for (part, words) in out.iter_mut().enumerate() {
                words[lane] = (old >> (32 * part)) as u32;
            }
        }
        for (part, words) in (0..).zip(&out) {
            core.put(&self.d, part, words);
        }
        if let Some(p) = &self.p {
            core.put_condition(p, done);
        }
        Ok(())
    }
}

/// Four registers of each lane.
fn quad(core: &mut Core<'_>, source: &Source) -> [u128; 32] {
    let words: [_; 4] = std::array::from_fn(|part| core.word(source, part as u8));
    std::array::from_fn(|lane| {
        let upwards = (0..4).rev();
        upwards.fold(0, |value, part: usize| {
            value << 32 | u128::from(words[part][lane])
        })
    })
}

pub(super) fn exchange(reader: &Reader<'_>) -> Result<Action, Lack> {
    let function = reader.modifier(name::FN)?;
    if function != value::EXCH {
        return Err(format!("operation {function} on 128 bits"));
    }
    let (place, b) = (Place::of(reader)?, reader.source(slot::B)?);
    Ok(Box::new(move |core| {
        let new = quad(core, &b);
        place.update(core, |lane, _| new[lane])
    }))
}

pub(super) fn compare_and_swap(reader: &Reader<'_>) -> Result<Action, Lack> {
    let place = Place::of(reader)?;
    let (b, c) = (reader.source(slot::B)?, reader.source(slot::C)?);
    Ok(Box::new(move |core| {
        let (expected, new) = (quad(core, &b), quad(core, &c));
        place.update(core, |lane, old| match old == expected[lane] {
            true => new[lane],
            false => old,
        })
    }))
}
