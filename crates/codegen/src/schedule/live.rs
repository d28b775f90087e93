//! Register pressure while a block is put into an order.
//!
//! What is live at the two ends of a block does not depend on the order within it, so each block can be looked at alone. Values are
//! numbered within the block; for each instruction the books say which values it reads and writes, and for each value who reads it.
//! While an order grows, [`Pressure`] knows how many registers of each class are live, and for each instruction by how much that would
//! change: a value dies with its last reader, so when one reader is left, that reader is credited with it. Each value is credited
//! once and each reader looked up once for it, so keeping the books is linear.
//!
//! Counters: R, P, UR, UP and B as the machine has them; ptxas's other five belong to no class of this machine.

use super::graph::Graph;
use crate::regalloc;
use cranelift_entity::{EntityRef as _, EntitySet};
use orias_ori::analysis::Liveness;
use orias_ori::{AbstractOp, Block, Class, Function, Value};

/// A number for each register class, in the order of [`Class::ALL`].
pub type Counts = [i32; 5];

/// The values of a block.
#[derive(Clone, Debug)]
pub struct BlockValues {
    /// By value: class and registers.
    kinds: Vec<(Class, i32)>,
    /// By value: whether it is live behind the block.
    live_out: Vec<bool>,
    /// By node: ranges of `used` and `defined`.
    used_starts: Vec<u32>,
    used: Vec<u32>,
    defined_starts: Vec<u32>,
    defined: Vec<u32>,
    /// By value: range of `users`.
    user_starts: Vec<u32>,
    users: Vec<u32>,
    /// What is live when the block begins.
    entry: Counts,
    /// By value: how many read it.
    readers: Vec<u32>,
    /// By node: how much live registers change if it is scheduled first of all.
    delta: Vec<Counts>,
    /// By node: registers of its results that nobody reads.
    dead: Vec<Counts>,
    /// What is live at most, whatever the order.
    bound: Counts,
}

/// Whether a value may be anything.
fn is_undef(func: &Function, value: Value) -> bool {
    let opcode = func.defining_inst(value).map(|inst| func.opcode(inst));
    opcode.is_some_and(|opcode| opcode.as_abstract() == Some(AbstractOp::Undef))
}

/// What is live in the order that blocks have.
#[derive(Debug)]
pub(super) struct Standing {
    /// By block: what [`BlockValues::peak`] says of its order.
    peaks: Vec<Counts>,
    /// The most general registers live at a time in the function, values that may be anything included.
    pub(super) needed: u32,
    /// General registers that calls of slow paths need: what lives across lies behind those that they change.
    pub(super) called: i32,
}

impl Standing {
    /// Reads each block backwards once.
    pub(super) fn new(func: &Function, live: &Liveness) -> Standing {
        let mut standing = Standing {
            peaks: vec![[0; 5]; func.block_count()],
            needed: 0,
            called: 0,
        };
        let mut values = LiveValues {
            func,
            is_live: vec![0; func.value_count()],
            stamp: 0,
            live: [0; 5],
            undef: [0; 5],
            undefs: all_undefs(func),
        };
        let general = Class::R as usize;
        for block in func.blocks() {
            values.start();
            for &value in live.live_out(block) {
                values.begin(value);
            }
            let mut peak = values.live;
            let mut needed = values.live[general] + values.undef[general];
            let mut next = func.layout.last_inst(block);
            while let Some(inst) = next {
                let mut after = values.live;
                let mut all = values.live[general] + values.undef[general];
                func.for_each_def(inst, |reg| {
                    if let Some(value) = reg.value()
                        && !values.end(value)
                    {
                        let (class, width, undef) = values.kind(value);
                        if !undef {
                            after[class] += width;
                        }
                        if class == general {
                            all += width;
                        }
                    }
                });
                if let Some(changed) = regalloc::changed_by_slow_path(func, inst) {
                    standing.called = standing.called.max(values.live[general] + changed as i32);
                }
                func.for_each_use(inst, |reg| {
                    if let Some(value) = reg.value() {
                        values.begin(value);
                    }
                });
                for class in 0..5 {
                    peak[class] = peak[class].max(after[class]).max(values.live[class]);
                }
                let before = values.live[general] + values.undef[general];
                needed = needed.max(all).max(before);
                next = func.layout.prev_inst(inst);
            }
            // What nobody in the block ends is there all the time: what may be anything, and parameters that nobody reads.
            let mut stays = values.undef;
            for &param in func.block_params(block) {
                if !values.is_live(param) {
                    let (class, width, _) = values.kind(param);
                    stays[class] += width;
                }
            }
            needed = needed.max(values.live[general] + stays[general]);
            for class in 0..5 {
                peak[class] = peak[class].max(values.live[class]) + stays[class];
            }
            standing.peaks[block.index()] = peak;
            standing.needed = standing.needed.max(needed.max(0) as u32);
        }
        standing
    }

