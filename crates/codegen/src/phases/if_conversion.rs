//! IfConversion (10006): branches around a few instructions become selects and predicated instructions.
//!
//! A branch around a few operations costs more than the operations: lanes part and meet again, and nothing moves across. Where one or both
//! sides of a branch only compute a few words and go on to the same block, both are computed and what they pass on is chosen by the
//! branch's predicate. Plain loads and stores and arrivals at mbarriers run under it; what is read from a known place of a constant bank is read by all.
//!
//! A side is one block that is entered from the branch only, without other effects. At most [`MOST_WORDS`] words are chosen. How many instructions (`cost_of`; copies and what becomes part of a sum are not
//! counted) the sides may have together depends on what the branch costs ([`Limits`]):
//!
//! - Where lanes may part, a branch costs two instructions of a region and two jumps, and both sides are run one after the other where lanes do part: the limit is knob 10077's.
//! - Where lanes go one way together there is no region, and all that is computed for the other way is in vain: knob 10078's.
//! - Where the thread's number in a row of threads is compared with a number, or a loop compares it with a bound that it moves (`if (tid < d)`), most warps go one way together, too: the same limit.
//!   (scan_blelloch: 1.39 times ptxas's issues with the other one.)
//! - A side that hardly ever runs (the attribute `rare`) goes only if it takes no more than jumping over it: [`RARE`].
//!
//! Inner branches go first; what is left of the sides counts for the outer ones.
//!
//! A few visits of each block: linear.

use super::copied_number;
use super::general_optimize::blocks::merge;
use crate::knobs::registry;
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DefUse, DepthFirst, Divergence, FlowGraph, LoopNest};
use orias_ori::operation::{
    Compare, Ftz, Half, Order, Precision, Scalar, Scope, SourceType, Space, Special,
};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Edge, Effects, Function, Guard, Inst, Operand, SourceMods,
    Type, Value,
};

/// Instructions of a side that hardly ever runs, at most.
const RARE: usize = 2;

/// How many instructions the sides of a branch may have.
#[derive(Clone, Copy)]
struct Limits {
    /// Where lanes may part.
    parting: usize,
    /// Where they go one way together.
    together: usize,
}

/// How deep branches in the sides of others are looked at: deeper than sides of so few instructions go.
const DEPTH: usize = 16;

/// Words that are chosen, at most. A word costs a branch, too: a copy on each side.
const MOST_WORDS: usize = 8;

/// A branch whose sides meet again and can become straight-line code (a hammock).
struct Hammock {
    /// The blocks between, whose operations move before the branch, and whether they are run where the predicate holds.
    sides: Vec<(Block, bool)>,
    /// Where both ways end.
    meet: Block,
    /// What is passed there where the predicate holds, and where not.
    args: [Vec<Value>; 2],
    /// How many instructions the sides take.
    cost: usize,
}

/// Runs the phase.
pub fn convert_ifs(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let size = |knob| usize::try_from(context.knobs.int(knob)).unwrap_or(0);
    let limits = Limits {
        parting: size(&registry::IF_CONVERSION_SIZE),
        together: size(&registry::IF_CONVERSION_UNIFORM_SIZE),
    };
    for _ in 0..DEPTH {
        if !convert(func, limits) {
            break;
        }
        // A side with a branch that went is one block now.
        merge(func, |_, _| false);
    }
    Ok(())
}

