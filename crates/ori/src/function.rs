//! Functions: the pools, and everything that reads or changes them.
//!
//! A [`Function`] owns its blocks, instructions, values, edges, addresses and operands, each in one growing array, so that
//! cloning a function is a handful of copies and an instruction costs no allocation of its own. What is replaced stays in
//! the pools as waste; nothing refers to it.

use crate::control::ControlWord;
use crate::entity::{AddressId, Block, Edge, Inst, Span, Symbol, Value};
use crate::instruction::{InstData, Opcode, Operation};
use crate::layout::{Insts, Layout};
use crate::machine;
use crate::operand::{Address, BaseForm, Operand};
use crate::operation::{AbstractMods, AbstractOp, Modifier};
use crate::register::{Class, Guard, OptReg, PhysReg, Reg, RegKind, Type};
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityList, ListPool, PrimaryMap};
use orias_sass::{self as sass, Access};
use rustc_hash::FxHashMap;
use std::fmt;

/// How far a function has come; the verifier knows what belongs where.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Level {
    /// Abstract operations on values of class R, P and B, in SSA form.
    Abstract,
    /// Machine operations on values of all five classes, in SSA form.
    Machine,
    /// Machine operations on physical registers.
    Physical,
    /// The same in the final order, each with its control word.
    Final,
}

impl Level {
    /// Every level, in the order a function goes through them.
    pub const ALL: [Level; 4] = [
        Level::Abstract,
        Level::Machine,
        Level::Physical,
        Level::Final,
    ];

    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Abstract => "abstract",
            Level::Machine => "machine",
            Level::Physical => "physical",
            Level::Final => "final",
        }
    }

    /// Whether registers are values with one definition each.
    pub const fn is_ssa(self) -> bool {
        matches!(self, Level::Abstract | Level::Machine)
    }
}

/// How a function is entered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FunctionKind {
    /// A kernel: launched from outside, its parameters in constant memory.
    Entry,
    /// A device function: called, its parameters the entry block's.
    Device,
}

/// A kernel parameter: a piece of the parameter space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KernelParam {
    /// Where it starts, in bytes.
    pub offset: u32,
    /// How many bytes it has.
    pub size: u32,
}

/// What is known of a function besides its code. Sizes are in bytes; zero means none or not said.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Attributes {
    /// Statically allocated shared memory.
    pub shared: u32,
    /// Local memory (stack frame) of each thread.
    pub local: u32,
    /// Largest thread block, by dimension.
    pub max_threads: [u32; 3],
    /// The thread block is exactly that large.
    pub required_threads: bool,
    /// Least number of thread blocks that should fit on a multiprocessor.
    pub min_blocks: u32,
    /// Most registers a thread may have.
    pub max_registers: u32,
    /// Shape of the cluster.
    pub cluster: [u32; 3],
    /// How many named barriers the code uses.
    pub barriers: u32,
    /// Registers the allocator does not hand out; code before allocation may name them (the stack pointer).
    pub fixed: Vec<PhysReg>,
}

/// A place in a source file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location {
    /// The file, by the number the source gives it.
    pub file: u32,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
    /// Where the code was inlined, if it was.
    pub inlined_at: PackedOption<Span>,
}

/// Where a value is defined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValueDef {
    /// Nowhere: a number without a value, or a value whose definition was taken away.
    None,
    /// A block's parameter of this number.
    Param(Block, u16),
    /// An operand of an instruction: index into its operands, implicit definitions counted after all others.
    Inst(Inst, u16),
}

#[derive(Clone, Copy, Debug)]
struct ValueData {
    ty: Type,
    def: ValueDef,
}

#[derive(Clone, Default, Debug)]
struct BlockData {
    params: EntityList<Value>,
}

#[derive(Clone, Copy, Debug)]
struct EdgeData {
    block: Block,
    args: EntityList<Value>,
}

