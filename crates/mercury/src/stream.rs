//! Mercury's own form: a stream of nodes, block by block.
//!
//! A node is a machine instruction with a form of the target's tables, or a pseudo-instruction that expansion (118) takes apart.
//! The nodes of a block are a doubly linked list between two sentinels, so that phases insert in front of a node and remove it
//! while they walk. Each node has a scheduling record: whether its control field is known, what the hazard resolver asks for.
//! Registers are physical and operands are those of the instruction set; what only the final position tells (the distance to a
//! block, the address of a name, the place behind a call) is a [`Fixup`] of the node, and zero in its instruction until
//! emission.

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityRef, PrimaryMap, entity_impl};
use orias_ori::{FunctionKind, Inst, Span, SymbolPart};
use orias_sass::{Guard, Instruction, Register, Target};
use smallvec::SmallVec;

/// A node of a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u32);
entity_impl!(Node, "n");

/// A block of a stream, numbered in the order of the layout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment(u32);
entity_impl!(Segment, "block");

/// A name a stream refers to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u32);
entity_impl!(Name, "name");

/// What a node is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// The start or the end of a block.
    Boundary,
    /// An instruction of the target.
    Machine(Instruction),
    /// Something that becomes instructions in expansion.
    Pseudo(Pseudo),
}

/// A pseudo-instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pseudo {
    /// Copies registers to registers, all at once.
    Copy {
        /// When it runs.
        guard: Guard,
        /// What goes where.
        runs: Vec<Run>,
    },
    /// Exchanges registers.
    Swap {
        /// When it runs.
        guard: Guard,
        /// Both, as many as `count` says; the direction means nothing.
        run: Run,
    },
    /// An instruction one of whose operands is a list of registers, which need not follow each other.
    Group {
        /// The instruction, with the first register of the list in the operand's place.
        instruction: Instruction,
        /// The operand.
        slot: u8,
        /// The registers, in order; none where nobody wants the result.
        registers: Vec<Register>,
        /// The pieces that instructions can name: how many registers each. Set by the converter.
        pieces: Vec<u8>,
    },
    /// Calls a subroutine of the function; the place to return to goes into a register pair.
    Call {
        /// When it runs.
        guard: Guard,
        /// The pair's first register.
        link: Register,
    },
}

/// Consecutive registers that are copied to consecutive registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    /// The first that is written.
    pub to: Register,
    /// The first that is read; a constant register stays the same for all.
    pub from: Register,
    /// How many.
    pub count: u8,
}

impl Run {
    /// The copies of single registers.
    pub fn units(self) -> impl Iterator<Item = (Register, Register)> {
        (0..self.count).map(move |offset| {
            let at = |register: Register| match register.is_constant() {
                true => register,
                false => Register::new(register.class, register.index + offset),
            };
            (at(self.to), at(self.from))
        })
    }
}

/// What a field of an instruction gets when positions are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reference {
    /// The distance to a block.
    Block(Segment),
    /// The address of a name, or a part of it.
    Symbol {
        /// The name.
        name: Name,
        /// Which part.
        part: SymbolPart,
        /// What is added to the address.
        addend: i64,
    },
    /// The offset in the function of the place behind the next call of the block.
    Return,
}

/// An operand that waits for positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fixup {
    /// The operand.
    pub slot: u8,
    /// What it gets.
    pub to: Reference,
}

/// The phase that made a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// It was in the function.
    #[default]
    Source,
    /// MercExpandInstructions.
    Expansion,
    /// MercGenerateWARs1 or 2.
    Wars,
    /// MercGenerateOpex.
    Opex,
}

/// What is known of a node's control field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// Whether the instruction's control field is meant; without, it is as if it waited for nothing and set nothing.
    pub known: bool,
    /// Whether a later instruction must wait until this one has read its sources.
    pub barrier_needed: bool,
    /// Cycles the resolver asks for behind it, at least.
    pub penalty: u8,
    /// The barriers it waits for only because the resolver says so, one bit each.
    pub resolved: u8,
}

