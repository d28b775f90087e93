//! Control words: what the hardware is told about waiting, on each instruction of finished code.
//!
//! `[B0-2---:R1:W-:Y:S04]` reads: wait for barriers 0 and 2, then issue; count read barrier 1 until the sources have been
//! read; no write barrier; yield bit set; four cycles until the next instruction. The reuse flags are on the operands.
//!
//! Which words there are is the instruction set's knowledge: a [`ControlWord`] is the part of its [`sass::Control`] that
//! an instruction carries, in four bytes.

use orias_sass::{self as sass, Barrier};
use std::fmt;

/// The control fields of one instruction, packed as the instruction word has them; or none yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ControlWord(u32);

/// What a barrier field holds when the instruction sets none.
const NO_BARRIER: u32 = 7;

/// Where the fields start in an instruction word.
const FIRST_BIT: u32 = 105;

impl ControlWord {
    /// No control word yet.
    pub const NONE: ControlWord = ControlWord(u32::MAX);

    /// Waits for nothing, sets nothing, and lets the next instruction issue after one cycle.
    pub const PLAIN: ControlWord = ControlWord(1 | NO_BARRIER << 5 | NO_BARRIER << 8);

    const STALL: Field = Field(0, 4);
    const YIELD: Field = Field(4, 1);
    const WRITE: Field = Field(5, 3);
    const READ: Field = Field(8, 3);
    const WAIT: Field = Field(11, 6);

    /// Whether there is a control word.
    pub const fn is_some(self) -> bool {
        self.0 != u32::MAX
    }

    /// The control field of the instruction set, without reuse flags; the error names a combination that does not exist.
    /// There must be a control word.
    pub fn field(self) -> Result<sass::Control, sass::ControlError> {
        sass::Control::from_bits(u128::from(self.0) << FIRST_BIT)
    }

    /// Cycles until the warp's next instruction may issue: 0 to 15.
    pub const fn stall(self) -> u8 {
        ControlWord::STALL.get(self.0)
    }

    /// The bit usually called yield.
    pub const fn yields(self) -> bool {
        ControlWord::YIELD.get(self.0) != 0
    }

    /// The barrier that counts down when the results are written.
    pub const fn write_barrier(self) -> Option<Barrier> {
        Barrier::new(ControlWord::WRITE.get(self.0))
    }

    /// The barrier that counts down when the sources have been read.
    pub const fn read_barrier(self) -> Option<Barrier> {
        Barrier::new(ControlWord::READ.get(self.0))
    }

    /// The barriers that must be zero before the instruction issues, one bit each.
    pub const fn wait_mask(self) -> u8 {
        ControlWord::WAIT.get(self.0)
    }

    /// The same with another stall count, of which the low four bits count.
    #[must_use]
    pub const fn with_stall(self, cycles: u8) -> ControlWord {
        ControlWord(ControlWord::STALL.set(self.0, cycles as u32))
    }

    /// The same with the yield bit so.
    #[must_use]
    pub const fn with_yield(self, yields: bool) -> ControlWord {
        ControlWord(ControlWord::YIELD.set(self.0, yields as u32))
    }

    /// The same with another write barrier.
    #[must_use]
    pub const fn with_write_barrier(self, barrier: Option<Barrier>) -> ControlWord {
        ControlWord(ControlWord::WRITE.set(self.0, barrier_bits(barrier)))
    }

    /// The same with another read barrier.
    #[must_use]
    pub const fn with_read_barrier(self, barrier: Option<Barrier>) -> ControlWord {
        ControlWord(ControlWord::READ.set(self.0, barrier_bits(barrier)))
    }

    /// The same with another wait mask, of which the low six bits count.
    #[must_use]
    pub const fn with_wait_mask(self, mask: u8) -> ControlWord {
        ControlWord(ControlWord::WAIT.set(self.0, mask as u32))
    }

    /// Writes `[B0-2---:R1:W-:Y:S04]`; nothing where there is no control word.
    pub(crate) fn write(self, out: &mut String) {
        if !self.is_some() {
            return;
        }
        let digit = |number: u8| (b'0' + number) as char;
        out.push_str("[B");
        for number in 0..Barrier::COUNT {
            let waits = self.wait_mask() >> number & 1 != 0;
            out.push(if waits { digit(number) } else { '-' });
        }
        for (letter, barrier) in [(":R", self.read_barrier()), (":W", self.write_barrier())] {
            out.push_str(letter);
            out.push(barrier.map_or('-', |barrier| digit(barrier.index())));
        }
        out.push_str(if self.yields() { ":Y:S" } else { ":-:S" });
        out.push(digit(self.stall() / 10));
        out.push(digit(self.stall() % 10));
        out.push(']');
    }
}

/// What an instruction carries of a control field: its reuse flags are on the operands.
impl From<sass::Control> for ControlWord {
    fn from(control: sass::Control) -> ControlWord {
        let fields = (control.to_bits() >> FIRST_BIT) as u32;
        ControlWord(fields & ((1 << 17) - 1))
    }
}

/// A bit field: shift and width.
#[derive(Clone, Copy)]
struct Field(u32, u32);

impl Field {
    const fn mask(self) -> u32 {
        ((1 << self.1) - 1) << self.0
    }

    const fn get(self, word: u32) -> u8 {
        ((word & self.mask()) >> self.0) as u8
    }

    const fn set(self, word: u32, value: u32) -> u32 {
        word & !self.mask() | value << self.0 & self.mask()
    }
}

const fn barrier_bits(barrier: Option<Barrier>) -> u32 {
    match barrier {
        Some(barrier) => barrier.index() as u32,
        None => NO_BARRIER,
    }
}

impl Default for ControlWord {
    fn default() -> ControlWord {
        ControlWord::NONE
    }
}

impl fmt::Display for ControlWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

impl fmt::Debug for ControlWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_some() {
            fmt::Display::fmt(self, f)
        } else {
            f.write_str("none")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_disturb_each_other() {
        let word = ControlWord::PLAIN
            .with_stall(4)
            .with_yield(true)
            .with_wait_mask(0b101)
            .with_read_barrier(Barrier::new(1));
        assert_eq!(word.to_string(), "[B0-2---:R1:W-:Y:S04]");
        assert_eq!(word.write_barrier(), None);
        assert_eq!(word.with_read_barrier(None).read_barrier(), None);
        assert!(word.is_some() && !ControlWord::NONE.is_some());
    }

    #[test]
    fn words_and_their_texts_are_those_of_the_instruction_set() {
        for text in [
            "[B------:R-:W-:-:S01]",
            "[B0-2---:R1:W-:Y:S04]",
            "[B012345:R5:W4:-:S15]",
            "[B-----5:R-:W0:Y:S11]",
        ] {
            let control = sass::Control::from_text(text).expect(text);
            let word = ControlWord::from(control);
            assert_eq!(word.to_string(), text);
            assert_eq!(word.field(), Ok(control), "{text}");
            assert_eq!(word.stall(), control.stall());
            assert_eq!(word.yields(), control.yields);
            assert_eq!(word.read_barrier(), control.read_barrier);
            assert_eq!(word.write_barrier(), control.write_barrier);
            assert_eq!(word.wait_mask(), control.wait.bits());
        }
    }

    #[test]
    fn a_combination_that_does_not_exist_has_no_field() {
        let word = ControlWord::PLAIN.with_yield(true);
        assert!(word.field().is_ok());
        assert!(word.with_stall(12).field().is_err());
    }
}
