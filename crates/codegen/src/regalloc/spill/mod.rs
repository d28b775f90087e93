//! Spilling: values leave the registers until what is left fits.
//!
//! A class is too full at a point when the values live there need more registers than it may use, each tuple counted with
//! the registers its alignment may cost: then a tightly packed arrangement exists. From the values live across such a point
//! those go that cost least: few uses, outside loops, for many registers and a long time. Such a value goes entirely: it is stored where it is
//! defined and loaded before each use. General registers have a second way, on which values leave for a while only ([`split`]); the one is taken
//! whose accesses cost less.
//!
//! | class | goes to | stored by | loaded by |
//! | --- | --- | --- | --- |
//! | any, if its instruction reads no register and no memory but constants | nowhere | | the instruction again |
//! | R, P, if its instruction reads one other value that can stay ([`derive`]) | nowhere | | the instruction again |
//! | R | local memory | `STL` | `LDL` |
//! | P | R | `SEL` | `ISETP` |
//! | UR | R | `MOV` | `R2UR` |
//!
//! A block parameter of class R goes with its arguments: every edge stores its argument where the parameter is loaded from
//! ([`params`]), so a loop may carry more values than there are registers. Where more predicates are passed than there are, parameters of
//! class P become parameters of class R.
//!
//! Loaded values are short and are not spilled again. Rounds follow until all points fit; a point that is too full with
//! nothing left to spill is an error. Two or three rounds are the rule: the count of a round is true but for where a value and what it
//! is made of are needed at once.
//!
//! Liveness is found once: a value that goes to memory is live nowhere any more, one that goes to another register file is replaced
//! by its location. Parameters that go to memory change the flow of control, and sources of what is rematerialised live longer: then
//! everything is found anew. A walk that only counts ([`LastUses`]) says which blocks are too full; the others are not looked at.
//!
//! Cost of a round: O(operands + live pairs of value and block), and for each value spilled a look at what is live there.

mod ahead;
mod derive;
mod distances;
mod look;
mod params;
mod recompute;
mod residence;
mod split;
mod staying;

use super::assign::Stop;
use super::calls::has_returning_calls;
use super::counts::Goals;
use super::last_uses::{Counts, LastUses, raise};
use super::refused;
use crate::pipeline::PhaseError;
use crate::tail::group_start;
use ahead::{SLACK, SpillArea};
use cranelift_entity::EntityRef;
use look::{Choice, Look};
use orias_machine::Machine;
use orias_ori::analysis::{DefUse, FlowGraph, Frequencies, Liveness};
use orias_ori::builder::Cursor;
use orias_ori::{
    AbstractMods, AbstractOp, Address, Class, Effects, Function, Inst, Opcode, Operand, PhysReg,
    Reg, SourceMods, Type, Value, ValueDef,
};
use orias_sass::{
    self as sass, Op, ValueName, modifier_names as name, modifier_values as value, special,
};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;

/// How many rounds there are at most; each makes the function fit better.
const ROUNDS: usize = 16;

/// So many times as dear accesses to the frame may be if loads of spilled values need not wait for each other.
const DEARER: f64 = 1.1;

/// What was found out about a function that fits.
pub(super) struct Fitting {
    pub(super) graph: FlowGraph,
    pub(super) live: Liveness,
    pub(super) last_uses: LastUses,
    /// The most registers of each class that were counted on the way here. The same comes out for all goals of classes other than R that this does not exceed.
    pub(super) most: Counts,
}

/// What spilling began with.
#[derive(Default)]
struct Start {
    /// The function, if it was changed.
    func: Option<Function>,
    /// Whether general registers did not fit.
    spills_general: bool,
}

/// A function in which all classes but the general registers fit into their goals, to split live ranges of those in.
pub(super) struct Narrowed {
    /// The goals of the other classes.
    goals: [u8; 4],
    func: Function,
    fitting: Fitting,
}

