//! Which values would like to lie where, relative to one another.
//!
//! Four relations save moves when both sides get the registers they ask for: a part and the tuple it is collected into or
//! split from, a definition and the value it keeps, a copy and its source, and a block parameter and the arguments that
//! reach it. [`Affinity`] joins values along these relations into groups, each value at an offset within its group. The
//! first member that is given a register settles where the group would like to lie; the others follow if they can.
//!
//! A group is a wish, not a promise: its members may be live at the same time, so nothing is wrong when a wish is not met,
//! it only costs a move. Relations in deeper loops are joined first; a relation that contradicts an earlier one (the same
//! value at two offsets, or a tuple off its alignment) is dropped.
//!
//! **Algorithm.** Union-find with offsets. Cost: almost linear in the number of operands.

use cranelift_entity::EntityRef;
use orias_ori::analysis::LoopNest;
use orias_ori::{AbstractOp, Block, Function, Inst, Opcode, Operand, Value};

/// The groups of a function's values.
#[derive(Debug)]
pub(super) struct Affinity {
    parent: Vec<u32>,
    /// Position relative to the parent's.
    shift: Vec<i16>,
    groups: Vec<Group>,
}

/// What is known of a group; kept at its root, positions relative to the root's.
#[derive(Clone, Copy, Debug)]
struct Group {
    low: i16,
    high: i16,
    /// The root's register is `residue` modulo `align`.
    align: u8,
    residue: u8,
    /// Members without a register yet.
    pending: u32,
    /// The register of the root's position, once settled.
    settled: Option<i16>,
}

/// Where a value would like to lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// At this register.
    At(u8),
    /// Anywhere, with this many registers of its group around it.
    Within {
        /// How many registers of the group lie below the value.
        below: u8,
        /// How many registers the group has in all.
        span: u8,
        /// The first register of the group is `residue` modulo `align`.
        align: u8,
        /// See `align`.
        residue: u8,
    },
}

/// Groups do not grow beyond this many registers: a longer free run is rarely found.
const LONGEST: i16 = 64;

impl Affinity {
    /// The groups of `func`, with the relations of deep loops first.
    pub(super) fn new(func: &Function, loops: &LoopNest) -> Affinity {
        let count = func.value_count();
        let mut affinity = Affinity {
            parent: (0..count as u32).collect(),
            shift: vec![0; count],
            groups: (0..count)
                .map(|number| {
                    let ty = func.value_type(Value::new(number));
                    Group {
                        low: 0,
                        high: i16::from(ty.len()),
                        align: ty.alignment(),
                        residue: 0,
                        pending: 1,
                        settled: None,
                    }
                })
                .collect(),
        };
        let mut blocks: Vec<Block> = func.blocks().collect();
        blocks.sort_by_key(|&block| std::cmp::Reverse(loops.block_depth(block)));
        for &block in &blocks {
            for inst in func.block_insts(block) {
                affinity.join_inst(func, inst);
            }
        }
        affinity
    }

    fn join_inst(&mut self, func: &Function, inst: Inst) {
        match func.opcode(inst) {
            Opcode::Abstract(AbstractOp::Collect) => {
                let (tuple, parts) = func.operands(inst).split_at(1);
                self.join_parts(func, tuple[0], parts);
            }
            Opcode::Abstract(AbstractOp::Split) => {
                let (parts, tuple) = func.operands(inst).split_at(func.result_count(inst));
                self.join_parts(func, tuple[0], parts);
            }
            Opcode::Abstract(AbstractOp::ParCopy) => {
                let (to, from) = func.operands(inst).split_at(func.result_count(inst));
                for (to, from) in to.iter().zip(from) {
                    self.join_operands(func, *to, *from, 0);
                }
            }
            _ => {}
        }
        if !func.kept(inst).is_empty() {
            for (place, kept) in func.kept_places(inst).zip(func.kept(inst)) {
                self.join_operands(func, func.operands(inst)[place], *kept, 0);
            }
        }
        for &edge in func.edges(inst) {
            let params = func.block_params(func.edge_target(edge));
            for (&param, &arg) in params.iter().zip(func.edge_args(edge)) {
                self.join(func, param, arg, 0);
            }
        }
    }

    fn join_parts(&mut self, func: &Function, tuple: Operand, parts: &[Operand]) {
        let mut offset = 0;
        for &part in parts {
            self.join_operands(func, part, tuple, offset);
            offset += part
                .reg()
                .map_or(1, |reg| i16::from(func.reg_type(reg).len()));
        }
    }

