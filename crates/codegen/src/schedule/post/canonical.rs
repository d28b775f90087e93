//! An order that depends on what a block's instructions are and not on the order they stand in.
//!
//! Where the list scheduler finds candidates equal, the one that stands first goes first. So what it makes of a block depends on the
//! order it is given, a little; and of a random order random choices are left. Here a block gets an order that any legal order of it
//! would give, so that what is made from then on is the same for all of them: of what is ready the one with the longest chain of
//! dependences behind it, of equals accesses to memory by their addresses, so that neighbours come one behind the other, and then
//! by what the instruction word says.

use super::ready::{self, Choice};
use super::{Options, PostScheduleError};
use crate::schedule::build::Fences;
use crate::schedule::graph::Timeline;
use orias_ori::{Function, Inst, Operand, Reg, machine};
use orias_sass::encode;
use std::cmp::Reverse;

/// Puts the instructions of every block into that order, but of those that `options` keep.
pub fn canonical(func: &mut Function, options: &Options<'_>) -> Result<(), PostScheduleError> {
    // Who reads a line of constants first is a matter of the order.
    let fences = Fences {
        fetches_lines: false,
        ..options.fences
    };
    ready::rearrange(func, fences, |func, graph| {
        if options.keeps(func, graph.block) {
            return Some((0..graph.len() as u32).collect());
        }
        let height = Timeline::new(graph).height;
        let key = |node: usize| {
            // What a run is about is its last member: others may be the same in several.
            let last = ready::run(graph, node as u32).last();
            let inst = graph.nodes[last.map_or(node, |last| last as usize)].inst;
            let place = place(func, inst);
            (Reverse(height[node]), place, word(func, inst))
        };
        let mut keys = Keys((0..graph.len()).map(key).collect());
        ready::order(graph, &mut keys)
    })
}

/// What an access is relative to, and how far: accesses before others.
type Place = (bool, Option<(Option<Reg>, Option<Reg>, i32)>);

struct Keys(Vec<(Reverse<u32>, Place, u128)>);

impl Choice for Keys {
    fn choose(&mut self, ready: &[u32]) -> usize {
        let first = (0..ready.len()).min_by_key(|&index| &self.0[ready[index] as usize]);
        first.unwrap_or(0)
    }
}

fn place(func: &Function, inst: Inst) -> Place {
    let address = func
        .operands(inst)
        .iter()
        .find_map(|operand| match operand {
            Operand::Address(id) => Some(*func.address(*id)),
            _ => None,
        });
    let place = address.map(|it| (it.base.get(), it.uniform.get(), it.offset));
    (place.is_none(), place)
}

/// The word of an instruction, without names, distances and control; 0 for what is none.
fn word(func: &Function, inst: Inst) -> u128 {
    let instruction = machine::placeless(func, inst, func.target);
    let instruction = instruction.and_then(Result::ok);
    instruction
        .and_then(|instruction| encode(&instruction).ok())
        .unwrap_or(0)
}