/// Spills until every class fits into its goal. Before anything changes, the function as it was goes to `before`; `narrowed` is kept from one goal to the next for
/// the same function.
///
/// Where general registers are short there are two ways, and the one is taken whose accesses cost less: values leave as a whole, or they leave for
/// a while ([`split`]).
pub(super) fn fit(
    func: &mut Function,
    goals: Goals,
    before: &mut Option<Function>,
    narrowed: &mut Option<Narrowed>,
) -> Result<Fitting, Stop> {
    let mut start = Start::default();
    let mut most = Counts::default();
    let mut fitting = spill_whole(func, goals, Some(&mut start), &mut most);
    if let Some(original) = start.func {
        let area = SpillArea {
            start: original.attributes.local,
        };
        // Splitting does nothing else than to take away parameters that nobody reads.
        let splits = start.spills_general
            || (fitting.as_ref().ok()).is_none_or(|it| has_unread_parameter(func, it));
        if splits
            && !has_returning_calls(&original)
            && let Ok(narrowed) = narrow(&original, goals, narrowed, &mut most)
            && let Ok((parts, split)) = spill_parts(narrowed, goals, goals, &mut most)
        {
            let mut parts = (parts, split);
            let mut cost = accesses(&parts.0);
            let mut most_dear = accesses(func);
            let less = goals.with_less_general(SLACK);
            if area.is_crowded(&parts.0)
                && let Ok(roomier) = spill_parts(narrowed, less, goals, &mut most)
            {
                let its_cost = accesses(&roomier.0);
                if its_cost <= cost * DEARER {
                    (parts, cost) = (roomier, its_cost);
                    most_dear *= DEARER;
                }
            }
            if fitting.is_err() || cost <= most_dear {
                *func = parts.0;
                fitting = Ok(parts.1);
            }
        }
        if let Ok(fitting) = &mut fitting
            && area.load_once(func, &fitting.live, goals)
                | area.load_ahead(func, &fitting.live, goals)
        {
            fitting.last_uses = LastUses::new(func, &fitting.live, goals);
        }
        *before = Some(original);
    }
    fitting.map(|fitting| Fitting { most, ..fitting })
}

/// Whether a block has a parameter in general registers that nobody reads.
fn has_unread_parameter(func: &Function, known: &Fitting) -> bool {
    func.blocks().any(|block| {
        let count = func.block_insts(block).count();
        let unread = known.last_uses.at(block, count).unread.iter();
        let mut classes = unread.map(|&value| func.value_type(value).class());
        classes.any(|class| class == Class::R)
    })
}

/// `original` with everything spilled that other classes than the general registers need; what `known` has if that is the same.
fn narrow<'k>(
    original: &Function,
    goals: Goals,
    known: &'k mut Option<Narrowed>,
    most: &mut Counts,
) -> Result<&'k Narrowed, Stop> {
    let others = std::array::from_fn(|class| goals.most[class + 1]);
    let narrowed = match known.take().filter(|known| known.goals == others) {
        Some(known) => known,
        None => {
            let mut func = original.clone();
            let mut own = Counts::default();
            let fitting = spill_whole(&mut func, goals.without_general(), None, &mut own);
            raise(most, &own);
            Narrowed {
                goals: others,
                func,
                fitting: fitting?,
            }
        }
    };
    raise(most, &narrowed.fitting.most);
    Ok(known.insert(narrowed))
}

/// A copy of `narrowed` with live ranges of general registers split until they fit into `split`; what is too much even so goes as a whole.
fn spill_parts(
    narrowed: &Narrowed,
    split: Goals,
    goals: Goals,
    most: &mut Counts,
) -> Result<(Function, Fitting), Stop> {
    let mut func = narrowed.func.clone();
    split::split(&mut func, &narrowed.fitting, split)?;
    let fitting = spill_whole(&mut func, goals, None, most)?;
    Ok((func, fitting))
}

/// What accesses to the frame cost, and to rematerialisation, by how often it runs.
pub(super) fn accesses(func: &Function) -> f64 {
    let frequencies = Frequencies::of(func);
    let mut cost = 0.0;
    for block in func.blocks() {
        let often = frequencies.times(block);
        for inst in func.block_insts(block) {
            let Some(op) = func.opcode(inst).as_machine() else {
                continue;
            };
            cost += match op {
                Op::LDL | Op::STL => often,
                _ => often / 16.0,
            };
        }
    }
    cost
}

