//! The operand reuse cache: an operand marked for reuse is kept for later instructions that read the same register in the
//! same position.
//!
//! Each position has an entry for each of the two register banks. An instruction that reads a register in a position takes
//! it from the entry if it is there, and leaves it there if it is marked; an unmarked read frees the entry of its bank. What
//! is kept is the value, so an entry whose register has been written since must not be read. Entries are taken to live until
//! another read of their position and bank, or the end of the block: longer than the chip keeps them.

use crate::finding::{Check, Finding};
use crate::judge::text;
use crate::program::{Program, WORD};
use orias_sass::{Instruction, Operand, Register, RegisterClass};

/// The first reuse bit of a word.
const FIRST_BIT: u8 = 122;

/// An operand that is kept.
#[derive(Clone, Copy)]
struct Kept {
    register: Register,
    width: u8,
    /// Which instruction read it.
    by: usize,
    /// Which instruction has written the register since.
    overwritten: Option<usize>,
}

/// Reads of kept operands whose registers have changed.
pub(crate) fn stale(program: &Program) -> Vec<Finding> {
    let mut findings = Vec::new();
    for block in &program.blocks {
        let mut kept: [[Option<Kept>; 2]; 4] = [[None; 2]; 4];
        for index in block.start..block.end {
            let instruction = &program.instructions[index];
            for (position, register, width) in positions(instruction) {
                let entry = &mut kept[position][usize::from(register.index & 1)];
                if let Some(known) = *entry
                    && known.register == register
                    && let Some(writer) = known.overwritten
                {
                    findings.push(Finding {
                        check: Check::Reuse,
                        function: program.name.clone(),
                        offset: index * WORD,
                        instruction: text(program, index),
                        earlier: Some((known.by * WORD, text(program, known.by))),
                        register: Some(register),
                        needed: "an operand that was not kept before its register changed"
                            .to_owned(),
                        found: format!("a write at {:#06x}", writer * WORD),
                    });
                }
                let marked = instruction.control.reuse() >> position & 1 == 1;
                *entry = marked.then_some(Kept {
                    register,
                    width,
                    by: index,
                    overwritten: None,
                });
            }
            // Most instructions keep nothing: only those that do pay for their writes.
            if kept.iter().flatten().all(Option::is_none) {
                continue;
            }
            for write in instruction.writes() {
                for entry in kept.iter_mut().flatten().flatten() {
                    let last = u16::from(entry.register.index) + u16::from(entry.width);
                    let hit = write.register.class == RegisterClass::R
                        && u16::from(write.register.index) < last
                        && u16::from(write.register.index) + u16::from(write.count)
                            > u16::from(entry.register.index);
                    if hit {
                        entry.overwritten.get_or_insert(index);
                    }
                }
            }
        }
    }
    findings
}

/// The registers an instruction reads in positions that have a reuse flag.
fn positions(instruction: &Instruction) -> impl Iterator<Item = (usize, Register, u8)> + use<'_> {
    let places = instruction.form().places;
    (instruction.operands().iter().zip(places).enumerate()).filter_map(
        |(slot, (operand, place))| {
            let Operand::Register(operand) = operand else {
                return None;
            };
            (place.reuse.exists() && operand.register.class == RegisterClass::R)
                .then(|| {
                    let position = usize::from(place.reuse.0 - FIRST_BIT);
                    (position, operand.register, instruction.width(slot))
                })
                .filter(|(_, register, _)| !register.is_constant())
        },
    )
}
