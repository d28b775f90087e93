//! Matrix operations of one warp.
//!
//! A fragment is spread over the warp as PTX's `mma` describes: lane `4 g + t` holds, of the left matrix, elements of rows
//! `g` and `g + 8` and of the columns that belong to `t`; of the right matrix, elements of column `g`; of the sum, two
//! neighbours in column `2 t` of rows `g` and `g + 8`. How sums are rounded is `eval`'s.

use super::Table;
use crate::core::Core;
use crate::fault::{Cause, FaultKind};
use crate::operand::{Condition, Lack, Lanes, Reader, Source, Target};
use crate::program::Action;
use orias_eval::float::{Arithmetic, Format, Rounding};
use orias_eval::matrix::{DotRule, SparseElements};
use orias_sass::slot_names as slot;
use orias_sass::{ModifierName, Op, modifier_names as name, modifier_values as value};

pub(super) const TABLE: Table = &[
    (Op::HMMA, half_multiply),
    (Op::HMMA_SP, sparse_multiply),
    (Op::IMMA, integer_multiply),
    (Op::IMMA_SP, sparse_integer_multiply),
    (Op::BMMA, bit_multiply),
    (Op::DMMA, double_multiply),
    (Op::MOVM, transpose),
];

/// The sizes of a product, and how many elements of an operand stand side by side in a register.
#[derive(Clone, Copy)]
pub(super) struct ProductShape {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) packed: usize,
}

impl ProductShape {
    /// Row and column of element `part` of register `index` of the left matrix.
    pub(super) fn left(self, lane: usize, index: usize, part: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        let blocks = self.m / 8;
        let (block, step) = (index % blocks, index / blocks);
        (
            group + 8 * block,
            thread * self.packed + part + 4 * self.packed * step,
        )
    }

    /// Row and column of element `part` of register `index` of the right matrix.
    pub(super) fn right(self, lane: usize, index: usize, part: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        (thread * self.packed + part + 4 * self.packed * index, group)
    }

    /// Row and column of an element of the sum.
    pub(super) fn sum(lane: usize, element: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        (group + 8 * (element / 2), thread * 2 + element % 2)
    }

    pub(super) fn left_registers(self) -> usize {
        self.m * self.k / (32 * self.packed)
    }

    fn right_registers(self) -> usize {
        self.k * self.n / (32 * self.packed)
    }
}

/// A matrix by rows.
pub(super) struct Matrix {
    pub(super) columns: usize,
    elements: Vec<u64>,
}

impl Matrix {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        Self {
            columns,
            elements: vec![0; rows * columns],
        }
    }

    pub(super) fn row(&self, row: usize) -> &[u64] {
        &self.elements[row * self.columns..(row + 1) * self.columns]
    }

    pub(super) fn at(&mut self, (row, column): (usize, usize)) -> &mut u64 {
        &mut self.elements[row * self.columns + column]
    }
}

/// Which element of a register a part is.
pub(super) type Part = fn(u64, usize) -> u64;

pub(super) fn half_part(register: u64, part: usize) -> u64 {
    register >> (16 * part) & 0xffff
}

pub(super) fn byte_part(register: u64, part: usize) -> u64 {
    register >> (8 * part) & 0xff
}

pub(super) fn tf32_part(register: u64, _: usize) -> u64 {
    register >> 13 & 0x7_ffff
}

pub(super) fn whole(register: u64, _: usize) -> u64 {
    register
}

/// The registers of an operand, one value per lane each; pairs for double precision.
fn registers(core: &mut Core<'_>, source: &Source, count: usize, wide: bool) -> Vec<[u64; 32]> {
    (0..count as u8)
        .map(|index| {
            if wide {
                let (low, high) = (
                    core.word(source, 2 * index),
                    core.word(source, 2 * index + 1),
                );
                std::array::from_fn(|l| u64::from(high[l]) << 32 | u64::from(low[l]))
            } else {
                core.word(source, index).map(u64::from)
            }
        })
        .collect()
}

