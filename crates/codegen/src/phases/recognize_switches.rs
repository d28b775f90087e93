//! RecognizeSwitches (10040): switch formation. Comparisons of one word with numbers, in a tree or a chain, become a switch where that is sooner done.
//!
//! Compilers of languages write small switches, and what is left of large ones, as branches. The blocks between that do nothing but compare the same word are the *nodes* of a tree; each edge out of it is
//! followed with the numbers for which it is taken, as intervals, from those that the known bits of the word allow. What comes out is a list of cases. An edge that no number takes
//! becomes none: the last comparison of a tree over `x & 15` often cannot fail.
//!
//! If the cases lie close to each other (one number in [`DENSITY`] is not the default's), the root gets a `brx` behind a check of the bounds where one is needed. Its cost, and that of the nodes, is
//! what a warp waits for ([`Costs`]): lanes that do not agree go through all nodes, those that agree through as many as the mean case is deep. ExpandForSelection then decides how the switch is done.
//!
//! Linear in the number of nodes times the intervals of each, of which there are at most two more than nodes above it.

use super::expand_for_selection::{Destination, SwitchCosts as Costs};
use super::general_optimize::blocks::merge;
use crate::known_bits::KnownBits;
use crate::pipeline::{Context, PhaseError};
use crate::reachability::remove_unreachable;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_ori::analysis::{DefUse, DepthFirst, Divergence, DominatorTree, FlowGraph, LoopNest};
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::operation::{Combine, Compare, Scalar};
use orias_ori::{AbstractOp, Block, Edge, Function, Inst, Operand, SourceMods, Type, Value};

/// One number in so many of a table must lead elsewhere than the default.
const DENSITY: u64 = 4;

/// Nodes of a tree that is looked at, at least: fewer are no slower than a table, by the machine's tables.
const FEWEST: usize = 3;

/// Nodes of a tree that is looked at, at most.
const MOST: usize = 2048;

/// Blocks that only jump, one behind the other, that are looked through.
const JUMPS: usize = 4;

/// Numbers from the first to the last.
type Interval = (u32, u32);

/// A comparison with a number that decides a branch.
struct Test {
    branch: Inst,
    comparison: Inst,
    word: Value,
    /// For which numbers the first edge is taken.
    holds: Vec<Interval>,
}

/// What a tree does.
struct Tree {
    root: Block,
    word: Value,
    /// Blocks of nodes other than the root.
    nodes: Vec<Block>,
    /// Where numbers lead, in their order.
    cases: Vec<(Interval, Destination)>,
    /// Branches with an edge that is never taken, and the other one.
    decided: Vec<(Inst, Edge)>,
    /// Nodes both of whose edges may be taken, and the nodes that all ways to cases pass, with how many ways there are.
    tests: u32,
    passed: u32,
    ways: u32,
}

/// Runs the phase.
pub fn recognize_switches(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let mut entries: SecondaryMap<Block, u32> = SecondaryMap::new();
    if let Some(entry) = func.entry() {
        entries[entry] += 1;
    }
    let blocks: Vec<Block> = func.blocks().collect();
    for &block in &blocks {
        for next in func.successors(block) {
            entries[next] += 1;
        }
        for inst in func.block_insts(block) {
            for operand in func.operands(inst) {
                if let Operand::Block(named) = operand {
                    entries[*named] += 1;
                }
            }
        }
    }
    let candidates = candidates(func, &blocks, &entries);
    if candidates.is_empty() {
        return Ok(());
    }
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    let uses = DefUse::new(func);
    let divergence = Divergence::new(func, &graph, &walk, &nest, &uses);
    let mut known = KnownBits::with_capacity(func.value_count());
    for block in DominatorTree::new(&graph, &walk).preorder() {
        for inst in func.block_insts(block) {
            known.learn(func, inst);
        }
    }
    let costs = Costs::of(context.machine);
    for root in candidates {
        if !walk.is_reachable(root) {
            continue;
        }
        let Some(test) = test(func, root) else {
            continue;
        };
        let most = known.value(test.word).word().possible() as u32;
        let Some(tree) = grow(func, root, &test, most, &entries, &uses) else {
            continue;
        };
        let agree = divergence.is_uniform_at(tree.word, root, &nest);
        match plan(&tree, &costs, agree) {
            Some(plan) => apply(func, &tree, &plan, &uses).map_err(refused)?,
            None => decide(func, &tree, &uses).map_err(refused)?,
        }
    }
    remove_unreachable(func, |_, _| false);
    merge(func, |_, _| false);
    Ok(())
}

