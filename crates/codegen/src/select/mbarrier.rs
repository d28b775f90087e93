//! Mbarriers, the barrier of a cluster, and addresses and stores that lead to other thread blocks of it.
//!
//! | PTX | machine |
//! | --- | --- |
//! | `mbarrier.init` | `SYNCS.EXCH.64` of both counts, from uniform registers |
//! | `mbarrier.inval` | `SYNCS.CCTL.IV` |
//! | `mbarrier.expect_tx`, `.complete_tx` | `SYNCS.ARRIVE.TRANS64.RED.A0TR`, `.A0TX` |
//! | `mbarrier.arrive` | `SYNCS.ARRIVE.TRANS64.A1T0`; `.ART0` with a count, none of these with bytes to expect; `.RED` in another block |
//! | `mbarrier.arrive_drop` | the same with `.OPTOUT` |
//! | `.noComplete` with a result | `.TMASK.ART0`: the lanes that arrive together and the state before the first; each adds those before it |
//! | `mbarrier.test_wait` | `SYNCS.PHASECHK.TRANS64`, the phase in the highest bit |
//! | `mbarrier.try_wait` | `SYNCS.PHASECHK.TRANS64.TRYWAIT`; with a time limit also a sleep and another look, for whom it is not over at the first |
//! | `cp.async.mbarrier.arrive` | `ARRIVES.LDGSTSBAR.64.ARVCNT`, or one transaction announced and `.TRANSCNT` |
//! | `st.async`, `red.async` | `STAS`, `REDAS`: both addresses in one pair |
//! | `barrier.cluster` | `UCGABAR_ARV`, `UCGABAR_WAIT`; without clusters nothing and `BAR.SYNC` |
//!
//! An arrival that releases to the cluster comes after fences, a wait that acquires from it drops what the first cache holds. Within the
//! block the order in which the memory pipe takes instructions is enough.

use super::barrier::with_whole_warp;
use super::scattered::Kind;
use super::selector::{Selector, pt, rz, urz};
use super::source::Source;
use super::{WORD, sources};
use crate::memory_order;
use crate::pipeline::PhaseError;
use cranelift_entity::EntitySet;
use orias_eval::mbarrier::{self, COUNT_BITS, EXPECTED_AT};
use orias_ori::analysis::FlowGraph;
use orias_ori::operation::{
    Arrive, Order, Proxy, Reduce, Scalar, Scope, Space, Step, Vector, Wait,
};
use orias_ori::{
    AbstractOp, Address, Function, FunctionKind, Guard, Inst, Operand, Reg, SourceMods, Type, Value,
};
use orias_sass::Op;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// One past the largest count: counts are stored as what is missing from it.
const COUNTS: u32 = 1 << COUNT_BITS;
/// Where the count of this phase stands in the upper word.
const PENDING_AT: u32 = mbarrier::PENDING_AT - 32;

/// `mbarrier.init`, `.inval`, `.expect_tx`, `.complete_tx`
pub(super) fn adjust(s: &mut Selector<'_>) -> Done {
    let step: Step = s.modifier()?;
    let place = s.place(0)?;
    match step {
        Step::Init => init(s),
        Step::Inval => {
            let address = s.mbarrier_address(place)?;
            s.emit_guarded(Op::SYNCS_CCTL, &[(name::FN, value::IV)], sources![address])?;
            Ok(())
        }
        Step::ExpectTx | Step::CompleteTx => {
            let tx = match step {
                Step::ExpectTx => value::A0TR,
                _ => value::A0TX,
            };
            let count = s.word(1);
            let count = s.in_register_or_zero(count)?;
            let address = s.mbarrier_address(place)?;
            let mods = [(name::KIND, value::RED), (name::TX, tx)];
            s.emit_guarded(Op::SYNCS_ARRIVE, &mods, sources![rz(), address, count])?;
            Ok(())
        }
    }
}

