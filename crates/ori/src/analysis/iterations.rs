//! Trip counts: how often loops go round, from induction variables and the exits that count them.
//!
//! An *induction variable* is a parameter of a loop's header that every way back to the header gives its own value plus the same number. An exit *counts* if the
//! block it leaves runs once in every iteration and its condition compares an induction variable, or one plus a number, with something that the loop does not change.
//! [`Iterations::of`] finds such an exit, or says why there is none ([`Refusal`]).
//!
//! The condition under which lanes *stay* is brought into one of five forms: less, at most, greater, at least (with or without sign) or not equal. From known bounds
//! follows how often the condition holds ([`Iterations::stays`]). All arithmetic of the program is modulo 2 to the width; a count is given only where no value before the last
//! one wraps, or where wrapping does not matter.
//!
//! Cost: one look at each argument of the loop's back edges and at each exit; nothing depends on how often the loop goes round.

use super::dominance::DominatorTree;
use super::loops::{Loop, LoopNest};
use crate::operation::{Combine, Compare, Sat, Scalar};
use crate::{
    AbstractOp, Block, Edge, Function, Inst, Level, Operand, SourceMods, Type, Value, ValueDef,
};
use std::fmt;

/// Why nothing is known about how often a loop goes round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refusal {
    /// The loop can be entered past its header.
    Irreducible,
    /// No exit leaves from a block that runs once in every iteration.
    NoSteadyExit,
    /// The exit is no branch on a comparison of integers of 32 or 64 bits.
    NoComparison,
    /// Neither side of the comparison is an induction variable plus a number.
    NoInductionVariable,
    /// The other side changes in the loop.
    BoundChanges,
    /// The loop goes on while two things are equal.
    StaysWhileEqual,
    /// The variable moves away from the bound: it would wrap first.
    MovesAway,
    /// What the variable starts with is not known.
    StartUnknown,
    /// What it is compared with is not known.
    BoundUnknown,
    /// A value wraps before the exit is taken.
    Wraps,
    /// The variable passes by a bound that it must meet: their distance is no multiple of the step.
    PassesBy,
    /// More iterations than a number of 31 bits counts.
    TooMany,
}

impl Refusal {
    /// The refusals by number, from 12 on: the published description of ptxas numbers those of its own analysis 11 to 23, and names 13. (11 is given by who asks.)
    pub const BY_NUMBER: [(u8, Refusal); 12] = [
        (12, Self::Irreducible),
        (13, Self::NoInductionVariable),
        (14, Self::NoSteadyExit),
        (15, Self::NoComparison),
        (16, Self::BoundChanges),
        (17, Self::StaysWhileEqual),
        (18, Self::MovesAway),
        (19, Self::StartUnknown),
        (20, Self::BoundUnknown),
        (21, Self::Wraps),
        (22, Self::PassesBy),
        (23, Self::TooMany),
    ];

    /// Its number.
    pub fn number(self) -> u8 {
        let mut rows = Self::BY_NUMBER.iter();
        rows.find(|(_, it)| *it == self)
            .map_or(0, |&(number, _)| number)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Irreducible => "it can be entered past its header",
            Self::NoSteadyExit => "no exit leaves from a block that runs in every iteration",
            Self::NoComparison => "its exits do not compare integers",
            Self::NoInductionVariable => "no exit compares an induction variable",
            Self::BoundChanges => "the bound changes in the loop",
            Self::StaysWhileEqual => "it goes on while two things are equal",
            Self::MovesAway => "its variable moves away from the bound",
            Self::StartUnknown => "what its variable starts with is not known",
            Self::BoundUnknown => "the bound is not known",
            Self::Wraps => "its variable wraps before it meets the bound",
            Self::PassesBy => "its variable passes by the bound",
            Self::TooMany => "it has too many iterations",
        })
    }
}

/// How a value is compared with the bound where lanes stay.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stay {
    /// It is less.
    Less,
    /// It is at most the bound.
    AtMost,
    /// It is greater.
    Greater,
    /// It is at least the bound.
    AtLeast,
    /// It is another.
    NotEqual,
}

