//! Edges through memory and order: accesses that may meet, fences and what they hold back.

use super::{Builder, operations};
use crate::schedule::alias::{self, MemoryRef};
use crate::schedule::graph::{EdgeClass, Kinds, Reasons};
use crate::schedule::order::{FenceClass, FenceClasses, Order};
use orias_ori::{Inst, RegKind};
use orias_sass::Space;

/// So many accesses to memory are compared with each other; the next one is a fence for them.
pub const PENDING: usize = 64;

/// What happened to a token so far.
#[derive(Clone, Debug, Default)]
pub(super) struct FenceHistory {
    /// The last fence, and the cycles that must pass behind it.
    pub(super) fence: Option<(u32, u16)>,
    /// Those that have it, since.
    pub(super) holders: Vec<u32>,
}

impl Builder<'_> {
    pub(super) fn order(&mut self, node: u32) {
        let Order {
            has,
            takes,
            follows,
        } = self.nodes[node as usize].order;
        // Whatever follows something is a fence for memory: later fences are behind it, and so behind what it follows.
        for token in follows.iter() {
            for index in 0..self.tokens[token as usize].holders.len() {
                self.order_edge(self.tokens[token as usize].holders[index], node, 0);
            }
            self.tokens[token as usize].holders.clear();
        }
        // A fence for everything is behind and before everything.
        let takes_all = takes.contains(FenceClass::All);
        const EVERYBODY: FenceClasses = FenceClasses::of(&[FenceClass::All]);
        for token in has.with(takes).with(EVERYBODY).iter() {
            if let Some((fence, latency)) = self.tokens[token as usize].fence {
                self.order_edge(fence, node, latency);
            }
            if !takes.contains(token) {
                self.tokens[token as usize].holders.push(node);
                continue;
            }
            // Whoever has a token that everything has is held back by that alone.
            if token == FenceClass::All || !takes_all {
                for index in 0..self.tokens[token as usize].holders.len() {
                    self.order_edge(self.tokens[token as usize].holders[index], node, 0);
                }
            }
            let after = self.after_fence(node);
            let history = &mut self.tokens[token as usize];
            history.holders.clear();
            history.fence = Some((node, after));
        }
        if takes.contains(FenceClass::Memory) {
            self.pending.clear();
        }
    }

    /// Cycles that must pass behind a fence.
    pub(super) fn after_fence(&self, fence: u32) -> u16 {
        let op = self.nodes[fence as usize].op;
        op.map_or(0, |op| operations::of(self.machine, op).after_fence)
    }

    /// `to` stays behind `from`, which order alone asks for.
    fn order_edge(&mut self, from: u32, to: u32, latency: u16) {
        let class = EdgeClass::Order;
        self.edge(from, to, Kinds::BARRIER, class, Reasons(0), latency);
    }

    pub(super) fn memory(&mut self, node: u32, inst: Inst) {
        let op = self.nodes[node as usize].op;
        if !op.is_some_and(|op| operations::of(self.machine, op).touches_memory) {
            return;
        }
        let refs = alias::accesses(self.func, inst, &mut |reg| match reg.kind() {
            RegKind::Phys(reg) if !reg.is_constant() => self.version(reg),
            _ => 0,
        });
        if refs.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let crowded = pending.len() >= PENDING;
        for &(earlier, other) in &pending {
            if crowded || refs.iter().any(|mine| mine.conflicts(&other)) {
                let latency = u16::from(self.nodes[earlier as usize].issue.least_stall);
                self.edge(
                    earlier,
                    node,
                    Kinds::MEMORY,
                    EdgeClass::Memory,
                    Reasons(0),
                    latency,
                );
            }
        }
        self.pending = pending;
        if crowded {
            self.crowded = true;
            self.pending.clear();
            // What is compared with this node from now on stands for all before it.
            let anything = |space| MemoryRef {
                space,
                base: None,
                offset: 0,
                size: None,
                reads: true,
                writes: true,
                is_told_by_offset: false,
            };
            self.pending.push((node, anything(Space::Generic)));
            self.pending.push((node, anything(Space::Surface)));
        } else {
            self.pending
                .extend(refs.into_iter().map(|mine| (node, mine)));
        }
    }
}