/// Spills values as a whole, round by round, until every class fits into its goal. What it began with is noted in `start` if that is asked for,
/// and `most` is raised to the most that was counted.
fn spill_whole(
    func: &mut Function,
    goals: Goals,
    mut start: Option<&mut Start>,
    most: &mut Counts,
) -> Result<Fitting, Stop> {
    let mut short = vec![false; func.value_count()];
    let mut shape: Option<(FlowGraph, Liveness)> = None;
    for _ in 0..ROUNDS {
        let chains = OnceCell::new();
        let (graph, mut live) = shape.take().unwrap_or_else(|| {
            let graph = FlowGraph::of(func);
            let live = Liveness::new(func, &graph);
            (graph, live)
        });
        let last_uses = LastUses::new(func, &live, goals);
        raise(most, &last_uses.pressure);
        if last_uses.full.is_empty() {
            return Ok(Fitting {
                graph,
                live,
                last_uses,
                most: *most,
            });
        }
        let mut look = Look::new(func, &graph, &chains, &short, goals);
        for &block in &last_uses.full {
            look.entry(block, live.live_in(block));
        }
        for &block in &last_uses.full {
            look.block(block, live.live_out(block));
        }
        raise(most, &look.most);
        if let Some(class) = look.stuck {
            if class == Class::P {
                if let Some(start) = &mut start {
                    start.func.get_or_insert_with(|| func.clone());
                }
                if params::widen_predicates(func, &graph, goals.most[class as usize])? {
                    short.resize(func.value_count(), false);
                    continue;
                }
            }
            return Err(Stop::Error(PhaseError::Unsupported(format!(
                "an instruction that needs more {} registers than the {} there are",
                class.name(),
                goals.most[class as usize]
            ))));
        }
        let chosen = look.chosen;
        let is_general = |it: &Choice| func.value_type(it.value).class() == Class::R;
        if let Some(start) = &mut start {
            start.spills_general |= chosen.iter().any(is_general);
        }
        if chosen.is_empty() {
            return Ok(Fitting {
                graph,
                live,
                last_uses,
                most: *most,
            });
        }
        if let Some(start) = &mut start {
            start.func.get_or_insert_with(|| func.clone());
        }
        let chains = chains.into_inner().unwrap_or_else(|| DefUse::new(func));
        let passed: Vec<Value> = chosen
            .iter()
            .map(|choice| choice.value)
            .filter(|&value| is_memory_parameter(func, value))
            .collect();
        if !passed.is_empty() {
            // The chains are no longer true afterwards: what else is too much shows in the next round.
            params::spill(func, &graph, &chains, &passed)?;
            short.resize(func.value_count(), true);
            continue;
        }
        // What a spilled value leaves behind, and what is loaded, lives within one block.
        let mut lives: Vec<Option<Value>> = (0..func.value_count())
            .map(|number| Some(Value::new(number)))
            .collect();
        let mut rematerialised = Copies::default();
        for Choice { value, source } in chosen {
            let location = spill(func, &chains, value, source, &mut rematerialised)?;
            // Whatever is new was loaded or goes to be stored; only the location may live long.
            short.resize(func.value_count(), true);
            lives[value.index()] = match location {
                SpillLocation::General(general) => {
                    short[general.index()] = false;
                    Some(general)
                }
                SpillLocation::Rematerialised(_) | SpillLocation::Frame(_) => None,
            };
        }
        if !rematerialised.is_empty() {
            // Sources live longer now.
            continue;
        }
        live.replace(|value| lives[value.index()]);
        debug_assert_eq!(live, Liveness::new(func, &graph));
        shape = Some((graph, live));
    }
    Err(Stop::Full(Class::R))
}

/// Whether `value` is a block parameter that is passed in memory if it is spilled.
fn is_memory_parameter(func: &Function, value: Value) -> bool {
    matches!(func.value_def(value), ValueDef::Param(..))
        && func.value_type(value).class() == Class::R
}

/// Whether running `inst` again anywhere gives the same result.
fn can_repeat(func: &Function, inst: Inst) -> bool {
    only_computes(func, inst) && func.uses(inst).next().is_none()
}

