//! SSA construction: registers that change become values that do not.
//!
//! While a body is lowered, each PTX register (and the carry flag, and each word of a parameter) is a [`Variable`], and
//! for each block it is known which value a variable has at its end so far. Reading a variable that the block has not
//! written makes a *placeholder*: a value without a definition that stands for "what the variable has when the block is
//! entered". Only once all blocks and edges exist are the placeholders resolved, in four steps (after Braun et al.,
//! *Simple and Efficient Construction of Static Single Assignment Form*, with everything left to the end):
//!
//! 1. each placeholder asks the ends of its block's predecessors, which may make placeholders there; in the entry block
//!    it is `undef`, since PTX registers start with anything. A variable that one block alone writes, as most are, has the value
//!    of that block's end wherever the block dominates: nobody is asked there. Where one edge leads into the block, the placeholder is
//!    what the variable has at the end of the block before;
//! 2. a placeholder that gets one value from everywhere (itself left out) is that value, and those that got it are
//!    looked at again;
//! 3. of the others, those that something uses become block parameters;
//! 4. one pass over the code puts the final values in the placeholders' places.
//!
//! A variable that several blocks write costs one placeholder for each block it lives through. Nothing recurses.

use crate::emit::Emit;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityRef, SecondaryMap};
use orias_ori::analysis::{DepthFirst, DominatorTree, FlowGraph};
use orias_ori::builder::BuildError;
use orias_ori::operation::AbstractOp;
use orias_ori::{Block, Edge, Function, Guard, Reg, Type, Value};
use rustc_hash::FxHashMap;

/// The end of a block, for one variable, as a number.
fn place(block: Block, variable: Variable) -> u64 {
    u64::from(block.as_u32()) << 32 | u64::from(variable.0)
}

/// Something that changes while the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Variable(pub u32);

/// What a variable has when its block is entered.
struct Placeholder {
    block: Block,
    variable: Variable,
    value: Value,
    /// Where its arguments begin: one for each edge into the block, in the order of [`Predecessors`].
    first_arg: u32,
    arg_count: u32,
    /// Placeholders that got this one as an argument.
    users: Users,
}

/// A list of placeholders, threaded through [`Ssa::users`]: two lists become one without being walked.
#[derive(Clone, Copy)]
struct Users {
    first: u32,
    last: u32,
}

impl Users {
    const NONE: Users = Users {
        first: END,
        last: END,
    };
}

/// What variables have that are not in the table.
const NO_ROW: u32 = u32::MAX;

/// The table is made if it has at most so many places.
const MOST_SLOTS: usize = 1 << 20;

/// The end of a list of users.
const END: u32 = u32::MAX;

/// The variables of a function under construction.
#[derive(Default)]
pub(crate) struct Ssa {
    types: Vec<Type>,
    /// Who writes each variable.
    writers: Vec<Writers>,
    /// What a variable has at the end of a block, so far.
    ends: FxHashMap<u64, Value>,
    placeholders: Vec<Placeholder>,
    /// The arguments of all placeholders.
    args: Vec<Value>,
    /// Members of lists of users: a placeholder, and the next member.
    users: Vec<(u32, u32)>,
    /// The same for variables that several blocks write, once all is written: a row for each, with a place for each block.
    table: Vec<PackedOption<Value>>,
    /// The row of each variable, or [`NO_ROW`].
    rows: Vec<u32>,
    row_length: usize,
    /// The number of the placeholder that a value is plus one, zero if it is none; values behind the last are none.
    of_value: Vec<u32>,
}

/// The blocks that write a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writers {
    None,
    One(Block),
    Several,
}

/// Edges into each block, with the blocks they leave.
struct Predecessors {
    first: SecondaryMap<Block, u32>,
    count: SecondaryMap<Block, u32>,
    edges: Vec<(Block, Edge)>,
}