/// A node and its neighbours.
#[derive(Clone, Debug)]
pub struct NodeData {
    prev: PackedOption<Node>,
    next: PackedOption<Node>,
    /// What it is.
    pub body: Body,
    /// What waits for positions.
    pub fixups: SmallVec<[Fixup; 1]>,
    /// Its scheduling record.
    pub schedule: Schedule,
    /// Who made it.
    pub origin: Origin,
    /// The instruction of the function it stands for.
    pub inst: PackedOption<Inst>,
    /// Where in the source it comes from.
    pub span: PackedOption<Span>,
}

impl NodeData {
    /// A node in no list yet, that the phase `origin` makes.
    pub fn new(body: Body, origin: Origin) -> NodeData {
        NodeData {
            prev: PackedOption::default(),
            next: PackedOption::default(),
            body,
            fixups: SmallVec::new(),
            schedule: Schedule::default(),
            origin,
            inst: PackedOption::default(),
            span: PackedOption::default(),
        }
    }

    /// The instruction, if it is one of the target.
    pub fn instruction(&self) -> Option<&Instruction> {
        match &self.body {
            Body::Machine(instruction) => Some(instruction),
            Body::Boundary | Body::Pseudo(_) => None,
        }
    }
}

#[derive(Clone, Debug)]
struct SegmentData {
    first: Node,
    last: Node,
    successors: Vec<Segment>,
}

/// A function as Mercury has it.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// How it is entered.
    pub kind: FunctionKind,
    /// What it is for.
    pub target: Target,
    /// Where each indirect branch may go.
    pub indirect: Vec<(Node, Vec<Segment>)>,
    /// Names the stream refers to.
    pub names: PrimaryMap<Name, String>,
    /// What the phases say of each instruction they touch, if that is wanted.
    pub trace: Option<Vec<String>>,
    nodes: PrimaryMap<Node, NodeData>,
    segments: PrimaryMap<Segment, SegmentData>,
    /// Words that were compared with the nodes they belong to; none has no bits, as no instruction has.
    words: Vec<u128>,
}

impl Stream {
    /// A stream without blocks.
    pub fn new(name: &str, kind: FunctionKind, target: Target) -> Stream {
        Stream {
            name: name.to_owned(),
            kind,
            target,
            indirect: Vec::new(),
            names: PrimaryMap::new(),
            trace: None,
            nodes: PrimaryMap::new(),
            segments: PrimaryMap::new(),
            words: Vec::new(),
        }
    }

    /// Makes room for so many blocks and nodes: nodes are large, and to move them costs more than to make them.
    pub(crate) fn reserve(&mut self, segments: usize, nodes: usize) {
        self.segments.reserve(segments);
        self.nodes.reserve(nodes + 2 * segments);
    }

    /// Appends an empty block.
    pub fn add_segment(&mut self) -> Segment {
        let first = self
            .nodes
            .push(NodeData::new(Body::Boundary, Origin::Source));
        let last = self
            .nodes
            .push(NodeData::new(Body::Boundary, Origin::Source));
        self.nodes[first].next = last.into();
        self.nodes[last].prev = first.into();
        self.segments.push(SegmentData {
            first,
            last,
            successors: Vec::new(),
        })
    }

