//! `mma` and `mma.sp`.
//!
//! A product that the machine has becomes one `mma` or `mma_sp`, its fragments tuples of registers. The others are made of those it
//! has, by the same arithmetic as ptxas, so that every bit is the same:
//!
//! | PTX | by |
//! | --- | --- |
//! | `e4m3`, `e5m2` | two products of halves that start from zero, and one sum with C (`narrow`) |
//! | `s4`, `u4` | two products of bytes, the even and the odd elements, and one sum with C (`narrow`) |
//! | `b1` with `.xor` | two products with `.and`: what is set in A alone, and in B alone (`narrow`) |
//! | sparse `e4m3`, `e5m2` | two sparse products of halves; B and the metadata change lanes (`sparse`) |
//! | `f64` of sixteen rows | those of eight, four deep: every step is rounded in both, in the same order |
//! | `m8n8k4` of halves | shuffles and multiply-adds in single precision (`quads`) |
//!
//! Under a guard, the one instruction carries it; what takes several is branched around.

pub(super) mod fragments;
mod narrow;
mod quads;
mod sparse;

use super::body::{Body, Lowered, Statement, unsupported};
use super::memory::load_vector;
use super::modifiers::modifier;
use super::movement::{pack_elements, write_elements};
use super::operands::scalar;
use crate::emit::{Emit, Mods as _, imm};
use orias_ori::operation::{
    AbstractOp, BitOp, Layout, MatrixShape, Modifier as _, Round, Sat, Scalar, Second, Shuffle,
    SourceType,
};
use orias_ori::{Class, Guard, Operand, Type, Value};
use orias_ptx::grammar::Modifier;
use orias_ptx::types::Type as PtxType;

/// What a product multiplies and how it adds.
#[derive(Clone, Copy)]
struct Product {
    shape: MatrixShape,
    /// The layouts of A and B in registers.
    layouts: [Layout; 2],
    /// The types of D, A, B and C.
    types: [PtxType; 4],
    round: Round,
    saturates: bool,
    bits: BitOp,
    /// A is half empty.
    sparse: bool,
}

/// The fragments of one lane, as words; pairs of words for doubles.
struct Fragments {
    a: Vec<Operand>,
    b: Vec<Operand>,
    c: Vec<Operand>,
    /// The metadata and the selector of a sparse product.
    places: Option<(Operand, u64)>,
}

/// Reads off what a form says.
fn product(statement: &Statement<'_>) -> Lowered<Product> {
    let form = statement.form;
    let types: Vec<PtxType> = form.types().collect();
    let (Some(shape), &[d, a, b, c]) = (modifier::<MatrixShape>(form), &types[..]) else {
        return unsupported("");
    };
    let layouts: Vec<Layout> = form
        .modifiers()
        .filter_map(|it| {
            Layout::ALL
                .iter()
                .copied()
                .find(|layout| layout.to_string() == it.name())
        })
        .collect();
    let &[rows, columns] = &layouts[..] else {
        return unsupported("");
    };
    let bits = match (a, form.has(Modifier::And)) {
        (PtxType::B1, true) => BitOp::AndPopc,
        (PtxType::B1, false) => BitOp::XorPopc,
        _ => BitOp::None,
    };
    Ok(Product {
        shape,
        layouts: [rows, columns],
        types: [d, a, b, c],
        round: modifier(form).unwrap_or(Round::Default),
        saturates: form.has(Modifier::Satfinite),
        bits,
        sparse: form.has(Modifier::Sp) || form.has(Modifier::SpOrderedMetadata),
    })
}

/// `mma` and `mma.sp`
pub(super) fn multiply(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let product = product(statement)?;
    if product.is_native() {
        return native(body, statement, product);
    }
    body.branch_if_guarded(|body| {
        let fragments = fragments(body, statement, product)?;
        let words = match product.types[1] {
            PtxType::F16 => quads::multiply(body, product, &fragments)?,
            PtxType::F64 => doubles(body, product, &fragments)?,
            PtxType::E4m3 | PtxType::E5m2 if product.sparse => {
                sparse::multiply(body, product, &fragments)?
            }
            PtxType::E4m3 | PtxType::E5m2 | PtxType::S4 | PtxType::U4 | PtxType::B1 => {
                narrow::multiply(body, product, &fragments)?
            }
            _ => return unsupported(""),
        };
        let destinations = body.element_destinations(statement, 0)?;
        write_elements(body, &destinations, &words, register_type(product.types[0]))
    })
}

