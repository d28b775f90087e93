//! Puts the planned regions into the function.
//!
//! Blocks and edges of the plan are those of the function as it was. An edge that gets blocks put on it is from then on known
//! by its last piece, the one that goes where it always went.

use super::plan::{Opening, Region};
use super::{leave_at_start, meet_at_start, open_at_end};
use crate::loops::new_block_before;
use crate::pipeline::PhaseError;
use orias_ori::{Block, Edge, Function, Type, Value};
use std::collections::BTreeMap;

/// Makes `regions`, outer ones first.
pub(super) fn apply(func: &mut Function, regions: &[Region]) -> Result<(), PhaseError> {
    // The last piece of each edge that was cut.
    let mut last: BTreeMap<Edge, Edge> = BTreeMap::new();
    let mut incoming: BTreeMap<Block, usize> = BTreeMap::new();
    let blocks: Vec<Block> = func.blocks().collect();
    for &block in &blocks {
        for &edge in func.successor_edges(block) {
            *incoming.entry(func.edge_target(edge)).or_default() += 1;
        }
    }
    let tokens: Vec<Value> = regions.iter().map(|_| func.create_value(Type::B)).collect();
    // Along an edge, lanes first leave regions, then meet, then open others.
    for (roles, edges) in leaving_edges(func, regions) {
        let all = incoming.entry(roles.target).or_default();
        *all = (*all + 1).saturating_sub(edges.len());
        let block = landing(func, roles.target, &edges, &mut last);
        for &number in &roles.left {
            leave_at_start(func, block, tokens[number])?;
        }
    }
    // Inner regions meet first.
    let mut meetings = vec![None; regions.len()];
    for (number, region) in regions.iter().enumerate().rev() {
        let target = region.meeting;
        let shared = regions[..number]
            .iter()
            .any(|outer| outer.meeting == target);
        let pieces = pieces_of(&region.arriving, &last).len();
        let all = incoming.entry(target).or_default();
        let block = match *all == pieces && !shared {
            true => target,
            false => {
                *all = (*all + 1).saturating_sub(pieces);
                landing(func, target, &region.arriving, &mut last)
            }
        };
        meet_at_start(func, block, tokens[number])?;
        meetings[number] = Some(block);
    }
    for ((region, &token), meeting) in regions.iter().zip(&tokens).zip(meetings) {
        let meeting = meeting.unwrap_or(region.meeting);
        let at = match region.opening {
            Opening::End(block) => block,
            Opening::Before(header) => landing(func, header, &region.entering, &mut last),
        };
        open_at_end(func, at, meeting, token)?;
    }
    Ok(())
}

/// What an edge is to the regions, by their numbers: edges with the same roles may share a block.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Roles {
    target: Block,
    left: Vec<usize>,
    met: Vec<usize>,
    opened: Vec<usize>,
}

/// The edges along which lanes leave regions, those with the same roles together.
fn leaving_edges(func: &Function, regions: &[Region]) -> BTreeMap<Roles, Vec<Edge>> {
    let mut by_edge: BTreeMap<Edge, Roles> = BTreeMap::new();
    for (number, region) in regions.iter().enumerate() {
        for &edge in &region.leaving {
            let roles = by_edge.entry(edge).or_insert_with(|| Roles {
                target: func.edge_target(edge),
                left: Vec::new(),
                met: Vec::new(),
                opened: Vec::new(),
            });
            roles.left.push(number);
        }
    }
    for (number, region) in regions.iter().enumerate() {
        for edge in &region.arriving {
            if let Some(roles) = by_edge.get_mut(edge) {
                roles.met.push(number);
            }
        }
        for edge in &region.entering {
            if let Some(roles) = by_edge.get_mut(edge) {
                roles.opened.push(number);
            }
        }
    }
    let mut together: BTreeMap<Roles, Vec<Edge>> = BTreeMap::new();
    for (edge, roles) in by_edge {
        together.entry(roles).or_default().push(edge);
    }
    together
}

/// The last pieces of some edges, each once.
fn pieces_of(edges: &[Edge], last: &BTreeMap<Edge, Edge>) -> Vec<Edge> {
    let mut pieces: Vec<Edge> = edges
        .iter()
        .map(|edge| last.get(edge).copied().unwrap_or(*edge))
        .collect();
    pieces.sort_unstable();
    pieces.dedup();
    pieces
}

/// A block between some edges and their target, which gets the parameters of the target and goes on to it.
fn landing(
    func: &mut Function,
    target: Block,
    edges: &[Edge],
    last: &mut BTreeMap<Edge, Edge>,
) -> Block {
    let block = new_block_before(func, target, &pieces_of(edges, last));
    if let Some(&onward) = func.successor_edges(block).first() {
        last.extend(edges.iter().map(|&edge| (edge, onward)));
    }
    block
}
