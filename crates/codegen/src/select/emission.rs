//! Emitting machine instructions: their modifiers, their form, and operands that are made to fit it.

use super::selector::{Selector, refused, rz, with_index};
use super::source::Source;
use crate::pipeline::PhaseError;
use orias_ori::builder::Cursor;
use orias_ori::machine::{check_operands, slot_width};
use orias_ori::{
    AbstractMods, AbstractOp, Class, Guard, Inst, InstructionShape, Operand, Operation, Reg,
    SourceMods, Type, Value,
};
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;
use orias_sass::{EncodeError, Mods, Op, Variant};
use orias_sass::{ModifierName, ValueName};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

/// The names and values of modifiers.
/// A modifier and its value, both from the tables.
pub(super) type Mod = (ModifierName, ValueName);

pub(super) type ModList<'a> = &'a [Mod];

/// Modifiers at the values that are not printed: what an instruction has if nothing else is said. They are worked out when an operation
/// is first met, and kept complemented, as zero is what is not known.
fn default_modifiers(op: Op) -> Mods {
    static KNOWN: [AtomicU64; Op::COUNT] = [const { AtomicU64::new(0) }; Op::COUNT];
    let known = KNOWN[op.index()].load(Ordering::Relaxed);
    if known != 0 {
        return Mods::from_bits(!known);
    }
    let modifiers = op.row().modifiers.iter();
    let mods = modifiers.fold(Mods::ZERO, |mods, modifier| {
        let quiet = modifier.values.iter().find(|value| !value.printed);
        match quiet.or(modifier.values.first()) {
            Some(value) => mods.with(modifier, value.value),
            None => mods,
        }
    });
    KNOWN[op.index()].store(!mods.bits(), Ordering::Relaxed);
    mods
}

/// The form of a machine instruction.
#[derive(Clone, Copy)]
struct Fitted {
    variant: Variant,
    /// Whether an instruction of the same shape was made before.
    right: bool,
}

/// The operands of one instruction.
type Operands = SmallVec<[Operand; 8]>;

/// What sources read, if they are as good as they seem.
fn operands_of(sources: &[Source]) -> Operands {
    let mut few = [Operand::None; 8];
    if sources.len() > few.len() {
        return sources.iter().map(|source| source.operand).collect();
    }
    for (place, source) in few.iter_mut().zip(sources) {
        *place = source.operand;
    }
    SmallVec::from_buf_and_len(few, sources.len())
}