/// The left factor by rows.
pub(super) fn left_factor(
    core: &mut Core<'_>,
    shape: ProductShape,
    a: &Source,
    part: Part,
    wide: bool,
) -> Matrix {
    let mut left = Matrix::new(shape.m, shape.k);
    for (index, lanes) in registers(core, a, shape.left_registers(), wide)
        .iter()
        .enumerate()
    {
        for (lane, register) in lanes.iter().enumerate() {
            for element in 0..shape.packed {
                *left.at(shape.left(lane, index, element)) = part(*register, element);
            }
        }
    }
    left
}

/// The right factor by columns.
fn right_factor(
    core: &mut Core<'_>,
    shape: ProductShape,
    b: &Source,
    part: Part,
    wide: bool,
) -> Matrix {
    let mut right = Matrix::new(shape.n, shape.k);
    for (index, lanes) in registers(core, b, shape.right_registers(), wide)
        .iter()
        .enumerate()
    {
        for (lane, register) in lanes.iter().enumerate() {
            for element in 0..shape.packed {
                let (row, column) = shape.right(lane, index, element);
                *right.at((column, row)) = part(*register, element);
            }
        }
    }
    right
}

/// Both factors: the left one by rows, the right one by columns.
fn factors(
    core: &mut Core<'_>,
    shape: ProductShape,
    [a, b]: [&Source; 2],
    part: Part,
    wide: bool,
) -> (Matrix, Matrix) {
    (
        left_factor(core, shape, a, part, wide),
        right_factor(core, shape, b, part, wide),
    )
}

/// All lanes of a warp must take part.
pub(super) fn whole_warp(core: &Core<'_>) -> Result<(), Cause> {
    if core.active == u32::MAX {
        return Ok(());
    }
    Err(FaultKind::Unsupported(format!(
        "a matrix operation run by lanes {:#010x} only",
        core.active
    ))
    .into())
}

/// Elements of the sum that a lane holds, and how many of them stand in a register.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) elements: usize,
    /// Two halves in a register.
    pub(super) packed: bool,
    /// Two registers for an element.
    pub(super) wide: bool,
}

impl Sums {
    /// So many elements, each in a register of its own.
    fn words(elements: usize) -> Sums {
        Sums {
            elements,
            packed: false,
            wide: false,
        }
    }

    /// What is added to: the accumulator, or nothing where the predicate says so.
    pub(super) fn read_if(
        self,
        core: &mut Core<'_>,
        source: &Source,
        p: &Condition,
    ) -> Vec<[u64; 32]> {
        let sum = self.read(core, source);
        match core.condition(p) {
            0 => vec![[0; 32]; self.elements],
            _ => sum,
        }
    }

    pub(super) fn read(self, core: &mut Core<'_>, source: &Source) -> Vec<[u64; 32]> {
        if self.packed {
            let words = registers(core, source, self.elements / 2, false);
            words
                .iter()
                .flat_map(|lanes| [lanes.map(|x| x & 0xffff), lanes.map(|x| x >> 16)])
                .collect()
        } else {
            registers(core, source, self.elements, self.wide)
        }
    }

    pub(super) fn write(self, core: &mut Core<'_>, target: &Target, values: &[[u64; 32]]) {
        let mut put = |index: usize, value: &Lanes| core.put(target, index as u8, value);
        if self.packed {
            for (index, pair) in values.chunks(2).enumerate() {
                let value: Lanes =
                    std::array::from_fn(|l| (pair[1][l] as u32) << 16 | pair[0][l] as u32);
                put(index, &value);
            }
        } else if self.wide {
            for (index, value) in values.iter().enumerate() {
                put(2 * index, &value.map(|x| x as u32));
                put(2 * index + 1, &value.map(|x| (x >> 32) as u32));
            }
        } else {
            for (index, value) in values.iter().enumerate() {
                put(index, &value.map(|x| x as u32));
            }
        }
    }
}

