//! Loads and stores of promoted words become reads and writes of variables, and those values.

use super::frame::{Access, Place};
use crate::emit::{Emit, Mods, imm, not};
use crate::ssa::{Ssa, Variable};
use orias_ori::builder::BuildError;
use orias_ori::operation::{Compare, Scalar};
use orias_ori::{AbstractOp, Function, Guard, Inst, Operand, Type, Value};
use rustc_hash::FxHashMap;

/// Rewrites the accesses that are promoted.
pub(super) fn promote(
    func: &mut Function,
    accesses: &[Access],
    promoted: &[bool],
) -> Result<(), BuildError> {
    let mut ssa = Ssa::default();
    let variables: Vec<Option<Variable>> = promoted
        .iter()
        .map(|&promoted| promoted.then(|| ssa.declare(Type::R)))
        .collect();
    let promoted: FxHashMap<Inst, &Access> = accesses
        .iter()
        .filter(|access| access.promoted)
        .map(|access| (access.inst, access))
        .collect();
    // A variable's value at the end of its block so far is what an access sees: any order of blocks will do.
    let mut ordered: Vec<&Access> = Vec::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        ordered.extend(promoted.get(&inst));
    }
    for access in ordered {
        let mut words = Words {
            ssa: &mut ssa,
            variables: &variables,
            access,
        };
        match access.is_store {
            true => words.store(func)?,
            false => words.load(func)?,
        }
    }
    ssa.finish(func)
}

/// One access and the words of the frame.
struct Words<'a> {
    ssa: &'a mut Ssa,
    variables: &'a [Option<Variable>],
    access: &'a Access,
}

impl Words<'_> {
    fn variable(&self, word: usize) -> Variable {
        self.variables[word].expect("every word of a promoted access is promoted")
    }

    fn read(&mut self, func: &mut Function, word: usize) -> Value {
        let variable = self.variable(word);
        self.ssa.read(func, self.access.block, variable)
    }

    /// A load becomes a copy of what the words hold.
    fn load(&mut self, func: &mut Function) -> Result<(), BuildError> {
        let access = self.access;
        let mut columns = Vec::new();
        for word in 0..access.words {
            let mut column = Vec::new();
            for place in &access.places {
                let value = self.read(func, place.word + word);
                column.push((*place, value));
            }
            columns.push(column);
        }
        let result = func.operands(access.inst)[0];
        let kept = func.kept(access.inst).to_vec();
        let guard = func.inst(access.inst).guard();
        let mut emit = Emit::before(func, access.inst);
        let index = low_word(&mut emit, access.index);
        let mut tests = FxHashMap::default();
        let mut words: Vec<Value> = columns
            .iter()
            .map(|column| pick(&mut emit, index, &mut tests, column))
            .collect();
        // No guarded copy is wider than two words: those of a wider one are chosen one by one.
        let keep = kept.first().and_then(|keep| keep.as_value());
        let choice = condition(guard).zip(keep).filter(|_| words.len() > 2);
        if let Some((guard, keep)) = choice {
            let old = emit.words(keep);
            for (word, old) in words.iter_mut().zip(old) {
                let chosen = emit.selp(Scalar::B32, (*word).into(), old.into(), guard);
                *word = emit.as_value(Scalar::B32, chosen);
            }
        }
        let whole = emit.collect(&words);
        emit.finish()?;
        let scalar = match access.words {
            1 => Scalar::B32,
            2 => Scalar::B64,
            _ => Scalar::B128,
        };
        let mods = (scalar,).pack(AbstractOp::Mov.row()).unwrap_or_default();
        func.replace_with_abstract(
            access.inst,
            AbstractOp::Mov,
            mods,
            1,
            &[result, whole.into()],
        );
        match choice {
            Some(_) => func.set_guard(access.inst, Guard::ALWAYS),
            None => func.set_kept(access.inst, &kept),
        }
        Ok(())
    }

    /// A store becomes what the words hold from then on.
    fn store(&mut self, func: &mut Function) -> Result<(), BuildError> {
        let access = self.access;
        let guard = func.inst(access.inst).guard();
        let conditional = !guard.is_always() || access.places.len() > 1;
        let mut old = Vec::new();
        if conditional {
            for place in &access.places {
                for word in 0..access.words {
                    old.push(self.read(func, place.word + word));
                }
            }
        }
        let stored = func.operands(access.inst)[1];
        let mut emit = Emit::before(func, access.inst);
        let new = parts(&mut emit, stored, access.words);
        let index = low_word(&mut emit, access.index);
        let mut written = Vec::new();
        let mut first = None;
        for (at, place) in access.places.iter().enumerate() {
            let here = (access.places.len() > 1).then(|| match (first, access.places.len()) {
                (Some(first), 2) => not(first),
                _ => {
                    let number = imm(u64::from(place.index));
                    emit.setp(Compare::Eq, Scalar::U32, index, number)
                }
            });
            first = first.or(here);
            for (word, &new) in new.iter().enumerate() {
                let old = || Operand::from(old[at * access.words + word]);
                let mut value = Operand::from(new);
                if let Some(here) = here {
                    value = emit.selp(Scalar::B32, value, old(), here);
                }
                if let Some(guard) = condition(guard) {
                    value = emit.selp(Scalar::B32, value, old(), guard);
                }
                written.push((place.word + word, emit.as_value(Scalar::B32, value)));
            }
        }
        emit.finish()?;
        for (word, value) in written {
            let variable = self.variable(word);
            self.ssa.write(access.block, variable, value);
        }
        func.remove_inst(access.inst);
        Ok(())
    }
}

