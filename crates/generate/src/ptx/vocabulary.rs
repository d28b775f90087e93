//! The classes of registers that programs use, and values worth trying.

use super::Writer;

macro_rules! classes {
    ($($variant:ident $prefix:literal $bits:literal $declared:literal $moved:literal $registers:literal $doc:literal;)*) => {
        /// What a register holds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Class { $(#[doc = $doc] $variant,)* }

        impl Class {
            pub const ALL: [Class; Class::COUNT] = [$(Class::$variant,)*];
            pub const COUNT: usize = [$($bits,)*].len();

            /// How the registers' names begin.
            pub const fn prefix(self) -> &'static str {
                match self { $(Class::$variant => $prefix,)* }
            }

            pub const fn bits(self) -> u32 {
                match self { $(Class::$variant => $bits,)* }
            }

            /// The type they are declared with.
            pub const fn declared(self) -> &'static str {
                match self { $(Class::$variant => $declared,)* }
            }

            /// The type `mov` moves them by.
            pub const fn moved(self) -> &'static str {
                match self { $(Class::$variant => $moved,)* }
            }

            /// How many there are.
            pub const fn registers(self) -> usize {
                match self { $(Class::$variant => $registers,)* }
            }
        }
    };
}

classes! {
    B16 "%h" 16 ".b16" "b16" 4 "Integers of 16 bits.";
    B32 "%r" 32 ".b32" "b32" 8 "Integers of 32 bits.";
    B64 "%q" 64 ".b64" "b64" 5 "Integers of 64 bits.";
    F32 "%f" 32 ".f32" "f32" 6 "Single precision.";
    F64 "%d" 64 ".f64" "f64" 4 "Double precision.";
    F16 "%s" 16 ".b16" "b16" 3 "Half precision.";
    BF16 "%z" 16 ".b16" "b16" 2 "Brain floating point.";
    F16x2 "%v" 32 ".b32" "b32" 3 "Two of half precision.";
    BF16x2 "%y" 32 ".b32" "b32" 2 "Two of brain floating point.";
    Pred "%p" 1 ".pred" "pred" 5 "Predicates.";
}

impl Class {
    /// Everything that is no predicate.
    pub const VALUES: [Class; 9] = [
        Class::B16,
        Class::B32,
        Class::B64,
        Class::F32,
        Class::F64,
        Class::F16,
        Class::BF16,
        Class::F16x2,
        Class::BF16x2,
    ];

    /// What functions take and return.
    pub const PASSED: [Class; 4] = [Class::B32, Class::B64, Class::F32, Class::F64];
}

/// Integers at the edges of types.
pub(super) const INTEGERS: &[u64] = &[
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    100,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// Singles with something special about them. Fewer than `xtask/src/gpu/forms/inputs.rs` has for single operations: no NaNs with a payload, which whoever adds first
/// may keep. The order of both lists is part of what recorded results rest on.
pub(super) const SINGLES: &[u32] = &[
    0x0000_0000,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0x4000_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x0000_0001,
    0x807f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0x4b00_0000,
    0x4f00_0000,
    0xcf00_0000,
    0x5f00_0000,
    0x3fc0_0000,
    0xbfc0_0000,
    0x437f_0000,
    0x3880_0000,
    0x477f_f000,
];

/// Doubles with something special about them.
pub(super) const DOUBLES: &[u64] = &[
    0,
    0x8000_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x0000_0000_0000_0001,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x41e0_0000_0000_0000,
    0x43e0_0000_0000_0000,
    0x3ff8_0000_0000_0000,
    0x4004_0000_0000_0000,
    0x47ef_ffff_f000_0000,
    0x3690_0000_0000_0000,
];

impl Writer {
    /// A constant of a class; none where instructions take no constants of it.
    pub(super) fn constant(&mut self, class: Class) -> Option<String> {
        let integer = *self.rng.pick(INTEGERS);
        Some(match class {
            Class::B16 => format!("{}", integer as u16),
            Class::B32 => format!("{}", integer as u32),
            Class::B64 => format!("{:#x}", integer),
            Class::F32 => format!("0f{:08X}", self.rng.pick(SINGLES)),
            Class::F64 => format!("0d{:016X}", self.rng.pick(DOUBLES)),
            Class::F16 | Class::BF16 | Class::F16x2 | Class::BF16x2 | Class::Pred => return None,
        })
    }
}

/// A constant to start the `number`-th register of a class with.
pub(super) fn first_constant(class: Class, number: usize) -> String {
    let bits = 0x3c01_3f81_4203_4585u64.rotate_left(16 * number as u32);
    match class {
        Class::Pred => (number % 2).to_string(),
        Class::F32 => format!("0f{:08X}", bits as u32 & 0x47ff_ffff),
        Class::F64 => format!("0d{:016X}", bits & 0x47ff_ffff_ffff_ffff),
        _ if class.bits() == 16 => format!("{}", bits as u16),
        _ if class.bits() == 32 => format!("{}", bits as u32),
        _ => format!("{bits:#x}"),
    }
}
