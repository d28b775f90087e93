//! Register files: how many registers a thread or a warp may use, and how many warps that leaves room for: `registers.tbl`.

use orias_sass::RegisterClass;

/// The register files of a chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterFiles {
    /// How many general registers code may name, from the first on.
    pub general: u8,
    /// The same of predicates.
    pub predicates: u8,
    /// The same of uniform registers.
    pub uniform: u8,
    /// The same of uniform predicates.
    pub uniform_predicates: u8,
    /// The same of convergence barriers.
    pub convergence: u8,
    /// General registers a thread has besides those code names.
    pub reserved: u32,
    /// General registers are handed to threads in multiples of this.
    pub granularity: u32,
    /// General registers of a multiprocessor.
    pub per_multiprocessor: u32,
    /// Most threads of a multiprocessor at a time.
    pub most_threads: u32,
    /// Most thread blocks of a multiprocessor at a time.
    pub most_blocks: u32,
    /// Most threads of a thread block.
    pub block_threads: u32,
    /// Threads in a warp.
    pub warp: u32,
    /// Warp schedulers of a multiprocessor.
    pub schedulers: u32,
    /// A limit below this is raised to it.
    pub fewest: u32,
    /// A kernel is launched with at least so many general registers, the reserved ones included.
    pub launched: u32,
}

impl RegisterFiles {
    /// How many registers of `class` code may name.
    #[must_use]
    pub const fn usable(&self, class: RegisterClass) -> u8 {
        match class {
            RegisterClass::R => self.general,
            RegisterClass::P => self.predicates,
            RegisterClass::UR => self.uniform,
            RegisterClass::UP => self.uniform_predicates,
            RegisterClass::B => self.convergence,
        }
    }

    /// General registers a thread is given so that code can use `live` of them.
    #[must_use]
    pub const fn portion(&self, live: u32) -> u32 {
        (live + self.reserved).next_multiple_of(self.granularity)
    }

    /// Thread blocks of `threads` each that a multiprocessor holds at a time if code uses `live` general registers.
    #[must_use]
    pub fn blocks(&self, live: u32, threads: u32) -> u32 {
        let block = self.portion(live).max(self.granularity) * threads;
        (self.per_multiprocessor / block)
            .min(self.most_threads / threads)
            .min(self.most_blocks)
    }

    /// General registers code may use with `warps` warps on a multiprocessor at a time.
    #[must_use]
    pub fn usable_with(&self, warps: u32) -> u32 {
        let each = self.per_multiprocessor / (warps * self.warp).max(1);
        let whole = each / self.granularity * self.granularity;
        whole.saturating_sub(self.reserved)
    }

    /// Most warps of a multiprocessor at a time.
    #[must_use]
    pub const fn warps(&self) -> u32 {
        self.most_threads / self.warp
    }

    /// General registers code may use so that a multiprocessor holds as many threads as it can.
    #[must_use]
    pub const fn free(&self) -> u32 {
        self.per_multiprocessor / self.most_threads - self.reserved
    }
}
