//! Instruction to text.

use crate::instruction::Instruction;
use crate::modifier::Modifier;
use crate::op::Mods;
use crate::operand::{Address, BaseKind, Constant, ConstantBank, Operand, SourceModifiers};
use crate::register::{Register, RegisterClass};
use crate::special;
use crate::table::{
    AddressPlace, Alias, AliasCondition, Bit, ImmediateFormat, MnemonicPart, Omission, Operation,
    Place, PlaceKind, Shown, TextItem,
};
use crate::text::float;

/// How to print.
#[derive(Clone, Copy, Debug, Default)]
pub struct Printer {
    /// Keep what nvdisasm's text loses (payloads of NaNs, which of two carries is meant), so that reading the text gives the
    /// same word.
    pub exact: bool,
}

/// `instruction` at address `pc`, without control field and semicolon: `@!P0 BRA 0x40`.
#[must_use]
pub fn print_instruction(instruction: &Instruction, pc: u64) -> String {
    let mut out = String::new();
    Printer::default().write(&mut out, instruction, pc, |_| None::<&str>);
    out
}

impl Printer {
    /// Appends `instruction` at address `pc` to `out`. `label` names code addresses; one without a name is printed as a
    /// number.
    pub fn write<'l>(
        self,
        out: &mut String,
        instruction: &Instruction,
        pc: u64,
        label: impl Fn(i64) -> Option<&'l str>,
    ) {
        let row = instruction.op().row();
        let guard = instruction.guard();
        if !guard.is_always() {
            out.push('@');
            if guard.negated {
                out.push('!');
            }
            push_register(out, guard.predicate);
            out.push(' ');
        }
        for part in row.mnemonic_parts {
            match part {
                MnemonicPart::Literal(text) => out.push_str(text),
                MnemonicPart::Modifier(index) => {
                    push_modifier(out, &row.modifiers[usize::from(*index)], instruction.mods());
                }
                MnemonicPart::Alias => {
                    if let Some(alias) = alias(row, instruction.operands()) {
                        out.push_str(alias.text);
                    }
                }
            }
        }
        let mut first = true;
        for (index, item) in row.items.iter().enumerate() {
            if omitted(row.items, index, instruction, row, self.exact) {
                continue;
            }
            if first || item.after_space {
                out.push(' ');
            } else {
                out.push_str(", ");
            }
            first = false;
            match item.shown {
                Shown::Literal(text) => out.push_str(text),
                Shown::Modifier(index) => {
                    let modifier = &row.modifiers[usize::from(index)];
                    if let Some(value) = modifier.value(instruction.mods().get(modifier)) {
                        out.push_str(value.name);
                    }
                }
                Shown::Slot(slot) => {
                    self.push_operand(out, instruction, usize::from(slot), pc, &label);
                }
            }
            for suffix in item.suffixes {
                push_modifier(
                    out,
                    &row.modifiers[usize::from(*suffix)],
                    instruction.mods(),
                );
            }
        }
    }

    fn push_operand<'l>(
        self,
        out: &mut String,
        instruction: &Instruction,
        slot: usize,
        pc: u64,
        label: &impl Fn(i64) -> Option<&'l str>,
    ) {
        let place = &instruction.form().places[slot];
        let reuse = instruction.reuses(slot) && (self.exact || place.reuse != SILENT_REUSE);
        let selects = instruction.op().row().slots[slot].selects;
        match (&instruction.operands()[slot], &place.kind) {
            (Operand::Register(operand), _) => {
                let complement = match operand.register.class {
                    RegisterClass::P | RegisterClass::UP => '!',
                    _ => '~',
                };
                push_before(out, operand.modifiers, complement);
                push_register(out, operand.register);
                let general = operand.register.class == RegisterClass::R;
                push_after(out, operand.modifiers, reuse, place, selects, general);
            }
            (Operand::Constant(constant), _) => {
                push_before(out, constant.modifiers, '~');
                let spaced = matches!(&place.kind, PlaceKind::Constant(shape) if shape.spaced);
                push_constant(out, constant, spaced);
                push_after(out, constant.modifiers, reuse, place, selects, false);
            }
            (Operand::Immediate(value), PlaceKind::Immediate { field, format }) => {
                self.push_immediate(out, *value, field.len(), *format);
            }
            (Operand::Address(address), PlaceKind::Address(shape)) => {
                let row = instruction.op().row();
                push_address(out, address, shape, row, instruction.mods(), self.exact);
            }
            (Operand::Descriptor(register), _) => {
                out.push_str("gdesc[");
                push_register(out, *register);
                out.push(']');
            }
            (Operand::Target(distance), PlaceKind::Target { relative: true, .. }) => {
                push_signed_hex(out, *distance);
            }
            (Operand::Target(distance), _) => {
                let address = (pc as i64).wrapping_add(16).wrapping_add(*distance);
                match label(address) {
                    Some(name) => {
                        out.push_str("`(");
                        out.push_str(name);
                        out.push(')');
                    }
                    None => push_signed_hex(out, address),
                }
            }
            (Operand::Special(number), _) => match special::name(*number) {
                Some(name) => out.push_str(name),
                None => {
                    out.push_str("SR");
                    push_decimal(out, u64::from(*number));
                }
            },
            // An instruction only exists with operands that fit its places.
            (Operand::Immediate(_) | Operand::Address(_), _) => {}
        }
    }

    fn push_immediate(self, out: &mut String, value: u64, bits: u8, format: ImmediateFormat) {
        match format {
            ImmediateFormat::Signed => {
                let shift = 64 - u32::from(bits);
                push_signed_hex(out, ((value << shift) as i64) >> shift);
            }
            ImmediateFormat::Unsigned => push_hex(out, value),
            ImmediateFormat::Decimal => push_decimal(out, value),
            ImmediateFormat::F32 => float::write(out, value, float::F32, self.exact),
            ImmediateFormat::F64High => float::write(out, value, float::F64_HIGH, self.exact),
            ImmediateFormat::F16 => float::write(out, value, float::F16, self.exact),
            ImmediateFormat::Bf16 => float::write(out, value, float::BF16, self.exact),
            ImmediateFormat::F16x2 | ImmediateFormat::Bf16x2 => {
                let format = if format == ImmediateFormat::F16x2 {
                    float::F16
                } else {
                    float::BF16
                };
                float::write(out, value >> 16, format, self.exact);
                out.push_str(", ");
                float::write(out, value & 0xffff, format, self.exact);
            }
            ImmediateFormat::Scoreboard => {
                out.push_str("SB");
                push_decimal(out, value);
            }
            ImmediateFormat::ScoreboardSet => {
                out.push('{');
                let mut separator = "";
                for number in (0..u64::from(bits)).rev().filter(|n| value >> n & 1 == 1) {
                    out.push_str(separator);
                    push_decimal(out, number);
                    separator = ",";
                }
                out.push('}');
            }
            ImmediateFormat::GroupScoreboard => {
                out.push_str("gsb");
                push_decimal(out, value);
            }
        }
    }
}

