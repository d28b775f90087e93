//! The shape of a random function, and the order its blocks are filled in.

use super::{Generator, Size};
use cranelift_entity::SecondaryMap;
use orias_ori::Operand;
use orias_ori::analysis::{DepthFirst, DominatorTree, FlowGraph};
use orias_ori::operation::{AbstractMods, AbstractOp};
use orias_ori::{Block, Value};
use orias_ori::{Class, Type};
use orias_ori::{FunctionKind, Level};

/// How a block ends. Targets are by block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// No successor.
    Stop,
    /// One successor, by a jump or by falling through.
    Go(Block),
    /// Two successors: the first by a jump, the second by falling through.
    Choose(Block, Block),
    /// Any number of successors.
    Switch(Vec<Block>),
}

impl End {
    fn successors(&self) -> Vec<Block> {
        match self {
            End::Stop => Vec::new(),
            End::Go(to) => vec![*to],
            End::Choose(a, b) => vec![*a, *b],
            End::Switch(targets) => targets.clone(),
        }
    }
}

impl Generator {
    pub(super) fn shape_and_fill(&mut self, size: Size) {
        let count = 1 + self.rng.below(size.blocks);
        let blocks: Vec<Block> = (0..count).map(|_| self.func.create_block()).collect();
        // The layout is not the order of the numbers, but the entry comes first.
        let mut order = blocks.clone();
        self.rng.shuffle(&mut order[1..]);
        for &block in &order {
            self.func.layout.append_block(block);
        }
        let ends: Vec<(Block, End)> = order
            .iter()
            .enumerate()
            .map(|(place, &block)| {
                let next = order.get(place + 1).copied();
                (block, self.end(&order, next))
            })
            .collect();
        if self.func.level.is_ssa() {
            self.params(&order);
        }
        let edges: Vec<(Block, Block)> = ends
            .iter()
            .flat_map(|(from, end)| end.successors().into_iter().map(|to| (*from, to)))
            .collect();
        let graph = FlowGraph::from_edges(count, order[0], &edges);
        let walk = DepthFirst::new(&graph);
        let tree = DominatorTree::new(&graph, &walk);
        let mut filled = vec![false; count];
        let mut places: SecondaryMap<Block, Option<usize>> = SecondaryMap::new();
        for (place, (block, _)) in ends.iter().enumerate() {
            places[*block] = Some(place);
        }
        let reachable: Vec<Block> = walk.reverse_postorder().collect();
        for block in reachable.iter().chain(&order) {
            if std::mem::replace(&mut filled[block.as_u32() as usize], true) {
                continue;
            }
            self.dominators[*block] = tree.immediate_dominator(*block);
            if let Some(place) = places[*block] {
                self.fill(*block, &ends[place].1, size);
            }
        }
    }

    /// How a block ends that has `next` after it in the layout. No edge goes to the entry.
    fn end(&mut self, order: &[Block], next: Option<Block>) -> End {
        let targets = &order[1..];
        if targets.is_empty() {
            return End::Stop;
        }
        let jump = *self.rng.pick(targets);
        // In the final order what falls through falls into the next block.
        let fall = if self.func.level == Level::Final {
            next
        } else {
            Some(*self.rng.pick(targets))
        };
        match (self.rng.below(8), fall) {
            (0, _) => End::Stop,
            (1 | 2, _) => End::Go(jump),
            (3, Some(fall)) => End::Go(fall),
            (4, _) => {
                let count = 1 + self.rng.below(4);
                End::Switch((0..count).map(|_| *self.rng.pick(targets)).collect())
            }
            (_, Some(fall)) => End::Choose(jump, fall),
            (_, None) => End::Stop,
        }
    }

    fn params(&mut self, order: &[Block]) {
        for (place, &block) in order.iter().enumerate() {
            if place == 0 && self.func.kind == FunctionKind::Entry {
                continue;
            }
            for _ in 0..self.rng.below(4) {
                let ty = self.block_param_type();
                let value = self.func.append_block_param(block, ty);
                self.values[block].push(value);
            }
        }
        if self.func.kind == FunctionKind::Device {
            for _ in 0..self.rng.below(3) {
                let ty = *self.rng.pick(&[Type::R, Type::R2, Type::P]);
                self.func.results.push(ty);
            }
        }
    }

    fn block_param_type(&mut self) -> Type {
        *self
            .rng
            .pick(&[Type::R, Type::R, Type::R2, Type::R4, Type::P, Type::B])
    }

    fn fill(&mut self, block: Block, end: &End, size: Size) {
        self.block = Some(block);
        for _ in 0..self.rng.below(size.insts + 1) {
            match self.func.level {
                Level::Abstract => self.abstract_inst(),
                Level::Machine if self.rng.one_in(6) => self.generic_inst(),
                Level::Machine | Level::Physical | Level::Final => self.machine_inst(),
            }
        }
        match self.func.level {
            Level::Abstract => self.abstract_end(end),
            Level::Machine | Level::Physical | Level::Final => self.machine_end(end),
        }
    }

    /// Arguments for the parameters of `to`.
    pub(super) fn edge_args(&mut self, to: Block) -> Vec<Value> {
        let params = self.func.block_params(to).to_vec();
        params
            .into_iter()
            .map(|param| {
                let ty = self.func.value_type(param);
                self.pick_value(ty)
            })
            .collect()
    }

    /// Places an abstract terminator that needs no operands of its own besides `operands`.
    pub(super) fn place_abstract_end(
        &mut self,
        op: AbstractOp,
        operands: &[Operand],
        targets: &[Block],
    ) {
        let args: Vec<(Block, Vec<Value>)> =
            targets.iter().map(|&to| (to, self.edge_args(to))).collect();
        let inst = self
            .func
            .create_abstract(op, AbstractMods::NONE, 0, operands);
        let edges: Vec<_> = args
            .iter()
            .map(|(to, args)| self.func.create_edge(*to, args))
            .collect();
        self.func.set_edges(inst, &edges);
        let span = self.span();
        self.func.set_span(inst, span);
        let block = self.current();
        self.func.layout.append_inst(inst, block);
    }

    /// A return with the function's results, if it has a caller.
    pub(super) fn place_return(&mut self) {
        let types = self.func.results.clone();
        let operands: Vec<Operand> = types
            .into_iter()
            .map(|ty| self.pick_value(ty).into())
            .collect();
        self.place_abstract_end(AbstractOp::Ret, &operands, &[]);
    }

    /// A random type of `class`: mostly one register.
    pub(super) fn tuple_type(&mut self, class: Class) -> Type {
        let len = *self.rng.pick(&[1, 1, 1, 2, 2, 3, 4, 4, 8]);
        let len = len.min(class.count());
        Type::tuple(class, len).unwrap_or(Type::single(class))
    }
}
