//! What all families share: the state of a selection, what it knows of values, and uniform values made once.

use super::aggregation::Aggregated;
use super::scattered::ScatteredBarriers;
use super::source::Source;
use crate::pipeline::PhaseError;
use crate::tail::may_wait_for_lanes;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_machine::Machine;
use orias_machine::constants::KernelConstants;
use orias_ori::builder::BuildError;
use orias_ori::operation::Modifier;
use orias_ori::{
    AbstractMods, AbstractOp, Block, Class, Effects, Function, Guard, Inst, InstructionShape,
    Opcode, Operand, Reg, SourceMods, Type, Value, ValueDef, print_inst,
};
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;
use orias_sass::{Op, Target, Variant};
use rustc_hash::FxHashMap;

/// `RZ`, which reads zero.
pub(super) fn rz() -> Operand {
    constant_register(Class::R)
}

/// `PT`, which reads true.
pub(super) fn pt() -> Operand {
    constant_register(Class::P)
}

/// `!PT`, which reads false.
pub(super) fn not_pt() -> Operand {
    pt().with_mods(SourceMods::NOT).unwrap_or(Operand::None)
}

/// `URZ`, which reads zero.
pub(super) fn urz() -> Operand {
    constant_register(Class::UR)
}

/// The register of a class that always reads the same; nothing where there is none.
fn constant_register(class: Class) -> Operand {
    class.constant().map_or(Operand::None, Operand::from)
}

/// What one value of each uniform kind holds for the whole function, or for one block where only part of a warp may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shared {
    /// The descriptor that accesses to global memory name.
    Descriptor,
    /// Where the shared memory of this thread block starts.
    BlockBase,
    /// The upper word of generic addresses in shared memory.
    GenericWindow,
    /// A cache policy with this upper word; the lower one is zero.
    Policy(u32),
}

/// A function on its way from abstract to machine operations.
pub(super) struct Selector<'f> {
    pub(super) func: &'f mut Function,
    pub(super) machine: &'static Machine,
    pub(super) target: Target,
    pub(super) constants: &'static KernelConstants,
    /// How often values were read before selection.
    pub(super) uses: SecondaryMap<Value, u32>,
    /// How often what is selected so far reads a value.
    pub(super) demand: SecondaryMap<Value, u32>,
    /// The instruction that takes a pair apart, right behind its definition.
    splits: SecondaryMap<Value, PackedOption<Inst>>,
    /// Values that are another value under another name.
    pub(super) aliases: SecondaryMap<Value, PackedOption<Value>>,
    /// The abstract instruction being selected: machine instructions go before it.
    pub(super) at: Inst,
    /// Its block.
    pub(super) block: Block,
    /// Its results: values, or constant registers where nobody wants them.
    results: Vec<Operand>,
    /// Its guard, where the machine instructions carry it themselves.
    pub(super) guard: Guard,
    /// Pairs of a result and the value it keeps when the guard is false.
    pub(super) kept: Vec<(Value, Value)>,
    /// Whether the abstract instruction stays.
    stays: bool,
    /// Uniform values made once, by the block they are made in.
    shared: Vec<(Shared, Block, Value)>,
    /// Where uniform values for all blocks may be made: the entry, if whole warps enter.
    pub(super) whole_entry: Option<Block>,
    /// The operations that find the lanes they need together.
    pub(super) together: EntitySet<Inst>,
    /// The mbarriers that are set up behind a fence.
    pub(super) view_fences: EntitySet<Inst>,
    /// The updates that lanes make together.
    pub(super) aggregated: Aggregated,
    /// Whether no access has a descriptor, for which it needs uniform registers.
    pub(super) undescribed: bool,
    /// Barriers that lanes may come to from several places.
    pub(super) scattered: ScatteredBarriers,
    /// The block in which a group of warp-group products ends next, going upwards.
    pub(super) group_ends: Option<Block>,
    /// Whether groups of warp-group products can be counted.
    pub(super) plain_groups: bool,
    /// Logic that goes into the tables of all who read it.
    pub(super) shared_logic: EntitySet<Value>,
    /// Multiples by known numbers that go into the sums that read them.
    pub(super) multiples: EntitySet<Value>,
    /// Wide products that go into all who read them.
    pub(super) addends: EntitySet<Value>,
    /// Whether code that lowers the stack pointer looks whether the stack is deep enough.
    pub(super) checks_stack: bool,
    /// The forms of shapes that have one only.
    pub(super) forms: FxHashMap<InstructionShape, Variant>,
}

