//! Alias analysis: which accesses to memory may touch the same bytes.
//!
//! Two accesses are apart when their spaces are, when one of them reads memory that nobody writes, when they name different
//! variables, or when they have the same base and constant offsets that are far enough apart. Everything else may overlap.
//!
//! The bytes that this lane leaves alone may be those that the next lane touches, but what lanes tell each other goes through a barrier, a fence
//! or a strong access, all of which [`super::order`] holds on to. That is known of functions in SSA form only, where `bar.warp.sync` is an instruction
//! and `volatile` a mark on the access. On physical registers, where the code may be anybody's, shared accesses do not show `volatile`: offsets tell
//! accesses to local memory apart, and no others.
//!
//! A base is known by the value in it: in SSA form the value itself, on physical registers the register and how often it has been
//! written in the block. A 32-bit base that is another one plus a constant is replaced by that one, and so are the terms of one that is a sum of two: places of the same number in
//! arrays that lie behind one another are apart.

use super::build::operations;
use super::order;
use orias_machine::Machine;
use orias_ori::{Function, Inst, Level, Operand, Operation, OptReg, Reg, RegKind, SourceMods};
use orias_sass::{Op, Space, modifier_values as value};
use smallvec::SmallVec;

/// What an address is relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base {
    /// The base register and which of its contents.
    pub base: Option<(Reg, u32)>,
    /// Another register that is added to it, and which of its contents: of a sum of two values.
    pub index: Option<(Reg, u32)>,
    /// The uniform register.
    pub uniform: Option<(Reg, u32)>,
    /// The variable.
    pub symbol: Option<u32>,
    /// How the base is read: form and scale.
    pub form: (u8, u16),
}

impl Base {
    fn is_static(&self) -> bool {
        self.base.is_none() && self.index.is_none() && self.uniform.is_none()
    }
}

/// One access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRef {
    /// Where.
    pub space: Space,
    /// What the address is relative to; none where nothing is known of it.
    pub base: Option<Base>,
    /// The first byte.
    pub offset: i64,
    /// How many bytes; none where it is not known.
    pub size: Option<u8>,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Whether others of the same base touch other bytes if their offsets say so.
    pub is_told_by_offset: bool,
}

impl MemoryRef {
    /// Whether the two must stay in their order.
    pub fn conflicts(&self, other: &MemoryRef) -> bool {
        (self.writes || other.writes) && self.may_overlap(other)
    }

    /// Whether the two may touch the same bytes.
    pub fn may_overlap(&self, other: &MemoryRef) -> bool {
        if !spaces_meet(self.space, other.space) {
            return false;
        }
        let (Some(mine), Some(theirs)) = (&self.base, &other.base) else {
            return true;
        };
        if self.space != other.space {
            return true;
        }
        if mine.is_static() && theirs.is_static() && mine.symbol != theirs.symbol {
            // An absolute address may be anywhere.
            return mine.symbol.is_none() || theirs.symbol.is_none();
        }
        if mine != theirs || !(self.is_told_by_offset && other.is_told_by_offset) {
            return true;
        }
        match (self.size, other.size) {
            (Some(size), Some(other_size)) => {
                // Sums of 32 bits wrap, and so does what is known of them: only the low word of the distance is.
                let distance = i64::from(other.offset.wrapping_sub(self.offset) as i32);
                -i64::from(other_size) < distance && distance < i64::from(size)
            }
            _ => true,
        }
    }
}

/// Whether two spaces share bytes that somebody may write.
pub fn spaces_meet(a: Space, b: Space) -> bool {
    use Space::*;
    match (a, b) {
        (Constant | Texture, _) | (_, Constant | Texture) => false,
        (Generic, Global | Shared | Local | Generic) | (Global | Shared | Local, Generic) => true,
        (Surface, Global | Generic) | (Global | Generic, Surface) => true,
        _ => a == b,
    }
}

