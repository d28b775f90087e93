//! What goes over to the uniform datapath.

use super::{Root, forms, uniform_class};
use crate::loops::LoopAnalyses;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_ori::analysis::{DefUse, Divergence, Place, Use};
use orias_ori::{Block, Class, Function, Inst, Opcode, Operand, PhysReg, Value, ValueDef};
use orias_sass::{Op, Target};
use rustc_hash::{FxHashMap, FxHashSet};

/// How much more often something runs for each loop around it, as far as this phase is concerned.
const LOOP_WEIGHT: u64 = 8;

/// Loops that count.
const DEEPEST: u32 = 6;

/// Values that may live in uniform registers from block to block before nothing more is added: half of the file is left to descriptors.
const CARRIED: usize = 32;

/// How a value comes to a uniform register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// By the uniform form of its definition.
    Converted,
    /// As a parameter of its block.
    Param,
    /// By R2UR or VOTEU behind its definition.
    Leaf,
}

/// What goes over.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// By value: how it gets there.
    pub(super) roles: FxHashMap<Value, Role>,
    /// What is replaced altogether.
    pub(super) roots: Vec<Root>,
    /// Values with a role that general registers need, too.
    pub(super) needed: FxHashSet<Value>,
    /// Instructions of general registers that read a uniform one instead: the operand and its value.
    pub(super) redirected: Vec<(Inst, usize, Value)>,
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Decides for all of `roots`.
    pub(super) fn of(
        func: &Function,
        shape: &LoopAnalyses,
        chains: &DefUse,
        divergence: &Divergence,
        roots: &[Root],
        target: Target,
    ) -> Plan {
        let mut planner = Planner {
            func,
            shape,
            chains,
            divergence,
            target,
            roles: FxHashMap::default(),
            webs: Webs::default(),
        };
        let roots: Vec<Root> = (roots.iter().copied())
            .filter(|root| planner.is_eligible(root))
            .collect();
        planner.explore(&roots);
        planner.decide(&roots)
    }
}

/// Sets of things that hang together.
#[derive(Debug, Default)]
struct Webs {
    parent: Vec<usize>,
    by_inst: FxHashMap<Inst, usize>,
    by_param: FxHashMap<Value, usize>,
}

impl Webs {
    fn new_node(&mut self) -> usize {
        self.parent.push(self.parent.len());
        self.parent.len() - 1
    }

    fn of_inst(&mut self, inst: Inst) -> usize {
        if let Some(&node) = self.by_inst.get(&inst) {
            return node;
        }
        let node = self.new_node();
        self.by_inst.insert(inst, node);
        node
    }

    fn of_param(&mut self, param: Value) -> usize {
        if let Some(&node) = self.by_param.get(&param) {
            return node;
        }
        let node = self.new_node();
        self.by_param.insert(param, node);
        node
    }

    fn find(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a] = b;
    }
}

struct Planner<'a> {
    func: &'a Function,
    shape: &'a LoopAnalyses,
    chains: &'a DefUse,
    divergence: &'a Divergence,
    target: Target,
    roles: FxHashMap<Value, Role>,
    webs: Webs,
}

