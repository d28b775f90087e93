//! What one warp did, step by step: for looking at a kernel instruction by instruction and lane by lane.
//!
//! After each instruction of the watched warp its registers are compared with what they held before; what differs is kept. So a trace can
//! be played in both directions, and a result that arrives late is seen where it arrives. A step costs one look at each register of the
//! warp; other warps cost nothing.

use crate::operand::Lanes;
use crate::warp::Registers;
use orias_sass::Register;

/// Which warp to watch, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Its block in the grid.
    pub block: [u32; 3],
    /// Its number in the block.
    pub warp: u32,
    /// Steps that are kept at most.
    pub most: usize,
}

/// A register that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The register.
    pub register: Register,
    /// The lanes in which it did; a register that all lanes share changes in all of them.
    pub lanes: u32,
    /// What it holds now: a word for each of these lanes, lowest first, or one word for all. A predicate is 0 or 1.
    pub values: Vec<u32>,
}

/// An instruction that was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// Its index in the code.
    pub index: u32,
    /// The lanes it was issued for.
    pub lanes: u32,
    /// Those of them whose guard held.
    pub active: u32,
    /// The cycle of the warp, where time is looked at.
    pub cycle: u64,
    /// What changed.
    pub changes: Vec<Change>,
}

/// What a warp did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order of issue.
    pub steps: Vec<TraceStep>,
    /// Whether the warp went on behind the last of them.
    pub cut: bool,
}

/// A trace that is being made.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    watch: Watch,
    trace: Trace,
    before: Option<Box<Registers>>,
    /// Whether the last step is waiting for its changes.
    open: bool,
}

impl Recorder {
    pub fn new(watch: Watch) -> Self {
        Self {
            watch,
            trace: Trace::default(),
            before: None,
            open: false,
        }
    }

    /// Whether a warp is the one that is watched.
    #[inline]
    pub fn watches(&self, block: [u32; 3], warp: u32) -> bool {
        self.watch.warp == warp && self.watch.block == block
    }

    /// An instruction is issued.
    pub fn begin(
        &mut self,
        index: usize,
        (lanes, active): (u32, u32),
        cycle: u64,
        now: &Registers,
    ) {
        if self.trace.steps.len() >= self.watch.most {
            self.trace.cut = true;
            return;
        }
        self.before.get_or_insert_with(|| Box::new(now.clone()));
        self.trace.steps.push(TraceStep {
            index: index as u32,
            lanes,
            active,
            cycle,
            changes: Vec::new(),
        });
        self.open = true;
    }

    /// It has run.
    pub fn end(&mut self, now: &Registers) {
        let open = std::mem::take(&mut self.open);
        if let (true, Some(step), Some(before)) =
            (open, self.trace.steps.last_mut(), &mut self.before)
        {
            note_changes(before, now, &mut step.changes);
            (**before).clone_from(now);
        }
    }

    /// Whether the watched warp did anything here.
    pub fn has_steps(&self) -> bool {
        !self.trace.steps.is_empty()
    }

    pub fn into_trace(self) -> Trace {
        self.trace
    }
}

fn note_changes(before: &Registers, now: &Registers, changes: &mut Vec<Change>) {
    let lanes_of = |old: &Lanes, new: &Lanes| {
        let differing = old.iter().zip(new).enumerate();
        differing.fold(0u32, |lanes, (lane, (old, new))| {
            lanes | u32::from(old != new) << lane
        })
    };
    let mut in_lanes = |register: Register, old: &Lanes, new: &Lanes| {
        let lanes = lanes_of(old, new);
        if lanes != 0 {
            let values = (0..32).filter(|lane| lanes >> lane & 1 == 1);
            changes.push(Change {
                register,
                lanes,
                values: values.map(|lane| new[lane]).collect(),
            });
        }
    };
    for (index, new) in now.r.iter().enumerate() {
        // A warp may have been given more registers since.
        let old = before.r.get(index).unwrap_or(&[0; 32]);
        in_lanes(Register::r(index as u8), old, new);
    }
    for (index, (old, new)) in before.p.iter().zip(now.p).enumerate() {
        let spread = |bits: u32| -> Lanes { std::array::from_fn(|lane| bits >> lane & 1) };
        in_lanes(Register::p(index as u8), &spread(*old), &spread(new));
    }
    let mut shared = |register: Register, value: u32| {
        changes.push(Change {
            register,
            lanes: u32::MAX,
            values: vec![value],
        });
    };
    for (index, (old, new)) in before.ur.iter().zip(now.ur).enumerate() {
        if *old != new {
            shared(Register::ur(index as u8), new);
        }
    }
    for (index, (old, new)) in before.up.iter().zip(now.up).enumerate() {
        if *old != new {
            shared(Register::up(index as u8), u32::from(new != 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_keeps_what_differs_and_in_which_lanes() {
        let mut recorder = Recorder::new(Watch {
            block: [0; 3],
            warp: 0,
            most: 1,
        });
        let mut now = Registers::new(4);
        recorder.begin(3, (0xff, 0x0f), 7, &now);
        now.r[2][1] = 5;
        now.r[2][3] = 6;
        now.p[1] = 0b100;
        now.ur[4] = 9;
        recorder.end(&now);
        recorder.begin(4, (0xff, 0xff), 8, &now);
        now.r[0][0] = 1;
        recorder.end(&now);
        let trace = recorder.into_trace();
        assert!(trace.cut);
        assert_eq!(trace.steps.len(), 1);
        let change = |register, lanes, values| Change {
            register,
            lanes,
            values,
        };
        assert_eq!(
            trace.steps[0].changes,
            [
                change(Register::r(2), 0b1010, vec![5, 6]),
                change(Register::p(1), 0b100, vec![1]),
                change(Register::ur(4), u32::MAX, vec![9]),
            ]
        );
    }
}