impl<'f> Selector<'f> {
    pub(super) fn new(
        func: &'f mut Function,
        machine: &'static Machine,
        first: Inst,
        entry: Block,
    ) -> Self {
        // Room for what selection makes, so that the tables do not grow value by value.
        let values = 3 * func.value_count();
        Selector {
            func,
            machine,
            target: machine.target,
            constants: machine.constants,
            uses: sized(values),
            demand: sized(values),
            splits: sized(values),
            aliases: sized(values),
            at: first,
            block: entry,
            results: Vec::new(),
            guard: Guard::ALWAYS,
            kept: Vec::new(),
            stays: false,
            shared: Vec::new(),
            whole_entry: None,
            shared_logic: EntitySet::new(),
            multiples: EntitySet::new(),
            addends: EntitySet::new(),
            together: EntitySet::new(),
            view_fences: EntitySet::new(),
            aggregated: Aggregated::default(),
            undescribed: false,
            scattered: ScatteredBarriers::default(),
            group_ends: None,
            plain_groups: true,
            checks_stack: false,
            forms: FxHashMap::default(),
        }
    }

    // The abstract instruction being selected.

    /// Makes `inst` the one being selected.
    pub(super) fn go_to(&mut self, block: Block, inst: Inst) {
        self.block = block;
        self.at = inst;
        self.guard = Guard::ALWAYS;
        self.kept.clear();
        let results = self.func.result_count(inst);
        self.results.clear();
        self.results
            .extend_from_slice(&self.func.operands(inst)[..results]);
        for index in 0..results {
            let wanted = match self.results[index].as_value() {
                Some(value) => self.is_wanted(value),
                None => false,
            };
            if !wanted {
                self.results[index] = match self.results[index].as_value() {
                    Some(value) => constant_register(self.func.value_type(value).class()),
                    None => Operand::None,
                };
            }
        }
    }

    /// Lets machine instructions carry the guard of the abstract one, see [`Selector::emit_guarded`].
    pub(super) fn take_guard(&mut self) {
        self.guard = self.guard_source(self.func.inst(self.at).guard());
        let results = self.func.result_count(self.at);
        let defined = self.func.operands(self.at)[..results].iter();
        let values = defined.filter_map(|operand| operand.as_value());
        let kept = self.func.kept(self.at).iter();
        let kept = kept.filter_map(|operand| operand.as_value());
        self.kept.clear();
        self.kept.extend(values.zip(kept));
    }

    /// Says what `value`, a place both read and written, was before.
    pub(super) fn keep(&mut self, value: Value, before: Value) {
        self.kept.push((value, before));
    }

    /// Leaves the abstract instruction where it is: machine code has it, too.
    pub(super) fn keep_instruction(&mut self) {
        self.stays = true;
    }

    /// Takes the abstract instruction away, unless it stays. Each result that is read must have another definition now.
    pub(super) fn retire(&mut self, inst: Inst) -> Result<(), PhaseError> {
        if std::mem::take(&mut self.stays) {
            return Ok(());
        }
        let results = self.func.result_count(inst);
        for index in 0..results {
            let Some(value) = self.func.operands(inst)[index].as_value() else {
                continue;
            };
            let open = self.func.defining_inst(value) == Some(inst);
            if open && self.demand[value] > 0 && self.aliases[value].is_none() {
                return Err(self.unsupported());
            }
        }
        self.func.remove_inst(inst);
        Ok(())
    }

    /// Sends result `index` to a new value instead, and returns what it was.
    pub(super) fn redirect(&mut self, index: usize) -> Option<(Value, Value)> {
        let value = self.results[index].as_value()?;
        let temporary = self.func.create_value(self.func.value_type(value));
        self.count(temporary);
        self.results[index] = temporary.into();
        Some((value, temporary))
    }

    /// How many results the instruction has.
    pub(super) fn result_count(&self) -> usize {
        self.results.len()
    }

    /// Where result `index` goes: its value, or a constant register if nobody wants it.
    pub(super) fn result(&self, index: usize) -> Operand {
        self.results.get(index).copied().unwrap_or(Operand::None)
    }

    /// Where an optional predicate goes: its value, or PT.
    pub(super) fn predicate_result(&self, index: usize) -> Operand {
        match self.result(index) {
            Operand::None => pt(),
            operand => operand,
        }
    }

