//! PredicateChoices (10004): predication of selects, and logic of comparisons as part of them.
//!
//! **Choices.** `p ? f(y) : y` becomes `f` under the guard `p`, in place of `y`. A choice costs an instruction. Where one side is computed for it alone and the other is not read afterwards, the computation can
//! run under the choice's predicate and leave the other side as it is: the corrections of a quotient, the steps of a checksum, a factor
//! that only some operands take. Only operations that one instruction does are moved, to the place of the choice, and only where a
//! register is kept: numbers and parameters would have to be brought to one first, and a choice takes them as they are.
//!
//! **Loads** that if-conversion put under the same guard keep the other side themselves: no choice has to wait for them, and their predicate
//! is free as soon as they are on their way, of which there are many more than predicates. They move down to the choice if nothing between may write what they read. A number is moved
//! to the register before: that takes an instruction as the choice does, but nothing waits for it.
//!
//! **Comparisons.** `(a < b) & q` becomes one comparison that is combined with `q`, where nobody else reads its outcome.
//!
//! **Tests.** LOP3 tells whether a bit of its result is set. `(a & b) == 0` becomes the opposite of `(a & b) != 0`: whoever reads a predicate can read its
//! opposite.
//!
//! **Extremes.** A choice between the two sides of a comparison is the smaller or the larger of them ([`extremes`]).
//!
//! Each block is read backwards, counting who reads a value later.
//!
//! Cost: linear in the number of operands.

mod extremes;
mod words;

use crate::emit::Emit;
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_ori::analysis::DefUse;
use orias_ori::operation::{Cache, Combine, Compare, Half, Order, Sat, Scalar, Space};
use orias_ori::{
    AbstractOp, Block, Effects, Function, Guard, Inst, Operand, Operation, Reg, SourceMods, Type,
    Value, ValueDef,
};
use rustc_hash::FxHashMap;

/// How far a load is moved, in instructions: the sides of a branch that became choices are shorter.
const MOST_BETWEEN: usize = 32;

/// How often values are read.
type Counts = SecondaryMap<Value, u32>;

/// A choice that can be a guard.
struct Choice {
    /// What is computed for the choice.
    computed: Value,
    /// What is kept where the guard does not hold.
    kept: Value,
    /// What moves a number there, if it is one.
    number: Option<Inst>,
    guard: Guard,
}

/// Runs the phase.
pub fn predicate_choices(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    extremes::find_extremes(func)?;
    words::split_choices(func)?;
    let blocks: Vec<Block> = func.blocks().collect();
    let any = |&block: &Block| {
        let mut insts = func.block_insts(block);
        insts.any(|inst| is_choice(func, inst) || combination(func, inst).is_some())
    };
    let chosen: Vec<Block> = blocks.iter().copied().filter(any).collect();
    if !chosen.is_empty() {
        combine_and_guard(func, &blocks, chosen);
    }
    oppose_tests(func)
}

/// The words that each tuple is taken apart into, with their places: whoever keeps a word in place writes over the tuple, and over the word by another name.
struct SameWords {
    of_tuple: FxHashMap<Value, Vec<(usize, Value)>>,
}

impl SameWords {
    /// Whether nothing that shares the register of `value`, if that is a word of a tuple, is read again: by `last`, and how often values are read.
    fn are_free(
        &self,
        func: &Function,
        value: Value,
        readings: &Counts,
        last: impl Fn(Value) -> bool,
    ) -> bool {
        let tuple = func.defining_inst(value).and_then(|inst| {
            let split = func.opcode(inst).as_abstract() == Some(AbstractOp::Split);
            func.operands(inst).last()?.as_value().filter(|_| split)
        });
        let Some((tuple, words)) = tuple.and_then(|it| Some((it, self.of_tuple.get(&it)?))) else {
            return true;
        };
        let place = words.iter().find(|(_, word)| *word == value);
        let place = place.map_or(usize::MAX, |(place, _)| *place);
        // Who only takes the tuple apart reads it where it is made.
        let splits = words.iter().filter(|(at, _)| *at == 0).count();
        (readings[tuple] as usize <= splits || last(tuple))
            && words.iter().all(|&(at, word)| at != place || last(word))
    }
}

