//! Where registers of the PTX lie: `.nv_debug_info_reg_sass` and `.nv_debug_info_reg_type`.
//!
//! Lowering leaves a copy of everything that an instruction gives a register, with a location that names the register. A register holds that
//! until something else is written to it; copies and spills hold it, too. What holds what before each instruction is found by a forward
//! analysis of the finished code: an instruction gives and takes places, and where control flows together only what holds on all ways
//! holds on (Kildall 1973). Blocks are visited in the order of the code until nothing changes. Each run of instructions before which a place
//! holds a word is an entry.
//!
//! Cost: linear in instructions times places in use, for each time a block is visited again.

use super::decoded;
use super::frames::slot_access;
use orias_codegen::{DebugRecord, SourceRegister};
use orias_machine::Machine;
use orias_mercury::{Code, WORD};
use orias_ori::Function;
use orias_ptx::types::Type;
use orias_sass::{Effects, Instruction, Op, Operand, RegisterClass, Target};
use std::collections::BTreeMap;

/// Where a word can lie, as the tables say it: a class above a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u32);

impl Place {
    fn general(register: u8) -> Place {
        Place(5 << 24 | u32::from(register))
    }

    fn predicate(register: u8) -> Place {
        Place(2 << 24 | u32::from(register))
    }

    /// Bytes above the stack pointer, in local memory.
    fn frame(offset: u32) -> Place {
        Place(0x701 << 16 | offset & 0xffff)
    }

    fn of(class: RegisterClass, register: u8) -> Option<Place> {
        match class {
            RegisterClass::R => Some(Place::general(register)),
            RegisterClass::P => Some(Place::predicate(register)),
            _ => None,
        }
    }

    fn is_frame(self) -> bool {
        self.0 >> 24 == 7
    }
}

/// Which words lie where; sorted.
type Held = Vec<(Place, u32)>;

/// A place that holds a word from one address to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    place: Place,
    start: u32,
    end: u32,
    word: u32,
}

/// Both tables.
#[derive(Debug, Default)]
pub(crate) struct RegisterTables {
    pub(crate) places: Vec<u8>,
    pub(crate) types: Vec<u8>,
}

impl RegisterTables {
    /// Adds a function under that name.
    pub(crate) fn add(
        &mut self,
        name: &str,
        function: &Function,
        code: &Code,
        record: &DebugRecord,
    ) {
        let runs = runs(function, code, record);
        for table in [&mut self.places, &mut self.types] {
            table.extend_from_slice(name.as_bytes());
            table.push(0);
            table.extend_from_slice(&(runs.len() as u32).to_le_bytes());
        }
        for run in runs {
            let Some(register) = record.registers.get(run.word as usize) else {
                continue;
            };
            let word = u32::from(register.word);
            self.places.extend_from_slice(&word.to_le_bytes());
            self.places.extend_from_slice(register.name.as_bytes());
            self.places.push(0);
            for number in [run.place.0, run.start, run.end] {
                self.places.extend_from_slice(&number.to_le_bytes());
            }
            self.types.push(type_code(register));
        }
    }
}

/// The number of a register's type.
fn type_code(register: &SourceRegister) -> u8 {
    let scalar = match register.ty {
        Type::B8 => 0,
        Type::B16 => 1,
        Type::B32 => 2,
        Type::B64 => 3,
        Type::U8 => 4,
        Type::U16 => 5,
        Type::U32 => 6,
        Type::U64 => 7,
        Type::S8 => 8,
        Type::S16 => 9,
        Type::S32 => 10,
        Type::S64 => 11,
        Type::F16 => 12,
        Type::F16x2 => 13,
        Type::F32 => 14,
        Type::F64 => 15,
        Type::Pred => 16,
        Type::B128 => 17,
        // Registers have no other types.
        other => match other.bits() {
            ..=8 => 0,
            ..=16 => 1,
            ..=32 => 2,
            _ => 3,
        },
    };
    match register.vector {
        ..=1 => scalar,
        2 => scalar | 0x40,
        _ => scalar | 0x80,
    }
}

/// The runs of a function, sorted.
fn runs(function: &Function, code: &Code, record: &DebugRecord) -> Vec<Run> {
    let instructions = decoded(&code.bytes, code.placed.len(), function.target);
    let successors = successors(&instructions, code);
    let flow = Flow {
        function,
        code,
        named: record.registers.len() as u32,
        leads: leads(&successors),
        successors,
        instructions,
    };
    let mut before = flow.solve();
    let mut open: BTreeMap<(Place, u32), u32> = BTreeMap::new();
    let mut runs = Vec::new();
    let mut held: Held = Vec::new();
    for number in 0..=flow.instructions.len() {
        if flow.leads.get(number) != Some(&false) {
            let entered = before.get_mut(number).and_then(Option::take);
            held = entered.unwrap_or_default();
        }
        let address = (number * WORD) as u32;
        let ended: Vec<(Place, u32)> = (open.keys().copied())
            .filter(|key| held.binary_search(key).is_err())
            .collect();
        for (place, word) in ended {
            if let Some(start) = open.remove(&(place, word)) {
                let end = address.saturating_sub(WORD as u32).max(start);
                runs.push(Run {
                    place,
                    start,
                    end,
                    word,
                });
            }
        }
        for &key in &held {
            open.entry(key).or_insert(address);
        }
        if number < flow.instructions.len() {
            held = flow.after(number, held);
        }
    }
    runs.sort_unstable();
    runs
}

struct Flow<'a> {
    function: &'a Function,
    code: &'a Code,
    /// How many words there are.
    named: u32,
    instructions: Vec<Option<Instruction>>,
    /// By instruction: those that may follow.
    successors: Vec<Vec<usize>>,
    /// By instruction: whether it starts a block.
    leads: Vec<bool>,
}