impl Predecessors {
    fn of(func: &Function) -> Predecessors {
        let mut count: SecondaryMap<Block, u32> = SecondaryMap::new();
        for block in func.blocks() {
            for to in func.successors(block) {
                count[to] += 1;
            }
        }
        let mut first: SecondaryMap<Block, u32> = SecondaryMap::new();
        let mut total = 0;
        for block in func.blocks() {
            first[block] = total;
            total += count[block];
        }
        let filler = func.blocks().next().and_then(|block| {
            let edge = func.blocks().find_map(|from| {
                let edges = func.successor_edges(from);
                edges.first().copied()
            })?;
            Some((block, edge))
        });
        let mut edges = match filler {
            Some(filler) => vec![filler; total as usize],
            None => Vec::new(),
        };
        let mut next = first.clone();
        for block in func.blocks() {
            for &edge in func.successor_edges(block) {
                let to = func.edge_target(edge);
                edges[next[to] as usize] = (block, edge);
                next[to] += 1;
            }
        }
        Predecessors {
            first,
            count,
            edges,
        }
    }

    fn get(&self, block: Block) -> &[(Block, Edge)] {
        let first = self.first[block] as usize;
        &self.edges[first..first + self.count[block] as usize]
    }
}

impl Ssa {
    /// A new variable.
    pub fn declare(&mut self, ty: Type) -> Variable {
        self.types.push(ty);
        self.writers.push(Writers::None);
        Variable(self.types.len() as u32 - 1)
    }

    /// Makes room for what so many instructions will read and write.
    pub fn expect(&mut self, instructions: usize) {
        self.ends.reserve(2 * instructions);
    }

    /// How many variables there are: the number of the next one.
    pub fn declared(&self) -> u32 {
        self.types.len() as u32
    }

    /// The type of a variable's values.
    pub fn ty(&self, variable: Variable) -> Type {
        self.types[variable.0 as usize]
    }

    /// What `variable` has at the end of `block` as it is now.
    pub fn read(&mut self, func: &mut Function, block: Block, variable: Variable) -> Value {
        if let Some(slot) = self.slot(block, variable) {
            if let Some(value) = self.table[slot].expand() {
                return value;
            }
            let value = self.placeholder(func, block, variable);
            self.table[slot] = value.into();
            return value;
        }
        let place = place(block, variable);
        if let Some(&value) = self.ends.get(&place) {
            return value;
        }
        let value = self.placeholder(func, block, variable);
        self.ends.insert(place, value);
        value
    }

    fn placeholder(&mut self, func: &mut Function, block: Block, variable: Variable) -> Value {
        let value = func.create_value(self.ty(variable));
        self.placeholders.push(Placeholder {
            block,
            variable,
            value,
            first_arg: 0,
            arg_count: 0,
            users: Users::NONE,
        });
        if value.index() >= self.of_value.len() {
            self.of_value.resize(2 * value.index() + 64, 0);
        }
        self.of_value[value.index()] = self.placeholders.len() as u32;
        value
    }

    /// Where the table has what `variable` has at the end of `block`, if it has such a place.
    #[inline]
    fn slot(&self, block: Block, variable: Variable) -> Option<usize> {
        let &row = self.rows.get(variable.0 as usize)?;
        (row != NO_ROW).then(|| row as usize * self.row_length + block.index())
    }

    /// Gives variables that several blocks write a row of the table each, as they live through many blocks. From here on nothing is
    /// written any more.
    fn make_table(&mut self, func: &Function) {
        let length = func.block_count();
        let several = |writers: &&Writers| **writers == Writers::Several;
        let count = self.writers.iter().filter(several).count();
        if count * length > MOST_SLOTS {
            return;
        }
        let mut next = 0;
        let rows = self.writers.iter().map(|writers| match writers {
            Writers::Several => {
                next += 1;
                next - 1
            }
            _ => NO_ROW,
        });
        self.rows = rows.collect();
        self.row_length = length;
        self.table = vec![PackedOption::default(); count * length];
        // Each has a place of its own, whatever their order.
        for (&place, &value) in &self.ends {
            let (block, variable) = ((place >> 32) as u32, Variable(place as u32));
            if let Some(slot) = self.slot(Block::from_u32(block), variable) {
                self.table[slot] = value.into();
            }
        }
    }

