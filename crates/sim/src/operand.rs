//! Operands as the semantics see them: found by the name of their slot once, read and written for a whole warp after that.
//!
//! A [`Source`] knows how many registers its row declares; reading beyond them is recorded as a violation and stops the run.

use crate::core::Core;
use orias_sass::SlotName;
use orias_sass::{
    Access, ConstantBank, ImmediateFormat, Instruction, ModifierName, Operand, PlaceKind, Register,
    RegisterClass, ValueName, modifier_values as value,
};

/// One value for each lane of a warp.
pub(crate) type Lanes = [u32; 32];

/// What a source is read from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    Register(u8),
    Uniform(u8),
    Immediate(u64, ImmediateFormat),
    Constant { bank: u8, offset: u32 },
}

/// A value that an instruction reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub from: From,
    pub width: u8,
    pub negate: bool,
    pub absolute: bool,
    pub invert: bool,
    pub select: u8,
}

/// A register, or several, that an instruction writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub register: Register,
    pub width: u8,
}

/// A predicate that an instruction reads: one bit per lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub register: Register,
    pub invert: bool,
}

/// How an address is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressSource {
    pub base: Option<Register>,
    /// Whether the base is a pair.
    pub wide: bool,
    pub uniform: Option<Register>,
    pub uniform_wide: bool,
    pub offset: i32,
    /// The modifier that scales the base: its value is the logarithm of the factor (0 for none).
    pub scale: u8,
}

/// The operands of one instruction, by name.
pub(crate) struct Reader<'a> {
    pub instruction: &'a Instruction,
    /// Size of each constant bank of the kernel.
    pub banks: &'a [usize; 32],
    /// Index of the instruction in its function.
    pub index: usize,
}

/// Why an instruction cannot be run: what its semantics need is not there.
pub(crate) type Lack = String;

/// What `find` says of each name, or what the first one lacks.
fn each<T, const N: usize>(
    names: [SlotName; N],
    find: impl Fn(SlotName) -> Result<T, Lack>,
) -> Result<[T; N], Lack> {
    let found: Vec<T> = names.into_iter().map(find).collect::<Result<_, _>>()?;
    found
        .try_into()
        .map_err(|_| "as many operands as names".to_owned())
}

impl<'a> Reader<'a> {
    fn slot(&self, name: SlotName) -> Result<usize, Lack> {
        let row = self.instruction.op().row();
        row.slot_index(name)
            .ok_or_else(|| format!("{} has no operand '{name}'", row.name))
    }

