//! Register pressure: how many registers of each class are occupied at each point.
//!
//! A tuple counts as many registers as it has. At an instruction two things must fit: what is live before it, and what is live after it
//! together with everything it writes, read later or not. [`Pressure::at`] is the larger, class by class. The pressure at the start of a
//! block counts all its parameters.
//!
//! The count is of registers, not of holes: an allocation that respects alignment may need more. A value kept by a guarded instruction and
//! the value that replaces it share a register, and are never counted together unless the kept one is read later.
//!
//! **Algorithm.** One walk backward through each block from what is live at its end. Cost: O(operands + live pairs of value and block).

use super::liveness::Liveness;
use super::registers::{RegisterLiveness, RegisterSet, step_back};
use crate::{Block, Class, Function, Inst, Value};
use cranelift_entity::EntityRef;
use std::ops::Index;

/// A number of registers for each class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Counts([u32; 5]);

impl Counts {
    /// The larger of the two, class by class.
    #[must_use]
    pub fn max(self, other: Counts) -> Counts {
        Counts(std::array::from_fn(|class| {
            self.0[class].max(other.0[class])
        }))
    }

    fn add(&mut self, class: Class, registers: u8) {
        self.0[class as usize] += u32::from(registers);
    }

    fn subtract(&mut self, class: Class, registers: u8) {
        self.0[class as usize] -= u32::from(registers);
    }

    fn of_set(set: &RegisterSet) -> Counts {
        let mut counts = Counts::default();
        for class in Class::ALL {
            counts.0[class as usize] = set.count(class);
        }
        counts
    }
}

impl Index<Class> for Counts {
    type Output = u32;

    fn index(&self, class: Class) -> &u32 {
        &self.0[class as usize]
    }
}

/// The pressure at every point of a function.
#[derive(Clone, Debug)]
pub struct Pressure {
    at: Vec<Counts>,
    entry: Vec<Counts>,
    in_block: Vec<Counts>,
    overall: Counts,
}

impl Pressure {
    /// The pressure of values, for a function in SSA form.
    pub fn new(function: &Function, live: &Liveness) -> Self {
        let mut pressure = Pressure::empty(function);
        let mut values = LiveValues {
            function,
            is_live: vec![false; function.value_count()],
            counts: Counts::default(),
        };
        for block in function.blocks() {
            for &value in live.live_out(block) {
                values.begin(value);
            }
            let mut peak = values.counts;
            let mut inst = function.layout.last_inst(block);
            while let Some(at) = inst {
                let mut after = values.counts;
                function.for_each_value_def(at, |value| {
                    if !values.end(value) {
                        let ty = function.value_type(value);
                        after.add(ty.class(), ty.len());
                    }
                });
                function.for_each_value_use(at, |value| values.begin(value));
                pressure.at[at.index()] = after.max(values.counts);
                peak = peak.max(pressure.at[at.index()]);
                inst = function.layout.prev_inst(at);
            }
            for &param in function.block_params(block) {
                values.begin(param);
            }
            pressure.finish_block(block, values.counts, peak);
            for &value in live
                .live_in(block)
                .iter()
                .chain(function.block_params(block))
            {
                values.end(value);
            }
        }
        pressure
    }

    /// The pressure of physical registers, for a function after allocation.
    pub fn of_registers(function: &Function, live: &RegisterLiveness) -> Self {
        let mut pressure = Pressure::empty(function);
        for block in function.blocks() {
            let mut set = *live.live_out(block);
            let mut peak = Counts::of_set(&set);
            let mut inst = function.layout.last_inst(block);
            while let Some(at) = inst {
                let mut after = set;
                for reg in function.defs(at).filter_map(|reg| reg.phys()) {
                    after.insert(reg);
                }
                step_back(function, at, &mut set);
                pressure.at[at.index()] = Counts::of_set(&after).max(Counts::of_set(&set));
                peak = peak.max(pressure.at[at.index()]);
                inst = function.layout.prev_inst(at);
            }
            pressure.finish_block(block, Counts::of_set(&set), peak);
        }
        pressure
    }

    fn empty(function: &Function) -> Self {
        Pressure {
            at: vec![Counts::default(); function.inst_count()],
            entry: vec![Counts::default(); function.block_count()],
            in_block: vec![Counts::default(); function.block_count()],
            overall: Counts::default(),
        }
    }

    fn finish_block(&mut self, block: Block, entry: Counts, peak: Counts) {
        self.entry[block.index()] = entry;
        self.in_block[block.index()] = peak.max(entry);
        self.overall = self.overall.max(self.in_block[block.index()]);
    }

    /// The pressure while `inst` runs.
    pub fn at(&self, inst: Inst) -> Counts {
        self.at[inst.index()]
    }

    /// The pressure at the start of `block`, parameters included.
    pub fn at_entry(&self, block: Block) -> Counts {
        self.entry[block.index()]
    }

    /// The highest pressure in `block`.
    pub fn in_block(&self, block: Block) -> Counts {
        self.in_block[block.index()]
    }

    /// The highest pressure in the function.
    pub fn overall(&self) -> Counts {
        self.overall
    }
}

/// The values live at one point, and what they occupy.
struct LiveValues<'a> {
    function: &'a Function,
    is_live: Vec<bool>,
    counts: Counts,
}

impl LiveValues<'_> {
    fn begin(&mut self, value: Value) {
        if !std::mem::replace(&mut self.is_live[value.index()], true) {
            let ty = self.function.value_type(value);
            self.counts.add(ty.class(), ty.len());
        }
    }

    /// Whether `value` was live.
    fn end(&mut self, value: Value) -> bool {
        let was_live = std::mem::replace(&mut self.is_live[value.index()], false);
        if was_live {
            let ty = self.function.value_type(value);
            self.counts.subtract(ty.class(), ty.len());
        }
        was_live
    }
}
