//! MergeAccesses (10097): vectorisation of neighbouring loads (superword-level parallelism of memory).
//!
//! Loads of shared memory in one block, from one base at neighbouring offsets, become one load of 64 or 128 bits, or of a word where they are halves. The address
//! must be a multiple of the width: by where the variable lies (`aligned` in the function's header) and by the [alignment](crate::alignment) of the base.
//!
//! So do plain loads of words of global memory. Of pointers no alignment is known but what the program says of it itself: a vector that is loaded from the same base in the same block lies at a multiple of
//! its width, or the program is wrong. A compiler of array programs writes the first rows of a sum as vectors and the others word by word.
//!
//! All bytes of the wide load are bytes that some load reads, and nothing in between may write them. Words, doublewords and pairs of words are parts. The wide load stands right before
//! the first reader of one, or where the last of them does, if that comes first. Loads that come long after that reader stay: the registers of a wide one are taken from the first to the last reader.
//!
//! Halves become parts of words, which only readers of halves take as they are; halves that anybody else reads are left alone.
//!
//! Each block is read once, loads are sorted by place: n log n.

use super::common_subexpressions::changes_memory;
use crate::alignment::Alignments;
use crate::emit::{Emit, Mods, imm};
use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::DefUse;
use orias_ori::operation::{Cache, Order, Scalar, Space, Vector};
use orias_ori::{
    AbstractOp, Address, Block, Effects, Function, Guard, Inst, Opcode, Operand, Operation, Reg,
    Symbol, Type, Value,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// How many instructions lie between the first reader and the last load of a wide one at most.
const MOST_BETWEEN: usize = 64;

/// Widths of loads, in bytes, the widest first.
const WIDTHS: [i64; 3] = [16, 8, 4];

/// Where loads of one vector read, and how.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Memory {
    Shared,
    /// Global memory that may be written meanwhile.
    Global,
    /// Global memory that nobody writes.
    Constant,
}

/// A load that may be part of a wider one.
#[derive(Clone, Copy, Debug)]
struct Load {
    inst: Inst,
    memory: Memory,
    /// Where in the block.
    at: usize,
    /// How often memory was written before, or, where nobody writes it, how often lanes have waited.
    epoch: u32,
    base: Option<Value>,
    symbol: Option<Symbol>,
    offset: i64,
    bytes: i64,
    result: Value,
    /// Where in the block somebody reads of it first, and who.
    read: usize,
    reader: Option<Inst>,
}

impl Load {
    /// What loads of one vector have in common.
    fn group(&self) -> (Memory, u32, Option<Value>, Option<Symbol>) {
        (self.memory, self.epoch, self.base, self.symbol)
    }
}

/// Runs the phase.
pub fn merge_accesses(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let loads = |func: &Function, inst: Inst| {
        func.opcode(inst) == Opcode::Abstract(AbstractOp::Ld)
            && matches!(
                func.modifier::<Space>(inst),
                Some(Space::Shared | Space::Global)
            )
    };
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    if insts.filter(|&inst| loads(func, inst)).count() < 2 {
        return Ok(());
    }
    let chains = DefUse::new(func);
    let alignments = Alignments::new(func);
    let mut vectors: Vec<SmallVec<[Load; 8]>> = Vec::new();
    let mut places: FxHashMap<Inst, usize> = FxHashMap::default();
    for block in func.blocks() {
        let mut found = Vec::new();
        let mut epochs = [0; 2];
        let mut waits = 0;
        let told = told_alignments(func, block);
        places.clear();
        places.extend(func.block_insts(block).zip(0..));
        for (at, inst) in func.block_insts(block).enumerate() {
            match load(func, &chains, inst) {
                Some(load) => {
                    let first = first_reader(func, &chains, &places, load.result);
                    let epoch = match load.memory {
                        Memory::Shared => epochs[0],
                        Memory::Global => epochs[1],
                        Memory::Constant => waits,
                    };
                    found.push(Load {
                        at,
                        epoch,
                        read: first.map_or(usize::MAX, |(read, _)| read),
                        reader: first.map(|(_, reader)| reader),
                        ..load
                    });
                }
                None => {
                    waits += u32::from(func.opcode(inst).effects().intersects(WAITS));
                    for (epoch, space) in epochs.iter_mut().zip([Space::Shared, Space::Global]) {
                        *epoch += u32::from(may_write(func, inst, space));
                    }
                }
            }
        }
        found.sort_by_key(|load| (load.group(), load.offset));
        for group in found.chunk_by(|a, b| a.group() == b.group()) {
            let aligned = match group[0].memory {
                Memory::Shared => aligned(func, &alignments, &group[0]),
                Memory::Global | Memory::Constant => told_alignment(&told, group),
            };
            vectors.extend(vectors_of(group, aligned));
        }
    }
    for vector in vectors {
        merge(func, &chains, &vector)?;
    }
    Ok(())
}

