//! Building the dependence graph of a block.
//!
//! One pass over the instructions with tables of last writers and of readers since, for values, physical registers and tokens alike.
//! In SSA form a value has one writer, and only RAW edges come of it, besides those WAR edges that save copies.
//!
//! **Cost.** Linear in operands and edges. Each pair of accesses to memory that is compared is one of at most [`PENDING`]; when
//! more are pending, the next one waits for them all and stands for them. Blocks over [`PIECE`] instructions are cut by an instruction
//! that nothing passes.

use super::alias::{self, MemoryRef};
use super::graph::{Edge, EdgeClass, Graph, Kinds, Node, PIECE, RELEASE, Reasons};
use super::order::{self, Order, Token};
use super::units::Pipe;
use crate::knobs::{Point, WhenList};
use cranelift_entity::EntityRef as _;
use orias_machine::issue::{self, Issue, Unit};
use orias_machine::timing::{self, Arrival, Completion, Place, Table, Timing};
use orias_ori::analysis::{Liveness, RegisterLiveness};
use orias_ori::{Block, Class, Function, Inst, Operation, PhysReg, Reg, RegKind, Value};
use orias_sass::{Mods, Op};
use smallvec::SmallVec;
use std::ops::Range;

/// So many accesses to memory are compared with each other; the next one is a fence for them.
pub const PENDING: usize = 64;

/// A guarded definition leaves earlier ones readable; of so many the graph knows the latency.
const WRITERS: usize = 8;

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

/// Physical registers of all files in a row, then tokens.
const PLACES: usize = 256 + 8 + 64 + 8 + 16;

