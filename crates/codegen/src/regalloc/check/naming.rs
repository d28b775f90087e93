//! What the code before says of contents: which registers of values are the same, and which instructions may be run again.

use super::{Name, Names};
use cranelift_entity::EntityRef;
use orias_ori::analysis::{DepthFirst, FlowGraph};
use orias_ori::{
    AbstractOp, Block, Function, Inst, Opcode, Operand, Operation, PhysReg, Reg, RegKind, Value,
    ValueDef,
};
use orias_sass::{self as sass, Op};
use rustc_hash::FxHashMap;

/// The name of each register of each value; none for contents nobody defined.
pub(super) struct Naming {
    names: FxHashMap<(Value, u8), Option<Name>>,
    /// Instructions without inputs, by what they compute: the first value each defines.
    repeated: FxHashMap<String, Value>,
    /// Instructions with inputs, by what they compute: of which contents they make what, by register.
    derived: FxHashMap<String, FxHashMap<Vec<Name>, Vec<Names>>>,
    /// Parameters of blocks with one way in, with their arguments: they are the same.
    passed: FxHashMap<Value, Value>,
}

impl Naming {
    pub(super) fn new(func: &Function) -> Naming {
        let mut naming = Naming {
            names: FxHashMap::default(),
            repeated: FxHashMap::default(),
            derived: FxHashMap::default(),
            passed: passed_once(func),
        };
        for block in func.blocks() {
            for inst in func.block_insts(block) {
                if naming.is_repeatable(func, inst)
                    && let Some(value) = func.value_defs(inst).next()
                {
                    naming
                        .repeated
                        .entry(computation(func, inst))
                        .or_insert(value);
                }
            }
        }
        for number in 0..func.value_count() {
            let value = Value::new(number);
            for unit in 0..func.value_type(value).len() {
                let name = naming.resolve(func, value, unit);
                naming.names.insert((value, unit), name);
            }
        }
        for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
            if !is_computed(func, inst) {
                continue;
            }
            let names = |regs: Vec<Reg>| -> Option<Vec<Name>> {
                let values = regs.into_iter().map(Reg::value);
                let mut names = Vec::new();
                for value in values {
                    let value = value?;
                    let units = 0..func.value_type(value).len();
                    for unit in units {
                        names.push(naming.name(value, unit)?);
                    }
                }
                Some(names)
            };
            if let (Some(of), Some(made)) = (names(inputs(func, inst)), names(results(func, inst)))
            {
                let computation = computation_of_any(func, inst);
                let alike = naming.derived.entry(computation).or_default();
                let known = alike.entry(of).or_default();
                known.resize(made.len(), Names::default());
                for (known, made) in known.iter_mut().zip(made) {
                    known.insert(made);
                }
            }
        }
        naming
    }

    /// What `inst`, of the code after, makes of registers with these contents, by register; empty if that is nothing known.
    pub(super) fn derived(&self, func: &Function, inst: Inst, inputs: &[Names]) -> Vec<Names> {
        let mut made: Vec<Names> = Vec::new();
        let alike = self.derived.get(&computation_of_any(func, inst));
        for (of, found) in alike.into_iter().flatten() {
            let reads = of.len() == inputs.len()
                && of
                    .iter()
                    .zip(inputs)
                    .all(|(name, held)| held.contains(name));
            if reads {
                made.resize(found.len(), Names::default());
                for (made, found) in made.iter_mut().zip(found) {
                    made.extend(found);
                }
            }
        }
        made
    }

    pub(super) fn name(&self, value: Value, unit: u8) -> Option<Name> {
        self.names.get(&(value, unit)).copied().flatten()
    }

    /// Whether `inst`, of the code before, has no inputs and can be run again anywhere.
    pub(super) fn is_repeatable(&self, func: &Function, inst: Inst) -> bool {
        let Operation::Machine(op, _) = func.inst(inst).operation() else {
            return false;
        };
        let row = op.row();
        let fixed = |operand: &Operand| match operand {
            Operand::Special(number) => sass::special::is_fixed(*number),
            _ => false,
        };
        let same = match op {
            Op::S2R | Op::S2UR => func.operands(inst).iter().any(fixed),
            _ => row.effects.is_empty(),
        };
        func.inst(inst).guard().is_always()
            && func.uses(inst).next().is_none()
            && func.value_defs(inst).count() == 1
            && same
            && row
                .memory
                .iter()
                .all(|memory| matches!(memory.space, sass::Space::Constant) && !memory.writes)
            && func.edges(inst).is_empty()
    }

    /// The value that `inst`, of the code after, computes again.
    pub(super) fn repeated(&self, func: &Function, inst: Inst) -> Option<Value> {
        self.repeated.get(&computation(func, inst)).copied()
    }

    fn resolve(&self, func: &Function, value: Value, unit: u8) -> Option<Name> {
        let (mut value, mut unit) = (value, unit);
        loop {
            let ValueDef::Inst(inst, index) = func.value_def(value) else {
                match self.passed.get(&value) {
                    Some(&arg) => value = arg,
                    None => return Some(Name::Part(value, unit)),
                }
                continue;
            };
            let results = func.result_count(inst);
            let operand = match func.opcode(inst) {
                Opcode::Abstract(AbstractOp::Undef) => return None,
                Opcode::Abstract(AbstractOp::Collect) => {
                    let mut parts = func.operands(inst)[1..].iter();
                    loop {
                        let part = parts.next()?;
                        let len = func.reg_type(part.reg()?).len();
                        if unit < len {
                            break *part;
                        }
                        unit -= len;
                    }
                }
                Opcode::Abstract(AbstractOp::Split) => {
                    let skipped: u8 = func.operands(inst)[..usize::from(index)]
                        .iter()
                        .filter_map(|part| part.reg())
                        .map(|part| func.reg_type(part).len())
                        .sum();
                    unit += skipped;
                    func.operands(inst)[results]
                }
                Opcode::Abstract(AbstractOp::ParCopy) => {
                    func.operands(inst)[results + usize::from(index)]
                }
                _ if self.is_repeatable(func, inst) => {
                    let first = self.repeated.get(&computation(func, inst));
                    return Some(Name::Part(first.copied().unwrap_or(value), unit));
                }
                _ => return Some(Name::Part(value, unit)),
            };
            match operand.reg()?.kind() {
                RegKind::Value(source) => value = source,
                RegKind::Phys(reg) if reg.is_constant() => {
                    return Some(Name::Constant(reg.class()));
                }
                RegKind::Phys(_) => return Some(Name::Part(value, unit)),
            }
        }
    }
}

