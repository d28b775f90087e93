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
    /// By block: what is in flight before and behind it, where that is known.
    entries: Vec<Flight>,
    ends: Vec<Flight>,
    known: Vec<bool>,
    /// By block: whether what is in flight behind it is something else than in the sweep before.
    new: Vec<bool>,
    end: Flight,
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
            entries: vec![Flight::none(); states.len()],
            ends: vec![Flight::none(); states.len()],
            known: vec![false; states.len()],
            new: vec![false; states.len()],
            end: Flight::none(),
            floors: Vec::new(),
        }
    }

    /// Carries what is in flight along the edges, and marks the blocks at whose start that is something new.
    pub(super) fn run(&mut self, states: &mut [State], first: bool) {
        self.known.fill(false);
        for sweep in 0..SWEEPS {
            for (number, state) in states.iter_mut().enumerate() {
                let preds = &self.preds[number];
                let comes_new = |pred: &u32| *pred as usize >= number || self.new[*pred as usize];
                if sweep == 0 || preds.iter().any(comes_new) {
                    let entry = &mut self.entries[number];
                    entry.clear();
                    for &pred in preds.iter().filter(|pred| self.known[**pred as usize]) {
                        entry.join(&self.ends[pred as usize]);
                    }
                    self.floors.resize(state.order.len(), 0);
                    state.parts.ends.floors(entry, &mut self.floors);
                    state.start_with(&self.floors);
                    state.simulate();
                    state.parts.ends.behind(entry, &state.now, &mut self.end);
                    self.new[number] = self.end != self.ends[number];
                    std::mem::swap(&mut self.end, &mut self.ends[number]);
                    self.known[number] = true;
                } else {
                    self.new[number] = false;
                }
                let entry = &self.entries[number];
                if sweep + 1 == SWEEPS && (first || state.entry != *entry) {
                    state.dirty = true;
                    state.entry.clone_from(entry);
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
