//! What is known of a function while instructions move: its flow, which stays, and what is live, which is found out when somebody asks.

use orias_ori::Function;
use orias_ori::analysis::{DepthFirst, FlowGraph, Liveness, LoopNest};
use std::cell::OnceCell;

/// The flow of a function, and what is live at the ends of its blocks.
///
/// True as long as blocks and edges stay, and as long as [`LiveFlow::moved`] is told of instructions that went to another block. Their order
/// within a block changes nothing.
#[derive(Debug)]
pub struct LiveFlow {
    /// The blocks and edges.
    pub flow: FlowGraph,
    /// A walk over them.
    pub walk: DepthFirst,
    /// The loops.
    pub nest: LoopNest,
    live: OnceCell<Liveness>,
}

impl LiveFlow {
    /// The shape of `func`.
    pub fn new(func: &Function) -> LiveFlow {
        let flow = FlowGraph::of(func);
        let walk = DepthFirst::new(&flow);
        let nest = LoopNest::new(&flow, &walk);
        LiveFlow {
            flow,
            walk,
            nest,
            live: OnceCell::new(),
        }
    }

    /// What is live in `func`, whose shape this is.
    pub fn live(&self, func: &Function) -> &Liveness {
        self.live.get_or_init(|| Liveness::new(func, &self.flow))
    }

    /// Instructions went from one block to another.
    pub fn moved(&mut self) {
        self.live.take();
    }
}
