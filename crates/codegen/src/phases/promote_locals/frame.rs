//! Which accesses of a function reach its frame, and where.

use super::MOST_SLOTS;
use crate::known_bits::KnownBits;
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DepthFirst, DominatorTree, FlowGraph};
use orias_ori::operation::{Order, Sat, Scalar, SourceType, Space, Vector};
use orias_ori::{AbstractOp, Block, Function, Inst, Operand, Type, Value};
use smallvec::SmallVec;

/// A load from the frame or a store to it.
pub(super) struct Access {
    pub inst: Inst,
    pub block: Block,
    pub is_store: bool,
    /// How many words it moves.
    pub words: usize,
    /// What is added to the places' `index` field, if they are several.
    pub index: Option<Value>,
    /// Where it may begin.
    pub places: SmallVec<[Place; 1]>,
    /// Whether it becomes values.
    pub promoted: bool,
}

/// Where an access may begin.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The first word.
    pub word: usize,
    /// What the low word of the index is then.
    pub index: u32,
}

impl Access {
    /// The words it may touch.
    pub fn touched(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.words;
        self.places
            .iter()
            .flat_map(move |place| place.word..place.word + words)
    }

    /// How many instructions stand for it if it is promoted.
    fn slots(&self) -> usize {
        match self.places.len() {
            0 | 1 => 0,
            count if self.is_store => count * (1 + self.words),
            // A test of each bit that tells places apart, and a tree of selects.
            count => tests(count) + (count - 1) * self.words,
        }
    }
}

/// How many bits tell so many places apart.
fn tests(places: usize) -> usize {
    (usize::BITS - (places - 1).leading_zeros()) as usize
}

/// An address in the frame, modulo 2 to the 32: a known place and perhaps an index.
#[derive(Clone, Copy)]
struct Pointer {
    offset: u32,
    index: Option<Value>,
    /// A generic address; else one in local memory.
    generic: bool,
}

impl Pointer {
    /// Where the frame starts.
    const FRAME: Self = Self {
        offset: 0,
        index: None,
        generic: false,
    };
}

/// All accesses to the frame of `size` bytes, in the order of dominance; nothing if its address is used in another way.
pub(super) fn accesses(func: &Function, size: u32) -> Option<Vec<Access>> {
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let tree = DominatorTree::new(&graph, &walk);
    let mut known = KnownBits::with_capacity(func.value_count());
    let mut pointers: SecondaryMap<Value, Option<Pointer>> = SecondaryMap::new();
    let mut accesses = Vec::new();
    for block in tree.preorder() {
        for inst in func.block_insts(block) {
            known.learn(func, inst);
            // Arguments lie at the bottom of the frame, where what is called reads them.
            if func.opcode(inst).as_abstract() == Some(AbstractOp::Call) {
                return None;
            }
            if func.opcode(inst).as_abstract() == Some(AbstractOp::StackSave) {
                let result = func.result(inst, 0)?;
                pointers[result] = Some(Pointer::FRAME);
                continue;
            }
            let reads_pointer = func.value_uses(inst).any(|value| pointers[value].is_some());
            if !reads_pointer && !names_frame(func, inst) {
                continue;
            }
            if let Some((result, pointer)) = derived(func, inst, &pointers) {
                pointers[result] = Some(pointer);
                continue;
            }
            accesses.push(access(func, block, inst, size, &known, &pointers)?);
        }
    }
    Some(accesses)
}

/// Whether `inst` has an address of local memory without a base: an offset in the frame.
fn names_frame(func: &Function, inst: Inst) -> bool {
    func.modifier::<Space>(inst) == Some(Space::Local)
        && func.operands(inst).iter().any(|operand| match operand {
            Operand::Address(id) => func.address(*id).base.get().is_none(),
            _ => false,
        })
}

/// The address that `inst` makes of another.
fn derived(
    func: &Function,
    inst: Inst,
    pointers: &SecondaryMap<Value, Option<Pointer>>,
) -> Option<(Value, Pointer)> {
    if !func.inst(inst).guard().is_always() {
        return None;
    }
    let of = |operand: Operand| {
        let value = operand.as_value().filter(|_| operand.mods().is_empty())?;
        pointers[value]
    };
    let scalar = func.modifier::<Scalar>(inst);
    let wide = scalar.is_some_and(|scalar| matches!(scalar.bits(), 32 | 64));
    let space = func.modifier::<Space>(inst);
    let (results, sources) = func.operands(inst).split_at(func.result_count(inst));
    let pointer = match (func.opcode(inst).as_abstract()?, sources) {
        (AbstractOp::Mov, &[a]) if wide => of(a)?,
        (AbstractOp::Cvt, &[a]) if wide => {
            // Zero extension: the low word is what counts.
            let from = Scalar::from(func.modifier::<SourceType>(inst)?);
            let pointer = of(a)?;
            if from.bits() != 32 || pointer.generic {
                return None;
            }
            pointer
        }
        (AbstractOp::Cvta, &[a]) if space == Some(Space::Local) => Pointer {
            generic: true,
            ..of(a).filter(|pointer| !pointer.generic)?
        },
        (AbstractOp::CvtaTo, &[a]) if space == Some(Space::Local) => Pointer {
            generic: false,
            ..of(a).filter(|pointer| pointer.generic)?
        },
        (AbstractOp::Add, &[a, b]) if wide => {
            if func
                .modifier::<Sat>(inst)
                .is_some_and(|sat| sat != Sat::Wrap)
            {
                return None;
            }
            match (of(a), of(b)) {
                (Some(pointer), None) => plus(pointer, b)?,
                (None, Some(pointer)) => plus(pointer, a)?,
                _ => return None,
            }
        }
        (AbstractOp::Collect, &[low, high]) => {
            // The high word of a local address is not looked at.
            of(high).is_none().then_some(())?;
            of(low).filter(|pointer| !pointer.generic)?
        }
        (AbstractOp::Split, &[pair]) => {
            let pointer = of(pair).filter(|pointer| !pointer.generic)?;
            let low = results.first()?.as_value()?;
            (func.value_type(low) == Type::R).then_some(())?;
            return Some((low, pointer));
        }
        _ => return None,
    };
    Some((results.first()?.as_value()?, pointer))
}