/// Writes the counts of a new mbarrier. Address and counts are the same in all lanes that come here (`expand`).
fn init(s: &mut Selector<'_>) -> Done {
    if s.guard != Guard::ALWAYS {
        return Err(s.broken("a guard that lanes may differ in"));
    }
    let count = s.word(1);
    let words = match count.constant() {
        Some(count) => {
            let missing = COUNTS.wrapping_sub(count as u32);
            [missing << EXPECTED_AT, missing << PENDING_AT].map(Source::imm)
        }
        None => {
            let count = s.in_register(count)?;
            let minus = Source::from(count).negated().unwrap_or(count.into());
            let missing = s.sum(minus, Source::imm(COUNTS))?;
            let mut words = Vec::with_capacity(2);
            for by in [EXPECTED_AT, PENDING_AT] {
                let word = s.temporary(WORD);
                let mods = [(name::DIR, value::L), (name::TYPE, value::U32)];
                let operands = sources![word, missing, Source::imm(by), rz()];
                s.emit(Op::SHF, &mods, operands)?;
                words.push(Source::from(word));
            }
            [words[0], words[1]]
        }
    };
    let place = s.place(0)?;
    let address = s.uniform_shared_address(place)?;
    let pair = s.uniform_tuple(&words)?;
    if s.view_fences.contains(s.at) {
        s.emit(Op::FENCE_VIEW_ASYNC, &[(name::SPACE, value::S)], sources![])?;
    }
    s.emit(Op::SYNCS_EXCH, &[], sources![urz(), address, pair])?;
    Ok(())
}

/// The mbarriers that are set up while an access to shared memory may still be under way by another path.
///
/// At the start of a kernel, and behind a barrier, such a fence or another mbarrier set up, none is. Looked at are the ways on which nothing joins; ptxas
/// looks at the block only, but predicates more.
pub(super) fn need_view_fences(func: &Function, graph: &FlowGraph) -> EntitySet<Inst> {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let is_set_up = |inst: &Inst| {
        func.opcode(*inst).as_abstract() == Some(AbstractOp::Mbarrier)
            && func.modifier(*inst) == Some(Step::Init)
    };
    let mut needed = EntitySet::new();
    for inst in insts.filter(is_set_up) {
        if needs_view_fence(func, graph, inst) {
            needed.insert(inst);
        }
    }
    needed
}

fn needs_view_fence(func: &Function, graph: &FlowGraph, inst: Inst) -> bool {
    let Some(mut block) = func.layout.inst_block(inst) else {
        return true;
    };
    let mut before = func.layout.prev_inst(inst);
    // A chain of single predecessors that is longer than there are blocks leads nowhere.
    for _ in 0..graph.block_count() {
        while let Some(at) = before {
            match func.opcode(at).as_abstract() {
                Some(AbstractOp::Mbarrier) if func.modifier(at) == Some(Step::Init) => {
                    return false;
                }
                Some(AbstractOp::Bar | AbstractOp::BarRed | AbstractOp::BarRedPopc) => {
                    return false;
                }
                Some(AbstractOp::FenceProxy) if func.modifier(at) != Some(Proxy::Alias) => {
                    return false;
                }
                Some(AbstractOp::Ld | AbstractOp::St | AbstractOp::Atom | AbstractOp::Red) => {
                    let space = func.modifier::<Space>(at);
                    if matches!(
                        space,
                        Some(Space::Shared | Space::Generic | Space::SharedCluster)
                    ) {
                        return true;
                    }
                }
                Some(
                    AbstractOp::CpAsync
                    | AbstractOp::Ldmatrix
                    | AbstractOp::Stmatrix
                    | AbstractOp::StAsync
                    | AbstractOp::RedAsync
                    | AbstractOp::Call,
                ) => return true,
                _ => {}
            }
            before = func.layout.prev_inst(at);
        }
        if func.entry() == Some(block) {
            return func.kind != FunctionKind::Entry || !graph.preds(block).is_empty();
        }
        let [only] = graph.preds(block) else {
            return true;
        };
        block = *only;
        before = func.layout.last_inst(block);
    }
    true
}

