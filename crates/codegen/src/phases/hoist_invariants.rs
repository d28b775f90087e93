//! HoistInvariants (10022): loop-invariant code motion (LICM). What a loop computes anew in every iteration, though nothing in it changes, is computed before it.
//!
//! An instruction may leave a loop if its operands are defined outside (or leave it, too) and it has no effect but its results. It goes to the
//! end of the preheader of the outermost loop it may leave, from there on computed once.
//!
//! **Loads** leave a loop if they are weak, nothing in the loop may change what they find (a store, an atomic operation or a call to the same space; a barrier, after which other threads' stores
//! are seen; data that is never written, `ld.global.nc`, is exempt), and they would be executed anyhow: their block is the first of the loop or follows it on the only way.
//!
//! **Registers.** What leaves a loop occupies registers in all of it. There is room up to the pressure that the function has elsewhere, or to the number of registers that leaves as many warps as there can
//! be ([`Occupancy::free`]), and for [`PREDICATES`] predicates. An operand that nobody else reads makes up for the result. Copies of numbers, parameters, tuples and their parts stay where they are unless something that
//! leaves needs them: they are operands of instructions in the end, or nothing at all.
//!
//! **Shuffles** among all lanes of a warp leave a loop if whole warps run both where they stand and before the loop: what lanes hand out is the same in every iteration.
//!
//! Only what runs in every iteration leaves (its block dominates a latch): on a rare path nothing would be won. Irreducible loops are left by nothing.
//!
//! Liveness and pressure once, then one visit of each instruction and the loops around it: linear in the function times the depth of nesting.

use super::memory_changes::Changes;
use crate::loops::{LoopAnalyses, preheader};
use crate::pipeline::{Context, PhaseError};
use crate::schedule::budget::{Occupancy, hard_limit};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use orias_ori::analysis::{DefUse, Divergence, Liveness, Loop, Pressure};
use orias_ori::operation::{Cache, Order, Space, Special};
use orias_ori::{AbstractOp, Block, Class, Effects, Function, Inst, Operand, Value};

/// Predicates that may be live in a loop before nothing more is added: one of seven is left to the loop's own.
const PREDICATES: u32 = 5;

/// How many blocks are followed from a header to see what is executed anyhow.
const CERTAIN: usize = 8;

/// Runs the phase.
pub fn hoist_invariants(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    if func.entry().is_none() {
        return Ok(());
    }
    let shape = LoopAnalyses::of(func);
    if shape.nest.is_empty() {
        return Ok(());
    }
    let files = context.machine.registers;
    let live = Liveness::new(func, &shape.graph);
    let pressure = Pressure::new(func, &live);
    let most = pressure.overall()[Class::R];
    // What selection and allocation add is not known here: only what is free, or needed elsewhere anyhow, is taken.
    let free = u32::try_from(Occupancy::new(func, files).free()).unwrap_or(0);
    let budget = free.min(hard_limit(func, files, 0)).max(most);
    let uses = DefUse::new(func);
    let shuffles = || {
        let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
        insts.any(|inst| matches!(kind(func, inst), Kind::Shuffle))
    };
    let divergence =
        shuffles().then(|| Divergence::new(func, &shape.graph, &shape.walk, &shape.nest, &uses));
    let mut hoister = Hoister {
        loops: shape
            .nest
            .loops()
            .map(|each| LoopFacts::of(func, &shape, &pressure, each))
            .collect(),
        uses,
        divergence,
        shape: &shape,
        budget,
        leaves: SecondaryMap::new(),
    };
    hoister.find(func);
    hoister.choose(func);
    hoister.apply(func);
    Ok(())
}

/// What is known of a loop, those in it included.
struct LoopFacts {
    /// The most registers live in it, hoisted values included.
    registers: u32,
    predicates: u32,
    /// What may change in it.
    changes: Changes,
    /// The blocks that are executed whenever it is entered.
    certain: Vec<Block>,
}

impl LoopFacts {
    fn of(func: &Function, shape: &LoopAnalyses, pressure: &Pressure, each: Loop) -> Self {
        let nest = &shape.nest;
        let (mut registers, mut predicates) = (0, 0);
        let mut changes = Changes::default();
        for &block in nest.own_blocks(each) {
            let counts = pressure.in_block(block);
            registers = registers.max(counts[Class::R]);
            predicates = predicates.max(counts[Class::P]);
            for inst in func.block_insts(block) {
                changes.note(func, inst);
            }
        }
        let mut certain = vec![nest.header(each)];
        while let Some(&last) = certain.last()
            && certain.len() < CERTAIN
        {
            let mut next = func.successors(last);
            match (next.next(), next.next()) {
                (Some(only), None) if nest.contains(each, only) && !certain.contains(&only) => {
                    certain.push(only);
                }
                _ => break,
            }
        }
        Self {
            registers,
            predicates,
            changes,
            certain,
        }
    }
}

