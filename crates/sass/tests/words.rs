//! Words that ptxas emitted, with what nvdisasm prints for them.

use orias_sass::text::{Printer, parse_instruction, print_instruction};
use orias_sass::{Target, decode, encode, reads_as};

const RECORDED: &str = include_str!("words.txt");

/// White space is not part of the comparison: nvdisasm puts a space after words such as `+INF`.
fn normalize(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn recorded_words_print_as_nvdisasm_printed_them_and_come_back() {
    let mut seen = 0;
    let mut failures = Vec::new();
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().expect("address, word, text");
        let pc = u64::from_str_radix(part(), 16).expect("a hexadecimal address");
        let word = u128::from_str_radix(&part().replace('_', ""), 16).expect("a word");
        let expected = part();
        seen += 1;
        let instruction = match decode(word, Target::Sm90a) {
            Ok(instruction) => instruction,
            Err(error) => {
                failures.push(format!("{line}: {error}"));
                continue;
            }
        };
        let printed = normalize(&print_instruction(&instruction, pc));
        if printed != expected {
            failures.push(format!("{line}: printed as {printed}"));
        }
        if encode(&instruction) != Ok(word) {
            failures.push(format!("{line}: encodes to another word"));
        }
        let mut text = instruction.control.to_string();
        text.push(' ');
        Printer { exact: true }.write(&mut text, &instruction, pc, |_| None);
        match parse_instruction(&text, pc, Target::Sm90a) {
            Ok(parsed) if encode(&parsed.instruction) == Ok(word) => {}
            other => failures.push(format!("{line}: '{text}' reads as {other:?}")),
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {seen}:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(seen > 100, "only {seen} words are recorded");
}

#[test]
fn a_flipped_bit_of_a_recorded_word_decodes_to_what_encodes_back_or_is_refused() {
    let (mut decoded, mut refused) = (0, 0);
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let word = line.split(' ').nth(1).expect("address, word, text");
        let word = u128::from_str_radix(&word.replace('_', ""), 16).expect("a word");
        for bit in 0..128 {
            let flipped = word ^ 1 << bit;
            match decode(flipped, Target::Sm90a) {
                Ok(instruction) => {
                    decoded += 1;
                    assert_eq!(encode(&instruction), Ok(flipped), "bit {bit} of {line}");
                    assert!(reads_as(flipped, &instruction, Target::Sm90a));
                    assert!(
                        !reads_as(word, &instruction, Target::Sm90a),
                        "bit {bit} of {line}"
                    );
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
        }
    }
    assert!(decoded > 0 && refused > 0, "{decoded} and {refused}");
}
