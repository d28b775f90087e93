//! Barriers of the thread block, fences, and what makes a thread wait or stop.

use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use cranelift_entity::EntitySet;
use orias_ori::operation::{Aligned, Combine, Order, Proxy, Scope};
use orias_ori::{AbstractOp, Function, Guard, Inst, Operand, Type};
use orias_sass::Op;

type Done = Result<(), PhaseError>;

/// A barrier that does not keep other warps from running.
const DEFER: (&str, &str) = ("defer", "DEFER_BLOCKING");

/// How a barrier and its number of threads are given.
enum Named {
    /// One operand each.
    Apart(Source, Source),
    /// Both in one register: the count from bit 16 on.
    Packed(Source),
}

/// Barrier and count from sources 0 and 1.
fn named(s: &mut Selector<'_>) -> Result<Named, PhaseError> {
    let number = s.word(0);
    let count = match s.operand(1) {
        Operand::None => Operand::imm(0).into(),
        operand => {
            let count = s.word_of(operand);
            match count.is_zero() {
                true => Operand::imm(0).into(),
                false => count,
            }
        }
    };
    let number = match number.is_zero() {
        true => Operand::imm(0).into(),
        false => number,
    };
    if number.constant().is_some() || count.constant().is_some() {
        let number = register_or_number(s, number)?;
        let count = register_or_number(s, count)?;
        return Ok(Named::Apart(number, count));
    }
    // ptxas: the count above bit 16, four bits of the number below.
    let raised = s.temporary(WORD);
    let mods = [("dir", "L"), ("type", "U32")];
    s.emit(
        Op::SHF,
        &mods,
        sources![raised, count, Source::imm(16), rz()],
    )?;
    let both = s.temporary(WORD);
    let number = s.in_register(number)?;
    // raised | mask & number
    let table = Operand::imm(0xf8);
    let operands = sources![
        pt(),
        both,
        raised,
        Source::imm(0xf),
        number,
        table,
        not_pt()
    ];
    s.emit(Op::LOP3, &[], operands)?;
    Ok(Named::Packed(both.into()))
}

fn register_or_number(s: &mut Selector<'_>, source: Source) -> Result<Source, PhaseError> {
    match source.operand {
        Operand::Imm(_) => Ok(source),
        _ => Ok(s.in_register(source)?.into()),
    }
}

impl Selector<'_> {
    /// Brings the lanes of the warp together where they may have parted.
    pub(super) fn gather_lanes(&mut self) -> Done {
        if !self.together.contains(self.at) {
            self.emit_guarded(Op::WARPSYNC_ALL, &[], sources![pt()])?;
        }
        Ok(())
    }
}

/// How the lanes of a warp come to a barrier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coming {
    /// All at once, or brought together in front of it.
    Together,
    /// From several places that execute one instruction together.
    Collectively,
}

/// The kinds of barriers that lanes of one warp may come to from several places.
#[derive(Clone, Copy)]
enum Kind {
    Sync,
    Arrive,
    Reduce,
}

/// The barriers that do not ask for whole warps and that lanes come to while others are elsewhere.
#[derive(Default)]
pub(super) struct ScatteredBarriers {
    found: EntitySet<Inst>,
    /// How many there are, by kind.
    counts: [u32; 3],
}

impl ScatteredBarriers {
    /// Those of `func` that are among the operations that lanes come to `apart`.
    pub(super) fn of(func: &Function, apart: &EntitySet<Inst>) -> Self {
        let mut scattered = Self::default();
        for block in func.blocks() {
            for inst in func.block_insts(block) {
                let kind = match func.opcode(inst).as_abstract() {
                    Some(AbstractOp::Bar) => Kind::Sync,
                    Some(AbstractOp::BarArrive) => Kind::Arrive,
                    Some(AbstractOp::BarRed | AbstractOp::BarRedPopc) => Kind::Reduce,
                    _ => continue,
                };
                if func.modifier::<Aligned>(inst) == Some(Aligned::Any) && apart.contains(inst) {
                    scattered.found.insert(inst);
                    scattered.counts[kind as usize] += 1;
                }
            }
        }
        scattered
    }
}

