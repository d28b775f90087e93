//! EliminateCommonSubexpressions (10005): common subexpression elimination (CSE) in the scope of dominators, a global value numbering (GVN) by hashing, and constant folding.
//!
//! Expansions repeat themselves (the reciprocal of a divisor for every quotient), and so do programs whose pieces do not know of
//! each other (inline assembly that makes the same cache policy before each access and loads the same words again).
//!
//! **Equal expressions.** Blocks are visited in preorder of the dominator tree. An instruction that does what an earlier one did, with
//! the same operands, where the earlier one's block dominates this one, goes away, and its results are the earlier one's. It may carry a
//! guard: the same guard and the same kept values make the same result. Sums and the like are the same in either order of their operands.
//!
//! **Known operands.** An operation on integers or finite numbers whose operands are all known becomes its result, as the
//! [`fold`] computes it. No approximate function is computed, since only the chip knows its last bits, and nothing that
//! yields a NaN. A guard that is known goes, and so does what it never lets happen.
//!
//! **Loads.** A weak load is shared with an earlier one of its block, as long as nothing lies between that writes or orders memory or
//! lets lanes meet. A shuffle is shared with an earlier one of its block: the same lanes take part in both. What cannot change (parameters, constants, special registers that stay as they are) is shared like any expression.
//!
//! What it does not do: it moves nothing, knows no algebra, and does not look into loops from outside.
//!
//! One visit of each instruction with a table: linear. GeneralOptimize's rewrites follow where something was found. Where they take out blocks or
//! parameters of blocks, values that came around a loop or from two sides may have become known, and the walk is repeated, at most
//! [`MAX_WALKS`] times.

use super::general_optimize::optimize_general;
use crate::fold;
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use orias_ori::analysis::{DepthFirst, DominatorTree, FlowGraph};
use orias_ori::operation::{AbstractMods, Modifier, Order, Scalar, SourceType, Space, Special};
use orias_ori::{
    AbstractOp, Address, Block, Effects, Function, Guard, Inst, Operand, Operation, OptReg, Reg,
    SourceMods, Type, Value,
};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// The count of changes for what no change of memory touches.
const ANY_TIME: u32 = u32::MAX;

/// What makes two instructions compute the same, besides operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    operation: Operation,
    address: Option<Address>,
    /// For what is shared within a block only: the block, and how often memory has changed there.
    memory: Option<(Block, u32)>,
}

/// The instructions that may be found again, by what they compute.
#[derive(Default)]
struct Table {
    /// The last entry of each hash.
    heads: FxHashMap<u64, u32>,
    entries: Vec<Entry>,
    /// The operands of all entries.
    operands: Vec<Operand>,
}

/// One of them.
struct Entry {
    key: Key,
    first_operand: u32,
    operand_count: u32,
    /// The entry before it that has the same hash.
    next: u32,
    inst: Inst,
    block: Block,
}

/// Where a list of entries ends.
const END: u32 = u32::MAX;

impl Table {
    /// The entry of what computes the same, or nothing, and then `inst` of `block` is one from now on.
    fn find_or_add(
        &mut self,
        key: Key,
        operands: &[Operand],
        inst: Inst,
        block: Block,
    ) -> Option<&mut Entry> {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        operands.hash(&mut hasher);
        let head = self.heads.entry(hasher.finish()).or_insert(END);
        let mut at = *head;
        while at != END {
            let entry = &self.entries[at as usize];
            let own = &self.operands[entry.first_operand as usize..];
            if entry.key == key && own[..entry.operand_count as usize] == *operands {
                return Some(&mut self.entries[at as usize]);
            }
            at = entry.next;
        }
        self.entries.push(Entry {
            key,
            first_operand: self.operands.len() as u32,
            operand_count: operands.len() as u32,
            next: std::mem::replace(head, self.entries.len() as u32),
            inst,
            block,
        });
        self.operands.extend_from_slice(operands);
        None
    }
}

/// More walks than programs need.
const MAX_WALKS: usize = 8;

/// Runs the phase.
pub fn eliminate_common_subexpressions(
    func: &mut Function,
    context: &Context<'_>,
) -> Result<(), PhaseError> {
    if func.entry().is_none() {
        return Ok(());
    }
    for _ in 0..MAX_WALKS {
        if !walk(func) {
            break;
        }
        let before = joins(func);
        optimize_general(func, context)?;
        if joins(func) == before {
            break;
        }
    }
    Ok(())
}

/// How many blocks and parameters of blocks there are.
fn joins(func: &Function) -> (usize, usize) {
    let parameters = func.blocks().map(|block| func.block_params(block).len());
    (func.blocks().count(), parameters.sum())
}