/// Products of doubles of sixteen rows, by those of eight rows and a depth of four: one fused step after the other, as the larger ones do it.
fn doubles(
    body: &mut Body<'_, '_>,
    product: Product,
    fragments: &Fragments,
) -> Lowered<Vec<Operand>> {
    let step = Product {
        shape: MatrixShape::M8n8k4,
        ..product
    };
    let mut sums = Vec::with_capacity(fragments.c.len());
    // Rows 0 to 7, then 8 to 15: their elements take turns in A, and follow one another in C.
    for (half, c) in fragments.c.chunks(2).enumerate() {
        let mut sum = c.to_vec();
        for (depth, &b) in fragments.b.iter().enumerate() {
            let fragments = Fragments {
                a: vec![fragments.a[2 * depth + half]],
                b: vec![b],
                c: sum,
                places: None,
            };
            sum = fragments::step_of(body, step, fragments)?;
        }
        sums.extend(sum);
    }
    Ok(sums)
}

/// The fragments that are read.
fn fragments(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    product: Product,
) -> Lowered<Fragments> {
    let mut read = |index: usize, ty| {
        let Some(operand) = statement.operands.get(index) else {
            return unsupported("");
        };
        body.elements(statement, operand, ty)
    };
    let [_, a, b, c] = product.types.map(register_type);
    let (a, b, c) = (read(1, a)?, read(2, b)?, read(3, c)?);
    let places = match product.sparse {
        true => Some((body.source(statement, 4)?, body.immediate(statement, 5)?)),
        false => None,
    };
    Ok(Fragments { a, b, c, places })
}

/// The type of the registers that hold elements of `ty`.
fn register_type(ty: PtxType) -> PtxType {
    match ty {
        PtxType::F64 => PtxType::F64,
        _ => PtxType::B32,
    }
}

/// One instruction.
fn native(body: &mut Body<'_, '_>, statement: &Statement<'_>, product: Product) -> Lowered {
    let Fragments { a, b, c, places } = fragments(body, statement, product)?;
    let destinations = body.element_destinations(statement, 0)?;
    let ty = register_type(product.types[0]);
    let width = ty.bits();
    let count = destinations.len() as u32 * width / 32;
    let tuple = u8::try_from(count)
        .ok()
        .and_then(|count| Type::tuple(Class::R, count));
    let Some(tuple) = tuple else {
        return unsupported("");
    };
    let mut operands: Vec<Operand> = body.with(|emit| {
        [a, b, c]
            .map(|elements| pack_elements(emit, &elements, width).into())
            .to_vec()
    })?;
    let op = match places {
        Some((metadata, selector)) => {
            operands.extend([metadata, imm(selector)]);
            AbstractOp::MmaSparse
        }
        None => AbstractOp::Mma,
    };
    let mods = product.mods()?;
    load_vector(body, op, mods, tuple, &operands, &destinations, ty)
}

impl Product {
    /// Whether the machine has it.
    fn is_native(self) -> bool {
        match self.types[1] {
            PtxType::F16 => self.shape != MatrixShape::M8n8k4,
            PtxType::B1 => self.bits == BitOp::AndPopc,
            // The larger shapes want tuples aligned to their length, which the allocator does not do yet.
            PtxType::F64 => self.shape == MatrixShape::M8n8k4,
            PtxType::Bf16 | PtxType::Tf32 | PtxType::S8 | PtxType::U8 => true,
            _ => false,
        }
    }

