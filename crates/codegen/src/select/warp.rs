//! What the lanes of a warp do together.
//!
//! The machine's instructions work on the lanes that run together at that moment. The lanes of a mask are brought together
//! first, where they may have parted or where the mask does not name all lanes. Operations that look at all running lanes
//! (votes, reductions) must not see others: `WARPSYNC.EXCLUSIVE` lets only the lanes of the mask go on, inside a region made for
//! it before selection (`regions`). Shuffles read only lanes of their own mask, so lanes of other masks may run with them: they are brought
//! together only where some lane misses one of its mask, which a vote finds out.

use super::selector::{Selector, not_pt, pt, rz, urz};
use super::source::Source;
use super::sources;
use crate::pipeline::PhaseError;
use orias_ori::operation::{Match, Reduce, Scalar, Shuffle, Vote};
use orias_ori::{AbstractOp, Class, Guard, Opcode, Operand, Type};
use orias_sass::Op;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// A mask that names all lanes.
const ALL_LANES: u64 = 0xffff_ffff;

impl Selector<'_> {
    /// Brings the lanes of the mask in source `index` together.
    fn meet_lanes(&mut self, index: usize, exclusive: bool) -> Done {
        let mask = self.word(index);
        if mask.constant().map(|bits| bits & ALL_LANES) == Some(ALL_LANES) {
            return self.gather_lanes();
        }
        let set_apart = self.is_set_apart();
        let mask = self.in_register(mask)?;
        if exclusive && !set_apart {
            let shared = [(name::EXCLUSIVE, value::SHARED)];
            self.emit(Op::WARPSYNC, &shared, sources![pt(), mask])?;
            return Ok(());
        }
        if exclusive || self.guard != Guard::ALWAYS {
            let mods = [(
                name::EXCLUSIVE,
                if exclusive {
                    value::EXCLUSIVE
                } else {
                    value::SHARED
                },
            )];
            self.emit_guarded(Op::WARPSYNC, &mods, sources![pt(), mask])?;
            return Ok(());
        }
        // WARPSYNC lets the lanes of each mask go on by themselves. Where no lane misses one of its mask, all go on as they are.
        let (running, misses, any) = (
            self.temporary(Type::R),
            self.temporary(Type::P),
            self.temporary(Type::P),
        );
        let mode = [(name::MODE, value::ANY)];
        self.emit(Op::VOTE, &mode, sources![running, pt(), pt()])?;
        let but_not = Operand::imm(0x30);
        let operands = sources![misses, rz(), mask, running, rz(), but_not, not_pt()];
        self.emit(Op::LOP3, &[], operands)?;
        self.emit(Op::VOTE, &mode, sources![rz(), any, misses])?;
        let shared = [(name::EXCLUSIVE, value::SHARED)];
        self.emit_with(
            Op::WARPSYNC,
            &shared,
            sources![pt(), mask],
            Guard::when(any),
        )?;
        Ok(())
    }

    /// Whether the instruction has a region of its own, as those have that lanes with different masks may run at the same time.
    fn is_set_apart(&self) -> bool {
        let alone = self.func.layout.prev_inst(self.at).is_none();
        let &[behind] = self.func.successor_edges(self.block) else {
            return false;
        };
        let first = self.func.layout.first_inst(self.func.edge_target(behind));
        let meets = [
            Opcode::Abstract(AbstractOp::RegionMeet),
            Opcode::Machine(Op::BSYNC),
        ];
        alone && first.is_some_and(|inst| meets.contains(&self.func.opcode(inst)))
    }

    /// Copies a uniform word to the result.
    fn copy_uniform(&mut self, uniform: orias_ori::Value, result: Operand) -> Done {
        if result.as_value().is_some() {
            let all = Operand::imm(0xf);
            self.emit_guarded(Op::MOV, &[], sources![result, uniform, all])?;
        }
        Ok(())
    }
}

/// Lanes that run together need not be brought together, but what they told each other through memory keeps to its side: NOP stands
/// where they meet, no access to memory passes it, and the container lists it for tools that look for races, as ptxas does.
pub(super) fn sync(s: &mut Selector<'_>) -> Done {
    let mask = s.word(0).constant().map(|bits| bits & ALL_LANES);
    if mask == Some(ALL_LANES) && s.together.contains(s.at) {
        s.emit_guarded(Op::NOP, &[], sources![])?;
        return Ok(());
    }
    s.meet_lanes(0, false)
}

pub(super) fn shuffle(s: &mut Selector<'_>) -> Done {
    let mode = match s.modifier::<Shuffle>()? {
        Shuffle::Up => value::UP,
        Shuffle::Down => value::DOWN,
        Shuffle::Bfly => value::BFLY,
        Shuffle::Idx => value::IDX,
    };
    s.meet_lanes(3, false)?;
    let value = s.word(0);
    let value = s.in_register(value)?;
    let lane = bounded(s, 1, 0x1f)?;
    let clamp = bounded(s, 2, 0x1fff)?;
    let operands = sources![s.predicate_result(1), s.word_result(0), value, lane, clamp];
    s.emit_guarded(Op::SHFL, &[(name::MODE, mode)], operands)?;
    Ok(())
}

/// Source `index` as a number of so many bits, or in a register.
fn bounded(s: &mut Selector<'_>, index: usize, most: u64) -> Result<Source, PhaseError> {
    let source = s.word(index);
    match source.constant() {
        Some(bits) => Ok(Operand::imm(bits & most).into()),
        None => Ok(s.in_register(source)?.into()),
    }
}

