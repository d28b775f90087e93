//! Where the elements of matrices are: in the registers of a warp, and in memory.
//!
//! A [`Fragment`] says which lane holds which element, for `mma` and for `wmma` alike. The manual leaves the fragments of `wmma` open; here they
//! are as in ptxas's code, so that programs that look into them see the same: those of as many `mma` as the shape needs, one after the other.
//! `m8n32k16` is computed turned round, `(B' A')' = A B`: A is a right factor, B a left one. Halves have eight registers whatever they need;
//! the others repeat the first.

use super::{Rule, dimensions};
use crate::collective::Arrival;
use crate::error::FaultKind;
use orias_eval::float::convert::to_format;
use orias_eval::float::{Format, Overflow, Rounding};
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::Form;
use orias_ptx::types::Type;

/// What a fragment is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// A left factor: rows are the outer dimension, K is the inner one.
    Left,
    /// A right factor: columns are the outer dimension, K is the inner one.
    Right,
    /// The sum: rows are the outer dimension, columns the inner one.
    Sum,
}

/// A matrix in the registers of a warp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    pub role: Role,
    pub outer: usize,
    pub inner: usize,
    /// Bits of an element.
    pub bits: usize,
}

impl Fragment {
    /// Elements of a register.
    const fn packed(self) -> usize {
        if self.bits >= 32 { 1 } else { 32 / self.bits }
    }

    /// How many registers of a lane hold it.
    pub const fn registers(self) -> usize {
        self.outer * self.inner / 32 / self.packed()
    }

    /// Outer and inner index of the element in a part of a lane's register.
    ///
    /// A block is what one `mma` takes: sixteen rows, or eight columns. Four lanes share a row or a column of it.
    fn place(self, lane: usize, register: usize, part: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        let packed = self.packed();
        let eights = match self.role {
            Role::Right => 1,
            Role::Left | Role::Sum => self.outer.min(16) / 8,
        };
        if self.role == Role::Sum {
            let element = register * packed + part;
            let (block, within) = (element / (2 * eights), element % (2 * eights));
            let (down, across) = (block / (self.inner / 8), block % (self.inner / 8));
            return (
                16 * down + 8 * (within / 2) + group,
                8 * across + 2 * thread + within % 2,
            );
        }
        let per_block = eights * self.inner / (4 * packed);
        let (block, within) = (register / per_block, register % per_block);
        (
            8 * (eights * block + within % eights) + group,
            packed * (4 * (within / eights) + thread) + part,
        )
    }

    /// Every element that a lane holds: its register, its lowest bit there, and its outer and inner index.
    fn elements(self, lane: usize) -> impl Iterator<Item = (usize, usize, (usize, usize))> {
        let packed = self.packed();
        (0..self.registers() * packed).map(move |at| {
            let (register, part) = (at / packed, at % packed);
            (register, part * self.bits, self.place(lane, register, part))
        })
    }

    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The matrix whose first register is the lanes' source `first`, an outer index after the other.
    pub fn gather(self, members: &[Arrival], first: usize) -> Vec<u64> {
        let mut matrix = vec![0; self.outer * self.inner];
        for (lane, member) in members.iter().enumerate() {
            for (register, shift, (outer, inner)) in self.elements(lane) {
                let bits = member.sources[first + register] >> shift;
                matrix[outer * self.inner + inner] = bits & self.mask();
            }
        }
        matrix
    }

    /// What each lane holds of a matrix, of which `element` tells the bits at an outer and an inner index.
    pub fn scatter(self, element: impl Fn(usize, usize) -> u64) -> Vec<Vec<u64>> {
        let mut lanes = vec![vec![0; self.registers()]; 32];
        for (lane, registers) in lanes.iter_mut().enumerate() {
            for (register, shift, (outer, inner)) in self.elements(lane) {
                registers[register] |= element(outer, inner) << shift;
            }
        }
        lanes
    }
}

/// Whether a shape of `wmma` is computed turned round.
const fn is_turned(m: usize, n: usize) -> bool {
    m == 8 && n == 32
}

