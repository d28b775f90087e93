use super::divergence::{analyse, emit, special};
use orias_ori::analysis::{DefUse, Reason, uniform_misuses};
use orias_ori::operation::Special;
use orias_ori::{
    AbstractMods, AbstractOp, Block, Edge, Function, FunctionKind, Level, Operand, Type, Value,
};

/// Ends `block`: with a condition, in a two-way branch.
fn branch(
    function: &mut Function,
    block: Block,
    condition: Option<Value>,
    to: &[(Block, &[Value])],
) {
    let op = match to.len() {
        0 => AbstractOp::Exit,
        1 => AbstractOp::Br,
        _ => AbstractOp::CondBr,
    };
    let operands: Vec<Operand> = condition.into_iter().map(Operand::value).collect();
    let inst = function.create_abstract(op, AbstractMods::NONE, 0, &operands);
    let edges: Vec<Edge> = to
        .iter()
        .map(|&(to, args)| function.create_edge(to, args))
        .collect();
    function.set_edges(inst, &edges);
    function.layout.append_inst(inst, block);
}

fn misuses(function: &Function) -> Vec<(Value, Block, Reason)> {
    let analysed = analyse(function);
    let chains = DefUse::new(function);
    uniform_misuses(
        function,
        &analysed.walk,
        &analysed.nest,
        &chains,
        &analysed.divergence,
    )
    .into_iter()
    .map(|misuse| (misuse.value, misuse.block, misuse.reason))
    .collect()
}

/// `entry` branches on the lane to `then` and `end`; `then` goes to `end`.
fn divergent_if(kind: Special) -> (Function, [Block; 3], Value, Value) {
    let mut function = Function::new(
        "f",
        FunctionKind::Entry,
        Level::Machine,
        orias_sass::Target::DEFAULT,
    );
    let blocks = [(); 3].map(|()| function.append_block());
    let lane = emit(
        &mut function,
        blocks[0],
        AbstractOp::Sreg,
        special(kind),
        Type::R,
        &[],
    );
    let setp = AbstractOp::Setp;
    let predicate = emit(
        &mut function,
        blocks[0],
        setp,
        AbstractMods::NONE,
        Type::P,
        &[lane, lane],
    );
    (function, blocks, lane, predicate)
}

#[test]
fn a_uniform_register_written_by_part_of_the_warp_ends_with_its_block() {
    for (register, wrong) in [(Special::LaneId, true), (Special::CtaidX, false)] {
        let (mut function, [entry, then, end], lane, predicate) = divergent_if(register);
        let collect = |function: &mut Function, block: Block, ty: Type, from: Value| {
            emit(
                function,
                block,
                AbstractOp::Collect,
                AbstractMods::NONE,
                ty,
                &[from],
            )
        };
        let before = collect(&mut function, entry, Type::UR, lane);
        branch(
            &mut function,
            entry,
            Some(predicate),
            &[(then, &[]), (end, &[])],
        );
        // Written by the whole warp: may be read anywhere below. Written here: only here.
        collect(&mut function, then, Type::R, before);
        let here = collect(&mut function, then, Type::UR, lane);
        collect(&mut function, then, Type::R, here);
        let last = function.append_block();
        branch(&mut function, then, None, &[(last, &[])]);
        collect(&mut function, last, Type::R, here);
        branch(&mut function, last, None, &[(end, &[])]);
        collect(&mut function, end, Type::R, before);
        branch(&mut function, end, None, &[]);
        let expected: &[_] = match wrong {
            true => &[(here, last, Reason::AcrossBranch)],
            false => &[],
        };
        assert_eq!(misuses(&function), expected);
    }
}

#[test]
fn a_uniform_register_is_not_chosen_by_the_way_lanes_came() {
    for (register, wrong) in [(Special::LaneId, true), (Special::CtaidX, false)] {
        let (mut function, [entry, then, end], lane, predicate) = divergent_if(register);
        let [a, b] = [(); 2].map(|()| {
            emit(
                &mut function,
                entry,
                AbstractOp::Collect,
                AbstractMods::NONE,
                Type::UR,
                &[lane],
            )
        });
        let param = function.append_block_param(end, Type::UR);
        branch(
            &mut function,
            entry,
            Some(predicate),
            &[(then, &[]), (end, &[a])],
        );
        branch(&mut function, then, None, &[(end, &[b])]);
        branch(&mut function, end, None, &[]);
        let expected: &[_] = match wrong {
            true => &[(param, end, Reason::Differs)],
            false => &[],
        };
        assert_eq!(misuses(&function), expected);
    }
}

#[test]
fn a_uniform_register_does_not_leave_a_loop_at_different_iterations() {
    let mut function = Function::new(
        "f",
        FunctionKind::Entry,
        Level::Machine,
        orias_sass::Target::DEFAULT,
    );
    let [entry, body, end] = [(); 3].map(|()| function.append_block());
    branch(&mut function, entry, None, &[(body, &[])]);
    let lane = emit(
        &mut function,
        body,
        AbstractOp::Sreg,
        special(Special::LaneId),
        Type::R,
        &[],
    );
    let predicate = emit(
        &mut function,
        body,
        AbstractOp::Setp,
        AbstractMods::NONE,
        Type::P,
        &[lane, lane],
    );
    let made = emit(
        &mut function,
        body,
        AbstractOp::Collect,
        AbstractMods::NONE,
        Type::UR,
        &[lane],
    );
    branch(
        &mut function,
        body,
        Some(predicate),
        &[(body, &[]), (end, &[])],
    );
    let read = emit(
        &mut function,
        end,
        AbstractOp::Collect,
        AbstractMods::NONE,
        Type::R,
        &[made],
    );
    branch(&mut function, end, None, &[]);
    let divergence = analyse(&function).divergence;
    assert!(divergence.is_uniform(made) && divergence.is_temporal(made));
    assert!(!divergence.is_uniform(read));
    assert_eq!(
        misuses(&function),
        [(made, end, Reason::FromDifferentIterations)]
    );
}
