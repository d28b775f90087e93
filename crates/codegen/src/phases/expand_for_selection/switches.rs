//! Switches: `brx` becomes a test of bits, a tree of comparisons, or stays as a jump through a table, whichever is done soonest.
//!
//! Neighbouring numbers that go the same way are one *run*. What a warp waits for is known from the machine's tables:
//!
//! - **Bits**: where there are two ways in all and no number is above 31, the bit of a constant that the number names says which. One shift, one test, one branch.
//! - **Tree**: each inner node is a comparison whose predicate guards a branch. Lanes that agree go down one path, as long as the logarithm of
//!   the number of runs; lanes that do not agree go through every node, one after the other.
//! - **Table**: an address, a load from the constant bank, a branch. All lanes do it at once, and part only then.
//!
//! Where costs are the same the tree stays, as it takes no room in the constant cache. A bank holds a table of so many ways only ([`LARGEST`]). Linear in the number of ways.

use super::refused;
use crate::knobs::registry;
use crate::module::POINTER_BYTES;
use crate::pipeline::{Context, PhaseError};
use orias_machine::Machine;
use orias_machine::timing::{Arrival, Place, Result as Written, Use};
use orias_ori::analysis::{DefUse, DepthFirst, Divergence, FlowGraph, LoopNest};
use orias_ori::builder::Cursor;
use orias_ori::operation::{Combine, Compare, Scalar};
use orias_ori::{AbstractOp, Block, Function, Inst, Operand, Span, Value};
use orias_sass::{Mods, Op, RegisterClass};

/// The most ways of a table: half of what a constant bank can hold, for there may be more tables, and pointers to functions.
const LARGEST: usize = 64 * 1024 / 2 / POINTER_BYTES as usize;

/// Bits of a word: one for each number.
const BITS: usize = 32;

/// Where a number leads.
pub(in crate::phases) type Destination = (Block, Vec<Value>);

/// Numbers in a row that lead to the same place.
struct Run {
    /// The first one.
    first: usize,
    way: Destination,
}

/// How a switch is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lowering {
    Bits,
    Tree,
    Table,
}

/// Lowers all switches of `func` that are not to be jumps through tables. The others stay as they are.
pub(super) fn expand(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let is_switch =
        |&(_, inst): &(Block, Inst)| func.opcode(inst).as_abstract() == Some(AbstractOp::Switch);
    let terminators = func.blocks();
    let switches: Vec<(Block, Inst)> = terminators
        .filter_map(|block| Some((block, func.terminator(block)?)))
        .filter(is_switch)
        .collect();
    if switches.is_empty() {
        return Ok(());
    }
    let agreeing: Vec<bool> = {
        let graph = FlowGraph::of(func);
        let walk = DepthFirst::new(&graph);
        let nest = LoopNest::new(&graph, &walk);
        let divergence = Divergence::new(func, &graph, &walk, &nest, &DefUse::new(func));
        let agree = |&(block, inst): &(Block, Inst)| match func.operands(inst)[0].as_value() {
            Some(index) => {
                walk.is_reachable(block) && divergence.is_uniform_at(index, block, &nest)
            }
            None => true,
        };
        switches.iter().map(agree).collect()
    };
    let costs = SwitchCosts::of(context.machine);
    let bits = context.knobs.bool(&registry::SWITCH_BIT_TESTS);
    // The bank of a table is a kernel's; whose a linked function is, is not known.
    let tables = context.knobs.bool(&registry::JUMP_TABLES) && !func.attributes.relocatable;
    for ((block, inst), agree) in switches.into_iter().zip(agreeing) {
        let runs = runs(func, inst);
        let count = func.edges(inst).len();
        let ways: Vec<&Destination> = runs.iter().map(|run| &run.way).collect();
        match costs.choose(&ways, count, agree, bits, tables).0 {
            Lowering::Bits => test_bits(func, block, inst, &runs)?,
            Lowering::Tree => compare(func, block, inst, &runs)?,
            Lowering::Table => {}
        }
    }
    Ok(())
}

fn runs(func: &Function, inst: Inst) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (first, &edge) in func.edges(inst).iter().enumerate() {
        let (block, args) = (func.edge_target(edge), func.edge_args(edge));
        if runs
            .last()
            .is_none_or(|run| run.way.0 != block || run.way.1 != args)
        {
            runs.push(Run {
                first,
                way: (block, args.to_vec()),
            });
        }
    }
    runs
}

/// Cycles that a warp waits.
pub(in crate::phases) struct SwitchCosts {
    /// For a comparison and the branch it guards.
    pub(in crate::phases) comparison: u32,
    /// For a shift and a test of its result before that branch.
    bit: u32,
    /// For an address, what the table has there, and the branch to it.
    table: u32,
}

impl SwitchCosts {
    pub(in crate::phases) fn of(machine: &Machine) -> SwitchCosts {
        let expected = |op: Op| {
            let timing = machine.timing(op);
            let cycles = timing.and_then(|timing| timing.expected.or(timing.typical));
            cycles.map_or(1, |cycles| u32::from(cycles.cycles))
        };
        let guard = guard_latency(machine).unwrap_or_else(|| expected(Op::ISETP));
        let branch = expected(Op::BRA);
        SwitchCosts {
            comparison: guard + branch,
            bit: expected(Op::SHF) + guard + branch,
            table: expected(Op::LEA) + expected(Op::LDC) + expected(Op::BRX),
        }
    }