fn refused(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}

/// Roots of trees that have [`FEWEST`] nodes.
fn candidates(func: &Function, blocks: &[Block], entries: &SecondaryMap<Block, u32>) -> Vec<Block> {
    let mut words: SecondaryMap<Block, Option<Value>> = SecondaryMap::new();
    for &block in blocks {
        words[block] = test(func, block).map(|test| test.word);
    }
    let mut inner: EntitySet<Block> = EntitySet::new();
    let mut below: SecondaryMap<Block, u32> = SecondaryMap::new();
    for &block in blocks {
        let Some(word) = words[block] else { continue };
        for next in func.successors(block) {
            if words[next] == Some(word) && is_node(func, next, entries) {
                inner.insert(next);
                below[block] += 1;
            }
        }
    }
    let is_root = |block: &Block| {
        if words[*block].is_none() || inner.contains(*block) {
            return false;
        }
        let mut pending = vec![*block];
        let mut count = 0;
        while let Some(block) = pending.pop() {
            count += 1;
            if count == FEWEST {
                return true;
            }
            if below[block] > 0 {
                pending.extend(func.successors(block).filter(|&next| inner.contains(next)));
            }
        }
        false
    };
    blocks.iter().copied().filter(is_root).collect()
}

/// The test that ends `block`, if it compares a word with a number.
fn test(func: &Function, block: Block) -> Option<Test> {
    let branch = func.terminator(block)?;
    let is_branch = func.opcode(branch).as_abstract() == Some(AbstractOp::CondBr)
        && func.inst(branch).guard().is_always();
    let &condition = func.operands(branch).first().filter(|_| is_branch)?;
    let comparison = func.defining_inst(condition.as_value()?)?;
    let plain = func.opcode(comparison).as_abstract() == Some(AbstractOp::Setp)
        && func.inst(comparison).guard().is_always()
        && func.result(comparison, 0) == condition.as_value()
        && func.modifier::<Combine>(comparison) == Some(Combine::None);
    let &[_, Operand::None, word, Operand::Imm(number), Operand::None] = func.operands(comparison)
    else {
        return None;
    };
    let word = word
        .as_value()
        .filter(|_| plain && word.mods().is_empty())?;
    let signed = match func.modifier::<Scalar>(comparison)? {
        Scalar::S32 => true,
        Scalar::U32 | Scalar::B32 => false,
        _ => return None,
    };
    if func.value_type(word) != Type::R {
        return None;
    }
    let number = number.bits() as u32;
    let mut holds = numbers(func.modifier::<Compare>(comparison)?, signed, number)?;
    if condition.mods().contains(SourceMods::NOT) {
        holds = outside(&holds);
    }
    Some(Test {
        branch,
        comparison,
        word,
        holds,
    })
}

/// The numbers for which a comparison with `number` holds, as intervals of unsigned numbers in their order.
fn numbers(compare: Compare, signed: bool, number: u32) -> Option<Vec<Interval>> {
    // Signed numbers are in the order of what is left when the sign is flipped.
    let flip = if signed { 1 << 31 } else { 0 };
    let at = number ^ flip;
    let (below, from) = match compare {
        Compare::Eq => return Some(vec![(number, number)]),
        Compare::Ne => return Some(outside(&[(number, number)])),
        Compare::Lt | Compare::Lo => (at.checked_sub(1), None),
        Compare::Le | Compare::Ls => (Some(at), None),
        Compare::Gt | Compare::Hi => (None, at.checked_add(1)),
        Compare::Ge | Compare::Hs => (None, Some(at)),
        _ => return None,
    };
    if signed
        && matches!(
            compare,
            Compare::Lo | Compare::Ls | Compare::Hi | Compare::Hs
        )
    {
        return None;
    }
    let flipped = match (below, from) {
        (Some(last), _) => (0, last),
        (_, Some(first)) => (first, u32::MAX),
        _ => return Some(Vec::new()),
    };
    if !signed {
        return Some(vec![flipped]);
    }
    let (first, last) = flipped;
    let mut found = Vec::new();
    // Those that are not negative have the bit set, and come first as unsigned numbers.
    if last >= flip {
        found.push((first.max(flip) ^ flip, last ^ flip));
    }
    if first < flip {
        found.push((first ^ flip, last.min(flip - 1) ^ flip));
    }
    Some(found)
}