/// An exit that counts the iterations of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Iterations {
    /// The block that is left.
    pub block: Block,
    /// The edge that stays, as an index into the edges of its terminator.
    pub staying: usize,
    /// The induction variable: a parameter of the header.
    pub variable: Value,
    /// What is added to it in each iteration; not zero.
    pub step: i64,
    /// What is added to it for the comparison.
    pub ahead: i64,
    /// How the sum is compared with the bound where lanes stay.
    pub stay: Stay,
    /// Whether the comparison minds the sign.
    pub signed: bool,
    /// The width of the comparison: 32 or 64.
    pub bits: u16,
    /// What it is compared with: an immediate, or a value that does not change in the loop.
    pub bound: Operand,
}

/// A parameter of a header that goes up or down by the same number in every iteration.
fn induction_step(func: &Function, back: &[Edge], header: Block, variable: Value) -> Option<i64> {
    let ValueDef::Param(at, index) = func.value_def(variable) else {
        return None;
    };
    if at != header {
        return None;
    }
    let mut step = None;
    for &edge in back {
        let (base, more) = offset_of(func, func.edge_args(edge)[usize::from(index)])?;
        if base != variable || step.is_some_and(|step| step != more) {
            return None;
        }
        step = Some(more);
    }
    step.filter(|&step| step != 0)
}

/// `value` as another value plus a number, both of the same width.
fn offset_of(func: &Function, value: Value) -> Option<(Value, i64)> {
    let mut at = value;
    let mut sum = 0_i64;
    // Copies of bodies add again and again.
    for _ in 0..64 {
        let Some((next, more)) = last_term(func, at) else {
            break;
        };
        at = next;
        sum = sum.wrapping_add(more);
    }
    let sum = match func.value_type(value) {
        Type::R => i64::from(sum as i32),
        Type::R2 => sum,
        _ => return None,
    };
    Some((at, sum))
}

fn last_term(func: &Function, value: Value) -> Option<(Value, i64)> {
    let inst = func.defining_inst(value)?;
    let op = func.opcode(inst).as_abstract()?;
    let width = 32 * u16::from(func.value_type(value).len());
    let wraps = func.modifier::<Sat>(inst).is_none_or(|it| it == Sat::Wrap);
    let plain = func.inst(inst).guard().is_always() && wraps;
    if !plain || func.modifier::<Scalar>(inst)?.bits() != width {
        return None;
    }
    let operands = func.operands(inst);
    match op {
        AbstractOp::Mov => Some((plain_value(operands[1])?, 0)),
        AbstractOp::Add => match (number(func, operands[1]), number(func, operands[2])) {
            (None, Some(more)) => Some((plain_value(operands[1])?, more)),
            (Some(more), None) => Some((plain_value(operands[2])?, more)),
            _ => None,
        },
        AbstractOp::Sub => Some((
            plain_value(operands[1])?,
            number(func, operands[2])?.wrapping_neg(),
        )),
        _ => None,
    }
}

fn plain_value(operand: Operand) -> Option<Value> {
    operand
        .as_value()
        .filter(|_| operand.mods() == SourceMods::NONE)
}

/// The number an operand stands for: an immediate, or a copy of one.
fn number(func: &Function, operand: Operand) -> Option<i64> {
    match operand {
        Operand::Imm(imm) => Some(imm.bits() as i64),
        other => {
            let inst = func.defining_inst(plain_value(other)?)?;
            let copy = func.opcode(inst).as_abstract() == Some(AbstractOp::Mov)
                && func.inst(inst).guard().is_always();
            match func.operands(inst) {
                &[_, Operand::Imm(imm)] if copy => Some(imm.bits() as i64),
                _ => None,
            }
        }
    }
}

/// A comparison that decides a branch.
struct Comparison {
    compare: Compare,
    scalar: Scalar,
    sides: [Operand; 2],
}

