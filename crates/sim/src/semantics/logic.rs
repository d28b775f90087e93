//! Bits: logic, shifts, permutations, counts, predicate logic.

use super::{Table, bits, zip2, zip3};
use crate::operand::{Condition, Lack, Reader, Source};
use crate::program::Action;
use orias_eval::bits::{Permutation, logic3, logic3_bit, mask, permute};
use orias_eval::integer::{extract_bits, leading_bit};
use orias_sass::{Op, modifier_names as name, modifier_values as value};
use orias_sass::{SlotName, slot_names as slot};

pub(super) const TABLE: Table = &[
    (Op::LOP3, logic),
    (Op::ULOP3, logic),
    (Op::SHF, shift),
    (Op::USHF, shift),
    (Op::SGXT, sign_extend),
    (Op::USGXT, sign_extend),
    (Op::BMSK, bit_mask),
    (Op::UBMSK, bit_mask),
    (Op::PRMT, permutation),
    (Op::UPRMT, permutation),
    (Op::FLO, find_leading_one),
    (Op::UFLO, find_leading_one),
    (Op::POPC, population),
    (Op::UPOPC, population),
    (Op::BREV, reverse),
    (Op::UBREV, reverse),
    (Op::SEL, select),
    (Op::USEL, select),
    (Op::PLOP3, predicate_logic),
    (Op::UPLOP3, predicate_logic),
    (Op::PLOP3_UP, predicate_logic),
    (Op::PLOP3_SIGN1, predicate_logic),
    (Op::PLOP3_SIGN2, predicate_logic),
    (Op::PLOP3_SIGN3, predicate_logic),
    (Op::UPLOP3_SIGN1, predicate_logic),
    (Op::UPLOP3_SIGN2, predicate_logic),
    (Op::UPLOP3_SIGN3, predicate_logic),
    (Op::P2R, predicates_to_register),
    (Op::R2P, register_to_predicates),
];

fn logic(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, p, q) = (
        reader.target(slot::D)?,
        reader.target(slot::P)?,
        reader.condition(slot::Q)?,
    );
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let table = reader.immediate(slot::LUT)? as u8;
    let both = reader.is(name::PAND, value::PAND);
    let sets = !p.register.is_constant();
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.word(&a, 0), core.word(&b, 0), core.word(&c, 0));
        let value = match table {
            0xc0 => zip2(&x, &y, |x, y| x & y),
            0xfc => zip2(&x, &y, |x, y| x | y),
            0x3c => zip2(&x, &y, |x, y| x ^ y),
            _ => zip3(&x, &y, &z, |x, y, z| logic3(x, y, z, table)),
        };
        core.put(&d, 0, &value);
        if sets {
            let some = bits(|l| value[l] != 0);
            let other = core.condition(&q);
            core.put_condition(&p, if both { some & other } else { some | other });
        }
        Ok(())
    }))
}

