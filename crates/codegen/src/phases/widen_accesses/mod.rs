//! WidenAccesses (10095): neighbouring accesses to global memory, each under a guard of its own, become one wide access where all guards hold and the address is aligned.
//!
//! Triton writes `x[i]` for each element that a thread has, under `i < n`, unless it knows that `n` is a multiple of the vector's length: eight loads of two bytes whose lanes lie sixteen
//! bytes apart, so that each of them reads half of the lines that the warp reads, and eight stores that each write an eighth of as many sectors. In all threads but the last ones all guards hold,
//! and pointers are aligned as a rule, which the address itself tells. So the run is written twice:
//!
//! ```text
//! head:    p = guards & (address & 15) == 0
//!          cbr p -> wide, narrow
//! wide:    w = ld.v4.b32 [address]             br tail(w)
//! narrow:  @p0 v0 = ld.b16 [address] …         br tail(v0, v1, … as words)
//! tail(w): elements of w
//! ```
//!
//! (versioning, of superword-level parallelism). `narrow` counts as rare. What is loaded comes to `tail` as words, taken apart there, so that nobody waits for it on the wide way; what is stored is packed in
//! `head`, where two conversions become one word, and taken apart again on the narrow way. Loads that come one after another under the same guards share one test.
//!
//! **Which.** Weak accesses of 8 to 64 bits from one base, in one block outside of loops, at least [`LEAST`] in a row that make up 4, 8 or 16 bytes, or two of 8 (at least [`LEAST_PLAIN`] if they have no guards: code without them was
//! written for what it does). Loads go down to the last of their run: nothing in between changes memory or reads what they loaded. Stores too: nothing in between accesses memory. Each byte that is read or written
//! wide is one that the run would access: all guards hold.
//!
//! `WidenAccesses` (10095) switches it off. Cost: linear, but for sorting the accesses of a block.

mod elements;
mod guards;

