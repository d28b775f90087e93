//! Ends of blocks that become other branches.

use orias_ori::{AbstractMods, AbstractOp, Block, Function, Inst, Operand, Value};

/// Makes `end` a branch to the first block if `condition` holds, and to the second if not.
pub fn part(
    func: &mut Function,
    end: Inst,
    condition: Operand,
    holds: (Block, &[Value]),
    fails: (Block, &[Value]),
) {
    let edges = [holds, fails].map(|(to, args)| func.create_edge(to, args));
    func.replace_with_abstract(end, AbstractOp::CondBr, AbstractMods::NONE, 0, &[condition]);
    func.set_edges(end, &edges);
}

/// Makes the branch at the end of `block` a jump along one of its edges.
pub fn go(func: &mut Function, block: Block, along: usize) {
    let Some(branch) = func.terminator(block) else {
        return;
    };
    let Some(&edge) = func.edges(branch).get(along) else {
        return;
    };
    func.replace_with_abstract(branch, AbstractOp::Br, AbstractMods::NONE, 0, &[]);
    func.set_edges(branch, &[edge]);
}