impl Selector<'_> {
    /// An address in shared memory that all lanes agree on, from a uniform register alone.
    pub(super) fn uniform_shared_address(
        &mut self,
        place: super::address::Place,
    ) -> Result<Operand, PhaseError> {
        let base = self.base_word(place.base)?;
        let uniform: Value = match (base, place.symbol) {
            (None, Some(_)) => self.shared(super::selector::Shared::BlockBase),
            (Some(base), None) => self.uniform_word(base.into())?,
            (None, None) => self.uniform_word(Source::imm(0))?,
            (Some(base), Some(_)) => {
                let start = self.shared(super::selector::Shared::BlockBase);
                let sum = self.sum(base.into(), start.into())?;
                self.uniform_word(sum.into())?
            }
        };
        let Ok(offset) = i32::try_from(place.offset) else {
            return Err(self.unsupported());
        };
        Ok(self.func.create_address(Address {
            uniform: Reg::from(uniform).into(),
            symbol: place.symbol.into(),
            offset,
            ..Address::default()
        }))
    }

    /// The address of an mbarrier, in whichever block of the cluster: a register, a uniform register and an offset, all of them there.
    pub(super) fn mbarrier_address(
        &mut self,
        place: super::address::Place,
    ) -> Result<Operand, PhaseError> {
        let Operand::Address(id) = self.shared_address(place)? else {
            return Err(self.broken("not an address"));
        };
        let mut address = *self.func.address(id);
        if address.uniform.get().is_none() {
            address.uniform = urz().reg().into();
        }
        Ok(self.func.create_address(address))
    }

    /// The word of an address in shared memory, its offset added.
    fn shared_word(&mut self, index: usize) -> Result<Source, PhaseError> {
        let place = self.place(index)?;
        let base = self.base_word(place.base)?;
        let mut word = match (base, place.symbol) {
            (Some(base), None) => Source::from(base),
            (None, None) => Source::from(rz()),
            (base, Some(symbol)) => {
                let name = Operand::Symbol {
                    symbol,
                    part: orias_ori::SymbolPart::Low,
                    addend: 0,
                };
                let name = self.in_register(name.into())?;
                let start = self.shared(super::selector::Shared::BlockBase);
                let word = self.sum(name.into(), start.into())?;
                match base {
                    Some(base) => self.sum(word.into(), base.into())?.into(),
                    None => word.into(),
                }
            }
        };
        if place.offset != 0 {
            let more = Source::imm(place.offset as u32);
            word = self.sum(word, more)?.into();
        }
        Ok(word)
    }
}

