//! Making what was planned.

use super::forms::{self, Form};
use super::plan::{Plan, Role};
use super::{broken, uniform_class};
use crate::loops::LoopAnalyses;
use crate::pipeline::PhaseError;
use orias_ori::builder::Cursor;
use orias_ori::machine::check_operands;
use orias_ori::{
    AbstractMods, AbstractOp, Block, Class, Edge, Function, Inst, Operand, Reg, SourceMods, Type,
    Value, ValueDef,
};
use orias_sass::{EncodeError, Mods, Op, Target, modifier_names as name, modifier_values as value};
use rustc_hash::FxHashMap;

/// Lets everything in `plan` go over.
pub(super) fn build(
    func: &mut Function,
    shape: &LoopAnalyses,
    plan: &Plan,
    target: Target,
) -> Result<(), PhaseError> {
    let mut builder = Builder {
        func,
        plan,
        target,
        twins: FxHashMap::default(),
    };
    builder.add_params();
    for block in shape.walk.reverse_postorder() {
        builder.block(block)?;
    }
    builder.pass_arguments(shape)?;
    builder.redirect();
    builder.replace_roots()?;
    builder.remove(shape);
    Ok(())
}

struct Builder<'a> {
    func: &'a mut Function,
    plan: &'a Plan,
    target: Target,
    /// By value: the same in uniform registers.
    twins: FxHashMap<Value, Value>,
}

