//! What the code before says of contents: which registers of values are the same, and which instructions may be run again.

use super::{Name, Names};
use cranelift_entity::EntityRef;
use orias_ori::{
    AbstractOp, Function, Inst, Opcode, Operand, Operation, PhysReg, Reg, RegKind, Value, ValueDef,
};
use orias_sass::{self as sass, Op};
use rustc_hash::FxHashMap;

/// The name of each register of each value; none for contents nobody defined.
pub(super) struct Naming {
    names: FxHashMap<(Value, u8), Option<Name>>,
    /// Instructions without inputs, by what they compute: the first value each defines.
    repeated: FxHashMap<String, Value>,
    /// Instructions with one input, by what they compute and of which contents: the contents they make.
    derived: FxHashMap<(String, Name), Names>,
}

impl Naming {
    pub(super) fn new(func: &Function) -> Naming {
        let mut naming = Naming {
            names: FxHashMap::default(),
            repeated: FxHashMap::default(),
            derived: FxHashMap::default(),
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
            if let Some((value, source)) = one_input(func, inst)
                && let (Some(made), Some(of)) = (naming.name(value, 0), naming.name(source, 0))
            {
                let key = (computation_of_any(func, inst), of);
                naming.derived.entry(key).or_default().insert(made);
            }
        }
        naming
    }

    /// What `inst`, of the code after, makes of a register with these contents.
    pub(super) fn derived(&self, func: &Function, inst: Inst, input: &Names) -> Names {
        let computation = computation_of_any(func, inst);
        let made = input
            .iter()
            .filter_map(|&name| self.derived.get(&(computation.clone(), name)));
        made.flatten().copied().collect()
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
                return Some(Name::Part(value, unit));
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

/// The result of an instruction that makes one register of one other and of constants, and that other.
fn one_input_reg(func: &Function, inst: Inst) -> Option<(Reg, Reg)> {
    let Operation::Machine(op, _) = func.inst(inst).operation() else {
        return None;
    };
    let row = op.row();
    let plain = func.inst(inst).guard().is_always()
        && row.effects.is_empty()
        && row.memory.is_empty()
        && func.edges(inst).is_empty();
    let changes = |reg: &Reg| !reg.phys().is_some_and(PhysReg::is_constant);
    let mut uses = func.uses(inst).filter(changes);
    let mut defs = func.defs(inst).filter(changes);
    match (defs.next(), defs.next(), uses.next(), uses.next()) {
        (Some(to), None, Some(from), None) if plain => Some((to, from)),
        _ => None,
    }
}

/// The values of such an instruction of the code before, each in one register.
pub(super) fn one_input(func: &Function, inst: Inst) -> Option<(Value, Value)> {
    let (to, from) = one_input_reg(func, inst)?;
    let (to, from) = (to.value()?, from.value()?);
    let single = func.value_type(to).len() == 1 && func.value_type(from).len() == 1;
    single.then_some((to, from))
}

/// The registers of such an instruction of the code after.
pub(super) fn one_input_register(func: &Function, inst: Inst) -> Option<(PhysReg, PhysReg)> {
    let (to, from) = one_input_reg(func, inst)?;
    let (to, from) = (to.phys()?, from.phys()?);
    (to.units().count() == 1 && from.units().count() == 1).then_some((to, from))
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
