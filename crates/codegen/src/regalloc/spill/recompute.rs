//! Recomputation: values that a few instructions make again, of values that are in registers or of nothing at all.
//!
//! The mask of a thread's number, an address in shared memory, the halves of a sum: instead of storing such a value and loading it again, its instructions are run again
//! where it is read. A [`Recipe`] names them. It begins with values that are in registers where it is followed, with constants and special registers that never change, and
//! with uniform registers that the first block of the function writes, which all lanes pass. Instructions take a fixed time and do nothing else.
//!
//! Cost: O([`MOST`]) for each value asked for.

use super::{can_repeat, is_alone};
use cranelift_entity::EntitySet;
use orias_machine::Machine;
use orias_machine::timing::Completion;
use orias_ori::{
    AbstractOp, Block, Class, Effects, Function, Inst, Opcode, PhysReg, Reg, RegKind, Value,
};
use rustc_hash::FxHashMap;

/// Of more instructions it is not worth while.
const MOST: usize = 4;

/// Parts and tuples cost nothing, but somebody has to look at them.
const LONGEST: usize = 10;

/// How a value is made again.
#[derive(Clone, Debug, Default)]
pub(super) struct Recipe {
    /// The instructions, each behind those that it reads from.
    pub(super) insts: Vec<Inst>,
    /// What they read that has to be in registers.
    pub(super) sources: Vec<Value>,
    /// How many of them are issued.
    issued: usize,
}

/// What holds for a function.
pub(super) struct Recipes<'a> {
    func: &'a Function,
    entry: Option<Block>,
}

impl<'a> Recipes<'a> {
    pub(super) fn new(func: &'a Function) -> Recipes<'a> {
        Recipes {
            func,
            entry: func.entry(),
        }
    }

    /// How `value` is made again where the values are in registers for which `here` holds.
    pub(super) fn find(&self, value: Value, here: &dyn Fn(Value) -> bool) -> Option<Recipe> {
        let mut recipe = Recipe::default();
        let inst = self.func.defining_inst(value)?;
        self.add(inst, here, &mut recipe)?;
        Some(recipe)
    }

    /// The values that could be made of nothing if recipes had no length, and maybe others. `blocks` are in reverse postorder, so that what an instruction reads comes before it.
    pub(super) fn of_nothing(&self, blocks: impl Iterator<Item = Block>) -> EntitySet<Value> {
        let func = self.func;
        let mut found = EntitySet::with_capacity(func.value_count());
        for inst in blocks.flat_map(|block| func.block_insts(block)) {
            let can_be_read = |reg: Reg| match reg.kind() {
                RegKind::Phys(reg) => reg.is_constant(),
                RegKind::Value(value) => match func.value_type(value).class() {
                    Class::R | Class::P => found.contains(value),
                    Class::UR => true,
                    Class::UP | Class::B => false,
                },
            };
            if func.uses(inst).all(can_be_read)
                && (can_repeat(func, inst) || is_computed(func, inst))
            {
                for value in func.value_defs(inst) {
                    found.insert(value);
                }
            }
        }
        found
    }

    fn add(&self, inst: Inst, here: &dyn Fn(Value) -> bool, recipe: &mut Recipe) -> Option<()> {
        if recipe.insts.contains(&inst) {
            return Some(());
        }
        let func = self.func;
        match func.opcode(inst) {
            Opcode::Abstract(AbstractOp::Collect | AbstractOp::Split) => {}
            _ => recipe.issued += 1,
        }
        if recipe.issued > MOST || recipe.insts.len() >= LONGEST {
            return None;
        }
        if !can_repeat(func, inst) && !is_computed(func, inst) {
            return None;
        }
        for reg in func.uses(inst) {
            let value = match reg.kind() {
                RegKind::Phys(reg) if reg.is_constant() => continue,
                RegKind::Phys(_) => return None,
                RegKind::Value(value) => value,
            };
            match func.value_type(value).class() {
                Class::R if here(value) => {
                    if !recipe.sources.contains(&value) {
                        recipe.sources.push(value);
                    }
                }
                Class::R | Class::P => self.add(func.defining_inst(value)?, here, recipe)?,
                Class::UR => {
                    let home = func.defining_block(value);
                    if home.is_none() || home != self.entry {
                        return None;
                    }
                }
                Class::UP | Class::B => return None,
            }
        }
        recipe.insts.push(inst);
        Some(())
    }
}

/// Whether `inst` makes its results of nothing but registers and constants, in a fixed time.
pub(super) fn is_computed(func: &Function, inst: Inst) -> bool {
    let op = match func.opcode(inst) {
        Opcode::Abstract(AbstractOp::Collect | AbstractOp::Split) => return true,
        Opcode::Abstract(_) => return false,
        Opcode::Machine(op) => op,
    };
    let timing = Machine::of(func.target).timing(op);
    timing.is_some_and(|timing| timing.completion == Completion::Fixed)
        && func.opcode(inst).effects() == Effects::NONE
        && op.row().effects.is_empty()
        && op.row().memory.is_empty()
        && func.edges(inst).is_empty()
        && func.kept(inst).is_empty()
        && is_alone(func, inst)
        && func
            .uses(inst)
            .any(|reg| !reg.phys().is_some_and(PhysReg::is_constant))
}

/// Runs the instructions of a recipe for `value` again, before `before`: gives the last of them, and what it makes.
pub(super) fn follow(
    func: &mut Function,
    before: Inst,
    recipe: &Recipe,
    value: Value,
) -> Option<(Inst, Value)> {
    let span = func.inst(before).span();
    let mut made: FxHashMap<Value, Value> = FxHashMap::default();
    let mut last = None;
    for &inst in &recipe.insts {
        let results: Vec<Value> = func.value_defs(inst).collect();
        let copy = func.copy_inst(inst);
        // It is computed for whoever reads it.
        func.set_span(copy, span);
        let renamed = |made: &FxHashMap<Value, Value>, reg: Reg| {
            let fresh = reg.value().and_then(|value| made.get(&value));
            fresh.map_or(reg, |&fresh| Reg::from(fresh))
        };
        func.map_uses(copy, |reg| renamed(&made, reg));
        for result in results {
            let fresh = func.create_value(func.value_type(result));
            made.insert(result, fresh);
        }
        func.map_defs(copy, |reg| renamed(&made, reg));
        func.layout.insert_inst_before(copy, before);
        last = Some(copy);
    }
    last.zip(made.get(&value).copied())
}
