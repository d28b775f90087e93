//! Copy propagation and simplification: values that are other values under another name.

use super::Keep;
use super::branches::{copied_operand, known_predicate};
use super::edges::Incoming;
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use orias_ori::{
    AbstractOp, Block, Function, Inst, Opcode, Operand, Reg, RegKind, Value, ValueDef,
};

/// Replaces values that equal another one. Returns whether there were any. What defined them is left for
/// [`super::dead_code`].
///
/// One pass in layout order finds them: for each value, the one that stands for it. A second pass renames all uses at once.
/// The value that stands for a parameter dominates its block, because it reaches the block from every side; that of a copy
/// dominates the copy.
pub(super) fn unify(function: &mut Function, keep: &Keep<'_>) -> bool {
    let incoming = Incoming::new(function);
    let mut names = Names::default();
    let entry = function.entry();
    let mut changed = false;
    for block in function.blocks() {
        if Some(block) != entry && !keep.block(function, block) {
            for index in 0..function.block_params(block).len() {
                if let Some(same) = only_argument(function, &incoming, &mut names, block, index) {
                    changed |= names.unite(function, function.block_params(block)[index], same);
                }
            }
        }
        for inst in function.block_insts(block) {
            if !is_choice_or_copy(function, inst)
                || !function.inst(inst).guard().is_always()
                || keep.inst(function, inst)
            {
                continue;
            }
            for (result, same) in equal_values(function, inst, &mut names) {
                changed |= names.unite(function, result, same);
            }
        }
    }
    if changed {
        function.map_all_uses(|reg| match reg.kind() {
            RegKind::Value(value) => Reg::from(names.find(value)),
            RegKind::Phys(_) => reg,
        });
    }
    changed
}

/// For each value, the value that stands for it.
#[derive(Default)]
struct Names {
    stands_for: SecondaryMap<Value, PackedOption<Value>>,
}

impl Names {
    /// The value that stands for `value`; the way there is shortened for the next time.
    fn find(&mut self, value: Value) -> Value {
        let mut last = value;
        while let Some(next) = self.stands_for[last].expand() {
            last = next;
        }
        let mut at = value;
        while let Some(next) = self.stands_for[at].expand() {
            self.stands_for[at] = last.into();
            at = next;
        }
        last
    }

    /// Lets `same` stand for `value`, unless they are one already or of different types.
    fn unite(&mut self, function: &Function, value: Value, same: Value) -> bool {
        let same = self.find(same);
        if same == value
            || self.find(value) != value
            || function.value_type(same) != function.value_type(value)
        {
            return false;
        }
        self.stands_for[value] = same.into();
        true
    }
}

/// The value that every edge gives a parameter, apart from the parameter itself coming round again.
fn only_argument(
    function: &Function,
    incoming: &Incoming,
    names: &mut Names,
    block: Block,
    index: usize,
) -> Option<Value> {
    let param = function.block_params(block)[index];
    let mut only = None;
    for &edge in incoming.of(block) {
        let argument = names.find(*function.edge_args(edge).get(index)?);
        match only {
            _ if argument == param => {}
            None => only = Some(argument),
            Some(known) if known == argument => {}
            Some(_) => return None,
        }
    }
    only
}

/// Whether `inst` is one of those that [`equal_values`] knows.
fn is_choice_or_copy(function: &Function, inst: Inst) -> bool {
    use AbstractOp::{Collect, Mov, Selp, Split};
    let op = function.opcode(inst).as_abstract();
    op.is_some_and(|op| matches!(op, Mov | Selp | Collect | Split))
}

/// The results of `inst` that equal other values.
fn equal_values(function: &Function, inst: Inst, names: &mut Names) -> Vec<(Value, Value)> {
    let operands = function.operands(inst);
    let (results, sources) = operands.split_at(function.result_count(inst));
    let Some(op) = function.opcode(inst).as_abstract() else {
        return Vec::new();
    };
    let pair = |result: &Operand, source: Operand| Some((result.as_value()?, plain_value(source)?));
    match (op, results, sources) {
        (AbstractOp::Mov, [result], _) => copied_operand(function, inst)
            .and_then(|source| pair(result, source))
            .into_iter()
            .collect(),
        (AbstractOp::Selp, [result], &[yes, no, condition]) => {
            let chosen = match known_predicate(function, condition) {
                Some(true) => pair(result, yes),
                Some(false) => pair(result, no),
                None => {
                    let same = plain_value(yes).map(|value| names.find(value))
                        == plain_value(no).map(|value| names.find(value));
                    same.then(|| pair(result, yes)).flatten()
                }
            };
            chosen.into_iter().collect()
        }
        (AbstractOp::Collect, [result], &[source]) | (AbstractOp::Split, [result], &[source]) => {
            pair(result, source).into_iter().collect()
        }
        (AbstractOp::Split, results, &[source]) => parts_of(function, results, source, names),
        (AbstractOp::Collect, [result], parts) => whole_of(function, parts, names)
            .and_then(|whole| Some((result.as_value()?, whole)))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

/// A value that is read unchanged.
fn plain_value(operand: Operand) -> Option<Value> {
    operand.as_value().filter(|_| operand.mods().is_empty())
}

/// The results of a split of what was collected from parts of just these types.
fn parts_of(
    function: &Function,
    results: &[Operand],
    source: Operand,
    names: &mut Names,
) -> Vec<(Value, Value)> {
    let collected = plain_value(source)
        .map(|value| names.find(value))
        .and_then(|value| unguarded_definition(function, value, AbstractOp::Collect));
    let Some(collect) = collected else {
        return Vec::new();
    };
    let parts = &function.operands(collect)[1..];
    let fits = parts.len() == results.len()
        && results.iter().zip(parts).all(|(&result, &part)| {
            // What is left out has no type to compare; the part has one and takes up its registers.
            match (result.as_value(), plain_value(part)) {
                (Some(result), Some(part)) => {
                    function.value_type(result) == function.value_type(part)
                }
                _ => false,
            }
        });
    if !fits {
        return Vec::new();
    }
    results
        .iter()
        .zip(parts)
        .filter_map(|(result, &part)| Some((result.as_value()?, plain_value(part)?)))
        .collect()
}

/// The tuple of which `parts` are all the parts in order.
fn whole_of(function: &Function, parts: &[Operand], names: &mut Names) -> Option<Value> {
    let first = names.find(plain_value(*parts.first()?)?);
    let split = unguarded_definition(function, first, AbstractOp::Split)?;
    let (results, source) = function
        .operands(split)
        .split_at(function.result_count(split));
    let all_in_order = results.len() == parts.len()
        && results.iter().zip(parts).all(|(result, &part)| {
            result.as_value().is_some()
                && result.as_value() == plain_value(part).map(|value| names.find(value))
        });
    plain_value(*source.first()?).filter(|_| all_in_order)
}

/// The instruction that defines `value`, if it is an `op` without a guard.
fn unguarded_definition(function: &Function, value: Value, op: AbstractOp) -> Option<Inst> {
    match function.value_def(value) {
        ValueDef::Inst(inst, _)
            if function.opcode(inst) == Opcode::Abstract(op)
                && function.inst(inst).guard().is_always() =>
        {
            Some(inst)
        }
        _ => None,
    }
}
