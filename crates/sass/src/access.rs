//! Which registers an instruction reads and writes.

use crate::instruction::{Instruction, Variant};
use crate::operand::{ConstantBank, Operand};
use crate::register::{Register, RegisterClass};
use crate::table::{Access, PlaceKind, Width};
use smallvec::SmallVec;

/// A run of registers that an instruction reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegisterAccess {
    /// The first register; never RZ, PT, URZ or UPT.
    pub register: Register,
    /// How many.
    pub count: u8,
    /// Whether it is read.
    pub reads: bool,
    /// Whether it is written.
    pub writes: bool,
    /// The slot it belongs to; `None` for the guard and for registers the operation touches without naming them.
    pub slot: Option<u8>,
}

/// How many registers each part of an address names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressWidths {
    /// The base register.
    pub base: u8,
    /// The uniform register added to it.
    pub uniform: u8,
    /// The memory descriptor.
    pub descriptor: u8,
}

impl Variant {
    /// How many registers the parts of the address in `slot` name; one each where the slot holds none.
    #[must_use]
    pub fn address_widths(self, slot: usize) -> AddressWidths {
        let PlaceKind::Address(shape) = &self.form().places[slot].kind else {
            return AddressWidths {
                base: 1,
                uniform: 1,
                descriptor: 1,
            };
        };
        // A width written for the slot is that of the address's first register.
        let first = |width: u8| match self.op.row().slots[slot].width {
            Width::Fixed(1) => width,
            _ => self.width(slot),
        };
        AddressWidths {
            base: shape.base.map_or(1, |base| first(base.width)),
            uniform: match shape.base {
                Some(_) => shape.uniform_width,
                None => first(shape.uniform_width),
            },
            descriptor: if shape.tied { 1 } else { 2 },
        }
    }

    /// How many consecutive registers the operand in `slot` names.
    #[must_use]
    pub fn width(self, slot: usize) -> u8 {
        match self.op.row().slots[slot].width {
            Width::Fixed(width) => width,
            Width::Rules(rules) => rules
                .iter()
                .find(|rule| {
                    rule.when.iter().all(|(modifier, values)| {
                        let modifier = &self.op.row().modifiers[usize::from(*modifier)];
                        let value = self.mods.get(modifier);
                        value < 64 && values >> value & 1 == 1
                    })
                })
                .map_or(1, |rule| rule.registers),
        }
    }
}

impl Instruction {
    /// How many registers the parts of the address in `slot` name; one each where the slot holds none.
    #[must_use]
    pub fn address_widths(&self, slot: usize) -> AddressWidths {
        self.variant().address_widths(slot)
    }

    /// How many consecutive registers the operand in `slot` names.
    #[must_use]
    pub fn width(&self, slot: usize) -> u8 {
        self.variant().width(slot)
    }

    /// Every run of registers read or written, guard and implicit ones included, in the order guard, slots, implicit.
    ///
    /// A guarded write is still a write: whether the guard is true is not known here.
    #[must_use]
    pub fn accesses(&self) -> SmallVec<[RegisterAccess; 12]> {
        let row = self.op.row();
        let mut out = SmallVec::new();
        let mut push = |register: Register, count: u8, access: Access, slot: Option<u8>| {
            if !register.is_constant() {
                out.push(RegisterAccess {
                    register,
                    count,
                    reads: access.reads(),
                    writes: access.writes(),
                    slot,
                });
            }
        };
        push(self.guard.predicate, 1, Access::Read, None);
        for (index, (operand, place)) in self.operands.iter().zip(self.form().places).enumerate() {
            let slot = Some(index as u8);
            match (operand, &place.kind) {
                (Operand::Register(operand), _) => {
                    let width = self.width(index);
                    if width > 0 {
                        push(operand.register, width, row.slots[index].access, slot);
                    }
                }
                (Operand::Constant(constant), _) => {
                    if let ConstantBank::Bindless(register) = constant.bank {
                        push(register, 2, Access::Read, slot);
                    }
                    if let Some(register) = constant.index {
                        push(register, 1, Access::Read, slot);
                    }
                }
                (Operand::Address(address), PlaceKind::Address(shape)) => {
                    let widths = self.address_widths(index);
                    if let (Some(register), Some(_)) = (address.base, shape.base) {
                        push(register, widths.base, Access::Read, slot);
                    }
                    if let Some(register) = address.uniform {
                        push(register, widths.uniform, Access::Read, slot);
                    }
                    if let Some(register) = address.descriptor {
                        push(register, widths.descriptor, Access::Read, slot);
                    }
                }
                (Operand::Descriptor(register), PlaceKind::Descriptor { skip, .. }) => {
                    let first = Register::new(register.class, register.index.saturating_add(*skip));
                    push(first, self.width(index), Access::Read, slot);
                }
                _ => {}
            }
        }
        for implicit in row.implicit {
            push(implicit.register, implicit.count, implicit.access, None);
        }
        out
    }

    /// The runs of registers read.
    pub fn reads(&self) -> impl Iterator<Item = RegisterAccess> {
        self.accesses().into_iter().filter(|access| access.reads)
    }

    /// The runs of registers written.
    pub fn writes(&self) -> impl Iterator<Item = RegisterAccess> {
        self.accesses().into_iter().filter(|access| access.writes)
    }

    /// Whether `register` is among those written.
    #[must_use]
    pub fn writes_register(&self, register: Register) -> bool {
        self.writes().any(|access| access.contains(register))
    }
}

impl RegisterAccess {
    /// The class of the run.
    #[must_use]
    pub const fn class(&self) -> RegisterClass {
        self.register.class
    }

    /// Whether `register` is in the run.
    #[must_use]
    pub fn contains(&self, register: Register) -> bool {
        register.class == self.register.class
            && register.index >= self.register.index
            && u16::from(register.index) < u16::from(self.register.index) + u16::from(self.count)
    }

    /// The registers of the run that exist.
    pub fn registers(self) -> impl Iterator<Item = Register> {
        let first = u16::from(self.register.index);
        let class = self.register.class;
        (first..first + u16::from(self.count))
            .filter_map(|index| u8::try_from(index).ok())
            .map(move |index| Register::new(class, index))
            .filter(|register| register.exists() && !register.is_constant())
    }
}