/// The sum of a product, element by element.
pub(super) fn multiply(
    sums: Sums,
    left: &Matrix,
    right: &Matrix,
    c: &[[u64; 32]],
    dot: impl Fn(&[u64], &[u64], u64) -> u64,
) -> Vec<[u64; 32]> {
    (0..sums.elements)
        .map(|element| {
            std::array::from_fn(|lane| {
                let (row, column) = ProductShape::sum(lane, element);
                dot(left.row(row), right.row(column), c[element][lane])
            })
        })
        .collect()
}

/// What an HMMA multiplies and how it adds.
fn half_rule(reader: &Reader<'_>, k: usize) -> Result<(Format, Part, DotRule), Lack> {
    let (operand, part): (Format, Part) = match reader.modifier(name::TYPE)? {
        value::F16 => (Format::F16, half_part),
        value::BF16 => (Format::BF16, half_part),
        value::TF32 => (Format::TF32, tf32_part),
        other => return Err(format!("type {other}")),
    };
    let (result, rounding) = match reader.modifier(name::ACC)? {
        value::F32 => (Format::F32, Rounding::Zero),
        _ => (Format::F16, Rounding::NearestEven),
    };
    let rule = DotRule {
        group: k,
        kept_bits: 25,
        result,
        rounding,
        cut_bits: 0,
    };
    Ok((operand, part, rule))
}

/// A product of dense matrices, of which `part` takes an element out of a register; `dot` adds up a row times a column.
fn dense_product(
    reader: &Reader<'_>,
    shape: ProductShape,
    sums: Sums,
    part: Part,
    dot: impl Fn(&[u64], &[u64], u64) -> u64 + Send + Sync + 'static,
) -> Result<Action, Lack> {
    let (d, p) = (reader.target(slot::D)?, reader.condition(slot::P)?);
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    Ok(Box::new(move |core| {
        whole_warp(core)?;
        let (left, right) = factors(core, shape, [&a, &b], part, sums.wide);
        let sum = sums.read_if(core, &c, &p);
        let out = multiply(sums, &left, &right, &sum, &dot);
        sums.write(core, &d, &out);
        Ok(())
    }))
}

/// A product whose left matrix is stored without half of its elements; `dense` is its shape with them.
fn sparse_product(
    reader: &Reader<'_>,
    dense: ProductShape,
    sums: Sums,
    (elements, part): (SparseElements, Part),
    dot: impl Fn(&[u64], &[u64], u64) -> u64 + Send + Sync + 'static,
) -> Result<Action, Lack> {
    let (d, p) = (reader.target(slot::D)?, reader.condition(slot::P)?);
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let sparse = Sparse::of(reader, elements)?;
    let stored = ProductShape {
        k: dense.k / 2,
        ..dense
    };
    Ok(Box::new(move |core| {
        whole_warp(core)?;
        let left = left_factor(core, stored, &a, part, false);
        let right = right_factor(core, dense, &b, part, false);
        let sum = sums.read_if(core, &c, &p);
        let out = sparse.multiply(core, sums, &left, &right, &sum, &dot);
        sums.write(core, &d, &out);
        Ok(())
    }))
}

/// Refuses factors with a minus, which only the sum of these products may have.
fn refuse_negated(reader: &Reader<'_>) -> Result<(), Lack> {
    match reader.sources([slot::A, slot::B])? {
        [a, b] if a.negate || b.negate => Err("a negated matrix".to_owned()),
        _ => Ok(()),
    }
}

fn half_multiply(reader: &Reader<'_>) -> Result<Action, Lack> {
    refuse_negated(reader)?;
    let k = match reader.modifier(name::SHAPE)? {
        value::_1684 => 4,
        value::_1688 => 8,
        value::_16816 => 16,
        other => return Err(format!("shape {other}")),
    };
    let (operand, part, rule) = half_rule(reader, k)?;
    let shape = ProductShape {
        m: 16,
        n: 8,
        k,
        packed: if operand == Format::TF32 { 1 } else { 2 },
    };
    let sums = Sums {
        elements: 4,
        packed: rule.result == Format::F16,
        wide: false,
    };
    let dot = move |a: &[u64], b: &[u64], c| rule.dot(operand, a, b, c);
    dense_product(reader, shape, sums, part, dot)
}

