//! Making, reading and changing instructions and the edges of terminators.
//!
//! The operands of an instruction lie in one run of the pool, in four groups: its own, the kept values, implicit uses,
//! implicit definitions. A group that changes its length moves the run to the pool's end, unless it is there already.

use super::{EdgeData, Function, ValueDef};
use crate::control::ControlWord;
use crate::entity::{Block, Edge, Inst, Span, Value};
use crate::instruction::{InstData, Opcode, Operation};
use crate::operand::Operand;
use crate::operation::{AbstractMods, AbstractOp, Modifier};
use crate::register::{Class, Guard};
use cranelift_entity::EntityList;
use cranelift_entity::packed_option::PackedOption;
use orias_sass as sass;

impl Function {
    /// How many instructions there have ever been: one past the highest number.
    pub fn inst_count(&self) -> usize {
        self.insts.len()
    }

    /// The instruction's own data.
    #[inline]
    pub fn inst(&self, inst: Inst) -> &InstData {
        &self.insts[inst]
    }

    /// The operation of `inst`.
    #[inline]
    pub fn opcode(&self, inst: Inst) -> Opcode {
        self.insts[inst].opcode()
    }

    /// A new abstract instruction, in no block yet. The first `results` operands are definitions: their values get this
    /// instruction as theirs.
    ///
    /// Nothing is checked here; [`crate::builder`] does, and the verifier.
    ///
    /// # Panics
    /// If there are more than 65,535 operands.
    pub fn create_abstract(
        &mut self,
        op: AbstractOp,
        mods: AbstractMods,
        results: usize,
        operands: &[Operand],
    ) -> Inst {
        assert!(results <= operands.len());
        self.create_inst(Operation::Abstract(op, mods), results, operands)
    }

    /// A new machine instruction, in no block yet, with one operand for each slot of its row. Values in slots that are
    /// written get this instruction as their definition.
    ///
    /// Nothing else is checked here; [`crate::builder`] does, and the verifier.
    pub fn create_machine(&mut self, op: sass::Op, mods: sass::Mods, operands: &[Operand]) -> Inst {
        self.create_inst(Operation::Machine(op, mods), 0, operands)
    }

    fn create_inst(&mut self, operation: Operation, results: usize, operands: &[Operand]) -> Inst {
        let start = self.operands.len() as u32;
        self.operands.extend_from_slice(operands);
        let count =
            u16::try_from(operands.len()).expect("an instruction has at most 65,535 operands");
        let inst = self.insts.push(InstData {
            operation,
            guard: Guard::ALWAYS,
            span: PackedOption::default(),
            control: ControlWord::NONE,
            edges: EntityList::new(),
            start,
            results: results as u16,
            slots: count,
            kept: 0,
            uses: 0,
            defs: 0,
            strong: false,
        });
        self.own_definitions(inst);
        inst
    }

    #[inline]
    fn group(&self, inst: Inst, skip: u16, len: u16) -> &[Operand] {
        let start = self.insts[inst].start as usize + usize::from(skip);
        &self.operands[start..start + usize::from(len)]
    }

    /// The operation's own operands: results first in an abstract operation, the row's order in a machine operation.
    #[inline]
    pub fn operands(&self, inst: Inst) -> &[Operand] {
        self.group(inst, 0, self.insts[inst].slots)
    }

    /// How many of the leading operands of an abstract instruction are results.
    #[inline]
    pub fn result_count(&self, inst: Inst) -> usize {
        usize::from(self.insts[inst].results)
    }

    /// The values kept: for each value in [`Function::kept_places`], what it is when the guard is false (or what a place
    /// that is both read and written reads).
    #[inline]
    pub fn kept(&self, inst: Inst) -> &[Operand] {
        let data = &self.insts[inst];
        self.group(inst, data.slots, data.kept)
    }

    /// Registers the instruction reads without naming them in its encoding, such as the arguments of a call.
    #[inline]
    pub fn implicit_uses(&self, inst: Inst) -> &[Operand] {
        let data = &self.insts[inst];
        self.group(inst, data.slots + data.kept, data.uses)
    }

    /// Registers the instruction writes without naming them in its encoding, such as what a call destroys.
    #[inline]
    pub fn implicit_defs(&self, inst: Inst) -> &[Operand] {
        let data = &self.insts[inst];
        self.group(inst, data.slots + data.kept + data.uses, data.defs)
    }