impl Builder<'_> {
    /// A value of the uniform class that holds what `value` does.
    fn new_twin(&mut self, value: Value) -> Option<Value> {
        let ty = self.func.value_type(value);
        let ty = Type::tuple(uniform_class(ty.class())?, ty.len())?;
        let twin = self.func.create_value(ty);
        self.twins.insert(value, twin);
        Some(twin)
    }

    fn add_params(&mut self) {
        let mut params: Vec<Value> = (self.plan.roles.iter())
            .filter(|(_, role)| **role == Role::Param)
            .map(|(&value, _)| value)
            .collect();
        params.sort_unstable();
        for value in params {
            let ValueDef::Param(block, _) = self.func.value_def(value) else {
                continue;
            };
            let ty = self.func.value_type(value);
            let class = uniform_class(ty.class());
            if let Some(ty) = class.and_then(|class| Type::tuple(class, ty.len())) {
                let twin = self.func.append_block_param(block, ty);
                self.twins.insert(value, twin);
            }
        }
    }

    /// Makes what is defined in `block`.
    fn block(&mut self, block: Block) -> Result<(), PhaseError> {
        let params = self.func.block_params(block).to_vec();
        let insts: Vec<Inst> = self.func.block_insts(block).collect();
        for param in params {
            if self.plan.roles.get(&param) == Some(&Role::Leaf)
                && let Some(&first) = insts.first()
            {
                self.leaf(param, first)?;
            }
        }
        for &inst in &insts {
            let defs: Vec<Value> = self.func.value_defs(inst).collect();
            let role = |value: &Value| self.plan.roles.get(value).copied();
            if defs
                .iter()
                .any(|value| role(value) == Some(Role::Converted))
            {
                self.convert(inst)?;
            }
            let leaves: Vec<Value> = (defs.iter().copied())
                .filter(|value| role(value) == Some(Role::Leaf))
                .collect();
            for leaf in leaves {
                let Some(next) = self.func.layout.next_inst(inst) else {
                    return Err(broken(
                        self.func,
                        inst,
                        "ends a block and is read behind it",
                    ));
                };
                self.leaf(leaf, next)?;
            }
        }
        Ok(())
    }

    /// Takes `leaf` over, before `at`.
    fn leaf(&mut self, leaf: Value, at: Inst) -> Result<(), PhaseError> {
        let ty = self.func.value_type(leaf);
        let twin = self
            .new_twin(leaf)
            .ok_or_else(|| broken(self.func, at, "no uniform register holds this"))?;
        if ty.class() == Class::P {
            let urz = Operand::from(orias_ori::PhysReg::URZ);
            let operands = [urz, twin.into(), leaf.into()];
            return self.put(Op::VOTEU, &[(name::MODE, value::ANY)], &operands, at);
        }
        let pt = Operand::from(orias_ori::PhysReg::PT);
        if ty.len() == 1 {
            return self.put(Op::R2UR, &[], &[pt, twin.into(), leaf.into()], at);
        }
        let words: Vec<Value> = (0..ty.len())
            .map(|_| self.func.create_value(Type::R))
            .collect();
        let mut split: Vec<Operand> = words.iter().map(|&word| word.into()).collect();
        split.push(leaf.into());
        self.tuple(AbstractOp::Split, words.len(), &split, at);
        let mut collect = vec![Operand::from(twin)];
        for word in words {
            let uniform = self.func.create_value(Type::UR);
            self.put(Op::R2UR, &[], &[pt, uniform.into(), word.into()], at)?;
            collect.push(uniform.into());
        }
        self.tuple(AbstractOp::Collect, 1, &collect, at);
        Ok(())
    }

    fn tuple(&mut self, op: AbstractOp, results: usize, operands: &[Operand], at: Inst) {
        let inst = (self.func).create_abstract(op, AbstractMods::NONE, results, operands);
        let span = self.func.inst(at).span();
        self.func.set_span(inst, span);
        self.func.layout.insert_inst_before(inst, at);
    }

    /// Emits a machine instruction before `at`.
    fn put(
        &mut self,
        op: Op,
        mods: &[(orias_sass::ModifierName, orias_sass::ValueName)],
        operands: &[Operand],
        at: Inst,
    ) -> Result<(), PhaseError> {
        let mut cursor = Cursor::before(self.func, at);
        let mut made = cursor.build(op).operands(operands.iter().copied());
        for &(name, value) in mods {
            made = made.modifier(name, value);
        }
        let made = made.finish();
        made.map(|_| ()).map_err(|error| PhaseError::Broken {
            at: error.inst.clone(),
            what: error.to_string(),
        })
    }

    /// What a uniform form reads instead of `operand`; a constant goes through a register.
    fn source(&mut self, operand: Operand, at: Inst) -> Result<Operand, PhaseError> {
        if let Some(constant) = forms::constant(operand) {
            return Ok(constant);
        }
        match operand {
            Operand::Const { .. } => {
                let word = self.func.create_value(Type::UR);
                self.put(
                    Op::ULDC,
                    &[(name::SIZE, value::_32)],
                    &[word.into(), operand],
                    at,
                )?;
                Ok(word.into())
            }
            _ => match operand.as_value() {
                Some(value) if self.func.value_type(value).class().is_uniform() => Ok(operand),
                Some(value) => {
                    let twin = self.twins.get(&value).copied();
                    let twin = twin.and_then(|twin| Operand::from(twin).with_mods(operand.mods()));
                    twin.ok_or_else(|| broken(self.func, at, format!("{value} has no twin")))
                }
                None => Ok(operand),
            },
        }
    }

    /// Makes the uniform form of `inst` before it.
    fn convert(&mut self, inst: Inst) -> Result<(), PhaseError> {
        let Some(form) = forms::uniform(self.func, inst) else {
            return Err(broken(self.func, inst, "has no uniform form"));
        };
        let (op, mods) = match form {
            Form::Tuple => return self.convert_tuple(inst),
            Form::Machine(op, mods) => (op, mods),
        };
        if op == Op::UMOV {
            return self.convert_move(inst);
        }
        let general = forms::slots(self.func, inst, op)
            .ok_or_else(|| broken(self.func, inst, format!("{op} has other operands")))?;
        let mut operands = Vec::with_capacity(general.len());
        for (index, operand) in general.into_iter().enumerate() {
            operands.push(match op.row().slots[index].access.writes() {
                true => self.result(operand, inst)?,
                false => self.source(operand, inst)?,
            });
        }
        self.fit(op, mods, operands, inst)
    }

    /// Where a uniform form writes instead of `operand`.
    fn result(&mut self, operand: Operand, inst: Inst) -> Result<Operand, PhaseError> {
        let twin = match operand.as_value() {
            Some(value) => self.new_twin(value).map(Operand::from),
            None => forms::constant(operand),
        };
        twin.ok_or_else(|| broken(self.func, inst, "a result has no uniform class"))
    }

    /// Emits a uniform instruction before `at`; numbers that do not fit go through registers.
    fn fit(
        &mut self,
        op: Op,
        mods: Mods,
        mut operands: Vec<Operand>,
        at: Inst,
    ) -> Result<(), PhaseError> {
        loop {
            let error = match check_operands(self.func, op, mods, &operands, self.target) {
                Ok(variant) => {
                    let mut cursor = Cursor::before(self.func, at);
                    let put =
                        cursor.put_fitted(variant, &operands, orias_ori::Guard::ALWAYS, &[], false);
                    return put.map(|_| ()).map_err(|error| PhaseError::Broken {
                        at: error.inst.clone(),
                        what: error.to_string(),
                    });
                }
                Err(error) => error,
            };
            let slots = op.row().slots;
            let moves = |index: usize| {
                matches!(operands[index], Operand::Imm(_)) && forms::takes_register(op, index)
            };
            let blamed = match &error {
                EncodeError::Operand { slot, .. } => {
                    slots.iter().position(|candidate| candidate.name == *slot)
                }
                _ => None,
            };
            let place = blamed
                .filter(|&index| moves(index))
                .or_else(|| (0..operands.len()).find(|&index| moves(index)));
            let Some(place) = place else {
                return Err(broken(self.func, at, format!("{op}: {error}")));
            };
            operands[place] = self.number(operands[place], at)?;
        }
    }

    /// A number in a uniform register.
    fn number(&mut self, operand: Operand, at: Inst) -> Result<Operand, PhaseError> {
        match operand {
            Operand::Imm(imm) if imm.bits() == 0 => Ok(orias_ori::PhysReg::URZ.into()),
            _ => {
                let word = self.func.create_value(Type::UR);
                self.put(Op::UMOV, &[], &[word.into(), operand], at)?;
                Ok(word.into())
            }
        }
    }

    fn convert_move(&mut self, inst: Inst) -> Result<(), PhaseError> {
        let (to, from) = (self.func.operands(inst)[0], self.func.operands(inst)[1]);
        let Some(value) = to.as_value() else {
            return Err(broken(self.func, inst, "moves to nowhere"));
        };
        // A uniform register needs no copy.
        let same = from.as_value().filter(|_| from.mods() == SourceMods::NONE);
        let same = same.and_then(|from| match self.func.value_type(from) {
            Type::UR => Some(from),
            _ => self.twins.get(&from).copied(),
        });
        if let Some(same) = same {
            self.twins.insert(value, same);
            return Ok(());
        }
        let result = self.result(to, inst)?;
        match from {
            Operand::Const { .. } => {
                self.put(Op::ULDC, &[(name::SIZE, value::_32)], &[result, from], inst)
            }
            _ => {
                let from = self.source(from, inst)?;
                self.put(Op::UMOV, &[], &[result, from], inst)
            }
        }
    }

    fn convert_tuple(&mut self, inst: Inst) -> Result<(), PhaseError> {
        let results = self.func.result_count(inst);
        let Some(op) = self.func.opcode(inst).as_abstract() else {
            return Err(broken(self.func, inst, "is no tuple"));
        };
        let mut operands = Vec::new();
        for (index, operand) in self.func.operands(inst).to_vec().into_iter().enumerate() {
            operands.push(match index < results {
                true => self.result(operand, inst)?,
                false => self.source(operand, inst)?,
            });
        }
        self.tuple(op, results, &operands, inst);
        Ok(())
    }

    /// Hands the twins of arguments to the twins of parameters.
    fn pass_arguments(&mut self, shape: &LoopAnalyses) -> Result<(), PhaseError> {
        for (block, indices) in self.params() {
            let edges: Vec<Edge> = (shape.incoming(block).iter())
                .map(|&(_, edge)| edge)
                .collect();
            for edge in edges {
                // Twins stand behind the others, in the order of their values.
                for &(value, index) in &indices {
                    let arg = self.func.edge_args(edge)[index];
                    let twin = match self.func.value_type(arg).class().is_uniform() {
                        true => Some(arg),
                        false => self.twins.get(&arg).copied(),
                    };
                    let Some(twin) = twin else {
                        return Err(PhaseError::Broken {
                            at: block.to_string(),
                            what: format!("{value} has an argument without a twin: {arg}"),
                        });
                    };
                    self.func.push_edge_arg(edge, twin);
                }
            }
        }
        Ok(())
    }

    /// The parameters that have a twin, by block and in the order of their values.
    fn params(&self) -> Vec<(Block, Vec<(Value, usize)>)> {
        let mut found: Vec<(Block, Value, usize)> = Vec::new();
        for (&value, role) in &self.plan.roles {
            if *role == Role::Param
                && let ValueDef::Param(block, index) = self.func.value_def(value)
            {
                found.push((block, value, usize::from(index)));
            }
        }
        found.sort_unstable();
        let mut by_block: Vec<(Block, Vec<(Value, usize)>)> = Vec::new();
        for (block, value, index) in found {
            match by_block.last_mut() {
                Some((last, list)) if *last == block => list.push((value, index)),
                _ => by_block.push((block, vec![(value, index)])),
            }
        }
        by_block
    }

    /// Lets instructions of general registers read uniform ones.
    fn redirect(&mut self) {
        for &(inst, index, value) in &self.plan.redirected {
            let Some(&twin) = self.twins.get(&value) else {
                continue;
            };
            let operands =
                forms::with_uniform(self.func, inst, index, Operand::from(twin), self.target);
            for (index, operand) in operands.into_iter().flatten().enumerate() {
                if self.func.operands(inst)[index] != operand {
                    self.func.set_operand(inst, index, operand);
                }
            }
        }
    }

    fn replace_roots(&mut self) -> Result<(), PhaseError> {
        let mut renamed: FxHashMap<Value, Value> = FxHashMap::default();
        for root in &self.plan.roots {
            let twin = match self.func.value_type(root.source).class().is_uniform() {
                true => Some(root.source),
                false => self.twins.get(&root.source).copied(),
            };
            let Some(twin) = twin else {
                return Err(broken(self.func, root.inst, "its source has no twin"));
            };
            renamed.insert(root.result, twin);
        }
        self.func.map_all_uses(|reg| match reg.value() {
            Some(value) => renamed.get(&value).map_or(reg, |&twin| Reg::from(twin)),
            None => reg,
        });
        for root in &self.plan.roots {
            self.func.remove_inst(root.inst);
        }
        Ok(())
    }

    /// Takes away what nobody reads any more.
    fn remove(&mut self, shape: &LoopAnalyses) {
        let unneeded = |value: Value, role: Role| {
            self.plan.roles.get(&value) == Some(&role) && !self.plan.needed.contains(&value)
        };
        for block in shape.walk.reverse_postorder() {
            let insts: Vec<Inst> = self.func.block_insts(block).collect();
            for inst in insts {
                let mut defs = self.func.value_defs(inst).peekable();
                let over = defs.peek().is_some() && defs.all(|it| unneeded(it, Role::Converted));
                if over {
                    self.func.remove_inst(inst);
                }
            }
            let edges: Vec<Edge> = (shape.incoming(block).iter())
                .map(|&(_, edge)| edge)
                .collect();
            let params = self.func.block_params(block).to_vec();
            for (index, &param) in params.iter().enumerate().rev() {
                if unneeded(param, Role::Param) {
                    self.func.remove_block_param(block, index, &edges);
                }
            }
        }
    }
}
