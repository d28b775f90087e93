//! The types that PTX instructions, registers and variables name.
//!
//! One table gives each type its spelling, its size and the class that decides which registers may hold it. The build
//! script reads the same file, so the instruction tables cannot name a type that does not exist here.

/// What a type's bits mean, as far as operand checks care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeClass {
    /// Unsigned integers.
    Unsigned,
    /// Signed integers.
    Signed,
    /// IEEE-like floating point of at least sixteen bits an element, which registers can be declared with.
    Float,
    /// Formats that no register is declared with and that live in untyped ones: bf16, tf32, the eight-bit formats and
    /// narrower, packed integers.
    Packed,
    /// Untyped bits.
    Bits,
    /// Predicates.
    Pred,
    /// Texture, sampler and surface handles.
    Opaque,
}

macro_rules! types {
    ($($variant:ident $text:literal $bits:literal $class:ident;)*) => {
        /// A PTX type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the type of that spelling")]
        pub enum Type { $($variant,)* }

        impl Type {
            /// Every type, in the order of the table.
            pub const ALL: &'static [Type] = &[$(Type::$variant,)*];

            /// The spelling, without the dot.
            pub const fn name(self) -> &'static str {
                match self { $(Type::$variant => $text,)* }
            }

            /// The size of one value in bits.
            pub const fn bits(self) -> u32 {
                match self { $(Type::$variant => $bits,)* }
            }

            /// What the bits mean.
            pub const fn class(self) -> TypeClass {
                match self { $(Type::$variant => TypeClass::$class,)* }
            }

            /// The type of that spelling (no dot), if there is one.
            pub fn from_name(name: &str) -> Option<Type> {
                match name { $($text => Some(Type::$variant),)* _ => None }
            }

            /// The variant's identifier, for generated code.
            pub const fn ident(self) -> &'static str {
                match self { $(Type::$variant => stringify!($variant),)* }
            }
        }
    };
}

types! {
    U8 "u8" 8 Unsigned;
    U16 "u16" 16 Unsigned;
    U32 "u32" 32 Unsigned;
    U64 "u64" 64 Unsigned;
    S8 "s8" 8 Signed;
    S16 "s16" 16 Signed;
    S32 "s32" 32 Signed;
    S64 "s64" 64 Signed;
    B8 "b8" 8 Bits;
    B16 "b16" 16 Bits;
    B32 "b32" 32 Bits;
    B64 "b64" 64 Bits;
    B128 "b128" 128 Bits;
    F16 "f16" 16 Float;
    F16x2 "f16x2" 32 Float;
    F32 "f32" 32 Float;
    F32x2 "f32x2" 64 Packed;
    F64 "f64" 64 Float;
    Pred "pred" 1 Pred;
    Bf16 "bf16" 16 Packed;
    Bf16x2 "bf16x2" 32 Packed;
    Tf32 "tf32" 32 Packed;
    E4m3 "e4m3" 8 Packed;
    E5m2 "e5m2" 8 Packed;
    E4m3x2 "e4m3x2" 16 Packed;
    E5m2x2 "e5m2x2" 16 Packed;
    E4m3x4 "e4m3x4" 32 Packed;
    E5m2x4 "e5m2x4" 32 Packed;
    E3m2 "e3m2" 6 Packed;
    E2m3 "e2m3" 6 Packed;
    E2m1 "e2m1" 4 Packed;
    E3m2x2 "e3m2x2" 16 Packed;
    E2m3x2 "e2m3x2" 16 Packed;
    E2m1x2 "e2m1x2" 8 Packed;
    E3m2x4 "e3m2x4" 32 Packed;
    E2m3x4 "e2m3x4" 32 Packed;
    E2m1x4 "e2m1x4" 16 Packed;
    Ue8m0 "ue8m0" 8 Packed;
    Ue8m0x2 "ue8m0x2" 16 Packed;
    Ue4m3 "ue4m3" 8 Packed;
    U16x2 "u16x2" 32 Packed;
    S16x2 "s16x2" 32 Packed;
    U8x4 "u8x4" 32 Packed;
    S8x4 "s8x4" 32 Packed;
    U4 "u4" 4 Unsigned;
    S4 "s4" 4 Signed;
    U2 "u2" 2 Unsigned;
    S2 "s2" 2 Signed;
    B1 "b1" 1 Bits;
    B4 "b4" 4 Bits;
    B6 "b6" 6 Bits;
    Texref "texref" 64 Opaque;
    Samplerref "samplerref" 64 Opaque;
    Surfref "surfref" 64 Opaque;
}

impl Type {
    /// The untyped type of the same size; `None` where PTX has none.
    pub const fn as_bits(self) -> Option<Type> {
        match self.bits() {
            8 => Some(Type::B8),
            16 => Some(Type::B16),
            32 => Some(Type::B32),
            64 => Some(Type::B64),
            128 => Some(Type::B128),
            _ => None,
        }
    }

    /// The integer type of twice the width and the same signedness, as `mul.wide` and `mad.wide` yield it.
    pub const fn widened(self) -> Option<Type> {
        match self {
            Type::U8 => Some(Type::U16),
            Type::U16 => Some(Type::U32),
            Type::U32 => Some(Type::U64),
            Type::S8 => Some(Type::S16),
            Type::S16 => Some(Type::S32),
            Type::S32 => Some(Type::S64),
            Type::B8 => Some(Type::B16),
            Type::B16 => Some(Type::B32),
            Type::B32 => Some(Type::B64),
            Type::B64 => Some(Type::B128),
            _ => None,
        }
    }

    /// Whether values are integers.
    pub const fn is_integer(self) -> bool {
        matches!(self.class(), TypeClass::Unsigned | TypeClass::Signed)
    }

    /// Whether the type is signed.
    pub const fn is_signed(self) -> bool {
        matches!(self.class(), TypeClass::Signed)
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, ".{}", self.name())
    }
}
