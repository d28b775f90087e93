//! Lock-free retry loops: loops that retry an update of memory and wait for nobody.
//!
//! A lane that goes around in such a loop does so because another thread has changed the word it wants to change: somebody made progress, and
//! this lane will, too, as soon as the others leave the word alone. It needs nothing from lanes that have left the loop, so it need not let
//! them run (`waits`).
//!
//! **Criterion.** A loop retries if it has a comparing exchange such that
//!
//! 1. every way around passes a branch behind the exchange that goes on only if the exchange failed: it stored nothing, because what memory
//!    holds is not what was compared;
//! 2. what is compared in the next iteration is what memory held: the exchange's result, at an address that is the same in every iteration, or what a load
//!    of the same address found in that iteration. *Exactly* that value: `old & ~LOCKED` waits for the lock to be released.
//!
//! Nothing is asked of other branches, for they can only leave earlier or skip parts of an iteration that ends at the failed exchange. A try-lock (compares with a constant), an
//! exchange, a ticket, a flag, and a loop that goes around on other grounds do not fulfil it. In doubt a loop waits.
//!
//! Cost: linear in the instructions of loops, for each comparing exchange at most once through the blocks of its loop.

use cranelift_entity::EntitySet;
use orias_ori::analysis::{DominatorTree, FlowGraph, Loop, LoopNest};
use orias_ori::operation::{Combine, Compare, Reduce, Scalar, Space};
use orias_ori::{AbstractOp, Block, Function, Inst, Operand, SourceMods, Value, ValueDef};

/// How far copies are followed, and from how many edges.
const COPIES: usize = 4;

/// The loops of `nest` that retry; see the module.
pub(super) fn find(
    func: &Function,
    graph: &FlowGraph,
    nest: &LoopNest,
    dominators: &DominatorTree,
) -> EntitySet<Loop> {
    let mut found = EntitySet::new();
    for block in func.blocks() {
        let Some(around) = nest.innermost(block) else {
            continue;
        };
        for inst in func.block_insts(block) {
            if found.contains(around) {
                break;
            }
            let looking = Exchange::new(func, inst).map(|exchange| Looking {
                func,
                graph,
                nest,
                dominators,
                around,
                block,
                exchange,
            });
            if looking.is_some_and(|looking| looking.retries()) {
                found.insert(around);
            }
        }
    }
    found
}

/// A comparing exchange.
struct Exchange {
    inst: Inst,
    /// Whether the result is if it stored, and not what memory held.
    tells: bool,
    result: Value,
    compared: Value,
}

impl Exchange {
    fn new(func: &Function, inst: Inst) -> Option<Self> {
        if func.opcode(inst).as_abstract() != Some(AbstractOp::Atom)
            || !func.inst(inst).guard().is_always()
        {
            return None;
        }
        let tells = match func.modifier::<Reduce>(inst)? {
            Reduce::Cas => false,
            Reduce::Cast => true,
            _ => return None,
        };
        let results = func.result_count(inst);
        Some(Exchange {
            inst,
            tells,
            result: func.operands(inst)[0].as_value()?,
            compared: func.operands(inst)[results + 1].as_value()?,
        })
    }
}

struct Looking<'a> {
    func: &'a Function,
    graph: &'a FlowGraph,
    nest: &'a LoopNest,
    dominators: &'a DominatorTree,
    around: Loop,
    /// Where the exchange is.
    block: Block,
    exchange: Exchange,
}

