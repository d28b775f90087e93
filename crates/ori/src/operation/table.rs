//! The table of abstract operations.

use super::ModifierKind::{
    Aligned, Arrive, BitOp, Cache, Clamp, Combine, Compare, Count, Direction, Evict, Ftz, Geometry,
    Half, Lod, Match, MatrixShape, MinMax, Order, Outside, Permute, Precision, Prefetch, Property,
    Proxy, Reduce, Round, Route, Sat, Second, Shuffle, SourceType, Space, Special, Step,
    TensorMode, Transpose, Unit, Vector, Vote, Wait,
};
use super::{Arity, Edges, Effects, Kind, Levels, ModifierKind, Row, Scalar as Sc, Scalars, Slot};
use crate::function::Level;

const fn one(kind: Kind) -> Slot {
    Slot {
        kind,
        arity: Arity::One,
    }
}

const fn optional(kind: Kind) -> Slot {
    Slot {
        kind,
        arity: Arity::Optional,
    }
}

const fn many(kind: Kind) -> Slot {
    Slot {
        kind,
        arity: Arity::Many,
    }
}

/// A value of the operation's type.
const T: Slot = one(Kind::Ty);
/// A value of the operation's type, or nothing.
const T_: Slot = optional(Kind::Ty);
/// A value of the source type.
const S: Slot = one(Kind::Src);
/// A product: twice as wide under `wide`.
const W: Slot = one(Kind::Product);
/// The elements of a vector access.
const V: Slot = one(Kind::Elements);
/// A 32-bit value.
const R1: Slot = one(Kind::Regs(1));
/// A 32-bit value, or nothing.
const R1_: Slot = optional(Kind::Regs(1));
/// A 64-bit value.
const R2: Slot = one(Kind::Regs(2));
/// A 64-bit value, or nothing.
const R2_: Slot = optional(Kind::Regs(2));
/// Some general registers.
const N: Slot = one(Kind::Tuple);
/// Some general registers, or nothing.
const N_: Slot = optional(Kind::Tuple);
/// A predicate.
const P: Slot = one(Kind::Pred);
/// A predicate, or nothing.
const P_: Slot = optional(Kind::Pred);
/// A memory operand.
const A: Slot = one(Kind::Address);
/// A memory operand, or nothing.
const A_: Slot = optional(Kind::Address);
/// An immediate.
const I: Slot = one(Kind::Imm);
/// An immediate, or nothing.
const I_: Slot = optional(Kind::Imm);
/// A convergence token.
const TOKEN: Slot = one(Kind::Token);

const NO_TYPES: Scalars = Scalars::of(&[]);
const INT16: Scalars = Scalars::of(&[Sc::U16, Sc::S16]);
const INT32: Scalars = Scalars::of(&[Sc::U32, Sc::S32]);
const INT64: Scalars = Scalars::of(&[Sc::U64, Sc::S64]);
const INT: Scalars = INT16.or(INT32).or(INT64);
const INT_PAIR: Scalars = Scalars::of(&[Sc::U16x2, Sc::S16x2]);
const SIGNED: Scalars = Scalars::of(&[Sc::S16, Sc::S32, Sc::S64]);
const BITS: Scalars = Scalars::of(&[Sc::B16, Sc::B32, Sc::B64]);
const WORDS: Scalars = Scalars::of(&[Sc::B32, Sc::B64]);
const WORD: Scalars = Scalars::of(&[Sc::B32]);
const HALVES: Scalars = Scalars::of(&[Sc::F16, Sc::Bf16, Sc::F16x2, Sc::Bf16x2]);
const F32: Scalars = Scalars::of(&[Sc::F32]);
const SINGLES: Scalars = Scalars::of(&[Sc::F32, Sc::F64]);
const FLOAT: Scalars = HALVES.or(SINGLES);
const PRED: Scalars = Scalars::of(&[Sc::Pred]);
/// What an access to memory moves; a predicate has no form in memory.
const STORED: Scalars = Scalars::of(&[
    Sc::B8,
    Sc::B16,
    Sc::B32,
    Sc::B64,
    Sc::B128,
    Sc::U8,
    Sc::U16,
    Sc::S8,
    Sc::S16,
]);
const CONVERTED: Scalars = INT.or(FLOAT).or(Scalars::of(&[
    Sc::U8,
    Sc::S8,
    Sc::Tf32,
    Sc::E4m3x2,
    Sc::E5m2x2,
    Sc::Ue8m0x2,
]));
const ATOMIC: Scalars = BITS
    .or(INT32)
    .or(INT64)
    .or(FLOAT)
    .or(Scalars::of(&[Sc::B128]));
const MATRIX: Scalars = Scalars::of(&[
    Sc::F16,
    Sc::Bf16,
    Sc::Tf32,
    Sc::F64,
    Sc::B1,
    Sc::U4,
    Sc::S4,
    Sc::U8,
    Sc::S8,
    Sc::E4m3,
    Sc::E5m2,
]);
const ACCUMULATOR: Scalars = Scalars::of(&[Sc::F16, Sc::F32, Sc::F64, Sc::S32]);