    pub fn operand(&self, name: SlotName) -> Result<&'a Operand, Lack> {
        let slot = self.slot(name)?;
        Ok(&self.instruction.operands()[slot])
    }

    /// The name of a modifier's value; an operation without the modifier is a mistake in the semantics.
    pub fn modifier(&self, name: ModifierName) -> Result<ValueName, Lack> {
        self.instruction
            .modifier(name)
            .ok_or_else(|| format!("{} has no modifier '{name}'", self.instruction.op()))
    }

    /// Whether a modifier has a value; false for operations without the modifier.
    pub fn is(&self, name: ModifierName, value: ValueName) -> bool {
        self.instruction.modifier(name) == Some(value)
    }

    pub fn source(&self, name: SlotName) -> Result<Source, Lack> {
        let slot = self.slot(name)?;
        let row = self.instruction.op().row();
        if !row.slots[slot].access.reads() {
            return Err(format!("{} does not read '{name}'", row.name));
        }
        let operand = &self.instruction.operands()[slot];
        let modifiers = operand.modifiers();
        let width = self.instruction.width(slot);
        let from = match operand {
            Operand::Register(operand) => match operand.register.class {
                RegisterClass::R => From::Register(operand.register.index),
                RegisterClass::UR => From::Uniform(operand.register.index),
                other => return Err(format!("'{name}' is a register of class {other:?}")),
            },
            Operand::Immediate(value) => {
                let PlaceKind::Immediate { format, .. } = self.instruction.form().places[slot].kind
                else {
                    return Err(format!("'{name}' is no immediate in this form"));
                };
                // Where a row reads the upper half of a double alone, the immediate is all there is.
                let half = format == ImmediateFormat::F64High && width < 2;
                From::Immediate(
                    *value,
                    if half {
                        ImmediateFormat::Unsigned
                    } else {
                        format
                    },
                )
            }
            Operand::Constant(constant) => {
                let ConstantBank::Index(bank) = constant.bank else {
                    return Err("bindless constant banks".to_owned());
                };
                if constant.index.is_some_and(|index| !index.is_constant()) {
                    return Err(format!("an indexed constant as '{name}'"));
                }
                let offset = u32::try_from(constant.offset)
                    .map_err(|_| format!("constant offset {}", constant.offset))?;
                let end = offset as usize + 4 * usize::from(width.max(1));
                if self
                    .banks
                    .get(usize::from(bank))
                    .is_none_or(|size| end > *size)
                {
                    return Err(format!(
                        "c[{bank:#x}][{offset:#x}] lies beyond the bank's {} bytes",
                        self.banks.get(usize::from(bank)).copied().unwrap_or(0)
                    ));
                }
                From::Constant { bank, offset }
            }
            other => return Err(format!("'{name}' is {other:?}")),
        };
        Ok(Source {
            from,
            width: width.max(1),
            negate: modifiers.negate,
            absolute: modifiers.absolute,
            invert: modifiers.invert,
            select: modifiers.select,
        })
    }

    pub fn target(&self, name: SlotName) -> Result<Target, Lack> {
        let slot = self.slot(name)?;
        let row = self.instruction.op().row();
        if row.slots[slot].access == Access::Read {
            return Err(format!("{} does not write '{name}'", row.name));
        }
        match self.instruction.operands()[slot] {
            Operand::Register(operand) => Ok(Target {
                register: operand.register,
                width: self.instruction.width(slot).max(1),
            }),
            ref other => Err(format!("'{name}' is {other:?}")),
        }
    }

    /// Several sources, in the order of their names.
    pub fn sources<const N: usize>(&self, names: [SlotName; N]) -> Result<[Source; N], Lack> {
        each(names, |name| self.source(name))
    }

    /// Several targets, in the order of their names.
    pub fn targets<const N: usize>(&self, names: [SlotName; N]) -> Result<[Target; N], Lack> {
        each(names, |name| self.target(name))
    }

    /// A target that not every operation of a family has.
    pub fn target_if_any(&self, name: SlotName) -> Result<Option<Target>, Lack> {
        let known = self.instruction.op().row().slot_index(name);
        known.map(|_| self.target(name)).transpose()
    }

    pub fn condition(&self, name: SlotName) -> Result<Condition, Lack> {
        let slot = self.slot(name)?;
        match self.instruction.operands()[slot] {
            Operand::Register(operand)
                if matches!(operand.register.class, RegisterClass::P | RegisterClass::UP) =>
            {
                Ok(Condition {
                    register: operand.register,
                    invert: operand.modifiers.invert,
                })
            }
            ref other => Err(format!("'{name}' is {other:?}")),
        }
    }

    /// A condition that only some rows have.
    pub fn condition_if_any(&self, name: SlotName) -> Result<Option<Condition>, Lack> {
        let known = self.instruction.op().row().slot_index(name);
        known.map(|_| self.condition(name)).transpose()
    }

    /// A source that only some rows have.
    pub fn source_if_any(&self, name: SlotName) -> Result<Option<Source>, Lack> {
        let known = self.instruction.op().row().slot_index(name);
        known.map(|_| self.source(name)).transpose()
    }

    /// A condition that some rows do not have: true there.
    pub fn optional_condition(&self, name: SlotName) -> Result<Condition, Lack> {
        Ok(self.condition_if_any(name)?.unwrap_or(Condition {
            register: Register::PT,
            invert: false,
        }))
    }

    pub fn immediate(&self, name: SlotName) -> Result<u64, Lack> {
        match self.operand(name)? {
            Operand::Immediate(value) => Ok(*value),
            other => Err(format!("'{name}' is {other:?}")),
        }
    }

    pub fn special(&self, name: SlotName) -> Result<u8, Lack> {
        match self.operand(name)? {
            Operand::Special(number) => Ok(*number),
            other => Err(format!("'{name}' is {other:?}")),
        }
    }

    pub fn barrier_register(&self, name: SlotName) -> Result<u8, Lack> {
        match self.operand(name)? {
            Operand::Register(operand) if operand.register.class == RegisterClass::B => {
                Ok(operand.register.index)
            }
            other => Err(format!("'{name}' is {other:?}")),
        }
    }

    /// Offset in the function of a branch target that is counted from the end of this instruction.
    pub fn jump(&self, name: SlotName) -> Result<i64, Lack> {
        match self.operand(name)? {
            Operand::Target(distance) => Ok((self.index as i64 + 1) * 16 + distance),
            other => Err(format!("'{name}' is {other:?}")),
        }
    }

    pub fn address(&self, name: SlotName) -> Result<AddressSource, Lack> {
        let slot = self.slot(name)?;
        let (Operand::Address(address), PlaceKind::Address(shape)) = (
            &self.instruction.operands()[slot],
            &self.instruction.form().places[slot].kind,
        ) else {
            return Err(format!("'{name}' is no address"));
        };
        let scale = match shape.base.and_then(|base| base.scale) {
            None => 0,
            Some(modifier) => {
                let modifier = &self.instruction.op().row().modifiers[usize::from(modifier)];
                match self.instruction.modifier(modifier.id()) {
                    Some(value::X1) => 0,
                    Some(value::X4) => 2,
                    Some(value::X8) => 3,
                    Some(value::X16) => 4,
                    other => return Err(format!("scale {other:?}")),
                }
            }
        };
        Ok(AddressSource {
            base: address.base.filter(|base| !base.is_constant()),
            wide: shape.base.is_some_and(|base| base.width == 2),
            uniform: address.uniform.filter(|uniform| !uniform.is_constant()),
            uniform_wide: shape.uniform_width == 2,
            offset: address.offset,
            scale,
        })
    }
}