/// Takes away all branches that can go. Returns whether there were any.
fn convert(func: &mut Function, limits: Limits) -> bool {
    let mut entries: SecondaryMap<Block, u32> = SecondaryMap::new();
    let blocks: Vec<Block> = func.blocks().collect();
    for &block in &blocks {
        for next in func.successors(block) {
            entries[next] += 1;
        }
    }
    let mut converted = false;
    let most = limits.parting.max(limits.together);
    // Who parts at the start of a round does in it. Most functions have no branch for which that matters.
    let mut parting: Option<Lanes> = None;
    for block in blocks {
        let Some(branch) = func.terminator(block) else {
            continue;
        };
        if let Some(hammock) = hammock(func, branch, &entries, most) {
            let rare = |&(side, _): &(Block, bool)| func.attributes.rare.contains(&side);
            if hammock.cost > RARE && hammock.sides.iter().any(rare) {
                continue;
            }
            if hammock.cost > limits.parting.min(limits.together) {
                let lanes = parting.get_or_insert_with(|| Lanes::of(func));
                let limit = match lanes.part_at(func, block) {
                    true => limits.parting,
                    false => limits.together,
                };
                if hammock.cost > limit {
                    continue;
                }
            }
            entries[hammock.meet] -= 1;
            choose(func, branch, &hammock);
            converted = true;
        }
    }
    converted
}

/// Where lanes part.
struct Lanes {
    divergence: Divergence,
    nest: LoopNest,
    /// In how many directions threads are counted.
    rows: usize,
}

/// How many operations are looked through to see what a number is made of.
const MOST_TERMS: usize = 8;

impl Lanes {
    fn of(func: &Function) -> Lanes {
        let graph = FlowGraph::of(func);
        let walk = DepthFirst::new(&graph);
        let nest = LoopNest::new(&graph, &walk);
        let insts = func.blocks().flat_map(|block| func.block_insts(block));
        let mut asked: Vec<Special> = insts
            .filter_map(|inst| func.modifier::<Special>(inst))
            .filter(|it| matches!(it, Special::TidX | Special::TidY | Special::TidZ))
            .collect();
        asked.sort_unstable_by_key(|it| *it as u8);
        asked.dedup();
        Lanes {
            divergence: Divergence::new(func, &graph, &walk, &nest, &DefUse::new(func)),
            nest,
            rows: asked.len(),
        }
    }

    /// Whether lanes are to be expected to part at the end of `block`.
    fn part_at(&self, func: &Function, block: Block) -> bool {
        self.divergence.is_divergent_branch(block) && !self.is_threshold(func, block)
    }

    /// Whether the branch of `block` compares the number of a thread in a row of threads with a number that is known, or with one that the loop around changes, as in `if (tid < d)` with `d` halved in each
    /// iteration: one warp of a thread block has lanes on both sides at most, and some have none on the side that is left. (Bounds of the data are not meant: nearly all threads are within them.)
    fn is_threshold(&self, func: &Function, block: Block) -> bool {
        if self.rows > 1 {
            return false;
        }
        let found = || {
            let home = self.nest.innermost(block);
            let branch = func.terminator(block)?;
            let condition = func.operands(branch).first()?.as_value()?;
            let comparison = func.defining_inst(condition)?;
            let compare = func.modifier::<Compare>(comparison)?;
            let rises = matches!(
                compare,
                Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge
            );
            let is_setp = func.opcode(comparison).as_abstract() == Some(AbstractOp::Setp);
            let sides = func
                .operands(comparison)
                .get(2..4)
                .filter(|_| rises && is_setp)?;
            let bound = |side: Operand| match side.as_value() {
                None => matches!(side, Operand::Imm(_)),
                Some(value) => {
                    let made = func.defining_block(value);
                    let moves =
                        (made.zip(home)).is_some_and(|(made, home)| self.nest.contains(home, made));
                    let known = copied_number(func, side).is_some();
                    self.divergence.is_uniform(value) && (moves || known)
                }
            };
            let lanes = |side: Operand| {
                side.as_value().is_some_and(|value| {
                    !self.divergence.is_uniform(value) && self.is_sum(func, value, &mut 0)
                })
            };
            let (a, b) = (sides[0], sides[1]);
            Some(bound(a) && lanes(b) || bound(b) && lanes(a))
        };
        found().unwrap_or(false)
    }