const ABSTRACT: Levels = Levels::range(Level::Abstract, Level::Abstract);
const VIRTUAL: Levels = Levels::range(Level::Abstract, Level::Machine);
const COPIES: Levels = Levels::range(Level::Machine, Level::Final);
const FALLS: Levels = Levels::range(Level::Machine, Level::Final);

const READS: Effects = Effects::READS;
const WRITES: Effects = Effects::WRITES;
const SIDE: Effects = Effects::SIDE;
const CONVERGENT: Effects = Effects::CONVERGENT;
const BARRIER: Effects = Effects::BARRIER.with(SIDE).with(CONVERGENT);
const UPDATES: Effects = READS.with(WRITES).with(SIDE);
const STORES: Effects = WRITES.with(SIDE);

/// A row without modifiers, results, operands or effects; the methods below fill in what there is.
const fn row(name: &'static str, doc: &'static str) -> Row {
    Row {
        name,
        doc,
        modifiers: &[],
        types: NO_TYPES,
        sources: NO_TYPES,
        results: &[],
        operands: &[],
        effects: Effects::NONE,
        edges: Edges::Exactly(0),
        levels: ABSTRACT,
        takes_guard: true,
    }
}

impl Row {
    const fn mods(mut self, modifiers: &'static [ModifierKind]) -> Row {
        self.modifiers = modifiers;
        self
    }

    /// `results = operands`
    const fn sig(mut self, results: &'static [Slot], operands: &'static [Slot]) -> Row {
        self.results = results;
        self.operands = operands;
        self
    }

    const fn on(mut self, types: Scalars) -> Row {
        self.types = types;
        self
    }

    const fn from(mut self, sources: Scalars) -> Row {
        self.sources = sources;
        self
    }

    const fn does(mut self, effects: Effects) -> Row {
        self.effects = effects;
        self
    }

    const fn ends(mut self, edges: Edges) -> Row {
        self.effects = self.effects.with(Effects::TERMINATOR).with(SIDE);
        self.edges = edges;
        self.takes_guard = false;
        self
    }

    /// Takes no guard: it stands for moves the allocator makes, or for nothing.
    const fn unguarded(mut self) -> Row {
        self.takes_guard = false;
        self
    }

    const fn at(mut self, levels: Levels) -> Row {
        self.levels = levels;
        self
    }
}

/// Declares [`AbstractOp`] and [`ROWS`] side by side, so that an operation's number is its place in the table.
macro_rules! operations {
    ($($Op:ident = $row:expr;)*) => {
        /// An abstract operation; its row says everything about it.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        #[allow(missing_docs)] // Each row carries its own doc.
        pub enum AbstractOp { $($Op),* }

        impl AbstractOp {
            /// Every operation, in the table's order.
            pub const ALL: &'static [AbstractOp] = &[$(AbstractOp::$Op),*];
        }

        /// The rows, in the order of [`AbstractOp`].
        pub static ROWS: [Row; AbstractOp::ALL.len()] = [$($row),*];
    };
}

const TY: ModifierKind = ModifierKind::Scalar;
const SCOPE: ModifierKind = ModifierKind::Scope;

