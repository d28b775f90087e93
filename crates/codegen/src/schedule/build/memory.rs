//! Edges through memory and order: accesses that may meet, fences and what they hold back.

use super::registers::place_of;
use super::{Builder, Touch, UNTOUCHED};
use crate::schedule::alias::{self, MemoryRef};
use crate::schedule::graph::{EdgeClass, Kinds, Reasons};
use crate::schedule::order::{Order, Token};
use orias_machine::timing;
use orias_ori::{Inst, RegKind};
use orias_sass::Space;

/// So many accesses to memory are compared with each other; the next one is a fence for them.
pub const PENDING: usize = 64;

impl Builder<'_> {
    pub(super) fn order(&mut self, node: u32) {
        let Order { has, takes } = self.nodes[node as usize].order;
        // A fence for everything is behind and before everything.
        let takes_all = takes.contains(Token::All);
        for token in Token::ALL {
            let takes_it = takes.contains(token);
            let has_it = has.contains(token) || token == Token::All;
            if !takes_it && !has_it {
                continue;
            }
            let touch = Touch { node, ..UNTOUCHED };
            let mut history = std::mem::take(&mut self.tokens[token as usize]);
            for earlier in &history.writers {
                let latency = self.after_fence(earlier.node);
                self.order_edge(earlier.node, node, latency);
            }
            if takes_it {
                // Whoever has a token that everything has is held back by that alone.
                if token == Token::All || !takes_all {
                    for earlier in &history.readers {
                        self.order_edge(earlier.node, node, 0);
                    }
                }
                history.readers.clear();
                history.writers.clear();
                history.writers.push(touch);
            } else {
                history.readers.push(touch);
            }
            self.tokens[token as usize] = history;
        }
        if takes.contains(Token::Memory) {
            self.pending.clear();
        }
    }

    /// Cycles that must pass behind a fence.
    fn after_fence(&self, fence: u32) -> u16 {
        let node = &self.nodes[fence as usize];
        let settles = node
            .op
            .and_then(timing::of)
            .is_some_and(|timing| timing.settles);
        let least = u16::from(node.least_stall);
        if settles {
            least.max(timing::BARRIER_SETTLES)
        } else {
            least
        }
    }

    /// `to` stays behind `from`, which order alone asks for.
    fn order_edge(&mut self, from: u32, to: u32, latency: u16) {
        let class = EdgeClass::Order;
        self.edge(from, to, Kinds::BARRIER, class, Reasons(0), latency);
    }

    pub(super) fn memory(&mut self, node: u32, inst: Inst) {
        let versions = &self.versions;
        let refs = alias::accesses(self.func, inst, &mut |reg| match reg.kind() {
            RegKind::Phys(reg) if !reg.is_constant() => versions[place_of(reg)],
            _ => 0,
        });
        if refs.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let crowded = pending.len() >= PENDING;
        for &(earlier, other) in &pending {
            if crowded || refs.iter().any(|mine| mine.conflicts(&other)) {
                let latency = u16::from(self.nodes[earlier as usize].least_stall);
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
            };
            self.pending.push((node, anything(Space::Generic)));
            self.pending.push((node, anything(Space::Surface)));
        } else {
            self.pending
                .extend(refs.into_iter().map(|mine| (node, mine)));
        }
    }
}
