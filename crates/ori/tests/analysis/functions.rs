//! Functions to test on: the generated graphs, filled with instructions.

use super::generate::{Random, graph};
use cranelift_entity::EntityRef;
use orias_generate::ori::{self as generated, Size};
use orias_ori::analysis::{DepthFirst, DominatorTree, FlowGraph};
use orias_ori::operation::{Modifier, Scalar, Space, Special, Vector};
use orias_ori::{
    AbstractMods, AbstractOp, Address, Block, Class, Edge, Function, FunctionKind, Guard, Inst,
    Level, Operand, PhysReg, Type, Value,
};

/// How many functions each comparison runs over.
pub(crate) const FUNCTIONS: u64 = 10_000;

/// The function of `seed`, in SSA form: arithmetic, comparisons, tuples, guarded definitions, loads, lane-dependent and
/// warp-wide operations, block parameters.
pub(crate) fn function(seed: u64) -> Function {
    let graph = graph(seed);
    let mut random = Random::new(seed ^ 0xf00d);
    let kind = [FunctionKind::Entry, FunctionKind::Device][random.below(2)];
    let mut function = Function::new(
        "generated",
        kind,
        Level::Abstract,
        orias_sass::Target::DEFAULT,
    );
    for _ in graph.blocks() {
        function.append_block();
    }
    let walk = DepthFirst::new(&graph);
    let tree = DominatorTree::new(&graph, &walk);
    let mut filler = Filler {
        function: &mut function,
        random: &mut random,
        here: Vec::new(),
    };
    // What can be read at the end of each block.
    let mut at_end: Vec<Vec<Value>> = vec![Vec::new(); graph.block_count()];
    let unreachable = graph.blocks().filter(|&block| !walk.is_reachable(block));
    for block in tree.preorder().chain(unreachable).collect::<Vec<_>>() {
        filler.here = tree
            .immediate_dominator(block)
            .map_or(Vec::new(), |above| at_end[above.index()].clone());
        filler.fill(block, kind == FunctionKind::Entry && block == graph.entry());
        at_end[block.index()] = std::mem::take(&mut filler.here);
    }
    for block in graph.blocks() {
        filler.here = std::mem::take(&mut at_end[block.index()]);
        filler.end(block, graph.succs(block));
    }
    function
}

/// The function of `seed` in SSA form, on one of two levels: one of [`function`]'s, or one with operations from all over the tables.
pub(crate) fn any_function(seed: u64) -> Function {
    const SIZE: Size = Size {
        blocks: 8,
        insts: 4,
    };
    match seed % 4 {
        0 | 1 => function(seed),
        2 => generated::function(seed, Level::Abstract, SIZE),
        _ => generated::function(seed, Level::Machine, SIZE),
    }
}

/// The function of `seed` after allocation: one of [`physical_function`]'s, or one with operations from all over the tables.
pub(crate) fn any_physical_function(seed: u64) -> Function {
    const SIZE: Size = Size {
        blocks: 6,
        insts: 4,
    };
    match seed % 4 {
        0 | 1 => physical_function(seed),
        2 => generated::function(seed, Level::Physical, SIZE),
        _ => generated::function(seed, Level::Final, SIZE),
    }
}

struct Filler<'a> {
    function: &'a mut Function,
    random: &'a mut Random,
    /// The values that can be read.
    here: Vec<Value>,
}

