//! Which register, constant or variable may stand for which type.

use crate::ast::{OperandKind, Space};
use crate::opcode::ValuePattern;
use crate::special::SpecialRegister;
use crate::types::{Type, TypeClass};

/// Whether a register declared as `register` may stand where `wanted` is.
pub fn register_agrees(register: Type, wanted: Type, relaxed: bool, named: bool) -> bool {
    let size = if relaxed {
        register.bits() >= wanted.bits()
    } else {
        register.bits() == wanted.bits()
    };
    let class = register.class();
    match wanted.class() {
        TypeClass::Pred => register == Type::Pred,
        TypeClass::Bits => size && class != TypeClass::Pred,
        TypeClass::Unsigned | TypeClass::Signed => {
            let integer = matches!(
                class,
                TypeClass::Unsigned | TypeClass::Signed | TypeClass::Bits
            );
            size && (integer || (register == Type::F16x2 && named))
        }
        TypeClass::Float => register == wanted || (size && class == TypeClass::Bits),
        TypeClass::Packed => {
            let packed_pair = matches!(wanted, Type::U16x2 | Type::S16x2);
            register.bits() == wanted.bits()
                && (class == TypeClass::Bits || (packed_pair && register == Type::F16x2))
        }
        TypeClass::Opaque => register.bits() == 64 && class != TypeClass::Float,
    }
}

/// Whether a register may hold an address.
pub fn addresses(register: Type) -> bool {
    let integer = matches!(
        register.class(),
        TypeClass::Unsigned | TypeClass::Signed | TypeClass::Bits
    );
    integer && register.bits() <= 64
}

/// Whether a constant may stand where `wanted` is.
pub(super) fn constant_agrees(kind: &OperandKind, wanted: Type) -> bool {
    let class = wanted.class();
    match kind {
        OperandKind::Signed(_) | OperandKind::Unsigned(_) => matches!(
            class,
            TypeClass::Unsigned | TypeClass::Signed | TypeClass::Bits | TypeClass::Pred
        ),
        OperandKind::Single(_) => matches!(wanted, Type::F32 | Type::F64 | Type::B32),
        OperandKind::Double(_) => matches!(wanted, Type::F32 | Type::F64 | Type::B64),
        _ => false,
    }
}

/// Whether a special register may stand where `wanted` is: never for floating point, even where it has no type of its own. Those that had 16 bits in old versions may still be read so.
pub(super) fn special_agrees(row: &SpecialRegister, wanted: &ValuePattern) -> bool {
    const ONCE_NARROW: &[&str] = &["%tid", "%ntid", "%ctaid", "%nctaid", "%gridid"];
    let bits = wanted.ty.bits();
    let integer = matches!(
        wanted.ty.class(),
        TypeClass::Unsigned | TypeClass::Signed | TypeClass::Bits
    );
    let narrow = ONCE_NARROW.contains(&row.name)
        && integer
        && (bits == 16 || (bits == 32 && row.ty.bits() == 64));
    let float = matches!(wanted.ty.class(), TypeClass::Float | TypeClass::Packed);
    narrow || (!float && register_agrees(row.ty, wanted.ty, wanted.form.relaxed, true))
}

/// Whether a variable's space is the one an address wants; a generic address may be in any of `generic`.
pub fn in_space(variable: Space, wanted: Option<&str>, generic: &[Space]) -> bool {
    match wanted {
        None => generic.contains(&variable),
        Some("global") => variable == Space::Global,
        Some("shared" | "shared::cta" | "shared::cluster") => variable == Space::Shared,
        Some("local") => variable == Space::Local,
        Some("const") => variable == Space::Const,
        Some("param" | "param::entry" | "param::func") => variable == Space::Param,
        Some(_) => false,
    }
}
