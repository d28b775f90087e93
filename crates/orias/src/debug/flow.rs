//! What lies where in finished code: a forward analysis of copies.
//!
//! Words are contents that somebody looks for: those that registers of the PTX get, named by the locations of instructions, and those that
//! registers had when the function was entered. An instruction gives and takes places; where control flows together only what holds on
//! all ways holds on (Kildall 1973). Copies, and stores to and loads from the frame, pass words on; a call takes what the ABI does not keep. What holds before the first
//! instruction of each block is kept, the rest is found again in a walk. Blocks are visited in the order of the code until nothing changes.
//!
//! Cost: linear in instructions times places in use, for each time a block is visited again.

use super::decoded;
use orias_machine::Machine;
use orias_mercury::{Code, WORD};
use orias_ori::Function;
use orias_sass::{Effects, Instruction, Op, Operand, RegisterClass};
use orias_sass::{modifier_names as name, modifier_values as value};

/// Where a word can lie, as the tables say it: a class above a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(pub(super) u32);

impl Place {
    pub(super) fn general(register: u8) -> Place {
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

    pub(super) fn kind(self) -> PlaceKind {
        match self.0 >> 24 {
            5 => PlaceKind::General(self.0 as u8),
            2 => PlaceKind::Predicate(self.0 as u8),
            _ => PlaceKind::Frame(self.0 & 0xffff),
        }
    }
}

/// What a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    /// A general register.
    General(u8),
    /// A predicate.
    Predicate(u8),
    /// So many bytes above the stack pointer.
    Frame(u32),
}

/// Which words lie where; sorted.
pub(super) type Held = Vec<(Place, u32)>;

/// The code of a function, and the words that are looked for.
pub(super) struct Flow<'a> {
    function: &'a Function,
    code: &'a Code,
    /// How many words instructions name.
    named: u32,
    /// The places of words at the start.
    initial: Held,
    pub(super) instructions: Vec<Option<Instruction>>,
    /// By instruction: those that may follow.
    successors: Vec<Vec<usize>>,
    /// By instruction: whether it starts a block.
    leads: Vec<bool>,
}

impl<'a> Flow<'a> {
    /// Looks for `named` words that instructions name, and for those of `initial`.
    pub(super) fn new(
        function: &'a Function,
        code: &'a Code,
        named: u32,
        mut initial: Held,
    ) -> Self {
        let instructions = decoded(&code.bytes, code.placed.len(), function.target);
        let successors = successors(&instructions, code);
        initial.sort_unstable();
        Flow {
            function,
            code,
            named,
            initial,
            leads: leads(&successors),
            successors,
            instructions,
        }
    }

    /// Shows what is held before each instruction, in the order of the code, and nothing behind the last.
    pub(super) fn walk(&self, mut seen: impl FnMut(usize, &Held)) {
        let mut held: Held = Vec::new();
        for (number, before) in self.solve().into_iter().enumerate() {
            if self.leads[number] {
                held = before.unwrap_or_default();
            }
            seen(number, &held);
            held = self.after(number, held);
        }
        seen(self.instructions.len(), &Vec::new());
    }

    /// What is held before each instruction that starts a block; nothing where no way leads.
    fn solve(&self) -> Vec<Option<Held>> {
        let count = self.instructions.len();
        let mut before: Vec<Option<Held>> = vec![None; count];
        if count == 0 {
            return before;
        }
        before[0] = Some(self.initial.clone());
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
        let abi = Machine::of(self.function.target).abi;
        let guarded = !instruction.guard().is_always();
        // What is copied holds what its source does.
        let mut copied: Option<(Place, Place)> = None;
        if let Some((register, offset)) = slot_access(instruction, Op::STL, abi.stack_pointer) {
            copied = Some((Place::general(register), Place::frame(offset)));
            held.retain(|(place, _)| *place != Place::frame(offset));
        } else if instruction.op() == Op::STL {
            held.retain(|(place, _)| !matches!(place.kind(), PlaceKind::Frame(_)));
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
            held.retain(|(place, _)| match place.kind() {
                PlaceKind::General(register) => abi.is_preserved(RegisterClass::R, register),
                PlaceKind::Predicate(register) => abi.is_preserved(RegisterClass::P, register),
                PlaceKind::Frame(_) => true,
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

/// The register that an access of 32 bits to the frame moves, and where in the frame.
fn slot_access(instruction: &Instruction, op: Op, pointer: u8) -> Option<(u8, u32)> {
    if instruction.op() != op || instruction.modifier(name::SIZE) != Some(value::_32) {
        return None;
    }
    let mut register = None;
    let mut offset = None;
    for operand in instruction.operands() {
        match operand {
            Operand::Register(it) => register = Some(it.register.index),
            Operand::Address(address) => {
                let base = address.base?;
                if base.index != pointer {
                    return None;
                }
                offset = u32::try_from(address.offset).ok();
            }
            _ => {}
        }
    }
    Some((register?, offset?))
}
