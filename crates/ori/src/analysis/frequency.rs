//! Block frequencies: how often a warp comes to each block for each run of the function, as a guess.
//!
//! **Model.** Nothing is measured; what is known is the shape of control flow, what the makers of blocks said of them, and what the source says.
//! A warp comes to a block if any of its lanes does, so it goes all ways of a branch that lanes may take either way: a way is taken as often as its
//! block runs, times its weight over that of the heaviest way, and a block runs as often as the heaviest way to it.
//!
//! | way | weight |
//! | --- | --- |
//! | to a block from which every path ends in a trap | [`DOOMED`] |
//! | to a block that its maker calls rare (the attribute `rare`: slow paths of divisions, roots and the like) | [`RARE`] |
//! | out of the loop | the share of one in as many as the loop has iterations |
//! | to a block that only ends the thread, where the others do not | [`ENDS`] |
//! | any other | 1 |
//!
//! A loop has [`Frequencies::ITERATIONS`] iterations each time it is entered, unless who asks knows better; loops nested deeper than [`Frequencies::DEEPEST`] add nothing to those
//! around them. What enters a loop leaves it again, by its heaviest exit as often as it was entered, by others in proportion. A block whose frequency the
//! source states (the attribute `frequency`) has that frequency, and what it dominates in its loop is scaled with it.
//!
//! **Cold** is a block that cannot be reached but by a rare way: to a doomed block, to one that its maker calls rare, or to one of which the source states less than one in
//! [`COLD`] of what comes to the branch.
//!
//! **Algorithm.** Inner loops first, as Wu and Larus have it for threads: frequencies of a loop's own blocks relative to one entry, in reverse postorder without the edges back, with
//! each inner loop folded into one node that passes on to its exits what enters it; then outer loops first, what was relative becomes absolute. An edge is
//! looked at once for each loop that it leaves, at most [`Frequencies::DEEPEST`] times. What enters an irreducible loop past its header after the walk met
//! the header does not go on behind the loop: what follows is guessed too rare.

use super::dominance::DominatorTree;
use super::flow::{FlowGraph, NONE};
use super::loops::{Loop, LoopNest};
use super::order::DepthFirst;
use crate::{AbstractOp, Block, Function, Opcode};
use cranelift_entity::EntityRef as _;
use orias_sass::Effects;

/// The weight of a way that ends in a trap.
const DOOMED: f64 = 1.0 / (1 << 20) as f64;

/// The weight of a way to a block that is said to be rare.
const RARE: f64 = 1.0 / (1 << 10) as f64;

/// The weight of a way to a block that only ends the thread: threads past the end of the data, of which few warps have any.
const ENDS: f64 = 1.0 / 4.0;

/// A way is rare if the source states that fewer than one in so many take it.
const COLD: f64 = (1 << 8) as f64;

/// How often blocks run.
#[derive(Clone, Debug)]
pub struct Frequencies {
    /// By block: times for each run of the function.
    of: Vec<f64>,
    /// By block: whether rare ways alone lead to it.
    cold: Vec<bool>,
}

impl Frequencies {
    /// Iterations of a loop about which nothing is known.
    pub const ITERATIONS: u32 = 10;

    /// Loops nested deeper weigh no more than those around them.
    pub const DEEPEST: u32 = 6;

    /// Guesses the frequencies of `func`, with `graph` its flow, `walk` a walk of that and `nest` its loops.
    pub fn new(func: &Function, graph: &FlowGraph, walk: &DepthFirst, nest: &LoopNest) -> Self {
        Self::with_iterations(func, graph, walk, nest, |_| Self::ITERATIONS)
    }

    /// The same of a function whose flow nobody needs besides.
    pub fn of(func: &Function) -> Self {
        let graph = FlowGraph::of(func);
        let walk = DepthFirst::new(&graph);
        let nest = LoopNest::new(&graph, &walk);
        Self::new(func, &graph, &walk, &nest)
    }

    /// The same, where `iterations` says of a header how often its loop goes round.
    pub fn with_iterations(
        func: &Function,
        graph: &FlowGraph,
        walk: &DepthFirst,
        nest: &LoopNest,
        iterations: impl Fn(Block) -> u32,
    ) -> Self {
        let iterations: Vec<f64> = nest
            .loops()
            .map(|each| f64::from(iterations(nest.header(each)).max(1)))
            .collect();
        let guess = Guess {
            func,
            graph,
            walk,
            nest,
            homes: homes(nest),
            iterations,
            doomed: doomed(func),
        };
        let mut found = Frequencies {
            of: guess.solve(),
            cold: vec![true; graph.block_count()],
        };
        found.heed(func, graph, walk, nest);
        found.tell_cold(func, graph, &guess.doomed);
        found
    }

    /// How often `block` runs for each run of the function. Zero for what is unreachable.
    pub fn times(&self, block: Block) -> f64 {
        self.of.get(block.index()).copied().unwrap_or(0.0)
    }

    /// Whether rare ways alone lead to `block`.
    pub fn is_cold(&self, block: Block) -> bool {
        self.cold.get(block.index()).copied().unwrap_or(true)
    }

