//! `wgmma`: products of a warp group, of which each warp computes sixteen rows.
//!
//! Nothing is asynchronous here: a program that waits as it must sees no difference. B comes from shared memory, A from there or from
//! registers.

use super::{Rule, dimensions};
use crate::collective::Arrival;
use crate::error::FaultKind;
use orias_eval::matrix::{SharedMatrix, SparseElements};
use orias_ptx::grammar::Modifier;
use orias_ptx::opcode::Form;
use orias_ptx::types::Type;

/// One form of `wgmma.mma_async`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarpgroupShape {
    n: usize,
    k: usize,
    rule: Rule,
    /// A comes from registers.
    pub(crate) in_registers: bool,
    sparse: Option<SparseElements>,
    /// Whether layouts can be chosen: of A if it is in memory, and of B.
    turns: bool,
}

impl WarpgroupShape {
    pub fn of(form: &Form, in_registers: bool) -> Option<Self> {
        let (_, n, k) = form.modifiers().find_map(|it| dimensions(it.name()))?;
        let mut types = form.types();
        let (d, a, b) = (types.next()?, types.next()?, types.next()?);
        let elements = match a {
            Type::F16 | Type::Bf16 => SparseElements::Halves,
            Type::Tf32 => SparseElements::Singles,
            _ => SparseElements::Bytes,
        };
        Some(Self {
            n,
            k,
            rule: match Rule::of(form, [d, a, b, d])? {
                Rule::Narrow { a, b, result } => Rule::NarrowGroup { a, b, result },
                rule => rule,
            },
            in_registers,
            sparse: form.has(Modifier::Sp).then_some(elements),
            turns: matches!(a, Type::F16 | Type::Bf16),
        })
    }

    /// What the lanes of warp `warp` take away; `read` reads a byte of shared memory.
    pub fn multiply(
        &self,
        members: &[Arrival],
        warp: usize,
        read: &dyn Fn(u64) -> Result<u8, FaultKind>,
    ) -> Result<Vec<Vec<u64>>, FaultKind> {
        let (bits, result_bits) = self.rule.element_bits();
        let packed = 32 / bits;
        let results_packed = 32 / result_bits;
        let count = self.n / 2 / results_packed;
        let stored = if self.sparse.is_some() {
            self.k / 2
        } else {
            self.k
        };
        let mask = u64::MAX >> (64 - bits);
        // What all lanes agree on is taken from the first.
        let rest = &members[0].sources[count..];
        let (left, rest) = rest.split_at(if self.in_registers { 4 } else { 1 });
        let (right, mut rest) = rest.split_at(1);
        let mut selector = 0;
        let sparse_at = count + left.len() + 1;
        if self.sparse.is_some() {
            selector = rest[1] as usize;
            rest = &rest[2..];
        }
        let adds = rest[0] != 0;
        let mut options = rest[1..].iter();
        let mut minus = || options.next().is_some_and(|&number| number as i32 == -1);
        let (minus_a, minus_b) = (minus(), minus());
        let mut turned = || self.turns && options.next().is_some_and(|&number| number != 0);
        let turned_a = !self.in_registers && turned();
        let turned_b = turned();
        let sign = |negated: bool| if negated { 1 << (bits - 1) } else { 0 };
        let element =
            |descriptor: u64, turned: bool, outer: usize, k: usize| -> Result<u64, FaultKind> {
                let Some(matrix) = SharedMatrix::of(descriptor) else {
                    let what = "a matrix descriptor with a base offset".to_owned();
                    return Err(FaultKind::Unsupported(what));
                };
                let (row, inner) = if turned { (k, outer) } else { (outer, k) };
                let address = matrix.address(!turned, row as u64, (inner * bits / 8) as u64);
                let mut value = 0;
                for byte in 0..bits.div_ceil(8) {
                    value |= u64::from(read(address + byte as u64)?) << (8 * byte);
                }
                Ok(value >> (inner * bits % 8) & mask)
            };
        let mut a = vec![vec![0; stored]; 16];
        for (row, a) in a.iter_mut().enumerate() {
            for (at, a) in a.iter_mut().enumerate() {
                let value = if self.in_registers {
                    let (step, within) = (at / (4 * packed), at % (4 * packed));
                    let lane = row % 8 * 4 + within / packed;
                    let register = members[lane].sources[count + 2 * step + row / 8];
                    register >> (within % packed * bits) & mask
                } else {
                    element(left[0], turned_a, 16 * (warp % 4) + row, at)?
                };
                *a = value ^ sign(minus_a);
            }
        }
        let mut results = vec![vec![0; count]; 32];
        for column in 0..self.n {
            let mut b = Vec::with_capacity(self.k);
            for k in 0..self.k {
                b.push(element(right[0], turned_b, column, k)? ^ sign(minus_b));
            }
            for (row, a) in a.iter().enumerate() {
                let lane = row % 8 * 4 + column % 8 / 2;
                let at = column / 8 * 4 + row / 8 * 2 + column % 2;
                let (register, part) = (at / results_packed, at % results_packed);
                let shift = part * result_bits;
                let c = members[lane].sources[register] >> shift & (u64::MAX >> (64 - result_bits));
                let c = if adds { c } else { 0 };
                let met: Vec<u64> = match self.sparse {
                    None => b.clone(),
                    Some(elements) => (0..stored)
                        .map(|at| {
                            let (lane, shift) = elements.metadata(stored, selector, row, at);
                            let metadata = members[4 * (row % 8) + lane].sources[sparse_at] as u32;
                            b[elements.dense(at, metadata >> shift)]
                        })
                        .collect(),
                };
                results[lane][register] |= self.rule.element(a, &met, c) << shift;
            }
        }
        Ok(results)
    }
}