    /// `variable` has `value` from here on.
    pub fn write(&mut self, block: Block, variable: Variable, value: Value) {
        self.ends.insert(place(block, variable), value);
        let writers = &mut self.writers[variable.0 as usize];
        *writers = match *writers {
            Writers::None => Writers::One(block),
            Writers::One(other) if other == block => Writers::One(block),
            _ => Writers::Several,
        };
    }

    fn number(&self, value: Value) -> Option<usize> {
        match self.of_value.get(value.index()) {
            None | Some(0) => None,
            Some(&number) => Some(number as usize - 1),
        }
    }

    /// Resolves all placeholders. Every block in the layout can be reached and has its terminator.
    pub fn finish(mut self, func: &mut Function) -> Result<(), BuildError> {
        let Some(entry) = func.entry() else {
            return Ok(());
        };
        let predecessors = Predecessors::of(func);
        self.make_table(func);
        let mut is = Replacements::default();
        self.fill(func, entry, &predecessors, &mut is)?;
        self.simplify(&mut is);
        self.make_parameters(func, &predecessors, &mut is);
        func.map_all_uses(|reg| match reg.value() {
            Some(value) => Reg::from(is.resolve(value)),
            None => reg,
        });
        Ok(())
    }

    /// Gives each placeholder its arguments; new ones come at the end of the list and get theirs in turn.
    fn fill(
        &mut self,
        func: &mut Function,
        entry: Block,
        predecessors: &Predecessors,
        is: &mut Replacements,
    ) -> Result<(), BuildError> {
        let graph = FlowGraph::of(func);
        let dominators = DominatorTree::new(&graph, &DepthFirst::new(&graph));
        let mut undefined = Vec::new();
        let mut known = Vec::new();
        let mut next = 0;
        while next < self.placeholders.len() {
            let (block, variable) = {
                let placeholder = &self.placeholders[next];
                (placeholder.block, placeholder.variable)
            };
            if let Writers::One(writer) = self.writers[variable.0 as usize]
                && dominators.strictly_dominates(writer, block)
                && let Some(&value) = self.ends.get(&place(writer, variable))
            {
                is.set(self.placeholders[next].value, value);
                known.push(next);
                next += 1;
                continue;
            }
            if let (&[(from, _)], true) = (predecessors.get(block), block != entry) {
                let value = self.read(func, from, variable);
                is.set(self.placeholders[next].value, value);
                known.push(next);
                next += 1;
                continue;
            }
            let first = self.args.len();
            if block == entry {
                undefined.push(next);
            } else {
                for &(from, _) in predecessors.get(block) {
                    let value = self.read(func, from, variable);
                    self.args.push(value);
                    if let Some(used) = self.number(value) {
                        let member = self.users.len() as u32;
                        self.users.push((next as u32, END));
                        let one = Users {
                            first: member,
                            last: member,
                        };
                        self.join(used, one);
                    }
                }
            }
            let placeholder = &mut self.placeholders[next];
            placeholder.first_arg = first as u32;
            placeholder.arg_count = (self.args.len() - first) as u32;
            next += 1;
        }
        // Who got one that is known is to be looked at again when what it is known as is found out.
        for number in known {
            let placeholder = &mut self.placeholders[number];
            let users = std::mem::replace(&mut placeholder.users, Users::NONE);
            let value = is.resolve(placeholder.value);
            if let Some(other) = self.number(value) {
                self.join(other, users);
            }
        }
        // The values themselves get a definition: they are placeholders no longer.
        let first = func.layout.first_inst(entry);
        for number in undefined {
            let value = self.placeholders[number].value;
            self.of_value[value.index()] = 0;
            let mut emit = match first {
                Some(inst) => Emit::before(func, inst),
                None => Emit::at_end(func, entry, None),
            };
            emit.put(
                AbstractOp::Undef,
                (),
                &[value.into()],
                &[],
                Guard::ALWAYS,
                &[],
            );
            emit.finish()?;
        }
        Ok(())
    }

    fn args(&self, number: usize) -> &[Value] {
        let placeholder = &self.placeholders[number];
        &self.args[placeholder.first_arg as usize..][..placeholder.arg_count as usize]
    }

