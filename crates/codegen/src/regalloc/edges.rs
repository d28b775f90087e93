//! Out of SSA form: moves on edges.
//!
//! The scan leaves live values and arguments somewhere at the end of a block and expects them somewhere at the start of the
//! next. Where the two differ, the edge carries a parallel copy. It goes to the end of the block the edge leaves if that has
//! no other edge, to the start of the block it enters if no other edge enters that one, and else before the branch if nothing
//! that lives on the other edges is overwritten (so a loop keeps its one jump), or into a new block on the edge.
//!
//! Afterwards edges have no arguments and blocks no parameters.

use super::assign::{BlockBoundaries, NOWHERE, parallel_copy};
use super::file::{Units, contains, insert};
use cranelift_entity::EntityRef;
use orias_ori::analysis::{FlowGraph, Liveness};
use orias_ori::{AbstractMods, AbstractOp, Block, Class, Edge, Function, Inst, PhysReg, Value};
use smallvec::SmallVec;

type Copies = Vec<(PhysReg, PhysReg)>;

/// Puts the moves in place.
pub(super) fn resolve(
    func: &mut Function,
    graph: &FlowGraph,
    live: &Liveness,
    borders: &BlockBoundaries,
) {
    let blocks: Vec<Block> = func.blocks().collect();
    for &block in &blocks {
        resolve_block(func, graph, live, borders, block);
    }
    for &block in &blocks {
        let edges: Vec<Edge> = func.successor_edges(block).to_vec();
        for edge in edges {
            let target = func.edge_target(edge);
            func.set_edge(edge, target, &[]);
        }
        for index in (0..func.block_params(block).len()).rev() {
            func.remove_block_param(block, index, &[]);
        }
    }
}

fn resolve_block(
    func: &mut Function,
    graph: &FlowGraph,
    live: &Liveness,
    borders: &BlockBoundaries,
    block: Block,
) {
    let Some(terminator) = func.terminator(block) else {
        return;
    };
    let edges: SmallVec<[Edge; 2]> = SmallVec::from_slice(func.edges(terminator));
    let moved: SmallVec<[Copies; 2]> = borders
        .args(func, block)
        .map(|(edge, args)| copies(func, live, borders, block, edge, args))
        .collect();
    if moved.iter().all(Vec::is_empty) {
        return;
    }
    // What must not be overwritten before the branch: what it reads, and by edge what goes along it.
    let mut read = [Units::default(); 5];
    for reg in func.uses(terminator).filter_map(|reg| reg.phys()) {
        insert(&mut read[reg.class() as usize], reg.index(), reg.len());
    }
    let carried: SmallVec<[[Units; 5]; 2]> = borders
        .args(func, block)
        .map(|(edge, args)| sources(func, live, borders, block, edge, args))
        .collect();
    let mut settled = [Units::default(); 5];
    for (index, &edge) in edges.iter().enumerate() {
        let target = func.edge_target(edge);
        let copies = &moved[index];
        if copies.is_empty() {
            continue;
        }
        let overwrites = |set: &[Units; 5]| {
            copies
                .iter()
                .any(|(to, _)| contains(&set[to.class() as usize], to.index()))
        };
        let harmless = !overwrites(&read)
            && !overwrites(&settled)
            && (0..edges.len()).all(|other| other == index || !overwrites(&carried[other]));
        if graph.preds(target).len() == 1 && !harmless {
            place_first(func, target, copies);
        } else if harmless {
            place_before(func, terminator, copies);
            // What was brought into place stays there, whatever another edge still moves.
            let live_in = live.live_in(target).iter();
            let entry = &borders.entry[live.live_in_range(target)];
            let params = func.block_params(target).iter();
            let all = live_in
                .zip(entry)
                .chain(params.zip(borders.params.of(target)));
            for (&value, &at) in all {
                add(func, &mut settled, value, at);
            }
        } else {
            place_between(func, block, terminator, edge, copies);
        }
    }
}

/// Adds the registers of `value`, which lies at `at`.
fn add(func: &Function, units: &mut [Units; 5], value: Value, at: u8) {
    if at != NOWHERE {
        let ty = func.value_type(value);
        insert(&mut units[ty.class() as usize], at, ty.len());
    }
}