    /// Where an optional word goes: its value, or RZ.
    pub(super) fn word_result(&self, index: usize) -> Operand {
        match self.result(index) {
            Operand::None => rz(),
            operand => operand,
        }
    }

    /// Source `index` of the instruction, as it stands.
    pub(super) fn operand(&self, index: usize) -> Operand {
        let results = self.func.result_count(self.at);
        let operands = self.func.operands(self.at);
        operands
            .get(results + index)
            .copied()
            .unwrap_or(Operand::None)
    }

    /// A modifier of the instruction.
    pub(super) fn modifier<M: Modifier>(&self) -> Result<M, PhaseError> {
        match self.func.modifier::<M>(self.at) {
            Some(value) => Ok(value),
            None => Err(self.broken("a modifier is missing")),
        }
    }

    /// The abstract operation.
    pub(super) fn op(&self) -> Option<AbstractOp> {
        self.func.opcode(self.at).as_abstract()
    }

    /// An error about something an earlier phase must not leave behind.
    pub(super) fn broken(&self, what: impl Into<String>) -> PhaseError {
        PhaseError::Broken {
            at: print_inst(self.func, self.at),
            what: what.into(),
        }
    }

    /// An error that names the instruction as one that has no rule yet.
    pub(super) fn unsupported(&self) -> PhaseError {
        let text = print_inst(self.func, self.at);
        let name = match text.split_once(" = ") {
            Some((_, rest)) => rest,
            None => &text,
        };
        let name = name.split_whitespace().find(|word| !word.starts_with('@'));
        PhaseError::Unsupported(name.unwrap_or(&text).to_owned())
    }

    // Values.

    /// Whether something selected so far reads `value` or a part of it.
    pub(super) fn is_wanted(&self, value: Value) -> bool {
        self.demand[value] > 0 || self.splits[value].is_some()
    }

    /// One more reading of `value`.
    pub(super) fn count(&mut self, value: Value) {
        self.demand[value] += 1;
    }

    /// Counts what `inst` reads.
    pub(super) fn count_uses(&mut self, inst: Inst) {
        let demand = &mut self.demand;
        self.func.for_each_use(inst, |reg| {
            if let Some(value) = reg.value() {
                demand[value] += 1;
            }
        });
    }

    /// The instruction that defines `value`, if it has no guard.
    pub(super) fn definition(&self, value: Value) -> Option<(Inst, AbstractOp)> {
        let inst = self.func.defining_inst(value)?;
        let op = match self.func.opcode(inst) {
            Opcode::Abstract(op) => op,
            Opcode::Machine(_) => return None,
        };
        self.func
            .inst(inst)
            .guard()
            .is_always()
            .then_some((inst, op))
    }

    /// The definition of `value` by `op`, if the value is read once and both are in the block being selected, so that it
    /// can become part of what reads it.
    pub(super) fn absorbable(&self, value: Value, op: AbstractOp) -> Option<Inst> {
        let (inst, defined) = self.definition(value)?;
        let here = self.func.layout.inst_block(inst) == Some(self.block);
        (defined == op && here && self.uses[value] == 1).then_some(inst)
    }

    /// A new value of type `ty`.
    pub(super) fn temporary(&mut self, ty: Type) -> Value {
        self.func.create_value(ty)
    }

    /// Makes `value` another name of `other`.
    pub(super) fn rename(&mut self, value: Value, other: Value) {
        self.aliases[value] = other.into();
        let readings = self.demand[value];
        self.demand[other] += readings;
        // Who reads the words of one reads those of the other.
        if let Some(split) = self.splits[value].take() {
            self.func.set_operand(split, 2, other.into());
            self.adopt_split(split, other);
        }
    }

    /// The two words of `value`: taken apart once, right behind its definition.
    pub(super) fn split_pair(&mut self, value: Value) -> [Value; 2] {
        let inst = match self.splits[value].expand() {
            Some(inst) => inst,
            None => {
                let low = self.func.create_value(Type::R);
                let high = self.func.create_value(Type::R);
                let operands = [low.into(), high.into(), value.into()];
                let mods = AbstractMods::NONE;
                let inst = self
                    .func
                    .create_abstract(AbstractOp::Split, mods, 2, &operands);
                self.place_behind(value, inst);
                self.splits[value] = inst.into();
                inst
            }
        };
        let words: Vec<Value> = self.func.operands(inst)[..2]
            .iter()
            .filter_map(|operand| operand.as_value())
            .collect();
        [words[0], words[1]]
    }

