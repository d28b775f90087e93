//! Building the dependence graph of a block.
//!
//! One pass over the instructions with tables of last writers and of readers since, for values, physical registers and tokens alike.
//! In SSA form a value has one writer, and only RAW edges come of it, besides those WAR edges that save copies.
//!
//! `registers` finds the edges through registers, `latency` their cycles, `memory` the edges through memory and fences, `runs` what
//! belongs together.
//!
//! **Cost.** Linear in operands and edges. Each pair of accesses to memory that is compared is one of at most [`PENDING`]; when
//! more are pending, the next one waits for them all and stands for them. Blocks over [`PIECE`] instructions are cut by an instruction
//! that nothing passes.

mod latency;
mod memory;
mod registers;
mod runs;

use super::alias::MemoryRef;
use super::graph::{Edge, EdgeClass, Graph, Kinds, Node, PIECE, Reasons};
use super::order::{self, Token};
use super::units::Pipe;
use crate::knobs::{Point, WhenList};
use latency::expected;
pub use memory::PENDING;
use orias_machine::issue::{self, Issue, Unit};
use orias_machine::timing::{self, Completion, Place, Timing};
use orias_ori::analysis::{Liveness, RegisterLiveness};
use orias_ori::{Block, Function, Inst, Reg, RegKind};
use orias_sass::Op;
use registers::PLACES;
pub use runs::are_sisters;
use smallvec::SmallVec;

/// What is live behind a block.
#[derive(Clone, Copy, Debug)]
pub enum Exits<'a> {
    /// Values.
    Values(&'a Liveness),
    /// Physical registers.
    Registers(&'a RegisterLiveness),
}

/// What the caller may ask of the graph.
#[derive(Clone, Copy, Debug)]
pub struct Fences<'a> {
    /// Instructions that nothing passes (knob 313).
    pub code: &'a WhenList,
    /// Instructions that memory accesses, fences and lane operations do not pass (knob 314).
    pub interference: &'a WhenList,
    /// Instructions that keep their order among themselves (knob 595).
    pub preserve: &'a WhenList,
    /// Blocks with more instructions are cut.
    pub piece: usize,
}

impl Fences<'_> {
    /// Nothing but what the instructions themselves ask for.
    pub fn none() -> Fences<'static> {
        static NEVER: std::sync::LazyLock<WhenList> = std::sync::LazyLock::new(WhenList::default);
        Fences {
            code: &NEVER,
            interference: &NEVER,
            preserve: &NEVER,
            piece: PIECE,
        }
    }
}

const NOBODY: u32 = u32::MAX;

/// How a node reads or writes a register: what latencies are asked with.
#[derive(Clone, Copy, Debug)]
struct Touch {
    node: u32,
    slot: Place,
    offset: u8,
    reasons: Reasons,
}

/// What happened to a place so far.
#[derive(Clone, Debug, Default)]
struct History {
    writers: SmallVec<[Touch; 2]>,
    readers: Vec<Touch>,
}

/// Builds graphs of the blocks of one function.
#[derive(Debug)]
pub struct Builder<'a> {
    func: &'a Function,
    exits: Exits<'a>,
    fences: Fences<'a>,
    /// By value: the block number it was last seen in, plus one, and its definition there.
    defined: Vec<(u32, Touch)>,
    /// By value: the same, and its first reader in `links`.
    readers: Vec<(u32, u32)>,
    links: Vec<(u32, u32)>,
    registers: Vec<History>,
    versions: Vec<u32>,
    /// Places of physical registers that the block touches.
    touched: Vec<usize>,
    tokens: Vec<History>,
    stamp: u32,
    edges: Vec<Edge>,
    /// By node: the edge from it to the current node.
    edge_from: Vec<u32>,
    nodes: Vec<Node>,
    pending: Vec<(u32, MemoryRef)>,
    /// Whether accesses to memory were left uncompared.
    crowded: bool,
}

const UNTOUCHED: Touch = Touch {
    node: NOBODY,
    slot: Place::Implicit,
    offset: 0,
    reasons: Reasons(0),
};

impl<'a> Builder<'a> {
    /// A builder for `func`.
    pub fn new(func: &'a Function, exits: Exits<'a>, fences: Fences<'a>) -> Self {
        Builder {
            func,
            exits,
            fences,
            defined: vec![(0, UNTOUCHED); func.value_count()],
            readers: vec![(0, NOBODY); func.value_count()],
            links: Vec::new(),
            registers: vec![History::default(); PLACES],
            versions: vec![0; PLACES],
            touched: Vec::new(),
            tokens: vec![History::default(); Token::COUNT],
            stamp: 0,
            edges: Vec::new(),
            edge_from: Vec::new(),
            nodes: Vec::new(),
            pending: Vec::new(),
            crowded: false,
        }
    }

    /// The graph of `block`.
    pub fn build(&mut self, block: Block) -> Graph {
        self.reset();
        let insts: Vec<Inst> = self.func.block_insts(block).collect();
        let tail = insts.len() - self.tail_length(&insts);
        for (index, &inst) in insts.iter().enumerate() {
            let node = self.node(block, inst, index, index >= tail);
            self.nodes.push(node);
        }
        self.find_runs(tail);
        self.edge_from = vec![NOBODY; insts.len()];
        let mut preserved = NOBODY;
        for (index, &inst) in insts.iter().enumerate() {
            let node = index as u32;
            let first = self.edges.len();
            self.registers(node, inst);
            self.order(node);
            self.memory(node, inst);
            if !self.fences.preserve.is_never() && self.holds(self.fences.preserve, block, inst) {
                if preserved != NOBODY {
                    self.edge(
                        preserved,
                        node,
                        Kinds::BARRIER,
                        EdgeClass::Order,
                        Reasons(0),
                        1,
                    );
                }
                preserved = node;
            }
            for edge in &self.edges[first..] {
                self.edge_from[edge.from as usize] = NOBODY;
            }
        }
        self.pass_runs_on();
        self.finish(block, tail)
    }

