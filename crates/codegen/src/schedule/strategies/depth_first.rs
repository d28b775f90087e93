//! Depth-first scheduling: each result right before its reader.
//!
//! From every instruction that nothing in the block waits for, in program order, down to what it needs, the longest chain first; an
//! instruction is placed when all it needs has been. Live ranges are short, latencies are not hidden: an order to fall back on when
//! registers are few. Linear in edges, apart from sorting each instruction's operands.

use super::Task;

/// The order.
pub(super) fn schedule(task: &Task<'_>) -> Option<Vec<u32>> {
    let graph = task.graph;
    // A run would have to be walked as one.
    if graph.nodes.iter().any(|node| node.with_previous) {
        return None;
    }
    let body = graph.body();
    let mut placed = vec![false; graph.len()];
    let mut order = Vec::with_capacity(graph.len());
    let mut stack: Vec<(u32, Vec<u32>)> = Vec::new();
    let needs = |node: u32| -> Vec<u32> {
        let mut needs: Vec<u32> = graph
            .preds(node as usize)
            .iter()
            .map(|edge| edge.from)
            .collect();
        // The last is taken first: the deepest chain.
        needs.sort_by_key(|&from| {
            (
                task.timeline.earliest[from as usize],
                std::cmp::Reverse(from),
            )
        });
        needs.dedup();
        needs
    };
    let roots = body.clone().filter(|&node| {
        graph
            .succs(node)
            .all(|edge| !body.contains(&(edge.to as usize)))
    });
    for root in roots {
        if placed[root] {
            continue;
        }
        stack.push((root as u32, needs(root as u32)));
        while let Some((node, rest)) = stack.last_mut() {
            match rest.pop() {
                Some(next) if placed[next as usize] => {}
                Some(next) => {
                    let needs = needs(next);
                    stack.push((next, needs));
                }
                None => {
                    let node = *node;
                    stack.pop();
                    if !std::mem::replace(&mut placed[node as usize], true) {
                        order.push(node);
                    }
                }
            }
        }
    }
    order.extend(graph.tail().map(|node| node as u32));
    Some(order)
}