impl Core<'_> {
    /// Register `part` of a source as it is, without its modifiers.
    #[inline]
    pub fn word(&mut self, source: &Source, part: u8) -> Lanes {
        match source.from {
            From::Register(255) => [0; 32],
            From::Register(index) => {
                if part >= source.width {
                    self.violate(Register::r(index.wrapping_add(part)));
                    return [0; 32];
                }
                self.r(index.wrapping_add(part))
            }
            From::Uniform(63) => [0; 32],
            From::Uniform(index) => {
                if part >= source.width {
                    self.violate(Register::ur(index.wrapping_add(part)));
                }
                [self.ur(index.wrapping_add(part)); 32]
            }
            From::Immediate(value, format) => [immediate_word(value, format, part); 32],
            From::Constant { bank, offset } => {
                [self.constant_word(bank, offset + 4 * u32::from(part)); 32]
            }
        }
    }

    /// A source as an integer: complemented or negated where it says so.
    #[inline]
    pub fn integer(&mut self, source: &Source) -> Lanes {
        let mut value = self.word(source, 0);
        if source.invert {
            value = value.map(|x| !x);
        }
        if source.negate {
            value = value.map(u32::wrapping_neg);
        }
        value
    }

    /// A source as a single-precision number: absolute value, then sign.
    #[inline]
    pub fn single(&mut self, source: &Source) -> Lanes {
        let mut value = self.word(source, 0);
        if source.absolute {
            value = value.map(|x| x & 0x7fff_ffff);
        }
        if source.negate {
            value = value.map(|x| x ^ 0x8000_0000);
        }
        value
    }

    /// Two registers as one number, without modifiers.
    #[inline]
    pub fn pair(&mut self, source: &Source) -> [u64; 32] {
        let low = self.word(source, 0);
        let high = self.word(source, 1);
        std::array::from_fn(|i| u64::from(high[i]) << 32 | u64::from(low[i]))
    }

    /// A source as a double-precision number: absolute value, then sign. A NaN stays as it is.
    #[inline]
    pub fn double(&mut self, source: &Source) -> [u64; 32] {
        let mut value = self.pair(source);
        if source.absolute || source.negate {
            let clear = if source.absolute { 1 << 63 } else { 0 };
            let flip = if source.negate { 1 << 63 } else { 0 };
            value = value.map(|x| match f64::from_bits(x).is_nan() {
                true => x,
                false => (x & !clear) ^ flip,
            });
        }
        value
    }

    /// Writes register `part` of a target in the lanes that run.
    #[inline]
    pub fn put(&mut self, target: &Target, part: u8, value: &Lanes) {
        if target.register.is_constant() {
            return;
        }
        let index = target.register.index.wrapping_add(part);
        if part >= target.width {
            self.violate(Register::new(target.register.class, index));
            return;
        }
        match target.register.class {
            RegisterClass::R => self.put_r(index, value),
            _ => {
                if self.active != 0 {
                    let lane = self.active.trailing_zeros() as usize;
                    self.put_ur(index, value[lane]);
                }
            }
        }
    }

    /// Writes a pair.
    #[inline]
    pub fn put_pair(&mut self, target: &Target, value: &[u64; 32]) {
        self.put(target, 0, &value.map(|x| x as u32));
        self.put(target, 1, &value.map(|x| (x >> 32) as u32));
    }

    /// A condition, one bit per lane.
    #[inline]
    pub fn condition(&mut self, condition: &Condition) -> u32 {
        let bits = match condition.register.class {
            RegisterClass::UP => self.up(condition.register.index),
            _ => self.p(condition.register.index),
        };
        if condition.invert { !bits } else { bits }
    }

    /// Writes a predicate in the lanes that run.
    #[inline]
    pub fn put_condition(&mut self, target: &Target, bits: u32) {
        if target.register.is_constant() {
            return;
        }
        match target.register.class {
            RegisterClass::UP => {
                if self.active != 0 {
                    let lane = self.active.trailing_zeros();
                    self.put_up(target.register.index, bits >> lane & 1 == 1);
                }
            }
            _ => self.put_p(target.register.index, bits),
        }
    }

    /// The addresses of all lanes.
    pub fn addresses(&mut self, address: &AddressSource) -> [u64; 32] {
        let mut out = [0u64; 32];
        if let Some(base) = address.base {
            if base.class == RegisterClass::UR {
                let low = u64::from(self.ur(base.index));
                let high = if address.wide {
                    u64::from(self.ur(base.index + 1)) << 32
                } else {
                    0
                };
                out = [high | low; 32];
            } else {
                let low = self.r(base.index);
                if address.wide {
                    let high = self.r(base.index.wrapping_add(1));
                    out = std::array::from_fn(|i| u64::from(high[i]) << 32 | u64::from(low[i]));
                } else {
                    out = low.map(|x| u64::from(x) << address.scale);
                }
            }
        }
        let mut add = i64::from(address.offset).cast_unsigned();
        if let Some(uniform) = address.uniform {
            add = add.wrapping_add(u64::from(self.ur(uniform.index)));
            if address.uniform_wide {
                add = add.wrapping_add(u64::from(self.ur(uniform.index + 1)) << 32);
            }
        }
        out.map(|x| x.wrapping_add(add))
    }
}

fn immediate_word(value: u64, format: ImmediateFormat, part: u8) -> u32 {
    match (format, part) {
        (ImmediateFormat::F64High, 0) => 0,
        (ImmediateFormat::F64High, _) => value as u32,
        (_, 0) => value as u32,
        (ImmediateFormat::Signed, _) => ((value as i32) >> 31).cast_unsigned(),
        _ => (value >> 32) as u32,
    }
}