    /// Whether `value` is a sum of multiples of the thread's number and of what is the same for all lanes.
    fn is_sum(&self, func: &Function, value: Value, terms: &mut usize) -> bool {
        *terms += 1;
        if self.divergence.is_uniform(value) {
            return true;
        }
        let Some(inst) = func.defining_inst(value).filter(|_| *terms <= MOST_TERMS) else {
            return false;
        };
        use AbstractOp as A;
        match func.opcode(inst).as_abstract() {
            Some(A::Sreg) => func.modifier::<Special>(inst) == Some(Special::TidX),
            Some(A::Mov | A::Add | A::Sub | A::Mul | A::Mad | A::Shl) => {
                (func.value_uses(inst)).all(|used| self.is_sum(func, used, terms))
            }
            _ => false,
        }
    }
}

/// How `branch` can go, if it can and its sides take at most `most` instructions.
fn hammock(
    func: &Function,
    branch: Inst,
    entries: &SecondaryMap<Block, u32>,
    most: usize,
) -> Option<Hammock> {
    let is_branch = func.opcode(branch).as_abstract() == Some(AbstractOp::CondBr)
        && func.operands(branch).first()?.as_value().is_some();
    let &[yes, no] = func.edges(branch) else {
        return None;
    };
    if !is_branch {
        return None;
    }
    let ends = [yes, no].map(|edge| {
        let side = func.edge_target(edge);
        let leave = leaving(func, side)
            .filter(|_| entries[side] == 1 && func.block_params(side).is_empty());
        (edge, leave.map(|leave| (side, leave)))
    });
    let [(_, first), (_, second)] = ends;
    let target = |edge: Edge| func.edge_target(edge);
    let (edges, sides) = match (first, second) {
        (Some((side, leave)), _) if target(leave) == target(no) => {
            ([leave, no], vec![(side, true)])
        }
        (_, Some((side, leave))) if target(leave) == target(yes) => {
            ([yes, leave], vec![(side, false)])
        }
        _ if target(yes) == target(no) => ([yes, no], Vec::new()),
        (Some((side, leave)), Some((other, way))) if target(leave) == target(way) => {
            ([leave, way], vec![(side, true), (other, false)])
        }
        _ => return None,
    };
    let args = edges.map(|edge| func.edge_args(edge).to_vec());
    let mut words = 0;
    for (&a, &b) in args[0].iter().zip(&args[1]) {
        let ty = func.value_type(a);
        if a != b {
            scalar(ty)?;
            words += usize::from(ty.len());
        }
    }
    let cost: usize = sides.iter().map(|&(side, _)| cost(func, side)).sum();
    let meet = target(edges[0]);
    let fits = words <= MOST_WORDS && cost <= most && sides.iter().all(|&(side, _)| side != meet);
    fits.then_some(Hammock {
        sides,
        meet,
        args,
        cost,
    })
}

/// The edge of a block that only goes on, if all it does before can be computed in vain.
fn leaving(func: &Function, block: Block) -> Option<Edge> {
    let end = func.terminator(block)?;
    let goes_on = func.opcode(end).as_abstract() == Some(AbstractOp::Br);
    let cheap = func
        .block_insts(block)
        .filter(|&inst| inst != end)
        .all(|inst| cost_of(func, inst).is_some());
    func.edges(end)
        .first()
        .copied()
        .filter(|_| goes_on && cheap)
}

/// How many instructions the operations of a side take. A shift or a product becomes part of a sum that it is a term of.
fn cost(func: &Function, block: Block) -> usize {
    let mut taken: Vec<Inst> = Vec::new();
    let mut cost = 0;
    for inst in func.block_insts(block) {
        cost += cost_of(func, inst).unwrap_or(0);
        if func.opcode(inst).as_abstract() != Some(AbstractOp::Add) {
            continue;
        }
        let terms = func.operands(inst).iter().skip(1);
        let mut terms = terms.filter_map(|term| func.defining_inst(term.as_value()?));
        let part = terms.find(|&term| {
            let op = func.opcode(term).as_abstract();
            matches!(op, Some(AbstractOp::Shl | AbstractOp::Mul))
                && func.layout.inst_block(term) == Some(block)
                && !taken.contains(&term)
        });
        if let Some(part) = part {
            taken.push(part);
            // Half of a product of doublewords is left.
            cost -= cost_of(func, part).unwrap_or(0).min(2);
        }
    }
    cost
}

