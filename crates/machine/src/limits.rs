//! What the control field can say, how long barriers of all kinds take to hold, and caches: `limits.tbl`.

/// The limits of a chip. Numbers of cycles are between issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Barriers of a warp.
    pub barriers: u8,
    /// The longest stall the control field can say.
    pub stall_max: u8,
    /// The longest stall together with bit 109.
    pub stall_max_yielding: u8,
    /// A barrier set by an instruction is seen by a wait that issues this many cycles later, not before.
    pub barrier_set_to_wait: u16,
    /// A memory access, or a look at the result, must issue this many cycles after a barrier between threads, not before.
    pub barrier_settles: u16,
    /// What a DEPBAR waits for is sure to be there only this many cycles after it issued.
    pub depbar_settles: u8,
    /// Loads that never run, which stand before a run of copies to shared memory.
    pub idle_loads: u8,
    /// The barrier that counts groups of copies.
    pub copy_scoreboard: u8,
    /// Most groups of copies that a wait can name.
    pub copy_groups: u8,
    /// Registers of a bank that an instruction reads at once.
    pub bank_reads: u8,
    /// The longest stall behind which the operand cache still holds what it held.
    pub operand_cache_lasts: u8,
    /// Bytes of a line of the caches.
    pub cache_line: u32,
    /// Bytes of the first cache that local memory gets, of all threads of a multiprocessor together.
    pub local_cache: u64,
    /// Cycles of a load from global or local memory that hits the first cache, and of what reads it.
    pub first_cache: u16,
    /// Cycles that a warp alone waits at a barrier between threads beyond the stall.
    pub barrier_passes: u16,
    /// Cycles of a load that misses the first cache.
    pub next_cache: u16,
    /// Bytes of a line of the caches for constants.
    pub constant_line: u32,
    /// Cycles that a load of constants takes longer for a line that nobody has read since the launch.
    pub constant_load_miss: u16,
    /// Cycles for which nothing of a warp issues behind an operand, or a uniform load, of such a line.
    pub constant_read_miss: u16,
    /// Cycles until an operation of variable latency has read its sources, as a rule: what an order is made with.
    pub source_read: u16,
    /// Cycles until it releases its read barrier, as a rule: what barriers are chosen with.
    pub source_released: u16,
    /// Cycles until it has read its sources at the earliest: what finished code is judged and emulated with.
    pub source_read_least: u16,
    /// Bytes that memory gives a multiprocessor each cycle.
    pub memory_bytes: u32,
    /// Multiprocessors of the device.
    pub multiprocessors: u32,
    /// Most bytes of shared memory of a block, what the system keeps included.
    pub most_shared: u32,
    /// Most bytes of local memory of a thread.
    pub most_local: u32,
}
