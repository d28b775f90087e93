//! Which opcode values are instructions, and which encoding classes each has.

use super::Nvdisasm;
use std::collections::BTreeMap;

/// Opcode (bits 0–11, bit 91 above them) and class, with words that have them.
pub type Classes = BTreeMap<(u16, String), Vec<u128>>;

/// Words tried for each opcode in the first round, which finds the opcodes that exist.
const FIRST_ROUND: usize = 8;
/// Words tried for each opcode that exists: rare classes fix many bits.
const SECOND_ROUND: usize = 400;
/// Words kept of each class.
const KEPT: usize = 24;

/// Finds opcodes and classes by trying words with few, some, and many bits set.
pub fn classes(nvdisasm: &Nvdisasm) -> Result<Classes, String> {
    let mut random = Random(0x0123_4567_89ab_cdef);
    let mut known = Vec::new();
    let all: Vec<u16> = (0..1 << 13).collect();
    let words: Vec<u128> = all
        .iter()
        .flat_map(|opcode| vec![*opcode; FIRST_ROUND])
        .enumerate()
        .map(|(round, opcode)| random.word(opcode, round))
        .collect();
    let found = nvdisasm.classes(&words)?;
    for (opcode, found) in all.iter().zip(found.chunks(FIRST_ROUND)) {
        if found.iter().any(Option::is_some) {
            known.push(*opcode);
        }
    }
    let mut classes = Classes::new();
    for opcodes in known.chunks(32) {
        let words: Vec<u128> = opcodes
            .iter()
            .flat_map(|opcode| vec![*opcode; SECOND_ROUND])
            .enumerate()
            .map(|(round, opcode)| random.word(opcode, round))
            .collect();
        for (word, class) in words.iter().zip(nvdisasm.classes(&words)?) {
            if let Some(class) = class {
                let kept = classes.entry((opcode_of(*word), class)).or_default();
                if kept.len() < KEPT {
                    kept.push(*word);
                }
            }
        }
    }
    Ok(classes)
}

/// Bits 0–11 and 91.
pub fn opcode_of(word: u128) -> u16 {
    (word & 0xfff) as u16 | ((word >> 91 & 1) as u16) << 12
}

/// xorshift64*: small, seeded, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u128 {
        let mut half = || {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d))
        };
        half() << 64 | half()
    }

    /// A word with this opcode, no guard, and bits of a density that changes with the round.
    fn word(&mut self, opcode: u16, round: usize) -> u128 {
        let noise = match round % 4 {
            0 => self.next(),
            1 => self.next() & self.next(),
            2 => self.next() & self.next() & self.next(),
            _ => self.next() | self.next(),
        };
        let opcode = u128::from(opcode);
        let free = noise & ((1 << 105) - 1) & !0xffff & !(1 << 91);
        free | 7 << 12 | opcode & 0xfff | (opcode >> 12) << 91
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, opcode_of};

    #[test]
    fn a_random_word_keeps_its_opcode() {
        let mut random = Random(1);
        for round in 0..8 {
            assert_eq!(opcode_of(random.word(0x1abc, round)), 0x1abc);
        }
    }
}
