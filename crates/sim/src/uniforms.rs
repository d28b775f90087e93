//! Uniform registers for each part of a warp, where a schedule lets parts go on in any order.
//!
//! The chip has one set for the warp. Code is made for the order in which the chip runs the parts of a warp: ptxas keeps values in
//! uniform registers that the other side of a branch overwrites, where that side comes later (errata, program 1949). What a part
//! computes never depends on what another part left in them. So in another order each part gets the values it had when it
//! stopped, and code that is right on the chip stays right.

use crate::warp::Registers;

/// The uniform registers of lanes that do not run.
#[derive(Clone, Debug)]
struct Kept {
    lanes: u32,
    ur: [u32; 64],
    up: [u32; 8],
}

/// Whose uniform registers are where.
#[derive(Clone, Debug)]
pub(crate) struct Uniforms {
    /// The lanes whose values the register file holds.
    running: u32,
    /// Those of all others, each once.
    kept: Vec<Kept>,
}

impl Uniforms {
    pub fn new(lanes: u32) -> Self {
        Self {
            running: lanes,
            kept: Vec::new(),
        }
    }

    /// Some of the lanes that run part from the rest.
    pub fn part(&mut self, lanes: u32, registers: &Registers) {
        self.forget(lanes);
        self.running &= !lanes;
        self.kept.push(Kept {
            lanes,
            ur: registers.ur,
            up: registers.up,
        });
    }

    /// Other lanes run from now on.
    pub fn switch(&mut self, lanes: u32, registers: &mut Registers) {
        if self.running & lanes == 0 {
            let stopped = self.running;
            if stopped != 0 {
                self.part(stopped, registers);
            }
            if let Some(kept) = self.kept.iter().find(|kept| kept.lanes & lanes != 0) {
                (registers.ur, registers.up) = (kept.ur, kept.up);
            }
        }
        self.forget(lanes);
        self.running = lanes;
    }

    /// Lanes run together from now on, with the values of those that run, or else of the first.
    pub fn join(&mut self, lanes: u32) {
        if self.running & lanes != 0 {
            self.forget(lanes);
            self.running |= lanes;
            return;
        }
        let first = self.kept.iter().find(|kept| kept.lanes & lanes != 0);
        if let Some(first) = first.cloned() {
            self.forget(lanes);
            self.kept.push(Kept { lanes, ..first });
        }
    }

    /// Whether the register file holds the values of some of the lanes.
    pub fn is_running(&self, lanes: u32) -> bool {
        self.running & lanes != 0
    }

    /// Shows a change everything that is kept for some of the lanes.
    pub fn for_each(
        &mut self,
        lanes: u32,
        registers: &mut Registers,
        mut change: impl FnMut(&mut Registers),
    ) {
        for kept in &mut self.kept {
            if kept.lanes & lanes != 0 {
                std::mem::swap(&mut registers.ur, &mut kept.ur);
                std::mem::swap(&mut registers.up, &mut kept.up);
                change(registers);
                std::mem::swap(&mut registers.ur, &mut kept.ur);
                std::mem::swap(&mut registers.up, &mut kept.up);
            }
        }
    }

    fn forget(&mut self, lanes: u32) {
        for kept in &mut self.kept {
            kept.lanes &= !lanes;
        }
        self.kept.retain(|kept| kept.lanes != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_finds_what_it_left() {
        let mut registers = Registers::new(1);
        let mut uniforms = Uniforms::new(u32::MAX);
        registers.ur[4] = 1;
        uniforms.part(0xffff, &registers);
        registers.ur[4] = 2;
        uniforms.switch(0xffff, &mut registers);
        assert_eq!(registers.ur[4], 1);
        registers.ur[4] = 3;
        let mut seen = Vec::new();
        uniforms.for_each(u32::MAX, &mut registers, |it| {
            seen.push(it.ur[4]);
            it.ur[5] = 7;
        });
        assert_eq!((seen, registers.ur[5]), (vec![2], 0));
        uniforms.switch(0xffff_0000, &mut registers);
        assert_eq!((registers.ur[4], registers.ur[5]), (2, 7));
        uniforms.join(u32::MAX);
        uniforms.switch(0xff, &mut registers);
        assert_eq!(registers.ur[4], 2);
    }
}