/// Whether `inst` gives one result, made of what it reads and of constants.
fn only_computes(func: &Function, inst: Inst) -> bool {
    let Opcode::Machine(op) = func.opcode(inst) else {
        return false;
    };
    let effects = func.opcode(inst).effects();
    let constant = op
        .row()
        .memory
        .iter()
        .all(|memory| matches!(memory.space, sass::Space::Constant) && !memory.writes);
    constant
        && (effects == Effects::NONE
            || effects == Effects::READS
            || reads_what_is_fixed(func, inst))
        && is_alone(func, inst)
        && func.value_defs(inst).count() == 1
}

/// Whether `inst` runs whatever its guard, and nobody knows it but those who read its results.
fn is_alone(func: &Function, inst: Inst) -> bool {
    func.inst(inst).guard().is_always()
        && !func.is_named(inst)
        && func.implicit_defs(inst).is_empty()
}

/// Whether `inst` reads a special register that never changes.
fn reads_what_is_fixed(func: &Function, inst: Inst) -> bool {
    let op = func.opcode(inst).as_machine();
    let operands = func.operands(inst);
    let fixed =
        |operand: &Operand| matches!(operand, Operand::Special(it) if special::is_fixed(*it));
    matches!(op, Some(Op::S2R | Op::S2UR)) && operands.iter().any(fixed)
}

/// Where a spilled value is.
#[derive(Clone, Copy)]
enum SpillLocation {
    /// Its instruction is run again.
    Rematerialised(Inst),
    /// In the stack frame, at this offset.
    Frame(u32),
    /// In this value of class R.
    General(Value),
}

/// By value: the instructions that make others of it again, which chains found before do not know of.
type Copies = FxHashMap<Value, Vec<Inst>>;

/// Stores `value` where it is defined and loads it before every use; or makes it again there, of `source` if that is given.
fn spill(
    func: &mut Function,
    chains: &DefUse,
    value: Value,
    source: Option<Value>,
    copies: &mut Copies,
) -> Result<SpillLocation, Stop> {
    let ty = func.value_type(value);
    let defining = func.defining_inst(value);
    let again = source.is_some();
    let location = match (defining, ty.class()) {
        (Some(inst), _) if again || can_repeat(func, inst) => SpillLocation::Rematerialised(inst),
        (_, Class::R) => SpillLocation::Frame(slot(func, ty)),
        (_, Class::P) if ty.len() > 1 => {
            return Err(Stop::Error(PhaseError::Unsupported(
                "spilling a tuple of predicates".to_owned(),
            )));
        }
        (_, Class::P | Class::UR) => {
            let class = Class::R;
            let Some(general) = Type::tuple(class, ty.len()) else {
                return Err(Stop::Full(class));
            };
            SpillLocation::General(func.create_value(general))
        }
        (_, class) => {
            return Err(Stop::Error(PhaseError::Unsupported(format!(
                "more than {} live {} registers",
                class.count(),
                class.name()
            ))));
        }
    };
    let mut places: Vec<Inst> = chains.uses(value).iter().map(|read| read.inst).collect();
    places.dedup();
    places.extend(copies.remove(&value).unwrap_or_default());
    for inst in places {
        // A use may have gone with an instruction that was run again elsewhere.
        if func.layout.inst_block(inst).is_none() {
            continue;
        }
        let fresh = load(func, inst, location, ty)?;
        if let (Some(source), Some(copy)) = (source, func.defining_inst(fresh)) {
            copies.entry(source).or_default().push(copy);
        }
        func.map_uses(inst, |reg| {
            if reg == Reg::from(value) {
                Reg::from(fresh)
            } else {
                reg
            }
        });
    }
    match location {
        SpillLocation::Rematerialised(inst) => func.remove_inst(inst),
        SpillLocation::Frame(_) | SpillLocation::General(_) => store(func, value, location, ty)?,
    }
    Ok(location)
}

/// Room in the stack frame for a value of type `ty`.
fn slot(func: &mut Function, ty: Type) -> u32 {
    let size = u32::from(ty.len()) * 4;
    let start = func
        .attributes
        .local
        .next_multiple_of(u32::from(ty.alignment()) * 4);
    func.attributes.local = start + size;
    start
}

