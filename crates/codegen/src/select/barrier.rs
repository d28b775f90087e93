//! Barriers of the thread block, fences, and what makes a thread wait or stop.

use super::emission::Mod;
use super::scattered::Kind;
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::{WORD, sources};
use crate::memory_order;
use crate::pipeline::PhaseError;
use orias_ori::operation::{Combine, Proxy, Scope};
use orias_ori::{AbstractOp, Guard, Operand, Type};
use orias_sass::Op;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// A barrier that does not keep other warps from running.
const DEFER: Mod = (name::DEFER, value::DEFER_BLOCKING);

/// How a barrier and its number of threads are given.
enum Named {
    /// One operand each.
    Apart(Source, Source),
    /// Both in one register: the count from bit 16 on.
    Packed(Source),
}

/// Barrier and count from sources 0 and 1.
fn named(s: &mut Selector<'_>, kind: Kind) -> Result<Named, PhaseError> {
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
    if s.is_scattered(kind) && s.scattered.takes_register(kind) {
        let both = s.common_word()?;
        pack(s, both, number, count)?;
        return Ok(Named::Packed(both.into()));
    }
    if number.constant().is_some() || count.constant().is_some() {
        let number = register_or_number(s, number)?;
        let count = register_or_number(s, count)?;
        return Ok(Named::Apart(number, count));
    }
    let both = s.temporary(WORD);
    pack(s, both.into(), number, count)?;
    Ok(Named::Packed(both.into()))
}