/// Looks at every instruction once; whether anything was found.
fn walk(func: &mut Function) -> bool {
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let tree = DominatorTree::new(&graph, &walk);
    let mut values = Values::default();
    let mut table = Table::default();
    let mut operands: SmallVec<[Operand; 16]> = SmallVec::new();
    let mut redundant = Vec::new();
    let mut folded = false;
    for block in tree.preorder() {
        let mut changes = 0;
        let mut next = func.layout.first_inst(block);
        while let Some(inst) = next {
            next = func.layout.next_inst(inst);
            match values.known_guard(func, inst) {
                Some(true) => {
                    func.set_guard(inst, Guard::ALWAYS);
                    func.set_kept(inst, &[]);
                    folded = true;
                }
                Some(false) => {
                    values.keep(func, inst);
                    redundant.push(inst);
                    continue;
                }
                None => {}
            }
            if let Some(bits) = values.known_result(func, inst) {
                folded |= become_constant(func, inst, bits);
            }
            if let Some((value, bits)) = known_copy(func, inst) {
                values.known[value] = Some(bits);
                continue;
            }
            // The types of the results, then the operands, the kept values and the guard; memory operands apart.
            operands.clear();
            let Some(key) = values.key(func, inst, (block, changes), &mut operands) else {
                changes += u32::from(changes_memory(func, inst));
                continue;
            };
            // Lanes meet at a shuffle, shared or not.
            changes += u32::from(key.memory.is_some() && changes_memory(func, inst));
            let Some(entry) = table.find_or_add(key, &operands, inst, block) else {
                continue;
            };
            if tree.dominates(entry.block, block) {
                let results: SmallVec<[(Value, Value); 2]> = func
                    .value_defs(inst)
                    .zip(func.value_defs(entry.inst))
                    .collect();
                for (again, result) in results {
                    values.names[again] = result.into();
                }
                redundant.push(inst);
            } else {
                // An entry of another branch of the tree is of no use any more.
                entry.inst = inst;
                entry.block = block;
            }
        }
    }
    if redundant.is_empty() && !folded {
        return false;
    }
    for inst in redundant {
        func.remove_inst(inst);
    }
    func.map_all_uses(|reg| values.current(reg));
    true
}

/// What is known about values.
#[derive(Default)]
struct Values {
    /// The value that stands for another. It was defined first, so nothing stands for it in turn.
    names: SecondaryMap<Value, PackedOption<Value>>,
    /// The bits of those that are constants.
    known: SecondaryMap<Value, Option<u64>>,
}

impl Values {
    /// The register that stands for `reg`.
    fn current(&self, reg: Reg) -> Reg {
        match reg.value().and_then(|value| self.names[value].expand()) {
            Some(value) => Reg::from(value),
            None => reg,
        }
    }

    /// Whether the guard of `inst` always holds, or never.
    fn known_guard(&self, func: &Function, inst: Inst) -> Option<bool> {
        let guard = func.inst(inst).guard();
        let value = self.current(guard.reg()?).value()?;
        Some((self.known[value]? & 1 == 1) != guard.is_negated())
    }

    /// Lets what `inst` keeps stand for its results.
    fn keep(&mut self, func: &Function, inst: Inst) {
        let kept = func.kept(inst).iter().filter_map(|kept| kept.as_value());
        for (result, kept) in func.value_defs(inst).zip(kept) {
            self.names[result] = self.names[kept].expand().unwrap_or(kept).into();
        }
    }

    /// Whether an operand has bits that are known, whatever is done to them.
    /// The bits of the one result of `inst`, if they follow from what is known.
    fn known_result(&self, func: &Function, inst: Inst) -> Option<u64> {
        known_result(func, inst, |reg| self.known[self.current(reg).value()?])
    }