/// The pieces one access moves: offset and length in registers.
fn pieces(ty: Type) -> Vec<(u8, u8)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < ty.len() {
        let len = match ty.len() - at {
            1 => 1,
            2 | 3 => 2,
            _ => 4,
        };
        pieces.push((at, len));
        at += len;
    }
    pieces
}

fn stack_address(func: &Function, offset: u32) -> Result<Address, Stop> {
    let pointer = PhysReg::new(Class::R, Machine::of(func.target).abi.stack_pointer);
    match (pointer, i32::try_from(offset)) {
        (Some(pointer), Ok(offset)) => Ok(Address::base(pointer, offset)),
        _ => Err(Stop::Error(PhaseError::Unsupported(
            "a stack frame that large".to_owned(),
        ))),
    }
}

/// How the size of an access of `len` registers is called.
fn size_name(len: u8) -> ValueName {
    match len {
        1 => value::_32,
        2 => value::_64,
        _ => value::_128,
    }
}

fn stop(error: orias_ori::builder::BuildError) -> Stop {
    Stop::Error(refused(error))
}

/// Makes the predicate of a general register, as [`store_before`] left it there, before `inst`.
fn load_predicate(
    func: &mut Function,
    inst: Inst,
    general: Value,
    fresh: Value,
) -> Result<(), Stop> {
    Cursor::before(func, inst)
        .build(Op::ISETP)
        .modifier(name::CMP, value::NE)
        .operand(fresh)
        .operand(PhysReg::PT)
        .operand(general)
        .operand(PhysReg::RZ)
        .operand(PhysReg::PT)
        .finish()
        .map_err(stop)?;
    Ok(())
}

/// Loads a spilled value before `inst`.
fn load(func: &mut Function, inst: Inst, location: SpillLocation, ty: Type) -> Result<Value, Stop> {
    let inst = group_start(func, inst);
    match location {
        SpillLocation::Rematerialised(original) => {
            let fresh = func.create_value(ty);
            let copy = func.copy_inst(original);
            // It is computed for whoever reads it.
            let span = func.inst(inst).span();
            func.set_span(copy, span);
            func.map_defs(copy, |reg| {
                if reg.value().is_some() {
                    Reg::from(fresh)
                } else {
                    reg
                }
            });
            func.layout.insert_inst_before(copy, inst);
            Ok(fresh)
        }
        SpillLocation::Frame(start) => {
            let mut parts = Vec::new();
            for (at, len) in pieces(ty) {
                let address = stack_address(func, start + u32::from(at) * 4)?;
                let part = Cursor::before(func, inst)
                    .build(Op::LDL)
                    .modifier(name::CACHE, value::NORMAL)
                    .modifier(name::SIZE, size_name(len))
                    .define(Type::tuple(Class::R, len).unwrap_or(Type::R))
                    .address(address)
                    .value()
                    .map_err(stop)?;
                parts.push(part);
            }
            Ok(joined(func, inst, ty, parts))
        }
        SpillLocation::General(general) => match ty.class() {
            Class::P => {
                let fresh = func.create_value(ty);
                load_predicate(func, inst, general, fresh)?;
                Ok(fresh)
            }
            _ => {
                let words = parted(func, inst, general);
                let mut parts = Vec::new();
                for word in words {
                    let part = Cursor::before(func, inst)
                        .build(Op::R2UR)
                        .none()
                        .define(Type::UR)
                        .operand(word)
                        .value()
                        .map_err(stop)?;
                    parts.push(part);
                }
                Ok(joined(func, inst, ty, parts))
            }
        },
    }
}

/// One tuple of `parts`, made before `inst`.
fn joined(func: &mut Function, inst: Inst, ty: Type, parts: Vec<Value>) -> Value {
    if let [only] = parts[..] {
        return only;
    }
    let tuple = func.create_value(ty);
    let operands: Vec<Operand> = std::iter::once(tuple)
        .chain(parts)
        .map(Operand::from)
        .collect();
    let collect = func.create_abstract(AbstractOp::Collect, AbstractMods::NONE, 1, &operands);
    func.layout.insert_inst_before(collect, inst);
    tuple
}