/// A fragment that `wmma.load` reads or `wmma.store` writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixInMemory {
    fragment: Fragment,
    /// Whether elements along the inner dimension lie side by side.
    by_inner: bool,
}

impl MatrixInMemory {
    /// What a load or a store moves; `None` where it is not known here.
    pub fn of(op: Op, form: &Form) -> Option<Self> {
        let (m, n, k) = form.modifiers().find_map(|it| dimensions(it.name()))?;
        let by_rows = form.has(Modifier::Row);
        let turned = is_turned(m, n);
        // Rows of A and columns of B have K side by side.
        let (role, outer, inner, by_inner) = match (op, turned) {
            (Op::WmmaLoadA, false) => (Role::Left, m, k, by_rows),
            (Op::WmmaLoadA, true) => (Role::Right, m, k, by_rows),
            (Op::WmmaLoadB, false) => (Role::Right, n, k, !by_rows),
            (Op::WmmaLoadB, true) => (Role::Left, n, k, !by_rows),
            (Op::WmmaLoadC | Op::WmmaStoreD, false) => (Role::Sum, m, n, by_rows),
            (Op::WmmaLoadC | Op::WmmaStoreD, true) => (Role::Sum, n, m, !by_rows),
            _ => return None,
        };
        let fragment = Fragment {
            role,
            outer,
            inner,
            bits: form.types().next()?.bits() as usize,
        };
        Some(Self { fragment, by_inner })
    }

    /// What lanes bring beside the registers to be stored: elements from line to line, unless lines follow one another.
    fn stride(&self, members: &[Arrival], registers: usize) -> Result<u64, FaultKind> {
        let line = match self.by_inner {
            true => self.fragment.inner,
            false => self.fragment.outer,
        };
        let given = |it: &Arrival| it.sources.get(registers).copied();
        let stride = given(&members[0]).unwrap_or(line as u64);
        let differs = |it: &&Arrival| {
            (it.place != members[0].place) || given(it).is_some_and(|other| other != stride)
        };
        if let Some(other) = members.iter().find(differs) {
            return Err(FaultKind::Undefined(format!(
                "a matrix with another address or stride in lane {} than in lane 0",
                other.lane
            )));
        }
        // CUDA C promises that lines start at multiples of sixteen bytes, which is less than the manual's size of a lane's fragment.
        let alignment = (self.fragment.registers() * self.fragment.bits.max(32) / 8).min(16);
        let address = members[0].place.1;
        for start in [address, stride * self.fragment.bits as u64 / 8] {
            if !start.is_multiple_of(alignment as u64) {
                return Err(FaultKind::Undefined(format!(
                    "a matrix at {address:#x} with a stride of {stride} elements, whose lines do not all start at multiples of {alignment} bytes"
                )));
            }
        }
        Ok(stride)
    }

    /// The bit at which an element stands in memory, counted from the first element.
    const fn bit(&self, stride: u64, outer: usize, inner: usize) -> u64 {
        let (line, within) = match self.by_inner {
            true => (outer, inner),
            false => (inner, outer),
        };
        (line as u64 * stride + within as u64) * self.fragment.bits as u64
    }

    /// What `wmma.load` leaves in `count` registers of each lane; `read` reads bytes at an offset from the address.
    pub fn load(
        &self,
        members: &[Arrival],
        count: usize,
        read: &dyn Fn(u64, usize) -> Result<u64, FaultKind>,
    ) -> Result<Vec<Vec<u64>>, FaultKind> {
        let stride = self.stride(members, 0)?;
        let bytes = self.fragment.bits.div_ceil(8);
        let Fragment { outer, inner, .. } = self.fragment;
        let mut matrix = Vec::with_capacity(outer * inner);
        for at in 0..outer * inner {
            let bit = self.bit(stride, at / inner, at % inner);
            matrix.push(read(bit / 8, bytes)? >> (bit % 8) & self.fragment.mask());
        }
        let mut lanes = (self.fragment).scatter(|outer, at| matrix[outer * inner + at]);
        let held = self.fragment.registers();
        for registers in &mut lanes {
            for at in held..count {
                registers.push(registers[at % held]);
            }
        }
        Ok(lanes)
    }

