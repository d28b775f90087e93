//! Branches, and the regions in which lanes may part.
//!
//! A branch becomes BRA under a guard, with the block that follows as its other way. A way into a block that does nothing but
//! exit becomes EXIT under a guard, unless the exit follows and the other way is a jump. `region_meet` becomes BSYNC at the end of its block: lanes go on at the address its BSSY names, which is
//! the block behind. A switch that is left becomes a load from a table and BRX. A branch that asks whether a predicate holds in a running lane is BRA.U.ANY, which asks itself: all
//! lanes take it or none.

use super::barrier::TRAP;
use super::compare;
use super::emission::Mod;
use super::selector::{Selector, pt, refused};
use super::sources;
use crate::module::{POINTER_BYTES, jump_table_name};
use crate::pipeline::PhaseError;
use crate::tail::{collective_start, goes_on_elsewhere};
use cranelift_entity::EntitySet;
use orias_ori::builder::Cursor;
use orias_ori::{
    AbstractMods, AbstractOp, Block, Edge, Function, Guard, Inst, Opcode, Operand, SourceMods,
    SymbolPart, Type, Value,
};
use orias_sass::Op;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;
use rustc_hash::FxHashMap;

type Done = Result<(), PhaseError>;

impl Selector<'_> {
    /// Block and arguments of edge `number` of the instruction being selected.
    fn way(&self, number: usize) -> Result<(Block, Vec<Value>), PhaseError> {
        match self.func.edges(self.at).get(number) {
            Some(&edge) => Ok((
                self.func.edge_target(edge),
                self.func.edge_args(edge).to_vec(),
            )),
            None => Err(self.broken("an edge is missing")),
        }
    }

    /// Emits a terminator.
    fn end(
        &mut self,
        op: Op,
        guard: Guard,
        target: Option<(Block, Vec<Value>)>,
        next: Option<(Block, Vec<Value>)>,
    ) -> Done {
        self.end_with(op, &[], guard, target, next)
    }

    fn end_with(
        &mut self,
        op: Op,
        mods: &[Mod],
        guard: Guard,
        target: Option<(Block, Vec<Value>)>,
        next: Option<(Block, Vec<Value>)>,
    ) -> Done {
        let mods = self.mods(op, mods)?;
        let mut cursor = Cursor::before(self.func, self.at);
        let mut builder = cursor.build(op).mods(mods).guard(guard).operand(pt());
        if let Some((block, args)) = target {
            builder = builder.target(block, &args);
        }
        if let Some((block, args)) = next {
            builder = builder.edge(block, &args);
        }
        let inst = builder.finish().map_err(refused)?;
        self.count_uses(inst);
        Ok(())
    }

    /// Whether `block` does nothing but exit.
    fn only_exits(&self, block: Block) -> bool {
        let only = self.func.layout.first_inst(block);
        only.is_some_and(|inst| {
            let op = self.func.opcode(inst);
            let exits = [
                Opcode::Abstract(AbstractOp::Exit),
                Opcode::Machine(Op::EXIT),
            ];
            exits.contains(&op)
                && self.func.layout.next_inst(inst).is_none()
                && self.func.inst(inst).guard().is_always()
        })
    }
}

pub(super) fn jump(s: &mut Selector<'_>) -> Done {
    let way = s.way(0)?;
    if s.only_exits(way.0) {
        // What leaves here is the exit, not the jump to it.
        let exit = s.func.layout.first_inst(way.0);
        let span = exit.and_then(|exit| s.func.inst(exit).span());
        s.func.set_span(s.at, span);
        return s.end(Op::EXIT, Guard::ALWAYS, None, None);
    }
    s.end(Op::BRA, Guard::ALWAYS, Some(way), None)
}

