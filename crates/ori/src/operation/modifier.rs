//! The modifiers of abstract operations: small closed sets of names, packed one byte each.

use std::fmt;

/// The modifiers of one instruction: byte *i* is the value of the row's *i*-th modifier.
///
/// Abstract and machine operations share this field; what a byte or bit means is the operation's row's business.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AbstractMods(u64);

/// How many modifiers a row may have.
pub const MAX_MODIFIERS: usize = 8;

impl AbstractMods {
    /// Every modifier at its first value.
    pub const NONE: AbstractMods = AbstractMods(0);

    /// The value of modifier `index` of the row.
    pub const fn get(self, index: usize) -> u8 {
        (self.0 >> (8 * index)) as u8
    }

    /// The same with modifier `index` set to `value`.
    #[must_use]
    pub const fn with(self, index: usize, value: u8) -> AbstractMods {
        let shift = 8 * index;
        AbstractMods(self.0 & !(0xff << shift) | (value as u64) << shift)
    }

    /// The packed form.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`AbstractMods::bits`].
    pub const fn from_bits(bits: u64) -> AbstractMods {
        AbstractMods(bits)
    }
}

impl fmt::Debug for AbstractMods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A modifier with a Rust enum for its values.
pub trait Modifier: Copy + Sized + 'static {
    /// Which modifier this is.
    const KIND: ModifierKind;
    /// Every value, by its number.
    const ALL: &'static [Self];

    /// The value's number.
    fn number(self) -> u8;

    /// The value of that number.
    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Declares the modifiers: an enum for each, the kinds, and the names the text form uses.
