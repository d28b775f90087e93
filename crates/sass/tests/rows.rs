//! Every row of the tables through encoder, decoder, printer and parser.

use orias_random::Rng;
use orias_sass::text::{Printer, parse_instruction};
use orias_sass::{
    Address, Constant, ConstantBank, Control, Field, Form, Guard, GuardRule, Instruction, Mods, Op,
    Operand, Operation, Place, PlaceKind, Register, RegisterClass, RegisterOperand,
    SourceModifiers, Target, decode, encode,
};

/// Draws operands: the same instructions in every run.
struct Random(Rng);

impl Random {
    fn new(seed: u64) -> Random {
        Random(Rng::new(seed))
    }

    fn flip(&mut self) -> bool {
        self.0.one_in(2)
    }

    fn register(&mut self, class: RegisterClass, field: Field) -> Register {
        let index = match self.0.below(4) {
            0 => class.constant_index().unwrap_or(0),
            _ => self.0.below(1 << class.bits()) as u8,
        };
        Register::new(class, index.min(field.max() as u8))
    }

    fn signed(&mut self, field: Field) -> i64 {
        if field.is_empty() || self.0.below(3) == 0 {
            return 0;
        }
        let shift = 64 - u32::from(field.len());
        ((self.0.next_u64() << shift) as i64) >> shift
    }

    fn modifiers(&mut self, place: &Place, selects: &[Option<&str>]) -> SourceModifiers {
        let select = if place.select.is_empty() {
            0
        } else {
            let named: Vec<usize> = (0..selects.len())
                .filter(|index| selects[*index].is_some())
                .collect();
            *self.0.pick(&named) as u8
        };
        SourceModifiers {
            negate: place.negate.exists() && self.flip(),
            absolute: place.absolute.exists() && self.flip(),
            invert: place.invert.exists() && self.flip(),
            select,
        }
    }

    fn operand(&mut self, place: &Place, selects: &[Option<&str>]) -> Operand {
        match &place.kind {
            PlaceKind::Register { class, field, .. } => Operand::Register(RegisterOperand {
                register: if place.named {
                    Register::new(*class, 1)
                } else {
                    self.register(*class, *field)
                },
                modifiers: self.modifiers(place, selects),
            }),
            PlaceKind::Immediate { field, format } => {
                let value = self.0.next_u64() & field.max();
                Operand::Immediate(if format.exists(value) { value } else { 0 })
            }
            PlaceKind::Constant(shape) => Operand::Constant(Constant {
                bank: match shape.handle {
                    Some(field) => ConstantBank::Bindless(self.register(RegisterClass::UR, field)),
                    None => ConstantBank::Index((self.0.next_u64() & shape.bank.max()) as u8),
                },
                index: shape
                    .index
                    .map(|(class, field)| self.register(class, field)),
                offset: i32::from(shape.scale)
                    * if shape.signed {
                        self.signed(shape.offset) as i32
                    } else {
                        (self.0.next_u64() & shape.offset.max()) as i32
                    },
                modifiers: self.modifiers(place, selects),
            }),
            PlaceKind::Address(shape) => Operand::Address(Address {
                base: shape.base.map(|base| match place.named {
                    true => Register::new(base.class, 2),
                    false => self.register(base.class, base.field),
                }),
                kind: shape
                    .base
                    .map_or(orias_sass::BaseKind::Plain, |base| base.kind),
                uniform: shape
                    .uniform
                    .map(|field| self.register(RegisterClass::UR, field)),
                descriptor: shape
                    .descriptor
                    .map(|field| self.register(RegisterClass::UR, field)),
                offset: self.signed(shape.offset) as i32,
            }),
            PlaceKind::Descriptor { field, .. } => {
                Operand::Descriptor(self.register(RegisterClass::UR, *field))
            }
            PlaceKind::Target {
                field,
                scale,
                absolute: true,
                ..
            } => Operand::Target((self.0.next_u64() & field.max()) as i64 * i64::from(*scale)),
            PlaceKind::Target { field, scale, .. } => {
                // Addresses are 64-bit: a distance near the field's limits has no address to print.
                let distance = self.signed(*field) >> 8;
                Operand::Target(distance * i64::from(*scale))
            }
            PlaceKind::Special { .. } => Operand::Special(self.0.next_u64() as u8),
        }
    }
}

/// Gives descriptors without a field of their own the register they are tied to.
fn tie(form: &Form, operands: &mut [Operand]) {
    for at in 0..operands.len() {
        let PlaceKind::Address(shape) = &form.places[at].kind else {
            continue;
        };
        if !shape.tied {
            continue;
        }
        let uniform = operands
            .iter()
            .zip(form.places)
            .find_map(|(operand, place)| match (operand, &place.kind) {
                (Operand::Address(other), PlaceKind::Address(at))
                    if at.uniform == shape.descriptor =>
                {
                    other.uniform
                }
                _ => None,
            });
        if let Operand::Address(address) = &mut operands[at] {
            address.descriptor = uniform.map(Register::after);
        }
    }
}

/// Modifiers at their first values, or at those the form fixes.
fn base_mods(row: &Operation, form: &Form) -> Option<Mods> {
    let mut mods = Mods::ZERO;
    for modifier in row.modifiers {
        let value = modifier
            .values
            .iter()
            .find(|value| agrees(modifier, value.value, form))?;
        mods = mods.with(modifier, value.value);
    }
    Some(mods)
}

