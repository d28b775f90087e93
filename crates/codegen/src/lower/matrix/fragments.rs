//! `wmma`: matrices whose place in registers is the compiler's business. They are the fragments of `mma`.
//!
//! **Fragments.** A fragment of A is that of one or two `mma` left factors of sixteen rows, one of B of one to four right factors of eight columns, C
//! and D are all the sums, rows first. `m8n32k16` is computed turned round, `(B' A')' = A B`: A is a right factor and B two left ones. Halves
//! have eight registers whatever they need; the last are those of the first half once more. All this is as ptxas has it, and the sums are
//! its sums: `tf32` is added up four by four.
//!
//! **Memory.** With `g = lane / 4` and `t = lane % 4`, a register of a factor holds neighbours in K of row (or column) `g`. Where memory has
//! them side by side, a word is loaded; where it has the others side by side, halves are loaded the other way and turned by `movmatrix`, bytes are
//! loaded one by one. Sums of halves are treated like that, too.

use super::super::body::{Body, Lowered, Statement, unsupported};
use super::super::memory::{load_word, store_word};
use super::super::modifiers::{modifier, space};
use super::super::movement::{pack_word, write_elements};
use super::{Fragments, Product, lane, narrow};
use crate::emit::{Emit, imm};
use orias_ori::operation::{
    AbstractOp, BitOp, Half, Layout, MatrixShape, Round, Scalar, SourceType, Space,
};
use orias_ori::{Class, Guard, Operand, SymbolPart, Type, Value};
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::types::Type as PtxType;

/// What a fragment is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Rows of the left factor; columns of the right one; both with K.
    Left,
    Right,
    /// The sum.
    Sum,
}

/// A fragment in memory.
#[derive(Clone, Copy, Debug)]
struct Fragment {
    role: Role,
    /// Rows of a left factor or of the sum, columns of a right factor.
    outer: u64,
    /// K of a factor, columns of the sum.
    inner: u64,
    /// Whether what lies side by side in memory is the inner dimension.
    by_inner: bool,
    /// Bits of an element.
    bits: u64,
    /// How many registers it has in PTX.
    registers: usize,
}

/// One register of a fragment: where the lane's first element is, and how it gets there.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Added to `g` or to the lane's place in K.
    outer: u64,
    inner: u64,
    /// How far apart the lanes' elements are in the inner dimension.
    step: u64,
}

impl Fragment {
    /// Elements that a register holds side by side in the inner dimension.
    const fn packed(self) -> u64 {
        if self.bits >= 32 { 1 } else { 32 / self.bits }
    }

    /// Whether two registers of a lane lie side by side, at an address that is a multiple of theirs: sums of words, since addresses and strides of
    /// matrices are multiples of 16 bytes.
    fn in_pairs(self) -> bool {
        self.role == Role::Sum && self.by_inner && self.bits == 32
    }

    /// The registers, in order.
    fn pieces(self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if self.role == Role::Sum {
            // A half of a row of eight columns has a register of its own only if it is wide.
            let step = 2;
            let parts: &[u64] = if self.bits == 16 { &[0] } else { &[0, 1] };
            for rows in (0..self.outer).step_by(16) {
                for column in (0..self.inner).step_by(8) {
                    for row in (rows..(rows + 16).min(self.outer)).step_by(8) {
                        pieces.extend(parts.iter().map(|part| Piece {
                            outer: row,
                            inner: column + part,
                            step,
                        }));
                    }
                }
            }
            return pieces;
        }
        let step = self.packed();
        let block = if self.role == Role::Left { 16 } else { 8 };
        for outer in (0..self.outer).step_by(block) {
            for inner in (0..self.inner).step_by(4 * step as usize) {
                for row in (outer..(outer + block as u64).min(self.outer)).step_by(8) {
                    pieces.push(Piece {
                        outer: row,
                        inner,
                        step,
                    });
                }
            }
        }
        pieces
    }
}

/// Rows, columns and depth of a shape.
fn sides(statement: &Statement<'_>) -> Option<[u64; 3]> {
    statement.form.modifiers().find_map(|it| {
        let (m, rest) = it.name().strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
    })
}

