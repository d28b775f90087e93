//! Alignment: what powers of two values are multiples of.
//!
//! A forward analysis of trailing zeros. Unlike [known bits](crate::known_bits) it looks around loops: every value starts as a multiple of everything, and
//! loses what some definition or some edge into its block does not keep, until nothing changes. A value loses at most [`MOST`] bits, so a function is visited
//! a few times at most.

use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DepthFirst, FlowGraph};
use orias_ori::operation::{Half, Sat, Scalar};
use orias_ori::{AbstractOp, Function, Inst, Operand, Value};

/// Bits that are told apart: multiples of 16 and more are one.
const MOST: u32 = 4;

/// How many low bits of each value are zero, at most [`MOST`].
pub(crate) struct Alignments {
    zeros: SecondaryMap<Value, u32>,
}

impl Alignments {
    pub fn new(func: &Function) -> Self {
        let mut zeros = SecondaryMap::with_default(MOST);
        zeros.resize(func.value_count());
        let mut this = Self { zeros };
        let graph = FlowGraph::of(func);
        let walk = DepthFirst::new(&graph);
        if let Some(entry) = func.entry() {
            for &param in func.block_params(entry) {
                this.zeros[param] = 0;
            }
        }
        let mut changed = true;
        while changed {
            changed = false;
            for &block in walk.postorder().iter().rev() {
                for inst in func.block_insts(block) {
                    changed |= this.visit(func, inst);
                }
            }
        }
        this
    }

    /// The largest power of two, up to 16, that `value` is a multiple of whatever happens.
    pub fn of(&self, value: Value) -> i64 {
        1 << self.zeros[value]
    }

    /// Takes from results and from parameters of blocks what `inst` does not give them; whether anything went.
    fn visit(&mut self, func: &Function, inst: Inst) -> bool {
        let mut changed = false;
        let zeros = self.result(func, inst);
        for value in func.value_defs(inst) {
            changed |= self.lower(value, zeros);
        }
        for &edge in func.edges(inst) {
            let params = func.block_params(func.edge_target(edge));
            for (&param, &arg) in params.iter().zip(func.edge_args(edge)) {
                changed |= self.lower(param, self.zeros[arg]);
            }
        }
        changed
    }

    fn lower(&mut self, value: Value, zeros: u32) -> bool {
        let lower = zeros < self.zeros[value];
        if lower {
            self.zeros[value] = zeros;
        }
        lower
    }

    fn operand(&self, operand: Operand) -> u32 {
        match operand {
            Operand::Imm(number) => number.bits().trailing_zeros().min(MOST),
            _ => match operand.as_value().filter(|_| operand.mods().is_empty()) {
                Some(value) => self.zeros[value],
                None => 0,
            },
        }
    }

    /// What the first result of `inst` is a multiple of.
    fn result(&self, func: &Function, inst: Inst) -> u32 {
        use AbstractOp as A;
        let Some(op) = func.opcode(inst).as_abstract() else {
            return 0;
        };
        let (results, sources) = func.operands(inst).split_at(func.result_count(inst));
        let scalar = func.modifier::<Scalar>(inst);
        let number = scalar.is_some_and(|scalar| matches!(scalar.bits(), 32 | 64));
        let wraps = (func.modifier::<Sat>(inst)).is_none_or(|sat| sat == Sat::Wrap);
        // What is kept under a guard is another value; of several results one says nothing of the others.
        if !func.inst(inst).guard().is_always() || results.len() != 1 {
            return 0;
        }
        let at = |place: usize| self.operand(sources[place]);
        let both = || at(0).min(at(1));
        let zeros = match (op, sources.len()) {
            (A::Mov, 1) if number => at(0),
            (A::Add | A::Sub, 2) if number && wraps => both(),
            (A::Or | A::Xor, 2) if number => both(),
            (A::And, 2) if number => at(0).max(at(1)),
            (A::Selp, 3) if number => both(),
            (A::Shl, 2) if number => match sources[1] {
                Operand::Imm(by) => at(0) + (by.bits() & 0xff).min(u64::from(MOST)) as u32,
                _ => at(0),
            },
            (A::Mul, 2) => match func.modifier::<Half>(inst) {
                Some(Half::Lo | Half::Wide) => at(0) + at(1),
                _ => 0,
            },
            (A::Mad, 3) => match func.modifier::<Half>(inst) {
                Some(Half::Lo | Half::Wide) if wraps => (at(0) + at(1)).min(at(2)),
                _ => 0,
            },
            _ => 0,
        };
        zeros.min(MOST)
    }
}