/// The accesses of `inst`, with `version` telling how often a register has been written so far.
pub fn accesses(
    func: &Function,
    inst: Inst,
    version: &mut dyn FnMut(Reg) -> u32,
) -> SmallVec<[MemoryRef; 2]> {
    let Operation::Machine(op, mods) = func.inst(inst).operation() else {
        return SmallVec::new();
    };
    let machine = Machine::of(func.target);
    let facts = operations::of(machine, op);
    if !facts.touches_memory || order::is_read_only(facts, mods) {
        return SmallVec::new();
    }
    let row = op.row();
    let mut addresses = func
        .operands(inst)
        .iter()
        .filter_map(|operand| match operand {
            Operand::Address(id) => Some(*func.address(*id)),
            _ => None,
        });
    // With two addresses the row does not say which one is which memory.
    let address = match (addresses.next(), addresses.next()) {
        (Some(address), None) if row.memory.len() == 1 => Some(address),
        _ => None,
    };
    let size = access_size(machine, op, mods);
    row.memory
        .iter()
        .map(|memory| {
            let mut offset = 0;
            let base = address.map(|address| {
                offset = i64::from(address.offset);
                let scale = facts.scale_modifier.map_or(0, |scale| mods.get(scale));
                let mut key = |reg: OptReg| {
                    reg.get()
                        .filter(|reg| !is_zero(*reg))
                        .map(|reg| (reg, version(reg)))
                };
                let uniform = key(address.uniform);
                let mut base = key(address.base);
                let mut index = None;
                if scale == 0
                    && let Some((root, added)) = base.and_then(|(reg, _)| root_of(func, reg))
                {
                    base = key(OptReg::from(root));
                    offset += added;
                }
                if scale == 0
                    && let Some((terms, added)) = base.and_then(|(reg, _)| terms_of(func, reg))
                {
                    [base, index] = terms.map(|term| key(OptReg::from(term)));
                    offset += added;
                }
                Base {
                    base,
                    index,
                    uniform,
                    symbol: address.symbol.expand().map(|symbol| symbol.as_u32()),
                    form: (address.form as u8, scale),
                }
            });
            MemoryRef {
                space: memory.space,
                base,
                offset,
                size,
                reads: memory.reads,
                writes: memory.writes,
                is_told_by_offset: match memory.space {
                    Space::Local => true,
                    Space::Shared | Space::Global | Space::Generic => func.level <= Level::Machine,
                    _ => false,
                },
            }
        })
        .collect()
}

fn is_zero(reg: Reg) -> bool {
    matches!(reg.kind(), RegKind::Phys(reg) if reg.is_constant())
}

/// Bytes a lane touches; none where lanes bring addresses for each other, or the row does not say.
pub(super) fn access_size(machine: &Machine, op: Op, mods: orias_sass::Mods) -> Option<u8> {
    let modifier = operations::of(machine, op).size_modifier?;
    match modifier.value(mods.get(modifier))?.id() {
        value::U8 | value::S8 => Some(1),
        value::U16 | value::S16 => Some(2),
        value::_32 | value::S32 => Some(4),
        value::_64 | value::S64 => Some(8),
        value::_128 => Some(16),
        _ => None,
    }
}

/// How many sums are looked through.
const SUMS: usize = 4;

/// What a 32-bit value is a constant more than: `v + 4 + 8` is `(v, 12)`.
fn root_of(func: &Function, reg: Reg) -> Option<(Reg, i64)> {
    let mut root = reg;
    let mut sum = 0i64;
    for _ in 0..SUMS {
        let Some((next, added)) = addend(func, root) else {
            break;
        };
        root = next;
        sum += added;
    }
    (root != reg).then_some((root, sum))
}

/// The terms of a 32-bit value that is a sum of two others, each without what it is more than a third one, and what that comes to.
fn terms_of(func: &Function, reg: Reg) -> Option<([Reg; 2], i64)> {
    let value = reg.value()?;
    if func.value_type(value).len() != 1 {
        return None;
    }
    let inst = func.defining_inst(value)?;
    if func.opcode(inst).as_machine()? != Op::IADD3 || !func.inst(inst).guard().is_always() {
        return None;
    }
    let mut terms: SmallVec<[Reg; 3]> = SmallVec::new();
    for (slot, operand) in func.operands(inst).iter().enumerate() {
        match *operand {
            _ if func.is_def(inst, slot) => {}
            Operand::Reg { reg, .. } if is_zero(reg) => {}
            Operand::Reg { reg, mods } if mods == SourceMods::NONE => terms.push(reg),
            _ => return None,
        }
    }
    let [a, b] = terms[..].try_into().ok()?;
    let mut sum = 0;
    let mut terms = [a, b].map(|term: Reg| match root_of(func, term) {
        Some((root, added)) => {
            sum += added;
            root
        }
        None => term,
    });
    terms.sort_unstable();
    Some((terms, sum))
}

/// One step: the other summand of a sum of a value and a constant.
fn addend(func: &Function, reg: Reg) -> Option<(Reg, i64)> {
    let value = reg.value()?;
    if func.value_type(value).len() != 1 {
        return None;
    }
    let inst = func.defining_inst(value)?;
    let op = func.opcode(inst).as_machine()?;
    if !matches!(op, Op::IADD3 | Op::VIADD) || !func.inst(inst).guard().is_always() {
        return None;
    }
    let mut root = None;
    let mut sum = 0i64;
    for (slot, operand) in func.operands(inst).iter().enumerate() {
        if func.is_def(inst, slot) {
            continue;
        }
        match *operand {
            Operand::Imm(imm) => sum += i64::from(imm.bits() as u32 as i32),
            Operand::Reg { reg, .. } if is_zero(reg) => {}
            Operand::Reg { reg, mods } if mods == SourceMods::NONE && root.is_none() => {
                root = Some(reg);
            }
            _ => return None,
        }
    }
    Some((root?, sum))
}
