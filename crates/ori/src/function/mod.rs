//! Functions: the pools, the blocks and values in them, and the function's header.
//!
//! A [`Function`] owns its blocks, instructions, values, edges, addresses and operands, each in one growing array, so that
//! cloning a function is a handful of copies and an instruction costs no allocation of its own. What is replaced stays in
//! the pools as waste; nothing refers to it.

mod instructions;
mod registers;

use crate::entity::{AddressId, Block, Edge, Inst, Span, Symbol, Value};
use crate::instruction::InstData;
use crate::layout::{Insts, Layout};
use crate::operand::{Address, BaseForm, Operand};
use crate::register::{Class, PhysReg, Reg, RegKind, Type};
use crate::shape::InstructionShape;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityList, ListPool, PrimaryMap};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
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
    /// What its start must be a multiple of, where that is more than a stack pointer is anyway.
    pub local_align: u32,
    /// Largest thread block, by dimension.
    pub max_threads: [u32; 3],
    /// The thread block is exactly that large.
    pub required_threads: bool,
    /// Least number of thread blocks that should fit on a multiprocessor.
    pub min_blocks: u32,
    /// Most registers a thread may have.
    pub max_registers: u32,
    /// That number counts whatever the numbers of threads and blocks ask for.
    pub override_registers: bool,
    /// Shape of the cluster.
    pub cluster: [u32; 3],
    /// How many named barriers the code uses.
    pub barriers: u32,
    /// Registers the allocator does not hand out; code before allocation may name them (the stack pointer).
    pub fixed: Vec<PhysReg>,
    /// Headers of loops that are not to be unrolled: the source says so, or they were.
    pub rolled: Vec<Block>,
    /// Blocks that hardly ever follow the blocks before them, as whoever made them knows.
    pub rare: BTreeSet<Block>,
    /// How often blocks run for each run of the function by a thread, as the source states it.
    pub frequencies: BTreeMap<Block, u64>,
    /// What the addresses of variables in shared memory are multiples of, where that is at least eight bytes and no linker decides.
    pub aligned: BTreeMap<String, u32>,
    /// Whether a linker decides where the code and all that it names lie: it calls and returns by absolute addresses.
    pub relocatable: bool,
    /// Whether spilled registers may lie in shared memory.
    pub shared_spills: SharedSpills,
}

/// Whether spilled registers may lie in shared memory, and which are to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SharedSpills {
    /// They lie in local memory.
    #[default]
    No,
    /// The source lets them.
    Wanted,
    /// Those that lie in the frame from a number of bytes on are to; the register is held back for their address.
    From(PhysReg, u32),
}

impl Attributes {
    /// Says of `new` what is said of how often `block` runs: it is a part or a copy of it.
    pub fn rate_alike(&mut self, block: Block, new: Block) {
        if self.rare.contains(&block) {
            self.rare.insert(new);
        }
        if let Some(&times) = self.frequencies.get(&block) {
            self.frequencies.insert(new, times);
        }
    }
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
    /// The function that was inlined there: the offset of its name among the module's debug strings.
    pub function: Option<u32>,
    /// The line of the PTX, from 1; 0 if unknown.
    pub ptx: u32,
    /// What the instruction makes is what a register of the source has then: the register's number in a list that is kept beside the
    /// function.
    pub register: Option<u32>,
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

#[derive(Clone, Copy, PartialEq, Debug)]
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
    /// The target it is compiled for.
    pub target: orias_sass::Target,
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
    /// Shapes of instructions that the builder found to be right.
    pub(crate) right: FxHashSet<InstructionShape>,
    tried: Tried,
}

/// What a phase that tried a later one has kept for it: the function as it was, and what came out. A copy has none.
#[derive(Default)]
struct Tried(Option<Box<(Function, Function)>>);

impl Clone for Tried {
    fn clone(&self) -> Tried {
        Tried(None)
    }
}

impl Function {
    /// A function without blocks.
    pub fn new(
        name: impl Into<String>,
        kind: FunctionKind,
        level: Level,
        target: orias_sass::Target,
    ) -> Function {
        Function {
            name: name.into(),
            kind,
            level,
            target,
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
            right: FxHashSet::default(),
            tried: Tried::default(),
        }
    }