/// What is read besides the fragments of a sparse product: the left matrix holds half of the elements, `e` tells which, and `s`
/// which lanes of four hold the `e` that counts.
pub(super) struct Sparse {
    elements: SparseElements,
    e: Source,
    selector: usize,
}

impl Sparse {
    pub(super) fn of(reader: &Reader<'_>, elements: SparseElements) -> Result<Self, Lack> {
        Ok(Self {
            elements,
            e: reader.source(slot::E)?,
            selector: reader.immediate(slot::S)? as usize,
        })
    }

    /// The sum of a product, element by element, of the stored elements of `left` and those of `right` that they meet.
    pub(super) fn multiply(
        &self,
        core: &mut Core<'_>,
        sums: Sums,
        left: &Matrix,
        right: &Matrix,
        c: &[[u64; 32]],
        dot: impl Fn(&[u64], &[u64], u64) -> u64,
    ) -> Vec<[u64; 32]> {
        let metadata = core.word(&self.e, 0);
        let stored = left.columns;
        (0..sums.elements)
            .map(|element| {
                std::array::from_fn(|lane| {
                    let (row, column) = ProductShape::sum(lane, element);
                    let chosen: Vec<u64> = (0..stored)
                        .map(|at| {
                            let (lane, shift) =
                                self.elements.metadata(stored, self.selector, row, at);
                            let metadata = metadata[4 * (row % 8) + lane] >> shift;
                            right.row(column)[self.elements.dense(at, metadata)]
                        })
                        .collect();
                    dot(left.row(row), &chosen, c[element][lane])
                })
            })
            .collect()
    }
}

fn sparse_multiply(reader: &Reader<'_>) -> Result<Action, Lack> {
    refuse_negated(reader)?;
    let k = match reader.modifier(name::SHAPE)? {
        value::_1688 => 8,
        value::_16816 => 16,
        value::_16832 => 32,
        other => return Err(format!("shape {other}")),
    };
    // Products that are not stored are zero and add nothing: only the stored ones are added up.
    let (operand, part, rule) = half_rule(reader, k / 2)?;
    let single = operand == Format::TF32;
    let dense = ProductShape {
        m: 16,
        n: 8,
        k,
        packed: if single { 1 } else { 2 },
    };
    let sums = Sums {
        elements: 4,
        packed: rule.result == Format::F16,
        wide: false,
    };
    let elements = match single {
        true => SparseElements::Singles,
        false => SparseElements::Halves,
    };
    let dot = move |a: &[u64], b: &[u64], c| rule.dot(operand, a, b, c);
    sparse_product(reader, dense, sums, (elements, part), dot)
}

/// How bytes are multiplied and added.
#[derive(Clone, Copy)]
pub(super) struct ByteRule {
    left_signed: bool,
    right_signed: bool,
    saturates: bool,
}

impl ByteRule {
    pub(super) fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        let signed =
            |name: ModifierName| Ok::<bool, Lack>(super::is_signed(reader.modifier(name)?));
        Ok(Self {
            left_signed: signed(name::TA)?,
            right_signed: signed(name::TB)?,
            saturates: reader.is(name::SAT, value::SAT),
        })
    }

    pub(super) fn dot(self, a: &[u64], b: &[u64], c: u64) -> u64 {
        let value = |x: u64, signed: bool| {
            if signed {
                i64::from(x as u8 as i8)
            } else {
                x as i64
            }
        };
        let products: i64 = a
            .iter()
            .zip(b)
            .map(|(a, b)| value(*a, self.left_signed) * value(*b, self.right_signed))
            .sum();
        let total = products + i64::from(c as u32 as i32);
        let limited = if self.saturates {
            total.clamp(i32::MIN.into(), i32::MAX.into())
        } else {
            total
        };
        limited.cast_unsigned() & 0xffff_ffff
    }
}

