//! What flipping each bit of a class's words does.

use super::text::{Change, change, is_clean, parts};
use super::{Nvdisasm, ranges};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Words each bit is flipped in.
const BASES: usize = 4;

/// What one flipped bit led to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Refused,
    OtherClass(String),
    Text(Change),
}

/// What is known about a class after flipping every bit.
pub struct Findings {
    /// Words that print cleanly, with their texts.
    pub bases: Vec<(u128, String)>,
    /// Bits of numbers: operand, which of its numbers and its prefix, then word bit and number bit.
    numbers: BTreeMap<(usize, usize, String), Vec<(u8, u32)>>,
    floats: BTreeMap<usize, Vec<u8>>,
    ignored: Vec<u8>,
    refused: Vec<u8>,
    other_classes: BTreeMap<String, Vec<u8>>,
    /// Bits that change the text in another way.
    pub modifiers: Vec<u8>,
}

/// The bits the probe flips: above the guard, below the control field, without the opcode's bit 91.
fn flippable() -> impl Iterator<Item = u8> + Clone {
    (16..105).filter(|bit| *bit != 91)
}

/// Flips every bit of a few words of a class. `None` if no word of it prints cleanly.
pub fn flip(
    nvdisasm: &Nvdisasm,
    class: &str,
    samples: &[u128],
) -> Result<Option<Findings>, String> {
    let mut bases: Vec<(u128, String)> = samples
        .iter()
        .zip(nvdisasm.texts(samples)?)
        .filter_map(|(word, text)| Some((*word, text.filter(|text| is_clean(text))?)))
        .collect();
    if bases.is_empty() {
        return Ok(None);
    }
    // The longest operand lists show the most.
    bases.sort_by_key(|(_, text)| std::cmp::Reverse(parts(text).operands.len()));
    bases.truncate(BASES);
    let flipped: Vec<u128> = bases
        .iter()
        .flat_map(|(word, _)| flippable().map(move |bit| word ^ 1 << bit))
        .collect();
    let texts = nvdisasm.texts(&flipped)?;
    let classes = nvdisasm.classes(&flipped)?;
    let width = flippable().count();
    let mut findings = Findings {
        numbers: BTreeMap::new(),
        floats: BTreeMap::new(),
        ignored: Vec::new(),
        refused: Vec::new(),
        other_classes: BTreeMap::new(),
        modifiers: Vec::new(),
        bases,
    };
    for (index, bit) in flippable().enumerate() {
        let outcomes: Vec<Outcome> = (0..findings.bases.len())
            .map(|base| {
                let at = base * width + index;
                match (&texts[at], &classes[at]) {
                    (None, _) => Outcome::Refused,
                    (Some(_), Some(other)) if other != class => Outcome::OtherClass(other.clone()),
                    (Some(text), _) => Outcome::Text(change(&findings.bases[base].1, text)),
                }
            })
            .collect();
        findings.note(bit, &outcomes);
    }
    Ok(Some(findings))
}

impl Findings {
    fn note(&mut self, bit: u8, outcomes: &[Outcome]) {
        let all = |wanted: &Outcome| outcomes.iter().all(|outcome| outcome == wanted);
        if all(&Outcome::Text(Change::None)) {
            return self.ignored.push(bit);
        }
        if all(&Outcome::Refused) {
            return self.refused.push(bit);
        }
        if let Outcome::OtherClass(class) = &outcomes[0]
            && all(&outcomes[0])
        {
            return self
                .other_classes
                .entry(class.clone())
                .or_default()
                .push(bit);
        }
        for outcome in outcomes {
            match outcome {
                Outcome::Text(Change::Number(operand, token, prefix, number_bit)) => {
                    let key = (*operand, *token, prefix.clone());
                    return self
                        .numbers
                        .entry(key)
                        .or_default()
                        .push((bit, *number_bit));
                }
                Outcome::Text(Change::Float(operand)) => {
                    return self.floats.entry(*operand).or_default().push(bit);
                }
                _ => {}
            }
        }
        self.modifiers.push(bit);
    }

    /// Appends what was found, bits of modifiers apart.
    pub fn write(&self, out: &mut String) {
        for (word, text) in &self.bases {
            let _ = writeln!(out, "  {word:032x} {text}");
        }
        for ((operand, token, prefix), bits) in &self.numbers {
            let word_bits: Vec<u8> = bits.iter().map(|(bit, _)| *bit).collect();
            let lowest = bits.iter().map(|(_, bit)| *bit).min().unwrap_or(0);
            let _ = writeln!(
                out,
                "  operand {operand}.{token} {prefix}: bits {} from number bit {lowest}",
                ranges(&word_bits)
            );
        }
        for (operand, bits) in &self.floats {
            let _ = writeln!(out, "  operand {operand} float: bits {}", ranges(bits));
        }
        let _ = writeln!(out, "  ignored: {}", ranges(&self.ignored));
        let _ = writeln!(out, "  refused when flipped: {}", ranges(&self.refused));
        for (class, bits) in &self.other_classes {
            let _ = writeln!(out, "  {class} when flipped: {}", ranges(bits));
        }
    }
}