/// The parameters of blocks with one way in, with their arguments.
fn passed_once(func: &Function) -> FxHashMap<Value, Value> {
    let edges = || func.blocks().flat_map(|block| func.successor_edges(block));
    let mut ways: FxHashMap<Block, u32> =
        func.entry().map(|entry| (entry, 1)).into_iter().collect();
    for &edge in edges() {
        *ways.entry(func.edge_target(edge)).or_default() += 1;
    }
    let mut passed = FxHashMap::default();
    // What nobody reaches may go round in circles.
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    for &edge in edges() {
        let target = func.edge_target(edge);
        if ways[&target] == 1 && walk.is_reachable(target) {
            let params = func.block_params(target).iter().copied();
            passed.extend(params.zip(func.edge_args(edge).iter().copied()));
        }
    }
    passed
}

/// What an instruction computes, without where it puts it.
fn computation(func: &Function, inst: Inst) -> String {
    let operands: Vec<String> = func
        .operands(inst)
        .iter()
        .enumerate()
        .filter(|&(index, _)| !func.is_def(inst, index))
        .map(|(_, operand)| format!("{operand:?}"))
        .collect();
    let len: Vec<u8> = func
        .defs(inst)
        .map(|reg| func.reg_type(reg).len())
        .collect();
    format!("{:?} {operands:?} {len:?}", func.inst(inst).operation())
}

/// Whether an instruction makes its results of registers and constants, and does nothing else.
pub(super) fn is_computed(func: &Function, inst: Inst) -> bool {
    let Operation::Machine(op, _) = func.inst(inst).operation() else {
        return false;
    };
    let row = op.row();
    func.inst(inst).guard().is_always()
        && row.effects.is_empty()
        && row.memory.is_empty()
        && func.edges(inst).is_empty()
        && func.kept(inst).is_empty()
        && !inputs(func, inst).is_empty()
}

/// The registers that an instruction reads, but for those that are constant.
pub(super) fn inputs(func: &Function, inst: Inst) -> Vec<Reg> {
    let changes = |reg: &Reg| !reg.phys().is_some_and(PhysReg::is_constant);
    func.uses(inst).filter(changes).collect()
}

/// The registers that it writes.
pub(super) fn results(func: &Function, inst: Inst) -> Vec<Reg> {
    let changes = |reg: &Reg| !reg.phys().is_some_and(PhysReg::is_constant);
    func.defs(inst).filter(changes).collect()
}

/// What an instruction computes, whatever registers it reads.
fn computation_of_any(func: &Function, inst: Inst) -> String {
    let operands: Vec<String> = func
        .operands(inst)
        .iter()
        .enumerate()
        .filter(|&(index, _)| !func.is_def(inst, index))
        .map(|(_, operand)| match operand {
            Operand::Reg { reg, mods } if !reg.phys().is_some_and(PhysReg::is_constant) => {
                format!("{} {mods:?}", func.reg_type(*reg).class().name())
            }
            other => format!("{other:?}"),
        })
        .collect();
    format!("{:?} {operands:?}", func.inst(inst).operation())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_registers_make_is_known_however_many_names_they_have() {
        let text = "entry k machine sm_90a {
block0:
    S2R v0:r, SR_TID.X
    S2R v1:r, SR_TID.Y
    IADD3 v2:r, PT, PT, v0, v1, RZ
    EXIT PT
}";
        let func = orias_ori::parse_function(text).expect("a good function");
        let naming = Naming::new(&func);
        let [a, b, sum] = [0, 1, 2].map(|number| Name::Part(Value::from_u32(number), 0));
        let inst = func
            .defining_inst(Value::from_u32(2))
            .expect("it is defined");
        // As with values that nobody has defined, which are anywhere.
        let others = (3..400).map(|number| Name::Part(Value::from_u32(number), 0));
        let held = |name: Name| others.clone().chain([name]).collect::<Names>();
        let made = naming.derived(&func, inst, &[held(a), held(b)]);
        assert_eq!(made, [Names::from([sum])]);
        assert!(naming.derived(&func, inst, &[held(b), held(b)]).is_empty());
    }
}
