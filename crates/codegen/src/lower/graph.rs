//! The call graph: who calls whom, and which functions are inlined.
//!
//! A function is inlined where it is called by name, unless it may come to be called again before it returns: such functions, the members of
//! cycles of the graph of calls, are compiled by themselves and called. So are functions whose address is taken, for whoever calls through a
//! pointer, and for debuggers all functions that the ABI has a way to call. In a module for a linker every function is compiled by itself, and called wherever the ABI has a way to. One walk over all instructions finds the calls, Tarjan's algorithm the cycles; both are linear.

use super::LowerOptions;
use super::calls::Convention;
use super::data::Symbols;
use super::{gradient, texture};
use crate::module::{AddressKind, near_name};
use orias_machine::Machine;
use orias_ptx::ast::{FunctionId, OperandKind, TargetListKind};
use orias_ptx::grammar::Op;
use orias_ptx::grammar::operand_names as operand;
use rustc_hash::{FxHashMap, FxHashSet};

/// The calls of a module.
pub(super) struct CallGraph {
    /// By function: the one that defines it, or itself.
    definition: Vec<FunctionId>,
    /// By function: those that it calls by name.
    calls: Vec<Vec<FunctionId>>,
    /// By function: whether it calls through pointers.
    indirect: Vec<bool>,
    /// By function: whether it may be called again before it returns.
    recursive: Vec<bool>,
    /// Functions whose address is taken.
    pointers: Vec<FunctionId>,
    /// By function: whether it is called rather than inlined.
    called: Vec<bool>,
    /// By function: whether it is defined here, and no kernel.
    defined: Vec<bool>,
    /// Whether a linker joins the module with others.
    relocatable: bool,
    /// By function: bytes of the stack that arguments of a call of it need.
    arguments: Vec<u32>,
    /// By function: bytes of the stack that arguments of its calls through pointers need.
    through_pointers: Vec<u32>,
    /// Bytes of the stack that arguments need of functions of the driver that stand for instructions.
    driver: u32,
}

impl CallGraph {
    /// The calls of `module`, whose variables are `symbols`.
    pub fn of(
        module: &orias_ptx::Module<'_>,
        symbols: &Symbols,
        options: &LowerOptions,
    ) -> CallGraph {
        let count = module.functions.len();
        let mut graph = CallGraph {
            definition: definitions(module),
            calls: vec![Vec::new(); count],
            indirect: vec![false; count],
            recursive: vec![false; count],
            pointers: Vec::new(),
            called: Vec::new(),
            defined: (module.functions.iter())
                .map(|it| it.body.is_some() && !it.entry)
                .collect(),
            relocatable: options.relocatable,
            arguments: vec![0; count],
            through_pointers: vec![0; count],
            driver: 0,
        };
        let mut taken: FxHashSet<FunctionId> = FxHashSet::default();
        for (caller, function) in module.functions.iter().enumerate() {
            let Some(body) = &function.body else { continue };
            for instruction in &body.instructions {
                let calls = module.opcode(instruction).op == Some(Op::Call);
                if module.opcode(instruction).op == Some(Op::TexGrad) {
                    let form = module.form(instruction);
                    let shape = form.shapes.get(instruction.shape as usize);
                    let depth =
                        shape.is_some_and(|it| it.operands.iter().any(|it| it.is(operand::F)));
                    if texture::calls_the_driver(Op::TexGrad, |name| form.has(name), depth) {
                        graph.driver = gradient::STACK;
                    }
                }
                let operands = body.operands(instruction);
                let named = operands.iter().filter_map(|operand| match operand.kind {
                    OperandKind::Function(id) => Some(graph.definition[id.index()]),
                    _ => None,
                });
                let named: Vec<FunctionId> = named.collect();
                match (calls, named.is_empty()) {
                    (true, true) => graph.indirect[caller] = true,
                    (true, false) => graph.calls[caller].extend(named),
                    (false, _) => taken.extend(named),
                }
            }
        }
        let relocations = symbols.list.iter().flat_map(|symbol| &symbol.relocations);
        let named: FxHashSet<&str> = relocations
            .filter(|it| it.kind == AddressKind::Function)
            .map(|it| it.symbol.as_str())
            .collect();
        for (index, function) in module.functions.iter().enumerate() {
            let id = FunctionId(index as u32);
            if function.body.is_none() || function.entry {
                continue;
            }
            let in_data = !named.is_empty() && {
                named.contains(near_name(module.name(function.name)).as_str())
            };
            if in_data || taken.contains(&id) {
                graph.pointers.push(id);
            }
        }
        graph.find_cycles();
        graph.find_called(module, options);
        graph.find_outgoing(module, options);
        graph
    }