/// How an instruction may move.
enum Kind {
    /// Not at all.
    Stays,
    /// It costs nothing where it is; it moves if something needs it.
    Free,
    /// Anywhere.
    Pure,
    /// As a load from this space.
    Load(Space),
    /// Between places where whole warps run.
    Shuffle,
}

fn kind(func: &Function, inst: Inst) -> Kind {
    use AbstractOp as A;
    let Some(op) = func.opcode(inst).as_abstract() else {
        return Kind::Stays;
    };
    match op {
        A::Mov | A::Collect | A::Split | A::Undef | A::CvtaTo => Kind::Free,
        A::Sreg
            if func
                .modifier::<Special>(inst)
                .is_some_and(super::common_subexpressions::is_fixed) =>
        {
            Kind::Pure
        }
        A::Ld if func.modifier::<Order>(inst) == Some(Order::Weak) => {
            match func.modifier::<Space>(inst) {
                Some(Space::Param) => Kind::Free,
                Some(space) => Kind::Load(space),
                None => Kind::Stays,
            }
        }
        A::Shfl => {
            let mask = func.operands(inst)[func.result_count(inst)..].get(3);
            match mask {
                Some(Operand::Imm(mask)) if mask.bits() as u32 == u32::MAX => Kind::Shuffle,
                _ => Kind::Stays,
            }
        }
        _ if op.row().effects == Effects::NONE => Kind::Pure,
        _ => Kind::Stays,
    }
}

struct Hoister<'a> {
    shape: &'a LoopAnalyses,
    uses: DefUse,
    loops: Vec<LoopFacts>,
    budget: u32,
    /// By instruction: the outermost loop it may leave.
    leaves: SecondaryMap<Inst, PackedOption<Loop>>,
    /// Where lanes run together, if that matters.
    divergence: Option<Divergence>,
}