fn comparison(func: &Function, condition: Operand) -> Option<Comparison> {
    let inst: Inst = func.defining_inst(condition.as_value()?)?;
    let setp = func.opcode(inst).as_abstract() == Some(AbstractOp::Setp)
        && func.inst(inst).guard().is_always();
    let &[first, _, a, b, also] = func.operands(inst) else {
        return None;
    };
    let scalar = func.modifier::<Scalar>(inst)?;
    let integer = matches!(
        scalar,
        Scalar::U32 | Scalar::S32 | Scalar::B32 | Scalar::U64 | Scalar::S64 | Scalar::B64
    );
    let alone = also == Operand::None && first.as_value() == condition.as_value();
    (setp && integer && alone && func.modifier::<Combine>(inst).is_some()).then_some(Comparison {
        compare: func.modifier(inst)?,
        scalar,
        sides: [a, b],
    })
}

impl Iterations {
    /// The exit of `of` that counts, or why there is none. `back` are the edges to its header from inside.
    pub fn of(
        func: &Function,
        nest: &LoopNest,
        tree: &DominatorTree,
        of: Loop,
        back: &[Edge],
    ) -> Result<Self, Refusal> {
        debug_assert_eq!(func.level, Level::Abstract);
        if nest.is_irreducible(of) {
            return Err(Refusal::Irreducible);
        }
        let mut refusal = Refusal::NoSteadyExit;
        for &(block, _) in nest.own_exits(of) {
            let steady = nest
                .latches(of)
                .iter()
                .all(|&latch| tree.dominates(block, latch));
            if !steady {
                continue;
            }
            match Self::at(func, nest, of, back, block) {
                Ok(found) => return Ok(found),
                Err(why) => refusal = refusal.max(why),
            }
        }
        Err(refusal)
    }

    fn at(
        func: &Function,
        nest: &LoopNest,
        of: Loop,
        back: &[Edge],
        block: Block,
    ) -> Result<Self, Refusal> {
        let branch = func.terminator(block).ok_or(Refusal::NoComparison)?;
        let (&[condition], &[yes, no]) = (func.operands(branch), func.edges(branch)) else {
            return Err(Refusal::NoComparison);
        };
        let stays = [yes, no].map(|edge| nest.contains(of, func.edge_target(edge)));
        let staying = match stays {
            [true, false] => 0,
            [false, true] => 1,
            _ => return Err(Refusal::NoComparison),
        };
        let Comparison {
            compare,
            scalar,
            sides,
        } = comparison(func, condition).ok_or(Refusal::NoComparison)?;
        let holds = (staying == 0) != condition.mods().contains(SourceMods::NOT);
        let (stay, sign) = stay(compare, holds).ok_or(match compare {
            Compare::Eq | Compare::Ne => Refusal::StaysWhileEqual,
            _ => Refusal::NoComparison,
        })?;
        let signed = sign.unwrap_or(matches!(scalar, Scalar::S32 | Scalar::S64));
        let header = nest.header(of);
        let outside = |operand: Operand| match operand {
            Operand::Imm(_) => true,
            other => plain_value(other).is_some_and(|value| {
                func.defining_block(value)
                    .is_some_and(|at| !nest.contains(of, at))
            }),
        };
        let mut refusal = Refusal::NoInductionVariable;
        for (side, stay) in [(0, Some(stay)), (1, stay.turned())] {
            let Some(stay) = stay else { continue };
            let Some((variable, ahead)) =
                plain_value(sides[side]).and_then(|value| offset_of(func, value))
            else {
                continue;
            };
            let Some(step) = induction_step(func, back, header, variable) else {
                continue;
            };
            let bound = match number(func, sides[1 - side]) {
                Some(number) => Operand::imm(number as u64),
                None => sides[1 - side],
            };
            if !outside(bound) {
                refusal = Refusal::BoundChanges;
                continue;
            }
            let away = match stay {
                Stay::Less | Stay::AtMost => step < 0,
                Stay::Greater | Stay::AtLeast => step > 0,
                Stay::NotEqual => false,
            };
            if away {
                refusal = Refusal::MovesAway;
                continue;
            }
            return Ok(Self {
                block,
                staying,
                variable,
                step,
                ahead,
                stay,
                signed,
                bits: scalar.bits(),
                bound,
            });
        }
        Err(refusal)
    }

    /// How often the exit is passed by before it is taken, if the variable starts with `start` and the bound is known. Nothing if a value would wrap first, or if
    /// the variable passes by a bound that it must meet.
    pub fn stays(&self, start: i64) -> Option<u64> {
        self.count(Some(start)).ok()
    }

