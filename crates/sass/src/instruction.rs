//! A machine instruction: an operation with its guard, operands, modifiers and control field.

use crate::control::{Control, ControlError};
use crate::op::{Mods, Op};
use crate::operand::{
    Address, BaseKind, Constant, ConstantBank, Operand, Operands, SourceModifiers,
};
use crate::register::{Register, RegisterClass};
use crate::table::{
    AddressPlace, ConstantPlace, Field, Form, GuardRule, ModifierName, Operation, Place, PlaceKind,
    Slot, SlotDefault, ValueName,
};
use crate::target::Target;
use std::hash::{Hash, Hasher};

/// The predicate that decides whether an instruction runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Guard {
    /// A predicate, or a uniform predicate for operations of the uniform datapath.
    pub predicate: Register,
    /// Run when it is false.
    pub negated: bool,
}

impl Guard {
    /// Always runs (`@PT`).
    pub const ALWAYS: Guard = Guard {
        predicate: Register::PT,
        negated: false,
    };
    /// Always runs, for operations guarded by uniform predicates (`@UPT`).
    pub const ALWAYS_UNIFORM: Guard = Guard {
        predicate: Register::UPT,
        negated: false,
    };

    /// The guard that is always true for operations with this rule.
    #[must_use]
    pub const fn always(rule: GuardRule) -> Self {
        match rule {
            GuardRule::Uniform => Guard::ALWAYS_UNIFORM,
            GuardRule::Predicate | GuardRule::None => Guard::ALWAYS,
        }
    }

    /// Whether it is always true.
    #[must_use]
    pub fn is_always(self) -> bool {
        self.predicate.is_constant() && !self.negated
    }
}

/// A machine instruction whose operands and modifiers fit one form of its operation.
///
/// Operands and modifiers are checked when a value is made, so only its control field can keep it from being encoded. [`Instruction::new`] finds the form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    pub(crate) op: Op,
    pub(crate) form: u8,
    pub(crate) guard: Guard,
    pub(crate) mods: Mods,
    pub(crate) operands: Operands,
    /// What the hardware's scheduler is told. It is checked when the instruction is encoded.
    pub control: Control,
}

/// Few large pieces: tables of instructions are asked for every instruction of a program.
impl Hash for Instruction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Instruction {
            op,
            form,
            guard,
            mods,
            operands,
            control,
        } = self;
        let bits = control.to_bits();
        state.write_u64(
            op.index() as u64
                | u64::from(*form) << 16
                | u64::from(guard.predicate.index) << 24
                | u64::from(guard.negated) << 32,
        );
        state.write_u64(mods.bits());
        state.write_u64(bits as u64 ^ (bits >> 64) as u64);
        for operand in operands {
            operand.hash(state);
        }
    }
}

/// Why operands, modifiers or a guard do not make an instruction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncodeError {
    /// The target does not have the operation.
    #[error("{target} does not have {op}")]
    Target {
        /// The operation.
        op: Op,
        /// The target.
        target: Target,
    },
    /// Too few or too many operands.
    #[error("{op} has {expected} operands, not {found}")]
    OperandCount {
        /// The operation.
        op: Op,
        /// How many its row has.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A modifier value that has no name.
    #[error("{value} is not a value of {op}'s modifier '{modifier}'")]
    ModifierValue {
        /// The operation.
        op: Op,
        /// The modifier.
        modifier: &'static str,
        /// The encoding.
        value: u16,
    },
    /// A modifier or value name the operation does not have.
    #[error("{op} has no modifier '{name}'")]
    ModifierName {
        /// The operation.
        op: Op,
        /// `modifier` or `modifier=value`.
        name: String,
    },
    /// The guard is of the wrong class, or the operation takes none.
    #[error("{op} cannot be guarded by {guard}")]
    Guard {
        /// The operation.
        op: Op,
        /// The predicate.
        guard: Register,
    },
    /// No form takes these operands; the slot is the first that the best form refuses.
    #[error("{op} does not take operand '{slot}': {reason}")]
    Operand {
        /// The operation.
        op: Op,
        /// The slot.
        slot: &'static str,
        /// What is wrong.
        reason: OperandMismatch,
    },
    /// A control field that does not exist.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A reuse flag that belongs to no register operand of the form.
    #[error("{op} in this form has no operand for reuse flag {flag}")]
    Reuse {
        /// The operation.
        op: Op,
        /// The flag's index.
        flag: u8,
    },
}

