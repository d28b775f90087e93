//! Words for a kernel that waits for ever: at which barrier, and who is missing there.

use crate::access::RANK_SHIFT;
use crate::block::{Block, WARP};
use crate::cluster::ClusterBarrier;
use crate::warp::{Wait, Warp};
use orias_eval::mbarrier::Mbarrier;

/// Groups of lanes, and warps that are missing, that are named; of others there is the number.
const SHOWN: usize = 8;

/// What each block of a cluster waits for.
pub(crate) fn describe(blocks: &[Block], barrier: &ClusterBarrier) -> String {
    let mut reasons = Vec::new();
    for (rank, block) in blocks.iter().enumerate() {
        if !block.is_done() {
            let text = waits(block, barrier);
            reasons.push(match blocks.len() {
                1 => text,
                _ => format!("block {rank} of the cluster: {text}"),
            });
        }
    }
    let at_barrier = |warp: &Warp| {
        let mut groups = warp.groups.iter();
        groups.any(|group| matches!(group.wait, Wait::Cluster { .. }))
    };
    let mut warps = blocks.iter().flat_map(|block| &block.warps);
    if warps.any(at_barrier) {
        let absent =
            |warp: &&Warp| !warp.is_done() && warp.cluster_arrival != Some(barrier.generation);
        for (rank, block) in blocks.iter().enumerate() {
            let list = named(block.warps.iter().filter(absent));
            if !list.is_empty() {
                reasons.push(format!(
                    "missing at the cluster's barrier, of block {rank}: {list}"
                ));
            }
        }
    }
    reasons.join("; ")
}

/// Warps by their numbers.
fn named<'w>(warps: impl Iterator<Item = &'w Warp>) -> String {
    let mut names: Vec<String> = warps
        .map(|warp| match warp.is_done() {
            true => format!("warp {}, which has ended", warp.number),
            false => format!("warp {}", warp.number),
        })
        .collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// What each group of lanes of a block waits for.
fn waits(block: &Block, cluster: &ClusterBarrier) -> String {
    let mut parts = Vec::new();
    for warp in &block.warps {
        for group in &warp.groups {
            let what = match group.wait {
                Wait::None => match warp.looked {
                    Some((rank, offset)) if warp.looks > 0 => {
                        let at = u64::from(rank) << RANK_SHIFT | offset as u64;
                        let state = match rank == block.state.rank {
                            true => {
                                let word = block.state.shared.load(offset, 8);
                                format!(" ({})", Mbarrier::unpack(word).describe())
                            }
                            false => String::new(),
                        };
                        format!("waits for the mbarrier at {at:#x}{state}")
                    }
                    _ => "can run".to_owned(),
                },
                Wait::Cluster { .. } => format!(
                    "waits at the cluster's barrier, where {} of {} warps are",
                    cluster.arrived, cluster.live
                ),
                Wait::Sync(barrier) => format!("waits for its lanes at B{barrier}"),
                Wait::Lanes(mask) | Wait::Collective { mask, .. } => {
                    format!("waits for lanes {mask:#010x}")
                }
                Wait::Barrier { id, .. } => {
                    let barrier = &block.state.barriers[usize::from(id)];
                    let expected = barrier.expected.unwrap_or(block.state.live * WARP);
                    format!(
                        "waits at barrier {id}, where {} of {expected} threads are",
                        barrier.arrived
                    )
                }
            };
            parts.push(format!(
                "warp {} lanes {:#010x} at {:#x} {what}",
                warp.number,
                group.lanes,
                u64::from(group.pc) * 16
            ));
        }
    }
    let more = parts.len().saturating_sub(SHOWN);
    parts.truncate(SHOWN);
    if more > 0 {
        parts.push(format!("and {more} more groups"));
    }
    for (id, barrier) in block.state.barriers.iter().enumerate() {
        let here = |warp: &&Warp| {
            let at = |wait| matches!(wait, Wait::Barrier { id: at, .. } if usize::from(at) == id);
            warp.groups.iter().any(|group| at(group.wait))
        };
        if barrier.arrived > 0 && block.warps.iter().any(|warp| here(&warp)) {
            let absent = block.warps.iter().filter(|warp| !here(warp));
            let list = named(absent);
            if !list.is_empty() {
                parts.push(format!("not at barrier {id}: {list}"));
            }
        }
    }
    parts.join("; ")
}
