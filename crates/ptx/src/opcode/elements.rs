//! Which registers may be elements of an instruction's vectors.

use crate::grammar::{Modifier, Op};
use crate::types::{Type, TypeClass};

/// Which registers may be elements of an instruction's vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// Whether this is a matrix instruction, whose vectors of untyped elements need a register among them.
    pub matrix: bool,
    /// The rule for untyped elements: the factors.
    pub factors: ElementRule,
    /// The rule for elements of floating point: the sums.
    pub sums: ElementRule,
    /// Whether ptxas reads no special register for an element: it expands the format into calls.
    pub expanded: bool,
    /// Whether that holds for the sums alone.
    pub expanded_sums: bool,
}

impl Elements {
    /// Whether a special register may be an element of that type.
    pub fn takes_special(&self, wanted: Type) -> bool {
        let sum = wanted.class() == TypeClass::Float;
        !(self.expanded || (sum && self.expanded_sums))
    }
}

/// Which registers may be elements of a vector, unless one is untyped: then all go that are equally wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ElementRule {
    /// Those of the type, and integers for floating point.
    #[default]
    Lenient,
    /// Those of the type only.
    Strict,
    /// Pairs of f16 only.
    Half,
    /// Integers only.
    Integer,
    /// All that are equally wide.
    Any,
}

/// The rules of matrix instructions, as ptxas has them: they differ by format, and for sparse matrices.
pub(super) fn elements_of(op: Op, modifiers: &[Modifier]) -> Elements {
    let family = op.name().split('.').next().unwrap_or_default();
    let has = |test: fn(Type) -> bool| modifiers.iter().any(|it| it.as_type().is_some_and(test));
    let half = has(|ty| matches!(ty, Type::F16 | Type::F16x2));
    let wide = has(|ty| matches!(ty, Type::Bf16 | Type::Tf32));
    let packed = has(|ty| ty.class() == TypeClass::Packed);
    let float = has(|ty| matches!(ty, Type::F16 | Type::F16x2 | Type::F32));
    let tiny = has(|ty| matches!(ty, Type::U4 | Type::S4 | Type::B1));
    let sparse = modifiers
        .iter()
        .any(|it| matches!(it, Modifier::Sp | Modifier::SpOrderedMetadata));
    use ElementRule::{Any, Half, Integer, Lenient, Strict};
    let (factors, sums) = match family {
        "mma" if sparse => match (half, wide, packed) {
            (true, ..) => (Half, Any),
            (_, true, _) => (Lenient, Any),
            (.., true) => (Lenient, Strict),
            _ => (Lenient, Lenient),
        },
        "mma" if modifiers.contains(&Modifier::M8n8k16) => (Integer, Lenient),
        "mma" => match (half, wide, packed) {
            (true, _, true) => (Any, Strict),
            (true, ..) => (Half, Strict),
            (_, true, _) => (Strict, Strict),
            (.., true) => (Lenient, Strict),
            _ => (Lenient, Lenient),
        },
        "wmma" | "wgmma" if half || packed || (family == "wmma" && float) => (Half, Strict),
        "wmma" if op == Op::WmmaMma => (Integer, Lenient),
        "tcgen05" if half => (Half, Strict),
        _ => (Lenient, Lenient),
    };
    Elements {
        matrix: matches!(family, "mma" | "wmma" | "wgmma" | "stmatrix"),
        factors,
        sums,
        expanded: tiny || (half && modifiers.contains(&Modifier::M8n8k4)) || op == Op::WmmaStoreD,
        expanded_sums: packed && !wide && family == "mma",
    }
}