/// The fragment that a load or a store moves.
fn fragment(statement: &Statement<'_>, registers: usize) -> Lowered<(Fragment, PtxType)> {
    let (Some([m, n, k]), Some(layout), Some(ty)) = (
        sides(statement),
        modifier::<Layout>(statement.form),
        statement.form.types().next(),
    ) else {
        return unsupported("");
    };
    let by_rows = layout == Layout::Row;
    // Of A rows, of B columns have K side by side.
    let turned = (m, n) == (8, 32);
    let (role, outer, inner, by_inner) = match (statement.op, turned) {
        (Op::WmmaLoadA, false) => (Role::Left, m, k, by_rows),
        (Op::WmmaLoadA, true) => (Role::Right, m, k, by_rows),
        (Op::WmmaLoadB, false) => (Role::Right, n, k, !by_rows),
        (Op::WmmaLoadB, true) => (Role::Left, n, k, !by_rows),
        (_, false) => (Role::Sum, m, n, by_rows),
        (_, true) => (Role::Sum, n, m, !by_rows),
    };
    let fragment = Fragment {
        role,
        outer,
        inner,
        by_inner,
        bits: u64::from(ty.bits()),
        registers,
    };
    Ok((fragment, ty))
}

/// A line or an element: what depends on the lane, and what is known.
#[derive(Clone, Copy, Debug)]
struct Index {
    lane: Operand,
    known: u64,
}

impl Index {
    const fn new(lane: Operand, known: u64) -> Index {
        Index { lane, known }
    }
}

/// Addresses of a fragment in memory.
struct Memory {
    space: Space,
    /// The address of element 0.
    base: Value,
    /// Elements from line to line.
    stride: Operand,
    /// `g` and `t`.
    group: Operand,
    thread: Operand,
    /// Whether addresses have 64 bits.
    wide: bool,
    bits: u64,
}

impl Memory {
    /// The address of the element `minor` of line `major`, lines a stride apart.
    ///
    /// What lanes differ in is computed once for all pieces: known lines are added by one product, known elements are the access's offset.
    fn address(&self, emit: &mut Emit<'_>, major: Index, minor: Index) -> Operand {
        let first = emit.mad(major.lane, self.stride, minor.lane);
        let elements = match major.known {
            0 => first,
            lines => emit.mad(self.stride, imm(lines), first),
        };
        let known = imm(minor.known * self.bits / 8);
        if !self.wide {
            let bytes = self.bytes(emit, elements);
            let address = emit.add(self.base.into(), bytes);
            return emit.add(address, known);
        }
        let bytes = match self.bits {
            8.. => {
                let size = imm(self.bits / 8);
                emit.op(
                    AbstractOp::Mul,
                    (Half::Wide, Scalar::U32),
                    &[elements, size],
                )
            }
            _ => {
                let bytes = self.bytes(emit, elements);
                emit.cvt(Scalar::U64, Scalar::U32, bytes)
            }
        };
        let address = emit.binary(AbstractOp::Add, Scalar::U64, self.base.into(), bytes);
        emit.binary(AbstractOp::Add, Scalar::U64, address, known)
    }

    /// How many bytes elements take, in 32 bits.
    fn bytes(&self, emit: &mut Emit<'_>, elements: Operand) -> Operand {
        match self.bits {
            1 => emit.shr(Scalar::U32, elements, imm(3)),
            4 => emit.shr(Scalar::U32, elements, imm(1)),
            bits => emit.mul(elements, imm(bits / 8)),
        }
    }

    /// The lane's first element of a piece: `outer` and `inner`.
    fn indices(&self, emit: &mut Emit<'_>, piece: Piece) -> (Index, Index) {
        let inner = emit.mul(self.thread, imm(piece.step));
        (
            Index::new(self.group, piece.outer),
            Index::new(inner, piece.inner),
        )
    }

    /// Where an element is: `outer` and `inner` of the fragment.
    fn place(&self, emit: &mut Emit<'_>, by_inner: bool, outer: Index, inner: Index) -> Operand {
        match by_inner {
            true => self.address(emit, outer, inner),
            false => self.address(emit, inner, outer),
        }
    }
}