/// `pointer` and a number, or an index where it has none.
fn plus(pointer: Pointer, term: Operand) -> Option<Pointer> {
    match term {
        Operand::Imm(number) => Some(Pointer {
            offset: pointer.offset.wrapping_add(number.bits() as u32),
            ..pointer
        }),
        _ => match (pointer.index, term.as_value()) {
            (None, Some(index)) if term.mods().is_empty() => Some(Pointer {
                index: Some(index),
                ..pointer
            }),
            _ => None,
        },
    }
}

/// The access that `inst` makes, which reads an address of the frame; nothing if it is none.
fn access(
    func: &Function,
    block: Block,
    inst: Inst,
    size: u32,
    known: &KnownBits,
    pointers: &SecondaryMap<Value, Option<Pointer>>,
) -> Option<Access> {
    let (_, sources) = func.operands(inst).split_at(func.result_count(inst));
    let (is_store, at) = match (func.opcode(inst).as_abstract()?, sources) {
        (AbstractOp::Ld, &[at, ..]) => (false, at),
        (AbstractOp::St, &[at, ..]) => (true, at),
        _ => return None,
    };
    let Operand::Address(id) = at else {
        return None;
    };
    let address = *func.address(id);
    let base = address.base.get().and_then(|base| base.value());
    let pointer = match base {
        Some(base) => pointers[base]?,
        None => Pointer::FRAME,
    };
    let in_space = match func.modifier::<Space>(inst)? {
        Space::Local => !pointer.generic,
        Space::Generic => pointer.generic,
        _ => false,
    };
    // Every other place of an instruction that has an address lets it out.
    let mut others = func.value_uses(inst).filter(|&value| Some(value) != base);
    let mut behind = sources[1..].iter().filter_map(|operand| operand.as_value());
    if !in_space
        || others.any(|value| pointers[value].is_some())
        || behind.any(|value| Some(value) == base)
        || address.regs().count() != usize::from(base.is_some())
        || address.symbol.is_some()
    {
        return None;
    }
    let count: u32 = match func.modifier::<Vector>(inst)? {
        Vector::V1 => 1,
        Vector::V2 => 2,
        Vector::V4 => 4,
        Vector::V8 => 8,
    };
    let bytes = count * u32::from(func.modifier::<Scalar>(inst)?.bits()) / 8;
    let narrow = func.modifier::<Scalar>(inst)?.bits() < 32;
    let offset = pointer.offset.wrapping_add(address.offset as u32);
    let places = places(func, size, offset, bytes, pointer.index, known);
    if places.is_empty() {
        // Outside of the frame: whatever it means, it stays.
        return None;
    }
    let mut access = Access {
        inst,
        block,
        is_store,
        words: bytes.div_ceil(4) as usize,
        index: pointer.index.filter(|_| places.len() > 1),
        places,
        promoted: false,
    };
    let weak = func.modifier::<Order>(inst)? == Order::Weak;
    access.promoted = weak && !narrow && access.words <= 4 && access.slots() <= MOST_SLOTS;
    Some(access)
}

/// Where an access of so many bytes may begin.
fn places(
    func: &Function,
    size: u32,
    offset: u32,
    bytes: u32,
    index: Option<Value>,
    known: &KnownBits,
) -> SmallVec<[Place; 1]> {
    let Some(last) = size.checked_sub(bytes) else {
        return SmallVec::new();
    };
    let Some(index) = index else {
        let inside = offset <= last && offset.is_multiple_of(bytes.min(4));
        return inside
            .then_some(Place {
                word: offset as usize / 4,
                index: 0,
            })
            .into_iter()
            .collect();
    };
    let bits = match func.value_type(index) {
        Type::R => known.value(index).word(),
        _ => known.value(index).half(false),
    };
    (0..=last)
        .step_by(bytes as usize)
        .map(|place| (place, place.wrapping_sub(offset)))
        .filter(|&(_, index)| {
            let index = u64::from(index);
            index & bits.zeros == 0 && !index & bits.ones == 0
        })
        .map(|(place, index)| Place {
            word: place as usize / 4,
            index,
        })
        .collect()
}
