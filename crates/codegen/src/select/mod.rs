//! Instruction selection: abstract operations become the machine's, on virtual registers of all five classes.
//!
//! **Algorithm.** Blocks are visited in the postorder of a depth-first walk and instructions from last to first, so that
//! everything that reads a value is selected before its definition. What is selected counts what it reads. An instruction
//! whose results nobody has asked for when its turn comes, and which has no effect, goes away; whatever was absorbed by its
//! reader goes away like that, too. So a rule is free to look at how its sources are defined and to take a definition in:
//! always where it costs nothing (constants, parameters, negations: `source`), and where it is the only reading of a value made
//! in the same block (sums of three, products that are added, shifts, logic of three).
//!
//! **Rules.** `RULES` names a function for each abstract operation; the modules hold one family each. A rule says which
//! machine instruction it wants with which operands; `selector` asks the tables whether they have such a form and moves
//! what stands in the way into registers.
//!
//! **Pairs.** 64-bit values are tuples. A rule that needs words asks for them: they are taken from the definition if it
//! tells, else by one `split` right behind it. A rule that makes words says so, and the tuple is put together only if
//! somebody reads it as one.
//!
//! **Guards.** An operation that only computes is computed in all lanes, and its result chosen by the guard. Everything else
//! carries its guard to the machine instruction that has the effect.
//!
//! **Uniform registers** hold the descriptor of global memory, cache policies that are known and the base of shared memory, made once in
//! the entry block of a kernel (the whole warp runs there), results of operations that have no other form, which are copied to a general
//! register at once, and operands that must be there (`uniform`).
//!
//! What it does not do: it moves nothing between blocks, and makes no branches (see `expand` for what needs some).
//!
//! Cost: linear in the number of operands.

mod address;
mod aggregation;
mod arithmetic;
mod arms;
mod atomic;
mod barrier;
mod bits;
mod bulk;
mod carries;
mod compare;
mod control;
mod convert;
mod copy;
mod emission;
mod extremes;
mod fields;
mod float;
mod gathering;
mod half;
mod logic_trees;
mod matrix;
mod mbarrier;
mod memory;
mod multiples;
mod narrowing;
mod products;
mod retries;
pub(crate) mod scattered;
mod selector;
mod shifts;
mod source;
mod special;
mod stack;
mod texture;
mod uniform;
mod waits;
mod warp;
mod warpgroup;
mod wide;

use self::aggregation::Aggregated;
use self::scattered::ScatteredBarriers;
use crate::convergence::{
    blocks_apart, blocks_apart_or_behind, blocks_left_by_lanes_that_end, ending_blocks,
};
use crate::knobs::registry as knobs;
use crate::pipeline::{Context, PhaseError};
use crate::reachability::remove_unreachable;
use cranelift_entity::{EntityRef, EntitySet, SecondaryMap};
use orias_ori::analysis::{DefUse, DepthFirst, Divergence, DominatorTree, FlowGraph, LoopNest};
use orias_ori::operation::Order;
use orias_ori::{AbstractOp, Block, Effects, Function, Inst, Level, Opcode, Type, Value};
use selector::{Selector, only_computes};

