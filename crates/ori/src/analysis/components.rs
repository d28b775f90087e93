//! Strongly connected components, by Tarjan's one-walk algorithm with an explicit stack. Cost: O(blocks + edges).

use super::flow::{FlowGraph, NONE};
use crate::Block;
use cranelift_entity::EntityRef;

/// The strongly connected components of a whole graph, unreachable blocks included.
#[derive(Clone, Debug)]
pub struct Components {
    component: Vec<u32>,
    count: u32,
}

impl Components {
    /// Finds the components of `graph`.
    pub fn new(graph: &FlowGraph) -> Self {
        let count = graph.block_count();
        let mut found = Components {
            component: vec![NONE; count],
            count: 0,
        };
        // `low` holds a block's visit number until it is lowered to that of the oldest block of its component.
        let mut low = vec![NONE; count];
        let mut visited = 0u32;
        let mut open: Vec<Block> = Vec::new();
        let mut stack: Vec<(Block, u32, u32)> = Vec::new();
        for root in graph.blocks() {
            if low[root.index()] != NONE {
                continue;
            }
            stack.push((root, 0, visited));
            while let Some((block, next, number)) = stack.last_mut() {
                let (block, number) = (*block, *number);
                if *next == 0 {
                    low[block.index()] = number;
                    visited += 1;
                    open.push(block);
                }
                if let Some(&succ) = graph.succs(block).get(*next as usize) {
                    *next += 1;
                    if low[succ.index()] == NONE {
                        stack.push((succ, 0, visited));
                    } else if found.component[succ.index()] == NONE {
                        low[block.index()] = low[block.index()].min(low[succ.index()]);
                    }
                    continue;
                }
                stack.pop();
                if low[block.index()] == number {
                    while let Some(member) = open.pop() {
                        found.component[member.index()] = found.count;
                        if member == block {
                            break;
                        }
                    }
                    found.count += 1;
                }
                if let Some((above, ..)) = stack.last() {
                    low[above.index()] = low[above.index()].min(low[block.index()]);
                }
            }
        }
        found
    }

    /// The number of the component `block` is in. An edge between two components goes from the higher number to the lower.
    pub fn component(&self, block: Block) -> u32 {
        self.component[block.index()]
    }

    /// How many components there are.
    pub fn count(&self) -> usize {
        self.count as usize
    }
}
