//! Atomic operations and reductions, where the chip has them. The others become loops before selection (`expand`).

use super::emission::Mod;
use super::selector::{Selector, pt, rz};
use super::source::Source;
use super::sources;
use crate::pipeline::PhaseError;
use orias_ori::operation::{Order, Reduce, Scalar, Scope, Space, Vector};
use orias_ori::{AbstractOp, Operand};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// The name of an operation on integers.
pub(super) fn function_name(s: &Selector<'_>, reduce: Reduce) -> Result<ValueName, PhaseError> {
    Ok(match reduce {
        Reduce::Add => value::ADD,
        Reduce::Min => value::MIN,
        Reduce::Max => value::MAX,
        Reduce::And => value::AND,
        Reduce::Or => value::OR,
        Reduce::Xor => value::XOR,
        Reduce::Inc => value::INC,
        Reduce::Dec => value::DEC,
        Reduce::Exch => value::EXCH,
        // Operations of their own.
        Reduce::Cas | Reduce::Cast => return Err(s.unsupported()),
    })
}

/// How the machine names what an atomic operation works on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An integer or bits of this size.
    Integer(ValueName),
    /// Floats of this type.
    Float(ValueName),
}

/// What the operation works on, in global and generic memory.
fn kind(s: &Selector<'_>) -> Result<Kind, PhaseError> {
    let scalar: Scalar = s.modifier()?;
    let vector: Vector = s.modifier()?;
    let reduce: Reduce = s.modifier()?;
    // An addition of singles in memory flushes subnormals, as PTX says of global memory.
    Ok(match (scalar, vector) {
        (Scalar::B32 | Scalar::U32, Vector::V1) => Kind::Integer(value::_32),
        (Scalar::S32, Vector::V1) => Kind::Integer(match reduce {
            Reduce::Add | Reduce::Min | Reduce::Max => value::S32,
            _ => value::_32,
        }),
        (Scalar::B64 | Scalar::U64, Vector::V1) => Kind::Integer(value::_64),
        (Scalar::S64, Vector::V1) => Kind::Integer(match reduce {
            Reduce::Min | Reduce::Max => value::S64,
            _ => value::_64,
        }),
        (Scalar::B128, Vector::V1) => Kind::Integer(value::_128),
        (Scalar::F32, Vector::V1) => Kind::Float(value::F32_FTZ),
        (Scalar::F32, Vector::V2) => Kind::Float(value::F32X2_FTZ),
        (Scalar::F32, Vector::V4) => Kind::Float(value::F32X4_FTZ),
        (Scalar::F64, Vector::V1) => Kind::Float(value::F64),
        (Scalar::F16x2, Vector::V1) | (Scalar::F16, Vector::V2) => Kind::Float(value::F16X2),
        (Scalar::F16x2, Vector::V2) | (Scalar::F16, Vector::V4) => Kind::Float(value::F16X4),
        (Scalar::F16x2, Vector::V4) | (Scalar::F16, Vector::V8) => Kind::Float(value::F16X8),
        (Scalar::Bf16x2, Vector::V1) | (Scalar::Bf16, Vector::V2) => Kind::Float(value::BF16X2),
        (Scalar::Bf16x2, Vector::V2) | (Scalar::Bf16, Vector::V4) => Kind::Float(value::BF16X4),
        (Scalar::Bf16x2, Vector::V4) | (Scalar::Bf16, Vector::V8) => Kind::Float(value::BF16X8),
        _ => return Err(s.unsupported()),
    })
}

impl Selector<'_> {
    /// A source of an atomic operation, as many registers as its type has.
    fn combined(&mut self, index: usize) -> Source {
        let operand = self.operand(index);
        let registers = match operand.as_value() {
            Some(value) => self.func.value_type(value).len(),
            None => self
                .func
                .modifier::<Scalar>(self.at)
                .map_or(1, Scalar::registers),
        };
        match registers {
            1 => self.word_of(operand),
            2 => self.pair_of(operand),
            _ => operand.into(),
        }
    }
}

