//! Copies of regions.

use super::Region;
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use orias_ori::operation::Scalar;
use orias_ori::{AbstractOp, Block, Function, Inst, Operand, Reg, Type, Value};

/// What stands for what in a copy.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    blocks: SecondaryMap<Block, PackedOption<Block>>,
    values: SecondaryMap<Value, PackedOption<Value>>,
}

impl Copied {
    /// The copy of `block`; itself if it was not copied.
    pub fn block(&self, block: Block) -> Block {
        self.blocks[block].expand().unwrap_or(block)
    }

    /// The copy of `value`; itself if it was not copied.
    pub fn value(&self, value: Value) -> Value {
        self.values[value].expand().unwrap_or(value)
    }
}

/// Copies `region`, which is closed, and places the copy behind `after`, block by block in the region's layout. Edges within the region lead
/// to copies, except those to `header`: they still lead to the original, as all edges do that leave the region. Nothing leads to the copy yet.
pub fn copy(func: &mut Function, region: &Region, header: Block, after: Block) -> Copied {
    let mut copied = Copied::default();
    let mut last = after;
    for &block in &region.blocks {
        let new = func.create_block();
        func.layout.insert_block_after(new, last);
        last = new;
        copied.blocks[block] = new.into();
        func.attributes.rate_alike(block, new);
        let params: Vec<(Value, Type)> = func
            .block_params(block)
            .iter()
            .map(|&param| (param, func.value_type(param)))
            .collect();
        for (param, ty) in params {
            copied.values[param] = func.append_block_param(new, ty).into();
        }
        let insts: Vec<Inst> = func.block_insts(block).collect();
        for inst in insts {
            let again = func.copy_inst(inst);
            func.layout.append_inst(again, new);
            let defined: Vec<Value> = func.value_defs(inst).collect();
            for value in defined {
                let ty = func.value_type(value);
                copied.values[value] = func.create_value(ty).into();
            }
            // The originals keep their definitions: only the places of the copy change.
            for index in 0..func.operands(again).len() {
                if func.is_def(again, index)
                    && let Some(value) = func.operands(again)[index].as_value()
                {
                    func.set_operand(again, index, copied.value(value).into());
                }
            }
        }
    }
    // A block may read what a later one of the region defines: along an edge back.
    for &block in &region.blocks {
        let new = copied.block(block);
        let insts: Vec<Inst> = func.block_insts(new).collect();
        for inst in insts {
            func.map_uses(inst, |reg| match reg.value() {
                Some(value) => Reg::from(copied.value(value)),
                None => reg,
            });
            for index in 0..func.operands(inst).len() {
                if let Operand::Block(named) = func.operands(inst)[index] {
                    func.set_operand(inst, index, Operand::Block(copied.block(named)));
                }
            }
            for place in 0..func.edges(inst).len() {
                let edge = func.edges(inst)[place];
                let target = func.edge_target(edge);
                if target != header && region.contains(target) {
                    let args = func.edge_args(edge).to_vec();
                    func.set_edge(edge, copied.block(target), &args);
                }
            }
        }
    }
    copied
}

/// Whether there must be no second copy of `inst`: operations that change what the thread or the warp has from there on, and blocks that are named.
pub fn is_singular(func: &Function, inst: Inst) -> bool {
    use AbstractOp as A;
    let named = func
        .operands(inst)
        .iter()
        .any(|operand| matches!(operand, Operand::Block(_)));
    named
        || matches!(
            func.opcode(inst).as_abstract(),
            Some(A::SetMaxNReg | A::Alloca | A::StackSave | A::StackRestore | A::Switch)
        )
}

/// About how many instructions `inst` takes.
pub fn instructions(func: &Function, inst: Inst) -> u64 {
    use AbstractOp as A;
    let Some(op) = func.opcode(inst).as_abstract() else {
        return 1;
    };
    match op {
        A::Mov | A::Collect | A::Split | A::Undef | A::CvtaTo | A::Br => 0,
        A::Ld | A::St | A::Atom | A::Red => 1,
        _ => match func.modifier::<Scalar>(inst) {
            Some(Scalar::F64) => 1,
            Some(scalar) if scalar.bits() == 64 => match op {
                A::Mul | A::Mad => 4,
                _ => 2,
            },
            _ => 1,
        },
    }
}
