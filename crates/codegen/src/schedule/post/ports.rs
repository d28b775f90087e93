//! What an instruction asks of the register file: banks, the operand cache, and the registers it touches.
//!
//! General registers lie in two banks, even and odd. An instruction reads two registers of a bank in the cycle it is given; a third
//! costs one more. The operand cache has an entry for each of the three (in some forms four) positions a source can have: what an
//! instruction of fixed latency read there stays until another one reads a different register in that position, the register is
//! written, or the warp is held back. A source that is found there takes no read of the bank. Tuples are read over several cycles and
//! are not counted.

use orias_machine::timing::{self, Completion};
use orias_ori::{Class, Function, Inst, Operand, PhysReg, machine};
use orias_sass::{EncodeError, RegisterClass, Target};
use smallvec::SmallVec;

/// The positions a source can have.
pub(super) const POSITIONS: usize = 4;

/// The reuse bit of the first position.
const FIRST_REUSE_BIT: u8 = 122;

/// Reads of a bank that cost nothing.
const READS_OF_A_BANK: u8 = 2;

/// Behind a longer stall the operand cache is lost.
pub(super) const CACHE_LASTS: u32 = 2;

/// Physical registers of all files, in a row.
pub(super) const PLACES: usize = 256 + 8 + 64 + 8 + 16;

/// The number of a register among [`PLACES`].
fn place(class: RegisterClass, index: u8) -> u16 {
    let base = match class {
        RegisterClass::R => 0,
        RegisterClass::P => 256,
        RegisterClass::UR => 264,
        RegisterClass::UP => 328,
        RegisterClass::B => 336,
    };
    base + u16::from(index)
}

/// What one instruction asks for.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    /// The general register read in each position.
    pub(super) sources: [Option<PhysReg>; POSITIONS],
    /// Whether its sources go through the operand cache.
    pub(super) caches: bool,
    /// The registers it reads.
    pub(super) reads: SmallVec<[u16; 8]>,
    /// The registers it writes.
    pub(super) writes: SmallVec<[u16; 4]>,
}

impl Ports {
    /// Those of `inst`; nothing for what is no instruction.
    pub(super) fn of(func: &Function, inst: Inst, target: Target) -> Result<Ports, EncodeError> {
        let Some(instruction) = machine::placeless(func, inst, target) else {
            return Ok(Ports::default());
        };
        let instruction = instruction?;
        let mut ports = Ports::default();
        for access in instruction.accesses() {
            for register in access.registers() {
                let place = place(register.class, register.index);
                if access.reads {
                    ports.reads.push(place);
                }
                if access.writes {
                    ports.writes.push(place);
                }
            }
        }
        ports.caches = timing::of(instruction.op())
            .is_some_and(|timing| timing.completion == Completion::Fixed);
        for (slot, form) in instruction.form().places.iter().enumerate() {
            let Operand::Reg { reg, .. } = func.operands(inst)[slot] else {
                continue;
            };
            let Some(reg) = reg.phys() else { continue };
            if form.reuse.exists() && reg.class() == Class::R && !reg.is_constant() {
                let position = usize::from(form.reuse.0 - FIRST_REUSE_BIT);
                if let Some(source) = ports.sources.get_mut(position) {
                    *source = Some(reg);
                }
            }
        }
        Ok(ports)
    }
}

/// The operand cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OperandCache([Option<PhysReg>; POSITIONS]);

impl OperandCache {
    /// How many sources are found.
    pub(super) fn hits(&self, ports: &Ports) -> u8 {
        if !ports.caches {
            return 0;
        }
        let pairs = self.0.iter().zip(&ports.sources);
        pairs
            .filter(|(kept, source)| source.is_some() && kept == source)
            .count() as u8
    }

    /// Cycles that reading the sources takes besides the one every instruction has.
    pub(super) fn conflicts(&self, ports: &Ports) -> u8 {
        if !ports.caches {
            return 0;
        }
        let mut banks = [0u8; 2];
        let mut seen: SmallVec<[u8; POSITIONS]> = SmallVec::new();
        for (kept, source) in self.0.iter().zip(&ports.sources) {
            let Some(reg) = source.filter(|reg| reg.len() == 1) else {
                continue;
            };
            if *kept != Some(reg) && !seen.contains(&reg.index()) {
                seen.push(reg.index());
                banks[usize::from(reg.index() & 1)] += 1;
            }
        }
        banks[0].max(banks[1]).saturating_sub(READS_OF_A_BANK)
    }

    /// The instruction issues.
    pub(super) fn issue(&mut self, ports: &Ports) {
        if !ports.caches {
            *self = OperandCache::default();
            return;
        }
        for (kept, source) in self.0.iter_mut().zip(&ports.sources) {
            if source.is_some() {
                *kept = *source;
            }
            let written = kept.is_some_and(|reg| {
                let first = u16::from(reg.index());
                let units = first..first + u16::from(reg.len());
                ports.writes.iter().any(|place| units.contains(place))
            });
            if written {
                *kept = None;
            }
        }
    }
}
