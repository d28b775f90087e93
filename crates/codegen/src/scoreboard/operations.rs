//! What is known of an operation in a function, whatever its operands: worked out when the operation is first met.

use super::ScoreboardError;
use super::facts::{Arrives, EventKind, Fact};
use cranelift_entity::packed_option::ReservedValue as _;
use orias_machine::Machine;
use orias_machine::issue::{OrderToken, Role};
use orias_machine::timing::{self, Arrival, Completion, Place, UseGroup};
use orias_ori::{Function, Inst};
use orias_sass::{Mods, Op, RegisterClass};
use smallvec::SmallVec;

/// How many instructions a function has, and the tokens that they may give, as bits.
pub(super) fn count(func: &Function, machine: &Machine) -> (usize, u8) {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let ops = insts.filter_map(|inst| func.opcode(inst).as_machine());
    let mut met = vec![false; Op::COUNT];
    ops.fold((0, 0), |(count, given), op| {
        let gives = match std::mem::replace(&mut met[op.index()], true) {
            true => 0,
            false => machine.gives(op),
        };
        (count + 1, given | gives)
    })
}

/// What is known of an operation in a function, whatever its operands.
pub(super) struct OperationFacts {
    machine: &'static Machine,
    pub(super) op: Op,
    /// All of a fact that does not depend on operands.
    pub(super) fact: Fact,
    /// Whether operands may tell all there is to know of an instruction.
    pub(super) plain: bool,
    /// The tokens it has to do with; none where modifiers decide.
    pub(super) tokens: Option<SmallVec<[(OrderToken, Role); 2]>>,
    /// The tokens that an instruction of the function gives, as bits.
    given: u8,
    /// Whether it needs tokens that nobody gives: units that read late say so at the end of their block, by whatever they read.
    reads_slowly: bool,
    /// Whether some registers may be read some time after issue.
    pub(super) reads_late: bool,
    /// Whether uniform ones are.
    pub(super) reads_uniform_late: bool,
    /// By the modifiers it had last.
    told: Told,
}

/// A register of an operand, as timing tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) at: Place,
    pub(super) class: RegisterClass,
    pub(super) offset: u8,
}

/// What timing says of the operands of an operation with these modifiers, as far as it has been asked.
#[derive(Clone, Debug)]
struct Told {
    mods: Mods,
    uses: SmallVec<[(Part, UseGroup); 4]>,
    results: SmallVec<[(Part, Arrives); 2]>,
}

impl OperationFacts {
    /// How a source is read.
    pub(super) fn used(&mut self, part: Part, mods: Mods) -> Result<UseGroup, ScoreboardError> {
        let (machine, op) = (self.machine, self.op);
        let uses = &mut self.told(mods).uses;
        if let Some((_, used)) = uses.iter().find(|(known, _)| *known == part) {
            return Ok(*used);
        }
        let used = machine.use_group(&timing::Use {
            op,
            mods,
            place: part.at,
            class: part.class,
            offset: part.offset,
        });
        let used = used.ok_or(ScoreboardError::Timing { op })?;
        uses.push((part, used));
        Ok(used)
    }

    /// When a result is there.
    pub(super) fn arrives(&mut self, part: Part, mods: Mods) -> Result<Arrives, ScoreboardError> {
        let (machine, op) = (self.machine, self.op);
        let results = &mut self.told(mods).results;
        if let Some((_, arrives)) = results.iter().find(|(known, _)| *known == part) {
            return Ok(*arrives);
        }
        let arrival = machine.arrival(&timing::Result {
            op,
            mods,
            place: part.at,
            class: part.class,
            offset: part.offset,
        });
        let arrives = match arrival.ok_or(ScoreboardError::Timing { op })? {
            Arrival::Fixed(group) => Arrives::Fixed(group),
            Arrival::WriteBarrier => Arrives::Barrier(EventKind::Written),
            Arrival::ReadBarrier => Arrives::Barrier(EventKind::Released),
            Arrival::WarpGroup => Arrives::Elsewhere,
        };
        results.push((part, arrives));
        Ok(arrives)
    }

    fn told(&mut self, mods: Mods) -> &mut Told {
        let told = &mut self.told;
        if told.mods != mods {
            told.mods = mods;
            told.uses.clear();
            told.results.clear();
        }
        told
    }

    fn new(
        machine: &'static Machine,
        op: Op,
        given: u8,
    ) -> Result<OperationFacts, ScoreboardError> {
        let timing = machine.timing(op).ok_or(ScoreboardError::Timing { op })?;
        let issue = machine.issue_of_operation(op);
        let typical = timing.typical;
        let typical = typical.map_or(0, |typical| i32::from(typical.cycles));
        let special = !op.row().implicit.is_empty()
            || machine.tokens_of_operation(op).is_none()
            || machine.is_warpgroup_matrix(op)
            || matches!(op, Op::DEPBAR | Op::DEPBAR_LE);
        let mut facts = OperationFacts {
            machine,
            op,
            fact: Fact {
                inst: Inst::reserved_value(),
                op,
                reads: 0..0,
                late: 0..0,
                writes: 0..0,
                completion: timing.completion,
                memory_queue: timing.reads_in_order,
                guarded: false,
                alone: machine.needs_nothing_in_flight(op),
                counts_copies: matches!(op, Op::LDGDEPBAR | Op::UTMACMDFLUSH),
                settles: timing.settles,
                texture: timing.texture,
                issue,
                typical,
                release: if op == Op::LDGSTS {
                    // Asynchronous copies say so late, when memory is busy as late as their data is there.
                    typical
                } else {
                    i32::from(machine.limits.source_released)
                },
            },
            plain: !special,
            tokens: None,
            given,
            reads_slowly: machine.read_to_write(issue.unit) > 1,
            reads_late: timing.completion != Completion::Group,
            reads_uniform_late: machine.reads_uniform_late(op),
            told: Told {
                mods: Mods::ZERO,
                uses: SmallVec::new(),
                results: SmallVec::new(),
            },
        };
        let tokens = machine.tokens_of_operation(op);
        facts.tokens = tokens.map(|tokens| tokens.filter(|token| facts.minds(*token)).collect());
        Ok(facts)
    }

    /// Whether it makes a difference that an instruction has to do with a token: what nobody gives is not missed.
    pub(super) fn minds(&self, (token, role): (OrderToken, Role)) -> bool {
        role != Role::Needs || self.given >> token as u8 & 1 == 1 || self.reads_slowly
    }
}

/// What is known of the operations of a function, each worked out when it is first met.
pub(super) struct Operations {
    machine: &'static Machine,
    given: u8,
    /// By operation: its place in `facts`, plus one.
    places: Vec<u16>,
    facts: Vec<OperationFacts>,
}

impl Operations {
    pub(super) fn new(machine: &'static Machine, given: u8) -> Operations {
        Operations {
            machine,
            given,
            places: vec![0; Op::COUNT],
            facts: Vec::new(),
        }
    }

    pub(super) fn of(&mut self, op: Op) -> Result<&mut OperationFacts, ScoreboardError> {
        let place = &mut self.places[op.index()];
        if *place == 0 {
            self.facts
                .push(OperationFacts::new(self.machine, op, self.given)?);
            *place = self.facts.len() as u16;
        }
        Ok(&mut self.facts[usize::from(*place) - 1])
    }
}