    /// The edges that leave through `inst`.
    #[inline]
    pub fn edges(&self, inst: Inst) -> &[Edge] {
        self.insts[inst].edges.as_slice(&self.edge_lists)
    }

    /// The block an edge goes to.
    #[inline]
    pub fn edge_target(&self, edge: Edge) -> Block {
        self.edges[edge].block
    }

    /// The arguments an edge gives its target's parameters.
    #[inline]
    pub fn edge_args(&self, edge: Edge) -> &[Value] {
        self.edges[edge].args.as_slice(&self.value_lists)
    }

    /// A new edge, to be given to one terminator.
    pub fn create_edge(&mut self, block: Block, args: &[Value]) -> Edge {
        let args = EntityList::from_slice(args, &mut self.value_lists);
        self.edges.push(EdgeData { block, args })
    }

    /// Sends an edge elsewhere, with other arguments.
    pub fn set_edge(&mut self, edge: Edge, block: Block, args: &[Value]) {
        let data = &mut self.edges[edge];
        data.block = block;
        data.args.clear(&mut self.value_lists);
        data.args
            .extend(args.iter().copied(), &mut self.value_lists);
    }

    /// Adds an argument to an edge.
    pub fn push_edge_arg(&mut self, edge: Edge, value: Value) {
        self.edges[edge].args.push(value, &mut self.value_lists);
    }

    /// Changes one operand. A place that defines gives the value its definition.
    ///
    /// # Panics
    /// If the instruction has no such operand.
    pub fn set_operand(&mut self, inst: Inst, index: usize, operand: Operand) {
        assert!(index < self.operands(inst).len());
        let place = self.insts[inst].start as usize + index;
        self.operands[place] = operand;
        if self.is_def(inst, index)
            && let Some(value) = operand.as_value()
        {
            self.values[value].def = ValueDef::Inst(inst, index as u16);
        }
    }

    /// Changes the kept values, in the order of [`Function::kept_places`].
    pub fn set_kept(&mut self, inst: Inst, kept: &[Operand]) {
        let data = &self.insts[inst];
        if data.uses == 0 && data.defs == 0 && kept.is_empty() {
            // Kept values define nothing: the group just ends earlier.
            self.insts[inst].kept = 0;
            return;
        }
        let (uses, defs) = self.implicit_lists(inst);
        self.regroup(inst, kept, &uses, &defs);
    }

    /// Changes the registers read and written without being named in the encoding.
    pub fn set_implicit(&mut self, inst: Inst, uses: &[Operand], defs: &[Operand]) {
        let kept = self.kept(inst).to_vec();
        self.regroup(inst, &kept, uses, defs);
    }

    fn implicit_lists(&self, inst: Inst) -> (Vec<Operand>, Vec<Operand>) {
        (
            self.implicit_uses(inst).to_vec(),
            self.implicit_defs(inst).to_vec(),
        )
    }

    /// Replaces the groups after the first. The last instruction made grows in place; any other moves to the pool's end.
    fn regroup(&mut self, inst: Inst, kept: &[Operand], uses: &[Operand], defs: &[Operand]) {
        let data = self.insts[inst];
        let slots = usize::from(data.slots);
        let start = data.start as usize;
        let total = slots + usize::from(data.kept + data.uses + data.defs);
        let start = if start + total == self.operands.len() {
            self.operands.truncate(start + slots);
            start
        } else {
            let moved = self.operands.len();
            self.operands.extend_from_within(start..start + slots);
            moved
        };
        for list in [kept, uses, defs] {
            self.operands.extend_from_slice(list);
        }
        let count = |list: &[Operand]| {
            u16::try_from(list.len()).expect("an instruction has at most 65,535 operands")
        };
        let data = &mut self.insts[inst];
        data.start = start as u32;
        data.kept = count(kept);
        data.uses = count(uses);
        data.defs = count(defs);
        self.own_definitions(inst);
    }

    /// Changes the edges of a terminator.
    pub fn set_edges(&mut self, inst: Inst, edges: &[Edge]) {
        let list = &mut self.insts[inst].edges;
        list.clear(&mut self.edge_lists);
        list.extend(edges.iter().copied(), &mut self.edge_lists);
    }

    /// Changes the guard. Values the instruction defines then need kept values.
    pub fn set_guard(&mut self, inst: Inst, guard: Guard) {
        self.insts[inst].guard = guard;
    }

