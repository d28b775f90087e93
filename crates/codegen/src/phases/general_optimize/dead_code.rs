//! Dead code elimination: instructions and block parameters nobody needs.

use super::Keep;
use super::edges::Incoming;
use orias_ori::operation::Order;
use orias_ori::{AbstractOp, Block, Effects, Function, Inst, Value, ValueDef};

/// What was found not to be needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Removed {
    /// Instructions at most.
    Instructions,
    /// Block parameters.
    Parameters,
}

/// Removes what is not needed.
///
/// Needed is what has an effect, and what something needed uses. A parameter is used by what uses it, and passes the need on
/// to its arguments; an edge by itself needs nothing, so parameters that only feed each other around a loop go.
pub(super) fn remove(function: &mut Function, keep: &Keep<'_>) -> Removed {
    let incoming = Incoming::new(function);
    let needed = Needed::find(function, &incoming, keep);
    let blocks: Vec<Block> = function.blocks().collect();
    let entry = function.entry();
    let mut removed = Removed::Instructions;
    for block in blocks {
        let mut next = function.layout.first_inst(block);
        while let Some(inst) = next {
            next = function.layout.next_inst(inst);
            if !needed.insts[inst.as_u32() as usize] {
                function.remove_inst(inst);
            }
        }
        if Some(block) == entry || keep.block(function, block) {
            continue;
        }
        for index in (0..function.block_params(block).len()).rev() {
            let param = function.block_params(block)[index];
            if !needed.values[param.as_u32() as usize] {
                function.remove_block_param(block, index, incoming.of(block));
                removed = Removed::Parameters;
            }
        }
    }
    removed
}

/// What is needed, by number.
struct Needed {
    insts: Vec<bool>,
    values: Vec<bool>,
}

impl Needed {
    fn find(function: &Function, incoming: &Incoming, keep: &Keep<'_>) -> Self {
        let mut needed = Self {
            insts: vec![false; function.inst_count()],
            values: vec![false; function.value_count()],
        };
        let mut pending = Vec::new();
        for block in function.blocks() {
            if keep.block(function, block) {
                for &param in function.block_params(block) {
                    needed.add_value(param, &mut pending);
                }
            }
            for inst in function.block_insts(block) {
                if stays(function, inst) || keep.inst(function, inst) {
                    needed.add_inst(function, inst, &mut pending);
                }
            }
        }
        while let Some(value) = pending.pop() {
            match function.value_def(value) {
                ValueDef::Inst(inst, _) => needed.add_inst(function, inst, &mut pending),
                ValueDef::Param(block, index) => {
                    for &edge in incoming.of(block) {
                        if let Some(&argument) = function.edge_args(edge).get(usize::from(index)) {
                            needed.add_value(argument, &mut pending);
                        }
                    }
                }
                ValueDef::None => {}
            }
        }
        needed
    }

    fn add_value(&mut self, value: Value, pending: &mut Vec<Value>) {
        if !std::mem::replace(&mut self.values[value.as_u32() as usize], true) {
            pending.push(value);
        }
    }

    fn add_inst(&mut self, function: &Function, inst: Inst, pending: &mut Vec<Value>) {
        if std::mem::replace(&mut self.insts[inst.as_u32() as usize], true) {
            return;
        }
        // Not what its edges pass on.
        function.for_each_own_use(inst, |reg| {
            if let Some(value) = reg.value() {
                self.add_value(value, pending);
            }
        });
    }
}

/// Whether `inst` does something besides computing its results. A read that others can observe the order of does.
fn stays(function: &Function, inst: Inst) -> bool {
    let opcode = function.opcode(inst);
    if opcode.as_abstract() == Some(AbstractOp::Shfl) {
        // Lanes meet in a shuffle, but it orders no memory, and nobody may count on their staying together behind it.
        return false;
    }
    let effects = opcode.effects();
    effects.intersects(Effects::BEYOND_RESULTS)
        || effects.contains(Effects::READS)
            && !matches!(function.modifier::<Order>(inst), None | Some(Order::Weak))
}