/// Calls `found` with every value that is live along the edge from `block` to `target`, with its places at the start of `target` and at
/// the end of `block`.
fn for_each_live(
    live: &Liveness,
    borders: &BlockBoundaries,
    (block, target): (Block, Block),
    mut found: impl FnMut(Value, u8, u8),
) {
    let (left, exit) = (
        live.live_out(block),
        &borders.exit[live.live_out_range(block)],
    );
    let entry = &borders.entry[live.live_in_range(target)];
    let mut next = 0;
    for (&value, &to) in live.live_in(target).iter().zip(entry) {
        // What is live there is live here.
        while left[next] < value {
            next += 1;
        }
        found(value, to, exit[next]);
    }
}

/// The registers that hold what goes along `edge`, with its arguments at `args`.
fn sources(
    func: &Function,
    live: &Liveness,
    borders: &BlockBoundaries,
    block: Block,
    edge: Edge,
    args: &[u8],
) -> [Units; 5] {
    let mut units = [Units::default(); 5];
    let way = (block, func.edge_target(edge));
    for_each_live(live, borders, way, |value, _, at| {
        add(func, &mut units, value, at);
    });
    for (&value, &at) in func.edge_args(edge).iter().zip(args) {
        add(func, &mut units, value, at);
    }
    units
}

/// What has to move along `edge`, with its arguments at `args`, register by register.
pub(super) fn copies(
    func: &Function,
    live: &Liveness,
    borders: &BlockBoundaries,
    block: Block,
    edge: Edge,
    args: &[u8],
) -> Copies {
    let target = func.edge_target(edge);
    let mut copies = Copies::new();
    let mut add = |value: Value, to: u8, from: u8| {
        if to == from || to == NOWHERE || from == NOWHERE {
            return;
        }
        let ty = func.value_type(value);
        if ty.class() != Class::B {
            let pairs = (to..to + ty.len()).zip(from..from + ty.len());
            copies.extend(pairs.filter_map(|(to, from)| {
                PhysReg::new(ty.class(), to).zip(PhysReg::new(ty.class(), from))
            }));
        }
    };
    if borders.follows[target.index()].expand() != Some(block) {
        for_each_live(live, borders, (block, target), &mut add);
    }
    let params = func.block_params(target).iter();
    for ((&param, &to), &from) in params.zip(borders.params.of(target)).zip(args) {
        add(param, to, from);
    }
    // Values with equal contents may share a register; one copy is enough.
    copies.sort_unstable();
    copies.dedup_by_key(|&mut (to, _)| to);
    copies
}

fn place_before(func: &mut Function, terminator: Inst, copies: &Copies) {
    if let Some(copy) = parallel_copy(func, copies) {
        let span = func.inst(terminator).span();
        func.set_span(copy, span);
        func.layout
            .insert_inst_before(copy, before_end(func, terminator));
    }
}

/// Where code at the end of a block goes.
pub(super) fn before_end(func: &Function, terminator: Inst) -> Inst {
    crate::tail::tail_start(func, terminator)
}

fn place_first(func: &mut Function, block: Block, copies: &Copies) {
    if let Some(copy) = parallel_copy(func, copies) {
        func.layout.prepend_inst(copy, block);
    }
}

/// A new block on `edge`: behind the branch if that is where it goes on, else at the end.
fn place_between(func: &mut Function, block: Block, branch: Inst, edge: Edge, copies: &Copies) {
    let target = func.edge_target(edge);
    let falls = func.edges(branch).last() == Some(&edge) && func.edges(branch).len() > 1;
    let middle = func.create_block();
    if falls {
        func.layout.insert_block_after(middle, block);
    } else {
        func.layout.append_block(middle);
    }
    if let Some(copy) = parallel_copy(func, copies) {
        func.layout.append_inst(copy, middle);
    }
    let next = func.create_abstract(AbstractOp::FallThrough, AbstractMods::NONE, 0, &[]);
    let onward = func.create_edge(target, &[] as &[Value]);
    func.set_edges(next, &[onward]);
    func.layout.append_inst(next, middle);
    func.set_edge(edge, middle, &[]);
}