    /// Takes over an abstract instruction that takes a pair apart.
    pub(super) fn adopt_split(&mut self, inst: Inst, value: Value) {
        let words: Vec<Value> = self.func.operands(inst)[..2]
            .iter()
            .filter_map(|operand| operand.as_value())
            .collect();
        match self.splits[value].expand() {
            Some(_) => {
                let have = self.split_pair(value);
                for (word, have) in words.into_iter().zip(have) {
                    self.rename(word, have);
                }
                self.func.remove_inst(inst);
            }
            None => {
                self.func.layout.remove_inst(inst);
                self.place_behind(value, inst);
                self.splits[value] = inst.into();
            }
        }
    }

    /// Whether `inst` is where a pair is taken apart for all its readers.
    pub(super) fn owns_split(&self, inst: Inst) -> bool {
        let whole = self
            .func
            .operands(inst)
            .last()
            .and_then(|whole| whole.as_value());
        whole.is_some_and(|value| self.splits[value].expand() == Some(inst))
    }

    fn place_behind(&mut self, value: Value, inst: Inst) {
        match self.func.value_def(value) {
            ValueDef::Inst(definition, _) => {
                let span = self.func.inst(definition).span();
                self.func.set_span(inst, span);
                self.func.layout.insert_inst_after(inst, definition);
            }
            ValueDef::Param(block, _) => self.func.layout.prepend_inst(inst, block),
            ValueDef::None => {
                // Its own definition was selected already and renamed it; the place of the reading will do.
                self.func.layout.insert_inst_before(inst, self.at);
            }
        }
    }

    /// Makes the pair of `low` and `high` result `index`.
    pub(super) fn set_pair(
        &mut self,
        index: usize,
        low: Source,
        high: Source,
    ) -> Result<(), PhaseError> {
        let Some(value) = self.results[index].as_value() else {
            return Ok(());
        };
        self.define_pair(value, low, high)
    }

    /// Makes the pair of `low` and `high` the value `value`.
    pub(super) fn define_pair(
        &mut self,
        value: Value,
        low: Source,
        high: Source,
    ) -> Result<(), PhaseError> {
        let whole = self.demand[value] > 0;
        let split = self.splits[value].take();
        let mut words = [None; 2];
        let sources = [low, high];
        if let Some(split) = split {
            let parts = self.func.operands(split)[..2].to_vec();
            self.func.remove_inst(split);
            for (place, part) in parts.iter().enumerate() {
                let Some(part) = part.as_value() else {
                    continue;
                };
                if self.demand[part] > 0 {
                    let word = self.in_register(sources[place])?;
                    words[place] = Some(word);
                    self.rename(part, word);
                }
            }
        }
        if whole {
            let mut operands = vec![value.into()];
            for (place, word) in words.iter().enumerate() {
                let word = match *word {
                    Some(word) => word,
                    None => self.in_register(sources[place])?,
                };
                operands.push(word.into());
            }
            let mods = AbstractMods::NONE;
            let inst = self
                .func
                .create_abstract(AbstractOp::Collect, mods, 1, &operands);
            self.insert(inst);
        }
        Ok(())
    }

    // Uniform values.

    /// The uniform value of that kind, made once for the function or for the block.
    pub(super) fn shared(&mut self, kind: Shared) -> Value {
        let block = self.whole_entry.unwrap_or(self.block);
        let found = self
            .shared
            .iter()
            .find(|(have, at, _)| *have == kind && *at == block);
        if let Some(&(.., value)) = found {
            return value;
        }
        let ty = match kind {
            Shared::Descriptor | Shared::Policy(_) => Type::tuple(Class::UR, 2),
            Shared::BlockBase => Type::tuple(Class::UR, 1),
            Shared::GenericWindow => Type::tuple(Class::R, 1),
        };
        let value = self.func.create_value(ty.unwrap_or(Type::R));
        self.shared.push((kind, block, value));
        value
    }

