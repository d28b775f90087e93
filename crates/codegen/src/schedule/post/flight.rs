//! What is still on its way when a block starts.
//!
//! A load at the end of one block is waited for in the next. After every block has an order, the cycles until each register is there
//! are carried along the edges of the control-flow graph; where paths meet, the later one counts. Two sweeps in layout order take it
//! around loops once. The scheduler then holds readers of such registers back by what is left.
//!
//! Which nodes of a block read what was there before it, and which write last, is the same in every order the graph allows, and found
//! once ([`Ends`]).

use super::clock::Simulation;
use super::ports::PLACES;
use crate::schedule::graph::Graph;

/// Sweeps over the function: forward, and once around the loops.
pub(super) const SWEEPS: usize = 2;

/// By register: cycles from the start of a block until it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flight(Box<[u16; PLACES]>);

impl Flight {
    /// Nothing is on its way.
    pub(super) fn none() -> Flight {
        Flight(Box::new([0; PLACES]))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// What may be on its way on either path.
    pub(super) fn join(&mut self, other: &Flight) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0[..]) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// Where a block meets what comes before and behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    /// The nodes that read a register which the block has not written by then.
    reads: Vec<(u32, u16)>,
    /// The last node that writes each register, and the cycles until its result is there; none where they are over before they
    /// matter.
    writes: Vec<(u16, u32, Option<u16>)>,
}

impl Ends {
    pub(super) fn new(graph: &Graph) -> Ends {
        let mut last = [u32::MAX; PLACES];
        let mut ends = Ends::default();
        for (node, data) in graph.nodes.iter().enumerate() {
            let (reads, writes) = graph.places(node);
            for &place in reads {
                if last[usize::from(place)] == u32::MAX {
                    ends.reads.push((node as u32, place));
                }
            }
            for &place in writes {
                // What a wait has to see: fixed latencies are over before they matter.
                let latency = (!data.fixed).then_some(data.latency);
                let write = (place, node as u32, latency);
                match last[usize::from(place)] {
                    u32::MAX => {
                        last[usize::from(place)] = ends.writes.len() as u32;
                        ends.writes.push(write);
                    }
                    known => ends.writes[known as usize] = write,
                }
            }
        }
        ends
    }

    /// By node: when what it reads and the block does not write before is there.
    pub(super) fn floors(&self, entry: &Flight, floors: &mut [u32]) {
        floors.fill(0);
        for &(node, place) in &self.reads {
            let ready = u32::from(entry.0[usize::from(place)]);
            let floor = &mut floors[node as usize];
            *floor = ready.max(*floor);
        }
    }

    /// What is on its way behind the block.
    pub(super) fn behind(&self, entry: &Flight, simulation: &Simulation, behind: &mut Flight) {
        let length = simulation.length;
        let passed = u16::try_from(length).unwrap_or(u16::MAX);
        for (left, at) in behind.0.iter_mut().zip(&entry.0[..]) {
            *left = at.saturating_sub(passed);
        }
        for &(place, node, latency) in &self.writes {
            behind.0[usize::from(place)] = latency.map_or(0, |latency| {
                let at = simulation.issue[node as usize] + u32::from(latency);
                at.saturating_sub(length).min(u32::from(u16::MAX)) as u16
            });
        }
    }
}
