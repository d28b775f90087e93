//! Moves, tuples, special registers, names and generic addresses.

use super::selector::{Selector, Shared, pt, rz, with_index};
use super::source::Source;
use super::{Rule, WORD, sources, wide};
use crate::module::is_near;
use crate::pipeline::PhaseError;
use orias_ori::operation::{Scalar, Space, Special};
use orias_ori::{AbstractMods, AbstractOp, Class, Operand, SourceMods, SymbolPart, Type, Value};
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;
use orias_sass::{Op, special as register};

type Done = Result<(), PhaseError>;

/// Stays as it is: machine code has it, too.
pub(super) fn keep(s: &mut Selector<'_>) -> Done {
    s.keep_instruction();
    s.count_uses(s.at);
    Ok(())
}

/// A call. A function of the same text is called by its name. Where one lies that a pointer names is in a bank of the kernel's, from which
/// the pointer is an offset; the address of one that lies elsewhere is in a bank that the driver fills, where the name says. The call itself
/// stays until registers are known.
pub(super) fn call(s: &mut Selector<'_>) -> Done {
    // The ABI hands results back in general registers.
    let given_back = &s.func.operands(s.at)[..s.result_count()];
    let general = |value| s.func.value_type(value).class() == Class::R;
    if !given_back
        .iter()
        .filter_map(|result| result.as_value())
        .all(general)
    {
        return Err(s.unsupported());
    }
    // A linker's code names its callee, or has its whole address.
    if s.func.attributes.relocatable {
        return keep(s);
    }
    let abi = s.machine.abi;
    let (place, bank) = match s.operand(0) {
        Operand::Symbol { symbol, .. } if is_near(s.func.symbol_name(symbol)) => return keep(s),
        Operand::Symbol { symbol, .. } => {
            let low = Operand::Symbol {
                symbol,
                part: SymbolPart::Low,
                addend: 0,
            };
            (s.in_register(low.into())?, abi.address_bank)
        }
        // A pointer is a place in the bank, whatever its width: the low word says all.
        pointer => {
            let is_pair = pointer
                .as_value()
                .is_some_and(|value| s.func.value_type(value) == Type::R2);
            let low = match is_pair {
                true => s.words_of(pointer)[0],
                false => pointer.into(),
            };
            (s.in_register(low)?, abi.pointer_bank)
        }
    };
    let callee = s.temporary(Type::R2);
    let from = Operand::Const {
        mods: SourceMods::NONE,
        bank,
        offset: 0,
        index: Some(place.into()).into(),
    };
    s.emit(Op::LDC, &[(name::SIZE, value::_64)], sources![callee, from])?;
    let results = s.result_count();
    let mut operands: Vec<Operand> = (0..results).map(|index| s.result(index)).collect();
    operands.push(callee.into());
    let arguments = s.func.operands(s.at)[results + 1..].to_vec();
    operands.extend(arguments);
    if let Operand::Symbol { symbol, .. } = s.operand(0) {
        operands.push(Operand::Symbol {
            symbol,
            part: SymbolPart::Whole,
            addend: 0,
        });
    }
    let mods = AbstractMods::NONE;
    let inst = s
        .func
        .create_abstract(AbstractOp::Call, mods, results, &operands);
    s.insert(inst);
    Ok(())
}

/// Taking a pair apart is done once for all readers.
pub(super) fn split(s: &mut Selector<'_>) -> Done {
    let Some(whole) = s.operand(0).as_value() else {
        return Err(s.broken("only a value is taken apart"));
    };
    let words = s.result_count() == 2 && s.func.value_type(whole) == Type::R2;
    if !words {
        return keep(s);
    }
    let parts: Vec<Value> = s.func.operands(s.at)[..2]
        .iter()
        .filter_map(|operand| operand.as_value())
        .collect();
    let inst = s.at;
    match s.known_words(whole) {
        Some(known) if known.iter().all(|word| word.as_value().is_some()) => {
            for (part, word) in parts.into_iter().zip(known) {
                if let Some(word) = word.as_value() {
                    s.rename(part, word);
                }
            }
        }
        Some(known) => {
            for (part, word) in parts.into_iter().zip(known) {
                match word.as_value() {
                    Some(word) => s.rename(part, word),
                    None if s.is_wanted(part) => s.copy(part, word.into())?,
                    None => {}
                }
            }
        }
        None => {
            s.keep_instruction();
            s.adopt_split(inst, whole);
        }
    }
    Ok(())
}