/// Where in the block of `places` somebody reads `value` or a part of it first, and who.
fn first_reader(
    func: &Function,
    chains: &DefUse,
    places: &FxHashMap<Inst, usize>,
    value: Value,
) -> Option<(usize, Inst)> {
    let place = |inst: Inst| places.get(&inst).map(|&at| (at, inst));
    let readers = chains.uses(value).iter().map(|read| {
        if func.opcode(read.inst) != Opcode::Abstract(AbstractOp::Split) {
            return place(read.inst);
        }
        let parts = func.value_defs(read.inst);
        let of_parts = parts.flat_map(|part| chains.uses(part));
        of_parts
            .filter_map(|read| place(read.inst))
            .min_by_key(|&(at, _)| at)
    });
    readers.flatten().min_by_key(|&(at, _)| at)
}

/// What waits or calls: who comes there may never come back, and what was written before it may be seen only behind it.
const WAITS: Effects = Effects::CALL
    .with(Effects::BARRIER)
    .with(Effects::CONVERGENT);

/// A vector in global memory that a block loads: who comes to `from` in the block comes to the load, and its base is a multiple of `width`.
struct Told {
    base: Value,
    from: usize,
    width: i64,
}

/// What vectors in global memory that `block` loads tell of their bases.
fn told_alignments(func: &Function, block: Block) -> Vec<Told> {
    let mut told = Vec::new();
    let mut from = 0;
    for (at, inst) in func.block_insts(block).enumerate() {
        if func.opcode(inst).effects().intersects(WAITS) {
            from = at;
        }
        let count = match func.modifier::<Vector>(inst) {
            Some(Vector::V2) => 2,
            Some(Vector::V4) => 4,
            _ => continue,
        };
        let loads = func.opcode(inst) == Opcode::Abstract(AbstractOp::Ld)
            && func.inst(inst).guard().is_always()
            && func.modifier::<Space>(inst) == Some(Space::Global);
        let (Some(scalar), &[_, Operand::Address(address), ..]) =
            (func.modifier::<Scalar>(inst), func.operands(inst))
        else {
            continue;
        };
        let address = func.address(address);
        let width = count * i64::from(scalar.bits()) / 8;
        let base = address.base.get().and_then(|base| base.value());
        if let Some(base) = base.filter(|_| loads && address.symbol.is_none())
            && WIDTHS.contains(&width)
            && i64::from(address.offset).rem_euclid(width) == 0
        {
            told.push(Told { base, from, width });
        }
    }
    told
}

/// What the base of `group` is known to be a multiple of where its loads stand.
fn told_alignment(told: &[Told], group: &[Load]) -> i64 {
    let first = group.iter().map(|load| load.at).min().unwrap_or(0);
    let of_base = told
        .iter()
        .filter(|it| Some(it.base) == group[0].base && it.from <= first);
    of_base.map(|it| it.width).max().unwrap_or(1)
}

/// Where a load reads from, if it does nothing besides.
fn memory(func: &Function, inst: Inst) -> Option<Memory> {
    let Operation::Abstract(op, mods) = func.inst(inst).operation() else {
        return None;
    };
    let (scalar, vector) = (
        func.modifier::<Scalar>(inst)?,
        func.modifier::<Vector>(inst)?,
    );
    let cache = func.modifier::<Cache>(inst)?;
    match (func.modifier::<Space>(inst)?, cache) {
        (Space::Shared, _) => Some(Memory::Shared),
        (Space::Global, Cache::Default | Cache::Nc) => {
            let plain = (Order::Weak, Space::Global, cache, vector, scalar).pack(op.row());
            let without_policy = func
                .operands(inst)
                .get(2)
                .is_none_or(|it| *it == Operand::None);
            let words = scalar.bits() >= 32;
            let memory = match cache {
                Cache::Nc => Memory::Constant,
                _ => Memory::Global,
            };
            (plain == Some(mods) && without_policy && words).then_some(memory)
        }
        _ => None,
    }
}