    /// The same, or why it is not known.
    pub fn count(&self, start: Option<i64>) -> Result<u64, Refusal> {
        let start = start.ok_or(Refusal::StartUnknown)?;
        let Operand::Imm(bound) = self.bound else {
            return Err(Refusal::BoundUnknown);
        };
        let number = |bits: i64| match (self.bits, self.signed) {
            (32, true) => i128::from(bits as i32),
            (32, false) => i128::from(bits as u32),
            (_, true) => i128::from(bits),
            (_, false) => i128::from(bits as u64),
        };
        let bound = number(bound.bits() as i64);
        let first = number(start.wrapping_add(self.ahead));
        let step = i128::from(self.step);
        let most = match (self.bits, self.signed) {
            (32, true) => i128::from(i32::MAX),
            (32, false) => i128::from(u32::MAX),
            (_, true) => i128::from(i64::MAX),
            (_, false) => i128::from(u64::MAX),
        };
        let least = if self.signed { -most - 1 } else { 0 };
        let distance = match self.stay {
            Stay::Less => bound - first,
            Stay::AtMost => bound - first + 1,
            Stay::Greater => first - bound,
            Stay::AtLeast => first - bound + 1,
            Stay::NotEqual => {
                // Modulo 2 to the width, in the direction of the step.
                let modulus = 1_i128 << self.bits;
                let distance = ((bound - first) * step.signum()).rem_euclid(modulus);
                if distance % step.abs() != 0 {
                    return Err(Refusal::PassesBy);
                }
                return u64::try_from(distance / step.abs()).map_err(|_| Refusal::TooMany);
            }
        };
        if distance <= 0 {
            return Ok(0);
        }
        let stays = (distance + step.abs() - 1) / step.abs();
        let last = first + stays * step;
        if !(least..=most).contains(&last) {
            return Err(Refusal::Wraps);
        }
        u64::try_from(stays).map_err(|_| Refusal::TooMany)
    }
}

impl Stay {
    /// The same with the sides exchanged.
    fn turned(self) -> Option<Self> {
        Some(match self {
            Self::Less => Self::Greater,
            Self::AtMost => Self::AtLeast,
            Self::Greater => Self::Less,
            Self::AtLeast => Self::AtMost,
            Self::NotEqual => Self::NotEqual,
        })
    }
}

