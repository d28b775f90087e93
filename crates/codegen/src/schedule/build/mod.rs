//! Building the dependence graph of a block.
//!
//! One pass over the instructions with tables of last writers and of readers since, for values, physical registers and tokens alike.
//! In SSA form a value has one writer, and only RAW edges come of it, besides those WAR edges that save copies.
//!
//! `registers` finds the edges through registers, `latency` their cycles, `memory` the edges through memory and fences, `runs` what
//! belongs together; `operations` keeps what is known of an operation whatever its operands.
//!
//! **Cost.** Linear in operands and edges. Each pair of accesses to memory that is compared is one of at most [`PENDING`]; when
//! more are pending, the next one waits for them all and stands for them. Blocks over [`PIECE`] instructions are cut by an instruction
//! that nothing passes.

mod constants;
mod latency;
mod memory;
pub(super) mod operations;
mod products;
mod registers;
mod runs;

use super::alias::MemoryRef;
use super::graph::{Edge, EdgeClass, Graph, Kinds, Node, PIECE, Places, Reasons};
use super::local;
use super::order::{self, FenceClass};
use crate::knobs::{Point, WhenList};
use crate::phases::waits_for;
use constants::Lines;
use memory::FenceHistory;
pub use memory::PENDING;
use orias_machine::Machine;
use orias_machine::issue::Issue;
use orias_machine::timing::{Arrival, Place};
use orias_ori::analysis::{Liveness, RegisterLiveness};
use orias_ori::{Block, Class, Function, Inst, Operand, Operation, PhysReg, Reg, RegKind};
use orias_sass::{Mods, Op};
use products::Products;
use registers::{History, Operands, is_constant};
pub use runs::are_mergeable;

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
    /// Whether arithmetic passes waits for matrix products of a warp group.
    pub passes_waits: bool,
    /// Whether the first lines of constants that a kernel reads take their time. Which instructions read them first depends on the order there is.
    pub fetches_lines: bool,
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
            passes_waits: true,
            fetches_lines: false,
        }
    }
}

/// How many instructions at the end of `block` stay there.
pub(super) fn tail_length(func: &Function, block: Block) -> usize {
    let Some(end) = func.terminator(block) else {
        return 0;
    };
    let first = crate::tail::tail_start(func, end);
    std::iter::successors(Some(first), |&inst| func.layout.next_inst(inst)).count()
}

const NOBODY: u32 = u32::MAX;

/// How a node reads a register: what latencies are asked with.
#[derive(Clone, Copy, Debug)]
struct Reader {
    node: u32,
    slot: Place,
    offset: u8,
    reasons: Reasons,
}

/// A node that writes a register, and when that is there.
#[derive(Clone, Copy, Debug)]
struct Writer {
    node: u32,
    arrival: Option<Arrival>,
}

/// Builds graphs of the blocks of one function.
#[derive(Debug)]
pub struct Builder<'a> {
    func: &'a Function,
    machine: &'static Machine,
    exits: Exits<'a>,
    fences: Fences<'a>,
    /// By value: the block number it was last seen in, plus one, and its definition there in `writers`.
    defined: Vec<(u32, u32)>,
    writers: Vec<Writer>,
    /// By value: the same, and its first reader in `links`.
    readers: Vec<(u32, u32)>,
    links: Vec<(u32, u32)>,
    /// By physical register; empty until one is met.
    registers: Vec<History>,
    tokens: [FenceHistory; FenceClass::COUNT],
    stamp: u32,
    edges: Vec<Edge>,
    /// By node: the edge from it to the current node.
    edge_from: Vec<u32>,
    nodes: Vec<Node>,
    /// By node: the operation and its modifiers; none for pseudo-operations.
    operations: Vec<Option<(Op, Mods)>>,
    places: Places,
    pending: Vec<(u32, MemoryRef)>,
    /// Whether accesses to memory were left uncompared.
    crowded: bool,
    /// Cycles of loads from local memory, if those are more than usual.
    local: Option<u16>,
    products: Products,
    lines: Lines,
}

impl<'a> Builder<'a> {
    /// A builder for `func`.
    pub fn new(func: &'a Function, exits: Exits<'a>, fences: Fences<'a>) -> Self {
        let values = func.value_count();
        Builder {
            func,
            machine: Machine::of(func.target),
            exits,
            fences,
            local: match exits {
                Exits::Values(_) => None,
                Exits::Registers(_) => local::latency(func),
            },
            defined: vec![(0, 0); values],
            writers: Vec::new(),
            readers: vec![(0, 0); values],
            links: Vec::new(),
            registers: Vec::new(),
            tokens: Default::default(),
            stamp: 0,
            edges: Vec::new(),
            edge_from: Vec::new(),
            nodes: Vec::new(),
            operations: Vec::new(),
            places: Places::default(),
            pending: Vec::new(),
            crowded: false,
            products: match exits {
                Exits::Values(_) if fences.passes_waits => Products::of(func),
                _ => Products::default(),
            },
            lines: Lines::default(),
        }
    }