/// All other numbers.
fn outside(intervals: &[Interval]) -> Vec<Interval> {
    let mut found = Vec::new();
    let mut next = Some(0);
    for &(first, last) in intervals {
        if let Some(from) = next
            && from < first
        {
            found.push((from, first - 1));
        }
        next = last.checked_add(1);
    }
    found.extend(next.map(|from| (from, u32::MAX)));
    found
}

/// The numbers in both.
fn common(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let mut found = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(&(first, last)), Some(&(from, to))) = (a.get(i), b.get(j)) {
        if first.max(from) <= last.min(to) {
            found.push((first.max(from), last.min(to)));
        }
        match last < to {
            true => i += 1,
            false => j += 1,
        }
    }
    found
}

/// Whether `block`, which ends with a test, does nothing else and is entered in one place.
fn is_node(func: &Function, block: Block, entries: &SecondaryMap<Block, u32>) -> bool {
    let mut insts = func.block_insts(block);
    let compares = |inst: Inst| func.opcode(inst).as_abstract() == Some(AbstractOp::Setp);
    let alone = match (insts.next(), insts.next(), insts.next()) {
        (Some(_), None, _) => true,
        (Some(first), Some(_), None) => compares(first),
        _ => false,
    };
    alone && entries[block] == 1 && func.block_params(block).is_empty()
}

/// Follows all edges from `root`.
fn grow(
    func: &Function,
    root: Block,
    first: &Test,
    most: u32,
    entries: &SecondaryMap<Block, u32>,
    uses: &DefUse,
) -> Option<Tree> {
    let mut tree = Tree {
        root,
        word: first.word,
        nodes: Vec::new(),
        cases: Vec::new(),
        decided: Vec::new(),
        tests: 0,
        passed: 0,
        ways: 0,
    };
    let mut pending = Vec::new();
    let branches =
        |tree: &mut Tree, pending: &mut Vec<_>, test: &Test, numbers: &[Interval], depth: u32| {
            let [yes, no] = *func.edges(test.branch) else {
                return false;
            };
            let taken = [
                (yes, common(numbers, &test.holds)),
                (no, common(numbers, &outside(&test.holds))),
            ];
            let live = taken.iter().filter(|(_, numbers)| !numbers.is_empty());
            let live: Vec<Edge> = live.map(|&(edge, _)| edge).collect();
            match *live {
                [only] => tree.decided.push((test.branch, only)),
                _ => tree.tests += 1,
            }
            let depth = depth + u32::from(live.len() == 2);
            for (edge, numbers) in taken {
                pending.push((edge, numbers, depth));
            }
            true
        };
    if !branches(&mut tree, &mut pending, first, &[(0, most)], 0) {
        return None;
    }
    while let Some((edge, numbers, depth)) = pending.pop() {
        let next = func.edge_target(edge);
        let node = (tree.nodes.len() < MOST && is_node(func, next, entries))
            .then(|| test(func, next))
            .flatten()
            .filter(|test| test.word == tree.word)
            .filter(|test| {
                // What goes with the node must be the node's own.
                let here = func.layout.inst_block(test.comparison) == Some(next);
                !here
                    || func
                        .value_defs(test.comparison)
                        .all(|value| uses.uses(value).len() == 1)
            })
            // One that compares for somebody else stays.
            .filter(|test| {
                let first = func.layout.first_inst(next);
                first == Some(test.branch) || first == Some(test.comparison)
            });
        if let Some(test) = node {
            tree.nodes.push(next);
            if !branches(&mut tree, &mut pending, &test, &numbers, depth) {
                return None;
            }
            continue;
        }
        if numbers.is_empty() {
            continue;
        }
        let way = way(func, edge);
        tree.passed += depth;
        tree.ways += 1;
        tree.cases
            .extend(numbers.iter().map(|&numbers| (numbers, way.clone())));
    }
    // Arguments that a node computes are not there yet at the root.
    let mut nodes: EntitySet<Block> = EntitySet::new();
    nodes.extend(tree.nodes.iter().copied());
    let early = |value: &Value| {
        let block = func.defining_block(*value);
        block.is_none_or(|block| !nodes.contains(block))
    };
    let ready = tree
        .cases
        .iter()
        .all(|(_, (_, args))| args.iter().all(early));
    if !ready {
        return None;
    }
    tree.cases.sort_by_key(|&((first, _), _)| first);
    tree.cases.dedup_by(|later, earlier| {
        let same = later.1 == earlier.1 && earlier.0.1.checked_add(1) == Some(later.0.0);
        if same {
            earlier.0.1 = later.0.1;
        }
        same
    });
    Some(tree)
}

