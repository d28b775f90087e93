//! What is still on its way when a block starts.
//!
//! A load at the end of one block is waited for in the next. After every block has an order, the cycles until each register is there
//! are carried along the edges of the control-flow graph; where paths meet, the later one counts. Two sweeps in layout order take it
//! around loops once. The scheduler then holds readers of such registers back by what is left.

use super::clock::Simulation;
use super::ports::{PLACES, Ports};
use crate::schedule::graph::Graph;

/// Sweeps over the function: forward, and once around the loops.
pub(super) const SWEEPS: usize = 2;

/// By register: cycles from the start of a block until it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flight(Vec<u16>);

impl Flight {
    /// Nothing is on its way.
    pub(super) fn none() -> Flight {
        Flight(vec![0; PLACES])
    }

    /// What may be on its way on either path.
    pub(super) fn join(&mut self, other: &Flight) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// By node: when what it reads and the block does not write before is there.
    pub(super) fn floors(&self, graph: &Graph, ports: &[Ports]) -> Vec<u32> {
        let mut mine = vec![true; PLACES];
        let mut floors = vec![0; graph.len()];
        for (node, ports) in ports.iter().enumerate() {
            for &place in &ports.reads {
                if mine[usize::from(place)] {
                    let ready = u32::from(self.0[usize::from(place)]);
                    floors[node] = ready.max(floors[node]);
                }
            }
            for &place in &ports.writes {
                mine[usize::from(place)] = false;
            }
        }
        floors
    }

    /// What is on its way behind the block.
    pub(super) fn behind(&self, graph: &Graph, ports: &[Ports], simulation: &Simulation) -> Flight {
        let left = |at: u32| {
            at.saturating_sub(simulation.length)
                .min(u32::from(u16::MAX)) as u16
        };
        let mut behind = Flight(self.0.iter().map(|&at| left(u32::from(at))).collect());
        for (node, ports) in ports.iter().enumerate() {
            let data = &graph.nodes[node];
            // What a wait has to see: fixed latencies are over before they matter.
            let ready = if data.fixed {
                0
            } else {
                left(simulation.issue[node] + u32::from(data.latency))
            };
            for &place in &ports.writes {
                behind.0[usize::from(place)] = ready;
            }
        }
        behind
    }
}
