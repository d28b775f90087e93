//! IfConversion (10006): branches around a few instructions become selects and predicated instructions.
//!
//! A branch around a few operations costs more than the operations: lanes part and meet again, and nothing moves across. Where one or both
//! sides of a branch only compute a few words and go on to the same block, both are computed and what they pass on is chosen by the
//! branch's predicate. Plain loads and stores run under it.
//!
//! A side is one block that is entered from the branch only, with at most [`MOST`] instructions (copies not counted) and no other effect. At
//! most [`MOST_WORDS`] words are chosen. Longer sides stay: what is computed in vain grows, and the branch may be one that no lane takes. Inner branches
//! go first; what is left of the sides counts for the outer ones.
//!
//! A few visits of each block: linear.

use super::general_optimize::blocks::merge;
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use orias_ori::operation::{Ftz, Order, Precision, Scalar, Space};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Edge, Effects, Function, Guard, Inst, Operand, SourceMods,
    Type, Value,
};

/// Operations that are computed in vain, at most.
const MOST: usize = 8;

/// How deep branches in the sides of others are looked at: deeper than sides of so few instructions go.
const DEPTH: usize = 16;

/// Words that are chosen, at most. A word costs a branch, too: a copy on each side.
const MOST_WORDS: usize = 8;

/// A branch that can go.
struct Way {
    /// The blocks between, whose operations move before the branch, and whether they are run where the predicate holds.
    sides: Vec<(Block, bool)>,
    /// Where both ways end.
    meet: Block,
    /// What is passed there where the predicate holds, and where not.
    args: [Vec<Value>; 2],
}

/// Runs the phase.
pub fn convert_ifs(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    for _ in 0..DEPTH {
        if !convert(func) {
            break;
        }
        // A side with a branch that went is one block now.
        merge(func, |_, _| false);
    }
    Ok(())
}

/// Takes away all branches that can go. Returns whether there were any.
fn convert(func: &mut Function) -> bool {
    let mut entries: SecondaryMap<Block, u32> = SecondaryMap::new();
    let blocks: Vec<Block> = func.blocks().collect();
    for &block in &blocks {
        for next in func.successors(block) {
            entries[next] += 1;
        }
    }
    let mut converted = false;
    for block in blocks {
        let Some(branch) = func.terminator(block) else {
            continue;
        };
        if let Some(way) = way(func, branch, &entries) {
            entries[way.meet] -= 1;
            choose(func, branch, &way);
            converted = true;
        }
    }
    converted
}

/// How `branch` can go, if it can.
fn way(func: &Function, branch: Inst, entries: &SecondaryMap<Block, u32>) -> Option<Way> {
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
    let computed: usize = sides.iter().map(|&(side, _)| cost(func, side)).sum();
    let meet = target(edges[0]);
    let fits =
        words <= MOST_WORDS && computed <= MOST && sides.iter().all(|&(side, _)| side != meet);
    fits.then_some(Way { sides, meet, args })
}

/// The edge of a block that only goes on, if all it does before is cheap.
fn leaving(func: &Function, block: Block) -> Option<Edge> {
    let end = func.terminator(block)?;
    let goes_on = func.opcode(end).as_abstract() == Some(AbstractOp::Br);
    let cheap = func
        .block_insts(block)
        .filter(|&inst| inst != end)
        .all(|inst| is_cheap(func, inst) || is_guardable(func, inst));
    func.edges(end)
        .first()
        .copied()
        .filter(|_| goes_on && cheap)
}

/// How many instructions the operations of a side take.
fn cost(func: &Function, block: Block) -> usize {
    let free = [
        AbstractOp::Mov,
        AbstractOp::Br,
        AbstractOp::Undef,
        AbstractOp::Collect,
        AbstractOp::Split,
        AbstractOp::CvtaTo,
    ];
    func.block_insts(block)
        .map(|inst| {
            let op = func.opcode(inst).as_abstract();
            match op.is_some_and(|op| free.contains(&op)) {
                true => 0,
                false => 1 + usize::from(is_wide(func, inst)),
            }
        })
        .sum()
}

/// Whether `inst` computes with pairs of words, which takes an instruction for each. Accesses to memory do not.
fn is_wide(func: &Function, inst: Inst) -> bool {
    let bits = func.modifier::<Scalar>(inst).map(|scalar| scalar.bits());
    bits == Some(64) && !is_guardable(func, inst)
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

/// Whether `inst` computes a word in about one instruction, or two words in two.
fn is_cheap(func: &Function, inst: Inst) -> bool {
    use AbstractOp as A;
    let Some(op) = func.opcode(inst).as_abstract() else {
        return false;
    };
    let known = matches!(
        op,
        A::Mov
            | A::Undef
            | A::Collect
            | A::Split
            | A::Add
            | A::Sub
            | A::Mul
            | A::Mad
            | A::Neg
            | A::Min
            | A::Max
            | A::And
            | A::Or
            | A::Xor
            | A::Not
            | A::Lop3
            | A::Shl
            | A::Shr
            | A::Shf
            | A::Prmt
            | A::Popc
            | A::Brev
            | A::Cvta
            | A::CvtaTo
            | A::Fadd
            | A::Fsub
            | A::Fmul
            | A::Ffma
            | A::Fneg
            | A::Fabs
            | A::Fmin
            | A::Fmax
            | A::Setp
            | A::Selp
    ) || is_function(func, inst);
    let in_halves = matches!(
        op,
        A::Mov
            | A::Add
            | A::Sub
            | A::And
            | A::Or
            | A::Xor
            | A::Not
            | A::Shl
            | A::Shr
            | A::Selp
            | A::Cvta
            | A::CvtaTo
    ) || op == A::Setp && func.modifier::<Scalar>(inst) != Some(Scalar::F64);
    let fits = func
        .modifier::<Scalar>(inst)
        .is_none_or(|scalar| scalar.bits() <= 32 || in_halves && scalar.bits() == 64);
    known
        && fits
        && func.opcode(inst).effects() == Effects::NONE
        && func.inst(inst).guard().is_always()
}

/// Whether `inst` is a plain access to memory other than constants, which can run under the branch's predicate.
fn is_guardable(func: &Function, inst: Inst) -> bool {
    let access = matches!(
        func.opcode(inst).as_abstract(),
        Some(AbstractOp::Ld | AbstractOp::St)
    );
    let constant = matches!(func.modifier(inst), Some(Space::Const | Space::Param));
    access
        && !constant
        && func.modifier::<Order>(inst) == Some(Order::Weak)
        && func.inst(inst).guard().is_always()
}

/// Puts `inst`, an access to memory, under a guard. What it would have loaded is anything where the guard does not hold.
fn put_under(func: &mut Function, inst: Inst, guard: Guard) {
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
fn choose(func: &mut Function, branch: Inst, way: &Way) {
    let condition = func.operands(branch)[0];
    let span = func.inst(branch).span();
    for &(side, holds) in &way.sides {
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
                if let Some(guard) = guard.filter(|_| is_guardable(func, inst)) {
                    put_under(func, inst, guard);
                }
            }
        }
        func.layout.remove_block(side);
    }
    let mut passed = Vec::new();
    for (&yes, &no) in way.args[0].iter().zip(&way.args[1]) {
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
    let edge = func.create_edge(way.meet, &passed);
    func.replace_with_abstract(branch, AbstractOp::Br, AbstractMods::NONE, 0, &[]);
    func.set_edges(branch, &[edge]);
}
