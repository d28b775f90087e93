//! What declarations of textures, samplers and surfaces can say: the fields of their records, and the words for values.
//!
//! `.global .samplerref s = { filter_mode = linear, addr_mode_0 = wrap };` names fields. ptxas takes any constant for any field and any word
//! for it, too; only samplers keep what is said.

use crate::types::Type;

macro_rules! fields {
    ($($variant:ident $name:literal $owners:expr;)*) => {
        /// A field of a texture, sampler or surface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Field {
            /// The field of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Field> {
                match name {
                    $($name => Some(Field::$variant),)*
                    _ => None,
                }
            }

            /// How it is written.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Field::$variant => $name,)*
                }
            }

            /// Whether a variable of that type has it.
            #[must_use]
            pub fn belongs_to(self, ty: Type) -> bool {
                let owners: &[Type] = match self {
                    $(Field::$variant => $owners,)*
                };
                owners.contains(&ty)
            }
        }
    };
}

const TEXTURE: &[Type] = &[Type::Texref];
const SAMPLER: &[Type] = &[Type::Samplerref];
const SURFACE: &[Type] = &[Type::Surfref];
const SAMPLING: &[Type] = &[Type::Texref, Type::Samplerref];
const IMAGE: &[Type] = &[Type::Texref, Type::Surfref];

fields! {
    Width "width" IMAGE;
    Height "height" IMAGE;
    Depth "depth" IMAGE;
    ChannelDataType "channel_data_type" IMAGE;
    ChannelOrder "channel_order" IMAGE;
    ArraySize "array_size" IMAGE;
    NormalizedCoords "normalized_coords" TEXTURE;
    NumMipmapLevels "num_mipmap_levels" TEXTURE;
    NumSamples "num_samples" TEXTURE;
    MemoryLayout "memory_layout" SURFACE;
    FilterMode "filter_mode" SAMPLING;
    AddrMode0 "addr_mode_0" SAMPLING;
    AddrMode1 "addr_mode_1" SAMPLING;
    AddrMode2 "addr_mode_2" SAMPLING;
    ForceUnnormalizedCoords "force_unnormalized_coords" SAMPLER;
}

/// The words for values of fields, and the numbers they stand for.
const VALUES: &[(&str, i64)] = &[
    ("nearest", 1),
    ("linear", 2),
    ("wrap", 1),
    ("mirror", 2),
    ("clamp_ogl", 3),
    ("clamp_to_edge", 4),
    ("clamp_to_border", 5),
];

/// The number that a word for a value stands for.
#[must_use]
pub fn value(name: &str) -> Option<i64> {
    let known = VALUES.iter().find(|(known, _)| *known == name);
    known.map(|&(_, value)| value)
}

/// Bytes of the record of a texture, sampler or surface; only arrays of them lie in memory.
#[must_use]
pub const fn record_bytes(ty: Type) -> Option<u64> {
    match ty {
        Type::Texref => Some(52),
        Type::Samplerref => Some(20),
        Type::Surfref => Some(28),
        _ => None,
    }
}
