//! Coalescing hints: which values should share registers, and how many moves that saves.
//!
//! Four relations save moves when both sides lie in the same registers: a part and the tuple it is collected into or split from, a
//! definition and the value it keeps, a copy and its source, and a block parameter and the arguments that reach it. What is saved is
//! counted in moves: registers, times how often the block is thought to run, summed over all places that relate the two.
//!
//! Cost: linear, and one sort.

use orias_ori::analysis::Frequencies;
use orias_ori::{AbstractOp, Class, Function, Inst, Opcode, Operand, Value};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// `a` would like to lie `offset` registers after `b`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Relation {
    pub(super) a: Value,
    pub(super) b: Value,
    pub(super) offset: i16,
}

/// All relations, with what each saves.
pub(super) struct Relations<'a> {
    func: &'a Function,
    /// Each once, in the order in which they were found, with the number of moves it saves.
    found: Vec<(u64, Relation)>,
    /// Where each is in `found`.
    known: FxHashMap<Relation, u32>,
    /// How often the block or edge at hand is thought to run.
    frequency: u64,
}

/// What one run of the function counts for: frequencies below one are told apart, too.
const ONE: f64 = (1 << 20) as f64;

impl<'a> Relations<'a> {
    /// The relations of `func`.
    pub(super) fn new(func: &'a Function) -> Relations<'a> {
        let frequencies = Frequencies::of(func);
        let often = |times: f64| (times * ONE) as u64;
        let mut relations = Relations {
            func,
            found: Vec::new(),
            known: FxHashMap::default(),
            frequency: 1,
        };
        for block in func.blocks() {
            relations.frequency = often(frequencies.times(block));
            for inst in func.block_insts(block) {
                relations.find(inst);
            }
            for &edge in func.successor_edges(block) {
                let target = func.edge_target(edge);
                // A loop is left, and entered, as often as what is around it runs.
                let times = frequencies.times(block).min(frequencies.times(target));
                relations.frequency = often(times);
                let params = func.block_params(target).iter();
                for (&param, &arg) in params.zip(func.edge_args(edge)) {
                    relations.add(param, arg, 0);
                }
            }
        }
        relations
    }

    /// The relations, what saves most first.
    pub(super) fn in_order(mut self) -> impl Iterator<Item = Relation> {
        // Equal ones stay in the order of the code.
        self.found
            .sort_by_key(|&(saved, _)| std::cmp::Reverse(saved));
        self.found.into_iter().map(|(_, relation)| relation)
    }

    fn find(&mut self, inst: Inst) {
        let func = self.func;
        match func.opcode(inst) {
            Opcode::Abstract(AbstractOp::Collect) => {
                let (tuple, parts) = func.operands(inst).split_at(1);
                self.add_parts(tuple[0], parts);
            }
            Opcode::Abstract(AbstractOp::Split) => {
                let (parts, tuple) = func.operands(inst).split_at(func.result_count(inst));
                self.add_parts(tuple[0], parts);
            }
            Opcode::Abstract(AbstractOp::ParCopy) => {
                let (to, from) = func.operands(inst).split_at(func.result_count(inst));
                for (to, from) in to.iter().zip(from) {
                    self.add_operands(*to, *from, 0);
                }
            }
            _ => {}
        }
        if !func.kept(inst).is_empty() {
            for (place, kept) in func.kept_places(inst).zip(func.kept(inst)) {
                self.add_operands(func.operands(inst)[place], *kept, 0);
            }
        }
    }

    fn add_parts(&mut self, tuple: Operand, parts: &[Operand]) {
        let mut offset = 0;
        for &part in parts {
            self.add_operands(part, tuple, offset);
            offset += part
                .reg()
                .map_or(1, |reg| i16::from(self.func.reg_type(reg).len()));
        }
    }

    fn add_operands(&mut self, a: Operand, b: Operand, offset: i16) {
        if let (Some(a), Some(b)) = (a.as_value(), b.as_value()) {
            self.add(a, b, offset);
        }
    }

    fn add(&mut self, a: Value, b: Value, offset: i16) {
        let (one, other) = (self.func.value_type(a), self.func.value_type(b));
        if one.class() != other.class() || one.class() == Class::B || a == b {
            return;
        }
        let saved = self.frequency * u64::from(one.len());
        let relation = Relation { a, b, offset };
        match self.known.entry(relation) {
            Entry::Occupied(known) => self.found[*known.get() as usize].0 += saved,
            Entry::Vacant(new) => {
                new.insert(self.found.len() as u32);
                self.found.push((saved, relation));
            }
        }
    }
}
