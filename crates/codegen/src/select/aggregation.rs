//! Warp aggregation: lanes that update one word together do it once.
//!
//! Memory takes the updates of one word one after the other. Where the address is the same in all lanes that run, the warp combines their numbers
//! by itself (REDUX), and one of them updates memory:
//!
//! ```text
//! ELECT P0, URZ, PT
//! REDUX.SUM UR4, R5
//! MOV R6, UR4
//! @P0 REDG.E.ADD.STRONG.GPU desc[UR2][R2.64], R6
//! ```
//!
//! That works for reductions (nobody asks what was there before) by what REDUX can do: sums, bits, least and greatest of 32-bit integers. A number that all
//! lanes share needs no REDUX where once is as good as often. Under a guard the lanes that it leaves out bring what changes nothing, and nobody of
//! them is elected. Nothing is asked of lanes that run elsewhere: each group of lanes updates memory for itself.
//!
//! Where lanes may come in parts ([`super::gathering`], [`super::arms`]) REDUX has no place: each part would be right by itself, but fewer have less to share, and the judge asks
//! for all that come. A number that all share is added there, too, as many times as a vote says that lanes run:
//!
//! ```text
//! VOTE.ANY R5, PT, PT
//! POPC R5, R5
//! ELECT P0, URZ, PT
//! @P0 REDG.E.ADD.STRONG.GPU desc[UR2][R2.64], R5
//! ```
//!
//! Not where one lane comes alone, so far as that is easily seen: behind a comparison of a thread's or lane's number with one that all share,
//! or behind `elect`.

use super::selector::{Selector, pt, rz, urz};
use super::source::Source;
use super::{WORD, arms, sources};
use crate::pipeline::PhaseError;
use cranelift_entity::EntitySet;
use orias_ori::analysis::{Divergence, DominatorTree, FlowGraph, LoopNest};
use orias_ori::operation::{Compare, Reduce, Scalar, Space, Special, Vector};
use orias_ori::{
    AbstractOp, Block, Class, Function, Guard, Inst, Operand, Reg, SourceMods, Type, Value,
};
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;
use orias_sass::{Op, ValueName};

/// How many dominators are looked at for the branch that lets one lane through.
const BRANCHES: usize = 8;

/// How many copies, masks and sums are looked through for a thread's number.
const STEPS: usize = 4;

/// The updates that lanes make together.
#[derive(Default)]
pub(super) struct Aggregated {
    updates: EntitySet<Inst>,
    /// Those of them that all lanes bring the same number to.
    shared_number: EntitySet<Inst>,
    /// Those of these to which lanes may come in parts.
    in_parts: EntitySet<Inst>,
}

/// The updates of `func` whose address is the same in all lanes that come, where several may come.
pub(super) fn find(
    func: &Function,
    graph: &FlowGraph,
    nest: &LoopNest,
    dominators: &DominatorTree,
    divergence: &Divergence,
    unparted: &EntitySet<Inst>,
) -> Aggregated {
    let mut found = Aggregated::default();
    let lanes = Lanes {
        func,
        graph,
        nest,
        dominators,
        divergence,
    };
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            if !is_combinable(func, inst)
                || !lanes.share_address(block, inst)
                || lanes.come_alone(block, inst)
            {
                continue;
            }
            let number = func.operands(inst)[func.result_count(inst) + 1];
            let shared = lanes.share(block, number);
            let in_parts =
                !unparted.contains(inst) || arms::lead_to(func, graph, divergence, block, inst);
            if in_parts && (!shared || func.modifier(inst) == Some(Reduce::Xor)) {
                continue;
            }
            found.updates.insert(inst);
            if shared {
                found.shared_number.insert(inst);
            }
            if in_parts {
                found.in_parts.insert(inst);
            }
        }
    }
    found
}

/// Whether `inst` updates a word by something that a warp computes by itself.
fn is_combinable(func: &Function, inst: Inst) -> bool {
    use Reduce::{Add, And, Max, Min, Or, Xor};
    matches!(
        func.opcode(inst).as_abstract(),
        Some(AbstractOp::Atom | AbstractOp::Red)
    ) && matches!(
        func.modifier(inst),
        Some(Scalar::U32 | Scalar::S32 | Scalar::B32)
    ) && matches!(func.modifier(inst), Some(Add | Min | Max | And | Or | Xor))
        && func.modifier(inst) == Some(Vector::V1)
        && matches!(
            func.modifier(inst),
            Some(Space::Global | Space::Generic | Space::Shared)
        )
}