pub(super) fn mov(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let operand = s.operand(0);
    let Some(result) = s.result(0).as_value() else {
        return Ok(());
    };
    if let Some(value) = operand.as_value().filter(|_| operand.mods().is_empty()) {
        s.rename(result, value);
        return Ok(());
    }
    match scalar {
        Scalar::Pred => {
            let source = s.predicate_of(operand);
            s.copy_predicate(result.into(), source)
        }
        Scalar::B64 => match operand {
            Operand::Const { offset, index, .. } if offset % 8 == 0 || index.get().is_some() => {
                let from = with_index(operand);
                s.emit(Op::LDC, &[(name::SIZE, value::_64)], sources![result, from])?;
                Ok(())
            }
            _ => {
                let [low, high] = s.words_of(operand);
                s.define_pair(result, low, high)
            }
        },
        Scalar::B128 => Err(s.unsupported()),
        _ => {
            let source = s.word_of(operand);
            let source = match source.operand {
                Operand::Const { .. } => s.through_register(source, 1)?,
                _ => source,
            };
            match source.operand.as_value() {
                Some(value) => {
                    s.rename(result, value);
                    Ok(())
                }
                None => s.copy(result, source),
            }
        }
    }
}

/// What a register of the source has: a copy of its own, which stays for debuggers.
pub(super) fn name(s: &mut Selector<'_>) -> Done {
    let operand = s.operand(0);
    // Whether somebody reads it or not.
    let result = s.func.operands(s.at).first().copied();
    let result = result.unwrap_or(Operand::None);
    match s.modifier()? {
        Scalar::Pred => {
            let source = s.predicate_of(operand);
            s.copy_predicate(result, source)
        }
        _ => {
            let source = s.word_of(operand);
            match result.as_value() {
                Some(result) => s.copy(result, source),
                None => Ok(()),
            }
        }
    }
}

/// An operation that only computes, under a guard: computed in all lanes, chosen by the guard.
pub(super) fn computed_under_guard(s: &mut Selector<'_>, rule: Rule) -> Done {
    let guard = s.guard_source(s.func.inst(s.at).guard());
    let Some(predicate) = guard.reg() else {
        return Err(s.broken("a guard without a predicate"));
    };
    let mods = match guard.is_negated() {
        true => SourceMods::NOT,
        false => SourceMods::NONE,
    };
    let chosen = Operand::Reg {
        reg: predicate,
        mods,
    };
    let results = s.func.result_count(s.at);
    let defined = s.func.operands(s.at)[..results].to_vec();
    let kept: Vec<Operand> = s.func.kept(s.at).to_vec();
    let mut choices = Vec::new();
    let mut place = 0;
    for (index, operand) in defined.iter().enumerate() {
        if operand.as_value().is_none() {
            continue;
        }
        let keep = kept.get(place).copied().unwrap_or(Operand::None);
        place += 1;
        if let Some((value, temporary)) = s.redirect(index) {
            // What one instruction keeps is there before it.
            let word = (s.func.value_type(value) == WORD).then(|| s.word_of(keep));
            choices.push((value, temporary, keep, word));
        }
    }
    rule(s)?;
    for (value, temporary, keep, word) in choices {
        let ty = s.func.value_type(value);
        match (ty.class(), ty.len()) {
            (orias_ori::Class::P, _) => {
                // The new one where the guard holds, else the kept one.
                let table = Operand::imm(0xf0 & 0xaa | 0xcc & !0xaa & 0xff);
                let kept = s.predicate_of(keep);
                let operands =
                    sources![value, pt(), temporary, kept, chosen, table, Operand::imm(0)];
                s.emit(Op::PLOP3, &[], operands)?;
            }
            (orias_ori::Class::R, 1) => {
                let kept = word.unwrap_or_else(|| s.word_of(keep));
                if !s.keep_in_place(value, temporary, kept, guard) {
                    s.choose_to(value.into(), temporary.into(), kept, chosen.into())?;
                }
            }
            (orias_ori::Class::R, 2) => {
                let new = s.words_of(temporary.into());
                let kept = s.words_of(keep);
                let low = s.choose(new[0], kept[0], chosen.into())?;
                let high = s.choose(new[1], kept[1], chosen.into())?;
                s.define_pair(value, low.into(), high.into())?;
            }
            _ => return Err(s.unsupported()),
        }
    }
    Ok(())
}