pub(super) fn branch(s: &mut Selector<'_>) -> Done {
    let (taken, other) = (s.way(0)?, s.way(1)?);
    let condition = s.operand(0);
    if let Some(any) = any_running(s, condition) {
        let mods = [(name::MODE, value::U_ANY)];
        return s.end_with(Op::BRA, &mods, any, Some(taken), Some(other));
    }
    let (predicate, opposite) = match compare::opposite_test(s, condition)? {
        Some(set) => (
            Operand::from(set),
            !condition.mods().contains(SourceMods::NOT),
        ),
        None => (s.predicate(0).operand, false),
    };
    let negated = opposite || predicate.mods().contains(SourceMods::NOT);
    let Some(reg) = predicate.reg() else {
        return Err(s.broken("no condition"));
    };
    if reg.value().is_none() {
        // PT or its opposite: the way is known.
        let way = if negated { other } else { taken };
        return s.end(Op::BRA, Guard::ALWAYS, Some(way), None);
    }
    let when = |negated: bool| match negated {
        true => Guard::unless(reg),
        false => Guard::when(reg),
    };
    let next = s.func.layout.next_block(s.block);
    // An exit that follows is fallen into if the other way is a jump in any case.
    let behind = next.and_then(|next| s.func.layout.next_block(next));
    let falls = |exit: Block, other: Block| next == Some(exit) && behind != Some(other);
    if s.only_exits(taken.0) && !falls(taken.0, other.0) {
        return s.end(Op::EXIT, when(negated), None, Some(other));
    }
    if s.only_exits(other.0) && !falls(other.0, taken.0) {
        return s.end(Op::EXIT, when(!negated), None, Some(taken));
    }
    // The way that comes next in the layout is fallen into.
    if next == Some(taken.0) && next != Some(other.0) {
        return s.end(Op::BRA, when(!negated), Some(other), Some(taken));
    }
    s.end(Op::BRA, when(negated), Some(taken), Some(other))
}

/// The predicate that `condition` asks all running lanes for, as the guard of a branch, if nobody else reads the answer.
fn any_running(s: &mut Selector<'_>, condition: Operand) -> Option<Guard> {
    let plain = condition.as_value().filter(|_| condition.mods().is_empty());
    let asked = s.absorbable(plain?, AbstractOp::AnyRunning)?;
    let source = s.func.operands(asked)[s.func.result_count(asked)];
    let predicate = s.predicate_of(source).operand;
    let reg = predicate.reg().filter(|reg| reg.value().is_some())?;
    Some(match predicate.mods().contains(SourceMods::NOT) {
        true => Guard::unless(reg),
        false => Guard::when(reg),
    })
}

/// A jump through a table in the kernel's constant bank. The table has the offsets of the ways from the start of the text, which the branch counts from.
pub(super) fn switch(s: &mut Selector<'_>) -> Done {
    let index = s.word_of(s.operand(0));
    let index = s.in_register(index)?;
    let symbol = s.func.symbol(&jump_table_name(s.block.as_u32()));
    let named = |part| Operand::Symbol {
        symbol,
        part,
        addend: 0,
    };
    let place = s.temporary(Type::R);
    let amount = Operand::imm(u64::from(POINTER_BYTES.trailing_zeros()));
    let start = named(SymbolPart::Low);
    s.emit(Op::LEA, &[], sources![place, pt(), index, start, amount])?;
    let to = s.temporary(Type::R2);
    let from = Operand::Const {
        mods: SourceMods::NONE,
        bank: s.machine.abi.pointer_bank,
        offset: 0,
        index: Some(place.into()).into(),
    };
    s.emit(Op::LDC, &[(name::SIZE, value::_64)], sources![to, from])?;
    let ways: Vec<(Block, Vec<Value>)> = (0..s.func.edges(s.at).len())
        .map(|number| s.way(number))
        .collect::<Result<_, _>>()?;
    let mods = s.mods(Op::BRX, &[])?;
    let mut cursor = Cursor::before(s.func, s.at);
    let mut builder = cursor.build(Op::BRX).mods(mods).operand(pt()).operand(to);
    builder = builder.operand(named(SymbolPart::Whole));
    for (block, args) in &ways {
        builder = builder.edge(*block, args);
    }
    let inst = builder.finish().map_err(refused)?;
    s.count_uses(inst);
    Ok(())
}