fn memory(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    index: usize,
    fragment: Fragment,
) -> Lowered<Memory> {
    let asked = space(statement.form);
    let (address, space) = body.address(statement, index, asked)?;
    let wide = matches!(space, Space::Generic | Space::Global);
    let scalar = if wide { Scalar::B64 } else { Scalar::B32 };
    let base = match (address.base.get(), address.symbol.expand()) {
        (Some(base), None) => Operand::from(base),
        (None, Some(symbol)) => {
            let name = Operand::Symbol {
                symbol,
                part: SymbolPart::Whole,
                addend: 0,
            };
            body.compute(AbstractOp::AddressOf, (scalar,), &[name])?
        }
        (None, None) => imm(0),
        _ => return unsupported(""),
    };
    // The stride comes behind registers and address.
    let given = 2;
    let stride = match statement.operands.len() > given {
        true => body.source(statement, given)?,
        false => imm(if fragment.by_inner {
            fragment.inner
        } else {
            fragment.outer
        }),
    };
    let lane = lane(body)?;
    let offset = imm(i64::from(address.offset) as u64);
    let integer = if wide { Scalar::U64 } else { Scalar::U32 };
    body.with(|emit| {
        let base = emit.binary(AbstractOp::Add, integer, base, offset);
        let base = emit.as_value(scalar, base);
        let stride = emit.as_value(Scalar::B32, stride).into();
        Memory {
            space,
            base,
            stride,
            group: emit.shr(Scalar::U32, lane, imm(2)),
            thread: emit.and(lane, imm(3)),
            wide,
            bits: fragment.bits,
        }
    })
}

/// A matrix of halves, transposed.
fn turned(emit: &mut Emit<'_>, word: Operand) -> Operand {
    let value = emit.func().create_value(Type::R);
    let mods = (MatrixShape::M8n8, Scalar::B16);
    emit.put(
        AbstractOp::Movmatrix,
        mods,
        &[value.into()],
        &[word],
        Guard::ALWAYS,
        &[],
    );
    value.into()
}

/// `wmma.load`
pub(in crate::lower) fn load(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let destinations = body.element_destinations(statement, 0)?;
        let (fragment, ty) = fragment(statement, destinations.len())?;
        let memory = memory(body, statement, 1, fragment)?;
        let mut registers = body.with(|emit| {
            let pieces = fragment.pieces();
            match fragment.in_pairs() {
                true => (pieces.chunks(2))
                    .flat_map(|pair| load_pair(emit, &memory, fragment, pair[0]))
                    .collect(),
                false => (pieces.iter())
                    .map(|&piece| load_piece(emit, &memory, fragment, piece))
                    .collect::<Vec<Operand>>(),
            }
        })?;
        let distinct = registers.len();
        for at in distinct..fragment.registers {
            registers.push(registers[at % distinct]);
        }
        let ty = if ty.bits() == 64 {
            PtxType::F64
        } else {
            PtxType::B32
        };
        write_elements(body, &destinations, &registers, ty)
    })
}

fn load_piece(emit: &mut Emit<'_>, memory: &Memory, fragment: Fragment, piece: Piece) -> Operand {
    let Fragment { by_inner, bits, .. } = fragment;
    if bits == 16 && !by_inner {
        // Lines of the other dimension, turned.
        let line = Index::new(memory.group, piece.inner);
        let pair = Index::new(emit.shl(memory.thread, imm(1)), piece.outer);
        let address = memory.place(emit, by_inner, pair, line);
        let word = load_word(emit, memory.space, Scalar::B32, address);
        return turned(emit, word);
    }
    let (outer, inner) = memory.indices(emit, piece);
    if bits == 8 && !by_inner {
        let bytes: Vec<Operand> = (0..4)
            .map(|at| {
                let inner = Index::new(inner.lane, inner.known + at);
                let address = memory.place(emit, by_inner, outer, inner);
                load_word(emit, memory.space, Scalar::U8, address)
            })
            .collect();
        return pack_word(emit, &bytes, 8);
    }
    let scalar = if bits == 64 { Scalar::B64 } else { Scalar::B32 };
    let address = memory.place(emit, by_inner, outer, inner);
    load_word(emit, memory.space, scalar, address)
}