/// The order of an atomic operation: without one it is relaxed, and then of the whole GPU.
fn order_name(s: &Selector<'_>) -> ValueName {
    match s.func.modifier::<Scope>(s.at) {
        Some(Scope::None) | None => match s.func.modifier::<Order>(s.at) {
            Some(Order::Volatile) => value::STRONG_SYS,
            _ => value::STRONG_GPU,
        },
        _ => s.strong_scope(),
    }
}

pub(super) fn atom(s: &mut Selector<'_>) -> Done {
    let space: Space = s.modifier()?;
    let reduce: Reduce = s.modifier()?;
    if matches!(reduce, Reduce::Cas | Reduce::Cast) && s.operand(2) == Operand::None {
        // Nothing would be stored where the comparison holds.
        return Err(s.unsupported());
    }
    s.fence_before()?;
    match space {
        Space::Shared => shared(s, reduce, false)?,
        Space::Global | Space::Generic if is_reduction(s, reduce) => {
            far_reduction(s, space, reduce, 3)?;
        }
        Space::Global | Space::Generic => far(s, space, reduce)?,
        _ => return Err(s.unsupported()),
    }
    s.fence_after()
}

/// Whether an update is a reduction, because nobody reads what was there before. Who acquires waits for the answer.
fn is_reduction(s: &Selector<'_>, reduce: Reduce) -> bool {
    let order = s.func.modifier::<Order>(s.at);
    s.word_result(0) == rz()
        && !matches!(reduce, Reduce::Exch | Reduce::Cas | Reduce::Cast)
        && matches!(order, Some(Order::Relaxed | Order::Release))
}

fn far(s: &mut Selector<'_>, space: Space, reduce: Reduce) -> Done {
    let global = space == Space::Global;
    if reduce == Reduce::Cast && global {
        return Err(s.unsupported());
    }
    let kind = kind(s)?;
    let order = order_name(s);
    let place = s.place(0)?;
    let result = s.word_result(0);
    let policy = s.operand(3);
    if reduce == Reduce::Cast {
        let Kind::Integer(size) = kind else {
            return Err(s.unsupported());
        };
        let address = s.far_address(place, Operand::None, false)?;
        let (compared, stored) = (s.combined(1), s.combined(2));
        let mods = [
            (name::E, value::E),
            (name::SPIN, value::SPIN),
            (name::SIZE, size),
            (name::ORDER, value::UNSAID_WEAK),
        ];
        let operands = sources![pt(), result, address, compared, stored];
        s.emit_guarded(Op::ATOM_CAST, &mods, operands)?;
        return Ok(());
    }
    if reduce == Reduce::Cas {
        let Kind::Integer(size) = kind else {
            return Err(s.unsupported());
        };
        let size = if size == value::S32 { value::_32 } else { size };
        let address = s.far_address(place, Operand::None, false)?;
        let (compared, stored) = (s.combined(1), s.combined(2));
        let op = if global { Op::ATOMG_CAS } else { Op::ATOM_CAS };
        let mods = [
            (name::E, value::E),
            (name::SIZE, size),
            (name::ORDER, order),
        ];
        s.emit_guarded(op, &mods, sources![pt(), result, address, compared, stored])?;
        return Ok(());
    }
    let address = s.far_address(place, policy, true)?;
    let value = s.combined(1);
    let operands = sources![pt(), result, address, value];
    match kind {
        Kind::Integer(size) => {
            let op = if global { Op::ATOMG } else { Op::ATOM };
            let mods = [
                (name::E, value::E),
                (name::FN, function_name(s, reduce)?),
                (name::SIZE, size),
                (name::ORDER, order),
            ];
            s.emit_guarded(op, &mods, operands)?;
        }
        Kind::Float(ty) => {
            // In generic memory only addresses that are global are served; the loop for the others is made before.
            if !global || !matches!(reduce, Reduce::Add | Reduce::Min | Reduce::Max) {
                return Err(s.unsupported());
            }
            let mods = [
                (name::E, value::E),
                (name::FN, function_name(s, reduce)?),
                (name::TYPE, ty),
                (name::ORDER, order),
            ];
            s.emit_guarded(Op::ATOMG_F, &mods, operands)?;
        }
    }
    Ok(())
}