    /// What `inst` computes, if that may be shared, with what it computes it of in `operands`.
    fn key(
        &self,
        func: &Function,
        inst: Inst,
        now: (Block, u32),
        operands: &mut SmallVec<[Operand; 16]>,
    ) -> Option<Key> {
        let data = func.inst(inst);
        let operation = data.operation();
        let Operation::Abstract(op, _) = operation else {
            return None;
        };
        let memory = match op {
            AbstractOp::Undef | AbstractOp::Mov => return None,
            AbstractOp::Sreg => {
                is_fixed(func.modifier(inst)?).then_some(())?;
                None
            }
            AbstractOp::Ld if func.modifier::<Order>(inst) == Some(Order::Weak) => {
                match func.modifier::<Space>(inst)? {
                    Space::Param | Space::Const => None,
                    _ => Some(now),
                }
            }
            AbstractOp::Shfl => Some((now.0, ANY_TIME)),
            _ if op.row().effects == Effects::NONE => None,
            _ => return None,
        };
        let mut address = None;
        for (index, &operand) in func.operands(inst).iter().enumerate() {
            if index < func.result_count(inst) {
                // A result that one of the two throws away makes them differ.
                let ty = operand.as_value().map(|value| func.value_type(value));
                let len = ty.map_or(0, |ty| u64::from(ty.len()));
                operands.push(Operand::imm(
                    len << 8 | ty.map_or(0, |ty| ty.class() as u64),
                ));
                continue;
            }
            operands.push(match operand {
                Operand::Reg { reg, mods } => {
                    let reg = self.current(reg);
                    let known = reg.value().and_then(|value| self.known[value]);
                    match known.filter(|_| mods.is_empty() && op != AbstractOp::Collect) {
                        Some(bits) => Operand::imm(bits),
                        None => Operand::Reg { reg, mods },
                    }
                }
                Operand::Address(id) => {
                    let mut place = *func.address(id);
                    place.base = OptReg::from(place.base.get().map(|reg| self.current(reg)));
                    if address.replace(place).is_some() {
                        return None;
                    }
                    Operand::None
                }
                Operand::Imm(_) | Operand::None | Operand::Symbol { .. } => operand,
                _ => return None,
            });
        }
        let first = func.result_count(inst);
        if is_commutative(op) && rank(operands[first]) > rank(operands[first + 1]) {
            operands.swap(first, first + 1);
        }
        let guard = data.guard();
        if let Some(reg) = guard.reg() {
            let mods = match guard.is_negated() {
                true => SourceMods::NOT,
                false => SourceMods::NONE,
            };
            for &kept in func.kept(inst) {
                let reg = self.current(kept.reg()?);
                operands.push(match reg.value().and_then(|value| self.known[value]) {
                    Some(bits) => Operand::imm(bits),
                    None => reg.into(),
                });
            }
            let reg = self.current(reg);
            operands.push(Operand::Reg { reg, mods });
        }
        Some(Key {
            operation,
            address,
            memory,
        })
    }
}

/// The order in which operands that may change places are compared.
fn rank(operand: Operand) -> u64 {
    match operand {
        Operand::Imm(_) => u64::MAX,
        other => other
            .as_value()
            .map_or(0, |value| 1 + u64::from(value.as_u32())),
    }
}

/// Whether the first two operands may change places.
fn is_commutative(op: AbstractOp) -> bool {
    use AbstractOp as A;
    matches!(
        op,
        A::Add | A::Mul | A::Mad | A::And | A::Or | A::Xor | A::Min | A::Max
    )
}

/// Whether a special register holds the same whenever a thread reads it.
pub(super) fn is_fixed(special: Special) -> bool {
    use Special as S;
    matches!(
        special,
        S::TidX
            | S::TidY
            | S::TidZ
            | S::NtidX
            | S::NtidY
            | S::NtidZ
            | S::CtaidX
            | S::CtaidY
            | S::CtaidZ
            | S::NctaidX
            | S::NctaidY
            | S::NctaidZ
            | S::LaneId
            | S::LanemaskEq
            | S::LanemaskLe
            | S::LanemaskLt
            | S::LanemaskGe
            | S::LanemaskGt
    )
}

/// Whether loads behind `inst` may find something else than loads before it.
pub(super) fn changes_memory(func: &Function, inst: Inst) -> bool {
    const CHANGES: Effects = Effects::WRITES
        .with(Effects::SIDE)
        .with(Effects::CONVERGENT)
        .with(Effects::BARRIER)
        .with(Effects::CALL);
    let ordered = func
        .modifier::<Order>(inst)
        .is_some_and(|order| order != Order::Weak);
    ordered || func.opcode(inst).effects().intersects(CHANGES)
}

/// The type an operation works in, or takes.
fn scalar<M: Modifier + Into<Scalar>>(op: AbstractOp, mods: AbstractMods) -> Option<Scalar> {
    op.row().modifier::<M>(mods).map(Into::into)
}

/// The bits of an operand that is known: of as many registers as it has, or one bit.
fn operand_bits(operand: Operand, ty: Type, known: &impl Fn(Reg) -> Option<u64>) -> Option<u128> {
    let bits = match operand {
        Operand::Imm(imm) => imm.bits(),
        Operand::None => 0,
        _ => known(operand.reg()?)?,
    };
    let bits = match ty {
        Type::P if operand.mods().contains(SourceMods::NOT) => bits ^ 1,
        _ if !operand.mods().is_empty() => return None,
        _ => bits,
    };
    match ty {
        Type::P => Some(u128::from(bits & 1)),
        Type::R => Some(u128::from(bits as u32)),
        Type::R2 => Some(u128::from(bits)),
        _ => None,
    }
}

