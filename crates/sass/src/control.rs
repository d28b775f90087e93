//! The control field of an instruction word: what the hardware's scheduler is told about it.
//!
//! | bits | field |
//! | --- | --- |
//! | 102–103 | performance-monitor predicate, 0 in ordinary code |
//! | 104 | not seen set in compiled code |
//! | 105–108 | stall: cycles before the warp may issue its next instruction |
//! | 109 | yield |
//! | 110–112 | write barrier set by this instruction, 7 for none |
//! | 113–115 | read barrier set by this instruction, 7 for none |
//! | 116–121 | barriers to wait for before issue |
//! | 122–125 | operand reuse flags |
//!
//! The text form is `[B0--3--:R1:W2:Y:S05]`: the wait mask by barrier number, the read barrier, the write barrier, the
//! yield bit and the stall, with `-` for what is absent. Reuse flags are not part of it: they are printed on the
//! operands they belong to. A non-zero performance-monitor field adds `:P` and its value.

use std::fmt;

/// A set over the six barriers of a warp.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct WaitMask(u8);

impl WaitMask {
    /// No barrier.
    pub const NONE: WaitMask = WaitMask(0);

    /// The set whose member `n` is bit `n` of `bits`; bits above the sixth do not exist and give `None`.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits < 64 {
            Some(WaitMask(bits))
        } else {
            None
        }
    }

    /// Member `n` is bit `n`.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether barrier `n` is waited for.
    #[must_use]
    pub const fn contains(self, barrier: Barrier) -> bool {
        self.0 >> barrier.0 & 1 == 1
    }

    /// The set with `barrier` added.
    #[must_use]
    pub const fn with(self, barrier: Barrier) -> Self {
        WaitMask(self.0 | 1 << barrier.0)
    }

    /// The members, lowest first.
    pub fn iter(self) -> impl Iterator<Item = Barrier> {
        (0..Barrier::COUNT)
            .map(Barrier)
            .filter(move |b| self.contains(*b))
    }
}

impl fmt::Debug for WaitMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(Barrier::index))
            .finish()
    }
}

/// One of the six counting barriers of a warp.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Barrier(u8);

impl Barrier {
    /// How many there are.
    pub const COUNT: u8 = 6;

    /// Barrier `index`, if there is one.
    #[must_use]
    pub const fn new(index: u8) -> Option<Self> {
        if index < Self::COUNT {
            Some(Barrier(index))
        } else {
            None
        }
    }

    /// Its number, 0 to 5.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0
    }
}

/// The control field. `Control::default()` stalls for nothing, sets and waits for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Control {
    stall: u8,
    /// Bit 109.
    pub yields: bool,
    /// The barrier released when the result is written.
    pub write_barrier: Option<Barrier>,
    /// The barrier released when the sources have been read.
    pub read_barrier: Option<Barrier>,
    /// Barriers that must be zero before this instruction issues.
    pub wait: WaitMask,
    reuse: u8,
    monitor: u8,
}

/// The first bit of the control field that [`Control`] holds.
pub(crate) const CONTROL_SHIFT: u32 = 102;
/// Every bit of the control field that [`Control`] holds.
pub(crate) const CONTROL_MASK: u128 = ((1 << 24) - 1) << CONTROL_SHIFT & !(1 << 104);

impl Control {
    /// Cycles before the warp may issue its next instruction, 0 to 15.
    #[must_use]
    pub const fn stall(self) -> u8 {
        self.stall
    }

    /// The same control field with another stall; `None` above 15.
    #[must_use]
    pub const fn with_stall(mut self, stall: u8) -> Option<Self> {
        if stall > 15 {
            return None;
        }
        self.stall = stall;
        Some(self)
    }

    /// The reuse flags: bit `n` is bit `122 + n` of the word. [`crate::Place::reuse`] says which operand owns which.
    #[must_use]
    pub const fn reuse(self) -> u8 {
        self.reuse
    }

    /// The same control field with other reuse flags; `None` if there is one beyond the fourth.
    #[must_use]
    pub const fn with_reuse(mut self, reuse: u8) -> Option<Self> {
        if reuse > 15 {
            return None;
        }
        self.reuse = reuse;
        Some(self)
    }

    /// The performance-monitor field (bits 102–103).
    #[must_use]
    pub const fn monitor(self) -> u8 {
        self.monitor
    }

    /// What is wrong with this combination, if anything: with the yield bit the stall is 1 to 11, and reuse flags need the
    /// yield bit (without it the same bits mean something else).
    pub const fn check(self) -> Result<(), ControlError> {
        if self.yields && (self.stall == 0 || self.stall > 11) {
            return Err(ControlError {
                field: "stall with the yield bit set",
                first_bit: 105,
                bits: 5,
                value: self.stall | 16,
            });
        }
        if !self.yields && self.reuse != 0 {
            return Err(ControlError {
                field: "reuse flags without the yield bit",
                first_bit: 122,
                bits: 4,
                value: self.reuse,
            });
        }
        Ok(())
    }

    /// The field at its place in an instruction word.
    #[must_use]
    pub fn to_bits(self) -> u128 {
        let barrier = |barrier: Option<Barrier>| u32::from(barrier.map_or(7, Barrier::index));
        let field = u32::from(self.monitor)
            | u32::from(self.stall) << 3
            | u32::from(self.yields) << 7
            | barrier(self.write_barrier) << 8
            | barrier(self.read_barrier) << 11
            | u32::from(self.wait.bits()) << 14
            | u32::from(self.reuse) << 20;
        u128::from(field) << CONTROL_SHIFT
    }