struct Lanes<'a> {
    func: &'a Function,
    graph: &'a FlowGraph,
    nest: &'a LoopNest,
    dominators: &'a DominatorTree,
    divergence: &'a Divergence,
}

impl Lanes<'_> {
    /// Whether lanes that are together in `block` have the same in `operand`.
    fn share(&self, block: Block, operand: Operand) -> bool {
        match operand.as_value() {
            Some(value) => self.divergence.is_uniform_at(value, block, self.nest),
            None => true,
        }
    }

    fn share_address(&self, block: Block, inst: Inst) -> bool {
        let Operand::Address(id) = self.func.operands(inst)[self.func.result_count(inst)] else {
            return false;
        };
        let base = self.func.address(id).base.get().and_then(Reg::value);
        base.is_none_or(|base| self.divergence.is_uniform_at(base, block, self.nest))
    }

    /// Whether one lane comes alone to `inst` in `block`, so far as that is easily seen.
    fn come_alone(&self, block: Block, inst: Inst) -> bool {
        let func = self.func;
        if self.divergence.is_lone(block) {
            return true;
        }
        let guard = func.inst(inst).guard();
        if let Some(condition) = guard.reg().and_then(Reg::value)
            && self.names_one_lane(block, condition, !guard.is_negated())
        {
            return true;
        }
        let mut at = block;
        for _ in 0..BRANCHES {
            let Some(above) = self.dominators.immediate_dominator(at) else {
                return false;
            };
            if self.graph.preds(at).len() == 1
                && let Some(last) = func.terminator(above)
                && func.opcode(last).as_abstract() == Some(AbstractOp::CondBr)
                && let condition = func.operands(last)[0]
                && let Some(value) = condition.as_value()
            {
                let taken = func.edge_target(func.edges(last)[0]) == at;
                let truth = taken != condition.mods().contains(SourceMods::NOT);
                if self.names_one_lane(above, value, truth) {
                    return true;
                }
            }
            at = above;
        }
        false
    }

    /// Whether `condition` is `truth` in one lane only.
    fn names_one_lane(&self, block: Block, condition: Value, truth: bool) -> bool {
        let func = self.func;
        let Some(inst) = func.defining_inst(condition) else {
            return false;
        };
        let sources = &func.operands(inst)[func.result_count(inst)..];
        match func.opcode(inst).as_abstract() {
            Some(AbstractOp::Elect) => truth,
            Some(AbstractOp::And) if truth => {
                let mut parts = sources.iter().filter_map(|part| part.as_value());
                parts.any(|part| self.names_one_lane(block, part, truth))
            }
            Some(AbstractOp::Setp) => {
                let equal = match func.modifier::<Compare>(inst) {
                    Some(Compare::Eq) => truth,
                    Some(Compare::Ne) => !truth,
                    _ => false,
                };
                let (a, b) = (sources[0], sources[1]);
                equal
                    && (self.share(block, b) && self.is_lane_number(a, STEPS)
                        || self.share(block, a) && self.is_lane_number(b, STEPS))
            }
            _ => false,
        }
    }

    /// Whether `operand` is made from a number that tells lanes apart.
    fn is_lane_number(&self, operand: Operand, steps: usize) -> bool {
        let func = self.func;
        let Some(inst) = operand.as_value().and_then(|it| func.defining_inst(it)) else {
            return false;
        };
        if steps == 0 {
            return false;
        }
        let sources = &func.operands(inst)[func.result_count(inst)..];
        match func.opcode(inst).as_abstract() {
            Some(AbstractOp::Sreg) => {
                matches!(func.modifier(inst), Some(Special::TidX | Special::LaneId))
            }
            Some(
                AbstractOp::Mov
                | AbstractOp::And
                | AbstractOp::Add
                | AbstractOp::Mad
                | AbstractOp::Cvt,
            ) => sources
                .iter()
                .any(|&source| self.is_lane_number(source, steps - 1)),
            _ => false,
        }
    }
}