    /// What a block needs in the order it has.
    pub(super) fn peak(&self, block: Block) -> Counts {
        self.peaks[block.index()]
    }
}

/// The values live at one point, and what they occupy.
struct LiveValues<'a> {
    func: &'a Function,
    /// By value: the stamp of the block it is live in.
    is_live: Vec<u32>,
    stamp: u32,
    live: Counts,
    /// What values occupy that may be anything.
    undef: Counts,
    /// Those values.
    undefs: Option<EntitySet<Value>>,
}

/// The values that may be anything, if there are any.
fn all_undefs(func: &Function) -> Option<EntitySet<Value>> {
    let mut undefs = None;
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        if func.opcode(inst).as_abstract() == Some(AbstractOp::Undef) {
            let undefs = undefs.get_or_insert_with(EntitySet::new);
            for value in func.value_defs(inst) {
                undefs.insert(value);
            }
        }
    }
    undefs
}

impl LiveValues<'_> {
    /// Starts the next block, with nothing live.
    fn start(&mut self) {
        self.stamp += 1;
        (self.live, self.undef) = ([0; 5], [0; 5]);
    }

    fn is_live(&self, value: Value) -> bool {
        self.is_live[value.index()] == self.stamp
    }

    /// Class and registers of a value, and whether it may be anything.
    fn kind(&self, value: Value) -> (usize, i32, bool) {
        let ty = self.func.value_type(value);
        let undefs = self.undefs.as_ref();
        let undef = undefs.is_some_and(|undefs| undefs.contains(value));
        (ty.class() as usize, i32::from(ty.len()), undef)
    }

    fn add(&mut self, value: Value, sign: i32) {
        let (class, width, undef) = self.kind(value);
        let counts = if undef {
            &mut self.undef
        } else {
            &mut self.live
        };
        counts[class] += sign * width;
    }

    fn begin(&mut self, value: Value) {
        if std::mem::replace(&mut self.is_live[value.index()], self.stamp) != self.stamp {
            self.add(value, 1);
        }
    }

    /// Whether `value` was live.
    fn end(&mut self, value: Value) -> bool {
        let was_live = std::mem::replace(&mut self.is_live[value.index()], 0) == self.stamp;
        if was_live {
            self.add(value, -1);
        }
        was_live
    }
}

/// Numbers values anew for each block without clearing anything.
#[derive(Clone, Debug, Default)]
pub struct Numbering {
    seen: Vec<(u32, u32)>,
    stamp: u32,
}

impl Numbering {
    fn start(&mut self, values: usize) {
        self.stamp += 1;
        self.seen.resize(values, (0, 0));
    }
}