    /// Finds the cold blocks: all but those that ways lead to which are not rare.
    fn tell_cold(&mut self, func: &Function, graph: &FlowGraph, doomed: &[bool]) {
        let attributes = &func.attributes;
        let mut pending = vec![graph.entry()];
        self.cold[graph.entry().index()] = false;
        while let Some(from) = pending.pop() {
            for &to in graph.succs(from) {
                let rare = match attributes.frequencies.get(&to) {
                    Some(&times) => times as f64 * COLD < self.times(from),
                    None => doomed[to.index()] || attributes.rare.contains(&to),
                };
                if !rare && std::mem::replace(&mut self.cold[to.index()], false) {
                    pending.push(to);
                }
            }
        }
    }

    /// Puts in what the source states.
    fn heed(&mut self, func: &Function, graph: &FlowGraph, walk: &DepthFirst, nest: &LoopNest) {
        let stated = &func.attributes.frequencies;
        if stated.is_empty() {
            return;
        }
        let tree = DominatorTree::new(graph, walk);
        // By block: what it is multiplied by, and the loop in which that holds.
        let mut scales: Vec<(f64, u32)> = vec![(1.0, NONE); graph.block_count()];
        for block in walk.reverse_postorder() {
            let own = nest.innermost(block);
            let above = tree.immediate_dominator(block).map(|it| scales[it.index()]);
            let holds = |&(_, within): &(f64, u32)| {
                within == NONE
                    || own.is_some_and(|own| nest.encloses(Loop::new(within as usize), own))
            };
            let mut scale = above.filter(holds).unwrap_or((1.0, NONE));
            let guess = self.of[block.index()];
            if let Some(&times) = stated.get(&block)
                && guess > 0.0
            {
                scale = (times as f64 / guess, own.map_or(NONE, Loop::as_u32));
            }
            scales[block.index()] = scale;
            self.of[block.index()] *= scale.0;
        }
    }
}

/// By loop: the loop whose iterations count for its blocks.
fn homes(nest: &LoopNest) -> Vec<Loop> {
    let mut homes: Vec<Loop> = Vec::with_capacity(nest.len());
    for each in nest.loops() {
        let home = match nest.parent(each) {
            Some(above) if nest.depth(each) > Frequencies::DEEPEST => homes[above.index()],
            _ => each,
        };
        homes.push(home);
    }
    homes
}

/// By block: whether every path from it ends in a trap. Backwards from the traps, a block as soon as all that may follow it are known to be.
fn doomed(func: &Function) -> Vec<bool> {
    let count = func.block_count();
    let mut doomed = vec![false; count];
    let mut open = vec![0_u32; count];
    let mut found = Vec::new();
    for block in func.blocks() {
        open[block.index()] = func.successors(block).count() as u32;
        if open[block.index()] == 0 && ends_in_trap(func, block) {
            found.push(block);
        }
    }
    if found.is_empty() {
        return doomed;
    }
    let mut preds: Vec<Vec<Block>> = vec![Vec::new(); count];
    for block in func.blocks() {
        for to in func.successors(block) {
            preds[to.index()].push(block);
        }
    }
    while let Some(block) = found.pop() {
        if std::mem::replace(&mut doomed[block.index()], true) {
            continue;
        }
        for &pred in &preds[block.index()] {
            open[pred.index()] -= 1;
            if open[pred.index()] == 0 {
                found.push(pred);
            }
        }
    }
    doomed
}

/// Whether a block without successors stops the kernel, or is never reached to its end.
fn ends_in_trap(func: &Function, block: Block) -> bool {
    func.block_insts(block).any(|inst| match func.opcode(inst) {
        Opcode::Abstract(op) => op == AbstractOp::Unreachable,
        Opcode::Machine(op) => {
            op.row().effects.contains(Effects::TRAP) && func.inst(inst).guard().is_always()
        }
    })
}

/// What a block or a loop is to the loop around it.
#[derive(Clone, Copy)]
enum Item {
    Block(Block),
    Loop(Loop),
}

/// What the guess is made of.
struct Guess<'a> {
    func: &'a Function,
    graph: &'a FlowGraph,
    walk: &'a DepthFirst,
    nest: &'a LoopNest,
    homes: Vec<Loop>,
    iterations: Vec<f64>,
    doomed: Vec<bool>,
}

/// Frequencies relative to one entry of the loop around.
struct Relative {
    /// By block.
    blocks: Vec<f64>,
    /// By loop: how often it is entered.
    loops: Vec<f64>,
    /// By loop: where its exits lead, and with what share.
    exits: Vec<Vec<(Block, f64)>>,
}