/// How many instructions `inst` takes, if it can be computed in vain or run under a guard.
fn cost_of(func: &Function, inst: Inst) -> Option<usize> {
    if !func.inst(inst).guard().is_always() {
        return None;
    }
    if let Some(access) = access(func, inst) {
        return Some(usize::from(access != Access::Constant));
    }
    use AbstractOp as A;
    let op = func.opcode(inst).as_abstract()?;
    let scalar = func.modifier::<Scalar>(inst);
    let wide = scalar.is_some_and(|scalar| scalar.bits() == 64);
    if scalar.is_some_and(|scalar| scalar.bits() > 64)
        || func.opcode(inst).effects() != Effects::NONE
    {
        return None;
    }
    match op {
        A::Mov | A::Undef | A::Collect | A::Split | A::CvtaTo | A::AddressOf => Some(0),
        // A word at a time.
        A::Add
        | A::Sub
        | A::AddC
        | A::SubC
        | A::And
        | A::Or
        | A::Xor
        | A::Not
        | A::Selp
        | A::Shl
        | A::Shr
        | A::Cvta => Some(1 + usize::from(wide)),
        // Those of doubles are issued half as often as others.
        A::Setp | A::Fadd | A::Fsub | A::Fmul | A::Ffma | A::Fneg | A::Fabs => {
            Some(1 + usize::from(wide))
        }
        A::Mul
        | A::Mad
        | A::MadC
        | A::Neg
        | A::Min
        | A::Max
        | A::Abs
        | A::Lop3
        | A::Shf
        | A::Prmt
        | A::Popc
        | A::Brev
        | A::Clz
        | A::Bfe
        | A::Bfi
        | A::Szext
        | A::Fmin
        | A::Fmax
            if !wide =>
        {
            Some(1)
        }
        A::Isspacep | A::Mapa => Some(1),
        A::Mul if is_low_half(func, inst) => Some(3),
        A::Cvt if is_quick(func, inst) => Some(1),
        _ => is_function(func, inst).then_some(1),
    }
}

/// Whether a product is as wide as its factors.
fn is_low_half(func: &Function, inst: Inst) -> bool {
    func.modifier::<Half>(inst) == Some(Half::Lo)
}

/// Whether a conversion is one between integers, or one between floats of up to 32 bits.
fn is_quick(func: &Function, inst: Inst) -> bool {
    use Scalar as S;
    let is_integer = |scalar: Scalar| {
        let small = matches!(scalar, S::U8 | S::S8 | S::U16 | S::S16 | S::U32 | S::S32);
        small || matches!(scalar, S::U64 | S::S64)
    };
    let is_float = |scalar: Scalar| matches!(scalar, S::F16 | S::Bf16 | S::F32);
    let to = func.modifier::<Scalar>(inst);
    let from = func.modifier::<SourceType>(inst).map(Scalar::from);
    to.zip(from).is_some_and(|(to, from)| {
        is_integer(to) && is_integer(from) || is_float(to) && is_float(from)
    })
}

/// Whether `inst` is an approximate function that the machine has an instruction for.
fn is_function(func: &Function, inst: Inst) -> bool {
    use AbstractOp as A;
    let known = matches!(
        func.opcode(inst).as_abstract(),
        Some(A::Ex2 | A::Lg2 | A::Rcp | A::Sqrt | A::Rsqrt)
    );
    known
        && func.modifier::<Scalar>(inst) == Some(Scalar::F32)
        && func.modifier::<Precision>(inst) == Some(Precision::Approx)
        && func.modifier::<Ftz>(inst) == Some(Ftz::Ftz)
}

/// How a plain access to memory can go where its branch does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// A known place of a constant bank: read by whoever comes, as an operand of others most often.
    Constant,
    /// Only under the branch's predicate.
    Guarded,
}

