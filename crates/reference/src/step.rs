//! Statements, made ready to run: names and types are resolved, nothing is looked up while a thread runs.

use crate::collective::Collective;
use crate::order::Strength;
use crate::thread::Special;
use orias_eval::combine::Combination;
use orias_eval::tensor::{Element as TensorElement, Field};
use orias_eval::texture::{Geometry, Outside, Property, Unit};

/// What a computing instruction does: the bits of its operands in, the bits of its results out.
pub(crate) type Function = Box<dyn Fn(&[u64; OPERANDS]) -> [u64; 2] + Send + Sync>;

/// The most operands a computing instruction reads.
pub(crate) const OPERANDS: usize = 5;

/// One value to read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The low bits of a register.
    Register { slot: u32, mask: u64 },
    /// The opposite of a predicate.
    Not { slot: u32 },
    /// The negative of a register.
    Negated { slot: u32, mask: u64 },
    /// The low bits of a register plus a constant.
    Sum { slot: u32, mask: u64, constant: u64 },
    /// The low bits of a special register plus a constant.
    SpecialSum {
        special: Special,
        mask: u64,
        constant: u64,
    },
    /// A constant.
    Constant(u64),
    /// A special register.
    Special(Special),
    /// The address of something in the function's frame: an offset in local memory.
    Frame(u64),
    /// The address of something in shared memory, given its offset.
    Shared(u64),
    /// The carry flag.
    Carry,
    /// Eight bytes at an address: the handle of what has a name.
    Stored(u64),
}

/// Where a result goes: a register of `mask`'s width, filled up with the sign of a `signed_bits` wide result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub slot: u32,
    pub mask: u64,
    pub signed_bits: Option<u32>,
}

impl Destination {
    /// The bits the register holds after `value` was written to it.
    pub fn extend(self, value: u64) -> u64 {
        let value = match self.signed_bits {
            Some(bits) => {
                let up = 64 - bits;
                ((value << up).cast_signed() >> up).cast_unsigned()
            }
            None => value,
        };
        value & self.mask
    }
}

/// The space an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Any; global memory and parameters have generic addresses only.
    Generic,
    /// Constants: the low half of their generic addresses counts.
    Const,
    /// Addresses in the CTA's shared memory.
    Shared,
    /// Addresses in shared memory of any CTA of the cluster.
    Cluster,
    /// Offsets in the thread's local memory.
    Local,
}

/// An address: a value, an offset, a space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub space: Space,
    pub base: Source,
    pub offset: i64,
}

/// What an atomic does with the old value and the operands.
pub(crate) type Update = Box<dyn Fn(u64, [u64; 2]) -> u64 + Send + Sync>;

/// One element of a vector load.
pub(crate) type Element = Option<Destination>;

/// What a barrier instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierAction {
    /// Waits.
    Sync,
    /// Goes on.
    Arrive,
    /// Waits, and counts the threads whose predicate is true.
    Count,
    /// Waits, and asks whether all predicates are true.
    And,
    /// Waits, and asks whether any predicate is true.
    Or,
}

/// A slot that holds bytes of an argument or a result: a register, a component of one, or half of one of 128 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub slot: u32,
    pub mask: u64,
    pub bytes: u32,
}

/// A call's argument.
#[derive(Clone, Debug)]
pub(crate) enum Passed {
    /// Values of so many bytes each, one behind the other.
    Values(Vec<(Source, u32)>),
    /// Bytes of the frame.
    Frame { offset: u64, bytes: u32 },
    /// Nothing: `_`.
    Nothing,
}

/// Where a call's result goes.
#[derive(Clone, Debug)]
pub(crate) enum Returned {
    Registers(Vec<Piece>),
    Frame { offset: u64, bytes: u32 },
    Nothing,
}

/// Whom a call reaches.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// A function of the program.
    Function(usize),
    /// A function that the system provides.
    Library(crate::library::Routine),
    /// A function whose address is in a register.
    Indirect(Source),
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub callee: Callee,
    pub arguments: Vec<Passed>,
    pub results: Vec<Returned>,
}