impl Planner<'_> {
    fn weight(&self, block: Block) -> u64 {
        LOOP_WEIGHT.pow(self.shape.nest.block_depth(block).min(DEEPEST))
    }

    /// Whether `value` can be had in a uniform register behind its definition, and be read in `block`.
    fn is_source(&self, value: Value, block: Block) -> bool {
        let ty = self.func.value_type(value);
        if ty.class().is_uniform() {
            return true;
        }
        uniform_class(ty.class()).is_some()
            && ty.len() <= 4
            && self
                .divergence
                .is_uniform_at(value, block, &self.shape.nest)
            && (self.func.defining_block(value))
                .is_some_and(|home| !self.divergence.is_partial(home))
    }

    /// Whether the source of a root can be had before it.
    fn is_eligible(&self, root: &Root) -> bool {
        let block = self.func.layout.inst_block(root.inst);
        block.is_some_and(|block| {
            self.shape.walk.is_reachable(block) && self.is_source(root.source, block)
        })
    }

    fn is_convertible(&self, inst: Inst, block: Block) -> bool {
        let func = self.func;
        let results_agree = |value: Value| {
            let ty = func.value_type(value);
            self.divergence.is_uniform(value) && matches!(ty.class(), Class::R | Class::P)
        };
        !self.divergence.is_partial(block)
            && forms::uniform(func, inst).is_some()
            && forms::is_whole_move(func, inst)
            && func.value_defs(inst).all(results_agree)
            && func
                .value_uses(inst)
                .all(|value| self.is_source(value, block))
    }

    /// Whether a parameter can be one of a uniform class: all lanes come along the same edge.
    fn is_convertible_param(&self, block: Block, index: usize) -> bool {
        let mut incoming = self.shape.incoming(block).iter();
        !self.divergence.is_partial(block)
            && !self.divergence.is_join(block)
            && incoming.all(|&(from, edge)| {
                !self.divergence.is_partial(from)
                    && self.is_source(self.func.edge_args(edge)[index], block)
            })
    }

    /// Whether the definition of a value costs no more in a uniform register than taking the value over.
    fn is_cheap(&self, inst: Inst) -> bool {
        let func = self.func;
        match func.opcode(inst) {
            Opcode::Machine(Op::MOV) => func.operands(inst)[1]
                .as_value()
                .is_none_or(|value| func.value_type(value).class() != Class::R),
            Opcode::Machine(Op::S2R) => true,
            _ => false,
        }
    }

    /// The role of `value`, which is read in `block`.
    fn role(&self, value: Value, block: Block) -> Role {
        let func = self.func;
        let nest = &self.shape.nest;
        let depth = nest.block_depth(block);
        match func.value_def(value) {
            ValueDef::Inst(inst, _) => {
                let Some(home) = func.layout.inst_block(inst) else {
                    return Role::Leaf;
                };
                let outside = nest.block_depth(home) < depth;
                let goes = !outside || self.is_cheap(inst);
                match goes && self.is_convertible(inst, home) {
                    true => Role::Converted,
                    false => Role::Leaf,
                }
            }
            ValueDef::Param(home, index) => {
                let outside = nest.block_depth(home) < depth;
                let word = func.value_type(value).class() == Class::R;
                let goes = !outside && word && home != self.shape.graph.entry();
                match goes && self.is_convertible_param(home, usize::from(index)) {
                    true => Role::Param,
                    false => Role::Leaf,
                }
            }
            ValueDef::None => Role::Leaf,
        }
    }

    /// Gives a role to everything that the roots need.
    fn explore(&mut self, roots: &[Root]) {
        let func = self.func;
        // (value, block where it is read, node that reads it)
        let mut pending: Vec<(Value, Block, usize)> = Vec::new();
        for root in roots {
            let Some(block) = func.layout.inst_block(root.inst) else {
                continue;
            };
            let node = self.webs.of_inst(root.inst);
            pending.push((root.source, block, node));
        }
        while let Some((value, block, reader)) = pending.pop() {
            if func.value_type(value).class().is_uniform() {
                continue;
            }
            let known = self.roles.get(&value).copied();
            let role = known.unwrap_or_else(|| self.role(value, block));
            self.roles.insert(value, role);
            match (role, func.value_def(value)) {
                (Role::Converted, ValueDef::Inst(inst, _)) => {
                    let first = !self.webs.by_inst.contains_key(&inst);
                    let node = self.webs.of_inst(inst);
                    self.webs.join(node, reader);
                    // All results of an instruction go over together.
                    for result in func.value_defs(inst) {
                        self.roles.insert(result, Role::Converted);
                    }
                    if first && let Some(home) = func.layout.inst_block(inst) {
                        pending.extend(func.value_uses(inst).map(|value| (value, home, node)));
                    }
                }
                (Role::Param, ValueDef::Param(home, index)) => {
                    let first = !self.webs.by_param.contains_key(&value);
                    let node = self.webs.of_param(value);
                    self.webs.join(node, reader);
                    if first {
                        for &(from, edge) in self.shape.incoming(home) {
                            let arg = func.edge_args(edge)[usize::from(index)];
                            pending.push((arg, from, node));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether reading `value` there is over once everything has gone over, taking `needed` into account.
    fn is_covered(&self, read: Use, roots: &FxHashSet<Inst>, needed: &FxHashSet<Value>) -> bool {
        let func = self.func;
        if roots.contains(&read.inst) {
            return true;
        }
        if let Place::Argument { edge, index } = read.place {
            let edge = func.edges(read.inst)[usize::from(edge)];
            let param = func.block_params(func.edge_target(edge))[usize::from(index)];
            return self.roles.get(&param) == Some(&Role::Param) && !needed.contains(&param);
        }
        let mut defs = func.value_defs(read.inst).peekable();
        defs.peek().is_some()
            && defs.all(|value| {
                self.roles.get(&value) == Some(&Role::Converted) && !needed.contains(&value)
            })
    }

    /// Whether `read`, a reading of `value` by an instruction that stays, can be one of a uniform register.
    fn is_redirectable(&self, value: Value, read: Use) -> bool {
        let func = self.func;
        let Place::Operand(index) = read.place else {
            return false;
        };
        let alone = func
            .operands(read.inst)
            .iter()
            .filter(|it| it.as_value() == Some(value));
        let block = read.block(func);
        let Some(stand_in) = PhysReg::new(Class::UR, 0) else {
            return false;
        };
        func.value_type(value) == orias_ori::Type::R
            && alone.count() == 1
            && self
                .divergence
                .is_uniform_at(value, block, &self.shape.nest)
            && forms::with_uniform(
                func,
                read.inst,
                usize::from(index),
                Operand::from(stand_in),
                self.target,
            )
            .is_some()
    }

    /// Which values with a role general registers need, and which readings can go over instead.
    fn find_needed(
        &self,
        roots: &FxHashSet<Inst>,
    ) -> (FxHashSet<Value>, Vec<(Inst, usize, Value)>) {
        let func = self.func;
        let mut values: Vec<Value> = (self.roles.iter())
            .filter(|(_, role)| **role != Role::Leaf)
            .map(|(&value, _)| value)
            .collect();
        values.sort_unstable();
        let mut needed: FxHashSet<Value> = FxHashSet::default();
        let mut redirected: SecondaryMap<Inst, Option<(usize, Value)>> = SecondaryMap::new();
        let mut pending: Vec<Value> = Vec::new();
        for &value in &values {
            let open: Vec<Use> = (self.chains.uses(value).iter().copied())
                .filter(|&read| !self.is_covered(read, roots, &needed))
                .collect();
            let free =
                |read: &Use| self.is_redirectable(value, *read) && redirected[read.inst].is_none();
            if open.iter().all(free) {
                for read in &open {
                    if let Place::Operand(index) = read.place {
                        redirected[read.inst] = Some((usize::from(index), value));
                    }
                }
            } else if needed.insert(value) {
                pending.push(value);
            }
        }
        // What makes something that is needed needs its sources.
        while let Some(value) = pending.pop() {
            let mut need = |source: Value| {
                let role = self.roles.get(&source);
                if role.is_some_and(|role| *role != Role::Leaf) && needed.insert(source) {
                    pending.push(source);
                }
            };
            match func.value_def(value) {
                ValueDef::Inst(inst, _) => func.value_uses(inst).for_each(&mut need),
                ValueDef::Param(home, index) => {
                    for &(_, edge) in self.shape.incoming(home) {
                        need(func.edge_args(edge)[usize::from(index)]);
                    }
                }
                ValueDef::None => {}
            }
        }
        let redirected = values
            .iter()
            .filter(|value| !needed.contains(value))
            .flat_map(|&value| {
                let redirected = &redirected;
                self.chains.uses(value).iter().filter_map(move |read| {
                    let (index, of) = redirected[read.inst]?;
                    (of == value).then_some((read.inst, index, value))
                })
            })
            .collect();
        (needed, redirected)
    }

    /// Takes the webs that are worth it.
    fn decide(mut self, roots: &[Root]) -> Plan {
        let func = self.func;
        let root_insts: FxHashSet<Inst> = roots.iter().map(|root| root.inst).collect();
        let (needed, redirected) = self.find_needed(&root_insts);
        let mut gains: FxHashMap<usize, i64> = FxHashMap::default();
        let mut leaves: FxHashMap<usize, FxHashSet<Value>> = FxHashMap::default();
        let mut carried: FxHashMap<usize, usize> = FxHashMap::default();
        let block_of = |inst: Inst| func.layout.inst_block(inst);
        let insts: Vec<(Inst, usize)> = (self.webs.by_inst.iter())
            .map(|(&inst, &node)| (inst, node))
            .collect();
        for (inst, node) in insts {
            let web = self.webs.find(node);
            let Some(block) = block_of(inst) else {
                continue;
            };
            let weight = self.weight(block) as i64;
            let gain = gains.entry(web).or_default();
            if root_insts.contains(&inst) {
                *gain += weight;
            } else if func.opcode(inst).as_machine().is_some() {
                let kept = func.value_defs(inst).any(|value| needed.contains(&value));
                let is_move = func.opcode(inst) == Opcode::Machine(Op::MOV);
                let constants = func.operands(inst).iter();
                let constants =
                    constants.filter(|it| matches!(it, Operand::Const { .. }) && !is_move);
                *gain -= weight * (i64::from(kept) + constants.count() as i64);
            }
            for value in func.value_uses(inst) {
                if self.roles.get(&value) == Some(&Role::Leaf) {
                    leaves.entry(web).or_default().insert(value);
                }
            }
        }
        let params: Vec<(Value, usize)> = (self.webs.by_param.iter())
            .map(|(&value, &node)| (value, node))
            .collect();
        for (param, node) in params {
            let web = self.webs.find(node);
            *carried.entry(web).or_default() += 1;
            if let ValueDef::Param(home, index) = func.value_def(param) {
                for &(_, edge) in self.shape.incoming(home) {
                    let arg = func.edge_args(edge)[usize::from(index)];
                    if self.roles.get(&arg) == Some(&Role::Leaf) {
                        leaves.entry(web).or_default().insert(arg);
                    }
                }
            }
        }
        for (web, found) in &leaves {
            for &leaf in found {
                let Some(block) = func.defining_block(leaf) else {
                    continue;
                };
                let words = i64::from(func.value_type(leaf).len());
                *gains.entry(*web).or_default() -= self.weight(block) as i64 * words;
                *carried.entry(*web).or_default() += words as usize;
            }
        }
        let mut order: Vec<(i64, usize)> = (gains.iter())
            .filter(|(_, gain)| **gain >= 0)
            .map(|(&web, &gain)| (-gain, web))
            .collect();
        order.sort_unstable();
        let mut taken: EntitySet<Value> = EntitySet::new();
        let mut accepted: FxHashSet<usize> = FxHashSet::default();
        let mut total = 0;
        for (_, web) in order {
            let carries = carried.get(&web).copied().unwrap_or(0);
            if total + carries > CARRIED {
                continue;
            }
            total += carries;
            accepted.insert(web);
            if let Some(found) = leaves.get(&web) {
                for &leaf in found {
                    taken.insert(leaf);
                }
            }
        }
        self.finish(roots, &accepted, &taken, needed, redirected)
    }

    fn finish(
        mut self,
        roots: &[Root],
        accepted: &FxHashSet<usize>,
        taken: &EntitySet<Value>,
        needed: FxHashSet<Value>,
        redirected: Vec<(Inst, usize, Value)>,
    ) -> Plan {
        let func = self.func;
        let of_web = |planner: &mut Self, value: Value| {
            let node = match func.value_def(value) {
                ValueDef::Inst(inst, _) => planner.webs.by_inst.get(&inst).copied(),
                _ => planner.webs.by_param.get(&value).copied(),
            };
            node.is_some_and(|node| accepted.contains(&planner.webs.find(node)))
        };
        let roles: Vec<(Value, Role)> = self.roles.iter().map(|(&v, &role)| (v, role)).collect();
        let mut plan = Plan {
            needed,
            ..Plan::default()
        };
        for (value, role) in roles {
            let goes = match role {
                Role::Leaf => taken.contains(value),
                Role::Converted | Role::Param => of_web(&mut self, value),
            };
            if goes {
                plan.roles.insert(value, role);
            }
        }
        plan.roots = (roots.iter().copied())
            .filter(|root| {
                let node = self.webs.by_inst.get(&root.inst).copied();
                node.is_some_and(|node| accepted.contains(&self.webs.find(node)))
            })
            .collect();
        plan.redirected = (redirected.into_iter())
            .filter(|(_, _, value)| plan.roles.contains_key(value))
            .collect();
        plan
    }
}