impl Flow<'_> {
    /// What is held before each instruction that starts a block; nothing where no way leads.
    fn solve(&self) -> Vec<Option<Held>> {
        let count = self.instructions.len();
        let mut before: Vec<Option<Held>> = vec![None; count];
        if count == 0 {
            return before;
        }
        before[0] = Some(Vec::new());
        let mut pending = vec![false; count];
        pending[0] = true;
        loop {
            let mut again = false;
            for start in 0..count {
                if !std::mem::replace(&mut pending[start], false) {
                    continue;
                }
                let mut held = before[start].clone().unwrap_or_default();
                let mut number = start;
                held = self.after(number, held);
                while number + 1 < count && !self.leads[number + 1] {
                    number += 1;
                    held = self.after(number, held);
                }
                for &next in &self.successors[number] {
                    let met = match &before[next] {
                        None => Some(held.clone()),
                        Some(known) => {
                            let kept: Held = (known.iter().copied())
                                .filter(|key| held.binary_search(key).is_ok())
                                .collect();
                            (kept.len() < known.len()).then_some(kept)
                        }
                    };
                    if let Some(met) = met {
                        before[next] = Some(met);
                        pending[next] = true;
                        again |= next <= start;
                    }
                }
            }
            if !again {
                return before;
            }
        }
    }

    fn after(&self, number: usize, mut held: Held) -> Held {
        let Some(instruction) = &self.instructions[number] else {
            return Vec::new();
        };
        let target: Target = self.function.target;
        let abi = Machine::of(target).abi;
        let guarded = !instruction.guard().is_always();
        // What is copied holds what its source does.
        let mut copied: Option<(Place, Place)> = None;
        if let Some((register, offset)) = slot_access(instruction, Op::STL, abi.stack_pointer) {
            copied = Some((Place::general(register), Place::frame(offset)));
            held.retain(|(place, _)| *place != Place::frame(offset));
        } else if instruction.op() == Op::STL {
            held.retain(|(place, _)| !place.is_frame());
        } else if let Some((register, offset)) =
            slot_access(instruction, Op::LDL, abi.stack_pointer)
        {
            copied = Some((Place::frame(offset), Place::general(register)));
        } else if instruction.op() == Op::MOV
            && let [Operand::Register(to), Operand::Register(from), ..] = instruction.operands()
        {
            copied = Some((
                Place::general(from.register.index),
                Place::general(to.register.index),
            ));
        }
        let copied = copied.filter(|_| !guarded);
        let gained: Vec<(Place, u32)> = match copied {
            Some((from, to)) if from != to => (held.iter())
                .filter(|(place, _)| *place == from)
                .map(|&(_, word)| (to, word))
                .collect(),
            _ => Vec::new(),
        };
        let stays = copied.is_some_and(|(from, to)| from == to);
        let mut made = Vec::new();
        for access in instruction.writes() {
            for register in access.registers() {
                made.extend(Place::of(register.class, register.index));
            }
        }
        if !stays {
            held.retain(|(place, _)| !made.contains(place));
        }
        if instruction.op().row().effects.contains(Effects::CALL) {
            held.retain(|(place, _)| {
                let register = place.0 as u8;
                match place.0 >> 24 {
                    5 => abi.is_preserved(RegisterClass::R, register),
                    2 => abi.is_preserved(RegisterClass::P, register),
                    _ => true,
                }
            });
        }
        held.extend(gained);
        let span = self.code.placed[number].span;
        let word = span.and_then(|span| self.function.locations[span].register);
        if let (Some(word), [place]) = (word.filter(|&word| word < self.named), &made[..])
            && !guarded
        {
            held.retain(|(_, other)| *other != word);
            held.push((*place, word));
        }
        held.sort_unstable();
        held.dedup();
        held
    }
}

/// The instructions that may follow each.
fn successors(instructions: &[Option<Instruction>], code: &Code) -> Vec<Vec<usize>> {
    let count = instructions.len();
    let mut successors: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (number, instruction) in instructions.iter().enumerate() {
        let Some(instruction) = instruction else {
            continue;
        };
        let effects = instruction.op().row().effects;
        let always = instruction.guard().is_always();
        let calls = effects.contains(Effects::CALL);
        let ends = effects.contains(Effects::EXIT)
            || matches!(
                instruction.op(),
                Op::BRA | Op::RET_REL | Op::RET_ABS | Op::BRX | Op::JMP
            );
        let mut add = |to: usize| {
            if to < count && !successors[number].contains(&to) {
                successors[number].push(to);
            }
        };
        if !(ends && always) {
            add(number + 1);
        }
        if let (Some(distance), false) = (instruction.target(), calls) {
            let to = ((number + 1) * WORD) as i64 + distance;
            if let Ok(to) = usize::try_from(to) {
                add(to / WORD);
            }
        }
        let address = (number * WORD) as u32;
        for indirect in code.indirect.iter().filter(|it| it.offset == address) {
            for &to in &indirect.targets {
                add(to as usize / WORD);
            }
        }
    }
    successors
}

/// Which instructions start a block: those that something else leads to than the one before them alone.
fn leads(successors: &[Vec<usize>]) -> Vec<bool> {
    let mut leads = vec![true; successors.len()];
    for (number, next) in successors.iter().enumerate() {
        if let [only] = next[..]
            && only == number + 1
        {
            leads[only] = false;
        }
    }
    for (number, next) in successors.iter().enumerate() {
        if next.len() > 1 || next.first().is_some_and(|&only| only != number + 1) {
            for &to in next {
                leads[to] = true;
            }
        }
    }
    leads
}