/// Where `edge` leads, through blocks that only jump.
fn way(func: &Function, edge: Edge) -> Destination {
    let mut way = (func.edge_target(edge), func.edge_args(edge).to_vec());
    for _ in 0..JUMPS {
        let (block, args) = &way;
        let only = func.layout.first_inst(*block).filter(|&inst| {
            args.is_empty()
                && func.block_params(*block).is_empty()
                && func.opcode(inst).as_abstract() == Some(AbstractOp::Br)
                && func.inst(inst).guard().is_always()
        });
        let Some(&[next]) = only.map(|jump| func.edges(jump)) else {
            break;
        };
        way = (func.edge_target(next), func.edge_args(next).to_vec());
    }
    way
}

/// A switch in the place of a tree.
struct Plan {
    /// The numbers that are looked up.
    window: Interval,
    /// The first case of the window, and one past the last.
    cases: (usize, usize),
    /// Where all other numbers lead.
    default: Option<Destination>,
}

/// The switch that does what `tree` does, if it is sooner done.
fn plan(tree: &Tree, costs: &Costs, agree: bool) -> Option<Plan> {
    let size = |(first, last): Interval| u64::from(last - first) + 1;
    let count = tree.cases.len();
    let (&(first, _), &(last, ref default)) = (tree.cases.first()?, tree.cases.last()?);
    let all = (first.0, last.1);
    let plan = match size(all) <= DENSITY * u64::from(tree.tests) {
        true => Plan {
            window: all,
            cases: (0, count),
            default: None,
        },
        false => {
            let from = usize::from(tree.cases[0].1 == *default && count > 1);
            let window = (tree.cases[from].0.0, last.0.checked_sub(1)?);
            Plan {
                window,
                cases: (from, count - 1),
                default: Some(default.clone()),
            }
        }
    };
    let (from, end) = plan.cases;
    let cases = tree.cases.get(from..end)?;
    if cases.len() < FEWEST {
        return None;
    }
    let own = cases
        .iter()
        .filter(|(_, way)| plan.default.as_ref() != Some(way));
    let own: u64 = own.map(|&(numbers, _)| size(numbers)).sum();
    if size(plan.window) > DENSITY * own {
        return None;
    }
    let ways: Vec<&Destination> = cases.iter().map(|(_, way)| way).collect();
    let switch = costs.switch(&ways, size(plan.window) as usize, agree)
        + if plan.default.is_some() {
            costs.comparison
        } else {
            0
        };
    let nodes = match agree {
        true => costs.comparison * tree.passed / tree.ways.max(1),
        false => costs.comparison * tree.tests,
    };
    (switch < nodes).then_some(plan)
}