/// Why an operand does not fit a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OperandMismatch {
    /// Another kind of operand or register class.
    #[error("no form with this kind of operand")]
    Kind,
    /// A register the class does not have.
    #[error("no such register")]
    Register,
    /// RZ, PT, URZ or UPT where a real register is needed.
    #[error("a real register is needed here")]
    Constant,
    /// A number that does not fit its field.
    #[error("{0:#x} does not fit in {1} bits")]
    Range(i64, u8),
    /// A distance that is not a multiple of the field's unit.
    #[error("{0:#x} is not a multiple of {1}")]
    Alignment(i64, u8),
    /// The forms for this operand do not exist with these modifiers.
    #[error("no form with these modifiers takes it")]
    Form,
    /// A descriptor that must be the register after another operand's uniform register.
    #[error("the descriptor must be the register after the other address's uniform register")]
    Tied,
    /// Negation, absolute value, complement or select that the place has no bit for.
    #[error("this form cannot apply that source modifier")]
    Modifier,
}

impl Instruction {
    /// Checks everything and finds the form. The control field starts as [`Control::default`].
    pub fn new(
        op: Op,
        guard: Guard,
        mods: Mods,
        operands: impl IntoIterator<Item = Operand>,
        target: Target,
    ) -> Result<Self, EncodeError> {
        Instruction::with_operands(op, guard, mods, operands.into_iter().collect(), target)
    }

    /// The same for operands that lie together already.
    #[inline]
    pub fn with_operands(
        op: Op,
        guard: Guard,
        mods: Mods,
        operands: Operands,
        target: Target,
    ) -> Result<Self, EncodeError> {
        let variant = Variant::find(op, guard, mods, &operands, target)?;
        Ok(Instruction {
            op,
            form: variant.form,
            guard,
            mods,
            operands,
            control: Control::default(),
        })
    }

    /// Starts an instruction whose operands and modifiers are given by name or in order.
    #[must_use]
    pub fn build(op: Op) -> Builder {
        Builder {
            op,
            guard: Guard::always(op.row().guard),
            mods: Mods::ZERO,
            operands: Operands::new(),
            control: Control::default(),
            error: None,
        }
    }

    /// The operation.
    #[inline]
    #[must_use]
    pub const fn op(&self) -> Op {
        self.op
    }

    /// The guard.
    #[inline]
    #[must_use]
    pub const fn guard(&self) -> Guard {
        self.guard
    }

    /// The modifiers.
    #[inline]
    #[must_use]
    pub const fn mods(&self) -> Mods {
        self.mods
    }

    /// The operands, one per slot of the row.
    #[inline]
    #[must_use]
    pub fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// The operand in the slot called `name`.
    #[must_use]
    pub fn operand(&self, name: &str) -> Option<&Operand> {
        self.operands.get(self.op.row().slot_index(name)?)
    }