impl Guess<'_> {
    /// The loop whose iterations count for `block`.
    fn home(&self, block: Block) -> Option<Loop> {
        let around = self.nest.innermost(block)?;
        Some(self.homes[around.index()])
    }

    /// The place of `block` in reverse postorder, from the back.
    fn late(&self, block: Block) -> u32 {
        self.walk.postorder_number(block).unwrap_or(0)
    }

    fn solve(&self) -> Vec<f64> {
        let (nest, count) = (self.nest, self.graph.block_count());
        // What lies in each loop, in reverse postorder; what lies in none comes last.
        let outside = nest.len();
        let mut items: Vec<Vec<Item>> = vec![Vec::new(); outside + 1];
        let place = |of: Option<Loop>| of.map_or(outside, |of| of.index());
        for block in self.walk.reverse_postorder() {
            let home = self.home(block);
            if let Some(of) = home
                && nest.header(of) == block
            {
                items[place(nest.parent(of))].push(Item::Loop(of));
            }
            items[place(home)].push(Item::Block(block));
        }
        let mut relative = Relative {
            blocks: vec![0.0; count],
            loops: vec![0.0; outside],
            exits: vec![Vec::new(); outside],
        };
        for of in nest.loops().rev() {
            if nest.depth(of) <= Frequencies::DEEPEST {
                let start = self.iterations[of.index()];
                relative.blocks[nest.header(of).index()] = start;
                let mut exits = self.spread(&items[of.index()], Some(of), &mut relative);
                let most = exits
                    .iter()
                    .fold(0.0, |most: f64, &(_, mass)| most.max(mass));
                if most > 0.0 {
                    exits.iter_mut().for_each(|(_, mass)| *mass /= most);
                }
                relative.exits[of.index()] = exits;
            }
        }
        let entry = self.graph.entry();
        match self.home(entry) {
            Some(around) => relative.loops[around.index()] = 1.0,
            None => relative.blocks[entry.index()] = 1.0,
        }
        self.spread(&items[outside], None, &mut relative);
        // From outside in: how often each loop is entered.
        let mut entered = relative.loops;
        for of in nest.loops() {
            if let Some(above) = nest.parent(of) {
                entered[of.index()] *= entered[above.index()];
            }
        }
        let mut times = relative.blocks;
        for &block in self.walk.preorder() {
            if let Some(around) = self.home(block) {
                times[block.index()] *= entered[around.index()];
            }
        }
        times
    }

    /// Lets what comes to each of `items`, which lie in `of`, go on. Returns what leaves `of`, and where to.
    fn spread(
        &self,
        items: &[Item],
        of: Option<Loop>,
        relative: &mut Relative,
    ) -> Vec<(Block, f64)> {
        let mut leaving = Vec::new();
        let mut weights: Vec<f64> = Vec::new();
        for &item in items {
            match item {
                Item::Block(block) => {
                    let mass = relative.blocks[block.index()];
                    let most = self.weigh(block, of, &mut weights);
                    for (&to, &weight) in self.graph.succs(block).iter().zip(&weights) {
                        let part = mass * weight / most;
                        self.pass((block, to), part, of, relative, &mut leaving);
                    }
                }
                Item::Loop(inner) => {
                    let mass = relative.loops[inner.index()];
                    let exits = std::mem::take(&mut relative.exits[inner.index()]);
                    for &(to, share) in &exits {
                        let from = self.nest.header(inner);
                        self.pass((from, to), mass * share, of, relative, &mut leaving);
                    }
                }
            }
        }
        leaving
    }

    /// Lets `mass` go along an edge, in loop `of`.
    fn pass(
        &self,
        (from, to): (Block, Block),
        mass: f64,
        of: Option<Loop>,
        relative: &mut Relative,
        leaving: &mut Vec<(Block, f64)>,
    ) {
        if of.is_some_and(|of| !self.nest.contains(of, to)) {
            leaving.push((to, mass));
            return;
        }
        if self.late(to) >= self.late(from) {
            // Back to a header: the iterations count for that.
            return;
        }
        let mut inside = self.home(to);
        if inside == of {
            let times = &mut relative.blocks[to.index()];
            *times = times.max(mass);
            return;
        }
        while let Some(inner) = inside {
            let above = self.nest.parent(inner);
            if above == of {
                let times = &mut relative.loops[inner.index()];
                *times = times.max(mass);
                return;
            }
            inside = above;
        }
    }

    /// The weights of the ways out of `block`, which is one of `of`, and the largest.
    fn weigh(&self, block: Block, of: Option<Loop>, weights: &mut Vec<f64>) -> f64 {
        weights.clear();
        let ways = self.graph.succs(block);
        let leaves = |to: Block| of.is_some_and(|of| !self.nest.contains(of, to));
        let only_ends = |to: Block| {
            self.graph.succs(to).is_empty() && self.func.block_insts(to).take(2).count() < 2
        };
        let stay = ways.iter().any(|&to| !leaves(to));
        let go_on = ways.iter().any(|&to| !only_ends(to));
        for &to in ways {
            let mut weight = if self.doomed[to.index()] {
                DOOMED
            } else if self.func.attributes.rare.contains(&to) {
                RARE
            } else if go_on && only_ends(to) {
                ENDS
            } else {
                1.0
            };
            if let Some(of) = of
                && stay
                && leaves(to)
            {
                weight /= self.iterations[of.index()];
            }
            weights.push(weight);
        }
        weights
            .iter()
            .fold(0.0, |most: f64, &weight| most.max(weight))
    }
}
