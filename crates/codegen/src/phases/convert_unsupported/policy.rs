//! Cache policies that are not known when the program is compiled.
//!
//! ptxas computes them by these formulas, logarithm and all, so both compilers give the caches the same hints.

use super::{Expander, Expansion, Results};
use crate::emit::imm;
use crate::policy::{self, HEAD, Kind};
use orias_ori::Operand;
use orias_ori::operation::{AbstractOp, Compare, Ftz, Precision, Round, Scalar, SourceType};

/// Whether the operation is one that [`rule`] is about.
pub(super) fn makes_policy(op: AbstractOp) -> bool {
    matches!(op, AbstractOp::CreatePolicyRange | AbstractOp::CreatePolicy)
}

/// Operands tell whether a policy is worked out by the program, so each instruction is asked.
pub(super) fn rule(expander: &Expander<'_>) -> Option<Expansion> {
    let known = |operand| matches!(operand, Operand::None | Operand::Imm(_));
    match expander.op {
        AbstractOp::CreatePolicyRange => head(expander, Kind::Range, 1).map(|_| range as Expansion),
        AbstractOp::CreatePolicy if !known(expander.operand(2)) => {
            head(expander, Kind::Fraction, 0).map(|_| fraction as Expansion)
        }
        _ => None,
    }
}

/// Kind and priorities; the two priorities start at operand `first`.
fn head(expander: &Expander<'_>, kind: Kind, first: usize) -> Option<u64> {
    let (primary, secondary) = (expander.operand(first), expander.operand(first + 1));
    policy::head(kind, primary, secondary).map(u64::from)
}

/// A number just below 16: a whole becomes the highest number of four bits.
const SIXTEENTHS: f32 = 15.99;

/// `createpolicy.fractional` of a fraction in a register.
fn fraction(expander: &mut Expander<'_>) -> Results {
    let head = head(expander, Kind::Fraction, 0).unwrap_or_default();
    let fraction = expander.operand(2);
    expander.one(|emit| {
        let single = (Round::Rn, Ftz::Keep, Scalar::F32);
        let scale = imm(u64::from(SIXTEENTHS.to_bits()));
        let scaled = emit.op(AbstractOp::Fmul, single, &[fraction, scale]);
        let whole = (Round::Rzi, Scalar::U32, SourceType::F32);
        let sixteenths = emit.op(AbstractOp::Cvt, whole, &[scaled]);
        let field = emit.and(sixteenths, imm(0xf));
        let fields = emit.or(field, imm(head));
        let upper = emit.shl(fields, imm(u64::from(HEAD)));
        emit.join(imm(0), upper)
    })
}

/// Pieces of a range have at least 2^12 bytes.
const LEAST_PIECE: u64 = 12;
/// The most pieces that fields of a range can count; the whole range has about as many.
const PIECES: u64 = 0x7f;
/// How many bits [`PIECES`] has.
const PIECE_BITS: u64 = 7;
/// The lowest bit of the number of the first piece, and of the count of pieces.
const FIRST_PIECE: u64 = 12;
const PIECE_COUNT: u64 = 5;

/// `createpolicy.range`: the total size decides how large pieces are. Without any, nothing has another priority than usual.
fn range(expander: &mut Expander<'_>) -> Results {
    let head = head(expander, Kind::Range, 1).unwrap_or_default();
    let (start, primary, total) = (
        expander.operand(0),
        expander.operand(3),
        expander.operand(4),
    );
    expander.one(|emit| {
        let size = (Round::Rn, Scalar::F32, SourceType::U32);
        let size = emit.op(AbstractOp::Cvt, size, &[total]);
        let log = (Precision::Approx, Ftz::Ftz, Scalar::F32);
        let log = emit.op(AbstractOp::Lg2, log, &[size]);
        let up = (Round::Rpi, Scalar::U32, SourceType::F32);
        let log = emit.op(AbstractOp::Cvt, up, &[log]);
        let piece = emit.sub(log, imm(PIECE_BITS));
        let piece = emit.binary(AbstractOp::Max, Scalar::S32, piece, imm(LEAST_PIECE));

        let one = emit.shl(imm(1), piece);
        let most = emit.sub(one, imm(1));
        let most = emit.add(most, primary);
        let most = emit.cvt(Scalar::U64, Scalar::U32, most);
        let end = emit.binary(AbstractOp::Add, Scalar::U64, start, most);
        let first = emit.binary(AbstractOp::Shr, Scalar::U64, start, piece);
        let end = emit.binary(AbstractOp::Shr, Scalar::U64, end, piece);
        let count = emit.binary(AbstractOp::Sub, Scalar::U64, end, first);
        let count = emit.binary(AbstractOp::Min, Scalar::U64, count, imm(PIECES));

        let field = emit.sub(piece, imm(LEAST_PIECE));
        let field = emit.and(field, imm(0xf));
        let field = emit.or(field, imm(head));
        let field = emit.shl(field, imm(u64::from(HEAD)));
        let (first, _) = emit.halves(first);
        let first = emit.and(first, imm(PIECES));
        let first = emit.shl(first, imm(FIRST_PIECE));
        let (count, _) = emit.halves(count);
        let count = emit.shl(count, imm(PIECE_COUNT));
        let fields = emit.or(field, first);
        let fields = emit.or(fields, count);

        let none = emit.setp(Compare::Eq, Scalar::U32, total, imm(0));
        let usual = imm((Kind::Range as u64) << HEAD);
        let upper = emit.selp(Scalar::B32, usual, fields, none);
        emit.join(imm(0), upper)
    })
}
