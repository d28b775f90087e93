//! ForwardLoads (10098): redundant-load elimination and store-to-load forwarding, in blocks.
//!
//! A weak load of what a load or a store of the same block has read or written goes, if nothing in between may have changed it. Unrolling repeats loads, and
//! stores to other memory lie between them, so what may change what is told apart:
//!
//! | two accesses | may overlap |
//! | --- | --- |
//! | of different spaces, neither generic | no |
//! | from the same base, of bytes that differ | no |
//! | a load through the cache of what nobody writes (`.nc`) and anything | no |
//! | all others | yes |
//!
//! Whatever orders memory, lets threads meet, calls or updates ends all knowledge. A value that would have to be kept for long is loaded again.
//!
//! Each block is read once, with a bounded list of what is known: linear.

use super::common_subexpressions::changes_memory;
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use orias_ori::operation::{Cache, Order, Scalar, Space, Vector};
use orias_ori::{
    AbstractOp, Block, Function, Inst, Opcode, Operand, Operation, Reg, Symbol, Type, Value,
};

/// What is known at once at most.
const MOST_KNOWN: usize = 64;

/// How many instructions a value is kept for without being read.
const KEPT: usize = 256;

/// Bytes of memory.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Place {
    space: Space,
    base: Option<Value>,
    symbol: Option<Symbol>,
    offset: i64,
    bytes: i64,
}

impl Place {
    /// Whether a write to `other` may change it.
    fn may_overlap(&self, other: &Place) -> bool {
        let generic = [self.space, other.space].contains(&Space::Generic);
        if self.space != other.space {
            return generic;
        }
        // Variables of open size all start at the same place: names alone tell nothing apart.
        let apart =
            self.offset + self.bytes <= other.offset || other.offset + other.bytes <= self.offset;
        let same = self.base == other.base && self.symbol == other.symbol;
        !(same && apart)
    }
}

/// What memory is known to hold.
struct Known {
    place: Place,
    /// The load that would read it, where it was loaded.
    by: Option<Operation>,
    value: Value,
    ty: Type,
    /// Nobody writes there.
    constant: bool,
    /// Where it was read or written last.
    at: usize,
}

/// Runs the phase.
pub fn forward_loads(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let blocks: Vec<Block> = func.blocks().collect();
    let mut values: SecondaryMap<Value, PackedOption<Value>> = SecondaryMap::new();
    let mut gone: Vec<Inst> = Vec::new();
    for block in blocks {
        let mut known: Vec<Known> = Vec::new();
        for (at, inst) in func.block_insts(block).enumerate() {
            if let Some((result, value)) = visit(func, inst, at, &mut known, &values) {
                values[result] = value.into();
                gone.push(inst);
            }
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    for inst in gone {
        func.remove_inst(inst);
    }
    func.map_all_uses(
        |reg| match reg.value().and_then(|value| values[value].expand()) {
            Some(value) => Reg::from(value),
            None => reg,
        },
    );
    Ok(())
}

/// Takes note of what `inst` does to memory; if it loads what is known, its result and the value that is the same.
fn visit(
    func: &Function,
    inst: Inst,
    at: usize,
    known: &mut Vec<Known>,
    values: &SecondaryMap<Value, PackedOption<Value>>,
) -> Option<(Value, Value)> {
    let Opcode::Abstract(op) = func.opcode(inst) else {
        known.clear();
        return None;
    };
    let weak = (func.modifier::<Order>(inst)).is_none_or(|order| order == Order::Weak);
    let always = func.inst(inst).guard().is_always();
    match op {
        AbstractOp::Ld if weak => {
            let place = place(func, inst, values).filter(|_| always)?;
            let operation = func.inst(inst).operation();
            let result = func.result(inst, 0)?;
            let ty = func.value_type(result);
            let found = known.iter_mut().find(|it| {
                it.place == place && it.ty == ty && at - it.at <= KEPT && fits(func, inst, it)
            });
            if let Some(found) = found {
                found.at = at;
                return Some((result, found.value));
            }
            let constant = func.modifier::<Cache>(inst) == Some(Cache::Nc);
            remember(
                known,
                Known {
                    place,
                    by: Some(operation),
                    value: result,
                    ty,
                    constant,
                    at,
                },
            );
            None
        }
        AbstractOp::St if weak => {
            let Some(place) = place(func, inst, values) else {
                known.retain(|it| it.constant);
                return None;
            };
            known.retain(|it| it.constant || !it.place.may_overlap(&place));
            let stored = func.operands(inst).get(1).copied()?;
            let value = stored
                .as_value()
                .filter(|_| always && stored.mods().is_empty())?;
            let value = values[value].expand().unwrap_or(value);
            let whole = matches!(place.bytes, 4 | 8 | 16);
            if whole {
                let ty = func.value_type(value);
                remember(
                    known,
                    Known {
                        place,
                        by: None,
                        value,
                        ty,
                        constant: false,
                        at,
                    },
                );
            }
            None
        }
        _ => {
            if changes_memory(func, inst) {
                known.retain(|it| it.constant);
            }
            None
        }
    }
}

/// Whether load `inst` reads what is known as it is: the same load did, or it was stored and every bit of its registers is memory's.
fn fits(func: &Function, inst: Inst, known: &Known) -> bool {
    match known.by {
        Some(by) => by == func.inst(inst).operation(),
        None => func
            .modifier::<Scalar>(inst)
            .is_some_and(|scalar| scalar.bits() >= 32),
    }
}

fn remember(known: &mut Vec<Known>, new: Known) {
    if known.len() == MOST_KNOWN {
        known.remove(0);
    }
    known.push(new);
}

/// The bytes that a load or a store names, bases that were loaded before by their first names.
fn place(
    func: &Function,
    inst: Inst,
    values: &SecondaryMap<Value, PackedOption<Value>>,
) -> Option<Place> {
    let results = func.result_count(inst);
    let Some(&Operand::Address(address)) = func.operands(inst).get(results) else {
        return None;
    };
    let space = func.modifier::<Space>(inst)?;
    if !matches!(
        space,
        Space::Shared | Space::Global | Space::Local | Space::Generic
    ) {
        return None;
    }
    let elements: i64 = match func.modifier::<Vector>(inst)? {
        Vector::V1 => 1,
        Vector::V2 => 2,
        Vector::V4 => 4,
        Vector::V8 => 8,
    };
    let address = func.address(address);
    let base = match address.base.get() {
        Some(reg) => {
            let value = reg.value()?;
            Some(values[value].expand().unwrap_or(value))
        }
        None => None,
    };
    Some(Place {
        space,
        base,
        symbol: address.symbol.expand(),
        offset: i64::from(address.offset),
        bytes: elements * i64::from(func.modifier::<Scalar>(inst)?.bits()) / 8,
    })
}