impl Filler<'_> {
    fn fill(&mut self, block: Block, without_params: bool) {
        for _ in 0..if without_params {
            0
        } else {
            self.random.below(3)
        } {
            let ty = [Type::R, Type::R, Type::P, Type::R2][self.random.below(4)];
            let param = self.function.append_block_param(block, ty);
            self.here.push(param);
        }
        for _ in 0..self.random.below(5) {
            self.instruction(block);
        }
    }

    fn instruction(&mut self, block: Block) {
        let random = self.random.below(12);
        let (op, mods, results): (_, _, &[Type]) = match random {
            0 => (
                AbstractOp::Sreg,
                with(AbstractOp::Sreg, Special::TidX),
                &[Type::R],
            ),
            1 => (
                AbstractOp::Sreg,
                with(AbstractOp::Sreg, Special::CtaidX),
                &[Type::R],
            ),
            2 => (AbstractOp::Collect, AbstractMods::NONE, &[Type::R2]),
            3 => (AbstractOp::Split, AbstractMods::NONE, &[Type::R, Type::R]),
            4 => (AbstractOp::Ballot, AbstractMods::NONE, &[Type::R]),
            5 => (AbstractOp::Elect, AbstractMods::NONE, &[Type::R, Type::P]),
            6 | 7 => (
                AbstractOp::Setp,
                with(AbstractOp::Setp, Scalar::U32),
                &[Type::P, Type::P],
            ),
            8 => (
                AbstractOp::Ld,
                with(AbstractOp::Ld, Space::Global),
                &[Type::R],
            ),
            _ => (
                AbstractOp::Add,
                with(AbstractOp::Add, Scalar::U32),
                &[Type::R],
            ),
        };
        let sources: Vec<Operand> = match op {
            AbstractOp::Sreg => Vec::new(),
            AbstractOp::Collect => vec![self.read(block, Type::R), self.read(block, Type::R)],
            AbstractOp::Split => vec![self.read(block, Type::R2)],
            AbstractOp::Ballot => vec![self.read(block, Type::P), self.read(block, Type::R)],
            AbstractOp::Elect => vec![self.read(block, Type::R)],
            AbstractOp::Setp => vec![
                self.read(block, Type::R),
                self.read(block, Type::R),
                Operand::None,
            ],
            AbstractOp::Ld => {
                let base = self.read(block, Type::R2).as_value().expect("a value");
                vec![
                    self.function.create_address(Address::base(base, 4)),
                    Operand::None,
                ]
            }
            _ => vec![self.read(block, Type::R), self.read(block, Type::R)],
        };
        let guard = self.random.chance(25).then(|| self.read(block, Type::P));
        let kept: Vec<Operand> = match guard {
            Some(_) => results.iter().map(|&ty| self.read(block, ty)).collect(),
            None => Vec::new(),
        };
        let mut operands: Vec<Operand> = Vec::new();
        for (index, &ty) in results.iter().enumerate() {
            // An optional result is left out at times.
            let optional =
                op == AbstractOp::Setp && index == 1 || op == AbstractOp::Elect && index == 0;
            let left_out = optional && guard.is_none() && self.random.chance(50);
            let result = (!left_out).then(|| self.function.create_value(ty));
            self.here.extend(result);
            operands.push(result.map_or(Operand::None, Operand::value));
        }
        operands.extend(sources);
        let inst = self
            .function
            .create_abstract(op, mods, results.len(), &operands);
        if let Some(Operand::Reg { reg, .. }) = guard {
            let negated = self.random.chance(50);
            self.function.set_guard(
                inst,
                if negated {
                    Guard::unless(reg)
                } else {
                    Guard::when(reg)
                },
            );
            self.function.set_kept(inst, &kept);
        }
        self.function.layout.append_inst(inst, block);
    }

    /// A value of type `ty`, made here if there is none to read.
    fn read(&mut self, block: Block, ty: Type) -> Operand {
        let fit: Vec<Value> = self
            .here
            .iter()
            .copied()
            .filter(|&value| self.function.value_type(value) == ty)
            .collect();
        let value = match fit.is_empty() {
            true => {
                let value = self.function.create_value(ty);
                let operands = [Operand::value(value)];
                let inst = self.function.create_abstract(
                    AbstractOp::Undef,
                    AbstractMods::NONE,
                    1,
                    &operands,
                );
                self.function.layout.append_inst(inst, block);
                self.here.push(value);
                value
            }
            false => fit[self.random.below(fit.len())],
        };
        Operand::value(value)
    }

    fn end(&mut self, block: Block, succs: &[Block]) {
        let condition = match succs.len() {
            0 | 1 => None,
            2 => Some(self.read(block, Type::P)),
            _ => Some(self.read(block, Type::R)),
        };
        let edges: Vec<Edge> = succs
            .iter()
            .map(|&to| {
                let types: Vec<Type> = self
                    .function
                    .block_params(to)
                    .iter()
                    .map(|&param| self.function.value_type(param))
                    .collect();
                let args: Vec<Value> = types
                    .into_iter()
                    .map(|ty| self.read(block, ty).as_value().expect("a value"))
                    .collect();
                self.function.create_edge(to, &args)
            })
            .collect();
        let op = match succs.len() {
            0 => AbstractOp::Exit,
            1 => AbstractOp::Br,
            2 => AbstractOp::CondBr,
            _ => AbstractOp::Switch,
        };
        let operands: Vec<Operand> = condition.into_iter().collect();
        let inst = self
            .function
            .create_abstract(op, AbstractMods::NONE, 0, &operands);
        self.function.set_edges(inst, &edges);
        self.function.layout.append_inst(inst, block);
    }
}

