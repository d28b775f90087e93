//! Demanded words: 64-bit numbers of which only the low word is ever asked for, around loops too, become words.
//!
//! Pointers into local and shared memory are 64 bits wide in PTX, and their accesses read 32; a carry that is moved up by 32 bits leaves its high word behind. What computes
//! such numbers once is no matter: selection makes only the words that are read. What goes around a loop keeps both.
//!
//! A backward analysis: a high word is demanded if something reads it that does not hand it on, or hands it on to a high word that is. Sums, products, logic, choices
//! and shifts to the left hand low words to low words. Nothing changes where no block parameter is narrowed.

use crate::emit::{Emit, imm};
use crate::pipeline::PhaseError;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_ori::operation::{Half, Sat, Scalar, SourceType};
use orias_ori::{
    AbstractOp, Block, Edge, Function, Guard, Inst, Operand, Operation, Type, Value, ValueDef,
};

/// Narrows what it can; whether there was something.
pub(super) fn narrow_to_low_words(func: &mut Function) -> Result<bool, PhaseError> {
    let entry = func.entry();
    let wide = |func: &Function, block: Block| {
        let params = func.block_params(block);
        Some(block) != entry && params.iter().any(|&param| is_pair(func, param))
    };
    if !func.blocks().any(|block| wide(func, block)) {
        return Ok(false);
    }
    let blocks: Vec<Block> = func.blocks().collect();
    let mut incoming: SecondaryMap<Block, Vec<(Inst, Edge)>> = SecondaryMap::new();
    for &block in &blocks {
        if let Some(last) = func.layout.last_inst(block) {
            for &edge in func.edges(last) {
                incoming[func.edge_target(edge)].push((last, edge));
            }
        }
    }
    let demanded = demanded_highs(func, &blocks, &incoming);
    let is_low = |func: &Function, value: Value| is_pair(func, value) && !demanded.contains(value);
    let narrowed: Vec<Block> = (blocks.iter().copied())
        .filter(|&block| {
            let params = func.block_params(block);
            wide(func, block) && params.iter().any(|&param| is_low(func, param))
        })
        .collect();
    if narrowed.is_empty() {
        return Ok(false);
    }
    let insts: Vec<Inst> = (blocks.iter())
        .flat_map(|&block| func.block_insts(block))
        .filter(|&inst| {
            let result = func.result(inst, 0);
            hands_on(func, inst).is_some() && result.is_some_and(|value| is_low(func, value))
        })
        .collect();
    for inst in insts {
        narrow(func, inst)?;
    }
    for block in narrowed {
        for place in (0..func.block_params(block).len()).rev() {
            let param = func.block_params(block)[place];
            if is_low(func, param) {
                narrow_param(func, block, place, &incoming[block])?;
            }
        }
    }
    Ok(true)
}

fn is_pair(func: &Function, value: Value) -> bool {
    func.value_type(value) == Type::R2
}

/// The values whose high words are demanded.
fn demanded_highs(
    func: &Function,
    blocks: &[Block],
    incoming: &SecondaryMap<Block, Vec<(Inst, Edge)>>,
) -> EntitySet<Value> {
    let mut read: EntitySet<Value> = EntitySet::new();
    for inst in blocks.iter().flat_map(|&block| func.block_insts(block)) {
        func.for_each_value_use(inst, |value| {
            read.insert(value);
        });
    }
    let mut demanded: EntitySet<Value> = EntitySet::new();
    let mut pending: Vec<Value> = Vec::new();
    let mut demand = |pending: &mut Vec<Value>, value: Value| {
        if is_pair(func, value) && demanded.insert(value) {
            pending.push(value);
        }
    };
    for inst in blocks.iter().flat_map(|&block| func.block_insts(block)) {
        let results = func.result_count(inst);
        let high_unread = || {
            let high = func.operands(inst).get(1).and_then(|high| high.as_value());
            high.is_none_or(|high| !read.contains(high))
        };
        let always = func.inst(inst).guard().is_always();
        match func.opcode(inst).as_abstract() {
            _ if hands_on(func, inst).is_some() || takes_low(func, inst) => {}
            Some(AbstractOp::Split) if always && results == 2 && high_unread() => {}
            _ if !func.edges(inst).is_empty() => {
                for operand in func.operands(inst) {
                    if let Some(value) = operand.as_value() {
                        demand(&mut pending, value);
                    }
                }
            }
            _ => func.for_each_value_use(inst, |value| demand(&mut pending, value)),
        }
    }
    while let Some(value) = pending.pop() {
        match func.value_def(value) {
            ValueDef::Inst(inst, _) if hands_on(func, inst) == Some(true) => {
                func.for_each_value_use(inst, |value| demand(&mut pending, value));
            }
            ValueDef::Param(block, place) => {
                for &(_, edge) in &incoming[block] {
                    if let Some(&value) = func.edge_args(edge).get(place as usize) {
                        demand(&mut pending, value);
                    }
                }
            }
            _ => {}
        }
    }
    demanded
}

/// Whether `inst` converts a doubleword to an integer of a word or less.
fn takes_low(func: &Function, inst: Inst) -> bool {
    use Scalar as S;
    let from = func.modifier::<SourceType>(inst).map(Scalar::from);
    func.opcode(inst).as_abstract() == Some(AbstractOp::Cvt)
        && func.inst(inst).guard().is_always()
        && func.modifier::<Sat>(inst) == Some(Sat::Wrap)
        && matches!(from, Some(S::U64 | S::S64))
        && matches!(
            func.modifier::<Scalar>(inst),
            Some(S::U8 | S::S8 | S::U16 | S::S16 | S::U32 | S::S32)
        )
}

