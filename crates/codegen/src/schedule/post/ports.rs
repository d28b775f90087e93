//! What an instruction asks of the register file: banks, the operand cache, and the registers it touches.
//!
//! General registers lie in two banks, even and odd. An instruction reads two registers of a bank in the cycle it is given; a third
//! costs one more. The operand cache has an entry for each of the three (in some forms four) positions a source can have: what an
//! instruction of fixed latency read there stays until another one reads a different register in that position, the register is
//! written, or the warp is held back. A source that is found there takes no read of the bank. Tuples are read over several cycles and
//! are not counted.

use crate::places::GENERAL;
use crate::schedule::graph::Node;
use crate::sources;
pub(super) use crate::sources::POSITIONS;
use orias_machine::Machine;
use orias_ori::{Function, PhysReg};
use orias_sass::EncodeError;
use smallvec::SmallVec;

/// A general register, or several in a row, as a source: none of length 0. In 16 bits, the index below and the length above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortRead(u16);

impl PortRead {
    pub(super) const NONE: PortRead = PortRead(0);

    fn of(reg: PhysReg) -> PortRead {
        PortRead(u16::from(reg.len()) << 8 | u16::from(reg.index()))
    }

    pub(super) const fn is_some(self) -> bool {
        self.0 != 0
    }

    pub(super) const fn index(self) -> u8 {
        self.0 as u8
    }

    const fn len(self) -> u16 {
        self.0 >> 8
    }

    /// Whether one of its registers is among those from `first` to `last`.
    fn meets(self, first: u16, last: u16) -> bool {
        let index = u16::from(self.index());
        index <= last && first < index + self.len()
    }
}

/// A source for each position, in one word: the first position lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row(u64);

impl Row {
    /// The lowest bit of every position.
    const EACH: u64 = 0x0001_0001_0001_0001;
    /// All bits of every position but the highest.
    const BELOW: u64 = 0x7fff * Row::EACH;

    fn new(sources: [PortRead; POSITIONS]) -> Row {
        let sources = sources.into_iter().rev();
        Row(sources.fold(0, |row, source| row << 16 | u64::from(source.0)))
    }

    fn at(self, position: usize) -> PortRead {
        PortRead((self.0 >> (16 * position)) as u16)
    }

    /// The positions in which there is nothing, by their highest bits.
    const fn empty(self) -> u64 {
        !(((self.0 & Row::BELOW) + Row::BELOW) | self.0 | Row::BELOW)
    }

    /// The positions in which there is something, by all their bits.
    const fn taken(self) -> u64 {
        let highest = !self.empty() & !Row::BELOW;
        highest | (highest - (highest >> 15))
    }
}

/// How many positions a word names by their highest bits.
const fn count(highest: u64) -> u8 {
    ((highest >> 15).wrapping_mul(Row::EACH) >> 48) as u8
}

/// The sources of an instruction that go through the operand cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sources {
    /// The general register read in each position.
    pub(super) row: Row,
    /// All bits of the positions in which one is read.
    taken: u64,
    /// Whether they go through the operand cache.
    pub(super) caches: bool,
    /// Whether, with nothing in the cache, a bank has more to read than it gives at once.
    meets: bool,
    count: u8,
}

impl Sources {
    /// Those of `op`, if that has a fixed latency: what has none does not go through the cache.
    pub(super) fn of(
        func: &Function,
        node: &Node,
        machine: &Machine,
    ) -> Result<Sources, EncodeError> {
        match node.op {
            Some(op) if node.fixed => {
                let sources = sources::of(func, node.inst, op, machine.target)?;
                let source = |source: Option<(u8, PhysReg)>| match source {
                    Some((_, reg)) => PortRead::of(reg),
                    None => PortRead::NONE,
                };
                Ok(Sources::new(sources.map(source), machine.limits.bank_reads))
            }
            _ => Ok(Sources::default()),
        }
    }