    /// The function that defines what `id` declares, if the module has it.
    pub fn definition(&self, id: FunctionId) -> FunctionId {
        self.definition[id.index()]
    }

    /// Whether `id`, which is defined here, is called and not inlined.
    pub fn is_called(&self, id: FunctionId) -> bool {
        self.called[id.index()]
    }

    /// Whether `id` may be called again before it returns.
    pub fn is_recursive(&self, id: FunctionId) -> bool {
        self.recursive[id.index()]
    }

    /// Whether a linker joins the module with others.
    pub fn is_relocatable(&self) -> bool {
        self.relocatable
    }

    /// Functions whose address is taken, in the order of the source.
    pub fn pointers(&self) -> &[FunctionId] {
        &self.pointers
    }

    /// Bytes at the bottom of the frame of `id` for the arguments of what it, and what is inlined into it, calls.
    pub fn outgoing(&self, id: FunctionId) -> u32 {
        let mut seen = FxHashSet::default();
        let mut pending = vec![id];
        let mut most = self.driver;
        while let Some(id) = pending.pop() {
            if !seen.insert(id) {
                continue;
            }
            most = most.max(self.through_pointers[id.index()]);
            for &callee in &self.calls[id.index()] {
                if !self.defined[callee.index()] || self.is_called(callee) {
                    most = most.max(self.arguments[callee.index()]);
                } else {
                    pending.push(callee);
                }
            }
        }
        most
    }

    /// The functions that are compiled by themselves if the kernels are `kernels`, in the order of the source.
    pub fn compiled(&self, kernels: &[FunctionId]) -> Vec<FunctionId> {
        if !self.relocatable {
            return self.reached(kernels);
        }
        let all = (0..self.defined.len()).filter(|&index| self.defined[index]);
        all.map(|index| FunctionId(index as u32)).collect()
    }