impl Selector<'_> {
    /// Puts an instruction made by other means before the one being selected.
    pub(super) fn insert(&mut self, inst: Inst) {
        let span = self.func.inst(self.at).span();
        self.func.set_span(inst, span);
        self.func.layout.insert_inst_before(inst, self.at);
        self.count_uses(inst);
    }

    /// A value that holds `source`, one word: itself if it is one already.
    pub(super) fn in_register(&mut self, source: Source) -> Result<Value, PhaseError> {
        if source.operand.mods().is_empty()
            && let Some(value) = source.operand.as_value()
            && self.func.value_type(value) == Type::R
        {
            return Ok(value);
        }
        if let Some(value) = source.register.and_then(Operand::as_value) {
            return Ok(value);
        }
        let source = match source.operand {
            Operand::Const { .. } => self.through_register(source, 1)?,
            _ => source,
        };
        if let Some(value) = source
            .operand
            .as_value()
            .filter(|_| source.operand.mods().is_empty())
        {
            return Ok(value);
        }
        let value = self.temporary(Type::R);
        self.copy(value, source)?;
        Ok(value)
    }

    // Emitting.

    /// Emits a machine instruction without a guard. Sources that do not fit go through registers.
    pub(super) fn emit(
        &mut self,
        op: Op,
        mods: ModList<'_>,
        operands: &[Source],
    ) -> Result<Inst, PhaseError> {
        self.emit_with(op, mods, operands, Guard::ALWAYS)
    }

    /// Emits a machine instruction with the guard of the abstract one ([`Selector::take_guard`]).
    pub(super) fn emit_guarded(
        &mut self,
        op: Op,
        mods: ModList<'_>,
        operands: &[Source],
    ) -> Result<Inst, PhaseError> {
        self.emit_with(op, mods, operands, self.guard)
    }

    /// Emits a machine instruction under `guard`.
    pub(super) fn emit_with(
        &mut self,
        op: Op,
        mods: ModList<'_>,
        operands: &[Source],
        guard: Guard,
    ) -> Result<Inst, PhaseError> {
        let mods = self.mods(op, mods)?;
        let sources = operands;
        let mut operands = operands_of(sources);
        let Fitted { variant, right } = match self.form(op, mods, &operands) {
            Ok(fitted) => fitted,
            Err(error) => self.make_fit(op, mods, sources, &mut operands, error)?,
        };
        let mut kept: SmallVec<[Value; 2]> = SmallVec::new();
        let row = op.row();
        let mut places = if guard.is_always() {
            row.written & row.read
        } else {
            row.written
        };
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            places &= places - 1;
            let Some(value) = operands[place].as_value() else {
                continue;
            };
            let known = self.kept.iter().find(|(result, _)| *result == value);
            kept.push(match known {
                Some(&(_, kept)) => self.zeros(kept)?.unwrap_or(kept),
                None => self.undefined(self.func.value_type(value)),
            });
        }
        let mut cursor = Cursor::before(self.func, self.at);
        let inst = cursor.put_fitted(variant, &operands, guard, &kept, right);
        let inst = inst.map_err(refused)?;
        self.count_uses(inst);
        Ok(inst)
    }

    /// Lets the one instruction that makes `temporary` define `value` under `guard` instead, and keep `kept` where the guard does not
    /// hold; whether that is possible.
    pub(super) fn keep_in_place(
        &mut self,
        value: Value,
        temporary: Value,
        kept: Source,
        guard: Guard,
    ) -> bool {
        let kept = kept
            .operand
            .as_value()
            .filter(|&it| kept.operand.mods().is_empty() && self.func.value_type(it) == Type::R);
        let condition = guard.reg().and_then(Reg::value);
        let (Some(kept), Some(condition)) = (kept, condition) else {
            return false;
        };
        let Some(inst) = self.func.defining_inst(temporary) else {
            return false;
        };
        let alone = self.func.opcode(inst).as_machine().is_some()
            && self.func.layout.inst_block(inst) == Some(self.block)
            && self.func.inst(inst).guard().is_always()
            && self
                .func
                .defs(inst)
                .filter(|reg| reg.value().is_some())
                .count()
                == 1
            && self.func.kept(inst).is_empty()
            && self.func.implicit_defs(inst).is_empty()
            && self.aliases[temporary].is_none()
            && self.demand[temporary] == 1
            && self.func.value_type(condition) == Type::P;
        if !alone {
            return false;
        }
        self.func.map_defs(inst, |reg| match reg.value() {
            Some(_) => Reg::from(value),
            None => reg,
        });
        self.func.set_guard(inst, guard);
        self.func.set_kept(inst, &[kept.into()]);
        self.count(kept);
        self.count(condition);
        true
    }

    /// A new tuple of zeros where `kept` is one. What is kept is changed in place, so it has to be made for each reader anyway, and a pair
    /// of zeros takes one instruction.
    fn zeros(&mut self, kept: Value) -> Result<Option<Value>, PhaseError> {
        let ty = self.func.value_type(kept);
        let pairs = usize::from(ty.len()) / 2;
        let Some((inst, AbstractOp::Collect)) = self.definition(kept) else {
            return Ok(None);
        };
        let parts = self.func.operands(inst)[1..].to_vec();
        let words = ty.class() == Class::R && pairs > 0 && parts.len() == 2 * pairs;
        if !words || !parts.iter().all(|&part| self.word_of(part).is_zero()) {
            return Ok(None);
        }
        let zero = orias_sass::special::ZERO;
        let mut operands = Vec::new();
        for _ in 0..pairs {
            let pair = self.temporary(Type::R2);
            self.emit(Op::CS2R, &[], &[pair.into(), Operand::Special(zero).into()])?;
            operands.push(Operand::from(pair));
        }
        if let [pair] = operands[..] {
            return Ok(pair.as_value());
        }
        let whole = self.temporary(ty);
        operands.insert(0, whole.into());
        let mods = AbstractMods::NONE;
        let collect = self
            .func
            .create_abstract(AbstractOp::Collect, mods, 1, &operands);
        self.insert(collect);
        Ok(Some(whole))
    }

    /// A value nobody relies on.
    pub(super) fn undefined(&mut self, ty: Type) -> Value {
        let value = self.func.create_value(ty);
        let mods = AbstractMods::NONE;
        let inst = self
            .func
            .create_abstract(AbstractOp::Undef, mods, 1, &[value.into()]);
        self.func.layout.insert_inst_before(inst, self.at);
        value
    }

    /// The modifiers of `op` with some set by name.
    pub(super) fn mods(&self, op: Op, list: ModList<'_>) -> Result<Mods, PhaseError> {
        let row = op.row();
        let mut mods = default_modifiers(op);
        for (name, value) in list {
            mods = row
                .with_value(*name, *value, mods)
                .ok_or_else(|| self.broken(format!("{op} has no modifier {name}={value}")))?;
        }
        Ok(mods)
    }

    /// The form of `op` that takes these operands. It is looked for once for each shape, unless the row has several that differ in which
    /// numbers they take.
    fn form(&mut self, op: Op, mods: Mods, operands: &[Operand]) -> Result<Fitted, EncodeError> {
        let shape = InstructionShape::of(self.func, Operation::Machine(op, mods), 0, operands);
        let known = shape.and_then(|shape| self.forms.get(&shape).copied());
        let takes = |variant: &Variant| {
            operands.iter().enumerate().all(|(slot, operand)| {
                !matches!(operand, Operand::Imm(imm) if !variant.takes_immediate(slot, imm.bits()))
            })
        };
        let known = known.filter(takes);
        let variant = match known {
            Some(variant) => variant,
            None => {
                let variant = check_operands(self.func, op, mods, operands, self.target)?;
                let numbered = |operand: &Operand| matches!(operand, Operand::Const { .. });
                if let Some(shape) = shape
                    && variant.is_only_one(self.target)
                    && !operands.iter().any(numbered)
                {
                    self.forms.insert(shape, variant);
                }
                variant
            }
        };
        Ok(Fitted {
            variant,
            right: known.is_some(),
        })
    }

    /// Gives `op` operands that have an encoding: those that stand in the way are put into registers, one at a time.
    fn make_fit(
        &mut self,
        op: Op,
        mods: Mods,
        sources: &[Source],
        operands: &mut Operands,
        mut error: EncodeError,
    ) -> Result<Fitted, PhaseError> {
        // What no move can hold fits nowhere.
        if op == Op::MOV {
            return Err(self.unsupported());
        }
        let mut sources: SmallVec<[Source; 8]> = SmallVec::from_slice(sources);
        loop {
            let slots = op.row().slots;
            let can_move =
                |index: usize| !slots[index].access.writes() && sources[index].can_move(self.func);
            let blamed = match &error {
                EncodeError::Operand { slot, .. } => {
                    slots.iter().position(|candidate| candidate.name == *slot)
                }
                _ => None,
            };
            let place = blamed
                .filter(|&index| can_move(index))
                .or_else(|| (0..sources.len()).find(|&index| can_move(index)));
            let Some(place) = place else {
                return Err(self.broken(format!("{op}: {error}")));
            };
            let width = slot_width(op, mods, place);
            sources[place] = self.through_register(sources[place], width)?;
            operands[place] = sources[place].operand;
            error = match self.form(op, mods, operands) {
                Ok(fitted) => return Ok(fitted),
                Err(error) => error,
            };
        }
    }

    /// The same source in registers.
    pub(super) fn through_register(
        &mut self,
        source: Source,
        width: u8,
    ) -> Result<Source, PhaseError> {
        if let Some(register) = source.register {
            return Ok(register.into());
        }
        if width > 2 {
            return Err(self.unsupported());
        }
        // Signs are read from the register as they were from where it comes.
        let mods = source.operand.mods();
        let Some(plain) = source.operand.with_mods(SourceMods::NONE) else {
            return Err(self.broken("a source modifier has no place"));
        };
        let value = match plain {
            Operand::Imm(imm) if imm.bits() == 0 => return Ok(rz().into()),
            Operand::Const { .. } if width == 2 => {
                let value = self.temporary(Type::R2);
                let operand = with_index(plain);
                self.emit(
                    Op::LDC,
                    &[(name::SIZE, value::_64)],
                    &[value.into(), operand.into()],
                )?;
                value
            }
            Operand::Imm(imm) if width == 2 => {
                let value = self.temporary(Type::R2);
                self.count(value);
                let low = Operand::imm(imm.bits() & 0xffff_ffff);
                let high = Operand::imm(imm.bits() >> 32);
                self.define_pair(value, low.into(), high.into())?;
                value
            }
            Operand::Const { index, offset, .. } if index.get().is_some() || offset % 4 != 0 => {
                let value = self.temporary(Type::R);
                let operand = with_index(plain);
                self.emit(Op::LDC, &[], &[value.into(), operand.into()])?;
                value
            }
            plain => {
                let value = self.temporary(Type::R);
                self.copy(value, plain.into())?;
                value
            }
        };
        let operand = Operand::from(value);
        Ok(operand.with_mods(mods).unwrap_or(operand).into())
    }

    /// One word from `source` to `to`.
    pub(super) fn copy(&mut self, to: Value, source: Source) -> Result<(), PhaseError> {
        let all_lanes = Operand::imm(0xf);
        self.emit(Op::MOV, &[], &[to.into(), source, all_lanes.into()])?;
        Ok(())
    }
}
