//! The transfer functions: what an instruction, and an edge, does to what is known.

use super::acts::{Act, Acts, When, conditions, is_all_lanes, is_exchange, when};
use super::differing::Flags;
use super::frame::{self, FrameAccess};
use super::postdominators::PostDominators;
use super::procedures::{Procedures, is_call};
use super::registers::RegisterSet;
use super::state::{Arm, Cause, Divergence, Literal, NONE, Region, State};
use super::uniform::{Sameness, self_xor};
use crate::facts::{Facts, number};
use crate::program::{Outside, Program, WORD};
use orias_sass::slot_names as slot;
use orias_sass::{
    Effects, Instruction, Op, Operand, RegisterClass, modifier_names as name,
    modifier_values as value,
};
use smallvec::SmallVec;

/// What is known where a BSSY stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Site {
    /// Where lanes have parted before, with the arms taken and whether they may be there at different times.
    pub divergences: Vec<(Cause, Arm, bool)>,
    /// Barriers that are open around it, and who opened them.
    pub around: SmallVec<[(u8, SmallVec<[u32; 2]>); 2]>,
    /// Whether lanes leave it by BREAK.
    pub left: bool,
    /// Blocks that wait for its lanes.
    pub meets: Vec<u32>,
}

/// Something that is wrong, as the walk comes upon it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// A barrier is opened that is open.
    OpenedTwice { region: Region },
    /// BSYNC of a barrier that is closed on some path.
    NotOpen { barrier: u8, region: Option<Region> },
    /// BSYNC, or a return, while a barrier opened since is still open.
    StillOpen { inner: Region },
    /// A BSSY names another place than the one behind the BSYNC that its lanes come to.
    Elsewhere { barrier: u8 },
    /// A region in which lanes exchange something and nothing parts them.
    Idle { barrier: u8, site: u32 },
    /// WARPSYNC.COLLECTIVE without ENDCOLLECTIVE in the next block, or the other way round.
    Unpaired,
    /// A collective operation where lanes may be apart.
    Apart { cause: Cause, yielded: u32 },
}

/// How many convergence barriers there are.
const BARRIERS: u8 = 16;

/// The operations that gather lanes for what comes next.
const COLLECTS: [Op; 2] = [Op::WARPSYNC_COLLECTIVE, Op::WARPSYNC_COLLECTIVE_ALL];

/// What is gathered over a block.
#[derive(Default)]
struct Passed {
    /// What was written.
    written: RegisterSet,
    /// Registers that are being exchanged, and whether each was different in lanes before.
    exchanges: SmallVec<[(u16, u16, bool, bool); 1]>,
    /// The WARPSYNC.EXCLUSIVE whose exchange has not come yet.
    excluded: Option<u32>,
    /// Registers that are different in lanes only where this does not hold, which it does in all or in none: what was written under
    /// this guard since is the same.
    settled: SmallVec<[(u16, Literal); 4]>,
}

impl Passed {
    /// What lanes were let go on by themselves for is over: from now on those of different masks are apart.
    fn end_exclusion(&mut self, state: &mut State) {
        if let Some(index) = self.excluded.take() {
            state.part(Cause::Masks(index), Arm::SEVERAL);
        }
    }

    /// Whether a register that is different in lanes is the same where `guard` holds.
    fn is_settled(&self, register: u16, guard: Option<Literal>) -> bool {
        guard.is_some_and(|guard| self.settled.contains(&(register, guard)))
    }

    /// Takes notice of a write to a register; `true` if from now on it is the same in all lanes.
    fn settle(&mut self, register: u16, guard: Option<Literal>, differs: bool) -> bool {
        let Some(guard) = guard.filter(|_| !differs) else {
            self.settled.retain(|(settled, _)| *settled != register);
            return !differs;
        };
        let otherwise = Literal {
            negated: !guard.negated,
            ..guard
        };
        if self.settled.contains(&(register, otherwise)) {
            self.settled.retain(|(settled, _)| *settled != register);
            return true;
        }
        if !self.settled.contains(&(register, guard)) {
            self.settled.push((register, guard));
        }
        false
    }