/// The single registers of `tuple`, taken apart before `inst`.
fn parted(func: &mut Function, inst: Inst, tuple: Value) -> Vec<Value> {
    let ty = func.value_type(tuple);
    taken_apart(func, inst, tuple, (0..ty.len()).map(|at| (at, 1)))
}

fn taken_apart(
    func: &mut Function,
    inst: Inst,
    tuple: Value,
    pieces: impl Iterator<Item = (u8, u8)>,
) -> Vec<Value> {
    let class = func.value_type(tuple).class();
    let lens: Vec<u8> = pieces.map(|(_, len)| len).collect();
    if lens.len() == 1 {
        return vec![tuple];
    }
    let parts: Vec<Value> = lens
        .iter()
        .map(|&len| func.create_value(Type::tuple(class, len).unwrap_or(Type::single(class))))
        .collect();
    let operands: Vec<Operand> = parts
        .iter()
        .copied()
        .chain([tuple])
        .map(Operand::from)
        .collect();
    let split = func.create_abstract(
        AbstractOp::Split,
        AbstractMods::NONE,
        parts.len(),
        &operands,
    );
    func.layout.insert_inst_before(split, inst);
    parts
}

/// Stores `value` right after its definition.
fn store(func: &mut Function, value: Value, location: SpillLocation, ty: Type) -> Result<(), Stop> {
    let next = match func.value_def(value) {
        ValueDef::Inst(inst, _) => func.layout.next_inst(inst),
        ValueDef::Param(block, _) => func.layout.first_inst(block),
        ValueDef::None => None,
    };
    let Some(before) = next else {
        return Err(Stop::Error(PhaseError::Broken {
            at: value.to_string(),
            what: "nothing follows the definition of a value that is spilled".to_owned(),
        }));
    };
    store_before(func, before, value, location, ty)
}

/// Stores `value` before an instruction.
fn store_before(
    func: &mut Function,
    before: Inst,
    value: Value,
    location: SpillLocation,
    ty: Type,
) -> Result<(), Stop> {
    match (location, ty.class()) {
        (SpillLocation::Frame(start), _) => {
            let parts = taken_apart(func, before, value, pieces(ty).into_iter());
            for ((at, len), part) in pieces(ty).into_iter().zip(parts) {
                let address = stack_address(func, start + u32::from(at) * 4)?;
                Cursor::before(func, before)
                    .build(Op::STL)
                    .modifier(name::CACHE, value::NORMAL)
                    .modifier(name::SIZE, size_name(len))
                    .address(address)
                    .operand(part)
                    .finish()
                    .map_err(stop)?;
            }
        }
        (SpillLocation::General(general), Class::P) => {
            let unless = Operand::from(value)
                .with_mods(SourceMods::NOT)
                .unwrap_or(Operand::from(value));
            Cursor::before(func, before)
                .build(Op::SEL)
                .operand(general)
                .operand(PhysReg::RZ)
                .imm(1)
                .operand(unless)
                .finish()
                .map_err(stop)?;
        }
        (SpillLocation::General(general), _) => {
            let words = taken_apart(func, before, value, (0..ty.len()).map(|at| (at, 1)));
            let mut parts = Vec::new();
            for word in words {
                let single = if ty.len() == 1 {
                    general
                } else {
                    func.create_value(Type::R)
                };
                Cursor::before(func, before)
                    .build(Op::MOV)
                    .operand(single)
                    .operand(word)
                    .imm(0xf)
                    .finish()
                    .map_err(stop)?;
                parts.push(single);
            }
            if ty.len() > 1 {
                let operands: Vec<Operand> = std::iter::once(general)
                    .chain(parts)
                    .map(Operand::from)
                    .collect();
                let mods = AbstractMods::NONE;
                let collect = func.create_abstract(AbstractOp::Collect, mods, 1, &operands);
                func.layout.insert_inst_before(collect, before);
            }
        }
        (SpillLocation::Rematerialised(_), _) => {}
    }
    Ok(())
}
