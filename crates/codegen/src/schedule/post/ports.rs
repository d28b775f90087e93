//! What an instruction asks of the register file: banks, the operand cache, and the registers it touches.
//!
//! General registers lie in two banks, even and odd. An instruction reads two registers of a bank in the cycle it is given; a third
//! costs one more. The operand cache has an entry for each of the three (in some forms four) positions a source can have: what an
//! instruction of fixed latency read there stays until another one reads a different register in that position, the register is
//! written, or the warp is held back. A source that is found there takes no read of the bank. Tuples are read over several cycles and
//! are not counted.

use crate::schedule::graph::Graph;
use crate::sources;
pub(super) use crate::sources::POSITIONS;
use orias_ori::{Function, Inst, PhysReg};
use orias_sass::{EncodeError, Op, Target};
use smallvec::SmallVec;

/// Reads of a bank that cost nothing.
const READS_OF_A_BANK: u8 = 2;

/// Behind a longer stall the operand cache is lost.
pub(super) const CACHE_LASTS: u32 = 2;

/// Physical registers of all files, in a row.
pub(super) const PLACES: usize = 256 + 8 + 64 + 8 + 16;

/// A general register, or several in a row, as a source: none of length 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) index: u8,
    len: u8,
}

impl Source {
    pub(super) const NONE: Source = Source { index: 0, len: 0 };

    fn of(reg: PhysReg) -> Source {
        Source {
            index: reg.index(),
            len: reg.len(),
        }
    }

    pub(super) const fn is_some(self) -> bool {
        self.len != 0
    }

    fn covers(self, place: u16) -> bool {
        let first = u16::from(self.index);
        (first..first + u16::from(self.len)).contains(&place)
    }
}

/// The sources of an instruction that go through the operand cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sources {
    /// The general register read in each position.
    positions: [Source; POSITIONS],
    /// Whether they go through the operand cache.
    pub(super) caches: bool,
    /// Whether, with nothing in the cache, a bank has more to read than it gives at once.
    meets: bool,
}

impl Sources {
    /// Those of an instruction of fixed latency.
    fn new(positions: [Source; POSITIONS]) -> Sources {
        let mut sources = Sources {
            positions,
            caches: true,
            meets: true,
        };
        sources.meets = OperandCache::default().conflicts(&sources) > 0;
        sources
    }

    /// Whether they may cost a cycle more if nothing is in the cache.
    pub(super) fn may_meet(&self) -> bool {
        self.caches && self.meets
    }

    /// The registers by position, for those that go through the cache.
    pub(super) fn cached(&self) -> impl Iterator<Item = (usize, Source)> {
        let positions = self.positions.into_iter().enumerate();
        let caches = self.caches;
        positions.filter(move |(_, source)| caches && source.is_some())
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.positions
            .iter()
            .map(|source| u32::from(source.is_some()))
            .sum()
    }
}

/// What one instruction asks for.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    pub(super) sources: Sources,
    /// The registers it reads.
    pub(super) reads: SmallVec<[u16; 8]>,
    /// The registers it writes.
    pub(super) writes: SmallVec<[u16; 4]>,
}

impl Ports {
    /// Those of a node; nothing for what is no instruction.
    pub(super) fn of(
        func: &Function,
        graph: &Graph,
        node: usize,
        target: Target,
    ) -> Result<Ports, EncodeError> {
        let data = &graph.nodes[node];
        let (reads, writes) = graph.places(node);
        Ok(Ports {
            sources: match data.op {
                // What has no fixed latency does not go through the cache.
                Some(op) if data.fixed => Sources::new(positions(func, data.inst, op, target)?),
                _ => Sources::default(),
            },
            reads: SmallVec::from_slice(reads),
            writes: SmallVec::from_slice(writes),
        })
    }
}

/// The general register read in each position.
fn positions(
    func: &Function,
    inst: Inst,
    op: Op,
    target: Target,
) -> Result<[Source; POSITIONS], EncodeError> {
    let mut positions = [Source::NONE; POSITIONS];
    for (position, _, reg) in sources::of(func, inst, op, target)? {
        positions[usize::from(position)] = Source::of(reg);
    }
    Ok(positions)
}

/// The operand cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OperandCache([Source; POSITIONS]);

impl OperandCache {
    /// How many sources are found.
    pub(super) fn hits(&self, sources: &Sources) -> u8 {
        if !sources.caches {
            return 0;
        }
        let pairs = self.0.iter().zip(&sources.positions);
        pairs
            .map(|(kept, source)| u8::from(source.is_some() & (kept == source)))
            .sum()
    }

    /// Cycles that reading the sources takes besides the one every instruction has.
    pub(super) fn conflicts(&self, sources: &Sources) -> u8 {
        if !sources.caches || !sources.meets {
            return 0;
        }
        let mut banks = [0u8; 2];
        let mut seen: SmallVec<[u8; POSITIONS]> = SmallVec::new();
        for (kept, source) in self.0.iter().zip(&sources.positions) {
            if source.len == 1 && kept != source && !seen.contains(&source.index) {
                seen.push(source.index);
                banks[usize::from(source.index & 1)] += 1;
            }
        }
        banks[0].max(banks[1]).saturating_sub(READS_OF_A_BANK)
    }

    /// An instruction with these sources issues, which writes these places.
    pub(super) fn issue(&mut self, sources: &Sources, writes: &[u16]) {
        if !sources.caches {
            *self = OperandCache::default();
            return;
        }
        for (kept, source) in self.0.iter_mut().zip(&sources.positions) {
            if source.is_some() {
                *kept = *source;
            }
            if kept.is_some() && writes.iter().any(|place| kept.covers(*place)) {
                *kept = Source::NONE;
            }
        }
    }
}
