//! When two functions are equal: when nothing the text form shows tells them apart.
//!
//! Ids of instructions, edges, addresses and symbols are internal and may differ; numbers of blocks and values may not.

use crate::entity::{Block, Edge, Inst};
use crate::function::Function;
use crate::operand::{Address, Operand};

pub(crate) fn equal(a: &Function, b: &Function) -> bool {
    a.name == b.name
        && a.kind == b.kind
        && a.level == b.level
        && a.target == b.target
        && a.attributes == b.attributes
        && a.kernel_params == b.kernel_params
        && a.results == b.results
        && a.locations == b.locations
        && a.blocks().eq(b.blocks())
        && a.blocks().all(|block| equal_blocks(a, b, block))
}

fn equal_blocks(a: &Function, b: &Function, block: Block) -> bool {
    let typed = |f: &Function| {
        f.block_params(block)
            .iter()
            .map(|&value| (value, f.value_type(value)))
            .collect::<Vec<_>>()
    };
    typed(a) == typed(b)
        && a.block_insts(block).count() == b.block_insts(block).count()
        && a.block_insts(block)
            .zip(b.block_insts(block))
            .all(|(x, y)| equal_insts(a, x, b, y))
}

fn equal_insts(a: &Function, x: Inst, b: &Function, y: Inst) -> bool {
    let (p, q) = (a.inst(x), b.inst(y));
    let equal_lists = |left: &[Operand], right: &[Operand]| {
        left.len() == right.len()
            && left
                .iter()
                .zip(right)
                .all(|(&l, &r)| equal_operands(a, l, b, r))
    };
    let equal_edges = |left: &[Edge], right: &[Edge]| {
        left.len() == right.len()
            && left.iter().zip(right).all(|(&l, &r)| {
                a.edge_target(l) == b.edge_target(r) && a.edge_args(l) == b.edge_args(r)
            })
    };
    p.operation == q.operation
        && p.guard == q.guard
        && p.span == q.span
        && p.control == q.control
        && p.strong == q.strong
        && p.results == q.results
        && equal_lists(a.operands(x), b.operands(y))
        && equal_lists(a.kept(x), b.kept(y))
        && equal_lists(a.implicit_uses(x), b.implicit_uses(y))
        && equal_lists(a.implicit_defs(x), b.implicit_defs(y))
        && equal_edges(a.edges(x), b.edges(y))
        && a.value_defs(x)
            .zip(b.value_defs(y))
            .all(|(v, w)| a.value_type(v) == b.value_type(w))
}

fn equal_operands(a: &Function, x: Operand, b: &Function, y: Operand) -> bool {
    match (x, y) {
        (Operand::Address(x), Operand::Address(y)) => {
            equal_addresses(a, a.address(x), b, b.address(y))
        }
        (
            Operand::Symbol {
                symbol: x,
                part: p,
                addend: m,
            },
            Operand::Symbol {
                symbol: y,
                part: q,
                addend: n,
            },
        ) => p == q && m == n && a.symbol_name(x) == b.symbol_name(y),
        _ => x == y,
    }
}

fn equal_addresses(a: &Function, x: &Address, b: &Function, y: &Address) -> bool {
    let name = |f: &Function, address: &Address| {
        address
            .symbol
            .expand()
            .map(|symbol| f.symbol_name(symbol).to_owned())
    };
    let parts = |address: &Address| Address {
        symbol: None.into(),
        ..*address
    };
    parts(x) == parts(y) && name(a, x) == name(b, y)
}