/// What access `inst` is, if it is a plain one. Arrivals at mbarriers are one instruction where no fence belongs to them.
fn access(func: &Function, inst: Inst) -> Option<Access> {
    let op = func.opcode(inst).as_abstract()?;
    if op == AbstractOp::MbarrierArrive && func.modifier::<Scope>(inst) != Some(Scope::Cluster) {
        return Some(Access::Guarded);
    }
    if !matches!(op, AbstractOp::Ld | AbstractOp::St)
        || func.modifier::<Order>(inst) != Some(Order::Weak)
    {
        return None;
    }
    let constant = matches!(func.modifier(inst), Some(Space::Const | Space::Param));
    let known = func.operands(inst).iter().any(|operand| match operand {
        Operand::Address(id) => func.address(*id).base.get().is_none(),
        _ => false,
    });
    Some(match constant && known && op == AbstractOp::Ld {
        true => Access::Constant,
        false => Access::Guarded,
    })
}

/// Puts `inst`, an access to memory, under a guard. What it would have loaded is anything where the guard does not hold.
pub(super) fn put_under(func: &mut Function, inst: Inst, guard: Guard) {
    let results: Vec<Value> = func.value_defs(inst).collect();
    let kept: Vec<Operand> = results
        .iter()
        .map(|&result| {
            let anything = func.create_value(func.value_type(result));
            let operands = [Operand::from(anything)];
            let undef = func.create_abstract(AbstractOp::Undef, AbstractMods::NONE, 1, &operands);
            func.layout.insert_inst_before(undef, inst);
            anything.into()
        })
        .collect();
    func.set_kept(inst, &kept);
    func.set_guard(inst, guard);
}

/// The type in which values of type `ty` are chosen.
fn scalar(ty: Type) -> Option<Scalar> {
    match ty {
        Type::R => Some(Scalar::B32),
        Type::R2 => Some(Scalar::B64),
        _ => None,
    }
}

/// Makes `branch` a jump that passes on what is chosen.
fn choose(func: &mut Function, branch: Inst, hammock: &Hammock) {
    let condition = func.operands(branch)[0];
    let span = func.inst(branch).span();
    for &(side, holds) in &hammock.sides {
        let negated = condition.mods().contains(SourceMods::NOT);
        let guard = condition.as_value().map(|value| match holds != negated {
            true => Guard::when(value),
            false => Guard::unless(value),
        });
        let insts: Vec<Inst> = func.block_insts(side).collect();
        for inst in insts {
            if func.opcode(inst).is_terminator() {
                func.remove_inst(inst);
            } else {
                func.layout.remove_inst(inst);
                func.layout.insert_inst_before(inst, branch);
                if let Some(guard) = guard.filter(|_| access(func, inst) == Some(Access::Guarded)) {
                    put_under(func, inst, guard);
                }
            }
        }
        func.layout.remove_block(side);
    }
    let mut passed = Vec::new();
    for (&yes, &no) in hammock.args[0].iter().zip(&hammock.args[1]) {
        let ty = func.value_type(yes);
        let mods = scalar(ty).and_then(|scalar| {
            let row = AbstractOp::Selp.row();
            row.with_modifier(AbstractMods::NONE, scalar)
        });
        passed.push(match mods.filter(|_| yes != no) {
            None => yes,
            Some(mods) => {
                let value = func.create_value(ty);
                let operands: [Operand; 4] = [value.into(), yes.into(), no.into(), condition];
                let choice = func.create_abstract(AbstractOp::Selp, mods, 1, &operands);
                func.set_span(choice, span);
                func.layout.insert_inst_before(choice, branch);
                value
            }
        });
    }
    let edge = func.create_edge(hammock.meet, &passed);
    func.replace_with_abstract(branch, AbstractOp::Br, AbstractMods::NONE, 0, &[]);
    func.set_edges(branch, &[edge]);
}