fn place_of(reg: PhysReg) -> usize {
    let base = match reg.class() {
        Class::R => 0,
        Class::P => 256,
        Class::UR => 264,
        Class::UP => 328,
        Class::B => 336,
    };
    base + usize::from(reg.index())
}

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

    /// Marks what goes directly behind what.
    fn find_runs(&mut self, tail: usize) {
        let mut arrive = None;
        let mut last_matrix = None;
        let mut address = None;
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate().take(tail) {
            let Some(op) = node.op else { continue };
            if self.never_runs(node.inst) && index + 1 < tail {
                runs.push(index..index + 2);
            }
            if op == Op::WARPGROUP_ARRIVE {
                runs.extend(arrive.zip(last_matrix).map(|(from, to)| from..to + 1));
                (arrive, last_matrix) = (Some(index), None);
            } else if issue::is_warpgroup_matrix(op) {
                last_matrix = Some(index);
            }
            if op.name().starts_with("LEPC") {
                address = Some(index);
            } else if op.row().effects.contains(orias_sass::Effects::CALL) {
                runs.extend(address.take().map(|from| from..index + 1));
            }
        }
        runs.extend(arrive.zip(last_matrix).map(|(from, to)| from..to + 1));
        for run in runs {
            for index in run.skip(1) {
                self.nodes[index].with_previous = true;
            }
        }
    }

    /// Whether the guard is never true.
    fn never_runs(&self, inst: Inst) -> bool {
        let guard = self.func.inst(inst).guard();
        guard.is_negated() && guard.reg().is_some_and(is_constant)
    }

    fn registers(&mut self, node: u32, inst: Inst) {
        let func = self.func;
        let data = func.inst(inst);
        if let Some(reg) = data.guard().reg() {
            self.read(node, reg, Place::Guard, Reasons::GUARD);
        }
        let mut kept = func.kept(inst).iter();
        for (slot, &operand) in func.operands(inst).iter().enumerate() {
            let place = Place::Slot(slot.min(255) as u8);
            let reasons = Reasons::slot(slot);
            let writes_value = func.is_def(inst, slot) && operand.as_value().is_some();
            if func.is_use(inst, slot) && !writes_value {
                for reg in func.operand_regs(operand) {
                    self.read(node, reg, place, reasons);
                }
            }
            if func.keeps(inst, slot)
                && let Some(reg) = kept.next().and_then(|operand| operand.reg())
            {
                self.read(node, reg, place, reasons);
                self.take_over(node, reg, reasons);
            }
        }
        let implicit = func.implicit_uses(inst).iter().filter_map(|o| o.reg());
        for reg in implicit.chain(row_registers(func, inst, orias_sass::Access::reads)) {
            self.read(node, reg, Place::Implicit, Reasons::IMPLICIT);
        }
        for &edge in func.edges(inst) {
            let target = func.edge_target(edge);
            for (&argument, &param) in func.edge_args(edge).iter().zip(func.block_params(target)) {
                self.read(
                    node,
                    Reg::from(argument),
                    Place::Implicit,
                    Reasons::ARGUMENT,
                );
                self.replace_param(argument, param);
            }
        }
        for (slot, &operand) in func.operands(inst).iter().enumerate() {
            if func.is_def(inst, slot)
                && let Some(reg) = operand.reg()
            {
                self.write(
                    node,
                    inst,
                    reg,
                    Place::Slot(slot.min(255) as u8),
                    Reasons::slot(slot),
                );
            }
        }
        let implicit = func.implicit_defs(inst).iter().filter_map(|o| o.reg());
        for reg in implicit.chain(row_registers(func, inst, orias_sass::Access::writes)) {
            self.write(node, inst, reg, Place::Implicit, Reasons::IMPLICIT);
        }
    }

    fn read(&mut self, node: u32, reg: Reg, slot: Place, reasons: Reasons) {
        match reg.kind() {
            RegKind::Value(value) => {
                let (stamp, writer) = self.defined[value.index()];
                if stamp == self.stamp && writer.node != node {
                    let class = self.func.value_type(value).class();
                    let reader = Touch {
                        node,
                        slot,
                        offset: 0,
                        reasons,
                    };
                    let latency = if reasons == Reasons::ARGUMENT {
                        0
                    } else {
                        self.raw(writer, reader, class)
                    };
                    self.edge(
                        writer.node,
                        node,
                        Kinds::RAW,
                        EdgeClass::Register(class),
                        reasons,
                        latency,
                    );
                }
                let (stamp, head) = &mut self.readers[value.index()];
                let next = if *stamp == self.stamp { *head } else { NOBODY };
                *stamp = self.stamp;
                *head = self.links.len() as u32;
                self.links.push((node, next));
            }
            RegKind::Phys(reg) => {
                for (offset, unit) in reg.units().enumerate() {
                    let place = place_of(unit);
                    let reader = Touch {
                        node,
                        slot,
                        offset: offset as u8,
                        reasons,
                    };
                    let writers = self.registers[place].writers.clone();
                    for writer in writers {
                        let latency = self.raw(writer, reader, reg.class());
                        let class = EdgeClass::Register(reg.class());
                        self.edge(writer.node, node, Kinds::RAW, class, reasons, latency);
                    }
                    self.registers[place].readers.push(reader);
                    self.touched.push(place);
                }
            }
        }
    }

    fn write(&mut self, node: u32, inst: Inst, reg: Reg, slot: Place, reasons: Reasons) {
        match reg.kind() {
            RegKind::Value(value) => {
                let touch = Touch {
                    node,
                    slot,
                    offset: 0,
                    reasons,
                };
                self.defined[value.index()] = (self.stamp, touch);
            }
            RegKind::Phys(reg) => {
                let guarded = !self.func.inst(inst).guard().is_always();
                for (offset, unit) in reg.units().enumerate() {
                    let place = place_of(unit);
                    let class = EdgeClass::Register(reg.class());
                    let writer = Touch {
                        node,
                        slot,
                        offset: offset as u8,
                        reasons,
                    };
                    let mut history = std::mem::take(&mut self.registers[place]);
                    for reader in &history.readers {
                        let latency = self.war(*reader, writer, reg.class());
                        self.edge(
                            reader.node,
                            node,
                            Kinds::WAR,
                            class,
                            reader.reasons,
                            latency,
                        );
                    }
                    for earlier in &history.writers {
                        let latency = self.waw(*earlier, writer, reg.class());
                        self.edge(earlier.node, node, Kinds::WAW, class, reasons, latency);
                    }
                    history.readers.clear();
                    if !guarded || history.writers.len() >= WRITERS {
                        history.writers.clear();
                    }
                    history.writers.push(writer);
                    self.registers[place] = history;
                    self.versions[place] += 1;
                    self.touched.push(place);
                }
            }
        }
    }

    /// `node` overwrites `reg`, a value it keeps: whoever reads that value before `node` stays before it.
    fn take_over(&mut self, node: u32, reg: Reg, reasons: Reasons) {
        if let Some(value) = reg.value() {
            self.behind_readers(node, value, reasons);
        }
    }

    /// The result of `argument`'s definition replaces `param`, which this block may read.
    fn replace_param(&mut self, argument: Value, param: Value) {
        let (stamp, writer) = self.defined[argument.index()];
        if stamp == self.stamp && argument != param {
            self.behind_readers(writer.node, param, Reasons::ARGUMENT);
        }
    }

    fn behind_readers(&mut self, node: u32, value: Value, reasons: Reasons) {
        let (stamp, mut link) = self.readers[value.index()];
        if stamp != self.stamp {
            return;
        }
        let class = EdgeClass::Register(self.func.value_type(value).class());
        let mut later = NOBODY;
        while link != NOBODY {
            let (reader, next) = self.links[link as usize];
            if reader < node {
                self.edge(reader, node, Kinds::WAR, class, reasons, 0);
            } else {
                later = reader;
            }
            link = next;
        }
        // The next one to take the value over needs not look at the same readers again.
        if later == NOBODY {
            self.readers[value.index()] = (0, NOBODY);
        }
    }

    fn order(&mut self, node: u32) {
        let Order { has, takes } = self.nodes[node as usize].order;
        // A fence for everything is behind and before everything.
        let takes_all = takes.contains(Token::All);
        for token in Token::ALL {
            let takes_it = takes.contains(token);
            let has_it = has.contains(token) || token == Token::All;
            if !takes_it && !has_it {
                continue;
            }
            let touch = Touch { node, ..UNTOUCHED };
            let mut history = std::mem::take(&mut self.tokens[token as usize]);
            for earlier in &history.writers {
                let latency = self.after_fence(earlier.node);
                self.edge(
                    earlier.node,
                    node,
                    Kinds::BARRIER,
                    EdgeClass::Order,
                    Reasons(0),
                    latency,
                );
            }
            if takes_it {
                // Whoever has a token that everything has is held back by that alone.
                if token == Token::All || !takes_all {
                    for earlier in &history.readers {
                        self.edge(
                            earlier.node,
                            node,
                            Kinds::BARRIER,
                            EdgeClass::Order,
                            Reasons(0),
                            0,
                        );
                    }
                }
                history.readers.clear();
                history.writers.clear();
                history.writers.push(touch);
            } else {
                history.readers.push(touch);
            }
            self.tokens[token as usize] = history;
        }
        if takes.contains(Token::Memory) {
            self.pending.clear();
        }
    }

    /// Cycles that must pass behind a fence.
    fn after_fence(&self, fence: u32) -> u16 {
        let node = &self.nodes[fence as usize];
        let settles = node
            .op
            .and_then(timing::of)
            .is_some_and(|timing| timing.settles);
        let least = u16::from(node.least_stall);
        if settles {
            least.max(timing::BARRIER_SETTLES)
        } else {
            least
        }
    }

    fn memory(&mut self, node: u32, inst: Inst) {
        let versions = &self.versions;
        let refs = alias::accesses(self.func, inst, &mut |reg| match reg.kind() {
            RegKind::Phys(reg) if !reg.is_constant() => versions[place_of(reg)],
            _ => 0,
        });
        if refs.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let crowded = pending.len() >= PENDING;
        for &(earlier, other) in &pending {
            if crowded || refs.iter().any(|mine| mine.conflicts(&other)) {
                let latency = u16::from(self.nodes[earlier as usize].least_stall);
                self.edge(
                    earlier,
                    node,
                    Kinds::MEMORY,
                    EdgeClass::Memory,
                    Reasons(0),
                    latency,
                );
            }
        }
        self.pending = pending;
        if crowded {
            self.pending.clear();
            // What is compared with this node from now on stands for all before it.
            let anything = |space| MemoryRef {
                space,
                base: None,
                offset: 0,
                size: None,
                reads: true,
                writes: true,
            };
            self.pending
                .push((node, anything(orias_sass::Space::Generic)));
            self.pending
                .push((node, anything(orias_sass::Space::Surface)));
        } else {
            self.pending
                .extend(refs.into_iter().map(|mine| (node, mine)));
        }
    }

    /// Cycles from a write to a read of it.
    fn raw(&self, writer: Touch, reader: Touch, class: Class) -> u16 {
        let Some(result) = self.result(writer, class) else {
            return 0;
        };
        let typical = self.nodes[writer.node as usize].latency;
        match result {
            Arrival::Fixed(group) => match self.machine(reader.node) {
                // A pseudo-operation passes it on to somebody who is not known here.
                None => typical,
                Some((consumer, consumer_mods)) => {
                    let used = timing::use_group(&timing::Use {
                        op: consumer,
                        mods: consumer_mods,
                        place: reader.slot,
                        class: class.into(),
                        offset: reader.offset,
                    });
                    match used {
                        Some(used) if used.class() == group.class() => {
                            u16::from(timing::latency(Table::Safe, group, used).cycles)
                        }
                        _ => typical,
                    }
                }
            },
            Arrival::ReadBarrier => RELEASE,
            Arrival::WarpGroup => 1,
            Arrival::WriteBarrier => typical,
        }
    }

    /// Cycles from a read to an overwriting write.
    fn war(&self, reader: Touch, writer: Touch, class: Class) -> u16 {
        let Some((op, mods)) = self.machine(reader.node) else {
            return 0;
        };
        if timing::reads_late(op, reader.slot, class.into()) {
            // The queue of the memory pipes reads in order.
            let in_order = |node| {
                self.machine(node)
                    .and_then(|(op, _)| timing::of(op))
                    .is_some_and(|timing| timing.reads_in_order)
            };
            return if in_order(reader.node) && in_order(writer.node) {
                1
            } else {
                RELEASE
            };
        }
        let used = timing::use_group(&timing::Use {
            op,
            mods,
            place: reader.slot,
            class: class.into(),
            offset: reader.offset,
        });
        match (used, self.result(writer, class)) {
            (Some(used), Some(Arrival::Fixed(later))) if used.class() == later.class() => {
                u16::from(timing::release(Table::Safe, used, later))
            }
            _ => 0,
        }
    }

    /// Cycles from a write to a later one of the same register.
    fn waw(&self, earlier: Touch, later: Touch, class: Class) -> u16 {
        match (self.result(earlier, class), self.result(later, class)) {
            (Some(Arrival::Fixed(earlier)), Some(Arrival::Fixed(later)))
                if earlier.class() == later.class() =>
            {
                u16::from(timing::overwrite(Table::Safe, earlier, later))
            }
            (Some(Arrival::WriteBarrier), _) => self.nodes[earlier.node as usize].latency,
            (Some(Arrival::ReadBarrier), _) => RELEASE,
            _ => 1,
        }
    }

    fn machine(&self, node: u32) -> Option<(Op, Mods)> {
        match self.func.inst(self.nodes[node as usize].inst).operation() {
            Operation::Machine(op, mods) => Some((op, mods)),
            Operation::Abstract(..) => None,
        }
    }

    fn result(&self, writer: Touch, class: Class) -> Option<Arrival> {
        let (op, mods) = self.machine(writer.node)?;
        timing::arrival(&timing::Result {
            op,
            mods,
            place: writer.slot,
            class: class.into(),
            offset: writer.offset,
        })
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

    /// What holds back a member of a run holds back its first.
    fn pass_runs_on(&mut self) {
        if !self.nodes.iter().any(|node| node.with_previous) {
            return;
        }
        let mut head: Vec<u32> = (0..self.nodes.len() as u32).collect();
        for node in 1..self.nodes.len() {
            if self.nodes[node].with_previous {
                head[node] = head[node - 1];
            }
        }
        let passed: Vec<Edge> = self
            .edges
            .iter()
            .filter(|edge| {
                let first = head[edge.to as usize];
                first != edge.to && edge.from < first
            })
            .map(|edge| {
                let first = head[edge.to as usize];
                Edge {
                    to: first,
                    latency: edge.latency.saturating_sub((edge.to - first) as u16),
                    ..*edge
                }
            })
            .collect();
        self.edges.extend(passed);
        for node in 1..self.nodes.len() as u32 {
            if self.nodes[node as usize].with_previous {
                self.edges.push(Edge {
                    from: node - 1,
                    to: node,
                    kinds: Kinds::BARRIER,
                    class: EdgeClass::Order,
                    reasons: Reasons(0),
                    latency: 1,
                });
            }
        }
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
        Graph {
            block,
            nodes,
            edges,
            into,
            out_starts,
            out,
            tail,
        }
    }
}