fn same_words(func: &Function, blocks: &[Block]) -> SameWords {
    let mut of_tuple: FxHashMap<Value, Vec<(usize, Value)>> = FxHashMap::default();
    for inst in blocks.iter().flat_map(|&block| func.block_insts(block)) {
        if func.opcode(inst).as_abstract() != Some(AbstractOp::Split) {
            continue;
        }
        let (results, sources) = func.operands(inst).split_at(func.result_count(inst));
        if let Some(tuple) = sources.first().and_then(|tuple| tuple.as_value()) {
            let words = results.iter().enumerate();
            let words = words.filter_map(|(place, word)| Some((place, word.as_value()?)));
            of_tuple.entry(tuple).or_default().extend(words);
        }
    }
    SameWords { of_tuple }
}

/// Choices become guards, logic of comparisons part of them.
fn combine_and_guard(func: &mut Function, blocks: &[Block], chosen: Vec<Block>) {
    let counts = || {
        let mut counts = Counts::new();
        counts.resize(func.value_count());
        counts
    };
    let mut readings = counts();
    for &block in blocks {
        for inst in func.block_insts(block) {
            count(func, inst, &mut readings);
        }
    }
    let same_words = same_words(func, blocks);
    let mut here = counts();
    let mut later = counts();
    let mut moved: EntitySet<Inst> = EntitySet::new();
    for block in chosen {
        let insts: Vec<Inst> = func.block_insts(block).collect();
        for &inst in &insts {
            count(func, inst, &mut here);
        }
        for &inst in insts.iter().rev() {
            if moved.contains(inst) {
                continue;
            }
            if let Some(comparison) = combine(func, inst, block, &readings) {
                moved.insert(comparison);
            }
            let choice = choices(func, inst, block).into_iter().flatten().find(|it| {
                let last = |value| readings[value] == here[value] && later[value] == 0;
                let free = || same_words.are_free(func, it.kept, &readings, last);
                readings[it.computed] == 1 && (it.number.is_some() || last(it.kept) && free())
            });
            let stands = match choice {
                Some(choice) => guard(func, inst, &choice),
                None => inst,
            };
            if stands != inst {
                moved.insert(stands);
            }
            count(func, stands, &mut later);
        }
        for inst in func.block_insts(block) {
            func.for_each_value_use(inst, |value| {
                here[value] = 0;
                later[value] = 0;
            });
        }
    }
}

/// Tests for no bit of logic become tests for some bit, which the logic itself tells, and their opposite, which readers take for nothing.
fn oppose_tests(func: &mut Function) -> Result<(), PhaseError> {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let tests: Vec<Inst> = insts.filter(|&inst| is_zero_test(func, inst)).collect();
    if tests.is_empty() {
        return Ok(());
    }
    let chains = DefUse::new(func);
    for test in tests {
        let operands = func.operands(test);
        let (result, left, right) = (operands[0], operands[2], operands[3]);
        let Some(value) = left.as_value() else {
            continue;
        };
        let Some(logic) = func.defining_inst(value) else {
            continue;
        };
        let alone = chains.uses(value).len() == 1
            && func.layout.inst_block(logic) == func.layout.inst_block(test)
            && func.inst(logic).guard().is_always();
        let fits = matches!(
            func.opcode(logic).as_abstract(),
            Some(AbstractOp::And | AbstractOp::Or | AbstractOp::Xor)
        );
        let Operation::Abstract(op, mods) = func.inst(test).operation() else {
            continue;
        };
        let Some(mods) = op.row().with_modifier(mods, Compare::Ne) else {
            continue;
        };
        if !alone || !fits {
            continue;
        }
        let mut emit = Emit::before(func, test);
        let some = emit.again(op, mods, &[left, right, Operand::None]);
        let mods = (Scalar::Pred,);
        let always = Guard::ALWAYS;
        emit.put(AbstractOp::Not, mods, &[result], &[some], always, &[]);
        emit.finish().map_err(|error| PhaseError::Broken {
            at: test.to_string(),
            what: error.to_string(),
        })?;
        func.remove_inst(test);
    }
    Ok(())
}