    fn new(positions: [PortRead; POSITIONS], bank_reads: u8) -> Sources {
        let row = Row::new(positions);
        let mut sources = Sources {
            row,
            taken: row.taken(),
            caches: true,
            meets: true,
            count: count(!row.empty() & !Row::BELOW),
        };
        sources.meets = OperandCache::default().conflicts(&sources, bank_reads) > 0;
        sources
    }

    /// Whether they may cost a cycle more if nothing is in the cache.
    pub(super) fn may_meet(&self) -> bool {
        self.caches && self.meets
    }

    /// The registers by position, for those that go through the cache.
    pub(super) fn cached(&self) -> impl Iterator<Item = (usize, PortRead)> {
        let (row, caches) = (self.row, self.caches);
        let positions = (0..POSITIONS).map(move |position| (position, row.at(position)));
        positions.filter(move |(_, source)| caches && source.is_some())
    }

    /// How many there are.
    pub(super) fn count(&self) -> u8 {
        self.count
    }
}

/// The places an instruction writes, as far as a look is worth it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The lowest and the highest; the other way round if there is none.
    first: u16,
    last: u16,
    /// Whether all between are written, too.
    whole: bool,
}

impl Span {
    pub(super) fn of(places: &[u16]) -> Span {
        let mut span = Span {
            first: u16::MAX,
            last: 0,
            whole: true,
        };
        for &place in places {
            span.first = span.first.min(place);
            span.last = span.last.max(place);
        }
        span.whole = places.windows(2).all(|pair| pair[1] == pair[0] + 1);
        span
    }

    /// Whether a place may be in both.
    pub(super) fn may_meet(self, other: Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The operand cache. All bits of a position are set if nothing is kept there: no source is like that.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperandCache(Row);

impl Default for OperandCache {
    fn default() -> Self {
        OperandCache::EMPTY
    }
}

impl OperandCache {
    /// Nothing is kept.
    const EMPTY: OperandCache = OperandCache(Row(u64::MAX));

    /// How many sources are kept.
    pub(super) fn kept(self) -> u8 {
        POSITIONS as u8 - count(Row(!self.0.0).empty())
    }

    /// Whether any of these sources is found.
    #[inline]
    pub(super) fn has_any(self, row: Row) -> bool {
        Row(self.0.0 ^ row.0).empty() != 0
    }

    /// How many sources are found.
    pub(super) fn hits(self, sources: &Sources) -> u8 {
        count(Row(self.0.0 ^ sources.row.0).empty())
    }

    /// Cycles that reading the sources takes besides the one every instruction has.
    pub(super) fn conflicts(self, sources: &Sources, bank_reads: u8) -> u8 {
        if !sources.caches || !sources.meets {
            return 0;
        }
        let mut banks = [0u8; 2];
        let mut seen: SmallVec<[u8; POSITIONS]> = SmallVec::new();
        for position in 0..POSITIONS {
            let source = sources.row.at(position);
            let index = source.index();
            if source.len() == 1 && self.0.at(position) != source && !seen.contains(&index) {
                seen.push(index);
                banks[usize::from(index & 1)] += 1;
            }
        }
        banks[0].max(banks[1]).saturating_sub(bank_reads)
    }

    /// An instruction with these sources issues, which writes these places, by their `span`.
    pub(super) fn issue(&mut self, sources: &Sources, span: Span, writes: &[u16]) {
        if !sources.caches {
            *self = OperandCache::default();
            return;
        }
        let kept = self.0.0 & !sources.taken | sources.row.0;
        self.0 = Row(kept);
        // General registers come first of all places.
        if usize::from(span.first) >= GENERAL {
            return;
        }
        for position in 0..POSITIONS {
            let source = self.0.at(position);
            let written = source.meets(span.first, span.last)
                && (span.whole || writes.iter().any(|&place| source.meets(place, place)));
            if written {
                self.0.0 |= 0xffff << (16 * position);
            }
        }
    }
}