fn with<M: Modifier>(op: AbstractOp, value: M) -> AbstractMods {
    let row = op.row();
    let mods = row
        .with_modifier(AbstractMods::NONE, value)
        .expect("the row has it");
    match op {
        AbstractOp::Ld => row
            .with_modifier(mods, Scalar::B32)
            .and_then(|mods| row.with_modifier(mods, Vector::V1))
            .expect("the row has it"),
        _ => mods,
    }
}

/// The function of `seed` on physical registers: copies of tuples, guarded at times, with implicit uses and definitions.
fn physical_function(seed: u64) -> Function {
    let graph: FlowGraph = graph(seed);
    let mut random = Random::new(seed ^ 0xfeed);
    let mut function = Function::new(
        "generated",
        FunctionKind::Entry,
        Level::Physical,
        orias_sass::Target::DEFAULT,
    );
    for _ in graph.blocks() {
        function.append_block();
    }
    let register = |random: &mut Random| {
        let (class, len) = [
            (Class::R, 1),
            (Class::R, 2),
            (Class::R, 4),
            (Class::UR, 1),
            (Class::P, 1),
            (Class::UP, 1),
            (Class::B, 1),
        ][random.below(7)];
        let index = random.below(2) as u8 * len;
        let constant = class.constant().filter(|_| random.chance(15));
        constant
            .or(PhysReg::tuple(class, index, len))
            .expect("a register")
    };
    let guard = |random: &mut Random, function: &mut Function, inst: Inst| {
        if random.chance(30) {
            function.set_guard(
                inst,
                Guard::when(PhysReg::new(Class::P, 1).expect("a predicate")),
            );
        }
    };
    for block in graph.blocks() {
        for _ in 0..random.below(4) {
            let operands = [
                Operand::from(register(&mut random)),
                Operand::from(register(&mut random)),
            ];
            let inst =
                function.create_abstract(AbstractOp::ParCopy, AbstractMods::NONE, 1, &operands);
            guard(&mut random, &mut function, inst);
            if random.chance(20) {
                let read = Operand::from(register(&mut random));
                let written = Operand::from(register(&mut random));
                function.set_implicit(inst, &[read], &[written]);
            }
            function.layout.append_inst(inst, block);
        }
        let edges: Vec<Edge> = graph
            .succs(block)
            .iter()
            .map(|&to| function.create_edge(to, &[]))
            .collect();
        let op = match edges.len() {
            0 => AbstractOp::Exit,
            1 => AbstractOp::Br,
            _ => AbstractOp::Switch,
        };
        let read = Operand::from(register(&mut random));
        let operands: &[Operand] = if edges.len() > 1 { &[read] } else { &[] };
        let inst = function.create_abstract(op, AbstractMods::NONE, 0, operands);
        function.set_edges(inst, &edges);
        function.layout.append_inst(inst, block);
    }
    function
}