use super::common_subexpressions::changes_memory;
use crate::alignment::Alignments;
use crate::emit::{Emit, imm};
use crate::loops::LoopAnalyses;
use crate::pipeline::{Context, PhaseError};
use elements::{keeps_element, packed, reads_lower_bits, unpacked};
use guards::{Guards, all_hold};
use orias_ori::analysis::{DefUse, Use};
use orias_ori::builder::BuildError;
use orias_ori::operation::{AbstractMods, Compare, Order, Scalar, Space, Vector};
use orias_ori::{
    AbstractOp, Address, Block, Effects, Function, Guard, Inst, Operand, Operation, Type, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// How many accesses become one, at least, and the same of doublewords.
const LEAST: usize = 4;
const LEAST_WIDE: usize = 2;

/// The same where they have no guards.
const LEAST_PLAIN: usize = 8;

/// Widths of accesses, in bytes, the widest first.
const WIDTHS: [i64; 3] = [16, 8, 4];

/// How many wide accesses share a test at most: what they load lives together.
const MOST_SHARING: usize = 4;

/// Runs of a function that are written twice at most.
const MOST_RUNS: usize = 16;

/// An access that may be part of a wider one.
#[derive(Clone, Copy, Debug)]
struct Access {
    inst: Inst,
    /// Where in the block.
    at: usize,
    /// What can have happened to memory before, as a number that grows.
    epoch: u32,
    base: Value,
    offset: i64,
    bytes: i64,
    /// What is loaded or stored.
    value: Value,
    mods: AbstractMods,
    policy: Operand,
}

impl Access {
    /// What accesses of one vector have in common.
    fn group(&self) -> (u32, Value, i64) {
        (self.epoch, self.base, self.bytes)
    }
}

/// Accesses that may become one, by their offsets.
type Run = SmallVec<[Access; 8]>;

/// Runs of loads, or of stores, that share a test.
struct Shared {
    loads: bool,
    /// The block they were found in.
    block: Block,
    runs: Vec<Run>,
    guards: Vec<Guard>,
    /// The last of their accesses, behind which the block is cut.
    last: usize,
    end: Inst,
}

/// What is known of the function as it was.
struct Facts {
    alignments: Alignments,
    uses: DefUse,
}

/// Runs the phase.
pub fn widen_accesses(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let Some(plan) = plan(func) else {
        return Ok(());
    };
    let facts = Facts {
        alignments: Alignments::new(func),
        uses: DefUse::new(func),
    };
    // Runs of one block under the same guards ask for them once.
    let mut asked: Vec<(Block, Vec<Guard>, Operand)> = Vec::new();
    for shared in plan {
        let known = (asked.iter())
            .find(|(block, guards, _)| *block == shared.block && *guards == shared.guards)
            .map(|&(_, _, all)| all);
        let all = widen(func, &facts, &shared, known).map_err(|error| PhaseError::Broken {
            at: shared.end.to_string(),
            what: error.to_string(),
        })?;
        asked.push((shared.block, shared.guards, all));
    }
    Ok(())
}

fn plan(func: &Function) -> Option<Vec<Shared>> {
    func.entry()?;
    let accesses = |block: Block| {
        let insts = func.block_insts(block);
        insts.filter(|&inst| is_candidate(func, inst)).count()
    };
    let blocks: Vec<Block> = (func.blocks())
        .filter(|&it| accesses(it) >= LEAST_WIDE)
        .collect();
    if blocks.is_empty() || has_products_of_groups(func) {
        return None;
    }
    let shape = LoopAnalyses::of(func);
    let uses = DefUse::new(func);
    let mut found = Vec::new();
    for block in blocks {
        if shape.nest.innermost(block).is_none() && !func.attributes.rare.contains(&block) {
            found.extend(in_block(func, &uses, block));
        }
    }
    found.truncate(MOST_RUNS);
    (!found.is_empty()).then_some(found)
}

/// Whether the function has products of warp groups, whose registers must not be moved about.
fn has_products_of_groups(func: &Function) -> bool {
    let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts.any(|inst| func.opcode(inst).as_abstract() == Some(AbstractOp::Wgmma))
}

fn is_candidate(func: &Function, inst: Inst) -> bool {
    matches!(
        func.opcode(inst).as_abstract(),
        Some(AbstractOp::Ld | AbstractOp::St)
    ) && func.modifier::<Space>(inst) == Some(Space::Global)
        && func.modifier::<Order>(inst) == Some(Order::Weak)
        && func.modifier::<Vector>(inst) == Some(Vector::V1)
        && !func.is_named(inst)
}

/// The access that `inst` makes, if it may become part of another.
fn access(func: &Function, inst: Inst) -> Option<Access> {
    if !is_candidate(func, inst) {
        return None;
    }
    let Operation::Abstract(op, mods) = func.inst(inst).operation() else {
        return None;
    };
    let operands = func.operands(inst);
    let (value, address, policy) = match (op, operands) {
        (AbstractOp::Ld, &[value, address, ..]) => (value, address, operands.get(2)),
        (_, &[address, value, ..]) => (value, address, operands.get(2)),
        _ => return None,
    };
    let value = value.as_value().filter(|_| value.mods().is_empty())?;
    let bytes = match func.modifier::<Scalar>(inst)?.bits() {
        bits @ (8 | 16 | 32) if func.value_type(value) == Type::R => i64::from(bits / 8),
        64 if func.value_type(value) == Type::R2 => 8,
        _ => return None,
    };
    let Operand::Address(address) = address else {
        return None;
    };
    let address = func.address(address);
    let base = address.base.get()?.value()?;
    let plain =
        *address == Address::base(base, address.offset) && func.value_type(base) == Type::R2;
    plain.then_some(Access {
        inst,
        at: 0,
        epoch: 0,
        base,
        offset: i64::from(address.offset),
        bytes,
        value,
        mods,
        policy: policy.copied().unwrap_or(Operand::None),
    })
}

/// The runs of a block, in the order of their ends.
fn in_block(func: &Function, uses: &DefUse, block: Block) -> Vec<Shared> {
    let insts: Vec<Inst> = func.block_insts(block).collect();
    let place: FxHashMap<Inst, usize> = (insts.iter().copied().enumerate())
        .map(|(at, inst)| (inst, at))
        .collect();
    let (mut loads, mut stores): (Vec<Access>, Vec<Access>) = (Vec::new(), Vec::new());
    let mut epoch = 0;
    // Stores of one base in a row, with nothing that touches memory between them.
    let mut row: (u32, Option<Value>) = (0, None);
    for (at, &inst) in insts.iter().enumerate() {
        let found = access(func, inst);
        let is_store = func.opcode(inst).as_abstract() == Some(AbstractOp::St);
        match found {
            Some(access) if !is_store => {
                row = (row.0 + 1, None);
                loads.push(Access {
                    at,
                    epoch,
                    ..access
                });
            }
            Some(access) => {
                if row.1 != Some(access.base) {
                    row = (row.0 + 1, Some(access.base));
                }
                epoch += 1;
                stores.push(Access {
                    at,
                    epoch: row.0,
                    ..access
                });
            }
            None if func.opcode(inst).effects() != Effects::NONE => {
                epoch += u32::from(changes_memory(func, inst));
                row = (row.0 + 1, None);
            }
            None => {}
        }
    }
    let read_before = |value: Value, end: usize| {
        let within = |it: &Use| place.get(&it.inst).is_some_and(|&at| at <= end);
        uses.uses(value).iter().any(within)
    };
    let mut found: Vec<Shared> = Vec::new();
    for (accesses, is_load) in [(loads, true), (stores, false)] {
        for run in runs(func, accesses, is_load) {
            let last = run.iter().map(|it| it.at).max().unwrap_or(0);
            let waits = |it: &Access| !read_before(it.value, last) && keeps_element(func, uses, it);
            if is_load && !run.iter().all(waits) {
                continue;
            }
            let guards = guards(func, &run);
            if guards.is_empty() && run.len() < LEAST_PLAIN {
                continue;
            }
            found.push(Shared {
                loads: is_load,
                block,
                runs: vec![run],
                guards,
                last,
                end: insts[last],
            });
        }
    }
    found.sort_by_key(|it| it.last);
    // Loads under the same guards share a test, if all of them can wait for the last.
    let mut merged: Vec<Shared> = Vec::new();
    for shared in found {
        if let Some(before) = merged.last_mut()
            && before.loads == shared.loads
            && before.guards == shared.guards
            && before.runs.len() < MOST_SHARING
            && before.runs[0][0].epoch == shared.runs[0][0].epoch
            && (!shared.loads
                || !(before.runs.iter().flatten()).any(|it| read_before(it.value, shared.last)))
        {
            before.runs.extend(shared.runs);
            (before.last, before.end) = (shared.last, shared.end);
        } else {
            merged.push(shared);
        }
    }
    merged
}

/// The vectors among accesses of a block.
fn runs(func: &Function, mut accesses: Vec<Access>, loads: bool) -> Vec<Run> {
    if !loads {
        // Of stores to one place the last counts: they stay in their order.
        accesses.sort_by_key(|it| (it.epoch, it.offset));
        let overlaps = |pair: &[Access]| {
            pair[0].epoch == pair[1].epoch && pair[0].offset + pair[0].bytes > pair[1].offset
        };
        let rows: FxHashSet<u32> = (accesses.windows(2).filter(|pair| overlaps(pair)))
            .map(|pair| pair[0].epoch)
            .collect();
        accesses.retain(|it| !rows.contains(&it.epoch));
    }
    accesses.sort_by_key(|it| (it.group(), it.offset, it.at));
    let mut found = Vec::new();
    for group in accesses.chunk_by(|a, b| a.group() == b.group()) {
        let mut next = 0;
        while next < group.len() {
            let rest = &group[next..];
            let count = WIDTHS.iter().find_map(|&width| vector(func, rest, width));
            if let Some(count) = count {
                found.push(rest[..count].into());
            }
            next += count.unwrap_or(1);
        }
    }
    found
}

/// How many accesses, one behind the other, make up `width` bytes.
fn vector(func: &Function, accesses: &[Access], width: i64) -> Option<usize> {
    let count = usize::try_from(width / accesses[0].bytes).ok()?;
    let least = if accesses[0].bytes == 8 {
        LEAST_WIDE
    } else {
        LEAST
    };
    let run = accesses.get(..count).filter(|_| count >= least)?;
    let first = run[0];
    let alike = |(index, it): (usize, &Access)| {
        it.offset == first.offset + index as i64 * first.bytes
            && it.mods == first.mods
            && it.policy == first.policy
            && func.inst(it.inst).guard().is_always() == func.inst(first.inst).guard().is_always()
    };
    run.iter().enumerate().all(alike).then_some(count)
}

/// The guards of a run, each once.
fn guards(func: &Function, run: &Run) -> Vec<Guard> {
    let mut found: Vec<Guard> = Vec::new();
    for access in run {
        let guard = func.inst(access.inst).guard();
        if !guard.is_always() && !found.contains(&guard) {
            found.push(guard);
        }
    }
    found
}

/// Writes runs twice; `known` tells whether all guards hold, if that was asked before. Returns that.
fn widen(
    func: &mut Function,
    facts: &Facts,
    shared: &Shared,
    known: Option<Operand>,
) -> Result<Operand, BuildError> {
    let (Some(head), Some(behind)) = (
        func.layout.inst_block(shared.end),
        func.layout.next_inst(shared.end),
    ) else {
        return Ok(imm(0));
    };
    let is_aligned = |run: &Run| {
        let width = width(run);
        facts.alignments.of(run[0].base) >= width && run[0].offset.rem_euclid(width) == 0
    };
    if shared.guards.is_empty() && shared.runs.iter().all(is_aligned) {
        // Whoever knew that wrote what he wanted.
        return Ok(imm(0));
    }
    let span = func.inst(shared.end).span();
    let tail = func.split_block(behind);
    let (wide, narrow) = (func.create_block(), func.create_block());
    func.layout.insert_block_after(wide, head);
    func.layout.insert_block_after(narrow, wide);
    func.attributes.rare.insert(narrow);
    for access in shared.runs.iter().flatten() {
        func.layout.remove_inst(access.inst);
    }
    let mut emit = Emit::at_end(func, head, span);
    let words: Vec<Vec<Value>> = match shared.loads {
        true => Vec::new(),
        false => (shared.runs.iter())
            .map(|run| packed(&mut emit, run))
            .collect(),
    };
    let all = known.unwrap_or_else(|| all_hold(&mut emit, &shared.guards));
    let fits = aligned(&mut emit, &facts.alignments, shared, all);
    emit.end(AbstractOp::CondBr, &[fits], &[(wide, &[]), (narrow, &[])]);
    emit.goto_end(wide);
    let mut whole: Vec<Value> = Vec::new();
    for (index, run) in shared.runs.iter().enumerate() {
        let stored = words.get(index).map(|words| emit.collect(words));
        whole.extend(access_wide(&mut emit, run, stored));
    }
    emit.end(AbstractOp::Br, &[], &[(tail, &whole)]);
    emit.finish()?;
    let parts = match shared.loads {
        true => load_narrow(func, narrow, shared)?,
        false => store_narrow(func, narrow, shared, &words)?,
    };
    let mut emit = Emit::at_end(func, narrow, span);
    emit.end(AbstractOp::Br, &[], &[(tail, &parts)]);
    emit.finish()?;
    for (run, &whole) in shared.runs.iter().zip(&whole) {
        let ty = func.value_type(whole);
        let param = func.append_block_param(tail, ty);
        let lower: Vec<bool> = (run.iter())
            .map(|it| reads_lower_bits(func, &facts.uses, it.value, it.bytes))
            .collect();
        let mut emit = Emit::before(func, behind);
        let words = emit.words(param);
        for (element, access) in run.iter().enumerate() {
            let part = unpacked(&mut emit, &words, run, element, lower[element]);
            let result = [Operand::from(access.value)];
            let wide = access.bytes == 8;
            let mods = (if wide { Scalar::B64 } else { Scalar::B32 },);
            emit.put(AbstractOp::Mov, mods, &result, &[part], Guard::ALWAYS, &[]);
        }
        emit.finish()?;
    }
    Ok(all)
}

/// Loads one by one, with results of their own: what they were called is what comes behind. Returns the words that they make up.
fn load_narrow(
    func: &mut Function,
    narrow: Block,
    shared: &Shared,
) -> Result<Vec<Value>, BuildError> {
    let mut parts = Vec::new();
    let mut guards = Guards::default();
    for run in &shared.runs {
        let mut loaded = run.clone();
        for access in &mut loaded {
            guards.compute_again(func, narrow, access.inst)?;
            let fresh = func.create_value(func.value_type(access.value));
            func.map_defs(access.inst, |_| fresh.into());
            func.layout.append_inst(access.inst, narrow);
            access.value = fresh;
        }
        let span = func.inst(run[0].inst).span();
        let mut emit = Emit::at_end(func, narrow, span);
        let words = packed(&mut emit, &loaded);
        parts.push(emit.collect(&words));
        emit.finish()?;
    }
    Ok(parts)
}

/// Stores one by one what was packed.
fn store_narrow(
    func: &mut Function,
    narrow: Block,
    shared: &Shared,
    words: &[Vec<Value>],
) -> Result<Vec<Value>, BuildError> {
    let mut guards = Guards::default();
    for (run, words) in shared.runs.iter().zip(words) {
        for (element, access) in run.iter().enumerate() {
            guards.compute_again(func, narrow, access.inst)?;
            let mut emit = Emit::at_end(func, narrow, None);
            let part = unpacked(&mut emit, words, run, element, true);
            emit.finish()?;
            func.set_operand(access.inst, 1, part);
            func.layout.append_inst(access.inst, narrow);
        }
    }
    Ok(Vec::new())
}

/// Whether `all` holds, and all addresses are aligned.
fn aligned(emit: &mut Emit<'_>, alignments: &Alignments, shared: &Shared, all: Operand) -> Operand {
    let mut holds = all;
    let mut asked: Vec<(Value, i64, i64)> = Vec::new();
    for run in &shared.runs {
        let (base, width) = (run[0].base, width(run));
        let inside = run[0].offset.rem_euclid(width);
        let question = (base, inside, width);
        if (alignments.of(base) >= width && inside == 0) || asked.contains(&question) {
            continue;
        }
        asked.push(question);
        let (low, _) = emit.halves(base.into());
        let low = match inside {
            0 => low,
            offset => emit.add(low, imm(offset as u64)),
        };
        let rest = emit.and(low, imm(width as u64 - 1));
        let fits = emit.setp(Compare::Eq, Scalar::U32, rest, imm(0));
        holds = match holds {
            Operand::Imm(_) => fits,
            holds => emit.op(AbstractOp::And, (Scalar::Pred,), &[holds, fits]),
        };
    }
    holds
}

/// How many bytes a run has.
fn width(run: &Run) -> i64 {
    run.len() as i64 * run[0].bytes
}

/// The one access that does what a run does; what it loads.
fn access_wide(emit: &mut Emit<'_>, run: &Run, stored: Option<Value>) -> Option<Value> {
    let first = run[0];
    let (vector, ty) = match width(run) {
        4 => (Vector::V1, Type::R),
        8 => (Vector::V2, Type::R2),
        _ => (Vector::V4, Type::R4),
    };
    let address = Address::base(first.base, first.offset as i32);
    let address = emit.func().create_address(address);
    let op = match stored {
        None => AbstractOp::Ld,
        Some(_) => AbstractOp::St,
    };
    let row = op.row();
    let mods = row
        .with_modifier(first.mods, Scalar::B32)
        .and_then(|mods| row.with_modifier(mods, vector))?;
    match stored {
        Some(value) => {
            let operands = [address, value.into(), first.policy];
            emit.put(op, mods, &[], &operands, Guard::ALWAYS, &[]);
            None
        }
        None => {
            let whole = emit.func().create_value(ty);
            let operands = [address, first.policy];
            emit.put(op, mods, &[whole.into()], &operands, Guard::ALWAYS, &[]);
            Some(whole)
        }
    }
}