    /// What `wmma.store` writes: offsets from the address, and the bytes there.
    pub fn store(&self, members: &[Arrival]) -> Result<Vec<(u64, Vec<u8>)>, FaultKind> {
        let stride = self.stride(members, self.fragment.registers())?;
        let matrix = self.fragment.gather(members, 0);
        let written = matrix.iter().enumerate().map(|(at, value)| {
            let (outer, inner) = (at / self.fragment.inner, at % self.fragment.inner);
            let bytes = &value.to_le_bytes()[..self.fragment.bits / 8];
            (self.bit(stride, outer, inner) / 8, bytes.to_vec())
        });
        Ok(written.collect())
    }
}

/// One form of `wmma.mma`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentProduct {
    rule: Rule,
    turned: bool,
    /// A, B, C and D.
    fragments: [Fragment; 4],
    /// Registers of A and of B, with those that repeat others.
    registers: usize,
    /// Products that are added up at once.
    step: usize,
}

impl FragmentProduct {
    /// The product that a form names; `None` where its arithmetic is not known here.
    pub fn of(form: &Form) -> Option<Self> {
        let (m, n, k) = form.modifiers().find_map(|it| dimensions(it.name()))?;
        let types: Vec<Type> = form.types().collect();
        let ([d, a, b, c], halves) = match types[..] {
            [d, c] => ([d, Type::F16, Type::F16, c], true),
            [d, a, b, c] => ([d, a, b, c], false),
            _ => return None,
        };
        // Sums of halves are single ones as soon as one of them is.
        let sum = if halves && c == Type::F32 { c } else { d };
        let turned = is_turned(m, n);
        let (left, right) = match turned {
            true => (Role::Right, Role::Left),
            false => (Role::Left, Role::Right),
        };
        let (rows, columns) = if turned { (n, m) } else { (m, n) };
        let fragment = |role, outer, inner, ty: Type| Fragment {
            role,
            outer,
            inner,
            bits: ty.bits() as usize,
        };
        let fragments = [
            fragment(left, m, k, a),
            fragment(right, n, k, b),
            fragment(Role::Sum, rows, columns, c),
            fragment(Role::Sum, rows, columns, d),
        ];
        Some(Self {
            rule: Rule::of(form, [sum, a, b, sum])?,
            turned,
            fragments,
            registers: if halves { 8 } else { 0 },
            step: if a == Type::Tf32 { 4 } else { k },
        })
    }

    pub fn multiply(&self, members: &[Arrival]) -> Vec<Vec<u64>> {
        let [left, right, sum, result] = self.fragments;
        let a = left.gather(members, 0);
        let at = left.registers().max(self.registers);
        let b = right.gather(members, at);
        let c = sum.gather(members, at + right.registers().max(self.registers));
        let lines = |list: &[u64], at: usize| list[at * left.inner..][..left.inner].to_vec();
        let convert = |value, from: Fragment, to: Fragment| match (from.bits, to.bits) {
            (16, 32) => convert(value, Format::F16, Format::F32),
            (32, 16) => convert(value, Format::F32, Format::F16),
            _ => value,
        };
        let wide = if sum.bits > result.bits { sum } else { result };
        let element = |outer: usize, inner: usize| -> u64 {
            let (row, column) = if self.turned {
                (inner, outer)
            } else {
                (outer, inner)
            };
            let (a, b) = (lines(&a, row), lines(&b, column));
            let c = convert(c[outer * sum.inner + inner], sum, wide);
            let steps = a.chunks(self.step).zip(b.chunks(self.step));
            let d = steps.fold(c, |c, (a, b)| self.rule.element(a, b, c));
            convert(d, wide, result)
        };
        result.scatter(element)
    }
}

fn convert(value: u64, from: Format, to: Format) -> u64 {
    to_format(from, value, to, Rounding::NearestEven, Overflow::Ieee)
}