    /// The form the operands chose.
    #[inline]
    #[must_use]
    pub fn form(&self) -> &'static Form {
        &self.op.row().forms[usize::from(self.form)]
    }

    /// The form with the modifiers.
    #[inline]
    #[must_use]
    pub const fn variant(&self) -> Variant {
        Variant {
            op: self.op,
            form: self.form,
            mods: self.mods,
        }
    }

    /// The form's index in the row.
    #[must_use]
    pub const fn form_index(&self) -> u8 {
        self.form
    }

    /// The name of the value that the modifier called `name` has.
    #[must_use]
    pub fn modifier(&self, name: ModifierName) -> Option<ValueName> {
        self.op.row().value_of(name, self.mods)
    }

    /// Whether the operand in `slot` carries a reuse flag.
    #[must_use]
    pub fn reuses(&self, slot: usize) -> bool {
        let bit = self.form().places[slot].reuse;
        bit.exists() && self.control.reuse() >> (bit.0 - 122) & 1 == 1
    }

    /// Replaces the distance of the (only) branch target, as label resolution does.
    pub fn set_target(&mut self, distance: i64) -> Result<(), OperandMismatch> {
        let form = self.form();
        for (operand, place) in self.operands.iter_mut().zip(form.places) {
            if let Operand::Target(_) = operand {
                let moved = Operand::Target(distance);
                fits(&moved, place, &[])?;
                *operand = moved;
                return Ok(());
            }
        }
        Err(OperandMismatch::Kind)
    }

    /// The distance of the branch target, where there is one.
    #[must_use]
    pub fn target(&self) -> Option<i64> {
        self.operands.iter().find_map(|operand| match operand {
            Operand::Target(distance) => Some(*distance),
            _ => None,
        })
    }
}

/// A form of an operation under its modifiers: what tells how many registers each slot names, whichever these are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Variant {
    pub(crate) op: Op,
    pub(crate) form: u8,
    pub(crate) mods: Mods,
}

impl Variant {
    /// Checks guard, modifiers and operands as [`Instruction::new`] does, and finds the form.
    pub fn find(
        op: Op,
        guard: Guard,
        mods: Mods,
        operands: &[Operand],
        target: Target,
    ) -> Result<Variant, EncodeError> {
        let row = op.row();
        if operands.len() != row.slots.len() {
            return Err(EncodeError::OperandCount {
                op,
                expected: row.slots.len(),
                found: operands.len(),
            });
        }
        check_guard(op, guard)?;
        for modifier in row.modifiers {
            let value = mods.get(modifier);
            if modifier.value(value).is_none() {
                return Err(EncodeError::ModifierValue {
                    op,
                    modifier: modifier.name,
                    value,
                });
            }
        }
        let shapes = operands.iter().rev().fold(0, |shapes, operand| {
            shapes << 4 | u64::from(operand.shape())
        });
        let found = row.forms.iter().position(|form| {
            form.shapes == shapes
                && form.targets.contains(target)
                && modifiers_agree(mods, form)
                && operands_fit(row, form, operands).is_ok()
        });
        let form = match found {
            Some(index) => index as u8,
            None => find_form(op, mods, operands, target)?,
        };
        Ok(Variant { op, form, mods })
    }

    /// Whether the form takes `bits` as the immediate in `slot`.
    #[must_use]
    pub fn takes_immediate(self, slot: usize, bits: u64) -> bool {
        match self.form().places[slot].kind {
            PlaceKind::Immediate { field, format } => bits <= field.max() && format.exists(bits),
            _ => false,
        }
    }

    /// Whether no other form of the target has the same kinds of operands under the same modifiers.
    #[must_use]
    pub fn is_only_one(self, target: Target) -> bool {
        let shapes = self.form().shapes;
        let forms = self.op.row().forms.iter();
        let alike = forms.filter(|form| {
            form.shapes == shapes
                && form.targets.contains(target)
                && modifiers_agree(self.mods, form)
        });
        alike.count() == 1
    }

    /// The operation.
    #[inline]
    #[must_use]
    pub const fn op(self) -> Op {
        self.op
    }

    /// The modifiers.
    #[inline]
    #[must_use]
    pub const fn mods(self) -> Mods {
        self.mods
    }

    /// The form.
    #[inline]
    #[must_use]
    pub fn form(self) -> &'static Form {
        &self.op.row().forms[usize::from(self.form)]
    }
}

/// Collects the parts of an instruction; [`Builder::finish`] checks them.
#[derive(Clone, Debug)]
pub struct Builder {
    op: Op,
    guard: Guard,
    mods: Mods,
    operands: Operands,
    control: Control,
    error: Option<EncodeError>,
}