fn agrees(modifier: &orias_sass::Modifier, value: u16, form: &Form) -> bool {
    let fixed = modifier.field.put(u64::MAX) & form.fixed_mask;
    (modifier.field.put(u64::from(value)) ^ form.fixed_value) & fixed == 0
}

fn guard(row: &Operation, random: &mut Random) -> Guard {
    let class = match row.guard {
        GuardRule::Predicate => RegisterClass::P,
        GuardRule::Uniform => RegisterClass::UP,
        GuardRule::None => return Guard::ALWAYS,
    };
    Guard {
        predicate: Register::new(class, random.0.below(8) as u8),
        negated: random.flip(),
    }
}

/// Instructions for every form, with every modifier value in turn.
fn instructions(op: Op, target: Target, random: &mut Random) -> Vec<Instruction> {
    let row = op.row();
    let mut made = Vec::new();
    for form in row
        .forms
        .iter()
        .filter(|form| form.targets.contains(target))
    {
        let base =
            base_mods(row, form).unwrap_or_else(|| panic!("{op}: no modifier values fit a form"));
        let mut variants = vec![base];
        for modifier in row.modifiers {
            for value in modifier.values {
                if agrees(modifier, value.value, form) {
                    variants.push(base.with(modifier, value.value));
                }
            }
        }
        for mods in variants {
            let mut operands: Vec<Operand> = row
                .slots
                .iter()
                .zip(form.places)
                .map(|(slot, place)| random.operand(place, slot.selects))
                .collect();
            tie(form, &mut operands);
            let mut instruction = Instruction::new(op, guard(row, random), mods, operands, target)
                .unwrap_or_else(|error| panic!("{op}: {error}"));
            // A control field with a stall of 2 and the group kept, so that reuse flags are legal.
            let mut reuse = 0;
            for place in instruction.form().places {
                if place.reuse.exists() && random.flip() {
                    reuse |= 1 << (place.reuse.0 - 122);
                }
            }
            let mut control = Control::default();
            control.yields = true;
            control = control.with_stall(2).expect("2 is a stall");
            instruction.control = control.with_reuse(reuse).expect("four flags");
            made.push(instruction);
        }
    }
    made
}

#[test]
fn every_row_encodes_decodes_prints_and_parses_back() {
    let mut random = Random::new(0x0123_4567_89ab_cdef);
    let mut failures = Vec::new();
    for target in Target::ALL {
        for op in Op::all() {
            for instruction in instructions(op, target, &mut random) {
                let word = encode(&instruction).unwrap_or_else(|error| panic!("{op}: {error}"));
                let mut text = instruction.control.to_string();
                text.push(' ');
                Printer { exact: true }.write(&mut text, &instruction, 0x1000, |_| None);
                match decode(word, target) {
                    Ok(back) if encode(&back) != Ok(word) => {
                        failures.push(format!(
                            "{op}: {word:032x} encodes to another word ({text})"
                        ));
                    }
                    Ok(back) if back != instruction => {
                        failures.push(format!(
                            "{op}: {word:032x} ({text}) decodes as {} with {:?}",
                            back.op(),
                            back.operands()
                        ));
                    }
                    Ok(_) => {}
                    Err(error) => failures.push(format!("{op}: {word:032x} ({text}): {error}")),
                }
                match parse_instruction(&text, 0x1000, target) {
                    Ok(parsed) => {
                        let again = encode(&parsed.instruction);
                        if again != Ok(word) {
                            failures.push(format!(
                                "{op}: '{text}' is {word:032x} but parses to {again:032x?}"
                            ));
                        }
                    }
                    Err(error) => failures.push(format!("{op}: '{text}': {error}")),
                }
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures, the first:\n{}",
        failures.len(),
        failures[..failures.len().min(40)].join("\n")
    );
}

#[test]
fn a_flipped_bit_decodes_to_what_encodes_back_or_is_refused() {
    let mut random = Random::new(0xfeed_beef_1234_5678);
    for op in Op::all() {
        let target = Target::Sm90a;
        for instruction in instructions(op, target, &mut random).into_iter().take(8) {
            let word = encode(&instruction).unwrap_or_else(|error| panic!("{op}: {error}"));
            for bit in 0..128 {
                let flipped = word ^ 1 << bit;
                if let Ok(other) = decode(flipped, target) {
                    assert_eq!(
                        encode(&other),
                        Ok(flipped),
                        "{op}: bit {bit} of {word:032x}"
                    );
                }
            }
        }
    }
}

#[test]
fn random_words_decode_to_what_encodes_back_or_are_refused() {
    let mut random = Random::new(0x5555_aaaa_3333_cccc);
    let mut decoded = 0;
    for round in 0..200_000u32 {
        let mut word = random.0.next_u128();
        if round % 2 == 0 {
            // Sparse words hit more instructions than dense ones.
            word &= random.0.next_u128();
            word &= random.0.next_u128();
        }
        if let Ok(instruction) = decode(word, Target::Sm90a) {
            decoded += 1;
            assert_eq!(encode(&instruction), Ok(word), "{word:032x}");
        }
    }
    assert!(
        decoded > 0,
        "no random word decoded: the test shows nothing"
    );
}

#[test]
fn tables_and_code_name_the_same_targets() {
    for target in Target::ALL {
        assert_eq!(Target::from_name(target.name()), Some(target));
        assert!(Op::IADD3.exists_on(target));
    }
}