/// The words of what is stored.
fn parts(emit: &mut Emit<'_>, stored: Operand, words: usize) -> Vec<Value> {
    match (stored, words) {
        (Operand::Imm(_), 2) => {
            let (low, high) = emit.halves(stored);
            [low, high]
                .map(|half| emit.as_value(Scalar::B32, half))
                .to_vec()
        }
        (Operand::Imm(_), _) => vec![emit.as_value(Scalar::B32, stored)],
        _ => {
            let scalar = if words == 2 { Scalar::B64 } else { Scalar::B32 };
            let whole = emit.as_value(scalar, stored);
            emit.words(whole)
        }
    }
}

/// The low word of an index; zero if there is none.
fn low_word(emit: &mut Emit<'_>, index: Option<Value>) -> Operand {
    match index {
        None => imm(0),
        Some(value) if emit.func().value_type(value) == Type::R => value.into(),
        Some(value) => emit.halves(value.into()).0,
    }
}

/// The guard as an operand.
fn condition(guard: Guard) -> Option<Operand> {
    let predicate = Operand::from(guard.reg()?);
    Some(match guard.is_negated() {
        true => not(predicate),
        false => predicate,
    })
}

/// What lies at the place that the index names: a tree of selects by the bits in which the indices of places differ, `tests` of which are shared.
fn pick(
    emit: &mut Emit<'_>,
    index: Operand,
    tests: &mut FxHashMap<u32, Operand>,
    column: &[(Place, Value)],
) -> Value {
    let Some(&(first, value)) = column.first() else {
        return emit.value(AbstractOp::Mov, (Scalar::B32,), &[imm(0)]);
    };
    let differ = column
        .iter()
        .fold(0, |bits, (place, _)| bits | (place.index ^ first.index));
    if differ == 0 {
        return value;
    }
    let bit = 1 << (31 - differ.leading_zeros());
    let (set, clear): (Vec<_>, Vec<_>) =
        column.iter().partition(|(place, _)| place.index & bit != 0);
    let (set, clear) = (
        pick(emit, index, tests, &set),
        pick(emit, index, tests, &clear),
    );
    let test = *tests.entry(bit).or_insert_with(|| {
        let masked = emit.and(index, imm(u64::from(bit)));
        emit.setp(Compare::Ne, Scalar::U32, masked, imm(0))
    });
    let picked = emit.selp(Scalar::B32, set.into(), clear.into(), test);
    emit.as_value(Scalar::B32, picked)
}