/// The words of `piece` and of the one behind it.
fn load_pair(
    emit: &mut Emit<'_>,
    memory: &Memory,
    fragment: Fragment,
    piece: Piece,
) -> [Operand; 2] {
    let (outer, inner) = memory.indices(emit, piece);
    let address = memory.place(emit, fragment.by_inner, outer, inner);
    let pair = load_word(emit, memory.space, Scalar::B64, address);
    let (low, high) = emit.halves(pair);
    [low, high]
}

/// `wmma.store`
pub(in crate::lower) fn store(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let ty = match statement.form.types().next() {
            Some(PtxType::F64) => PtxType::F64,
            _ => PtxType::B32,
        };
        let registers = body.elements(statement, &statement.operands[1], ty)?;
        let (fragment, _) = fragment(statement, registers.len())?;
        let memory = memory(body, statement, 0, fragment)?;
        body.with(|emit| {
            let pieces = fragment.pieces();
            if fragment.in_pairs() {
                for (pair, piece) in registers.chunks(2).zip(pieces.chunks(2)) {
                    let (outer, inner) = memory.indices(emit, piece[0]);
                    let address = memory.place(emit, fragment.by_inner, outer, inner);
                    let pair = emit.join(pair[0], pair[1]);
                    store_word(emit, memory.space, Scalar::B64, address, pair);
                }
                return;
            }
            for (&register, piece) in registers.iter().zip(pieces) {
                store_piece(emit, &memory, fragment, piece, register);
            }
        })
    })
}

fn store_piece(
    emit: &mut Emit<'_>,
    memory: &Memory,
    fragment: Fragment,
    piece: Piece,
    register: Operand,
) {
    let Fragment { by_inner, bits, .. } = fragment;
    if bits == 16 && !by_inner {
        let line = Index::new(memory.group, piece.inner);
        let pair = Index::new(emit.shl(memory.thread, imm(1)), piece.outer);
        let address = memory.place(emit, by_inner, pair, line);
        let word = turned(emit, register);
        store_word(emit, memory.space, Scalar::B32, address, word);
        return;
    }
    let (outer, inner) = memory.indices(emit, piece);
    let scalar = if bits == 64 { Scalar::B64 } else { Scalar::B32 };
    let address = memory.place(emit, by_inner, outer, inner);
    store_word(emit, memory.space, scalar, address, register);
}

/// `wmma.mma`
pub(in crate::lower) fn multiply(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let Some([m, n, _]) = sides(statement) else {
            return unsupported("");
        };
        let types: Vec<PtxType> = statement.form.types().collect();
        let [d, a, b, c] = match types[..] {
            [d, c] => [d, PtxType::F16, PtxType::F16, c],
            [d, a, b, c] => [d, a, b, c],
            _ => return unsupported(""),
        };
        let wide = d == PtxType::F64;
        let ty = if wide { PtxType::F64 } else { PtxType::B32 };
        let mut read = |index: usize| body.elements(statement, &statement.operands[index], ty);
        let (mut left, mut right, mut sum) = (read(1)?, read(2)?, read(3)?);
        // Computed turned round.
        let mut types = [a, b];
        let (mut rows, mut columns) = (m, n);
        if (m, n) == (8, 32) {
            std::mem::swap(&mut left, &mut right);
            std::mem::swap(&mut rows, &mut columns);
            types.swap(0, 1);
        }
        let product = Product {
            shape: MatrixShape::M8n8k4,
            layouts: [Layout::Row, Layout::Col],
            types: [d, types[0], types[1], c],
            round: modifier(statement.form).unwrap_or(Round::Default),
            saturates: statement.form.has(Modifier::Satfinite),
            bits: match (a, statement.form.has(Modifier::And)) {
                (PtxType::B1, true) => BitOp::AndPopc,
                (PtxType::B1, false) => BitOp::XorPopc,
                _ => BitOp::None,
            },
            sparse: false,
        };
        if d != c && c == PtxType::F16 {
            sum = body.with(|emit| sum.iter().flat_map(|&pair| singles(emit, pair)).collect())?;
        }
        let words = blocks(body, product, [&left, &right, &sum], rows, columns)?;
        let words = match d != c && d == PtxType::F16 {
            true => body.with(|emit| {
                let mods = (Round::Rn, Scalar::F16x2, SourceType::F32);
                let pairs = words.chunks(2);
                pairs
                    .map(|pair| emit.op(AbstractOp::CvtPair, mods, &[pair[1], pair[0]]))
                    .collect()
            })?,
            false => words,
        };
        let destinations = body.element_destinations(statement, 0)?;
        write_elements(body, &destinations, &words, ty)
    })
}