/// The latency of an operation's slowest result, whoever reads it: what is typical, or the most a fixed one of its class takes.
fn expected(timing: &Timing) -> u16 {
    match timing.typical {
        Some(typical) => typical.cycles,
        None => fixed_latency(timing.class.name()),
    }
}

/// Cycles from a fixed-latency result to a consumer that is not known (measured: 4 or 5 in most pipes; matrix operations 24).
fn fixed_latency(class: &str) -> u16 {
    match class {
        "fp64" | "half-mma" => 8,
        "tensor" => 24,
        "to-uniform" | "vote-uniform" => 10,
        "uniform" => 6,
        "uniform-move" => 2,
        "vote" => 13,
        "control" | "cluster-arrive" | "cluster-wait" => 1,
        _ => 5,
    }
}

/// Registers the row of a machine operation touches without naming them.
fn row_registers(
    func: &Function,
    inst: Inst,
    wanted: fn(orias_sass::Access) -> bool,
) -> SmallVec<[Reg; 2]> {
    let Some(op) = func.opcode(inst).as_machine() else {
        return SmallVec::new();
    };
    op.row()
        .implicit
        .iter()
        .filter(|implicit| wanted(implicit.access))
        .filter_map(|implicit| {
            let class = Class::from(implicit.register.class);
            PhysReg::tuple(class, implicit.register.index, implicit.count).map(Reg::from)
        })
        .collect()
}

fn is_constant(reg: Reg) -> bool {
    matches!(reg.kind(), RegKind::Phys(reg) if reg.is_constant())
}
