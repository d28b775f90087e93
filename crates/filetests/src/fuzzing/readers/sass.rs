//! Instructions as text and as words.

use super::{Target, texts};
use orias_sass as sass;
use orias_sass::text::{parse_instruction, print_instruction};

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "sass_text",
        seeds: || texts(SASS_SEEDS),
        words: &[
            "@!P0", "UR4", "RZ", ".reuse", "desc[", "][", "c[0x0]", "0x", "-", "|", "~", "!", "+",
            ".64", ";", "`(", "R255",
        ],
        check: sass_text,
    },
    Target {
        name: "sass_words",
        seeds: || {
            SASS_WORDS
                .iter()
                .map(|word| word.to_le_bytes().to_vec())
                .collect()
        },
        words: &[],
        check: sass_words,
    },
];

const SASS_SEEDS: &[&str] = &[
    "[B0-----:R-:W1:-:S02] @!P0 LDS.64 R4, [R2+UR4+0x10] ;",
    "IADD3 R4, R2, 0x1, RZ ;",
    "LDG.E.128 R4, desc[UR4][R2.64+0x10] ;",
    "FFMA R0, R1, -R2, R3 ;",
    "@P0 BRA 0x40 ;",
];

/// An EXIT, a NOP and an IADD3, as ptxas encodes them.
const SASS_WORDS: &[u128] = &[
    0x000fea0003800000_000000000000794d,
    0x000fc00000000000_0000000000007918,
    0x000fe40007ffe0ff_0000000102047810,
];

/// What can be read encodes to a word that decodes to the same instruction.
fn sass_text(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for line in text.lines() {
        let Ok(parsed) = parse_instruction(line, 0x100, sass::Target::DEFAULT) else {
            continue;
        };
        if let Ok(word) = sass::encode(&parsed.instruction) {
            assert_eq!(
                sass::decode(word, sass::Target::DEFAULT).as_ref(),
                Ok(&parsed.instruction),
                "{line}"
            );
        }
    }
}

/// A word that decodes encodes to itself.
fn sass_words(input: &[u8]) {
    for bytes in input.chunks_exact(16) {
        let word = u128::from_le_bytes(bytes.try_into().unwrap_or_default());
        if let Ok(instruction) = sass::decode(word, sass::Target::DEFAULT) {
            assert_eq!(sass::encode(&instruction), Ok(word), "{instruction:?}");
            let _ = print_instruction(&instruction, 0x100);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_good_instructions() {
        for seed in SASS_SEEDS {
            let parsed = parse_instruction(seed, 0, sass::Target::DEFAULT);
            assert!(parsed.is_ok(), "{seed}: {parsed:?}");
        }
        for &word in SASS_WORDS {
            assert!(
                sass::decode(word, sass::Target::DEFAULT).is_ok(),
                "{word:x}"
            );
        }
    }
}