impl Looking<'_> {
    fn retries(&self) -> bool {
        let (nest, around) = (self.nest, self.around);
        if nest.is_irreducible(around) || !self.compares_with_memory() {
            return false;
        }
        nest.own_blocks(around).iter().any(|&branch| {
            let every_way = |&latch: &Block| self.dominators.dominates(branch, latch);
            self.dominators.dominates(self.block, branch)
                && nest.latches(around).iter().all(every_way)
                && self.goes_on_if_failed(branch)
        })
    }

    /// Whether the branch at the end of `block` stays in the loop only if the exchange failed.
    fn goes_on_if_failed(&self, block: Block) -> bool {
        let func = self.func;
        let Some(last) = func.terminator(block) else {
            return false;
        };
        if func.opcode(last).as_abstract() != Some(AbstractOp::CondBr) {
            return false;
        }
        let stays = |edge: usize| {
            let to = func.edge_target(func.edges(last)[edge]);
            self.nest.contains(self.around, to)
        };
        let truth = match (stays(0), stays(1)) {
            (true, false) => true,
            (false, true) => false,
            _ => return false,
        };
        self.implies_failure(func.operands(last)[0], truth, COPIES)
    }

    /// Whether `condition` is `truth` only if the exchange failed.
    fn implies_failure(&self, condition: Operand, truth: bool, depth: usize) -> bool {
        let func = self.func;
        let Some(inst) = condition
            .as_value()
            .and_then(|value| match func.value_def(value) {
                ValueDef::Inst(inst, 0) => Some(inst),
                _ => None,
            })
        else {
            return false;
        };
        if depth == 0 || !func.inst(inst).guard().is_always() {
            return false;
        }
        let truth = truth != condition.mods().contains(SourceMods::NOT);
        let sources = &func.operands(inst)[func.result_count(inst)..];
        let either = |truth: bool| {
            let mut parts = sources.iter();
            parts.any(|&part| self.implies_failure(part, truth, depth - 1))
        };
        match func.opcode(inst).as_abstract() {
            Some(AbstractOp::And) if truth => either(true),
            Some(AbstractOp::Or) if !truth => either(false),
            Some(AbstractOp::Not) => self.implies_failure(sources[0], !truth, depth - 1),
            Some(AbstractOp::Mov) => self.implies_failure(sources[0], truth, depth - 1),
            Some(AbstractOp::Setp) => {
                let combined = match func.modifier::<Combine>(inst) {
                    Some(Combine::None) => true,
                    Some(Combine::And) => truth,
                    Some(Combine::Or) => !truth,
                    _ => false,
                };
                let rest = sources.get(2).copied().unwrap_or(Operand::None);
                combined
                    && (self.comparison_implies_failure(inst, truth)
                        || self.implies_failure(rest, truth, depth - 1))
            }
            _ => false,
        }
    }

    /// The same of the comparison that `inst` makes.
    fn comparison_implies_failure(&self, inst: Inst, truth: bool) -> bool {
        let func = self.func;
        let sources = &func.operands(inst)[func.result_count(inst)..];
        let whole = func
            .modifier::<Scalar>(inst)
            .is_some_and(|scalar| is_integer(scalar) && scalar.bits() >= 32);
        let equal = match func.modifier::<Compare>(inst) {
            Some(Compare::Eq) => truth,
            Some(Compare::Ne) => !truth,
            _ => return false,
        };
        let plain = sources[..2]
            .iter()
            .all(|source| source.mods() == SourceMods::NONE);
        if !whole || !plain {
            return false;
        }
        let (a, b) = (sources[0], sources[1]);
        if self.exchange.tells {
            // The result is 1 or 0.
            let told = a.as_value().map(|value| self.low_word(self.origin(value)));
            let number = match b {
                Operand::Imm(imm) => imm.bits(),
                _ => return false,
            };
            return told == Some(self.exchange.result)
                && matches!((number, equal), (0, true) | (1, false));
        }
        let (Some(a), Some(b)) = (a.as_value(), b.as_value()) else {
            return false;
        };
        let (a, b) = (self.origin(a), self.origin(b));
        let (result, compared) = (self.exchange.result, self.origin(self.exchange.compared));
        !equal && ((a, b) == (result, compared) || (b, a) == (result, compared))
    }

    /// What `value` is the low word of, or itself.
    fn low_word(&self, value: Value) -> Value {
        let func = self.func;
        let Some(inst) = func.defining_inst(value) else {
            return value;
        };
        let cuts = func.opcode(inst).as_abstract() == Some(AbstractOp::Cvt)
            && func.inst(inst).guard().is_always();
        match func.operands(inst).get(1).and_then(|it| it.as_value()) {
            Some(wide) if cuts => self.origin(wide),
            _ => value,
        }
    }

    /// Whether what is compared is what memory held when this iteration or the exchange of the last one looked.
    fn compares_with_memory(&self) -> bool {
        let func = self.func;
        match func.value_def(self.origin(self.exchange.compared)) {
            ValueDef::Inst(load, 0) => {
                let inside = func
                    .layout
                    .inst_block(load)
                    .is_some_and(|block| self.nest.contains(self.around, block));
                inside && self.reads_the_same(load)
            }
            ValueDef::Param(header, index) => {
                !self.exchange.tells
                    && header == self.nest.header(self.around)
                    && self.address_stays()
                    && self
                        .nest
                        .latches(self.around)
                        .iter()
                        .all(|&latch| self.passes_result(latch, header, usize::from(index)))
            }
            _ => false,
        }
    }

    /// Whether every edge from `latch` to `header` has the exchange's result for parameter `index`.
    fn passes_result(&self, latch: Block, header: Block, index: usize) -> bool {
        let func = self.func;
        func.successor_edges(latch).iter().all(|&edge| {
            func.edge_target(edge) != header
                || func
                    .edge_args(edge)
                    .get(index)
                    .is_some_and(|&arg| self.origin(arg) == self.exchange.result)
        })
    }

    /// Whether `load` reads what the exchange changes.
    fn reads_the_same(&self, load: Inst) -> bool {
        let (func, exchange) = (self.func, self.exchange.inst);
        let address = |inst: Inst| match func.operands(inst).get(func.result_count(inst)) {
            Some(&Operand::Address(id)) => Some(*func.address(id)),
            _ => None,
        };
        let bits = |inst| func.modifier::<Scalar>(inst).map(Scalar::bits);
        func.opcode(load).as_abstract() == Some(AbstractOp::Ld)
            && func.inst(load).guard().is_always()
            && address(load) == address(exchange)
            && func.modifier::<Space>(load) == func.modifier::<Space>(exchange)
            && bits(load) == bits(exchange)
    }

    /// Whether the address of the exchange is the same in every iteration.
    fn address_stays(&self) -> bool {
        let func = self.func;
        let place = func.operands(self.exchange.inst)[func.result_count(self.exchange.inst)];
        let Operand::Address(id) = place else {
            return false;
        };
        let Some(base) = func.address(id).base.get() else {
            return true;
        };
        let made_in = base.value().map(|base| func.value_def(base));
        let block = match made_in {
            Some(ValueDef::Inst(inst, _)) => func.layout.inst_block(inst),
            Some(ValueDef::Param(block, _)) => Some(block),
            _ => None,
        };
        block.is_some_and(|block| !self.nest.contains(self.around, block))
    }

    /// The value that `value` is a copy of.
    fn origin(&self, value: Value) -> Value {
        self.origin_within(value, COPIES)
    }

    fn origin_within(&self, value: Value, depth: usize) -> Value {
        let func = self.func;
        if depth == 0 {
            return value;
        }
        match func.value_def(value) {
            ValueDef::Inst(inst, 0)
                if func.opcode(inst).as_abstract() == Some(AbstractOp::Mov)
                    && func.inst(inst).guard().is_always() =>
            {
                match func.operands(inst)[1].as_value() {
                    Some(from) if func.operands(inst)[1].mods() == SourceMods::NONE => {
                        self.origin_within(from, depth - 1)
                    }
                    _ => value,
                }
            }
            ValueDef::Param(block, index)
                if self.nest.headed_by(block).is_none()
                    && self.graph.preds(block).len() <= COPIES =>
            {
                let mut origins = self.graph.preds(block).iter().flat_map(|&from| {
                    let edges = func.successor_edges(from).iter();
                    edges
                        .filter(|&&edge| func.edge_target(edge) == block)
                        .map(|&edge| func.edge_args(edge).get(usize::from(index)))
                        .map(|arg| arg.map(|&arg| self.origin_within(arg, depth - 1)))
                });
                match origins.next() {
                    Some(Some(first)) if origins.all(|it| it == Some(first)) => first,
                    _ => value,
                }
            }
            _ => value,
        }
    }
}

fn is_integer(scalar: Scalar) -> bool {
    use Scalar::{B32, B64, S32, S64, U32, U64};
    matches!(scalar, B32 | B64 | S32 | S64 | U32 | U64)
}