/// What a load reads, if it may become part of another.
fn load(func: &Function, chains: &DefUse, inst: Inst) -> Option<Load> {
    let plain = func.opcode(inst) == Opcode::Abstract(AbstractOp::Ld)
        && func.inst(inst).guard().is_always()
        && func.modifier::<Order>(inst) == Some(Order::Weak)
        && matches!(func.modifier::<Vector>(inst), Some(Vector::V1 | Vector::V2));
    let &[_, Operand::Address(address), ..] = func.operands(inst) else {
        return None;
    };
    let memory = memory(func, inst).filter(|_| plain)?;
    let result = func.result(inst, 0).filter(|_| plain)?;
    let single = func.modifier::<Vector>(inst) == Some(Vector::V1);
    let bytes = match func.modifier::<Scalar>(inst)?.bits() {
        16 if single && is_read_as_half(func, chains, result) => 2,
        bits @ (32 | 64) if single => i64::from(bits / 8),
        32 => 8,
        _ => return None,
    };
    let address = func.address(address);
    let base = match address.base.get() {
        Some(reg) => Some(reg.value()?),
        None => None,
    };
    Some(Load {
        inst,
        memory,
        at: 0,
        epoch: 0,
        base,
        symbol: address.symbol.expand(),
        offset: i64::from(address.offset),
        bytes,
        result,
        read: usize::MAX,
        reader: None,
    })
}

/// Whether all who read `value` take its lower half and nothing else.
fn is_read_as_half(func: &Function, chains: &DefUse, value: Value) -> bool {
    chains.uses(value).iter().all(|read| {
        let Opcode::Abstract(op) = func.opcode(read.inst) else {
            return false;
        };
        match op {
            AbstractOp::Prmt => {
                let operands = func.operands(read.inst);
                matches!(operands, [_, a, b, Operand::Imm(select)] if a == b && select.bits() == TWICE)
            }
            AbstractOp::Fadd | AbstractOp::Fsub | AbstractOp::Fmul | AbstractOp::Ffma => {
                matches!(
                    func.modifier::<Scalar>(read.inst),
                    Some(Scalar::F16 | Scalar::Bf16)
                )
            }
            _ => false,
        }
    })
}

/// The permutation that repeats the lower half of its operand.
const TWICE: u64 = 0x5410;

/// Whether memory of that space, shared or global, may be another after `inst`.
fn may_write(func: &Function, inst: Inst, space: Space) -> bool {
    let to = func.modifier::<Space>(inst);
    let elsewhere = func.opcode(inst) == Opcode::Abstract(AbstractOp::St)
        && func.modifier::<Order>(inst) == Some(Order::Weak)
        && matches!(to, Some(Space::Shared | Space::Global | Space::Local))
        && to != Some(space);
    changes_memory(func, inst) && !elsewhere
}

/// What the address of a group's offset zero is a multiple of, as far as that matters.
fn aligned(func: &Function, alignments: &Alignments, load: &Load) -> i64 {
    let base = load.base.map_or(WIDTHS[0], |base| alignments.of(base));
    let symbol = load.symbol.map_or(WIDTHS[0], |symbol| {
        let known = &func.attributes.aligned;
        i64::from(known.get(func.symbol_name(symbol)).copied().unwrap_or(1))
    });
    base.min(symbol).min(WIDTHS[0])
}

/// The vectors of a group of loads, sorted by their offsets.
fn vectors_of(group: &[Load], aligned: i64) -> Vec<SmallVec<[Load; 8]>> {
    let mut vectors = Vec::new();
    let mut next = 0;
    while next < group.len() {
        let rest = &group[next..];
        let found = WIDTHS.into_iter().find_map(|width| {
            let fits = width <= aligned && rest[0].offset.rem_euclid(width) == 0;
            fits.then(|| vector(rest, width)).flatten()
        });
        match found {
            Some(count) => {
                vectors.push(rest[..count].into());
                next += count;
            }
            None => next += 1,
        }
    }
    vectors
}

/// How many loads, one behind the other, make up `width` bytes.
fn vector(loads: &[Load], width: i64) -> Option<usize> {
    let start = loads[0].offset;
    let mut end = start;
    let mut count = 0;
    for load in loads {
        if end == start + width {
            break;
        }
        if load.offset != end || load.offset + load.bytes > start + width {
            return None;
        }
        end += load.bytes;
        count += 1;
    }
    let last = loads[..count].iter().map(|load| load.at).max()?;
    let read = loads[..count].iter().map(|load| load.read).min()?;
    let near = last.saturating_sub(read) <= MOST_BETWEEN;
    (end == start + width && count > 1 && near).then_some(count)
}