/// Whether `inst` always tells, and tells nothing else than, whether a word is zero.
fn is_zero_test(func: &Function, inst: Inst) -> bool {
    let &[result, Operand::None, left, Operand::Imm(right), ..] = func.operands(inst) else {
        return false;
    };
    func.opcode(inst).as_abstract() == Some(AbstractOp::Setp)
        && func.inst(inst).guard().is_always()
        && func.modifier::<Compare>(inst) == Some(Compare::Eq)
        && func.modifier::<Combine>(inst) == Some(Combine::None)
        && matches!(
            func.modifier::<Scalar>(inst),
            Some(Scalar::B16 | Scalar::U16 | Scalar::S16 | Scalar::B32 | Scalar::U32 | Scalar::S32)
        )
        && result.as_value().is_some()
        && left.mods().is_empty()
        && right.bits() == 0
}

/// Counts what `inst` reads.
fn count(func: &Function, inst: Inst, counts: &mut Counts) {
    func.for_each_value_use(inst, |value| counts[value] += 1);
}

/// Whether `inst` always chooses one of two words.
fn is_choice(func: &Function, inst: Inst) -> bool {
    func.opcode(inst).as_abstract() == Some(AbstractOp::Selp)
        && func.inst(inst).guard().is_always()
        && func
            .result(inst, 0)
            .is_some_and(|value| matches!(func.value_type(value), Type::R | Type::R2))
}

/// The two ways in which `choice` of `block` might be a guard.
fn choices(func: &Function, choice: Inst, block: Block) -> [Option<Choice>; 2] {
    let &[_, yes, no, condition] = func.operands(choice) else {
        return [None, None];
    };
    let Some(predicate) = condition.as_value().filter(|_| is_choice(func, choice)) else {
        return [None, None];
    };
    let plain = |operand: Operand| operand.as_value().filter(|_| operand.mods().is_empty());
    [(yes, no, false), (no, yes, true)].map(|(computed, kept, otherwise)| {
        let (computed, kept) = (plain(computed)?, plain(kept)?);
        let negated = condition.mods().contains(SourceMods::NOT) != otherwise;
        let guard = match negated {
            true => Guard::unless(predicate),
            false => Guard::when(predicate),
        };
        let inst = func.defining_inst(computed)?;
        let load = is_load_under(func, inst, guard) && stays_the_same(func, inst, choice);
        let word = func.value_type(kept) == Type::R;
        let number = load.then(|| number(func, kept)).flatten();
        let stays = || {
            func.opcode(inst).as_abstract() != Some(AbstractOp::Selp)
                || stays_in_place(func, kept, choice, block)
        };
        let fits = func.layout.inst_block(inst) == Some(block)
            && stays()
            && (load || word && is_one_instruction(func, inst))
            && (number.is_some() || !is_free(func, kept));
        fits.then_some(Choice {
            computed,
            kept,
            number,
            guard,
        })
    })
}