    /// Adds `more` to the users of placeholder `number`.
    fn join(&mut self, number: usize, more: Users) {
        let users = &mut self.placeholders[number].users;
        if more.first == END {
            return;
        }
        if users.last == END {
            users.first = more.first;
        } else {
            self.users[users.last as usize].1 = more.first;
        }
        users.last = more.last;
    }

    /// Finds placeholders that are another value. Later ones first: they are the nearer to definitions.
    fn simplify(&mut self, is: &mut Replacements) {
        let mut work: Vec<u32> = (0..self.placeholders.len() as u32).collect();
        while let Some(number) = work.pop() {
            let placeholder = &self.placeholders[number as usize];
            let own = placeholder.value;
            if self.number(own).is_none() || is.contains(own) {
                continue;
            }
            let mut only = None;
            let trivial = self.args(number as usize).iter().all(|&arg| {
                let arg = is.resolve(arg);
                arg == own || *only.get_or_insert(arg) == arg
            });
            let (true, Some(only)) = (trivial, only) else {
                continue;
            };
            is.set(own, only);
            // Who got this one gets the other now, and is to be looked at again when that one is found out.
            let users =
                std::mem::replace(&mut self.placeholders[number as usize].users, Users::NONE);
            let mut left = Users::NONE;
            let mut member = users.first;
            while member != END {
                let (user, next) = self.users[member as usize];
                if !is.contains(self.placeholders[user as usize].value) {
                    work.push(user);
                    match left.last {
                        END => left.first = member,
                        last => self.users[last as usize].1 = member,
                    }
                    left.last = member;
                }
                member = next;
            }
            if left.last != END {
                self.users[left.last as usize].1 = END;
            }
            if let Some(only) = self.number(only) {
                self.join(only, left);
            }
        }
    }

    /// Makes block parameters of the placeholders that are left and used.
    fn make_parameters(
        &self,
        func: &mut Function,
        predecessors: &Predecessors,
        is: &mut Replacements,
    ) {
        let mut live = vec![false; self.placeholders.len()];
        let mut work = Vec::new();
        let mut used = |value: Value, work: &mut Vec<usize>| {
            if let Some(number) = self.number(is.resolve(value))
                && !std::mem::replace(&mut live[number], true)
            {
                work.push(number);
            }
        };
        for block in func.blocks() {
            for inst in func.block_insts(block) {
                func.for_each_use(inst, |reg| {
                    if let Some(value) = reg.value() {
                        used(value, &mut work);
                    }
                });
            }
        }
        while let Some(number) = work.pop() {
            for &arg in self.args(number) {
                used(arg, &mut work);
            }
        }
        let mut parameters = Vec::new();
        for number in (0..live.len()).filter(|&number| live[number]) {
            let placeholder = &self.placeholders[number];
            let ty = self.ty(placeholder.variable);
            let parameter = func.append_block_param(placeholder.block, ty);
            parameters.push((number, parameter));
        }
        for &(number, parameter) in &parameters {
            is.set(self.placeholders[number].value, parameter);
        }
        for (number, _) in parameters {
            let edges = predecessors.get(self.placeholders[number].block);
            for (&(_, edge), &arg) in edges.iter().zip(self.args(number)) {
                func.push_edge_arg(edge, is.resolve(arg));
            }
        }
    }
}

/// Which value stands for another; those behind the last stand for themselves.
#[derive(Default)]
struct Replacements(Vec<PackedOption<Value>>);

impl Replacements {
    fn get(&self, value: Value) -> Option<Value> {
        self.0.get(value.index()).and_then(|by| by.expand())
    }

    fn contains(&self, value: Value) -> bool {
        self.get(value).is_some()
    }

    fn set(&mut self, value: Value, by: Value) {
        let index = value.index();
        if index >= self.0.len() {
            self.0.resize(2 * index + 64, PackedOption::default());
        }
        self.0[index] = by.into();
    }

    /// The value that stands for `value` in the end. The way there is made short.
    fn resolve(&mut self, value: Value) -> Value {
        let Some(mut last) = self.get(value) else {
            return value;
        };
        while let Some(next) = self.get(last) {
            last = next;
        }
        let mut at = value;
        while let Some(next) = self.get(at) {
            self.0[at.index()] = last.into();
            at = next;
        }
        last
    }
}
