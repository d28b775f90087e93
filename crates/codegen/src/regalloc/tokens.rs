//! Allocation of convergence barriers: which register of class B a token gets.
//!
//! A barrier register belongs to the warp, not to a lane: while some lanes are on their way to the meeting place of a
//! region, others may be anywhere else in it, also where the token is dead because the path leaves by `EXIT`. Liveness
//! along one path is therefore not enough. A token keeps its register in every block that can be reached from where it is
//! made without passing the last instruction that waits on it; two tokens whose blocks meet get different registers. A lane that
//! leaves the region (`BREAK`) goes on while the others still need the register, until it waits on a token that was live when this
//! one was made: whoever is in this region waits there, too, before anybody goes on.
//!
//! Tokens joined by a tied definition (`BREAK`) or a copy are one token, made in one place. A token is never passed along an
//! edge.
//!
//! **Algorithm.** One walk over the graph for each token, then the lowest register no overlapping token has, in the order
//! tokens are made. Cost: O(tokens × blocks), and regions nest, so tokens are few wherever their blocks are many.

use super::calls::{calls_out, convention};
use crate::pipeline::PhaseError;
use cranelift_entity::EntityRef;
use orias_machine::Machine;
use orias_ori::analysis::{FlowGraph, Liveness};
use orias_ori::{AbstractOp, Block, Class, Function, Inst, Opcode, Reg, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The register of every token, by value.
pub(super) fn assign(
    func: &Function,
    graph: &FlowGraph,
    live: &Liveness,
    named: &[(Block, Inst)],
    registers: u8,
) -> Result<FxHashMap<Value, u8>, PhaseError> {
    if named.is_empty() {
        return Ok(FxHashMap::default());
    }
    let mut webs = Webs::new(func, named);
    let mut tokens: Vec<TokenRange> = Vec::new();
    let mut by_root: FxHashMap<u32, usize> = FxHashMap::default();
    // By block: what reads tokens, each with its place in the code.
    let mut readers: Vec<Vec<(u32, Inst)>> = vec![Vec::new(); graph.block_count()];
    let mut all: Vec<Value> = Vec::new();
    for (place, &(block, inst)) in (1..).zip(named) {
        let (mut reads, mut made) = (false, SmallVec::<[Value; 2]>::new());
        let token = |reg: Reg| reg.value().filter(|&value| is_token(func, value));
        func.for_each_use(inst, |reg| reads |= token(reg).is_some());
        func.for_each_def(inst, |reg| made.extend(token(reg)));
        if reads {
            readers[block.index()].push((place, inst));
        }
        for value in made {
            if func.value_type(value).len() > 1 {
                return Err(PhaseError::Unsupported("a tuple of tokens".to_owned()));
            }
            all.push(value);
            let root = webs.find(value.as_u32());
            let token = *by_root.entry(root).or_insert_with(|| {
                tokens.push(TokenRange::default());
                tokens.len() - 1
            });
            tokens[token].made.push((place, block));
            let undefined = func.opcode(inst) == Opcode::Abstract(AbstractOp::Undef);
            let changed = func.kept(inst).iter().any(|kept| {
                kept.as_value()
                    .is_some_and(|kept| is_token(func, kept) && webs.find(kept.as_u32()) == root)
            });
            tokens[token].makers += u32::from(!undefined && !changed);
        }
    }
    let passed = func.blocks().any(|block| {
        func.block_params(block)
            .iter()
            .any(|&param| is_token(func, param))
    });
    if passed || tokens.iter().any(|token| token.makers > 1) {
        return Err(PhaseError::Unsupported(
            "a convergence token that is made in several places".to_owned(),
        ));
    }
    for token in &mut tokens {
        token.blocks = vec![0; graph.block_count().div_ceil(64)];
    }
    for (root, index) in &by_root {
        let made = tokens[*index].made.clone();
        for &made in &made {
            let outer = live_when_made(func, live, &mut webs, &by_root, &tokens, *root, made);
            let blocks = &mut tokens[*index].blocks;
            let reached = Reached {
                func,
                live,
                readers: &readers,
                outer: &outer,
            };
            reached.cover(&mut webs, *root, made, blocks);
        }
    }
    let mut called = TokenRange {
        blocks: vec![0; graph.block_count().div_ceil(64)],
        ..TokenRange::default()
    };
    for block in func.blocks() {
        // Slow paths leave all barriers alone.
        let changes = |inst| {
            calls_out(func, inst) && !convention(func, inst).is_preserved(Class::B.into(), 0)
        };
        if func.block_insts(block).any(changes) {
            mark(&mut called.blocks, block.index());
        }
    }
    let abi = Machine::of(func.target).abi;
    let volatile = (0..registers)
        .filter(|&index| !abi.is_preserved(Class::B.into(), index))
        .fold(0_u32, |set, index| set | 1 << index);
    let mut given: Vec<u8> = Vec::with_capacity(tokens.len());
    for (index, token) in tokens.iter().enumerate() {
        // A called function may use the barriers that it need not leave alone.
        let mut taken = if token.meets(&called) { volatile } else { 0 };
        for (other, &register) in tokens[..index].iter().zip(&given) {
            if token.meets(other) {
                taken |= 1 << register;
            }
        }
        let register = taken.trailing_ones() as u8;
        if register >= registers {
            return Err(PhaseError::Unsupported(format!(
                "a nest of more than {registers} convergence regions"
            )));
        }
        given.push(register);
    }
    let mut result = FxHashMap::default();
    for value in all {
        if let Some(&token) = by_root.get(&webs.find(value.as_u32())) {
            result.insert(value, given[token]);
        }
    }
    Ok(result)
}

fn is_token(func: &Function, value: Value) -> bool {
    func.value_type(value).class() == Class::B
}

/// Values of class B that share a register.
struct Webs(Vec<u32>);

impl Webs {
    fn new(func: &Function, named: &[(Block, Inst)]) -> Webs {
        let mut webs = Webs((0..func.value_count() as u32).collect());
        for &(_, inst) in named {
            for (place, kept) in func.kept_places(inst).zip(func.kept(inst)) {
                let pair = func.operands(inst)[place].as_value().zip(kept.as_value());
                webs.join(func, pair);
            }
            if func.opcode(inst) == Opcode::Abstract(AbstractOp::ParCopy) {
                let (to, from) = func.operands(inst).split_at(func.result_count(inst));
                for (to, from) in to.iter().zip(from) {
                    webs.join(func, to.as_value().zip(from.as_value()));
                }
            }
        }
        webs
    }

    fn join(&mut self, func: &Function, pair: Option<(Value, Value)>) {
        if let Some((a, b)) = pair
            && is_token(func, a)
        {
            let (a, b) = (self.find(a.as_u32()), self.find(b.as_u32()));
            self.0[a.max(b) as usize] = a.min(b);
        }
    }

    fn find(&mut self, mut value: u32) -> u32 {
        while self.0[value as usize] != value {
            self.0[value as usize] = self.0[self.0[value as usize] as usize];
            value = self.0[value as usize];
        }
        value
    }
}

#[derive(Clone, Default, Debug)]
struct TokenRange {
    /// Where in the code it is made.
    made: Vec<(u32, Block)>,
    /// How many instructions make it, not counting those that change it.
    makers: u32,
    /// The blocks in which lanes may still be on their way, as bits.
    blocks: Vec<u64>,
}

impl TokenRange {
    fn meets(&self, other: &TokenRange) -> bool {
        self.blocks
            .iter()
            .zip(&other.blocks)
            .any(|(a, b)| a & b != 0)
    }
}

/// The other tokens that are live where the token of `root` is made, and were made before it.
fn live_when_made(
    func: &Function,
    live: &Liveness,
    webs: &mut Webs,
    by_root: &FxHashMap<u32, usize>,
    tokens: &[TokenRange],
    root: u32,
    (place, home): (u32, Block),
) -> Vec<u32> {
    let mut outer = Vec::new();
    for &value in live.live_out(home) {
        if !is_token(func, value) {
            continue;
        }
        let other = webs.find(value.as_u32());
        let earlier = by_root.get(&other).is_some_and(|&index| {
            let made = &tokens[index].made;
            made.iter().all(|&(at, block)| block != home || at < place)
        });
        if other != root && earlier {
            outer.push(other);
        }
    }
    outer
}

/// What is asked while the blocks of one token are found.
struct Reached<'a> {
    func: &'a Function,
    live: &'a Liveness,
    readers: &'a [Vec<(u32, Inst)>],
    /// Tokens of the regions around.
    outer: &'a [u32],
}