    /// Makes the uniform values that were asked for: at the start of the entry where whole warps run, else at the start of each stretch of
    /// their block that reads them.
    pub(super) fn make_shared(&mut self) -> Result<(), PhaseError> {
        let mut wanted = Vec::new();
        for (kind, block, value) in std::mem::take(&mut self.shared) {
            match self.whole_entry == Some(block) {
                true => wanted.extend(
                    (self.func.layout.first_inst(block)).map(|first| (kind, block, value, first)),
                ),
                false => {
                    let made = self.one_for_each_stretch(block, value);
                    wanted.extend(
                        made.into_iter()
                            .map(|(value, first)| (kind, block, value, first)),
                    );
                }
            }
        }
        for (kind, block, value, first) in wanted.into_iter().rev() {
            self.at = first;
            self.block = block;
            match kind {
                Shared::Descriptor => {
                    let place = Operand::constant(self.constants.bank, self.constants.descriptor);
                    self.emit(
                        Op::ULDC,
                        &[(name::SIZE, value::_64)],
                        &[value.into(), place.into()],
                    )?;
                }
                Shared::Policy(upper) => {
                    let words = [0, upper].map(|word| Operand::imm(u64::from(word)));
                    let mut operands = vec![Operand::from(value)];
                    for word in words {
                        let uniform = self.func.create_value(Type::single(Class::UR));
                        self.emit(Op::UMOV, &[], &[uniform.into(), word.into()])?;
                        operands.push(uniform.into());
                    }
                    let mods = AbstractMods::NONE;
                    let inst = self
                        .func
                        .create_abstract(AbstractOp::Collect, mods, 1, &operands);
                    self.insert(inst);
                }
                Shared::GenericWindow => {
                    let from = Operand::Special(orias_sass::special::SWINHI);
                    self.emit(Op::S2R, &[], &[value.into(), from.into()])?;
                }
                Shared::BlockBase => {
                    let rank = self.func.create_value(Type::single(Class::UR));
                    let number = orias_sass::special::CGA_CTA_ID;
                    self.emit(
                        Op::S2UR,
                        &[],
                        &[rank.into(), Operand::Special(number).into()],
                    )?;
                    let shift = Operand::imm(u64::from(self.constants.shared_rank_shift));
                    let mods = [(name::DIR, value::L), (name::TYPE, value::U32)];
                    let operands = [value.into(), rank.into(), shift.into(), urz().into()];
                    self.emit(Op::USHF, &mods, &operands)?;
                }
            }
        }
        Ok(())
    }

    /// The readings of `value` in each stretch of `block` get a value of their own; they come back with the instruction they are made before.
    /// A stretch ends where lanes wait: others may write the uniform registers meanwhile.
    fn one_for_each_stretch(&mut self, block: Block, value: Value) -> Vec<(Value, Inst)> {
        let insts: Vec<Inst> = self.func.block_insts(block).collect();
        let mut made: Vec<(Value, Inst)> = Vec::new();
        let mut start = None;
        let mut here = None;
        for inst in insts {
            let first = *start.get_or_insert(inst);
            if self.func.value_uses(inst).any(|read| read == value) {
                let own = *here.get_or_insert_with(|| {
                    let own = match made.is_empty() {
                        true => value,
                        false => self.func.create_value(self.func.value_type(value)),
                    };
                    made.push((own, first));
                    own
                });
                self.func.map_uses(inst, |reg| match reg.value() {
                    Some(read) if read == value => Reg::from(own),
                    _ => reg,
                });
            }
            if may_wait_for_lanes(self.func, inst) {
                (start, here) = (None, None);
            }
        }
        made
    }

    /// Gives every renamed value its real name.
    pub(super) fn apply_renames(&mut self) {
        let aliases = std::mem::take(&mut self.aliases);
        let real = |mut value: Value| {
            while let Some(next) = aliases[value].expand() {
                value = next;
            }
            value
        };
        self.func.map_all_uses(|reg| match reg.value() {
            Some(value) => Reg::from(real(value)),
            None => reg,
        });
    }
}

/// A table with room for `count` entries.
fn sized<V: Clone + Default>(count: usize) -> SecondaryMap<Value, V> {
    let mut table = SecondaryMap::new();
    table.resize(count);
    table
}

/// A constant operand in the form LDC takes: with an index register.
pub(super) fn with_index(operand: Operand) -> Operand {
    match operand {
        Operand::Const {
            mods,
            bank,
            offset,
            index,
        } if index.get().is_none() => Operand::Const {
            mods,
            bank,
            offset,
            index: rz().reg().into(),
        },
        other => other,
    }
}

/// An error of the builder, which means a rule made something the tables do not have.
pub(super) fn refused(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}

/// Whether an operation only computes: it may run in lanes whose guard is false.
pub(super) fn only_computes(op: AbstractOp) -> bool {
    op.row().effects == Effects::NONE
}
