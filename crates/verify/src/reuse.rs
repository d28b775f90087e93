//! The operand reuse cache: an operand marked for reuse is kept for later instructions that read the same register in the
//! same position.
//!
//! Each position has an entry for each register bank (even and odd registers). An instruction that reads a register in a
//! position takes it from the entry if it is there, and leaves it there if it is marked; an unmarked read frees the entries of
//! its banks. Operands of several registers take part with each of them. What is kept is the value, so an entry whose register
//! has been written since must not be read. Entries are taken to live until another read of their position and bank, through
//! everything that is not a taken branch: longer than the chip keeps them. (On the chip, `@P0 PRMT R0, R2, 0x6240, R5.reuse` spoils
//! the address of an IMAD.WIDE six instructions later, and `@P0 VIADD R5, R5.reuse, 0x7` the instruction after it although a
//! block starts there.)

use crate::finding::{Check, Finding};
use crate::judge::text;
use crate::program::{Program, WORD};
use orias_sass::{Effects, Instruction, Operand, Register, RegisterClass};

/// The first reuse bit of a word.
const FIRST_BIT: u8 = 122;

/// A register that is kept.
#[derive(Clone, Copy)]
struct Kept {
    register: u8,
    /// Which instruction read it.
    by: usize,
    /// Which instruction has written the register since.
    overwritten: Option<usize>,
}

/// What is kept of one position: wide operands keep several registers of a bank.
type Entries = Vec<Kept>;

/// Reads of kept operands whose registers have changed.
pub(crate) fn stale(program: &Program) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut kept: [Entries; 4] = Default::default();
    for (index, instruction) in program.instructions.iter().enumerate() {
        for (position, first, width) in positions(instruction) {
            let entries = &mut kept[position];
            let registers = first.index..first.index.saturating_add(width);
            let read = |entry: &&Kept| registers.contains(&entry.register);
            if let Some((entry, writer)) =
                (entries.iter().filter(read)).find_map(|entry| Some((entry, entry.overwritten?)))
            {
                findings.push(Finding {
                    check: Check::Reuse,
                    function: program.name.clone(),
                    offset: index * WORD,
                    instruction: text(program, index),
                    earlier: Some((entry.by * WORD, text(program, entry.by))),
                    register: Some(Register::new(RegisterClass::R, entry.register)),
                    needed: "an operand that was not kept before its register changed".to_owned(),
                    found: format!("a write at {:#06x}", writer * WORD),
                });
            }
            entries.retain(|entry| width == 1 && entry.register & 1 != first.index & 1);
            if instruction.control.reuse() >> position & 1 == 1 {
                entries.extend(registers.map(|register| Kept {
                    register,
                    by: index,
                    overwritten: None,
                }));
            }
        }
        if leaves(instruction) {
            kept.iter_mut().for_each(Entries::clear);
        }
        // Most instructions have nothing kept around them: only the others pay for their writes.
        if kept.iter().all(Entries::is_empty) {
            continue;
        }
        for write in instruction.writes() {
            for entry in kept.iter_mut().flatten() {
                if write.contains(Register::new(RegisterClass::R, entry.register)) {
                    entry.overwritten.get_or_insert(index);
                }
            }
        }
    }
    findings
}

/// Whether what follows in the code is not what follows in time.
fn leaves(instruction: &Instruction) -> bool {
    instruction.op().row().effects.contains(Effects::TERMINATOR) && instruction.guard().is_always()
}

/// The registers an instruction reads in positions that have a reuse flag.
fn positions(instruction: &Instruction) -> impl Iterator<Item = (usize, Register, u8)> + use<'_> {
    let places = instruction.form().places;
    (instruction.operands().iter().zip(places).enumerate()).filter_map(
        |(slot, (operand, place))| {
            let Operand::Register(operand) = operand else {
                return None;
            };
            let general = operand.register.class == RegisterClass::R;
            (place.reuse.exists() && general && !operand.register.is_constant()).then(|| {
                let position = usize::from(place.reuse.0 - FIRST_BIT);
                (position, operand.register, instruction.width(slot))
            })
        },
    )
}