    /// The graph of `block`.
    pub fn build(&mut self, block: Block) -> Graph {
        self.reset();
        let insts: Vec<Inst> = self.func.block_insts(block).collect();
        let tail = insts.len() - tail_length(self.func, block);
        self.edge_from.resize(insts.len(), NOBODY);
        let mut preserved = NOBODY;
        if self.fences.fetches_lines {
            self.lines.begin_block(self.func, block);
        }
        let mut stack = NOBODY;
        for (index, &inst) in insts.iter().enumerate() {
            let node = index as u32;
            let first = self.edges.len();
            self.push_node(inst, index >= tail);
            self.fetch_lines(node, inst);
            let operands = self.registers(node, block, inst);
            self.nodes[index].leaves = operands.leaves;
            self.nodes[index].order = self.order_of(block, inst, index, operands);
            self.order(node);
            self.memory(node, inst);
            self.products(node, inst);
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
            if stack != NOBODY && self.waits_for_stack(node) {
                self.edge(stack, node, Kinds::BARRIER, EdgeClass::Order, Reasons(0), 1);
            }
            if self.reads_stack(inst) {
                stack = node;
            }
            for edge in &self.edges[first..] {
                self.edge_from[edge.from as usize] = NOBODY;
            }
        }
        self.find_runs(tail);
        self.pass_runs_on();
        self.finish(block, tail)
    }

    fn reset(&mut self) {
        self.stamp += 1;
        self.writers.clear();
        self.links.clear();
        self.edges.clear();
        self.nodes.clear();
        self.operations.clear();
        self.places.read.clear();
        self.places.written.clear();
        self.places.ends.clear();
        self.pending.clear();
        self.products.begin_block();
        self.crowded = false;
        for history in &mut self.tokens {
            history.fence = None;
            history.holders.clear();
        }
    }

    /// Whether an instruction reads the stack pointer that the driver gives a kernel. Nothing in the kernel may wait for it, but functions
    /// that tools patch in (compute-sanitizer) count on it by the time of the first access ([`Builder::waits_for_stack`]).
    fn reads_stack(&self, inst: Inst) -> bool {
        let pointer = PhysReg::new(Class::R, self.machine.abi.stack_pointer);
        let Operation::Machine(op, _) = self.func.inst(inst).operation() else {
            return false;
        };
        op == Op::LDC && self.func.operands(inst).first().copied() == pointer.map(Operand::from)
    }

    fn holds(&self, list: &WhenList, block: Block, inst: Inst) -> bool {
        let name = self.func.opcode(inst).to_string();
        list.holds(Point {
            function: &self.func.name,
            block: block.as_u32(),
            instruction: Some((inst.as_u32(), &name)),
        })
    }

    /// Adds a node, with what the operation says; what its operands say comes later.
    fn push_node(&mut self, inst: Inst, tail: bool) {
        let data = self.func.inst(inst);
        let operation = match data.operation() {
            Operation::Machine(op, mods) => Some((op, mods)),
            Operation::Abstract(..) => None,
        };
        let facts = operation.map_or(&operations::PSEUDO, |(op, _)| {
            operations::of(self.machine, op)
        });
        let never = data.guard().reg().is_some_and(is_constant);
        self.operations.push(operation);
        self.nodes.push(Node {
            inst,
            op: operation.map(|(op, _)| op),
            class: facts.class,
            issue: Issue {
                keeps: if never { &[] } else { facts.issue.keeps },
                ..facts.issue
            },
            pipe: facts.pipe,
            latency: match self.local {
                Some(latency) if facts.loads_local => latency,
                _ => facts.latency,
            },
            fixed: facts.fixed,
            fetches: 0,
            loads: facts.loads,
            stores: facts.stores,
            heat: facts.heat,
            order: facts.order,
            with_previous: false,
            leaves: false,
            signals: facts.signals,
            tail,
        });
    }

    /// What order an instruction keeps.
    fn order_of(&self, block: Block, inst: Inst, index: usize, operands: Operands) -> order::Order {
        let mut order = order::with_operands(self.func, inst, operands.uniform);
        // The order of finished code does not depend on the one it comes in, so nothing passes in one direction only.
        if matches!(self.exits, Exits::Registers(_)) {
            order.takes = order.takes.with(order.follows);
            order.follows = order::FenceClasses::NONE;
        }
        if self.products.are_under_way() && waits_for(self.func, inst).is_some() {
            order.takes = order::BETWEEN_THREADS;
        }
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
        order
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
        self.nodes.reserve(nodes.len());
        if !self.edges.is_sorted_by_key(|edge| edge.to) {
            self.edges.sort_by_key(|edge| edge.to);
        }
        let edges = self.edges.clone();
        let mut into = vec![0u32; nodes.len() + 1];
        let mut out_starts = vec![0u32; nodes.len() + 1];
        for edge in &edges {
            into[edge.to as usize + 1] += 1;
            out_starts[edge.from as usize] += 1;
        }
        for index in 1..into.len() {
            into[index] += into[index - 1];
            out_starts[index] += out_starts[index - 1];
        }
        // From the end of each node's edges, which becomes their start that way.
        let mut out = vec![0u32; edges.len()];
        for (index, edge) in edges.iter().enumerate().rev() {
            let place = &mut out_starts[edge.from as usize];
            *place -= 1;
            out[*place as usize] = index as u32;
        }
        let depends_on_order = self.crowded
            || nodes.len() > self.fences.piece
            || nodes.iter().any(|node| node.with_previous);
        Graph {
            block,
            depends_on_order,
            places: self.places.clone(),
            nodes,
            edges,
            into,
            out_starts,
            out,
            tail,
        }
    }
}