impl BlockValues {
    /// The values of the block of `graph`, in SSA form.
    pub fn new(func: &Function, graph: &Graph, live: &Liveness, numbers: &mut Numbering) -> Self {
        numbers.start(func.value_count());
        let stamp = numbers.stamp;
        let mut values: Vec<Value> = Vec::new();
        let mut kinds = Vec::new();
        let mut number = |value: Value| -> u32 {
            let slot = &mut numbers.seen[value.index()];
            if slot.0 != stamp {
                *slot = (stamp, values.len() as u32);
                let ty = func.value_type(value);
                // A value nobody relies on is put where it costs nothing.
                let width = if is_undef(func, value) {
                    0
                } else {
                    i32::from(ty.len())
                };
                kinds.push((ty.class(), width));
                values.push(value);
            }
            slot.1
        };
        let mut entry = [0; 5];
        for &value in live
            .live_in(graph.block)
            .iter()
            .chain(func.block_params(graph.block))
        {
            let ty = func.value_type(value);
            entry[ty.class() as usize] += i32::from(ty.len());
        }
        let count = graph.len();
        let mut used_starts = Vec::with_capacity(count + 1);
        let mut defined_starts = Vec::with_capacity(count + 1);
        used_starts.push(0);
        defined_starts.push(0);
        let mut used = Vec::with_capacity(3 * count);
        let mut defined = Vec::with_capacity(count);
        for node in &graph.nodes {
            let start = used.len();
            func.for_each_value_use(node.inst, |value| {
                let value = number(value);
                if !used[start..].contains(&value) {
                    used.push(value);
                }
            });
            used_starts.push(used.len() as u32);
            func.for_each_value_def(node.inst, |value| defined.push(number(value)));
            defined_starts.push(defined.len() as u32);
        }
        let mut user_starts = vec![0u32; values.len() + 1];
        for &value in &used {
            user_starts[value as usize + 1] += 1;
        }
        for index in 1..user_starts.len() {
            user_starts[index] += user_starts[index - 1];
        }
        let mut next = user_starts.clone();
        let mut users = vec![0u32; used.len()];
        for node in 0..graph.len() {
            for &value in &used[used_starts[node] as usize..used_starts[node + 1] as usize] {
                users[next[value as usize] as usize] = node as u32;
                next[value as usize] += 1;
            }
        }
        let leave = live.live_out(graph.block);
        let live_out = if leave.len() < 4 * values.len() {
            let mut live_out = vec![false; values.len()];
            for value in leave {
                let (seen, number) = numbers.seen[value.index()];
                if seen == stamp {
                    live_out[number as usize] = true;
                }
            }
            live_out
        } else {
            let leaves = |&value: &Value| leave.binary_search(&value).is_ok();
            values.iter().map(leaves).collect()
        };
        let mut block = BlockValues {
            readers: user_starts.windows(2).map(|it| it[1] - it[0]).collect(),
            delta: vec![[0; 5]; graph.len()],
            dead: vec![[0; 5]; graph.len()],
            kinds,
            live_out,
            used_starts,
            used,
            defined_starts,
            defined,
            user_starts,
            users,
            entry,
            bound: entry,
        };
        block.start_books();
        block
    }

    /// What nodes change as long as nothing has been scheduled.
    fn start_books(&mut self) {
        for node in 0..self.delta.len() {
            let range = self.defined_starts[node] as usize..self.defined_starts[node + 1] as usize;
            for &value in &self.defined[range] {
                let (class, width) = self.kinds[value as usize];
                let books = match self.stays(value) {
                    true => &mut self.delta,
                    false => &mut self.dead,
                };
                books[node][class as usize] += width;
                self.bound[class as usize] += width;
            }
        }
        for value in 0..self.kinds.len() {
            if self.readers[value] == 1 && !self.live_out[value] {
                let (class, width) = self.kinds[value];
                let reader = self.users[self.user_starts[value] as usize];
                self.delta[reader as usize][class as usize] -= width;
            }
        }
    }

    /// Whether somebody reads the value once it is there.
    fn stays(&self, value: u32) -> bool {
        self.live_out[value as usize] || self.readers[value as usize] > 0
    }

    /// Registers of the results of a node that somebody reads, by class: R, P, UR, UP.
    pub(super) fn made(&self, node: usize) -> [i32; 4] {
        let mut made = [0; 5];
        for &value in self.defs(node) {
            let (class, width) = self.kinds[value as usize];
            if self.stays(value) {
                made[class as usize] += width;
            }
        }
        [Class::R, Class::P, Class::UR, Class::UP].map(|class| made[class as usize])
    }

    /// By value: where its users start in a list of all of them; one more at the end.
    pub(super) fn user_starts(&self) -> &[u32] {
        &self.user_starts
    }

    /// How many users all values have together.
    pub(super) fn all_users(&self) -> usize {
        self.users.len()
    }

    pub(super) fn uses(&self, node: usize) -> &[u32] {
        &self.used[self.used_starts[node] as usize..self.used_starts[node + 1] as usize]
    }

    pub(super) fn defs(&self, node: usize) -> &[u32] {
        &self.defined[self.defined_starts[node] as usize..self.defined_starts[node + 1] as usize]
    }

    pub(super) fn users(&self, value: u32) -> &[u32] {
        let value = value as usize;
        &self.users[self.user_starts[value] as usize..self.user_starts[value + 1] as usize]
    }

    /// What is live when the block begins.
    pub(super) fn entry(&self) -> Counts {
        self.entry
    }

    /// Whether every order keeps these limits.
    pub(super) fn always_fit(&self, limits: &Counts) -> bool {
        self.bound
            .iter()
            .zip(limits)
            .all(|(most, limit)| most <= limit)
    }