/// The high or low word of a pair shifted as a whole; 32-bit types limit the amount to 32, 64-bit types to 64.
fn shift(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let left = reader.is(name::DIR, value::L);
    let wrap = reader.is(name::WRAP, value::W);
    let ty = reader.modifier(name::TYPE)?;
    let (signed, width) = (
        super::is_signed(ty),
        if matches!(ty, value::S64 | value::U64) {
            64
        } else {
            32
        },
    );
    let high = reader.is(name::PART, value::HI);
    Ok(Box::new(move |core| {
        let (x, n, y) = (core.word(&a, 0), core.word(&b, 0), core.word(&c, 0));
        let value = zip3(&x, &n, &y, |low, n, up| {
            let pair = u64::from(up) << 32 | u64::from(low);
            let n = if wrap { n & (width - 1) } else { n.min(width) };
            let shifted = if left {
                pair.checked_shl(n).unwrap_or(0)
            } else if signed {
                (pair.cast_signed() >> n.min(63)).cast_unsigned()
            } else {
                pair.checked_shr(n).unwrap_or(0)
            };
            if high {
                (shifted >> 32) as u32
            } else {
                shifted as u32
            }
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn sign_extend(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let (wrap, signed) = (
        reader.is(name::WRAP, value::W),
        reader.is(name::SIGN, value::S32),
    );
    Ok(Box::new(move |core| {
        let (x, n) = (core.word(&a, 0), core.word(&b, 0));
        let value = zip2(&x, &n, |x, n| {
            extract_bits(x, 0, if wrap { n & 31 } else { n.min(32) }, signed)
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn bit_mask(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let wrap = reader.is(name::WRAP, value::W);
    Ok(Box::new(move |core| {
        let (x, n) = (core.word(&a, 0), core.word(&b, 0));
        core.put(&d, 0, &zip2(&x, &n, |x, n| mask(x, n, wrap)));
        Ok(())
    }))
}

fn permutation(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let mode = match reader
        .instruction
        .modifier(name::MODE)
        .unwrap_or(value::IDX)
    {
        value::IDX => Permutation::Index,
        value::F4E => Permutation::Forward4,
        value::B4E => Permutation::Backward4,
        value::RC8 => Permutation::Replicate8,
        value::ECL => Permutation::EdgeClampLeft,
        value::ECR => Permutation::EdgeClampRight,
        value::RC16 => Permutation::Replicate16,
        other => return Err(format!("mode {other}")),
    };
    Ok(Box::new(move |core| {
        let (x, s, y) = (core.word(&a, 0), core.word(&b, 0), core.word(&c, 0));
        core.put(&d, 0, &zip3(&x, &s, &y, |x, s, y| permute(x, y, s, mode)));
        Ok(())
    }))
}

fn find_leading_one(reader: &Reader<'_>) -> Result<Action, Lack> {
    let [d, p] = reader.targets([slot::D, slot::P])?;
    let b = reader.source(slot::B)?;
    let (signed, shift) = (
        reader.is(name::SIGN, value::S32),
        reader.is(name::SHIFT, value::SH),
    );
    Ok(Box::new(move |core| {
        let x = core.integer(&b);
        let places = x.map(|x| leading_bit(x, signed));
        let value = places.map(|place| match place {
            Some(place) if shift => 31 - place,
            Some(place) => place,
            None => u32::MAX,
        });
        core.put(&d, 0, &value);
        core.put_condition(&p, bits(|l| places[l].is_some()));
        Ok(())
    }))
}

fn population(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    Ok(Box::new(move |core| {
        let x = core.integer(&b);
        core.put(&d, 0, &x.map(u32::count_ones));
        Ok(())
    }))
}

fn reverse(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    Ok(Box::new(move |core| {
        let x = core.word(&b, 0);
        core.put(&d, 0, &x.map(u32::reverse_bits));
        Ok(())
    }))
}

fn select(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let p = reader.condition(slot::P)?;
    Ok(Box::new(move |core| {
        let p = core.condition(&p);
        let x = core.chosen(p, |core| core.word(&a, 0));
        let y = core.chosen(!p, |core| core.word(&b, 0));
        let value: [u32; 32] = std::array::from_fn(|l| if p >> l & 1 == 1 { x[l] } else { y[l] });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// An input of predicate logic: a predicate, or the sign of a register.
#[derive(Clone, Copy)]
enum Input {
    Condition(Condition),
    Sign(Source),
}

impl Input {
    fn of(reader: &Reader<'_>, name: SlotName) -> Result<Self, Lack> {
        match reader.condition(name) {
            Ok(condition) => Ok(Input::Condition(condition)),
            Err(_) => reader.source(name).map(Input::Sign),
        }
    }

    fn read(&self, core: &mut crate::core::Core<'_>) -> u32 {
        match self {
            Input::Condition(condition) => core.condition(condition),
            Input::Sign(source) => {
                let value = core.word(source, 0);
                bits(|l| value[l] >> 31 == 1)
            }
        }
    }
}

fn predicate_logic(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (p, q) = (reader.target(slot::P)?, reader.target(slot::Q)?);
    let (a, b, c) = (
        Input::of(reader, slot::A)?,
        Input::of(reader, slot::B)?,
        Input::of(reader, slot::C)?,
    );
    let (first, second) = (
        reader.immediate(slot::LUT)? as u8,
        reader.immediate(slot::LUT2)? as u8,
    );
    Ok(Box::new(move |core| {
        let (x, y, z) = (a.read(core), b.read(core), c.read(core));
        let apply = |table: u8| {
            bits(|l| logic3_bit(x >> l & 1 == 1, y >> l & 1 == 1, z >> l & 1 == 1, table))
        };
        let (first, second) = (apply(first), apply(second));
        core.put_condition(&p, first);
        core.put_condition(&q, second);
        Ok(())
    }))
}

fn byte_shift(reader: &Reader<'_>) -> Result<u32, Lack> {
    Ok(match reader.modifier(name::BYTE)? {
        value::B0 => 0,
        value::B1 => 8,
        value::B2 => 16,
        value::B3 => 24,
        other => return Err(format!("byte {other}")),
    })
}

/// The predicates that a mask names in any lane that runs.
fn named(core: &crate::core::Core<'_>, names: &[u32; 32]) -> u32 {
    core.lanes().fold(0, |all, lane| all | names[lane]) & 0x7f
}

/// The predicates that `b` names, as bits of a byte; the rest comes from `a`.
fn predicates_to_register(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let shift = byte_shift(reader)?;
    Ok(Box::new(move |core| {
        let (x, names) = (core.word(&a, 0), core.word(&b, 0));
        let mut predicates = [0u32; 7];
        for i in crate::core::LaneIterator(named(core, &names)) {
            predicates[i] = core.p(i as u8);
        }
        let value: [u32; 32] = std::array::from_fn(|l| {
            let all = (0..7).fold(0, |all, i| all | (predicates[i] >> l & 1) << i);
            let names = names[l] & 0xff;
            x[l] & !(names << shift) | (all & names) << shift
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn register_to_predicates(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (a, b) = (reader.source(slot::A)?, reader.source(slot::B)?);
    let shift = byte_shift(reader)?;
    Ok(Box::new(move |core| {
        let (x, names) = (core.word(&a, 0), core.word(&b, 0));
        let lanes = core.active;
        for i in crate::core::LaneIterator(named(core, &names)) {
            // Lanes whose mask does not name the predicate keep it.
            core.active = lanes & bits(|l| names[l] >> i & 1 == 1);
            core.put_p(i as u8, bits(|l| x[l] >> (shift + i as u32) & 1 == 1));
        }
        core.active = lanes;
        Ok(())
    }))
}