/// `mbarrier.arrive` and `.arrive_drop`
pub(super) fn arrive(s: &mut Selector<'_>) -> Done {
    let kind: Arrive = s.modifier()?;
    let space: Space = s.modifier()?;
    let (order, scope) = (s.modifier::<Order>()?, s.modifier::<Scope>()?);
    let count = match s.operand(1) {
        Operand::None => None,
        _ => {
            let count = s.word(1);
            match count.constant() {
                Some(1) if !matches!(kind, Arrive::ExpectTx | Arrive::DropExpectTx) => None,
                _ => Some(count),
            }
        }
    };
    let masked =
        matches!(kind, Arrive::NoComplete | Arrive::DropNoComplete) && s.result(0) != Operand::None;
    let optout = match kind {
        Arrive::Drop | Arrive::DropExpectTx | Arrive::DropNoComplete => value::OPTOUT,
        Arrive::Arrive | Arrive::ExpectTx | Arrive::NoComplete => value::NO,
    };
    let expects = matches!(kind, Arrive::ExpectTx | Arrive::DropExpectTx);
    let tx = match (expects, &count) {
        (true, _) => value::ARTX,
        (false, Some(_)) => value::ART0,
        (false, None) if masked => value::ART0,
        (false, None) => value::A1T0,
    };
    let kind = match space {
        Space::SharedCluster => value::RED,
        _ if masked => value::TMASK,
        _ => value::NORMAL,
    };
    let brought: Source = match count {
        Some(count) => s.in_register(count)?.into(),
        None if masked => s.in_register(Source::imm(1))?.into(),
        None => rz().into(),
    };
    let place = s.place(0)?;
    let address = s.mbarrier_address(place)?;
    // Within the block the order in which the memory pipe takes instructions is enough.
    if scope == Scope::Cluster
        && let Some(membar) = memory_order::fences(order, scope).before
    {
        s.memory_barrier(memory_order::membar(membar.sem, Scope::Cta))?;
        s.memory_barrier(membar)?;
    }
    let mods = [(name::KIND, kind), (name::OPTOUT, optout), (name::TX, tx)];
    if !masked {
        let result = s.word_result(0);
        s.emit_guarded(Op::SYNCS_ARRIVE, &mods, sources![result, address, brought])?;
        return Ok(());
    }
    let both = s.temporary(Type::R2);
    s.count(both);
    s.emit_guarded(Op::SYNCS_ARRIVE, &mods, sources![both, address, brought])?;
    let [lanes, state] = s.words_of(both.into());
    let below = super::special::read_word(s, orias_sass::special::LTMASK)?;
    let before = s.temporary(WORD);
    let and = Operand::imm(0xc0);
    let operands = sources![
        pt(),
        before,
        lanes,
        below,
        rz(),
        and,
        super::selector::not_pt()
    ];
    s.emit(Op::LOP3, &[], operands)?;
    let number = s.temporary(WORD);
    s.emit(Op::POPC, &[], sources![number, before])?;
    let raised = s.temporary(WORD);
    let mods = [(name::DIR, value::L), (name::TYPE, value::U32)];
    let operands = sources![raised, number, Source::imm(PENDING_AT), rz()];
    s.emit(Op::SHF, &mods, operands)?;
    let high = s.temporary(WORD);
    s.emit(
        Op::IMAD,
        &[(name::SIGN, value::U32)],
        sources![high, raised, brought, state],
    )?;
    s.set_pair(0, lanes, high.into())
}

/// `mbarrier.test_wait` and `.try_wait`
pub(super) fn wait(s: &mut Selector<'_>) -> Done {
    let kind: Wait = s.modifier()?;
    let (order, scope) = (s.modifier::<Order>()?, s.modifier::<Scope>()?);
    let phase: Value = match kind {
        Wait::Test | Wait::Try => {
            let [_, high] = s.words(1);
            s.in_register(high)?
        }
        Wait::TestParity | Wait::TryParity => {
            let parity = s.word(1);
            match parity.constant() {
                Some(parity) => s.in_register(Source::imm((parity as u32) << 31))?,
                None => {
                    let phase = s.temporary(WORD);
                    let mods = [(name::DIR, value::L), (name::TYPE, value::U32)];
                    let operands = sources![phase, parity, Source::imm(31), rz()];
                    s.emit(Op::SHF, &mods, operands)?;
                    phase
                }
            }
        }
    };
    let tries = match kind {
        Wait::Try | Wait::TryParity => value::TRYWAIT,
        Wait::Test | Wait::TestParity => value::NO,
    };
    let limit = s.operand(2);
    let place = s.place(0)?;
    let address = s.mbarrier_address(place)?;
    let over = s.predicate_result(0);
    match limit {
        Operand::None => {
            let operands = sources![over, address, phase];
            s.emit_guarded(Op::SYNCS_PHASECHK, &[(name::TRY, tries)], operands)?;
        }
        limit => {
            let guard = s.guard;
            // Who sees the phase over at the first look neither sleeps nor looks again; nor do lanes that the guard leaves out.
            let first = s.temporary(Type::P);
            if let Some(outside) = outside(s, guard)? {
                s.keep(first, outside);
            }
            let operands = sources![first, address, phase];
            s.emit_with(Op::SYNCS_PHASECHK, &[(name::TRY, tries)], operands, guard)?;
            let time = s.word_of(limit);
            let time = match time.is_zero() {
                true => Operand::imm(0).into(),
                false => time,
            };
            let unless = Guard::unless(first);
            s.emit_with(
                Op::NANOSLEEP,
                &[(name::WAKE, value::SYNCS)],
                sources![pt(), time],
                unless,
            )?;
            let again = s.mbarrier_address(place)?;
            let second = match over.as_value() {
                Some(over) if guard.is_always() => over,
                _ => s.temporary(Type::P),
            };
            s.keep(second, first);
            let operands = sources![second, again, phase];
            s.emit_with(Op::SYNCS_PHASECHK, &[], operands, unless)?;
            if let (Some(over), Some(chosen)) = (over.as_value(), guard_operand(guard)) {
                // The new one where the guard holds, else the kept one.
                let table = Operand::imm(0xf0 & 0xaa | 0xcc & !0xaa & 0xff);
                let kept = s.kept.iter().find(|(result, _)| *result == over);
                let kept = kept.map_or(second, |&(_, kept)| kept);
                let operands = sources![over, pt(), second, kept, chosen, table, Operand::imm(0)];
                s.emit(Op::PLOP3, &[], operands)?;
            }
        }
    }
    if memory_order::fences(order, scope).drops_cache
        && let Some(over) = over.as_value()
    {
        let mods = [(name::WHAT, value::IVALL)];
        s.emit_with(Op::CCTL_IVALL, &mods, sources![], Guard::when(over))?;
    }
    Ok(())
}