/// Whether what `choice` gives may lie where `kept` does: a value that goes around a loop and comes to another place there would be copied, which costs what a
/// guard in place of a choice between two others spares.
fn stays_in_place(func: &Function, kept: Value, choice: Inst, block: Block) -> bool {
    let split = func
        .defining_inst(kept)
        .filter(|&inst| func.opcode(inst).as_abstract() == Some(AbstractOp::Split));
    let whole = split.and_then(|inst| func.operands(inst).last()?.as_value());
    let ValueDef::Param(head, place) = func.value_def(whole.unwrap_or(kept)) else {
        return true;
    };
    let result = func.result(choice, 0);
    let is_result = |value: Value| {
        let made = func.defining_inst(value);
        let collected =
            made.filter(|&inst| func.opcode(inst).as_abstract() == Some(AbstractOp::Collect));
        Some(value) == result
            || collected.is_some_and(|inst| {
                let parts = &func.operands(inst)[1..];
                parts.iter().any(|part| part.as_value() == result)
            })
    };
    let edges = func.successor_edges(block).iter();
    let mut back = edges.filter(|&&edge| func.edge_target(edge) == head);
    back.all(|&edge| (func.edge_args(edge).get(place as usize)).is_some_and(|&it| is_result(it)))
}

/// Whether one machine instruction does what `inst` does, whatever its guard.
fn is_one_instruction(func: &Function, inst: Inst) -> bool {
    use AbstractOp as A;
    let Some(op) = func.opcode(inst).as_abstract() else {
        return false;
    };
    let computes = match op {
        A::Add | A::Sub => func.modifier::<Sat>(inst) == Some(Sat::Wrap),
        A::Mul => func.modifier::<Half>(inst) == Some(Half::Lo),
        A::Neg | A::And | A::Or | A::Xor | A::Shl | A::Shr | A::Selp => true,
        A::Fadd | A::Fsub | A::Fmul | A::Ffma => true,
        _ => false,
    };
    let word = matches!(
        func.modifier::<Scalar>(inst),
        Some(Scalar::B32 | Scalar::U32 | Scalar::S32 | Scalar::F32)
    );
    computes && word && func.inst(inst).guard().is_always()
}

/// Whether `inst` is a plain load of a word under that guard that keeps nothing in particular.
fn is_load_under(func: &Function, inst: Inst, guard: Guard) -> bool {
    let keeps = func.kept(inst).iter().any(|kept| {
        let by = kept.as_value().and_then(|value| func.defining_inst(value));
        by.and_then(|by| func.opcode(by).as_abstract()) != Some(AbstractOp::Undef)
    });
    func.opcode(inst).as_abstract() == Some(AbstractOp::Ld)
        && func.inst(inst).guard() == guard
        && func.modifier::<Order>(inst) == Some(Order::Weak)
        && !keeps
}

/// Whether a load finds the same at `place`, later in its block.
fn stays_the_same(func: &Function, load: Inst, place: Inst) -> bool {
    let constant = func.modifier::<Space>(load) == Some(Space::Const)
        || func.modifier::<Cache>(load) == Some(Cache::Nc);
    let mut next = func.layout.next_inst(load);
    for _ in 0..MOST_BETWEEN {
        match next {
            Some(inst) if inst == place => return true,
            Some(inst) if constant || !may_write(func, inst) => {
                next = func.layout.next_inst(inst);
            }
            _ => return false,
        }
    }
    false
}

/// Whether memory may be another after `inst`.
fn may_write(func: &Function, inst: Inst) -> bool {
    func.opcode(inst).effects().intersects(
        Effects::WRITES
            .with(Effects::SIDE)
            .with(Effects::BARRIER)
            .with(Effects::CALL)
            .with(Effects::CONVERGENT),
    )
}

/// Whether instructions read `value` without a register.
fn is_free(func: &Function, value: Value) -> bool {
    use AbstractOp as A;
    let Some(inst) = func.defining_inst(value) else {
        return false;
    };
    match func.opcode(inst).as_abstract() {
        Some(A::Mov | A::Undef) => true,
        Some(A::Ld) => func.modifier::<Space>(inst) == Some(Space::Param),
        _ => false,
    }
}