    /// Reads the field out of an instruction word. A barrier number 6 does not exist, and some combinations do not
    /// ([`Control::check`]): the error names the bits.
    pub fn from_bits(word: u128) -> Result<Self, ControlError> {
        let field = (word >> CONTROL_SHIFT) as u32;
        let at = |shift: u32, bits: u32| (field >> shift & ((1 << bits) - 1)) as u8;
        let barrier = |shift: u32, name: &'static str| match at(shift, 3) {
            7 => Ok(None),
            6 => Err(ControlError {
                field: name,
                first_bit: (CONTROL_SHIFT + shift) as u8,
                bits: 3,
                value: 6,
            }),
            index => Ok(Some(Barrier(index))),
        };
        let control = Control {
            monitor: at(0, 2),
            stall: at(3, 4),
            yields: at(7, 1) == 1,
            write_barrier: barrier(8, "write barrier")?,
            read_barrier: barrier(11, "read barrier")?,
            wait: WaitMask(at(14, 6)),
            reuse: at(20, 4),
        };
        control.check()?;
        Ok(control)
    }

    /// Reads the text form `[B0--3--:R1:W2:Y:S05]`. The error is the byte offset of what does not fit.
    pub fn from_text(text: &str) -> Result<Self, usize> {
        let bytes = text.as_bytes();
        let expect = |at: usize, byte: u8| {
            if bytes.get(at) == Some(&byte) {
                Ok(())
            } else {
                Err(at)
            }
        };
        let barrier = |at: usize| match bytes.get(at) {
            Some(b'-') => Ok(None),
            Some(digit @ b'0'..=b'5') => Ok(Some(Barrier(digit - b'0'))),
            _ => Err(at),
        };
        expect(0, b'[')?;
        expect(1, b'B')?;
        let mut control = Control::default();
        for index in 0..6u8 {
            let at = 2 + usize::from(index);
            match bytes.get(at) {
                Some(b'-') => {}
                Some(digit) if *digit == b'0' + index => {
                    control.wait = control.wait.with(Barrier(index));
                }
                _ => return Err(at),
            }
        }
        expect(8, b':')?;
        expect(9, b'R')?;
        control.read_barrier = barrier(10)?;
        expect(11, b':')?;
        expect(12, b'W')?;
        control.write_barrier = barrier(13)?;
        expect(14, b':')?;
        control.yields = match bytes.get(15) {
            Some(b'Y') => true,
            Some(b'-') => false,
            _ => return Err(15),
        };
        expect(16, b':')?;
        expect(17, b'S')?;
        let digit = |at: usize| match bytes.get(at) {
            Some(digit @ b'0'..=b'9') => Ok(digit - b'0'),
            _ => Err(at),
        };
        let stall = digit(18)? * 10 + digit(19)?;
        control = control.with_stall(stall).ok_or(18usize)?;
        let mut end = 20;
        if bytes.get(end) == Some(&b':') {
            expect(end + 1, b'P')?;
            control.monitor = match bytes.get(end + 2) {
                Some(digit @ b'1'..=b'3') => digit - b'0',
                _ => return Err(end + 2),
            };
            end += 3;
        }
        expect(end, b']')?;
        if bytes.len() > end + 1 {
            return Err(end + 1);
        }
        Ok(control)
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[B")?;
        for index in 0..6 {
            if self.wait.contains(Barrier(index)) {
                write!(f, "{index}")?;
            } else {
                f.write_str("-")?;
            }
        }
        for (name, barrier) in [("R", self.read_barrier), ("W", self.write_barrier)] {
            match barrier {
                Some(barrier) => write!(f, ":{name}{}", barrier.index())?,
                None => write!(f, ":{name}-")?,
            }
        }
        write!(
            f,
            ":{}:S{:02}",
            if self.yields { "Y" } else { "-" },
            self.stall
        )?;
        if self.monitor != 0 {
            write!(f, ":P{}", self.monitor)?;
        }
        f.write_str("]")
    }
}

/// A control field the machine does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the {field} (bits {first_bit}-{}) is {value}, which does not exist", first_bit + bits - 1)]
pub struct ControlError {
    /// Which field it is.
    pub field: &'static str,
    /// Where its bits start.
    pub first_bit: u8,
    /// How many there are.
    pub bits: u8,
    /// What is in them.
    pub value: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_text_read_back_equal() {
        for word in [
            0x000f_f000_0000_0800u128,
            0x000e_2200_0000_0800,
            0x148f_e400_0000_0006,
        ] {
            let word = word << 64;
            let control = Control::from_bits(word).expect("compiled code is valid");
            assert_eq!(control.to_bits(), word & CONTROL_MASK);
            let text = control.to_string();
            let read = Control::from_text(&text).expect("printed text reads back");
            assert_eq!(read.with_reuse(control.reuse()), Some(control), "{text}");
        }
    }

    #[test]
    fn the_text_form_names_what_is_waited_for_and_set() {
        let word = 0x002e_2200_0000_0800u128 << 64;
        let control = Control::from_bits(word).expect("valid");
        assert_eq!(control.to_string(), "[B-1----:R-:W0:Y:S01]");
    }

    #[test]
    fn a_barrier_that_does_not_exist_is_refused() {
        let word = 0x000d_a200_0000_0800u128 << 64;
        assert_eq!(
            Control::from_bits(word).map_err(|error| error.first_bit),
            Err(110)
        );
        assert_eq!(Control::from_text("[B------:R6:W-:-:S01]"), Err(10));
        assert_eq!(Control::from_text("[B------:R-:W-:-:S16]"), Err(18));
        assert_eq!(Control::from_text("[B------:R-:W-:-:S1"), Err(19));
    }
}