/// The predicate of `guard` as an operand, if it has one.
fn guard_operand(guard: Guard) -> Option<Operand> {
    let mods = match guard.is_negated() {
        true => SourceMods::NOT,
        false => SourceMods::NONE,
    };
    guard.reg().map(|reg| Operand::Reg { reg, mods })
}

/// Where `guard` does not hold, as a predicate; nothing if it always does.
fn outside(s: &mut Selector<'_>, guard: Guard) -> Result<Option<Value>, PhaseError> {
    let Some(inside) = guard_operand(guard) else {
        return Ok(None);
    };
    let outside = s.temporary(Type::P);
    let not = Operand::imm(0x0f);
    let operands = sources![outside, pt(), inside, pt(), pt(), not, Operand::imm(0)];
    s.emit(Op::PLOP3, &[], operands)?;
    Ok(Some(outside))
}

/// `mbarrier.pending_count`
pub(super) fn pending(s: &mut Selector<'_>) -> Done {
    let [_, high] = s.words(0);
    let moved = s.temporary(WORD);
    let mods = [
        (name::DIR, value::R),
        (name::TYPE, value::U32),
        (name::PART, value::HI),
    ];
    let operands = sources![moved, rz(), Source::imm(PENDING_AT), high];
    s.emit(Op::SHF, &mods, operands)?;
    let count = s.temporary(WORD);
    let (mask, and) = (Source::imm(COUNTS - 1), Operand::imm(0xc0));
    let no = super::selector::not_pt();
    s.emit(
        Op::LOP3,
        &[],
        sources![pt(), count, moved, mask, rz(), and, no],
    )?;
    let minus = Source::from(count).negated().unwrap_or(count.into());
    let all = Source::imm(COUNTS);
    s.emit(
        Op::IADD3,
        &[],
        sources![s.result(0), pt(), pt(), minus, all, rz()],
    )?;
    Ok(())
}

/// `cp.async.mbarrier.arrive`
pub(super) fn arrive_after_copies(s: &mut Selector<'_>) -> Done {
    let Operand::Imm(counted) = s.operand(1) else {
        return Err(s.broken("whether the count is raised is not a number"));
    };
    let place = s.place(0)?;
    let address = s.mbarrier_address(place)?;
    let count = match counted.bits() {
        0 => {
            let mods = [(name::KIND, value::RED), (name::TX, value::A0T1)];
            s.emit_guarded(Op::SYNCS_ARRIVE, &mods, sources![rz(), address, rz()])?;
            value::TRANSCNT
        }
        _ => value::ARVCNT,
    };
    // It takes its address from a uniform register only: with a general one the chip calls it illegal.
    let Operand::Address(id) = s.uniform_shared_address(place)? else {
        return Err(s.broken("not an address"));
    };
    let address = Address {
        base: rz().reg().into(),
        ..*s.func.address(id)
    };
    let address = s.func.create_address(address);
    s.emit_guarded(
        Op::ARRIVES_LDGSTSBAR,
        &[(name::COUNT, count)],
        sources![address],
    )?;
    Ok(())
}