    /// Says that other accesses to memory must stay on their side of an instruction: an access with an order that its operation has no modifier for.
    pub fn set_strong(&mut self, inst: Inst, strong: bool) {
        self.insts[inst].strong = strong;
    }

    /// Whether what an instruction makes is what a register of the source has: debuggers look for it.
    pub fn is_named(&self, inst: Inst) -> bool {
        let span = self.inst(inst).span();
        let named = span.is_some_and(|span| self.locations[span].register.is_some());
        named && {
            let mut general = false;
            self.for_each_def(inst, |reg| {
                let class = match (reg.value(), reg.phys()) {
                    (Some(value), _) => Some(self.value_type(value).class()),
                    (None, physical) => physical.map(|reg| reg.class()),
                };
                general |= matches!(class, Some(Class::R | Class::P));
            });
            general
        }
    }

    /// Changes the source location.
    pub fn set_span(&mut self, inst: Inst, span: Option<Span>) {
        self.insts[inst].span = span.into();
    }

    /// Changes the control word.
    pub fn set_control(&mut self, inst: Inst, control: ControlWord) {
        self.insts[inst].control = control;
    }

    /// The name of the value that a modifier of a machine instruction has.
    pub fn machine_modifier(
        &self,
        inst: Inst,
        name: sass::ModifierName,
    ) -> Option<sass::ValueName> {
        match self.inst(inst).operation() {
            Operation::Machine(op, mods) => op.row().value_of(name, mods),
            Operation::Abstract(..) => None,
        }
    }

    /// The value of a modifier of an abstract instruction.
    pub fn modifier<M: Modifier>(&self, inst: Inst) -> Option<M> {
        match self.insts[inst].operation {
            Operation::Abstract(op, mods) => op.row().modifier(mods),
            Operation::Machine(..) => None,
        }
    }

    /// Turns `inst` into another abstract instruction, in place: same guard, span and position. What it defined before has
    /// no definition after, unless it is defined again.
    pub fn replace_with_abstract(
        &mut self,
        inst: Inst,
        op: AbstractOp,
        mods: AbstractMods,
        results: usize,
        operands: &[Operand],
    ) {
        assert!(results <= operands.len());
        self.replace(inst, Operation::Abstract(op, mods), results, operands);
    }

    fn replace(&mut self, inst: Inst, operation: Operation, results: usize, operands: &[Operand]) {
        self.disown_definitions(inst);
        let start = self.operands.len() as u32;
        self.operands.extend_from_slice(operands);
        let count =
            u16::try_from(operands.len()).expect("an instruction has at most 65,535 operands");
        let data = &mut self.insts[inst];
        data.operation = operation;
        data.start = start;
        data.results = results as u16;
        data.slots = count;
        data.kept = 0;
        data.uses = 0;
        data.defs = 0;
        data.edges.clear(&mut self.edge_lists);
        self.own_definitions(inst);
    }

    /// Takes `inst` out of its block for good: its values have no definition any more.
    ///
    /// # Panics
    /// If it is in no block.
    pub fn remove_inst(&mut self, inst: Inst) {
        self.layout.remove_inst(inst);
        self.disown_definitions(inst);
    }

    /// Gives up an instruction that was never placed: what it defines has no definition any more.
    pub fn abandon_inst(&mut self, inst: Inst) {
        self.disown_definitions(inst);
    }

    /// A copy of `inst` in no block, with the same operands. Its definitions still belong to `inst`: the caller gives the
    /// copy its own with [`Function::map_defs`] or [`Function::set_operand`].
    pub fn copy_inst(&mut self, inst: Inst) -> Inst {
        let data = self.insts[inst];
        let total = usize::from(data.slots + data.kept + data.uses + data.defs);
        let from = data.start as usize;
        let start = self.operands.len();
        for index in from..from + total {
            let operand = self.copy_operand(self.operands[index]);
            self.operands.push(operand);
        }
        let edges: Vec<Edge> = self
            .edges(inst)
            .to_vec()
            .into_iter()
            .map(|edge| {
                let args = self.edge_args(edge).to_vec();
                self.create_edge(self.edges[edge].block, &args)
            })
            .collect();
        let list = EntityList::from_slice(&edges, &mut self.edge_lists);
        self.insts.push(InstData {
            start: start as u32,
            edges: list,
            ..data
        })
    }
}