    /// How many registers of a class are live at most, whatever the order.
    pub(super) fn bound(&self, class: Class) -> i32 {
        self.bound[class as usize]
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Class and registers of a value.
    pub(super) fn kind(&self, value: u32) -> (Class, i32) {
        self.kinds[value as usize]
    }

    /// Whether a value is live behind the block.
    pub(super) fn is_live_out(&self, value: u32) -> bool {
        self.live_out[value as usize]
    }

    /// The highest pressure of an order, by class.
    pub fn peak(&self, order: impl IntoIterator<Item = u32>) -> Counts {
        let mut pressure = Pressure::new(self);
        for node in order {
            pressure.schedule(node as usize, &mut |_| {});
        }
        pressure.peak
    }
}

/// What is live at one point of a growing order.
#[derive(Debug)]
pub struct Pressure<'a> {
    values: &'a BlockValues,
    /// By value: readers that are still to come.
    remaining: Vec<u32>,
    /// By node: how much live registers change when it is scheduled next.
    delta: Vec<Counts>,
    scheduled: Vec<bool>,
    /// Registers live now.
    pub live: Counts,
    /// The most there have been.
    pub peak: Counts,
}

impl Clone for Pressure<'_> {
    fn clone(&self) -> Self {
        Self {
            values: self.values,
            remaining: self.remaining.clone(),
            delta: self.delta.clone(),
            scheduled: self.scheduled.clone(),
            live: self.live,
            peak: self.peak,
        }
    }

    /// Field by field, so that a search over orders allocates nothing.
    fn clone_from(&mut self, from: &Self) {
        self.values = from.values;
        self.remaining.clone_from(&from.remaining);
        self.delta.clone_from(&from.delta);
        self.scheduled.clone_from(&from.scheduled);
        self.live = from.live;
        self.peak = from.peak;
    }
}

impl<'a> Pressure<'a> {
    /// At the start of the block.
    pub fn new(values: &'a BlockValues) -> Self {
        Pressure {
            values,
            remaining: values.readers.clone(),
            delta: values.delta.clone(),
            scheduled: vec![false; values.delta.len()],
            live: values.entry,
            peak: values.entry,
        }
    }

    /// Credits the last reader of `value` with its death, and reports that reader.
    fn credit(&mut self, value: u32, changed: &mut impl FnMut(usize)) {
        if self.values.live_out[value as usize] {
            return;
        }
        let (class, width) = self.values.kinds[value as usize];
        let last = self
            .values
            .users(value)
            .iter()
            .find(|&&user| !self.scheduled[user as usize]);
        if let Some(&user) = last {
            self.delta[user as usize][class as usize] -= width;
            changed(user as usize);
        }
    }

    /// By how much live registers of a class change if `node` is next.
    pub fn grows(&self, node: usize, class: Class) -> i32 {
        self.delta[node][class as usize]
    }

    /// The most registers of a class that are live while `node` runs, if it is next.
    pub fn at(&self, node: usize, class: Class) -> i32 {
        let class = class as usize;
        let live = self.live[class];
        live.max(live + self.delta[node][class] + self.values.dead[node][class])
    }

    /// By how much live registers of R, P, UR and UP change if `node` is next.
    #[inline]
    pub(super) fn growth(&self, node: usize) -> [i32; 4] {
        let delta = &self.delta[node];
        std::array::from_fn(|class| delta[class])
    }

    /// The most registers of R, P, UR and UP that are live while `node` runs, if it is next.
    #[inline]
    pub(super) fn during(&self, node: usize) -> [i32; 4] {
        let (delta, dead) = (&self.delta[node], &self.values.dead[node]);
        std::array::from_fn(|class| {
            let live = self.live[class];
            live.max(live + delta[class] + dead[class])
        })
    }

    /// `node` is next. Reports nodes whose delta changed.
    #[inline]
    pub fn schedule(&mut self, node: usize, changed: &mut impl FnMut(usize)) {
        let (delta, dead) = (&self.delta[node], &self.values.dead[node]);
        for class in 0..5 {
            let after = self.live[class] + delta[class];
            let at = self.live[class].max(after + dead[class]);
            self.peak[class] = self.peak[class].max(at);
            self.live[class] = after;
        }
        self.scheduled[node] = true;
        let values = self.values;
        for &value in values.uses(node) {
            let remaining = &mut self.remaining[value as usize];
            *remaining -= 1;
            if *remaining == 1 {
                self.credit(value, changed);
            }
        }
    }
}