/// An address in the block of another rank: `mapa`.
pub(super) fn map_address(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let rank = s.word(1);
    let rank = s.in_register(rank)?;
    // The lowest byte of the rank above three bytes of the address.
    let select = Source::imm(0x0654);
    let mods = [(name::MODE, value::IDX)];
    if scalar.bits() == 64 {
        let [low, high] = s.words(0);
        let word = s.temporary(WORD);
        let low = s.in_register(low)?;
        s.emit(Op::PRMT, &mods, sources![word, rank, select, low])?;
        return s.set_pair(0, word.into(), high);
    }
    let low = s.word(0);
    let low = s.in_register(low)?;
    s.emit(Op::PRMT, &mods, sources![s.result(0), rank, select, low])?;
    Ok(())
}

/// The rank of the block that an address leads to: `getctarank`.
pub(super) fn rank_of(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let low = match scalar.bits() {
        64 => s.words(0)[0],
        _ => s.word(0),
    };
    let mods = [
        (name::DIR, value::R),
        (name::TYPE, value::U32),
        (name::PART, value::HI),
    ];
    let by = Source::imm(s.constants.shared_rank_shift as u32);
    s.emit(Op::SHF, &mods, sources![s.result(0), rz(), by, low])?;
    Ok(())
}

/// `st.async` and `red.async`
pub(super) fn tell(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let to = s.shared_word(0)?;
    let barrier = s.shared_word(2)?;
    let both = s.temporary(Type::R2);
    s.count(both);
    s.define_pair(both, to, barrier)?;
    let address = s.func.create_address(Address {
        base: Reg::from(both).into(),
        uniform: urz().reg().into(),
        form: orias_ori::BaseForm::Wide,
        ..Address::default()
    });
    if s.op() == Some(AbstractOp::StAsync) {
        let size = match s.modifier::<Vector>()? {
            Vector::V1 => scalar.bits(),
            Vector::V2 => 2 * scalar.bits(),
            Vector::V4 => 4 * scalar.bits(),
            Vector::V8 => return Err(s.unsupported()),
        };
        let size = match size {
            32 => value::_32,
            64 => value::_64,
            128 => value::_128,
            _ => return Err(s.unsupported()),
        };
        let value = s.payload(1, size);
        s.emit_guarded(Op::STAS, &[(name::SIZE, size)], sources![address, value])?;
        return Ok(());
    }
    let reduce: Reduce = s.modifier()?;
    let size = match scalar {
        Scalar::S32 if matches!(reduce, Reduce::Min | Reduce::Max) => value::S32,
        Scalar::U64 | Scalar::S64 | Scalar::B64 => value::_64,
        _ => value::_32,
    };
    let value = s.payload(1, size);
    let mods = [
        (name::FN, super::atomic::function_name(s, reduce)?),
        (name::SIZE, size),
    ];
    s.emit_guarded(Op::REDAS, &mods, sources![address, value])?;
    Ok(())
}

/// What needs no instruction: the order in which instructions stand is enough.
pub(super) fn nothing(_: &mut Selector<'_>) -> Done {
    Ok(())
}

/// `barrier.cluster.arrive`
pub(super) fn cluster_arrive(s: &mut Selector<'_>) -> Done {
    let order: Order = s.modifier()?;
    with_whole_warp(s, Kind::ClusterArrive, |s| {
        if let Some(membar) = memory_order::fences(order, Scope::Cluster).before {
            s.memory_barrier(membar)?;
        }
        s.emit(Op::UCGABAR_ARV, &[], sources![])?;
        Ok(())
    })
}

/// `barrier.cluster.wait`
pub(super) fn cluster_wait(s: &mut Selector<'_>) -> Done {
    let order: Order = s.modifier()?;
    with_whole_warp(s, Kind::ClusterWait, |s| {
        s.emit(Op::UCGABAR_WAIT, &[], sources![])?;
        Ok(())
    })?;
    match memory_order::fences(order, Scope::Cluster).drops_cache {
        true => s.drop_cache(),
        false => Ok(()),
    }
}
