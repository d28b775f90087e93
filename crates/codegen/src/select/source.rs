//! Sources: what an operand reads once definitions that cost nothing are looked through.
//!
//! A constant, a kernel parameter, a launch dimension, a negation can stand in the place of the value that was made of it,
//! if the instruction has a form for it. So a [`Source`] is two operands: the one that would be best, and the register that
//! holds the same where the best does not fit.

use super::selector::{Selector, not_pt, pt, rz};
use orias_ori::operation::{self, Ftz, Order, Permute, Sat, Scalar, Space, Special, Vector};
use orias_ori::{
    AbstractOp, Class, Function, Guard, Inst, Operand, SourceMods, Symbol, SymbolPart, Type, Value,
};

/// How many definitions are looked through at most.
const DEPTH: usize = 8;

/// The word behind the parameters that belongs to a name, for a place that takes a word of a constant bank only.
pub(super) fn named_word(symbol: Symbol) -> Operand {
    Operand::Symbol {
        symbol,
        part: SymbolPart::Whole,
        addend: 0,
    }
}

/// An operand, and the register to read if no form takes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// What is read.
    pub(super) operand: Operand,
    /// A register that holds the same.
    pub(super) register: Option<Operand>,
}

impl From<Operand> for Source {
    fn from(operand: Operand) -> Source {
        Source {
            operand,
            register: None,
        }
    }
}

impl From<Value> for Source {
    fn from(value: Value) -> Source {
        Operand::from(value).into()
    }
}

impl Source {
    /// A 32-bit pattern.
    pub(super) fn imm(bits: u32) -> Source {
        match bits {
            0 => rz().into(),
            bits => Operand::imm(u64::from(bits)).into(),
        }
    }

    /// The pattern, if it is known.
    pub(super) fn constant(self) -> Option<u64> {
        match self.operand {
            Operand::Imm(imm) => Some(imm.bits()),
            operand if operand == rz() => Some(0),
            _ => None,
        }
    }

    /// Whether it always reads zero.
    pub(super) fn is_zero(self) -> bool {
        self.constant() == Some(0)
    }

    /// Whether it is a register as it stands.
    pub(super) fn is_register(self) -> bool {
        self.operand.reg().is_some()
    }

    /// Whether it can be put into a register.
    pub(super) fn can_move(self, func: &Function) -> bool {
        match self.operand {
            Operand::Imm(_) | Operand::Const { .. } | Operand::Symbol { .. } => true,
            Operand::Reg { reg, .. } => {
                self.register.is_some()
                    || reg
                        .value()
                        .is_some_and(|value| func.value_type(value).class() == Class::UR)
            }
            _ => false,
        }
    }

    /// The same with the sign changed where the instruction reads it.
    pub(super) fn negated(self) -> Option<Source> {
        let mods = self.operand.mods();
        let flipped = if mods.contains(SourceMods::NEGATE) {
            mods.without(SourceMods::NEGATE)
        } else {
            mods.with(SourceMods::NEGATE)
        };
        Some(Source {
            operand: self.operand.with_mods(flipped)?,
            register: None,
        })
    }
}

