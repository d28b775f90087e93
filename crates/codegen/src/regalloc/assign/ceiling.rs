//! Scans that cost too much: a scan only adds moves, so one that has come to more than somebody would pay is given up where that shows.

use super::{Scan, Stop};
use crate::regalloc::edges;
use cranelift_entity::EntityRef;
use orias_ori::{Block, Class, Edge};
use smallvec::SmallVec;

/// What a scan has come to so far, by how often blocks run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in super::super) struct Spent {
    /// How many registers are moved, on edges as often as the rarer of their ends runs.
    pub(in super::super) moves: f64,
    /// How many values get registers that an operation still reads.
    pub(in super::super) delayed: f64,
}

/// What a scan may cost.
#[derive(Clone, Copy)]
pub(in super::super) struct Ceiling<'a> {
    /// By block: how often it runs.
    pub(in super::super) weights: &'a [f64],
    /// Whether what was spent is too much, with so many general registers in use. It stays too much when more of either comes.
    pub(in super::super) is_too_much: &'a dyn Fn(u8, Spent) -> bool,
}

impl Scan<'_> {
    /// Takes note of a value of the present block that gets a register which an operation still reads.
    pub(super) fn count_delay(&mut self) {
        match self.borders.delayed.last_mut() {
            Some((block, count)) if *block == self.block => *count += 1,
            _ => self.borders.delayed.push((self.block, 1)),
        }
        self.spent.delayed += self.weight(self.block);
    }

    /// Gives up if what was done since it was asked before makes the scan too dear.
    pub(super) fn keep_below_ceiling(&mut self) -> Result<(), Stop> {
        let Some(ceiling) = self.ceiling else {
            return Ok(());
        };
        let copied = self.edits.copied();
        if copied > self.copied {
            self.spent.moves += (copied - self.copied) as f64 * self.weight(self.block);
            self.copied = copied;
        }
        if self.spent == self.judged {
            return Ok(());
        }
        self.judged = self.spent;
        let named = self.files[Class::R as usize].named;
        match (ceiling.is_too_much)(named, self.spent) {
            true => Err(Stop::Dear),
            false => Ok(()),
        }
    }

    /// Counts what is moved on the edges between the block that was just scanned and those scanned before.
    pub(super) fn count_edges(&mut self) {
        if self.ceiling.is_none() {
            return;
        }
        let (func, block) = (self.func, self.block);
        let mut ways: SmallVec<[(Block, Edge); 4]> = SmallVec::new();
        for &edge in func.successor_edges(block) {
            if self.visited[func.edge_target(edge).index()] {
                ways.push((block, edge));
            }
        }
        for &pred in self.graph.preds(block) {
            let is_known = ways.iter().any(|&(from, _)| from == pred);
            if self.visited[pred.index()] && !is_known {
                let edges = func.successor_edges(pred).iter();
                let edges = edges.filter(|&&edge| func.edge_target(edge) == block);
                ways.extend(edges.map(|&edge| (pred, edge)));
            }
        }
        for (from, edge) in ways {
            let mut edges = self.borders.args(func, from);
            let Some((_, args)) = edges.find(|it| it.0 == edge) else {
                continue;
            };
            let moved = edges::copies(func, self.live, &self.borders, from, edge, args).len();
            let often = self.weight(from).min(self.weight(func.edge_target(edge)));
            self.spent.moves += moved as f64 * often;
        }
    }

    fn weight(&self, block: Block) -> f64 {
        let ceiling = self.ceiling.as_ref();
        ceiling.map_or(0.0, |ceiling| ceiling.weights[block.index()])
    }
}