/// For what computes the low word of a doubleword from low words alone: whether the high word asks for high words.
fn hands_on(func: &Function, inst: Inst) -> Option<bool> {
    use AbstractOp as A;
    let unguarded = func.inst(inst).guard().is_always();
    let words = matches!(func.modifier::<Scalar>(inst)?, Scalar::U32 | Scalar::S32);
    let wraps = func
        .modifier::<Sat>(inst)
        .is_none_or(|sat| sat == Sat::Wrap);
    let product = func.modifier::<Half>(inst) == Some(Half::Wide) && words && wraps && unguarded;
    let from = func.modifier::<SourceType>(inst).map(Scalar::from);
    match func.opcode(inst).as_abstract()? {
        A::Mul if product => return Some(false),
        A::Mad if product => return Some(true),
        A::Cvt => {
            let wide = matches!(func.modifier::<Scalar>(inst)?, Scalar::U64 | Scalar::S64);
            let word = matches!(from, Some(Scalar::U32 | Scalar::S32));
            return (wide && word && wraps && unguarded).then_some(false);
        }
        _ => {}
    }
    let wide = func.modifier::<Scalar>(inst)?.bits() == 64
        && unguarded
        && wraps
        && func.result_count(inst) == 1
        && (func.result(inst, 0)).is_some_and(|value| is_pair(func, value));
    let plain = (func.operands(inst)[1..].iter()).all(|operand| {
        matches!(operand, Operand::Imm(_))
            || operand.as_value().is_some() && operand.mods().is_empty()
    });
    match func.opcode(inst).as_abstract()? {
        A::Selp if wide => Some(true),
        A::Add | A::Sub | A::And | A::Or | A::Xor | A::Not if wide && plain => Some(true),
        A::Mul | A::Mad if wide && plain && func.modifier::<Half>(inst) == Some(Half::Lo) => {
            Some(true)
        }
        A::Mov if wide && matches!(func.operands(inst), [_, Operand::Imm(_)]) => Some(true),
        A::Shl if wide && plain => match func.operands(inst) {
            [_, _, Operand::Imm(by)] => Some(by.bits() < 32),
            _ => None,
        },
        _ => None,
    }
}

/// Computes the low word of `inst` in 32 bits; the high one is zero.
fn narrow(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let Operation::Abstract(op, mods) = func.inst(inst).operation() else {
        return Ok(());
    };
    let scalar = match op {
        AbstractOp::Add | AbstractOp::Sub | AbstractOp::Mul | AbstractOp::Mad => Scalar::U32,
        _ => Scalar::B32,
    };
    let extension = op == AbstractOp::Cvt;
    let mods = match op {
        _ if extension => Some(mods),
        AbstractOp::Mul | AbstractOp::Mad => (op.row().with_modifier(mods, Half::Lo))
            .and_then(|mods| op.row().with_modifier(mods, scalar)),
        _ => op.row().with_modifier(mods, scalar),
    };
    let Some(mods) = mods else {
        return Ok(());
    };
    let operands = func.operands(inst).to_vec();
    let mut emit = Emit::before(func, inst);
    let sources: Vec<Operand> = (operands[1..].iter())
        .map(|&source| match source {
            Operand::Imm(bits) => imm(bits.bits() & 0xffff_ffff),
            _ => match source.as_value() {
                Some(value) if emit.func().value_type(value) == Type::R2 => emit.halves(source).0,
                _ => source,
            },
        })
        .collect();
    let gone = op == AbstractOp::Shl && matches!(sources[1], Operand::Imm(by) if by.bits() >= 32);
    let low = match gone {
        true => imm(0),
        false if extension => sources[0],
        false => emit.again(op, mods, &sources),
    };
    let words = [low, imm(0)].map(|word| Operand::from(emit.as_value(Scalar::B32, word)));
    let collect = AbstractOp::Collect;
    emit.put(collect, (), &operands[..1], &words, Guard::ALWAYS, &[]);
    emit.finish().map_err(|error| PhaseError::Broken {
        at: inst.to_string(),
        what: error.to_string(),
    })?;
    func.remove_inst(inst);
    Ok(())
}

/// Makes parameter `place` of `block` a word.
fn narrow_param(
    func: &mut Function,
    block: Block,
    place: usize,
    incoming: &[(Inst, Edge)],
) -> Result<(), PhaseError> {
    let broken = |error: orias_ori::builder::BuildError| PhaseError::Broken {
        at: block.to_string(),
        what: error.to_string(),
    };
    let param = func.block_params(block)[place];
    let word = func.append_block_param(block, Type::R);
    for &(last, edge) in incoming {
        let passed = func.edge_args(edge)[place];
        let mut emit = Emit::before(func, last);
        let (low, _) = emit.halves(passed.into());
        let low = emit.as_value(Scalar::B32, low);
        emit.finish().map_err(broken)?;
        func.push_edge_arg(edge, low);
    }
    let edges: Vec<Edge> = incoming.iter().map(|&(_, edge)| edge).collect();
    func.remove_block_param(block, place, &edges);
    let Some(first) = func.layout.first_inst(block) else {
        return Ok(());
    };
    let mut emit = Emit::before(func, first);
    let zero = emit.as_value(Scalar::B32, imm(0));
    let words = [word.into(), zero.into()];
    let collect = AbstractOp::Collect;
    emit.put(collect, (), &[param.into()], &words, Guard::ALWAYS, &[]);
    emit.finish().map_err(broken)
}