impl Selector<'_> {
    /// Source `index` of the instruction being selected: one word.
    pub(super) fn word(&mut self, index: usize) -> Source {
        self.word_of(self.operand(index))
    }

    /// What one-word `operand` reads.
    pub(super) fn word_of(&mut self, operand: Operand) -> Source {
        let Some(value) = operand.as_value() else {
            return match operand {
                Operand::Imm(imm) => Source::imm(imm.bits() as u32),
                other => other.into(),
            };
        };
        let operand = self.look_through(value);
        Source {
            operand,
            register: (operand != Operand::from(value)).then(|| value.into()),
        }
    }

    /// What one-word `value` is made of, if that can be read in its place.
    fn look_through(&mut self, value: Value) -> Operand {
        let mut value = value;
        for _ in 0..DEPTH {
            let Some((inst, op)) = self.definition(value) else {
                break;
            };
            let sources = &self.func.operands(inst)[self.func.result_count(inst)..];
            match op {
                AbstractOp::Undef => return rz(),
                AbstractOp::Mov => match sources.first() {
                    Some(&Operand::Imm(imm)) => return Source::imm(imm.bits() as u32).operand,
                    Some(&constant @ Operand::Const { .. }) => return constant,
                    Some(operand) => match operand.as_value() {
                        Some(next) => value = next,
                        None => break,
                    },
                    None => break,
                },
                AbstractOp::Ld | AbstractOp::Sreg => {
                    return self.bank_word(inst).unwrap_or(value.into());
                }
                AbstractOp::Split => {
                    let Some(whole) = sources.first().and_then(|whole| whole.as_value()) else {
                        break;
                    };
                    let place = self
                        .func
                        .operands(inst)
                        .iter()
                        .position(|operand| operand.as_value() == Some(value));
                    let pair = self.func.value_type(whole) == Type::R2;
                    let known = match place.filter(|_| pair) {
                        Some(place) => self.known_words(whole).map(|words| words[place]),
                        None => None,
                    };
                    match known {
                        Some(operand) => match operand.as_value() {
                            Some(next) => value = next,
                            None => return operand,
                        },
                        None => break,
                    }
                }
                _ => break,
            }
        }
        value.into()
    }

    /// The word of a constant bank that `inst` reads, if it is one.
    fn bank_word(&self, inst: Inst) -> Option<Operand> {
        let constants = self.constants;
        let (bank, offset, bytes) = match self.func.opcode(inst).as_abstract()? {
            AbstractOp::Sreg => (constants.bank, self.special_constant(inst)?, 4),
            AbstractOp::Ld => self.bank_access(inst)?,
            _ => return None,
        };
        (bytes == 4 && offset % 4 == 0).then(|| Operand::constant(bank, offset))
    }

    /// Where in the bank of kernel constants a special register is, if it is there.
    pub(super) fn special_constant(&self, inst: Inst) -> Option<i32> {
        let constants = self.constants;
        Some(match self.func.modifier::<Special>(inst)? {
            Special::NtidX => constants.block_threads[0],
            Special::NtidY => constants.block_threads[1],
            Special::NtidZ => constants.block_threads[2],
            Special::NctaidX => constants.grid_blocks[0],
            Special::NctaidY => constants.grid_blocks[1],
            Special::NctaidZ => constants.grid_blocks[2],
            Special::NsmId => constants.multiprocessors,
            Special::NclusterIdX => constants.grid_clusters[0],
            Special::NclusterIdY => constants.grid_clusters[1],
            Special::NclusterIdZ => constants.grid_clusters[2],
            Special::ClusterNctaidX => constants.cluster_blocks[0],
            Special::ClusterNctaidY => constants.cluster_blocks[1],
            Special::ClusterNctaidZ => constants.cluster_blocks[2],
            Special::ClusterNctarank => constants.cluster_size,
            Special::IsExplicitCluster => constants.explicit_cluster,
            Special::DynamicSmemSize => constants.dynamic_shared,
            Special::ReservedSmemEnd => constants.reserved_shared_end,
            Special::ReservedSmemOffset1 => constants.reserved_shared_second,
            Special::ClusterScaleX => constants.cluster_scales[0],
            Special::ClusterScaleY => constants.cluster_scales[1],
            Special::ClusterScaleZ => constants.cluster_scales[2],
            _ => return None,
        })
    }

    /// Bank, offset in it and size of a load of a parameter, or of the program's constants, at a known place.
    fn bank_access(&self, inst: Inst) -> Option<(u8, i32, u32)> {
        let results = self.func.result_count(inst);
        let (bank, start) = match self.func.modifier::<Space>(inst)? {
            Space::Param => (self.constants.bank, self.constants.params),
            Space::Const => (self.constants.user_bank, 0),
            _ => return None,
        };
        let known = self.func.opcode(inst).as_abstract() == Some(AbstractOp::Ld)
            && self.func.modifier::<Vector>(inst) == Some(Vector::V1)
            && self.func.modifier::<Order>(inst) == Some(Order::Weak);
        let Operand::Address(address) = self.func.operands(inst)[results] else {
            return None;
        };
        let address = self.func.address(address);
        let fixed = address.base.get().is_none() && address.symbol.is_none();
        if !known || !fixed {
            return None;
        }
        let bits = self.func.modifier::<Scalar>(inst)?.bits();
        let offset = start.checked_add(address.offset)?;
        let near = i16::try_from(offset).is_ok_and(|offset| offset >= 0);
        near.then_some((bank, offset, u32::from(bits) / 8))
    }

    /// The word behind the parameters that `value` is loaded from, where that has a name.
    pub(super) fn named_parameter(&self, value: Value) -> Option<Operand> {
        let (inst, op) = self.definition(value)?;
        let known = op == AbstractOp::Ld
            && self.func.modifier::<Space>(inst) == Some(Space::Param)
            && self.func.modifier::<Scalar>(inst) == Some(Scalar::B32);
        if !known {
            return None;
        }
        let place = self.func.operands(inst)[self.func.result_count(inst)];
        let Operand::Address(address) = place else {
            return None;
        };
        let address = self.func.address(address);
        let fixed = address.base.get().is_none() && address.offset == 0;
        let symbol = address.symbol.expand().filter(|_| fixed)?;
        Some(named_word(symbol))
    }

    /// Source `index` of the instruction being selected as two words: low, high.
    pub(super) fn words(&mut self, index: usize) -> [Source; 2] {
        self.words_of(self.operand(index))
    }

    /// The two words of a 64-bit operand: low, high.
    pub(super) fn words_of(&mut self, operand: Operand) -> [Source; 2] {
        match operand {
            Operand::Imm(imm) => [
                Source::imm(imm.bits() as u32),
                Source::imm((imm.bits() >> 32) as u32),
            ],
            Operand::Const { .. } => const_words(operand).map(Source::from),
            _ => match operand.as_value() {
                Some(value) => self.words_of_value(value),
                None => [operand.into(), operand.into()],
            },
        }
    }

    fn words_of_value(&mut self, value: Value) -> [Source; 2] {
        match self.known_words(value) {
            Some(words) => {
                let held = words.map(|operand| operand.reg().is_some());
                let sources = words.map(Source::from);
                if held == [true, true] {
                    return sources.map(|source| self.word_of(source.operand));
                }
                // Where a word must be in a register after all, it is read from the pair.
                sources
            }
            None => self.split_pair(value).map(Source::from),
        }
    }

    /// The words a pair is made of, if its definition tells.
    pub(super) fn known_words(&self, value: Value) -> Option<[Operand; 2]> {
        let mut value = value;
        for _ in 0..DEPTH {
            let (inst, op) = self.definition(value)?;
            let sources = &self.func.operands(inst)[self.func.result_count(inst)..];
            match op {
                AbstractOp::Undef => return Some([rz(), rz()]),
                AbstractOp::Mov => match sources.first()? {
                    Operand::Imm(imm) => {
                        let words = [imm.bits() as u32, (imm.bits() >> 32) as u32];
                        return Some(words.map(|word| Source::imm(word).operand));
                    }
                    constant @ Operand::Const { .. } => return Some(const_words(*constant)),
                    operand => value = operand.as_value()?,
                },
                AbstractOp::Collect => {
                    let both: Vec<Operand> = sources
                        .iter()
                        .copied()
                        .filter(|operand| {
                            operand
                                .as_value()
                                .is_some_and(|value| self.func.value_type(value) == Type::R)
                        })
                        .collect();
                    return <[Operand; 2]>::try_from(both).ok();
                }
                AbstractOp::Cvt => {
                    let to = self.func.modifier::<Scalar>(inst)?;
                    let from = self
                        .func
                        .modifier::<orias_ori::operation::SourceType>(inst)?;
                    let zero_extends = matches!(to, Scalar::U64 | Scalar::S64)
                        && Scalar::from(from) == Scalar::U32;
                    let low = sources.first()?.as_value()?;
                    return zero_extends.then(|| [low.into(), rz()]);
                }
                AbstractOp::Ld => {
                    let (bank, offset, bytes) = self.bank_access(inst)?;
                    let whole = Operand::constant(bank, offset);
                    return (bytes == 8 && offset % 4 == 0).then(|| const_words(whole));
                }
                _ => return None,
            }
        }
        None
    }

    /// Source `index` of the instruction being selected as a pair of registers, a constant of 64 bits, or an immediate.
    pub(super) fn pair(&mut self, index: usize) -> Source {
        self.pair_of(self.operand(index))
    }

    /// What 64-bit `operand` reads.
    pub(super) fn pair_of(&mut self, operand: Operand) -> Source {
        let Some(value) = operand.as_value() else {
            return match operand {
                Operand::Imm(imm) if imm.bits() == 0 => rz().into(),
                other => other.into(),
            };
        };
        let register = Some(Operand::from(value));
        let Some((inst, op)) = self.definition(value) else {
            return value.into();
        };
        let first = self.func.operands(inst).get(1).copied();
        match op {
            AbstractOp::Undef => rz().into(),
            AbstractOp::Mov => match first {
                Some(Operand::Imm(imm)) if imm.bits() == 0 => rz().into(),
                Some(operand @ (Operand::Imm(_) | Operand::Const { .. })) => {
                    Source { operand, register }
                }
                Some(operand) if operand.as_value().is_some() => operand.into(),
                _ => value.into(),
            },
            AbstractOp::Ld => match self.bank_access(inst) {
                Some((bank, offset, 8)) if offset % 8 == 0 => Source {
                    operand: Operand::constant(bank, offset),
                    register,
                },
                _ => value.into(),
            },
            _ => value.into(),
        }
    }

    /// Source `index` as a predicate.
    pub(super) fn predicate(&mut self, index: usize) -> Source {
        self.predicate_of(self.operand(index))
    }

    /// What predicate `operand` reads; nothing reads true.
    pub(super) fn predicate_of(&mut self, operand: Operand) -> Source {
        let mut negated = operand.mods().contains(SourceMods::NOT);
        let mut operand = operand;
        for _ in 0..DEPTH {
            match operand {
                Operand::None => return pt().into(),
                Operand::Imm(imm) => {
                    let truth = (imm.bits() & 1 == 1) != negated;
                    return if truth { pt().into() } else { not_pt().into() };
                }
                _ => {}
            }
            let Some(value) = operand.as_value() else {
                break;
            };
            let Some((inst, op)) = self.definition(value) else {
                break;
            };
            let Some(&next) = self.func.operands(inst).get(1) else {
                break;
            };
            match op {
                AbstractOp::Mov => {}
                AbstractOp::Not => negated = !negated,
                AbstractOp::Undef => return not_pt().into(),
                _ => break,
            }
            negated ^= next.mods().contains(SourceMods::NOT);
            operand = next;
        }
        let mods = if negated {
            SourceMods::NOT
        } else {
            SourceMods::NONE
        };
        operand.with_mods(mods).unwrap_or(operand).into()
    }

    /// The guard with negations of its predicate taken in.
    pub(super) fn guard_source(&mut self, guard: Guard) -> Guard {
        let Some(reg) = guard.reg() else {
            return guard;
        };
        let operand = Operand::from(reg);
        let source = self.predicate_of(operand).operand;
        let negated = source.mods().contains(SourceMods::NOT) != guard.is_negated();
        match source.reg() {
            // A constant predicate keeps its register: the guard stays what it was.
            Some(found) if found.value().is_some() => match negated {
                true => Guard::unless(found),
                false => Guard::when(found),
            },
            _ => guard,
        }
    }

    /// A single-precision source: negation and absolute value are read as modifiers.
    ///
    /// A change of sign that flushes subnormals goes into an operation that does so, too.
    pub(super) fn float(&mut self, operand: Operand, ftz: bool, scalar: Scalar) -> Source {
        let wide = scalar == Scalar::F64;
        let plain = |selector: &mut Self, operand| match wide {
            true => selector.pair_of(operand),
            false => selector.word_of(operand),
        };
        let mut mods = SourceMods::NONE;
        let mut at = operand;
        for _ in 0..DEPTH {
            let Some(value) = at.as_value() else { break };
            let Some((inst, op)) = self.definition(value) else {
                break;
            };
            let same = self.func.modifier::<Scalar>(inst) == Some(scalar);
            let flushes = self.func.modifier::<Ftz>(inst) == Some(Ftz::Ftz);
            if !same || flushes && !ftz {
                break;
            }
            match op {
                AbstractOp::Fneg if mods.contains(SourceMods::ABSOLUTE) => {}
                AbstractOp::Fneg if mods.contains(SourceMods::NEGATE) => {
                    mods = mods.without(SourceMods::NEGATE);
                }
                AbstractOp::Fneg => mods = mods.with(SourceMods::NEGATE),
                AbstractOp::Fabs => mods = mods.with(SourceMods::ABSOLUTE),
                _ => break,
            }
            match self.func.operands(inst).get(1) {
                Some(&next) => at = next,
                None => break,
            }
        }
        if mods.is_empty() {
            return plain(self, at);
        }
        let source = plain(self, at);
        let register = operand.as_value().map(Operand::from);
        match source.operand {
            // A known pattern is changed here and now.
            Operand::Imm(imm) => {
                let sign = if wide { 1 << 63 } else { 1 << 31 };
                let mut bits = imm.bits();
                if mods.contains(SourceMods::ABSOLUTE) {
                    bits &= !sign;
                }
                if mods.contains(SourceMods::NEGATE) {
                    bits ^= sign;
                }
                Source {
                    operand: Operand::imm(bits),
                    register,
                }
            }
            inner => match inner.with_mods(mods) {
                Some(operand) => Source { operand, register },
                None => plain(self, operand),
            },
        }
    }

    /// Whether the bits of `operand` above those of `scalar` are known to be its extension.
    pub(super) fn is_extended(&self, operand: Operand, scalar: Scalar) -> bool {
        let Some((inst, op)) = operand.as_value().and_then(|value| self.definition(value)) else {
            return false;
        };
        // Elements of a vector are packed: the others are in the bits above.
        let single = self.func.modifier::<Vector>(inst) == Some(Vector::V1);
        let of_half = |s: &Self, inst: Inst| {
            let half = |scalar: Scalar| matches!(scalar, Scalar::F16 | Scalar::Bf16);
            let from = s.func.modifier::<operation::SourceType>(inst);
            let plain = s.func.modifier::<Sat>(inst) == Some(Sat::Wrap);
            plain
                && s.func.modifier::<Scalar>(inst).is_some_and(half)
                && from.is_some_and(|from| !half(from.into()))
        };
        let of = |wanted: Scalar| single && self.func.modifier::<Scalar>(inst) == Some(wanted);
        match (op, scalar) {
            (AbstractOp::Ld, Scalar::U16 | Scalar::B16) => {
                of(Scalar::U16) || of(Scalar::B16) || of(Scalar::U8) || of(Scalar::B8)
            }
            (AbstractOp::Ld, Scalar::S16) => of(Scalar::S16) || of(Scalar::S8) || of(Scalar::U8),
            (AbstractOp::Ld, Scalar::U8 | Scalar::B8) => of(Scalar::U8) || of(Scalar::B8),
            (AbstractOp::Ld, Scalar::S8) => of(Scalar::S8),
            // The machine's conversions to a half leave nothing above it; limits do.
            (AbstractOp::Cvt, Scalar::U16 | Scalar::B16) if of_half(self, inst) => true,
            (AbstractOp::Cvt, Scalar::S16 | Scalar::U16) => {
                let to = self.func.modifier::<Scalar>(inst);
                let from = self.func.modifier::<operation::SourceType>(inst);
                let plain = self.func.modifier::<Sat>(inst) == Some(Sat::Wrap);
                match from.map(Scalar::from).filter(|_| plain) {
                    Some(Scalar::U8) => matches!(
                        to,
                        Some(Scalar::U16 | Scalar::S16 | Scalar::U32 | Scalar::S32)
                    ),
                    Some(Scalar::S8) => {
                        matches!(to, Some(Scalar::S16 | Scalar::S32)) && scalar == Scalar::S16
                    }
                    _ => false,
                }
            }
            // Its upper bytes repeat the sign of the one below them.
            (AbstractOp::Prmt, Scalar::S16) => match self.func.operands(inst) {
                [_, _, _, Operand::Imm(select)]
                    if self.func.modifier::<Permute>(inst) == Some(Permute::Index) =>
                {
                    let byte = |at: u32| select.bits() >> (4 * at) & 0xf;
                    byte(2) == byte(1) | 8 && byte(3) == byte(1) | 8
                }
                _ => false,
            },
            // Numbers that are their own extensions.
            (AbstractOp::Selp | AbstractOp::And, Scalar::S16 | Scalar::U16 | Scalar::B16) => {
                let is_short = |operand: &Operand| match operand {
                    Operand::Imm(imm) => imm.bits() < 0x8000,
                    _ => false,
                };
                match (op, self.func.operands(inst)) {
                    (AbstractOp::Selp, [_, a, b, ..]) => is_short(a) && is_short(b),
                    (AbstractOp::And, [_, a, b]) => is_short(a) || is_short(b),
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

/// The words of a 64-bit constant.
fn const_words(operand: Operand) -> [Operand; 2] {
    match operand {
        Operand::Const {
            mods,
            bank,
            offset,
            index,
        } => [0, 4].map(|more| Operand::Const {
            mods,
            bank,
            offset: offset.wrapping_add(more),
            index,
        }),
        other => [other, other],
    }
}
