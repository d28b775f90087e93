//! Elements and the words that they make up.

use super::{Access, Run};
use crate::emit::{Emit, imm};
use crate::phases::copied_number;
use orias_ori::analysis::DefUse;
use orias_ori::operation::{Ftz, Round, Sat, Scalar, SourceType};
use orias_ori::{AbstractOp, Function, Operand, Operation, Value};
use smallvec::SmallVec;

/// The elements of a run as words, the first lowest.
pub(super) fn packed(emit: &mut Emit<'_>, run: &Run) -> Vec<Value> {
    let permute = |emit: &mut Emit<'_>, low: Operand, high: Operand, selector: u64| {
        emit.op(AbstractOp::Prmt, (), &[low, high, imm(selector)])
    };
    if run[0].bytes == 8 {
        return run.iter().flat_map(|it| emit.words(it.value)).collect();
    }
    let per_word = (4 / run[0].bytes) as usize;
    let words = run.chunks(per_word).map(|chunk| {
        let values: SmallVec<[Operand; 4]> = chunk.iter().map(|it| it.value.into()).collect();
        let word = match values[..] {
            [low, high] => match both_converted(emit, chunk) {
                Some(pair) => pair,
                None => permute(emit, low, high, 0x5410),
            },
            [a, b, c, d] => {
                let low = permute(emit, a, b, 0x3240);
                let high = permute(emit, c, d, 0x3240);
                permute(emit, low, high, 0x5410)
            }
            _ => values[0],
        };
        emit.as_value(Scalar::B32, word)
    });
    words.collect::<Vec<Value>>()
}

/// Two halves that are conversions of singles, by the one instruction that converts two.
fn both_converted(emit: &mut Emit<'_>, chunk: &[Access]) -> Option<Operand> {
    let func = &*emit.func();
    let conversion = |value: Value| {
        let inst = func.defining_inst(value)?;
        let Operation::Abstract(op @ AbstractOp::Cvt, mods) = func.inst(inst).operation() else {
            return None;
        };
        let row = op.row();
        let source = row.modifier::<SourceType>(mods)?;
        let pair = match row.modifier::<Scalar>(mods)? {
            Scalar::F16 => Scalar::F16x2,
            Scalar::Bf16 => Scalar::Bf16x2,
            _ => return None,
        };
        let (round, sat) = (row.modifier::<Round>(mods)?, row.modifier::<Sat>(mods)?);
        let &[_, single] = func.operands(inst) else {
            return None;
        };
        let plain = Scalar::from(source) == Scalar::F32
            && row.modifier::<Ftz>(mods) != Some(Ftz::Ftz)
            && func.inst(inst).guard().is_always()
            && single.mods().is_empty();
        plain.then_some(((round, sat, pair, source), single))
    };
    let (low, high) = (conversion(chunk[0].value)?, conversion(chunk[1].value)?);
    let alike = low.0 == high.0;
    alike.then(|| emit.op(AbstractOp::CvtPair, low.0, &[high.1, low.1]))
}

/// An element of a run, of its words. With `lower` nobody looks at the bits above it.
pub(super) fn unpacked(
    emit: &mut Emit<'_>,
    words: &[Value],
    run: &Run,
    element: usize,
    lower: bool,
) -> Operand {
    let bytes = run[0].bytes;
    if bytes == 8 {
        return emit.collect(&words[2 * element..2 * element + 2]).into();
    }
    let per_word = (4 / bytes) as usize;
    let word = Operand::from(words[element / per_word]);
    if bytes == 4 {
        return word;
    }
    let bits = 8 * bytes as u64;
    let shift = bits * (element % per_word) as u64;
    let signed = is_signed(&run[0]);
    let scalar = if signed { Scalar::S32 } else { Scalar::U32 };
    match shift {
        0 if lower => word,
        shift if lower || shift + bits == 32 => match shift + bits {
            32 => emit.shr(scalar, word, imm(shift)),
            _ => emit.shr(Scalar::U32, word, imm(shift)),
        },
        shift if signed => {
            let up = emit.shl(word, imm(32 - bits - shift));
            emit.shr(Scalar::S32, up, imm(32 - bits))
        }
        0 => emit.and(word, imm((1 << bits) - 1)),
        shift => {
            let down = emit.shr(Scalar::U32, word, imm(shift));
            emit.and(down, imm((1 << bits) - 1))
        }
    }
}

/// Whether what a guarded load keeps is an element, too, as far as somebody reads it: bits above are not carried along.
pub(super) fn keeps_element(func: &Function, uses: &DefUse, load: &Access) -> bool {
    let &[kept] = func.kept(load.inst) else {
        return func.kept(load.inst).is_empty();
    };
    if load.bytes >= 4 || reads_lower_bits(func, uses, load.value, load.bytes) {
        return true;
    }
    let number = match kept {
        Operand::Imm(bits) => Some(bits.bits()),
        kept => copied_number(func, kept).and_then(|it| match it {
            Operand::Imm(bits) => Some(bits.bits()),
            _ => None,
        }),
    };
    let signs = 8 * load.bytes as u64 - u64::from(is_signed(load));
    number.is_some_and(|number| number & 0xffff_ffff < 1 << signs)
}

/// Whether a load extends its sign.
fn is_signed(load: &Access) -> bool {
    let scalar = AbstractOp::Ld.row().modifier::<Scalar>(load.mods);
    scalar.is_some_and(|scalar| matches!(scalar, Scalar::S8 | Scalar::S16))
}

/// Whether all who read `value` look at its lowest bytes and nothing else.
pub(super) fn reads_lower_bits(func: &Function, uses: &DefUse, value: Value, bytes: i64) -> bool {
    uses.uses(value).iter().all(|it| {
        let asked = match func.opcode(it.inst).as_abstract() {
            Some(AbstractOp::Cvt) => func.modifier::<SourceType>(it.inst).map(Scalar::from),
            Some(AbstractOp::Fadd | AbstractOp::Fsub | AbstractOp::Fmul | AbstractOp::Ffma) => {
                let scalar = func.modifier::<Scalar>(it.inst);
                scalar.filter(|it| matches!(it, Scalar::F16 | Scalar::Bf16))
            }
            _ => None,
        };
        asked.is_some_and(|scalar| i64::from(scalar.bits()) <= 8 * bytes)
    })
}
