//! Where a pipeline of warp-group products lacks a fence or a wait, and why.
//!
//! PTX asks for `wgmma.fence` between what touches registers and the product that takes them, and for `wgmma.wait_group` between a product and what touches
//! its results. What is missing is put in once registers are known (`phases::warpgroup`); this analysis says so in terms of the source, on lowered code, where moves
//! of PTX are no instructions any more and a value has one definition.
//!
//! **Waits.** Forward over the flow graph: the products that may be under way, each with the number of groups that have ended since (its age), itself included.
//! `wgmma_wait n` ends those of more than `n`. Who reads a result of a product under way makes the warp wait for it; so does a product that takes part of such a result together
//! with other registers, since it needs all of them in a row. A product that takes exactly what another has made goes on in place. A call may move any register.
//!
//! **Fences.** A value that no product made, and that was made behind the last fence on some way to the product that takes it from a register.
//! Which blocks' ends reach a block without a fence is looked up, backwards, for blocks that take registers before their first fence.
//!
//! Cost: instructions times products under way, and operands of products times the block parameters they come through; a walk over the blocks for each block that looks back.
//! Functions without products cost one walk.

use crate::tail::returns;
use cranelift_entity::EntitySet;
use orias_ori::analysis::{DefUse, DepthFirst, Divergence, FlowGraph, LoopNest};
use orias_ori::operation::AbstractOp;
use orias_ori::{Block, Function, Inst, Operand, Value, ValueDef};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Which operand of a product a register belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// The accumulator.
    Sum,
    /// A, where it is in registers.
    Left,
}

/// A register of a product, by its place in the operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Taken {
    /// The line of the product in the PTX; 0 if unknown.
    pub product: u32,
    /// The operand.
    pub part: Part,
    /// The place of the register in the operand.
    pub place: usize,
}

/// What the compiler adds, and why.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Remark {
    /// A fence before a product: this register was made, at line `made`, behind the last one.
    Fence {
        /// What was touched.
        register: Taken,
        /// The line at which it was made; 0 if unknown.
        made: u32,
        /// Whether only part of a warp may come there.
        parted: bool,
    },
    /// A wait before the instruction at line `reader`, which touches what a product works on.
    Wait {
        /// What is touched.
        register: Taken,
        /// The line that touches it.
        reader: u32,
        /// Whether a wait stands between the two that leaves the product's group under way.
        waits_for_fewer: bool,
        /// Whether `reader` is a product that takes part of the registers along with others.
        mixes: bool,
    },
    /// A wait before a call.
    Call {
        /// The line of a product under way.
        product: u32,
        /// The line of the call.
        call: u32,
        /// Whether the function called is not part of the module.
        external: bool,
    },
}

/// Everything that is missing in the pipelines of `func`, in the order of lines. `is_defined` says whether a function belongs to the module.
pub fn pipeline_remarks(func: &Function, is_defined: &dyn Fn(&str) -> bool) -> Vec<Remark> {
    let is_product = |inst| {
        matches!(
            func.opcode(inst).as_abstract(),
            Some(AbstractOp::Wgmma | AbstractOp::WgmmaSparse)
        )
    };
    let mut all = func.blocks().flat_map(|block| func.block_insts(block));
    if !all.any(is_product) {
        return Vec::new();
    }
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let mut finder = Finder {
        func,
        arguments: arguments(func),
        is_defined,
        found: Vec::new(),
        origins: RefCell::default(),
    };
    finder.find_waits(&graph, &walk);
    finder.find_fences(&graph, &walk);
    let mut found = finder.found;
    found.sort_unstable();
    found.dedup();
    found
}

/// The values that come to each block parameter.
fn arguments(func: &Function) -> FxHashMap<Value, Vec<Value>> {
    let mut arguments: FxHashMap<Value, Vec<Value>> = FxHashMap::default();
    for block in func.blocks() {
        for &edge in func.successor_edges(block) {
            let params = func.block_params(func.edge_target(edge));
            for (&param, &argument) in params.iter().zip(func.edge_args(edge)) {
                arguments.entry(param).or_default().push(argument);
            }
        }
    }
    arguments
}

/// One register of a value: the value and the place in it.
type Unit = (Value, usize);

/// A product under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flight {
    /// How many groups have ended since it began, its own included.
    age: u8,
    /// Whether a wait that was not for it stands behind it on some way.
    passed_wait: bool,
}

type State = BTreeMap<Inst, Flight>;

/// The source of a product that says whether its accumulator takes part.
const SCALE: usize = 4;

/// Groups that are older are all alike.
const OLDEST: u8 = 8;