    /// Keeps what a later phase made of a copy of this function.
    pub fn keep_tried(&mut self, result: Function) {
        self.tried = Tried(Some(Box::new((self.clone(), result))));
    }

    /// What [`Function::keep_tried`] kept, if the function is still what it was then.
    pub fn take_tried(&mut self) -> Option<Function> {
        let (before, result) = *self.tried.0.take()?;
        self.is_copy_of(&before).then_some(result)
    }

    /// Whether nothing has changed in either of a function and its copy.
    fn is_copy_of(&self, other: &Function) -> bool {
        let same_blocks = || {
            self.blocks().eq(other.blocks())
                && self.blocks().all(|block| {
                    self.block_params(block) == other.block_params(block)
                        && self.block_insts(block).eq(other.block_insts(block))
                })
        };
        let same_edges = || {
            self.edges.keys().all(|edge| {
                self.edge_target(edge) == other.edge_target(edge)
                    && self.edge_args(edge) == other.edge_args(edge)
            })
        };
        self.level == other.level
            && self.attributes == other.attributes
            && self.results == other.results
            && self.blocks.len() == other.blocks.len()
            && self.edges.len() == other.edges.len()
            && self.insts == other.insts
            && self.values == other.values
            && self.addresses == other.addresses
            && self.operands == other.operands
            && self.symbols.len() == other.symbols.len()
            && same_blocks()
            && same_edges()
    }

    // Blocks.

    /// How many blocks there have ever been: one past the highest number.
    #[inline]
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
    #[inline]
    pub fn entry(&self) -> Option<Block> {
        self.layout.entry()
    }

    /// The blocks in layout order.
    #[inline]
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        self.layout.blocks()
    }

    /// The instructions of `block` in order.
    #[inline]
    pub fn block_insts(&self, block: Block) -> Insts<'_> {
        self.layout.insts(block)
    }

    /// The parameters of `block`.
    #[inline]
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
    #[inline]
    pub fn terminator(&self, block: Block) -> Option<Inst> {
        let last = self.layout.last_inst(block)?;
        self.insts[last].opcode().is_terminator().then_some(last)
    }

    /// The edges that leave `block`.
    #[inline]
    pub fn successor_edges(&self, block: Block) -> &[Edge] {
        match self.layout.last_inst(block) {
            Some(last) => self.edges(last),
            None => &[],
        }
    }

    /// The blocks that `block` may go to next, in the order of its edges; one may occur twice.
    #[inline]
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
        self.attributes.rate_alike(block, tail);
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
    #[inline]
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
    #[inline]
    pub fn value_type(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// Changes the type of `value`, as selection does when it moves a value to the uniform registers.
    pub fn set_value_type(&mut self, value: Value, ty: Type) {
        self.values[value].ty = ty;
    }

    /// Where `value` is defined.
    #[inline]
    pub fn value_def(&self, value: Value) -> ValueDef {
        self.values[value].def
    }

    /// The instruction that defines `value`, if one does.
    #[inline]
    pub fn defining_inst(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Inst(inst, _) => Some(inst),
            ValueDef::Param(..) | ValueDef::None => None,
        }
    }

    /// The block in which `value` is defined.
    #[inline]
    pub fn defining_block(&self, value: Value) -> Option<Block> {
        match self.values[value].def {
            ValueDef::Inst(inst, _) => self.layout.inst_block(inst),
            ValueDef::Param(block, _) => Some(block),
            ValueDef::None => None,
        }
    }

    /// The type of a register operand.
    #[inline]
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

    /// Gives names outside the function others: what `new` says of a name, where it says something. No two may come to be the same.
    pub fn rename_symbols(&mut self, new: impl Fn(&str) -> Option<String>) {
        for (symbol, name) in &mut self.symbols {
            if let Some(other) = new(name) {
                self.symbol_ids.remove(name);
                self.symbol_ids.insert(other.clone(), symbol);
                *name = other;
            }
        }
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
    #[inline]
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