/// Whether an update adds one: `inc` does where its limit is the largest number.
fn counts_one(reduce: Reduce, value: Source) -> bool {
    match reduce {
        Reduce::Add => value.constant() == Some(1),
        Reduce::Inc => value.constant().map(|bits| bits as u32) == Some(u32::MAX),
        _ => false,
    }
}

/// In shared memory: words, exchanges of 64 bits, and comparisons; no vectors.
fn shared(s: &mut Selector<'_>, reduce: Reduce, reduction: bool) -> Done {
    let scalar: Scalar = s.modifier()?;
    if s.modifier::<Vector>()? != Vector::V1 {
        return Err(s.unsupported());
    }
    let place = s.place(0)?;
    let result = match reduction {
        true => rz(),
        false => s.word_result(0),
    };
    let size = match (scalar, reduce) {
        (Scalar::S32, Reduce::Min | Reduce::Max) => value::S32,
        (Scalar::U32 | Scalar::S32 | Scalar::B32, _) => value::_32,
        (Scalar::U64 | Scalar::S64 | Scalar::B64, Reduce::Exch | Reduce::Cas | Reduce::Cast) => {
            value::_64
        }
        (Scalar::B128, Reduce::Exch | Reduce::Cas) => value::_128,
        _ => return Err(s.unsupported()),
    };
    if matches!(reduce, Reduce::Cas | Reduce::Cast) {
        // The comparing form has no uniform base.
        let address = match place.symbol {
            Some(_) => {
                let base = s.shared_base_register(place)?;
                let place = super::address::Place {
                    base: Some(base),
                    symbol: None,
                    ..place
                };
                s.shared_address(place)?
            }
            None => s.shared_address(place)?,
        };
        let (compared, stored) = (s.combined(1), s.combined(2));
        let operands = sources![result, address, compared, stored];
        match reduce {
            Reduce::Cast => {
                let mods = [(name::SPIN, value::SPIN), (name::SIZE, size)];
                s.emit_guarded(Op::ATOMS_CAST, &mods, operands)?;
            }
            _ => {
                s.emit_guarded(Op::ATOMS_CAS, &[(name::SIZE, size)], operands)?;
            }
        }
        return Ok(());
    }
    let address = s.shared_address(place)?;
    let value = s.combined(1);
    // Lanes at one address are counted and added at once; what was found there is the same for all of them, so nobody may ask for it.
    if counts_one(reduce, value) && result == rz() && size == value::_32 {
        let mods = [(name::SIZE, value::_32)];
        let address = s.with_uniform_part(address);
        s.emit_guarded(Op::ATOMS_POPC_INC, &mods, sources![rz(), address])?;
        return Ok(());
    }
    let value = match result == rz() {
        true => s.for_all_lanes(reduce, size)?.unwrap_or(value),
        false => value,
    };
    let mods = [(name::FN, function_name(s, reduce)?), (name::SIZE, size)];
    s.emit_guarded(Op::ATOMS, &mods, sources![result, address, value])?;
    Ok(())
}

pub(super) fn red(s: &mut Selector<'_>) -> Done {
    let space: Space = s.modifier()?;
    let reduce: Reduce = s.modifier()?;
    s.fence_before()?;
    match space {
        Space::Shared => return shared(s, reduce, true),
        // An exchange that nobody reads is a store.
        _ if reduce == Reduce::Exch => return Err(s.unsupported()),
        Space::Global | Space::Generic => {}
        _ => return Err(s.unsupported()),
    }
    far_reduction(s, space, reduce, 2)
}

