//! Logic that several tables of three inputs can take in: tree covering where trees share subtrees.
//!
//! What one instruction reads is taken into that instruction's table ([`super::bits`]). What several read would stay an instruction of its own: in a full
//! adder, `a ^ b` is read by the sum `a ^ b ^ c` and by the carry `a & b | c & (a ^ b)`, though both are tables of `a`, `b` and `c`. A value goes into all
//! of its readers if each of them, with everything that it takes in and that takes it in, still has three inputs; then nobody asks for it by itself.
//!
//! One visit of each logic instruction, with trees of bounded depth: linear.

use super::bits::DEPTH;
use cranelift_entity::EntitySet;
use orias_ori::analysis::DefUse;
use orias_ori::operation::Scalar;
use orias_ori::{AbstractOp, Function, Inst, Opcode, Operand, SourceMods, Value};

/// Readers that a value may have at most.
const MOST_READERS: usize = 4;

/// Inputs of a table.
const INPUTS: usize = 3;

/// The values that go into the tables of all their readers.
pub(super) fn find(func: &Function, chains: &DefUse) -> EntitySet<Value> {
    let mut trees = Trees {
        func,
        chains,
        shared: EntitySet::new(),
    };
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            if let Some(value) = trees.candidate(inst)
                && trees.fits_everywhere(value, inst)
            {
                trees.shared.insert(value);
            }
        }
    }
    trees.shared
}

/// The operation of `inst`, if it is logic that always runs.
pub(super) fn logic(func: &Function, inst: Inst) -> Option<AbstractOp> {
    use AbstractOp::{And, Not, Or, Xor};
    match func.opcode(inst) {
        Opcode::Abstract(op @ (And | Or | Xor | Not)) if func.inst(inst).guard().is_always() => {
            Some(op)
        }
        _ => None,
    }
}

struct Trees<'f> {
    func: &'f Function,
    chains: &'f DefUse,
    shared: EntitySet<Value>,
}

impl Trees<'_> {
    /// The result of `inst`, if it is logic that a few instructions read.
    fn candidate(&self, inst: Inst) -> Option<Value> {
        logic(self.func, inst)?;
        let value = self.func.result(inst, 0)?;
        let readers = self.chains.uses(value).len();
        (2..=MOST_READERS).contains(&readers).then_some(value)
    }

    /// Whether every reader of `value`, which `inst` makes, is a table of few enough inputs with `value` taken in.
    fn fits_everywhere(&self, value: Value, inst: Inst) -> bool {
        self.chains.uses(value).iter().all(|read| {
            let reader = read.inst;
            self.belongs(reader, inst) && {
                let root = self.root(reader, inst, value);
                self.fits(root, inst, value)
            }
        })
    }

    /// Whether the tree of `root` has few enough inputs with `value` taken in.
    fn fits(&self, root: Inst, like: Inst, value: Value) -> bool {
        let mut inputs = Vec::new();
        self.collect(root, like, value, DEPTH + 1, &mut inputs)
    }

    /// Whether `reader` is logic of the same type in the same block as `inst`.
    fn belongs(&self, reader: Inst, inst: Inst) -> bool {
        let func = self.func;
        logic(func, reader).is_some()
            && func.layout.inst_block(reader) == func.layout.inst_block(inst)
            && func.modifier::<Scalar>(reader) == func.modifier::<Scalar>(inst)
    }

    /// The instruction whose table takes `reader` in, with `value` in it: one that has no room leaves `reader` an instruction of its own.
    fn root(&self, reader: Inst, inst: Inst, value: Value) -> Inst {
        let mut root = reader;
        for _ in 0..DEPTH {
            let reader =
                (self.func.result(root, 0)).and_then(|value| match self.chains.uses(value) {
                    [read] => Some(read.inst),
                    _ => None,
                });
            match reader.filter(|&it| self.belongs(it, inst) && self.fits(it, inst, value)) {
                Some(reader) => root = reader,
                None => break,
            }
        }
        root
    }

    /// Adds the inputs of the tree of `root`, a table that takes in `with`; whether they are few enough.
    fn collect(
        &self,
        root: Inst,
        like: Inst,
        with: Value,
        depth: u32,
        inputs: &mut Vec<Operand>,
    ) -> bool {
        let results = self.func.result_count(root);
        self.func.operands(root)[results..].iter().all(|&operand| {
            let inner = operand.as_value().and_then(|value| {
                let once = self.chains.uses(value).len() == 1;
                let inst = self.func.defining_inst(value)?;
                let taken = once || value == with || self.shared.contains(value);
                (depth > 1 && taken && self.belongs(inst, like)).then_some(inst)
            });
            if let Some(inner) = inner {
                return self.collect(inner, like, with, depth - 1, inputs);
            }
            let plain = operand.with_mods(SourceMods::NONE).unwrap_or(operand);
            if !inputs.contains(&plain) {
                inputs.push(plain);
            }
            inputs.len() <= INPUTS
        })
    }
}