/// Whether one of the blocks that `are` asked about has a barrier that does not ask for whole warps.
pub(super) fn any_for_threads(func: &Function, are: &[bool]) -> bool {
    use AbstractOp as A;
    let is_barrier = |inst| {
        let op = func.opcode(inst).as_abstract();
        matches!(op, Some(A::Bar | A::BarArrive | A::BarRed | A::BarRedPopc))
            && func.modifier::<Aligned>(inst) == Some(Aligned::Any)
    };
    let mut blocks = func.blocks().filter(|block| are[block.as_u32() as usize]);
    blocks.any(|block| func.block_insts(block).any(is_barrier))
}

/// Brings the warp together in front of a barrier, which counts warps. Where the lanes of a warp may come to barriers of one kind in
/// several places they cannot meet in front of each: they execute one of them as a collective operation. Its instructions run with the
/// registers of all lanes, so it takes numbers only.
fn gather(s: &mut Selector<'_>, kind: Kind, numbers: bool) -> Result<Coming, PhaseError> {
    let several = s.scattered.counts[kind as usize] > 1;
    if !several || !s.scattered.found.contains(s.at) {
        s.gather_lanes()?;
        return Ok(Coming::Together);
    }
    let what = match kind {
        Kind::Reduce => "barrier.red",
        _ if !numbers => "a barrier whose number or count is in a register",
        _ if s.guard != Guard::ALWAYS => "a barrier under a guard",
        _ => return Ok(Coming::Collectively),
    };
    Err(PhaseError::Unsupported(format!(
        "{what}, without .aligned, in several places of divergent code"
    )))
}

/// Whether barrier and count are numbers.
fn has_numbers(s: &mut Selector<'_>) -> bool {
    let number = s.word(0).constant().is_some();
    let count = match s.operand(1) {
        Operand::None => true,
        operand => s.word_of(operand).constant().is_some(),
    };
    number && count
}

/// A barrier of whole warps, by itself or as a collective operation.
fn barrier(s: &mut Selector<'_>, kind: Kind, op: Op, packed: Op, mods: &[(&str, &str)]) -> Done {
    let numbers = has_numbers(s);
    let coming = gather(s, kind, numbers)?;
    if coming == Coming::Collectively {
        // Cutting the block behind it makes that the target.
        let here = Operand::Block(s.block);
        s.emit(Op::WARPSYNC_COLLECTIVE_ALL, &[], sources![pt(), here])?;
    }
    match named(s)? {
        Named::Apart(number, count) => s.emit_guarded(op, mods, sources![number, count])?,
        Named::Packed(both) => s.emit_guarded(packed, mods, sources![both])?,
    };
    if coming == Coming::Collectively {
        s.emit(Op::ENDCOLLECTIVE, &[], sources![pt()])?;
    }
    Ok(())
}

pub(super) fn sync(s: &mut Selector<'_>) -> Done {
    barrier(s, Kind::Sync, Op::BAR_SYNC, Op::BAR_SYNC_PACKED, &[DEFER])
}

pub(super) fn arrive(s: &mut Selector<'_>) -> Done {
    barrier(s, Kind::Arrive, Op::BAR_ARV, Op::BAR_ARV_PACKED, &[])
}

/// Combines a predicate over the threads of a barrier; the answer is fetched afterwards.
pub(super) fn reduce(s: &mut Selector<'_>) -> Done {
    gather(s, Kind::Reduce, false)?;
    let counts = s.op() == Some(AbstractOp::BarRedPopc);
    let function = match counts {
        true => "POPC",
        false => match s.modifier::<Combine>()? {
            Combine::And => "AND",
            Combine::Or => "OR",
            _ => return Err(s.unsupported()),
        },
    };
    let predicate = s.predicate(2);
    let mods = [DEFER, ("fn", function)];
    match named(s)? {
        Named::Apart(number, count) => {
            s.emit_guarded(Op::BAR_RED, &mods, sources![number, count, predicate])?
        }
        Named::Packed(both) => {
            s.emit_guarded(Op::BAR_RED_PACKED, &mods, sources![both, predicate])?
        }
    };
    let (word, truth) = match counts {
        true => (s.word_result(0), pt()),
        false => (rz(), s.predicate_result(0)),
    };
    s.emit_guarded(Op::B2R_RESULT, &[], sources![word, truth])?;
    Ok(())
}

pub(super) fn fence(s: &mut Selector<'_>) -> Done {
    let sem = match s.modifier::<Order>()? {
        Order::Sc => "SC",
        _ => "ALL",
    };
    let scope: Scope = s.modifier()?;
    s.memory_barrier(sem, scope)?;
    if scope != Scope::Cta {
        s.emit_guarded(Op::CCTL_IVALL, &[("what", "IVALL")], sources![])?;
    }
    Ok(())
}