impl Builder {
    /// Sets the guard.
    #[must_use]
    pub fn guard(mut self, predicate: Register, negated: bool) -> Self {
        self.guard = Guard { predicate, negated };
        self
    }

    /// Adds the operand of the next slot.
    #[must_use]
    pub fn operand(mut self, operand: impl Into<Operand>) -> Self {
        self.operands.push(operand.into());
        self
    }

    /// Adds operands of the next slots.
    #[must_use]
    pub fn operands(mut self, operands: impl IntoIterator<Item = Operand>) -> Self {
        self.operands.extend(operands);
        self
    }

    /// Sets a modifier by the names the table gives.
    #[must_use]
    pub fn modifier(mut self, name: ModifierName, value: ValueName) -> Self {
        match self.op.row().with_value(name, value, self.mods) {
            Some(mods) => self.mods = mods,
            None => {
                self.error.get_or_insert(EncodeError::ModifierName {
                    op: self.op,
                    name: format!("{name}={value}"),
                });
            }
        }
        self
    }

    /// Sets the control field.
    #[must_use]
    pub fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Checks everything. Slots after the last operand given take their defaults where they have one.
    pub fn finish(self, target: Target) -> Result<Instruction, EncodeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut operands = self.operands;
        for slot in self.op.row().slots.iter().skip(operands.len()) {
            match slot.default {
                Some(default) => operands.push(default_operand(default)),
                None => break,
            }
        }
        let mut instruction = Instruction::new(self.op, self.guard, self.mods, operands, target)?;
        instruction.control = self.control;
        check_control(&instruction)?;
        Ok(instruction)
    }
}

pub(crate) fn default_operand(default: SlotDefault) -> Operand {
    match default {
        SlotDefault::Register(register, false) => Operand::register(register),
        SlotDefault::Register(register, true) => Operand::not(register),
        SlotDefault::Immediate(value) => Operand::Immediate(value),
        SlotDefault::Target(distance) => Operand::Target(distance),
    }
}

pub(crate) fn check_control(instruction: &Instruction) -> Result<(), EncodeError> {
    instruction.control.check()?;
    let mut unowned = instruction.control.reuse();
    if unowned == 0 {
        return Ok(());
    }
    for place in instruction.form().places {
        if place.reuse.exists() {
            unowned &= !(1 << (place.reuse.0 - 122));
        }
    }
    if unowned == 0 {
        Ok(())
    } else {
        Err(EncodeError::Reuse {
            op: instruction.op,
            flag: unowned.trailing_zeros() as u8,
        })
    }
}

pub(crate) fn check_guard(op: Op, guard: Guard) -> Result<(), EncodeError> {
    let legal = match op.row().guard {
        GuardRule::Predicate => guard.predicate.class == RegisterClass::P,
        GuardRule::Uniform => guard.predicate.class == RegisterClass::UP,
        GuardRule::None => guard == Guard::ALWAYS,
    };
    if legal && guard.predicate.exists() {
        Ok(())
    } else {
        Err(EncodeError::Guard {
            op,
            guard: guard.predicate,
        })
    }
}

/// The first form whose places take the operands. The error tells about the form that takes most of them.
fn find_form(op: Op, mods: Mods, operands: &[Operand], target: Target) -> Result<u8, EncodeError> {
    let row = op.row();
    let mut best: Option<(usize, OperandMismatch)> = None;
    let mut exists = false;
    for (index, form) in row.forms.iter().enumerate() {
        if !form.targets.contains(target) {
            continue;
        }
        exists = true;
        if !modifiers_agree(mods, form) {
            best.get_or_insert((0, OperandMismatch::Form));
            continue;
        }
        match operands_fit(row, form, operands) {
            Ok(()) => return Ok(index as u8),
            Err((slot, reason)) => {
                let better = match best {
                    Some((other, OperandMismatch::Kind | OperandMismatch::Form)) => {
                        slot > other || slot == other && reason != OperandMismatch::Kind
                    }
                    Some((other, _)) => slot > other,
                    None => true,
                };
                if better {
                    best = Some((slot, reason));
                }
            }
        }
    }
    Err(match best {
        Some((slot, reason)) if exists => EncodeError::Operand {
            op,
            slot: row.slots[slot].name,
            reason,
        },
        _ => EncodeError::Target { op, target },
    })
}