/// What a step does.
pub(crate) enum Action {
    /// Computes, from and to registers. Where `carry` is set the second result is the carry flag.
    Compute {
        function: Function,
        sources: Vec<Source>,
        results: [Option<Destination>; 2],
        carry: bool,
    },
    /// Moves words of 64 bits, all read before any is written: vectors and 128-bit registers.
    Move { moves: Vec<(Source, Destination)> },
    /// Packs elements of `bits` each, the first lowest, and takes the whole apart into registers.
    Repack {
        sources: Vec<Source>,
        source_bits: u32,
        destinations: Vec<Element>,
        destination_bits: u32,
    },
    /// Reads elements of `bytes` each from memory.
    Load {
        address: Address,
        bytes: u32,
        elements: Vec<Element>,
        strength: Option<Strength>,
    },
    /// Writes elements to memory.
    Store {
        address: Address,
        bytes: u32,
        elements: Vec<Source>,
        strength: Option<Strength>,
    },
    /// Replaces each element in memory by a function of it and of two operands, and yields the old ones.
    Atomic {
        address: Address,
        bytes: u32,
        update: Update,
        operands: Vec<[Source; 2]>,
        results: Vec<Element>,
        strength: Strength,
        /// Whether it is an `atom`, which yields the old values, whoever wants them.
        seen: bool,
    },
    /// Compares and exchanges, or exchanges, 128 bits: the operand to compare with is `None` for an exchange.
    Atomic128 {
        address: Address,
        compare: Option<[Source; 2]>,
        value: [Source; 2],
        results: [Element; 2],
        strength: Strength,
    },
    /// Copies `bytes` from the second address to the first when the thread waits for it; `kept` of them are copied,
    /// the rest becomes zero.
    CopyLater {
        to: Address,
        from: Address,
        bytes: u32,
        kept: Source,
    },
    /// Closes the group of the copies begun so far.
    CommitCopies,
    /// Waits until at most so many groups are open, or for all copies.
    WaitCopies { open: Option<usize> },
    /// Whether a generic address lies in a space.
    IsSpace {
        address: Source,
        space: SpaceTest,
        result: Destination,
    },
    /// Takes bytes of local memory.
    Allocate {
        size: Source,
        alignment: u64,
        result: Destination,
    },
    /// The top of the stack.
    SaveStack { result: Destination },
    /// Sets the top of the stack.
    RestoreStack { source: Source },
    /// Goes on elsewhere.
    Branch { target: usize },
    /// Goes on at the target of that number.
    BranchIndexed { index: Source, targets: Vec<usize> },
    /// Calls.
    Call(Box<Call>),
    /// Returns.
    Return,
    /// Ends the thread.
    Exit,
    /// Waits for other threads of the warp and exchanges something with them.
    Collective(Box<CollectiveStep>),
    /// A barrier of the CTA.
    Barrier {
        action: BarrierAction,
        number: Source,
        count: Option<Source>,
        predicate: Option<Source>,
        result: Option<Destination>,
    },
    /// Does something to an mbarrier.
    Mbarrier(MbarrierStep),
    /// Stores or updates something, and tells an mbarrier that so many bytes have come.
    Telling {
        action: Box<Action>,
        barrier: Address,
        bytes: u64,
    },
    /// A fence of memory.
    Fence(Strength),
    /// Arrives at the cluster's barrier, with what came before unless it is relaxed.
    ClusterArrive { releases: bool },
    /// Waits at the cluster's barrier.
    ClusterWait { acquires: bool },
    /// Stops the run.
    Trap,
    /// Stops the run.
    Breakpoint,
    /// A bulk or tensor copy, and what belongs to them.
    Bulk(Box<BulkStep>),
    /// An access to a texture or surface, or a question about one.
    Image(ImageStep),
    /// Has no effect that a program can see here: fences of proxies, prefetches, hints.
    Nothing,
    /// Stops the run: an instruction that is not covered, in words.
    Unsupported(String),
}

/// What bulk and tensor copies, groups of them and tensor maps ask for.
#[derive(Clone, Debug)]
pub(crate) enum BulkStep {
    /// Copies bytes, or combines them with what is there.
    Copy {
        to: Address,
        from: Address,
        bytes: Source,
        barrier: Option<Address>,
        /// The blocks of a multicast.
        blocks: Option<Source>,
        combined: Option<(Combination, TensorElement)>,
    },
    /// Copies a tile; to shared memory if there is a barrier.
    Tile {
        map: Address,
        coordinates: Vec<Source>,
        shared: Address,
        barrier: Option<Address>,
        blocks: Option<Source>,
        /// The offsets of an im2col access.
        offsets: Option<Vec<Source>>,
        combined: Option<Combination>,
    },
    /// Closes the group of the copies so far.
    CloseGroup,
    /// Waits until at most so many groups are under way.
    WaitForGroups { open: u64 },
    /// Changes a field of a tensor map.
    ReplaceField {
        map: Address,
        field: Field,
        dimension: usize,
        value: Source,
    },
    /// Copies a tensor map.
    CopyMap { to: Address, from: Address },
}

