//! Special registers: what the program asks about its place and its surroundings.

use super::{Thread, World};
use orias_ptx::special::SpecialId as Id;

/// Multiprocessors of an H200.
const MULTIPROCESSORS: u64 = 132;

/// Bytes of shared memory that the system keeps for itself.
const RESERVED_SHARED: u64 = 1 << 10;
/// Where what the driver uses of it ends; there is no second part. Seen on an H200, driver 580.
const RESERVED_SHARED_END: u64 = 288;

/// A special register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Special {
    /// `%tid`, and which component.
    Thread(u8),
    /// `%ntid`
    Threads(u8),
    /// `%ctaid`
    Cta(u8),
    /// `%nctaid`
    Ctas(u8),
    /// `%clusterid`
    Cluster(u8),
    /// `%nclusterid`
    Clusters(u8),
    /// `%cluster_ctaid`
    InCluster(u8),
    /// `%cluster_nctaid`
    ClusterCtas(u8),
    /// `%cluster_ctarank`
    Rank,
    /// `%cluster_nctarank`
    Ranks,
    /// `%is_explicit_cluster`
    Explicit,
    Lane,
    Warp,
    /// Warps that a multiprocessor has room for.
    WarpSlots,
    /// Lanes equal, at most, below, at least, above this one.
    LaneMask(fn(u32, u32) -> bool),
    /// Steps executed so far, from that bit on.
    Clock(u8),
    DynamicShared,
    TotalShared,
    /// What does not matter here, with its value.
    Fixed(u64),
}

impl Special {
    /// The register of that name and component; `None` where it is not known here.
    pub fn of(special: orias_ptx::special::Special, component: u8) -> Option<Self> {
        // A vector without component is its first where one value is wanted.
        let component = if component == 255 { 0 } else { component };
        Some(match special.register().id {
            Id::Tid => Self::Thread(component),
            Id::Ntid => Self::Threads(component),
            Id::Ctaid => Self::Cta(component),
            Id::Nctaid => Self::Ctas(component),
            Id::Clusterid => Self::Cluster(component),
            Id::Nclusterid => Self::Clusters(component),
            Id::ClusterCtaid => Self::InCluster(component),
            Id::ClusterNctaid => Self::ClusterCtas(component),
            Id::ClusterCtarank => Self::Rank,
            Id::ClusterNctarank => Self::Ranks,
            Id::IsExplicitCluster => Self::Explicit,
            Id::Laneid => Self::Lane,
            Id::Warpid => Self::Warp,
            Id::Nwarpid => Self::WarpSlots,
            Id::LanemaskEq => Self::LaneMask(|other, lane| other == lane),
            Id::LanemaskLe => Self::LaneMask(|other, lane| other <= lane),
            Id::LanemaskLt => Self::LaneMask(|other, lane| other < lane),
            Id::LanemaskGe => Self::LaneMask(|other, lane| other >= lane),
            Id::LanemaskGt => Self::LaneMask(|other, lane| other > lane),
            Id::Clock | Id::Clock64 | Id::Globaltimer | Id::GlobaltimerLo => Self::Clock(0),
            Id::ClockHi | Id::GlobaltimerHi => Self::Clock(32),
            Id::DynamicSmemSize => Self::DynamicShared,
            Id::TotalSmemSize | Id::AggrSmemSize => Self::TotalShared,
            Id::Smid
            | Id::Gridid
            | Id::Envreg
            | Id::CurrentGraphExec
            | Id::Pm
            | Id::PmWide
            | Id::ReservedSmemOffsetBegin
            | Id::ReservedSmemOffset => Self::Fixed(0),
            Id::Nsmid => Self::Fixed(MULTIPROCESSORS),
            Id::ReservedSmemOffsetEnd => Self::Fixed(RESERVED_SHARED_END),
            Id::ReservedSmemOffsetCap => Self::Fixed(RESERVED_SHARED),
        })
    }
}

impl Thread {
    pub(super) fn special(&self, special: Special, world: &World<'_>) -> u64 {
        let component = |of: [u32; 3], at: u8| of.get(usize::from(at)).copied().unwrap_or(0);
        match special {
            Special::Thread(at) => component(self.index, at).into(),
            Special::Threads(at) => component(world.launch.block, at).into(),
            Special::Cta(at) => component(world.cta, at).into(),
            Special::Ctas(at) => component(world.launch.grid, at).into(),
            Special::Cluster(at) => {
                (component(world.cta, at) / component(world.cluster, at).max(1)).into()
            }
            Special::Clusters(at) => {
                (component(world.launch.grid, at) / component(world.cluster, at).max(1)).into()
            }
            Special::InCluster(at) => {
                (component(world.cta, at) % component(world.cluster, at).max(1)).into()
            }
            Special::ClusterCtas(at) => component(world.cluster, at).into(),
            Special::Rank => world.rank.into(),
            Special::Ranks => world.common.shared.len() as u64,
            Special::Explicit => world.explicit_cluster.into(),
            Special::Lane => self.lane.into(),
            Special::Warp => self.warp.into(),
            Special::WarpSlots => 64,
            Special::LaneMask(holds) => (0..32)
                .filter(|&other| holds(other, self.lane))
                .fold(0, |mask, other| mask | 1 << other),
            Special::Clock(from) => *world.steps >> from,
            Special::DynamicShared => world.launch.dynamic_shared.into(),
            Special::TotalShared => world.shared_bytes,
            Special::Fixed(value) => value,
        }
    }
}