impl Hoister<'_> {
    /// Whether part of a warp may run in `block`.
    fn is_partial(&self, block: Block) -> bool {
        (self.divergence.as_ref()).is_none_or(|divergence| divergence.is_partial(block))
    }

    /// Finds which loops instructions may leave, if registers do not matter.
    fn find(&mut self, func: &Function) {
        // Loops know what the loops in them change and need.
        for each in self.shape.nest.loops().rev() {
            if let Some(outer) = self.shape.nest.parent(each) {
                let inner = &self.loops[each.as_u32() as usize];
                let (registers, predicates, changes) =
                    (inner.registers, inner.predicates, inner.changes);
                let outer = &mut self.loops[outer.as_u32() as usize];
                outer.registers = outer.registers.max(registers);
                outer.predicates = outer.predicates.max(predicates);
                outer.changes = outer.changes.with(changes);
            }
        }
        for block in self.shape.walk.reverse_postorder() {
            let Some(home) = self.shape.nest.innermost(block) else {
                continue;
            };
            for inst in func.block_insts(block) {
                let kind = kind(func, inst);
                if !matches!(kind, Kind::Stays) {
                    self.leaves[inst] = self.outermost(func, inst, block, home, &kind).into();
                }
            }
        }
    }

    /// The outermost loop around `block` that `inst` may leave.
    fn outermost(
        &self,
        func: &Function,
        inst: Inst,
        block: Block,
        home: Loop,
        kind: &Kind,
    ) -> Option<Loop> {
        let nest = &self.shape.nest;
        let mut found = None;
        let mut at = Some(home);
        while let Some(each) = at {
            let facts = &self.loops[each.as_u32() as usize];
            let often = nest
                .latches(each)
                .iter()
                .any(|&latch| self.shape.tree.dominates(block, latch));
            let legal = match *kind {
                Kind::Load(space) => {
                    let constant = func.modifier::<Cache>(inst) == Some(Cache::Nc);
                    (constant || !facts.changes.touch(space)) && facts.certain.contains(&block)
                }
                Kind::Shuffle => {
                    let whole = |block: Block| !self.is_partial(block);
                    let entering = self.shape.incoming(nest.header(each)).iter();
                    whole(block) && (entering.map(|&(from, _)| from)).all(whole)
                }
                _ => true,
            };
            let invariant = func
                .value_uses(inst)
                .all(|value| !self.is_defined_in(func, value, each));
            if nest.is_irreducible(each) || !often || !legal || !invariant {
                break;
            }
            found = Some(each);
            at = nest.parent(each);
        }
        found
    }

    /// Whether `value` is defined in `each` and does not leave it.
    fn is_defined_in(&self, func: &Function, value: Value, each: Loop) -> bool {
        let Some(block) = func.defining_block(value) else {
            return true;
        };
        let nest = &self.shape.nest;
        if !nest.contains(each, block) {
            return false;
        }
        let left = func
            .defining_inst(value)
            .and_then(|inst| self.leaves[inst].expand());
        left.is_none_or(|left| !nest.encloses(left, each))
    }

    /// Keeps what there is room for and what that needs; the rest stays.
    fn choose(&mut self, func: &Function) {
        let mut wanted: SecondaryMap<Inst, bool> = SecondaryMap::new();
        let order: Vec<Block> = self.shape.walk.reverse_postorder().collect();
        for &block in &order {
            for inst in func.block_insts(block) {
                let Some(left) = self.leaves[inst].expand() else {
                    continue;
                };
                // An operand may have been refused its place.
                let ready = func
                    .value_uses(inst)
                    .all(|value| !self.is_defined_in(func, value, left));
                let free = matches!(kind(func, inst), Kind::Free);
                if !ready || !free && !self.fits(func, inst, left) {
                    self.leaves[inst] = None.into();
                } else {
                    wanted[inst] = !free;
                }
            }
        }
        // From the uses to the definitions: what is free moves with what needs it.
        for &block in order.iter().rev() {
            for inst in func.block_insts(block).rev() {
                if self.leaves[inst].is_none() {
                    continue;
                }
                if !wanted[inst] {
                    self.leaves[inst] = None.into();
                    continue;
                }
                for value in func.value_uses(inst) {
                    if let Some(def) = func.defining_inst(value) {
                        wanted[def] = true;
                    }
                }
            }
        }
    }

    /// Whether there is room for the results of `inst` in `left` and the loops in it that it comes from; if so, it is taken.
    fn fits(&mut self, func: &Function, inst: Inst, left: Loop) -> bool {
        let width = |value: Value, class: Class| {
            let ty = func.value_type(value);
            u32::from(ty.len()) * u32::from(ty.class() == class)
        };
        let needs = |class| {
            func.value_defs(inst)
                .map(|value| width(value, class))
                .sum::<u32>()
        };
        let (mut registers, predicates) = (needs(Class::R), needs(Class::P));
        for value in func.value_uses(inst) {
            let outside = func
                .defining_block(value)
                .is_some_and(|block| !self.shape.nest.contains(left, block));
            let only = self.uses.uses(value).iter().all(|it| it.inst == inst);
            if outside && only {
                registers = registers.saturating_sub(width(value, Class::R));
            }
        }
        let facts = &self.loops[left.as_u32() as usize];
        if facts.registers + registers > self.budget || facts.predicates + predicates > PREDICATES {
            return registers == 0 && predicates == 0;
        }
        let mut at = Some(left);
        while let Some(each) = at {
            let facts = &mut self.loops[each.as_u32() as usize];
            facts.registers += registers;
            facts.predicates += predicates;
            at = self.shape.nest.parent(each);
        }
        true
    }

    /// Moves what leaves.
    fn apply(&self, func: &mut Function) {
        let mut preheaders: Vec<PackedOption<Block>> = vec![None.into(); self.shape.nest.len()];
        let mut no_place = vec![false; self.shape.nest.len()];
        for block in self.shape.walk.reverse_postorder() {
            let mut next = func.layout.first_inst(block);
            while let Some(inst) = next {
                next = func.layout.next_inst(inst);
                let Some(left) = self.leaves[inst].expand() else {
                    continue;
                };
                let place = left.as_u32() as usize;
                if preheaders[place].is_none() && !no_place[place] {
                    preheaders[place] = preheader(func, self.shape, left).into();
                    no_place[place] = preheaders[place].is_none();
                }
                let Some(end) = preheaders[place]
                    .expand()
                    .and_then(|block| func.terminator(block))
                else {
                    continue;
                };
                func.layout.remove_inst(inst);
                func.layout.insert_inst_before(inst, end);
            }
        }
    }
}