    /// The functions that `id`, or what it may call, calls and that become part of their callers, in the order of the source.
    pub fn inlined(&self, id: FunctionId) -> Vec<FunctionId> {
        let mut seen = vec![false; self.calls.len()];
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            if !std::mem::replace(&mut seen[id.index()], true) {
                pending.extend(&self.calls[id.index()]);
                if self.indirect[id.index()] {
                    pending.extend(&self.pointers);
                }
            }
        }
        seen[id.index()] = false;
        let all = (0..seen.len()).filter(|&at| seen[at] && self.defined[at] && !self.called[at]);
        all.map(|index| FunctionId(index as u32)).collect()
    }

    /// The functions that code of `from` may call and that are not inlined, and what these call, in the order of the source.
    pub fn reached(&self, from: &[FunctionId]) -> Vec<FunctionId> {
        let mut seen = vec![false; self.calls.len()];
        let mut called = vec![false; self.calls.len()];
        let mut pending: Vec<FunctionId> = from.to_vec();
        while let Some(id) = pending.pop() {
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            for &callee in &self.calls[id.index()] {
                called[callee.index()] |= self.is_called(callee);
                pending.push(callee);
            }
            if self.indirect[id.index()] {
                for &callee in &self.pointers {
                    called[callee.index()] = true;
                    pending.push(callee);
                }
            }
        }
        let all = (0..called.len()).filter(|&index| called[index]);
        all.map(|index| FunctionId(index as u32)).collect()
    }

    /// Marks the members of cycles: Tarjan's algorithm, with a stack of its own.
    fn find_cycles(&mut self) {
        let count = self.calls.len();
        let mut number = vec![0_u32; count];
        let mut low = vec![0_u32; count];
        let mut open = vec![false; count];
        let mut component: Vec<usize> = Vec::new();
        let mut next = 1;
        for root in 0..count {
            let mut walk: Vec<(usize, usize)> = Vec::new();
            if number[root] == 0 {
                walk.push((root, 0));
            }
            while let Some((at, edge)) = walk.pop() {
                if edge == 0 {
                    number[at] = next;
                    low[at] = next;
                    next += 1;
                    open[at] = true;
                    component.push(at);
                }
                match self.calls[at].get(edge).map(|callee| callee.index()) {
                    Some(callee) => {
                        walk.push((at, edge + 1));
                        if number[callee] == 0 {
                            walk.push((callee, 0));
                        } else if open[callee] {
                            low[at] = low[at].min(number[callee]);
                        }
                    }
                    None => {
                        if let Some(&(above, _)) = walk.last() {
                            low[above] = low[above].min(low[at]);
                        }
                        if low[at] == number[at] {
                            let start = component.iter().rposition(|&it| it == at).unwrap_or(0);
                            let members = component.split_off(start);
                            let itself = self.calls[at].iter().any(|it| it.index() == at);
                            for &member in &members {
                                open[member] = false;
                                self.recursive[member] = members.len() > 1 || itself;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Finds out which functions are called: members of cycles, and for a linker all that the ABI has a way for.
    fn find_called(&mut self, module: &orias_ptx::Module<'_>, options: &LowerOptions) {
        let abi = Machine::of(options.target).abi;
        let by_abi = |index: usize| {
            let function = &module.functions[index];
            Convention::new(module, abi, &function.returns, &function.parameters).is_some()
        };
        let apart = self.relocatable || options.debug;
        let linked = |index: usize| apart && self.defined[index] && by_abi(index);
        self.called = (0..self.calls.len())
            .map(|index| self.recursive[index] || linked(index))
            .collect();
    }

    /// Finds out how much of the stack arguments need.
    fn find_outgoing(&mut self, module: &orias_ptx::Module<'_>, options: &LowerOptions) {
        let abi = Machine::of(options.target).abi;
        let need = |returns: &[_], parameters: &[_]| {
            let convention = Convention::new(module, abi, returns, parameters);
            let bytes = convention.map_or(0, |it| it.stack);
            bytes.next_multiple_of(abi.stack_alignment)
        };
        for (index, function) in module.functions.iter().enumerate() {
            self.arguments[index] = need(&function.returns, &function.parameters);
            let lists = function.body.iter().flat_map(|body| &body.lists);
            let needs = lists.map(|list| match &list.kind {
                TargetListKind::Prototype(prototype) => {
                    need(&prototype.returns, &prototype.parameters)
                }
                TargetListKind::Call(functions) => (functions.first()).map_or(0, |&id| {
                    let function = module.function(id);
                    need(&function.returns, &function.parameters)
                }),
                TargetListKind::Branch(_) => 0,
            });
            self.through_pointers[index] = needs.max().unwrap_or(0);
        }
    }
}

/// By function: the one that defines it; itself where the module has none.
fn definitions(module: &orias_ptx::Module<'_>) -> Vec<FunctionId> {
    let defined: FxHashMap<_, FunctionId> = (module.functions.iter().enumerate().rev())
        .filter(|(_, function)| function.body.is_some())
        .map(|(index, function)| (function.name, FunctionId(index as u32)))
        .collect();
    let aliases: FxHashMap<_, _> = (module.aliases.iter().rev())
        .map(|alias| (alias.name, alias.of))
        .collect();
    let functions = module.functions.iter().enumerate();
    functions
        .map(|(index, function)| {
            let own = FunctionId(index as u32);
            if function.body.is_some() {
                return own;
            }
            let alias = aliases.get(&function.name).and_then(|of| defined.get(of));
            *defined.get(&function.name).or(alias).unwrap_or(&own)
        })
        .collect()
}