/// Whether the modifiers have the values that the form fixes.
pub(crate) const fn modifiers_agree(mods: Mods, form: &Form) -> bool {
    mods.0 & form.mods_mask == form.mods_value
}

/// Whether every operand can stand at its place in the form; the error names the first slot that cannot.
pub(crate) fn operands_fit(
    row: &Operation,
    form: &Form,
    operands: &[Operand],
) -> Result<(), (usize, OperandMismatch)> {
    for (slot, (operand, place)) in operands.iter().zip(form.places).enumerate() {
        fits(operand, place, row.slots[slot].selects)
            .and_then(|()| tie_holds(operand, place, operands, form))
            .map_err(|reason| (slot, reason))?;
    }
    Ok(())
}

/// Whether `operand` can stand at `place`.
#[inline]
fn fits(
    operand: &Operand,
    place: &Place,
    selects: &[Option<&'static str>],
) -> Result<(), OperandMismatch> {
    match (operand, &place.kind) {
        (Operand::Register(operand), PlaceKind::Register { class, field, .. }) => {
            register_fits(operand.register, *class, *field)?;
            if place.named && operand.register.is_constant() {
                return Err(OperandMismatch::Constant);
            }
            modifiers_fit(operand.modifiers, place, selects)
        }
        (Operand::Immediate(value), PlaceKind::Immediate { field, format }) => {
            if *value > field.max() || !format.exists(*value) {
                return Err(OperandMismatch::Range(*value as i64, field.len()));
            }
            Ok(())
        }
        (Operand::Constant(constant), PlaceKind::Constant(shape)) => {
            constant_fits(constant, shape)?;
            modifiers_fit(constant.modifiers, place, selects)
        }
        (Operand::Address(address), PlaceKind::Address(shape)) => {
            if place.named && address.base.is_some_and(Register::is_constant) {
                return Err(OperandMismatch::Constant);
            }
            address_fits(address, shape)
        }
        (Operand::Descriptor(register), PlaceKind::Descriptor { field, .. }) => {
            register_fits(*register, RegisterClass::UR, *field)
        }
        (
            Operand::Target(distance),
            PlaceKind::Target {
                field,
                scale,
                absolute,
                ..
            },
        ) => {
            let scale_bytes = i64::from(*scale);
            if distance % scale_bytes != 0 {
                return Err(OperandMismatch::Alignment(*distance, *scale));
            }
            let units = distance / scale_bytes;
            if *absolute {
                return if units >= 0 && units as u64 <= field.max() {
                    Ok(())
                } else {
                    Err(OperandMismatch::Range(units, field.len()))
                };
            }
            signed_fits(units, *field)
        }
        (Operand::Special(number), PlaceKind::Special { field }) => {
            if u64::from(*number) > field.max() {
                return Err(OperandMismatch::Range(i64::from(*number), field.len()));
            }
            Ok(())
        }
        _ => Err(OperandMismatch::Kind),
    }
}

/// Whether a descriptor without a field of its own follows the uniform register whose field it shares.
fn tie_holds(
    operand: &Operand,
    place: &Place,
    operands: &[Operand],
    form: &Form,
) -> Result<(), OperandMismatch> {
    let (Operand::Address(address), PlaceKind::Address(shape)) = (operand, &place.kind) else {
        return Ok(());
    };
    if !shape.tied {
        return Ok(());
    }
    let uniform = operands
        .iter()
        .zip(form.places)
        .find_map(|(operand, place)| match (operand, &place.kind) {
            (Operand::Address(other), PlaceKind::Address(at)) if at.uniform == shape.descriptor => {
                other.uniform
            }
            _ => None,
        });
    if address.descriptor == uniform.map(Register::after) {
        Ok(())
    } else {
        Err(OperandMismatch::Tied)
    }
}

fn register_fits(
    register: Register,
    class: RegisterClass,
    field: Field,
) -> Result<(), OperandMismatch> {
    if register.class != class {
        return Err(OperandMismatch::Kind);
    }
    if !register.exists() || u64::from(register.index) > field.max() {
        return Err(OperandMismatch::Register);
    }
    Ok(())
}

fn signed_fits(value: i64, field: Field) -> Result<(), OperandMismatch> {
    if field.is_empty() && value == 0 || !field.is_empty() && field.fits_signed(value) {
        Ok(())
    } else {
        Err(OperandMismatch::Range(value, field.len()))
    }
}

fn constant_fits(constant: &Constant, shape: &ConstantPlace) -> Result<(), OperandMismatch> {
    match (constant.bank, shape.handle) {
        (ConstantBank::Index(bank), None) => {
            if u64::from(bank) > shape.bank.max() {
                return Err(OperandMismatch::Range(i64::from(bank), shape.bank.len()));
            }
        }
        (ConstantBank::Bindless(register), Some(field)) => {
            register_fits(register, RegisterClass::UR, field)?;
        }
        _ => return Err(OperandMismatch::Kind),
    }
    match (constant.index, shape.index) {
        (None, None) => {}
        (Some(register), Some((class, field))) => register_fits(register, class, field)?,
        _ => return Err(OperandMismatch::Kind),
    }
    let offset = i64::from(constant.offset);
    let scale = i64::from(shape.scale);
    if offset % scale != 0 {
        return Err(OperandMismatch::Alignment(offset, shape.scale));
    }
    let offset = offset / scale;
    if shape.signed {
        signed_fits(offset, shape.offset)
    } else if offset < 0 || offset as u64 > shape.offset.max() {
        Err(OperandMismatch::Range(offset, shape.offset.len()))
    } else {
        Ok(())
    }
}

fn address_fits(address: &Address, shape: &AddressPlace) -> Result<(), OperandMismatch> {
    match (address.base, shape.base) {
        (None, None) => {
            if address.kind != BaseKind::Plain {
                return Err(OperandMismatch::Kind);
            }
        }
        (Some(register), Some(base)) => {
            if address.kind != base.kind {
                return Err(OperandMismatch::Kind);
            }
            register_fits(register, base.class, base.field)?;
        }
        _ => return Err(OperandMismatch::Kind),
    }
    for (register, field) in [
        (address.uniform, shape.uniform),
        (address.descriptor, shape.descriptor),
    ] {
        match (register, field) {
            (None, None) => {}
            (Some(register), Some(field)) => register_fits(register, RegisterClass::UR, field)?,
            _ => return Err(OperandMismatch::Kind),
        }
    }
    signed_fits(i64::from(address.offset), shape.offset)
}

fn modifiers_fit(
    modifiers: SourceModifiers,
    place: &Place,
    selects: &[Option<&'static str>],
) -> Result<(), OperandMismatch> {
    if modifiers == SourceModifiers::NONE && place.select.is_empty() {
        return Ok(());
    }
    let legal = (!modifiers.negate || place.negate.exists())
        && (!modifiers.absolute || place.absolute.exists())
        && (!modifiers.invert || place.invert.exists());
    let select_legal = if place.select.is_empty() {
        modifiers.select == 0
    } else {
        matches!(selects.get(usize::from(modifiers.select)), Some(Some(_)))
    };
    if legal && select_legal {
        Ok(())
    } else {
        Err(OperandMismatch::Modifier)
    }
}

/// The slot default as an operand, for callers outside this module that know the slot.
impl Slot {
    /// The operand that text may leave out.
    #[must_use]
    pub fn default_operand(&self) -> Option<Operand> {
        self.default.map(default_operand)
    }
}