    /// Whether what the next step of an exchange writes is different in lanes.
    fn exchange(&mut self, stage: u8, (x, y): (u16, u16), state: &State) -> bool {
        let differs = |register| state.divergent.contains(register);
        if stage == 0 {
            self.exchanges.push((x, y, differs(x), differs(y)));
            return differs(x) || differs(y);
        }
        let pair = if stage == 1 { (y, x) } else { (x, y) };
        let known = self.exchanges.iter().rfind(|(x, y, _, _)| (*x, *y) == pair);
        known.is_none_or(|(_, _, first, second)| if stage == 1 { *first } else { *second })
    }
}

/// Takes states through the blocks of one program.
pub(super) struct Walk<'a> {
    pub program: &'a Program,
    pub facts: &'a Facts,
    pub acts: &'a Acts,
    pub procedures: &'a Procedures,
    pub sameness: &'a [Sameness],
    /// By block: whether it, or one behind it, asks whether lanes are apart.
    pub matters: &'a [bool],
    pub passed: &'a PostDominators,
}

impl Walk<'_> {
    /// Takes a state through one block; the sites of its BSSYs are brought up to date, and blocks that depend on one that changed
    /// are handed to `again`.
    pub(super) fn block(
        &self,
        block: usize,
        state: &mut State,
        sites: &mut [Site],
        mut again: impl FnMut(usize),
        mut observe: impl FnMut(usize, Fault),
    ) {
        let bounds = &self.program.blocks[block];
        let mut at = bounds.start;
        let mut passed = Passed::default();
        state.pass(|cause| self.passed.passes(self.parted_at(cause), block));
        for &(index, act) in self.acts.of(block) {
            let index = index as usize;
            self.registers(at, index, state, &mut passed);
            at = index;
            match act {
                Act::Open { barrier, site } => {
                    state.write(&std::mem::take(&mut passed.written));
                    self.open(index, barrier, site, state, sites, &mut again, &mut observe);
                }
                Act::Meet { barrier } => {
                    passed.end_exclusion(state);
                    state.write(&std::mem::take(&mut passed.written));
                    self.meet(block, index, barrier, state, sites, &mut observe);
                }
                Act::Leave { barrier, when } => {
                    state.write(&std::mem::take(&mut passed.written));
                    leave(barrier, when, state, sites, &mut again);
                }
                Act::Save {
                    barrier,
                    to,
                    clears,
                } => {
                    let region = state.region(barrier).cloned();
                    if clears {
                        state.close(barrier);
                    }
                    // The copy itself overwrites the register.
                    self.registers(at, index + 1, state, &mut passed);
                    at = index + 1;
                    state.saved.retain(|(register, _)| *register != to);
                    if let Some(region) = region {
                        let place = state.saved.partition_point(|(register, _)| *register < to);
                        state.saved.insert(place, (to, region));
                    }
                }
                Act::Restore { barrier, from } => {
                    let saved = (state.saved.iter())
                        .find(|(register, _)| Some(*register) == from)
                        .map(|(_, region)| Region {
                            barrier,
                            ..region.clone()
                        });
                    state.set_region(saved.unwrap_or_else(|| Region::unknown(barrier)));
                }
                Act::Gather { whole } => {
                    passed.excluded = None;
                    if whole {
                        state.together();
                    } else {
                        state.gather();
                    }
                }
                Act::Exclude => {
                    state.gather();
                    passed.excluded = Some(index as u32);
                }
                Act::Collect if self.ends_with(block + 1, &[Op::ENDCOLLECTIVE]) => {}
                Act::EndCollect if block > 0 && self.ends_with(block - 1, &COLLECTS) => {}
                Act::Collect | Act::EndCollect => observe(index, Fault::Unpaired),
                Act::Yield => {
                    for divergence in &mut state.divergences {
                        divergence.yielded = divergence.yielded.min(index as u32);
                    }
                }
                Act::Collective => {
                    if let Some(divergence) = state.apart() {
                        let (cause, yielded) = (divergence.cause, divergence.yielded);
                        observe(index, Fault::Apart { cause, yielded });
                    }
                    passed.end_exclusion(state);
                }
            }
        }
        self.registers(at, bounds.end, state, &mut passed);
        passed.end_exclusion(state);
        if is_call(self.program, block) {
            self.call(block, state, &mut passed.written, &mut observe);
            state.frame.forget();
        }
        let last = bounds.end - 1;
        if (self.program.instructions[last].op().row().effects).contains(Effects::RETURN) {
            for region in &state.regions {
                if !region.unknown && !region.sites.is_empty() {
                    let inner = region.clone();
                    observe(last, Fault::StillOpen { inner });
                }
            }
        }
        state.write(&passed.written);
    }

    /// The block in which lanes part, or open what some of them leave.
    fn parted_at(&self, cause: Cause) -> usize {
        let block_of = |index: u32| {
            let blocks = &self.program.blocks;
            blocks.partition_point(|block| block.end <= index as usize)
        };
        match cause {
            Cause::Branch(block) | Cause::Found(block) => block as usize,
            Cause::Break(site) => block_of(self.acts.sites[site as usize]),
            Cause::Masks(index) => block_of(index),
        }
    }

    fn ends_with(&self, block: usize, ops: &[Op]) -> bool {
        let bounds = self.program.blocks.get(block);
        bounds.is_some_and(|bounds| ops.contains(&self.program.instructions[bounds.end - 1].op()))
    }

    fn frame_access(&self, index: usize) -> Option<FrameAccess> {
        let stack_pointer = self.program.machine.abi.stack_pointer;
        frame::access(&self.program.instructions[index], stack_pointer)
    }

    /// Whether a load from the stack finds the same in all lanes.
    fn is_in_common(&self, index: usize, state: &State) -> bool {
        match self.frame_access(index) {
            Some(FrameAccess::Load(bytes)) => state.frame.holds(bytes),
            _ => false,
        }
    }

    /// What a store leaves on the stack, and a change of the stack pointer of what is known there.
    fn store_to_frame(&self, index: usize, state: &mut State) {
        let fact = &self.facts.facts[index];
        match self.frame_access(index) {
            Some(FrameAccess::Store(bytes)) => {
                let mut reads = self.facts.reads(fact).iter();
                let same = fact.guard.is_none()
                    && state.is_way_of_all()
                    && !reads.any(|read| state.divergent.contains(read.register));
                state.frame.store(bytes, same);
            }
            Some(FrameAccess::Anywhere) => state.frame.forget(),
            Some(FrameAccess::Load(_)) | None => {}
        }
        let stack_pointer = u16::from(self.program.machine.abi.stack_pointer);
        let writes = self.facts.writes(fact);
        if writes.iter().any(|write| write.register == stack_pointer) {
            state.frame.forget();
        }
    }

    /// Which registers become the same or different in all lanes from one instruction up to another.
    fn registers(&self, from: usize, to: usize, state: &mut State, passed: &mut Passed) {
        for index in from..to {
            let fact = &self.facts.facts[index];
            self.store_to_frame(index, state);
            let writes = self.facts.writes(fact);
            if writes.is_empty() {
                continue;
            }
            let guard = fact.guard.is_some().then(|| {
                let guard = self.program.instructions[index].guard();
                Literal {
                    predicate: number(guard.predicate),
                    negated: guard.negated,
                }
            });
            let register_differs = |register: u16| {
                state.divergent.contains(register) && !passed.is_settled(register, guard)
            };
            let differ = || {
                let mut reads = self.facts.reads(fact).iter();
                reads.any(|read| register_differs(read.register))
            };
            let guard_differs =
                || guard.is_some_and(|guard| state.divergent.contains(guard.predicate));
            let differs = match self.sameness[index] {
                Sameness::Sources => differ(),
                Sameness::Loaded => differ() || state.apart().is_some(),
                Sameness::Never => true,
                Sameness::Frame => guard_differs() || !self.is_in_common(index, state),
                Sameness::Exchange(stage) => self_xor(&self.program.instructions[index])
                    .is_none_or(|pair| passed.exchange(stage, pair, state)),
                Sameness::Source(source) => register_differs(source) || guard_differs(),
                Sameness::Always | Sameness::Special => guard_differs(),
            };
            let flags = Flags::of(&self.program.instructions[index]);
            let differs = match flags {
                Some(flags) => flags.predicate_differs(state) || guard_differs(),
                None => differs,
            };
            for write in writes {
                if !RegisterSet::is_of_lanes(write.register) {
                    continue;
                }
                passed.written.insert(write.register);
                if let Some(flags) = flags
                    && flags.to == Some(write.register)
                {
                    flags.write(write.register, guard, state);
                    passed.settled.retain(|(it, _)| *it != write.register);
                    continue;
                }
                if differs {
                    state.divergent.insert(write.register);
                }
                if state.divergent.contains(write.register)
                    && passed.settle(write.register, guard, differs)
                {
                    state.divergent.remove(write.register);
                }
            }
            for write in writes {
                let changed = |guard: &Literal| guard.predicate == write.register;
                passed.settled.retain(|(_, guard)| !changed(guard));
            }
            if !state.saved.is_empty() {
                let overwritten = |register: u16| writes.iter().any(|w| w.register == register);
                state.saved.retain(|(register, _)| !overwritten(*register));
            }
            if fact.predicates != 0 {
                for write in writes {
                    state.forget_predicate(write.register);
                }
            }
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "what one block's walk has at hand"
    )]
    fn open(
        &self,
        index: usize,
        barrier: u8,
        site: u32,
        state: &mut State,
        sites: &mut [Site],
        again: &mut impl FnMut(usize),
        observe: &mut impl FnMut(usize, Fault),
    ) {
        if let Some(region) = state.region(barrier)
            && !region.unknown
        {
            let region = region.clone();
            observe(index, Fault::OpenedTwice { region });
        }
        if !self.is_meeting(self.meeting(index)) {
            observe(index, Fault::Elsewhere { barrier });
        }
        let around = (state.regions.iter())
            .filter(|region| region.barrier != barrier)
            .map(|region| (region.barrier, region.sites.clone()));
        let known = &mut sites[site as usize];
        let divergences: Vec<(Cause, Arm, bool)> = (state.divergences.iter())
            .map(|divergence| (divergence.cause, divergence.arm, divergence.apart))
            .collect();
        let around = around.collect();
        if known.divergences != divergences || known.around != around {
            known.divergences = divergences;
            known.around = around;
            known.meets.iter().for_each(|block| again(*block as usize));
        }
        state.set_region(Region::opened(barrier, site));
    }

    /// The instruction in front of the place that a BSSY names: where its lanes meet.
    fn meeting(&self, index: usize) -> Option<usize> {
        let words = self.program.instructions[index].target()? / WORD as i64;
        usize::try_from(index as i64 + words).ok()
    }

    /// Whether lanes exchange something in a region within one block without a WARPSYNC that would part them by their masks: then the
    /// region has no use, and something is missing.
    fn is_idle(&self, block: usize, opened: usize, index: usize) -> bool {
        if opened < self.program.blocks[block].start || opened > index {
            return false;
        }
        let ops = || {
            self.program.instructions[opened..index]
                .iter()
                .map(|one| one.op())
        };
        ops().any(is_exchange) && !ops().any(|op| op == Op::WARPSYNC || op == Op::WARPSYNC_ALL)
    }

    /// Whether it is a BSYNC.
    fn is_meeting(&self, index: Option<usize>) -> bool {
        let instruction = index.and_then(|index| self.program.instructions.get(index));
        instruction.is_some_and(|instruction| instruction.op() == Op::BSYNC)
    }

    fn meet(
        &self,
        block: usize,
        index: usize,
        barrier: u8,
        state: &mut State,
        sites: &mut [Site],
        observe: &mut impl FnMut(usize, Fault),
    ) {
        let Some(region) = state.close(barrier) else {
            let region = None;
            observe(index, Fault::NotOpen { barrier, region });
            return;
        };
        if region.unknown {
            state.end_all(Divergence::is_apart);
            return;
        }
        if region.closed {
            let region = Some(region.clone());
            observe(index, Fault::NotOpen { barrier, region });
        }
        for site in &region.sites {
            let opened = self.acts.sites[*site as usize] as usize;
            let named = self.meeting(opened);
            if named != Some(index) && self.is_meeting(named) {
                observe(opened, Fault::Elsewhere { barrier });
            }
            if self.is_idle(block, opened, index) {
                let site = *site;
                observe(index, Fault::Idle { barrier, site });
            }
            let meets = &mut sites[*site as usize].meets;
            if !meets.contains(&(block as u32)) {
                meets.push(block as u32);
            }
        }
        let within = |inner: &Region| {
            let around = inner
                .sites
                .iter()
                .flat_map(|site| &sites[*site as usize].around);
            let mut around = around.filter(|(outer, _)| *outer == barrier);
            around.any(|(_, opened)| opened.iter().any(|site| region.sites.contains(site)))
        };
        for inner in &state.regions {
            if !inner.unknown && within(inner) {
                let inner = inner.clone();
                observe(index, Fault::StillOpen { inner });
            }
        }
        state.regions.retain(|inner| !within(inner));
        let before = |cause: Cause| {
            let known = region
                .sites
                .iter()
                .flat_map(|site| &sites[*site as usize].divergences);
            (known.filter(|(known, _, _)| *known == cause))
                .map(|(_, arm, apart)| (*arm, *apart))
                .reduce(|a, b| (a.0.join(b.0), a.1 | b.1))
        };
        // Lanes that parted since have met, unless some went on because others let them.
        state
            .end_all(|divergence| before(divergence.cause).is_none() && divergence.yielded == NONE);
        for divergence in &mut state.divergences {
            if let Some((arm, apart)) = before(divergence.cause) {
                (divergence.arm, divergence.apart) = (arm, apart);
                if arm == Arm::PASSED {
                    divergence.written = RegisterSet::default();
                }
            }
        }
        if region.sites.iter().any(|&site| sites[site as usize].left) {
            state.part_region(&region, Arm::MET);
        }
    }

    fn call(
        &self,
        block: usize,
        state: &mut State,
        written: &mut RegisterSet,
        observe: &mut impl FnMut(usize, Fault),
    ) {
        let summary = self.procedures.summary(block);
        if self.procedures.callee(block).is_none() && self.program.outside == Outside::Unknown {
            // Whether lanes come back at all, and which, is not known.
            state.together();
            (0..BARRIERS).for_each(|barrier| state.set_region(Region::unknown(barrier)));
        }
        for region in &state.regions {
            if summary.opens >> region.barrier & 1 == 1 && !region.unknown {
                let region = region.clone();
                observe(
                    self.program.blocks[block].end - 1,
                    Fault::OpenedTwice { region },
                );
            }
        }
        if summary.diverges || state.divergent.intersects(&summary.reads) {
            state.divergent.extend(&summary.writes);
        }
        written.extend(&summary.writes);
        if let Some(index) = summary.yields {
            for divergence in &mut state.divergences {
                divergence.yielded = divergence.yielded.min(index);
            }
        }
    }

    /// The states of lanes that go on at each of a block's successors.
    pub(super) fn edges(
        &self,
        block: usize,
        successors: &[usize],
        state: State,
        sites: &mut [Site],
        mut again: impl FnMut(usize),
        mut go: impl FnMut(usize, State),
    ) {
        let last = self.program.blocks[block].end - 1;
        let instruction = &self.program.instructions[last];
        let fallthrough = block + 1;
        match instruction.op() {
            // Which way lanes go tells whether they are apart.
            Op::BRA_DIV | Op::JMP_DIV => {
                let parted = instruction.modifier(name::MODE) == Some(value::DIV);
                let start = self.program.blocks[block].start;
                let whole = (instruction.operand(slot::M))
                    .is_some_and(|mask| is_all_lanes(self.program, start, last, mask));
                for &next in successors {
                    let mut state = state.clone();
                    if (next == fallthrough) == parted {
                        if whole {
                            state.together();
                        } else {
                            state.gather();
                        }
                    } else {
                        state.part(Cause::Found(block as u32), Arm::SEVERAL);
                    }
                    go(next, state);
                }
                return;
            }
            op if COLLECTS.contains(&op) => {
                for &next in successors {
                    let mut state = state.clone();
                    if next == fallthrough {
                        state.together();
                    } else {
                        let found = |cause| matches!(cause, Cause::Found(_));
                        state
                            .divergences
                            .retain(|divergence| !found(divergence.cause));
                        self.collected(last + 1, &mut state);
                    }
                    go(next, state);
                }
                return;
            }
            // Lanes go on where their WARPSYNC.COLLECTIVE said.
            Op::ENDCOLLECTIVE => return,
            _ => {}
        }
        let parts = successors.len() > 1
            && self.is_divergent(instruction, &state)
            && successors
                .iter()
                .filter(|next| self.matters[**next])
                .count()
                > 1;
        let condition = match when(instruction) {
            When::If(condition) if successors.len() == 2 => Some(condition),
            _ => None,
        };
        for (arm, &next) in successors.iter().enumerate() {
            let mut state = state.clone();
            if parts {
                state.part(Cause::Branch(block as u32), Arm::new(arm));
            }
            if let Some(condition) = condition {
                for region in state.decide(condition, next != fallthrough) {
                    gone(&region, &mut state, sites, &mut again);
                }
            }
            go(next, state);
        }
    }

    /// What lanes do together up to ENDCOLLECTIVE is different in each.
    fn collected(&self, from: usize, state: &mut State) {
        for index in from..self.program.instructions.len() {
            let op = self.program.instructions[index].op();
            if op == Op::ENDCOLLECTIVE || op.row().effects.contains(Effects::TERMINATOR) {
                return;
            }
            for write in self.facts.writes(&self.facts.facts[index]) {
                if RegisterSet::is_of_lanes(write.register) {
                    state.divergent.insert(write.register);
                }
            }
        }
    }

    /// Whether lanes may disagree on where to go.
    fn is_divergent(&self, instruction: &Instruction, state: &State) -> bool {
        let differ = |register| state.divergent.contains(number(register));
        match instruction.op() {
            Op::BRA | Op::JMP => {
                let uniform = instruction
                    .modifier(name::MODE)
                    .is_some_and(|mode| matches!(mode, value::U | value::U_ANY));
                !uniform && conditions(instruction).any(differ)
            }
            Op::BRX | Op::JMX => {
                let target = instruction.operand(slot::A).and_then(Operand::as_register);
                target.is_some_and(|register| {
                    register.class == RegisterClass::R
                        && !register.is_constant()
                        && (differ(register) || differ(register.after()))
                })
            }
            _ => conditions(instruction).any(differ),
        }
    }
}

/// Lanes leave a region.
fn leave(
    barrier: u8,
    when: When,
    state: &mut State,
    sites: &mut [Site],
    again: &mut impl FnMut(usize),
) {
    let known = state.regions.iter_mut();
    let Some(region) = known.into_iter().find(|region| region.barrier == barrier) else {
        return;
    };
    match when {
        When::Always => {
            if let Some(region) = state.close(barrier) {
                gone(&region, state, sites, again);
            }
        }
        When::If(condition) if region.left_if.is_none() => region.left_if = Some(condition),
        When::If(_) | When::Sometimes => region.unknown = true,
    }
}

/// Lanes have left a region: from those that meet in it they are apart, unless all that opened it together are here.
fn gone(region: &Region, state: &mut State, sites: &mut [Site], again: &mut impl FnMut(usize)) {
    if region.parted.is_empty() {
        return;
    }
    state.part_region(region, Arm::LEFT);
    for &site in &region.sites {
        let known = &mut sites[site as usize];
        if !std::mem::replace(&mut known.left, true) {
            known.meets.iter().for_each(|block| again(*block as usize));
        }
    }
}