pub(super) fn vote(s: &mut Selector<'_>) -> Done {
    let mode = match s.modifier::<Vote>()? {
        Vote::All => value::ALL,
        Vote::Any => value::ANY,
        Vote::Uni => value::EQ,
        Vote::Ballot => return Err(s.unsupported()),
    };
    s.meet_lanes(1, true)?;
    let predicate = s.predicate(0);
    let operands = sources![rz(), s.predicate_result(0), predicate];
    s.emit_guarded(Op::VOTE, &[(name::MODE, mode)], operands)?;
    Ok(())
}

pub(super) fn ballot(s: &mut Selector<'_>) -> Done {
    s.meet_lanes(1, true)?;
    let predicate = s.predicate(0);
    let operands = sources![s.word_result(0), pt(), predicate];
    s.emit_guarded(Op::VOTE, &[(name::MODE, value::ANY)], operands)?;
    Ok(())
}

pub(super) fn active(s: &mut Selector<'_>) -> Done {
    s.emit_guarded(
        Op::VOTE,
        &[(name::MODE, value::ANY)],
        sources![s.word_result(0), pt(), pt()],
    )?;
    Ok(())
}

pub(super) fn matching(s: &mut Selector<'_>) -> Done {
    let wide = s.modifier::<Scalar>()?.bits() == 64;
    s.meet_lanes(1, true)?;
    let value = match wide {
        true => s.pair(0),
        false => s.word(0),
    };
    let mods = [(name::TYPE, if wide { value::U64 } else { value::U32 })];
    match s.modifier::<Match>()? {
        Match::Any => s.emit_guarded(Op::MATCH_ANY, &mods, sources![s.word_result(0), value])?,
        Match::All => {
            let operands = sources![s.predicate_result(1), s.word_result(0), value];
            s.emit_guarded(Op::MATCH_ALL, &mods, operands)?
        }
    };
    Ok(())
}

pub(super) fn reduce(s: &mut Selector<'_>) -> Done {
    let function = match s.modifier::<Reduce>()? {
        Reduce::Add => value::SUM,
        Reduce::Min => value::MIN,
        Reduce::Max => value::MAX,
        Reduce::And => value::AND,
        Reduce::Or => value::OR,
        Reduce::Xor => value::XOR,
        _ => return Err(s.unsupported()),
    };
    let sign = match (s.modifier::<Scalar>()?, function) {
        (Scalar::S32, value::MIN | value::MAX) => value::S32,
        _ => value::U32,
    };
    s.meet_lanes(1, true)?;
    let value = s.word(0);
    let uniform = s.temporary(Type::single(Class::UR));
    let mods = [(name::FN, function), (name::SIGN, sign)];
    s.emit_guarded(Op::REDUX, &mods, sources![uniform, value])?;
    let result = s.result(0);
    s.copy_uniform(uniform, result)
}

pub(super) fn elect(s: &mut Selector<'_>) -> Done {
    s.meet_lanes(0, true)?;
    let lane = s.result(0);
    let uniform = s.temporary(Type::single(Class::UR));
    let operands = sources![s.predicate_result(1), uniform, pt()];
    s.emit_guarded(Op::ELECT, &[], operands)?;
    s.copy_uniform(uniform, lane)
}

/// In lanes whose turn was before, nobody is elected.
pub(super) fn elect_turn(s: &mut Selector<'_>) -> Done {
    let Some(turn) = s.result(0).as_value() else {
        return Ok(());
    };
    if s.predicate(0).operand == pt() {
        s.emit(Op::ELECT, &[], sources![turn, urz(), pt()])?;
        return Ok(());
    }
    let Some(waiting) = s.operand(0).as_value() else {
        return Ok(());
    };
    let waits = s.guard_source(Guard::when(waiting));
    let nobody = s.temporary(Type::P);
    let never = Operand::imm(0x8);
    let zero = Operand::imm(0);
    s.emit(
        Op::PLOP3,
        &[],
        sources![nobody, pt(), pt(), pt(), pt(), never, zero],
    )?;
    s.keep(turn, nobody);
    s.emit_with(Op::ELECT, &[], sources![turn, urz(), pt()], waits)?;
    Ok(())
}

/// A move to a uniform register takes the word of the lane that it runs in.
pub(super) fn turn_word(s: &mut Selector<'_>) -> Done {
    let Some(turn) = s.operand(0).as_value() else {
        return Err(s.broken("whose turn it is is no value"));
    };
    let turn = s.guard_source(Guard::when(turn));
    let word = s.word(1);
    let word = s.in_register(word)?;
    let uniform = s.temporary(Type::single(Class::UR));
    s.emit_with(Op::R2UR, &[], sources![pt(), uniform, word], turn)?;
    let result = s.result(0);
    s.copy_uniform(uniform, result)
}

/// A branch that is the only reader asks itself (`control`).
pub(super) fn any_running(s: &mut Selector<'_>) -> Done {
    let result = s.result(0).as_value();
    if !result.is_some_and(|result| s.is_wanted(result)) {
        return Ok(());
    }
    let predicate = s.predicate(0);
    let operands = sources![rz(), s.predicate_result(0), predicate];
    s.emit(Op::VOTE, &[(name::MODE, value::ANY)], operands)?;
    Ok(())
}