    /// What a switch costs of `count` numbers, whose runs lead to `ways`, where lanes agree on the number or do not.
    pub(in crate::phases) fn switch(
        &self,
        ways: &[&Destination],
        count: usize,
        agree: bool,
    ) -> u32 {
        self.choose(ways, count, agree, true, true).1
    }

    /// The lowering that a warp is done with first, and when.
    fn choose(
        &self,
        ways: &[&Destination],
        count: usize,
        agree: bool,
        bits: bool,
        tables: bool,
    ) -> (Lowering, u32) {
        let nodes = ways.len() as u32 - 1;
        let depth = u32::BITS - nodes.leading_zeros();
        let tree = self.comparison * if agree { depth } else { nodes };
        let two_ways = ways.len() > 2
            && count <= BITS
            && (ways.iter().enumerate()).all(|(index, &way)| way == ways[index % 2]);
        if bits && two_ways && self.bit < tree {
            return (Lowering::Bits, self.bit);
        }
        match tables && count <= LARGEST && self.table < tree {
            true => (Lowering::Table, self.table),
            false => (Lowering::Tree, tree),
        }
    }
}

/// Cycles from a comparison to a branch under its predicate.
fn guard_latency(machine: &Machine) -> Option<u32> {
    let mods = Mods::default();
    let (class, place) = (RegisterClass::P, Place::Slot(0));
    let offset = 0;
    let result = Written {
        op: Op::ISETP,
        mods,
        place,
        class,
        offset,
    };
    let used = Use {
        op: Op::BRA,
        mods,
        place: Place::Guard,
        class,
        offset,
    };
    match machine.arrival(&result)? {
        Arrival::Fixed(group) => {
            let latency = machine.latency(group, machine.use_group(&used)?);
            Some(u32::from(latency.cycles))
        }
        _ => None,
    }
}

/// Branches on the bit that the number names of a constant.
fn test_bits(
    func: &mut Function,
    block: Block,
    inst: Inst,
    runs: &[Run],
) -> Result<(), PhaseError> {
    let index = func.operands(inst)[0];
    let count = func.edges(inst).len();
    let mask = (1..runs.len()).step_by(2).fold(0u64, |mask, odd| {
        let end = runs.get(odd + 1).map_or(count, |next| next.first);
        mask | ((1 << end) - (1 << runs[odd].first))
    });
    let span = func.inst(inst).span();
    func.remove_inst(inst);
    let mut cursor = Cursor::at_end(func, block);
    cursor.set_span(span);
    let shifted = cursor
        .build(AbstractOp::Shr)
        .with(Scalar::U32)
        .imm(mask)
        .operand(index)
        .value()
        .map_err(refused)?;
    let bit = cursor
        .build(AbstractOp::And)
        .with(Scalar::B32)
        .operand(shifted)
        .imm(1)
        .value()
        .map_err(refused)?;
    let odd = cursor
        .build(AbstractOp::Setp)
        .with(Compare::Ne)
        .with(Combine::None)
        .with(Scalar::U32)
        .operand(bit)
        .imm(0)
        .value()
        .map_err(refused)?;
    cursor
        .build(AbstractOp::CondBr)
        .operand(odd)
        .edge(runs[1].way.0, &runs[1].way.1)
        .edge(runs[0].way.0, &runs[0].way.1)
        .finish()
        .map_err(refused)?;
    Ok(())
}

/// A tree of comparisons with the middle of what is left.
fn compare(func: &mut Function, block: Block, inst: Inst, runs: &[Run]) -> Result<(), PhaseError> {
    let index = func.operands(inst)[0];
    let span = func.inst(inst).span();
    func.remove_inst(inst);
    // (block to fill, first run, one past the last)
    let mut pending = vec![(block, 0, runs.len())];
    while let Some((at, first, end)) = pending.pop() {
        if end - first == 1 {
            let (block, args) = &runs[first].way;
            let mut cursor = Cursor::at_end(func, at);
            cursor.set_span(span);
            cursor
                .build(AbstractOp::Br)
                .edge(*block, args)
                .finish()
                .map_err(refused)?;
            continue;
        }
        let middle = first + (end - first) / 2;
        let below = func.create_block();
        let above = func.create_block();
        func.layout.insert_block_after(above, at);
        func.layout.insert_block_after(below, at);
        branch_below(func, at, index, span, runs[middle].first, [below, above])?;
        pending.push((below, first, middle));
        pending.push((above, middle, end));
    }
    Ok(())
}

/// Ends `at` with a branch to the first of two blocks where `index` is below `bound`, else to the other.
fn branch_below(
    func: &mut Function,
    at: Block,
    index: Operand,
    span: Option<Span>,
    bound: usize,
    [below, above]: [Block; 2],
) -> Result<(), PhaseError> {
    let mut cursor = Cursor::at_end(func, at);
    cursor.set_span(span);
    let less = cursor
        .build(AbstractOp::Setp)
        .with(Compare::Lt)
        .with(Combine::None)
        .with(Scalar::U32)
        .operand(index)
        .imm(bound as u64)
        .value()
        .map_err(refused)?;
    cursor
        .build(AbstractOp::CondBr)
        .operand(less)
        .edge(below, &[])
        .edge(above, &[])
        .finish()
        .map_err(refused)?;
    Ok(())
}