pub(super) fn exit(s: &mut Selector<'_>) -> Done {
    s.end(Op::EXIT, Guard::ALWAYS, None, None)
}

pub(super) fn trap(s: &mut Selector<'_>) -> Done {
    s.emit(Op::BPT, &[TRAP], sources![Operand::imm(1)])?;
    s.end(Op::EXIT, Guard::ALWAYS, None, None)
}

/// The block named is the one with the BSYNC; [`finish`] makes it the one behind.
pub(super) fn open(s: &mut Selector<'_>) -> Done {
    let block = s.operand(0);
    let token = s.result(0);
    if token.as_value().is_none() {
        return Ok(());
    }
    s.emit_guarded(Op::BSSY, &[], sources![pt(), token, block])?;
    Ok(())
}

pub(super) fn meet(s: &mut Selector<'_>) -> Done {
    let token = s.operand(0);
    s.emit_guarded(Op::BSYNC, &[], sources![pt(), token])?;
    Ok(())
}

pub(super) fn leave(s: &mut Selector<'_>) -> Done {
    let Some(token) = s.operand(0).as_value() else {
        return Err(s.broken("no token"));
    };
    let left = s.func.create_value(s.func.value_type(token));
    s.keep(left, token);
    s.emit_guarded(Op::BREAK, &[], sources![pt(), left])?;
    Ok(())
}

/// Lets other lanes run: those in this block, once they have met there, may be waiting for them.
pub(super) fn yield_to_others(s: &mut Selector<'_>, block: Block) -> Done {
    let mut insts = s.func.block_insts(block);
    let Some(first) = insts.find(|&inst| machine_op(s.func, inst) != Some(Op::BSYNC)) else {
        return Ok(());
    };
    s.go_to(block, first);
    s.emit(Op::YIELD, &[], sources![pt()])?;
    Ok(())
}

/// Drops regions that nobody meets in, cuts blocks behind each BSYNC and each collective operation, points BSSY and the operation there, and makes falling through
/// explicit.
pub(super) fn finish(func: &mut Function) -> Done {
    drop_idle_regions(func);
    cut_behind_meetings(func)?;
    fall_through(func)
}

/// Takes away BSSY and BREAK of regions whose lanes never meet: selection found that no way leads to the BSYNC.
fn drop_idle_regions(func: &mut Function) {
    let (mut opens, mut leaves, mut met) = (Vec::new(), Vec::new(), EntitySet::new());
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        match machine_op(func, inst) {
            Some(Op::BSSY) => opens.push(inst),
            Some(Op::BREAK) => leaves.push(inst),
            Some(Op::BSYNC) => met.extend(func.value_uses(inst)),
            _ => {}
        }
    }
    let mut idle: EntitySet<Value> = EntitySet::new();
    for open in opens {
        if func.value_defs(open).all(|token| !met.contains(token)) {
            idle.extend(func.value_defs(open));
            func.remove_inst(open);
        }
    }
    for leave in leaves {
        if func.value_uses(leave).any(|token| idle.contains(token)) {
            func.remove_inst(leave);
        }
    }
}

fn machine_op(func: &Function, inst: Inst) -> Option<Op> {
    func.opcode(inst).as_machine()
}

fn cut_behind_meetings(func: &mut Function) -> Done {
    let blocks: Vec<Block> = func.blocks().collect();
    let mut behind = Vec::new();
    for block in blocks {
        let meetings: Vec<Inst> = func
            .block_insts(block)
            .filter(|&inst| goes_on_elsewhere(func, inst))
            .collect();
        let mut start = block;
        for meeting in meetings {
            let Some(rest) = func.layout.next_inst(meeting) else {
                continue;
            };
            let tail = func.split_block(rest);
            place_fall(func, start, tail, &[]);
            if machine_op(func, meeting) == Some(Op::BSYNC) {
                behind.push((block, meeting, tail));
            } else if let Some(opening) = collective_start(func, meeting) {
                func.set_operand(opening, 1, Operand::Block(tail));
            }
            start = tail;
        }
    }
    let opens: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| machine_op(func, inst) == Some(Op::BSSY))
        .collect();
    for open in opens {
        let [_, token, target] = func.operands(open) else {
            continue;
        };
        let (token, Operand::Block(named)) = (*token, *target) else {
            continue;
        };
        // The meeting that waits for this token in the block named.
        let found = behind
            .iter()
            .find(|(block, meeting, _)| *block == named && func.operands(*meeting)[1] == token);
        if let Some(&(.., tail)) = found {
            func.set_operand(open, 2, Operand::Block(tail));
        }
    }
    Ok(())
}