/// The halves of a word in single precision.
fn singles(emit: &mut Emit<'_>, word: Operand) -> [Operand; 2] {
    let high = emit.shr(Scalar::U32, word, imm(16));
    [word, high].map(|half| emit.op(AbstractOp::Cvt, (Scalar::F32, SourceType::F16), &[half]))
}

/// The product, block by block; the sums in the order of the fragments.
fn blocks(
    body: &mut Body<'_, '_>,
    product: Product,
    [left, right, sum]: [&[Operand]; 3],
    rows: u64,
    columns: u64,
) -> Lowered<Vec<Operand>> {
    let [d, a, b, c] = product.types;
    let single = d == PtxType::F32 || c == PtxType::F32;
    let result = if single && a != PtxType::F64 {
        PtxType::F32
    } else {
        d
    };
    let result = if a == PtxType::F16 && !single {
        PtxType::F16
    } else {
        result
    };
    // Shape of a step, steps in K, and registers of a step on either side.
    let (shape, steps, lefts, rights) = match a {
        PtxType::F16 | PtxType::Bf16 => (MatrixShape::M16n8k16, 1, 4, 2),
        PtxType::Tf32 => (MatrixShape::M16n8k4, 2, 2, 1),
        PtxType::S8 | PtxType::U8 => (MatrixShape::M16n8k16, 1, 2, 1),
        PtxType::F64 => (MatrixShape::M8n8k4, 1, 1, 1),
        PtxType::S4 | PtxType::U4 => (MatrixShape::M8n8k32, 1, 1, 1),
        PtxType::B1 => (MatrixShape::M8n8k128, 1, 1, 1),
        _ => return unsupported(""),
    };
    let product = Product {
        shape,
        types: [result, a, b, result],
        ..product
    };
    let (down, across) = ((rows / 16).max(1) as usize, (columns / 8) as usize);
    let per = sum.len() / (down * across);
    let mut words = Vec::with_capacity(sum.len());
    for row in 0..down {
        for column in 0..across {
            let at = (row * across + column) * per;
            let mut block: Vec<Operand> = sum[at..at + per].to_vec();
            for step in 0..steps {
                let from = (row * steps + step) * lefts;
                let a = left[from..from + lefts].to_vec();
                let from = (column * steps + step) * rights;
                let b = right[from..from + rights].to_vec();
                block = step_of(
                    body,
                    product,
                    Fragments {
                        a,
                        b,
                        c: block,
                        places: None,
                    },
                )?;
            }
            words.extend(block);
        }
    }
    Ok(words)
}

/// One product that `mma` has.
pub(super) fn step_of(
    body: &mut Body<'_, '_>,
    product: Product,
    fragments: Fragments,
) -> Lowered<Vec<Operand>> {
    if !product.is_native() {
        return narrow::multiply(body, product, &fragments);
    }
    let mods = product.mods()?;
    let wide = product.types[0] == PtxType::F64;
    let width = if wide { 64 } else { 32 };
    body.with(|emit| {
        let Fragments { a, b, c, .. } = &fragments;
        let operands: Vec<Operand> = [a, b, c]
            .iter()
            .map(|elements| super::pack_elements(emit, elements, width).into())
            .collect();
        let count = c.len() as u8 * (width / 32) as u8;
        let value = emit
            .func()
            .create_value(Type::tuple(Class::R, count).unwrap_or(Type::R));
        emit.put(
            AbstractOp::Mma,
            mods,
            &[value.into()],
            &operands,
            Guard::ALWAYS,
            &[],
        );
        let words = emit.words(value);
        match wide {
            true => words
                .chunks(2)
                .map(|pair| emit.collect(pair).into())
                .collect(),
            false => words.into_iter().map(Operand::from).collect(),
        }
    })
}
