//! BalancePipes (10060): pipe balancing, a late choice between forms that the logic (ALU) and the multiplier (FMA) do alike.
//!
//! Each of the two takes an integer instruction of a warp every second cycle, so a block that leaves everything to one of them runs at half the rate of issue, however many warps there are.
//! Moves, sums of two, shifts to the left and carries have a form for each ([`forms`]). Selection and the allocator choose forms by what they compute; here, on physical registers and
//! before the last order is made, the choice is made again by what each unit has to do.
//!
//! **By the machine's clock.** A block of `n` issue slots in which the logic is kept for `a` cycles and the multiplier for `f` takes at least `max(n, a, f)` cycles for each warp that
//! takes turns. Instructions go from the busier unit to the other
//!
//! 1. while the busier one decides (it is kept for longer than there are slots, and than the other would be), whatever that costs a chain,
//! 2. then while the busier one stays the busier one, if no chain gets longer by it.
//!
//! A result is there a cycle later for the other unit than for its own. An instruction's *price* is by how many cycles its ways from its producers and to its consumers in the block get
//! longer in sum; the cheapest goes first, of equals every so-many-th of the block, so that both units find work everywhere. Blocks that hardly ever run stay as they are.
//!
//! Blocks are looked at one by one. Linear in operands, and sorting the instructions that have another form.

mod forms;

use crate::pipeline::{Context, PhaseError};
use orias_machine::Machine;
use orias_machine::issue::Unit;
use orias_ori::analysis::Frequencies;
use orias_ori::builder::Cursor;
use orias_ori::{Block, Class, Function, Inst, Reg};

/// Runs the phase.
pub fn balance_pipes(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let frequencies = Frequencies::of(func);
    let blocks: Vec<Block> = func.blocks().collect();
    let mut books = Books::default();
    for block in blocks {
        if frequencies.is_cold(block) {
            continue;
        }
        let moved = books.choose(func, context.machine, block);
        for inst in moved {
            replace(func, inst)?;
        }
    }
    Ok(())
}

/// What has another form.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    inst: Inst,
    /// Its ways to neighbours of its own unit, less those to the other one.
    price: i32,
}

/// Who wrote a register last, in the block of this number.
#[derive(Clone, Copy, Debug, Default)]
struct Writer {
    block: u32,
    /// Its unit.
    unit: Option<Unit>,
    /// The candidate it is, plus one.
    candidate: u32,
}

/// What is kept from one block to the next.
#[derive(Debug, Default)]
struct Books {
    /// By general register.
    writers: Vec<Writer>,
    /// The number of the block.
    block: u32,
}

/// One of the two units.
fn is_balanced(unit: Unit) -> bool {
    matches!(unit, Unit::Alu | Unit::Fma)
}

impl Books {
    /// The instructions of a block that go to the other unit.
    fn choose(&mut self, func: &Function, machine: &Machine, block: Block) -> Vec<Inst> {
        self.block += 1;
        let (mut slots, mut alu, mut fma) = (0, 0, 0);
        for inst in func.block_insts(block) {
            let Some(op) = func.opcode(inst).as_machine() else {
                continue;
            };
            let issue = machine.issue_of_operation(op);
            slots += u32::from(issue.least_stall);
            for &(unit, cycles) in issue.keeps {
                match unit {
                    Unit::Alu => alu += u32::from(cycles),
                    Unit::Fma => fma += u32::from(cycles),
                    _ => {}
                }
            }
        }
        let (busy, other, from) = match alu >= fma {
            true => (alu, fma, Unit::Alu),
            false => (fma, alu, Unit::Fma),
        };
        let cycles = keeps(machine, from);
        // So many may go before the other one is the busier, and so many must before neither decides.
        let most = ((busy - other) / (2 * cycles)) as usize;
        if most == 0 {
            return Vec::new();
        }
        let needed = (busy.saturating_sub(slots).div_ceil(cycles) as usize).min(most);
        let mut candidates = self.candidates(func, machine, block, from);
        candidates.sort_by_key(|candidate| candidate.price);
        let mut moved = Vec::new();
        for group in candidates.chunk_by(|a, b| a.price == b.price) {
            let wanted = if group[0].price > 0 { needed } else { most };
            let count = wanted.saturating_sub(moved.len()).min(group.len());
            moved.extend((0..count).map(|at| group[at * group.len() / count].inst));
        }
        moved
    }

    /// The instructions of a unit that have another form, in the order of the block.
    fn candidates(
        &mut self,
        func: &Function,
        machine: &Machine,
        block: Block,
        from: Unit,
    ) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = Vec::new();
        for inst in func.block_insts(block) {
            let Some(op) = func.opcode(inst).as_machine() else {
                continue;
            };
            let unit = machine.issue_of_operation(op).unit;
            let has_other = unit == from
                && !func.has_implicit_registers(inst)
                && forms::other(func, inst).is_some();
            let number = if has_other {
                found.push(Candidate { inst, price: 0 });
                found.len()
            } else {
                0
            };
            func.for_each_use(inst, |reg| {
                let Some(writer) = self.writer(reg) else {
                    return;
                };
                if writer.block != self.block {
                    return;
                }
                let toll = |other: Option<Unit>| match other {
                    Some(other) if other == from => 1,
                    Some(other) if is_balanced(other) => -1,
                    _ => 0,
                };
                let (theirs, earlier) = (writer.unit, writer.candidate as usize);
                if number > 0 {
                    found[number - 1].price += toll(theirs);
                }
                if earlier > 0 {
                    found[earlier - 1].price += toll(Some(unit));
                }
            });
            let block = self.block;
            func.for_each_def(inst, |reg| {
                for at in registers(reg) {
                    if self.writers.len() <= at {
                        self.writers.resize(at + 1, Writer::default());
                    }
                    self.writers[at] = Writer {
                        block,
                        unit: Some(unit),
                        candidate: number as u32,
                    };
                }
            });
        }
        found
    }

    /// Who wrote the first register of an operand last.
    fn writer(&self, reg: Reg) -> Option<Writer> {
        self.writers.get(registers(reg).next()?).copied()
    }
}

/// The numbers of the general registers of an operand.
fn registers(reg: Reg) -> impl Iterator<Item = usize> {
    let general = reg
        .phys()
        .filter(|reg| reg.class() == Class::R && !reg.is_constant());
    (general.into_iter()).flat_map(|reg| reg.units().map(|unit| usize::from(unit.index())))
}

/// How long an integer instruction keeps one of the two units.
fn keeps(machine: &Machine, unit: Unit) -> u32 {
    let op = match unit {
        Unit::Fma => orias_sass::Op::IMAD,
        _ => orias_sass::Op::IADD3,
    };
    let issue = machine.issue_of_operation(op);
    let kept = issue.keeps.iter().find(|(kept, _)| *kept == unit);
    kept.map_or(1, |&(_, cycles)| u32::from(cycles)).max(1)
}

/// Puts the other form of an instruction in its place.
fn replace(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let Some(form) = forms::other(func, inst) else {
        return Ok(());
    };
    let guard = func.inst(inst).guard();
    let mut at = Cursor::before(func, inst);
    let mut made = at.build(form.op).guard(guard).operands(form.operands);
    for (name, value) in form.mods {
        made = made.modifier(name, value);
    }
    made.finish().map_err(|error| PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    })?;
    func.remove_inst(inst);
    Ok(())
}