/// Whether nobody but `insts` reads `value`.
fn are_all(insts: &[Inst], chains: &DefUse, value: Value) -> bool {
    let mut uses = chains.uses(value).iter();
    uses.all(|read| insts.contains(&read.inst))
}

/// Makes the loads one, right before the first reader of one, or at the place of the last.
fn merge(func: &mut Function, chains: &DefUse, loads: &[Load]) -> Result<(), PhaseError> {
    let (Some(first), Some(last)) = (
        loads.iter().min_by_key(|load| load.read),
        loads.iter().max_by_key(|load| load.at),
    ) else {
        return Ok(());
    };
    // A reader may be a load that is part of another by now.
    let early = loads.iter().filter(|load| load.at < first.read);
    let stays = |inst: &Inst| func.layout.inst_block(*inst).is_some();
    let place = match (first.reader.filter(stays), early.max_by_key(|load| load.at)) {
        (Some(reader), _) if first.read < last.at => reader,
        (_, Some(load)) => load.inst,
        (_, None) => return Ok(()),
    };
    // Parts are named anew, so that nobody reads them where they stood.
    let mut parts: SmallVec<[(Value, i64); 8]> = SmallVec::new();
    let mut splits: SmallVec<[Inst; 4]> = SmallVec::new();
    for load in loads.iter().filter(|load| load.bytes == 8) {
        for read in chains.uses(load.result) {
            let is_split = func.opcode(read.inst) == Opcode::Abstract(AbstractOp::Split);
            if is_split && !splits.contains(&read.inst) {
                let at = load.offset - loads[0].offset;
                parts.extend(func.value_defs(read.inst).zip([at, at + 4]));
                splits.push(read.inst);
            }
        }
    }
    let width: i64 = loads.iter().map(|load| load.bytes).sum();
    let (vector, ty) = match width {
        4 => (Vector::V1, Type::R),
        8 => (Vector::V2, Type::R2),
        _ => (Vector::V4, Type::R4),
    };
    let address = Address {
        base: first.base.map(Reg::from).into(),
        symbol: first.symbol.into(),
        offset: loads[0].offset as i32,
        ..Address::default()
    };
    let policy = func.operands(first.inst).get(2).copied();
    let mut emit = Emit::before(func, place);
    let whole = emit.func().create_value(ty);
    let address = emit.func().create_address(address);
    let operands = [address, policy.unwrap_or(Operand::None)];
    let (space, cache) = match first.memory {
        Memory::Shared => (Space::Shared, Cache::Default),
        Memory::Global => (Space::Global, Cache::Default),
        Memory::Constant => (Space::Global, Cache::Nc),
    };
    let always = Guard::ALWAYS;
    emit.put(
        AbstractOp::Ld,
        (space, cache, Scalar::B32, vector),
        &[whole.into()],
        &operands,
        always,
        &[],
    );
    let words = emit.words(whole);
    for load in loads {
        let at = load.offset - loads[0].offset;
        let word = words[(at / 4) as usize];
        let result = [Operand::from(load.result)];
        match (load.bytes, at % 4) {
            (8, _) if are_all(&splits, chains, load.result) => {}
            (8, _) => {
                let parts = [word.into(), words[(at / 4) as usize + 1].into()];
                emit.put(AbstractOp::Collect, (), &result, &parts, always, &[]);
            }
            (2, 2) => {
                let parts = [word.into(), imm(16)];
                emit.put(
                    AbstractOp::Shr,
                    (Scalar::U32,),
                    &result,
                    &parts,
                    always,
                    &[],
                );
            }
            _ => {
                let parts = [word.into()];
                emit.put(
                    AbstractOp::Mov,
                    (Scalar::B32,),
                    &result,
                    &parts,
                    always,
                    &[],
                );
            }
        }
    }
    for (part, at) in parts {
        let word = [words[(at / 4) as usize].into()];
        emit.put(
            AbstractOp::Mov,
            (Scalar::B32,),
            &[part.into()],
            &word,
            always,
            &[],
        );
    }
    emit.finish().map_err(|error| PhaseError::Broken {
        at: first.inst.to_string(),
        what: error.to_string(),
    })?;
    for &inst in splits.iter().chain(loads.iter().map(|load| &load.inst)) {
        func.remove_inst(inst);
    }
    Ok(())
}