/// What moves a number to `value`, if something does.
fn number(func: &Function, value: Value) -> Option<Inst> {
    let inst = func.defining_inst(value)?;
    let is_move = func.opcode(inst).as_abstract() == Some(AbstractOp::Mov)
        && func.inst(inst).guard().is_always()
        && matches!(func.operands(inst), [_, Operand::Imm(_)]);
    is_move.then_some(inst)
}

/// How `inst` combines two predicates, if it always does and a comparison can do the same.
fn combination(func: &Function, inst: Inst) -> Option<Combine> {
    let combine = match func.opcode(inst).as_abstract()? {
        AbstractOp::And => Combine::And,
        AbstractOp::Or => Combine::Or,
        AbstractOp::Xor => Combine::Xor,
        _ => return None,
    };
    let predicates =
        func.modifier::<Scalar>(inst) == Some(Scalar::Pred) && func.inst(inst).guard().is_always();
    predicates.then_some(combine)
}

/// Makes `inst`, logic of two predicates, the comparison that one of them is, combined with the other; returns what made the comparison
/// before, which is gone.
fn combine(func: &mut Function, inst: Inst, block: Block, readings: &Counts) -> Option<Inst> {
    let combine = combination(func, inst)?;
    let &[result, a, b] = func.operands(inst) else {
        return None;
    };
    let (comparison, other) = [(b, a), (a, b)].into_iter().find_map(|(compared, other)| {
        let value = compared.as_value().filter(|_| compared.mods().is_empty())?;
        let comparison = func.defining_inst(value)?;
        let fits = func.opcode(comparison).as_abstract() == Some(AbstractOp::Setp)
            && func.inst(comparison).guard().is_always()
            && func.layout.inst_block(comparison) == Some(block)
            && readings[value] == 1
            && func.modifier::<Combine>(comparison) == Some(Combine::None)
            && func.value_defs(comparison).count() == 1
            && func.result(comparison, 0) == Some(value)
            && func
                .modifier::<Scalar>(comparison)
                .is_some_and(|scalar| scalar.bits() >= 32)
            && other.as_value().is_some();
        fits.then_some((comparison, other))
    })?;
    let Operation::Abstract(op, mods) = func.inst(comparison).operation() else {
        return None;
    };
    let mods = op.row().with_modifier(mods, combine)?;
    let sides = &func.operands(comparison)[2..4];
    let operands = [result, Operand::None, sides[0], sides[1], other];
    func.remove_inst(comparison);
    func.replace_with_abstract(inst, op, mods, 2, &operands);
    Some(comparison)
}

/// Puts what is computed in the place of the choice `inst`, under the guard; returns it.
fn guard(func: &mut Function, inst: Inst, choice: &Choice) -> Inst {
    let (Some(result), Some(computation)) =
        (func.result(inst, 0), func.defining_inst(choice.computed))
    else {
        return inst;
    };
    func.layout.remove_inst(computation);
    func.layout.insert_inst_before(computation, inst);
    func.remove_inst(inst);
    func.map_defs(computation, |reg| match reg.value() {
        Some(_) => Reg::from(result),
        None => reg,
    });
    let kept = match choice.number {
        Some(number) => copy(func, number, computation),
        None => choice.kept,
    };
    func.set_guard(computation, choice.guard);
    func.set_kept(computation, &[kept.into()]);
    computation
}

/// A copy of `number`, a move, before `place`: what a load keeps is written over.
fn copy(func: &mut Function, number: Inst, place: Inst) -> Value {
    let (operation, source) = (func.inst(number).operation(), func.operands(number)[1]);
    let ty = func
        .result(number, 0)
        .map_or(Type::R, |value| func.value_type(value));
    let value = func.create_value(ty);
    if let Operation::Abstract(op, mods) = operation {
        let moved = func.create_abstract(op, mods, 1, &[value.into(), source]);
        func.set_span(moved, func.inst(number).span());
        func.layout.insert_inst_before(moved, place);
    }
    value
}