impl Selector<'_> {
    /// Where the lanes of the update being selected make it together: the number that one of them updates memory with, which the guard now
    /// chooses. `size` is what the machine takes the word for.
    pub(super) fn for_all_lanes(
        &mut self,
        reduce: Reduce,
        size: ValueName,
    ) -> Result<Option<Source>, PhaseError> {
        let at = self.at;
        if !self.aggregated.updates.contains(at) {
            return Ok(None);
        }
        let once = !matches!(reduce, Reduce::Add | Reduce::Xor);
        let number = self.word(1);
        let combined = match once && self.aggregated.shared_number.contains(at) {
            true => number,
            false if self.aggregated.in_parts.contains(at) => self.count_times(number)?,
            false => self.combine(number, reduce, size)?,
        };
        self.guard = self.elected()?;
        Ok(Some(combined))
    }

    /// `number` as many times as lanes run that the guard lets through.
    fn count_times(&mut self, number: Source) -> Result<Source, PhaseError> {
        let guard = self.guard;
        let running = self.temporary(WORD);
        if !guard.is_always() {
            let nobody = self.temporary(WORD);
            let all = Operand::imm(0xf);
            self.emit(Op::MOV, &[], sources![nobody, rz(), all])?;
            self.keep(running, nobody);
        }
        let mode = [(name::MODE, value::ANY)];
        self.emit_with(Op::VOTE, &mode, sources![running, pt(), pt()], guard)?;
        let count = self.temporary(WORD);
        self.emit(Op::POPC, &[], sources![count, running])?;
        if number.constant() == Some(1) {
            return Ok(count.into());
        }
        let product = self.temporary(WORD);
        let mods = [(name::SIGN, value::U32)];
        self.emit(Op::IMAD, &mods, sources![product, count, number, rz()])?;
        Ok(product.into())
    }

    /// What `number` comes to in all lanes that run and that the guard lets through.
    fn combine(
        &mut self,
        number: Source,
        reduce: Reduce,
        size: ValueName,
    ) -> Result<Source, PhaseError> {
        let signed = size == value::S32;
        let (function, idle) = match reduce {
            Reduce::Add => (value::SUM, 0),
            Reduce::Or => (value::OR, 0),
            Reduce::Xor => (value::XOR, 0),
            Reduce::And => (value::AND, u32::MAX),
            Reduce::Min if signed => (value::MIN, i32::MAX as u32),
            Reduce::Min => (value::MIN, u32::MAX),
            Reduce::Max if signed => (value::MAX, i32::MIN as u32),
            Reduce::Max => (value::MAX, 0),
            _ => return Err(self.unsupported()),
        };
        let number = match self.guard.reg() {
            None => self.in_register(number)?,
            Some(reg) => {
                let mods = match self.guard.is_negated() {
                    true => SourceMods::NOT,
                    false => SourceMods::NONE,
                };
                let number = self.in_register(number)?;
                let chosen = self.temporary(WORD);
                let guard = Operand::Reg { reg, mods };
                let idle = match idle {
                    0 => rz().into(),
                    idle => Source::imm(idle),
                };
                self.emit(Op::SEL, &[], sources![chosen, number, idle, guard])?;
                chosen
            }
        };
        let uniform = self.temporary(Type::single(Class::UR));
        let sign = match function {
            value::MIN | value::MAX if signed => value::S32,
            _ => value::U32,
        };
        let mods = [(name::FN, function), (name::SIGN, sign)];
        self.emit(Op::REDUX, &mods, sources![uniform, number])?;
        let combined = self.temporary(WORD);
        let all = Operand::imm(0xf);
        self.emit(Op::MOV, &[], sources![combined, uniform, all])?;
        Ok(combined.into())
    }

    /// One of the lanes that run and that the guard lets through.
    fn elected(&mut self) -> Result<Guard, PhaseError> {
        let elected = self.temporary(Type::P);
        let guard = self.guard;
        if !guard.is_always() {
            let nobody = self.temporary(Type::P);
            let never = Operand::imm(0x8);
            let zero = Operand::imm(0);
            let operands = sources![nobody, pt(), pt(), pt(), pt(), never, zero];
            self.emit(Op::PLOP3, &[], operands)?;
            self.keep(elected, nobody);
        }
        self.emit_with(Op::ELECT, &[], sources![elected, urz(), pt()], guard)?;
        Ok(Guard::when(elected))
    }
}
