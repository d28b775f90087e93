//! The ten units that the scheduler keeps the books of, and what an instruction costs them.
//!
//! `machine::issue` knows fourteen units, some of which never contend in practice. For choosing an order they are folded into the ten
//! that ptxas counts: integer, FP32, FP64, tensor, load/store, texture, branch, shared memory, special function, uniform.

use orias_machine::issue::Unit;
use orias_machine::timing::{Completion, Queue, Timing};
use orias_sass::{Op, Space};

/// One of the ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Pipe {
    /// Integer arithmetic, logic, comparison, moves, votes.
    Integer,
    /// Single precision, IMAD, packed half precision.
    Fp32,
    /// Double precision.
    Fp64,
    /// Matrix operations.
    Tensor,
    /// Global, local and generic memory, and copies.
    LoadStore,
    /// Textures and surfaces.
    Texture,
    /// Branches, convergence, barriers, special registers.
    Branch,
    /// Shared memory and exchange between lanes.
    Shared,
    /// Functions and conversions.
    Special,
    /// The uniform datapath and constants.
    Uniform,
}

impl Pipe {
    /// How many there are.
    pub const COUNT: usize = Pipe::Uniform as usize + 1;

    /// Every pipe.
    pub const ALL: [Pipe; Pipe::COUNT] = [
        Pipe::Integer,
        Pipe::Fp32,
        Pipe::Fp64,
        Pipe::Tensor,
        Pipe::LoadStore,
        Pipe::Texture,
        Pipe::Branch,
        Pipe::Shared,
        Pipe::Special,
        Pipe::Uniform,
    ];

    /// What reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Pipe::Integer => "integer",
            Pipe::Fp32 => "fp32",
            Pipe::Fp64 => "fp64",
            Pipe::Tensor => "tensor",
            Pipe::LoadStore => "load/store",
            Pipe::Texture => "texture",
            Pipe::Branch => "branch",
            Pipe::Shared => "shared",
            Pipe::Special => "special",
            Pipe::Uniform => "uniform",
        }
    }

    /// The pipe of an operation that occupies `unit`.
    pub fn of(op: Op, unit: Unit, timing: Option<&Timing>) -> Pipe {
        match unit {
            Unit::Alu => Pipe::Integer,
            Unit::Fma | Unit::Half => Pipe::Fp32,
            Unit::Fp64 => Pipe::Fp64,
            Unit::Special => Pipe::Special,
            Unit::Tensor | Unit::Group => Pipe::Tensor,
            Unit::Uniform | Unit::UniformMove | Unit::Constant => Pipe::Uniform,
            Unit::System | Unit::Barrier | Unit::Control => Pipe::Branch,
            Unit::Memory => match timing {
                Some(timing) if timing.texture => Pipe::Texture,
                Some(timing) if timing.completion == Completion::InOrder(Queue::Shared) => {
                    Pipe::Shared
                }
                _ if op
                    .row()
                    .memory
                    .iter()
                    .any(|memory| memory.space == Space::Shared) =>
                {
                    Pipe::Shared
                }
                _ => Pipe::LoadStore,
            },
        }
    }
}

/// How much each pipe has been used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage([u32; Pipe::COUNT]);

impl Usage {
    /// Adds `cycles` of `pipe`.
    pub fn add(&mut self, pipe: Pipe, cycles: u32) {
        self.0[pipe as usize] += cycles;
    }

    /// The cycles of `pipe`.
    pub const fn of(&self, pipe: Pipe) -> u32 {
        self.0[pipe as usize]
    }

    /// The cycles of the busiest pipe.
    pub fn most(&self) -> u32 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}