/// The bits of the one result of `inst`, if they follow from what is `known` of registers.
pub(super) fn known_result(
    func: &Function,
    inst: Inst,
    known: impl Fn(Reg) -> Option<u64>,
) -> Option<u64> {
    let Operation::Abstract(op, mods) = func.inst(inst).operation() else {
        return None;
    };
    let (results, sources) = func.operands(inst).split_at(func.result_count(inst));
    let is_known = |source: &Operand| match source {
        Operand::Imm(_) | Operand::None => true,
        _ => source.reg().and_then(&known).is_some(),
    };
    if !func.inst(inst).guard().is_always()
        || !sources.iter().all(is_known)
        || !is_computable(op, mods)
    {
        return None;
    }
    let mut wanted = results
        .iter()
        .enumerate()
        .filter_map(|(place, result)| Some((place, result.as_value()?)));
    let (place, value) = wanted.next()?;
    if wanted.next().is_some() {
        return None;
    }
    let row = op.row();
    let mut operands: SmallVec<[u128; 4]> = SmallVec::new();
    for (index, &source) in sources.iter().enumerate() {
        let slot = row.operands.get(index)?;
        let ty = row.register_type(slot.kind, mods).unwrap_or(Type::R2);
        operands.push(operand_bits(source, ty, &known)?);
    }
    let missing: SmallVec<[bool; 4]> = sources.iter().map(|it| *it == Operand::None).collect();
    let computed = *fold::exact(op, mods, &operands, &missing)?.get(place)?;
    let bits = match func.value_type(value) {
        Type::P => (computed & 1) as u64,
        Type::R => u64::from(computed as u32),
        Type::R2 => computed as u64,
        _ => return None,
    };
    let nan = match scalar::<Scalar>(op, mods) {
        Some(Scalar::F32) => f32::from_bits(bits as u32).is_nan(),
        Some(Scalar::F64) => f64::from_bits(bits).is_nan(),
        _ => false,
    };
    (!nan || func.value_type(value) == Type::P).then_some(bits)
}

/// Whether the result of folding is the chip's to the last bit.
pub(super) fn is_computable(op: AbstractOp, mods: AbstractMods) -> bool {
    use AbstractOp as A;
    let exact = |scalar: Scalar| {
        matches!(
            scalar,
            Scalar::F32
                | Scalar::F64
                | Scalar::Pred
                | Scalar::B32
                | Scalar::U32
                | Scalar::S32
                | Scalar::B64
                | Scalar::U64
                | Scalar::S64
        )
    };
    let types = scalar::<Scalar>(op, mods).is_none_or(exact)
        && scalar::<SourceType>(op, mods).is_none_or(exact);
    types
        && matches!(
            op,
            A::Add
                | A::Sub
                | A::Mul
                | A::Mad
                | A::Abs
                | A::Neg
                | A::Min
                | A::Max
                | A::And
                | A::Or
                | A::Xor
                | A::Not
                | A::Lop3
                | A::Shl
                | A::Shr
                | A::Shf
                | A::Prmt
                | A::Popc
                | A::Clz
                | A::Bfe
                | A::Bfi
                | A::Fadd
                | A::Fsub
                | A::Fmul
                | A::Ffma
                | A::Fabs
                | A::Fneg
                | A::Fmin
                | A::Fmax
                | A::Setp
                | A::Selp
                | A::Cvt
        )
}

/// The value an unconditional copy of known bits makes, and the bits.
pub(super) fn known_copy(func: &Function, inst: Inst) -> Option<(Value, u64)> {
    let is_copy = func.opcode(inst).as_abstract() == Some(AbstractOp::Mov)
        && func.inst(inst).guard().is_always();
    match func.operands(inst) {
        &[result, Operand::Imm(imm)] if is_copy => Some((result.as_value()?, imm.bits())),
        _ => None,
    }
}

/// Makes `inst`, which has one result that is wanted, a copy of known bits.
fn become_constant(func: &mut Function, inst: Inst, bits: u64) -> bool {
    let Some(value) = func.value_defs(inst).next() else {
        return false;
    };
    let scalar = match func.value_type(value) {
        Type::P => Scalar::Pred,
        Type::R => Scalar::B32,
        _ => Scalar::B64,
    };
    let Some(mods) = AbstractOp::Mov
        .row()
        .with_modifier(AbstractMods::NONE, scalar)
    else {
        return false;
    };
    let operands = [value.into(), Operand::imm(bits)];
    func.replace_with_abstract(inst, AbstractOp::Mov, mods, 1, &operands);
    true
}
