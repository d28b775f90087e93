//! `m8n8k4` of halves: four products at once, each of eight lanes.
//!
//! Lane `i` of the eight (`lane & 3`, and 4 more from lane 16 on) has row `i` of A, column `i` of B, or, in the other layout, a column of
//! half the rows. The chip has no such instruction any more; sums are those of ptxas's code.

use crate::collective::Arrival;
use orias_eval::float::convert::to_format;
use orias_eval::float::{Arithmetic, Format, Overflow, Rounding};
use orias_ptx::grammar::Modifier;
use orias_ptx::opcode::Form;
use orias_ptx::types::Type;

#[derive(Clone, Copy, Debug)]
pub(super) struct Quads {
    /// Whether a lane has a column of A, and a row of B.
    a_columns: bool,
    b_rows: bool,
    /// Whether D and C are in single precision.
    d_single: bool,
    c_single: bool,
}

impl Quads {
    pub fn of(form: &Form, [d, _, _, c]: [Type; 4]) -> Option<Self> {
        let mut layouts = form
            .modifiers()
            .filter(|it| matches!(it, Modifier::Row | Modifier::Col));
        Some(Self {
            a_columns: layouts.next()? == Modifier::Col,
            b_rows: layouts.next()? == Modifier::Row,
            d_single: d == Type::F32,
            c_single: c == Type::F32,
        })
    }

    pub fn multiply(self, members: &[Arrival]) -> Vec<Vec<u64>> {
        (0..members.len())
            .map(|lane| {
                let count = if self.d_single { 8 } else { 4 };
                let sum = |element: usize| self.sum(members, lane, element);
                (0..count)
                    .map(|register| match self.d_single {
                        true => sum(register),
                        false => sum(2 * register) | sum(2 * register + 1) << 16,
                    })
                    .collect()
            })
            .collect()
    }

    /// Row and column of an element that a lane holds.
    const fn place(single: bool, lane: usize, element: usize) -> (usize, usize) {
        let below = if lane >= 16 { 4 } else { 0 };
        match single {
            true => (
                below + (lane & 1) + (element & 2),
                (element & 4) + (lane & 2) + (element & 1),
            ),
            false => (below + lane % 4, element),
        }
    }

    fn sum(self, members: &[Arrival], lane: usize, element: usize) -> u64 {
        let (row, column) = Self::place(self.d_single, lane, element);
        // The four products are of the lanes whose bits 2 and 3 are the same.
        let of = |i: usize| &members[(lane & 12) + i % 4 + i / 4 * 16].sources;
        let half = |register: u64, part: usize| register >> (16 * (part % 2)) & 0xffff;
        let single = |bits: u64| {
            to_format(
                Format::F16,
                bits,
                Format::F32,
                Rounding::NearestEven,
                Overflow::Ieee,
            )
        };
        // A lane's other layout: its number is the place in K, its elements rows of its half.
        let of_a = |k: usize| match self.a_columns {
            false => half(of(row)[k / 2], k),
            true => half(of(row / 4 * 4 + k)[row % 4 / 2], row),
        };
        let of_b = |k: usize| match self.b_rows {
            false => half(of(column)[2 + k / 2], k),
            true => half(of(column / 4 * 4 + k)[2 + column % 4 / 2], column),
        };
        let how = Arithmetic::plain(Format::F32);
        let (a, b) = (
            [0, 1, 2, 3].map(of_a).map(single),
            [0, 1, 2, 3].map(of_b).map(single),
        );
        let c = match self.c_single {
            true => members[lane].sources[4 + element],
            // Halves are held by rows, whatever D is.
            false => single(half(of(row)[4 + column / 2], column)),
        };
        if self.d_single {
            let products = (0..4).fold(0, |sum, k| how.fused(a[k], b[k], sum));
            return how.add(c, products);
        }
        let sum = [0, 2].into_iter().fold(c, |sum, k| {
            let first = how.multiply(a[k], b[k]);
            how.add(sum, how.fused(a[k + 1], b[k + 1], first))
        });
        to_format(
            Format::F32,
            sum,
            Format::F16,
            Rounding::NearestEven,
            Overflow::Ieee,
        )
    }
}
