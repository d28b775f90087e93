//! Carrying what is in flight through a function, block by block.

use super::block::State;
use super::flight::{Flight, SWEEPS};
use cranelift_entity::SecondaryMap;
use orias_ori::{Block, Function};

/// What sweeps need besides the blocks; made once for a function.
#[derive(Debug)]
pub(super) struct Sweeps {
    /// By block, in layout order: the blocks it may be entered from.
    preds: Vec<Vec<u32>>,
    /// By block: what is in flight behind it, where that is known.
    ends: Vec<Flight>,
    known: Vec<bool>,
    entry: Flight,
    floors: Vec<u32>,
}

impl Sweeps {
    /// For the blocks of a function, in layout order.
    pub(super) fn new(func: &Function, states: &[State]) -> Sweeps {
        let mut places: SecondaryMap<Block, Option<u32>> = SecondaryMap::new();
        for (number, state) in states.iter().enumerate() {
            places[state.block] = Some(number as u32);
        }
        let mut preds: Vec<Vec<u32>> = vec![Vec::new(); states.len()];
        for (number, state) in states.iter().enumerate() {
            for to in func.successors(state.block).filter_map(|to| places[to]) {
                preds[to as usize].push(number as u32);
            }
        }
        Sweeps {
            preds,
            ends: vec![Flight::none(); states.len()],
            known: vec![false; states.len()],
            entry: Flight::none(),
            floors: Vec::new(),
        }
    }

    /// Carries what is in flight along the edges, and marks the blocks at whose start that is something new.
    pub(super) fn run(&mut self, states: &mut [State], first: bool) {
        self.known.fill(false);
        for sweep in 0..SWEEPS {
            for (number, state) in states.iter_mut().enumerate() {
                self.entry.clear();
                for &pred in &self.preds[number] {
                    if self.known[pred as usize] {
                        self.entry.join(&self.ends[pred as usize]);
                    }
                }
                self.floors.resize(state.order.len(), 0);
                state.parts.ends.floors(&self.entry, &mut self.floors);
                state.start_with(&self.floors);
                state.simulate();
                let end = &mut self.ends[number];
                state.parts.ends.behind(&self.entry, &state.now, end);
                self.known[number] = true;
                if sweep + 1 == SWEEPS && (first || state.entry != self.entry) {
                    state.dirty = true;
                    state.entry.clone_from(&self.entry);
                }
            }
        }
        if first {
            for state in states {
                state.first = Some((state.now.length, state.now.conflicts, state.now.hits));
            }
        }
    }
}