    /// The modifiers of the operation.
    fn mods(self) -> Lowered<orias_ori::AbstractMods> {
        let [d, a, b, _] = self.types;
        let second = scalar_second(a, b)?;
        let sat = match self.saturates {
            true => Sat::Satfinite,
            false => Sat::Wrap,
        };
        let mods = (
            self.shape,
            sat,
            self.bits,
            self.round,
            scalar(d)?,
            SourceType::from(scalar(a)?),
            second,
        );
        match mods.pack(AbstractOp::Mma.row()) {
            Some(mods) => Ok(mods),
            None => unsupported(""),
        }
    }
}

/// The type of B where it is not that of A.
pub(super) fn scalar_second(a: PtxType, b: PtxType) -> Lowered<Second> {
    Ok(match b {
        _ if a == b => Second::Same,
        PtxType::S8 => Second::S8,
        PtxType::U8 => Second::U8,
        PtxType::E4m3 => Second::E4m3,
        PtxType::E5m2 => Second::E5m2,
        _ => return unsupported(""),
    })
}

/// A product of words that the machine has, with the given types, and what it yields.
struct Step {
    shape: MatrixShape,
    result: Scalar,
    left: Scalar,
    right: Second,
    bits: BitOp,
}

impl Step {
    /// D of A, B and C, word by word.
    fn multiply(
        &self,
        emit: &mut Emit<'_>,
        [a, b, c]: [&[Operand]; 3],
        places: Option<(Operand, u64)>,
    ) -> Vec<Operand> {
        let mut operands: Vec<Operand> = [a, b, c]
            .iter()
            .map(|words| pack_elements(emit, words, 32).into())
            .collect();
        let op = match places {
            Some((metadata, selector)) => {
                operands.extend([metadata, imm(selector)]);
                AbstractOp::MmaSparse
            }
            None => AbstractOp::Mma,
        };
        let tuple = u8::try_from(c.len())
            .ok()
            .and_then(|count| Type::tuple(Class::R, count));
        let value = emit.func().create_value(tuple.unwrap_or(Type::R));
        let mods = (
            self.shape,
            self.bits,
            self.result,
            SourceType::from(self.left),
            self.right,
        );
        emit.put(op, mods, &[value.into()], &operands, Guard::ALWAYS, &[]);
        emit.words(value).into_iter().map(Operand::from).collect()
    }
}

/// The number of the lane.
fn lane(body: &mut Body<'_, '_>) -> Lowered<Operand> {
    body.compute(
        AbstractOp::Sreg,
        (orias_ori::operation::Special::LaneId,),
        &[],
    )
}

/// The word of another lane.
fn shuffled(emit: &mut Emit<'_>, mode: Shuffle, word: Operand, by: Operand) -> Operand {
    let value: Value = emit.func().create_value(Type::R);
    emit.put(
        AbstractOp::Shfl,
        (mode,),
        &[value.into(), Operand::None],
        &[word, by, imm(0x1f), imm(0xffff_ffff)],
        Guard::ALWAYS,
        &[],
    );
    value.into()
}

/// Each word of pairs of narrow floats, as two words of pairs of halves: the low pairs, and the high ones.
fn widened(emit: &mut Emit<'_>, words: &[Operand], ty: PtxType) -> [Vec<Operand>; 2] {
    let from = match ty {
        PtxType::E4m3 => SourceType::E4m3x2,
        _ => SourceType::E5m2x2,
    };
    let unpack = |emit: &mut Emit<'_>, pair: Operand| {
        emit.op(AbstractOp::CvtUnpack, (Scalar::F16x2, from), &[pair])
    };
    let low = words.iter().map(|&word| unpack(emit, word)).collect();
    let high = words
        .iter()
        .map(|&word| {
            let pair = emit.shr(Scalar::U32, word, imm(16));
            unpack(emit, pair)
        })
        .collect();
    [low, high]
}

/// The sums of C and what was added up without it, in the type of D.
fn added(emit: &mut Emit<'_>, ty: PtxType, c: &[Operand], sums: &[Operand]) -> Vec<Operand> {
    let scalar = match ty {
        PtxType::F16 => Scalar::F16x2,
        _ => Scalar::F32,
    };
    c.iter()
        .zip(sums)
        .map(|(&c, &sum)| emit.op(AbstractOp::Fadd, (Round::Rn, scalar), &[c, sum]))
        .collect()
}
