//! Runs: instructions that are issued without anything in between, because they must be or because that is faster (stores that memory merges).

use super::operations::{self, RunRole};
use super::{Builder, Exits, is_constant};
use crate::schedule::graph::{Edge, EdgeClass, Kinds, Reasons};
use crate::schedule::order;
use orias_machine::Machine;
use orias_ori::{Address, Function, Inst, Operand};
use std::ops::Range;

impl Builder<'_> {
    /// Marks what goes directly behind what.
    pub(super) fn find_runs(&mut self, tail: usize) {
        let mut arrive = None;
        let mut last_matrix = None;
        let mut address = None;
        let mut runs: Vec<Range<usize>> = Vec::new();
        let on_values = matches!(self.exits, Exits::Values(_));
        for (index, node) in self.nodes.iter().enumerate().take(tail) {
            let Some(op) = node.op else { continue };
            if self.never_runs(node.inst) && index + 1 < tail {
                runs.push(index..index + 2);
            }
            let facts = operations::of(self.machine, op);
            match facts.run {
                RunRole::None => {}
                RunRole::Arrives => {
                    runs.extend(arrive.zip(last_matrix).map(|(from, to)| from..to + 1));
                    (arrive, last_matrix) = (Some(index), None);
                }
                RunRole::Matrix => last_matrix = Some(index),
                RunRole::Address => address = Some(index),
                RunRole::Calls => runs.extend(address.take().map(|from| from..index + 1)),
            }
            // On physical registers PostSchedule brings them together.
            if on_values
                && facts.stores_global
                && index > 0
                && are_mergeable(self.func, self.nodes[index - 1].inst, node.inst)
            {
                runs.push(index - 1..index + 1);
            }
        }
        runs.extend(arrive.zip(last_matrix).map(|(from, to)| from..to + 1));
        for run in runs {
            for index in run.skip(1) {
                self.nodes[index].with_previous = true;
            }
        }
    }

    /// Whether the guard is never true.
    fn never_runs(&self, inst: Inst) -> bool {
        let guard = self.func.inst(inst).guard();
        guard.is_negated() && guard.reg().is_some_and(is_constant)
    }

    /// What holds back a member of a run holds back its first.
    pub(super) fn pass_runs_on(&mut self) {
        if !self.nodes.iter().any(|node| node.with_previous) {
            return;
        }
        let mut head: Vec<u32> = (0..self.nodes.len() as u32).collect();
        for node in 1..self.nodes.len() {
            if self.nodes[node].with_previous {
                head[node] = head[node - 1];
            }
        }
        let passed: Vec<Edge> = self
            .edges
            .iter()
            .filter(|edge| {
                let first = head[edge.to as usize];
                first != edge.to && edge.from < first
            })
            .map(|edge| {
                let first = head[edge.to as usize];
                Edge {
                    to: first,
                    latency: edge.latency.saturating_sub((edge.to - first) as u16),
                    ..*edge
                }
            })
            .collect();
        self.edges.extend(passed);
        for node in 1..self.nodes.len() as u32 {
            if self.nodes[node as usize].with_previous {
                self.edges.push(Edge {
                    from: node - 1,
                    to: node,
                    kinds: Kinds::BARRIER,
                    class: EdgeClass::Order,
                    reasons: Reasons(0),
                    latency: 1,
                });
            }
        }
    }
}

/// Whether two stores write to one piece of global memory: relative to the same registers, less than a line apart. Those that leave the warp
/// one behind the other are written together; with something in between, each is a write of a part of a sector (measured: integer
/// kernels with four stores a thread took 1.27 times as long when one of them went early).
pub fn are_mergeable(func: &Function, first: Inst, second: Inst) -> bool {
    let (Some(first), Some(second)) = (store(func, first), store(func, second)) else {
        return false;
    };
    let bases = |address: &Address| (address.base, address.uniform, address.descriptor);
    bases(&first) == bases(&second)
        && first.symbol == second.symbol
        && first.form == second.form
        && first.offset.abs_diff(second.offset) < Machine::of(func.target).limits.cache_line
}

/// Where a plain store to global memory goes.
fn store(func: &Function, inst: Inst) -> Option<Address> {
    let op = func.opcode(inst).as_machine()?;
    if !operations::of(Machine::of(func.target), op).stores_global
        || !order::of(func, inst).takes.is_empty()
    {
        return None;
    }
    func.operands(inst)
        .iter()
        .find_map(|operand| match operand {
            Operand::Address(id) => Some(*func.address(*id)),
            _ => None,
        })
}
