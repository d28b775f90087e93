//! Barriers without `.aligned` that lanes of one warp may come to from several places.
//!
//! The machine's barriers count warps. Where barriers of one kind stand in several places of divergent code, one of them is executed for lanes from all
//! of them: between WARPSYNC.COLLECTIVE and ENDCOLLECTIVE all lanes run, each on its own registers. So what stands there must name the same
//! registers in every place, and must write none that another place needs.
//!
//! | the places of a kind | what stands there |
//! | --- | --- |
//! | all have numbers for barrier and count, or it is the cluster's | the numbers |
//! | one has a register | in each place both are packed into the *common word*, a register kept for this in the whole function |
//! | reductions | also the *common predicate*: what is combined, and the truth that comes out; a count comes out in the common word |
//!
//! Lanes copy into the common registers before the collective operation and out of them behind it. ptxas keeps none for the whole function and sees to
//! it that the registers are the same; of results it does not (`docs/errata.md`). A guard would be one of the place that executes; ExpandForSelection made branches of those.
//!
//! Two looks at each instruction: linear.

use super::selector::Selector;
use crate::pipeline::PhaseError;
use cranelift_entity::EntitySet;
use orias_ori::operation::Aligned;
use orias_ori::{AbstractOp, Class, Function, Inst, Operand, PhysReg, Reg};

/// The kinds of barriers that lanes of one warp may come to from several places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sync,
    Arrive,
    Reduce,
    ClusterArrive,
    ClusterWait,
}

impl Kind {
    /// How many kinds there are.
    pub(crate) const COUNT: usize = 5;
}

/// The register that holds barrier and count, and then a result, in every place: the first that is nobody's by the calling convention.
const COMMON_WORD: u8 = 2;

/// The predicate that is combined and holds the result in every place: the last one.
const COMMON_PREDICATE: u8 = 6;

/// The kind of `inst`, if it is a barrier that does not ask for whole warps.
pub(crate) fn kind_for_threads(func: &Function, inst: Inst) -> Option<Kind> {
    let kind = match func.opcode(inst).as_abstract()? {
        AbstractOp::Bar => Kind::Sync,
        AbstractOp::BarArrive => Kind::Arrive,
        AbstractOp::BarRed | AbstractOp::BarRedPopc => Kind::Reduce,
        AbstractOp::ClusterArrive => Kind::ClusterArrive,
        AbstractOp::ClusterWait => Kind::ClusterWait,
        _ => return None,
    };
    (func.modifier::<Aligned>(inst) == Some(Aligned::Any)).then_some(kind)
}

/// Whether one of the blocks that `are` asked about has a barrier that does not ask for whole warps.
pub(super) fn any_for_threads(func: &Function, are: &[bool]) -> bool {
    let mut blocks = func.blocks().filter(|block| are[block.as_u32() as usize]);
    blocks.any(|block| {
        let mut insts = func.block_insts(block);
        insts.any(|inst| kind_for_threads(func, inst).is_some())
    })
}

/// The barriers that do not ask for whole warps and that lanes come to while others are elsewhere.
#[derive(Default)]
pub(super) struct ScatteredBarriers {
    found: EntitySet<Inst>,
    /// How many there are, by kind.
    counts: [u32; Kind::COUNT],
    /// Whether barrier or count is a register in one of them, by kind.
    registers: [bool; Kind::COUNT],
}

impl ScatteredBarriers {
    /// Those of `func` that are among the operations that lanes come to `apart`.
    pub(super) fn of(func: &Function, apart: &EntitySet<Inst>) -> Self {
        let mut scattered = Self::default();
        for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
            let kind = kind_for_threads(func, inst);
            if let Some(kind) = kind.filter(|_| apart.contains(inst)) {
                scattered.found.insert(inst);
                scattered.counts[kind as usize] += 1;
                scattered.registers[kind as usize] |= !has_numbers(func, inst);
            }
        }
        scattered
    }

    /// Whether barrier and count are in the common word in every place of this kind.
    pub(super) fn takes_register(&self, kind: Kind) -> bool {
        self.registers[kind as usize]
    }
}

/// Whether barrier and count of `inst` are written as numbers.
fn has_numbers(func: &Function, inst: Inst) -> bool {
    let sources = &func.operands(inst)[func.result_count(inst)..];
    let mut named = sources.iter().take(2);
    named.all(|operand| matches!(operand, Operand::Imm(_) | Operand::None))
}

impl Selector<'_> {
    /// Whether the barrier being selected, of this kind, is one of several that lanes may come to at the same time.
    pub(super) fn is_scattered(&self, kind: Kind) -> bool {
        self.scattered.counts[kind as usize] > 1 && self.scattered.found.contains(self.at)
    }

    /// A register that the allocator leaves alone.
    fn common(&mut self, class: Class, index: u8) -> Result<Operand, PhaseError> {
        let Some(register) = PhysReg::new(class, index) else {
            return Err(self.broken("no common register"));
        };
        if !self.func.attributes.fixed.contains(&register) {
            self.func.attributes.fixed.push(register);
        }
        Ok(Reg::from(register).into())
    }

    pub(super) fn common_word(&mut self) -> Result<Operand, PhaseError> {
        self.common(Class::R, COMMON_WORD)
    }

    pub(super) fn common_predicate(&mut self) -> Result<Operand, PhaseError> {
        self.common(Class::P, COMMON_PREDICATE)
    }
}
