//! Control words: what the hardware is told about waiting, on each instruction of finished code.
//!
//! `[B0-2---:R1:W-:Y:S04]` reads: wait for barriers 0 and 2, then issue; count read barrier 1 until the sources have been
//! read; no write barrier; yield bit set; four cycles until the next instruction. The reuse flags are on the operands.

use std::fmt;

/// The control fields of one instruction, packed as the instruction word has them; or none yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ControlWord(u32);

/// How many scoreboard barriers a warp has.
pub const BARRIERS: u8 = 6;

/// What a barrier field holds when the instruction sets none.
const NO_BARRIER: u32 = 7;

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

    /// Cycles until the warp's next instruction may issue: 0 to 15.
    pub const fn stall(self) -> u8 {
        ControlWord::STALL.get(self.0)
    }

    /// The bit usually called yield.
    pub const fn yields(self) -> bool {
        ControlWord::YIELD.get(self.0) != 0
    }

    /// The barrier that counts down when the results are written.
    pub const fn write_barrier(self) -> Option<u8> {
        barrier(ControlWord::WRITE.get(self.0))
    }

    /// The barrier that counts down when the sources have been read.
    pub const fn read_barrier(self) -> Option<u8> {
        barrier(ControlWord::READ.get(self.0))
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

    /// The same with another write barrier. Numbers past 5 name no barrier; the verifier refuses them.
    #[must_use]
    pub const fn with_write_barrier(self, barrier: Option<u8>) -> ControlWord {
        ControlWord(ControlWord::WRITE.set(self.0, barrier_bits(barrier)))
    }

    /// The same with another read barrier. Numbers past 5 name no barrier; the verifier refuses them.
    #[must_use]
    pub const fn with_read_barrier(self, barrier: Option<u8>) -> ControlWord {
        ControlWord(ControlWord::READ.set(self.0, barrier_bits(barrier)))
    }

    /// The same with another wait mask, of which the low six bits count.
    #[must_use]
    pub const fn with_wait_mask(self, mask: u8) -> ControlWord {
        ControlWord(ControlWord::WAIT.set(self.0, mask as u32))
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

const fn barrier(bits: u8) -> Option<u8> {
    if bits as u32 == NO_BARRIER {
        None
    } else {
        Some(bits)
    }
}

const fn barrier_bits(barrier: Option<u8>) -> u32 {
    match barrier {
        Some(number) => number as u32,
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
        if !self.is_some() {
            return Ok(());
        }
        f.write_str("[B")?;
        for number in 0..BARRIERS {
            if self.wait_mask() >> number & 1 != 0 {
                write!(f, "{number}")?;
            } else {
                f.write_str("-")?;
            }
        }
        for (letter, set) in [(":R", self.read_barrier()), (":W", self.write_barrier())] {
            f.write_str(letter)?;
            match set {
                Some(number) => write!(f, "{number}")?,
                None => f.write_str("-")?,
            }
        }
        let yields = if self.yields() { "Y" } else { "-" };
        write!(f, ":{yields}:S{:02}]", self.stall())
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
            .with_read_barrier(Some(1));
        assert_eq!(word.to_string(), "[B0-2---:R1:W-:Y:S04]");
        assert_eq!(word.write_barrier(), None);
        assert_eq!(word.with_read_barrier(None).read_barrier(), None);
        assert!(word.is_some() && !ControlWord::NONE.is_some());
    }
}