/// What is asked of textures, samplers and surfaces.
#[derive(Clone, Debug)]
pub(crate) enum ImageStep {
    Look(Box<Look>),
    Surface(Box<SurfaceStep>),
    /// Width, height or depth.
    Size {
        image: Source,
        dimension: usize,
        level: Option<Source>,
        result: Element,
    },
    Property {
        image: Source,
        property: Property,
        result: Element,
    },
    /// Whether a handle's high word has a bit.
    IsKind {
        handle: Source,
        tag: u32,
        result: Element,
    },
}

/// A look at a texture.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub geometry: Geometry,
    /// Whether coordinates are integers, and whether they are converted to numbers.
    pub whole: bool,
    pub converts: bool,
    /// The channel that is gathered.
    pub component: Option<usize>,
    pub texture: Source,
    pub sampler: Option<Source>,
    pub sample: Option<Source>,
    pub layer: Option<Source>,
    pub coordinates: Vec<Source>,
    pub level: Option<Source>,
    pub gradients: Option<[Vec<Source>; 2]>,
    pub offsets: Vec<Source>,
    pub reference: Option<Source>,
    pub texel: orias_ptx::types::Type,
    pub results: Vec<Element>,
    pub resident: Element,
}

/// An access to a surface.
#[derive(Clone, Debug)]
pub(crate) struct SurfaceStep {
    pub geometry: Geometry,
    pub unit: Unit,
    pub outside: Outside,
    pub surface: Source,
    pub coordinates: Vec<Source>,
    pub layer: Option<Source>,
    /// Bits of an element.
    pub bits: u32,
    pub action: SurfaceAction,
}

/// What is done to a surface.
#[derive(Clone, Debug)]
pub(crate) enum SurfaceAction {
    Load(Vec<Element>),
    Store(Vec<Source>),
    Update {
        how: Combination,
        /// Whether there is a sign; the format says it if nothing else does.
        signed: Option<bool>,
        operand: Source,
    },
}

/// Which space `isspacep` asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceTest {
    Global,
    /// Of this CTA.
    Shared,
    /// Of any CTA of the cluster.
    Cluster,
    Local,
    Const,
    Param,
}

/// What is done to an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MbarrierAction {
    /// Sets it up for a number of arrivals.
    Init,
    Invalidate,
    /// Arrives so many times, or once; not again in later phases if it `drops`.
    Arrive {
        drops: bool,
        completes: bool,
    },
    /// Announces transactions and arrives once.
    ArriveExpecting {
        drops: bool,
    },
    /// Announces transactions.
    Expect,
    /// Completes transactions.
    Complete,
    /// Whether the phase of a state is over.
    TestState,
    /// Whether the phase of a parity is over.
    TestParity,
    /// Arrives when the copies begun so far are complete; where it is not `counted` it also expects that arrival first.
    ArriveAfterCopies {
        counted: bool,
    },
}

/// An operation on an mbarrier with its operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierStep {
    pub action: MbarrierAction,
    pub address: Address,
    /// A count, a state or a parity.
    pub operand: Option<Source>,
    pub result: Element,
    /// Whether what others did before is ordered by it.
    pub orders: bool,
}

/// A collective with its operands.
pub(crate) struct CollectiveStep {
    pub kind: Collective,
    /// The instruction and its modifiers, as a number: threads meet at equal ones.
    pub opcode: u32,
    /// The member mask; `None` for all threads of the warp.
    pub members: Option<Source>,
    pub sources: Vec<Source>,
    pub results: Vec<Element>,
    /// The address a matrix load or store uses.
    pub address: Option<Address>,
}

/// A statement.
pub(crate) struct Step {
    /// The predicate, and the value at which the step runs.
    pub guard: Option<(u32, bool)>,
    pub action: Action,
    /// Where it stands in the source.
    pub span: orias_ptx::Span,
}