    fn join_operands(&mut self, func: &Function, a: Operand, b: Operand, offset: i16) {
        if let (Some(a), Some(b)) = (a.as_value(), b.as_value()) {
            self.join(func, a, b, offset);
        }
    }

    /// Wishes for `a` to lie `offset` registers after `b`.
    fn join(&mut self, func: &Function, a: Value, b: Value, offset: i16) {
        if func.value_type(a).class() != func.value_type(b).class() {
            return;
        }
        let (root_a, at_a) = self.find(a.as_u32());
        let (root_b, at_b) = self.find(b.as_u32());
        if root_a == root_b {
            return;
        }
        // Where the root of `a` lies in terms of the root of `b`.
        let shift = at_b + offset - at_a;
        let (one, other) = (self.groups[root_b as usize], self.groups[root_a as usize]);
        let low = one.low.min(other.low + shift);
        let high = one.high.max(other.high + shift);
        // The root of `b` is `residue - shift` modulo the alignment of `a`'s group.
        let from_a = (i16::from(other.residue) - shift).rem_euclid(i16::from(other.align)) as u8;
        let (align, residue, agrees) = if one.align >= other.align {
            (one.align, one.residue, one.residue % other.align == from_a)
        } else {
            (other.align, from_a, from_a % one.align == one.residue)
        };
        if high - low > LONGEST.max(one.high - one.low).max(other.high - other.low) || !agrees {
            return;
        }
        self.parent[root_a as usize] = root_b;
        self.shift[root_a as usize] = shift;
        self.groups[root_b as usize] = Group {
            low,
            high,
            align,
            residue,
            pending: one.pending + other.pending,
            settled: None,
        };
    }

    /// The root of a value's group, and the value's position relative to the root's. Shortens the path.
    fn find(&mut self, value: u32) -> (u32, i16) {
        let mut root = value;
        let mut total = 0;
        while self.parent[root as usize] != root {
            total += self.shift[root as usize];
            root = self.parent[root as usize];
        }
        let (mut at, mut rest) = (value, total);
        while self.parent[at as usize] != root && at != root {
            let next = self.parent[at as usize];
            let step = self.shift[at as usize];
            self.parent[at as usize] = root;
            self.shift[at as usize] = rest;
            rest -= step;
            at = next;
        }
        (root, total)
    }

    /// Where `value` would like to lie, if anywhere.
    pub(super) fn wish(&mut self, value: Value) -> Option<Wish> {
        let (root, at) = self.find(value.as_u32());
        let group = self.groups[root as usize];
        match group.settled {
            Some(base) => u8::try_from(base + at).ok().map(Wish::At),
            None if group.pending > 1 => {
                let align = i16::from(group.align);
                Some(Wish::Within {
                    below: (at - group.low) as u8,
                    span: (group.high - group.low) as u8,
                    align: group.align,
                    residue: (i16::from(group.residue) + group.low).rem_euclid(align) as u8,
                })
            }
            None => None,
        }
    }

    /// Notes that `value` was given `register`.
    pub(super) fn settle(&mut self, value: Value, register: u8) -> Settled {
        let (root, at) = self.find(value.as_u32());
        let group = &mut self.groups[root as usize];
        let waited = group.pending > 0;
        group.pending = group.pending.saturating_sub(1);
        let first = group.settled.is_none();
        let base = *group.settled.get_or_insert(i16::from(register) - at);
        Settled {
            group: Wished {
                group: root,
                low: base + group.low,
                high: base + group.high,
            },
            first,
            waits: group.pending > 0,
            last: waited && group.pending == 0,
        }
    }

    /// The group of `value` and the registers it wishes for; none before it is settled.
    pub(super) fn wished(&mut self, value: Value) -> Wished {
        let group = self.find(value.as_u32()).0;
        let data = self.groups[group as usize];
        let (low, high) = match data.settled {
            Some(base) => (base + data.low, base + data.high),
            None => (0, 0),
        };
        Wished { group, low, high }
    }
}

/// A group, and the registers it wishes for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wished {
    /// The group's number.
    pub(super) group: u32,
    /// The first register; negative where the group begins before the file.
    pub(super) low: i16,
    /// One past the last register.
    pub(super) high: i16,
}

/// What became of a group when one of its members was given a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    /// Where the group would like to lie.
    pub(super) group: Wished,
    /// Whether this decided it.
    pub(super) first: bool,
    /// Whether members still wait for a register.
    pub(super) waits: bool,
    /// Whether this was the last that did.
    pub(super) last: bool,
}