operations! {
    // Values and tuples.
    Undef = row("undef", "A value nobody relies on.").sig(&[one(Kind::Any)], &[]).at(VIRTUAL).unguarded();
    Collect = row("collect", "One tuple of the operands' registers, in order.")
        .sig(&[one(Kind::Any)], &[many(Kind::Any)]).at(VIRTUAL).unguarded();
    Split = row("split", "The parts of a tuple, in order.")
        .sig(&[many(Kind::Any)], &[one(Kind::Any)]).at(VIRTUAL).unguarded();
    ParCopy = row("parcopy", "Copies all operands to all results at once.")
        .sig(&[many(Kind::Any)], &[many(Kind::Any)]).at(COPIES).unguarded();
    Mov = row("mov", "The operand.").mods(&[TY]).on(BITS.or(PRED).or(Scalars::of(&[Sc::B128]))).sig(&[T], &[T]);
    Name = row("name", "The operand, which a register of the source has from here on: the location says which.")
        .mods(&[TY]).on(WORD.or(PRED)).sig(&[T], &[T]).does(SIDE).unguarded();
    Sreg = row("sreg", "A special register of 32 bits.").mods(&[Special]).sig(&[R1], &[]).does(Effects::VARIES);
    Sreg64 = row("sreg64", "A special register of 64 bits.").mods(&[Special]).sig(&[R2], &[]).does(Effects::VARIES);
    EnvReg = row("envreg", "An environment register, by number; from 32 on the words of addresses of the driver's tables of textures, samplers and surfaces.").sig(&[R1], &[I]);
    AddressOf = row("addressof", "The address of a name.").mods(&[TY]).on(WORDS).sig(&[T], &[one(Kind::Symbol)]);

    // Integer arithmetic.
    Add = row("add", "Sum.").mods(&[Sat, TY]).on(INT.or(INT_PAIR)).sig(&[T], &[T, T]);
    Sub = row("sub", "Difference.").mods(&[Sat, TY]).on(INT).sig(&[T], &[T, T]);
    AddC = row("addc", "Sum with carry in; the carry out is the second result.")
        .mods(&[TY]).on(INT32.or(INT64)).sig(&[T, P_], &[T, T, P]);
    SubC = row("subc", "Difference with carry in, which is false where one more is taken off; the carry out is the second result.")
        .mods(&[TY]).on(INT32.or(INT64)).sig(&[T, P_], &[T, T, P]);
    Mul = row("mul", "Low half, high half or all of a product.").mods(&[Half, TY]).on(INT).sig(&[W], &[T, T]);
    Mad = row("mad", "Part of a product, plus the third operand.")
        .mods(&[Half, Sat, TY]).on(INT).sig(&[W], &[T, T, W]);
    MadC = row("madc", "Part of a product plus the third operand plus carry in; the carry out is the second result.")
        .mods(&[Half, TY]).on(INT32.or(INT64)).sig(&[W, P_], &[T, T, W, P]);
    Mul24 = row("mul24", "Part of the product of the low 24 bits.").mods(&[Half, TY]).on(INT32).sig(&[T], &[T, T]);
    Mad24 = row("mad24", "Part of the product of the low 24 bits, plus the third operand.")
        .mods(&[Half, Sat, TY]).on(INT32).sig(&[T], &[T, T, T]);
    Sad = row("sad", "The third operand plus the absolute difference of the others.")
        .mods(&[TY]).on(INT).sig(&[T], &[T, T, T]);
    Div = row("div", "Quotient.").mods(&[TY]).on(INT).sig(&[T], &[T, T]);
    Rem = row("rem", "Remainder.").mods(&[TY]).on(INT).sig(&[T], &[T, T]);
    Abs = row("abs", "Absolute value.").mods(&[TY]).on(SIGNED).sig(&[T], &[T]);
    Neg = row("neg", "Negation.").mods(&[TY]).on(SIGNED).sig(&[T], &[T]);
    Min = row("min", "The smaller.").mods(&[Sat, TY]).on(INT.or(INT_PAIR)).sig(&[T], &[T, T]);
    Max = row("max", "The larger.").mods(&[Sat, TY]).on(INT.or(INT_PAIR)).sig(&[T], &[T, T]);
    Popc = row("popc", "How many bits are set.").mods(&[TY]).on(WORDS).sig(&[R1], &[T]);
    Clz = row("clz", "How many high bits are clear.").mods(&[TY]).on(WORDS).sig(&[R1], &[T]);
    Bfind = row("bfind", "The position of the highest significant bit.").mods(&[TY]).on(INT32.or(INT64)).sig(&[R1], &[T]);
    BfindShift = row("bfind_shiftamt", "The shift that brings the highest significant bit to the top.")
        .mods(&[TY]).on(INT32.or(INT64)).sig(&[R1], &[T]);
    Fns = row("fns", "The position of the n-th set bit from a base.").sig(&[R1], &[R1, R1, R1]);
    Brev = row("brev", "The bits in reverse order.").mods(&[TY]).on(WORDS).sig(&[T], &[T]);
    Bfe = row("bfe", "A field of bits: value, position, length.").mods(&[TY]).on(INT32.or(INT64)).sig(&[T], &[T, R1, R1]);
    Bfi = row("bfi", "A field put into a value: field, value, position, length.")
        .mods(&[TY]).on(WORDS).sig(&[T], &[T, T, R1, R1]);
    Szext = row("szext", "The low bits, sign- or zero-extended.").mods(&[Clamp, TY]).on(INT32).sig(&[T], &[T, R1]);
    Bmsk = row("bmsk", "A mask of bits: position, length.").mods(&[Clamp, TY]).on(WORD).sig(&[T], &[R1, R1]);
    AbsDiff4 = row("absdiff4", "The absolute differences of four bytes, each in its byte.")
        .mods(&[TY]).on(INT32).sig(&[R1], &[R1, R1]);
    Sad4 = row("sad4", "The third operand plus the absolute differences of four bytes.")
        .mods(&[TY]).on(INT32).sig(&[R1], &[R1, R1, R1]);
    Dp4a = row("dp4a", "Four products of bytes, added to the third operand.")
        .mods(&[TY, SourceType]).on(INT32).from(INT32).sig(&[R1], &[R1, R1, R1]);
    Dp2a = row("dp2a", "Two products of halves with bytes, added to the third operand.")
        .mods(&[Half, TY, SourceType]).on(INT32).from(INT32).sig(&[R1], &[R1, R1, R1]);

    // Floating point.
    Fadd = row("fadd", "Sum.").mods(&[Round, Ftz, Sat, TY]).on(FLOAT).sig(&[T], &[T, T]);
    Fsub = row("fsub", "Difference.").mods(&[Round, Ftz, Sat, TY]).on(FLOAT).sig(&[T], &[T, T]);
    Fmul = row("fmul", "Product.").mods(&[Round, Ftz, Sat, TY]).on(FLOAT).sig(&[T], &[T, T]);
    Ffma = row("ffma", "Product plus the third operand, rounded once.")
        .mods(&[Round, Ftz, Sat, TY]).on(FLOAT).sig(&[T], &[T, T, T]);
    FfmaOob = row("ffma_oob", "Product plus the third operand, rounded once; zero where a factor is marked as out of bounds.")
        .mods(&[Round, Sat, TY]).on(HALVES).sig(&[T], &[T, T, T]);
    Fdiv = row("fdiv", "Quotient.").mods(&[Precision, Round, Ftz, TY]).on(SINGLES).sig(&[T], &[T, T]);
    Fabs = row("fabs", "Absolute value.").mods(&[Ftz, TY]).on(FLOAT).sig(&[T], &[T]);
    Fneg = row("fneg", "Negation.").mods(&[Ftz, TY]).on(FLOAT).sig(&[T], &[T]);
    Fmin = row("fmin", "The smaller.").mods(&[Ftz, MinMax, TY]).on(FLOAT).sig(&[T], &[T, T]);
    Fmax = row("fmax", "The larger.").mods(&[Ftz, MinMax, TY]).on(FLOAT).sig(&[T], &[T, T]);
    Rcp = row("rcp", "Reciprocal.").mods(&[Precision, Round, Ftz, TY]).on(SINGLES).sig(&[T], &[T]);
    Sqrt = row("sqrt", "Square root.").mods(&[Precision, Round, Ftz, TY]).on(SINGLES).sig(&[T], &[T]);
    Rsqrt = row("rsqrt", "Reciprocal of the square root.").mods(&[Precision, Ftz, TY]).on(SINGLES).sig(&[T], &[T]);
    Sin = row("sin", "Sine.").mods(&[Precision, Ftz, TY]).on(F32).sig(&[T], &[T]);
    Cos = row("cos", "Cosine.").mods(&[Precision, Ftz, TY]).on(F32).sig(&[T], &[T]);
    Lg2 = row("lg2", "Logarithm to base 2.").mods(&[Precision, Ftz, TY]).on(F32).sig(&[T], &[T]);
    Ex2 = row("ex2", "Power of 2.").mods(&[Precision, Ftz, TY]).on(HALVES.or(F32)).sig(&[T], &[T]);
    Tanh = row("tanh", "Hyperbolic tangent.").mods(&[Precision, TY]).on(HALVES.or(F32)).sig(&[T], &[T]);
    Copysign = row("copysign", "The second operand with the sign of the first.").mods(&[TY]).on(SINGLES).sig(&[T], &[T, T]);
    Testp = row("testp", "Whether a float has a property.").mods(&[Property, TY]).on(SINGLES).sig(&[P], &[T]);

    // Comparison and choice.
    Setp = row("setp", "A comparison combined with a predicate; the second result is the other one's.")
        .mods(&[Compare, Combine, Ftz, TY]).on(INT.or(BITS).or(FLOAT)).sig(&[P, P_], &[T, T, P_]);
    Set = row("set", "A comparison combined with a predicate, as all ones or 1.0.")
        .mods(&[Compare, Combine, Ftz, TY, SourceType])
        .on(INT32.or(F32).or(HALVES).or(INT16)).from(INT.or(BITS).or(FLOAT)).sig(&[T], &[S, S, P_]);
    Selp = row("selp", "The first operand if the predicate is true, else the second.")
        .mods(&[TY]).on(BITS.or(PRED)).sig(&[T], &[T, T, P]);
    Slct = row("slct", "The first operand if the third is not negative, else the second.")
        .mods(&[Ftz, TY, SourceType]).on(BITS).from(Scalars::of(&[Sc::S32, Sc::F32])).sig(&[T], &[T, T, S]);

    // Bits.
    And = row("and", "Bits set in both.").mods(&[TY]).on(BITS.or(PRED)).sig(&[T], &[T, T]);
    Or = row("or", "Bits set in either.").mods(&[TY]).on(BITS.or(PRED)).sig(&[T], &[T, T]);
    Xor = row("xor", "Bits set in one.").mods(&[TY]).on(BITS.or(PRED)).sig(&[T], &[T, T]);
    Not = row("not", "Bits that are clear.").mods(&[TY]).on(BITS.or(PRED)).sig(&[T], &[T]);
    Cnot = row("cnot", "One if the operand is zero, else zero.").mods(&[TY]).on(BITS).sig(&[T], &[T]);
    Lop3 = row("lop3", "Any function of three bits, by its table; the predicate says whether the result is not zero.")
        .mods(&[Combine]).sig(&[R1_, P_], &[R1, R1, R1, I, P_]);
    Shl = row("shl", "Shift to the left; too much gives zero.").mods(&[TY]).on(BITS).sig(&[T], &[T, R1]);
    Shr = row("shr", "Shift to the right; too much gives copies of the sign, or zero.").mods(&[TY]).on(INT.or(BITS)).sig(&[T], &[T, R1]);
    Shf = row("shf", "A word of the shifted pair: low, high, amount.").mods(&[Direction, Clamp]).sig(&[R1], &[R1, R1, R1]);
    Prmt = row("prmt", "Bytes picked from two words.").mods(&[Permute]).sig(&[R1], &[R1, R1, R1]);

    // Conversions.
    Cvt = row("cvt", "The operand in another type.")
        .mods(&[Round, Ftz, Sat, TY, SourceType]).on(CONVERTED).from(CONVERTED).sig(&[T], &[S]);
    CvtPair = row("cvt_pair", "Two floats in one register of a narrower type: high, low.")
        .mods(&[Round, Sat, TY, SourceType])
        .on(HALVES.or(Scalars::of(&[Sc::E4m3x2, Sc::E5m2x2, Sc::Ue8m0x2]))).from(F32).sig(&[T], &[S, S]);
    CvtUnpack = row("cvt_unpack", "A pair of narrow floats, each widened to a half.")
        .mods(&[Round, Sat, TY, SourceType])
        .on(Scalars::of(&[Sc::F16x2, Sc::Bf16x2]))
        .from(Scalars::of(&[Sc::E4m3x2, Sc::E5m2x2, Sc::Ue8m0x2, Sc::F16x2])).sig(&[T], &[S]);
    CvtPack = row("cvt_pack", "Two integers, saturated and packed above the low bits of the third.")
        .mods(&[TY, SourceType]).on(Scalars::of(&[Sc::U8, Sc::S8, Sc::U16, Sc::S16, Sc::U4, Sc::S4, Sc::U2, Sc::S2]))
        .from(INT32).sig(&[R1], &[R1, R1, R1_]);
    Cvta = row("cvta", "The generic address of an address in a space.").mods(&[Space, TY]).on(INT32.or(INT64)).sig(&[T], &[T]);
    CvtaTo = row("cvta_to", "The address in a space of a generic address.").mods(&[Space, TY]).on(INT32.or(INT64)).sig(&[T], &[T]);
    Isspacep = row("isspacep", "Whether a generic address points into a space.").mods(&[Space]).sig(&[P], &[R2]);
    Mapa = row("mapa", "An address of shared memory in another thread block of the cluster.")
        .mods(&[Space, TY]).on(Scalars::of(&[Sc::U32, Sc::U64])).sig(&[T], &[T, R1]);
    Getctarank = row("getctarank", "The rank of the thread block an address belongs to.")
        .mods(&[Space, TY]).on(Scalars::of(&[Sc::U32, Sc::U64])).sig(&[R1], &[T]);

    // Memory.
    Ld = row("ld", "What an address holds; a cache policy may follow it.")
        .mods(&[Order, SCOPE, Space, Cache, Evict, Prefetch, Vector, TY]).on(STORED).sig(&[V], &[A, R2_]).does(READS);
    Ldu = row("ldu", "What an address holds, the same in all lanes and never written.")
        .mods(&[Space, Vector, TY]).on(STORED).sig(&[V], &[A]).does(READS);
    St = row("st", "Stores the second operand; a cache policy may follow it.")
        .mods(&[Order, SCOPE, Space, Cache, Evict, Vector, TY]).on(STORED).sig(&[], &[A, V, R2_]).does(STORES);
    StAsync = row("st_async", "Stores in another thread block and tells its barrier: address, value, barrier.")
        .mods(&[Vector, TY]).on(WORDS).sig(&[], &[A, V, A]).does(STORES);
    PrefetchLine = row("prefetch", "Brings a line nearer; the immediate is the cache level.")
        .mods(&[Space, Evict]).sig(&[], &[A, I]).does(SIDE);
    PrefetchU = row("prefetchu", "Brings a line into the uniform cache.").sig(&[], &[A]).does(SIDE);
    PrefetchTensormap = row("prefetch_tensormap", "Brings a tensor map nearer.").sig(&[], &[N]).does(SIDE);
    MapInvalidate = row("map_invalidate", "Takes a tensor map out of the cache of tensor maps, once everything before is over.")
        .sig(&[], &[N]).does(BARRIER.with(UPDATES));
    Discard = row("discard", "Gives up the contents of a line.").mods(&[Space]).sig(&[], &[A, I]).does(STORES);
    ApplyPriority = row("applypriority", "Changes the eviction priority of a line.").mods(&[Space, Evict]).sig(&[], &[A, I]).does(SIDE);
    CreatePolicy = row("createpolicy", "A cache policy that holds for a fraction of accesses.")
        .sig(&[R2], &[I, I, R1_]);
    CreatePolicyRange = row("createpolicy_range", "A cache policy that holds for a range of addresses: its start, two priorities, primary and total size.")
        .sig(&[R2], &[R2, I, I, R1, R1]);
    Alloca = row("alloca", "Space on the stack: size, alignment, bytes that stay free below it for arguments of calls.").mods(&[TY]).on(WORDS).sig(&[T], &[R1, I, I_]).does(SIDE);
    StackSave = row("stacksave", "The stack pointer.").mods(&[TY]).on(WORDS).sig(&[T], &[]).does(SIDE);
    StackRestore = row("stackrestore", "Sets the stack pointer.").mods(&[TY]).on(WORDS).sig(&[], &[T]).does(SIDE);
    Atom = row("atom", "Changes what an address holds in one step; the old contents are the result.")
        .mods(&[Order, SCOPE, Space, Reduce, Ftz, Vector, TY]).on(ATOMIC).sig(&[V], &[A, V, T_, R2_]).does(UPDATES);
    Red = row("red", "Changes what an address holds in one step.")
        .mods(&[Order, SCOPE, Space, Reduce, Ftz, Vector, TY]).on(ATOMIC).sig(&[], &[A, V, R2_]).does(UPDATES);
    RedAsync = row("red_async", "Changes shared memory in another thread block and tells its barrier: address, value, barrier.")
        .mods(&[Reduce, TY]).on(INT32.or(INT64).or(WORDS)).sig(&[], &[A, T, A]).does(UPDATES);
    MultimemLd = row("multimem_ld_reduce", "Reads all copies of an address and combines them.")
        .mods(&[Order, SCOPE, Reduce, Vector, TY]).on(ATOMIC).sig(&[V], &[A]).does(READS);
    MultimemLdWide = row("multimem_ld_reduce_f32", "The same, combined in single precision.")
        .mods(&[Order, SCOPE, Reduce, Vector, TY]).on(ATOMIC).sig(&[V], &[A]).does(READS);

    // Asynchronous copies.
    CpAsync = row("cp_async", "Copies from global to shared memory: to, from, size, bytes read, policy; nothing is read if the predicate is true.")
        .mods(&[Cache, Prefetch]).sig(&[], &[A, A, I, R1_, P_, R2_]).does(UPDATES);
    CpAsyncCommit = row("cp_async_commit", "Ends a group of asynchronous copies.").does(SIDE);
    CpAsyncWait = row("cp_async_wait", "Waits until at most so many groups are under way.").sig(&[], &[I]).does(BARRIER);
    CpAsyncWaitAll = row("cp_async_wait_all", "Waits for all asynchronous copies.").does(BARRIER);
    CpAsyncArrive = row("cp_async_mbarrier_arrive", "Makes a barrier wait for the asynchronous copies so far; the immediate is 1 if the count is not raised.")
        .sig(&[], &[A, I]).does(SIDE);
    BulkCopy = row("cp_async_bulk", "Copies a piece of memory: to (an address in global memory, or one in shared memory and its barrier), from, sixteenths of the size with the blocks of a multicast above, policy.")
        .mods(&[Route]).sig(&[], &[N, N, R1, R2_]).does(UPDATES);
    BulkReduce = row("cp_reduce_async_bulk", "Combines a piece of shared memory into another piece of memory: to and the others as for a copy.")
        .mods(&[Route, Reduce, TY]).on(ATOMIC).sig(&[], &[N, N, R1, R2_]).does(UPDATES);
    BulkPrefetch = row("cp_async_bulk_prefetch", "Brings a piece of memory into the second-level cache: from, sixteenths of the size, policy.")
        .sig(&[], &[N, R1, R2_]).does(SIDE);
    BulkCommit = row("cp_async_bulk_commit", "Ends a group of bulk copies.").does(SIDE);
    BulkWait = row("cp_async_bulk_wait", "Waits until at most so many groups are under way; the second operand is 1 if having read is enough.")
        .sig(&[], &[I, I]).does(BARRIER);
    TensorCopy = row("cp_async_bulk_tensor", "Copies a tile: shared address, barrier of a load, coordinates; tensor map; offsets with the blocks of a multicast above; policy.")
        .mods(&[Route, TensorMode]).sig(&[], &[N, N, R1_, R2_]).does(UPDATES);
    TensorReduce = row("cp_reduce_async_bulk_tensor", "Combines a tile into a tensor: shared address and coordinates, tensor map, policy.")
        .mods(&[Reduce, TensorMode]).sig(&[], &[N, N, R2_]).does(UPDATES);
    TensorPrefetch = row("cp_async_bulk_prefetch_tensor", "Brings a tile into the second-level cache: coordinates, tensor map, offsets, policy.")
        .mods(&[TensorMode]).sig(&[], &[N, N, R1_, R2_]).does(SIDE);

    // Barriers and fences.
    Bar = row("bar_sync", "Waits for the threads of a barrier: number, count.")
        .mods(&[Aligned]).sig(&[], &[R1, R1_]).does(BARRIER.with(UPDATES));
    BarArrive = row("bar_arrive", "Arrives at a barrier: number, count.")
        .mods(&[Aligned]).sig(&[], &[R1, R1]).does(SIDE.with(CONVERGENT).with(UPDATES));
    BarRed = row("bar_red", "Waits at a barrier and combines a predicate over its threads: number, count, predicate.")
        .mods(&[Combine, Aligned]).sig(&[P], &[R1, R1_, P]).does(BARRIER.with(UPDATES));
    BarRedPopc = row("bar_red_popc", "Waits at a barrier and counts the threads whose predicate is true.")
        .mods(&[Aligned]).sig(&[R1], &[R1, R1_, P]).does(BARRIER.with(UPDATES));
    BarWarp = row("bar_warp_sync", "Waits for the lanes of a mask.").sig(&[], &[R1]).does(BARRIER.with(UPDATES));
    ClusterArrive = row("barrier_cluster_arrive", "Arrives at the cluster's barrier.")
        .mods(&[Order, Aligned]).does(SIDE.with(CONVERGENT).with(UPDATES));
    ClusterWait = row("barrier_cluster_wait", "Waits at the cluster's barrier.")
        .mods(&[Order, Aligned]).does(BARRIER.with(UPDATES));
    Fence = row("fence", "Orders memory accesses before and after.").mods(&[Order, SCOPE]).does(Effects::BARRIER.with(UPDATES));
    FenceProxy = row("fence_proxy", "Orders accesses through different proxies; for a tensor map, its address and size.")
        .mods(&[Proxy, Order, SCOPE]).sig(&[], &[A_, I_]).does(Effects::BARRIER.with(UPDATES));
    FenceMbarrierInit = row("fence_mbarrier_init", "Makes barriers set up here visible in the cluster.").does(Effects::BARRIER.with(UPDATES));
    Mbarrier = row("mbarrier", "Sets up, ends or adjusts a barrier in shared memory.")
        .mods(&[Step, SCOPE, Space]).sig(&[], &[A, R1_]).does(UPDATES);
    MbarrierArrive = row("mbarrier_arrive", "Arrives at a barrier in shared memory; the result is its state.")
        .mods(&[Arrive, Order, SCOPE, Space]).sig(&[R2_], &[A, R1_]).does(UPDATES.with(Effects::BARRIER));
    MbarrierWait = row("mbarrier_wait", "Whether a phase of a barrier has ended: barrier, state or parity, time limit.")
        .mods(&[Wait, Order, SCOPE]).sig(&[P], &[A, N, R1_]).does(UPDATES.with(Effects::BARRIER));
    MbarrierPending = row("mbarrier_pending_count", "The number of arrivals a state still waits for.").sig(&[R1], &[R2]);
    GridDepWait = row("griddepcontrol_wait", "Waits for the grids this one depends on.").does(Effects::BARRIER.with(UPDATES));
    GridDepLaunch = row("griddepcontrol_launch", "Lets the grids that depend on this one start.").does(SIDE);

    // The lanes of a warp.
    Shfl = row("shfl", "Another lane's value, and whether that lane is in range: value, lane, clamp, member mask.")
        .mods(&[Shuffle]).sig(&[R1, P_], &[R1, R1, R1, R1]).does(CONVERGENT);
    VotePred = row("vote", "Whether a predicate holds in the lanes of a mask.")
        .mods(&[Vote]).sig(&[P], &[P, R1]).does(CONVERGENT);
    Ballot = row("ballot", "The lanes of a mask in which a predicate holds.").sig(&[R1], &[P, R1]).does(CONVERGENT);
    MatchLanes = row("match", "The lanes of a mask with the same value.")
        .mods(&[Match, TY]).on(WORDS).sig(&[R1, P_], &[T, R1]).does(CONVERGENT);
    ActiveMask = row("activemask", "The lanes that run.").sig(&[R1], &[]).does(CONVERGENT.with(Effects::VARIES));
    Redux = row("redux", "A value combined over the lanes of a mask.")
        .mods(&[Reduce, TY]).on(INT32.or(WORD)).sig(&[T], &[T, R1]).does(CONVERGENT);
    ElectTurn = row("elect_turn", "Whether it is this lane's turn: one of the running lanes in which the predicate holds.").sig(&[P], &[P]).does(CONVERGENT.with(Effects::VARIES));
    TurnWord = row("turn_word", "The word of the lane whose turn it is: whether it is this lane's, its word.").sig(&[R1], &[P, R1]).does(CONVERGENT.with(Effects::VARIES));
    AnyRunning = row("any_running", "Whether the predicate holds in one of the running lanes.").sig(&[P], &[P]).does(CONVERGENT.with(Effects::VARIES));
    Elect = row("elect", "One lane of a mask, and whether it is this one.").sig(&[R1_, P], &[R1]).does(CONVERGENT.with(Effects::VARIES));

    // Matrices.
    Ldmatrix = row("ldmatrix", "Matrices from shared memory.")
        .mods(&[MatrixShape, Count, Transpose, TY]).on(Scalars::of(&[Sc::B16, Sc::B8])).sig(&[N], &[A]).does(READS.with(CONVERGENT));
    Stmatrix = row("stmatrix", "Matrices to shared memory.")
        .mods(&[MatrixShape, Count, Transpose, TY]).on(Scalars::of(&[Sc::B16, Sc::B8])).sig(&[], &[A, N]).does(STORES.with(CONVERGENT));
    Movmatrix = row("movmatrix", "A matrix, transposed.")
        .mods(&[MatrixShape, TY]).on(Scalars::of(&[Sc::B16])).sig(&[R1], &[R1]).does(CONVERGENT);
    Mma = row("mma", "A matrix product plus a matrix: A, B, C.")
        .mods(&[MatrixShape, Sat, BitOp, Round, TY, SourceType, Second]).on(ACCUMULATOR).from(MATRIX)
        .sig(&[N], &[N, N, N]).does(CONVERGENT);
    MmaSparse = row("mma_sp", "The same, where A is half empty: A, B, C, metadata, selector.")
        .mods(&[MatrixShape, Sat, BitOp, Round, TY, SourceType, Second]).on(ACCUMULATOR).from(MATRIX)
        .sig(&[N], &[N, N, N, R1, I]).does(CONVERGENT);
    Wgmma = row("wgmma", "An asynchronous matrix product of a warp group: accumulator, A (registers or descriptor), B descriptor, N, scale of D, signs of A and B, layouts of A and B.")
        .mods(&[Sat, BitOp, TY, SourceType, Second]).on(ACCUMULATOR).from(MATRIX)
        .sig(&[N], &[N_, N, R2, I, P, I, I, I, I]).does(READS.with(SIDE).with(CONVERGENT));
    WgmmaSparse = row("wgmma_sp", "The same, where A is half empty: metadata and selector come last.")
        .mods(&[Sat, BitOp, TY, SourceType, Second]).on(ACCUMULATOR).from(MATRIX)
        .sig(&[N], &[N_, N, R2, I, P, I, I, I, I, R1, I]).does(READS.with(SIDE).with(CONVERGENT));
    WgmmaFence = row("wgmma_fence", "Orders registers and shared memory before the next warp-group product.").does(BARRIER);
    WgmmaCommit = row("wgmma_commit", "Ends a group of warp-group products.").does(SIDE.with(CONVERGENT));
    WgmmaWait = row("wgmma_wait", "Waits until at most so many groups are under way.").sig(&[], &[I]).does(BARRIER);

    // Textures and surfaces. A texture and a sampler are named by the low words of their handles; coordinates are as the machine takes them.
    Tex = row("tex", "Texels around a coordinate, and whether one of them is not resident: texture, sampler, coordinates, level, gradients, offsets, depth to compare or sample.")
        .mods(&[Geometry, Lod, SourceType]).from(Scalars::of(&[Sc::S32, Sc::F32]))
        .sig(&[R1_, R1_, R1_, R1_, P_], &[R1, R1_, N, R1_, N_, R1_, R1_]).does(READS);
    Tld4 = row("tld4", "One component of the four texels around a coordinate, and whether one is not resident: texture, sampler, coordinates, component, offsets, depth to compare.")
        .mods(&[Geometry]).sig(&[R1_, R1_, R1_, R1_, P_], &[R1, R1_, N, I, R1_, R1_]).does(READS);
    Txq = row("txq", "A dimension of a texture or surface, by number, at a level.").sig(&[R1], &[R1, I, R1]).does(READS);
    Suld = row("suld", "What a surface holds at a coordinate: surface, coordinates.")
        .mods(&[Geometry, Outside, Cache, Vector, TY]).on(STORED).sig(&[V], &[R1, N]).does(READS);
    Sust = row("sust", "Stores to a surface: surface, coordinates, value.")
        .mods(&[Geometry, Outside, Unit, Cache, Vector, TY]).on(STORED).sig(&[], &[R1, N, V]).does(STORES);
    Sured = row("sured", "Changes a surface in one step: surface, coordinates, value.")
        .mods(&[Reduce, Geometry, Outside, Unit, TY]).on(INT32.or(INT64).or(WORDS)).sig(&[], &[R1, N, T]).does(UPDATES);

    // Odds and ends.
    Nanosleep = row("nanosleep", "Sleeps for about so many nanoseconds; for at most as many, as the chip draws, with a second operand.").sig(&[], &[R1, I_]).does(SIDE);
    PmEvent = row("pmevent", "Triggers performance-monitor events by mask.").sig(&[], &[I]).does(SIDE);
    Brkpt = row("brkpt", "Stops for a debugger.").does(SIDE);
    RegistersTake = row("registers_take", "Asks for so many registers in all; whether it got them.").sig(&[P], &[I]).does(BARRIER.with(Effects::VARIES));
    SetMaxNReg = row("setmaxnreg", "Asks for more registers (second operand 1) or gives some back (0).").sig(&[], &[I, I]).does(BARRIER);

    // Calls.
    Call = row("call", "Runs a function; the names after the arguments are all a call through a register may reach.")
        .sig(&[many(Kind::Any)], &[one(Kind::Callee), many(Kind::Any)])
        .does(Effects::CALL.with(UPDATES).with(CONVERGENT)).at(VIRTUAL);

    // Convergence regions: between `open` and `meet` lanes may go different ways.
    RegionOpen = row("region_open", "Opens a region; its lanes meet again in the block named.")
        .sig(&[TOKEN], &[one(Kind::Block)]).does(SIDE.with(CONVERGENT));
    RegionMeet = row("region_meet", "Waits for the lanes of the region.").sig(&[], &[TOKEN]).does(BARRIER);
    RegionLeave = row("region_leave", "Takes this lane out of the region for good.")
        .sig(&[TOKEN], &[TOKEN]).does(SIDE.with(CONVERGENT));

    // Terminators.
    Br = row("br", "Goes to a block.").ends(Edges::Exactly(1));
    CondBr = row("cbr", "Goes to the first block if the predicate is true, else to the second.")
        .sig(&[], &[P]).ends(Edges::Exactly(2));
    Switch = row("brx", "Goes to the block of that number; a number past the last is undefined.").sig(&[], &[R1]).ends(Edges::Some);
    Ret = row("ret", "Returns to the caller, with the function's results.").sig(&[], &[many(Kind::Any)]).ends(Edges::Exactly(0)).at(VIRTUAL);
    Exit = row("exit", "Ends the thread.").ends(Edges::Exactly(0));
    Trap = row("trap", "Ends the grid with an error.").ends(Edges::Exactly(0));
    Unreachable = row("unreachable", "Is never reached.").ends(Edges::Exactly(0)).at(VIRTUAL);
    FallThrough = row("next", "Falls into the block that follows; no machine instruction stands for it.")
        .ends(Edges::Exactly(1)).at(FALLS);
}