///
/// A value whose name is empty is the default and is not written; a modifier without one is always written.
macro_rules! modifiers {
    ($($(#[$doc:meta])* $Kind:ident { $($(#[$vdoc:meta])* $Value:ident $text:literal),* $(,)? })*) => {
        /// Which modifier a place of a row holds.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum ModifierKind { $($(#[$doc])* $Kind),* }

        impl ModifierKind {
            /// Every kind.
            pub const ALL: &'static [ModifierKind] = &[$(ModifierKind::$Kind),*];

            /// The names of the values, by number. An empty name is the default.
            pub const fn names(self) -> &'static [&'static str] {
                const NAMES: &[&[&str]] = &[$(&[$($text),*]),*];
                NAMES[self as usize]
            }
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
            #[repr(u8)]
            pub enum $Kind { $($(#[$vdoc])* $Value),* }

            impl Modifier for $Kind {
                const KIND: ModifierKind = ModifierKind::$Kind;
                const ALL: &'static [$Kind] = &[$($Kind::$Value),*];

                fn number(self) -> u8 {
                    self as u8
                }
            }

            impl fmt::Display for $Kind {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(ModifierKind::$Kind.names()[*self as usize])
                }
            }
        )*
    };
}

// Values whose name in PTX is their whole meaning carry no doc of their own.
#[allow(missing_docs)] // The names are PTX's; the enum's doc says what the set is.
mod values {
    use super::{Modifier, fmt};

    /// The sets: the types first, which results and sources have alike.
    macro_rules! modifiers_with_types {
        ({ $($types:tt)* } $($others:tt)*) => {
            modifiers! {
                /// The type an operation works in. Values carry only a class and a length.
                Scalar { $($types)* }
                /// The type of the source, where it differs from the result's.
                SourceType { $($types)* }
                $($others)*
            }
        };
    }

    modifiers_with_types! {
        {
            Pred "pred", B8 "b8", B16 "b16", B32 "b32", B64 "b64", B128 "b128",
            U8 "u8", U16 "u16", U32 "u32", U64 "u64", S8 "s8", S16 "s16", S32 "s32", S64 "s64",
            F16 "f16", Bf16 "bf16", F16x2 "f16x2", Bf16x2 "bf16x2", Tf32 "tf32", F32 "f32", F64 "f64",
            U16x2 "u16x2", S16x2 "s16x2",
            E4m3 "e4m3", E5m2 "e5m2", E4m3x2 "e4m3x2", E5m2x2 "e5m2x2", Ue8m0x2 "ue8m0x2",
            B1 "b1", U4 "u4", S4 "s4", U2 "u2", S2 "s2",
        }
        /// The type of the second matrix.
        Second {
            Same "", B1 "b1", U4 "u4", S4 "s4", U8 "u8", S8 "s8", E4m3 "e4m3", E5m2 "e5m2",
        }
        /// Rounding. The default is the operation's own: nearest even, and contraction allowed.
        Round { Default "", Rn "rn", Rna "rna", Rz "rz", Rm "rm", Rp "rp", Rni "rni", Rzi "rzi", Rmi "rmi", Rpi "rpi" }
        /// How exact a division or a function is.
        Precision { Ieee "", Approx "approx", Full "full" }
        /// Whether subnormal inputs and results become zero.
        Ftz { Keep "", Ftz "ftz" }
        /// Whether the result is clamped to its range (floats: to 0…1).
        Sat { Wrap "", Sat "sat", Satfinite "satfinite", Relu "relu", SatfiniteRelu "satrelu" }
        /// Which half of a product is the result.
        Half { Lo "lo", Hi "hi", Wide "wide" }
        /// A comparison.
        Compare {
            Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Lo "lo", Ls "ls", Hi "hi", Hs "hs",
            Equ "equ", Neu "neu", Ltu "ltu", Leu "leu", Gtu "gtu", Geu "geu", Num "num", Nan "nan",
        }
        /// How a comparison's result is combined with a predicate.
        Combine { None "", And "and", Or "or", Xor "xor" }
        /// A property tested of a float.
        Property {
            Finite "finite", Infinite "infinite", Number "number", NotANumber "notanumber", Normal "normal",
            Subnormal "subnormal",
        }
        /// What a minimum or maximum of a NaN is, and the sign it takes.
        MinMax { Number "", Nan "NaN", XorSign "xorsign", NanXorSign "nanxorsign" }
        /// The state space of an access.
        Space {
            Generic "", Global "global", Shared "shared", SharedCluster "shared_cluster", Local "local", Const "const", Param "param",
        }
        /// The memory order of an access.
        Order {
            Weak "", Volatile "volatile", Mmio "mmio", Relaxed "relaxed", Acquire "acquire", Release "release",
            AcqRel "acq_rel", Sc "sc",
        }
        /// Who sees the order.
        Scope { None "", Cta "cta", Cluster "cluster", Gpu "gpu", Sys "sys" }
        /// The cache operator of an access.
        Cache { Default "", Ca "ca", Cg "cg", Cs "cs", Lu "lu", Cv "cv", Wb "wb", Wt "wt", Nc "nc" }
        /// What is evicted first.
        Evict {
            Default "", Normal "evict_normal", Unchanged "evict_unchanged", First "evict_first", Last "evict_last",
            NoAllocate "no_allocate",
        }
        /// How many bytes the second-level cache fetches ahead.
        Prefetch { None "", B64 "L2_64B", B128 "L2_128B", B256 "L2_256B" }
        /// How many elements an access has.
        Vector { V1 "", V2 "v2", V4 "v4", V8 "v8" }
        /// The operation of an atomic access or of a reduction. `cast` is `cas` in shared memory whose result is not the old contents but 1 if
        /// it stored, else 0.
        Reduce {
            Add "add", Min "min", Max "max", And "and", Or "or", Xor "xor", Inc "inc", Dec "dec", Exch "exch", Cas "cas", Cast "cast",
        }
        /// Which way lanes exchange values.
        Shuffle { Up "up", Down "down", Bfly "bfly", Idx "idx" }
        /// What a vote yields.
        Vote { All "all", Any "any", Uni "uni", Ballot "ballot" }
        /// Whether a match is with any lane or with all.
        Match { Any "any", All "all" }
        /// Which way, or which end.
        Direction { Left "l", Right "r" }
        /// What a shift by too much does.
        Clamp { Clamp "clamp", Wrap "wrap" }
        /// How bytes are permuted.
        Permute { Index "", F4e "f4e", B4e "b4e", Rc8 "rc8", Ecl "ecl", Ecr "ecr", Rc16 "rc16" }
        /// Whether a barrier counts in whole warps (`aligned`).
        Aligned { Any "", Aligned "aligned" }
        /// The layout of a matrix in memory or in registers.
        Layout { Row "row", Col "col" }
        /// The shape of a matrix step.
        MatrixShape {
            M8n8k4 "m8n8k4", M8n8k16 "m8n8k16", M8n8k32 "m8n8k32", M8n8k128 "m8n8k128", M16n8k4 "m16n8k4",
            M16n8k8 "m16n8k8", M16n8k16 "m16n8k16", M16n8k32 "m16n8k32", M16n8k64 "m16n8k64", M16n8k128 "m16n8k128",
            M16n8k256 "m16n8k256", M8n8 "m8n8",
        }
        /// How many matrices a load or store moves.
        Count { X1 "x1", X2 "x2", X4 "x4" }
        /// Whether a matrix is transposed on the way.
        Transpose { Straight "", Trans "trans" }
        /// What binary matrices are combined with.
        BitOp { None "", XorPopc "xor_popc", AndPopc "and_popc" }
        /// Which proxies a fence orders.
        Proxy {
            None "", Alias "alias", Async "async", AsyncGlobal "async_global", AsyncShared "async_shared",
            AsyncSharedCluster "async_cluster", TensormapGeneric "tensormap",
        }
        /// A special register.
        Special {
            TidX "tid_x", TidY "tid_y", TidZ "tid_z", NtidX "ntid_x", NtidY "ntid_y", NtidZ "ntid_z",
            CtaidX "ctaid_x", CtaidY "ctaid_y", CtaidZ "ctaid_z", NctaidX "nctaid_x", NctaidY "nctaid_y",
            NctaidZ "nctaid_z", LaneId "laneid", WarpId "warpid", NwarpId "nwarpid", SmId "smid", NsmId "nsmid",
            GridId "gridid", LanemaskEq "lanemask_eq", LanemaskLe "lanemask_le", LanemaskLt "lanemask_lt",
            LanemaskGe "lanemask_ge", LanemaskGt "lanemask_gt", Clock "clock", ClockHi "clock_hi", Clock64 "clock64",
            GlobalTimer "globaltimer", GlobalTimerLo "globaltimer_lo", GlobalTimerHi "globaltimer_hi",
            ClusterScaleX "cluster_scale_x", ClusterScaleY "cluster_scale_y", ClusterScaleZ "cluster_scale_z",
            NclusterIdX "nclusterid_x", NclusterIdY "nclusterid_y", NclusterIdZ "nclusterid_z",
            ClusterNctaidX "cluster_nctaid_x", ClusterNctaidY "cluster_nctaid_y", ClusterNctaidZ "cluster_nctaid_z",
            ClusterCtarank "cluster_ctarank", ClusterNctarank "cluster_nctarank", IsExplicitCluster "is_explicit_cluster",
            DynamicSmemSize "dynamic_smem_size", TotalSmemSize "total_smem_size", AggrSmemSize "aggr_smem_size",
            ReservedSmemBegin "reserved_smem_begin", ReservedSmemEnd "reserved_smem_end",
            ReservedSmemCap "reserved_smem_cap", ReservedSmemOffset1 "reserved_smem_offset_1", CurrentGraphExec "current_graph_exec",
            Pm0 "pm0", Pm1 "pm1", Pm2 "pm2", Pm3 "pm3", Pm4 "pm4", Pm5 "pm5", Pm6 "pm6", Pm7 "pm7",
        }
        /// A step of a barrier in shared memory.
        Step {
            Init "init", Inval "inval", ExpectTx "expect_tx", CompleteTx "complete_tx",
        }
        /// Whether an arrival also leaves the barrier for good, or takes the count from an operand.
        Arrive { Arrive "", Drop "drop", ExpectTx "expect_tx", DropExpectTx "drop_expect_tx", NoComplete "no_complete", DropNoComplete "drop_no_complete" }
        /// Whether a wait on a barrier may suspend the warp, and what it is told: a state or a parity.
        Wait { Test "test", TestParity "test_parity", Try "try", TryParity "try_parity" }
        /// The geometry of a texture or surface access.
        Geometry {
            D1 "d1", D2 "d2", D3 "d3", A1 "a1", A2 "a2", Cube "cube", ACube "acube", D2Ms "d2ms", A2Ms "a2ms",
        }
        /// How the level of detail of a texture access is chosen.
        Lod { Auto "", Base "base", Level "level", Grad "grad" }
        /// What an access outside a surface does.
        Outside { Trap "trap", Clamp "clamp", Zero "zero" }
        /// What the first coordinate of a surface counts: bytes, or texels of its format.
        Unit { Bytes "b", Texels "p" }
        /// How a tensor copy walks its source.
        TensorMode { Tile "tile", Im2col "im2col" }
        /// Which way a copy goes: between global and shared memory, from shared memory to that of another block, or to several blocks.
        Route { GlobalToShared "g2s", SharedToGlobal "s2g", SharedToCluster "s2c", Multicast "multicast" }
    }
}
pub use values::*;

impl Scalar {
    /// How many bits a value of this type has. A predicate has one.
    pub const fn bits(self) -> u16 {
        match self {
            Scalar::Pred | Scalar::B1 => 1,
            Scalar::U2 | Scalar::S2 => 2,
            Scalar::U4 | Scalar::S4 => 4,
            Scalar::B8 | Scalar::U8 | Scalar::S8 | Scalar::E4m3 | Scalar::E5m2 => 8,
            Scalar::B16
            | Scalar::U16
            | Scalar::S16
            | Scalar::F16
            | Scalar::Bf16
            | Scalar::E4m3x2
            | Scalar::E5m2x2
            | Scalar::Ue8m0x2 => 16,
            Scalar::B32
            | Scalar::U32
            | Scalar::S32
            | Scalar::F16x2
            | Scalar::Bf16x2
            | Scalar::Tf32
            | Scalar::F32
            | Scalar::U16x2
            | Scalar::S16x2 => 32,
            Scalar::B64 | Scalar::U64 | Scalar::S64 | Scalar::F64 => 64,
            Scalar::B128 => 128,
        }
    }

    /// How many 32-bit registers a value of this type takes: at least one.
    pub const fn registers(self) -> u8 {
        self.bits().div_ceil(32) as u8
    }
}

impl From<SourceType> for Scalar {
    fn from(source: SourceType) -> Scalar {
        Scalar::ALL[source as usize]
    }
}

impl From<Scalar> for SourceType {
    fn from(scalar: Scalar) -> SourceType {
        SourceType::ALL[scalar as usize]
    }
}