struct Finder<'f> {
    func: &'f Function,
    arguments: FxHashMap<Value, Vec<Value>>,
    is_defined: &'f dyn Fn(&str) -> bool,
    found: Vec<Remark>,
    /// By register: where it was made, once somebody asked.
    origins: RefCell<FxHashMap<Unit, Origins>>,
}

/// The instructions that made a register, each with the register it defined.
type Origins = Rc<[(Inst, Unit)]>;

impl Finder<'_> {
    fn op(&self, inst: Inst) -> Option<AbstractOp> {
        self.func.opcode(inst).as_abstract()
    }

    fn is_product(&self, inst: Inst) -> bool {
        matches!(
            self.op(inst),
            Some(AbstractOp::Wgmma | AbstractOp::WgmmaSparse)
        )
    }

    /// The line of the PTX that `inst` comes from.
    fn line(&self, inst: Inst) -> u32 {
        let span = self.func.inst(inst).span();
        span.map_or(0, |span| self.func.locations[span].ptx)
    }

    /// Whether `inst` only gives registers other names.
    fn only_renames(&self, inst: Inst) -> bool {
        let moves = matches!(
            self.op(inst),
            Some(AbstractOp::Collect | AbstractOp::Split | AbstractOp::Mov)
        );
        moves && self.func.inst(inst).guard().is_always()
    }

    /// Where a register was really made: registers that instructions define, seen through moves, tuples and block parameters.
    fn origins(&self, unit: Unit) -> Origins {
        if let Some(known) = self.origins.borrow().get(&unit) {
            return Rc::clone(known);
        }
        let found = self.find_origins(unit);
        self.origins.borrow_mut().insert(unit, Rc::clone(&found));
        found
    }

    fn find_origins(&self, unit: Unit) -> Origins {
        // Nearly all registers are made by one instruction.
        if let ValueDef::Inst(inst, index) = self.func.value_def(unit.0)
            && self.renamed(inst, usize::from(index), unit.1).is_none()
        {
            return Rc::new([(inst, unit)]);
        }
        let mut seen = FxHashSet::default();
        let mut open = vec![unit];
        let mut found = Vec::new();
        while let Some((value, place)) = open.pop() {
            if !seen.insert((value, place)) {
                continue;
            }
            match self.func.value_def(value) {
                ValueDef::None => {}
                ValueDef::Param(..) => {
                    let arguments = self.arguments.get(&value).into_iter().flatten();
                    open.extend(arguments.map(|&argument| (argument, place)));
                }
                ValueDef::Inst(inst, index) => {
                    match self.renamed(inst, usize::from(index), place) {
                        Some(source) => open.push(source),
                        None => found.push((inst, (value, place))),
                    }
                }
            }
        }
        found.sort_unstable();
        found.into()
    }

    /// The register that result `index` of `inst` is another name of, at `place`.
    fn renamed(&self, inst: Inst, index: usize, place: usize) -> Option<Unit> {
        if !self.only_renames(inst) {
            return None;
        }
        let operands = self.func.operands(inst);
        let results = self.func.result_count(inst);
        let length = |operand: &Operand| {
            let value = operand.as_value();
            value.map_or(1, |value| usize::from(self.func.value_type(value).len()))
        };
        match self.op(inst)? {
            AbstractOp::Mov => Some((operands.get(results)?.as_value()?, place)),
            AbstractOp::Split => {
                let before: usize = operands[..index].iter().map(length).sum();
                Some((operands.get(results)?.as_value()?, before + place))
            }
            _ => {
                let mut rest = place;
                for part in &operands[results..] {
                    if rest < length(part) {
                        return Some((part.as_value()?, rest));
                    }
                    rest -= length(part);
                }
                None
            }
        }
    }

    /// The registers of an operand of a product.
    fn units(&self, inst: Inst, source: usize) -> Vec<Unit> {
        let results = self.func.result_count(inst);
        let operand = self.func.operands(inst).get(results + source);
        let Some(value) = operand.and_then(|operand| operand.as_value()) else {
            return Vec::new();
        };
        let length = usize::from(self.func.value_type(value).len());
        (0..length).map(|place| (value, place)).collect()
    }

    /// Whether a product starts from zero, whatever its accumulator holds.
    fn starts_from_zero(&self, inst: Inst) -> bool {
        let scale = self
            .func
            .operands(inst)
            .get(self.func.result_count(inst) + SCALE);
        matches!(scale, Some(Operand::Imm(scale)) if scale.bits() == 0)
    }

    /// What a product takes from registers.
    fn taken(&self, inst: Inst) -> Vec<(Part, usize, Unit)> {
        let sums = self.units(inst, 0).into_iter();
        let left = self.units(inst, 1);
        // A descriptor has two words, A has four.
        let left = if left.len() == 4 { left } else { Vec::new() };
        let sums = sums.enumerate().map(|(at, unit)| (Part::Sum, at, unit));
        let left = left.into_iter().enumerate();
        sums.chain(left.map(|(at, unit)| (Part::Left, at, unit)))
            .collect()
    }

    // Waits.

    fn find_waits(&mut self, graph: &FlowGraph, walk: &DepthFirst) {
        let order: Vec<Block> = walk.postorder().iter().rev().copied().collect();
        let mut starts: Vec<Option<State>> = vec![None; graph.block_count()];
        if let Some(&entry) = order.first() {
            starts[entry.as_u32() as usize] = Some(State::new());
        }
        let mut again = true;
        while again {
            again = false;
            self.found.clear();
            for &block in &order {
                let Some(mut state) = starts[block.as_u32() as usize].clone() else {
                    continue;
                };
                self.pass(block, &mut state);
                for &next in graph.succs(block) {
                    let start = &mut starts[next.as_u32() as usize];
                    let changed = match start {
                        Some(start) => join(start, &state),
                        None => {
                            *start = Some(state.clone());
                            true
                        }
                    };
                    again |= changed;
                }
            }
        }
    }

    /// Takes the state from the start of a block to its end, as if what is missing were there.
    fn pass(&mut self, block: Block, state: &mut State) {
        let func = self.func;
        for inst in func.block_insts(block) {
            match self.op(inst) {
                Some(AbstractOp::Wgmma | AbstractOp::WgmmaSparse) => {
                    self.pass_product(inst, state);
                    let flight = Flight {
                        age: 0,
                        passed_wait: false,
                    };
                    state.insert(inst, flight);
                }
                Some(AbstractOp::WgmmaCommit) => {
                    for flight in state.values_mut() {
                        flight.age = (flight.age + 1).min(OLDEST);
                    }
                }
                Some(AbstractOp::WgmmaWait) => {
                    let groups = match func.operands(inst).first() {
                        Some(Operand::Imm(groups)) => groups.bits(),
                        _ => 0,
                    };
                    state.retain(|_, flight| u64::from(flight.age) <= groups);
                    for flight in state.values_mut() {
                        flight.passed_wait = true;
                    }
                }
                Some(AbstractOp::Call) => self.pass_call(inst, state),
                _ if self.only_renames(inst) => {}
                _ => {
                    // What a branch hands on is only named anew.
                    let mut read = Vec::new();
                    func.for_each_own_use(inst, |reg| read.extend(reg.value()));
                    for value in read {
                        let length = usize::from(func.value_type(value).len());
                        for place in 0..length {
                            self.touch(inst, (value, place), false, state);
                        }
                    }
                }
            }
        }
    }

    /// A product goes on in place with what exactly one other made, and must wait for it otherwise.
    fn pass_product(&mut self, inst: Inst, state: &mut State) {
        if state.is_empty() {
            return;
        }
        let sums = self.units(inst, 0);
        let in_place = sums.iter().enumerate().all(|(at, &unit)| {
            let origins = self.origins(unit);
            origins.iter().all(|&(maker, (made, place))| {
                let length = usize::from(self.func.value_type(made).len());
                !state.contains_key(&maker) || place == at && length == sums.len()
            })
        });
        // One element that no product under way made, and one that a product did, cannot stand in a row yet.
        let from_flight = |unit: Unit| {
            let origins = self.origins(unit);
            origins.iter().any(|(maker, _)| state.contains_key(maker))
        };
        let some = sums.iter().any(|&unit| from_flight(unit));
        let all = sums.iter().all(|&unit| from_flight(unit));
        if some && !(all && in_place) {
            for unit in sums {
                self.touch(inst, unit, true, state);
            }
        }
        let left = self.taken(inst);
        for (_, _, unit) in left.into_iter().filter(|it| it.0 == Part::Left) {
            self.touch(inst, unit, false, state);
        }
    }

    fn pass_call(&mut self, inst: Inst, state: &mut State) {
        // Nothing runs behind a call that does not come back.
        if !returns(self.func, inst) {
            return;
        }
        let Some((&product, _)) = state.iter().next() else {
            return;
        };
        let callee = self
            .func
            .operands(inst)
            .iter()
            .find_map(|operand| match operand {
                Operand::Symbol { symbol, .. } => Some(self.func.symbol_name(*symbol)),
                _ => None,
            });
        self.found.push(Remark::Call {
            product: self.line(product),
            call: self.line(inst),
            external: !callee.is_none_or(|name| (self.is_defined)(name)),
        });
        state.clear();
    }

    /// `inst` touches a register: if a product under way made it, that product is waited for.
    fn touch(&mut self, inst: Inst, unit: Unit, mixes: bool, state: &mut State) {
        if state.is_empty() {
            return;
        }
        for &(maker, (_, place)) in self.origins(unit).iter() {
            let Some(&flight) = state.get(&maker) else {
                continue;
            };
            self.found.push(Remark::Wait {
                register: Taken {
                    product: self.line(maker),
                    part: Part::Sum,
                    place,
                },
                reader: self.line(inst),
                waits_for_fewer: flight.passed_wait,
                mixes,
            });
            let age = flight.age;
            state.retain(|_, flight| flight.age < age);
        }
    }

    // Fences.

    fn find_fences(&mut self, graph: &FlowGraph, walk: &DepthFirst) {
        let func = self.func;
        let order: Vec<Block> = walk.postorder().iter().rev().copied().collect();
        let mut places: FxHashMap<Inst, (Block, usize)> = FxHashMap::default();
        let mut last_fence: Vec<Option<usize>> = vec![None; graph.block_count()];
        for &block in &order {
            for (at, inst) in func.block_insts(block).enumerate() {
                places.insert(inst, (block, at));
                if self.op(inst) == Some(AbstractOp::WgmmaFence) {
                    last_fence[block.as_u32() as usize] = Some(at);
                }
            }
        }
        let mut parted: Option<Divergence> = None;
        for &block in &order {
            let mut fence: Option<usize> = None;
            let reaching = OnceCell::new();
            let reaching = || reaching.get_or_init(|| reaching_without(graph, &last_fence, block));
            for (at, inst) in func.block_insts(block).enumerate() {
                if self.op(inst) == Some(AbstractOp::WgmmaFence) {
                    fence = Some(at);
                }
                if !self.is_product(inst) {
                    continue;
                }
                let fresh = |maker: Inst| {
                    let Some(&(home, made)) = places.get(&maker) else {
                        return false;
                    };
                    let from_here =
                        home == block && made < at && fence.is_none_or(|fence| made > fence);
                    let behind =
                        last_fence[home.as_u32() as usize].is_none_or(|fence| made > fence);
                    let from_before = fence.is_none() && behind && reaching().contains(home);
                    from_here || from_before
                };
                // Registers it only writes need a fence before the first product, and none after that.
                let entry = graph.entry();
                let never = fence.is_none()
                    && (block == entry
                        || last_fence[entry.as_u32() as usize].is_none()
                            && reaching().contains(entry));
                let only_writes = self.starts_from_zero(inst) && !never;
                let taken = self.taken(inst).into_iter();
                let mut taken = taken.filter(|it| it.0 != Part::Sum || !only_writes);
                let touched = taken.find_map(|(part, place, unit)| {
                    let origins = self.origins(unit);
                    let mut makers = origins.iter().map(|&(maker, _)| maker);
                    let maker = makers.find(|&maker| !self.is_product(maker) && fresh(maker))?;
                    Some((part, place, maker))
                });
                if let Some((part, place, maker)) = touched {
                    let divergence = parted.get_or_insert_with(|| {
                        let nest = LoopNest::new(graph, walk);
                        Divergence::new(func, graph, walk, &nest, &DefUse::new(func))
                    });
                    self.found.push(Remark::Fence {
                        register: Taken {
                            product: self.line(inst),
                            part,
                            place,
                        },
                        made: self.line(maker),
                        parted: divergence.is_partial(block),
                    });
                    // What it adds serves the products behind it, too.
                    fence = Some(at);
                }
            }
        }
    }
}

/// Adds what comes along another way; returns whether anything changed.
fn join(state: &mut State, other: &State) -> bool {
    let mut changed = false;
    for (&inst, &flight) in other {
        let mine = state.entry(inst).or_insert_with(|| {
            changed = true;
            flight
        });
        let joined = Flight {
            age: mine.age.min(flight.age),
            passed_wait: mine.passed_wait || flight.passed_wait,
        };
        changed |= *mine != joined;
        *mine = joined;
    }
    changed
}

/// The blocks from whose ends the start of `block` is reached without a fence.
fn reaching_without(
    graph: &FlowGraph,
    last_fence: &[Option<usize>],
    block: Block,
) -> EntitySet<Block> {
    let mut reaching = EntitySet::new();
    let mut open = vec![block];
    while let Some(block) = open.pop() {
        for &before in graph.preds(block) {
            if reaching.insert(before) && last_fence[before.as_u32() as usize].is_none() {
                open.push(before);
            }
        }
    }
    reaching
}