/// A function, at any level.
#[derive(Clone)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// How it is entered.
    pub kind: FunctionKind,
    /// How far it has come.
    pub level: Level,
    /// The target it is compiled for, as PTX names it: `sm_90a`.
    pub target: String,
    /// What is known of it besides its code.
    pub attributes: Attributes,
    /// The parameters of a kernel.
    pub kernel_params: Vec<KernelParam>,
    /// The types of a device function's results.
    pub results: Vec<Type>,
    /// The source locations its instructions refer to.
    pub locations: PrimaryMap<Span, Location>,
    /// The order of its blocks and instructions.
    pub layout: Layout,
    blocks: PrimaryMap<Block, BlockData>,
    insts: PrimaryMap<Inst, InstData>,
    values: PrimaryMap<Value, ValueData>,
    edges: PrimaryMap<Edge, EdgeData>,
    addresses: PrimaryMap<AddressId, Address>,
    operands: Vec<Operand>,
    value_lists: ListPool<Value>,
    edge_lists: ListPool<Edge>,
    symbols: PrimaryMap<Symbol, String>,
    symbol_ids: FxHashMap<String, Symbol>,
}

impl Function {
    /// A function without blocks.
    pub fn new(
        name: impl Into<String>,
        kind: FunctionKind,
        level: Level,
        target: impl Into<String>,
    ) -> Function {
        Function {
            name: name.into(),
            kind,
            level,
            target: target.into(),
            attributes: Attributes::default(),
            kernel_params: Vec::new(),
            results: Vec::new(),
            locations: PrimaryMap::new(),
            layout: Layout::default(),
            blocks: PrimaryMap::new(),
            insts: PrimaryMap::new(),
            values: PrimaryMap::new(),
            edges: PrimaryMap::new(),
            addresses: PrimaryMap::new(),
            operands: Vec::new(),
            value_lists: ListPool::new(),
            edge_lists: ListPool::new(),
            symbols: PrimaryMap::new(),
            symbol_ids: FxHashMap::default(),
        }
    }

    // Blocks.

    /// How many blocks there have ever been: one past the highest number.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// A new block without parameters, not placed yet.
    pub fn create_block(&mut self) -> Block {
        self.blocks.push(BlockData::default())
    }

    /// A new block at the end of the layout.
    pub fn append_block(&mut self) -> Block {
        let block = self.create_block();
        self.layout.append_block(block);
        block
    }

    /// The entry block.
    pub fn entry(&self) -> Option<Block> {
        self.layout.entry()
    }