/// An update of global or generic memory that says nothing of what was there; `policy` is where the cache policy stands.
fn far_reduction(s: &mut Selector<'_>, space: Space, reduce: Reduce, policy: usize) -> Done {
    let kind = kind(s)?;
    let order = order_name(s);
    let place = s.place(0)?;
    let policy = s.operand(policy);
    let address = s.far_address(place, policy, true)?;
    let value = match kind {
        Kind::Integer(size) => s.for_all_lanes(reduce, size)?,
        Kind::Float(_) => None,
    };
    let value = value.unwrap_or_else(|| s.combined(1));
    let name = function_name(s, reduce)?;
    match (kind, space) {
        (Kind::Integer(value::_128), _) => return Err(s.unsupported()),
        (Kind::Integer(size), Space::Global) => {
            let mods = [
                (name::E, value::E),
                (name::FN, name),
                (name::SIZE, size),
                (name::ORDER, order),
            ];
            s.emit_guarded(Op::REDG, &mods, sources![address, value])?;
        }
        (Kind::Float(ty), Space::Global) => {
            if !matches!(reduce, Reduce::Add | Reduce::Min | Reduce::Max) {
                return Err(s.unsupported());
            }
            let mods = [
                (name::E, value::E),
                (name::FN, name),
                (name::TYPE, ty),
                (name::ORDER, order),
            ];
            s.emit_guarded(Op::REDG_F, &mods, sources![address, value])?;
        }
        (Kind::Integer(size), _) => {
            let mods = [
                (name::E, value::E),
                (name::FN, name),
                (name::SIZE, size),
                (name::ORDER, order),
            ];
            s.emit_guarded(Op::ATOM, &mods, sources![pt(), rz(), address, value])?;
        }
        (Kind::Float(_), _) => return Err(s.unsupported()),
    }
    Ok(())
}

impl Selector<'_> {
    /// Base, name and the start of shared memory as one word.
    pub(super) fn shared_base_register(
        &mut self,
        place: super::address::Place,
    ) -> Result<orias_ori::Value, PhaseError> {
        let start = self.shared(super::selector::Shared::BlockBase);
        let base = match self.base_word(place.base)? {
            Some(base) => Source::from(base),
            None => rz().into(),
        };
        let sum = self.sum(base, start.into())?;
        match place.symbol {
            Some(symbol) => {
                let name = Operand::Symbol {
                    symbol,
                    part: orias_ori::SymbolPart::Low,
                    addend: 0,
                };
                self.sum(sum.into(), name.into())
            }
            None => Ok(sum),
        }
    }
}

/// Reads all copies of an address and combines them; as strong as can be, whatever is asked for.
pub(super) fn load_copies(s: &mut Selector<'_>) -> Done {
    let reduce: Reduce = s.modifier()?;
    let wide = s.op() == Some(AbstractOp::MultimemLdWide);
    let function = match reduce {
        Reduce::Add if wide => value::F32ADD,
        other => function_name(s, other)?,
    };
    let place = s.place(0)?;
    let address = s.bare_address(place)?;
    let operands = sources![s.result(0), address];
    let mods = |name, value| {
        [
            (name::E, value::E),
            (name::FN, function),
            (name, value),
            STRONGEST,
        ]
    };
    match kind(s)? {
        Kind::Integer(size) => s.emit_guarded(Op::LDGMC, &mods(name::SIZE, size), operands)?,
        Kind::Float(ty) => {
            // Loads of all copies have no word about subnormals.
            let ty = match ty {
                value::F32_FTZ => value::F32,
                value::F32X2_FTZ => value::F32X2,
                value::F32X4_FTZ => value::F32X4,
                _ => ty,
            };
            s.emit_guarded(Op::LDGMC_F, &mods(name::TYPE, ty), operands)?
        }
    };
    s.fence_after()
}

/// The order that loads of all copies have.
const STRONGEST: Mod = (name::ORDER, value::STRONG_SYS);