/// How an abstract operation is selected.
type Rule = fn(&mut Selector<'_>) -> Result<(), PhaseError>;

use AbstractOp as A;

/// The rule of each operation that has one.
#[rustfmt::skip]
const RULES: &[(AbstractOp, Rule)] = &[
    // Values.
    (A::Undef, special::keep), (A::Collect, special::keep), (A::Split, special::split), (A::Mov, special::mov), (A::Name, special::name),
    (A::Sreg, special::special), (A::Sreg64, special::special), (A::EnvReg, special::environment),
    (A::AddressOf, special::address_of),
    (A::Cvta, special::to_generic), (A::CvtaTo, special::from_generic), (A::Isspacep, special::is_in_space),
    // Integers.
    (A::Add, arithmetic::add), (A::Sub, arithmetic::sub), (A::AddC, carries::add_carry), (A::SubC, carries::sub_borrow),
    (A::Mul, products::mul), (A::Mad, products::mad), (A::MadC, products::mad_carry),
    (A::Mul24, products::mul24), (A::Mad24, products::mad24), (A::Sad, arithmetic::sad),
    (A::Abs, arithmetic::abs), (A::Neg, arithmetic::neg), (A::Min, extremes::min_max), (A::Max, extremes::min_max),
    (A::AbsDiff4, arithmetic::differences4), (A::Sad4, arithmetic::differences4),
    (A::Dp4a, products::dot4), (A::Dp2a, products::dot2),
    // Bits.
    (A::And, bits::logic), (A::Or, bits::logic), (A::Xor, bits::logic), (A::Not, bits::logic), (A::Cnot, bits::is_zero),
    (A::Lop3, bits::table), (A::Shl, shifts::shift_left), (A::Shr, shifts::shift_right), (A::Shf, shifts::funnel),
    (A::Prmt, fields::permute), (A::Popc, fields::count), (A::Clz, fields::leading_zeros), (A::Bfind, fields::find),
    (A::BfindShift, fields::find), (A::Brev, fields::reverse), (A::Bfe, fields::extract), (A::Bfi, fields::insert),
    (A::Szext, fields::extend), (A::Bmsk, fields::mask),
    // Floating point.
    (A::Fadd, float::add), (A::Fsub, float::add), (A::Fmul, float::mul), (A::Ffma, float::fma),
    (A::FfmaOob, half::fma),
    (A::Fabs, float::sign), (A::Fneg, float::sign), (A::Fmin, float::min_max), (A::Fmax, float::min_max),
    (A::Rcp, float::function), (A::Sqrt, float::function), (A::Rsqrt, float::function), (A::Sin, float::function),
    (A::Cos, float::function), (A::Lg2, float::function), (A::Ex2, float::function), (A::Tanh, float::function),
    (A::Copysign, float::copysign), (A::Testp, float::test),
    // Comparison and choice.
    (A::Setp, compare::setp), (A::Set, compare::set), (A::Selp, compare::selp), (A::Slct, compare::slct),
    // Conversions.
    (A::Cvt, convert::cvt), (A::CvtPair, convert::pair), (A::CvtUnpack, convert::unpack), (A::CvtPack, convert::pack),
    // Memory.
    (A::Ld, memory::load), (A::Ldu, memory::load), (A::St, memory::store),
    (A::PrefetchLine, memory::prefetch), (A::PrefetchU, memory::prefetch), (A::Discard, memory::line),
    (A::ApplyPriority, memory::line), (A::CreatePolicy, memory::create_policy), (A::Alloca, stack::stack_allocate),
    (A::StackSave, stack::stack_save), (A::StackRestore, stack::stack_restore),
    (A::Atom, atomic::atom), (A::Red, atomic::red), (A::MultimemLd, atomic::load_copies), (A::MultimemLdWide, atomic::load_copies),
    (A::CpAsync, copy::copy), (A::CpAsyncCommit, copy::commit), (A::CpAsyncWait, copy::wait),
    (A::CpAsyncWaitAll, copy::wait_all), (A::Ldmatrix, copy::load_matrix), (A::Stmatrix, copy::store_matrix),
    (A::Movmatrix, copy::move_matrix), (A::Mma, matrix::multiply), (A::MmaSparse, matrix::multiply_sparse),
    // Textures and surfaces.
    (A::Tex, texture::sample), (A::Tld4, texture::gather), (A::Txq, texture::query),
    (A::Suld, texture::load), (A::Sust, texture::store), (A::Sured, texture::update),
    // The copy engine.
    (A::BulkCopy, bulk::copy), (A::BulkReduce, bulk::reduce), (A::BulkPrefetch, bulk::prefetch), (A::BulkCommit, bulk::commit),
    (A::BulkWait, bulk::wait), (A::TensorCopy, bulk::tensor_copy), (A::TensorReduce, bulk::tensor_reduce),
    (A::TensorPrefetch, bulk::tensor_prefetch), (A::PrefetchTensormap, bulk::prefetch_map),
    (A::MapInvalidate, barrier::invalidate_map),
    (A::Wgmma, warpgroup::multiply), (A::WgmmaSparse, warpgroup::multiply), (A::WgmmaFence, warpgroup::fence),
    (A::WgmmaCommit, warpgroup::commit), (A::WgmmaWait, warpgroup::wait),
    // Barriers and fences.
    (A::Bar, barrier::sync), (A::BarArrive, barrier::arrive), (A::BarRed, barrier::reduce),
    (A::BarRedPopc, barrier::reduce), (A::BarWarp, warp::sync), (A::Fence, barrier::fence), (A::FenceProxy, barrier::fence_proxy),
    (A::Mbarrier, mbarrier::adjust), (A::MbarrierArrive, mbarrier::arrive), (A::MbarrierWait, mbarrier::wait),
    (A::MbarrierPending, mbarrier::pending), (A::CpAsyncArrive, mbarrier::arrive_after_copies),
    (A::ClusterArrive, mbarrier::cluster_arrive), (A::ClusterWait, mbarrier::cluster_wait),
    (A::Mapa, mbarrier::map_address), (A::Getctarank, mbarrier::rank_of),
    (A::StAsync, mbarrier::tell), (A::RedAsync, mbarrier::tell), (A::FenceMbarrierInit, mbarrier::nothing),
    (A::GridDepWait, barrier::grid_wait), (A::GridDepLaunch, barrier::grid_launch),
    // Lanes.
    (A::Shfl, warp::shuffle), (A::VotePred, warp::vote), (A::Ballot, warp::ballot), (A::MatchLanes, warp::matching),
    (A::ActiveMask, warp::active), (A::Redux, warp::reduce), (A::Elect, warp::elect),
    (A::ElectTurn, warp::elect_turn), (A::AnyRunning, warp::any_running), (A::TurnWord, warp::turn_word),
    // Odds and ends.
    (A::Nanosleep, barrier::sleep), (A::PmEvent, barrier::event), (A::Brkpt, barrier::breakpoint),
    (A::SetMaxNReg, barrier::give_registers), (A::RegistersTake, barrier::take_registers),
    (A::Call, special::call), (A::Ret, special::keep),
    // Control flow.
    (A::RegionOpen, control::open), (A::RegionMeet, control::meet), (A::RegionLeave, control::leave),
    (A::Br, control::jump), (A::CondBr, control::branch), (A::Switch, control::switch), (A::Exit, control::exit), (A::Trap, control::trap),
    (A::Unreachable, control::exit),
];

/// The rules by operation.
static BY_OPERATION: [Option<Rule>; AbstractOp::ALL.len()] = {
    let mut rules = [None; AbstractOp::ALL.len()];
    let mut row = 0;
    while row < RULES.len() {
        rules[RULES[row].0 as usize] = Some(RULES[row].1);
        row += 1;
    }
    rules
};

/// Whether there is a rule for `op`.
pub fn is_selectable(op: AbstractOp) -> bool {
    BY_OPERATION[op as usize].is_some()
}

/// Turns the abstract operations of `func` into the machine's; see the module.
pub fn select_instructions(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    remove_unreachable(func, |_, _| false);
    let Some((entry, first)) = func
        .entry()
        .and_then(|entry| Some((entry, func.layout.first_inst(entry)?)))
    else {
        return Ok(());
    };
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    let chains = DefUse::new(func);
    let divergence = Divergence::new(func, &graph, &walk, &nest, &chains);
    let mut ending = ending_blocks(func, &graph, &walk, &divergence);
    if scattered::any_for_threads(func, &ending) {
        // Who waits at a barrier before it ends is not about to end.
        ending.fill(false);
    }
    let apart = blocks_apart(func, &graph, &walk, &divergence, &ending);
    let left = blocks_left_by_lanes_that_end(func, &graph, &divergence, &ending);
    let dominators = DominatorTree::new(&graph, &walk);
    let elsewhere = blocks_apart_or_behind(&graph, &apart, &left);
    let yielding = waits::find(func, &graph, &nest, &dominators, &divergence, &elsewhere);
    let gathering = gathering::find(func, &graph, &apart, &left, &yielding, &divergence);
    let view_fences = mbarrier::need_view_fences(func, &graph);
    let shared_logic = logic_trees::find(func, &chains);
    let multiples = multiples::find(func, &chains);
    // With registers to spare it is as good to keep the product.
    let is_short = func.attributes.max_registers > 0;
    let addends = match is_short && context.knobs.bool(&knobs::FOLD_PRODUCTS) {
        true => wide::addends(func, &chains),
        false => EntitySet::new(),
    };
    let aggregated = match context.opt_level >= 2 && context.knobs.bool(&knobs::AGGREGATE_UPDATES) {
        true => aggregation::find(
            func,
            &graph,
            &nest,
            &dominators,
            &divergence,
            &gathering.unparted,
        ),
        false => Aggregated::default(),
    };
    let order: Vec<Block> = walk.postorder().to_vec();
    // From here on the builder checks machine instructions; the abstract ones that are left go away one by one.
    func.level = Level::Machine;

    let plain_groups = warpgroup::groups_are_plain(func);
    let mut selector = Selector::new(func, context.machine, first, entry);
    selector.plain_groups = plain_groups;
    selector.shared_logic = shared_logic;
    selector.multiples = multiples;
    selector.addends = addends;
    selector.checks_stack = context.checks_stack();
    for number in 0..selector.func.value_count() {
        let value = Value::new(number);
        selector.uses[value] = chains.uses(value).len() as u32;
    }
    selector.whole_entry = (!divergence.is_partial(entry)).then_some(entry);
    selector.scattered = ScatteredBarriers::of(selector.func, &gathering.apart);
    selector.together = gathering.together;
    selector.view_fences = view_fences;
    selector.aggregated = aggregated;
    selector.undescribed = context.knobs.bool(&knobs::PATCH_CODE);
    for block in order {
        select_block(&mut selector, block)?;
        if yielding[block] {
            control::yield_to_others(&mut selector, block)?;
        }
    }
    selector.make_shared()?;
    selector.apply_renames();
    remove_unreachable(func, |_, _| false);
    drop_unread(func);
    control::finish(func)
}

/// Selects the instructions of `block`, from last to first.
fn select_block(selector: &mut Selector<'_>, block: Block) -> Result<(), PhaseError> {
    let insts: Vec<Inst> = selector.func.block_insts(block).collect();
    for inst in insts.into_iter().rev() {
        let Opcode::Abstract(op) = selector.func.opcode(inst) else {
            continue;
        };
        if op == A::Split && selector.owns_split(inst) {
            continue;
        }
        selector.go_to(block, inst);
        let wanted = has_effect(selector.func, inst)
            || (0..selector.result_count()).any(|index| {
                let result = selector.func.operands(inst)[index].as_value();
                result.is_some_and(|value| selector.is_wanted(value))
            });
        if !wanted {
            selector.func.remove_inst(inst);
            continue;
        }
        let Some(rule) = BY_OPERATION[op as usize] else {
            return Err(selector.unsupported());
        };
        if selector.func.inst(inst).guard().is_always() || !only_computes(op) {
            selector.take_guard();
            rule(selector)?;
        } else {
            special::computed_under_guard(selector, rule)?;
        }
        selector.retire(inst)?;
    }
    Ok(())
}

/// Whether `inst` does something besides computing its results.
fn has_effect(func: &Function, inst: Inst) -> bool {
    let ordered = func
        .modifier::<Order>(inst)
        .is_some_and(|order| order != Order::Weak);
    ordered
        || func
            .opcode(inst)
            .effects()
            .intersects(Effects::BEYOND_RESULTS)
}

/// Takes instructions away that only compute what nobody reads: rules make words and predicates that turn out not to be
/// needed.
fn drop_unread(func: &mut Function) {
    let mut readings: SecondaryMap<Value, u32> = SecondaryMap::new();
    let insts: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .collect();
    readings.resize(func.value_count());
    for &inst in &insts {
        func.for_each_use(inst, |reg| {
            if let Some(value) = reg.value() {
                readings[value] += 1;
            }
        });
    }
    let mut pending: Vec<Inst> = insts;
    while let Some(inst) = pending.pop() {
        let (mut some, mut unread) = (false, true);
        func.for_each_def(inst, |reg| {
            some = true;
            unread &= reg.value().is_some_and(|value| readings[value] == 0);
        });
        let removable = some
            && unread
            && func.opcode(inst).effects() == Effects::NONE
            && !func.is_named(inst)
            && func.layout.inst_block(inst).is_some();
        if !removable {
            continue;
        }
        let sources = func.value_uses(inst);
        func.remove_inst(inst);
        for value in sources {
            readings[value] -= 1;
            if readings[value] == 0 {
                pending.extend(func.defining_inst(value));
            }
        }
    }
}

/// Source operands from anything that can be one.
macro_rules! sources {
    ($($operand:expr),* $(,)?) => {
        &[$($crate::select::source::Source::from($operand)),*]
    };
}
use sources;

/// A one-word type, for rules that make temporaries.
const WORD: Type = Type::R;