/// The reuse bit of sparse metadata, which nvdisasm does not show.
const SILENT_REUSE: Bit = Bit(125);

/// The spelling that the operands ask for, if any.
pub(crate) fn alias(row: &'static Operation, operands: &[Operand]) -> Option<&'static Alias> {
    row.aliases.iter().find(|alias| {
        alias
            .when
            .iter()
            .all(|condition| alias_holds(*condition, operands))
    })
}

fn alias_holds(condition: AliasCondition, operands: &[Operand]) -> bool {
    let operand = |slot: u8| operands.get(usize::from(slot));
    match condition {
        AliasCondition::Register(slot, register) => {
            operand(slot).and_then(Operand::as_register) == Some(register)
        }
        AliasCondition::Immediate(slot, value) => operand(slot) == Some(&Operand::Immediate(value)),
        AliasCondition::PowerOfTwo(slot) => matches!(
            operand(slot),
            Some(Operand::Immediate(value))
                if value.is_power_of_two() && *value > 1 && *value < 1 << 31 && *value != 1 << 16
        ),
        AliasCondition::Class(slot, class) => operand(slot)
            .and_then(Operand::as_register)
            .is_some_and(|register| register.class == class),
        AliasCondition::AnyImmediate(slot) => {
            matches!(operand(slot), Some(Operand::Immediate(_)))
        }
        AliasCondition::AnyConstant(slot) => matches!(
            operand(slot),
            Some(Operand::Constant(constant)) if matches!(constant.bank, ConstantBank::Index(_))
        ),
        AliasCondition::NotUniform(slot) => match operand(slot) {
            Some(Operand::Register(operand)) => !matches!(
                operand.register.class,
                RegisterClass::UR | RegisterClass::UP
            ),
            Some(Operand::Constant(constant)) => {
                matches!(constant.bank, ConstantBank::Index(_))
            }
            _ => true,
        },
    }
}

/// Whether item `index` is left out.
fn omitted(
    items: &[TextItem],
    index: usize,
    instruction: &Instruction,
    row: &Operation,
    exact: bool,
) -> bool {
    let item = &items[index];
    let slot = match item.shown {
        Shown::Slot(slot) => usize::from(slot),
        Shown::Literal(_) => return false,
        Shown::Modifier(index) => {
            let modifier = &row.modifiers[usize::from(index)];
            return modifier
                .value(instruction.mods().get(modifier))
                .is_none_or(|value| !value.printed);
        }
    };
    match item.omission {
        Omission::Never => false,
        Omission::Default => is_default(instruction, slot, row),
        Omission::DefaultOrZero => {
            is_default(instruction, slot, row)
                || !exact && instruction.operands()[slot].as_register() == Some(Register::RZ)
        }
        // nvdisasm prints `P1` for the second carry alone, which reads as the first.
        Omission::DefaultChain if !exact => is_default(instruction, slot, row),
        Omission::DefaultChain => {
            // Chains are as long as the row's items, so this does not follow the input.
            is_default(instruction, slot, row)
                && items
                    .get(index + 1)
                    .is_none_or(|_| omitted(items, index + 1, instruction, row, exact))
        }
    }
}

fn is_default(instruction: &Instruction, slot: usize, row: &Operation) -> bool {
    row.slots[slot].default_operand().as_ref() == Some(&instruction.operands()[slot])
        && !instruction.reuses(slot)
}

fn push_modifier(out: &mut String, modifier: &Modifier, mods: Mods) {
    if let Some(value) = modifier.value(mods.get(modifier))
        && value.printed
    {
        out.push('.');
        out.push_str(value.name);
    }
}

fn push_before(out: &mut String, modifiers: SourceModifiers, complement: char) {
    if modifiers.invert {
        out.push(complement);
    }
    if modifiers.negate {
        out.push('-');
    }
    if modifiers.absolute {
        out.push('|');
    }
}

/// The bar of an absolute value closes before a select that makes a pair of a general register (`|R2|.H0_H0`), and after
/// any other select (`|UR2.H0_H0|`, `|R2.H1|`).
fn push_after(
    out: &mut String,
    modifiers: SourceModifiers,
    reuse: bool,
    place: &Place,
    selects: &[Option<&'static str>],
    general: bool,
) {
    let select = match selects.get(usize::from(modifiers.select)) {
        Some(Some(name)) if !place.select.is_empty() => name,
        _ => "",
    };
    let early = modifiers.absolute && (select.is_empty() || (general && select.len() > 2));
    if early {
        out.push('|');
    }
    if reuse {
        out.push_str(".reuse");
    }
    if !select.is_empty() {
        out.push('.');
        out.push_str(select);
    }
    if modifiers.absolute && !early {
        out.push('|');
    }
}

pub(crate) fn push_register(out: &mut String, register: Register) {
    out.push_str(register.class.prefix());
    if register.is_constant() {
        out.push(match register.class {
            RegisterClass::P | RegisterClass::UP => 'T',
            _ => 'Z',
        });
    } else {
        push_decimal(out, u64::from(register.index));
    }
}

fn push_constant(out: &mut String, constant: &Constant, spaced: bool) {
    match constant.bank {
        ConstantBank::Index(bank) => {
            out.push_str("c[");
            push_hex(out, u64::from(bank));
        }
        ConstantBank::Bindless(register) => {
            out.push_str("cx[");
            push_register(out, register);
        }
    }
    out.push_str(if spaced { "] [" } else { "][" });
    match constant.index {
        // RZ is left out where there is an offset, URZ never is.
        Some(register)
            if !register.is_constant()
                || register.class == RegisterClass::UR
                || constant.offset == 0 =>
        {
            push_register(out, register);
            if constant.offset != 0 {
                out.push('+');
                push_signed_hex(out, i64::from(constant.offset));
            }
        }
        _ => push_signed_hex(out, i64::from(constant.offset)),
    }
    out.push(']');
}

fn push_address(
    out: &mut String,
    address: &Address,
    shape: &AddressPlace,
    row: &Operation,
    mods: Mods,
    exact: bool,
) {
    if let Some(register) = address.descriptor {
        out.push_str("desc[");
        push_register(out, register);
        out.push(']');
        if shape.is_policy() {
            return;
        }
    }
    out.push('[');
    let mut any = false;
    if let (Some(register), Some(base)) = (address.base, shape.base) {
        let scale = base
            .scale
            .map(|index| &row.modifiers[usize::from(index)])
            .filter(|modifier| {
                modifier
                    .value(mods.get(modifier))
                    .is_some_and(|value| value.printed)
            })
            // nvdisasm does not say how RZ is scaled where nothing is added to it but a number.
            .filter(|_| exact || !register.is_constant() || address.uniform.is_some());
        let implied = register.is_constant()
            && address.kind == BaseKind::Plain
            && address.descriptor.is_none()
            && scale.is_none()
            && (address.uniform.is_some() || address.offset != 0);
        if !implied {
            push_register(out, register);
            match address.kind {
                BaseKind::Plain => {}
                BaseKind::Wide => out.push_str(".64"),
                BaseKind::Zero => out.push_str(".U32"),
            }
            if let Some(modifier) = scale {
                push_modifier(out, modifier, mods);
            }
            any = true;
        }
    }
    if let Some(register) = address.uniform
        && !(any && shape.hide_urz && register.is_constant())
    {
        if any {
            out.push('+');
        }
        push_register(out, register);
        any = true;
    }
    if !any && shape.signed_alone {
        push_signed_hex(out, i64::from(address.offset));
    } else if !any {
        // An offset that stands alone is an absolute address: most operations show it without a sign.
        push_hex(out, shape.offset.max() & i64::from(address.offset) as u64);
    } else if address.offset != 0 {
        out.push('+');
        push_signed_hex(out, i64::from(address.offset));
    }
    out.push(']');
}

pub(crate) fn push_decimal(out: &mut String, value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend(digits[at..].iter().map(|digit| char::from(*digit)));
}

pub(crate) fn push_hex(out: &mut String, value: u64) {
    out.push_str("0x");
    let digits = (16 - value.leading_zeros() / 4).max(1);
    for digit in (0..digits).rev() {
        let nibble = (value >> (4 * digit) & 15) as u8;
        out.push(char::from(if nibble < 10 {
            b'0' + nibble
        } else {
            b'a' + nibble - 10
        }));
    }
}

fn push_signed_hex(out: &mut String, value: i64) {
    if value < 0 {
        out.push('-');
    }
    push_hex(out, value.unsigned_abs());
}