    fn reset(&mut self) {
        self.stamp += 1;
        self.links.clear();
        self.edges.clear();
        self.nodes.clear();
        self.pending.clear();
        self.crowded = false;
        for place in self.touched.drain(..) {
            self.registers[place] = History::default();
            self.versions[place] = 0;
        }
        for history in &mut self.tokens {
            history.writers.clear();
            history.readers.clear();
        }
    }

    /// How many instructions at the end stay there.
    fn tail_length(&self, insts: &[Inst]) -> usize {
        let stays = |inst: &&Inst| {
            let opcode = self.func.opcode(**inst);
            opcode.is_terminator() || opcode.as_machine() == Some(Op::BSYNC)
        };
        insts.iter().rev().take_while(stays).count()
    }

    fn holds(&self, list: &WhenList, block: Block, inst: Inst) -> bool {
        let name = self.func.opcode(inst).to_string();
        list.holds(Point {
            function: &self.func.name,
            block: block.as_u32(),
            instruction: Some((inst.as_u32(), &name)),
        })
    }

    fn node(&self, block: Block, inst: Inst, index: usize, tail: bool) -> Node {
        let func = self.func;
        let op = func.opcode(inst).as_machine();
        let facts = op.map(|op| (timing::of(op), issue::of_operation(op)));
        let timing: Option<Timing> = facts.and_then(|(timing, _)| timing);
        let issue: Option<Issue> = facts.map(|(_, issue)| issue);
        let mut order = order::of(func, inst);
        let cut = self.fences.piece.max(1);
        if index > 0 && index.is_multiple_of(cut)
            || !self.fences.code.is_never() && self.holds(self.fences.code, block, inst)
        {
            order.takes = order::EVERYTHING;
        } else if !self.fences.interference.is_never()
            && self.holds(self.fences.interference, block, inst)
        {
            order.takes = order.takes.with(order::BETWEEN_THREADS);
        }
        let never = func.inst(inst).guard().reg().is_some_and(is_constant);
        let unit = issue.map_or(Unit::Control, |issue| issue.unit);
        let memory = op.map_or(&[][..], |op| op.row().memory);
        let latency = timing.map_or(0, |timing| expected(&timing));
        Node {
            inst,
            op,
            class: timing.map(|timing| timing.class),
            unit,
            keeps: issue.filter(|_| !never).map_or(&[], |issue| issue.keeps),
            pipe: op.map_or(Pipe::Branch, |op| Pipe::of(op, unit, timing.as_ref())),
            least_stall: issue.map_or(0, |issue| issue.least_stall),
            latency,
            fixed: timing.is_none_or(|timing| timing.completion == Completion::Fixed),
            loads: memory.iter().any(|memory| memory.reads),
            stores: memory.iter().any(|memory| memory.writes),
            order,
            with_previous: false,
            leaves: func.defs(inst).any(|reg| self.is_live_out(block, reg)),
            tail,
        }
    }

    fn is_live_out(&self, block: Block, reg: Reg) -> bool {
        match (self.exits, reg.kind()) {
            (Exits::Values(live), RegKind::Value(value)) => live.is_live_out(value, block),
            (Exits::Registers(live), RegKind::Phys(reg)) => live.live_out(block).intersects(reg),
            _ => true,
        }
    }

    /// Adds an edge, or a reason to the one that is there. Edges into one node are added in a row.
    fn edge(
        &mut self,
        from: u32,
        to: u32,
        kinds: Kinds,
        class: EdgeClass,
        reasons: Reasons,
        latency: u16,
    ) {
        if from == to {
            return;
        }
        let known = self.edge_from[from as usize];
        if known != NOBODY && self.edges[known as usize].to == to {
            let edge = &mut self.edges[known as usize];
            edge.kinds = edge.kinds.with(kinds);
            edge.reasons = edge.reasons.with(reasons);
            if latency > edge.latency {
                edge.latency = latency;
                edge.class = class;
            }
            return;
        }
        self.edge_from[from as usize] = self.edges.len() as u32;
        self.edges.push(Edge {
            from,
            to,
            kinds,
            class,
            reasons,
            latency,
        });
    }

    fn finish(&mut self, block: Block, tail: usize) -> Graph {
        let nodes = std::mem::take(&mut self.nodes);
        let mut edges = std::mem::take(&mut self.edges);
        edges.sort_by_key(|edge| edge.to);
        let starts = |key: &dyn Fn(&Edge) -> u32| {
            let mut starts = vec![0u32; nodes.len() + 1];
            for edge in &edges {
                starts[key(edge) as usize + 1] += 1;
            }
            for index in 1..starts.len() {
                starts[index] += starts[index - 1];
            }
            starts
        };
        let into = starts(&|edge| edge.to);
        let out_starts = starts(&|edge| edge.from);
        let mut next = out_starts.clone();
        let mut out = vec![0u32; edges.len()];
        for (index, edge) in edges.iter().enumerate() {
            let slot = &mut next[edge.from as usize];
            out[*slot as usize] = index as u32;
            *slot += 1;
        }
        let depends_on_order = self.crowded
            || nodes.len() > self.fences.piece
            || nodes.iter().any(|node| node.with_previous);
        Graph {
            block,
            depends_on_order,
            nodes,
            edges,
            into,
            out_starts,
            out,
            tail,
        }
    }
}

fn is_constant(reg: Reg) -> bool {
    matches!(reg.kind(), RegKind::Phys(reg) if reg.is_constant())
}
