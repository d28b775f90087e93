//! What is still on its way when a block starts.
//!
//! A load at the end of one block is waited for in the next, and what a store reads there is not overwritten before it has been read. After
//! every block has an order, the cycles until each register is there, and until it has been read, are carried along the edges of the
//! control-flow graph; where paths meet, the later one counts. Two sweeps in layout order take it around loops once. The scheduler
//! then holds readers and writers of such registers back by what is left. (A kernel of many small blocks with two stores each took
//! 1.05 times as long where the first instruction of each block waited for the stores of the one before, and the stores of its own
//! came behind it.)
//!
//! Which nodes of a block read what was there before it, and which write first and last, is the same in every order the graph allows, and
//! found once ([`Ends`]).

use super::model::Simulation;
use crate::places::{GENERAL, PLACES};
use crate::schedule::graph::{Graph, Heat, Node};
use orias_machine::Machine;

/// Sweeps over the function: forward, and once around the loops.
pub(super) const SWEEPS: usize = 2;

/// By register: cycles from the start of a block until it is there; behind those, by general register, until it has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flight(Box<[u16; PLACES + GENERAL]>);

impl Flight {
    /// Nothing is on its way.
    pub(super) fn none() -> Flight {
        Flight(Box::new([0; PLACES + GENERAL]))
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
    /// The nodes that wait for what is on its way when the block starts, and for what: who reads a register which the block has not
    /// written by then, and who writes it first.
    waits: Vec<(u32, u16)>,
    /// The last node that writes each register, and the cycles until its result is there; none where they are over before they
    /// matter.
    writes: Vec<(u16, u32, Option<u16>)>,
    /// The nodes that read a general register some time after they issue, which nobody writes behind them.
    late: Vec<(u16, u32)>,
    /// Cycles until they have, as a rule.
    source_read: u16,
}

/// Whether somebody reads the registers it reads, or may overwrite them, in the order of the queue of the memory pipes.
fn is_queued(node: &Node) -> bool {
    (node.loads || node.stores) && node.heat != Heat::Cold
}

impl Ends {
    /// Finds them; who reads late, and who overwrites what is being read, only if that is to be carried on.
    pub(super) fn new(machine: &Machine, graph: &Graph, releases: bool) -> Ends {
        let mut last = [u32::MAX; PLACES];
        let mut ends = Ends {
            source_read: machine.limits.source_read,
            ..Ends::default()
        };
        // By general register: how many late readers came before its last write.
        let mut over = [0u32; GENERAL];
        for (node, data) in graph.nodes.iter().enumerate() {
            let (reads, writes) = graph.places(node);
            for &place in reads {
                if last[usize::from(place)] == u32::MAX {
                    ends.waits.push((node as u32, place));
                }
                if releases && !data.fixed && usize::from(place) < GENERAL {
                    ends.late.push((place, node as u32));
                }
            }
            for &place in writes {
                if let Some(over) = over.get_mut(usize::from(place)) {
                    *over = ends.late.len() as u32;
                    if releases && last[usize::from(place)] == u32::MAX && !is_queued(data) {
                        ends.waits.push((node as u32, PLACES as u16 + place));
                    }
                }
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
        let mut number = 0;
        ends.late.retain(|(place, _)| {
            number += 1;
            number > over[usize::from(*place)]
        });
        ends
    }

    /// By node: when what it reads and the block does not write before is there, and what it overwrites has been read.
    pub(super) fn floors(&self, entry: &Flight, floors: &mut [u32]) {
        floors.fill(0);
        for &(node, place) in &self.waits {
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
            if usize::from(place) < GENERAL {
                behind.0[PLACES + usize::from(place)] = 0;
            }
        }
        for &(place, node) in &self.late {
            let until = simulation.issue[node as usize] + u32::from(self.source_read);
            let left = &mut behind.0[PLACES + usize::from(place)];
            *left = until
                .saturating_sub(length)
                .min(u32::from(u16::MAX))
                .max((*left).into()) as u16;
        }
    }
}