/// Barrier and count in one register, as ptxas packs them: the count above bit 16, four bits of the number below.
fn pack(s: &mut Selector<'_>, both: Operand, number: Source, count: Source) -> Done {
    let raised = match count.constant() {
        Some(count) => s.in_register(Source::imm((count as u32) << 16))?,
        None => {
            let raised = s.temporary(WORD);
            let mods = [(name::DIR, value::L), (name::TYPE, value::U32)];
            let count = s.in_register(count)?;
            let operands = sources![raised, count, Source::imm(16), rz()];
            s.emit(Op::SHF, &mods, operands)?;
            raised
        }
    };
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
    Ok(())
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

/// Executes a barrier for all lanes of the warp, which the machine's barriers count: `body` emits it. Where the lanes may come to
/// barriers of one kind in several places they cannot meet in front of each and execute one of them as a collective operation.
pub(super) fn with_whole_warp(
    s: &mut Selector<'_>,
    kind: Kind,
    body: impl FnOnce(&mut Selector<'_>) -> Done,
) -> Done {
    if !s.is_scattered(kind) {
        s.gather_lanes()?;
        return body(s);
    }
    if s.guard != Guard::ALWAYS {
        return Err(s.broken("a guard in a collective operation"));
    }
    // Cutting the block behind it makes that the target.
    let here = Operand::Block(s.block);
    s.emit(Op::WARPSYNC_COLLECTIVE_ALL, &[], sources![pt(), here])?;
    body(s)?;
    s.emit(Op::ENDCOLLECTIVE, &[], sources![pt()])?;
    Ok(())
}

/// A barrier without a result.
fn barrier(s: &mut Selector<'_>, kind: Kind, op: Op, packed: Op, mods: &[Mod]) -> Done {
    let named = named(s, kind)?;
    with_whole_warp(s, kind, |s| {
        match named {
            Named::Apart(number, count) => s.emit_guarded(op, mods, sources![number, count])?,
            Named::Packed(both) => s.emit_guarded(packed, mods, sources![both])?,
        };
        Ok(())
    })
}

pub(super) fn sync(s: &mut Selector<'_>) -> Done {
    barrier(s, Kind::Sync, Op::BAR_SYNC, Op::BAR_SYNC_PACKED, &[DEFER])
}

pub(super) fn arrive(s: &mut Selector<'_>) -> Done {
    barrier(s, Kind::Arrive, Op::BAR_ARV, Op::BAR_ARV_PACKED, &[])
}

/// Combines a predicate over the threads of a barrier; the answer is fetched afterwards.
pub(super) fn reduce(s: &mut Selector<'_>) -> Done {
    let counts = s.op() == Some(AbstractOp::BarRedPopc);
    let function = match counts {
        true => value::POPC,
        false => match s.modifier::<Combine>()? {
            Combine::And => value::AND,
            Combine::Or => value::OR,
            _ => return Err(s.unsupported()),
        },
    };
    let mods = [DEFER, (name::FN, function)];
    let scattered = s.is_scattered(Kind::Reduce);
    let named = named(s, Kind::Reduce)?;
    let mut predicate = s.predicate(2);
    let result = s.result(0);
    let (mut word, mut truth) = match counts {
        true => (s.word_result(0), pt()),
        false => (rz(), s.predicate_result(0)),
    };
    if scattered {
        let own = s.common_predicate()?;
        s.copy_predicate(own, predicate)?;
        predicate = own.into();
        match counts {
            true => word = s.common_word()?,
            false => truth = own,
        }
    }
    with_whole_warp(s, Kind::Reduce, |s| {
        match named {
            Named::Apart(number, count) => {
                s.emit_guarded(Op::BAR_RED, &mods, sources![number, count, predicate])?
            }
            Named::Packed(both) => {
                s.emit_guarded(Op::BAR_RED_PACKED, &mods, sources![both, predicate])?
            }
        };
        s.emit_guarded(Op::B2R_RESULT, &[], sources![word, truth])?;
        Ok(())
    })?;
    match result.as_value().filter(|_| scattered) {
        Some(value) if counts => s.copy(value, word.into()),
        Some(_) => s.copy_predicate(result, truth.into()),
        None => Ok(()),
    }
}

pub(super) fn fence(s: &mut Selector<'_>) -> Done {
    s.fence_before()?;
    s.fence_after()
}

/// Accesses by other names of the same memory are ordered by the strongest fence, those of the copy engine by one of their own
/// after the fence for everybody else.
pub(super) fn fence_proxy(s: &mut Selector<'_>) -> Done {
    let (scope, space) = match s.modifier::<Proxy>()? {
        Proxy::Alias => {
            let mods = [(name::SEM, value::SC), (name::SCOPE, value::SYS)];
            s.emit_guarded(Op::MEMBAR, &mods, sources![])?;
            return s.drop_cache();
        }
        Proxy::AsyncGlobal => (None, value::G),
        Proxy::AsyncShared => (Some(value::CTA), value::S),
        Proxy::Async | Proxy::AsyncSharedCluster => (Some(value::GPU), value::S),
        Proxy::TensormapGeneric => return fence_tensor_map(s),
        Proxy::None => return Err(s.unsupported()),
    };
    if let Some(scope) = scope {
        s.emit_guarded(
            Op::MEMBAR,
            &[(name::SEM, value::ALL), (name::SCOPE, scope)],
            sources![],
        )?;
    }
    s.emit_guarded(Op::FENCE_VIEW_ASYNC, &[(name::SPACE, space)], sources![])?;
    Ok(())
}

/// Tensor maps are read through a cache of their own. What was written is brought to memory by the fence for everybody else; before it is read, the
/// map's place in the cache is emptied, once everything before is over.
fn fence_tensor_map(s: &mut Selector<'_>) -> Done {
    let scope = match s.modifier::<Scope>()? {
        Scope::Sys => Scope::Sys,
        _ => Scope::Gpu,
    };
    s.memory_barrier(memory_order::membar(value::ALL, scope))
}

/// The other side of a fence for tensor maps.
pub(super) fn invalidate_map(s: &mut Selector<'_>) -> Done {
    let map = s.uniform_operand(s.operand(0))?;
    let map = s.uniform_address(map);
    s.emit(Op::DEPBAR, &[], sources![Operand::imm(0x3f)])?;
    s.emit(Op::UTMACCTL, &[(name::FN, value::IV)], sources![map])?;
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
    let wake: &[Mod] = match s.operand(1) {
        Operand::Imm(_) => &[(name::WAKE, value::RAND)],
        _ => &[],
    };
    s.emit_guarded(Op::NANOSLEEP, wake, sources![pt(), time])?;
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
pub(super) const TRAP: Mod = (name::KIND, value::TRAP);

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