/// The form of a comparison that holds, or does not hold, where lanes stay; and whether its name settles the sign.
fn stay(compare: Compare, holds: bool) -> Option<(Stay, Option<bool>)> {
    let unsigned = Some(false);
    let (stay, sign) = match compare {
        Compare::Eq if !holds => return Some((Stay::NotEqual, None)),
        Compare::Ne if holds => return Some((Stay::NotEqual, None)),
        Compare::Lt => (Stay::Less, None),
        Compare::Le => (Stay::AtMost, None),
        Compare::Gt => (Stay::Greater, None),
        Compare::Ge => (Stay::AtLeast, None),
        Compare::Lo => (Stay::Less, unsigned),
        Compare::Ls => (Stay::AtMost, unsigned),
        Compare::Hi => (Stay::Greater, unsigned),
        Compare::Hs => (Stay::AtLeast, unsigned),
        _ => return None,
    };
    let stay = match (stay, holds) {
        (stay, true) => stay,
        (Stay::Less, false) => Stay::AtLeast,
        (Stay::AtMost, false) => Stay::Greater,
        (Stay::Greater, false) => Stay::AtMost,
        (Stay::AtLeast, false) => Stay::Less,
        (Stay::NotEqual, false) => return None,
    };
    Some((stay, sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_numbers_of_their_own() {
        for (index, (number, refusal)) in Refusal::BY_NUMBER.iter().enumerate() {
            assert_eq!(usize::from(*number), 12 + index);
            assert_eq!(refusal.number(), *number);
        }
        assert_eq!(Refusal::NoInductionVariable.number(), 13);
    }

    /// How often a loop goes round, by going round: nothing if it does not end within 64 times.
    fn went_round(exit: &Iterations, start: i64, bound: i64) -> Option<u64> {
        let narrow = |bits: i64| match (exit.bits, exit.signed) {
            (32, true) => i128::from(bits as i32),
            (32, false) => i128::from(bits as u32),
            (_, true) => i128::from(bits),
            (_, false) => i128::from(bits as u64),
        };
        let bound = narrow(bound);
        (0..64).find(|&round| {
            let value = narrow(start + exit.ahead + exit.step * round as i64);
            !match exit.stay {
                Stay::Less => value < bound,
                Stay::AtMost => value <= bound,
                Stay::Greater => value > bound,
                Stay::AtLeast => value >= bound,
                Stay::NotEqual => value != bound,
            }
        })
    }

    #[test]
    fn counts_are_those_of_the_loop_that_goes_round() {
        let mut exit = Iterations {
            block: Block::from_u32(0),
            staying: 0,
            variable: Value::from_u32(0),
            step: 0,
            ahead: 0,
            stay: Stay::Less,
            signed: false,
            bits: 32,
            bound: Operand::None,
        };
        let steps = |stay| match stay {
            Stay::Less | Stay::AtMost => [1, 2, 3],
            Stay::Greater | Stay::AtLeast => [-1, -2, -3],
            Stay::NotEqual => [1, -1, 2],
        };
        // Small numbers of either sign, and some that differ in their upper words only.
        let numbers: Vec<i64> = (-5..6).chain([5 + (3 << 32), 7 + (3 << 32)]).collect();
        let mut counted = 0;
        for stay in [
            Stay::Less,
            Stay::AtMost,
            Stay::Greater,
            Stay::AtLeast,
            Stay::NotEqual,
        ] {
            for (signed, bits, ahead) in
                [(true, 32, 0), (false, 32, 1), (true, 64, 1), (false, 64, 0)]
            {
                for (step, &start, &bound) in steps(stay).into_iter().flat_map(|step| {
                    let pairs = numbers
                        .iter()
                        .flat_map(|a| numbers.iter().map(move |b| (a, b)));
                    pairs.map(move |(start, bound)| (step, start, bound))
                }) {
                    (exit.step, exit.ahead, exit.stay, exit.signed, exit.bits) =
                        (step, ahead, stay, signed, bits);
                    exit.bound = Operand::imm(bound as u64);
                    match (exit.count(Some(start)), went_round(&exit, start, bound)) {
                        (Ok(count), Some(rounds)) => {
                            assert_eq!(count, rounds, "{exit:?} from {start}");
                            counted += 1;
                        }
                        (Ok(count), None) => assert!(count >= 64, "{exit:?} from {start}: {count}"),
                        // A value wraps on the way.
                        (Err(why), _) => {
                            let known = matches!(
                                why,
                                Refusal::Wraps | Refusal::PassesBy | Refusal::TooMany
                            );
                            assert!(
                                known && (!signed || stay == Stay::NotEqual),
                                "{exit:?} from {start}: {why}"
                            );
                        }
                    }
                }
            }
        }
        assert!(counted > 4000, "{counted}");
    }

    #[test]
    fn counts_are_refused_for_the_reason_there_is() {
        let exit = Iterations {
            block: Block::from_u32(0),
            staying: 0,
            variable: Value::from_u32(0),
            step: 3,
            ahead: 0,
            stay: Stay::NotEqual,
            signed: false,
            bits: 32,
            bound: Operand::imm(9),
        };
        assert_eq!(exit.count(Some(0)), Ok(3));
        assert_eq!(exit.count(Some(1)), Err(Refusal::PassesBy));
        assert_eq!(exit.count(None), Err(Refusal::StartUnknown));
        let less = Iterations {
            stay: Stay::Less,
            ..exit
        };
        assert_eq!(less.count(Some(1)), Ok(3));
        let bound = Operand::imm(u64::from(u32::MAX));
        assert_eq!(
            Iterations { bound, ..less }.count(Some(1)),
            Err(Refusal::Wraps)
        );
        let bound = Operand::from(Value::from_u32(1));
        assert_eq!(
            Iterations { bound, ..less }.count(Some(0)),
            Err(Refusal::BoundUnknown)
        );
    }
}
