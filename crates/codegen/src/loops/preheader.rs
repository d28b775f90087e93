//! Preheaders: one place before a loop.

use super::LoopAnalyses;
use orias_ori::analysis::Loop;
use orias_ori::{AbstractMods, AbstractOp, Block, Edge, Function, Type, Value};

/// The block through which every way into `of` goes just before its header: the one there is, or a new one. `of` is reducible. A loop whose
/// header is the function's entry has none.
pub fn preheader(func: &mut Function, shape: &LoopAnalyses, of: Loop) -> Option<Block> {
    let header = shape.nest.header(of);
    let entering = shape.entering_edges(of);
    let mut from = shape
        .incoming(header)
        .iter()
        .map(|&(from, _)| from)
        .filter(|&from| !shape.nest.contains(of, from));
    if let (Some(only), None) = (from.next(), from.next())
        && func.successor_edges(only).len() == 1
    {
        return Some(only);
    }
    if func.entry() == Some(header) {
        return None;
    }
    if let &[edge] = &entering[..] {
        let (block, leaving) = func.split_edge(edge);
        jump(func, block, leaving);
        return Some(block);
    }
    Some(new_block_before(func, header, &entering))
}

/// Ends `block` with a jump along `edge`.
fn jump(func: &mut Function, block: Block, edge: Edge) {
    let jump = func.create_abstract(AbstractOp::Br, AbstractMods::NONE, 0, &[]);
    func.set_edges(jump, &[edge]);
    func.layout.append_inst(jump, block);
}

/// A new block with the parameters of `target`, to which `edges` lead from now on, and which jumps to `target`.
pub fn new_block_before(func: &mut Function, target: Block, edges: &[Edge]) -> Block {
    let block = func.create_block();
    func.layout.insert_block_before(block, target);
    let types: Vec<Type> = func
        .block_params(target)
        .iter()
        .map(|&param| func.value_type(param))
        .collect();
    let params: Vec<Value> = types
        .into_iter()
        .map(|ty| func.append_block_param(block, ty))
        .collect();
    for &edge in edges {
        let args = func.edge_args(edge).to_vec();
        func.set_edge(edge, block, &args);
    }
    let leaving = func.create_edge(target, &params);
    jump(func, block, leaving);
    block
}