    /// The blocks in layout order.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        self.layout.blocks()
    }

    /// The instructions of `block` in order.
    pub fn block_insts(&self, block: Block) -> Insts<'_> {
        self.layout.insts(block)
    }

    /// The parameters of `block`.
    pub fn block_params(&self, block: Block) -> &[Value] {
        self.blocks[block].params.as_slice(&self.value_lists)
    }

    /// Adds a parameter to `block`. Edges to it need one more argument.
    pub fn append_block_param(&mut self, block: Block, ty: Type) -> Value {
        let value = self.create_value(ty);
        self.push_block_param(block, value);
        value
    }

    /// Makes `value`, which has no definition, the last parameter of `block`.
    pub(crate) fn push_block_param(&mut self, block: Block, value: Value) {
        let params = &mut self.blocks[block].params;
        let index = params.push(value, &mut self.value_lists);
        self.values[value].def = ValueDef::Param(block, index as u16);
    }

    /// Takes parameter `index` of `block` away, and the argument of that place from every edge in `edges`.
    pub fn remove_block_param(&mut self, block: Block, index: usize, edges: &[Edge]) {
        let removed = self.block_params(block)[index];
        self.values[removed].def = ValueDef::None;
        self.blocks[block]
            .params
            .remove(index, &mut self.value_lists);
        for place in index..self.block_params(block).len() {
            let value = self.block_params(block)[place];
            self.values[value].def = ValueDef::Param(block, place as u16);
        }
        for &edge in edges {
            debug_assert_eq!(self.edges[edge].block, block);
            self.edges[edge].args.remove(index, &mut self.value_lists);
        }
    }

    /// The terminator of `block`: its last instruction, if that is one.
    pub fn terminator(&self, block: Block) -> Option<Inst> {
        let last = self.layout.last_inst(block)?;
        self.insts[last].opcode().is_terminator().then_some(last)
    }

    /// The edges that leave `block`.
    pub fn successor_edges(&self, block: Block) -> &[Edge] {
        match self.layout.last_inst(block) {
            Some(last) => self.edges(last),
            None => &[],
        }
    }

    /// The blocks that `block` may go to next, in the order of its edges; one may occur twice.
    pub fn successors(&self, block: Block) -> impl DoubleEndedIterator<Item = Block> + '_ {
        self.successor_edges(block)
            .iter()
            .map(|&edge| self.edges[edge].block)
    }

    /// Ends `block` before `inst`: what follows moves to a new block placed right after it, which is returned. The caller
    /// gives `block` a terminator.
    ///
    /// # Panics
    /// If `inst` is in no block.
    pub fn split_block(&mut self, inst: Inst) -> Block {
        let Some(block) = self.layout.inst_block(inst) else {
            panic!("{inst} is in no block");
        };
        let tail = self.create_block();
        self.layout.insert_block_after(tail, block);
        self.layout.move_tail(inst, tail);
        tail
    }

    /// Puts a new, empty block on `edge`, placed right before the edge's target, and returns it with the edge that leaves
    /// it. The arguments go on with the second half; the caller appends the terminator that takes `leaving`.
    pub fn split_edge(&mut self, edge: Edge) -> (Block, Edge) {
        let EdgeData { block: to, args } = self.edges[edge];
        let middle = self.create_block();
        self.layout.insert_block_before(middle, to);
        let leaving = self.edges.push(EdgeData { block: to, args });
        self.edges[edge] = EdgeData {
            block: middle,
            args: EntityList::new(),
        };
        (middle, leaving)
    }

    // Values.

    /// How many values there have ever been: one past the highest number.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// A new value without a definition; defining instructions take it as an operand.
    pub fn create_value(&mut self, ty: Type) -> Value {
        self.values.push(ValueData {
            ty,
            def: ValueDef::None,
        })
    }

    /// The type of `value`.
    pub fn value_type(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// Changes the type of `value`, as selection does when it moves a value to the uniform registers.
    pub fn set_value_type(&mut self, value: Value, ty: Type) {
        self.values[value].ty = ty;
    }

    /// Where `value` is defined.
    pub fn value_def(&self, value: Value) -> ValueDef {
        self.values[value].def
    }

    /// The instruction that defines `value`, if one does.
    pub fn defining_inst(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Inst(inst, _) => Some(inst),
            ValueDef::Param(..) | ValueDef::None => None,
        }
    }

    /// The block in which `value` is defined.
    pub fn defining_block(&self, value: Value) -> Option<Block> {
        match self.values[value].def {
            ValueDef::Inst(inst, _) => self.layout.inst_block(inst),
            ValueDef::Param(block, _) => Some(block),
            ValueDef::None => None,
        }
    }

    /// The type of a register operand.
    pub fn reg_type(&self, reg: Reg) -> Type {
        match reg.kind() {
            RegKind::Value(value) => self.values[value].ty,
            RegKind::Phys(reg) => reg.ty(),
        }
    }

    // Names and locations.

    /// The id of a name outside the function.
    pub fn symbol(&mut self, name: &str) -> Symbol {
        if let Some(&symbol) = self.symbol_ids.get(name) {
            return symbol;
        }
        let symbol = self.symbols.push(name.to_owned());
        self.symbol_ids.insert(name.to_owned(), symbol);
        symbol
    }

    /// The name of a symbol.
    pub fn symbol_name(&self, symbol: Symbol) -> &str {
        &self.symbols[symbol]
    }

    /// Every name the function has ever referred to.
    pub fn symbols(&self) -> impl Iterator<Item = (Symbol, &str)> {
        self.symbols
            .iter()
            .map(|(symbol, name)| (symbol, name.as_str()))
    }

    // Addresses.

    /// A memory operand of these parts, to be used once.
    pub fn create_address(&mut self, address: Address) -> Operand {
        Operand::Address(self.addresses.push(address))
    }

    /// The parts of a memory operand.
    pub fn address(&self, id: AddressId) -> &Address {
        &self.addresses[id]
    }

    /// The parts of a memory operand, to be changed.
    pub fn address_mut(&mut self, id: AddressId) -> &mut Address {
        &mut self.addresses[id]
    }

    /// Makes lone uniform registers in addresses the uniform base, once the classes of all values are known.
    pub(crate) fn settle_addresses(&mut self) {
        for address in self.addresses.values_mut() {
            let lone = address.uniform.get().is_none() && address.form == BaseForm::Plain;
            if lone
                && let Some(value) = address.base.get().and_then(Reg::value)
                && self.values[value].ty.class() == Class::UR
            {
                address.uniform = std::mem::take(&mut address.base);
            }
        }
    }

    /// An operand equal to `operand` for another instruction: a memory operand gets parts of its own.
    pub fn copy_operand(&mut self, operand: Operand) -> Operand {
        match operand {
            Operand::Address(id) => {
                let address = self.addresses[id];
                self.create_address(address)
            }
            other => other,
        }
    }

    // Instructions.

    /// How many instructions there have ever been: one past the highest number.
    pub fn inst_count(&self) -> usize {
        self.insts.len()
    }

    /// The instruction's own data.
    pub fn inst(&self, inst: Inst) -> &InstData {
        &self.insts[inst]
    }

    /// The operation of `inst`.
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
        });
        self.own_definitions(inst);
        inst
    }

    /// Makes `inst` the definition of every value in a place that defines.
    fn own_definitions(&mut self, inst: Inst) {
        for index in 0..self.operands(inst).len() {
            if self.is_def(inst, index)
                && let Some(value) = self.operands(inst)[index].as_value()
            {
                self.values[value].def = ValueDef::Inst(inst, index as u16);
            }
        }
        let data = &self.insts[inst];
        let first = data.slots + data.kept + data.uses;
        for offset in 0..data.defs {
            let index = self.insts[inst].start + u32::from(first + offset);
            if let Some(value) = self.operands[index as usize].as_value() {
                self.values[value].def = ValueDef::Inst(inst, first + offset);
            }
        }
    }

    fn group(&self, inst: Inst, skip: u16, len: u16) -> &[Operand] {
        let start = self.insts[inst].start as usize + usize::from(skip);
        &self.operands[start..start + usize::from(len)]
    }

    /// The operation's own operands: results first in an abstract operation, the row's order in a machine operation.
    pub fn operands(&self, inst: Inst) -> &[Operand] {
        self.group(inst, 0, self.insts[inst].slots)
    }

    /// How many of the leading operands of an abstract instruction are results.
    pub fn result_count(&self, inst: Inst) -> usize {
        usize::from(self.insts[inst].results)
    }

    /// The values kept: for each value in [`Function::kept_places`], what it is when the guard is false (or what a place
    /// that is both read and written reads).
    pub fn kept(&self, inst: Inst) -> &[Operand] {
        let data = &self.insts[inst];
        self.group(inst, data.slots, data.kept)
    }

    /// Registers the instruction reads without naming them in its encoding, such as the arguments of a call.
    pub fn implicit_uses(&self, inst: Inst) -> &[Operand] {
        let data = &self.insts[inst];
        self.group(inst, data.slots + data.kept, data.uses)
    }

    /// Registers the instruction writes without naming them in its encoding, such as what a call destroys.
    pub fn implicit_defs(&self, inst: Inst) -> &[Operand] {
        let data = &self.insts[inst];
        self.group(inst, data.slots + data.kept + data.uses, data.defs)
    }

    /// The edges that leave through `inst`.
    pub fn edges(&self, inst: Inst) -> &[Edge] {
        self.insts[inst].edges.as_slice(&self.edge_lists)
    }

    /// The block an edge goes to.
    pub fn edge_target(&self, edge: Edge) -> Block {
        self.edges[edge].block
    }

    /// The arguments an edge gives its target's parameters.
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

    /// Changes the source location.
    pub fn set_span(&mut self, inst: Inst, span: Option<Span>) {
        self.insts[inst].span = span.into();
    }

    /// Changes the control word.
    pub fn set_control(&mut self, inst: Inst, control: ControlWord) {
        self.insts[inst].control = control;
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

    /// Turns `inst` into a machine instruction, in place: same guard, span and position. What it defined before has no
    /// definition after, unless it is defined again.
    pub fn replace_with_machine(
        &mut self,
        inst: Inst,
        op: sass::Op,
        mods: sass::Mods,
        operands: &[Operand],
    ) {
        self.replace(inst, Operation::Machine(op, mods), 0, operands);
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

    fn disown_definitions(&mut self, inst: Inst) {
        let defined: Vec<Value> = self.defs(inst).filter_map(Reg::value).collect();
        for value in defined {
            if self.defining_inst(value) == Some(inst) {
                self.values[value].def = ValueDef::None;
            }
        }
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
    pub(crate) fn abandon_inst(&mut self, inst: Inst) {
        self.disown_definitions(inst);
    }

    // Uses and definitions.

    /// The value defined in the `number`-th place that defines a value.
    pub fn result(&self, inst: Inst, number: usize) -> Option<Value> {
        self.value_defs(inst).nth(number)
    }

    /// Whether operand `index` is a place the instruction writes.
    pub fn is_def(&self, inst: Inst, index: usize) -> bool {
        let data = &self.insts[inst];
        match data.operation {
            Operation::Abstract(..) => index < usize::from(data.results),
            Operation::Machine(op, _) => slot_access(op, index).is_some_and(Access::writes),
        }
    }

    /// Whether operand `index` is a place the instruction reads. A place may be both; a value in it is then the one
    /// written, and the one read is among the kept.
    pub fn is_use(&self, inst: Inst, index: usize) -> bool {
        let data = &self.insts[inst];
        match data.operation {
            Operation::Abstract(..) => index >= usize::from(data.results),
            Operation::Machine(op, _) => slot_access(op, index).is_none_or(Access::reads),
        }
    }

    /// The operands whose values need a kept value: all definitions of a guarded instruction, and places both read and
    /// written. Physical registers keep themselves.
    pub fn kept_places(&self, inst: Inst) -> impl Iterator<Item = usize> + '_ {
        (0..self.operands(inst).len()).filter(move |&index| self.keeps(inst, index))
    }

    /// Whether operand `index` is one of [`Function::kept_places`].
    pub fn keeps(&self, inst: Inst, index: usize) -> bool {
        self.is_def(inst, index)
            && (!self.insts[inst].guard.is_always() || self.is_use(inst, index))
            && self.operands(inst)[index].as_value().is_some()
    }

    /// Every register the instruction writes, implicit ones included, constant registers left out.
    ///
    /// A guarded instruction may write nothing: a physical register it names then keeps its contents.
    pub fn defs(&self, inst: Inst) -> impl Iterator<Item = Reg> + '_ {
        let own = self
            .operands(inst)
            .iter()
            .enumerate()
            .filter(move |&(index, _)| self.is_def(inst, index))
            .map(|(_, operand)| operand);
        own.chain(self.implicit_defs(inst))
            .filter_map(|operand| operand.reg())
            .chain(self.row_implicit(inst, Access::writes))
            .filter(|reg| !is_constant(*reg))
    }

    /// Every register the instruction reads, constant registers left out: the guard, sources, parts of addresses, kept
    /// values, implicit uses, and the arguments of edges.
    pub fn uses(&self, inst: Inst) -> impl Iterator<Item = Reg> + '_ {
        let own = self
            .operands(inst)
            .iter()
            .enumerate()
            .filter(move |&(index, operand)| {
                self.is_use(inst, index)
                    && !(self.is_def(inst, index) && operand.as_value().is_some())
            })
            .map(|(_, operand)| operand);
        let operands = own
            .chain(self.kept(inst))
            .chain(self.implicit_uses(inst))
            .flat_map(move |&operand| self.operand_regs(operand));
        let guard = self.insts[inst].guard.reg();
        let args = self
            .edges(inst)
            .iter()
            .flat_map(move |&edge| self.edge_args(edge).iter().map(|&value| Reg::from(value)));
        guard
            .into_iter()
            .chain(operands)
            .chain(self.row_implicit(inst, Access::reads))
            .chain(args)
            .filter(|reg| !is_constant(*reg))
    }

    fn row_implicit(
        &self,
        inst: Inst,
        wanted: fn(Access) -> bool,
    ) -> impl Iterator<Item = Reg> + use<> {
        let op = self.insts[inst].opcode().as_machine();
        op.into_iter()
            .flat_map(move |op| machine::implicit(op, wanted))
    }

    /// The values the instruction defines.
    pub fn value_defs(&self, inst: Inst) -> impl Iterator<Item = Value> + '_ {
        self.defs(inst).filter_map(Reg::value)
    }

    /// The values the instruction uses, arguments of its edges included.
    pub fn value_uses(&self, inst: Inst) -> impl Iterator<Item = Value> + '_ {
        self.uses(inst).filter_map(Reg::value)
    }

    /// The registers that reading `operand` reads.
    pub fn operand_regs(&self, operand: Operand) -> impl Iterator<Item = Reg> + use<> {
        let regs: [OptReg; 3] = match operand {
            Operand::Reg { reg, .. } => [OptReg::from(reg), OptReg::NONE, OptReg::NONE],
            Operand::Const { index, .. } => [index, OptReg::NONE, OptReg::NONE],
            Operand::Bindless { descriptor, .. } | Operand::Descriptor(descriptor) => {
                [OptReg::from(descriptor), OptReg::NONE, OptReg::NONE]
            }
            Operand::Address(id) => {
                let address = &self.addresses[id];
                [address.base, address.uniform, address.descriptor]
            }
            Operand::None
            | Operand::Imm(_)
            | Operand::Special(_)
            | Operand::Symbol { .. }
            | Operand::Block(_)
            | Operand::Edge(_) => [OptReg::NONE; 3],
        };
        regs.into_iter().filter_map(OptReg::get)
    }

    /// Replaces every register the instruction reads (the same ones as [`Function::uses`], constant registers included).
    pub fn map_uses(&mut self, inst: Inst, mut map: impl FnMut(Reg) -> Reg) {
        if let Some(reg) = self.insts[inst].guard.reg() {
            self.insts[inst].guard = self.insts[inst].guard.with_reg(map(reg));
        }
        let data = self.insts[inst];
        let start = data.start as usize;
        let reads = usize::from(data.slots + data.kept + data.uses);
        for index in 0..reads {
            let own = index < usize::from(data.slots);
            let operand = self.operands[start + index];
            let only_written = own
                && (!self.is_use(inst, index)
                    || (self.is_def(inst, index) && operand.as_value().is_some()));
            if !only_written {
                self.operands[start + index] = self.map_operand(operand, &mut map);
            }
        }
        for place in 0..self.edges(inst).len() {
            let edge = self.edges(inst)[place];
            for arg in self.edges[edge].args.as_mut_slice(&mut self.value_lists) {
                if let RegKind::Value(value) = map(Reg::from(*arg)).kind() {
                    *arg = value;
                }
            }
        }
    }

    fn map_operand(&mut self, operand: Operand, map: &mut impl FnMut(Reg) -> Reg) -> Operand {
        match operand {
            Operand::Reg { reg, mods } => Operand::Reg {
                reg: map(reg),
                mods,
            },
            Operand::Const {
                mods,
                bank,
                offset,
                index,
            } => Operand::Const {
                mods,
                bank,
                offset,
                index: index.get().map(map).into(),
            },
            Operand::Bindless {
                mods,
                descriptor,
                offset,
            } => Operand::Bindless {
                mods,
                descriptor: map(descriptor),
                offset,
            },
            Operand::Descriptor(reg) => Operand::Descriptor(map(reg)),
            Operand::Address(id) => {
                let address = &mut self.addresses[id];
                for reg in [
                    &mut address.base,
                    &mut address.uniform,
                    &mut address.descriptor,
                ] {
                    *reg = reg.get().map(&mut *map).into();
                }
                operand
            }
            other => other,
        }
    }

    /// Replaces every register the instruction writes, constant registers included. A value put there gets this definition.
    pub fn map_defs(&mut self, inst: Inst, mut map: impl FnMut(Reg) -> Reg) {
        self.disown_definitions(inst);
        let data = self.insts[inst];
        let start = data.start as usize;
        let implicit = usize::from(data.slots + data.kept + data.uses);
        let places = (0..usize::from(data.slots))
            .filter(|&index| self.is_def(inst, index))
            .chain(implicit..implicit + usize::from(data.defs))
            .collect::<Vec<_>>();
        for index in places {
            if let Operand::Reg { reg, .. } = &mut self.operands[start + index] {
                *reg = map(*reg);
            }
        }
        self.own_definitions(inst);
    }

    /// Replaces registers in every instruction of the layout, in one pass: for a renaming that covers many values.
    pub fn map_all_uses(&mut self, mut map: impl FnMut(Reg) -> Reg) {
        let mut block = self.layout.entry();
        while let Some(current) = block {
            let mut inst = self.layout.first_inst(current);
            while let Some(at) = inst {
                self.map_uses(at, &mut map);
                inst = self.layout.next_inst(at);
            }
            block = self.layout.next_block(current);
        }
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

fn slot_access(op: sass::Op, slot: usize) -> Option<Access> {
    op.row().slots.get(slot).map(|slot| slot.access)
}

fn is_constant(reg: Reg) -> bool {
    matches!(reg.kind(), RegKind::Phys(reg) if reg.is_constant())
}

impl fmt::Debug for Function {
    /// The text form: the pools say nothing to a reader.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::text::print_function(self))
    }
}

impl PartialEq for Function {
    /// Whether the two print the same: same header, blocks, instructions and names of values, whatever the pools hold
    /// besides.
    fn eq(&self, other: &Function) -> bool {
        crate::equality::equal(self, other)
    }
}