/// Puts a switch in the place of a tree.
fn apply(func: &mut Function, tree: &Tree, plan: &Plan, uses: &DefUse) -> Result<(), BuildError> {
    let Some(branch) = func.terminator(tree.root) else {
        return Ok(());
    };
    let span = func.inst(branch).span();
    remove_test(func, branch, uses);
    let (first, last) = plan.window;
    let mut at = tree.root;
    let mut cursor = Cursor::at_end(func, at);
    cursor.set_span(span);
    let index = match first {
        0 => tree.word,
        _ => cursor
            .build(AbstractOp::Sub)
            .with(Scalar::U32)
            .operand(tree.word)
            .imm(u64::from(first))
            .value()?,
    };
    if let Some((default, args)) = &plan.default {
        let beyond = cursor
            .build(AbstractOp::Setp)
            .with(Compare::Gt)
            .with(Combine::None)
            .with(Scalar::U32)
            .operand(index)
            .imm(u64::from(last - first))
            .value()?;
        let inside = func.create_block();
        func.layout.insert_block_after(inside, at);
        let mut cursor = Cursor::at_end(func, at);
        cursor.set_span(span);
        cursor
            .build(AbstractOp::CondBr)
            .operand(beyond)
            .edge(*default, args)
            .edge(inside, &[])
            .finish()?;
        at = inside;
    }
    let mut cursor = Cursor::at_end(func, at);
    cursor.set_span(span);
    let mut switch = cursor.build(AbstractOp::Switch).operand(index);
    for ((first, last), (block, args)) in &tree.cases[plan.cases.0..plan.cases.1] {
        for _ in *first..=*last {
            switch = switch.edge(*block, args);
        }
    }
    switch.finish()?;
    Ok(())
}

/// Takes away a branch, and the comparison if nobody else reads it.
fn remove_test(func: &mut Function, branch: Inst, uses: &DefUse) {
    let condition = func.operands(branch).first().and_then(|it| it.as_value());
    func.remove_inst(branch);
    if let Some(condition) = condition
        && uses.uses(condition).len() == 1
        && let Some(comparison) = func.defining_inst(condition)
    {
        func.remove_inst(comparison);
    }
}

/// Branches that can go one way only do.
fn decide(func: &mut Function, tree: &Tree, uses: &DefUse) -> Result<(), BuildError> {
    for &(branch, edge) in &tree.decided {
        let Some(block) = func.layout.inst_block(branch) else {
            continue;
        };
        let (to, args) = (func.edge_target(edge), func.edge_args(edge).to_vec());
        let span = func.inst(branch).span();
        remove_test(func, branch, uses);
        let mut cursor = Cursor::at_end(func, block);
        cursor.set_span(span);
        cursor.build(AbstractOp::Br).edge(to, &args).finish()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison of numbers, as the machine makes it.
    fn holds(compare: Compare, signed: bool, a: u32, b: u32) -> bool {
        let order = match signed {
            true => (a as i32).cmp(&(b as i32)),
            false => a.cmp(&b),
        };
        match compare {
            Compare::Eq => order.is_eq(),
            Compare::Ne => order.is_ne(),
            Compare::Lt => order.is_lt(),
            Compare::Le => order.is_le(),
            Compare::Gt => order.is_gt(),
            _ => order.is_ge(),
        }
    }

    #[test]
    fn intervals_have_the_numbers_for_which_comparisons_hold() {
        let edges = [
            0,
            1,
            7,
            0x7fff_ffff,
            0x8000_0000,
            0x8000_0001,
            0xffff_fffe,
            u32::MAX,
        ];
        let all = [
            Compare::Eq,
            Compare::Ne,
            Compare::Lt,
            Compare::Le,
            Compare::Gt,
            Compare::Ge,
        ];
        for compare in all {
            for signed in [false, true] {
                for number in edges {
                    let found = numbers(compare, signed, number).expect("it compares integers");
                    assert!(
                        found.windows(2).all(|pair| pair[0].1 < pair[1].0),
                        "{found:?}"
                    );
                    let others = outside(&found);
                    assert!(common(&found, &others).is_empty());
                    for a in edges {
                        let inside = found
                            .iter()
                            .any(|&(first, last)| (first..=last).contains(&a));
                        let other = others
                            .iter()
                            .any(|&(first, last)| (first..=last).contains(&a));
                        assert_eq!(
                            inside,
                            holds(compare, signed, a, number),
                            "{compare:?} {a:#x} {number:#x}"
                        );
                        assert_ne!(inside, other);
                    }
                }
            }
        }
    }
}