    /// The blocks in order.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = Segment> + use<> {
        (0..self.segments.len()).map(Segment::new)
    }

    /// Whether there is such a block.
    pub fn has_segment(&self, segment: Segment) -> bool {
        self.segments.is_valid(segment)
    }

    /// Where control may go from `segment`.
    pub fn successors(&self, segment: Segment) -> &[Segment] {
        &self.segments[segment].successors
    }

    /// Says where control may go from `segment`.
    pub fn set_successors(&mut self, segment: Segment, successors: Vec<Segment>) {
        self.segments[segment].successors = successors;
    }

    /// The sentinel behind the block's last node.
    pub fn end(&self, segment: Segment) -> Node {
        self.segments[segment].last
    }

    /// The block's first node: the sentinel behind the last one where it is empty.
    pub fn first(&self, segment: Segment) -> Node {
        let first = self.segments[segment].first;
        self.nodes[first].next.expand().unwrap_or(first)
    }

    /// The node behind `node`, sentinels left out.
    pub fn next(&self, node: Node) -> Option<Node> {
        let next = self.nodes[node].next.expand()?;
        (!matches!(self.nodes[next].body, Body::Boundary)).then_some(next)
    }

    /// The node in front of `node`, sentinels left out.
    pub fn prev(&self, node: Node) -> Option<Node> {
        let prev = self.nodes[node].prev.expand()?;
        (!matches!(self.nodes[prev].body, Body::Boundary)).then_some(prev)
    }

    /// The nodes of a block in order, sentinels left out.
    pub fn nodes(&self, segment: Segment) -> impl Iterator<Item = Node> + '_ {
        let end = self.end(segment);
        let mut at = self.first(segment);
        std::iter::from_fn(move || {
            if at == end {
                return None;
            }
            let node = at;
            at = self.nodes[node].next.expand().unwrap_or(end);
            Some(node)
        })
    }

    /// Makes room for the words of all nodes there are now.
    pub(crate) fn make_room_for_words(&mut self) {
        self.words.resize(self.nodes.len(), 0);
    }

    /// Keeps the word of a node, where there is room, until somebody changes the node.
    pub(crate) fn keep_word(&mut self, node: Node, word: u128) {
        if let Some(place) = self.words.get_mut(node.index()) {
            *place = word;
        }
    }

    /// The word that was kept.
    pub(crate) fn word(&self, node: Node) -> Option<u128> {
        let kept = self.words.get(node.index()).copied();
        kept.filter(|&word| word != 0)
    }

    /// What a node is.
    pub fn node(&self, node: Node) -> &NodeData {
        &self.nodes[node]
    }

    /// What a node is, to be changed.
    pub fn node_mut(&mut self, node: Node) -> &mut NodeData {
        self.keep_word(node, 0);
        &mut self.nodes[node]
    }

    /// Puts a new node in front of `at`, which may be the sentinel at a block's end.
    pub fn insert_before(&mut self, at: Node, mut data: NodeData) -> Node {
        let prev = self.nodes[at].prev;
        data.prev = prev;
        data.next = at.into();
        let node = self.nodes.push(data);
        self.nodes[at].prev = node.into();
        if let Some(prev) = prev.expand() {
            self.nodes[prev].next = node.into();
        }
        node
    }

    /// Puts a new node behind `at`, which is in a block.
    pub fn insert_after(&mut self, at: Node, data: NodeData) -> Node {
        let behind = self.nodes[at].next.expand().unwrap_or(at);
        self.insert_before(behind, data)
    }

    /// Puts a new node at the end of `segment`.
    pub fn append(&mut self, segment: Segment, data: NodeData) -> Node {
        self.insert_before(self.end(segment), data)
    }

    /// Takes `node` out of its block.
    pub fn remove(&mut self, node: Node) {
        let data = &mut self.nodes[node];
        let (prev, next) = (data.prev.take(), data.next.take());
        if let Some(prev) = prev {
            self.nodes[prev].next = next.into();
        }
        if let Some(next) = next {
            self.nodes[next].prev = prev.into();
        }
    }

    /// The number of a name.
    pub fn name(&mut self, text: &str) -> Name {
        let known = self.names.iter().find(|(_, name)| name.as_str() == text);
        match known {
            Some((name, _)) => name,
            None => self.names.push(text.to_owned()),
        }
    }

    /// Whether a phase made a node that is still there.
    pub fn has_made(&self, origins: &[Origin]) -> bool {
        self.segments()
            .flat_map(|segment| self.nodes(segment))
            .any(|node| origins.contains(&self.nodes[node].origin))
    }

    /// Notes what a phase does to an instruction, if that is wanted.
    pub(crate) fn note(&mut self, word: &str, node: Node) {
        if self.trace.is_some() {
            let line = format!("{word} {}", self.print_node(node));
            self.trace.get_or_insert_default().push(line);
        }
    }
}

/// Streams are equal when they print the same: the numbers of nodes do not matter.
impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        self.print() == other.print()
    }
}

impl Eq for Stream {}