/// How a special register is read.
enum Read {
    /// By S2R, some bits of it: first bit and how many.
    Slow(u8, Option<(u32, u32)>),
    /// By CS2R, which takes a known time.
    Fast(u8),
}

fn read(special: Special) -> Option<Read> {
    Some(match special {
        Special::TidX => Read::Slow(register::TID_X, None),
        Special::TidY => Read::Slow(register::TID_Y, None),
        Special::TidZ => Read::Slow(register::TID_Z, None),
        Special::CtaidX => Read::Slow(register::CTAID_X, None),
        Special::CtaidY => Read::Slow(register::CTAID_Y, None),
        Special::CtaidZ => Read::Slow(register::CTAID_Z, None),
        Special::LaneId => Read::Slow(register::LANEID, None),
        Special::WarpId => Read::Slow(register::VIRTID, Some((8, 7))),
        Special::NwarpId => Read::Slow(register::VIRTCFG, Some((8, 8))),
        Special::SmId => Read::Slow(register::VIRTUALSMID, None),
        Special::LanemaskEq => Read::Slow(register::EQMASK, None),
        Special::LanemaskLe => Read::Slow(register::LEMASK, None),
        Special::LanemaskLt => Read::Slow(register::LTMASK, None),
        Special::LanemaskGe => Read::Slow(register::GEMASK, None),
        Special::LanemaskGt => Read::Slow(register::GTMASK, None),
        Special::ClusterCtarank => Read::Slow(register::CGA_CTA_ID, None),
        Special::Clock | Special::Clock64 => Read::Fast(register::CLOCKLO),
        Special::ClockHi => Read::Fast(register::CLOCKHI),
        Special::GlobalTimer | Special::GlobalTimerLo => Read::Fast(register::GLOBALTIMERLO),
        Special::GlobalTimerHi => Read::Fast(register::GLOBALTIMERHI),
        Special::Pm0 => Read::Fast(register::PM0),
        Special::Pm1 => Read::Fast(register::PM1),
        Special::Pm2 => Read::Fast(register::PM2),
        Special::Pm3 => Read::Fast(register::PM3),
        Special::Pm4 => Read::Fast(register::PM4),
        Special::Pm5 => Read::Fast(register::PM5),
        Special::Pm6 => Read::Fast(register::PM6),
        Special::Pm7 => Read::Fast(register::PM7),
        _ => return None,
    })
}