impl Reached<'_> {
    /// Marks the blocks reached from where the token of `root` is made, before something waits on it or on a token around it.
    fn cover(&self, webs: &mut Webs, root: u32, (made, home): (u32, Block), blocks: &mut [u64]) {
        let func = self.func;
        let mut pending = vec![(home, made)];
        mark(blocks, home.index());
        while let Some((block, after)) = pending.pop() {
            let readers = &self.readers[block.index()];
            let behind = || {
                readers
                    .iter()
                    .rev()
                    .take_while(|&&(place, _)| place > after)
            };
            let mut reads = |inst: Inst, token: u32| {
                func.value_uses(inst)
                    .any(|value| is_token(func, value) && webs.find(value.as_u32()) == token)
            };
            // What reads a token and does not make it anew is where lanes meet.
            let waits =
                |inst: Inst| func.value_defs(inst).next().is_none() && func.edges(inst).is_empty();
            let met_around = behind()
                .filter(|&&(_, inst)| waits(inst))
                .any(|&(_, inst)| self.outer.iter().any(|&token| reads(inst, token)));
            if met_around {
                continue;
            }
            // Of several, the last.
            let last = behind().find(|&&(_, inst)| reads(inst, root));
            let met = last.is_some_and(|&(_, inst)| waits(inst));
            let mut lives_on = || {
                let mut live = self.live.live_out(block).iter();
                live.any(|&value| is_token(func, value) && webs.find(value.as_u32()) == root)
            };
            if !met || lives_on() {
                for next in func.successors(block) {
                    if mark(blocks, next.index()) {
                        pending.push((next, 0));
                    }
                }
            }
        }
    }
}

/// Whether the bit was clear.
fn mark(bits: &mut [u64], index: usize) -> bool {
    let fresh = bits[index / 64] >> (index % 64) & 1 == 0;
    bits[index / 64] |= 1 << (index % 64);
    fresh
}
