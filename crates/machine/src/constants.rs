//! What the driver puts into constant bank 0 before a kernel starts, and where.
//!
//! A row holds for all targets of one architecture. The offsets of sm_90 are seen in what ptxas 13.0.88 writes for special
//! registers, address conversions and parameters.

use orias_sass::Target;

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
    /// Where the reserved part of shared memory ends.
    pub reserved_shared_end: i32,
    /// Where the second part of the reserved shared memory starts.
    pub reserved_shared_second: i32,
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
}

/// sm_90 and sm_90a; seen.
const SM_90: KernelConstants = KernelConstants {
    bank: 0,
    user_bank: 3,
    block_threads: [0x0, 0x4, 0x8],
    grid_blocks: [0xc, 0x10, 0x14],
    local_window: 0x20,
    dynamic_shared: 0x2c,
    grid_number: 0x30,
    environment: 0x40,
    reserved_shared_end: 0x68,
    reserved_shared_second: 0x6c,
    constant_window: 0xd0,
    multiprocessors: 0x10c,
    shared_overhead: 0x114,
    shared_limit: 0x13c,
    explicit_cluster: 0x140,
    cluster_blocks: [0x144, 0x148, 0x14c],
    cluster_scales: [0x150, 0x154, 0x158],
    grid_clusters: [0x15c, 0x160, 0x164],
    cluster_size: 0x188,
    graph: 0x190,
    param_window: 0x198,
    param_window_last: 0x1a0,
    descriptor: 0x208,
    params: 0x210,
    shared_rank_shift: 24,
    reserved_shared: 0x400,
};

const ROWS: &[(&[&str], KernelConstants)] = &[(&["sm_90", "sm_90a"], SM_90)];

impl KernelConstants {
    /// The row of `target`; `None` where nobody has looked yet.
    pub fn of(target: Target) -> Option<&'static KernelConstants> {
        ROWS.iter()
            .find(|(names, _)| names.contains(&target.name()))
            .map(|(_, row)| row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_target_and_has_one_row() {
        let names: Vec<&str> = ROWS
            .iter()
            .flat_map(|(names, _)| names.iter().copied())
            .collect();
        for name in &names {
            let target = Target::from_name(name).expect("a target");
            assert!(KernelConstants::of(target).is_some());
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1);
        }
    }
}