pub(super) fn special(s: &mut Selector<'_>) -> Done {
    let special: Special = s.modifier()?;
    let wide = s.op() == Some(AbstractOp::Sreg64);
    let result = s.result(0);
    let bank = s.constants.bank;
    if wide {
        let offset = match special {
            Special::GridId => Some(s.constants.grid_number),
            Special::CurrentGraphExec => Some(s.constants.graph),
            _ => None,
        };
        if let Some(offset) = offset {
            let from = with_index(Operand::constant(bank, offset));
            s.emit_guarded(Op::LDC, &[(name::SIZE, value::_64)], sources![result, from])?;
            return Ok(());
        }
    } else if let Some(offset) = s.special_constant(s.at) {
        let from = with_index(Operand::constant(bank, offset));
        s.emit_guarded(Op::LDC, &[], sources![result, from])?;
        return Ok(());
    }
    match special {
        Special::ReservedSmemBegin | Special::ReservedSmemCap if !wide => {
            let bytes = match special {
                Special::ReservedSmemCap => s.constants.reserved_shared,
                _ => 0,
            };
            let all = Operand::imm(0xf);
            s.emit_guarded(Op::MOV, &[], sources![result, Source::imm(bytes), all])?;
            return Ok(());
        }
        Special::TotalSmemSize if !wide => {
            let size = read_word(s, register::SMEMSZ)?;
            let over = Operand::constant(bank, s.constants.shared_overhead);
            let over = s.in_register(over.into())?;
            let minus = Source::from(over).negated().unwrap_or(over.into());
            s.emit_guarded(
                Op::IADD3,
                &[],
                sources![result, pt(), pt(), size, minus, rz()],
            )?;
            return Ok(());
        }
        Special::AggrSmemSize if !wide => {
            let size = read_word(s, register::SMEMSZ)?;
            let limit = Operand::constant(bank, s.constants.shared_limit);
            let mods = [(name::TYPE, value::U32)];
            s.emit_guarded(Op::VIMNMX, &mods, sources![result, size, limit, pt()])?;
            return Ok(());
        }
        _ => {}
    }
    let Some(how) = read(special) else {
        return Err(s.unsupported());
    };
    match how {
        Read::Slow(number, bits) if !wide => match bits {
            None => {
                let from = Operand::Special(number);
                s.emit_guarded(Op::S2R, &[], sources![result, from])?;
            }
            Some((first, count)) => {
                let word = read_word(s, number)?;
                let shifted = s.temporary(WORD);
                let mods = [
                    (name::DIR, value::R),
                    (name::TYPE, value::U32),
                    (name::PART, value::HI),
                ];
                s.emit(
                    Op::SHF,
                    &mods,
                    sources![shifted, rz(), Source::imm(first), word],
                )?;
                let mods = [(name::SIGN, value::U32)];
                s.emit_guarded(
                    Op::SGXT,
                    &mods,
                    sources![result, shifted, Source::imm(count)],
                )?;
            }
        },
        Read::Fast(number) => {
            let from = Operand::Special(number);
            let op = if wide { Op::CS2R } else { Op::CS2R_32 };
            s.emit_guarded(op, &[], sources![result, from])?;
        }
        Read::Slow(..) => return Err(s.unsupported()),
    }
    Ok(())
}

/// A special register, by its number, in a general one.
pub(super) fn read_word(s: &mut Selector<'_>, number: u8) -> Result<Value, PhaseError> {
    let from = Operand::Special(number);
    let value = s.temporary(WORD);
    s.emit(Op::S2R, &[], sources![value, from])?;
    Ok(value)
}

pub(super) fn environment(s: &mut Selector<'_>) -> Done {
    let Operand::Imm(number) = s.operand(0) else {
        return Err(s.broken("the register is not a number"));
    };
    let offset = match number.bits() as i32 {
        number @ 0..32 => s.constants.environment + 4 * number,
        number @ 32..38 => s.constants.record_tables + 4 * (number - 32),
        _ => return Err(s.broken("no such environment register")),
    };
    let from = with_index(Operand::constant(s.constants.bank, offset));
    s.emit(Op::LDC, &[], sources![s.result(0), from])?;
    Ok(())
}

/// The address of a name: in shared memory if it is one word, else in 64 bits.
pub(super) fn address_of(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let Operand::Symbol { symbol, addend, .. } = s.operand(0) else {
        return Err(s.broken("not a name"));
    };
    let part = |part| Operand::Symbol {
        symbol,
        part,
        addend,
    };
    if scalar == Scalar::B64 {
        return s.set_pair(
            0,
            part(SymbolPart::Low).into(),
            part(SymbolPart::High).into(),
        );
    }
    let start = s.shared(Shared::BlockBase);
    let name = s.in_register(part(SymbolPart::Low).into())?;
    s.emit(
        Op::IADD3,
        &[],
        sources![s.result(0), pt(), pt(), name, start, rz()],
    )?;
    Ok(())
}

/// The word where a window of generic addresses starts in its bank.
fn window(s: &Selector<'_>, space: Space) -> Option<[Operand; 2]> {
    let offset = match space {
        Space::Local => s.constants.local_window,
        Space::Const => s.constants.constant_window,
        Space::Param => s.constants.param_window,
        _ => return None,
    };
    Some([0, 4].map(|more| Operand::constant(s.constants.bank, offset + more)))
}