fn sparse_integer_multiply(reader: &Reader<'_>) -> Result<Action, Lack> {
    let k = match reader.modifier(name::SHAPE)? {
        value::_16832 => 32,
        value::_16864 => 64,
        other => return Err(format!("shape {other}")),
    };
    let dense = ProductShape {
        m: 16,
        n: 8,
        k,
        packed: 4,
    };
    let rule = ByteRule::of(reader)?;
    let bytes = (SparseElements::Bytes, byte_part as Part);
    sparse_product(reader, dense, Sums::words(4), bytes, move |a, b, c| {
        rule.dot(a, b, c)
    })
}

fn integer_multiply(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (m, k) = match reader.modifier(name::SHAPE)? {
        value::_8816 => (8, 16),
        value::_16816 => (16, 16),
        value::_16832 => (16, 32),
        other => return Err(format!("shape {other}")),
    };
    let shape = ProductShape {
        m,
        n: 8,
        k,
        packed: 4,
    };
    let rule = ByteRule::of(reader)?;
    dense_product(
        reader,
        shape,
        Sums::words(m / 4),
        byte_part,
        move |a, b, c| rule.dot(a, b, c),
    )
}

fn bit_multiply(reader: &Reader<'_>) -> Result<Action, Lack> {
    // Thirty-two bits of a register count as one element.
    let (m, k) = match reader.modifier(name::SHAPE)? {
        value::_88128 => (8, 4),
        value::_168128 => (16, 4),
        value::_168256 => (16, 8),
        other => return Err(format!("shape {other}")),
    };
    let shape = ProductShape {
        m,
        n: 8,
        k,
        packed: 1,
    };
    dense_product(reader, shape, Sums::words(m / 4), whole, |a, b, c| {
        let ones: u32 = a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum();
        u64::from((c as u32).wrapping_add(ones))
    })
}

fn double_multiply(reader: &Reader<'_>) -> Result<Action, Lack> {
    let sources = reader.sources([slot::A, slot::B, slot::C])?;
    if (sources.iter()).any(|source| source.negate || source.absolute) {
        return Err("a negated matrix".to_owned());
    }
    let (m, k) = match reader.modifier(name::SHAPE)? {
        value::_8X8X4 => (8, 4),
        value::_16X8X4 => (16, 4),
        value::_16X8X8 => (16, 8),
        value::_16X8X16 => (16, 16),
        other => return Err(format!("shape {other}")),
    };
    let how = Arithmetic {
        rounding: super::float::rounding(reader)?,
        ..Arithmetic::plain(Format::F64)
    };
    let shape = ProductShape {
        m,
        n: 8,
        k,
        packed: 1,
    };
    let sums = Sums {
        elements: m / 4,
        packed: false,
        wide: true,
    };
    dense_product(reader, shape, sums, whole, move |a, b, c| {
        a.iter()
            .zip(b)
            .fold(c, |sum, (a, b)| how.fused(*a, *b, sum))
    })
}

/// An 8×8 matrix of 16-bit elements, two neighbours of a row in each lane, transposed.
fn transpose(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, a) = (reader.target(slot::D)?, reader.source(slot::A)?);
    if !reader.is(name::MODE, value::MT88) {
        return Err(format!(
            "mode {:?}",
            reader.instruction.modifier(name::MODE)
        ));
    }
    Ok(Box::new(move |core| {
        let x = core.word(&a, 0);
        let element =
            |row: usize, column: usize| x[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
        let value: Lanes = std::array::from_fn(|lane| {
            let (row, column) = (lane / 4, 2 * (lane % 4));
            element(column + 1, row) << 16 | element(column, row)
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}