/// Accesses by other names of the same memory are ordered by the strongest fence, those of the copy engine by one of their own
/// after the fence for everybody else.
pub(super) fn fence_proxy(s: &mut Selector<'_>) -> Done {
    let (scope, space) = match s.modifier::<Proxy>()? {
        Proxy::Alias => {
            s.memory_barrier("SC", Scope::Sys)?;
            s.emit_guarded(Op::CCTL_IVALL, &[("what", "IVALL")], sources![])?;
            return Ok(());
        }
        Proxy::AsyncGlobal => (None, "G"),
        Proxy::AsyncShared => (Some("CTA"), "S"),
        Proxy::Async | Proxy::AsyncSharedCluster => (Some("GPU"), "S"),
        Proxy::TensormapGeneric => return fence_tensor_map(s),
        Proxy::None => return Err(s.unsupported()),
    };
    if let Some(scope) = scope {
        s.emit_guarded(Op::MEMBAR, &[("sem", "ALL"), ("scope", scope)], sources![])?;
    }
    s.emit_guarded(Op::FENCE_VIEW_ASYNC, &[("space", space)], sources![])?;
    Ok(())
}

/// Tensor maps are read through a cache of their own. What was written is brought to memory by the fence for everybody else; before it is read, the
/// map's place in the cache is emptied, once everything before is over.
fn fence_tensor_map(s: &mut Selector<'_>) -> Done {
    let scope = match s.modifier::<Scope>()? {
        Scope::Sys => Scope::Sys,
        _ => Scope::Gpu,
    };
    s.memory_barrier("ALL", scope)
}

/// The other side of a fence for tensor maps.
pub(super) fn invalidate_map(s: &mut Selector<'_>) -> Done {
    let map = s.uniform_operand(s.operand(0))?;
    let map = s.uniform_address(map);
    s.emit(Op::DEPBAR, &[], sources![Operand::imm(0x3f)])?;
    s.emit(Op::UTMACCTL, &[("fn", "IV")], sources![map])?;
    Ok(())
}

pub(super) fn grid_wait(s: &mut Selector<'_>) -> Done {
    s.emit_guarded(Op::ACQBULK, &[], sources![])?;
    Ok(())
}

pub(super) fn grid_launch(s: &mut Selector<'_>) -> Done {
    s.emit_guarded(Op::PREEXIT, &[], sources![])?;
    Ok(())
}

pub(super) fn sleep(s: &mut Selector<'_>) -> Done {
    let time = s.word(0);
    let time = match time.is_zero() {
        true => Operand::imm(0).into(),
        false => time,
    };
    s.emit_guarded(Op::NANOSLEEP, &[], sources![pt(), time])?;
    Ok(())
}

pub(super) fn event(s: &mut Selector<'_>) -> Done {
    let Operand::Imm(mask) = s.operand(0) else {
        return Err(s.broken("the events are not a number"));
    };
    let mask = Operand::imm(mask.bits() & 0xffff);
    s.emit_guarded(Op::PMTRIG, &[], sources![pt(), mask])?;
    Ok(())
}

/// The kind of trap a debugger stops at.
pub(super) const TRAP: (&str, &str) = ("kind", "TRAP");

pub(super) fn breakpoint(s: &mut Selector<'_>) -> Done {
    s.emit_guarded(Op::BPT, &[TRAP], sources![Operand::imm(1)])?;
    Ok(())
}

/// Gives registers back: all lanes of the warp are there.
pub(super) fn give_registers(s: &mut Selector<'_>) -> Done {
    s.gather_lanes()?;
    let count = s.operand(0);
    s.emit(Op::USETMAXREG_DEALLOC, &[], sources![count])?;
    Ok(())
}

/// Asks for registers; whether they were there.
pub(super) fn take_registers(s: &mut Selector<'_>) -> Done {
    s.gather_lanes()?;
    let count = s.operand(0);
    let got = s.temporary(Type::UP);
    s.emit(Op::USETMAXREG_TRY_ALLOC, &[], sources![got, count])?;
    let all = Operand::imm(0x80);
    let operands = sources![
        s.predicate_result(0),
        pt(),
        pt(),
        pt(),
        got,
        all,
        Operand::imm(0)
    ];
    s.emit(Op::PLOP3_UP, &[], operands)?;
    Ok(())
}
