//! What the driver puts into constant bank 0 before a kernel starts, and where: `constants.tbl`.

/// Where a kernel finds what it was launched with. Offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelConstants {
    /// The bank everything below is in.
    pub bank: u8,
    /// The bank that module-scope constants are in.
    pub user_bank: u8,
    /// Threads of a block along x, y and z.
    pub block_threads: [i32; 3],
    /// Blocks of the grid along x, y and z.
    pub grid_blocks: [i32; 3],
    /// The generic address of the local window, 64 bits.
    pub local_window: i32,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: i32,
    /// The number of the grid, 64 bits.
    pub grid_number: i32,
    /// The first environment register.
    pub environment: i32,
    /// The addresses of the driver's records of textures, samplers and surfaces, 64 bits each.
    pub record_tables: i32,
    /// Where the reserved part of shared memory ends.
    pub reserved_shared_end: i32,
    /// Where the second part of the reserved shared memory starts.
    pub reserved_shared_second: i32,
    /// A number of 64 bits that is another one each time, to find on the stack what nobody should have changed.
    pub canary: i32,
    /// The generic address of the constant window, 64 bits.
    pub constant_window: i32,
    /// How many multiprocessors there are.
    pub multiprocessors: i32,
    /// What shared memory has beyond what the program asked for.
    pub shared_overhead: i32,
    /// The most shared memory a block can have.
    pub shared_limit: i32,
    /// 1 if the grid was launched with clusters.
    pub explicit_cluster: i32,
    /// Blocks of a cluster along x, y and z.
    pub cluster_blocks: [i32; 3],
    /// One divided by the blocks of a cluster along x, y and z, as singles.
    pub cluster_scales: [i32; 3],
    /// Clusters of the grid along x, y and z.
    pub grid_clusters: [i32; 3],
    /// Blocks of a cluster.
    pub cluster_size: i32,
    /// The graph the grid belongs to, 64 bits.
    pub graph: i32,
    /// The generic address of the first parameter, 64 bits.
    pub param_window: i32,
    /// The last generic address of the parameter window, 64 bits.
    pub param_window_last: i32,
    /// The descriptor that accesses to global memory name, 64 bits.
    pub descriptor: i32,
    /// The first parameter.
    pub params: i32,
    /// The bit at which the number of a thread block in its cluster stands in a shared address.
    pub shared_rank_shift: u8,
    /// Bytes at the start of shared memory that are reserved.
    pub reserved_shared: u32,
    /// Where what the driver uses of them ends.
    pub reserved_shared_used: u32,
}
