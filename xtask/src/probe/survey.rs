//! Which opcode values are instructions, and which encoding classes each has.

use super::Nvdisasm;
use orias_random::Rng;
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
    let mut random = Rng::new(0x0123_4567_89ab_cdef);
    let mut known = Vec::new();
    let all: Vec<u16> = (0..1 << 13).collect();
    let words: Vec<u128> = all
        .iter()
        .flat_map(|opcode| vec![*opcode; FIRST_ROUND])
        .enumerate()
        .map(|(round, opcode)| word(&mut random, opcode, round))
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
            .map(|(round, opcode)| word(&mut random, opcode, round))
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

/// A word with this opcode, no guard, and bits of a density that changes with the round.
fn word(random: &mut Rng, opcode: u16, round: usize) -> u128 {
    let mut noise = || random.next_u128();
    let noise = match round % 4 {
        0 => noise(),
        1 => noise() & noise(),
        2 => noise() & noise() & noise(),
        _ => noise() | noise(),
    };
    let opcode = u128::from(opcode);
    let free = noise & ((1 << 105) - 1) & !0xffff & !(1 << 91);
    free | 7 << 12 | opcode & 0xfff | (opcode >> 12) << 91
}

#[cfg(test)]
mod tests {
    use super::{opcode_of, word};
    use orias_random::Rng;

    #[test]
    fn a_random_word_keeps_its_opcode() {
        let mut random = Rng::new(1);
        for round in 0..8 {
            assert_eq!(opcode_of(word(&mut random, 0x1abc, round)), 0x1abc);
        }
    }
}
