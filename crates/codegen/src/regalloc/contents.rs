//! Value numbers of registers: which registers of values hold the same contents.
//!
//! Collecting, splitting and copying make no new contents: a part has those of its place in the tuple, a copy has those of its source. Each
//! register of each value is given a number, and equal numbers mean equal contents wherever both values are live. Values that hold the
//! same contents may lie in one register however long they live together, so they never interfere (the value-based interference of
//! Boissinot, Darte, Rastello, de Dinechin and Guillon, "Revisiting out-of-SSA translation for correctness, code quality, and efficiency", 2009).
//!
//! Cost: O(registers of all values).

use cranelift_entity::EntityRef;
use orias_ori::{AbstractOp, Block, Function, Inst, Opcode, Operand, Value};

/// The numbers of contents.
pub(super) struct Contents {
    /// By value: its first entry in `numbers`.
    first: Vec<u32>,
    numbers: Vec<u32>,
}

impl Contents {
    /// The contents of all values of `func`. In `order`, definitions come before what they reach.
    pub(super) fn new(func: &Function, order: impl Iterator<Item = Block>) -> Contents {
        let mut first = Vec::with_capacity(func.value_count());
        let mut total = 0;
        for number in 0..func.value_count() {
            first.push(total);
            total += u32::from(func.value_type(Value::new(number)).len());
        }
        let mut contents = Contents {
            first,
            numbers: (0..total).collect(),
        };
        for inst in order.flat_map(|block| func.block_insts(block)) {
            contents.pass_on(func, inst);
        }
        contents
    }

    fn pass_on(&mut self, func: &Function, inst: Inst) {
        let Opcode::Abstract(op) = func.opcode(inst) else {
            return;
        };
        let (results, sources) = func.operands(inst).split_at(func.result_count(inst));
        match op {
            AbstractOp::Collect | AbstractOp::Split => {
                // The registers of all results are those of all sources, one after another.
                let mut from = 0;
                let mut rest = sources.iter().map(|source| (source, length(func, *source)));
                let mut source = rest.next();
                for result in results {
                    for unit in 0..length(func, *result) {
                        while let Some((_, len)) = source
                            && from == len
                        {
                            (from, source) = (0, rest.next());
                        }
                        if let (Some(result), Some((operand, _))) = (result.as_value(), source)
                            && let Some(source) = operand.as_value()
                        {
                            self.numbers[self.first[result.index()] as usize + unit] =
                                self.of(source, from);
                        }
                        from += 1;
                    }
                }
            }
            AbstractOp::ParCopy => {
                for (result, source) in results.iter().zip(sources) {
                    if let (Some(result), Some(source)) = (result.as_value(), source.as_value()) {
                        for unit in 0..usize::from(func.value_type(result).len()) {
                            self.numbers[self.first[result.index()] as usize + unit] =
                                self.of(source, unit);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// The number of what the `unit`-th register of `value` holds.
    pub(super) fn of(&self, value: Value, unit: usize) -> u32 {
        self.numbers[self.first[value.index()] as usize + unit]
    }
}

/// How many registers an operand of `collect` or `split` stands for.
fn length(func: &Function, operand: Operand) -> usize {
    let reg = operand.reg();
    reg.map_or(1, |reg| usize::from(func.reg_type(reg).len()))
}