/// Ends `from` by falling into `to`.
fn place_fall(func: &mut Function, from: Block, to: Block, args: &[Value]) {
    let inst = func.create_abstract(AbstractOp::FallThrough, AbstractMods::NONE, 0, &[]);
    let edge = func.create_edge(to, args);
    func.set_edges(inst, &[edge]);
    func.layout.append_inst(inst, from);
}

/// Jumps to the block that follows become `next`; where a branch goes on elsewhere, a block with the jump is put between. Of two ways of which neither follows, the one that
/// goes back is taken by the branch: a loop has one jump then, and what it carries needs no block on its edge.
fn fall_through(func: &mut Function) -> Done {
    let blocks: Vec<Block> = func.blocks().collect();
    let place: FxHashMap<Block, usize> = (blocks.iter().copied().enumerate())
        .map(|(place, block)| (block, place))
        .collect();
    for (at, &block) in blocks.iter().enumerate() {
        let Some(last) = func.terminator(block) else {
            continue;
        };
        let next = func.layout.next_block(block);
        let guarded = !func.inst(last).guard().is_always();
        match machine_op(func, last) {
            Some(Op::BRA) if !guarded => {
                let edge = func.edges(last)[0];
                if next == Some(func.edge_target(edge)) {
                    let args = func.edge_args(edge).to_vec();
                    let span = func.inst(last).span();
                    let to = func.edge_target(edge);
                    func.remove_inst(last);
                    place_fall(func, block, to, &args);
                    if let Some(inst) = func.layout.last_inst(block) {
                        func.set_span(inst, span);
                    }
                }
            }
            Some(op) if guarded => {
                let Some(&edge) = func.edges(last).last() else {
                    continue;
                };
                if next != Some(func.edge_target(edge)) {
                    if op == Op::BRA {
                        let back = |edge: Edge| {
                            let target = place.get(&func.edge_target(edge));
                            target.is_some_and(|&target| target <= at)
                        };
                        let ways = func.edges(last);
                        if back(edge) && !back(ways[0]) {
                            turn_round(func, last);
                        }
                    }
                    jump_between(func, block, edge)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Exchanges the ways of a conditional branch.
fn turn_round(func: &mut Function, branch: Inst) {
    let guard = func.inst(branch).guard();
    let (&[taken, other], Some(predicate)) = (func.edges(branch), guard.reg()) else {
        return;
    };
    let way = |edge: Edge| (func.edge_target(edge), func.edge_args(edge).to_vec());
    let (first, second) = (way(taken), way(other));
    func.set_edge(taken, second.0, &second.1);
    func.set_edge(other, first.0, &first.1);
    let opposite = match guard.is_negated() {
        true => Guard::when(predicate),
        false => Guard::unless(predicate),
    };
    func.set_guard(branch, opposite);
}

/// Puts a block with a jump behind `block`, on `edge`.
fn jump_between(func: &mut Function, block: Block, edge: Edge) -> Done {
    let (to, args) = (func.edge_target(edge), func.edge_args(edge).to_vec());
    let middle = func.create_block();
    func.layout.insert_block_after(middle, block);
    func.set_edge(edge, middle, &[]);
    Cursor::at_end(func, middle)
        .build(Op::BRA)
        .operand(pt())
        .target(to, &args)
        .finish()
        .map_err(refused)?;
    Ok(())
}