pub(super) fn to_generic(s: &mut Selector<'_>) -> Done {
    let space: Space = s.modifier()?;
    let scalar: Scalar = s.modifier()?;
    if scalar.bits() != 64 {
        return Err(s.unsupported());
    }
    match space {
        Space::Global | Space::Generic => {
            let [low, high] = s.words(0);
            s.set_pair(0, low, high)
        }
        Space::Shared | Space::SharedCluster => {
            let [low, _] = s.words(0);
            let high = s.shared(Shared::GenericWindow);
            s.set_pair(0, low, high.into())
        }
        Space::Local | Space::Const | Space::Param => {
            let Some(start) = window(s, space) else {
                return Err(s.unsupported());
            };
            let [low, high] = s.words(0);
            let carry = s.temporary(Type::P);
            let sum = s.temporary(WORD);
            s.emit(
                Op::IADD3,
                &[],
                sources![sum, carry, pt(), low, start[0], rz()],
            )?;
            let high = match space {
                Space::Local => Source::from(rz()),
                _ => high,
            };
            let high = s.add_with_carry(high, start[1].into(), false, carry.into(), pt())?;
            s.set_pair(0, sum.into(), high.into())
        }
    }
}

pub(super) fn from_generic(s: &mut Selector<'_>) -> Done {
    let space: Space = s.modifier()?;
    let scalar: Scalar = s.modifier()?;
    if scalar.bits() != 64 {
        return Err(s.unsupported());
    }
    let [low, high] = s.words(0);
    match space {
        Space::Global | Space::Generic => s.set_pair(0, low, high),
        Space::Shared | Space::SharedCluster => s.set_pair(0, low, rz().into()),
        Space::Local | Space::Const | Space::Param => {
            let Some(start) = window(s, space) else {
                return Err(s.unsupported());
            };
            let first = s.in_register(start[0].into())?;
            let minus = Source::from(first).negated().unwrap_or(first.into());
            let carry = s.temporary(Type::P);
            let difference = s.temporary(WORD);
            let operands = sources![difference, carry, pt(), low, minus, rz()];
            s.emit(Op::IADD3, &[], operands)?;
            if space == Space::Local {
                return s.set_pair(0, difference.into(), rz().into());
            }
            let high = s.add_with_carry(high, start[1].into(), true, carry.into(), pt())?;
            s.set_pair(0, difference.into(), high.into())
        }
    }
}

/// Whether an address lies between the first and the last of the parameter window.
fn is_param(s: &mut Selector<'_>) -> Done {
    let bank = s.constants.bank;
    let [first, last] = [s.constants.param_window, s.constants.param_window_last]
        .map(|offset| [0, 4].map(|more| Source::from(Operand::constant(bank, offset + more))));
    let address = s.words(0);
    let above = wide::compare_words(s, value::GE, Scalar::U64, address, first)?;
    let low = s.compare(value::LE, value::U32, address[0], last[0])?;
    let mods = [(name::CMP, value::LE), (name::SIGN, value::U32)];
    let operands = sources![s.result(0), pt(), address[1], last[1], above, low];
    s.emit(Op::ISETP_EX, &mods, operands)?;
    Ok(())
}

pub(super) fn is_in_space(s: &mut Selector<'_>) -> Done {
    let space = match s.modifier::<Space>()? {
        Space::Param => return is_param(s),
        Space::Global => value::G,
        Space::Local => value::L,
        Space::Shared => value::S,
        Space::SharedCluster => value::D,
        _ => return Err(s.unsupported()),
    };
    let base = s.pair(0);
    let base = s.through_pair(base)?;
    let Some(base) = base.operand.reg() else {
        return Err(s.broken("no address"));
    };
    let address = s.func.create_address(orias_ori::Address::base(base, 0));
    let mods = [(name::E, value::E), (name::SPACE, space)];
    s.emit(Op::QSPC, &mods, sources![s.result(0), rz(), address])?;
    Ok(())
}
